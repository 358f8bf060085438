//! Kinds of values that only a node of a cluster has: where the log is, how others reach this node, what it is called.

use super::{Value, one_of, quoted};
use std::net::IpAddr;

/// Where the log of a cluster is; `None`: in this daemon's own files.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct StoreAddress(pub(crate) Option<EtcdAddress>);

/// An etcd and a prefix in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct EtcdAddress {
    /// Each `host:port`.
    pub(crate) endpoints: Vec<String>,
    pub(crate) prefix: String,
}

impl EtcdAddress {
    /// As it is written.
    pub(crate) fn text(&self) -> String {
        format!("etcd://{}/{}", self.endpoints.join(","), self.prefix)
    }

    /// Whether nothing that is said to it leaves the machine.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        self.endpoints.iter().all(|endpoint| {
            let host = endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host);
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
        })
    }
}

/// A node's name. Empty: the machine's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct NodeName(pub(crate) String);

/// Where other nodes reach this one. Empty: nowhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct NodeUrl(pub(crate) String);

/// Any text; empty: none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct PlainText(pub(crate) String);

/// Who lets go of what the store's keys had before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) enum Compaction {
    Auto,
    Ourselves,
    Operator,
}

/// Longest name of a node.
const NODE_BYTES_MAX: usize = 63;
const ETCD_PORT: &str = "2379";
const PREFIX: &str = "tenure";

/// The etcd that a command names.
pub(crate) fn store_address(text: &str) -> Result<EtcdAddress, String> {
    StoreAddress::parse(text)?.0.ok_or_else(|| "expected etcd://HOST:PORT[,HOST:PORT]/PREFIX".to_owned())
}

impl StoreAddress {
    fn etcd(rest: &str) -> Result<EtcdAddress, String> {
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let endpoints: Vec<String> = hosts
            .split(',')
            .map(str::trim)
            .filter(|host| !host.is_empty())
            .map(|host| match host.rsplit_once(':') {
                Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
                Some(_) | None => format!("{host}:{ETCD_PORT}"),
            })
            .collect();
        if endpoints.is_empty() {
            return Err("expected etcd://HOST:PORT[,HOST:PORT]/PREFIX".to_owned());
        }
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        Ok(EtcdAddress { endpoints, prefix: prefix.to_owned() })
    }
}

impl Value for StoreAddress {
    const PLACEHOLDER: &'static str = "URL";

    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            None if text.is_empty() => Ok(Self(None)),
            Some(("etcd" | "etcds", rest)) => Self::etcd(rest).map(|address| Self(Some(address))),
            Some(("redis" | "rediss", _)) => Err(
                "Redis cannot store the log: a failover can lose acknowledged writes, so one lease could be granted \
                 twice; use etcd"
                    .to_owned(),
            ),
            Some(("nats" | "tls", _)) => Err(
                "NATS cannot store the log: it has no transaction over several keys that is synced before it is \
                 acknowledged; use etcd"
                    .to_owned(),
            ),
            Some(_) | None => Err("expected etcd://HOST:PORT[,HOST:PORT]/PREFIX".to_owned()),
        }
    }

    fn written(&self) -> String {
        match &self.0 {
            None => quoted(""),
            Some(address) => quoted(&address.text()),
        }
    }
}

impl Value for NodeName {
    const PLACEHOLDER: &'static str = "NAME";

    fn parse(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.len() > NODE_BYTES_MAX || !text.chars().all(fits) {
            return Err(format!(
                "expected at most {NODE_BYTES_MAX} letters, digits, dots, dashes and underscores"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    fn written(&self) -> String {
        quoted(&self.0)
    }
}

impl Value for NodeUrl {
    const PLACEHOLDER: &'static str = "URL";

    fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected http://HOST:PORT or https://HOST:PORT".to_owned();
        if text.is_empty() {
            return Ok(Self(String::new()));
        }
        let uri: http::Uri = text.parse().map_err(|_| expected())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.host().is_none_or(str::is_empty) || !matches!(uri.path(), "" | "/") {
            return Err(expected());
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }

    fn written(&self) -> String {
        quoted(&self.0)
    }
}

impl Value for PlainText {
    const PLACEHOLDER: &'static str = "TEXT";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }

    fn written(&self) -> String {
        quoted(&self.0)
    }
}

impl Value for Compaction {
    const PLACEHOLDER: &'static str = "WHO";
    const CHOICES: &'static [&'static str] = &["auto", "self", "operator"];

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "self" => Ok(Self::Ourselves),
            "operator" => Ok(Self::Operator),
            _ => Err(one_of(Self::CHOICES)),
        }
    }

    fn written(&self) -> String {
        quoted(match self {
            Self::Auto => "auto",
            Self::Ourselves => "self",
            Self::Operator => "operator",
        })
    }
}
