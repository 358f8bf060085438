//! The daemon in numbers, as the text that Prometheus reads (format 0.0.4). Names and help are here; who counts
//! does not know them.
//!
//! Invariant: labels come from closed sets. No id or principal is ever one, and of names only those of pools, which
//! operators give, and of the first groups of pollers.

mod cluster;
mod http;
mod page;
mod polling;

pub(crate) use self::http::HttpCounters;

use crate::auth::FileState;
use crate::node::NodeNumbers;
use page::{Kind, Page, Unit};
use std::ops::RangeInclusive;
use tenure_api::ErrorCode;
use tenure_engine::kernel::{CountKey, Face, Mode, Reason, StateName};
use tenure_engine::{Counters, GrantOutcome, Histogram, PoolSnapshot, Space, Status, Task};
use tenure_faces::{PollingNumbers, StreamNumbers};

/// States of leases that are not over.
const LIVE: [StateName; 3] = [StateName::Reserved, StateName::Active, StateName::Revoking];

/// Powers of two that histograms show as bounds, in their unit.
const MARGIN_MS: RangeInclusive<u32> = 4..=27;
const LATENESS_MS: RangeInclusive<u32> = 0..=16;
const SYNC_US: RangeInclusive<u32> = 5..=24;
const RECORDS: RangeInclusive<u32> = 1..=13;
const WAIT_MS: RangeInclusive<u32> = 0..=22;

/// Pools that are shown one by one.
const POOLS_MAX: usize = 1_000;

/// What is counted, wherever.
pub(crate) struct Numbers<'a> {
    pub(crate) status: &'a Status,
    pub(crate) http: &'a HttpCounters,
    pub(crate) snapshot_age_ms: Option<u64>,
    pub(crate) recovery_secs: f64,
    pub(crate) registrations: usize,
    pub(crate) streams: StreamNumbers,
    pub(crate) pools: Vec<PoolSnapshot>,
    pub(crate) polling: PollingNumbers,
    pub(crate) goodbyes: u64,
    /// `None`: there is none.
    pub(crate) token_file: Option<FileState>,
    pub(crate) cert_scope_file: Option<FileState>,
    /// `None`: the daemon is no node.
    pub(crate) node: Option<NodeNumbers>,
}

/// Everything as text.
#[must_use]
pub(crate) fn text(numbers: &Numbers<'_>) -> String {
    let Numbers { status, http, snapshot_age_ms, recovery_secs, .. } = *numbers;
    let mut page = Page::new();
    leases(&mut page, status);
    grants_and_ends(&mut page, &status.counters);
    heartbeats(&mut page, &status.counters);
    waiting(&mut page, status);
    log(&mut page, &status.counters, snapshot_age_ms, recovery_secs);
    trouble(&mut page, status);
    credential_files(&mut page, numbers.token_file.as_ref(), numbers.cert_scope_file.as_ref());
    registrations(&mut page, numbers);
    streams(&mut page, numbers);
    polling::write(&mut page, &numbers.polling);
    if let Some(node) = &numbers.node {
        cluster::write(&mut page, node);
    }
    http.write(&mut page);
    page.finish()
}

/// What a node knows without its engine.
#[must_use]
pub(crate) fn node_text(node: &NodeNumbers, http: &HttpCounters) -> String {
    let mut page = Page::new();
    cluster::write(&mut page, node);
    http.write(&mut page);
    page.finish()
}

fn registrations(page: &mut Page, numbers: &Numbers<'_>) {
    page.family("mdns_registrations", Kind::Gauge, "Live mDNS registrations.");
    page.sample(&[], numbers.registrations);
    page.family("mdns_goodbyes_total", Kind::Counter, "Goodbye packets sent for services that ended.");
    page.sample(&[], numbers.goodbyes);
}

