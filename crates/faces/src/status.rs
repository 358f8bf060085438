//! The daemon at a glance, from the engine's numbers and what its composer knows.

use crate::dispatch::Faces;
use crate::show::Lens;
use std::collections::BTreeMap;
use tenure_api as api;
use tenure_engine::host::resident_bytes;
use tenure_engine::kernel::Face;
use tenure_engine::{Histogram, Space, Status};
use tenure_history::{LogTag, rfc3339};

/// What the daemon knows of itself beside the engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vitals {
    /// Another text after every start.
    pub instance: String,
    /// Boot time at which it started.
    pub started_boot_ms: u64,
    /// Where it listens for HTTP.
    pub http: Option<String>,
    /// Where its socket is.
    pub socket: Option<String>,
    /// Where its data is.
    pub data_dir: String,
    /// Below this many free bytes there the daemon refuses grants.
    pub free_bytes_min: u64,
    /// Its version.
    pub version: String,
    /// How long a leader may be silent before it is replaced; `None`: it is not a node of a cluster.
    pub leader_ttl_ms: Option<u64>,
}

pub(crate) fn shown(
    lens: &Lens<'_>,
    vitals: &Vitals,
    status: &Status,
    boot_ms: u64,
    snapshot: Option<(u64, u64)>,
    memory: Option<api::MemoryStatus>,
) -> api::Status {
    let breaker_ms = status.breaker_until.map(|until| until.ms_since(status.tick));
    api::Status {
        version: vitals.version.clone(),
        pid: std::process::id(),
        instance: vitals.instance.clone(),
        uptime_secs: boot_ms.saturating_sub(vitals.started_boot_ms) / 1_000,
        http: vitals.http.clone(),
        socket: vitals.socket.clone(),
        data_dir: vitals.data_dir.clone(),
        mode: if vitals.leader_ttl_ms.is_some() { "cluster" } else { "standalone" }.to_owned(),
        leader_ttl_ms: vitals.leader_ttl_ms,
        log_tag: LogTag::of(lens.identity).to_string(),
        lsn: status.applied_lsn.0,
        synced_lsn: status.synced_lsn.0,
        last_snapshot: snapshot.map(|(lsn, wall_ms)| api::SnapshotStatus {
            lsn,
            age_secs: lens.wall_ms.saturating_sub(wall_ms) / 1_000,
        }),
        leases: counts(status),
        sessions: status.sessions,
        slot_sessions: slot_sessions(status),
        waiters: status.waiters,
        watches: status.watches,
        sync: latency(&status.counters.sync_us, 1_000.0),
        expiry_lateness: latency(&status.counters.expiry_lateness_ms, 1.0),
        stalls: status.counters.stalls,
        breaker: api::BreakerStatus {
            open: breaker_ms.is_some(),
            remaining_ms: breaker_ms,
            opened: status.counters.breaker_opened,
        },
        restored_for_ms: status
            .restored_until
            .map(|until| until.ms_since(status.tick))
            .filter(|remaining_ms| *remaining_ms > 0),
        disk: match status.space {
            Space::Ok => api::DiskStatus::Ok,
            Space::Low => api::DiskStatus::Low,
        },
        failing: status
            .failing
            .iter()
            .map(|(task, error)| api::FailingTask { task: task.as_str().to_owned(), error: error.clone() })
            .collect(),
        notifications_given_up: status.counters.notices_given_up,
        notifications_dropped: 0,
        mdns: None,
        operations: status.operations,
        operation_floor: rfc3339(lens.wall_ms.saturating_sub(status.tick.ms_since(status.operation_floor))),
        memory,
        token_file: None,
        cert_scope_file: None,
        server_time: lens.now(),
    }
}

impl Faces {
    /// What the process takes; `None` where the system does not say.
    pub(crate) fn memory(&self) -> Option<api::MemoryStatus> {
        let resident_bytes = resident_bytes()?;
        let with_snapshot_bytes = self.handle().with_snapshot_bytes(resident_bytes);
        Some(api::MemoryStatus { resident_bytes, with_snapshot_bytes })
    }
}

fn slot_sessions(status: &Status) -> u64 {
    let of_slots = status.leases.iter().filter(|(key, _)| key.face == Face::Streams);
    of_slots.map(|(_, count)| *count).sum()
}

fn counts(status: &Status) -> api::Counts {
    let mut counts = api::Counts::default();
    let add = |map: &mut BTreeMap<String, u64>, word: &str, count: u64| {
        *map.entry(word.to_owned()).or_default() += count;
    };
    for (key, count) in &status.leases {
        counts.total += count;
        add(&mut counts.by_state, key.state.as_str(), *count);
        add(&mut counts.by_mode, key.mode.as_str(), *count);
        add(&mut counts.by_application, key.face.application(), *count);
        add(&mut counts.by_face, key.face.as_str(), *count);
    }
    counts
}

fn latency(histogram: &Histogram, per_ms: f64) -> api::Latency {
    api::Latency {
        count: histogram.count(),
        p50_ms: quantile(histogram, 50).map(|value| value as f64 / per_ms),
        p99_ms: quantile(histogram, 99).map(|value| value as f64 / per_ms),
    }
}

/// Upper bound of the bucket in which so many of a hundred values have been seen.
fn quantile(histogram: &Histogram, of_hundred: u64) -> Option<u64> {
    let count = histogram.count();
    let wanted = (count * of_hundred).div_ceil(100);
    let mut seen = 0;
    histogram
        .buckets()
        .find(|(_, inside)| {
            seen += inside;
            count > 0 && seen >= wanted
        })
        .map(|(bound, _)| bound)
}
