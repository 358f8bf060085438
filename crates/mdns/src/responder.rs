//! The responder: which services are ours on which link, and what is said of them there (RFC 6762 §6–§10). Each service
//! is probed for, announced, defended and withdrawn by its [`Phase`] on each link. Time and packets come in as values;
//! packets and events are left to be taken. Pure but for log lines.

mod answering;
mod conflicts;
mod entry;
mod known;
mod leaving;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::LazyLock;

use self::answering::Pending;
use self::conflicts::Contests;
pub(crate) use self::entry::{Entry, EntryId};
use self::entry::{OTHER_TTL, Phase, Presence};
use self::known::KnownAnswers;
use self::leaving::{Owed, REMEMBERED_FOR};
use crate::board::{Goodbye, Standing};
use crate::clock::Instant;
use crate::link::{Link, LinkId, LinkName};
use crate::outbox::Outbox;
use crate::pack::Packer;
use crate::random::Random;
use crate::service::Service;
use crate::wire::{ANY, Data, Message, Name, Question, Record};

/// What the responder tells its owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// How the service of this key stands now; `None` once it is withdrawn.
    Standing(u128, Option<Standing>),
    /// The service of this key was announced under another name than last time.
    Renamed(u128, String),
    /// The withdrawal that was asked for with this token is over, or takes too long.
    Withdrawn(u64, Goodbye),
}

pub(crate) struct Responder {
    links: BTreeMap<LinkId, OnLink>,
    entries: BTreeMap<EntryId, Entry>,
    entries_ever: EntryId,
    keys: HashMap<u128, EntryId>,
    /// What our names stand for.
    owners: HashMap<Name, Owner>,
    /// Entries that wait for a name.
    waiting: HashMap<Name, VecDeque<EntryId>>,
    /// Names that were reported, by key.
    reported: HashMap<u128, String>,
    owed: Vec<Owed>,
    /// Links that were in use and may come back, with when they went.
    away: BTreeMap<LinkName, Instant>,
    /// When those who wait for a goodbye get an answer even if it was not said.
    overdue: BTreeSet<(Instant, EntryId)>,
    contests: Contests,
    /// When each presence is due, once each: what packets set again and again replaces what they set before.
    timers: BTreeSet<(Instant, EntryId, LinkId)>,
    changed: BTreeSet<u128>,
    events: VecDeque<Event>,
    random: Random,
    /// The port that responders answer from.
    port: u16,
    is_closing: bool,
    /// Probes begin together, so that they share packets.
    probing_at: Option<Instant>,
}

struct OnLink {
    link: Link,
    pending: HashMap<(Name, u16), Pending>,
    /// Of the hosts whose questions wait.
    known: KnownAnswers,
    /// When pointers to types were last sent to everybody here.
    types_multicast: HashMap<Name, Instant>,
}

/// What a name of ours stands for.
#[derive(Debug)]
enum Owner {
    Instance(EntryId),
    Host(EntryId),
    /// A type or a subtype, with the entries it points to and the place of that pointer among theirs.
    Pointers(BTreeMap<EntryId, usize>),
}

const PROBES: u8 = 3;
const PROBE_EVERY: Duration = Duration::from_millis(250);
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Changes that follow each other faster are announced together.
const UPDATE_AGAIN_AFTER: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
/// What a service's `last_error` says where nothing carries it.
const NOT_CARRIED: &str = "no interface in use carries it";
const NAME_HELD: &str = "its name is another registration's";

impl Responder {
    pub(crate) fn new(port: u16, random: Random) -> Self {
        Self {
            links: BTreeMap::new(),
            entries: BTreeMap::new(),
            entries_ever: 0,
            keys: HashMap::new(),
            owners: HashMap::new(),
            waiting: HashMap::new(),
            reported: HashMap::new(),
            owed: Vec::new(),
            away: BTreeMap::new(),
            overdue: BTreeSet::new(),
            contests: Contests::default(),
            timers: BTreeSet::new(),
            changed: BTreeSet::new(),
            events: VecDeque::new(),
            random,
            port,
            is_closing: false,
            probing_at: None,
        }
    }

    /// A link is there. What is to be on it is probed for first, also what was on it before (RFC 6762 §8).
    pub(crate) fn link_up(&mut self, now: Instant, link: Link) {
        let (id, name) = (link.id, link.name());
        let on_link = OnLink {
            link,
            pending: HashMap::new(),
            known: KnownAnswers::default(),
            types_multicast: HashMap::new(),
        };
        self.links.insert(id, on_link);
        self.away.remove(&name);
        let entries: Vec<EntryId> = self.entries.keys().copied().collect();
        entries.into_iter().for_each(|entry| self.follow_link(now, entry, id));
        self.settle_owed(now, id);
    }

