//! `tenure guardian`: the process between `tenure run` or `tenure poll run` and its commands. Nobody calls it by hand.

use std::ffi::OsString;

use clap::Args;

use crate::connect::block_on;
use crate::failure::{Failure, Words, chain};
use crate::poll::guard_polls;
use crate::run::{GuardianError, guard};

/// Watch the command of a run or the commands of polls; started by tenure run and tenure poll run
#[derive(Args)]
pub(crate) struct Guardian {
    /// Many polls instead of one run
    #[arg(long)]
    polls: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Guardian {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(async {
            let guarded = match self.polls {
                true => guard_polls(self.command).await,
                false => guard(self.command).await,
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
