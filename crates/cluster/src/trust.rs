//! Decides whether a node may claim the log of a store that may have been restored from a backup (record 0073). Pure: the
//! input is the node's memory, reads of the store and answers of other nodes. A node that was not in touch all the time is
//! in *doubt*: it follows, but claims nothing until the leader, or every node that may know more, has answered.
//!
//! Invariant: a node that is not in doubt knows of no [`Progress`] that the store lacks; a node that answers has written
//! down which node asked, so that the asking node is known to those that are asked next time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::listing::ListedNode;
use crate::planted::{Planted, has};
use crate::values::{Beat, Head, Meta, Node, Standing, Writer};

/// How long a node may be out of touch and still know what happened. It rests on this: a backup that is put back is older,
/// and what a node knows is on its disk within two seconds.
pub const TOUCH_MS: u64 = 60_000;
/// How long one who asked is remembered before it has to be listed.
const ASKED_MS: u64 = 2 * TOUCH_MS;
/// Memories that one node has taken the place of, at most.
const FORMER_MAX: usize = 16;

/// How far a log had come. Each step of the protocol raises a number, and none falls but in a store that was put back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The newest claim.
    pub epoch: u64,
    /// How that claim stood: 0 writes, 1 resigned, 2 over for good.
    #[serde(default)]
    pub standing: u8,
    /// The last frame's number.
    #[serde(default)]
    pub frame: u64,
    /// Its checksum.
    #[serde(default)]
    pub chain: u32,
    /// The leader's last proof of life: epoch and counter.
    #[serde(default)]
    pub beat: (u64, u64),
    /// The store's revision.
    pub revision: u64,
}

/// What a node remembers, on its disk and in answers to others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Which log.
    pub log_id: u64,
    /// Which generation of it.
    pub generation: u64,
    /// How far it had come.
    #[serde(flatten)]
    pub progress: Progress,
    /// Random; whose memory this is. Another directory is another memory, whatever its node is called.
    #[serde(default)]
    pub memory: String,
    /// Memories of nodes in whose place this one came, while a leader knew everything they did.
    #[serde(default)]
    pub former: Vec<String>,
    /// Other memories that may have more.
    #[serde(default)]
    pub others: BTreeMap<String, Peer>,
}

/// A node that has a memory of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub node: String,
    /// Where it is reached.
    pub url: String,
}

/// What one node answers another that asks what it remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Its name.
    pub node: String,
    /// Which run of it.
    pub incarnation: String,
    /// What it remembers.
    #[serde(flatten)]
    pub remembered: Remembered,
    /// The epoch in which it leads at this moment, if it does.
    #[serde(default)]
    pub leads: Option<u64>,
}

/// The store has forgotten something that was there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store lacks changes that {who} has: {what}")]
pub struct Forgot {
    /// Whose memory tells.
    pub who: String,
    /// What is missing.
    pub what: String,
}

/// Why a memory does not fit the log in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It is of another log.
    AnotherLog,
    /// The store has forgotten something.
    Forgot {
        /// What is missing.
        what: String,
    },
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It counts.
    Counts,
    /// It is this node's own.
    Own,
    /// Somebody else listens there, or it is about another log.
    Stranger,
}

/// What a node knows of the store's past, and whether that is enough.
#[derive(Clone, Debug)]
pub struct Trust {
    name: String,
    known: Remembered,
    /// The last instant at which the store was seen; `None`: not since this node runs.
    touched_ms: Option<u64>,
    is_doubtful: bool,
    /// Whether this node has put itself on the store's list since it was in doubt. So it has seen a step of its own, and
    /// a store that is put back later lacks that.
    is_listed: bool,
    /// Whether the list was read since.
    is_list_read: bool,
    /// Names whose entry on the list cannot be decoded: memories of which nothing is known.
    unreadable: BTreeSet<String>,
    /// Memories that were told since the doubt began.
    heard: BTreeSet<String>,
    /// Memories that had this node's name and were removed by an operator.
    removed: Vec<String>,
    /// All memories that were removed, by the list as it was read last.
    forgotten: BTreeSet<String>,
    /// Until when memories are kept that asked and are not listed yet.
    asked: BTreeMap<String, u64>,
}

