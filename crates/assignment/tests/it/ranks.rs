//! Who tries for an orphan first.

use crate::cases;
use crate::lives::weights;
use crate::names::{FLEETS, Naming, SHAPES, Shape, namings, shapes};
use proptest::prelude::*;
use tenure_assignment::{Hash, Member, Target, assign, rank};

/// Poller and target whose XXH64 begins with 53 ones, found by running it backwards: the greatest score there is.
const GREATEST: (&str, &str) = ("imxPMDov", "ye9ofrx");

fn members<'a>(names: &'a [String], weights: &[u32]) -> Vec<Member<'a>> {
    names.iter().zip(weights).map(|(name, weight)| Member { name, weight: *weight, is_new: false }).collect()
}

fn first_choice(members: &[Member<'_>], target: &str) -> usize {
    let is_first = |member: &Member<'_>| rank(Hash::Xxh64, members, target, member.name) == 0;
    members.iter().position(is_first).unwrap()
}

#[test]
fn a_stranger_comes_after_everybody() {
    let members =
        [Member { name: "a", weight: 1, is_new: false }, Member { name: "b", weight: 0, is_new: false }];
    for hash in [Hash::Xxh64, Hash::Fnv1a] {
        assert_eq!(rank(hash, &members, "s1", "c"), 2);
        assert_eq!(rank(hash, &[], "s1", "c"), 0);
    }
}

#[test]
fn three_times_the_weight_is_the_first_choice_of_three_times_as_many() {
    for shape in SHAPES {
        let members =
            [("a", 1), ("b", 3), ("c", 1)].map(|(name, weight)| Member { name, weight, is_new: false });
        let mut firsts = [0_u32; 3];
        for target in shape.targets(5_000) {
            firsts[first_choice(&members, &target)] += 1;
        }
        // Five standard deviations around a fifth and three fifths.
        assert!(firsts[0].abs_diff(1_000) < 142 && firsts[1].abs_diff(3_000) < 174, "{shape:?}: {firsts:?}");
    }
}

#[test]
fn first_choices_spread_over_pollers_of_one_weight() {
    for pollers in FLEETS {
        let names = Naming::Drawn.pollers(pollers);
        let members = members(&names, &vec![1; pollers]);
        let mut firsts = vec![0_usize; pollers];
        for target in Shape::Sequential.targets(2_000) {
            firsts[first_choice(&members, &target)] += 1;
        }
        let (share, most) = (2_000 / pollers, firsts.iter().max().unwrap());
        assert!(*most <= share + 5 * share.isqrt(), "{firsts:?}");
    }
}

#[test]
fn no_weight_comes_last_however_great_its_affinity() {
    let (poller, target) = GREATEST;
    for other in Naming::Numbered.pollers(20) {
        let members = [
            Member { name: poller, weight: 0, is_new: false },
            Member { name: &other, weight: 1, is_new: false },
        ];
        assert_eq!(rank(Hash::Xxh64, &members, target, poller), 1);
        let members = [
            Member { name: poller, weight: 1, is_new: false },
            Member { name: &other, weight: u32::MAX, is_new: false },
        ];
        let free = [Target { name: target, held_by: None, pinned_to: None }];
        let place = assign(Hash::Xxh64, &members, &free)[0].unwrap();
        assert_eq!(rank(Hash::Xxh64, &members, target, members[place].name), 0);
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn each_rank_is_had_by_one_and_who_takes_nothing_comes_last(
        naming in namings(),
        weights in prop::collection::vec(weights(), 1..20),
        shape in shapes(),
        number in 0..100_000_usize,
    ) {
        let names = naming.pollers(weights.len());
        let members = members(&names, &weights);
        let target = shape.target(number);
        for hash in [Hash::Xxh64, Hash::Fnv1a] {
            let ranks: Vec<usize> = names.iter().map(|name| rank(hash, &members, &target, name)).collect();
            let mut sorted = ranks.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..names.len()), "{ranks:?}");
            let takers = weights.iter().filter(|weight| **weight > 0).count();
            for (rank, weight) in ranks.iter().zip(&weights) {
                prop_assert!(hash == Hash::Fnv1a || (*weight > 0) == (*rank < takers));
            }
        }
    }

    #[test]
    fn more_weight_never_makes_one_later(
        weights in prop::collection::vec(0..9_u32, 2..12),
        number in 0..100_000_usize,
        more in 1..1_000_u32,
    ) {
        let names = Naming::Drawn.pollers(weights.len());
        let target = Shape::Sequential.target(number);
        let before = members(&names, &weights);
        let mut after = before.clone();
        after[0].weight += more;
        let of = |members: &[Member<'_>], name: &str| rank(Hash::Xxh64, members, &target, name);
        prop_assert!(of(&after, &names[0]) <= of(&before, &names[0]));
        for pair in names[1..].windows(2) {
            let is_before = |members: &[Member<'_>]| of(members, &pair[0]) < of(members, &pair[1]);
            prop_assert_eq!(is_before(&before), is_before(&after), "the others keep their order");
        }
    }

    #[test]
    fn a_lone_orphan_is_assigned_to_the_first_in_rank(
        naming in namings(),
        pollers in 1..20_usize,
        shape in shapes(),
        number in 0..100_000_usize,
    ) {
        let names = naming.pollers(pollers);
        let members = members(&names, &vec![1; pollers]);
        let name = shape.target(number);
        let target = [Target { name: &name, held_by: None, pinned_to: None }];
        for hash in [Hash::Xxh64, Hash::Fnv1a] {
            let place = assign(hash, &members, &target)[0].unwrap();
            prop_assert_eq!(rank(hash, &members, &name, members[place].name), 0);
        }
    }
}
