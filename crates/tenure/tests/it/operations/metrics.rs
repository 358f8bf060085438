//! A scripted life, and a scrape that finds every documented number moved.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT};
use crate::raw_http::Http;
use crate::run_support::{boot_ms, let_time_pass, repeat_for, wait_until};
use crate::security::{as_token, with_tokens};

/// Samples by name and labels.
type Samples = BTreeMap<String, f64>;

fn scrape(daemon: &Daemon) -> Samples {
    let answered = as_token(daemon, "boss").get("/metrics");
    assert_eq!(answered.status, 200, "{answered:?}");
    assert!(answered.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = answered.text();
    let mut samples = Samples::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let before = samples.insert(name.to_owned(), value.parse().unwrap());
        assert!(before.is_none(), "{name} is said twice");
    }
    samples
}

/// The sum over all samples of a family that have these labels.
fn sum(samples: &Samples, name: &str, labels: &[&str]) -> f64 {
    samples
        .iter()
        .filter(|(key, _)| {
            key.split('{').next() == Some(name) && labels.iter().all(|label| key.contains(label))
        })
        .map(|(_, value)| value)
        .sum()
}

fn path(lease: &Value, verb: &str) -> String {
    format!("/v1/leases/{}/{verb}", lease["lease_id"].as_str().unwrap())
}

fn take(http: &mut Http<TcpStream>, body: Value) -> Value {
    let answered = http.post("/v1/leases", &body);
    assert_eq!(answered.status, 201, "{answered:?}");
    answered.json()
}

/// One waits for a bundle of which half is free, and keeps another from that half, until it may be passed.
struct Blocked {
    first: Http<TcpStream>,
    second: Http<TcpStream>,
}

fn begin_blocking(daemon: &Daemon) -> Blocked {
    take(
        &mut as_token(daemon, "boss"),
        json!({"resources": ["held/long"], "holder": "h", "ttl_ms": 600_000}),
    );
    let waiting = |resources: Value, count: u64| {
        let mut http = as_token(daemon, "boss");
        let body = json!({"resources": resources, "holder": "w", "wait_ms": 50_000, "ttl_ms": 600_000});
        http.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
        wait_until("one more who waits", LIMIT, || {
            sum(&scrape(daemon), "tenure_waiters", &[]) == count as f64
        });
        http
    };
    Blocked { first: waiting(json!(["held/long", "free"]), 1), second: waiting(json!(["free"]), 2) }
}

/// Grants, refusals and waits of every outcome; ends of several reasons; heartbeats of every kind.
fn live(daemon: &Daemon) {
    let mut boss = as_token(daemon, "boss");
    let lease = take(&mut boss, json!({"resources": ["a"], "holder": "h", "ttl_ms": 60_000}));
    let wanted = json!({"resources": ["a"], "holder": "x", "wait_ms": 20});
    assert_eq!(
        boss.post("/v1/leases", &json!({"resources": ["a"], "holder": "x"})).refusal().1,
        "resource_held"
    );
    assert_eq!(boss.post("/v1/leases", &wanted).refusal().1, "wait_timeout");
    let mut waiting = as_token(daemon, "boss");
    let body = json!({"resources": ["a"], "holder": "x", "wait_ms": 20_000, "ttl_ms": 1_000, "grace_ms": 0});
    let waiters = sum(&scrape(daemon), "tenure_waiters", &[]);
    waiting.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
    wait_until("one who waits", LIMIT, || sum(&scrape(daemon), "tenure_waiters", &[]) > waiters);
    assert_eq!(boss.post(&path(&lease, "heartbeat"), &json!({"epoch": 1})).status, 200);
    assert_eq!(boss.post(&path(&lease, "heartbeat"), &json!({"epoch": 9})).refusal().1, "stale_epoch");
    let tag = &lease["lease_id"].as_str().unwrap()[..4];
    let nobody = json!({"lease_id": format!("{tag}-99999999")});
    assert_eq!(boss.post(&path(&nobody, "heartbeat"), &json!({"epoch": 1})).refusal().1, "not_found");
    assert_eq!(boss.post(&path(&lease, "release"), &json!({"epoch": 1})).status, 200);
    assert_eq!(waiting.answer().unwrap().status, 201, "served, and silent from now on");

    let revoked = take(&mut boss, json!({"resources": ["b"], "holder": "h", "ttl_ms": 1_000}));
    assert_eq!(boss.post(&path(&revoked, "revoke"), &json!({})).status, 200);
    take(&mut boss, json!({"resources": ["c"], "holder": "h", "reserve_ms": 1}));
    let late =
        take(&mut boss, json!({"resources": ["late"], "holder": "h", "ttl_ms": 1_000, "grace_ms": 60_000}));
    wait_until("a lease whose promise is over", LIMIT, || {
        boss.get(path(&late, "").trim_end_matches('/')).json()["liveness"] == "draining"
    });
    assert_eq!(boss.post(&path(&late, "heartbeat"), &json!({"epoch": 1})).status, 200);
    drop(daemon.lines().ask(&json!({"acquire": {"resources": ["l"], "holder": "h", "grace_ms": 0}})));
    wait_until("the ends", LIMIT, || {
        let ends =
            |reason: &str| sum(&scrape(daemon), "tenure_ends_total", &[&format!("reason=\"{reason}\"")]);
        ["explicit", "admin_force", "reservation_expired", "heartbeat_expired", "session_expired"]
            .iter()
            .all(|reason| ends(reason) > 0.0)
    });
}

