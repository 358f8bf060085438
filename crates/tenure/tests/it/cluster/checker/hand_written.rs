//! Histories written by hand: good ones that must pass, and for each rule bad ones that must not.

use super::{Rule, check};
use crate::cluster::history::{Asked, Authority, Heard, Record, State};

/// A history being written; instants are milliseconds.
#[derive(Default)]
pub(crate) struct Story(pub(crate) Vec<Record>);

impl Story {
    pub(crate) fn push(
        mut self,
        operation: &str,
        asked: Asked,
        sent: u64,
        heard: Option<(u64, Heard)>,
    ) -> Self {
        self.0.push(Record {
            operation: operation.to_owned(),
            node: "a".to_owned(),
            asked,
            sent_ns: sent * 1_000_000,
            heard: heard.map(|(at, heard)| (at * 1_000_000, heard)),
        });
        self
    }

    /// An acquire of `r`; the holder is named as the operation.
    pub(crate) fn acquire(self, operation: &str, sent: u64, heard: Option<(u64, Heard)>) -> Self {
        let asked = Asked::Acquire { resource: "r".to_owned(), holder: operation.to_owned() };
        self.push(operation, asked, sent, heard)
    }

    /// An acquire that was granted for a promise.
    pub(crate) fn granted(
        self,
        operation: &str,
        when: [u64; 2],
        lease: &str,
        fence: u64,
        valid_ms: u64,
    ) -> Self {
        let lease = lease.to_owned();
        let heard = Heard::Granted { lease, fence, valid_ms, state: State::Live };
        self.acquire(operation, when[0], Some((when[1], heard)))
    }

    pub(crate) fn refused(self, operation: &str, when: [u64; 2], by: &str) -> Self {
        self.acquire(operation, when[0], Some((when[1], Heard::Held { by: Some(by.to_owned()) })))
    }

    /// The same of another resource.
    pub(crate) fn granted_of(
        self,
        resource: &str,
        operation: &str,
        when: [u64; 2],
        (lease, fence): (&str, u64),
        valid_ms: u64,
    ) -> Self {
        let asked = Asked::Acquire { resource: resource.to_owned(), holder: operation.to_owned() };
        let heard = Heard::Granted { lease: lease.to_owned(), fence, valid_ms, state: State::Live };
        self.push(operation, asked, when[0], Some((when[1], heard)))
    }

    /// A refusal of another resource.
    pub(crate) fn refused_of(self, operation: &str, when: [u64; 2], resource: &str, by: &str) -> Self {
        let asked = Asked::Acquire { resource: resource.to_owned(), holder: operation.to_owned() };
        self.push(operation, asked, when[0], Some((when[1], Heard::Held { by: Some(by.to_owned()) })))
    }

    pub(crate) fn renewed(self, lease: &str, when: [u64; 2], valid_ms: u64) -> Self {
        let asked = Asked::Heartbeat { lease: lease.to_owned() };
        self.push("heartbeat", asked, when[0], Some((when[1], Heard::Renewed { valid_ms })))
    }

    pub(crate) fn lost(self, lease: &str, when: [u64; 2]) -> Self {
        let asked = Asked::Heartbeat { lease: lease.to_owned() };
        let heard = Heard::Lost { code: "stale_epoch".to_owned() };
        self.push("heartbeat", asked, when[0], Some((when[1], heard)))
    }

    pub(crate) fn release(self, lease: &str, sent: u64, heard: Option<(u64, Heard)>) -> Self {
        self.push(&format!("release {lease}"), Asked::Release { lease: lease.to_owned() }, sent, heard)
    }

    pub(crate) fn released(self, lease: &str, when: [u64; 2]) -> Self {
        self.release(lease, when[0], Some((when[1], Heard::Released)))
    }

    pub(crate) fn checked(self, when: [u64; 2], seen: Option<(&str, &str, u64)>) -> Self {
        let authority = seen.map(|(lease, holder, fence)| Authority {
            lease: lease.to_owned(),
            holder: holder.to_owned(),
            fence,
        });
        let asked = Asked::Check { resource: "r".to_owned() };
        self.push("check", asked, when[0], Some((when[1], Heard::Authority(authority))))
    }

    pub(crate) fn shown(self, lease: &str, when: [u64; 2], heard: Heard) -> Self {
        self.push("inspect", Asked::Inspect { lease: lease.to_owned() }, when[0], Some((when[1], heard)))
    }

    pub(crate) fn ended(self, lease: &str, when: [u64; 2], reason: &str) -> Self {
        self.shown(lease, when, Heard::Shown { state: State::Ended, reason: Some(reason.to_owned()) })
    }

    #[track_caller]
    pub(crate) fn passes(self) {
        let report = check(&self.0);
        assert!(report.anomalies.is_empty(), "{report}");
    }

    #[track_caller]
    pub(crate) fn breaks(self, rules: &[Rule]) {
        let report = check(&self.0);
        assert_eq!(report.broken(), rules, "{report}");
    }
}

