//! A host of a network that speaks DNS by hand: it sends whatever a test wants to say, right or wrong, and hears
//! everything that is multicast or sent to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use socket2::{Domain, Protocol, Socket, Type};
use tenure_mdns::PORT;

use crate::dns::{Item, Message, Packet, Section};
use crate::on_a_lan::on;
use crate::peers::feed::{Feed, LIMIT, monotonic_ns};
use crate::peers::netns::{Host, INTERFACE};

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);

/// How long no response may be heard for a network to be at rest: longer than any pause between announcements.
const REST: Duration = Duration::from_millis(4_500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    V4,
    V6,
}

/// Which socket a packet came to or leaves from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The multicast group. Nothing leaves from it.
    Group,
    /// The host's address, port 5353, as a full member of the network has it.
    Member,
    /// Another port, as a simple resolver has it (RFC 6762 §6.7).
    Stranger,
}

/// One packet.
#[derive(Clone)]
pub(crate) struct Heard {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    pub(crate) source: IpAddr,
    pub(crate) door: Door,
    pub(crate) over: Over,
    bytes: Arc<[u8]>,
}

pub(crate) struct Station {
    pub(crate) heard: Feed<Heard>,
    doors: Vec<(Door, Over, UdpSocket)>,
    /// Of the interface, on its host.
    scope: u32,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {:?} {:?}", self.source, self.door, self.message())
    }
}

impl Heard {
    /// What does not end is empty.
    pub(crate) fn message(&self) -> Message {
        Message::read(&self.bytes).unwrap_or(Message { id: 0, flags: 0, items: Vec::new() })
    }

    pub(crate) fn is_response(&self) -> bool {
        self.bytes.get(2).is_some_and(|flags| flags & 0x80 != 0)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Station {
    pub(crate) fn start(host: &Host) -> Self {
        Self::hearing_only(host, &[])
    }

    /// Of what is multicast over IPv4, hears only what these hosts say: the kernel drops the rest, so that it
    /// cannot be flooded. Without any it hears all.
    pub(crate) fn hearing_only(host: &Host, sources: &[Ipv4Addr]) -> Self {
        let index = host.command("cat").arg(format!("/sys/class/net/{INTERFACE}/ifindex")).output().unwrap();
        let scope = String::from_utf8(index.stdout).unwrap().trim().parse().unwrap();
        let doors = on(host, || {
            let mut doors = doors(host, Over::V4, (GROUP, PORT).into(), host.address().into(), scope);
            let group = &doors[0].2;
            sources.iter().for_each(|source| group.join_ssm_v4(source, &GROUP, &host.address()).unwrap());
            if sources.is_empty() {
                group.join_multicast_v4(&GROUP, &host.address()).unwrap();
            }
            if let Some(address) = host.address6() {
                let group = SocketAddrV6::new(GROUP6, PORT, 0, scope).into();
                let more = self::doors(host, Over::V6, group, address.into(), scope);
                more[0].2.join_multicast_v6(&GROUP6, scope).unwrap();
                doors.extend(more);
            }
            doors
        });
        let doors: Vec<_> =
            doors.into_iter().map(|(door, over, socket)| (door, over, socket.into())).collect();
        let (heard, is_over) = (Feed::new(), Arc::new(AtomicBool::new(false)));
        let ears: Vec<(Door, Over, UdpSocket)> = doors
            .iter()
            .map(|(door, over, socket): &(_, _, UdpSocket)| (*door, *over, socket.try_clone().unwrap()))
            .collect();
        let (to, over) = (heard.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                listen(&ears, &to);
            }
        });
        Self { heard, doors, scope, is_over, thread: Some(thread) }
    }

    /// Sends to the group.
    pub(crate) fn send(&self, over: Over, from: Door, packet: &[u8]) {
        let group: SocketAddr = match over {
            Over::V4 => (GROUP, PORT).into(),
            Over::V6 => SocketAddrV6::new(GROUP6, PORT, 0, self.scope).into(),
        };
        let (.., socket) = self.doors.iter().find(|(d, o, _)| *d == from && *o == over).unwrap();
        socket.send_to(packet, group).unwrap();
    }

    /// Says something to the group over IPv4, as a member.
    pub(crate) fn say(&self, packet: Packet) {
        self.send(Over::V4, Door::Member, &packet.0);
    }

    /// All packets from a mark on, read.
    pub(crate) fn since(&self, mark: usize) -> Vec<(Heard, Message)> {
        let heard = self.heard.all().into_iter().skip(mark);
        heard.map(|heard| (heard.message(), heard)).map(|(message, heard)| (heard, message)).collect()
    }

    /// All records of multicast responses from a mark on: who said them, and when.
    pub(crate) fn records(&self, mark: usize) -> Vec<(Heard, Item)> {
        let is_response = |(heard, _): &(Heard, Message)| heard.is_response() && heard.door == Door::Group;
        let all = self.since(mark).into_iter().filter(is_response);
        all.flat_map(|(heard, message)| message.items.into_iter().map(move |item| (heard.clone(), item)))
            .filter(|(_, item)| item.section != Section::Question)
            .collect()
    }

    /// Waits until nobody announces anything any more.
    #[track_caller]
    pub(crate) fn wait_for_rest(&self) {
        let deadline_ns = monotonic_ns() + LIMIT.as_nanos() as u64 * 2;
        while self.heard.find(self.heard.len(), Heard::is_response, REST).is_some() {
            assert!(monotonic_ns() < deadline_ns, "somebody always says something");
        }
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The sockets of one family, the group's first. Where they are made is where they are.
fn doors(host: &Host, over: Over, group: SocketAddr, own: IpAddr, scope: u32) -> Vec<(Door, Over, Socket)> {
    let addresses = [
        (Door::Group, group),
        (Door::Member, SocketAddr::new(own, PORT)),
        (Door::Stranger, SocketAddr::new(own, 0)),
    ];
    let open = |(door, address): (Door, SocketAddr)| {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        // A thousand goodbyes come at once.
        socket.set_recv_buffer_size(4 << 20).unwrap();
        match over {
            Over::V4 => {
                socket.set_multicast_if_v4(&host.address()).unwrap();
                socket.set_multicast_loop_v4(false).unwrap();
                socket.set_multicast_ttl_v4(255).unwrap();
            }
            Over::V6 => {
                socket.set_only_v6(true).unwrap();
                socket.set_multicast_if_v6(scope).unwrap();
                socket.set_multicast_loop_v6(false).unwrap();
                socket.set_multicast_hops_v6(255).unwrap();
            }
        }
        socket.bind(&address.into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        (door, over, socket)
    };
    addresses.map(open).into()
}

fn listen(ears: &[(Door, Over, UdpSocket)], to: &Feed<Heard>) {
    let mut polled: Vec<PollFd<'_>> = ears.iter().map(|(.., ear)| PollFd::new(ear, PollFlags::IN)).collect();
    let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 }));
    let mut packet = [0; 9_000];
    for (door, over, ear) in ears {
        while let Ok((length, source)) = ear.recv_from(&mut packet) {
            let (at_ns, bytes) = (monotonic_ns(), packet[..length].into());
            to.push(Heard { at_ns, source: source.ip(), door: *door, over: *over, bytes });
        }
    }
}
