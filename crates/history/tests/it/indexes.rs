//! An index narrows and never decides.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tempfile::TempDir;
use tenure_history::{
    History, INDEX_HEADER_BYTES, IndexProblem, IndexStore, Key, Maintained, Story, Subject, WhyLimits,
    build_index, fnv1a64, index_name,
};
use tenure_kernel::*;
use tenure_log::{FileLogOptions, OfflineLog};

use crate::support::{CountingDisk, Line, SESSION, Tale, disk, files, granted, options, tale, tale_of};

fn subjects() -> Vec<Subject> {
    let mut subjects: Vec<Subject> = (1..45).map(|lsn| Subject::Lease(LeaseId::new(0, Lsn(lsn)))).collect();
    subjects.extend(
        ["r1", "r2", "gpu/1", "gpu", "mdns/x", "spare", "none"].map(|name| Subject::Resource(name.into())),
    );
    subjects.extend([SESSION, SessionId(1)].map(Subject::Session));
    subjects
}

fn stories(root: &Path) -> Vec<Story> {
    let mut history = History::offline(disk(), root).unwrap();
    subjects().iter().map(|subject| history.why(subject, WhyLimits::default()).unwrap()).collect()
}

/// A log at rest with an index for every sealed segment, and its stories as a scan tells them.
fn indexed() -> (TempDir, Vec<Story>) {
    let (tale, _) = tale();
    let (directory, _) = tale.stop();
    let scanned = stories(directory.path());
    let built = maintain(directory.path());
    let sealed = files(&directory.path().join("log"), ".seg").len() - 1;
    assert!(sealed >= 3, "{sealed}");
    assert_eq!(built, Maintained { built: sealed, removed: 0 });
    (directory, scanned)
}

fn maintain(root: &Path) -> Maintained {
    History::offline(disk(), root).unwrap().maintain_indexes().unwrap()
}

fn indexes(root: &Path) -> Vec<std::path::PathBuf> {
    files(&root.join("log"), ".idx")
}

#[test]
fn stories_are_the_same_with_and_without_an_index() {
    let (directory, scanned) = indexed();
    assert!(scanned.iter().filter(|story| !story.entries.is_empty()).count() > 10);
    assert_eq!(stories(directory.path()), scanned);
    assert_eq!(maintain(directory.path()), Maintained::default());
}

#[test]
fn every_key_of_every_record_leads_to_its_frame() {
    let (directory, _) = indexed();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    let store = IndexStore::new(disk(), &log.directory());
    let mut reader = log.reader().unwrap();
    for segment in store.segments().unwrap() {
        let built = build_index(&mut reader, segment).unwrap().unwrap();
        match store.load(segment) {
            Ok(stored) => assert_eq!(stored, built),
            Err(problem) => {
                assert_eq!(problem, IndexProblem::Missing);
                assert_eq!(Some(segment), store.segments().unwrap().last().copied());
            }
        }
    }
    let first = store.segments().unwrap()[0];
    let alice = store.find(first, &[Key::Lease(Lsn(4))]).unwrap();
    assert_eq!(store.find(first, &[Key::Resource("r1"), Key::Resource("r2")]).unwrap()[..1], alice[..1]);
    assert_eq!(store.find(first, &[Key::Resource("no such name")]).unwrap(), []);
}

#[test]
fn a_missing_index_is_made_again() {
    let (directory, scanned) = indexed();
    std::fs::remove_file(&indexes(directory.path())[0]).unwrap();
    assert_eq!(stories(directory.path()), scanned);
    assert_eq!(maintain(directory.path()), Maintained { built: 1, removed: 0 });
    assert_eq!(stories(directory.path()), scanned);
}

