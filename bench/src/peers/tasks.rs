//! Many tasks on one thread, each with one request under way: how a load is driven through a library that answers
//! one future per request. Knows no system.

use super::latencies::Latencies;
use super::peer::{Contention, Paced, Sample, Until, Work};
use crate::gauge;
use anyhow::{Context, Result, ensure};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tenure_client::clock::BootInstant;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, LocalSet};

/// How one request went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Done,
    Refused,
    /// There was nothing to renew or to release any more.
    NothingLeft,
}

/// One request at a time, again and again.
pub(crate) trait Asker: 'static {
    /// An error ends the run: the system is gone or does not understand us.
    fn ask(&mut self, work: Work) -> impl Future<Output = Result<Answer>>;
}

/// How much longer than asked a run may take until it counts as hung.
const LATE_BY: Duration = Duration::from_secs(60);
/// How long a run that is given by its count may take.
const COUNTED_WITHIN: Duration = Duration::from_secs(900);

/// What the tasks of one run share.
pub(crate) struct Tally {
    /// Requests that may still be started.
    left: Cell<u64>,
    deadline: Option<Instant>,
    began: Instant,
    ended: Cell<Instant>,
    done: Cell<u64>,
    refused: Cell<u64>,
    latencies: RefCell<Latencies>,
}

impl Tally {
    pub(crate) fn new(until: Until) -> Self {
        let began = gauge::now();
        let (left, deadline) = match until {
            Until::Time(time) => (u64::MAX, Some(began + time)),
            Until::Count(count) => (count, None),
        };
        Self {
            left: Cell::new(left),
            deadline,
            began,
            ended: Cell::new(began),
            done: Cell::new(0),
            refused: Cell::new(0),
            latencies: RefCell::default(),
        }
    }

    /// How long the run may take before it is given up.
    pub(crate) fn limit(until: Until) -> Duration {
        match until {
            Until::Time(time) => time + LATE_BY,
            Until::Count(_) => COUNTED_WITHIN,
        }
    }

    /// Whether one more request may start now.
    pub(crate) fn may_start(&self, now: Instant) -> bool {
        if self.left.get() == 0 || self.deadline.is_some_and(|deadline| now >= deadline) {
            return false;
        }
        self.left.set(self.left.get() - 1);
        true
    }

    pub(crate) fn count(&self, answer: Answer, began: Instant, now: Instant) {
        match answer {
            Answer::Done => {
                self.done.set(self.done.get() + 1);
                self.latencies.borrow_mut().add(now - began);
            }
            Answer::Refused => self.refused.set(self.refused.get() + 1),
            Answer::NothingLeft => return,
        }
        self.ended.set(now);
    }

    pub(crate) fn sample(&self) -> Sample {
        Sample {
            done: self.done.get(),
            refused: self.refused.get(),
            took: self.ended.get() - self.began,
            latencies: self.latencies.take(),
        }
    }
}

/// One thread for all connections of a load.
pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// What came of a fight, from how often each had the name.
pub(crate) fn contention(grants: &[u64], took: Duration) -> Contention {
    let all: u64 = grants.iter().sum();
    let part = |grants: Option<&u64>| *grants.unwrap_or(&0) as f64 / all.max(1) as f64;
    Contention {
        grants: all,
        took,
        luckiest: part(grants.iter().max()),
        unluckiest: part(grants.iter().min()),
    }
}

/// Lets every asker ask until it is over. They are back in `askers` afterwards, in some order.
pub(crate) fn drive<A: Asker>(
    runtime: &Runtime,
    askers: &mut Vec<A>,
    work: Work,
    until: Until,
) -> Result<Sample> {
    let tally = Rc::new(Tally::new(until));
    let all = async {
        let mut tasks = JoinSet::new();
        for mut asker in askers.drain(..) {
            let tally = Rc::clone(&tally);
            tasks.spawn_local(async move {
                let mut now = gauge::now();
                while tally.may_start(now) {
                    let answer = asker.ask(work).await?;
                    let began = now;
                    now = gauge::now();
                    tally.count(answer, began, now);
                    if answer == Answer::NothingLeft {
                        break;
                    }
                }
                anyhow::Ok(asker)
            });
        }
        while let Some(ended) = tasks.join_next().await {
            askers.push(ended??);
        }
        anyhow::Ok(())
    };
    let local = LocalSet::new();
    runtime
        .block_on(local.run_until(async { tokio::time::timeout(Tally::limit(until), all).await }))
        .context("the run did not end")??;
    Ok(tally.sample())
}

