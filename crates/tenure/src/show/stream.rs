//! Sessions of `/api/v3`.

use tenure_api::{SlotSession, SlotSessionEvent, SlotSessionRenewed, SlotSessionState};
use tenure_history::{duration, parse_rfc3339};

use super::{Now, Page, age, names, when};
use crate::printer::plain;
use crate::table::Table;

/// Names shown in a cell or a sentence.
const NAMES_MAX: usize = 8;

/// Everything about one session.
pub(crate) fn stream_page(stream: &SlotSession) -> Page {
    let now = Now::of(&stream.server_time);
    let shown = |time: &Option<String>| time.as_ref().map(|time| when(now, time));
    let mut page = Page::default();
    page.row("session", stream.session_id.clone());
    page.row("state", state_words(stream));
    page.row("client", stream.client.clone());
    page.row("resources", stream.resources.join(", "));
    page.row("about", stream.service_ref.clone());
    page.row("epoch", stream.epoch.map(|epoch| epoch.to_string()));
    page.row("fence", stream.fence.map(|fence| fence.to_string()));
    page.row("started", when(now, &stream.created_at));
    page.row("last heartbeat", shown(&stream.last_heartbeat));
    page.row("next", next_words(stream, now));
    page.row("ended", shown(&stream.ended_at));
    page.row("lease", stream.lease_id.clone());
    page.row("correlation id", stream.correlation_id.clone());
    page.row(
        "metadata",
        stream.metadata.clone().map(|metadata| serde_json::Value::from(metadata).to_string()),
    );
    page
}

/// One row each.
pub(crate) fn stream_table(streams: &[SlotSession]) -> Table {
    let mut table = Table::new(&["ID", "STATE", "CLIENT", "RESOURCES", "LEFT", "AGE", "ABOUT", "STARTED"]);
    for stream in streams {
        let now = Now::of(&stream.server_time);
        table.row(vec![
            stream.session_id.clone(),
            state_words(stream),
            stream.client.clone(),
            names(&stream.resources, NAMES_MAX),
            left_ms(stream).map(duration).unwrap_or_default(),
            age(now, &stream.created_at).unwrap_or_default(),
            stream.service_ref.clone().unwrap_or_default(),
            stream.created_at.clone(),
        ]);
    }
    table
}

/// A heartbeat's answer.
pub(crate) fn stream_renewed_page(renewed: &SlotSessionRenewed) -> Page {
    let now = Now::of(&renewed.server_time);
    let mut page = Page::default();
    page.row("session", renewed.session_id.clone());
    page.row("next", format!("expires {} unless it is renewed", when(now, &renewed.lease_expires_at)));
    page.row("heartbeat", format!("next one within {} s", renewed.next_heartbeat_in));
    page
}

/// What is about to be ended, in one line.
pub(crate) fn stream_words(stream: &SlotSession) -> String {
    let age = age(Now::of(&stream.server_time), &stream.created_at);
    let covered =
        if stream.resources.is_empty() { "no slot yet" } else { &names(&stream.resources, NAMES_MAX) };
    let age = age.map(|age| format!(", started {age} ago")).unwrap_or_default();
    format!(
        "slot session {} of {}: {covered}, {}{age}",
        stream.session_id,
        stream.client,
        state_words(stream)
    )
}

/// What became of a session that an operator stopped; `None`: it is over.
pub(crate) fn stream_withdrawn_words(stream: &SlotSession) -> Option<String> {
    let left = duration(left_ms(stream)?);
    Some(format!(
        "another principal started this session, so it is withdrawn: its slots come free once its client confirms, at the \
         latest in {left}"
    ))
}

/// News on one line: when, what kind, and what it means.
pub(crate) fn stream_line(news: SlotSessionEvent, stream: &SlotSession) -> String {
    let left = left_ms(stream).map(duration).unwrap_or_else(|| "nothing".to_owned());
    let sentence = match news {
        SlotSessionEvent::Snapshot => stream_words(stream),
        SlotSessionEvent::Renewed => format!("renewed; {left} left"),
        SlotSessionEvent::Expiring => format!("expires unless it is renewed; {left} left"),
        SlotSessionEvent::Expired => "expired".to_owned(),
        SlotSessionEvent::State => match stream.resources.as_slice() {
            [] => state_words(stream),
            resources => format!("{}: {}", state_words(stream), names(resources, NAMES_MAX)),
        },
    };
    plain(&format!("{}  {:<14}  {sentence}", stream.server_time, news.as_str()))
}

