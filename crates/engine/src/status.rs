//! Counters and histograms for everything the engine does. The engine counts; others name and print.

use crate::report::Task;
use crate::request::Lane;
use tenure_kernel::{CountKey, Face, Lsn, Reason, Tick};
use tenure_log::Space;

/// Numbers about everything, as of one turn.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// Newest position applied.
    pub applied_lsn: Lsn,
    /// Newest position that is durable.
    pub synced_lsn: Lsn,
    /// Now.
    pub tick: Tick,
    /// Live leases by state, mode and face.
    pub leases: Vec<(CountKey, u64)>,
    /// Ended leases still readable.
    pub retained: u64,
    /// Operations remembered.
    pub operations: u64,
    /// Operations since this tick are remembered.
    pub operation_floor: Tick,
    /// Pending notices.
    pub notices: u64,
    /// Sessions, connections without a grant included.
    pub sessions: u64,
    /// Requests waiting for a bundle, each try of a waiting operation included.
    pub waiters: u64,
    /// Watches.
    pub watches: u64,
    /// Requests per lane.
    pub inbox: [(Lane, u64); 4],
    /// Ends are postponed until here.
    pub breaker_until: Option<Tick>,
    /// Grants are refused until here because the log was restored.
    pub restored_until: Option<Tick>,
    /// Whether the disk has room; grants are refused while it is low.
    pub space: Space,
    /// Work beside the hot path whose last try failed, and why.
    pub failing: Vec<(Task, String)>,
    /// Everything counted since the start.
    pub counters: Counters,
}

/// Everything counted since the start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counters {
    /// Grants by face and outcome: granted, refused, waited in vain.
    pub grants: [[u64; 3]; Face::ALL.len()],
    /// Ends by face and reason.
    pub ends: [[u64; Reason::ALL.len()]; Face::ALL.len()],
    /// Heartbeats that counted.
    pub heartbeats_renewed: u64,
    /// Heartbeats that came after the promise had run out.
    pub heartbeats_late: u64,
    /// Heartbeats for leases or sessions that are not there.
    pub heartbeats_unknown: u64,
    /// Heartbeats with an old token.
    pub heartbeats_stale: u64,
    /// Graces of sessions whose ends were left off because the session was heard again.
    pub renewed_meanwhile: u64,
    /// How much promise was left at a renewal, in milliseconds.
    pub renewal_margin_ms: Histogram,
    /// How late ends came, in milliseconds.
    pub expiry_lateness_ms: Histogram,
    /// How long syncs took, in microseconds.
    pub sync_us: Histogram,
    /// Records per frame.
    pub batch_records: Histogram,
    /// How long waiters waited before they were served, in milliseconds.
    pub wait_ms: Histogram,
    /// Waiters passed by others because they had blocked too long.
    pub waiters_passed: u64,
    /// Times that holders could have waited for longer than [`crate::STALL_MS`].
    pub stalls: u64,
    /// Notes not written because there was no room.
    pub notes_dropped: u64,
    /// Frames appended.
    pub frames: u64,
    /// Bytes of their payload.
    pub log_bytes: u64,
    /// Times the breaker opened.
    pub breaker_opened: u64,
    /// Watches ended because they were too slow.
    pub watches_lagged: u64,
    /// Gates that were not confirmed in time.
    pub gates_timed_out: u64,
    /// Notices given up.
    pub notices_given_up: u64,
    /// Failures of each task.
    pub task_failures: [u64; Task::ALL.len()],
}

/// How a grant came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantOutcome {
    /// Granted.
    Granted,
    /// Refused.
    Refused,
    /// Waited in vain.
    TimedOut,
}

/// Counts by powers of two: bucket `k` holds values below `2^k`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    buckets: [u64; 40],
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; 40], sum: 0 }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, value: u64) {
        let bucket = (64 - value.leading_zeros()) as usize;
        self.buckets[bucket.min(self.buckets.len() - 1)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Values recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Pairs of (exclusive upper bound, values below it and not below the one before).
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().enumerate().map(|(bucket, count)| (1_u64 << bucket, *count))
    }
}

impl Counters {
    pub(crate) fn grant(&mut self, face: Face, outcome: GrantOutcome) {
        self.grants[face.index()][outcome as usize] += 1;
    }

    pub(crate) fn end(&mut self, face: Face, reason: Reason) {
        self.ends[face.index()][reason as usize] += 1;
    }
}
