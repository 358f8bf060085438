//! `tenure bench`: how the daemon bears a load.

use std::env;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tenure_api::Status;
use tenure_client::{Client, Endpoint};

use crate::bench::{
    Course, Door, Ending, LEASES_MAX, PrivateDaemon, Report, SILENCE_MAX, Until, Watched, Work, listener_pid,
    watch,
};
use crate::connect::{Reach, block_on, call_failure};
use crate::duration::Span;
use crate::failure::{Failure, Words, chain};
use crate::printer::{Printer, counted};

/// Benchmark the daemon
///
/// Acquires, renews and releases leases on unique resource names. Each row keeps a fixed number of requests in flight. The
/// command releases its leases at the end, also after Ctrl-C.
///
/// OPS/S counts successful answers, P50 to MAX are latencies, ERRORS counts error answers. DAEMON CPU and LOAD CPU are the
/// processor time per request in the daemon (if it runs on this machine) and in this command.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  tenure bench --spawn\n  tenure bench --transport socket --in-flight 64 --duration 10s"
)]
pub(crate) struct Bench {
    /// Use this transport
    #[arg(long, value_enum, default_value_t = Transports::Both)]
    transport: Transports,
    /// Keep this many requests in flight, from 1 to 1024; one round for each number
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16,64,256")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    in_flight: Vec<u16>,
    /// Use this many socket connections; over HTTP each request in flight has its own
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Measure each row for this long, from 50ms to 10m
    #[arg(long, default_value = "3s")]
    duration: Span,
    /// Measure this many requests per row instead
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=LEASES_MAX))]
    count: Option<u64>,
    /// Measure these operations
    #[arg(long, value_enum, value_delimiter = ',', default_value = "acquire,heartbeat,release")]
    work: Vec<Work>,
    /// Start a temporary daemon for the benchmark
    #[arg(long)]
    spawn: bool,
    /// Create its data directory here; on a file system in memory, fsync costs nothing
    #[arg(long, value_name = "DIR", requires = "spawn")]
    spawn_in: Option<PathBuf>,
}

/// Which transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Transports {
    /// The line protocol over the Unix socket
    Socket,
    /// HTTP over TCP
    Http,
    /// One after the other
    Both,
}

