//! When a node may claim the log, and whether it got it. Pure: instants and what was seen come in, steps go out.
//!
//! Invariant: a claim is made only after `writer`, `head` and `beat` have not been seen to change for longer than the
//! writer's authority can last, and succeeds only if they still have not. So nothing of the old writer succeeded since
//! the count began, and its authority is over. A node that looks has no term: one of its own run is over as well.

use crate::keys::Keys;
use crate::planted::{Planted, has};
use crate::store::{Compare, Op, Stepped, StoreError, Txn};
use crate::term::Won;
use crate::trust::Progress;
use crate::values::{Beat, Head, Standing, ValueError, Writer, decode, encode};

/// The most that rank and chance may add to the wait, so that not everybody claims at once.
pub const SPREAD_MS_MAX: u64 = 500;
/// The same after a resignation, when nothing has to be waited for.
pub const SPREAD_RESIGNED_MS_MAX: u64 = 60;

/// Proofs of life that ask after a claim count from here, and its term goes on from there: none is below an earlier one.
const ASKED_FROM: u64 = 1 << 61;

/// Who claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its name.
    pub node: String,
    /// Which run of it.
    pub incarnation: String,
    /// Where other nodes reach it.
    pub url: String,
    /// How long a step is to be good for.
    pub writer_ttl_ms: u64,
}

/// What a node knows of who writes.
#[derive(Clone, Debug)]
pub struct Lookout {
    keys: Keys,
    me: Claimant,
    seen: Option<Seen>,
    /// The instant at which a change was last received.
    changed_ms: u64,
    /// The instant at which anything was last received.
    heard_ms: u64,
    /// From 0 to 1000: where in the spread this node stands.
    place: u64,
    /// A claim that was sent and whose outcome is not known.
    sent: Option<Sent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    writer: Writer,
    writer_bytes: Vec<u8>,
    head: Head,
    head_bytes: Vec<u8>,
    beat: Beat,
    beat_bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Sent {
    writer: Writer,
    bytes: Vec<u8>,
    tick: u64,
    /// The proof of life that the claim found.
    beat: Vec<u8>,
    /// Those sent to find out, and when. Each compares the one that the claim found.
    asked: Vec<(Vec<u8>, u64)>,
    /// Nobody said what became of it.
    is_unknown: bool,
}

/// What a node does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing before this instant, unless something is seen.
    Wait {
        /// Milliseconds of boot time.
        until_ms: u64,
    },
    /// Read the three keys: nothing has been heard for a while.
    Look,
    /// Claim.
    Claim,
    /// Find out what became of a claim.
    FindOut,
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub enum Claimed {
    /// The log is this node's.
    Won(Box<Won>),
    /// Somebody or something came before; the count begins again.
    Lost,
    /// Not known.
    Unknown,
}

impl Lookout {
    /// Begins to look. `place` is where in the spread of claims this node stands, from 0 to 1000.
    #[must_use]
    pub fn new(keys: Keys, me: Claimant, place: u64) -> Self {
        Self { keys, me, seen: None, changed_ms: 0, heard_ms: 0, place: place.min(1_000), sent: None }
    }

    /// Who writes, as far as was seen.
    #[must_use]
    pub fn writer(&self) -> Option<&Writer> {
        self.seen.as_ref().map(|seen| &seen.writer)
    }

    /// Where the log ends, as far as was seen.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        self.seen.as_ref().map(|seen| &seen.head)
    }

    /// How far the log has come, as far as was seen.
    #[must_use]
    pub fn progress(&self, revision: u64) -> Option<Progress> {
        let seen = self.seen.as_ref()?;
        Some(Progress::of(&seen.writer, &seen.head, &seen.beat, revision))
    }

    /// When a change was last received.
    #[must_use]
    pub fn changed_ms(&self) -> u64 {
        self.changed_ms
    }

    /// The step that reads the three keys. Old values do no harm: a claim compares them.
    #[must_use]
    pub fn look(&self) -> [String; 3] {
        [self.keys.writer(), self.keys.head(), self.keys.beat()]
    }

    /// Takes in what the three keys have.
    ///
    /// # Errors
    /// When a value cannot be understood.
    pub fn read(&mut self, now_ms: u64, writer: &[u8], head: &[u8], beat: &[u8]) -> Result<(), ValueError> {
        let seen = Seen {
            writer: decode("writer", writer)?,
            writer_bytes: writer.to_vec(),
            head: decode("head", head)?,
            head_bytes: head.to_vec(),
            beat: decode("beat", beat)?,
            beat_bytes: beat.to_vec(),
        };
        self.heard_ms = now_ms;
        if self.seen.as_ref() != Some(&seen) {
            self.seen = Some(seen);
            self.changed_ms = now_ms;
        }
        Ok(())
    }

