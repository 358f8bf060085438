//! Several machines on simulated networks that are cut and joined, under a simulated clock; a run repeats from its seed.
//! What must hold is written from RFC 6762: a name has one host, and everybody comes to see what is there and nothing else.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use if_addrs::{IfAddr, Ifv4Addr};

use super::Machine;
use crate::board::{Goodbye, Standing};
use crate::clock::{self, Instant};
use crate::link::{Family, Link, LinkId};
use crate::random::Random;
use crate::responder::Event;
use crate::service::Service;
use crate::service::tests::service;
use crate::sighting::{Record, Wanted};
use crate::wire::{A, ANY, Data, Message, NSEC, Name, PTR, Question, Record as Heard, SRV, TXT};

mod contests;
mod links;

const PORT: u16 = 5353;
const LATENCY: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Hosts, and the networks they are on.
struct World {
    now: Instant,
    hosts: Vec<Host>,
    /// Packets under way: when they arrive, from whom, on which network.
    wire: Vec<(Instant, usize, u32, Vec<u8>)>,
    /// A host that is no machine: what it answers to each packet on its network.
    stranger: Option<fn(&Message) -> Option<Message>>,
    probes: BTreeSet<String>,
    /// When each name was first probed for.
    probed_at: BTreeMap<String, Instant>,
    /// When each question of a browse was sent.
    asked: BTreeMap<(String, u16), Vec<Instant>>,
    /// Records that were sent with a TTL of 0, with their number: names and kinds.
    goodbyes: BTreeMap<(String, u16), usize>,
    /// Ports that each name was ever said to be at.
    said: BTreeMap<String, BTreeSet<u16>>,
    /// When each record was sent to the group, by host.
    multicast: BTreeMap<(usize, String), Vec<Instant>>,
    packets: usize,
    /// Of these, to one host alone.
    unicast: usize,
}

struct Host {
    machine: Machine,
    network: u32,
    /// Whether its link is there.
    is_up: bool,
    wanted: BTreeMap<u128, Service>,
    standings: BTreeMap<u128, Standing>,
    seen: BTreeMap<String, Option<Record>>,
    removals: Vec<String>,
    withdrawn: Vec<(u64, Goodbye)>,
}

fn http() -> Wanted {
    Wanted::Type("_http._tcp".to_owned())
}

fn link(host: usize) -> Link {
    let last = u8::try_from(host + 1).expect("few hosts");
    let ip = Ipv4Addr::new(192, 0, 2, last);
    let netmask = Ipv4Addr::new(255, 255, 255, 0);
    let addresses = vec![IfAddr::V4(Ifv4Addr { ip, netmask, prefixlen: 24, broadcast: None })];
    Link { id: LinkId(1), interface: "eth0".to_owned(), index: 2, family: Family::V4, addresses }
}

fn named(host: usize, key: u128, name: &str) -> Service {
    let port =
        u16::try_from(key).expect("small keys") + 1_000 * (1 + u16::try_from(host).expect("few hosts"));
    Service { host: format!("h{host}-{key}"), port, ..service(name) }
}

impl World {
    fn new(hosts: usize, seed: u64) -> Self {
        let seeds = (0..hosts as u64).map(|host| seed.wrapping_mul(31).wrapping_add(host));
        Self::with_seeds(seeds.collect())
    }

    fn with_seeds(seeds: Vec<u64>) -> Self {
        let now = clock::now();
        let mut world = Self {
            now,
            hosts: Vec::new(),
            wire: Vec::new(),
            stranger: None,
            probes: BTreeSet::new(),
            probed_at: BTreeMap::new(),
            asked: BTreeMap::new(),
            goodbyes: BTreeMap::new(),
            said: BTreeMap::new(),
            multicast: BTreeMap::new(),
            packets: 0,
            unicast: 0,
        };
        for (host, seed) in seeds.into_iter().enumerate() {
            let machine = Machine::new(PORT, seed);
            world.hosts.push(Host {
                machine,
                network: 0,
                is_up: true,
                wanted: BTreeMap::new(),
                standings: BTreeMap::new(),
                seen: BTreeMap::new(),
                removals: Vec::new(),
                withdrawn: Vec::new(),
            });
            world.hosts[host].machine.link_up(now, link(host));
            world.hosts[host].machine.browse(now, &http());
        }
        world
    }

    fn advertise(&mut self, host: usize, key: u128, name: &str) {
        let service = named(host, key, name);
        self.hosts[host].wanted.insert(key, service.clone());
        self.hosts[host].machine.advertise(self.now, key, service);
    }

