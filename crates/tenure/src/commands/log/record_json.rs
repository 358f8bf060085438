//! Records as JSON: every field of every event and note, by name. Bytes that are JSON are shown as JSON, others in
//! hexadecimal under a name that says so.

use serde_json::{Map, Value, json};
use tenure_history::{Content, LoggedRecord, WireLease, actor_word, rfc3339};
use tenure_kernel::{
    Actor, Change, Epitaph, Evidence, GateReport, LeaseId, Note, Operation, Policy, ReclaimBy, ReclaimGround,
    ReclaimRule, RecordKind, Subject, Text,
};
use tenure_log::Identity;
use tenure_log::file::segment_name;

/// A JSON object in the order in which its fields are added.
type Object = Map<String, Value>;

pub(super) fn record_object(identity: &Identity, record: &LoggedRecord) -> Value {
    let mut object = Object::new();
    put(&mut object, "lsn", record.lsn.0);
    put(&mut object, "tick", record.tick.0);
    put(&mut object, "at", rfc3339(record.wall_ms));
    put(&mut object, "record", record.kind.map_or("unknown", RecordKind::name));
    match &record.content {
        Content::Event(event) => {
            put(&mut object, "kind", event.change.kind().as_str());
            let lease = event.change.lease(LeaseId::new(identity.shard, record.lsn));
            put(&mut object, "lease_id", lease.map(|lease| wire(identity, lease)));
            change(&event.change, &mut object);
            if let Some(operation) = &event.operation {
                put(&mut object, "operation", operation_object(operation));
            }
        }
        Content::Note(observed) => {
            put(&mut object, "kind", observed.kind());
            note(identity, observed, &mut object);
        }
        Content::UnknownNote { bytes } => {
            put(&mut object, "kind", Value::Null);
            put(&mut object, "unreadable", "a note of a kind that this version does not know");
            put(&mut object, "bytes_hex", hex(bytes));
        }
        Content::Tick | Content::Close => {}
        Content::Unreadable { error, bytes } => {
            put(&mut object, "kind", Value::Null);
            put(&mut object, "unreadable", error.to_string());
            put(&mut object, "bytes_hex", hex(bytes));
        }
    }
    let frame = record.frame;
    put(&mut object, "frame", json!({"segment": segment_name(frame.segment), "offset": frame.offset}));
    Value::Object(object)
}

fn put(object: &mut Object, name: &str, value: impl Into<Value>) {
    object.insert(name.to_owned(), value.into());
}

fn change(change: &Change, object: &mut Object) {
    match change {
        Change::Granted(granted) => {
            put(object, "holder", granted.holder.as_str());
            put(object, "resources", names(&granted.members));
            put(object, "deadline_tick", granted.deadline.map(|deadline| deadline.0));
            put(object, "policy", policy_object(&granted.policy));
            payload(object, Some(&granted.attachment), Some(&granted.face_data));
            put(object, "granted_at", rfc3339(granted.wall_ms));
        }
        Change::Activated { .. } | Change::Notified { .. } => {}
        Change::Rebound(rebound) => {
            put(object, "epoch", rebound.epoch.0);
            put(object, "holder", rebound.holder.as_str());
            put(object, "taken_over", rebound.taken_over);
            if let Some(policy) = &rebound.policy {
                put(object, "policy", policy_object(policy));
            }
            payload(object, rebound.attachment.as_deref(), rebound.face_data.as_deref());
        }
        Change::Amended(amended) => {
            payload(object, amended.attachment.as_deref(), amended.face_data.as_deref());
        }
        Change::Drained(steered) | Change::Revived(steered) => {
            put(object, "actor", actor_word(&steered.actor));
            put(object, "reason_text", text(&steered.text));
        }
        Change::Released(released) => {
            put(object, "reason", "explicit");
            put(object, "reason_text", text(&released.text));
            epitaph(&released.was, object);
        }
        Change::Revoked(revoked) => {
            put(object, "epoch", revoked.epoch.0);
            put(object, "reason", revoked.reason.as_str());
            put(object, "reason_text", text(&revoked.text));
            put(object, "actor", actor_word(&revoked.actor));
            put(object, "evidence", evidence_object(revoked.evidence));
            put(object, "reclaim_by", reclaim_by(revoked.reclaim_by));
        }
        Change::Reclaimed(reclaimed) => {
            put(object, "reason", reclaimed.reason.as_str());
            put(object, "reason_text", text(&reclaimed.text));
            put(object, "actor", actor_word(&reclaimed.actor));
            put(object, "ground", ground(reclaimed.ground));
            put(object, "gate", gate(reclaimed.gate));
            epitaph(&reclaimed.was, object);
        }
        Change::Expired(expired) => {
            put(object, "reason", "reservation_expired");
            put(object, "actor", actor_word(&Actor::Daemon));
            epitaph(&expired.was, object);
        }
        Change::SessionOpened(open) => {
            put(object, "session", open.session.to_string());
            put(object, "holder", open.holder.as_str());
            put(object, "session_kind", open.kind.as_str());
            put(object, "ttl_ms", open.ttl_ms);
            put(object, "grace_ms", open.grace_ms);
            put(object, "principal", open.principal.as_str());
        }
        Change::SessionClosed { session, reason } => {
            put(object, "session", session.to_string());
            put(object, "reason", reason.as_str());
        }
        Change::PoolDefined { name, size } => {
            put(object, "pool", name.as_str());
            put(object, "size", *size);
        }
        Change::PoolRemoved { name } => put(object, "pool", name.as_str()),
        Change::Trimmed { below } => put(object, "below", below.0),
        Change::Configured(retention) => {
            put(object, "window_ms", retention.window_ms);
            put(object, "leases_max", retention.leases_max);
            put(object, "leases_per_face_max", retention.leases_per_face_max);
            put(object, "operations_per_principal_max", retention.operations_per_principal_max);
        }
    }
}

