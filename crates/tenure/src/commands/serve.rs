//! `tenure serve`: the daemon.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tenure_engine::EngineConfig;
use tenure_server::{Auth, RestartCheck, ServerOptions, Tls};

use crate::config::{Environment, Flags, MORE_SETTINGS, Settings};
use crate::daemon::{self, DaemonError, Ended, LogPlan, Plan, Program, Started, StopOn, secret_hashing};
use crate::failure::{Failure, Words, chain};
use crate::printer::{Printer, counted};

/// Run the daemon
///
/// Requires no other service and no configuration. SIGTERM, SIGINT and SIGHUP stop it. Leases survive a stop: holders
/// continue when a daemon starts on the same data directory. `tenure admin restart` restarts it in place.
#[derive(Args)]
#[command(after_help = format!("{MORE_SETTINGS}\n\n{EXAMPLES}"))]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: Flags,
    /// Print each setting, its value and its source, and exit
    #[arg(long)]
    print_config: bool,
}

const EXAMPLES: &str = "Examples:
  tenure serve
  tenure serve --port 7000 --data-dir /srv/tenure --no-mdns
  tenure serve --bind 10.0.0.1 --token-file /etc/tenure/tokens
  tenure serve --store etcd://10.0.0.9:2379/tenure --node a --bind 10.0.0.1 \\
      --advertise http://10.0.0.1:5641 --token-file /etc/tenure/tokens";

/// How long calls under way may take once the daemon stops.
const FINISH_WITHIN: Duration = Duration::from_millis(500);

impl Serve {
    pub(crate) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let settings = Settings::load(&self.flags, &Environment::of_process())?;
        if self.print_config {
            return settings.print(printer);
        }
        daemon::start_logging(&settings.log.level.0, settings.json_log());
        if let Some(every) = settings.sessions.expiry_check_interval {
            tracing::warn!(
                %every,
                "sessions.expiry_check_interval is ignored: slot sessions end exactly at their deadline"
            );
        }
        let program = Program::of_process().map(Arc::new);
        let plan = plan(&settings, restart_check(&program))?;
        let data_dir = plan.data_dir.display().to_string();
        let started = |started: Started| say(printer, &started, &data_dir);
        let outcome = match settings.cluster_plan().map_err(Failure::Usage)? {
            Some(cluster) => daemon::run_node(plan, cluster, started),
            None => daemon::run(plan, started),
        };
        match (outcome.map_err(|error| failed(&error))?, program) {
            (Ended::Restart, Ok(program)) => restart(&program, printer),
            (Ended::Stopped, _) | (Ended::Restart, Err(_)) => {
                printer.talk("stopped");
                Ok(())
            }
        }
    }
}

/// A restart is refused in time where it would fail.
fn restart_check(program: &io::Result<Arc<Program>>) -> RestartCheck {
    match program {
        Ok(program) => {
            let program = Arc::clone(program);
            Arc::new(move || program.check())
        }
        Err(error) => {
            let why = format!("cannot find the daemon's program file: {error}");
            Arc::new(move || Err(why.clone()))
        }
    }
}

/// Begins anew in the same process. Comes back only if that fails.
fn restart(program: &Program, printer: &mut Printer) -> Result<(), Failure> {
    let path = program.path().display();
    tracing::info!(%path, "restarting in the same process");
    printer.finish()?;
    let error = program.replace_process();
    let words = Words::new(format_args!("the daemon stopped and cannot execute {path}: {error}"));
    Err(Failure::Unexpected(
        words.hint("install the program at this path, then: systemctl start tenure, or tenure serve"),
    ))
}

fn plan(settings: &Settings, restart: RestartCheck) -> Result<Plan, Failure> {
    let unusable = |error: &dyn std::error::Error| Failure::Usage(Words::new(chain(error)));
    let tls = settings.tls_files().map(Tls::open).transpose().map_err(|error| unusable(&error))?;
    let auth = Auth::new(settings.auth_settings(tls.as_ref())).map_err(|error| unusable(&error))?;
    let data_dir = settings.server.data_dir.clone();
    Ok(Plan {
        engine: EngineConfig { hashing: secret_hashing(), ..settings.engine_config() },
        host: settings.host_options(),
        log: LogPlan {
            segment_bytes: settings.log.segment_bytes.0,
            free_bytes_min: settings.log.free_bytes.0,
            archive: settings.log.archive.clone(),
        },
        server: ServerOptions {
            bind: Some(SocketAddr::new(settings.server.bind, settings.server.port)),
            socket: settings.server.socket.clone(),
            tls,
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
            restart: Some(restart),
            recovery_secs: 0.0,
            node: None,
        },
        network: settings.network_plan(),
        registrations: settings.registration_options(),
        streams: settings.stream_options(),
        hook: settings.hook_plan().start().map_err(|problem| Failure::Usage(Words::new(problem)))?,
        stop: StopOn::Signals,
        breadcrumb_dir: settings.server.run_dir.clone(),
        data_dir,
    })
}

fn failed(error: &DaemonError) -> Failure {
    let words = Words::new(chain(error));
    let words = match error.hint() {
        Some(hint) => words.hint(hint),
        None => words,
    };
    match error {
        // It served and was told to stop: not unexpected, only not clean.
        DaemonError::StopTooLong { .. } => Failure::Refused(words),
        _ => Failure::Unexpected(words),
    }
}

fn say(printer: &mut Printer, started: &Started, data_dir: &str) {
    for warning in &started.warnings {
        tracing::warn!(%warning, "started with a warning");
    }
    if let Some(endpoint) = &started.endpoint {
        printer.talk(format_args!("listening on {endpoint}"));
    }
    if let Some(socket) = &started.socket {
        printer.talk(format_args!("listening on {}", socket.display()));
    }
    printer.talk(format_args!("data in {data_dir}"));
    printer.talk(format_args!(
        "recovered {} in {} ms",
        counted(started.leases, "lease"),
        started.recovered_in.as_millis()
    ));
    if let Some(endpoint) = &started.endpoint {
        let page = endpoint.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:");
        printer.talk(format_args!("dashboard at {page}/ (or run: tenure open)"));
    }
    printer.talk("ready");
}
