//! What must hold over all nodes and writers. The store's own frames say what happened; what nodes answer and holders
//! believe is held against it.

mod fresh;
mod kept;

use super::holders::{Hand, Holder};
use super::node::{Life, Part};
use super::passing::{Asked, Origin};
use super::profile::Profile;
use super::world::World;
use crate::brief::Brief;
use crate::invariants::{AcrossWriters, Said, Scene};
use crate::ledger::{Recorded, recorded, state_bytes, tick_after};
use crate::memory::Memory;
use crate::random::Random;
use crate::story::Story;
use crate::violation::Violation;
use std::collections::BTreeMap;
use tenure_cluster::store::Changed;
use tenure_cluster::values::{Beat, Floor, Writer, decode};
use tenure_engine::{Answer, GoingOn, LeaseFound, Out, Refused, Request, setup};
use tenure_kernel::{Change, Evidence, Kernel, LeaseId, Lsn, Reason, Stamp, Text, Tick};
use tenure_log::{Batch, Identity, LogEnd, frame};

/// A stall counts one second, and a deadline may wait for half of one.
const LATE_MS_MAX: u64 = 1_600;
/// Between two comparisons of a node's whole state.
const COMPARE_EVERY: u64 = 6;

/// What is known from the store alone.
pub(super) struct Checks {
    salt: u32,
    story: Story,
    /// The state of all frames, and what it was after each.
    kernel: Kernel,
    states: BTreeMap<Lsn, u64>,
    /// When the frame that ends here was committed.
    committed: BTreeMap<Lsn, u64>,
    end: LogEnd,
    frame: u64,
    /// The newest tick in the log.
    tick: u64,
    /// The tick in `writer`.
    writer_tick: u64,
    /// The newest tick that log and values had when the newest claim was made.
    told_tick: u64,
    /// The newest claim.
    epoch: u64,
    /// From which ticks on every holder had a full ttl, by epoch.
    bases: BTreeMap<u64, Vec<Tick>>,
    /// When a proof of life was handled that was answered.
    proofs: BTreeMap<LeaseId, u64>,
    sessions: kept::Sessions,
    /// When writers had their turns, by epoch and tick: a frame may gather events for long before it is given out.
    turns: BTreeMap<(u64, Tick), u64>,
    outcomes: BTreeMap<u64, LeaseId>,
    across: AcrossWriters,
    memory: Memory,
    profile: crate::profile::Profile,
    comparisons: u64,
    /// An end that comes later than that by its writer's own count is wrong.
    late_ms_max: u64,
    grace_ms_max: u64,
    /// Connections that ended because their node was silent.
    silent: u64,
}

impl Checks {
    pub(super) fn new(identity: &Identity, profile: &Profile) -> Self {
        Self {
            salt: identity.salt,
            story: Story::default(),
            kernel: Kernel::new(setup(identity, &profile.engine)),
            states: BTreeMap::new(),
            committed: BTreeMap::new(),
            end: LogEnd::default(),
            frame: 0,
            tick: 0,
            writer_tick: 0,
            told_tick: 0,
            epoch: 0,
            bases: BTreeMap::new(),
            proofs: BTreeMap::new(),
            sessions: kept::Sessions::default(),
            turns: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            across: AcrossWriters::default(),
            memory: Memory::default(),
            profile: crate::profile::Profile::draw(&mut Random::new(0)),
            comparisons: 0,
            late_ms_max: late_ms_max(profile),
            grace_ms_max: profile.grace_ms_max,
            silent: 0,
        }
    }

    pub(super) fn story(&self) -> &Story {
        &self.story
    }

