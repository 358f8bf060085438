//! What keeps web pages of others away: a request must be addressed to a name of the daemon (a page cannot rebind
//! such a name), and a page that sends one must be from the name that it sends it to, or from an origin that is allowed.

use crate::tls::CertifiedNames;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use tenure_api::{Error, ErrorCode};

/// The names under which the daemon is asked, and the origins that may ask.
#[derive(Clone, Debug)]
pub(super) struct Names {
    scheme: Scheme,
    address: SocketAddr,
    /// Names in the daemon's certificate; the first label may be `*`.
    certified: CertifiedNames,
    /// Names of the settings; one without a port counts with every port.
    named: Vec<Authority>,
    /// In normal form.
    origins: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scheme {
    Http,
    Https,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Host {
    Ip(IpAddr),
    /// In lower case, without a dot at its end.
    Name(String),
}

/// A host and perhaps a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Authority {
    host: Host,
    port: Option<u16>,
}

/// How a browser describes the page behind a request (Fetch Metadata). Other programs send none of it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Fetch<'a> {
    /// Header `Sec-Fetch-Site`.
    pub(crate) site: Option<&'a str>,
    /// Header `Sec-Fetch-Mode`.
    pub(crate) mode: Option<&'a str>,
    /// Header `Sec-Fetch-Dest`.
    pub(crate) dest: Option<&'a str>,
}

/// What pages of other origins may do with a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ForeignPages {
    /// Load it: a file.
    Load,
    /// Link to it: a page.
    Link,
    /// Nothing.
    Nothing,
}

impl Fetch<'_> {
    /// Whether a page of another origin requests what it may not. `Origin`, where there is one, decides instead.
    fn is_foreign(&self, foreign: ForeignPages) -> bool {
        let is_elsewhere = self.site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
        let is_link = self.mode == Some("navigate") && self.dest == Some("document");
        is_elsewhere
            && match foreign {
                ForeignPages::Load => false,
                ForeignPages::Link => !is_link,
                ForeignPages::Nothing => true,
            }
    }
}

impl Names {
    pub(super) fn new(
        address: SocketAddr,
        tls: bool,
        certified: CertifiedNames,
        named: &[Authority],
        origins: &[String],
    ) -> Self {
        let scheme = if tls { Scheme::Https } else { Scheme::Http };
        Self { scheme, address, certified, named: named.to_vec(), origins: origins.to_vec() }
    }

    /// Refuses a request that is addressed to a name which is not the daemon's.
    pub(super) fn check_host(&self, host: Option<&str>) -> Result<(), Error> {
        let Some(host) = host else {
            return Err(forbidden("the request has no Host header".to_owned()));
        };
        let Some(authority) = Authority::parse(host) else {
            return Err(forbidden("the Host header of the request is not valid".to_owned()));
        };
        if !self.is_own(&authority) && !self.is_allowed(&authority) {
            let message = format!("the Host {authority} is not a name of this daemon");
            let hint =
                format!("start the daemon with --server-name {authority}, or use a name that it answers to");
            return Err(forbidden(message).hint(hint));
        }
        Ok(())
    }

