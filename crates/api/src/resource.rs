//! Resources, and the check of a protected system.

use crate::Time;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// A resource, held or free.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resource {
    /// Name of the resource.
    pub name: String,
    /// Id of the lease that covers the resource; null if it is free.
    pub lease_id: Option<String>,
    /// Holder of that lease.
    pub holder: Option<String>,
    /// Epoch of that lease.
    pub epoch: Option<u64>,
    /// Fencing token of the present holder.
    pub fence: Option<u64>,
    /// Since when the resource is held.
    pub since: Option<Time>,
    /// Time until the present phase of the lease ends.
    pub remaining_ms: Option<u64>,
    /// Holders in the queue, the next one first; null in lists.
    pub waiters: Option<Vec<String>>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Which resources to list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResourceQuery {
    /// Show only resources whose name begins with this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Show only this resource. For names that cannot be part of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Maximum number of leases that the daemon looks at for a page, 1 to 1000 [default: 100].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<u64>,
    /// `next_cursor` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of held resources, in order of their leases. A page may have fewer resources than `limit`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceList {
    /// Resources of this page.
    pub resources: Vec<Resource>,
    /// `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Request of a protected system: is this fencing token, or this epoch, the current one? It has either `resource` and
/// `fence`, or `lease_id` and `epoch`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, deny_unknown_fields)]
pub enum Check {
    /// A resource and a fencing token.
    Fence {
        /// Name of the resource.
        resource: String,
        /// Fencing token that the holder sent.
        fence: u64,
    },
    /// A lease and an epoch.
    Epoch {
        /// Id of the lease.
        lease_id: String,
        /// Epoch that the holder sent.
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

/// Answer to a check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckAnswer {
    /// True if the fencing token or epoch is the current one: accept the write.
    pub current: bool,
    /// Id of the lease that is current, if any.
    pub lease_id: Option<String>,
    /// Holder of that lease.
    pub holder: Option<String>,
    /// Epoch of that lease.
    pub epoch: Option<u64>,
    /// Fencing token of that lease.
    pub fence: Option<u64>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}
