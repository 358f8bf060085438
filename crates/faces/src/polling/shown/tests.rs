//! A group as it is shown: states, order, and who should poll what.

use super::*;
use crate::polling::group::{Free, write_pin};
use crate::polling::why::LeftFor;
use tenure_api::{PollerFacts, PollerReport, ReportedTargets};
use tenure_engine::kernel::{Epoch, Fence, Lsn};

pub(in crate::polling) const NOW: u64 = 1_700_000_100_000;

pub(in crate::polling) fn held(lease: u64, holder: &str, session: u64) -> Held {
    Held {
        lease: LeaseId::new(0, Lsn(lease)),
        epoch: Epoch(1),
        fence: Fence(lease),
        holder: holder.into(),
        session: Some(SessionId(session)),
        ttl_ms: 30_000,
        grace_ms: 0,
        phase: Phase::Kept,
        acquired_wall_ms: Some(NOW - 60_000),
        attachment: Vec::new(),
    }
}

fn member(holder: &str, session: u64, status: PollerStatus) -> Held {
    reporting(holder, session, status, None)
}

pub(in crate::polling) fn reporting(
    holder: &str,
    session: u64,
    status: PollerStatus,
    report: Option<PollerReport>,
) -> Held {
    let instance = holder.to_owned();
    let facts = PollerFacts { instance, weight: 1, status, fixed_name: true, is_new: false, report };
    Held { attachment: serde_json::to_vec(&facts).expect("plain data"), ..held(1, holder, session) }
}

fn heard(age_ms: u64) -> Beat {
    Beat { is_silent: false, last_seen_wall_ms: NOW - age_ms, ttl_ms: 30_000, now_wall_ms: NOW }
}

fn group() -> Group {
    let mut group = Group { generation: Lsn(40), ..Group::default() };
    group.pollers.insert("kitchen".into(), member("kitchen~1", 1, PollerStatus::Online).into());
    group.pollers.insert("hall".into(), member("hall~1", 2, PollerStatus::Online).into());
    for (number, holder, session) in [(1, "kitchen~1", 1), (2, "kitchen~1", 1), (3, "hall~1", 2)] {
        group.targets.insert(format!("s{number}").into(), held(10 + number, holder, session).into());
    }
    group
}

fn view(group: &Group) -> PollingView {
    let beats =
        [(Keeper::Session(SessionId(1)), heard(1_000)), (Keeper::Session(SessionId(2)), heard(21_000))];
    shown("web", group, &preferred(group), &beats.into(), NOW)
}

fn node<'a>(view: &'a PollingView, instance: &str) -> &'a api::Poller {
    view.live_nodes.iter().find(|node| node.instance_id == instance).expect("a node")
}

fn states(node: &api::Poller) -> Vec<(&str, TargetState)> {
    node.owned_targets.iter().map(|polled| (polled.target.as_str(), polled.state)).collect()
}

#[test]
fn who_was_not_heard_of_for_two_thirds_is_uncertain_since_the_renewal_it_missed() {
    let view = view(&group());
    assert_eq!(states(node(&view, "kitchen~1")), [("s1", TargetState::Owned), ("s2", TargetState::Owned)]);
    let hall = &node(&view, "hall~1").owned_targets[0];
    assert_eq!(hall.state, TargetState::Uncertain);
    assert_eq!(hall.last_renewed_at, Some(rfc3339(NOW - 21_000)));
    assert_eq!(hall.uncertain_since, Some(rfc3339(NOW - 11_000)));
    assert_eq!((view.generation, view.this_instance_id.is_none()), (40, true));
    let names: Vec<&str> = view.live_nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["hall", "kitchen"], "in order of name");
}

#[test]
fn what_is_let_go_of_drains_and_comes_first() {
    let mut group = group();
    let revoked = Held { phase: Phase::Revoking, ..held(12, "kitchen~1", 1) };
    group.targets.insert("s2".into(), revoked.into());
    let shown = view(&group);
    assert_eq!(
        states(node(&shown, "kitchen~1")),
        [("s2", TargetState::Draining), ("s1", TargetState::Owned)]
    );
    group.pollers.insert("kitchen".into(), member("kitchen~1", 1, PollerStatus::Leaving).into());
    let shown = view(&group);
    assert_eq!(
        states(node(&shown, "kitchen~1")),
        [("s1", TargetState::Draining), ("s2", TargetState::Draining)]
    );
    assert!(
        node(&shown, "kitchen~1")
            .owned_targets
            .iter()
            .all(|polled| { polled.preferred_owner_id.as_deref() == Some("hall~1") }),
        "who leaves should have nothing"
    );
}

