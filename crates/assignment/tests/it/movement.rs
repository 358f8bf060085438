//! How few targets move. From nothing everybody gets its share, rounded either way; from then on a poller between
//! nine tenths of its share and its cap is left alone, and a change moves exactly as many as bring everybody between
//! these. For joins and leaves that is the optimum and at most a tenth. Targets that go can leave many pollers at an
//! edge; the change that moves the edge then costs more, and that is told here too.

use crate::cases;
use crate::fleet::{Fleet, Polled};
use crate::lives::{Life, Step, lives, steps};
use crate::names::{FLEETS, Naming, SHAPES, Shape, namings, shapes};
use proptest::prelude::*;
use proptest::sample::Index;

const SIZES: [usize; 8] = [1, 9, 10, 51, 100, 110, 546, 1000];

/// Fleets of one weight that started from nothing.
fn even_fleets() -> impl Iterator<Item = Life> {
    let sizes = SHAPES.into_iter().flat_map(|shape| SIZES.map(|size| (shape, size)));
    sizes.flat_map(|(shape, size)| FLEETS.map(|pollers| Life::settled(Naming::Drawn, pollers, shape, size)))
}

/// Targets that come and go, one at a time.
fn changes() -> impl Strategy<Value = Vec<Step>> {
    let change = prop_oneof![
        Just(Step::Add { count: 1 }),
        any::<Index>().prop_map(|first| Step::Remove { first, count: 1 }),
    ];
    prop::collection::vec(change, 1..60)
}

/// A tenth more than the optimum, and one for rounding.
fn with_a_tenth(optimum: usize) -> usize {
    optimum + optimum / 10 + 1
}

#[test]
fn a_join_moves_the_share_of_the_newcomer_and_to_nobody_else() {
    for mut life in even_fleets() {
        let newcomer = life.join(1);
        let moves = life.fleet.settle();
        let share = life.fleet.bounds_of(&newcomer);
        assert!(moves.moved.len() <= share.ceil, "{} moves, share {share:?}", moves.moved.len());
        assert!(moves.moved.iter().all(|(_, _, to)| *to == newcomer) && moves.taken.is_empty());
    }
}

#[test]
fn a_leave_moves_what_the_leaver_had_and_nothing_else() {
    for mut life in even_fleets().filter(|life| life.fleet.members.len() > 1) {
        let position = life.fleet.targets.len() % life.fleet.members.len();
        let had = life.fleet.load_of(&life.fleet.members[position].0);
        life.fleet.leave(position);
        let moves = life.fleet.settle();
        assert_eq!((moves.moved.len(), moves.taken.len()), (0, had));
        assert!(life.fleet.is_even());
    }
}

#[test]
fn who_is_cordoned_gives_what_it_had_and_takes_its_share_when_it_is_back() {
    for mut life in even_fleets().filter(|life| life.fleet.members.len() > 1) {
        let name = life.fleet.members[0].0.clone();
        let had = life.fleet.load_of(&name);
        life.fleet.members[0].1 = 0;
        let away = life.fleet.settle();
        assert_eq!(away.moved.len(), had);
        assert!(away.moved.iter().all(|(_, from, _)| *from == name));
        life.fleet.members[0].1 = 1;
        let back = life.fleet.settle();
        assert!(back.moved.len() <= life.fleet.bounds_of(&name).ceil);
        assert!(back.moved.iter().all(|(_, _, to)| *to == name));
    }
}

#[test]
fn a_target_more_or_less_moves_at_most_one_other() {
    for mut life in even_fleets() {
        life.add();
        let added = life.fleet.settle();
        assert_eq!((added.moved.len(), added.taken.len()), (0, 1));
        for round in 0..3 {
            let targets = life.fleet.targets.len();
            if targets > 0 {
                life.fleet.targets.remove(targets * round / 3);
                let removed = life.fleet.settle();
                assert!(removed.moved.len() <= 1 && removed.taken.is_empty(), "{removed:?}");
            }
        }
    }
}

#[test]
fn more_weight_draws_what_it_adds_and_less_gives_what_it_takes() {
    for pollers in [2, 3, 5, 10, 50] {
        for targets in SIZES {
            let mut fleet = Fleet::settled(Naming::Numbered, pollers, Shape::Uuid, targets);
            let name = fleet.members[0].0.clone();
            let before = fleet.load_of(&name);
            fleet.members[0].1 = 3;
            let more = fleet.settle().moved;
            let gain = fleet.bounds_of(&name).ceil.saturating_sub(before);
            assert!(more.len() <= with_a_tenth(gain), "{targets} on {pollers}: {} for {gain}", more.len());
            let before = fleet.load_of(&name);
            fleet.members[0].1 = 1;
            let less = fleet.settle().moved;
            let loss = before.saturating_sub(fleet.bounds_of(&name).floor);
            assert!(less.len() <= with_a_tenth(loss), "{targets} on {pollers}: {} for {loss}", less.len());
        }
    }
}

