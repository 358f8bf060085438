//! What is decided but not yet durable: the frame being gathered, the one being synced, and everything that
//! may leave only once they are. At most one unsynced frame is in the log.

use crate::answer::{Answer, LeaseSnapshot, Push};
use crate::report::Report;
use crate::request::Ticket;
use crate::ticker::Now;
use tenure_kernel::codec::{encode_event, encode_note};
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{Event, LeaseId, Lsn, Names, Note, Policy, Reason, RecordKind, Stamp, Text, Tick};
use tenure_log::{Batch, BatchBuilder, BatchId, Moment, PAYLOAD_BYTES_MAX, RECORDS_PER_FRAME_MAX};

/// Something that leaves the engine.
#[derive(Clone, Debug)]
pub enum Out {
    /// The answer to a request.
    Answer(Ticket, Answer),
    /// Something said without being asked.
    Push(Push),
    /// The effect between revoke and reclaim is to be started.
    OpenGate(LeaseId),
    /// The effect after the end is to be started; the event at this position tells what ended.
    SendNotice {
        /// The ended lease.
        lease: LeaseId,
        /// Position of the event that ended it.
        ended_lsn: Lsn,
    },
    /// A lease ended; for the daemon's log.
    Ended(Box<Ending>),
    /// A lease of a face that keeps a book of who holds what was granted or changed.
    Followed(Box<Followed>),
    /// Something that operators should know.
    Report(Report),
}

/// A lease after a change.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The lease as the change left it.
    pub lease: LeaseSnapshot,
    /// Whether it was granted or given to a holder: its fence is of this position.
    pub changed_hands: bool,
    /// Position of the event.
    pub lsn: Lsn,
}

/// What the daemon's log says of an end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// The lease.
    pub lease: LeaseId,
    /// Who held it.
    pub holder: Text,
    /// What it covered.
    pub members: Names,
    /// Its terms.
    pub policy: Policy,
    /// The face's bytes.
    pub face_data: Vec<u8>,
    /// Why it ended.
    pub reason: Reason,
    /// Why, in words.
    pub text: Text,
    /// When, for people.
    pub wall_ms: u64,
    /// Position of the event.
    pub lsn: Lsn,
}

/// Room kept free so that one command's records always fit: an event, its session, its tick, its reclaim.
const RECORDS_SPARE: u32 = 8;
const BYTES_SPARE: usize = 96 << 10;
/// An end is a note, a revoke and a reclaim at most.
pub(crate) const RECORDS_PER_END: usize = 3;
/// An ending event repeats 64 names of 255 bytes, 4 KiB of face data and some texts: 22 KiB at most.
const BYTES_PER_END_MAX: usize = 24 << 10;
/// A frame of nothing but notes leaves after this long, or full.
pub(crate) const NOTES_WAIT_MS: u64 = 250;

pub(crate) struct Journal {
    gathering: Option<Gathering>,
    /// Last position of the frame that is being synced.
    in_flight: Option<Lsn>,
    next_lsn: Lsn,
    next_batch: BatchId,
    synced: Lsn,
    /// Rest on the frame in flight.
    after_flight: Vec<Out>,
    /// Rest on the frame being gathered.
    after_gathering: Vec<Out>,
    spent: Option<Batch>,
    scratch: Vec<u8>,
    /// Tick of the frame given out last.
    last_tick: Tick,
    /// The next frame is not given out yet.
    gathers_on: bool,
}

struct Gathering {
    builder: BatchBuilder,
    tick: Tick,
    since: Tick,
    /// Holds more than notes.
    pressing: bool,
}

impl Journal {
    pub(crate) fn new(next_lsn: Lsn, synced: Lsn, writer_epoch: u64, last_tick: Tick) -> Self {
        Self {
            gathering: None,
            in_flight: None,
            next_lsn,
            next_batch: BatchId::first(writer_epoch),
            synced,
            after_flight: Vec::new(),
            after_gathering: Vec::new(),
            spent: None,
            scratch: Vec::with_capacity(1024),
            last_tick,
            gathers_on: false,
        }
    }

