//! The registry cases of the seed, by name. The two about prefixes belong to another face.

use crate::script::check;
use expect_test::expect;

#[test]
fn permanent_never_reaped() {
    check(
        "      0 grant r1 holder=a permanent
               0 next
               0 grant r2 holder=b heartbeat ttl=90 grace=30
        31536000 standings
        31536000 next",
        expect![[r#"
            0   grant r1 holder=a permanent → L1 valid –
                  0 L1 granted r1 to a
            0   next → –
            0   grant r2 holder=b heartbeat ttl=90 grace=30 → L2 valid 88
                  0 L2 granted r2 to b
                 90 ~ L2 silent, seen 0, until 120
                120 ~ L2 over heartbeat_expired, seen 0, promised until 90
                120 L2 revoked by daemon heartbeat_expired epoch 2
                120 ~ L2 due for reclaim, PromiseOver
                120 L2 reclaimed heartbeat_expired PromiseOver r2 of b
            31536000 standings → [L1 alive]
            31536000 next → –
        "#]],
    );
}

#[test]
fn heartbeat_alive_within_lease_is_not_reaped() {
    check(
        "  0 grant r1 holder=a heartbeat ttl=90 grace=30
          89 show L1
          89 heartbeat L1
         178 show L1
         179 heartbeat L1
         268 show L1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            89  show L1 → active alive seen 0 deadline 90 valid 0
            89  heartbeat L1 → valid 88 margin 1
            178 show L1 → active alive seen 89 deadline 179 valid 0
            179 heartbeat L1 → valid 88 margin 0
            268 show L1 → active alive seen 179 deadline 269 valid 0
        "#]],
    );
}

#[test]
fn heartbeat_past_lease_transitions_to_draining() {
    check(
        "  0 grant r1 holder=a heartbeat ttl=90 grace=30
          89 show L1
          90 wait
          90 show L1
         119 show L1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            89  show L1 → active alive seen 0 deadline 90 valid 0
            90  wait
                 90 ~ L1 silent, seen 0, until 120
            90  show L1 → active draining(silence) seen 0 deadline 120 valid 0
            119 show L1 → active draining(silence) seen 0 deadline 120 valid 0
        "#]],
    );
}

#[test]
fn heartbeat_past_lease_and_grace_is_reaped_payload_returned() {
    check(
        "  0 grant mdns/web holder=a heartbeat ttl=90 grace=30 face=registrations at_once data=port:80
         200 wait
         200 heartbeat L1",
        expect![[r#"
            0   grant mdns/web holder=a heartbeat ttl=90 grace=30 face=registrations at_once data=port:80 → L1 valid –
                  0 L1 granted mdns/web to a
                 90 ~ L1 silent, seen 0, until 120
                120 ~ L1 over heartbeat_expired, seen 0, promised until 0
                120 L1 revoked by daemon heartbeat_expired epoch 2
                120 ~ L1 due for reclaim, AtOnce
                120 L1 reclaimed heartbeat_expired AtOnce mdns/web of a registrations heartbeat data 'port:80'
            200 wait
            200 heartbeat L1 → invalid_state revoked
        "#]],
    );
}

#[test]
fn heartbeat_revives_draining() {
    check(
        "  0 grant r1 holder=a heartbeat ttl=90 grace=30
          95 standings
         119 heartbeat L1
         119 show L1
         208 standings
         209 wait
         239 standings",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
                 90 ~ L1 silent, seen 0, until 120
            95  standings → [L1 draining(silence)]
            119 heartbeat L1 → valid 88 margin – returned
                119 ~ L1 returned
            119 show L1 → active alive seen 119 deadline 209 valid 88
            208 standings → [L1 alive]
            209 wait
                209 ~ L1 silent, seen 119, until 239
            239 standings → [L1 draining(silence)]
                239 ~ L1 over heartbeat_expired, seen 119, promised until 209
                239 L1 revoked by daemon heartbeat_expired epoch 2
                239 ~ L1 due for reclaim, PromiseOver
                239 L1 reclaimed heartbeat_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn session_alive_is_not_reaped() {
    check(
        "      0 connect 7 grace=30
               0 grant r1 holder=a session=7
               0 next
        31536000 show L1",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   next → –
            31536000 show L1 → active alive seen 0 deadline – valid –
        "#]],
    );
}

#[test]
fn session_drain_marks_all_session_registrations() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
         1 grant r2 holder=a session=7
         2 grant r3 holder=a session=7
        10 close 7
        10 standings
        39 standings",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            1   grant r2 holder=a session=7 → L2 valid –
                  1 L2 granted r2 to a
            2   grant r3 holder=a session=7 → L3 valid –
                  2 L3 granted r3 to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            10  standings → [L1 draining(silence), L2 draining(silence), L3 draining(silence)]
            39  standings → [L1 draining(silence), L2 draining(silence), L3 draining(silence)]
        "#]],
    );
}

#[test]
fn session_drain_does_not_touch_other_sessions() {
    check(
        "0 connect 7 grace=30
         0 connect 8 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=b session=8
         0 grant r3 holder=c heartbeat ttl=90 grace=30
        10 close 7
        11 standings
        40 wait
        41 standings",
        expect![[r#"
            0   connect 7 grace=30
            0   connect 8 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=b session=8 → L2 valid –
                  0 session 8 opened
                  0 L2 granted r2 to b
            0   grant r3 holder=c heartbeat ttl=90 grace=30 → L3 valid 88
                  0 L3 granted r3 to c
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            11  standings → [L1 draining(silence), L2 alive, L3 alive]
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
                 40 L1 revoked by daemon session_expired epoch 2
                 40 ~ L1 due for reclaim, PromiseOver
                 40 L1 reclaimed session_expired PromiseOver r1 of a
            41  standings → [L2 alive, L3 alive]
        "#]],
    );
}

#[test]
fn session_grace_elapsed_is_reaped() {
    check(
        "0 connect 7 grace=30
         0 grant r1,r2 holder=a session=7
        10 close 7
        39 standings
        40 wait
        41 session 7",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1,r2 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1,r2 to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            39  standings → [L1 draining(silence)]
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
                 40 L1 revoked by daemon session_expired epoch 2
                 40 ~ L1 due for reclaim, PromiseOver
                 40 L1 reclaimed session_expired PromiseOver r1,r2 of a
            41  session 7 → unknown
        "#]],
    );
}

#[test]
fn force_drain_and_force_revive() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 drain L1
        10 standings
        20 revive L1
        20 standings
        30 drain L1
       119 standings
       120 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            10  standings → [L1 draining(operator)]
            20  revive L1
                 20 L1 revived
            20  standings → [L1 alive]
            30  drain L1
                 30 L1 draining
                 90 ~ L1 over admin_force, drained since 30
                 90 L1 revoked by daemon admin_force drained epoch 2
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed admin_force PromiseOver r1 of a
            119 standings → []
            120 wait
        "#]],
    );
}

#[test]
fn name_and_type_reconnection_revives_draining_entry() {
    check(
        "0 connect 7 grace=30
         0 grant mdns/web holder=a session=7 face=registrations at_once
        10 close 7
        20 connect 8 grace=30
        20 standings
        20 grant mdns/web holder=b session=8 face=registrations at_once take_over=L1
        20 standings
        40 wait
       100 show L1",
        expect![[r#"
            0   connect 7 grace=30
            0   grant mdns/web holder=a session=7 face=registrations at_once → L1 valid –
                  0 session 7 opened
                  0 L1 granted mdns/web to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            20  connect 8 grace=30
            20  standings → [L1 draining(silence)]
            20  grant mdns/web holder=b session=8 face=registrations at_once take_over=L1 → L1 valid –
                 20 session 8 opened
                 20 L1 rebound to b session 8 epoch 2 taken over
            20  standings → [L1 alive]
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
            100 show L1 → active alive seen 20 deadline – valid –
        "#]],
    );
}

#[test]
fn reconnection_with_changed_payload_returns_old_payload() {
    check(
        "0 connect 7 grace=30
         0 grant mdns/web holder=a session=7 face=registrations at_once data=port:80 attach=old
        10 close 7
        20 connect 8 grace=30
        20 attachment L1
        20 grant mdns/web holder=b session=8 face=registrations at_once take_over=L1 data=port:81 attach=new
        20 attachment L1",
        expect![[r#"
            0   connect 7 grace=30
            0   grant mdns/web holder=a session=7 face=registrations at_once data=port:80 attach=old → L1 valid –
                  0 session 7 opened
                  0 L1 granted mdns/web to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            20  connect 8 grace=30
            20  attachment L1 → 'old' data 'port:80' holder a
            20  grant mdns/web holder=b session=8 face=registrations at_once take_over=L1 data=port:81 attach=new → L1 valid –
                 20 session 8 opened
                 20 L1 rebound to b session 8 epoch 2 taken over attachment 'new'
            20  attachment L1 → 'new' data 'port:81' holder b
        "#]],
    );
}

#[test]
fn counts_reflect_current_state() {
    check(
        "0 counts
         0 connect 7 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a heartbeat ttl=90 grace=30
         0 grant r3 holder=a permanent
         0 grant r4 holder=a heartbeat ttl=90 grace=30 reserve=20
         0 counts
        10 activate L4
        10 drain L4
        10 counts
        10 standings
        20 revoke L3
        20 counts
        30 close 7
       120 counts
       130 counts",
        expect![[r#"
            0   counts → []
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a heartbeat ttl=90 grace=30 → L2 valid 88
                  0 L2 granted r2 to a
            0   grant r3 holder=a permanent → L3 valid –
                  0 L3 granted r3 to a
            0   grant r4 holder=a heartbeat ttl=90 grace=30 reserve=20 → L4 valid –
                  0 L4 granted r4 to a until 20
            0   counts → [reserved heartbeat leases=1, active session leases=1, active heartbeat leases=1, active permanent leases=1]
            10  activate L4 → valid 88
                 10 L4 activated
            10  drain L4
                 10 L4 draining
            10  counts → [active session leases=1, active heartbeat leases=2, active permanent leases=1]
            10  standings → [L1 alive, L2 alive, L3 alive, L4 draining(operator)]
            20  revoke L3
                 20 L3 revoked by root admin_force epoch 2
            20  counts → [active session leases=1, active heartbeat leases=2, revoking permanent leases=1]
            30  close 7
                 30 ~ session 7 silent, seen 30, until 60
                 30 ~ L3 due for reclaim, PromiseOver
                 30 L3 reclaimed admin_force PromiseOver r3 of a
                 60 ~ session 7 over, grace 30, disconnected at 30
                 60 session 7 closed session_expired
                 60 L1 revoked by daemon session_expired epoch 2
                 60 ~ L1 due for reclaim, PromiseOver
                 60 L1 reclaimed session_expired PromiseOver r1 of a
                 90 ~ L2 silent, seen 0, until 120
                100 ~ L4 over admin_force, drained since 10
                100 L4 revoked by daemon admin_force drained epoch 2
                100 ~ L4 due for reclaim, PromiseOver
                100 L4 reclaimed admin_force PromiseOver r4 of a
            120 counts → [active heartbeat leases=1]
                120 ~ L2 over heartbeat_expired, seen 0, promised until 90
                120 L2 revoked by daemon heartbeat_expired epoch 2
                120 ~ L2 due for reclaim, PromiseOver
                120 L2 reclaimed heartbeat_expired PromiseOver r2 of a
            130 counts → []
        "#]],
    );
}

#[test]
fn reap_returns_payloads_for_goodbye() {
    check(
        "0 connect 7 grace=30
         0 grant mdns/a,mdns/b holder=web session=7 face=registrations at_once data=port:80
         0 grant mdns/c holder=api heartbeat ttl=20 grace=30 face=registrations at_once data=port:81
         0 grant mdns/d holder=db permanent face=registrations at_once data=port:82
        10 close 7
        60 revoke L3",
        expect![[r#"
            0   connect 7 grace=30
            0   grant mdns/a,mdns/b holder=web session=7 face=registrations at_once data=port:80 → L1 valid –
                  0 session 7 opened
                  0 L1 granted mdns/a,mdns/b to web
            0   grant mdns/c holder=api heartbeat ttl=20 grace=30 face=registrations at_once data=port:81 → L2 valid –
                  0 L2 granted mdns/c to api
            0   grant mdns/d holder=db permanent face=registrations at_once data=port:82 → L3 valid –
                  0 L3 granted mdns/d to db
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
                 20 ~ L2 silent, seen 0, until 50
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
                 40 L1 revoked by daemon session_expired epoch 2
                 40 ~ L1 due for reclaim, AtOnce
                 40 L1 reclaimed session_expired AtOnce mdns/a,mdns/b of web registrations session data 'port:80'
                 50 ~ L2 over heartbeat_expired, seen 0, promised until 0
                 50 L2 revoked by daemon heartbeat_expired epoch 2
                 50 ~ L2 due for reclaim, AtOnce
                 50 L2 reclaimed heartbeat_expired AtOnce mdns/c of api registrations heartbeat data 'port:81'
            60  revoke L3
                 60 L3 revoked by root admin_force epoch 2
                 60 ~ L3 due for reclaim, AtOnce
                 60 L3 reclaimed admin_force AtOnce mdns/d of db registrations permanent data 'port:82'
        "#]],
    );
}
