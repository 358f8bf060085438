//! One scenario, four transports, one transcript.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;

use expect_test::Expect;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::daemon::{LONG, Served};
use super::http::{Answer, Ask, Http, over_tcp, over_unix};
use super::lines::Lines;
use super::script::{Known, Step, filled, steps};
use super::shown::Shown;
use crate::cluster::stage::{self, Leader};
use crate::raw_http::Answered;
use crate::run_support::wait_until;

/// What a call came to.
pub(crate) type Outcome = Result<Value, Value>;

/// How a scenario is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    HttpOverTcp,
    HttpOverSocket,
    LinesOverSocket,
    LinesOverStdin,
}

impl Transport {
    /// Every one; with a follower fewer, because each costs a cluster: one of each kind, and over changes of leader the one
    /// whose connection goes on over all of them. `tenure stdio` speaks over the node's socket.
    fn all() -> &'static [Self] {
        match stage::leader() {
            None => &[Self::HttpOverTcp, Self::HttpOverSocket, Self::LinesOverSocket, Self::LinesOverStdin],
            Some(Leader::Stays) => &[Self::HttpOverTcp, Self::LinesOverStdin],
            Some(Leader::Changes) => &[Self::LinesOverSocket],
        }
    }
}

/// Runs a scenario over every transport, each with a daemon of its own; the transcripts are the same.
#[track_caller]
pub(crate) fn check(script: &str, expected: Expect) {
    let mut first = None;
    for transport in Transport::all() {
        let transcript = transcript(*transport, script);
        match &first {
            None => first = Some(transcript),
            Some(first) => assert_eq!(&transcript, first, "{transport:?} differs from the first"),
        }
    }
    expected.assert_eq(&first.unwrap());
}

/// Runs a scenario over one transport.
pub(crate) fn transcript(transport: Transport, script: &str) -> String {
    let daemon = Served::start();
    let mut speaker = Speaker::new(&daemon, transport);
    let (mut known, mut shown) = (Known::new(), Shown::default());
    let mut transcript = String::new();
    for (line, step) in steps(script) {
        let (label, outcome) = match step {
            Step::Call { label, verb, lease, body } => {
                let id_of = |label: &str| {
                    let lease = known.get(label).unwrap_or_else(|| panic!("{line}: none\n{transcript}"));
                    lease["lease_id"].as_str().unwrap().to_owned()
                };
                let lease = lease.map(id_of);
                (label, speaker.call(verb, lease.as_deref(), filled(body, &known)))
            }
            Step::Begin { label, body } => {
                speaker.begin(label, filled(body, &known));
                continue;
            }
            Step::Await { label } => (Some(label), speaker.finish(label)),
            Step::Until { lease, wanted } => {
                let lease = known.get(lease).unwrap_or_else(|| panic!("{line}: none\n{transcript}"));
                let (wanted, lease) = (filled(wanted, &known), lease["lease_id"].as_str().unwrap());
                wait_until(line, LONG, || {
                    let found = speaker.call("inspect", Some(lease), json!({})).unwrap();
                    wanted.as_object().unwrap().iter().all(|(key, value)| found[key] == *value)
                });
                continue;
            }
        };
        if let (Some(label), Ok(answer)) = (label, &outcome) {
            known.insert(label.to_owned(), answer.clone());
            shown.name(label, answer);
        }
        let words = line.split(" {").next().unwrap();
        transcript.push_str(&format!("{words} → {}\n", shown.outcome(&outcome)));
    }
    transcript
}

enum Speaker {
    Http { http: Http, place: Place, waiting: HashMap<String, JoinHandle<Outcome>> },
    Lines { lines: Lines, early: HashMap<String, Value> },
}

/// Where another connection is made.
#[derive(Clone)]
enum Place {
    Tcp(SocketAddr),
    Socket(PathBuf),
}

impl Place {
    fn connect(&self) -> Http {
        match self {
            Self::Tcp(address) => over_tcp(*address),
            Self::Socket(path) => over_unix(path),
        }
    }
}

impl Speaker {
    fn new(daemon: &Served, transport: Transport) -> Self {
        let http = |place: Place| Self::Http { http: place.connect(), place, waiting: HashMap::new() };
        let lines = |lines| Self::Lines { lines, early: HashMap::new() };
        match transport {
            Transport::HttpOverTcp => http(Place::Tcp(daemon.address())),
            Transport::HttpOverSocket => http(Place::Socket(daemon.socket())),
            Transport::LinesOverSocket => lines(daemon.lines()),
            Transport::LinesOverStdin => lines(daemon.stdin()),
        }
    }

