//! The store's list of nodes, and a node's own entry on it. Pure but for [`read_list`]: what the store has and what nodes
//! answer come in, steps go out.
//!
//! Invariant: an entry that another run of a node wrote is replaced only after its address was asked and no other run with
//! this name answered, and only if the store still has that very entry. So of two runs that begin under one name at the
//! same moment, one finds the other. An entry that cannot be decoded stands for a node of which nothing is known: an
//! operator removes it.

use std::time::Duration;

use crate::keys::Keys;
use crate::store::{Compare, Op, Ranged, Stepped, Store, StoreError, Txn};
use crate::trust::Told;
use crate::values::{Node, decode, encode};

/// Entries that are read at once.
const ENTRIES_PER_READ: usize = 1_000;

/// What the list has under one name.
#[derive(Clone, Debug)]
pub struct ListedNode {
    /// The name.
    pub name: String,
    /// The entry, as the store has it.
    pub bytes: Vec<u8>,
    /// The entry, unless it cannot be decoded.
    pub node: Option<Node>,
}

/// Reads the whole list of nodes, however long it is. Each read may take as long as given.
///
/// # Errors
/// When the store does not answer.
pub fn read_list(store: &dyn Store, keys: &Keys, within: Duration) -> Result<Vec<ListedNode>, StoreError> {
    let (first, to) = keys.nodes();
    let mut from = first.clone();
    let mut listed = Vec::new();
    loop {
        let Ranged { found, more, .. } = store.range(&from, &to, ENTRIES_PER_READ, within)?;
        for entry in found {
            from = format!("{}\0", entry.key);
            // Keys of a node's checks stand there for a moment.
            if let Some(name) = entry.key.strip_prefix(&first).filter(|name| !name.starts_with('@')) {
                let node = decode("nodes", &entry.value).ok();
                listed.push(ListedNode { name: name.to_owned(), bytes: entry.value, node });
            }
        }
        if !more {
            return Ok(listed);
        }
    }
}

/// Another node runs under this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Double {
    /// The name.
    pub name: String,
    /// Where the other one answers.
    pub url: String,
}

/// One run of a node, and what the store has under its name.
#[derive(Clone, Debug)]
pub struct Listing {
    key: String,
    name: String,
    incarnation: String,
    entry: Entry,
    /// The entry of another run whose address was asked: no other run with this name answered there.
    asked: Option<Vec<u8>>,
}

/// What the store has under the name, as it was read or put last.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Unread,
    Absent,
    There(Vec<u8>),
}

impl Listing {
    /// A run that has read nothing yet.
    #[must_use]
    pub fn new(keys: &Keys, name: &str, incarnation: &str) -> Self {
        Self {
            key: keys.node(name),
            name: name.to_owned(),
            incarnation: incarnation.to_owned(),
            entry: Entry::Unread,
            asked: None,
        }
    }

    /// Takes in what the store has under the name; `None`: nothing.
    pub fn read(&mut self, entry: Option<&[u8]>) {
        self.entry = entry.map_or(Entry::Absent, |entry| Entry::There(entry.to_vec()));
    }

    /// What the store has under the name.
    #[must_use]
    pub fn there(&self) -> Option<Node> {
        let Entry::There(bytes) = &self.entry else { return None };
        decode("nodes", bytes).ok()
    }

    /// The address to ask before the name is taken: another run wrote the entry.
    #[must_use]
    pub fn asks(&self) -> Option<String> {
        let Entry::There(bytes) = &self.entry else { return None };
        let node = self.there()?;
        (node.incarnation != self.incarnation && self.asked.as_ref() != Some(bytes)).then_some(node.url)
    }

    /// Takes in what was answered at that address; `None`: no node answered.
    ///
    /// # Errors
    /// When another run with this name answered.
    pub fn answered(&mut self, url: &str, told: Option<&Told>) -> Result<(), Double> {
        if let Some(told) = told {
            self.compare(url, told)?;
        }
        if let Entry::There(bytes) = &self.entry {
            self.asked = Some(bytes.clone());
        }
        Ok(())
    }

