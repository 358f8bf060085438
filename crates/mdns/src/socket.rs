//! One link's socket: bound to the group, so that it hears what is said to everybody and takes no unicast packet from
//! another responder on this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use crate::link::{Family, GROUP_V4, GROUP_V6, Link};

/// RFC 6762 §11.
const HOPS: u32 = 255;
/// A thousand services answer at once.
const RECEIVE_BUFFER: usize = 1 << 20;

/// Opens the socket of a link.
pub(crate) fn open(link: &Link, port: u16) -> io::Result<UdpSocket> {
    let socket = reusable(link.family)?;
    // Without the right to, the other options tell the interfaces apart.
    let _ = socket.bind_device(Some(link.interface.as_bytes()));
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    match link.family {
        Family::V4 => {
            let own = link.ips().find_map(|ip| match ip {
                IpAddr::V4(ip) => Some(ip),
                IpAddr::V6(_) => None,
            });
            let own = own.ok_or(io::ErrorKind::AddrNotAvailable)?;
            socket.set_multicast_all_v4(false)?;
            socket.bind(&SocketAddr::from((GROUP_V4, port)).into())?;
            socket.join_multicast_v4_n(&GROUP_V4, &InterfaceIndexOrAddress::Index(link.index))?;
            socket.set_multicast_if_v4(&own)?;
            socket.set_multicast_ttl_v4(HOPS)?;
            socket.set_ttl_v4(HOPS)?;
            socket.set_multicast_loop_v4(true)?;
        }
        Family::V6 => {
            socket.set_only_v6(true)?;
            // An address that is still being checked cannot be sent from; the link is tried again.
            reusable(Family::V6)?.connect(&link.group(port).into())?;
            socket.bind(&SocketAddrV6::new(GROUP_V6, port, 0, link.index).into())?;
            socket.join_multicast_v6(&GROUP_V6, link.index)?;
            socket.set_multicast_if_v6(link.index)?;
            socket.set_multicast_hops_v6(HOPS)?;
            socket.set_unicast_hops_v6(HOPS)?;
            socket.set_multicast_loop_v6(true)?;
        }
    }
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}

/// Whether the port can be shared with the processes that have it.
pub(crate) fn try_port(port: u16) -> io::Result<()> {
    let v4 = reusable(Family::V4)?.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into());
    v4.or_else(|error| {
        // A machine without IPv4 has IPv6.
        let is_v4_missing = error.kind() == io::ErrorKind::Unsupported;
        let v6 = || reusable(Family::V6)?.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into());
        if is_v4_missing { v6() } else { Err(error) }
    })
}

fn reusable(family: Family) -> io::Result<Socket> {
    let domain = match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    Ok(socket)
}
