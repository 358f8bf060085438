//! Calls of one connection whose answers wait for something. One task answers them all as they get ready: a connection
//! with thousands of calls has one place in the queue of tasks that can go on, as one with a single call has.

use super::in_order::Answering;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::OnceLock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::task::TaskTracker;

/// Calls answered before other connections have their turn. Each may be one line or as many as are read at once.
const ANSWERED_MAX: usize = 4;

pub(super) struct UnderWay {
    /// Counts them.
    tasks: TaskTracker,
    /// Most connections never need the task.
    begun: OnceLock<UnboundedSender<Answering>>,
}

impl UnderWay {
    pub(super) fn new(tasks: &TaskTracker) -> Self {
        Self { tasks: tasks.clone(), begun: OnceLock::new() }
    }

    /// Takes a call that waits. How many there are, the caller bounds.
    pub(super) fn take(&self, answering: Answering) {
        let begun = self.begun.get_or_init(|| {
            let (begun, calls) = unbounded_channel();
            tokio::spawn(answer_all(calls));
            begun
        });
        // The task lives until this is dropped.
        let _ = begun.send(Box::pin(self.tasks.track_future(answering)));
    }
}

async fn answer_all(mut calls: UnboundedReceiver<Answering>) {
    let mut waiting = FuturesUnordered::new();
    let mut is_open = true;
    let mut answered: usize = 0;
    while is_open || !waiting.is_empty() {
        tokio::select! {
            call = calls.recv(), if is_open => match call {
                Some(call) => waiting.push(call),
                None => is_open = false,
            },
            Some(()) = waiting.next(), if !waiting.is_empty() => answered += 1,
        }
        if answered == ANSWERED_MAX {
            answered = 0;
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// As tasks of their own, all of them stood before the call of another connection.
    #[test]
    fn many_calls_of_one_connection_do_not_stand_before_one_of_another() {
        const CALLS: usize = 1_000;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (tasks, answered) = (TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
            let busy = UnderWay::new(&tasks);
            for _ in 0..CALLS {
                let answered = Arc::clone(&answered);
                busy.take(Box::pin(async move {
                    answered.fetch_add(1, Ordering::Relaxed);
                }));
            }
            assert_eq!(tasks.len(), CALLS);
            let seen = Arc::clone(&answered);
            let another = tokio::spawn(async move { seen.load(Ordering::Relaxed) }).await.unwrap();
            assert!(another <= ANSWERED_MAX, "{another} calls were answered first");
            drop(busy);
            tasks.close();
            tasks.wait().await;
            assert_eq!(answered.load(Ordering::Relaxed), CALLS);
        });
    }
}
