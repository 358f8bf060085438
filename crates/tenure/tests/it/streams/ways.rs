//! Ways to ask for sessions and to look at them, shared by the tests of this directory.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_api::{ErrorCode, Retry};

use crate::daemon::{Daemon, LIMIT};
use crate::raw_http::{Answered, Http};
use crate::run_support::{boot_ms, repeat_for, wait_until};
use crate::security::write_tokens;
use crate::wire::daemon::Served;
use crate::wire::http::Answer;

/// The shortest life there is: a ttl of two seconds, a heartbeat each second.
pub(crate) const SHORT: &[(&str, &str)] = &[("LEASE_TTL", "2s"), ("HEARTBEAT_INTERVAL", "1")];

/// The ttl of [`SHORT`].
pub(crate) const SHORT_MS: i64 = 2_000;

/// Often enough for [`SHORT`], and never more than two in one interval.
const BEAT_MS: u64 = 600;

/// Tokens of a daemon with several principals.
pub(crate) const PRINCIPALS: &[(&str, &str)] =
    &[("looker", "read"), ("ada", "hold"), ("bob", "hold"), ("boss", "admin")];

/// A daemon with the defaults and a pool `tuner` of four.
#[track_caller]
pub(crate) fn started() -> Served {
    started_with(&[])
}

/// The same with other settings of sessions, by the last words of their variables.
#[track_caller]
pub(crate) fn started_with(settings: &[(&str, &str)]) -> Served {
    started_as(settings, &[])
}

/// The same with more flags.
#[track_caller]
pub(crate) fn started_as(settings: &[(&str, &str)], flags: &[&str]) -> Served {
    let mut daemon = prepared(settings, flags);
    daemon.start_again();
    daemon.into()
}

/// A daemon that knows [`PRINCIPALS`] by their tokens.
#[track_caller]
pub(crate) fn started_for_principals(settings: &[(&str, &str)]) -> Served {
    let mut daemon = prepared(settings, &["--token-file", "DIR/tokens"]);
    write_tokens(&daemon.path("tokens"), PRINCIPALS);
    daemon.start_again();
    daemon.into()
}

/// One that does not run yet.
pub(crate) fn prepared(settings: &[(&str, &str)], flags: &[&str]) -> Daemon {
    let own: &[&str] = if flags.contains(&"--log-format") { &[] } else { &["--log-format", "text"] };
    let daemon = Daemon::prepared(&[own, flags].concat()).with_variable("TENURE_SESSIONS_POOLS", "tuner=4");
    settings
        .iter()
        .fold(daemon, |daemon, (key, value)| daemon.with_variable(&format!("TENURE_SESSIONS_{key}"), value))
}

/// So many pools of one slot each, `p1` the first.
pub(crate) fn pools_of_one(count: usize) -> String {
    let pools: Vec<String> = (1..=count).map(|number| format!("p{number}=1")).collect();
    pools.join(",")
}

/// The id of a session, however it is shown.
#[track_caller]
pub(crate) fn id(session: &Value) -> &str {
    session["session_id"].as_str().unwrap_or_else(|| panic!("{session}"))
}

/// The id of nobody's session.
pub(crate) fn nobody() -> Value {
    json!({"session_id": "0192f0c1-2d3e-4f50-8a6b-7c8d9e0fa1b2"})
}

