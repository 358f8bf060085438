//! What the fuzzer gives packets to: machines with services and looks of every kind, on a network that is not there. One has
//! few services and answers each packet before the next comes. The other has hundreds, and packets come faster than it
//! answers: what packets make it keep and send is bounded.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use if_addrs::{IfAddr, Ifv4Addr};

use crate::clock::{self, Instant};
use crate::link::{Family, Link, LinkId};
use crate::machine::Machine;
use crate::querier::CACHE_BYTES_MAX;
use crate::service::Service;
use crate::sighting::Wanted;
use crate::wire::{A, Data, Message, Name, Question, Record, SRV, TXT};

/// Machines that any host sends packets to.
pub struct Trial {
    few: Peer,
    many: Peer,
    heard: u64,
}

/// A machine, and when it sent what.
struct Peer {
    machine: Machine,
    now: Instant,
    /// When each question of a browse was last sent.
    asked: HashMap<(Name, u16), Instant>,
    /// When each query of a browse was sent, within the last second.
    queries: VecDeque<Instant>,
}

const LINK: LinkId = LinkId(1);
const SECOND: Duration = Duration::from_secs(1);
/// After this a machine has said all that one packet makes it say at once.
const SETTLED_AFTER: Duration = Duration::from_millis(1_200);
/// More packets than this are no answer to one packet.
const ANSWERS_MAX: usize = 600;
const MANY: usize = 300;
/// How fast packets come to the machine with many services.
const PACKETS_EVERY: Duration = Duration::from_millis(2);
/// Of each of many services seven questions can wait, with eight known answers and eight records that were sent.
const WAITING_ENTRIES_MAX: usize = MANY * 32;
/// Answers wait as questions from 512 packets on; announcements of many services can come on top.
const PACKETS_MAX: usize = 1_000;
/// Each service, and the name that it gives up.
const TIMERS_MAX: usize = MANY * 2;
/// Queries of one second: refreshes, instances that are asked for by themselves, known answers of three looks.
const QUERIES_MAX: usize = 300;

impl Trial {
    /// Machines that have announced their services.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it runs for a while")]
    pub fn new() -> Self {
        let few = Peer::new(["printer", "My.App", "büro"].map(service).into());
        Self { few, many: Peer::new((0..MANY).map(one_of_many).collect()), heard: 0 }
    }

    /// Packets of the kinds that are sent on networks.
    #[must_use]
    pub fn packets() -> Vec<Vec<u8>> {
        let mut few = Self::new().few;
        let mut packets = Vec::new();
        for key in 0..3 {
            few.machine.withdraw(few.now, key, service("printer"), 0);
            packets.extend(few.run(SETTLED_AFTER));
            few.machine.advertise(few.now, key, service(["printer", "My.App", "büro"][key as usize]));
            packets.extend(few.run(SETTLED_AFTER));
            packets.extend(few.run(SETTLED_AFTER));
        }
        for wanted in [Wanted::Types, Wanted::Type("_http._tcp".to_owned())] {
            few.machine.ask(few.now, &wanted);
            packets.extend(few.run(SETTLED_AFTER));
        }
        let messages = many_questions().into_iter().take(2).chain(known_answers().into_iter().take(2));
        packets.extend(messages.chain(claims(1)).chain([fakes(0, 1)]).filter_map(|message| message.write()));
        packets
    }

    /// Sends the machines a packet, by turns from a member and from a stranger, and lets them answer. Whether it is a message.
    ///
    /// # Panics
    /// When a machine says or keeps more than it may, or a message does not mean one thing.
    pub fn hear(&mut self, packet: &[u8]) -> bool {
        self.heard += 1;
        let port = if self.heard.is_multiple_of(4) { 40_000 } else { crate::PORT };
        let source = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 7), port));
        let said = self.few.hear(source, packet, SETTLED_AFTER);
        assert!(said.len() <= ANSWERS_MAX, "{} packets for one", said.len());
        self.many.hear(source, packet, PACKETS_EVERY);
        let Some(message) = Message::read(packet) else { return false };
        if let Some(written) = message.write() {
            assert_eq!(Message::read(&written), Some(message), "a message means one thing");
        }
        true
    }
}

