//! Redis, as people use it for leases: a key with a token and a time to live. With an append-only file that is synced
//! before every answer, without one, and with a script that also gives a fence.

mod benchmark;
mod control;

use super::holder;
use super::home::{Home, Server, Site, free_port};
use super::peer::{Contention, Held, Load, OwnTool, Peer, Shape, Until, Work};
use super::wire::resp::{self, Resp, Scripts, Sha};
use super::wire::{Door, Names, Wire};
use crate::machine;
use crate::process::{block_until, tied};
use anyhow::{Context, Result, ensure};
pub(super) use control::Control;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// How it is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    /// Durable: synced before every answer.
    Always,
    /// Durable, and every acquire is given a fence.
    Fence,
    /// Nothing is written.
    Memory,
}

pub(crate) struct Redis {
    flavour: Flavour,
    server: Server,
    port: u16,
    scripts: Scripts,
}

/// Long enough for every run.
const TTL_MS: u64 = 600_000;
const WAIT_MAX: Duration = Duration::from_secs(120);

impl Redis {
    pub(crate) fn start(site: &Site, flavour: Flavour) -> Result<Self> {
        let home = Home::make(site, "redis-")?;
        let port = free_port()?;
        let command = command(flavour, &home, port);
        let is_ready = |home: &Home| Ok(Control::open(&socket(home)).is_ok_and(|mut it| it.ping().is_ok()));
        let server = Server::start(home, command, is_ready).context("redis-server")?;
        let scripts = load_scripts(&mut Control::open(&socket(server.home()))?, flavour)?;
        Ok(Self { flavour, server, port, scripts })
    }

    /// Where it is spoken to over TCP.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn socket(&self) -> PathBuf {
        socket(self.server.home())
    }

    fn control(&self) -> Result<Control> {
        Control::open(&self.socket())
    }

    fn wire(&self, shape: Shape, ttl_ms: u64) -> Result<Wire<Resp>> {
        let resp = Resp { names: Names::fresh(), scripts: self.scripts, ttl_ms, deadline_ms: None };
        Wire::open(&Door::Unix(self.socket()), shape, resp)
    }
}

impl Peer for Redis {
    fn name(&self) -> &'static str {
        match self.flavour {
            Flavour::Always => "Redis always",
            Flavour::Fence => "Redis always + fence",
            Flavour::Memory => "Redis no AOF",
        }
    }

    fn version(&self) -> String {
        machine::version(Path::new("redis-server")).unwrap_or_default()
    }

    fn settings(&self) -> &'static str {
        match self.flavour {
            Flavour::Always => {
                "`appendonly yes`, `appendfsync always`; acquire is `SET NX PX`, which gives no fence"
            }
            Flavour::Fence => {
                "`appendonly yes`, `appendfsync always`; acquire is a script: `SET NX PX` and `INCR`"
            }
            Flavour::Memory => "`appendonly no`, `save \"\"`: not durable; acquire is `SET NX PX`",
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.server.pid().into_iter().collect()
    }

    fn load(&self, shape: Shape) -> Result<Box<dyn Load>> {
        Ok(Box::new(self.wire(shape, TTL_MS)?))
    }

    fn own_tool(&self, work: Work, shape: Shape, time: Duration) -> Result<Option<OwnTool>> {
        benchmark::run(self, work, shape, time).map(Some)
    }

    fn hold(&self, count: u64, ttl: Duration) -> Result<Box<dyn Held>> {
        let keys_before = self.control()?.number(&[b"DBSIZE"])?;
        let mut wire = self.wire(Shape { connections: 8, depth: 64 }, ttl.as_millis() as u64)?;
        let sample = wire.run(Work::Acquire, Until::Count(count))?;
        ensure!(sample.done == count, "{} of {count} were granted", sample.done);
        Ok(Box::new(Keys { wire, control: self.control()?, keys_before }))
    }

    fn contend(&self, contenders: usize, time: Duration) -> Result<Option<Contention>> {
        self.wire(Shape { connections: contenders, depth: 1 }, TTL_MS)?.contend(time).map(Some)
    }

    fn fail_over(&self) -> Result<Option<Duration>> {
        holder::fail_over(&holder::Place::Redis(self.socket())).map(Some)
    }

    fn restart(&mut self) -> Result<Duration> {
        let keys_before = self.control()?.number(&[b"DBSIZE"])?;
        self.server.kill()?;
        let began = BootInstant::now();
        let command = command(self.flavour, self.server.home(), self.port);
        // It answers while it loads, but only that it is loading.
        self.server.begin(command, |home| {
            Ok(Control::open(&socket(home)).is_ok_and(|mut it| it.number(&[b"DBSIZE"]).is_ok()))
        })?;
        let took = BootInstant::now().since(began);
        let keys = self.control()?.number(&[b"DBSIZE"])?;
        ensure!(keys == keys_before, "{keys} of {keys_before} keys are left");
        load_scripts(&mut self.control()?, self.flavour)?;
        Ok(took)
    }
}

/// Keys that are held.
struct Keys {
    wire: Wire<Resp>,
    control: Control,
    keys_before: u64,
}

impl Held for Keys {
    fn storm(mut self: Box<Self>, from_now: Duration) -> Result<Duration> {
        let deadline_ms = self.control.time_ms()? + from_now.as_millis() as u64;
        let count = self.wire.held().len() as u64;
        self.wire.move_deadlines(deadline_ms)?;
        let now_ms = self.control.time_ms()?;
        ensure!(now_ms < deadline_ms, "moving {count} deadlines took longer than {} s", from_now.as_secs());
        // Physically gone: a read would not find them from the deadline on.
        let Self { control, keys_before, .. } = &mut *self;
        let is_over = block_until(from_now + WAIT_MAX, Duration::from_millis(5), || {
            Ok(control.number(&[b"DBSIZE"])? <= *keys_before)
        })?;
        ensure!(is_over, "keys are left {} s after their deadline", WAIT_MAX.as_secs());
        Ok(Duration::from_millis(self.control.time_ms()?.saturating_sub(deadline_ms)))
    }
}

impl Wire<Resp> {
    /// One deadline for all that is held, in milliseconds since 1970.
    fn move_deadlines(&mut self, deadline_ms: u64) -> Result<()> {
        self.protocol_mut().deadline_ms = Some(deadline_ms);
        self.renew_each()
    }
}

/// Loads what leases need.
fn load_scripts(control: &mut Control, flavour: Flavour) -> Result<Scripts> {
    let mut load = |script: &str| -> Result<Sha> {
        let sha = control.text(&[b"SCRIPT", b"LOAD", script.as_bytes()])?;
        sha.into_bytes().try_into().ok().context("no digest of 40 digits")
    };
    Ok(Scripts {
        renew: load(resp::RENEW)?,
        release: load(resp::RELEASE)?,
        fence: if flavour == Flavour::Fence { Some(load(resp::FENCE)?) } else { None },
        acquire_bundle: load(resp::ACQUIRE_BUNDLE)?,
        release_bundle: load(resp::RELEASE_BUNDLE)?,
    })
}

fn socket(home: &Home) -> PathBuf {
    home.run().join("socket")
}

fn command(flavour: Flavour, home: &Home, port: u16) -> Command {
    let mut command = tied("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--daemonize", "no", "--save", ""])
        .arg("--unixsocket")
        .arg(socket(home))
        .arg("--dir")
        .arg(home.data());
    match flavour {
        Flavour::Always | Flavour::Fence => command.args(["--appendonly", "yes", "--appendfsync", "always"]),
        Flavour::Memory => command.args(["--appendonly", "no"]),
    };
    command
}
