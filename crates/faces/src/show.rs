//! The engine's values as the wire shows them. Ticks become times here: an instant is as far from the
//! daemon's wall clock now as its tick is from the tick at which it was looked at.

use tenure_api as api;
use tenure_engine::kernel::{
    Epitaph, Face, Fence, LeaseId, LeaseState, Lsn, Mode, Policy, Reason, SessionKind, StateName, Text, Tick,
};
use tenure_engine::liveness::{DrainCause, Standing};
use tenure_engine::{LeaseSnapshot, SessionSnapshot};
use tenure_history::{Identity, WireLease, rfc3339, wire_session};

/// What is needed to show anything: whose ids, and what time it is for people.
#[derive(Clone, Copy)]
pub(crate) struct Lens<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) wall_ms: u64,
}

/// A lease that ended, as the event that ended it tells.
pub(crate) struct Ended<'a> {
    pub(crate) was: &'a Epitaph,
    pub(crate) state: StateName,
    pub(crate) reason: Reason,
    pub(crate) text: &'a str,
    pub(crate) fence: Fence,
    pub(crate) ended_wall_ms: u64,
}

impl Lens<'_> {
    pub(crate) fn lease_id(&self, lease: LeaseId) -> String {
        WireLease::new(self.identity, lease).text()
    }

    pub(crate) fn now(&self) -> api::Time {
        rfc3339(self.wall_ms)
    }

    /// When a tick was or will be, seen from `now`.
    pub(crate) fn time(&self, tick: Tick, now: Tick) -> api::Time {
        let wall_ms = self.wall_ms.saturating_add(tick.ms_since(now)).saturating_sub(now.ms_since(tick));
        rfc3339(wall_ms)
    }

    pub(crate) fn lease(&self, lease: &LeaseSnapshot, lsn: Lsn) -> api::Lease {
        let (liveness, drain_cause) = standing(lease.liveness.standing);
        let (reason, reason_text) = match &lease.state {
            LeaseState::Revoking(revocation) => (Some(revocation.reason), words(&revocation.text)),
            LeaseState::Reserved { .. } | LeaseState::Active { .. } => (None, None),
        };
        let deadline = lease.liveness.deadline;
        let terms = Terms::of(&lease.policy);
        api::Lease {
            lease_id: self.lease_id(lease.id),
            holder: lease.holder.to_string(),
            state: state(lease.state.name()),
            liveness,
            drain_cause,
            mode: mode(lease.policy.mode),
            epoch: lease.epoch.0,
            fence: lease.fence.0,
            resources: lease.members.iter().map(Text::to_string).collect(),
            ttl_ms: terms.ttl_ms,
            grace_ms: terms.grace_ms,
            valid_ms: lease.liveness.valid_ms,
            remaining_ms: deadline.map(|deadline| deadline.ms_since(lease.now)),
            granted_at: rfc3339(lease.granted_wall_ms),
            last_seen: lease.liveness.last_seen.map(|at| rfc3339(lease.wall_of(at))),
            unheard_since: unheard_since(lease),
            deadline: deadline.map(|deadline| rfc3339(lease.wall_of(deadline))),
            ended_at: None,
            reason: reason.map(|reason| reason.as_str().to_owned()),
            reason_text,
            session: lease.policy.session.map(wire_session),
            application: application(lease.policy.face),
            attachment: attachment(&lease.attachment),
            waiters: None,
            replayed: false,
            server_time: self.now(),
            lsn: lsn.0,
        }
    }

    pub(crate) fn ended(&self, ended: &Ended<'_>, lsn: Lsn) -> api::Lease {
        let was = ended.was;
        let terms = Terms::of(&was.policy);
        api::Lease {
            lease_id: self.lease_id(was.lease),
            holder: was.holder.to_string(),
            state: state(ended.state),
            liveness: None,
            drain_cause: None,
            mode: mode(was.policy.mode),
            epoch: was.epoch.0,
            fence: ended.fence.0,
            resources: was.members.iter().map(Text::to_string).collect(),
            ttl_ms: terms.ttl_ms,
            grace_ms: terms.grace_ms,
            valid_ms: None,
            remaining_ms: None,
            granted_at: rfc3339(was.granted_wall_ms),
            last_seen: None,
            unheard_since: None,
            deadline: None,
            ended_at: Some(rfc3339(ended.ended_wall_ms)),
            reason: Some(ended.reason.as_str().to_owned()),
            reason_text: words(ended.text),
            session: was.policy.session.map(wire_session),
            application: application(was.policy.face),
            attachment: None,
            waiters: None,
            replayed: false,
            server_time: self.now(),
            lsn: lsn.0,
        }
    }

    pub(crate) fn session(&self, session: &SessionSnapshot, lsn: Lsn) -> api::Session {
        let standing_now = session.standing;
        let deadline = standing_now.and_then(|found| found.deadline);
        api::Session {
            session: wire_session(session.id),
            holder: session.holder.to_string(),
            kind: match session.kind {
                SessionKind::Connection => api::SessionKind::Connection,
                SessionKind::Stdin => api::SessionKind::Stdin,
                SessionKind::ByHand => api::SessionKind::ByHand,
            },
            ttl_ms: (session.ttl_ms > 0).then_some(session.ttl_ms.into()),
            grace_ms: session.grace_ms.into(),
            accepts_handover: session.accepts_handover.as_ref().map(Text::to_string),
            leases: session.leases.into(),
            liveness: standing(standing_now.map(|found| found.standing)).0,
            last_seen: standing_now.and_then(|found| found.last_seen).map(|at| self.time(at, session.now)),
            unheard_since: standing_now
                .filter(|found| found.last_seen.is_none())
                .map(|found| self.time(found.counts_from, session.now)),
            valid_ms: standing_now.and_then(|found| found.valid_ms),
            remaining_ms: deadline.map(|deadline| deadline.ms_since(session.now)),
            deadline: deadline.map(|deadline| self.time(deadline, session.now)),
            server_time: self.now(),
            lsn: lsn.0,
        }
    }
}

