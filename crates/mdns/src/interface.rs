//! Which interfaces are used: what was asked for, and which of those the machine has now.

use core::convert::Infallible;
use core::fmt;
use core::str::FromStr;
use std::net::IpAddr;

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

/// The chosen addresses that the machine has now, on interfaces that are up.
pub(crate) fn in_use(chosen: &[Interface]) -> Vec<Local> {
    let mut found: Vec<Local> = if_addrs::get_if_addrs()
        .unwrap_or_default()
        .into_iter()
        .filter(|interface| interface.is_oper_up() && !interface.is_p2p() && is_chosen(chosen, interface))
        .filter_map(|interface| {
            let if_addrs::Interface { name, addr, index, .. } = interface;
            Some(Local { interface: name, index: index?, addr })
        })
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
    fn loopback_is_in_use_with_ipv4_only() {
        let found = in_use(&[Interface::Loopback]);
        assert!(!found.is_empty());
        assert!(found.iter().all(|local| local.addr.ip().is_ipv4() && local.addr.ip().is_loopback()));
    }
}
