//! Which interfaces are used: what was asked for, and which of those the machine has now.

use core::convert::Infallible;
use core::fmt;
use core::str::FromStr;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

use if_addrs::IfAddr;

/// What to listen on.
#[derive(Clone, Debug)]
pub struct Options {
    /// Empty: every interface that is up, but not loopback: who is on this machine hears the others too, and what is
    /// said there alone would count as said.
    pub interfaces: Vec<Interface>,
    /// 5353 ([`crate::PORT`]) on every real network.
    pub port: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self { interfaces: Vec::new(), port: crate::PORT }
    }
}

/// One choice of an interface. It may come and go while it is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// By its name, with all its addresses.
    Name(String),
    /// By one of its addresses.
    Address(IpAddr),
    /// Loopback, IPv4 only.
    Loopback,
}

impl FromStr for Interface {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.parse() {
            Ok(address) => Self::Address(address),
            Err(_) if text == "lo" => Self::Loopback,
            Err(_) => Self::Name(text.to_owned()),
        })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
            Self::Loopback => f.write_str("lo"),
        }
    }
}

/// One address of one interface in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    pub(crate) interface: String,
    pub(crate) index: u32,
    pub(crate) addr: IfAddr,
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.interface, self.addr.ip())
    }
}

/// Whether an address of the machine is among those chosen. On loopback only IPv4 is used, unless an address
/// says otherwise.
pub(crate) fn is_chosen(chosen: &[Interface], interface: &if_addrs::Interface) -> bool {
    let is_v6_loopback = interface.is_loopback() && interface.ip().is_ipv6();
    if chosen.is_empty() {
        return !interface.is_loopback();
    }
    chosen.iter().any(|choice| match choice {
        Interface::Name(name) => *name == interface.name && !is_v6_loopback,
        Interface::Address(address) => *address == interface.ip(),
        Interface::Loopback => interface.is_loopback() && !is_v6_loopback,
    })
}

/// Addresses of IPv6 that are meant for what the machine begins itself, and are replaced once a day or more often (RFC
/// 8981), from the kernel's table: address, interface, length of the prefix, scope, flags and name, in hexadecimal digits.
fn temporary(table: &str) -> HashSet<(u32, Ipv6Addr)> {
    const IFA_F_TEMPORARY: u32 = 0x01;
    let hexadecimal = |word: &str| u32::from_str_radix(word, 16).ok();
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        let interface = hexadecimal(words.next()?)?;
        let flags = hexadecimal(words.nth(2)?)?;
        (flags & IFA_F_TEMPORARY != 0).then(|| (interface, Ipv6Addr::from_bits(address)))
    };
    table.lines().filter_map(of_line).collect()
}

/// The chosen addresses that the machine has now, on interfaces that are up. Temporary ones only where they were chosen
/// themselves: others are to reach a service under addresses that stay.
pub(crate) fn in_use(chosen: &[Interface]) -> Vec<Local> {
    // Of the network that this thread is in. A system without it has no IPv6.
    let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    let temporary = temporary(&table);
    let is_lasting = |local: &Local| match local.addr.ip() {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => {
            !temporary.contains(&(local.index, ip)) || chosen.contains(&Interface::Address(ip.into()))
        }
    };
    let mut found: Vec<Local> = if_addrs::get_if_addrs()
        .unwrap_or_default()
        .into_iter()
        .filter(|interface| interface.is_oper_up() && !interface.is_p2p() && is_chosen(chosen, interface))
        .filter_map(|interface| {
            let if_addrs::Interface { name, addr, index, .. } = interface;
            Some(Local { interface: name, index: index?, addr })
        })
        .filter(is_lasting)
        .collect();
    found.sort_by(|a, b| (&a.interface, a.addr.ip()).cmp(&(&b.interface, b.addr.ip())));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_an_address_lo_or_a_name_and_reads_back() {
        let parse = |text: &str| text.parse::<Interface>().unwrap_or_else(|never| match never {});
        assert_eq!(parse("lo"), Interface::Loopback);
        assert_eq!(parse("192.0.2.1"), Interface::Address([192, 0, 2, 1].into()));
        assert_eq!(parse("eth0"), Interface::Name("eth0".to_owned()));
        for text in ["lo", "192.0.2.1", "fe80::1", "eth0"] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn temporary_addresses_are_told_by_their_flag() {
        let table = "20010db8000100000000000000000001 03 40 00 82     eth0\n\
                     20010db800010000af2d2e29e43e6b0d 03 40 00 41     eth0\n\
                     fe8000000000000078202dfffe9f2d3a 1f 40 20 c0     eth0\n\
                     no table\n\n";
        let ip = "2001:db8:1:0:af2d:2e29:e43e:6b0d".parse().expect("an address");
        assert_eq!(temporary(table), HashSet::from([(3, ip)]));
    }

    #[test]
    fn loopback_is_in_use_with_ipv4_only() {
        let found = in_use(&[Interface::Loopback]);
        assert!(!found.is_empty());
        assert!(found.iter().all(|local| local.addr.ip().is_ipv4() && local.addr.ip().is_loopback()));
    }
}
