//! Many targets. How long each takes is told by the runner: nothing here reads a clock.

use crate::fleet::Fleet;
use crate::names::{Naming, Shape};

fn join(pollers: usize, targets: usize) {
    let mut fleet = Fleet::settled(Naming::Drawn, pollers, Shape::Uuid, targets);
    fleet.check().unwrap();
    fleet.join("newcomer".to_owned(), 1);
    let moves = fleet.settle();
    fleet.check().unwrap();
    assert!(moves.moved.len() <= targets.div_ceil(pollers + 1));
}

#[test]
fn ten_thousand_on_ten_from_nothing_and_a_join() {
    join(10, 10_000);
}

#[test]
fn a_hundred_thousand_on_fifty_from_nothing_and_a_join() {
    join(50, 100_000);
}
