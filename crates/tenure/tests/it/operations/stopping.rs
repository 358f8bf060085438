//! However it is told to stop: streams end with a word, requests are answered, leases outlive it.

use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::raw_events::Events;
use crate::raw_http::Http;

/// Everything a stop must not break, under way at once.
struct Busy {
    heartbeat: Value,
    connection: Value,
    events: Events<TcpStream>,
    lines: crate::raw_lines::Lines,
    waiting: Http<TcpStream>,
    waiting_line: crate::raw_lines::Lines,
}

impl Busy {
    fn begin(daemon: &Daemon) -> Self {
        let heartbeat = daemon.acquire(&json!({"resources": ["a"], "holder": "h", "ttl_ms": 60_000}));
        let mut lines = daemon.lines();
        let answer = lines.ask(&json!({"acquire": {"resources": ["b"], "holder": "c"}}));
        let connection = answer["acquired"].clone();
        assert_eq!(connection["mode"], "session", "{answer}");
        lines.say(&json!({"watch": {}, "tag": "w"}));
        let events = Events::begin(daemon.http(), "");
        let mut waiting = daemon.http();
        let wanted = json!({"resources": ["a"], "holder": "w", "wait_ms": 60_000});
        waiting.send("POST", "/v1/leases", wanted.to_string().as_bytes()).unwrap();
        let mut waiting_line = daemon.lines();
        let wanted = json!({"acquire": {"resources": ["b"], "holder": "w", "wait_ms": 60_000}, "tag": 1});
        waiting_line.say(&wanted);
        crate::run_support::wait_until("two who wait", crate::daemon::LIMIT, || {
            daemon.get("/v1/status").json()["waiters"] == 2
        });
        Self { heartbeat, connection, events, lines, waiting, waiting_line }
    }

    /// What everybody sees of the stop.
    fn sees_the_end(mut self) {
        let last = self.events.next().expect("a last event");
        assert_eq!(last.kind, "closing", "{last:?}");
        assert!(self.events.next().is_none(), "nothing follows the last event");
        let last = self.lines.next();
        assert_eq!((&last["event"]["kind"], &last["tag"]), (&json!("closing"), &json!("w")), "{last}");
        assert!(self.lines.try_next().unwrap().is_none(), "the connection is closed, not broken");
        match self.waiting.answer() {
            Ok(answered) => assert_eq!(answered.refusal(), (503, "shutting_down".to_owned())),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{error}"),
        }
        if let Some(answer) = self.waiting_line.try_next().unwrap() {
            assert_eq!((&answer["error"], &answer["tag"]), (&json!("shutting_down"), &json!(1)), "{answer}");
            assert!(self.waiting_line.try_next().unwrap().is_none());
        }
    }
}

fn stops_cleanly(tell: impl FnOnce(&Daemon)) {
    let mut daemon = Daemon::start();
    let busy = Busy::begin(&daemon);
    let (heartbeat, connection) = (busy.heartbeat.clone(), busy.connection.clone());
    tell(&daemon);
    busy.sees_the_end();
    assert_eq!(daemon.code(), 0, "{}", daemon.said());
    assert!(!daemon.breadcrumb().exists(), "the breadcrumb is gone");
    assert!(!daemon.socket().exists(), "the socket is gone");
    let verified = daemon.tenure(&["log", "verify", "DIR/data", "--json"]);
    let verified: Value = serde_json::from_str(&verified.out).unwrap();
    assert_eq!((&verified["sound"], &verified["ended_cleanly"]), (&json!(true), &json!(true)), "{verified}");

    daemon.start_again();
    let path = format!("/v1/leases/{}", heartbeat["lease_id"].as_str().unwrap());
    let renewed = daemon.post(&format!("{path}/heartbeat"), &json!({"epoch": heartbeat["epoch"]})).json();
    assert_eq!(renewed["valid_ms"], 59_699, "{renewed}");
    let found = daemon.get(&path).json();
    for field in ["state", "epoch", "fence", "holder", "resources", "granted_at"] {
        assert_eq!(found[field], heartbeat[field], "{field} of {found}");
    }
    let mut lines = daemon.lines();
    let resume = json!({"resume": {"lease_id": connection["lease_id"], "epoch": connection["epoch"]}});
    let resumed = lines.ask(&resume);
    assert_eq!(resumed["resumed"]["liveness"], "alive", "{resumed}");
    assert_eq!(resumed["resumed"]["epoch"], 2, "{resumed}");
}

#[test]
fn sigterm_stops_cleanly_and_leases_outlive_it() {
    stops_cleanly(|daemon| daemon.signal(Signal::TERM));
}

#[test]
fn sigint_stops_cleanly_and_leases_outlive_it() {
    stops_cleanly(|daemon| daemon.signal(Signal::INT));
}

#[test]
fn sighup_stops_cleanly_and_leases_outlive_it() {
    stops_cleanly(|daemon| daemon.signal(Signal::HUP));
}

#[test]
fn a_call_stops_cleanly_and_leases_outlive_it() {
    stops_cleanly(|daemon| {
        let answered = daemon.post("/v1/shutdown", &json!({}));
        assert_eq!(answered.status, 200, "{answered:?}");
        assert_eq!(answered.json()["shutting_down"], true);
    });
}

#[test]
fn end_all_ends_every_lease_with_reason_shutdown() {
    let mut daemon = Daemon::start();
    let mut ids = Vec::new();
    for (number, terms) in [json!(60_000), json!(0), json!(1_000)].into_iter().enumerate() {
        let resource = format!("r/{number}");
        let lease = daemon.acquire(&json!({"resources": [resource], "holder": "h", "ttl_ms": terms}));
        ids.push(lease["lease_id"].as_str().unwrap().to_owned());
    }
    let mut lines = daemon.lines();
    let held = lines.ask(&json!({"acquire": {"resources": ["c"], "holder": "h"}}));
    ids.push(held["acquired"]["lease_id"].as_str().unwrap().to_owned());

    let answered = daemon.post("/v1/shutdown", &json!({"end_all": true}));
    assert_eq!((answered.status, &answered.json()["ended"]), (200, &json!(4)), "{answered:?}");
    let lost = lines.next();
    assert_eq!(lost["lost"]["reason"], "shutdown", "{lost}");
    assert_eq!(daemon.code(), 0, "{}", daemon.said());

    daemon.start_again();
    for id in ids {
        let lease = daemon.get(&format!("/v1/leases/{id}")).json();
        assert_eq!(lease["reason"], "shutdown", "{lease}");
        assert!(["revoking", "revoked"].contains(&lease["state"].as_str().unwrap()), "{lease}");
    }
}

#[test]
fn requests_after_the_word_are_refused_not_lost() {
    let mut daemon = Daemon::start();
    let mut early = daemon.http();
    assert_eq!(early.get("/healthz").status, 200);
    daemon.signal(Signal::TERM);
    // The connection was open before: it is closed, or told that the daemon stops.
    let body = json!({"resources": ["late"], "holder": "h"}).to_string();
    let granted = match early.try_ask("POST", "/v1/leases", body.as_bytes()) {
        Ok(answered) if answered.status == 201 => true,
        Ok(answered) => {
            assert_eq!(answered.refusal(), (503, "shutting_down".to_owned()));
            false
        }
        Err(_) => false,
    };
    assert_eq!(daemon.code(), 0, "{}", daemon.said());
    daemon.start_again();
    let held = daemon.get("/v1/resources/late").json();
    assert_eq!(held["lease_id"].is_string(), granted, "{held}");
}
