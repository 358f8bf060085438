//! Random commands: the kernel and the naive model answer alike, and everything that can be derived from the
//! events is the same whichever way it is derived. `PROPTEST_CASES` sets how many; a failure prints its steps.

use crate::model::Model;
use crate::script::{Watch, bytes_of, code};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tenure_kernel::codec::{FORMAT, decode_event, decode_state, encode_event};
use tenure_kernel::*;

/// Small numbers that [`World`] turns into a command that mostly makes sense.
#[derive(Clone, Debug)]
struct Roll {
    verb: u8,
    wait: u8,
    a: u8,
    b: u8,
    c: u8,
    d: u8,
}

fn rolls() -> impl Strategy<Value = Vec<Roll>> {
    let roll = any::<[u8; 6]>().prop_map(|[verb, wait, a, b, c, d]| Roll { verb, wait, a, b, c, d });
    prop::collection::vec(roll, 1..200)
}

struct World {
    kernel: Kernel,
    model: Model,
    now: Tick,
    next: Lsn,
    granted: Vec<LeaseId>,
    log: Vec<(Stamp, Event)>,
    snapshots: Vec<Vec<u8>>,
    watch: Watch,
    /// How often each event and each refusal came.
    outcomes: BTreeMap<String, u32>,
}

enum Asked {
    Command(Command),
    Internal(Internal),
}

const HOLDERS: [&str; 3] = ["alice", "bob", "carol"];
const PRINCIPALS: [&str; 2] = ["p", "q"];
const NAMES: [&str; 12] =
    ["a", "b", "c", "d", "e", "pool/1", "pool/2", "pool/3", "pool/5", "other/1", "mdns/x", "bad//name"];
const POOLS: [&str; 3] = ["pool", "other", "none"];

fn limits() -> Limits {
    Limits {
        leases_max: 9,
        leases_per_principal_max: 6,
        pools_max: 2,
        sessions_max: 3,
        sessions_per_principal_max: 2,
        attachment_bytes_max: 24,
        attachment_bytes_per_principal_max: 16,
        notices_max: 2,
    }
}

fn setup(hash_seed: u64) -> Setup {
    Setup { shard: 0, fence_base: 1 << 40, limits: limits(), hashing: Hashing::fixed(hash_seed) }
}

impl World {
    fn new() -> Self {
        Self {
            kernel: Kernel::new(setup(1)),
            model: Model::new(limits()),
            now: Tick(0),
            next: Lsn(1),
            granted: Vec::new(),
            log: Vec::new(),
            snapshots: vec![bytes_of(&Kernel::new(setup(1)))],
            watch: Watch::default(),
            outcomes: BTreeMap::new(),
        }
    }

    /// Two pools and two sessions, so that the first commands have something to work on.
    fn furnish(&mut self) {
        for (name, size) in [("pool", 4), ("other", 2)] {
            self.ask(Asked::Command(Command::plain(Action::DefinePool { name: name.into(), size })));
        }
        for session in 0..2 {
            let open = OpenSession {
                session: SessionId(session),
                holder: "alice".into(),
                kind: SessionKind::Stdin,
                ttl_ms: 1,
                grace_ms: 2,
                principal: "q".into(),
                accepts_handover: None,
            };
            self.ask(Asked::Command(Command::plain(Action::OpenSession(open))));
        }
    }

    /// Mostly a live lease, sometimes an ended one, sometimes one that never was.
    fn lease(&self, roll: u8) -> LeaseId {
        let live: Vec<LeaseId> = self.kernel.leases_from(LeaseId(0)).map(LeaseView::id).collect();
        match (roll, live.len(), self.granted.len()) {
            (250.., ..) | (_, 0, 0) => LeaseId::new(0, Lsn(u64::from(roll) % (self.next.0 + 2))),
            (248..250, ..) => LeaseId::new(1, Lsn(1)),
            (210..248, _, count) | (_, 0, count) => self.granted[usize::from(roll) % count],
            (_, count, _) => live[usize::from(roll) % count],
        }
    }

    /// A reserved lease if there is one.
    fn reserved(&self, roll: &Roll) -> Token {
        let reserved = |view: &LeaseView<'_>| matches!(view.state(), LeaseState::Reserved { .. });
        match self.kernel.leases_from(LeaseId(0)).find(reserved) {
            Some(view) if roll.b < 200 => Token::new(view.id(), view.epoch()),
            Some(_) | None => self.token(roll),
        }
    }

