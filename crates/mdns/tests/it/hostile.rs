//! Packets from somebody who means no good or knows no better. Whatever comes, the engine stays up, stays small, says
//! little about it and goes on saying goodbye: a lease ends no later because somebody shouts.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use tenure_mdns::{Condition, Goodbye, Mdns, Service, Wanted};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::dns::{
    self, A, FLUSH, IN, NSEC, PTR, Packet, QUERY, RESPONSE, SRV, Section, TXT, instance, name, server,
};
use crate::loopback;
use crate::on_a_lan::{block_on, start_on, wait_advertised};
use crate::peers::avahi::Avahi;
use crate::peers::feed::{LIMIT, monotonic_ns, wait_until};
use crate::peers::netns::Lan;
use crate::peers::zeroconf::Zeroconf;
use crate::peers::{Change, Seen, Service as Theirs};
use crate::station::{Door, Heard, Over, Station};

const HTTP: &str = "_http._tcp";
const TYPE: [&str; 3] = ["_http", "_tcp", "local"];
/// A goodbye is not late.
const AT_ONCE_NS: u64 = 1_000_000_000;
/// Where the name of the first question or record is.
const FIRST_NAME: [u8; 2] = [0xc0, 12];

fn assert_is_up(ours: &Mdns) {
    let health = ours.health();
    assert!(health.condition == Condition::Up && health.restarts == 0, "{health:?}");
}

/// When the goodbye for this instance was on the wire.
#[track_caller]
fn goodbye_ns(station: &Station, mark: usize, instance: &str) -> u64 {
    let is_goodbye = |heard: &Heard| {
        heard.is_response()
            && heard.message().items.iter().any(|item| item.ttl == 0 && item.points_to(instance))
    };
    station.heard.find(mark, is_goodbye, LIMIT).unwrap_or_else(|| panic!("no goodbye of {instance}")).at_ns
}

