//! Silence is forgiven for ttl and grace, a drain for its grace; restarts and stalls age nobody.
//! (leases.md §1 table and "Operator drain"; DESIGN decisions 5, 10)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::story::Told;
use crate::violation::Violation;
use tenure_kernel::{Change, Evidence, OpenSession, Reason};

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    match &recorded.event.change {
        Change::Revoked(revoked) => match scene.story.leases.get(&revoked.lease) {
            Some(told) => {
                let due = lease_end(scene, told, revoked.reason, revoked.evidence);
                let what = format!("lease {} ({:?}, {:?})", told.id, told.policy, revoked.evidence);
                not_before(scene, due, &what)
            }
            None => Ok(()),
        },
        Change::SessionClosed { session, reason: Reason::SessionExpired } => {
            match scene.story.sessions.get(session) {
                Some(open) => {
                    let due = session_end(scene, open, open.grace_ms);
                    not_before(scene, due, &format!("{open:?}"))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn not_before(scene: &Scene<'_>, due: Option<u64>, what: &str) -> Verdict {
    match due {
        Some(due) if scene.aged < due => {
            let early = due - scene.aged;
            Err(Violation::new("grace_honoured", format!("ended {early} ms too early: {what}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Before this a lease may not end for this reason; `None` where anything goes.
fn lease_end(scene: &Scene<'_>, told: &Told, reason: Reason, evidence: Evidence) -> Option<u64> {
    let grace = u64::from(told.policy.grace_ms);
    match (reason, evidence) {
        (Reason::HeartbeatExpired, _) => {
            Some(scene.memory.proof(told.id) + u64::from(told.policy.ttl_ms) + grace)
        }
        (Reason::AdminForce, Evidence::Drained { .. }) => match scene.memory.drained.get(&told.id) {
            Some((at, grace_then)) if *at >= scene.memory.started => Some(at + grace_then),
            Some(_) | None => Some(scene.memory.started + grace),
        },
        (Reason::SessionExpired, _) => {
            // A session that is closed already takes its leases with it.
            let session = scene.story.sessions.get(&told.policy.session?)?;
            let gone = scene.memory.closed.get(&session.session).copied().unwrap_or(scene.memory.started);
            let bound = scene.memory.bound.get(&told.id).copied().unwrap_or(0);
            let alive = scene.memory.opened.contains(&session.session)
                && !scene.memory.closed.contains_key(&session.session);
            // Bound to a connection that was gone already: its own grace may come first.
            if session.kind.is_connection() && !alive && bound >= gone {
                return None;
            }
            session_end(scene, session, told.policy.grace_ms)
        }
        _ => None,
    }
}

/// Before this a session may not end by silence.
fn session_end(scene: &Scene<'_>, session: &OpenSession, grace_ms: u32) -> Option<u64> {
    let started = scene.memory.started;
    if !session.kind.is_connection() {
        let proof = scene.memory.session_proofs.get(&session.session).copied().unwrap_or(0).max(started);
        return Some(proof + u64::from(session.ttl_ms) + u64::from(session.grace_ms));
    }
    match scene.memory.closed.get(&session.session) {
        Some(closed) => Some(closed + u64::from(grace_ms)),
        // Open all the while.
        None if scene.memory.opened.contains(&session.session) => Some(u64::MAX),
        None => Some(started + u64::from(grace_ms)),
    }
}
