//! Who waits for what on a connection: answers by their tag, losses by their lease. Reading never waits for
//! anybody: a reader that is too slow loses its own stream only.

use crate::endpoint::Endpoint;
use crate::error::CallError;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenure_api::{Answer, Lease, Lost};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Losses kept for somebody to take.
const UNCLAIMED_MAX: usize = 65_536;

#[derive(Default)]
pub(crate) struct Desk {
    table: Mutex<Table>,
    unclaimed_came: Notify,
}

#[derive(Default)]
struct Table {
    closed: bool,
    replies: HashMap<u64, Reply>,
    /// Guards, by lease.
    guards: HashMap<String, oneshot::Sender<Lost>>,
    unclaimed: VecDeque<Lost>,
}

pub(crate) enum Reply {
    Once {
        reply: oneshot::Sender<Result<Answer, CallError>>,
        abandoned: Abandoned,
    },
    /// Lines until the daemon or the reader ends it.
    Stream(mpsc::Sender<Answer>),
    /// The one who asked has gone; a grant goes back.
    GiveBack,
}

/// What becomes of an answer whose asker has gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abandoned {
    Ignore,
    /// A lease without an owner would be held as long as the connection lives.
    GiveBack,
}

pub(crate) enum Delivered {
    Yes,
    /// A lease was granted after its caller had gone.
    Orphan(Box<Lease>),
    /// The reader of a stream is too slow; it was cut off.
    SlowStream,
}

impl Desk {
    /// Waits for answers to a tag; `false` if the connection is closed.
    pub(super) fn expect(&self, tag: u64, reply: Reply) -> bool {
        let mut table = self.table();
        if table.closed {
            return false;
        }
        table.replies.insert(tag, reply);
        true
    }

    pub(super) fn answer(&self, tag: u64, answer: Answer) -> Delivered {
        let mut table = self.table();
        if let Some(Reply::Stream(lines)) = table.replies.get(&tag) {
            // A refusal, `lagged` and `stopped` are the last lines of a stream.
            let is_last = !matches!(answer, Answer::Event(_));
            let refused = lines.try_send(answer).is_err();
            if is_last || refused {
                table.replies.remove(&tag);
            }
            return if refused && !is_last { Delivered::SlowStream } else { Delivered::Yes };
        }
        match table.replies.remove(&tag) {
            Some(Reply::Once { reply, abandoned }) => match reply.send(Ok(answer)) {
                Ok(()) => {
                    // Until it is taken the asker may still go away; see `orphan_of`.
                    if abandoned == Abandoned::GiveBack {
                        table.replies.insert(tag, Reply::GiveBack);
                    }
                    Delivered::Yes
                }
                Err(unsent) => match (unsent, abandoned) {
                    (Ok(answer), Abandoned::GiveBack) => orphan(answer),
                    (_, Abandoned::GiveBack | Abandoned::Ignore) => Delivered::Yes,
                },
            },
            Some(Reply::GiveBack) => orphan(answer),
            Some(Reply::Stream(_)) | None => Delivered::Yes,
        }
    }

    pub(super) fn fail(&self, tag: u64, error: CallError) {
        if let Some(Reply::Once { reply, .. }) = self.table().replies.remove(&tag) {
            // Whoever waited has gone.
            let _ = reply.send(Err(error));
        }
    }

    /// The asker has its answer or has gone.
    pub(super) fn abandon(&self, tag: u64) {
        let mut table = self.table();
        match table.replies.get(&tag) {
            Some(Reply::Once { abandoned: Abandoned::GiveBack, .. }) => {
                table.replies.insert(tag, Reply::GiveBack);
            }
            Some(Reply::Once { abandoned: Abandoned::Ignore, .. } | Reply::GiveBack | Reply::Stream(_)) => {
                table.replies.remove(&tag);
            }
            None => {}
        }
    }

    /// The asker has gone and left this answer behind.
    pub(super) fn orphan_of(&self, tag: u64, answer: Answer) -> Option<Box<Lease>> {
        match (self.table().replies.remove(&tag), answer) {
            (Some(Reply::GiveBack), Answer::Acquired(lease)) => Some(lease),
            (_, _) => None,
        }
    }

    /// Word of a loss; `false` if more are kept than should be.
    pub(super) fn lost(&self, lost: Lost) -> bool {
        let mut table = self.table();
        let unsent = match table.guards.remove(&lost.lease_id) {
            Some(guard) => guard.send(lost).err(),
            None => Some(lost),
        };
        if let Some(lost) = unsent {
            table.unclaimed.push_back(lost);
            self.unclaimed_came.notify_one();
        }
        table.unclaimed.len() <= UNCLAIMED_MAX
    }

    /// Waits for the loss of one lease, which may have been told already. Ends without one when the connection
    /// closes.
    pub(crate) fn guard(&self, lease_id: &str) -> oneshot::Receiver<Lost> {
        let (sender, receiver) = oneshot::channel();
        let mut table = self.table();
        if let Some(at) = table.unclaimed.iter().position(|lost| lost.lease_id == lease_id) {
            if let Some(lost) = table.unclaimed.remove(at) {
                // The receiver is in our hands.
                let _ = sender.send(lost);
            }
        } else if !table.closed {
            table.guards.insert(lease_id.to_owned(), sender);
        }
        receiver
    }

    pub(crate) fn forget_guard(&self, lease_id: &str) {
        self.table().guards.remove(lease_id);
    }

    pub(super) async fn next_lost(&self, closed: &CancellationToken) -> Option<Lost> {
        loop {
            let came = self.unclaimed_came.notified();
            if let Some(lost) = self.table().unclaimed.pop_front() {
                return Some(lost);
            }
            tokio::select! {
                () = came => {}
                () = closed.cancelled() => return self.table().unclaimed.pop_front(),
            }
        }
    }

    pub(super) fn close(&self, endpoint: &Endpoint) {
        let mut table = self.table();
        table.closed = true;
        table.guards.clear();
        for (_, reply) in table.replies.drain() {
            if let Reply::Once { reply, .. } = reply {
                let source = "the connection is closed".into();
                // Whoever waited has gone.
                let _ = reply.send(Err(CallError::Broken { endpoint: endpoint.clone(), source }));
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn orphan(answer: Answer) -> Delivered {
    match answer {
        Answer::Acquired(lease) => Delivered::Orphan(lease),
        _ => Delivered::Yes,
    }
}
