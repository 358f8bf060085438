//! Facts that the daemon reports: the end of a connection, a cancel, a finished gate or notice, the end of a watch, the
//! stop. A full lane or a full pool of outstanding requests used to refuse them, and nobody looked: leases of closed
//! connections lived for ever.

use crate::desk::Desk;
use crate::running::{files, grant, release, start, wait_until, waiting_grant};
use tempfile::TempDir;
use tenure_engine::host::HostOptions;
use tenure_engine::{Answer, Control, EngineConfig, Refused, Request, TURN_EVENTS_MAX};
use tenure_kernel::{Epoch, LeaseId, OpenSession, SessionId, SessionKind};

/// A desk whose lanes have room for sixteen requests each.
fn small() -> Desk {
    let mut desk = Desk::with(EngineConfig { inbox_max: 64, ..EngineConfig::default() });
    desk.told = false;
    desk.play("keeper: grant keeper permanent\n settle");
    desk
}

/// More of every lane than fits.
fn flood(desk: &mut Desk) {
    for n in 0..40 {
        desk.play(&format!(
            "beat{n}: heartbeat keeper
             end{n}: release keeper epoch=9
             want{n}: grant keeper
             look{n}: read keeper"
        ));
    }
}

fn refused(desk: &Desk, name: &str) -> bool {
    matches!(&desk.answers[name], Answer::Refused(Refused::Overloaded { .. }))
}

#[test]
fn the_end_of_a_connection_is_heard_while_every_lane_is_full() {
    let mut desk = small();
    desk.play("c: connect 7 grace=0\n lease: grant printer session=7 grace=0\n settle");
    flood(&mut desk);
    desk.play("x: disconnect 7\n settle");
    assert!(refused(&desk, "beat39") && refused(&desk, "look39"), "the lanes were full");
    assert!(desk.engine.kernel().covering("printer").is_none(), "a ghost holds the printer");
}

#[test]
fn a_cancel_is_heard_while_every_lane_is_full() {
    let mut desk = small();
    desk.play("waits: grant keeper wait=60000\n settle");
    flood(&mut desk);
    desk.play("x: cancel waits\n settle");
    assert!(matches!(&desk.answers["waits"], Answer::Refused(Refused::Cancelled)));
}

#[test]
fn gates_and_notices_are_settled_while_every_lane_is_full() {
    let mut desk = small();
    desk.play(
        "lease: grant printer permanent gate notice at_once
         settle
         r: revoke lease
         settle",
    );
    assert!(desk.engine.kernel().covering("printer").is_some(), "the gate is open");
    flood(&mut desk);
    desk.play("x: gate lease\n settle");
    assert!(desk.engine.kernel().covering("printer").is_none(), "the gate stays open");
    assert_eq!(desk.engine.kernel().notices().count(), 1);
    flood(&mut desk);
    desk.play("x: notified lease\n settle");
    assert_eq!(desk.engine.kernel().notices().count(), 0);
}

#[test]
fn a_watch_ends_while_every_lane_is_full() {
    let mut desk = small();
    desk.play("w: watch from=1\n settle\n x: more w\n settle");
    flood(&mut desk);
    desk.play("x: unwatch w\n settle\n s: status\n settle");
    let Answer::Status(status) = &desk.answers["s"] else { panic!("no status") };
    assert_eq!(status.watches, 0);
}

#[test]
fn a_stop_is_heard_while_every_lane_is_full_and_ends_nobody() {
    let mut desk = small();
    desk.play("c: connect 7 grace=0\n lease: grant printer session=7 grace=0\n settle");
    flood(&mut desk);
    desk.play("x: stopping\n x: disconnect 7\n settle\n until 10000");
    assert!(desk.engine.kernel().covering("printer").is_some(), "the stop ended what was held");
}

#[test]
fn what_was_granted_to_a_caller_that_is_gone_is_revoked_while_every_lane_is_full() {
    let mut desk = small();
    desk.play("lease: grant printer permanent at_once\n settle");
    flood(&mut desk);
    desk.play("x: abandon lease\n settle");
    assert!(desk.engine.kernel().covering("printer").is_none());
}

