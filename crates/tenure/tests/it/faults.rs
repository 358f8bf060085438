//! The real daemon under everything that goes wrong: crashes, full disks, hostile bytes, slow and silent peers.

mod crowds;
mod full_disk;
mod hostile;
mod killed;
mod ledger;
pub(crate) mod mount;
pub(crate) mod random;
mod stopped_clock;
mod worst_client;
