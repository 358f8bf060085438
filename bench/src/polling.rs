//! `cargo xtask bench polling`: what polling promises, held against real pollers, real stores, and a witness that hears
//! of every poll. Each poller is a process of its own; each promise is a row, and a promise that is not kept is shown.

mod balance;
mod group;
mod judge;
mod poller;
mod record;
mod rounds;
mod server;
mod table;
mod witness;

pub(crate) use poller::{Orders, run as poll};

use crate::gauge::Random;
use crate::history;
use crate::machine::{self, Usage};
use anyhow::{Context, Result, bail};
use group::Group;
use rounds::{alone, calls, frozen, killed, shared, silence};
use server::{StoreKind, StoreServer};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::{Row, table};
use tenure_client::clock::{BootInstant, wall_time};
use tokio::signal::unix::{SignalKind, signal};

/// Pollers of a group, unless a row says otherwise.
const POLLERS: usize = 5;
/// Fewest moves per second that pollers allow unless told, and the part of the targets that may move in a second.
const MOVES_MAX_LEAST: usize = 50;
const MOVES_MAX_PART: usize = 20;

/// Where the table goes, and what is kept beside it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write the table as Markdown, with the machine and the settings
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Keep a log of every poller here; costs time
    #[arg(long, value_name = "DIRECTORY")]
    logs: Option<PathBuf>,
    /// Measure this daemon [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    tenure: Option<PathBuf>,
}

/// How a group is set up.
pub(crate) struct Setting {
    targets: usize,
    ttl: Duration,
    /// Between two polls of a target.
    every: Duration,
    /// How long a poll takes.
    poll: Duration,
    concurrency: usize,
    logs: Option<PathBuf>,
}

/// How often each thing is done.
struct Rounds {
    killed: usize,
    shared: usize,
    frozen: usize,
    silence: usize,
    alone: usize,
    calls: Duration,
}

/// What is measured at all: `store=redis,targets=100,row=Q2`; what is not named is not limited.
#[derive(Default)]
struct Only {
    stores: Vec<String>,
    targets: Vec<String>,
    rows: Vec<String>,
}

impl Only {
    fn read(text: Option<&str>) -> Result<Self> {
        let mut only = Self::default();
        for part in text.unwrap_or_default().split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("store", store)) => only.stores.push(store.to_owned()),
                Some(("targets", targets)) => only.targets.push(targets.to_owned()),
                Some(("row", row)) => only.rows.push(row.to_uppercase()),
                _ => bail!("{part:?} is not store=…, targets=… or row=…"),
            }
        }
        Ok(only)
    }

    fn has(named: &[String], name: &str) -> bool {
        named.is_empty() || named.iter().any(|known| known == name)
    }

    fn has_row(&self, name: &str) -> bool {
        Self::has(&self.rows, name)
    }
}

impl Setting {
    fn new(targets: usize, quick: bool, logs: Option<PathBuf>) -> Self {
        // Two cores carry pollers, store and witness: many targets are polled less often.
        let every = match (targets > 1_000, quick) {
            (false, _) => Duration::from_secs(1),
            (true, false) => Duration::from_secs(20),
            (true, true) => Duration::from_secs(5),
        };
        let ttl = Duration::from_secs(if quick { 3 } else { 30 });
        Self { targets, ttl, every, poll: Duration::from_millis(20), concurrency: 1_024, logs }
    }

    /// Moves per second between pollers that live.
    fn moves_max(&self) -> usize {
        (self.targets / MOVES_MAX_PART).max(MOVES_MAX_LEAST)
    }
}

impl Rounds {
    fn new(quick: bool) -> Self {
        if quick {
            Self { killed: 1, shared: 1, frozen: 1, silence: 1, alone: 2, calls: Duration::from_secs(10) }
        } else {
            Self { killed: 2, shared: 2, frozen: 1, silence: 1, alone: 3, calls: Duration::from_secs(30) }
        }
    }
}

