//! The affinity of a target to a poller: a number that any implementation in any language can compute.

use crate::Member;
use twox_hash::XxHash64;

/// The hash function that decides which member a target prefers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hash {
    /// XXH64 (seed 0) over the target, a zero byte and the poller; with weights, a load cap and few moves.
    #[default]
    Xxh64,
    /// FNV-1a (64 bits) over the poller and the target without a separator, as older programs compute it. Has no weights
    /// and no load cap; targets with sequential names go to the same poller.
    Fnv1a,
}

/// A score. A target prefers the member with the greatest one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Score(u64);

impl Hash {
    pub(crate) fn score(self, member: &Member<'_>, target: &str) -> Score {
        match self {
            Self::Xxh64 => weighted(xxh64(target, member.name), member.weight),
            Self::Fnv1a => Score(fnv1a(&[member.name.as_bytes(), target.as_bytes()])),
        }
    }
}

/// Names of up to this length together are hashed without an allocation.
const BYTES_MAX: usize = 256;

/// XXH64 with seed 0 over `target`, 0x00, `poller`.
pub(crate) fn xxh64(target: &str, poller: &str) -> u64 {
    let length = target.len() + 1 + poller.len();
    if length <= BYTES_MAX {
        let mut bytes = [0; BYTES_MAX];
        bytes[..target.len()].copy_from_slice(target.as_bytes());
        bytes[target.len() + 1..length].copy_from_slice(poller.as_bytes());
        return XxHash64::oneshot(0, &bytes[..length]);
    }
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(target.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(poller.as_bytes());
    XxHash64::oneshot(0, &bytes)
}

/// FNV-1a, 64 bits, over the concatenated pieces.
pub(crate) fn fnv1a(pieces: &[&[u8]]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    pieces.iter().copied().flatten().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// The logarithmic method: a poller of twice the weight is the first choice of twice as many targets.
pub(crate) fn weighted(hash: u64, weight: u32) -> Score {
    // The upper 52 bits and a half, which a float holds exactly: neither 0 nor 1, so that the logarithm is finite and
    // below zero.
    let unit = ((hash >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    let score = -f64::from(weight) / unit.ln();
    // Numbers that are not negative compare as their bits do.
    Score(score.to_bits())
}
