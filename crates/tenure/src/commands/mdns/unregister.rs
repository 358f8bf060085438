//! `tenure mdns unregister`: ends one's own registration by its id.

use clap::Args;
use tenure_api::{ErrorCode, UnregisterQuery, Unregistered};
use tenure_client::Method;

use super::advised;
use crate::commands::asking;
use crate::confirm::Consent;
use crate::connect::{Daemon, Reach, read, route};
use crate::failure::Failure;
use crate::printer::Printer;

/// End your own registration and send its goodbye packet
#[derive(Args)]
#[command(after_help = "Example:\n  tenure mdns unregister 94305303-1dc3-41b4-a150-bf26d0043d01")]
pub(crate) struct Unregister {
    /// Full registration ID
    #[arg(value_name = "ID")]
    id: String,
    /// Fail unless this is the epoch of the registration
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<u64>,
    #[command(flatten)]
    _consent: Consent,
}

impl Unregister {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        asking(reach, printer, async |daemon, p| self.ask(daemon, p).await)
    }

    async fn ask(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let route = route(&["mdns", "services", &self.id]).query(&UnregisterQuery { epoch: self.epoch });
        let answer =
            daemon.call(Method::DELETE, route, None::<&()>).await.map_err(|failure| match failure {
                Failure::Answered { error, words } if error.code == ErrorCode::Forbidden => {
                    let words = words.hint("tenure admin unregister ends any registration");
                    Failure::Answered { error, words }
                }
                other => advised(other),
            })?;
        if printer.json() {
            return printer.object(&answer);
        }
        let Unregistered { unregistered } = read(answer)?;
        printer.line(format_args!("unregistered {unregistered}"))
    }
}
