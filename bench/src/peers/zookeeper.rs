//! ZooKeeper, one server: a lease is an ephemeral node of a session, which lives as long as its session is heard of.

mod contenders;
mod held;
mod jute;
mod protocol;
mod session;

use super::home::{Home, Server, Site, free_port};
use super::peer::{Contention, Held, Load, Peer, Shape};
use super::tasks::runtime;
use super::wire::{Door, Names, Wire};
use crate::gauge;
use crate::process::tied;
use anyhow::{Context, Result, ensure};
use jute::Node;
use session::Session;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::time::timeout;

pub(crate) struct ZooKeeper {
    port: u16,
    server: Server,
    version: String,
}

/// Outlives every run. The server is told to allow it: by default it grants no more than twenty ticks.
const LONG_TIMEOUT: Duration = Duration::from_secs(3_600);
/// As its sample configuration has it. A session's timeout is at least twice that, and ends at the next tick.
const TICK: Duration = Duration::from_secs(2);
/// Asks for the shortest there is, which is 4 s.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
/// Where leases are.
const PARENT: &str = "/leases";
const FAIL_OVER_WITHIN: Duration = Duration::from_secs(30);
/// How long one try may take to see whether it answers.
const TRY_FOR: Duration = Duration::from_millis(500);
/// Where Debian keeps what Java runs; the first names what else it needs. Nothing is logged.
const CLASSES: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar";

/// Whether it is installed; Java is another matter.
pub(crate) fn is_there() -> bool {
    CLASSES.split(':').all(|classes| Path::new(classes).exists())
}

impl ZooKeeper {
    pub(crate) fn start(site: &Site) -> Result<Self> {
        let home = Home::make(site, "zookeeper-")?;
        let port = free_port()?;
        configure(&home, port)?;
        let command = command(&home);
        let server = Server::start(home, command, |_| {
            Ok(try_once(async {
                let mut session = Session::open(port, LONG_TIMEOUT).await?;
                session.create(PARENT, Node::Persistent).await?;
                session.close().await
            })
            .is_ok())
        })
        .context("ZooKeeper")?;
        let version = version(port)?;
        Ok(Self { port, server, version })
    }
}

impl Peer for ZooKeeper {
    fn name(&self) -> &'static str {
        "ZooKeeper"
    }

    fn version(&self) -> String {
        format!("ZooKeeper {}", self.version)
    }

    fn settings(&self) -> &'static str {
        "one server, `forceSync` as by default: synced before every answer; `tickTime=2000`, heap of 2 GiB, \
         `jute.maxbuffer` 64 MiB; a connection is a session, and renew is its ping, which renews all of its nodes; \
         what is held in numbers is held by one session"
    }

    fn pids(&self) -> Vec<u32> {
        self.server.pid().into_iter().collect()
    }

    fn load(&self, shape: Shape) -> Result<Box<dyn Load>> {
        let door =
            Door::Greeted(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), |stream: &mut TcpStream| {
                session::greet(stream, LONG_TIMEOUT)
            });
        let nodes = protocol::Nodes { names: Names::fresh(), parent: PARENT };
        Ok(Box::new(Wire::open(&door, shape, nodes)?))
    }

    fn hold(&self, count: u64, ttl: Duration) -> Result<Box<dyn Held>> {
        Ok(Box::new(held::Nodes::take(self.port, count, ttl)?))
    }

    fn contend(&self, contenders: usize, time: Duration) -> Result<Option<Contention>> {
        contenders::contend(self.port, contenders, time).map(Some)
    }

    /// The holder was heard of the moment before it died.
    fn fail_over(&self) -> Result<Option<Duration>> {
        let taking_over = async {
            let path = format!("{PARENT}/fail-over-of-one");
            let mut holder = Session::open(self.port, SHORTEST_TIMEOUT).await?;
            ensure!(holder.timeout() == TICK * 2, "sessions are granted {:?}", holder.timeout());
            ensure!(holder.create(&path, Node::Ephemeral).await?.is_some(), "the name is not free");
            let mut waiter = Session::open(self.port, LONG_TIMEOUT).await?;
            ensure!(waiter.create(&path, Node::Ephemeral).await?.is_none(), "the name is not held");
            ensure!(waiter.exists(&path, true).await?.is_some(), "the name is not held");
            holder.ping().await?;
            let killed = gauge::now();
            drop(holder);
            waiter.deleted(&path).await?;
            ensure!(waiter.create(&path, Node::Ephemeral).await?.is_some(), "somebody else was granted");
            let took = gauge::now() - killed;
            waiter.close().await?;
            anyhow::Ok(took)
        };
        runtime()?.block_on(async { timeout(FAIL_OVER_WITHIN, taking_over).await })?.map(Some)
    }

    fn restart(&mut self) -> Result<Duration> {
        let (port, probe) = (self.port, format!("{PARENT}/held-all-along-0"));
        // A second time it is there from the first: its session outlives the connection.
        runtime()?.block_on(async {
            Session::open(port, LONG_TIMEOUT).await?.create(&probe, Node::Ephemeral).await
        })?;
        self.server.kill()?;
        let command = command(self.server.home());
        let began = gauge::now();
        self.server.begin(command, |_| {
            let found = try_once(async {
                let mut session = Session::open(port, LONG_TIMEOUT).await?;
                let found = session.exists(&probe, false).await?;
                session.close().await?;
                Ok(found)
            });
            match found {
                Ok(found) => {
                    ensure!(found.is_some(), "it has forgotten what was held");
                    Ok(true)
                }
                Err(_) => Ok(false),
            }
        })?;
        Ok(gauge::now() - began)
    }
}

fn try_once<T>(asking: impl Future<Output = Result<T>>) -> Result<T> {
    runtime()?.block_on(async { timeout(TRY_FOR, asking).await })?
}

/// As it says itself, without the digest of its build.
fn version(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(TRY_FOR))?;
    stream.write_all(b"srvr")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    let (_, rest) = said.split_once("version: ").context("it does not say its version")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    Ok(rest[..end].to_owned())
}

fn configure(home: &Home, port: u16) -> Result<()> {
    let text = format!(
        "dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={port}\ntickTime={}\nmaxSessionTimeout={}\n\
         maxClientCnxns=0\nadmin.enableServer=false\n",
        home.data().join("zookeeper").display(),
        TICK.as_millis(),
        LONG_TIMEOUT.as_millis(),
    );
    Ok(fs::write(home.data().join("zoo.cfg"), text)?)
}

fn command(home: &Home) -> Command {
    let mut command = tied("java");
    command
        .arg("-Xmx2g")
        // A session that ends is one entry of its log, with the names of all of its nodes.
        .arg(format!("-Djute.maxbuffer={}", 64 << 20))
        .args(["-cp", CLASSES, "org.apache.zookeeper.server.ZooKeeperServerMain"])
        .arg(home.data().join("zoo.cfg"));
    command
}
