//! Names of services: what is allowed, how it is written, which resource stands for it. Pure.

use super::network::Service;
use core::fmt::Write as _;
use std::net::IpAddr;
use tenure_api::{Error, ErrorCode, Register, Txt};
use tenure_engine::kernel::names::REGISTRATIONS_PREFIX;

/// Longest label of a name on the network.
pub(crate) const LABEL_BYTES_MAX: usize = 63;
const TYPE_NAME_BYTES_MAX: usize = 15;
const TXT_ENTRY_BYTES_MAX: usize = 255;
const TXT_BYTES_MAX: usize = 1_300;
/// Names tried for one service: as asked for, then with numbers from 2 on.
pub(crate) const VARIANTS_MAX: usize = 33;
/// What asks for the types there are.
const TYPES_TYPE: &str = "_services._dns-sd._udp";

/// A type of services, in canonical spelling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceType {
    /// `_http._tcp`.
    short: String,
}

/// What to look for on the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The types there are.
    Types,
    /// Services of a type, perhaps only those of a subtype.
    Services {
        /// The type.
        service_type: ServiceType,
        /// `_printer`.
        subtype: Option<String>,
    },
}

/// What is known of a service that is asked for, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) service_type: ServiceType,
    pub(crate) subtypes: Vec<String>,
    pub(crate) port: u16,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) txt: Txt,
}

impl ServiceType {
    /// Reads a type with an optional subtype: `http`, `_http._tcp`, `_printer._sub._http._tcp.local.`
    pub(crate) fn parse(text: &str) -> Result<(Self, Option<String>), Error> {
        let given = without_domain(text.trim());
        let labels: Vec<&str> = given.split('.').collect();
        let refuse = |why: &str| {
            let message = format!("{text:?} is not a service type: {why}; example: _http._tcp");
            Error::new(ErrorCode::InvalidType, message)
        };
        let (subtype, rest) = match labels.as_slice() {
            [subtype, sub, rest @ ..] if sub.eq_ignore_ascii_case("_sub") => (Some(*subtype), rest),
            rest => (None, rest),
        };
        let (name, protocol) = match rest {
            [name] => (*name, "tcp"),
            [name, protocol] => (*name, protocol.strip_prefix('_').unwrap_or(protocol)),
            _ => return Err(refuse("it has too many labels")),
        };
        if !protocol.eq_ignore_ascii_case("tcp") && !protocol.eq_ignore_ascii_case("udp") {
            return Err(refuse("its protocol is neither tcp nor udp"));
        }
        let name = name.strip_prefix('_').unwrap_or(name);
        check_type_name(name).map_err(refuse)?;
        let subtype = subtype.map(|subtype| parse_subtype(subtype).map_err(refuse)).transpose()?;
        let short = format!("_{}._{}", name.to_ascii_lowercase(), protocol.to_ascii_lowercase());
        Ok((Self { short }, subtype))
    }

    /// `_http._tcp`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.short
    }
}

impl Wanted {
    /// Reads what to look for; nothing asks for the types there are.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        match text.map(str::trim) {
            None | Some("") => Ok(Self::Types),
            Some(text) if without_domain(text).eq_ignore_ascii_case(TYPES_TYPE) => Ok(Self::Types),
            Some(text) => {
                let (service_type, subtype) = ServiceType::parse(text)?;
                Ok(Self::Services { service_type, subtype })
            }
        }
    }
}

impl Described {
    /// Checks what is asked for, before anything is logged.
    pub(crate) fn check(asked: &Register) -> Result<Self, Error> {
        let (service_type, subtype) = ServiceType::parse(&asked.service_type)?;
        check_instance(&asked.name)?;
        if asked.port == 0 {
            return Err(Error::new(ErrorCode::InvalidRequest, "port must be between 1 and 65535"));
        }
        check_txt(&asked.txt)?;
        Ok(Self {
            name: asked.name.clone(),
            service_type,
            subtypes: subtype.into_iter().collect(),
            port: asked.port,
            ip: asked.ip,
            txt: asked.txt.clone(),
        })
    }

