//! One sentence for everything the log can say, as a person would explain it. Every word of a reason, an evidence, a
//! ground or a gate is answered here by name, so that a new one does not compile until it has its sentence.
//!
//! Texts that came from outside are shown with control characters escaped: a sentence is one line on any terminal.

use std::fmt::Write;

use tenure_kernel::{
    Actor, Amended, Change, Epitaph, Evidence, Face, GateReport, Granted, Mode, Note, OpenSession, Policy,
    Reason, Rebound, ReclaimBy, ReclaimGround, Reclaimed, Retention, Revoked, SessionId, SessionKind,
    Subject, Tick,
};

use crate::ids::{session_kind, wire_session};
use crate::record::LoggedRecord;
use crate::wall::rfc3339;

/// When something was written: what turns the ticks beside it into times that people read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) tick: Tick,
    pub(crate) wall_ms: u64,
    /// The last start of a daemon before it, as far as it is known: silence is counted from there at the earliest, and no
    /// heartbeat came at that instant.
    pub(crate) restarted: Option<Tick>,
}

impl When {
    pub(crate) fn of(record: &LoggedRecord) -> Self {
        Self { tick: record.tick, wall_ms: record.wall_ms, restarted: None }
    }

    /// Whether nothing was heard between the last start and now.
    pub(crate) fn is_unheard(self, last_seen: Tick) -> bool {
        self.restarted.is_some_and(|restarted| last_seen <= restarted)
    }

    /// The wall-clock time of a tick, as far as it can be told from here.
    pub(crate) fn time_of(self, tick: Tick) -> String {
        let earlier = self.tick.ms_since(tick);
        let later = tick.ms_since(self.tick);
        rfc3339(self.wall_ms.saturating_sub(earlier).saturating_add(later))
    }

    fn since(self, tick: Tick) -> String {
        duration(self.tick.ms_since(tick))
    }
}

/// Between the close of a connection and its note; a node's word for one lasts ten seconds.
const CLOSED_MS_MAX: u64 = 1_000;

/// How long, in the units people use: `250 ms`, `1.5 s`, `90 s`, `2m 0s`, `3h 5m`, `2d 4h`.
#[must_use]
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..120 => match ms % 1000 / 100 {
            0 => format!("{seconds} s"),
            tenths => format!("{seconds}.{tenths} s"),
        },
        120..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// The wire word of an actor: `holder`, `daemon`, or `operator:` and who.
#[must_use]
pub fn actor_word(actor: &Actor) -> String {
    match actor {
        Actor::Holder => "holder".to_owned(),
        Actor::Daemon => "daemon".to_owned(),
        Actor::Operator(principal) => format!("operator:{principal}"),
    }
}

/// What happened, in one sentence. `tick` and `wall_ms` are those of the record.
#[must_use]
pub fn change_sentence(change: &Change, tick: Tick, wall_ms: u64) -> String {
    change_at(change, When { tick, wall_ms, restarted: None })
}

pub(crate) fn change_at(change: &Change, when: When) -> String {
    match change {
        Change::Granted(granted) => granted_sentence(granted, when),
        Change::Activated { .. } => "activated: in use from here on".to_owned(),
        Change::Rebound(rebound) => rebound_sentence(rebound),
        Change::Amended(amended) => amended_sentence(amended).to_owned(),
        Change::Drained(steered) => format!(
            "asked to end{}{}: still honoured, until its grace is over or an operator revives it",
            by(&steered.actor),
            saying(&steered.text)
        ),
        Change::Revived(steered) => {
            format!("revived{}{}: the drain was taken back", by(&steered.actor), saying(&steered.text))
        }
        Change::Released(released) => format!(
            "released by {}{}: {} free again",
            plain(&released.was.holder),
            saying(&released.text),
            members(&released.was)
        ),
        Change::Revoked(revoked) => revoked_sentence(revoked, when),
        Change::Reclaimed(reclaimed) => reclaimed_sentence(reclaimed),
        Change::Expired(expired) => format!(
            "expired: not activated in time ({}); {} free again",
            Reason::ReservationExpired.as_str(),
            members(&expired.was)
        ),
        Change::SessionOpened(open) => opened_sentence(open),
        Change::SessionClosed { session, reason } => {
            format!(
                "{} ended: {} ({}); its leases end with it",
                session_words(*session),
                session_end(*reason),
                reason.as_str()
            )
        }
        Change::PoolDefined { name, size } => format!("pool {} has {size} members from here on", plain(name)),
        Change::PoolRemoved { name } => {
            format!("pool {} was removed; leases on its members end with it", plain(name))
        }
        Change::Notified { .. } => "the notice of its end was settled".to_owned(),
        Change::Trimmed { below } => format!("history below lsn {below} was let go"),
        Change::Configured(retention) => configured_sentence(retention),
    }
}

