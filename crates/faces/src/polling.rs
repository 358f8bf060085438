//! Groups of pollers that share targets: how they are shown, counted and steered. Pollers act natively: a target is a
//! lease on `poll/<group>/<target>`, and everything else about a group is a lease beside it (`PollName`).
//!
//! Who has what comes from the book; only how alive the holders are is asked of the engine, once for each session.

mod asked;
mod book;
mod counters;
mod group;
mod plans;
mod shown;
mod steering;
mod story;
mod why;

pub use counters::UnownedTimes;
pub use why::LeftFor;

pub(crate) use book::{Book as PollingBook, End as PollingEnd};
pub(crate) use story::add_pins;

use crate::call::Reply;
use crate::dispatch::Faces;
use crate::events::told_end;
use crate::leases::contradiction;
use crate::refusal::Asked;
use group::Group;
use plans::Plans;
use shown::{Beat, Beats, Keeper, failing_of, shown, stands, statuses};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenure_api::{Error, ErrorCode, GroupState, PollName, PollingGroup, PollingGroups, TargetState};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{Face, LeaseId, Lsn};
use tenure_engine::liveness::Standing;
use tenure_engine::{Answer, LeaseSnapshot, List, Refused, Request, SessionSnapshot};
use tokio::sync::Mutex;

/// Leases or sessions read at once.
const PAGE: usize = 1_000;

/// The face's own state.
pub(crate) struct Polling {
    pub(crate) book: Arc<PollingBook>,
    /// Operators are listened to one after the other.
    steering: Mutex<()>,
    plans: Plans,
}

/// What is counted of polling, for whoever publishes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PollingNumbers {
    /// Targets by group and state. Only so many groups have their own name; the others are together.
    pub targets: BTreeMap<String, TargetCounts>,
    /// Targets that left their pollers since the start, by group and in the order of [`LeftFor::ALL`].
    pub moves: Vec<(String, [u64; LeftFor::ALL.len()])>,
    /// How long targets were nobody's before they were taken.
    pub unowned: UnownedTimes,
}

/// Targets of a group by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetCounts {
    /// Polled.
    pub owned: u64,
    /// Their pollers are not heard of.
    pub uncertain: u64,
    /// Being handed over or let go.
    pub draining: u64,
    /// Nobody's, and a poller asks for them.
    pub unowned: u64,
    /// Nobody's, in a group without pollers.
    pub abandoned: u64,
    /// Polled, and the polls fail. They count by their state too.
    pub failing: u64,
}

impl TargetCounts {
    fn of(group: &Group, beats: &Beats) -> Self {
        let statuses = statuses(group);
        let mut counts = Self { unowned: group.unowned().total, ..Self::default() };
        if group.state() == GroupState::Abandoned {
            counts.abandoned = group.free.len() as u64;
        }
        for poller in group.members() {
            counts.failing = counts.failing.saturating_add(failing_of(group, &poller));
        }
        for held in group.targets.values() {
            let status = statuses.get(held.holder.as_str()).copied();
            match stands(held, status, beats.get(&held.keeper())).0 {
                TargetState::Uncertain => counts.uncertain += 1,
                TargetState::Draining => counts.draining += 1,
                TargetState::Owned | TargetState::Other | TargetState::Unowned => counts.owned += 1,
            }
        }
        counts
    }

    fn add(&mut self, other: Self) {
        for (mine, others) in [
            (&mut self.owned, other.owned),
            (&mut self.uncertain, other.uncertain),
            (&mut self.draining, other.draining),
            (&mut self.unowned, other.unowned),
            (&mut self.abandoned, other.abandoned),
            (&mut self.failing, other.failing),
        ] {
            *mine = mine.saturating_add(others);
        }
    }
}

impl Polling {
    pub(crate) fn new(book: Arc<PollingBook>) -> Self {
        Self { book, steering: Mutex::new(()), plans: Plans::default() }
    }

    /// Every group by its name.
    pub(crate) fn named_groups(&self) -> Vec<(String, Arc<Group>)> {
        self.book.named_groups()
    }
}

/// Whether a group can be called so.
fn check_group(group: &str) -> Result<(), Error> {
    PollName::check_group(group)
        .map_err(|error| Error::new(ErrorCode::InvalidRequest, error.to_string()).with("field", "group"))
}

