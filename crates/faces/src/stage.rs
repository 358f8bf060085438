//! The faces as transports see them, whoever writes: on one machine they never change; a node of a cluster changes them
//! with its part, and what was not decided by one is asked of the next, under the same operation id.

use crate::call::{Call, Reply};
use crate::caller::Caller;
use crate::connections::NodeConnections;
use crate::dispatch::Faces;
use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use tenure_api::{Error, ErrorCode, IntentStatus};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::Text;
use tenure_engine::{Account, Accounts};
use tokio::sync::watch;

/// The faces of this moment. Cheap to clone.
#[derive(Clone)]
pub struct Stage {
    shared: Arc<Shared>,
}

struct Shared {
    present: RwLock<Faces>,
    /// Counts changes.
    changes: watch::Sender<u64>,
    accounts: Accounts,
    /// On a node.
    node: Option<OfNode>,
    /// Operation ids of this node: drawn once, and counted.
    drawn: u128,
    given: AtomicU64,
}

/// What a node has beside its faces, whatever part it plays.
struct OfNode {
    /// How long a call is tried again before its caller hears of it.
    patience: Duration,
    connections: NodeConnections,
}

/// Pause before a call is tried again, unless the faces change first.
const PAUSE: Duration = Duration::from_millis(40);

impl Stage {
    /// Faces that never change.
    #[must_use]
    pub fn alone(faces: Faces) -> Self {
        Self::new(faces, None)
    }

    /// Faces of a node, whose calls are tried again for this long.
    #[must_use]
    pub fn of_node(faces: Faces, patience: Duration, connections: NodeConnections) -> Self {
        Self::new(faces, Some(OfNode { patience, connections }))
    }

    fn new(faces: Faces, node: Option<OfNode>) -> Self {
        let (changes, _) = watch::channel(0);
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("invariant: the system gives random bytes");
        let (present, drawn) = (RwLock::new(faces), u128::from_le_bytes(random));
        let (accounts, given) = (Accounts::default(), AtomicU64::new(0));
        Self { shared: Arc::new(Shared { present, changes, accounts, node, drawn, given }) }
    }

    /// The faces of this moment.
    ///
    /// # Panics
    /// Never: nobody panics while changing them.
    #[must_use]
    pub fn faces(&self) -> Faces {
        self.shared.present.read().expect("invariant: nobody panics while changing faces").clone()
    }

    /// What a principal has outstanding, over all of its connections.
    #[must_use]
    pub fn account(&self, principal: &Text) -> Account {
        self.shared.accounts.of(principal)
    }

