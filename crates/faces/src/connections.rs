//! The connections that are open at a node of a cluster. An open socket proves nothing to whoever writes: this node gives
//! its word for all of them at once, again and again, and tells of those that are gone. Where it has not been heard for
//! as long as its word lasts, it takes every lease for lost and hangs up.

use crate::call::{Call, Reply};
use crate::caller::Caller;
use crate::dispatch::Faces;
use crate::refusal::Asked;
use crate::stage::Stage;
use crate::switchboard::LostLease;
use core::mem;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use tenure_api::{self as api, Error};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{Epoch, LeaseId, Reason, SessionId};
use tenure_engine::liveness::valid_ms;
use tenure_engine::{Answer, Request};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// How long a node's word for a connection lasts.
pub(crate) const WORD_MS: u32 = 10_000;
/// How long it takes to tell the connections, before others are given what they keep.
const TELLING_MS: u64 = 450;
/// How long the node relies on having been heard, as any holder does.
const TRUST_MS: u64 = valid_ms(WORD_MS as u64) - TELLING_MS;
/// How often it gives its word.
const TELL_EVERY_MS: u64 = 2_000;
/// How long one who waited for its first lease may rely on it before the node's first word for it was heard.
const FIRST_WORD_MS: u64 = 3_000;
/// How often it is looked whether something is due.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a word may be on its way before it is given again.
const TOLD_WITHIN: Duration = Duration::from_millis(2_500);

/// The connections of a node, whatever part it plays. Cheap to clone.
#[derive(Clone, Default)]
pub struct NodeConnections {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    /// Something has to be told before its time.
    news: Notify,
}

#[derive(Default)]
struct Table {
    open: HashMap<SessionId, Open>,
    /// Closed. Told for as long as a word lasts: what one of them had asked for may be granted after the first time. Then
    /// silence says the same.
    gone: BTreeMap<SessionId, Gone>,
}

/// A connection that is open here.
struct Open {
    line: UnboundedSender<Word>,
    /// It has asked for something that it would keep.
    is_used: bool,
    holds: BTreeMap<LeaseId, Epoch>,
    /// Until when whoever writes takes it for open; `None` while it keeps nothing.
    trust_until_ms: Option<u64>,
    /// It was told that everything is lost; nothing that it still asks or hears counts.
    is_over: bool,
}

/// A connection that is closed.
#[derive(Clone, Copy)]
struct Gone {
    since_ms: u64,
    /// Its holder closed it, which says that the holder has stopped. A hang-up by this node says nothing of the holder.
    is_left: bool,
}

/// What a connection is told unasked.
pub(crate) enum Word {
    Lost(LostLease),
    HangUp,
}

/// What a node tells of its connections.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConnectionsTold {
    /// Open ones that may keep something.
    pub open: Vec<u64>,
    /// Closed ones.
    pub gone: Vec<u64>,
    /// Of these, the ones that their holders closed: what those were promised there is over.
    #[serde(default)]
    pub left: Vec<u64>,
}

/// What it is told in return.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConnectionsHeard {
    /// Open ones that keep nothing, or nothing any more.
    pub unknown: Vec<u64>,
}

/// What became of telling.
struct Told {
    sent_ms: u64,
    /// Open ones, and whether they were known to keep something.
    open: Vec<(SessionId, bool)>,
    gone: Vec<SessionId>,
    left: Vec<SessionId>,
}

impl NodeConnections {
    pub(crate) fn open(&self, session: SessionId) -> UnboundedReceiver<Word> {
        let (line, words) = unbounded_channel();
        let open =
            Open { line, is_used: false, holds: BTreeMap::new(), trust_until_ms: None, is_over: false };
        self.table().open.insert(session, open);
        words
    }

