//! One claim's right to write, from the claim to whatever ends it. Pure: it makes the steps that are to be sent and judges
//! what came of them; clocks and stores are the caller's.
//!
//! Invariants: every step compares `writer` with this claim's value, so that a deposed writer changes nothing, and `head`
//! and `beat` with what this claim left there, so that it changes nothing in a store that was put back to an earlier
//! state of the same claim either. At most one frame is in flight, and it is sent again only as the same bytes at the
//! same number. Authority counts from the instant *before* a step was sent.

use tenure_log::{Batch, BatchId, LogEnd, Moment};

use crate::keys::Keys;
use crate::planted::{Planted, has};
use crate::store::{Compare, Op, Stepped, StoreError, Txn};
use crate::trust::{Progress, TOUCH_MS};
use crate::values::{Beat, Head, Standing, Writer, decode, encode};

/// A claim that may write until it is fenced, resigns or falls silent.
#[derive(Clone, Debug)]
pub struct Term {
    keys: Keys,
    salt: u32,
    writer: Writer,
    writer_bytes: Vec<u8>,
    head: Head,
    head_bytes: Vec<u8>,
    beats: u64,
    /// The proof of life that is known to be there.
    beat_bytes: Vec<u8>,
    /// Those sent since, of which nobody said what became. Each compares the one that was known.
    tried: Vec<Vec<u8>>,
    /// When the last step that counted was sent.
    proved_ms: u64,
    authority_until_ms: u64,
    flight: Option<Flight>,
    over: Option<Over>,
}

/// A frame that was sent and whose outcome is not known yet.
#[derive(Clone, Debug)]
struct Flight {
    bytes: Vec<u8>,
    batch: BatchId,
    head: Head,
    head_bytes: Vec<u8>,
}

/// Why a term is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Another claim stands.
    Fenced,
    /// It resigned.
    Resigned,
}

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the log, durably.
    Committed {
        /// Its bytes, for the copy on this machine.
        frame: Vec<u8>,
    },
    /// It is not in the log; the same frame may be sent again.
    Absent,
    /// Another claim stands, or this one resigned.
    Fenced,
    /// Not known: [`Term::look`].
    Unknown,
    /// The log holds what nobody can have written. The process stops.
    Corrupt {
        /// What is wrong.
        why: String,
    },
}

/// What became of a proof of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beaten {
    /// It counted.
    Held,
    /// Another claim stands, or this one resigned.
    Fenced,
    /// Not known; it does not count.
    Unknown,
}

/// What a claim won with.
#[derive(Clone, Debug)]
pub struct Won {
    /// The value that was put.
    pub writer: Writer,
    /// Its bytes.
    pub writer_bytes: Vec<u8>,
    /// The end of the log at that step, as bytes.
    pub head_bytes: Vec<u8>,
    /// The last proof of life at that step, as bytes.
    pub beat_bytes: Vec<u8>,
    /// The counter of the last proof of life of this claim.
    pub beats: u64,
    /// The instant before the step was sent.
    pub sent_ms: u64,
    /// The tick to go on from: none before it was ever told.
    pub tick: u64,
}

/// The step that resigns for a process that is dead, with what is known of its claim (record 0076).
///
/// How far its time had come is not known, and need not be: the next claim goes on from the newest tick of `writer`, `head`
/// and `beat`, as after a silence. An append or a proof of life that is still under way lands before this step, and the
/// next claim finds it, or compares `writer` in vain.
#[must_use]
pub fn resignation_of_dead(keys: &Keys, writer: &Writer, wall_ms: u64) -> Txn {
    let tick = if has(Planted::GuardianGuessesTick) { writer.tick + TOUCH_MS } else { writer.tick };
    resignation(keys, writer, tick, wall_ms)
}

fn resignation(keys: &Keys, writer: &Writer, tick: u64, wall_ms: u64) -> Txn {
    let resigned =
        Writer { standing: Standing::Resigned, tick: tick.max(writer.tick), wall_ms, ..writer.clone() };
    Txn {
        compares: vec![Compare::Value { key: keys.writer(), value: encode(writer) }],
        then: vec![Op::Put { key: keys.writer(), value: encode(&resigned) }],
        otherwise: Vec::new(),
    }
}

