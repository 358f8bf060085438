//! A log that came back from a backup: what was live in it ends, and grants wait until it has.

use crate::desk::{Desk, tell};
use expect_test::expect;
use tenure_engine::Answer;
use tenure_kernel::{LeaseId, StateName};

#[test]
fn what_was_live_in_a_restored_log_is_revoked_and_grants_wait_for_the_longest_ttl() {
    let mut desk = Desk::new();
    desk.play(
        "old: grant a ttl=20000
         perm: grant b permanent
         done: grant c
         settle
         done: release done
         settle",
    );
    let Answer::Lease(before) = desk.answers["old"].clone() else { panic!("granted") };
    let old_base = desk.fence_base();
    desk.play(
        "restore
         turn
         settle
         new: grant d
         old: read old
         done: read done
         old: heartbeat old epoch=1
         check: check old epoch=1
         list: list
         settle
         until 10000
         list: list
         settle
         until 19999
         new: grant d
         list: list
         settle
         until 20000
         new: grant a
         settle",
    );
    expect![[r#"
        0      frame 1.1 at 1: granted, granted, granted
        0      old <- lease 1 active [a] old epoch 1 fence 1 valid 19899
        0      perm <- lease 2 active [b] perm epoch 1 fence 2
        0      done <- lease 3 active [c] done epoch 1 fence 3 valid 89549
        0      frame 1.2 at 4: released
        0      done <- lease 3 released (explicit) epoch 2
        0      frame 3.1 at 4101: note restarted, revoked, revoked
        0      old <- stale_epoch: current 2
        0      new <- not_yet: 20000 ms
        0      old <- lease 1 revoking (restored) [a] old epoch 2 fence 1
        0      done <- lease 3 released (explicit) epoch 2 fence 3
        0      check <- not current, lease at 4103
        0      list <- leases [1, 2] at 4103
        10000  frame 3.2 at 4104: reclaimed
        10000  list <- leases [1] at 4104
        19999  new <- not_yet: 1 ms
        19999  list <- leases [1] at 4104
        20000  frame 3.3 at 4105: reclaimed
        20000  frame 3.4 at 4106: granted
        20000  new <- lease 4106 active [a] new epoch 1 fence 4106 valid 89549
    "#]]
    .assert_eq(&desk.take_story());
    let old_fence = before.lsn.0 + old_base;
    let Answer::Lease(new) = &desk.answers["new"] else { panic!("granted") };
    let tenure_engine::LeaseFound::Live(new) = &new.lease else { panic!("live") };
    assert!(new.fence.0 > old_fence + (1 << 20), "{} {old_fence}", new.fence);
    let states: Vec<StateName> =
        desk.engine.kernel().leases_from(LeaseId(0)).map(|view| view.state().name()).collect();
    assert_eq!(states, [StateName::Active]);
}

#[test]
fn a_restored_log_that_restarts_again_waits_again() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      old <- lease 1 active [a] old epoch 1 fence 1 valid 19899
        0      frame 3.1 at 4098: note restarted, revoked
        0      frame 4.1 at 4100: note restarted
        0      new <- not_yet: 20000 ms
        20000  frame 4.2 at 4101: reclaimed
        20000  frame 5.1 at 4102: granted
        20000  new <- lease 4102 active [d] new epoch 1 fence 4102 valid 89549
    "#]]
    .assert_eq(&tell(
        "old: grant a ttl=20000
         settle
         restore
         turn
         settle
         until 15000
         restart
         new: grant d
         turn
         settle
         until 36000
         restart
         new: grant d
         settle",
    ));
}

// Each restart, and each change of leader in a cluster, began the wait again: with leases of a day one restart a day was
// enough for no grant ever.
#[test]
fn a_restored_log_that_restarts_waits_for_what_is_left_of_its_time() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      old <- lease 1 active [a] old epoch 1 fence 1 valid 19899
        0      short <- lease 2 active [b] short epoch 1 fence 2 valid 994
        0      frame 3.1 at 4099: note restarted, revoked, revoked
        1000   frame 3.2 at 4102: reclaimed
        1000   frame 4.1 at 4103: note restarted
        1000   new <- not_yet: 19000 ms
        19999  new <- not_yet: 1 ms
        20000  frame 4.2 at 4104: granted
        20000  new <- lease 4104 active [d] new epoch 1 fence 4104 valid 89549
    "#]]
    .assert_eq(&tell(
        "old: grant a ttl=20000
         short: grant b ttl=1000
         settle
         restore
         turn
         settle
         until 15000
         restart
         new: grant d
         turn
         settle
         until 19999
         new: grant d
         settle
         until 20000
         new: grant d
         settle",
    ));
}

/// What a holder has seen belongs to the log that was lost: a session that lived on would never hear of
/// losses at positions below that.
#[test]
fn a_session_by_hand_does_not_outlive_the_log_it_was_opened_in() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened, granted
        0      s <- done
        0      kept <- lease 2 active [a] kept epoch 1 fence 2 valid 19899
        0      frame 3.1 at 4099: note restarted, revoked, session_closed
        0      s <- session_not_found
        0      kept <- lease 2 revoking (restored) [a] kept epoch 2 fence 2
    "#]]
    .assert_eq(&tell(
        "s: open 7 ttl=20000
         kept: grant a session=7
         settle
         restore
         turn
         settle
         s: beat 7 seen=2
         kept: read kept
         settle",
    ));
}
