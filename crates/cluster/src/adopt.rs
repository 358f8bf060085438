//! Decides how a log continues after its store has lost part of it (`tenure cluster adopt`, record 0073). Pure: the input is
//! what the store has, and the memories and the ends of the local logs that the operator has at hand.
//!
//! Invariant: generation, epoch, frame, LSN and fences of the adopted log are above all that the store or a memory at hand
//! knows, and nothing is granted before the longest validity that may have been forgotten is over.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use tenure_log::{Genesis, Identity, LogEnd, Lsn, Moment};

use crate::listing::ListedNode;
use crate::planted::{Planted, has};
use crate::trust::Remembered;
use crate::values::{Beat, Floor, Head, Meta, Standing, Writer};

/// The longest TTL that is assumed where records may be lost.
pub const ASSUMED_TTL_MS: u64 = 24 * 60 * 60 * 1_000;
/// LSNs that are left out, so that no position that was forgotten is given again.
pub const LEFT_OUT: u64 = 1 << 20;
/// Tags of earlier generations that are kept.
const FORMER_TAGS_MAX: usize = 16;

/// What the store has while no node writes.
#[derive(Clone, Debug)]
pub struct Remains {
    /// The log.
    pub meta: Meta,
    /// The last leader.
    pub writer: Writer,
    /// Where the log ends.
    pub head: Head,
    /// The last barrier.
    pub beat: Beat,
    /// The nodes.
    pub list: Vec<ListedNode>,
}

/// One node's memory and the end of its local log.
#[derive(Clone, Debug)]
pub struct AtHand {
    /// Where it was found: its name, if no list has one.
    pub place: String,
    /// What the node remembers.
    pub remembered: Remembered,
    /// The log that the local log is of.
    pub identity: Identity,
    /// The number of the local log's last frame.
    pub frame: u64,
    /// Where the local log ends.
    pub end: LogEnd,
}

/// Why a memory does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It has followed no log.
    NoLog,
    /// It has followed another log than the one in the store.
    AnotherLog {
        /// Followed.
        found: u64,
        /// In the store.
        wanted: u64,
    },
    /// It is the memory of a node that was given already.
    Twice {
        /// Which one, counted from 0.
        which: usize,
    },
    /// The local log beside it is of another log.
    AnotherLocalLog {
        /// Which one, counted from 0.
        which: usize,
        /// Found there.
        found: u64,
        /// In the store.
        wanted: u64,
    },
}

/// What is known at all, and with which log to continue.
#[derive(Clone, Debug)]
pub struct Survey {
    names: Vec<String>,
    missing: Vec<String>,
    continues: Option<usize>,
    highest: u64,
    epoch: u64,
    frame: u64,
    generation: u64,
    fence_base: u64,
    /// The last frame that any node remembers, and which node.
    remembered_frame: u64,
    remembered_by: String,
    has_all_memories: bool,
}

/// The log that continues, as [`Survey::continues`] has it.
#[derive(Clone, Copy, Debug)]
pub struct Continued {
    /// Where it ends.
    pub end: LogEnd,
    /// The number of its last frame.
    pub frame: u64,
    /// The tick of its state.
    pub tick: u64,
    /// The longest TTL of any lease or session in its state.
    pub longest_ttl_ms: u64,
    /// Whether the store's last frame is one of its frames.
    pub has_store_end: bool,
}

/// What the operator adds.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Randomness and time.
    pub genesis: Genesis,
    /// The longest TTL of leases that may be lost, if the operator knows it.
    pub longest_ttl_ms: Option<u64>,
    /// Unix milliseconds now.
    pub wall_ms: u64,
}

/// What the store has after the adoption.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The next generation.
    pub meta: Meta,
    /// No leader, in a higher epoch.
    pub writer: Writer,
    /// Where the log continues.
    pub head: Head,
    /// Where the log begins; the snapshot is yet to be named.
    pub floor: Floor,
    /// How long grants wait.
    pub wait_ms: u64,
}

/// Whether a memory counts, given those that were admitted before. `None`: there is none.
///
/// # Errors
/// When it does not.
pub fn admit(meta: &Meta, admitted: &[&Remembered], next: Option<&Remembered>) -> Result<(), NotAdmitted> {
    let Some(next) = next else { return Err(NotAdmitted::NoLog) };
    if next.log_id != meta.log_id {
        return Err(NotAdmitted::AnotherLog { found: next.log_id, wanted: meta.log_id });
    }
    match admitted.iter().position(|before| before.memory == next.memory) {
        Some(which) => Err(NotAdmitted::Twice { which }),
        None => Ok(()),
    }
}

