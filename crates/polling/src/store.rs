//! What pollers of one group agree through. A store knows who is a member and who holds which target, and changes
//! either in one step; it decides nothing about who should.
//!
//! Every answer that lets a poller act says until when, on the poller's own clock: from before the question was sent,
//! less a margin. Invariant: a store never says later than the moment at which another could be let in.

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

/// How a target is called.
pub type TargetName = Arc<str>;

/// How late a poller may be to act on its own clock. The slack for clock rates is in what a daemon promises.
const SCHEDULING: Duration = Duration::from_millis(50);

/// What a poller brings when it joins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// This run of it.
    pub instance: Instance,
    /// How much it takes beside the others.
    pub weight: u32,
    /// How long membership and every lease last without renewal.
    pub ttl: Duration,
    /// How long one call of a member may take: less than half of the time between renewals.
    pub call_limit: Duration,
}

/// How long a store may take to answer one who joins.
const JOIN_LIMIT: Duration = Duration::from_secs(5);

impl Membership {
    /// How long one call of a join may take: a poller that is no member holds nothing and has no promise to keep.
    #[must_use]
    pub fn join_limit(&self) -> Duration {
        self.call_limit.max(JOIN_LIMIT)
    }

    /// What is taken off the ttl: a tenth of it.
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.ttl / 10
    }

    /// Until when a promise of `ttl` holds that was asked for at `sent`.
    #[must_use]
    pub fn valid_until(&self, sent: BootInstant) -> BootInstant {
        sent.after(self.ttl.saturating_sub(self.margin()))
    }

    /// The same where a daemon has said how long it promises to wait: never longer than that, less what scheduling takes.
    #[must_use]
    pub fn promised_until(&self, sent: BootInstant, valid_ms: u64) -> BootInstant {
        let promised = Duration::from_millis(valid_ms).saturating_sub(SCHEDULING);
        self.valid_until(sent).min(sent.after(promised))
    }
}

/// A target held by this poller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The target.
    pub target: TargetName,
    /// Rises with every change of hands.
    pub fence: u64,
    /// Until when it may be acted on without another answer.
    pub valid_until: BootInstant,
    /// What the store knows it by; nobody else reads it.
    pub key: ClaimKey,
}

/// What a store needs to know a claim again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimKey {
    /// A lease's id; empty where the target's name is enough.
    pub lease_id: String,
    /// Its epoch.
    pub epoch: u64,
    /// What keeps it alive; empty where the instance does.
    pub session: String,
    /// Position of what made it ours; zero where views are never older than answers.
    pub lsn: u64,
}

/// One member of the group as it is seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenMember {
    /// Which run it is.
    pub instance: Instance,
    /// How much it takes beside the others.
    pub weight: u32,
    /// How it stands.
    pub status: PollerStatus,
    /// It has not lived for a ttl yet: beside others that have, few targets move for it.
    pub is_new: bool,
    /// How it is handed something: a session's id, or nothing where its instance is enough.
    pub address: String,
    /// Whether it takes what is handed to it. Older programs do not: what is to be theirs is released.
    pub takes_handovers: bool,
}

/// Who holds a target, as it is seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenOwner {
    /// Which run holds it.
    pub instance: Instance,
    /// The fence of its hold; `None` where an older program took it.
    pub fence: Option<u64>,
    /// When its hold ends unless it is renewed, where the store cannot tell of the end by itself.
    pub ends_at: Option<BootInstant>,
    /// How firm the hold is.
    pub grip: Grip,
    /// How the store knows the hold.
    pub key: ClaimKey,
    /// When it was taken, for people; RFC 3339.
    pub acquired_at: Option<String>,
    /// When it was last renewed, for people; RFC 3339.
    pub renewed_at: Option<String>,
}

/// How firm a hold is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grip {
    /// Its holder may act.
    #[default]
    Firm,
    /// Withdrawn or about to be: its holder may not act, and nobody else has it yet.
    Ending,
    /// Left behind, for its poller to take up again: by one that is expected back, or by an earlier membership.
    Left,
}

/// Everything that is seen of a group at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// Members that live, those that are expected back included; at most one for each name, in order of name.
    pub members: Vec<SeenMember>,
    /// Who holds which target. What is not here is nobody's.
    pub owners: BTreeMap<TargetName, SeenOwner>,
    /// Targets that an operator gave to a poller, by the poller's name.
    pub pins: BTreeMap<TargetName, String>,
    /// Rises with every change.
    pub generation: u64,
    /// Everything up to this position is in it. A claim with a later one may be missing without being lost.
    pub as_of: u64,
    /// Members whose time was over before they left, as far as this store has seen: rises with each.
    pub deaths: u64,
    /// When a member's time is over unless it renews, where the store cannot tell of it by itself.
    pub look_again_at: Option<BootInstant>,
}

