//! Stores that are put back to a backup while any of the nodes are on, off, cut off, standing still, rebuilt or renamed. The
//! real `Trust`, `Lookout` and `Term` decide, over frames that mean nothing: what counts is that no frame number is ever
//! given twice, since fences are counted from them. One seed reproduces everything.
//!
//! It rests on what `trust.rs` rests on: a backup that is put back is older than a node may be out of touch, and names a node.

use super::store::SimStore;
use super::world::first_keys;
use crate::random::Random;
use crate::trace::Trace;
use crate::violation::Violation;
use crate::world::{Options, Report, Tally};
use std::sync::Mutex;
use std::time::Duration;
use tenure_cluster::store::{Op, Ranged, Stepped, Store, StoreError, Txn, Watching};
use tenure_cluster::values::{Meta, Node, Writer, decode, encode};
use tenure_cluster::{
    Beaten, Claimant, Claimed, Keys, Lookout, Next, Peer, Remembered, TOUCH_MS, Term, Told, Trust, Written,
    mark, resignation_of_dead,
};
use tenure_kernel::RecordKind;
use tenure_log::{BatchBuilder, BatchId, Genesis, Identity, Lsn, Moment};

const MACHINES: usize = 4;
const WRITER_TTL_MS: u64 = 3_000;
/// Steps after the store was put back.
const AFTER: u64 = 100;
/// How often a node writes down what it remembers.
const REMEMBER_MS: u64 = 2_000;

/// The store, as what decides sees it.
struct Shelf(Mutex<SimStore>);

/// A machine: its disk, and what runs on it.
struct Machine {
    url: String,
    name: String,
    disk: Option<Remembered>,
    life: Option<Life>,
    /// Until when it reaches neither the store nor other machines.
    cut_until: u64,
    /// Until when it stands still.
    paused_until: u64,
}

struct Life {
    trust: Trust,
    lookout: Lookout,
    term: Option<Term>,
    is_open: bool,
    incarnation: String,
    revision: u64,
    written_ms: u64,
}

struct Restores {
    random: Random,
    trace: Trace,
    now: u64,
    count: u64,
    keys: Keys,
    identity: Identity,
    shelf: Shelf,
    machines: Vec<Machine>,
    backups: Vec<(u64, SimStore)>,
    /// Claims of dead leaders that a guardian knows of.
    claims: Vec<Writer>,
    /// How often a leader writes, in a thousand turns.
    writes: u64,
    /// The highest frame that anybody was told is committed.
    given: u64,
    tally: Tally,
}

impl Store for Shelf {
    fn step(&self, txn: &Txn, _: Duration) -> Result<Stepped, StoreError> {
        Ok(self.now().step(txn, 0).0)
    }

    fn range(&self, from: &str, to: &str, limit: usize, _: Duration) -> Result<Ranged, StoreError> {
        Ok(self.now().range(from, to, limit))
    }

    fn watch(&self, _: &str, _: &str, _: u64, _: Duration) -> Result<Box<dyn Watching>, StoreError> {
        Err(StoreError::Refused { why: "nobody watches here".to_owned(), no_space: false })
    }

    fn compact(&self, _: u64, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Shelf {
    fn now(&self) -> std::sync::MutexGuard<'_, SimStore> {
        self.0.lock().expect("invariant: one thread")
    }
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, options: Options) -> Report {
    let mut world = Restores::new(seed, options);
    let violation = world.live(options.steps).err();
    Report {
        seed,
        violation,
        refused: false,
        now_ms: world.now,
        steps: world.count,
        trace: world.trace,
        tally: world.tally,
    }
}

impl Restores {
    fn new(seed: u64, options: Options) -> Self {
        let mut random = Random::new(seed);
        let identity = Genesis { random: random.bytes(), unix_seconds: 1_700_000_000, shard: 0 }.identity();
        let keys = Keys::under("sim");
        let writes = *random.pick(&[20, 100, 400]);
        let mut store = SimStore::default();
        let mut first = first_keys(&keys, WRITER_TTL_MS);
        let meta = Meta::of(&identity, Lsn(1), 0, "secret".repeat(8));
        first.then.push(Op::Put { key: keys.meta(), value: encode(&meta) });
        let _ = store.step(&first, 0);
        let machine = |number: usize| Machine {
            url: format!("m{number}"),
            name: format!("n{number}"),
            disk: None,
            life: None,
            cut_until: 0,
            paused_until: 0,
        };
        Self {
            random,
            trace: Trace::new(options.trace),
            now: 1_000,
            count: 0,
            keys,
            identity,
            shelf: Shelf(Mutex::new(store)),
            machines: (0..MACHINES).map(machine).collect(),
            backups: Vec::new(),
            claims: Vec::new(),
            writes,
            given: 0,
            tally: Tally::default(),
        }
    }

