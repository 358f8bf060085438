//! `tenure poll`: many pollers that share many targets. `run` is a poller whose polls are commands; the others look at a
//! group and steer it, in the daemon or in a Redis.

mod arguments;
mod follow;
mod look;
mod place;
mod polls;
mod run;
mod source;
mod steer;

use clap::{Args, Subcommand};

use crate::connect::Reach;
use crate::failure::Failure;
use crate::printer::Printer;

/// Share targets among pollers: each target is polled by exactly one
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Poll {
    #[command(subcommand)]
    command: Option<PollCommand>,
}

const EXAMPLE: &str = "tenure poll run --targets sites.txt --every 5s -- curl -sS -m 3 {target}
On as many machines as you like: they divide the targets among themselves, and what one leaves, others take.
Without a command: tenure poll groups";

#[derive(Subcommand)]
enum PollCommand {
    Run(run::Run),
    Groups(look::Groups),
    Nodes(look::Nodes),
    Targets(look::Targets),
    Move(steer::Move),
    Cordon(steer::Cordon),
    Uncordon(steer::Uncordon),
}

impl Poll {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        match self.command.unwrap_or_else(|| PollCommand::Groups(look::Groups::default())) {
            PollCommand::Run(run) => run.run(reach, printer),
            PollCommand::Groups(groups) => groups.run(reach, printer),
            PollCommand::Nodes(nodes) => nodes.run(reach, printer),
            PollCommand::Targets(targets) => targets.run(reach, printer),
            PollCommand::Move(order) => order.run(reach, printer),
            PollCommand::Cordon(cordon) => cordon.run(reach, printer),
            PollCommand::Uncordon(uncordon) => uncordon.run(reach, printer),
        }
    }
}