/// Since when a holder that must prove that it lives has not been heard, where it has not been since a restart or an
/// operator's revive.
pub(crate) fn unheard_since(lease: &LeaseSnapshot) -> Option<api::Time> {
    let seen = lease.liveness;
    let is_waited_for = seen.standing.is_some() && lease.policy.mode != Mode::Permanent;
    (is_waited_for && seen.last_seen.is_none()).then(|| rfc3339(lease.wall_of(seen.counts_from)))
}

/// Durations of a policy where they mean something.
pub(crate) struct Terms {
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) grace_ms: Option<u64>,
}

impl Terms {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self {
            ttl_ms: (policy.ttl_ms > 0).then_some(policy.ttl_ms.into()),
            grace_ms: (policy.mode != Mode::Permanent).then_some(policy.grace_ms.into()),
        }
    }
}

pub(crate) fn standing(standing: Option<Standing>) -> (Option<api::Liveness>, Option<api::DrainCause>) {
    match standing {
        None => (None, None),
        Some(Standing::Alive) => (Some(api::Liveness::Alive), None),
        Some(Standing::Draining(DrainCause::Silence)) => {
            (Some(api::Liveness::Draining), Some(api::DrainCause::Silence))
        }
        Some(Standing::Draining(DrainCause::Operator)) => {
            (Some(api::Liveness::Draining), Some(api::DrainCause::Operator))
        }
    }
}

pub(crate) fn state(state: StateName) -> api::State {
    match state {
        StateName::Reserved => api::State::Reserved,
        StateName::Active => api::State::Active,
        StateName::Revoking => api::State::Revoking,
        StateName::Released => api::State::Released,
        StateName::Expired => api::State::Expired,
        StateName::Revoked => api::State::Revoked,
    }
}

pub(crate) fn mode(mode: Mode) -> api::Mode {
    match mode {
        Mode::Session => api::Mode::Session,
        Mode::Heartbeat => api::Mode::Heartbeat,
        Mode::Permanent => api::Mode::Permanent,
    }
}

pub(crate) fn application(face: Face) -> api::Application {
    match face {
        Face::Leases => api::Application::Leases,
        Face::Registrations => api::Application::Registrations,
        Face::Streams => api::Application::Slots,
        Face::Polling => api::Application::Polling,
    }
}

/// The holder's JSON, as it gave it.
pub(crate) fn attachment(bytes: &[u8]) -> Option<serde_json::Value> {
    if bytes.is_empty() { None } else { serde_json::from_slice(bytes).ok() }
}

pub(crate) fn words(text: &str) -> Option<String> {
    if text.is_empty() { None } else { Some(text.to_owned()) }
}
