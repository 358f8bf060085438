//! What is refused, alike over every transport.

use expect_test::expect;
use serde_json::{Value, json};

use super::contract::check;
use super::daemon::{Served, id};
use super::http::Answer;

#[test]
pub(crate) fn durations_out_of_range_are_refused() {
    check(
        r#"
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","ttl_ms":999}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","ttl_ms":86400001}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","ttl_ms":18446744073709551615}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","ttl_ms":-1}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","ttl_ms":1.5}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","ttl_ms":"60000"}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","grace_ms":3600001}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","max_lifetime_ms":31536000001}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","reclaim_delay_ms":3600001}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","reserve_ms":0}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","reserve_ms":18446744073709551615}
        a: acquire {"resources":["r"],"holder":"a","mode":"heartbeat","ttl_ms":1000,"grace_ms":3600000}
        b: acquire {"resources":["s"],"holder":"a","mode":"heartbeat","ttl_ms":86400000,"grace_ms":0}
        c: acquire {"resources":["t"],"holder":"a","mode":"heartbeat","max_lifetime_ms":31536000000,"reclaim_delay_ms":3600000}
        "#,
        expect![[r#"
            acquire → ! ttl_out_of_range field=ttl_ms
            acquire → ! ttl_out_of_range field=ttl_ms
            acquire → ! ttl_out_of_range field=ttl_ms
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! ttl_out_of_range field=grace_ms
            acquire → ! ttl_out_of_range field=max_lifetime_ms
            acquire → ! ttl_out_of_range field=reclaim_delay_ms
            acquire → ! ttl_out_of_range field=reserve_ms
            acquire → ! ttl_out_of_range field=reserve_ms
            a: acquire → a a active/alive heartbeat epoch=1 F1 [r] ttl=1000 grace=3600000 valid=5000 remaining=5000
            b: acquire → b a active/alive heartbeat epoch=1 F2 [s] ttl=86400000 grace=0 valid=85970000 remaining=86400000
            c: acquire → c a active/alive heartbeat epoch=1 F3 [t] ttl=90000 grace=30000 valid=90000 remaining=90000
        "#]],
    );
}

