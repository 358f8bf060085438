//! Leases from grant to end, alike over every transport.

use expect_test::expect;

use super::contract::check;

#[test]
fn a_lease_lives_and_is_given_back() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"grace_ms":10000,"attachment":{"job":7}}
        inspect a
        heartbeat a {"epoch":1}
        heartbeat a {"epoch":1,"holder":"alice"}
        heartbeat a {"epoch":1,"holder":"bob"}
        amend a {"epoch":1,"attachment":[1,"two"]}
        amend a {"epoch":1,"attachment":null}
        inspect a
        release a {"epoch":1,"holder":"bob"}
        release a {"epoch":1,"reason":"done"}
        inspect a
        heartbeat a {"epoch":1}
        amend a {"epoch":1,"attachment":1}
        release a {"epoch":1}
        activate a {"epoch":1}
        acknowledge a {"epoch":1}
        b: acquire {"resources":["r"],"holder":"bob","mode":"heartbeat"}
        "#,
        expect![[]],
    );
}

#[test]
fn a_conflict_names_who_is_in_the_way() {
    check(
        r#"
        a: acquire {"resources":["r1"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        b: acquire {"resources":["r2"],"holder":"bob","mode":"permanent"}
        acquire {"resources":["r1"],"holder":"carol","mode":"heartbeat"}
        acquire {"resources":["r0","r1","r2"],"holder":"carol","mode":"heartbeat"}
        c: acquire {"resources":["r0"],"holder":"carol","mode":"heartbeat"}
        "#,
        expect![[]],
    );
}

#[test]
fn a_stale_epoch_is_refused_with_the_current_one() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        heartbeat a {"epoch":2}
        amend a {"epoch":0,"attachment":1}
        release a {"epoch":7}
        revoke a {"epoch":7}
        drain a {"epoch":7}
        revoke a {"epoch":1,"reclaim":false,"reason":"maintenance"}
        heartbeat a {"epoch":1}
        release a {"epoch":1}
        amend a {"epoch":1,"attachment":1}
        heartbeat a {"epoch":2}
        release a {"epoch":2}
        reclaim a {"epoch":1}
        inspect a
        "#,
        expect![[]],
    );
}

#[test]
fn an_operation_id_makes_a_retry_harmless() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"operation_id":"one"}
        acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"operation_id":"one"}
        acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60001,"operation_id":"one"}
        acquire {"resources":["s"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"operation_id":"one"}
        amend a {"epoch":1,"attachment":1,"operation_id":"two"}
        amend a {"epoch":1,"attachment":1,"operation_id":"two"}
        release a {"epoch":1,"operation_id":"two"}
        release a {"epoch":1,"operation_id":"three"}
        release a {"epoch":1,"operation_id":"three"}
        acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"operation_id":"one"}
        b: acquire {"resources":["r"],"holder":"bob","mode":"heartbeat","ttl_ms":60000}
        revoke b {"operation_id":"four"}
        revoke b {"operation_id":"four"}
        revoke b {"operation_id":"four","reason":"other words"}
        "#,
        expect![[]],
    );
}

#[test]
fn a_reservation_is_activated_or_runs_out() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"reserve_ms":40000}
        heartbeat a {"epoch":1}
        drain a
        acquire {"resources":["r"],"holder":"bob","mode":"heartbeat"}
        inspect a
        activate a {"epoch":2}
        activate a {"epoch":1}
        activate a {"epoch":1}
        heartbeat a {"epoch":1}
        b: acquire {"resources":["s"],"holder":"bob","mode":"heartbeat","reserve_ms":40000}
        release b {"epoch":1}
        c: acquire {"resources":["s"],"holder":"carol","mode":"heartbeat","reserve_ms":20}
        until c {"state":"expired"}
        inspect c
        activate c {"epoch":1}
        d: acquire {"resources":["s"],"holder":"dora","mode":"permanent","reserve_ms":40000}
        activate d {"epoch":1}
        "#,
        expect![[]],
    );
}

#[test]
fn a_revoked_lease_is_reclaimed_when_that_is_safe() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        acknowledge a {"epoch":1}
        reclaim a
        revoke a {"reason":"maintenance"}
        acquire {"resources":["r"],"holder":"bob","mode":"heartbeat"}
        reclaim a
        revoke a
        drain a
        activate a {"epoch":2}
        acknowledge a {"epoch":3}
        acknowledge a {"epoch":1}
        until a {"state":"revoked"}
        inspect a
        acknowledge a {"epoch":1}
        revoke a
        reclaim a
        b: acquire {"resources":["r"],"holder":"bob","mode":"heartbeat","ttl_ms":60000}
        revoke b {"reclaim":false}
        acknowledge b {"epoch":2}
        inspect b
        reclaim b {"epoch":2}
        c: acquire {"resources":["r"],"holder":"carol","mode":"heartbeat","ttl_ms":60000}
        revoke c {"reclaim":false}
        reclaim c {"force":false}
        reclaim c {"force":true}
        why {"lease":"$c"}
        "#,
        expect![[]],
    );
}

