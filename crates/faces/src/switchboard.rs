//! Brings what the engine says unasked to whom it concerns: losses to connections, events to watches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tenure_engine::host::Listener;
use tenure_engine::kernel::{Epoch, LeaseId, Lsn, Reason, SessionId};
use tenure_engine::{Out, Published, Push, Ticket};
use tokio::sync::mpsc::UnboundedSender;

/// A lease of a connection was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostLease {
    /// The lease.
    pub(crate) lease: LeaseId,
    /// Its epoch from now on.
    pub(crate) epoch: Epoch,
    /// Why.
    pub(crate) reason: Reason,
}

/// What a watch is told.
pub(crate) enum WatchNews {
    Events(Vec<Arc<Published>>),
    Lagged(Lsn),
    Trimmed(Lsn),
}

/// Who listens. Bounded by who was let in: a connection hears at most one loss per lease it holds, a watch
/// only what it made room for.
#[derive(Default)]
pub struct Switchboard {
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    connections: HashMap<SessionId, UnboundedSender<LostLease>>,
    watches: HashMap<Ticket, UnboundedSender<WatchNews>>,
}

impl Switchboard {
    /// What the engine's host speaks to.
    #[must_use]
    pub fn listener(self: &Arc<Self>) -> Listener {
        let board = Arc::clone(self);
        Box::new(move |out| board.say(out))
    }

    fn say(&self, out: Out) {
        match out {
            Out::Push(Push::Lost { session, lease, epoch, reason }) => {
                if let Some(line) = self.lines().connections.get(&session) {
                    // Who has hung up is about to leave the board.
                    let _ = line.send(LostLease { lease, epoch, reason });
                }
            }
            Out::Push(Push::Events { watch, events }) => self.tell(watch, WatchNews::Events(events)),
            Out::Push(Push::Lagged { watch, resume }) => self.tell(watch, WatchNews::Lagged(resume)),
            Out::Push(Push::WatchTrimmed { watch, oldest }) => self.tell(watch, WatchNews::Trimmed(oldest)),
            Out::OpenGate(lease) => {
                tracing::warn!(%lease, "a lease asks for a gate that this version has not; it will time out");
            }
            Out::SendNotice { lease, .. } => {
                tracing::warn!(%lease, "a lease asks for a notice that this version has not; it stays pending");
            }
            Out::Answer(..) => {}
        }
    }

    fn tell(&self, watch: Ticket, news: WatchNews) {
        if let Some(line) = self.lines().watches.get(&watch) {
            let _ = line.send(news);
        }
    }

    pub(crate) fn connect(&self, session: SessionId, line: UnboundedSender<LostLease>) {
        self.lines().connections.insert(session, line);
    }

    pub(crate) fn disconnect(&self, session: SessionId) {
        self.lines().connections.remove(&session);
    }

    pub(crate) fn watch(&self, watch: Ticket, line: UnboundedSender<WatchNews>) {
        self.lines().watches.insert(watch, line);
    }

    pub(crate) fn unwatch(&self, watch: Ticket) {
        self.lines().watches.remove(&watch);
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().expect("invariant: nobody panics at the board")
    }
}
