//! `tenure cluster adopt`: goes on after etcd was restored from a backup, or lost part of what it had acknowledged.
//!
//! Old ownership cannot rise again: every live lease ends, ids and fences go on above all that were ever given, and nothing
//! is granted until the longest promise that may have been forgotten has run out.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tenure_cluster::moving::{self, Adopted};
use tenure_cluster::{BootOptions, copy_whole};
use tenure_engine::host::read_clocks;
use tenure_history::LogTag;
use tenure_log::{LogEnd, Lsn, Mirror};

use super::store::{disk, failed, genesis, log_options, moment, open, pause, state_of};
use crate::config::store_address;
use crate::confirm::Consent;
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Go on after etcd was restored from a backup
///
/// Required after every restore: nodes refuse to serve until then. Stop every node first, and name the data directories of
/// as many as can be reached from here: what one of them remembers and etcd has forgotten is kept. Every live lease is
/// revoked (reason `restored`), and nothing is granted until the longest ttl that is known has passed; 24 h if a node's
/// memory is missing, unless --longest-ttl says otherwise.
#[derive(Args)]
pub(super) struct Adopt {
    /// Where the log is: `etcd://HOST:PORT[,HOST:PORT]/PREFIX`
    #[arg(long, value_name = "URL")]
    log: String,
    /// The data directory of a node; may be given several times
    #[arg(long, value_name = "DIR")]
    data_dir: Vec<PathBuf>,
    /// Longest ttl that anybody may have been given; overrides what is known
    #[arg(long, value_name = "TIME")]
    longest_ttl: Option<Span>,
    #[command(flatten)]
    consent: Consent,
}

/// Longest ttl that is assumed where a node's memory is missing.
const ASSUMED_TTL_MS: u64 = 24 * 60 * 60 * 1_000;
/// Positions that are left out, so that nothing forgotten is ever named again.
const LEFT_OUT: u64 = 1 << 20;

impl Adopt {
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.consent.can_be_had()
    }

    pub(super) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let usage = |why: String| Failure::Usage(Words::new(why));
        let address = store_address(&self.log).map_err(usage)?;
        let opened = open(&address)?;
        let stands = moving::require_idle(&opened.store, &opened.keys, &mut |time| pause(time))
            .map_err(|error| failed(&error))?;
        let known = self.copies()?;
        let nodes = self.nodes(&opened)?;
        let is_all_known = !nodes.is_empty() && known.len() >= nodes.len();
        // The one that knows most; where it is not ahead, what the store has counts.
        let ahead = known
            .iter()
            .filter(|copy| copy.end().last_lsn.0 > stands.head.lsn)
            .max_by_key(|copy| copy.end().last_lsn);
        let scratch = tempfile::tempdir()?;
        let (state, end) = match ahead {
            Some(copy) => {
                let mut reader = copy.reader();
                (state_of(&copy.identity(), &copy.snapshots(), &mut reader)?, copy.end())
            }
            None => {
                let with = BootOptions {
                    store: &opened.store,
                    keys: &opened.keys,
                    disk: disk(),
                    root: scratch.path(),
                    options: log_options(),
                    secret: String::new(),
                    writer_ttl_ms: 0,
                };
                let (_, copy) = copy_whole(&with).map_err(|error| failed(&error))?;
                let mut reader = copy.reader();
                (state_of(&copy.identity(), &copy.snapshots(), &mut reader)?, copy.end())
            }
        };
        let highest = known.iter().map(|copy| copy.end().last_lsn.0).max().unwrap_or(0);
        let highest = highest.max(end.last_lsn.0).max(stands.head.lsn);
        let epoch = known.iter().map(|copy| copy.end().writer_epoch).max().unwrap_or(0);
        let epoch = epoch.max(stands.writer.epoch).max(end.writer_epoch);
        let old = stands.meta.identity();
        let identity = genesis().restored(&old, Lsn(highest));
        let longest_ttl_ms = match self.longest_ttl {
            Some(span) => span.ms(),
            None if is_all_known => state.longest_ttl_ms,
            None => state.longest_ttl_ms.max(ASSUMED_TTL_MS),
        };
        let (old_tag, new_tag) = (LogTag::of(&old).to_string(), LogTag::of(&identity).to_string());
        let what = [
            format!(
                "log {old_tag} at {} goes on as {new_tag}, generation {}",
                address.text(),
                stands.meta.generation + 1
            ),
            format!("etcd ends at lsn {}, the copies at hand at {highest}", stands.head.lsn),
            format!("{} of {} nodes' memories are at hand", known.len(), nodes.len()),
            format!("nothing is granted for {} s of the cluster's time", longest_ttl_ms / 1_000),
        ];
        self.consent.obtain(printer, &what, "end every live lease and go on?")?;
        let tick = state.tick.0.max(stands.head.tick).max(stands.writer.tick);
        let adopted = Adopted {
            identity,
            snapshot: &state.bytes,
            end: LogEnd {
                last_lsn: Lsn(highest + LEFT_OUT),
                writer_epoch: epoch,
                at: tenure_log::Moment { tick, ..moment(state.tick) },
                ..end
            },
            not_before_tick: tick + longest_ttl_ms,
            wall_ms: read_clocks().wall_ms,
        };
        let meta =
            moving::adopt(&opened.store, &opened.keys, &stands, &adopted).map_err(|error| failed(&error))?;
        if printer.json() {
            return printer.object(&json!({
                "old_tag": old_tag, "tag": new_tag, "generation": meta.generation,
                "since_lsn": meta.identity_since, "not_before_ms": longest_ttl_ms,
            }));
        }
        printer.line(format_args!(
            "log {old_tag} goes on as log {new_tag} from lsn {}, generation {}",
            meta.identity_since, meta.generation
        ))?;
        printer.talk("hint: start the nodes again");
        Ok(())
    }

    /// What nodes remember.
    fn copies(&self) -> Result<Vec<Mirror>, Failure> {
        let mut copies = Vec::new();
        for directory in &self.data_dir {
            let of = tenure_log::CopyOf {
                identity: genesis().identity(),
                identity_since: Lsn(1),
                parent_log_id: 0,
                first_frame: 1,
                end: LogEnd::default(),
            };
            if !directory.join("log").is_dir() {
                let words = Words::new(format!("there is no copy of a log in {}", directory.display()));
                return Err(Failure::Refused(words));
            }
            let (copy, _) =
                Mirror::open(disk(), directory, log_options(), &of).map_err(|error| failed(&error))?;
            copies.push(copy);
        }
        Ok(copies)
    }

    /// Nodes that have joined and were not forgotten.
    fn nodes(&self, opened: &super::store::Opened) -> Result<Vec<String>, Failure> {
        use tenure_cluster::store::Store;
        let (from, to) = opened.keys.nodes();
        let ranged = opened
            .store
            .range(&from, &to, 1_000, std::time::Duration::from_secs(5))
            .map_err(|error| failed(&error))?;
        Ok(ranged.found.into_iter().map(|found| found.key).collect())
    }
}
