//! A poller: joins its group, polls only the targets it holds, and stops before another poller may begin.
//!
//! Three tasks share what is held (`holdings.rs`): the keeper renews it, the control decides and carries out who should
//! have what, the runner polls.

mod control;
mod holdings;
mod keeper;
mod plan;
mod poll;
mod runner;
mod show;
#[cfg(test)]
mod tests;

pub use poll::{Poll, Polled};

use crate::instance::{Instance, NameError};
use crate::metrics::{Counters, PollerMetrics};
use crate::source::{SourceError, TargetSource};
use crate::store::{Membership, Store, TargetName, View};
use control::Control;
use core::time::Duration;
use holdings::Holdings;
use plan::Plan;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_api::{PollNameError, PollerStatus, PollingView};
use tenure_assignment::Hash;
use tenure_client::Backoff;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The shortest ttl: what the daemon allows.
const TTL_MIN: Duration = Duration::from_secs(1);

/// The longest time for which targets are kept for one that went: the longest ttl.
const WINDOW_MAX: Duration = Duration::from_secs(86_400);

/// How a poller is to work.
pub(crate) struct Options {
    pub(crate) hash: Hash,
    pub(crate) every: Duration,
    pub(crate) timeout: Duration,
    pub(crate) jitter: f64,
    pub(crate) concurrency: usize,
    pub(crate) max_moves: Option<f64>,
    pub(crate) reconnect_window: Duration,
    pub(crate) discovery: Duration,
    /// How long before its time is over a poll is told to stop.
    pub(crate) cancel_lead: Duration,
    /// Whether the first join is tried again while the store cannot be reached.
    pub(crate) wait_for_store: bool,
}

impl Options {
    /// Moves per second between living pollers of a group with so many targets.
    fn moves_per_second(&self, targets: usize) -> f64 {
        self.max_moves.unwrap_or_else(|| (targets as f64 / 20.0).max(50.0))
    }
}

/// An error that ended a poller or prevented its start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PollerError {
    /// Another run with the same name is alive.
    #[error("{0}")]
    NameTaken(String),
    /// The store rejected a request.
    #[error("{0}")]
    Rejected(String),
    /// The store cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The source of targets cannot be read.
    #[error("{0}")]
    Source(String),
    /// The poller stopped, but could not reach the store: its targets are free when its ttl is over.
    #[error("the store could not be notified of the stop: {0}")]
    StopNotReported(String),
}

/// An error of [`PollerBuilder::build`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BuildError {
    /// The group name is invalid.
    #[error(transparent)]
    Group(#[from] PollNameError),
    /// The poller name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A setting is out of range, or contradicts another one.
    #[error("{0}")]
    Setting(String),
}

/// Builds a [`Poller`].
pub struct PollerBuilder<S, T> {
    store: S,
    source: T,
    name: Option<String>,
    weight: u32,
    ttl: Duration,
    every: Duration,
    timeout: Option<Duration>,
    jitter: f64,
    concurrency: usize,
    max_moves: Option<u32>,
    reconnect_window: Duration,
    discovery: Duration,
    hash: Hash,
    wait_for_store: bool,
}

/// One poller of a group.
pub struct Poller<S, T> {
    shared: Arc<Shared<S>>,
    source: T,
}

/// A handle to a running poller: its state, and how to stop it. Cheap to clone.
pub struct PollerHandle<S> {
    shared: Arc<Shared<S>>,
}

/// What was seen at the last look.
#[derive(Default)]
struct Seen {
    targets: Arc<[TargetName]>,
    view: Arc<View>,
    preferred: HashMap<TargetName, String>,
}

/// Whether the poller is a member; memberships are counted, so that word of an earlier one is known as such.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    NeverJoined,
    Member(u64),
    Lost(u64),
}

pub(crate) struct Shared<S> {
    store: S,
    group: String,
    membership: Membership,
    options: Options,
    holdings: Mutex<Holdings>,
    seen: Mutex<Seen>,
    status: Mutex<PollerStatus>,
    standing: watch::Sender<Standing>,
    changed: watch::Sender<u64>,
    counters: Counters,
    /// How often everything was renewed.
    renewals: watch::Sender<u64>,
    runner_wake: Notify,
    control_wake: Notify,
    keeper_wake: Notify,
    stop: CancellationToken,
}

