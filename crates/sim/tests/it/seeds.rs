//! Seeds without a planted bug.

use tenure_sim::{Options, Search, run};

#[test]
fn forty_seeds_find_nothing() {
    let search = Search { start: 0, seeds: 40, threads: 2, plant: None, options: Options::default() };
    let (found, tally) = search.run();
    assert!(found.is_none(), "{:?}", found.map(|found| (found.seed, found.violation)));
    // A simulator that exercises nothing finds nothing.
    assert!(tally.starts > 40 && tally.snapshots > 0 && tally.cuts > 0 && tally.refusals > 0, "{tally:?}");
}

#[test]
fn a_seed_tells_the_same_story_twice() {
    for seed in [3, 17] {
        let story = |trace| run(seed, Options { trace, ..Options::default() }).trace.hash();
        assert_eq!(story(false), story(true), "seed {seed}");
    }
}

#[test]
fn another_seed_tells_another_story() {
    let story = |seed| run(seed, Options::default()).trace.hash();
    assert_ne!(story(1), story(2));
}
