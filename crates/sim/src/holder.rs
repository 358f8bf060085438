//! What a client makes of an answer: what it believes it holds, and until when.

use crate::clients::Hand;
use crate::happening::Sender;
use crate::network::{Call, Purpose};
use crate::violation::Violation;
use crate::world::World;
use tenure_engine::{Answer, LeaseFound, LeaseSnapshot, Refused, Request};
use tenure_kernel::{Face, LeaseId, LeaseState, Lsn, Mode, ReclaimRule, Rejection, SessionId};

impl World {
    /// A client hears an answer that it waits for.
    pub(crate) fn understand(
        &mut self,
        client: usize,
        call: &Call,
        from: Sender,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let Sender { tag, sent } = from;
        match (&call.purpose, answer) {
            (Purpose::Grant | Purpose::Activate(_), Answer::Lease(answer)) => {
                if let LeaseFound::Live(lease) = &answer.lease {
                    self.take(client, from, answer.lsn, lease);
                }
            }
            (Purpose::Rebind { to, .. }, Answer::Lease(answer)) => {
                if let LeaseFound::Live(lease) = &answer.lease {
                    self.take(*to, from, answer.lsn, lease);
                    self.give_back_soon(client, *to, tag, lease.id);
                }
            }
            (Purpose::Heartbeat(lease, epoch), Answer::Renewed { valid_ms, .. }) => {
                let call_tag = call.tag.unwrap_or(0);
                let until = valid_ms.map(|valid_ms| self.clients[client].until(sent, valid_ms));
                if let Some(hand) = self.clients[client].hand(call_tag, *lease)
                    && hand.epoch == *epoch
                    && !hand.reserved
                {
                    hand.valid_until = hand.valid_until.max(until);
                }
                self.plan_last_beat(client, call_tag, *lease);
            }
            (Purpose::OpenSession(session), Answer::Done { .. }) => {
                if let Some(by_hand) = &mut self.clients[client].session
                    && by_hand.session == *session
                {
                    by_hand.confirmed = Some(tag);
                }
            }
            (
                Purpose::SessionHeartbeat(session),
                Answer::SessionRenewed { lsn, valid_ms, ended, draining: _ },
            ) => {
                let holder = &mut self.clients[client];
                let until = holder.until(sent, *valid_ms);
                let known = holder.session.as_ref().filter(|by_hand| by_hand.session == *session);
                if known.is_none_or(|by_hand| by_hand.confirmed != Some(tag)) {
                    // A backup came back: this log's positions are not those that were seen.
                    holder.abandon(*session);
                    return Ok(());
                }
                if let Some(by_hand) = &mut holder.session
                    && by_hand.session == *session
                {
                    by_hand.seen = by_hand.seen.max(*lsn);
                }
                for loss in ended.iter().flatten() {
                    holder.lose(tag, loss.lease);
                }
                // More was lost than is remembered: nothing can be counted on.
                if ended.is_none() {
                    holder.stop_all(tag, *session);
                }
                for hand in holder.hands.iter_mut().filter(|hand| hand.session == Some(*session)) {
                    if !hand.reserved && !hand.at_once {
                        hand.valid_until = hand.valid_until.max(Some(until));
                    }
                }
            }
            (Purpose::SessionHeartbeat(session) | Purpose::OpenSession(session), Answer::Refused(_)) => {
                let holder = &mut self.clients[client];
                holder.session = None;
                holder.stop_all(tag, *session);
            }
            (Purpose::Heartbeat(lease, _) | Purpose::Activate(lease), Answer::Refused(refused)) => {
                self.refused_holder(client, call.tag.unwrap_or(0), *lease, refused);
            }
            _ => {}
        }
        Ok(())
    }

