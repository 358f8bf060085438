//! A store in memory whose keys have what a cluster puts there, but for one, which must not harm its readers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tenure_cluster::growth::{Compaction, Growth};
use tenure_cluster::moving;
use tenure_cluster::pieces::{pack_piece, snapshot_hash};
use tenure_cluster::store::{Compare, KeyValue, Op, Ranged, Stepped, Store, StoreError, Txn, Watching};
use tenure_cluster::values::{Beat, Floor, Head, Meta, Node, Standing, Writer, decode, encode};
use tenure_cluster::{BootOptions, Claimant, Claimed, Keys, Lookout, Memory, Next, Term, boot, copy_whole};
use tenure_history::{LogTag, rfc3339};
use tenure_log::{FileLogOptions, Genesis, Identity, LogEnd, Lsn, Moment, RealDisk};

/// Which key has the bytes: the first byte of an input says so.
#[derive(Clone, Copy)]
enum Place {
    Meta,
    Writer,
    Head,
    Beat,
    Floor,
    Node,
    Piece,
    Frame,
}

const PLACES: [Place; 8] = [
    Place::Meta,
    Place::Writer,
    Place::Head,
    Place::Beat,
    Place::Floor,
    Place::Node,
    Place::Piece,
    Place::Frame,
];
const WITHIN: Duration = Duration::from_secs(1);
const SEGMENT_BYTES: u64 = 64 << 10;
const SNAPSHOT_LSN: u64 = 7;
const FRAMES: u64 = 3;
const NOW_MS: u64 = 1_000_000;

/// Keys and what they have.
struct Shelf {
    keys: Keys,
    kept: Mutex<BTreeMap<String, Vec<u8>>>,
}

/// Inputs that are as they should be, one or two for each key.
pub(crate) fn seeds(state: &[u8]) -> Vec<Vec<u8>> {
    let shelf = Shelf::sound(state);
    let mut seeds = Vec::new();
    for (number, place) in PLACES.into_iter().enumerate() {
        let key = shelf.key(place);
        let mut seed = vec![number as u8];
        seed.extend_from_slice(&shelf.kept.lock().expect("one thread")[&key]);
        seeds.push(seed);
    }
    let moved = Writer { standing: Standing::Moved { to: "/somewhere".to_owned() }, ..writer() };
    for value in [moved, Writer { standing: Standing::Resigned, ..writer() }] {
        seeds.push([&[1], &encode(&value)[..]].concat());
    }
    let edges: Vec<Vec<u8>> = seeds.iter().flat_map(|seed| at_the_edge(seed)).collect();
    seeds.extend(edges);
    seeds
}

/// The same with one of its numbers so large that counting on from it goes wrong: no damage hits a number so well.
fn at_the_edge(seed: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = str::from_utf8(&seed[1..]) else { return Vec::new() };
    let mut edges = Vec::new();
    for (at, _) in text.match_indices("\":") {
        let (before, after) = text.split_at(at + 2);
        let rest = after.trim_start_matches(|character: char| character.is_ascii_digit());
        if rest.len() < after.len() {
            for edge in [u64::MAX, i64::MAX as u64] {
                edges.push(
                    [&seed[..1], before.as_bytes(), edge.to_string().as_bytes(), rest.as_bytes()].concat(),
                );
            }
        }
    }
    edges
}

/// Reads the values as a node does that boots, follows, claims and writes, without its disk.
pub(crate) fn read_values(input: &[u8], state: &[u8]) -> bool {
    let Some(shelf) = Shelf::with(input, state) else { return false };
    let accepted = shelf.look_out();
    let _ = Growth::begin(&shelf, shelf.keys.clone(), encode(&writer()), Compaction::WhileAlone);
    if let Ok(stands) = moving::require_idle(&shelf, &shelf.keys, &mut |_| {}) {
        let _ = LogTag::of(&stands.meta.identity()).to_string();
        let _ = rfc3339(stands.writer.wall_ms);
        let _ = stands.meta.identity().fence(Lsn(stands.head.lsn).next());
        let _ = moving::give_away(&shelf, &shelf.keys, &stands, "/elsewhere");
        let _ = moving::activate(&shelf, &shelf.keys);
    }
    let text = String::from_utf8_lossy(input);
    let _ = (shelf.keys.frame_number(&text), shelf.keys.piece_number(&text));
    accepted
}

