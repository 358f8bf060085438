//! The cluster's parts against real ones: etcd, as it is installed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod etcd;
mod etcd_access;
mod etcd_faults;
mod etcd_health;
mod members;
