//! The daemon put together: log, engine, faces, server, in the order they start, and back again.
//!
//! Composition only: what each part does is decided in its own crate.

mod backup;
mod ends;
mod files;
mod hook;
mod logging;
mod network;
mod node;
mod notify;
mod restart;

pub(crate) use hook::HookPlan;
pub(crate) use logging::start as start_logging;
pub(crate) use network::NetworkPlan;
pub(crate) use node::{ClusterPlan, NodeError, guard_leader, run as run_node};
pub(crate) use restart::Program;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure_api::{Advertised, Breadcrumb};
use tenure_engine::host::{Host, HostOptions, read_clocks};
use tenure_engine::kernel::Hashing;
use tenure_engine::{Engine, EngineConfig, RecoverError, Stop};
use tenure_faces::{EndHook, Faces, RegistrationOptions, Stage, StreamOptions, Switchboard, Vitals};
use tenure_history::{History, rfc3339};
use tenure_log::{FileLog, FileLogOptions, Genesis, OpenError, OrderedLog, RealDisk, SharedDisk};
use tenure_mdns::StartError;
use tenure_server::{ReservedPort, Server, ServerError, ServerOptions, StopWish, Stopping};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::breadcrumb::{self, PublishError};
use crate::writer::Writer;
use hook::Hook;

/// How many tasks a thread runs before it looks which connections can be read. The runtime's own 61 are too many where
/// the tasks are those of clients that do their worst: each may have a whole slice of lines to answer.
const TASKS_BETWEEN_LOOKS: u32 = 8;

/// Everything a daemon is started with.
pub(crate) struct Plan {
    pub(crate) data_dir: PathBuf,
    pub(crate) engine: EngineConfig,
    pub(crate) host: HostOptions,
    pub(crate) log: LogPlan,
    pub(crate) server: ServerOptions,
    pub(crate) network: NetworkPlan,
    pub(crate) registrations: RegistrationOptions,
    pub(crate) streams: StreamOptions,
    /// What tells of sessions' ends; `None`: nobody is told.
    pub(crate) hook: Option<Arc<Hook>>,
    /// What tells it to stop.
    pub(crate) stop: StopOn,
    /// Where the breadcrumb goes; `None`: nowhere anybody would look.
    pub(crate) breadcrumb_dir: Option<PathBuf>,
}

/// What tells a daemon to stop, besides a call that does.
pub(crate) enum StopOn {
    /// Signals to its process.
    Signals,
    /// Whoever runs it within its own process.
    Word(CancellationToken),
}

/// What is to follow a daemon that has stopped as it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Nothing.
    Stopped,
    /// The same daemon again, in the same process.
    Restart,
}

/// Settings of the log beside where it is.
#[derive(Clone)]
pub(crate) struct LogPlan {
    pub(crate) segment_bytes: u64,
    pub(crate) free_bytes_min: u64,
    pub(crate) archive: Option<PathBuf>,
}

/// What a daemon says once it serves.
pub(crate) struct Started {
    pub(crate) endpoint: Option<String>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) leases: u64,
    pub(crate) recovered_in: Duration,
    pub(crate) warnings: Vec<String>,
}

