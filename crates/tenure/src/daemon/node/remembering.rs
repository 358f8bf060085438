//! What this node knows of the store, on its disk within two seconds: written on a thread of its own, so that a slow disk
//! holds up no work at the store, and a slow store no write.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::shared::NodeShared;

/// Ends the thread when it goes out of scope.
pub(super) struct Remembering {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

const EVERY: Duration = Duration::from_secs(2);

pub(super) fn start(shared: Arc<NodeShared>) -> Remembering {
    let (over, until) = channel::<()>();
    let run = move || {
        while until.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Err(error) = shared.remember() {
                tracing::warn!(%error, "cannot save the observed state of the store");
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name("tenure-memory".to_owned())
        .spawn(run)
        .expect("invariant: a thread can be started");
    Remembering { over: Some(over), thread: Some(thread) }
}

impl Drop for Remembering {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
