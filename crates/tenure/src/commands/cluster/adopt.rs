//! `tenure cluster adopt`: goes on after etcd was restored from a backup, or lost part of what it had acknowledged.
//!
//! Old ownership cannot rise again: every live lease ends, ids and fences go on above all that were ever given, and nothing
//! is granted until the longest promise that may have been forgotten has run out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tenure_cluster::moving::{self, Adopted};
use tenure_cluster::store::Store;
use tenure_cluster::values::{Head, Meta, Node, decode};
use tenure_cluster::{BootOptions, Remembered, copy_whole, recall};
use tenure_engine::host::read_clocks;
use tenure_history::LogTag;
use tenure_kernel::codec::FORMAT;
use tenure_log::{LogEnd, LogReader, Lsn, Mirror};

use super::store::{Opened, disk, failed, genesis, log_options, moment, open, pause, state_of};
use crate::config::store_address;
use crate::confirm::Consent;
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Recover a cluster after etcd was restored from a backup
///
/// Required after every restore: nodes do not serve until then. Stop all nodes first. Name the data directories of as
/// many nodes as possible: records that a node has and etcd has lost are recovered from them. The command revokes every
/// live lease (reason `restored`), and the cluster grants nothing until the longest known TTL has passed: 24 h if the data
/// of a node is missing, or --longest-ttl. `tenure why` still shows the history of old lease IDs.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Adopt {
    /// Recover the log in this etcd: `etcd://HOST:PORT[,HOST:PORT]/PREFIX`
    #[arg(long, alias = "log", value_name = "URL")]
    store: String,
    /// Read this data directory of a node (repeatable)
    #[arg(long, value_name = "DIR")]
    data_dir: Vec<PathBuf>,
    /// Assume this longest TTL for lost leases; known leases keep their own [default: 24h if data is missing]
    #[arg(long, value_name = "DURATION")]
    longest_ttl: Option<Span>,
    #[command(flatten)]
    consent: Consent,
}

const EXAMPLE: &str = "Example:
  tenure cluster adopt --store etcd://10.0.0.9:2379/tenure --data-dir /var/lib/tenure";

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
        let address = store_address(&self.store).map_err(usage)?;
        let opened = open(&address)?;
        let stands = moving::require_idle(&opened.store, &opened.keys, &mut |time| pause(time))
            .map_err(|error| failed(&error))?;
        let mut memories = self.memories(&stands.meta)?;
        let nodes = nodes(&opened, &memories)?;
        for memory in &mut memories {
            if let Some(name) = nodes.get(&memory.remembered.memory) {
                memory.name.clone_from(name);
            }
        }
        let known: Vec<&Mirror> = memories.iter().map(|memory| &memory.copy).collect();
        let mut missing: Vec<&str> = nodes
            .iter()
            .filter(|(memory, _)| !memories.iter().any(|at_hand| at_hand.is_of(memory)))
            .map(|(_, name)| name.as_str())
            .collect();
        missing.sort_unstable();
        let is_all_known = !memories.is_empty() && missing.is_empty();
        let generation = memories.iter().map(|memory| memory.remembered.generation).max().unwrap_or(0);
        let generation = generation.max(stands.meta.generation);
        // The one that knows most; where it is not ahead, what the store has counts.
        let ahead = memories
            .iter()
            .filter(|memory| memory.copy.end().last_lsn.0 > stands.head.lsn)
            .max_by_key(|memory| (memory.remembered.generation, memory.copy.end().last_lsn));
        let scratch = tempfile::tempdir()?;
        let (state, end) = match ahead {
            Some(Memory { copy, .. }) => {
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
                    node: "",
                    memory: String::new(),
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
        let mut what = vec![
            format!(
                "log {old_tag} at {} continues as {new_tag}, generation {}",
                address.text(),
                generation + 1
            ),
            format!("etcd ends at lsn {}, the given local logs at {highest}", stands.head.lsn),
        ];
        for memory in &memories {
            let (name, end) = (&memory.name, memory.copy.end().last_lsn);
            what.push(format!("given: {name}, up to lsn {end}, in {}", memory.directory.display()));
        }
        match ahead {
            Some(memory) if continues(&memory.copy, &stands.head)? => what.push(format!(
                "records {} to {} are recovered from {}",
                stands.head.lsn + 1,
                memory.copy.end().last_lsn,
                memory.name
            )),
            Some(memory) => {
                what.push(format!("etcd and {} differ: records that only etcd has are LOST", memory.name))
            }
            None => {}
        }
        if !missing.is_empty() {
            what.push(format!(
                "missing: {}; records that only these nodes have are LOST",
                missing.join(", ")
            ));
        }
        what.push("every live lease ends, with the reason `restored`".to_owned());
        what.push(format!("the cluster grants nothing for {} s", longest_ttl_ms / 1_000));
        self.consent.obtain(printer, &what, "end every live lease and recover?")?;
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
            generation,
            wall_ms: read_clocks().wall_ms,
            format: FORMAT,
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
            "log {old_tag} continues as log {new_tag} from lsn {}, generation {}",
            meta.identity_since, meta.generation
        ))?;
        printer.talk("hint: start the nodes again");
        Ok(())
    }

    /// What nodes of this log remember.
    fn memories(&self, meta: &Meta) -> Result<Vec<Memory>, Failure> {
        let refused = |why: String| Failure::Refused(Words::new(why));
        let mut memories: Vec<Memory> = Vec::new();
        for directory in &self.data_dir {
            let shown = directory.display();
            let Some(remembered) = recall(directory).map_err(|error| failed(&error))? else {
                return Err(refused(format!("{shown} contains no log of a cluster")));
            };
            if remembered.log_id != meta.log_id {
                let (found, wanted) = (remembered.log_id, meta.log_id);
                return Err(refused(format!(
                    "{shown} is of another log ({found:016x}) than the one in etcd ({wanted:016x})"
                )));
            }
            if let Some(same) = memories.iter().find(|memory| memory.remembered.memory == remembered.memory) {
                let other = same.directory.display();
                return Err(refused(format!("{shown} and {other} are of one node")));
            }
            let of = tenure_log::CopyOf {
                identity: genesis().identity(),
                identity_since: Lsn(1),
                parent_log_id: 0,
                first_frame: 1,
                end: LogEnd::default(),
            };
            let (copy, _) =
                Mirror::open(disk(), directory, log_options(), &of).map_err(|error| failed(&error))?;
            let name = directory.file_name().map_or_else(String::new, |name| name.display().to_string());
            memories.push(Memory { directory: directory.clone(), name, remembered, copy });
        }
        Ok(memories)
    }
}