fn state_words(stream: &SlotSession) -> String {
    let state = stream.state.as_str();
    match (stream.state, stream.queue_position, &stream.reason) {
        (SlotSessionState::New, Some(place), _) => format!("{state}, position {place} in the queue"),
        (_, _, Some(reason)) => format!("{state}, {reason}"),
        _ => state.to_owned(),
    }
}

fn next_words(stream: &SlotSession, now: Option<Now>) -> Option<String> {
    let (what, unless) = match stream.state {
        SlotSessionState::New => ("leaves the queue", "it is renewed"),
        SlotSessionState::Starting => ("fails", "it is activated"),
        SlotSessionState::Running | SlotSessionState::Draining => ("expires", "it is renewed"),
        SlotSessionState::Stopped | SlotSessionState::Failed => return None,
    };
    Some(format!("{what} {} unless {unless}", when(now, &stream.lease_expires_at)))
}

/// How long it is good for; `None` when it has ended.
fn left_ms(stream: &SlotSession) -> Option<u64> {
    let until = parse_rfc3339(&stream.lease_expires_at).ok()?;
    let now = parse_rfc3339(&stream.server_time).ok()?;
    (!stream.state.is_terminal()).then(|| until.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::{Value, json};

    fn stream(changes: Value) -> SlotSession {
        let mut value = json!({
            "session_id": "5d0c3f1e-0000-4000-8000-000000000001", "state": "running",
            "lease_expires_at": "2026-02-07T22:16:00.000Z", "heartbeat_interval": 5, "lease_ttl": 60,
            "server_time": "2026-02-07T22:15:10.000Z", "service_ref": "channel 7", "resources": ["tuner/1"],
            "fence": 9, "epoch": 1, "created_at": "2026-02-07T22:15:00.000Z", "client": "alice@desk",
            "lease_id": "k3f9-4", "lsn": 12,
        });
        for (key, change) in changes.as_object().unwrap() {
            value[key] = change.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_page_says_what_comes_next() {
        let lines = stream_page(&stream(json!({"metadata": {"a": "\u{1b}[31m"}}))).lines().join("\n");
        expect![[r#"
            session    5d0c3f1e-0000-4000-8000-000000000001
            state      running
            client     alice@desk
            resources  tuner/1
            about      channel 7
            epoch      1
            fence      9
            started    10 s ago (2026-02-07T22:15:00.000Z)
            next       expires in 50 s (2026-02-07T22:16:00.000Z) unless it is renewed
            lease      k3f9-4
            metadata   {"a":"\u001b[31m"}"#]]
        .assert_eq(&lines);
        let queued = stream(json!({
            "state": "new", "resources": [], "fence": null, "epoch": null, "lease_id": null, "queue_position": 2,
        }));
        assert_eq!(
            stream_words(&queued),
            "slot session 5d0c3f1e-0000-4000-8000-000000000001 of alice@desk: no slot yet, new, position 2 in the queue, \
             started 10 s ago"
        );
    }

    #[test]
    fn news_are_one_line_each() {
        let ended = json!({"state": "stopped", "reason": "LEASE_EXPIRED"});
        let lines = [
            stream_line(SlotSessionEvent::Snapshot, &stream(json!({}))),
            stream_line(SlotSessionEvent::Renewed, &stream(json!({}))),
            stream_line(
                SlotSessionEvent::Expiring,
                &stream(json!({"server_time": "2026-02-07T22:15:40.000Z"})),
            ),
            stream_line(SlotSessionEvent::Expired, &stream(ended.clone())),
            stream_line(SlotSessionEvent::State, &stream(ended)),
        ];
        expect![[r#"
            2026-02-07T22:15:10.000Z  snapshot        slot session 5d0c3f1e-0000-4000-8000-000000000001 of alice@desk: tuner/1, running, started 10 s ago
            2026-02-07T22:15:10.000Z  lease.renewed   renewed; 50 s left
            2026-02-07T22:15:40.000Z  lease.expiring  expires unless it is renewed; 20 s left
            2026-02-07T22:15:10.000Z  lease.expired   expired
            2026-02-07T22:15:10.000Z  state           stopped, LEASE_EXPIRED: tuner/1"#]]
        .assert_eq(&lines.join("\n"));
    }
}