    /// What the network is to be told under this name.
    pub(crate) fn service(&self, name: &str, host: String) -> Service {
        Service {
            service_type: self.service_type.clone(),
            subtypes: self.subtypes.clone(),
            name: name.to_owned(),
            host,
            port: self.port,
            ip: self.ip,
            txt: self
                .txt
                .iter()
                .map(|(key, value)| (key.clone(), value.clone().map(String::into_bytes)))
                .collect(),
        }
    }

    /// Every name it may get, in the order they are tried.
    pub(crate) fn variants(&self) -> impl Iterator<Item = String> {
        (1..=VARIANTS_MAX).map(|number| variant(&self.name, number))
    }
}

/// Reads a full instance name from the right: dots in the instance are its own.
pub(crate) fn parse_instance(text: &str) -> Result<(String, ServiceType), Error> {
    let given = without_domain(text);
    let refuse = || {
        let message = format!("{text:?} is not an instance name; example: \"My App._http._tcp.local\"");
        Error::new(ErrorCode::InvalidRequest, message)
    };
    let (rest, protocol) = given.rsplit_once('.').ok_or_else(refuse)?;
    let (name, service) = rest.rsplit_once('.').ok_or_else(refuse)?;
    if !service.starts_with('_') || !protocol.starts_with('_') {
        return Err(refuse());
    }
    let (service_type, _) = ServiceType::parse(&format!("{service}.{protocol}"))?;
    check_instance(name)?;
    Ok((name.to_owned(), service_type))
}

/// The name of a service when so many others have it already.
pub(crate) fn variant(name: &str, number: usize) -> String {
    if number <= 1 {
        return name.to_owned();
    }
    let suffix = format!(" ({number})");
    let end = name.floor_char_boundary(LABEL_BYTES_MAX.saturating_sub(suffix.len()));
    format!("{}{suffix}", &name[..end])
}

/// A name as names are compared: two that differ by capitals alone, in any script, are one, as to the mDNS engine.
pub(crate) fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// The resource that stands for an advertised name: at most one registration has it.
pub(crate) fn resource(service_type: &ServiceType, name: &str) -> String {
    let mut resource = format!("{REGISTRATIONS_PREFIX}{}/", service_type.as_str());
    for byte in folded(name).bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => resource.push(char::from(byte)),
            _ => write!(resource, "%{byte:02x}").expect("invariant: a string can be written to"),
        }
    }
    resource
}

/// Whether a resource stands for this name. Older logs folded the letters of ASCII alone.
pub(crate) fn stands_for(member: &str, service_type: &ServiceType, name: &str) -> bool {
    let of_type =
        member.strip_prefix(REGISTRATIONS_PREFIX).and_then(|rest| rest.strip_prefix(service_type.as_str()));
    of_type
        .and_then(|rest| rest.strip_prefix('/'))
        .and_then(decoded)
        .is_some_and(|member| folded(&member) == folded(name))
}

fn decoded(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'%' {
            let digits = core::str::from_utf8(behind.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

/// A label for the host of one registration. One of its own, so that its goodbye withdraws nobody else's addresses.
pub(crate) fn host_label(host: &str, id: &str) -> String {
    let kept = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' => Some(char::from(byte)),
        b'-' | b'_' | b' ' => Some('-'),
        _ => None,
    };
    let host = host.split('.').next().unwrap_or_default();
    let mut label: String = host.bytes().filter_map(|byte| kept(byte.to_ascii_lowercase())).collect();
    label.truncate(LABEL_BYTES_MAX - id.len() - 1);
    let label = label.trim_matches('-');
    if label.is_empty() { format!("tenure-{id}") } else { format!("{label}-{id}") }
}

fn without_domain(text: &str) -> &str {
    let text = text.trim_end_matches('.');
    let cut = text.len().saturating_sub(".local".len());
    match text.get(cut..) {
        Some(domain) if domain.eq_ignore_ascii_case(".local") => text[..cut].trim_end_matches('.'),
        _ => text,
    }
}

fn check_type_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > TYPE_NAME_BYTES_MAX {
        return Err("its name has 1 to 15 characters");
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err("its name has letters, digits and - alone");
    }
    if !name.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return Err("its name has no letter");
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err("its name begins or ends with -, or has two - in a row");
    }
    Ok(())
}

