//! What is answered, to whom and how often: RFC 6762 §5 to §7 and §18 as a table. Each row is asked about a plain
//! name and a dotted one, over IPv4 and IPv6, each time of a service of its own, so that all can be asked at once.
//! Avahi stands in our place too: a row that it does not pass is wrong itself.

use std::net::IpAddr;
use std::time::Duration;

use tenure_mdns::Service;

use crate::dns::{
    self, A, AAAA, ANY, IN, Item, Kind, Message, NSEC, PTR, Packet, QUERY, SRV, Section, TXT, instance,
};
use crate::loopback;
use crate::on_a_lan::{start_on, wait_advertised};
use crate::peers::feed::{LIMIT, monotonic_ns, wait_until};
use crate::peers::netns::Lan;
use crate::responder::{Responder, Who};
use crate::station::{Door, Heard, Over, Station};

/// Longer than any answer may be held back (500 ms, RFC 6762 §7.2), and for a busy machine.
const WATCHED: Duration = Duration::from_secs(2);
/// How long a failing row is given to become right.
const PATIENCE: Duration = Duration::from_secs(8);

/// RFC 6762 §10.
const LONG: u32 = 4_500;
const SHORT: u32 = 120;
const OUR_TXT: &[u8] = b"\x06path=/";
/// In the class of a question: an answer to the asker alone is welcome (RFC 6762 §5.4).
const UNICAST: u16 = 0x8000;
const TRUNCATED: u16 = 0x0200;
const CHAOS: u16 = 3;
const MX: u16 = 15;

const BOTH: &[Over] = &[Over::V4, Over::V6];

/// One row for one service.
struct Case {
    /// Also the id of its questions.
    number: u16,
    row: &'static Row,
    over: Over,
    service: Service,
    /// What its SRV record points to.
    host: String,
}

struct Row {
    what: &'static str,
    ask: fn(&Case) -> Vec<Packet>,
    from: Door,
    is_right: fn(&Case, &[(Heard, Message)]) -> bool,
}

struct Stage {
    responder: Responder,
    station: Station,
    lan: Lan,
}

impl Stage {
    fn begin(who: Who) -> Self {
        Self::on(who, Lan::with_ipv6(&["asked", "asker"]))
    }

    fn on(who: Who, lan: Lan) -> Self {
        let station = Station::start(lan.host("asker"));
        let responder = Responder::start(who, lan.host("asked"));
        Self { responder, station, lan }
    }

    fn register(&mut self, services: Vec<Service>) {
        self.responder.register(services);
        self.station.wait_for_rest();
    }

    /// Asks all rows, and fails with those that were not answered as they should be.
    fn hold_against(mut self, rows: &[&'static [Row]], families: &[Over]) {
        let mut cases = Vec::new();
        for row in rows.iter().copied().flatten() {
            for (over, is_dotted) in families.iter().flat_map(|over| [(*over, false), (*over, true)]) {
                let number = u16::try_from(cases.len() + 1).unwrap();
                let name = if is_dotted { format!("dotted 1.{number}") } else { format!("Plain {number}") };
                let service = Service {
                    service_type: format!("_case{number}._tcp"),
                    subtypes: vec!["_red".to_owned(), "_blue".to_owned()],
                    ..loopback::service(&name, 1_000 + number)
                };
                cases.push(Case {
                    number,
                    row,
                    over,
                    host: self.responder.host_of(&service, self.lan.host("asked")),
                    service,
                });
            }
        }
        self.register(cases.iter().map(|case| case.service.clone()).collect());
        let (mark, asked_ns) = (self.station.heard.len(), monotonic_ns());
        let most = cases.iter().map(|case| (case.row.ask)(case).len()).max().unwrap();
        // First packets first: what is asked several times is asked again after a pause.
        for round in 0..most {
            let due_ns = asked_ns + 170_000_000 * round as u64;
            wait_until("the next round", LIMIT, || monotonic_ns() >= due_ns);
            for case in &cases {
                if let Some(packet) = (case.row.ask)(case).get(round) {
                    self.station.send(case.over, case.row.from, &packet.0);
                }
            }
        }
        let wrong = || -> Vec<String> {
            let heard = self.station.since(mark);
            let wrong = cases.iter().filter(|case| !(case.row.is_right)(case, &heard));
            wrong
                .map(|case| format!("{} ({:?}, {:?})", case.row.what, case.service.name, case.over))
                .collect()
        };
        let ended = |time: Duration| monotonic_ns() > asked_ns + time.as_nanos() as u64;
        wait_until("the rows to end", LIMIT, || ended(PATIENCE) || (ended(WATCHED) && wrong().is_empty()));
        assert_eq!(wrong(), [""; 0], "of {} cases", cases.len());
    }
}

impl Case {
    fn instance(&self) -> Vec<&str> {
        instance(&self.service.name, &self.service.service_type)
    }

