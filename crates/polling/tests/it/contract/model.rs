//! Random things done by three pollers to three targets, against a model: one holder, and fences that rise.

use super::{Fixture, Member};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_polling::store::{HeldTarget, Outcome, ReleaseReason, SeenMember, Store};

const POLLERS: usize = 3;
const TARGETS: usize = 3;
const CASES: u32 = 12;
const STEPS: usize = 30;

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire(usize, usize),
    Release(usize, usize),
    HandOver(usize, usize, usize),
    Renew(usize),
    /// Lets go of what it had before it lost it.
    ReleaseStale(usize, usize),
}

/// Who holds what, the last lease of each who has it no more, and the highest fence of each target.
struct Model {
    case: u64,
    holders: BTreeMap<usize, (usize, HeldTarget)>,
    stale: BTreeMap<(usize, usize), HeldTarget>,
    highest: BTreeMap<usize, u64>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (poller, target) = (0..POLLERS, 0..TARGETS);
    let step = prop_oneof![
        3 => (poller.clone(), target.clone()).prop_map(|(p, t)| Step::Acquire(p, t)),
        1 => (poller.clone(), target.clone()).prop_map(|(p, t)| Step::Release(p, t)),
        3 => (poller.clone(), target.clone(), poller.clone()).prop_map(|(p, t, to)| Step::HandOver(p, t, to)),
        1 => poller.clone().prop_map(Step::Renew),
        1 => (poller, target).prop_map(|(p, t)| Step::ReleaseStale(p, t)),
    ];
    proptest::collection::vec(step, 1..STEPS)
}

pub(super) async fn one_holder_and_rising_fences_whatever_happens<F: Fixture>(fixture: F) {
    let mut pollers = Vec::new();
    for _ in 0..POLLERS {
        pollers.push(Member::lasting(&fixture).await);
    }
    let mut seen = Vec::new();
    for poller in &pollers {
        seen.push(pollers[0].finds(poller).await);
    }
    let runtime = tokio::runtime::Handle::current();
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let count = AtomicU64::new(0);
    let tried = tokio::task::spawn_blocking(move || {
        TestRunner::new(config).run(&steps(), |steps| {
            runtime.block_on(async {
                let case = count.fetch_add(1, Ordering::Relaxed);
                let (holders, stale, highest) = Default::default();
                let mut model = Model { case, holders, stale, highest };
                for step in steps {
                    model.take(step, &pollers, &seen).await?;
                }
                model.clear(&pollers).await
            })
        })
    })
    .await;
    drop(fixture);
    tried.expect("no panic").expect("the model holds");
}

impl Model {
    /// Each case has targets of its own, so that a shorter one begins with nothing too.
    fn name(&self, target: usize) -> String {
        format!("case {} target {target}", self.case)
    }

    async fn take<S: Store>(
        &mut self,
        step: Step,
        pollers: &[Member<S>],
        seen: &[SeenMember],
    ) -> Result<(), TestCaseError> {
        match step {
            Step::Acquire(poller, target) => {
                if self.held_by(poller, target).is_some() {
                    return Ok(());
                }
                match pollers[poller].try_acquire(&self.name(target)).await {
                    Outcome::Done(lease) => {
                        prop_assert!(!self.holders.contains_key(&target), "{target} has two holders");
                        self.hold(poller, target, lease)?;
                    }
                    other => prop_assert!(self.holders.contains_key(&target), "{target} is free: {other:?}"),
                }
            }
            Step::Release(poller, target) => {
                let Some(lease) = self.held_by(poller, target) else { return Ok(()) };
                pollers[poller].store.release(&[lease], ReleaseReason::Voluntary).await.expect("an answer");
                self.let_go(poller, target);
            }
            Step::HandOver(poller, target, to) => {
                let Some(lease) = self.held_by(poller, target).filter(|_| poller != to) else {
                    return Ok(());
                };
                let given = [(lease, seen[to].clone())];
                let handed = pollers[poller].store.hand_over(&given, ReleaseReason::Rebalanced).await;
                prop_assert_eq!(handed, Ok(vec![Outcome::Done(())]));
                self.let_go(poller, target);
                let highest = self.highest.get(&target).copied().unwrap_or(0);
                let lease = pollers[to].adopts_above(&self.name(target), highest).await;
                self.hold(to, target, lease)?;
            }
            Step::Renew(poller) => {
                let held = self.holders.values().filter(|(holder, _)| *holder == poller);
                let mut leases: Vec<HeldTarget> = held.map(|(_, lease)| lease.clone()).collect();
                let count = leases.len();
                // A poller knows one lease on a target at a time: of what came back, the latest.
                let is_gone =
                    |was: usize, target: usize| was == poller && self.held_by(poller, target).is_none();
                let stale = self.stale.iter().filter(|((was, target), _)| is_gone(*was, *target));
                leases.extend(stale.map(|(_, lease)| lease.clone()));
                let renewal = pollers[poller].store.renew(&leases).await.expect("an answer");
                let is_stale = |fence: &u64| leases[count..].iter().any(|lease| lease.fence == *fence);
                let lost: Vec<u64> = renewal.lost.iter().map(|loss| loss.fence).collect();
                prop_assert!(lost.iter().all(is_stale), "what is held is not lost: {lost:?}");
            }
            Step::ReleaseStale(poller, target) => {
                if let Some(lease) = self.stale.get(&(poller, target)).cloned() {
                    pollers[poller]
                        .store
                        .release(&[lease], ReleaseReason::Voluntary)
                        .await
                        .expect("an answer");
                }
            }
        }
        Ok(())
    }

    fn held_by(&self, poller: usize, target: usize) -> Option<HeldTarget> {
        self.holders.get(&target).filter(|(holder, _)| *holder == poller).map(|(_, lease)| lease.clone())
    }

    fn hold(&mut self, poller: usize, target: usize, lease: HeldTarget) -> Result<(), TestCaseError> {
        let highest = self.highest.entry(target).or_default();
        prop_assert!(lease.fence > *highest, "{target}: {} after {highest}", lease.fence);
        *highest = lease.fence;
        self.holders.insert(target, (poller, lease));
        Ok(())
    }

    fn let_go(&mut self, poller: usize, target: usize) {
        if let Some((_, lease)) = self.holders.remove(&target) {
            self.stale.insert((poller, target), lease);
        }
    }

    /// Whoever holds something in the end really does.
    async fn clear<S: Store>(&mut self, pollers: &[Member<S>]) -> Result<(), TestCaseError> {
        for (poller, lease) in std::mem::take(&mut self.holders).into_values() {
            let renewal = pollers[poller].store.renew(std::slice::from_ref(&lease)).await.expect("an answer");
            prop_assert!(renewal.lost.is_empty(), "lost without a reason: {:?}", renewal.lost);
            pollers[poller].store.release(&[lease], ReleaseReason::Voluntary).await.expect("an answer");
        }
        Ok(())
    }
}