impl Survey {
    /// Compares what the store has with everything at hand.
    ///
    /// # Errors
    /// When something at hand is not of this log, or is there twice.
    pub fn of(remains: &Remains, at_hand: &[AtHand]) -> Result<Self, NotAdmitted> {
        let Remains { meta, writer, head, .. } = remains;
        let mut admitted: Vec<&Remembered> = Vec::new();
        for (which, one) in at_hand.iter().enumerate() {
            admit(meta, &admitted, Some(&one.remembered))?;
            if one.end.last_lsn > Lsn(0) && !one.is_of(meta) {
                let (found, wanted) = (one.identity.log_id, meta.log_id);
                return Err(NotAdmitted::AnotherLocalLog { which, found, wanted });
            }
            admitted.push(&one.remembered);
        }
        let nodes = nodes(remains, &admitted);
        let is_at_hand = |memory: &String| admitted.iter().any(|known| known.is_of(memory));
        let mut missing: Vec<String> =
            nodes.iter().filter(|(memory, _)| !is_at_hand(memory)).map(|(_, name)| name.clone()).collect();
        // Nothing is known of a memory whose entry cannot be decoded.
        missing.extend(
            remains.list.iter().filter(|listed| listed.node.is_none()).map(|listed| listed.name.clone()),
        );
        missing.sort_unstable();
        let name = |one: &AtHand| nodes.get(&one.remembered.memory).unwrap_or(&one.place).clone();
        let names: Vec<String> = at_hand.iter().map(name).collect();
        let counted = if has(Planted::AdoptForgetsMemory) {
            &at_hand[..at_hand.len().saturating_sub(1)]
        } else {
            at_hand
        };
        let remembers = |(one, name): (&AtHand, &String)| (one.remembered.progress.frame, name.clone());
        let remembered = counted.iter().zip(&names).map(remembers).max_by_key(|(frame, _)| *frame);
        let (remembered_frame, remembered_by) = remembered.unwrap_or_default();
        let highest_of = |of: fn(&AtHand) -> u64| counted.iter().map(of).max().unwrap_or(0);
        // The furthest one of the newest generation, by fence base: a memory may know of a generation that its local log is
        // not of. Where none is ahead of the store, the store counts. A local log without a frame is of no log yet.
        let fence_base = |one: &AtHand| if one.is_of(meta) { one.identity.fence_base } else { 0 };
        let mut furthest = (meta.fence_base, head.lsn);
        let mut continues = None;
        for (which, one) in counted.iter().enumerate() {
            let reach = (fence_base(one), one.end.last_lsn.0);
            if reach > furthest {
                (furthest, continues) = (reach, Some(which));
            }
        }
        Ok(Self {
            names,
            has_all_memories: !at_hand.is_empty() && missing.is_empty(),
            missing,
            continues,
            highest: highest_of(|one| one.end.last_lsn.0).max(head.lsn),
            epoch: highest_of(|one| one.end.writer_epoch.max(one.remembered.progress.epoch))
                .max(writer.epoch),
            frame: highest_of(|one| one.frame.max(one.remembered.progress.frame)).max(head.frame),
            generation: highest_of(|one| one.remembered.generation).max(meta.generation),
            fence_base: counted.iter().map(fence_base).max().unwrap_or(0).max(meta.fence_base),
            remembered_frame,
            remembered_by,
        })
    }

    /// The nodes' names, in the order in which they are at hand.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names of the nodes whose memories are not at hand: records that only they have are lost.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The local log that continues. `None`: the store's.
    #[must_use]
    pub fn continues(&self) -> Option<usize> {
        self.continues
    }

    /// The highest LSN in the store or in a local log at hand.
    #[must_use]
    pub fn highest(&self) -> Lsn {
        Lsn(self.highest)
    }

    /// Whether the log that continues has all records that were ever there, as far as anything at hand can tell.
    #[must_use]
    pub fn is_complete(&self, continued: &Continued) -> bool {
        self.has_all_memories && continued.has_store_end && self.lost_frames(continued).is_none()
    }

    /// The frames behind the log that continues which a node at hand remembers, and that node: neither the store nor a local
    /// log at hand has them.
    #[must_use]
    pub fn lost_frames(&self, continued: &Continued) -> Option<(RangeInclusive<u64>, &str)> {
        let first = continued.frame + 1;
        (first <= self.remembered_frame)
            .then_some((first..=self.remembered_frame, self.remembered_by.as_str()))
    }

