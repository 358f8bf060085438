//! `tenure cluster forget`: a node that will not come back is counted on no longer.

use clap::Args;
use tenure_api::{ForgetNode, NodeForgotten};

use super::{cluster, here};
use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::cluster_node_words;

/// Take a node that will not come back out of the cluster
///
/// Only for a node whose machine or data is gone for good: what it alone remembers of the log is not asked for any more.
#[derive(Args)]
pub(super) struct Forget {
    /// Its name
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    consent: Consent,
}

impl Forget {
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.consent.can_be_had()
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let status = cluster(daemon).await?;
        let Some(node) = status.nodes.iter().find(|node| node.node == self.node) else {
            let words = Words::new(format_args!("no node is called {}", self.node));
            return Err(Failure::Refused(words.hint("tenure cluster nodes shows what there is")));
        };
        self.consent.obtain(printer, &[cluster_node_words(Some(here()), node)], "forget it for good?")?;
        let body = ForgetNode { node: self.node };
        let answer = daemon.post(route(&["cluster", "forget"]), &body).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let NodeForgotten { forgotten } = read(answer)?;
        printer.line(format_args!("{forgotten} is forgotten"))
    }
}
