//! The querier: what is looked for, what was heard of it, and when to ask again (RFC 6762 §5, §7.1, §10). Keeps records of
//! names that are looked for, of the instances found there and of their hosts, and no others; their number and bytes are
//! bounded (`cache.rs`). Whatever the network says, a question is sent once a second at most, and questions of all kinds at
//! a bounded rate. Time and packets come in as values. Pure.

mod cache;

pub(crate) use self::cache::BYTES_MAX as CACHE_BYTES_MAX;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use self::cache::{Cache, Look, Refreshes, Stored, text_strings};
use crate::clock::Instant;
use crate::link::{Link, LinkId};
use crate::outbox::Outbox;
use crate::pack::Packed;
use crate::random::Random;
use crate::service::is_type;
use crate::sighting::{Address, Record, Wanted};
use crate::wire::{self, A, AAAA, Data, Message, Name, PACKET_BYTES, PTR, Question, Room, SRV, TXT};

/// A service or a type that was found, or that is gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) wanted: Wanted,
    /// The instance, or the type.
    pub(crate) name: String,
    pub(crate) seen: Option<Seen>,
}

/// Something that is there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// All that is known of it, once that is enough to reach it.
    pub(crate) record: Option<Record>,
}

pub(crate) struct Querier {
    /// With the names of their interfaces.
    links: BTreeMap<LinkId, String>,
    /// By the name that is asked for.
    looks: HashMap<Name, Looking>,
    instances: HashMap<Name, Instance>,
    /// Hosts of instances, with these.
    hosts: HashMap<Name, HashSet<Name>>,
    cache: Cache,
    timers: BinaryHeap<Reverse<(Instant, u64)>>,
    timers_ever: u64,
    timed: HashMap<u64, Timer>,
    /// Questions of this moment.
    questions: Vec<(Name, u16)>,
    changed: HashSet<Name>,
    findings: Vec<Finding>,
    random: Random,
    /// Instances that were asked for one by one.
    resolves: Rate,
    /// Records that were asked for before they run out.
    refreshes: Rate,
    /// When the cache was last looked at.
    looked_at: Option<Instant>,
    /// When each question of the last second was sent.
    sent: HashMap<(Name, u16), Instant>,
}

/// How often something was done in one second.
#[derive(Default)]
struct Rate {
    began: Option<Instant>,
    done: u32,
}

impl Rate {
    /// How often it may still be done in this second.
    fn left(&mut self, now: Instant, max: u32) -> u32 {
        if self.began.is_none_or(|began| began + SECOND <= now) {
            *self = Self { began: Some(now), done: 0 };
        }
        max.saturating_sub(self.done)
    }
}

/// Something that is looked for.
struct Looking {
    wanted: Wanted,
    asked_at: Option<Instant>,
    next_at: Instant,
    wait: Duration,
}

/// An instance that some look has found.
#[derive(Default)]
struct Instance {
    /// Names that point to it.
    domains: HashSet<Name>,
    asked: u8,
    next_at: Option<Instant>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Timer {
    Ask(Name),
    Resolve(Name),
}

/// RFC 6762 §5.2: first after a random delay, then after a second, then each time after twice as long.
const FIRST_ASK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(120));
const SECOND: Duration = Duration::from_secs(1);
const ASK_EVERY_MAX: Duration = Duration::from_secs(3_600);
/// How often an instance is asked for by itself.
const RESOLVE_TRIES: u8 = 4;
/// An instance that did not say a text when asked so often has none.
const TEXT_TRIES: u8 = 2;
/// Instances that are asked for by themselves in one second; the network may name any number of them.
const RESOLVES_PER_SECOND: u32 = 100;
/// Questions of one second for records that run out. A thousand services have three thousand in the last 24 s of their
/// records' two minutes.
const REFRESHES_PER_SECOND: u32 = 1_000;
/// Records that run out one after the other share packets.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const QUESTIONS_PER_PACKET: usize = 24;
/// Packets of known answers beside a question: about 700 pointers. More are not listed, and come as answers.
const KNOWN_PACKETS_MAX: usize = 16;

