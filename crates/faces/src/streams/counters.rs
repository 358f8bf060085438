//! What is counted of streams since the start.

use std::sync::atomic::{AtomicU64, Ordering};
use tenure_api::ErrorCode;

#[derive(Debug)]
pub(crate) struct StreamCounters {
    lease_expired: AtomicU64,
    heartbeats: AtomicU64,
    heartbeats_late: AtomicU64,
    notices_dropped: AtomicU64,
    /// One for each code of the table.
    rejected: Vec<AtomicU64>,
}

/// The counters, and how many streams there are, for whoever publishes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamNumbers {
    /// Streams that ended for silence.
    pub lease_expired: u64,
    /// Heartbeats that counted.
    pub heartbeats: u64,
    /// Heartbeats that came after the end.
    pub heartbeats_late: u64,
    /// Notices that nobody is to hear of any more.
    pub notices_dropped: u64,
    /// Starts that were refused, by code; every code has been counted from the start.
    pub rejected: Vec<(ErrorCode, u64)>,
    /// Streams that queue.
    pub queued: u64,
    /// Streams that drain.
    pub draining: u64,
}

impl Default for StreamCounters {
    fn default() -> Self {
        Self {
            lease_expired: AtomicU64::new(0),
            heartbeats: AtomicU64::new(0),
            heartbeats_late: AtomicU64::new(0),
            notices_dropped: AtomicU64::new(0),
            rejected: ErrorCode::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl StreamCounters {
    pub(crate) fn lease_expired(&self) {
        self.lease_expired.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn heartbeat(&self) {
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn heartbeat_late(&self) {
        self.heartbeats_late.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn notice_dropped(&self) {
        self.notices_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn notices_dropped(&self) -> u64 {
        self.notices_dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn rejected(&self, code: ErrorCode) {
        let counter = ErrorCode::ALL.iter().position(|known| *known == code).map(|at| &self.rejected[at]);
        counter.into_iter().for_each(|counter| _ = counter.fetch_add(1, Ordering::Relaxed));
    }

    pub(crate) fn read(&self, queued: usize, draining: usize) -> StreamNumbers {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StreamNumbers {
            lease_expired: of(&self.lease_expired),
            heartbeats: of(&self.heartbeats),
            heartbeats_late: of(&self.heartbeats_late),
            notices_dropped: of(&self.notices_dropped),
            rejected: ErrorCode::ALL.iter().copied().zip(self.rejected.iter().map(of)).collect(),
            queued: queued as u64,
            draining: draining as u64,
        }
    }
}
