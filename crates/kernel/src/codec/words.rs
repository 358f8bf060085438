//! Enums and small structs that events and state share. A code, once used, never means anything else.

use super::DecodeError;
use super::primitive::{Reader, Writer};
use crate::command::{OpenSession, Operation, SessionKind};
use crate::ids::{Epoch, SessionId};
use crate::limits::Retention;
use crate::policy::{Face, Mode, Policy, ReclaimRule};
use crate::reason::{Actor, Evidence, GateReport, Reason, ReclaimBy, ReclaimGround};
use crate::rejection::StateName;

/// Enums whose code is their place in a list that only grows.
pub(super) trait Coded: Copy + PartialEq + 'static {
    const WHAT: &'static str;
    const ALL: &'static [Self];
}

macro_rules! coded {
    ($type:ty, $what:literal, $all:expr) => {
        impl Coded for $type {
            const WHAT: &'static str = $what;
            const ALL: &'static [Self] = &$all;
        }
    };
}

coded!(Mode, "mode", Mode::ALL);
coded!(Face, "face", Face::ALL);
coded!(Reason, "reason", Reason::ALL);
coded!(SessionKind, "session kind", SessionKind::ALL);
coded!(StateName, "state", StateName::ALL);
coded!(crate::event::ChangeKind, "event", crate::event::ChangeKind::ALL);
coded!(ReclaimRule, "reclaim rule", [ReclaimRule::AfterPromise, ReclaimRule::AtOnce]);
coded!(ReclaimBy, "reclaimer", [ReclaimBy::Daemon, ReclaimBy::Operator]);
coded!(GateReport, "finalizer report", [GateReport::None, GateReport::Confirmed, GateReport::TimedOut]);
coded!(
    ReclaimGround,
    "reclaim ground",
    [ReclaimGround::PromiseOver, ReclaimGround::Acknowledged, ReclaimGround::AtOnce, ReclaimGround::Forced]
);

/// The code of a session by hand that accepts hand-overs: its prefix follows the last field. Bytes of sessions without one
/// are those of before there was any.
const BY_HAND_ACCEPTING: u8 = 4;

impl Writer<'_> {
    /// Codes start at 1, so that zeroed bytes are never a valid enum.
    pub(super) fn coded<T: Coded>(&mut self, value: T) {
        let place = T::ALL.iter().position(|other| *other == value);
        self.byte(place.expect("invariant: every variant is listed") as u8 + 1);
    }

    pub(super) fn policy(&mut self, policy: &Policy) {
        self.coded(policy.mode);
        self.number(policy.ttl_ms.into());
        self.number(policy.grace_ms.into());
        self.number(policy.max_lifetime_ms);
        self.number(policy.reclaim_delay_ms.into());
        self.coded(policy.reclaim_rule);
        self.coded(policy.face);
        self.flag(policy.gate);
        self.flag(policy.notice);
        self.optional(policy.session.as_ref(), |w, session| w.number(session.0));
        self.text(&policy.principal);
    }

    pub(super) fn actor(&mut self, actor: &Actor) {
        match actor {
            Actor::Holder => self.byte(1),
            Actor::Daemon => self.byte(2),
            Actor::Operator(principal) => {
                self.byte(3);
                self.text(principal);
            }
        }
    }

    pub(super) fn evidence(&mut self, evidence: &Evidence) {
        match evidence {
            Evidence::None => self.byte(1),
            Evidence::Silence { last_seen, promised_until } => {
                self.byte(2);
                self.tick(*last_seen);
                self.tick(*promised_until);
            }
            Evidence::Disconnected { at } => {
                self.byte(3);
                self.tick(*at);
            }
            Evidence::Lifetime { since } => {
                self.byte(4);
                self.tick(*since);
            }
            Evidence::Drained { since } => {
                self.byte(5);
                self.tick(*since);
            }
        }
    }

    pub(super) fn operation(&mut self, operation: &Operation) {
        self.wide(operation.key);
        self.fixed(operation.fingerprint);
        self.number(operation.keep_ms);
        self.text(&operation.principal);
    }

    pub(super) fn open_session(&mut self, open: &OpenSession) {
        self.number(open.session.0);
        self.text(&open.holder);
        match &open.accepts_handover {
            None => self.coded(open.kind),
            Some(_) => self.byte(BY_HAND_ACCEPTING),
        }
        self.number(open.ttl_ms.into());
        self.number(open.grace_ms.into());
        self.text(&open.principal);
        if let Some(prefix) = &open.accepts_handover {
            self.text(prefix);
        }
    }

    pub(super) fn retention(&mut self, retention: &Retention) {
        self.number(retention.window_ms);
        self.number(retention.leases_max);
        self.number(retention.leases_per_face_max);
        self.number(retention.operations_per_principal_max);
    }
}