/// Lets one asker ask in every interval, as long as one is free, whatever has become of those before. Counted from when
/// each was due.
pub(crate) fn drive_paced<A: Asker>(
    runtime: &Runtime,
    askers: &mut Vec<A>,
    work: Work,
    every: Duration,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Paced>> {
    let mut all = Vec::new();
    let pacing = async {
        let mut tasks = JoinSet::new();
        let mut due = BootInstant::now();
        while goes_on() || !tasks.is_empty() {
            while goes_on()
                && due <= BootInstant::now()
                && let Some(mut asker) = askers.pop()
            {
                let at = due;
                tasks.spawn_local(async move {
                    let answer = asker.ask(work).await?;
                    ensure!(answer == Answer::Done, "{} was refused", work.as_str());
                    anyhow::Ok((asker, Paced { at, took: BootInstant::now().since(at) }))
                });
                due = due.after(every);
            }
            // Where nobody is free, or nothing more is asked, only an answer helps.
            let can_ask = goes_on() && !askers.is_empty();
            let limit = if can_ask { due.since(BootInstant::now()) } else { LATE_BY };
            tokio::select! {
                Some(ended) = tasks.join_next() => {
                    let (asker, paced) = ended??;
                    askers.push(asker);
                    all.push(paced);
                }
                () = tokio::time::sleep(limit) => ensure!(can_ask, "no answer for {} s", LATE_BY.as_secs()),
            }
        }
        Ok(())
    };
    let local = LocalSet::new();
    runtime.block_on(local.run_until(pacing))?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Countdown(u64);

    impl Asker for Countdown {
        async fn ask(&mut self, _work: Work) -> Result<Answer> {
            tokio::task::yield_now().await;
            let Some(left) = self.0.checked_sub(1) else { return Ok(Answer::NothingLeft) };
            self.0 = left;
            Ok(if left.is_multiple_of(2) { Answer::Done } else { Answer::Refused })
        }
    }

    #[test]
    fn a_count_is_shared_by_all_askers() {
        let runtime = runtime().unwrap();
        let mut askers = vec![Countdown(1_000), Countdown(1_000)];
        let sample = drive(&runtime, &mut askers, Work::Acquire, Until::Count(100)).unwrap();
        assert_eq!((sample.done, sample.refused, sample.latencies.count()), (50, 50, 50));
        assert_eq!(askers.iter().map(|asker| asker.0).sum::<u64>(), 1_900);
    }

    #[test]
    fn what_is_due_is_asked_while_others_wait() {
        struct Slow;
        impl Asker for Slow {
            async fn ask(&mut self, _work: Work) -> Result<Answer> {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(Answer::Done)
            }
        }
        let runtime = runtime().unwrap();
        let mut askers = vec![Slow, Slow, Slow];
        let calls = Cell::new(0);
        let goes_on = || calls.replace(calls.get() + 1) < 30;
        let paced =
            drive_paced(&runtime, &mut askers, Work::Renew, Duration::from_millis(1), &goes_on).unwrap();
        assert_eq!(askers.len(), 3);
        assert!(paced.len() >= 3 && paced.iter().all(|paced| paced.took >= Duration::from_millis(19)));
        // The second did not wait for the first.
        assert!(paced[1].at.since(paced[0].at) < Duration::from_millis(20));
    }

    #[test]
    fn a_run_ends_when_nothing_is_left() {
        let runtime = runtime().unwrap();
        let mut askers = vec![Countdown(3), Countdown(4)];
        let sample = drive(&runtime, &mut askers, Work::Release, Until::Count(u64::MAX)).unwrap();
        assert_eq!((sample.done, sample.refused), (4, 3));
    }
}