pub(crate) fn story() -> Story {
    Story::default()
}

#[test]
fn one_holder_after_another_passes() {
    story()
        .checked([0, 1], None)
        .granted("a", [10, 20], "L1", 5, 100)
        .refused("x", [15, 30], "L1")
        .checked([21, 22], Some(("L1", "a", 5)))
        .renewed("L1", [50, 60], 100)
        .released("L1", [70, 80])
        .checked([75, 90], None)
        .granted("b", [72, 95], "L2", 9, 100)
        .lost("L2", [210, 220])
        .checked([300, 301], None)
        .granted("c", [310, 320], "L3", 12, 100)
        .ended("L1", [400, 410], "explicit")
        .ended("L2", [400, 410], "heartbeat_expired")
        .passes();
}

#[test]
fn an_acquire_that_began_before_the_release_may_follow_it() {
    story()
        .granted("a", [0, 10], "L1", 1, 1_000)
        .acquire("b", 5, None)
        .released("L1", [50, 60])
        .granted("b", [55, 70], "L2", 2, 1_000)
        .passes();
}

#[test]
fn what_was_never_answered_may_have_happened_late_or_not_at_all() {
    story()
        .acquire("a", 0, None)
        .checked([500, 510], Some(("L1", "a", 1)))
        .acquire("never", 0, None)
        .release("L1", 600, None)
        .checked([900, 910], Some(("L1", "a", 1)))
        .checked([950, 960], None)
        .passes();
}

#[test]
fn a_release_without_an_answer_excuses_an_early_end() {
    story()
        .granted("a", [0, 10], "L1", 1, 1_000)
        .release("L1", 50, None)
        .granted("b", [60, 70], "L2", 2, 1_000)
        .passes();
}

#[test]
fn a_refused_try_and_a_later_success_are_one_operation() {
    story()
        .granted("a", [0, 10], "L1", 1, 100)
        .refused("b", [5, 15], "L1")
        .granted("b", [200, 210], "L2", 2, 100)
        .passes();
}

#[test]
fn a_refusal_told_again_may_be_as_old_as_the_first_try_and_no_older() {
    let held = || story().granted("a", [10, 20], "L1", 5, 100).released("L1", [50, 60]);
    held().acquire("x", 40, None).refused("x", [80, 90], "L1").passes();
    held().acquire("x", 70, None).refused("x", [80, 90], "L1").breaks(&[Rule::Linearizable]);
}

#[test]
fn a_replay_of_what_has_ended_meanwhile_passes() {
    let heard = Heard::Granted { lease: "L1".to_owned(), fence: 1, valid_ms: 0, state: State::Ended };
    story()
        .acquire("a", 0, None)
        .granted("b", [300, 310], "L2", 2, 100)
        .acquire("a", 320, Some((330, heard)))
        .passes();
}

#[test]
fn two_leases_of_one_operation_are_found() {
    story()
        .granted("a", [0, 10], "L1", 1, 10)
        .granted("a", [100, 110], "L2", 2, 10)
        .breaks(&[Rule::OneOperationOneLease]);
    // One of them is told to its caller, the other seen by somebody else.
    story()
        .acquire("a", 0, None)
        .checked([20, 30], Some(("L1", "a", 1)))
        .granted("a", [100, 110], "L2", 2, 10)
        .breaks(&[Rule::OneOperationOneLease]);
}

#[test]
fn a_lease_that_nobody_asked_for_is_found() {
    story().checked([0, 10], Some(("L1", "ghost", 1))).breaks(&[Rule::NothingFromNowhere]);
    story()
        .refused("a", [0, 10], "L0")
        .checked([20, 30], Some(("L1", "a", 1)))
        .breaks(&[Rule::NothingFromNowhere]);
    story()
        .granted("a", [0, 10], "L1", 1, 10)
        .granted("b", [0, 10], "L1", 1, 10)
        .breaks(&[Rule::NothingFromNowhere]);
}

#[test]
fn a_fence_that_goes_back_is_found() {
    story()
        .granted("a", [0, 10], "L1", 7, 10)
        .granted("b", [100, 110], "L2", 5, 10)
        .breaks(&[Rule::FencesRise, Rule::Linearizable]);
}

#[test]
fn a_fence_given_twice_is_found() {
    story()
        .granted("a", [0, 10], "L1", 7, 10)
        .granted("b", [100, 110], "L2", 7, 10)
        .breaks(&[Rule::FencesRise]);
    story()
        .granted("a", [0, 10], "L1", 7, 10)
        .checked([12, 13], Some(("L1", "a", 8)))
        .breaks(&[Rule::FencesRise]);
}

#[test]
fn two_holders_at_once_are_found() {
    story()
        .granted("a", [0, 10], "L1", 1, 1_000)
        .granted("b", [500, 510], "L2", 2, 1_000)
        .breaks(&[Rule::PromisesNeverOverlap, Rule::Linearizable]);
}

