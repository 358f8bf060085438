//! `tenure cluster forget`: a node that will not come back is counted on no longer.

use clap::Args;
use tenure_api::{ForgetNode, NodeForgotten};

use super::{cluster, here};
use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::cluster_node_words;

/// Remove a permanently lost node from the cluster
///
/// Use it only for a node whose machine or data is lost: other nodes no longer wait for records that only this node has.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure cluster forget c")]
pub(super) struct Forget {
    /// Node name
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
            let words = Words::new(format_args!("the cluster has no node {}", self.node));
            return Err(Failure::Refused(words.hint("tenure cluster nodes lists the nodes")));
        };
        let question = "remove this node permanently?";
        self.consent.obtain(printer, &[cluster_node_words(Some(here()), node)], question)?;
        let body = ForgetNode { node: self.node };
        let answer = daemon.post(route(&["cluster", "forget"]), &body).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let NodeForgotten { forgotten } = read(answer)?;
        printer.line(format_args!("removed node {forgotten}"))
    }
}
