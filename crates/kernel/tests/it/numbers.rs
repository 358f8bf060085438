//! Large numbers and foreign ids: fences near 2^53, long uptimes, other shards, other logs.

use crate::script::{Runner, check};
use expect_test::expect;
use tenure_kernel::*;

#[test]
fn fences_count_on_from_a_base_near_the_end_of_exact_numbers() {
    check(
        "setup base=9007199254740980
         0 grant a holder=x
         1 rebind L1 to=y
         2 release L1
         2 grant a holder=z
         2 show L2",
        expect![[r#"
            0  1 grant a holder=x → granted lease 1 epoch 1 fence 9007199254740981
            1  2 rebind L1 to=y   → rebound epoch 2 fence 9007199254740982 holder y
            2  3 release L1       → released epoch 3
            2  4 grant a holder=z → granted lease 4 epoch 1 fence 9007199254740984
            2  – show L2          → active epoch 1 fence 9007199254740984 holder=z [a] since 2 principal=local face=leases granted 2 changed 4
        "#]],
    );
}

#[test]
fn ticks_of_forty_nine_days_and_more_are_only_numbers() {
    check(
        "setup shard=1
         4294967290 reserve a holder=x ttl=10
         4294967295 due
         4294967296 activate L1
         4294967300 reserve b holder=x ttl=86400000
         4381367299 expire L2
         4381367300 activate L2
         4381367300 expire L2
         9000000000000000 revoke L1
         9000000000000000 reclaim L1
         9000000086400000 read L1
         9000000086400001 read L1",
        expect![[r#"
                  4294967290  1 reserve a holder=x ttl=10       → granted lease 1/1 epoch 1 fence 1 deadline 4294967300
                  4294967295  – due                             → [] next 4294967300
                  4294967296  2 activate L1                     → active
                  4294967300  3 reserve b holder=x ttl=86400000 → granted lease 1/3 epoch 1 fence 3 deadline 4381367300
                  4381367299  – expire L2                       → nothing
                  4381367300  – activate L2                     → deadline_passed 4381367300
                  4381367300  4 expire L2                       → expired epoch 2
            9000000000000000  5 revoke L1                       → revoking epoch 2
            9000000000000000  6 reclaim L1                      → revoked
            9000000086400000  – read L1                         → revoked
            9000000086400001  – read L1                         → lease_retired
        "#]],
    );
}

#[test]
fn a_deadline_beyond_the_end_of_time_is_the_end_of_time() {
    let mut runner = Runner::new(Setup::plain());
    let step = runner.step(u64::MAX - 1, "reserve a holder=x ttl=100");
    assert_eq!(step.outcome, format!("granted lease 1 epoch 1 fence 1 deadline {}", u64::MAX));
    assert_eq!(runner.step(u64::MAX, "expire L1").outcome, "expired epoch 2");
}

#[test]
fn ids_of_another_shard_are_not_found() {
    check(
        "setup shard=2
         0 grant a holder=x
         0 configure window=1
         0 grant b holder=x
         0 release L2
         5 pool p 1
         5 show L1
         5 read 2/1
         5 read 0/1
         5 read 3/1
         5 read 2/3
         5 read 0/3
         5 activate 3/1
         5 release 3/1
         5 rebind 0/1
         5 amend 0/1
         5 revoke 3/1
         5 reclaim 3/1
         5 drain 3/1
         5 expire 3/1
         5 notified 3/1
         5 grant a holder=y take_over=3/1
         5 release L1",
        expect![[r#"
              0  1 grant a holder=x               → granted lease 2/1 epoch 1 fence 1
              0  2 configure window=1             → configured
              0  3 grant b holder=x               → granted lease 2/3 epoch 1 fence 3
              0  4 release L2                     → released epoch 2
              5  5 pool p 1                       → size 1
              5  – show L1                        → active epoch 1 fence 1 holder=x [a] since 0 principal=local face=leases granted 0 changed 1
              5  – read 2/1                       → active
              5  – read 0/1                       → lease_not_found
              5  – read 3/1                       → lease_not_found
              5  – read 2/3                       → lease_retired
              5  – read 0/3                       → lease_not_found
              5  – activate 3/1                   → lease_not_found
              5  – release 3/1                    → lease_not_found
              5  – rebind 0/1                     → lease_not_found
              5  – amend 0/1                      → lease_not_found
              5  – revoke 3/1                     → lease_not_found
              5  – reclaim 3/1                    → lease_not_found
              5  – drain 3/1                      → lease_not_found
              5  – expire 3/1                     → nothing
              5  – notified 3/1                   → nothing
              5  – grant a holder=y take_over=3/1 → resource_held a by lease 2/1
              5  6 release L1                     → released epoch 2
        "#]],
    );
}

#[test]
fn leases_are_listed_from_an_id_on() {
    check(
        " 0 grant r{i} holder=x times=6
          0 release L3
          0 leases
          0 leases from=3
          0 leases from=6
          0 leases from=7",
        expect![[r#"
              0  6 grant r{i} holder=x times=6 → granted lease 6 epoch 1 fence 6
              0  7 release L3                  → released epoch 2
              0  – leases                      → [1,2,4,5,6]
              0  – leases from=3               → [4,5,6]
              0  – leases from=6               → [6]
              0  – leases from=7               → []
        "#]],
    );
}

#[test]
#[should_panic(expected = "invariant: positions rise")]
fn a_position_is_never_used_twice() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("0 pool p 1");
    let event = runner.log[0].1.clone();
    runner.kernel.evolve(Stamp { lsn: Lsn(1), tick: Tick(1) }, &event);
}

#[test]
#[should_panic(expected = "invariant: ticks never go back")]
fn a_tick_that_goes_back_stops_the_kernel() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("5 pool p 1");
    let event = runner.log[0].1.clone();
    runner.kernel.evolve(Stamp { lsn: Lsn(2), tick: Tick(4) }, &event);
}

#[test]
fn positions_may_leave_gaps() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("0 grant a holder=x");
    runner.next_lsn = Lsn(5000);
    assert_eq!(runner.step(1, "grant b holder=x").outcome, "granted lease 5000 epoch 1 fence 5000");
    assert_eq!(runner.kernel.applied(), Stamp { lsn: Lsn(5000), tick: Tick(1) });
    assert_eq!(runner.step(1, "read 4000").outcome, "lease_not_found");
}