/// Everything is renewed so often within a ttl.
const RENEWALS: u32 = 3;

/// How long before its deadline a poll is cancelled, for pollers with this ttl. A poll that has not ended this long
/// after its cancellation is dropped, and its target may move.
#[must_use]
pub fn cancel_lead(ttl: Duration) -> Duration {
    (ttl / 20).min(Duration::from_secs(1))
}

/// For how long a poller with this ttl certainly continues to poll while its store does not answer. The worst case: a
/// renewal was due when the store fell silent.
#[must_use]
pub fn max_silence(ttl: Duration) -> Duration {
    // The slack for clock rates, and more: the store alone computes it.
    let valid = ttl - ttl / 100;
    valid.saturating_sub(cancel_lead(ttl)).saturating_sub(ttl / RENEWALS)
}

impl Poller<(), ()> {
    /// Returns a builder for a poller of the store's group.
    #[must_use]
    pub fn builder<S: Store>(store: S) -> PollerBuilder<S, ()> {
        PollerBuilder {
            store,
            source: (),
            name: None,
            weight: 1,
            ttl: Duration::from_secs(30),
            every: Duration::from_secs(5),
            timeout: None,
            jitter: 0.1,
            concurrency: 256,
            max_moves: None,
            reconnect_window: Duration::ZERO,
            discovery: Duration::from_secs(10),
            hash: Hash::default(),
            wait_for_store: false,
        }
    }
}

impl<S: Store, T> PollerBuilder<S, T> {
    /// Sets the source of targets.
    #[must_use]
    pub fn targets<U: TargetSource>(self, source: U) -> PollerBuilder<S, U> {
        let Self { store, name, weight, ttl, every, timeout, jitter, concurrency, .. } = self;
        let Self { max_moves, reconnect_window, discovery, hash, wait_for_store, .. } = self;
        PollerBuilder {
            store,
            source,
            name,
            weight,
            ttl,
            every,
            timeout,
            jitter,
            concurrency,
            max_moves,
            reconnect_window,
            discovery,
            hash,
            wait_for_store,
        }
    }