    fn live(&mut self, steps: u64) -> Result<(), Violation> {
        for number in 0..MACHINES {
            if self.random.chance(700) {
                self.start(number);
            }
        }
        // Once something is forgotten nothing goes on; so that is not all that is seen, it comes late.
        let before = self.random.within(30..=steps.max(800) / 20);
        for step in 0..before + AFTER {
            if step == before {
                self.restore();
            }
            self.count += 1;
            self.now += match self.random.below(40) {
                0 => self.random.within(TOUCH_MS..=3 * TOUCH_MS),
                1..=6 => self.random.within(1_000..=20_000),
                _ => self.random.within(10..=1_500),
            };
            let number = self.anybody();
            match self.random.below(200) {
                0..=3 => self.crash(number),
                4..=9 => self.start(number),
                10 if step < before => self.rebuild(number),
                10 if self.random.chance(200) => self.rebuild(number),
                11..=12 => {
                    self.machines[number].cut_until = self.now + self.random.within(1_000..=3 * TOUCH_MS);
                    self.line(format_args!("n{number} is cut off"));
                }
                13..=14 => {
                    self.write_down(number);
                    self.machines[number].paused_until = self.now + self.random.within(1_000..=3 * TOUCH_MS);
                    self.line(format_args!("m{number} stands still"));
                }
                15..=19 => self.back_up(),
                20 if step > before => self.restore(),
                21..=22 => self.resign(number),
                23..=24 => self.resign_for_dead(),
                _ => self.turn(number)?,
            }
        }
        self.heal()
    }

    /// The leader more often than others: that is where it hurts.
    fn anybody(&mut self) -> usize {
        let leads = |machine: &Machine| machine.life.as_ref().is_some_and(|life| life.term.is_some());
        match self.machines.iter().position(leads) {
            Some(leader) if self.random.chance(250) => leader,
            Some(_) | None => self.random.below(MACHINES as u64) as usize,
        }
    }

    /// A cluster that has forgotten nothing, and whose every machine is on, has a leader in the end.
    fn heal(&mut self) -> Result<(), Violation> {
        for number in 0..MACHINES {
            (self.machines[number].cut_until, self.machines[number].paused_until) = (0, 0);
            self.start(number);
        }
        for _ in 0..60 {
            self.now += 500;
            for number in 0..MACHINES {
                self.turn(number)?;
            }
        }
        let store = self.progress();
        let knows = |machine: &Machine| {
            let known = machine.life.as_ref().map(|life| life.trust.remembered());
            known.or(machine.disk.as_ref()).is_some_and(|known| store.lacks(&known.progress).is_some())
        };
        let is_forgetful = store.standing == 2 || store.frame < self.given || self.machines.iter().any(knows);
        let leads = self
            .machines
            .iter()
            .any(|machine| machine.life.as_ref().is_some_and(|life| life.is_open && life.term.is_some()));
        // Somebody may be waited for that is gone for good: an operator's word ends that.
        let waits = self.machines.iter().filter_map(|machine| machine.life.as_ref());
        let waits = waits.flat_map(|life| life.trust.missing()).any(|(memory, _)| !self.has(&memory));
        if is_forgetful || leads || waits {
            return Ok(());
        }
        let text = format!("nobody leads, nothing is forgotten and everybody is there: {store:?}");
        Err(Violation::new("a_whole_cluster_is_led", text))
    }

    /// Whether a memory is somewhere, or one that came in its place.
    fn has(&self, memory: &str) -> bool {
        let known = self.machines.iter().filter_map(|machine| machine.life.as_ref());
        let mut known = known.map(|life| life.trust.remembered());
        known.any(|known| known.memory == memory || known.former.iter().any(|former| former == memory))
    }

    fn progress(&self) -> tenure_cluster::Progress {
        tenure_cluster::fresh_progress(&self.shelf, &self.keys).expect("invariant: the keys are there")
    }

