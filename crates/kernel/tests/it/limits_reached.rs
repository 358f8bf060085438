//! Everything has a limit, and every limit its own answer.

use crate::script::{Runner, check};
use expect_test::expect;
use tenure_kernel::*;

#[test]
fn leases_in_all() {
    check(
        "setup leases=2
         0 grant a holder=x
         0 reserve b holder=x ttl=9
         0 grant c holder=x
         1 revoke L1
         1 grant c holder=x
         2 reclaim L1
         2 grant c holder=x",
        expect![[r#"
              0  1 grant a holder=x         → granted lease 1 epoch 1 fence 1
              0  2 reserve b holder=x ttl=9 → granted lease 2 epoch 1 fence 2 deadline 9
              0  – grant c holder=x         → capacity_exceeded Leases
              1  3 revoke L1                → revoking epoch 2
              1  – grant c holder=x         → capacity_exceeded Leases
              2  4 reclaim L1               → revoked
              2  5 grant c holder=x         → granted lease 5 epoch 1 fence 5
        "#]],
    );
}

#[test]
fn leases_of_one_principal() {
    check(
        "setup per_principal=2
         0 grant a holder=x principal=p
         0 grant b holder=x principal=p
         0 grant c holder=x principal=p
         0 grant c holder=x principal=q
         1 release L1
         1 grant d holder=x principal=p
         1 rebind L3 principal=r
         1 grant e holder=x principal=q
         1 grant f holder=x principal=q
         1 grant g holder=x principal=q",
        expect![[r#"
              0  1 grant a holder=x principal=p → granted lease 1 epoch 1 fence 1
              0  2 grant b holder=x principal=p → granted lease 2 epoch 1 fence 2
              0  – grant c holder=x principal=p → capacity_exceeded LeasesOfPrincipal
              0  3 grant c holder=x principal=q → granted lease 3 epoch 1 fence 3
              1  4 release L1                   → released epoch 2
              1  5 grant d holder=x principal=p → granted lease 5 epoch 1 fence 5
              1  6 rebind L3 principal=r        → rebound epoch 2 fence 6
              1  7 grant e holder=x principal=q → granted lease 7 epoch 1 fence 7
              1  8 grant f holder=x principal=q → granted lease 8 epoch 1 fence 8
              1  – grant g holder=x principal=q → capacity_exceeded LeasesOfPrincipal
        "#]],
    );
}

#[test]
fn pools_and_sessions() {
    check(
        "setup pools=1 sessions=1
         0 pool p 1
         0 pool q 1
         0 pool p 2
         0 open 1
         0 open 2
         0 open 1
         1 close 1
         1 open 2
         1 unpool p
         1 pool q 1",
        expect![[r#"
            0  1 pool p 1 → size 1
            0  – pool q 1 → capacity_exceeded Pools
            0  2 pool p 2 → size 2
            0  3 open 1   → opened
            0  – open 2   → capacity_exceeded Sessions
            0  – open 1   → session_exists 1
            1  4 close 1  → closed
            1  5 open 2   → opened
            1  6 unpool p → removed
            1  7 pool q 1 → size 1
        "#]],
    );
}

#[test]
fn payload_bytes() {
    check(
        "setup bytes=10
         0 grant a holder=x attach=6 data=4
         0 grant b holder=x attach=1
         0 grant b holder=x
         1 amend L2 attach=1
         1 amend L1 attach=5
         1 amend L2 attach=1
         1 amend L2 data=1
         1 amend L1 attach=6
         1 amend L1 attach=4 data=5
         1 rebind L2 data=1
         1 rebind L1 data=4
         1 rebind L2 data=1
         2 release L1
         2 amend L2 attach=9
         2 amend L2 attach=10",
        expect![[r#"
              0  1 grant a holder=x attach=6 data=4 → granted lease 1 epoch 1 fence 1
              0  – grant b holder=x attach=1        → capacity_exceeded AttachmentBytes
              0  2 grant b holder=x                 → granted lease 2 epoch 1 fence 2
              1  – amend L2 attach=1                → capacity_exceeded AttachmentBytes
              1  3 amend L1 attach=5                → amended
              1  4 amend L2 attach=1                → amended
              1  – amend L2 data=1                  → capacity_exceeded AttachmentBytes
              1  – amend L1 attach=6                → capacity_exceeded AttachmentBytes
              1  5 amend L1 attach=4 data=5         → amended
              1  – rebind L2 data=1                 → capacity_exceeded AttachmentBytes
              1  6 rebind L1 data=4                 → rebound epoch 2 fence 6
              1  7 rebind L2 data=1                 → rebound epoch 2 fence 7
              2  8 release L1                       → released epoch 3
              2  9 amend L2 attach=9                → amended
              2  – amend L2 attach=10               → capacity_exceeded AttachmentBytes
        "#]],
    );
}

#[test]
fn notices_not_settled() {
    check(
        "setup notices=1
         0 grant a holder=x notice=yes
         0 grant b holder=x notice=yes
         1 release L1
         1 grant c holder=x notice=yes
         1 grant c holder=x
         2 release L2
         2 notices
         2 notified L1
         2 grant d holder=x notice=yes
         2 notified L2
         2 grant d holder=x notice=yes",
        expect![[r#"
              0  1 grant a holder=x notice=yes → granted lease 1 epoch 1 fence 1
              0  2 grant b holder=x notice=yes → granted lease 2 epoch 1 fence 2
              1  3 release L1                  → released epoch 2
              1  – grant c holder=x notice=yes → capacity_exceeded Notices
              1  4 grant c holder=x            → granted lease 4 epoch 1 fence 4
              2  5 release L2                  → released epoch 2
              2  – notices                     → [lease 1 ended at 3 tick 1,lease 2 ended at 5 tick 2]
              2  6 notified L1                 → notified
              2  – grant d holder=x notice=yes → capacity_exceeded Notices
              2  7 notified L2                 → notified
              2  8 grant d holder=x notice=yes → granted lease 8 epoch 1 fence 8
        "#]],
    );
}

#[test]
fn limits_lowered_below_what_is_used_take_nothing_away() {
    check(
        " 0 open 1
          0 open 2
          0 pool p 1
          0 pool q 1
          0 grant a holder=x attach=10
          0 grant b holder=x attach=10 notice=yes
          0 grant c holder=x
          0 release L2
          1 restart leases=1 per_principal=1 pools=1 sessions=1 bytes=5 notices=0
          1 kept
          1 grant d holder=x
          1 grant d holder=x principal=fresh
          1 pool r 1
          1 pool q 2
          1 open 3
          1 amend L1 attach=9
          1 amend L1 attach=10
          1 amend L3 attach=1
          1 amend L1 attach=0
          1 amend L1 attach=5
          1 rebind L1 to=y attach=5
          2 release L1
          2 release L3
          2 grant d holder=x notice=yes
          2 grant d holder=x",
        expect![[r#"
              0  1 open 1                                                                → opened
              0  2 open 2                                                                → opened
              0  3 pool p 1                                                              → size 1
              0  4 pool q 1                                                              → size 1
              0  5 grant a holder=x attach=10                                            → granted lease 5 epoch 1 fence 5
              0  6 grant b holder=x attach=10 notice=yes                                 → granted lease 6 epoch 1 fence 6
              0  7 grant c holder=x                                                      → granted lease 7 epoch 1 fence 7
              0  8 release L2                                                            → released epoch 2
              1  – restart leases=1 per_principal=1 pools=1 sessions=1 bytes=5 notices=0 → restarted
              1  – kept                                                                  → live 2 ended 1 watermark 0 operations 0 holders 1
              1  – grant d holder=x                                                      → capacity_exceeded Leases
              1  – grant d holder=x principal=fresh                                      → capacity_exceeded Leases
              1  – pool r 1                                                              → capacity_exceeded Pools
              1  9 pool q 2                                                              → size 2
              1  – open 3                                                                → capacity_exceeded Sessions
              1 10 amend L1 attach=9                                                     → amended
              1  – amend L1 attach=10                                                    → capacity_exceeded AttachmentBytes
              1  – amend L3 attach=1                                                     → capacity_exceeded AttachmentBytes
              1 11 amend L1 attach=0                                                     → amended
              1 12 amend L1 attach=5                                                     → amended
              1 13 rebind L1 to=y attach=5                                               → rebound epoch 2 fence 13 holder y
              2 14 release L1                                                            → released epoch 3
              2 15 release L3                                                            → released epoch 2
              2  – grant d holder=x notice=yes                                           → capacity_exceeded Notices
              2 16 grant d holder=x                                                      → granted lease 16 epoch 1 fence 16
        "#]],
    );
}

#[test]
fn a_lease_without_payload_needs_no_room_for_one() {
    check(
        "setup bytes=10
         0 grant a holder=x attach=10
         0 grant b holder=x
         1 restart bytes=5
         1 grant c holder=x
         1 grant d holder=x attach=1
         1 amend L2 attach=0",
        expect![[r#"
            0  1 grant a holder=x attach=10 → granted lease 1 epoch 1 fence 1
            0  2 grant b holder=x           → granted lease 2 epoch 1 fence 2
            1  – restart bytes=5            → restarted
            1  3 grant c holder=x           → granted lease 3 epoch 1 fence 3
            1  – grant d holder=x attach=1  → capacity_exceeded AttachmentBytes
            1  4 amend L2 attach=0          → amended
        "#]],
    );
}

#[test]
fn fields_have_their_bounds_in_every_command() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("0 grant a holder=x\n0 open 1");
    let mut refused = |command: String| runner.step(1, &command).outcome;
    let long = |length: usize| "t".repeat(length);
    let mut out = String::new();
    for command in [
        format!("release L1 text={}", long(257)),
        format!("revoke L1 text={}", long(257)),
        format!("revoke L1 actor={}", long(257)),
        format!("reclaim L1 actor={}", long(257)),
        format!("drain L1 text={}", long(257)),
        format!("drain L1 actor={}", long(257)),
        format!("revive L1 text={}", long(257)),
        "rebind L1 attach=4097".to_owned(),
        "rebind L1 data=4097".to_owned(),
        format!("rebind L1 to={}", long(129)),
        "rebind L1 to=".to_owned(),
        format!("rebind L1 principal={}", long(257)),
        "amend L1 attach=4097".to_owned(),
        "amend L1 data=4097".to_owned(),
        format!("open 2 holder={}", long(129)),
        "open 2 holder=".to_owned(),
        format!("open 2 principal={}", long(257)),
        // At the bound each is taken.
        "amend L1 attach=4096 data=4096".to_owned(),
        format!("rebind L1 to={} principal={}", long(128), long(256)),
        format!("open 2 holder={} principal={}", long(128), long(256)),
        format!("drain L1 text={} actor={}", long(256), long(256)),
        format!("revoke L1 text={} actor={}", long(256), long(256)),
        format!("reclaim L1 actor={}", long(256)),
    ] {
        let outcome = refused(command.clone());
        let outcome: String = outcome.chars().take(40).collect();
        out += &format!("{:18} → {outcome}\n", command.chars().take(18).collect::<String>());
    }
    expect![[r#"
        release L1 text=tt → too_large Text
        revoke L1 text=ttt → too_large Text
        revoke L1 actor=tt → too_large Principal
        reclaim L1 actor=t → too_large Principal
        drain L1 text=tttt → too_large Text
        drain L1 actor=ttt → too_large Principal
        revive L1 text=ttt → too_large Text
        rebind L1 attach=4 → too_large Attachment
        rebind L1 data=409 → too_large FaceData
        rebind L1 to=ttttt → too_large Holder
        rebind L1 to=      → invalid_name '' is empty
        rebind L1 principa → too_large Principal
        amend L1 attach=40 → too_large Attachment
        amend L1 data=4097 → too_large FaceData
        open 2 holder=tttt → too_large Holder
        open 2 holder=     → invalid_name '' is empty
        open 2 principal=t → too_large Principal
        amend L1 attach=40 → amended
        rebind L1 to=ttttt → rebound epoch 2 fence 4 holder ttttttttt
        open 2 holder=tttt → opened
        drain L1 text=tttt → draining
        revoke L1 text=ttt → revoking epoch 3
        reclaim L1 actor=t → revoked
    "#]]
    .assert_eq(&out);
}

#[test]
fn a_bundle_holds_at_most_sixty_four() {
    let mut runner = Runner::new(Setup::plain());
    let names = |count: usize| (1..=count).map(|n| format!("r{n}")).collect::<Vec<_>>().join(",");
    assert_eq!(runner.step(0, &format!("grant [{}] holder=x", names(65))).outcome, "bundle_too_large");
    assert_eq!(runner.step(0, &format!("grant a holder=x or=[{}]", names(65))).outcome, "bundle_too_large");
    assert!(runner.step(0, &format!("grant [{}] holder=x", names(64))).lsn.is_some());
    assert_eq!(runner.kernel.live(runner.granted[0]).unwrap().members().count(), 64);
    runner.prepare("0 pool p 100");
    let mixed = format!("grant [{},p*2] holder=x", names(63).replace('r', "s"));
    assert_eq!(runner.step(0, &mixed).outcome, "bundle_too_large");
    let huge = Bundle { members: vec![Member::AnyOf { pool: "p".into(), count: u32::MAX }; 3].into() };
    let grant = Grant::new(huge, "x", Policy::permanent());
    let at = Stamp { lsn: runner.next_lsn, tick: Tick(0) };
    let refused = runner.kernel.decide(at, &Command::plain(Action::Grant(grant)));
    assert_eq!(refused, Err(Rejection::BundleTooLarge));
}

#[test]
fn alternatives_are_at_most_thirty_two() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("0 grant a holder=x");
    let bundles = |count: usize| vec!["a"; count].join("|");
    let mut step = |count| runner.step(0, &format!("grant a holder=y or={}", bundles(count))).outcome;
    assert_eq!(step(33), "bundle_too_large");
    assert_eq!(step(32), "resource_held a by lease 1");
}

#[test]
fn the_published_bounds_are_those_of_the_contract() {
    assert_eq!(limits::NAME_BYTES_MAX, 255);
    assert_eq!(limits::HOLDER_BYTES_MAX, 128);
    assert_eq!(limits::BUNDLE_MEMBERS_MAX, 64);
    assert_eq!(limits::ALTERNATIVES_MAX, 32);
    assert_eq!(limits::ATTACHMENT_BYTES_MAX, 4096);
    assert_eq!(limits::REASON_TEXT_BYTES_MAX, 256);
    assert_eq!(limits::POOL_SIZE_MAX, 65_536);
    assert_eq!(limits::RESERVE_MS_MAX, 86_400_000);
    assert_eq!(limits::RETIRED_PER_EVENT_MAX, 16);
    assert_eq!(limits::OPERATION_KEEP_MS_DEFAULT, 600_000);
    assert_eq!(limits::OPERATION_KEEP_MS_MAX, 86_400_000);
    let kept = Retention::default();
    assert_eq!((kept.window_ms, kept.leases_max), (86_400_000, 1_000_000));
    assert_eq!((kept.leases_per_face_max, kept.operations_per_principal_max), (1_000_000, 1_000_000));
    assert_eq!(Limits::default().notices_max, 100_000);
    assert_eq!(Limits::default().sessions_per_principal_max, 500_000);
    assert_eq!(Limits::default().attachment_bytes_per_principal_max, 512 << 20);
    assert_eq!(Limits::default().attachment_bytes_max, 1 << 30);
}

/// One principal used to be able to take every session and every byte there is.
#[test]
fn one_principal_leaves_sessions_and_bytes_for_others() {
    check(
        "setup sessions=9 sessions_each=1 bytes=100 bytes_each=10
         0 open 1 principal=p
         0 open 2 principal=p
         0 open 3 principal=q
         1 close 1
         1 open 2 principal=p
         2 grant a holder=x principal=p attach=10
         2 grant b holder=x principal=p attach=1
         2 grant b holder=x principal=q attach=1
         3 amend L2 attach=9 data=2
         3 amend L2 attach=9 data=1
         4 release L2
         4 grant c holder=x principal=p attach=10",
        expect![[r#"
            0  1 open 1 principal=p                     → opened
            0  – open 2 principal=p                     → capacity_exceeded SessionsOfPrincipal
            0  2 open 3 principal=q                     → opened
            1  3 close 1                                → closed
            1  4 open 2 principal=p                     → opened
            2  5 grant a holder=x principal=p attach=10 → granted lease 5 epoch 1 fence 5
            2  – grant b holder=x principal=p attach=1  → capacity_exceeded AttachmentBytesOfPrincipal
            2  6 grant b holder=x principal=q attach=1  → granted lease 6 epoch 1 fence 6
            3  – amend L2 attach=9 data=2               → capacity_exceeded AttachmentBytesOfPrincipal
            3  7 amend L2 attach=9 data=1               → amended
            4  8 release L2                             → released epoch 2
            4  – grant c holder=x principal=p attach=10 → capacity_exceeded AttachmentBytesOfPrincipal
        "#]],
    );
}
