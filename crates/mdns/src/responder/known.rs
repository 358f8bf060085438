//! Known answers of the hosts whose questions wait (RFC 6762 §7.1, §7.2): one set for each host on a link, which all its
//! questions share. The sets of a link are bounded together. Past the bound nothing is added, and the host gets answers
//! that it has already.

use core::time::Duration;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::answering::RecordId;
use crate::clock::Instant;

#[derive(Debug, Default)]
pub(super) struct KnownAnswers {
    askers: HashMap<SocketAddr, Asker>,
    /// Hosts and records in all sets.
    entries: usize,
}

#[derive(Debug)]
struct Asker {
    asked_at: Instant,
    /// When each record was last listed as known.
    records: HashMap<RecordId, Instant>,
}

/// An entry takes about 100 bytes.
const ENTRIES_MAX: usize = 16_384;
/// Longer than a question waits on a link that takes packets.
const KEPT_FOR: Duration = Duration::from_secs(3);

impl KnownAnswers {
    /// A question of this host waits from now on. The host has these records.
    pub(super) fn ask(&mut self, now: Instant, asker: SocketAddr, records: &HashSet<RecordId>) {
        if let Some(known) = self.askers.get_mut(&asker) {
            known.asked_at = now;
        } else if self.entries < ENTRIES_MAX {
            self.entries += 1;
            self.askers.insert(asker, Asker { asked_at: now, records: HashMap::new() });
        }
        self.add(now, asker, records);
    }

    /// More known answers of a host. A host without a question that waits has none.
    pub(super) fn add(&mut self, now: Instant, asker: SocketAddr, records: &HashSet<RecordId>) {
        let Some(known) = self.askers.get_mut(&asker) else { return };
        for record in records {
            if let Some(at) = known.records.get_mut(record) {
                *at = now;
            } else if self.entries < ENTRIES_MAX {
                self.entries += 1;
                known.records.insert(record.clone(), now);
            }
        }
    }

    /// Whether the host has listed the record since then.
    pub(super) fn has(&self, asker: SocketAddr, since: Instant, record: &RecordId) -> bool {
        let listed_at = self.askers.get(&asker).and_then(|known| known.records.get(record));
        listed_at.is_some_and(|at| *at >= since)
    }

    /// Drops the sets of hosts whose questions have been answered.
    pub(super) fn forget_answered(&mut self, now: Instant) {
        self.askers.retain(|_, known| known.asked_at + KEPT_FOR > now);
        self.entries = self.askers.values().map(|known| 1 + known.records.len()).sum();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn len(&self) -> usize {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::responder::entry::Kind;

    fn asker(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 7], number))
    }

    fn records(entries: core::ops::Range<u64>) -> HashSet<RecordId> {
        entries.map(|entry| RecordId::Of(entry, Kind::Srv)).collect()
    }

    #[test]
    fn what_hosts_say_that_they_know_is_bounded_and_forgotten() {
        let (now, mut known) = (clock::now(), KnownAnswers::default());
        known.add(now, asker(1), &records(0..10));
        assert_eq!(known.len(), 0, "it has asked nothing");
        for number in 0..20 {
            known.ask(now, asker(number), &records(0..1_000));
        }
        assert_eq!(known.len(), ENTRIES_MAX);
        let has = |known: &KnownAnswers, number, since| {
            known.has(asker(number), since, &RecordId::Of(5, Kind::Srv))
        };
        assert!(has(&known, 0, now) && !has(&known, 19, now));
        let later = now + KEPT_FOR / 2;
        assert!(!has(&known, 0, later), "a question of later was asked without it");
        known.ask(later, asker(0), &records(0..10));
        assert!(has(&known, 0, later));
        known.forget_answered(now + KEPT_FOR);
        assert_eq!(known.len(), 1_001);
        known.ask(later, asker(19), &records(0..10));
        assert!(has(&known, 19, later), "there is room again");
    }
}
