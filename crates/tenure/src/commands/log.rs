//! `tenure log`: looks into the log of a data directory without a daemon. Reads only.

mod at;
mod dump;
mod record_json;
mod verify;
mod why;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use tenure_history::{ReplayError, rfc3339};
use tenure_log::{OfflineLog, ReadError, RealDisk, SharedDisk};

use crate::failure::{Failure, Words, chain};
use crate::printer::Printer;
use crate::writer::Writer;

/// Inspect the log in a data directory, without a daemon
///
/// Reads only and locks nothing, so it works on the directory of a running daemon too.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Log {
    #[command(subcommand)]
    command: LogCommand,
}

const EXAMPLES: &str = "Examples:
  tenure log verify /var/lib/tenure
  tenure log why /var/lib/tenure printer";

#[derive(Subcommand)]
enum LogCommand {
    Verify(verify::Verify),
    Dump(dump::Dump),
    At(at::At),
    Why(why::Why),
}

/// Where the log is.
#[derive(Args)]
struct DataDirectory {
    /// Data directory (with log/ and snapshots/), or the directory of log.archive
    #[arg(value_name = "DIR")]
    path: PathBuf,
}

impl Log {
    pub(crate) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            LogCommand::Verify(verify) => verify.run(printer),
            LogCommand::Dump(dump) => dump.run(printer),
            LogCommand::At(at) => at.run(printer),
            LogCommand::Why(why) => why.run(printer),
        }
    }
}

impl DataDirectory {
    fn disk() -> SharedDisk {
        Arc::new(RealDisk)
    }

    fn open(&self) -> Result<OfflineLog, Failure> {
        self.check()?;
        OfflineLog::open(Self::disk(), &self.path).map_err(|error| self.unreadable(&error))
    }

    /// Says who is writing the log, if somebody is.
    fn mention_writer(&self, printer: &mut Printer) -> Option<Writer> {
        let writer = Writer::of(&self.path);
        if let Some(writer) = &writer {
            printer.talk(format_args!(
                "note: pid {} has been writing this log since {}; its further records are not read",
                writer.pid,
                rfc3339(writer.since_wall_ms)
            ));
        }
        writer
    }

    /// The most likely mistake is another directory; it deserves its own words.
    fn check(&self) -> Result<(), Failure> {
        match self.path.metadata().map(|found| found.is_dir()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(self.wrong_directory("there is no directory"))
            }
            Err(error) => Err(self.wrong_directory(&format!("{error}:"))),
            Ok(false) => Err(self.wrong_directory("this is not a directory:")),
            Ok(true) if !self.holds_a_log() => Err(self.wrong_directory("there is no log in")),
            Ok(true) => Ok(()),
        }
    }

    fn holds_a_log(&self) -> bool {
        self.path.join("log").is_dir() || OfflineLog::is_archive(&RealDisk, &self.path)
    }

    fn wrong_directory(&self, what: &str) -> Failure {
        let hint = "name the data directory of a daemon: the one with log/ and snapshots/";
        Failure::Unexpected(Words::new(format_args!("{what} {}", self.path.display())).hint(hint))
    }

    fn unreadable(&self, error: &ReadError) -> Failure {
        let shown = self.path.display();
        match error {
            ReadError::Damaged(damage) => self.damaged(damage),
            ReadError::Trimmed { oldest } => Failure::Refused(
                Words::new(chain(error)).hint(format_args!("the oldest kept lsn is {oldest}")),
            ),
            ReadError::NoLog { .. } => self.wrong_directory("there is no log in"),
            ReadError::Io { .. } => {
                Failure::Unexpected(Words::new(format_args!("{}, in {shown}", chain(error))))
            }
        }
    }

    fn unreplayable(&self, error: &ReplayError) -> Failure {
        self.damaged(error)
    }

    fn damaged(&self, what: &dyn std::fmt::Display) -> Failure {
        let line = Words::new(format_args!("the log is damaged: {what}"));
        Failure::Unexpected(line.hint(format_args!("tenure log verify {}", self.path.display())))
    }
}

impl AsRef<Path> for DataDirectory {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}
