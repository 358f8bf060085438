//! Bundles, pools and waiting, alike over every transport.

use expect_test::expect;

use super::contract::check;

#[test]
pub(crate) fn a_bundle_is_taken_whole_or_not_at_all() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r2] ttl=60000 grace=30000 valid=60000 remaining=60000
            acquire → ! resource_held blocking=[(resource=r2 lease_id=a holder=alice since=T remaining_ms=60000 waiters=0)] retry_after_ms=5000
            b: acquire → b bob active/alive heartbeat epoch=1 F2 [r1] ttl=60000 grace=30000 valid=60000 remaining=60000
            release a → a alice released heartbeat epoch=2 F1 [r2] ttl=60000 grace=30000 reason=explicit
            release b → b bob released heartbeat epoch=2 F2 [r1] ttl=60000 grace=30000 reason=explicit
            c: acquire → c carol active/alive heartbeat epoch=1 F3 [r2 r1] ttl=60000 grace=30000 valid=60000 remaining=60000
            acquire → ! bundle_empty
            acquire → ! bundle_empty
            acquire → ! duplicate_member name=r3
        "#]],
    );
}

#[test]
pub(crate) fn a_pool_gives_any_of_its_members() {
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
        why {"resource":"gpu"}
        "#,
        expect![[r#"
            pool → (pools=[])
            pool → ! pool_not_found pool=gpu
            acquire → ! pool_not_found pool=gpu
            pool → (name=gpu size=3 free=3 removed=false)
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [disk gpu/1 gpu/2] ttl=60000 grace=30000 valid=60000 remaining=60000
            pool → (name=gpu size=3 free=1 removed=false)
            acquire → ! pool_exhausted free=1 retry_after_ms=5000 wanted=2 pool=gpu
            acquire → ! resource_held blocking=[(resource=gpu/1 lease_id=a holder=alice since=T remaining_ms=60000 waiters=0)] retry_after_ms=5000
            b: acquire → b bob active/alive heartbeat epoch=1 F2 [gpu/3] ttl=60000 grace=30000 valid=60000 remaining=60000
            acquire → ! pool_exhausted free=0 retry_after_ms=5000 wanted=1 pool=gpu
            acquire → ! pool_exhausted free=0 retry_after_ms=5000 wanted=4 pool=gpu
            acquire → ! invalid_request
            acquire → ! pool_not_found pool=none
            pool → (name=gpu size=1 free=0 removed=false)
            pool → (name=gpu size=5 free=2 removed=false)
            pool → (pools=[(name=gpu size=5 free=2 removed=false)])
            pool → ! pool_in_use held=3 retry_after_ms=5000
            release a → a alice released heartbeat epoch=2 F1 [disk gpu/1 gpu/2] ttl=60000 grace=30000 reason=explicit
            release b → b bob released heartbeat epoch=2 F2 [gpu/3] ttl=60000 grace=30000 reason=explicit
            pool → (name=gpu size=0 free=0 removed=true)
            pool → ! pool_not_found pool=gpu
            pool → ! pool_not_found pool=gpu
            pool → (name=tpu size=1 free=1 removed=false)
            c: acquire → c carol active/alive heartbeat epoch=1 F3 [tpu/1] ttl=60000 grace=30000 valid=60000 remaining=60000
            pool → (name=tpu size=0 free=0 removed=true)
            inspect c → c carol revoking heartbeat epoch=2 F3 [tpu/1] ttl=60000 grace=30000 remaining=60000 reason=pool_removed waiters=[]
            pool → ! too_large field=size limit=pool_size value=65536
            why → (subject=gpu entries=[(at=T kind=pool_defined text=pool gpu now has 3 members) (at=T kind=pool_defined text=pool gpu now has 1 member) (at=T kind=pool_defined text=pool gpu now has 5 members) (at=T kind=pool_removed text=pool gpu was removed; leases on its members end with it)] left_out=0 oldest_lsn=1)
        "#]],
    );
}

#[test]
pub(crate) fn who_waits_is_served_in_order() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            acquire → ! resource_held blocking=[(resource=r lease_id=a holder=alice since=T remaining_ms=60000 waiters=2)] retry_after_ms=5000
            release a → a alice released heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 reason=explicit
            await b → b bob active/alive heartbeat epoch=1 F2 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            inspect b → b bob active/alive heartbeat epoch=1 F2 [r] ttl=60000 grace=30000 valid=60000 remaining=60000 waiters=[carol]
            revoke b → b bob revoking heartbeat epoch=2 F2 [r] ttl=60000 grace=30000 remaining=60000 reason=admin_force
            acknowledge b → b bob revoking heartbeat epoch=2 F2 [r] ttl=60000 grace=30000 remaining=0 reason=admin_force
            await c → c carol active/alive heartbeat epoch=1 F3 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            acquire → ! resource_held blocking=[(resource=r lease_id=c holder=carol since=T remaining_ms=60000 waiters=0)] retry_after_ms=5000
        "#]],
    );
}

#[test]
pub(crate) fn who_waits_for_a_bundle_is_not_overtaken_for_parts_of_it() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r1] ttl=60000 grace=30000 valid=60000 remaining=60000
            acquire → ! resource_held blocking=[(resource=r2 waiters=1)] retry_after_ms=5000
            d: acquire → d dora active/alive heartbeat epoch=1 F2 [r3] ttl=60000 grace=30000 valid=60000 remaining=60000
            release a → a alice released heartbeat epoch=2 F1 [r1] ttl=60000 grace=30000 reason=explicit
            await b → b bob active/alive heartbeat epoch=1 F3 [r1 r2] ttl=60000 grace=30000 valid=60000 remaining=60000
        "#]],
    );
}

#[test]
pub(crate) fn a_wait_has_an_end() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            await b → ! wait_timeout retry_after_ms=0
            inspect a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000 waiters=[]
            await c → ! ttl_out_of_range field=wait_ms
            pool → (name=gpu size=1 free=1 removed=false)
            d: acquire → d dora active/alive heartbeat epoch=1 F2 [gpu/1] ttl=60000 grace=30000 valid=60000 remaining=60000
            await e → ! wait_timeout retry_after_ms=0
            release d → d dora released heartbeat epoch=2 F2 [gpu/1] ttl=60000 grace=30000 reason=explicit
            await f → f fay active/alive heartbeat epoch=1 F3 [gpu/1] ttl=60000 grace=30000 valid=60000 remaining=60000
        "#]],
    );
}
