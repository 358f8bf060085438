//! What liveness knows of one lease, beside the kernel's record and in the same slot.

use tenure_kernel::{Epoch, Lsn, Tick};

/// The instant that deadlines count from, and whether a proof of life came then: after a restart or an operator's revive
/// time begins anew, and nobody was heard. One word, so that a heartbeat stays one store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountsFrom(u64);

const UNHEARD: u64 = 1 << 63;

impl CountsFrom {
    /// A proof of life came at this instant.
    #[inline]
    pub(crate) const fn heard(at: Tick) -> Self {
        Self(if at.0 < UNHEARD { at.0 } else { UNHEARD - 1 })
    }

    /// Time begins anew at this instant, and no proof of life came.
    pub(crate) const fn unheard(at: Tick) -> Self {
        Self(Self::heard(at).0 | UNHEARD)
    }

    pub(crate) const fn tick(self) -> Tick {
        Tick(self.0 & !UNHEARD)
    }

    /// When the last proof of life came; `None` where none came since time began anew.
    pub(crate) fn last_seen(self) -> Option<Tick> {
        (self.0 & UNHEARD == 0).then(|| self.tick())
    }
}

/// One cache line a lease: an ordinary heartbeat touches this and nothing else of the lease.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) counts_from: CountsFrom,
    /// What the holder was promised lasts until here.
    pub(crate) promised_until: Tick,
    pub(crate) phase: Phase,
    /// The kernel's epoch of the lease, copied.
    pub(crate) epoch: Epoch,
    /// The kernel's position of the lease's last change, copied: what an answer rests on.
    pub(crate) changed_lsn: Lsn,
    /// What an ordinary heartbeat promises; zero where it takes more than this entry to know.
    pub(crate) beat_ms: u32,
    /// Timers of earlier armings no longer count.
    pub(crate) arming: u32,
    /// Whose voice keeps it: the kernel's number of a holder it counts for while heard, or the slot of its
    /// session with the session bit.
    pub(crate) voice: u32,
    /// The kernel's number of its holder, copied: a rebind is followed when the kernel knows only the new one.
    pub(crate) holder: u32,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// Where a lease stands. Leases of a session follow the session while `Alive`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// No lease here, or one without liveness: reserved.
    Idle,
    /// Proof of life is current, or none is asked.
    Alive,
    /// Silent; honoured until here.
    Draining { until: Tick },
    /// An operator asked it to end; honoured until here.
    Drained { until: Tick, since_ms: u32 },
    /// Revoked; no reclaim before this.
    Revoking { earliest: Tick, wait: Wait },
}

/// What reclaim waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The promise, or the delay after it.
    Promise,
    /// The holder of an open connection: acknowledge, close, or time.
    Connection,
    /// Only the delay: the holder acknowledged.
    Acknowledged,
    /// Only the delay: the face's rule.
    AtOnce,
}

impl Entry {
    pub(crate) const NONE: Self = Self {
        counts_from: CountsFrom::unheard(Tick(0)),
        promised_until: Tick(0),
        phase: Phase::Idle,
        epoch: Epoch::FIRST,
        changed_lsn: Lsn(0),
        beat_ms: 0,
        arming: 0,
        voice: NO_VOICE,
        holder: NO_VOICE,
    };
}

/// The lease is not counted among the voices; of a holder, that none is known.
pub(crate) const NO_VOICE: u32 = u32::MAX;
