//! An operator of etcd: looks at keys and room, fills it with what is nobody's, and makes room again.

use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tenure_cluster::Keys;
use tenure_cluster::etcd::{AlarmKind, EtcdOptions, EtcdStore};
use tenure_cluster::store::{Compare, KeyValue, Op, Store, StoreError, Txn, WatchEnded};
use tenure_cluster::values::{Floor, decode};

use super::harness::{LIMIT, connect};
use super::store::Member;
use crate::run_support::{let_time_pass, wait_until};

const WITHIN: Duration = Duration::from_secs(5);
/// Far beyond what any of these tests keeps.
const PAGES_MAX: usize = 1_000;
/// Keys that are nobody's lie here.
const FOREIGN: (&str, &str) = ("foreign/", "foreign0");
const PIECE_BYTES: usize = 256 << 10;

/// One who asks a member himself.
pub(crate) struct Operator {
    address: SocketAddr,
    store: EtcdStore,
    filled: usize,
}

impl Operator {
    pub(crate) fn of(member: &Member) -> Self {
        let endpoints = vec![member.address.to_string()];
        let store = EtcdStore::open(EtcdOptions { endpoints, ..EtcdOptions::default() }).unwrap();
        Self { address: member.address, store, filled: 0 }
    }

    /// Everything from `from` up to `to`.
    pub(crate) fn range(&self, from: &str, to: &str) -> Vec<KeyValue> {
        let (mut all, mut from) = (Vec::new(), from.to_owned());
        for _ in 0..PAGES_MAX {
            let ranged = self.store.range(&from, to, 50, WITHIN).unwrap();
            let Some(last) = ranged.found.last() else { return all };
            from = format!("{}\0", last.key);
            all.extend(ranged.found);
        }
        panic!("no end of keys before {to}");
    }

    #[track_caller]
    pub(crate) fn value<T: DeserializeOwned>(&self, key: &str) -> T {
        let found = self.store.range(key, &format!("{key}\0"), 1, WITHIN).unwrap().found;
        decode("a key", &found.first().unwrap_or_else(|| panic!("{key} is missing")).value).unwrap()
    }

    pub(crate) fn floor(&self, keys: &Keys) -> Floor {
        self.value(&keys.floor())
    }

    pub(crate) fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let put = Op::Put { key: key.to_owned(), value: value.to_vec() };
        self.store.step(&Txn { then: vec![put], ..Txn::default() }, WITHIN).map(drop)
    }

    /// Puts a value in the place of another, if that is there.
    pub(crate) fn replace(&self, key: &str, before: &[u8], after: &[u8]) {
        let (key, value) = (key.to_owned(), before.to_vec());
        let put = Op::Put { key: key.clone(), value: after.to_vec() };
        let txn = Txn { compares: vec![Compare::Value { key, value }], then: vec![put], ..Txn::default() };
        self.store.step(&txn, WITHIN).unwrap();
    }

    /// What the member's database takes.
    pub(crate) fn db_bytes(&self) -> u64 {
        self.store.status(&self.address.to_string(), WITHIN).unwrap().db_bytes
    }

    /// What of it is in use; the rest is there to be used again.
    pub(crate) fn db_bytes_in_use(&self) -> u64 {
        self.store.status(&self.address.to_string(), WITHIN).unwrap().db_bytes_in_use
    }

    /// The oldest revision that can still be asked for, if it is not the first.
    pub(crate) fn compacted_upto(&self) -> Option<u64> {
        let mut watching = self.store.watch("a", "b", 1, WITHIN).unwrap();
        match watching.next(Duration::from_millis(300)) {
            Err(WatchEnded::Compacted { oldest }) => Some(oldest),
            Ok(_) | Err(WatchEnded::Broken { .. }) => None,
        }
    }

    /// Puts what is nobody's until the database takes so much.
    #[track_caller]
    pub(crate) fn fill_upto(&mut self, bytes: u64) {
        wait_until("a database that has grown", LIMIT, || {
            let missing = bytes.saturating_sub(self.db_bytes());
            for _ in 0..missing.div_ceil(PIECE_BYTES as u64) {
                self.fill().unwrap();
            }
            let_time_pass(Duration::from_millis(300), "what etcd says of its size is a little old");
            missing == 0
        });
    }

    /// Puts what is nobody's until the member says that it is full.
    #[track_caller]
    pub(crate) fn fill_up(&mut self) {
        for _ in 0..PAGES_MAX {
            match self.fill() {
                Ok(()) => {}
                Err(StoreError::Refused { no_space: true, .. }) => return,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the database is never full");
    }

    fn fill(&mut self) -> Result<(), StoreError> {
        self.filled += 1;
        self.put(&format!("{}{}", FOREIGN.0, self.filled), &vec![b'x'; PIECE_BYTES])
    }

    pub(crate) fn is_full(&self) -> bool {
        self.store.alarms(WITHIN).unwrap().iter().any(|alarm| alarm.kind == AlarmKind::NoSpace)
    }

    /// What the guide says for a full etcd: let go, compact, defragment, disarm.
    #[track_caller]
    pub(crate) fn make_room(&self) {
        // A step may be refused while the database is too large, even one that only deletes; this is not.
        let range = json!({"key": base64(FOREIGN.0), "range_end": base64(FOREIGN.1)});
        self.gateway("/v3/kv/deleterange", &range);
        let revision = self.store.range("\0", "\u{1}", 1, WITHIN).unwrap().revision;
        self.gateway("/v3/kv/compaction", &json!({"revision": revision.to_string(), "physical": true}));
        self.gateway("/v3/maintenance/defragment", &json!({}));
        let raised = self.gateway("/v3/maintenance/alarm", &json!({"action": "GET"}));
        for alarm in raised["alarms"].as_array().into_iter().flatten() {
            let disarm =
                json!({"action": "DEACTIVATE", "memberID": alarm["memberID"], "alarm": alarm["alarm"]});
            self.gateway("/v3/maintenance/alarm", &disarm);
        }
        assert!(!self.is_full());
    }

    #[track_caller]
    fn gateway(&self, path: &str, body: &Value) -> Value {
        let mut http = connect(self.address, Duration::from_secs(10)).unwrap();
        let answered = http.post(path, body);
        assert_eq!(answered.status, 200, "{path}: {answered:?}");
        answered.json()
    }
}

/// As the gateway wants keys, of a few plain bytes.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut written = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            written.push(if place <= three.len() { digit as char } else { '=' });
        }
    }
    written
}
