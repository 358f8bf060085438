//! `tenure mdns resolve`: where one service is.

use clap::Args;
use tenure_api::{ResolveQuery, Resolved};

use super::advised;
use crate::commands::asking_or_alone;
use crate::connect::{Daemon, Reach, read, route};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::service_page;

/// Resolve one service to its host, port and addresses
#[derive(Args)]
#[command(after_help = "Example:\n  tenure mdns resolve \"My App._http._tcp.local\"")]
pub(crate) struct Resolve {
    /// Full instance name, like "My App._http._tcp.local"
    #[arg(value_name = "INSTANCE")]
    instance: String,
}

/// How long the daemon asks the network.
const WAIT_MS: u64 = 5_000;

impl Resolve {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        asking_or_alone(reach, printer, async |found, p| self.ask(&found.daemon, p).await)
    }

    async fn ask(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let query = ResolveQuery { name: self.instance };
        let route = route(&["mdns", "resolve"]).query(&query).waiting(WAIT_MS);
        let answer = daemon.get(route).await.map_err(advised)?;
        if printer.json() {
            return printer.object(&answer);
        }
        let Resolved { resolved } = read(answer)?;
        service_page(&resolved).print(printer)
    }
}
