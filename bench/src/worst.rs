//! `cargo xtask bench worst`: one client does its worst to a daemon, in one way after the other. Meanwhile another holder
//! renews, connections close whose resources somebody waits for, and an operator asks for the status.

mod attacks;
mod goals;
mod others;

use crate::peers::document::Document;
use crate::peers::figures::{Figure, Figures, Quantity};
use crate::peers::home::{Home, Server, Site};
use crate::peers::rows::Told;
use crate::peers::table::{grouped, shown};
use crate::peers::tenure::{self, Control};
use crate::peers::{self, Place, bar, say};
use crate::{history, machine};
use anyhow::{Context, Result};
use attacks::{Attack, Target};
use others::Seen;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long, how often, and where it is written.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Repeat all attacks this often and show medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Run each attack for this many seconds
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Keep data here [default: beside the builds]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Write the document here
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Measure this daemon [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    tenure: Option<PathBuf>,
}

const RENEWS: &str = "renewals";
const CLOSES: &str = "closes";
const STATUS: &str = "status";
const MEMORY: &str = "memory";

const HOW: &str = "\
Each attack has a daemon of its own, with its defaults except those in the table of settings. Attackers, the others and \
the daemon share the processors of one machine. Attackers are another user than the others, who are operators. The attack lasts for the given time and is bounded in connections. Meanwhile:

- *Renewals*: one connection renews a lease of its own, one heartbeat at a time, a new one 2 ms after each answer. A \
refused heartbeat counts as refused.
- *Closes*: a connection holds a resource with grace 0 and another one waits for it; the time is from the close of the \
first to the answer of the second.
- *Status*: an operator opens a connection to the socket and asks for the status, every 25 ms.
- *Memory*: the largest resident set of the daemon, less what it was before the attack.
- *Stalls*: what the daemon counted.

A row is the median of the rounds.
";

const SETTINGS: &str =
    "`tenure serve` with its defaults. Raised: leases per principal; off: the breaker, mDNS";

/// Measures until it is done or interrupted; every process that was started is ended either way, and what it wrote is
/// removed.
pub(crate) fn measure(arguments: Arguments, quick: bool, only: Option<String>) -> Result<String> {
    let place = Place::find(arguments.directory.as_deref(), arguments.tenure.as_deref())?;
    let site = place.site();
    peers::until_interrupted(move || report(&arguments, &site, quick, only.as_deref()))
}

