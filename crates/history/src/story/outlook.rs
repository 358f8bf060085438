//! What would happen next, as far as the log knows. Heartbeats are not in the log, so nothing here counts from one.

use tenure_kernel::{
    Change, Lsn, Mode, Note, Policy, ReclaimBy, ReclaimRule, SessionId, SessionKind, Text, Tick,
};

use super::Subject;
use crate::record::{Content, LoggedRecord};
use crate::sentence::{When, duration, plain};

/// Where a lease stands.
#[derive(Clone, Debug)]
enum Phase {
    Reserved { until: String },
    Alive,
    Silent { until: String },
    Drained,
    Revoking { by: ReclaimBy },
    Ended,
}

/// A lease as its records leave it.
struct Track {
    lease: Lsn,
    phase: Phase,
    /// `None`: its grant has been trimmed.
    holder: Option<Text>,
    /// `None`: its grant has been trimmed.
    policy: Option<Policy>,
    /// When it became active, as far as it did.
    active: Option<When>,
    /// The daemon started again while it was being revoked.
    waits_anew: bool,
}

pub(super) fn next<'a>(
    subject: &Subject,
    records: impl Iterator<Item = &'a LoggedRecord> + Clone,
) -> Option<String> {
    match subject {
        Subject::Lease(lease) => Track::of(lease.lsn(), records)?.next(),
        Subject::Resource(name) => {
            let newest = records.clone().filter_map(LoggedRecord::lease_lsn).max();
            let track = Track::of(newest?, records)?;
            Some(match (track.next(), &track.holder) {
                (Some(next), Some(holder)) => format!("held by {}: {next}", plain(holder)),
                (Some(next), None) => next,
                (None, _) => format!("{} is free: the next grant takes it", plain(name)),
            })
        }
        Subject::Session(session) => session_next(*session, records),
        Subject::FaceId(_) => {
            let newest = records.clone().filter_map(LoggedRecord::lease_lsn).max();
            Track::of(newest?, records)?.next()
        }
    }
}

