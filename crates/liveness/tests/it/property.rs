//! Random lives: the desk against the naive model. Nothing ends early, nothing ends late, views agree, and
//! the desk never sleeps through anything.

use crate::desk::Desk;
use crate::model::{Deeds, Model, State, agree, deeds_of};
use crate::script::{code, refused, seconds};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tenure_kernel::*;

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Grant { name: u8, terms: Terms, reserve: Option<u64> },
    Activate(u8),
    Heartbeat { lease: u8, via: u8 },
    Beat(u8),
    Open { session: u8, ttl: u32, grace: u32 },
    Connect { session: u8, grace: u32 },
    Close(u8),
    Delete(u8),
    Acknowledge(u8),
    Drain(u8),
    Revive(u8),
    Revoke { lease: u8, by_operator: bool },
    Reclaim { lease: u8, force: bool },
    Rebind { lease: u8, holder: &'static str, terms: Terms },
    Release(u8),
    Restart,
}

#[derive(Clone, Debug)]
struct Terms {
    mode: Kind,
    ttl: u32,
    grace: u32,
    lifetime: u64,
    delay: u32,
    at_once: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Heartbeat,
    Permanent,
    ByHand(u8),
    Connection(u8),
}

const SESSIONS: usize = 2;

fn terms() -> impl Strategy<Value = Terms> {
    let kind = prop_oneof![
        4 => Just(Kind::Heartbeat),
        1 => Just(Kind::Permanent),
        3 => (0..SESSIONS as u8).prop_map(Kind::ByHand),
        3 => (0..SESSIONS as u8).prop_map(Kind::Connection),
    ];
    let lifetime = prop_oneof![4 => Just(0_u64), 1 => 1..40_u64];
    let delay = prop_oneof![4 => Just(0_u32), 1 => 1..12_u32];
    (kind, 1..16_u32, 0..9_u32, lifetime, delay, prop::bool::weighted(0.15)).prop_map(
        |(mode, ttl, grace, lifetime, delay, at_once)| Terms { mode, ttl, grace, lifetime, delay, at_once },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let lease = any::<u8>;
    let session = || 0..SESSIONS as u8;
    prop_oneof![
        8 => prop_oneof![4 => 0..4_u64, 2 => 4..15_u64, 1 => 15..60_u64].prop_map(Step::Wait),
        6 => (0..6_u8, terms(), prop::option::weighted(0.2, 1..12_u64))
            .prop_map(|(name, terms, reserve)| Step::Grant { name, terms, reserve }),
        2 => lease().prop_map(Step::Activate),
        6 => (lease(), 0..SESSIONS as u8 + 1).prop_map(|(lease, via)| Step::Heartbeat { lease, via }),
        4 => (0..2 * SESSIONS as u8).prop_map(Step::Beat),
        3 => (session(), 1..16_u32, 0..9_u32)
            .prop_map(|(session, ttl, grace)| Step::Open { session, ttl, grace }),
        3 => (session(), 0..9_u32).prop_map(|(session, grace)| Step::Connect { session, grace }),
        2 => session().prop_map(Step::Close),
        1 => session().prop_map(Step::Delete),
        3 => lease().prop_map(Step::Acknowledge),
        3 => lease().prop_map(Step::Drain),
        2 => lease().prop_map(Step::Revive),
        3 => (lease(), prop::bool::weighted(0.3))
            .prop_map(|(lease, by_operator)| Step::Revoke { lease, by_operator }),
        2 => (lease(), prop::bool::weighted(0.3)).prop_map(|(lease, force)| Step::Reclaim { lease, force }),
        3 => (lease(), prop::sample::select(vec!["b", "c"]), terms())
            .prop_map(|(lease, holder, terms)| Step::Rebind { lease, holder, terms }),
        1 => lease().prop_map(Step::Release),
        1 => Just(Step::Restart),
    ]
}

/// Both side by side.
struct Pair {
    desk: Desk,
    model: Model,
    by_hand: [u64; SESSIONS],
    connections: [u64; SESSIONS],
    next_session: u64,
}

impl Pair {
    fn new(room: usize, looks: usize) -> Self {
        let mut desk = Desk::new(seconds());
        (desk.room, desk.looks) = (room, looks);
        let model = Model::new(&desk.config);
        Self { desk, model, by_hand: [0; SESSIONS], connections: [0; SESSIONS], next_session: 1 }
    }

    fn run(&mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        for step in steps {
            self.step(step)?;
        }
        // Ghosts vanish: once time passes, what is left is what nothing was ever to end.
        self.pass(self.model.now + 200)?;
        self.settle()?;
        for lease in self.model.leases.values() {
            let kept = lease.terms.session.is_some_and(|session| self.model.connection_is_open(session.0));
            let endless = match lease.state {
                State::Active { .. } => {
                    lease.terms.max_lifetime_ms == 0 && (kept || lease.terms.mode == Mode::Permanent)
                }
                State::Revoking { by_daemon, .. } => !by_daemon,
                State::Reserved { .. } => false,
            };
            prop_assert!(endless, "a ghost: {lease:?}");
        }
        Ok(())
    }

    /// Time passes on both sides up to `tick`, which is left for what is observed then.
    fn pass(&mut self, tick: u64) -> Result<(), TestCaseError> {
        let mut due = Deeds::new();
        while self.model.now + 1 < tick {
            self.model.now += 1;
            self.model.tick(&mut due);
        }
        self.model.now = tick;
        self.desk.happened.clear();
        self.desk.advance_to(Tick(tick));
        let done = deeds_of(&self.desk.happened);
        prop_assert!(agree(&done, &due), "up to {tick}:\n did {done:#?}\n had to {due:#?}");
        Ok(())
    }

    /// What is due at this very tick, and then everything there is to see.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let now = self.model.now;
        let mut due = Deeds::new();
        self.model.tick(&mut due);
        self.desk.happened.clear();
        self.desk.turn();
        let done = deeds_of(&self.desk.happened);
        prop_assert!(agree(&done, &due), "at {now}:\n did {done:#?}\n had to {due:#?}");

        let live: Vec<LeaseId> = self.desk.kernel.leases_from(LeaseId(0)).map(|view| view.id()).collect();
        let known: Vec<LeaseId> = self.model.leases.keys().copied().collect();
        prop_assert_eq!(&live, &known);
        for lease in live {
            let (seen, expected) = (self.desk.view(lease), self.model.view(lease));
            prop_assert_eq!(seen, expected, "at {}: {:?}", now, self.model.leases[&lease]);
        }
        if let Some(next) = self.model.next(25) {
            let sleeps = self.desk.next_deadline();
            prop_assert!(sleeps.is_some_and(|until| until.0 <= next), "sleeps until {sleeps:?}, due {next}");
        }
        Ok(())
    }

    fn pick(&self, lease: u8) -> Option<LeaseId> {
        let count = self.model.leases.len();
        (count > 0).then(|| *self.model.leases.keys().nth(usize::from(lease) % count).unwrap())
    }

    /// The terms, if their session can take a lease.
    fn policy(&self, terms: &Terms) -> Option<Policy> {
        let mut policy = match terms.mode {
            Kind::Heartbeat => Policy::heartbeat(terms.ttl, terms.grace),
            Kind::Permanent => Policy::permanent(),
            Kind::ByHand(k) => {
                let id = self.by_hand[usize::from(k)];
                let session = self.model.sessions.get(&id).filter(|session| !session.over)?;
                Policy::session(SessionId(id), session.ttl as u32, session.grace as u32)
            }
            Kind::Connection(k) => {
                let id = self.connections[usize::from(k)];
                if !self.model.connection_is_open(id) {
                    return None;
                }
                Policy::session(SessionId(id), 0, terms.grace)
            }
        };
        policy.max_lifetime_ms = terms.lifetime;
        policy.reclaim_delay_ms = terms.delay;
        if terms.at_once {
            policy.reclaim_rule = ReclaimRule::AtOnce;
        }
        Some(policy)
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        if let Step::Wait(ticks) = step {
            self.pass(self.model.now + ticks)?;
            return self.settle();
        }
        self.act(step)?;
        self.settle()
    }

    fn act(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Wait(_) => {}
            Step::Grant { name, terms, reserve } => {
                let Some(policy) = self.policy(terms) else { return Ok(()) };
                let name = format!("r{name}");
                if self.desk.kernel.covering(&name).is_some() {
                    return Ok(());
                }
                let mut grant = Grant::new(Bundle::one(&name), &name, policy.clone());
                if let Some(ttl_ms) = *reserve {
                    grant.start = Start::Reserved { ttl_ms };
                }
                let (lease, valid_ms) = self.desk.grant(grant).unwrap();
                self.model.granted(lease, policy, *reserve);
                prop_assert_eq!(valid_ms, self.model.view(lease).valid_ms, "the answer of a grant");
            }
            Step::Open { session, ttl, grace } => {
                let id = self.fresh();
                self.by_hand[usize::from(*session)] = id;
                self.desk.open_by_hand(id, *ttl, *grace, "local");
                self.model.opened(id, true, (*ttl).into(), (*grace).into());
            }
            Step::Connect { session, grace } => {
                let id = self.fresh();
                self.connections[usize::from(*session)] = id;
                self.desk.connect(id, SessionKind::Connection, *grace);
                self.model.opened(id, false, 0, (*grace).into());
            }
            Step::Close(session) => {
                let id = self.connections[usize::from(*session)];
                self.desk.disconnect(id);
                self.model.connection_closed(id);
            }
            Step::Delete(session) => {
                let id = self.by_hand[usize::from(*session)];
                if self.desk.delete_session(id).is_ok() {
                    self.model.delete_session(id);
                } else {
                    prop_assert!(self.model.sessions.get(&id).is_none_or(|session| session.over));
                }
            }
            Step::Beat(session) => {
                let k = usize::from(*session) % SESSIONS;
                let id = if usize::from(*session) < SESSIONS { self.by_hand[k] } else { self.connections[k] };
                let answer = self.desk.session_heartbeat(id);
                let answer = answer.map(|r| (r.valid_ms, r.draining, r.returned)).map_err(|e| code(&e));
                prop_assert_eq!(answer, self.model.session_heartbeat(id).map_err(String::from));
            }
            Step::Restart => {
                self.desk.restart();
                self.model.restart();
            }
            Step::Activate(lease)
            | Step::Heartbeat { lease, .. }
            | Step::Acknowledge(lease)
            | Step::Drain(lease)
            | Step::Revive(lease)
            | Step::Revoke { lease, .. }
            | Step::Reclaim { lease, .. }
            | Step::Rebind { lease, .. }
            | Step::Release(lease) => {
                if let Some(lease) = self.pick(*lease) {
                    self.act_on(lease, step)?;
                }
            }
        }
        Ok(())
    }

    fn fresh(&mut self) -> u64 {
        self.next_session += 1;
        self.next_session
    }

    fn act_on(&mut self, lease: LeaseId, step: &Step) -> Result<(), TestCaseError> {
        let epoch = self.desk.kernel.live(lease).unwrap().epoch();
        let state = self.model.leases[&lease].state.clone();
        match step {
            Step::Activate(_) => {
                let done = self.desk.decide(Action::Activate(Token::new(lease, epoch)));
                let done = done.map(drop).map_err(|e| code(&e.into()));
                prop_assert_eq!(done, self.model.activate(lease).map_err(String::from));
            }
            Step::Heartbeat { via, .. } => {
                let via = self.connections.get(usize::from(*via)).copied();
                let answer = self.desk.heartbeat(lease, None, via);
                let answer = answer.map(|r| (r.valid_ms, r.draining, r.returned)).map_err(|e| code(&e));
                prop_assert_eq!(answer, self.model.heartbeat(lease, via).map_err(String::from));
            }
            Step::Acknowledge(_) => {
                let done = self.desk.acknowledge(lease, epoch.0).map_err(|e| code(&e));
                prop_assert_eq!(done, self.model.acknowledge(lease).map_err(String::from));
            }
            Step::Drain(_) => {
                let done = self.desk.drain(lease).map_err(|e| code(&e));
                prop_assert_eq!(done, self.model.drain(lease).map_err(String::from));
            }
            Step::Revive(_) => {
                let done = self.desk.revive(lease).map_err(|e| code(&e));
                prop_assert_eq!(done, self.model.revive(lease).map_err(String::from));
            }
            Step::Revoke { by_operator, .. } => {
                let by = if *by_operator { ReclaimBy::Operator } else { ReclaimBy::Daemon };
                let done = self.desk.revoke(lease, by).is_ok();
                prop_assert_eq!(done, !matches!(state, State::Revoking { .. }));
                if done {
                    self.model.revoke(lease, !by_operator);
                }
            }
            Step::Reclaim { force, .. } => {
                let done = self.desk.reclaim(lease, *force).map_err(|e| refused(&e));
                let now = self.model.now;
                let expected = match state {
                    State::Revoking { earliest, .. } if now < earliest && !force => {
                        Err(format!("not_yet {}", earliest - now))
                    }
                    State::Revoking { .. } => Ok(()),
                    State::Reserved { .. } => Err("invalid_state reserved".to_owned()),
                    State::Active { .. } => Err("invalid_state active".to_owned()),
                };
                prop_assert_eq!(&done, &expected);
                if done.is_ok() {
                    self.model.leases.remove(&lease);
                }
            }
            Step::Rebind { terms, holder, .. } => {
                let Some(policy) = self.policy(terms) else { return Ok(()) };
                let done = self.desk.rebind(lease, Some(holder), Some(policy.clone()));
                // A connection's session is logged even if the rebind is then refused.
                if let Some(session) = policy.session {
                    self.model.sessions.get_mut(&session.0).unwrap().durable = true;
                }
                prop_assert_eq!(done.is_ok(), matches!(state, State::Active { .. }));
                if let Ok(valid_ms) = done {
                    self.model.rebind(lease, holder, policy);
                    prop_assert_eq!(valid_ms, self.model.view(lease).valid_ms, "the answer of a rebind");
                }
            }
            Step::Release(_) => {
                let done = self.desk.release(lease, epoch).is_ok();
                prop_assert_eq!(done, !matches!(state, State::Revoking { .. }));
                if done {
                    self.model.release(lease);
                }
            }
            other => panic!("{other:?} is not about a lease"),
        }
        Ok(())
    }
}