    /// Compares the answer of any node. Of two runs with one name the one that is listed goes on: the other one finds it.
    ///
    /// # Errors
    /// When it is of another run with this name.
    pub fn compare(&self, url: &str, told: &Told) -> Result<(), Double> {
        let is_listed = self.there().is_some_and(|node| node.incarnation == self.incarnation);
        if told.node != self.name || told.incarnation == self.incarnation || is_listed {
            return Ok(());
        }
        Err(Double { name: self.name.clone(), url: url.to_owned() })
    }

    /// The step that puts this node on the list and does `more` with it. `None`: the list was not read, another run's
    /// address has to be asked first, or the entry cannot be decoded, so that no address is known.
    #[must_use]
    pub fn put(&self, node: &Node, more: Vec<Op>) -> Option<Txn> {
        let key = self.key.clone();
        let compare = match &self.entry {
            Entry::Unread => return None,
            Entry::Absent => Compare::Absent { key },
            Entry::There(_) if self.there().is_none() || self.asks().is_some() => return None,
            Entry::There(value) => Compare::Value { key, value: value.clone() },
        };
        let put = Op::Put { key: self.key.clone(), value: encode(node) };
        let then = [put].into_iter().chain(more).collect();
        Some(Txn { compares: vec![compare], then, otherwise: vec![Op::Get { key: self.key.clone() }] })
    }

    /// Takes in what came of that step. `false`: the store had another entry, which is looked at now.
    pub fn stepped(&mut self, node: &Node, stepped: &Stepped) -> bool {
        if stepped.held {
            self.entry = Entry::There(encode(node));
        } else {
            self.read(stepped.found.first().and_then(Option::as_deref));
        }
        stepped.held
    }
}

