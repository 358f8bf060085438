//! `cargo xtask bench peers`: the same work through Tenure and through what people would use instead, each started here
//! on loopback with durable settings, alternating in rounds, in one table.

pub(crate) mod cost;
mod disk;
pub(crate) mod document;
pub(crate) mod etcd;
pub(crate) mod figures;
pub(crate) mod goals;
mod hello;
mod holder;
mod holdings;
pub(crate) mod home;
pub(crate) mod kind;
pub(crate) mod latencies;
pub(crate) mod peer;
pub(crate) mod plan;
mod postgres;
mod redis;
pub(crate) mod rows;
pub(crate) mod table;
pub(crate) mod tasks;
pub(crate) mod tenure;
pub(crate) mod wire;
mod zookeeper;

pub(crate) use hello::{GreeterOrders, serve as greet};
pub(crate) use holder::{HolderOrders, hold};

use crate::{history, machine};
use anyhow::{Context, Result, anyhow, bail};
use document::Document;
use home::Site;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kind::Kind;
use plan::{Sizes, Step};
use rows::Course;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tenure_client::clock::{BootInstant, wall_time};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// What is compared, how long, and where it is written.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Repeat all peers this often and show medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure each kind of work for this long
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Measure only these peers
    #[arg(long, value_enum, value_delimiter = ',')]
    peers: Vec<Kind>,
    /// Measure all peers except these
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Kind>,
    /// Keep data here, on the disk to measure [default: beside the builds]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Write the document here [default: docs/internals/benchmarks/ for a full run]
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Measure this daemon [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    tenure: Option<PathBuf>,
}

/// Measures until it is done or interrupted; every process that was started is ended either way, and what it wrote is
/// removed.
pub(crate) fn measure(arguments: Arguments, quick: bool, only: Option<String>) -> Result<String> {
    let (kinds, left_out) = arguments.kinds();
    kind::ensure_there(&kinds)?;
    let place = Place::find(arguments.directory.as_deref(), arguments.tenure.as_deref())?;
    let site = place.site();
    until_interrupted(move || report(&arguments, site, (kinds, left_out), quick, only.as_deref()))
}

/// Directories for one run, removed with it, and the daemon that is measured.
pub(crate) struct Place {
    data: TempDir,
    run: TempDir,
    tenure: PathBuf,
}

impl Place {
    /// Beside the builds and beside this program, unless told.
    pub(crate) fn find(directory: Option<&Path>, tenure: Option<&Path>) -> Result<Self> {
        let here = std::env::current_exe()?;
        let beside_builds = here.ancestors().nth(2).unwrap_or(&here).join("bench");
        Ok(Self {
            data: scratch(directory.unwrap_or(&beside_builds))?,
            run: scratch(&std::env::temp_dir())?,
            tenure: tenure.map_or_else(|| here.with_file_name("tenure"), Path::to_owned),
        })
    }

    pub(crate) fn site(&self) -> Site {
        let (directory, run) = (self.data.path().to_owned(), self.run.path().to_owned());
        Site { directory, run, tenure: self.tenure.clone() }
    }
}

/// Does the whole work on a thread of its own, unless it is interrupted.
pub(crate) fn until_interrupted(work: impl FnOnce() -> Result<String> + Send + 'static) -> Result<String> {
    let (done, is_done) = oneshot::channel();
    // The system ends what a thread has started when the thread is gone.
    let worker = std::thread::spawn(move || {
        let report = work();
        // Nobody listens where it was interrupted.
        let _ = done.send(report);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut told_to_end = signal(SignalKind::terminate())?;
        tokio::select! {
            report = is_done => report.context("the measuring broke off")?,
            _ = interrupted.recv() => bail!("interrupted"),
            _ = told_to_end.recv() => bail!("told to end"),
        }
    })?;
    worker.join().map_err(|_| anyhow!("the measuring broke off"))?;
    Ok(report)
}

/// A directory for this run alone, that servers which run as somebody else may enter.
fn scratch(parent: &Path) -> Result<TempDir> {
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let for_all = Permissions::from_mode(0o755);
    Ok(tempfile::Builder::new().prefix("peers-").permissions(for_all).tempdir_in(parent)?)
}

