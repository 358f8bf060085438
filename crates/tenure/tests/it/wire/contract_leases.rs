//! Leases from grant to end, alike over every transport.

use expect_test::expect;

use super::contract::check;

#[test]
pub(crate) fn a_lease_lives_and_is_given_back() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=10000 valid=60000 remaining=60000 attachment={"job":7}
            inspect a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=10000 valid=60000 remaining=60000 attachment={"job":7} waiters=[]
            heartbeat a → (lease_id=a epoch=1 valid_ms=60000 remaining_ms=60000 draining=false)
            heartbeat a → (lease_id=a epoch=1 valid_ms=60000 remaining_ms=60000 draining=false)
            heartbeat a → ! holder_mismatch
            amend a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=10000 valid=60000 remaining=60000 attachment=[1,"two"]
            amend a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=10000 valid=60000 remaining=60000
            inspect a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=10000 valid=60000 remaining=60000 waiters=[]
            release a → ! holder_mismatch
            release a → a alice released heartbeat epoch=2 F1 [r] ttl=60000 grace=10000 reason=explicit reason_text=done
            inspect a → a alice released heartbeat epoch=2 F1 [r] ttl=60000 grace=10000 reason=explicit reason_text=done waiters=[]
            heartbeat a → ! invalid_state lost state=released
            amend a → ! invalid_state lost state=released
            release a → ! invalid_state lost state=released
            activate a → ! invalid_state lost state=released
            acknowledge a → ! invalid_state lost state=released
            b: acquire → b bob active/alive heartbeat epoch=1 F2 [r] ttl=90000 grace=30000 valid=90000 remaining=90000
        "#]],
    );
}

#[test]
pub(crate) fn a_conflict_names_who_is_in_the_way() {
    check(
        r#"
        a: acquire {"resources":["r1"],"holder":"alice","mode":"heartbeat","ttl_ms":60000}
        b: acquire {"resources":["r2"],"holder":"bob","mode":"permanent"}
        acquire {"resources":["r1"],"holder":"carol","mode":"heartbeat"}
        acquire {"resources":["r0","r1","r2"],"holder":"carol","mode":"heartbeat"}
        c: acquire {"resources":["r0"],"holder":"carol","mode":"heartbeat"}
        "#,
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r1] ttl=60000 grace=30000 valid=60000 remaining=60000
            b: acquire → b bob active/alive permanent epoch=1 F2 [r2]
            acquire → ! resource_held blocking=[(resource=r1 lease_id=a holder=alice since=T remaining_ms=60000 waiters=0)] retry_after_ms=5000
            acquire → ! resource_held blocking=[(resource=r1 lease_id=a holder=alice since=T remaining_ms=60000 waiters=0) (resource=r2 lease_id=b holder=bob since=T waiters=0)] retry_after_ms=5000
            c: acquire → c carol active/alive heartbeat epoch=1 F3 [r0] ttl=90000 grace=30000 valid=90000 remaining=90000
        "#]],
    );
}

#[test]
pub(crate) fn a_stale_epoch_is_refused_with_the_current_one() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            heartbeat a → ! stale_epoch lost current=1
            amend a → ! stale_epoch lost current=1
            release a → ! stale_epoch lost current=1
            revoke a → ! stale_epoch current=1
            drain a → ! stale_epoch current=1
            revoke a → a alice revoking heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 remaining=60000 reason=admin_force reason_text=maintenance
            heartbeat a → ! stale_epoch lost current=2
            release a → ! stale_epoch lost current=2
            amend a → ! stale_epoch lost current=2
            heartbeat a → ! invalid_state lost state=revoking
            release a → ! invalid_state lost state=revoking
            reclaim a → ! stale_epoch current=2
            inspect a → a alice revoking heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 remaining=60000 reason=admin_force reason_text=maintenance waiters=[]
        "#]],
    );
}

#[test]
pub(crate) fn an_operation_id_makes_a_retry_harmless() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000 replayed=true
            acquire → ! operation_conflict
            acquire → ! operation_conflict
            amend a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000 attachment=1
            amend a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000 attachment=1 replayed=true
            release a → ! operation_conflict
            release a → a alice released heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 reason=explicit
            release a → a alice released heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 reason=explicit replayed=true
            acquire → a alice released heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 reason=explicit replayed=true
            b: acquire → b bob active/alive heartbeat epoch=1 F2 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            revoke b → b bob revoking heartbeat epoch=2 F2 [r] ttl=60000 grace=30000 remaining=60000 reason=admin_force
            revoke b → b bob revoking heartbeat epoch=2 F2 [r] ttl=60000 grace=30000 remaining=60000 reason=admin_force replayed=true
            revoke b → ! operation_conflict
        "#]],
    );
}