/// Why a daemon does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// The data directory cannot be made.
    #[error("cannot create the data directory {}", path.display())]
    DataDir {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another daemon has data and port.
    #[error("{} is in use by the daemon with pid {pid}", path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
        /// Its process.
        pid: u32,
    },
    /// The log cannot be opened.
    #[error("cannot open the log in {}", path.display())]
    Open {
        /// The data directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: OpenError,
    },
    /// The log cannot be served.
    #[error("cannot recover from the log in {}", path.display())]
    Recover {
        /// The data directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: RecoverError,
    },
    /// The listeners cannot be bound.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Another daemon says that it is this one.
    #[error(transparent)]
    Breadcrumb(#[from] PublishError),
    /// The network of registrations cannot be used.
    #[error(transparent)]
    Network(#[from] StartError),
    /// The threads cannot be started.
    #[error("cannot start the runtime threads")]
    Runtime(#[source] std::io::Error),
    /// It is a node that cannot be one.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The engine had to stop.
    #[error("the engine stopped: {0}")]
    Stopped(String),
    /// Stopping took too long.
    #[error("stopping took longer than {} s; {what}", limit.as_secs())]
    StopTooLong {
        /// How long it may take.
        limit: Duration,
        /// What was left.
        what: &'static str,
    },
}

impl DaemonError {
    /// The next step, where it is known.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::DataDir { .. } => Some("choose another directory with --data-dir".to_owned()),
            Self::Open { path, source: OpenError::Read(_) } | Self::Recover { path, .. } => {
                Some(format!("check the log with: tenure log verify {}", path.display()))
            }
            Self::InUse { .. } | Self::Open { source: OpenError::Locked { .. }, .. } => {
                Some("tenure status shows that daemon; a second one needs its own --data-dir, --port and --run-dir".to_owned())
            }
            Self::Server(ServerError::Bind { .. }) => {
                Some("choose another port with --port; 0 lets the system choose".to_owned())
            }
            Self::Server(ServerError::SocketInUse { .. }) | Self::Breadcrumb(_) => {
                Some("tenure status shows that daemon; a second one needs its own --run-dir, --socket and --port".to_owned())
            }
            Self::Network(_) => Some("--no-mdns starts the daemon without mDNS".to_owned()),
            Self::Node(error) => error.hint(),
            Self::Open { source: OpenError::Copy { .. }, .. } => {
                Some("this is the local log of a node: serve it with --store etcd://…".to_owned())
            }
            Self::Open { .. }
            | Self::Server(ServerError::Socket { .. })
            | Self::Runtime(_)
            | Self::Stopped(_)
            | Self::StopTooLong { .. } => None,
        }
    }
}

/// How often indexes of sealed segments are looked after.
const INDEX_EVERY: Duration = Duration::from_secs(30);
/// How long everything may take from the word to the end.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// How long nobody is served because ended registrations are looked up.
pub(crate) const RECALL_WITHIN: Duration = Duration::from_secs(2);
/// Of the time to stop, how long goodbyes may take.
const WITHDRAW_WITHIN: Duration = Duration::from_secs(10);

/// Runs a daemon until it is told to stop. `started` is called once it serves.
pub(crate) fn run(plan: Plan, started: impl FnOnce(Started)) -> Result<Ended, DaemonError> {
    let began = read_clocks();
    if let StopOn::Signals = plan.stop {
        stop_on_panic();
    }
    // First what can fail without a trace: a daemon that cannot listen leaves the data as it is.
    let port = take_port(&plan)?;
    let network = plan.network.start()?;
    let disk: SharedDisk = Arc::new(RealDisk);
    let opened = open(&disk, &plan)?;
    let leases = opened.engine.status().leases.iter().map(|(_, count)| count).sum();
    let (switchboard, ends) = Switchboard::new();
    ends::log(ends, opened.log.identity());
    let history = History::online(disk, &plan.data_dir, opened.log.reader(), opened.log.identity())
        .archived_in(plan.log.archive.clone());
    let host =
        Host::start(opened.engine, Box::new(opened.log), &plan.engine, plan.host, switchboard.listener());
    let recovered_in = Duration::from_millis(read_clocks().boot_ms.saturating_sub(began.boot_ms));
    let hook = plan.hook;
    let on_end = hook.clone().map(|hook| -> Arc<dyn EndHook> { hook });
    let streams = StreamOptions { on_end, ..plan.streams };
    let faces = Faces::new(host.handle(), switchboard, history, network, plan.registrations, streams);
    let recovery_secs = recovered_in.as_secs_f64();
    let connections_max = within_files(plan.server.connections_max);
    let server = ServerOptions { recovery_secs, connections_max, ..plan.server };
    let runtime = runtime()?;
    let outcome = runtime.block_on(serve(
        Serving {
            data_dir: plan.data_dir,
            free_bytes_min: plan.log.free_bytes_min,
            host,
            faces,
            hook,
            server,
            port,
            breadcrumb_dir: plan.breadcrumb_dir,
            stop: plan.stop,
            leases,
            recovered_in,
            warnings: opened.warnings,
        },
        began.boot_ms,
        started,
    ));
    // What still blocks on the disk or on a peer has had its time.
    runtime.shutdown_background();
    outcome
}