fn report(arguments: &Arguments, site: &Site, quick: bool, only: Option<&str>) -> Result<String> {
    let (rounds, seconds) =
        if quick { (1, arguments.seconds.min(1.0)) } else { (arguments.rounds.max(1), arguments.seconds) };
    let (load_before, time) = (machine::load()?, Duration::from_secs_f64(seconds));
    let attacks: Vec<Attack> = Attack::ALL
        .into_iter()
        .filter(|attack| only.is_none_or(|only| attack.as_str().contains(only)))
        .collect();
    let bar = bar(rounds * attacks.len());
    let (mut figures, mut faults) = (Figures::default(), Vec::new());
    for round in 0..rounds {
        for attack in &attacks {
            bar.set_message(attack.as_str());
            match under(site, *attack, time) {
                Ok((seen, said)) => {
                    say(&bar, &format!("{}: {said}", attack.as_str()));
                    keep(&mut figures, round, *attack, &seen);
                }
                Err(fault) => {
                    let fault = format!("{} failed: {fault:#}", attack.as_str());
                    say(&bar, &fault);
                    faults.push(fault);
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let judged = goals::judge(&figures);
    let version = machine::version(&site.tenure).unwrap_or_default();
    let told = [Told { name: "Tenure".to_owned(), version, settings: SETTINGS.to_owned() }];
    let document = Document {
        title: "Worst clients",
        tables: format!("## What others see\n\n{}\n", table(&figures)),
        how: HOW,
        figures: &figures,
        told: &told,
        goals: &judged,
        faults: &faults,
        left_out: &[],
        rounds,
        time,
        load_before,
        command: peers::command(),
    };
    history::keep("worst", &document.kept())?;
    if let Some(file) = &arguments.write {
        std::fs::write(file, document.text()?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let faults: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    Ok(format!("{}{faults}\n{}", document.tables, peers::goals::table(&judged)))
}

/// One attack on a fresh daemon.
fn under(site: &Site, attack: Attack, time: Duration) -> Result<(Seen, String)> {
    let home = Home::make(site, "worst-")?;
    let command = tenure::command(site, &home, 0);
    let server = Server::start(home, command, tenure::is_ready).context("tenure serve")?;
    let socket = tenure::socket(server.home());
    let address = tenure::address(server.home())?;
    let mut target = Target { socket: socket.clone(), address, lease: String::new() };
    attack.prepare(&mut target)?;
    let pid = server.pid().context("the daemon is gone")?;
    let before = others::resident_kib(pid, "VmRSS")?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attackers = attack.begin(scope, &target, &is_over);
        let seen = others::watch(&socket, time);
        is_over.store(true, Ordering::Release);
        let mut done = 0;
        for attacker in attackers {
            done += attacker.join().map_err(|_| anyhow::anyhow!("an attacker broke off"))??;
        }
        let mut seen = seen?;
        seen.grown_kib = others::resident_kib(pid, "VmHWM")?.saturating_sub(before);
        let mut control = Control::open(&socket)?;
        let status = control.ask(&serde_json::json!({"status": {}}))?;
        seen.stalls = status["status"]["stalls"].as_u64().context("no stalls in the status")?;
        let said =
            format!("{} bursts, {} renewals, longest {:?}", done, seen.renewals.count(), seen.renewals.max());
        Ok((seen, said))
    })
}

fn keep(figures: &mut Figures, round: usize, attack: Attack, seen: &Seen) {
    let mut add = |what, quantity, value| {
        figures.add(round, Figure::new(attack.as_str(), what, quantity), value);
    };
    for (what, latencies) in [(RENEWS, &seen.renewals), (CLOSES, &seen.closes), (STATUS, &seen.status)] {
        add(what, Quantity::P50, latencies.p50().as_secs_f64());
        add(what, Quantity::P99, latencies.p99().as_secs_f64());
        add(what, Quantity::Longest, latencies.max().as_secs_f64());
        add(what, Quantity::Count, latencies.count() as f64);
    }
    add(RENEWS, Quantity::Refused, seen.refused as f64);
    add(MEMORY, Quantity::BytesEach, seen.grown_kib as f64 * 1024.0);
    add(STATUS, Quantity::Stalls, seen.stalls as f64);
}

fn table(figures: &Figures) -> String {
    let mut text = String::from(
        "| attack | renewals | refused | p50 ms | p99 ms | longest ms | closes | p50 ms | longest ms | status | p99 ms \
         | longest ms | memory MiB | stalls |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for attack in Attack::ALL {
        let of = |what, quantity| figures.spread(&Figure::new(attack.as_str(), what, quantity));
        let Some(renewals) = of(RENEWS, Quantity::Count) else { continue };
        let ms = |what, quantity| shown(of(what, quantity), 1e3, 1);
        let count = |what, quantity| shown(of(what, quantity), 1.0, 0);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            attack.as_str(),
            grouped(renewals.median),
            count(RENEWS, Quantity::Refused),
            ms(RENEWS, Quantity::P50),
            ms(RENEWS, Quantity::P99),
            ms(RENEWS, Quantity::Longest),
            count(CLOSES, Quantity::Count),
            ms(CLOSES, Quantity::P50),
            ms(CLOSES, Quantity::Longest),
            count(STATUS, Quantity::Count),
            ms(STATUS, Quantity::P99),
            ms(STATUS, Quantity::Longest),
            shown(of(MEMORY, Quantity::BytesEach), 1.0 / 1_048_576.0, 0),
            count(STATUS, Quantity::Stalls),
        );
    }
    text
}