/// The step that puts an operator's entry in the place of a lost node's one; `before`: what the store had under its name.
#[must_use]
pub fn removal(keys: &Keys, name: &str, before: Option<&[u8]>, entry: &Node) -> Txn {
    let key = keys.node(name);
    let compare = match before {
        None => Compare::Absent { key: key.clone() },
        Some(value) => Compare::Value { key: key.clone(), value: value.to_vec() },
    };
    let put = Op::Put { key, value: encode(entry) };
    Txn { compares: vec![compare], then: vec![put], otherwise: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::under("t")
    }

    fn node(run: &str) -> Node {
        Node { url: format!("http://{run}"), incarnation: run.to_owned(), ..Node::default() }
    }

    fn told(name: &str, run: &str) -> Told {
        Told { node: name.to_owned(), incarnation: run.to_owned(), ..Told::default() }
    }

    /// One key, as a store has it.
    #[derive(Default)]
    struct Shelf(Option<Vec<u8>>);

    impl Shelf {
        fn step(&mut self, txn: &Txn) -> Stepped {
            let held = txn.compares.iter().all(|compare| match compare {
                Compare::Value { value, .. } => self.0.as_ref() == Some(value),
                Compare::Absent { .. } => self.0.is_none(),
            });
            let found = if held { Vec::new() } else { vec![self.0.clone()] };
            if let (true, Some(Op::Put { value, .. })) = (held, txn.then.first()) {
                self.0 = Some(value.clone());
            }
            Stepped { held, found, revision: 0 }
        }
    }

    // Each put its entry over the other's, in turn, and both ran.
    #[test]
    fn of_two_runs_that_begin_at_the_same_moment_one_finds_the_other() {
        let mut shelf = Shelf::default();
        let [mut one, mut two] = ["1", "2"].map(|run| Listing::new(&keys(), "a", run));
        for listing in [&mut one, &mut two] {
            listing.read(None);
            assert_eq!(listing.asks(), None);
        }
        let [first, second] =
            [(&one, "1"), (&two, "2")].map(|(listing, run)| listing.put(&node(run), Vec::new()).unwrap());
        let (first, second) = (shelf.step(&first), shelf.step(&second));
        assert!(one.stepped(&node("1"), &first));
        assert!(!two.stepped(&node("2"), &second), "the name was taken meanwhile");
        assert_eq!(two.put(&node("2"), Vec::new()), None, "it asks first");
        assert_eq!(two.asks().as_deref(), Some("http://1"));
        let double = two.answered("http://1", Some(&told("a", "1"))).unwrap_err();
        assert_eq!(double, Double { name: "a".to_owned(), url: "http://1".to_owned() });
        assert_eq!(two.put(&node("2"), Vec::new()), None, "it has not got the name");
        assert_eq!(shelf.0, Some(encode(&node("1"))));
    }

    // The answer counted only if it was of the run that is listed, and a run is not listed before it has found out enough.
    #[test]
    fn any_other_run_that_answers_for_the_name_counts() {
        let mut listing = Listing::new(&keys(), "a", "2");
        listing.read(Some(&encode(&node("0"))));
        let url = listing.asks().unwrap();
        assert!(listing.answered(&url, Some(&told("a", "1"))).is_err());
        assert!(listing.compare("http://anywhere", &told("a", "1")).is_err());
        for fine in [told("b", "1"), told("a", "2")] {
            assert_eq!(listing.compare("http://anywhere", &fine), Ok(()));
        }
        // Both would stop.
        listing.read(Some(&encode(&node("2"))));
        assert_eq!(listing.compare("http://anywhere", &told("a", "1")), Ok(()));
    }

    #[test]
    fn a_name_is_taken_over_once_nobody_answers_for_it_and_only_from_the_entry_that_was_asked() {
        let mut shelf = Shelf(Some(encode(&node("1"))));
        let mut listing = Listing::new(&keys(), "a", "2");
        assert_eq!(listing.put(&node("2"), Vec::new()), None, "the list was not read");
        listing.read(shelf.0.as_deref());
        let url = listing.asks().unwrap();
        listing.answered(&url, None).unwrap();
        let txn = listing.put(&node("2"), Vec::new()).unwrap();
        // The other one comes back before it is done.
        shelf.0 = Some(encode(&Node { wall_ms: 1, ..node("1") }));
        let stepped = shelf.step(&txn);
        assert!(!listing.stepped(&node("2"), &stepped));
        let url = listing.asks().unwrap();
        listing.answered(&url, Some(&told("b", "3"))).unwrap();
        let stepped = shelf.step(&listing.put(&node("2"), Vec::new()).unwrap());
        assert!(listing.stepped(&node("2"), &stepped) && listing.asks().is_none());
        assert_eq!(shelf.0, Some(encode(&node("2"))));
        // From then on it is its own.
        let stepped = shelf.step(&listing.put(&Node { wall_ms: 9, ..node("2") }, Vec::new()).unwrap());
        assert!(listing.stepped(&Node { wall_ms: 9, ..node("2") }, &stepped));
    }

    // It was replaced, and whose it was not asked.
    #[test]
    fn an_entry_that_cannot_be_decoded_is_not_replaced() {
        let mut listing = Listing::new(&keys(), "a", "1");
        listing.read(Some(b"{}"));
        assert_eq!((listing.asks(), listing.put(&node("1"), Vec::new())), (None, None));
        let removed = Node { is_forgotten: true, ..Node::default() };
        listing.read(Some(&encode(&removed)));
        let url = listing.asks().unwrap();
        listing.answered(&url, None).unwrap();
        assert!(listing.put(&node("1"), Vec::new()).is_some(), "an operator has removed it");
    }

    #[test]
    fn a_run_whose_entry_another_run_replaced_finds_that_one() {
        let mut listing = Listing::new(&keys(), "a", "1");
        listing.read(Some(&encode(&node("1"))));
        assert!(listing.put(&node("1"), Vec::new()).is_some());
        listing.read(Some(&encode(&node("2"))));
        assert_eq!(listing.asks().as_deref(), Some("http://2"));
        assert!(listing.answered("http://2", Some(&told("a", "2"))).is_err());
    }
}
