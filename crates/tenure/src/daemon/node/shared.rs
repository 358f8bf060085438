//! What everybody on a node knows of it: who writes, how the store is, what has happened. Shown to callers; nothing here
//! decides anything.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use tenure_api::{
    ClusterLeader, ClusterNode, ClusterStatus, ClusterStore, Error, ErrorCode, EventsQuery, LeaderChange,
    LeaderChangeKind, NodeForgotten, NodeState, Role, SecretRotated, SteppedDown, StoreMember, StoreSilence,
};
use tenure_cluster::etcd::{AlarmKind, EtcdStore, Surveyed};
use tenure_cluster::format::{FIRST, safe_format};
use tenure_cluster::growth::Compaction;
use tenure_cluster::store::{Compare, Op, Store, Txn};
use tenure_cluster::values::{Meta, Node as NodeValue, Standing, Writer, decode, encode};
use tenure_cluster::{
    Differing, Keys, ListedNode, Memory, Peer, Remembered, Removed, Seen, SharedMirror, Told, Trust, Vitals,
    forget,
};
use tenure_engine::Handle;
use tenure_engine::host::read_clocks;
use tenure_history::{WireLease, duration, rfc3339};
use tenure_kernel::codec::FORMAT;
use tenure_kernel::{LeaseId, Lsn};
use tenure_server::{APPEND_BUCKETS, Done, Node, NodeNumbers, NodeSelf, Segments, ToldElsewhere};

use super::asking::{self, OwnSegments};
use super::passing::Passing;
use super::pulse::{Quiet, StoreHeard};
use super::secrets::{FORMER_MS, Secrets};
use super::{BootError, ClusterPlan, NodeError, agreement, interlock};

/// What everybody on a node knows.
pub(super) struct NodeShared {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) incarnation: String,
    pub(super) writer_ttl_ms: u64,
    pub(super) compaction: Compaction,
    /// Where the log is, for people.
    pub(super) address: String,
    pub(super) meta: Meta,
    pub(super) store: Arc<EtcdStore>,
    pub(super) keys: Keys,
    pub(super) seen: Arc<Mutex<Seen>>,
    /// Whether the store may be believed. Until then the node does not claim.
    pub(super) trust: Arc<Mutex<Trust>>,
    /// Where what it remembers is written.
    memory: Arc<Memory>,
    /// The store was seen to sync what it acknowledges.
    pub(super) is_store_checked: AtomicBool,
    /// Why the node cannot go on.
    failure: Mutex<Option<NodeError>>,
    /// The node is to stop.
    pub(super) stopping: AtomicBool,
    secrets: Mutex<Secrets>,
    mirror: Mutex<Option<SharedMirror>>,
    passing: OnceLock<Arc<Passing>>,
    now: Mutex<Now>,
}

/// What changes.
#[derive(Default)]
struct Now {
    /// This node's term, while it writes.
    term: Option<Term>,
    /// Not before this instant does it claim again: it was told to step down.
    claims_after_ms: u64,
    survey: Vec<Surveyed>,
    nodes: Vec<(String, NodeValue)>,
    quiet: Quiet,
    store: StoreHeard,
    changes: VecDeque<LeaderChange>,
    complaints: Vec<String>,
    /// The engine of the part that this node plays.
    engine: Option<Handle>,
    differing: Differing,
    /// The newest format that every listed node reads; 0: no list was read yet.
    format: u32,
    numbers: NodeNumbers,
}

/// A term of this node.
#[derive(Clone)]
pub(super) struct Term {
    pub(super) writer: Writer,
    pub(super) handle: Handle,
    pub(super) vitals: Arc<Mutex<Vitals>>,
    /// Whether the store is short of room.
    pub(super) is_short: Arc<AtomicBool>,
}

/// Changes of writer that are remembered.
const CHANGES_MAX: usize = 100;
/// How long a node that was told to step down leaves the log to others: they claim within a tenth of that.
const LEAVES_IT_MS: u64 = 1_000;
/// How long a step at the store may take.
const WITHIN: Duration = Duration::from_secs(3);

