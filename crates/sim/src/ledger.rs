//! What the engine gave to the log, kept apart: every frame in order, and the state they come to. What a
//! start recovers is compared with it, byte for byte.

use tenure_engine::record_parts;
use tenure_kernel::codec::encode_state;
use tenure_kernel::{Event, Kernel, Lsn, RecordReader, Setup, Tick, apply_records};
use tenure_log::Batch;

/// One event as it stands in a frame.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) lsn: Lsn,
    pub(crate) tick: Tick,
    pub(crate) event: Event,
}

/// Positions skipped by one cut.
const GAP: u64 = tenure_log::RECORDS_PER_FRAME_MAX as u64;

/// What of the last frames a start found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Survivor {
    /// All that was durable.
    Durable,
    /// And the frame in flight too.
    Flight,
}

/// Frames since the log began, and the states before and after the one in flight.
#[derive(Clone)]
pub(crate) struct Ledger {
    setup: Setup,
    committed: Vec<Batch>,
    flight: Option<Batch>,
    /// After everything committed.
    pub(crate) durable: Kernel,
    /// After everything given out.
    pub(crate) applied: Kernel,
    /// Position of a close record.
    closed: Option<Lsn>,
    /// Position of a close record that may or may not be durable.
    closing: Option<Lsn>,
    /// Where the log went on when it was last opened: past the gap after a cut.
    opened: Lsn,
}

impl Ledger {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            committed: Vec::new(),
            flight: None,
            durable: Kernel::new(setup.clone()),
            applied: Kernel::new(setup.clone()),
            closed: None,
            closing: None,
            opened: Lsn(0),
            setup,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.committed.is_empty()
    }

    /// A frame was given out.
    pub(crate) fn give(&mut self, batch: &Batch) {
        apply(&mut self.applied, batch);
        self.flight = Some(batch.clone());
        self.closed = None;
    }

    /// The log said that the frame is durable.
    pub(crate) fn commit(&mut self) {
        if let Some(batch) = self.flight.take() {
            apply(&mut self.durable, &batch);
            self.committed.push(batch);
        }
    }

    /// A close record is on its way.
    pub(crate) fn closes(&mut self) {
        self.closing = Some(self.last().next());
    }

    pub(crate) fn closed_at(&mut self, lsn: Lsn) {
        self.closed = Some(lsn);
    }

    /// Last position known to be durable.
    pub(crate) fn last(&self) -> Lsn {
        self.closed.unwrap_or(self.written().max(self.opened))
    }

    /// Whether a log that ends here holds what is durable, and with it the frame in flight or not. Starts that
    /// were cut short may have skipped positions, a whole frame's at a time.
    pub(crate) fn ends_at(&self, found: Lsn) -> Option<Survivor> {
        let skipped = |from: Lsn| found >= from && (found.0 - from.0).is_multiple_of(GAP);
        if self.closing.is_some_and(skipped) {
            return Some(Survivor::Durable);
        }
        match self.last_in_flight() {
            Some(flight) if skipped(flight) => Some(Survivor::Flight),
            Some(_) | None if skipped(self.last()) => Some(Survivor::Durable),
            Some(_) | None => None,
        }
    }

    pub(crate) fn opened_at(&mut self, last: Lsn) {
        self.closing = None;
        self.closed = None;
        self.opened = last;
    }

    /// Last position of the frame that may or may not be durable.
    pub(crate) fn last_in_flight(&self) -> Option<Lsn> {
        self.flight.as_ref().map(last_of)
    }

    /// The frame in flight was lost.
    pub(crate) fn lose_flight(&mut self) {
        if self.flight.take().is_some() {
            self.applied = self.durable.clone();
        }
    }

    /// Whether a log that ends here lacks the last frame and nothing else.
    pub(crate) fn lacks_last(&self, found: Lsn) -> bool {
        let before = match self.committed.as_slice() {
            _ if self.closed.is_some() => self.written().max(self.opened),
            _ if self.opened > self.written() => self.written(),
            [.., before, _] => last_of(before).max(self.opened),
            [_] | [] => self.opened,
        };
        found >= before && (found < self.last() || (found.0 - before.0).is_multiple_of(GAP))
    }

    /// The last frame was lost: the one loss that cannot be told from a torn write. It may have been one without
    /// events, that closed the log or opened it.
    pub(crate) fn lose_last(&mut self) {
        if self.closed.is_none() && self.last() == self.written() {
            self.committed.pop();
        }
        self.closed = None;
        self.closing = None;
        self.replay(self.setup.clone());
    }

    fn written(&self) -> Lsn {
        self.committed.last().map_or(Lsn(0), last_of)
    }

    /// After everything committed up to here.
    pub(crate) fn state_at(&self, lsn: Lsn) -> Kernel {
        let mut kernel = Kernel::new(self.setup.clone());
        self.committed.iter().take_while(|batch| last_of(batch) <= lsn).for_each(|b| apply(&mut kernel, b));
        kernel
    }

    /// The same frames under a new identity.
    pub(crate) fn replay(&mut self, setup: Setup) {
        self.flight = None;
        self.durable = Kernel::new(setup.clone());
        self.committed.iter().for_each(|batch| apply(&mut self.durable, batch));
        self.applied = self.durable.clone();
        self.setup = setup;
    }

    /// Every committed event, oldest first.
    pub(crate) fn events(&self) -> impl Iterator<Item = Recorded> {
        self.committed.iter().flat_map(recorded)
    }
}

fn last_of(batch: &Batch) -> Lsn {
    Lsn(batch.next_lsn().0 - 1)
}

fn apply(kernel: &mut Kernel, batch: &Batch) {
    let mut tick = kernel.applied().tick;
    let applied =
        apply_records(kernel, &mut tick, Tick(batch.at().tick), record_parts(batch.records()), |_, _, _| {});
    applied.expect("invariant: what the engine wrote can be read");
}

/// The events of a frame, each with the tick of its turn.
pub(crate) fn recorded(batch: &Batch) -> Vec<Recorded> {
    let mut reader = RecordReader::new(Tick(batch.at().tick));
    let mut events = Vec::new();
    for record in batch.records() {
        let decided = reader.read_decided(record.kind, record.bytes);
        if let Some(event) = decided.expect("what the engine wrote can be read") {
            events.push(Recorded { lsn: Lsn(record.lsn.0), tick: reader.tick(), event });
        }
    }
    events
}

/// The tick of the last turn in a frame.
pub(crate) fn tick_after(batch: &Batch) -> Tick {
    let mut reader = RecordReader::new(Tick(batch.at().tick));
    for record in batch.records() {
        reader.read_decided(record.kind, record.bytes).expect("what the engine wrote can be read");
    }
    reader.tick()
}

/// A state as a snapshot would hold it.
pub(crate) fn state_bytes(kernel: &Kernel) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_state(kernel, &mut |part| bytes.extend_from_slice(part));
    bytes
}
