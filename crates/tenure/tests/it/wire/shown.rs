//! Answers in a form that is the same for every run: ids have names, fences are numbered, durations are rounded,
//! times are checked and left out.

use std::cmp::Reverse;

use serde_json::{Map, Value};

use super::contract::Outcome;
use crate::cluster::stage;

/// Every field of a lease view, as the contract lists them.
const LEASE_FIELDS: &[&str] = &[
    "lease_id",
    "holder",
    "state",
    "liveness",
    "drain_cause",
    "mode",
    "epoch",
    "fence",
    "resources",
    "ttl_ms",
    "grace_ms",
    "valid_ms",
    "remaining_ms",
    "granted_at",
    "last_seen",
    "deadline",
    "ended_at",
    "reason",
    "reason_text",
    "session",
    "application",
    "face",
    "attachment",
    "server_time",
    "lsn",
];
/// Fields that are there only where they mean something.
const LEASE_FIELDS_SOMETIMES: &[&str] = &["waiters", "replayed", "unheard_since"];

/// What the answers so far have shown.
#[derive(Default)]
pub(crate) struct Shown {
    names: Vec<(String, String)>,
    fences: Vec<u64>,
    lsn: u64,
}

impl Shown {
    /// Calls the lease of an answer by this name.
    pub(crate) fn name(&mut self, name: &str, answer: &Value) {
        if let Some(id) = answer["lease_id"].as_str()
            && !self.names.iter().any(|(known, _)| known == id)
        {
            self.names.push((id.to_owned(), name.to_owned()));
            // An id may begin with another.
            self.names.sort_by_key(|(id, _)| Reverse(id.len()));
        }
    }

    #[track_caller]
    pub(crate) fn outcome(&mut self, outcome: &Outcome) -> String {
        match outcome {
            Ok(answer) => {
                let lsn = answer["lsn"].as_u64().unwrap_or_else(|| panic!("no lsn: {answer}"));
                assert!(lsn >= self.lsn, "position {lsn} after {}: {answer}", self.lsn);
                self.lsn = lsn;
                self.value(answer)
            }
            Err(error) => self.error(error),
        }
    }

    fn error(&mut self, error: &Value) -> String {
        let mut fields = error.as_object().unwrap().clone();
        let code = fields.remove("error").unwrap();
        let mut text = format!("! {}", code.as_str().unwrap());
        let hint = fields.remove("hint").unwrap();
        assert!(hint.as_str().is_some_and(|hint| !hint.is_empty() && !hint.ends_with('.')), "{error}");
        let docs = fields.remove("docs").unwrap();
        assert_eq!(docs, format!("/docs/errors#{}", code.as_str().unwrap()), "{error}");
        assert!(fields.remove("message").unwrap().as_str().is_some_and(|message| !message.is_empty()));
        assert_eq!(fields.remove("definite"), Some(true.into()), "{error}");
        if fields.remove("lost").unwrap().as_bool().unwrap() {
            text.push_str(" lost");
        }
        for (key, value) in &fields {
            text.push_str(&format!(" {key}={}", self.field(key, value)));
        }
        text
    }

    fn value(&mut self, value: &Value) -> String {
        match value {
            Value::Object(fields)
                if fields.contains_key("granted_at") && fields.contains_key("server_time") =>
            {
                self.lease(fields)
            }
            Value::Object(fields) => {
                let shown: Vec<String> = fields
                    .iter()
                    .filter(|(key, value)| !value.is_null() && !matches!(key.as_str(), "lsn" | "server_time"))
                    .map(|(key, value)| format!("{key}={}", self.field(key, value)))
                    .collect();
                format!("({})", shown.join(" "))
            }
            Value::Array(values) => {
                // That another node leads is an entry of every story that goes on over it.
                let is_of_script = |value: &&Value| stage::leader().is_none() || value["kind"] != "restarted";
                let values = values.iter().filter(is_of_script);
                let shown: Vec<String> = values.map(|value| self.value(value)).collect();
                format!("[{}]", shown.join(" "))
            }
            Value::String(text) => self.text(text),
            other => other.to_string(),
        }
    }