impl NodeShared {
    pub(super) fn new(
        plan: &ClusterPlan,
        meta: Meta,
        store: Arc<EtcdStore>,
        keys: Keys,
        incarnation: String,
        memory: Arc<Memory>,
        known: Remembered,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: plan.node.clone(),
            url: plan.advertise.clone(),
            incarnation,
            writer_ttl_ms: plan.writer_ttl_ms,
            compaction: plan.compaction,
            address: plan.address.clone(),
            secrets: Mutex::new(Secrets::of(&meta, read_clocks().boot_ms)),
            meta,
            store,
            keys,
            seen: Arc::default(),
            trust: Arc::new(Mutex::new(Trust::new(plan.node.clone(), known))),
            memory,
            is_store_checked: AtomicBool::new(false),
            failure: Mutex::default(),
            stopping: AtomicBool::new(false),
            mirror: Mutex::default(),
            passing: OnceLock::new(),
            now: Mutex::default(),
        })
    }

    /// What this node shows to others.
    pub(super) fn secret(&self) -> String {
        self.secrets().shown(read_clocks().boot_ms)
    }

    fn secrets(&self) -> MutexGuard<'_, Secrets> {
        self.secrets.lock().expect("invariant: nobody panics while holding secrets")
    }

    /// What `meta` has now. One that cannot be understood changes nothing: the next start says why.
    pub(super) fn read_meta(&self, value: &[u8]) {
        let Ok(meta) = decode::<Meta>("meta", value) else { return };
        if self.secrets().read(&meta, read_clocks().boot_ms) {
            tracing::info!("the secret of the nodes was replaced; the former one is accepted for a minute");
        }
    }

    pub(super) fn pass_through(&self, passing: Arc<Passing>) {
        let _ = self.passing.set(passing);
    }

    pub(super) fn passing(&self) -> Arc<Passing> {
        Arc::clone(self.passing.get().expect("invariant: set before the node plays a part"))
    }

    /// Where this node's copy is; `None` while there is none.
    pub(super) fn copies_into(&self, mirror: Option<SharedMirror>) {
        *self.mirror.lock().expect("invariant: nobody panics while holding the copy") = mirror;
    }

    pub(super) fn mirror(&self) -> Option<SharedMirror> {
        self.mirror.lock().expect("invariant: nobody panics while holding the copy").clone()
    }

    /// The node stops: whoever writes here gives the log up now.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(term) = self.term() {
            term.handle.shut_down();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub(super) fn term(&self) -> Option<Term> {
        self.now().term.clone()
    }

    pub(super) fn term_begins(&self, term: Term) {
        let writer = term.writer.clone();
        self.seen().writer = Some(writer.clone());
        self.changed(&writer, LeaderChangeKind::Elected);
        self.now().term = Some(term);
    }

    pub(super) fn term_ends(&self) {
        // Counting takes the same lock: it is let go before.
        let ended = self.now().term.take();
        if let Some(term) = ended {
            self.count(&term);
        }
    }

    /// Whether this node may claim: not while it stops, nor right after it was told to step down.
    pub(super) fn may_claim(&self) -> bool {
        !self.is_stopping()
            && self.is_store_checked.load(Ordering::SeqCst)
            && self.trust().may_claim(read_clocks().boot_ms)
            && read_clocks().boot_ms >= self.now().claims_after_ms
            && self.now().differing.may_claim(&self.name)
    }

    /// The engine that answers from now on.
    pub(super) fn plays(&self, engine: Handle) {
        self.now().engine = Some(engine);
    }

    pub(super) fn engine(&self) -> Option<Handle> {
        self.now().engine.clone()
    }

    /// These nodes have come to another state than the leader at a position.
    pub(super) fn differ(&self, names: Vec<String>, lsn: u64) {
        let warning = agreement::warning(&names, lsn);
        if self.now().differing.found(names, lsn) {
            match warning {
                Some(warning) => tracing::error!(%warning, "states of nodes differ"),
                None => tracing::info!("the states of all nodes are equal again"),
            }
        }
    }

    /// Whether the states of nodes, as far as they are known, permit a trim.
    pub(super) fn may_trim(&self) -> bool {
        self.now().differing.may_trim()
    }

    /// Other nodes that are listed, and where each is reached.
    pub(super) fn others(&self) -> Vec<(String, String)> {
        let now = self.now();
        let others = now.nodes.iter().filter(|(name, _)| *name != self.name);
        others.map(|(name, node)| (name.clone(), node.url.clone())).collect()
    }

    pub(super) fn trust(&self) -> MutexGuard<'_, Trust> {
        self.trust.lock().expect("invariant: nobody panics while holding what is believed")
    }

    /// Who asks when this node asks another.
    pub(super) fn asker(&self) -> (String, Peer) {
        let memory = self.trust().remembered().memory.clone();
        (memory, Peer { node: self.name.clone(), url: self.url.clone() })
    }

    /// Whom this node has to hear before it may lead, in a sentence.
    fn waits_for(&self) -> Option<String> {
        let trust = self.trust();
        let missing = trust.missing_nodes();
        (trust.is_doubtful() && !missing.is_empty()).then(|| {
            format!(
                "this node cannot become leader before a leader or all of these nodes have answered what they remember: {}; remove a lost node with: tenure cluster forget",
                missing.join(", ")
            )
        })
    }

    /// Whose entries on the list cannot be decoded, in a sentence.
    fn unreadable(&self) -> Option<String> {
        let trust = self.trust();
        let names: Vec<&str> = trust.unreadable().collect();
        (!names.is_empty()).then(|| {
            format!(
                "the entries of these nodes in etcd cannot be decoded: {}; remove each with: tenure cluster forget",
                names.join(", ")
            )
        })
    }

    /// Has what this node knows of the store on disk. Waits for the disk: nobody calls it with a lock.
    pub(super) fn remember(&self) -> Result<(), BootError> {
        self.memory.write_down(|| {
            let mut known = self.trust().remembered().clone();
            if let Some(term) = self.term() {
                let vitals = term.vitals.lock().expect("invariant: nobody panics while holding vitals");
                known.progress.raise(&vitals.progress);
            }
            known
        })
    }

    /// The node cannot go on: it stops, and says why.
    pub(super) fn fail(&self, error: NodeError) {
        tracing::error!(error = %crate::failure::chain(&error), "the node must stop");
        self.failure.lock().expect("invariant: nobody panics while failing").get_or_insert(error);
        self.stop();
    }

    /// Why it could not.
    pub(super) fn take_failure(&self) -> Option<NodeError> {
        self.failure.lock().expect("invariant: nobody panics while failing").take()
    }

    /// Where in the spread of claims this node stands: by its name among the others, and by chance.
    pub(super) fn place(&self) -> u64 {
        let now = self.now();
        let others = now.nodes.iter().filter(|(name, _)| *name != self.name).count() as u64;
        let before = now.nodes.iter().filter(|(name, _)| *name < self.name).count() as u64;
        let mut random = [0; 1];
        let _ = getrandom::fill(&mut random);
        let chance = u64::from(random[0]) * 200 / 255;
        before * 800 / (others + 1) + chance
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("invariant: nobody panics while holding what was seen")
    }

    /// Who writes elsewhere, as far as this node knows.
    pub(super) fn writer_elsewhere(&self) -> Option<Writer> {
        let writer = self.seen().writer.clone()?;
        let is_me = writer.node == self.name && writer.incarnation == self.incarnation;
        (writer.standing == Standing::Writes && !is_me).then_some(writer)
    }

    /// Waits until another node writes, or none.
    pub(super) async fn is_deposed(&self, writer: &Writer, look_every: Duration) {
        loop {
            tokio::time::sleep(look_every).await;
            let epoch = self.seen().writer.as_ref().map(|now| (now.epoch, now.writes()));
            if epoch != Some((writer.epoch, true)) {
                return;
            }
        }
    }

    /// What the keeper found.
    pub(super) fn surveyed(&self, survey: Vec<Surveyed>) {
        let complaints = interlock::complaints(&survey);
        let mut now = self.now();
        for complaint in complaints.iter().filter(|complaint| !now.complaints.contains(complaint)) {
            tracing::warn!(warning = %complaint, "etcd needs attention");
        }
        now.complaints = complaints;
        now.survey = survey;
    }

    pub(super) fn store_size(&self) -> (u64, u64) {
        interlock::size(&self.now().survey)
    }

    /// How far the store had come when it was last asked.
    pub(super) fn store_revision(&self) -> u64 {
        interlock::revision(&self.now().survey)
    }

    pub(super) fn listed(&self, list: Vec<ListedNode>) {
        self.trust().listed(read_clocks().boot_ms, &list);
        let nodes = list.into_iter().filter_map(|listed| Some((listed.name, listed.node?)));
        let nodes: Vec<(String, NodeValue)> = nodes.filter(|(_, node)| !node.is_forgotten).collect();
        let clocks = read_clocks();
        let now = &mut *self.now();
        now.quiet.listed((clocks.boot_ms, clocks.wall_ms), &now.nodes, &nodes);
        now.nodes = nodes;
    }

    /// Looks at which formats the listed nodes read; `None`: there is no list. A leader's engine writes no newer format from
    /// then on.
    pub(super) fn read_formats(&self, list: Option<&Vec<ListedNode>>) {
        let before = self.format();
        let list = list.map(|list| list.iter().map(|listed| listed.node.as_ref()));
        let format = safe_format(FORMAT, list, before);
        let term = {
            let mut now = self.now();
            now.format = format;
            now.term.clone()
        };
        if format != before {
            tracing::info!(format, before, "the newest format that every listed node reads has changed");
        }
        if let Some(term) = term {
            term.handle.write_up_to(format);
        }
    }

    /// The newest format that this node may write while it leads: the first one until a list was read.
    pub(super) fn format(&self) -> u32 {
        self.now().format.max(FIRST)
    }

    /// Whether the store does not answer this node.
    pub(super) fn hears_nothing(&self) -> bool {
        self.now().store.silence().is_some()
    }

    /// What came of a question to the store at this instant; `why`: no answer came.
    pub(super) fn heard_store(&self, at_ms: u64, why: Option<String>) {
        self.now().store.heard(at_ms, why);
    }

    /// Nodes that are listed.
    pub(super) fn nodes(&self) -> Vec<(String, NodeValue)> {
        self.now().nodes.clone()
    }

    pub(super) fn changed(&self, writer: &Writer, how: LeaderChangeKind) {
        let mut now = self.now();
        let is_known = now.changes.iter().any(|change| change.epoch == writer.epoch && change.how == how);
        if is_known || writer.node.is_empty() {
            return;
        }
        if now.changes.len() == CHANGES_MAX {
            now.changes.pop_front();
        }
        now.changes.push_back(LeaderChange {
            epoch: writer.epoch,
            node: writer.node.clone(),
            at: rfc3339(writer.wall_ms),
            how,
        });
    }

    /// Takes what a term's log measured into this node's numbers.
    pub(super) fn count(&self, term: &Term) {
        let measured = {
            let mut vitals = term.vitals.lock().expect("invariant: nobody panics while holding vitals");
            let taken = vitals.clone();
            vitals.append_us.clear();
            (vitals.unknown_committed, vitals.unknown_absent, vitals.unknown_fenced) = (0, 0, 0);
            taken
        };
        let mut now = self.now();
        let numbers = &mut now.numbers;
        for took_us in measured.append_us {
            let seconds = took_us as f64 / 1e6;
            numbers.appends += 1;
            numbers.append_seconds += seconds;
            for (count, bound) in numbers.append_buckets.iter_mut().zip(APPEND_BUCKETS) {
                *count += u64::from(seconds <= bound);
            }
        }
        let unknown = [measured.unknown_committed, measured.unknown_absent, measured.unknown_fenced];
        for (count, more) in numbers.unknown.iter_mut().zip(unknown) {
            *count += more;
        }
    }

    fn tag(&self) -> String {
        let identity = self.meta.identity();
        let id = WireLease::new(&identity, LeaseId::new(identity.shard, Lsn(1))).text();
        id.split('-').next().unwrap_or_default().to_owned()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("invariant: nobody panics while holding what a node knows")
    }

    fn state_of(&self, now: &Now, node: &str, writer: Option<&Writer>) -> NodeState {
        if *node != self.name && now.quiet.is_silent(node) {
            return NodeState::Silent;
        }
        let writes = match now.term.is_some() {
            true => *node == self.name,
            // What was last seen of this node's own term is over.
            false => *node != self.name && writer.is_some_and(|writer| writer.node == node),
        };
        if writes { NodeState::Leader } else { NodeState::Follower }
    }

    fn positions(&self) -> (u64, u64, f64) {
        let lock = |mirror: &SharedMirror| mirror.lock().map_or(0, |mirror| mirror.end().last_lsn.0);
        let applied = self.mirror().as_ref().map_or(0, lock);
        if self.now().term.is_some() {
            return (applied, applied, 0.0);
        }
        let seen = self.seen();
        let head = seen.head.lsn.max(applied);
        let behind_ms = read_clocks().boot_ms.saturating_sub(seen.caught_up_ms);
        let lag = if head > applied { behind_ms as f64 / 1_000.0 } else { 0.0 };
        (applied, head, lag)
    }
}

