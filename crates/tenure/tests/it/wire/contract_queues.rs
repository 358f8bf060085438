//! Bundles, pools and waiting, alike over every transport.

use expect_test::expect;

use super::contract::check;

#[test]
fn a_bundle_is_taken_whole_or_not_at_all() {
    check(
        r#"
        a: acquire {"resources":["r2"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        acquire {"resources":["r1","r2"],"holder":"bob","mode":"heartbeat"}
        b: acquire {"resources":["r1"],"holder":"bob","mode":"heartbeat","ttl_ms":60000}
        release a {"epoch":1}
        release b {"epoch":1}
        c: acquire {"resources":["r2","r1"],"holder":"carol","mode":"heartbeat","ttl_ms":60000}
        acquire {"resources":[],"holder":"dora","mode":"heartbeat"}
        acquire {"holder":"dora","mode":"heartbeat"}
        acquire {"resources":["r3","r3"],"holder":"dora","mode":"heartbeat"}
        "#,
        expect![[]],
    );
}

#[test]
fn a_pool_gives_any_of_its_members() {
    check(
        r#"
        pool
        pool {"name":"gpu"}
        acquire {"pools":{"gpu":1},"holder":"alice","mode":"heartbeat"}
        pool {"name":"gpu","size":3}
        a: acquire {"pools":{"gpu":2},"resources":["disk"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        pool {"name":"gpu"}
        acquire {"pools":{"gpu":2},"holder":"bob","mode":"heartbeat"}
        acquire {"resources":["gpu/1"],"holder":"bob","mode":"heartbeat"}
        b: acquire {"resources":["gpu/3"],"holder":"bob","mode":"heartbeat","ttl_ms":60000}
        acquire {"pools":{"gpu":1},"holder":"carol","mode":"heartbeat"}
        acquire {"pools":{"gpu":4},"holder":"carol","mode":"heartbeat"}
        acquire {"pools":{"gpu":0},"holder":"carol","mode":"heartbeat"}
        acquire {"pools":{"none":1},"holder":"carol","mode":"heartbeat"}
        pool {"name":"gpu","size":1}
        pool {"name":"gpu","size":5}
        pool
        pool {"name":"gpu","remove":true}
        release a {"epoch":1}
        release b {"epoch":1}
        pool {"name":"gpu","remove":true}
        pool {"name":"gpu","remove":true}
        pool {"name":"gpu"}
        pool {"name":"tpu","size":1}
        c: acquire {"pools":{"tpu":1},"holder":"carol","mode":"heartbeat","ttl_ms":60000}
        pool {"name":"tpu","remove":true,"force":true}
        inspect c
        pool {"name":"big","size":65537}
        pool {"name":"","size":1}
        why {"resource":"gpu"}
        "#,
        expect![[]],
    );
}

#[test]
fn who_waits_is_served_in_order() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        & b: acquire {"resources":["r"],"holder":"bob","mode":"heartbeat","ttl_ms":60000,"wait_ms":30000}
        until a {"waiters":["bob"]}
        & c: acquire {"resources":["r"],"holder":"carol","mode":"heartbeat","ttl_ms":60000,"wait_ms":30000}
        until a {"waiters":["bob","carol"]}
        acquire {"resources":["r"],"holder":"dora","mode":"heartbeat"}
        release a {"epoch":1}
        await b
        until b {"waiters":["carol"]}
        inspect b
        revoke b
        acknowledge b {"epoch":1}
        await c
        acquire {"resources":["r"],"holder":"dora","mode":"heartbeat","wait_ms":0}
        "#,
        expect![[]],
    );
}

#[test]
fn who_waits_for_a_bundle_is_not_overtaken_for_parts_of_it() {
    check(
        r#"
        a: acquire {"resources":["r1"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        & b: acquire {"resources":["r1","r2"],"holder":"bob","mode":"heartbeat","ttl_ms":60000,"wait_ms":30000}
        until a {"waiters":["bob"]}
        acquire {"resources":["r2"],"holder":"carol","mode":"heartbeat"}
        d: acquire {"resources":["r3"],"holder":"dora","mode":"heartbeat","ttl_ms":60000}
        release a {"epoch":1}
        await b
        "#,
        expect![[]],
    );
}

#[test]
fn a_wait_has_an_end() {
    check(
        r#"
        a: acquire {"resources":["r"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        & b: acquire {"resources":["r"],"holder":"bob","mode":"heartbeat","wait_ms":30}
        await b
        inspect a
        & c: acquire {"resources":["r"],"holder":"carol","mode":"heartbeat","wait_ms":3600001}
        await c
        pool {"name":"gpu","size":1}
        d: acquire {"pools":{"gpu":1},"holder":"dora","mode":"heartbeat","ttl_ms":60000}
        & e: acquire {"pools":{"gpu":1},"holder":"emil","mode":"heartbeat","wait_ms":30}
        await e
        & f: acquire {"pools":{"gpu":1},"holder":"fay","mode":"heartbeat","ttl_ms":60000,"wait_ms":30000}
        until d {"waiters":["fay"]}
        release d {"epoch":1}
        await f
        "#,
        expect![[]],
    );
}
