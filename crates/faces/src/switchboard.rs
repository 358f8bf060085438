//! Brings what the engine says unasked to whom it concerns: losses to connections, events to watches.

use crate::connections::NodeConnections;
use crate::polling::{PollingBook, PollingEnd};
use crate::registrations::{Book, End, Facts};
use crate::streams::{LEASE_EXPIRED, StreamBook, StreamFacts, end_words};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tenure_engine::host::Listener;
use tenure_engine::kernel::{Epoch, Face, LeaseId, Lsn, Reason, SessionId};
use tenure_engine::{Ending, Out, Published, Push, Report, Ticket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

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
pub struct Switchboard {
    lines: Mutex<Lines>,
    ends: SyncSender<Box<Ending>>,
    unheard: Arc<AtomicU64>,
    reports: Sender<Report>,
    /// On a node of a cluster, those that are open at it.
    connections: OnceLock<NodeConnections>,
    book: Arc<Book>,
    streams: Arc<StreamBook>,
    polling: Arc<PollingBook>,
    notices: UnboundedSender<(LeaseId, Lsn)>,
    notices_due: Mutex<Option<UnboundedReceiver<(LeaseId, Lsn)>>>,
    gates: UnboundedSender<LeaseId>,
    gates_opened: Mutex<Option<UnboundedReceiver<LeaseId>>>,
}

/// Ends of leases and reports to operators, for the daemon's log. A listener that is too slow hears how many ends it
/// missed; no report is lost.
pub struct Ends {
    ends: Receiver<Box<Ending>>,
    unheard: Arc<AtomicU64>,
    reports: Receiver<Report>,
}

/// Ends that may wait for the log to be written.
const ENDS_MAX: usize = 4_096;

#[derive(Default)]
struct Lines {
    connections: HashMap<SessionId, UnboundedSender<LostLease>>,
    watches: HashMap<Ticket, UnboundedSender<WatchNews>>,
}

impl Ends {
    /// The next end within some time.
    ///
    /// # Errors
    /// When there was none, or the engine is gone and there will be none.
    pub fn next_within(&self, time: Duration) -> Result<Box<Ending>, RecvTimeoutError> {
        self.ends.recv_timeout(time)
    }

    /// The reports that came since the last time this was asked.
    pub fn take_reports(&self) -> impl Iterator<Item = Report> {
        self.reports.try_iter()
    }

    /// Ends that were not heard since the last time this was asked.
    #[must_use]
    pub fn take_unheard(&self) -> u64 {
        self.unheard.swap(0, Ordering::Relaxed)
    }
}

impl Switchboard {
    /// A board, and the line on which ends of leases are told.
    #[must_use]
    pub fn new() -> (Arc<Self>, Ends) {
        let (sender, receiver) = sync_channel(ENDS_MAX);
        let unheard = Arc::new(AtomicU64::new(0));
        let (reports, reported) = channel();
        let (gates, gates_opened) = unbounded_channel();
        let (notices, notices_due) = unbounded_channel();
        let board = Self {
            lines: Mutex::default(),
            ends: sender,
            unheard: Arc::clone(&unheard),
            reports,
            connections: OnceLock::new(),
            book: Arc::default(),
            streams: Arc::default(),
            polling: Arc::default(),
            notices,
            notices_due: Mutex::new(Some(notices_due)),
            gates,
            gates_opened: Mutex::new(Some(gates_opened)),
        };
        (Arc::new(board), Ends { ends: receiver, unheard, reports: reported })
    }

    /// The engine is gone: whoever listens hears that there will be nothing more.
    pub fn hang_up(&self) {
        *self.lines() = Lines::default();
    }

    /// Losses are told to the connections of a node.
    pub(crate) fn serve_node(&self, connections: NodeConnections) {
        // A board belongs to one node.
        let _ = self.connections.set(connections);
    }

    /// What the engine's host speaks to.
    #[must_use]
    pub fn listener(self: &Arc<Self>) -> Listener {
        let board = Arc::clone(self);
        Box::new(move |out| board.say(out))
    }

    fn say(&self, out: Out) {
        match out {
            Out::Push(Push::Lost { session, lease, epoch, reason }) => {
                let lost = LostLease { lease, epoch, reason };
                match self.connections.get() {
                    Some(connections) => connections.lost(session, lost),
                    None => self.tell_of_loss(session, lost),
                }
            }
            Out::Push(Push::Events { watch, events }) => self.tell(watch, WatchNews::Events(events)),
            Out::Push(Push::Lagged { watch, resume }) => self.tell(watch, WatchNews::Lagged(resume)),
            Out::Push(Push::WatchTrimmed { watch, oldest }) => self.tell(watch, WatchNews::Trimmed(oldest)),
            // Bounded by the leases there are; without anybody to pass them gates time out.
            Out::OpenGate(lease) => _ = self.gates.send(lease),
            // Bounded by the kernel's limit on notices.
            Out::SendNotice { lease, ended_lsn } => _ = self.notices.send((lease, ended_lsn)),
            // The engine never waits for its log to be written.
            Out::Ended(ending) => {
                self.remember(&ending);
                if self.ends.try_send(ending).is_err() {
                    self.unheard.fetch_add(1, Ordering::Relaxed);
                }
            }
            Out::Followed(followed) => self.polling.follow(&followed),
            // Few: one for each change, and one for each notice that was given up.
            Out::Report(report) => _ = self.reports.send(report),
            Out::Answer(..) => {}
        }
    }

    fn tell_of_loss(&self, session: SessionId, lost: LostLease) {
        if let Some(line) = self.lines().connections.get(&session) {
            // Who has hung up is about to leave the board.
            let _ = line.send(lost);
        }
    }

    /// Has the faces remember what ended.
    fn remember(&self, ending: &Ending) {
        match ending.policy.face {
            Face::Registrations => {
                if let Some(facts) = Facts::decode(&ending.face_data) {
                    let end = End { reason: ending.reason, wall_ms: ending.wall_ms };
                    self.book.remember(ending.lease, &facts, end);
                }
            }
            Face::Streams => {
                if let Some(facts) = StreamFacts::decode(&ending.face_data) {
                    self.streams.end(ending.lease, &facts, &ending.policy);
                    if end_words(ending.reason, &ending.text).1 == LEASE_EXPIRED {
                        self.streams.counters.lease_expired();
                    }
                }
            }
            Face::Polling => self.polling.end(&PollingEnd::from(ending)),
            Face::Leases => {}
        }
    }

    pub(crate) fn streams(&self) -> Arc<StreamBook> {
        Arc::clone(&self.streams)
    }

    pub(crate) fn polling(&self) -> Arc<PollingBook> {
        Arc::clone(&self.polling)
    }

    /// Notices that are due, for the one who delivers them.
    pub(crate) fn take_notices(&self) -> Option<UnboundedReceiver<(LeaseId, Lsn)>> {
        self.notices_due.lock().expect("invariant: nobody panics at the board").take()
    }

    pub(crate) fn book(&self) -> Arc<Book> {
        Arc::clone(&self.book)
    }

    /// Gates that are opened, for the one who passes them.
    pub(crate) fn take_gates(&self) -> Option<UnboundedReceiver<LeaseId>> {
        self.gates_opened.lock().expect("invariant: nobody panics at the board").take()
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
