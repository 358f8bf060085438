//! A data directory that the first revision wrote: still read by the offline tools, still served, still gone on from.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::pattern::{Names, match_json};
use super::stage::Stage;
use crate::cli_desk::Desk;
use crate::daemon::{Daemon, LIMIT};
use crate::run_support::wait_until;

/// Where the header of a segment says how long its file is; `docs/internals/formats/log-segment.md`.
const LENGTH_AT: usize = 104;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(name)
}

/// Copies it; segments get back the zeros at their end.
fn copy_to(directory: &Path) {
    for part in ["log", "snapshots"] {
        fs::create_dir_all(directory.join(part)).unwrap();
        for entry in fs::read_dir(golden("data").join(part)).unwrap() {
            let (name, path) = entry.map(|entry| (entry.file_name(), entry.path())).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            if path.extension().is_some_and(|extension| extension == "seg") {
                let length = u64::from_le_bytes(*bytes[LENGTH_AT..].first_chunk().unwrap());
                bytes.resize(usize::try_from(length).unwrap(), 0);
            }
            fs::write(directory.join(part).join(name), bytes).unwrap();
        }
    }
}

#[track_caller]
fn is_as_expected(expected: &str, got: &str) {
    let [expected, got] = [expected, got].map(|text| serde_json::from_str::<Value>(text).unwrap());
    if let Err(why) = match_json(&expected, &got, &mut Names::new()) {
        panic!("{why}\n{got}");
    }
}

#[test]
fn it_is_sound() {
    let desk = Desk::new();
    copy_to(&desk.path().join("data"));
    let verified = desk.tenure(&["log", "verify", "DIR/data", "--json"]);
    assert_eq!(verified.code, 0, "{}", verified.all());
    let expected = r#"{
        "sound": true, "tag": "rqa4", "log_id": "2335f1ae2f3a9eaf", "first_lsn": 1, "last_lsn": 4236,
        "ended_cleanly": true, "segments": 3, "frames": 122, "records": 140,
        "decoded": {"event": 126, "note": 9, "config": 1, "tick": 3, "close": 1}, "notes_unknown": 0,
        "replayed": {"from_start": true, "from_snapshot": 39, "to": 4236},
        "snapshots": [{"lsn": 39, "compared": true}], "indexes": 2, "damage": [], "warnings": []
    }"#;
    is_as_expected(expected, &verified.out);
}

/// At the snapshot, before the backup was restored, and at the end.
#[test]
fn it_comes_to_the_same_state() {
    let desk = Desk::new();
    copy_to(&desk.path().join("data"));
    for lsn in ["39", "46", "4236"] {
        let told = desk.tenure(&["log", "at", lsn, "DIR/data", "--json"]);
        assert_eq!(told.code, 0, "{}", told.all());
        let expected = fs::read_to_string(golden(&format!("expected/at-{lsn}.json"))).unwrap();
        is_as_expected(&expected, &told.out);
    }
}

#[test]
fn its_records_say_the_same() {
    let desk = Desk::new();
    copy_to(&desk.path().join("data"));
    let dumped = desk.tenure(&["log", "dump", "DIR/data"]);
    assert_eq!(dumped.code, 0, "{}", dumped.err);
    let lsn = |line: &str| serde_json::from_str::<Value>(line).unwrap()["lsn"].as_u64();
    let expected = fs::read_to_string(golden("expected/dump.ndjson")).unwrap();
    for expected in expected.lines() {
        let got = dumped.out.lines().find(|got| lsn(got) == lsn(expected));
        is_as_expected(expected, got.unwrap_or_else(|| panic!("no {expected}")));
    }
}

#[test]
fn it_is_served_and_gone_on_from() {
    let daemon = Daemon::prepared(&["--log-format", "text", "--sessions-on-end", "touch DIR/told"]);
    copy_to(&daemon.data_dir());
    let told = daemon.path("told");
    let stage = Stage::of(daemon).play("data_directory/served.txt");
    wait_until("the end that nobody had acknowledged", LIMIT, || told.exists());
    stage.play("data_directory/gone_on.txt");
}
