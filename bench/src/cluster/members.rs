//! Three members of etcd on loopback, each with data of its own, and what they say of themselves. Knows nothing of what
//! is kept in them.

use crate::peers::cost::written_bytes;
use crate::peers::etcd::ask_at;
use crate::peers::etcd::messages::{DeleteRangeRequest, StatusResponse, prefix_end};
use crate::peers::home::{Home, Server, Site, free_port};
use crate::process::{block_until, tied};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Duration;

/// They are ended when this is dropped.
pub(crate) struct Members {
    servers: Vec<Server>,
    /// For those who ask, one for each member.
    ports: Vec<u16>,
    /// As they say themselves.
    pub(crate) version: String,
}

/// How a majority is had while one is away.
const MEMBERS: usize = 3;
/// How long they may take to agree on a leader.
const LEADER_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Members {
    /// Starts them and waits until they have a leader.
    pub(crate) fn start(site: &Site) -> Result<Self> {
        let mut ports = Vec::new();
        let mut peer_ports = Vec::new();
        for _ in 0..MEMBERS {
            ports.push(free_port()?);
            peer_ports.push(free_port()?);
        }
        let mut servers = Vec::new();
        for number in 0..MEMBERS {
            let home = Home::make(site, "etcd-")?;
            let command = command(&home, number, &ports, &peer_ports);
            // None of them is ready before the others are there.
            servers.push(Server::start(home, command, |_| Ok(true)).context("etcd")?);
        }
        let mut members = Self { servers, ports, version: String::new() };
        let is_led = || Ok(members.statuses().is_ok_and(|all| all.iter().all(|status| status.leader != 0)));
        ensure!(block_until(LEADER_WITHIN, LOOK_EVERY, is_led)?, "the members of etcd have no leader");
        members.version = members.statuses()?.swap_remove(0).version;
        Ok(members)
    }

    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.servers.iter().filter_map(Server::pid).collect()
    }

    /// Bytes that all of them gave to the disk, as far as that can be seen.
    pub(crate) fn written_bytes(&self) -> Option<u64> {
        written_bytes(&self.pids())
    }

    /// Where the leader is asked: whoever asks another is passed on to it.
    pub(crate) fn leader_port(&self) -> Result<u16> {
        let leads =
            |status: &StatusResponse| status.header.as_ref().is_some_and(|it| it.member_id == status.leader);
        let place = self.statuses()?.iter().position(leads);
        Ok(self.ports[place.context("no member leads")?])
    }

    /// Rises by one with every change of anything that is kept.
    pub(crate) fn revision(&self) -> Result<i64> {
        let revisions = self.statuses()?.into_iter().filter_map(|status| Some(status.header?.revision));
        revisions.max().context("no member says its revision")
    }

    /// Waits until something changes; `false`: nothing did.
    pub(crate) fn wait_for_change(&self, limit: Duration) -> Result<bool> {
        let before = self.revision()?;
        block_until(limit, Duration::from_millis(2), || Ok(self.revision()? != before))
    }

    /// Removes everything below a prefix, so that it does not weigh on what comes next.
    pub(crate) fn remove(&self, prefix: &str) -> Result<()> {
        let all = DeleteRangeRequest { key: prefix.into(), range_end: prefix_end(prefix.as_bytes()) };
        ask_at(self.leader_port()?, async |etcd| etcd.delete_range(all).await)?;
        Ok(())
    }

    fn statuses(&self) -> Result<Vec<StatusResponse>> {
        self.ports.iter().map(|port| ask_at(*port, async |etcd| etcd.status().await)).collect()
    }
}

fn command(home: &Home, number: usize, ports: &[u16], peer_ports: &[u16]) -> Command {
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    let (client, peer) = (at(ports[number]), at(peer_ports[number]));
    let all: Vec<String> =
        peer_ports.iter().enumerate().map(|(number, port)| format!("m{number}={}", at(*port))).collect();
    let mut command = tied("etcd");
    command
        .args(["--name", &format!("m{number}"), "--logger", "zap", "--log-level", "error"])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &all.join(",")])
        // Its largest: nobody compacts what is left of the load on etcd itself.
        .args(["--quota-backend-bytes", &(8_u64 << 30).to_string()])
        .arg("--data-dir")
        .arg(home.data().join("etcd"));
    command
}