impl Track {
    fn of<'a>(lease: Lsn, records: impl Iterator<Item = &'a LoggedRecord>) -> Option<Self> {
        let mut track =
            Self { lease, phase: Phase::Alive, holder: None, policy: None, active: None, waits_anew: false };
        let mut known = false;
        for record in records {
            known |= record.lease_lsn() == Some(lease);
            track.follow(record);
        }
        known.then_some(track)
    }

    fn follow(&mut self, record: &LoggedRecord) {
        let when = When::of(record);
        let mine = record.lease_lsn() == Some(self.lease);
        let kept_by = self.policy.as_ref().and_then(|policy| policy.session);
        let of_my_session = kept_by.is_some() && record.session() == kept_by;
        match &record.content {
            Content::Event(event) if mine => self.change(&event.change, when),
            Content::Note(Note::Restarted) => self.waits_anew |= matches!(self.phase, Phase::Revoking { .. }),
            Content::Note(note) if mine || of_my_session => self.note(note, when),
            Content::Event(_)
            | Content::Note(_)
            | Content::UnknownNote { .. }
            | Content::Tick
            | Content::Close
            | Content::Unreadable { .. } => {}
        }
    }

    fn change(&mut self, change: &Change, when: When) {
        match change {
            Change::Granted(granted) => {
                (self.holder, self.policy) = (Some(granted.holder.clone()), Some(granted.policy.clone()));
                match granted.deadline {
                    Some(deadline) => self.phase = Phase::Reserved { until: when.time_of(deadline) },
                    None => self.active = Some(when),
                }
            }
            Change::Activated { .. } => (self.phase, self.active) = (Phase::Alive, Some(when)),
            Change::Rebound(rebound) => {
                self.holder = Some(rebound.holder.clone());
                if let Some(policy) = &rebound.policy {
                    self.policy = Some(policy.clone());
                }
                if let Phase::Silent { .. } = self.phase {
                    self.phase = Phase::Alive;
                }
            }
            Change::Drained(_) => self.phase = Phase::Drained,
            Change::Revived(_) => self.phase = Phase::Alive,
            Change::Revoked(revoked) => self.phase = Phase::Revoking { by: revoked.reclaim_by },
            Change::Released(_) | Change::Reclaimed(_) | Change::Expired(_) => self.phase = Phase::Ended,
            Change::Amended(_)
            | Change::Notified { .. }
            | Change::SessionOpened(_)
            | Change::SessionClosed { .. }
            | Change::PoolDefined { .. }
            | Change::PoolRemoved { .. }
            | Change::Trimmed { .. }
            | Change::Configured(_) => {}
        }
    }

    fn note(&mut self, note: &Note, when: When) {
        match (note, &self.phase) {
            (Note::Draining { until, .. }, Phase::Alive | Phase::Silent { .. }) => {
                self.phase = Phase::Silent { until: when.time_of(*until) };
            }
            (Note::Returned { .. }, Phase::Silent { .. }) => self.phase = Phase::Alive,
            // An operator's drain is sticky, and what is ending goes on ending.
            (Note::Draining { .. } | Note::Returned { .. }, _)
            | (
                Note::GateOpened { .. }
                | Note::BreakerOpened { .. }
                | Note::BreakerClosed
                | Note::Stalled { .. }
                | Note::Restarted,
                _,
            ) => {}
        }
    }

    fn next(&self) -> Option<String> {
        let grace = self.policy.as_ref().map_or(0, |policy| u64::from(policy.grace_ms));
        let sentence = match &self.phase {
            Phase::Reserved { until } => format!("expires at {until} unless its holder activates it"),
            Phase::Alive => self.alive(),
            Phase::Silent { until } => {
                let saved_by = match self.policy.as_ref().map(|policy| policy.mode) {
                    Some(Mode::Session) => "its session is alive again",
                    Some(Mode::Heartbeat | Mode::Permanent) | None => "a heartbeat comes",
                };
                format!("ends at {until} unless {saved_by}")
            }
            Phase::Drained => format!(
                "ends when its grace of {} ends, unless its holder releases it or an operator revives it before",
                duration(grace)
            ),
            Phase::Revoking { by: ReclaimBy::Operator } => {
                "its resources stay taken until an operator reclaims it".to_owned()
            }
            Phase::Revoking { by: ReclaimBy::Daemon } => self.revoking(),
            Phase::Ended => return None,
        };
        Some(sentence)
    }

    fn alive(&self) -> String {
        let Some(policy) = &self.policy else {
            return "ends when its holder releases it, falls silent or an operator ends it".to_owned();
        };
        let silence = duration(u64::from(policy.ttl_ms) + u64::from(policy.grace_ms));
        let mut sentence = match (policy.mode, policy.ttl_ms) {
            (Mode::Heartbeat, _) => format!("ends when its holder releases it or stays silent for {silence}"),
            (Mode::Session, 0) => {
                format!("ends when its holder releases it or its connection is gone for {silence}")
            }
            (Mode::Session, _) => {
                format!("ends when its holder releases it or its session stays silent for {silence}")
            }
            (Mode::Permanent, _) => "ends only when its holder releases it or an operator ends it".to_owned(),
        };
        if let (Some(active), 1..) = (self.active, policy.max_lifetime_ms) {
            let until = Tick(active.tick.0.saturating_add(policy.max_lifetime_ms));
            sentence.push_str(&format!(", at {} at the latest", active.time_of(until)));
        }
        sentence
    }

    fn revoking(&self) -> String {
        let at_once = self.policy.as_ref().is_some_and(|policy| policy.reclaim_rule == ReclaimRule::AtOnce);
        let gate = self.policy.as_ref().is_some_and(|policy| policy.gate);
        let wait = match (gate, at_once) {
            (true, true) => "once its finalizer is done or has timed out",
            (true, false) => {
                "once its finalizer is done or has timed out, and its validity has ended or its holder acknowledged the loss"
            }
            (false, true) => "at once",
            (false, false) => "once its validity has ended or its holder acknowledges the loss",
        };
        let again = if self.waits_anew { "; the restart started that wait again" } else { "" };
        format!("its resources come free {wait}{again}")
    }
}

fn session_next<'a>(session: SessionId, records: impl Iterator<Item = &'a LoggedRecord>) -> Option<String> {
    let mut next = None;
    let mut alive = None;
    for record in records.filter(|record| record.session() == Some(session)) {
        let when = When::of(record);
        match &record.content {
            Content::Event(event) => match &event.change {
                Change::SessionOpened(open) => {
                    let silence = duration(u64::from(open.ttl_ms) + u64::from(open.grace_ms));
                    let lost = match open.kind {
                        SessionKind::Connection => format!("its connection is gone for {silence}"),
                        SessionKind::Stdin => format!("its standard input is closed for {silence}"),
                        SessionKind::ByHand => format!("it stays silent for {silence}"),
                    };
                    alive = Some(format!("ends when its holder closes it or {lost}"));
                    next.clone_from(&alive);
                }
                Change::SessionClosed { .. } => (next, alive) = (None, None),
                _ => {}
            },
            Content::Note(Note::Draining { until, .. }) => {
                next = Some(format!("ends at {} unless it is alive again", when.time_of(*until)));
            }
            Content::Note(Note::Returned { .. }) => next.clone_from(&alive),
            Content::Note(_)
            | Content::UnknownNote { .. }
            | Content::Tick
            | Content::Close
            | Content::Unreadable { .. } => {}
        }
    }
    next
}