/// What was observed, in one sentence. `tick` and `wall_ms` are those of the record.
#[must_use]
pub fn note_sentence(note: &Note, tick: Tick, wall_ms: u64) -> String {
    note_at(note, When { tick, wall_ms, restarted: None })
}

pub(crate) fn note_at(note: &Note, when: When) -> String {
    match note {
        Note::Draining { subject, last_seen, until } => {
            let who = match subject {
                Subject::Lease(_) => "fell silent".to_owned(),
                Subject::Session(session) if session_kind(*session).is_connection() => {
                    let session = session_words(*session);
                    // A close is noted when it happens; silence when the node's word is over.
                    if when.tick.ms_since(*last_seen) < CLOSED_MS_MAX {
                        return format!("{session} closed; its leases end when their grace is over");
                    }
                    return format!(
                        "the node of {session} fell silent: last heard at {}; its leases end when their grace is over",
                        when.time_of(*last_seen)
                    );
                }
                Subject::Session(session) => format!("{} fell silent", session_words(*session)),
            };
            let heard = match when.is_unheard(*last_seen) {
                true => "no heartbeat since the restart".to_owned(),
                false => format!("last heartbeat at {}", when.time_of(*last_seen)),
            };
            format!("{who}: {heard}; grace runs until {}", when.time_of(*until))
        }
        Note::Returned { subject: Subject::Lease(_) } => {
            "came back: a heartbeat arrived within the grace".to_owned()
        }
        Note::Returned { subject: Subject::Session(session) } => {
            format!("{} came back within the grace", session_words(*session))
        }
        Note::GateOpened { .. } => {
            "gate started: its resources wait until it is confirmed or times out".to_owned()
        }
        Note::BreakerOpened { silent, alive } => format!(
            "the daemon suspected itself: {silent} of {alive} holders fell silent at once, so ends by silence wait"
        ),
        Note::BreakerClosed => "the daemon trusts silence again: ends go on".to_owned(),
        Note::Stalled { gap_ms } => {
            format!("the daemon stood still for {}, which aged nobody by more than 1 s", duration(*gap_ms))
        }
        Note::Restarted => {
            "the daemon started again, or another node took over: every holder has a full ttl from \
                            here, and every wait after a revoke begins again"
                .to_owned()
        }
    }
}

fn granted_sentence(granted: &Granted, when: When) -> String {
    let mut sentence = match granted.deadline {
        None => format!("granted to {}: {}", plain(&granted.holder), names(&granted.members)),
        Some(deadline) => format!(
            "reserved for {}: {}; expires at {} unless activated",
            plain(&granted.holder),
            names(&granted.members),
            when.time_of(deadline)
        ),
    };
    let _ = write!(sentence, "; {}", terms(&granted.policy));
    sentence
}