/// Fifty pollers of equal loads, half of which then lose as many targets as leaves them just not underloaded.
fn left_uneven(each: usize, gone_of_half: usize) -> Fleet {
    let mut fleet = Fleet::settled(Naming::Numbered, 50, Shape::Uuid, 50 * each);
    for (name, _) in &fleet.members[..25] {
        for _ in 0..gone_of_half {
            let held = |target: &Polled| target.held_by.as_ref() == Some(name);
            let position = fleet.targets.iter().position(held).unwrap();
            fleet.targets.remove(position);
        }
    }
    assert!(fleet.settle().moved.is_empty());
    fleet
}

#[test]
fn where_targets_went_from_half_of_many_pollers_the_next_change_pays_for_it() {
    // 18 and 22 of a share of 20. A join lowers the cap to 21: 25 moves, where the newcomer's share is 20.
    let mut fleet = left_uneven(22, 4);
    fleet.join("newcomer".to_owned(), 1);
    assert_eq!(fleet.settle().moved.len(), 25);
    // 9 and 11 of a share of 10. A leave raises nine tenths of the share above 9: what the leaver had feeds 9 of 24.
    let mut fleet = left_uneven(11, 2);
    fleet.leave(0);
    let moves = fleet.settle();
    assert_eq!((moves.taken.len(), moves.moved.len()), (9, 15));
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn joins_and_leaves_in_any_sequence_move_the_optimum_each_time(
        naming in namings(),
        pollers in prop_oneof![3 => 1..12_usize, 1 => 12..60_usize],
        shape in shapes(),
        targets in prop_oneof![3 => 0..400_usize, 1 => 400..1200_usize],
        goes in prop::collection::vec(prop::option::of(any::<Index>()), 1..16),
    ) {
        let mut life = Life::settled(naming, pollers, shape, targets);
        for leaver in goes {
            let members = life.fleet.members.len();
            let (optimum, had) = match leaver {
                Some(leaver) if members > 1 => {
                    let leaver = life.fleet.leave(leaver.index(members));
                    (0, life.fleet.load_of(&leaver))
                }
                _ => {
                    let newcomer = life.join(1);
                    (life.fleet.bounds_of(&newcomer).ceil, 0)
                }
            };
            let moves = life.fleet.settle();
            let most = with_a_tenth(optimum + had) - had;
            prop_assert!(moves.moved.len() <= most, "{} for {optimum}", moves.moved.len());
            prop_assert_eq!(moves.taken.len(), had);
        }
    }

    #[test]
    fn in_any_life_as_many_move_as_caps_and_hunger_demand(life in lives(), steps in steps(16)) {
        let mut life = life;
        for together in steps.chunks(2) {
            together.iter().for_each(|step| life.step(step));
            if life.fleet.total_weight() == 0 {
                continue;
            }
            let forced = life.fleet.above_caps();
            let missing = life.fleet.hunger().saturating_sub(life.fleet.free());
            let moved = life.fleet.settle().moved.len();
            prop_assert_eq!(moved, forced.max(missing), "{:?}: caps {}, hunger {}", together, forced, missing);
        }
    }

    #[test]
    fn a_change_of_nothing_moves_nothing(life in lives(), steps in steps(10)) {
        let mut life = life;
        for step in &steps {
            life.step(step);
        }
        prop_assume!(life.fleet.total_weight() > 0);
        life.fleet.settle();
        let again = life.fleet.settle();
        prop_assert!(again.moved.is_empty() && again.taken.is_empty(), "{again:?}");
    }

    #[test]
    fn where_shares_are_below_ten_a_target_more_or_less_moves_at_most_one_other(
        pollers in 1..12_usize,
        shape in shapes(),
        per_poller in 0..8_usize,
        changes in changes(),
    ) {
        let mut life = Life::settled(Naming::Numbered, pollers, shape, pollers * per_poller);
        for change in &changes {
            life.step(change);
            let moved = life.fleet.settle().moved.len();
            let is_small = life.fleet.targets.len() < 10 * pollers;
            prop_assert!(moved <= 1 || !is_small, "{moved} moves");
        }
    }

    #[test]
    fn targets_that_come_and_go_move_fewer_others_than_they_are(
        pollers in 1..12_usize,
        shape in shapes(),
        targets in 0..300_usize,
        changes in changes(),
    ) {
        let mut life = Life::settled(Naming::Numbered, pollers, shape, targets);
        let mut moved = 0;
        for change in &changes {
            life.step(change);
            moved += life.fleet.settle().moved.len();
        }
        prop_assert!(moved <= changes.len(), "{moved} moves for {} changes", changes.len());
    }
}
