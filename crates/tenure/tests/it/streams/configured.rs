//! Each setting of sessions changes what it says it changes, and what cannot be kept is refused before anything starts.
//! Those about ends are in `hook.rs`.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{SHORT, Streams, Told, left_ms, ms, prepared, resources, retry_after, started_with};
use crate::daemon::Daemon;

/// The pools there are, with their sizes.
#[track_caller]
fn sizes(daemon: &Daemon) -> Vec<(String, u64)> {
    let pools = daemon.get("/v1/pools").json();
    let row = |pool: &Value| (pool["name"].as_str().unwrap().to_owned(), pool["size"].as_u64().unwrap());
    pools["pools"].as_array().unwrap().iter().map(row).collect()
}

fn rows(pools: &[(&str, u64)]) -> Vec<(String, u64)> {
    pools.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
}

/// Starts a daemon that must refuse; gives what it says.
#[track_caller]
fn refused(settings: &[(&str, &str)], flags: &[&str]) -> String {
    let mut daemon = prepared(settings, flags);
    daemon.spawn();
    assert_eq!(daemon.code(), 2, "{}", daemon.said());
    assert!(!daemon.data_dir().exists(), "nothing was started");
    daemon.said()
}

#[test]
fn lease_ttl_is_how_long_a_session_lives_without_a_heartbeat() {
    let daemon = started_with(&[("LEASE_TTL", "3s"), ("HEARTBEAT_INTERVAL", "1")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert_eq!(session["lease_ttl"], 3);
    assert!((1..=3_000).contains(&left_ms(&session)), "{session}");
    let ended = http.until(&session, "stopped");
    assert!(ms(&ended["ended_at"]) - ms(&session["created_at"]) >= 3_000, "{ended}");
    let daemon = started_with(&[("LEASE_TTL", "24h")]);
    let session = daemon.http().start(json!({}));
    assert_eq!(session["lease_ttl"], 86_400);
    assert!((86_000_000..=86_400_000).contains(&left_ms(&session)), "{session}");
}

#[test]
fn heartbeat_interval_is_what_clients_are_told() {
    let daemon = started_with(&[("HEARTBEAT_INTERVAL", "7")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert_eq!(session["heartbeat_interval"], 7);
    assert_eq!(http.beat(&session).renewed()["next_heartbeat_in"], 7);
    http.beat(&session).renewed();
    // Two in an interval are allowed, and the interval is long.
    http.beat(&session).problem("rate_limited");
}

#[test]
fn grace_forgives_silence() {
    let daemon = started_with(&[SHORT, &[("GRACE", "1h")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert!(left_ms(&session) > 3_600_000, "{session}");
    http.until(&session, "draining");
    http.beat(&session).renewed();
    http.until(&session, "running");
}

#[test]
fn max_lifetime_ends_what_lives() {
    let daemon = started_with(&[SHORT, &[("MAX_LIFETIME", "3s")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.beat_for(&session, Duration::from_millis(1_800));
    let ended = http.until(&session, "stopped");
    // Silence would have ended it later.
    assert_eq!(ended["reason"], "MAX_LIFETIME", "{ended}");
    assert!(ms(&ended["ended_at"]) - ms(&session["created_at"]) >= 3_000, "{ended}");
    http.until_free("tuner", 4);
}

#[test]
fn default_pool_is_that_of_sessions_that_name_none() {
    let daemon = started_with(&[("DEFAULT_POOL", "gpu"), ("POOLS", "gpu=1,tuner=1")]);
    let mut http = daemon.http();
    assert_eq!(resources(&http.start(json!({}))), ["gpu/1"]);
    assert_eq!(resources(&http.start(json!({"pool": "tuner"}))), ["tuner/1"]);
    http.try_start(json!({})).problem("no_capacity");
}

#[test]
fn pools_are_made_where_they_are_missing_and_never_resized() {
    let mut daemon = prepared(&[("POOLS", "tuner=2,gpu/big=1")], &[]);
    daemon.start_again();
    assert_eq!(sizes(&daemon), rows(&[("gpu/big", 1), ("tuner", 2)]));
    let session = daemon.http().start(json!({}));
    assert_eq!(daemon.http().put("/v1/pools/mine", &json!({"size": 5})).status, 200);
    daemon.stop();
    let mut daemon = daemon.with_variable("TENURE_SESSIONS_POOLS", "tuner=9,dish=3,mine=1");
    daemon.start_again();
    assert_eq!(sizes(&daemon), rows(&[("dish", 3), ("gpu/big", 1), ("mine", 5), ("tuner", 2)]));
    daemon.http().beat(&session).renewed();
    daemon.stop();
    let mut daemon = daemon.with_variable("TENURE_SESSIONS_POOLS", "");
    daemon.start_again();
    assert_eq!(sizes(&daemon).len(), 4, "what is there stays");
}

#[test]
fn without_pools_there_are_none() {
    let daemon = started_with(&[("POOLS", "")]);
    assert_eq!(sizes(&daemon), []);
    let mut http = daemon.http();
    http.try_start(json!({})).problem("pool_not_found");
    assert_eq!(resources(&http.start(json!({"resources": ["dish"]}))), ["dish"]);
}

#[test]
fn max_sessions_are_as_many_as_there_may_be() {
    let daemon = started_with(&[("MAX_SESSIONS", "2")]);
    let mut http = daemon.http();
    let sessions = [http.start(json!({})), http.start(json!({"resources": ["dish"]}))];
    let answered = http.try_start(json!({}));
    let problem = answered.problem("capacity_exceeded");
    assert_eq!(problem["capacity"], "sessions", "{problem}");
    assert!(retry_after(&answered) >= 1);
    http.stop(&sessions[0]);
    // Those that queue count too.
    http.start(json!({"resources": ["dish"], "wait": 60}));
    http.try_start(json!({})).problem("capacity_exceeded");
}

#[test]
fn expiry_check_interval_is_accepted_and_said_to_be_unused() {
    let mut daemon = prepared(&[SHORT, &[("EXPIRY_CHECK_INTERVAL", "1h")]].concat(), &[]);
    daemon.start_again();
    let said = daemon.said();
    let line = said
        .lines()
        .find(|line| line.contains("sessions.expiry_check_interval"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("WARN") && line.contains("is ignored"), "{line}");
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert_eq!(http.until(&session, "stopped")["reason"], "LEASE_EXPIRED");
    assert!(!started_with(&[]).said().contains("expiry_check_interval"));
}

#[test]
fn settings_in_the_file_count_as_the_contract_has_them() {
    let flags = ["--config", "DIR/tenure.toml", "--log-format", "text"];
    let mut daemon = Daemon::prepared(&flags);
    let text = "[sessions]\nlease_ttl = \"20s\"\nheartbeat_interval = 10\ngrace = \"0s\"\ndefault_pool = \"dish\"\n\
                on_end = \"true\"\nmax_sessions = 5\nreuse = \"after_hook\"\n";
    fs::write(daemon.path("tenure.toml"), text).unwrap();
    daemon.start_again();
    assert_eq!(daemon.http().put("/v1/pools/dish", &json!({"size": 1})).status, 200);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert_eq!(json!([session["lease_ttl"], session["heartbeat_interval"]]), json!([20, 10]));
    assert_eq!(resources(&session), ["dish/1"]);
    http.stop(&session);
    http.until_free("dish", 1);
}

#[test]
fn everything_is_shown_with_where_it_came_from() {
    let daemon = Daemon::prepared(&[]);
    let text = "[sessions]\ngrace = \"3s\"\n[sessions.pools]\ndish = 2\n";
    fs::write(daemon.path("tenure.toml"), text).unwrap();
    let words = ["serve", "--print-config", "--config", "DIR/tenure.toml", "--data-dir", "DIR/data"];
    let mut command = daemon.desk.command(&words);
    command.env_remove("TENURE_SESSIONS_POOLS").env("TENURE_SESSIONS_ON_END", "tell 'the team'");
    let answer = daemon.desk.answer(&mut command);
    assert_eq!(answer.code, 0, "{}", answer.all());
    let (_, ours) = answer.out.split_once("[sessions]\n").unwrap();
    for line in [
        "lease_ttl = \"1m\"  # default",
        "heartbeat_interval = 5  # default",
        "grace = \"3s\"  # file DIR/tenure.toml:2",
        "max_lifetime = \"0s\"  # default",
        "default_pool = \"tuner\"  # default",
        "pools = { dish = 2 }  # file DIR/tenure.toml:3",
        "max_sessions = 100000  # default",
        "on_end = \"tell 'the team'\"  # environment TENURE_SESSIONS_ON_END",
        "reuse = \"at_once\"  # default",
        "hook_timeout = \"1m\"  # default",
        "expiry_check_interval = \"\"  # default",
    ] {
        assert!(ours.lines().any(|found| found == line), "{line:?} is not in\n{ours}");
    }
    let mut plain = daemon.desk.command(&["serve", "--print-config", "--data-dir", "DIR/data"]);
    let shown = daemon.desk.answer(plain.env_remove("TENURE_SESSIONS_POOLS"));
    assert!(shown.out.contains("pools = { tuner = 4 }  # default"), "{}", shown.out);
}

#[test]
fn what_cannot_be_kept_is_refused_before_anything_starts() {
    for (settings, words) in [
        (&[("LEASE_TTL", "9s")][..], "the ttl must be at least two intervals"),
        (&[("HEARTBEAT_INTERVAL", "31")], "the ttl must be at least two intervals"),
        (&[("LEASE_TTL", "500ms")], "expected 1s to 24h"),
        (&[("LEASE_TTL", "60")], "a duration needs a unit"),
        (&[("HEARTBEAT_INTERVAL", "0")], "expected 1 to 43200"),
        (&[("HEARTBEAT_INTERVAL", "5s")], "expected a number"),
        (&[("GRACE", "2h")], "expected 0s to 1h"),
        (&[("MAX_LIFETIME", "366d")], "expected 0s to 365d"),
        (&[("DEFAULT_POOL", "a//b")], "the name of a pool has an empty segment"),
        (&[("POOLS", "tuner")], "expected pools and their sizes"),
        (&[("POOLS", "tuner=70000")], "a pool has at most 65536 slots"),
        (&[("POOLS", "mdns=1")], "belong to registrations"),
        (&[("MAX_SESSIONS", "0")], "expected 1 to"),
        (&[("REUSE", "later")], "expected one of at_once, after_hook"),
        (&[("REUSE", "after_hook")], "sessions.on_end sets no hook to wait for"),
        (&[("HOOK_TIMEOUT", "0s")], "expected 1s to 24h"),
        (&[("ON_END", "ftp://x.example/ended")], "expected a URL that begins with http:// or https://"),
        (&[("ON_END", "tell"), ("ON_END_SECRET_FILE", "/x")], "sessions.on_end is not a URL"),
        (&[("ON_END", "https://x.example/"), ("ON_END_CA", "/nowhere")], "cannot read /nowhere"),
        (&[("ON_END", "tell 'me")], "a quote in the command line is not closed"),
        (&[("EXPIRY_CHECK_INTERVAL", "often")], "expected a duration like"),
        (&[("POLS", "tuner=4")], "the nearest is TENURE_SESSIONS_POOLS"),
    ] {
        let said = refused(settings, &[]);
        assert!(said.contains(words), "{settings:?}: {said}");
    }
    assert!(refused(&[("POOLS", "a=1,b=1")], &["--limits-pools", "1"]).contains("limits.pools allows 1"));
}
