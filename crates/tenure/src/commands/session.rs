//! `tenure session`: sessions of `/api/v3`, one lease each, usually over slots of a pool. In code they are streams.
//! Sessions that keep other leases alive are `tenure admin session`.

mod holder;
mod keeper;
mod list;
mod start;
mod watch;

use clap::{Args, Subcommand};
use serde::Serialize;
use tenure_api::SlotSession;

use crate::connect::{Daemon, Reach};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::stream_page;

/// Start, show and stop slot sessions: clients that hold slots of a pool
///
/// A slot session expires unless its client sends heartbeats; its slots are then free at once.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Session {
    #[command(subcommand)]
    command: SessionCommand,
}

const EXAMPLES: &str = "Examples:
  tenure session start --pool tuner --keep
  tenure session ls
  tenure session stop 94305303-1dc3-41b4-a150-bf26d0043d01";

#[derive(Subcommand)]
enum SessionCommand {
    Start(start::Start),
    Ls(list::List),
    Show(list::Show),
    Heartbeat(holder::Heartbeat),
    Activate(holder::Activate),
    Fail(holder::Fail),
    Stop(holder::Stop),
    Watch(watch::Watch),
}

impl Session {
    pub(crate) async fn run(
        self,
        reach: &Reach,
        daemon: &Daemon,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        match self.command {
            SessionCommand::Start(start) => start.run(reach, daemon, printer).await,
            SessionCommand::Ls(list) => list.run(daemon, printer).await,
            SessionCommand::Show(show) => show.run(daemon, printer).await,
            SessionCommand::Heartbeat(heartbeat) => heartbeat.run(daemon, printer).await,
            SessionCommand::Activate(activate) => activate.run(daemon, printer).await,
            SessionCommand::Fail(fail) => fail.run(daemon, printer).await,
            SessionCommand::Stop(stop) => stop.run(daemon, printer).await,
            SessionCommand::Watch(watch) => watch.run(reach, daemon, printer).await,
        }
    }
}

/// A session as an answer shows it.
fn print_stream(printer: &mut Printer, stream: &SlotSession) -> Result<(), Failure> {
    match printer.json() {
        true => print_object(printer, stream),
        false => stream_page(stream).print(printer),
    }
}

/// The API's own object.
fn print_object(printer: &mut Printer, object: &impl Serialize) -> Result<(), Failure> {
    let object = serde_json::to_value(object).map_err(|error| Failure::Unexpected(Words::new(error)))?;
    printer.object(&object)
}
