//! The daemon at a glance.

use std::collections::BTreeMap;

use tenure_api::{CredentialFile, DiskStatus, Latency, MemoryStatus, Status};
use tenure_history::duration;

use super::cluster::bytes;
use super::{Now, Page, when};
use crate::printer::counted;

/// What an operator wants to know first.
pub(crate) fn status_page(status: &Status) -> Page {
    let mut page = Page::default();
    page.row(
        "tenure",
        format!("{}, up {}, pid {}", status.version, duration(status.uptime_secs * 1000), status.pid),
    );
    let socket = status.socket.as_ref().map(|socket| format!("unix:{socket}"));
    let listens: Vec<String> = status.http.iter().cloned().chain(socket).collect();
    page.row("listens", listens.join(", "));
    page.row("data", format!("{}, {}", status.data_dir, status.mode));
    page.row("log", log_words(status));
    page.row("leases", counts(status.leases.total, &status.leases.by_state));
    page.row("by mode", split(&status.leases.by_mode));
    page.row("by application", split(&status.leases.by_application));
    let others = [
        counted(status.sessions, "session"),
        counted(status.waiters, "waiter"),
        counted(status.watches, "watch").replace("watchs", "watches"),
    ];
    page.row("also", others.join(", "));
    page.row("sync", latency(&status.sync, "sync"));
    page.row("lateness", latency(&status.expiry_lateness, "end"));
    page.row("stalls", if status.stalls == 0 { "none".to_owned() } else { status.stalls.to_string() });
    page.row("breaker", breaker(status));
    page.row(
        "restored",
        status.restored_for_ms.map(|ms| {
            format!(
                "from a backup: the daemon rejects grants for another {}, until the validity of earlier leases has ended",
                duration(ms)
            )
        }),
    );
    if status.disk == DiskStatus::Low {
        page.row(
            "disk",
            "LOW: the daemon rejects grants until there is space; renewals and releases continue".to_owned(),
        );
    }
    for failing in &status.failing {
        page.row("failing", format!("{}: {}", failing.task, failing.error));
    }
    page.row("tokens", status.token_file.as_ref().map(credential_file));
    page.row("certificates", status.cert_scope_file.as_ref().map(credential_file));
    let (given_up, dropped) = (status.notifications_given_up, status.notifications_dropped);
    let lost =
        |count: u64, why: &str| (count > 0).then(|| format!("{} {why}", counted(count, "notification")));
    page.row("given up", lost(given_up, "of ends not acknowledged for 24 hours"));
    page.row("dropped", lost(dropped, "of ends, because sessions.on_end was removed"));
    page.row("mdns", status.mdns.clone());
    page.row("retries", retries(status));
    page.row("memory", status.memory.as_ref().map(memory));
    page.row("clock", status.server_time.clone());
    page
}

fn credential_file(file: &CredentialFile) -> String {
    let rejected = match file.lines_rejected {
        0 => String::new(),
        rejected => format!(", {} REJECTED", counted(rejected, "line")),
    };
    let unusable = match (&file.unusable_since, &file.error) {
        (Some(since), Some(error)) => format!("; UNUSABLE since {since}: {error}"),
        (Some(since), None) => format!("; UNUSABLE since {since}"),
        (None, _) => String::new(),
    };
    format!("{} in {}, read at {}{rejected}{unusable}", counted(file.lines, "line"), file.path, file.read_at)
}

fn memory(memory: &MemoryStatus) -> String {
    let now = bytes(memory.resident_bytes);
    match memory.with_snapshot_bytes {
        Some(most) => format!("{now}, {} while a snapshot is built", bytes(most)),
        None => format!("{now}, no snapshot was built yet since the start"),
    }
}

fn log_words(status: &Status) -> String {
    let unsynced = status.lsn.saturating_sub(status.synced_lsn);
    let behind = if unsynced == 0 { String::new() } else { format!(" ({unsynced} being synced)") };
    let snapshot = match &status.last_snapshot {
        Some(snapshot) => {
            format!("snapshot at lsn {} {} ago", snapshot.lsn, duration(snapshot.age_secs * 1000))
        }
        None => "no snapshot yet".to_owned(),
    };
    format!("{} at lsn {}{behind}, {snapshot}", status.log_tag, status.lsn)
}

