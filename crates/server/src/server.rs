//! Binding, serving and stopping, in that order.
//!
//! Stopping: nothing more is accepted, streams get a last event, calls under way finish. What comes after,
//! the log's clean end, is the composer's.

use crate::auth::{Admitted, Auth};
use crate::metrics::HttpCounters;
use crate::node::Node;
use crate::places::{Place, Places, Source, for_most};
use crate::reads::{Kind, Reads, Turn};
use crate::ready::Readiness;
use crate::stop::{StopWish, Stopping};
use crate::tls::Tls;
use crate::transports::http::Bodies;
use crate::transports::outbox::AllUnread;
use crate::transports::{socket, tcp};
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tenure_api::{Error, ErrorCode};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::Text;
use tenure_faces::{Call, Caller, Counted, Faces, Full, Reply, Scope, Stage, Tally, over_limit};
use tenure_history::rfc3339;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Writes a copy of the data directory as a tar archive. Blocks on the disk.
pub type Backup = Arc<dyn Fn(&mut dyn io::Write) -> io::Result<()> + Send + Sync>;

/// Whether the daemon could start again in its own place now; else why not, in words for the operator.
pub type RestartCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Settings of the outside.
pub struct ServerOptions {
    /// Where HTTP is listened for; `None`: on the socket alone.
    pub bind: Option<SocketAddr>,
    /// Where the socket is made; `None`: there is none.
    pub socket: Option<PathBuf>,
    /// HTTP is spoken over TLS.
    pub tls: Option<Tls>,
    /// Who may do what.
    pub auth: Auth,
    /// Connections over all transports.
    pub connections_max: usize,
    /// Largest body of an HTTP request.
    pub body_bytes_max: usize,
    /// Bodies of HTTP requests that are being read, together.
    pub bodies_bytes_max: usize,
    /// Streams of events and of the network over all transports.
    pub watches_max: usize,
    /// Longest line on the socket.
    pub line_bytes_max: usize,
    /// Requests of one connection that may wait for a bundle.
    pub waiters_per_connection_max: usize,
    /// How long HTTP connections may do nothing.
    pub timeouts: Timeouts,
    /// How long calls under way may take once the daemon stops.
    pub finish_within: Duration,
    /// Copies the data directory.
    pub backup: Backup,
    /// `None`: the daemon ends with the command that runs it, and no other follows on its data.
    pub restart: Option<RestartCheck>,
    /// How long recovery took, for the metrics.
    pub recovery_secs: f64,
    /// The node this is, if it is one of a cluster.
    pub node: Option<Arc<dyn Node>>,
}

/// How long an HTTP connection may do nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// How long its peer may read nothing of an answer.
    pub write: Duration,
    /// How long there may be no request and no progress on an answer. Holders that heartbeat as often as the usual ttl
    /// asks for keep their connection.
    pub idle: Duration,
}

/// Why the daemon cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot make the socket {}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another daemon answers on the socket.
    #[error("another daemon listens on {}", path.display())]
    SocketInUse {
        /// Where.
        path: PathBuf,
    },
}

/// A port that nobody else can have and that nobody can reach yet: taken before anything is touched, listened on
/// once there is something to say.
pub struct ReservedPort {
    socket: TcpSocket,
    address: SocketAddr,
}

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1_024;
/// Connections beyond the limit that are told so at once: they are files too.
const REFUSALS_MAX: usize = 32;
/// Backups that are taken at once. Each holds a thread for as long as its reader takes.
const BACKUPS_MAX: usize = 2;
/// Other nodes that copy the log from here at once.
const COPIES_MAX: usize = 2;

impl ReservedPort {
    /// Takes the port.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn take(address: SocketAddr) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Bind { address, source };
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }
        .map_err(failed)?;
        // What a daemon before this one left in TIME_WAIT is in nobody's way.
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        Ok(Self { socket, address })
    }

    fn listen(self) -> Result<(TcpListener, SocketAddr), ServerError> {
        let failed = |source| ServerError::Bind { address: self.address, source };
        let listener = self.socket.listen(BACKLOG).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok((listener, address))
    }
}

/// A daemon's outside that listens and does not serve yet.
pub struct Server {
    shared: Arc<Shared>,
    tcp: Option<TcpListener>,
    socket: Option<UnixListener>,
    bound: Bound,
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Base of its HTTP routes over TCP; `None`: there are none.
    pub endpoint: Option<String>,
    /// The address.
    pub address: Option<SocketAddr>,
    /// The socket.
    pub socket: Option<PathBuf>,
}