impl Querier {
    pub(crate) fn new(mut random: Random) -> Self {
        Self {
            links: BTreeMap::new(),
            looks: HashMap::new(),
            instances: HashMap::new(),
            hosts: HashMap::new(),
            cache: Cache::new(random.branch()),
            timers: BinaryHeap::new(),
            timers_ever: 0,
            timed: HashMap::new(),
            questions: Vec::new(),
            changed: HashSet::new(),
            findings: Vec::new(),
            random,
            resolves: Rate::default(),
            refreshes: Rate::default(),
            looked_at: None,
            sent: HashMap::new(),
        }
    }

    pub(crate) fn link_up(&mut self, now: Instant, link: &Link) {
        self.links.insert(link.id, link.interface.clone());
        self.ask_all(now);
    }

    /// Asks for everything as at first.
    pub(crate) fn ask_all(&mut self, now: Instant) {
        // A link that is new was asked nothing.
        self.sent.clear();
        let domains: Vec<Name> = self.looks.keys().cloned().collect();
        domains.into_iter().for_each(|domain| self.ask_from_the_start(now, &domain));
    }

    /// Forgets the records that came from a link.
    pub(crate) fn link_down(&mut self, link: LinkId) {
        self.links.remove(&link);
        let gone = self.cache.forget_link(link);
        gone.into_iter().for_each(|(name, data)| self.lost(&name, &data));
        self.evaluate();
    }

    /// Begins to look for something. A look that runs already reports its findings again, because a new listener may have
    /// none of them.
    pub(crate) fn browse(&mut self, now: Instant, wanted: &Wanted) {
        let Some(domain) = wanted.domain() else { return };
        if self.looks.contains_key(&domain) {
            let targets: Vec<Name> = self.cache.pointers(&domain).cloned().collect();
            targets.into_iter().for_each(|target| self.pointed(now, &domain, target));
            return self.evaluate();
        }
        let looking = Looking { wanted: wanted.clone(), asked_at: None, next_at: now, wait: SECOND };
        self.looks.insert(domain.clone(), looking);
        self.ask_from_the_start(now, &domain);
    }

    /// Nobody looks for it any more: all that is known of it is forgotten.
    pub(crate) fn stop(&mut self, wanted: &Wanted) {
        let Some(domain) = wanted.domain() else { return };
        if self.looks.remove(&domain).is_none() {
            return;
        }
        for data in self.cache.forget_name(&domain) {
            self.lost(&domain, &data);
        }
        self.evaluate();
        self.findings.retain(|finding| finding.wanted != *wanted);
    }

    /// Asks the network now, and as eagerly as at first from then on, unless it was asked a moment ago.
    pub(crate) fn ask(&mut self, now: Instant, wanted: &Wanted) {
        let Some(domain) = wanted.domain() else { return };
        let is_recent = |looking: &Looking| looking.asked_at.is_some_and(|at| at + SECOND > now);
        if self.looks.get(&domain).is_some_and(|looking| !is_recent(looking)) {
            self.ask_from_the_start(now, &domain);
        }
    }

    fn ask_from_the_start(&mut self, now: Instant, domain: &Name) {
        let at = now + self.random.within(FIRST_ASK.0, FIRST_ASK.1);
        if let Some(looking) = self.looks.get_mut(domain) {
            (looking.next_at, looking.wait) = (at, SECOND);
            self.arm(at, Timer::Ask(domain.clone()));
        }
    }

    fn arm(&mut self, at: Instant, timer: Timer) {
        self.timers_ever += 1;
        self.timers.push(Reverse((at, self.timers_ever)));
        self.timed.insert(self.timers_ever, timer);
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let earliest = self.looked_at.map(|at| at + LOOK_EVERY);
        let cache = self.cache.next_due().map(|at| earliest.map_or(at, |earliest| at.max(earliest)));
        [timer, cache].into_iter().flatten().min()
    }

    pub(crate) fn tick(&mut self, now: Instant, outbox: &mut Outbox) {
        let may_ask = outbox.takes_questions();
        while let Some(Reverse((at, id))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            match self.timed.remove(&id) {
                Some(Timer::Ask(domain)) => self.ask_again(now, at, domain, may_ask),
                Some(Timer::Resolve(instance)) => self.resolve_again(now, at, instance, may_ask),
                None => {}
            }
        }
        if self.looked_at.is_none_or(|at| at + LOOK_EVERY <= now) {
            self.look_at_cache(now, may_ask);
        }
        self.evaluate();
        self.send_questions(now, outbox);
    }

