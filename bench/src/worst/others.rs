//! Everybody else: a holder that renews, connections that close, an operator.

use crate::gauge::now;
use crate::peers::latencies::Latencies;
use crate::peers::tenure::Control;
use crate::process::pause;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const RENEW_EVERY: Duration = Duration::from_millis(2);
const ASK_EVERY: Duration = Duration::from_millis(25);
const WAIT_MS: u64 = 30_000;

/// What they saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) renewals: Latencies,
    pub(crate) refused: u64,
    pub(crate) closes: Latencies,
    pub(crate) status: Latencies,
    pub(crate) grown_kib: u64,
    pub(crate) stalls: u64,
}

/// Renews, closes and asks for the status as other clients do, for this long.
pub(crate) fn watch(socket: &Path, time: Duration) -> Result<Seen> {
    let until = now() + time;
    std::thread::scope(|scope| {
        let renewing = scope.spawn(|| renew(socket, until));
        let closing = scope.spawn(|| close(socket, until));
        let asking = scope.spawn(|| ask(socket, until));
        let broke_off = || anyhow::anyhow!("a thread broke off");
        let (renewals, refused) = renewing.join().map_err(|_| broke_off())?.context("renewing")?;
        let closes = closing.join().map_err(|_| broke_off())?.context("closing")?;
        let status = asking.join().map_err(|_| broke_off())?.context("asking for the status")?;
        Ok(Seen { renewals, refused, closes, status, ..Seen::default() })
    })
}

fn renew(socket: &Path, until: Instant) -> Result<(Latencies, u64)> {
    let mut control = Control::open(socket)?;
    let acquire = json!({"acquire": {"resources": ["others/kept"], "holder": "other", "ttl_ms": 60_000}});
    let lease = acquired(&control.ask(&acquire)?)?;
    let beat = json!({"heartbeat": {"lease_id": lease, "epoch": 1}});
    let (mut latencies, mut refused) = (Latencies::new(), 0);
    while now() < until {
        let asked = now();
        let answer = control.ask(&beat)?;
        latencies.add(now() - asked);
        refused += u64::from(answer.get("error").is_some());
        pause(RENEW_EVERY);
    }
    Ok((latencies, refused))
}

fn close(socket: &Path, until: Instant) -> Result<Latencies> {
    let mut latencies = Latencies::new();
    let mut waiting = Control::open(socket)?;
    for round in 0_u64.. {
        if now() >= until {
            break;
        }
        let name = format!("others/close/{round}");
        let body =
            |wait_ms: u64| json!({"resources": [name], "holder": "other", "grace_ms": 0, "wait_ms": wait_ms});
        let mut holding = Control::open(socket)?;
        acquired(&holding.ask(&json!({"acquire": body(0)}))?)?;
        waiting.say(&json!({"acquire": body(WAIT_MS), "tag": 1}))?;
        // Answered behind it: the wait has begun.
        waiting.ask(&json!({"status": {}, "tag": 2}))?;
        let closed = now();
        drop(holding);
        let lease = acquired(&waiting.hear()?)?;
        latencies.add(now() - closed);
        waiting.ask(&json!({"release": {"lease_id": lease, "epoch": 1}}))?;
        pause(ASK_EVERY);
    }
    Ok(latencies)
}

fn ask(socket: &Path, until: Instant) -> Result<Latencies> {
    let mut latencies = Latencies::new();
    while now() < until {
        let asked = now();
        let answer = Control::open(socket)?.ask(&json!({"status": {}}))?;
        ensure!(answer["status"].is_object(), "the daemon says {answer}");
        latencies.add(now() - asked);
        pause(ASK_EVERY);
    }
    Ok(latencies)
}

fn acquired(answer: &Value) -> Result<String> {
    let lease = answer["acquired"]["lease_id"].as_str();
    lease.map(str::to_owned).with_context(|| format!("the daemon says {answer}"))
}

/// A line of what the system says about a process's memory.
pub(crate) fn resident_kib(pid: u32, what: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")).context("no such line")?;
    Ok(kib.trim().parse()?)
}