    fn epoch(&self, lease: LeaseId, roll: u8) -> Epoch {
        let current = self.kernel.live(lease).map_or(1, |view| view.epoch().0);
        if roll < 230 { Epoch(current) } else { Epoch(u64::from(roll % 4)) }
    }

    fn token(&self, roll: &Roll) -> Token {
        let lease = self.lease(roll.a);
        let holder = match self.kernel.live(lease) {
            Some(view) if roll.b < 100 => Some(view.holder().clone()),
            _ if roll.b > 240 => Some(HOLDERS[usize::from(roll.b) % 3].into()),
            _ => None,
        };
        Token { lease, epoch: self.epoch(lease, roll.c), holder }
    }

    fn policy(roll: u8) -> Policy {
        let mut policy = match roll % 4 {
            0 => Policy::permanent(),
            1 => Policy::heartbeat(100, 10),
            _ => Policy::session(SessionId([0, 1, 0, 1, 2, 3][usize::from(roll / 4) % 6]), 0, 5),
        };
        policy.principal = PRINCIPALS[usize::from(roll / 16) % 2].into();
        policy.face = Face::ALL[usize::from(roll / 32) % 4];
        policy.notice = roll.is_multiple_of(7);
        policy
    }

    fn member(roll: u8) -> Member {
        match roll {
            0..110 => Member::Resource(NAMES[usize::from(roll) % 5].into()),
            110..170 => Member::Resource(NAMES[usize::from(roll) % 10].into()),
            170..176 => Member::Resource(NAMES[10 + usize::from(roll) % 2].into()),
            176..250 => Member::AnyOf {
                pool: POOLS[usize::from(roll) % 2].into(),
                count: 1 + u32::from(roll / 2) % 3,
            },
            250.. => Member::AnyOf { pool: POOLS[usize::from(roll) % 3].into(), count: u32::from(roll % 2) },
        }
    }

    fn bundle(a: u8, b: u8) -> Bundle {
        let members: Vec<Member> = match b % 8 {
            0 if a > 250 => vec![],
            0..5 => vec![Self::member(a)],
            5 | 6 => vec![Self::member(a), Self::member(a.wrapping_mul(31).wrapping_add(b))],
            _ => vec![Self::member(b), Self::member(a), Self::member(a.wrapping_add(77))],
        };
        Bundle { members: members.into() }
    }

    fn operation(roll: &Roll) -> Option<Operation> {
        roll.d.is_multiple_of(4).then(|| Operation {
            key: u128::from(roll.d / 4 % 8) << 70,
            fingerprint: u64::from(roll.a % 2),
            keep_ms: [0, 20, 300, 1 << 40][usize::from(roll.b) % 4],
            principal: PRINCIPALS[usize::from(roll.d / 4) % 2].into(),
        })
    }

    fn payload(roll: u8) -> Option<Vec<u8>> {
        (!roll.is_multiple_of(3)).then(|| vec![roll; usize::from(roll % 11)])
    }

