//! An address of a host, with the zone that a link-local one of IPv6 needs: `fe80::1%eth0`.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::net::{AddrParseError, IpAddr};

/// An IP address of a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// The IP address.
    pub ip: IpAddr,
    /// Network interface of a link-local IPv6 address.
    pub zone: Option<String>,
}

impl Address {
    /// Whether the address is usable on its own link only.
    #[must_use]
    pub fn is_link_local(&self) -> bool {
        match self.ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        Self { ip, zone: None }
    }
}

impl FromStr for Address {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        match text.split_once('%') {
            Some((ip, zone)) => Ok(Self { ip: IpAddr::V6(ip.parse()?), zone: Some(zone.to_owned()) }),
            None => text.parse().map(|ip| Self { ip, zone: None }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.zone {
            Some(zone) => write!(f, "{}%{zone}", self.ip),
            None => self.ip.fmt(f),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["192.0.2.7", "2001:db8::1", "fe80::1%eth0", "fe80::1"] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
            assert_eq!(serde_json::to_string(&address).expect("a text"), format!("\"{text}\""));
        }
        for text in ["", "host", "192.0.2.7%eth0", "%eth0"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
