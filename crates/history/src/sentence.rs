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
        Change::Activated { .. } => "activated: in use from now on".to_owned(),
        Change::Rebound(rebound) => rebound_sentence(rebound),
        Change::Amended(amended) => amended_sentence(amended).to_owned(),
        Change::Drained(steered) => format!(
            "drained{}{}: still held until its grace ends or an operator revives it",
            by(&steered.actor),
            saying(&steered.text)
        ),
        Change::Revived(steered) => {
            format!("revived{}{}: the drain was withdrawn", by(&steered.actor), saying(&steered.text))
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
                session_end(*session, *reason),
                reason.as_str()
            )
        }
        Change::PoolDefined { name, size } => {
            format!("pool {} now has {size} {}", plain(name), if *size == 1 { "member" } else { "members" })
        }
        Change::PoolRemoved { name } => {
            format!("pool {} was removed; leases on its members end with it", plain(name))
        }
        Change::Notified { .. } => "the notification of its end was delivered or dropped".to_owned(),
        Change::Trimmed { below } => format!("history before position {below} was trimmed"),
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
                        return format!("{session} closed; its leases end when their grace ends");
                    }
                    return format!(
                        "the node of {session} fell silent: last keepalive at {}; its leases end when their grace ends",
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
            "alive again: a heartbeat came within the grace".to_owned()
        }
        Note::Returned { subject: Subject::Session(session) } => {
            format!(
                "{} is alive again: a heartbeat or connection came within the grace",
                session_words(*session)
            )
        }
        Note::GateOpened { .. } => {
            "finalizer started: its resources stay taken until the finalizer is done or times out".to_owned()
        }
        Note::BreakerOpened { silent, alive } => format!(
            "mass-expiry protection: {silent} of {alive} holders fell silent at once, so the daemon postpones ends"
        ),
        Note::BreakerClosed => "mass-expiry protection ended: leases end on time again".to_owned(),
        Note::Stalled { gap_ms } => {
            format!(
                "the daemon was stalled for {}; no lease lost more than 1 s of its ttl",
                duration(*gap_ms)
            )
        }
        Note::Restarted => {
            "the daemon restarted, or another node was elected: every holder has a full ttl from now on, \
             and every reclaim delay starts again"
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
            format!("{}, {grace}", ttl(policy.ttl_ms))
        }
        (Mode::Session, Some(session)) => format!("kept by {}, {grace}", session_words(session)),
        (Mode::Session, None) => format!("kept by its session, {grace}"),
        (Mode::Permanent, _) => "permanent, no heartbeat needed".to_owned(),
    };
    if policy.max_lifetime_ms > 0 {
        let _ = write!(terms, "; ends after {} at the latest", duration(policy.max_lifetime_ms));
    }
    match policy.face {
        Face::Leases => {}
        Face::Registrations | Face::Streams | Face::Polling => {
            let _ = write!(terms, "; application {}", policy.face.application());
        }
    }
    terms
}

fn rebound_sentence(rebound: &Rebound) -> String {
    let how = if rebound.taken_over { "taken over by" } else { "moved to" };
    let mut sentence = format!("{how} {}: the epoch is now {}", plain(&rebound.holder), rebound.epoch);
    if let Some(policy) = &rebound.policy {
        let _ = write!(sentence, "; {}", terms(policy));
    }
    sentence
}

fn amended_sentence(amended: &Amended) -> &'static str {
    match (&amended.attachment, &amended.face_data) {
        (Some(_), Some(_)) => "attachment and application data replaced",
        (Some(_), None) => "attachment replaced",
        (None, Some(_)) => "application data replaced",
        (None, None) => "amended without a change",
    }
}

