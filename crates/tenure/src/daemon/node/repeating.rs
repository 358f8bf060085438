//! Work that a thread of its own does again and again, from its start until it goes out of scope.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends the thread when it goes out of scope.
pub(super) struct Repeating {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Repeating {
    pub(super) fn start(name: &str, every: Duration, mut work: impl FnMut() + Send + 'static) -> Self {
        let (over, until) = channel::<()>();
        let run = move || {
            loop {
                work();
                if until.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .expect("invariant: a thread can be started");
        Self { over: Some(over), thread: Some(thread) }
    }
}

impl Drop for Repeating {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