#[test]
pub(crate) fn a_reservation_is_activated_or_runs_out() {
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
        expect![[r#"
            a: acquire → a alice reserved heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 remaining=40000
            heartbeat a → ! invalid_state state=reserved
            drain a → ! invalid_state state=reserved
            acquire → ! resource_held blocking=[(resource=r lease_id=a holder=alice since=T remaining_ms=40000 waiters=0)] retry_after_ms=5000
            inspect a → a alice reserved heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 remaining=40000 waiters=[]
            activate a → ! stale_epoch lost current=1
            activate a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            activate a → ! invalid_state state=active
            heartbeat a → (lease_id=a epoch=1 valid_ms=60000 remaining_ms=60000 draining=false)
            b: acquire → b bob reserved heartbeat epoch=1 F2 [s] ttl=90000 grace=30000 remaining=40000
            release b → b bob released heartbeat epoch=2 F2 [s] ttl=90000 grace=30000 reason=explicit
            c: acquire → c carol reserved heartbeat epoch=1 F3 [s] ttl=90000 grace=30000 remaining=5000
            inspect c → c carol expired heartbeat epoch=2 F3 [s] ttl=90000 grace=30000 reason=reservation_expired waiters=[]
            activate c → ! invalid_state lost state=expired
            d: acquire → d dora reserved permanent epoch=1 F4 [s] remaining=40000
            activate d → d dora active/alive permanent epoch=1 F4 [s]
        "#]],
    );
}

#[test]
pub(crate) fn a_revoked_lease_is_reclaimed_when_that_is_safe() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            acknowledge a → ! invalid_state state=active
            reclaim a → ! invalid_state state=active
            revoke a → a alice revoking heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 remaining=60000 reason=admin_force reason_text=maintenance
            acquire → ! resource_held blocking=[(resource=r lease_id=a holder=alice since=T remaining_ms=60000 waiters=0)] retry_after_ms=5000
            reclaim a → ! not_yet remaining_ms=60000 retry_after_ms=60000
            revoke a → ! invalid_state state=revoking
            drain a → ! invalid_state state=revoking
            activate a → ! invalid_state lost state=revoking
            acknowledge a → ! stale_epoch lost current=2
            acknowledge a → a alice revoking heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 remaining=0 reason=admin_force reason_text=maintenance
            inspect a → a alice revoked heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 reason=admin_force reason_text=maintenance waiters=[]
            acknowledge a → a alice revoked heartbeat epoch=2 F1 [r] ttl=60000 grace=30000 reason=admin_force reason_text=maintenance replayed=true
            revoke a → ! invalid_state state=revoked
            reclaim a → ! invalid_state state=revoked
            b: acquire → b bob active/alive heartbeat epoch=1 F2 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            revoke b → b bob revoking heartbeat epoch=2 F2 [r] ttl=60000 grace=30000 remaining=60000 reason=admin_force
            acknowledge b → b bob revoking heartbeat epoch=2 F2 [r] ttl=60000 grace=30000 remaining=0 reason=admin_force
            inspect b → b bob revoking heartbeat epoch=2 F2 [r] ttl=60000 grace=30000 remaining=0 reason=admin_force waiters=[]
            reclaim b → b bob revoked heartbeat epoch=2 F2 [r] ttl=60000 grace=30000 reason=admin_force
            c: acquire → c carol active/alive heartbeat epoch=1 F3 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            revoke c → c carol revoking heartbeat epoch=2 F3 [r] ttl=60000 grace=30000 remaining=60000 reason=admin_force
            reclaim c → ! not_yet remaining_ms=60000 retry_after_ms=60000
            reclaim c → c carol revoked heartbeat epoch=2 F3 [r] ttl=60000 grace=30000 reason=admin_force
            why → (subject=c entries=[(at=T kind=granted lease_id=c actor=holder text=granted to carol: r; ttl 60 s (renew every 20 s), grace 30 s) (at=T kind=revoked lease_id=c actor=operator:ME text=revoked by ME: an operator ended it (admin_force); its resources stay taken until an operator reclaims them) (at=T kind=reclaimed lease_id=c actor=operator:ME text=reclaimed by force before its validity ended (ME): r free again)] left_out=0 oldest_lsn=1)
        "#]],
    );
}

