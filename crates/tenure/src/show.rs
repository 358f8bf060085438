//! What the API says, put into words for people. Pure: answers in, pages, tables and sentences out; `--json` never
//! comes through here.

mod cluster;
mod discovery;
mod event;
mod lease;
mod page;
mod polling;
mod registration;
mod resource;
mod session;
mod status;
mod story;
mod stream;

pub(crate) use cluster::{cluster_node_words, cluster_page, leader_words, node_list};
pub(crate) use discovery::{browsed_line, discovery_line, service_page};
pub(crate) use event::event_line;
pub(crate) use lease::{lease_page, lease_table, lease_words, renewed_page};
pub(crate) use page::Page;
pub(crate) use polling::{cordoned_page, group_line, group_table, moved_page, node_table, target_table};
pub(crate) use registration::{
    daemon_lines, registered_page, registration_lines, registration_table, registration_words,
};
pub(crate) use resource::{check_page, pool_table, resource_page, resource_table};
pub(crate) use session::{session_page, session_renewed_page, session_table};
pub(crate) use status::status_page;
pub(crate) use story::story_lines;
pub(crate) use stream::{
    stream_line, stream_page, stream_renewed_page, stream_table, stream_withdrawn_words, stream_words,
};

use serde::Serialize;
use serde_json::Value;
use tenure_api::Time;
use tenure_history::{duration, parse_rfc3339};

/// The clock that an answer's times are counted from.
#[derive(Clone, Copy)]
pub(crate) struct Now(u64);

impl Now {
    /// The daemon's clock as it says; `None`: it says nothing that can be read, and times are shown as they are.
    pub(crate) fn of(server_time: &str) -> Option<Self> {
        parse_rfc3339(server_time).ok().map(Self)
    }

    /// This machine's clock.
    pub(crate) fn here(wall_ms: u64) -> Self {
        Self(wall_ms)
    }
}

/// `3 s ago (2026-02-07T22:15:00.000Z)`, or `in 3 s (…)`.
pub(crate) fn when(now: Option<Now>, time: &Time) -> String {
    match relative(now, time) {
        Some(relative) => format!("{relative} ({time})"),
        None => time.clone(),
    }
}

/// When a holder was last heard; where no proof of life came since time began anew, since when the daemon waits for one.
pub(crate) fn seen(
    last_seen: Option<&Time>,
    unheard_since: Option<&Time>,
    shown: impl Fn(&Time) -> String,
) -> Option<String> {
    let unheard = || unheard_since.map(|since| format!("not since the restart or revive, {}", shown(since)));
    last_seen.map(&shown).or_else(unheard)
}

/// `3 s ago`, `in 3 s`, `now`.
fn relative(now: Option<Now>, time: &Time) -> Option<String> {
    let (Now(now), at) = (now?, parse_rfc3339(time).ok()?);
    Some(match now.abs_diff(at) {
        0..1_000 => "now".to_owned(),
        ms if at < now => format!("{} ago", duration(ms)),
        ms => format!("in {}", duration(ms)),
    })
}

/// How long since.
fn age(now: Option<Now>, time: &Time) -> Option<String> {
    let (Now(now), at) = (now?, parse_rfc3339(time).ok()?);
    Some(duration(now.saturating_sub(at)))
}

/// What the wire calls it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// `a, b and 3 more`: never more than `most` names.
pub(crate) fn names(names: &[String], most: usize) -> String {
    if names.len() <= most {
        return names.join(", ");
    }
    format!("{} and {} more", names[..most].join(", "), names.len() - most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_and_absolute() {
        let now = Now::of("2026-02-07T22:15:10.000Z");
        let shown = |time: &str| when(now, &time.to_owned());
        assert_eq!(shown("2026-02-07T22:15:00.000Z"), "10 s ago (2026-02-07T22:15:00.000Z)");
        assert_eq!(shown("2026-02-07T22:17:00.000Z"), "in 110 s (2026-02-07T22:17:00.000Z)");
        assert_eq!(shown("2026-02-07T22:15:10.999Z"), "now (2026-02-07T22:15:10.999Z)");
        assert_eq!(shown("whenever"), "whenever");
        assert_eq!(when(None, &"2026-02-07T22:15:00.000Z".to_owned()), "2026-02-07T22:15:00.000Z");
    }

    #[test]
    fn long_lists_of_names_are_cut_between_names() {
        let all: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(names(&all, 4), "a, b, c, d");
        assert_eq!(names(&all, 2), "a, b and 2 more");
    }
}
