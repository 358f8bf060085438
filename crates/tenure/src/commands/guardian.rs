//! `tenure guardian`: the process between `tenure run` or `tenure poll run` and its commands, and the one beside a node that
//! resigns for it when it dies. Nobody calls it by hand.

use std::ffi::OsString;

use clap::Args;

use crate::connect::block_on;
use crate::daemon::guard_leader;
use crate::failure::{Failure, Words, chain};
use crate::poll::guard_polls;
use crate::run::{GuardianError, guard};

/// Guard the processes of tenure run, tenure poll run or a node; started by them
#[derive(Args)]
pub(crate) struct Guardian {
    /// Many polls instead of one run
    #[arg(long)]
    polls: bool,
    /// No command: resign for the node that started this when it dies
    #[arg(long)]
    leader: bool,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "leader", value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Guardian {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(async {
            let guarded = match (self.leader, self.polls) {
                (true, _) => guard_leader().await,
                (false, true) => guard_polls(self.command).await,
                (false, false) => guard(self.command).await,
            };
            guarded.map_err(|error| match error {
                GuardianError::NoSupervisor => {
                    Failure::Usage(Words::new(&error).hint("tenure run --resource NAME -- COMMAND"))
                }
                GuardianError::System(_) => Failure::Unexpected(Words::new(chain(&error))),
            })
        })
    }
}
