//! The daemon killed again and again under load: nothing acknowledged is lost, nothing is held twice.

use std::collections::BTreeSet;
use std::io;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::{Asked, Heard, Ledger};
use super::random::Random;
use crate::daemon::Daemon;
use crate::raw_http::{Answered, Http};
use crate::raw_lines::Lines;
use crate::run_support::let_time_pass;

const RESOURCES: u64 = 12;
/// No lease ends by silence in a round: ends are asked for or do not happen.
const TTL_MS: u64 = 600_000;
/// Operations that a caller over lines has under way at once.
const TOGETHER: usize = 8;

/// One caller, over HTTP or over lines.
enum Caller {
    Http(Http<TcpStream>),
    Lines(Lines),
}

impl Caller {
    /// Asks several things; an error is a connection that broke, after any number of answers.
    fn ask(&mut self, asked: &[(String, Asked)], mut hear: impl FnMut(&str, &Heard)) -> io::Result<()> {
        match self {
            Self::Http(http) => {
                for (operation, asked) in asked {
                    let (path, body) = over_http(operation, asked);
                    let answered = http.try_ask("POST", &path, body.to_string().as_bytes())?;
                    if let Some(heard) = heard(&answered) {
                        hear(operation, &heard);
                    }
                }
                Ok(())
            }
            Self::Lines(lines) => {
                let text: String =
                    asked.iter().map(|(operation, asked)| format!("{}\n", line(operation, asked))).collect();
                lines.raw(text.as_bytes())?;
                for _ in asked {
                    let answer = lines.try_next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
                    let operation = answer["tag"].as_str().unwrap().to_owned();
                    let lease = ["acquired", "released"].iter().find_map(|verb| answer.get(verb));
                    match (lease, answer["error"].as_str()) {
                        (Some(lease), _) => hear(&operation, &Heard::Lease(lease.clone())),
                        (None, Some(code)) if is_definite(&answer) => {
                            hear(&operation, &Heard::Refused(code.to_owned()));
                        }
                        (None, _) => {}
                    }
                }
                Ok(())
            }
        }
    }
}

/// Answers that leave the outcome open, or say that the daemon stops, count as none.
fn heard(answered: &Answered) -> Option<Heard> {
    match answered.status {
        200 | 201 => Some(Heard::Lease(answered.json())),
        _ if is_definite(&answered.json()) => Some(Heard::Refused(answered.refusal().1)),
        _ => None,
    }
}

fn is_definite(error: &Value) -> bool {
    error["definite"] == true && error["error"] != "shutting_down"
}

fn over_http(operation: &str, asked: &Asked) -> (String, Value) {
    match asked {
        Asked::Acquire { resource, holder } => (
            "/v1/leases".to_owned(),
            json!({"resources": [resource], "holder": holder, "ttl_ms": TTL_MS, "operation_id": operation}),
        ),
        Asked::Release { lease, .. } => {
            (format!("/v1/leases/{lease}/release"), json!({"epoch": 1, "operation_id": operation}))
        }
    }
}

fn line(operation: &str, asked: &Asked) -> Value {
    let (_, mut body) = over_http(operation, asked);
    match asked {
        Asked::Acquire { .. } => json!({"acquire": body, "tag": operation}),
        Asked::Release { lease, .. } => {
            body["lease_id"] = json!(lease);
            json!({"release": body, "tag": operation})
        }
    }
}

/// Asks until the daemon is gone.
fn load(mut caller: Caller, holder: &str, seed: u64, ledger: &Mutex<Ledger>, over: &AtomicBool) {
    let mut random = Random::new(seed);
    while !over.load(Ordering::Relaxed) {
        let asked: Vec<(String, Asked)> = {
            let mut ledger = ledger.lock().unwrap();
            (0..TOGETHER)
                .map(|_| {
                    let resource = format!("r/{}", random.below(RESOURCES));
                    let acquire = Asked::Acquire { resource, holder: holder.to_owned() };
                    let release = if random.below(3) > 0 { ledger.to_release(holder) } else { None };
                    let asked = release.unwrap_or(acquire);
                    (ledger.ask(asked.clone()), asked)
                })
                .collect()
        };
        if caller.ask(&asked, |operation, heard| ledger.lock().unwrap().hear(operation, heard)).is_err() {
            return;
        }
    }
}

