//! Bytes of what callers ask, for fingerprints of operations: written only, never read back. Two actions have the same
//! bytes exactly if they ask for the same. What the engine fills in (wall clock, ground and gate of a reclaim) is no part
//! of them.

use super::primitive::Writer;
use crate::command::{Action, Bundle, Grant, Member, Start, Steer, Token};

/// Appends an action. The layout stands in `docs/internals/formats/operations.md`; a change of it is a new version of fingerprints.
pub fn encode_action(action: &Action, out: &mut Vec<u8>) {
    let mut w = Writer { out };
    match action {
        Action::Grant(grant) => {
            w.byte(1);
            w.grant(grant);
        }
        Action::Activate(token) => {
            w.byte(2);
            w.token(token);
        }
        Action::Release(release) => {
            w.byte(3);
            w.token(&release.token);
            w.text(&release.text);
        }
        Action::Rebind(rebind) => {
            w.byte(4);
            w.token(&rebind.token);
            w.optional(rebind.holder.as_deref(), Writer::text);
            w.optional(rebind.policy.as_ref(), Writer::policy);
            w.optional(rebind.attachment.as_deref(), Writer::bytes);
            w.optional(rebind.face_data.as_deref(), Writer::bytes);
        }
        Action::Amend(amend) => {
            w.byte(5);
            w.token(&amend.token);
            w.optional(amend.attachment.as_deref(), Writer::bytes);
            w.optional(amend.face_data.as_deref(), Writer::bytes);
        }
        Action::Revoke(revoke) => {
            w.byte(6);
            w.lease(revoke.lease);
            w.optional(revoke.epoch.as_ref(), |w, epoch| w.number(epoch.0));
            w.coded(revoke.reason);
            w.text(&revoke.text);
            w.actor(&revoke.actor);
            w.coded(revoke.reclaim_by);
        }
        Action::Reclaim(reclaim) => {
            w.byte(7);
            w.lease(reclaim.lease);
            w.optional(reclaim.epoch.as_ref(), |w, epoch| w.number(epoch.0));
            w.actor(&reclaim.actor);
        }
        Action::Drain(steer) => {
            w.byte(8);
            w.steer(steer);
        }
        Action::Revive(steer) => {
            w.byte(9);
            w.steer(steer);
        }
        Action::DefinePool { name, size } => {
            w.byte(10);
            w.text(name);
            w.number((*size).into());
        }
        Action::RemovePool { name, force } => {
            w.byte(11);
            w.text(name);
            w.flag(*force);
        }
        Action::OpenSession(open) => {
            w.byte(12);
            w.open_session(open);
        }
        Action::CloseSession { session, reason } => {
            w.byte(13);
            w.number(session.0);
            w.coded(*reason);
        }
    }
}

impl Writer<'_> {
    fn grant(&mut self, grant: &Grant) {
        self.bundle(&grant.bundle);
        self.text(&grant.holder);
        match grant.start {
            Start::Active => self.flag(false),
            Start::Reserved { ttl_ms } => {
                self.flag(true);
                self.number(ttl_ms);
            }
        }
        self.policy(&grant.policy);
        self.bytes(&grant.face_data);
        self.bytes(&grant.attachment);
        self.optional(grant.take_over.as_ref(), |w, lease| w.lease(*lease));
        self.number(grant.alternatives.len() as u64);
        for bundle in &grant.alternatives {
            self.bundle(bundle);
        }
    }

    fn bundle(&mut self, bundle: &Bundle) {
        self.number(bundle.members.len() as u64);
        for member in &bundle.members {
            match member {
                Member::Resource(name) => {
                    self.byte(1);
                    self.text(name);
                }
                Member::AnyOf { pool, count } => {
                    self.byte(2);
                    self.text(pool);
                    self.number((*count).into());
                }
            }
        }
    }

    fn token(&mut self, token: &Token) {
        self.lease(token.lease);
        self.number(token.epoch.0);
        self.optional(token.holder.as_deref(), Self::text);
    }

    fn steer(&mut self, steer: &Steer) {
        self.lease(steer.lease);
        self.optional(steer.epoch.as_ref(), |w, epoch| w.number(epoch.0));
        self.actor(&steer.actor);
        self.text(&steer.text);
    }
}
