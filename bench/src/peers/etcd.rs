//! etcd, one member: a key that is created if it is not there, with a lease whose end takes the key along. Each name
//! with a lease of its own, as long as holders know nothing of each other; or one lease for all names of a holder.

pub(crate) mod connection;
mod contenders;
mod held;
mod load;
pub(crate) mod messages;

use super::home::{Home, Server, Site, free_port};
use super::peer::{Contention, Held, Load, Peer, Shape};
use super::tasks::runtime;
use crate::gauge;
use crate::process::tied;
use anyhow::{Context, Result, ensure};
use connection::Connection;
use messages::{Compare, PutRequest, RangeRequest, TxnRequest, TxnResponse};
use std::process::Command;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;

/// Which names a lease keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leases {
    /// Each name has one of its own, granted with it.
    Each,
    /// One keeps everything of a load.
    Shared,
}

pub(crate) struct Etcd {
    leases: Leases,
    ports: Ports,
    server: Server,
    version: String,
}

#[derive(Clone, Copy)]
struct Ports {
    /// For us.
    client: u16,
    /// For members of its cluster, which it has none of.
    peer: u16,
}

/// Outlives every run.
const LONG_TTL: i64 = 3_600;
/// One second is asked for and two are given: half as much again as the election takes at most (1 s by default), in
/// whole seconds.
const SHORTEST_TTL: i64 = 1;
/// How long a waiter waits for a holder that died.
const FAIL_OVER_WITHIN: Duration = Duration::from_secs(30);
/// How long one try may take to see whether it answers.
const TRY_FOR: Duration = Duration::from_millis(500);
/// Connections of a load at most: requests share them, which is faster than one each.
const CONNECTIONS_MAX: usize = 8;

impl Etcd {
    pub(crate) fn start(site: &Site, leases: Leases) -> Result<Self> {
        let home = Home::make(site, "etcd-")?;
        let ports = Ports { client: free_port()?, peer: free_port()? };
        let command = command(&home, ports);
        let mut version = String::new();
        let is_ready = |_: &Home| {
            let Ok(status) = ask_once(ports, async |etcd| etcd.status().await) else { return Ok(false) };
            version = status.version;
            Ok(status.leader != 0)
        };
        let server = Server::start(home, command, is_ready).context("etcd")?;
        Ok(Self { leases, ports, server, version })
    }

    /// Takes one name for long.
    fn probe(&self, name: &str) -> Result<()> {
        ask_once(self.ports, async |etcd| {
            let lease = etcd.grant(LONG_TTL).await?.id;
            etcd.put(PutRequest { key: name.into(), value: Vec::new(), lease }).await
        })?;
        Ok(())
    }
}

