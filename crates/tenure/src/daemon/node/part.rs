//! The parts a node plays, one after the other on one thread: it follows, claims, writes, and follows again.
//!
//! Invariant: one engine at a time. What a writer applied and could not commit is never looked at again: after a term the
//! state is rebuilt from this machine's copy.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure_api::LeaderChangeKind;
use tenure_cluster::values::Writer;
use tenure_cluster::{
    BootError, Claimant, FollowEnd, FollowError, FollowedLog, Follower, Forgot, Lookout, RemoteLog,
    SharedMirror, Vitals as LogVitals, mark,
};
use tenure_engine::host::{Host, HostOptions, read_clocks};
use tenure_engine::{Engine, EngineConfig, RecoverError, Stop, rebuild, setup};
use tenure_faces::{
    EndHook, Faces, Network, NodeConnections, RegistrationOptions, Stage, StreamOptions, Switchboard, Vitals,
};
use tenure_history::History;
use tenure_kernel::{Kernel, Lsn, Tick};
use tenure_log::{AppendOutcome, Moment, OpenError, OrderedLog, Resolution, SharedDisk};
use tokio::runtime::Handle as Runtime;
use tokio_util::sync::CancellationToken;

use super::super::hook::Hook;
use super::super::{DaemonError, Plan, ends, prepare_streams};
use super::guardian::Guardian;
use super::shared::{NodeShared, Term};
use super::{Booted, CLOCK, NodeError, random_hex};
use super::{history, homes};

/// What a node's parts are made of.
pub(super) struct Parts {
    shared: Arc<NodeShared>,
    guardian: Option<Guardian>,
    engine: EngineConfig,
    host: HostOptions,
    disk: SharedDisk,
    data_dir: PathBuf,
    archive: Option<PathBuf>,
    /// `None` only while it is made again.
    mirror: Option<SharedMirror>,
    /// Finds the log again, after this machine's copy was of no use any more.
    find_log: FindLog,
    identity_since: Lsn,
    network: Arc<dyn Network>,
    registrations: RegistrationOptions,
    streams: StreamOptions,
    connections: NodeConnections,
    runtime: Runtime,
    vitals: Option<Vitals>,
    /// The state that the next part begins with.
    state: Option<(Kernel, Tick)>,
}

/// Finds the log, and opens this machine's copy.
pub(super) type FindLog = Box<dyn FnMut() -> Result<Booted, DaemonError> + Send>;

/// What came of following.
enum Followed {
    Won(Box<RemoteLog>, u64),
    /// What the copy needs next is gone: it is made again.
    Outdated,
    Stopped,
}

/// A part that has begun.
pub(super) struct Part {
    pub(super) faces: Faces,
    pub(super) leases: u64,
    host: Host,
    switchboard: Arc<Switchboard>,
}

