//! Watchers. The newest synced frames are kept in memory as they were written and decoded only when someone
//! watches; older ones are read from the log. A watcher says how much it can take; one that falls behind
//! what is kept in memory is told where to begin again.

use crate::answer::{News, Published, Push};
use crate::request::Ticket;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tenure_kernel::{Content, Lsn, RecordReader, Tick};
use tenure_log::{Batch, Moment, Record};

/// Frames in memory, by the bytes of their payload.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// A stretch of the log for one watcher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRead {
    /// For whom.
    pub watch: Ticket,
    /// First position wanted.
    pub from: Lsn,
    /// Last durable position; nothing after it may be read.
    pub upto: Lsn,
    /// About this many records; whole frames are read.
    pub limit: usize,
}

/// What came of a [`LogRead`].
#[derive(Clone, Debug)]
pub struct LogReadDone {
    /// For whom.
    pub watch: Ticket,
    /// In order.
    pub events: Vec<Arc<Published>>,
    /// Where to go on; below what is kept if `oldest` is set.
    pub next: Lsn,
    /// The wanted position is gone; this is the oldest that is kept.
    pub oldest: Option<Lsn>,
}

#[derive(Default)]
pub(crate) struct Hub {
    frames: VecDeque<Kept>,
    kept_bytes: usize,
    watches: BTreeMap<Ticket, Watch>,
}

struct Kept {
    batch: Batch,
    events: Option<Vec<Arc<Published>>>,
}

struct Watch {
    next: Lsn,
    room: usize,
    /// Still below what is in memory, by its own choice.
    catching_up: bool,
    reading: bool,
}

impl Hub {
    pub(crate) fn len(&self) -> usize {
        self.watches.len()
    }

    pub(crate) fn begin(&mut self, watch: Ticket, from: Lsn) {
        let catching_up = self.floor().is_none_or(|floor| from < floor);
        self.watches.insert(watch, Watch { next: from, room: 0, catching_up, reading: false });
    }

    pub(crate) fn end(&mut self, watch: Ticket) {
        self.watches.remove(&watch);
    }

    pub(crate) fn more(&mut self, watch: Ticket, room: usize) {
        if let Some(watch) = self.watches.get_mut(&watch) {
            watch.room = watch.room.saturating_add(room);
        }
    }

    /// Keeps a frame that is now durable. Gives back the memory of one that is kept no longer.
    pub(crate) fn keep(&mut self, batch: Batch, pushes: &mut Vec<Push>) -> Option<Batch> {
        self.kept_bytes += batch.payload().len();
        self.frames.push_back(Kept { batch, events: None });
        let mut spent = None;
        while self.kept_bytes > KEPT_BYTES_MAX && self.frames.len() > 1 {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.kept_bytes -= oldest.batch.payload().len();
            let gone_below = Lsn(oldest.batch.next_lsn().0);
            self.drop_laggards(gone_below, pushes);
            spent = Some(oldest.batch);
        }
        spent
    }

    /// Gives every watcher what it can take; what is not in memory is asked from the log.
    pub(crate) fn deliver(&mut self, synced: Lsn, pushes: &mut Vec<Push>, reads: &mut Vec<LogRead>) {
        let floor = self.floor();
        for (ticket, watch) in &mut self.watches {
            if watch.room == 0 || watch.reading || watch.next > synced {
                continue;
            }
            if floor.is_none_or(|floor| watch.next < floor) {
                watch.reading = true;
                watch.catching_up = true;
                reads.push(LogRead { watch: *ticket, from: watch.next, upto: synced, limit: watch.room });
                continue;
            }
            watch.catching_up = false;
            let events = take(&mut self.frames, watch);
            if !events.is_empty() {
                pushes.push(Push::Events { watch: *ticket, events });
            }
        }
    }

    /// Passes on what was read from the log.
    pub(crate) fn read_done(&mut self, done: LogReadDone, pushes: &mut Vec<Push>) {
        let Some(watch) = self.watches.get_mut(&done.watch) else { return };
        watch.reading = false;
        if let Some(oldest) = done.oldest {
            self.watches.remove(&done.watch);
            pushes.push(Push::WatchTrimmed { watch: done.watch, oldest });
            return;
        }
        watch.next = done.next;
        watch.room = watch.room.saturating_sub(done.events.len());
        if !done.events.is_empty() {
            pushes.push(Push::Events { watch: done.watch, events: done.events });
        }
    }

    fn floor(&self) -> Option<Lsn> {
        self.frames.front().map(|kept| Lsn(kept.batch.first_lsn().0))
    }

    fn drop_laggards(&mut self, gone_below: Lsn, pushes: &mut Vec<Push>) {
        self.watches.retain(|ticket, watch| {
            let lags = watch.next < gone_below && !watch.catching_up;
            if lags {
                pushes.push(Push::Lagged { watch: *ticket, resume: watch.next });
            }
            !lags
        });
    }
}

fn take(frames: &mut VecDeque<Kept>, watch: &mut Watch) -> Vec<Arc<Published>> {
    let first = frames.partition_point(|kept| Lsn(kept.batch.next_lsn().0) <= watch.next);
    let mut events = Vec::new();
    for kept in frames.range_mut(first..) {
        let decoded = kept.events.get_or_insert_with(|| publish(kept.batch.records(), kept.batch.at()));
        for event in decoded.iter().filter(|event| event.lsn >= watch.next) {
            if events.len() == watch.room {
                watch.next = event.lsn;
                watch.room = 0;
                return events;
            }
            events.push(Arc::clone(event));
        }
        watch.next = watch.next.max(Lsn(kept.batch.next_lsn().0));
    }
    watch.room -= events.len();
    events
}

/// Turns the records of one frame into what watchers see. Records they cannot see are left out.
pub fn publish<'a>(records: impl Iterator<Item = Record<'a>>, at: Moment) -> Vec<Arc<Published>> {
    let mut reader = RecordReader::new(Tick(at.tick));
    let mut published = Vec::new();
    for record in records {
        let news = match reader.read(record.kind, record.bytes) {
            Ok(Content::Event(event)) => News::Event(event),
            Ok(Content::Note(Some(note))) => News::Note(note),
            // A record that cannot be read has stopped this node when it was applied.
            Ok(Content::Note(None) | Content::Tick | Content::Close) | Err(_) => continue,
        };
        let wall_ms = at.wall_ms.saturating_add(reader.since_begun_ms());
        published.push(Arc::new(Published { lsn: Lsn(record.lsn.0), tick: reader.tick(), wall_ms, news }));
    }
    published
}
