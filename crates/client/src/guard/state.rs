//! What a holder may believe, as a function of instants and answers: no clock, no task, no connection.
//! Invariant: a loss is for ever; nothing that arrives after it brings authority back.

use crate::backoff::Jitter;
use crate::clock::BootInstant;
use core::fmt;
use core::time::Duration;

/// Whether a holder may act.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GuardStatus {
    /// The holder may act.
    Held,
    /// The holder may still act, but a renewal failed or is overdue.
    AtRisk,
    /// The holder must not act.
    Lost(LossReason),
}

/// Why a lease or session was lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LossReason {
    /// The validity ended without a renewal, or the connection that kept the lease closed.
    Unreachable,
    /// The daemon ended the lease or session: no heartbeat came, or the maximum lifetime was over.
    Expired(String),
    /// The daemon ended the lease or session for another reason: an operator, a removed pool, ….
    Revoked(String),
    /// The epoch is stale: the lease was withdrawn or changed hands.
    Superseded {
        /// The current epoch, if known.
        current: Option<u64>,
    },
    /// The holder released it.
    Released,
}

/// What the rules need to know beside the answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Taken off every promise, for what happens between the end of a promise being noticed and acted on.
    pub(crate) margin: Duration,
    /// Heartbeats go to one node after the other, each within its share of the limit.
    pub(crate) several_nodes: bool,
}

/// An answer that promises something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promised {
    /// Before the request left.
    pub(crate) sent: BootInstant,
    pub(crate) valid_ms: u64,
    pub(crate) draining: bool,
    /// Epoch of the lease; 0 for a session, which has none.
    pub(crate) epoch: u64,
    pub(crate) lsn: u64,
}

/// What the driver saw.
#[derive(Clone, Debug)]
pub(crate) enum Observation {
    /// Nothing but that time went on.
    Time,
    /// A heartbeat counted.
    Promised(Promised),
    /// A heartbeat brought no answer that can be used.
    Failed {
        /// The daemon's own advice.
        retry_after: Option<Duration>,
    },
    /// Authority is gone.
    Gone(LossReason),
}

/// What the driver is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Send a heartbeat and give it up after this long.
    Heartbeat {
        /// The limit.
        limit: Duration,
    },
    /// Tell the holder that it has lost.
    Lose(LossReason),
}

/// Renewals within one promise: half of it may pass without an answer, as long as a change of leader takes.
const RENEWALS: u32 = 6;
/// Heartbeats are never closer together than this, however little is left of a promise.
const RENEW_GAP_MIN: Duration = Duration::from_millis(100);
/// The first pause after a failure.
const RETRY_FIRST: Duration = Duration::from_millis(50);
/// The longest pause between failures; a tenth of the promise if that is less.
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// What is believed of one lease or session.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    terms: Terms,
    jitter: Jitter,
    epoch: u64,
    newest_lsn: u64,
    status: GuardStatus,
    draining: bool,
    promise: Promise,
    attempt: Attempt,
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
struct Promise {
    valid: Duration,
    until: BootInstant,
    /// Half of what may be believed is used up.
    half_used: BootInstant,
}

#[derive(Clone, Copy, Debug)]
enum Attempt {
    Due(BootInstant),
    InFlight,
}

impl Terms {
    /// Until when a promise may be believed. The slack for clock rates is in `valid_ms`; the margin is for scheduling.
    fn promise(self, promised: &Promised) -> Promise {
        let valid = Duration::from_millis(promised.valid_ms);
        let believed = valid.saturating_sub(self.margin);
        Promise { valid, until: promised.sent.after(believed), half_used: promised.sent.after(believed / 2) }
    }

    /// How long the daemon may be silent, at least, before a holder with this ttl has lost: a renewal may have been due, a
    /// tenth late, when it fell silent.
    pub(crate) fn max_silence(self, ttl: Duration) -> Duration {
        // The slack for clock rates, and more: the daemon alone computes it.
        let valid = ttl - ttl / 100;
        let renewed = (valid / RENEWALS).mul_f64(1.1).max(RENEW_GAP_MIN);
        valid.saturating_sub(self.margin).saturating_sub(renewed)
    }

    /// Whether so much of a promise went by before it was known that it is better asked for again.
    pub(crate) fn is_stale(self, now: BootInstant, promised: &Promised) -> bool {
        let promise = self.promise(promised);
        now.since(promised.sent) >= promise.valid / 3
    }
}

impl Core {
    pub(crate) fn new(terms: Terms, jitter: Jitter, promised: &Promised) -> Self {
        let promise = terms.promise(promised);
        let mut core = Self {
            terms,
            jitter,
            epoch: promised.epoch,
            newest_lsn: promised.lsn,
            status: GuardStatus::Held,
            draining: promised.draining,
            promise,
            attempt: Attempt::InFlight,
            failures: 0,
        };
        core.schedule(promised.sent, promise.valid);
        core
    }

