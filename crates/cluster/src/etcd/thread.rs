//! The thread that speaks to etcd: everybody else waits for it, on any thread, and may be many at once.

use std::future::Future;
use std::io;
use std::sync::mpsc::sync_channel;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Ends with its last call when dropped, wherever that is.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Taken when it is dropped, at no other time.
    runtime: Option<Runtime>,
}

/// Names are looked up on threads of their own, which a resolver that hangs must not multiply.
const LOOKING_UP_MAX: usize = 4;

impl Thread {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(LOOKING_UP_MAX)
            .thread_name("tenure-etcd")
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Waits for work that limits its own time. Unlike a runtime's own way of waiting, this one may be used by a thread
    /// of another runtime.
    pub(crate) fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (done, waiting) = sync_channel(1);
        self.spawn(async move {
            // The caller waits for the answer.
            let _ = done.send(work.await);
        });
        waiting.recv().expect("invariant: work on the thread that speaks to etcd does not panic")
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.runtime.as_ref().expect("invariant: it is there until it is dropped").spawn(work)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for it is not allowed on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}
