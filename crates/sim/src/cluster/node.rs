//! One node: the real engine over the real `Lookout` and `Term`, driven by what happens instead of by threads. At most one
//! question to the store is under way, as with the product's one thread for it; trimming goes beside.

use super::clock::Clock;
use super::connections::Connections;
use super::growth::Trimming;
use super::mirror::Mirror;
use super::network::{AskId, Links, Question, Reply};
use super::passing::{Asked, Pass};
use super::world::{Happening, World};
use crate::violation::Violation;
use std::collections::BTreeMap;
use tenure_cluster::planted::{Planted, has};
use tenure_cluster::values::{Floor, Writer};
use tenure_cluster::{Claimant, Lookout, Term, step_within};
use tenure_engine::{Completion, Engine, Input, Outputs, Stop, Ticket, setup};
use tenure_kernel::{Kernel, Lsn, Tick};
use tenure_log::{Authority, Batch};

/// Turns that one happening may bring.
const TURNS_MAX: usize = 256;

/// A machine, whether its daemon runs or not.
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) clock: Clock,
    pub(super) incarnation: u64,
    pub(super) paused_until: u64,
    pub(super) links: Links,
    pub(super) mirror: Mirror,
    pub(super) life: Option<Box<Life>>,
}

/// What a node has in memory.
pub(super) struct Life {
    pub(super) engine: Engine,
    pub(super) lookout: Lookout,
    pub(super) part: Part,
    /// The question to the store that is under way.
    pub(super) errand: Option<Underway>,
    pub(super) trimming: Trimming,
    pub(super) watch: Option<u64>,
    /// Frames up to here are known to be in the store.
    pub(super) upto: u64,
    /// Not before this instant of boot time again.
    pub(super) nap_until_ms: u64,
    pub(super) inputs: Vec<Input>,
    pub(super) completions: Vec<Completion>,
    pub(super) asked: BTreeMap<Ticket, Asked>,
    pub(super) passes: BTreeMap<u64, Pass>,
    pub(super) connections: Connections,
    pub(super) known_epoch: u64,
    pub(super) engine_wake: Option<u64>,
    pub(super) wake_at: Option<u64>,
    pub(super) wake_token: u64,
}

/// A question under way.
pub(super) struct Underway {
    pub(super) id: AskId,
    pub(super) errand: Errand,
    /// The instant before it was sent, in boot time.
    pub(super) sent_ms: u64,
}

/// What a question is for.
pub(super) enum Errand {
    Begin,
    Snapshot(Floor),
    Look,
    Frames,
    Claim,
    FindOut,
    EarlyBeat,
    Open,
    LookForOpening,
    Append(Batch),
    Resolve(Batch),
    Beat,
    Resign,
}

/// The part a node plays.
pub(super) enum Part {
    /// It has to look around first.
    Beginning,
    Following,
    /// It won the log and copies what it lacks.
    Winning(Box<Winning>),
    Writing(Box<Writing>),
}

pub(super) struct Winning {
    pub(super) term: Term,
    pub(super) tick: u64,
    pub(super) proved_ms: u64,
    /// Nobody knows what became of the opening frame.
    pub(super) is_unsure: bool,
}

pub(super) struct Writing {
    pub(super) term: Term,
    pub(super) proved_ms: u64,
    pub(super) work: Option<Work>,
    pub(super) resigning: Resigning,
    /// What the engine was told last.
    pub(super) authority: Authority,
    pub(super) has_lapsed: bool,
}

/// What the engine asks of the log.
pub(super) enum Work {
    Append(Batch),
    Resolve(Batch),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resigning {
    No,
    /// Once nothing is in flight.
    Wanted,
    Sent,
}

impl Node {
    pub(super) fn new(name: &'static str, clock: Clock) -> Self {
        Self {
            name,
            clock,
            incarnation: 0,
            paused_until: 0,
            links: Links::default(),
            mirror: Mirror::default(),
            life: None,
        }
    }
}

impl Life {
    pub(super) fn epoch(&self) -> Option<u64> {
        match &self.part {
            Part::Writing(writing) => Some(writing.term.writer().epoch),
            Part::Beginning | Part::Following | Part::Winning(_) => None,
        }
    }

    /// The claim that its guardian knows of.
    pub(super) fn claim(&self) -> Option<&Writer> {
        match &self.part {
            Part::Winning(winning) => Some(winning.term.writer()),
            Part::Writing(writing) => Some(writing.term.writer()),
            Part::Beginning | Part::Following => None,
        }
    }
}

/// How long a term's writer may answer.
pub(super) fn authority(term: &Term) -> Authority {
    if has(Planted::AuthorityNotChecked) {
        return Authority::Forever;
    }
    Authority::Until { boot_ms: term.authority_until_ms() }
}

impl World {
    pub(super) fn boot_ms(&self, node: usize) -> u64 {
        self.nodes[node].clock.boot_ms(self.now)
    }