    fn start(&mut self, number: usize) {
        if self.machines[number].life.is_some() {
            return;
        }
        self.tally.starts += 1;
        if self.random.chance(30) {
            self.count += 1;
            self.machines[number].name = format!("r{}", self.count);
        }
        let (now, url) = (self.now, self.machines[number].url.clone());
        let name = self.machines[number].name.clone();
        let mut known = self.machines[number].disk.clone().unwrap_or_default();
        known.log_id = self.identity.log_id;
        known.generation = 1;
        if known.memory.is_empty() {
            known.memory = format!("memory-{}", self.random.next_u64());
        }
        self.count += 1;
        let incarnation = format!("{number}-{}", self.count);
        let me = Claimant {
            node: name.clone(),
            incarnation: incarnation.clone(),
            url,
            writer_ttl_ms: WRITER_TTL_MS,
        };
        let place = self.random.below(1_000);
        self.machines[number].disk = Some(known.clone());
        self.machines[number].life = Some(Life {
            trust: Trust::new(name.clone(), known),
            lookout: Lookout::new(self.keys.clone(), me, place),
            term: None,
            is_open: false,
            incarnation,
            revision: 0,
            written_ms: now,
        });
        self.line(format_args!("{name} starts on m{number}"));
    }

    /// What a node knows is on its disk within two seconds, whatever else it can do meanwhile.
    fn write_down(&mut self, number: usize) {
        let (now, machine) = (self.now, &mut self.machines[number]);
        if let Some(life) = &mut machine.life
            && now >= life.written_ms + REMEMBER_MS
            && machine.paused_until <= now
        {
            life.written_ms = now;
            machine.disk = Some(life.trust.remembered().clone());
        }
    }

    fn crash(&mut self, number: usize) {
        self.write_down(number);
        if let Some(life) = self.machines[number].life.take() {
            self.claims.extend(life.term.map(|term| term.writer().clone()));
            let name = self.machines[number].name.clone();
            self.line(format_args!("{name} crashes"));
        }
    }

    /// The machine comes back without what it had; sometimes with another name at the same address.
    fn rebuild(&mut self, number: usize) {
        self.crash(number);
        self.machines[number].disk = None;
        if self.random.chance(500) {
            self.count += 1;
            self.machines[number].name = format!("r{}", self.count);
        }
        self.line(format_args!("m{number} is rebuilt"));
        self.start(number);
    }

    /// A backup from before the first node was listed looks like a store that nobody has used.
    fn back_up(&mut self) {
        let store = self.shelf.now().clone();
        let (from, to) = self.keys.nodes();
        if !store.range(&from, &to, 1).found.is_empty() {
            self.backups.push((self.now, store));
        }
    }

    fn restore(&mut self) {
        let old = self.now.saturating_sub(TOUCH_MS);
        let fit = self.backups.partition_point(|(made, _)| *made < old);
        if fit == 0 {
            return;
        }
        let which = if self.random.chance(600) { fit - 1 } else { self.random.below(fit as u64) as usize };
        let (made, store) = self.backups[which].clone();
        *self.shelf.now() = store;
        self.backups.truncate(which + 1);
        self.tally.changes += 1;
        self.line(format_args!("RESTORED to what it was at {made}"));
        // Everything is often off for that, and comes back one by one.
        for number in 0..MACHINES {
            if self.random.chance(500) {
                self.crash(number);
            }
        }
    }

    fn resign(&mut self, number: usize) {
        let now = self.now;
        if self.is_out(number) {
            return;
        }
        let Some(life) = &mut self.machines[number].life else { return };
        let Some(mut term) = life.term.take() else { return };
        life.trust.led(term.proved_ms(), &term.progress(life.revision));
        let txn = term.resign(now, now);
        let _ = self.shelf.step(&txn, Duration::ZERO);
    }

    /// A guardian resigns for a leader that died at any time before, whatever the store was put back to meanwhile.
    fn resign_for_dead(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let claim = self.random.pick(&self.claims).clone();
        let txn = resignation_of_dead(&self.keys, &claim, self.now);
        if self.shelf.step(&txn, Duration::ZERO).is_ok_and(|stepped| stepped.held) {
            self.tally.resigned_for += 1;
            self.line(format_args!("{} is resigned for by its guardian", claim.node));
        }
    }

    fn is_out(&self, number: usize) -> bool {
        let machine = &self.machines[number];
        machine.life.is_none() || machine.cut_until > self.now || machine.paused_until > self.now
    }

    /// A node does what is due.
    fn turn(&mut self, number: usize) -> Result<(), Violation> {
        if self.is_out(number) {
            return Ok(());
        }
        let Some(mut life) = self.machines[number].life.take() else { return Ok(()) };
        let goes_on = if life.term.is_some() {
            self.lead(number, &mut life)?;
            true
        } else {
            self.follow(number, &mut life)?
        };
        if goes_on {
            self.machines[number].life = Some(life);
            self.write_down(number);
        }
        Ok(())
    }