    pub(crate) fn synced(&self) -> Lsn {
        self.synced
    }

    /// Newest position applied, durable or not.
    pub(crate) fn newest(&self) -> Lsn {
        Lsn(self.next_lsn.0 - 1)
    }

    /// How many more records may be gathered before the frame is full.
    pub(crate) fn room(&self) -> usize {
        match &self.gathering {
            None => (RECORDS_PER_FRAME_MAX - RECORDS_SPARE) as usize,
            Some(gathering) if gathering.builder.payload_bytes() + BYTES_SPARE > PAYLOAD_BYTES_MAX => 0,
            Some(gathering) => {
                (RECORDS_PER_FRAME_MAX - RECORDS_SPARE).saturating_sub(gathering.builder.count()) as usize
            }
        }
    }

    /// How many ends fit for certain, however much they repeat of their leases.
    pub(crate) fn room_for_ends(&self) -> usize {
        let bytes = self.gathering.as_ref().map_or(0, |gathering| gathering.builder.payload_bytes());
        let by_bytes = PAYLOAD_BYTES_MAX.saturating_sub(bytes) / BYTES_PER_END_MAX;
        by_bytes.min(self.room() / RECORDS_PER_END)
    }

    /// The newest tick that is in the log or on its way there.
    pub(crate) fn newest_tick(&self) -> Tick {
        self.gathering.as_ref().map_or(self.last_tick, |gathering| gathering.tick)
    }

    /// Where the next event would stand. Writes nothing: a refused command leaves no trace.
    pub(crate) fn peek(&self, tick: Tick) -> Stamp {
        let tick_record = self.gathering.as_ref().is_some_and(|gathering| gathering.tick < tick);
        Stamp { lsn: Lsn(self.next_lsn.0 + u64::from(tick_record)), tick }
    }

    /// Adds an event at the place that `peek` named, in no newer format than this one.
    pub(crate) fn record(&mut self, now: Now, tick: Tick, event: &Event, format: u32) -> Stamp {
        self.gather(now, tick);
        self.scratch.clear();
        encode_event(event, format, &mut self.scratch);
        let stamp = Stamp { lsn: self.next_lsn, tick };
        self.push(RecordKind::of_event(event), true);
        stamp
    }

    /// Adds a note if there is room; `None` if there is not.
    pub(crate) fn note(&mut self, now: Now, tick: Tick, note: &Note) -> Option<Lsn> {
        if self.room() == 0 {
            return None;
        }
        self.gather(now, tick);
        self.scratch.clear();
        encode_note(note, &mut self.scratch);
        let lsn = self.next_lsn;
        self.push(RecordKind::Note, false);
        Some(lsn)
    }

    /// Makes the present tick durable.
    pub(crate) fn mark_tick(&mut self, now: Now, tick: Tick) {
        let begins = self.gathering.is_none();
        self.gather(now, tick);
        if begins {
            self.push_tick(tick);
        }
        if let Some(gathering) = &mut self.gathering {
            gathering.pressing = true;
        }
    }

    /// Lets something leave as soon as everything up to `depends_on` is durable.
    pub(crate) fn emit(&mut self, depends_on: Lsn, out: Out, leaving: &mut Vec<Out>) {
        if depends_on <= self.synced || planted(Planted::AnswerBeforeSync) {
            leaving.push(out);
        } else if self.in_flight.is_some_and(|last| depends_on <= last) {
            self.after_flight.push(out);
        } else {
            self.after_gathering.push(out);
        }
    }

    /// Whether the next frame is gathered for a while longer.
    pub(crate) fn gather_on(&mut self, gathers_on: bool) {
        self.gathers_on = gathers_on;
    }