fn streams(page: &mut Page, numbers: &Numbers<'_>) {
    let Numbers { status, streams, pools, .. } = numbers;
    let of = |state: StateName| -> u64 {
        let of_streams =
            status.leases.iter().filter(|(key, _)| key.face == Face::Streams && key.state == state);
        of_streams.map(|(_, count)| count).sum()
    };
    page.family("sessions", Kind::Gauge, "Slot sessions that have not ended, by state.");
    let active = of(StateName::Active);
    let silent = streams.draining.min(active);
    // Those that are withdrawn are honoured for as long as they were promised.
    let draining = silent + of(StateName::Revoking);
    for (state, count) in [
        ("new", streams.queued),
        ("starting", of(StateName::Reserved)),
        ("running", active - silent),
        ("draining", draining),
    ] {
        page.sample(&[("state", state)], count);
    }
    page.family(
        "sessions_lease_expired_total",
        Kind::Counter,
        "Slot sessions that ended because no heartbeat came in time.",
    );
    page.sample(&[], streams.lease_expired);
    page.family("sessions_heartbeat_total", Kind::Counter, "Heartbeats that renewed a slot session.");
    page.sample(&[], streams.heartbeats);
    page.family(
        "sessions_heartbeat_late_total",
        Kind::Counter,
        "Heartbeats that came after their slot session had ended because no heartbeat came in time.",
    );
    page.sample(&[], streams.heartbeats_late);
    page.family(
        "notifications_dropped_total",
        Kind::Counter,
        "Pending notifications dropped because on_end was removed from the settings.",
    );
    page.sample(&[], streams.notices_dropped);
    page.family(
        "session_start_rejected_total",
        Kind::Counter,
        "Slot sessions that were rejected, by error code.",
    );
    for (code, count) in &streams.rejected {
        // Of the many codes, those that say something about slots are always shown.
        if *count > 0 || matches!(code, ErrorCode::NoCapacity | ErrorCode::CapacityExceeded) {
            page.sample(&[("reason", code.as_str())], count);
        }
    }
    page.family("pool_size", Kind::Gauge, "Members of each pool.");
    for pool in pools.iter().take(POOLS_MAX) {
        page.sample(&[("pool", pool.name.as_str())], pool.size);
    }
    page.family("pool_in_use", Kind::Gauge, "Members of each pool that are held.");
    for pool in pools.iter().take(POOLS_MAX) {
        page.sample(&[("pool", pool.name.as_str())], pool.size.saturating_sub(pool.free));
    }
}

fn leases(page: &mut Page, status: &Status) {
    page.family("leases", Kind::Gauge, "Leases that have not ended, by state, mode and application.");
    // Every combination is shown, so that a number falls to zero instead of vanishing.
    for face in Face::ALL {
        for mode in Mode::ALL {
            for state in LIVE {
                let key = CountKey { state, mode, face };
                let count =
                    status.leases.iter().find(|(found, _)| *found == key).map_or(0, |(_, count)| *count);
                let labels =
                    [("state", state.as_str()), ("mode", mode.as_str()), ("application", face.application())];
                page.sample(&labels, count);
            }
        }
    }
}

fn grants_and_ends(page: &mut Page, counters: &Counters) {
    const OUTCOMES: [(GrantOutcome, &str); 3] = [
        (GrantOutcome::Granted, "granted"),
        (GrantOutcome::Refused, "rejected"),
        (GrantOutcome::TimedOut, "timed_out"),
    ];
    page.family("grants_total", Kind::Counter, "Requests for a lease, by application and outcome.");
    for face in Face::ALL {
        for (outcome, word) in OUTCOMES {
            let count = counters.grants[face.index()][outcome as usize];
            page.sample(&[("application", face.application()), ("outcome", word)], count);
        }
    }
    page.family("ends_total", Kind::Counter, "Leases that ended, by application and reason.");
    for face in Face::ALL {
        for reason in Reason::ALL {
            let count = counters.ends[face.index()][reason as usize];
            page.sample(&[("application", face.application()), ("reason", reason.as_str())], count);
        }
    }
}

fn heartbeats(page: &mut Page, counters: &Counters) {
    let outcomes = [
        ("renewed", counters.heartbeats_renewed),
        ("late", counters.heartbeats_late),
        ("unknown", counters.heartbeats_unknown),
        ("stale", counters.heartbeats_stale),
    ];
    page.family("heartbeats_total", Kind::Counter, "Heartbeats, by outcome.");
    for (outcome, count) in outcomes {
        page.sample(&[("outcome", outcome)], count);
    }
    page.family(
        "renewal_margin_seconds",
        Kind::Histogram,
        "Validity that was left when a heartbeat renewed a lease.",
    );
    histogram(page, &counters.renewal_margin_ms, Unit::Milliseconds, MARGIN_MS);
    page.family("expiry_lateness_seconds", Kind::Histogram, "Time from the deadline of a lease to its end.");
    histogram(page, &counters.expiry_lateness_ms, Unit::Milliseconds, LATENESS_MS);
}