/// Refuses names that only the routes of polling may take: whoever held a cordon or a pin would be an operator.
pub(crate) fn check_not_operators<'a>(
    resources: impl Iterator<Item = &'a String>,
    pools: impl Iterator<Item = &'a String>,
) -> Result<(), Error> {
    // Members of a pool are called like it, and a number.
    let members = pools.map(|pool| format!("{pool}/1"));
    let mut names = resources.cloned().chain(members);
    let Some(name) = names.find(|name| PollName::is_operators(name)) else { return Ok(()) };
    let (route, verb) = match PollName::of_resource(&name) {
        Some((group, PollName::Pin(_))) => (format!("/v1/polling/{group}/move"), "a target is pinned"),
        Some((group, _)) => (format!("/v1/polling/{group}/cordon"), "a poller is cordoned"),
        None => return Ok(()),
    };
    Err(contradiction(&format!("{name:?} cannot be acquired through /v1/leases: {verb} with POST {route}")))
}

impl Faces {
    pub(crate) async fn show_polling(&self, group: &str) -> Result<Reply, Error> {
        check_group(group)?;
        self.polling().book.forget_over(group, read_clocks().wall_ms);
        let (found, at_least) = self.polling().book.group(group);
        let found = found.unwrap_or_else(|| Arc::new(Group { generation: at_least, ..Group::default() }));
        let beats = self.beats(found.targets.values().map(|held| held.keeper()).collect()).await?;
        let (name, wall_ms) = (group.to_owned(), read_clocks().wall_ms);
        let preferred = match found.is_empty() {
            true => Arc::default(),
            false => self.polling().plans.of(group, &found).await?,
        };
        // Writing many targets down takes a while.
        let view =
            tokio::task::spawn_blocking(move || shown(&name, &found, &preferred, &beats, wall_ms)).await;
        let view = view.map_err(|_| Error::new(ErrorCode::ShuttingDown, "the daemon is stopping"))?;
        Ok(Reply::Polling(Box::new(view)))
    }

    pub(crate) async fn list_polling(&self) -> Result<Reply, Error> {
        self.polling().book.forget_all_over(read_clocks().wall_ms);
        let groups = self.polling().named_groups();
        let beats = self.beats(keepers(&groups)).await?;
        let in_numbers = |(name, group): &(String, Arc<Group>)| {
            let counts = TargetCounts::of(group, &beats);
            PollingGroup {
                group: name.clone(),
                state: group.state(),
                pollers: group.pollers.len() as u64,
                owned: counts.owned,
                uncertain: counts.uncertain,
                draining: counts.draining,
                unowned: counts.unowned,
                abandoned: counts.abandoned,
                failing: counts.failing,
            }
        };
        Ok(Reply::PollingGroups(PollingGroups { groups: groups.iter().map(in_numbers).collect() }))
    }