    /// A link is gone, with whatever was under way on it.
    pub(crate) fn link_down(&mut self, now: Instant, id: LinkId) -> Option<Link> {
        let gone = self.links.remove(&id)?;
        let name = gone.link.name();
        self.away.retain(|_, since| *since + REMEMBERED_FOR > now);
        self.away.insert(name.clone(), now);
        let entries: Vec<EntryId> = self.entries.keys().copied().collect();
        for entry_id in entries {
            let Some(presence) = self.take_off(entry_id, id) else { continue };
            let Some(entry) = self.entries.get_mut(&entry_id) else { continue };
            let is_probed = matches!(presence.phase, Phase::Probing { .. });
            let is_known = !is_probed || entry.may_be_known_on(&name);
            if let Some(leaving) = entry.leaving.as_mut().filter(|_| is_known) {
                leaving.missed.insert(name.clone());
            }
            self.look_for_links(entry_id);
            self.look_whether_gone(now, entry_id);
        }
        Some(gone.link)
    }

    /// The addresses of a link are others now.
    pub(crate) fn link_changed(&mut self, now: Instant, link: Link) {
        let id = link.id;
        let Some(on_link) = self.links.get_mut(&id) else { return };
        on_link.link = link;
        let entries: Vec<EntryId> = self.entries.keys().copied().collect();
        for entry in entries {
            self.follow_link(now, entry, id);
            self.announce_again(now, entry, id);
        }
        self.settle_owed(now, id);
    }

    /// The machine slept: what the links were then they need not be now.
    pub(crate) fn probe_all(&mut self, now: Instant) {
        let ids: Vec<LinkId> = self.links.keys().copied().collect();
        ids.into_iter().for_each(|id| self.probe_link(now, id));
    }

    /// Begins anew on a link. Goodbyes that were under way there are said once their names have been probed for.
    fn probe_link(&mut self, now: Instant, id: LinkId) {
        let Some(OnLink { link, .. }) = self.links.remove(&id) else { return };
        let present = self.entries.iter().filter(|(_, entry)| entry.presences.contains_key(&id));
        let (leaving, staying): (Vec<EntryId>, Vec<EntryId>) =
            present.map(|(entry, _)| *entry).partition(|entry| self.is_leaving(*entry));
        for entry in staying {
            self.take_off(entry, id);
        }
        self.link_up(now, link);
        leaving.into_iter().for_each(|entry| self.probe_on(now, entry, id));
    }

