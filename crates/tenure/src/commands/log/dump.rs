//! `tenure log dump`: every record as it stands.

use clap::{Args, ValueEnum};
use tenure_history::dump;
use tenure_kernel::Lsn;
use tenure_kernel::RecordKind;

use super::DataDirectory;
use super::record_json::record_object;
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Print the records of a log as NDJSON, oldest first
///
/// Prints one record per line. A record with a correct checksum that this version cannot decode is printed with its bytes
/// and the reason. If the log is damaged, the records before the damage are printed and the exit code is 3.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Dump {
    #[command(flatten)]
    directory: DataDirectory,
    /// Begin with this LSN
    #[arg(long, value_name = "LSN", default_value_t = 1)]
    from: u64,
    /// End with this LSN
    #[arg(long, value_name = "LSN")]
    to: Option<u64>,
    /// Print only records of this kind (repeatable)
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<Kind>,
}

const EXAMPLES: &str = "Examples:
  tenure log dump /var/lib/tenure
  tenure log dump /var/lib/tenure --from 1000 --kind event,note";

/// Kinds of records, as the command line names them.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A change of state
    Event,
    /// An observation without effect on the state
    Note,
    /// Settings that the rules use
    Config,
    /// Passage of time within a frame
    Tick,
    /// A clean stop of the daemon
    Close,
}

impl Kind {
    fn of(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Event => Self::Event,
            RecordKind::Note => Self::Note,
            RecordKind::Config => Self::Config,
            RecordKind::Tick => Self::Tick,
            RecordKind::Close => Self::Close,
        }
    }
}

impl Dump {
    pub(super) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let to = self.to.unwrap_or(u64::MAX);
        if self.from > to {
            let line = format!("--from {} is greater than --to {to}", self.from);
            return Err(Failure::Usage(
                Words::new(line).hint("both ends are included: --from 5 --to 7 is three records"),
            ));
        }
        let log = self.directory.open()?;
        self.directory.mention_writer(printer);
        let identity = log.identity();
        let records = dump(&log, Lsn(self.from)).map_err(|error| self.directory.unreadable(&error))?;
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    // Everything before the damage comes before the words about it.
                    printer.finish()?;
                    return Err(self.directory.unreadable(&error));
                }
            };
            if record.lsn.0 > to {
                break;
            }
            let is_wanted = record.kind.is_some_and(|kind| self.kind.contains(&Kind::of(kind)));
            if self.kind.is_empty() || is_wanted {
                printer.object(&record_object(&identity, &record))?;
            }
        }
        Ok(())
    }
}
