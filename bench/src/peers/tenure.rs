//! Tenure: the daemon as it is built here, with its durable defaults, over its socket or over HTTP.

pub(crate) mod control;

use super::holder;
use super::home::{Home, Server, Site};
use super::peer::{Contention, Held, Load, Peer, Shape, Until, Work};
use super::wire::http::Http;
use super::wire::lines::{Granted, Kept, Lines};
use super::wire::{Door, Names, Wire};
use crate::machine;
use crate::process::{block_until, tied};
use anyhow::{Context, Result, ensure};
pub(crate) use control::Control;
use control::{Session, leases};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// How it is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Socket,
    Http,
}

pub(crate) struct Tenure {
    site: Site,
    transport: Transport,
    server: Server,
    address: SocketAddr,
    /// One of the leases that are held, to ask for after a restart.
    held: RefCell<Option<Granted>>,
}

/// Long enough for every run.
const TTL_MS: u64 = 600_000;
const WAIT_MAX: Duration = Duration::from_secs(120);

impl Tenure {
    pub(crate) fn start(site: &Site, transport: Transport) -> Result<Self> {
        let home = Home::make(site, "tenure-")?;
        let command = command(site, &home, 0);
        let server = Server::start(home, command, is_ready).context("tenure serve")?;
        let address = address(server.home())?;
        Ok(Self { site: site.clone(), transport, server, address, held: RefCell::new(None) })
    }

    fn socket(&self) -> PathBuf {
        socket(self.server.home())
    }

    fn lines(&self, shape: Shape, kept: Kept) -> Result<Wire<Lines>> {
        Wire::open(&Door::Unix(self.socket()), shape, Lines { names: Names::fresh(), kept })
    }
}

impl Peer for Tenure {
    fn name(&self) -> &'static str {
        match self.transport {
            Transport::Socket => "Tenure",
            Transport::Http => "Tenure HTTP",
        }
    }

    fn version(&self) -> String {
        machine::version(&self.site.tenure).unwrap_or_default()
    }

    fn settings(&self) -> &'static str {
        match self.transport {
            Transport::Socket => {
                "`tenure serve` with its defaults: synced before every answer; every lease has a fence; lines over the \
                 Unix socket. Raised: leases per principal; off: the breaker, mDNS. Held leases belong to one session \
                 by hand"
            }
            Transport::Http => {
                "the same over HTTP/1.1 on 127.0.0.1, one request at a time on each connection"
            }
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.server.pid().into_iter().collect()
    }

    fn load(&self, shape: Shape) -> Result<Box<dyn Load>> {
        match self.transport {
            Transport::Socket => Ok(Box::new(self.lines(shape, Kept::Ttl(TTL_MS))?)),
            Transport::Http => {
                let shape = Shape { connections: shape.connections * shape.depth, depth: 1 };
                let http = Http::new(Names::fresh(), Kept::Ttl(TTL_MS), &self.address.to_string());
                Ok(Box::new(Wire::open(&Door::Tcp(self.address), shape, http)?))
            }
        }
    }

    fn hold(&self, count: u64, ttl: Duration) -> Result<Box<dyn Held>> {
        let mut control = Control::open(&self.socket())?;
        let leases_before = leases(&mut control)?;
        let session = Session::open(&self.socket(), ttl)?;
        let mut wire =
            self.lines(Shape { connections: 8, depth: 64 }, Kept::Session(session.id().to_owned()))?;
        let sample = wire.run(Work::Acquire, Until::Count(count))?;
        ensure!(sample.done == count, "{} of {count} were granted", sample.done);
        *self.held.borrow_mut() = wire.held().last().copied();
        Ok(Box::new(Leases { control, session, leases_before }))
    }

    fn contend(&self, contenders: usize, time: Duration) -> Result<Option<Contention>> {
        let shape = Shape { connections: contenders, depth: 1 };
        self.lines(shape, Kept::Ttl(TTL_MS))?.contend(time).map(Some)
    }

    fn fail_over(&self) -> Result<Option<Duration>> {
        holder::fail_over(&holder::Place::Tenure(self.socket())).map(Some)
    }

    fn restart(&mut self) -> Result<Duration> {
        let held = self.held.borrow().context("nothing is held")?;
        self.server.kill()?;
        let began = BootInstant::now();
        let command = command(&self.site, self.server.home(), 0);
        self.server.begin(command, |home| {
            Ok(Control::open(&socket(home))
                .is_ok_and(|mut control| control.is_active(&held).unwrap_or(false)))
        })?;
        let took = BootInstant::now().since(began);
        self.address = address(self.server.home())?;
        Ok(took)
    }
}

/// Leases of one session by hand.
struct Leases {
    control: Control,
    session: Session,
    leases_before: u64,
}

impl Held for Leases {
    fn storm(self: Box<Self>, from_now: Duration) -> Result<Duration> {
        let Self { mut control, session, leases_before } = *self;
        ensure!(session.ttl() == from_now, "a session's ttl is given when it is opened");
        let silent_since = session.fall_silent()?;
        let deadline = silent_since.after(from_now);
        let is_over = block_until(from_now + WAIT_MAX, Duration::from_millis(5), || {
            Ok(leases(&mut control)? <= leases_before)
        })?;
        ensure!(is_over, "leases are left {} s after their deadline", WAIT_MAX.as_secs());
        Ok(BootInstant::now().since(deadline))
    }
}

pub(crate) fn socket(home: &Home) -> PathBuf {
    home.run().join("socket")
}

pub(crate) fn is_ready(home: &Home) -> Result<bool> {
    Ok(home.run().join("daemon.json").exists() && Control::open(&socket(home)).is_ok())
}

/// As it tells programs on this machine.
pub(crate) fn address(home: &Home) -> Result<SocketAddr> {
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(home.run().join("daemon.json"))?).context("daemon.json")?;
    let endpoint = told["endpoint"].as_str().context("no endpoint")?;
    let address = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
    address.parse().with_context(|| format!("{endpoint} is no address"))
}

/// As it is started for a measurement; port 0 is any.
pub(crate) fn command(site: &Site, home: &Home, port: u16) -> Command {
    let mut command = tied(&site.tenure);
    // Settings of a daemon that is meant to stay are not for this one.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
        command.env_remove(name);
    }
    command
        .args(["serve", "--config", "/dev/null", "--no-mdns", "--sessions-pools", ""])
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--socket"])
        .arg(socket(home))
        .arg("--run-dir")
        .arg(home.run())
        .arg("--data-dir")
        .arg(home.data().join("data"))
        .args(["--breaker-fraction", "1.0", "--limits-leases-per-principal", "100000000"])
        .args(["--limits-leases", "100000000"]);
    command
}