impl tenure_faces::Neighbours for NodeShared {
    fn subnets(&self, node: &str) -> Vec<String> {
        let now = self.now();
        let listed = now.nodes.iter().find(|(name, _)| name == node);
        listed.map(|(_, value)| value.subnets.clone()).unwrap_or_default()
    }
}

/// What an operator hears of a removal. A change of the entry is for the operator to look at: a code that clients carry to the
/// next node by themselves would have the node removed there.
fn removal_answer(removed: Removed, node: String) -> Result<NodeForgotten, Error> {
    match removed {
        Removed::Done => Ok(NodeForgotten { forgotten: node }),
        Removed::Unknown => Err(Error::new(ErrorCode::NotFound, format!("the cluster has no node {node:?}"))),
        Removed::Changed => {
            let message = format!("node {node:?} reported while it was being removed, so it was not removed");
            let hint = "check with `tenure cluster nodes` that the node is lost, and try again";
            Err(Error::new(ErrorCode::InvalidState, message).hint(hint))
        }
    }
}

impl Node for NodeShared {
    fn shown(&self) -> ClusterStatus {
        let (applied_lsn, head_lsn, lag_seconds) = self.positions();
        let seen = self.seen().clone();
        let (bytes, quota_bytes) = self.store_size();
        // Takes a lock of its own: before the next one is taken.
        let (waits_for, unreadable) = (self.waits_for(), self.unreadable());
        let now = self.now();
        let leadership_lease_ms = now.term.as_ref().map(|term| {
            let until_ms = term.vitals.lock().map_or(0, |vitals| vitals.authority_until_ms);
            until_ms.saturating_sub(read_clocks().boot_ms)
        });
        let writer = seen.writer.filter(Writer::writes);
        let nodes = now.nodes.iter().map(|(name, node)| ClusterNode {
            state: self.state_of(&now, name, writer.as_ref()),
            ..shown_node(name, node)
        });
        let nodes = nodes.collect();
        let writer_ttl_ms = writer.as_ref().map_or(self.writer_ttl_ms, |writer| writer.writer_ttl_ms);
        let members = now.survey.iter().map(|found| StoreMember {
            name: found.member.name.clone(),
            id: format!("{:016x}", found.member.id),
            version: found.status.as_ref().map(|status| status.version.clone()).unwrap_or_default(),
            db_bytes: found.status.as_ref().map_or(0, |status| status.db_bytes),
            is_leader: found.status.as_ref().is_some_and(|status| status.is_leader),
            alarms: found.alarms.iter().map(alarm).collect(),
        });
        ClusterStatus {
            node: self.name.clone(),
            role: if now.term.is_some() { Role::Leader } else { Role::Follower },
            leader: writer.map(|writer| ClusterLeader {
                node: writer.node,
                url: writer.url,
                epoch: writer.epoch,
                since: rfc3339(writer.wall_ms),
            }),
            leader_ttl_ms: writer_ttl_ms,
            format: now.format.max(FIRST),
            generation: self.meta.generation,
            log_id: format!("{:016x}", self.meta.log_id),
            log_tag: self.tag(),
            applied_lsn,
            head_lsn,
            lag_lsn: head_lsn - applied_lsn,
            lag_seconds,
            leadership_lease_ms,
            nodes,
            store: ClusterStore {
                kind: "etcd".to_owned(),
                endpoints: self.store.endpoints().to_vec(),
                members: members.collect(),
                bytes,
                quota_bytes,
                warnings: now
                    .complaints
                    .iter()
                    .cloned()
                    .chain(waits_for)
                    .chain(unreadable)
                    .chain(agreement::warning(now.differing.names(), now.differing.lsn()))
                    .collect(),
                silent: now.store.silence().map(silence),
            },
            changes: now.changes.iter().cloned().collect(),
        }
    }

