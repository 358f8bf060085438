//! One event of every kind, one note of every kind, one state with something in every table.

use crate::script::Runner;
use tenure_kernel::*;

/// Terms with no field at its default.
fn policy() -> Policy {
    Policy {
        mode: Mode::Session,
        ttl_ms: 30_000,
        grace_ms: 5_000,
        max_lifetime_ms: 86_400_000,
        reclaim_delay_ms: 250,
        reclaim_rule: ReclaimRule::AtOnce,
        face: Face::Registrations,
        gate: true,
        notice: false,
        session: Some(SessionId(0x1234_5678)),
        principal: "uid:1000".into(),
    }
}

fn epitaph() -> Epitaph {
    Epitaph {
        lease: LeaseId::new(0, Lsn(300)),
        epoch: Epoch(4),
        holder: "alice".into(),
        members: ["printer", "pool/17"].map(Text::from).into_iter().collect(),
        policy: Policy { notice: true, session: None, ..policy() },
        face_data: vec![1, 2, 3],
        granted_tick: Tick(1_000_000),
        granted_wall_ms: 1_700_000_000_000,
    }
}

fn steered(actor: Actor) -> Steered {
    Steered { lease: LeaseId::new(5, Lsn(128)), actor, text: "maintenance".into() }
}

/// One event of every kind, in code order; the first carries an operation.
pub(crate) fn events() -> Vec<Event> {
    let lease = LeaseId::new(0, Lsn(127));
    let changes = vec![
        Change::Granted(Granted {
            holder: "höst".into(),
            members: ["mdns/a", "b"].map(Text::from).into_iter().collect(),
            deadline: Some(Tick(16_384)),
            policy: policy(),
            face_data: vec![0xff; 3],
            attachment: b"{}".to_vec(),
            wall_ms: u64::MAX,
        }),
        Change::Activated { lease },
        Change::Rebound(Rebound {
            lease,
            epoch: Epoch(2),
            holder: "bob".into(),
            policy: Some(policy()),
            attachment: Some(Vec::new()),
            face_data: None,
            taken_over: true,
        }),
        Change::Amended(Amended { lease, attachment: None, face_data: Some(vec![9]) }),
        Change::Drained(steered(Actor::Operator("carol".into()))),
        Change::Revived(steered(Actor::Holder)),
        Change::Released(Released { was: epitaph(), text: "done".into() }),
        Change::Revoked(Revoked {
            lease,
            epoch: Epoch(3),
            reason: Reason::HeartbeatExpired,
            text: "silent".into(),
            actor: Actor::Daemon,
            evidence: Evidence::Silence { last_seen: Tick(7), promised_until: Tick(70_000) },
            reclaim_by: ReclaimBy::Operator,
        }),
        Change::Reclaimed(Reclaimed {
            was: epitaph(),
            reason: Reason::Restored,
            text: Text::default(),
            actor: Actor::Daemon,
            ground: ReclaimGround::Forced,
            gate: GateReport::TimedOut,
        }),
        Change::Expired(Expired { was: epitaph() }),
        Change::SessionOpened(OpenSession {
            session: SessionId(u64::MAX),
            holder: "host".into(),
            kind: SessionKind::ByHand,
            ttl_ms: u32::MAX,
            grace_ms: 1,
            principal: "local".into(),
            accepts_handover: None,
        }),
        Change::SessionClosed { session: SessionId(1), reason: Reason::SessionExpired },
        Change::PoolDefined { name: "pool".into(), size: 65_536 },
        Change::PoolRemoved { name: "pool".into() },
        Change::Notified { lease },
        Change::Trimmed { below: Lsn(1 << 40) },
        Change::Configured(Retention {
            window_ms: 1,
            leases_max: 2,
            leases_per_face_max: 300,
            operations_per_principal_max: 4,
        }),
    ];
    let operation = Operation {
        key: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        fingerprint: 0x1112_1314_1516_1718,
        keep_ms: 600_000,
        principal: "uid:1000".into(),
    };
    changes
        .into_iter()
        .enumerate()
        .map(|(place, change)| Event { operation: (place == 0).then(|| operation.clone()), change })
        .collect()
}

