//! `tenure status`: the daemon at a glance.

use clap::Args;
use tenure_api::Status as StatusView;

use crate::connect::{Daemon, read, route};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::status_page;

/// Show the status of the daemon
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure status\n  tenure status --json")]
pub(crate) struct Status {}

impl Status {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let answer = daemon.get(route(&["status"])).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let status: StatusView = read(answer)?;
        status_page(&status).print(printer)
    }
}
