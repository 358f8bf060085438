//! Bounds on connections and streams, in all and per peer. Dropping a place gives it back. Knows no sockets.
//!
//! Invariant: TCP clients cannot take the socket's last places, and one user cannot take root's.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tenure_api::{Error, ErrorCode};
use tenure_faces::{Counted, Full, Tally, over_limit};

/// The socket keeps at least this many, but at most half of all.
const SOCKET_PLACES_MIN: usize = 64;
/// TCP, one user, or callers other than operators never get one in this many of all places.
const RESERVED_PART: usize = 8;

/// Where a connection comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Source {
    /// TCP; the user too where the peer is of this machine and known.
    Tcp { address: IpAddr, uid: Option<u32> },
    /// The socket, by the peer's user.
    Socket { uid: u32 },
}

/// Places for connections.
pub(crate) struct Places {
    max: usize,
    taken: Arc<Tally<Source>>,
    /// Those of TCP, by the peer's user.
    tcp: Arc<Tally<Option<u32>>>,
}

/// One connection's.
#[derive(Debug)]
pub(crate) struct Place {
    _in_all: Counted<Source>,
    _of_tcp: Option<Counted<Option<u32>>>,
}

/// What callers other than operators may have of a whole.
pub(crate) fn for_most(max: usize) -> usize {
    max - max / RESERVED_PART
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, taken: Arc::default(), tcp: Arc::default() }
    }

    /// Places that TCP never gets.
    fn kept_for_socket(&self) -> usize {
        SOCKET_PLACES_MIN.max(self.max / RESERVED_PART).min(self.max / 2)
    }

    fn tcp_max(&self) -> usize {
        self.max - self.kept_for_socket()
    }

    /// What one source may have. Over loopback all users of the machine have one address.
    fn of_source_max(&self, source: Source) -> usize {
        match source {
            Source::Tcp { address, .. } if address.is_loopback() => self.max,
            Source::Tcp { .. } => self.tcp_max().div_ceil(2),
            Source::Socket { uid: 0 } => self.max,
            Source::Socket { .. } => for_most(self.max),
        }
    }

    /// A place of TCP for one more connection. Of this machine, root alone may have the last ones.
    fn admit_tcp(&self, address: IpAddr, uid: Option<u32>) -> Result<Counted<Option<u32>>, Error> {
        let max = self.tcp_max();
        let of_user_max =
            if address.is_loopback() && uid != Some(0) { max - max / RESERVED_PART } else { max };
        self.tcp.admit(uid, max, of_user_max).map_err(|passed| match passed {
            Full::InAll => self.refused("connections_tcp", max, "over TCP"),
            Full::OfKey => self.refused("connections_per_uid", of_user_max, "of one user over TCP"),
        })
    }

    /// A place for one more connection.
    pub(crate) fn admit(&self, source: Source) -> Result<Place, Error> {
        let of_tcp = match source {
            Source::Tcp { address, uid } => Some(self.admit_tcp(address.to_canonical(), uid)?),
            Source::Socket { .. } => None,
        };
        let source = source.grouped();
        let of_source_max = self.of_source_max(source);
        let in_all =
            self.taken.admit(source, self.max, of_source_max).map_err(|passed| match (passed, source) {
                (Full::InAll, _) => self.refused("connections", self.max, "in all"),
                (Full::OfKey, Source::Tcp { .. }) => {
                    self.refused("connections_per_address", of_source_max, "from one address")
                }
                (Full::OfKey, Source::Socket { .. }) => {
                    self.refused("connections_per_uid", of_source_max, "of one user")
                }
            })?;
        Ok(Place { _in_all: in_all, _of_tcp: of_tcp })
    }

    /// Whether an eighth of the places, or less, is left.
    pub(crate) fn are_scarce(&self) -> bool {
        self.taken.all() >= for_most(self.max)
    }

    fn refused(&self, limit: &str, value: usize, of_what: &str) -> Error {
        let message = format!("at most {value} connections may be open {of_what}");
        over_limit(ErrorCode::TooManyConnections, message, limit, "limits.connections", value)
    }
}

impl Source {
    /// Who shares the places of one. A user over loopback is the same user on the socket; a client with one IPv6 address
    /// usually has the whole /64.
    fn grouped(self) -> Self {
        match self {
            Self::Tcp { uid: Some(uid), .. } | Self::Socket { uid } => Self::Socket { uid },
            Self::Tcp { address, uid } => {
                let address = match address.to_canonical() {
                    IpAddr::V6(v6) if !v6.is_loopback() => {
                        IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)))
                    }
                    other => other,
                };
                Self::Tcp { address, uid }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: Source = of_user(Some(0));
    const ROOT: Source = Source::Socket { uid: 0 };
    const USER: Source = Source::Socket { uid: 1_000 };