    /// Sets a fixed name, with which the poller keeps its targets over a crash or restart [default: generated].
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the relative weight [default: 1].
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the ttl of membership and leases [default: 30 s]; the poller renews every third of it.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the time between two polls of a target [default: 5 s].
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Sets the timeout of a poll [default: four fifths of the time between two polls].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the jitter of the time between two polls, as a fraction [default: 0.1].
    #[must_use]
    pub fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets how many polls run at once [default: 256].
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Limits how many targets move per second between live pollers of the group [default: a twentieth of the targets,
    /// at least 50]. The targets of a dead poller move at once.
    #[must_use]
    pub fn max_moves(mut self, per_second: u32) -> Self {
        self.max_moves = Some(per_second);
        self
    }

    /// Reserves the targets for this long after a stop [default: not at all]; for pollers with a fixed name.
    #[must_use]
    pub fn reconnect_window(mut self, window: Duration) -> Self {
        self.reconnect_window = window;
        self
    }

    /// Sets how often to read the group if the store does not push changes [default: 10 s].
    #[must_use]
    pub fn discovery(mut self, interval: Duration) -> Self {
        self.discovery = interval;
        self
    }

    /// Sets the hash of the assignment.
    #[must_use]
    pub fn hash(mut self, hash: Hash) -> Self {
        self.hash = hash;
        self
    }

    /// Waits for an unreachable store at the start instead of returning an error.
    #[must_use]
    pub fn wait_for_store(mut self) -> Self {
        self.wait_for_store = true;
        self
    }
}

impl<S: Store, T: TargetSource> PollerBuilder<S, T> {
    /// Builds the poller. It does not contact the store yet.
    ///
    /// # Errors
    /// If a setting is invalid; the error names it.
    pub fn build(self) -> Result<Poller<S, T>, BuildError> {
        let group = self.store.group().to_owned();
        tenure_api::PollName::check_group(&group)?;
        let setting = |text: &str| Err(BuildError::Setting(text.to_owned()));
        let instance = match &self.name {
            Some(name) => Instance::with_name(name)?,
            None => Instance::generate(),
        };
        if self.ttl < TTL_MIN || self.ttl > Duration::from_secs(86_400) {
            return setting("the ttl must be between 1 s and 24 h");
        }
        if self.weight == 0 || self.weight > 1_000_000 {
            return setting("the weight must be between 1 and 1000000");
        }
        if self.every.is_zero() || !(0.0..=1.0).contains(&self.jitter) {
            return setting("the time between polls must be above 0, the jitter between 0 and 1");
        }
        if self.concurrency == 0 || self.max_moves == Some(0) {
            return setting("concurrency and moves per second must be above 0");
        }
        if self.reconnect_window > WINDOW_MAX {
            return setting("a reconnect window lasts at most 24 h");
        }
        if !self.reconnect_window.is_zero() && self.name.is_none() {
            return setting("a reconnect window requires a fixed name");
        }
        if self.hash == Hash::Fnv1a && self.weight != 1 {
            return setting("fnv1a does not support weights");
        }
        let timeout = self.timeout.unwrap_or_else(|| self.every.mul_f64(0.8));
        if timeout.is_zero() {
            return setting("the timeout of a poll must be above 0");
        }
        let renewals = self.ttl / 3;
        let membership = Membership {
            instance,
            weight: self.weight,
            ttl: self.ttl,
            call_timeout: renewals.mul_f64(0.45).min(Duration::from_secs(5)),
        };
        let options = Options {
            hash: self.hash,
            every: self.every,
            timeout,
            jitter: self.jitter,
            concurrency: self.concurrency,
            max_moves: self.max_moves.map(f64::from),
            reconnect_window: self.reconnect_window,
            discovery: self.discovery.max(Duration::from_millis(100)),
            cancel_lead: cancel_lead(self.ttl),
            wait_for_store: self.wait_for_store,
        };
        let shared = Shared {
            store: self.store,
            group,
            membership,
            options,
            holdings: Mutex::default(),
            seen: Mutex::default(),
            status: Mutex::new(PollerStatus::Joining),
            standing: watch::Sender::new(Standing::NeverJoined),
            changed: watch::Sender::new(0),
            counters: Counters::default(),
            renewals: watch::Sender::new(0),
            runner_wake: Notify::new(),
            control_wake: Notify::new(),
            keeper_wake: Notify::new(),
            stop: CancellationToken::new(),
        };
        Ok(Poller { shared: Arc::new(shared), source: self.source })
    }
}

impl<S: Store, T: TargetSource> Poller<S, T> {
    /// Returns a handle to this poller.
    #[must_use]
    pub fn handle(&self) -> PollerHandle<S> {
        PollerHandle { shared: self.shared.clone() }
    }

    /// Polls until [`PollerHandle::stop`] is called and all targets are handed over. Calls `program` for each poll of a
    /// held target, never for two polls of one target at once.
    ///
    /// If the future is dropped, polling stops at once without a handover: the targets are free when the ttl is over.
    ///
    /// # Errors
    /// If the poller cannot start or continue; see [`PollerError`].
    pub async fn run<F, Call, R>(self, program: F) -> Result<(), PollerError>
    where
        F: Fn(TargetName, Poll) -> Call + Send,
        Call: Future<Output = R> + Send + 'static,
        R: Polled + 'static,
    {
        let (sender, targets) = watch::channel(None);
        let shared = self.shared;
        let mut reading = AbortOnDropHandle::new(tokio::spawn(read(self.source, sender)));
        let mut keeping = AbortOnDropHandle::new(tokio::spawn(keeper::keep(shared.clone())));
        let control = Control::new(shared.clone(), targets).run();
        let mut control = AbortOnDropHandle::new(tokio::spawn(control));
        let mut polling = core::pin::pin!(runner::run(shared.clone(), program));
        let unreadable = tokio::select! {
            ended = &mut control => return whole(ended),
            ended = &mut keeping => {
                whole(ended);
                unreachable!("invariant: what is held is renewed until this is dropped")
            }
            error = &mut reading => whole(error),
            () = &mut polling => unreachable!("invariant: polls are run until this is dropped"),
        };
        // Without targets there is nothing to go on with; what is held is given away first.
        shared.stop.cancel();
        tokio::select! {
            ended = &mut control => whole(ended)?,
            () = &mut polling => {}
        }
        Err(PollerError::Source(unreadable.to_string()))
    }
}

/// What a task of ours ended with; its panic goes on here.
fn whole<T>(ended: Result<T, tokio::task::JoinError>) -> T {
    match ended {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(cancelled) => panic!("the runtime ended before the poller: {cancelled}"),
        },
    }
}

