//! The daemon about itself.

use crate::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The status of the daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Differs after every start, also after a restart in the same process. With `consistency=stale`, that of the node
    /// that answers.
    #[serde(default)]
    pub instance: String,
    /// Since its start.
    pub uptime_secs: u64,
    /// Where it listens for HTTP.
    pub http: Option<String>,
    /// Where its socket is.
    pub socket: Option<String>,
    /// Where its data is.
    pub data_dir: String,
    /// `standalone`: one daemon with its own log.
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
    /// The newest snapshot; null before the first.
    pub last_snapshot: Option<SnapshotStatus>,
    /// Live leases, counted.
    pub leases: Counts,
    /// Open sessions and connections, connections without a lease included. `GET /v1/sessions` lists those that keep
    /// leases; slot sessions (`/api/v3/sessions`) are not among them.
    pub sessions: u64,
    /// Slot sessions that have slots; queued ones are not among them.
    #[serde(default)]
    pub slot_sessions: u64,
    /// Requests that wait for a lease.
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
    /// Grants are refused for this long because the log was restored from a backup; null otherwise.
    pub restored_for_ms: Option<u64>,
    /// Whether the disk has space. While it is `low` the daemon refuses grants; renewals and releases continue.
    #[serde(default)]
    pub disk: DiskStatus,
    /// Tasks of the log whose last attempt failed; the daemon tries again.
    #[serde(default)]
    pub failing: Vec<FailingTask>,
    /// Notifications given up because `on_end` failed for 24 hours, since the start.
    #[serde(default)]
    pub notifications_given_up: u64,
    /// Pending notifications dropped because `on_end` was removed from the settings, since the start.
    #[serde(default)]
    pub notifications_dropped: u64,
    /// Health of the mDNS engine; null where it does not run.
    pub mdns: Option<String>,
    /// Operations remembered for retries.
    pub operations: u64,
    /// Outcomes of operations older than this are forgotten.
    pub operation_floor: Time,
    /// Memory of the process; null where the system does not report it.
    #[serde(default)]
    pub memory: Option<MemoryStatus>,
    /// The file with tokens; null: there is none.
    #[serde(default)]
    pub token_file: Option<CredentialFile>,
    /// The file with the scopes of certain certificates; null: there is none.
    #[serde(default)]
    pub cert_scope_file: Option<CredentialFile>,
    /// The daemon's clock.
    pub server_time: Time,
}

/// A file that says who may do what.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CredentialFile {
    /// Where it is.
    pub path: String,
    /// When the daemon last read it.
    pub read_at: Time,
    /// Lines in use.
    pub lines: u64,
    /// Lines that were not understood.
    pub lines_refused: u64,
    /// Since when the daemon cannot use the file (unreadable, or writable by others); null: it is in use. Until then the
    /// credentials that were read last may only renew and release.
    pub unusable_since: Option<Time>,
    /// Why; null: it is in use.
    pub error: Option<String>,
}

/// Memory of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryStatus {
    /// Resident now.
    pub resident_bytes: u64,
    /// While the next snapshot is built beside the state: what was resident at most while the last one was built, and twice
    /// what came since, for the state and for its copy. Null before the first since the start.
    pub with_snapshot_bytes: Option<u64>,
}

/// The newest snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotStatus {
    /// Everything up to here is in it.
    pub lsn: u64,
    /// How long ago it was taken.
    pub age_secs: u64,
}

/// Whether the disk has room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskStatus {
    /// It has.
    #[default]
    Ok,
    /// It is nearly full.
    Low,
}

/// Work on the log that fails.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailingTask {
    /// `snapshot`, `spare_segment` or `trim`.
    pub task: String,
    /// Why the last try failed.
    pub error: String,
}

/// Live leases, counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// In all.
    pub total: u64,
    /// By state.
    pub by_state: BTreeMap<String, u64>,
    /// By mode.
    pub by_mode: BTreeMap<String, u64>,
    /// By application.
    #[serde(default)]
    pub by_application: BTreeMap<String, u64>,
    /// Former name of `by_application`, with `streams` for `slots`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("deprecated" = true)))]
    pub by_face: BTreeMap<String, u64>,
}

/// Durations since the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// Half were at most this long; null if none was measured.
    pub p50_ms: Option<f64>,
    /// All but one in a hundred were at most this long.
    pub p99_ms: Option<f64>,
}

/// Mass-expiry protection: the daemon postpones ends when too many holders fall silent at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreakerStatus {
    /// The daemon postpones ends at present.
    pub open: bool,
    /// For this long from now.
    pub remaining_ms: Option<u64>,
    /// How often it opened since the start.
    pub opened: u64,
}

/// How to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShutDown {
    /// End every lease first, with reason `shutdown`. Not together with `advertised: "keep"`.
    #[serde(default)]
    pub end_all: bool,
    /// What becomes of the services that the daemon advertises by mDNS.
    // Left out where it says nothing: a daemon of an earlier version does not know it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub advertised: Advertised,
    /// Start again afterwards, in the same process, from the program that stands at the daemon's path then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart: bool,
}

/// What becomes of advertised services when the daemon stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Advertised {
    /// The daemon sends a goodbye for every service.
    #[default]
    Withdraw,
    /// The daemon sends no goodbye, so that peers see no change. The next start announces the services that live and
    /// sends the goodbyes of those that ended.
    Keep,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The daemon stops.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShuttingDown {
    /// Always true.
    pub shutting_down: bool,
    /// Leases ended because `end_all` asked for it.
    pub ended: u64,
    /// As of this position in the log.
    pub lsn: u64,
}

/// The breaker's hold was ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreakerReset {
    /// As of this position in the log.
    pub lsn: u64,
}

/// `daemon.json`: how programs on the same machine find the daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Breadcrumb {
    /// Base of its HTTP routes.
    pub endpoint: String,
    /// Its socket.
    pub socket: Option<String>,
    /// Its process, as it sees itself.
    pub pid: u32,
    /// Since when it runs.
    pub started_at: Time,
    /// Its version.
    pub version: String,
}
