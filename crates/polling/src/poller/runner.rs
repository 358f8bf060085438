//! Starts polls when they are due, as many at once as allowed, and ends them in time.

use super::holdings::Start;
use super::poll::{Poll, Polled};
use super::{Options, Shared};
use crate::metrics::RunOutcome;
use crate::store::{Store, TargetName};
use core::future::poll_fn;
use core::task::Poll as Step;
use core::time::Duration;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tenure_client::Jitter;
use tenure_client::clock::{BootInstant, wait_until};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long a poll that was told to stop is waited for while its target is ours.
pub(super) const STOPPING_MAX: Duration = Duration::from_secs(2);

/// A poll that runs.
struct Running {
    target: TargetName,
    fence: u64,
    started: BootInstant,
}

/// Runs polls until it is dropped.
pub(super) async fn run<S, F, Call, R>(shared: Arc<Shared<S>>, program: F)
where
    S: Store,
    F: Fn(TargetName, Poll) -> Call + Send,
    Call: Future<Output = R> + Send + 'static,
    R: Polled + 'static,
{
    let mut tasks: JoinSet<(RunOutcome, Option<String>)> = JoinSet::new();
    let mut running: HashMap<Id, Running> = HashMap::new();
    let mut jitter = Jitter::from_system();
    loop {
        while tasks.len() < shared.options.concurrency {
            let (now, start) = {
                let mut holdings = shared.holdings();
                // What counts is when it is decided, not when the lock was asked for.
                let now = BootInstant::now();
                (now, holdings.start_next(now, shared.options.cancel_lead))
            };
            let Some(Start { target, fence, tie }) = start else { break };
            let poll = Poll { fence, tie, cancelled: CancellationToken::new() };
            let begun = catch_unwind(AssertUnwindSafe(|| program(target.clone(), poll.clone())));
            let poll_of = Running { target, fence, started: now };
            match begun {
                Ok(work) => {
                    let id = tasks
                        .spawn(drive(work, poll, shared.options.timeout, shared.options.cancel_lead))
                        .id();
                    running.insert(id, poll_of);
                }
                Err(_) => finish(&shared, &poll_of, RunOutcome::Panicked, None, &mut jitter),
            }
        }
        let next = shared.holdings().next_due().filter(|_| tasks.len() < shared.options.concurrency);
        tokio::select! {
            Some(ended) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                let (id, outcome, fault) = match ended {
                    Ok((id, (outcome, fault))) => (id, outcome, fault),
                    Err(error) => (error.id(), RunOutcome::Panicked, Some(error.to_string())),
                };
                if let Some(ended) = running.remove(&id) {
                    finish(&shared, &ended, outcome, fault.as_deref(), &mut jitter);
                }
            }
            () = shared.runner_wake.notified() => {}
            () = due(next) => {}
        }
    }
}

async fn due(next: Option<BootInstant>) {
    match next {
        Some(next) => wait_until(next).await,
        None => core::future::pending().await,
    }
}

/// One poll: told to stop when its time is nearly over, dropped when it does not. Whatever woke the task, be it after the
/// process stood still for an hour, the time is looked at before the poll takes another step.
async fn drive<R: Polled>(
    work: impl Future<Output = R>,
    poll: Poll,
    timeout: Duration,
    cancel_lead: Duration,
) -> (RunOutcome, Option<String>) {
    let mut work = core::pin::pin!(work);
    let ended = |returned: R| match returned.fault() {
        None => (RunOutcome::Ok, None),
        Some(fault) => (RunOutcome::Failed, Some(fault)),
    };
    let mut in_time = poll_fn(|context| {
        let is_over = || BootInstant::now().after(cancel_lead) >= poll.tie.valid_until();
        if poll.tie.stop.is_cancelled() || is_over() {
            return Step::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    });
    let why = tokio::select! {
        biased;
        returned = &mut in_time => match returned {
            Some(returned) => return ended(returned),
            None => RunOutcome::Cancelled,
        },
        () = poll.tie.stop.cancelled() => RunOutcome::Cancelled,
        () = poll.tie.nearly_over(cancel_lead) => RunOutcome::Cancelled,
        () = tokio::time::sleep(timeout) => RunOutcome::TimedOut,
    };
    poll.cancelled.cancel();
    // While the target is ours it is better waited for: what is dropped may not have ended everywhere.
    let patience = if poll.tie.is_lost() { cancel_lead } else { cancel_lead.max(STOPPING_MAX) };
    let until = BootInstant::now().after(patience).min(poll.tie.valid_until());
    let mut last_steps = poll_fn(|context| {
        if BootInstant::now() >= until {
            return Step::Ready(());
        }
        work.as_mut().poll(context).map(drop)
    });
    tokio::select! {
        biased;
        () = &mut last_steps => {}
        () = wait_until(until) => {}
    }
    (why, None)
}

fn finish<S: Store>(
    shared: &Arc<Shared<S>>,
    ended: &Running,
    outcome: RunOutcome,
    fault: Option<&str>,
    jitter: &mut Jitter,
) {
    shared.counters.ran(outcome);
    tracing::debug!(
        instance = %shared.membership.instance, target = %ended.target, group = shared.group,
        fence = ended.fence, outcome = outcome.as_str(), fault, "polled"
    );
    let now = BootInstant::now();
    let next = ended.started.after(interval(&shared.options, jitter)).max(now);
    let (turned, is_let_go) = {
        let mut holdings = shared.holdings();
        let turned = holdings.went(&ended.target, ended.fence, outcome);
        (turned, holdings.finished(&ended.target, ended.fence, next, now))
    };
    if let Some(is_failing) = turned {
        log_turn(shared, ended, is_failing, outcome, fault);
    }
    if is_let_go || turned.is_some() {
        shared.control_wake.notify_one();
    }
}

fn log_turn<S: Store>(
    shared: &Arc<Shared<S>>,
    ended: &Running,
    is_failing: bool,
    outcome: RunOutcome,
    fault: Option<&str>,
) {
    let (instance, target, group) = (&shared.membership.instance, &ended.target, &shared.group);
    let (fence, outcome) = (ended.fence, outcome.as_str());
    match is_failing {
        true => tracing::warn!(%instance, %target, group, fence, outcome, fault, "polls fail"),
        false => tracing::info!(%instance, %target, group, fence, outcome, "polls succeed again"),
    }
}

/// The time between two polls, scattered, so that targets do not stay in step.
fn interval(options: &Options, jitter: &mut Jitter) -> Duration {
    let part = options.every.mul_f64(options.jitter);
    options.every.saturating_sub(part) + part.mul_f64(2.0 * jitter.fraction())
}
