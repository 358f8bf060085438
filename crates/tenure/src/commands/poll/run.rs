//! `tenure poll run`: a poller whose polls are commands.

use std::collections::HashSet;
use std::ffi::OsString;
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
use crate::connect::{Reach, route};
use crate::daemon::start_logging;
use crate::duration::Span;
use crate::failure::{Failure, Words, chain};
use crate::poll::{Commands, CommandsPlan, Template, metrics_page, serve_metrics};
use crate::printer::Printer;
use crate::run::Pace;
use crate::secrets::Credentials;
use crate::stopping::{Stopping, output_closed};

/// Poll targets by running a command for each, sharing them with every other poller of the group
///
/// Each target is polled by exactly one poller. Started on several machines or several times on one, they divide the
/// targets among themselves; what one leaves, or dies with, others take. Nobody polls what it cannot prove to hold: when
/// daemon or Redis cannot be reached, polling stops in time and goes on by itself afterwards.
///
/// {target} stands for the target in every word of the command; no shell is involved. The command finds TENURE_TARGET,
/// TENURE_FENCE, TENURE_VALID_UNTIL (until when the target was ours at the start: RFC 3339, this machine's clock),
/// TENURE_GROUP, TENURE_INSTANCE and TENURE_POLL_ID in its environment. Its standard input is empty, its output is
/// that of tenure poll run. It runs in a process group of its own; SIGTERM, then SIGKILL to the whole group, end it
/// when --timeout is over or the target is not ours for much longer, also when tenure poll run is stopped or killed.
///
/// With --json each poll that ended is one object on standard output, and what commands print goes to standard error.
/// SIGTERM, SIGINT and SIGHUP end it after all targets were handed over; a second one at once.
///
/// Exits with 0 after it was told to stop, 1 if the name is taken, it was refused or it was told twice, 2 after wrong
/// usage, 3 if daemon or Redis cannot be reached, 126 if the command cannot be executed, 127 if it was not found.
#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    group: Group,
    /// What is polled: a file with one target on each line (watched; - is standard input, read once), keys of a Redis as
    /// redis:PATTERN, or what is held in the daemon as prefix:PREFIX
    #[arg(long, short, value_name = "FILE|redis:PATTERN|prefix:PREFIX")]
    targets: TargetsChoice,
    #[command(flatten)]
    targets_redis: TargetsRedis,
    /// How often each target is polled
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    every: Span,
    /// How long one poll may take; four fifths of --every unless told
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// By how much --every is scattered
    #[arg(long, value_name = "PERCENT", default_value = "10%")]
    jitter: Percent,
    /// How long a poller that is not heard of keeps its targets, from 1s on
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    ttl: Span,
    /// A name to come back with: targets stay over a short crash; one of its own each time unless told
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How much it takes beside the others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    weight: u32,
    /// Targets that move per second between pollers that live; a twentieth of all, at least 50, unless told
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_moves: Option<u32>,
    /// After a stop, nobody takes its targets for this long; needs --name
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    reconnect_window: Span,
    /// Commands at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrency: u16,
    /// Serve numbers for Prometheus at this port or address, under /metrics
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    metrics: Option<SocketAddr>,
    /// Which log lines are written: a level, or module=level separated by commas; info, with --quiet warn, unless told
    #[arg(long, value_name = "FILTER", value_parser = log_filter)]
    log_level: Option<String>,
    /// Form of log lines; auto is text on a terminal and JSON elsewhere
    #[arg(long, value_name = "FORM", default_value = "auto")]
    log_format: LogForm,
    #[command(flatten)]
    credentials: Credentials,
    /// The command and its arguments, with {target} for the target
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Form of log lines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogForm {
    /// Text on a terminal, JSON elsewhere
    Auto,
    /// One line of words
    Text,
    /// One object
    Json,
}

/// Polls that ended and were not printed yet; more are dropped.
const RECORDS_MAX: usize = 10_000;
const TTL_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

fn log_filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) if !text.is_empty() => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err("off, error, warn, info, debug or trace, or module=level".to_owned()),
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
        let quiet = if printer.is_quiet() { "warn" } else { "info" };
        start_logging(
            self.log_level.as_deref().unwrap_or(quiet),
            match self.log_format {
                LogForm::Auto => None,
                LogForm::Text => Some(false),
                LogForm::Json => Some(true),
            },
        );
        // Renewals must not wait for whoever reads what is printed here.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(
                |error| Failure::Unexpected(Words::new(format_args!("cannot begin to work: {error}"))),
            )?;
        let outcome = runtime.block_on(self.begin(template, reach, printer));
        runtime.shutdown_background();
        outcome
    }

    fn check(&self) -> Result<(), Failure> {
        let usage = |line: &str, hint: &str| Err(Failure::Usage(Words::new(line).hint(hint)));
        if self.ttl.duration() < TTL_MIN {
            return usage("the ttl is too short", "it is at least 1s");
        }
        if self.every.ms() == 0 {
            return usage("targets cannot be polled all the time", "--every is at least 1ms");
        }
        if self.timeout() < TIMEOUT_MIN {
            return usage("a poll has too little time", "--timeout is at least 100ms");
        }
        if self.reconnect_window.ms() > 0 && self.name.is_none() {
            return usage(
                "--reconnect-window is for a poller that comes back",
                "give it a --name to come back with",
            );
        }
        if let Some(Err(error)) = self.name.as_deref().map(Instance::of_name) {
            return Err(Failure::Usage(Words::new(format_args!("--name: {error}"))));
        }
        Ok(())
    }

    fn timeout(&self) -> Duration {
        let unless_told = || self.every.duration().mul_f64(0.8).max(TIMEOUT_MIN);
        self.timeout.map_or_else(unless_told, Span::duration)
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
        let lead = tenure_polling::lead(ttl);
        // What is told to stop has to be gone before its future is dropped: then the target may go to another.
        let pace = Pace { kill_after: (lead * 2 / 5).min(timeout / 4), sweep: lead * 2 / 5 };
        let mut builder = Poller::builder(store)
            .group(&self.group.group)
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
    let page = Arc::new(move || metrics_page(&group, &handle.numbers()));
    AbortOnDropHandle::new(tokio::spawn(serve_metrics(listener, page)))
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
            printer.talk("stopping: targets are handed over; asked once more, it stops at once");
        }
        () = nobody_reads => {}
    }
    handle.stop();
    match stopping.finish(until_ended(&mut running, records, printer)).await {
        Some(ended) => ended,
        None => {
            running.abort();
            printer.insist("error: stopped at once; what was held comes free when its ttl is over");
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
                Err(error) => Err(Failure::Unexpected(Words::new(format_args!("the poller broke: {error}")))),
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
            words.hint("choose another --name, or stop the other one: tenure poll nodes shows who there is"),
        ),
        PollerError::Refused(_) => Failure::Refused(words),
        PollerError::Unreachable(_) | PollerError::Source(_) | PollerError::NotTold(_) => {
            Failure::Unexpected(words)
        }
    }
}
