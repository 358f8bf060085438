//! One copy of each equal value, counted. Holders, principals and terms repeat; a lease names them by number.

use super::index::Index;
use super::slab::{NO_SLOT, Slab};
use crate::hashing::Hashing;
use core::hash::{BuildHasher, Hash};

#[derive(Clone, Debug)]
pub(crate) struct Interner<T> {
    rows: Slab<Row<T>>,
    index: Index,
    hashing: Hashing,
    /// The value used last: most callers repeat themselves.
    last: u32,
}

#[derive(Clone, Debug)]
struct Row<T> {
    value: T,
    uses: u32,
}

impl<T: Hash + Eq + Clone> Interner<T> {
    pub(crate) fn new(hashing: Hashing) -> Self {
        Self { rows: Slab::new(), index: Index::new(), hashing, last: NO_SLOT }
    }

    pub(crate) fn find(&self, value: &T) -> Option<u32> {
        if self.is_last(value) {
            return Some(self.last);
        }
        let hash = self.hashing.hash_one(value);
        self.index.find(hash, |&slot| self.rows[slot].value == *value)
    }

    /// The number of `value`, used once more.
    pub(crate) fn acquire(&mut self, value: &T) -> u32 {
        if !self.is_last(value) {
            self.last = self.find_or_insert(value);
        }
        self.rows[self.last].uses += 1;
        self.last
    }

    /// Uses a value once more by its number.
    pub(crate) fn acquire_again(&mut self, slot: u32) {
        self.rows[slot].uses += 1;
    }

    fn is_last(&self, value: &T) -> bool {
        self.rows.get(self.last).is_some_and(|row| row.value == *value)
    }

    fn find_or_insert(&mut self, value: &T) -> u32 {
        let hash = self.hashing.hash_one(value);
        if let Some(slot) = self.index.find(hash, |&slot| self.rows[slot].value == *value) {
            return slot;
        }
        let slot = self.rows.insert(Row { value: value.clone(), uses: 0 });
        let (rows, hashing) = (&self.rows, &self.hashing);
        self.index.insert(hash, slot, |&slot| hashing.hash_one(&rows[slot].value));
        slot
    }

    /// Gives one use back; the last one frees the value.
    pub(crate) fn release(&mut self, slot: u32) {
        self.rows[slot].uses -= 1;
        if self.rows[slot].uses > 0 {
            return;
        }
        let hash = self.hashing.hash_one(&self.rows[slot].value);
        self.index.remove(hash, slot);
        self.rows.remove(slot);
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> &T {
        &self.rows[slot].value
    }

    pub(crate) fn uses(&self, slot: u32) -> u32 {
        self.rows[slot].uses
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T, u32)> {
        self.rows.iter().map(|(slot, row)| (slot, &row.value, row.uses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_number_until_the_last_use_ends() {
        let mut interner = Interner::new(Hashing::fixed(1));
        let a = interner.acquire(&"a".to_owned());
        let b = interner.acquire(&"b".to_owned());
        assert_ne!(a, b);
        assert_eq!(interner.acquire(&"a".to_owned()), a);
        assert_eq!(interner.uses(a), 2);
        interner.release(a);
        assert_eq!(interner.find(&"a".to_owned()), Some(a));
        interner.release(a);
        assert_eq!(interner.find(&"a".to_owned()), None);
        assert_eq!(interner.len(), 1);
        assert_eq!(interner.iter().map(|(_, value, _)| value.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_value_is_found_whichever_was_used_last() {
        let mut interner = Interner::new(Hashing::fixed(1));
        let slots: Vec<u32> = (0..50).map(|n| interner.acquire(&n)).collect();
        for (n, slot) in slots.iter().enumerate() {
            assert_eq!(interner.find(&n), Some(*slot));
        }
        assert_eq!(interner.find(&50), None);
        // The value used last goes, and its slot comes back as another's.
        interner.release(slots[49]);
        assert_eq!(interner.find(&49), None);
        let slot = interner.acquire(&77);
        assert_eq!((slot, interner.find(&49), interner.find(&77)), (slots[49], None, Some(slot)));
        interner.acquire_again(slots[3]);
        assert_eq!((interner.uses(slots[3]), interner.uses(slots[4])), (2, 1));
    }
}
