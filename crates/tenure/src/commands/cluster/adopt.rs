//! `tenure cluster adopt`: goes on after etcd was restored from a backup, or lost part of what it had acknowledged.
//!
//! Old ownership cannot rise again: every live lease ends, ids and fences go on above all that were ever given, and nothing
//! is granted until the longest promise that may have been forgotten has run out. `tenure_cluster::adopt` decides all of it;
//! here are the questions and the answers.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tenure_cluster::adopt::{AtHand, Continued, Given, NotAdmitted, Survey, admit};
use tenure_cluster::moving;
use tenure_cluster::values::{Head, Meta};
use tenure_cluster::{self as cluster, BootOptions, Remembered, copy_whole};
use tenure_engine::host::read_clocks;
use tenure_history::{LogTag, duration};
use tenure_kernel::codec::FORMAT;
use tenure_log::{LogEnd, Lsn, Mirror};

use super::store::{disk, failed, genesis, log_options, open, pause, state_of};
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
/// of a node is missing, or --longest-ttl. `tenure why` still explains the end of these leases under their old IDs, and
/// names the directory with the history of leases that had ended before.
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
        let remains =
            moving::remains(&opened.store, &opened.keys, &stands).map_err(|error| failed(&error))?;
        let memories = self.memories(&stands.meta)?;
        let at_hand: Vec<AtHand> = memories.iter().map(Memory::at_hand).collect();
        let survey = Survey::of(&remains, &at_hand).map_err(|error| self.refused(error))?;
        let ahead = survey.continues().map(|which| &memories[which]);
        let scratch = tempfile::tempdir()?;
        let (state, end, frame) = match ahead {
            Some(Memory { copy, .. }) => {
                let mut reader = copy.reader();
                (state_of(&copy.identity(), &copy.snapshots(), &mut reader)?, copy.end(), copy.last_frame())
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
                (state_of(&copy.identity(), &copy.snapshots(), &mut reader)?, copy.end(), copy.last_frame())
            }
        };
        let has_store_end = match ahead {
            Some(memory) => continues(&memory.copy, &stands.head)?,
            None => true,
        };
        let continued =
            Continued { end, frame, tick: state.tick.0, longest_ttl_ms: state.longest_ttl_ms, has_store_end };
        let given = Given {
            genesis: genesis(),
            longest_ttl_ms: self.longest_ttl.map(|span| span.ms()),
            wall_ms: read_clocks().wall_ms,
        };
        let plan = survey.plan(&remains, &continued, &given);
        let old_tag = LogTag::of(&stands.meta.identity()).to_string();
        let new_tag = LogTag::of(&plan.meta.identity()).to_string();
        let highest = survey.highest();
        let mut what = vec![
            format!(
                "log {old_tag} at {} continues as {new_tag}, generation {}",
                address.text(),
                plan.meta.generation
            ),
            format!("etcd ends at lsn {}, the given local logs at {highest}", stands.head.lsn),
        ];
        for (memory, name) in memories.iter().zip(survey.names()) {
            let end = memory.copy.end().last_lsn;
            what.push(format!("given: {name}, up to lsn {end}, in {}", memory.directory.display()));
        }
        if let Some(which) = survey.continues() {
            let name = &survey.names()[which];
            what.push(if has_store_end {
                recovered(stands.head.lsn + 1, end.last_lsn.0, name)
            } else {
                format!("etcd and {name} differ: records that only etcd has are LOST")
            });
        }
        what.extend(losses(&survey, &continued));
        what.push("every live lease ends, with the reason `restored`".to_owned());
        let default = if self.longest_ttl.is_none() { ", unless --longest-ttl says otherwise" } else { "" };
        what.push(format!("the cluster grants nothing for {}{default}", duration(plan.wait_ms)));
        self.consent.obtain(printer, &what, "end every live lease and recover?")?;
        moving::adopt(&opened.store, &opened.keys, &stands, &plan, &state.bytes, FORMAT)
            .map_err(|error| failed(&error))?;
        for memory in &memories {
            let knows = plan.remembered(&memory.remembered);
            cluster::Memory::at(&memory.directory).write_down(|| knows).map_err(|error| failed(&error))?;
        }
        let meta = &plan.meta;
        if printer.json() {
            return printer.object(&json!({
                "old_tag": old_tag, "tag": new_tag, "generation": meta.generation,
                "since_lsn": meta.identity_since, "not_before_ms": plan.wait_ms,
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
        let mut memories: Vec<Memory> = Vec::new();
        for directory in &self.data_dir {
            let found = cluster::Memory::at(directory).recall().map_err(|error| failed(&error))?;
            let before: Vec<&Remembered> = memories.iter().map(|memory| &memory.remembered).collect();
            admit(meta, &before, found.as_ref())
                .map_err(|error| refusal(error, directory, &self.data_dir))?;
            let remembered = found.expect("invariant: what is admitted is there");
            let of = tenure_log::CopyOf {
                identity: genesis().identity(),
                identity_since: Lsn(1),
                parent_log_id: 0,
                first_frame: 1,
                end: LogEnd::default(),
            };
            let (copy, _) =
                Mirror::open(disk(), directory, log_options(), &of).map_err(|error| failed(&error))?;
            memories.push(Memory { directory: directory.clone(), remembered, copy });
        }
        Ok(memories)
    }

    fn refused(&self, error: NotAdmitted) -> Failure {
        let directory = match error {
            NotAdmitted::AnotherLocalLog { which, .. } => &self.data_dir[which],
            NotAdmitted::NoLog | NotAdmitted::AnotherLog { .. } | NotAdmitted::Twice { .. } => {
                unreachable!("each memory was admitted before its local log was opened")
            }
        };
        refusal(error, directory, &self.data_dir)
    }
}

/// What one node remembers.
struct Memory {
    directory: PathBuf,
    remembered: Remembered,
    copy: Mirror,
}

impl Memory {
    fn at_hand(&self) -> AtHand {
        AtHand {
            place: self.directory.file_name().map_or_else(String::new, |name| name.display().to_string()),
            remembered: self.remembered.clone(),
            identity: self.copy.identity(),
            frame: self.copy.last_frame(),
            end: self.copy.end(),
        }
    }
}

/// Which records etcd gets back.
fn recovered(first: u64, last: u64, name: &str) -> String {
    match first == last {
        true => format!("record {last} is recovered from {name}"),
        false => format!("records {first} to {last} are recovered from {name}"),
    }
}

/// What is lost, for the operator.
fn losses(survey: &Survey, continued: &Continued) -> Vec<String> {
    let mut losses = Vec::new();
    if let Some((frames, name)) = survey.lost_frames(continued) {
        let (first, last) = (frames.start(), frames.end());
        losses.push(format!("frames {first} to {last} of the log, which {name} has seen, are LOST"));
    }
    if !survey.missing().is_empty() {
        let missing = survey.missing().join(", ");
        losses.push(format!("missing: {missing}; records that only these nodes have are LOST"));
    }
    losses
}

/// Why a directory is not used, for the operator.
fn refusal(error: NotAdmitted, directory: &Path, all: &[PathBuf]) -> Failure {
    let shown = directory.display();
    Failure::Refused(Words::new(match error {
        NotAdmitted::NoLog => format!("{shown} contains no log of a cluster"),
        NotAdmitted::AnotherLog { found, wanted } => {
            format!("{shown} belongs to another log ({found:016x}) than the one in etcd ({wanted:016x})")
        }
        NotAdmitted::Twice { which } => format!("{shown} and {} are of one node", all[which].display()),
        NotAdmitted::AnotherLocalLog { found, wanted, .. } => {
            format!(
                "the local log in {shown} belongs to another log ({found:016x}) than the one in etcd ({wanted:016x})"
            )
        }
    }))
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