    fn look_at_cache(&mut self, now: Instant, may_ask: bool) {
        if self.cache.next_due().is_none_or(|due| due > now) {
            return;
        }
        self.looked_at = Some(now);
        let left = self.refreshes.left(now, REFRESHES_PER_SECOND);
        for look in self.cache.due(now, Refreshes { left, may_ask, otherwise_at: now + SECOND }) {
            match look {
                Look::Refresh(name, kind) => {
                    self.refreshes.done += u32::from(kind != PTR);
                    self.questions.push((name, kind));
                }
                Look::Expired(name, data) => self.lost(&name, &data),
            }
        }
    }

    fn ask_again(&mut self, now: Instant, at: Instant, domain: Name, may_ask: bool) {
        let Some(looking) = self.looks.get_mut(&domain).filter(|looking| looking.next_at == at) else {
            return;
        };
        if !may_ask {
            looking.next_at = now + SECOND;
            return self.arm(now + SECOND, Timer::Ask(domain));
        }
        looking.asked_at = Some(now);
        looking.next_at = now + looking.wait;
        looking.wait = looking.wait.saturating_mul(2).min(ASK_EVERY_MAX);
        let next_at = looking.next_at;
        self.questions.push((domain.clone(), PTR));
        self.arm(next_at, Timer::Ask(domain));
    }

    /// Asks for what is missing of an instance.
    fn resolve_again(&mut self, now: Instant, at: Instant, name: Name, may_ask: bool) {
        let missing = self.missing(&name);
        let Some(instance) = self.instances.get_mut(&name).filter(|instance| instance.next_at == Some(at))
        else {
            return;
        };
        instance.next_at = None;
        if missing.is_empty() || instance.asked >= RESOLVE_TRIES {
            return;
        }
        let next = if may_ask && self.resolves.left(now, RESOLVES_PER_SECOND) > 0 {
            self.resolves.done += 1;
            instance.asked += 1;
            self.questions.extend(missing);
            now + SECOND * u32::from(instance.asked)
        } else {
            now + SECOND
        };
        instance.next_at = Some(next);
        self.changed.insert(name.clone());
        self.arm(next, Timer::Resolve(name));
    }

    /// What has to be asked for until an instance can be reached.
    fn missing(&self, name: &Name) -> Vec<(Name, u16)> {
        let is_known = |kind| self.cache.newest(name, kind).is_some();
        let mut missing: Vec<_> =
            [SRV, TXT].into_iter().filter(|kind| !is_known(*kind)).map(|kind| (name.clone(), kind)).collect();
        if let Some(Data::Srv { target, .. }) = self.cache.newest(name, SRV)
            && [A, AAAA].into_iter().all(|kind| self.cache.newest(target, kind).is_none())
        {
            missing.extend([A, AAAA].map(|kind| (target.clone(), kind)));
        }
        missing
    }

    /// Takes in a response: pointers first, because what they point to is of no interest before. What that changes is
    /// looked at in [`Querier::tick`], once for many packets.
    pub(crate) fn receive(&mut self, now: Instant, link: LinkId, message: &Message) {
        if !message.is_response || self.looks.is_empty() {
            return;
        }
        let records = || message.answers.iter().chain(&message.additionals);
        for record in records() {
            if let Data::Ptr(target) = &record.data
                && self.looks.contains_key(&record.name)
            {
                let target = target.clone();
                if self.cache.store(now, link, record).is_new() {
                    self.pointed(now, &record.name, target);
                }
            }
        }
        for record in records() {
            let is_wanted = matches!(record.data, Data::Srv { .. } | Data::Txt(_));
            if !is_wanted || !self.instances.contains_key(&record.name) {
                continue;
            }
            let stored = self.cache.store(now, link, record);
            if let Stored::Instead(gone) = &stored {
                self.lost(&record.name, gone);
            }
            if stored.is_new() {
                self.changed.insert(record.name.clone());
                if let Data::Srv { target, .. } = &record.data {
                    self.hosts.entry(target.clone()).or_default().insert(record.name.clone());
                    self.resolve_soon(now, &record.name);
                }
            }
        }
        for record in records() {
            let is_wanted = matches!(record.data, Data::A(_) | Data::Aaaa(_));
            let Some(instances) = self.hosts.get(&record.name).filter(|_| is_wanted) else { continue };
            if self.cache.store(now, link, record).is_new() {
                self.changed.extend(instances.iter().cloned());
            }
        }
    }