    pub(super) fn frame(&self) -> u64 {
        self.frame
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn scene<'a>(
        story: &'a Story,
        memory: &'a Memory,
        profile: &'a crate::profile::Profile,
        now: u64,
        durable: Lsn,
    ) -> Scene<'a> {
        let (tag, engine, clients) = (0, None, &[][..]);
        Scene { now, aged: now, story, memory, clients, profile, tag, engine, durable_lsn: durable.0 }
    }

    /// A writer begins to decide: time goes on from the last tick that anybody was told. (cluster.md §3)
    pub(super) fn begins(&mut self, from: &GoingOn, tick: Tick) -> Result<(), Violation> {
        self.bases.entry(from.writer_epoch).or_default().push(tick);
        // One that stood still for long begins though another claim stands by now; it decides nothing.
        if from.writer_epoch == self.epoch && tick.0 < self.told_tick {
            let text = format!("epoch {} begins at {tick}, {} was told", from.writer_epoch, self.told_tick);
            return Err(Violation::new("tick_never_back", text));
        }
        Ok(())
    }

    /// A writer has authority again, from this tick on.
    pub(super) fn regains(&mut self, epoch: u64, tick: Tick) {
        self.bases.entry(epoch).or_default().push(tick);
    }

    /// A writer had a turn. Ticks stand still while it has no authority: what it decides at one is of its last turn.
    pub(super) fn decides(&mut self, now: u64, epoch: u64, tick: Tick) {
        self.turns.insert((epoch, tick), now);
    }

    /// A frame is in the store.
    fn commit(
        &mut self,
        now: u64,
        number: u64,
        bytes: &[u8],
        holders: &[Holder],
    ) -> Result<Vec<Recorded>, Violation> {
        let decoded = frame::decode(bytes, self.salt).map_err(|error| broken(&error.to_string()))?;
        if number != self.frame + 1 || !self.end.is_continued_by(&decoded.header) {
            return Err(broken(&format!("frame {number}, {:?} after {:?}", decoded.header, self.end)));
        }
        if decoded.header.at.tick < self.tick {
            let text = format!("frame {number} has tick {} after {}", decoded.header.at.tick, self.tick);
            return Err(Violation::new("tick_never_back", text));
        }
        let batch = Batch::of_frame(&decoded);
        let epoch = batch.id().writer_epoch();
        let last = Lsn(decoded.header.last_lsn().0);
        self.committed.insert(last, now);
        let events = recorded(&batch);
        for event in &events {
            let bases = self.bases.get(&epoch).into_iter().flatten();
            self.memory.began = bases.filter(|tick| **tick <= event.tick).max().copied().unwrap_or(Tick(0));
            let scene = Self::scene(&self.story, &self.memory, &self.profile, now, last);
            self.across.committed(&scene, event)?;
            let decided = self.turns.get(&(epoch, event.tick)).copied().unwrap_or(now);
            self.in_time(decided, epoch, event)?;
            self.sessions_in_time(decided, epoch, event)?;
            self.nobody_acts(now, event, holders)?;
            self.silent += u64::from(self.sessions.follow(now, event));
            self.story.tell(event);
            self.kernel.evolve(Stamp { lsn: event.lsn, tick: event.tick }, &event.event);
        }
        self.tick = self.tick.max(tick_after(&batch).0);
        self.end = LogEnd::after(&decoded.header, false);
        self.frame = number;
        self.states.insert(last, digest(&self.kernel));
        Ok(events)
    }

    /// Silence is forgiven for ttl and grace: from the last proof of life that was answered, and from the instant at which
    /// its writer began to serve, or served again. (cluster.md C3)
    fn in_time(&self, decided: u64, epoch: u64, event: &Recorded) -> Result<(), Violation> {
        let Change::Revoked(revoked) = &event.event.change else { return Ok(()) };
        let Some(told) = self.story.leases.get(&revoked.lease) else { return Ok(()) };
        if revoked.reason != Reason::HeartbeatExpired {
            return Ok(());
        }
        let forgiven_ms = u64::from(told.policy.ttl_ms) + u64::from(told.policy.grace_ms);
        let wrong = |text: String| Err(Violation::new("ends_in_time", text));
        if let Evidence::Silence { last_seen, .. } = revoked.evidence
            && event.tick.ms_since(last_seen) > forgiven_ms + self.late_ms_max
        {
            return wrong(format!("lease {} ended at {}, last seen at {last_seen}", told.id, event.tick));
        }
        if let Some(base) = self.base_before(epoch, event.tick)
            && event.tick.ms_since(base) < forgiven_ms
        {
            return wrong(format!(
                "lease {} ended at {}, its writer served from {base}",
                told.id, event.tick
            ));
        }
        match self.proofs.get(&revoked.lease) {
            Some(proof) if decided < proof + kept::least_ms(forgiven_ms) => wrong(format!(
                "lease {} ended {} ms after a proof of life",
                told.id,
                decided.saturating_sub(*proof)
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The last instant before this one at which its writer began to serve, or served again.
    fn base_before(&self, epoch: u64, tick: Tick) -> Option<Tick> {
        self.bases.get(&epoch)?.iter().rev().find(|base| **base < tick).copied()
    }

    /// Nothing is given to anybody, or taken back, while a living holder's own clock says that it may act. (DESIGN P2)
    fn nobody_acts(&self, now: u64, event: &Recorded, holders: &[Holder]) -> Result<(), Violation> {
        let (lease, members): (LeaseId, &[Text]) = match &event.event.change {
            Change::Granted(granted) => (LeaseId::new(0, event.lsn), &granted.members),
            Change::Reclaimed(reclaimed) => (reclaimed.was.lease, &[]),
            Change::Expired(expired) => (expired.was.lease, &[]),
            _ => return Ok(()),
        };
        for holder in holders.iter().filter(|holder| !holder.is_dead) {
            for hand in holder.hands.iter().filter(|hand| hand.acts(now)) {
                let is_taken_back = hand.lease == lease && members.is_empty();
                let is_given = hand.lease != lease && hand.members.iter().any(|name| members.contains(name));
                if is_taken_back || is_given {
                    let text = format!(
                        "{:?} at {} while {} acts on lease {} for {} ms more",
                        Brief(&event.event.change),
                        event.lsn,
                        holder.name,
                        hand.lease,
                        hand.until - now
                    );
                    return Err(Violation::new("no_early_reuse", text));
                }
            }
        }
        Ok(())
    }

    /// A holder believes something now that nobody else may believe, or have been given.
    pub(super) fn nobody_else_holds(
        &self,
        now: u64,
        holders: &[Holder],
        number: usize,
        hand: &Hand,
    ) -> Result<(), Violation> {
        if !hand.acts(now) {
            return Ok(());
        }
        let shares = |other: &Hand| other.members.iter().any(|name| hand.members.contains(name));
        for (index, holder) in holders.iter().enumerate().filter(|(_, holder)| !holder.is_dead) {
            let other = holder.hands.iter().find(|other| other.acts(now) && shares(other));
            if let Some(other) = other
                && index != number
            {
                let text = format!(
                    "{} acts on lease {} and {} on lease {}, both on {:?}",
                    holders[number].name, hand.lease, holder.name, other.lease, hand.members
                );
                return Err(Violation::new("one_holder_at_a_time", text));
            }
        }
        for name in &hand.members {
            let covering = self.story.covered.get(name);
            if covering != Some(&hand.lease) {
                let text = format!(
                    "{} acts on {name} by lease {}, {covering:?} has it",
                    holders[number].name, hand.lease
                );
                return Err(Violation::new("one_holder_at_a_time", text));
            }
        }
        Ok(())
    }
}

impl World {
    /// The store took a step that changed something.
    pub(super) fn judge_store(&mut self, changed: &[Changed]) -> Result<(), Violation> {
        let mut is_trimmed = false;
        for change in changed {
            let Some(value) = &change.value else {
                is_trimmed = true;
                continue;
            };
            if let Some(number) = self.keys.frame_number(&change.key) {
                let events = self.checks.commit(self.now, number, value, &self.holders);
                let events = events?;
                self.tally.silent = self.checks.silent;
                for event in events {
                    self.tally.events += 1;
                    self.line(format_args!("  {} {:?}", event.lsn, Brief(&event.event.change)));
                }
            } else if change.key == self.keys.writer() {
                let writer: Writer = decode("writer", value).map_err(super::following::misread)?;
                if writer.epoch > self.checks.epoch {
                    let beat = self.store.get(&self.keys.beat()).unwrap_or_default();
                    let beat: Beat = decode("beat", beat).map_err(super::following::misread)?;
                    self.checks.told_tick = self.checks.tick.max(beat.tick).max(self.checks.writer_tick);
                    self.checks.epoch = writer.epoch;
                }
                self.checks.writer_tick = writer.tick;
            } else if change.key == self.keys.floor() {
                is_trimmed = true;
            }
        }
        if is_trimmed { self.trimmed_is_covered() } else { Ok(()) }
    }

    /// Below the floor a snapshot covers everything, above it nothing is missing. (cluster.md §4)
    fn trimmed_is_covered(&self) -> Result<(), Violation> {
        let floor = self.floor()?;
        let wrong = |text: String| Err(Violation::new("trimmed_is_covered", text));
        for number in floor.frame..=self.checks.frame {
            if self.store.get(&self.keys.frame(number)).is_none() {
                return wrong(format!("frame {number} is missing, the floor is {}", floor.frame));
            }
        }
        let (from, to) = self.keys.pieces(floor.snapshot_lsn);
        if floor.snapshot_lsn > 0 && self.store.range(&from, &to, 1).found.is_empty() {
            return wrong(format!(
                "the floor is {}, and the snapshot at {} is not there",
                floor.frame, floor.snapshot_lsn
            ));
        }
        Ok(())
    }

    pub(super) fn floor(&self) -> Result<Floor, Violation> {
        let bytes = self.store.get(&self.keys.floor()).unwrap_or_default();
        decode("floor", bytes).map_err(super::following::misread)
    }

    /// Something leaves an engine.
    pub(super) fn judge_out(
        &mut self,
        node: usize,
        life: &Life,
        out: &Out,
        asked: Option<&Asked>,
    ) -> Result<(), Violation> {
        if let Out::Answer(
            _,
            Answer::Refused(Refused::NotLeader | Refused::OutcomeUnknown | Refused::ShuttingDown),
        ) = out
        {
            return Ok(());
        }
        let checks = &mut self.checks;
        if let Some(epoch) = life.epoch()
            && epoch < checks.epoch
        {
            let text = format!(
                "{} speaks with epoch {epoch}, {} is claimed: {out:?}",
                self.nodes[node].name, checks.epoch
            );
            let text: String = text.chars().take(300).collect();
            return Err(Violation::new("one_authority", text));
        }
        let durable = Lsn(checks.end.last_lsn.0);
        let scene = Checks::scene(&checks.story, &checks.memory, &checks.profile, self.now, durable);
        checks.across.said(&scene, &Said { out, ask: asked.map(|asked| &asked.ask) })?;
        let (Out::Answer(_, answer), Some(Asked { ask, origin })) = (out, asked) else { return Ok(()) };
        match (&ask.request, answer) {
            (Request::Heartbeat { lease, .. }, Answer::Renewed { .. }) => {
                let handled = ask.handled.unwrap_or(0);
                let proof = checks.proofs.entry(*lease).or_insert(0);
                *proof = handled.max(*proof);
            }
            (Request::SessionHeartbeat { session, .. }, Answer::SessionRenewed { .. }) => {
                checks.sessions.proven(*session, ask.handled.unwrap_or(0));
            }
            (Request::ConnectionsTold { open, gone, .. }, Answer::ConnectionsKept { unknown }) => {
                let (epoch, handled) = (life.epoch().unwrap_or(0), ask.handled.unwrap_or(0));
                for session in gone {
                    checks.told_gone(epoch, handled, *session);
                }
                checks.told_kept(epoch, handled, open, unknown)?;
            }
            (Request::Submit(_), Answer::Lease(found)) => {
                if let LeaseFound::Live(lease) = &found.lease {
                    let first = *checks.outcomes.entry(ask.call.0).or_insert(lease.id);
                    if first != lease.id {
                        let text =
                            format!("call {} was told of lease {first} and of {}", ask.call.0, lease.id);
                        return Err(Violation::new("dedupe", text));
                    }
                }
            }
            _ => {}
        }
        match origin {
            Origin::Pass { is_stale_good: true, .. } => Ok(()),
            Origin::Pass { .. } | Origin::Node { .. } => {
                checks.is_fresh(self.now, ask.sent, &ask.request, answer)
            }
        }
    }

    /// A node's state against that of all frames up to where it is, now and then.
    pub(super) fn check_state(&mut self, node: usize, life: &Life) -> Result<(), Violation> {
        self.checks.comparisons += 1;
        if !self.checks.comparisons.is_multiple_of(COMPARE_EVERY) {
            return Ok(());
        }
        let is_whole = match &life.part {
            Part::Writing(writing) => {
                life.engine.is_settled() && writing.work.is_none() && life.errand.is_none()
            }
            Part::Beginning | Part::Following | Part::Winning(_) => true,
        };
        let lsn = life.engine.synced_lsn();
        match self.checks.states.get(&lsn) {
            Some(state) if is_whole && *state != digest(life.engine.kernel()) => {
                let text = format!("{} at {lsn} has another state than its frames", self.nodes[node].name);
                Err(Violation::new("replay_equals_live", text))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A writer whose store answers ends what is over at once; one that cannot append has to wait.
fn late_ms_max(profile: &Profile) -> u64 {
    let faults = &profile.faults;
    let waits = faults.store_lost + faults.late + faults.slow + faults.cut + faults.outage + faults.pause;
    if waits == 0 { LATE_MS_MAX } else { u64::MAX / 2 }
}

fn broken(why: &str) -> Violation {
    Violation::new("store_is_whole", why)
}

fn digest(kernel: &Kernel) -> u64 {
    tenure_cluster::pieces::snapshot_hash(&state_bytes(kernel))
}
