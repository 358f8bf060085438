//! What is unowned and what is forgotten. The members' ttl is 30 s.

use super::*;
use crate::polling::shown::tests::{NOW, held, reporting};
use crate::polling::why::LeftFor;
use tenure_api::PollerReport;

const TWO_TTLS: u64 = 60_000;

fn free(group: &mut Group, name: &str, age_ms: u64) {
    let free = Free {
        since_wall_ms: NOW - age_ms,
        last_holder: "den~1".into(),
        left_for: LeftFor::TtlExpiry,
        lsn: Lsn(30),
    };
    group.free.insert(name.into(), free.into());
}

fn join(group: &mut Group, name: &str, unowned: Option<&[&str]>) {
    let report = unowned.map(|names| PollerReport {
        unowned: ReportedTargets::of(names.iter().copied()),
        ..PollerReport::default()
    });
    let held = reporting(&format!("{name}~1"), 1, PollerStatus::Online, report);
    group.pollers.insert(name.into(), held.into());
}

fn hold(group: &mut Group, target: &str) {
    group.targets.insert(target.into(), held(11, "hall~1", 1).into());
}

fn names(group: &Group) -> Vec<String> {
    group.unowned().names.keys().map(ToString::to_string).collect()
}

fn forgotten(group: &Group) -> Vec<String> {
    group.forgettable(NOW).into_iter().map(|(name, _)| name.to_string()).collect()
}

#[test]
fn a_target_is_asked_for_while_a_poller_reports_it_and_forgotten_two_ttls_after_it_came_free() {
    let mut group = Group::default();
    join(&mut group, "kitchen", Some(&[]));
    join(&mut group, "hall", Some(&["listed"]));
    for (name, age_ms) in [("listed", 10 * TWO_TTLS), ("gone", TWO_TTLS + 1), ("young", TWO_TTLS)] {
        free(&mut group, name, age_ms);
    }
    assert_eq!(forgotten(&group), ["gone"]);
    group.free.remove("gone");
    assert_eq!(names(&group), ["listed", "young"]);
    assert_eq!(group.unowned().total, 2);
}

#[test]
fn a_target_that_was_never_held_is_unowned_while_a_poller_asks_for_it() {
    let mut group = Group::default();
    join(&mut group, "hall", Some(&["never", "held"]));
    hold(&mut group, "held");
    assert_eq!((names(&group), group.unowned().total), (vec!["never".to_owned()], 1));
    assert!(group.unowned().names["never"].is_none());
    assert!(group.knows("never") && group.knows("held") && !group.knows("other"));
}

#[test]
fn a_poller_that_reports_nothing_asks_for_all_that_came_free() {
    let mut group = Group::default();
    join(&mut group, "new", Some(&[]));
    join(&mut group, "old", None);
    free(&mut group, "s1", 100 * ABANDONED_MS);
    assert_eq!((forgotten(&group), names(&group)), (vec![], vec!["s1".to_owned()]));
    group.pollers.remove("old");
    assert_eq!(forgotten(&group), ["s1"]);
}

#[test]
fn a_poller_that_cannot_name_them_all_asks_for_all_that_came_free_and_its_number_counts() {
    let mut group = Group::default();
    let many: Vec<String> = (0..1_000).map(|number| format!("many-{number:04}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    join(&mut group, "hall", Some(&many));
    free(&mut group, "s1", 100 * ABANDONED_MS);
    assert_eq!(forgotten(&group), Vec::<String>::new());
    assert_eq!(group.unowned().total, 1_000);
    hold(&mut group, "many-0000");
    assert_eq!(group.unowned().total, 999, "what somebody took meanwhile does not count");
    // Others ask for the same: they are not counted twice.
    join(&mut group, "kitchen", Some(&many));
    assert_eq!(group.unowned().total, 999);
}

#[test]
fn one_that_is_away_asks_for_nothing_while_others_are_there() {
    let mut group = Group::default();
    let away = reporting("den~absent", 1, PollerStatus::Absent, None);
    group.pollers.insert("den".into(), away.into());
    free(&mut group, "s1", TWO_TTLS + 1);
    assert_eq!((forgotten(&group).len(), names(&group).len()), (0, 1), "nobody else is there");
    join(&mut group, "hall", Some(&[]));
    assert_eq!(forgotten(&group), ["s1"]);
}

#[test]
fn a_group_without_pollers_is_abandoned_for_a_day_and_has_nothing_unowned() {
    let mut group = Group::default();
    assert_eq!(group.state(), GroupState::Unknown);
    free(&mut group, "s1", ABANDONED_MS);
    free(&mut group, "s2", ABANDONED_MS + 1);
    assert_eq!(group.state(), GroupState::Abandoned);
    assert_eq!((names(&group).len(), group.unowned().total), (0, 0));
    assert_eq!(forgotten(&group), ["s2"]);
    join(&mut group, "hall", None);
    assert_eq!(group.state(), GroupState::Active);
}
