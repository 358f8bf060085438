//! Reads that cost much. Of each kind a few run at once, some wait, and more get an error. Kinds do not wait for each
//! other, and nothing that renews or ends a lease is among them.

use std::sync::Arc;
use tenure_api::{Error, ErrorCode};
use tenure_faces::Call;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reads of one kind that run at once.
const RUNNING_MAX: usize = 4;
/// When to ask again.
const RETRY_AFTER_MS: u64 = 1_000;

/// A kind of read that costs much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The log is read.
    Why,
    /// Targets are shared out.
    Polling,
    /// Answers are large.
    List,
    /// Everything is counted.
    Metrics,
}

/// Reads that run or wait, by kind.
pub(crate) struct Reads([Gate; 4]);

struct Gate {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

/// One read's turn.
#[derive(Debug)]
pub(crate) struct Turn {
    _admitted: OwnedSemaphorePermit,
    _running: OwnedSemaphorePermit,
}

impl Kind {
    /// The kind of a call; `None`: it costs little.
    pub(crate) fn of(call: &Call) -> Option<Self> {
        match call {
            Call::Why(_) => Some(Self::Why),
            Call::Polling(_) => Some(Self::Polling),
            Call::List(_)
            | Call::Sessions { .. }
            | Call::Resources(_)
            | Call::Pools
            | Call::Streams(_)
            | Call::Registrations => Some(Self::List),
            _ => None,
        }
    }

    const ALL: [Self; 4] = [Self::Why, Self::Polling, Self::List, Self::Metrics];

    /// Reads of this kind that run or wait.
    fn admitted_max(self) -> usize {
        match self {
            Self::Why | Self::Polling => RUNNING_MAX + 32,
            Self::List | Self::Metrics => RUNNING_MAX + 256,
        }
    }

    fn limit(self) -> &'static str {
        match self {
            Self::Why => "reads_why",
            Self::Polling => "reads_polling",
            Self::List => "reads_list",
            Self::Metrics => "reads_metrics",
        }
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self(Kind::ALL.map(|kind| Gate {
            admitted: Arc::new(Semaphore::new(kind.admitted_max())),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
        }))
    }
}

impl Reads {
    /// Waits for the turn of a read of this kind, among few who do.
    pub(crate) async fn turn(&self, kind: Kind) -> Result<Turn, Error> {
        let gate = &self.0[kind as usize];
        let refused = |_| {
            let max = kind.admitted_max();
            let message = format!("{max} reads of this kind run or wait already");
            Error::new(ErrorCode::Overloaded, message)
                .retry_after(RETRY_AFTER_MS)
                .with("limit", kind.limit())
                .with("value", max)
        };
        let admitted = Arc::clone(&gate.admitted).try_acquire_owned().map_err(refused)?;
        let running = Arc::clone(&gate.running).acquire_owned().await;
        let running = running.expect("invariant: the gates of reads are never closed");
        Ok(Turn { _admitted: admitted, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_run_some_wait_the_rest_are_refused_and_kinds_do_not_share() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let reads = Arc::new(Reads::default());
            let mut running = Vec::new();
            for _ in 0..RUNNING_MAX {
                running.push(reads.turn(Kind::Why).await.unwrap());
            }
            let mut waiting: Vec<_> = (RUNNING_MAX..Kind::Why.admitted_max())
                .map(|_| {
                    let reads = Arc::clone(&reads);
                    tokio::spawn(async move { reads.turn(Kind::Why).await })
                })
                .collect();
            tokio::task::yield_now().await;
            let refused = reads.turn(Kind::Why).await.unwrap_err();
            assert_eq!((refused.code, refused.retry_after_ms), (ErrorCode::Overloaded, Some(RETRY_AFTER_MS)));
            assert_eq!(
                (refused.details["limit"].as_str(), refused.details["value"].as_u64()),
                (Some("reads_why"), Some(36))
            );
            assert!(reads.turn(Kind::Polling).await.is_ok(), "another kind is not concerned");
            running.pop();
            waiting.remove(0).await.unwrap().unwrap();
        });
    }
}