    /// The frame to append next, if it is time for one.
    pub(crate) fn take_frame(&mut self, tick: Tick) -> Option<Batch> {
        if self.in_flight.is_some() || self.gathers_on {
            return None;
        }
        let is_full = self.room_for_ends() == 0;
        let due = self.gathering.as_ref().is_some_and(|gathering| {
            gathering.pressing
                || is_full
                || !self.after_gathering.is_empty()
                || tick.ms_since(gathering.since) >= NOTES_WAIT_MS
        });
        if !due {
            return None;
        }
        let gathering = self.gathering.take()?;
        self.last_tick = gathering.tick;
        self.in_flight = Some(self.newest());
        assert!(self.after_flight.is_empty(), "invariant: at most one frame is in flight");
        core::mem::swap(&mut self.after_flight, &mut self.after_gathering);
        Some(gathering.builder.finish())
    }

    /// The frame in flight is durable: what rested on it leaves.
    pub(crate) fn committed(&mut self, leaving: &mut Vec<Out>) {
        let last = self.in_flight.take().expect("invariant: a frame was in flight");
        self.synced = last;
        leaving.append(&mut self.after_flight);
    }

    /// Memory of a frame that nobody needs any more.
    pub(crate) fn recycle(&mut self, batch: Batch) {
        self.spent = Some(batch);
    }

    /// When a frame of notes must leave. While one is in flight nothing can: its completion brings the next turn.
    pub(crate) fn notes_due(&self) -> Option<Tick> {
        if self.in_flight.is_some() {
            return None;
        }
        self.gathering.as_ref().map(|gathering| gathering.since.after_ms(NOTES_WAIT_MS))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.gathering.is_none()
    }

    /// A frame of another writer is in the log.
    pub(crate) fn copied(&mut self, next: Lsn, tick: Tick) {
        self.next_lsn = next;
        self.synced = Lsn(next.0 - 1);
        self.last_tick = self.last_tick.max(tick);
    }

    /// Takes out the answers that wait; the rest goes on waiting for what it rests on.
    pub(crate) fn take_answers(&mut self) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        for waiting in [&mut self.after_flight, &mut self.after_gathering] {
            waiting.retain(|out| match out {
                Out::Answer(ticket, _) => {
                    tickets.push(*ticket);
                    false
                }
                Out::Push(_)
                | Out::OpenGate(_)
                | Out::SendNotice { .. }
                | Out::Ended(_)
                | Out::Followed(_)
                | Out::Report(_) => true,
            });
        }
        tickets
    }

    /// Everything that will never leave, because the engine stops.
    pub(crate) fn abandon(&mut self) -> Vec<Out> {
        let mut outs = core::mem::take(&mut self.after_flight);
        outs.append(&mut self.after_gathering);
        outs
    }

    fn gather(&mut self, now: Now, tick: Tick) {
        match &mut self.gathering {
            None => {
                let at = Moment { tick: tick.0, wall_ms: now.wall_ms };
                let first = tenure_log::Lsn(self.next_lsn.0);
                let builder = match self.spent.take() {
                    Some(spent) => BatchBuilder::recycle(spent, self.next_batch, first, at),
                    None => BatchBuilder::new(self.next_batch, first, at),
                };
                self.next_batch = self.next_batch.next();
                self.gathering = Some(Gathering { builder, tick, since: tick, pressing: false });
            }
            Some(gathering) if gathering.tick < tick => {
                gathering.tick = tick;
                self.push_tick(tick);
            }
            Some(_) => {}
        }
    }

    fn push_tick(&mut self, tick: Tick) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&tick.0.to_le_bytes());
        self.push(RecordKind::Tick, false);
    }

    fn push(&mut self, kind: RecordKind, pressing: bool) {
        let gathering = self.gathering.as_mut().expect("invariant: a frame is being gathered");
        let lsn = gathering.builder.push(kind, &self.scratch).expect("invariant: room was kept");
        assert_eq!(lsn.0, self.next_lsn.0, "invariant: positions in a frame are dense");
        gathering.pressing |= pressing;
        self.next_lsn = self.next_lsn.next();
    }
}
