//! Several nodes over a remote log, without a planted bug.

use tenure_sim::{Options, Search, cluster};

const OPTIONS: Options = Options { steps: 4_000, trace: false, cluster: true, restores: false };

#[test]
fn two_hundred_seeds_of_three_nodes_find_nothing() {
    let search = Search { start: 0, seeds: 200, threads: 2, plant: None, options: OPTIONS };
    let (found, tally) = search.run();
    assert!(found.is_none(), "{:?}", found.map(|found| (found.seed, found.violation)));
    // A simulator that exercises nothing finds nothing.
    assert!(tally.changes > 400 && tally.claims_lost > 100 && tally.claims_unknown > 100, "{tally:?}");
    assert!(tally.resigned_for > 100, "guardians resign for dead leaders: {tally:?}");
    assert!(
        tally.lapses > 200 && tally.unknown > 200 && tally.trimmed > 100 && tally.snapshots > 20,
        "{tally:?}"
    );
    assert!(
        tally.connections > 500 && tally.words > 4_000 && tally.connections_gone > 400,
        "connections are opened, kept and closed: {tally:?}"
    );
    assert!(
        tally.resumed > 50 && tally.silent > 40 && tally.hung_up > 80,
        "connections end with their nodes: {tally:?}"
    );
}

#[test]
fn ten_changes_of_the_writer_cost_no_living_holder_its_lease() {
    let mut resumed = 0;
    for seed in 0..12 {
        let report = cluster::run_changes(seed, OPTIONS);
        assert!(
            report.violation.is_none(),
            "seed {seed}: {:?}\n{:#?}",
            report.violation,
            report.trace.lines()
        );
        assert!(report.tally.changes > 10, "seed {seed}: {:?}", report.tally);
        resumed += report.tally.resumed;
    }
    assert!(resumed > 24, "leases go on by other connections: {resumed}");
}

#[test]
fn a_seed_of_a_cluster_tells_the_same_story_twice() {
    for seed in [5, 23] {
        let story = |trace| cluster::run(seed, Options { trace, ..OPTIONS }).trace.hash();
        assert_eq!(story(false), story(true), "seed {seed}");
    }
}

/// Stores that are put back to backups, whatever the nodes are at then.
#[test]
fn a_store_that_was_put_back_is_never_gone_on_with() {
    let options = Options { restores: true, cluster: true, ..Options::default() };
    let search = Search { start: 0, seeds: 5_000, threads: 2, plant: None, options };
    let (found, tally) = search.run();
    assert!(found.is_none(), "{found:?}");
    assert!(tally.changes > 4_000 && tally.events > 20_000 && tally.resigned_for > 500, "{tally:?}");
}
