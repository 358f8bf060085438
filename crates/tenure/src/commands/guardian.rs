//! `tenure guardian`: the process between `tenure run` and its command. Nobody calls it by hand.

use std::ffi::OsString;

use clap::Args;

use crate::connect::block_on;
use crate::failure::{Failure, Words, chain};
use crate::run::{GuardianError, guard};

/// Watch the command of a run; started by tenure run
#[derive(Args)]
pub(crate) struct Guardian {
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Guardian {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(async {
            guard(self.command).await.map_err(|error| match error {
                GuardianError::NoSupervisor => {
                    Failure::Usage(Words::new(&error).hint("tenure run --resource NAME -- COMMAND"))
                }
                GuardianError::System(_) => Failure::Unexpected(Words::new(chain(&error))),
            })
        })
    }
}
