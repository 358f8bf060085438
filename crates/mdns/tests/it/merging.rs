//! Names that others have too: RFC 6762 §8 and §9. Networks merge, hosts roam, hosts probe at the same moment, a host
//! claims everything. Whatever happens, in the end each name is one host's, and everything is advertised.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_mdns::{Mdns, Options, Service};

use crate::dns::{
    ANY, FLUSH, IN, Item, Kind, Message, Packet, QUERY, RESPONSE, SRV, Section, instance, server,
};
use crate::loopback;
use crate::on_a_lan::{on, start_on};
use crate::peers::Change;
use crate::peers::feed::{LIMIT, monotonic_ns, wait_until};
use crate::peers::netns::{Host, Lan, SECOND_INTERFACE};
use crate::peers::zeroconf::Zeroconf;
use crate::responder::{Responder, Who};
use crate::station::{Door, Heard, Station};

const HTTP: &str = "_http._tcp";
const NAMES: [&str; 2] = ["Printer", "dotted 1.2"];
/// Longer than an answer takes, also one that is held back because it was given a second ago.
const ROUND: Duration = Duration::from_millis(1_500);
const ROUNDS_MAX: usize = 20;
/// How long somebody claims every name.
const CONTEST: Duration = Duration::from_secs(20);
/// RFC 6762 §8.1: fifteen, and one every five seconds from then on.
const NAMES_TRIED_MAX: usize = 20;

fn services(first_port: u16) -> Vec<Service> {
    (first_port..).zip(NAMES).map(|(port, name)| loopback::service(name, port)).collect()
}

/// The full name, as it is read from the wire.
fn full(name: &str) -> String {
    instance(name, HTTP).join(".")
}

fn ask_for<'a>(station: &Station, names: impl IntoIterator<Item = &'a str>) {
    for name in names {
        station.say(Packet::new(0, QUERY).ask(&instance(name, HTTP), SRV, IN));
    }
}

/// Who has a name, as anybody on the network would find out.
fn owners(station: &Station, names: &BTreeSet<String>) -> Vec<(String, usize)> {
    station.wait_for_rest();
    let mark = station.heard.len();
    ask_for(station, names.iter().map(String::as_str));
    let owners = |name: &String| -> BTreeSet<IpAddr> {
        let is_server =
            |item: &Item| item.name == full(name) && item.ttl > 0 && matches!(item.kind, Kind::Srv { .. });
        let said = station.records(mark).into_iter().filter(|(_, item)| is_server(item));
        said.map(|(heard, _)| heard.source).collect()
    };
    wait_until("somebody has each", LIMIT, || names.iter().all(|name| !owners(name).is_empty()));
    let _ = station.heard.find(station.heard.len(), |_| false, ROUND);
    names.iter().map(|name| (name.clone(), owners(name).len())).collect()
}

/// Waits until no two services have one name and all have one; then the network is asked whether that is so.
#[track_caller]
fn wait_until_settled(station: &Station, parties: &[&Responder]) -> BTreeSet<String> {
    let names = || parties.iter().flat_map(|party| party.names()).collect::<Vec<_>>();
    let is_settled = || {
        let names = names();
        names.iter().all(Option::is_some) && names.iter().collect::<BTreeSet<_>>().len() == names.len()
    };
    // Conflicts are noticed by what is heard: a third host asks.
    let is_over = (0..ROUNDS_MAX).any(|_| {
        ask_for(station, NAMES);
        let until_ns = monotonic_ns() + ROUND.as_nanos() as u64;
        wait_until("a round", LIMIT, || is_settled() || monotonic_ns() > until_ns);
        is_settled()
    });
    assert!(is_over, "never settled: {:?}", names());
    let settled: BTreeSet<String> = names().into_iter().flatten().collect();
    for (name, count) in owners(station, &settled) {
        assert_eq!(count, 1, "hosts that have {name:?}");
    }
    assert_eq!(names().into_iter().flatten().collect::<BTreeSet<_>>(), settled, "renamed when all was well");
    settled
}

/// Whoever of ours was renamed has the next name, and told so.
fn assert_renames_are_told(party: &Responder) -> usize {
    let Responder::Ours(mdns, services) = party else { return 0 };
    let mut renames = mdns.take_renames().unwrap();
    let told: Vec<_> = std::iter::from_fn(|| renames.try_recv().ok()).collect();
    let mut renamed = 0;
    for (key, service) in (1..).zip(services) {
        let name = mdns.standing(key).name.unwrap();
        let last = told.iter().rev().find(|told| told.key == key);
        if name == service.name {
            assert!(last.is_none_or(|told| told.name == name), "{told:?}");
        } else {
            renamed += 1;
            assert_eq!(name, format!("{} (2)", service.name));
            assert_eq!(last.map(|told| &told.name), Some(&name), "{told:?}");
        }
    }
    renamed
}

