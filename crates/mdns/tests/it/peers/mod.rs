//! Programs of others that speak mDNS, in networks of their own: Avahi, python-zeroconf and a listener for raw
//! records. Knows nothing of Tenure, so that tests of any package can include it by path; this file is `mod.rs`
//! because a file included by path finds its modules beside itself.
//! Needs root, and what `cargo xtask test` installs; includers need rustix (`event`), serde_json and tempfile.

pub(crate) mod avahi;
pub(crate) mod feed;
pub(crate) mod netns;
pub(crate) mod zeroconf;

use std::net::IpAddr;

/// What is to be registered. zeroconf takes dots in `name` for borders of labels; Avahi does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service<'a> {
    pub(crate) name: &'a str,
    /// `_http._tcp`
    pub(crate) service_type: &'a str,
    pub(crate) port: u16,
    /// `key=value`, or `key` alone.
    pub(crate) txt: &'a [&'a [u8]],
}

/// What a peer learnt about one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When the peer learnt it, in nanoseconds of CLOCK_MONOTONIC, the same for all processes of the machine.
    pub(crate) at_ns: u64,
    pub(crate) change: Change,
    /// The instance, without type and domain, nothing escaped.
    pub(crate) name: String,
    /// `_http._tcp`
    pub(crate) service_type: String,
    /// The rest is known only in `Added` and `Updated`. The host is without a trailing dot: `alpha.local`.
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) addresses: Vec<IpAddr>,
    /// The strings of the TXT record, in its order: `key=value`, or `key` alone.
    pub(crate) txt: Vec<Vec<u8>>,
}

/// What happened to an instance in the eyes of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Its name is known: a pointer came. This is the moment to measure.
    Named,
    /// It has been resolved for the first time since it was named.
    Added,
    /// It has been resolved again and is different. Only zeroconf tells.
    Updated,
    /// Its name is gone.
    Removed,
}

impl Seen {
    /// Whether this is such a change of the instance of that name.
    pub(crate) fn is(&self, change: Change, name: &str) -> bool {
        self.change == change && self.name == name
    }

    /// The strings of the TXT record as text.
    pub(crate) fn txt_text(&self) -> Vec<String> {
        self.txt.iter().map(|string| String::from_utf8_lossy(string).into_owned()).collect()
    }
}