/// Two services are advertised and one of them is withdrawn.
fn advertise(daemon: &Daemon) {
    let mut boss = as_token(daemon, "boss");
    let mut register = |name: &str| {
        let service = json!({"name": name, "type": "_http._tcp", "port": 80, "lease": 0});
        let answered = boss.post("/v1/mdns/services", &service);
        assert_eq!(answered.status, 201, "{answered:?}");
        answered.json()["registered"]["id"].as_str().unwrap().to_owned()
    };
    register("stays");
    let goes = register("goes");
    assert_eq!(boss.delete(&format!("/v1/mdns/services/{goes}")).status, 200);
    wait_until("a goodbye", LIMIT, || sum(&scrape(daemon), "tenure_mdns_goodbyes_total", &[]) > 0.0);
}

/// A poller lets go of a target and takes it again.
fn poll(daemon: &Daemon) {
    let mut boss = as_token(daemon, "boss");
    for _ in 0..2 {
        let lease = take(&mut boss, json!({"resources": ["poll/web/s1"], "holder": "p", "ttl_ms": 60_000}));
        let body = json!({"epoch": 1, "reason": "rebalanced"});
        assert_eq!(boss.post(&path(&lease, "release"), &body).status, 200);
    }
}

/// So much at once that requests stand in line, and so many bytes that a snapshot is taken.
fn crowd(daemon: &Daemon) {
    let mut lines = daemon.lines();
    let held = lines.ask(&json!({"acquire": {"resources": ["big"], "holder": "h"}}))["acquired"].clone();
    let attachment = "x".repeat(4_000);
    let amend =
        json!({"amend": {"lease_id": held["lease_id"], "epoch": 1, "attachment": attachment}, "tag": 1});
    let text = format!("{amend}\n").repeat(2_000);
    let deadline = boot_ms() + LIMIT.as_millis() as u64;
    let mut seen = 0.0;
    while seen == 0.0 {
        assert!(boot_ms() < deadline, "nothing ever stood in line");
        let stream = lines.stream().try_clone().unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| std::io::Write::write_all(&mut &stream, text.as_bytes()).unwrap());
            let answers = scope.spawn(|| (0..2_000).for_each(|_| drop(lines.next())));
            while !answers.is_finished() {
                seen = f64::max(seen, sum(&scrape(daemon), "tenure_inbox_depth", &[]));
            }
            writer.join().unwrap();
        });
    }
    wait_until("a snapshot", LIMIT, || scrape(daemon).contains_key("tenure_snapshot_age_seconds"));
}

