//! How uneven `Hash::Fnv1a` is, which is why it is not the default, and what it does not look at.

use crate::fleet::Fleet;
use crate::names::{Naming, Shape, instance};
use tenure_assignment::{Hash, Member, Target, assign};

/// What the fullest poller holds beside an equal share, and how many pollers hold nothing.
fn skew(hash: Hash, pollers: &[String], targets: &[String]) -> (f64, usize) {
    let mut fleet = Fleet::default();
    pollers.iter().for_each(|name| fleet.join(name.clone(), 1));
    targets.iter().for_each(|name| fleet.add(name.clone()));
    let assigned = fleet.assigned_by(hash);
    for (target, to) in fleet.targets.iter_mut().zip(assigned) {
        target.held_by = to;
    }
    let loads = fleet.loads();
    let most = loads.values().max().copied().unwrap_or(0);
    let idle = loads.values().filter(|load| **load == 0).count();
    (most as f64 * pollers.len() as f64 / targets.len() as f64, idle)
}

#[test]
fn the_skew_of_fnv1a_for_sequential_ids_is_printed() {
    const FLEETS: u64 = 100;
    for (pollers, targets) in [(5, 100), (5, 1_000), (5, 10_000), (10, 100), (10, 1_000), (10, 10_000)] {
        let mut factors = Vec::new();
        let mut idle_fleets = 0;
        for fleet in 0..FLEETS {
            let names: Vec<String> = (0..pollers).map(|number| instance(fleet * pollers + number)).collect();
            let (factor, idle) = skew(Hash::Fnv1a, &names, &Shape::Sequential.targets(targets));
            factors.push(factor);
            idle_fleets += u64::from(idle > 0);
        }
        factors.sort_by(f64::total_cmp);
        let (median, most) = (factors[factors.len() / 2], factors[factors.len() - 1]);
        println!(
            "fnv1a, s0…s{} on {pollers}: fullest {median:.2} × ideal in the middle, {:.2} in the best and {most:.2} \
             in the worst of {FLEETS} fleets; somebody idle in {idle_fleets}",
            targets - 1,
            factors[0],
        );
    }
    let names: Vec<String> = (0..5).map(instance).collect();
    let (factor, idle) = skew(Hash::Xxh64, &names, &Shape::Sequential.targets(10_000));
    println!("xxh64, s0…s9999 on 5: fullest {factor:.2} × ideal");
    assert!(factor <= 1.1 && idle == 0);
}

#[test]
fn fnv1a_looks_neither_at_weights_nor_at_holders_nor_at_pins() {
    let plain = Fleet::new(Naming::Drawn, 5, Shape::Sequential, 100);
    let mut other = plain.clone();
    for (number, (_, weight)) in other.members.iter_mut().enumerate() {
        *weight = number as u32;
    }
    for target in &mut other.targets {
        target.held_by = Some(plain.members[1].0.clone());
        target.pinned_to = Some(plain.members[2].0.clone());
    }
    assert_eq!(other.assigned_by(Hash::Fnv1a), plain.assigned_by(Hash::Fnv1a));
}

/// Older programs do not know which members are new, and must compute the same.
#[test]
fn fnv1a_gives_new_members_what_it_gives_all() {
    let names: Vec<String> = Shape::Sequential.targets(200);
    let targets: Vec<Target<'_>> =
        names.iter().map(|name| Target { name, held_by: Some("a"), pinned_to: None }).collect();
    let assigned = |new: &[&str]| {
        let members = ["a", "b", "c"].map(|name| Member { name, weight: 1, is_new: new.contains(&name) });
        assign(Hash::Fnv1a, &members, &targets)
    };
    let plain = assigned(&[]);
    assert!(plain.iter().any(|member| *member != plain[0]), "one has all: nothing could move");
    for new in [&["a"][..], &["b"], &["b", "c"], &["a", "b", "c"]] {
        assert_eq!(assigned(new), plain, "{new:?}");
    }
}