/// A broken invariant stops the process: nothing suspect is served.
fn stop_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() == Some(tenure_mdns::ENGINE_THREAD) {
            // What a packet from the network broke is started again, and holds no lease.
            tracing::error!(%panic, "the mDNS engine failed; restarting it");
            return;
        }
        tracing::error!(%panic, "invariant broken; the daemon stops");
        before(panic);
        std::process::abort();
    }));
}

/// Of a daemon that has the port and the data, the data is the better thing to name: it says which process it is.
fn take_port(plan: &Plan) -> Result<Option<ReservedPort>, DaemonError> {
    let port = plan.server.bind.map(ReservedPort::take).transpose();
    port.map_err(|error| match Writer::of(&plan.data_dir) {
        Some(writer) => DaemonError::InUse { path: plan.data_dir.clone(), pid: writer.pid },
        None => error.into(),
    })
}

/// As many connections as the system has files for.
fn within_files(wanted: usize) -> usize {
    let possible = files::connections_max();
    if possible < wanted {
        tracing::debug!(wanted, possible, "connection limit lowered to the limit of open files");
    }
    wanted.min(possible)
}

struct OpenedLog {
    engine: Engine,
    log: FileLog,
    warnings: Vec<String>,
}

fn open(disk: &SharedDisk, plan: &Plan) -> Result<OpenedLog, DaemonError> {
    let path = || plan.data_dir.clone();
    make_private(&plan.data_dir).map_err(|source| DaemonError::DataDir { path: path(), source })?;
    let now = read_clocks();
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("invariant: the system gives random bytes");
    let genesis = Genesis { random, unix_seconds: now.wall_ms / 1_000, shard: 0 };
    let mut options = FileLogOptions::new(genesis, now.wall_ms);
    options.segment_bytes = plan.log.segment_bytes;
    options.free_bytes_min = plan.log.free_bytes_min;
    options.archive.clone_from(&plan.log.archive);
    let (log, recovery) = FileLog::open(Arc::clone(disk), &plan.data_dir, options)
        .map_err(|source| DaemonError::Open { path: path(), source })?;
    let engine = Engine::recover(&log, &recovery, plan.engine.clone(), read_clocks())
        .map_err(|source| DaemonError::Recover { path: path(), source })?;
    Ok(OpenedLog { engine, log, warnings: recovery.warnings() })
}

/// How the tables of this process hash: nobody outside can compute names that collide.
pub(crate) fn secret_hashing() -> Hashing {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("invariant: the system gives random bytes");
    let (first, second) = random.split_at(8);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Hashing::secret([number(first), number(second)])
}

/// Makes a directory that its owner alone can enter: holders' names and attachments are nobody else's business. One that
/// is there already is closed to everybody outside its group.
pub(crate) fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mode = directory.metadata()?.permissions().mode() & 0o7777;
    if mode & 0o007 == 0 {
        return Ok(());
    }
    let closed = std::fs::Permissions::from_mode(mode & !0o007);
    let (path, mode) = (directory.display(), format!("{mode:04o}"));
    match std::fs::set_permissions(directory, closed) {
        Ok(()) => tracing::info!(%path, mode, "closed the data directory to other users"),
        // It belongs to somebody else, who may have meant it so.
        Err(error) => tracing::warn!(%path, mode, %error, "data directory is accessible to other users"),
    }
    Ok(())
}

/// Before anybody is served: pools are there, and ids of sessions are known.
async fn prepare_streams(faces: &Faces) -> Result<(), tenure_api::Error> {
    faces.restore_streams().await?;
    faces.make_pools().await
}

struct Serving {
    data_dir: PathBuf,
    free_bytes_min: u64,
    host: Host,
    faces: Faces,
    hook: Option<Arc<Hook>>,
    server: ServerOptions,
    port: Option<ReservedPort>,
    breadcrumb_dir: Option<PathBuf>,
    stop: StopOn,
    leases: u64,
    recovered_in: Duration,
    warnings: Vec<String>,
}

/// What connections are served on.
fn runtime() -> Result<tokio::runtime::Runtime, DaemonError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(TASKS_BETWEEN_LOOKS)
        .thread_name("tenure-async")
        .build()
        .map_err(DaemonError::Runtime)
}