/// The lane of grants is served over several turns: a request may still wait there when its caller goes.
#[test]
fn a_request_that_was_cancelled_before_the_engine_looked_at_it_does_not_begin_to_wait() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play("keeper: grant keeper permanent\n settle");
    for n in 0..3 * TURN_EVENTS_MAX {
        desk.play(&format!("g{n}: grant r/{n} permanent"));
    }
    desk.play("late: grant keeper wait=60000\n turn");
    assert!(!desk.answers.contains_key("late"), "it was looked at already");
    desk.play("x: cancel late\n settle");
    assert!(matches!(&desk.answers["late"], Answer::Refused(Refused::Cancelled)));
    desk.play("s: status\n settle");
    let Answer::Status(status) = &desk.answers["s"] else { panic!("no status") };
    assert_eq!(status.waiters, 0);
}

#[test]
fn thousands_of_connections_that_close_together_all_drain() {
    let mut desk = Desk::new();
    desk.told = false;
    for n in 0..3_000 {
        desk.play(&format!("c{n}: connect {n} grace=0\n l{n}: grant r/{n} session={n} grace=0"));
        if n % 100 == 0 {
            desk.settle();
        }
    }
    desk.settle();
    assert_eq!(desk.engine.kernel().live_count(), 3_000);
    for n in 0..3_000 {
        desk.play(&format!("x: disconnect {n}"));
    }
    desk.play("keeper: grant keeper\n beat: heartbeat l0\n turn");
    assert!(desk.answers.contains_key("beat"), "a turn that hears of ends answers proofs of life too");
    desk.settle();
    desk.live_until(desk.engine.tick().0 + 1_000);
    assert_eq!(desk.engine.kernel().live_count(), 1);
}

/// A simulated life found it: the end of a connection overtook its beginning, and the lease lived for ever.
#[test]
fn a_connection_that_opens_and_closes_within_one_turn_keeps_nothing() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play(
        "c: connect 7 grace=0
         lease: grant printer session=7 grace=0
         x: disconnect 7
         settle
         until 1000",
    );
    assert!(desk.engine.kernel().covering("printer").is_none(), "a ghost holds the printer");
}

fn heartbeat(lease: LeaseId) -> Request {
    Request::Heartbeat { lease, epoch: Epoch::FIRST, via: None, asker: None }
}

fn is_overloaded(answer: &Answer) -> bool {
    matches!(answer, Answer::Refused(Refused::Overloaded { .. }))
}

/// All outstanding requests were one pool: waits that filled it refused everybody's heartbeats.
#[test]
fn waits_that_fill_the_pool_refuse_grants_alone() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let options = HostOptions { outstanding_max: 8, ..HostOptions::default() };
    let host = start(log, &recovery, options, Box::new(|_| {}));
    let handle = host.handle();
    let held = handle.call(grant("printer", "alice")).live().unwrap().id;
    let open = OpenSession {
        session: SessionId(7),
        holder: "bob".into(),
        kind: SessionKind::Connection,
        ttl_ms: 0,
        grace_ms: 0,
        principal: "local".into(),
        accepts_handover: None,
    };
    assert!(matches!(handle.call(Request::ConnectionOpened(open)), Answer::Done { .. }));
    let waits: Vec<_> = (0..8).map(|n| handle.start(waiting_grant("printer", &format!("h{n}")))).collect();
    assert!(is_overloaded(&handle.call(grant("scanner", "bob"))), "the pool of grants is full");
    // A call of several kinds is refused only in part.
    let answers = handle.call_all(vec![heartbeat(held), grant("scanner", "bob"), Request::Status]).wait();
    assert!(matches!(answers[0], Answer::Renewed { .. }), "{:?}", answers[0]);
    assert!(is_overloaded(&answers[1]));
    assert!(matches!(answers[2], Answer::Status(_)));
    assert!(matches!(handle.probe().wait_one(), Answer::Probed { .. }));
    for wait in &waits {
        handle.tell(Control::Cancel(wait.first_ticket()));
    }
    for wait in waits {
        assert!(matches!(wait.wait_one(), Answer::Refused(Refused::Cancelled)));
    }
    assert!(handle.call(grant("scanner", "bob")).live().is_some(), "places come back");
    assert!(matches!(handle.call(release(held)), Answer::Lease(_)));
    wait_until(&handle, |status| status.waiters == 0);
    host.shut_down().unwrap();
}
