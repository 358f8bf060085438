//! Leases.

use tenure_api::{DrainCause, Lease, Liveness, Mode, Renewed, State};
use tenure_history::duration;

use super::{Now, Page, age, names, seen, when, word};
use crate::table::Table;

/// Names shown in a cell or a sentence.
const NAMES_MAX: usize = 8;

/// Everything about one lease.
pub(crate) fn lease_page(lease: &Lease) -> Page {
    let now = Now::of(&lease.server_time);
    let shown = |time: &Option<String>| time.as_ref().map(|time| when(now, time));
    let mut page = Page::default();
    page.row("lease", lease.lease_id.clone());
    page.row("holder", lease.holder.clone());
    page.row("resources", lease.resources.join(", "));
    page.row("state", state_words(lease));
    page.row("mode", mode_words(lease));
    page.row("epoch", lease.epoch.to_string());
    page.row("fence", lease.fence.to_string());
    page.row("granted", when(now, &lease.granted_at));
    page.row("last seen", seen(lease.last_seen.as_ref(), lease.unheard_since.as_ref(), |at| when(now, at)));
    page.row("valid for", lease.valid_ms.map(duration));
    page.row("next", next_words(lease, now));
    page.row("ended", shown(&lease.ended_at));
    page.row("reason", reason_words(lease));
    page.row("session", lease.session.clone());
    page.row("application", word(&lease.application));
    page.row("attachment", lease.attachment.as_ref().map(ToString::to_string));
    page.row(
        "replayed",
        lease.replayed.then(|| "an earlier request with this operation ID was granted".to_owned()),
    );
    page.row(
        "waiters",
        lease.waiters.as_ref().filter(|waiters| !waiters.is_empty()).map(|waiters| waiters_words(waiters)),
    );
    page
}

/// One row each.
pub(crate) fn lease_table(leases: &[Lease]) -> Table {
    let mut table =
        Table::new(&["ID", "HOLDER", "STATE", "MODE", "EPOCH", "RESOURCES", "LEFT", "AGE", "GRANTED"]);
    for lease in leases {
        let now = Now::of(&lease.server_time);
        table.row(vec![
            lease.lease_id.clone(),
            lease.holder.clone(),
            state_words(lease),
            word(&lease.mode),
            lease.epoch.to_string(),
            names(&lease.resources, NAMES_MAX),
            lease.remaining_ms.map(duration).unwrap_or_default(),
            age(now, &lease.granted_at).unwrap_or_default(),
            lease.granted_at.clone(),
        ]);
    }
    table
}

/// A heartbeat's answer.
pub(crate) fn renewed_page(renewed: &Renewed) -> Page {
    let mut page = Page::default();
    page.row("lease", renewed.lease_id.clone());
    page.row("epoch", renewed.epoch.to_string());
    page.row("valid for", renewed.valid_ms.map(duration));
    page.row(
        "draining",
        renewed.draining.then(|| {
            let left = renewed.remaining_ms.map(|ms| format!(", {} left", duration(ms))).unwrap_or_default();
            format!("an operator drains this lease{left}: stop using it")
        }),
    );
    page
}

/// What is about to be ended, in one line.
pub(crate) fn lease_words(lease: &Lease) -> String {
    let age = age(Now::of(&lease.server_time), &lease.granted_at);
    let waiters = match lease.waiters.as_deref() {
        None | Some([]) => String::new(),
        Some([one]) => format!(", {one} waits for it"),
        Some(more) => format!(", {} wait for it", more.len()),
    };
    format!(
        "lease {} of {}: {}, {}, epoch {}{}{waiters}",
        lease.lease_id,
        lease.holder,
        names(&lease.resources, NAMES_MAX),
        state_words(lease),
        lease.epoch,
        age.map(|age| format!(", held for {age}")).unwrap_or_default(),
    )
}

fn state_words(lease: &Lease) -> String {
    let state = word(&lease.state);
    match (lease.liveness, lease.drain_cause) {
        (Some(Liveness::Draining), Some(DrainCause::Operator)) => format!("{state}, drained by an operator"),
        (Some(Liveness::Draining), Some(DrainCause::Silence)) => format!("{state}, draining, silent"),
        (Some(liveness), _) => format!("{state}, {}", word(&liveness)),
        (None, _) => state,
    }
}

fn mode_words(lease: &Lease) -> String {
    let spans = [("ttl", lease.ttl_ms), ("grace", lease.grace_ms)]
        .into_iter()
        .filter_map(|(name, ms)| ms.map(|ms| format!(", {name} {}", duration(ms))));
    std::iter::once(word(&lease.mode)).chain(spans).collect()
}

fn next_words(lease: &Lease, now: Option<Now>) -> Option<String> {
    let what = match (lease.state, lease.liveness) {
        (State::Reserved, _) => "expires unless it is activated",
        (State::Active, Some(Liveness::Draining)) => match lease.drain_cause {
            Some(DrainCause::Operator) => "ends unless it is revived",
            Some(DrainCause::Silence) | None => "ends unless its holder renews it",
        },
        (State::Active, Some(Liveness::Alive) | None) => match lease.mode {
            Mode::Heartbeat | Mode::Session => match lease.grace_ms {
                Some(0) => "ends unless its holder renews it",
                Some(_) | None => "drains unless its holder renews it",
            },
            Mode::Permanent => "ends",
        },
        (State::Revoking, _) => "resources are free at the earliest",
        (State::Released | State::Expired | State::Revoked, _) => return None,
    };
    lease.deadline.as_ref().map(|deadline| format!("{what} {}", when(now, deadline)))
}

fn reason_words(lease: &Lease) -> Option<String> {
    let text = lease.reason_text.as_deref().filter(|text| !text.is_empty());
    match (&lease.reason, text) {
        (Some(reason), Some(text)) => Some(format!("{reason}: {text}")),
        (Some(reason), None) => Some(reason.clone()),
        (None, text) => text.map(str::to_owned),
    }
}

fn waiters_words(waiters: &[String]) -> String {
    format!("{}: {}", waiters.len(), names(waiters, NAMES_MAX))
}
