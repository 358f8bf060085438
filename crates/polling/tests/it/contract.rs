//! What every store promises, as functions of a fixture that gives fresh stores of one group. Each is run against each
//! store.

mod changing_hands;
mod holding;
mod leaving;
mod members;
mod model;
mod trouble;

use std::sync::Arc;
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_polling::Instance;
use tenure_polling::store::{
    HeldTarget, Membership, Outcome, SeenMember, SeenOwner, Store, TargetName, View, Wanted,
};

/// A server and stores of one group on it.
pub(crate) trait Fixture: Sized + Send + Sync + 'static {
    type Store: Store;

    fn start() -> impl Future<Output = Self> + Send;
    /// A store of the group that no poller has joined with.
    fn store(&self) -> Self::Store;
    /// The server takes what is sent and answers nothing.
    fn freeze(&self);
    fn thaw(&self);
    /// An operator gives a target to a poller, or takes that back.
    fn pin(&self, target: &str, poller: Option<&str>) -> impl Future<Output = ()> + Send;
    /// An operator takes a poller's targets away, or takes that back.
    fn cordon(&self, poller: &str, is_cordoned: bool) -> impl Future<Output = ()> + Send;
}

macro_rules! contract {
    ($store:ident, $fixture:ty: $($topic:ident: [$($promise:ident),* $(,)?],)*) => {
        mod $store {
            use super::Fixture;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    super::$topic::$promise(<$fixture as Fixture>::start().await).await;
                }
            )*)*
        }
    };
}

/// One after the other in one test, because a cluster takes long to start.
macro_rules! contract_in_one {
    ($function:ident, $fixture:ty: $($topic:ident: [$($promise:ident),* $(,)?],)*) => {
        /// Checks the promises that are wanted, by their names.
        pub(crate) async fn $function(is_wanted: impl Fn(&str) -> bool) {
            $($(
                if is_wanted(stringify!($promise)) {
                    $topic::$promise(<$fixture as Fixture>::start().await).await;
                }
            )*)*
        }
    };
}

macro_rules! of_every_store {
    ($($each:ident! $store:ident: $fixture:ty),* $(,)?) => {
        $($each! { $store, $fixture:
            members: [
                who_joins_is_seen_by_others,
                a_status_that_is_told_is_seen,
                a_name_whose_poller_lives_is_refused,
                a_name_is_taken_over_when_its_poller_is_silent,
                whoever_is_silent_is_no_member_and_can_join_again,
                a_poller_is_new_until_it_has_lived_for_a_ttl,
                who_dies_is_counted_and_who_leaves_is_not,
                an_operators_words_are_seen,
            ],
            holding: [
                of_fifty_who_want_a_target_one_gets_it,
                renewing_creates_nothing,
                a_lost_target_is_reported_with_its_fence,
                a_held_target_is_valid_for_the_ttl_less_a_margin,
                renewing_keeps_others_out_beyond_the_ttl,
                silence_frees_a_target_and_nothing_earlier_does,
                thousands_of_targets_are_held_at_once,
                what_cannot_be_a_target_is_told_apart,
            ],
            changing_hands: [
                a_fence_rises_with_every_change_of_hands,
                a_successor_hears_of_what_it_is_handed_and_adopts_it,
                whoever_handed_over_has_nothing_left_to_let_go,
                nothing_is_handed_to_one_who_left,
            ],
            leaving: [
                who_leaves_is_forgotten_at_once,
                with_a_window_nobody_takes_what_was_left,
                whoever_comes_back_takes_back_what_it_left,
                what_nobody_comes_back_for_is_free_after_the_window,
            ],
            trouble: [
                a_store_that_does_not_answer_is_unreachable_within_the_limit,
            ],
            model: [
                one_holder_and_rising_fences_whatever_happens,
            ],
        })*
    };
}

of_every_store! {
    contract! daemon: crate::daemon_fixture::DaemonFixture,
    contract! redis: crate::redis_fixture::RedisFixture,
    contract_in_one! on_a_cluster: crate::cluster::FollowerFixture,
}

/// Long enough that nothing ends by itself.
const LASTING: Duration = Duration::from_secs(60);
/// The shortest that every store allows.
const SHORT: Duration = Duration::from_secs(1);

fn membership(instance: Instance, ttl: Duration) -> Membership {
    Membership { instance, weight: 1, ttl, call_timeout: Duration::from_secs(10) }
}

/// A poller that has joined.
struct Member<S> {
    store: Arc<S>,
    membership: Membership,
}

impl<S: Store> Member<S> {
    async fn join<F: Fixture<Store = S>>(fixture: &F, membership: Membership) -> Self {
        let store = fixture.store();
        store.join(&membership).await.expect("joins");
        Self { store: Arc::new(store), membership }
    }

    /// A poller with a name of its own that lasts.
    async fn lasting<F: Fixture<Store = S>>(fixture: &F) -> Self {
        Self::join(fixture, membership(Instance::generate(), LASTING)).await
    }

    fn instance(&self) -> &Instance {
        &self.membership.instance
    }

    async fn try_acquire(&self, target: &str) -> Outcome<HeldTarget> {
        let wanted = Wanted { target: target.into(), reserved: None };
        let mut outcomes = self.store.acquire(&[wanted]).await.expect("an answer");
        assert_eq!(outcomes.len(), 1);
        outcomes.remove(0)
    }

    async fn acquire(&self, target: &str) -> HeldTarget {
        match self.try_acquire(target).await {
            Outcome::Done(lease) => lease,
            other => panic!("not acquired: {other:?}"),
        }
    }

    async fn is_refused(&self, target: &str) -> bool {
        matches!(self.try_acquire(target).await, Outcome::Rejected(_))
    }

    async fn view(&self, targets: &[&str]) -> View {
        let targets: Vec<TargetName> = targets.iter().map(|target| (*target).into()).collect();
        self.store.observe(&targets).await.expect("a view")
    }

    async fn owner(&self, target: &str) -> Option<SeenOwner> {
        self.view(&[target]).await.owners.get(target).cloned()
    }

    async fn sees_owner(&self, target: &str, instance: Option<&Instance>) -> bool {
        self.owner(target).await.map(|owner| owner.instance).as_ref() == instance
    }

    async fn member(&self, instance: &Instance) -> Option<SeenMember> {
        self.view(&[]).await.members.into_iter().find(|member| member.instance == *instance)
    }

    /// Waits until it sees another, to hand something to.
    async fn finds<T>(&self, other: &Member<T>) -> SeenMember {
        let mut found = None;
        crate::waiting::wait_until("the other is seen", async || {
            found = self.member(&other.membership.instance).await;
            found.is_some()
        })
        .await;
        found.expect("was seen")
    }

    /// Waits until it sees that a target was handed to it, and adopts it.
    async fn adopts(&self, target: &str) -> HeldTarget {
        self.adopts_above(target, 0).await
    }

    /// The same, where it held the target before under a lower fence.
    async fn adopts_above(&self, target: &str, fence: u64) -> HeldTarget {
        let mut adopted = None;
        crate::waiting::wait_until("the target is ours", async || {
            let owner = self.owner(target).await;
            let owner = owner.filter(|owner| owner.instance == *self.instance() && owner.fence > Some(fence));
            adopted = owner.and_then(|owner| self.store.adopt(&target.into(), &owner));
            adopted.is_some()
        })
        .await;
        adopted.expect("was adopted")
    }
}

fn named(name: &str) -> Instance {
    Instance::with_name(name).expect("a name")
}

fn has_passed(instant: BootInstant) -> bool {
    BootInstant::now() >= instant
}
