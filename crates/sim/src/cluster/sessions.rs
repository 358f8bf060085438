//! Sessions by hand: one proof of life keeps several leases. And the operator, who takes leases away from the living.

use super::calls::Purpose;
use super::holders::ByHand;
use super::world::World;
use crate::operator::revoke;
use crate::violation::Violation;
use tenure_engine::{Answer, Refused, Request, Submit};
use tenure_kernel::{Action, LeaseId, Lsn, OpenSession, Reason, ReclaimBy, SessionId, SessionKind};

impl World {
    pub(super) fn open_or_close(&mut self, number: usize) {
        if let Some(by_hand) = self.holders[number].session.clone() {
            if self.random.chance(150) {
                self.stop_session(number, by_hand.session);
                let close = Action::CloseSession { session: by_hand.session, reason: Reason::Explicit };
                self.submit(number, Submit::now(close), Purpose::Other);
            }
            return;
        }
        self.next_number += 1;
        let session = SessionId(self.next_number << 8);
        let ttl_ms = self.random.within(1_000..=self.profile.ttl_ms_max);
        let grace_ms = self.random.within(0..=self.profile.grace_ms_max);
        let asked_at = self.now;
        self.holders[number].session =
            Some(ByHand { session, ttl_ms, grace_ms, seen: Lsn(0), is_open: false, asked_at });
        let name = self.holders[number].name.clone();
        let open = OpenSession {
            session,
            holder: name.clone(),
            kind: SessionKind::ByHand,
            ttl_ms: ttl_ms as u32,
            grace_ms: grace_ms as u32,
            principal: name,
            accepts_handover: None,
        };
        self.submit(number, Submit::now(Action::OpenSession(open)), Purpose::OpenSession(session));
    }

    pub(super) fn prove_session(&mut self, number: usize) {
        let now = self.now;
        let Some(by_hand) = &mut self.holders[number].session else { return };
        if by_hand.is_open && now >= by_hand.asked_at + by_hand.ttl_ms / 4 {
            by_hand.asked_at = now;
            let (session, seen) = (by_hand.session, by_hand.seen);
            let request = Request::SessionHeartbeat { session, seen, asker: None };
            self.call(number, request, Purpose::SessionHeartbeat(session), false);
        }
    }

    /// A holder hears of its session.
    pub(super) fn session_heard(
        &mut self,
        number: usize,
        session: SessionId,
        sent: u64,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let holder = &mut self.holders[number];
        let Some(by_hand) = holder.session.as_mut().filter(|by_hand| by_hand.session == session) else {
            return Ok(());
        };
        match answer {
            Answer::Done { .. } => by_hand.is_open = true,
            Answer::SessionRenewed { lsn, valid_ms, ended, .. } => {
                by_hand.seen = by_hand.seen.max(*lsn);
                ended.iter().flatten().for_each(|loss| holder.stop(loss.lease));
                // More was lost than is remembered: nothing can be counted on.
                if ended.is_none() {
                    self.stop_session(number, session);
                    return Ok(());
                }
                let until = holder.until(sent, *valid_ms);
                let kept =
                    holder.hands.iter_mut().filter(|hand| hand.session == Some(session) && !hand.is_reserved);
                kept.for_each(|hand| hand.until = hand.until.max(until));
                let kept = self.holders[number].hands.iter().filter(|hand| hand.session == Some(session));
                for hand in kept {
                    self.checks.nobody_else_holds(self.now, &self.holders, number, hand)?;
                }
            }
            Answer::Refused(Refused::Rejected(_) | Refused::Liveness(_)) => {
                self.stop_session(number, session)
            }
            _ => {}
        }
        Ok(())
    }

    /// It does not act on anything that the session keeps any more.
    fn stop_session(&mut self, number: usize, session: SessionId) {
        let holder = &mut self.holders[number];
        holder.session = None;
        let kept = holder.hands.iter().filter(|hand| hand.session == Some(session));
        let leases: Vec<LeaseId> = kept.map(|hand| hand.lease).collect();
        leases.into_iter().for_each(|lease| holder.stop(lease));
    }

    /// Through the same nodes as everybody else; the holder learns of it by its next proof of life.
    pub(super) fn revoke_something(&mut self, number: usize) {
        let live: Vec<LeaseId> = self.checks.story().live().map(|told| told.id).collect();
        if let Some(index) = self.random.index(live.len()) {
            let action = revoke(live[index], None, ReclaimBy::Daemon);
            self.submit(number, Submit::now(action), Purpose::Other);
        }
    }
}