const DURATION_MS_MIN: u64 = 50;
const DURATION_MS_MAX: u64 = 600_000;
/// What shells say of a command that was interrupted.
const INTERRUPTED: u8 = 130;
impl Bench {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        self.check()?;
        block_on(async {
            if !self.spawn {
                let daemon = reach.daemon(printer).await?;
                return self.measure(daemon.client(), reach.token(), printer).await;
            }
            let parent = self.spawn_in.clone().unwrap_or_else(env::temp_dir);
            let daemon = PrivateDaemon::start(&parent)
                .await
                .map_err(|error| Failure::Unexpected(Words::new(chain(&error))))?;
            printer.talk(format_args!(
                "note: the temporary daemon's data is in {}",
                daemon.directory().display()
            ));
            let outcome = self.measure(daemon.client(), None, printer).await;
            daemon.stop().await;
            outcome
        })
    }

    fn check(&self) -> Result<(), Failure> {
        if (DURATION_MS_MIN..=DURATION_MS_MAX).contains(&self.duration.ms()) {
            return Ok(());
        }
        Err(Failure::Usage(Words::new(format_args!("--duration {}: expected 50ms to 10m", self.duration))))
    }

    async fn measure(
        &self,
        client: &Client,
        token: Option<&str>,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let status = client.status().await.map_err(call_failure)?;
        let doors = self.doors(client, &status, token, printer).await?;
        let course = self.course(doors, &status)?;
        if is_in_memory(&status.data_dir) {
            printer.talk("note: the daemon's data directory is in memory, so fsync costs nothing");
        }
        let ttl = tenure_history::duration(course.ttl_ms());
        let bar = printer.progress();
        let Watched { outcome, ending } =
            watch(course, &bar).await.map_err(|error| Failure::Unexpected(Words::new(chain(&error))))?;
        let is_whole = ending == Ending::ByItself && outcome.broke_off.is_none();
        let report = Report::new(status.version, status.data_dir, is_whole, outcome.rows);
        if printer.json() {
            let object = report.object().map_err(|error| Failure::Unexpected(Words::new(error)))?;
            printer.object(&object)?;
        } else {
            printer.table(&report.table())?;
        }
        for line in report.refusals() {
            printer.talk(format_args!("note: {line}"));
        }
        if outcome.left_behind > 0 {
            let leases = counted(outcome.left_behind, "lease");
            printer.insist(format_args!("note: up to {leases} may still be held; they end within {ttl}"));
        }
        match (ending, outcome.broke_off, report.useless()) {
            (Ending::Silence, _, _) => {
                let line = format!("the daemon has not answered for {} s", SILENCE_MAX.as_secs());
                Err(Failure::Unexpected(Words::new(line)))
            }
            (Ending::Stopped, _, _) => {
                printer.talk("note: interrupted; the measurement is incomplete");
                Err(Failure::Ended(INTERRUPTED))
            }
            (Ending::ByItself, Some(error), _) => Err(Failure::Unexpected(Words::new(chain(&error)))),
            (Ending::ByItself, None, Some(line)) => Err(Failure::Refused(Words::new(line))),
            (Ending::ByItself, None, None) => Ok(()),
        }
    }

    /// Where the load goes in. A transport that was asked for by name has to be there.
    async fn doors(
        &self,
        client: &Client,
        status: &Status,
        token: Option<&str>,
        printer: &mut Printer,
    ) -> Result<Vec<Door>, Failure> {
        let mut doors = Vec::new();
        if self.transport != Transports::Http {
            match socket_door(client, status).await {
                Some(door) => doors.push(door),
                None if self.transport == Transports::Socket => {
                    let words = Words::new("the daemon has no socket on this machine");
                    return Err(Failure::Usage(words.hint("use --transport http")));
                }
                None => printer.talk("note: the daemon has no socket on this machine; measuring HTTP only"),
            }
        }
        if self.transport != Transports::Socket {
            match http_door(client.endpoint(), status, token) {
                Ok(door) => doors.push(door),
                Err(why) if self.transport == Transports::Http => {
                    return Err(Failure::Usage(Words::new(why)));
                }
                Err(why) => printer.talk(format_args!("note: {why}; measuring the socket only")),
            }
        }
        if doors.is_empty() {
            return Err(Failure::Usage(Words::new(
                "the daemon has neither a socket here nor a plain HTTP port",
            )));
        }
        Ok(doors)
    }

    fn course(&self, doors: Vec<Door>, status: &Status) -> Result<Course, Failure> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| Failure::Unexpected(Words::new(format_args!("no random bytes: {error}"))))?;
        let seed = u64::from_ne_bytes(random);
        let mut work = self.work.clone();
        work.sort();
        work.dedup();
        // A number alone says nothing: the daemon may be on another machine, or in another world of processes.
        let socket = status.socket.as_deref().map(Path::new);
        let pid = socket.and_then(listener_pid).filter(|pid| *pid == status.pid);
        Ok(Course {
            doors,
            in_flight: self.in_flight.iter().map(|count| usize::from(*count)).collect(),
            connections_max: usize::from(self.connections),
            work,
            until: self.count.map_or(Until::Ms(self.duration.ms()), Until::Count),
            pid,
            name: format!("bench-{:08x}", seed as u32),
            seed,
        })
    }
}

/// The socket, if it is this daemon's: another machine's may have the same path.
async fn socket_door(client: &Client, status: &Status) -> Option<Door> {
    if let Endpoint::Unix(path) = client.endpoint() {
        return Some(Door::Socket(path.clone()));
    }
    let path = PathBuf::from(status.socket.as_ref()?);
    let other = Client::builder(Endpoint::Unix(path.clone())).build().ok()?.status().await.ok()?;
    ((other.pid, &other.log_tag) == (status.pid, &status.log_tag)).then_some(Door::Socket(path))
}

/// The port, as the caller named it or as the daemon does.
fn http_door(asked: &Endpoint, status: &Status, token: Option<&str>) -> Result<Door, String> {
    let told = || status.http.as_ref().and_then(|http| http.parse().ok());
    let endpoint = match asked {
        Endpoint::Http(_) | Endpoint::Https(_) => Some(asked.clone()),
        Endpoint::Unix(_) => told(),
    };
    let authority = match endpoint {
        Some(Endpoint::Http(authority)) => authority,
        Some(Endpoint::Https(_)) => return Err("tenure bench does not support https".to_owned()),
        Some(Endpoint::Unix(_)) | None => return Err("the daemon has no HTTP port".to_owned()),
    };
    let addresses = (authority.host.as_str(), authority.port).to_socket_addrs();
    let addresses = addresses.map_err(|error| format!("cannot find {authority}: {error}"))?.collect();
    Ok(Door::Http { addresses, host: authority.to_string(), token: token.map(str::to_owned) })
}

/// Where a sync has nothing to wait for.
fn is_in_memory(directory: &str) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    rustix::fs::statfs(directory).is_ok_and(|found| found.f_type as u64 == TMPFS_MAGIC)
}
