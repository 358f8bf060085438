//! Packets that are to leave, in order and at a pace that receivers bear: a burst of hundreds overflows their buffers. Each
//! link has queues and a pace of its own, so that a link whose socket takes nothing delays no other. First goodbyes leave
//! before everything else. Answers for one host, records for everybody and questions of our own take turns, so that none of
//! them holds up the others. Remembers what left, so that our own packets are known when they are heard.

use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
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
    queue: Queue,
}

/// In the order in which the last three take turns.
#[derive(Clone, Copy, Debug)]
enum Queue {
    Goodbyes,
    /// Answers for one host alone.
    Direct,
    /// Probes, announcements, answers, repeated goodbyes.
    Others,
    /// Questions of browses.
    Questions,
}

pub(crate) struct Outbox {
    links: BTreeMap<LinkId, OfLink>,
    /// The link that a packet was last taken of.
    last: LinkId,
    hashes: RandomState,
    /// When each packet of late last left.
    sent: HashMap<u64, Instant>,
    sent_at: VecDeque<(Instant, u64)>,
}

/// What waits for one link.
struct OfLink {
    /// By [`Queue`].
    queues: [VecDeque<Transmit>; 4],
    /// The queue that is next of those that take turns.
    turn: usize,
    tokens: u32,
    filled_at: Instant,
    /// Its socket takes nothing since then.
    blocked_at: Option<Instant>,
}

/// Packets that may leave on a link at once, and how many more each millisecond.
const BURST: u32 = 16;
const PER_MILLISECOND: u32 = 2;
/// A packet of ours is heard within this after it was sent.
const ECHO_WITHIN: Duration = Duration::from_secs(3);
/// Answers to single hosts that may wait for a link; more of them are asked for than can be sent.
const UNICAST_MAX: usize = 64;
/// From so many packets for everybody on, answers wait as questions: a quarter of a second, at the pace above.
const CROWDED_AT: usize = 512;
/// From so many packets with questions on, no more questions are asked on a link.
const QUESTIONS_MAX: usize = 64;
/// A socket that takes nothing for this time is stuck: what waits for it would be out of date. It bounds what a link that
/// takes nothing keeps, because no service says more in this time than to probe for its names and to announce them.
const STUCK_AFTER: Duration = Duration::from_secs(2);

impl OfLink {
    fn new(now: Instant) -> Self {
        let queues = Default::default();
        Self { queues, turn: 0, tokens: BURST, filled_at: now, blocked_at: None }
    }

    fn queue(&mut self, queue: Queue) -> &mut VecDeque<Transmit> {
        &mut self.queues[queue as usize]
    }

    fn waiting(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    fn earn(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled_at).as_millis();
        if passed > 0 {
            let earned = u32::try_from(passed).unwrap_or(u32::MAX).saturating_mul(PER_MILLISECOND);
            self.tokens = self.tokens.saturating_add(earned).min(BURST);
            self.filled_at = now;
        }
    }

    fn is_free(&self) -> bool {
        self.tokens > 0 && self.blocked_at.is_none()
    }

    fn next(&mut self) -> Option<Transmit> {
        let transmit = self.queue(Queue::Goodbyes).pop_front().or_else(|| self.next_in_turn())?;
        self.tokens -= 1;
        Some(transmit)
    }