    fn step_down(&self) -> Done<'_, SteppedDown> {
        Box::pin(async move {
            match self.writer_elsewhere() {
                Some(writer) if self.term().is_none() => self.passing().step_down(&writer).await,
                Some(_) | None => self.step_down_here().await,
            }
        })
    }

    fn step_down_here(&self) -> Done<'_, SteppedDown> {
        Box::pin(async move {
            let Some(term) = self.term() else {
                return Err(Error::new(ErrorCode::NotLeader, "this node is not the leader"));
            };
            self.now().claims_after_ms = read_clocks().boot_ms + LEAVES_IT_MS;
            term.handle.shut_down();
            Ok(SteppedDown { stepped_down: true, node: self.name.clone(), epoch: term.writer.epoch })
        })
    }

    fn forget(&self, node: String) -> Done<'_, NodeForgotten> {
        Box::pin(async move {
            let (store, trust) = (Arc::clone(&self.store), Arc::clone(&self.trust));
            let (name, keys) = (node.clone(), self.keys.clone());
            let forgotten = tokio::task::spawn_blocking(move || forget(&*store, &keys, &name, &trust)).await;
            match forgotten {
                Ok(Ok(removed)) => {
                    let answer = removal_answer(removed, node)?;
                    self.now().nodes.retain(|(name, _)| *name != answer.forgotten);
                    Ok(answer)
                }
                Ok(Err(error)) => Err(Error::new(ErrorCode::NotLeader, error.to_string())),
                Err(_) => Err(Error::new(ErrorCode::ShuttingDown, "the daemon is stopping")),
            }
        })
    }

    fn rotate_secret(&self) -> Done<'_, SecretRotated> {
        Box::pin(async move {
            let (store, key) = (Arc::clone(&self.store), self.keys.meta());
            let replaced = tokio::task::spawn_blocking(move || replace_secret(&*store, &key)).await;
            let meta = match replaced {
                Ok(Ok(meta)) => meta,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(Error::new(ErrorCode::ShuttingDown, "the daemon is stopping")),
            };
            self.secrets().read(&meta, read_clocks().boot_ms);
            Ok(SecretRotated { rotated: true, former_ms: FORMER_MS })
        })
    }

    fn is_node(&self, secret: &str) -> bool {
        self.secrets().accepts(secret, read_clocks().boot_ms)
    }

    fn myself(&self) -> NodeSelf {
        NodeSelf { node: self.name.clone(), incarnation: self.incarnation.clone() }
    }

    fn memory(&self, asker: serde_json::Value) -> Done<'_, serde_json::Value> {
        Box::pin(async move {
            let now_ms = read_clocks().boot_ms;
            let asked = serde_json::from_value::<(String, Peer)>(asker);
            if let Ok((memory, peer)) = asked
                && self.trust().asked(now_ms, &memory, peer)
            {
                // A moment, once for each who asks.
                self.remember().map_err(|error| Error::new(ErrorCode::NotLeader, error.to_string()))?;
            }
            let mut remembered = self.trust().remembered().clone();
            let mut leads = None;
            if let Some(term) = self.term() {
                let vitals = term.vitals.lock().expect("invariant: nobody panics while holding vitals");
                remembered.progress.raise(&vitals.progress);
                leads = (now_ms < vitals.authority_until_ms).then_some(term.writer.epoch);
            }
            let (node, incarnation) = (self.name.clone(), self.incarnation.clone());
            let told = Told { node, incarnation, remembered, leads };
            serde_json::to_value(told).map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))
        })
    }

    fn segments(&self) -> Option<Box<dyn Segments>> {
        self.mirror().map(|mirror| -> Box<dyn Segments> { Box::new(OwnSegments::of(&mirror)) })
    }

    fn events_elsewhere(&self, query: EventsQuery) -> Done<'_, Option<ToldElsewhere>> {
        Box::pin(async move { Ok(asking::events(self, &query).await) })
    }

    fn ready(&self) -> Result<(), Error> {
        if let Some((since_ms, why)) = self.now().store.silence() {
            let silent_ms = read_clocks().boot_ms.saturating_sub(since_ms);
            let message = format!(
                "etcd has not answered this node for {}: nothing is granted, renewed or ended; reads with \
                 consistency=stale are still answered ({why})",
                duration(silent_ms)
            );
            return Err(Error::new(ErrorCode::StoreSilent, message));
        }
        let not_leader = |message: &str| Err(Error::new(ErrorCode::NotLeader, message));
        if let Some(term) = self.term() {
            let until_ms = term.vitals.lock().map_or(0, |vitals| vitals.authority_until_ms);
            if read_clocks().boot_ms >= until_ms {
                return not_leader(
                    "this node is the leader, but etcd has not confirmed its leadership lease",
                );
            }
            return Ok(());
        }
        if !self.seen().caught_up {
            return not_leader("this node has not copied the whole log yet");
        }
        // A claim of this node that is seen while it has no term is of a term that is over.
        match self.writer_elsewhere() {
            Some(_) => Ok(()),
            None => not_leader("the cluster has no leader at present"),
        }
    }

    fn is_store_silent(&self) -> bool {
        self.hears_nothing()
    }

    fn numbers(&self) -> NodeNumbers {
        if let Some(term) = self.term() {
            self.count(&term);
        }
        let (applied, head, lag_seconds) = self.positions();
        let claims = self.seen().claims;
        let now = self.now();
        NodeNumbers {
            writes: now.term.is_some(),
            lag_lsn: head - applied,
            lag_seconds,
            claims,
            store_bytes: interlock::size(&now.survey).0,
            store_silent_seconds: now
                .store
                .silence()
                .map_or(0.0, |(since_ms, _)| read_clocks().boot_ms.saturating_sub(since_ms) as f64 / 1_000.0),
            differing_nodes: now.differing.names().len() as u64,
            format: now.format.max(FIRST),
            silent_nodes: now
                .nodes
                .iter()
                .filter(|(name, _)| *name != self.name && now.quiet.is_silent(name))
                .count() as u64,
            ..now.numbers.clone()
        }
    }
}

