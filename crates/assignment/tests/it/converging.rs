//! Pollers that each decide alone, on what was true a step ago: they come to rest, and no target comes back to one
//! it left. Each sees its own targets as they are and where it gave those that it had; what the others hold, and half
//! the time who the others are, is a step old. Each gives at most so many in a step, and takes what is free at once.

use crate::cases;
use crate::fleet::Fleet;
use crate::lives::{Life, lives, steps, steps_with_pins};
use crate::names::{Naming, Shape};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Who holds each target.
type Holders = Vec<Option<String>>;

/// A group whose pollers act by themselves.
struct Group {
    life: Life,
    /// Holders and members a step ago.
    before: Fleet,
    gives_max: usize,
    steps_so_far: usize,
    moves_so_far: usize,
    /// Whom each target left since the last change of members or targets.
    left: Vec<BTreeSet<String>>,
}

impl Group {
    fn new(life: Life, gives_max: usize) -> Self {
        let before = life.fleet.clone();
        let left = vec![BTreeSet::new(); before.targets.len()];
        Self { life, before, gives_max, steps_so_far: 0, moves_so_far: 0, left }
    }

    /// The world changes; what a poller knew of the others is as old as it was.
    fn change(&mut self, change: impl FnOnce(&mut Life)) {
        let members_before = self.life.fleet.members.clone();
        change(&mut self.life);
        let fleet = &mut self.life.fleet;
        for target in &mut fleet.targets {
            let is_member = |name: &String| fleet.members.iter().any(|(member, _)| member == name);
            target.held_by = target.held_by.take().filter(is_member);
        }
        self.before = fleet.clone();
        self.before.members = members_before;
        self.begin();
    }

    /// From here on no target comes back.
    fn begin(&mut self) {
        self.left = vec![BTreeSet::new(); self.life.fleet.targets.len()];
        (self.steps_so_far, self.moves_so_far) = (0, 0);
    }

    /// What one poller sees.
    fn view(&self, me: &str, position: usize) -> Fleet {
        let mut view = self.life.fleet.clone();
        let knew_it = self.before.members.iter().any(|(name, _)| name == me);
        if knew_it && position % 2 == self.steps_so_far % 2 {
            view.members.clone_from(&self.before.members);
        }
        for (target, before) in view.targets.iter_mut().zip(&self.before.targets) {
            let is_own = |holder: &Option<String>| holder.as_deref() == Some(me);
            if !is_own(&target.held_by) && !is_own(&before.held_by) {
                target.held_by.clone_from(&before.held_by);
            }
        }
        view
    }

    /// Everybody acts once. Whether anything moved.
    fn step(&mut self) -> Result<bool, TestCaseError> {
        let now: Holders = self.life.fleet.targets.iter().map(|target| target.held_by.clone()).collect();
        let mut next = now.clone();
        let knew_all = self.before.members == self.life.fleet.members;
        for (position, (me, _)) in self.life.fleet.members.iter().enumerate() {
            let view = self.view(me, position);
            let mut gives_left = self.gives_max;
            for (number, chosen) in view.assigned().into_iter().enumerate() {
                let Some(chosen) = chosen else { continue };
                let is_mine = now[number].as_ref() == Some(me);
                let lives = self.life.fleet.weight_of(&chosen).is_some();
                if is_mine && chosen != *me && lives && gives_left > 0 {
                    gives_left -= 1;
                    next[number] = Some(chosen);
                } else if chosen == *me && view.targets[number].held_by.is_none() && next[number].is_none() {
                    next[number] = Some(chosen);
                }
            }
        }
        self.before = self.life.fleet.clone();
        for (number, (from, to)) in now.iter().zip(&next).enumerate().filter(|(_, (from, to))| from != to) {
            if let Some(from) = from {
                self.left[number].insert(from.clone());
                self.moves_so_far += 1;
            }
            let name = &self.life.fleet.targets[number].name;
            let is_back = to.as_ref().is_some_and(|to| self.left[number].contains(to));
            prop_assert!(!is_back, "{name} came back to {to:?} in step {}", self.steps_so_far);
        }
        for (target, holder) in self.life.fleet.targets.iter_mut().zip(&next) {
            target.held_by.clone_from(holder);
        }
        self.steps_so_far += 1;
        if !knew_all {
            // What was decided by who did not know yet may be decided otherwise by who does.
            self.begin();
        }
        Ok(now != next)
    }

