//! Holders whose leases are kept by a connection to a node: they open it, ask and prove life on it, lose it, and go on with
//! what they hold on another one at another node, or give up. They act only while they were promised something.

use super::calls::{Purpose, Way};
use super::holders::Hand;
use super::network::Packet;
use super::world::{Happening, NODES, World};
use crate::violation::Violation;
use tenure_engine::{Keeper, Request, Submit};
use tenure_kernel::{Action, LeaseId, OpenSession, Policy, Rebind, SessionId, SessionKind, Token};

/// A connection as its holder sees it.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) session: SessionId,
    pub(super) node: usize,
    grace_ms: u32,
}

impl World {
    /// A connection to any node that can be reached, if there is one.
    fn connect(&mut self, number: usize) -> Option<Connection> {
        let first = self.random.below(NODES as u64) as usize;
        let (now, nodes) = (self.now, &self.nodes);
        let is_there = |node: &usize| {
            let there = &nodes[*node];
            there.life.is_some() && there.paused_until <= now && there.links.others <= now
        };
        let node = (0..NODES).map(|next| (first + next) % NODES).find(is_there)?;
        let life = self.nodes[node].life.as_mut()?;
        self.next_number += 1;
        let session = SessionId(self.next_number << 8);
        life.connections.open(session, number);
        let grace_ms = self.random.within(0..=self.profile.grace_ms_max) as u32;
        let connection = Connection { session, node, grace_ms };
        self.holders[number].connection = Some(connection.clone());
        self.tally.connections += 1;
        let (name, node) = (self.holders[number].name.clone(), self.nodes[node].name);
        self.line(format_args!("{name} opens connection {session} to {node}"));
        Some(connection)
    }

    /// What makes a holder's connection durable with its first lease.
    fn opening(&self, number: usize, connection: &Connection) -> Box<OpenSession> {
        let name = self.holders[number].name.clone();
        Box::new(OpenSession {
            session: connection.session,
            holder: name.clone(),
            kind: SessionKind::Connection,
            ttl_ms: self.profile.word_ms as u32,
            grace_ms: connection.grace_ms,
            principal: name,
            accepts_handover: None,
        })
    }

    /// Which node a call goes to, if there is a connection for it: with a grant that connection is brought along.
    pub(super) fn over_connection(
        &self,
        number: usize,
        only: Option<SessionId>,
        request: &mut Request,
    ) -> Option<(usize, SessionId)> {
        let connection = self.holders[number].connection.as_ref()?;
        if only.is_some_and(|only| only != connection.session) {
            return None;
        }
        if let Request::Submit(submit) = request {
            submit.opening = Some(self.opening(number, connection));
            submit.via = Some(connection.session);
            if let Action::Grant(grant) = &mut *submit.action {
                grant.policy.session = Some(connection.session);
            }
        }
        Some((connection.node, connection.session))
    }

    /// Proves life on the connection, and brings onto it what another one kept.
    pub(super) fn keep_by_connection(&mut self, number: usize) {
        let holder = &self.holders[number];
        if !holder.by_connection {
            return;
        }
        let (is_mute, is_steady) = (holder.is_mute, holder.is_steady);
        let connection = match holder.connection.clone() {
            None if is_steady || self.random.chance(400) => self.connect(number),
            connection => connection,
        };
        let Some(connection) = connection else { return };
        for hand in self.holders[number].hands.clone() {
            let Some(session) = hand.session.filter(|_| !hand.is_reserved) else { continue };
            if session != connection.session {
                self.resume(number, &hand, &connection);
            } else if !is_mute && self.now >= hand.asked_at + hand.ttl_ms / 4 && self.random.chance(900) {
                if let Some(hand) = self.holders[number].hand(hand.lease) {
                    hand.asked_at = self.now;
                }
                let via = Some(session);
                let request = Request::Heartbeat { lease: hand.lease, epoch: hand.epoch, via, asker: None };
                let purpose = Purpose::Heartbeat(hand.lease, hand.epoch);
                self.call_over(number, request, purpose, Way::Connection { only: via });
            }
        }
    }

    fn resume(&mut self, number: usize, hand: &Hand, connection: &Connection) {
        let purpose = Purpose::Resume(hand.lease);
        if self.calls.values().any(|call| call.is_for(number, purpose)) {
            return;
        }
        let rebind = Rebind::keeping(Token::new(hand.lease, hand.epoch));
        let way = Way::Connection { only: Some(connection.session) };
        let submit = Submit { keeper: Some(Keeper::Connection), ..Submit::now(Action::Rebind(rebind)) };
        self.submit_over(number, submit, purpose, way);
    }

    /// Terms of a lease that the holder's connection is to keep; which one that is, each try says.
    pub(super) fn connection_terms(&mut self, number: usize) -> Option<Policy> {
        let connection = self.holders[number].connection.as_ref()?;
        let session = connection.session;
        let grace_ms = self.random.within(0..=self.profile.grace_ms_max) as u32;
        Some(Policy::session(session, self.profile.word_ms as u32, grace_ms))
    }

    /// A holder closes its connection on purpose: it acts on nothing that the connection kept from here on.
    pub(super) fn leave(&mut self, number: usize) {
        let Some(connection) = self.holders[number].connection.clone() else { return };
        let session = connection.session;
        self.left.insert(session);
        self.connection_over(number, session, true);
        let wait = self.line_delay(connection.node);
        let packet = Packet::Left { session };
        self.at(wait, Happening::ToNode { node: connection.node, packet });
    }

    /// A holder is no more; its end of the connection is closed for it.
    pub(super) fn die(&mut self, number: usize) {
        self.holders[number].is_dead = true;
        self.leave(number);
    }

    /// Every connection to a node that is gone is over.
    pub(super) fn connections_die(&mut self, over: &super::connections::Connections) {
        for (holder, session) in over.holders() {
            self.connection_over(holder, session, false);
        }
    }

    /// A holder's connection is over. `is_told`: with all that it kept, which it does not act on any more; otherwise it acts
    /// for as long as it was promised.
    pub(super) fn connection_over(&mut self, number: usize, session: SessionId, is_told: bool) {
        let now = self.now;
        let holder = &mut self.holders[number];
        let is_this = |connection: &mut Connection| connection.session == session;
        if holder.connection.take_if(is_this).is_none() {
            return;
        }
        let is_steady = holder.is_steady;
        let kept = holder.hands.iter_mut().filter(|hand| hand.session == Some(session));
        let mut leases: Vec<LeaseId> = Vec::new();
        for hand in kept {
            if is_told {
                hand.until = hand.until.min(now);
            }
            leases.push(hand.lease);
        }
        for lease in leases {
            if !is_steady && self.random.chance(300) {
                self.holders[number].stop(lease);
            }
        }
        let gone: Vec<u64> =
            self.calls.iter().filter(|(_, call)| call.needs(session)).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| {
            self.forget_call(id);
        });
    }

    /// The node passed on that a lease is lost.
    pub(super) fn loss_told(
        &mut self,
        number: usize,
        session: SessionId,
        lease: LeaseId,
    ) -> Result<(), Violation> {
        let holder = &self.holders[number];
        let is_open = holder.connection.as_ref().is_some_and(|connection| connection.session == session);
        if is_open && !holder.is_dead {
            return self.lost(number, lease, "its connection was told");
        }
        Ok(())
    }
}
