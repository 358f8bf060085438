//! A backup taken under load and restored elsewhere: the past can be read, and old ownership does not rise again.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT};
use crate::run_support::{boot_ms, wait_until};

/// Longest promise that a lease of the backup may have.
const TTL_MS: u64 = 3_000;

fn id(lease: &Value) -> &str {
    lease["lease_id"].as_str().unwrap()
}

/// Takes and releases until told that it is over; counts.
fn load(daemon: &Daemon, holder: &str, over: &AtomicBool, grants: &AtomicU64) {
    let mut http = daemon.http();
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        number += 1;
        let resource = format!("{holder}/{number}");
        let wanted = json!({"resources": [resource], "holder": holder, "ttl_ms": TTL_MS, "grace_ms": 0});
        let answered = http.post("/v1/leases", &wanted);
        if answered.status == 201 {
            grants.fetch_add(1, Ordering::Relaxed);
            if number % 3 > 0 {
                let path = format!("/v1/leases/{}/release", id(&answered.json()));
                assert_eq!(http.post(&path, &json!({"epoch": 1})).status, 200);
            }
        }
    }
}

struct Taken {
    /// Runs on the restored data.
    restored: Daemon,
    /// Held in the lost daemon when the backup was taken.
    held: Value,
    permanent: Value,
    session: String,
    /// Above everything the lost daemon gave out.
    highest_fence: u64,
    began_ms: u64,
}

