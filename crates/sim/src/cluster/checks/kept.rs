//! Sessions, and connections that a node gives its word for: nothing that they keep ends while they are heard, what is gone
//! stays gone, and what the leader answers about them is so. (cluster.md §3 "Connections"; record 0045)

use super::Checks;
use crate::ledger::Recorded;
use crate::violation::Violation;
use std::collections::BTreeMap;
use tenure_engine::Request;
use tenure_kernel::{Change, Evidence, LeaseId, OpenSession, Reason, Revoked, SessionId, Tick};

const IN_TIME: &str = "ends_in_time";

/// What is known of sessions, from the log and from what engines were asked.
#[derive(Default)]
pub(super) struct Sessions {
    known: BTreeMap<SessionId, Known>,
    /// When an engine was first asked to take a connection for gone.
    gone_asked: BTreeMap<SessionId, u64>,
    /// When a lease went into use, or into the keeping of another session.
    bound: BTreeMap<LeaseId, Tick>,
}

struct Known {
    open: OpenSession,
    /// When its opening was committed.
    opened_at: u64,
    closed: Option<Tick>,
    /// When proofs of life were handled that were answered: heartbeats, or words of its node.
    proofs: Vec<u64>,
    gone: Option<Gone>,
}

/// Which stretch of whose writing was told that a connection is gone, and when.
struct Gone {
    stretch: (u64, usize),
    handled: u64,
}

impl Sessions {
    /// Follows a committed event. Whether it is a connection that ends for its node's silence.
    pub(super) fn follow(&mut self, now: u64, event: &Recorded) -> bool {
        match &event.event.change {
            Change::SessionOpened(open) => {
                let known = Known {
                    open: open.clone(),
                    opened_at: now,
                    closed: None,
                    proofs: Vec::new(),
                    gone: None,
                };
                self.known.insert(open.session, known);
            }
            Change::SessionClosed { session, reason } => {
                let is_gone = self.gone_asked.contains_key(session);
                if let Some(known) = self.known.get_mut(session) {
                    known.closed = Some(event.tick);
                    let is_silent = *reason == Reason::SessionExpired && !is_gone;
                    return is_silent && known.open.kind.is_connection();
                }
            }
            Change::Granted(granted) if granted.deadline.is_none() => {
                self.bound.insert(LeaseId::new(0, event.lsn), event.tick);
            }
            Change::Activated { lease } => {
                self.bound.insert(*lease, event.tick);
            }
            Change::Rebound(rebound) => {
                self.bound.insert(rebound.lease, event.tick);
            }
            _ => {}
        }
        false
    }

    pub(super) fn proven(&mut self, session: SessionId, handled: u64) {
        if let Some(known) = self.known.get_mut(&session) {
            known.proofs.push(handled);
        }
    }
}

impl Checks {
    /// An engine is asked something, whatever it will make of it.
    pub(in crate::cluster) fn engine_asked(&mut self, now: u64, request: &Request) {
        if let Request::ConnectionsTold { gone, .. } = request {
            for session in gone {
                self.sessions.gone_asked.entry(*session).or_insert(now);
            }
        }
    }

    /// Which stretch of its writing a writer is in: each begins with a full ttl for everybody.
    fn stretch(&self, epoch: u64) -> (u64, usize) {
        (epoch, self.bases.get(&epoch).map_or(0, Vec::len))
    }

    /// A writer took a connection for gone.
    pub(super) fn told_gone(&mut self, epoch: u64, handled: u64, session: SessionId) {
        let stretch = self.stretch(epoch);
        let Some(known) = self.sessions.known.get_mut(&session) else { return };
        let is_news = known.gone.as_ref().is_none_or(|gone| gone.stretch < stretch);
        // One that is not durable yet is not known, and what it is granted later makes it so.
        if known.opened_at < handled && is_news {
            known.gone = Some(Gone { stretch, handled });
        }
    }

    /// A writer heard a node's word for its connections.
    pub(super) fn told_kept(
        &mut self,
        epoch: u64,
        handled: u64,
        told: &[SessionId],
        unknown: &[SessionId],
    ) -> Result<(), Violation> {
        let stretch = self.stretch(epoch);
        for session in told {
            let Some(known) = self.sessions.known.get(session) else { continue };
            let is_unknown = unknown.contains(session);
            // One that is closed may have been opened again, by a grant that is not committed yet.
            let is_gone = known.closed.is_none()
                && known.gone.as_ref().is_some_and(|gone| gone.stretch == stretch && gone.handled < handled);
            if !is_unknown && is_gone {
                let text = format!("connection {session} is gone, and a word for it was heard at {handled}");
                return Err(Violation::new("gone_stays_gone", text));
            }
            let is_open = known.closed.is_none() && known.opened_at < handled;
            if is_unknown && is_open && !self.sessions.gone_asked.contains_key(session) {
                let text =
                    format!("connection {session} is open, and its node was told that it is not known");
                return Err(Violation::new("connections_are_known", text));
            }
            if !is_unknown {
                self.sessions.proven(*session, handled);
            }
        }
        Ok(())
    }

