//! `tenure cluster migrate`: a log moves from one machine into a cluster, or back. The daemon, or every node, is stopped.
//!
//! Invariant: the source is ended for good before the target can be served. Run again after a crash it finishes.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tenure_api::ErrorCode;
use tenure_cluster::moving::{self, Beginning, MoveError};
use tenure_cluster::values::Standing;
use tenure_cluster::{BootOptions, copy_whole};
use tenure_engine::host::read_clocks;
use tenure_history::LogTag;
use tenure_log::{ARRIVING_MARKER, FileLog, MOVED_MARKER, OpenError, OrderedLog};

use super::steps::Steps;
use super::store::{disk, failed, log_options, open, pause, state_of, write_durably};
use crate::config::{EtcdAddress, store_address};
use crate::confirm::Consent;
use crate::daemon::make_private;
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Move a log from a data directory into etcd, or back
///
/// Stop the daemon, or all nodes, first. The target is a directory that is empty or missing, or an etcd prefix that has no
/// log or from which this log was moved away. Leases, lease IDs and fencing tokens continue. Afterwards no daemon starts on
/// the source: its error names the target. History before the move stays with the source. After a crash, repeat the command
/// to finish the move.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Migrate {
    /// Move from this data directory or `etcd://HOST:PORT[,HOST:PORT]/PREFIX`
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Move to this data directory or etcd URL
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    #[command(flatten)]
    consent: Consent,
}

const EXAMPLES: &str = "Examples:
  tenure cluster migrate --from /var/lib/tenure --to etcd://10.0.0.9:2379/tenure
  tenure cluster migrate --from etcd://10.0.0.9:2379/tenure --to /var/lib/tenure-back";

/// Why nothing was moved, and what helps.
fn not_imported(error: &MoveError, to: &EtcdAddress) -> Failure {
    let failure = failed(error);
    match error {
        MoveError::NotEmpty { .. } => failure.with_hint(format!(
            "choose another prefix; if that log is not needed, delete it with: etcdctl del --prefix {}/",
            to.prefix
        )),
        _ => failure,
    }
}

/// How long a step of a writer is good for until one claims.
const WRITER_TTL_MS: u64 = 3_000;

impl Migrate {
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.consent.can_be_had()
    }

    pub(super) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let usage = |text: &str| Failure::Usage(Words::new(text.to_owned()));
        let what = format!(
            "the log in {} moves to {}; afterwards no daemon can serve the source",
            self.from, self.to
        );
        match (self.from.contains("://"), self.to.contains("://")) {
            (false, true) => {
                let address = store_address(&self.to).map_err(|why| usage(&why))?;
                self.consent.obtain(printer, &[what], "move it?")?;
                into_cluster(Path::new(&self.from), &address, printer)
            }
            (true, false) => {
                let address = store_address(&self.from).map_err(|why| usage(&why))?;
                self.consent.obtain(printer, &[what], "move it?")?;
                out_of_cluster(&address, Path::new(&self.to), printer)
            }
            (true, true) | (false, false) => {
                Err(usage("give a data directory and an etcd://… URL, one to --from and the other to --to"))
            }
        }
    }
}

fn into_cluster(from: &Path, to: &EtcdAddress, printer: &mut Printer) -> Result<(), Failure> {
    let opened = open(to)?;
    let steps = Steps::over(&opened.store);
    if !from.join("log").is_dir() {
        return Err(Failure::Refused(Words::new(format!("{} contains no log", from.display()))));
    }
    let identity = match FileLog::open(disk(), from, log_options()) {
        Ok((mut log, recovery)) => {
            let snapshots = log.snapshots();
            let mut reader = log.reader();
            let state = state_of(&log.identity(), &snapshots, &mut reader)?;
            let end = log.end();
            let mut random = [0; 16];
            getrandom::fill(&mut random).expect("invariant: the system gives random bytes");
            let beginning = Beginning {
                identity: log.identity(),
                identity_since: recovery.identity_since,
                parent_log_id: 0,
                end: tenure_log::LogEnd {
                    at: tenure_log::Moment { tick: end.at.tick.max(state.tick.0), wall_ms: end.at.wall_ms },
                    ..end
                },
                snapshot: &state.bytes,
                secret: format!("{:032x}", u128::from_le_bytes(random)),
                writer_ttl_ms: WRITER_TTL_MS,
                wall_ms: read_clocks().wall_ms,
            };
            moving::import(&steps, &opened.keys, &beginning).map_err(|error| not_imported(&error, to))?;
            let at = tenure_log::Moment { tick: state.tick.0, wall_ms: read_clocks().wall_ms };
            // The source is ended for good before anybody can serve the target.
            write_durably(from, MOVED_MARKER, &to.text())?;
            steps.done();
            let _ = log.close(at);
            steps.done();
            log.identity()
        }
        Err(OpenError::Moved { to: where_to, .. }) if where_to == to.text() => {
            let stands = moving::standings(&steps, &opened.keys).map_err(|error| failed(&error))?;
            stands.meta.identity()
        }
        Err(error) => return Err(failed(&error)),
    };
    moving::activate(&steps, &opened.keys).map_err(|error| failed(&error))?;
    said(printer, &identity, &from.display().to_string(), &to.text())?;
    let next = ErrorCode::NotClustered.fix().replace("etcd://HOST:PORT/PREFIX", &to.text());
    printer.talk(format_args!("hint: {next}"));
    Ok(())
}

