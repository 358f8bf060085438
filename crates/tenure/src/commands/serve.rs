//! `tenure serve`: the daemon.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tenure_engine::EngineConfig;
use tenure_engine::host::HostOptions;
use tenure_faces::Scope;
use tenure_server::{Auth, AuthSettings, ServerOptions};

use crate::breadcrumb::directory_for_daemon;
use crate::daemon::{self, LogPlan, Plan, Started};
use crate::failure::{Failure, Words, chain};
use crate::printer::{Printer, counted};

/// Run the daemon
#[derive(Args)]
pub(crate) struct Serve {
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Port to listen on; 0 lets the system choose
    #[arg(long, default_value_t = 5641)]
    port: u16,
    /// Where the socket is made
    #[arg(long)]
    socket: PathBuf,
    /// Where the data is
    #[arg(long)]
    data_dir: PathBuf,
}

impl Serve {
    pub(crate) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        daemon::start_logging("info", None);
        let auth = Auth::new(AuthSettings {
            bind: self.bind,
            local: Some(Scope::Admin),
            token_file: None,
            insecure_no_auth: false,
            tls: false,
            client_certificates: false,
            certificate_scope: Scope::Hold,
            server_names: Vec::new(),
            allow_origin: Vec::new(),
            requests_per_second: 0,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        })
        .map_err(|error| Failure::Usage(Words::new(chain(&error))))?;
        let plan = Plan {
            engine: EngineConfig::default(),
            host: HostOptions::default(),
            log: LogPlan { segment_bytes: None, free_bytes_min: None, archive: None },
            server: ServerOptions {
                bind: SocketAddr::new(self.bind, self.port),
                socket: Some(self.socket),
                tls: None,
                auth,
                connections_max: 20_000,
                body_bytes_max: 1 << 20,
                line_bytes_max: 64 << 10,
                finish_within: Duration::from_millis(500),
                backup: daemon::backup_of(&self.data_dir),
                recovery_secs: 0.0,
            },
            breadcrumb_dir: directory_for_daemon(),
            data_dir: self.data_dir,
        };
        let data_dir = plan.data_dir.display().to_string();
        daemon::run(plan, |started| say(printer, &started, &data_dir))
            .map_err(|error| Failure::Unexpected(Words::new(chain(&error))))
    }
}

fn say(printer: &mut Printer, started: &Started, data_dir: &str) {
    for warning in &started.warnings {
        tracing::warn!("{warning}");
    }
    printer.talk(format_args!("listening on {}", started.endpoint));
    if let Some(socket) = &started.socket {
        printer.talk(format_args!("listening on {}", socket.display()));
    }
    printer.talk(format_args!("data in {data_dir}"));
    printer.talk(format_args!(
        "recovered {} in {} ms",
        counted(started.leases, "lease"),
        started.recovered_in.as_millis()
    ));
    printer.talk("ready");
}
