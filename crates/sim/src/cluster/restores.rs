//! Stores that are put back to a backup while any of the nodes are on, off, cut off, standing still, rebuilt or renamed. The
//! real `Trust`, `Lookout` and `Term` decide, over frames that grant leases or mean nothing: no frame number of a log is given
//! twice, since fences are counted from them. An operator adopts what was put back (`operator.rs`), and the cluster continues
//! in the next generation, which grants nothing before leases of the one before are over (`grants.rs`). One seed reproduces
//! everything.
//!
//! It rests on what `trust.rs` rests on: a backup that is put back is older than a node may be out of touch, and names a node.

mod grants;
mod operator;
mod spells;
mod starting;

use self::grants::{Copy, Grants};
use self::operator::TTL_MS_MAX;
use super::store::SimStore;
use super::world::first_keys;
use crate::random::Random;
use crate::trace::Trace;
use crate::violation::Violation;
use crate::world::{Options, Report, Tally};
use std::sync::Mutex;
use std::time::Duration;
use tenure_cluster::store::{Op, Ranged, Stepped, Store, StoreError, Txn, Watching};
use tenure_cluster::values::{Floor, Head, Meta, Node, Writer, decode, encode};
use tenure_cluster::{
    Beaten, Claimed, Keys, ListedNode, Listing, Lookout, Next, Peer, Progress, Remembered, TOUCH_MS, Term,
    Told, Trust, Written, mark, read_list, resignation_of_dead,
};
use tenure_kernel::RecordKind;
use tenure_log::{BatchBuilder, BatchId, Genesis, Identity, Lsn, Moment};

const MACHINES: usize = 4;
const WRITER_TTL_MS: u64 = 3_000;
/// Steps after the store was put back.
const AFTER: u64 = 100;
/// The same where somebody adopts it.
const AFTER_ADOPTION: u64 = 160;
/// How often an operator tries to bring the cluster back at the end. From the third time on with every memory there is.
const HEALINGS: usize = 6;
/// How often a node reports to the list: what it sees of the store afterwards, an earlier backup lacks.
const LIST_MS: u64 = 10_000;
/// How often a node writes down what it remembers.
const REMEMBER_MS: u64 = 2_000;

/// The store, as what decides sees it.
struct Shelf(Mutex<SimStore>);

/// A machine: its disk, and what runs on it.
struct Machine {
    url: String,
    name: String,
    disk: Option<Remembered>,
    /// Its local log.
    copy: Option<Copy>,
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
    listed_ms: u64,
    /// Which generation's log it follows, by fence base.
    log: u64,
    /// Nothing is granted before that.
    not_before_tick: u64,
    /// The leader's tick, which stands still while it has no authority, and when it was looked at.
    tick: u64,
    tick_at: u64,
    /// The lease that the frame in flight grants.
    granting: Option<u64>,
}

