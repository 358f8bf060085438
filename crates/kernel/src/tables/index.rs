//! Slots by the hash of what they hold. One table would move all its entries in the turn of the grant that fills it; of
//! many small ones each moves its own, in different turns.

use hashbrown::HashTable;

/// At a million entries a part has a thousand, and a turn fills a dozen of them.
const PARTS: usize = 1 << 10;
/// Bits that the parts' own tables use last: they take the lowest for the place and the highest seven for the tag.
const SHIFT: u32 = 40;

#[derive(Clone, Debug)]
pub(crate) struct Index {
    parts: Box<[HashTable<u32>; PARTS]>,
}

#[inline(always)]
fn number(hash: u64) -> usize {
    (hash >> SHIFT) as usize % PARTS
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { parts: Box::new([const { HashTable::new() }; PARTS]) }
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&u32) -> bool) -> Option<u32> {
        self.parts[number(hash)].find(hash, is_it).copied()
    }

    /// Adds a slot that is not there.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(&u32) -> u64) {
        self.parts[number(hash)].insert_unique(hash, slot, hash_of);
    }

    /// Removes a slot that is there.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        self.parts[number(hash)]
            .find_entry(hash, |&other| other == slot)
            .expect("invariant: what is removed is indexed")
            .remove();
    }

    pub(crate) fn reserve(&mut self, slots: usize, hash_of: impl Fn(&u32) -> u64) {
        for part in self.parts.iter_mut() {
            part.reserve(slots / PARTS, &hash_of);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }

    #[cfg(test)]
    pub(crate) fn clear(&mut self) {
        self.parts.iter_mut().for_each(HashTable::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashing::Hashing;
    use core::cell::Cell;
    use core::hash::BuildHasher;

    #[test]
    fn growing_moves_few_entries_at_a_time() {
        let hashing = Hashing::fixed(1);
        let (mut index, moved, mut longest) = (Index::new(), Cell::new(0), 0);
        for slot in 0..1_000_000 {
            moved.set(0);
            index.insert(hashing.hash_one(slot), slot, |other| {
                moved.set(moved.get() + 1);
                hashing.hash_one(other)
            });
            longest = longest.max(moved.get());
        }
        assert_eq!(index.len(), 1_000_000);
        assert!(longest <= 2_000, "one insert moved {longest}");
        for slot in [0, 1, 999_999] {
            assert_eq!(index.find(hashing.hash_one(slot), |&other| other == slot), Some(slot));
            index.remove(hashing.hash_one(slot), slot);
            assert_eq!(index.find(hashing.hash_one(slot), |&other| other == slot), None);
        }
    }
}