    fn withdraw(&mut self, host: usize, key: u128) {
        if let Some(service) = self.hosts[host].wanted.remove(&key) {
            let token = u64::try_from(key).expect("small keys");
            self.hosts[host].machine.withdraw(self.now, key, service, token);
        }
    }

    /// The process dies without a word and another takes its place.
    fn crash(&mut self, host: usize, seed: u64) {
        let mut machine = Machine::new(PORT, seed);
        if self.hosts[host].is_up {
            machine.link_up(self.now, link(host));
        }
        machine.browse(self.now, &http());
        for (key, service) in &self.hosts[host].wanted {
            machine.advertise(self.now, *key, service.clone());
        }
        self.hosts[host].seen.clear();
        self.hosts[host].machine = machine;
    }

    fn unplug(&mut self, host: usize) {
        if core::mem::take(&mut self.hosts[host].is_up) {
            self.hosts[host].machine.link_down(self.now, LinkId(1));
        }
    }

    fn plug_in(&mut self, host: usize) {
        if !core::mem::replace(&mut self.hosts[host].is_up, true) {
            self.hosts[host].machine.link_up(self.now, link(host));
        }
    }

    /// A host finds itself on another network, as behind a switch: its link stays up.
    fn put(&mut self, host: usize, network: u32) {
        self.hosts[host].network = network;
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            (0..self.hosts.len()).for_each(|host| self.go_on(host));
            let due = self.hosts.iter().filter_map(|host| host.machine.next_due(self.now));
            let arrives = self.wire.iter().map(|(at, ..)| *at);
            let next = due.chain(arrives).min().filter(|next| *next <= until);
            let Some(next) = next else { break };
            self.now = next.max(self.now);
            self.deliver();
        }
        self.now = until;
    }

    fn go_on(&mut self, at: usize) {
        let (now, host) = (self.now, &mut self.hosts[at]);
        host.machine.tick(now);
        while let Some(transmit) = host.machine.next_transmit(now) {
            host.machine.transmitted(now, transmit.link, &transmit.goodbyes, true);
            self.packets += 1;
            self.unicast += usize::from(transmit.to.is_some());
            let message = Message::read(&transmit.bytes).expect("what we write can be read");
            for question in message.questions.iter().filter(|question| question.kind == ANY) {
                self.probes.insert(question.name.to_string());
                self.probed_at.entry(question.name.to_string()).or_insert(now);
            }
            for question in message.questions.iter().filter(|_| message.authorities.is_empty()) {
                self.asked.entry((question.name.to_string(), question.kind)).or_default().push(now);
            }
            for record in message.answers.iter().filter(|record| message.is_response && record.ttl == 0) {
                *self.goodbyes.entry((record.name.to_string(), record.data.kind())).or_default() += 1;
            }
            for record in message.answers.iter().chain(&message.additionals).filter(|record| record.ttl > 0) {
                if transmit.to.is_none() && message.is_response {
                    let record = format!("{} {:?}", record.name, record.data);
                    self.multicast.entry((at, record)).or_default().push(now);
                }
                if let Data::Srv { port, .. } = record.data {
                    self.said.entry(record.name.to_string()).or_default().insert(port);
                }
            }
            if transmit.to.is_none() {
                self.wire.push((now + LATENCY, at, host.network, transmit.bytes));
            }
        }
        for event in host.machine.take_events() {
            match event {
                Event::Standing(key, Some(standing)) => drop(host.standings.insert(key, standing)),
                Event::Standing(key, None) => drop(host.standings.remove(&key)),
                Event::Withdrawn(token, goodbye) => host.withdrawn.push((token, goodbye)),
                Event::Renamed(..) => {}
            }
        }
        for finding in host.machine.take_findings() {
            match finding.seen {
                Some(seen) => drop(host.seen.insert(finding.name, seen.record)),
                None => {
                    host.seen.remove(&finding.name);
                    host.removals.push(finding.name);
                }
            }
        }
    }

    fn deliver(&mut self) {
        let now = self.now;
        let (arrived, under_way) =
            core::mem::take(&mut self.wire).into_iter().partition(|(at, ..)| *at <= now);
        self.wire = under_way;
        let arrived: Vec<(Instant, usize, u32, Vec<u8>)> = arrived;
        for (_, from, network, bytes) in arrived {
            if let Some(stranger) = self.stranger
                && from != usize::MAX
                && let Some(answer) = Message::read(&bytes).and_then(|message| stranger(&message))
            {
                let bytes = answer.write().expect("it fits");
                self.wire.push((now + LATENCY, usize::MAX, network, bytes));
            }
            let last = u8::try_from(from.wrapping_add(1)).unwrap_or(0).max(1);
            let source = SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), PORT));
            for host in self.hosts.iter_mut().filter(|host| host.is_up && host.network == network) {
                host.machine.receive(now, LinkId(1), source, &bytes);
            }
        }
    }

    /// Names on the network by the hosts' own word, with their ports.
    fn advertised(&self) -> BTreeMap<String, u16> {
        let mut all = BTreeMap::new();
        for host in &self.hosts {
            for (key, service) in &host.wanted {
                let standing = host.standings.get(key).unwrap_or_else(|| panic!("{key} has no standing"));
                let is_own = |other: &Standing| other.name.as_ref() == Some(&service.name);
                if !standing.advertised && host.standings.values().any(is_own) {
                    // Another service of this host got the name; `last_error` says so.
                    continue;
                }
                assert!(standing.advertised, "{} is not advertised: {standing:?}", service.name);
                let name = standing.name.clone().expect("an advertised one has a name").to_ascii_lowercase();
                assert!(all.insert(name.clone(), service.port).is_none(), "{name} has two hosts");
            }
        }
        all
    }

    /// What a host sees, with the ports.
    fn seen(&self, host: usize) -> BTreeMap<String, u16> {
        let seen = self.hosts[host].seen.iter();
        let port = |record: &Option<Record>| record.as_ref().and_then(|record| record.port).unwrap_or(0);
        seen.map(|(name, record)| (name.to_ascii_lowercase(), port(record))).collect()
    }

    fn ask_all(&mut self) {
        for host in &mut self.hosts {
            host.machine.ask(self.now, &http());
        }
    }
}