/// Sends a packet so many times, evenly over a time; counts them.
fn pour(station: &Station, from: Door, packet: &[u8], times: usize, over: Duration, count: &AtomicUsize) {
    let start_ns = monotonic_ns();
    for number in 0..times {
        let due_ns = start_ns + over.as_nanos() as u64 * number as u64 / times as u64;
        wait_until("the next packet", LIMIT, || monotonic_ns() >= due_ns);
        station.send(Over::V4, from, packet);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn own_status_mib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1_024
}

#[test]
fn a_question_asked_fifteen_thousand_times_at_once_costs_little_and_is_answered_once() {
    // What has no bounds ends here, not on the machine of whoever runs the tests.
    setrlimit(Resource::Data, Rlimit { current: Some(1 << 30), maximum: Some(1 << 30) }).unwrap();
    let lan = Lan::new(&["ours", "avahi", "hostile"]);
    let station = Station::start(lan.host("hostile"));
    let avahi = Avahi::start(lan.host("avahi"));
    let mut publisher = avahi.publish(&Theirs { name: "Theirs", service_type: HTTP, port: 2, txt: &[] });
    let ours = start_on(lan.host("ours"));
    let mass = |key: u16| loopback::service(&format!("Mass {key}.{key}"), key);
    (1..=1_000).for_each(|key| ours.advertise(key.into(), mass(key)));
    (1..=1_000).for_each(|key| wait_advertised(&ours, key));
    station.wait_for_rest();
    let question = [PTR, IN].map(u16::to_be_bytes).concat();
    let mut packet = Packet::new(0, QUERY).ask(&TYPE, PTR, IN);
    for _ in 1..1_480 {
        packet = packet.raw(Section::Question, &FIRST_NAME, &question);
    }
    // The peak begins anew.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let (before_mib, mark) = (own_status_mib("VmRSS"), station.heard.len());
    (0..10).for_each(|_| station.say(packet.clone()));
    let asked_ns = monotonic_ns();
    assert_eq!(block_on(ours.withdraw(1, mass(1))), Goodbye::Sent);
    let late_ns = goodbye_ns(&station, mark, "Mass 1.1").saturating_sub(asked_ns);
    let began_ns = monotonic_ns();
    publisher.end();
    let theirs_ns = goodbye_ns(&station, mark, "Theirs").saturating_sub(began_ns);
    // How busy the machine is shows in Avahi, which hears the same packets.
    assert!(late_ns < AT_ONCE_NS + theirs_ns, "ours after {late_ns} ns, Avahi's after {theirs_ns} ns");
    let answers = || -> Vec<usize> {
        let mut counts = vec![0; 1_001];
        for (_, item) in
            station.records(mark).iter().filter(|(_, item)| item.name == TYPE.join(".") && item.ttl > 0)
        {
            let dns::Kind::Ptr(target) = &item.kind else { continue };
            // Avahi's service has none.
            let key = target.split('.').nth(1).and_then(|key| key.parse::<usize>().ok());
            key.into_iter().for_each(|key| counts[key] += 1);
        }
        counts.split_off(2)
    };
    wait_until("all are answered", LIMIT, || answers().iter().all(|count| *count > 0));
    station.wait_for_rest();
    assert!(answers().iter().all(|count| *count <= 2), "{:?}", answers().iter().max());
    let grown_mib = own_status_mib("VmHWM").saturating_sub(before_mib);
    assert!(grown_mib < 64, "from {before_mib} MiB by {grown_mib} MiB");
    assert_is_up(&ours);
}

/// Counts lines that an operator would find in a log.
struct Lines(Arc<AtomicUsize>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn forged_goodbyes_are_contradicted_and_do_not_fill_the_log() {
    let lines = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::set_global_default(Lines(lines.clone())).unwrap();
    let lan = Lan::new(&["ours", "avahi", "zeroconf", "hostile"]);
    let mut avahi = Avahi::start(lan.host("avahi"));
    avahi.browse(HTTP);
    let mut zeroconf = Zeroconf::start(lan.host("zeroconf"));
    zeroconf.browse(HTTP);
    let station = Station::start(lan.host("hostile"));
    let ours = start_on(lan.host("ours"));
    let names = ["Stone", "dotted 1.2"];
    for (key, name) in (1..).zip(names) {
        ours.advertise(key, loopback::service(name, key as u16));
        avahi.wait_for(|seen| seen.is(Change::Added, name), LIMIT);
        zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT);
    }
    station.wait_for_rest();
    let (mark, before) = (station.heard.len(), lines.load(Ordering::Relaxed));
    for name in names {
        let target = dns::name(&instance(name, HTTP));
        let mut packet = Packet::new(0, RESPONSE).record(Section::Answer, &TYPE, (PTR, IN), 0, &target);
        let target_at = (0xc000 + packet.0.len() - target.len()) as u16;
        let again = dns::rest((PTR, IN), 0, &target_at.to_be_bytes());
        for _ in 1..600 {
            packet = packet.raw(Section::Answer, &FIRST_NAME, &again);
        }
        pour(&station, Door::Member, &packet.0, 100, Duration::from_secs(2), &AtomicUsize::new(0));
    }
    station.wait_for_rest();
    let said = lines.load(Ordering::Relaxed) - before;
    assert!(said <= 20, "{said} lines");
    for name in names {
        let again =
            station.records(mark).iter().filter(|(_, item)| item.ttl > 0 && item.points_to(name)).count();
        assert!((1..=20).contains(&again), "{name} was announced again {again} times");
        for events in [avahi.events(), zeroconf.events()] {
            let last = events.iter().rev().find(|seen: &&Seen| seen.name == name).unwrap();
            assert!(last.change != Change::Removed, "{name} is lost to a peer");
        }
    }
    assert_is_up(&ours);
}

/// 600 records with names of 127 labels.
fn long_names() -> Packet {
    let long = ["a"; 127];
    let again = dns::rest((PTR, IN), 4_500, &FIRST_NAME);
    let first = Packet::new(0, RESPONSE).record(Section::Answer, &long, (PTR, IN), 4_500, &FIRST_NAME);
    (1..600).fold(first, |packet, _| packet.raw(Section::Answer, &FIRST_NAME, &again))
}

fn a_goodbye_leaves_in_a_flood(from: Door) {
    let lan = Lan::new(&["ours", "avahi", "hostile", "witness"]);
    let [host, their_host] = ["ours", "avahi"].map(|name| lan.host(name));
    let witness = Station::hearing_only(lan.host("witness"), &[host.address(), their_host.address()]);
    let hostile = Station::hearing_only(lan.host("hostile"), &[host.address()]);
    let ours = start_on(host);
    let avahi = Avahi::start(their_host);
    let leaver = loopback::service("Leaver 1.2", 1);
    ours.advertise(1, leaver.clone());
    let mut publisher = avahi.publish(&Theirs { name: "Theirs", service_type: HTTP, port: 2, txt: &[] });
    wait_advertised(&ours, 1);
    witness.wait_for_rest();
    let (mark, sent) = (witness.heard.len(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            pour(&hostile, from, &long_names().0, 6_000, Duration::from_secs(6), &sent);
            monotonic_ns()
        });
        wait_until("the flood rises", LIMIT, || sent.load(Ordering::Relaxed) > 1_500);
        let began_ns = monotonic_ns();
        publisher.end();
        let theirs_ns = goodbye_ns(&witness, mark, "Theirs").saturating_sub(began_ns);
        let began_ns = monotonic_ns();
        let gone = ours.withdraw(1, leaver);
        let left_ns = goodbye_ns(&witness, mark, "Leaver 1.2");
        let ours_ns = left_ns.saturating_sub(began_ns);
        assert_eq!(block_on(gone), Goodbye::Sent);
        let end_ns = flood.join().unwrap();
        // How busy the machine is shows in Avahi, which does not mind the flood.
        assert!(ours_ns < AT_ONCE_NS + theirs_ns, "ours after {ours_ns} ns, Avahi's after {theirs_ns} ns");
        assert!(left_ns < end_ns, "it left when the flood was over");
    });
    assert_is_up(&ours);
}