    /// `false`: it ended.
    fn follow(&mut self, number: usize, life: &mut Life) -> Result<bool, Violation> {
        let name = self.machines[number].name.clone();
        let stepped =
            self.shelf.step(&Txn::fresh(&life.lookout.look()), Duration::ZERO).map_err(impossible)?;
        let [Some(writer), Some(head), Some(beat)] = &stepped.found[..] else {
            return Err(Violation::new("store_is_whole", "a key is missing"));
        };
        life.lookout.read(self.now, writer, head, beat).map_err(super::following::misread)?;
        let Some(progress) = life.lookout.progress(stepped.revision) else { return Ok(true) };
        if let Err(forgot) = life.trust.saw(self.now, &progress) {
            let known = life.trust.remembered();
            let marked = mark(&self.shelf, &self.keys, &name, known, &forgot.what).map_err(impossible)?;
            self.line(format_args!("{name} ends: {forgot}; marked {marked}"));
            self.machines[number].disk = Some(known.clone());
            return Ok(false);
        }
        if progress.standing == 2 {
            self.line(format_args!("{name} ends: the store is marked"));
            return Ok(false);
        }
        let (from, to) = self.keys.nodes();
        let ranged = self.shelf.range(&from, &to, 100, Duration::ZERO).map_err(impossible)?;
        let nodes: Vec<(String, Node)> = ranged
            .found
            .iter()
            .filter_map(|found| {
                let name = found.key.strip_prefix(&from)?.to_owned();
                Some((name, decode("nodes", &found.value).ok()?))
            })
            .collect();
        life.trust.listed(self.now, &nodes);
        let (is_doubtful, missing) = (life.trust.is_doubtful(), life.trust.missing());
        self.trace.detail(
            self.now,
            format_args!("{name} sees {progress:?}, doubts: {is_doubtful}, misses {missing:?}"),
        );
        if life.trust.is_doubtful() && !self.compare(number, life, &name)? {
            return Ok(false);
        }
        if life.trust.wants_listing() {
            self.enlist(number, life, &name, &nodes);
        }
        self.claim(number, life, &name)?;
        Ok(true)
    }