    fn is_leaving(&self, id: EntryId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.leaving.is_some())
    }

    /// Advertises a service, or updates in place what this key stands for.
    pub(crate) fn advertise(&mut self, now: Instant, key: u128, service: Service) {
        if self.is_closing {
            return;
        }
        let known = self.keys.get(&key).copied();
        if let Err(unfit) = service.check() {
            let last_error = Some(unfit.to_string());
            match known.and_then(|id| self.entries.get_mut(&id)) {
                Some(entry) => entry.last_error = last_error,
                None => {
                    let standing = Standing { last_error, ..Standing::default() };
                    self.events.push_back(Event::Standing(key, Some(standing)));
                }
            }
            self.changed.extend(known.map(|_| key));
            return;
        }
        if let Some(id) = known
            && let Some(entry) = self.entries.get_mut(&id)
        {
            // Its caller may have taken note of the name that it got after a conflict.
            let is_same = |known: &Service| !service.is_another_name(known);
            if is_same(&entry.wanted) || is_same(&entry.as_announced()) {
                if entry.wanted != service {
                    entry.update(service);
                    self.follow_links(now, id);
                    let links: Vec<LinkId> = self.links.keys().copied().collect();
                    links.into_iter().for_each(|link| self.announce_again(now, id, link));
                }
                return;
            }
            self.reported.remove(&key);
            self.leave(now, id, None);
        }
        let Some(entry) = Entry::new(Some(key), service) else { return };
        let id = self.insert(entry);
        self.keys.insert(key, id);
        self.begin(now, id);
    }

    fn insert(&mut self, entry: Entry) -> EntryId {
        self.entries_ever += 1;
        self.entries.insert(self.entries_ever, entry);
        self.entries_ever
    }

    /// Takes the names of an entry and goes on the links with it, or has it wait for a name that is another's.
    fn begin(&mut self, now: Instant, id: EntryId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.changed.extend(entry.key);
        let names = [&entry.names.instance, &entry.names.host];
        if let Some(held) = names.into_iter().find(|name| self.owners.contains_key(name)) {
            entry.is_waiting = true;
            entry.last_error = Some(NAME_HELD.to_owned());
            return self.waiting.entry(held.clone()).or_default().push_back(id);
        }
        (entry.is_waiting, entry.last_error) = (false, None);
        self.take_names(id);
        self.follow_links(now, id);
    }

    fn take_names(&mut self, id: EntryId) {
        let Some(entry) = self.entries.get(&id) else { return };
        self.owners.insert(entry.names.instance.clone(), Owner::Instance(id));
        if !entry.is_without_host {
            self.owners.insert(entry.names.host.clone(), Owner::Host(id));
        }
        for (place, pointer) in entry.names.pointers.iter().enumerate() {
            let owner = self.owners.entry(pointer.clone());
            match owner.or_insert_with(|| Owner::Pointers(BTreeMap::new())) {
                Owner::Pointers(entries) => entries.insert(id, place),
                // A name with as many labels as a type's is no instance's and no host's.
                Owner::Instance(_) | Owner::Host(_) => None,
            };
        }
    }

    /// Gives the names of an entry back. Those who wait for one are returned, to begin anew.
    fn drop_names(&mut self, id: EntryId) -> Vec<EntryId> {
        let Some(entry) = self.entries.get(&id) else { return Vec::new() };
        let mut waiting = Vec::new();
        for name in [&entry.names.instance, &entry.names.host] {
            let is_own = matches!(
                self.owners.get(name),
                Some(Owner::Instance(owner) | Owner::Host(owner)) if *owner == id
            );
            if is_own {
                self.owners.remove(name);
                waiting.extend(self.waiting.remove(name).into_iter().flatten());
            }
        }
        for pointer in &entry.names.pointers {
            if let Some(Owner::Pointers(entries)) = self.owners.get_mut(pointer) {
                entries.remove(&id);
                if entries.is_empty() {
                    self.owners.remove(pointer);
                    self.links.values_mut().for_each(|on_link| {
                        on_link.types_multicast.remove(pointer);
                    });
                }
            }
        }
        waiting
    }

    fn follow_links(&mut self, now: Instant, id: EntryId) {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.follow_link(now, id, link));
        self.look_for_links(id);
    }

    /// Brings an entry onto a link that carries it, and takes it off one that does not.
    fn follow_link(&mut self, now: Instant, id: EntryId, link_id: LinkId) {
        let (Some(entry), Some(on_link)) = (self.entries.get_mut(&id), self.links.get(&link_id)) else {
            return;
        };
        let is_carried = on_link.link.addresses_of(entry.wanted.ip).is_some();
        let is_present = entry.presences.contains_key(&link_id);
        match &mut entry.leaving {
            Some(leaving) => {
                let is_news = is_carried && !is_present && leaving.takes_on(&on_link.link.name());
                if is_news {
                    // Another host may have taken the name meanwhile.
                    self.probe_on(now, id, link_id);
                }
            }
            None if entry.is_waiting => {}
            None if is_carried && !is_present => self.probe_on(now, id, link_id),
            None if !is_carried => self.leave_link(now, id, link_id),
            None => {}
        }
        self.look_for_links(id);
    }

    /// The link carries the service no longer. A name that is being probed for may be another host's: its end is said when
    /// it is known to be ours.
    fn leave_link(&mut self, now: Instant, id: EntryId, link_id: LinkId) {
        let (Some(entry), Some(on_link)) = (self.entries.get_mut(&id), self.links.get(&link_id)) else {
            return;
        };
        let name = on_link.link.name();
        match entry.presences.get(&link_id).map(|presence| presence.phase) {
            Some(Phase::Probing { .. }) if !entry.announced_on.contains(&name) => {
                self.take_off(id, link_id);
            }
            Some(Phase::Announcing { .. } | Phase::Settled) => {
                entry.announced_on.remove(&name);
                self.say_goodbye_on(now, id, link_id);
            }
            Some(Phase::Probing { .. } | Phase::Leaving { .. }) | None => {}
        }
    }

    fn look_for_links(&mut self, id: EntryId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.is_waiting || entry.leaving.is_some() {
            return;
        }
        let is_not_carried = entry.last_error.as_deref() == Some(NOT_CARRIED);
        if entry.presences.is_empty() {
            entry.last_error = Some(NOT_CARRIED.to_owned());
        } else if is_not_carried {
            entry.last_error = None;
        }
        self.changed.extend(entry.key);
    }

    /// Begins to probe, or begins again.
    fn probe_on(&mut self, now: Instant, id: EntryId, link: LinkId) {
        let at = self.next_probing(now);
        self.set_phase(id, link, Phase::Probing { sent: 0 }, at);
    }

    /// RFC 6762 §8.1: hosts that begin together, as after a power failure, wait for a random time; and for longer in a
    /// storm of conflicts.
    fn next_probing(&mut self, now: Instant) -> Instant {
        let at = match self.probing_at {
            Some(at) if at > now => at,
            _ => now + self.random.within(Duration::ZERO, PROBE_EVERY),
        };
        self.probing_at = Some(at);
        at
    }

    fn set_phase(&mut self, id: EntryId, link: LinkId, phase: Phase, due: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let presence = entry.presences.entry(link).or_insert_with(|| Presence::new(phase, due));
        presence.phase = phase;
        let before = presence.due.replace(due);
        if let Some(at) = before {
            self.timers.remove(&(at, id, link));
        }
        self.timers.insert((due, id, link));
        self.changed.extend(entry.key);
    }

    /// An entry is not on a link any more.
    fn take_off(&mut self, id: EntryId, link: LinkId) -> Option<Presence> {
        let presence = self.entries.get_mut(&id)?.presences.remove(&link)?;
        if let Some(at) = presence.due {
            self.timers.remove(&(at, id, link));
        }
        Some(presence)
    }

    /// Announces what changed, or what others no longer believe, if it is ours on this link.
    fn announce_again(&mut self, now: Instant, id: EntryId, link: LinkId) {
        let Some(presence) = self.entries.get(&id).and_then(|entry| entry.presences.get(&link)) else {
            return;
        };
        if presence.is_ours() {
            let earliest = presence.announced_at.map(|at| at + UPDATE_AGAIN_AFTER);
            let at = earliest.map_or(now, |earliest| earliest.max(now));
            self.set_phase(id, link, Phase::Announcing { sent: 0 }, at);
        }
    }

    /// How much is kept of questions that wait: questions, the hosts that asked, known answers, and records that were sent.
    pub(crate) fn waiting_entries(&self) -> usize {
        let of_link = |on_link: &OnLink| {
            let sent: usize = on_link.pending.values().map(|pending| pending.sent.len()).sum();
            on_link.pending.len() + sent + on_link.known.len()
        };
        self.links.values().map(of_link).sum()
    }

    /// What goes on by itself, on whichever link: at most each entry on each link.
    pub(crate) fn timers(&self) -> usize {
        self.timers.len()
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, ..)| *at);
        let answers =
            self.links.values().flat_map(|on_link| on_link.pending.values().map(|pending| pending.due));
        let answers = answers.min();
        let overdue = self.overdue.first().map(|(at, _)| *at);
        [timer, answers, overdue].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant, outbox: &mut Outbox) {
        let mut due: BTreeMap<LinkId, Vec<EntryId>> = BTreeMap::new();
        while let Some((at, id, link)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            let presence = self.entries.get_mut(&id).and_then(|entry| entry.presences.get_mut(&link));
            if let Some(presence) = presence {
                presence.due = None;
                due.entry(link).or_default().push(id);
            }
        }
        for (link, ids) in due {
            self.go_on(now, link, ids, outbox);
        }
        self.answer_pending(now, outbox);
        self.answer_overdue(now);
    }

    /// Takes entries to their next phase on a link. What they say shares packets.
    fn go_on(&mut self, now: Instant, link_id: LinkId, ids: Vec<EntryId>, outbox: &mut Outbox) {
        let Some(on_link) = self.links.get_mut(&link_id) else { return };
        let link = &on_link.link;
        let (mut probes, mut news) = (Packer::new(Message::default()), Packer::responses());
        let (mut goodbyes, mut repeats) = (Packer::responses(), Packer::responses());
        for id in ids {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            let Some(phase) = entry.presences.get(&link_id).map(|presence| presence.phase) else { continue };
            let (next, due) = match phase {
                Phase::Probing { sent } if sent < PROBES => {
                    probes.add(probe(entry, link), None);
                    entry.waits_with_name = false;
                    (Phase::Probing { sent: sent + 1 }, Some(now + PROBE_EVERY))
                }
                Phase::Probing { .. } if entry.leaving.is_some() || !entry.is_carried_by(link) => {
                    // The name is ours after all, so that its end is ours to say.
                    if entry.leaving.is_none() {
                        entry.announced_on.remove(&link.name());
                    }
                    goodbyes.add(entry.goodbye(link), Some(id));
                    (Phase::Leaving { sent: 1, is_under_way: true }, None)
                }
                Phase::Probing { .. } | Phase::Announcing { .. } => {
                    let is_first = matches!(phase, Phase::Probing { .. });
                    news.add(announce(entry, link, now, is_first), None);
                    let type_name = &entry.names.pointers[0];
                    let last = on_link.types_multicast.get(type_name);
                    if last.is_none_or(|at| *at + SECOND <= now) {
                        let answers = vec![type_record(type_name)];
                        news.add(Message { answers, ..Message::default() }, None);
                        on_link.types_multicast.insert(type_name.clone(), now);
                    }
                    self.changed.extend(entry.key);
                    next_announcement(entry, link_id, phase, now)
                }
                Phase::Leaving { sent, .. } => {
                    let packer = if sent == 0 { &mut goodbyes } else { &mut repeats };
                    packer.add(entry.goodbye(link), Some(id));
                    (Phase::Leaving { sent: sent + 1, is_under_way: true }, None)
                }
                Phase::Settled => (Phase::Settled, None),
            };
            if let Some(presence) = entry.presences.get_mut(&link_id) {
                (presence.phase, presence.due) = (next, due);
            }
            if let Some(due) = due {
                self.timers.insert((due, id, link_id));
            }
        }
        outbox.goodbyes(link_id, goodbyes.finish());
        outbox.multicast(link_id, probes.finish());
        outbox.multicast(link_id, news.finish());
        // After whatever was still to be said of the services when they went.
        outbox.multicast(link_id, repeats.finish());
    }

    /// The events since the last call. A standing is reported once however often it changed.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        for key in core::mem::take(&mut self.changed) {
            let Some(entry) = self.keys.get(&key).and_then(|id| self.entries.get(id)) else { continue };
            let standing = entry.standing();
            let reported = self.reported.get(&key).unwrap_or(&entry.wanted.name);
            if let Some(name) = standing.name.as_ref().filter(|name| *name != reported) {
                self.events.push_back(Event::Renamed(key, name.clone()));
                self.reported.insert(key, name.clone());
            }
            self.events.push_back(Event::Standing(key, Some(standing)));
        }
        self.events.drain(..).collect()
    }
}