/// Boots a node from what the store has, and copies a whole log out of it.
pub(crate) fn boot_from(input: &[u8], state: &[u8], directory: &TempDir) -> bool {
    let Some(shelf) = Shelf::with(input, state) else { return false };
    let roots = ["booted", "copied"].map(|name| directory.path().join(name));
    for root in &roots {
        let _ = std::fs::remove_dir_all(root);
        if std::fs::create_dir_all(root).is_err() {
            return false;
        }
    }
    let [booted, copied] = roots.each_ref().map(|root| BootOptions {
        store: &shelf,
        keys: &shelf.keys,
        disk: Arc::new(RealDisk),
        root,
        options: options(),
        secret: String::new(),
        writer_ttl_ms: 1_000,
        node: "a",
        memory: "00aa".to_owned(),
    });
    let memory = Memory::at(booted.root);
    let mut accepted = copy_whole(&copied).is_ok();
    for _ in 0..2 {
        accepted |= boot(&booted, &memory).is_ok_and(|found| {
            assert_eq!(found.mirror.identity().log_id, found.meta.log_id, "a copy is of its log");
            true
        });
    }
    accepted
}

fn options() -> FileLogOptions {
    let genesis = Genesis { random: [7; 16], unix_seconds: 1_700_000_000, shard: 0 };
    FileLogOptions { segment_bytes: SEGMENT_BYTES, free_bytes_min: 0, ..FileLogOptions::new(genesis, NOW_MS) }
}

fn identity() -> Identity {
    options().genesis.identity()
}

fn writer() -> Writer {
    Writer {
        epoch: 3,
        claim: "0123456789abcdef0123456789abcdef".to_owned(),
        node: "a".to_owned(),
        incarnation: "00ff".to_owned(),
        url: "http://127.0.0.1:5641".to_owned(),
        writer_ttl_ms: 1_000,
        tick: 40,
        wall_ms: 1_700_000_000_000,
        standing: Standing::Writes,
    }
}

impl Shelf {
    /// A log that begins with a snapshot and has a few frames.
    fn sound(state: &[u8]) -> Self {
        let keys = Keys::under("fuzz");
        let identity = identity();
        let mut kept = BTreeMap::new();
        let meta = Meta::of(&identity, Lsn(1), 0, "a secret of thirty-two characters".to_owned());
        let mut end = LogEnd { last_lsn: Lsn(SNAPSHOT_LSN), ..LogEnd::default() };
        let floor = Floor {
            frame: 1,
            end: Head::of(0, &end),
            snapshot_lsn: SNAPSHOT_LSN,
            snapshot_hash: snapshot_hash(state),
            pieces: 1,
            packed_bytes: 1,
            format: 1,
        };
        for number in 1..=FRAMES {
            let mut bytes = Vec::new();
            end = end.open(number, Moment { tick: number * 10, wall_ms: NOW_MS }, identity.salt, &mut bytes);
            kept.insert(keys.frame(number), bytes);
        }
        let node = Node {
            url: "http://127.0.0.1:5641".to_owned(),
            incarnation: "00ff".to_owned(),
            subnets: vec!["10.0.0.0/8".to_owned(), "fe80::/64".to_owned()],
            snapshot_lsn: SNAPSHOT_LSN,
            snapshot_hash: 0,
            version: "0.1.0".to_owned(),
            wall_ms: NOW_MS,
            memory: "00aa".to_owned(),
            format: 1,
            is_forgotten: false,
            forgotten: Vec::new(),
        };
        kept.insert(keys.meta(), encode(&meta));
        kept.insert(keys.writer(), encode(&writer()));
        kept.insert(keys.head(), encode(&Head::of(FRAMES, &end)));
        kept.insert(keys.beat(), encode(&Beat { epoch: 3, counter: 9, tick: 44, frame: FRAMES }));
        kept.insert(keys.floor(), encode(&floor));
        kept.insert(keys.node("a"), encode(&node));
        kept.insert(keys.piece(SNAPSHOT_LSN, 0), pack_piece(state));
        Self { keys, kept: Mutex::new(kept) }
    }

