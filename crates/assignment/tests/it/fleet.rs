//! Pollers, targets and who polls what; and the promises as this side reckons them, without asking the crate.

use crate::names::{Naming, Shape};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tenure_assignment::{Hash, Member, Target, assign};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Polled {
    pub(crate) name: String,
    pub(crate) held_by: Option<String>,
    pub(crate) pinned_to: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    /// Names and weights.
    pub(crate) members: Vec<(String, u32)>,
    pub(crate) targets: Vec<Polled>,
}

/// What a step brought.
#[derive(Default, Debug)]
pub(crate) struct Moves {
    /// From a living poller to another: target, from, to.
    pub(crate) moved: Vec<(String, String, String)>,
    /// Nobody's before: target, to.
    pub(crate) taken: Vec<(String, String)>,
}

/// What one poller may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Less than this moves others' targets here: nine tenths of the share, but no more than it rounded down.
    pub(crate) low: usize,
    pub(crate) floor: usize,
    pub(crate) ceil: usize,
    pub(crate) cap: usize,
}

/// As promised: `max(ceil(share), floor(1.1 share))`, share being `n w / W`.
pub(crate) fn bounds(weight: u32, total: u64, targets: usize) -> Bounds {
    let (weight, total, targets) = (u128::from(weight), u128::from(total), targets as u128);
    if total == 0 {
        return Bounds { low: 0, floor: 0, ceil: 0, cap: 0 };
    }
    let floor = targets * weight / total;
    let ceil = (targets * weight).div_ceil(total);
    let tenth_more = targets * weight * 11 / (total * 10);
    let tenth_less = (targets * weight * 9).div_ceil(total * 10);
    Bounds {
        low: floor.min(tenth_less) as usize,
        floor: floor as usize,
        ceil: ceil as usize,
        cap: ceil.max(tenth_more) as usize,
    }
}

impl Fleet {
    /// Pollers of one weight; nothing is held.
    pub(crate) fn new(naming: Naming, pollers: usize, shape: Shape, targets: usize) -> Self {
        let mut fleet = Self::default();
        naming.pollers(pollers).into_iter().for_each(|name| fleet.join(name, 1));
        shape.targets(targets).into_iter().for_each(|name| fleet.add(name));
        fleet
    }

    /// The same, and everybody polls what it should.
    pub(crate) fn settled(naming: Naming, pollers: usize, shape: Shape, targets: usize) -> Self {
        let mut fleet = Self::new(naming, pollers, shape, targets);
        fleet.settle();
        fleet
    }

    pub(crate) fn join(&mut self, name: String, weight: u32) {
        self.members.push((name, weight));
    }

    /// It is gone, and what it held is nobody's.
    pub(crate) fn leave(&mut self, position: usize) -> String {
        self.members.remove(position).0
    }

    pub(crate) fn add(&mut self, name: String) {
        self.targets.push(Polled { name, held_by: None, pinned_to: None });
    }

    pub(crate) fn total_weight(&self) -> u64 {
        self.members.iter().map(|(_, weight)| u64::from(*weight)).sum()
    }