/// How long ended registrations and sessions are looked up before a new writer serves.
const RECALL_WITHIN: Duration = Duration::from_millis(300);
/// For how long a writer without authority waits for the store before it follows again.
const LAPSE_MAX: Duration = Duration::from_millis(500);
/// How long a thread of this node may still have a copy that is made again.
const LET_GO_WITHIN: Duration = Duration::from_secs(10);
/// How often it looks whether the store is silent, after that.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Parts {
    pub(super) fn new(
        plan: &Plan,
        (shared, guardian): (Arc<NodeShared>, Option<Guardian>),
        disk: SharedDisk,
        (booted, find_log): (Booted, FindLog),
        network: Arc<dyn Network>,
        hook: Option<Arc<Hook>>,
        runtime: &Runtime,
    ) -> Result<Self, RecoverError> {
        let on_end = hook.map(|hook| -> Arc<dyn EndHook> { hook });
        let mirror: SharedMirror = Arc::new(Mutex::new(booted.mirror));
        shared.copies_into(Some(Arc::clone(&mirror)));
        let mut parts = Self {
            shared,
            guardian,
            engine: homes::patient(plan.engine.clone()),
            host: plan.host.clone(),
            disk,
            data_dir: plan.data_dir.clone(),
            archive: plan.log.archive.clone().or_else(|| history::log_put_aside(&plan.data_dir)),
            mirror: Some(mirror),
            find_log,
            identity_since: Lsn(booted.meta.identity_since),
            network,
            registrations: plan.registrations.clone(),
            streams: StreamOptions { on_end, ..plan.streams.clone() },
            connections: NodeConnections::default(),
            runtime: runtime.clone(),
            vitals: None,
            state: None,
        };
        parts.state = Some(parts.rebuild()?);
        Ok(parts)
    }

    pub(super) fn set_vitals(&mut self, vitals: Vitals) {
        self.vitals = Some(vitals);
    }

    /// The connections that are open at this node, whatever part it plays.
    pub(super) fn connections(&self) -> NodeConnections {
        self.connections.clone()
    }

    fn mirror(&self) -> &SharedMirror {
        self.mirror.as_ref().expect("invariant: a node that plays a part has a copy")
    }

    fn copied_upto(&self) -> tenure_log::Lsn {
        self.mirror().lock().expect("invariant: nobody panics while holding the copy").end().last_lsn
    }

    /// Makes the copy anew. Nobody uses the old one any more. A node that stops meanwhile is left without one.
    fn begin_again(&mut self) -> Result<(), DaemonError> {
        self.mirror = None;
        self.shared.copies_into(None);
        let (began_ms, find_log) = (read_clocks().boot_ms, &mut self.find_log);
        let waited = || Duration::from_millis(read_clocks().boot_ms.saturating_sub(began_ms));
        let is_stopping = || self.shared.is_stopping();
        let pause = || std::thread::park_timeout(LOOK_EVERY);
        let Some(booted) = find_again(find_log, &waited, &is_stopping, &pause)? else { return Ok(()) };
        let (found, known) = (booted.meta.generation, self.shared.meta.generation);
        if found != known {
            // Identity, and how long grants wait, are others: what runs here knows only the former ones.
            let why = format!(
                "the log is in generation {found}, this node followed generation {known}: the log was adopted or moved while \
                 the node ran; start the node again"
            );
            return Err(DaemonError::Stopped(why));
        }
        // A try that put it aside may have come no further.
        let why = booted.put_aside.as_deref().unwrap_or("the former local log was moved aside before");
        tracing::warn!(why, "rebuilding the local log");
        let mirror: SharedMirror = Arc::new(Mutex::new(booted.mirror));
        self.shared.copies_into(Some(Arc::clone(&mirror)));
        self.mirror = Some(mirror);
        Ok(())
    }

    /// The state that this machine's copy comes to.
    fn rebuild(&self) -> Result<(Kernel, Tick), RecoverError> {
        let (snapshots, mut reader, identity) = {
            let mirror = self.mirror().lock().expect("invariant: nobody panics while holding the copy");
            (mirror.snapshots(), mirror.reader(), mirror.identity())
        };
        let setup = setup(&identity, &self.engine);
        let newest = snapshots.newest();
        Ok(rebuild(setup, &snapshots, newest.as_ref(), &mut reader)?.into_parts())
    }

    /// Begins to follow with the state at hand.
    pub(super) fn begin_following(&mut self) -> Part {
        let (kernel, tick) = self.state.take().expect("invariant: a part leaves a state behind");
        let log = FollowedLog::new(self.mirror());
        let next_lsn = Lsn(log.next_lsn().0);
        let engine = Engine::following(self.engine.clone(), kernel, tick, next_lsn, read_clocks());
        self.begin(engine, Box::new(log))
    }

    fn begin(&self, engine: Engine, log: Box<dyn OrderedLog>) -> Part {
        let leases = engine.status().leases.iter().map(|(_, count)| count).sum();
        let follows = engine.role() == tenure_engine::Role::Following;
        let (switchboard, ended) = Switchboard::new();
        let identity = log.identity();
        let reader = self.mirror().lock().expect("invariant: nobody panics while holding the copy").reader();
        let history = History::online(self.disk.clone(), &self.data_dir, reader, identity)
            .archived_in(self.archive.clone());
        ends::log(ended, identity);
        let host = Host::start(engine, log, &self.engine, self.host.clone(), switchboard.listener());
        self.shared.plays(host.handle());
        let faces = Faces::new(
            host.handle(),
            Arc::clone(&switchboard),
            history,
            Arc::clone(&self.network),
            self.registrations.clone(),
            self.streams.clone(),
        );
        let elsewhere = follows.then(|| -> Arc<dyn tenure_faces::Elsewhere> { self.shared.passing() });
        let home = homes::home(&self.shared, &self.registrations);
        faces.belong_to_cluster(
            home,
            Arc::clone(&self.shared) as Arc<dyn tenure_faces::Neighbours>,
            self.connections.clone(),
            elsewhere,
        );
        faces.had_tags(self.shared.meta.former_tags.clone());
        if let Some(vitals) = &self.vitals {
            faces.set_vitals(vitals.clone());
        }
        Part { faces, leases, host, switchboard }
    }

    /// Plays one part after the other until the node is told to stop.
    pub(super) fn play(
        mut self,
        first: Part,
        stage: Stage,
        stopping: CancellationToken,
    ) -> JoinHandle<Result<(), DaemonError>> {
        if let Some(vitals) = &self.vitals {
            first.faces.set_vitals(vitals.clone());
        }
        let run = move || {
            let outcome = self.alternate(first, &stage);
            if let Err(error) = &outcome {
                tracing::error!(error = %crate::failure::chain(error), "the node must stop");
            }
            stopping.cancel();
            outcome
        };
        std::thread::Builder::new()
            .name("tenure-node".to_owned())
            .spawn(run)
            .expect("invariant: a thread can be started")
    }

    fn alternate(&mut self, first: Part, stage: &Stage) -> Result<(), DaemonError> {
        let mut following = first;
        loop {
            match self.follow(following)? {
                Followed::Won(log, tick) => self.write(log, tick, stage)?,
                Followed::Outdated => self.begin_again()?,
                Followed::Stopped => return Ok(()),
            }
            if self.shared.is_stopping() {
                return Ok(());
            }
            self.state = Some(self.rebuild().map_err(NodeError::from)?);
            following = self.begin_following();
            stage.change(following.faces.clone());
        }
    }

    /// Follows until the log is this node's, or the node stops.
    fn follow(&mut self, part: Part) -> Result<Followed, DaemonError> {
        let claimant = Claimant {
            node: self.shared.name.clone(),
            incarnation: self.shared.incarnation.clone(),
            url: self.shared.url.clone(),
            writer_ttl_ms: self.shared.writer_ttl_ms,
        };
        let lookout = Lookout::new(self.shared.keys.clone(), claimant, self.shared.place());
        let mut follower = Follower::new(
            Arc::clone(&self.shared.store) as Arc<dyn tenure_cluster::store::Store>,
            self.shared.keys.clone(),
            Arc::clone(self.mirror()),
            lookout,
            CLOCK,
            Arc::clone(&self.shared.seen),
            Arc::clone(&self.shared.trust),
        );
        let handle = part.host.handle();
        let end = follower.run(
            &mut |batch| handle.copied(batch),
            &self.shared.stopping,
            &|| self.shared.may_claim() && handle.synced_lsn().0 >= self.copied_upto().0,
            &random_hex,
        );
        let Part { host, switchboard, .. } = part;
        let engine = host.hand_over().map_err(|stop| stopped(&stop))?;
        switchboard.hang_up();
        self.state = Some(engine.into_state());
        match end {
            Ok(FollowEnd::Won { log, tick }) => Ok(Followed::Won(log, tick)),
            Ok(FollowEnd::Stopped) => Ok(Followed::Stopped),
            Err(FollowError::Trimmed { .. }) => Ok(Followed::Outdated),
            Err(FollowError::Forgot(forgot)) => {
                let known = self.shared.trust().remembered().clone();
                let (store, keys) = (&*self.shared.store, &self.shared.keys);
                match mark(store, keys, &self.shared.name, &known, &forgot.what) {
                    Ok(true) => tracing::error!("marked the store as restored: no node serves it"),
                    Ok(false) => {}
                    Err(error) => tracing::error!(%error, "cannot mark the store as restored"),
                }
                Err(self.restored(forgot))
            }
            Err(FollowError::Marked { by, what }) => Err(self.restored(Forgot { who: by, what })),
            Err(error) => Err(DaemonError::Stopped(crate::failure::chain(&error))),
        }
    }

    fn restored(&self, forgot: Forgot) -> DaemonError {
        let (address, source) = (self.shared.address.clone(), BootError::Restored(forgot));
        NodeError::Boot { address, source }.into()
    }

    /// The guardian hears which claim of this node stands.
    fn tell_guardian(&mut self, claim: Option<&Writer>) {
        if let Some(guardian) = &mut self.guardian {
            guardian.tell(claim);
        }
    }

    /// Makes a term part of the log. `false`: another node came before, or nobody wants it any more.
    fn open(&self, log: &mut RemoteLog, tick: Tick) -> Result<bool, DaemonError> {
        // On disk before a frame is written under this claim: the next run of this node knows of it. The log proves life
        // meanwhile.
        let (proved_ms, progress) = log.proved();
        self.shared.trust().led(proved_ms, &progress);
        self.shared
            .remember()
            .map_err(|source| NodeError::Boot { address: self.shared.address.clone(), source })?;
        let (shared, vitals) = (&self.shared, log.vitals());
        open_term(log, tick, &|| shared.is_stopping(), &|| shared.hears_nothing() || is_store_full(&vitals))
    }

    /// Prepares what a leader serves. `None`: the node has to follow again before that is done, as one that serves would.
    fn prepare_unless(
        &self,
        is_over: impl FnMut() -> Option<Duration>,
        faces: Faces,
    ) -> Option<Vec<tokio::task::AbortHandle>> {
        self.runtime.block_on(async {
            tokio::select! {
                tasks = prepare(faces) => Some(tasks),
                () = ends(is_over) => None,
            }
        })
    }

    /// Writes until another node does.
    fn write(&mut self, mut log: Box<RemoteLog>, tick: u64, stage: &Stage) -> Result<(), DaemonError> {
        self.tell_guardian(Some(&log.writer()));
        let (kernel, applied) = self.state.take().expect("invariant: a part leaves a state behind");
        let tick = Tick(tick).max(applied);
        let keeps_authority =
            std::env::var_os("TENURE_TEST_KEEP_AUTHORITY").is_some() && cfg!(debug_assertions);
        if keeps_authority {
            log.keep_authority();
        }
        match self.open(&mut log, tick) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                // Other nodes need not wait for the silence of a node that cannot lead.
                let _ = log.close(Moment { tick: tick.0, wall_ms: read_clocks().wall_ms });
                return Err(error);
            }
        }
        let (vitals, is_short) = (log.vitals(), log.shortage());
        let writer = log.writer();
        let measured = Arc::clone(&vitals);
        let watched = (!keeps_authority).then(|| Arc::clone(&vitals));
        tracing::info!(epoch = writer.epoch, "became leader");
        let config = EngineConfig { format: self.shared.format(), ..self.engine.clone() };
        let mut engine = Engine::take_over(&*log, kernel, tick, self.identity_since, config, read_clocks());
        engine.wait_with_grants(Tick(self.shared.meta.not_before_tick));
        let part = self.begin(engine, log);
        let term = Term { writer: writer.clone(), handle: part.host.handle(), vitals, is_short };
        self.shared.term_begins(term);
        // A list that was read while the term began told nobody.
        part.host.handle().write_up_to(self.shared.format());
        if self.shared.is_stopping() {
            part.host.handle().shut_down();
        }
        let prepared = self.prepare_unless(lapse_watch(watched.clone(), &self.shared), part.faces.clone());
        if prepared.is_some() {
            stage.change(part.faces.clone());
        }
        let Part { host, switchboard, .. } = part;
        let outcome = host.join_unless(lapse_watch(watched, &self.shared));
        if let Ok(measured) = measured.lock() {
            self.shared.trust().led(measured.proved_ms, &measured.progress);
        }
        self.shared.term_ends();
        switchboard.hang_up();
        prepared.iter().flatten().for_each(tokio::task::AbortHandle::abort);
        match outcome {
            // Its claim still stands in the store.
            None => tracing::warn!("leadership lease expired: following again"),
            Some(Ok(())) => {
                self.tell_guardian(None);
                // Another may write before anybody has looked: whoever resigned knows it best.
                let resigned = Writer { wall_ms: read_clocks().wall_ms, ..writer };
                self.shared.changed(&resigned, LeaderChangeKind::Resigned);
                tracing::info!("resigned as leader");
            }
            Some(Err(Stop::Fenced)) => {
                self.tell_guardian(None);
                tracing::warn!("another node was elected leader");
            }
            Some(Err(stop @ (Stop::LogFailed(_) | Stop::Newer { .. }))) => return Err(stopped(&stop)),
        }
        Ok(())
    }
}

