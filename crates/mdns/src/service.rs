//! A service as it is to be seen on the network: what of it may reach the engine, and the names that follow
//! from it. Pure.

use std::net::IpAddr;

/// A service as it is to be seen on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `_http._tcp`, without a domain.
    pub service_type: String,
    /// `_printer`. All of them are announced.
    pub subtypes: Vec<String>,
    /// The instance, unescaped: dots, capitals, umlauts and 63 bytes are all legal.
    pub name: String,
    /// A label of its own, without a domain. One per service: a goodbye withdraws the addresses of the host it
    /// names, and must not withdraw those of another service.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// `None`: all addresses of the interfaces in use, following changes.
    pub ip: Option<IpAddr>,
    /// Keys with their values; `None` is a key without a value.
    pub txt: Vec<(String, Option<Vec<u8>>)>,
}

/// Why a service cannot be put on the network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Not `_name._tcp` or `_name._udp` with a name of RFC 6335.
    #[error("the service type {0:?} is not of the form _name._tcp or _name._udp")]
    Type(String),
    /// Not one label.
    #[error("the subtype {0:?} is not one label of 1 to 63 bytes")]
    Subtype(String),
    /// Not one label.
    #[error("the name {0:?} is not 1 to 63 bytes without control characters")]
    Name(String),
    /// Not one label of letters, digits and hyphens.
    #[error("the host label {0:?} is not 1 to 63 letters, digits and hyphens")]
    Host(String),
    /// Port 0.
    #[error("port 0 is not a port")]
    Port,
    /// An address nobody can have.
    #[error("{0} is not the address of a host")]
    Address(IpAddr),
    /// A key that is empty or holds other than printable ASCII, or a `=`.
    #[error("the TXT key {0:?} is not printable ASCII without =")]
    TxtKey(String),
    /// One entry over 255 bytes, or all of them over 1,300.
    #[error("the TXT record is too long at key {0:?}")]
    TxtLength(String),
}

/// RFC 1035 §2.3.4.
const LABEL_BYTES_MAX: usize = 63;
/// RFC 6335 §5.1.
const TYPE_NAME_BYTES_MAX: usize = 15;
/// RFC 6763 §6.1.
const TXT_ENTRY_BYTES_MAX: usize = 255;
/// RFC 6763 §6.2: fits one packet together with the rest of the announcement.
const TXT_BYTES_MAX: usize = 1_300;

impl Service {
    /// Whether all of it can be said on the network.
    ///
    /// # Errors
    /// The first thing that cannot.
    pub fn check(&self) -> Result<(), Unfit> {
        if !is_type(&self.service_type) {
            return Err(Unfit::Type(self.service_type.clone()));
        }
        if let Some(bad) = self.subtypes.iter().find(|subtype| !is_subtype(subtype)) {
            return Err(Unfit::Subtype(bad.clone()));
        }
        if !is_label(&self.name) {
            return Err(Unfit::Name(self.name.clone()));
        }
        let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !is_label(&self.host) || !self.host.bytes().all(is_host_byte) {
            return Err(Unfit::Host(self.host.clone()));
        }
        if self.port == 0 {
            return Err(Unfit::Port);
        }
        if let Some(ip) = self.ip.filter(|ip| !is_of_a_host(*ip)) {
            return Err(Unfit::Address(ip));
        }
        self.check_txt()
    }

    fn check_txt(&self) -> Result<(), Unfit> {
        let mut total = 0;
        for (key, value) in &self.txt {
            let is_key_byte = |byte: u8| (0x20..=0x7e).contains(&byte) && byte != b'=';
            if key.is_empty() || !key.bytes().all(is_key_byte) {
                return Err(Unfit::TxtKey(key.clone()));
            }
            let bytes = key.len() + value.as_ref().map_or(0, |value| value.len() + 1);
            total += bytes + 1;
            if bytes > TXT_ENTRY_BYTES_MAX || total > TXT_BYTES_MAX {
                return Err(Unfit::TxtLength(key.clone()));
            }
        }
        Ok(())
    }

    /// Whether the two are told apart on the network by more than what an update in place can change.
    pub(crate) fn is_another_name(&self, other: &Self) -> bool {
        self.name != other.name
            || self.service_type != other.service_type
            || self.subtypes != other.subtypes
            || self.host != other.host
    }
}

/// The name that follows after a conflict: `printer`, `printer (2)`, `printer (3)`; cut at a character so that
/// it stays a label.
pub(crate) fn next_name(name: &str) -> String {
    let numbered = name
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once(" ("))
        .and_then(|(base, number)| Some((base, number.parse::<u32>().ok()?.checked_add(1)?)));
    let (base, number) = numbered.unwrap_or((name, 2));
    let suffix = format!(" ({number})");
    let mut end = base.len().min(LABEL_BYTES_MAX - suffix.len());
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

/// The host label that follows after a conflict: `stone`, `stone-2`, `stone-3`.
pub(crate) fn next_host(wanted: &str, host: &str) -> String {
    let number = host.strip_prefix(wanted).and_then(|rest| rest.strip_prefix('-')?.parse::<u32>().ok());
    let suffix = format!("-{}", number.unwrap_or(1).saturating_add(1));
    format!("{}{suffix}", &wanted[..wanted.len().min(LABEL_BYTES_MAX - suffix.len())])
}