/// Learns the outcome of everything that was under way, by asking again with the same operation id.
fn resolve(daemon: &Daemon, ledger: &Mutex<Ledger>) {
    // The principal is part of an operation's identity: each is asked again the way it came.
    let mut over_http = Caller::Http(daemon.http());
    let mut over_lines = Caller::Lines(daemon.lines());
    let unknown: Vec<(String, Asked)> = ledger.lock().unwrap().unknown.clone().into_iter().collect();
    for (operation, asked) in unknown {
        let caller = if asked.holder().starts_with("http") { &mut over_http } else { &mut over_lines };
        let ask = [(operation.clone(), asked)];
        caller.ask(&ask, |operation, heard| ledger.lock().unwrap().hear(operation, heard)).unwrap();
        ledger.lock().unwrap().replays += 1;
    }
    assert!(ledger.lock().unwrap().unknown.is_empty(), "everything has an outcome now");
}

/// What the daemon says after the crash is what its callers know.
fn compare(daemon: &Daemon, ledger: &Ledger, released_before: usize) {
    let mut http = daemon.http();
    let listed = http.get("/v1/leases?limit=1000").json();
    let found: BTreeSet<String> = listed["leases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lease| lease["lease_id"].as_str().unwrap().to_owned())
        .collect();
    let known: BTreeSet<String> = ledger.held.values().map(|held| held.lease.clone()).collect();
    assert_eq!(found, known, "live leases are exactly those that somebody was told of");
    for (resource, held) in &ledger.held {
        let lease = http.get(&format!("/v1/leases/{}", held.lease)).json();
        assert_eq!(lease["state"], "active", "{held:?} became {lease}");
        assert_eq!((&lease["fence"], &lease["holder"]), (&json!(held.fence), &json!(held.holder)), "{lease}");
        let owner = http.get(&format!("/v1/resources/{resource}")).json();
        assert_eq!(owner["lease_id"], held.lease, "{owner}");
    }
    for lease in &ledger.released[released_before..] {
        let lease = http.get(&format!("/v1/leases/{lease}")).json();
        assert_eq!((&lease["state"], &lease["reason"]), (&json!("released"), &json!("explicit")), "{lease}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_daemon_is_killed_again_and_again() {
    let rounds = if std::env::var_os("TENURE_SOAK").is_some() { 200 } else { 20 };
    let mut daemon = Daemon::start_with(&["--log-segment-bytes", "1MiB", "--log-snapshot-bytes", "64KiB"]);
    let ledger = Mutex::new(Ledger::default());
    let mut random = Random::new(7);
    for round in 0..rounds {
        let over = AtomicBool::new(false);
        let released_before = ledger.lock().unwrap().released.len();
        let callers = [
            ("http-a", Caller::Http(daemon.http())),
            ("http-b", Caller::Http(daemon.http())),
            ("line-a", Caller::Lines(daemon.lines())),
            ("line-b", Caller::Lines(daemon.lines())),
        ];
        std::thread::scope(|scope| {
            for (number, (holder, caller)) in callers.into_iter().enumerate() {
                let (ledger, over) = (&ledger, &over);
                scope.spawn(move || load(caller, holder, round * 10 + number as u64, ledger, over));
            }
            let_time_pass(
                Duration::from_millis(30 + random.below(150)),
                "callers are at work when it is killed",
            );
            // Told to stop under load, it loses nothing either.
            if round % 4 == 3 {
                daemon.stop()
            } else {
                daemon.kill()
            }
            over.store(true, Ordering::Relaxed);
        });
        daemon.start_again();
        resolve(&daemon, &ledger);
        compare(&daemon, &ledger.lock().unwrap(), released_before);
    }
    let ledger = ledger.into_inner().unwrap();
    assert!(ledger.grants > rounds * 10, "only {} grants in {rounds} rounds", ledger.grants);
    assert!(ledger.replays > 0, "no kill hit anything that was under way");
    daemon.stop();
    let verified = daemon.tenure(&["log", "verify", "DIR/data"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
}
