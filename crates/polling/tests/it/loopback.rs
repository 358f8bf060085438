//! A loopback address of a test's own, so that the ports it finds free stay so.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

pub(crate) struct Loopback(pub(crate) Ipv4Addr);

impl Loopback {
    /// One of sixteen million.
    pub(crate) fn draw() -> Self {
        let mut bytes = [0; 3];
        getrandom::fill(&mut bytes).expect("random bytes");
        // Not the one that everybody uses, and neither the first nor the last.
        Self(Ipv4Addr::new(127, bytes[0].max(1), bytes[1], bytes[2].clamp(1, 254)))
    }

    /// A port there that nobody listens on, low enough for the second one that a node of a Cluster has 10,000 above.
    pub(crate) fn free_port(&self) -> SocketAddr {
        loop {
            let listener = TcpListener::bind((self.0, 0)).expect("a port");
            let address = listener.local_addr().expect("an address");
            if address.port() < 55_000 {
                return address;
            }
        }
    }
}