fn is_label(text: &str) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn is_subtype(text: &str) -> bool {
    is_label(text) && !text.contains(['.', '\\'])
}

fn is_of_a_host(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast
}

/// `_name._tcp` or `_name._udp`, the name by RFC 6335 §5.1.
pub(crate) fn is_type(text: &str) -> bool {
    let Some((name, protocol)) = text.strip_prefix('_').and_then(|rest| rest.split_once("._")) else {
        return false;
    };
    (protocol.eq_ignore_ascii_case("tcp") || protocol.eq_ignore_ascii_case("udp"))
        && protocol == protocol.to_ascii_lowercase()
        && (1..=TYPE_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn service(name: &str) -> Service {
        Service {
            service_type: "_http._tcp".to_owned(),
            subtypes: Vec::new(),
            name: name.to_owned(),
            host: "stone-1a2b3c4d".to_owned(),
            port: 8080,
            ip: None,
            txt: Vec::new(),
        }
    }

    #[test]
    fn dots_capitals_umlauts_and_sixty_three_bytes_are_legal_names() {
        for name in ["a.b", "Büro", "tail\\", ".", &"x".repeat(63), "Stone (2)"] {
            assert_eq!(service(name).check(), Ok(()), "{name}");
        }
    }

    #[test]
    fn what_the_engine_could_not_write_is_refused() {
        assert!(matches!(service(&"x".repeat(64)).check(), Err(Unfit::Name(_))));
        assert!(matches!(service(&"ü".repeat(32)).check(), Err(Unfit::Name(_))));
        assert!(matches!(service("").check(), Err(Unfit::Name(_))));
        assert!(matches!(service("a\nb").check(), Err(Unfit::Name(_))));
        let broken = |change: &dyn Fn(&mut Service)| {
            let mut service = service("a");
            change(&mut service);
            service.check()
        };
        assert!(matches!(broken(&|s| s.host = "a.b".to_owned()), Err(Unfit::Host(_))));
        assert!(matches!(broken(&|s| s.host = "h".repeat(64)), Err(Unfit::Host(_))));
        assert!(matches!(broken(&|s| s.subtypes = vec!["_a._b".to_owned()]), Err(Unfit::Subtype(_))));
        assert!(matches!(broken(&|s| s.subtypes = vec!["_a\\b".to_owned()]), Err(Unfit::Subtype(_))));
        assert!(matches!(broken(&|s| s.port = 0), Err(Unfit::Port)));
        for ip in ["0.0.0.0", "::", "224.0.0.251", "ff02::fb", "255.255.255.255"] {
            let ip = ip.parse().expect("an address");
            assert_eq!(broken(&|s| s.ip = Some(ip)), Err(Unfit::Address(ip)));
        }
        assert!(matches!(broken(&|s| s.txt = vec![("a=".to_owned(), None)]), Err(Unfit::TxtKey(_))));
        let long = |key: &str| (key.to_owned(), Some(vec![0; 250]));
        assert!(matches!(broken(&|s| s.txt = vec![long("seven-b")]), Err(Unfit::TxtLength(_))));
        let six = ["a", "b", "c", "d", "e", "f"].map(long).to_vec();
        assert!(matches!(broken(&|s| s.txt.clone_from(&six)), Err(Unfit::TxtLength(_))));
    }

    #[test]
    fn a_type_is_two_labels_of_the_registry() {
        for good in ["_http._tcp", "_a-1._udp", "_ABC._tcp"] {
            assert!(is_type(good), "{good}");
        }
        for bad in
            ["http._tcp", "_http", "_http._sctp", "_-a._tcp", "_a--b._tcp", "_12._tcp", "_._tcp", "_ü._tcp"]
        {
            assert!(!is_type(bad), "{bad}");
        }
        assert!(!is_type("_sixteen-letters-._tcp") && !is_type("_abcdefghijklmnop._tcp"));
    }

    #[test]
    fn the_next_name_counts_on_and_stays_a_label() {
        assert_eq!(next_name("printer"), "printer (2)");
        assert_eq!(next_name("printer (2)"), "printer (3)");
        assert_eq!(next_name("printer (9)"), "printer (10)");
        assert_eq!(next_name("printer (x)"), "printer (x) (2)");
        assert_eq!(next_name("a.b"), "a.b (2)");
        let long = next_name(&"ü".repeat(31));
        assert!(long.len() <= 63 && long.ends_with("ü (2)"), "{long}");
        assert_eq!(next_name(&format!("{} (9)", "x".repeat(59))), format!("{} (10)", "x".repeat(58)));
    }

    #[test]
    fn the_next_host_counts_on_from_the_wanted_one() {
        assert_eq!(next_host("stone", "stone"), "stone-2");
        assert_eq!(next_host("stone", "stone-2"), "stone-3");
        assert_eq!(next_host("stone-7", "stone-7"), "stone-7-2");
        assert_eq!(next_host(&"x".repeat(63), &"x".repeat(63)), format!("{}-2", "x".repeat(61)));
    }
}
