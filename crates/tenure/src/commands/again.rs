//! Streams that go on over a restart of the daemon.

use std::time::Duration;

use tenure_api::ErrorCode;
use tenure_client::CallError;

use crate::connect::{Daemon, Reach, call_failure};
use crate::failure::Failure;
use crate::printer::Printer;

/// Pauses between tries to find a daemon that went away.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Waits for a daemon that went away as long as it takes, and opens a stream there; it may have moved.
pub(super) async fn open_again<T>(
    reach: &Reach,
    daemon: &Daemon,
    printer: &mut Printer,
    open: impl AsyncFn(&Daemon) -> Result<T, CallError>,
) -> Result<T, Failure> {
    printer.talk("note: lost the connection to the daemon; reconnecting");
    let mut pause = PAUSE_MIN;
    loop {
        match reach.find_again(daemon).await {
            Ok(daemon) => match open(&daemon).await {
                Ok(opened) => {
                    printer.talk("note: reconnected");
                    return Ok(opened);
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(call_failure(error)),
            },
            Err(Failure::NoDaemon { .. }) => {}
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Asking again may help: the daemon is stopping, starting, or has not come back yet.
pub(super) fn is_passing(error: &CallError) -> bool {
    match error {
        CallError::Rejected(error) => {
            error.retry_after_ms.is_some()
                || matches!(error.code, ErrorCode::ShuttingDown | ErrorCode::NotLeader)
        }
        CallError::Unreachable { .. } | CallError::Broken { .. } | CallError::TimedOut { .. } => true,
        CallError::Unexpected { .. } | CallError::Unsendable(_) => false,
    }
}
