//! The status of the daemon, and how it stops.

use crate::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The status of the daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Differs after every start, also after a restart in the same process. With `consistency=stale` it belongs to the
    /// node that answers.
    #[serde(default)]
    pub instance: String,
    /// Seconds since the start.
    pub uptime_secs: u64,
    /// Address where the daemon listens for HTTP.
    pub http: Option<String>,
    /// Path of the socket.
    pub socket: Option<String>,
    /// Path of the data directory.
    pub data_dir: String,
    /// `standalone`: one daemon with its own log. `cluster`: a node of a cluster.
    pub mode: String,
    /// A leader that was silent for this long is replaced; null where the daemon is not a node of a cluster.
    #[serde(default)]
    pub leader_ttl_ms: Option<u64>,
    /// First four characters of every lease id.
    pub log_tag: String,
    /// Newest position in the log.
    pub lsn: u64,
    /// Newest position that is durable.
    pub synced_lsn: u64,
    /// The newest snapshot; null before the first one.
    pub last_snapshot: Option<SnapshotStatus>,
    /// Numbers of live leases.
    pub leases: Counts,
    /// Open sessions and connections, connections without a lease included. `GET /v1/sessions` lists those that keep
    /// leases; slot sessions (`/api/v3/sessions`) are not among them.
    pub sessions: u64,
    /// Slot sessions that have slots; queued ones are not among them.
    #[serde(default)]
    pub slot_sessions: u64,
    /// Requests in the queues of resources.
    pub waiters: u64,
    /// Open event streams.
    pub watches: u64,
    /// Time until a write is durable.
    pub sync: Latency,
    /// Time from the deadline of a lease to its end.
    pub expiry_lateness: Latency,
    /// Times that the daemon could not have answered a request for more than a second.
    pub stalls: u64,
    /// Mass-expiry protection.
    pub breaker: BreakerStatus,
    /// The daemon rejects grants for this long because the log was restored from a backup; null otherwise.
    pub restored_for_ms: Option<u64>,
    /// Whether the disk has space. While it is `low` the daemon rejects grants; renewals and releases continue.
    #[serde(default)]
    pub disk: DiskStatus,
    /// Tasks of the log whose last attempt failed; the daemon tries again.
    #[serde(default)]
    pub failing: Vec<FailingTask>,
    /// Notifications that the daemon gave up since the start because `on_end` failed for 24 hours.
    #[serde(default)]
    pub notifications_given_up: u64,
    /// Pending notifications that the daemon dropped since the start because `on_end` was removed from the settings.
    #[serde(default)]
    pub notifications_dropped: u64,
    /// Health of the mDNS engine; null where it does not run.
    pub mdns: Option<String>,
    /// Idempotency keys that the daemon remembers for retries.
    pub operations: u64,
    /// The daemon has forgotten the outcomes of idempotency keys older than this.
    pub operation_floor: Time,
    /// Memory of the process; null where the system does not report it.
    #[serde(default)]
    pub memory: Option<MemoryStatus>,
    /// The file with tokens; null without one.
    #[serde(default)]
    pub token_file: Option<CredentialFile>,
    /// The file with the scopes of certificates; null without one.
    #[serde(default)]
    pub cert_scope_file: Option<CredentialFile>,
    /// Time of the daemon's clock.
    pub server_time: Time,
}

/// A file with credentials and their scopes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CredentialFile {
    /// Path of the file.
    pub path: String,
    /// When the daemon last read it.
    pub read_at: Time,
    /// Number of lines in use.
    pub lines: u64,
    /// Number of lines that the daemon cannot parse.
    #[serde(flatten, with = "crate::former::lines_rejected")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::lines_rejected::Written"))]
    pub lines_rejected: u64,
    /// Since when the daemon cannot use the file (unreadable, or writable by others); null if it is in use. Until the
    /// file is repaired, the credentials that the daemon read last may only renew and release.
    pub unusable_since: Option<Time>,
    /// Why the daemon cannot use the file; null if it is in use.
    pub error: Option<String>,
}

