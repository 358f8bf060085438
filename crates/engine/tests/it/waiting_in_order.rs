//! In which order those who wait are served: a pool and its named members together, an interrupted wait from its
//! old place, and tries of one operation as one waiter.

use crate::desk::{Desk, tell, tell_with};
use crate::words::code;
use expect_test::expect;
use tenure_engine::{Answer, Control, EngineConfig};

fn refusal(desk: &Desk, name: &str) -> String {
    match &desk.answers[name] {
        Answer::Refused(refused) => code(refused),
        other => panic!("{name} was answered {other:?}"),
    }
}

/// Named members passed an earlier waiter for their pool without end: 469 of them in twelve seconds.
#[test]
fn a_named_member_is_not_granted_before_an_earlier_waiter_for_its_pool() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted, granted
        0      alice <- lease 2 active [gpu/1] alice epoch 1 fence 2 valid 89549
        0      bob <- lease 3 active [gpu/2] bob epoch 1 fence 3 valid 89549
        0      quick <- resource_held: 2 wait for gpu/3
        0      frame 1.3 at 4: released, granted
        0      alice <- lease 2 released (explicit) epoch 2
        0      two <- lease 5 active [gpu/1, gpu/3] two epoch 1 fence 5 valid 89549
        0      frame 1.4 at 6: released, granted
        0      two <- lease 5 released (explicit) epoch 2
        0      named <- lease 7 active [gpu/3] named epoch 1 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool gpu size=3
         settle
         alice: grant gpu/1
         bob: grant gpu/2
         settle
         two: grant 2*gpu wait=60000
         settle
         named: grant gpu/3 wait=60000
         quick: grant gpu/3
         settle
         alice: release alice
         settle
         two: release two
         settle",
    ));
}

/// Grants of any member took the lowest one, which an earlier waiter had named.
#[test]
fn any_member_of_a_pool_is_none_that_an_earlier_waiter_names() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [gpu/2] alice epoch 1 fence 2 valid 89549
        0      frame 1.3 at 3: granted
        0      any <- lease 3 active [gpu/3] any epoch 1 fence 3 valid 89549
        0      quick <- resource_held: 1 wait for gpu
        0      frame 1.4 at 4: released, granted
        0      any <- lease 3 released (explicit) epoch 2
        0      later <- lease 5 active [gpu/3] later epoch 1 fence 5 valid 89549
        0      frame 1.5 at 6: released, granted
        0      alice <- lease 2 released (explicit) epoch 2
        0      both <- lease 7 active [gpu/1, gpu/2] both epoch 1 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool gpu size=3
         settle
         alice: grant gpu/2
         settle
         both: grant gpu/1,gpu/2 wait=60000
         settle
         any: grant 1*gpu
         settle
         quick: grant 1*gpu
         later: grant 1*gpu wait=60000
         settle
         any: release any
         settle
         alice: release alice
         settle",
    ));
}

/// A resource that is called like a pool, and held, was taken for the pool: grants of any member passed all waiters.
#[test]
fn a_held_resource_called_like_a_pool_opens_no_way_past_its_waiters() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted, granted
        0      alice <- lease 2 active [gpu/1] alice epoch 1 fence 2 valid 89549
        0      carol <- lease 3 active [gpu] carol epoch 1 fence 3 valid 89549
        0      quick <- resource_held: 1 wait for gpu
    "#]]
    .assert_eq(&tell(
        "admin: pool gpu size=2
         settle
         alice: grant gpu/1
         carol: grant gpu
         settle
         two: grant 2*gpu wait=60000
         settle
         quick: grant 1*gpu
         settle",
    ));
}

/// What came free went to the named waiters first, however late they had come.
#[test]
fn what_comes_free_is_offered_in_order_of_arrival_whether_named_or_not() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [gpu/1, gpu/2] alice epoch 1 fence 2 valid 89549
        0      frame 1.3 at 3: released, granted
        0      alice <- lease 2 released (explicit) epoch 2
        0      pool <- lease 4 active [gpu/1, gpu/2] pool epoch 1 fence 4 valid 89549
        0      frame 1.4 at 5: released, granted, granted
        0      pool <- lease 4 released (explicit) epoch 2
        0      one <- lease 6 active [gpu/1] one epoch 1 fence 6 valid 89549
        0      two <- lease 7 active [gpu/2] two epoch 1 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool gpu size=2
         settle
         alice: grant 2*gpu
         settle
         pool: grant 2*gpu wait=60000
         one: grant gpu/1 wait=60000
         two: grant gpu/2 wait=60000
         settle
         alice: release alice
         settle
         pool: release pool
         settle",
    ));
}

