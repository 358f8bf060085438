//! Histories with a restore of etcd in them, written by hand from what a restore promises.

use super::hand_written::{Story, story};
use super::{Rule, check_with};
use crate::cluster::history::{Asked, Heard, Restore};

const MILLISECOND: u64 = 1_000_000;
/// Nodes are stopped from 1,000 on, all of them at 1,100; it is adopted at 2,000.
const RESTORE: Restore =
    Restore { from_ns: 1_000 * MILLISECOND, stopped_ns: 1_100 * MILLISECOND, until_ns: 2_000 * MILLISECOND };

impl Story {
    #[track_caller]
    fn passes_restored(self) {
        let report = check_with(&self.0, &[RESTORE]);
        assert!(report.anomalies.is_empty(), "{report}");
        assert_eq!(report.restores, 1);
    }

    #[track_caller]
    fn breaks_restored(self, rules: &[Rule]) {
        let report = check_with(&self.0, &[RESTORE]);
        assert_eq!(report.broken(), rules, "{report}");
    }

    fn missing(self, asked: Asked, when: [u64; 2]) -> Self {
        self.push("missing", asked, when[0], Some((when[1], Heard::Missing)))
    }
}

/// A holder whose promise ends long after the restore; ids have another beginning after it.
fn held() -> Story {
    story().granted("a", [0, 10], "old-1", 1, 4_000)
}

#[test]
fn a_restore_ends_every_lease_and_no_promise() {
    held()
        .missing(Asked::Heartbeat { lease: "old-1".to_owned() }, [2_100, 2_110])
        .checked([2_120, 2_130], None)
        .ended("new-1", [4_200, 4_210], "restored")
        .granted("b", [4_100, 4_110], "new-2", 2, 1_000)
        .passes_restored();
    // Somebody else has it while its first holder may act.
    held().granted("b", [3_000, 3_010], "new-2", 2, 500).breaks_restored(&[Rule::PromisesNeverOverlap]);
}

#[test]
fn a_lease_that_lives_on_after_a_restore_is_found() {
    held().renewed("old-1", [2_100, 2_110], 1_000).breaks_restored(&[Rule::RestoresEndEverything]);
    held().checked([2_100, 2_110], Some(("new-1", "a", 1))).breaks_restored(&[Rule::RestoresEndEverything]);
}

#[test]
fn an_end_before_the_restore_is_not_excused_by_it() {
    held().lost("old-1", [500, 510]).breaks_restored(&[Rule::PromisesAreKept]);
    held()
        .ended("new-1", [2_500, 2_510], "heartbeat_expired")
        .breaks_restored(&[Rule::PromisesAreKept, Rule::RestoresEndEverything]);
}

#[test]
fn an_answer_before_the_adoption_is_found() {
    story().checked([1_200, 1_300], None).breaks_restored(&[Rule::RestoresEndEverything]);
    story().granted("a", [1_200, 1_300], "old-1", 1, 100).breaks_restored(&[Rule::RestoresEndEverything]);
    // What was asked while a node was being stopped may be answered by it.
    story().checked([1_050, 1_300], None).passes_restored();
}

#[test]
fn a_fence_or_a_lease_that_is_given_again_after_a_restore_is_found() {
    story()
        .granted("a", [0, 10], "old-7", 7, 100)
        .granted_of("s", "b", [2_100, 2_110], ("new-9", 6), 100)
        .breaks_restored(&[Rule::FencesRise]);
    // The same number once more: the store forgot that it was given.
    story()
        .granted("a", [0, 10], "old-7", 7, 100)
        .granted("b", [2_100, 2_110], "new-7", 7, 100)
        .breaks_restored(&[Rule::NothingFromNowhere, Rule::FencesRise, Rule::Linearizable]);
}

#[test]
fn what_was_acknowledged_before_a_restore_is_known_after_it() {
    // A release that the backup does not know.
    held().released("old-1", [20, 30]).ended("new-1", [2_500, 2_510], "explicit").passes_restored();
    held()
        .released("old-1", [20, 30])
        .ended("new-1", [2_500, 2_510], "restored")
        .breaks_restored(&[Rule::NothingIsLost]);
    // A grant that the backup does not know: an old id may be unknown to those who renew, not to those who ask why.
    held()
        .missing(Asked::Inspect { lease: "old-1".to_owned() }, [2_500, 2_510])
        .breaks_restored(&[Rule::NothingIsLost]);
    // What had ended before is in no history after it.
    held()
        .released("old-1", [20, 30])
        .missing(Asked::Inspect { lease: "old-1".to_owned() }, [2_500, 2_510])
        .passes_restored();
    // Nothing was restored since.
    story()
        .granted("b", [2_100, 2_110], "new-2", 2, 100)
        .ended("new-2", [2_500, 2_510], "restored")
        .breaks_restored(&[Rule::NothingIsLost]);
}

#[test]
fn an_operation_is_carried_out_once_over_a_restore() {
    let open = || story().acquire("a", 500, None);
    open().granted("a", [2_100, 2_110], "new-9", 9, 100).passes_restored();
    open()
        .checked([600, 610], Some(("old-1", "a", 1)))
        .granted("a", [2_100, 2_110], "new-9", 9, 100)
        .breaks_restored(&[Rule::OneOperationOneLease]);
}
