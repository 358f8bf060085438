//! A simulator that cannot find a planted bug proves nothing: each must be found, from seed 0 on.

use tenure_sim::{Options, Plant, Search};

const SEEDS_MAX: u64 = 2_000;
/// A thousand of these take a second.
const RESTORES_MAX: u64 = 20_000;

#[test]
fn each_planted_bug_is_found() {
    // A planted bug may show as a broken assertion; those panics are caught and say nothing new.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for plant in Plant::all() {
        let search = Search {
            start: 0,
            seeds: if plant.needs_restores() { RESTORES_MAX } else { SEEDS_MAX },
            threads: 2,
            plant: Some(plant),
            options: Options {
                cluster: plant.needs_cluster(),
                restores: plant.needs_restores(),
                ..Options::default()
            },
        };
        if search.run().0.is_none() {
            missed.push(plant.name());
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
