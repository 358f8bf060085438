//! `tenure poll run`: a poller whose polls are commands.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tenure_client::Client;
use tenure_polling::store::{RedisStore, Store, TenureStore};
use tenure_polling::{Instance, Poller, PollerError, PollerHandle};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;
use tracing_subscriber::EnvFilter;

use super::arguments::{Group, Percent, StoreChoice, listen_address};
use super::place::store_failure;
use super::polls::{Polls, Record};
use super::source::{Source, TargetsChoice, TargetsRedis};
use crate::commands::arguments::{TTL_KEPT, ttl};
use crate::connect::{Reach, route};
use crate::daemon::start_logging;
use crate::duration::Span;
use crate::failure::{Failure, Words, chain};
use crate::poll::{Commands, CommandsPlan, Template, metrics_page, serve_metrics};
use crate::printer::Printer;
use crate::run::{Pace, Silence};
use crate::secrets::Credentials;
use crate::stopping::{Stopping, output_closed};

/// Poll targets by running a command for each, sharing the targets with all pollers of the group
///
/// Exactly one poller polls each target. Start it on several machines, or several times on one: the pollers divide the
/// targets and take over those of a stopped poller. A poller that cannot reach the daemon or Redis stops polling before its
/// leases expire, and continues when it can.
///
/// {target} is replaced by the target in every word of the command, which runs without a shell. Its environment has
/// TENURE_TARGET, TENURE_FENCE (the fencing token), TENURE_VALID_UNTIL (validity of the target's lease at the start: RFC
/// 3339, this machine's clock), TENURE_GROUP, TENURE_INSTANCE and TENURE_POLL_ID. Its standard input is empty. It runs in
/// its own process group; SIGTERM, then SIGKILL, end the group when --timeout is over or the lease is about to expire, also
/// if tenure poll run is stopped or killed.
///
/// With --json each finished poll is one object on standard output, and the output of the commands goes to standard error.
/// SIGTERM, SIGINT and SIGHUP stop the poller after it has handed over its targets; a second signal stops it at once.
///
/// Log lines at a terminal show changes of the poller's share; JSON lines and --log-level debug show each target.
///
/// Exit code: 0 after a stop, 1 if the name is taken, the request was rejected or the stop was forced, 2 for wrong usage, 3
/// if the daemon or Redis is unreachable, 126 if the command cannot be executed, 127 if the command was not found.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Run {
    #[command(flatten)]
    group: Group,
    /// Poll these targets: a file with one target per line (watched; - is standard input, read once), redis:PATTERN for
    /// keys of a Redis, or prefix:PREFIX for resources that are held in the daemon
    #[arg(long, short, value_name = "FILE|redis:PATTERN|prefix:PREFIX")]
    targets: TargetsChoice,
    #[command(flatten)]
    targets_redis: TargetsRedis,
    /// Poll each target this often
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    every: Span,
    /// End a poll after this long [default: four fifths of --every]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// Scatter --every by this much
    #[arg(long, value_name = "PERCENT", default_value = "10%")]
    jitter: Percent,
    /// Give the targets of a silent poller to others after this long
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = TTL_KEPT)]
    ttl: Span,
    /// Set a name, with which a restarted poller gets its targets back [default: a new name each time]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Set the relative share of this poller
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    weight: u32,
    /// Move at most this many targets per second between live pollers [default: 5% of all, at least 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_moves: Option<u32>,
    /// Keep the targets for this long after a stop; requires --name
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    reconnect_window: Span,
    /// Run at most this many commands at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrency: u16,
    /// Serve Prometheus metrics on this port or address, at /metrics
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    metrics: Option<SocketAddr>,
    /// Write log lines of this level and above; or module=level, comma-separated [default: info, with --quiet warn]
    #[arg(long, value_name = "LEVEL", value_parser = log_filter)]
    log_level: Option<String>,
    /// Format log lines
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    log_format: LogForm,
    #[command(flatten)]
    credentials: Credentials,
    /// Command to run for each target, with {target} in its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Form of log lines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogForm {
    /// Text on a terminal, JSON elsewhere
    Auto,
    /// Text
    Text,
    /// JSON
    Json,
}

const EXAMPLES: &str = "Examples:
  tenure poll run --targets sites.txt --every 5s -- curl -sS -m 3 {target}
  tenure poll run --group web --name eu-1 --targets sites.txt -- ./check {target}";
/// The log lines of a poller as text, for people: one line for each change of its share stands for those of single targets,
/// which JSON has.
const LOG_INFO: &str = "info,tenure_polling::poller::control=warn";
/// States of targets that this poller has.
const HELD: &[&str] = &["owned", "uncertain", "draining"];
/// Changes of the share within this time are one line.
const SHARE_EVERY: Duration = Duration::from_secs(1);

/// Polls that ended and were not printed yet; more are dropped.
const RECORDS_MAX: usize = 10_000;

const TIMEOUT_MIN: Duration = Duration::from_millis(100);

fn log_filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) if !text.is_empty() => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err("expected off, error, warn, info, debug or trace, or module=level".to_owned()),
    }
}