#[test]
fn a_name_has_one_host_and_everybody_sees_what_is_there_after_any_cuts_joins_and_crashes() {
    let names = ["printer", "Dot.ted", "Büro", "a\\b", "printer (2)"];
    for seed in 0..60 {
        let mut world = World::new(4, seed);
        let mut random = Random::new(seed);
        let mut draw = |most: usize| {
            let most = u64::try_from(most).expect("small");
            usize::try_from(random.within(Duration::ZERO, Duration::from_millis(most)).as_millis())
                .expect("small")
        };
        for step in 0..40 {
            let (host, key) = (draw(4), 1 + draw(4) as u128);
            match draw(12) {
                0..4 => world.advertise(host, key, names[draw(names.len())]),
                4..6 => world.withdraw(host, key),
                6..8 => world.put(host, draw(2) as u32),
                8 => world.crash(host, seed * 1_000 + step),
                9 => world.unplug(host),
                10 => world.plug_in(host),
                _ => world.hosts[host].machine.woke(world.now),
            }
            let pause = [0, 3, 50, 300, 2_000, 20_000][draw(6)];
            world.run(Duration::from_millis(pause));
        }
        for host in 0..4 {
            world.put(host, 0);
            world.plug_in(host);
        }
        // Somebody has to say something for the networks to notice each other; ghosts of crashes end with their records.
        world.ask_all();
        world.run(Duration::from_secs(60));
        world.run(2 * HOUR);
        let advertised = world.advertised();
        for host in 0..4 {
            assert_eq!(world.seen(host), advertised, "seed {seed}, host {host}");
        }
    }
}

#[test]
fn services_of_survivors_are_never_seen_to_go() {
    for seed in 0..20 {
        let mut world = World::new(3, seed);
        (1..=8).for_each(|key| world.advertise(0, key, &format!("stays {key}")));
        (1..=8).for_each(|key| world.advertise(1, key, &format!("goes {key}")));
        world.run(Duration::from_secs(5));
        world.advertise(0, 1, "stays 1");
        (1..=8).for_each(|key| world.withdraw(1, key));
        world.crash(0, seed + 77);
        world.run(10 * HOUR);
        let removals = &world.hosts[2].removals;
        assert!(removals.iter().all(|name| name.starts_with("goes")), "{removals:?}");
        assert_eq!(removals.len(), 8);
        assert_eq!(world.seen(2).len(), 8);
        assert_eq!(world.hosts[1].withdrawn.len(), 8);
    }
}

