//! The cluster's parts against real ones: etcd, as it is installed; and against a store whose answers are late or lost.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod catching_up;
/// What every log must do: the same suite that the log in files passes.
#[path = "../../../log/tests/it/conformance.rs"]
mod conformance;
mod etcd;
mod etcd_access;
mod etcd_faults;
mod etcd_health;
mod faulty;
mod golden;
mod growth;
mod members;
mod memory;
mod moving;
mod remote;
mod remote_faults;
mod removing;
mod stuck;
#[path = "../../../log/tests/it/support.rs"]
#[expect(dead_code, reason = "shared with the log's own tests, which use more of it")]
mod support;
mod trimming;
