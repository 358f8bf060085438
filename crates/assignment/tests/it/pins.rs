//! An operator's word: a pinned target goes where it is pinned to, and the rest is balanced around it.

use crate::cases;
use crate::fleet::Fleet;
use crate::lives::{lives, steps_with_pins};
use crate::names::{FLEETS, Naming, SHAPES, Shape};
use proptest::prelude::*;

fn pin(fleet: &mut Fleet, target: usize, to: &str) {
    fleet.targets[target].pinned_to = Some(to.to_owned());
}

#[test]
fn a_pinned_target_goes_where_it_is_pinned_to_from_wherever_it_is() {
    let mut fleet = Fleet::settled(Naming::Numbered, 3, Shape::Sequential, 30);
    fleet.targets[0].held_by = None;
    fleet.targets[1].held_by = Some("poller-0".to_owned());
    fleet.targets[2].held_by = Some("poller-2".to_owned());
    (0..3).for_each(|target| pin(&mut fleet, target, "poller-2"));
    fleet.settle();
    assert!(fleet.targets[..3].iter().all(|target| target.held_by.as_deref() == Some("poller-2")));
    fleet.check().unwrap();
}

#[test]
fn a_pin_to_one_who_is_unknown_or_takes_nothing_is_as_none() {
    for from_nothing in [true, false] {
        let mut plain = Fleet::settled(Naming::Numbered, 4, Shape::Uuid, 40);
        plain.members[3].1 = 0;
        if from_nothing {
            plain.targets.iter_mut().for_each(|target| target.held_by = None);
        }
        let mut pinned = plain.clone();
        (0..5).for_each(|target| pin(&mut pinned, target, "nobody"));
        (5..10).for_each(|target| pin(&mut pinned, target, "poller-3"));
        assert_eq!(pinned.assigned(), plain.assigned());
    }
}

#[test]
fn pinning_one_moves_it_and_at_most_one_other() {
    for shape in SHAPES {
        for pollers in FLEETS {
            let mut fleet = Fleet::settled(Naming::Drawn, pollers, shape, 110);
            let name = fleet.members[pollers / 2].0.clone();
            pin(&mut fleet, 17, &name);
            let moves = fleet.settle().moved;
            assert!(moves.len() <= 2, "{pollers} pollers: {moves:?}");
            fleet.check().unwrap();
        }
    }
}

#[test]
fn a_pin_that_is_taken_away_moves_nothing() {
    let mut fleet = Fleet::settled(Naming::Drawn, 5, Shape::Padded, 50);
    let name = fleet.members[0].0.clone();
    pin(&mut fleet, 9, &name);
    fleet.settle();
    fleet.targets[9].pinned_to = None;
    assert!(fleet.settle().moved.is_empty());
}

#[test]
fn who_has_more_pins_than_its_cap_has_nothing_else_and_the_others_share_the_rest() {
    let mut fleet = Fleet::settled(Naming::Numbered, 3, Shape::Sequential, 30);
    (0..20).for_each(|target| pin(&mut fleet, target, "poller-1"));
    fleet.settle();
    fleet.check().unwrap();
    assert_eq!(fleet.load_of("poller-1"), 20);
    assert_eq!(fleet.load_of("poller-0") + fleet.load_of("poller-2"), 10);
    (20..30).for_each(|target| pin(&mut fleet, target, "poller-1"));
    fleet.settle();
    assert_eq!(fleet.load_of("poller-1"), 30);
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn in_any_life_pins_hold_and_the_rest_keeps_within_the_caps(life in lives(), steps in steps_with_pins(12)) {
        let mut life = life;
        for step in &steps {
            life.step(step);
            if life.fleet.total_weight() == 0 {
                continue;
            }
            life.fleet.settle();
            life.fleet.check()?;
            for target in &life.fleet.targets {
                let counts = |name: &&String| life.fleet.weight_of(name).is_some_and(|weight| weight > 0);
                if let Some(pinned_to) = target.pinned_to.as_ref().filter(counts) {
                    prop_assert_eq!(target.held_by.as_ref(), Some(pinned_to));
                }
            }
            prop_assert!(life.fleet.settle().moved.is_empty(), "it comes to rest");
        }
    }
}