/// Takes all steps; what they showed is kept, and written where documents are.
fn report(
    arguments: &Arguments,
    site: Site,
    (kinds, left_out): (Vec<Kind>, Vec<String>),
    quick: bool,
    only: Option<&str>,
) -> Result<String> {
    let sizes = match quick {
        true => Sizes { rounds: 1, many: 100_000, some: 10_000 },
        false => Sizes { rounds: arguments.rounds.max(1), many: 1_000_000, some: 100_000 },
    };
    let time = Duration::from_secs_f64(if quick { arguments.seconds.min(1.0) } else { arguments.seconds });
    let load_before = machine::load()?;
    let mut course = Course::new(site, time, if quick { 5 } else { 20 });
    let faults = run(&mut course, &plan::plan(&kinds, sizes, only), sizes.rounds);
    let judged = goals::judge(&course.figures, sizes.many);
    let document = Document {
        title: "Peers",
        tables: table::tables(&course.figures),
        how: document::HOW,
        figures: &course.figures,
        told: &course.told,
        goals: &judged,
        faults: &faults,
        left_out: &left_out,
        rounds: sizes.rounds,
        time,
        load_before,
        command: command(),
    };
    history::keep("peers", &document.kept())?;
    let is_whole = !quick && only.is_none() && arguments.peers.is_empty() && arguments.without.is_empty();
    if let Some(file) = arguments.write.clone().or_else(|| is_whole.then(|| written_to("peers"))) {
        std::fs::write(&file, document.text()?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let faults: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    Ok(format!("{}{faults}\n{}", table::tables(&course.figures), goals::table(&judged)))
}

/// Takes every step, whatever becomes of the others; what went wrong.
fn run(course: &mut Course, steps: &[Step], rounds: usize) -> Vec<String> {
    let bar = bar(steps.len());
    let mut faults = Vec::new();
    for step in steps {
        let name = format!("{} of {rounds}, {}", step.round + 1, step.kind.as_str());
        bar.set_message(format!("{name}: {}", step.part));
        match course.take(*step) {
            Ok(said) => say(&bar, &format!("{name}: {said}")),
            Err(fault) => {
                let fault = format!("{name}: {} failed: {fault:#}", step.part);
                say(&bar, &fault);
                faults.push(fault);
            }
        }
        bar.inc(1);
    }
    course.end();
    bar.finish_and_clear();
    faults
}

impl Arguments {
    /// Who is compared, and a sentence about each who is not though nobody said so.
    fn kinds(&self) -> (Vec<Kind>, Vec<String>) {
        let is_left_out = |kind: Kind| {
            self.without.contains(&kind) || kind == Kind::EtcdShared && self.without.contains(&Kind::Etcd)
        };
        let wanted =
            |kind: &Kind| (self.peers.is_empty() || self.peers.contains(kind)) && !is_left_out(*kind);
        let mut kinds: Vec<Kind> = Kind::ALL.iter().copied().filter(wanted).collect();
        let mut left_out = Vec::new();
        if kinds.contains(&Kind::Zookeeper) && !self.peers.contains(&Kind::Zookeeper) && !kind::has_java() {
            kinds.retain(|kind| *kind != Kind::Zookeeper);
            left_out.push("ZooKeeper was left out: there is no Java on this machine.".to_owned());
        }
        left_out.extend(self.without.iter().map(|kind| format!("Left out as asked: {}.", kind.as_str())));
        (kinds, left_out)
    }
}

/// Where the documents are.
pub(crate) fn written_to(suite: &str) -> PathBuf {
    let name = format!("{}-{suite}.md", &wall_time(BootInstant::now())[..10]);
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/benchmarks").join(name)
}

/// As somebody would type it, without paths, which are this machine's own.
pub(crate) fn command() -> String {
    let mut words = vec!["cargo xtask bench".to_owned()];
    let mut is_value = false;
    for word in std::env::args().skip(1) {
        let is_path = ["--tenure", "--directory", "--write"].iter().any(|option| word.starts_with(option));
        if !is_path && !is_value {
            words.push(word.clone());
        }
        is_value = is_path && !word.contains('=');
    }
    words.join(" ")
}

/// How far it is, where somebody is watching.
pub(crate) fn bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {elapsed}  {msg}")
        .expect("invariant: the template is a constant")
        .progress_chars("=> ");
    ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr()).with_style(style)
}

/// A line above the bar, or just a line where there is none.
#[expect(clippy::print_stderr, reason = "it takes long, and somebody may be watching")]
pub(crate) fn say(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { eprintln!("{line}") } else { bar.println(line) }
}
