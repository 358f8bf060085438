//! mDNS services: how they are registered, looked after and discovered.

use crate::Time;
use crate::address::Address;
use crate::lease::{Liveness, Mode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// TXT record: keys with their values; null is a key without a value.
pub type Txt = BTreeMap<String, Option<String>>;

/// Request to advertise a service by mDNS.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Instance name, 1 to 63 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 63)))]
    pub name: String,
    /// Service type, such as `_http._tcp`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 255)))]
    pub service_type: String,
    /// Port of the service.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_535)))]
    pub port: u16,
    /// IP address of the service [default: the addresses of this host].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub ip: Option<IpAddr>,
    /// TXT record of the service: keys with their values; null is a key without a value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub txt: Txt,
    /// Seconds that one heartbeat lasts; 0 asks for a permanent registration [default: 90 over HTTP, none on the
    /// socket, where the open connection keeps the registration].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400)))]
    pub lease: Option<u64>,
    /// Alternative spelling of `lease`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400)))]
    pub lease_secs: Option<u64>,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// A registered service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Registration {
    /// Id of the registration: eight hexadecimal digits.
    pub id: String,
    /// Instance name as it was requested.
    pub name: String,
    /// Service type.
    #[serde(rename = "type")]
    pub service_type: String,
    /// Port of the service.
    pub port: u16,
    /// Seconds within which the next heartbeat is due; 0 if none is due.
    pub lease: u64,
    /// How the registration is kept alive.
    pub mode: Mode,
    /// Instance name on the network; differs from `name` if that was taken.
    pub advertised_name: String,
    /// Epoch of the registration: a heartbeat with another epoch is rejected.
    pub epoch: u64,
    /// Set if an operator drained the registration: finish and unregister.
    pub draining: bool,
    /// Unusual part of the request, in a sentence; absent for an ordinary request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Answer to a registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Registered {
    /// The registration.
    pub registered: Registration,
}

/// Answer to the end of a registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unregistered {
    /// Id of the registration.
    pub unregistered: String,
}

/// Heartbeat of a registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RegistrationHeartbeat {
    /// Epoch of the registration; if given, the daemon rejects the heartbeat when another program has registered the
    /// service since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// Answer to a heartbeat of a registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistrationRenewed {
    /// Id of the registration.
    pub renewed: String,
    /// Seconds within which the next heartbeat is due; 0 if none is due.
    pub lease: u64,
    /// Set if an operator drained the registration: finish and unregister.
    #[serde(default)]
    pub draining: bool,
}

/// Answer to a drain of a registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistrationDrained {
    /// Id of the registration.
    pub drained: String,
}

/// Answer to a revive of a registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistrationRevived {
    /// Id of the registration.
    pub revived: String,
}

/// Options of the end of a registration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UnregisterQuery {
    /// Epoch of the registration; if it has another one, the daemon answers `stale_epoch` and the registration stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// A registration with its liveness.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminRegistration {
    /// Id of the registration: eight hexadecimal digits.
    pub id: String,
    /// Instance name as it was requested.
    pub name: String,
    /// Service type.
    #[serde(rename = "type")]
    pub service_type: String,
    /// Port of the service.
    pub port: u16,
    /// How the registration is kept alive.
    pub mode: Mode,
    /// Liveness of the registration.
    pub state: Liveness,
    /// Seconds that one heartbeat lasts; null if none is due.
    pub lease_secs: Option<u64>,
    /// Seconds until the present phase ends; null if it has no end.
    pub remaining_secs: Option<u64>,
    /// Seconds that the registration stays after a ttl without a heartbeat; 0 for a permanent one.
    pub grace_secs: u64,
    /// Connection or session that keeps the registration.
    pub session_id: Option<String>,
    /// When the service was registered.
    pub registered_at: Time,
    /// When the last heartbeat arrived; null if none arrived since the daemon started or an operator revived the
    /// registration.
    pub last_seen: Option<Time>,
    /// Since when the daemon waits for a heartbeat, if none arrived since it started or an operator revived the
    /// registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_since: Option<Time>,
    /// TXT record of the service.
    pub txt: Txt,
    /// IP address of the service, if the request had one.
    pub ip: Option<IpAddr>,
    /// Id of the lease of the registration.
    pub lease_id: String,
    /// Epoch of the registration.
    pub epoch: u64,
    /// True if the daemon has announced the service on the network.
    pub advertised: bool,
    /// Instance name on the network.
    pub advertised_name: String,
    /// Why the daemon could not announce the service; null if it did.
    pub last_error: Option<String>,
}

/// Status of mDNS and the registrations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DaemonStatus {
    /// Version of the daemon.
    pub version: String,
    /// Seconds since the start of the daemon.
    pub uptime_secs: u64,
    /// Operating system of the daemon.
    pub platform: String,
    /// Numbers of registrations.
    pub registrations: RegistrationCounts,
    /// Process id of the daemon.
    pub pid: u32,
    /// Address where the daemon listens for HTTP.
    pub http: Option<String>,
    /// Path of the socket.
    pub ipc: Option<String>,
    /// Network interfaces on which the daemon advertises services.
    pub interfaces: Vec<String>,
    /// Health of the mDNS engine; null if it does not run.
    pub mdns: Option<String>,
}

/// Numbers of registrations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistrationCounts {
    /// Number of live registrations, including permanent ones.
    pub alive: u64,
    /// Number of draining registrations.
    pub draining: u64,
    /// Number of permanent registrations.
    pub permanent: u64,
    /// Number of all registrations.
    pub total: u64,
}

/// A service on the network.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceRecord {
    /// Instance name; in a list of service types, the type.
    pub name: String,
    /// Service type.
    #[serde(rename = "type")]
    pub service_type: String,
    /// Host name of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// First IPv4 address, otherwise the first IPv6 address; a link-local one only if there is no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub ip: Option<Address>,
    /// All addresses, link-local ones last; a link-local IPv6 address has its zone (`fe80::1%eth0`).
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub addresses: Vec<Address>,
    /// Port of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// TXT record: the keys whose values are text.
    #[serde(default)]
    pub txt: Txt,
    /// TXT record: the values that are not text, in Base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub txt_base64: BTreeMap<String, String>,
}

/// Services to find.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BrowseQuery {
    /// Service type [default: find service types].
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub service_type: Option<String>,
    /// End the stream after this many seconds without a new result [default: 0, which means never].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400)))]
    pub idle_for: Option<u64>,
}

/// Service to resolve.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResolveQuery {
    /// Full instance name, such as `My App._http._tcp.local`.
    pub name: String,
}

/// Answer to a resolve.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resolved {
    /// The service.
    pub resolved: ServiceRecord,
}

/// Kind of an event about a service on the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiscoveryEventKind {
    /// A service appeared.
    Found,
    /// Host, port, addresses and TXT record of a service are known, or changed.
    Resolved,
    /// A service disappeared.
    Removed,
}

/// Event about a service on the network.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscoveryEvent {
    /// Kind of the event.
    pub event: DiscoveryEventKind,
    /// The service.
    pub service: ServiceRecord,
}

/// Result of a browse: a service with everything known about it, or the removal of one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Browsed {
    /// A service is present, or its data changed.
    Found {
        /// The service.
        found: ServiceRecord,
    },
    /// A service disappeared.
    Seen(DiscoveryEvent),
}

impl ServiceRecord {
    /// A service of which no more than its name is known.
    #[must_use]
    pub fn named(name: &str, service_type: &str) -> Self {
        Self { name: name.to_owned(), service_type: service_type.to_owned(), ..Self::default() }
    }
}
