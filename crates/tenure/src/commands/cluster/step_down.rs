//! `tenure cluster step-down`: another node becomes the writer.

use clap::Args;
use serde_json::json;
use tenure_api::SteppedDown;

use super::{cluster, here};
use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::writer_words;

/// Have the writer give its place up to another node
///
/// Holders keep their leases, and whoever asks meanwhile is answered a moment later. Whichever node is asked, it is the
/// writer that steps down; it may become the writer again.
#[derive(Args)]
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
        let Some(writer) = &status.writer else {
            return Err(Failure::Refused(Words::new("nobody writes at present")));
        };
        let what = format!("the writer is {}", writer_words(Some(here()), writer));
        self.consent.obtain(printer, &[what], "have it step down?")?;
        let answer = daemon.post(route(&["cluster", "step-down"]), &json!({})).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let SteppedDown { node, epoch, .. } = read(answer)?;
        printer.line(format_args!("{node} is not the writer any more; its epoch was {epoch}"))
    }
}