fn terms(policy: &Policy) -> String {
    let grace = grace(policy.grace_ms);
    let mut terms = match (policy.mode, policy.session) {
        (Mode::Heartbeat, _) => {
            format!("ttl {}, {grace}", duration(policy.ttl_ms.into()))
        }
        (Mode::Session, Some(session)) => format!("kept by {}, {grace}", session_words(session)),
        (Mode::Session, None) => format!("kept by its session, {grace}"),
        (Mode::Permanent, _) => "permanent, no proof of life asked".to_owned(),
    };
    if policy.max_lifetime_ms > 0 {
        let _ = write!(terms, "; ends after {} at the latest", duration(policy.max_lifetime_ms));
    }
    match policy.face {
        Face::Leases => {}
        Face::Registrations | Face::Streams | Face::Polling => {
            let _ = write!(terms, "; through {}", policy.face.as_str());
        }
    }
    terms
}

fn rebound_sentence(rebound: &Rebound) -> String {
    let how = if rebound.taken_over { "taken over by" } else { "moved to" };
    let mut sentence = format!("{how} {}: epoch {} from here on", plain(&rebound.holder), rebound.epoch);
    if let Some(policy) = &rebound.policy {
        let _ = write!(sentence, "; {}", terms(policy));
    }
    sentence
}

fn amended_sentence(amended: &Amended) -> &'static str {
    match (&amended.attachment, &amended.face_data) {
        (Some(_), Some(_)) => "attachment and face data replaced",
        (Some(_), None) => "attachment replaced",
        (None, Some(_)) => "face data replaced",
        (None, None) => "amended without a change",
    }
}

fn revoked_sentence(revoked: &Revoked, when: When) -> String {
    let because = because(revoked.reason, revoked.evidence, when);
    let then = match revoked.reclaim_by {
        ReclaimBy::Daemon => "",
        ReclaimBy::Operator => "; its resources wait for an operator to reclaim them",
    };
    let promise = match revoked.evidence {
        Evidence::Silence { promised_until, .. } if promised_until > when.tick => {
            format!("; its holder was told it may act until {}", when.time_of(promised_until))
        }
        Evidence::Silence { .. }
        | Evidence::None
        | Evidence::Disconnected { .. }
        | Evidence::Lifetime { .. }
        | Evidence::Drained { .. } => String::new(),
    };
    let (by, saying) = (by(&revoked.actor), saying(&revoked.text));
    format!("revoked{by}{saying}: {because} ({}){promise}{then}", revoked.reason.as_str())
}

/// The reason, with how long what was seen had lasted.
fn because(reason: Reason, evidence: Evidence, when: When) -> String {
    let cause = match reason {
        Reason::Explicit => "its holder asked",
        Reason::SessionExpired => "its session was gone for longer than the grace",
        Reason::HeartbeatExpired => match evidence {
            Evidence::Silence { last_seen, .. } if when.is_unheard(last_seen) => {
                return format!("no heartbeat since the restart, {} before", when.since(last_seen));
            }
            Evidence::Silence { last_seen, .. } => {
                return format!("no heartbeat for {}", when.since(last_seen));
            }
            Evidence::None
            | Evidence::Disconnected { .. }
            | Evidence::Lifetime { .. }
            | Evidence::Drained { .. } => "its heartbeats stopped",
        },
        Reason::ReservationExpired => "it was not activated in time",
        Reason::MaxLifetime => "it reached its longest lifetime",
        Reason::AdminForce => "an operator ended it",
        Reason::Shutdown => "the daemon was told to end everything it kept",
        Reason::Rebalanced => "the target moved to another poller",
        Reason::PoolRemoved => "its pool was removed",
        Reason::Abandoned => "the waiter it was granted to had gone",
        Reason::Restored => "it came out of a backup and may not rise again",
    };
    let seen = match evidence {
        Evidence::None => String::new(),
        Evidence::Silence { last_seen, .. } => format!(", silent for {}", when.since(last_seen)),
        Evidence::Disconnected { at } => format!(", disconnected for {}", when.since(at)),
        Evidence::Lifetime { since } => format!(", in use for {}", when.since(since)),
        Evidence::Drained { since } => format!(", drained for {}", when.since(since)),
    };
    format!("{cause}{seen}")
}