#[test]
fn of_hosts_that_want_a_name_at_the_same_moment_only_one_ever_says_that_it_has_it() {
    for seed in 0..20 {
        // The delays that would keep them apart are the same for all.
        let mut world = World::with_seeds(vec![seed; 3]);
        for key in 1..=6 {
            (0..3).for_each(|host| world.advertise(host, key, &format!("name {key}.0")));
        }
        world.run(Duration::from_secs(30));
        assert_eq!(world.advertised().len(), 18);
        let twice = world.said.iter().find(|(_, ports)| ports.len() > 1);
        assert_eq!(twice, None, "seed {seed}");
    }
}

#[test]
fn a_goodbye_that_another_host_says_for_us_is_taken_back_before_anybody_forgets() {
    let mut world = World::new(2, 5);
    world.advertise(0, 1, "ours");
    world.run(Duration::from_secs(10));
    let type_name = Name::of("_http._tcp.local").expect("a name");
    let data = Data::Ptr(type_name.child(b"ours").expect("a name"));
    let goodbye = Heard { name: type_name, is_unique: false, ttl: 0, data };
    let forged = Message { is_response: true, answers: vec![goodbye; 300], ..Message::default() };
    let packet = forged.write().expect("it fits");
    let before = world.packets;
    let source = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 99), PORT));
    for _ in 0..50 {
        for host in &mut world.hosts {
            host.machine.receive(world.now, LinkId(1), source, &packet);
        }
        world.run(Duration::from_millis(100));
    }
    let sent = world.packets - before;
    world.run(HOUR);
    assert_eq!(world.hosts[1].removals, [""; 0]);
    assert!((2..20).contains(&sent), "{sent} packets");
}

#[test]
fn an_update_under_the_name_that_a_conflict_gave_removes_nothing() {
    let mut world = World::new(2, 5);
    world.advertise(1, 1, "web");
    world.run(Duration::from_secs(5));
    world.advertise(0, 1, "web");
    world.run(Duration::from_secs(5));
    assert_eq!(world.hosts[0].standings[&1].name.as_deref(), Some("web (2)"));
    world.advertise(0, 1, "web (2)");
    let changed = Service { port: 7, ..named(0, 1, "web (2)") };
    world.hosts[0].machine.advertise(world.now, 1, changed);
    world.run(Duration::from_secs(5));
    assert_eq!(world.seen(1).get("web (2)"), Some(&7));
    assert_eq!(world.hosts[1].removals, [""; 0]);
}

/// Claims each name that somebody probes for.
fn claims_all(message: &Message) -> Option<Message> {
    let probed = message.questions.iter().filter(|question| question.kind == ANY && !message.is_response);
    let claim = |question: &Question| {
        let target = Name::of("claimant.local").expect("a name");
        let data = Data::Srv { priority: 0, weight: 0, port: 1, target };
        Heard { name: question.name.clone(), is_unique: true, ttl: 120, data }
    };
    let answers: Vec<Heard> =
        probed.filter(|question| question.name.labels().count() > 2).map(claim).collect();
    (!answers.is_empty()).then(|| Message { is_response: true, answers, ..Message::default() })
}

#[test]
fn names_that_are_all_taken_are_tried_ever_more_slowly_and_one_that_is_not_is_kept() {
    for name in ["wanted", "dotted 1.2"] {
        let mut world = World::new(1, 7);
        world.stranger = Some(claims_all);
        world.advertise(0, 1, name);
        world.run(Duration::from_secs(20));
        let tried = world.probes.iter().filter(|tried| tried.contains("_http")).count();
        assert!((15..=20).contains(&tried), "{tried} names");
        let standing = &world.hosts[0].standings[&1];
        assert!(!standing.advertised);
        let error = standing.last_error.as_deref().expect("what is going on");
        assert!(error.contains("name conflict"), "{error}");
        world.stranger = None;
        world.run(Duration::from_secs(7));
        assert!(world.hosts[0].standings[&1].advertised);
    }
}

#[test]
fn packets_that_repeat_a_question_are_answered_once_a_second() {
    let mut world = World::new(2, 3);
    (1..=200).for_each(|key| world.advertise(0, key, &format!("service {key}")));
    world.run(Duration::from_secs(10));
    let name = Name::of("_http._tcp.local").expect("a name");
    let question = Question { name, kind: ANY, wants_unicast: false };
    let packet = Message { questions: vec![question; 100], ..Message::default() }.write().expect("it fits");
    let before = world.packets;
    let source = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 99), PORT));
    for _ in 0..10 {
        for _ in 0..100 {
            world.hosts[0].machine.receive(world.now, LinkId(1), source, &packet);
        }
        world.run(Duration::from_millis(50));
    }
    world.run(Duration::from_secs(2));
    // Two hundred services fill about forty packets.
    let sent = world.packets - before;
    assert!(sent < 150, "{sent} packets");
}

