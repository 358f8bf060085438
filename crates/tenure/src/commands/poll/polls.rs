//! One poll that is a command: begun, kept from outliving its time, and told of.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tenure_client::clock::{BootInstant, wait_until, wall_time};
use tenure_polling::Poll;
use tenure_polling::store::TargetName;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::poll::{Commands, Ended, Errand, Finished};
use crate::run::{Over, SignalNumber};

/// Targets whose last poll failed are remembered up to this many.
const FAILING_MAX: usize = 100_000;

/// Runs polls as commands. Cheap to clone.
#[derive(Clone)]
pub(super) struct Polls {
    pub(super) commands: Commands,
    pub(super) group: Arc<str>,
    pub(super) instance: Arc<str>,
    pub(super) ttl: Duration,
    /// After this long a command is killed; it is asked to end a little earlier.
    pub(super) timeout: Duration,
    pub(super) kill_after: Duration,
    /// The receiver of each poll that ended, if there is one.
    pub(super) told: Option<mpsc::Sender<Record>>,
    pub(super) failing: Arc<Mutex<HashSet<TargetName>>>,
}

/// A poll that ended.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Record {
    group: String,
    instance: String,
    target: String,
    fence: u64,
    outcome: Outcome,
    /// Null where the command ended in another way.
    exit_code: Option<u8>,
    /// Null where it did not die of one.
    signal: Option<i32>,
    /// What went wrong, in words.
    fault: Option<String>,
    started_at: String,
    duration_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// It ended with 0.
    Ok,
    /// It ended in any other way.
    Failed,
    /// It took too long and was ended.
    TimedOut,
    /// It was ended because the target was not ours for any longer.
    Cancelled,
    /// It could not be begun.
    NotStarted,
}

impl Polls {
    /// Runs the command for this poll. The error says what went wrong. Dropped, it ends the command, and what became of
    /// it is told all the same.
    pub(super) async fn poll(self, target: TargetName, poll: Poll) -> Result<(), String> {
        let given_up = CancellationToken::new();
        let _guard = given_up.clone().drop_guard();
        let work = tokio::spawn(self.work(target, poll, given_up));
        work.await.unwrap_or_else(|error| Err(format!("the task of the poll failed: {error}")))
    }

    async fn work(self, target: TargetName, poll: Poll, given_up: CancellationToken) -> Result<(), String> {
        let started = BootInstant::now();
        let timeout_at = started.after(self.timeout);
        let mut told_until = poll.valid_until();
        let mut running = self
            .commands
            .start(Errand {
                target: target.to_string(),
                fence: poll.fence(),
                valid_until: told_until,
                timeout_at,
            })
            .await;
        let mut is_cancelled = false;
        let finished = loop {
            // Who is done before that never needs to know.
            let look_at = (timeout_at > told_until.before(self.ttl / 4))
                .then(|| told_until.before(self.ttl / 4).max(BootInstant::now().after(self.ttl / 40)));
            tokio::select! {
                finished = running.finished() => break finished,
                () = poll.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    running.end();
                }
                () = given_up.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    running.end();
                }
                () = until(look_at) => {
                    told_until = told_until.max(poll.valid_until());
                    running.extend(told_until);
                }
            }
        };
        let took = BootInstant::now().since(started);
        let record = self.record(&target, poll.fence(), started, took, &finished);
        self.tell(&target, record)
    }

    fn record(
        &self,
        target: &TargetName,
        fence: u64,
        started: BootInstant,
        took: Duration,
        finished: &Finished,
    ) -> Record {
        let (exit_code, signal) = match finished {
            Finished::Over { over: Over::Code(code), .. } => (Some(*code), None),
            Finished::Over { over: Over::Signal(signal), .. } => (None, Some(*signal)),
            Finished::NotStarted { exit_code, .. } => (*exit_code, None),
            Finished::GuardianDied => (None, None),
        };
        let ms = took.as_millis();
        let (outcome, fault) = match finished {
            Finished::Over { ended: Some(ended), .. } => {
                // Poller and guardian watch the same time: whoever was first to see that it is over.
                let is_late = *ended == Ended::Ordered && took + self.kill_after >= self.timeout;
                match ended {
                    Ended::TimedOut => (Outcome::TimedOut, Some(format!("ended after {ms} ms"))),
                    Ended::Ordered if is_late => (Outcome::TimedOut, Some(format!("ended after {ms} ms"))),
                    Ended::Ordered | Ended::Deadline => {
                        (Outcome::Cancelled, Some("ended because this poller lost the target".to_owned()))
                    }
                }
            }
            Finished::Over { over: Over::Code(0), ended: None } => (Outcome::Ok, None),
            Finished::Over { over: Over::Code(code), ended: None } => {
                (Outcome::Failed, Some(format!("exit code {code}")))
            }
            Finished::Over { over: Over::Signal(signal), ended: None } => {
                (Outcome::Failed, Some(format!("killed by {}", SignalNumber(*signal))))
            }
            Finished::NotStarted { message, .. } => (Outcome::NotStarted, Some(message.clone())),
            Finished::GuardianDied => {
                (Outcome::Failed, Some("the guardian process was stopped or killed".to_owned()))
            }
        };
        Record {
            group: self.group.to_string(),
            instance: self.instance.to_string(),
            target: target.to_string(),
            fence,
            outcome,
            exit_code,
            signal,
            fault,
            started_at: wall_time(started),
            duration_ms: ms as u64,
        }
    }

    /// Logs what is news about the target, and passes the record on.
    fn tell(&self, target: &TargetName, record: Record) -> Result<(), String> {
        let fault = record.fault.clone();
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match (record.outcome, &fault) {
            (Outcome::Ok, _) => {
                if failing.remove(target) {
                    tracing::info!(%target, group = %self.group, fence = record.fence, "polls succeed again");
                }
            }
            (Outcome::Cancelled, _) | (_, None) => {}
            (Outcome::Failed | Outcome::TimedOut | Outcome::NotStarted, Some(fault)) => {
                if failing.len() < FAILING_MAX && failing.insert(target.clone()) {
                    tracing::warn!(
                        %target, group = %self.group, fence = record.fence, exit_code = record.exit_code,
                        reason = %fault, "poll failed; further failures of this target are logged at level debug"
                    );
                }
            }
        }
        drop(failing);
        let is_kept = self.told.as_ref().is_none_or(|told| told.try_send(record).is_ok());
        if !is_kept {
            tracing::warn!("standard output is not read fast enough: dropped a poll record");
        }
        fault.map_or(Ok(()), Err)
    }
}

async fn until(instant: Option<BootInstant>) {
    match instant {
        Some(instant) => wait_until(instant).await,
        None => std::future::pending().await,
    }
}
