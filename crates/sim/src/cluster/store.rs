//! The simulated store: keys with all their earlier values, changed by one atomic step at a time. Linearizable, but for
//! steps that only read, which may be old. It knows nothing of networks; what it acknowledges it keeps.

use std::collections::BTreeMap;
use tenure_cluster::store::{Changed, Compare, KeyValue, Op, Ranged, Stepped, Txn};

/// What a key had, and from which revision on.
#[derive(Clone, Debug)]
struct Version {
    since: u64,
    value: Option<Vec<u8>>,
}

/// Every key, at every revision.
#[derive(Clone, Debug, Default)]
pub(super) struct SimStore {
    keys: BTreeMap<String, Vec<Version>>,
    revision: u64,
}

impl SimStore {
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        self.get_at(key, self.revision)
    }

    fn get_at(&self, key: &str, revision: u64) -> Option<&[u8]> {
        let versions = self.keys.get(key)?;
        versions.iter().rev().find(|version| version.since <= revision)?.value.as_deref()
    }

    /// Does a step. `behind`: how many revisions old the answer to one that only reads may be.
    pub(super) fn step(&mut self, txn: &Txn, behind: u64) -> (Stepped, Vec<Changed>) {
        let held = txn.compares.iter().all(|compare| match compare {
            Compare::Value { key, value } => self.get(key) == Some(value),
            Compare::Absent { key } => self.get(key).is_none(),
        });
        let ops = if held { &txn.then } else { &txn.otherwise };
        let writes = ops.iter().any(|op| !matches!(op, Op::Get { .. }));
        let at = if writes || !txn.compares.is_empty() {
            self.revision
        } else {
            self.revision.saturating_sub(behind).max(1)
        };
        if writes {
            self.revision += 1;
        }
        let (mut found, mut changed) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Get { key } if writes => found.push(self.get(key).map(<[u8]>::to_vec)),
                Op::Get { key } => found.push(self.get_at(key, at).map(<[u8]>::to_vec)),
                Op::Put { key, value } => self.put(key, Some(value.clone()), &mut changed),
                Op::Delete { from, to } => {
                    let present = self.keys.range(from.clone()..to.clone());
                    let present = present.filter(|(_, versions)| {
                        versions.last().is_some_and(|version| version.value.is_some())
                    });
                    let gone: Vec<String> = present.map(|(key, _)| key.clone()).collect();
                    gone.iter().for_each(|key| self.put(key, None, &mut changed));
                }
            }
        }
        let revision = if writes { self.revision } else { at };
        (Stepped { held, found, revision }, changed)
    }

    /// Keys from `from` up to, not including, `to`.
    pub(super) fn range(&self, from: &str, to: &str, limit: usize) -> Ranged {
        let mut found = self
            .keys
            .range(from.to_owned()..to.to_owned())
            .filter_map(|(key, versions)| {
                let last = versions.last()?;
                Some(KeyValue { key: key.clone(), value: last.value.clone()?, revision: last.since })
            })
            .take(limit + 1)
            .collect::<Vec<_>>();
        let more = found.len() > limit;
        found.truncate(limit);
        Ranged { found, more, revision: self.revision }
    }

    /// Every change from a revision on, in order.
    pub(super) fn changes_since(&self, since: u64) -> Vec<Changed> {
        let mut changes: Vec<Changed> =
            self.keys
                .iter()
                .flat_map(|(key, versions)| {
                    versions.iter().rev().take_while(|version| version.since >= since).map(|version| {
                        Changed { key: key.clone(), value: version.value.clone(), revision: version.since }
                    })
                })
                .collect();
        changes.sort_by_key(|changed| changed.revision);
        changes
    }

    fn put(&mut self, key: &str, value: Option<Vec<u8>>, changed: &mut Vec<Changed>) {
        changed.push(Changed { key: key.to_owned(), value: value.clone(), revision: self.revision });
        self.keys.entry(key.to_owned()).or_default().push(Version { since: self.revision, value });
    }
}