    fn type_name(&self) -> Vec<&str> {
        self.instance().split_off(1)
    }

    /// The name that is asked for when this kind of record is wanted.
    fn owner(&self, kind: u16) -> Vec<&str> {
        if kind == PTR { self.type_name() } else { self.instance() }
    }

    fn question(&self, kind: u16) -> Packet {
        self.question_with(QUERY, kind, IN)
    }

    fn question_with(&self, flags: u16, kind: u16, class: u16) -> Packet {
        Packet::new(self.number, flags).ask(&self.owner(kind), kind, class)
    }

    fn knowing(&self, kind: u16, ttl: u32) -> Vec<Packet> {
        self.knowing_with(kind, ttl, self.service.port)
    }

    /// A question that lists the answer as known.
    fn knowing_with(&self, kind: u16, ttl: u32, port: u16) -> Vec<Packet> {
        let data = match kind {
            PTR => dns::name(&self.instance()),
            SRV => dns::server(port, &[&self.host, "local"]),
            _ => OUR_TXT.to_vec(),
        };
        let owner = self.owner(kind);
        vec![self.question(kind).record(Section::Answer, &owner, (kind, IN), ttl, &data)]
    }

    /// Whether it is this service's record of this kind.
    fn has(&self, kind: u16, item: &Item) -> bool {
        let is_kind = match &item.kind {
            Kind::Ptr(target) => kind == PTR && target.eq_ignore_ascii_case(&self.instance().join(".")),
            Kind::Srv { port, .. } => kind == SRV && *port == self.service.port,
            Kind::Txt(data) => kind == TXT && data == OUR_TXT,
            Kind::A(_) | Kind::Aaaa(_) => false,
            Kind::Other(other) => *other == kind,
        };
        is_kind && item.ttl > 0 && item.name.eq_ignore_ascii_case(&self.owner(kind).join("."))
    }

    /// Responses in whose answer section is its record of this kind.
    fn answers<'a>(
        &'a self,
        kind: u16,
        heard: &'a [(Heard, Message)],
    ) -> impl Iterator<Item = &'a (Heard, Message)> {
        let is_answer = move |item: &Item| item.section == Section::Answer && self.has(kind, item);
        heard.iter().filter(move |(heard, message)| {
            heard.over == self.over && message.is_response() && message.items.iter().any(is_answer)
        })
    }

    fn is_multicast(&self, kind: u16, heard: &[(Heard, Message)]) -> usize {
        self.answers(kind, heard).filter(|(heard, _)| heard.door == Door::Group).count()
    }
}

fn is_silent<const KIND: u16>(case: &Case, heard: &[(Heard, Message)]) -> bool {
    case.answers(KIND, heard).count() == 0
}

fn is_answered<const KIND: u16>(case: &Case, heard: &[(Heard, Message)]) -> bool {
    case.answers(KIND, heard).count() > 0
}

fn is_multicast_once<const KIND: u16>(case: &Case, heard: &[(Heard, Message)]) -> bool {
    case.is_multicast(KIND, heard) == 1
}

/// RFC 6762 §6: not again within a second; what came later than that is another answer.
fn is_multicast_once_or_twice<const KIND: u16>(case: &Case, heard: &[(Heard, Message)]) -> bool {
    (1..=2).contains(&case.is_multicast(KIND, heard))
}

/// RFC 6762 §6.7: once, to the asker, as an ordinary DNS server would; the network is spared.
fn is_conventional<const KIND: u16>(case: &Case, heard: &[(Heard, Message)]) -> bool {
    let mut to_asker =
        heard.iter().filter(|(heard, message)| heard.door == Door::Stranger && message.id == case.number);
    let (Some((heard_first, answer)), None) = (to_asker.next(), to_asker.next()) else { return false };
    let asked = answer.items.iter().find(|item| item.section == Section::Question);
    let is_question = |item: &Item| item.name == case.owner(KIND).join(".") && item.kind == Kind::Other(KIND);
    heard_first.over == case.over
        && asked.is_some_and(is_question)
        && answer.records().any(|item| item.section == Section::Answer && case.has(KIND, item))
        && answer.records().all(|item| item.ttl <= 10 && item.class == IN)
        && case.is_multicast(KIND, heard) == 0
}