    /// A connection is closed. `is_left`: by its holder.
    pub(crate) fn close(&self, session: SessionId, is_left: bool) {
        let mut table = self.table();
        if let Some(open) = table.open.remove(&session).filter(|open| open.is_used) {
            // Whom this node has hung up on closes its side as well.
            let gone = Gone { since_ms: read_clocks().boot_ms, is_left: is_left && !open.is_over };
            table.gone.insert(session, gone);
            self.shared.news.notify_one();
        }
    }

    /// A lease of a connection was lost, which may be open here.
    pub(crate) fn lost(&self, session: SessionId, lost: LostLease) {
        if let Some(open) = self.table().open.get_mut(&session) {
            open.holds.remove(&lost.lease);
            // Who has hung up is about to be closed.
            let _ = open.line.send(Word::Lost(lost));
        }
    }

    /// Before a connection asks.
    pub(crate) fn asks(&self, caller: &Caller, call: &Call) {
        if let Some(session) = caller.connection()
            && matches!(call, Call::Acquire(_) | Call::Resume(..) | Call::Register(_) | Call::RegisterAt(..))
            && let Some(open) = self.table().open.get_mut(&session)
        {
            open.is_used = true;
        }
    }

    /// Whether what a connection asks or is answered still counts. A node that slept finds out here, before it says
    /// anything.
    ///
    /// # Errors
    /// When it has lost everything.
    pub(crate) fn check(&self, caller: &Caller) -> Result<(), Error> {
        let Some(session) = caller.connection() else { return Ok(()) };
        let mut table = self.table();
        let Some(open) = table.open.get_mut(&session) else { return Ok(()) };
        if open.is_untrusted(read_clocks().boot_ms) {
            open.hang_up();
        }
        if open.is_over {
            let message = "the leader received no keepalive of this node for too long: the leases of the connection are lost";
            return Err(Error::new(api::ErrorCode::SessionGone, message).lost());
        }
        Ok(())
    }

    /// What a connection was answered to what it asked last at this instant.
    pub(crate) fn answered(&self, faces: &Faces, caller: &Caller, sent_ms: u64, reply: &Reply) {
        let Some(session) = caller.connection() else { return };
        let lease = match reply {
            Reply::Lease(lease) => Some(lease),
            // A permanent one, or one with a lease, is not kept by the connection: the leader does not know the session then,
            // and this node would hang up on it.
            Reply::Registered(registered) if registered.mode == api::Mode::Session => None,
            _ => return,
        };
        let mut table = self.table();
        let Some(open) = table.open.get_mut(&session).filter(|open| open.is_used) else { return };
        if let Some(lease) = lease {
            let Ok(id) = crate::ask::lease_id(faces.identity(), &lease.lease_id, Asked::AsHolder) else {
                return;
            };
            let is_own = lease.session.as_deref() == Some(tenure_history::wire_session(session).as_str());
            match lease.state {
                api::State::Reserved | api::State::Active if is_own => {
                    open.holds.insert(id, Epoch(lease.epoch));
                }
                _ => {
                    open.holds.remove(&id);
                    return;
                }
            }
        }
        if open.trust_until_ms.is_none() {
            let now_ms = read_clocks().boot_ms;
            open.trust_until_ms = Some((sent_ms + TRUST_MS).max(now_ms + FIRST_WORD_MS));
            self.shared.news.notify_one();
        }
    }