#[test]
fn one_that_is_away_keeps_its_targets_and_is_not_uncertain() {
    let mut group = group();
    group.pollers.insert("hall".into(), member("hall~absent", 2, PollerStatus::Online).into());
    group.targets.insert("s3".into(), held(13, "hall~absent", 2).into());
    let shown = view(&group);
    let hall = node(&shown, "hall~absent");
    assert_eq!((hall.status, hall.name.as_str()), (PollerStatus::Absent, "hall"));
    assert_eq!(states(hall), [("s3", TargetState::Draining)]);
    assert_eq!(hall.owned_targets[0].preferred_owner_id.as_deref(), Some("hall~absent"));
    let free =
        Free { since_wall_ms: NOW, last_holder: "x".into(), left_for: LeftFor::Voluntary, lsn: Lsn(30) };
    group.free.insert("s4".into(), free.into());
    let unowned = &view(&group).unowned["s4"];
    assert_eq!(
        unowned.preferred_owner_id.as_deref(),
        Some("kitchen~1"),
        "one that is away gets nothing more"
    );
}

#[test]
fn a_cordoned_poller_should_have_nothing_and_a_pin_is_obeyed_and_shown() {
    let mut group = group();
    group.cordons.insert("hall".into(), held(20, "local", 2).into());
    let pin = Held { attachment: write_pin("kitchen"), ..held(21, "local", 1) };
    group.pins.insert("s2".into(), pin.into());
    let shown = view(&group);
    assert_eq!(node(&shown, "hall~1").status, PollerStatus::Cordoned);
    let hall = &node(&shown, "hall~1").owned_targets[0];
    assert_eq!(hall.preferred_owner_id.as_deref(), Some("kitchen~1"));
    let pinned: Vec<bool> =
        node(&shown, "kitchen~1").owned_targets.iter().map(|polled| polled.pinned).collect();
    assert_eq!(pinned, [false, true]);
}

#[test]
fn whoever_has_a_target_is_shown_member_or_not() {
    let mut group = group();
    group.targets.insert("s9".into(), held(19, "somebody", 1).into());
    let shown = view(&group);
    let stranger = node(&shown, "somebody");
    assert_eq!((stranger.weight, stranger.status), (0, PollerStatus::Leaving));
    assert_eq!(states(stranger), [("s9", TargetState::Owned)]);
    assert_ne!(stranger.owned_targets[0].preferred_owner_id.as_deref(), Some("somebody"));
}

#[test]
fn what_nobody_polls_says_since_when_and_who_should_take_it() {
    let mut group = group();
    let free = Free {
        since_wall_ms: NOW - 5_000,
        last_holder: "den~1".into(),
        left_for: LeftFor::TtlExpiry,
        lsn: Lsn(30),
    };
    group.free.insert("s4".into(), free.into());
    let shown = view(&group);
    assert_eq!(shown.unowned_targets, ["s4"]);
    let unowned = &shown.unowned["s4"];
    assert_eq!(unowned.since, Some(rfc3339(NOW - 5_000)));
    assert_eq!(unowned.last_owner_id.as_deref(), Some("den~1"));
    assert_eq!(unowned.reason.as_deref(), Some("ttl_expiry"));
    assert_eq!(unowned.preferred_owner_id.as_deref(), Some("hall~1"), "it has fewer");
}