/// What an operator does before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Nothing,
    Adopts,
    /// Adopts, and removes nodes that are lost; more of them are.
    Removes,
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
    operator: Operator,
    /// Whether nodes get the names of others.
    has_doubles: bool,
    /// Whether entries of the list are damaged.
    has_garbage: bool,
    /// How often a leader writes, in a thousand turns.
    writes: u64,
    /// The highest frame that anybody was told is committed, and of which log.
    given: u64,
    given_log: u64,
    grants: Grants,
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
        let operator = *random.pick(&[Operator::Nothing, Operator::Adopts, Operator::Removes]);
        let mut store = SimStore::default();
        let mut first = first_keys(&keys, WRITER_TTL_MS);
        let meta = Meta::of(&identity, Lsn(1), 0, "secret".repeat(8));
        first.then.push(Op::Put { key: keys.meta(), value: encode(&meta) });
        let _ = store.step(&first, 0);
        let mut grants = Grants::default();
        grants.begins(identity.fence_base, &Head::default());
        let machine = |number: usize| Machine {
            url: format!("m{number}"),
            name: format!("n{number}"),
            disk: None,
            copy: None,
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
            operator,
            has_doubles: seed % 8 == 7,
            has_garbage: seed % 8 == 6,
            writes,
            given: 0,
            given_log: identity.fence_base,
            grants,
            tally: Tally::default(),
        }
    }

    fn live(&mut self, steps: u64) -> Result<(), Violation> {
        for number in 0..MACHINES {
            if self.random.chance(700) {
                self.start(number)?;
            }
        }
        // Once something is forgotten nothing goes on before it is adopted; so that is not all that is seen, it comes late.
        let before = self.random.within(30..=steps.max(800) / 20);
        let after = if self.operator == Operator::Nothing { AFTER } else { AFTER_ADOPTION };
        for step in 0..before + after {
            if step == before {
                match self.random.below(20) {
                    0..=2 => self.idle()?,
                    3..=4 => self.usurp()?,
                    5..=6 => self.join()?,
                    _ => {}
                }
                self.restore();
                // Who restores a store adopts it, at best.
                if self.operator != Operator::Nothing && self.random.chance(400) {
                    self.adopt_and_start()?;
                }
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
                4..=9 => self.start(number)?,
                10 if step < before => self.rebuild(number)?,
                10 if self.random.chance(200) => self.rebuild(number)?,
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
                25..=28 if self.operator != Operator::Nothing && self.is_forgetful() => {
                    self.adopt_and_start()?;
                }
                29..=34 if self.operator == Operator::Removes => self.remove_lost(),
                35 if self.operator == Operator::Removes => self.rebuild(number)?,
                36 if self.has_garbage => self.garble(),
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

    /// A cluster whose every machine is on has a leader in the end: an operator adopts a store that has forgotten something,
    /// and removes nodes that are waited for and lost.
    fn heal(&mut self) -> Result<(), Violation> {
        for healing in 0..HEALINGS {
            for number in 0..MACHINES {
                (self.machines[number].cut_until, self.machines[number].paused_until) = (0, 0);
                self.rename_double(number);
                self.start(number)?;
            }
            for _ in 0..60 {
                self.all_turn(500)?;
            }
            let leads = |life: &Life| life.is_open && life.term.is_some();
            if self.machines.iter().filter_map(|machine| machine.life.as_ref()).any(leads) {
                return Ok(());
            }
            let store = self.progress();
            let knows = |machine: &Machine| {
                let known = machine.life.as_ref().map(|life| life.trust.remembered());
                let known = known.or(machine.disk.as_ref());
                known.is_some_and(|known| known.carried_over(&self.meta(), &store).is_err())
            };
            if self.is_forgetful() || self.machines.iter().any(knows) {
                self.adopt(healing >= 2)?;
            } else {
                self.remove_all_lost();
            }
        }
        let text = format!("nobody leads, whatever an operator does: {:?}", self.progress());
        Err(Violation::new("a_whole_cluster_is_led", text))
    }

    /// An operator gives each node a name of its own, as the node that does not start says.
    fn rename_double(&mut self, number: usize) {
        if self.machines[..number].iter().any(|other| other.name == self.machines[number].name) {
            self.stop(number);
            self.count += 1;
            self.machines[number].name = format!("r{}", self.count);
        }
    }

    fn meta(&self) -> Meta {
        decode("meta", &self.value(&self.keys.meta())).expect("invariant: a value of ours")
    }

    fn floor(&self) -> Floor {
        decode("floor", &self.value(&self.keys.floor())).expect("invariant: a value of ours")
    }

    fn value(&self, key: &str) -> Vec<u8> {
        self.shelf.now().get(key).expect("invariant: the keys are there").to_vec()
    }

    fn progress(&self) -> Progress {
        tenure_cluster::fresh_progress(&self.shelf, &self.keys).expect("invariant: the keys are there")
    }

    /// A backup from before the first node was listed looks like a store that nobody has used.
    fn back_up(&mut self) {
        let list = self.list();
        if list.iter().filter_map(|listed| listed.node.as_ref()).any(|node| !node.is_forgotten) {
            let store = self.shelf.now().clone();
            self.backups.push((self.now, store));
        }
    }

    fn list(&self) -> Vec<ListedNode> {
        read_list(&self.shelf, &self.keys, Duration::ZERO).expect("invariant: the store answers")
    }

    /// Somebody writes to the store by hand: an entry of the list cannot be decoded any more.
    fn garble(&mut self) {
        let list = self.list();
        if list.is_empty() {
            return;
        }
        let name = self.random.pick(&list).name.clone();
        let put = Op::Put { key: self.keys.node(&name), value: b"{}".to_vec() };
        let _ = self.shelf.step(&Txn { then: vec![put], ..Txn::default() }, Duration::ZERO);
        self.line(format_args!("the entry of {name} cannot be decoded any more"));
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
        if now < term.authority_until_ms() {
            life.tick += now - life.tick_at;
        }
        let txn = term.resign(life.tick, now);
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
        if let Some(copy) = self.machines[number].copy {
            life.trust.copied(copy.head.frame, copy.head.chain);
        }
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
        let head = life.lookout.head().copied().unwrap_or_default();
        if !self.catch_up(number, &name, head, false) {
            return Ok(false);
        }
        let list = self.list();
        life.trust.listed(self.now, &list);
        let (is_doubtful, missing) = (life.trust.is_doubtful(), life.trust.missing());
        self.trace.detail(
            self.now,
            format_args!("{name} sees {progress:?}, doubts: {is_doubtful}, misses {missing:?}"),
        );
        if life.trust.is_doubtful() && !self.compare(number, life, &name)? {
            return Ok(false);
        }
        let is_due = !life.trust.is_doubtful() && self.now >= life.listed_ms + LIST_MS;
        if is_due || life.trust.wants_listing() {
            life.listed_ms = self.now;
            if !self.enlist(number, life, &name, &list) {
                return Ok(false);
            }
        }
        self.claim(number, life, &name)?;
        Ok(true)
    }

    /// Copies frames, or not yet. `false`: they do not continue what was copied before, or are gone.
    fn catch_up(&mut self, number: usize, name: &str, head: Head, is_due: bool) -> bool {
        let Some(copy) = self.machines[number].copy else { return false };
        if copy.head.frame >= head.frame {
            return true;
        }
        let (log, floor) = (self.meta().fence_base, self.floor());
        let continues = copy.log == log && self.grants.has(log, &head, &copy.head);
        if copy.head.frame + 1 < floor.frame || !continues {
            self.line(format_args!("{name} ends: the log is not the one that it copied"));
            return false;
        }
        if is_due || self.random.chance(800) {
            self.machines[number].copy = Some(Copy { log, head });
        }
        true
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

    /// `false`: another run has the name.
    fn enlist(&mut self, number: usize, life: &mut Life, name: &str, list: &[ListedNode]) -> bool {
        let mut listing = Listing::new(&self.keys, name, &life.incarnation);
        listing.read(self.shelf.now().get(&self.keys.node(name)));
        if let Some(url) = listing.asks() {
            let me = Peer { node: name.to_owned(), url: self.machines[number].url.clone() };
            let told = self.told_at(&url, number, life, me);
            if let Err(double) = listing.answered(&url, told.as_ref()) {
                self.line(format_args!("{name} ends: {} answers for its name", double.url));
                return false;
            }
        }
        let memory = life.trust.remembered().memory.clone();
        let mut former = Vec::new();
        let nodes = list.iter().filter_map(|listed| Some((&listed.name, listed.node.as_ref()?)));
        for (listed, node) in nodes {
            if listed == name && node.memory != memory {
                life.trust.replaces(&node.memory);
                self.machines[number].disk = Some(life.trust.remembered().clone());
            } else if listed != name && node.memory == memory {
                let key = self.keys.node(listed);
                former.push(Op::Delete { to: format!("{key}\0"), from: key });
            }
        }
        let node = Node {
            url: self.machines[number].url.clone(),
            incarnation: life.incarnation.clone(),
            memory,
            forgotten: life.trust.removed().to_vec(),
            ..Node::default()
        };
        let Some(txn) = listing.put(&node, former) else { return true };
        if let Ok(stepped) = self.shelf.step(&txn, Duration::ZERO)
            && listing.stepped(&node, &stepped)
        {
            life.trust.enlisted(self.now, stepped.revision);
        }
        true
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
            let meta = self.meta();
            if life.log != meta.fence_base {
                let text = format!("{name} follows {}, and the log is {}", life.log, meta.fence_base);
                return Err(Violation::new("a_former_generation_never_claims", text));
            }
            if self.is_behind(life.log, store.frame) {
                let text = format!("{name} claims at frame {}, and {} was given", store.frame, self.given);
                return Err(Violation::new("who_claims_knows_everything", text));
            }
            (life.tick, life.tick_at, life.granting) = (won.tick, self.now, None);
            let term = Term::begin(self.keys.clone(), self.identity.salt, *won)
                .map_err(super::following::misread)?;
            if !self.catch_up(number, name, *term.head(), true) {
                return Err(impossible("what was won is not what was copied"));
            }
            if life.log > self.given_log {
                (self.given_log, self.given) = (life.log, store.frame);
            }
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
        if now < term.authority_until_ms() {
            life.tick += now - life.tick_at;
            if life.is_open && self.random.chance(500) {
                self.grants.renewed(now, life.log, term.head());
            }
        }
        life.tick_at = now;
        let is_over = if term.may_step(now) {
            let writes = !life.is_open || term.is_in_flight() || self.random.chance(self.writes);
            let is_lost = self.random.chance(100);
            let (tick, before) = (life.tick, *term.head());
            let at = Moment { tick, wall_ms: now };
            let txn = if !writes {
                term.beat(tick)
            } else if !life.is_open {
                term.open(at)
            } else if term.is_in_flight() {
                term.look(tick)
            } else {
                life.granting =
                    (tick >= life.not_before_tick && self.random.chance(700)).then(|| ttl(&mut self.random));
                let head = *term.head();
                let id = BatchId(head.batch).next();
                let mut batch = BatchBuilder::new(id, Lsn(head.lsn + 1), at);
                let _ = batch.push(RecordKind::Event, &self.random.bytes());
                term.append(&batch.finish())
            };
            let is_look = writes && life.is_open && term.is_in_flight() && txn.then.len() == 3;
            if let (true, false, Some(Op::Put { value, .. })) = (writes, is_look, txn.then.get(1)) {
                let head = decode("head", value).map_err(super::following::misread)?;
                self.grants.sent(life.log, &before, &head, life.granting);
            }
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
                        if life.log != self.given_log || frame <= self.given {
                            let name = &self.machines[number].name;
                            let text =
                                format!("{name} gave frame {frame}, and {} was given before", self.given);
                            return Err(Violation::new("no_frame_is_given_twice", text));
                        }
                        self.given = frame;
                        self.tally.events += 1;
                        self.machines[number].copy = Some(Copy { log: life.log, head: *term.head() });
                        if let Some(ttl_ms) = life.granting.take()
                            && now < term.authority_until_ms()
                        {
                            let by = (now, &*self.machines[number].name);
                            self.grants.granted(by, life.log, term.head().lsn, ttl_ms)?;
                            self.tally.granted_after += u64::from(life.log != self.identity.fence_base);
                        }
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

/// Most leases are short; a long one is what a wait can miss.
fn ttl(random: &mut Random) -> u64 {
    if random.chance(150) { random.within(20_000..=TTL_MS_MAX) } else { random.within(1_000..=10_000) }
}

fn impossible(error: impl core::fmt::Display) -> Violation {
    Violation::new("store_is_whole", error.to_string())
}