#[test]
fn a_damaged_index_is_noticed_at_every_byte_and_made_again() {
    let (directory, scanned) = indexed();
    let file = &indexes(directory.path())[1];
    let segment = tenure_log::Lsn(file.file_stem().unwrap().to_str().unwrap().parse().unwrap());
    let store = IndexStore::new(disk(), &directory.path().join("log"));
    let whole = std::fs::read(file).unwrap();
    for at in (0..whole.len()).filter(|at| *at < 200 || at % 97 == 0 || at + 20 > whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(file, &bytes).unwrap();
        assert!(store.load(segment).is_err(), "byte {at}");
    }
    assert_eq!(stories(directory.path()), scanned);
    assert_eq!(maintain(directory.path()), Maintained { built: 1, removed: 0 });
    assert_eq!(std::fs::read(file).unwrap(), whole);
    for length in [0, 1, INDEX_HEADER_BYTES - 1, INDEX_HEADER_BYTES, whole.len() - 1] {
        std::fs::write(file, &whole[..length]).unwrap();
        assert_eq!(store.load(segment), Err(IndexProblem::Damaged), "{length} bytes");
        assert_eq!(stories(directory.path()), scanned);
    }
    std::fs::write(file, [&whole[..], &[0]].concat()).unwrap();
    assert_eq!(store.load(segment), Err(IndexProblem::Damaged));
}

#[test]
fn an_index_of_another_segment_or_log_or_version_is_not_used() {
    let (directory, scanned) = indexed();
    let (other, _) = tale_of(*b"another log here");
    let (other, _) = other.stop();
    maintain(other.path());
    let (mine, theirs) = (indexes(directory.path()), indexes(other.path()));
    let first = tenure_log::Lsn(1);
    let store = IndexStore::new(disk(), &directory.path().join("log"));
    let own = std::fs::read(&mine[0]).unwrap();

    std::fs::copy(&theirs[0], &mine[0]).unwrap();
    assert_eq!(store.load(first), Err(IndexProblem::Foreign));
    assert_eq!(stories(directory.path()), scanned);
    std::fs::copy(&mine[1], &mine[0]).unwrap();
    assert_eq!(store.load(first), Err(IndexProblem::Foreign));
    assert_eq!(stories(directory.path()), scanned);

    let mut newer = own.clone();
    newer[8] = 2;
    let checksum = fnv1a64(&newer[..INDEX_HEADER_BYTES - 8]).to_le_bytes();
    newer[INDEX_HEADER_BYTES - 8..INDEX_HEADER_BYTES].copy_from_slice(&checksum);
    std::fs::write(&mine[0], newer).unwrap();
    assert_eq!(store.load(first), Err(IndexProblem::Version(2)));
    assert_eq!(stories(directory.path()), scanned);

    assert_eq!(maintain(directory.path()), Maintained { built: 1, removed: 0 });
    assert_eq!(std::fs::read(&mine[0]).unwrap(), own);
}

#[test]
fn what_an_interrupted_store_or_a_trim_leaves_is_removed() {
    let (directory, scanned) = indexed();
    let log = directory.path().join("log");
    std::fs::write(log.join("00000000000000000001.idx.part"), b"half").unwrap();
    std::fs::write(log.join(index_name(tenure_log::Lsn(9_999))), b"whose?").unwrap();
    assert_eq!(stories(directory.path()), scanned);
    assert_eq!(maintain(directory.path()), Maintained { built: 0, removed: 2 });
}

#[test]
fn the_log_opens_beside_its_indexes() {
    let (directory, scanned) = indexed();
    let (log, recovery) =
        tenure_log::FileLog::open(disk(), directory.path(), options(*b"0123456789abcdef")).unwrap();
    assert!(recovery.warnings().is_empty());
    drop(log);
    assert_eq!(stories(directory.path()), scanned);
}

#[test]
fn with_an_index_a_story_reads_little() {
    let (mut tale, leases) = tale();
    for round in 0..200 {
        let name = format!("other/{round}");
        tale.event(300_000 + round, Change::Granted(granted("x", &[&name], Policy::permanent())));
    }
    let counting = CountingDisk::default();
    let (directory, _) = tale.stop();
    let subject = Subject::Lease(leases.bob);
    let read = |expected: Option<&Story>| {
        let mut history = History::offline(Arc::new(counting.clone()), directory.path()).unwrap();
        counting.frame_bytes_read.store(0, Ordering::Relaxed);
        let story = history.why(&subject, WhyLimits::default()).unwrap();
        assert!(expected.is_none_or(|expected| *expected == story));
        (counting.frame_bytes_read.load(Ordering::Relaxed), story)
    };
    let (scan_bytes, story) = read(None);
    maintain(directory.path());
    let (index_bytes, _) = read(Some(&story));
    assert!(index_bytes * 4 < scan_bytes, "{index_bytes} with the index, {scan_bytes} without");
}