/// Finds the log again while the node runs. A store that does not answer is waited for, as by a node that follows, and so is
/// a thread of this node that has yet to let go of the former copy. `None`: the node stops.
fn find_again<T>(
    find: &mut dyn FnMut() -> Result<T, DaemonError>,
    waited: &dyn Fn() -> Duration,
    is_stopping: &dyn Fn() -> bool,
    pause: &dyn Fn(),
) -> Result<Option<T>, DaemonError> {
    let mut is_told = false;
    loop {
        let error = match find() {
            Ok(found) => return Ok(Some(found)),
            Err(error) => error,
        };
        let may_pass = match &error {
            DaemonError::Node(NodeError::Boot { source: BootError::Store(_), .. }) => true,
            DaemonError::Node(NodeError::Boot {
                source: BootError::Open(OpenError::Locked { .. }), ..
            }) => waited() < LET_GO_WITHIN,
            _ => false,
        };
        if !may_pass {
            return Err(error);
        }
        if is_stopping() {
            return Ok(None);
        }
        if !is_told {
            tracing::warn!(error = %crate::failure::chain(&error), "cannot rebuild the local log yet; retrying");
            is_told = true;
        }
        pause();
    }
}

/// Gives a term up once its authority has been over for [`LAPSE_MAX`] and the store is silent or full: a leader without
/// authority serves nobody, a follower serves stale reads. Counted from where it was noticed: a process that was stopped
/// asks the store first.
fn lapse_watch(
    vitals: Option<Arc<Mutex<LogVitals>>>,
    shared: &NodeShared,
) -> impl FnMut() -> Option<Duration> {
    let mut noticed_ms = None;
    move || {
        let Some(vitals) = &vitals else { return Some(LAPSE_MAX) };
        let until_ms = vitals.lock().map_or(0, |vitals| vitals.authority_until_ms);
        let now_ms = read_clocks().boot_ms;
        if now_ms < until_ms {
            noticed_ms = None;
            return Some(Duration::from_millis(until_ms - now_ms));
        }
        let passed = Duration::from_millis(now_ms - *noticed_ms.get_or_insert(now_ms));
        let left = LAPSE_MAX.saturating_sub(passed);
        let is_over = left.is_zero() && (is_store_full(vitals) || shared.hears_nothing());
        (!is_over).then(|| if left.is_zero() { LOOK_EVERY } else { left })
    }
}