fn take() -> Taken {
    let mut daemon = Daemon::start_with(&["--log-segment-bytes", "256KiB", "--log-snapshot-bytes", "64KiB"]);
    let held = daemon.acquire(
        &json!({"resources": ["held"], "holder": "old", "ttl_ms": TTL_MS, "attachment": {"job": 7}}),
    );
    let permanent = daemon.acquire(&json!({"resources": ["permanent"], "holder": "old", "ttl_ms": 0}));
    let session = daemon.post("/v1/sessions", &json!({"holder": "old", "ttl_ms": TTL_MS})).json();
    let session = session["session"].as_str().unwrap().to_owned();
    let (over, grants) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for holder in ["one", "two"] {
            let (daemon, over, grants) = (&daemon, &over, &grants);
            scope.spawn(move || load(daemon, holder, over, grants));
        }
        wait_until("some load", LIMIT, || grants.load(Ordering::Relaxed) > 300);
        let taken = daemon.tenure(&["backup", "DIR/backup.tar", "--json"]);
        assert_eq!(taken.code, 0, "{}", taken.err);
        // The lost daemon goes on after the backup: what it gives out then must lie below too.
        let before = grants.load(Ordering::Relaxed);
        wait_until("more load", LIMIT, || grants.load(Ordering::Relaxed) > before + 50);
        over.store(true, Ordering::Relaxed);
    });
    let last = daemon.acquire(&json!({"resources": ["last"], "holder": "old", "ttl_ms": TTL_MS}));
    let highest_fence = last["fence"].as_u64().unwrap();
    daemon.kill();

    let archive = daemon.path("backup.tar");
    let mut restored = Daemon::prepared(&["--limits-revoke-timeout", "1s"]);
    fs::copy(archive, restored.path("backup.tar")).unwrap();
    let answer = restored.tenure(&["restore", "DIR/backup.tar", "DIR/data"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    let verified = restored.tenure(&["log", "verify", "DIR/data"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let began_ms = boot_ms();
    restored.start_again();
    Taken { restored, held, permanent, session, highest_fence, began_ms }
}

#[test]
fn old_ownership_does_not_rise_again_from_a_backup() {
    let Taken { restored, held, permanent, session, highest_fence, began_ms } = take();
    for lease in [&held, &permanent] {
        for verb in ["heartbeat", "release"] {
            let answered = restored.post(&format!("/v1/leases/{}/{verb}", id(lease)), &json!({"epoch": 1}));
            assert_eq!(answered.refusal(), (404, "not_found".to_owned()), "{verb}: {answered:?}");
            assert_eq!(answered.json()["lost"], true, "{answered:?}");
        }
    }
    let answered = restored.post(&format!("/v1/sessions/{session}/heartbeat"), &json!({}));
    assert!(matches!(answered.status, 404 | 410), "{answered:?}");
    assert_eq!(answered.json()["lost"], true, "{answered:?}");

    // Old holders may still act on what they were promised: grants wait that long.
    let grant =
        |resource: &str| restored.post("/v1/leases", &json!({"resources": [resource], "holder": "new"}));
    for resource in ["held", "permanent", "never/held/before"] {
        let refused = grant(resource);
        assert_eq!(refused.refusal(), (409, "not_yet".to_owned()), "{resource}: {refused:?}");
        let remaining_ms = refused.json()["remaining_ms"].as_u64().unwrap();
        assert!(remaining_ms <= TTL_MS, "{refused:?}");
    }
    assert!(restored.get("/v1/status").json()["restored_for_ms"].as_u64().unwrap() <= TTL_MS);
    for lease in restored.get("/v1/leases?limit=1000").json()["leases"].as_array().unwrap() {
        assert_eq!((&lease["state"], &lease["reason"]), (&json!("revoking"), &json!("restored")), "{lease}");
    }
    let mut granted = None;
    wait_until("a grant", LIMIT, || {
        let answered = grant("held");
        granted = (answered.status == 201).then(|| answered.json());
        granted.is_some()
    });
    let waited_ms = boot_ms() - began_ms;
    assert!(waited_ms >= TTL_MS, "granted after {waited_ms} ms, while a promise may run for {TTL_MS} ms");
    let granted = granted.unwrap();
    assert!(granted["fence"].as_u64().unwrap() > highest_fence, "{granted} is not above {highest_fence}");
    assert_ne!(id(&granted)[..4], id(&held)[..4], "ids of the two logs differ");
    wait_until("the permanent one to be free", LIMIT, || grant("permanent").status == 201);
    assert_eq!(restored.get("/v1/status").json()["restored_for_ms"], Value::Null);

    // And once more after a restart: it is an ordinary log now.
    let mut restored = restored;
    restored.kill();
    restored.start_again();
    let path = format!("/v1/leases/{}/heartbeat", id(&granted));
    assert_eq!(restored.post(&path, &json!({"epoch": 1})).status, 200);
    let fresh = restored.post("/v1/leases", &json!({"resources": ["fresh"], "holder": "new"}));
    assert_eq!(fresh.status, 201, "{fresh:?}");
}

#[test]
fn the_past_of_a_backup_can_be_asked_about() {
    let Taken { restored, .. } = take();
    let why = restored.get("/v1/why?resource=held").json();
    let entries = why["entries"].as_array().unwrap();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "granted", "{why}");
    assert!(entries[0]["text"].as_str().unwrap().contains("old"), "{why}");
    assert!(kinds.contains(&"revoked"), "{why}");
    assert!(why.to_string().contains("restored"), "{why}");
    let lease = restored.get(&format!("/v1/why?lease={}", entries[0]["lease_id"].as_str().unwrap()));
    assert_eq!(lease.status, 200, "the story of a lease of the lost log: {lease:?}");
    assert!(lease.text().contains("granted") && lease.text().contains("restored"), "{lease:?}");
    let told = restored.tenure(&["why", "held"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.out.contains("old") && told.out.contains("restored"), "{}", told.out);
}

#[test]
fn a_backup_goes_over_the_wire_whole_or_visibly_not() {
    let daemon = Daemon::start();
    daemon.acquire(&json!({"resources": ["a"], "holder": "h"}));
    let answered = daemon.post("/v1/backup", &json!({}));
    assert_eq!((answered.status, answered.header("content-type")), (200, Some("application/x-tar")));
    let mut names = Vec::new();
    for entry in tar::Archive::new(&answered.body[..]).entries().unwrap() {
        names.push(entry.unwrap().path().unwrap().display().to_string());
    }
    assert!(names.iter().any(|name| name.starts_with("log/") && name.ends_with(".seg")), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("log/") || name.starts_with("snapshots/")), "{names:?}");
    // A reader that goes away in the middle harms nobody.
    let mut http = daemon.http();
    http.send("POST", "/v1/backup", b"{}").unwrap();
    http.stream().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(http.head().unwrap().status, 200);
    drop(http);
    assert_eq!(daemon.get("/readyz").status, 200);
}

#[test]
fn backups_that_nobody_reads_hold_nothing_else_up() {
    let daemon = Daemon::start();
    let mut lines = daemon.lines();
    let held = lines.ask(&json!({"acquire": {"resources": ["a"], "holder": "h"}}))["acquired"].clone();
    let amend = json!({"amend": {"lease_id": held["lease_id"], "epoch": 1, "attachment": "x".repeat(4_000)}, "tag": 1});
    let text = format!("{amend}\n").repeat(100);
    // More than the system holds for a reader that does not come.
    for _ in 0..80 {
        lines.raw(text.as_bytes()).unwrap();
        (0..100).for_each(|_| assert!(lines.next()["amended"].is_object()));
    }
    let mut unread: Vec<_> = (0..2).map(|_| daemon.http()).collect();
    for http in &mut unread {
        http.send("POST", "/v1/backup", b"{}").unwrap();
        assert_eq!(http.head().unwrap().status, 200);
    }
    let refused = daemon.post("/v1/backup", &json!({}));
    assert_eq!(refused.refusal(), (503, "overloaded".to_owned()), "{refused:?}");
    assert_eq!(daemon.get("/v1/why?resource=a").status, 200, "others read the disk meanwhile");
    drop(unread);
    wait_until("a backup again", LIMIT, || daemon.post("/v1/backup", &json!({})).status == 200);
}