    pub(super) fn new_lookout(&mut self, node: usize) -> Lookout {
        let me = Claimant {
            node: self.nodes[node].name.to_owned(),
            incarnation: self.nodes[node].incarnation.to_string(),
            url: String::new(),
            writer_ttl_ms: self.profile.writer_ttl_ms,
        };
        let place = self.random.within(0..=1_000);
        Lookout::new(self.keys.clone(), me, place)
    }

    /// A node starts, with whatever copy it has.
    pub(super) fn start(&mut self, node: usize) -> Result<(), Violation> {
        if self.nodes[node].life.is_some() {
            return Ok(());
        }
        self.tally.starts += 1;
        self.nodes[node].incarnation += 1;
        let incarnation = self.nodes[node].incarnation;
        self.tell(node, format_args!("starts"));
        let life = Life {
            engine: self.rebuilt(node)?,
            lookout: self.new_lookout(node),
            part: Part::Beginning,
            errand: None,
            trimming: Trimming::default(),
            watch: None,
            upto: 0,
            nap_until_ms: 0,
            inputs: Vec::new(),
            completions: Vec::new(),
            asked: BTreeMap::new(),
            passes: BTreeMap::new(),
            connections: Connections::default(),
            known_epoch: 0,
            engine_wake: None,
            wake_at: None,
            wake_token: 0,
        };
        self.nodes[node].life = Some(Box::new(life));
        self.with(node, incarnation, |_, _| Ok(()))
    }

    /// An engine that follows, from this node's copy alone.
    pub(super) fn rebuilt(&mut self, node: usize) -> Result<Engine, Violation> {
        let config = self.profile.engine.clone();
        let mirror = &self.nodes[node].mirror;
        let replay = mirror
            .replay(setup(&self.identity, &config), self.identity.salt)
            .map_err(|error| Violation::new("copies_continue", error.to_string()))?;
        let next_lsn = Lsn(mirror.end().last_lsn.next().0);
        let now = self.nodes[node].clock.read(self.now);
        Ok(Engine::following_from(config, replay, next_lsn, now))
    }

    /// An engine of nothing, for the moment in which one becomes another.
    pub(super) fn no_engine(&self) -> Engine {
        let config = self.profile.engine.clone();
        let kernel = Kernel::new(setup(&self.identity, &config));
        Engine::following(config, kernel, Tick(0), Lsn(1), tenure_engine::Now::default())
    }

    /// Lets something happen to a node, and whatever follows from it.
    pub(super) fn with(
        &mut self,
        node: usize,
        incarnation: u64,
        act: impl FnOnce(&mut Self, &mut Life) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        if self.nodes[node].incarnation != incarnation {
            return Ok(());
        }
        let Some(mut life) = self.nodes[node].life.take() else { return Ok(()) };
        let done = act(self, &mut life).and_then(|()| self.go_on(node, &mut life));
        self.nodes[node].life = Some(life);
        done
    }

    fn go_on(&mut self, node: usize, life: &mut Life) -> Result<(), Violation> {
        for turns in 0.. {
            if turns == TURNS_MAX {
                return Err(Violation::new(
                    "no_busy_turns",
                    format!("{} finds no end", self.nodes[node].name),
                ));
            }
            self.tend_connections(node, life);
            self.turn(node, life)?;
            self.drive(node, life)?;
            let is_due = life.engine_wake.is_some_and(|at| at <= self.now);
            if life.inputs.is_empty() && life.completions.is_empty() && !is_due {
                break;
            }
        }
        self.pass_to_new_writer(node, life);
        if let Some(at) = life.engine_wake {
            self.wake_at(node, life, at);
        }
        Ok(())
    }

    /// Plans to look at a node again.
    pub(super) fn wake_at(&mut self, node: usize, life: &mut Life, at: u64) {
        if life.wake_at.is_some_and(|planned| planned <= at) {
            return;
        }
        life.wake_at = Some(at);
        life.wake_token += 1;
        let (token, incarnation) = (life.wake_token, self.nodes[node].incarnation);
        self.at(at.saturating_sub(self.now), Happening::Wake { node, incarnation, token });
    }

    /// The same, by the node's own clock.
    pub(super) fn wake_at_boot(&mut self, node: usize, life: &mut Life, boot_ms: u64) {
        let wait = self.nodes[node].clock.world_until(self.now, boot_ms).max(1);
        self.wake_at(node, life, self.now + wait);
    }

