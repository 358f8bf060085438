//! One client doing its worst, an attack a test: others are served, and what it costs is bounded. What is asserted is
//! refusals, counts and bytes, never times.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT};
use crate::raw_events::Events;
use crate::raw_http::Http;
use crate::run_support::wait_until;
use crate::security::{as_token, with_tokens};

/// How often an attack is repeated; `cargo xtask soak` repeats it for longer.
fn rounds(usual: usize) -> usize {
    if std::env::var_os("TENURE_SOAK").is_some() { 20 * usual } else { usual }
}

/// Which limit an error names: the limit, its setting and its value.
fn told(error: &Value) -> (String, String, u64) {
    let text = |key: &str| error[key].as_str().unwrap_or("none").to_owned();
    (text("limit"), text("setting"), error["value"].as_u64().unwrap_or(0))
}

#[test]
fn clients_that_never_read_do_not_lock_root_out() {
    let daemon = Daemon::start_with(&["--limits-connections", "60"]);
    let host = daemon.address().to_string();
    let asks = format!("GET /openapi.json HTTP/1.1\r\nhost: {host}\r\n\r\n").repeat(20);
    let crowd: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = daemon.tcp();
            // Those beyond the limit may be gone already.
            let _ = stream.write_all(asks.as_bytes());
            stream
        })
        .collect();
    let refused = Http::new(daemon.tcp(), &host).answer().expect("a refusal without being asked");
    assert_eq!(refused.refusal(), (503, "too_many_connections".to_owned()));
    assert_eq!(told(&refused.json()), ("connections_tcp".to_owned(), "limits.connections".to_owned(), 30));
    for _ in 0..3 {
        assert!(daemon.lines().ask(&json!({"status": {}}))["status"].is_object());
        assert_eq!(daemon.http_over_socket().get("/v1/status").status, 200);
    }
    drop(crowd);
    wait_until("places over TCP again", LIMIT, || {
        Http::new(daemon.tcp(), &host).try_ask("GET", "/healthz", b"").is_ok_and(|it| it.status == 200)
    });
}

#[test]
fn bodies_where_none_belongs_are_refused_and_not_kept() {
    let daemon = with_tokens(&[("boss", "admin")], &[]);
    let host = daemon.address().to_string();
    let before_kib = daemon.memory_kib("VmHWM");
    let body = vec![b' '; (1 << 20) - 1];
    let mut crowd: Vec<Http<TcpStream>> = (0..200)
        .map(|_| {
            let mut http = Http::new(daemon.tcp(), &host);
            http.raw(
                format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1048576\r\n\r\n")
                    .as_bytes(),
            )
            .unwrap();
            // Refused in the middle of it, the connection may be over.
            let _ = http.raw(&body);
            http
        })
        .collect();
    let grown_kib = daemon.memory_kib("VmHWM") - before_kib;
    // A connection may buffer a head of 64 KiB, in a buffer that grows by doubling; of its body nothing is kept.
    assert!(grown_kib < 200 * (2 * 64 + 64), "200 bodies that nobody wants cost {grown_kib} KiB");
    for http in &mut crowd {
        assert_eq!(http.answer().unwrap().refusal(), (413, "too_large".to_owned()));
    }
}

#[test]
fn a_body_is_not_read_before_its_sender_may_send_it() {
    let daemon = with_tokens(&[("looker", "read")], &[]);
    let host = daemon.address().to_string();
    for (token, status) in [(None, 401), (Some("secret-looker"), 403)] {
        let mut http = Http::new(daemon.tcp(), &host);
        let credential = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        // The body is announced and never comes.
        http.raw(
            format!(
                "POST /v1/leases HTTP/1.1\r\nhost: {host}\r\n{credential}content-length: 1000000\r\n\r\n{{"
            )
            .as_bytes(),
        )
        .unwrap();
        assert_eq!(http.answer().unwrap().status, status);
    }
}