impl Term {
    /// Begins a term with what a claim won.
    ///
    /// # Errors
    /// When `head` cannot be understood.
    pub fn begin(keys: Keys, salt: u32, won: Won) -> Result<Self, crate::values::ValueError> {
        let head = decode("head", &won.head_bytes)?;
        let mut term = Self {
            keys,
            salt,
            writer: won.writer,
            writer_bytes: won.writer_bytes,
            head,
            head_bytes: won.head_bytes,
            beats: won.beats,
            beat_bytes: won.beat_bytes,
            tried: Vec::new(),
            proved_ms: won.sent_ms,
            authority_until_ms: 0,
            flight: None,
            over: None,
        };
        term.counts_from(won.sent_ms);
        Ok(term)
    }

    /// The value of this claim.
    #[must_use]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Where the log ends, as far as is known.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Until when answers may leave, in milliseconds of boot time.
    #[must_use]
    pub fn authority_until_ms(&self) -> u64 {
        match self.over {
            None => self.authority_until_ms,
            Some(Over::Resigned) if has(Planted::LateResign) => self.authority_until_ms,
            Some(Over::Fenced | Over::Resigned) => 0,
        }
    }

    /// How long a step is good for.
    #[must_use]
    pub fn ttl_ms(&self) -> u64 {
        self.writer.writer_ttl_ms
    }

    /// Whether and why it is over.
    #[must_use]
    pub fn over(&self) -> Option<Over> {
        self.over
    }

    /// When the last step that counted was sent.
    #[must_use]
    pub fn proved_ms(&self) -> u64 {
        self.proved_ms
    }

    /// Whether a step may be sent at this instant. One who was out of touch for too long cannot know what it missed: its
    /// term is over.
    pub fn may_step(&mut self, now_ms: u64) -> bool {
        if now_ms > self.proved_ms + TOUCH_MS && !has(Planted::TrustWithoutTouch) {
            self.over.get_or_insert(Over::Fenced);
        }
        self.over != Some(Over::Fenced)
    }

    /// How far the log has come, as far as this term knows.
    #[must_use]
    pub fn progress(&self, revision: u64) -> Progress {
        let beat = decode("beat", &self.beat_bytes).unwrap_or_default();
        Progress::of(&self.writer, &self.head, &beat, revision)
    }