fn revoked_sentence(revoked: &Revoked, when: When) -> String {
    let because = because(revoked.reason, revoked.evidence, when);
    let then = match revoked.reclaim_by {
        ReclaimBy::Daemon => "",
        ReclaimBy::Operator => "; its resources stay taken until an operator reclaims them",
    };
    let promise = match revoked.evidence {
        Evidence::Silence { promised_until, .. } if promised_until > when.tick => {
            format!("; valid for its holder until {}", when.time_of(promised_until))
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
        Reason::Explicit => "its holder requested it",
        Reason::SessionExpired => match evidence {
            Evidence::Disconnected { at } if at == when.tick => return "its holder disconnected".to_owned(),
            Evidence::Disconnected { at } => {
                return format!("its holder disconnected {} earlier and did not come back", when.since(at));
            }
            Evidence::None
            | Evidence::Silence { .. }
            | Evidence::Lifetime { .. }
            | Evidence::Drained { .. } => "its session was silent for longer than its grace",
        },
        Reason::HeartbeatExpired => match evidence {
            Evidence::Silence { last_seen, .. } if when.is_unheard(last_seen) => {
                return format!("no heartbeat in the {} since the restart", when.since(last_seen));
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
        Reason::MaxLifetime => "it reached its maximum lifetime",
        Reason::AdminForce => "an operator ended it",
        Reason::Shutdown => "an operator shut the daemon down with end_all",
        Reason::Rebalanced => "the target moved to another poller",
        Reason::PoolRemoved => "its pool was removed",
        Reason::Abandoned => "the client that waited for it had disconnected",
        Reason::Restored => "the log was restored from a backup",
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
    let finalizer = match reclaimed.gate {
        GateReport::None => "",
        GateReport::Confirmed if of_network => "the goodbye packet was sent, ",
        GateReport::TimedOut if of_network => "the goodbye packet was not confirmed in time, ",
        GateReport::Confirmed => "finalizer done, ",
        GateReport::TimedOut => "finalizer timed out, ",
    };
    let ground = match reclaimed.ground {
        ReclaimGround::AtOnce if of_network => {
            return format!("reclaimed{}: {finalizer}{free}", by(&reclaimed.actor));
        }
        ReclaimGround::PromiseOver => "its validity had ended".to_owned(),
        ReclaimGround::Acknowledged => "its holder acknowledged the loss".to_owned(),
        ReclaimGround::AtOnce => {
            format!("application {} reclaims at once", reclaimed.was.policy.face.application())
        }
        ReclaimGround::Forced => {
            let who = match &reclaimed.actor {
                Actor::Operator(principal) => format!(" ({})", plain(principal)),
                Actor::Holder | Actor::Daemon => String::new(),
            };
            return format!("reclaimed by force before its validity ended{who}: {finalizer}{free}");
        }
    };
    format!("reclaimed{}: {finalizer}{free}; {ground}", by(&reclaimed.actor))
}

fn opened_sentence(open: &OpenSession) -> String {
    let kept = match open.kind {
        SessionKind::Connection => "lasts while its connection is open".to_owned(),
        SessionKind::Stdin => "lasts while its standard input is open".to_owned(),
        SessionKind::ByHand => ttl(open.ttl_ms),
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

fn session_end(session: SessionId, reason: Reason) -> &'static str {
    match reason {
        Reason::Explicit => "its holder requested it",
        Reason::SessionExpired => match session_kind(session) {
            SessionKind::Connection | SessionKind::Stdin => "it closed, and its holder did not come back",
            SessionKind::ByHand => "it was silent for longer than its grace",
        },
        Reason::HeartbeatExpired => "its heartbeats stopped",
        Reason::ReservationExpired => "it was not used in time",
        Reason::MaxLifetime => "it reached its maximum lifetime",
        Reason::AdminForce => "an operator ended it",
        Reason::Shutdown => "an operator shut the daemon down with end_all",
        Reason::Rebalanced => "its targets moved to another poller",
        Reason::PoolRemoved => "its pool was removed",
        Reason::Abandoned => "the client that opened it had disconnected",
        Reason::Restored => "the log was restored from a backup",
    }
}

fn configured_sentence(retention: &Retention) -> String {
    format!(
        "ended leases are kept for {}, at most {} in all and {} per application; at most {} operations per principal",
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
        grace_ms => format!("grace {}", duration(grace_ms.into())),
    }
}

/// The ttl, and the interval at which holders should renew: a third of it.
fn ttl(ttl_ms: u32) -> String {
    format!("ttl {} (renew every {})", duration(ttl_ms.into()), duration(u64::from(ttl_ms / 3)))
}