    fn asked(&self, roll: &Roll) -> Asked {
        let lease = self.lease(roll.a);
        let actor = match roll.b % 3 {
            0 => Actor::Daemon,
            1 => Actor::Holder,
            _ => Actor::Operator("op".into()),
        };
        let epoch = roll.c.is_multiple_of(2).then(|| self.epoch(lease, roll.c));
        let steer = || Steer { lease, epoch, actor: actor.clone(), text: "t".into(), silent: false };
        let action = match roll.verb % 64 {
            0..20 => Action::Grant(Grant {
                start: match roll.c % 4 {
                    0 => Start::Reserved { ttl_ms: u64::from(roll.c) % 60 },
                    _ => Start::Active,
                },
                policy: Self::policy(roll.d),
                face_data: vec![1; usize::from(roll.d % 5) / 2],
                attachment: vec![2; usize::from(roll.c % 7) / 3],
                take_over: (roll.b > 200).then(|| self.lease(roll.c)),
                alternatives: match roll.b % 5 {
                    0 => vec![Self::bundle(roll.c, roll.d), Self::bundle(roll.d, roll.c)],
                    _ => vec![],
                },
                wall_ms: u64::from(roll.a),
                ..Grant::new(
                    Self::bundle(roll.a, roll.b),
                    HOLDERS[usize::from(roll.c) % 3],
                    Policy::permanent(),
                )
            }),
            20..22 => Action::Activate(self.reserved(roll)),
            22..26 => Action::Release(Release { token: self.token(roll), text: "bye".into() }),
            26..30 => Action::Rebind(Rebind {
                token: self.token(roll),
                holder: roll.d.is_multiple_of(2).then(|| HOLDERS[usize::from(roll.d) % 3].into()),
                policy: (!roll.d.is_multiple_of(3)).then(|| Self::policy(roll.d)),
                attachment: Self::payload(roll.d),
                face_data: Self::payload(roll.c),
            }),
            30..33 => Action::Amend(Amend {
                token: self.token(roll),
                attachment: Self::payload(roll.d),
                face_data: Self::payload(roll.c),
            }),
            33..38 => Action::Revoke(Revoke {
                lease,
                epoch,
                reason: Reason::ALL[usize::from(roll.d) % Reason::ALL.len()],
                text: "why".into(),
                actor,
                evidence: Evidence::Silence { last_seen: Tick(1), promised_until: self.now },
                reclaim_by: [ReclaimBy::Daemon, ReclaimBy::Operator][usize::from(roll.b) % 2],
            }),
            38..43 => Action::Reclaim(Reclaim {
                lease,
                epoch,
                actor,
                ground: ReclaimGround::Acknowledged,
                gate: GateReport::Confirmed,
            }),
            43..45 => Action::Drain(steer()),
            45..47 => {
                let drained =
                    |view: &LeaseView<'_>| matches!(view.state(), LeaseState::Active { drained: true, .. });
                match self.kernel.leases_from(LeaseId(0)).find(drained) {
                    Some(view) if roll.b < 200 => {
                        Action::Revive(Steer { lease: view.id(), epoch: None, ..steer() })
                    }
                    Some(_) | None => Action::Revive(steer()),
                }
            }
            47..50 => Action::DefinePool {
                name: POOLS[usize::from(roll.a) % 3].into(),
                size: u32::from(roll.b) % 7,
            },
            50 => Action::RemovePool {
                name: POOLS[usize::from(roll.a) % 3].into(),
                force: roll.b.is_multiple_of(4),
            },
            51..54 => Action::OpenSession(OpenSession {
                session: SessionId(u64::from(roll.a) % 4),
                holder: HOLDERS[usize::from(roll.b) % 3].into(),
                kind: SessionKind::Connection,
                ttl_ms: 0,
                grace_ms: 5,
                principal: "p".into(),
                accepts_handover: None,
            }),
            54 => Action::CloseSession {
                session: SessionId(u64::from(roll.a) % 4),
                reason: Reason::SessionExpired,
            },
            55..58 => return Asked::Internal(Internal::Expire(lease)),
            58..60 => {
                let pending = self.kernel.notices().next().map(|(lease, _)| lease);
                return Asked::Internal(Internal::Notified(
                    pending.filter(|_| roll.b < 200).unwrap_or(lease),
                ));
            }
            60 => {
                let below = self.next.0.saturating_sub(u64::from(roll.a) % 16);
                return Asked::Internal(Internal::Trim(Lsn(below)));
            }
            61 => {
                return Asked::Internal(Internal::Configure(Retention {
                    window_ms: [0, 5, 60, 100, 1000, 100_000][usize::from(roll.a) % 6],
                    leases_max: [0, 2, 4, 100, 1000][usize::from(roll.b) % 5],
                    leases_per_face_max: [0, 1, 3, 100, 1000][usize::from(roll.c) % 5],
                    operations_per_principal_max: [0, 1, 2, 100, 1000][usize::from(roll.d) % 5],
                }));
            }
            _ => match self.kernel.due(self.now).next() {
                Some(due) => return Asked::Internal(Internal::Expire(due)),
                None => Action::Activate(self.reserved(roll)),
            },
        };
        Asked::Command(Command { operation: Self::operation(roll), action })
    }

    fn step(&mut self, roll: &Roll) {
        let wait = match roll.wait {
            0..120 => 0,
            120..250 => u64::from(roll.wait % 8),
            250.. => 70,
        };
        self.now = self.now.after_ms(wait);
        self.ask(self.asked(roll));
    }

