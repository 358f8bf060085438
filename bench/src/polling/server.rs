//! What the pollers agree through, as people run it: `tenure serve` with its durable defaults, or `redis-server` with an
//! append-only file that is synced every second. Each in a directory of its own, on a socket there.

use crate::process::{Process, tied, wait_until};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tenure_client::{Client, Endpoint};

/// How long a store may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take to say what it counted.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What clients of Redis send. Everything else is called by scripts.
const SENT_BY_CLIENTS: &[&str] = &[
    "auth",
    "client",
    "cluster",
    "eval",
    "evalsha",
    "hello",
    "ping",
    "scan",
    "script",
    "select",
    "ssubscribe",
    "subscribe",
];

/// Which store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum StoreKind {
    Tenure,
    Redis,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tenure => "tenure",
            Self::Redis => "redis",
        })
    }
}

/// What a store was asked since it started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Calls of clients.
    pub(super) calls: u64,
    /// Commands carried out, those inside scripts included; the same as calls where there are no scripts.
    pub(super) commands: u64,
}

pub(super) struct StoreServer {
    kind: StoreKind,
    // Before its directory: whoever writes there goes first.
    process: Process,
    directory: TempDir,
}

impl StoreServer {
    pub(super) async fn start(kind: StoreKind, tenure: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("tenure-bench-").tempdir()?;
        let said = File::create(directory.path().join("said"))?;
        let mut command = match kind {
            StoreKind::Tenure => serve(tenure, directory.path()),
            StoreKind::Redis => redis(directory.path()),
        };
        command.stdout(said.try_clone()?).stderr(said);
        let process = Process::start(&mut command)?;
        let mut server = Self { kind, process, directory };
        server.wait_until_ready().await?;
        Ok(server)
    }

    pub(super) fn kind(&self) -> StoreKind {
        self.kind
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("store.sock")
    }

    /// Every thread of it stands still: who is connected stays so and hears nothing.
    pub(super) fn freeze(&self) -> Result<()> {
        self.process.signal(Signal::STOP)
    }

    pub(super) fn thaw(&self) -> Result<()> {
        self.process.signal(Signal::CONT)
    }

    /// What it was asked until now; this question is not counted.
    pub(super) async fn asked(&self) -> Result<Asked> {
        match self.kind {
            StoreKind::Tenure => {
                let client = Client::builder(Endpoint::Unix(self.socket())).build()?;
                let calls = count_requests(&client.metrics().await?);
                Ok(Asked { calls, commands: calls })
            }
            StoreKind::Redis => {
                let stats = self.redis_says("INFO commandstats")?;
                count_commands(&stats).context("the Redis does not say what it was asked")
            }
        }
    }

    /// The answer of the Redis to one command.
    fn redis_says(&self, command: &str) -> Result<String> {
        let mut connection = UnixStream::connect(self.socket())?;
        connection.set_read_timeout(Some(ANSWER_WITHIN))?;
        connection.write_all(format!("{command}\r\n").as_bytes())?;
        let mut answer = BufReader::new(connection);
        let mut head = String::new();
        answer.read_line(&mut head)?;
        let Some(length) = head.trim_end().strip_prefix('$') else { return Ok(head.trim_end().to_owned()) };
        let mut text = vec![0; length.parse().context("no length")?];
        answer.read_exact(&mut text)?;
        Ok(String::from_utf8(text)?)
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let client = Client::builder(Endpoint::Unix(self.socket())).build()?;
        let answers = async {
            loop {
                let is_ready = match self.kind {
                    StoreKind::Tenure => client.metrics().await.is_ok(),
                    StoreKind::Redis => self.redis_says("PING").is_ok_and(|answer| answer == "+PONG"),
                };
                if is_ready {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let is_ready = tokio::time::timeout(READY_WITHIN, answers).await.is_ok();
        let ended = self.process.ended()?;
        if !is_ready || ended.is_some() {
            let said = fs::read_to_string(self.directory.path().join("said")).unwrap_or_default();
            bail!("{} is not ready ({ended:?}): {said}", self.kind);
        }
        Ok(())
    }

    /// Stops it in order.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let is_over = wait_until(READY_WITHIN, || Ok(self.process.ended()?.is_some())).await?;
        ensure!(is_over, "{} does not stop", self.kind);
        Ok(())
    }
}

fn serve(tenure: &Path, directory: &Path) -> Command {
    let mut command = tied(tenure);
    // Settings of a daemon that is meant to stay are not for this one.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
        command.env_remove(name);
    }
    command
        .args(["serve", "--config", "/dev/null", "--no-mdns", "--run-dir", "", "--port", "0", "--socket"])
        .arg(directory.join("store.sock"))
        .arg("--data-dir")
        .arg(directory.join("data"));
    command
}

fn redis(directory: &Path) -> Command {
    let mut command = tied("redis-server");
    command
        .args(["--port", "0", "--daemonize", "no", "--save", "", "--appendonly", "yes"])
        .args(["--appendfsync", "everysec", "--unixsocket"])
        .arg(directory.join("store.sock"))
        .arg("--dir")
        .arg(directory);
    command
}

/// Requests over HTTP in the daemon's numbers, except for the numbers themselves.
fn count_requests(metrics: &str) -> u64 {
    let is_request =
        |line: &&str| line.starts_with("tenure_http_requests_total{") && !line.contains("route=\"/metrics\"");
    let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
    metrics.lines().filter(is_request).filter_map(count).sum()
}

/// What `INFO commandstats` tells: `cmdstat_config|get:calls=1,usec=…`.
fn count_commands(stats: &str) -> Option<Asked> {
    let mut asked = Asked { calls: 0, commands: 0 };
    for line in stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (name, numbers) = line.split_once(':')?;
        let count: u64 = numbers.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
        let command = name.split('|').next()?;
        if command == "info" {
            continue;
        }
        asked.commands += count;
        if SENT_BY_CLIENTS.contains(&command) {
            asked.calls += count;
        }
    }
    Some(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_the_numbers_themselves_do_not_count() {
        let metrics = "# HELP tenure_http_requests_total Requests.\n\
            tenure_http_requests_total{route=\"/metrics\",method=\"GET\",status=\"200\"} 3\n\
            tenure_http_requests_total{route=\"/v1/leases\",method=\"POST\",status=\"201\"} 40\n\
            tenure_http_requests_total{route=\"/v1/events\",method=\"GET\",status=\"200\"} 2\n\
            tenure_http_request_seconds_count{route=\"/v1/events\"} 2\n";
        assert_eq!(count_requests(metrics), 42);
    }

    #[test]
    fn commands_inside_scripts_are_no_calls() {
        let stats = "# Commandstats\r\ncmdstat_evalsha:calls=7,usec=70\r\ncmdstat_pexpire:calls=700,usec=1\r\n\
            cmdstat_script|load:calls=2,usec=1\r\ncmdstat_info:calls=1,usec=1\r\n";
        let asked = count_commands(stats).unwrap();
        assert_eq!((asked.calls, asked.commands), (9, 709));
    }
}