impl Progress {
    /// How far a store has come.
    #[must_use]
    pub fn of(writer: &Writer, head: &Head, beat: &Beat, revision: u64) -> Self {
        let standing = match writer.standing {
            Standing::Writes => 0,
            Standing::Resigned => 1,
            Standing::Moved { .. } | Standing::Restored { .. } => 2,
        };
        Self {
            epoch: writer.epoch,
            standing,
            frame: head.frame,
            chain: head.chain,
            beat: (beat.epoch, beat.counter),
            revision,
        }
    }

    /// What a store that has come this far lacks of what somebody knows.
    #[must_use]
    pub fn lacks(&self, known: &Self) -> Option<String> {
        if (self.epoch, self.standing) < (known.epoch, known.standing) {
            return Some(format!("its leader epoch is {}, but a node has seen {}", self.epoch, known.epoch));
        }
        if self.frame < known.frame {
            return Some(format!(
                "it ends with frame {}, but a node has seen frame {}",
                self.frame, known.frame
            ));
        }
        if self.frame == known.frame && self.chain != known.chain && known.frame > 0 {
            return Some(format!("its frame {} is not the one that a node has seen", self.frame));
        }
        if self.beat < known.beat {
            let ((epoch, counter), (known_epoch, known_counter)) = (self.beat, known.beat);
            return Some(format!(
                "its leader's last barrier is {epoch}/{counter}, but a node has seen {known_epoch}/{known_counter}"
            ));
        }
        if self.revision < known.revision {
            return Some(format!(
                "it is at revision {}, but a node has seen {}",
                self.revision, known.revision
            ));
        }
        None
    }

    /// Goes as far as another.
    pub fn raise(&mut self, other: &Self) {
        (self.epoch, self.standing) = (self.epoch, self.standing).max((other.epoch, other.standing));
        if self.frame < other.frame {
            (self.frame, self.chain) = (other.frame, other.chain);
        }
        self.beat = self.beat.max(other.beat);
        self.revision = self.revision.max(other.revision);
    }
}

impl Remembered {
    /// Whether a memory is this one, or one in whose place it came.
    #[must_use]
    pub fn is_of(&self, memory: &str) -> bool {
        self.memory == memory || self.former.iter().any(|former| former == memory)
    }

    /// What is remembered next, where this was written down before: no number falls within a generation, and no earlier
    /// generation comes back.
    #[must_use]
    pub fn risen(&self, known: Self) -> Self {
        if known.generation > self.generation {
            return known;
        }
        if (known.log_id, known.generation) != (self.log_id, self.generation) {
            return self.clone();
        }
        let mut risen = known;
        let known = std::mem::replace(&mut risen.progress, self.progress.clone());
        risen.progress.raise(&known);
        risen
    }

    /// What counts of this memory when its node starts with the log that the store has now. Of an earlier generation only
    /// whose memory it is counts: the rest was looked at when the log was adopted or moved.
    ///
    /// # Errors
    /// When the store has another log, or has forgotten something of this one.
    pub fn carried_over(&self, meta: &Meta, store: &Progress) -> Result<Self, Misfit> {
        let is_newer = meta.generation > self.generation;
        if meta.log_id != self.log_id && !(is_newer && meta.parent_log_id == self.log_id) {
            return Err(Misfit::AnotherLog);
        }
        if is_newer {
            return Ok(Self {
                log_id: meta.log_id,
                generation: meta.generation,
                memory: self.memory.clone(),
                ..Self::default()
            });
        }
        let what = if meta.generation < self.generation {
            Some(format!("it is in generation {}, but a node has seen {}", meta.generation, self.generation))
        } else {
            store.lacks(&self.progress)
        };
        what.map_or_else(|| Ok(self.clone()), |what| Err(Misfit::Forgot { what }))
    }
}

