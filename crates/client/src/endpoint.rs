//! Endpoints of a daemon or of the nodes of a cluster, and their text form.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// An endpoint of a daemon: `http://host:port`, `https://host:port` or `unix:/path`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Endpoint {
    /// Plain TCP.
    Http(Authority),
    /// TLS over TCP.
    Https(Authority),
    /// The daemon's socket.
    Unix(PathBuf),
}

/// The endpoints of one daemon or of the nodes of one cluster. In text: separated by commas.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoints(Vec<Endpoint>);

/// Host and port of an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Authority {
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// An error while parsing an endpoint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndpointError {
    /// The scheme is missing or unknown.
    #[error("{0:?} is not an endpoint: expected http://host:port, https://host:port or unix:/path")]
    Scheme(String),
    /// The host is missing or invalid.
    #[error("{0:?} has no valid host")]
    Host(String),
    /// The port is not a number from 1 to 65535.
    #[error("{0:?} has no valid port: expected 1 to 65535")]
    Port(String),
    /// There is text after the port.
    #[error("{0:?} has text after the port")]
    More(String),
    /// The path of the socket is not absolute.
    #[error("{0:?} has no absolute path")]
    Path(String),
    /// A socket cannot be one of several endpoints.
    #[error("{0:?} is a socket, which cannot be one of several endpoints")]
    Socket(String),
}

impl Endpoints {
    /// The endpoints without duplicates, in the given order; never empty.
    #[must_use]
    pub fn as_slice(&self) -> &[Endpoint] {
        &self.0
    }

    pub(crate) fn add(&mut self, endpoint: Endpoint) {
        if !self.0.contains(&endpoint) {
            self.0.push(endpoint);
        }
    }
}

impl From<Endpoint> for Endpoints {
    fn from(endpoint: Endpoint) -> Self {
        Self(vec![endpoint])
    }
}

impl FromStr for Endpoints {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        // The path of a socket may have commas in it.
        if text.starts_with("unix:") {
            return text.parse().map(|endpoint: Endpoint| endpoint.into());
        }
        let mut each = text.split(',').map(|part| part.trim().parse());
        let mut endpoints: Self = match each.next() {
            Some(first) => <Result<Endpoint, EndpointError>>::map(first, Into::into)?,
            None => return Err(EndpointError::Scheme(text.to_owned())),
        };
        for endpoint in each {
            match endpoint? {
                Endpoint::Unix(_) => return Err(EndpointError::Socket(text.to_owned())),
                endpoint @ (Endpoint::Http(_) | Endpoint::Https(_)) => endpoints.add(endpoint),
            }
        }
        Ok(endpoints)
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, endpoint) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{endpoint}")?;
        }
        Ok(())
    }
}

impl Endpoint {
    /// The value of the header `Host`: as in browsers, without the scheme's default port.
    #[must_use]
    pub(crate) fn host_header(&self) -> String {
        let (whole, port_of_scheme) = match self {
            Self::Http(authority) => (authority.to_string(), ":80"),
            Self::Https(authority) => (authority.to_string(), ":443"),
            Self::Unix(_) => return "localhost".to_owned(),
        };
        whole.strip_suffix(port_of_scheme).unwrap_or(&whole).to_owned()
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// A missing port is the scheme's default, 80 or 443; a final `/` is allowed.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///path` is how URLs spell it.
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') || path.contains('\0') {
                return Err(EndpointError::Path(text.to_owned()));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        if let Some(rest) = text.strip_prefix("http://") {
            return Authority::parse(text, rest, 80).map(Self::Http);
        }
        if let Some(rest) = text.strip_prefix("https://") {
            return Authority::parse(text, rest, 443).map(Self::Https);
        }
        Err(EndpointError::Scheme(text.to_owned()))
    }
}