    /// What is counted of polling.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn polling_numbers(&self) -> Result<PollingNumbers, Error> {
        self.polling().book.forget_all_over(read_clocks().wall_ms);
        let groups = self.polling().book.groups();
        let beats = self.beats(keepers(&groups)).await?;
        let (moves, unowned) = self.polling().book.counted();
        // A group that was counted stays: its numbers fall to zero instead of vanishing.
        let mut targets: BTreeMap<String, TargetCounts> =
            moves.iter().map(|(group, _)| (group.clone(), TargetCounts::default())).collect();
        for (label, group) in groups {
            targets.entry(label).or_default().add(TargetCounts::of(&group, &beats));
        }
        Ok(PollingNumbers { targets, moves, unowned })
    }

    /// When those who keep leases were heard of.
    async fn beats(&self, keepers: BTreeSet<Keeper>) -> Result<Beats, Error> {
        let keepers: Vec<Keeper> = keepers.into_iter().collect();
        let mut beats = Beats::with_capacity(keepers.len());
        for page in keepers.chunks(PAGE) {
            let requests = page.iter().map(|keeper| match keeper {
                Keeper::Session(session) => Request::Session(*session),
                Keeper::Lease(lease) => Request::Read(*lease),
            });
            let answers = self.handle().call_all(requests.collect()).await;
            let wall_ms = read_clocks().wall_ms;
            for (keeper, answer) in page.iter().zip(answers) {
                let beat = match answer {
                    Answer::Session { session, .. } => session_beat(&session, wall_ms),
                    // It is gone, and what it kept is about to be.
                    Answer::Refused(Refused::Rejected(_)) => None,
                    Answer::Read(_) => answer.live().map(lease_beat),
                    other => return Err(self.not_that(other, Asked::AsAnyone)),
                };
                beats.extend(beat.map(|beat| (*keeper, beat)));
            }
        }
        Ok(beats)
    }

    /// Learns who polls what. Before anybody is served.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn restore_polling(&self) -> Result<(), Error> {
        let status = match self.ask_for_itself(Request::Status).await {
            Answer::Status(status) => status,
            other => return Err(self.not_that(other, Asked::AsAnyone)),
        };
        // Where nobody polled, a million other leases need not be looked at.
        if !status.leases.iter().any(|(key, count)| key.face == Face::Polling && *count > 0) {
            return Ok(());
        }
        let mut from = LeaseId::new(self.identity().shard, Lsn(0));
        loop {
            let list = List { from, limit: PAGE, resource_prefix: None, holder: None };
            let (leases, next, lsn) = match self.ask_for_itself(Request::List(list)).await {
                Answer::Leases { leases, next, lsn } => (leases, next, lsn),
                other => return Err(self.not_that(other, Asked::AsAnyone)),
            };
            for lease in leases.iter().filter(|lease| lease.policy.face == Face::Polling) {
                let is_first = self.held_since(lease) == lease.id.lsn();
                self.polling().book.restore(lease, is_first.then_some(lease.granted_wall_ms), lsn);
            }
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Remembers which targets were nobody's when the daemon started, and since when the others were polled by whom.
    pub async fn recall_polling(&self) {
        let book = &self.polling().book;
        let is_complete = self.each_ended(Face::Polling, |lease, ended, event, wall_ms| {
            let Some(told) = told_end(&event.change) else { return };
            book.recall(&PollingEnd {
                lease,
                holder: &told.was.holder,
                members: &told.was.members,
                reason: told.reason,
                text: told.text,
                wall_ms,
                lsn: ended.ended_lsn,
            });
        });
        if is_complete.await {
            self.recall_hands().await;
            book.is_complete();
        }
    }

    /// A target that was handed over is its holder's since then, which only the log tells.
    async fn recall_hands(&self) {
        for (name, group) in self.polling().book.named_groups() {
            for (target, held) in &group.targets {
                if held.acquired_wall_ms.is_some() {
                    continue;
                }
                let lsn = Lsn(held.fence.0.saturating_sub(self.identity().fence_base));
                if let Some((_, wall_ms)) = self.logged(lsn).await {
                    self.polling().book.acquired(&name, target, held.fence, wall_ms);
                }
            }
        }
    }

    /// Position at which a lease came to its holder.
    fn held_since(&self, lease: &LeaseSnapshot) -> Lsn {
        Lsn(lease.fence.0.saturating_sub(self.identity().fence_base))
    }
}

/// What keeps the targets of these groups.
fn keepers(groups: &[(String, Arc<Group>)]) -> BTreeSet<Keeper> {
    groups.iter().flat_map(|(_, group)| group.targets.values()).map(|held| held.keeper()).collect()
}

fn session_beat(session: &SessionSnapshot, wall_ms: u64) -> Option<Beat> {
    let standing = session.standing?;
    Some(Beat {
        is_silent: is_silent(standing.standing),
        last_seen_wall_ms: wall_ms.saturating_sub(session.now.ms_since(standing.counts_from)),
        ttl_ms: session.ttl_ms.into(),
        now_wall_ms: wall_ms,
    })
}

fn lease_beat(lease: &LeaseSnapshot) -> Beat {
    Beat {
        is_silent: lease.liveness.standing.is_some_and(is_silent),
        last_seen_wall_ms: lease.wall_of(lease.liveness.counts_from),
        ttl_ms: lease.policy.ttl_ms.into(),
        now_wall_ms: lease.now_wall_ms,
    }
}

fn is_silent(standing: Standing) -> bool {
    match standing {
        Standing::Draining(_) => true,
        Standing::Alive => false,
    }
}
