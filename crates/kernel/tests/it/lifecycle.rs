//! What each verb does to a lease: states, epochs, fences, drains, bundles and their hand-over.

use crate::script::{Runner, Words, check};
use expect_test::expect;
use tenure_kernel::*;

#[test]
fn revoked_resource_is_not_reusable_before_reclaim() {
    check(
        " 0 reserve r1 holder=alice ttl=100
         10 activate L1 epoch=1
         11 revoke L1
         12 resource r1
         12 reserve r1 holder=bob ttl=100
         13 reclaim L1
         13 resource r1
         14 reserve r1 holder=bob ttl=100",
        expect![[r#"
              0  1 reserve r1 holder=alice ttl=100 → granted lease 1 epoch 1 fence 1 deadline 100
             10  2 activate L1 epoch=1             → active
             11  3 revoke L1                       → revoking epoch 2
             12  – resource r1                     → revoking lease 1
             12  – reserve r1 holder=bob ttl=100   → resource_held r1 by lease 1
             13  4 reclaim L1                      → revoked
             13  – resource r1                     → available
             14  5 reserve r1 holder=bob ttl=100   → granted lease 5 epoch 1 fence 5 deadline 114
        "#]],
    );
}

#[test]
fn a_bundle_is_granted_whole_or_not_at_all() {
    check(
        " 0 grant b holder=bob
          1 grant [a,b,c] holder=alice
          1 resource a
          1 resource c
          2 release L1
          3 grant [a,b,c] holder=alice
          3 show L2
          4 grant [c,d] holder=bob
          4 resource d
          5 revoke L2
          5 grant [a] holder=bob
          5 grant [c] holder=bob
          6 reclaim L2
          6 resource a
          6 resource b
          6 resource c",
        expect![[r#"
              0  1 grant b holder=bob         → granted lease 1 epoch 1 fence 1
              1  – grant [a,b,c] holder=alice → resource_held b by lease 1
              1  – resource a                 → available
              1  – resource c                 → available
              2  2 release L1                 → released epoch 2
              3  3 grant [a,b,c] holder=alice → granted lease 3 epoch 1 fence 3
              3  – show L2                    → active epoch 1 fence 3 holder=alice [a,b,c] since 3 principal=local face=leases granted 3 changed 3
              4  – grant [c,d] holder=bob     → resource_held c by lease 3
              4  – resource d                 → available
              5  4 revoke L2                  → revoking epoch 2
              5  – grant [a] holder=bob       → resource_held a by lease 3
              5  – grant [c] holder=bob       → resource_held c by lease 3
              6  5 reclaim L2                 → revoked
              6  – resource a                 → available
              6  – resource b                 → available
              6  – resource c                 → available
        "#]],
    );
}

#[test]
fn epoch_rises_on_revoke_release_expire_and_rebind_and_on_nothing_else() {
    check(
        " 0 reserve a holder=x ttl=10
          1 amend L1 attach=3
          2 activate L1
          3 amend L1 data=3
          4 drain L1
          5 revive L1
          6 rebind L1 to=y
          7 revoke L1
          8 reclaim L1
          8 show L1
          9 grant a holder=x
         10 release L2
         11 reserve a holder=x ttl=1
         12 expire L3
         12 show L3",
        expect![[r#"
             0  1 reserve a holder=x ttl=10 → granted lease 1 epoch 1 fence 1 deadline 10
             1  2 amend L1 attach=3         → amended
             2  3 activate L1               → active
             3  4 amend L1 data=3           → amended
             4  5 drain L1                  → draining
             5  6 revive L1                 → revived
             6  7 rebind L1 to=y            → rebound epoch 2 fence 7 holder y
             7  8 revoke L1                 → revoking epoch 3
             8  9 reclaim L1                → revoked
             8  – show L1                   → revoked epoch 3 fence 7 reason=admin_force face=leases ended at 9 until 86400008
             9 10 grant a holder=x          → granted lease 10 epoch 1 fence 10
            10 11 release L2                → released epoch 2
            11 12 reserve a holder=x ttl=1  → granted lease 12 epoch 1 fence 12 deadline 12
            12 13 expire L3                 → expired epoch 2
            12  – show L3                   → expired epoch 2 fence 12 reason=reservation_expired face=leases ended at 13 until 86400012
        "#]],
    );
}

#[test]
fn rebind_keeps_the_lease_and_raises_epoch_and_fence() {
    check(
        "setup base=1000
         0 grant [a,b] holder=x attach=10 data=5 principal=p
         1 rebind L1 epoch=1 to=y
         1 show L1
         2 amend L1 epoch=1 attach=1
         2 rebind L1 epoch=2 holder=x
         2 rebind L1 epoch=2 holder=y
         2 show L1
         3 rebind L1 epoch=3 to=z principal=q face=streams attach=0 data=7
         3 show L1
         4 release L1 epoch=4 holder=z
         4 show L1
         5 grant a holder=w
         5 show L2",
        expect![[r#"
            0  1 grant [a,b] holder=x attach=10 data=5 principal=p               → granted lease 1 epoch 1 fence 1001
            1  2 rebind L1 epoch=1 to=y                                          → rebound epoch 2 fence 1002 holder y
            1  – show L1                                                         → active epoch 2 fence 1002 holder=y [a,b] since 0 principal=p face=leases granted 0 changed 2 attach=10 data=5
            2  – amend L1 epoch=1 attach=1                                       → stale_epoch current=2
            2  – rebind L1 epoch=2 holder=x                                      → holder_mismatch
            2  3 rebind L1 epoch=2 holder=y                                      → rebound epoch 3 fence 1003
            2  – show L1                                                         → active epoch 3 fence 1003 holder=y [a,b] since 0 principal=p face=leases granted 0 changed 3 attach=10 data=5
            3  4 rebind L1 epoch=3 to=z principal=q face=streams attach=0 data=7 → rebound epoch 4 fence 1004 holder z
            3  – show L1                                                         → active epoch 4 fence 1004 holder=z [a,b] since 0 principal=q face=streams granted 0 changed 4 attach=0 data=7
            4  5 release L1 epoch=4 holder=z                                     → released epoch 5
            4  – show L1                                                         → released epoch 5 fence 1004 reason=explicit face=streams ended at 5 until 86400004
            5  6 grant a holder=w                                                → granted lease 6 epoch 1 fence 1006
            5  – show L2                                                         → active epoch 1 fence 1006 holder=w [a] since 5 principal=local face=leases granted 5 changed 6
        "#]],
    );
}

#[test]
fn an_operators_drain_stays_through_rebind_and_ends_with_revive() {
    check(
        " 0 grant a holder=x
          1 drain L1 actor=op
          1 drain L1
          2 rebind L1 to=y
          2 show L1
          3 revive L1
          3 show L1
          3 revive L1
          4 drain L1
          5 revoke L1 reason=heartbeat_expired silent=2 by=operator actor=carol
          5 show L1
          6 reclaim L1
          6 show L1",
        expect![[r#"
            0  1 grant a holder=x                                                    → granted lease 1 epoch 1 fence 1
            1  2 drain L1 actor=op                                                   → draining
            1  – drain L1                                                            → already_draining
            2  3 rebind L1 to=y                                                      → rebound epoch 2 fence 3 holder y
            2  – show L1                                                             → active epoch 2 fence 3 holder=y [a] since 0 drained principal=local face=leases granted 0 changed 3
            3  4 revive L1                                                           → revived
            3  – show L1                                                             → active epoch 2 fence 3 holder=y [a] since 0 principal=local face=leases granted 0 changed 4
            3  – revive L1                                                           → not_draining
            4  5 drain L1                                                            → draining
            5  6 revoke L1 reason=heartbeat_expired silent=2 by=operator actor=carol → revoking epoch 3
            5  – show L1                                                             → revoking epoch 3 fence 3 holder=y [a] at 5 active_since 0 reason=heartbeat_expired by carol reclaim by operator principal=local face=leases granted 0 changed 6
            6  7 reclaim L1                                                          → revoked
            6  – show L1                                                             → revoked epoch 3 fence 3 reason=heartbeat_expired face=leases ended at 7 until 86400006
        "#]],
    );
}

#[test]
fn a_reserved_lease_that_is_revoked_never_was_active_and_is_not_scheduled() {
    check(
        " 0 reserve a holder=x ttl=10
          1 revoke L1
          1 show L1
         20 due
         20 expire L1
         21 reclaim L1
         21 show L1",
        expect![[r#"
             0  1 reserve a holder=x ttl=10 → granted lease 1 epoch 1 fence 1 deadline 10
             1  2 revoke L1                 → revoking epoch 2
             1  – show L1                   → revoking epoch 2 fence 1 holder=x [a] at 1 active_since – reason=admin_force by daemon reclaim by daemon principal=local face=leases granted 0 changed 2
            20  – due                       → [] next –
            20  – expire L1                 → nothing
            21  3 reclaim L1                → revoked
            21  – show L1                   → revoked epoch 2 fence 1 reason=admin_force face=leases ended at 3 until 86400021
        "#]],
    );
}

#[test]
fn a_reserved_lease_may_be_given_back_at_any_time_before_it_expires() {
    check(
        " 0 reserve a holder=x ttl=10
         50 release L1
         50 due
         51 expire L1",
        expect![[r#"
              0  1 reserve a holder=x ttl=10 → granted lease 1 epoch 1 fence 1 deadline 10
             50  2 release L1                → released epoch 2
             50  – due                       → [] next –
             51  – expire L1                 → nothing
        "#]],
    );
}

#[test]
fn deadlines_come_earliest_first() {
    check(
        " 0 reserve a holder=x ttl=30
          0 reserve b holder=x ttl=10
          0 reserve c holder=x ttl=20
          0 due
         20 due
         20 expire L2
         20 due",
        expect![[r#"
              0  1 reserve a holder=x ttl=30 → granted lease 1 epoch 1 fence 1 deadline 30
              0  2 reserve b holder=x ttl=10 → granted lease 2 epoch 1 fence 2 deadline 10
              0  3 reserve c holder=x ttl=20 → granted lease 3 epoch 1 fence 3 deadline 20
              0  – due                       → [] next 10
             20  – due                       → [2,3] next 10
             20  4 expire L2                 → expired epoch 2
             20  – due                       → [3] next 20
        "#]],
    );
}

#[test]
fn an_ending_event_repeats_what_the_lease_was() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare(
        "3 open 5
         4 grant [a,b] holder=x session=5 principal=p face=streams data=2 attach=9 notice=yes wall=77
         5 revoke L1 reason=max_lifetime text=old
         6 reclaim L1 actor=op",
    );
    let (_, event) = runner.log.last().unwrap();
    let Change::Reclaimed(reclaimed) = &event.change else { panic!("{event:?}") };
    let was = event.change.epitaph().unwrap();
    assert_eq!(*was, reclaimed.was);
    assert_eq!(was.lease, runner.granted[0]);
    assert_eq!((was.epoch, was.holder.as_str()), (Epoch(2), "x"));
    assert_eq!(was.members.as_slice(), ["a", "b"]);
    assert_eq!(was.policy.session, Some(SessionId(5)));
    assert_eq!((was.policy.principal.as_str(), was.policy.face), ("p", Face::Streams));
    assert!(was.policy.notice);
    assert_eq!(was.face_data, [1, 1]);
    assert_eq!((was.granted_tick, was.granted_wall_ms), (Tick(4), 77));
    assert_eq!((reclaimed.reason, reclaimed.text.as_str()), (Reason::MaxLifetime, "old"));
    assert_eq!(reclaimed.actor, Actor::Operator("op".into()));
}

#[test]
fn only_ends_have_an_epitaph() {
    for event in crate::samples::events() {
        let ends = matches!(event.change, Change::Released(_) | Change::Reclaimed(_) | Change::Expired(_));
        assert_eq!(event.change.epitaph().is_some(), ends, "{:?}", event.change.kind());
    }
}

#[test]
fn a_resource_held_tells_who_and_since_when() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("7 grant a holder=alice");
    let at = Stamp { lsn: Lsn(2), tick: Tick(9) };
    let grant = Grant::new(Bundle::one("a"), "bob", Policy::permanent());
    let refused = runner.kernel.decide(at, &Command::plain(Action::Grant(grant))).unwrap_err();
    let held =
        Held { resource: "a".into(), lease: runner.granted[0], holder: "alice".into(), since: Tick(7) };
    assert_eq!(refused, Rejection::ResourceHeld(held));
}

#[test]
fn counts_follow_state_mode_and_face() {
    check(
        " 0 open 1
          0 grant a holder=x session=1
          0 grant b holder=x mode=heartbeat face=streams
          0 reserve c holder=y ttl=5 face=registrations
          0 counts
          1 revoke L1
          1 rebind L2 to=z face=polling
          1 activate L3
          1 counts
          1 kept
          2 reclaim L1
          2 release L2
          2 release L3
          2 counts
          2 kept",
        expect![[r#"
              0  1 open 1                                       → opened
              0  2 grant a holder=x session=1                   → granted lease 2 epoch 1 fence 2
              0  3 grant b holder=x mode=heartbeat face=streams → granted lease 3 epoch 1 fence 3
              0  4 reserve c holder=y ttl=5 face=registrations  → granted lease 4 epoch 1 fence 4 deadline 5
              0  – counts                                       → [reserved permanent registrations=1,active session leases=1,active heartbeat streams=1]
              1  5 revoke L1                                    → revoking epoch 2
              1  6 rebind L2 to=z face=polling                  → rebound epoch 2 fence 6 holder z
              1  7 activate L3                                  → active
              1  – counts                                       → [active permanent registrations=1,active permanent polling=1,revoking session leases=1]
              1  – kept                                         → live 3 ended 0 watermark 0 operations 0 holders 3
              2  8 reclaim L1                                   → revoked
              2  9 release L2                                   → released epoch 3
              2 10 release L3                                   → released epoch 2
              2  – counts                                       → []
              2  – kept                                         → live 0 ended 3 watermark 0 operations 0 holders 0
        "#]],
    );
}

#[test]
fn a_slot_finds_its_lease_while_it_lives() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("0 grant a holder=x\n0 grant b holder=x\n0 grant c holder=y");
    let lease = runner.granted[1];
    let view = runner.kernel.live(lease).unwrap();
    let (slot, holder) = (view.slot(), view.holder_slot());
    assert_eq!(runner.kernel.in_slot(slot).map(LeaseView::id), Some(lease));
    assert_eq!(runner.kernel.live(runner.granted[0]).unwrap().holder_slot(), holder);
    assert_ne!(runner.kernel.live(runner.granted[2]).unwrap().holder_slot(), holder);
    assert_eq!(view.terms(), &Policy::permanent());
    assert_eq!(view.granted_wall_ms(), 0);
    runner.prepare("1 release L2");
    assert!(runner.kernel.in_slot(slot).is_none());
}

#[test]
fn a_release_carries_the_holders_words() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("0 grant a holder=x\n1 release L1 text=done");
    let Change::Released(released) = &runner.log[1].1.change else { panic!() };
    assert_eq!(released.text, "done");
}

#[test]
fn a_command_about_a_lease_names_it() {
    let runner = Runner::new(Setup::plain());
    let named = |line: &str| runner.command(&Words::new(line)).action.lease();
    for verb in ["activate", "release", "rebind", "amend", "revoke", "reclaim", "drain", "revive"] {
        assert_eq!(named(&format!("{verb} 7")), Some(LeaseId::new(0, Lsn(7))), "{verb}");
    }
    for line in ["grant a take_over=7", "pool p 1", "unpool p", "open 1", "close 1"] {
        assert_eq!(named(line), None, "{line}");
    }
}
