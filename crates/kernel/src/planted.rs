//! Known bugs, planted on purpose. A simulator that cannot find them proves nothing. Without the feature
//! `plant` every question is answered `false` at compile time.

/// One bug of the pure rules or of the engine above them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Reclaim frees a lease that was never revoked.
    ReclaimWithoutRevoke,
    /// A rebind keeps the epoch.
    RebindKeepsEpoch,
    /// A rebind keeps the fence.
    RebindKeepsFence,
    /// Expire does not look at the deadline.
    ExpireIgnoresDeadline,
    /// Only the first member of a bundle is taken.
    BundlePartlyGranted,
    /// Release does not compare the epoch.
    ReleaseIgnoresEpoch,
    /// Outcomes of operations are not remembered.
    DedupeForgets,
    /// Grace is counted from the last proof instead of from the end of the ttl.
    GraceFromLastProof,
    /// A heartbeat brings back what an operator drained.
    HeartbeatRevivesOperatorDrain,
    /// Reclaim does not wait for the promise.
    PromiseIgnored,
    /// The holder hears the whole promise, without slack for clock rates.
    WholePromiseTold,
    /// A release and an acknowledge do not wait for what a former holder was promised.
    FormerPromiseForgotten,
    /// A restart does not know what a former holder was promised under other terms.
    RestartForgetsFormer,
    /// Recovery gives no fresh ttl.
    RecoveryAgesHolders,
    /// A later waiter is served before an earlier one.
    WaiterOvertakes,
    /// Waiters for a pool and for its named members do not see each other.
    PoolAndMembersApart,
    /// A try that goes on with an interrupted wait goes to the end of the queue.
    HeirLosesPlace,
    /// A try that is cancelled before it arrives sends its operation to the end of the queue.
    CancelLosesPlace,
    /// Answers leave before their event is synced.
    AnswerBeforeSync,
    /// A snapshot leaves out the last event it covers.
    SnapshotMissesOneEvent,
    /// A stall ages everybody.
    StallAgesHolders,
    /// The fence base is not applied, so a wiped log hands out old fences again.
    FenceForgetsBase,
    /// A refusal told again does not wait for what it rests on.
    RefusalForgetsGround,
    /// A grant that names any live lease to take over skips the queue.
    TakeOverUnconfirmed,
    /// A lease with a gate is given back around it.
    ReleaseSkipsGate,
    /// A timely heartbeat does not look first whether the lease is over.
    LateHeartbeatRenews,
    /// A late word of its node brings back a connection that is gone.
    WordRevivesGone,
    /// A node's word for its connections is answered and does not last.
    WordNotCounted,
    /// Reclaim does not wait for what the holder behind a connection was promised.
    ConnectionPromiseIgnored,
    /// A new writer takes connections at other nodes for closed.
    RecoveryClosesConnections,
    /// A full lane loses the end of a connection, a cancel or a finished gate.
    ControlRefused,
    /// A snapshot is due by what this process wrote, not by what there is.
    SnapshotCountsOwnBytes,
    /// History that is too old waits for a snapshot that new log brings.
    HistoryAgeWaits,
    /// An acknowledge under any epoch counts, a former holder's too.
    AcknowledgeIgnoresEpoch,
    /// A lease whose holder acknowledged is reclaimed as if the promise had run out.
    AcknowledgeAsPromise,
    /// A holder that goes on under other terms counts as a former holder of its own lease.
    SameHolderIsFormer,
    /// A resume takes a lease from a connection that is open.
    ResumeTakesOpen,
    /// A connection that its node hung up on counts as closed by its holder.
    HangUpAcknowledges,
}