    /// Goes on until nothing moves any more, no longer than the moves that are planned now should take.
    fn rest(&mut self) -> Result<(), TestCaseError> {
        self.step()?;
        (self.steps_so_far, self.moves_so_far) = (0, 0);
        let planned = self.life.fleet.clone().settle().moved.len();
        // What is free is taken at once, by some who do not see yet what others took, and may have to be handed on.
        let steps_max = (planned + self.life.fleet.free()).div_ceil(self.gives_max) + 6;
        let mut still = 0;
        while still < 2 {
            prop_assert!(self.steps_so_far < steps_max, "{planned} moves take more than {steps_max} steps");
            still = if self.step()? { 0 } else { still + 1 };
        }
        // What is given in one step may go to who has enough by now, and be handed on.
        let moves_max = planned + self.gives_max * self.life.fleet.members.len();
        prop_assert!(self.moves_so_far <= moves_max, "{} moves, {planned} planned", self.moves_so_far);
        self.life.fleet.check()?;
        prop_assert!(self.life.fleet.settle().moved.is_empty(), "it has not come to rest");
        Ok(())
    }
}

#[test]
fn a_newcomer_is_given_its_share_one_by_one() {
    for gives_max in [1, 3, 100] {
        let mut group = Group::new(Life::settled(Naming::Drawn, 4, Shape::Sequential, 100), gives_max);
        group.change(|life| drop(life.join(1)));
        group.rest().unwrap();
        let (newcomer, _) = group.life.fleet.members[4].clone();
        let load = group.life.fleet.load_of(&newcomer);
        assert!((18..=20).contains(&load), "{load} of a share of 20, {gives_max} at a time");
    }
}

#[test]
fn pollers_that_start_together_from_nothing_take_everything_at_once() {
    let mut life = Life::settled(Naming::Drawn, 5, Shape::Uuid, 200);
    life.fleet.targets.iter_mut().for_each(|target| target.held_by = None);
    let mut group = Group::new(life, 1);
    group.rest().unwrap();
    assert_eq!(group.moves_so_far, 0);
}

#[test]
fn a_fleet_that_comes_one_after_the_other_comes_to_rest() {
    let mut group = Group::new(Life::settled(Naming::Drawn, 1, Shape::Padded, 120), 2);
    for _ in 1..10 {
        group.change(|life| drop(life.join(1)));
        // The next comes before the one before it has its share.
        for _ in 0..5 {
            group.step().unwrap();
        }
    }
    group.change(|_| {});
    group.rest().unwrap();
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn after_any_change_they_come_to_rest_and_nothing_comes_back(
        life in lives(),
        steps in steps(8),
        gives_max in 1..6_usize,
        patience in 0..4_usize,
    ) {
        let mut group = Group::new(life, gives_max);
        for step in &steps {
            group.change(|life| life.step(step));
            for _ in 0..patience {
                group.step()?;
            }
        }
        prop_assume!(group.life.fleet.total_weight() > 0);
        group.rest()?;
    }

    #[test]
    fn pins_do_not_keep_them_from_coming_to_rest(
        life in lives(),
        steps in steps_with_pins(4),
        gives_max in 1..6_usize,
    ) {
        let mut group = Group::new(life, gives_max);
        for step in &steps {
            group.change(|life| life.step(step));
            prop_assume!(group.life.fleet.total_weight() > 0);
            group.rest()?;
        }
    }
}