impl Trust {
    /// One who starts is in doubt. `known` is what it remembers of this generation of this log.
    #[must_use]
    pub fn new(name: String, known: Remembered) -> Self {
        Self {
            name,
            known,
            touched_ms: None,
            is_doubtful: true,
            is_listed: false,
            is_list_read: false,
            unreadable: BTreeSet::new(),
            heard: BTreeSet::new(),
            removed: Vec::new(),
            forgotten: BTreeSet::new(),
            asked: BTreeMap::new(),
        }
    }

    /// What this node has to remember.
    #[must_use]
    pub fn remembered(&self) -> &Remembered {
        &self.known
    }

    /// Whether this node cannot tell what the store may have forgotten.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Whether this node may claim.
    #[must_use]
    pub fn may_claim(&self, now_ms: u64) -> bool {
        let in_touch = self.touched_ms.is_some_and(|touched_ms| now_ms <= touched_ms + TOUCH_MS);
        has(Planted::ClaimInDoubt) || (!self.is_doubtful && self.is_listed && in_touch)
    }

    /// Memories that have to be heard, unless a leader is, and whose they are.
    #[must_use]
    pub fn missing(&self) -> Vec<(String, Peer)> {
        let missing = self.known.others.iter().filter(|(memory, _)| !self.heard.contains(*memory));
        missing.map(|(memory, peer)| (memory.clone(), peer.clone())).collect()
    }

    /// The names of the nodes that have to be heard, unless a leader is.
    #[must_use]
    pub fn missing_nodes(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.missing().into_iter().map(|(_, peer)| peer.node).collect();
        names.extend(self.unreadable.iter().cloned());
        names.into_iter().collect()
    }

