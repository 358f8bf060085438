//! Coordination backends for the pollers of a group. A store keeps the members and the holder of each target, and
//! changes both atomically; it does not decide the assignment.
//!
//! Every answer that lets a poller act has a deadline on the poller's own clock: counted from before the request was
//! sent, less a margin. Invariant: the deadline is never later than the moment at which another poller could get the
//! target.

mod memory;
pub(crate) mod redis;
mod tenure;

pub use memory::MemoryStore;
pub use redis::{RedisOptions, RedisStore};
pub use tenure::TenureStore;

use crate::instance::Instance;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_api::{PollerReport, PollerStatus};
use tenure_client::clock::BootInstant;

/// The name of a target.
pub type TargetName = Arc<str>;

/// How late a poller may act on its own clock. `valid_ms` of the daemon contains the slack for clock rates.
const SCHEDULING: Duration = Duration::from_millis(50);

/// What a poller sends when it joins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The poller's instance.
    pub instance: Instance,
    /// The relative weight.
    pub weight: u32,
    /// The ttl of the membership and of every lease.
    pub ttl: Duration,
    /// The timeout of one call of a member: less than half of the time between renewals.
    pub call_timeout: Duration,
}

/// How long a store may take to answer a poller that joins.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

impl Membership {
    /// The timeout of one call of a join. A poller that has not joined holds nothing, so this may be long.
    #[must_use]
    pub fn join_timeout(&self) -> Duration {
        self.call_timeout.max(JOIN_TIMEOUT)
    }

    /// The margin that is subtracted from the ttl: a tenth of it.
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.ttl / 10
    }

    /// The end of the validity of a renewal that was sent at `sent`.
    #[must_use]
    pub fn valid_until(&self, sent: BootInstant) -> BootInstant {
        sent.after(self.ttl.saturating_sub(self.margin()))
    }

    /// Like [`Membership::valid_until`], and not later than the daemon's `valid_ms`, less a margin for scheduling.
    #[must_use]
    pub fn valid_until_as_answered(&self, sent: BootInstant, valid_ms: u64) -> BootInstant {
        let promised = Duration::from_millis(valid_ms).saturating_sub(SCHEDULING);
        self.valid_until(sent).min(sent.after(promised))
    }
}

/// A target held by this poller, with its lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldTarget {
    /// The target.
    pub target: TargetName,
    /// The fencing token: rises with every change of poller.
    pub fence: u64,
    /// The end of the validity without another renewal.
    pub valid_until: BootInstant,
    /// How the store finds the lease.
    pub key: LeaseKey,
}

/// How a store finds the lease of a held target.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeaseKey {
    /// The lease's id; empty if the target's name is enough.
    pub lease_id: String,
    /// The lease's epoch.
    pub epoch: u64,
    /// The session that keeps the lease; empty if the instance does.
    pub session: String,
    /// The log position of the grant; zero if views are never older than answers.
    pub lsn: u64,
}

/// A member of the group in a [`View`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenMember {
    /// The member's instance.
    pub instance: Instance,
    /// The relative weight.
    pub weight: u32,
    /// The member's status.
    pub status: PollerStatus,
    /// Whether the member has not lived for a ttl yet: few targets move to it while other members have.
    pub is_new: bool,
    /// The address of handovers: a session's id, or empty if the instance is enough.
    pub address: String,
    /// Whether the member accepts handovers. Older programs do not: targets that move to them are released instead.
    pub takes_handovers: bool,
}

/// The holder of a target in a [`View`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenOwner {
    /// The holder's instance.
    pub instance: Instance,
    /// The fencing token; `None` if an older program holds it.
    pub fence: Option<u64>,
    /// When the lease ends without a renewal, if the store does not push that.
    pub ends_at: Option<BootInstant>,
    /// Whether the holder may act.
    pub state: HolderState,
    /// How the store finds the lease.
    pub key: LeaseKey,
    /// When the lease was acquired, RFC 3339.
    pub acquired_at: Option<String>,
    /// When the lease was last renewed, RFC 3339.
    pub renewed_at: Option<String>,
}

/// Whether a holder may act.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HolderState {
    /// The holder may act.
    #[default]
    Active,
    /// The lease is ending: its holder may not act, and the target is not free yet.
    Ending,
    /// Reserved for its poller to resume: by an absent poller, or by an earlier membership.
    Reserved,
}

/// The state of a group at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// The live members, absent ones included; at most one per name, ordered by name.
    pub members: Vec<SeenMember>,
    /// The holders. Targets that are missing here are free.
    pub owners: BTreeMap<TargetName, SeenOwner>,
    /// Targets that an operator pinned to a poller, with its name.
    pub pins: BTreeMap<TargetName, String>,
    /// Rises with every change.
    pub generation: u64,
    /// The log position of this view. A lease with a later position may be missing without being lost.
    pub as_of: u64,
    /// How many members have died, as seen by this store.
    pub deaths: u64,
    /// When to read the group again: the end of a membership that the store does not push.
    pub read_again_at: Option<BootInstant>,
}