impl Peer for Etcd {
    fn name(&self) -> &'static str {
        match self.leases {
            Leases::Each => "etcd",
            Leases::Shared => "etcd, one lease",
        }
    }

    fn version(&self) -> String {
        format!("etcd {}", self.version)
    }

    fn settings(&self) -> &'static str {
        match self.leases {
            Leases::Each => {
                "one member, synced before every answer; acquire is `LeaseGrant` and `Txn`, two proposals; renew is \
                 a keep-alive, in memory, one stream for each connection; release is `LeaseRevoke`; at most 8 connections"
            }
            Leases::Shared => {
                "one member, synced before every answer; one lease for all of a load: acquire and release are one \
                 `Txn` each, renew keeps everything; at most 8 connections"
            }
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.server.pid().into_iter().collect()
    }

    fn load(&self, shape: Shape) -> Result<Box<dyn Load>> {
        Ok(Box::new(load::EtcdLoad::open(self.ports.client, self.leases, shape)?))
    }

    fn hold(&self, count: u64, ttl: Duration) -> Result<Box<dyn Held>> {
        Ok(Box::new(held::Keys::take(self.ports.client, self.leases, count, ttl)?))
    }

    fn contend(&self, contenders: usize, time: Duration) -> Result<Option<Contention>> {
        contenders::contend(self.ports.client, contenders, time).map(Some)
    }

    /// The holder was renewed the moment before it died.
    fn fail_over(&self) -> Result<Option<Duration>> {
        let taking_over = async {
            let name = "fail-over-of-one";
            let mut holder = Connection::open(self.ports.client).await?;
            let lease = holder.grant(SHORTEST_TTL).await?.id;
            ensure!(holder.txn(take(name, lease)).await?.succeeded, "the name is not free");
            let mut waiter = Connection::open(self.ports.client).await?;
            let own = waiter.grant(LONG_TTL).await?.id;
            let refused = waiter.txn(take(name, own)).await?;
            ensure!(!refused.succeeded, "the name is not held");
            let (mut watch, watch_id) = waiter.watch(name.as_bytes(), revision(&refused) + 1).await?;
            let (keep_alive, _) = holder.keep_alive(lease).await?;
            let killed = gauge::now();
            drop((keep_alive, holder));
            watch.deleted(watch_id).await?;
            ensure!(waiter.txn(take(name, own)).await?.succeeded, "somebody else was granted");
            let took = gauge::now() - killed;
            waiter.revoke(own).await?;
            anyhow::Ok(took)
        };
        runtime()?.block_on(async { timeout(FAIL_OVER_WITHIN, taking_over).await })?.map(Some)
    }

    fn restart(&mut self) -> Result<Duration> {
        const PROBE: &str = "held-all-along-0";
        self.probe(PROBE)?;
        self.server.kill()?;
        let ports = self.ports;
        let command = command(self.server.home(), ports);
        let began = gauge::now();
        self.server.begin(command, |_| {
            let is_there = async |etcd: &mut Connection| {
                etcd.range(RangeRequest { key: PROBE.into(), count_only: true, ..RangeRequest::default() })
                    .await
            };
            match ask_once(ports, is_there) {
                Ok(found) => {
                    ensure!(found.count == 1, "it has forgotten what was held");
                    Ok(true)
                }
                Err(_) => Ok(false),
            }
        })?;
        Ok(gauge::now() - began)
    }
}

/// The load on a member that somebody else has started.
pub(crate) fn load_on(port: u16, leases: Leases, shape: Shape) -> Result<Box<dyn Load>> {
    Ok(Box::new(load::EtcdLoad::open(port, leases, shape)?))
}

/// One question to whoever listens on this port of loopback, on a connection of its own.
pub(crate) fn ask_at<T>(port: u16, ask: impl AsyncFnOnce(&mut Connection) -> Result<T, Status>) -> Result<T> {
    let asking = async {
        let mut etcd = Connection::open(port).await?;
        anyhow::Ok(ask(&mut etcd).await?)
    };
    runtime()?.block_on(async { timeout(TRY_FOR, asking).await })?
}

/// Creates a key that must not exist, with a lease.
fn take(name: &str, lease: i64) -> TxnRequest {
    take_all(&[name], lease)
}

/// Creates all of these keys if none of them exists.
fn take_all(names: &[impl AsRef<str>], lease: i64) -> TxnRequest {
    let put = |name: &str| PutRequest { key: name.into(), value: Vec::new(), lease }.into();
    TxnRequest {
        compare: names.iter().map(|name| Compare::is_absent(name.as_ref())).collect(),
        success: names.iter().map(|name| put(name.as_ref())).collect(),
        failure: Vec::new(),
    }
}

fn revision(answer: &TxnResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header| header.revision)
}

/// One question on a connection of its own.
fn ask_once<T>(ports: Ports, ask: impl AsyncFnOnce(&mut Connection) -> Result<T, Status>) -> Result<T> {
    ask_at(ports.client, ask)
}

fn command(home: &Home, ports: Ports) -> Command {
    let Ports { client, peer } = ports;
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = tied("etcd");
    command
        .args(["--name", "only", "--logger", "zap", "--log-level", "error"])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("only={peer}")])
        // Its largest: nobody compacts here.
        .args(["--quota-backend-bytes", &(8_u64 << 30).to_string()])
        .arg("--data-dir")
        .arg(home.data().join("etcd"));
    command
}
