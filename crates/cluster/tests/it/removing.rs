//! An operator removes a node that is lost while nodes report about themselves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_cluster::store::{Op, Ranged, Stepped, Store, StoreError, Txn, Watching};
use tenure_cluster::values::{Node, decode, encode};
use tenure_cluster::{Remembered, Removed, Trust, forget};

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
    let put = Op::Put { key: keys().node("b"), value: encode(node) };
    Txn { then: vec![put], ..Txn::default() }
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

/// Its new entry was replaced by what was read before, without its memory: no node would have waited for that.
#[test]
fn a_node_that_reports_while_it_is_removed_stays_on_the_list() {
    let (done, entry) = removed(Some(&node("of b")), Some(&node("of a later b")));
    assert_eq!((done, entry), (Removed::Changed, Some(node("of a later b"))));
}