    /// Refuses what a page of another origin causes, unless the origin is allowed.
    pub(super) fn check_page(
        &self,
        host: Option<&str>,
        origin: Option<&str>,
        fetch: Fetch<'_>,
        foreign: ForeignPages,
    ) -> Result<(), Error> {
        match origin {
            Some(origin) if !self.is_own_page(host, Some(origin)) && !self.is_allowed_page(origin) => {
                let hint =
                    format!("start the daemon with --allow-origin {origin} if its pages may send requests");
                Err(forbidden(format!("pages of the origin {origin} may not send requests")).hint(hint))
            }
            // Browsers send no Origin with images, scripts, frames and links.
            None if fetch.is_foreign(foreign) => {
                let hint =
                    "start the daemon with --allow-origin ORIGIN if pages of that origin may send requests";
                Err(forbidden("pages of other origins may not send requests".to_owned()).hint(hint))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the page that sends a request is the daemon's own: it has the very name that the request is sent to, and
    /// that is a name of the daemon. Two names of one daemon are two origins, and one of them may lead elsewhere.
    pub(super) fn is_own_page(&self, host: Option<&str>, origin: Option<&str>) -> bool {
        let (Some((scheme, page)), Some(asked)) =
            (origin.and_then(split_origin), host.and_then(Authority::parse))
        else {
            return false;
        };
        let page = shown(scheme, &page);
        page == shown(scheme, &asked)
            && ((scheme == self.scheme && self.is_own(&asked)) || self.origins.contains(&page))
    }

    /// Among those that are not: `null`, of a page that hides where it is from.
    fn is_allowed_page(&self, origin: &str) -> bool {
        split_origin(origin).is_some_and(|(scheme, page)| self.origins.contains(&shown(scheme, &page)))
    }

    fn is_own(&self, authority: &Authority) -> bool {
        let is_named = |name: &Authority| {
            name.host == authority.host && name.port.is_none_or(|port| authority.port == Some(port))
        };
        if self.named.iter().any(is_named) {
            return true;
        }
        if authority.port.unwrap_or(self.scheme.port()) != self.address.port() {
            return false;
        }
        let bound = self.address.ip().to_canonical();
        match &authority.host {
            Host::Ip(ip) => {
                let ip = ip.to_canonical();
                // Bound to every address, the daemon does not know them all; a number cannot be rebound.
                bound.is_unspecified()
                    || ip == bound
                    || is_usual_loopback(ip)
                    || self.certifies(&ip.to_string())
            }
            Host::Name(name) => name == "localhost" || self.certifies(name),
        }
    }

    fn certifies(&self, name: &str) -> bool {
        self.certified.any(|certified| match certified.strip_prefix("*.") {
            Some(parent) => name.split_once('.').is_some_and(|(_, rest)| rest == parent),
            None => certified == name,
        })
    }

    /// A proxy in front may hand on the name that it is asked by.
    fn is_allowed(&self, authority: &Authority) -> bool {
        [Scheme::Http, Scheme::Https].iter().any(|scheme| self.origins.contains(&shown(*scheme, authority)))
    }
}

/// An origin as browsers send it: lower case, no usual port. `None`: it is not one.
pub(super) fn normal_origin(text: &str) -> Option<String> {
    let (scheme, authority) = split_origin(text.strip_suffix('/').unwrap_or(text))?;
    Some(shown(scheme, &authority))
}

/// A name of the daemon as the settings have it: `NAME` or `NAME:PORT`. `None`: it is not one.
pub(super) fn server_name(text: &str) -> Option<Authority> {
    Authority::parse(text)
}

fn split_origin(text: &str) -> Option<(Scheme, Authority)> {
    let (scheme, authority) = text.split_once("://")?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return None,
    };
    Some((scheme, Authority::parse(authority)?))
}

fn shown(scheme: Scheme, authority: &Authority) -> String {
    let port = authority.port.filter(|port| *port != scheme.port());
    let scheme = match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    format!("{scheme}://{}", Authority { host: authority.host.clone(), port })
}

fn is_usual_loopback(ip: IpAddr) -> bool {
    ip == IpAddr::from([127, 0, 0, 1]) || ip == IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)
}

fn forbidden(message: String) -> Error {
    Error::new(ErrorCode::Forbidden, message)
}

impl Scheme {
    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (ip, rest) = rest.split_once(']')?;
                let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
                (Host::Ip(IpAddr::V6(ip.parse().ok()?)), port)
            }
            None => {
                let (host, port) = match text.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (text, None),
                };
                (Host::parse(host)?, port)
            }
        };
        let is_number = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            None => None,
            Some(port) => Some(Some(port).filter(is_number)?.parse().ok()?),
        };
        Some(Self { host, port })
    }
}