impl Peer {
    fn new(services: Vec<Service>) -> Self {
        let now = clock::now();
        let mut machine = Machine::new(crate::PORT, 1);
        let (ip, netmask) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(255, 255, 255, 0));
        let addresses = vec![IfAddr::V4(Ifv4Addr { ip, netmask, prefixlen: 24, broadcast: None })];
        let (interface, family) = ("eth0".to_owned(), Family::V4);
        machine.link_up(now, Link { id: LINK, interface, index: 2, family, addresses });
        for (key, service) in services.into_iter().enumerate() {
            machine.advertise(now, key as u128, service);
        }
        let service_type = "_http._tcp".to_owned();
        machine.browse(now, &Wanted::Type(service_type.clone()));
        machine.browse(now, &Wanted::Subtype { subtype: "_sub".to_owned(), service_type });
        machine.browse(now, &Wanted::Types);
        let mut peer = Self { machine, now, asked: HashMap::new(), queries: VecDeque::new() };
        (0..5).for_each(|_| drop(peer.run(SETTLED_AFTER)));
        peer
    }

    fn hear(&mut self, source: SocketAddr, packet: &[u8], then: Duration) -> Vec<Vec<u8>> {
        self.machine.receive(self.now, LINK, source, packet);
        let said = self.run(then);
        let load = self.machine.load();
        assert!(load.waiting_entries <= WAITING_ENTRIES_MAX, "{load:?}");
        assert!(load.cache_bytes <= CACHE_BYTES_MAX, "{load:?}");
        assert!(load.packets <= PACKETS_MAX, "{load:?}");
        assert!(load.timers <= TIMERS_MAX, "{load:?}");
        said
    }

    fn run(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let until = self.now + time;
        let mut said = Vec::new();
        loop {
            self.machine.tick(self.now);
            while let Some(transmit) = self.machine.next_transmit(self.now) {
                self.machine.transmitted(self.now, LINK, &transmit.goodbyes, true);
                self.look_at(&transmit.bytes);
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

    /// Holds the queries of browses against their limits.
    fn look_at(&mut self, packet: &[u8]) {
        let now = self.now;
        let Some(message) = Message::read(packet) else { return };
        // Probes propose records.
        if message.is_response || !message.authorities.is_empty() {
            return;
        }
        self.queries.push_back(now);
        while self.queries.front().is_some_and(|at| *at + SECOND <= now) {
            self.queries.pop_front();
        }
        assert!(self.queries.len() <= QUERIES_MAX, "{} queries in a second", self.queries.len());
        // Packets wait for each other, so that questions leave a little later than they were asked.
        let is_recent = |at: &Instant| *at + SECOND * 9 / 10 > now;
        self.asked.retain(|_, at| is_recent(at));
        for question in message.questions {
            let earlier = self.asked.insert((question.name.clone(), question.kind), now);
            assert!(earlier.is_none(), "{:?} was asked twice in a second", question.name);
        }
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

fn one_of_many(number: usize) -> Service {
    Service { host: format!("many-{number}"), ..service(&format!("Many {number}")) }
}

fn names_of_many(number: usize) -> Option<(Name, Name, Name)> {
    let type_name = Name::of("_http._tcp.local")?;
    let instance = type_name.child(format!("Many {number}").as_bytes())?;
    Some((type_name, instance, Name::of(&format!("many-{number}.local"))?))
}

/// Questions for records of the many services, by a host that has more to say before it wants an answer.
fn many_questions() -> Vec<Message> {
    let mut questions = Vec::new();
    for (_, instance, host) in (0..MANY).filter_map(names_of_many) {
        let question = |name: &Name, kind| Question { name: name.clone(), kind, wants_unicast: false };
        questions.extend([question(&instance, SRV), question(&instance, TXT), question(&host, A)]);
    }
    let packet = |questions: &[Question]| Message {
        questions: questions.to_vec(),
        is_truncated: true,
        ..Message::default()
    };
    questions.chunks(100).map(packet).collect()
}

/// Records of the many services, as a host lists them that has them.
fn known_answers() -> Vec<Message> {
    let mut known = Vec::new();
    for (type_name, instance, host) in (0..MANY).filter_map(names_of_many) {
        let record = |name: &Name, ttl, data| Record { name: name.clone(), is_unique: false, ttl, data };
        let server = Data::Srv { priority: 0, weight: 0, port: 80, target: host.clone() };
        known.push(record(&type_name, 4_500, Data::Ptr(instance.clone())));
        known.push(record(&instance, 120, server));
        known.push(record(&host, 120, Data::A(Ipv4Addr::new(192, 0, 2, 1))));
    }
    let packet = |answers: &[Record]| Message { answers: answers.to_vec(), ..Message::default() };
    known.chunks(100).map(packet).collect()
}

/// Records of a host that claims a name of each of the many services: the one it begins with, or that of this number.
fn claims(number: usize) -> Vec<Message> {
    let mut claimed = Vec::new();
    for service in 0..MANY {
        let label = match number {
            1 => format!("Many {service}"),
            number => format!("Many {service} ({number})"),
        };
        let name = Name::of("_http._tcp.local").and_then(|name| name.child(label.as_bytes()));
        let (Some(name), Some(target)) = (name, Name::of("claimant.local")) else { continue };
        let data = Data::Srv { priority: 0, weight: 0, port: 1, target };
        claimed.push(Record { name, is_unique: true, ttl: 120, data });
    }
    let packet =
        |answers: &[Record]| Message { answers: answers.to_vec(), is_response: true, ..Message::default() };
    claimed.chunks(100).map(packet).collect()
}

/// Instances that are not there, with records that live as long as given.
fn fakes(from: usize, ttl: u32) -> Message {
    let mut message = Message { is_response: true, ..Message::default() };
    for number in from..from + 60 {
        let names = Name::of("_http._tcp.local")
            .and_then(|name| Some((name.child(format!("Fake {number}").as_bytes())?, name)));
        let (Some((instance, type_name)), Some(target)) = (names, Name::of("fake.local")) else { continue };
        let record = |name: &Name, data| Record { name: name.clone(), is_unique: false, ttl, data };
        message.answers.push(record(&type_name, Data::Ptr(instance.clone())));
        let server = Data::Srv { priority: 0, weight: 0, port: 1, target };
        message.answers.push(record(&instance, server));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(trial: &mut Trial, message: &Message) {
        assert!(trial.hear(&message.write().expect("it fits")));
    }

    #[test]
    fn floods_of_claims_stay_within_the_bounds() {
        let mut trial = Trial::new();
        for number in [1].into_iter().chain(1..=50) {
            for message in claims(number) {
                // Responses from strangers do not count.
                (0..2).for_each(|_| hear(&mut trial, &message));
            }
        }
    }

    #[test]
    fn floods_of_questions_known_answers_and_fakes_stay_within_the_bounds() {
        let mut trial = Trial::new();
        for round in 0..3 {
            many_questions().iter().for_each(|message| hear(&mut trial, message));
            for message in known_answers() {
                (0..4).for_each(|_| hear(&mut trial, &message));
            }
            for number in 0..100 {
                hear(&mut trial, &fakes(number * 60, [4_500, 1, 20][round]));
            }
        }
    }
}