    fn next_in_turn(&mut self) -> Option<Transmit> {
        let queues = &mut self.queues[Queue::Direct as usize..];
        let count = queues.len();
        let turns = (0..count).map(|after| (self.turn + after) % count);
        let turn = turns.into_iter().find(|turn| !queues[*turn].is_empty())?;
        self.turn = (turn + 1) % count;
        queues[turn].pop_front()
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        if let Some(blocked_at) = self.blocked_at {
            return Some(blocked_at + STUCK_AFTER);
        }
        let at = if self.tokens > 0 { now } else { self.filled_at + Duration::from_millis(1) };
        (self.waiting() > 0).then_some(at)
    }
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            links: BTreeMap::new(),
            last: LinkId(0),
            hashes: RandomState::new(),
            sent: HashMap::new(),
            sent_at: VecDeque::new(),
        }
    }

    /// Packets leave on a link from now on.
    pub(crate) fn add(&mut self, now: Instant, link: LinkId) {
        self.links.insert(link, OfLink::new(now));
    }

    /// Nothing leaves on a link any more.
    pub(crate) fn remove(&mut self, link: LinkId) {
        self.links.remove(&link);
    }

    /// Nothing of what waits leaves.
    pub(crate) fn clear(&mut self) {
        self.links.values_mut().flat_map(|link| &mut link.queues).for_each(VecDeque::clear);
    }

    pub(crate) fn goodbyes(&mut self, link: LinkId, packed: Vec<Packed>) {
        self.multicast_from(link, Queue::Goodbyes, packed);
    }

    pub(crate) fn multicast(&mut self, link: LinkId, packed: Vec<Packed>) {
        self.multicast_from(link, Queue::Others, packed);
    }

    pub(crate) fn questions(&mut self, link: LinkId, packed: Vec<Packed>) {
        let of_link = self.links.get_mut(&link);
        if of_link.is_some_and(|of_link| of_link.queue(Queue::Questions).len() < QUESTIONS_MAX) {
            self.multicast_from(link, Queue::Questions, packed);
        }
    }

    fn multicast_from(&mut self, link: LinkId, queue: Queue, packed: Vec<Packed>) {
        let Some(of_link) = self.links.get_mut(&link) else { return };
        let transmit =
            |packed: Packed| Transmit { link, to: None, bytes: packed.bytes, goodbyes: packed.tags, queue };
        of_link.queue(queue).extend(packed.into_iter().map(transmit));
    }

    /// More packets for everybody wait than leave soon.
    pub(crate) fn is_crowded(&self, link: LinkId) -> bool {
        let waiting = |of_link: &OfLink| of_link.queues[Queue::Others as usize].len();
        self.links.get(&link).is_some_and(|of_link| waiting(of_link) >= CROWDED_AT)
    }

    /// Whether a question can be asked on some link.
    pub(crate) fn takes_questions(&self) -> bool {
        let waiting = |of_link: &OfLink| of_link.queues[Queue::Questions as usize].len();
        self.links.is_empty() || self.links.values().any(|of_link| waiting(of_link) < QUESTIONS_MAX)
    }

    pub(crate) fn unicast(&mut self, link: LinkId, to: SocketAddr, bytes: Option<Vec<u8>>) {
        let (Some(of_link), Some(bytes)) = (self.links.get_mut(&link), bytes) else { return };
        let direct = of_link.queue(Queue::Direct);
        if direct.len() < UNICAST_MAX {
            let (to, goodbyes, queue) = (Some(to), Vec::new(), Queue::Direct);
            direct.push_back(Transmit { link, to, bytes, goodbyes, queue });
        }
    }

    /// Packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.links.values().map(OfLink::waiting).sum()
    }

    /// The next packet, if one may leave now. Links take turns, those with goodbyes first.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Transmit> {
        self.links.values_mut().for_each(|of_link| of_link.earn(now));
        let free = || self.links.iter().filter(|(_, of_link)| of_link.is_free());
        let in_turn = |(id, _): &(&LinkId, &OfLink)| (**id <= self.last, **id);
        let has_goodbyes = |(_, of_link): &(&LinkId, &OfLink)| !of_link.queues[0].is_empty();
        let has_any = |(_, of_link): &(&LinkId, &OfLink)| of_link.waiting() > 0;
        let first = free().filter(has_goodbyes).min_by_key(in_turn);
        let id = *first.or_else(|| free().filter(has_any).min_by_key(in_turn))?.0;
        self.last = id;
        let transmit = self.links.get_mut(&id)?.next()?;
        if transmit.to.is_none() {
            let hash = self.hashes.hash_one(&transmit.bytes);
            self.sent.insert(hash, now);
            self.sent_at.push_back((now, hash));
        }
        Some(transmit)
    }

    /// The socket did not take a packet: it is the next one again once the socket takes packets.
    pub(crate) fn put_back(&mut self, now: Instant, transmit: Transmit) {
        let Some(of_link) = self.links.get_mut(&transmit.link) else { return };
        of_link.blocked_at.get_or_insert(now);
        of_link.tokens += 1;
        of_link.queue(transmit.queue).push_front(transmit);
    }

    /// The socket takes packets again.
    pub(crate) fn unblock(&mut self, link: LinkId) {
        if let Some(of_link) = self.links.get_mut(&link) {
            of_link.blocked_at = None;
        }
    }

    /// A link whose socket has taken nothing for too long.
    pub(crate) fn stuck(&self, now: Instant) -> Option<LinkId> {
        let is_stuck = |of_link: &OfLink| of_link.blocked_at.is_some_and(|at| at + STUCK_AFTER <= now);
        self.links.iter().find(|(_, of_link)| is_stuck(of_link)).map(|(id, _)| *id)
    }

    /// When the next packet may leave, or a link is stuck; `None` where no packet waits.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        self.links.values().filter_map(|of_link| of_link.next_due(now)).min()
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