    pub(crate) fn weight_of(&self, name: &str) -> Option<u32> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, weight)| *weight)
    }

    pub(crate) fn bounds_of(&self, name: &str) -> Bounds {
        bounds(self.weight_of(name).unwrap_or(0), self.total_weight(), self.targets.len())
    }

    /// What each member holds now.
    pub(crate) fn loads(&self) -> BTreeMap<&str, usize> {
        let mut loads: BTreeMap<&str, usize> =
            self.members.iter().map(|(name, _)| (name.as_str(), 0)).collect();
        for holder in self.targets.iter().filter_map(|target| target.held_by.as_deref()) {
            if let Some(load) = loads.get_mut(holder) {
                *load += 1;
            }
        }
        loads
    }

    pub(crate) fn load_of(&self, name: &str) -> usize {
        self.targets.iter().filter(|target| target.held_by.as_deref() == Some(name)).count()
    }

    /// Pins that count, by member.
    pub(crate) fn pins_of(&self, name: &str) -> usize {
        let is_pinned = |target: &&Polled| target.pinned_to.as_deref() == Some(name);
        if self.weight_of(name).unwrap_or(0) == 0 { 0 } else { self.targets.iter().filter(is_pinned).count() }
    }

    /// Who should poll each target, by name, in the order of the targets.
    pub(crate) fn assigned_by(&self, hash: Hash) -> Vec<Option<String>> {
        let members: Vec<Member<'_>> = self
            .members
            .iter()
            .map(|(name, weight)| Member { name, weight: *weight, is_new: false })
            .collect();
        let targets: Vec<Target<'_>> = self
            .targets
            .iter()
            .map(|target| Target {
                name: &target.name,
                held_by: target.held_by.as_deref(),
                pinned_to: target.pinned_to.as_deref(),
            })
            .collect();
        let assigned = assign(hash, &members, &targets);
        assert_eq!(assigned.len(), targets.len());
        assigned.into_iter().map(|place| place.map(|place| self.members[place].0.clone())).collect()
    }

    /// The same for the default.
    pub(crate) fn assigned(&self) -> Vec<Option<String>> {
        self.assigned_by(Hash::default())
    }

    /// Everything goes where it should.
    pub(crate) fn settle(&mut self) -> Moves {
        let mut moves = Moves::default();
        let assigned = self.assigned();
        let is_member = |name: &str| self.members.iter().any(|(member, _)| member == name);
        for (target, to) in self.targets.iter().zip(&assigned) {
            let from = target.held_by.as_deref().filter(|holder| is_member(holder));
            match (from, to) {
                (Some(from), Some(to)) if from != to => {
                    moves.moved.push((target.name.clone(), from.to_owned(), to.clone()));
                }
                (None, Some(to)) => moves.taken.push((target.name.clone(), to.clone())),
                (Some(from), None) => panic!("{from} should let {} go, and nobody takes it", target.name),
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
        for (target, to) in self.targets.iter_mut().zip(assigned) {
            target.held_by = to;
        }
        moves
    }

    /// Nobody holds more than was promised, and nothing is left over. Pins count, and may alone be more than that.
    pub(crate) fn check(&self) -> Result<(), TestCaseError> {
        if self.total_weight() == 0 {
            return Ok(());
        }
        for target in &self.targets {
            let Some(holder) = target.held_by.as_deref() else {
                return Err(TestCaseError::fail(format!("{} is nobody's", target.name)));
            };
            prop_assert!(self.weight_of(holder).is_some_and(|weight| weight > 0), "{holder} takes none");
        }
        for (name, load) in self.loads() {
            let most = self.bounds_of(name).cap.max(self.pins_of(name));
            prop_assert!(load <= most, "{name} holds {load}, at most {most}: {:?}", self.loads());
        }
        Ok(())
    }

    /// What every assignment must move: what is above a cap.
    pub(crate) fn above_caps(&self) -> usize {
        self.loads().into_iter().map(|(name, load)| load.saturating_sub(self.bounds_of(name).cap)).sum()
    }

    /// What must come to those who have far too little, before anything free is given to them.
    pub(crate) fn hunger(&self) -> usize {
        self.loads().into_iter().map(|(name, load)| self.bounds_of(name).low.saturating_sub(load)).sum()
    }

    /// What no member holds.
    pub(crate) fn free(&self) -> usize {
        self.targets.len() - self.loads().into_values().sum::<usize>()
    }

    /// Whether everybody holds its share, rounded either way.
    pub(crate) fn is_even(&self) -> bool {
        self.loads().into_iter().all(|(name, load)| {
            let bounds = self.bounds_of(name);
            (bounds.floor..=bounds.ceil).contains(&load)
        })
    }
}
