//! Tests that cannot find a planted bug prove nothing: each bug must make the test that guards against it fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_log::planted::{Planted, plant};

/// Runs a test of this binary with one bug planted on this thread.
fn fails_with(bug: Planted, test: fn()) -> bool {
    plant(Some(bug));
    let failed = catch_unwind(AssertUnwindSafe(test)).is_err();
    plant(None);
    failed
}

#[test]
fn each_planted_bug_is_found() {
    for bug in Planted::ALL {
        let guard: fn() = match bug {
            Planted::SyncSkipped | Planted::TornTailCutsValidFrame | Planted::GapNotTaken => {
                crate::crash_points::a_crash_at_any_operation_loses_nothing_acknowledged
            }
            Planted::CutBeforeGap => {
                crate::crash_points::a_second_crash_while_recovering_loses_nothing_either
            }
            Planted::LastFrameNotConfirmed => {
                crate::crash_points::what_a_new_process_finds_after_a_failed_sync_is_durable_before_it_goes_on
            }
            Planted::ChainNotChecked => crate::damage::a_frame_of_another_history_is_refused,
        };
        assert!(fails_with(bug, guard), "{} was not found", bug.name());
    }
}