#[test]
fn a_question_from_elsewhere_is_answered_to_nobody() {
    let mut world = World::new(1, 3);
    world.advertise(0, 1, "here");
    world.run(Duration::from_secs(10));
    let name = Name::of("_http._tcp.local").and_then(|name| name.child(b"here")).expect("a name");
    let question = Question { name, kind: SRV, wants_unicast: true };
    let packet = Message { questions: vec![question], ..Message::default() }.write().expect("it fits");
    let before = world.packets;
    for source in [IpAddr::from([198, 51, 100, 1]), IpAddr::from([8, 8, 8, 8])] {
        world.hosts[0].machine.receive(world.now, LinkId(1), SocketAddr::new(source, 40_000), &packet);
    }
    world.run(Duration::from_secs(2));
    assert_eq!(world.packets, before);
}

/// RFC 6762 §6. A correction, an update and the pointer to a type came too soon after an answer or an announcement.
#[test]
fn a_record_is_sent_to_everybody_once_a_second_at_most_whatever_is_asked_and_said_of_it() {
    for seed in 0..30 {
        let mut world = World::new(1, seed);
        (1..=3).for_each(|key| world.advertise(0, key, &format!("service {key}")));
        world.run(Duration::from_secs(10));
        let mut random = Random::new(seed);
        let mut draw = |most: u64| {
            let drawn = random.within(Duration::ZERO, Duration::from_millis(most)).as_millis();
            u64::try_from(drawn).expect("small")
        };
        for step in 0..400 {
            let label = format!("service {}", 1 + draw(3).min(2));
            let question = |name: Name, kind: u16, draw: u64| Message {
                questions: vec![Question { name, kind, wants_unicast: draw == 0 }],
                ..Message::default()
            };
            let kind = [SRV, TXT, ANY, NSEC][usize::try_from(draw(4).min(3)).expect("small")];
            match draw(20) {
                0..6 => world.hear(&question(http_name(&[]), PTR, draw(3))),
                6..9 => world.hear(&question(http_name(&[&label]), kind, draw(3))),
                9..12 => {
                    let host = format!("h0-{}.local", 1 + draw(3).min(2));
                    world.hear(&question(Name::of(&host).expect("a name"), A, draw(3)));
                }
                12..14 => world.hear(&question(crate::responder::TYPES.clone(), PTR, draw(3))),
                14..17 => world.hear(&response(vec![pointer(&label, 0)])),
                17 => world.advertise(0, 10 + step, &format!("later {step}")),
                _ => {
                    let port = 5_000 + u16::try_from(step).expect("small");
                    let changed = Service { port, ..named(0, 1, "service 1") };
                    world.hosts[0].machine.advertise(world.now, 1, changed);
                }
            }
            world.run(Duration::from_millis(draw(400)));
        }
        for ((_, record), times) in &world.multicast {
            let least = times.windows(2).map(|pair| pair[1] - pair[0]).min();
            assert!(
                least.is_none_or(|least| least >= Duration::from_secs(1)),
                "{seed}: {record} after {least:?}"
            );
        }
    }
}

/// A probe whose answer was to be unicast was neither answered by unicast, because it came from another network, nor to
/// the group: its host took the name.
#[test]
fn a_probe_of_a_host_of_another_network_on_the_link_is_answered_to_everybody() {
    let mut world = World::new(1, 3);
    world.advertise(0, 1, "web");
    world.run(Duration::from_secs(10));
    let question = Question { name: http_name(&["web"]), kind: ANY, wants_unicast: true };
    let authorities = vec![server_of_web()];
    let probe = Message { questions: vec![question], authorities, ..Message::default() };
    let (packet, before) = (probe.write().expect("it fits"), world.packets);
    let source = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 7), PORT));
    world.hosts[0].machine.receive(world.now, LinkId(1), source, &packet);
    world.said.clear();
    world.run(Duration::from_secs(1));
    assert_eq!(world.packets - before, 1);
    assert_eq!(world.unicast, 0);
    assert!(world.said.contains_key("web._http._tcp.local"), "{:?}", world.said);
}

const STRANGER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 99)), PORT);

fn http_name(labels: &[&str]) -> Name {
    let name = Name::of("_http._tcp.local").expect("a name");
    labels.iter().rev().fold(name, |name, label| name.child(label.as_bytes()).expect("a name"))
}

