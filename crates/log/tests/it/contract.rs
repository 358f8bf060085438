//! The disks that these tests stand on keep the contract of disks.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use tenure_log::RealDisk;
use tenure_log::disk_contract::{Place, check};

use crate::crash_disk::CrashDisk;

#[test]
fn the_real_disk_keeps_the_contract() {
    let homes = RefCell::new(Vec::new());
    check(&|| {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("a/b");
        homes.borrow_mut().push(home);
        Place { disk: Arc::new(RealDisk), root }
    });
}

#[test]
fn the_crash_disk_keeps_the_contract() {
    check(&|| Place { disk: CrashDisk::new().shared(), root: PathBuf::from("a/b") });
}
