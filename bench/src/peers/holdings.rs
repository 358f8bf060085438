//! What a load that is driven by tasks has been granted, shared by all of them on their one thread. Knows no system.

use super::peer::BUNDLE;
use super::wire::Names;
use std::cell::{Cell, RefCell};

/// What it takes to renew something or to give it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold {
    /// The number of its name; of a bundle's, of the first.
    pub(crate) number: u64,
    /// What the system knows the grant by: a lease, a fence.
    pub(crate) token: i64,
}

/// Names that were not used yet, and grants that were not given back.
pub(crate) struct Holdings {
    names: Names,
    next: Cell<u64>,
    held: RefCell<Vec<Hold>>,
    bundles: RefCell<Vec<Hold>>,
    /// Which is renewed next.
    turn: Cell<usize>,
}

impl Holdings {
    pub(crate) fn new() -> Self {
        Self {
            names: Names::fresh(),
            next: Cell::new(0),
            held: RefCell::default(),
            bundles: RefCell::default(),
            turn: Cell::new(0),
        }
    }

    /// The number of a fresh name.
    pub(crate) fn fresh(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// The number of the first of a bundle's fresh names.
    pub(crate) fn fresh_bundle(&self) -> u64 {
        self.next.replace(self.next.get() + BUNDLE as u64)
    }

    pub(crate) fn name(&self, number: u64) -> String {
        self.names.text(number)
    }

    pub(crate) fn bundle(&self, first: u64) -> [String; BUNDLE] {
        std::array::from_fn(|place| self.names.text(first + place as u64))
    }

    pub(crate) fn add(&self, hold: Hold) {
        self.held.borrow_mut().push(hold);
    }

    pub(crate) fn add_bundle(&self, hold: Hold) {
        self.bundles.borrow_mut().push(hold);
    }

    pub(crate) fn take(&self) -> Option<Hold> {
        self.held.borrow_mut().pop()
    }

    pub(crate) fn take_bundle(&self) -> Option<Hold> {
        self.bundles.borrow_mut().pop()
    }

    /// One after the other, again and again.
    pub(crate) fn next(&self) -> Option<Hold> {
        let held = self.held.borrow();
        let place = self.turn.get().checked_rem(held.len())?;
        self.turn.set(place + 1);
        held.get(place).copied()
    }
}

impl Names {
    /// A name for libraries that want text.
    pub(crate) fn text(self, place: u64) -> String {
        let mut name = Vec::with_capacity(16);
        self.put(place, &mut name);
        name.into_iter().map(char::from).collect()
    }

    /// What all of these names begin with, and nobody else's.
    pub(crate) fn prefix(self) -> String {
        let mut name = self.text(0);
        name.truncate(4);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_sixteen_bytes_and_a_prefix_of_their_own() {
        let (ours, theirs) = (Names::fresh(), Names::fresh());
        for place in [0, 1, 1_000_000] {
            assert_eq!(ours.text(place).len(), 16);
            assert!(ours.text(place).starts_with(&ours.prefix()));
            assert!(!ours.text(place).starts_with(&theirs.prefix()));
        }
    }

    #[test]
    fn renewing_goes_round_what_is_held() {
        let holdings = Holdings::new();
        assert_eq!(holdings.next(), None);
        let holds = [7, 8].map(|token| Hold { number: holdings.fresh(), token });
        holds.into_iter().for_each(|hold| holdings.add(hold));
        let turns: Vec<_> = (0..4).filter_map(|_| holdings.next()).collect();
        assert_eq!(turns, [holds, holds].concat());
        assert_eq!(
            (holdings.take(), holdings.take(), holdings.take()),
            (Some(holds[1]), Some(holds[0]), None)
        );
    }

    #[test]
    fn names_of_bundles_are_nobody_elses() {
        let holdings = Holdings::new();
        let mut names = vec![holdings.name(holdings.fresh())];
        names.extend(holdings.bundle(holdings.fresh_bundle()));
        names.extend(holdings.bundle(holdings.fresh_bundle()));
        names.push(holdings.name(holdings.fresh()));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