/// RFC 6763 §12.1: who found a service need not ask for the rest of it.
fn is_complete(case: &Case, heard: &[(Heard, Message)]) -> bool {
    let is_address = |item: &Item| {
        matches!(item.kind, Kind::A(_) | Kind::Aaaa(_)) && item.name == format!("{}.local", case.host)
    };
    let over = heard.iter().filter(|(heard, _)| heard.over == case.over);
    // A host that many share may be said in a packet of its own.
    let said: Vec<&Item> = over.flat_map(|(_, message)| message.records()).collect();
    is_answered::<PTR>(case, heard)
        && said.iter().any(|item| case.has(SRV, item))
        && said.iter().any(|item| case.has(TXT, item))
        && said.iter().any(|item| is_address(item))
}

fn is_everything(case: &Case, heard: &[(Heard, Message)]) -> bool {
    is_answered::<SRV>(case, heard) && is_answered::<TXT>(case, heard)
}

/// RFC 6762 §6.1: that there is none may be said, and nothing else.
fn is_denied_or_silent(case: &Case, heard: &[(Heard, Message)]) -> bool {
    let name = case.instance().join(".");
    let mut said = heard.iter().filter(|(_, message)| message.is_response()).flat_map(|(_, m)| m.records());
    said.all(|item| item.name != name || item.section != Section::Answer || item.kind == Kind::Other(NSEC))
}

fn points<'a>(owner: &str, target: &str, mut records: impl Iterator<Item = &'a Item>) -> bool {
    let target = Kind::Ptr(target.to_owned());
    records.any(|item| item.name == owner && item.kind == target && item.ttl > 0)
}

fn is_listed(case: &Case, heard: &[(Heard, Message)]) -> bool {
    let said = heard.iter().filter(|(h, message)| h.over == case.over && message.is_response());
    let target = case.type_name().join(".");
    points("_services._dns-sd._udp.local", &target, said.flat_map(|(_, message)| message.records()))
}

fn is_of_all_subtypes(case: &Case, heard: &[(Heard, Message)]) -> bool {
    case.service.subtypes.iter().all(|subtype| {
        let said = heard.iter().filter(|(h, message)| h.over == case.over && message.is_response());
        let owner = format!("{subtype}._sub.{}", case.type_name().join("."));
        points(&owner, &case.instance().join("."), said.flat_map(|(_, message)| message.records()))
    })
}

fn for_each_subtype(case: &Case) -> Vec<Packet> {
    let types = case.type_name();
    let ask = |subtype: &String| {
        let owner = [&[subtype.as_str(), "_sub"], &types[..]].concat();
        Packet::new(0, QUERY).ask(&owner, PTR, IN)
    };
    case.service.subtypes.iter().map(ask).collect()
}

fn in_capitals(case: &Case) -> Vec<Packet> {
    let owner: Vec<String> = case.instance().iter().map(|label| label.to_ascii_uppercase()).collect();
    let owner: Vec<&str> = owner.iter().map(String::as_str).collect();
    vec![Packet::new(0, QUERY).ask(&owner, SRV, IN)]
}

const fn row(
    what: &'static str,
    ask: fn(&Case) -> Vec<Packet>,
    is_right: fn(&Case, &[(Heard, Message)]) -> bool,
) -> Row {
    Row { what, ask, from: Door::Member, is_right }
}

const fn stranger(
    what: &'static str,
    ask: fn(&Case) -> Vec<Packet>,
    is_right: fn(&Case, &[(Heard, Message)]) -> bool,
) -> Row {
    Row { what, ask, from: Door::Stranger, is_right }
}

static KNOWN: &[Row] = &[
    row("a known PTR", |case| case.knowing(PTR, LONG), is_silent::<PTR>),
    row("a known SRV", |case| case.knowing(SRV, SHORT), is_silent::<SRV>),
    row("a known TXT", |case| case.knowing(TXT, LONG), is_silent::<TXT>),
    row("an SRV known for just half its time", |case| case.knowing(SRV, SHORT / 2), is_silent::<SRV>),
    row("another SRV known", |case| case.knowing_with(SRV, SHORT, 9), is_multicast_once::<SRV>),
];