fn waiting(page: &mut Page, status: &Status) {
    page.family("waiters", Kind::Gauge, "Requests that wait for a lease.");
    page.sample(&[], status.waiters);
    page.family("wait_seconds", Kind::Histogram, "Time that waiters waited before they got their lease.");
    histogram(page, &status.counters.wait_ms, Unit::Milliseconds, WAIT_MS);
    page.family(
        "waiters_passed_total",
        Kind::Counter,
        "Waiters overtaken because they blocked others for too long.",
    );
    page.sample(&[], status.counters.waiters_passed);
    page.family("inbox_depth", Kind::Gauge, "Requests in the queue, by lane.");
    for (lane, depth) in status.inbox {
        page.sample(&[("lane", lane.as_str())], depth);
    }
}

fn log(page: &mut Page, counters: &Counters, snapshot_age_ms: Option<u64>, recovery_secs: f64) {
    page.family(
        "sync_seconds",
        Kind::Histogram,
        "Time until a frame of the log was durable (fsync, or commit of the store).",
    );
    histogram(page, &counters.sync_us, Unit::Microseconds, SYNC_US);
    page.family("batch_events", Kind::Histogram, "Records per frame of the log.");
    histogram(page, &counters.batch_records, Unit::Count, RECORDS);
    page.family("log_bytes", Kind::Counter, "Bytes of records written to the log since the start.");
    page.sample(&[], counters.log_bytes);
    if let Some(age_ms) = snapshot_age_ms {
        page.family("snapshot_age_seconds", Kind::Gauge, "Age of the newest snapshot.");
        page.sample(&[], Unit::Milliseconds.seconds(age_ms));
    }
    page.family("recovery_seconds", Kind::Gauge, "Duration of the recovery at the last start.");
    page.sample(&[], recovery_secs);
}

fn trouble(page: &mut Page, status: &Status) {
    let help = "Stalls: times that the daemon could not have answered a request for more than a second.";
    page.family("stalls_total", Kind::Counter, help);
    page.sample(&[], status.counters.stalls);
    page.family(
        "notes_dropped_total",
        Kind::Counter,
        "Advisory records not written because there was no room for them.",
    );
    page.sample(&[], status.counters.notes_dropped);
    page.family(
        "breaker_open",
        Kind::Gauge,
        "1 while mass-expiry protection postpones ends because too many holders fell silent at once.",
    );
    page.sample(&[], u8::from(status.breaker_until.is_some()));
    page.family(
        "disk_low",
        Kind::Gauge,
        "1 while the daemon rejects grants because the disk is nearly full.",
    );
    page.sample(&[], u8::from(status.space == Space::Low));
    page.family(
        "task_failures_total",
        Kind::Counter,
        "Failed attempts to take a snapshot, prepare a segment or remove trimmed segments, by task.",
    );
    for task in Task::ALL {
        page.sample(&[("task", task.as_str())], status.counters.task_failures[task as usize]);
    }
    page.family(
        "notifications_given_up_total",
        Kind::Counter,
        "Notifications given up because on_end failed for 24 hours.",
    );
    page.sample(&[], status.counters.notices_given_up);
}

fn credential_files(page: &mut Page, tokens: Option<&FileState>, certificates: Option<&FileState>) {
    if let Some(state) = tokens {
        page.family("token_lines_rejected", Kind::Gauge, "Invalid lines of the token file.");
        page.sample(&[], state.lines_rejected);
        let help = "1 while the token file cannot be read; its tokens may only renew and release.";
        page.family("token_file_outdated", Kind::Gauge, help);
        page.sample(&[], u8::from(state.is_outdated()));
    }
    if let Some(state) = certificates {
        let help = "Invalid lines of the certificate scope file.";
        page.family("cert_scope_lines_rejected", Kind::Gauge, help);
        page.sample(&[], state.lines_rejected);
        let help =
            "1 while the certificate scope file cannot be read; certificates may only renew and release.";
        page.family("cert_scope_file_outdated", Kind::Gauge, help);
        page.sample(&[], u8::from(state.is_outdated()));
    }
}

fn histogram(page: &mut Page, values: &Histogram, unit: Unit, bounds: RangeInclusive<u32>) {
    page.histogram(&[], values.buckets().map(|(_, count)| count), values.sum(), unit, bounds);
}

#[cfg(test)]
mod tests;
