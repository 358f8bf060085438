//! A node of a cluster put together: the store, this machine's copy of the log, and the part it plays, one after the
//! other. Composition only: the protocol is `tenure-cluster`'s.
//!
//! A node follows until it may claim, writes until it is fenced or told to step down, and follows again. Each part has an
//! engine and faces of its own; what transports see is a [`Stage`] on which they change.

mod agreement;
mod asking;
mod guardian;
mod hearing;
mod history;
mod homes;
mod interlock;
mod keeper;
mod part;
mod passing;
mod pulse;
mod remembering;
mod repeating;
mod secrets;
mod shared;

pub(crate) use guardian::guard_leader;
pub(crate) use interlock::InterlockError;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure_cluster::etcd::{EtcdOpenError, EtcdOptions, EtcdStore};
use tenure_cluster::growth::Compaction;
use tenure_cluster::store::{Store, StoreError};
use tenure_cluster::{BootError, BootOptions, Booted, Clock, Double, Keys, Listing, Memory, boot};
use tenure_engine::host::{boot_us, read_clocks};
use tenure_faces::{Stage, Vitals};
use tenure_history::rfc3339;
use tenure_log::{FileLogOptions, Genesis, RealDisk, SharedDisk};
use tenure_server::{Server, ServerOptions, StopWish, Stopping};
use tokio_util::sync::CancellationToken;

use super::{
    DaemonError, Ended, Plan, Started, StopOn, ended_as, make_private, notify, stop_on_panic, take_port,
    within_files,
};
use crate::breadcrumb;
use guardian::Guardian;
use part::Parts;
use passing::Passing;
use shared::NodeShared;
use tenure_api::{Advertised, Breadcrumb};

/// Everything a node is started with, beside what every daemon is.
pub(crate) struct ClusterPlan {
    pub(crate) etcd: EtcdOptions,
    pub(crate) prefix: String,
    /// As it was given, for people.
    pub(crate) address: String,
    pub(crate) node: String,
    pub(crate) advertise: String,
    pub(crate) writer_ttl_ms: u64,
    /// Roots of other nodes' certificates, in PEM.
    pub(crate) ca_pem: Option<String>,
    /// This node's certificate and its key, in PEM.
    pub(crate) own_pem: Option<(String, String)>,
    /// Whether a leader compacts the store.
    pub(crate) compaction: Compaction,
}

/// Why a node does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    /// The store's address or certificates make no sense.
    #[error(transparent)]
    Etcd(#[from] EtcdOpenError),
    /// The log and this machine do not fit together.
    #[error("this node cannot follow the log at {address}")]
    Boot {
        /// Where the log is.
        address: String,
        /// Why.
        #[source]
        source: BootError,
    },
    /// The store is not safe to rest on.
    #[error(transparent)]
    Interlock(#[from] InterlockError),
    /// Other nodes' certificates cannot be checked.
    #[error("cannot use the CAs of --cluster-ca: {0}")]
    Roots(String),
    /// Another node has this name.
    #[error(
        "another node is called {:?} and answers at {}; give each node a unique name with --node", .0.name, .0.url
    )]
    Double(Double),
    /// Other nodes would not reach it.
    #[error(transparent)]
    Unheard(#[from] hearing::UnheardError),
    /// The state cannot be rebuilt from the copy.
    #[error("cannot replay the local log")]
    Replay(#[from] tenure_engine::RecoverError),
}

impl From<Double> for NodeError {
    fn from(double: Double) -> Self {
        Self::Double(double)
    }
}

impl NodeError {
    /// The next step, where it is known.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Boot { source, .. } => match source {
                BootError::MetaMissing | BootError::Restored(_) => Some(
                    "if etcd was restored from a backup: stop all nodes, then run tenure cluster adopt"
                        .to_owned(),
                ),
                BootError::AnotherLog { .. } => Some(
                    "this data directory belongs to another cluster; choose another with --data-dir"
                        .to_owned(),
                ),
                BootError::Open(tenure_log::OpenError::NoCopy { .. }) => {
                    Some("move that log into the cluster with: tenure cluster migrate".to_owned())
                }
                BootError::Store(StoreError::Unanswered { .. }) => Some(NO_ANSWER.to_owned()),
                BootError::Store(StoreError::Refused { .. }) => Some(NOT_LET_IN.to_owned()),
                _ => None,
            },
            Self::Interlock(InterlockError::Silent { .. }) => Some(NO_ANSWER.to_owned()),
            Self::Interlock(InterlockError::Rejects { .. }) => Some(NOT_LET_IN.to_owned()),
            Self::Unheard(unheard) => Some(unheard.hint()),
            Self::Etcd(_) | Self::Interlock(_) | Self::Roots(_) | Self::Double(_) | Self::Replay(_) => None,
        }
    }
}

