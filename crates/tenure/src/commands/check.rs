//! `tenure check`: the question a guarded store asks.

use clap::Args;
use tenure_api::{Check as CheckBody, CheckAnswer};

use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::check_page;

/// Check whether a fencing token or an epoch is current
///
/// Exits with 0 if it is current, with 1 if not.
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure check printer --fence 7\n  tenure check k3f9-4 --epoch 1")]
#[command(group = clap::ArgGroup::new("presented").required(true).args(["fence", "epoch"]))]
pub(crate) struct Check {
    /// Resource (with --fence) or lease ID (with --epoch)
    #[arg(value_name = "RESOURCE|LEASE")]
    subject: String,
    /// Check this fencing token of the resource
    #[arg(long, value_name = "FENCE")]
    fence: Option<u64>,
    /// Check this epoch of the lease
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<u64>,
}

impl Check {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (what, body) = match (self.fence, self.epoch) {
            (Some(fence), _) => ("fence", CheckBody::Fence { resource: self.subject, fence }),
            (None, epoch) => {
                let epoch = epoch.unwrap_or_default();
                ("epoch", CheckBody::Epoch { lease_id: self.subject, epoch })
            }
        };
        let value = daemon.post(route(&["check"]), &body).await?;
        let answer: CheckAnswer = read(value.clone())?;
        if printer.json() {
            printer.object(&value)?;
        } else {
            check_page(&answer).print(printer)?;
        }
        match answer.current {
            true => Ok(()),
            false => Err(Failure::Refused(Words::new(format_args!("this {what} is not current")))),
        }
    }
}