#[test]
fn an_index_is_made_beside_a_writer() {
    let (mut tale, leases) = tale();
    let mut history = tale.history();
    let before = history.maintain_indexes().unwrap();
    assert!(before.built >= 3);
    for round in 0..40 {
        let name = format!("more/{round}");
        tale.event(300_000 + round, Change::Granted(granted("x", &[&name], Policy::permanent())));
    }
    let scanned = history.why(&Subject::Lease(leases.alice), WhyLimits::default()).unwrap();
    let again = history.maintain_indexes().unwrap();
    assert!(again.built >= 1 && again.removed == 0);
    assert_eq!(history.why(&Subject::Lease(leases.alice), WhyLimits::default()).unwrap(), scanned);
    let told = history.why(&Subject::Resource("more/7".into()), WhyLimits::default()).unwrap();
    assert_eq!(told.entries.len(), 1);
}

/// Two names that no index can tell apart.
fn colliding_names() -> [String; 2] {
    let mut seen = HashMap::new();
    for number in 0_u64.. {
        let name = format!("name/{number}");
        let hash = fnv1a64(format!("r{name}").as_bytes());
        if let Some(other) = seen.insert((hash >> 32) as u32 ^ hash as u32, name.clone()) {
            return [other, name];
        }
    }
    unreachable!("there are more names than hashes")
}

#[test]
fn names_with_the_same_hash_are_told_apart() {
    let names = colliding_names();
    let (mut tale, _) = tale();
    for (holder, name) in ["first", "second"].into_iter().zip(&names) {
        tale.event(300_000, Change::Granted(granted(holder, &[name], Policy::permanent())));
    }
    for round in 0..40 {
        let name = format!("more/{round}");
        tale.event(300_000 + round, Change::Granted(granted("x", &[&name], Policy::permanent())));
    }
    let mut history = tale.history();
    history.maintain_indexes().unwrap();
    let store = IndexStore::new(disk(), &tale.directory.path().join("log"));
    let places = |name: &str| -> Vec<(u64, u64)> {
        let segments = store.segments().unwrap().into_iter();
        let found = |segment| store.find(segment, &[Key::Resource(name)]).unwrap_or_default();
        segments.flat_map(|segment| found(segment).into_iter().map(move |at| (segment.0, at))).collect()
    };
    assert_eq!(places(&names[0]), places(&names[1]));
    assert_eq!(places(&names[0]).len(), 2);
    for (holder, name) in ["first", "second"].into_iter().zip(&names) {
        let story = history.why(&Subject::Resource(name.as_str().into()), WhyLimits::default()).unwrap();
        let texts: Vec<&str> = story.entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(texts, [format!("granted to {holder}: {name}; permanent, no heartbeat needed")]);
    }
}

#[test]
fn an_index_of_many_blocks_finds_everything() {
    let mut tale =
        Tale::begin_with(FileLogOptions { segment_bytes: 96 << 10, ..options(*b"0123456789abcdef") });
    for frame in 0..60 {
        let names: Vec<String> = (0..50).map(|number| format!("resource/{}", frame * 50 + number)).collect();
        let grant = |name: &String| Line::Event(Change::Granted(granted("x", &[name], Policy::permanent())));
        tale.frame(1_000 + frame, names.iter().map(grant).collect());
    }
    let mut history = tale.history();
    assert!(history.maintain_indexes().unwrap().built > 0);
    let file = std::fs::metadata(&indexes(tale.directory.path())[0]).unwrap();
    assert!(file.len() > 5 * 4096, "{}", file.len());
    for lsn in 1..=3_000 {
        let name = format!("resource/{}", lsn - 1);
        let told = history.why(&Subject::Resource(name.as_str().into()), WhyLimits::default()).unwrap();
        let lsns: Vec<u64> = told.entries.iter().map(|entry| entry.lsn.0).collect();
        assert_eq!(lsns, [lsn]);
    }
}