    /// What the store gets.
    #[must_use]
    pub fn plan(&self, remains: &Remains, continued: &Continued, given: &Given) -> Plan {
        let Remains { meta, writer, head, beat, .. } = remains;
        let highest = self.highest.max(continued.end.last_lsn.0);
        let old = Identity { fence_base: self.fence_base, ..meta.identity() };
        let identity = given.genesis.restored(&old, Lsn(highest));
        let wait_ms = match given.longest_ttl_ms {
            Some(longest_ttl_ms) => longest_ttl_ms,
            None if self.is_complete(continued) => continued.longest_ttl_ms,
            None => continued.longest_ttl_ms.max(ASSUMED_TTL_MS),
        };
        // The next leader continues from the newest of them, so the wait begins there.
        let tick = continued.tick.max(head.tick).max(writer.tick).max(beat.tick);
        let last_lsn = Lsn(highest + LEFT_OUT);
        let epoch = self.epoch.max(continued.end.writer_epoch);
        let mut former_tags = meta.former_tags.clone();
        former_tags.push(meta.tag);
        let surplus = former_tags.len().saturating_sub(FORMER_TAGS_MAX);
        former_tags.drain(..surplus);
        let generation =
            if has(Planted::AdoptKeepsGeneration) { self.generation } else { self.generation + 1 };
        let meta = Meta {
            former_tags,
            generation,
            tag: identity.tag,
            fence_base: identity.fence_base,
            identity_since: last_lsn.next().0,
            not_before_tick: tick + wait_ms,
            ..meta.clone()
        };
        // Above all frames that a node can have: no local log of an earlier generation continues here.
        let frame = self.frame.max(continued.frame) + 1;
        let at = Moment { tick, wall_ms: given.wall_ms };
        // A chain that no log has had: neither the one that continues, nor another adoption of it that was put back.
        let checksum = continued.end.checksum.wrapping_add(identity.salt | 1);
        let end = LogEnd { last_lsn, checksum, writer_epoch: epoch, at, ..continued.end };
        let head = Head::of(frame, &end);
        let floor = Floor { frame: frame + 1, end: head, ..Floor::default() };
        let writer = Writer {
            epoch: epoch + 1,
            claim: String::new(),
            node: String::new(),
            incarnation: String::new(),
            url: String::new(),
            writer_ttl_ms: writer.writer_ttl_ms,
            tick,
            wall_ms: given.wall_ms,
            standing: Standing::Resigned,
        };
        Plan { meta, writer, head, floor, wait_ms }
    }
}

impl AtHand {
    /// Whether the local log is of this log, or of the one that it continues.
    fn is_of(&self, meta: &Meta) -> bool {
        [meta.log_id, meta.parent_log_id].contains(&self.identity.log_id)
    }
}

impl Plan {
    /// What a node at hand remembers after the adoption: that there was one. A store that is put back to before it is known
    /// to lack a generation, even if no other node of the next generation is there to tell.
    #[must_use]
    pub fn remembered(&self, known: &Remembered) -> Remembered {
        Remembered {
            log_id: self.meta.log_id,
            generation: self.meta.generation,
            memory: known.memory.clone(),
            ..Remembered::default()
        }
    }
}