/// RFC 6762 §7.1 wants these answered. Avahi does not look at the time that is left.
static KNOWN_NOT_FOR_LONG: &[Row] = &[
    row("a PTR known for less", |case| case.knowing(PTR, LONG / 2 - 1), is_multicast_once::<PTR>),
    row("an SRV known for less", |case| case.knowing(SRV, SHORT / 2 - 1), is_multicast_once::<SRV>),
    row("a TXT known for less", |case| case.knowing(TXT, LONG / 2 - 1), is_multicast_once::<TXT>),
];

static CONVENTIONAL: &[Row] = &[
    stranger("PTR", |case| vec![case.question(PTR)], is_conventional::<PTR>),
    stranger("SRV", |case| vec![case.question(SRV)], is_conventional::<SRV>),
    stranger("TXT", |case| vec![case.question(TXT)], is_conventional::<TXT>),
];

static OFTEN: &[Row] = &[
    row("PTR, five times", |case| vec![case.question(PTR); 5], is_multicast_once_or_twice::<PTR>),
    row("SRV, five times", |case| vec![case.question(SRV); 5], is_multicast_once_or_twice::<SRV>),
    row("TXT, five times", |case| vec![case.question(TXT); 5], is_multicast_once_or_twice::<TXT>),
    row("unicast SRV", |case| vec![case.question_with(QUERY, SRV, IN | UNICAST)], is_answered::<SRV>),
    row("unicast PTR", |case| vec![case.question_with(QUERY, PTR, IN | UNICAST)], is_answered::<PTR>),
];

static NOT_FOR_US: &[Row] = &[
    row("another class", |case| vec![case.question_with(QUERY, SRV, CHAOS)], is_silent::<SRV>),
    row("a PTR of another class", |case| vec![case.question_with(QUERY, PTR, CHAOS)], is_silent::<PTR>),
    row("a status", |case| vec![case.question_with(2 << 11, SRV, IN)], is_silent::<SRV>),
    row("an update", |case| vec![case.question_with(5 << 11, PTR, IN)], is_silent::<PTR>),
    row("a question in a response", |case| vec![case.question_with(0x8400, SRV, IN)], is_silent::<SRV>),
    row("a question with an error", |case| vec![case.question_with(3, SRV, IN)], is_silent::<SRV>),
    row("a record it has not", |case| vec![case.question(MX)], is_denied_or_silent),
    row("an address it has not", |case| vec![case.question(AAAA), case.question(A)], is_denied_or_silent),
    row("a question for us", |case| vec![case.question(SRV)], is_multicast_once::<SRV>),
];

static EVERYTHING: &[Row] = &[
    row("SRV", |case| vec![case.question(SRV)], is_multicast_once::<SRV>),
    row("TXT", |case| vec![case.question(TXT)], is_multicast_once::<TXT>),
    row("PTR and the rest", |case| vec![case.question(PTR)], is_complete),
    row("any record", |case| vec![case.question(ANY)], is_everything),
    row("any class", |case| vec![case.question_with(QUERY, SRV, 255)], is_multicast_once::<SRV>),
    row("capitals", in_capitals, is_answered::<SRV>),
    row(
        "all types",
        |_| vec![Packet::new(0, QUERY).ask(&["_services", "_dns-sd", "_udp", "local"], PTR, IN)],
        is_listed,
    ),
    row("all subtypes", for_each_subtype, is_of_all_subtypes),
];

fn known_answers_are_not_said_again(who: Who) {
    Stage::begin(who).hold_against(&[KNOWN], BOTH);
}

fn a_stranger_is_answered_alone_and_conventionally(who: Who) {
    Stage::begin(who).hold_against(&[CONVENTIONAL], BOTH);
}

fn one_answer_serves_many_questions(who: Who) {
    Stage::begin(who).hold_against(&[OFTEN], BOTH);
}

fn what_is_no_question_for_us_is_ignored(who: Who) {
    Stage::begin(who).hold_against(&[NOT_FOR_US], BOTH);
}

fn every_record_is_there_for_who_asks(who: Who) {
    Stage::begin(who).hold_against(&[EVERYTHING], BOTH);
}

fn a_host_without_ipv4_answers_all_of_it(who: Who) {
    let lan = Lan::with_ipv6(&["asked", "asker"]);
    lan.host("asked").forget_ipv4();
    Stage::on(who, lan).hold_against(&[KNOWN, EVERYTHING], &[Over::V6]);
}

