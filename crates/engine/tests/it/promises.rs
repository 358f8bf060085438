//! Nobody gets what another was promised: former holders bind what the new one gives back, a restored log waits for
//! connections it cannot see, and a session that came back keeps what it still has.

use crate::desk::{Desk, tell};
use expect_test::expect;
use tenure_engine::Answer;
use tenure_kernel::{LeaseState, LeaseView, SessionId};

#[test]
fn a_release_waits_for_what_a_former_holder_was_promised() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 19899
        0      frame 1.2 at 2: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 2 valid 4974
        1000   frame 1.3 at 3: revoked
        1000   bob <- lease 1 revoking (explicit) [a] bob epoch 3 fence 2
        1000   again <- stale_epoch: current 3
        19999  carol <- lease 1 revoking (explicit) [a] bob epoch 3 fence 2, waiters [carol] at 3
        20000  frame 1.4 at 4: reclaimed, granted
        20000  carol <- lease 5 active [a] carol epoch 1 fence 5 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=20000
         settle
         bob: rebind alice ttl=5000
         settle
         until 1000
         bob: release alice
         carol: grant a wait=60000
         settle
         again: release alice epoch=2
         until 19999
         carol: resource a
         settle
         until 20000
         settle",
    ));
}

#[test]
fn an_acknowledge_waits_for_what_a_former_holder_was_promised() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 19899
        0      frame 1.2 at 2: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 2 valid 4974
        0      frame 1.3 at 3: revoked
        0      root <- lease 1 revoking (admin_force) [a] bob epoch 3 fence 2
        0      bob <- lease 1 revoking (admin_force) [a] bob epoch 3 fence 2
        19999  carol <- resource_held: a by lease 1 of bob
        20000  frame 1.4 at 4: reclaimed
        20000  frame 1.5 at 5: granted
        20000  carol <- lease 5 active [a] carol epoch 1 fence 5 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=20000
         settle
         bob: rebind alice ttl=5000
         settle
         root: revoke alice
         settle
         bob: acknowledge alice
         settle
         until 19999
         carol: grant a
         settle
         until 20000
         carol: grant a
         settle",
    ));
}

#[test]
fn the_end_of_a_session_waits_for_what_a_former_holder_was_promised() {
    expect![[r#"
        0      frame 1.1 at 1: granted, session_opened
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 19899
        0      s <- done
        0      frame 1.2 at 3: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 3 valid 4974
        0      frame 1.3 at 4: session_closed
        0      s <- done
        0      frame 1.4 at 5: revoked
        20000  frame 1.5 at 6: reclaimed, granted
        20000  carol <- lease 7 active [a] carol epoch 1 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=20000
         s: open 7 ttl=5000
         settle
         bob: rebind alice session=7
         settle
         s: close 7
         carol: grant a wait=60000
         settle
         until 20000
         settle",
    ));
}

#[test]
fn what_a_former_holder_was_promised_is_not_taken_over() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 19899
        0      frame 1.2 at 2: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 2 valid 994
        1250   frame 1.3 at 3: note draining
        2000   carol <- resource_held: a by lease 1 of bob
        20000  frame 1.4 at 4: rebound
        20000  carol <- lease 1 active [a] carol epoch 3 fence 4 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=20000
         settle
         bob: rebind alice ttl=1000 grace=60000
         settle
         until 2000
         carol: grant a overs=alice
         settle
         until 20000
         carol: grant a overs=alice
         settle",
    ));
}

#[test]
fn after_a_hand_over_and_without_a_former_holder_a_release_is_free_at_once() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 19899
        0      frame 1.2 at 2: session_opened
        0      bob <- done
        0      frame 1.3 at 3: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 3 valid 4974
        0      frame 1.4 at 4: released, granted
        0      bob <- lease 1 released (explicit) epoch 3
        0      carol <- lease 5 active [a] carol epoch 1 fence 5 valid 89549
        0      frame 1.5 at 6: rebound
        0      same <- lease 5 active [a] carol epoch 2 fence 6 valid 4974
        0      frame 1.6 at 7: released, granted
        0      carol <- lease 5 released (explicit) epoch 3
        0      dora <- lease 8 active [a] dora epoch 1 fence 8 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=20000
         settle
         bob: open 5 ttl=5000
         settle
         bob: handover alice to=5
         settle
         bob: release alice
         carol: grant a
         settle
         same: rebind carol holder=carol ttl=5000
         settle
         carol: release carol
         dora: grant a
         settle",
    ));
}

#[test]
fn a_hand_over_says_nothing_of_those_who_held_the_lease_before() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 19899
        0      frame 1.2 at 2: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 2 valid 4974
        0      frame 1.3 at 3: session_opened
        0      carol <- done
        0      frame 1.4 at 4: rebound
        0      carol <- lease 1 active [a] carol epoch 3 fence 4 valid 4974
        0      frame 1.5 at 5: revoked
        0      carol <- lease 1 revoking (explicit) [a] carol epoch 4 fence 4
        0      dora <- resource_held: a by lease 1 of carol
        5250   frame 1.6 at 6: note draining
        20000  frame 1.7 at 7: reclaimed
        20000  frame 1.8 at 8: granted
        20000  dora <- lease 8 active [a] dora epoch 1 fence 8 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=20000
         settle
         bob: rebind alice ttl=5000
         settle
         carol: open 5 ttl=5000
         settle
         carol: handover alice to=5
         settle
         carol: release alice
         dora: grant a
         settle
         until 20000
         dora: grant a
         settle",
    ));
}

