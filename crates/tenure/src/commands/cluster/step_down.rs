//! `tenure cluster step-down`: another node becomes the leader.

use clap::Args;
use serde_json::json;
use tenure_api::SteppedDown;

use super::{cluster, here};
use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::leader_words;

/// Ask the leader to step down, so that the nodes elect another
///
/// Holders keep their leases; requests during the election are answered a moment later. The command works on any node. The
/// former leader can be elected again.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure cluster step-down")]
pub(super) struct StepDown {
    #[command(flatten)]
    consent: Consent,
}

impl StepDown {
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.consent.can_be_had()
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let status = cluster(daemon).await?;
        let Some(leader) = &status.leader else {
            let words = Words::new("the cluster has no leader at present");
            return Err(Failure::Refused(
                words.hint("wait for the election; tenure cluster status shows it"),
            ));
        };
        let what = format!("the leader is {}", leader_words(Some(here()), leader));
        self.consent.obtain(printer, &[what], "ask it to step down?")?;
        let answer = daemon.post(route(&["cluster", "step-down"]), &json!({})).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let SteppedDown { node, epoch, .. } = read(answer)?;
        printer.line(format_args!("{node} stepped down as leader; its epoch was {epoch}"))
    }
}
