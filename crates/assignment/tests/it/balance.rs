//! Who holds how much: never more than `max(ceil(share), floor(1.1 share))`, and nothing is left over.

use crate::cases;
use crate::fleet::{Fleet, Polled, bounds};
use crate::lives::{Step, lives, scatter, steps, weights};
use crate::names::{FLEETS, Naming, SHAPES, Shape, namings, shapes};
use proptest::prelude::*;
use tenure_assignment::shares;

const SIZES: [usize; 9] = [0, 1, 2, 9, 10, 49, 100, 101, 1000];

fn held_by(name: &str, holder: Option<&str>) -> Polled {
    Polled { name: name.to_owned(), held_by: holder.map(str::to_owned), pinned_to: None }
}

#[test]
fn ids_of_any_shape_spread_evenly_from_nothing() {
    for shape in SHAPES {
        for (pollers, targets) in FLEETS.into_iter().flat_map(|pollers| SIZES.map(|size| (pollers, size))) {
            let fleet = Fleet::settled(Naming::Drawn, pollers, shape, targets);
            fleet.check().unwrap();
            assert!(fleet.is_even(), "{shape:?}: {targets} on {pollers}: {:?}", fleet.loads());
        }
    }
}

#[test]
fn nine_on_three_are_three_each() {
    for shape in SHAPES {
        for naming in [Naming::Drawn, Naming::Numbered, Naming::Letters] {
            let fleet = Fleet::settled(naming, 3, shape, 9);
            assert!(fleet.loads().into_values().eq([3, 3, 3]), "{shape:?}: {:?}", fleet.loads());
        }
    }
}

#[test]
fn weights_are_shares() {
    let mut fleet = Fleet::default();
    [("a", 1), ("b", 2), ("c", 5)].into_iter().for_each(|(name, weight)| fleet.join(name.to_owned(), weight));
    Shape::Sequential.targets(80).into_iter().for_each(|name| fleet.add(name));
    fleet.settle();
    assert!(fleet.loads().into_values().eq([10, 20, 50]), "{:?}", fleet.loads());
}

#[test]
fn a_weight_of_nothing_gets_nothing_and_gives_everything_away() {
    let mut fleet = Fleet::settled(Naming::Numbered, 3, Shape::Sequential, 30);
    fleet.members[1].1 = 0;
    let moves = fleet.settle();
    assert_eq!(moves.moved.len(), 10);
    assert!(moves.moved.iter().all(|(_, from, _)| from == "poller-1"), "{moves:?}");
    assert!(fleet.loads().into_values().eq([15, 0, 15]), "{:?}", fleet.loads());
}

#[test]
fn where_nobody_has_a_weight_all_stays_and_what_is_free_stays_free() {
    let members = vec![("a".to_owned(), 0), ("b".to_owned(), 0)];
    let mut targets = vec![held_by("s0", Some("a")), held_by("s1", None), held_by("s2", Some("gone"))];
    targets.push(Polled { pinned_to: Some("b".to_owned()), ..held_by("s3", Some("a")) });
    targets.push(Polled { pinned_to: Some("b".to_owned()), ..held_by("s4", None) });
    let fleet = Fleet { members, targets };
    let a = Some("a".to_owned());
    assert_eq!(fleet.assigned(), [a.clone(), None, None, a, None]);
}

#[test]
fn nobody_at_all_gets_nothing() {
    let fleet =
        Fleet { members: Vec::new(), targets: vec![held_by("s0", None), held_by("s1", Some("gone"))] };
    assert_eq!(fleet.assigned(), [None, None]);
    assert!(Fleet::new(Naming::Letters, 3, Shape::Uuid, 0).assigned().is_empty());
}

#[test]
fn one_who_takes_all_does_so_beside_any_number_who_take_none() {
    let mut fleet = Fleet::new(Naming::Drawn, 50, Shape::Url, 100);
    fleet.members.iter_mut().for_each(|(_, weight)| *weight = 0);
    fleet.members[31].1 = u32::MAX;
    fleet.settle();
    fleet.check().unwrap();
}

#[test]
fn twenty_thousand_on_fifty_keep_within_their_caps_as_they_come_and_go() {
    let mut fleet = Fleet::settled(Naming::Drawn, 50, Shape::Padded, 20_000);
    fleet.check().unwrap();
    fleet.leave(7);
    fleet.settle();
    fleet.check().unwrap();
    fleet.join("back".to_owned(), 1);
    fleet.settle();
    fleet.check().unwrap();
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn whatever_was_held_before_the_caps_are_kept(
        naming in namings(),
        weights in prop::collection::vec(weights(), 1..12),
        shape in shapes(),
        targets in 0..250_usize,
        seed in any::<u64>(),
    ) {
        let mut fleet = Fleet::new(naming, 0, shape, targets);
        for (number, weight) in weights.into_iter().enumerate() {
            fleet.join(naming.poller(number), weight);
        }
        scatter(&mut fleet, seed);
        if fleet.total_weight() > 0 {
            fleet.settle();
        }
        fleet.check()?;
    }

    #[test]
    fn shares_are_what_was_promised(weights in prop::collection::vec(weights(), 0..60), targets in 0..100_000_usize) {
        let total = weights.iter().copied().map(u64::from).sum();
        let shares = shares(weights.clone(), targets);
        prop_assert_eq!(shares.len(), weights.len());
        for (share, weight) in shares.iter().zip(&weights) {
            let bounds = bounds(*weight, total, targets);
            prop_assert_eq!((share.floor, share.ceil, share.cap), (bounds.floor, bounds.ceil, bounds.cap));
            prop_assert_eq!(share.underloaded_below, bounds.low);
        }
        if total > 0 {
            let floors: usize = shares.iter().map(|share| share.floor).sum();
            let ceils: usize = shares.iter().map(|share| share.ceil).sum();
            prop_assert!(floors <= targets && targets <= ceils);
        }
    }
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn after_any_life_the_caps_are_kept(life in lives(), steps in steps(16)) {
        let mut life = life;
        life.fleet.check()?;
        for step in &steps {
            life.step(step);
            if life.fleet.total_weight() > 0 {
                life.fleet.settle();
            }
            life.fleet.check()?;
        }
    }

    #[test]
    fn who_comes_last_is_given_nine_tenths_of_its_share(life in lives(), steps in steps(12)) {
        let mut life = life;
        for step in &steps {
            life.step(step);
        }
        // The last to come has a part in it as soon as its share is a whole target.
        life.step(&Step::Join { weight: 1 });
        life.fleet.settle();
        let newcomer = life.fleet.members.last().unwrap().0.clone();
        let low = life.fleet.bounds_of(&newcomer).low;
        prop_assert!(life.fleet.load_of(&newcomer) >= low, "{:?}", life.fleet.loads());
    }
}
