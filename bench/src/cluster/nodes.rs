//! Nodes of Tenure on members of etcd, each a process with data of its own, and what is done to them. Knows nothing of
//! what is measured.

use super::members::Members;
use super::proxy::Proxy;
use crate::peers::home::{Home, READY_WITHIN, Server, Site, free_port};
use crate::peers::peer::Shape;
use crate::peers::tasks::runtime;
use crate::peers::tenure;
use crate::peers::tenure::control::{Control, leases};
use crate::peers::wire::lines::{Kept, Lines};
use crate::peers::wire::{Door, Names, Wire};
use crate::process::block_until;
use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tenure_api::{ClusterStatus, Role};
use tenure_client::{Client, Endpoint};
use tokio::runtime::Runtime;

/// They are ended when this is dropped.
pub(crate) struct Nodes {
    all: Vec<Node>,
    site: Site,
    /// Below it is everything they keep in etcd.
    pub(crate) prefix: String,
    runtime: Runtime,
}

struct Node {
    server: Server,
    name: &'static str,
    port: u16,
    /// Where it finds etcd.
    store_ports: Vec<u16>,
    /// The only way it has there, where it may be cut off.
    proxy: Option<Proxy>,
}

/// Whether each node reaches etcd by a way that can be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Direct,
    Cuttable,
}

/// Who writes, and since which change of writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Writer {
    /// Its place among the nodes.
    pub(crate) place: usize,
    pub(crate) epoch: u64,
}

const NAMES: &[&str] = &["a", "b", "c"];
/// How long a node may take to say how it is.
const STATUS_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longer than any run, and outlived by nothing that waits for it.
pub(crate) const TTL_MS: u64 = 6 * 3_600_000;

impl Nodes {
    /// Starts so many, on a log of their own, and waits until all of them agree on who writes.
    pub(crate) fn start(site: &Site, members: &Members, count: usize, way: Way) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let prefix = format!("bench-{}-", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut nodes = Self { all: Vec::new(), site: site.clone(), prefix, runtime: runtime()? };
        for name in NAMES.iter().take(count) {
            let home = Home::make(site, "node-")?;
            let proxy = (way == Way::Cuttable).then(|| Proxy::start(members.ports())).transpose()?;
            let store_ports = proxy.as_ref().map_or(members.ports(), Proxy::ports).to_vec();
            let port = free_port()?;
            let command = command(site, &home, (name, port), &store_ports, &nodes.prefix);
            let server = Server::start(home, command, is_listening).context("tenure serve")?;
            nodes.all.push(Node { server, name, port, store_ports, proxy });
        }
        nodes.wait_until_agreed()?;
        Ok(nodes)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.all.iter().filter_map(|node| node.server.pid()).collect()
    }

    /// Sockets of all nodes but this one.
    pub(crate) fn others(&self, place: usize) -> Vec<PathBuf> {
        let is_other = |(other, _): &(usize, &Node)| *other != place;
        self.all.iter().enumerate().filter(is_other).map(|(_, node)| node.socket()).collect()
    }