impl Planted {
    /// Every bug, for a list of names and the test that each is found.
    pub const ALL: [Self; 38] = [
        Self::ReclaimWithoutRevoke,
        Self::RebindKeepsEpoch,
        Self::RebindKeepsFence,
        Self::ExpireIgnoresDeadline,
        Self::BundlePartlyGranted,
        Self::ReleaseIgnoresEpoch,
        Self::DedupeForgets,
        Self::GraceFromLastProof,
        Self::HeartbeatRevivesOperatorDrain,
        Self::PromiseIgnored,
        Self::WholePromiseTold,
        Self::FormerPromiseForgotten,
        Self::RestartForgetsFormer,
        Self::RecoveryAgesHolders,
        Self::WaiterOvertakes,
        Self::PoolAndMembersApart,
        Self::HeirLosesPlace,
        Self::CancelLosesPlace,
        Self::AnswerBeforeSync,
        Self::SnapshotMissesOneEvent,
        Self::StallAgesHolders,
        Self::FenceForgetsBase,
        Self::RefusalForgetsGround,
        Self::TakeOverUnconfirmed,
        Self::ReleaseSkipsGate,
        Self::LateHeartbeatRenews,
        Self::WordRevivesGone,
        Self::WordNotCounted,
        Self::ConnectionPromiseIgnored,
        Self::RecoveryClosesConnections,
        Self::ControlRefused,
        Self::SnapshotCountsOwnBytes,
        Self::HistoryAgeWaits,
        Self::AcknowledgeIgnoresEpoch,
        Self::AcknowledgeAsPromise,
        Self::SameHolderIsFormer,
        Self::ResumeTakesOpen,
        Self::HangUpAcknowledges,
    ];

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReclaimWithoutRevoke => "reclaim-without-revoke",
            Self::RebindKeepsEpoch => "rebind-keeps-epoch",
            Self::RebindKeepsFence => "rebind-keeps-fence",
            Self::ExpireIgnoresDeadline => "expire-ignores-deadline",
            Self::BundlePartlyGranted => "bundle-partly-granted",
            Self::ReleaseIgnoresEpoch => "release-ignores-epoch",
            Self::DedupeForgets => "dedupe-forgets",
            Self::GraceFromLastProof => "grace-from-last-proof",
            Self::HeartbeatRevivesOperatorDrain => "heartbeat-revives-operator-drain",
            Self::PromiseIgnored => "promise-ignored",
            Self::WholePromiseTold => "whole-promise-told",
            Self::FormerPromiseForgotten => "former-promise-forgotten",
            Self::RestartForgetsFormer => "restart-forgets-former",
            Self::RecoveryAgesHolders => "recovery-ages-holders",
            Self::WaiterOvertakes => "waiter-overtakes",
            Self::PoolAndMembersApart => "pool-and-members-apart",
            Self::HeirLosesPlace => "heir-loses-place",
            Self::CancelLosesPlace => "cancel-loses-place",
            Self::AnswerBeforeSync => "answer-before-sync",
            Self::SnapshotMissesOneEvent => "snapshot-misses-one-event",
            Self::StallAgesHolders => "stall-ages-holders",
            Self::FenceForgetsBase => "fence-forgets-base",
            Self::RefusalForgetsGround => "refusal-forgets-ground",
            Self::TakeOverUnconfirmed => "take-over-unconfirmed",
            Self::ReleaseSkipsGate => "release-skips-gate",
            Self::LateHeartbeatRenews => "late-heartbeat-renews",
            Self::WordRevivesGone => "word-revives-gone",
            Self::WordNotCounted => "word-not-counted",
            Self::ConnectionPromiseIgnored => "connection-promise-ignored",
            Self::RecoveryClosesConnections => "recovery-closes-connections",
            Self::ControlRefused => "control-refused",
            Self::SnapshotCountsOwnBytes => "snapshot-counts-own-bytes",
            Self::HistoryAgeWaits => "history-age-waits",
            Self::AcknowledgeIgnoresEpoch => "acknowledge-ignores-epoch",
            Self::AcknowledgeAsPromise => "acknowledge-as-promise",
            Self::SameHolderIsFormer => "same-holder-is-former",
            Self::ResumeTakesOpen => "resume-takes-open",
            Self::HangUpAcknowledges => "hang-up-acknowledges",
        }
    }

    /// Whether it shows only where connections are open at other nodes than the one that writes.
    #[must_use]
    pub const fn needs_nodes(self) -> bool {
        matches!(
            self,
            Self::WordRevivesGone
                | Self::WordNotCounted
                | Self::ConnectionPromiseIgnored
                | Self::RecoveryClosesConnections
                | Self::HangUpAcknowledges
        )
    }
}

#[cfg(feature = "plant")]
mod switch {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
        static NEWER_FORMAT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Makes this thread a program of a later version, or again of this one: it reads events up to this format, and
    /// spells definitions of pools in it where it may. No bug: what tests of upgrades need until there is such a program.
    pub fn plant_newer_format(format: Option<u32>) {
        NEWER_FORMAT.with(|cell| cell.set(format));
    }

    /// The format of the later version that this thread plays.
    #[must_use]
    pub fn newer_format() -> Option<u32> {
        NEWER_FORMAT.with(Cell::get)
    }

    /// Plants a bug in this thread, or removes it.
    pub fn plant(bug: Option<Planted>) {
        PLANTED.with(|cell| cell.set(bug));
    }

    /// Whether this bug is planted in this thread.
    #[must_use]
    pub fn planted(bug: Planted) -> bool {
        PLANTED.with(|cell| cell.get() == Some(bug))
    }
}

#[cfg(feature = "plant")]
pub use switch::{newer_format, plant, plant_newer_format, planted};

/// Whether this bug is planted: never, in this build.
#[cfg(not(feature = "plant"))]
#[must_use]
#[inline(always)]
pub const fn planted(_bug: Planted) -> bool {
    false
}

/// The format of a later version that this thread plays: none, in this build.
#[cfg(not(feature = "plant"))]
#[must_use]
#[inline(always)]
pub const fn newer_format() -> Option<u32> {
    None
}
