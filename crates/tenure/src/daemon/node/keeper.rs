//! What a node sees to beside its part: how the store is, who the nodes are, and that the store stays small while this
//! node writes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure_api::LeaderChangeKind;
use tenure_cluster::format::{PIECES, older_than};
use tenure_cluster::growth::{Compaction, Growth, QUOTA_BYTES, Tended, quota_for};
use tenure_cluster::pieces::{FORMER_BYTES_MAX, FORMER_UNPACKED_BYTES_MAX};
use tenure_cluster::store::{Op, Store};
use tenure_cluster::values::{Floor, Node as NodeValue, Standing, decode, encode};
use tenure_cluster::{Double, Heard, Listing, Told, fresh_progress, read_list, sync_copy};
use tenure_engine::host::read_clocks;
use tenure_kernel::codec::FORMAT;

use super::agreement::{Agreement, differing};
use super::shared::{NodeShared, Term};
use super::{BootError, InterlockError, NodeError, interlock, subnets};
use tokio::runtime::Handle as Runtime;

/// Ends the keeper when it goes out of scope.
pub(super) struct Tending {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// How often everything is looked at.
const EVERY: Duration = Duration::from_millis(500);
/// The same while this node has yet to find out whether it may claim.
const SOON: Duration = Duration::from_millis(50);
/// How often the store is surveyed.
const SURVEY_EVERY_MS: u64 = 5_000;
/// How often a node tells of itself.
const TELL_EVERY_MS: u64 = 10_000;
/// How long others may take to start before people are told that they are waited for.
const ASK_TELL_MS: u64 = 3_000;
/// Part of the quota above which only what frees something is taken.
const SHORT_PERCENT: u128 = 80;
const WITHIN: Duration = Duration::from_secs(2);

struct Keeper {
    shared: Arc<NodeShared>,
    runtime: Runtime,
    surveyed_ms: u64,
    told_ms: u64,
    told: Option<NodeValue>,
    /// This node's name on the list, which no other run may have.
    listing: Listing,
    growth: Option<(u64, Growth)>,
    /// Where the log begins, as it was read last.
    floor: Option<Floor>,
    agreement: Agreement,
    /// Whether the list was read since this node runs.
    is_list_read: bool,
    /// Listed nodes that keep snapshots in the former layout.
    older: Vec<String>,
    /// What lets a snapshot in that does not fit, as it was told last.
    too_large_told: Option<String>,
    /// Why the store could not be kept small, as it was told last.
    growth_told: Option<String>,
    /// Whom this node waits for, as it was told last.
    missing_told: Vec<String>,
    /// Since when it asks.
    asked_ms: u64,
    was_known: bool,
}

pub(super) fn start(shared: Arc<NodeShared>, runtime: &Runtime) -> Tending {
    let over = Arc::new((Mutex::new(false), Condvar::new()));
    let until = Arc::clone(&over);
    let listing = Listing::new(&shared.keys, &shared.name, &shared.incarnation);
    let mut keeper = Keeper {
        shared,
        runtime: runtime.clone(),
        surveyed_ms: 0,
        told_ms: 0,
        told: None,
        listing,
        growth: None,
        floor: None,
        agreement: Agreement::default(),
        is_list_read: false,
        older: Vec::new(),
        too_large_told: None,
        growth_told: None,
        missing_told: Vec::new(),
        asked_ms: read_clocks().boot_ms,
        was_known: false,
    };
    let thread = std::thread::Builder::new()
        .name("tenure-node-keeper".to_owned())
        .spawn(move || {
            let (over, word) = &*until;
            let mut is_over = over.lock().expect("invariant: nobody panics while holding it");
            while !*is_over {
                drop(is_over);
                keeper.look();
                let pause = if keeper.is_known() { EVERY } else { SOON };
                is_over = over.lock().expect("invariant: nobody panics while holding it");
                if !*is_over {
                    let waited = word.wait_timeout(is_over, pause);
                    is_over = waited.expect("invariant: nobody panics while holding it").0;
                }
            }
        })
        .expect("invariant: a thread can be started");
    Tending { over, thread: Some(thread) }
}

impl Drop for Tending {
    fn drop(&mut self) {
        if let Ok(mut over) = self.over.0.lock() {
            *over = true;
        }
        self.over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Keeper {
    fn look(&mut self) {
        let now_ms = read_clocks().boot_ms;
        self.note_changes();
        self.sync_copy();
        if now_ms >= self.surveyed_ms + SURVEY_EVERY_MS || self.surveyed_ms == 0 {
            self.surveyed_ms = now_ms;
            if let Ok(survey) = self.shared.store.survey(WITHIN) {
                self.shared.surveyed(survey);
            }
            self.read_floor();
            self.list_nodes();
        } else {
            if self.floor.is_none() {
                self.read_floor();
            }
            if !self.is_known() || !self.is_list_read {
                self.list_nodes();
            }
        }
        self.find_agreement();
        if self.shared.trust().is_doubtful() {
            self.compare();
        }
        let may_tell = !self.shared.trust().is_doubtful() || self.shared.trust().wants_listing();
        if may_tell {
            self.tell(now_ms);
        }
        let is_known = self.is_known();
        if is_known && !self.was_known {
            tracing::info!("verified the store against the other nodes: this node may lead");
            self.missing_told.clear();
        }
        self.was_known = is_known;
        match self.shared.term() {
            Some(term) => self.tend(&term),
            None => self.let_go(),
        }
    }

    /// A leader that found the store full follows; for as long as its claim stands it goes on to let go of what was trimmed.
    fn let_go(&mut self) {
        let Some((_, growth)) = &mut self.growth else { return };
        let (_, quota) = self.shared.store_size();
        let let_go = growth.let_go(&*self.shared.store, quota, self.shared.store_revision());
        if let Ok(Some(Tended::Fenced)) = let_go {
            self.growth = None;
        }
    }

    /// Frames are synced in the store before anybody hears of them; this machine's copy follows.
    fn sync_copy(&self) {
        let Some(mirror) = self.shared.mirror() else { return };
        if let Err(error) = sync_copy(&Arc::downgrade(&mirror)) {
            tracing::error!(error = %crate::failure::chain(&error), "cannot sync the local log");
        }
    }

    fn note_changes(&self) {
        let Some(writer) = self.shared.seen().writer.clone() else { return };
        let how = match writer.standing {
            Standing::Writes => LeaderChangeKind::Elected,
            Standing::Resigned | Standing::Moved { .. } | Standing::Restored { .. } => {
                LeaderChangeKind::Resigned
            }
        };
        self.shared.changed(&writer, how);
    }

    fn list_nodes(&mut self) {
        let Ok(list) = read_list(&*self.shared.store, &self.shared.keys, WITHIN) else {
            return self.shared.read_formats(None);
        };
        let own = list.iter().find(|listed| listed.name == self.shared.name);
        self.listing.read(own.map(|listed| &*listed.bytes));
        self.older = older_than(PIECES, list.iter().map(|listed| (&listed.name, listed.node.as_ref())));
        self.is_list_read = true;
        self.shared.read_formats(Some(&list));
        self.shared.listed(list);
    }

    fn read_floor(&mut self) {
        let key = self.shared.keys.floor();
        let Ok(ranged) = self.shared.store.range(&key, &format!("{key}\0"), 1, WITHIN) else { return };
        let found = ranged.found.first().and_then(|found| decode("floor", &found.value).ok());
        self.floor = found.or(self.floor);
    }

    /// Finds out whether this node has come to the same state as the leader, and which nodes have not.
    fn find_agreement(&mut self) {
        let (Some(floor), Some(mirror)) = (&self.floor, self.shared.mirror()) else { return };
        let nodes = self.shared.nodes();
        let memory = self.shared.trust().remembered().memory.clone();
        if let Some((_, told)) = nodes.iter().find(|(_, node)| node.memory == memory) {
            self.agreement.recall(told);
        }
        let Some(snapshots) = mirror.lock().ok().map(|mirror| mirror.snapshots()) else { return };
        let engine = self.shared.engine();
        self.agreement.look(floor, &snapshots, |lsn| {
            if let Some(engine) = engine.filter(|engine| engine.synced_lsn() >= lsn) {
                engine.take_snapshot_at(lsn);
            }
        });
        // The list has what this node reported before its restart.
        if self.is_list_read {
            self.shared.differ(differing(floor, &nodes), floor.snapshot_lsn);
        }
    }

    /// Whether this node knows what the store may have forgotten, and others know of it.
    fn is_known(&self) -> bool {
        let trust = self.shared.trust();
        !trust.is_doubtful() && !trust.wants_listing()
    }

    /// One that was not there all the time cannot tell whether the store has forgotten something; others can. Who is gone
    /// for good is forgotten by an operator.
    fn compare(&mut self) {
        let missing = self.shared.trust().missing();
        for (_, peer) in &missing {
            let passing = self.shared.passing();
            let Some(told) = self.runtime.block_on(passing.memory(&peer.url)) else { continue };
            if let Err(double) = self.listing.compare(&peer.url, &told) {
                return self.refuse(&told, double);
            }
            // As it is after that was told.
            let Ok(progress) = fresh_progress(&*self.shared.store, &self.shared.keys) else { return };
            let heard = self.shared.trust().heard(&told, &progress);
            match heard {
                Ok(Heard::Counts) => {}
                Ok(Heard::Own | Heard::Stranger) => {
                    tracing::debug!(node = peer.node, url = peer.url, "another node answers at this URL");
                }
                Err(forgot) => {
                    let source = BootError::Restored(forgot);
                    return self
                        .shared
                        .fail(NodeError::Boot { address: self.shared.address.clone(), source });
                }
            }
            if !self.shared.trust().is_doubtful() {
                break;
            }
        }
        if !self.shared.trust().is_doubtful() {
            return;
        }
        let missing = self.shared.trust().missing_nodes();
        if !missing.is_empty()
            && missing != self.missing_told
            && self.asked_ms + ASK_TELL_MS < read_clocks().boot_ms
        {
            tracing::warn!(
                nodes = missing.join(", "),
                "this node cannot become leader before a leader or all of these nodes have answered; remove a lost node with: tenure cluster forget"
            );
            self.missing_told = missing;
        }
    }

    fn tell(&mut self, now_ms: u64) {
        if !self.shared.is_store_checked.load(Ordering::SeqCst) && !self.check_store() {
            return;
        }
        let newest = self.shared.mirror().and_then(|mirror| mirror.lock().ok()?.snapshots().newest());
        let (found, newest_lsn) = (self.agreement.found(), newest.map_or(0, |header| header.lsn.0));
        let memory = self.shared.trust().remembered().memory.clone();
        let value = NodeValue {
            url: self.shared.url.clone(),
            incarnation: self.shared.incarnation.clone(),
            subnets: subnets(),
            snapshot_lsn: found.map_or(newest_lsn, |found| found.lsn),
            snapshot_hash: found.map_or(0, |found| found.hash),
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_ms: read_clocks().wall_ms,
            memory: memory.clone(),
            is_forgotten: false,
            forgotten: self.shared.trust().removed().to_vec(),
        };
        let is_news = self.told.as_ref().is_none_or(|told| {
            (&told.url, &told.subnets) != (&value.url, &value.subnets)
                || (told.snapshot_lsn, told.snapshot_hash) != (value.snapshot_lsn, value.snapshot_hash)
        }) || self.shared.trust().wants_listing();
        if self.shared.is_stopping() || (!is_news && now_ms < self.told_ms + TELL_EVERY_MS) {
            return;
        }
        // Before this node comes in the place of another.
        if let Some(url) = self.listing.asks() {
            let told = self.runtime.block_on(self.shared.passing().memory(&url));
            if let (Err(double), Some(told)) = (self.listing.answered(&url, told.as_ref()), told) {
                return self.refuse(&told, double);
            }
        }
        let nodes = self.shared.nodes().into_iter();
        // It was called that before.
        let former = nodes.filter(|(name, node)| *name != self.shared.name && node.memory == memory);
        let former = former.map(|(name, _)| self.shared.keys.node(&name));
        let former = former.map(|key| Op::Delete { to: format!("{key}\0"), from: key }).collect();
        let Some(txn) = self.listing.put(&value, former) else { return };
        let replaced = self.listing.there().filter(|node| !node.is_forgotten && node.memory != memory);
        if let Some(replaced) = replaced {
            self.shared.trust().replaces(&replaced.memory);
            if self.shared.remember().is_err() {
                return;
            }
        }
        let Ok(stepped) = self.shared.store.step(&txn, WITHIN) else { return };
        // Otherwise another run has put itself there meanwhile: it is asked with the next look.
        if !self.listing.stepped(&value, &stepped) {
            return;
        }
        self.told_ms = now_ms;
        self.told = Some(value);
        self.shared.trust().enlisted(read_clocks().boot_ms, stepped.revision);
    }

    /// Stops this node: another one has its name, and answers for its own memory.
    fn refuse(&self, told: &Told, double: Double) {
        self.shared.trust().lives(&told.remembered.memory);
        if let Err(error) = self.shared.remember() {
            tracing::warn!(%error, "cannot save the observed state of the store");
        }
        self.shared.fail(double.into());
    }

    /// Whether the store syncs what it acknowledges, which takes a few writes: nothing is written in doubt.
    fn check_store(&self) -> bool {
        match interlock::check_syncs(&self.shared.store, &self.shared.keys, WITHIN) {
            Ok(warnings) => {
                warnings.iter().for_each(|warning| tracing::warn!(%warning, "etcd needs attention"));
                self.shared.is_store_checked.store(true, Ordering::SeqCst);
                true
            }
            // It is asked again with the next look; that it is silent is told by who asks all the time.
            Err(InterlockError::Silent { .. } | InterlockError::Rejects { .. }) => false,
            Err(error) => {
                self.shared.fail(error.into());
                false
            }
        }
    }

    /// Keeps the store small while this node writes.
    fn tend(&mut self, term: &Term) {
        let (bytes, quota) = self.shared.store_size();
        let is_short = interlock::percent_of(bytes, quota).is_some_and(|percent| percent >= SHORT_PERCENT);
        term.is_short.store(is_short, Ordering::Relaxed);
        let Some(mirror) = self.shared.mirror() else { return };
        let is_new = self.growth.as_ref().is_none_or(|(epoch, _)| *epoch != term.writer.epoch);
        if is_new && self.begin_growth(term).is_err() {
            return;
        }
        let Some((_, growth)) = &mut self.growth else { return };
        if !self.shared.may_trim() {
            return;
        }
        growth.write_up_to(self.shared.format());
        growth.snapshots_are_of(FORMAT, self.agreement.begun_at());
        let compaction = growth.compaction();
        let tended = growth.tend(&*self.shared.store, &mirror, quota, self.shared.store_revision());
        if growth.compaction() != compaction {
            tell_of_foreign_keys();
        }
        match tended {
            Ok(Tended::SnapshotDue) => term.handle.take_snapshot(),
            Ok(Tended::Trimmed { floor }) => {
                self.growth_told = None;
                tracing::info!(frame = floor, "trimmed the store: deleted frames that a snapshot covers");
            }
            Ok(Tended::TooLarge { bytes, bytes_max }) => {
                let advice = room_for(bytes, quota, self.shared.format(), &self.older);
                self.tell_too_large(bytes, bytes_max, advice);
            }
            Ok(Tended::TooLong { bytes }) => {
                let bytes_max = FORMER_UNPACKED_BYTES_MAX;
                self.tell_too_large(bytes, bytes_max, upgrade_for(bytes_max, &self.older));
            }
            Ok(Tended::Quiet | Tended::Fenced) => {}
            Err(error) => {
                // Tried twice a second: what has been said once is known.
                let told = error.to_string();
                if self.growth_told.as_ref() != Some(&told) {
                    tracing::warn!(%error, "cannot trim the store; retrying");
                }
                self.growth_told = Some(told);
            }
        }
    }

    fn tell_too_large(&mut self, bytes: u64, bytes_max: u64, advice: String) {
        if self.too_large_told.as_ref() != Some(&advice) {
            tracing::warn!(
                bytes,
                bytes_max,
                advice,
                "the state does not fit into etcd, so no frame can be trimmed"
            );
        }
        self.too_large_told = Some(advice);
    }

    /// Finds out, once a term, where the log begins, and whether its leader compacts etcd.
    fn begin_growth(&mut self, term: &Term) -> Result<(), BootError> {
        let shared = &self.shared;
        let (keys, writer) = (shared.keys.clone(), encode(&term.writer));
        let growth = Growth::begin(&*shared.store, keys, writer, shared.compaction)?;
        match growth.compaction() {
            Compaction::WhileAlone => {
                tracing::info!("etcd has no keys outside the prefix: this leader compacts its history")
            }
            Compaction::Never if shared.compaction == Compaction::WhileAlone => tell_of_foreign_keys(),
            Compaction::Never | Compaction::Always => {}
        }
        self.growth = Some((term.writer.epoch, growth));
        Ok(())
    }
}

fn tell_of_foreign_keys() {
    tracing::warn!(
        "etcd has, or may have, keys outside the prefix: this leader does not compact its history; compact it, or set --etcd-compaction self"
    );
}

/// What lets a snapshot of more than `largest` bytes into etcd, which the nodes that keep the format `older` cannot read.
fn upgrade_for(largest: u64, older: &[String]) -> String {
    match older {
        [] => format!(
            "a listed node may read format 1 alone, for which a snapshot has at most {largest} bytes: wait until the nodes \
             can be listed"
        ),
        [..] => format!(
            "these nodes read format 1 alone, for which a snapshot has at most {largest} bytes: {}; upgrade them, or remove \
             those that are gone with: tenure cluster forget",
            older.join(", ")
        ),
    }
}

/// What lets a snapshot of so many packed bytes into etcd. `quota` is 0 where etcd does not report it, `format` what every
/// listed node reads, `older` the nodes that keep it before [`PIECES`].
fn room_for(bytes: u64, quota: u64, format: u32, older: &[String]) -> String {
    let wanted = quota_for(bytes);
    let mut steps = Vec::new();
    if format < PIECES && bytes > FORMER_BYTES_MAX {
        steps.push(upgrade_for(FORMER_BYTES_MAX, older));
    }
    if quota == 0 && QUOTA_BYTES < wanted {
        steps.push(format!(
            "etcd does not report its quota, and {QUOTA_BYTES} bytes are assumed: let this node read etcd's /metrics, and \
             see to a --quota-backend-bytes of at least {wanted}"
        ));
    } else if quota != 0 && quota < wanted {
        steps.push(format!("raise etcd's --quota-backend-bytes from {quota} to at least {wanted}"));
    }
    steps.join("; then ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn a_state_that_is_too_large_for_the_quota_needs_eight_times_its_bytes() {
        let advice = room_for(300 * MIB, 2 * GIB, PIECES, &[]);
        assert_eq!(advice, "raise etcd's --quota-backend-bytes from 2147483648 to at least 2516582400");
    }

    // It named a quota of sixteen times the bytes, which would not have helped.
    #[test]
    fn while_a_node_keeps_the_former_layout_no_quota_is_asked_for_and_the_node_is_named() {
        let older = ["b".to_owned(), "c".to_owned()];
        let advice = room_for(200 * MIB, 2 * GIB, 1, &older);
        assert!(advice.contains("at most 134217728 bytes: b, c; upgrade them"), "{advice}");
        assert!(!advice.contains("quota"), "{advice}");
        // Beyond an eighth of the quota too, both are due.
        let advice = room_for(300 * MIB, 2 * GIB, 1, &older);
        assert!(advice.contains(": b, c;") && advice.ends_with("to at least 2516582400"), "{advice}");
        // Small enough for that layout: the quota alone is in the way.
        let advice = room_for(100 * MIB, GIB / 2, 1, &older);
        assert_eq!(advice, "raise etcd's --quota-backend-bytes from 536870912 to at least 838860800");
        // Nothing was listed yet.
        assert!(room_for(200 * MIB, 2 * GIB, 1, &[]).contains("may read format 1 alone"));
    }

    // It said 0.
    #[test]
    fn where_etcd_does_not_report_its_quota_the_assumed_one_is_named() {
        let advice = room_for(300 * MIB, 0, PIECES, &[]);
        assert!(advice.contains("does not report its quota, and 2147483648 bytes are assumed"), "{advice}");
        assert!(advice.ends_with("--quota-backend-bytes of at least 2516582400"), "{advice}");
        let advice = room_for(200 * MIB, 0, 1, &["b".to_owned()]);
        assert!(!advice.contains("quota") && advice.contains(": b;"), "{advice}");
    }
}