impl Reader<'_> {
    pub(super) fn coded<T: Coded>(&mut self) -> Result<T, DecodeError> {
        let code = self.byte()?;
        let place = usize::from(code).checked_sub(1);
        place.and_then(|place| T::ALL.get(place)).copied().ok_or(DecodeError::Unknown { what: T::WHAT, code })
    }

    pub(super) fn epoch(&mut self) -> Result<Epoch, DecodeError> {
        self.number().map(Epoch)
    }

    pub(super) fn policy(&mut self) -> Result<Policy, DecodeError> {
        Ok(Policy {
            mode: self.coded()?,
            ttl_ms: self.small()?,
            grace_ms: self.small()?,
            max_lifetime_ms: self.number()?,
            reclaim_delay_ms: self.small()?,
            reclaim_rule: self.coded()?,
            face: self.coded()?,
            gate: self.flag()?,
            notice: self.flag()?,
            session: self.optional(|r| r.number().map(SessionId))?,
            principal: self.text()?,
        })
    }

    pub(super) fn actor(&mut self) -> Result<Actor, DecodeError> {
        match self.byte()? {
            1 => Ok(Actor::Holder),
            2 => Ok(Actor::Daemon),
            3 => Ok(Actor::Operator(self.text()?)),
            code => Err(DecodeError::Unknown { what: "actor", code }),
        }
    }

    pub(super) fn evidence(&mut self) -> Result<Evidence, DecodeError> {
        match self.byte()? {
            1 => Ok(Evidence::None),
            2 => Ok(Evidence::Silence { last_seen: self.tick()?, promised_until: self.tick()? }),
            3 => Ok(Evidence::Disconnected { at: self.tick()? }),
            4 => Ok(Evidence::Lifetime { since: self.tick()? }),
            5 => Ok(Evidence::Drained { since: self.tick()? }),
            code => Err(DecodeError::Unknown { what: "evidence", code }),
        }
    }

    pub(super) fn operation(&mut self) -> Result<Operation, DecodeError> {
        Ok(Operation {
            key: self.wide()?,
            fingerprint: self.fixed()?,
            keep_ms: self.number()?,
            principal: self.text()?,
        })
    }

    pub(super) fn open_session(&mut self) -> Result<OpenSession, DecodeError> {
        let session = SessionId(self.number()?);
        let holder = self.text()?;
        let accepts = self.rest.first() == Some(&BY_HAND_ACCEPTING);
        let kind = if accepts { self.byte().map(|_| SessionKind::ByHand) } else { self.coded() }?;
        Ok(OpenSession {
            session,
            holder,
            kind,
            ttl_ms: self.small()?,
            grace_ms: self.small()?,
            principal: self.text()?,
            accepts_handover: accepts.then(|| self.text()).transpose()?,
        })
    }

    pub(super) fn retention(&mut self) -> Result<Retention, DecodeError> {
        Ok(Retention {
            window_ms: self.number()?,
            leases_max: self.number()?,
            leases_per_face_max: self.number()?,
            operations_per_principal_max: self.number()?,
        })
    }
}
