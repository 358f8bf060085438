//! Every word of the log has its sentence.

use expect_test::expect;
use tenure_history::{change_sentence, duration, note_sentence};
use tenure_kernel::*;

use crate::support::{START_MS, granted, reclaimed, revoked, steered};

const TICK: Tick = Tick(200_000);

fn lease() -> LeaseId {
    LeaseId::new(0, Lsn(4))
}

fn was() -> Epitaph {
    Epitaph {
        lease: lease(),
        epoch: Epoch(2),
        holder: "alice".into(),
        members: ["r1", "r2"].map(Text::from).into_iter().collect(),
        policy: Policy { face: Face::Registrations, ..Policy::heartbeat(90_000, 30_000) },
        face_data: Vec::new(),
        granted_tick: Tick(1_000),
        granted_wall_ms: START_MS,
    }
}

fn say(out: &mut String, change: &Change) {
    let sentence = change_sentence(change, TICK, START_MS + TICK.0);
    out.push_str(&format!("{}: {sentence}\n", change.kind().as_str()));
}

fn every_change() -> Vec<Change> {
    let rebound = |policy, taken_over| {
        Change::Rebound(Rebound {
            lease: lease(),
            epoch: Epoch(3),
            holder: "bob".into(),
            policy,
            attachment: None,
            face_data: None,
            taken_over,
        })
    };
    let amended = |attachment: bool, face_data: bool| {
        Change::Amended(Amended {
            lease: lease(),
            attachment: attachment.then(Vec::new),
            face_data: face_data.then(Vec::new),
        })
    };
    let session = Policy::session(SessionId(0x2a), 0, 5_000);
    let unbound = Policy { session: None, ..session.clone() };
    let mut changes: Vec<Change> = [
        Policy::heartbeat(90_000, 30_000),
        session.clone(),
        unbound,
        Policy { max_lifetime_ms: 86_400_000 * 3, ..Policy::permanent() },
    ]
    .into_iter()
    .chain(Face::ALL.map(|face| Policy { face, ..Policy::permanent() }))
    .map(|policy| Change::Granted(granted("alice", &["r1", "r2"], policy)))
    .collect();
    changes.extend([
        Change::Granted(Granted {
            deadline: Some(Tick(230_000)),
            ..granted("alice", &["r1"], Policy::heartbeat(500, 0))
        }),
        Change::Activated { lease: lease() },
        rebound(None, false),
        rebound(Some(session), true),
        amended(true, true),
        amended(true, false),
        amended(false, true),
        amended(false, false),
        Change::Drained(steered(lease(), "maintenance")),
        Change::Drained(Steered { actor: Actor::Daemon, ..steered(lease(), "") }),
        Change::Revived(steered(lease(), "")),
        Change::Revived(Steered { actor: Actor::Holder, ..steered(lease(), "over") }),
        Change::Released(Released { was: was(), text: Text::default() }),
        Change::Released(Released { was: was(), text: "line\nbreak\u{1b}[31m".into() }),
        Change::Expired(Expired { was: was() }),
    ]);
    for (kind, ttl_ms) in SessionKind::ALL.into_iter().zip([0, 0, 90_000]) {
        changes.push(Change::SessionOpened(OpenSession {
            session: SessionId(0x2a),
            holder: "host".into(),
            kind,
            ttl_ms,
            grace_ms: 5_000,
            principal: "uid:1000".into(),
            accepts_handover: None,
        }));
    }
    changes.extend(Reason::ALL.map(|reason| Change::SessionClosed { session: SessionId(0x2a), reason }));
    changes.extend([
        Change::PoolDefined { name: "gpu".into(), size: 4 },
        Change::PoolRemoved { name: "gpu".into() },
        Change::Notified { lease: lease() },
        Change::Trimmed { below: Lsn(1_000) },
        Change::Configured(Retention::default()),
    ]);
    changes
}

