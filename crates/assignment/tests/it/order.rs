//! Listing in another order makes no difference, and listing twice no harm.

use crate::cases;
use crate::fleet::{Fleet, Polled};
use crate::lives::{scatter, weights};
use crate::names::{Naming, Shape, namings, scrambled, shapes};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tenure_assignment::{Hash, Member, rank};

fn by_target(fleet: &Fleet, hash: Hash) -> BTreeMap<String, Option<String>> {
    let names = fleet.targets.iter().map(|target| target.name.clone());
    names.zip(fleet.assigned_by(hash)).collect()
}

fn shuffled<T>(items: &mut [T], seed: u64) {
    for last in (1..items.len()).rev() {
        items.swap(last, (scrambled(seed ^ last as u64) % (last as u64 + 1)) as usize);
    }
}

/// Target and pollers of the same affinity, found by running XXH64 backwards.
const TIE: (&str, &str, &str) = ("hda6qhe", "4gpgwuk8", "lfdaoyllJ2sVi7Wt");

#[test]
fn equal_affinities_go_to_the_first_name_whatever_is_listed_first() {
    let (target, first, second) = TIE;
    for names in [[first, second], [second, first]] {
        let mut fleet = Fleet::default();
        names.into_iter().for_each(|name| fleet.join(name.to_owned(), 1));
        fleet.add(target.to_owned());
        assert_eq!(fleet.assigned(), [Some(first.to_owned())]);
        let members = names.map(|name| Member { name, weight: 1, is_new: false });
        assert_eq!(rank(Hash::Xxh64, &members, target, first), 0);
        assert_eq!(rank(Hash::Xxh64, &members, target, second), 1);
    }
}

#[test]
fn a_poller_that_is_listed_twice_counts_once_with_the_greater_weight() {
    let mut once = Fleet::settled(Naming::Numbered, 3, Shape::Sequential, 90);
    let held: Vec<Polled> = once.targets.clone();
    for (extra, at) in [(1, 3), (1, 0), (0, 3), (0, 0)] {
        let mut twice = once.clone();
        twice.members.insert(at, ("poller-1".to_owned(), extra));
        twice.settle();
        assert_eq!(twice.targets, held, "nothing moves for it: {extra} at {at}");
        twice.targets.iter_mut().for_each(|target| target.held_by = None);
        once.targets.iter_mut().for_each(|target| target.held_by = None);
        assert_eq!(by_target(&twice, Hash::Xxh64), by_target(&once, Hash::Xxh64));
    }
}

#[test]
fn a_target_that_is_listed_twice_counts_twice_and_both_are_assigned() {
    let mut fleet = Fleet::new(Naming::Numbered, 3, Shape::Sequential, 9);
    (0..9).for_each(|_| fleet.add("s1".to_owned()));
    fleet.settle();
    fleet.check().unwrap();
    assert!(fleet.is_even(), "{:?}", fleet.loads());
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn any_order_of_members_and_targets_gives_the_same(
        naming in namings(),
        weights in prop::collection::vec(weights(), 1..12),
        shape in shapes(),
        targets in 0..150_usize,
        seed in any::<u64>(),
        pins in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
    ) {
        let mut fleet = Fleet::new(naming, 0, shape, targets);
        for (number, weight) in weights.into_iter().enumerate() {
            fleet.join(naming.poller(number), weight);
        }
        scatter(&mut fleet, seed);
        if targets > 0 {
            for (target, member) in pins {
                let name = fleet.members[member.index(fleet.members.len())].0.clone();
                fleet.targets[target.index(targets)].pinned_to = Some(name);
            }
        }
        let mut other = fleet.clone();
        shuffled(&mut other.members, seed);
        shuffled(&mut other.targets, !seed);
        for hash in [Hash::Xxh64, Hash::Fnv1a] {
            prop_assert_eq!(by_target(&fleet, hash), by_target(&fleet, hash), "asked twice");
            prop_assert_eq!(by_target(&fleet, hash), by_target(&other, hash), "in another order");
        }
    }

    #[test]
    fn names_of_any_kind_listed_any_number_of_times_do_no_harm(
        members in prop::collection::vec(("[ab\u{0}é]{0,2}", weights()), 0..12),
        targets in prop::collection::vec(
            ("[ab\u{0}é]{0,2}", prop::option::of("[ab\u{0}é]{0,2}"), prop::option::of("[ab\u{0}é]{0,2}")),
            0..40,
        ),
    ) {
        let targets = targets
            .into_iter()
            .map(|(name, held_by, pinned_to)| Polled { name, held_by, pinned_to })
            .collect();
        let fleet = Fleet { members, targets };
        for hash in [Hash::Xxh64, Hash::Fnv1a] {
            let assigned = fleet.assigned_by(hash);
            if fleet.total_weight() > 0 {
                prop_assert!(assigned.iter().all(Option::is_some));
            }
        }
    }
}