#[test]
fn a_client_that_writes_a_burst_before_it_reads_is_told_why_it_is_cut_off() {
    let daemon = Daemon::start();
    let mut lines = daemon.lines();
    let held = lines.ask(&json!({"acquire": {"resources": ["a"], "holder": "h"}}))["acquired"].clone();
    let inspect = format!("{}\n", json!({"inspect": {"lease_id": held["lease_id"]}}));
    let burst = inspect.repeat(100);
    // About 16 MB: longer than what the daemon reads before it cuts the client off.
    for _ in 0..3_200 {
        // Cut off, it may not be able to write all of it.
        if lines.raw(burst.as_bytes()).is_err() {
            break;
        }
    }
    let mut last = None;
    while let Ok(Some(line)) = lines.try_next() {
        last = Some(line);
    }
    let last = last.expect("whole lines");
    assert_eq!(last["error"], "overloaded", "{last}");
    assert!(last["message"].as_str().unwrap().starts_with("connection closed: "), "{last}");
    assert_eq!((last["limit"].as_str(), last["value"].as_u64()), (Some("unread_bytes"), Some(8 << 20)));
    let said = daemon.said();
    let told: Vec<&str> = said.lines().filter(|line| line.contains("did not read its answers")).collect();
    assert_eq!(told.len(), 1, "{said}");
    for field in ["principal", "session", "unread_bytes"] {
        assert!(told[0].contains(field), "{field} in {}", told[0]);
    }
    assert!(daemon.lines().ask(&json!({"status": {}}))["status"].is_object(), "others are served");
}

#[test]
fn a_page_of_another_origin_causes_no_reads() {
    let daemon = Daemon::start();
    let asks = |site: &str, mode: &str, dest: &str, path: &str| {
        let http = daemon.http().with("sec-fetch-site", site);
        http.with("sec-fetch-mode", mode).with("sec-fetch-dest", dest).get(path)
    };
    for site in ["cross-site", "same-site"] {
        for path in
            ["/v1/why?resource=a", "/v1/polling/g", "/v1/leases", "/v1/events", "/metrics", "/readyz", "/"]
        {
            let refused = asks(site, "no-cors", "empty", path);
            assert_eq!(refused.refusal(), (403, "forbidden".to_owned()), "{site} {path}");
        }
        for path in ["/", "/docs"] {
            assert_eq!(asks(site, "navigate", "document", path).status, 200, "{site} {path}: a link");
        }
        assert_eq!(asks(site, "no-cors", "script", "/assets/tenure-session.js").status, 200);
    }
    assert_eq!(asks("same-origin", "cors", "empty", "/v1/leases").status, 200);
    assert_eq!(asks("none", "navigate", "document", "/v1/leases").status, 200);
}

#[test]
fn streams_of_one_principal_leave_some_to_others() {
    let daemon = Daemon::start_with(&["--limits-watches", "8"]);
    let other = 47_111;
    let mut streams: Vec<_> = (0..4).map(|_| Events::begin(daemon.http_of(other), "")).collect();
    let refused = daemon.http_of(other).get("/v1/events");
    assert_eq!(refused.refusal(), (503, "overloaded".to_owned()));
    let limit = ("watches_per_principal".to_owned(), "limits.watches".to_owned(), 4);
    assert_eq!(told(&refused.json()), limit);
    let mut lines = daemon.lines();
    for tag in 0..4 {
        lines.say(&json!({"watch": {}, "tag": tag}));
    }
    wait_until("streams over lines", LIMIT, || daemon.get("/v1/status").json()["watches"] == 8);
    let refused = lines.ask(&json!({"watch": {}, "tag": 9}));
    assert_eq!(told(&refused), ("watches".to_owned(), "limits.watches".to_owned(), 8), "{refused}");
    // The last eighth is the operators'.
    streams.truncate(2);
    wait_until("a place again", LIMIT, || {
        let mut http = daemon.http_of(other);
        http.send("GET", "/v1/events", b"").unwrap();
        http.head().unwrap().status == 200
    });
    assert_eq!(lines.ask(&json!({"stop": 0, "tag": 10}))["stopped"], 0);
}