    fn ask(&mut self, asked: Asked) {
        let at = Stamp { lsn: self.next, tick: self.now };
        let event = match asked {
            Asked::Command(command) => {
                let said = self.kernel.decide(at, &command);
                let expected = self.model.step(at, &command);
                assert_eq!(said, expected, "{command:#?}");
                match said {
                    Ok(Decision::Event(event)) => Some(event),
                    Ok(Decision::Replay(_)) => self.count("replayed"),
                    Err(rejection) => self.count(&code(&rejection)),
                }
            }
            Asked::Internal(command) => {
                let said = self.kernel.decide_internal(at, &command);
                assert_eq!(said, self.model.step_internal(at, &command), "{command:?}");
                said
            }
        };
        let Some(event) = event else { return };
        self.count(event.change.kind().as_str());
        self.kernel.evolve(at, &event);
        if let Change::Granted(_) = event.change {
            self.granted.push(LeaseId::new(0, at.lsn));
        }
        self.next = at.lsn.next();
        self.log.push((at, event));
        self.kernel.check_invariants().unwrap();
        self.watch.look(&self.kernel);
        self.compare();
        self.snapshots.push(bytes_of(&self.kernel));
    }

    fn count(&mut self, outcome: &str) -> Option<Event> {
        *self.outcomes.entry(outcome.to_owned()).or_default() += 1;
        None
    }

    /// Everything that can be read says what the model says.
    fn compare(&self) {
        let (kernel, model) = (&self.kernel, &self.model);
        assert!(
            kernel.leases_from(LeaseId(0)).map(|view| view.id().lsn().0).eq(model.leases.keys().copied())
        );
        for (view, lease) in kernel.leases_from(LeaseId(0)).zip(model.leases.values()) {
            assert_eq!((view.state(), view.epoch()), (&lease.state, lease.epoch));
            assert_eq!((view.holder(), view.policy()), (&lease.holder, lease.policy.clone()));
            assert_eq!(view.fence(), Fence((1 << 40) + lease.authority.0));
            assert_eq!((view.changed_lsn(), view.granted_tick()), (lease.changed, lease.granted));
            assert_eq!(view.granted_wall_ms(), lease.wall_ms);
            assert_eq!((view.attachment(), view.face_data()), (&lease.attachment[..], &lease.face_data[..]));
            assert!(view.members().eq(lease.members.iter()));
            assert_eq!(view.session(), lease.policy.session);
            assert_eq!(*view.terms(), Policy { session: None, ..lease.policy.clone() });
        }
        for name in NAMES {
            let coverer = model.coverer(&name.into()).map(|(id, _)| id);
            assert_eq!(kernel.covering(name).map(LeaseView::id), coverer, "{name}");
        }
        for lsn in 0..self.next.0 + 2 {
            let id = LeaseId::new(0, Lsn(lsn));
            let expected = match (model.leases.get(&lsn), model.find_ended(self.now, id)) {
                (Some(_), _) => "live".to_owned(),
                (None, Some(Some(ended))) => format!("{ended:?}"),
                (None, Some(None)) => "retired".to_owned(),
                (None, None) => "none".to_owned(),
            };
            let found = match kernel.lease(id, self.now) {
                Found::Live(_) => "live".to_owned(),
                Found::Ended(ended) => format!("{ended:?}"),
                Found::Retired => "retired".to_owned(),
                Found::NotFound => "none".to_owned(),
            };
            assert_eq!(found, expected, "lease {lsn}");
        }
        assert_eq!(kernel.retained_count(), model.ended.len());
        assert_eq!(kernel.watermark().0, model.watermark);
        assert_eq!(kernel.operation_count(), model.operations.len());
        assert!(kernel.notices().eq(model.notices.iter().map(|(id, notice)| (*id, notice))));

        assert!(kernel.pools().map(|pool| pool.name).eq(model.pools.keys().map(|name| name.as_str())));
        for pool in kernel.pools() {
            let expected = &model.pools[pool.name];
            let held = model.held_of(&pool.name.into());
            let told = (pool.size, pool.free, pool.removed);
            assert_eq!(told, (expected.size, expected.size - held, expected.removed));
            assert_eq!(kernel.holders_of_pool(pool.name).count() as u32, held);
        }
        let ids: Vec<u64> = kernel.sessions_from(SessionId(0)).map(|session| session.id().0).collect();
        assert!(ids.iter().eq(model.sessions.keys()));
        for (id, session) in &model.sessions {
            let view = kernel.session(SessionId(*id)).unwrap();
            assert_eq!(view.closed(), session.closed);
            let leases: Vec<u64> = kernel.leases_of(SessionId(*id)).map(|view| view.id().lsn().0).collect();
            assert_eq!(leases, [&session.with_authority[..], &session.revoking[..]].concat());
            let drained = model.leases.iter().filter(|(_, lease)| lease.is_drained());
            let drained = drained.filter(|(_, lease)| lease.policy.session == Some(SessionId(*id)));
            assert!(view.drained().map(|lease| lease.lsn().0).eq(drained.map(|(lsn, _)| *lsn)));
            let losses: Vec<Loss> = view.losses_after(view.changed_lsn()).unwrap().collect();
            assert!(losses.is_empty(), "a loss is a change");
            let known = |seen: Lsn| view.losses_after(seen).map(|losses| losses.collect::<Vec<_>>());
            let all = (0..self.next.0).find_map(|seen| known(Lsn(seen))).unwrap();
            assert_eq!(all, session.losses);
            assert!(session.revoking.iter().all(|lsn| model.leases[lsn].is_revoking()));
        }
    }
}