#[test]
fn a_lease_given_back_behind_a_former_promise_waits_anew_after_a_restart() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 19899
        0      frame 1.2 at 2: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 2 valid 19899
        0      frame 1.3 at 3: revoked
        0      bob <- lease 1 revoking (explicit) [a] bob epoch 3 fence 2
        250    frame 2.1 at 4: note restarted
        20000  frame 2.2 at 5: reclaimed, granted
        20000  carol <- lease 6 active [a] carol epoch 1 fence 6 valid 89549
        80000  frame 2.3 at 7: tick
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=20000
         settle
         bob: rebind alice
         settle
         bob: release alice
         settle
         until 10000
         restart
         carol: grant a wait=600000
         turn
         settle
         until 100000
         settle",
    ));
}

/// Alice was promised the lease until 20000. Terms of the next holder × end of the lease × snapshots × restarts, before or
/// after that end.
#[test]
fn a_restart_knows_what_a_former_holder_was_promised_under_other_terms() {
    let next = ["ttl=5000", "ttl=5000 at_once", "ttl=5000\n settle\n dora: rebind alice ttl=2000", "to=4"];
    let revoke = "root: revoke alice";
    let ends = ["off: release alice", revoke, "root: revoke alice\n settle\n ok: acknowledge alice"];
    let restarts =
        ["restart", "snapshot\n restart", "snapshot\n restart\n turn\n settle\n snapshot\n restart"];
    let mut early = Vec::new();
    for (next, end) in next.iter().flat_map(|next| ends.iter().map(move |end| (next, end))) {
        for restart in restarts {
            for (before, after) in [("", *end), (*end, "")] {
                let case = format!("{next:?}, {before:?}, {restart:?}, {after:?}");
                let mut desk = Desk::new();
                desk.play("s4: open 4 ttl=3000\n alice: grant a ttl=20000\n settle");
                desk.play(&format!("bob: rebind alice {next}\n settle\n {before}\n settle"));
                desk.play(&format!("{restart}\n turn\n settle\n {after}\n settle"));
                desk.play("until 19999\n carol: grant a\n settle");
                if !matches!(desk.answers["carol"], Answer::Refused(_)) {
                    early.push(case);
                    continue;
                }
                desk.play("until 20000\n dave: grant a\n settle");
                assert!(matches!(desk.answers["dave"], Answer::Lease(_)), "{case}\n{}", desk.take_story());
            }
        }
    }
    assert!(early.is_empty(), "free while alice believes:\n{}", early.join("\n"));
}

#[test]
fn leases_of_connections_in_a_restored_log_are_reclaimed_after_the_revoke_timeout() {
    expect![[r#"
        0      conn <- done
        0      frame 1.1 at 1: session_opened, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      frame 3.1 at 4099: note restarted, revoked, session_closed
        9999   list <- leases [2] at 4101
        10000  frame 3.2 at 4102: reclaimed
        10000  list <- leases [] at 4102
    "#]]
    .assert_eq(&tell(
        "conn: connect 7
         alice: grant a session=7
         settle
         restore
         turn
         settle
         until 9999
         list: list
         settle
         until 10000
         list: list
         settle",
    ));
}

#[test]
fn a_restored_log_that_restarts_again_waits_again_for_its_connections() {
    expect![[r#"
        0      conn <- done
        0      frame 1.1 at 1: session_opened, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      frame 3.1 at 4099: note restarted, revoked, session_closed
        250    frame 4.1 at 4102: note restarted
        9999   list <- leases [2] at 4102
        10000  frame 4.2 at 4103: reclaimed
        10000  list <- leases [] at 4103
    "#]]
    .assert_eq(&tell(
        "conn: connect 7
         alice: grant a session=7
         settle
         restore
         turn
         settle
         until 9000
         restart
         turn
         settle
         until 9999
         list: list
         settle
         until 10000
         list: list
         settle",
    ));
}

#[test]
fn a_session_that_comes_back_keeps_the_leases_that_had_not_ended_yet() {
    let mut desk = Desk::new();
    desk.told = false;
    for n in 0..900 {
        desk.play(&format!("s{n}: grant s/{n} session=5 word=10000 grace=1000"));
    }
    desk.play("long: grant long session=5 word=10000 grace=30000\n settle\n until 10999");
    assert_eq!(desk.engine.kernel().live_count(), 901);
    // Its grace is over: as many leases end as fit into a turn. Then its node is heard again.
    desk.play("+1");
    let left = desk.engine.kernel().live_count();
    assert!((2..901).contains(&left), "{left} left after the first turn");
    assert_eq!(desk.engine.counters().renewed_meanwhile, 0);
    desk.play("node: kept 5\n settle\n until 15000\n settle");
    let is_active = |view: &LeaseView<'_>| matches!(view.state(), LeaseState::Active { .. });
    let spared = desk.engine.kernel().leases_of(SessionId(5)).filter(is_active).count();
    assert_eq!(spared, left);
    assert_eq!(desk.engine.counters().renewed_meanwhile, 1);
    // Once its node is silent for good, they end.
    desk.play("until 60000\n settle");
    assert_eq!(desk.engine.kernel().live_count(), 0);
}