#[test]
fn streams_from_the_beginning_share_what_they_remember() {
    const LEASES: usize = 10_000;
    let daemon = Daemon::start();
    let mut lines = daemon.lines();
    for page in 0..LEASES / 500 {
        let ask = |number: usize| {
            let name = format!("r/{}", page * 500 + number);
            format!(
                "{}\n",
                json!({"acquire": {"resources": [name], "holder": "h", "mode": "permanent"}, "tag": number})
            )
        };
        lines.raw((0..500).map(ask).collect::<String>().as_bytes()).unwrap();
        for _ in 0..500 {
            let answered = lines.next();
            assert!(answered["acquired"].is_object(), "{answered}");
        }
    }
    let read_all = || {
        let mut events = Events::begin(daemon.http(), "?from=0");
        for _ in 0..LEASES {
            while events.next().expect("an event").kind != "granted" {}
        }
        events
    };
    // What one stream needs is needed once.
    let _first = read_all();
    let before_kib = daemon.memory_kib("VmRSS");
    let others: Vec<_> = (0..15).map(|_| read_all()).collect();
    let each_kib = (daemon.memory_kib("VmRSS").saturating_sub(before_kib)) / others.len() as u64;
    assert!(each_kib < 1 << 10, "a stream over {LEASES} leases costs {each_kib} KiB");
}

/// One principal that asks for the same on several connections, until it is stopped.
struct Flood {
    is_over: Arc<AtomicBool>,
    flooders: Vec<std::thread::JoinHandle<BTreeSet<(String, String, u64)>>>,
}

impl Flood {
    fn begin(daemon: &Daemon, ask: &Value) -> Self {
        const BURST: usize = 200;
        let burst = format!("{ask}\n").repeat(BURST);
        let is_over = Arc::new(AtomicBool::new(false));
        let flooders = (0..6).map(|_| {
            let (mut lines, burst, is_over) = (daemon.lines(), burst.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut refused = BTreeSet::new();
                while !is_over.load(Ordering::Relaxed) {
                    lines.raw(burst.as_bytes()).unwrap();
                    let answers = (0..BURST).map(|_| lines.next());
                    refused.extend(answers.filter(|it| it["error"] == "overloaded").map(|it| told(&it)));
                }
                refused
            })
        });
        Self { flooders: flooders.collect(), is_over }
    }

    /// Which limits refused some of it.
    fn end(self) -> BTreeSet<(String, String, u64)> {
        self.is_over.store(true, Ordering::Relaxed);
        self.flooders.into_iter().flat_map(|flooder| flooder.join().unwrap()).collect()
    }
}

/// A flood filled its lane: an operator's call, or another holder's renewal, was refused with what it displaced.
#[test]
fn operators_and_other_holders_are_served_whatever_one_principal_floods_with() {
    let tokens = [("boss", "admin"), ("worker", "hold")];
    let daemon = with_tokens(&tokens, &["--limits-inbox", "64"]);
    let (mut boss, mut worker) = (as_token(&daemon, "boss"), as_token(&daemon, "worker"));
    let lease = json!({"resources": ["kept"], "holder": "renews", "ttl_ms": 60_000});
    let kept = worker.post("/v1/leases", &lease).json();
    let path = format!("/v1/leases/{}", kept["lease_id"].as_str().unwrap());
    let looks = json!({"inspect": {"lease_id": kept["lease_id"]}, "tag": 1});
    let wants = json!({"acquire": {"resources": ["kept"], "holder": "h"}, "tag": 1});
    let beats = json!({"heartbeat": {"lease_id": kept["lease_id"], "epoch": 9}, "tag": 1});
    let ends = json!({"release": {"lease_id": kept["lease_id"], "epoch": 9}, "tag": 1});
    for flood_of in [looks, wants, beats, ends] {
        let flood = Flood::begin(&daemon, &flood_of);
        for round in 0..rounds(20) {
            let served = [
                ("status", boss.get("/v1/status")),
                ("pool", boss.put("/v1/pools/p", &json!({"size": 3}))),
                ("breaker", boss.post("/v1/breaker/reset", &json!({}))),
                ("drain", boss.post(&format!("{path}/drain"), &json!({}))),
                ("revive", boss.post(&format!("{path}/revive"), &json!({}))),
                ("heartbeat", worker.post(&format!("{path}/heartbeat"), &json!({"epoch": 1}))),
                ("list", worker.get("/v1/leases")),
            ];
            for (what, answered) in served {
                assert_eq!(
                    answered.status,
                    200,
                    "{what} in round {round} of {flood_of}: {}",
                    answered.text()
                );
            }
            let taken = worker.post("/v1/leases", &json!({"resources": ["own"], "holder": "h"}));
            assert_eq!(taken.status, 201, "round {round} of {flood_of}: {}", taken.text());
            let own = format!("/v1/leases/{}/release", taken.json()["lease_id"].as_str().unwrap());
            assert_eq!(worker.post(&own, &json!({"epoch": 1})).status, 200, "round {round} of {flood_of}");
        }
        let limit = ("inbox".to_owned(), "limits.inbox".to_owned(), 64);
        assert_eq!(flood.end(), BTreeSet::from([limit]), "the lane was full: {flood_of}");
    }
}

