//! The simulated disk keeps the contract that the real one keeps.

use std::path::PathBuf;
use tenure_log::disk_contract::{Place, check};
use tenure_sim::SimDisk;

#[test]
fn the_simulated_disk_keeps_the_contract() {
    check(&|| Place { disk: SimDisk::default().shared(), root: PathBuf::from("some/where") });
}
