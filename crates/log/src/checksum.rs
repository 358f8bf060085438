//! crc32c with a seed. The only file that knows which crate computes it.

use crc_fast::{CrcAlgorithm, Digest};

/// A running crc32c.
pub(crate) struct Checksum(Digest);

impl Checksum {
    /// Starts from `seed`; seed 0 is the plain CRC-32C.
    pub(crate) fn seeded(seed: u32) -> Self {
        Self(Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!seed)))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

/// The crc32c of `bytes`, started from `seed`.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let mut checksum = Checksum::seeded(seed);
    checksum.update(bytes);
    checksum.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_zero_is_the_standard_crc32c() {
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn another_seed_gives_another_checksum() {
        assert_ne!(crc32c(1, b"123456789"), crc32c(0, b"123456789"));
    }
}