/// Runs so many random lives; the first that the model disagrees with, shrunk.
fn lives(cases: u32) -> Result<(), TestError<(Vec<Step>, usize, usize)>> {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let few = || prop_oneof![Just(usize::MAX), 1..4_usize];
    let steps = proptest::collection::vec(step(), 1..80);
    TestRunner::new(config)
        .run(&(steps, few(), few()), |(steps, room, looks)| Pair::new(room, looks).run(&steps))
}

#[test]
fn the_desk_does_what_the_contract_says_at_the_tick_it_says() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4_000);
    if let Err(failure) = lives(cases) {
        panic!("{failure}");
    }
}

/// A property that misses planted bugs proves nothing.
#[cfg(feature = "plant")]
#[test]
fn planted_bugs_are_found() {
    use tenure_kernel::planted::{Planted, plant};
    for bug in [
        Planted::GraceFromLastProof,
        Planted::HeartbeatRevivesOperatorDrain,
        Planted::PromiseIgnored,
        Planted::WholePromiseTold,
        Planted::FormerPromiseForgotten,
        Planted::RestartForgetsFormer,
        Planted::RecoveryAgesHolders,
    ] {
        plant(Some(bug));
        let found = lives(2_000);
        plant(None);
        assert!(found.is_err(), "{bug:?} was not found");
    }
}
