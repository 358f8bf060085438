//! A pool: a name with a size. Its members are ordinary resources `name/1 … name/n`; the pool only knows
//! which of them are free.

use crate::tables::free_set::FreeSet;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pool {
    pub(crate) size: u32,
    pub(crate) free: FreeSet,
    /// Removed while in use: no longer granted from, gone when the last member comes free.
    pub(crate) removed: bool,
}

/// What can be read of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Number of members.
    pub size: u32,
    /// Free members.
    pub free: u32,
    /// Removed, but members are still held.
    pub removed: bool,
}

impl Pool {
    pub(crate) fn held(&self) -> u32 {
        self.size - self.free.count()
    }
}