    pub(crate) fn name(&self, place: usize) -> &'static str {
        self.all[place].name
    }

    /// Waits until every node has the same writer, which knows it, and none is behind.
    pub(crate) fn wait_until_agreed(&self) -> Result<Writer> {
        let mut agreed = None;
        let is_agreed = || {
            agreed = self.agreed();
            Ok(agreed.is_some())
        };
        block_until(READY_WITHIN, LOOK_EVERY, is_agreed)?;
        agreed.with_context(|| format!("the nodes do not agree: {:?}", self.statuses()))
    }

    /// How long a writer may be silent.
    pub(crate) fn writer_ttl(&self) -> Result<Duration> {
        let statuses = self.statuses().context("a node does not say how it is")?;
        Ok(Duration::from_millis(statuses.first().context("there is no node")?.leader_ttl_ms))
    }

    /// A load on the writer, over its socket.
    pub(crate) fn load(&self, writer: &Writer, shape: Shape) -> Result<Wire<Lines>> {
        let lines = Lines { names: Names::fresh(), kept: Kept::Ttl(TTL_MS) };
        Wire::open(&Door::Unix(self.all[writer.place].socket()), shape, lines)
    }

    /// Leases that the writer has.
    pub(crate) fn leases(&self, writer: &Writer) -> Result<u64> {
        leases(&mut Control::open(&self.all[writer.place].socket())?)
    }

    pub(crate) fn signal(&self, place: usize, signal: Signal) -> Result<()> {
        self.all[place].server.signal(signal)
    }

    /// Asks the node itself to give its place up.
    pub(crate) fn step_down(&self, place: usize) -> Result<()> {
        let client = client(self.all[place].socket())?;
        let stepped_down = self.runtime.block_on(client.step_down())?;
        ensure!(stepped_down.node == self.all[place].name, "{} stepped down", stepped_down.node);
        Ok(())
    }

    pub(crate) fn cut_off(&self, place: usize) -> Result<()> {
        self.all[place].proxy.as_ref().context("its way to etcd cannot be cut")?.cut();
        Ok(())
    }

    pub(crate) fn mend(&self, place: usize) {
        if let Some(proxy) = &self.all[place].proxy {
            proxy.mend();
        }
    }

    /// Starts a node again that was killed or told to end.
    pub(crate) fn restart(&mut self, place: usize) -> Result<()> {
        let Self { all, site, prefix, .. } = self;
        let Node { server, name, port, store_ports, .. } = &mut all[place];
        server.wait_for_end()?;
        // What the one before wrote there tells nothing of this one.
        let _ = std::fs::remove_file(server.home().run().join("daemon.json"));
        let command = command(site, server.home(), (name, *port), store_ports, prefix);
        server.begin(command, is_listening)
    }

    fn agreed(&self) -> Option<Writer> {
        let statuses = self.statuses()?;
        let place = statuses.iter().position(|status| status.role == Role::Leader)?;
        let writer = statuses[place].leader.clone()?;
        let agrees = |status: &ClusterStatus| {
            status.lag_lsn == 0
                && status.applied_lsn == statuses[place].applied_lsn
                && status.leader.as_ref().is_some_and(|known| known.epoch == writer.epoch)
        };
        let is_one = writer.node == self.all[place].name && statuses.iter().all(agrees);
        is_one.then_some(Writer { place, epoch: writer.epoch })
    }

    /// What each says; `None`: one says nothing.
    fn statuses(&self) -> Option<Vec<ClusterStatus>> {
        let status = |node: &Node| self.runtime.block_on(client(node.socket()).ok()?.cluster()).ok();
        self.all.iter().map(status).collect()
    }
}

impl Drop for Nodes {
    /// All at once, without a word: one that is told to end would hand its place to the next, and so on.
    fn drop(&mut self) {
        for node in &mut self.all {
            // What cannot be ended here is ended with its process.
            let _ = node.server.kill();
        }
    }
}

impl Node {
    fn socket(&self) -> PathBuf {
        tenure::socket(self.server.home())
    }
}

/// One that waits no longer than a node that is well needs.
pub(crate) fn client(socket: PathBuf) -> Result<Client> {
    Ok(Client::builder(Endpoint::Unix(socket))
        .request_timeout(STATUS_WITHIN)
        .connect_timeout(STATUS_WITHIN)
        .build()?)
}

fn is_listening(home: &Home) -> Result<bool> {
    Ok(home.run().join("daemon.json").exists() && Control::open(&tenure::socket(home)).is_ok())
}

fn command(
    site: &Site,
    home: &Home,
    (name, port): (&str, u16),
    store_ports: &[u16],
    prefix: &str,
) -> Command {
    let endpoints: Vec<String> = store_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let mut command = tenure::command(site, home, port);
    command.args(["--log", &format!("etcd://{}/{prefix}", endpoints.join(","))]).args([
        "--advertise",
        &format!("http://127.0.0.1:{port}"),
        "--node",
        name,
    ]);
    command
}