/// Both have the names while they are apart; the ports decide who should lose.
fn two_networks_merge(one: (Who, u16), other: (Who, u16)) {
    let lan = Lan::new(&["one", "other", "third"]);
    let station = Station::start(lan.host("third"));
    lan.cut(lan.host("one"));
    let [mut first, mut second] =
        [("one", one), ("other", other)].map(|(name, (who, _))| Responder::start(who, lan.host(name)));
    first.register(services(one.1));
    second.register(services(other.1));
    for party in [&first, &second] {
        assert_eq!(party.names(), NAMES.map(|name| Some(name.to_owned())));
    }
    lan.heal(lan.host("one"));
    let settled = wait_until_settled(&station, &[&first, &second]);
    assert!(NAMES.iter().all(|name| settled.contains(*name)), "nobody kept a name: {settled:?}");
    let renamed = assert_renames_are_told(&first) + assert_renames_are_told(&second);
    if (one.0, other.0) == (Who::Ours, Who::Ours) {
        assert_eq!(renamed, NAMES.len());
    }
}

#[test]
fn when_networks_merge_one_of_ours_gives_way() {
    two_networks_merge((Who::Ours, 80), (Who::Ours, 9_000));
}

#[test]
fn when_networks_merge_we_and_an_avahi_with_more_to_say_agree() {
    two_networks_merge((Who::Ours, 80), (Who::Avahi, 9_000));
}

#[test]
fn when_networks_merge_we_and_an_avahi_with_less_to_say_agree() {
    two_networks_merge((Who::Ours, 9_000), (Who::Avahi, 80));
}

#[test]
fn when_networks_merge_two_avahis_agree() {
    two_networks_merge((Who::Avahi, 80), (Who::Avahi, 9_000));
}

/// A host comes, with what it has, to a network where the names are somebody's.
fn a_guest_comes(guest: Who, host: Who) {
    let lan = Lan::new(&["guest", "host", "third", "zeroconf"]);
    let (station, at) = (Station::start(lan.host("third")), lan.host("guest"));
    let mut zeroconf = Zeroconf::start(lan.host("zeroconf"));
    zeroconf.browse(HTTP);
    lan.cut(at);
    let mut party = Responder::start(guest, at);
    party.register(services(9_000));
    let mut living = Responder::start(host, lan.host("host"));
    living.register(services(80));
    NAMES.iter().for_each(|name| drop(zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT)));
    station.wait_for_rest();
    at.link_down();
    party.wait_for_link_down();
    lan.heal(at);
    let (mark, seen) = (station.heard.len(), zeroconf.mark());
    at.link_up();
    let has_others =
        || party.names().iter().zip(NAMES).all(|(name, old)| name.as_deref().is_some_and(|name| name != old));
    wait_until("other names", LIMIT, has_others);
    wait_until_settled(&station, &[&party, &living]);
    assert_eq!(living.names(), NAMES.map(|name| Some(name.to_owned())), "the host kept its names");
    let from_guest: Vec<(Heard, Message)> =
        station.since(mark).into_iter().filter(|(heard, _)| heard.source == at.address()).collect();
    for name in NAMES {
        let owns = |item: &Item| item.name == full(name);
        let first = from_guest.iter().find(|(_, message)| message.items.iter().any(owns)).unwrap();
        assert!(!first.1.is_response(), "{name} was probed for first");
        // A pointer may be said: it is everybody's, and takes nothing away unless it says goodbye.
        let takes = |item: &Item| owns(item) || (item.ttl == 0 && item.points_to(name));
        let said = from_guest.iter().filter(|(_, message)| message.is_response());
        let taken: Vec<&Item> =
            said.flat_map(|(_, message)| message.records()).filter(|item| takes(item)).collect();
        assert!(taken.is_empty(), "{name} is the host's: {taken:?}");
        let is_touched = |seen: &crate::peers::Seen| {
            seen.name == name && matches!(seen.change, Change::Updated | Change::Removed)
        };
        assert!(!zeroconf.events()[seen..].iter().any(is_touched), "the host's {name} was touched");
    }
    assert_renames_are_told(&party);
}