    /// Whether a frame is in flight.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.flight.is_some()
    }

    /// The step that appends the first frame of this term, which makes its epoch and its tick part of the log.
    /// Sent again it is the same.
    pub fn open(&mut self, at: Moment) -> Txn {
        if let Some(flight) = &self.flight {
            return self.append_txn(flight);
        }
        let mut bytes = Vec::new();
        let end = self.head.end().open(self.writer.epoch, at, self.salt, &mut bytes);
        self.take_off(bytes, end)
    }

    /// The step that appends a batch. The batch in flight is sent again as it was.
    ///
    /// # Panics
    /// When another batch is in flight.
    pub fn append(&mut self, batch: &Batch) -> Txn {
        match &self.flight {
            Some(flight) if flight.batch == batch.id() && !has(Planted::UnknownResentElsewhere) => {
                self.append_txn(flight)
            }
            Some(_) | None => {
                if has(Planted::UnknownResentElsewhere)
                    && let Some(flight) = self.flight.take()
                {
                    (self.head, self.head_bytes) = (flight.head, flight.head_bytes);
                }
                // One that was forgotten could land, and what it says would be nobody's.
                assert!(self.flight.is_none(), "invariant: no other frame is sent while one may still land");
                let mut bytes = Vec::with_capacity(batch.payload().len() + 128);
                let end = self.head.end().follow(batch, self.salt, &mut bytes);
                self.take_off(bytes, end)
            }
        }
    }

    fn take_off(&mut self, bytes: Vec<u8>, end: LogEnd) -> Txn {
        let head = Head::of(self.head.frame + 1, &end);
        let flight = Flight { bytes, batch: end.last_batch, head, head_bytes: encode(&head) };
        let txn = self.append_txn(&flight);
        self.flight = Some(flight);
        txn
    }

    fn append_txn(&self, flight: &Flight) -> Txn {
        Txn {
            compares: self.as_left(true),
            then: vec![
                Op::Put { key: self.keys.frame(flight.head.frame), value: flight.bytes.clone() },
                Op::Put { key: self.keys.head(), value: flight.head_bytes.clone() },
            ],
            otherwise: self.gets(),
        }
    }

    /// Judges what came of an append. `sent_ms` is the instant before it was sent.
    pub fn appended(
        &mut self,
        sent_ms: u64,
        replied_ms: u64,
        stepped: Result<Stepped, StoreError>,
    ) -> Written {
        if self.over.is_some() {
            return Written::Fenced;
        }
        match stepped {
            Ok(Stepped { held: true, .. }) => {
                self.counts_from(if has(Planted::AuthorityFromReply) { replied_ms } else { sent_ms });
                self.landed()
            }
            // Mine and not held: an earlier try of the same frame may have landed, or a proof of life.
            Ok(Stepped { held: false, found, .. }) => {
                if self.is_still_mine(found) {
                    Written::Unknown
                } else {
                    self.fenced()
                }
            }
            Err(_) => Written::Unknown,
        }
    }

    /// The step that proves life and makes authority longer.
    pub fn beat(&mut self, tick: u64) -> Txn {
        let compares = self.as_left(self.flight.is_none());
        let beat = self.next_beat(tick);
        Txn { compares, then: vec![beat], otherwise: self.gets() }
    }

    /// Judges what came of a proof of life.
    pub fn beaten(&mut self, sent_ms: u64, replied_ms: u64, stepped: Result<Stepped, StoreError>) -> Beaten {
        if self.over.is_some() {
            return Beaten::Fenced;
        }
        match stepped {
            Ok(Stepped { held: true, .. }) => {
                self.counts_from(if has(Planted::AuthorityFromReply) { replied_ms } else { sent_ms });
                self.beat_landed();
                Beaten::Held
            }
            Ok(Stepped { held: false, found, .. }) => {
                if self.is_still_mine(found) {
                    return Beaten::Unknown;
                }
                let _ = self.fenced();
                Beaten::Fenced
            }
            Err(_) => Beaten::Unknown,
        }
    }

    /// The step that finds out what became of the frame in flight. It writes, so that what it reads is not old.
    pub fn look(&mut self, tick: u64) -> Txn {
        let number = self.flight.as_ref().map_or(self.head.frame, |flight| flight.head.frame);
        let compares = self.as_left(self.flight.is_none());
        let beat = self.next_beat(tick);
        Txn {
            compares,
            then: vec![beat, Op::Get { key: self.keys.head() }, Op::Get { key: self.keys.frame(number) }],
            otherwise: self.gets(),
        }
    }

    /// Judges what was found out.
    pub fn looked(&mut self, sent_ms: u64, stepped: Result<Stepped, StoreError>) -> Written {
        if self.over.is_some() {
            return Written::Fenced;
        }
        let found = match stepped {
            Ok(Stepped { held: true, found, .. }) => found,
            Ok(Stepped { held: false, found, .. }) => return self.looked_in_vain(found),
            Err(_) => return Written::Unknown,
        };
        self.counts_from(sent_ms);
        self.beat_landed();
        let Some(flight) = &self.flight else { return Written::Absent };
        let mut found = found.into_iter();
        let (head, frame) = (found.next().flatten(), found.next().flatten());
        match frame {
            Some(frame) if frame == flight.bytes && head.as_ref() == Some(&flight.head_bytes) => {
                self.landed()
            }
            None if head.as_ref() == Some(&self.head_bytes) => Written::Absent,
            Some(_) | None => Written::Corrupt {
                why: format!("frame {} or the head is not what this leader wrote", flight.head.frame),
            },
        }
    }

    /// An earlier look has left its proof of life, so that this one did not hold. What it found is as good: the frame in
    /// flight compares the proof before that, and lands no longer if it has not.
    fn looked_in_vain(&mut self, found: Vec<Option<Vec<u8>>>) -> Written {
        let head = found.get(1).cloned().flatten();
        if !self.is_still_mine(found) {
            return self.fenced();
        }
        match &self.flight {
            Some(flight) if head.as_ref() == Some(&flight.head_bytes) => self.landed(),
            Some(_) | None => Written::Unknown,
        }
    }

    /// The step that gives the log up. Once it is made, this claim answers nothing any more, whatever becomes of it.
    pub fn resign(&mut self, tick: u64, wall_ms: u64) -> Txn {
        self.over.get_or_insert(Over::Resigned);
        resignation(&self.keys, &self.writer, tick, wall_ms)
    }

    /// A step that is done only while this claim stands.
    #[must_use]
    pub fn while_mine(&self, then: Vec<Op>) -> Txn {
        Txn { compares: vec![self.is_mine()], then, otherwise: Vec::new() }
    }

    fn landed(&mut self) -> Written {
        let Some(flight) = self.flight.take() else { return Written::Absent };
        (self.head, self.head_bytes) = (flight.head, flight.head_bytes);
        Written::Committed { frame: flight.bytes }
    }

    fn fenced(&mut self) -> Written {
        self.over = Some(Over::Fenced);
        Written::Fenced
    }

    fn counts_from(&mut self, sent_ms: u64) {
        self.proved_ms = self.proved_ms.max(sent_ms);
        let until_ms = sent_ms + self.writer.writer_ttl_ms * 999 / 1_000;
        self.authority_until_ms = self.authority_until_ms.max(until_ms);
    }

    fn next_beat(&mut self, tick: u64) -> Op {
        self.beats += 1;
        let beat = Beat { epoch: self.writer.epoch, counter: self.beats, tick, frame: self.head.frame };
        let value = encode(&beat);
        self.tried.push(value.clone());
        Op::Put { key: self.keys.beat(), value }
    }

    /// The one that was sent last is there.
    fn beat_landed(&mut self) {
        if let Some(bytes) = self.tried.pop() {
            self.beat_bytes = bytes;
        }
        self.tried.clear();
    }

    /// Compares the three keys, as a step found them that did not hold, with what this claim may have left there.
    fn is_still_mine(&mut self, found: Vec<Option<Vec<u8>>>) -> bool {
        let [Some(writer), Some(head), Some(beat)] = &found[..] else { return false };
        let is_landed = self.tried.contains(beat);
        let is_mine = *writer == self.writer_bytes
            && (*head == self.head_bytes
                || self.flight.as_ref().is_some_and(|flight| flight.head_bytes == *head))
            && (*beat == self.beat_bytes || is_landed || has(Planted::StepsIgnoreBeat));
        if is_mine && is_landed {
            self.beat_bytes.clone_from(beat);
            // None of the others lands any more: they compare what was there before.
            self.tried.clear();
        }
        is_mine
    }

    /// `writer` and `beat`, and `head` where no frame is in flight, are as this claim left them.
    fn as_left(&self, with_head: bool) -> Vec<Compare> {
        let mut compares = vec![self.is_mine()];
        if with_head {
            compares.push(self.value(self.keys.head(), &self.head_bytes));
        }
        if !has(Planted::StepsIgnoreBeat) {
            compares.push(self.value(self.keys.beat(), &self.beat_bytes));
        }
        compares
    }

    fn gets(&self) -> Vec<Op> {
        [self.keys.writer(), self.keys.head(), self.keys.beat()].map(|key| Op::Get { key }).into()
    }

    fn is_mine(&self) -> Compare {
        self.value(self.keys.writer(), &self.writer_bytes)
    }

    fn value(&self, key: String, value: &[u8]) -> Compare {
        Compare::Value { key, value: value.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use tenure_log::{BatchBuilder, Lsn};

    use super::*;

    fn term() -> Term {
        let me = String::new();
        let writer = Writer {
            epoch: 7,
            claim: "c".to_owned(),
            node: me.clone(),
            incarnation: me.clone(),
            url: me,
            writer_ttl_ms: 3_000,
            tick: 0,
            wall_ms: 0,
            standing: Standing::Writes,
        };
        let won = Won {
            writer_bytes: encode(&writer),
            writer,
            head_bytes: encode(&Head::default()),
            beat_bytes: encode(&Beat::default()),
            beats: 0,
            sent_ms: 0,
            tick: 0,
        };
        Term::begin(Keys::under("t"), 1, won).unwrap()
    }

    fn batch(number: u64) -> Batch {
        let id = (0..number).fold(BatchId::first(7), |id, _| id.next());
        let mut batch = BatchBuilder::new(id, Lsn(1), Moment::default());
        batch.push(1, b"x").unwrap();
        batch.finish()
    }

    #[test]
    fn a_batch_in_flight_is_sent_again_as_it_was() {
        let mut term = term();
        let sent = term.append(&batch(0));
        assert_eq!(term.append(&batch(0)), sent);
    }

    // Without the assertion the one in flight was forgotten, and could still land.
    #[test]
    #[should_panic(expected = "no other frame is sent while one may still land")]
    fn no_other_batch_is_sent_while_one_is_in_flight() {
        let mut term = term();
        let _ = term.append(&batch(0));
        let _ = term.append(&batch(1));
    }
}