    /// A name that is looked for points to another one.
    fn pointed(&mut self, now: Instant, domain: &Name, target: Name) {
        let Some(looking) = self.looks.get(domain) else { return };
        if looking.wanted == Wanted::Types {
            if let Some(name) = type_text(&target) {
                let wanted = Wanted::Types;
                self.findings.push(Finding { wanted, name, seen: Some(Seen { record: None }) });
            }
            return;
        }
        let instance = self.instances.entry(target.clone()).or_default();
        instance.domains.insert(domain.clone());
        self.changed.insert(target.clone());
        self.resolve_soon(now, &target);
    }

    fn resolve_soon(&mut self, now: Instant, name: &Name) {
        let at = now + self.random.within(FIRST_ASK.0, FIRST_ASK.1);
        if let Some(instance) = self.instances.get_mut(name).filter(|instance| instance.next_at.is_none()) {
            (instance.asked, instance.next_at) = (0, Some(at));
            self.arm(at, Timer::Resolve(name.clone()));
        }
    }

    /// A record is gone from the cache.
    fn lost(&mut self, name: &Name, data: &Data) {
        match data {
            Data::Ptr(target) => self.no_longer_pointed(name, target),
            Data::Srv { target, .. } => {
                let is_left = self.cache.targets(name).any(|left| left == target);
                if !is_left {
                    self.forget_host(target, name);
                }
                self.changed.insert(name.clone());
            }
            Data::A(_) | Data::Aaaa(_) => {
                self.changed.extend(self.hosts.get(name).into_iter().flatten().cloned());
            }
            Data::Txt(_) | Data::Nsec { .. } => {}
        }
    }

    fn no_longer_pointed(&mut self, domain: &Name, target: &Name) {
        if self.cache.has_pointer(domain, target, self.links.keys().copied()) {
            return;
        }
        if let Some(looking) = self.looks.get(domain) {
            let name = match looking.wanted {
                Wanted::Types => type_text(target),
                Wanted::Type(_) | Wanted::Subtype { .. } => self.label(domain, target),
            };
            let wanted = looking.wanted.clone();
            self.findings.extend(name.map(|name| Finding { wanted, name, seen: None }));
        }
        let Some(instance) = self.instances.get_mut(target) else { return };
        instance.domains.remove(domain);
        if instance.domains.is_empty() {
            self.instances.remove(target);
            self.changed.remove(target);
            let hosts: Vec<Name> = self.cache.targets(target).cloned().collect();
            hosts.into_iter().for_each(|host| self.forget_host(&host, target));
            self.cache.forget_name(target);
        }
    }

    fn forget_host(&mut self, host: &Name, instance: &Name) {
        if let Some(instances) = self.hosts.get_mut(host) {
            instances.remove(instance);
            if instances.is_empty() {
                self.hosts.remove(host);
                self.cache.forget_name(host);
            }
        }
    }

    /// The instance's own label. Names of subtypes point to instances of the type.
    fn label(&self, domain: &Name, target: &Name) -> Option<String> {
        let looking = self.looks.get(domain)?;
        let type_name = Name::of(&format!("{}.local", looking.wanted.service_type()))?;
        let label = target.label_under(&type_name)?;
        String::from_utf8(label.to_vec()).ok()
    }

    /// Says what changed.
    fn evaluate(&mut self) {
        for name in core::mem::take(&mut self.changed) {
            let Some(instance) = self.instances.get(&name) else { continue };
            for domain in &instance.domains {
                let Some(looking) = self.looks.get(domain) else { continue };
                let Some(label) = self.label(domain, &name) else { continue };
                let record = self.record(&name, &label, &looking.wanted, instance);
                let wanted = looking.wanted.clone();
                self.findings.push(Finding { wanted, name: label, seen: Some(Seen { record }) });
            }
        }
    }

