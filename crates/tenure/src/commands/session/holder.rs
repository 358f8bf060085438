//! What the client of a session does with it: heartbeat, activate, fail, stop.

use clap::Args;

use super::{print_object, print_stream};
use crate::confirm::Consent;
use crate::connect::{Daemon, call_failure};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::{stream_renewed_page, stream_withdrawn_words, stream_words};

/// Renew a slot session for another TTL
#[derive(Args)]
#[command(after_help = "Example:\n  tenure session heartbeat 94305303-1dc3-41b4-a150-bf26d0043d01")]
pub(super) struct Heartbeat {
    /// Slot session ID
    #[arg(value_name = "SESSION")]
    session: String,
    /// Fail unless this is the epoch of the slot session
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<u64>,
}

/// Activate a starting slot session
#[derive(Args)]
#[command(after_help = "Example:\n  tenure session activate 94305303-1dc3-41b4-a150-bf26d0043d01")]
pub(super) struct Activate {
    /// Slot session ID
    #[arg(value_name = "SESSION")]
    session: String,
}

/// End a slot session as failed
///
/// On a terminal the command asks for confirmation if the slot session belongs to another principal.
#[derive(Args)]
#[command(after_help = FAIL_EXAMPLE)]
pub(super) struct Fail {
    /// Slot session ID
    #[arg(value_name = "SESSION")]
    session: String,
    /// Why, in words
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    consent: Consent,
}

const FAIL_EXAMPLE: &str = "Example:
  tenure session fail 94305303-1dc3-41b4-a150-bf26d0043d01 --reason \"no signal\"";

/// Stop a slot session and free its slots
///
/// On a terminal the command asks for confirmation if the slot session belongs to another principal. The slots of your
/// own slot session are free at once. If an operator stops it, they are free when the client confirms, at the latest when
/// its TTL ends.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure session stop 94305303-1dc3-41b4-a150-bf26d0043d01")]
pub(super) struct Stop {
    /// Slot session ID
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    consent: Consent,
}

impl Heartbeat {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let renewed =
            daemon.client().heartbeat_slot_session(&self.session, self.epoch).await.map_err(call_failure)?;
        match printer.json() {
            true => print_object(printer, &renewed),
            false => stream_renewed_page(&renewed).print(printer),
        }
    }
}

impl Activate {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let stream = daemon.client().activate_slot_session(&self.session).await.map_err(call_failure)?;
        print_stream(printer, &stream)
    }
}

impl Fail {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        ask_about(&self.session, &self.consent, "end this slot session as failed?", daemon, printer).await?;
        let failed = daemon.client().fail_slot_session(&self.session, &self.reason).await;
        print_stream(printer, &failed.map_err(call_failure)?)
    }
}

impl Stop {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        ask_about(&self.session, &self.consent, "stop this slot session?", daemon, printer).await?;
        let stopped = daemon.client().stop_slot_session(&self.session).await.map_err(call_failure)?;
        if let Some(words) = stream_withdrawn_words(&stopped) {
            printer.talk(format_args!("note: {words}"));
        }
        print_stream(printer, &stopped)
    }
}

/// Shows what would be ended and asks, unless the daemon says that it is one's own: what its client is called, anybody
/// chooses. One that has ended is left for the daemon to refuse.
async fn ask_about(
    session: &str,
    consent: &Consent,
    question: &str,
    daemon: &Daemon,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let stream = daemon.client().slot_session(session).await.map_err(call_failure)?;
    if stream.state.is_terminal() || stream.own == Some(true) {
        return Ok(());
    }
    consent.obtain(printer, &[stream_words(&stream)], question)
}
