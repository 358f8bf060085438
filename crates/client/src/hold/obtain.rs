//! One request for a bundle, asked until its outcome is known.

use super::milliseconds;
use crate::backoff::Backoff;
use crate::client::Client;
use crate::clock::BootInstant;
use crate::error::CallError;
use crate::operation::operation_id;
use core::time::Duration;
use tenure_api::{Acquire, ErrorCode, Lease};

/// The longest wait that one request may ask for.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// A wait is over when less than this is left of it: the daemon's milliseconds are not quite ours.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// A grant, and the instant before it was asked for the last time.
pub(super) struct Obtained {
    pub(super) lease: Lease,
    pub(super) sent: BootInstant,
}

/// Tries of one request, with pauses, up to a deadline.
pub(super) struct Tries {
    backoff: Backoff,
    deadline: BootInstant,
}

/// What an error says about asking again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// The operation may have been carried out: ask again under the same id.
    SameOperation,
    /// It certainly was not, and a new request may help: the daemon remembers what it rejected under an id.
    NewOperation,
    /// The wait of this request is over, that of the caller may not be.
    WaitedOut,
    GiveUp,
}

pub(super) async fn obtain(
    client: &Client,
    request: &Acquire,
    wait_until: BootInstant,
    deadline: BootInstant,
) -> Result<Obtained, CallError> {
    let mut request = request.clone();
    let mut operation = operation_id();
    let mut outcome_unknown = false;
    let mut tries = Tries::new(deadline);
    loop {
        let sent = BootInstant::now();
        let wait = wait_until.since(sent).min(WAIT_MAX);
        request.wait_ms = (!wait.is_zero()).then(|| milliseconds(wait));
        request.operation_id = Some(operation.clone());
        let error = match client.acquire(&request).await {
            Ok(lease) => return Ok(Obtained { lease, sent }),
            Err(error) => error,
        };
        match next(&error, outcome_unknown) {
            Next::SameOperation => outcome_unknown = true,
            Next::NewOperation => operation = operation_id(),
            Next::WaitedOut if wait_until.since(BootInstant::now()) >= WAIT_MIN => {
                operation = operation_id();
                outcome_unknown = false;
            }
            Next::WaitedOut | Next::GiveUp => return Err(error),
        }
        tries.pause_after(error).await?;
    }
}

fn next(error: &CallError, outcome_unknown: bool) -> Next {
    match error {
        CallError::Rejected(refused) if !refused.definite => Next::SameOperation,
        CallError::Rejected(refused) => match refused.code {
            ErrorCode::WaitTimeout => Next::WaitedOut,
            // Refused before anybody looked whether the operation was carried out before.
            code if is_passing(code) && outcome_unknown => Next::SameOperation,
            code if is_passing(code) => Next::NewOperation,
            _ => Next::GiveUp,
        },
        CallError::Broken { .. } | CallError::TimedOut { .. } => Next::SameOperation,
        CallError::Unreachable { .. } if outcome_unknown => Next::SameOperation,
        // From 500 on it may be a gateway that speaks of a daemon behind it.
        CallError::Unexpected { definite: false, status, .. } if outcome_unknown || *status >= 500 => {
            Next::SameOperation
        }
        CallError::Unreachable { .. } | CallError::Unexpected { .. } | CallError::Unsendable(_) => {
            Next::GiveUp
        }
    }
}

/// Says more about the daemon at this moment than about the request.
fn is_passing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::RateLimited
            | ErrorCode::Overloaded
            | ErrorCode::TooManyWaiters
            | ErrorCode::TooManyConnections
            | ErrorCode::DiskLow
            | ErrorCode::ShuttingDown
            | ErrorCode::NotLeader
            | ErrorCode::StoreSilent
            | ErrorCode::NotYet
    )
}

impl Tries {
    pub(super) fn new(deadline: BootInstant) -> Self {
        Self { backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(1)), deadline }
    }

    /// Pauses before the next try; gives the error back if there is no next, or if no other answer will come.
    pub(super) async fn pause_after(&mut self, error: CallError) -> Result<(), CallError> {
        let is_final = match &error {
            CallError::Rejected(refused) => refused.lost || refused.retry_after_ms.is_none(),
            CallError::Unsendable(_) => true,
            CallError::Unexpected { lost, definite, .. } => *lost || *definite,
            CallError::Unreachable { .. } | CallError::Broken { .. } | CallError::TimedOut { .. } => false,
        };
        let pause = self.backoff.next_pause().max(error.retry_after().unwrap_or_default());
        if is_final || BootInstant::now().after(pause) >= self.deadline {
            return Err(error);
        }
        tracing::debug!(%error, "retrying");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_api::Error;

    fn refused(code: ErrorCode) -> CallError {
        CallError::Rejected(Error::new(code, "no"))
    }

    fn unreachable() -> CallError {
        let endpoint = "unix:/run/x".parse().expect("an endpoint");
        CallError::Unreachable { endpoint, source: "refused".into() }
    }

    #[test]
    fn an_unknown_outcome_is_asked_for_under_the_same_id() {
        let timed_out = CallError::TimedOut { limit: Duration::ZERO };
        assert_eq!(next(&timed_out, false), Next::SameOperation);
        assert_eq!(next(&refused(ErrorCode::OutcomeUnknown), false), Next::SameOperation);
        assert_eq!(next(&unreachable(), true), Next::SameOperation);
        assert_eq!(next(&refused(ErrorCode::ShuttingDown), true), Next::SameOperation);
        assert_eq!(next(&unexpected(false, false), true), Next::SameOperation);
        let gateway =
            CallError::Unexpected { status: 500, message: String::new(), definite: false, lost: false };
        assert_eq!(next(&gateway, false), Next::SameOperation);
    }

    fn unexpected(definite: bool, lost: bool) -> CallError {
        CallError::Unexpected { status: 404, message: String::new(), definite, lost }
    }

    #[test]
    fn what_certainly_was_not_done_is_asked_anew_or_given_up() {
        assert_eq!(next(&unreachable(), false), Next::GiveUp);
        assert_eq!(next(&unexpected(false, false), false), Next::GiveUp);
        assert_eq!(next(&unexpected(true, false), true), Next::GiveUp);
        assert_eq!(next(&refused(ErrorCode::ResourceHeld), false), Next::GiveUp);
        assert_eq!(next(&refused(ErrorCode::ResourceHeld), true), Next::GiveUp);
        assert_eq!(next(&refused(ErrorCode::Overloaded), false), Next::NewOperation);
        assert_eq!(next(&refused(ErrorCode::WaitTimeout), false), Next::WaitedOut);
    }

    #[tokio::test]
    async fn tries_end_at_the_deadline_and_with_answers_that_are_final() {
        let mut over = Tries::new(BootInstant::now());
        assert!(over.pause_after(unreachable()).await.is_err());
        let mut fresh = Tries::new(BootInstant::now().after(Duration::from_secs(60)));
        assert!(fresh.pause_after(refused(ErrorCode::StaleEpoch)).await.is_err());
        assert!(fresh.pause_after(unexpected(true, false)).await.is_err());
        assert!(fresh.pause_after(unexpected(false, true)).await.is_err());
        assert!(fresh.pause_after(unreachable()).await.is_ok());
        assert!(fresh.pause_after(unexpected(false, false)).await.is_ok());
    }
}