fn every_evidence() -> [Evidence; 6] {
    [
        Evidence::None,
        Evidence::Silence { last_seen: Tick(80_000), promised_until: Tick(170_000) },
        Evidence::Silence { last_seen: Tick(80_000), promised_until: Tick(205_000) },
        Evidence::Disconnected { at: Tick(195_000) },
        Evidence::Lifetime { since: Tick(0) },
        Evidence::Drained { since: Tick(170_000) },
    ]
}

#[test]
fn every_change_has_a_sentence() {
    let mut out = String::new();
    let changes = every_change();
    for kind in ChangeKind::ALL {
        let told_elsewhere = matches!(kind, ChangeKind::Revoked | ChangeKind::Reclaimed);
        assert!(told_elsewhere || changes.iter().any(|change| change.kind() == kind), "{kind:?}");
    }
    changes.iter().for_each(|change| say(&mut out, change));
    expect![[r#"
        granted: granted to alice: r1, r2; ttl 90 s (renew every 30 s), grace 30 s
        granted: granted to alice: r1, r2; kept by standard input cli:0000002a, grace 5 s
        granted: granted to alice: r1, r2; kept by its session, grace 5 s
        granted: granted to alice: r1, r2; permanent, no heartbeat needed; ends after 3d 0h at the latest
        granted: granted to alice: r1, r2; permanent, no heartbeat needed
        granted: granted to alice: r1, r2; permanent, no heartbeat needed; application registrations
        granted: granted to alice: r1, r2; permanent, no heartbeat needed; application slots
        granted: granted to alice: r1, r2; permanent, no heartbeat needed; application polling
        granted: reserved for alice: r1; expires at 2023-11-14T22:17:10.000Z unless activated; ttl 500 ms (renew every 166 ms), no grace
        activated: activated: in use from now on
        rebound: moved to bob: the epoch is now 3
        rebound: taken over by bob: the epoch is now 3; kept by standard input cli:0000002a, grace 5 s
        amended: attachment and application data replaced
        amended: attachment replaced
        amended: application data replaced
        amended: amended without a change
        draining: drained by carol, saying "maintenance": still held until its grace ends or an operator revives it
        draining: drained: still held until its grace ends or an operator revives it
        revived: revived by carol: the drain was withdrawn
        revived: revived by its holder, saying "over": the drain was withdrawn
        released: released by alice: r1, r2 free again
        released: released by alice, saying "line\nbreak\u{1b}[31m": r1, r2 free again
        expired: expired: not activated in time (reservation_expired); r1, r2 free again
        session_opened: session cli:0000002a opened by host: lasts while its connection is open, grace 5 s
        session_opened: session cli:0000002a opened by host: lasts while its standard input is open, grace 5 s
        session_opened: session cli:0000002a opened by host: ttl 90 s (renew every 30 s), grace 5 s
        session_closed: standard input cli:0000002a ended: its holder requested it (explicit); its leases end with it
        session_closed: standard input cli:0000002a ended: it closed, and its holder did not come back (session_expired); its leases end with it
        session_closed: standard input cli:0000002a ended: its heartbeats stopped (heartbeat_expired); its leases end with it
        session_closed: standard input cli:0000002a ended: it was not used in time (reservation_expired); its leases end with it
        session_closed: standard input cli:0000002a ended: it reached its maximum lifetime (max_lifetime); its leases end with it
        session_closed: standard input cli:0000002a ended: an operator ended it (admin_force); its leases end with it
        session_closed: standard input cli:0000002a ended: an operator shut the daemon down with end_all (shutdown); its leases end with it
        session_closed: standard input cli:0000002a ended: its targets moved to another poller (rebalanced); its leases end with it
        session_closed: standard input cli:0000002a ended: its pool was removed (pool_removed); its leases end with it
        session_closed: standard input cli:0000002a ended: the client that opened it had disconnected (abandoned); its leases end with it
        session_closed: standard input cli:0000002a ended: the log was restored from a backup (restored); its leases end with it
        pool_defined: pool gpu now has 4 members
        pool_removed: pool gpu was removed; leases on its members end with it
        notified: the notification of its end was delivered or dropped
        trimmed: history before position 1000 was trimmed
        configured: ended leases are kept for 1d 0h, at most 1000000 in all and 1000000 per application; at most 1000000 operations per principal
    "#]].assert_eq(&out);
}

#[test]
fn every_reason_and_every_evidence_has_a_sentence() {
    let mut out = String::new();
    for reason in Reason::ALL {
        say(&mut out, &Change::Revoked(revoked(lease(), reason, Evidence::None)));
    }
    for evidence in every_evidence() {
        say(&mut out, &Change::Revoked(revoked(lease(), Reason::HeartbeatExpired, evidence)));
        say(&mut out, &Change::Revoked(revoked(lease(), Reason::AdminForce, evidence)));
    }
    let by_hand = Revoked {
        actor: Actor::Operator("alice@example".into()),
        reclaim_by: ReclaimBy::Operator,
        text: "drained".into(),
        ..revoked(lease(), Reason::AdminForce, Evidence::None)
    };
    say(&mut out, &Change::Revoked(by_hand.clone()));
    say(&mut out, &Change::Revoked(Revoked { actor: Actor::Holder, ..by_hand }));
    expect![[r#"
        revoked: revoked: its holder requested it (explicit)
        revoked: revoked: its session was silent for longer than its grace (session_expired)
        revoked: revoked: its heartbeats stopped (heartbeat_expired)
        revoked: revoked: it was not activated in time (reservation_expired)
        revoked: revoked: it reached its maximum lifetime (max_lifetime)
        revoked: revoked: an operator ended it (admin_force)
        revoked: revoked: an operator shut the daemon down with end_all (shutdown)
        revoked: revoked: the target moved to another poller (rebalanced)
        revoked: revoked: its pool was removed (pool_removed)
        revoked: revoked: the client that waited for it had disconnected (abandoned)
        revoked: revoked: the log was restored from a backup (restored)
        revoked: revoked: its heartbeats stopped (heartbeat_expired)
        revoked: revoked: an operator ended it (admin_force)
        revoked: revoked: no heartbeat for 2m 0s (heartbeat_expired)
        revoked: revoked: an operator ended it, silent for 2m 0s (admin_force)
        revoked: revoked: no heartbeat for 2m 0s (heartbeat_expired); valid for its holder until 2023-11-14T22:16:45.000Z
        revoked: revoked: an operator ended it, silent for 2m 0s (admin_force); valid for its holder until 2023-11-14T22:16:45.000Z
        revoked: revoked: its heartbeats stopped, disconnected for 5 s (heartbeat_expired)
        revoked: revoked: an operator ended it, disconnected for 5 s (admin_force)
        revoked: revoked: its heartbeats stopped, in use for 3m 20s (heartbeat_expired)
        revoked: revoked: an operator ended it, in use for 3m 20s (admin_force)
        revoked: revoked: its heartbeats stopped, drained for 30 s (heartbeat_expired)
        revoked: revoked: an operator ended it, drained for 30 s (admin_force)
        revoked: revoked by alice@example, saying "drained": an operator ended it (admin_force); its resources stay taken until an operator reclaims them
        revoked: revoked by its holder, saying "drained": an operator ended it (admin_force); its resources stay taken until an operator reclaims them
    "#]].assert_eq(&out);
}

#[test]
fn every_ground_and_every_gate_has_a_sentence() {
    let mut out = String::new();
    let grounds = [
        ReclaimGround::PromiseOver,
        ReclaimGround::Acknowledged,
        ReclaimGround::AtOnce,
        ReclaimGround::Forced,
    ];
    for ground in grounds {
        for gate in [GateReport::None, GateReport::Confirmed, GateReport::TimedOut] {
            say(&mut out, &Change::Reclaimed(reclaimed(was(), Reason::Shutdown, ground, gate)));
        }
    }
    for actor in [Actor::Holder, Actor::Operator("alice@example".into())] {
        for ground in [ReclaimGround::PromiseOver, ReclaimGround::Forced] {
            let base = reclaimed(was(), Reason::AdminForce, ground, GateReport::None);
            say(&mut out, &Change::Reclaimed(Reclaimed { actor: actor.clone(), ..base }));
        }
    }
    expect![[r#"
        reclaimed: reclaimed: r1, r2 free again; its validity had ended
        reclaimed: reclaimed: the goodbye packet was sent, r1, r2 free again; its validity had ended
        reclaimed: reclaimed: the goodbye packet was not confirmed in time, r1, r2 free again; its validity had ended
        reclaimed: reclaimed: r1, r2 free again; its holder acknowledged the loss
        reclaimed: reclaimed: the goodbye packet was sent, r1, r2 free again; its holder acknowledged the loss
        reclaimed: reclaimed: the goodbye packet was not confirmed in time, r1, r2 free again; its holder acknowledged the loss
        reclaimed: reclaimed: r1, r2 free again
        reclaimed: reclaimed: the goodbye packet was sent, r1, r2 free again
        reclaimed: reclaimed: the goodbye packet was not confirmed in time, r1, r2 free again
        reclaimed: reclaimed by force before its validity ended: r1, r2 free again
        reclaimed: reclaimed by force before its validity ended: the goodbye packet was sent, r1, r2 free again
        reclaimed: reclaimed by force before its validity ended: the goodbye packet was not confirmed in time, r1, r2 free again
        reclaimed: reclaimed by its holder: r1, r2 free again; its validity had ended
        reclaimed: reclaimed by force before its validity ended: r1, r2 free again
        reclaimed: reclaimed by alice@example: r1, r2 free again; its validity had ended
        reclaimed: reclaimed by force before its validity ended (alice@example): r1, r2 free again
    "#]].assert_eq(&out);
}

#[test]
fn every_note_has_a_sentence() {
    let (lease, session) = (Subject::Lease(lease()), Subject::Session(SessionId(0x2a)));
    let draining = |subject| Note::Draining { subject, last_seen: Tick(110_000), until: Tick(230_000) };
    let notes = [
        draining(lease),
        draining(session),
        Note::Draining { subject: session, last_seen: TICK, until: Tick(230_000) },
        Note::Returned { subject: lease },
        Note::Returned { subject: session },
        Note::GateOpened { lease: LeaseId::new(0, Lsn(4)) },
        Note::BreakerOpened { silent: 20, alive: 30 },
        Note::BreakerClosed,
        Note::Stalled { gap_ms: 4_200 },
    ];
    let mut out = String::new();
    for note in &notes {
        out.push_str(&format!("{}: {}\n", note.kind(), note_sentence(note, TICK, START_MS + TICK.0)));
    }
    expect![[r#"
        draining: fell silent: last heartbeat at 2023-11-14T22:15:10.000Z; grace runs until 2023-11-14T22:17:10.000Z
        draining: the node of standard input cli:0000002a fell silent: last keepalive at 2023-11-14T22:15:10.000Z; its leases end when their grace ends
        draining: standard input cli:0000002a closed; its leases end when their grace ends
        revived: alive again: a heartbeat came within the grace
        revived: standard input cli:0000002a is alive again: a heartbeat or connection came within the grace
        gate_opened: finalizer started: its resources stay taken until the finalizer is done or times out
        breaker_opened: mass-expiry protection: 20 of 30 holders fell silent at once, so the daemon postpones ends
        breaker_closed: mass-expiry protection ended: leases end on time again
        stalled: the daemon was stalled for 4.2 s; no lease lost more than 1 s of its ttl
    "#]].assert_eq(&out);
}

#[test]
fn durations_are_in_the_units_people_use() {
    let told: Vec<String> = [
        0,
        250,
        999,
        1_000,
        1_500,
        30_000,
        90_000,
        119_999,
        120_000,
        3_599_999,
        3_600_000,
        90_061_000,
        u64::MAX,
    ]
    .map(duration)
    .into();
    expect!["0 ms | 250 ms | 999 ms | 1 s | 1.5 s | 30 s | 90 s | 119.9 s | 2m 0s | 59m 59s | 1h 0m | 1d 1h | 213503982334d 14h"].assert_eq(&told.join(" | "));
}