impl World {
    /// The first host receives a packet from a host that is none of ours.
    fn hear(&mut self, message: &Message) {
        let packet = message.write().expect("it fits");
        self.hosts[0].machine.receive(self.now, LinkId(1), STRANGER, &packet);
    }
}

fn response(answers: Vec<Heard>) -> Message {
    Message { is_response: true, answers, ..Message::default() }
}

fn pointer(label: &str, ttl: u32) -> Heard {
    let data = Data::Ptr(http_name(&[label]));
    Heard { name: http_name(&[]), is_unique: false, ttl, data }
}

/// 2,048 questions waited, and each got its own copy of all 1,400 known answers: 200 MB.
#[test]
fn known_answers_are_kept_once_however_many_questions_wait_for_them() {
    let mut world = World::new(1, 3);
    (1..=600).for_each(|key| world.advertise(0, key, &format!("service {key}")));
    world.run(Duration::from_secs(60));
    let mut questions = Vec::new();
    let mut known = Vec::new();
    for key in 1..=600 {
        let instance = http_name(&[&format!("service {key}")]);
        let host = Name::of(&format!("h0-{key}.local")).expect("a name");
        let question = |name: &Name, kind| Question { name: name.clone(), kind, wants_unicast: false };
        questions.extend([SRV, TXT, NSEC, ANY].map(|kind| question(&instance, kind)));
        questions.extend([A, NSEC, ANY].map(|kind| question(&host, kind)));
        let answer = |name: Name, ttl, data| Heard { name, is_unique: false, ttl, data };
        let srv = Data::Srv { priority: 0, weight: 0, port: 1_000 + key, target: host.clone() };
        known.push(pointer(&format!("service {key}"), 4_500));
        known.push(answer(instance.clone(), 120, srv));
        known.push(answer(instance, 4_500, Data::Txt(Box::new([0]))));
        known.push(answer(host, 120, Data::A(Ipv4Addr::new(192, 0, 2, 1))));
    }
    questions.truncate(2_048);
    for questions in questions.chunks(128) {
        let asked = Message { questions: questions.to_vec(), is_truncated: true, ..Message::default() };
        world.hear(&asked);
    }
    for answers in known[..1_400].chunks(100) {
        world.hear(&Message { answers: answers.to_vec(), is_truncated: true, ..Message::default() });
    }
    let kept = world.hosts[0].machine.responder.waiting_entries();
    assert!(kept <= 2_048 + 1_400 + 2_048, "{kept} entries");
    let before = world.packets;
    world.run(Duration::from_secs(5));
    let sent = world.packets - before;
    // Known: SRV, TXT, A of 350 services. Sent: those of the others, and that there is nothing else.
    assert!(sent < 150, "{sent} packets");
    assert_eq!(world.hosts[0].machine.responder.waiting_entries(), 0);
}

/// Each packet below made the machine ask four times within a second, for each record of it.
#[test]
fn a_question_is_asked_once_a_second_however_short_the_records_live() {
    let mut world = World::new(1, 3);
    world.run(Duration::from_secs(10));
    let before = world.packets;
    for round in 0..100 {
        let mut answers: Vec<Heard> = Vec::new();
        for number in 0..20 {
            let name = format!("fake {}", (round % 10) * 20 + number);
            answers.push(pointer(&name, 1));
            let target = Name::of("claimant.local").expect("a name");
            let srv = Data::Srv { priority: 0, weight: 0, port: 1, target };
            answers.push(Heard { name: http_name(&[&name]), is_unique: false, ttl: 1, data: srv });
        }
        world.hear(&response(answers));
        world.run(Duration::from_millis(100));
    }
    for (question, at) in &world.asked {
        let least = at.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(least.is_none_or(|least| least >= Duration::from_secs(1)), "{question:?} after {least:?}");
    }
    let sent = world.packets - before;
    // A hundred instances are asked for by themselves in a second, each in its own packet if they come one by one.
    assert!(sent < 10 * 120, "{sent} packets");
}

#[test]
fn a_question_lists_as_many_known_answers_as_fit_some_packets() {
    let mut world = World::new(1, 3);
    world.run(Duration::from_secs(10));
    for packet in 0..30 {
        let answers = (0..100).map(|number| pointer(&format!("fake {}", packet * 100 + number), 4_500));
        world.hear(&response(answers.collect()));
    }
    world.run(Duration::from_secs(30));
    let before = world.packets;
    world.ask_all();
    world.run(Duration::from_millis(500));
    let sent = world.packets - before;
    // A hundred instances are asked for by themselves in a second.
    assert!((1..=40).contains(&sent), "{sent} packets");
}