#[test]
fn a_target_that_no_poller_asks_for_is_no_part_of_the_assignment() {
    let report = |names: &[&str]| {
        let unowned = ReportedTargets::of(names.iter().copied());
        Some(PollerReport { unowned, ..PollerReport::default() })
    };
    let mut group = group();
    for (name, session, asked) in [("kitchen", 1, &["s7"][..]), ("hall", 2, &[])] {
        let held = reporting(&format!("{name}~1"), session, PollerStatus::Online, report(asked));
        group.pollers.insert(name.into(), held.into());
    }
    let shown = view(&group);
    assert_eq!(shown.unowned_targets, ["s7"], "nobody ever held it, and kitchen asks for it");
    let unowned = &shown.unowned["s7"];
    assert_eq!((&unowned.since, &unowned.last_owner_id, &unowned.reason), (&None, &None, &None));
    assert_eq!(unowned.preferred_owner_id.as_deref(), Some("hall~1"), "it has fewer");
    assert_eq!((shown.unowned_total, shown.state), (1, GroupState::Active));
}

#[test]
fn targets_whose_polls_fail_are_marked_come_first_and_are_counted() {
    let report = |names: &[&str], more: u64| {
        let mut failing = ReportedTargets::of(names.iter().copied());
        failing.total += more;
        Some(PollerReport { failing, ..PollerReport::default() })
    };
    let mut group = group();
    // It does not hold s3 any more: what it said of it is of no interest.
    let kitchen = reporting("kitchen~1", 1, PollerStatus::Online, report(&["s2", "s3"], 0));
    group.pollers.insert("kitchen".into(), kitchen.into());
    let shown = view(&group);
    let kitchen = node(&shown, "kitchen~1");
    let marks: Vec<(&str, bool)> =
        kitchen.owned_targets.iter().map(|polled| (polled.target.as_str(), polled.failing)).collect();
    assert_eq!(marks, [("s2", true), ("s1", false)]);
    assert!(!node(&shown, "hall~1").owned_targets[0].failing);
    assert_eq!((kitchen.failing, node(&shown, "hall~1").failing, shown.failing_total), (1, 0, 1));
    let hall = reporting("hall~1", 2, PollerStatus::Online, report(&["s3"], 5));
    group.pollers.insert("hall".into(), hall.into());
    let shown = view(&group);
    assert_eq!((node(&shown, "hall~1").failing, shown.failing_total), (6, 7), "those without a name count");
}

#[test]
fn a_group_without_pollers_is_abandoned_and_nothing_in_it_is_unowned() {
    let empty = view(&Group::default());
    assert_eq!((empty.live_nodes.len(), empty.unowned_targets.len(), empty.generation), (0, 0, 0));
    assert_eq!(empty.state, GroupState::Unknown);
    let mut left = Group::default();
    let free =
        Free { since_wall_ms: NOW, last_holder: "den~1".into(), left_for: LeftFor::TtlExpiry, lsn: Lsn(30) };
    left.free.insert("s4".into(), free.into());
    let shown = view(&left);
    assert_eq!(
        (shown.state, shown.unowned_targets.len(), shown.unowned_total),
        (GroupState::Abandoned, 0, 0)
    );
    assert!(shown.unowned.is_empty());
    assert_eq!(shown.abandoned["s4"].last_owner_id.as_deref(), Some("den~1"));
    left.pollers.insert("hall".into(), member("hall~1", 2, PollerStatus::Online).into());
    let shown = view(&left);
    assert_eq!((shown.state, shown.unowned_targets.len(), shown.abandoned.len()), (GroupState::Active, 1, 0));
    let mut group = group();
    group.pollers.clear();
    let shown = view(&group);
    assert!(node(&shown, "kitchen~1").owned_targets.iter().all(|polled| polled.preferred_owner_id.is_none()));
}

#[test]
fn one_that_keeps_no_session_any_more_lets_go() {
    let (state, since) = stands(&held(1, "a", 9), Some(PollerStatus::Online), None);
    assert_eq!((state, since), (TargetState::Draining, None));
    let connected = Beat { ttl_ms: 0, ..heard(86_400_000) };
    let (state, _) = stands(&held(1, "a", 9), Some(PollerStatus::Online), Some(&connected));
    assert_eq!(state, TargetState::Owned, "a connection proves its life by being open");
    let (state, since) = stands(&held(1, "a", 9), None, Some(&Beat { is_silent: true, ..heard(31_000) }));
    assert_eq!((state, since), (TargetState::Uncertain, Some(NOW - 21_000)));
}