#[test]
fn a_waiter_for_a_held_member_keeps_nobody_from_the_rest_of_the_pool() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [gpu/1] alice epoch 1 fence 2 valid 89549
        0      frame 1.3 at 3: granted, granted
        0      any <- lease 3 active [gpu/2] any epoch 1 fence 3 valid 89549
        0      other <- lease 4 active [gpu/3] other epoch 1 fence 4 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool gpu size=3
         settle
         alice: grant gpu/1
         settle
         one: grant gpu/1 wait=60000
         settle
         any: grant 1*gpu
         other: grant gpu/3
         settle",
    ));
}

#[test]
fn a_waiter_for_a_pool_that_leaves_lets_the_named_ones_behind_it_go() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [gpu/1] alice epoch 1 fence 2 valid 89549
        1000   pool <- wait_timeout
        1000   frame 1.3 at 3: granted
        1000   named <- lease 3 active [gpu/2] named epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool gpu size=2
         settle
         alice: grant gpu/1
         settle
         pool: grant 2*gpu wait=1000
         named: grant gpu/2 wait=60000
         settle
         until 1000",
    ));
}

#[test]
fn a_waiter_that_names_a_member_and_leaves_lets_those_for_the_pool_go() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [x] alice epoch 1 fence 2 valid 89549
        0      named <- cancelled
        0      frame 1.3 at 3: granted
        0      pool <- lease 3 active [gpu/1, gpu/2] pool epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool gpu size=2
         settle
         alice: grant x
         settle
         named: grant gpu/1,x wait=60000
         settle
         pool: grant 2*gpu wait=60000
         settle
         gone: cancel named
         settle",
    ));
}

#[test]
fn waiters_for_a_pool_and_for_its_members_pass_each_other_only_after_30_s() {
    let mut desk = Desk::new();
    desk.play(
        "admin: pool gpu size=2
         settle
         alice: grant gpu/1 permanent
         bob: grant x permanent
         settle
         pool: grant 2*gpu permanent wait=600000
         named: grant gpu/2 permanent wait=600000
         settle
         until 29999",
    );
    assert_eq!(desk.engine.counters().waiters_passed, 0);
    desk.play("until 30000");
    assert_eq!(desk.engine.counters().waiters_passed, 1);
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted, granted
        0      alice <- lease 2 active [gpu/1] alice epoch 1 fence 2
        0      bob <- lease 3 active [x] bob epoch 1 fence 3
        30000  frame 1.3 at 4: granted
        30000  named <- lease 4 active [gpu/2] named epoch 1 fence 4
    "#]]
    .assert_eq(&desk.take_story());
}

/// The clock of the 30 s ran from the first request behind it, though it kept nobody from anything.
#[test]
fn a_waiter_for_what_is_held_blocks_nobody() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant a permanent
         bob: grant b permanent
         settle
         both: grant a,b permanent wait=600000
         onlyb: grant b permanent wait=600000
         quick: grant b
         settle
         until 40000
         bob: release bob
         settle
         until 69999",
    );
    assert_eq!(desk.engine.counters().waiters_passed, 0);
    desk.play("until 70000");
    assert_eq!(desk.engine.counters().waiters_passed, 1);
}

/// A bundle that names a member and wants any other one was served when only the named one was free.
#[test]
fn a_bundle_of_a_member_and_any_other_waits_for_both() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [p/1, p/2] alice epoch 1 fence 2 valid 89549
        0      frame 1.3 at 3: pool_defined
        0      admin <- done
        0      frame 1.4 at 4: pool_defined, granted
        0      admin <- done
        0      both <- lease 5 active [p/3, p/4] both epoch 1 fence 5 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool p size=2
         settle
         alice: grant 2*p
         settle
         both: grant p/3,1*p wait=60000
         settle
         admin: pool p size=3
         settle
         admin: pool p size=4
         settle",
    ));
}

/// An heir went to the end of the queue.
#[test]
fn a_wait_that_goes_on_for_another_try_keeps_its_place() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- cancelled
        0      frame 1.2 at 2: released, granted
        0      alice <- lease 1 released (explicit) epoch 2
        0      heir <- lease 3 active [a] bob epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         bob: grant a wait=60000 op=1
         carol: grant a wait=60000
         heir: grant a holder=bob wait=60000 op=1
         settle
         gone: cancel bob
         settle
         alice: release alice
         settle",
    ));
}

