//! When a command that goes on is to end: signals that ask for it, and output that nobody reads any more.

use std::io;
use std::os::fd::AsFd;

use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Words};
use crate::run::is_ignored;

/// Signals that ask to stop, caught from the moment this is made: none is missed while something else is done.
pub(crate) struct Stopping {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: it was ignored when we started, and stays so.
    hangup: Option<Signal>,
    times: u32,
}

impl Stopping {
    pub(crate) fn catch() -> Result<Self, Failure> {
        let caught = |kind| {
            signal(kind).map_err(|error| {
                Failure::Unexpected(Words::new(format_args!("cannot wait for signals: {error}")))
            })
        };
        let hangup = SignalKind::hangup();
        Ok(Self {
            interrupt: caught(SignalKind::interrupt())?,
            terminate: caught(SignalKind::terminate())?,
            hangup: if is_ignored(hangup.as_raw_value()) { None } else { Some(caught(hangup)?) },
            times: 0,
        })
    }

    /// Waits until somebody asks, or has asked.
    pub(crate) async fn asked(&mut self) {
        if self.times == 0 {
            self.once_more().await;
        }
    }

    /// Finishes what was begun. `None`: asked a second time meanwhile, it is left as it is.
    pub(crate) async fn finish<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                () = self.once_more() => {
                    if self.times > 1 {
                        return None;
                    }
                }
            }
        }
    }

    async fn once_more(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
        self.times += 1;
    }
}

/// Whoever read standard output has gone: `tenure watch | head -1` ends when head does, not with the next event.
pub(crate) async fn output_closed() {
    // A file cannot be waited for, and nobody can stop reading it. Nothing is written through this end, so that it may
    // stay a blocking one.
    let output = io::stdout().as_fd().try_clone_to_owned();
    if let Ok(output) = output.and_then(Sender::from_owned_fd_unchecked)
        && output.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
