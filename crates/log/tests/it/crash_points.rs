//! Counts the operations of a run, then runs it again crashing at each, with several kinds of loss, and again crashing
//! while it recovers. Nothing acknowledged is lost, nothing that was never appended appears, no LSN of a lost frame is
//! given twice.

use crate::crash_disk::{CrashDisk, Fault, Loss, Operation};
use crate::story::{Witness, check, is_torn, recovered, tell};
use crate::support::{EVENT, Owned, Writer, open};

/// The kinds of loss that are tried. `TENURE_CRASH_SEEDS` asks for more of them, for long runs.
fn losses() -> Vec<Loss> {
    let seeds = std::env::var("TENURE_CRASH_SEEDS").map_or(3, |seeds| seeds.parse().unwrap());
    let torn = [1, 200, 500, 950].map(Loss::TornAt);
    let subsets = (1..=seeds).map(Loss::Subset);
    [Loss::Lost, Loss::Kept].into_iter().chain(torn).chain(subsets).collect()
}

fn count_operations() -> Vec<Operation> {
    let disk = CrashDisk::new();
    let mut witness = Witness::default();
    assert!(tell(&disk, &mut witness).is_ok());
    assert!(witness.acknowledged.len() > 40);
    disk.operations()
}

fn crash_at(operation: usize) -> (CrashDisk, Witness) {
    let disk = CrashDisk::new();
    let mut witness = Witness::default();
    disk.fail_at(operation, Fault::Crash);
    let _ = tell(&disk, &mut witness);
    (disk, witness)
}

#[test]
pub(crate) fn a_crash_at_any_operation_loses_nothing_acknowledged() {
    for operation in 0..count_operations().len() {
        let (disk, witness) = crash_at(operation);
        for loss in losses() {
            let after = disk.after_crash(loss);
            let torn = is_torn(&after.shared());
            check(&after, &witness, torn).unwrap_or_else(|error| panic!("{operation} {loss:?}: {error}"));
        }
    }
}

#[test]
pub(crate) fn a_second_crash_while_recovering_loses_nothing_either() {
    for operation in 0..count_operations().len() {
        let (disk, witness) = crash_at(operation);
        for loss in losses() {
            let found = disk.after_crash(loss);
            let torn = is_torn(&found.shared());
            for second in 0.. {
                let again = found.copy();
                again.fail_at(second, Fault::Crash);
                if open(&again.shared()).is_ok() {
                    break;
                }
                for loss in [Loss::Lost, Loss::TornAt(300), Loss::Kept, Loss::Subset(second as u64)] {
                    let after = again.after_crash(loss);
                    let torn = torn || is_torn(&after.shared());
                    check(&after, &witness, torn)
                        .unwrap_or_else(|error| panic!("{operation} then {second} {loss:?}: {error}"));
                }
            }
        }
    }
}

#[test]
fn a_full_disk_at_any_operation_stops_the_log_and_loses_nothing() {
    for operation in 0..count_operations().len() {
        let disk = CrashDisk::new();
        let mut witness = Witness::default();
        disk.fail_at(operation, Fault::NoSpace);
        let _ = tell(&disk, &mut witness);
        // The process stops, the machine does not: everything that was written is there.
        for loss in [Loss::Kept, Loss::Lost] {
            let after = disk.after_crash(loss);
            let torn = is_torn(&after.shared());
            check(&after, &witness, torn).unwrap_or_else(|error| panic!("{operation}: {error}"));
        }
    }
}

#[test]
fn a_failed_operation_of_any_kind_loses_nothing() {
    for operation in 0..count_operations().len() {
        let disk = CrashDisk::new();
        let mut witness = Witness::default();
        disk.fail_at(operation, Fault::Io);
        let _ = tell(&disk, &mut witness);
        for loss in losses() {
            let after = disk.after_crash(loss);
            let torn = is_torn(&after.shared());
            check(&after, &witness, torn).unwrap_or_else(|error| panic!("{operation} {loss:?}: {error}"));
        }
    }
}

#[test]
pub(crate) fn what_a_new_process_finds_after_a_failed_sync_is_durable_before_it_goes_on() {
    // After a failed sync the pages stay readable and are never written: the new process sees a frame, builds on it, and
    // the next power cut takes the frame away from under what was built.
    for operation in 0..count_operations().len() {
        for fault in [Fault::Io, Fault::NoSpace] {
            let disk = CrashDisk::new();
            disk.fail_at(operation, fault);
            let _ = tell(&disk, &mut Witness::default());
            let Ok((mut log, recovery)) = open(&disk.shared()) else { continue };
            let mut expected = recovered(&log, &recovery);
            let lsn = Writer::new(&log).append(&mut log, &[b"built on it"]);
            expected.push(Owned { lsn: lsn.0, kind: EVENT, bytes: b"built on it".to_vec() });
            drop(log);
            for loss in losses() {
                let after = disk.after_crash(loss);
                let (log, recovery) = open(&after.shared())
                    .unwrap_or_else(|error| panic!("{operation} {fault:?} {loss:?}: {error}"));
                assert_eq!(recovered(&log, &recovery), expected, "{operation} {fault:?} {loss:?}");
            }
        }
    }
}