/// Ends when this says so; until then it says for how long it is content.
async fn ends(mut is_over: impl FnMut() -> Option<Duration>) {
    while let Some(pause) = is_over() {
        tokio::time::sleep(pause).await;
    }
}

fn is_store_full(vitals: &Mutex<LogVitals>) -> bool {
    vitals.lock().is_ok_and(|vitals| vitals.is_store_full)
}

/// Appends the frame that opens a term. `false`: as for [`Parts::open`].
fn open_term(
    log: &mut RemoteLog,
    tick: Tick,
    is_stopping: &dyn Fn() -> bool,
    takes_nothing: &dyn Fn() -> bool,
) -> Result<bool, DaemonError> {
    let at = Moment { tick: tick.0, wall_ms: read_clocks().wall_ms };
    loop {
        match log.open(at) {
            AppendOutcome::Committed { .. } => return Ok(true),
            AppendOutcome::Fenced => return Ok(false),
            AppendOutcome::Failed(error) => return Err(DaemonError::Stopped(crate::failure::chain(&error))),
            AppendOutcome::Unknown => {}
        }
        match log.resolve_opening() {
            Resolution::Committed { .. } => return Ok(true),
            Resolution::Fenced => return Ok(false),
            Resolution::Corrupt => {
                return Err(DaemonError::Stopped(
                    "the log has records that this node did not write".to_owned(),
                ));
            }
            Resolution::Absent | Resolution::Unknown if is_stopping() => return Ok(false),
            // Who follows serves stale reads meanwhile.
            Resolution::Unknown if takes_nothing() => return Ok(false),
            Resolution::Absent | Resolution::Unknown => {}
        }
    }
}