/// What a renewal brought.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Renewal {
    /// Until when every claim that was named and is not lost may be acted on. `None` if nothing was named.
    pub valid_until: Option<BootInstant>,
    /// Claims that are no more, with the fence they had.
    pub lost: Vec<Loss>,
}

/// A claim that is no more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The target.
    pub target: TargetName,
    /// The fence of the claim that was lost; a later claim on the same target is another one.
    pub fence: u64,
    /// Why, where the store knows.
    pub reason: String,
}

/// A target that a poller wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The target.
    pub target: TargetName,
    /// What the poller left it to when it went ([`Store::leave`]), if it comes back for it.
    pub left_to: Option<SeenOwner>,
}

/// What became of a wish or a hand-over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<T> {
    /// Done.
    Done(T),
    /// Another holds it, or it is not ours any more.
    Refused(String),
    /// A hand-over that its successor does not take: it is ours as before.
    NotTaken(String),
    /// It may have been done or not, now or later: what was to be handed over must not be acted on until asking again
    /// the same way has told.
    Unknown(String),
    /// The name can be no target of this store, now or ever.
    Impossible(String),
}

/// Why targets are let go of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LetGo {
    /// The program asked.
    Voluntary,
    /// Another is to have it.
    Rebalanced,
    /// The poller stops.
    Shutdown,
    /// The target is no more, or paused.
    TargetRemoved,
}

impl LetGo {
    /// The word in logs, metrics and stores.
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

/// Why a store did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or did not answer in time; what was asked may have been done. Asking again may help.
    #[error("{0}")]
    Unreachable(String),
    /// The membership is over: join again.
    #[error("{0}")]
    NotMember(String),
    /// Another run under the same name lives.
    #[error("{0}")]
    NameTaken(String),
    /// It will never do it: not allowed, a wrong address, too old.
    #[error("{0}")]
    Refused(String),
}

/// What pollers of one group agree through. One value serves one poller of one group.
pub trait Store: Send + Sync + 'static {
    /// After so many claims were let go of, everything is renewed first: a store that tells of losses remembers a number
    /// of them between two renewals.
    const MOVES_PER_RENEWAL: usize = usize::MAX;

    /// Becomes a member. A run under a name that another run has waits until that one's time is over, and is refused
    /// with [`StoreError::NameTaken`] if that one renews meanwhile; a name that was left with a window is taken back at
    /// once. Called again after [`StoreError::NotMember`], with the same instance.
    fn join(&self, membership: &Membership) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Renews the membership and every one of these claims, in one call.
    fn renew(&self, claims: &[Claim]) -> impl Future<Output = Result<Renewal, StoreError>> + Send;

    /// What is seen of the group, these targets at least.
    fn observe(&self, targets: &[TargetName]) -> impl Future<Output = Result<View, StoreError>> + Send;

    /// Waits until the store has word that something may have changed since the last [`Store::observe`]. For ever,
    /// where it cannot tell: then the poller looks at its own times.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Takes what is free. One outcome for each, in the same order.
    fn acquire(
        &self,
        wanted: &[Wanted],
    ) -> impl Future<Output = Result<Vec<Outcome<Claim>>, StoreError>> + Send;

    /// The claim on a target that [`Store::observe`] says this instance holds and nobody here asked for: it was handed
    /// over. `None` if it is not valid any more.
    fn adopt(&self, target: &TargetName, seen: &SeenOwner) -> Option<Claim>;

    /// Lets go of claims. What is not ours any more is left alone. An error means that some may still be held: asked
    /// again it does the rest.
    fn release(&self, claims: &[Claim], why: LetGo) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives each claim to a member in one step, fence raised: no moment at which it is nobody's. One outcome for each,
    /// in the same order; an error means that all of them are unknown. Asked again with the same successor it does the
    /// same once.
    fn hand_over(
        &self,
        claims: &[(Claim, SeenMember)],
        why: LetGo,
    ) -> impl Future<Output = Result<Vec<Outcome<()>>, StoreError>> + Send;

    /// Tells the others how this poller stands (leaving, online).
    fn tell(&self, status: PollerStatus) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Publishes which targets of this poller need attention. `false`: this store publishes no reports.
    fn report(&self, report: &PollerReport) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let _ = report;
        async { Ok(false) }
    }

    /// Ends the membership, or what is under way of one. With a window, these claims stay reserved for the name that long, and the name stays a
    /// member, absent; without one the claims are released.
    fn leave(
        &self,
        claims: &[Claim],
        window: Option<Duration>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
