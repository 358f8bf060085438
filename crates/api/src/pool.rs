//! Pools: a name with a size, whose members are `name/1 … name/n`.

use serde::{Deserialize, Serialize};

/// Request to create or resize a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PoolSize {
    /// Number of members, at most 65,536.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 65_536)))]
    pub size: u32,
}

/// Options of the removal of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RemovePool {
    /// Remove the pool even if leases hold members of it; the daemon ends these leases.
    #[serde(default)]
    pub force: bool,
}

/// A pool: a name with a size, whose members are the resources `name/1` to `name/n`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pool {
    /// Name of the pool.
    pub name: String,
    /// Number of members.
    pub size: u32,
    /// Number of members that no lease covers.
    pub free: u32,
    /// Set if the pool is removed and leases still hold members of it.
    pub removed: bool,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// All pools, in order of name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolList {
    /// Pools.
    pub pools: Vec<Pool>,
    /// Always null: all pools are in one page.
    pub next_cursor: Option<String>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}