#[test]
pub(crate) fn contradictions_are_refused() {
    check(
        r#"
        acquire {"resources":["r"],"holder":"a","mode":"permanent","ttl_ms":60000}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","ttl_ms":0}
        acquire {"resources":["r"],"holder":"a","session":"s:00000000","ttl_ms":60000}
        acquire {"resources":["r"],"holder":"a","session":"s:00000000","grace_ms":60000}
        acquire {"resources":["r"],"holder":"a","session":"s:00000000","mode":"heartbeat"}
        acquire {"resources":["r"],"holder":"a","session":"s:00000000"}
        acquire {"resources":["r"],"holder":"a","session":"nonsense"}
        acquire {"resources":["r"],"holder":"a","mode":"sometimes"}
        acquire {"resources":["r"],"holder":"a","mode":"session","ttl_ms":60000}
        a: acquire {"resources":["r"],"holder":"a","mode":"heartbeat"}
        drain a {"force":true}
        revoke a {"force":true}
        reclaim a {"reclaim":true}
        "#,
        expect![[r#"
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! session_not_found
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            a: acquire → a a active/alive heartbeat epoch=1 F1 [r] ttl=90000 grace=30000 valid=90000 remaining=90000
            drain a → ! invalid_request
            revoke a → ! invalid_request
            reclaim a → ! invalid_request
        "#]],
    );
}

#[test]
pub(crate) fn names_that_are_not_acceptable_are_refused() {
    check(
        r#"
        acquire {"resources":[""],"holder":"a","mode":"heartbeat"}
        acquire {"resources":["a\nb"],"holder":"a","mode":"heartbeat"}
        acquire {"resources":["a\u0000b"],"holder":"a","mode":"heartbeat"}
        acquire {"resources":["/a"],"holder":"a","mode":"heartbeat"}
        acquire {"resources":["a//b"],"holder":"a","mode":"heartbeat"}
        acquire {"resources":["a/../b"],"holder":"a","mode":"heartbeat"}
        acquire {"resources":["e\u0301"],"holder":"a","mode":"heartbeat"}
        acquire {"resources":["mdns/x"],"holder":"a","mode":"heartbeat"}
        s: acquire {"resources":[" a"],"holder":"a","mode":"heartbeat"}
        acquire {"resources":["r"],"holder":"","mode":"heartbeat"}
        acquire {"resources":["r"],"holder":"a\u0007","mode":"heartbeat"}
        acquire {"resources":["r"],"mode":"heartbeat"}
        acquire {"resources":["r"],"holder":7,"mode":"heartbeat"}
        acquire {"resources":"r","holder":"a","mode":"heartbeat"}
        acquire {"resources":["r"],"holder":"a","mode":"heartbeat","operation_id":""}
        a: acquire {"resources":["Fotos/größe ß 東京 %2F?#&=+","a/b/c"],"holder":"Åsa \"the\" <b>","mode":"heartbeat"}
        inspect a
        list {"resource_prefix":"Fotos/größe"}
        list {"holder":"Åsa \"the\" <b>"}
        why {"resource":"Fotos/größe ß 東京 %2F?#&=+"}
        "#,
        expect![[r#"
            acquire → ! invalid_name name=
            acquire → ! invalid_name name=a\nb
            acquire → ! invalid_name name=a\u{0}b
            acquire → ! invalid_name name=/a
            acquire → ! invalid_name name=a//b
            acquire → ! invalid_name name=a/../b
            acquire → ! invalid_name name=é
            acquire → ! invalid_name name=mdns/x
            s: acquire → s a active/alive heartbeat epoch=1 F1 [ a] ttl=90000 grace=30000 valid=90000 remaining=90000
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            acquire → ! invalid_request
            a: acquire → a Åsa "the" <b> active/alive heartbeat epoch=1 F2 [Fotos/größe ß 東京 %2F?#&=+ a/b/c] ttl=90000 grace=30000 valid=90000 remaining=90000
            inspect a → a Åsa "the" <b> active/alive heartbeat epoch=1 F2 [Fotos/größe ß 東京 %2F?#&=+ a/b/c] ttl=90000 grace=30000 valid=90000 remaining=90000 waiters=[]
            list → (leases=[a Åsa "the" <b> active/alive heartbeat epoch=1 F2 [Fotos/größe ß 東京 %2F?#&=+ a/b/c] ttl=90000 grace=30000 valid=90000 remaining=90000])
            list → (leases=[a Åsa "the" <b> active/alive heartbeat epoch=1 F2 [Fotos/größe ß 東京 %2F?#&=+ a/b/c] ttl=90000 grace=30000 valid=90000 remaining=90000])
            why → (subject=Fotos/größe ß 東京 %2F?#&=+ entries=[(at=T kind=granted lease_id=a actor=holder text=granted to Åsa "the" <b>: Fotos/größe ß 東京 %2F?#&=+, a/b/c; ttl 90 s (renew every 30 s), grace 30 s)] next=held by Åsa "the" <b>: ends when its holder releases it or stays silent for 2m 0s left_out=0 oldest_lsn=1)
        "#]],
    );
}

#[test]
pub(crate) fn ids_of_another_log_are_known_nowhere() {
    let foreign = foreign_id();
    let script = format!(
        r#"
        check {{"lease_id":"{foreign}","epoch":1}}
        why {{"lease":"{foreign}"}}
        list {{"cursor":"{foreign}"}}
        "#
    );
    check(
        &script,
        expect![[r#"
        check → (current=false)
        why → ! not_found
        list → ! invalid_request
    "#]],
    );
}

/// A lease id that another log gave.
fn foreign_id() -> String {
    let daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    lease["lease_id"].as_str().unwrap().to_owned()
}

#[test]
pub(crate) fn ids_of_another_log_name_no_lease_in_any_call() {
    let (foreign, daemon) = (foreign_id(), Served::start());
    daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    let mut lines = daemon.lines();
    let holder_calls = ["activate", "heartbeat", "release", "amend", "acknowledge"];
    let operator_calls = ["revoke", "reclaim", "drain", "revive"];
    for id in [foreign.as_str(), "nonsense", "", "k3f9-", "-1", "k3f9-99999999999999999999999", "größe"] {
        for call in holder_calls.iter().chain(&operator_calls) {
            let is_holder = holder_calls.contains(call);
            let mut body = if is_holder { json!({"epoch": 1}) } else { json!({}) };
            if *call == "amend" {
                body["attachment"] = Value::Null;
            }
            if !id.is_empty() {
                let path = format!(
                    "/v1/leases/{}/{call}",
                    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC)
                );
                let error = daemon.ask("POST", &path, body.clone()).refused("not_found");
                assert_eq!(error["lost"], is_holder, "{call} {id:?}: {error}");
            }
            body["lease_id"] = id.into();
            let error = lines.refused(json!({ *call: body }), "not_found");
            assert_eq!(error["lost"], is_holder, "{call} {id:?}: {error}");
        }
        lines.refused(json!({"inspect": {"lease_id": id}}), "not_found");
        lines.refused(json!({"resume": {"lease_id": id, "epoch": 1}}), "not_found");
    }
}

#[test]
pub(crate) fn unknown_fields_are_named() {
    let daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    let id = lease["lease_id"].as_str().unwrap();
    let mut lines = daemon.lines();
    let epoch = json!({"epoch": 1, "colour": "red"});
    let plain = json!({"colour": "red"});
    let bodies = [
        ("acquire", json!({"resources": ["s"], "holder": "a", "colour": "red"}), false),
        ("activate", epoch.clone(), true),
        ("heartbeat", epoch.clone(), true),
        ("release", epoch.clone(), true),
        ("acknowledge", epoch.clone(), true),
        ("amend", json!({"epoch": 1, "attachment": 1, "colour": "red"}), true),
        ("revoke", plain.clone(), true),
        ("reclaim", plain.clone(), true),
        ("drain", plain.clone(), true),
        ("revive", plain.clone(), true),
        ("check", json!({"resource": "r", "fence": 1, "colour": "red"}), false),
        ("list", plain.clone(), false),
        ("why", plain.clone(), false),
        ("status", plain.clone(), false),
        ("watch", plain.clone(), false),
        ("pool", plain.clone(), false),
        ("hello", plain.clone(), false),
    ];
    for (verb, mut body, of_lease) in bodies {
        if of_lease {
            let error = daemon.of_lease(&lease, verb, body.clone()).refused("invalid_request");
            assert!(error["message"].as_str().unwrap().contains("colour"), "{verb}: {error}");
            body["lease_id"] = id.into();
        }
        let error = lines.refused(json!({ verb: body }), "invalid_request");
        assert!(error["message"].as_str().unwrap().contains("colour"), "{verb}: {error}");
    }
    let by_path = [
        ("POST", "/v1/leases", json!({"resources": ["s"], "holder": "a", "colour": "red"})),
        ("POST", "/v1/sessions", json!({"holder": "a", "colour": "red"})),
        ("POST", "/v1/check", json!({"resource": "r", "fence": 1, "colour": "red"})),
        ("PUT", "/v1/pools/p", json!({"size": 1, "colour": "red"})),
        ("POST", "/v1/shutdown", plain.clone()),
        ("GET", "/v1/leases?colour=red", Value::Null),
        ("GET", "/v1/sessions?colour=red", Value::Null),
        ("GET", "/v1/resources?colour=red", Value::Null),
        ("GET", "/v1/events?colour=red", Value::Null),
        ("GET", "/v1/why?colour=red", Value::Null),
        ("DELETE", "/v1/pools/p?colour=red", Value::Null),
    ];
    for (method, path, body) in by_path {
        let error = daemon.ask(method, path, body).refused("invalid_request");
        assert!(error["message"].as_str().unwrap().contains("colour"), "{method} {path}: {error}");
    }
    assert_eq!(daemon.inspect(&lease)["state"], "active");
}

#[test]
pub(crate) fn what_is_too_large_is_refused() {
    let long = |length: usize| "x".repeat(length);
    let many = |count: usize| (0..count).map(|n| format!("r{n}")).collect::<Vec<_>>();
    let cases = [
        (json!({"resources": [long(255)]}), None),
        (json!({"resources": [long(256)]}), Some("invalid_name")),
        (json!({"holder": long(128)}), None),
        (json!({"holder": long(129)}), Some("invalid_request")),
        (json!({"resources": many(64)}), None),
        (json!({"resources": many(65)}), Some("bundle_too_large")),
        (json!({"attachment": long(4094)}), None),
        (json!({"attachment": long(4095)}), Some("too_large")),
        (json!({"operation_id": long(128)}), None),
        (json!({"operation_id": long(129)}), Some("invalid_request")),
    ];
    let daemon = Served::start();
    let mut lines = daemon.lines();
    for (fields, refused) in cases {
        let mut body = json!({"resources": ["r"], "holder": "a"});
        for (key, value) in fields.as_object().unwrap() {
            body[key] = value.clone();
        }
        let reply = daemon.ask("POST", "/v1/leases", body.clone());
        match refused {
            Some(code) => {
                reply.refused(code);
                lines.refused(json!({"acquire": body}), code);
            }
            None => {
                let lease = reply.good();
                daemon.of_lease(&lease, "release", json!({"epoch": 1})).good();
                if body["operation_id"].is_string() {
                    // The socket's peer is the same principal: its operation needs an id of its own.
                    body["operation_id"] = "y".repeat(128).into();
                }
                let lease = lines.good(json!({"acquire": body}), "acquired");
                lines.good(json!({"release": {"lease_id": id(&lease), "epoch": 1}}), "released");
            }
        }
    }
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    daemon.of_lease(&lease, "amend", json!({"epoch": 1, "attachment": long(4095)})).refused("too_large");
    daemon.of_lease(&lease, "revoke", json!({"reason": long(257)})).refused("too_large");
    daemon.of_lease(&lease, "release", json!({"epoch": 1, "reason": long(257)})).refused("too_large");
    assert_eq!(daemon.inspect(&lease)["state"], "active");
}