fn note(identity: &Identity, note: &Note, object: &mut Object) {
    match note {
        Note::Draining { subject: whom, last_seen, until } => {
            subject(identity, *whom, object);
            put(object, "last_seen_tick", last_seen.0);
            put(object, "until_tick", until.0);
        }
        Note::Returned { subject: whom } => subject(identity, *whom, object),
        Note::GateOpened { lease } => put(object, "lease_id", wire(identity, *lease)),
        Note::BreakerOpened { silent, alive } => {
            put(object, "silent", *silent);
            put(object, "alive", *alive);
        }
        Note::BreakerClosed | Note::Restarted => {}
        Note::Stalled { gap_ms } => put(object, "gap_ms", *gap_ms),
    }
}

fn subject(identity: &Identity, subject: Subject, object: &mut Object) {
    match subject {
        Subject::Lease(lease) => put(object, "lease_id", wire(identity, lease)),
        Subject::Session(session) => put(object, "session", session.to_string()),
    }
}

/// What a lease was when it ended.
fn epitaph(was: &Epitaph, object: &mut Object) {
    put(object, "epoch", was.epoch.0);
    put(object, "holder", was.holder.as_str());
    put(object, "resources", names(&was.members));
    put(object, "policy", policy_object(&was.policy));
    payload(object, None, Some(&was.face_data));
    put(object, "granted_tick", was.granted_tick.0);
    put(object, "granted_at", rfc3339(was.granted_wall_ms));
}

fn policy_object(policy: &Policy) -> Value {
    json!({
        "mode": policy.mode.as_str(),
        "ttl_ms": policy.ttl_ms,
        "grace_ms": policy.grace_ms,
        "max_lifetime_ms": policy.max_lifetime_ms,
        "reclaim_delay_ms": policy.reclaim_delay_ms,
        "reclaim_rule": match policy.reclaim_rule {
            ReclaimRule::AfterPromise => "after_promise",
            ReclaimRule::AtOnce => "at_once",
        },
        "face": policy.face.as_str(),
        "gate": policy.gate,
        "notice": policy.notice,
        "session": policy.session.map(|session| session.to_string()),
        "principal": policy.principal.as_str(),
    })
}

fn operation_object(operation: &Operation) -> Value {
    json!({
        "key": format!("{:032x}", operation.key),
        "fingerprint": format!("{:016x}", operation.fingerprint),
        "keep_ms": operation.keep_ms,
        "principal": operation.principal.as_str(),
    })
}

/// What the daemon had seen; null where it acted on a command alone.
pub(super) fn evidence_object(evidence: Evidence) -> Value {
    match evidence {
        Evidence::None => Value::Null,
        Evidence::Silence { last_seen, promised_until } => json!({
            "kind": "silence",
            "last_seen_tick": last_seen.0,
            "promised_until_tick": promised_until.0,
        }),
        Evidence::Disconnected { at } => json!({"kind": "disconnected", "at_tick": at.0}),
        Evidence::Lifetime { since } => json!({"kind": "lifetime", "since_tick": since.0}),
        Evidence::Drained { since } => json!({"kind": "drained", "since_tick": since.0}),
    }
}

pub(super) fn reclaim_by(by: ReclaimBy) -> &'static str {
    match by {
        ReclaimBy::Daemon => "daemon",
        ReclaimBy::Operator => "operator",
    }
}

fn ground(ground: ReclaimGround) -> &'static str {
    match ground {
        ReclaimGround::PromiseOver => "promise_over",
        ReclaimGround::Acknowledged => "acknowledged",
        ReclaimGround::AtOnce => "at_once",
        ReclaimGround::Forced => "forced",
    }
}

fn gate(gate: GateReport) -> Option<&'static str> {
    match gate {
        GateReport::None => None,
        GateReport::Confirmed => Some("confirmed"),
        GateReport::TimedOut => Some("timed_out"),
    }
}

/// Adds the user's and the face's bytes where there are some.
pub(super) fn payload(object: &mut Object, attachment: Option<&[u8]>, face_data: Option<&[u8]>) {
    for (name, bytes) in [("attachment", attachment), ("face_data", face_data)] {
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { continue };
        match serde_json::from_slice::<Value>(bytes) {
            Ok(value) => put(object, name, value),
            Err(_) => put(object, &format!("{name}_hex"), hex(bytes)),
        }
    }
}

fn wire(identity: &Identity, lease: LeaseId) -> String {
    WireLease::new(identity, lease).to_string()
}

fn names(names: &[Text]) -> Vec<Value> {
    names.iter().map(|name| name.as_str().into()).collect()
}

/// Null where there are no words.
fn text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
