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

/// Poll targets from several machines, each target by exactly one poller
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Poll {
    #[command(subcommand)]
    command: Option<PollCommand>,
}

const EXAMPLE: &str = "Without a command: tenure poll groups

Examples:
  tenure poll run --targets sites.txt --every 5s -- curl -sS -m 3 {target}
  tenure poll pollers
  tenure poll targets --unowned";

#[derive(Subcommand)]
enum PollCommand {
    Run(run::Run),
    Groups(look::Groups),
    #[command(alias = "nodes")]
    Pollers(look::Pollers),
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
            PollCommand::Pollers(pollers) => pollers.run(reach, printer),
            PollCommand::Targets(targets) => targets.run(reach, printer),
            PollCommand::Move(order) => order.run(reach, printer),
            PollCommand::Cordon(cordon) => cordon.run(reach, printer),
            PollCommand::Uncordon(uncordon) => uncordon.run(reach, printer),
        }
    }
}