/// What one node remembers.
struct Memory {
    directory: PathBuf,
    /// The name of its node; the directory's name where no list has it.
    name: String,
    remembered: Remembered,
    copy: Mirror,
}

impl Memory {
    /// Whether it is this memory, or came in its place.
    fn is_of(&self, memory: &str) -> bool {
        self.remembered.memory == memory || self.remembered.former.iter().any(|former| former == memory)
    }
}

/// Memories that nodes have which joined and were not forgotten, and what those are called: by the store's list, and by
/// what others remember where the store has forgotten some.
fn nodes(opened: &Opened, memories: &[Memory]) -> Result<BTreeMap<String, String>, Failure> {
    let (from, to) = opened.keys.nodes();
    let ranged =
        opened.store.range(&from, &to, 1_000, Duration::from_secs(5)).map_err(|error| failed(&error))?;
    let mut nodes = BTreeMap::new();
    let mut forgotten = Vec::new();
    for found in &ranged.found {
        let name = found.key.strip_prefix(&from).unwrap_or(&found.key).to_owned();
        let Ok(node) = decode::<Node>("nodes", &found.value) else { continue };
        if node.is_forgotten {
            forgotten.push(name);
        } else {
            nodes.insert(node.memory, name);
        }
    }
    for (memory, peer) in memories.iter().flat_map(|memory| &memory.remembered.others) {
        if !forgotten.contains(&peer.node) {
            nodes.entry(memory.clone()).or_insert_with(|| peer.node.clone());
        }
    }
    Ok(nodes)
}

/// Whether a copy has the store's last frame, as far as it can still tell.
fn continues(copy: &Mirror, head: &Head) -> Result<bool, Failure> {
    let mut reader = copy.reader();
    while let Some(frame) = reader.next_frame().map_err(|error| failed(&error))? {
        if frame.header.last_lsn().0 == head.lsn {
            return Ok(LogEnd::after(&frame.header, false).checksum == head.chain);
        }
    }
    Ok(true)
}