    /// Gives this node's word, until it is dropped.
    pub async fn keep(self, stage: Stage) {
        let (mut due_ms, mut is_news) = (0, false);
        let mut telling = JoinSet::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.shared.news.notified() => is_news = true,
                Some(Ok((told, heard))) = telling.join_next() => match heard {
                    Some(heard) => self.heard(&told, &heard),
                    // Whoever writes may be another in a moment.
                    None => due_ms = 0,
                },
            }
            let now_ms = read_clocks().boot_ms;
            self.hang_up_untrusted(now_ms);
            if !telling.is_empty() || (!is_news && now_ms < due_ms) {
                continue;
            }
            (due_ms, is_news) = (now_ms + TELL_EVERY_MS, false);
            if let Some(told) = self.gather(now_ms) {
                let faces = stage.faces();
                telling.spawn(async move {
                    let heard = tokio::time::timeout(TOLD_WITHIN, tell(&faces, &told)).await;
                    (told, heard.ok().flatten())
                });
            }
        }
    }

    /// What there is to tell; `None`: nothing.
    fn gather(&self, now_ms: u64) -> Option<Told> {
        let mut table = self.table();
        // Whoever writes has noticed by itself.
        table.gone.retain(|_, gone| now_ms < gone.since_ms.saturating_add(WORD_MS.into()));
        let used = table.open.iter().filter(|(_, open)| open.is_used && !open.is_over);
        let open: Vec<_> = used.map(|(session, open)| (*session, open.trust_until_ms.is_some())).collect();
        let gone: Vec<_> = table.gone.keys().copied().collect();
        let left = table.gone.iter().filter(|(_, gone)| gone.is_left).map(|(session, _)| *session).collect();
        (!open.is_empty() || !gone.is_empty()).then_some(Told { sent_ms: now_ms, open, gone, left })
    }

    fn heard(&self, told: &Told, heard: &ConnectionsHeard) {
        let mut table = self.table();
        let unknown: std::collections::HashSet<u64> = heard.unknown.iter().copied().collect();
        for (session, kept_something) in &told.open {
            let Some(open) = table.open.get_mut(session).filter(|open| !open.is_over) else { continue };
            if !unknown.contains(&session.0) {
                open.trust_until_ms = Some(told.sent_ms + TRUST_MS);
            } else if *kept_something {
                open.hang_up();
            }
        }
    }

    /// From here on others may be given what these connections keep.
    fn hang_up_untrusted(&self, now_ms: u64) {
        let mut table = self.table();
        let over = table.open.values_mut().filter(|open| open.is_untrusted(now_ms));
        let count = over.map(Open::hang_up).count();
        if count > 0 {
            tracing::warn!(
                connections = count,
                "no leader for too long: closing connections that keep leases"
            );
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().expect("invariant: nobody panics while holding connections")
    }
}

impl Open {
    fn is_untrusted(&self, now_ms: u64) -> bool {
        !self.is_over && self.trust_until_ms.is_some_and(|until_ms| now_ms >= until_ms)
    }

    fn hang_up(&mut self) {
        for (lease, epoch) in mem::take(&mut self.holds) {
            let _ = self.line.send(Word::Lost(LostLease { lease, epoch, reason: Reason::SessionExpired }));
        }
        let _ = self.line.send(Word::HangUp);
        self.is_over = true;
    }
}

async fn tell(faces: &Faces, told: &Told) -> Option<ConnectionsHeard> {
    let open = told.open.iter().map(|(session, _)| session.0).collect();
    let gone = told.gone.iter().map(|session| session.0).collect();
    let left = told.left.iter().map(|session| session.0).collect();
    let call = Call::ConnectionsTold(Box::new(ConnectionsTold { open, gone, left }));
    match faces.dispatch(&Caller::node(), call).await {
        Ok(Reply::ConnectionsHeard(heard)) => Some(heard),
        Ok(_) | Err(_) => None,
    }
}

impl Faces {
    /// Hears of another node's connections, or of this one's.
    pub(crate) async fn hear_connections(&self, told: ConnectionsTold) -> Result<Reply, Error> {
        let open = told.open.into_iter().map(SessionId).collect();
        let gone = told.gone.into_iter().map(SessionId).collect();
        let left = told.left.into_iter().map(SessionId).collect();
        match self.ask(Request::ConnectionsTold { open, gone, left }).await {
            Answer::ConnectionsKept { unknown } => {
                let unknown = unknown.into_iter().map(|session| session.0).collect();
                Ok(Reply::ConnectionsHeard(ConnectionsHeard { unknown }))
            }
            other => Err(self.not_that(other, Asked::AsAnyone)),
        }
    }
}