    fn record(&self, name: &Name, label: &str, wanted: &Wanted, instance: &Instance) -> Option<Record> {
        let Data::Srv { port, target, .. } = self.cache.newest(name, SRV)? else { return None };
        let txt = match self.cache.newest(name, TXT) {
            Some(Data::Txt(strings)) => text(strings),
            _ if instance.asked >= TEXT_TRIES => Vec::new(),
            _ => return None,
        };
        let mut addresses: Vec<Address> = self
            .cache
            .addresses(target)
            .map(|(ip, link)| {
                let is_link_local = matches!(ip, std::net::IpAddr::V6(ip) if ip.is_unicast_link_local());
                Address { ip, zone: self.links.get(&link).filter(|_| is_link_local).cloned() }
            })
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        (!addresses.is_empty()).then(|| Record {
            name: label.to_owned(),
            service_type: wanted.service_type().to_owned(),
            host: Some(target.to_string()),
            port: (*port != 0).then_some(*port),
            addresses,
            txt,
        })
    }

    /// The weight of all records that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.cache.bytes()
    }

    #[cfg(test)]
    pub(crate) fn kept_records(&self) -> usize {
        self.cache.records()
    }

    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        core::mem::take(&mut self.findings)
    }

    /// Sends the questions of this moment on all links, with what is known already (RFC 6762 §7.1). One that was sent
    /// within the last second is not sent again (§5.2).
    fn send_questions(&mut self, now: Instant, outbox: &mut Outbox) {
        let mut questions = core::mem::take(&mut self.questions);
        if questions.is_empty() {
            return;
        }
        self.sent.retain(|_, at| *at + SECOND > now);
        questions.retain(|question| match self.sent.entry(question.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(unsent) => {
                unsent.insert(now);
                true
            }
        });
        for asked in questions.chunks(QUESTIONS_PER_PACKET) {
            for link in self.links.keys() {
                let known = asked.iter().filter(|(_, kind)| *kind == PTR);
                let known = known.flat_map(|(name, _)| self.cache.known_pointers(now, name, *link));
                outbox.questions(*link, query(asked, known));
            }
        }
    }
}

/// A query as one packet, or as some if what is known does not fit one (RFC 6762 §7.2).
fn query(asked: &[(Name, u16)], known: impl Iterator<Item = wire::Record>) -> Vec<Packed> {
    let question =
        |(name, kind): &(Name, u16)| Question { name: name.clone(), kind: *kind, wants_unicast: false };
    let mut messages =
        vec![Message { questions: asked.iter().map(question).collect(), ..Message::default() }];
    let mut room = Room::default();
    room.fill(&messages[0]);
    for record in known {
        let group = Message { answers: vec![record], ..Message::default() };
        room.fill(&group);
        if room.used() > PACKET_BYTES {
            if messages.len() >= KNOWN_PACKETS_MAX {
                break;
            }
            if let Some(full) = messages.last_mut() {
                full.is_truncated = true;
            }
            messages.push(Message::default());
            room = Room::default();
            room.fill(&group);
        }
        if let Some(message) = messages.last_mut() {
            message.answers.extend(group.answers);
        }
    }
    let packed = messages.iter().filter_map(Message::write);
    packed.map(|bytes| Packed { bytes, tags: Vec::new() }).collect()
}

/// `_http._tcp` of `_http._tcp.local`.
fn type_text(name: &Name) -> Option<String> {
    let text = name.to_string();
    let text = text.strip_suffix(".local").or_else(|| text.strip_suffix(".LOCAL"))?;
    is_type(text).then(|| text.to_owned())
}

/// The first strings of a TXT record as keys and values (RFC 6763 §6): the first of each key counts.
fn text(strings: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut pairs: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    for string in text_strings(strings) {
        let mut parts = string.splitn(2, |byte| *byte == b'=');
        let key = parts.next().and_then(|key| core::str::from_utf8(key).ok()).filter(|key| !key.is_empty());
        let value = parts.next().map(<[u8]>::to_vec);
        if let Some(key) = key
            && !pairs.iter().any(|(known, _)| known.eq_ignore_ascii_case(key))
        {
            pairs.push((key.to_owned(), value));
        }
    }
    pairs
}