#[test]
fn a_goodbye_leaves_in_a_flood_of_long_names_from_strangers() {
    a_goodbye_leaves_in_a_flood(Door::Stranger);
}

#[test]
fn a_goodbye_leaves_in_a_flood_of_long_names_from_members() {
    a_goodbye_leaves_in_a_flood(Door::Member);
}

/// A proper announcement of a service.
fn announcement(label: &str) -> Packet {
    let of = instance(label, HTTP);
    Packet::new(0, RESPONSE)
        .record(Section::Answer, &TYPE, (PTR, IN), 4_500, &name(&of))
        .record(Section::Answer, &of, (SRV, FLUSH), 120, &server(7, &["theirs", "local"]))
        .record(Section::Answer, &of, (TXT, FLUSH), 4_500, b"\x01a")
        .record(Section::Answer, &["theirs", "local"], (A, FLUSH), 120, &[10, 77, 0, 9])
}

/// What is not DNS, or almost.
fn garbage() -> Vec<Vec<u8>> {
    let (query, response) = (|| Packet::new(0, QUERY), || Packet::new(0, RESPONSE));
    let asked = [PTR, IN].map(u16::to_be_bytes).concat();
    let pointer = |data: &[u8]| dns::rest((PTR, IN), 4_500, data);
    let question = |name: &[u8]| query().raw(Section::Question, name, &asked).0;
    let answer = |owner: &[u8], rest: &[u8]| response().raw(Section::Answer, owner, rest).0;
    let with_counts = |counts: u8| {
        let mut packet = announcement("other").0;
        packet[4..12].fill(counts);
        packet
    };
    let of_type = name(&TYPE);
    let too_long: Vec<u8> = [vec![63; 64 * 5], vec![0]].concat();
    let grows: Vec<u8> = (0..100).flat_map(|_| [1, b'a']).chain([0xc0, 12]).collect();
    let mut all = vec![
        vec![],
        vec![0],
        vec![0; 11],
        vec![0; 12],
        vec![0xff; 12],
        vec![0xff; 8_900],
        with_counts(0xff),
        with_counts(1),
        // Pointers to themselves, to each other, ahead, past the end, and a name that grows as it turns.
        question(&[0xc0, 12]),
        question(&[0xc0, 14, 0xc0, 12]),
        question(&[0xc0, 40]),
        question(&[0xff, 0xff]),
        question(&grows),
        answer(&of_type, &pointer(&[0xc0, 39])),
        answer(&of_type, &pointer(&grows)),
        // Names over 255 bytes, labels of kinds that do not exist, labels that are not UTF-8, empty names.
        question(&too_long),
        answer(&too_long, &pointer(&too_long)),
        answer(&of_type, &pointer(&too_long)),
        question(&[0x40, 1, 0]),
        question(&[0x80, 1, 0]),
        question(b"\x02\xff\xfe\x05_http\x04_tcp\x05local\x00"),
        answer(&of_type, &pointer(b"\x02\xff\xfe\x05_http\x04_tcp\x05local\x00")),
        answer(&of_type, &pointer(b"\x01\x00\x05_http\x04_tcp\x05local\x00")),
        question(&[0]),
        answer(&of_type, &pointer(&[0])),
        answer(&of_type, &pointer(&of_type)),
        answer(&[0], &pointer(&[0])),
    ];
    // Data that is too short for its kind, or of kinds nobody asked for.
    for kind in [A, PTR, TXT, 28, SRV, 41, NSEC, 0, 65_535] {
        for data in [&[][..], &[0], &[1, 2, 3], &[0xff; 5], &[0, 255, 1, 2, 3, 4, 5]] {
            all.push(answer(&of_type, &dns::rest((kind, FLUSH), u32::MAX, data)));
        }
    }
    let proper = announcement("other").0;
    for at in 0..proper.len() {
        all.push(proper[..at].to_vec());
        for byte in [0, 0x3f, 0xc0, 0xff] {
            let mut changed = proper.clone();
            changed[at] = byte;
            all.push(changed);
        }
    }
    // Always the same noise.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for length in (0..400).map(|round| round % 80 * 8) {
        let mut packet: Vec<u8> = (0..length).map(|_| noise() as u8).collect();
        // Half of it with a header that invites to read on.
        if length > 12 && noise() % 2 == 0 {
            packet[..12].copy_from_slice(&[0, 0, 0x84 * (noise() % 2) as u8, 0, 0, 1, 0, 3, 0, 1, 0, 1]);
        }
        all.push(packet);
    }
    all
}

