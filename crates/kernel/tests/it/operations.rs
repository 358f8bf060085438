//! Operations: the same id has the same outcome, for as long as it is remembered.

use crate::script::{Runner, check};
use expect_test::expect;
use tenure_kernel::*;

#[test]
fn the_same_operation_has_the_first_outcome() {
    check(
        " 0 grant a holder=x op=one
          1 grant a holder=x op=one
          1 grant a holder=y op=one
          1 grant a holder=x op=one principal=other
          2 release L1 epoch=1 op=two
          3 release L1 epoch=1 op=two
          3 grant a holder=x op=one
          3 pool p 3 op=three
          3 pool p 3 op=three
          3 pool p 4 op=three
          3 unpool p op=two",
        expect![[r#"
              0  1 grant a holder=x op=one                 → granted lease 1 epoch 1 fence 1
              1  – grant a holder=x op=one                 → replayed granted lease 1 at 1
              1  – grant a holder=y op=one                 → operation_conflict
              1  – grant a holder=x op=one principal=other → resource_held a by lease 1
              2  2 release L1 epoch=1 op=two               → released epoch 2
              3  – release L1 epoch=1 op=two               → replayed released lease 1 at 2
              3  – grant a holder=x op=one                 → replayed granted lease 1 at 1
              3  3 pool p 3 op=three                       → size 3
              3  – pool p 3 op=three                       → replayed pool_defined at 3
              3  – pool p 4 op=three                       → operation_conflict
              3  – unpool p op=two                         → operation_conflict
        "#]],
    );
}

#[test]
fn a_rejection_is_not_remembered_by_the_log() {
    check(
        " 0 grant a holder=x
          1 grant a holder=y op=one
          2 release L1
          3 grant a holder=y op=one
          4 grant a holder=y op=one",
        expect![[r#"
              0  1 grant a holder=x        → granted lease 1 epoch 1 fence 1
              1  – grant a holder=y op=one → resource_held a by lease 1
              2  2 release L1              → released epoch 2
              3  3 grant a holder=y op=one → granted lease 3 epoch 1 fence 3
              4  – grant a holder=y op=one → replayed granted lease 3 at 3
        "#]],
    );
}

#[test]
fn an_operation_is_remembered_up_to_its_last_tick() {
    check(
        "     0 grant a holder=x op=one
         600000 grant a holder=x op=one
         600000 kept
         600001 grant a holder=x op=one
         600001 kept
         600001 grant b holder=x op=one
         600001 kept
         600002 grant b holder=x op=one",
        expect![[r#"
                 0  1 grant a holder=x op=one → granted lease 1 epoch 1 fence 1
            600000  – grant a holder=x op=one → replayed granted lease 1 at 1
            600000  – kept                    → live 1 ended 0 watermark 0 operations 1 holders 1
            600001  – grant a holder=x op=one → resource_held a by lease 1
            600001  – kept                    → live 1 ended 0 watermark 0 operations 1 holders 1
            600001  2 grant b holder=x op=one → granted lease 2 epoch 1 fence 2
            600001  – kept                    → live 2 ended 0 watermark 0 operations 1 holders 1
            600002  – grant b holder=x op=one → replayed granted lease 2 at 2
        "#]],
    );
}

#[test]
fn nobody_is_remembered_for_longer_than_a_day() {
    check(
        "       0 grant a holder=x op=long keep=99999999999
                0 grant b holder=x op=none keep=0
                0 grant b holder=x op=none keep=0
                1 grant b holder=x op=none keep=0
         86400000 grant a holder=x op=long
         86400001 grant a holder=x op=long",
        expect![[r#"
                   0  1 grant a holder=x op=long keep=99999999999 → granted lease 1 epoch 1 fence 1
                   0  2 grant b holder=x op=none keep=0           → granted lease 2 epoch 1 fence 2
                   0  – grant b holder=x op=none keep=0           → replayed granted lease 2 at 2
                   1  – grant b holder=x op=none keep=0           → resource_held b by lease 2
            86400000  – grant a holder=x op=long                  → replayed granted lease 1 at 1
            86400001  – grant a holder=x op=long                  → resource_held a by lease 1
        "#]],
    );
}

#[test]
fn a_principal_keeps_no_more_than_its_quota() {
    check(
        " 0 configure operations=2
          0 grant a holder=x op=1
          1 grant b holder=x op=2
          2 grant z holder=x op=1 principal=other
          3 grant c holder=x op=3
          3 kept
          3 grant a holder=x op=1
          3 grant b holder=x op=2
          3 grant c holder=x op=3
          3 grant z holder=x op=1 principal=other",
        expect![[r#"
              0  1 configure operations=2                → configured
              0  2 grant a holder=x op=1                 → granted lease 2 epoch 1 fence 2
              1  3 grant b holder=x op=2                 → granted lease 3 epoch 1 fence 3
              2  4 grant z holder=x op=1 principal=other → granted lease 4 epoch 1 fence 4
              3  5 grant c holder=x op=3                 → granted lease 5 epoch 1 fence 5
              3  – kept                                  → live 4 ended 0 watermark 0 operations 3 holders 1
              3  – grant a holder=x op=1                 → resource_held a by lease 2
              3  – grant b holder=x op=2                 → replayed granted lease 3 at 3
              3  – grant c holder=x op=3                 → replayed granted lease 5 at 5
              3  – grant z holder=x op=1 principal=other → replayed granted lease 4 at 4
        "#]],
    );
}

#[test]
fn a_lowered_quota_is_reached_a_few_at_a_time() {
    // It once forgot one for each one remembered and so never came down.
    check(
        " 0 grant r{i} holder=x op={i} times=40
          0 grant z holder=x op=1 principal=other
          0 kept
          1 configure operations=3
          1 kept
          1 grant s1 holder=x op=41
          1 kept
          1 grant s2 holder=x op=42
          1 kept
          1 grant s3 holder=x op=43
          1 kept
          1 grant s3 holder=x op=43
          1 grant s1 holder=x op=41
          1 configure operations=0
          1 grant s4 holder=x op=44
          1 grant s5 holder=x op=45
          1 kept",
        expect![[r#"
              0 40 grant r{i} holder=x op={i} times=40   → granted lease 40 epoch 1 fence 40
              0 41 grant z holder=x op=1 principal=other → granted lease 41 epoch 1 fence 41
              0  – kept                                  → live 41 ended 0 watermark 0 operations 41 holders 1
              1 42 configure operations=3                → configured
              1  – kept                                  → live 41 ended 0 watermark 0 operations 41 holders 1
              1 43 grant s1 holder=x op=41               → granted lease 43 epoch 1 fence 43
              1  – kept                                  → live 42 ended 0 watermark 0 operations 26 holders 1
              1 44 grant s2 holder=x op=42               → granted lease 44 epoch 1 fence 44
              1  – kept                                  → live 43 ended 0 watermark 0 operations 11 holders 1
              1 45 grant s3 holder=x op=43               → granted lease 45 epoch 1 fence 45
              1  – kept                                  → live 44 ended 0 watermark 0 operations 4 holders 1
              1  – grant s3 holder=x op=43               → replayed granted lease 45 at 45
              1  – grant s1 holder=x op=41               → replayed granted lease 43 at 43
              1 46 configure operations=0                → configured
              1 47 grant s4 holder=x op=44               → granted lease 47 epoch 1 fence 47
              1 48 grant s5 holder=x op=45               → granted lease 48 epoch 1 fence 48
              1  – kept                                  → live 46 ended 0 watermark 0 operations 1 holders 1
        "#]],
    );
}

#[test]
fn at_most_sixteen_are_forgotten_with_one_event() {
    check(
        " 0 grant r{i} holder=x op={i} keep=10 times=40
         11 kept
         11 grant s1 holder=x
         11 kept
         11 grant s2 holder=x
         11 kept
         11 grant s3 holder=x
         11 kept",
        expect![[r#"
              0 40 grant r{i} holder=x op={i} keep=10 times=40 → granted lease 40 epoch 1 fence 40
             11  – kept                                        → live 40 ended 0 watermark 0 operations 40 holders 1
             11 41 grant s1 holder=x                           → granted lease 41 epoch 1 fence 41
             11  – kept                                        → live 41 ended 0 watermark 0 operations 24 holders 1
             11 42 grant s2 holder=x                           → granted lease 42 epoch 1 fence 42
             11  – kept                                        → live 42 ended 0 watermark 0 operations 8 holders 1
             11 43 grant s3 holder=x                           → granted lease 43 epoch 1 fence 43
             11  – kept                                        → live 43 ended 0 watermark 0 operations 0 holders 1
        "#]],
    );
}

#[test]
fn what_is_remembered_can_be_read() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("5 open 3\n5 grant a holder=x op=one keep=10\n6 close 3 op=two keep=10");
    let operation = runner.log[1].1.operation.clone().unwrap();
    let kernel = &runner.kernel;
    let (fingerprint, replay) = kernel.remembered(operation.key, Tick(15)).unwrap();
    assert_eq!(fingerprint, operation.fingerprint);
    let expected = Replay { lsn: Lsn(2), lease: Some(runner.granted[0]), kind: ChangeKind::Granted };
    assert_eq!(*replay, expected);
    assert!(kernel.remembered(operation.key, Tick(16)).is_none());
    assert!(kernel.remembered(operation.key + 1, Tick(15)).is_none());
    let closing = runner.log[2].1.operation.clone().unwrap();
    let (_, replay) = kernel.remembered(closing.key, Tick(6)).unwrap();
    assert_eq!(*replay, Replay { lsn: Lsn(3), lease: None, kind: ChangeKind::SessionClosed });
}

/// A log of before the fingerprints of canonical bytes holds others of the same commands.
#[test]
fn an_outcome_remembered_by_the_old_rule_is_never_a_conflict() {
    let operation =
        |fingerprint| Operation { key: 4, fingerprint, keep_ms: 600_000, principal: "local".into() };
    let opened = |operation| {
        let change = Change::PoolDefined { name: "p".into(), size: 1 };
        let mut kernel = Kernel::new(Setup::plain());
        kernel.evolve(Stamp { lsn: Lsn(1), tick: Tick(1) }, &Event { operation: Some(operation), change });
        kernel
    };
    let (old, new) = (0x1112_1314_1516_1718, canonical_fingerprint(0x1112_1314_1516_1718));
    assert_eq!(new, 0x6670_0114_1516_1718);
    assert!(opened(operation(old)).replay(&operation(new), Tick(1)).unwrap().is_some());
    assert!(opened(operation(new)).replay(&operation(new), Tick(1)).unwrap().is_some());
    let other = opened(operation(new)).replay(&operation(new + 1), Tick(1)).map(|replay| replay.is_some());
    assert_eq!(other, Err(Rejection::OperationConflict));
}