#[test]
fn a_renewal_after_another_was_granted_is_found() {
    story()
        .granted("a", [0, 10], "L1", 1, 100)
        .granted("b", [200, 210], "L2", 2, 100)
        .renewed("L1", [220, 230], 100)
        .breaks(&[Rule::PromisesNeverOverlap, Rule::Linearizable]);
}

#[test]
fn a_promise_that_is_not_kept_is_found() {
    story().granted("a", [0, 10], "L1", 1, 1_000).lost("L1", [500, 510]).breaks(&[Rule::PromisesAreKept]);
    story()
        .granted("a", [0, 10], "L1", 1, 100)
        .renewed("L1", [90, 100], 1_000)
        .lost("L1", [900, 910])
        .breaks(&[Rule::PromisesAreKept]);
    // It is said to have expired: no release excuses it.
    story()
        .granted("a", [0, 10], "L1", 1, 1_000)
        .release("L1", 100, None)
        .ended("L1", [500, 510], "heartbeat_expired")
        .breaks(&[Rule::PromisesAreKept]);
}

#[test]
fn a_promise_counts_from_before_the_question_not_from_the_answer() {
    story().granted("a", [0, 900], "L1", 1, 1_000).lost("L1", [990, 1_001]).passes();
    story().granted("a", [0, 900], "L1", 1, 1_000).lost("L1", [990, 999]).breaks(&[Rule::PromisesAreKept]);
}

#[test]
fn something_acknowledged_that_is_gone_is_found() {
    story()
        .granted("a", [0, 10], "L1", 1, 100)
        .shown("L1", [500, 510], Heard::Missing)
        .breaks(&[Rule::NothingIsLost]);
}

#[test]
fn a_reason_that_does_not_fit_is_found() {
    let granted = || story().granted("a", [0, 10], "L1", 1, 100);
    granted().ended("L1", [500, 510], "explicit").breaks(&[Rule::NothingIsLost]);
    granted().ended("L1", [500, 510], "admin_force").breaks(&[Rule::NothingIsLost]);
    granted()
        .released("L1", [20, 30])
        .ended("L1", [500, 510], "heartbeat_expired")
        .breaks(&[Rule::NothingIsLost]);
}

#[test]
fn a_release_that_was_forgotten_is_found() {
    story()
        .granted("a", [0, 10], "L1", 1, 1_000)
        .released("L1", [20, 30])
        .checked([40, 50], Some(("L1", "a", 1)))
        .breaks(&[Rule::Linearizable]);
    story()
        .granted("a", [0, 10], "L1", 1, 1_000)
        .released("L1", [20, 30])
        .refused("b", [40, 50], "L1")
        .breaks(&[Rule::Linearizable]);
}

#[test]
fn a_grant_that_was_forgotten_is_found() {
    story().granted("a", [0, 10], "L1", 1, 1_000).checked([40, 50], None).breaks(&[Rule::Linearizable]);
    // Seen, then not seen, then seen again: nobody's clock is needed.
    story()
        .acquire("a", 0, None)
        .checked([20, 30], Some(("L1", "a", 1)))
        .checked([40, 50], None)
        .checked([60, 70], Some(("L1", "a", 1)))
        .breaks(&[Rule::Linearizable]);
}

#[test]
fn an_answer_from_the_past_is_found() {
    story()
        .granted("a", [0, 10], "L1", 1, 100)
        .granted("b", [200, 210], "L2", 2, 100)
        .checked([220, 230], Some(("L1", "a", 1)))
        .breaks(&[Rule::Linearizable]);
    story().granted("a", [0, 10], "L1", 1, 100).checked([20, 30], None).breaks(&[Rule::Linearizable]);
}

#[test]
fn answers_that_contradict_each_other_across_leases_are_found() {
    // Each answer fits alone; the order of the fences leaves no room for all of them.
    story()
        .acquire("a", 0, None)
        .acquire("b", 0, None)
        .checked([100, 110], Some(("L2", "b", 2)))
        .checked([200, 210], Some(("L1", "a", 1)))
        .breaks(&[Rule::Linearizable]);
}

#[test]
fn nobody_is_a_good_answer_while_a_grant_is_under_way() {
    story().granted("a", [0, 100], "L1", 1, 1_000).checked([50, 60], None).passes();
    story()
        .granted("a", [0, 100], "L1", 1, 1_000)
        .released("L1", [200, 300])
        .checked([250, 260], None)
        .passes();
}

#[test]
fn what_was_counted_is_told() {
    let story = story()
        .acquire("a", 0, None)
        .granted("a", [20, 30], "L1", 1, 100)
        .granted("b", [200, 210], "L2", 2, 100)
        .acquire("c", 300, None);
    let report = check(&story.0);
    assert_eq!(
        (report.operations, report.tries, report.unknown, report.unresolved),
        (3, 4, 2, 1),
        "{report}"
    );
    assert_eq!((report.leases, report.changes_of_holder), (2, 1), "{report}");
}
