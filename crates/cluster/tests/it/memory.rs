//! A store in memory: linearizable, never late. What `faulty.rs` does to its answers is what tests are about.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_cluster::store::{
    Changed, Compare, KeyValue, Op, Ranged, Stepped, Store, StoreError, Txn, WatchEnded, Watching,
};

#[derive(Default)]
pub(crate) struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    keys: BTreeMap<String, Vec<u8>>,
    revision: u64,
    changes: Vec<Changed>,
    watches: Vec<(String, String, Sender<Changed>)>,
}

struct MemoryWatch(Receiver<Changed>);

impl MemoryStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A backup: what is there now, under the same revision.
    pub(crate) fn copy(&self) -> Arc<Self> {
        let inner = self.inner.lock().unwrap();
        let copied = Inner { keys: inner.keys.clone(), revision: inner.revision, ..Inner::default() };
        Arc::new(Self { inner: Mutex::new(copied) })
    }
}

impl Inner {
    fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::Value { key, value } => self.keys.get(key) == Some(value),
            Compare::Absent { key } => !self.keys.contains_key(key),
        }
    }

    fn change(&mut self, key: String, value: Option<Vec<u8>>) {
        match &value {
            Some(value) => drop(self.keys.insert(key.clone(), value.clone())),
            None => drop(self.keys.remove(&key)),
        }
        let changed = Changed { key, value, revision: self.revision };
        self.watches.retain(|(from, to, line)| {
            let is_in = *changed.key >= **from && *changed.key < **to;
            !is_in || line.send(changed.clone()).is_ok()
        });
        self.changes.push(changed);
    }
}

impl Store for MemoryStore {
    fn step(&self, txn: &Txn, _: Duration) -> Result<Stepped, StoreError> {
        let mut inner = self.inner.lock().unwrap();
        let held = txn.compares.iter().all(|compare| inner.holds(compare));
        inner.revision += u64::from(txn.writes());
        let mut found = Vec::new();
        for op in if held { &txn.then } else { &txn.otherwise } {
            match op {
                Op::Put { key, value } => inner.change(key.clone(), Some(value.clone())),
                Op::Get { key } => found.push(inner.keys.get(key).cloned()),
                Op::Delete { from, to } => {
                    let gone: Vec<String> =
                        inner.keys.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
                    gone.into_iter().for_each(|key| inner.change(key, None));
                }
            }
        }
        Ok(Stepped { held, found, revision: inner.revision })
    }

    fn range(&self, from: &str, to: &str, limit: usize, _: Duration) -> Result<Ranged, StoreError> {
        let inner = self.inner.lock().unwrap();
        let mut all = inner.keys.range(from.to_owned()..to.to_owned());
        let found = all.by_ref().take(limit);
        let found = found.map(|(key, value)| {
            let last = inner.changes.iter().rfind(|changed| changed.key == *key);
            let revision = last.map_or(inner.revision, |changed| changed.revision);
            KeyValue { key: key.clone(), value: value.clone(), revision }
        });
        let found = found.collect();
        Ok(Ranged { found, more: all.next().is_some(), revision: inner.revision })
    }

    fn watch(&self, from: &str, to: &str, since: u64, _: Duration) -> Result<Box<dyn Watching>, StoreError> {
        let mut inner = self.inner.lock().unwrap();
        let (line, changes) = channel();
        for changed in inner.changes.iter().filter(|changed| since > 0 && changed.revision >= since) {
            if *changed.key >= *from && *changed.key < *to {
                line.send(changed.clone()).unwrap();
            }
        }
        inner.watches.push((from.to_owned(), to.to_owned(), line));
        Ok(Box::new(MemoryWatch(changes)))
    }

    fn compact(&self, _: u64, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Watching for MemoryWatch {
    fn next(&mut self, within: Duration) -> Result<Option<Changed>, WatchEnded> {
        match self.0.recv_timeout(within) {
            Ok(changed) => Ok(Some(changed)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(WatchEnded::Broken { why: "it is gone".to_owned() }),
        }
    }
}