/// The result of a renewal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Renewal {
    /// The new validity of every lease that was not lost. `None` if the call named no lease.
    pub valid_until: Option<BootInstant>,
    /// The lost targets.
    pub lost: Vec<Loss>,
}

/// A held target that was lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The target.
    pub target: TargetName,
    /// The fence of the lost lease; a later lease on the same target has a higher one.
    pub fence: u64,
    /// The reason, if the store knows it.
    pub reason: String,
}

/// A target to acquire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The target.
    pub target: TargetName,
    /// The reservation that the poller made with [`Store::leave`], if it resumes the target.
    pub reserved: Option<SeenOwner>,
}

/// The result of an acquire or a handover.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<T> {
    /// The store did it.
    Done(T),
    /// Another poller holds the target, or the lease is lost.
    Rejected(String),
    /// The successor does not accept the handover: the lease stays.
    Declined(String),
    /// The outcome is unknown: do not act on the lease until the same call has returned another outcome.
    Unknown(String),
    /// This store cannot hold a target with this name.
    InvalidTarget(String),
}

/// Why a poller releases or hands over targets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReleaseReason {
    /// The program requested it.
    Voluntary,
    /// Another poller gets it.
    Rebalanced,
    /// The poller stops.
    Shutdown,
    /// The target was removed or paused.
    TargetRemoved,
}

impl ReleaseReason {
    /// The value in logs, metrics and stores.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Voluntary => "voluntary",
            Self::Rebalanced => "rebalanced",
            Self::Shutdown => "shutdown",
            Self::TargetRemoved => "target_removed",
        }
    }
}

/// An error of a store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or did not answer in time; the call may have been carried out. A retry may help.
    #[error("{0}")]
    Unreachable(String),
    /// The membership is over: join again.
    #[error("{0}")]
    NotMember(String),
    /// Another run with the same name is alive.
    #[error("{0}")]
    NameTaken(String),
    /// A permanent error: a missing permission, a wrong address, an old version.
    #[error("{0}")]
    Rejected(String),
}

/// A coordination backend. One value serves one poller of one group.
pub trait Store: Send + Sync + 'static {
    /// After this many releases the poller renews first, because a store remembers a limited number of losses between
    /// two renewals.
    const MOVES_PER_RENEWAL: usize = usize::MAX;

    /// The name of the group.
    fn group(&self) -> &str;

    /// Joins the group. If another run has the same name, waits for the end of its ttl and returns
    /// [`StoreError::NameTaken`] if it renews; a name that was left with a window is resumed at once. Called again
    /// after [`StoreError::NotMember`], with the same instance.
    fn join(&self, membership: &Membership) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Renews the membership and all these leases in one call.
    fn renew(&self, leases: &[HeldTarget]) -> impl Future<Output = Result<Renewal, StoreError>> + Send;

    /// Reads the group, with at least these targets.
    fn observe(&self, targets: &[TargetName]) -> impl Future<Output = Result<View, StoreError>> + Send;

    /// Waits for a change since the last [`Store::observe`]. Never returns if the store pushes no changes; the poller
    /// then reads the group at intervals.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Acquires free targets. Returns one outcome per target, in the same order.
    fn acquire(
        &self,
        wanted: &[Wanted],
    ) -> impl Future<Output = Result<Vec<Outcome<HeldTarget>>, StoreError>> + Send;

    /// The held target that was handed over to this instance, as seen by [`Store::observe`]. `None` if it is no
    /// longer valid.
    fn adopt(&self, target: &TargetName, seen: &SeenOwner) -> Option<HeldTarget>;

    /// Releases leases; ignores lost ones. After an error some may still be held: call it again.
    fn release(
        &self,
        leases: &[HeldTarget],
        reason: ReleaseReason,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Moves each lease to a member atomically, with a higher fence and without a gap. Returns one outcome per lease,
    /// in the same order; an error means that all outcomes are unknown. Idempotent for the same successor.
    fn hand_over(
        &self,
        leases: &[(HeldTarget, SeenMember)],
        reason: ReleaseReason,
    ) -> impl Future<Output = Result<Vec<Outcome<()>>, StoreError>> + Send;

    /// Publishes the status of this poller (leaving, online).
    fn publish_status(&self, status: PollerStatus) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Publishes which targets of this poller need attention. `false`: this store publishes no reports.
    fn report(&self, report: &PollerReport) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let _ = report;
        async { Ok(false) }
    }

    /// Ends the membership or a join under way. With a window, these leases stay reserved for the name that long, and
    /// the name stays a member, absent; without one the leases are released.
    fn leave(
        &self,
        leases: &[HeldTarget],
        window: Option<Duration>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
