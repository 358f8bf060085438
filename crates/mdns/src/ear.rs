//! A socket of our own in the multicast group, for what the engine does not hear: names with dots. Bound to the
//! group's address, so that it never takes what is meant for the engine alone. IPv4 only: peers ask on both.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;

use crate::interface::Local;
use crate::service::Service;
use crate::wire::{Message, Name, query, response};

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
/// RFC 6762 §17.
const PACKET_BYTES_MAX: usize = 9_000;
/// Should an error come again and again, it must not keep the thread busy.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Questions of one packet, each at most 80 bytes: an Ethernet frame holds them.
const QUESTIONS_MAX: usize = 12;

/// The socket and the addresses whose interfaces it listens on.
pub(crate) struct Ear {
    socket: UdpSocket,
    addresses: Vec<Ipv4Addr>,
    port: u16,
    packet: Vec<u8>,
}

impl Ear {
    /// Opens it on these interfaces. Must be called where the runtime is.
    pub(crate) fn open(locals: &[Local], port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.set_multicast_ttl_v4(255)?;
        socket.bind(&SocketAddr::from((GROUP, port)).into())?;
        let is_v4 = |local: &Local| match local.addr.ip() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        };
        let addresses: Vec<Ipv4Addr> = locals.iter().filter_map(is_v4).collect();
        for address in &addresses {
            match socket.join_multicast_v4(&GROUP, address) {
                // A second address of an interface that is listened on already.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                joined => joined?,
            }
        }
        let socket = UdpSocket::from_std(socket.into())?;
        Ok(Self { socket, addresses, port, packet: vec![0; PACKET_BYTES_MAX] })
    }

    /// The next message that can be read.
    pub(crate) async fn next(&mut self) -> Message {
        loop {
            match self.socket.recv(&mut self.packet).await {
                Ok(length) => {
                    if let Some(message) = self.packet.get(..length).and_then(Message::decode) {
                        return message;
                    }
                }
                // A link that went away; the supervisor opens another ear when it notices.
                Err(_) => tokio::time::sleep(ERROR_PAUSE).await,
            }
        }
    }

    /// Asks on all interfaces. What does not leave is asked again another time.
    pub(crate) fn ask(&self, questions: &[(Name, u16)]) {
        for some in questions.chunks(QUESTIONS_MAX) {
            self.say(&query(some));
        }
    }

    /// Answers on all interfaces for a service the engine does not answer for.
    pub(crate) fn answer(&self, service: &Service) {
        self.say(&response(service));
    }

    fn say(&self, packet: &[u8]) {
        for address in &self.addresses {
            let is_set = SockRef::from(&self.socket).set_multicast_if_v4(address).is_ok();
            if is_set {
                let _ = self.socket.try_send_to(packet, (GROUP, self.port).into());
            }
        }
    }
}