    const fn of_user(uid: Option<u32>) -> Source {
        Source::Tcp { address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), uid }
    }

    fn take(places: &Places, source: Source, wanted: usize) -> Vec<Place> {
        (0..wanted).map_while(|_| places.admit(source).ok()).collect()
    }

    fn told(error: &Error) -> (&str, &str, u64) {
        let text = |key| error.details[key].as_str().unwrap();
        (text("limit"), text("setting"), error.details["value"].as_u64().unwrap())
    }

    #[test]
    fn tcp_clients_leave_places_for_the_socket() {
        // 60 clients over TCP at a limit of 60 once locked root out.
        let places = Places::new(60);
        let crowd = take(&places, LOOPBACK, 60);
        assert_eq!(crowd.len(), 30);
        let refused = places.admit(LOOPBACK).unwrap_err();
        assert_eq!(refused.code, ErrorCode::TooManyConnections);
        assert_eq!(told(&refused), ("connections_tcp", "limits.connections", 30));
        assert_eq!(take(&places, ROOT, 60).len(), 30);
        drop(crowd);
        assert!(places.admit(LOOPBACK).is_ok(), "places come back");
    }

    #[test]
    fn the_reserve_of_the_socket_is_an_eighth_and_no_more_than_half() {
        for (max, tcp) in [(1, 1), (2, 1), (4, 2), (60, 30), (200, 136), (896, 784), (20_000, 17_500)] {
            assert_eq!(take(&Places::new(max), LOOPBACK, max).len(), tcp, "of {max}");
        }
    }

    #[test]
    fn one_user_leaves_places_for_root() {
        let places = Places::new(80);
        let crowd = take(&places, USER, 80);
        assert_eq!(crowd.len(), 70);
        assert_eq!(told(&places.admit(USER).unwrap_err()), ("connections_per_uid", "limits.connections", 70));
        assert!(places.admit(Source::Socket { uid: 1_001 }).is_ok(), "others come in");
        let root = take(&places, ROOT, 80);
        assert_eq!(root.len(), 10, "root may have the last one");
        assert_eq!(told(&places.admit(ROOT).unwrap_err()), ("connections", "limits.connections", 80));
    }

    #[test]
    fn one_user_of_this_machine_leaves_places_of_tcp_to_root_and_others() {
        // Over loopback one user once took all places of TCP.
        for uid in [Some(1_000), None] {
            let places = Places::new(800);
            let crowd = take(&places, of_user(uid), 800);
            assert_eq!(crowd.len(), 613, "of 700");
            let refused = places.admit(of_user(uid)).unwrap_err();
            assert_eq!(told(&refused), ("connections_per_uid", "limits.connections", 613));
            assert!(places.admit(of_user(Some(1_001))).is_ok(), "others come in");
            assert_eq!(take(&places, of_user(Some(0)), 800).len(), 87);
        }
    }

    #[test]
    fn one_user_has_its_places_on_the_socket_and_over_tcp_together() {
        let places = Places::new(800);
        let over_tcp = take(&places, of_user(Some(1_000)), 300);
        assert_eq!(take(&places, USER, 800).len(), 400, "of 700");
        drop(over_tcp);
        assert_eq!(places.taken.keys(), 0, "users without a connection have no entry");
    }

    #[test]
    fn one_address_has_half_of_the_places_of_tcp() {
        let places = Places::new(400);
        let from = |text: &str| Source::Tcp { address: text.parse().unwrap(), uid: None };
        let crowd = take(&places, from("192.0.2.1"), 400);
        assert_eq!(crowd.len(), 168);
        let refused = places.admit(from("::ffff:192.0.2.1")).unwrap_err();
        assert_eq!(told(&refused), ("connections_per_address", "limits.connections", 168));
        assert!(places.admit(from("192.0.2.2")).is_ok());
        drop(crowd);
        let crowd = take(&places, from("2001:db8::1"), 400);
        assert!(places.admit(from("2001:db8::2")).is_err(), "one network of IPv6 is one source");
        assert!(places.admit(from("2001:db8:0:1::2")).is_ok());
        drop(crowd);
        assert_eq!(places.taken.keys(), 0, "sources without a connection have no entry");
    }

    #[test]
    fn places_are_scarce_when_an_eighth_is_left() {
        let places = Places::new(16);
        let mut taken = take(&places, ROOT, 13);
        assert!(!places.are_scarce());
        taken.extend(places.admit(ROOT));
        assert!(places.are_scarce());
    }
}