    /// The same with the bytes of an input where its first byte says.
    fn with(input: &[u8], state: &[u8]) -> Option<Self> {
        let (first, value) = input.split_first()?;
        let place = PLACES[*first as usize % PLACES.len()];
        if let Place::Node = place {
            // Shown to people, and nothing else.
            if let Ok(node) = decode::<Node>("node", value) {
                let _ = rfc3339(node.wall_ms);
            }
        }
        let shelf = Self::sound(state);
        shelf.kept.lock().expect("one thread").insert(shelf.key(place), value.to_vec());
        Some(shelf)
    }

    fn key(&self, place: Place) -> String {
        match place {
            Place::Meta => self.keys.meta(),
            Place::Writer => self.keys.writer(),
            Place::Head => self.keys.head(),
            Place::Beat => self.keys.beat(),
            Place::Floor => self.keys.floor(),
            Place::Node => self.keys.node("a"),
            Place::Piece => self.keys.piece(SNAPSHOT_LSN, 0),
            Place::Frame => self.keys.frame(2),
        }
    }

    /// Follows, claims and writes; says whether it got that far.
    fn look_out(&self) -> bool {
        let me = Claimant {
            node: "b".to_owned(),
            incarnation: "01".to_owned(),
            url: "http://127.0.0.1:1".to_owned(),
            writer_ttl_ms: 1_000,
        };
        let mut lookout = Lookout::new(self.keys.clone(), me, 500);
        let kept = self.kept.lock().expect("one thread").clone();
        let [writer, head, beat] = lookout.look().map(|key| kept[&key].clone());
        if lookout.read(NOW_MS, &writer, &head, &beat).is_err() {
            return false;
        }
        for (key, value) in &kept {
            let _ = lookout.saw(NOW_MS, key, value);
        }
        let mut now_ms = NOW_MS;
        for _ in 0..4 {
            match lookout.next(now_ms) {
                Next::Wait { until_ms } => now_ms = until_ms,
                Next::Look => now_ms += 1,
                Next::Claim | Next::FindOut => break,
            }
        }
        let txn = lookout.claim("00".to_owned(), now_ms);
        let Ok(Claimed::Won(won)) = lookout.claimed(now_ms, now_ms, self.step(&txn, WITHIN)) else {
            return false;
        };
        let Ok(mut term) = Term::begin(self.keys.clone(), identity().salt, *won) else { return false };
        let beat = term.beat(50);
        let _ = term.beaten(now_ms, now_ms, self.step(&beat, WITHIN));
        let opening = term.open(Moment { tick: term.head().tick + 1, wall_ms: now_ms });
        let _ = term.appended(now_ms, now_ms, self.step(&opening, WITHIN));
        let look = term.look(60);
        let _ = term.looked(now_ms, self.step(&look, WITHIN));
        let resign = term.resign(70, now_ms);
        self.step(&resign, WITHIN).is_ok()
    }
}

impl Store for Shelf {
    fn step(&self, txn: &Txn, _: Duration) -> Result<Stepped, StoreError> {
        let mut kept = self.kept.lock().expect("one thread");
        let held = txn.compares.iter().all(|compare| match compare {
            Compare::Value { key, value } => kept.get(key) == Some(value),
            Compare::Absent { key } => !kept.contains_key(key),
        });
        let mut found = Vec::new();
        for op in if held { &txn.then } else { &txn.otherwise } {
            match op {
                Op::Put { key, value } => drop(kept.insert(key.clone(), value.clone())),
                Op::Get { key } => found.push(kept.get(key).cloned()),
                Op::Delete { from, to } => kept.retain(|key, _| key < from || key >= to),
            }
        }
        Ok(Stepped { held, found, revision: 1 })
    }

    fn range(&self, from: &str, to: &str, limit: usize, _: Duration) -> Result<Ranged, StoreError> {
        let kept = self.kept.lock().expect("one thread");
        let among = kept.iter().filter(|(key, _)| key.as_str() >= from && key.as_str() < to);
        let found =
            among.map(|(key, value)| KeyValue { key: key.clone(), value: value.clone(), revision: 1 });
        Ok(Ranged { found: found.take(limit).collect(), more: false, revision: 1 })
    }

    fn watch(&self, _: &str, _: &str, _: u64, _: Duration) -> Result<Box<dyn Watching>, StoreError> {
        Err(StoreError::Unanswered { why: "nothing changes here".to_owned() })
    }

    fn compact(&self, _: u64, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}