/// Memory of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryStatus {
    /// Resident memory now.
    pub resident_bytes: u64,
    /// Resident memory to expect while the next snapshot is built: the peak of the last snapshot, and twice the growth
    /// of the state since. Null before the first snapshot since the start.
    pub with_snapshot_bytes: Option<u64>,
}

/// The newest snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotStatus {
    /// Position of the snapshot in the log.
    pub lsn: u64,
    /// Age of the snapshot in seconds.
    pub age_secs: u64,
}

/// Whether the disk has space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskStatus {
    /// The disk has space.
    #[default]
    Ok,
    /// The disk is nearly full.
    Low,
}

/// A task of the log that fails.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailingTask {
    /// `snapshot`, `spare_segment` or `trim`.
    pub task: String,
    /// Error of the last attempt.
    pub error: String,
}

/// Numbers of live leases.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Number of all live leases.
    pub total: u64,
    /// Number of leases by state.
    pub by_state: BTreeMap<String, u64>,
    /// Number of leases by mode.
    pub by_mode: BTreeMap<String, u64>,
    /// Number of leases by application.
    #[serde(default)]
    pub by_application: BTreeMap<String, u64>,
    /// Former name of `by_application`, with `streams` for `slots`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("deprecated" = true)))]
    pub by_face: BTreeMap<String, u64>,
}

/// Latencies since the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Number of measurements.
    pub count: u64,
    /// Median; null without measurements.
    pub p50_ms: Option<f64>,
    /// 99th percentile; null without measurements.
    pub p99_ms: Option<f64>,
}

/// Mass-expiry protection: the daemon postpones expiry when too many holders fall silent at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreakerStatus {
    /// True while the daemon postpones expiry.
    pub open: bool,
    /// Time until expiry continues; null while the breaker is closed.
    pub remaining_ms: Option<u64>,
    /// Number of times that the breaker opened since the start.
    pub opened: u64,
}

/// Options of a shutdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShutDown {
    /// End every lease first, with the reason `shutdown`. Excludes `advertised: "keep"`.
    #[serde(default)]
    pub end_all: bool,
    /// What the daemon does with the services that it advertises by mDNS.
    // Left out where it says nothing: a daemon of an earlier version does not know it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub advertised: Advertised,
    /// Start again in the same process, from the program that is at the daemon's path then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart: bool,
}

/// What the daemon does with advertised services when it stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Advertised {
    /// The daemon sends a goodbye packet for every service.
    #[default]
    Withdraw,
    /// The daemon sends no goodbye packet, so that peers see no change. After the next start it announces the services
    /// that live and sends goodbye packets for those that ended.
    Keep,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Answer to a shutdown: the daemon stops.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShuttingDown {
    /// Always true.
    pub shutting_down: bool,
    /// Number of leases that ended because of `end_all`.
    pub ended: u64,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Answer to a reset of the breaker: expiry continues.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreakerReset {
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// `daemon.json`: how programs on the same machine find the daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Breadcrumb {
    /// Base URL of the HTTP API.
    pub endpoint: String,
    /// Path of the socket.
    pub socket: Option<String>,
    /// Process id of the daemon, in its own PID namespace.
    pub pid: u32,
    /// When the daemon started.
    pub started_at: Time,
    /// Version of the daemon.
    pub version: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rejected_lines_are_answered_and_read_under_both_names() {
        let file = |lines: serde_json::Value| {
            let mut object = json!({
                "path": "/tokens", "read_at": "2026-01-01T00:00:00.000Z", "lines": 2, "unusable_since": null,
                "error": null,
            });
            object.as_object_mut().expect("an object").extend(lines.as_object().expect("an object").clone());
            object
        };
        let both = file(json!({"lines_rejected": 1, "lines_refused": 1}));
        for told in [both.clone(), file(json!({"lines_rejected": 1})), file(json!({"lines_refused": 1}))] {
            let read: CredentialFile = serde_json::from_value(told).expect("a file");
            assert_eq!(serde_json::to_value(&read).expect("JSON"), both);
        }
        assert!(serde_json::from_value::<CredentialFile>(file(json!({}))).is_err());
    }
}
