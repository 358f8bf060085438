//! Saying something again until it was heard, within a limit: for the last words of holders and sessions.

use crate::backoff::Backoff;
use crate::clock::BootInstant;
use crate::error::CallError;
use core::time::Duration;

/// How long last words are tried.
const LIMIT: Duration = Duration::from_secs(10);

/// Whether a failed call may be made again at all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    Closed,
}

/// Makes a call that may be made twice until it is answered for good.
pub(crate) async fn insist<T, Call>(
    mut call: impl FnMut() -> Call,
    way: impl Fn() -> Way,
) -> Result<T, CallError>
where
    Call: Future<Output = Result<T, CallError>>,
{
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    let deadline = BootInstant::now().after(LIMIT);
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let pause = backoff.next_pause().max(error.retry_after().unwrap_or_default());
        if is_final(&error) || way() == Way::Closed || BootInstant::now().after(pause) >= deadline {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

fn is_final(error: &CallError) -> bool {
    match error {
        CallError::Rejected(refused) => refused.definite && refused.retry_after_ms.is_none(),
        CallError::Unexpected { definite, lost, .. } => *definite || *lost,
        CallError::Unsendable(_) => true,
        CallError::Unreachable { .. } | CallError::Broken { .. } | CallError::TimedOut { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use tenure_api::{Error, ErrorCode};

    fn timed_out() -> CallError {
        CallError::TimedOut { limit: Duration::ZERO }
    }

    #[tokio::test]
    async fn what_was_not_heard_is_said_again() {
        let said = Cell::new(0);
        let call = || {
            said.set(said.get() + 1);
            let number = said.get();
            async move { if number < 3 { Err(timed_out()) } else { Ok(number) } }
        };
        assert_eq!(insist(call, || Way::Open).await.expect("heard"), 3);
    }

    #[tokio::test]
    async fn an_answer_for_good_and_a_closed_way_end_it() {
        let stale =
            async || Err::<(), _>(CallError::Rejected(Error::new(ErrorCode::StaleEpoch, "no").lost()));
        assert!(insist(stale, || Way::Open).await.expect_err("refused").lost());
        let said = Cell::new(0);
        let call = || {
            said.set(said.get() + 1);
            async { Err::<(), _>(timed_out()) }
        };
        assert!(insist(call, || Way::Closed).await.is_err());
        assert_eq!(said.get(), 1);
    }
}