    pub(crate) fn status(&self) -> &GuardStatus {
        &self.status
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining
    }

    /// From this instant on nothing may be done in the name of the lease.
    pub(crate) fn valid_until(&self) -> BootInstant {
        self.promise.until
    }

    /// When to look again, whatever happens; `None` once it is lost.
    pub(crate) fn next_deadline(&self) -> Option<BootInstant> {
        let soonest = match (&self.status, self.attempt) {
            (GuardStatus::Lost(_), _) => return None,
            (GuardStatus::Held, Attempt::Due(at)) => at.min(self.promise.half_used),
            (GuardStatus::Held, Attempt::InFlight) => self.promise.half_used,
            (GuardStatus::AtRisk, Attempt::Due(at)) => at,
            (GuardStatus::AtRisk, Attempt::InFlight) => self.promise.until,
        };
        Some(soonest.min(self.promise.until))
    }

    /// Takes in what was seen at `now`. Time is looked at first: an answer that arrives after the end of
    /// validity finds the lease lost.
    pub(crate) fn observe(&mut self, now: BootInstant, observation: Observation) -> Option<Action> {
        if let GuardStatus::Lost(_) = self.status {
            return None;
        }
        if now >= self.promise.until {
            // An answer that says why is the better reason.
            let reason = match observation {
                Observation::Gone(reason) => reason,
                Observation::Time | Observation::Promised(_) | Observation::Failed { .. } => {
                    LossReason::Unreachable
                }
            };
            return Some(self.lose(reason));
        }
        match observation {
            Observation::Time => {}
            Observation::Promised(promised) if self.is_older(&promised) => self.failed(now, None),
            Observation::Promised(promised) => self.promised(&promised),
            Observation::Failed { retry_after } => self.failed(now, retry_after),
            Observation::Gone(reason) => return Some(self.lose(reason)),
        }
        if now >= self.promise.half_used {
            self.status = GuardStatus::AtRisk;
        }
        match self.attempt {
            Attempt::Due(at) if now >= at => {
                self.attempt = Attempt::InFlight;
                Some(Action::Heartbeat { limit: self.heartbeat_limit(now) })
            }
            Attempt::Due(_) | Attempt::InFlight => None,
        }
    }

    /// Of another epoch, or from before something that is known already.
    fn is_older(&self, promised: &Promised) -> bool {
        promised.epoch != self.epoch || promised.lsn < self.newest_lsn
    }

    fn promised(&mut self, promised: &Promised) {
        let promise = self.terms.promise(promised);
        // An earlier promise that reaches further still binds the daemon.
        self.promise = Promise { until: promise.until.max(self.promise.until), ..promise };
        self.newest_lsn = promised.lsn;
        self.draining = promised.draining;
        self.failures = 0;
        self.status = GuardStatus::Held;
        self.schedule(promised.sent, promise.valid);
    }

    fn schedule(&mut self, sent: BootInstant, valid: Duration) {
        let gap = self.jitter.around(valid / RENEWALS, 10).max(RENEW_GAP_MIN);
        self.attempt = Attempt::Due(sent.after(gap));
    }

    fn failed(&mut self, now: BootInstant, retry_after: Option<Duration>) {
        self.status = GuardStatus::AtRisk;
        let longest = (self.promise.valid / 10).clamp(RETRY_FIRST, RETRY_LONGEST);
        let pause = RETRY_FIRST.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        let pause = self.jitter.around(pause, 2);
        // Advice is taken only as far as it leaves room for more tries.
        let advised = retry_after.unwrap_or_default().min(self.promise.valid / 6);
        self.attempt = Attempt::Due(now.after(pause.max(advised)));
    }

    /// One silent try must leave room for others.
    fn heartbeat_limit(&self, now: BootInstant) -> Duration {
        let left = self.promise.until.since(now);
        if self.terms.several_nodes {
            return left;
        }
        (self.promise.valid / 5).max(RENEW_GAP_MIN).min(left)
    }

    fn lose(&mut self, reason: LossReason) -> Action {
        self.status = GuardStatus::Lost(reason.clone());
        Action::Lose(reason)
    }
}

impl LossReason {
    /// From the daemon's word for why a lease ended.
    pub(crate) fn from_word(reason: &str) -> Self {
        match reason {
            "heartbeat_expired" | "session_expired" | "reservation_expired" | "max_lifetime" => {
                Self::Expired(reason.to_owned())
            }
            "explicit" => Self::Released,
            other => Self::Revoked(other.to_owned()),
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("the lease could not be renewed in time"),
            Self::Expired(reason) => write!(f, "the lease expired ({reason})"),
            Self::Revoked(reason) => write!(f, "the lease was revoked ({reason})"),
            Self::Superseded { current: Some(current) } => {
                write!(f, "the lease was superseded by epoch {current}")
            }
            Self::Superseded { current: None } => f.write_str("the lease was superseded"),
            Self::Released => f.write_str("the lease was released"),
        }
    }
}

#[cfg(test)]
mod tests;
