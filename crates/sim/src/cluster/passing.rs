//! Requests at a node: answered here while it leads, passed on to the node that it takes for the leader, and tried
//! again with the same operation id until somebody knows the outcome.

use super::network::{CallId, Packet, Station};
use super::node::{Life, Part, Resigning};
use super::world::{Happening, World};
use crate::network::{Ask, CallId as CallNumber};
use crate::violation::Violation;
use tenure_cluster::planted::{Planted, has};
use tenure_engine::{Answer, Completion, Control, Input, Out, Push, Refused, Request, Ticket};
use tenure_kernel::{GateReport, LeaseId, SessionId};

/// Pause before what could not be decided is tried again.
const AGAIN_MS: u64 = 40;
/// One who was asked and says nothing is asked again after this long.
const SILENCE_MS: u64 = 1_000;
/// After this long nobody waits any more.
const PATIENCE_MS: u64 = 12_000;
/// Lines of a connection on which its node hangs up, in thousandths.
const HANGS_UP: u64 = 4;

/// What was asked of this node, or by it, and is not answered yet.
pub(super) struct Pass {
    asker: Asker,
    sent: u64,
    /// The last try, in boot time.
    tried_ms: u64,
    request: Request,
    is_stale_good: bool,
    attempt: u64,
    stands: Stands,
}

/// Who wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    /// A holder, perhaps by a connection.
    Holder { call: CallId, via: Option<SessionId> },
    /// The node itself, about its connections.
    Node,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stands {
    Nowhere,
    Here,
    There { epoch: u64 },
}

/// What the engine was asked, and who wants to know.
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A holder that came to this node.
    Pass { pass: u64, is_stale_good: bool },
    /// Another node.
    Node { station: Station, pass: u64 },
}

impl World {
    /// Something arrives at a node.
    pub(super) fn arrives(&mut self, node: usize, life: &mut Life, packet: Packet) {
        match packet {
            Packet::Ask { call, sent, via, request, is_stale_good } => {
                // Its holder did not read, says the node, and knows nothing of what the holder does.
                if let Some(session) = via.filter(|_| self.random.chance(HANGS_UP)) {
                    return self.hang_up_on(node, life, session);
                }
                if via.is_none_or(|session| life.connections.asks(session, &request)) {
                    self.begin_pass(node, life, Asker::Holder { call, via }, sent, request, is_stale_good);
                }
            }
            Packet::Left { session } => {
                let now_ms = self.boot_ms(node);
                life.connections.close(session, now_ms, true);
            }
            Packet::Passed { from, pass, call, sent, request } => {
                if takes_requests(life) {
                    let origin = Origin::Node { station: from, pass };
                    self.ask_engine(life, origin, call, sent, request);
                } else {
                    self.back(node, from, pass, Answer::Refused(Refused::NotLeader));
                }
            }
            Packet::PassedBack { pass, attempt, answer } => {
                let is_awaited = life.passes.get(&pass).is_some_and(|kept| kept.attempt == attempt);
                if is_awaited {
                    self.known(node, life, pass, *answer);
                }
            }
        }
    }

    /// Has something answered that this node itself asks.
    pub(super) fn pass_own(&mut self, node: usize, life: &mut Life, request: Request) -> u64 {
        self.begin_pass(node, life, Asker::Node, self.now, request, false)
    }

    fn begin_pass(
        &mut self,
        node: usize,
        life: &mut Life,
        asker: Asker,
        sent: u64,
        request: Request,
        is_stale_good: bool,
    ) -> u64 {
        self.next_number += 1;
        let (pass, stands) = (self.next_number, Stands::Nowhere);
        let kept = Pass { asker, sent, tried_ms: 0, request, is_stale_good, attempt: 0, stands };
        life.passes.insert(pass, kept);
        self.try_pass(node, life, pass);
        pass
    }

    fn back(&mut self, node: usize, to: Station, pass: u64, answer: Answer) {
        if self.nodes[to.node].incarnation == to.incarnation {
            let packet = Packet::PassedBack { pass, attempt: to.attempt, answer: Box::new(answer) };
            self.send_to_node(Some(node), to.node, packet);
        }
    }

    fn ask_engine(&mut self, life: &mut Life, origin: Origin, call: CallId, sent: u64, request: Request) {
        self.next_number += 1;
        let ticket = Ticket(self.next_number);
        self.checks.engine_asked(self.now, &request);
        let ask = Ask {
            call: CallNumber(call),
            request: request.clone(),
            sent,
            handled: Some(self.now),
            epoch_before: None,
            turn: None,
        };
        life.asked.insert(ticket, Asked { ask, origin });
        life.inputs.push(Input::new(ticket, request));
    }

