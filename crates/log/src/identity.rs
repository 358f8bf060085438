//! Who a log is: drawn once when it is created, and again when a backup is restored.

use crate::ids::Lsn;

/// The identity in a log's segment headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Random; two logs never share it.
    pub log_id: u64,
    /// Random, 20 bits: the first part of every id on the wire.
    pub tag: u32,
    /// What is added to an LSN to make a fence: unix seconds at creation, shifted left by 20.
    pub fence_base: u64,
    /// Which shard of a larger system this log is.
    pub shard: u64,
    /// Random; every frame checksum starts from it, so that client bytes never look like a frame.
    pub salt: u32,
}

impl Identity {
    /// Bits of `tag`.
    pub const TAG_BITS: u32 = 20;

    /// The fence of an authority that began at `lsn`.
    pub const fn fence(&self, lsn: Lsn) -> u64 {
        self.fence_base + lsn.0
    }
}

/// What a new identity is made from. Randomness and time enter as values, so that a simulated log is reproducible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Genesis {
    /// Sixteen random bytes.
    pub random: [u8; 16],
    /// Unix seconds now.
    pub unix_seconds: u64,
    /// Which shard of a larger system this log is.
    pub shard: u64,
}

impl Genesis {
    const FENCE_SHIFT: u32 = 20;

    /// The identity of a log that begins with these values.
    pub fn identity(&self) -> Identity {
        let [first, second] = [0, 8].map(|at| crate::bytes::u64_at(&self.random, at));
        Identity {
            log_id: first,
            tag: (second >> 32) as u32 & ((1 << Identity::TAG_BITS) - 1),
            fence_base: self.unix_seconds << Self::FENCE_SHIFT,
            shard: self.shard,
            salt: second as u32,
        }
    }

    /// The identity of a log restored from a backup that ended at `last`. Its fences lie above every fence the old
    /// log can have given after the backup, up to a million LSNs, even if the wall clock was set back.
    pub fn restored(&self, old: &Identity, last: Lsn) -> Identity {
        let fresh = self.identity();
        let above_old = old.fence_base + last.0 + (1 << Self::FENCE_SHIFT);
        Identity { fence_base: fresh.fence_base.max(above_old), shard: old.shard, ..fresh }
    }
}
