//! Packets that are to leave, in order and at a pace that receivers bear: a burst of hundreds overflows their buffers.
//! First goodbyes leave before everything else. Answers for one host, records for everybody and questions of our own take
//! turns, so that none of them holds up the others. Remembers what left, so that our own packets are known when they are heard.

use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;
use std::net::SocketAddr;

use crate::clock::Instant;
use crate::link::LinkId;
use crate::pack::Packed;
use crate::responder::EntryId;

/// A packet to be sent.
#[derive(Debug)]
pub(crate) struct Transmit {
    pub(crate) link: LinkId,
    /// `None`: to everybody on the link.
    pub(crate) to: Option<SocketAddr>,
    pub(crate) bytes: Vec<u8>,
    /// The entries whose goodbyes are in it.
    pub(crate) goodbyes: Vec<EntryId>,
}

pub(crate) struct Outbox {
    goodbyes: VecDeque<Transmit>,
    /// Answers for one host alone.
    direct: VecDeque<Transmit>,
    /// Probes, announcements, answers, repeated goodbyes.
    others: VecDeque<Transmit>,
    /// Questions of browses.
    questions: VecDeque<Transmit>,
    /// The queue that is next of these three.
    turn: usize,
    tokens: u32,
    filled_at: Instant,
    hashes: RandomState,
    /// When each packet of late last left.
    sent: HashMap<u64, Instant>,
    sent_at: VecDeque<(Instant, u64)>,
}

/// Packets that may leave at once, and how many more each millisecond.
const BURST: u32 = 16;
const PER_MILLISECOND: u32 = 2;
/// A packet of ours is heard within this after it was sent.
const ECHO_WITHIN: Duration = Duration::from_secs(3);
/// Answers to single hosts that may wait; more of them are asked for than can be sent.
const UNICAST_MAX: usize = 64;
/// From so many packets for everybody on, answers wait as questions: a quarter of a second, at the pace above.
const CROWDED_AT: usize = 512;
/// From so many packets with questions on, no more questions are asked.
const QUESTIONS_MAX: usize = 64;

impl Outbox {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            goodbyes: VecDeque::new(),
            direct: VecDeque::new(),
            others: VecDeque::new(),
            questions: VecDeque::new(),
            turn: 0,
            tokens: BURST,
            filled_at: now,
            hashes: RandomState::new(),
            sent: HashMap::new(),
            sent_at: VecDeque::new(),
        }
    }

    pub(crate) fn goodbyes(&mut self, link: LinkId, packed: Vec<Packed>) {
        self.goodbyes.extend(packed.into_iter().map(|packed| to_all(link, packed)));
    }

    pub(crate) fn multicast(&mut self, link: LinkId, packed: Vec<Packed>) {
        self.others.extend(packed.into_iter().map(|packed| to_all(link, packed)));
    }

    pub(crate) fn questions(&mut self, link: LinkId, packed: Vec<Packed>) {
        self.questions.extend(packed.into_iter().map(|packed| to_all(link, packed)));
    }

    /// More packets for everybody wait than leave soon.
    pub(crate) fn is_crowded(&self) -> bool {
        self.others.len() >= CROWDED_AT
    }

    pub(crate) fn takes_questions(&self) -> bool {
        self.questions.len() < QUESTIONS_MAX
    }

    pub(crate) fn unicast(&mut self, link: LinkId, to: SocketAddr, bytes: Option<Vec<u8>>) {
        if let Some(bytes) = bytes.filter(|_| self.direct.len() < UNICAST_MAX) {
            self.direct.push_back(Transmit { link, to: Some(to), bytes, goodbyes: Vec::new() });
        }
    }

    /// Nothing leaves on a link that is gone.
    pub(crate) fn forget(&mut self, link: LinkId) {
        for queue in [&mut self.goodbyes, &mut self.direct, &mut self.others, &mut self.questions] {
            queue.retain(|transmit| transmit.link != link);
        }
    }

    /// Nothing of what waits leaves.
    pub(crate) fn clear(&mut self) {
        for queue in [&mut self.goodbyes, &mut self.direct, &mut self.others, &mut self.questions] {
            queue.clear();
        }
    }

    /// Packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        [&self.goodbyes, &self.direct, &self.others, &self.questions].into_iter().map(VecDeque::len).sum()
    }

    /// The next packet, if it may leave now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Transmit> {
        let passed = now.saturating_duration_since(self.filled_at).as_millis();
        if passed > 0 {
            let earned = u32::try_from(passed).unwrap_or(u32::MAX).saturating_mul(PER_MILLISECOND);
            self.tokens = self.tokens.saturating_add(earned).min(BURST);
            self.filled_at = now;
        }
        if self.tokens == 0 {
            return None;
        }
        let transmit = self.goodbyes.pop_front().or_else(|| self.next_in_turn())?;
        self.tokens -= 1;
        if transmit.to.is_none() {
            let hash = self.hashes.hash_one(&transmit.bytes);
            self.sent.insert(hash, now);
            self.sent_at.push_back((now, hash));
        }
        Some(transmit)
    }

    fn next_in_turn(&mut self) -> Option<Transmit> {
        let queues = [&mut self.direct, &mut self.others, &mut self.questions];
        let count = queues.len();
        let turns = (0..count).map(|after| (self.turn + after) % count);
        let turn = turns.into_iter().find(|turn| !queues[*turn].is_empty())?;
        self.turn = (turn + 1) % count;
        queues[turn].pop_front()
    }

    /// When the next packet may leave; `None` where no packet waits.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let at = if self.tokens > 0 { now } else { self.filled_at + Duration::from_millis(1) };
        (self.waiting() > 0).then_some(at)
    }

    /// Whether a packet that was heard is one of ours.
    pub(crate) fn is_own(&mut self, now: Instant, packet: &[u8]) -> bool {
        while let Some((at, hash)) = self.sent_at.front().copied()
            && at + ECHO_WITHIN <= now
        {
            self.sent_at.pop_front();
            if self.sent.get(&hash) == Some(&at) {
                self.sent.remove(&hash);
            }
        }
        self.sent.contains_key(&self.hashes.hash_one(packet))
    }
}

fn to_all(link: LinkId, packed: Packed) -> Transmit {
    Transmit { link, to: None, bytes: packed.bytes, goodbyes: packed.tags }
}
