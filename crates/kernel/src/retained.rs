//! Ended leases that can still be read. Each keeps little more than where its ending event stands in the
//! log; they leave oldest first, by window, by cap, or because that event's segment is gone.

use crate::ids::{Epoch, Lsn, Tick};
use crate::limits::{RETIRED_PER_EVENT_MAX, Retention};
use crate::policy::Face;
use crate::reason::Reason;
use crate::rejection::StateName;
use crate::tables::interner::Hashing;
use core::hash::BuildHasher;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// What is left of an ended lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedLease {
    /// Position of its grant.
    pub lsn: Lsn,
    /// Position of the event that ended it; that event tells the rest.
    pub ended_lsn: Lsn,
    /// Position from which the last holder's authority counted.
    pub authority_lsn: Lsn,
    /// Final epoch.
    pub epoch: Epoch,
    /// Readable up to and including this tick.
    pub retire_after: Tick,
    /// Released, expired or revoked.
    pub state: StateName,
    /// Why.
    pub reason: Reason,
    /// Whose quota it counts against.
    pub face: Face,
}

const _: () = assert!(size_of::<EndedLease>() <= 48);

#[derive(Clone, Debug)]
pub(crate) struct Retained {
    queues: [Queue; Face::ALL.len()],
    /// Packed (face, sequence) of each entry, by hash of its lsn.
    index: HashTable<u64>,
    hashing: Hashing,
    /// Highest lease ever retired.
    pub(crate) watermark: Lsn,
    /// Entries whose ending event stands below here are retired.
    pub(crate) trimmed_below: Lsn,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    entries: VecDeque<EndedLease>,
    /// Sequence number of the front entry.
    base: u64,
}

const FACE_SHIFT: u32 = 56;

impl Retained {
    pub(crate) fn new(hashing: Hashing) -> Self {
        Self {
            queues: Default::default(),
            index: HashTable::new(),
            hashing,
            watermark: Lsn(0),
            trimmed_below: Lsn(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn push(&mut self, ended: EndedLease) {
        let queue = &mut self.queues[ended.face.index()];
        let key = (ended.face.index() as u64) << FACE_SHIFT | (queue.base + queue.entries.len() as u64);
        queue.entries.push_back(ended);
        let hash = self.hashing.hash_one(ended.lsn);
        let (queues, hashing) = (&self.queues, &self.hashing);
        self.index.insert_unique(hash, key, |&key| hashing.hash_one(entry(queues, key).lsn));
    }

    /// The entry of a lease, whether or not it is still to be shown.
    pub(crate) fn find(&self, lsn: Lsn) -> Option<&EndedLease> {
        let hash = self.hashing.hash_one(lsn);
        let key = self.index.find(hash, |&key| entry(&self.queues, key).lsn == lsn)?;
        Some(entry(&self.queues, *key))
    }

    pub(crate) fn is_retired(&self, ended: &EndedLease, now: Tick) -> bool {
        now > ended.retire_after || ended.ended_lsn < self.trimmed_below
    }

    /// Physically retires what is due, at most a few; returns how many.
    pub(crate) fn retire(&mut self, now: Tick, retention: &Retention) -> usize {
        let mut retired = 0;
        while retired < RETIRED_PER_EVENT_MAX && self.retire_one(now, retention) {
            retired += 1;
        }
        retired
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &EndedLease> {
        self.queues.iter().flat_map(|queue| queue.entries.iter())
    }

    fn retire_one(&mut self, now: Tick, retention: &Retention) -> bool {
        let over_cap = self.len() as u64 > retention.leases_max;
        let mut oldest: Option<(Lsn, usize)> = None;
        for (face, queue) in self.queues.iter().enumerate() {
            let Some(front) = queue.entries.front() else { continue };
            let due =
                self.is_retired(front, now) || queue.entries.len() as u64 > retention.leases_per_face_max;
            if due {
                self.pop(face);
                return true;
            }
            if over_cap && oldest.is_none_or(|(lsn, _)| front.ended_lsn < lsn) {
                oldest = Some((front.ended_lsn, face));
            }
        }
        match oldest {
            Some((_, face)) => {
                self.pop(face);
                true
            }
            None => false,
        }
    }

    fn pop(&mut self, face: usize) {
        let queue = &mut self.queues[face];
        let ended = queue.entries.pop_front().expect("invariant: a due queue is not empty");
        let key = (face as u64) << FACE_SHIFT | queue.base;
        queue.base += 1;
        let hash = self.hashing.hash_one(ended.lsn);
        self.index
            .find_entry(hash, |&other| other == key)
            .expect("invariant: a retained lease is indexed")
            .remove();
        self.watermark = self.watermark.max(ended.lsn);
    }
}

fn entry(queues: &[Queue; Face::ALL.len()], key: u64) -> &EndedLease {
    let queue = &queues[(key >> FACE_SHIFT) as usize];
    &queue.entries[((key & ((1 << FACE_SHIFT) - 1)) - queue.base) as usize]
}