/// Everybody speaks for a while, then nobody does.
fn silence(daemon: &Daemon) {
    let mut callers: Vec<Http<TcpStream>> = ["one", "two", "three"].map(|name| as_token(daemon, name)).into();
    let mut held = Vec::new();
    for number in 0..30 {
        // Longer than the breaker's window: once the silence shows, the last heartbeats lie outside of it.
        let body =
            json!({"resources": [format!("s/{number}")], "holder": format!("h{number}"), "ttl_ms": 4_000});
        held.push((number % 3, take(&mut callers[number % 3], body)));
    }
    repeat_for(Duration::from_millis(3_000), || {
        for (caller, lease) in &held {
            assert_eq!(callers[*caller].post(&path(lease, "heartbeat"), &json!({"epoch": 1})).status, 200);
        }
    });
    wait_until("the breaker", LIMIT, || sum(&scrape(daemon), "tenure_breaker_open", &[]) == 1.0);
}

#[test]
fn every_documented_number_moves_in_a_scripted_life() {
    let tokens = [("boss", "admin"), ("one", "hold"), ("two", "hold"), ("three", "hold")];
    // Loopback and a port that nobody else uses: what is announced stays on this machine.
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let flags = ["--log-snapshot-bytes", "64KiB", "--log-segment-bytes", "1MiB", "--breaker-window", "2s"];
    let mdns = ["--mdns=true", "--mdns-interface", "lo", "--mdns-port", &port];
    let daemon = with_tokens(&tokens, &[&flags[..], &mdns].concat());
    let before = scrape(&daemon);
    let mut blocked = begin_blocking(&daemon);
    live(&daemon);
    advertise(&daemon);
    poll(&daemon);
    crowd(&daemon);
    daemon.freeze();
    let_time_pass(Duration::from_millis(2_500), "a stall that is counted");
    daemon.thaw();
    silence(&daemon);
    assert_eq!(blocked.second.answer().unwrap().status, 201, "it passed the one that blocked it");
    let after = scrape(&daemon);
    drop(blocked.first);

    let moved = |name: &str, labels: &[&str]| {
        let name = format!("tenure_{name}");
        let (was, is) = (sum(&before, &name, labels), sum(&after, &name, labels));
        assert!(is > was, "{name} {labels:?} was {was} and is {is}");
    };
    moved("leases", &["state=\"active\"", "mode=\"heartbeat\"", "application=\"leases\""]);
    for outcome in ["granted", "rejected", "timed_out"] {
        moved("grants_total", &["application=\"leases\"", &format!("outcome=\"{outcome}\"")]);
    }
    for reason in ["explicit", "admin_force", "reservation_expired", "heartbeat_expired", "session_expired"] {
        moved("ends_total", &["application=\"leases\"", &format!("reason=\"{reason}\"")]);
    }
    for outcome in ["renewed", "late", "unknown", "stale"] {
        moved("heartbeats_total", &[&format!("outcome=\"{outcome}\"")]);
    }
    for histogram in ["renewal_margin", "expiry_lateness", "sync", "wait", "http_request"] {
        moved(&format!("{histogram}_seconds_count"), &[]);
        moved(&format!("{histogram}_seconds_bucket"), &["le=\"+Inf\""]);
    }
    for total in ["batch_events_count", "waiters", "waiters_passed_total", "stalls_total", "log_bytes"] {
        moved(total, &[]);
    }
    moved("http_requests_total", &["route=\"/v1/leases\"", "method=\"POST\"", "status=\"201\""]);
    moved("breaker_open", &[]);
    moved("mdns_registrations", &[]);
    moved("mdns_goodbyes_total", &[]);
    moved("ends_total", &["application=\"registrations\"", "reason=\"explicit\""]);
    moved("poll_targets", &["group=\"web\"", "state=\"abandoned\""]);
    moved("poll_moves_total", &["group=\"web\"", "reason=\"rebalanced\""]);
    moved("poll_unowned_seconds_count", &[]);
    assert!(sum(&after, "tenure_recovery_seconds", &[]) > 0.0);
    assert!(after.contains_key("tenure_snapshot_age_seconds"));
    // Room for a note is looked for before what it tells of happens: this one stays at nothing.
    assert_eq!(after.get("tenure_notes_dropped_total"), Some(&0.0));

    let tag = as_token(&daemon, "boss").get("/v1/status").json()["log_tag"].as_str().unwrap().to_owned();
    for name in after.keys() {
        for id in [tag.as_str(), "token:", "held/long"] {
            assert!(!name.contains(&format!("\"{id}")), "no ids in labels: {name}");
        }
    }
}