/// What helps where etcd does not answer.
const NO_ANSWER: &str = "check that etcd runs, and check --store; an etcd that speaks TLS needs --etcd-ca";
/// What helps where etcd rejects what a node asks.
const NOT_LET_IN: &str =
    "check --etcd-user and --etcd-password-file, and that the user's role covers the prefix of --store";
/// How long the store may take to answer for the first time.
const STORE_WITHIN: Duration = Duration::from_secs(15);
/// How long everything may take from the word to the end.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// Calls are tried again for this long beyond what a change of writer takes.
const PATIENCE_MS: u64 = 6_000;

/// The clocks of this machine.
pub(super) const CLOCK: Clock =
    Clock { boot_ms: || read_clocks().boot_ms, boot_us, wall_ms: || read_clocks().wall_ms };

/// Runs a node until it is told to stop. `started` is called once it serves.
pub(crate) fn run(
    plan: Plan,
    cluster: ClusterPlan,
    started: impl FnOnce(Started),
) -> Result<Ended, DaemonError> {
    let began = read_clocks();
    stop_on_panic();
    let port = take_port(&plan)?;
    let network = plan.network.start()?;
    make_private(&plan.data_dir)
        .map_err(|source| DaemonError::DataDir { path: plan.data_dir.clone(), source })?;
    let store = Arc::new(EtcdStore::open(cluster.etcd.clone()).map_err(NodeError::from)?);
    let keys = Keys::under(&cluster.prefix);
    let mut warnings = interlock::check(&store, STORE_WITHIN).map_err(NodeError::from)?;
    let disk: SharedDisk = Arc::new(RealDisk);
    let finding = Finding {
        store: Arc::clone(&store),
        keys: keys.clone(),
        disk: Arc::clone(&disk),
        memory: Arc::new(Memory::at(&plan.data_dir)),
        log: plan.log.clone(),
        address: cluster.address.clone(),
        writer_ttl_ms: cluster.writer_ttl_ms,
        node: cluster.node.clone(),
    };
    let booted = finding.find_log()?;
    warnings.extend(booted.recovery.warnings());
    if let Some(why) = &booted.put_aside {
        warnings.push(format!("the local log was moved aside and is rebuilt: {why}"));
    }
    if is_in_the_clear(&cluster.advertise) {
        warnings.push(format!(
            "other nodes send calls and the secret of the nodes to {} unencrypted: advertise https, with --cluster-ca",
            cluster.advertise
        ));
    }
    let runtime = super::runtime()?;
    let shared = NodeShared::new(
        &cluster,
        booted.meta.clone(),
        Arc::clone(&store),
        keys,
        random_hex(),
        Arc::clone(&finding.memory),
        booted.known.clone(),
    );
    let passing = Passing::new(Arc::clone(&shared), cluster.ca_pem.as_deref(), cluster.own_pem.as_ref())
        .map_err(NodeError::Roots)?;
    shared.pass_through(Arc::new(passing));
    runtime.block_on(refuse_double(&shared))?;
    let hook = plan.hook.clone();
    let (home, advertised_on) = (homes::home(&shared, &plan.registrations), Arc::clone(&network));
    let guardian = Guardian::start(&cluster.etcd, &shared.keys, runtime.handle());
    let mut parts = Parts::new(
        &plan,
        (Arc::clone(&shared), guardian),
        disk,
        (booted, Box::new(move || finding.find_log())),
        network,
        hook.clone(),
        runtime.handle(),
    )
    .map_err(NodeError::from)?;
    let first = parts.begin_following();
    let leases = first.leases;
    let patience = Duration::from_millis(2 * cluster.writer_ttl_ms + PATIENCE_MS);
    let connections = parts.connections();
    let stage = Stage::of_node(first.faces.clone(), patience, connections.clone());
    let recovered_in = Duration::from_millis(read_clocks().boot_ms.saturating_sub(began.boot_ms));
    let connections_max = within_files(plan.server.connections_max);
    let server = ServerOptions {
        recovery_secs: recovered_in.as_secs_f64(),
        connections_max,
        node: Some(Arc::clone(&shared) as Arc<dyn tenure_server::Node>),
        ..plan.server
    };
    let StopOn::Signals = plan.stop else { unreachable!("invariant: no command runs a node within itself") };
    let stopping = Stopping::default();
    let stopped = stopping.token().clone();
    let bound = runtime.block_on(async {
        stop_on_signals(&stopping);
        Server::bind(stage.clone(), server, port, stopping.clone()).await
    })?;
    let addresses = bound.bound().clone();
    let socket = addresses.socket.as_ref().map(|path| path.display().to_string());
    let vitals = Vitals {
        instance: random_hex(),
        started_boot_ms: began.boot_ms,
        http: addresses.endpoint.clone(),
        socket: socket.clone(),
        data_dir: plan.data_dir.display().to_string(),
        free_bytes_min: plan.log.free_bytes_min,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        leader_ttl_ms: Some(shared.writer_ttl_ms),
    };
    first.faces.set_vitals(vitals.clone());
    parts.set_vitals(vitals);
    let serving = runtime.spawn(bound.run());
    if let Err(unheard) = runtime.block_on(hearing::check(&shared, addresses.address)) {
        super::remove_socket(addresses.socket.as_deref());
        runtime.shutdown_background();
        return Err(NodeError::from(unheard).into());
    }
    let breadcrumb = addresses.endpoint.clone().map(|endpoint| Breadcrumb {
        endpoint,
        socket,
        pid: std::process::id(),
        started_at: rfc3339(read_clocks().wall_ms),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let published = plan
        .breadcrumb_dir
        .zip(breadcrumb)
        .map(|(directory, breadcrumb)| breadcrumb::publish(&directory, &breadcrumb))
        .transpose()?;
    let playing = parts.play(first, stage.clone(), stopped.clone());
    let (pulse, remembering) = (pulse::start(Arc::clone(&shared)), remembering::start(Arc::clone(&shared)));
    let tending = keeper::start(Arc::clone(&shared), runtime.handle());
    let bringing = history::start(Arc::clone(&shared), &plan.host, stage.clone(), runtime.handle(), &stopped);
    started(Started {
        endpoint: addresses.endpoint,
        socket: addresses.socket.clone(),
        leases,
        recovered_in,
        warnings,
    });
    let outcome = runtime.block_on(async {
        let homes = homes::Homes::start(stage.clone(), advertised_on, home);
        tokio::spawn(connections.keep(stage.clone()));
        notify::ready();
        let telling = tokio::spawn(notify::tell_of_stop(stopping.clone()));
        tokio::spawn(vouch(stage.clone(), stopped.clone()));
        tokio::spawn(history::keep_indexes(stage.clone(), stopped.clone()));
        let resigning = Arc::clone(&shared);
        tokio::spawn(async move {
            stopped.cancelled().await;
            // Before goodbyes: whoever takes over should not have to wait for them.
            resigning.stop();
        });
        let cut_off = serving.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        if cut_off > 0 {
            tracing::info!(connections = cut_off, "closed connections that did not finish in time");
        }
        let mut parting = Some(homes.stop().await);
        if stopping.wish().advertised == Advertised::Withdraw
            && let Some(parting) = parting.take()
        {
            parting.part(Advertised::Withdraw).await;
        }
        if let Some(hook) = hook {
            hook.close().await;
        }
        let ended = tokio::task::spawn_blocking(move || playing.join());
        let ended = tokio::time::timeout(STOP_WITHIN, ended).await;
        // Until the very end, a signal may still ask for every goodbye.
        if let Some(parting) = parting {
            parting.part(stopping.wish().advertised).await;
        }
        // Before the next start has anything to say.
        let _ = telling.await;
        match ended {
            Ok(Ok(Ok(outcome))) => outcome.map(|()| ended_as(stopping.wish())),
            Ok(_) => Err(DaemonError::Stopped("the node's thread is gone".to_owned())),
            Err(_) => Err(DaemonError::StopTooLong { limit: STOP_WITHIN, what: "the node did not resign" }),
        }
    });
    drop((tending, bringing, pulse, remembering));
    let outcome = shared.take_failure().map_or(outcome, |error| Err(error.into()));
    super::remove_socket(addresses.socket.as_deref());
    if let Some(published) = published {
        published.close();
    }
    runtime.shutdown_background();
    outcome
}

/// What finding the log takes.
struct Finding {
    store: Arc<EtcdStore>,
    keys: Keys,
    disk: SharedDisk,
    memory: Arc<Memory>,
    log: super::LogPlan,
    address: String,
    writer_ttl_ms: u64,
    node: String,
}

impl Finding {
    fn find_log(&self) -> Result<Booted, DaemonError> {
        let now = read_clocks();
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("invariant: the system gives random bytes");
        let genesis = Genesis { random, unix_seconds: now.wall_ms / 1_000, shard: 0 };
        let mut options = FileLogOptions::new(genesis, now.wall_ms);
        options.segment_bytes = self.log.segment_bytes;
        options.free_bytes_min = self.log.free_bytes_min;
        options.archive.clone_from(&self.log.archive);
        let with = BootOptions {
            store: &*self.store,
            keys: &self.keys,
            disk: Arc::clone(&self.disk),
            root: self.memory.root(),
            options,
            secret: random_hex(),
            writer_ttl_ms: self.writer_ttl_ms,
            node: &self.node,
            memory: random_hex(),
        };
        boot(&with, &self.memory)
            .map_err(|source| NodeError::Boot { address: self.address.clone(), source }.into())
    }
}

/// Two nodes with one name would be one to every other node. One that begins at the same moment is found when this node
/// puts itself on the list.
async fn refuse_double(shared: &Arc<NodeShared>) -> Result<(), NodeError> {
    let key = shared.keys.node(&shared.name);
    // A store that does not answer stops the node elsewhere.
    let Ok(ranged) = shared.store.range(&key, &format!("{key}\0"), 1, STORE_WITHIN) else { return Ok(()) };
    let mut listing = Listing::new(&shared.keys, &shared.name, &shared.incarnation);
    listing.read(ranged.found.first().map(|found| &*found.value));
    let Some(url) = listing.asks() else { return Ok(()) };
    let told = shared.passing().memory(&url).await;
    Ok(listing.answered(&url, told.as_ref())?)
}

/// Whether what other nodes send to this URL can be read on a network.
fn is_in_the_clear(advertise: &str) -> bool {
    let Some(authority) = advertise.strip_prefix("http://") else { return false };
    let host = authority.trim_end_matches('/').rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// 128 random bits in hexadecimal digits.
pub(super) fn random_hex() -> String {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("invariant: the system gives random bytes");
    format!("{:032x}", u128::from_le_bytes(random))
}

fn stop_on_signals(stopping: &Stopping) {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind).expect("invariant: these signals can be handled");
        let stopping = stopping.clone();
        tokio::spawn(async move {
            // Also one that comes while the node stops counts: it takes the wish to restart back.
            while signals.recv().await.is_some() {
                tracing::info!("stopping on request");
                stopping.ask(StopWish::default());
            }
        });
    }
}

/// Tells systemd that the node lives, for as long as its faces answer.
async fn vouch(stage: Stage, stopping: CancellationToken) {
    while !stopping.is_cancelled() {
        notify::keep_watchdog_once(&stage.faces()).await;
        tokio::select! {
            () = tokio::time::sleep(notify::watchdog_pause()) => {}
            () = stopping.cancelled() => return,
        }
    }
}

/// Networks that services of this machine are announced on.
pub(super) fn subnets() -> Vec<String> {
    let Ok(interfaces) = if_addrs::get_if_addrs() else { return Vec::new() };
    let shown = interfaces.into_iter().filter(|interface| !interface.is_loopback()).filter_map(|interface| {
        match interface.addr {
            if_addrs::IfAddr::V4(v4) => {
                let network = u32::from(v4.ip) & u32::from(v4.netmask);
                Some(format!("{}/{}", IpAddr::V4(network.into()), v4.prefixlen))
            }
            if_addrs::IfAddr::V6(_) => None,
        }
    });
    let mut subnets: Vec<String> = shown.collect();
    subnets.sort();
    subnets.dedup();
    subnets
}

#[cfg(test)]
mod tests {
    use super::is_in_the_clear;

    #[test]
    fn a_secret_is_in_the_clear_beyond_this_machine_without_tls() {
        for url in
            ["http://10.0.0.1:5641", "http://node-a:5641", "http://[2001:db8::1]:5641", "http://10.0.0.1"]
        {
            assert!(is_in_the_clear(url), "{url}");
        }
        for url in
            ["https://10.0.0.1:5641", "http://127.0.0.1:5641", "http://[::1]:5641/", "http://localhost:1"]
        {
            assert!(!is_in_the_clear(url), "{url}");
        }
    }
}
