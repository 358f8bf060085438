//! Histories of a register that is right, and of registers that are wrong in one way: none of the first may be
//! blamed, and each kind of the second must be found.

use super::{Rule, check, check_with};
use crate::cluster::history::{Asked, Authority, Heard, Record, Restore, State};
use crate::faults::random::Random;

const MILLISECOND: u64 = 1_000_000;
const STEPS: usize = 300;

/// What is wrong with a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plant {
    /// Nothing.
    Nothing,
    /// It ends leases before their promise.
    Impatient,
    /// It counts promises from its answer, and tells more than it keeps.
    CountsFromTheAnswer,
    /// It answers some checks from an older state.
    Stale,
    /// It forgets some releases after it acknowledged them.
    ForgetsReleases,
    /// It forgets some grants after it acknowledged them.
    ForgetsGrants,
    /// It grants again what it has granted, if asked again.
    ForgetsOperations,
    /// It gives the fence of the lease before once more.
    RepeatsFences,
    /// After a restore it does not wait for the holders of before.
    GrantsTooSoon,
    /// What is held lives on over a restore.
    LivesOn,
    /// Fences go back with a restore.
    FencesGoBack,
    /// It answers a check before the store was adopted.
    AnswersTooSoon,
}

/// A register, and what its callers hear.
struct Register {
    random: Random,
    plant: Plant,
    now_ns: u64,
    fence: u64,
    held: Option<Lease>,
    before: Option<Option<Lease>>,
    /// Acquires whose outcome was not heard, and what came of them.
    unheard: Vec<(String, Option<Lease>)>,
    history: Vec<Record>,
    restores: Vec<Restore>,
    /// Nothing is granted before.
    closed_until_ns: u64,
}

#[derive(Clone)]
struct Lease {
    name: String,
    operation: String,
    fence: u64,
    promised_ns: u64,
}

impl Register {
    fn run(seed: u64, plant: Plant) -> Vec<Record> {
        Self::run_with(seed, plant, STEPS).history
    }

    /// With a restore every so many steps.
    fn run_with(seed: u64, plant: Plant, restore_every: usize) -> Self {
        let mut register = Self {
            random: Random::new(seed),
            plant,
            now_ns: 1_000 * MILLISECOND,
            fence: 0,
            held: None,
            before: None,
            unheard: Vec::new(),
            history: Vec::new(),
            restores: Vec::new(),
            closed_until_ns: 0,
        };
        for step in 0..STEPS {
            if step % restore_every == restore_every - 1 && restore_every < STEPS {
                register.restore();
            }
            register.now_ns += (1 + register.random.below(30)) * MILLISECOND;
            register.end_by_itself();
            match register.random.below(10) {
                0..=2 => register.acquire(&format!("o{step}")),
                3 => register.acquire_again(),
                4..=5 => register.heartbeat(),
                6 => register.release(),
                _ => register.check(),
            }
        }
        register
    }

    /// Everything is ended; nothing is granted before the last promise is over; fences go on far above.
    fn restore(&mut self) {
        let from_ns = self.now_ns + MILLISECOND;
        let restore = Restore {
            from_ns,
            stopped_ns: from_ns + 20 * MILLISECOND,
            until_ns: from_ns + 100 * MILLISECOND,
        };
        if self.plant == Plant::AnswersTooSoon {
            self.now_ns = restore.stopped_ns + 41 * MILLISECOND;
            self.check();
        }
        self.now_ns = restore.until_ns + MILLISECOND;
        self.restores.push(restore);
        if self.plant != Plant::LivesOn {
            let waits = self.held.as_ref().filter(|_| self.plant != Plant::GrantsTooSoon);
            self.closed_until_ns = waits.map_or(0, |held| held.promised_ns);
            self.change(None);
        }
        self.fence = match self.plant {
            Plant::FencesGoBack => self.fence.saturating_sub(3),
            _ => self.fence + 1_000,
        };
    }

