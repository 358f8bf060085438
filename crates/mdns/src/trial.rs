//! What the fuzzer gives packets to: a machine with services and looks of every kind, on a network that is not there.

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};

use if_addrs::{IfAddr, Ifv4Addr};

use crate::clock::{self, Instant};
use crate::link::{Family, Link, LinkId};
use crate::machine::Machine;
use crate::service::Service;
use crate::sighting::Wanted;
use crate::wire::Message;

/// A machine that is sent packets by anybody.
pub struct Trial {
    machine: Machine,
    now: Instant,
    heard: u64,
}

const LINK: LinkId = LinkId(1);
/// After this the machine has said all that one packet makes it say at once.
const SETTLED_AFTER: Duration = Duration::from_millis(1_200);
/// More packets than this are no answer to one packet.
const ANSWERS_MAX: usize = 600;

impl Trial {
    /// A machine that has announced its services.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it runs for a while")]
    pub fn new() -> Self {
        let now = clock::now();
        let mut machine = Machine::new(now, crate::PORT, 1);
        let (ip, netmask) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(255, 255, 255, 0));
        let addresses = vec![IfAddr::V4(Ifv4Addr { ip, netmask, prefixlen: 24, broadcast: None })];
        let (interface, family) = ("eth0".to_owned(), Family::V4);
        machine.link_up(now, Link { id: LINK, interface, index: 2, family, addresses });
        for (key, name) in ["printer", "My.App", "büro"].into_iter().enumerate() {
            machine.advertise(now, key as u128, service(name));
        }
        let service_type = "_http._tcp".to_owned();
        machine.browse(now, &Wanted::Type(service_type.clone()));
        machine.browse(now, &Wanted::Subtype { subtype: "_sub".to_owned(), service_type });
        machine.browse(now, &Wanted::Types);
        let mut trial = Self { machine, now, heard: 0 };
        (0..5).for_each(|_| drop(trial.run()));
        trial
    }

    /// Packets of the kinds that are sent on networks.
    #[must_use]
    pub fn packets() -> Vec<Vec<u8>> {
        let mut trial = Self::new();
        let mut packets = Vec::new();
        for key in 0..3 {
            trial.machine.withdraw(trial.now, key, service("printer"), 0);
            packets.extend(trial.run());
            trial.machine.advertise(trial.now, key, service(["printer", "My.App", "büro"][key as usize]));
            packets.extend(trial.run());
            packets.extend(trial.run());
        }
        for wanted in [Wanted::Types, Wanted::Type("_http._tcp".to_owned())] {
            trial.machine.ask(trial.now, &wanted);
            packets.extend(trial.run());
        }
        packets
    }

    /// Sends the machine a packet, by turns from a member and from a stranger, and lets it answer. Whether it is a message.
    ///
    /// # Panics
    /// When the machine says more than it may, or a message does not mean one thing.
    pub fn hear(&mut self, packet: &[u8]) -> bool {
        self.heard += 1;
        let port = if self.heard.is_multiple_of(4) { 40_000 } else { crate::PORT };
        let source = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 7), port));
        self.machine.receive(self.now, LINK, source, packet);
        let said = self.run();
        assert!(said.len() <= ANSWERS_MAX, "{} packets for one", said.len());
        let Some(message) = Message::read(packet) else { return false };
        if let Some(written) = message.write() {
            assert_eq!(Message::read(&written), Some(message), "a message means one thing");
        }
        true
    }

    fn run(&mut self) -> Vec<Vec<u8>> {
        let until = self.now + SETTLED_AFTER;
        let mut said = Vec::new();
        loop {
            self.machine.tick(self.now);
            while let Some(transmit) = self.machine.next_transmit(self.now) {
                self.machine.transmitted(self.now, LINK, &transmit.goodbyes, true);
                said.push(transmit.bytes);
            }
            drop((self.machine.take_events(), self.machine.take_findings()));
            match self.machine.next_due(self.now).filter(|due| *due <= until) {
                Some(due) => self.now = due.max(self.now),
                None => break,
            }
        }
        self.now = until;
        said
    }
}

fn service(name: &str) -> Service {
    Service {
        service_type: "_http._tcp".to_owned(),
        subtypes: vec!["_sub".to_owned()],
        name: name.to_owned(),
        host: format!("h{}", name.len()),
        port: 80,
        ip: None,
        txt: vec![("path".to_owned(), Some(b"/".to_vec()))],
    }
}
