//! Free members of a pool, lowest first: one bit a member and one summary bit for every 64 of those.

/// Numbers from 1 to some size, each free or not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FreeSet {
    words: Vec<u64>,
    summary: Vec<u64>,
    count: u32,
}

impl FreeSet {
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        let (word, bit) = place(number);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    pub(crate) fn insert(&mut self, number: u32) {
        let (word, bit) = place(number);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
            self.summary.resize(word / 64 + 1, 0);
        }
        if self.words[word] & bit == 0 {
            self.words[word] |= bit;
            self.summary[word / 64] |= 1 << (word % 64);
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        let (word, bit) = place(number);
        let Some(bits) = self.words.get_mut(word) else { return };
        if *bits & bit != 0 {
            *bits &= !bit;
            self.count -= 1;
            if *bits == 0 {
                self.summary[word / 64] &= !(1 << (word % 64));
            }
        }
    }

    /// Free numbers in rising order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        ones(&self.summary).flat_map(|word| {
            let bits = core::slice::from_ref(&self.words[word as usize]);
            ones(bits).map(move |bit| word * 64 + bit + 1)
        })
    }
}

fn place(number: u32) -> (usize, u64) {
    let index = number - 1;
    ((index / 64) as usize, 1 << (index % 64))
}

fn ones(words: &[u64]) -> impl Iterator<Item = u32> {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        core::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            Some(index as u32 * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn behaves_like_an_ordered_set() {
        let mut set = FreeSet::default();
        let mut model = BTreeSet::new();
        let mut state = 99_u64;
        for _ in 0..5_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let number = (state >> 33) as u32 % 65_536 + 1;
            if state >> 63 == 0 {
                set.insert(number);
                model.insert(number);
            } else {
                set.remove(number);
                model.remove(&number);
            }
            assert_eq!(set.contains(number), model.contains(&number));
            assert_eq!(set.count() as usize, model.len());
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
    }
}
