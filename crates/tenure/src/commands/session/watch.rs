//! `tenure session watch`: what happens to one session, over restarts of the daemon.

use clap::Args;
use serde_json::json;
use tenure_api::{SlotSession, SlotSessionEvent};

use crate::commands::again::{is_passing, open_again};
use crate::connect::{Daemon, Reach, call_failure};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::stream_line;
use crate::stopping::{Stopping, output_closed};

/// Watch one slot session until it ends
///
/// Prints one line each for its current state, renewals, warnings and changes.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure session watch 94305303-1dc3-41b4-a150-bf26d0043d01")]
pub(super) struct Watch {
    /// Slot session ID
    #[arg(value_name = "SESSION")]
    session: String,
}

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
        let open = async |daemon: &Daemon| daemon.client().slot_session_events(&self.session).await;
        let mut events = open(daemon).await.map_err(call_failure)?;
        let mut is_over = false;
        loop {
            match events.next().await {
                Ok(Some((news, stream))) => {
                    print(news, &stream, printer)?;
                    is_over = stream.state.is_terminal();
                }
                Ok(None) if is_over => return Ok(()),
                Ok(None) => events = open_again(reach, daemon, printer, open).await?,
                Err(error) if is_passing(&error) => events = open_again(reach, daemon, printer, open).await?,
                Err(error) => return Err(call_failure(error)),
            }
        }
    }
}

fn print(news: SlotSessionEvent, stream: &SlotSession, printer: &mut Printer) -> Result<(), Failure> {
    if printer.json() {
        printer.object(&json!({"event": news, "session": stream}))?;
    } else {
        printer.line(stream_line(news, stream))?;
    }
    printer.flush()
}
