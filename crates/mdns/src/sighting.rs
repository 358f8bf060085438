//! What can be looked for on the network, and what is told of it. Pure.

use std::net::IpAddr;

use crate::service::is_type;

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

const TYPES_DOMAIN: &str = "_services._dns-sd._udp.local.";

impl Wanted {
    /// What the engine is asked for. `None` if there can be no such thing.
    pub(crate) fn domain(&self) -> Option<String> {
        match self {
            Self::Type(service_type) => is_type(service_type).then(|| format!("{service_type}.local.")),
            Self::Subtype { subtype, service_type } => {
                let is_label = (1..=63).contains(&subtype.len()) && !subtype.contains(['.', '\\']);
                (is_type(service_type) && is_label).then(|| format!("{subtype}._sub.{service_type}.local."))
            }
            Self::Types => Some(TYPES_DOMAIN.to_owned()),
        }
    }

    /// The type of what is found.
    pub(crate) fn service_type(&self) -> &str {
        match self {
            Self::Type(service_type) | Self::Subtype { service_type, .. } => service_type,
            Self::Types => "",
        }
    }

    /// The instance (or type) in a full name as it came from the wire. Read from the right: what stands before
    /// the type is the instance, whatever dots it has. `None` if the name is not of this type.
    pub(crate) fn name_in<'a>(&self, full_name: &'a str) -> Option<&'a str> {
        let rest = strip_suffix_ignoring_case(full_name, ".local.")?;
        match self {
            Self::Types => is_type(rest).then_some(rest),
            Self::Type(service_type) | Self::Subtype { service_type, .. } => {
                let name = strip_suffix_ignoring_case(rest, service_type)?.strip_suffix('.')?;
                (!name.is_empty()).then_some(name)
            }
        }
    }
}

fn strip_suffix_ignoring_case<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(suffix.len())?;
    let (head, tail) = (text.get(..at)?, text.get(at..)?);
    tail.eq_ignore_ascii_case(suffix).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_what_stands_before_the_type() {
        let http = Wanted::Type("_http._tcp".to_owned());
        assert_eq!(http.name_in("a.b._http._tcp.local."), Some("a.b"));
        assert_eq!(http.name_in("x._http._tcp.local._http._tcp.local."), Some("x._http._tcp.local"));
        assert_eq!(http.name_in("Büro._HTTP._tcp.local."), Some("Büro"));
        assert_eq!(http.name_in("_http._tcp.local."), None);
        assert_eq!(http.name_in("a._ipp._tcp.local."), None);
        let sub = Wanted::Subtype { subtype: "_p".to_owned(), service_type: "_http._tcp".to_owned() };
        assert_eq!(sub.name_in("a._http._tcp.local."), Some("a"));
        assert_eq!(sub.domain().as_deref(), Some("_p._sub._http._tcp.local."));
        assert_eq!(Wanted::Types.name_in("_ipp._tcp.local."), Some("_ipp._tcp"));
        assert_eq!(Wanted::Type("nonsense".to_owned()).domain(), None);
    }
}