#[test]
fn a_guest_of_ours_gives_way_to_ours() {
    a_guest_comes(Who::Ours, Who::Ours);
}

#[test]
fn a_guest_of_ours_gives_way_to_avahi() {
    a_guest_comes(Who::Ours, Who::Avahi);
}

#[test]
fn an_avahi_that_is_a_guest_gives_way_to_ours() {
    a_guest_comes(Who::Avahi, Who::Ours);
}

/// Tells a thread to stop, also when the test fails meanwhile.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers every probe as one whose name it is, until told to stop; returns the names that were tried.
fn claim_all(station: &Station, is_over: &AtomicBool) -> BTreeSet<String> {
    let (mut mark, mut tried) = (0, BTreeSet::new());
    while !is_over.load(Ordering::Relaxed) {
        let _ = station.heard.find(mark, |_| true, Duration::from_millis(50));
        let heard = station.since(mark);
        mark += heard.len();
        for (_, message) in heard.iter().filter(|(_, message)| !message.is_response()) {
            let is_probed = |label: &str| {
                message.items.iter().any(|item| {
                    item.section == Section::Question && item.kind == Kind::Other(ANY) && item.label == label
                })
            };
            let proposed = message.records().filter(|item| item.section == Section::Authority);
            for item in
                proposed.filter(|item| matches!(item.kind, Kind::Srv { .. }) && is_probed(&item.label))
            {
                let owner = instance(&item.label, HTTP);
                let data = server(1, &["claimant", "local"]);
                station.say(Packet::new(0, RESPONSE).record(
                    Section::Answer,
                    &owner,
                    (SRV, FLUSH),
                    120,
                    &data,
                ));
                tried.insert(item.label.clone());
            }
        }
    }
    tried
}

/// Every name is somebody else's, for a while.
fn a_contest_is_no_storm(who: Who, name: &str, soon: Duration) {
    let lan = Lan::new(&["ours", "claimant"]);
    let (station, is_over) = (Station::start(lan.host("claimant")), AtomicBool::new(false));
    let mut party = Responder::start(who, lan.host("ours"));
    let (tried, (names, error)) = std::thread::scope(|scope| {
        let stop = Stop(&is_over);
        let claimant = scope.spawn(|| claim_all(&station, &is_over));
        let began_ns = monotonic_ns();
        party.begin(vec![loopback::service(name, 1)]);
        wait_until("the contest", CONTEST * 2, || monotonic_ns() - began_ns > CONTEST.as_nanos() as u64);
        let meanwhile = (party.names(), party.last_error());
        drop(stop);
        (claimant.join().unwrap(), meanwhile)
    });
    assert!((5..=NAMES_TRIED_MAX).contains(&tried.len()), "{} names were tried: {tried:?}", tried.len());
    assert_eq!(names, [None], "nothing is advertised");
    let error = error.to_lowercase();
    assert!(who == Who::Avahi || error.contains("contest") || error.contains("conflict"), "told: {error:?}");
    wait_until("it is advertised", soon, || party.names()[0].is_some());
}

/// Five seconds, and two for probing and announcing, on a busy machine.
const SOON_AFTER: Duration = Duration::from_secs(8);

#[test]
fn a_contest_over_a_plain_name_is_no_storm() {
    a_contest_is_no_storm(Who::Ours, "wanted", SOON_AFTER);
}

#[test]
fn a_contest_over_a_dotted_name_is_no_storm() {
    a_contest_is_no_storm(Who::Ours, "wanted 1.2", SOON_AFTER);
}

/// It waits longer than it must.
#[test]
fn a_contest_with_avahi_is_no_storm() {
    a_contest_is_no_storm(Who::Avahi, "wanted", Duration::from_secs(40));
}

#[test]
fn names_that_are_wanted_at_the_same_moment_end_up_different() {
    let lan = Lan::new(&["one", "other", "third"]);
    let station = Station::start(lan.host("third"));
    let of = |number: u16| {
        if number.is_multiple_of(2) { format!("tie {number}") } else { format!("tie 1.{number}") }
    };
    let parties = ["one", "other"].map(|name| start_on(lan.host(name)));
    for number in 1..=40 {
        for (party, port) in parties.iter().zip([number, 1_000 + number]) {
            party.advertise(number.into(), loopback::service(&of(number), port));
        }
    }
    let names = |number: u16| {
        parties.each_ref().map(|party| {
            let standing = party.standing(number.into());
            standing.name.filter(|_| standing.advertised)
        })
    };
    let is_settled = |number: u16| {
        let [one, other] = names(number);
        one.is_some() && other.is_some() && one != other
    };
    // Who loses them all may have to wait as after a contest.
    wait_until("different names", CONTEST * 3, || (1..=40).all(is_settled));
    let all: BTreeSet<String> = (1..=40).flat_map(names).flatten().collect();
    assert_eq!(all.len(), 80);
    assert!((1..=40).all(|number| all.contains(&of(number))), "nobody has it: {all:?}");
    assert!(owners(&station, &all).iter().all(|(_, count)| *count == 1), "{:?}", owners(&station, &all));
    assert!((1..=40).all(is_settled));
}