/// Before anybody is served: ids are known, pools are there.
async fn prepare(faces: Faces) -> Vec<tokio::task::AbortHandle> {
    if let Err(error) = faces.restore_registrations().await {
        tracing::error!(%error, "cannot look up registrations by ID");
    }
    if let Err(error) = prepare_streams(&faces).await {
        tracing::error!(%error, "cannot apply the settings of slot sessions");
    }
    if let Err(error) = faces.restore_polling().await {
        tracing::error!(%error, "cannot restore the groups of pollers");
    }
    let tasks = vec![
        tokio::spawn(faces.clone().keep_gates()).abort_handle(),
        tokio::spawn(faces.clone().keep_notices()).abort_handle(),
        tokio::spawn(faces.clone().watch_streams()).abort_handle(),
    ];
    let recalling = tokio::spawn(async move {
        faces.recall_registrations().await;
        faces.recall_streams().await;
        faces.recall_polling().await;
    });
    let _ = tokio::time::timeout(RECALL_WITHIN, recalling).await;
    tasks
}

fn stopped(stop: &Stop) -> DaemonError {
    DaemonError::Stopped(stop.to_string())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use tenure_cluster::store::StoreError;
    use tenure_log::{CopyOf, FileLogOptions, Genesis, LogEnd, Mirror, RealDisk};

    use super::*;

    fn boot_error(source: BootError) -> DaemonError {
        NodeError::Boot { address: "etcd://e:1/t".to_owned(), source }.into()
    }

    fn unanswered() -> DaemonError {
        boot_error(BootError::Store(StoreError::Unanswered { why: "it is slow".to_owned() }))
    }

    fn open(root: &Path) -> Result<Mirror, DaemonError> {
        let genesis = Genesis { random: [1; 16], unix_seconds: 1, shard: 0 };
        let of = CopyOf {
            identity: genesis.identity(),
            identity_since: tenure_log::Lsn(1),
            parent_log_id: 0,
            first_frame: 1,
            end: LogEnd::default(),
        };
        let opened = Mirror::open(Arc::new(RealDisk), root, FileLogOptions::new(genesis, 0), &of);
        opened.map(|(mirror, _)| mirror).map_err(|error| boot_error(error.into()))
    }

    // The node stopped, although it waits for a store that goes silent at any other time.
    #[test]
    fn a_store_that_does_not_answer_is_waited_for_until_the_node_stops() {
        let tries = Cell::new(0);
        let mut find = || {
            tries.set(tries.get() + 1);
            if tries.get() < 4 { Err(unanswered()) } else { Ok(tries.get()) }
        };
        let long = || LET_GO_WITHIN * 100;
        assert_eq!(find_again(&mut find, &long, &|| false, &|| {}).unwrap(), Some(4));
        let is_stopping = Cell::new(false);
        let mut find = || Err::<(), DaemonError>(unanswered());
        let found = find_again(&mut find, &long, &|| is_stopping.get(), &|| is_stopping.set(true));
        assert_eq!(found.unwrap(), None);
    }

    // The keeper may be syncing the former copy, or reading a snapshot of it, and the copy is locked until then.
    #[test]
    fn a_former_copy_that_a_thread_still_has_is_waited_for_and_not_for_ever() {
        let root = tempfile::tempdir().unwrap();
        let held = Cell::new(Some(open(root.path()).unwrap()));
        let mut find = || open(root.path());
        let found = find_again(&mut find, &|| Duration::ZERO, &|| false, &|| drop(held.take()));
        assert!(found.unwrap().is_some());
        let _held = open(root.path()).unwrap();
        let stays = find_again(&mut find, &|| LET_GO_WITHIN, &|| false, &|| {}).err().unwrap();
        assert!(stays.to_string().contains("cannot follow the log"));
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        let mut find = || Err::<(), DaemonError>(boot_error(BootError::MetaMissing));
        let tried = find_again(&mut find, &|| Duration::ZERO, &|| false, &|| panic!("it waits"));
        assert!(tried.is_err());
    }
}