fn out_of_cluster(from: &EtcdAddress, to: &Path, printer: &mut Printer) -> Result<(), Failure> {
    let target = look_at(to, &from.text())?;
    let opened = open(from)?;
    let steps = Steps::over(&opened.store);
    let shown = absolute(to).display().to_string();
    if target == Target::Occupied {
        let stands = moving::standings(&steps, &opened.keys).map_err(|error| failed(&error))?;
        // Whoever asks again after the end hears the same; what is there may be served already and stays as it is.
        if stands.writer.standing != (Standing::Moved { to: shown.clone() }) {
            return Err(not_empty(to));
        }
        return said(printer, &stands.meta.identity(), &from.text(), &shown);
    }
    let stands = moving::require_idle(&steps, &opened.keys, &mut |time| pause(time)).map_err(served)?;
    make_private(to)?;
    steps.done();
    write_durably(to, ARRIVING_MARKER, &from.text())?;
    steps.done();
    moving::give_away(&steps, &opened.keys, &stands, &shown).map_err(|error| failed(&error))?;
    let with = BootOptions {
        store: &steps,
        keys: &opened.keys,
        disk: disk(),
        root: to,
        options: log_options(),
        secret: String::new(),
        writer_ttl_ms: WRITER_TTL_MS,
        node: "",
        memory: String::new(),
    };
    let (meta, mirror) = copy_whole(&with).map_err(|error| failed(&error))?;
    steps.done();
    mirror.become_log().map_err(|error| failed(&error))?;
    steps.done();
    for name in ["log.aside", "snapshots.aside"] {
        let _ = std::fs::remove_dir_all(to.join(name));
        steps.done();
    }
    std::fs::remove_file(to.join(ARRIVING_MARKER))?;
    std::fs::File::open(to)?.sync_all()?;
    steps.done();
    said(printer, &meta.identity(), &from.text(), &shown)?;
    printer.talk(format_args!("hint: start the daemon with: tenure serve --data-dir {}", to.display()));
    Ok(())
}

fn served(error: MoveError) -> Failure {
    failed(&error)
}

fn said(printer: &mut Printer, identity: &tenure_log::Identity, from: &str, to: &str) -> Result<(), Failure> {
    let tag = LogTag::of(identity).to_string();
    if printer.json() {
        return printer.object(&json!({"log": tag, "from": from, "to": to}));
    }
    printer.line(format_args!("log {tag} moved from {from} to {to}"))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The contents of a directory that a log is to be moved into.
#[derive(PartialEq, Eq)]
enum Target {
    /// Nothing, or what an earlier run of the same move has left.
    Free,
    /// Something else; a move that was finished, perhaps.
    Occupied,
}

fn look_at(directory: &Path, from: &str) -> Result<Target, Failure> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Ok(Target::Free) };
    if let Ok(source) = std::fs::read_to_string(directory.join(ARRIVING_MARKER)) {
        if source.trim() == from {
            return Ok(Target::Free);
        }
        let words =
            Words::new(format!("{} is the target of an unfinished move from {source}", directory.display()));
        return Err(Failure::Refused(words.hint("repeat that move to finish it")));
    }
    // A crash may leave a marker that was not put in its place yet.
    let unfinished = format!("{ARRIVING_MARKER}.part");
    let is_empty = entries.flatten().all(|entry| *entry.file_name() == *unfinished);
    Ok(if is_empty { Target::Free } else { Target::Occupied })
}

fn not_empty(directory: &Path) -> Failure {
    let words = Words::new(format!("{} is not empty", directory.display()));
    Failure::Refused(words.hint("name an empty or new directory"))
}