/// 20,000 records run out together; each had its question at once.
#[test]
fn questions_wait_while_the_network_does_not_take_packets() {
    let mut world = World::new(1, 3);
    world.run(Duration::from_secs(10));
    for packet in 0..100 {
        let mut answers = Vec::new();
        for number in 0..100 {
            let name = format!("fake {}", packet * 100 + number);
            answers.push(pointer(&name, 20));
            let data = Data::Txt(Box::new([0]));
            answers.push(Heard { name: http_name(&[&name]), is_unique: false, ttl: 20, data });
        }
        world.hear(&response(answers));
    }
    let (mut most, until) = (0, world.now + Duration::from_secs(19));
    let machine = &mut world.hosts[0].machine;
    while world.now < until {
        world.now += Duration::from_millis(10);
        machine.tick(world.now);
        most = most.max(machine.outbox.waiting());
        // One packet in ten milliseconds, where two in one are sent.
        let _ = machine.next_transmit(world.now);
    }
    assert!(most <= 600, "{most} packets wait");
}

/// Probes for 2,000 names were answered four times a second, faster than the answers can leave.
#[test]
fn answers_wait_as_questions_while_the_network_does_not_take_packets() {
    let mut world = World::new(1, 3);
    (1..=800).for_each(|key| world.advertise(0, key, &format!("service {key}")));
    world.run(Duration::from_secs(60));
    let mut probes = Vec::new();
    for keys in (1..=800).collect::<Vec<u32>>().chunks(100) {
        let name = |key: &u32| http_name(&[&format!("service {key}")]);
        let question = |key| Question { name: name(key), kind: ANY, wants_unicast: false };
        let data = Data::Txt(Box::new([0]));
        let proposal = |key| Heard { name: name(key), is_unique: false, ttl: 120, data: data.clone() };
        let authorities = keys.iter().map(proposal).collect();
        let questions = keys.iter().map(question).collect();
        probes.push(Message { questions, authorities, ..Message::default() });
    }
    let mut most = 0;
    for _ in 0..100 {
        probes.iter().for_each(|probe| world.hear(probe));
        for _ in 0..5 {
            world.now += Duration::from_millis(50);
            let machine = &mut world.hosts[0].machine;
            machine.tick(world.now);
            most = most.max(machine.outbox.waiting());
            let _ = machine.next_transmit(world.now);
        }
    }
    assert!(most <= 1_000, "{most} packets wait");
}

#[test]
fn a_repeated_goodbye_leaves_in_a_flood_of_questions_for_one_host() {
    let mut world = World::new(1, 3);
    world.advertise(0, 1, "stays");
    world.advertise(0, 2, "goes");
    world.run(Duration::from_secs(10));
    world.withdraw(0, 2);
    let question = Question { name: http_name(&["stays"]), kind: SRV, wants_unicast: true };
    let asked = Message { questions: vec![question], ..Message::default() }.write().expect("it fits");
    let stranger = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 99), 40_000));
    for _ in 0..500 {
        // More than can be answered.
        for _ in 0..4 {
            world.hosts[0].machine.receive(world.now, LinkId(1), stranger, &asked);
        }
        world.run(Duration::from_millis(1));
    }
    assert_eq!(world.hosts[0].withdrawn, [(2, Goodbye::Sent)]);
}

/// A name had 64 servers and 64 texts of 8.9 KB each.
#[test]
fn a_host_that_says_many_things_of_one_name_is_remembered_for_few() {
    let mut world = World::new(1, 3);
    world.hear(&response(vec![pointer("liar", 4_500)]));
    for number in 0..100_u16 {
        let name = || http_name(&["liar"]);
        let target = Name::of(&format!("h{number}.local")).expect("a name");
        let srv = Data::Srv { priority: 0, weight: 0, port: number, target };
        let txt = Data::Txt(number.to_be_bytes().iter().cycle().take(8_000).copied().collect());
        world.hear(&response(vec![Heard { name: name(), is_unique: false, ttl: 120, data: srv }]));
        world.hear(&response(vec![Heard { name: name(), is_unique: false, ttl: 120, data: txt }]));
        world.run(Duration::from_millis(1));
    }
    let kept = world.hosts[0].machine.querier.kept_records();
    assert!(kept <= 9, "{kept} records");
    // What was said last counts.
    world.run(Duration::from_secs(5));
    world.hear(&response(vec![Heard {
        name: Name::of("h99.local").expect("a name"),
        is_unique: true,
        ttl: 120,
        data: Data::A(Ipv4Addr::new(192, 0, 2, 99)),
    }]));
    world.run(Duration::from_secs(5));
    assert_eq!(world.seen(0).get("liar"), Some(&99));
}