/// RFC 6762 §7.2.
fn known_answers_may_come_in_several_packets(who: Who) {
    let mut stage = Stage::begin(who);
    let of_type =
        |(port, name)| Service { service_type: "_list._tcp".to_owned(), ..loopback::service(name, port) };
    let names = ["first", "second 1.2", "third", "unknown 1.2"];
    stage.register((1..).zip(names).map(of_type).collect());
    let mark = stage.station.heard.len();
    let owner = ["_list", "_tcp", "local"];
    let known = |packet: Packet, name| {
        let target = dns::name(&instance(name, "_list._tcp"));
        packet.record(Section::Answer, &owner, (PTR, IN), LONG, &target)
    };
    stage.station.say(known(Packet::new(0, QUERY | TRUNCATED).ask(&owner, PTR, IN), names[0]));
    stage.station.say(known(Packet::new(0, QUERY | TRUNCATED), names[1]));
    stage.station.say(known(Packet::new(0, QUERY), names[2]));
    let said = |name: &str| stage.station.records(mark).iter().any(|(_, item)| item.points_to(name));
    wait_until("an answer to what is not known", LIMIT, || said(names[3]));
    let unwanted = |heard: &Heard| {
        heard.message().items.iter().any(|item| names[..3].iter().any(|name| item.points_to(name)))
    };
    assert!(stage.station.heard.find(mark, unwanted, WATCHED).is_none(), "what was known was said again");
}

/// RFC 6762 §10.1, for each pointer there is.
fn subtypes_are_withdrawn_like_the_rest(who: Who) {
    let mut stage = Stage::begin(who);
    let service = Service {
        subtypes: ["_red", "_blue", "_green"].map(str::to_owned).into(),
        ..loopback::service("coloured 1.2", 1)
    };
    let instance = instance(&service.name, &service.service_type).join(".");
    stage.register(vec![service.clone(), loopback::service("survivor", 2)]);
    let mark = stage.station.heard.len();
    stage.responder.withdraw_first();
    let owners = service.subtypes.iter().map(|subtype| format!("{subtype}._sub._http._tcp.local"));
    for owner in owners.chain(["_http._tcp.local".to_owned()]) {
        wait_until(&format!("a goodbye of {owner}"), LIMIT, || {
            let said = stage.station.records(mark);
            said.iter().any(|(_, item)| {
                item.name == owner && item.kind == Kind::Ptr(instance.clone()) && item.ttl == 0
            })
        });
    }
}

macro_rules! both {
    ($($row:ident)*) => {
        mod ours { $(#[test] fn $row() { super::$row(super::Who::Ours); })* }
        mod avahi { $(#[test] fn $row() { super::$row(super::Who::Avahi); })* }
    };
}

both! {
    known_answers_are_not_said_again
    a_stranger_is_answered_alone_and_conventionally
    one_answer_serves_many_questions
    what_is_no_question_for_us_is_ignored
    every_record_is_there_for_who_asks
    a_host_without_ipv4_answers_all_of_it
    known_answers_may_come_in_several_packets
    subtypes_are_withdrawn_like_the_rest
}

#[test]
fn what_is_not_known_for_long_is_said_again() {
    Stage::begin(Who::Ours).hold_against(&[KNOWN_NOT_FOR_LONG], BOTH);
}

#[test]
fn a_service_bound_to_an_address_is_announced_with_that_one_alone() {
    let lan = Lan::with_ipv6(&["asked", "asker"]);
    let (host, station) = (lan.host("asked"), Station::start(lan.host("asker")));
    let ours = start_on(host);
    let bound: [(u128, IpAddr); 2] = [(1, host.address().into()), (2, host.address6().unwrap().into())];
    for (key, ip) in bound {
        ours.advertise(key, Service { ip: Some(ip), ..loopback::service(&format!("bound {key}"), 9) });
        wait_advertised(&ours, key);
    }
    station.wait_for_rest();
    for (key, ip) in bound {
        let owner = ["h-bound1-9", "h-bound2-9"][key as usize - 1];
        for kind in [A, AAAA] {
            station.say(Packet::new(0, QUERY).ask(&[owner, "local"], kind, IN));
        }
        let said = || -> Vec<IpAddr> {
            let of_owner =
                station.records(0).into_iter().filter(|(_, item)| item.name == format!("{owner}.local"));
            of_owner
                .filter_map(|(_, item)| match item.kind {
                    Kind::A(ip) => Some(IpAddr::V4(ip)),
                    Kind::Aaaa(ip) => Some(IpAddr::V6(ip)),
                    _ => None,
                })
                .collect()
        };
        wait_until("its address", LIMIT, || said().contains(&ip));
        station.wait_for_rest();
        assert!(said().iter().all(|said| *said == ip), "{ip}: {:?}", said());
    }
}
