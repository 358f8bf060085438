//! mDNS without a daemon: one is started in this process, on a log that goes with it, reached by a socket that nobody
//! else finds, and serves registrations and discovery alone. What it advertised says goodbye when the command ends.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tenure_api::ShutDown;
use tenure_engine::EngineConfig;
use tenure_faces::StreamOptions;
use tenure_server::{Auth, AuthSettings, ServerOptions};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::config::{Environment, Flags, Settings};
use crate::connect::{Daemon, route};
use crate::daemon::{self, DaemonError, Ended, LogPlan, Plan, StopOn, secret_hashing};
use crate::failure::{Failure, Words, chain};

/// Bytes of one file of a log that nobody will read again.
const SEGMENT_BYTES: u64 = 1 << 20;
/// How long calls under way may take at the end.
const FINISH_WITHIN: Duration = Duration::from_millis(500);

/// A daemon of this process.
pub(crate) struct Standalone {
    directory: TempDir,
    stop: CancellationToken,
    over: oneshot::Receiver<Result<Ended, DaemonError>>,
}

impl Standalone {
    /// Starts it. The settings of mDNS count as they do for `tenure serve`.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let settings = Settings::load(&Flags::default(), &Environment::of_process())?;
        let failed = |error: std::io::Error| {
            Failure::Unexpected(Words::new(format_args!("cannot start mDNS without a daemon: {error}")))
        };
        let directory = private_directory().map_err(failed)?;
        let stop = CancellationToken::new();
        let plan = plan(&settings, &directory, stop.clone())?;
        let (started, ready) = oneshot::channel();
        let (ended, over) = oneshot::channel();
        std::thread::Builder::new()
            .name("tenure-standalone".to_owned())
            .spawn(move || {
                let outcome = daemon::run(plan, |_| _ = started.send(()));
                _ = ended.send(outcome);
            })
            .map_err(failed)?;
        match ready.await {
            Ok(()) => Ok(Self { directory, stop, over }),
            Err(_) => Err(match over.await {
                Ok(Err(error)) => Failure::Unexpected(Words::new(chain(&error))),
                Ok(Ok(_)) | Err(_) => {
                    Failure::Unexpected(Words::new("the in-process daemon failed to start"))
                }
            }),
        }
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        socket(&self.directory)
    }

    /// Ends it: every registration with its goodbye.
    pub(crate) async fn end(self, daemon: &Daemon) -> Result<(), Failure> {
        let told =
            daemon.post(route(&["shutdown"]), &ShutDown { end_all: true, ..ShutDown::default() }).await;
        self.stop.cancel();
        match self.over.await {
            Ok(Ok(_)) => told.map(drop),
            Ok(Err(error)) => Err(Failure::Unexpected(Words::new(chain(&error)))),
            Err(_) => Err(Failure::Unexpected(Words::new("the in-process daemon exited unexpectedly"))),
        }
    }
}

/// In memory where the system has such a place for us.
fn private_directory() -> std::io::Result<TempDir> {
    let places = [std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), Some(PathBuf::from("/dev/shm"))];
    let made = places.into_iter().flatten().find_map(|place| named().tempdir_in(place).ok());
    made.map_or_else(|| named().tempdir(), Ok)
}

fn named<'a>() -> tempfile::Builder<'a, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("tenure-");
    builder
}

fn socket(directory: &TempDir) -> PathBuf {
    directory.path().join("tenure.sock")
}

fn plan(settings: &Settings, directory: &TempDir, stop: CancellationToken) -> Result<Plan, Failure> {
    let data_dir = directory.path().join("data");
    // Who else may ask elsewhere is none of its business: it is reached by its own user alone.
    let here = AuthSettings {
        bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
        token_file: None,
        client_certificates: false,
        certificate_scope_file: None,
        machine: None,
        ..settings.auth_settings(None)
    };
    let auth = Auth::new(here).map_err(|error| Failure::Usage(Words::new(chain(&error))))?;
    Ok(Plan {
        engine: EngineConfig { hashing: secret_hashing(), ..settings.engine_config() },
        host: settings.host_options(),
        log: LogPlan { segment_bytes: SEGMENT_BYTES, free_bytes_min: 0, archive: None },
        server: ServerOptions {
            bind: None,
            socket: Some(socket(directory)),
            tls: None,
            auth,
            connections_max: settings.limits.connections as usize,
            body_bytes_max: settings.limits.body_bytes.0 as usize,
            bodies_bytes_max: settings.limits.bodies_bytes.0 as usize,
            watches_max: settings.limits.watches as usize,
            line_bytes_max: settings.limits.line_bytes.0 as usize,
            waiters_per_connection_max: settings.limits.waiters_per_connection as usize,
            timeouts: settings.timeouts(),
            finish_within: FINISH_WITHIN,
            backup: daemon::backup_of(&data_dir),
            restart: None,
            recovery_secs: 0.0,
            node: None,
        },
        network: settings.network_plan(),
        registrations: settings.registration_options(),
        streams: StreamOptions::default(),
        hook: None,
        stop: StopOn::Word(stop),
        breadcrumb_dir: None,
        data_dir,
    })
}
