//! Seeds without a planted bug.

use tenure_sim::{Options, Profile, Random, Search, run};

#[test]
fn forty_seeds_find_nothing() {
    let search = Search { start: 0, seeds: 40, threads: 2, plant: None, options: Options::default() };
    let (found, tally) = search.run();
    assert!(found.is_none(), "{:?}", found.map(|found| (found.seed, found.violation)));
    // A simulator that exercises nothing finds nothing.
    assert!(tally.starts > 40 && tally.cuts > 0 && tally.refusals > 0, "{tally:?}");
    assert!(
        tally.bursts > 5 && tally.snapshots > 50 && tally.trimmed > 10,
        "short lives in a row, and a log that is kept short over them: {tally:?}"
    );
    assert!(tally.overloads > 1_000, "more is asked than there is room for: {tally:?}");
    assert!(
        tally.waits_for_pools > 100 && tally.waits_for_members > 100,
        "some wait for any of a pool, some for one of its members: {tally:?}"
    );
    assert!(tally.resumes_of_living > 10, "leases are asked of connections that are open: {tally:?}");
}

#[test]
fn slow_seeds_hold_for_hours_up_to_a_day_and_find_nothing() {
    let ttl_ms_max = |seed| Profile::draw(&mut Random::new(seed)).ttl_ms_max;
    let slow: Vec<u64> = (0..1_000).filter(|seed| ttl_ms_max(*seed) >= 60 * 60 * 1000).collect();
    let a_day = slow.iter().filter(|seed| ttl_ms_max(**seed) == 24 * 60 * 60 * 1000).count();
    assert!(slow.len() >= 5 && a_day >= 2, "of a thousand seeds, {slow:?} are slow");
    for seed in slow.into_iter().take(4) {
        let report = run(seed, Options::default());
        assert!(report.violation.is_none(), "seed {seed}: {:?}", report.violation);
        assert!(report.tally.long_grants > 0 || report.refused, "seed {seed}: {:?}", report.tally);
    }
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
