//! How the kernel's tables hash names. Nothing that leaves the kernel depends on it.

use core::hash::BuildHasher;
use foldhash::SharedSeed;
use foldhash::fast::{FoldHasher, SeedableRandomState};

/// Hashes names for the tables of one kernel.
#[derive(Clone, Debug)]
pub struct Hashing(SeedableRandomState);

impl Hashing {
    /// The same in every process: for scripts, simulations and counted instructions. Anybody can compute names that
    /// collide under it.
    #[must_use]
    pub fn fixed(seed: u64) -> Self {
        Self(SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
    }

    /// From random numbers that nobody else knows, so that nobody can compute names that collide. Both parts count:
    /// under known shared seeds some names collide whatever the other seed is. Keeps a few bytes for the rest of the
    /// process, so a process calls it once.
    #[must_use]
    pub fn secret(random: [u64; 2]) -> Self {
        let shared = Box::leak(Box::new(SharedSeed::from_u64(random[0])));
        Self(SeedableRandomState::with_seed(random[1], shared))
    }
}

impl BuildHasher for Hashing {
    type Hasher = FoldHasher<'static>;

    #[inline(always)]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second of the seeds that every process shares.
    const KNOWN: u64 = 0x3f84_d5b5_b547_0917;

    /// Sixteen bytes are hashed as a product of two words, of which the second is `word ^ seed`: a second word that
    /// equals the seed makes it 0, whatever the first word and the other seed are.
    fn colliding(first: u64) -> Vec<u8> {
        [first, KNOWN].map(u64::to_le_bytes).concat()
    }

    #[test]
    fn names_that_collide_under_known_seeds_do_not_under_secret_ones() {
        let hashes = |hashing: &Hashing| {
            let mut hashes: Vec<u64> =
                (0..100).map(|first| hashing.hash_one(Bytes(&colliding(first)))).collect();
            hashes.sort_unstable();
            hashes.dedup();
            hashes.len()
        };
        assert_eq!(hashes(&Hashing::fixed(7)), 1, "the attack works at all");
        assert_eq!(hashes(&Hashing::fixed(8)), 1, "whatever the seed");
        assert_eq!(hashes(&Hashing::secret([1, 2])), 100);
    }

    /// Bytes without their length, as text is hashed.
    struct Bytes<'a>(&'a [u8]);

    impl core::hash::Hash for Bytes<'_> {
        fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
            state.write(self.0);
        }
    }
}