#[test]
pub(crate) fn an_operator_drains_and_revives() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            revive a → ! not_draining
            drain a → a alice active/draining/operator heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000
            drain a → ! already_draining
            heartbeat a → (lease_id=a epoch=1 valid_ms=60000 remaining_ms=60000 draining=true)
            inspect a → a alice active/draining/operator heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000 waiters=[]
            amend a → a alice active/draining/operator heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000 attachment="still mine"
            revive a → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=30000 valid=60000 remaining=60000 attachment="still mine"
            revive a → ! not_draining
            heartbeat a → (lease_id=a epoch=1 valid_ms=60000 remaining_ms=60000 draining=false)
            b: acquire → b bob active/alive heartbeat epoch=1 F2 [s] ttl=60000 grace=0 valid=60000 remaining=60000
            drain b → b bob active/draining/operator heartbeat epoch=1 F2 [s] ttl=60000 grace=0 valid=60000 remaining=60000
            inspect b → b bob active/draining/operator heartbeat epoch=1 F2 [s] ttl=60000 grace=0 valid=60000 remaining=60000 waiters=[]
            release b → b bob released heartbeat epoch=2 F2 [s] ttl=60000 grace=0 reason=explicit
        "#]],
    );
}

#[test]
pub(crate) fn a_permanent_lease_ends_only_by_hand() {
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
        expect![[r#"
            a: acquire → a alice active/alive permanent epoch=1 F1 [r]
            b: acquire → b bob active/alive permanent epoch=1 F2 [s]
            c: acquire → c carol active/alive permanent epoch=1 F3 [t]
            heartbeat a → (lease_id=a epoch=1 draining=false)
            drain a → ! permanent_lease
            revive a → ! not_draining
            release a → a alice released permanent epoch=2 F1 [r] reason=explicit
            revoke b → b bob revoking permanent epoch=2 F2 [s] remaining=10000 reason=admin_force
            reclaim b → ! not_yet remaining_ms=10000 retry_after_ms=10000
            acknowledge b → b bob revoking permanent epoch=2 F2 [s] remaining=0 reason=admin_force
            inspect b → b bob revoked permanent epoch=2 F2 [s] reason=admin_force waiters=[]
        "#]],
    );
}

#[test]
pub(crate) fn a_guarded_store_asks_what_is_current() {
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
        expect![[r#"
            check → (current=false)
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r s] ttl=60000 grace=30000 valid=60000 remaining=60000
            check → (current=true lease_id=a holder=alice epoch=1 fence=F1)
            check → (current=true lease_id=a holder=alice epoch=1 fence=F1)
            check → (current=false lease_id=a holder=alice epoch=1 fence=F1)
            check → (current=true lease_id=a holder=alice epoch=1 fence=F1)
            check → (current=false lease_id=a holder=alice epoch=1 fence=F1)
            check → (current=false)
            revoke a → a alice revoking heartbeat epoch=2 F1 [r s] ttl=60000 grace=30000 remaining=60000 reason=admin_force
            check → (current=false)
            check → (current=false)
            check → (current=false)
            reclaim a → a alice revoked heartbeat epoch=2 F1 [r s] ttl=60000 grace=30000 reason=admin_force
            b: acquire → b bob reserved heartbeat epoch=1 F2 [r] ttl=90000 grace=30000 remaining=60000
            check → (current=false)
            activate b → b bob active/alive heartbeat epoch=1 F2 [r] ttl=90000 grace=30000 valid=90000 remaining=90000
            check → (current=true lease_id=b holder=bob epoch=1 fence=F2)
            check → (current=false lease_id=b holder=bob epoch=1 fence=F2)
            check → (current=false)
            check → ! invalid_request
            check → ! invalid_request
            check → ! invalid_request
            check → ! invalid_request
        "#]],
    );
}

#[test]
pub(crate) fn the_story_of_a_lease_is_told() {
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
        expect![[r#"
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [r] ttl=60000 grace=10000 valid=60000 remaining=60000
            why → (subject=a entries=[(at=T kind=granted lease_id=a actor=holder text=granted to alice: r; ttl 60 s (renew every 20 s), grace 10 s)] next=ends when its holder releases it or stays silent for 70 s left_out=0 oldest_lsn=1)
            drain a → a alice active/draining/operator heartbeat epoch=1 F1 [r] ttl=60000 grace=10000 valid=60000 remaining=60000
            revoke a → a alice revoking heartbeat epoch=2 F1 [r] ttl=60000 grace=10000 remaining=60000 reason=admin_force reason_text=now
            acknowledge a → a alice revoking heartbeat epoch=2 F1 [r] ttl=60000 grace=10000 remaining=0 reason=admin_force reason_text=now
            why → (subject=a entries=[(at=T kind=granted lease_id=a actor=holder text=granted to alice: r; ttl 60 s (renew every 20 s), grace 10 s) (at=T kind=draining lease_id=a actor=operator:ME text=drained by ME, saying "maintenance": still held until its grace ends or an operator revives it) (at=T kind=revoked lease_id=a actor=operator:ME text=revoked by ME, saying "now": an operator ended it (admin_force)) (at=T kind=reclaimed lease_id=a actor=daemon text=reclaimed: r free again; its holder acknowledged the loss)] left_out=0 oldest_lsn=1)
            why → (subject=r entries=[(at=T kind=granted lease_id=a actor=holder text=granted to alice: r; ttl 60 s (renew every 20 s), grace 10 s) (at=T kind=draining lease_id=a actor=operator:ME text=drained by ME, saying "maintenance": still held until its grace ends or an operator revives it) (at=T kind=revoked lease_id=a actor=operator:ME text=revoked by ME, saying "now": an operator ended it (admin_force)) (at=T kind=reclaimed lease_id=a actor=daemon text=reclaimed: r free again; its holder acknowledged the loss)] next=r is free: the next grant takes it left_out=0 oldest_lsn=1)
            why → ! not_found oldest=1
            why → ! not_found oldest=1
            why → ! not_found oldest=1
            why → ! not_found
            why → ! invalid_request
            why → ! invalid_request
            why → ! invalid_request
        "#]],
    );
}

#[test]
pub(crate) fn leases_are_listed_in_order_and_by_page() {
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
        list {"application":"leases","holder":"bob","resource_prefix":"x"}
        list {"face":"polling"}
        list {"state":"revoked"}
        list {"holder":"nobody"}
        list {"limit":0}
        list {"limit":1001}
        list {"cursor":"nonsense"}
        list {"state":"lost"}
        list {"colour":"red"}
        "#,
        expect![[r#"
            list → (leases=[])
            a: acquire → a alice active/alive heartbeat epoch=1 F1 [x/1] ttl=60000 grace=30000 valid=60000 remaining=60000
            b: acquire → b bob active/alive permanent epoch=1 F2 [x/2 y/1]
            c: acquire → c alice reserved heartbeat epoch=1 F3 [y/2] ttl=60000 grace=30000 remaining=60000
            d: acquire → d dora active/alive heartbeat epoch=1 F4 [z] ttl=60000 grace=30000 valid=60000 remaining=60000
            drain d → d dora active/draining/operator heartbeat epoch=1 F4 [z] ttl=60000 grace=30000 valid=60000 remaining=60000
            e: acquire → e emil active/alive permanent epoch=1 F5 [gone]
            release e → e emil released permanent epoch=2 F5 [gone] reason=explicit
            list → (leases=[a alice active/alive heartbeat epoch=1 F1 [x/1] ttl=60000 grace=30000 valid=60000 remaining=60000 b bob active/alive permanent epoch=1 F2 [x/2 y/1] c alice reserved heartbeat epoch=1 F3 [y/2] ttl=60000 grace=30000 remaining=60000 d dora active/draining/operator heartbeat epoch=1 F4 [z] ttl=60000 grace=30000 valid=60000 remaining=60000])
            one: list → (leases=[a alice active/alive heartbeat epoch=1 F1 [x/1] ttl=60000 grace=30000 valid=60000 remaining=60000 b bob active/alive permanent epoch=1 F2 [x/2 y/1]] next_cursor=c)
            two: list → (leases=[c alice reserved heartbeat epoch=1 F3 [y/2] ttl=60000 grace=30000 remaining=60000 d dora active/draining/operator heartbeat epoch=1 F4 [z] ttl=60000 grace=30000 valid=60000 remaining=60000])
            list → (leases=[a alice active/alive heartbeat epoch=1 F1 [x/1] ttl=60000 grace=30000 valid=60000 remaining=60000 c alice reserved heartbeat epoch=1 F3 [y/2] ttl=60000 grace=30000 remaining=60000])
            list → (leases=[c alice reserved heartbeat epoch=1 F3 [y/2] ttl=60000 grace=30000 remaining=60000])
            list → (leases=[d dora active/draining/operator heartbeat epoch=1 F4 [z] ttl=60000 grace=30000 valid=60000 remaining=60000])
            list → (leases=[b bob active/alive permanent epoch=1 F2 [x/2 y/1]])
            list → (leases=[b bob active/alive permanent epoch=1 F2 [x/2 y/1] c alice reserved heartbeat epoch=1 F3 [y/2] ttl=60000 grace=30000 remaining=60000])
            list → (leases=[b bob active/alive permanent epoch=1 F2 [x/2 y/1]])
            list → (leases=[])
            list → (leases=[])
            list → (leases=[])
            list → ! invalid_request
            list → ! invalid_request
            list → ! invalid_request
            list → ! invalid_request
            list → ! invalid_request
        "#]],
    );
}