    /// Silence of a session is forgiven for its ttl and the grace, from the last proof of life that was answered and from
    /// the instant at which its writer began to serve; a connection that is gone, for the grace.
    pub(super) fn sessions_in_time(
        &self,
        decided: u64,
        epoch: u64,
        event: &Recorded,
    ) -> Result<(), Violation> {
        match &event.event.change {
            Change::Revoked(revoked) if revoked.reason == Reason::SessionExpired => {
                self.lease_in_time(decided, epoch, event.tick, revoked)
            }
            Change::SessionClosed { session, reason: Reason::SessionExpired } => {
                let Some(known) = self.sessions.known.get(session) else { return Ok(()) };
                let grace_ms = known.open.grace_ms.into();
                match self.sessions.gone_asked.get(session) {
                    // It may have been silent before.
                    Some(asked) => gone_for(decided, *asked, grace_ms, &format!("session {session}"))
                        .or_else(|_| self.silent_for(decided, epoch, event.tick, known, grace_ms)),
                    None => self.silent_for(decided, epoch, event.tick, known, grace_ms),
                }
            }
            _ => Ok(()),
        }
    }

    fn lease_in_time(
        &self,
        decided: u64,
        epoch: u64,
        tick: Tick,
        revoked: &Revoked,
    ) -> Result<(), Violation> {
        let lease = revoked.lease;
        let wrong = |text: &str| Err(Violation::new(IN_TIME, format!("lease {lease} {text}")));
        let Some(told) = self.story.leases.get(&lease) else { return Ok(()) };
        let Some(known) = told.policy.session.and_then(|session| self.sessions.known.get(&session)) else {
            return wrong("ended with a session that nobody opened");
        };
        let grace_ms = u64::from(told.policy.grace_ms);
        let late_ms_max = u64::from(known.open.ttl_ms) + self.grace_ms_max + self.late_ms_max;
        let bound = self.sessions.bound.get(&lease).copied().unwrap_or(Tick(0));
        let gone_asked = self.sessions.gone_asked.get(&known.open.session);
        match revoked.evidence {
            // What is left of a session that was closed before.
            Evidence::None if known.closed.is_some() => Ok(()),
            Evidence::Disconnected { at } => match gone_asked {
                None => wrong("ended as disconnected, which no node said"),
                Some(_) if tick.ms_since(at) < grace_ms => wrong("ended before its grace"),
                Some(_) if tick.ms_since(at) > late_ms_max => wrong("ended long after its connection"),
                Some(asked) => gone_for(decided, *asked, grace_ms, &format!("lease {lease}")),
            },
            Evidence::Silence { last_seen, .. } => {
                if tick.ms_since(last_seen) > late_ms_max {
                    return wrong("ended long after its session was seen last");
                }
                // It was brought under a session that was over, and has its own grace from there.
                let was_over = known.closed.is_some_and(|closed| closed <= bound);
                if (was_over || gone_asked.is_some()) && tick.ms_since(bound) >= grace_ms {
                    return Ok(());
                }
                let what = format!("lease {lease}");
                let silent = self.silent_for(decided, epoch, tick, known, grace_ms);
                silent.or_else(|silent| match gone_asked {
                    Some(asked) => gone_for(decided, *asked, grace_ms, &what),
                    None => Err(silent),
                })
            }
            Evidence::None | Evidence::Lifetime { .. } | Evidence::Drained { .. } => {
                wrong("ended with a session that is open")
            }
        }
    }

    fn silent_for(
        &self,
        decided: u64,
        epoch: u64,
        tick: Tick,
        known: &Known,
        grace_ms: u64,
    ) -> Result<(), Violation> {
        let session = known.open.session;
        let wrong = |text: String| Err(Violation::new(IN_TIME, format!("session {session} ended {text}")));
        let forgiven_ms = u64::from(known.open.ttl_ms) + grace_ms;
        if let Some(base) = self.base_before(epoch, tick)
            && tick.ms_since(base) < forgiven_ms
        {
            return wrong(format!("in part or whole at {tick}, its writer served from {base}"));
        }
        // Part of a session may end, and a later word keeps the rest.
        match known.proofs.iter().filter(|proof| **proof < decided).max() {
            Some(proof) if decided < proof + least_ms(forgiven_ms) => {
                wrong(format!("in part or whole {} ms after it was heard", decided - proof))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn gone_for(decided: u64, asked: u64, grace_ms: u64, what: &str) -> Result<(), Violation> {
    if decided < asked + least_ms(grace_ms) {
        let text = format!("{what} ended {} ms after its connection was gone", decided.saturating_sub(asked));
        return Err(Violation::new(IN_TIME, text));
    }
    Ok(())
}

/// How long a clock that runs at most half a per cent fast may take for so long.
pub(super) fn least_ms(forgiven_ms: u64) -> u64 {
    (forgiven_ms * 994 / 1_000).saturating_sub(5)
}
