//! The kernel's containers: slots that never move, interned values, ordered ids, free pool members.
//! None of them lets hash order reach the outside.

pub(crate) mod free_set;
pub(crate) mod index;
pub(crate) mod interner;
pub(crate) mod register;
pub(crate) mod shares;
pub(crate) mod slab;