    fn end_by_itself(&mut self) {
        let Some(lease) = &self.held else { return };
        let patience = if self.plant == Plant::Impatient { 60 * MILLISECOND } else { 0 };
        if lease.promised_ns < self.now_ns + patience && self.random.below(2) == 0 {
            self.change(None);
        }
        if self.plant == Plant::ForgetsGrants && self.random.below(40) == 0 {
            self.held = None;
        }
    }

    fn change(&mut self, to: Option<Lease>) {
        self.before = Some(self.held.clone());
        self.held = to;
    }

    /// It happens now; it was sent before and is heard later, if at all.
    fn record(&mut self, operation: &str, asked: Asked, sent_ns: u64, heard: Heard) {
        let heard_ns = self.now_ns + self.random.below(40) * MILLISECOND;
        let is_heard = self.random.below(8) > 0;
        let heard = is_heard.then_some((heard_ns, heard));
        let operation = operation.to_owned();
        self.history.push(Record { operation, node: "a".to_owned(), asked, sent_ns, heard });
    }

    fn sent_ns(&mut self) -> u64 {
        self.now_ns - self.random.below(40) * MILLISECOND
    }

    fn acquire(&mut self, operation: &str) {
        let sent_ns = self.sent_ns();
        let asked = Asked::Acquire { resource: "r".to_owned(), holder: operation.to_owned() };
        if let Some(holding) = self.held.clone() {
            let heard = Heard::Held { by: Some(holding.name) };
            self.record(operation, asked, sent_ns, heard);
            return;
        }
        if self.now_ns < self.closed_until_ns {
            let heard = Heard::Declined { code: "not_yet".to_owned() };
            self.record(operation, asked, sent_ns, heard);
            return;
        }
        self.fence += u64::from(self.plant != Plant::RepeatsFences || self.random.below(10) > 0);
        let (valid_ms, promised_ns) = self.promise();
        let name = format!("L{}-{operation}-{}", self.fence, self.history.len());
        let lease = Lease { name, operation: operation.to_owned(), fence: self.fence, promised_ns };
        self.change(Some(lease.clone()));
        let heard =
            Heard::Granted { lease: lease.name.clone(), fence: lease.fence, valid_ms, state: State::Live };
        self.record(operation, asked, sent_ns, heard);
        if !self.history.last().unwrap().is_answered() {
            self.unheard.push((operation.to_owned(), Some(lease)));
        }
    }

    fn promise(&mut self) -> (u64, u64) {
        let valid_ms = 50 + self.random.below(200);
        let told_ms = if self.plant == Plant::CountsFromTheAnswer { valid_ms + 80 } else { valid_ms };
        (told_ms, self.now_ns + valid_ms * MILLISECOND)
    }

    /// Resolves what was not heard.
    fn acquire_again(&mut self) {
        let Some((operation, lease)) = self.unheard.pop() else { return };
        let Some(lease) = lease.filter(|_| self.plant != Plant::ForgetsOperations) else {
            return self.acquire(&operation);
        };
        let sent_ns = self.sent_ns();
        let is_live = self.held.as_ref().is_some_and(|held| held.name == lease.name);
        let left_ns = self
            .held
            .as_ref()
            .filter(|_| is_live)
            .map_or(0, |held| held.promised_ns)
            .saturating_sub(self.now_ns);
        let heard = Heard::Granted {
            lease: lease.name.clone(),
            fence: lease.fence,
            valid_ms: left_ns / MILLISECOND,
            state: if is_live { State::Live } else { State::Ended },
        };
        let asked = Asked::Acquire { resource: "r".to_owned(), holder: operation.clone() };
        self.record(&operation, asked, sent_ns, heard);
    }