    /// This node's part has changed.
    ///
    /// # Panics
    /// Never: nobody panics while changing them.
    pub fn change(&self, faces: Faces) {
        *self.shared.present.write().expect("invariant: nobody panics while changing faces") = faces;
        self.shared.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Counts changes, for whoever goes by the faces of this moment.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Whether this is a node of a cluster.
    #[must_use]
    pub fn is_of_cluster(&self) -> bool {
        self.shared.node.is_some()
    }

    /// How long a call is tried again before its caller hears of it.
    pub(crate) fn patience(&self) -> Duration {
        self.shared.node.as_ref().map_or(Duration::ZERO, |node| node.patience)
    }

    /// The connections that are open at this node.
    pub(crate) fn connections(&self) -> Option<&NodeConnections> {
        self.shared.node.as_ref().map(|node| &node.connections)
    }

    /// Carries out one call.
    ///
    /// # Errors
    /// Why it was not carried out.
    pub async fn dispatch(&self, caller: &Caller, call: Call) -> Result<Reply, Error> {
        let Some(node) = &self.shared.node else { return self.faces().dispatch(caller, call).await };
        let (call, is_ours) = self.identified(call);
        node.connections.check(caller)?;
        node.connections.asks(caller, &call);
        let mut changes = self.shared.changes.subscribe();
        let sent_ms = read_clocks().boot_ms;
        let first = self.faces().dispatch(caller, call.clone()).await;
        let reply = self.insist(node, caller, call, (first, sent_ms), &mut changes).await;
        if is_ours { reply.map(told_first) } else { reply }
    }

    /// Carries out calls of one read together.
    pub async fn dispatch_all(&self, caller: &Caller, calls: Vec<Call>) -> Vec<Result<Reply, Error>> {
        let Some(node) = &self.shared.node else {
            return self.faces().dispatch_all(caller, calls).await;
        };
        let (calls, ours): (Vec<Call>, Vec<bool>) =
            calls.into_iter().map(|call| self.identified(call)).unzip();
        if let Err(error) = node.connections.check(caller) {
            return vec![Err(error); calls.len()];
        }
        calls.iter().for_each(|call| node.connections.asks(caller, call));
        let mut changes = self.shared.changes.subscribe();
        let sent_ms = read_clocks().boot_ms;
        let firsts = self.faces().dispatch_all(caller, calls.clone()).await;
        let mut replies = Vec::with_capacity(firsts.len());
        for ((call, is_ours), first) in calls.into_iter().zip(ours).zip(firsts) {
            let reply = self.insist(node, caller, call, (first, sent_ms), &mut changes).await;
            replies.push(if is_ours { reply.map(told_first) } else { reply });
        }
        replies
    }

    /// A call that can be told again from its first try; `true`: by an id of this node. A proof of life counts as often as
    /// it comes, and needs none.
    fn identified(&self, mut call: Call) -> (Call, bool) {
        if call.is_heartbeat() {
            return (call, false);
        }
        let count = self.shared.given.fetch_add(1, Ordering::Relaxed);
        let is_ours = call.set_operation_id(&format!("node-{:032x}-{count}", self.shared.drawn));
        (call, is_ours)
    }

    /// Tries a call again until it is decided or patience ends.
    async fn insist(
        &self,
        node: &OfNode,
        caller: &Caller,
        mut call: Call,
        (first, mut sent_ms): (Result<Reply, Error>, u64),
        changes: &mut watch::Receiver<u64>,
    ) -> Result<Reply, Error> {
        let began_ms = read_clocks().boot_ms;
        let wait_ms = call.wait_ms();
        let mut reply = first;
        let mut unknown = None;
        loop {
            let passed_ms = read_clocks().boot_ms.saturating_sub(began_ms);
            let is_over = passed_ms > (node.patience.as_millis() as u64).saturating_add(wait_ms);
            match &reply {
                Err(error) if is_undecided(error) => {
                    if error.code == ErrorCode::OutcomeUnknown {
                        unknown = Some(error.clone());
                    }
                    if is_over {
                        // That the last try had no effect says nothing of one before it.
                        return unknown.map_or(reply, Err);
                    }
                }
                Ok(done) => {
                    node.connections.check(caller)?;
                    node.connections.answered(&self.faces(), caller, sent_ms, done);
                    return reply;
                }
                Err(_) => return reply,
            }
            let _ = tokio::time::timeout(PAUSE, changes.changed()).await;
            call.shorten_wait(wait_ms.saturating_sub(passed_ms));
            sent_ms = read_clocks().boot_ms;
            reply = self.faces().dispatch(caller, call.clone()).await;
        }
    }
}

/// Marks the refusal of a position that was waited for.
pub(crate) const UNREACHED: &str = "min_lsn";

/// Whether asking again may decide it, at the next writer or at this one a moment later.
pub(crate) fn is_undecided(error: &Error) -> bool {
    // Who asked for a position that this node has not applied has waited for it already.
    matches!(error.code, ErrorCode::NotLeader | ErrorCode::ShuttingDown | ErrorCode::OutcomeUnknown)
        && !error.details.contains_key(UNREACHED)
}

/// Who gave no id has asked once, however often this node did.
fn told_first(reply: Reply) -> Reply {
    match reply {
        Reply::Lease(mut lease) => {
            lease.replayed = false;
            Reply::Lease(lease)
        }
        Reply::Stream(mut stream) => {
            stream.status = stream.status.map(|_| IntentStatus::Accepted);
            Reply::Stream(stream)
        }
        other => other,
    }
}