impl Run {
    pub(super) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        self.group.check(self.targets_redis.is_named())?;
        self.check()?;
        let template = Template::new(self.command.clone());
        if let Err(error) = template.check(std::env::var_os("PATH").as_deref()) {
            let program = self.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
            printer.insist(format_args!("error: cannot run {program}: {error}"));
            return Err(Failure::Ended(crate::run::exit_code_of(&error)));
        }
        let is_json = match self.log_format {
            LogForm::Auto => !std::io::stderr().is_terminal(),
            LogForm::Text => false,
            LogForm::Json => true,
        };
        let level = self.log_level.as_deref().unwrap_or(if printer.is_quiet() { "warn" } else { "info" });
        start_logging(if level == "info" && !is_json { LOG_INFO } else { level }, Some(is_json));
        // Renewals must not wait for whoever reads what is printed here.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(
                |error| Failure::Unexpected(Words::new(format_args!("cannot start the runtime: {error}"))),
            )?;
        let outcome = runtime.block_on(self.begin(template, reach, printer));
        runtime.shutdown_background();
        outcome
    }

    fn check(&self) -> Result<(), Failure> {
        let usage = |line: &str, hint: &str| Err(Failure::Usage(Words::new(line).hint(hint)));
        if self.every.ms() == 0 {
            return usage("--every 0s is not accepted", "--every is at least 1ms");
        }
        if self.timeout() < TIMEOUT_MIN {
            return usage("--timeout is too short", "--timeout is at least 100ms");
        }
        if self.reconnect_window.ms() > 0 && self.name.is_none() {
            return usage("--reconnect-window requires --name", "name the poller with --name NAME");
        }
        if let Some(Err(error)) = self.name.as_deref().map(Instance::with_name) {
            return Err(Failure::Usage(Words::new(format_args!("--name: {error}"))));
        }
        Ok(())
    }

    fn timeout(&self) -> Duration {
        let default = || self.every.duration().mul_f64(0.8).max(TIMEOUT_MIN);
        self.timeout.map_or_else(default, Span::duration)
    }

    async fn begin(self, template: Template, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        let listener = match self.metrics {
            Some(address) => Some(TcpListener::bind(address).await.map_err(|error| {
                Failure::Unexpected(Words::new(format_args!("cannot listen on {address}: {error}")))
            })?),
            None => None,
        };
        match self.group.store() {
            StoreChoice::Tenure => {
                let daemon = reach.daemon(printer).await?;
                // Whoever was told where the daemon is has not asked it yet.
                daemon.get(route(&["status"])).await?;
                let client = daemon.client().clone();
                let ttl = self.ttl.duration();
                let then = "this poller stops polling";
                let silence = Silence { ttl, max_silence: tenure_polling::max_silence(ttl), then };
                silence.warn(&client, tenure_polling::max_silence, printer).await;
                let store = TenureStore::new(client.clone(), &self.group.group)
                    .map_err(|error| Failure::Usage(Words::new(error)))?;
                let source = self.source(Some(&client), reach, printer).await?;
                self.poll(store, source, template, listener, printer).await
            }
            StoreChoice::Redis(url) => {
                let options = self.group.redis.options(url, &self.group.group)?;
                let unusable = |error| Failure::Usage(Words::new(format_args!("--store: {error}")));
                RedisStore::open(&options).map_err(unusable)?;
                let source = self.source(None, reach, printer).await?;
                let store = RedisStore::connect(&options).await.map_err(store_failure)?;
                self.poll(store, source, template, listener, printer).await
            }
        }
    }

    async fn source(
        &self,
        client: Option<&Client>,
        reach: &Reach,
        printer: &mut Printer,
    ) -> Result<Source, Failure> {
        Source::open(&self.targets, &self.group, &self.targets_redis, client, reach, printer).await
    }

    async fn poll<S: Store>(
        self,
        store: S,
        source: Source,
        template: Template,
        listener: Option<TcpListener>,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let unexpected = |error: std::io::Error| Failure::Unexpected(Words::new(error));
        let ttl = self.ttl.duration();
        let timeout = self.timeout();
        let lead = tenure_polling::cancel_lead(ttl);
        // What is told to stop has to be gone before its future is dropped: then the target may go to another.
        let pace = Pace { kill_after: (lead * 2 / 5).min(timeout / 4), sweep: lead * 2 / 5 };
        let mut builder = Poller::builder(store)
            .targets(source)
            .weight(self.weight)
            .ttl(ttl)
            .every(self.every.duration())
            .timeout(timeout - pace.kill_after)
            .jitter(self.jitter.0)
            .concurrency(usize::from(self.concurrency))
            .reconnect_window(self.reconnect_window.duration())
            .hash(self.group.redis.hash.hash());
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        if let Some(max_moves) = self.max_moves {
            builder = builder.max_moves(max_moves);
        }
        let poller = builder.build().map_err(|error| Failure::Usage(Words::new(chain(&error))))?;
        let handle = poller.handle();
        let instance = handle.instance().to_string();
        let environment = [("TENURE_GROUP", self.group.group.clone()), ("TENURE_INSTANCE", instance.clone())];
        let (commands, commanding) = Commands::begin(CommandsPlan {
            template,
            environment: environment.map(|(name, value)| (name, value.into())).to_vec(),
            pace,
            keeps_output: printer.json(),
            credentials: self.credentials,
        })
        .map_err(unexpected)?;
        let _metrics = listener.map(|listener| expose(listener, &self.group.group, &handle, printer));
        let (told, mut records) = mpsc::channel(RECORDS_MAX);
        let polls = Polls {
            commands,
            group: self.group.group.as_str().into(),
            instance: instance.as_str().into(),
            ttl,
            timeout,
            kill_after: pace.kill_after,
            told: printer.json().then_some(told),
            failing: Arc::new(std::sync::Mutex::new(HashSet::new())),
        };
        let stopping = Stopping::catch()?;
        printer.talk(format_args!("polling in group {} as {instance}", self.group.group));
        let _share =
            AbortOnDropHandle::new(tokio::spawn(log_share(self.group.group.clone(), handle.clone())));
        let running = tokio::spawn(poller.run(move |target, poll| polls.clone().poll(target, poll)));
        let ended = work(running, handle, &mut records, stopping, printer).await;
        // Nothing of any poll is left when we are gone; at once, if somebody asked for that.
        if !matches!(ended, Err(Failure::Ended(_))) {
            let _ = commanding.await;
        }
        while let Ok(record) = records.try_recv() {
            print(&record, printer)?;
        }
        ended
    }
}

