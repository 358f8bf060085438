//! What can be looked for on the network, and what is told of it. Pure.

use std::net::IpAddr;

use crate::responder::TYPES;
use crate::service::is_type;
use crate::wire::Name;

/// What a browse looks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Services of one type: `_http._tcp`.
    Type(String),
    /// Services of one type that are of a subtype too.
    Subtype {
        /// `_printer`
        subtype: String,
        /// `_http._tcp`
        service_type: String,
    },
    /// The types themselves (`_services._dns-sd._udp`).
    Types,
}

/// What is told to those who browse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// There is a service; what it is follows in `Resolved`.
    Found {
        /// The instance, unescaped.
        name: String,
        /// `_http._tcp`
        service_type: String,
    },
    /// All that is known of a service. Told again whenever it changed, and only then.
    Resolved(Record),
    /// A service is gone.
    Removed {
        /// The instance, unescaped.
        name: String,
        /// `_http._tcp`
        service_type: String,
    },
    /// Services of this type exist. Only for [`Wanted::Types`].
    TypeFound(String),
    /// No service of this type was heard of for its time to live. Only for [`Wanted::Types`].
    TypeRemoved(String),
}

/// A service as others announce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The instance, unescaped.
    pub name: String,
    /// `_http._tcp`
    pub service_type: String,
    /// `stone.local`, without the last dot.
    pub host: Option<String>,
    /// Where it listens.
    pub port: Option<u16>,
    /// IPv4 first, sorted.
    pub addresses: Vec<Address>,
    /// In the order of the record; `None` is a key without a value.
    pub txt: Vec<(String, Option<Vec<u8>>)>,
}

/// An address as it was heard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The interface it was heard on, where the address means nothing without: link-local ones of IPv6.
    pub zone: Option<String>,
}

impl PartialEq<IpAddr> for Address {
    fn eq(&self, ip: &IpAddr) -> bool {
        self.ip == *ip
    }
}

impl Wanted {
    /// The name that is asked for. `None` if there can be no such thing.
    pub(crate) fn domain(&self) -> Option<Name> {
        let type_name = |service_type: &str| {
            is_type(service_type).then(|| Name::of(&format!("{service_type}.local"))).flatten()
        };
        match self {
            Self::Type(service_type) => type_name(service_type),
            Self::Subtype { subtype, service_type } => {
                let is_label = !subtype.contains(['.', '\\']);
                let parent = type_name(service_type).filter(|_| is_label)?.child(b"_sub")?;
                parent.child(subtype.as_bytes())
            }
            Self::Types => Some(TYPES.clone()),
        }
    }

    /// The type of what is found.
    pub(crate) fn service_type(&self) -> &str {
        match self {
            Self::Type(service_type) | Self::Subtype { service_type, .. } => service_type,
            Self::Types => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_has_a_name_to_ask_for() {
        let sub = Wanted::Subtype { subtype: "_p".to_owned(), service_type: "_http._tcp".to_owned() };
        assert_eq!(sub.domain(), Name::of("_p._sub._http._tcp.local"));
        assert_eq!(Wanted::Type("_ipp._tcp".to_owned()).domain(), Name::of("_ipp._tcp.local"));
        assert_eq!(Wanted::Type("nonsense".to_owned()).domain(), None);
        assert!(Wanted::Types.domain().is_some());
    }
}
