//! The document that a run writes: on what, with what, how each peer was asked, the goals, the tables, what failed.

use super::goals;
use super::rows::Told;
use crate::machine;
use crate::peers::figures::Figures;
use anyhow::Result;
use std::fmt::Write as _;
use std::time::Duration;
use tenure_client::clock::{BootInstant, wall_time};

/// All that a run has to tell.
pub(crate) struct Document<'a> {
    pub(crate) title: &'static str,
    /// As Markdown, each with its heading.
    pub(crate) tables: String,
    /// How it was measured, as Markdown.
    pub(crate) how: &'static str,
    pub(crate) figures: &'a Figures,
    pub(crate) told: &'a [Told],
    pub(crate) goals: &'a [goals::Judged],
    pub(crate) faults: &'a [String],
    /// Peers that were left out, and why.
    pub(crate) left_out: &'a [String],
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
    pub(crate) load_before: String,
    /// As it was asked for.
    pub(crate) command: String,
}

/// How the work is alike, and where it cannot be.
pub(crate) const HOW: &str = "\
Every server runs alone, on loopback, with its data in a directory of its own on the same disk. In each round one kind \
of work after the other goes through all peers, each started anew for it, so that what is compared lies close together \
in time; the order of the peers turns by one each round. A row is the median of the rounds with the lowest and the \
highest; a ratio is taken within each round, and then the median of the ratios. One thread makes the load; what is in \
flight is connections × requests on each, and as answers come, as much is asked again. Names are fresh for every \
acquire, 16 bytes; renewals pick any lease that the load holds; server CPU is user and system time of its processes by \
operations done. A quarter of the time goes before, uncounted, to warm the server up; and before each kind of work it is \
waited until the server writes nothing any more, 5 s at most.

- Tenure: lines over its Unix socket, or HTTP/1.1 with one request at a time on each connection. Redis: `SET NX PX`, \
renewed and released by scripts that compare the token, from the same lean load over its Unix socket; and \
`redis-benchmark` over TCP, as people run it. Its keys are drawn at random from 2³¹: of a million about 230 are not \
fresh, and are refused without a write. Its renewals are of one hot key.
- Bundle: eight names or none. Redis: a script of eight `EXISTS`, eight `SET PX` and an `INCR`.
- Contention: each of 64 connections takes one name, gives it back at once and tries again. With Tenure they stand in \
line; with Redis they try again as soon as they are refused.
- Killed holder: a process that holds a name is killed with SIGKILL, and another one waits for it. Tenure: a lease of \
the connection with grace 0. Redis: ttl 1 s, the shortest that people use, renewed three times in it; who waits tries \
every 10 ms. etcd, ZooKeeper: the shortest ttl that they allow. PostgreSQL: ttl 1 s, tried every 10 ms.
- One deadline for many: Tenure, one session by hand that falls silent, breaker off; Redis, one `PEXPIREAT` for all; \
gone is what the server has physically removed. Meanwhile one connection renews a lease every millisecond, sent when \
it is due whether or not the one before was answered, and counted from then.
- Held leases: growth of resident memory; idle is 10 s without any request; then killed with SIGKILL and started \
again on the same data, until a lease is answered for.
";

impl Document<'_> {
    /// As Markdown.
    pub(crate) fn text(&self) -> Result<String> {
        let mut text = String::new();
        let _ = writeln!(text, "# {}, {}\n", self.title, &wall_time(BootInstant::now())[..10]);
        let _ = writeln!(text, "`{}`: {}. {}\n", self.command, machine::described()?, self.lengths());
        let (before, after) = (&self.load_before, machine::load()?);
        let _ = writeln!(text, "Load average {before} before, {after} after.\n");
        let _ = writeln!(text, "## Goals\n\n{}", goals::table(self.goals));
        text.push_str(&self.tables);
        if !self.faults.is_empty() {
            let _ = writeln!(text, "## What could not be measured\n");
            for fault in self.faults {
                let _ = writeln!(text, "- {}", fault.replace('\n', " "));
            }
            text.push('\n');
        }
        let _ = writeln!(text, "## Settings\n\n| peer | version | settings |\n|---|---|---|");
        for Told { name, version, settings } in self.told {
            let _ = writeln!(text, "| {name} | {version} | {settings} |");
        }
        text.push('\n');
        for left_out in self.left_out {
            let _ = writeln!(text, "{left_out}\n");
        }
        let _ = write!(text, "## How\n\n{}", self.how);
        Ok(text)
    }

    /// What is kept beside the document.
    pub(crate) fn kept(&self) -> serde_json::Value {
        self.figures.to_json()
    }

    fn lengths(&self) -> String {
        format!("{} rounds, {} s for each kind of work", self.rounds, self.time.as_secs_f64())
    }
}