/// Revocations with each kind of evidence and each reason, and reclaims on each ground.
pub(crate) fn more_events() -> Vec<Event> {
    let evidence = [
        Evidence::None,
        Evidence::Disconnected { at: Tick(5) },
        Evidence::Lifetime { since: Tick(6) },
        Evidence::Drained { since: Tick(7) },
    ];
    let revoked = |reason, evidence| {
        Change::Revoked(Revoked {
            lease: LeaseId::new(0, Lsn(1)),
            epoch: Epoch(2),
            reason,
            text: Text::default(),
            actor: Actor::Operator("op".into()),
            evidence,
            reclaim_by: ReclaimBy::Daemon,
        })
    };
    let mut changes: Vec<Change> =
        evidence.into_iter().map(|evidence| revoked(Reason::AdminForce, evidence)).collect();
    changes.extend(Reason::ALL.into_iter().map(|reason| revoked(reason, Evidence::None)));
    for ground in [
        ReclaimGround::PromiseOver,
        ReclaimGround::Acknowledged,
        ReclaimGround::AtOnce,
        ReclaimGround::Forced,
    ] {
        for gate in [GateReport::None, GateReport::Confirmed, GateReport::TimedOut] {
            changes.push(Change::Reclaimed(Reclaimed {
                was: epitaph(),
                reason: Reason::Shutdown,
                text: "x".into(),
                actor: Actor::Holder,
                ground,
                gate,
            }));
        }
    }
    changes.into_iter().map(|change| Event { operation: None, change }).collect()
}

/// One note of every kind, both subjects.
pub(crate) fn notes() -> Vec<Note> {
    vec![
        Note::Draining {
            subject: Subject::Lease(LeaseId::new(1, Lsn(2))),
            last_seen: Tick(300),
            until: Tick(70_000),
        },
        Note::Returned { subject: Subject::Session(SessionId(9)) },
        Note::GateOpened { lease: LeaseId::new(0, Lsn(128)) },
        Note::BreakerOpened { silent: 10, alive: 400 },
        Note::BreakerClosed,
        Note::Stalled { gap_ms: 3_600_000 },
        Note::Restarted,
    ]
}

/// Something in every table, in every state, with every optional part both present and absent.
pub(crate) fn rich_state() -> Runner {
    let mut setup = Setup::plain();
    setup.fence_base = 1 << 50;
    let mut runner = Runner::new(setup);
    runner.prepare(
        "0 configure window=5000 leases=100 per_face=50 operations=20
         1 open 7 holder=host kind=stdin principal=p
         1 open 8 holder=höst
         2 pool p 5
         2 pool q 200
         2 pool empty 0
         3 grant [p*2,x] holder=alice session=7 attach=3 data=2 wall=1700000000000 op=one
         3 reserve q/100 holder=bob ttl=500 face=polling
         3 grant q*1 holder=bob mode=heartbeat principal=p notice=yes
         4 grant y holder=carol session=7
         4 grant z holder=carol session=8 op=two keep=86400000 principal=p
         4 grant w holder=carol session=8
         5 rebind L4 session=8 to=dave attach=1
         5 drain L4
         6 revoke L5 reason=session_expired silent=4 text=gone
         6 reserve v holder=erin ttl=100
         7 revoke L7 by=operator actor=op
         7 close 7 reason=session_expired
         7 unpool q force
         8 grant a holder=x notice=yes
         8 grant b holder=x face=streams
         8 reserve c holder=x ttl=1
         9 release L8
         9 revoke L9 reason=max_lifetime
         9 reclaim L9
         9 expire L10
         9 grant d holder=x
         9 release L11
         9 trim 3",
    );
    runner
}

/// A session that consents to hand-overs.
pub(crate) fn accepting_session() -> Event {
    let change = Change::SessionOpened(OpenSession {
        session: SessionId(7),
        holder: "h".into(),
        kind: SessionKind::ByHand,
        ttl_ms: 1_000,
        grace_ms: 0,
        principal: "local".into(),
        accepts_handover: Some("poll/g/".into()),
    });
    Event { operation: None, change }
}
