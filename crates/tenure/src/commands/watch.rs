//! `tenure watch`: events as they happen, over restarts of the daemon.

use std::time::Duration;

use clap::Args;
use tenure_api::{ErrorCode, EventKind, Status};
use tenure_client::{CallError, Events};

use super::again::is_passing;
use super::lease::Filter;
use crate::connect::{Daemon, Reach, call_failure, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::event_line;
use crate::stopping::{Stopping, output_closed};

/// Watch events until interrupted
///
/// Prints one line per event; with --json the API's objects. After a restart of the daemon the watch continues after the
/// last printed event, so no event is lost.
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure watch\n  tenure watch --from 0 --resource-prefix db/")]
pub(crate) struct Watch {
    /// Begin after this LSN; 0 is the oldest event [default: now]
    #[arg(long, value_name = "LSN")]
    from: Option<u64>,
    #[command(flatten)]
    filter: Filter,
}

/// Pauses between tries to find a daemon that went away.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The last event that was printed.
struct Position {
    log_tag: String,
    lsn: u64,
}

/// What the end of one connection means.
enum End {
    /// Begin again after the last event.
    GoOn,
    /// The daemon is gone; wait for it.
    Gone,
}

impl Watch {
    pub(crate) async fn run(
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
        let status: Status = read(daemon.get(route(&["status"])).await?)?;
        // Without a position of our own, an event between two connections would be missed.
        let lsn = self.from.unwrap_or(status.synced_lsn);
        let mut position = Position { log_tag: status.log_tag, lsn };
        let mut events = self.open(daemon, &position).await.map_err(call_failure)?;
        loop {
            match self.print_until_end(&mut events, &mut position, printer).await? {
                End::GoOn => printer.talk("note: this client reads too slowly; reconnecting"),
                End::Gone => printer.talk("note: lost the connection to the daemon; reconnecting"),
            }
            events = self.find_again(reach, daemon, &mut position, printer).await?;
            printer.talk(format_args!("note: reconnected; continuing after lsn {}", position.lsn));
        }
    }

    async fn open(&self, daemon: &Daemon, position: &Position) -> Result<Events, CallError> {
        daemon.client().events(self.filter.events(Some(position.lsn))).await
    }

    /// The same log goes on where it was left; of another one only what happens from now on is news.
    async fn open_again(
        &self,
        daemon: &Daemon,
        position: &mut Position,
        printer: &mut Printer,
    ) -> Result<Events, CallError> {
        let status = daemon.client().status().await?;
        if status.log_tag != position.log_tag {
            printer.talk(format_args!(
                "note: the daemon now has another log, {}; its earlier events are not shown",
                status.log_tag
            ));
            *position = Position { log_tag: status.log_tag, lsn: status.synced_lsn };
        }
        self.open(daemon, position).await
    }

    async fn print_until_end(
        &self,
        events: &mut Events,
        position: &mut Position,
        printer: &mut Printer,
    ) -> Result<End, Failure> {
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(End::Gone),
                Err(error @ (CallError::Broken { .. } | CallError::TimedOut { .. })) => {
                    printer.talk(format_args!("note: {error}"));
                    return Ok(End::Gone);
                }
                Err(error) => return Err(call_failure(error)),
            };
            match event.kind {
                EventKind::Lagged => {
                    position.lsn = event.lsn;
                    return Ok(End::GoOn);
                }
                EventKind::Closing => return Ok(End::Gone),
                _ => position.lsn = event.lsn,
            }
            if printer.json() {
                let object =
                    serde_json::to_value(&event).map_err(|error| Failure::Unexpected(Words::new(error)))?;
                printer.object(&object)?;
            } else {
                printer.line(event_line(&event))?;
            }
            printer.flush()?;
        }
    }

    /// Waits for a daemon as long as it takes; it may have moved.
    async fn find_again(
        &self,
        reach: &Reach,
        daemon: &Daemon,
        position: &mut Position,
        printer: &mut Printer,
    ) -> Result<Events, Failure> {
        let mut pause = PAUSE_MIN;
        loop {
            match reach.find_again(daemon).await {
                Ok(daemon) => match self.open_again(&daemon, position, printer).await {
                    Ok(events) => return Ok(events),
                    Err(CallError::Rejected(error)) if error.code == ErrorCode::LsnTrimmed => {
                        let oldest = error.details.get("oldest").and_then(serde_json::Value::as_u64);
                        let Some(oldest) = oldest.filter(|oldest| *oldest > position.lsn) else {
                            return Err(call_failure(CallError::Rejected(error)));
                        };
                        printer.talk(format_args!("note: events before lsn {oldest} have been deleted"));
                        position.lsn = oldest;
                        continue;
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
