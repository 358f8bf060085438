//! What a node sees to beside its part: how the store is, who the nodes are, what this machine must remember, and that the
//! store stays small while this node writes.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure_api::ChangeOfWriter;
use tenure_cluster::growth::{Growth, Tended};
use tenure_cluster::store::{Op, Store, Txn};
use tenure_cluster::values::{Node as NodeValue, Standing, decode, encode};
use tenure_cluster::{Remembered, remember};
use tenure_engine::host::read_clocks;

use super::shared::{NodeShared, Term};
use super::subnets;
use tokio::runtime::Handle as Runtime;

/// Ends the keeper when it goes out of scope.
pub(super) struct Tending {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// How often everything is looked at.
const EVERY: Duration = Duration::from_millis(500);
/// How often the store is surveyed.
const SURVEY_EVERY_MS: u64 = 5_000;
/// How often a node tells of itself.
const TELL_EVERY_MS: u64 = 10_000;
/// How often this machine writes down what it has seen.
const REMEMBER_EVERY_MS: u64 = 2_000;
/// Part of the quota above which only what frees something is taken.
const SHORT_PERCENT: u64 = 80;
const WITHIN: Duration = Duration::from_secs(2);

struct Keeper {
    shared: Arc<NodeShared>,
    runtime: Runtime,
    /// Nodes that this one, remembering nothing, has compared with.
    compared: Vec<String>,
    data_dir: PathBuf,
    surveyed_ms: u64,
    told_ms: u64,
    told: Option<NodeValue>,
    remembered_ms: u64,
    remembered: Option<Remembered>,
    growth: Option<(u64, Growth)>,
    is_too_large_told: bool,
    /// Why the store could not be kept small, as it was told last.
    growth_told: Option<String>,
    is_stranger_told: bool,
}

pub(super) fn start(shared: Arc<NodeShared>, data_dir: PathBuf, runtime: &Runtime) -> Tending {
    let over = Arc::new((Mutex::new(false), Condvar::new()));
    let until = Arc::clone(&over);
    let mut keeper = Keeper {
        shared,
        runtime: runtime.clone(),
        compared: Vec::new(),
        data_dir,
        surveyed_ms: 0,
        told_ms: 0,
        told: None,
        remembered_ms: 0,
        remembered: None,
        growth: None,
        is_too_large_told: false,
        growth_told: None,
        is_stranger_told: false,
    };
    let thread = std::thread::Builder::new()
        .name("tenure-node-keeper".to_owned())
        .spawn(move || {
            let (over, word) = &*until;
            let mut is_over = over.lock().expect("invariant: nobody panics while holding it");
            while !*is_over {
                drop(is_over);
                keeper.look();
                is_over = over.lock().expect("invariant: nobody panics while holding it");
                if !*is_over {
                    let waited = word.wait_timeout(is_over, EVERY);
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
            self.list_nodes();
        }
        self.tell(now_ms);
        if self.shared.is_stranger.load(Ordering::SeqCst) {
            self.compare();
        }
        if now_ms >= self.remembered_ms + REMEMBER_EVERY_MS {
            self.remembered_ms = now_ms;
            self.remember();
        }
        match self.shared.term() {
            Some(term) => self.tend(&term),
            None => self.growth = None,
        }
    }

    /// Frames are synced in the store before anybody hears of them; this machine's copy follows.
    fn sync_copy(&self) {
        let Some(mirror) = self.shared.mirror() else { return };
        // Nobody waits for the disk meanwhile.
        let due = mirror.lock().ok().and_then(|mirror| mirror.sync_apart());
        let Some(due) = due else { return };
        match due.sync() {
            Ok(()) => {
                if let Ok(mut mirror) = mirror.lock() {
                    mirror.synced_apart(&due);
                }
            }
            Err(error) => tracing::error!(%error, "this machine's copy of the log cannot be synced"),
        }
    }

    fn note_changes(&self) {
        let Some(writer) = self.shared.seen().writer.clone() else { return };
        let how = match writer.standing {
            Standing::Writes => ChangeOfWriter::Claimed,
            Standing::Resigned | Standing::Moved { .. } => ChangeOfWriter::Resigned,
        };
        self.shared.changed(&writer, how);
    }

    fn list_nodes(&self) {
        let (from, to) = self.shared.keys.nodes();
        let Ok(ranged) = self.shared.store.range(&from, &to, 1_000, WITHIN) else { return };
        let named = ranged.found.into_iter().filter_map(|found| {
            let name = found.key.strip_prefix(&from)?.to_owned();
            let value = decode::<NodeValue>("nodes", &found.value).ok()?;
            Some((name, value))
        });
        self.shared.listed(named.filter(|(name, _)| !name.starts_with('@')).collect());
    }

    /// One that remembers nothing cannot tell whether the store has forgotten something; others can. Who is gone for good
    /// is forgotten by an operator.
    fn compare(&mut self) {
        self.list_nodes();
        let others = self.shared.others();
        let head = self.shared.seen().head;
        for (name, url) in &others {
            if self.compared.contains(name) {
                continue;
            }
            let passing = self.shared.passing();
            let Some(memory) = self.runtime.block_on(passing.memory(url)) else { continue };
            let same =
                (memory.log_id, memory.generation) == (self.shared.meta.log_id, self.shared.meta.generation);
            let is_known =
                memory.frame < head.frame || (memory.frame == head.frame && memory.chain == head.chain);
            if same && is_known {
                self.compared.push(name.clone());
            }
        }
        if others.iter().all(|(name, _)| self.compared.contains(name)) {
            self.shared.is_stranger.store(false, Ordering::SeqCst);
            tracing::info!("this node has compared with every other and may write");
        } else if !self.is_stranger_told {
            self.is_stranger_told = true;
            let missing: Vec<&str> = others
                .iter()
                .map(|(name, _)| name.as_str())
                .filter(|name| !self.compared.iter().any(|known| known == name))
                .collect();
            tracing::warn!(
                nodes = missing.join(", "),
                "this node remembers nothing and writes only once it has compared with these; one that is gone for good: tenure cluster forget"
            );
        }
    }

    fn tell(&mut self, now_ms: u64) {
        let snapshot = self.shared.mirror().and_then(|mirror| mirror.lock().ok()?.snapshots().newest());
        let value = NodeValue {
            url: self.shared.url.clone(),
            incarnation: self.shared.incarnation.clone(),
            subnets: subnets(),
            snapshot_lsn: snapshot.map_or(0, |header| header.lsn.0),
            snapshot_hash: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_ms: read_clocks().wall_ms,
        };
        let is_news = self.told.as_ref().is_none_or(|told| {
            (&told.url, &told.subnets, told.snapshot_lsn) != (&value.url, &value.subnets, value.snapshot_lsn)
        });
        if self.shared.is_stopping() || (!is_news && now_ms < self.told_ms + TELL_EVERY_MS) {
            return;
        }
        let put = Op::Put { key: self.shared.keys.node(&self.shared.name), value: encode(&value) };
        let txn = Txn { then: vec![put], ..Txn::default() };
        if self.shared.store.step(&txn, WITHIN).is_ok() {
            self.told_ms = now_ms;
            self.told = Some(value);
        }
    }

    fn remember(&mut self) {
        let seen = self.shared.seen().clone();
        let Some(writer) = seen.writer else { return };
        let now = Remembered {
            log_id: self.shared.meta.log_id,
            generation: self.shared.meta.generation,
            epoch: writer.epoch,
            revision: seen.revision,
        };
        if self.remembered.as_ref() == Some(&now) {
            return;
        }
        match remember(&self.data_dir, &now) {
            Ok(()) => self.remembered = Some(now),
            Err(error) => tracing::warn!(%error, "what was seen of the store could not be written down"),
        }
    }

    /// Keeps the store small while this node writes.
    fn tend(&mut self, term: &Term) {
        let (bytes, quota) = self.shared.store_size();
        term.is_short.store(quota > 0 && bytes * 100 >= quota * SHORT_PERCENT, Ordering::Relaxed);
        let Some(mirror) = self.shared.mirror() else { return };
        if self.growth.as_ref().is_none_or(|(epoch, _)| *epoch != term.writer.epoch) {
            let compacts = self.shared.compacts.unwrap_or_else(|| self.is_alone_in_store());
            let begun =
                Growth::begin(&*self.shared.store, self.shared.keys.clone(), encode(&term.writer), compacts);
            match begun {
                Ok(growth) => self.growth = Some((term.writer.epoch, growth)),
                Err(_) => return,
            }
        }
        let Some((_, growth)) = &mut self.growth else { return };
        match growth.tend(&*self.shared.store, &mirror, quota, self.shared.store_revision()) {
            Ok(Tended::SnapshotDue) => term.handle.take_snapshot(),
            Ok(Tended::Trimmed { floor }) => {
                self.growth_told = None;
                tracing::info!(frame = floor, "frames that a snapshot covers were let go");
            }
            Ok(Tended::TooLarge { bytes }) if !self.is_too_large_told => {
                self.is_too_large_told = true;
                tracing::warn!(bytes, "the snapshot is too large for the store: frames stay in etcd");
            }
            Ok(Tended::Quiet | Tended::Fenced | Tended::TooLarge { .. }) => {}
            Err(error) => {
                // Tried twice a second: what has been said once is known.
                let told = error.to_string();
                if self.growth_told.as_ref() != Some(&told) {
                    tracing::warn!(%error, "the store could not be kept small; it is tried again");
                }
                self.growth_told = Some(told);
            }
        }
    }

    /// Whether no key lies outside the prefix.
    fn is_alone_in_store(&self) -> bool {
        let (first, last) = self.shared.keys.all();
        let before = self.shared.store.range("\0", &first, 1, WITHIN);
        let after = self.shared.store.range(&last, "\u{10ffff}", 1, WITHIN);
        matches!((before, after), (Ok(before), Ok(after)) if before.found.is_empty() && after.found.is_empty())
    }
}
