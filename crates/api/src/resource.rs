//! Resources, and the question a guarded store asks.

use crate::Time;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// A resource as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// The lease that covers it; null when it is free.
    pub lease_id: Option<String>,
    /// Who holds it.
    pub holder: Option<String>,
    /// Epoch of the lease.
    pub epoch: Option<u64>,
    /// Fence of the present holder.
    pub fence: Option<u64>,
    /// Since when it is held.
    pub since: Option<Time>,
    /// Until the lease's present phase ends.
    pub remaining_ms: Option<u64>,
    /// Who waits for it, first first; null in lists.
    pub waiters: Option<Vec<String>>,
    /// As of this position in the log.
    pub lsn: u64,
}

/// Which resources to list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResourceQuery {
    /// Only those whose name begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Just this one; for names that do not fit a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// At most this many leases are looked at, 1 to 1000 (100 unless told).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<u64>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of resources that are held, in order of their lease. A page may be short.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceList {
    /// The resources.
    pub resources: Vec<Resource>,
    /// Where to go on; null at the end.
    pub next_cursor: Option<String>,
    /// As of.
    pub lsn: u64,
}

/// Is what a holder presents current? Either a resource with a fence, or a lease with an epoch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, deny_unknown_fields)]
pub enum Check {
    /// By resource.
    Fence {
        /// The resource.
        resource: String,
        /// The fence presented.
        fence: u64,
    },
    /// By lease.
    Epoch {
        /// The lease.
        lease_id: String,
        /// The epoch presented.
        epoch: u64,
    },
}

/// Every field of a [`Check`]: read first, so that a wrong one is named.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFields {
    resource: Option<String>,
    fence: Option<u64>,
    lease_id: Option<String>,
    epoch: Option<u64>,
}

impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match CheckFields::deserialize(deserializer)? {
            CheckFields { resource: Some(resource), fence: Some(fence), lease_id: None, epoch: None } => {
                Ok(Self::Fence { resource, fence })
            }
            CheckFields { resource: None, fence: None, lease_id: Some(lease_id), epoch: Some(epoch) } => {
                Ok(Self::Epoch { lease_id, epoch })
            }
            _ => Err(D::Error::custom("a check has resource and fence, or lease_id and epoch")),
        }
    }
}

/// What a guarded store is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckAnswer {
    /// Whoever presented it has authority now.
    pub current: bool,
    /// The lease with authority, if any.
    pub lease_id: Option<String>,
    /// Its holder.
    pub holder: Option<String>,
    /// Its epoch.
    pub epoch: Option<u64>,
    /// Its fence.
    pub fence: Option<u64>,
    /// As of this position in the log.
    pub lsn: u64,
}