/// The heir's lease was tied to the connection that had broken.
#[test]
fn an_heir_waits_for_a_lease_of_its_own_connection() {
    expect![[r#"
        0      bob <- done
        0      heir <- done
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- cancelled
        0      frame 1.2 at 2: released, session_opened, granted
        0      alice <- lease 1 released (explicit) epoch 2
        0      heir <- lease 4 active [a] bob epoch 1 fence 4
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         bob: connect 7
         heir: connect 8
         settle
         bob: grant a holder=bob session=7 wait=60000 op=1
         settle
         heir: grant a holder=bob session=8 wait=60000 op=1
         settle
         gone: cancel bob
         bob: disconnect 7
         settle
         alice: release alice
         settle",
    ));
}

#[test]
fn an_interrupted_wait_asked_again_within_10_s_keeps_its_place() {
    for (asked_again, first) in [(9_999, "bob"), (10_000, "carol")] {
        let mut desk = Desk::new();
        desk.play(
            "alice: grant a
             settle
             bob: grant a wait=60000 op=1
             carol: grant a wait=60000
             settle
             gone: cancel bob
             settle",
        );
        desk.play(&format!("until {asked_again}"));
        desk.play(
            "bob: grant a wait=60000 op=1
             settle
             alice: release alice
             settle",
        );
        assert!(desk.leases.contains_key(first), "asked again after {asked_again} ms");
        assert_eq!(desk.leases.len(), 2, "alice, then {first}");
    }
}

#[test]
fn an_interrupted_wait_blocks_nobody_and_is_granted_to_nobody() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- cancelled
        0      frame 1.2 at 2: released
        0      alice <- lease 1 released (explicit) epoch 2
        0      frame 1.3 at 3: granted
        0      quick <- lease 3 active [a] quick epoch 1 fence 3 valid 89549
        0      other <- resource_held: a by lease 3 of quick
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         bob: grant a wait=60000 op=1
         settle
         gone: cancel bob
         settle
         alice: release alice
         settle
         quick: grant a
         other: grant a
         settle",
    ));
}

/// The place is that of what was waited for: under the same id nothing else is asked from it.
#[test]
fn the_place_of_an_interrupted_wait_is_not_for_another_bundle() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant a,b
         settle
         bob: grant a wait=60000 op=1 asked=7
         carol: grant b wait=60000
         settle
         gone: cancel bob
         settle
         bob: grant b wait=60000 op=1 asked=7
         settle
         alice: release alice
         settle",
    );
    assert!(desk.leases.contains_key("carol") && !desk.leases.contains_key("bob"));
}

/// Any number of retries joined one waiting operation: 263,000 took 2.3 GB and every place of the inbox.
#[test]
fn tries_that_join_a_wait_are_bounded() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play("alice: grant a\nsettle");
    for _ in 0..10 {
        for _ in 0..10_000 {
            desk.play("bob: grant a wait=60000 op=1");
        }
        desk.settle();
    }
    // Alice, and all but the sixteen that wait.
    assert_eq!(desk.answered, 1 + 100_000 - 16);
    assert_eq!(refusal(&desk, "bob"), "too_many_waiters");
    assert_eq!(desk.engine.status().waiters, 16);
    desk.play("alice: release alice\nsettle");
    assert_eq!(desk.answered, 1 + 100_000 + 1, "one lease, told to all sixteen");
    assert_eq!(desk.engine.status().waiters, 0);
}

#[test]
fn tries_that_join_a_wait_count_as_waiters() {
    let config = EngineConfig { waiters_max: 2, ..EngineConfig::default() };
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      again <- too_many_waiters
        0      other <- too_many_waiters
        0      joined <- cancelled
        0      frame 1.2 at 2: released, granted
        0      alice <- lease 1 released (explicit) epoch 2
        0      bob <- lease 3 active [a] bob epoch 1 fence 3 valid 89549
        0      more <- lease 3 active [a] bob epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell_with(
        config,
        "alice: grant a
         settle
         bob: grant a wait=60000 op=1
         joined: grant a holder=bob wait=60000 op=1
         again: grant a holder=bob wait=60000 op=1
         other: grant a wait=60000
         settle
         gone: cancel joined
         settle
         more: grant a holder=bob wait=60000 op=1
         settle
         alice: release alice
         settle",
    ));
}

