//! Links: an interface and one family of addresses on it, which is what mDNS packets are sent and received on. Each
//! link has its own probes, announcements and answers (RFC 6762 §14).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use if_addrs::IfAddr;

/// Names a link for as long as it is up. A link that comes back has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LinkId(pub(crate) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Which link it is, whenever it is up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LinkName {
    interface: String,
    family: Family,
}

/// A link that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) interface: String,
    /// Of the interface.
    pub(crate) index: u32,
    pub(crate) family: Family,
    /// All addresses of the interface that are in use, of both families.
    pub(crate) addresses: Vec<IfAddr>,
}

pub(crate) const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
pub(crate) const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);

impl Family {
    pub(crate) fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl Link {
    pub(crate) fn name(&self) -> LinkName {
        LinkName { interface: self.interface.clone(), family: self.family }
    }

    /// Where what is for everybody on the link is sent.
    pub(crate) fn group(&self, port: u16) -> SocketAddr {
        match self.family {
            Family::V4 => SocketAddr::from((GROUP_V4, port)),
            Family::V6 => SocketAddrV6::new(GROUP_V6, port, 0, self.index).into(),
        }
    }

    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(IfAddr::ip)
    }

    /// Whether an address is of a network of this link.
    pub(crate) fn carries(&self, ip: IpAddr) -> bool {
        let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        is_link_local || self.addresses.iter().any(|own| is_of_network(own, ip))
    }

    /// The addresses that a service is announced with here: the one it asks for, or all of the interface. `None` where
    /// the one it asks for is of another network.
    pub(crate) fn addresses_of(&self, wanted: Option<IpAddr>) -> Option<Vec<IpAddr>> {
        match wanted {
            None => Some(self.ips().collect()),
            Some(ip) => self.addresses.iter().any(|own| is_of_network(own, ip)).then(|| vec![ip]),
        }
    }
}

fn is_of_network(own: &IfAddr, ip: IpAddr) -> bool {
    match (own, ip) {
        (IfAddr::V4(own), IpAddr::V4(ip)) => {
            let mask = own.netmask.to_bits();
            own.ip.to_bits() & mask == ip.to_bits() & mask
        }
        (IfAddr::V6(own), IpAddr::V6(ip)) => {
            let mask = own.netmask.to_bits();
            own.ip.to_bits() & mask == ip.to_bits() & mask
        }
        (IfAddr::V4(_), IpAddr::V6(_)) | (IfAddr::V6(_), IpAddr::V4(_)) => false,
    }
}