/// Milliseconds since 1970 of a time on the wire, which is RFC 3339 in UTC with milliseconds.
#[track_caller]
pub(crate) fn ms(time: &Value) -> i64 {
    let text = time.as_str().unwrap_or_else(|| panic!("no time: {time}"));
    let shape: String =
        text.chars().map(|symbol| if symbol.is_ascii_digit() { '0' } else { symbol }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{text}");
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    // Years that begin in March have their leap day at their end.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let seconds = ((days * 24 + number(11..13)) * 60 + number(14..16)) * 60 + number(17..19);
    seconds * 1_000 + number(20..23)
}

/// Milliseconds that are left by the daemon's own clock.
#[track_caller]
pub(crate) fn left_ms(session: &Value) -> i64 {
    ms(&session["lease_expires_at"]) - ms(&session["server_time"])
}

/// What a person reads of its resources.
pub(crate) fn resources(session: &Value) -> Vec<&str> {
    session["resources"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// The same body with other fields.
pub(crate) fn with(mut body: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// What is asked about sessions over HTTP.
pub(crate) trait Streams {
    /// An intent to start that may be refused.
    #[track_caller]
    fn try_start(&mut self, fields: Value) -> Answered;
    /// Starts a session; gives it.
    #[track_caller]
    fn start(&mut self, fields: Value) -> Value;
    /// An intent to stop.
    #[track_caller]
    fn intend_stop(&mut self, session: &Value) -> Answered;
    /// Stops it; it must end.
    #[track_caller]
    fn stop(&mut self, session: &Value) -> Value;
    #[track_caller]
    fn beat(&mut self, session: &Value) -> Answered;
    /// `heartbeat`, `activate` or `fail`; a body that is null is none.
    #[track_caller]
    fn of_session(&mut self, session: &Value, call: &str, body: Value) -> Answered;
    #[track_caller]
    fn delete_session(&mut self, session: &Value) -> Answered;
    /// As it is, refusals too.
    #[track_caller]
    fn look(&mut self, session: &Value) -> Answered;
    /// As it is.
    #[track_caller]
    fn seen(&mut self, session: &Value) -> Value;
    /// Waits for a state; gives the session in it.
    #[track_caller]
    fn until(&mut self, session: &Value, state: &str) -> Value;
    /// One page of sessions.
    #[track_caller]
    fn list(&mut self, query: &str) -> Vec<Value>;
    /// How many slots of a pool are free.
    #[track_caller]
    fn free(&mut self, pool: &str) -> u64;
    /// Waits until so many are.
    #[track_caller]
    fn until_free(&mut self, pool: &str, count: u64);
    /// Beats for so long, as often as [`SHORT`] asks; every heartbeat must count.
    #[track_caller]
    fn beat_for(&mut self, session: &Value, time: Duration) -> Vec<Value>;
    /// The sum over all samples of a family that have these labels.
    fn number(&mut self, name: &str, labels: &[&str]) -> f64;
}

impl<S: Read + Write> Streams for Http<S> {
    fn try_start(&mut self, fields: Value) -> Answered {
        self.post("/api/v3/intents", &with(json!({"type": "stream.start"}), fields))
    }

    fn start(&mut self, fields: Value) -> Value {
        let session = self.try_start(fields).accepted();
        assert_eq!(session["status"], "accepted", "{session}");
        session
    }

    fn intend_stop(&mut self, session: &Value) -> Answered {
        self.post("/api/v3/intents", &json!({"type": "stream.stop", "session_id": id(session)}))
    }

    fn stop(&mut self, session: &Value) -> Value {
        let stopped = self.delete_session(session).session();
        assert_eq!(stopped["state"], "stopped", "{stopped}");
        stopped
    }

    fn beat(&mut self, session: &Value) -> Answered {
        self.of_session(session, "heartbeat", Value::Null)
    }

    fn of_session(&mut self, session: &Value, call: &str, body: Value) -> Answered {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask("POST", &format!("/api/v3/sessions/{}/{call}", id(session)), body.as_bytes())
    }

    fn delete_session(&mut self, session: &Value) -> Answered {
        self.delete(&format!("/api/v3/sessions/{}", id(session)))
    }

    fn look(&mut self, session: &Value) -> Answered {
        self.get(&format!("/api/v3/sessions/{}", id(session)))
    }

    fn seen(&mut self, session: &Value) -> Value {
        self.look(session).session()
    }

    fn until(&mut self, session: &Value, state: &str) -> Value {
        let mut seen = Value::Null;
        wait_until(&format!("{} {state}", id(session)), LIMIT, || {
            seen = self.seen(session);
            let over = matches!(seen["state"].as_str(), Some("stopped" | "failed"));
            assert!(!over || seen["state"] == state, "it is over, not {state}: {seen}");
            seen["state"] == state
        });
        seen
    }

    fn list(&mut self, query: &str) -> Vec<Value> {
        let answered = self.get(&format!("/api/v3/sessions{query}"));
        let page = answered.good();
        let sessions = page["sessions"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
        assert!(page.as_object().unwrap().contains_key("next_cursor"), "{page}");
        sessions.iter().for_each(is_whole);
        sessions
    }

    fn free(&mut self, pool: &str) -> u64 {
        let pools = self.get("/v1/pools").good();
        let found = pools["pools"].as_array().unwrap().iter().find(|known| known["name"] == pool);
        found.unwrap_or_else(|| panic!("no {pool} in {pools}"))["free"].as_u64().unwrap()
    }

    fn until_free(&mut self, pool: &str, count: u64) {
        wait_until(&format!("{count} free of {pool}"), LIMIT, || self.free(pool) == count);
    }

    fn beat_for(&mut self, session: &Value, time: Duration) -> Vec<Value> {
        let (mut renewed, mut due) = (Vec::new(), boot_ms());
        repeat_for(time, || {
            if boot_ms() >= due {
                renewed.push(self.beat(session).renewed());
                // From the answer on: on a slow machine they would come closer together at the daemon.
                due = boot_ms() + BEAT_MS;
            }
        });
        renewed
    }

    fn number(&mut self, name: &str, labels: &[&str]) -> f64 {
        let text = self.get("/metrics").text();
        let of_family = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        let values = of_family.filter(|line| labels.iter().all(|label| line.contains(label)));
        values.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    }
}

/// What is answered about sessions.
pub(crate) trait Told {
    /// The session that an intent answers.
    #[track_caller]
    fn accepted(&self) -> Value;
    /// The session that any other call answers.
    #[track_caller]
    fn session(&self) -> Value;
    /// A heartbeat that counted.
    #[track_caller]
    fn renewed(&self) -> Value;
    /// The problem of a call that was refused with this code. Status, headers and body say the same.
    #[track_caller]
    fn problem(&self, code: &str) -> Value;
}

impl Told for Answered {
    fn accepted(&self) -> Value {
        assert_eq!(self.status, 202, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let session = self.json();
        is_whole(&session);
        assert!(session["status"].is_string(), "{session}");
        session
    }

    fn session(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        let session = self.good();
        is_whole(&session);
        session
    }

    fn renewed(&self) -> Value {
        let renewed = self.good();
        assert_eq!(renewed["acknowledged"], true, "{renewed}");
        assert!(renewed["session_id"].is_string() && renewed["next_heartbeat_in"].is_u64(), "{renewed}");
        assert!(left_ms(&renewed) > 0, "it has passed already: {renewed}");
        renewed
    }

    fn problem(&self, code: &str) -> Value {
        let problem = self.json();
        assert_eq!(problem["code"], code, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let known = ErrorCode::from_wire(code).unwrap();
        assert_eq!((self.status, &problem["status"]), (known.http_status(), &self.status.into()), "{self:?}");
        assert_eq!(problem["type"], format!("urn:tenure:error:{code}"), "{self:?}");
        for field in ["title", "detail", "request_id"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {self:?}");
        }
        let keys = problem.as_object().unwrap();
        assert!(keys.contains_key("session_id"), "{self:?}");
        for other in ["id", "sessionId", "sessionID", "session", "stream_id"] {
            assert!(!keys.contains_key(other), "a second id key: {self:?}");
        }
        if matches!(known.retry(), Retry::AfterMs(1..)) {
            assert!(retry_after(self) >= 1, "{self:?}");
        }
        problem
    }
}

/// Seconds after which to try again.
#[track_caller]
pub(crate) fn retry_after(answered: &Answered) -> u64 {
    let header = answered.header("retry-after").unwrap_or_else(|| panic!("no retry-after: {answered:?}"));
    header.parse().unwrap_or_else(|_| panic!("no seconds: {answered:?}"))
}

/// Holds of every session, wherever it is shown.
#[track_caller]
pub(crate) fn is_whole(session: &Value) {
    let uuid: String = id(session)
        .chars()
        .map(|symbol| if matches!(symbol, '0'..='9' | 'a'..='f') { 'x' } else { symbol })
        .collect();
    assert_eq!(uuid, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "{session}");
    for time in ["lease_expires_at", "server_time", "created_at"] {
        ms(&session[time]);
    }
    for time in ["last_heartbeat", "ended_at"] {
        assert!(session[time].is_null() || ms(&session[time]) > 0, "{session}");
    }
    for number in ["heartbeat_interval", "lease_ttl"] {
        assert!(session[number].is_u64(), "{number} of {session}");
    }
    assert!(session["resources"].is_array() && session["client"].is_string(), "{session}");
    let state = session["state"].as_str().unwrap_or_else(|| panic!("{session}"));
    assert!(["new", "starting", "running", "draining", "stopped", "failed"].contains(&state), "{session}");
    let over = matches!(state, "stopped" | "failed");
    assert_eq!(session["reason"].is_string(), over, "a reason is what ended sessions have: {session}");
    assert_eq!(session["ended_at"].is_string(), over, "{session}");
    assert_eq!(session["queue_position"].is_u64(), state == "new", "{session}");
    for number in ["fence", "epoch"] {
        assert!(session[number].is_u64() || state == "new" || over, "{number} of {session}");
        assert!(session[number].is_null() || state != "new", "{number} of {session}");
    }
}