/// What every transport needs.
pub(crate) struct Shared {
    stage: Stage,
    options: ServerOptions,
    http: HttpCounters,
    connections: Places,
    bodies: Bodies,
    reads: Reads,
    readiness: Readiness,
    unread: AllUnread,
    watches: Arc<Tally<Text>>,
    refusals: Arc<Semaphore>,
    backups: Arc<Semaphore>,
    copies: Arc<Semaphore>,
    stopping: Stopping,
    tasks: TaskTracker,
    openapi: Bytes,
    docs: Bytes,
}

impl Server {
    /// Binds every listener. Nothing is served before [`Server::run`].
    ///
    /// # Errors
    /// When an address or the socket cannot be bound.
    pub async fn bind(
        stage: Stage,
        options: ServerOptions,
        port: Option<ReservedPort>,
        stopping: Stopping,
    ) -> Result<Self, ServerError> {
        let tcp = port.map(ReservedPort::listen).transpose()?;
        let (tcp, address) = tcp.unzip();
        let socket = match &options.socket {
            Some(path) => Some(bind_socket(path).await?),
            None => None,
        };
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let bound = Bound {
            endpoint: address.map(|address| format!("{scheme}://{address}")),
            address,
            socket: options.socket.clone(),
        };
        let document = crate::openapi::openapi();
        let shared = Shared {
            stage,
            http: HttpCounters::default(),
            connections: Places::new(options.connections_max),
            bodies: Bodies::new(options.body_bytes_max, options.bodies_bytes_max),
            reads: Reads::default(),
            readiness: Readiness::default(),
            unread: AllUnread::default(),
            watches: Arc::default(),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            backups: Arc::new(Semaphore::new(BACKUPS_MAX)),
            copies: Arc::new(Semaphore::new(COPIES_MAX)),
            stopping,
            tasks: TaskTracker::new(),
            docs: crate::docs::page(&document).into(),
            openapi: document.to_string().into(),
            options,
        };
        Ok(Self { shared: Arc::new(shared), tcp, socket, bound })
    }

    /// Where it listens.
    #[must_use]
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Serves until the daemon is told to stop, then lets calls under way finish. Says how many connections
    /// had to be cut off.
    pub async fn run(self) -> usize {
        let Self { shared, tcp, socket, bound } = self;
        let listeners = TaskTracker::new();
        if let (Some(tcp), Some(address)) = (tcp, bound.address) {
            shared.options.auth.listens_on(address);
            listeners.spawn(tcp::accept(Arc::clone(&shared), tcp));
        }
        if let Some(socket) = socket {
            listeners.spawn(socket::accept(Arc::clone(&shared), socket));
        }
        listeners.close();
        listeners.wait().await;
        shared.tasks.close();
        let _ = tokio::time::timeout(shared.options.finish_within, shared.tasks.wait()).await;
        shared.tasks.len()
    }
}

/// What somebody asks for.
#[derive(Clone, Copy)]
pub(crate) enum Asks<'a> {
    /// A call of the faces.
    Call(&'a Call),
    /// A stream, a backup, the daemon's end.
    Other,
}

impl Shared {
    /// The faces of this moment.
    pub(crate) fn faces(&self) -> Faces {
        self.stage.faces()
    }

    /// The faces whoever writes: calls go through here.
    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The node this is.
    ///
    /// # Errors
    /// When there is no cluster.
    pub(crate) fn node(&self) -> Result<&Arc<dyn Node>, Error> {
        let none = || Error::new(ErrorCode::NotClustered, "this daemon is not a node of a cluster");
        self.options.node.as_ref().ok_or_else(none)
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// Adds to a reply what only the outside knows.
    pub(crate) fn complete(&self, mut reply: Reply) -> Reply {
        if let Reply::Status(status) = &mut reply {
            self.options.auth.add_files(status);
        }
        reply
    }

    pub(crate) fn auth(&self) -> &Auth {
        &self.options.auth
    }

    pub(crate) fn http(&self) -> &HttpCounters {
        &self.http
    }

    /// Unread answers share one copy.
    pub(crate) fn openapi(&self) -> Bytes {
        self.openapi.clone()
    }

    pub(crate) fn docs(&self) -> Bytes {
        self.docs.clone()
    }

    pub(crate) fn bodies(&self) -> &Bodies {
        &self.bodies
    }

    /// Cancelled once the daemon stops.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.token().clone()
    }

    /// Stops the daemon.
    pub(crate) fn stop(&self, wish: StopWish) {
        self.faces().stopping();
        self.stopping.ask(wish);
    }

