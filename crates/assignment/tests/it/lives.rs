//! Any sequence of joins, leaves, other weights, targets that come and go.

use crate::fleet::Fleet;
use crate::names::{Naming, Shape, namings, scrambled, shapes};
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Join {
        weight: u32,
    },
    Leave(Index),
    Weigh {
        member: Index,
        weight: u32,
    },
    Add {
        count: usize,
    },
    Remove {
        first: Index,
        count: usize,
    },
    Pin {
        target: Index,
        member: Index,
    },
    Unpin(Index),
    /// What was so far no longer counts: everything is held by anybody, a stranger, or nobody.
    Scatter(u64),
}

/// A fleet that goes on finding names for those who come.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) fleet: Fleet,
    pub(crate) naming: Naming,
    pub(crate) shape: Shape,
    pollers_so_far: usize,
    targets_so_far: usize,
}

impl Life {
    /// Everybody polls what it should.
    pub(crate) fn settled(naming: Naming, pollers: usize, shape: Shape, targets: usize) -> Self {
        let fleet = Fleet::settled(naming, pollers, shape, targets);
        Self { fleet, naming, shape, pollers_so_far: pollers, targets_so_far: targets }
    }

    pub(crate) fn join(&mut self, weight: u32) -> String {
        let name = self.naming.poller(self.pollers_so_far);
        self.pollers_so_far += 1;
        self.fleet.join(name.clone(), weight);
        name
    }

    pub(crate) fn add(&mut self) -> String {
        let name = self.shape.target(self.targets_so_far);
        self.targets_so_far += 1;
        self.fleet.add(name.clone());
        name
    }

    /// Changes the world; nobody has acted on it yet.
    pub(crate) fn step(&mut self, step: &Step) {
        let (members, targets) = (self.fleet.members.len(), self.fleet.targets.len());
        match step {
            Step::Join { weight } => {
                self.join(*weight);
            }
            Step::Leave(member) if members > 1 => {
                self.fleet.leave(member.index(members));
            }
            Step::Weigh { member, weight } => self.fleet.members[member.index(members)].1 = *weight,
            Step::Add { count } => (0..*count).for_each(|_| {
                self.add();
            }),
            Step::Remove { first, count } if targets > 0 => {
                let first = first.index(targets);
                self.fleet.targets.drain(first..targets.min(first + count));
            }
            Step::Pin { target, member } if targets > 0 => {
                let name = self.fleet.members[member.index(members)].0.clone();
                self.fleet.targets[target.index(targets)].pinned_to = Some(name);
            }
            Step::Unpin(target) if targets > 0 => {
                self.fleet.targets[target.index(targets)].pinned_to = None;
            }
            Step::Scatter(seed) => scatter(&mut self.fleet, *seed),
            Step::Leave(_) | Step::Remove { .. } | Step::Pin { .. } | Step::Unpin(_) => {}
        }
    }
}

/// Gives each target to a member, to one who is none, or to nobody; most of them to the first few.
pub(crate) fn scatter(fleet: &mut Fleet, seed: u64) {
    let members = fleet.members.len() as u64;
    let mut seed = seed;
    for target in &mut fleet.targets {
        seed = scrambled(seed);
        let most = 1 + (seed >> 32) % (members + 2);
        let drawn = seed % most;
        target.held_by = match fleet.members.get(drawn as usize) {
            Some((name, _)) => Some(name.clone()),
            None if drawn == members => Some("long gone".to_owned()),
            None => None,
        };
    }
}

pub(crate) fn weights() -> impl Strategy<Value = u32> {
    prop_oneof![6 => Just(1_u32), 1 => Just(0), 3 => 1..6_u32, 1 => any::<u32>()]
}

/// Without pins.
pub(crate) fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => weights().prop_map(|weight| Step::Join { weight }),
        4 => any::<Index>().prop_map(Step::Leave),
        2 => (any::<Index>(), weights()).prop_map(|(member, weight)| Step::Weigh { member, weight }),
        3 => (1..40_usize).prop_map(|count| Step::Add { count }),
        3 => (any::<Index>(), 1..40_usize).prop_map(|(first, count)| Step::Remove { first, count }),
        1 => any::<u64>().prop_map(Step::Scatter),
    ];
    prop::collection::vec(step, 1..count)
}

pub(crate) fn steps_with_pins(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let pin = prop_oneof![
        3 => (any::<Index>(), any::<Index>()).prop_map(|(target, member)| Step::Pin { target, member }),
        1 => any::<Index>().prop_map(Step::Unpin),
    ];
    (steps(count), prop::collection::vec(pin, 1..count)).prop_map(|(steps, pins)| {
        let mut pins = pins.into_iter();
        steps.into_iter().flat_map(|step| [Some(step), pins.next()]).flatten().collect()
    })
}

/// A fleet of any size, of one weight, that has settled.
pub(crate) fn lives() -> impl Strategy<Value = Life> {
    let pollers = prop_oneof![4 => 1..8_usize, 1 => 8..51_usize];
    let targets = prop_oneof![3 => 0..60_usize, 2 => 60..300_usize];
    (namings(), pollers, shapes(), targets)
        .prop_map(|(naming, pollers, shape, targets)| Life::settled(naming, pollers, shape, targets))
}
