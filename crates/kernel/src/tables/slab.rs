//! Values in numbered slots. Grows by chunks, so that memory follows the number of values and nothing is
//! ever moved; freed slots are used again, last freed first.

const CHUNK: usize = 1 << 10;

/// A number that names no slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            let place = &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK];
            assert!(place.is_none(), "invariant: a free slot is empty");
            *place = Some(value);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let last = self.chunks.len() - 1;
        let slot =
            u32::try_from(last * CHUNK + self.chunks[last].len()).expect("invariant: fewer than 2^32 slots");
        self.chunks[last].push(Some(value));
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) -> T {
        let value = self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
            .take()
            .expect("invariant: a removed slot was filled");
        self.free.push(slot);
        self.len -= 1;
        value
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.chunks.get(slot as usize / CHUNK)?.get(slot as usize % CHUNK)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().enumerate().flat_map(|(chunk_index, chunk)| {
            chunk.iter().enumerate().filter_map(move |(index, value)| {
                value.as_ref().map(|value| ((chunk_index * CHUNK + index) as u32, value))
            })
        })
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: u32) -> &T {
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
            .as_ref()
            .expect("invariant: an indexed slot is filled")
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
            .as_mut()
            .expect("invariant: an indexed slot is filled")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_slots_are_used_again_and_others_stay() {
        let mut slab = Slab::new();
        let slots: Vec<u32> = (0..3000).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.remove(slots[1500]), 1500);
        assert_eq!(slab.len(), 2999);
        assert!(slab.get(slots[1500]).is_none());
        assert_eq!(slab.insert(7), slots[1500]);
        assert_eq!(slab[slots[2999]], 2999);
        assert_eq!(slab.iter().count(), 3000);
        assert!(slab.get(NO_SLOT).is_none());
    }
}