    /// One turn of the engine, if there is anything for it.
    fn turn(&mut self, node: usize, life: &mut Life) -> Result<(), Violation> {
        let is_due = life.engine_wake.is_some_and(|at| at <= self.now);
        if life.inputs.is_empty() && life.completions.is_empty() && !is_due {
            return Ok(());
        }
        life.engine_wake = None;
        let now = self.nodes[node].clock.read(self.now);
        let (inputs, completions) =
            (core::mem::take(&mut life.inputs), core::mem::take(&mut life.completions));
        if let Part::Writing(writing) = &mut life.part {
            let holds = |authority| match authority {
                Authority::Forever => true,
                Authority::Until { boot_ms } => now.boot_ms < boot_ms,
            };
            for completion in &completions {
                if let Completion::Authority(authority) = completion {
                    writing.has_lapsed |= !holds(writing.authority);
                    writing.authority = *authority;
                }
            }
            let may_answer = holds(writing.authority);
            if may_answer && writing.has_lapsed {
                self.checks.regains(writing.term.writer().epoch, life.engine.tick());
            }
            if !may_answer && !writing.has_lapsed {
                self.tally.lapses += 1;
            }
            writing.has_lapsed = !may_answer;
        }
        let outputs = life.engine.turn(now, inputs, completions);
        self.after_turn(node, life, outputs)
    }

    fn after_turn(&mut self, node: usize, life: &mut Life, outputs: Outputs) -> Result<(), Violation> {
        let Outputs { outs, append, resolve, reads: _, wake_in_ms, stop } = outputs;
        if let Part::Writing(writing) = &mut life.part {
            self.checks.decides(self.now, writing.term.writer().epoch, life.engine.tick());
            if let Some(batch) = append {
                writing.work = Some(Work::Append(batch));
            } else if let Some(batch) = resolve {
                writing.work = Some(Work::Resolve(batch));
            }
        }
        for out in outs {
            self.out(node, life, &out)?;
        }
        life.engine_wake = wake_in_ms.map(|in_ms| match in_ms {
            0 => self.now,
            in_ms => self.now + self.nodes[node].clock.world_ms(in_ms) + 1,
        });
        self.check_state(node, life)?;
        match stop {
            None => Ok(()),
            Some(Stop::Fenced) => {
                self.tell(node, format_args!("is fenced"));
                self.follow_again(node, life)
            }
            Some(stop @ (Stop::LogFailed(_) | Stop::Newer { .. })) => {
                Err(Violation::new("copies_continue", stop.to_string()))
            }
        }
    }

    /// The state is dropped and had again from the copy.
    pub(super) fn follow_again(&mut self, node: usize, life: &mut Life) -> Result<(), Violation> {
        life.engine = self.rebuilt(node)?;
        life.lookout = self.new_lookout(node);
        life.part = Part::Beginning;
        life.errand = None;
        life.trimming = Trimming::default();
        life.watch = None;
        life.upto = 0;
        life.inputs.clear();
        life.completions.clear();
        life.engine_wake = None;
        self.drop_asked(node, life);
        Ok(())
    }

    /// Sends a question and waits for it so long.
    pub(super) fn ask(&mut self, node: usize, life: &mut Life, errand: Errand, question: Question) {
        let sent_ms = self.boot_ms(node);
        let within = match errand {
            Errand::Begin | Errand::Snapshot(_) | Errand::Look | Errand::Frames => 1_500,
            _ => step_within(self.profile.writer_ttl_ms).as_millis() as u64,
        };
        let id = self.ask_within(node, within, question);
        life.errand = Some(Underway { id, errand, sent_ms });
    }

    pub(super) fn ask_within(&mut self, node: usize, within: u64, question: Question) -> AskId {
        self.next_number += 1;
        let (id, incarnation) = (self.next_number, self.nodes[node].incarnation);
        self.ask_store(node, id, question);
        self.at(within, Happening::Unanswered { node, incarnation, id });
        id
    }

    /// What became of a question; `None`: no answer in time.
    pub(super) fn answered(
        &mut self,
        node: usize,
        life: &mut Life,
        id: AskId,
        reply: Option<Reply>,
    ) -> Result<(), Violation> {
        if life.trimming.waits_for(id) {
            return self.trimmed(node, life, reply);
        }
        let Some(underway) = life.errand.take_if(|underway| underway.id == id) else { return Ok(()) };
        let Underway { errand, sent_ms, .. } = underway;
        match errand {
            Errand::Begin
            | Errand::Snapshot(_)
            | Errand::Look
            | Errand::Frames
            | Errand::Claim
            | Errand::FindOut
            | Errand::EarlyBeat
            | Errand::Open
            | Errand::LookForOpening => self.followed(node, life, errand, sent_ms, reply),
            Errand::Append(_) | Errand::Resolve(_) | Errand::Beat | Errand::Resign => {
                self.wrote(node, life, errand, sent_ms, reply)
            }
        }
    }

    /// What a node does next about the log.
    fn drive(&mut self, node: usize, life: &mut Life) -> Result<(), Violation> {
        if life.errand.is_none() {
            match &life.part {
                Part::Beginning | Part::Following | Part::Winning(_) => self.drive_following(node, life)?,
                Part::Writing(_) => self.drive_writing(node, life)?,
            }
        }
        if let Part::Writing(_) = life.part {
            self.drive_trimming(node, life)?;
        }
        Ok(())
    }
}