impl Host {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(ip) = text.parse() {
            return Some(Self::Ip(IpAddr::V4(ip)));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_name = !name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain);
        is_name.then(|| Self::Name(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            Host::Ip(IpAddr::V4(ip)) => write!(f, "{ip}")?,
            Host::Name(name) => f.write_str(name)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(address: &str, tls: bool, certified: &[&str], origins: &[&str]) -> Names {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let origins: Vec<String> = origins.iter().map(|origin| normal_origin(origin).unwrap()).collect();
        Names::new(address.parse().unwrap(), tls, owned(certified).into(), &[], &origins)
    }

    fn named(address: &str, names: &[&str]) -> Names {
        let named: Vec<Authority> = names.iter().map(|name| server_name(name).unwrap()).collect();
        Names::new(address.parse().unwrap(), false, CertifiedNames::default(), &named, &[])
    }

    #[test]
    fn a_page_is_the_daemons_own_by_the_name_it_asks() {
        let names = names("127.0.0.1:5641", false, &[], &["https://board.example", "https://other.example"]);
        let own = |host, origin| names.is_own_page(Some(host), origin);
        assert!(own("127.0.0.1:5641", Some("http://127.0.0.1:5641")));
        assert!(own("localhost:5641", Some("http://localhost:5641")));
        assert!(own("board.example", Some("https://board.example")), "a proxy in front");
        for foreign in [None, Some("null"), Some("https://127.0.0.1:5641"), Some("http://127.0.0.1:5642")] {
            assert!(!own("127.0.0.1:5641", foreign), "{foreign:?}");
        }
        assert!(!own("127.0.0.1:5641", Some("https://board.example")), "allowed, and not its own");
        assert!(!own("board.example", Some("https://other.example")));
        assert!(!own("evil.example", Some("https://evil.example")));
    }

    fn admits(names: &Names, host: &str, origin: Option<&str>) -> bool {
        names.check_host(Some(host)).is_ok()
            && names.check_page(Some(host), origin, Fetch::default(), ForeignPages::Nothing).is_ok()
    }

    #[test]
    fn a_request_must_be_addressed_to_a_name_of_the_daemon() {
        let local = names("127.0.0.1:5641", false, &[], &[]);
        for host in ["127.0.0.1:5641", "localhost:5641", "LOCALHOST.:5641", "[::1]:5641"] {
            assert!(admits(&local, host, None), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:5642",
            "127.0.0.2:5641",
            "evil.example:5641",
            "localhost.evil.example:5641",
            "user@127.0.0.1:5641",
            "127.0.0.1:05641x",
            "127.0.0.1:",
            "127.0.0.1:99999",
            "[127.0.0.1]:5641",
            "::1:5641",
            "",
            ":5641",
            "127.0.0.1:5641/",
            "0x7f000001:5641",
        ] {
            assert!(!admits(&local, host, None), "{host}");
        }
        assert_eq!(local.check_host(None).unwrap_err().code, ErrorCode::Forbidden);
    }

    #[test]
    fn the_usual_port_may_be_left_out() {
        assert!(admits(&names("127.0.0.1:80", false, &[], &[]), "localhost", None));
        assert!(!admits(&names("127.0.0.1:80", true, &[], &[]), "localhost", None));
        assert!(admits(&names("127.0.0.1:443", true, &[], &[]), "localhost", None));
    }

    #[test]
    fn names_in_the_certificate_are_names_of_the_daemon() {
        let names = names("10.1.2.3:5641", true, &["Lease.example", "*.pool.example", "10.9.9.9"], &[]);
        for host in ["lease.example:5641", "a.pool.example:5641", "10.9.9.9:5641", "10.1.2.3:5641"] {
            assert!(admits(&names, host, None), "{host}");
        }
        for host in ["pool.example:5641", "a.b.pool.example:5641", "x.lease.example:5641", "10.1.2.4:5641"] {
            assert!(!admits(&names, host, None), "{host}");
        }
    }

    #[test]
    fn bound_to_every_address_any_number_is_a_name() {
        for wildcard in ["0.0.0.0:5641", "[::]:5641"] {
            let names = names(wildcard, false, &[], &[]);
            assert!(admits(&names, "10.7.7.7:5641", None));
            assert!(admits(&names, "[fd00::1]:5641", None));
            assert!(!admits(&names, "rebound.example:5641", None));
        }
    }

    #[test]
    fn a_page_is_own_only_under_the_name_that_its_request_is_sent_to() {
        for wildcard in ["0.0.0.0:5641", "[::]:5641"] {
            let names = names(wildcard, false, &["*.pool.example"], &[]);
            let pages = [
                ("10.0.0.9:5641", "http://10.0.0.9:5641", true),
                ("localhost:5641", "http://localhost:5641", true),
                ("127.0.0.1:5641", "http://203.0.113.5:5641", false),
                ("10.0.0.9:5641", "http://localhost:5641", false),
                ("localhost:5641", "http://127.0.0.1:5641", false),
                ("a.pool.example:5641", "http://a.pool.example:5641", true),
                ("a.pool.example:5641", "http://b.pool.example:5641", false),
                ("10.0.0.9:5641", "https://10.0.0.9:5641", false),
            ];
            for (host, origin, is_own) in pages {
                assert_eq!(admits(&names, host, Some(origin)), is_own, "{host} {origin}");
                assert_eq!(names.is_own_page(Some(host), Some(origin)), is_own, "{host} {origin}");
            }
        }
    }

    #[test]
    fn pages_ask_only_from_the_daemon_or_an_allowed_origin() {
        let names =
            names("127.0.0.1:5641", false, &[], &["https://Board.example/", "http://dev.example:3000"]);
        let host = "localhost:5641";
        for origin in [
            "http://localhost:5641",
            "https://board.example",
            "https://board.example:443",
            "http://dev.example:3000",
        ] {
            assert!(admits(&names, host, Some(origin)), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://evil.example",
            "https://localhost:5641",
            "http://localhost",
            "http://board.example",
            "http://dev.example",
            "https://board.example.evil.example",
            "http://localhost:5641@evil.example",
            "file://",
            "http://127.0.0.1:5641",
        ] {
            assert!(!admits(&names, host, Some(origin)), "{origin}");
        }
    }

    #[test]
    fn a_request_that_a_page_of_another_origin_causes_is_refused() {
        let names = names("127.0.0.1:5641", false, &[], &["https://board.example"]);
        let asks = |site, mode, dest, origin, open| {
            let fetch = Fetch { site: Some(site), mode: Some(mode), dest: Some(dest) };
            names.check_page(Some("127.0.0.1:5641"), origin, fetch, open).is_ok()
        };
        for foreign in ["cross-site", "same-site"] {
            let ways = [
                ("no-cors", "empty"),
                ("no-cors", "image"),
                ("navigate", "document"),
                ("navigate", "iframe"),
            ];
            for (mode, dest) in ways {
                assert!(!asks(foreign, mode, dest, None, ForeignPages::Nothing), "{foreign} {mode} {dest}");
                let is_link = (mode, dest) == ("navigate", "document");
                assert_eq!(
                    asks(foreign, mode, dest, None, ForeignPages::Link),
                    is_link,
                    "{foreign} {mode} {dest}"
                );
                assert!(asks(foreign, mode, dest, None, ForeignPages::Load), "{foreign} {mode} {dest}");
            }
            assert!(asks(foreign, "cors", "empty", Some("https://board.example"), ForeignPages::Nothing));
            assert!(!asks(foreign, "cors", "empty", Some("https://evil.example"), ForeignPages::Nothing));
        }
        for near in ["same-origin", "none"] {
            assert!(asks(near, "cors", "empty", None, ForeignPages::Nothing), "{near}");
            assert!(asks(near, "navigate", "document", None, ForeignPages::Nothing), "{near}");
        }
        let error = names.check_page(
            Some("localhost:5641"),
            None,
            Fetch { site: Some("cross-site"), ..Fetch::default() },
            ForeignPages::Nothing,
        );
        assert_eq!(error.unwrap_err().code, ErrorCode::Forbidden);
    }

    #[test]
    fn the_host_of_an_allowed_origin_is_a_name_too() {
        let names =
            names("127.0.0.1:5641", false, &[], &["https://board.example", "http://mapped.example:8080"]);
        assert!(admits(&names, "board.example", Some("https://board.example")));
        assert!(admits(&names, "mapped.example:8080", None));
        assert!(!admits(&names, "board.example:5641", None));
    }

    #[test]
    fn names_of_the_settings_are_names_of_the_daemon() {
        let names = named("10.1.2.3:5641", &["Lease.example", "node.example:8443", "192.0.2.7:80"]);
        for host in [
            "lease.example",
            "lease.example:5641",
            "LEASE.example.:9000",
            "node.example:8443",
            "192.0.2.7:80",
            "10.1.2.3:5641",
        ] {
            assert!(admits(&names, host, None), "{host}");
        }
        for host in ["node.example", "node.example:5641", "x.lease.example", "192.0.2.7:5641", "192.0.2.8:80"]
        {
            assert!(!admits(&names, host, None), "{host}");
        }
        assert!(admits(&names, "lease.example:9000", Some("http://lease.example:9000")));
        assert!(!admits(&names, "lease.example:9000", Some("http://lease.example")));
        for text in ["", "http://a.example", "a.example:x", "a b", "a.example/"] {
            assert_eq!(server_name(text), None, "{text}");
        }
    }

    #[test]
    fn origins_have_one_form() {
        assert_eq!(normal_origin("HTTPS://A.example:443/").as_deref(), Some("https://a.example"));
        assert_eq!(normal_origin("http://[::1]:80").as_deref(), Some("http://[::1]"));
        for text in ["a.example", "ftp://a.example", "http://a.example/path", "http://", "*", "http://a b"] {
            assert_eq!(normal_origin(text), None, "{text}");
        }
    }
}