/// Waits are calls without an answer: one principal could have every place for them.
#[test]
fn what_one_principal_has_unanswered_is_bounded_and_refuses_none_of_its_renewals_and_ends() {
    let tokens = [("boss", "admin"), ("worker", "hold")];
    let daemon = with_tokens(&tokens, &["--limits-calls-per-principal", "64"]);
    let mut lines = daemon.lines();
    let held = json!({"resources": ["held"], "holder": "h", "mode": "heartbeat", "ttl_ms": 60_000});
    let held = lines.ask(&json!({"acquire": held}))["acquired"].clone();
    let wait = |tag: usize| {
        let body = json!({"resources": ["held"], "holder": "h", "wait_ms": 3_600_000});
        json!({"acquire": body, "tag": tag})
    };
    (0..100).for_each(|tag| lines.say(&wait(tag)));
    let limit = ("calls_per_principal".to_owned(), "limits.calls_per_principal".to_owned(), 64);
    for _ in 64..100 {
        let refused = lines.next();
        assert_eq!((refused["error"].as_str(), told(&refused)), (Some("overloaded"), limit.clone()));
    }
    let mut again = daemon.lines();
    assert_eq!(told(&again.ask(&wait(0))), limit, "connections of one principal count together");
    let token = json!({"lease_id": held["lease_id"], "epoch": 1});
    assert!(lines.ask(&json!({"heartbeat": token, "tag": "b"}))["renewed"].is_object());
    assert!(again.ask(&json!({"status": {}}))["status"].is_object());
    let mut worker = as_token(&daemon, "worker");
    let taken = worker.post("/v1/leases", &json!({"resources": ["other"], "holder": "w"}));
    assert_eq!(taken.status, 201, "{}", taken.text());
    // The release is not refused either, and one of those who wait has the lease then.
    lines.say(&json!({"release": token, "tag": "r"}));
    let answers = [lines.next(), lines.next()];
    assert!(answers.iter().any(|answer| answer["released"].is_object()), "{answers:?}");
    assert!(answers.iter().any(|answer| answer["acquired"].is_object()), "{answers:?}");
    drop((lines, again));
    wait_until("the places of those who waited", LIMIT, || {
        daemon.lines().ask(&json!({"acquire": {"resources": ["free"], "holder": "h"}}))["acquired"]
            .is_object()
    });
}

/// The only place that TCP has is taken until the daemon gives up on a client that does not read.
#[test]
fn a_client_that_never_reads_its_answers_loses_its_place() {
    let daemon = Daemon::start_with(&["--limits-connections", "2", "--limits-write-timeout", "100ms"]);
    let host = daemon.address().to_string();
    let mut stuck = Http::new(daemon.tcp(), &host);
    wait_until("the place over TCP", LIMIT, || {
        let is_served = stuck.try_ask("GET", "/healthz", b"").is_ok_and(|it| it.status == 200);
        if !is_served {
            stuck = Http::new(daemon.tcp(), &host);
        }
        is_served
    });
    let asks = format!("GET /openapi.json HTTP/1.1\r\nhost: {host}\r\n\r\n").repeat(1_000);
    // It may be cut off in the middle of this.
    let _ = stuck.raw(asks.as_bytes());
    wait_until("its place for others", LIMIT, || {
        Http::new(daemon.tcp(), &host).try_ask("GET", "/healthz", b"").is_ok_and(|it| it.status == 200)
    });
    let served = (0..1_000).map_while(|_| stuck.answer().ok()).count();
    assert!(served < 1_000, "all answers came");
}