    fn heartbeat(&mut self) {
        let Some(mut lease) = self.held.clone() else { return };
        let sent_ns = self.sent_ns();
        let (valid_ms, promised_ns) = self.promise();
        lease.promised_ns = lease.promised_ns.max(promised_ns);
        self.held = Some(lease.clone());
        let operation = format!("h{}", self.history.len());
        self.record(&operation, Asked::Heartbeat { lease: lease.name }, sent_ns, Heard::Renewed { valid_ms });
    }

    fn release(&mut self) {
        let Some(lease) = self.held.clone() else { return };
        let sent_ns = self.sent_ns();
        if self.plant != Plant::ForgetsReleases || self.random.below(3) > 0 {
            self.change(None);
        }
        let operation = format!("release {}", lease.operation);
        self.record(&operation, Asked::Release { lease: lease.name }, sent_ns, Heard::Released);
    }

    fn check(&mut self) {
        let sent_ns = self.sent_ns();
        let is_stale = self.plant == Plant::Stale && self.random.below(4) == 0;
        let seen = if is_stale { self.before.clone().flatten() } else { self.held.clone() };
        let authority =
            seen.map(|lease| Authority { lease: lease.name, holder: lease.operation, fence: lease.fence });
        let operation = format!("c{}", self.history.len());
        self.record(
            &operation,
            Asked::Check { resource: "r".to_owned() },
            sent_ns,
            Heard::Authority(authority),
        );
    }
}

#[test]
fn a_register_that_is_right_is_never_blamed() {
    for seed in 0..300 {
        let report = check(&Register::run(seed, Plant::Nothing));
        assert!(report.anomalies.is_empty(), "seed {seed}: {report}");
        assert!(report.changes_of_holder > 5, "seed {seed}: {report}");
    }
}

#[test]
fn a_register_that_is_wrong_is_found_out() {
    let plants = [
        (Plant::Impatient, Rule::PromisesNeverOverlap),
        (Plant::CountsFromTheAnswer, Rule::PromisesNeverOverlap),
        (Plant::Stale, Rule::Linearizable),
        (Plant::ForgetsReleases, Rule::Linearizable),
        (Plant::ForgetsGrants, Rule::PromisesNeverOverlap),
        (Plant::ForgetsOperations, Rule::OneOperationOneLease),
        (Plant::RepeatsFences, Rule::FencesRise),
    ];
    for (plant, rule) in plants {
        let found =
            (0..50).filter(|seed| check(&Register::run(*seed, plant)).broken().contains(&rule)).count();
        assert!(found >= 10, "{plant:?}: {rule:?} broken in {found} of 50");
    }
}

const RESTORE_EVERY: usize = 60;

#[test]
fn a_register_that_is_restored_well_is_never_blamed() {
    for seed in 0..300 {
        let register = Register::run_with(seed, Plant::Nothing, RESTORE_EVERY);
        let report = check_with(&register.history, &register.restores);
        assert!(report.anomalies.is_empty(), "seed {seed}: {report}");
        assert_eq!(report.restores, STEPS / RESTORE_EVERY, "seed {seed}: {report}");
    }
}

#[test]
fn a_register_that_is_restored_badly_is_found_out() {
    let plants = [
        (Plant::GrantsTooSoon, Rule::PromisesNeverOverlap),
        (Plant::LivesOn, Rule::RestoresEndEverything),
        (Plant::FencesGoBack, Rule::FencesRise),
        (Plant::AnswersTooSoon, Rule::RestoresEndEverything),
        // What is wrong without a restore is wrong beside one.
        (Plant::Impatient, Rule::PromisesNeverOverlap),
        (Plant::ForgetsOperations, Rule::OneOperationOneLease),
        (Plant::ForgetsReleases, Rule::Linearizable),
    ];
    for (plant, rule) in plants {
        let is_found = |seed: &u64| {
            let register = Register::run_with(*seed, plant, RESTORE_EVERY);
            check_with(&register.history, &register.restores).broken().contains(&rule)
        };
        let found = (0..50).filter(is_found).count();
        assert!(found >= 10, "{plant:?}: {rule:?} broken in {found} of 50");
    }
}
