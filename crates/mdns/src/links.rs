//! The links of this machine as they come and go: a socket for each, a task that reads it, and a look every second at
//! which interfaces there are.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use core::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::interface::{Local, Options, in_use};
use crate::link::{Family, Link, LinkId};
use crate::socket;

/// A packet as it came.
pub(crate) struct Received {
    pub(crate) link: LinkId,
    pub(crate) source: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// What became of the links since the last look.
#[derive(Debug)]
pub(crate) enum Change {
    Up(Link),
    Changed(Link),
    Down(LinkId),
}

pub(crate) struct Links {
    options: Options,
    open: BTreeMap<(String, u32, Family), Open>,
    links_ever: u64,
    received: mpsc::Sender<Received>,
    writable: mpsc::UnboundedSender<LinkId>,
    /// Links that could not be opened, so that this is logged once.
    refused: HashSet<(String, Family)>,
    locals: Vec<Local>,
}

struct Open {
    link: Link,
    /// How often the interface lost and found its carrier, where the system counts that.
    carrier: Option<String>,
    socket: Arc<UdpSocket>,
    reader: JoinHandle<()>,
    /// Waits until the socket takes packets again.
    waiter: Option<JoinHandle<()>>,
}

/// What the sockets report.
pub(crate) struct Reports {
    pub(crate) received: mpsc::Receiver<Received>,
    /// Links that take packets again; each at most once for each [`Links::wait`].
    pub(crate) writable: mpsc::UnboundedReceiver<LinkId>,
}

/// RFC 6762 §17.
const PACKET_BYTES: usize = 9_000;
/// Packets that were read and not looked at yet. The kernel keeps the rest, and drops what is too much.
const RECEIVED_MAX: usize = 64;
const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);

impl Links {
    pub(crate) fn new(options: Options) -> (Self, Reports) {
        let (received, packets) = mpsc::channel(RECEIVED_MAX);
        let (writable, freed) = mpsc::unbounded_channel();
        let links = Self {
            options,
            open: BTreeMap::new(),
            links_ever: 0,
            received,
            writable,
            refused: HashSet::new(),
            locals: Vec::new(),
        };
        (links, Reports { received: packets, writable: freed })
    }

    /// Addresses in use, for people.
    pub(crate) fn in_words(&self) -> Vec<String> {
        self.locals.iter().map(ToString::to_string).collect()
    }

    /// Looks at the interfaces, and opens and closes sockets as they came and went.
    pub(crate) fn look(&mut self) -> Vec<Change> {
        self.locals = in_use(&self.options.interfaces);
        let mut changes = Vec::new();
        let mut wanted: BTreeMap<(String, u32, Family), Link> = BTreeMap::new();
        for local in &self.locals {
            let family = Family::of(local.addr.ip());
            let of_interface = self.locals.iter().filter(|other| other.interface == local.interface);
            let addresses = of_interface.map(|other| other.addr.clone()).collect();
            let (interface, index) = (local.interface.clone(), local.index);
            let link = Link { id: LinkId(0), interface: interface.clone(), index, family, addresses };
            wanted.insert((interface, index, family), link);
        }
        self.open.retain(|key, open| {
            let carrier = carrier(&open.link.interface);
            let is_kept = wanted.get(key).is_some_and(|link| open.sends_as(link));
            if !is_kept || carrier != open.carrier {
                open.abort();
                changes.push(Change::Down(open.link.id));
                return false;
            }
            true
        });
        for (key, link) in wanted {
            match self.open.get_mut(&key) {
                Some(open) => {
                    let link = Link { id: open.link.id, ..link };
                    if link != open.link {
                        open.link = link.clone();
                        changes.push(Change::Changed(link));
                    }
                }
                None => changes.extend(self.open(key, link).map(Change::Up)),
            }
        }
        changes
    }

    fn open(&mut self, key: (String, u32, Family), link: Link) -> Option<Link> {
        let refused = (link.interface.clone(), link.family);
        let socket = match socket::open(&link, self.options.port) {
            Ok(socket) => Arc::new(socket),
            Err(error) => {
                if self.refused.insert(refused) {
                    let (interface, family) = (&link.interface, link.family);
                    tracing::info!(interface, ?family, %error, "cannot use a network interface for mDNS yet; trying again");
                }
                return None;
            }
        };
        self.refused.remove(&refused);
        self.links_ever += 1;
        let link = Link { id: LinkId(self.links_ever), ..link };
        let reader = tokio::spawn(read(link.id, socket.clone(), self.received.clone()));
        let carrier = carrier(&link.interface);
        self.open.insert(key, Open { link: link.clone(), carrier, socket, reader, waiter: None });
        Some(link)
    }

    /// Sends a packet; without `to` to everybody on the link. Never waits: [`io::ErrorKind::WouldBlock`] where the socket
    /// takes none now.
    pub(crate) fn send(&self, link: LinkId, to: Option<SocketAddr>, bytes: &[u8]) -> io::Result<()> {
        let open = self.open.values().find(|open| open.link.id == link).ok_or(io::ErrorKind::NotConnected)?;
        let to = to.unwrap_or_else(|| open.link.group(self.options.port));
        open.socket.try_send_to(bytes, to).map(|_| ())
    }

    /// Reports once when the link takes packets again.
    pub(crate) fn wait(&mut self, link: LinkId) {
        let Some(open) = self.open.values_mut().find(|open| open.link.id == link) else { return };
        let (socket, writable) = (open.socket.clone(), self.writable.clone());
        let waiter = tokio::spawn(async move {
            if socket.writable().await.is_ok() {
                // Its receiver goes with the links.
                let _ = writable.send(link);
            }
        });
        open.waiter.replace(waiter).into_iter().for_each(|earlier| earlier.abort());
    }
}

impl Open {
    /// Whether the socket goes on with the addresses that the link has now. Over IPv4 it sends from one of them; over IPv6
    /// from the interface, whichever addresses come and go.
    fn sends_as(&self, link: &Link) -> bool {
        match self.link.family {
            Family::V4 => {
                let sends_from = self.link.ips().find(IpAddr::is_ipv4);
                link.ips().any(|ip| Some(ip) == sends_from)
            }
            Family::V6 => true,
        }
    }

    fn abort(&self) {
        self.reader.abort();
        self.waiter.iter().for_each(JoinHandle::abort);
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.open.values().for_each(Open::abort);
    }
}

async fn read(link: LinkId, socket: Arc<UdpSocket>, received: mpsc::Sender<Received>) {
    let mut buffer = vec![0; PACKET_BYTES];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, source)) => {
                let bytes = buffer[..length].to_vec();
                if received.send(Received { link, source, bytes }).await.is_err() {
                    return;
                }
            }
            // An error of an earlier packet, or an interface that goes: the next look finds out.
            Err(_) => tokio::time::sleep(READ_AGAIN_AFTER).await,
        }
    }
}

fn carrier(interface: &str) -> Option<String> {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/carrier_changes")).ok()
}