#[test]
fn whatever_is_no_message_is_survived() {
    let lan = Lan::with_ipv6(&["ours", "hostile"]);
    let station = Station::start(lan.host("hostile"));
    let ours = start_on(lan.host("ours"));
    let mut browse = ours.browse(Wanted::Type(HTTP.to_owned()));
    let services: Vec<Service> =
        (1..).zip(["Plain", "dotted 1.2"]).map(|(port, name)| loopback::service(name, port)).collect();
    for (key, service) in (1..).zip(&services) {
        ours.advertise(key, service.clone());
        wait_advertised(&ours, key);
    }
    let garbage = garbage();
    for (number, packet) in (0..).zip(&garbage) {
        // Not faster than they are read.
        let due_ns = monotonic_ns() + 1_000_000;
        wait_until("the next packet", LIMIT, || number % 10 != 0 || monotonic_ns() >= due_ns);
        for over in [Over::V4, Over::V6] {
            for from in [Door::Member, Door::Stranger] {
                station.send(over, from, packet);
            }
        }
    }
    assert_is_up(&ours);
    station.wait_for_rest();
    let mark = station.heard.len();
    for service in &services {
        station.say(Packet::new(0, QUERY).ask(&instance(&service.name, HTTP), SRV, IN));
        let owner = instance(&service.name, HTTP).join(".");
        wait_until("a proper answer", LIMIT, || {
            station
                .records(mark)
                .iter()
                .any(|(_, item)| item.name == owner && matches!(item.kind, dns::Kind::Srv { .. }))
        });
    }
    station.say(announcement("proper"));
    assert_eq!(block_on(loopback::wait_resolved(&mut browse, "proper")).port, Some(7));
    assert_is_up(&ours);
    for (key, service) in (1..).zip(services) {
        assert_eq!(ours.standing(key).name.as_deref(), Some(service.name.as_str()));
        assert_eq!(block_on(ours.withdraw(key, service)), Goodbye::Sent);
    }
}
