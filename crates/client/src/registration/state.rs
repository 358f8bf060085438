//! When a registrant speaks and what it makes of the answers, as a function of instants and answers: no clock, no
//! task, no connection. Invariant: an end is for ever, and nothing but an end stops the heartbeats.

use crate::backoff::Jitter;
use crate::clock::BootInstant;
use core::fmt;
use core::time::Duration;
use tenure_api::{ErrorCode, Registration, RegistrationRenewed};

/// A registration and its status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistrationState {
    /// The registration as last answered; its `draining` is true while an operator drains it.
    pub registration: Registration,
    /// The status.
    pub status: RegistrationStatus,
}

/// The status of a registration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistrationStatus {
    /// The service is registered.
    Registered,
    /// The last heartbeat got no answer; the keeper retries. The service may still be registered.
    Unconfirmed,
    /// The registration expired, and the keeper registers the service again.
    Expired,
    /// The registration has ended for good.
    Ended(RegistrationEnd),
}

/// Why a registration ended for good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistrationEnd {
    /// An operator (`admin_force`) ended the registration, or a caller unregistered it by its id (`explicit`).
    Removed {
        /// The reason that the daemon reports.
        reason: String,
    },
    /// Another registrant of the same name took over the registration while this one sent no heartbeats.
    TakenOver {
        /// The other registrant's epoch, if known.
        current: Option<u64>,
    },
    /// The registration expired, and the daemon rejects a new one.
    Rejected {
        /// The error code.
        code: ErrorCode,
        /// The error message.
        message: String,
    },
    /// The keeper unregistered the service.
    Unregistered,
}

/// What the driver saw.
#[derive(Clone, Debug)]
pub(crate) enum Observation {
    /// It is registered.
    Registered { sent: BootInstant, registration: Registration },
    /// A heartbeat counted.
    Renewed { sent: BootInstant, renewed: RegistrationRenewed },
    /// No answer that can be used.
    Failed {
        /// The daemon's own advice.
        retry_after: Option<Duration>,
    },
    /// There is no such registration.
    Gone {
        /// The daemon's word, where it still knows why.
        reason: Option<String>,
    },
    /// It is over.
    Over(RegistrationEnd),
}

/// What the driver is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Send a heartbeat and give it up after this long.
    Heartbeat {
        /// The limit.
        limit: Duration,
    },
    /// Register again.
    Register,
}

/// Heartbeats are never closer together than this.
const GAP_MIN: Duration = Duration::from_millis(100);
/// How often a registration that asks for no heartbeats is looked at: its removal is noticed by that alone.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The first pause after a failure.
const RETRY_FIRST: Duration = Duration::from_millis(50);
/// The longest pause between failures; a tenth of the lease if that is less.
const RETRY_LONGEST: Duration = Duration::from_secs(5);
/// How long a reason may take to be known.
const DOUBT: Duration = Duration::from_millis(200);
/// The shortest time that an answer is given.
const LIMIT_MIN: Duration = Duration::from_millis(250);

/// What is believed of one registration.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    jitter: Jitter,
    state: RegistrationState,
    due: BootInstant,
    /// Tries since a heartbeat counted.
    failures: u32,
    /// The registration is gone for an unknown reason; the client requests it once more.
    in_doubt: bool,
}

impl Core {
    pub(crate) fn new(jitter: Jitter, sent: BootInstant, registration: Registration) -> Self {
        let state = RegistrationState { registration, status: RegistrationStatus::Registered };
        let mut core = Self { jitter, state, due: sent, failures: 0, in_doubt: false };
        core.schedule(sent);
        core
    }

    pub(crate) fn state(&self) -> &RegistrationState {
        &self.state
    }

    /// When to speak next; `None` once it is over.
    pub(crate) fn next_deadline(&self) -> Option<BootInstant> {
        match self.state.status {
            RegistrationStatus::Registered
            | RegistrationStatus::Unconfirmed
            | RegistrationStatus::Expired => Some(self.due),
            RegistrationStatus::Ended(_) => None,
        }
    }

