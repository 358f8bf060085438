//! Ended leases that can still be read. Each keeps little more than where its ending event stands in the
//! log; they leave oldest first, by window, by cap, or because that event's segment is gone.

use crate::ids::{Epoch, Lsn, Tick};
use crate::limits::Retention;
use crate::policy::Face;
use crate::reason::Reason;
use crate::rejection::StateName;
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

#[derive(Clone, Debug, Default)]
pub(crate) struct Retained {
    queues: [Queue; Face::ALL.len()],
    len: usize,
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

/// A key is a face and the low bits of a sequence number; a queue is far shorter than they count.
const SEQUENCE_BITS: u32 = 29;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

impl Retained {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Remembers an ended lease; the key finds it again.
    pub(crate) fn push(&mut self, ended: EndedLease) -> u32 {
        let face = ended.face.index();
        let queue = &mut self.queues[face];
        let sequence = queue.base + queue.entries.len() as u64;
        queue.entries.push_back(ended);
        self.len += 1;
        (face as u32) << SEQUENCE_BITS | (sequence & SEQUENCE_MASK) as u32
    }

    /// The entry under a key, if it is still there and still that lease's.
    pub(crate) fn get(&self, key: u32, lsn: Lsn) -> Option<&EndedLease> {
        let queue = self.queues.get((key >> SEQUENCE_BITS) as usize)?;
        let index = (u64::from(key) & SEQUENCE_MASK).wrapping_sub(queue.base) & SEQUENCE_MASK;
        queue.entries.get(index as usize).filter(|ended| ended.lsn == lsn)
    }

    /// Whether something is still remembered under a key; asks no memory for it.
    pub(crate) fn holds(&self, key: u32) -> bool {
        self.queues.get((key >> SEQUENCE_BITS) as usize).is_some_and(|queue| {
            let index = (u64::from(key) & SEQUENCE_MASK).wrapping_sub(queue.base) & SEQUENCE_MASK;
            index < queue.entries.len() as u64
        })
    }

    pub(crate) fn is_retired(&self, ended: &EndedLease, now: Tick) -> bool {
        now > ended.retire_after || ended.ended_lsn < self.trimmed_below
    }

    /// Takes out one entry that is due; the caller takes it out of the register too.
    pub(crate) fn retire_one(&mut self, now: Tick, retention: &Retention) -> Option<EndedLease> {
        let over_cap = self.len as u64 > retention.leases_max;
        let mut oldest: Option<(Lsn, usize)> = None;
        for (face, queue) in self.queues.iter().enumerate() {
            let Some(front) = queue.entries.front() else { continue };
            let due =
                self.is_retired(front, now) || queue.entries.len() as u64 > retention.leases_per_face_max;
            if due {
                return self.pop(face);
            }
            if over_cap && oldest.is_none_or(|(lsn, _)| front.ended_lsn < lsn) {
                oldest = Some((front.ended_lsn, face));
            }
        }
        oldest.and_then(|(_, face)| self.pop(face))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &EndedLease> {
        self.queues.iter().flat_map(|queue| queue.entries.iter())
    }

    /// Entries of a face in order of their ends, from an end on.
    pub(crate) fn of(&self, face: Face, from: Lsn) -> impl Iterator<Item = &EndedLease> {
        let entries = &self.queues[face.index()].entries;
        entries.range(entries.partition_point(|ended| ended.ended_lsn < from)..)
    }

    /// Every entry with its key.
    pub(crate) fn keyed(&self) -> impl Iterator<Item = (Lsn, u32)> {
        self.queues.iter().enumerate().flat_map(|(face, queue)| {
            queue.entries.iter().enumerate().map(move |(index, ended)| {
                let sequence = (queue.base + index as u64) & SEQUENCE_MASK;
                (ended.lsn, (face as u32) << SEQUENCE_BITS | sequence as u32)
            })
        })
    }

    fn pop(&mut self, face: usize) -> Option<EndedLease> {
        let queue = &mut self.queues[face];
        let ended = queue.entries.pop_front()?;
        queue.base += 1;
        self.len -= 1;
        self.watermark = self.watermark.max(ended.lsn);
        Some(ended)
    }
}