fn counts(total: u64, parts: &BTreeMap<String, u64>) -> String {
    let parts = split(parts);
    if parts.is_empty() { total.to_string() } else { format!("{total}: {parts}") }
}

fn split(parts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    parts.join(", ")
}

fn latency(latency: &Latency, what: &str) -> String {
    match (latency.p50_ms, latency.p99_ms) {
        (Some(half), Some(most)) => {
            format!("p50 {}, p99 {} of {}", ms(half), ms(most), counted(latency.count, what))
        }
        _ => "nothing measured yet".to_owned(),
    }
}

fn ms(value: f64) -> String {
    if value < 10.0 { format!("{value:.2} ms") } else { format!("{value:.0} ms") }
}

fn breaker(status: &Status) -> String {
    let breaker = &status.breaker;
    let opened = match breaker.opened {
        0 => "never opened".to_owned(),
        1 => "opened once".to_owned(),
        times => format!("opened {times} times"),
    };
    match (breaker.open, breaker.remaining_ms) {
        (true, Some(left)) => format!("OPEN: ends are postponed for another {}, {opened}", duration(left)),
        (true, None) => format!("OPEN: ends are postponed, {opened}"),
        (false, _) => format!("closed, {opened}"),
    }
}

fn retries(status: &Status) -> String {
    let floor = when(Now::of(&status.server_time), &status.operation_floor);
    format!("{} remembered, none from before {floor}", counted(status.operations, "operation"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn page(change: &[(&str, Value)]) -> Vec<String> {
        let latency = json!({"count": 0, "p50_ms": null, "p99_ms": null});
        let mut status = json!({
            "version": "1", "pid": 7, "uptime_secs": 5, "http": null, "socket": null, "data_dir": "d",
            "mode": "standalone", "log_tag": "k3f9", "lsn": 1, "synced_lsn": 1, "last_snapshot": null,
            "leases": {"total": 0, "by_state": {}, "by_mode": {}, "by_application": {}}, "sessions": 0, "waiters": 0,
            "watches": 0, "sync": latency, "expiry_lateness": latency, "stalls": 0,
            "breaker": {"open": false, "remaining_ms": null, "opened": 0}, "restored_for_ms": null, "mdns": null,
            "operations": 0, "operation_floor": "2026-02-07T22:15:00.000Z",
            "server_time": "2026-02-07T22:15:00.000Z",
        });
        for (key, value) in change {
            status[*key] = value.clone();
        }
        let lines = status_page(&serde_json::from_value(status).unwrap()).lines();
        lines.into_iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn notifications_that_nobody_heard_are_shown_where_there_are_any() {
        let quiet = page(&[]);
        assert!(!quiet.iter().any(|line| line.contains("notification")), "{quiet:#?}");
        let lost = page(&[("notifications_given_up", json!(2)), ("notifications_dropped", json!(1))]);
        assert!(lost.contains(&"given up 2 notifications of ends not acknowledged for 24 hours".to_owned()));
        assert!(
            lost.contains(&"dropped 1 notification of ends, because sessions.on_end was removed".to_owned())
        );
    }

    #[test]
    fn memory_is_shown_with_what_a_snapshot_takes() {
        let mib = |count: u64| count << 20;
        let with = |most: Value| {
            let memory = json!({"resident_bytes": mib(64), "with_snapshot_bytes": most});
            page(&[("memory", memory)]).into_iter().find(|line| line.starts_with("memory")).unwrap()
        };
        assert_eq!(with(json!(mib(100))), "memory 64.0 MiB, 100.0 MiB while a snapshot is built");
        assert_eq!(with(json!(null)), "memory 64.0 MiB, no snapshot was built yet since the start");
        assert!(!page(&[]).iter().any(|line| line.starts_with("memory")));
    }
}
