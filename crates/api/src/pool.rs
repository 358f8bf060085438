//! Pools: a name with a size, whose members are `name/1 … name/n`.

use serde::{Deserialize, Serialize};

/// Creates or resizes a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PoolSize {
    /// Number of members, at most 65,536.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 65_536)))]
    pub size: u32,
}

/// Removes a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RemovePool {
    /// Also while members are held; their leases are ended.
    #[serde(default)]
    pub force: bool,
}

/// A pool as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Number of members.
    pub size: u32,
    /// Members that nobody holds.
    pub free: u32,
    /// Removed, while members are still held.
    pub removed: bool,
    /// As of this position in the log.
    pub lsn: u64,
}

/// Every pool, in order of name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolList {
    /// The pools.
    pub pools: Vec<Pool>,
    /// Null: all pools are in one page.
    pub next_cursor: Option<String>,
    /// As of.
    pub lsn: u64,
}