    fn call(&mut self, verb: &str, lease: Option<&str>, body: Value) -> Outcome {
        match self {
            Self::Http { http, .. } => over_http(http, verb, lease, body),
            Self::Lines { lines, early } => {
                lines.say(line(verb, lease, body));
                let answer = lines.until(|answer| match answer["tag"].as_str() {
                    None => true,
                    Some(tag) => {
                        early.insert(tag.to_owned(), answer.clone());
                        false
                    }
                });
                outcome(verb, answer)
            }
        }
    }

    fn begin(&mut self, label: &str, body: Value) {
        match self {
            Self::Http { place, waiting, .. } => {
                let mut http = place.connect();
                let call = std::thread::spawn(move || over_http(&mut http, "acquire", None, body));
                waiting.insert(label.to_owned(), call);
            }
            Self::Lines { lines, .. } => {
                let mut line = line("acquire", None, body);
                line["tag"] = label.into();
                lines.say(line);
            }
        }
    }

    fn finish(&mut self, label: &str) -> Outcome {
        match self {
            Self::Http { waiting, .. } => waiting.remove(label).unwrap().join().unwrap(),
            Self::Lines { lines, early } => {
                let mut answer = match early.remove(label) {
                    Some(answer) => answer,
                    None => lines.until(|answer| answer["tag"] == label),
                };
                answer.as_object_mut().unwrap().remove("tag");
                outcome("acquire", answer)
            }
        }
    }
}

fn line(verb: &str, lease: Option<&str>, mut body: Value) -> Value {
    if let Some(lease) = lease {
        body["lease_id"] = lease.into();
    }
    json!({ verb: body })
}

/// An answer is under its own name and nothing else; an error stands alone.
#[track_caller]
fn outcome(verb: &str, answer: Value) -> Outcome {
    if answer["error"].is_string() {
        return Err(answer);
    }
    let names: &[&str] = match verb {
        "acquire" => &["acquired"],
        "activate" => &["activated"],
        "heartbeat" => &["renewed"],
        "release" => &["released"],
        "acknowledge" => &["acknowledged"],
        "amend" => &["amended"],
        "inspect" => &["lease"],
        "list" => &["leases"],
        "check" => &["checked"],
        "why" => &["why"],
        "status" => &["status"],
        "pool" => &["pool", "pools"],
        "drain" => &["drained"],
        "revive" => &["revived"],
        "revoke" => &["revoked"],
        "reclaim" => &["reclaimed"],
        verb => panic!("{verb:?} is no verb"),
    };
    let fields: &Map<String, Value> = answer.as_object().unwrap();
    assert_eq!(fields.len(), 1, "{answer}");
    let (name, body) = fields.iter().next().unwrap();
    assert!(names.contains(&name.as_str()), "{verb} was answered with {answer}");
    Ok(body.clone())
}

#[track_caller]
fn over_http(http: &mut Http, verb: &str, lease: Option<&str>, body: Value) -> Outcome {
    let lease = lease.map(|lease| format!("/v1/leases/{}", encoded(lease)));
    let reply = match (verb, lease) {
        ("acquire", None) => http.json("POST", "/v1/leases", body),
        ("inspect", Some(lease)) => http.json("GET", &lease, Value::Null),
        ("list", None) => http.json("GET", &format!("/v1/leases{}", query(&body)), Value::Null),
        ("check", None) => http.json("POST", "/v1/check", body),
        ("why", None) => http.json("GET", &format!("/v1/why{}", query(&body)), Value::Null),
        ("status", None) => http.json("GET", "/v1/status", Value::Null),
        ("pool", None) => pool(http, body),
        (verb, Some(lease)) => http.json("POST", &format!("{lease}/{verb}"), body),
        (verb, None) => panic!("{verb:?} is no verb"),
    };
    if reply.status >= 400 {
        let code = reply.json()["error"].as_str().unwrap().to_owned();
        return Err(reply.refused(&code));
    }
    let body = reply.good();
    let created = verb == "acquire" && body["replayed"] != true;
    assert_eq!(reply.status, if created { 201 } else { 200 }, "{body}");
    Ok(body)
}

fn pool(http: &mut Http, mut body: Value) -> Answered {
    let fields = body.as_object_mut().unwrap();
    let Some(name) = fields.remove("name") else { return http.json("GET", "/v1/pools", Value::Null) };
    let path = format!("/v1/pools/{}", encoded(name.as_str().unwrap()));
    if fields.remove("remove").is_some() {
        return http.json("DELETE", &format!("{path}{}", query(&body)), Value::Null);
    }
    if fields.is_empty() {
        return http.json("GET", &path, Value::Null);
    }
    http.json("PUT", &path, body)
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn query(body: &Value) -> String {
    let pairs: Vec<String> = body
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}={}", encoded(text)),
            value => format!("{key}={value}"),
        })
        .collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}