/// A closed connection with 50,000 waits took seconds of one turn: each of them went over all the others.
#[test]
fn closing_many_joined_waits_looks_at_each_of_them_alone() {
    const WAITS: usize = 50_000;
    let mut desk = Desk::new();
    desk.told = false;
    desk.play("alice: grant a\nsettle");
    let mut tickets = Vec::new();
    for wait in 0..WAITS {
        let line = format!("grant a holder=bob wait=60000 op={}", wait / 16);
        let request = crate::words::request(&desk, "bob", &line);
        tickets.push(desk.ask("bob", request));
        if wait % 10_000 == 9_999 {
            desk.settle();
        }
    }
    assert_eq!(desk.engine.status().waiters, WAITS as u64);
    let before = desk.engine.waiters_looked_at();
    for chunk in tickets.chunks(10_000) {
        for ticket in chunk {
            desk.facts.push(Control::Cancel(*ticket));
        }
        desk.settle();
    }
    assert_eq!(desk.engine.status().waiters, 0);
    assert_eq!(desk.answered, 1 + WAITS, "each wait is answered once");
    let looked = desk.engine.waiters_looked_at() - before;
    assert!(looked <= WAITS as u64, "{looked} looks");
}

/// Each losing try and each hand-over copied the whole queue.
#[test]
fn a_long_queue_costs_a_losing_try_and_a_hand_over_a_few_looks() {
    const WAITS: u64 = 10_000;
    let mut desk = Desk::new();
    desk.told = false;
    desk.play("admin: pool p size=1\nsettle\nalice: grant p/1 permanent\nsettle");
    for wait in 0..WAITS {
        let wanted = if wait % 2 == 0 { "p/1" } else { "1*p" };
        desk.play(&format!("w{wait}: grant {wanted} permanent wait=3600000"));
    }
    desk.settle();
    assert_eq!(desk.engine.status().waiters, WAITS);
    let before = desk.engine.waiters_looked_at();
    for _ in 0..1_000 {
        desk.play("quick: grant p/1");
        desk.play("any: grant 1*p");
    }
    desk.settle();
    let looked = desk.engine.waiters_looked_at() - before;
    assert!(looked <= 2_000 * 2, "{looked} looks for 2,000 losing tries");
    let before = desk.engine.waiters_looked_at();
    desk.play("alice: release alice\nsettle");
    for wait in 0..100 {
        desk.play(&format!("w{wait}: release w{wait}\nsettle"));
    }
    assert!(desk.leases.contains_key("w100"));
    let looked = desk.engine.waiters_looked_at() - before;
    assert!(looked <= 101 * 12, "{looked} looks for 101 hand-overs");
}

#[test]
fn a_turn_serves_a_bounded_number_of_waiters_and_the_next_goes_on() {
    const NAMES: usize = 1_500;
    let mut desk = Desk::new();
    desk.told = false;
    for name in 0..NAMES {
        desk.play(&format!("h{name}: grant r{name}"));
    }
    desk.settle();
    for name in 0..NAMES {
        desk.play(&format!("w{name}: grant r{name} wait=60000"));
    }
    desk.settle();
    for name in 0..NAMES {
        desk.play(&format!("h{name}: release h{name}"));
    }
    let before = desk.engine.waiters_looked_at();
    desk.turn();
    let looked = desk.engine.waiters_looked_at() - before;
    assert!(looked <= 1_100, "{looked} looks in one turn");
    desk.settle();
    assert_eq!(desk.engine.status().waiters, 0);
    assert!((0..NAMES).all(|name| desk.leases.contains_key(&format!("w{name}"))));
}

/// One principal used to be able to take every place there is.
#[test]
fn one_principal_leaves_places_for_others() {
    let config = EngineConfig { waiters_per_principal_max: 2, ..EngineConfig::default() };
    let mut desk = Desk::with(config);
    desk.told = false;
    desk.play(
        "held: grant a permanent
         settle
         p1: grant a principal=p holder=h wait=60000 op=one
         again: grant a principal=p holder=h wait=60000 op=one
         p2: grant a principal=p wait=60000
         q1: grant a principal=q wait=60000
         settle",
    );
    assert_eq!(refusal(&desk, "p2"), "too_many_waiters", "a try that joined counts");
    assert!(!desk.answers.contains_key("q1"), "another principal may wait");
    desk.play("x: cancel p1\n settle\n p3: grant a principal=p wait=60000\n p4: grant a principal=p wait=60000\n settle");
    assert!(!desk.answers.contains_key("p3"), "the place came back, and the heir has its own");
    assert_eq!(refusal(&desk, "p4"), "too_many_waiters");
    desk.play("held: release held\n settle\n gone: release again\n settle");
    desk.play("p5: grant a principal=p wait=60000\n settle");
    assert!(!desk.answers.contains_key("p5"), "places of those who were served come back");
}