impl Authority {
    fn parse(text: &str, rest: &str, port_of_scheme: u16) -> Result<Self, EndpointError> {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) {
            return Err(EndpointError::More(text.to_owned()));
        }
        let no_host = || EndpointError::Host(text.to_owned());
        let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
            let (address, after) = bracketed.split_once(']').ok_or_else(no_host)?;
            address.parse::<std::net::Ipv6Addr>().map_err(|_| no_host())?;
            let port = match after {
                "" => None,
                after => Some(after.strip_prefix(':').ok_or_else(no_host)?),
            };
            (address, port)
        } else {
            match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            }
        };
        let is_host_byte = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || !host.chars().all(is_host_byte) {
            return Err(no_host());
        }
        let port = match port {
            None => port_of_scheme,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
                Ok(port) if port > 0 => port,
                Ok(_) | Err(_) => return Err(EndpointError::Port(text.to_owned())),
            },
            Some(_) => return Err(EndpointError::Port(text.to_owned())),
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(authority) => write!(f, "http://{authority}"),
            Self::Https(authority) => write!(f, "https://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, EndpointError> {
        text.parse::<Endpoint>().map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn every_scheme_is_read_and_written_alike() {
        for text in [
            "http://127.0.0.1:5641",
            "https://leases.example:443",
            "http://[::1]:5641",
            "unix:/run/tenure/tenure.sock",
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(text));
        }
        assert_eq!(parsed("http://localhost:5641/").as_deref(), Ok("http://localhost:5641"));
        assert_eq!(parsed("http://localhost").as_deref(), Ok("http://localhost:80"));
        assert_eq!(parsed("https://[::1]").as_deref(), Ok("https://[::1]:443"));
        assert_eq!(parsed("unix:///run/x").as_deref(), Ok("unix:/run/x"));
    }

    #[test]
    fn the_host_has_the_port_only_where_the_scheme_does_not_say_it() {
        for (text, host) in [
            ("http://leases.example:80", "leases.example"),
            ("https://leases.example", "leases.example"),
            ("https://[::1]:443", "[::1]"),
            ("http://leases.example:443", "leases.example:443"),
            ("https://leases.example:80", "leases.example:80"),
            ("http://10.0.0.1:5641", "10.0.0.1:5641"),
            ("http://leases.example:1080", "leases.example:1080"),
            ("unix:/run/x", "localhost"),
        ] {
            assert_eq!(text.parse::<Endpoint>().expect("an endpoint").host_header(), host, "{text}");
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_by_its_fault() {
        type Fault = fn(String) -> EndpointError;
        let cases: &[(&str, Fault)] = &[
            ("", EndpointError::Scheme),
            ("127.0.0.1:5641", EndpointError::Scheme),
            ("ftp://host:1", EndpointError::Scheme),
            ("http://", EndpointError::Host),
            ("http://:5641", EndpointError::Host),
            ("http://a b:1", EndpointError::Host),
            ("http://[::1:5641", EndpointError::Host),
            ("http://[nonsense]:1", EndpointError::Host),
            ("http://[::1]5641", EndpointError::Host),
            ("http://host:", EndpointError::Port),
            ("http://host:0", EndpointError::Port),
            ("http://host:65536", EndpointError::Port),
            ("http://host:+80", EndpointError::Port),
            ("http://host:1/v1", EndpointError::More),
            ("http://me@host:1", EndpointError::More),
            ("http://host:1?x", EndpointError::More),
            ("unix:relative", EndpointError::Path),
            ("unix:", EndpointError::Path),
        ];
        for (text, fault) in cases {
            assert_eq!(parsed(text), Err(fault((*text).to_owned())), "{text}");
        }
    }

    #[test]
    fn a_list_has_each_endpoint_once_and_a_socket_stands_alone() {
        let parsed = |text: &str| text.parse::<Endpoints>().map(|endpoints| endpoints.to_string());
        assert_eq!(parsed("http://a:1,http://b:2, http://a:1/").as_deref(), Ok("http://a:1,http://b:2"));
        assert_eq!(parsed("unix:/run/a,b").as_deref(), Ok("unix:/run/a,b"));
        for (text, fault) in [
            ("http://a:1,unix:/run/x", EndpointError::Socket("http://a:1,unix:/run/x".to_owned())),
            ("http://a:1,", EndpointError::Scheme(String::new())),
            ("", EndpointError::Scheme(String::new())),
        ] {
            assert_eq!(parsed(text), Err(fault), "{text}");
        }
    }
}