    /// What to say when the deadline has come. The driver reports what came of it before it asks again.
    pub(crate) fn action(&self) -> Option<Action> {
        match self.state.status {
            RegistrationStatus::Registered | RegistrationStatus::Unconfirmed => {
                // One silent try must leave room for others.
                Some(Action::Heartbeat { limit: (self.lease() / 5).max(LIMIT_MIN) })
            }
            RegistrationStatus::Expired => Some(Action::Register),
            RegistrationStatus::Ended(_) => None,
        }
    }

    /// Takes in what was seen at `now`.
    pub(crate) fn observe(&mut self, now: BootInstant, observation: Observation) {
        if let RegistrationStatus::Ended(_) = self.state.status {
            return;
        }
        let was_in_doubt = core::mem::take(&mut self.in_doubt);
        match observation {
            Observation::Registered { sent, registration } => {
                self.state = RegistrationState { registration, status: RegistrationStatus::Registered };
                self.schedule(sent);
            }
            Observation::Renewed { sent, renewed } => {
                let RegistrationRenewed { lease, draining, .. } = renewed;
                self.state.registration.lease = lease;
                self.state.registration.draining = draining;
                self.state.status = RegistrationStatus::Registered;
                self.failures = 0;
                self.schedule(sent);
            }
            Observation::Failed { retry_after } => self.failed(now, retry_after),
            Observation::Gone { reason } => match reason {
                Some(reason) if is_somebodys_will(&reason) => self.end(RegistrationEnd::Removed { reason }),
                None if !was_in_doubt => self.doubt(now),
                Some(_) | None => self.lapse(now),
            },
            Observation::Over(end) => self.end(end),
        }
    }

    /// How long one heartbeat lasts, or would if one were asked for.
    fn lease(&self) -> Duration {
        match self.state.registration.lease {
            0 => LOOK_EVERY * 3,
            secs => Duration::from_secs(secs),
        }
    }

    fn schedule(&mut self, sent: BootInstant) {
        let gap = self.jitter.around(self.lease() / 3, 10).max(GAP_MIN);
        self.due = sent.after(gap);
    }

    fn failed(&mut self, now: BootInstant, retry_after: Option<Duration>) {
        if self.state.status == RegistrationStatus::Registered {
            self.state.status = RegistrationStatus::Unconfirmed;
        }
        // Advice is taken only as far as it leaves room for more tries.
        let advised = retry_after.unwrap_or_default().min(self.lease() / 6);
        self.due = now.after(self.pause().max(advised));
    }

    /// A daemon may know that a registration is gone a moment before it knows why, and what an operator ended must
    /// not come back.
    fn doubt(&mut self, now: BootInstant) {
        self.in_doubt = true;
        self.due = now.after(DOUBT);
    }

    /// At once the first time; where it does not last, ever later.
    fn lapse(&mut self, now: BootInstant) {
        let pause = if self.failures == 0 { Duration::ZERO } else { self.pause() };
        self.failures = self.failures.max(1);
        self.state.status = RegistrationStatus::Expired;
        self.due = now.after(pause);
    }

    fn pause(&mut self) -> Duration {
        let longest = (self.lease() / 10).clamp(RETRY_FIRST, RETRY_LONGEST);
        let pause = RETRY_FIRST.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        self.jitter.around(pause, 2)
    }

    fn end(&mut self, end: RegistrationEnd) {
        self.state.status = RegistrationStatus::Ended(end);
    }
}

/// An operator or a client ended it on purpose; every other end is an accident of time.
fn is_somebodys_will(reason: &str) -> bool {
    matches!(reason, "admin_force" | "explicit")
}

impl fmt::Display for RegistrationEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed { reason } if reason == "admin_force" => {
                write!(f, "an operator ended the registration ({reason})")
            }
            Self::Removed { reason } => write!(f, "another caller ended the registration ({reason})"),
            Self::TakenOver { .. } => {
                f.write_str("another registrant of the same name took over the registration")
            }
            Self::Rejected { code, message } => {
                write!(f, "the registration ended and cannot be registered again: {message} ({code})")
            }
            Self::Unregistered => f.write_str("the registration was ended by its keeper"),
        }
    }
}

#[cfg(test)]
mod tests;