fn parse_subtype(subtype: &str) -> Result<String, &'static str> {
    let label = if subtype.starts_with('_') { subtype.to_owned() } else { format!("_{subtype}") };
    if label.len() < 2 || label.len() > LABEL_BYTES_MAX || label.chars().any(char::is_control) {
        return Err("its subtype has 1 to 62 characters");
    }
    Ok(label.to_ascii_lowercase())
}

fn check_instance(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > LABEL_BYTES_MAX {
        let message = format!("name has {} bytes, but must have 1 to {LABEL_BYTES_MAX}", name.len());
        return Err(Error::new(ErrorCode::InvalidName, message));
    }
    let folded = folded(name).len();
    if folded > LABEL_BYTES_MAX {
        let message = format!("name has {folded} bytes in lower case, but must have 1 to {LABEL_BYTES_MAX}");
        return Err(Error::new(ErrorCode::InvalidName, message));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::new(ErrorCode::InvalidName, "name contains a control character"));
    }
    Ok(())
}

fn check_txt(txt: &Txt) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::new(ErrorCode::InvalidRequest, message).with("field", "txt"));
    let mut total = 0;
    let mut seen = std::collections::BTreeSet::new();
    for (key, value) in txt {
        if key.is_empty() {
            return refuse("a key of txt is empty".to_owned());
        }
        if !key.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=') {
            return refuse(format!("the txt key {key:?} must be printable ASCII without ="));
        }
        if !seen.insert(key.to_ascii_lowercase()) {
            return refuse(format!("the txt key {key:?} is given twice: keys are compared without case"));
        }
        let bytes = key.len() + value.as_ref().map_or(0, |value| value.len() + 1);
        if bytes > TXT_ENTRY_BYTES_MAX {
            return refuse(format!(
                "the txt entry {key:?} has {bytes} bytes, but at most {TXT_ENTRY_BYTES_MAX} fit"
            ));
        }
        total += bytes + 1;
    }
    if total > TXT_BYTES_MAX {
        return refuse(format!("txt has {total} bytes in all, but at most {TXT_BYTES_MAX} fit"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str) -> Result<String, Error> {
        ServiceType::parse(text).map(|(service_type, _)| service_type.short)
    }

    #[test]
    fn a_type_is_understood_however_it_is_written() {
        for text in [
            "http",
            "_http",
            "_http._tcp",
            "http.tcp",
            " _http._tcp.local. ",
            "_HTTP._TCP.LOCAL",
            "_http._tcp..",
        ] {
            assert_eq!(short(text).expect(text), "_http._tcp", "{text}");
        }
        assert_eq!(short("_sleep-proxy._udp").expect("a type"), "_sleep-proxy._udp");
        let (of, subtype) = ServiceType::parse("_Printer._sub._http._tcp").expect("a type");
        assert_eq!((of.as_str(), subtype.as_deref()), ("_http._tcp", Some("_printer")));
    }

    #[test]
    fn what_is_no_type_is_refused_with_its_code() {
        for text in [
            "",
            ".",
            "_",
            "_http._sctp",
            "a.b.c",
            "_-a._tcp",
            "_a-._tcp",
            "_a--b._tcp",
            "_123._tcp",
            "_sixteen-letters-x._tcp",
            "_häh._tcp",
            "_http._tcp.example.com",
            "._tcp",
            "_sub._http._tcp.local.x",
        ] {
            assert_eq!(short(text).expect_err(text).code, ErrorCode::InvalidType, "{text}");
        }
    }

    #[test]
    fn an_instance_keeps_its_dots_and_backslashes() {
        let (name, of) = parse_instance("a.b\\c._d._http._tcp.local.").expect("an instance");
        assert_eq!((name.as_str(), of.as_str()), ("a.b\\c._d", "_http._tcp"));
        for text in ["", "_http._tcp", "app.http.tcp", "app", "._http._tcp"] {
            assert!(parse_instance(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_fit_into_the_label_and_never_cut_a_character() {
        assert_eq!(variant("app", 1), "app");
        assert_eq!(variant("app", 2), "app (2)");
        let long = "ü".repeat(31) + "x";
        assert_eq!(long.len(), 63);
        let second = variant(&long, 2);
        assert_eq!(second, "ü".repeat(29) + " (2)");
        assert!(variant(&long, 33).len() <= LABEL_BYTES_MAX);
    }

    #[test]
    fn a_name_is_one_resource_whatever_its_capitals() {
        let (of, _) = ServiceType::parse("http").expect("a type");
        assert_eq!(resource(&of, "My Äpp/1.2"), "mdns/_http._tcp/my%20%c3%a4pp%2f1%2e2");
        assert_eq!(resource(&of, "APP"), resource(&of, "app"));
        assert_eq!(resource(&of, "BÜRO"), resource(&of, "büro"));
    }

    #[test]
    fn a_resource_of_an_older_log_still_stands_for_its_name() {
        let (of, _) = ServiceType::parse("http").expect("a type");
        for member in ["mdns/_http._tcp/b%c3%9cro%20%282%29", "mdns/_http._tcp/b%c3%bcro%20%282%29"] {
            assert!(stands_for(member, &of, "BÜRO (2)") && stands_for(member, &of, "büro (2)"));
            assert!(!stands_for(member, &of, "büro"));
        }
        assert!(
            !stands_for("mdns/_ipp._tcp/app", &of, "app") && !stands_for("mdns/_http._tcp/%f", &of, "app")
        );
    }

    #[test]
    fn every_name_fits_a_resource_name() {
        let (of, _) = ServiceType::parse("_fifteen-letters._udp").expect("a type");
        for name in ["\u{7ff}", "x", "Ⱥ", "İ", "ẞ"] {
            for length in 1..=LABEL_BYTES_MAX {
                let name = name.repeat(length);
                if check_instance(&name).is_ok() {
                    let longest = (1..=VARIANTS_MAX).map(|n| resource(&of, &variant(&name, n)).len()).max();
                    assert!(longest.is_some_and(|bytes| bytes <= 255), "{name}");
                }
            }
        }
        // In lower case it is longer than a label.
        assert!(check_instance(&"Ⱥ".repeat(31)).is_err());
    }

    #[test]
    fn a_host_has_a_label_of_its_own_for_each_registration() {
        assert_eq!(host_label("Stone.example.org", "1a2b3c4d"), "stone-1a2b3c4d");
        assert_eq!(host_label("", "1a2b3c4d"), "tenure-1a2b3c4d");
        assert!(host_label(&"x".repeat(80), "1a2b3c4d").len() <= LABEL_BYTES_MAX);
    }

    #[test]
    fn txt_is_checked_key_by_key() {
        let txt = |key: &str, value: Option<String>| Txt::from([(key.to_owned(), value)]);
        assert!(check_txt(&txt("path", Some("/".to_owned()))).is_ok());
        assert!(check_txt(&txt("flag", None)).is_ok());
        assert!(check_txt(&txt("k", Some("v".repeat(253)))).is_ok());
        for bad in [txt("", None), txt("a=b", None), txt("ü", None), txt("k", Some("v".repeat(254)))] {
            assert!(check_txt(&bad).is_err(), "{bad:?}");
        }
        let many: Txt = (0..6).map(|n| (format!("key{n}"), Some("v".repeat(250)))).collect();
        assert!(check_txt(&many).is_err());
        let twice = Txt::from([("A".to_owned(), None), ("a".to_owned(), None)]);
        assert!(check_txt(&twice).is_err());
    }
}
