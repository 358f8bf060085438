//! An operator removes a node that is lost while nodes report about themselves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_cluster::store::{Op, Ranged, Stepped, Store, StoreError, Txn, Watching};
use tenure_cluster::values::{Node, decode, encode};
use tenure_cluster::{Remembered, Removed, Trust, forget, read_list};

use crate::memory::MemoryStore;
use crate::remote::keys;

/// A store in which something happens right after the list was read.
struct Between<'a> {
    under: Arc<MemoryStore>,
    trust: &'a Mutex<Trust>,
    then: Mutex<Option<Txn>>,
}

impl Store for Between<'_> {
    fn step(&self, txn: &Txn, within: Duration) -> Result<Stepped, StoreError> {
        assert!(self.trust.try_lock().is_ok(), "everybody waits for this step");
        self.under.step(txn, within)
    }

    fn range(&self, from: &str, to: &str, limit: usize, within: Duration) -> Result<Ranged, StoreError> {
        let ranged = self.under.range(from, to, limit, within)?;
        if let Some(then) = self.then.lock().unwrap().take() {
            self.under.step(&then, within)?;
        }
        Ok(ranged)
    }

    fn watch(&self, _: &str, _: &str, _: u64, _: Duration) -> Result<Box<dyn Watching>, StoreError> {
        unreachable!("nothing here watches")
    }

    fn compact(&self, _: u64, _: Duration) -> Result<(), StoreError> {
        unreachable!("nothing here compacts")
    }
}

fn node(memory: &str) -> Node {
    Node { memory: memory.to_owned(), ..Node::default() }
}

fn lists(node: &Node) -> Txn {
    puts(encode(node))
}

fn puts(value: Vec<u8>) -> Txn {
    Txn { then: vec![Op::Put { key: keys().node("b"), value }], ..Txn::default() }
}

/// Removes node b while `then` happens. Gives what came of it, and the entry that is there then.
fn removed(listed: Option<&Node>, then: Option<&Node>) -> (Removed, Option<Node>) {
    let under = MemoryStore::new();
    let trust = Mutex::new(Trust::new("a".to_owned(), Remembered::default()));
    if let Some(listed) = listed {
        under.step(&lists(listed), Duration::ZERO).unwrap();
    }
    let then = Mutex::new(then.map(lists));
    let store = Between { under: Arc::clone(&under), trust: &trust, then };
    let removed = forget(&store, &keys(), "b", &trust).unwrap();
    let key = keys().node("b");
    let found = under.range(&key, &format!("{key}\0"), 1, Duration::ZERO).unwrap().found;
    (removed, found.first().map(|found| decode("nodes", &found.value).unwrap()))
}

#[test]
fn a_lost_node_is_removed_and_one_that_nobody_knows_is_not() {
    let (done, entry) = removed(Some(&node("of b")), None);
    assert_eq!((done, entry), (Removed::Done, Some(Node { is_forgotten: true, ..node("of b") })));
    assert_eq!(removed(None, None), (Removed::Unknown, None));
}

/// No command could remove it, so that the format stayed old for ever and no node could lead without it.
#[test]
fn a_node_whose_entry_cannot_be_decoded_is_removed() {
    let store = MemoryStore::new();
    store.step(&puts(b"{}".to_vec()), Duration::ZERO).unwrap();
    let trust = Mutex::new(Trust::new("a".to_owned(), Remembered::default()));
    assert_eq!(forget(&*store, &keys(), "b", &trust).unwrap(), Removed::Done);
    let list = read_list(&*store, &keys(), Duration::ZERO).unwrap();
    assert!(list[0].node.as_ref().is_some_and(|node| node.is_forgotten), "{list:?}");
}

/// What came behind the first thousand was left out.
#[test]
fn a_list_is_read_to_its_end() {
    let store = MemoryStore::new();
    for number in 0..2_001 {
        let put = Op::Put { key: keys().node(&format!("{number:04}")), value: encode(&node("")) };
        store.step(&Txn { then: vec![put], ..Txn::default() }, Duration::ZERO).unwrap();
    }
    let list = read_list(&*store, &keys(), Duration::ZERO).unwrap();
    let names: Vec<&str> = list.iter().map(|listed| listed.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[2_000]), (2_001, "0000", "2000"));
}

/// Its new entry was replaced by what was read before, without its memory: no node would have waited for that.
#[test]
fn a_node_that_reports_while_it_is_removed_stays_on_the_list() {
    let (done, entry) = removed(Some(&node("of b")), Some(&node("of a later b")));
    assert_eq!((done, entry), (Removed::Changed, Some(node("of a later b"))));
}