    /// Tries to have a request answered, here or elsewhere.
    fn try_pass(&mut self, node: usize, life: &mut Life, pass: u64) {
        let is_following = matches!(life.part, Part::Following);
        let takes = takes_requests(life);
        let now_ms = self.boot_ms(node);
        let writer = life.lookout.writer().filter(|writer| writer.writes());
        let there = writer.and_then(|writer| {
            let number = self.nodes.iter().position(|node| node.name == writer.node)?;
            Some((number, writer.epoch))
        });
        let Some(kept) = life.passes.get_mut(&pass) else { return };
        if self.now > kept.sent + PATIENCE_MS {
            life.passes.remove(&pass);
            return;
        }
        kept.attempt += 1;
        kept.tried_ms = now_ms;
        let call = match kept.asker {
            Asker::Holder { call, .. } => call,
            Asker::Node => 0,
        };
        let (attempt, sent) = (kept.attempt, kept.sent);
        let request = kept.request.clone();
        let is_only_read = matches!(request, Request::Resource(_) | Request::Read(_));
        let answers_fresh = has(Planted::FollowerAnswersFresh) && is_only_read;
        let is_stale_good = kept.is_stale_good;
        let wait = if takes || (is_following && (is_stale_good || answers_fresh)) {
            kept.stands = Stands::Here;
            self.ask_engine(life, Origin::Pass { pass, is_stale_good }, call, sent, request);
            SILENCE_MS
        } else {
            match there.filter(|(there, _)| *there != node) {
                Some((there, epoch)) => {
                    kept.stands = Stands::There { epoch };
                    let incarnation = self.nodes[node].incarnation;
                    let from = Station { node, incarnation, attempt };
                    self.send_to_node(Some(node), there, Packet::Passed { from, pass, call, sent, request });
                    SILENCE_MS
                }
                None => {
                    kept.stands = Stands::Nowhere;
                    AGAIN_MS
                }
            }
        };
        let incarnation = self.nodes[node].incarnation;
        self.at(wait, Happening::PassDue { node, incarnation, pass, attempt });
    }

    /// A request was not answered for a while.
    pub(super) fn pass_due(&mut self, node: usize, life: &mut Life, pass: u64, attempt: u64) {
        let Some(kept) = life.passes.get(&pass).filter(|kept| kept.attempt == attempt) else { return };
        // An engine answers everything it takes.
        if kept.stands != Stands::Here {
            self.try_pass(node, life, pass);
        }
    }

    /// The leader changed: requests to the former one go to the new one.
    pub(super) fn pass_to_new_writer(&mut self, node: usize, life: &mut Life) {
        let epoch = life.lookout.writer().map_or(0, |writer| writer.epoch);
        if epoch <= life.known_epoch {
            return;
        }
        life.known_epoch = epoch;
        let old = |kept: &Pass| matches!(kept.stands, Stands::There { epoch: asked } if asked < epoch);
        let passes: Vec<u64> =
            life.passes.iter().filter(|(_, kept)| old(kept)).map(|(pass, _)| *pass).collect();
        passes.into_iter().for_each(|pass| self.try_pass(node, life, pass));
    }

    /// The engine is gone, and what it was asked with it.
    pub(super) fn drop_asked(&mut self, node: usize, life: &mut Life) {
        life.asked.clear();
        let incarnation = self.nodes[node].incarnation;
        for (pass, kept) in life.passes.iter_mut().filter(|(_, kept)| kept.stands == Stands::Here) {
            kept.stands = Stands::Nowhere;
            kept.attempt += 1;
            let due = Happening::PassDue { node, incarnation, pass: *pass, attempt: kept.attempt };
            self.at(AGAIN_MS, due);
        }
    }

    /// What became of a request, if that is known now.
    fn known(&mut self, node: usize, life: &mut Life, pass: u64, answer: Answer) {
        let is_open = matches!(
            answer,
            Answer::Refused(Refused::NotLeader | Refused::OutcomeUnknown | Refused::ShuttingDown)
        );
        if is_open {
            let Some(kept) = life.passes.get_mut(&pass) else { return };
            kept.stands = Stands::Nowhere;
            kept.attempt += 1;
            let (attempt, incarnation) = (kept.attempt, self.nodes[node].incarnation);
            self.at(AGAIN_MS, Happening::PassDue { node, incarnation, pass, attempt });
            return;
        }
        let Some(kept) = life.passes.remove(&pass) else { return };
        match kept.asker {
            Asker::Holder { call, via } => {
                let is_heard = via.is_none_or(|session| {
                    self.connection_answered(node, life, session, kept.tried_ms, &answer)
                });
                if is_heard {
                    self.send_to_holder(node, call, via, kept.sent, answer);
                }
            }
            Asker::Node => self.connections_heard(node, life, pass, &answer),
        }
    }

    /// Something leaves an engine.
    pub(super) fn out(&mut self, node: usize, life: &mut Life, out: &Out) -> Result<(), Violation> {
        self.tally.answers += 1;
        self.trace.detail(self.now, format_args!("{}: {out:?}", self.nodes[node].name));
        let asked = match out {
            Out::Answer(ticket, _) => life.asked.remove(ticket),
            _ => None,
        };
        self.judge_out(node, life, out, asked.as_ref())?;
        match (out, asked) {
            (Out::Answer(_, answer), Some(Asked { origin: Origin::Pass { pass, .. }, .. })) => {
                self.known(node, life, pass, answer.clone());
            }
            (Out::Answer(_, answer), Some(Asked { origin: Origin::Node { station, pass }, .. })) => {
                self.back(node, station, pass, answer.clone());
            }
            (Out::Push(Push::Lost { session, lease, .. }), _) => {
                self.pass_loss_on(node, life, *session, *lease);
            }
            (Out::OpenGate(lease), _) => {
                let wait = self.random.within(0..=800);
                let incarnation = self.nodes[node].incarnation;
                let report =
                    if self.random.chance(800) { GateReport::Confirmed } else { GateReport::TimedOut };
                self.at(wait, Happening::Gate { node, incarnation, lease: *lease, report });
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn gate_done(&mut self, life: &mut Life, lease: LeaseId, report: GateReport) {
        if let Part::Writing(_) = life.part {
            life.completions.push(Completion::Told(Control::GateDone { lease, report }));
        }
    }
}

/// Whether the engine is asked. One that has resigned still is: it must refuse by itself.
fn takes_requests(life: &Life) -> bool {
    matches!(&life.part, Part::Writing(writing) if writing.resigning != Resigning::Wanted)
}