/// Reads the source for ever; ends only with what cannot be mended by waiting.
async fn read<T: TargetSource>(
    mut source: T,
    targets: watch::Sender<Option<Arc<[TargetName]>>>,
) -> SourceError {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    loop {
        match source.next().await {
            Ok(mut list) => {
                backoff.reset();
                list.sort();
                list.dedup();
                targets.send_replace(Some(list.into()));
            }
            Err(SourceError::Temporary(why)) => {
                tracing::warn!(reason = why, "the targets cannot be read now; polling the last known ones");
                tokio::time::sleep(backoff.next_pause()).await;
            }
            Err(error @ SourceError::Permanent(_)) => return error,
        }
    }
}

impl<S> Clone for PollerHandle<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S: Store> PollerHandle<S> {
    /// Makes the poller hand over its targets and end. [`Poller::run`] returns when that is done.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// The instance of this run.
    #[must_use]
    pub fn instance(&self) -> &Instance {
        &self.shared.membership.instance
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> PollerMetrics {
        self.shared.count_targets();
        self.shared.counters.metrics()
    }

    /// The poller's view of the group.
    #[must_use]
    pub fn view(&self) -> PollingView {
        self.shared.show()
    }

    /// A receiver of a number that rises each time the poller has read its group.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }
}

impl<S: Store> Shared<S> {
    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.membership.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    fn is_member_since(&self, membership: u64) -> bool {
        *self.standing.borrow() == Standing::Member(membership)
    }

    fn has_been_member(&self) -> bool {
        *self.standing.borrow() != Standing::NeverJoined
    }

    /// Which membership it is now.
    fn set_member(&self) -> u64 {
        let mut membership = 0;
        self.standing.send_modify(|standing| {
            membership = match *standing {
                Standing::NeverJoined => 1,
                Standing::Member(before) | Standing::Lost(before) => before + 1,
            };
            *standing = Standing::Member(membership);
        });
        self.set_status(PollerStatus::Online);
        membership
    }

    /// Whether that membership was the present one.
    fn end_membership(&self, membership: u64) -> bool {
        let is_present = self.standing.send_if_modified(|standing| {
            let is_present = *standing == Standing::Member(membership);
            if is_present {
                *standing = Standing::Lost(membership);
            }
            is_present
        });
        if is_present {
            self.set_status(PollerStatus::Joining);
        }
        is_present
    }

    fn set_status(&self, status: PollerStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Waits until it is a member, and says since which time.
    async fn until_member(&self) -> u64 {
        let mut standing = self.standing.subscribe();
        let found = standing.wait_for(|standing| matches!(standing, Standing::Member(_))).await;
        match found.map(|standing| *standing) {
            Ok(Standing::Member(membership)) => membership,
            // The sender lives as long as this does.
            _ => core::future::pending().await,
        }
    }

    async fn membership_ended(&self, membership: u64) {
        let mut standing = self.standing.subscribe();
        let _ = standing.wait_for(|standing| *standing != Standing::Member(membership)).await;
    }

    /// The store does not know this poller any more: nothing is held, and it has to join again.
    fn lose_membership(&self, membership: u64, why: &str) {
        if !self.end_membership(membership) {
            return;
        }
        let lost = self.holdings().lose_all();
        tracing::warn!(
            instance = %self.membership.instance, group = self.group, targets = lost.len(),
            ttl_ms = self.ttl_ms(), reason = why, "membership lost; joining again"
        );
        self.control_wake.notify_one();
    }

    fn saw(&self, targets: Arc<[TargetName]>, view: Arc<View>, plan: &mut Plan) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Seen { targets, view, preferred: core::mem::take(&mut plan.preferred) };
        drop(seen);
        self.changed.send_modify(|count| *count += 1);
    }
}