fn shown_node(name: &str, node: &NodeValue) -> ClusterNode {
    ClusterNode {
        node: name.to_owned(),
        url: node.url.clone(),
        incarnation: node.incarnation.clone(),
        version: node.version.clone(),
        subnets: node.subnets.clone(),
        snapshot_lsn: node.snapshot_lsn,
        format: node.format,
        seen: rfc3339(node.wall_ms),
        state: NodeState::Follower,
    }
}

fn silence((since_ms, why): (u64, &str)) -> StoreSilence {
    let now = read_clocks();
    let for_ms = now.boot_ms.saturating_sub(since_ms);
    StoreSilence { since: rfc3339(now.wall_ms.saturating_sub(for_ms)), for_ms, why: why.to_owned() }
}

/// Puts a new secret into `meta`, beside the one before it.
fn replace_secret(store: &dyn Store, key: &str) -> Result<Meta, Error> {
    let silent =
        |error: tenure_cluster::store::StoreError| Error::new(ErrorCode::StoreSilent, error.to_string());
    let found = store.range(key, &format!("{key}\0"), 1, WITHIN).map_err(silent)?.found.into_iter().next();
    let meta =
        found.as_ref().and_then(|found| decode::<Meta>("meta", &found.value).ok().zip(Some(&found.value)));
    let Some((meta, value)) = meta else {
        return Err(Error::new(ErrorCode::Internal, "`meta` in the store cannot be read"));
    };
    let meta = Meta { former_secret: meta.secret.clone(), secret: super::random_hex(), ..meta };
    let same = Compare::Value { key: key.to_owned(), value: value.clone() };
    let put = Op::Put { key: key.to_owned(), value: encode(&meta) };
    let txn = Txn { compares: vec![same], then: vec![put], otherwise: Vec::new() };
    match store.step(&txn, WITHIN).map_err(silent)?.held {
        true => Ok(meta),
        false => Err(Error::new(ErrorCode::NotLeader, "another node changed `meta` meanwhile: try again")),
    }
}

fn alarm(kind: &AlarmKind) -> String {
    match kind {
        AlarmKind::NoSpace => "NOSPACE".to_owned(),
        AlarmKind::Corrupt => "CORRUPT".to_owned(),
        AlarmKind::Other(code) => format!("alarm {code}"),
    }
}

#[cfg(test)]
mod tests {
    use tenure_api::Retry;

    use super::*;

    // It was `not_leader`: a client with several nodes asked the next one, which removed the node that had just reported.
    #[test]
    fn a_removal_that_the_node_itself_forestalled_is_not_tried_again_without_an_operator() {
        let error = removal_answer(Removed::Changed, "c".to_owned()).unwrap_err();
        assert_eq!((error.code, error.code.retry()), (ErrorCode::InvalidState, Retry::Never));
        assert!(error.hint.is_some_and(|hint| hint.contains("tenure cluster nodes")));
    }
}
