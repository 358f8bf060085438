//! The metrics of a poller.

use crate::store::ReleaseReason;
use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Upper bounds of the histogram of unowned time, in milliseconds.
pub const UNOWNED_BUCKETS_MS: [u64; 11] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000];

/// How a poll ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RunOutcome {
    /// The poll returned.
    Ok,
    /// The poll returned an error.
    Failed,
    /// The poll exceeded its timeout.
    TimedOut,
    /// The poll was cancelled because the lease ended or the target moved to another poller.
    Cancelled,
    /// The poll panicked.
    Panicked,
}

impl RunOutcome {
    /// All outcomes.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Failed, Self::TimedOut, Self::Cancelled, Self::Panicked];

    /// The label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
        }
    }
}

/// Why a target moved, as seen by this poller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MoveReason {
    /// This poller released or handed over the target.
    Released(ReleaseReason),
    /// The ttl of the target's poller was over.
    TtlExpiry,
}

impl MoveReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Released(ReleaseReason::Voluntary),
        Self::Released(ReleaseReason::Rebalanced),
        Self::Released(ReleaseReason::Shutdown),
        Self::Released(ReleaseReason::TargetRemoved),
        Self::TtlExpiry,
    ];

    /// The label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released(reason) => reason.as_str(),
            Self::TtlExpiry => "ttl_expiry",
        }
    }
}

/// The metrics of a poller.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PollerMetrics {
    /// Targets by state: owned, other, uncertain, draining, unowned.
    pub targets: [(&'static str, u64); 5],
    /// Targets held here whose last polls failed.
    pub failing: u64,
    /// Moves by reason.
    pub moves: Vec<(MoveReason, u64)>,
    /// Histogram of unowned time over [`UNOWNED_BUCKETS_MS`], with one more bucket for longer times.
    pub unowned: [u64; UNOWNED_BUCKETS_MS.len() + 1],
    /// The total unowned time in milliseconds.
    pub unowned_ms: u64,
    /// Whether polling is paused because renewals fail.
    pub paused: bool,
    /// Polls by outcome.
    pub runs: Vec<(RunOutcome, u64)>,
    /// Members of the group that died, as seen by this poller.
    pub member_deaths: u64,
    /// Calls made to the store.
    pub store_calls: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    moves: [AtomicU64; MoveReason::ALL.len()],
    runs: [AtomicU64; RunOutcome::ALL.len()],
    unowned: [AtomicU64; UNOWNED_BUCKETS_MS.len() + 1],
    unowned_ms: AtomicU64,
    paused: AtomicBool,
    member_deaths: AtomicU64,
    store_calls: AtomicU64,
    targets: Mutex<[(&'static str, u64); 5]>,
    failing: AtomicU64,
}

impl Counters {
    pub(crate) fn moved(&self, reason: MoveReason) {
        let place = MoveReason::ALL.iter().position(|known| *known == reason);
        self.moves[place.unwrap_or(0)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ran(&self, outcome: RunOutcome) {
        let place = RunOutcome::ALL.iter().position(|known| *known == outcome);
        self.runs[place.unwrap_or(0)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn taken_after(&self, unowned: Duration) {
        let ms = u64::try_from(unowned.as_millis()).unwrap_or(u64::MAX);
        let bucket = UNOWNED_BUCKETS_MS.iter().position(|bound| ms <= *bound);
        self.unowned[bucket.unwrap_or(UNOWNED_BUCKETS_MS.len())].fetch_add(1, Ordering::Relaxed);
        self.unowned_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Whether that is news.
    pub(crate) fn set_paused(&self, paused: bool) -> bool {
        self.paused.swap(paused, Ordering::Relaxed) != paused
    }

    pub(crate) fn saw_deaths(&self, deaths: u64) {
        self.member_deaths.fetch_add(deaths, Ordering::Relaxed);
    }

    pub(crate) fn asked_store(&self) {
        self.store_calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_targets(&self, targets: [(&'static str, u64); 5], failing: u64) {
        self.failing.store(failing, Ordering::Relaxed);
        *self.targets.lock().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    pub(crate) fn metrics(&self) -> PollerMetrics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PollerMetrics {
            targets: *self.targets.lock().unwrap_or_else(PoisonError::into_inner),
            failing: count(&self.failing),
            moves: MoveReason::ALL.into_iter().zip(self.moves.iter().map(count)).collect(),
            unowned: core::array::from_fn(|place| count(&self.unowned[place])),
            unowned_ms: count(&self.unowned_ms),
            paused: self.paused.load(Ordering::Relaxed),
            runs: RunOutcome::ALL.into_iter().zip(self.runs.iter().map(count)).collect(),
            member_deaths: count(&self.member_deaths),
            store_calls: count(&self.store_calls),
        }
    }
}
