//! What the client of a session does with it: heartbeat, activate, fail, stop.

use clap::Args;

use super::{print_object, print_stream};
use crate::confirm::Consent;
use crate::connect::{Daemon, call_failure};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::{stream_renewed_page, stream_withdrawn_words, stream_words};

/// Prove that the client of a session lives, for another ttl
#[derive(Args)]
pub(super) struct Heartbeat {
    /// Its id
    #[arg(value_name = "SESSION")]
    session: String,
    /// Refuse unless this is its epoch
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<u64>,
}

/// Take a session that starts into use
#[derive(Args)]
pub(super) struct Activate {
    /// Its id
    #[arg(value_name = "SESSION")]
    session: String,
}

/// End a session as failed
///
/// One's own ends at once; at a terminal the session of another principal is shown first and the command asks.
#[derive(Args)]
pub(super) struct Fail {
    /// Its id
    #[arg(value_name = "SESSION")]
    session: String,
    /// Why, in words
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    consent: Consent,
}

/// End a session; its slots come free
///
/// One's own ends at once; at a terminal the session of another principal is shown first and the command asks. The
/// principal that started a session gives it back; an operator withdraws it: its slots come free once its client
/// confirms, at the latest when its ttl is over.
#[derive(Args)]
pub(super) struct Stop {
    /// Its id
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    consent: Consent,
}

impl Heartbeat {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let renewed =
            daemon.client().heartbeat_stream(&self.session, self.epoch).await.map_err(call_failure)?;
        match printer.json() {
            true => print_object(printer, &renewed),
            false => stream_renewed_page(&renewed).print(printer),
        }
    }
}

impl Activate {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let stream = daemon.client().activate_stream(&self.session).await.map_err(call_failure)?;
        print_stream(printer, &stream)
    }
}

impl Fail {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        ask_about(&self.session, &self.consent, "end it as failed?", daemon, printer).await?;
        let failed = daemon.client().fail_stream(&self.session, &self.reason).await;
        print_stream(printer, &failed.map_err(call_failure)?)
    }
}

impl Stop {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        ask_about(&self.session, &self.consent, "end it?", daemon, printer).await?;
        let stopped = daemon.client().stop_stream(&self.session).await.map_err(call_failure)?;
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
    let stream = daemon.client().stream(session).await.map_err(call_failure)?;
    if stream.state.is_terminal() || stream.own == Some(true) {
        return Ok(());
    }
    consent.obtain(printer, &[stream_words(&stream)], question)
}
