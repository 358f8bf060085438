//! Events, a sentence each.

use tenure_api::{DrainCause, Event, EventKind, EventLease, State};
use tenure_history::duration;

use super::{names, word};
use crate::printer::plain;

/// Names shown in a sentence.
const NAMES_MAX: usize = 8;

/// One event on one line: when, position, kind, and what it means.
pub(crate) fn event_line(event: &Event) -> String {
    let kind = word(&event.kind);
    plain(&format!("{}  {:>6}  {kind:<14}  {}", event.at, event.lsn, sentence(event)))
}

fn sentence(event: &Event) -> String {
    match &event.lease {
        Some(lease) => lease_sentence(event.kind, lease),
        None => other_sentence(event),
    }
}

fn lease_sentence(kind: EventKind, lease: &EventLease) -> String {
    let Told { id, holder, resources, whole } = &Told::by(lease);
    let reason = reason(lease);
    match kind {
        EventKind::Granted if lease.state == Some(State::Reserved) => {
            format!("{holder} has {resources} reserved as {id}{}", terms(lease))
        }
        EventKind::Granted => format!("{holder} holds {resources} as {id}{}", terms(lease)),
        EventKind::Activated => format!("{holder} activated {id}: {resources}"),
        EventKind::Rebound => {
            let epoch = lease.epoch.map(|epoch| format!(", epoch {epoch}")).unwrap_or_default();
            format!("{holder} holds {resources} from now on as {id}{epoch}")
        }
        EventKind::Amended => format!("{holder} replaced the attachment of {id}: {resources}"),
        EventKind::Draining => match lease.drain_cause {
            Some(DrainCause::Operator) => format!("{whole} drains, by an operator{reason}"),
            Some(DrainCause::Silence) | None => format!("{whole} drains, its holder is silent"),
        },
        EventKind::Revived => format!("{whole} is alive again{reason}"),
        EventKind::Released => format!("{holder} released {id}, {resources} free{reason}"),
        EventKind::Revoked => format!("{holder} lost {id}, {resources} not free yet{reason}"),
        EventKind::Reclaimed => format!("{resources} free again, {id} of {holder} ended{reason}"),
        EventKind::Expired => format!("the reservation {id} of {holder} expired, {resources} free{reason}"),
        EventKind::SessionOpened
        | EventKind::SessionClosed
        | EventKind::PoolDefined
        | EventKind::PoolRemoved
        | EventKind::Lagged
        | EventKind::Closing => whole.clone(),
    }
}

fn other_sentence(event: &Event) -> String {
    let session = event.session.as_deref().unwrap_or("a session");
    let pool = event.pool.as_deref().unwrap_or("?");
    match event.kind {
        EventKind::SessionOpened => format!("session {session} opened"),
        EventKind::SessionClosed => format!("session {session} ended"),
        EventKind::PoolDefined => format!("pool {pool} has a new size"),
        EventKind::PoolRemoved => format!("pool {pool} was removed"),
        EventKind::Lagged => "this client reads too slowly: some events were skipped".to_owned(),
        EventKind::Closing => "the daemon stops".to_owned(),
        EventKind::Granted
        | EventKind::Activated
        | EventKind::Rebound
        | EventKind::Amended
        | EventKind::Draining
        | EventKind::Revived
        | EventKind::Released
        | EventKind::Revoked
        | EventKind::Reclaimed
        | EventKind::Expired => "a lease without details".to_owned(),
    }
}

/// The parts of a sentence; what the event does not tell has a stand-in.
struct Told {
    id: String,
    holder: String,
    resources: String,
    whole: String,
}

impl Told {
    fn by(lease: &EventLease) -> Self {
        let id = lease.lease_id.clone();
        let resources = lease.resources.as_deref().map(|all| names(all, NAMES_MAX));
        let covered = resources.as_ref().map(|names| format!(" ({names})")).unwrap_or_default();
        let held = lease.holder.as_ref().map(|holder| format!(" of {holder}")).unwrap_or_default();
        Self {
            whole: format!("{id}{covered}{held}"),
            id,
            holder: lease.holder.clone().unwrap_or_else(|| "its holder".to_owned()),
            resources: resources.unwrap_or_else(|| "its resources".to_owned()),
        }
    }
}

fn terms(lease: &EventLease) -> String {
    let mode = lease.mode.as_ref().map(word);
    let spans = [("ttl", lease.ttl_ms), ("grace", lease.grace_ms)];
    let spans = spans.into_iter().filter_map(|(name, ms)| ms.map(|ms| format!("{name} {}", duration(ms))));
    let parts: Vec<String> = mode.into_iter().chain(spans).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn reason(lease: &EventLease) -> String {
    let parts = [&lease.reason, &lease.reason_text];
    let parts: Vec<&str> =
        parts.into_iter().flatten().map(String::as_str).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn line(kind: &str, lease: Value) -> String {
        let event = json!({"lsn": 7, "at": "2026-02-07T22:15:00.000Z", "kind": kind, "lease": lease});
        let line = event_line(&serde_json::from_value(event).unwrap());
        line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_kind_reads_like_a_sentence() {
        let full = json!({
            "lease_id": "k3f9-4", "holder": "alice", "resources": ["printer"], "mode": "heartbeat",
            "ttl_ms": 90_000, "grace_ms": 30_000, "epoch": 2, "reason": "explicit", "drain_cause": "silence",
        });
        let kinds = [
            "granted",
            "activated",
            "rebound",
            "amended",
            "draining",
            "revived",
            "released",
            "revoked",
            "reclaimed",
            "expired",
        ];
        let lines: Vec<String> = kinds.iter().map(|kind| line(kind, full.clone())).collect();
        expect_test::expect![[r#"
            granted alice holds printer as k3f9-4 (heartbeat, ttl 90 s, grace 30 s)
            activated alice activated k3f9-4: printer
            rebound alice holds printer from now on as k3f9-4, epoch 2
            amended alice replaced the attachment of k3f9-4: printer
            draining k3f9-4 (printer) of alice drains, its holder is silent
            revived k3f9-4 (printer) of alice is alive again: explicit
            released alice released k3f9-4, printer free: explicit
            revoked alice lost k3f9-4, printer not free yet: explicit
            reclaimed printer free again, k3f9-4 of alice ended: explicit
            expired the reservation k3f9-4 of alice expired, printer free: explicit"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn what_is_not_told_has_a_stand_in() {
        assert_eq!(
            line("revoked", json!({"lease_id": "k3f9-4"})),
            "revoked its holder lost k3f9-4, its resources not free yet"
        );
        assert_eq!(line("closing", Value::Null), "closing the daemon stops");
    }
}