    /// Asks everybody who may know more. `false`: somebody does.
    fn compare(&mut self, number: usize, life: &mut Life, name: &str) -> Result<bool, Violation> {
        for (_, peer) in life.trust.missing() {
            let me = Peer { node: name.to_owned(), url: self.machines[number].url.clone() };
            let Some(told) = self.told_at(&peer.url, number, life, me) else { continue };
            let store = self.progress();
            if let Err(forgot) = life.trust.heard(&told, &store) {
                self.line(format_args!("{name} ends: {forgot}"));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is answered at an address.
    fn told_at(&mut self, url: &str, asker: usize, life: &Life, me: Peer) -> Option<Told> {
        if url == self.machines[asker].url {
            // A node that asks at its own address hears itself.
            let (node, incarnation) = (me.node, life.incarnation.clone());
            return Some(Told {
                node,
                incarnation,
                remembered: life.trust.remembered().clone(),
                leads: None,
            });
        }
        let number = self.machines.iter().position(|machine| machine.url == url)?;
        if self.is_out(number) {
            return None;
        }
        let now = self.now;
        let machine = &mut self.machines[number];
        let life_there = machine.life.as_mut()?;
        if life_there.trust.asked(now, &life.trust.remembered().memory, me) {
            machine.disk = Some(life_there.trust.remembered().clone());
        }
        let leads =
            life_there.term.as_ref().filter(|term| term.over().is_none() && term.authority_until_ms() > now);
        let mut remembered = life_there.trust.remembered().clone();
        if let Some(term) = &life_there.term {
            remembered.progress.raise(&term.progress(life_there.revision));
        }
        Some(Told {
            node: machine.name.clone(),
            incarnation: life_there.incarnation.clone(),
            remembered,
            leads: leads.map(|term| term.writer().epoch),
        })
    }

    fn enlist(&mut self, number: usize, life: &mut Life, name: &str, nodes: &[(String, Node)]) {
        let memory = life.trust.remembered().memory.clone();
        let mut then = Vec::new();
        for (listed, node) in nodes {
            if listed == name && node.memory != memory {
                life.trust.replaces(&node.memory);
                self.machines[number].disk = Some(life.trust.remembered().clone());
            } else if listed != name && node.memory == memory {
                let key = self.keys.node(listed);
                then.push(Op::Delete { to: format!("{key}\0"), from: key });
            }
        }
        let node = Node {
            url: self.machines[number].url.clone(),
            incarnation: life.incarnation.clone(),
            memory,
            ..Node::default()
        };
        then.push(Op::Put { key: self.keys.node(name), value: encode(&node) });
        if let Ok(stepped) = self.shelf.step(&Txn { then, ..Txn::default() }, Duration::ZERO) {
            life.trust.enlisted(self.now, stepped.revision);
        }
    }

    fn claim(&mut self, number: usize, life: &mut Life, name: &str) -> Result<(), Violation> {
        if life.lookout.next(self.now) != Next::Claim || !life.trust.may_claim(self.now) {
            return Ok(());
        }
        let txn = life.lookout.claim(format!("{}", self.random.next_u64()), 0);
        let stepped = self.shelf.step(&txn, Duration::ZERO);
        let claimed = life.lookout.claimed(self.now, self.now, stepped).map_err(super::following::misread)?;
        if let Claimed::Won(won) = claimed {
            let store = self.progress();
            self.line(format_args!("{name} won epoch {} at frame {}", won.writer.epoch, store.frame));
            if store.frame < self.given {
                let text = format!("{name} claims at frame {}, and {} was given", store.frame, self.given);
                return Err(Violation::new("who_claims_knows_everything", text));
            }
            let term = Term::begin(self.keys.clone(), self.identity.salt, *won)
                .map_err(super::following::misread)?;
            // On disk before anything is written under this claim.
            life.trust.led(self.now, &term.progress(0));
            self.machines[number].disk = Some(life.trust.remembered().clone());
            (life.term, life.is_open) = (Some(term), false);
        }
        Ok(())
    }

    fn lead(&mut self, number: usize, life: &mut Life) -> Result<(), Violation> {
        let now = self.now;
        let Some(term) = &mut life.term else { return Ok(()) };
        let is_over = if term.may_step(now) {
            let writes = !life.is_open || term.is_in_flight() || self.random.chance(self.writes);
            let is_lost = self.random.chance(100);
            let at = Moment { tick: now, wall_ms: now };
            let txn = if !writes {
                term.beat(now)
            } else if !life.is_open {
                term.open(at)
            } else if term.is_in_flight() {
                term.look(now)
            } else {
                let head = *term.head();
                let id = BatchId(head.batch).next();
                let mut batch = BatchBuilder::new(id, Lsn(head.lsn + 1), at);
                let _ = batch.push(RecordKind::Event, &self.random.bytes());
                term.append(&batch.finish())
            };
            let is_look = writes && life.is_open && term.is_in_flight() && txn.then.len() == 3;
            let stepped = self.shelf.step(&txn, Duration::ZERO);
            let stepped = match stepped {
                Ok(_) if is_lost => Err(StoreError::Unanswered { why: String::new() }),
                stepped => stepped,
            };
            if let Ok(stepped) = &stepped {
                life.revision = life.revision.max(stepped.revision);
            }
            if !writes {
                term.beaten(now, now, stepped) == Beaten::Fenced
            } else {
                let written =
                    if is_look { term.looked(now, stepped) } else { term.appended(now, now, stepped) };
                match written {
                    Written::Committed { .. } => {
                        life.is_open = true;
                        let frame = term.head().frame;
                        if frame <= self.given {
                            let name = &self.machines[number].name;
                            let text =
                                format!("{name} gave frame {frame}, and {} was given before", self.given);
                            return Err(Violation::new("no_frame_is_given_twice", text));
                        }
                        self.given = frame;
                        self.tally.events += 1;
                        false
                    }
                    Written::Fenced => true,
                    Written::Absent | Written::Unknown => false,
                    // A frame of another history: the product stops here.
                    Written::Corrupt { .. } => true,
                }
            }
        } else {
            true
        };
        let progress = term.progress(life.revision);
        life.trust.led(term.proved_ms(), &progress);
        if is_over {
            life.term = None;
            let name = self.machines[number].name.clone();
            self.line(format_args!("{name} leads no longer"));
        }
        Ok(())
    }

    fn line(&mut self, line: core::fmt::Arguments<'_>) {
        self.trace.line(self.now, line);
    }
}

fn impossible(error: impl core::fmt::Display) -> Violation {
    Violation::new("store_is_whole", error.to_string())
}