    /// The names whose entry on the list cannot be decoded.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        self.unreadable.iter().map(String::as_str)
    }

    /// Takes in how far the store has come, as it was at this instant or a little before.
    ///
    /// # Errors
    /// When it lacks what this node knows. That may be an old answer: a fresh one decides.
    pub fn saw(&mut self, now_ms: u64, store: &Progress) -> Result<(), Forgot> {
        if has(Planted::MemoryFalls) {
            self.known.progress.clone_from(store);
        }
        if let Some(what) = store.lacks(&self.known.progress) {
            return Err(Forgot { who: self.name.clone(), what });
        }
        self.touch(now_ms);
        self.known.progress.raise(store);
        Ok(())
    }

    /// The store told of a change, on a watch that began when it was compared.
    pub fn told(&mut self, now_ms: u64, revision: u64) {
        if revision > self.known.progress.revision {
            self.known.progress.revision = revision;
            self.touch(now_ms);
        }
    }

    /// This node's copy of the log has come this far.
    pub fn copied(&mut self, frame: u64, chain: u32) {
        self.known.progress.raise(&Progress { frame, chain, ..Progress::default() });
    }

    /// This node led, and its last step that counted was sent at this instant.
    pub fn led(&mut self, proved_ms: u64, progress: &Progress) {
        self.touched_ms = self.touched_ms.max(Some(proved_ms));
        self.known.progress.raise(progress);
    }

    /// Takes in who is listed in the store.
    pub fn listed(&mut self, now_ms: u64, list: &[ListedNode]) {
        let unreadable = list.iter().filter(|listed| listed.node.is_none());
        self.unreadable = unreadable.map(|listed| listed.name.clone()).collect();
        let nodes: Vec<(&String, &Node)> =
            list.iter().filter_map(|listed| Some((&listed.name, listed.node.as_ref()?))).collect();
        let is_mine = |(name, node): &(&String, &Node)| {
            **name == self.name && node.memory == self.known.memory && !node.is_forgotten
        };
        self.is_listed &= nodes.iter().any(is_mine);
        self.is_list_read = true;
        self.asked.retain(|_, until_ms| now_ms < *until_ms);
        if !self.is_doubtful {
            // In touch: the list is what counts, and who has just asked.
            let asked = &self.asked;
            self.known.others.retain(|memory, _| asked.contains_key(memory));
        }
        self.forgotten = nodes.iter().flat_map(|(_, node)| removed(node)).collect();
        for (name, node) in &nodes {
            self.known.others.retain(|memory, peer| !node.forgets(name, memory, peer));
            if **name == self.name {
                self.removed = removed(node);
                self.removed.retain(|memory| *memory != self.known.memory);
            }
        }
        for (name, node) in nodes.iter().filter(|(_, node)| !node.is_forgotten) {
            if node.memory != self.known.memory {
                let peer = Peer { node: (*name).clone(), url: node.url.clone() };
                self.known.others.insert(node.memory.clone(), peer);
            }
        }
        if has(Planted::ForgettingEndsWait) && nodes.iter().any(|(_, node)| node.is_forgotten) {
            self.known.others.clear();
        }
        self.conclude();
    }

    /// What the list has of a node after an operator has removed it for good: memories that no node waits for. `listed` is
    /// what the list has of it now. `None`: neither the list nor this node knows it.
    #[must_use]
    pub fn forget(&self, name: &str, listed: Option<&Node>) -> Option<Node> {
        let of_name = self.known.others.iter().filter(|(_, peer)| peer.node == name);
        let of_name: Vec<String> = of_name.map(|(memory, _)| memory.clone()).collect();
        if listed.is_none() && of_name.is_empty() {
            return None;
        }
        let node = listed.cloned().unwrap_or_default();
        let mut forgotten = node.forgotten.clone();
        forgotten.extend(of_name.into_iter().filter(|memory| *memory != node.memory));
        Some(Node { is_forgotten: true, forgotten: newest(forgotten), ..node })
    }

    /// Memories that had this node's name and were removed: its entry on the list goes on naming them.
    #[must_use]
    pub fn removed(&self) -> &[String] {
        &self.removed
    }

    /// Whether this node is to put itself on the list.
    #[must_use]
    pub fn wants_listing(&self) -> bool {
        !self.is_listed && (!self.is_doubtful || self.is_all_heard())
    }

    /// This node has put itself on the list; the store was at this revision then.
    pub fn enlisted(&mut self, now_ms: u64, revision: u64) {
        self.told(now_ms, revision);
        self.is_listed = true;
        if self.is_doubtful && !has(Planted::HeardOnce) {
            self.is_list_read = false;
            self.heard.clear();
        }
        self.conclude();
    }

    /// Somebody asks what this node remembers. `true`: that is to be on disk before it is answered.
    pub fn asked(&mut self, now_ms: u64, memory: &str, peer: Peer) -> bool {
        // While this node is listed, another one with its name does not run once it was answered: it is not waited for.
        let is_double = peer.node == self.name && self.is_listed;
        if memory == self.known.memory || is_double || has(Planted::AskerNotRemembered) {
            return false;
        }
        self.asked.insert(memory.to_owned(), now_ms + ASKED_MS);
        self.known.others.insert(memory.to_owned(), peer.clone()) != Some(peer)
    }

    /// Takes in what a node told. `store` is how far the store was seen to have come *after* that.
    ///
    /// # Errors
    /// When the store lacks what that node knows.
    pub fn heard(&mut self, told: &Told, store: &Progress) -> Result<Heard, Forgot> {
        let theirs = &told.remembered;
        if theirs.memory == self.known.memory {
            if has(Planted::HearsItself) {
                self.heard.extend(self.known.others.keys().cloned());
                self.conclude();
            }
            return Ok(Heard::Own);
        }
        let memories = || theirs.former.iter().chain([&theirs.memory]);
        let is_known = memories().any(|memory| self.known.others.contains_key(memory));
        if !is_known || theirs.log_id != self.known.log_id {
            return Ok(Heard::Stranger);
        }
        if theirs.generation > self.known.generation {
            let (now, was) = (self.known.generation, theirs.generation);
            let what = format!("it is in generation {now}, but a node has seen {was}");
            return Err(Forgot { who: told.node.clone(), what });
        }
        if theirs.generation == self.known.generation {
            if let Some(what) = store.lacks(&theirs.progress) {
                return Err(Forgot { who: told.node.clone(), what });
            }
            if self.is_doubtful && !has(Planted::ListAloneCounts) {
                // Those whom it knows of may know more as well.
                let is_other = |memory: &str| memory != self.known.memory && !self.forgotten.contains(memory);
                for (memory, peer) in theirs.others.iter().filter(|(memory, _)| is_other(memory)) {
                    self.known.others.entry(memory.clone()).or_insert_with(|| peer.clone());
                }
            }
            if told.leads == Some(store.epoch) && store.standing == 0 {
                self.is_doubtful = false;
            }
        }
        self.heard.extend(memories().cloned());
        self.conclude();
        Ok(Heard::Counts)
    }

    /// This node takes the place of another under its name: what that one knew, the leader knew when it was asked.
    pub fn replaces(&mut self, memory: &str) {
        if !memory.is_empty()
            && memory != self.known.memory
            && !self.known.former.iter().any(|known| known == memory)
        {
            self.known.former.push(memory.to_owned());
            let over = self.known.former.len().saturating_sub(FORMER_MAX);
            self.known.former.drain(..over);
        }
    }

    /// A node with this memory answers after all: this node did not come in its place.
    pub fn lives(&mut self, memory: &str) {
        self.known.former.retain(|former| former != memory);
    }

    fn conclude(&mut self) {
        if self.is_listed && self.is_all_heard() {
            self.is_doubtful = false;
        }
    }

    /// Every node was heard that may know more.
    fn is_all_heard(&self) -> bool {
        let is_list_known = self.is_list_read && self.unreadable.is_empty();
        (is_list_known || has(Planted::UnreadListCounts))
            && self.known.others.keys().all(|memory| self.heard.contains(memory))
    }

    /// In touch. Who was not for long does not know what it missed.
    fn touch(&mut self, now_ms: u64) {
        let was_ms = self.touched_ms.replace(now_ms);
        if was_ms.is_some_and(|was_ms| now_ms > was_ms + TOUCH_MS) && !has(Planted::TrustWithoutTouch) {
            (self.is_doubtful, self.is_listed, self.is_list_read) = (true, false, false);
            self.heard.clear();
        }
    }
}