/// Memories that nodes have which joined and were not forgotten, and what those are called: by the store's list, and by
/// what others remember where the store has forgotten some.
fn nodes(remains: &Remains, known: &[&Remembered]) -> BTreeMap<String, String> {
    let mut nodes = BTreeMap::new();
    let listed = || remains.list.iter().filter_map(|listed| Some((&listed.name, listed.node.as_ref()?)));
    for (name, node) in listed().filter(|(_, node)| !node.is_forgotten) {
        nodes.insert(node.memory.clone(), name.clone());
    }
    for (memory, peer) in known.iter().flat_map(|known| &known.others) {
        let is_forgotten = listed().any(|(name, node)| node.forgets(name, memory, peer));
        if !is_forgotten {
            nodes.entry(memory.clone()).or_insert_with(|| peer.node.clone());
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::{Peer, Progress};
    use crate::values::Node;

    const GENESIS: Genesis = Genesis { random: [7; 16], unix_seconds: 1_000, shard: 0 };

    fn remains() -> Remains {
        let meta = Meta::of(&GENESIS.identity(), Lsn(1), 0, "secret".repeat(8));
        let writer = Writer {
            epoch: 5,
            claim: "c".to_owned(),
            node: "a".to_owned(),
            incarnation: "1".to_owned(),
            url: String::new(),
            writer_ttl_ms: 3_000,
            tick: 700,
            wall_ms: 0,
            standing: Standing::Writes,
        };
        let head = Head { frame: 9, lsn: 90, chain: 99, epoch: 5, batch: 9, tick: 800, wall_ms: 0 };
        let beat = Beat { epoch: 5, counter: 3, tick: 60_000, frame: 9 };
        let list = vec![listed("a"), listed("b")];
        Remains { meta, writer, head, beat, list }
    }

    fn node(name: &str) -> Node {
        Node { memory: format!("of {name}"), ..Node::default() }
    }

    fn listed(name: &str) -> ListedNode {
        ListedNode { name: name.to_owned(), bytes: Vec::new(), node: Some(node(name)) }
    }

    /// A node whose local log ends with this frame and LSN.
    fn at_hand(name: &str, frame: u64, lsn: u64) -> AtHand {
        let progress = Progress { epoch: 5, frame, ..Progress::default() };
        let meta = remains().meta;
        let remembered = Remembered {
            log_id: meta.log_id,
            generation: 1,
            progress,
            memory: format!("of {name}"),
            ..Remembered::default()
        };
        let end = LogEnd { last_lsn: Lsn(lsn), writer_epoch: 5, ..LogEnd::default() };
        AtHand { place: "somewhere".to_owned(), remembered, identity: meta.identity(), frame, end }
    }

    fn continued(frame: u64, lsn: u64) -> Continued {
        let end = LogEnd { last_lsn: Lsn(lsn), checksum: 42, writer_epoch: 5, ..LogEnd::default() };
        Continued { end, frame, tick: 900, longest_ttl_ms: 10_000, has_store_end: true }
    }

    fn given(longest_ttl_ms: Option<u64>) -> Given {
        Given { genesis: Genesis { random: [8; 16], ..GENESIS }, longest_ttl_ms, wall_ms: 1 }
    }

    fn survey(at_hand: &[AtHand]) -> Survey {
        Survey::of(&remains(), at_hand).expect("all are of this log")
    }

    #[test]
    fn what_is_of_another_log_or_there_twice_does_not_count() {
        let remains = remains();
        let wanted = remains.meta.log_id;
        assert_eq!(admit(&remains.meta, &[], None), Err(NotAdmitted::NoLog));
        let mut foreign = at_hand("a", 9, 90);
        foreign.remembered.log_id ^= 1;
        let refused = Survey::of(&remains, &[foreign.clone()]).unwrap_err();
        assert_eq!(refused, NotAdmitted::AnotherLog { found: foreign.remembered.log_id, wanted });
        let twice = [at_hand("a", 9, 90), at_hand("b", 9, 90), at_hand("a", 9, 90)];
        assert_eq!(Survey::of(&remains, &twice).unwrap_err(), NotAdmitted::Twice { which: 0 });
        let mut swapped = at_hand("b", 9, 90);
        swapped.identity.log_id ^= 1;
        let found = swapped.identity.log_id;
        let refused = Survey::of(&remains, &[at_hand("a", 9, 90), swapped]).unwrap_err();
        assert_eq!(refused, NotAdmitted::AnotherLocalLog { which: 1, found, wanted });
    }

    #[test]
    fn nodes_whose_memories_are_not_at_hand_are_missing() {
        assert_eq!(survey(&[at_hand("a", 9, 90)]).missing(), ["b"]);
        assert!(survey(&[at_hand("a", 9, 90), at_hand("b", 9, 90)]).missing().is_empty());
        // One that the store does not list, and one in whose place another came.
        let mut knows = at_hand("a", 9, 90);
        let peer = Peer { node: "c".to_owned(), url: String::new() };
        knows.remembered.others.insert("of c".to_owned(), peer);
        knows.remembered.former.push("of b".to_owned());
        assert_eq!(survey(&[knows.clone()]).missing(), ["c"]);
        // An operator has removed it.
        let mut remains = remains();
        let forgotten = Node { is_forgotten: true, ..node("c") };
        remains.list.push(ListedNode { node: Some(forgotten), ..listed("c") });
        let survey = Survey::of(&remains, &[knows.clone()]).expect("of this log");
        assert!(survey.missing().is_empty());
        // A memory that has that name since.
        let peer = Peer { node: "c".to_owned(), url: String::new() };
        knows.remembered.others.insert("of another c".to_owned(), peer);
        let survey = Survey::of(&remains, &[knows]).expect("of this log");
        assert_eq!(survey.missing(), ["c"]);
    }

    // Grants waited for 24 hours, and nothing said why.
    #[test]
    fn frames_that_are_remembered_and_nowhere_at_hand_are_lost() {
        let mut knows = at_hand("b", 9, 90);
        knows.remembered.progress.frame = 12;
        let survey = survey(&[at_hand("a", 9, 90), knows]);
        assert_eq!(survey.lost_frames(&continued(9, 90)), Some((10..=12, "b")));
        assert!(!survey.is_complete(&continued(9, 90)));
        assert_eq!(survey.lost_frames(&continued(12, 99)), None);
    }

    // It did not count at all: grants waited for the longest known ttl, though that node may have known of a longer one.
    #[test]
    fn a_node_whose_entry_cannot_be_decoded_is_missing() {
        let mut remains = remains();
        remains.list.push(ListedNode { node: None, ..listed("c") });
        let survey = Survey::of(&remains, &[at_hand("a", 9, 90), at_hand("b", 9, 90)]).expect("of this log");
        assert_eq!(survey.missing(), ["c"]);
        assert!(!survey.is_complete(&continued(9, 90)));
    }

    #[test]
    fn the_furthest_local_log_continues_unless_the_store_is_as_far() {
        assert_eq!(survey(&[at_hand("a", 9, 90), at_hand("b", 8, 80)]).continues(), None);
        assert_eq!(survey(&[at_hand("a", 10, 91), at_hand("b", 12, 95)]).continues(), Some(1));
        // A memory may know of an adoption that its local log has not seen.
        let mut knows = at_hand("b", 8, 80);
        knows.remembered.generation = 2;
        assert_eq!(survey(&[at_hand("a", 9, 90), knows]).continues(), None);
        // A log of a later generation continues, wherever it ends.
        let mut later = at_hand("b", 4, 40);
        later.identity.fence_base += 1;
        assert_eq!(survey(&[at_hand("a", 12, 95), later]).continues(), Some(1));
    }

    #[test]
    fn everything_rises_above_what_is_known() {
        let mut knows = at_hand("b", 12, 95);
        (knows.remembered.progress.frame, knows.remembered.progress.epoch) = (14, 8);
        knows.remembered.generation = 3;
        let survey = survey(&[at_hand("a", 9, 90), knows]);
        let plan = survey.plan(&remains(), &continued(12, 95), &given(None));
        assert_eq!((plan.meta.generation, plan.writer.epoch), (4, 9));
        assert_eq!((plan.head.frame, plan.floor.frame), (15, 16));
        assert_eq!((plan.head.lsn, plan.meta.identity_since), (95 + LEFT_OUT, 96 + LEFT_OUT));
        assert!(plan.meta.fence_base > remains().meta.fence_base + 95);
        assert_ne!(plan.head.chain, 42, "no local log of an earlier generation ends like that");
        assert_eq!(plan.meta.former_tags, [remains().meta.tag]);
    }

    #[test]
    fn grants_wait_for_the_longest_ttl_or_a_day_where_records_may_be_lost() {
        let both = [at_hand("a", 9, 90), at_hand("b", 9, 90)];
        let wait = |at_hand: &[AtHand], continued: Continued, longest: Option<u64>| {
            let plan = survey(at_hand).plan(&remains(), &continued, &given(longest));
            // The next leader continues from the last barrier.
            assert_eq!(plan.meta.not_before_tick, 60_000 + plan.wait_ms);
            plan.wait_ms
        };
        let whole = continued(9, 90);
        assert_eq!(wait(&both, whole, None), 10_000);
        assert_eq!(wait(&both, whole, Some(1_000)), 1_000);
        assert_eq!(wait(&both[..1], whole, None), ASSUMED_TTL_MS, "a memory is missing");
        assert_eq!(wait(&[], whole, None), ASSUMED_TTL_MS, "nothing is at hand");
        let fork = Continued { has_store_end: false, ..whole };
        assert_eq!(wait(&both, fork, None), ASSUMED_TTL_MS, "records that only the store has");
        let mut saw_more = both.clone();
        saw_more[1].remembered.progress.frame = 11;
        assert_eq!(wait(&saw_more, whole, None), ASSUMED_TTL_MS, "a frame that was seen and not copied");
    }
}