    /// A lease that was granted or bound at `lsn` comes into a client's hands.
    fn take(&mut self, client: usize, from: Sender, lsn: Lsn, lease: &LeaseSnapshot) {
        let Sender { tag, sent } = from;
        // Losses up to what it has seen of its session were told already, perhaps this one among them.
        let told_already = self.clients[client]
            .session
            .as_ref()
            .is_some_and(|by_hand| lease.policy.session == Some(by_hand.session) && lsn <= by_hand.seen);
        if told_already {
            return self.clients[client].lose(tag, lease.id);
        }
        let reserved = match lease.state {
            LeaseState::Reserved { .. } => true,
            LeaseState::Active { .. } => false,
            LeaseState::Revoking(_) => return,
        };
        let known =
            self.story.leases.get(&lease.id).is_some_and(|told| told.epoch_since(lease.epoch).is_some());
        let at_last = lease.policy.face == Face::Streams && self.random.chance(300);
        let hand = Hand {
            tag,
            lease: lease.id,
            epoch: lease.epoch,
            fence: lease.fence,
            members: lease.members.to_vec(),
            mode: lease.policy.mode,
            face: lease.policy.face,
            session: lease.policy.session,
            reserved,
            at_once: lease.policy.reclaim_rule == ReclaimRule::AtOnce,
            ttl_ms: lease.policy.ttl_ms.into(),
            at_last: at_last.then_some(lease.policy.grace_ms.into()),
            valid_until: lease
                .liveness
                .valid_ms
                .filter(|_| !reserved)
                .map(|valid_ms| self.clients[client].until(sent, valid_ms)),
            stopped: false,
            void: tag != self.tag() || !known,
        };
        // A replayed outcome shows the lease as it is now, perhaps in other hands.
        if !self.clients[client].dead && lease.holder == self.clients[client].name {
            self.clients[client].take(hand);
            self.plan_last_beat(client, tag, lease.id);
        }
    }

    /// One that got a lease from another, and was promised nothing, may need it for a moment only.
    fn give_back_soon(&mut self, from: usize, to: usize, tag: u32, lease: LeaseId) {
        if from != to
            && let Some(hand) = self.clients[to].hand(tag, lease).cloned()
            && hand.at_once
            && self.random.chance(600)
        {
            self.give_back(to, &hand);
        }
    }

    /// A holder is told that its lease is not what it thought: it stops, and says so.
    fn refused_holder(&mut self, client: usize, tag: u32, lease: LeaseId, refused: &Refused) {
        let lost = match refused {
            Refused::Rejected(rejection) => matches!(
                rejection,
                Rejection::LeaseNotFound
                    | Rejection::LeaseRetired
                    | Rejection::StaleEpoch { .. }
                    | Rejection::InvalidState { .. }
                    | Rejection::DeadlinePassed { .. }
            ),
            _ => false,
        };
        if lost {
            let epoch = self.clients[client].hand(tag, lease).map(|hand| hand.epoch);
            self.clients[client].stop(tag, lease);
            if let Some(epoch) = epoch
                && self.random.chance(600)
            {
                self.say(client, tag, Request::Acknowledge { lease, epoch, asker: None }, Purpose::Other);
            }
        }
    }

    /// A connection's holder is told without asking.
    pub(crate) fn heard_lost(&mut self, tag: u32, session: SessionId, lease: LeaseId) {
        let listening = |client: &crate::clients::Client| {
            !client.dead && client.connection.as_ref().is_some_and(|connection| connection.session == session)
        };
        let Some(client) = self.clients.iter().position(listening) else { return };
        let epoch = self.clients[client].hand(tag, lease).map(|hand| hand.epoch);
        self.clients[client].lose(tag, lease);
        if let Some(epoch) = epoch
            && self.random.chance(700)
        {
            self.say(client, tag, Request::Acknowledge { lease, epoch, asker: None }, Purpose::Other);
        }
    }

    /// A client notices that its connection is gone. Its leases may come back by another one.
    pub(crate) fn connection_lost(&mut self, client: usize, session: SessionId) {
        let holder = &mut self.clients[client];
        if holder.connection.as_ref().is_some_and(|connection| connection.session == session) {
            holder.connection = None;
        }
        let keep = |hand: &Hand| hand.mode != Mode::Session || hand.session != Some(session);
        // Without its connection a holder may not act, but it may resume.
        for hand in holder.hands.iter_mut().filter(|hand| !keep(hand)) {
            hand.valid_until = None;
        }
    }
}