/// Shows the poller's numbers to whoever asks.
fn expose<S: Store>(
    listener: TcpListener,
    group: &str,
    handle: &PollerHandle<S>,
    printer: &mut Printer,
) -> AbortOnDropHandle<()> {
    if let Ok(address) = listener.local_addr() {
        printer.talk(format_args!("metrics at http://{address}/metrics"));
    }
    let (group, handle) = (group.to_owned(), handle.clone());
    let page = Arc::new(move || metrics_page(&group, &handle.metrics()));
    AbortOnDropHandle::new(tokio::spawn(serve_metrics(listener, page)))
}

/// Logs how many targets the poller has, once for each change.
async fn log_share<S: Store>(group: String, handle: PollerHandle<S>) {
    let mut before = 0;
    loop {
        tokio::time::sleep(SHARE_EVERY).await;
        let by_state = handle.metrics().targets;
        let targets: u64 =
            by_state.iter().filter(|(state, _)| HELD.contains(state)).map(|(_, count)| count).sum();
        if targets != before {
            tracing::info!(%group, instance = %handle.instance(), targets, before, "share of targets changed");
            before = targets;
        }
    }
}

/// Until the poller has ended, by itself or because somebody asked.
async fn work<S: Store>(
    mut running: JoinHandle<Result<(), PollerError>>,
    handle: PollerHandle<S>,
    records: &mut mpsc::Receiver<Record>,
    mut stopping: Stopping,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let prints = printer.json();
    let nobody_reads = async {
        match prints {
            true => output_closed().await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = until_ended(&mut running, records, printer) => return ended,
        () = stopping.asked() => {
            printer.talk("stopping: handing over targets; a second signal stops at once");
        }
        () = nobody_reads => {}
    }
    handle.stop();
    match stopping.finish(until_ended(&mut running, records, printer)).await {
        Some(ended) => ended,
        None => {
            running.abort();
            printer.insist("error: stopped at once; the targets are free when their ttl ends");
            Err(Failure::Ended(1))
        }
    }
}

/// Prints what ended until the poller itself does. May be dropped and begun again.
async fn until_ended(
    running: &mut JoinHandle<Result<(), PollerError>>,
    records: &mut mpsc::Receiver<Record>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let mut prints = printer.json();
    loop {
        tokio::select! {
            record = records.recv(), if prints => match record {
                Some(record) => {
                    print(&record, printer)?;
                    if records.is_empty() {
                        printer.flush()?;
                    }
                }
                None => prints = false,
            },
            ended = &mut *running => return match ended {
                Ok(ended) => ended.map_err(failure),
                Err(error) => {
                    Err(Failure::Unexpected(Words::new(format_args!("the poller failed: {error}"))))
                }
            },
        }
    }
}

fn print(record: &Record, printer: &mut Printer) -> Result<(), Failure> {
    let object = serde_json::to_value(record).map_err(|error| Failure::Unexpected(Words::new(error)))?;
    printer.object(&object)
}

fn failure(error: PollerError) -> Failure {
    let words = Words::new(&error);
    match error {
        PollerError::NameTaken(_) => Failure::Refused(
            words.hint("choose another --name, or stop the other poller: tenure poll pollers lists them"),
        ),
        PollerError::Rejected(_) => Failure::Refused(words),
        PollerError::Unreachable(_) | PollerError::Source(_) | PollerError::StopNotReported(_) => {
            Failure::Unexpected(words)
        }
    }
}