    /// Takes in a change of one key; others than the three say nothing here.
    ///
    /// # Errors
    /// When a value cannot be understood.
    pub fn saw(&mut self, now_ms: u64, key: &str, value: &[u8]) -> Result<(), ValueError> {
        let Some(mut seen) = self.seen.clone() else { return Ok(()) };
        if key == self.keys.writer() {
            (seen.writer, seen.writer_bytes) = (decode("writer", value)?, value.to_vec());
        } else if key == self.keys.head() {
            (seen.head, seen.head_bytes) = (decode("head", value)?, value.to_vec());
        } else if key == self.keys.beat() {
            (seen.beat, seen.beat_bytes) = (decode("beat", value)?, value.to_vec());
        } else {
            return Ok(());
        }
        self.heard_ms = now_ms;
        if self.seen.as_ref() != Some(&seen) {
            self.seen = Some(seen);
            self.changed_ms = now_ms;
        }
        Ok(())
    }

    /// What to do at this instant.
    #[must_use]
    pub fn next(&self, now_ms: u64) -> Next {
        let Some(seen) = &self.seen else { return Next::Look };
        let ttl_ms = seen.writer.writer_ttl_ms;
        // What this node asked for in vain may come true later than it gave up.
        if let Some(sent) = &self.sent
            && (sent.is_unknown || seen.writer.claim == sent.writer.claim)
        {
            return Next::FindOut;
        }
        let look_ms = self.heard_ms + (ttl_ms / 3).max(1);
        let claim_ms = match &seen.writer.standing {
            Standing::Moved { .. } | Standing::Restored { .. } => u64::MAX,
            Standing::Resigned => self.changed_ms + self.place * SPREAD_RESIGNED_MS_MAX / 1_000,
            // A term of this very run, which does not write any more: nobody else can.
            Standing::Writes if self.is_mine(&seen.writer) => self.changed_ms,
            Standing::Writes => {
                let silent_ms = if has(Planted::SuccessorServesTooSoon) {
                    ttl_ms / 2
                } else {
                    ttl_ms + ttl_ms.div_ceil(100)
                };
                self.changed_ms + silent_ms + 1 + self.place * SPREAD_MS_MAX / 1_000
            }
        };
        if now_ms >= claim_ms {
            Next::Claim
        } else if now_ms >= look_ms {
            Next::Look
        } else {
            Next::Wait { until_ms: claim_ms.min(look_ms) }
        }
    }

    /// The step that claims. `claim` is 128 random bits, never used before.
    ///
    /// # Panics
    /// If nothing was seen yet: [`Lookout::next`] does not say so then.
    pub fn claim(&mut self, claim: String, wall_ms: u64) -> Txn {
        let seen = self.seen.as_ref().expect("invariant: who claims has looked");
        let tick = if has(Planted::TickGoesBack) {
            seen.head.tick
        } else {
            seen.head.tick.max(seen.beat.tick).max(seen.writer.tick)
        };
        let writer = Writer {
            epoch: seen.writer.epoch + 1,
            claim,
            node: self.me.node.clone(),
            incarnation: self.me.incarnation.clone(),
            url: self.me.url.clone(),
            writer_ttl_ms: self.me.writer_ttl_ms,
            tick,
            wall_ms,
            standing: Standing::Writes,
        };
        let value = |key, value: &[u8]| Compare::Value { key, value: value.to_vec() };
        let mut compares = vec![value(self.keys.writer(), &seen.writer_bytes)];
        if !has(Planted::ClaimComparesWriterOnly) {
            compares.push(value(self.keys.head(), &seen.head_bytes));
            compares.push(value(self.keys.beat(), &seen.beat_bytes));
        }
        let (bytes, beat) = (encode(&writer), seen.beat_bytes.clone());
        let put = Op::Put { key: self.keys.writer(), value: bytes.clone() };
        self.sent = Some(Sent { writer, bytes, tick, beat, asked: Vec::new(), is_unknown: false });
        let then = vec![put, Op::Get { key: self.keys.head() }, Op::Get { key: self.keys.beat() }];
        Txn { compares, then, otherwise: self.gets() }
    }

    /// Judges what came of a claim. `sent_ms` is the instant before it was sent.
    ///
    /// # Errors
    /// When a value cannot be understood.
    pub fn claimed(
        &mut self,
        sent_ms: u64,
        now_ms: u64,
        stepped: Result<Stepped, StoreError>,
    ) -> Result<Claimed, ValueError> {
        if let Some((_, asked_ms)) = self.sent.as_mut().and_then(|sent| sent.asked.last_mut()) {
            *asked_ms = sent_ms;
        }
        match stepped {
            Ok(Stepped { held: true, mut found, .. }) => {
                let [head, beat] = &mut found[..] else { return Ok(Claimed::Lost) };
                Ok(self.won(sent_ms, head.take(), beat.take()))
            }
            Ok(Stepped { held: false, found, .. }) => match self.landed(&found) {
                Some(landed_ms) => {
                    let [_, head, beat] = &found[..] else { return Ok(Claimed::Lost) };
                    Ok(self.won(landed_ms, head.clone(), beat.clone()))
                }
                None => {
                    self.sent = None;
                    self.lost(now_ms, found)?;
                    Ok(Claimed::Lost)
                }
            },
            Err(_) => {
                if let Some(sent) = &mut self.sent {
                    sent.is_unknown = true;
                }
                Ok(Claimed::Unknown)
            }
        }
    }

