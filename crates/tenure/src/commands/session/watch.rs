//! `tenure session watch`: what happens to one session, over restarts of the daemon.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tenure_api::{ErrorCode, Stream, StreamNews};
use tenure_client::{CallError, StreamEvents};

use crate::connect::{Daemon, Reach, call_failure};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::stream_line;
use crate::stopping::{Stopping, output_closed};

/// Print what happens to one session, until it has ended
///
/// One line each: the session as it is, then renewals, warnings and changes of its state.
#[derive(Args)]
pub(super) struct Watch {
    /// Its id
    #[arg(value_name = "SESSION")]
    session: String,
}

/// Pauses between tries to find a daemon that went away.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

impl Watch {
    pub(super) async fn run(
        self,
        reach: &Reach,
        daemon: &Daemon,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let mut stopping = Stopping::catch()?;
        tokio::select! {
            () = stopping.asked() => Ok(()),
            () = output_closed() => Ok(()),
            outcome = self.follow(reach, daemon, printer) => outcome,
        }
    }

    async fn follow(&self, reach: &Reach, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let mut events = daemon.client().stream_events(&self.session).await.map_err(call_failure)?;
        let mut is_over = false;
        loop {
            match events.next().await {
                Ok(Some((news, stream))) => {
                    print(news, &stream, printer)?;
                    is_over = stream.state.is_terminal();
                }
                Ok(None) if is_over => return Ok(()),
                Ok(None) => events = self.find_again(reach, daemon, printer).await?,
                Err(error) if is_passing(&error) => events = self.find_again(reach, daemon, printer).await?,
                Err(error) => return Err(call_failure(error)),
            }
        }
    }

    /// Waits for a daemon as long as it takes; it may have moved.
    async fn find_again(
        &self,
        reach: &Reach,
        daemon: &Daemon,
        printer: &mut Printer,
    ) -> Result<StreamEvents, Failure> {
        printer.talk("note: the daemon is gone; waiting for it");
        let mut pause = PAUSE_MIN;
        loop {
            match reach.find_again(daemon).await {
                Ok(daemon) => match daemon.client().stream_events(&self.session).await {
                    Ok(events) => {
                        printer.talk("note: connected again");
                        return Ok(events);
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
}

fn print(news: StreamNews, stream: &Stream, printer: &mut Printer) -> Result<(), Failure> {
    if printer.json() {
        printer.object(&json!({"event": news, "session": stream}))?;
    } else {
        printer.line(stream_line(news, stream))?;
    }
    printer.flush()
}

/// Asking again may help: the daemon is stopping, starting, or has not come back yet.
fn is_passing(error: &CallError) -> bool {
    match error {
        CallError::Refused(error) => error.retry_after_ms.is_some() || error.code == ErrorCode::ShuttingDown,
        CallError::Unreachable { .. } | CallError::Broken { .. } | CallError::TimedOut { .. } => true,
        CallError::Unexpected { .. } | CallError::Unsendable(_) => false,
    }
}