/// The events through their bytes into a kernel that starts from `snapshot`.
fn replay(log: &[(Stamp, Event)], snapshot: &[u8], hash_seed: u64) -> Vec<u8> {
    let mut kernel = decode_state(setup(hash_seed), snapshot).unwrap();
    kernel.check_invariants().unwrap();
    for (at, event) in log {
        let mut bytes = Vec::new();
        encode_event(event, FORMAT, &mut bytes);
        kernel.evolve(*at, &decode_event(&bytes).unwrap());
    }
    kernel.check_invariants().unwrap();
    bytes_of(&kernel)
}

fn config() -> ProptestConfig {
    // Same cases in every run unless `PROPTEST_RNG_SEED` says otherwise; more with `PROPTEST_CASES`.
    let mut default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        default.cases = 1000;
    }
    match default.rng_seed {
        proptest::test_runner::RngSeed::Random => {
            ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(20_260), ..default }
        }
        proptest::test_runner::RngSeed::Fixed(_) => default,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_kernel_answers_like_the_model(rolls in rolls(), cut in any::<prop::sample::Index>()) {
        let mut world = World::new();
        world.furnish();
        for roll in &rolls {
            world.step(roll);
        }
        let live = bytes_of(&world.kernel);
        let mut fresh = Kernel::new(setup(7));
        for (at, event) in &world.log {
            fresh.evolve(*at, event);
        }
        prop_assert_eq!(&bytes_of(&fresh), &live, "a replay");
        prop_assert_eq!(&replay(&world.log, &world.snapshots[0], 8), &live, "a replay of bytes");
        let cut = cut.index(world.snapshots.len());
        prop_assert_eq!(&replay(&world.log[cut..], &world.snapshots[cut], 9), &live, "a snapshot and the rest");
    }
}

/// A run that reaches nothing tests nothing.
#[test]
fn the_random_commands_reach_every_kind_of_event_and_refusal() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..256 {
        let mut world = World::new();
        world.furnish();
        for roll in rolls().new_tree(&mut runner).unwrap().current() {
            world.step(&roll);
        }
        for (outcome, count) in world.outcomes {
            *outcomes.entry(outcome).or_default() += count;
        }
    }
    let refusals = [
        "operation_conflict",
        "replayed",
        "bundle_empty",
        "invalid_name",
        "duplicate_member",
        "ttl_out_of_range",
        "pool_not_found",
        "session_not_found",
        "session_exists",
        "resource_held",
        "pool_exhausted",
        "capacity_exceeded",
        "lease_not_found",
        "lease_retired",
        "holder_mismatch",
        "stale_epoch",
        "invalid_state",
        "deadline_passed",
        "already_draining",
        "not_draining",
        "pool_in_use",
    ];
    for outcome in ChangeKind::ALL.map(ChangeKind::as_str).into_iter().chain(refusals) {
        assert!(
            outcomes.get(outcome).is_some_and(|count| *count > 20),
            "{outcome} is too rare: {outcomes:?}"
        );
    }
}