fn reclaimed_sentence(reclaimed: &Reclaimed) -> String {
    let free = format!("{} free again", members(&reclaimed.was));
    let of_network = reclaimed.was.policy.face == Face::Registrations;
    let gate = match reclaimed.gate {
        GateReport::None => "",
        GateReport::Confirmed if of_network => "the network was told goodbye, ",
        GateReport::TimedOut if of_network => "no goodbye was confirmed in time, ",
        GateReport::Confirmed => "gate confirmed, ",
        GateReport::TimedOut => "gate timed out unconfirmed, ",
    };
    let ground = match reclaimed.ground {
        ReclaimGround::AtOnce if of_network => {
            return format!("reclaimed{}: {gate}{free}", by(&reclaimed.actor));
        }
        ReclaimGround::PromiseOver => "no promise to its holder was left".to_owned(),
        ReclaimGround::Acknowledged => "its holder acknowledged the loss".to_owned(),
        ReclaimGround::AtOnce => format!("{} reclaims at once", reclaimed.was.policy.face.as_str()),
        ReclaimGround::Forced => {
            let who = match &reclaimed.actor {
                Actor::Operator(principal) => format!(" ({})", plain(principal)),
                Actor::Holder | Actor::Daemon => String::new(),
            };
            return format!(
                "reclaimed before the promise ran out because an operator insisted{who}: {gate}{free}"
            );
        }
    };
    format!("reclaimed{}: {gate}{free}; {ground}", by(&reclaimed.actor))
}

fn opened_sentence(open: &OpenSession) -> String {
    let kept = match open.kind {
        SessionKind::Connection => "lives as long as its connection".to_owned(),
        SessionKind::Stdin => "lives as long as its standard input".to_owned(),
        SessionKind::ByHand => format!("ttl {}", duration(open.ttl_ms.into())),
    };
    let (session, grace) = (wire_session(open.session), grace(open.grace_ms));
    format!("session {session} opened by {}: {kept}, {grace}", plain(&open.holder))
}

/// A session as what it is.
fn session_words(session: SessionId) -> String {
    let what = match session_kind(session) {
        SessionKind::Connection => "connection",
        SessionKind::Stdin => "standard input",
        SessionKind::ByHand => "session",
    };
    format!("{what} {}", wire_session(session))
}

fn session_end(reason: Reason) -> &'static str {
    match reason {
        Reason::Explicit => "its holder asked",
        Reason::SessionExpired => "it was gone for longer than its grace",
        Reason::HeartbeatExpired => "its heartbeats stopped",
        Reason::ReservationExpired => "it was not used in time",
        Reason::MaxLifetime => "it reached its longest lifetime",
        Reason::AdminForce => "an operator ended it",
        Reason::Shutdown => "the daemon was told to end everything it kept",
        Reason::Rebalanced => "what it kept moved to another poller",
        Reason::PoolRemoved => "its pool was removed",
        Reason::Abandoned => "whoever opened it had gone",
        Reason::Restored => "it came out of a backup and may not rise again",
    }
}

fn configured_sentence(retention: &Retention) -> String {
    format!(
        "ended leases stay readable for {}, at most {} in all and {} per face; at most {} operations per principal",
        duration(retention.window_ms),
        retention.leases_max,
        retention.leases_per_face_max,
        retention.operations_per_principal_max
    )
}

fn by(actor: &Actor) -> String {
    match actor {
        Actor::Daemon => String::new(),
        Actor::Holder => " by its holder".to_owned(),
        Actor::Operator(principal) => format!(" by {}", plain(principal)),
    }
}

fn saying(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(", saying \"{}\"", plain(text)) }
}

fn members(was: &Epitaph) -> String {
    names(&was.members)
}

fn names(names: &[tenure_kernel::Text]) -> String {
    let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
    names.join(", ")
}

/// The text on one line, whatever is in it.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

fn grace(grace_ms: u32) -> String {
    match grace_ms {
        0 => "no grace".to_owned(),
        grace_ms => format!("{} grace", duration(grace_ms.into())),
    }
}