/// One frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A head in literals and the static table alone (RFC 7541).
fn get(path: &str, host: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86];
    for (name, value) in [(0x04, path), (0x01, host)] {
        block.push(name);
        block.push(u8::try_from(value.len()).unwrap());
        block.extend(value.as_bytes());
    }
    block
}

/// The next frame of HTTP/2: kind, flags, stream and payload.
fn next_frame(stream: &mut impl Read) -> std::io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload)?;
    Ok((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
}

#[test]
fn an_http2_connection_that_only_pings_is_closed() {
    const ACK: u8 = 1;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    let daemon = Daemon::start_with(&["--limits-idle-timeout", "100ms"]);
    let mut stream = daemon.tcp();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    bytes.extend(frame(1, 5, 1, &get("/healthz", &daemon.address().to_string())));
    stream.write_all(&bytes).unwrap();
    let (mut is_answered, mut is_told) = (false, false);
    wait_until("the end of a connection that does nothing", LIMIT, || {
        // An error is the end of the connection too.
        let _ = stream.write_all(&frame(PING, 0, 0, b"12345678"));
        loop {
            match next_frame(&mut stream) {
                Ok((PING, ACK, _, _)) => return false,
                Ok((PING, _, _, payload)) => drop(stream.write_all(&frame(PING, ACK, 0, &payload))),
                Ok((kind, _, number, _)) => {
                    is_answered |= (kind, number) == (1, 1);
                    is_told |= kind == GOAWAY;
                }
                Err(_) => return true,
            }
        }
    });
    assert!(is_answered && is_told, "it was served before, and told");
}

#[test]
fn one_http2_connection_has_64_requests_at_once() {
    const ASKED: u32 = 200;
    const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
    let daemon = Daemon::start();
    let mut stream = daemon.tcp();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..ASKED {
        bytes.extend(frame(1, 5, 2 * number + 1, &get("/v1/events", &daemon.address().to_string())));
    }
    stream.write_all(&bytes).unwrap();
    let mut outcomes: BTreeMap<u32, bool> = BTreeMap::new();
    while outcomes.len() < ASKED as usize {
        let (kind, _, number, payload) = next_frame(&mut stream).unwrap();
        match kind {
            1 => drop(outcomes.insert(number, true)),
            3 => {
                assert_eq!(payload, REFUSED_STREAM);
                outcomes.insert(number, false);
            }
            _ => {}
        }
    }
    assert_eq!(outcomes.values().filter(|is_served| **is_served).count(), 64);
    assert_eq!(daemon.get("/v1/status").json()["watches"], 64);
}

/// Connections that flood with heartbeats of an epoch that is not there, until they are dropped. Bounded in number.
/// Each gives how many of its lines were refused.
fn flood(daemon: &Daemon, flooders: usize) -> Vec<std::thread::JoinHandle<usize>> {
    let kept = daemon.acquire(&json!({"resources": ["kept"], "holder": "h", "mode": "permanent"}));
    let beat = format!("{}\n", json!({"heartbeat": {"lease_id": kept["lease_id"], "epoch": 9}, "tag": 1}));
    let burst = beat.repeat(200);
    (0..flooders)
        .map(|_| {
            let (mut lines, burst) = (daemon.lines(), burst.clone());
            std::thread::spawn(move || {
                let mut refused = 0;
                for _ in 0..rounds(100) {
                    if lines.raw(burst.as_bytes()).is_err() {
                        break;
                    }
                    let answers = (0..200).map_while(|_| lines.try_next().ok().flatten());
                    refused += answers.filter(|answer| answer["error"] == "overloaded").count();
                }
                refused
            })
        })
        .collect()
}

/// A full lane refused the end of a connection and nobody noticed: of 500, 47 to 99 kept their lease for ever.
#[test]
fn connections_that_close_during_a_flood_leave_no_lease() {
    let daemon = Daemon::start_with(&["--limits-inbox", "64"]);
    let mut crowd = Vec::new();
    for n in 0..300 {
        let mut lines = daemon.lines();
        let acquire = json!({"acquire": {"resources": [format!("g/{n}")], "holder": "h", "grace_ms": 0}});
        assert!(lines.ask(&acquire)["acquired"].is_object());
        crowd.push(lines);
    }
    let flooders = flood(&daemon, 6);
    for lines in crowd {
        drop(lines);
    }
    let refused: usize = flooders.into_iter().map(|flooder| flooder.join().unwrap()).sum();
    assert!(refused > 0, "the lane was full");
    wait_until("the leases of closed connections to end", LIMIT, || {
        daemon.get("/v1/leases?resource_prefix=g/&limit=1").json()["leases"].as_array().unwrap().is_empty()
    });
}

/// 263,000 retries joined one waiting operation from one connection: heartbeats of others were refused, for as long as
/// the waits lasted, and 2.3 GB went.
#[test]
fn a_connection_that_waits_without_end_costs_nobody_else_a_renewal() {
    let daemon = Daemon::start_with(&["--limits-waiters-per-connection", "50"]);
    daemon.acquire(&json!({"resources": ["held"], "holder": "other", "ttl_ms": 60000}));
    let kept = daemon.acquire(&json!({"resources": ["kept"], "holder": "renews", "ttl_ms": 60000}));
    let before_kib = daemon.memory_kib("VmHWM");
    let mut flooder = daemon.lines();
    let mut refused = BTreeMap::<(String, String, u64), usize>::new();
    for first in (0..20_000).step_by(100) {
        for tag in first..first + 100 {
            flooder.say(&json!({
                "acquire": {"resources": ["held"], "holder": "a", "wait_ms": 3_600_000, "operation_id": "k"},
                "tag": tag,
            }));
        }
        // All but those that wait are answered at once.
        let waiting = if first == 0 { 16 } else { 0 };
        for _ in 0..100 - waiting {
            let answer = flooder.next();
            assert_eq!(answer["error"], "too_many_waiters", "{answer}");
            *refused.entry(told(&answer)).or_default() += 1;
        }
    }
    // The engine refuses a try too many; while it does, the connection may have no place for the next.
    let limit = ("waiters_per_connection".to_owned(), "limits.waiters_per_connection".to_owned(), 50);
    let tries = ("tries_per_operation".to_owned(), "none".to_owned(), 16);
    let by_limit = |limit| refused.get(limit).copied().unwrap_or(0);
    assert_eq!(by_limit(&tries) + by_limit(&limit), 20_000 - 16, "{refused:?}");
    assert_eq!(daemon.get("/v1/status").json()["waiters"], 16);
    for _ in 0..20 {
        let path = format!("/v1/leases/{}/heartbeat", kept["lease_id"].as_str().unwrap());
        assert_eq!(daemon.post(&path, &json!({"epoch": 1})).status, 200);
    }
    // Other operations wait too, until the connection has as many as it may.
    let wait = |tag: usize| {
        let body = json!({"resources": ["held"], "holder": "a", "wait_ms": 3_600_000});
        json!({"acquire": body, "tag": tag})
    };
    for tag in 0..100 {
        flooder.say(&wait(tag));
    }
    let answer = flooder.next();
    assert_eq!((answer["error"].as_str(), told(&answer)), (Some("too_many_waiters"), limit));
    let grown_kib = daemon.memory_kib("VmHWM") - before_kib;
    assert!(grown_kib < 32 << 10, "{grown_kib} KiB for 20,000 refused waits");
    drop(flooder);
    wait_until("the waits to end with their connection", LIMIT, || {
        daemon.get("/v1/status").json()["waiters"] == 0
    });
}