/// Measures until it is done or interrupted; every process that was started is ended either way.
pub(crate) fn measure(arguments: &Arguments, quick: bool, only: Option<&str>) -> Result<String> {
    let only = Only::read(only)?;
    // One thread: the system ends what it started when it is gone.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut told_to_end = signal(SignalKind::terminate())?;
        tokio::select! {
            report = report(arguments, quick, &only) => report,
            _ = interrupted.recv() => bail!("interrupted"),
            _ = told_to_end.recv() => bail!("told to end"),
        }
    })
}

async fn report(arguments: &Arguments, quick: bool, only: &Only) -> Result<String> {
    let tenure = match &arguments.tenure {
        Some(tenure) => tenure.clone(),
        None => std::env::current_exe()?.with_file_name("tenure"),
    };
    let (tenure_version, redis_version) =
        (machine::version(&tenure)?, machine::version(Path::new("redis-server"))?);
    if let Some(logs) = &arguments.logs {
        std::fs::create_dir_all(logs)?;
    }
    let load_before = machine::load()?;
    let mut rows = Vec::new();
    let mut usages = Vec::new();
    let mut shapes = String::new();
    if only.has_row("Q3") {
        let (row, listed) = balance::measure();
        rows.push(row);
        shapes = listed;
    }
    for targets in [100, 10_000] {
        for store in [StoreKind::Tenure, StoreKind::Redis] {
            if !Only::has(&only.stores, &store.to_string()) || !Only::has(&only.targets, &targets.to_string())
            {
                continue;
            }
            let setting = Setting::new(targets, quick, arguments.logs.clone());
            let before = Usage::now()?;
            let (measured, fault) = scene(store, &setting, quick, only, &tenure).await;
            rows.extend(measured);
            usages.push(format!("{store}, {targets} targets: {}", Usage::now()?.since(before)));
            if let Some(fault) = fault {
                rows.push(broken(store, targets, &fault));
            }
        }
    }
    rows.sort_by_key(|row| row.promise);
    history::keep("polling", &rows.iter().map(Row::kept).collect())?;
    let listed = table(&rows);
    let missed = rows.iter().filter(|row| !row.is_reached).count();
    let summary = format!("{} rows, {missed} missed", rows.len());
    if let Some(file) = &arguments.write {
        let mut text = String::new();
        let quickly = if quick { " --quick" } else { "" };
        let _ = writeln!(text, "# Polling, {}\n", &wall_time(BootInstant::now())[..10]);
        let _ = writeln!(
            text,
            "`cargo xtask bench polling{quickly}`: {}; {tenure_version}, {redis_version}.\n",
            machine::described()?
        );
        let _ = writeln!(text, "{}", settings(quick));
        let _ = writeln!(text, "Load average {load_before} before, {} after. By part:\n", machine::load()?);
        for usage in &usages {
            let _ = writeln!(text, "- {usage}");
        }
        let _ = writeln!(text, "\n{listed}\n{summary}.");
        if !shapes.is_empty() {
            let _ = write!(text, "\n## Balance by assignment alone\n\n{shapes}");
        }
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(format!("{listed}\n{}\n{summary}", usages.join("\n")))
}

/// One store, one number of targets. What was measured until something went wrong, and what that was.
async fn scene(
    store: StoreKind,
    setting: &Setting,
    quick: bool,
    only: &Only,
    tenure: &Path,
) -> (Vec<Row>, Option<anyhow::Error>) {
    let mut rows = Vec::new();
    let outcome = play(store, setting, quick, only, tenure, &mut rows).await;
    (rows, outcome.err())
}

async fn play(
    store: StoreKind,
    setting: &Setting,
    quick: bool,
    only: &Only,
    tenure: &Path,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let rounds = Rounds::new(quick);
    let mut random = Random(0x5eed_0000_0000_0001 + setting.targets as u64);
    let server = StoreServer::start(store, tenure).await?;
    if only.has_row("Q6") {
        say(setting, store, "a lone poller");
        add(rows, alone::measure(setting, &server, rounds.alone).await?);
    }
    if only.rows.iter().all(|row| row == "Q6") && !only.rows.is_empty() {
        return server.stop().await;
    }
    let mut group = Group::new(setting, &server, "bench")?;
    let outcome = change(&mut group, &rounds, only, &mut random, rows).await;
    // What was polled until then counts, whatever went wrong.
    let judged = frozen::rows(&group, None, 1);
    if outcome.is_err()
        && let Ok(judged) = judged
    {
        add(rows, judged);
    }
    outcome?;
    group.end().await?;
    server.stop().await
}

/// Everything that is done to one group.
async fn change(
    group: &mut Group<'_>,
    rounds: &Rounds,
    only: &Only,
    random: &mut Random,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let (setting, store) = (group.setting(), group.server().kind());
    let mut done = 0;
    group.start(POLLERS).await?;
    let is_settled = group.settle().await?;
    if only.has_row("Q3") {
        let row = calls::balance(group)?;
        add(rows, vec![Row { is_reached: row.is_reached && is_settled, ..row }]);
    }
    let has_join = only.has_row("Q4") || only.rows.iter().any(|row| row == "Q2");
    if has_join {
        say(setting, store, "a sixth joins, one stops");
        add(rows, shared::measure(group, rounds.shared, random).await?);
        done += 2 * rounds.shared;
    }
    if only.has_row("Q2") {
        say(setting, store, "one is killed");
        add(rows, killed::measure(group, rounds.killed, random).await?);
        done += rounds.killed;
    }
    if only.has_row("Q5") {
        say(setting, store, "the store stands still");
        add(rows, silence::measure(group, rounds.silence).await?);
        done += rounds.silence;
    }
    let mut stood = None;
    if only.has_row("Q1") {
        say(setting, store, "one stands still");
        stood = Some(frozen::measure(group, rounds.frozen, random).await?);
        done += rounds.frozen;
    }
    if only.has_row("Q7") {
        say(setting, store, "ten, and nothing happens");
        add(rows, calls::measure(group, rounds.calls).await?);
        add(rows, vec![calls::balance(group)?]);
        done += 1;
    }
    if only.has_row("Q3") {
        add(rows, vec![calls::settlings(group)]);
    }
    add(rows, frozen::rows(group, stood.as_ref(), done)?);
    Ok(())
}

/// A part that could not be measured to its end is a miss.
fn broken(store: StoreKind, targets: usize, fault: &anyhow::Error) -> Row {
    Row {
        promise: "–",
        what: "the rest of this part".to_owned(),
        store: store.to_string(),
        targets: targets.to_string(),
        rounds: 0,
        samples: 0,
        measured: format!("{fault:#}"),
        goal: "is measured".to_owned(),
        is_reached: false,
        figures: Vec::new(),
    }
}

fn settings(quick: bool) -> String {
    let of = |targets: usize| Setting::new(targets, quick, None);
    let (few, many) = (of(100), of(10_000));
    format!(
        "Each poller is a process with the library's `Poller`, started by the bench and named by itself; {POLLERS} of \
         them unless a row says otherwise. ttl {}, renewed every third of it; polls take {}, {} at once at most; every \
         {} with 100 targets, every {} with 10,000; all else as it is unless told. `tenure serve` with its durable \
         defaults; `redis-server` with `appendonly yes`, `appendfsync everysec`; both over a Unix socket. Each poll is \
         told to a witness when it begins and when it ends, with its fence and the time on `CLOCK_BOOTTIME`; a sink \
         that remembers the highest fence is played through over all of it. Rounds are changes made to the group, \
         samples are targets where a row is about targets.\n",
        table::shown(few.ttl),
        table::shown(few.poll),
        few.concurrency,
        table::shown(few.every),
        table::shown(many.every),
    )
}

/// Adds rows and shows them at once: a run that is interrupted has told what it knew.
#[expect(clippy::print_stderr, reason = "it takes long, and somebody may be watching")]
fn add(rows: &mut Vec<Row>, measured: Vec<Row>) {
    measured.iter().for_each(|row| eprintln!("{}", row.line()));
    rows.extend(measured);
}

#[expect(clippy::print_stderr, reason = "it takes long, and somebody may be watching")]
fn say(setting: &Setting, store: StoreKind, what: &str) {
    eprintln!("{} {store}, {} targets: {what}", wall_time(BootInstant::now()), setting.targets);
}
