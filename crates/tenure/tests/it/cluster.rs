//! Several nodes on a real etcd, from outside: real processes, real networks, real faults, and a checker that judges
//! what callers heard. Needs root, for the networks, and etcd.

pub(crate) mod caller;
pub(crate) mod checker;
pub(crate) mod harness;
pub(crate) mod history;
pub(crate) mod load;
pub(crate) mod net;
pub(crate) mod operator;
pub(crate) mod proxy;
pub(crate) mod stage;
pub(crate) mod store;

mod agreeing;
mod applications;
mod applying;
mod asking;
mod changing;
mod connections;
mod contract;
mod encrypted;
mod formats;
mod growth;
mod guardian;
mod joining;
mod losing;
mod migrating;
mod past;
mod planted;
mod prefixes;
mod restoring;
mod retrying;
mod schedule;
mod sessions;
mod split;
mod telling;