/// Whether somebody on the host has the port of mDNS.
fn is_port_open(host: &Host) -> bool {
    let output = host.command("cat").args(["/proc/net/udp", "/proc/net/udp6"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().contains(":14E9 ")
}

#[test]
fn who_starts_again_without_a_goodbye_has_its_names_again() {
    let lan = Lan::with_ipv6(&["ours", "zeroconf"]);
    let host = lan.host("ours");
    let mut zeroconf = Zeroconf::start(lan.host("zeroconf"));
    zeroconf.browse(HTTP);
    let mut ours = Responder::start(Who::Ours, host);
    ours.register(services(80));
    NAMES.iter().for_each(|name| drop(zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT)));
    // Nobody hears its last words.
    lan.cut(host);
    drop(ours);
    wait_until("it is gone", LIMIT, || !is_port_open(host));
    lan.heal(host);
    let mut again = Responder::start(Who::Ours, host);
    again.register(services(80));
    assert_eq!(assert_renames_are_told(&again), 0);
    assert_eq!(again.names(), NAMES.map(|name| Some(name.to_owned())));
    for seen in zeroconf.events() {
        assert!(seen.change != Change::Removed, "{seen:?}");
    }
    assert_eq!(zeroconf.resolve(NAMES[0], HTTP, LIMIT).unwrap().port, Some(80));
}

#[test]
fn two_own_interfaces_on_one_network_are_no_conflict() {
    let lan = Lan::new(&["ours", "third"]);
    let (host, station) = (lan.host("ours"), Station::start(lan.host("third")));
    lan.plug_in_again(host);
    let mdns = on(host, || Mdns::start(Options::default()).unwrap());
    wait_until("both interfaces", LIMIT, || {
        mdns.health().interfaces.iter().any(|line| line.starts_with(SECOND_INTERFACE))
    });
    let mut ours = Responder::Ours(mdns, Vec::new());
    ours.register(services(80));
    let names: BTreeSet<String> = NAMES.map(str::to_owned).into();
    assert!(owners(&station, &names).iter().all(|(_, count)| *count >= 1));
    assert_eq!(ours.names(), NAMES.map(|name| Some(name.to_owned())));
    assert_eq!(assert_renames_are_told(&ours), 0);
    let others: Vec<String> = station
        .records(0)
        .into_iter()
        .map(|(_, item)| item.name)
        .filter(|name| name.contains("(2)"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

/// As a repeater does, or a switch with a loop: probes and announcements come back word for word.
fn own_words_are_no_conflict(who: Who) {
    let lan = Lan::new(&["ours", "echo"]);
    let (station, is_over) = (Station::start(lan.host("echo")), AtomicBool::new(false));
    let mut ours = Responder::start(who, lan.host("ours"));
    std::thread::scope(|scope| {
        let _stop = Stop(&is_over);
        scope.spawn(|| {
            let mut mark = 0;
            while !is_over.load(Ordering::Relaxed) {
                let _ = station.heard.find(mark, |_| true, Duration::from_millis(50));
                let heard = station.since(mark);
                mark += heard.len();
                for (heard, _) in heard.iter().filter(|(heard, _)| heard.door == Door::Group) {
                    station.send(heard.over, Door::Member, heard.bytes());
                }
            }
        });
        ours.register(services(80));
        station.wait_for_rest();
    });
    assert!(station.since(0).iter().any(|(_, message)| !message.is_response()), "a probe came back too");
    assert_eq!(ours.names(), NAMES.map(|name| Some(name.to_owned())));
    assert_eq!(assert_renames_are_told(&ours), 0);
}

#[test]
fn our_own_words_from_another_host_are_no_conflict() {
    own_words_are_no_conflict(Who::Ours);
}

#[test]
fn avahis_own_words_from_another_host_are_no_conflict() {
    own_words_are_no_conflict(Who::Avahi);
}
