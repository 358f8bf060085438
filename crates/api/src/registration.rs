//! mDNS services: how they are registered, looked after and discovered.

use crate::Time;
use crate::address::Address;
use crate::lease::{Liveness, Mode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Keys of a service with their values; null is a key without a value.
pub type Txt = BTreeMap<String, Option<String>>;

/// Asks for a service to be advertised.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Instance name, 1 to 63 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 63)))]
    pub name: String,
    /// Its type, like `_http._tcp`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 255)))]
    pub service_type: String,
    /// Where it listens.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_535)))]
    pub port: u16,
    /// Its address; without it, those of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub ip: Option<IpAddr>,
    /// What is said about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub txt: Txt,
    /// Seconds that one heartbeat lasts; 0 asks for a permanent registration; without it, what the transport does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400)))]
    pub lease: Option<u64>,
    /// Another word for `lease`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400)))]
    pub lease_secs: Option<u64>,
    /// Makes a retry harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// A service is registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Registration {
    /// Eight hexadecimal digits.
    pub id: String,
    /// Instance name as it was asked for.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub service_type: String,
    /// Where it listens.
    pub port: u16,
    /// Seconds within which a heartbeat is due; 0 where none is.
    pub lease: u64,
    /// What keeps it.
    pub mode: Mode,
    /// Instance name as it is advertised: another one where the name was taken.
    pub advertised_name: String,
    /// Proves that a heartbeat is this registrant's.
    pub epoch: u64,
    /// An operator has asked it to end.
    pub draining: bool,
    /// What is odd about what was asked; null if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Answers a registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Registered {
    /// The registration.
    pub registered: Registration,
}

/// A registration ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unregistered {
    /// Its id.
    pub unregistered: String,
}

/// A registrant says that it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RegistrationHeartbeat {
    /// Refused if the registration is another registrant's by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// A heartbeat of a registration counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistrationRenewed {
    /// The registration's id.
    pub renewed: String,
    /// Seconds within which the next heartbeat is due; 0 where none is.
    pub lease: u64,
    /// An operator has asked it to end.
    #[serde(default)]
    pub draining: bool,
}

/// An operator's drain was carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistrationDrained {
    /// The registration's id.
    pub drained: String,
}

/// A drain was taken back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistrationRevived {
    /// The registration's id.
    pub revived: String,
}

/// Which epoch of a registration is ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UnregisterQuery {
    /// The epoch that the registrant knows; with another one `stale_epoch`, and the registration stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// A registration as an operator sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminRegistration {
    /// Eight hexadecimal digits.
    pub id: String,
    /// Instance name as it was asked for.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub service_type: String,
    /// Where it listens.
    pub port: u16,
    /// What keeps it.
    pub mode: Mode,
    /// Alive or draining.
    pub state: Liveness,
    /// Seconds that one heartbeat lasts; null where none is asked.
    pub lease_secs: Option<u64>,
    /// Seconds until the present phase ends; null where it has no end.
    pub remaining_secs: Option<u64>,
    /// Seconds that silence is forgiven; 0 for a permanent one.
    pub grace_secs: u64,
    /// The connection or session that keeps it.
    pub session_id: Option<String>,
    /// Since when it is there.
    pub registered_at: Time,
    /// Newest proof of life; null where none came since the daemon started or an operator revived the registration.
    pub last_seen: Option<Time>,
    /// Since when a proof of life is waited for, where none came since the daemon started or an operator revived the
    /// registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_since: Option<Time>,
    /// What is said about it.
    pub txt: Txt,
    /// Its address, where one was given.
    pub ip: Option<IpAddr>,
    /// Its lease.
    pub lease_id: String,
    /// Its epoch.
    pub epoch: u64,
    /// Whether the network has been told of it.
    pub advertised: bool,
    /// Instance name on the network.
    pub advertised_name: String,
    /// Why the network has not been told, where it has not.
    pub last_error: Option<String>,
}

/// The daemon as its registrations see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DaemonStatus {
    /// Version of the daemon.
    pub version: String,
    /// Since its start.
    pub uptime_secs: u64,
    /// Its operating system.
    pub platform: String,
    /// Registrations, counted.
    pub registrations: RegistrationCounts,
    /// Its process.
    pub pid: u32,
    /// Where it listens for HTTP.
    pub http: Option<String>,
    /// Where its socket is.
    pub ipc: Option<String>,
    /// Interfaces that services are advertised on.
    pub interfaces: Vec<String>,
    /// Health of the mDNS engine; null where it does not run.
    pub mdns: Option<String>,
}

/// Registrations, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistrationCounts {
    /// Alive, permanent ones among them.
    pub alive: u64,
    /// Draining.
    pub draining: u64,
    /// Permanent.
    pub permanent: u64,
    /// In all.
    pub total: u64,
}

/// A service on the network.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceRecord {
    /// Instance name; of a listing of types, the type.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub service_type: String,
    /// Its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its first IPv4 address, else its first IPv6 address; a link-local one only where there is no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub ip: Option<Address>,
    /// All its addresses: link-local ones last, those of IPv6 with the zone they are reached over (`fe80::1%eth0`).
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub addresses: Vec<Address>,
    /// Where it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What is said about it, as far as it is text.
    #[serde(default)]
    pub txt: Txt,
    /// Values that are no text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub txt_base64: BTreeMap<String, String>,
}

/// Which services to look for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BrowseQuery {
    /// Of this type; without it, the types there are.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub service_type: Option<String>,
    /// Ends the stream after so many seconds without news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400)))]
    pub idle_for: Option<u64>,
}

/// Which service to look up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResolveQuery {
    /// Full instance name, like `My App._http._tcp.local`.
    pub name: String,
}

/// A service was looked up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resolved {
    /// The service.
    pub resolved: ServiceRecord,
}

/// What was seen of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SightingKind {
    /// It is there.
    Found,
    /// Where it is and what is said about it.
    Resolved,
    /// It is gone.
    Removed,
}

/// Something was seen on the network.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sighting {
    /// What.
    pub event: SightingKind,
    /// Of which service.
    pub service: ServiceRecord,
}

/// What a browse says: what is there, whole, and what is gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Browsed {
    /// A service is there, or what is known of it changed.
    Found {
        /// The service.
        found: ServiceRecord,
    },
    /// A service is gone.
    Seen(Sighting),
}

impl ServiceRecord {
    /// A service of which no more than its name is known.
    #[must_use]
    pub fn named(name: &str, service_type: &str) -> Self {
        Self { name: name.to_owned(), service_type: service_type.to_owned(), ..Self::default() }
    }
}