async fn serve(
    serving: Serving,
    started_boot_ms: u64,
    started: impl FnOnce(Started),
) -> Result<Ended, DaemonError> {
    let Serving {
        data_dir,
        free_bytes_min,
        host,
        faces,
        hook,
        server,
        port,
        breadcrumb_dir,
        stop,
        leases,
        recovered_in,
        warnings,
    } = serving;
    let stopping = match stop {
        // Handlers stand before anybody can know that there is something to signal.
        StopOn::Signals => {
            let stopping = Stopping::default();
            stop_on_signals(&faces, &stopping);
            stopping
        }
        StopOn::Word(stopping) => {
            faces.serve_registrations_alone();
            Stopping::with_token(stopping)
        }
    };
    let stopped = stopping.token().clone();
    let bound_server = Server::bind(Stage::alone(faces.clone()), server, port, stopping.clone()).await;
    let server = match bound_server {
        Ok(server) => server,
        Err(error) => {
            // Nothing was served; the log is left as clean as it was found.
            let _ = host.shut_down();
            return Err(error.into());
        }
    };
    let bound = server.bound().clone();
    let socket = bound.socket.as_ref().map(|path| path.display().to_string());
    faces.set_vitals(Vitals {
        instance: node::random_hex(),
        started_boot_ms,
        http: bound.endpoint.clone(),
        socket: socket.clone(),
        data_dir: data_dir.display().to_string(),
        free_bytes_min,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        leader_ttl_ms: None,
    });
    let breadcrumb = bound.endpoint.clone().map(|endpoint| Breadcrumb {
        endpoint,
        socket,
        pid: std::process::id(),
        started_at: rfc3339(read_clocks().wall_ms),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let published = breadcrumb_dir
        .zip(breadcrumb)
        .map(|(directory, breadcrumb)| breadcrumb::publish(&directory, &breadcrumb))
        .transpose();
    let published = match published {
        Ok(published) => published,
        Err(error) => {
            remove_socket(bound.socket.as_deref());
            let _ = host.shut_down();
            return Err(error.into());
        }
    };
    // Everything is bound and nobody is served yet: now ids become known, and what lives is advertised.
    let restored = faces.restore_registrations().await;
    if let Ok(registrations @ 1..) = restored {
        tracing::info!(registrations, "advertising restored registrations");
    }
    if let Err(error) = prepare_streams(&faces).await {
        tracing::error!(%error, "cannot apply the settings of slot sessions");
    }
    if let Err(error) = faces.restore_polling().await {
        tracing::error!(%error, "cannot restore the groups of pollers");
    }
    tokio::spawn(faces.clone().keep_gates());
    tokio::spawn(faces.clone().keep_notices());
    tokio::spawn(faces.clone().watch_streams());
    tokio::spawn(faces.clone().keep_names());
    let recalling = tokio::spawn({
        let faces = faces.clone();
        async move {
            faces.recall_registrations().await;
            faces.recall_streams().await;
            faces.recall_polling().await;
        }
    });
    // Goes on beside the serving where there are very many.
    let _ = tokio::time::timeout(RECALL_WITHIN, recalling).await;
    let handle = host.handle();
    let mut engine_over = watch_engine(host, stopped.clone());
    tokio::spawn(notify::keep_watchdog(faces.clone(), stopped.clone()));
    let telling = tokio::spawn(notify::tell_of_stop(stopping.clone()));
    tokio::spawn(maintain_indexes(faces.clone(), stopped));
    started(Started {
        endpoint: bound.endpoint,
        socket: bound.socket.clone(),
        leases,
        recovered_in,
        warnings,
    });
    notify::ready();
    let serving = server.run();
    tokio::pin!(serving);
    let cut_off = serving.await;
    if cut_off > 0 {
        tracing::info!(connections = cut_off, "closed connections that did not finish in time");
    }
    if let Some(hook) = hook {
        hook.close().await;
    }
    let mut parted = match stopping.wish().advertised {
        Advertised::Withdraw => Some(part(&faces, Advertised::Withdraw).await),
        // Until the very end, a signal may still ask for every goodbye.
        Advertised::Keep => None,
    };
    handle.shut_down();
    let ended = tokio::time::timeout(STOP_WITHIN - WITHDRAW_WITHIN, &mut engine_over).await;
    if parted.is_none() {
        parted = Some(part(&faces, stopping.wish().advertised).await);
    }
    // Before the next start has anything to say.
    let _ = telling.await;
    remove_socket(bound.socket.as_deref());
    if let Some(published) = published {
        published.close();
    }
    match ended {
        Ok(Ok(Ok(()))) => parted.unwrap_or(Ok(())).map(|()| ended_as(stopping.wish())),
        Ok(Ok(Err(stop))) => Err(DaemonError::Stopped(describe(&stop))),
        Ok(Err(_)) => Err(DaemonError::Stopped("the engine thread is gone".to_owned())),
        Err(_) => Err(DaemonError::StopTooLong { limit: STOP_WITHIN, what: "the log was not closed" }),
    }
}

/// Leaves the network, with goodbyes or without.
async fn part(faces: &Faces, advertised: Advertised) -> Result<(), DaemonError> {
    let parting = async {
        match advertised {
            Advertised::Withdraw => faces.withdraw_registrations().await,
            Advertised::Keep => faces.keep_registrations().await,
        }
    };
    let what = match advertised {
        Advertised::Withdraw => "not every service was withdrawn from the network",
        Advertised::Keep => "mDNS was not stopped",
    };
    let parted = tokio::time::timeout(WITHDRAW_WITHIN, parting).await;
    parted.map_err(|_| DaemonError::StopTooLong { limit: WITHDRAW_WITHIN, what })
}

/// What is to follow a stop that was asked for in this way.
fn ended_as(wish: StopWish) -> Ended {
    if wish.restart { Ended::Restart } else { Ended::Stopped }
}

/// Waits for the engine beside the async threads. One that stops by itself takes the daemon with it.
fn watch_engine(host: Host, stopping: CancellationToken) -> oneshot::Receiver<Result<(), Stop>> {
    let (over, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("tenure-engine-watch".to_owned())
        .spawn(move || {
            let outcome = host.join();
            if let Err(stop) = &outcome {
                tracing::error!(reason = %describe(stop), "engine stopped: stopping the daemon");
            }
            stopping.cancel();
            let _ = over.send(outcome);
        })
        .expect("invariant: a thread can be started");
    ended
}

fn describe(stop: &Stop) -> String {
    format!("{stop:?}")
}

fn stop_on_signals(faces: &Faces, stopping: &Stopping) {
    use tokio::signal::unix::{SignalKind, signal};
    let (faces, stopping) = (faces.clone(), stopping.clone());
    let handlers = [
        ("SIGTERM", SignalKind::terminate()),
        ("SIGINT", SignalKind::interrupt()),
        ("SIGHUP", SignalKind::hangup()),
    ]
    .map(|(name, kind)| (name, signal(kind).expect("invariant: these signals can be handled")));
    tokio::spawn(async move {
        let [(term_name, mut term), (int_name, mut int), (hup_name, mut hup)] = handlers;
        // Also one that comes while the daemon stops counts: it takes the wish to restart back.
        loop {
            let name = tokio::select! {
                _ = term.recv() => term_name,
                _ = int.recv() => int_name,
                _ = hup.recv() => hup_name,
            };
            tracing::info!(signal = name, "stopping on request");
            faces.stopping();
            stopping.ask(StopWish::default());
        }
    });
}

async fn maintain_indexes(faces: Faces, stopping: CancellationToken) {
    loop {
        faces.maintain_indexes().await;
        tokio::select! {
            () = tokio::time::sleep(INDEX_EVERY) => {}
            () = stopping.cancelled() => return,
        }
    }
}

fn remove_socket(socket: Option<&Path>) {
    if let Some(path) = socket {
        let _ = std::fs::remove_file(path);
    }
}

/// What copies the data of a directory.
pub(crate) fn backup_of(data_dir: &Path) -> tenure_server::Backup {
    let data_dir = data_dir.to_owned();
    Arc::new(move |out| backup::write(&data_dir, out))
}
