//! Leases by hand, against a real daemon.

use expect_test::{Expect, expect};
use serde_json::json;

use crate::cli_daemon::Daemon;

fn check(daemon: &Daemon, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&daemon.plain(arguments));
}

#[test]
fn the_life_of_a_lease() {
    let daemon = Daemon::start();
    check(
        &daemon,
        &["lease", "acquire", "printer", "--holder", "alice", "--ttl", "1m"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state active, alive
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 1
            fence FENCE
            granted now (TIME)
            last seen now (TIME)
            valid for SPAN
            next drains unless its holder renews it in SPAN (TIME)
            application leases
            --- err
            hint: renew this lease with: tenure lease heartbeat TAG-1 --epoch 1
        "#]],
    );
    check(
        &daemon,
        &["lease", "ls"],
        expect![[r#"
        exit 0
        --- out
        ID HOLDER STATE MODE EPOCH RESOURCES LEFT AGE GRANTED
        TAG-1 alice active, alive heartbeat 1 printer SPAN SPAN TIME
        --- err
        1 lease at lsn 1
    "#]],
    );
    // By the name of what it covers.
    check(
        &daemon,
        &["lease", "show", "printer"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state active, alive
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 1
            fence FENCE
            granted now (TIME)
            last seen now (TIME)
            valid for SPAN
            next drains unless its holder renews it in SPAN (TIME)
            application leases
            --- err
        "#]],
    );
    check(
        &daemon,
        &["lease", "heartbeat", "printer"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            epoch 1
            valid for SPAN
            --- err
        "#]],
    );
    let lease = daemon.object(&["lease", "show", "printer"]);
    let id = lease["lease_id"].as_str().unwrap();
    check(
        &daemon,
        &["lease", "amend", id, "--attachment", r#"{"job":7}"#],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state active, alive
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 1
            fence FENCE
            granted now (TIME)
            last seen now (TIME)
            valid for SPAN
            next drains unless its holder renews it in SPAN (TIME)
            application leases
            attachment {"job":7}
            --- err
        "#]],
    );
    check(
        &daemon,
        &["lease", "release", id, "--epoch", "1", "--reason", "done"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state released
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 2
            fence FENCE
            granted now (TIME)
            ended now (TIME)
            reason explicit: done
            application leases
            --- err
        "#]],
    );
    check(
        &daemon,
        &["lease", "ls"],
        expect![[r#"
        exit 0
        --- out
        --- err
        0 leases at lsn 3
    "#]],
    );
    check(
        &daemon,
        &["lease", "show", "printer"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: "printer" is neither a lease ID nor a resource that a lease holds
            hint: tenure lease ls, or tenure why printer
        "#]],
    );
    check(
        &daemon,
        &["lease", "heartbeat", id, "--epoch", "1"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: the lease was released (invalid_state)
            hint: tenure lease show shows its state, tenure why its history
        "#]],
    );
}

#[test]
fn json_is_the_object_of_the_api() {
    let daemon = Daemon::start();
    let arguments = ["lease", "acquire", "a", "b", "--holder", "alice", "--ttl", "30s", "--grace", "5s"];
    let lease = daemon.object(&[&arguments[..], &["--max-lifetime", "1h", "--reclaim-delay", "2s"]].concat());
    assert_eq!(lease["resources"], json!(["a", "b"]));
    assert_eq!(
        (&lease["ttl_ms"], &lease["grace_ms"], &lease["valid_ms"]),
        (&30_000.into(), &5_000.into(), &29_849.into())
    );
    assert_eq!((&lease["mode"], &lease["state"]), (&"heartbeat".into(), &"active".into()));
    let list = daemon.object(&["lease", "ls"]);
    assert_eq!(list["leases"].as_array().unwrap().len(), 1);
    assert_eq!(list["next_cursor"], json!(null));
    assert!(list["lsn"].as_u64().unwrap() > 0);
    assert_eq!(daemon.object(&["lease", "show", "a"])["lease_id"], lease["lease_id"]);
    assert!(daemon.object(&["lease", "heartbeat", "a"])["valid_ms"].as_u64().unwrap() <= 29_849);
}

#[test]
fn the_usual_holder_is_the_caller() {
    let daemon = Daemon::start();
    let lease = daemon.object(&["lease", "acquire", "a"]);
    let holder = lease["holder"].as_str().unwrap();
    let (user, host) = holder.split_once('@').unwrap();
    assert!(!user.is_empty() && !host.is_empty(), "{holder}");
    assert_eq!(daemon.object(&["lease", "acquire", "b"])["holder"], lease["holder"]);
}

// By the command line a lease and a session had 30 s and no grace, over HTTP 90 s and 30 s (record 0088).
#[test]
fn what_is_renewed_by_hand_has_the_same_times_however_it_was_taken() {
    let daemon = Daemon::start();
    let times = |shown: &serde_json::Value| (shown["ttl_ms"].as_u64(), shown["grace_ms"].as_u64());
    let by_hand = (Some(90_000), Some(30_000));
    let lease = daemon.acquire(&json!({"resources": ["a"], "holder": "h"}));
    assert_eq!(times(&daemon.object(&["lease", "show", lease["lease_id"].as_str().unwrap()])), by_hand);
    assert_eq!(times(&daemon.object(&["lease", "acquire", "b"])), by_hand);
    let session = daemon.post("/v1/sessions", &json!({"holder": "h"})).json();
    assert_eq!(times(&session), by_hand);
    assert_eq!(times(&daemon.object(&["admin", "session", "open"])), by_hand);
    // What a command renews is free soon after the command is gone.
    let show = [env!("CARGO_BIN_EXE_tenure"), "lease", "show", "c", "--json"];
    let kept = daemon.tenure(&[&["run", "--resource", "c", "--"], &show[..]].concat());
    assert_eq!(times(&serde_json::from_str(&kept.out).unwrap()), (Some(30_000), Some(0)), "{}", kept.all());
}

#[test]
fn a_held_resource_is_refused_with_who_and_what_next() {
    let daemon = Daemon::start();
    daemon.take(&["printer", "--holder", "alice"]);
    check(
        &daemon,
        &["lease", "acquire", "printer", "--holder", "bob"],
        expect![[r#"
        exit 1
        --- out
        --- err
        error: "printer" is held by "alice" (resource_held)
        hint: held since TIME; wait for it with --wait, or see: tenure why printer
    "#]],
    );
    check(
        &daemon,
        &["lease", "acquire", "printer", "--holder", "bob", "--wait", "20ms"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: the wait of SPAN for "printer" ended before it was free (wait_timeout)
            hint: wait longer with --wait; tenure resource show lists holder and waiters
        "#]],
    );
    // Whoever reads objects reads a refusal as one too.
    let answer = daemon.tenure(&["lease", "acquire", "printer", "--holder", "bob", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!((answer.code, &error["error"]), (1, &"resource_held".into()));
    assert_eq!(error["blocking"][0]["holder"], "alice");
}

#[test]
fn an_operation_id_makes_a_retry_harmless() {
    let daemon = Daemon::start();
    let arguments = ["printer", "--operation-id", "op-1"];
    assert_eq!(daemon.take(&arguments), daemon.take(&arguments));
    check(
        &daemon,
        &["lease", "acquire", "scanner", "--operation-id", "op-1"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: the operation id was used for a different request (operation_conflict)
            hint: use another --operation-id for another request
        "#]],
    );
}

#[test]
fn a_reservation_is_activated() {
    let daemon = Daemon::start();
    check(
        &daemon,
        &["lease", "acquire", "printer", "--holder", "alice", "--reserve", "1m"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state reserved
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 1
            fence FENCE
            granted now (TIME)
            next expires unless it is activated in SPAN (TIME)
            application leases
            --- err
            hint: activate this lease with: tenure lease activate TAG-1 --epoch 1
        "#]],
    );
    check(
        &daemon,
        &["lease", "heartbeat", "printer"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: the lease is only reserved and not active yet (invalid_state)
            hint: tenure lease show shows its state, tenure why its history
        "#]],
    );
    check(
        &daemon,
        &["lease", "activate", "printer"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state active, alive
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 1
            fence FENCE
            granted now (TIME)
            last seen now (TIME)
            valid for SPAN
            next drains unless its holder renews it in SPAN (TIME)
            application leases
            --- err
        "#]],
    );
}

#[test]
fn permanent_leases_need_no_proof_of_life() {
    let daemon = Daemon::start();
    check(
        &daemon,
        &["lease", "acquire", "printer", "--holder", "alice", "--permanent"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state active, alive
            mode permanent
            epoch 1
            fence FENCE
            granted now (TIME)
            last seen now (TIME)
            application leases
            --- err
            hint: release this lease with: tenure lease release TAG-1 --epoch 1
        "#]],
    );
    check(
        &daemon,
        &["lease", "drain", "printer", "--yes"],
        expect![[r#"
            exit 1
            --- out
            --- err
            lease TAG-1 of alice: printer, active, alive, epoch 1, held for SPAN
            error: a permanent lease has no heartbeat and cannot drain (permanent_lease)
            hint: tenure lease revoke ends the lease
        "#]],
    );
}

#[test]
fn a_stale_epoch_is_told_the_present_one() {
    let daemon = Daemon::start();
    let id = daemon.take(&["printer", "--holder", "alice"]);
    check(
        &daemon,
        &["lease", "rebind", "printer", "--holder", "bob"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder bob
            resources printer
            state active, alive
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 2
            fence FENCE
            granted now (TIME)
            last seen now (TIME)
            valid for SPAN
            next drains unless its holder renews it in SPAN (TIME)
            application leases
            --- err
        "#]],
    );
    check(
        &daemon,
        &["lease", "heartbeat", &id, "--epoch", "1"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: stale epoch: the current epoch is 2 (stale_epoch)
            hint: tenure lease show shows the current epoch and holder
        "#]],
    );
}

#[test]
fn lists_are_filtered_and_come_in_pages() {
    let daemon = Daemon::start();
    for (resource, holder) in [("a/1", "alice"), ("a/2", "bob"), ("b/1", "alice")] {
        daemon.take(&[resource, "--holder", holder]);
    }
    let count = |arguments: &[&str]| {
        daemon.object(&[&["lease", "ls"], arguments].concat())["leases"].as_array().unwrap().len()
    };
    assert_eq!(count(&["--holder", "alice"]), 2);
    assert_eq!(count(&["--resource-prefix", "a/"]), 2);
    assert_eq!(count(&["--state", "reserved"]), 0);
    assert_eq!(count(&["--liveness", "alive", "--mode", "heartbeat", "--face", "leases"]), 3);
    assert_eq!(count(&["--all"]), 3);
    let page = daemon.object(&["lease", "ls", "--limit", "2"]);
    assert_eq!(page["leases"].as_array().unwrap().len(), 2);
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(count(&["--cursor", cursor]), 1);
    let answer = daemon.tenure(&["lease", "ls", "--limit", "2"]);
    assert!(
        answer.err.contains(&format!("note: the list continues; use --cursor {cursor}")),
        "{}",
        answer.err
    );
}

#[test]
fn an_operator_drains_and_revives() {
    let daemon = Daemon::start();
    daemon.take(&["printer", "--holder", "alice"]);
    check(
        &daemon,
        &["lease", "drain", "printer", "--yes", "--reason", "maintenance"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state active, drained by an operator
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 1
            fence FENCE
            granted now (TIME)
            last seen now (TIME)
            valid for SPAN
            next ends unless it is revived in SPAN (TIME)
            application leases
            --- err
            lease TAG-1 of alice: printer, active, alive, epoch 1, held for SPAN
        "#]],
    );
    check(
        &daemon,
        &["lease", "drain", "printer", "--yes"],
        expect![[r#"
            exit 1
            --- out
            --- err
            lease TAG-1 of alice: printer, active, drained by an operator, epoch 1, held for SPAN
            error: the lease is already draining (already_draining)
            hint: tenure lease revive cancels the drain
        "#]],
    );
    check(
        &daemon,
        &["lease", "heartbeat", "printer"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            epoch 1
            valid for SPAN
            draining an operator drains this lease, SPAN left: stop using it
            --- err
        "#]],
    );
    check(
        &daemon,
        &["lease", "revive", "printer"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state active, alive
            mode heartbeat, ttl SPAN, grace SPAN
            epoch 1
            fence FENCE
            granted now (TIME)
            last seen not since the restart or revive, now (TIME)
            valid for SPAN
            next drains unless its holder renews it in SPAN (TIME)
            application leases
            --- err
        "#]],
    );
}

#[test]
fn an_operator_revokes_and_reclaims() {
    let daemon = Daemon::start();
    daemon.take(&["printer", "--holder", "alice", "--ttl", "1h"]);
    check(
        &daemon,
        &["lease", "revoke", "printer", "--yes", "--no-reclaim"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state revoking
            mode heartbeat, ttl 1h 0m, grace SPAN
            epoch 2
            fence FENCE
            granted now (TIME)
            last seen now (TIME)
            next resources are free at the earliest in 59m 59s (TIME)
            reason admin_force
            application leases
            --- err
            lease TAG-1 of alice: printer, active, alive, epoch 1, held for SPAN
        "#]],
    );
    check(
        &daemon,
        &["lease", "reclaim", "printer", "--yes"],
        expect![[r#"
            exit 1
            --- out
            --- err
            lease TAG-1 of alice: printer, revoking, epoch 2, held for SPAN
            error: cannot reclaim yet: the former holder, a finalizer or the reclaim delay needs another 59m 59s (not_yet)
            hint: safe in 59m 59s; --force does it now, and the log records it
        "#]],
    );
    check(
        &daemon,
        &["lease", "reclaim", "printer", "--yes", "--force"],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
            holder alice
            resources printer
            state revoked
            mode heartbeat, ttl 1h 0m, grace SPAN
            epoch 2
            fence FENCE
            granted now (TIME)
            ended now (TIME)
            reason admin_force
            application leases
            --- err
            lease TAG-1 of alice: printer, revoking, epoch 2, held for SPAN
        "#]],
    );
    daemon.take(&["printer", "--holder", "bob"]);
}

#[test]
fn a_holder_that_stopped_acknowledges_and_nobody_waits_for_its_promise() {
    let daemon = Daemon::start();
    let id = daemon.take(&["printer", "--holder", "alice", "--ttl", "1h"]);
    daemon.object(&["lease", "revoke", &id, "--yes"]);
    let refused = daemon.tenure(&["lease", "acquire", "printer", "--holder", "bob"]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    let lease = daemon.object(&["lease", "acknowledge", &id, "--epoch", "1"]);
    assert_eq!(lease["lease_id"], id.as_str());
    daemon.take(&["printer", "--holder", "bob", "--wait", "10s"]);
}

#[test]
fn a_lease_is_handed_over_to_another_session() {
    let daemon = Daemon::start();
    let session = daemon.object(&["admin", "session", "open", "--holder", "bob"]);
    let session = session["session"].as_str().unwrap().to_owned();
    daemon.take(&["printer", "--holder", "alice"]);
    let lease = daemon.object(&["lease", "handover", "printer", "--to-session", &session]);
    assert_eq!((&lease["holder"], &lease["epoch"]), (&"bob".into(), &2.into()));
    assert_eq!(lease["session"], session.as_str());
}

#[test]
fn the_name_of_a_pool_stands_for_its_members() {
    let daemon = Daemon::start();
    daemon.object(&["pool", "set", "gpu", "3"]);
    let one = daemon.take(&["--pool", "gpu=1", "--holder", "alice"]);
    assert_eq!(daemon.object(&["lease", "show", "gpu"])["lease_id"], one.as_str());
    daemon.take(&["--pool", "gpu=1", "--holder", "bob"]);
    check(
        &daemon,
        &["lease", "show", "gpu"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: several leases hold members of pool gpu
            hint: name one of TAG-2, TAG-3
        "#]],
    );
    check(
        &daemon,
        &["lease", "show", "nothing"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: "nothing" is neither a lease ID nor a resource that a lease holds
            hint: tenure lease ls, or tenure why nothing
        "#]],
    );
    check(
        &daemon,
        &["lease", "show", "0000-1"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: lease 0000-1 does not exist (not_found)
            hint: tenure lease ls lists the leases
        "#]],
    );
    check(
        &daemon,
        &["lease", "acquire", "--pool", "gpu=2"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: pool "gpu" has 1 free member, the request needs 2 (pool_exhausted)
            hint: wait for it with --wait
        "#]],
    );
}