#[test]
fn an_operator_drains_and_revives() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"grace_ms":30000}
        revive a
        drain a {"reason":"maintenance"}
        drain a
        heartbeat a {"epoch":1}
        inspect a
        amend a {"epoch":1,"attachment":"still mine"}
        revive a {"reason":"never mind"}
        revive a
        heartbeat a {"epoch":1}
        b: acquire {"resources":["s"],"holder":"bob","mode":"heartbeat","ttl_ms":60000,"grace_ms":0}
        drain b
        inspect b
        release b {"epoch":1}
        "#,
        expect![[]],
    );
}

#[test]
fn a_permanent_lease_ends_only_by_hand() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","ttl_ms":0}
        b: acquire {"resources":["s"],"holder":"bob","mode":"permanent","ttl_ms":0}
        c: acquire {"resources":["t"],"holder":"carol","mode":"permanent"}
        heartbeat a {"epoch":1}
        drain a
        revive a
        release a {"epoch":1}
        revoke b
        reclaim b
        acknowledge b {"epoch":1}
        until b {"state":"revoked"}
        inspect b
        "#,
        expect![[]],
    );
}

#[test]
fn a_guarded_store_asks_what_is_current() {
    check(
        r#"
        check {"resource":"r","fence":1}
        a: acquire {"resources":["r","s"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        check {"resource":"r","fence":$a.fence}
        check {"resource":"s","fence":$a.fence}
        check {"resource":"r","fence":1}
        check {"lease_id":"$a","epoch":1}
        check {"lease_id":"$a","epoch":2}
        check {"lease_id":"nonsense","epoch":1}
        revoke a {"reclaim":false}
        check {"resource":"r","fence":$a.fence}
        check {"lease_id":"$a","epoch":1}
        check {"lease_id":"$a","epoch":2}
        reclaim a {"force":true}
        b: acquire {"resources":["r"],"holder":"bob","mode":"heartbeat","reserve_ms":60000}
        check {"resource":"r","fence":$b.fence}
        activate b {"epoch":1}
        check {"resource":"r","fence":$b.fence}
        check {"resource":"r","fence":$a.fence}
        check {"lease_id":"$a","epoch":1}
        check {"resource":"r"}
        check {"resource":"r","epoch":1}
        check {"resource":"r","fence":1,"lease_id":"$b","epoch":1}
        check {"resource":"r","fence":1,"colour":"red"}
        "#,
        expect![[]],
    );
}

#[test]
fn the_story_of_a_lease_is_told() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"grace_ms":10000}
        why {"lease":"$a"}
        drain a {"reason":"maintenance"}
        revoke a {"reason":"now"}
        acknowledge a {"epoch":1}
        until a {"state":"revoked"}
        why {"lease":"$a"}
        why {"resource":"r"}
        why {"resource":"nobody"}
        why {"session":"s:00000000"}
        why {"registration":"00000000"}
        why {"lease":"nonsense"}
        why
        why {"lease":"$a","resource":"r"}
        why {"colour":"red"}
        "#,
        expect![[]],
    );
}

#[test]
fn leases_are_listed_in_order_and_by_page() {
    check(
        r#"
        list
        a: acquire {"resources":["x/1"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        b: acquire {"resources":["x/2","y/1"],"holder":"bob","mode":"permanent"}
        c: acquire {"resources":["y/2"],"holder":"alice","mode":"heartbeat","ttl_ms":60000,"reserve_ms":60000}
        d: acquire {"resources":["z"],"holder":"dora","mode":"heartbeat","ttl_ms":60000}
        drain d
        e: acquire {"resources":["gone"],"holder":"emil","mode":"permanent"}
        release e {"epoch":1}
        list
        one: list {"limit":2}
        two: list {"limit":2,"cursor":"$one.next_cursor"}
        list {"holder":"alice"}
        list {"state":"reserved"}
        list {"liveness":"draining"}
        list {"mode":"permanent"}
        list {"resource_prefix":"y/"}
        list {"face":"leases","holder":"bob","resource_prefix":"x"}
        list {"face":"polling"}
        list {"state":"revoked"}
        list {"holder":"nobody"}
        list {"limit":0}
        list {"limit":1001}
        list {"cursor":"nonsense"}
        list {"state":"lost"}
        list {"colour":"red"}
        "#,
        expect![[]],
    );
}
