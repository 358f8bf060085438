//! How long an ended lease can be read, and notices, which outlast that.

use crate::script::{Runner, check};
use expect_test::expect;
use tenure_kernel::*;

#[test]
fn an_ended_lease_is_read_up_to_its_last_tick_even_if_nothing_happens_after() {
    check(
        " 0 configure window=10
          5 grant a holder=x
          5 release L1
         15 read L1
         15 show L1
         16 read L1
         16 kept
         16 release L1 epoch=2
         16 grant a holder=x
         16 kept
         16 read L1",
        expect![[r#"
             0  1 configure window=10 → configured
             5  2 grant a holder=x    → granted lease 2 epoch 1 fence 2
             5  3 release L1          → released epoch 2
            15  – read L1             → released
            15  – show L1             → released epoch 2 fence 2 reason=explicit face=leases ended at 3 until 15
            16  – read L1             → lease_retired
            16  – kept                → live 0 ended 1 watermark 0 operations 0 holders 0
            16  – release L1 epoch=2  → lease_retired
            16  4 grant a holder=x    → granted lease 4 epoch 1 fence 4
            16  – kept                → live 1 ended 0 watermark 2 operations 0 holders 1
            16  – read L1             → lease_retired
        "#]],
    );
}

#[test]
fn the_window_in_force_at_the_end_counts() {
    check(
        " 0 configure window=10
          0 grant a holder=x
          0 release L1
          1 configure window=100
          1 grant a holder=x
          1 release L2
         10 read L1
         11 read L1
        101 read L2
        102 read L2",
        expect![[r#"
              0  1 configure window=10  → configured
              0  2 grant a holder=x     → granted lease 2 epoch 1 fence 2
              0  3 release L1           → released epoch 2
              1  4 configure window=100 → configured
              1  5 grant a holder=x     → granted lease 5 epoch 1 fence 5
              1  6 release L2           → released epoch 2
             10  – read L1              → released
             11  – read L1              → lease_retired
            101  – read L2              → released
            102  – read L2              → lease_retired
        "#]],
    );
}

#[test]
fn no_more_than_the_cap_are_kept_and_the_oldest_goes_first() {
    check(
        " 0 configure leases=3
          0 grant r{i} holder=x times=5
          1 release L2
          1 release L5
          1 release L1
          1 kept
          1 release L3
          1 kept
          1 read L2
          1 read L5
          2 release L4
          2 read L5
          2 kept
          2 configure leases=0
          2 kept
          2 read L4",
        expect![[r#"
              0  1 configure leases=3          → configured
              0  6 grant r{i} holder=x times=5 → granted lease 6 epoch 1 fence 6
              1  7 release L2                  → released epoch 2
              1  8 release L5                  → released epoch 2
              1  9 release L1                  → released epoch 2
              1  – kept                        → live 2 ended 3 watermark 0 operations 0 holders 1
              1 10 release L3                  → released epoch 2
              1  – kept                        → live 1 ended 3 watermark 3 operations 0 holders 1
              1  – read L2                     → lease_retired
              1  – read L5                     → released
              2 11 release L4                  → released epoch 2
              2  – read L5                     → lease_retired
              2  – kept                        → live 0 ended 3 watermark 6 operations 0 holders 0
              2 12 configure leases=0          → configured
              2  – kept                        → live 0 ended 0 watermark 6 operations 0 holders 0
              2  – read L4                     → lease_retired
        "#]],
    );
}

#[test]
fn each_face_has_its_own_quota() {
    check(
        " 0 configure per_face=1
          0 grant a holder=x face=streams
          0 grant b holder=x face=leases
          0 grant c holder=x face=streams
          1 release L1
          1 release L2
          1 kept
          1 release L3
          1 kept
          1 read L1
          1 read L2
          1 read L3",
        expect![[r#"
              0  1 configure per_face=1          → configured
              0  2 grant a holder=x face=streams → granted lease 2 epoch 1 fence 2
              0  3 grant b holder=x face=leases  → granted lease 3 epoch 1 fence 3
              0  4 grant c holder=x face=streams → granted lease 4 epoch 1 fence 4
              1  5 release L1                    → released epoch 2
              1  6 release L2                    → released epoch 2
              1  – kept                          → live 1 ended 2 watermark 0 operations 0 holders 1
              1  7 release L3                    → released epoch 2
              1  – kept                          → live 0 ended 2 watermark 2 operations 0 holders 0
              1  – read L1                       → lease_retired
              1  – read L2                       → released
              1  – read L3                       → released
        "#]],
    );
}

#[test]
fn the_cap_takes_the_oldest_of_all_faces() {
    check(
        " 0 configure leases=2
          0 grant a holder=x face=polling
          0 grant b holder=x face=leases
          0 grant c holder=x face=streams
          0 grant d holder=x face=leases
          1 release L1
          1 release L2
          1 release L3
          1 read L1
          1 read L2
          1 release L4
          1 read L2
          1 read L3
          1 read L4",
        expect![[r#"
              0  1 configure leases=2            → configured
              0  2 grant a holder=x face=polling → granted lease 2 epoch 1 fence 2
              0  3 grant b holder=x face=leases  → granted lease 3 epoch 1 fence 3
              0  4 grant c holder=x face=streams → granted lease 4 epoch 1 fence 4
              0  5 grant d holder=x face=leases  → granted lease 5 epoch 1 fence 5
              1  6 release L1                    → released epoch 2
              1  7 release L2                    → released epoch 2
              1  8 release L3                    → released epoch 2
              1  – read L1                       → lease_retired
              1  – read L2                       → released
              1  9 release L4                    → released epoch 2
              1  – read L2                       → lease_retired
              1  – read L3                       → released
              1  – read L4                       → released
        "#]],
    );
}

#[test]
fn at_most_sixteen_are_retired_with_one_event_but_none_is_read_too_long() {
    check(
        " 0 configure window=10
          0 grant r{i} holder=x times=40
          1 release L{i} times=40
          1 kept
         12 read L40
         12 kept
         12 grant a holder=x
         12 kept
         12 read L17
         12 grant b holder=x
         12 kept
         12 grant c holder=x
         12 kept",
        expect![[r#"
              0  1 configure window=10          → configured
              0 41 grant r{i} holder=x times=40 → granted lease 41 epoch 1 fence 41
              1 81 release L{i} times=40        → released epoch 2
              1  – kept                         → live 0 ended 40 watermark 0 operations 0 holders 0
             12  – read L40                     → lease_retired
             12  – kept                         → live 0 ended 40 watermark 0 operations 0 holders 0
             12 82 grant a holder=x             → granted lease 82 epoch 1 fence 82
             12  – kept                         → live 1 ended 24 watermark 17 operations 0 holders 1
             12  – read L17                     → lease_retired
             12 83 grant b holder=x             → granted lease 83 epoch 1 fence 83
             12  – kept                         → live 2 ended 8 watermark 33 operations 0 holders 1
             12 84 grant c holder=x             → granted lease 84 epoch 1 fence 84
             12  – kept                         → live 3 ended 0 watermark 41 operations 0 holders 1
        "#]],
    );
}

#[test]
fn trimming_history_retires_what_ended_in_it() {
    check(
        " 0 grant a holder=x
          0 grant b holder=x
          0 grant c holder=x
          1 release L1
          1 release L2
          2 trim 5
          2 read L1
          2 read L2
          2 read L3
          2 kept
          3 trim 5
          3 trim 4
          3 trim 6
          3 read L2
          3 kept
          4 release L3
          4 read L3",
        expect![[r#"
              0  1 grant a holder=x → granted lease 1 epoch 1 fence 1
              0  2 grant b holder=x → granted lease 2 epoch 1 fence 2
              0  3 grant c holder=x → granted lease 3 epoch 1 fence 3
              1  4 release L1       → released epoch 2
              1  5 release L2       → released epoch 2
              2  6 trim 5           → trimmed
              2  – read L1          → lease_retired
              2  – read L2          → released
              2  – read L3          → active
              2  – kept             → live 1 ended 1 watermark 1 operations 0 holders 1
              3  – trim 5           → nothing
              3  – trim 4           → nothing
              3  7 trim 6           → trimmed
              3  – read L2          → lease_retired
              3  – kept             → live 1 ended 0 watermark 2 operations 0 holders 1
              4  8 release L3       → released epoch 2
              4  – read L3          → released
        "#]],
    );
}

#[test]
fn at_or_below_the_watermark_is_retired_above_it_not_found() {
    check(
        " 0 configure window=5
          0 pool p 1
          0 grant a holder=x
          0 grant b holder=x
          0 pool q 1
          0 release L2
          0 read 2
          0 read 5
          6 pool p 2
          6 kept
          6 read L1
          6 read L2
          6 read 2
          6 read 4
          6 read 5
          6 read 0
          6 activate 2
          6 activate 5
          6 activate L1",
        expect![[r#"
              0  1 configure window=5 → configured
              0  2 pool p 1           → size 1
              0  3 grant a holder=x   → granted lease 3 epoch 1 fence 3
              0  4 grant b holder=x   → granted lease 4 epoch 1 fence 4
              0  5 pool q 1           → size 1
              0  6 release L2         → released epoch 2
              0  – read 2             → lease_not_found
              0  – read 5             → lease_not_found
              6  7 pool p 2           → size 2
              6  – kept               → live 1 ended 0 watermark 4 operations 0 holders 1
              6  – read L1            → active
              6  – read L2            → lease_retired
              6  – read 2             → lease_retired
              6  – read 4             → lease_retired
              6  – read 5             → lease_not_found
              6  – read 0             → lease_not_found
              6  – activate 2         → lease_retired
              6  – activate 5         → lease_not_found
              6  – activate L1        → invalid_state active
        "#]],
    );
}

#[test]
fn a_notice_waits_until_it_is_settled_however_long_ago_the_end() {
    check(
        " 0 configure window=1
          0 grant a holder=x notice=yes
          0 grant b holder=x
          0 reserve c holder=x ttl=1 notice=yes
          0 grant d holder=x notice=yes
          0 notified L1
          1 release L1
          1 release L2
          1 expire L3
          1 revoke L4
          1 notices
          2 reclaim L4
          2 notices
          9 pool p 1
          9 read L1
          9 notified L1
          9 notified L1
          9 notified L2
          9 notices",
        expect![[r#"
              0  1 configure window=1                  → configured
              0  2 grant a holder=x notice=yes         → granted lease 2 epoch 1 fence 2
              0  3 grant b holder=x                    → granted lease 3 epoch 1 fence 3
              0  4 reserve c holder=x ttl=1 notice=yes → granted lease 4 epoch 1 fence 4 deadline 1
              0  5 grant d holder=x notice=yes         → granted lease 5 epoch 1 fence 5
              0  – notified L1                         → nothing
              1  6 release L1                          → released epoch 2
              1  7 release L2                          → released epoch 2
              1  8 expire L3                           → expired epoch 2
              1  9 revoke L4                           → revoking epoch 2
              1  – notices                             → [lease 2 ended at 6 tick 1,lease 4 ended at 8 tick 1]
              2 10 reclaim L4                          → revoked
              2  – notices                             → [lease 2 ended at 6 tick 1,lease 4 ended at 8 tick 1,lease 5 ended at 10 tick 2]
              9 11 pool p 1                            → size 1
              9  – read L1                             → lease_retired
              9 12 notified L1                         → notified
              9  – notified L1                         → nothing
              9  – notified L2                         → nothing
              9  – notices                             → [lease 4 ended at 8 tick 1,lease 5 ended at 10 tick 2]
        "#]],
    );
}

#[test]
fn a_configuration_that_changes_nothing_is_no_event() {
    check(
        " 0 configure window=5
          0 configure window=5
          0 configure operations=7
          0 trim 0",
        expect![[r#"
              0  1 configure window=5     → configured
              0  – configure window=5     → nothing
              0  2 configure operations=7 → configured
              0  – trim 0                 → nothing
        "#]],
    );
}

#[test]
fn windows_and_caps_in_force_can_be_read() {
    let mut runner = Runner::new(Setup { shard: 6, ..Setup::plain() });
    assert_eq!(*runner.kernel.retention(), Retention::default());
    runner.prepare("0 configure window=5 leases=6 per_face=7 operations=8");
    let expected =
        Retention { window_ms: 5, leases_max: 6, leases_per_face_max: 7, operations_per_principal_max: 8 };
    assert_eq!(*runner.kernel.retention(), expected);
    assert_eq!(runner.kernel.shard(), 6);
}

#[test]
fn operations_are_remembered_since_the_floor() {
    let mut runner = Runner::new(Setup::plain());
    let keep_ms = 600_000;
    runner.step(0, "configure operations=2");
    runner.step(1_000_000, "grant a holder=x op=1");
    let floor = |runner: &Runner, now: u64| runner.kernel.operation_floor(Tick(now), keep_ms).0;
    assert_eq!(floor(&runner, 1_000_000), 400_000, "what is kept that long");
    runner.step(1_000_010, "grant b holder=x op=2");
    runner.step(1_000_020, "grant c holder=x op=3");
    assert_eq!(floor(&runner, 1_000_030), 1_000_010, "the first made room for the third");
    assert_eq!(runner.step(1_000_030, "grant b holder=x op=2").lsn, None, "remembered");
    assert!(runner.step(1_000_030, "grant d holder=y op=1 principal=uid:7").lsn.is_some(), "somebody else's");
    assert_eq!(floor(&runner, 1_000_040), 1_000_010);
}