    /// Every connection's task is spawned here, so that stopping can wait for them.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// A place for one more connection.
    pub(crate) fn admit_connection(&self, source: Source) -> Result<Place, Error> {
        self.connections.admit(source)
    }

    /// Whether few places for connections are left.
    pub(crate) fn are_places_scarce(&self) -> bool {
        self.connections.are_scarce()
    }

    /// Room to tell somebody properly that there is no room.
    pub(crate) fn admit_refusal(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.refusals).try_acquire_owned().ok()
    }

    /// Refuses a principal that asks too often. What keeps or gives back what it has is never counted.
    pub(crate) fn check_rate(&self, principal: &str, asks: Asks<'_>) -> Result<(), Error> {
        match asks {
            Asks::Call(call) if call.keeps_or_gives_back() => Ok(()),
            Asks::Call(_) | Asks::Other => self.options.auth.check_rate(principal, || read_clocks().boot_ms),
        }
    }

    /// Room for one more stream of a caller: one principal has at most half of all, and operators have the last ones.
    pub(crate) fn admit_watch(&self, caller: &Caller) -> Result<Counted<Text>, Error> {
        let whole = self.options.watches_max;
        let max = if caller.is_operator() { whole } else { for_most(whole) };
        let of_one_max = whole.div_ceil(2);
        self.watches.admit(caller.principal.clone(), max, of_one_max).map_err(|passed| {
            let (limit, value, of_what) = match passed {
                Full::InAll => ("watches", max, "in all"),
                Full::OfKey => ("watches_per_principal", of_one_max, "of one principal"),
            };
            let message = format!("at most {value} streams may be open {of_what}");
            over_limit(ErrorCode::Overloaded, message, limit, "limits.watches", value)
        })
    }

    /// Unread answers of all connections that speak lines.
    pub(crate) fn unread(&self) -> AllUnread {
        self.unread.clone()
    }

    /// The turn of a call, where it is a read that costs much.
    pub(crate) async fn read_turn(&self, caller: &Caller, call: &Call) -> Result<Option<Turn>, Error> {
        match Kind::of(call) {
            Some(kind) => self.turn(kind, &caller.principal, caller.is_operator()).await.map(Some),
            None => Ok(None),
        }
    }

    async fn turn(&self, kind: Kind, principal: &Text, is_operator: bool) -> Result<Turn, Error> {
        let turn = self.reads.turn(kind, principal, is_operator).await?;
        // A connection that pipelines such reads would otherwise have a thread for many of them.
        tokio::task::yield_now().await;
        Ok(turn)
    }

    /// The turn of a page of metrics.
    pub(crate) async fn metrics_turn(&self, admitted: Option<&Admitted>) -> Result<Turn, Error> {
        let (principal, is_operator) = match admitted {
            Some(admitted) => (admitted.principal.clone(), admitted.scope == Scope::Admin),
            None => (Text::default(), false),
        };
        self.turn(Kind::Metrics, &principal, is_operator).await
    }

    /// Whether the engine answers.
    pub(crate) fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Room for one more backup.
    pub(crate) fn admit_backup(&self) -> Result<OwnedSemaphorePermit, Error> {
        let permit = Arc::clone(&self.backups).try_acquire_owned();
        permit.map_err(|_| {
            let message = format!("{BACKUPS_MAX} backups are in progress, which is the limit");
            Error::new(ErrorCode::Overloaded, message).with("limit", "backups").with("value", BACKUPS_MAX)
        })
    }

    /// Room for one more node that copies the log from here.
    pub(crate) fn admit_copy(&self) -> Result<OwnedSemaphorePermit, Error> {
        let permit = Arc::clone(&self.copies).try_acquire_owned();
        permit.map_err(|_| {
            let message = format!("{COPIES_MAX} nodes copy the log from this node, which is the limit");
            Error::new(ErrorCode::Overloaded, message).with("limit", "copies").with("value", COPIES_MAX)
        })
    }

    pub(crate) fn time_now(&self) -> String {
        rfc3339(read_clocks().wall_ms)
    }
}

/// Makes the socket. A file left behind by a daemon that is gone is removed; one that answers is not.
async fn bind_socket(path: &Path) -> Result<UnixListener, ServerError> {
    let failed = |source| ServerError::Socket { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    if tokio::net::UnixStream::connect(path).await.is_ok() {
        return Err(ServerError::SocketInUse { path: path.to_owned() });
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        // Something else stands there: binding will say so.
        Ok(_) | Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(failed)?;
    Ok(listener)
}