    fn field(&mut self, key: &str, value: &Value) -> String {
        match (key, value) {
            (_, Value::Null) => "null".to_owned(),
            ("fence", fence) => self.fence(fence.as_u64().unwrap()),
            ("valid_ms" | "remaining_ms" | "retry_after_ms", ms) => rounded(ms.as_u64().unwrap()),
            ("at" | "since" | "last_seen" | "promised_until", at) => time(at).to_owned(),
            ("actor" | "text", text) => self.text(&principal(text.as_str().unwrap())),
            ("server_time", at) => time(at).to_owned(),
            ("attachment", value) => value.to_string(),
            (_, value) => self.value(value),
        }
    }

    #[track_caller]
    fn lease(&mut self, lease: &Map<String, Value>) -> String {
        for field in LEASE_FIELDS {
            assert!(lease.contains_key(*field), "no {field}: {lease:?}");
        }
        for field in lease.keys() {
            let known =
                LEASE_FIELDS.contains(&field.as_str()) || LEASE_FIELDS_SOMETIMES.contains(&field.as_str());
            assert!(known, "{field}: {lease:?}");
        }
        time(&lease["granted_at"]);
        time(&lease["server_time"]);
        assert_eq!(lease["deadline"].is_null(), lease["remaining_ms"].is_null(), "{lease:?}");
        let ended = matches!(lease["state"].as_str(), Some("released" | "expired" | "revoked"));
        assert_eq!(lease["ended_at"].is_null(), !ended, "{lease:?}");
        assert_eq!(lease["application"], "leases");
        let word = |key: &str| lease[key].as_str().map(str::to_owned);
        let mut parts = vec![self.text(&word("lease_id").unwrap()), word("holder").unwrap()];
        let standing = [word("liveness"), word("drain_cause")].into_iter().flatten();
        parts.push(word("state").into_iter().chain(standing).collect::<Vec<_>>().join("/"));
        parts.push(word("mode").unwrap());
        parts.push(format!("epoch={}", lease["epoch"]));
        parts.push(self.fence(lease["fence"].as_u64().unwrap()));
        parts.push(self.value(&lease["resources"]));
        for key in ["ttl_ms", "grace_ms", "valid_ms", "remaining_ms", "reason", "reason_text", "session"] {
            if !lease[key].is_null() {
                parts.push(format!("{}={}", key.trim_end_matches("_ms"), self.field(key, &lease[key])));
            }
        }
        for key in ["attachment", "waiters", "replayed"] {
            if let Some(value) = lease.get(key).filter(|value| !value.is_null()) {
                parts.push(format!("{key}={}", self.field(key, value)));
            }
        }
        parts.join(" ")
    }

    fn fence(&mut self, fence: u64) -> String {
        let at = self.fences.iter().position(|known| *known == fence).unwrap_or_else(|| {
            self.fences.push(fence);
            self.fences.len() - 1
        });
        format!("F{}", at + 1)
    }

    fn text(&self, text: &str) -> String {
        let kind = text
            .split_once(':')
            .filter(|(kind, rest)| matches!(*kind, "s" | "pipe" | "cli") && rest.len() == 8);
        if let Some((kind, _)) = kind {
            return format!("{kind}:");
        }
        let named =
            self.names.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id.as_str(), name));
        // A transcript has one line per step, whatever a name holds.
        named
            .chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
            .collect()
    }
}

/// Who asks is known differently over each transport, and nodes add the machine: `uid:0@3f869eab4cf5`.
fn principal(text: &str) -> String {
    let uid = format!("uid:{}", rustix::process::geteuid().as_raw());
    let with_machine = format!("{uid}@");
    let mut parts = text.split(with_machine.as_str());
    let first = parts.next().unwrap().to_owned();
    let alone = parts.fold(first, |text, rest| {
        let machine = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        format!("{text}{uid}{}", &rest[machine..])
    });
    alone
        .replace(&uid, "ME")
        .replace("by local", "by ME")
        .replace("operator:local", "operator:ME")
        .replace("(local)", "(ME)")
}

/// Nothing in a scenario takes five seconds.
fn rounded(ms: u64) -> String {
    (ms.div_ceil(5_000) * 5_000).to_string()
}

/// RFC 3339, UTC, with milliseconds.
#[track_caller]
pub(crate) fn time(value: &Value) -> &'static str {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no time"));
    let form: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(form, "0000-00-00T00:00:00.000Z", "{text}");
    "T"
}