    /// A question whose answer was lost has left its proof of life under this node's claim: when it was sent.
    fn landed(&self, found: &[Option<Vec<u8>>]) -> Option<u64> {
        let (sent, [Some(writer), Some(_), Some(beat)]) = (self.sent.as_ref()?, found) else { return None };
        let asked = sent.asked.iter().find(|(asked, _)| *writer == sent.bytes && asked == beat);
        asked.map(|(_, sent_ms)| *sent_ms)
    }

    /// The step that finds out whether this node's claim stands.
    pub fn find_out(&mut self) -> Txn {
        let Some(sent) = &mut self.sent else { return Txn::default() };
        let counter = ASKED_FROM + sent.asked.len() as u64;
        let beat = encode(&Beat { epoch: sent.writer.epoch, counter, tick: sent.tick, frame: 0 });
        sent.asked.push((beat.clone(), 0));
        let value = |key, value: &[u8]| Compare::Value { key, value: value.to_vec() };
        Txn {
            compares: vec![value(self.keys.writer(), &sent.bytes), value(self.keys.beat(), &sent.beat)],
            then: vec![
                Op::Put { key: self.keys.beat(), value: beat },
                Op::Get { key: self.keys.head() },
                Op::Get { key: self.keys.beat() },
            ],
            otherwise: self.gets(),
        }
    }

    fn won(&mut self, sent_ms: u64, head: Option<Vec<u8>>, beat: Option<Vec<u8>>) -> Claimed {
        let (Some(sent), Some(head_bytes), Some(beat_bytes)) = (self.sent.take(), head, beat) else {
            return Claimed::Lost;
        };
        let logged = decode::<Head>("head", &head_bytes).map_or(0, |head| head.tick);
        Claimed::Won(Box::new(Won {
            writer: sent.writer,
            writer_bytes: sent.bytes,
            head_bytes,
            beat_bytes,
            beats: if sent.asked.is_empty() { 0 } else { ASKED_FROM + sent.asked.len() as u64 },
            sent_ms,
            tick: sent.tick.max(logged),
        }))
    }

    fn lost(&mut self, now_ms: u64, found: Vec<Option<Vec<u8>>>) -> Result<(), ValueError> {
        if let [Some(writer), Some(head), Some(beat)] = &found[..] {
            self.read(now_ms, writer, head, beat)?;
        }
        // The count begins again even if all is as it was: somebody else may have claimed and resigned.
        self.changed_ms = now_ms;
        Ok(())
    }

    fn is_mine(&self, writer: &Writer) -> bool {
        (&writer.node, &writer.incarnation) == (&self.me.node, &self.me.incarnation)
    }

    fn gets(&self) -> Vec<Op> {
        self.look().into_iter().map(|key| Op::Get { key }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(node: &str, incarnation: &str) -> Vec<u8> {
        encode(&Writer {
            epoch: 7,
            claim: "c".to_owned(),
            node: node.to_owned(),
            incarnation: incarnation.to_owned(),
            url: String::new(),
            writer_ttl_ms: 3_000,
            tick: 0,
            wall_ms: 0,
            standing: Standing::Writes,
        })
    }

    // Its own term had ended, and it waited for its own silence.
    #[test]
    fn a_term_of_the_same_run_is_not_waited_for() {
        let me = Claimant {
            node: "a".to_owned(),
            incarnation: "1".to_owned(),
            url: String::new(),
            writer_ttl_ms: 3_000,
        };
        let next = |node: &str, incarnation: &str| {
            let mut lookout = Lookout::new(Keys::under("test"), me.clone(), 0);
            let beat = Beat { epoch: 7, counter: 1, tick: 0, frame: 0 };
            let (head, beat) = (encode(&Head::default()), encode(&beat));
            lookout.read(1_000, &writer(node, incarnation), &head, &beat).expect("values of ours");
            lookout.next(1_000)
        };
        assert_eq!(next("a", "1"), Next::Claim);
        for (node, incarnation) in [("a", "2"), ("b", "1")] {
            assert!(matches!(next(node, incarnation), Next::Wait { .. }), "{node} {incarnation}");
        }
    }
}
