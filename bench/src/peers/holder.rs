//! Fail-over: a process that holds a name is killed, and somebody waits for it. The holder is this program again, so
//! that it dies as programs do.

use super::redis;
use super::tenure;
use crate::process::{Process, block_until, pause, tied};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// What a holder is told.
#[derive(clap::Args)]
pub(crate) struct HolderOrders {
    /// A daemon's socket
    #[arg(long)]
    tenure: Option<PathBuf>,
    /// A Redis' socket
    #[arg(long)]
    redis: Option<PathBuf>,
    name: String,
}

/// Where a name is held.
pub(super) enum Place {
    Tenure(PathBuf),
    Redis(PathBuf),
}

/// Shortest time to live that people use with Redis; its holder renews three times in it.
const SHORT_TTL: Duration = Duration::from_secs(1);
/// Who waits for a key has no other way than to try again.
const POLL_EVERY: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Deaths are spread over a renewal interval in so many steps.
const PHASES: u32 = 20;

/// Holds until it is killed. Says so with one line.
#[expect(clippy::print_stdout, reason = "whoever started it waits for the line")]
pub(crate) fn hold(orders: &HolderOrders) -> Result<()> {
    let HolderOrders { tenure, redis, name } = orders;
    match (tenure, redis) {
        (Some(socket), None) => {
            let mut control = tenure::Control::open(socket)?;
            let answer = control.ask(&acquire(name))?;
            ensure!(answer["acquired"].is_object(), "not granted: {answer}");
            println!("held");
            // Until the daemon goes, which it does not before the holder does.
            control.wait_for_end()
        }
        (None, Some(socket)) => {
            let mut control = redis::Control::open(socket)?;
            ensure!(set(&mut control, name, "holder")?, "not granted");
            println!("held");
            loop {
                pause(SHORT_TTL / 3);
                let ttl_ms = SHORT_TTL.as_millis().to_string();
                control.number(&[b"PEXPIRE", name.as_bytes(), ttl_ms.as_bytes()])?;
            }
        }
        _ => bail!("one of --tenure and --redis"),
    }
}

/// A holder is killed; how long until the next has the name.
pub(super) fn fail_over(place: &Place) -> Result<Duration> {
    static SAMPLE: AtomicU32 = AtomicU32::new(0);
    let sample = SAMPLE.fetch_add(1, Ordering::Relaxed);
    let name = format!("failover-{sample:07}");
    let (option, socket) = match place {
        Place::Tenure(socket) => ("--tenure", socket),
        Place::Redis(socket) => ("--redis", socket),
    };
    let mut command = tied(std::env::current_exe()?);
    command.args(["holder", &name, option]).arg(socket).stdout(Stdio::piped());
    let mut holder = Process::start(&mut command)?;
    let output = holder.take_output().context("no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line == "held\n", "the holder does not hold");
    match place {
        Place::Tenure(socket) => succeed_tenure(&holder, socket, &name),
        Place::Redis(socket) => {
            pause(SHORT_TTL / 3 * (sample * 7 % PHASES) / PHASES);
            succeed_redis(&holder, socket, &name)
        }
    }
}

fn succeed_tenure(holder: &Process, socket: &Path, name: &str) -> Result<Duration> {
    let mut waiter = tenure::Control::open(socket)?;
    let mut wanted = acquire(name);
    wanted["acquire"]["wait_ms"] = json!(WAIT_MAX.as_millis() as u64);
    wanted["tag"] = json!(1);
    waiter.say(&wanted)?;
    // A line with a tag is nobody's predecessor: it stands in line once the daemon says so.
    let in_line = || {
        let answer = waiter.ask(&json!({"status": {}}))?;
        Ok(answer["status"]["waiters"].as_u64().is_some_and(|waiters| waiters > 0))
    };
    ensure!(block_until(WAIT_MAX, POLL_EVERY, in_line)?, "nobody stands in line");
    let killed = BootInstant::now();
    holder.signal(Signal::KILL)?;
    let answer = waiter.hear()?;
    let took = BootInstant::now().since(killed);
    ensure!(answer["acquired"].is_object(), "not granted: {answer}");
    Ok(took)
}

fn succeed_redis(holder: &Process, socket: &Path, name: &str) -> Result<Duration> {
    let mut waiter = redis::Control::open(socket)?;
    let killed = BootInstant::now();
    holder.signal(Signal::KILL)?;
    for _ in 0..WAIT_MAX.as_millis() / POLL_EVERY.as_millis() {
        if set(&mut waiter, name, "waiter")? {
            return Ok(BootInstant::now().since(killed));
        }
        pause(POLL_EVERY);
    }
    bail!("the key of a dead holder is still there")
}

/// A lease of the connection, without grace.
fn acquire(name: &str) -> serde_json::Value {
    json!({"acquire": {"resources": [name], "holder": "bench", "grace_ms": 0}})
}

fn set(control: &mut redis::Control, name: &str, token: &str) -> Result<bool> {
    let ttl_ms = SHORT_TTL.as_millis().to_string();
    let words: [&[u8]; 6] = [b"SET", name.as_bytes(), token.as_bytes(), b"NX", b"PX", ttl_ms.as_bytes()];
    Ok(control.text(&words)? == "OK")
}