/// A host that has the instance, and no more of it: every probe for it gets its SRV record.
fn has_web(message: &Message) -> Option<Message> {
    let web = http_name(&["web"]);
    let is_asked = message.questions.iter().any(|question| question.name == web && question.kind == ANY);
    is_asked.then(|| response(vec![server_of_web()]))
}

fn server_of_web() -> Heard {
    server_of("web")
}

/// Another host's.
fn server_of(label: &str) -> Heard {
    let target = Name::of("claimant.local").expect("a name");
    let data = Data::Srv { priority: 0, weight: 0, port: 1, target };
    Heard { name: http_name(&[label]), is_unique: true, ttl: 120, data }
}

fn with_subtype(host: usize, key: u128, name: &str) -> Service {
    Service { subtypes: vec!["_sub".to_owned()], ..named(host, key, name) }
}

#[test]
fn what_is_ours_alone_is_withdrawn_although_another_host_has_the_name() {
    for is_renamed in [false, true] {
        let mut world = World::new(1, 5);
        let service = with_subtype(0, 1, "web");
        world.hosts[0].machine.advertise(world.now, 1, service.clone());
        world.run(Duration::from_secs(10));
        // Two networks become one.
        world.stranger = Some(has_web);
        world.hear(&response(vec![server_of_web()]));
        if !is_renamed {
            world.hosts[0].machine.withdraw(world.now, 1, service, 1);
        }
        world.run(Duration::from_secs(10));
        let subtype = http_name(&["_sub", "_sub"]).to_string();
        let goodbyes = |name: &str, kind| world.goodbyes.get(&(name.to_owned(), kind)).copied().unwrap_or(0);
        assert_eq!(goodbyes(&subtype, PTR), 2, "is_renamed: {is_renamed}");
        assert_eq!(goodbyes("_http._tcp.local", PTR), 0, "the other host has the instance");
        let has_left = usize::from(!is_renamed);
        assert_eq!(goodbyes("h0-1.local", A), 2 * has_left, "is_renamed: {is_renamed}");
        assert_eq!(world.hosts[0].withdrawn.len(), has_left);
    }
}

/// The second record was taken for a lost probe: the name was given up, although no host has it.
#[test]
fn a_packet_with_two_records_against_ours_is_one_conflict() {
    let mut world = World::new(1, 5);
    world.advertise(0, 1, "web");
    world.run(Duration::from_secs(10));
    let txt = Heard { data: Data::Txt(b"\x01a".as_slice().into()), ..server_of_web() };
    world.hear(&response(vec![server_of_web(), txt]));
    world.run(Duration::from_secs(10));
    assert_eq!(world.hosts[0].standings[&1].name.as_deref(), Some("web"));
}

/// Each pointer with the bit that flushes had all 10,000 pointers of its type compared.
#[test]
fn pointers_of_a_type_are_not_flushed_by_one_host() {
    let mut world = World::new(1, 5);
    world.hear(&response((0..100).map(|number| pointer(&format!("theirs {number}"), 4_500)).collect()));
    world.run(Duration::from_secs(5));
    world.hear(&response(vec![Heard { is_unique: true, ..pointer("liar", 4_500) }]));
    world.run(Duration::from_secs(5));
    assert_eq!(world.hosts[0].machine.querier.kept_records(), 101);
}

#[test]
fn what_is_heard_is_bounded_in_bytes_and_forgotten_whole() {
    let mut world = World::new(1, 5);
    for number in 0..8_000 {
        let name = format!("fake {number}");
        let strings = Data::Txt([255; 256].into_iter().cycle().take(256 * 32).collect());
        let txt = Heard { name: http_name(&[&name]), is_unique: true, ttl: 4_500, data: strings };
        world.hear(&response(vec![pointer(&name, 4_500), txt]));
    }
    let querier = |world: &World| world.hosts[0].machine.querier.kept_bytes();
    assert!(querier(&world) <= crate::querier::CACHE_BYTES_MAX, "{} bytes", querier(&world));
    assert!(querier(&world) > crate::querier::CACHE_BYTES_MAX * 9 / 10);
    assert!(world.hosts[0].machine.querier.kept_records() > 0, "the sum is right");
    world.hosts[0].machine.stop_browse(&http());
    assert_eq!((world.hosts[0].machine.querier.kept_records(), querier(&world)), (0, 0));
}