/// RFC 6762 §8.1, §8.2: asks for everything of the names, and proposes what they are to be.
fn probe(entry: &Entry, link: &Link) -> Message {
    let question = |name: &Name| Question { name: name.clone(), kind: ANY, wants_unicast: false };
    let host = Some(&entry.names.host).filter(|_| !entry.is_without_host);
    Message {
        questions: core::iter::once(&entry.names.instance).chain(host).map(question).collect(),
        authorities: entry.unique_records(link),
        ..Message::default()
    }
}

/// The records to be announced. Those that have just been sent are left out (RFC 6762 §6), but for the first time after
/// probing: whatever other hosts had of the names is replaced then.
fn announce(entry: &mut Entry, link: &Link, now: Instant, is_first: bool) -> Message {
    let mut kinds = entry.kinds(link);
    if let Some(presence) = entry.presences.get_mut(&link.id) {
        presence.withdrawn.retain(|withdrawn| kinds.contains(withdrawn));
        kinds.retain(|kind| is_first || presence.free_at(*kind, now) == now);
        kinds.iter().for_each(|kind| presence.set_multicast(*kind, now));
        presence.announced_at = Some(now);
    }
    entry.announced_on.insert(link.name());
    (entry.names_lost, entry.is_contested, entry.last_error) = (0, false, None);
    let answers = kinds.into_iter().map(|kind| entry.record(kind, link)).collect();
    Message { answers, ..Message::default() }
}

/// What follows an announcement.
fn next_announcement(entry: &Entry, link: LinkId, phase: Phase, now: Instant) -> (Phase, Option<Instant>) {
    let sent = if let Phase::Announcing { sent } = phase { sent + 1 } else { 1 };
    if sent < ANNOUNCEMENTS {
        return (Phase::Announcing { sent }, Some(now + ANNOUNCE_AGAIN_AFTER));
    }
    let presence = entry.presences.get(&link);
    let again = presence.and_then(|p| p.withdrawn.iter().map(|kind| p.free_at(*kind, now)).min());
    match again {
        Some(at) => (Phase::Announcing { sent: ANNOUNCEMENTS - 1 }, Some(at)),
        None => (Phase::Settled, None),
    }
}

/// What all types on the network are asked for by (RFC 6763 §9).
pub(crate) static TYPES: LazyLock<Name> = LazyLock::new(|| {
    Name::of("_services._dns-sd._udp.local").unwrap_or_else(|| unreachable!("four short labels"))
});

/// The pointer from all types to this one.
fn type_record(type_name: &Name) -> Record {
    Record { name: TYPES.clone(), is_unique: false, ttl: OTHER_TTL, data: Data::Ptr(type_name.clone()) }
}