/// The removed memories that an entry of the list names.
fn removed(node: &Node) -> Vec<String> {
    let own = Some(&node.memory).filter(|memory| node.is_forgotten && !memory.is_empty());
    newest(node.forgotten.iter().chain(own).cloned().collect())
}

/// The newest memories, each once, as many as are kept.
fn newest(memories: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for memory in memories {
        if !kept.contains(&memory) {
            kept.push(memory);
        }
    }
    kept.drain(..kept.len().saturating_sub(FORMER_MAX));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(name: &str, others: &[(&str, &str)]) -> Trust {
        let peer = |node: &str| Peer { node: node.to_owned(), url: String::new() };
        let others = others.iter().map(|(memory, node)| ((*memory).to_owned(), peer(node)));
        let known =
            Remembered { memory: format!("of {name}"), others: others.collect(), ..Remembered::default() };
        Trust::new(name.to_owned(), known)
    }

    fn node(memory: &str) -> Node {
        Node { memory: memory.to_owned(), ..Node::default() }
    }

    fn listed(name: &str, node: Option<Node>) -> ListedNode {
        ListedNode { name: name.to_owned(), bytes: Vec::new(), node }
    }

    // Its memory was not waited for: a node claimed a log of which that one may have known more.
    #[test]
    fn a_node_whose_entry_cannot_be_decoded_is_waited_for_until_an_operator_removes_it() {
        let mut trust = trust("a", &[]);
        trust.listed(0, &[listed("b", None)]);
        assert!(!trust.wants_listing());
        trust.enlisted(0, 1);
        trust.listed(0, &[listed("a", Some(node("of a"))), listed("b", None)]);
        assert!(trust.is_doubtful() && trust.missing_nodes() == ["b"]);
        let removed = trust.forget("b", Some(&Node::default())).expect("it is listed");
        trust.listed(0, &[listed("a", Some(node("of a"))), listed("b", Some(removed))]);
        assert!(!trust.is_doubtful() && trust.missing_nodes().is_empty());
    }

    // Without the list nobody is known who may know more: such a node would put itself on the list and claim.
    #[test]
    fn a_node_that_has_not_read_the_list_neither_lists_itself_nor_claims() {
        let mut trust = trust("a", &[]);
        trust.saw(0, &Progress::default()).unwrap();
        assert!(!trust.wants_listing(), "it does not know yet whom it has to hear");
        trust.enlisted(0, 1);
        assert!(trust.is_doubtful() && !trust.may_claim(0));
        // Out of touch it is to be read again.
        let listed = [listed("a", Some(node("of a")))];
        trust.listed(0, &listed);
        assert!(!trust.is_doubtful() && trust.may_claim(0));
        trust.saw(TOUCH_MS + 1, &Progress { revision: 1, ..Progress::default() }).unwrap();
        assert!(!trust.wants_listing() && !trust.may_claim(TOUCH_MS + 1));
        trust.listed(TOUCH_MS + 1, &listed);
        assert!(trust.wants_listing() && !trust.may_claim(TOUCH_MS + 1));
    }

    #[test]
    fn a_node_is_forgotten_if_the_list_or_a_memory_has_it() {
        let own = trust("a", &[("of b", "b"), ("of b before", "b")]);
        assert_eq!(own.forget("c", None), None);
        let unlisted = own.forget("b", None).expect("it is remembered");
        assert!(unlisted.is_forgotten && unlisted.forgotten == ["of b", "of b before"]);
        let listed = own.forget("b", Some(&node("of b"))).expect("it is listed");
        assert!(listed.memory == "of b" && listed.forgotten == ["of b before"]);
        // Once more, at a node that knows nothing of it.
        let again = trust("c", &[]).forget("b", Some(&listed)).expect("it is listed");
        assert_eq!(again, listed);
    }

    // The name counted, so that a node did not wait for a memory that had the name later.
    #[test]
    fn who_has_the_name_of_a_forgotten_node_is_waited_for() {
        let mut trust = trust("a", &[("of b", "b"), ("of a later b", "b")]);
        let entry = Node { is_forgotten: true, ..node("of b") };
        trust.listed(0, &[listed("b", Some(entry))]);
        let missing: Vec<String> = trust.missing().into_iter().map(|(memory, _)| memory).collect();
        assert_eq!(missing, ["of a later b"]);
        // As earlier versions wrote it.
        trust.listed(0, &[listed("b", Some(Node { is_forgotten: true, ..Node::default() }))]);
        assert!(trust.missing().is_empty());
    }

    // A node that was asked by one that was refused for its name waited for that one.
    #[test]
    fn a_listed_node_does_not_wait_for_one_that_asked_under_its_name() {
        let peer = |node: &str| Peer { node: node.to_owned(), url: String::new() };
        let mut trust = trust("a", &[]);
        assert!(trust.asked(0, "of another a", peer("a")), "either may be the one that goes on");
        trust.listed(0, &[]);
        trust.enlisted(0, 1);
        assert!(!trust.asked(0, "of a third a", peer("a")) && trust.asked(0, "of b", peer("b")));
        let missing: Vec<String> = trust.missing().into_iter().map(|(memory, _)| memory).collect();
        assert_eq!(missing, ["of another a", "of b"]);
    }

    #[test]
    fn a_node_does_not_answer_for_a_memory_whose_node_lives() {
        let mut trust = trust("a", &[]);
        trust.replaces("of a before");
        trust.replaces("of a once");
        trust.lives("of a before");
        assert_eq!(trust.remembered().former, ["of a once"]);
    }

    // The entry of the new node replaced that of the forgotten node, and other nodes waited for it again.
    #[test]
    fn the_entry_of_who_takes_a_forgotten_name_still_says_so() {
        let mut trust = trust("b", &[]);
        let forgotten = vec!["of b before".to_owned()];
        let entry = Node { is_forgotten: true, forgotten, ..node("of b once") };
        trust.listed(0, &[listed("b", Some(entry))]);
        assert_eq!(trust.removed(), ["of b before", "of b once"]);
    }
}
