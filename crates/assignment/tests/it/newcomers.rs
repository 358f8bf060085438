//! A member that has not shown yet that it lasts: few targets move for it, and nothing that is nobody's waits.

use tenure_assignment::{Hash, Member, Target, assign};

/// Who should have each of `n` targets, by what is held.
fn assigned(members: &[(&str, u32, bool)], held_by: &[Option<&str>]) -> Vec<Option<String>> {
    let names: Vec<String> = (0..held_by.len()).map(|number| format!("s{number}")).collect();
    let targets: Vec<Target<'_>> = names
        .iter()
        .zip(held_by)
        .map(|(name, held_by)| Target { name, held_by: *held_by, pinned_to: None })
        .collect();
    let members: Vec<Member<'_>> = members
        .iter()
        .map(|(name, weight, is_new)| Member { name, weight: *weight, is_new: *is_new })
        .collect();
    let places = assign(Hash::Xxh64, &members, &targets);
    places.into_iter().map(|place| place.map(|place| members[place].name.to_owned())).collect()
}

fn load(assigned: &[Option<String>], name: &str) -> usize {
    assigned.iter().filter(|to| to.as_deref() == Some(name)).count()
}

/// `n` targets, in turns.
fn held<'a>(n: usize, holders: &[&'a str]) -> Vec<Option<&'a str>> {
    (0..n).map(|number| Some(holders[number % holders.len()])).collect()
}

const OLD: [(&str, u32, bool); 3] = [("a", 1, false), ("b", 1, false), ("c", 1, false)];

/// Every time a poller joined, it was given its share, also if it had died seconds after each of its last ten joins.
#[test]
fn a_tenth_of_a_share_moves_for_a_newcomer_and_the_rest_once_it_has_lasted() {
    let held = held(200, &["a", "b", "c"]);
    let first = assigned(&[OLD.as_slice(), &[("d", 1, true)]].concat(), &held);
    assert_eq!(load(&first, "d"), 5);
    let moved = first.iter().zip(&held).filter(|(to, from)| to.as_deref() != **from);
    assert!(moved.clone().all(|(to, _)| to.as_deref() == Some("d")), "nothing moves between the others");
    let first: Vec<Option<&str>> = first.iter().map(Option::as_deref).collect();
    let then = assigned(&[OLD.as_slice(), &[("d", 1, false)]].concat(), &first);
    assert_eq!(load(&then, "d"), 45, "not underloaded any more");
}

#[test]
fn newcomers_together_get_no_more_than_one() {
    let held = held(200, &["a", "b", "c"]);
    let newcomers = [("d", 1, true), ("e", 1, true), ("f", 1, true)];
    let all = assigned(&[OLD.as_slice(), &newcomers].concat(), &held);
    let given: usize = ["d", "e", "f"].iter().map(|name| load(&all, name)).sum();
    assert_eq!(given, 3, "a tenth of a sixth");
}

#[test]
fn one_that_dies_again_and_again_costs_the_same_few_targets() {
    let mut now: Vec<Option<String>> =
        held(200, &["a", "b", "c"]).into_iter().map(|holder| holder.map(str::to_owned)).collect();
    let mut hit = std::collections::BTreeSet::new();
    // Each is listed for two more lives after its own.
    let lives: Vec<String> = (0..20).map(|life| format!("d{life}")).collect();
    for life in 0..lives.len() {
        let listed = &lives[life.saturating_sub(2)..=life];
        let members: Vec<(&str, u32, bool)> =
            OLD.into_iter().chain(listed.iter().map(|name| (name.as_str(), 1, true))).collect();
        let held_by: Vec<Option<&str>> = now.iter().map(Option::as_deref).collect();
        now = assigned(&members, &held_by);
        let with_new =
            now.iter().enumerate().filter(|(_, to)| to.as_ref().is_some_and(|to| to.starts_with('d')));
        hit.extend(with_new.map(|(target, _)| target));
    }
    assert!(hit.len() <= 5, "{} targets of 200 were lost", hit.len());
}

#[test]
fn what_is_nobodys_does_not_wait_and_goes_to_newcomers_too() {
    let mut held = held(200, &["a", "b", "c", "dead"]);
    held[0] = None;
    let all = assigned(&[OLD.as_slice(), &[("d", 1, true)]].concat(), &held);
    assert_eq!(load(&all, "d"), 50, "its whole share");
    assert!(all.iter().all(|to| to.as_deref().is_some_and(|to| to != "dead")));
}

#[test]
fn who_leaves_gives_to_newcomers_too_and_nothing_is_left_over() {
    let members = [("a", 0, false), ("b", 1, false), ("d", 1, true)];
    let all = assigned(&members, &held(100, &["a", "b"]));
    assert_eq!((load(&all, "a"), load(&all, "b") + load(&all, "d")), (0, 100));
    assert!(load(&all, "d") >= 45, "{}", load(&all, "d"));
}

#[test]
fn where_all_are_new_or_nobody_else_takes_any_they_share_as_ever() {
    let all_new = [("a", 1, true), ("b", 1, true), ("c", 1, true)];
    let all = assigned(&all_new, &held(9, &["a"]));
    assert_eq!(["a", "b", "c"].map(|name| load(&all, name)), [3, 3, 3]);
    let leaving = [("a", 0, false), ("b", 1, true), ("c", 1, true)];
    let all = assigned(&leaving, &held(8, &["a"]));
    assert_eq!(["a", "b", "c"].map(|name| load(&all, name)), [0, 4, 4]);
}

#[test]
fn a_newcomer_keeps_what_it_has() {
    let members = [("a", 1, false), ("b", 1, true)];
    let held = held(100, &["a", "b"]);
    let all = assigned(&members, &held);
    assert!(all.iter().zip(&held).all(|(to, from)| to.as_deref() == *from), "nothing moves");
}
