//! Answers to questions (RFC 6762 §6, §7). Questions to everybody wait as questions, not as answers: however often one is
//! asked, it waits once, and its records are looked up once, when they are sent. While packets pile up, answers wait too.

use core::time::Duration;
use std::collections::HashSet;
use std::net::SocketAddr;

use super::entry::{EntryId, Kind, OTHER_TTL};
use super::known::KnownAnswers;
use super::{Owner, Responder, SECOND, TYPES, type_record};
use crate::clock::Instant;
use crate::link::{Link, LinkId};
use crate::outbox::Outbox;
use crate::pack::Packer;
use crate::wire::{A, AAAA, ANY, Data, Message, NSEC, Name, PACKET_BYTES, PTR, Question, Record, SRV, TXT};

/// A question whose answer is to go to everybody.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) due: Instant,
    asked_at: Instant,
    /// The hosts that asked, and when. `None`: more than [`ASKERS_MAX`].
    askers: Option<Vec<(SocketAddr, Instant)>>,
    /// Records that were sent since.
    pub(super) sent: HashSet<RecordId>,
    /// Asked by a host that is about to take the name: answered without delay.
    is_probe: bool,
}

/// How a question was asked.
#[derive(Clone, Copy)]
struct Asked {
    by: SocketAddr,
    is_probe: bool,
    /// More known answers follow.
    is_truncated: bool,
}

/// A record of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RecordId {
    Of(EntryId, Kind),
    /// The pointer from all types to this one.
    Type(Name),
}

impl RecordId {
    fn ttl(&self) -> u32 {
        match self {
            Self::Of(_, kind) => kind.ttl(),
            Self::Type(_) => OTHER_TTL,
        }
    }
}

/// RFC 6762 §6: several responders have an answer, and should not all send it in one moment.
const SHARED_DELAY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(120));
/// RFC 6762 §7.2: more known answers follow.
const TRUNCATED_DELAY: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(500));
/// RFC 6762 §6: a name is defended sooner than an answer is repeated.
const DEFEND_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// RFC 6762 §6.7.
const LEGACY_TTL_MAX: u32 = 10;
/// An answer for one host alone has at most so many records; a longer one goes to everybody, and so at most once a second.
const UNICAST_RECORDS_MAX: usize = 32;
/// Hosts whose known answers are compared for one question. If more hosts ask it, all its records are sent.
const ASKERS_MAX: usize = 8;
/// While too many packets wait, answers are tried again after this.
const CROWDED_DELAY: Duration = Duration::from_millis(50);

impl Pending {
    fn asked_again(&mut self, now: Instant, asked: Asked) {
        self.asked_at = now;
        self.is_probe |= asked.is_probe;
        let Some(askers) = &mut self.askers else { return };
        if let Some((_, at)) = askers.iter_mut().find(|(asker, _)| *asker == asked.by) {
            *at = now;
        } else if askers.len() < ASKERS_MAX {
            askers.push((asked.by, now));
        } else {
            self.askers = None;
        }
    }

    /// Whether all hosts that asked have the record.
    fn is_known(&self, known: &KnownAnswers, record: &RecordId) -> bool {
        self.askers
            .as_ref()
            .is_some_and(|askers| askers.iter().all(|(asker, asked_at)| known.has(*asker, *asked_at, record)))
    }
}

impl Responder {
    /// Takes in a query.
    pub(super) fn query(
        &mut self,
        now: Instant,
        link_id: LinkId,
        source: SocketAddr,
        message: &Message,
        outbox: &mut Outbox,
    ) {
        let Some(on_link) = self.links.get(&link_id) else { return };
        let is_legacy = source.port() != self.port;
        let is_near = on_link.link.carries(source.ip());
        let known = self.known_answers(link_id, message);
        if message.questions.is_empty() {
            if let Some(on_link) = self.links.get_mut(&link_id) {
                on_link.known.add(now, source, &known);
            }
            return;
        }
        let proposed: HashSet<&Name> = message.authorities.iter().map(|record| &record.name).collect();
        let mut asked = HashSet::new();
        let mut direct = Vec::new();
        let mut waits = false;
        for question in &message.questions {
            let Some(kind) = self.answerable(question) else { continue };
            if !asked.insert((question.name.clone(), kind)) {
                continue;
            }
            // A host of another network on this link gets no unicast answer, and a probe must have one.
            let is_alone = is_near
                && question.wants_unicast
                && self.was_multicast_lately(now, link_id, &question.name, kind);
            if is_legacy || is_alone {
                direct.push((question, kind));
            } else {
                let is_probe = proposed.contains(&question.name);
                let asked = Asked { by: source, is_probe, is_truncated: message.is_truncated };
                self.ask_later(now, link_id, (question.name.clone(), kind), asked);
                waits = true;
            }
        }
        if let Some(on_link) = self.links.get_mut(&link_id).filter(|_| waits) {
            on_link.known.ask(now, source, &known);
        }
        // Answers for one host alone never leave the link.
        if !direct.is_empty() && is_near {
            self.answer_directly(link_id, source, message.id, &direct, &known, outbox);
        }
    }

    /// What a question asks for of ours: its type, with all types that we never have as one. `None`: nothing.
    fn answerable(&self, question: &Question) -> Option<u16> {
        let kind = question.kind;
        let is_pointer = matches!(kind, PTR | ANY);
        match self.owners.get(&question.name) {
            Some(Owner::Pointers(_)) => is_pointer.then_some(PTR),
            Some(Owner::Instance(_)) => Some(if matches!(kind, SRV | TXT | ANY) { kind } else { NSEC }),
            Some(Owner::Host(_)) => Some(if matches!(kind, A | AAAA | ANY) { kind } else { NSEC }),
            None => (is_pointer && question.name == *TYPES).then_some(PTR),
        }
    }

    /// Records of ours that the answer section of a query lists with half of their time left (RFC 6762 §7.1).
    fn known_answers(&self, link_id: LinkId, message: &Message) -> HashSet<RecordId> {
        message.answers.iter().filter_map(|record| self.known_answer(link_id, record)).collect()
    }

    fn known_answer(&self, link_id: LinkId, record: &Record) -> Option<RecordId> {
        let ids = match (&record.data, self.owners.get(&record.name)) {
            (Data::Ptr(target), Some(Owner::Pointers(entries))) => {
                let Some(Owner::Instance(id)) = self.owners.get(target) else { return None };
                RecordId::Of(*id, Kind::Pointer(*entries.get(id)?))
            }
            (Data::Ptr(target), None) if record.name == *TYPES => RecordId::Type(target.clone()),
            (Data::Srv { .. }, Some(Owner::Instance(id))) => RecordId::Of(*id, Kind::Srv),
            (Data::Txt(_), Some(Owner::Instance(id))) => RecordId::Of(*id, Kind::Txt),
            (Data::A(ip), Some(Owner::Host(id))) => RecordId::Of(*id, Kind::Address((*ip).into())),
            (Data::Aaaa(ip), Some(Owner::Host(id))) => RecordId::Of(*id, Kind::Address((*ip).into())),
            _ => return None,
        };
        let ours = self.record_of(&ids, link_id)?;
        (ours.data == record.data && record.ttl >= ours.ttl / 2).then_some(ids)
    }

    fn ask_later(&mut self, now: Instant, link_id: LinkId, question: (Name, u16), asked: Asked) {
        let is_shared = question.1 == PTR;
        let due = if asked.is_truncated {
            now + self.random.within(TRUNCATED_DELAY.0, TRUNCATED_DELAY.1)
        } else if is_shared {
            now + self.random.within(SHARED_DELAY.0, SHARED_DELAY.1)
        } else {
            now
        };
        let Some(on_link) = self.links.get_mut(&link_id) else { return };
        let pending = on_link.pending.entry(question).or_insert_with(|| Pending {
            due,
            asked_at: now,
            askers: Some(Vec::new()),
            sent: HashSet::new(),
            is_probe: false,
        });
        pending.due = pending.due.min(due);
        pending.asked_again(now, asked);
    }

    /// The records that answer a question on a link, known ones included.
    fn found(&self, link_id: LinkId, name: &Name, kind: u16) -> Vec<RecordId> {
        let Some(on_link) = self.links.get(&link_id) else { return Vec::new() };
        let is_ours = |id: &EntryId| {
            self.entries.get(id).and_then(|entry| entry.presences.get(&link_id)).is_some_and(|p| p.is_ours())
        };
        match self.owners.get(name) {
            Some(Owner::Pointers(entries)) => {
                let ours = entries.iter().filter(|(id, _)| is_ours(id));
                ours.map(|(id, place)| RecordId::Of(*id, Kind::Pointer(*place))).collect()
            }
            Some(Owner::Instance(id)) if is_ours(id) => {
                let kinds: &[Kind] = match kind {
                    SRV => &[Kind::Srv],
                    TXT => &[Kind::Txt],
                    ANY => &[Kind::Srv, Kind::Txt],
                    _ => &[Kind::NoMoreOfInstance],
                };
                kinds.iter().map(|kind| RecordId::Of(*id, *kind)).collect()
            }
            Some(Owner::Host(id)) if is_ours(id) => {
                let Some(entry) = self.entries.get(id) else { return Vec::new() };
                let is_asked = |found: &Kind| match found {
                    Kind::Address(ip) => kind == ANY || kind == if ip.is_ipv4() { A } else { AAAA },
                    _ => false,
                };
                let mut found: Vec<Kind> = entry.kinds(&on_link.link).into_iter().filter(is_asked).collect();
                if found.is_empty() {
                    found.push(Kind::NoMoreOfHost);
                }
                found.into_iter().map(|kind| RecordId::Of(*id, kind)).collect()
            }
            Some(Owner::Instance(_) | Owner::Host(_)) => Vec::new(),
            // It was asked for while it was ours.
            None if *name != *TYPES => Vec::new(),
            None => {
                let types = self.owners.iter().filter_map(|(name, owner)| match owner {
                    Owner::Pointers(entries) => entries
                        .iter()
                        .any(|(id, place)| *place == 0 && is_ours(id))
                        .then(|| RecordId::Type(name.clone())),
                    Owner::Instance(_) | Owner::Host(_) => None,
                });
                types.collect()
            }
        }
    }

    fn record_of(&self, id: &RecordId, link_id: LinkId) -> Option<Record> {
        match id {
            RecordId::Type(name) => Some(type_record(name)),
            RecordId::Of(entry, kind) => {
                Some(self.entries.get(entry)?.record(*kind, &self.links.get(&link_id)?.link))
            }
        }
    }

    fn multicast_at(&self, id: &RecordId, link_id: LinkId) -> Option<Instant> {
        match id {
            RecordId::Type(name) => self.links.get(&link_id)?.types_multicast.get(name).copied(),
            RecordId::Of(entry, kind) => {
                self.entries.get(entry)?.presences.get(&link_id)?.multicast_at(*kind)
            }
        }
    }

    fn set_multicast(&mut self, id: &RecordId, link_id: LinkId, now: Instant) {
        match id {
            RecordId::Type(name) => {
                if let Some(on_link) = self.links.get_mut(&link_id) {
                    on_link.types_multicast.insert(name.clone(), now);
                }
            }
            RecordId::Of(entry, kind) => {
                let entry = self.entries.get_mut(entry);
                if let Some(presence) = entry.and_then(|entry| entry.presences.get_mut(&link_id)) {
                    presence.set_multicast(*kind, now);
                }
            }
        }
    }

    /// Whether everybody was sent the answer within a quarter of its time to live (RFC 6762 §5.4), and it is short.
    fn was_multicast_lately(&self, now: Instant, link_id: LinkId, name: &Name, kind: u16) -> bool {
        let found = self.found(link_id, name, kind);
        let is_late = |id: &RecordId| {
            let lately = Duration::from_secs(u64::from(id.ttl() / 4));
            self.multicast_at(id, link_id).is_some_and(|at| at + lately > now)
        };
        found.len() <= UNICAST_RECORDS_MAX && found.iter().all(is_late)
    }

    /// The record with what comes beside it.
    fn group(
        &self,
        id: &RecordId,
        link: &Link,
        is_wanted: impl Fn(&RecordId) -> bool,
    ) -> (Message, Vec<RecordId>) {
        let mut message = Message::default();
        let mut beside = Vec::new();
        match id {
            RecordId::Type(name) => message.answers.push(type_record(name)),
            RecordId::Of(entry_id, kind) => {
                let Some(entry) = self.entries.get(entry_id) else { return (message, beside) };
                message.answers.push(entry.record(*kind, link));
                for kind in entry.additional_kinds(*kind, link) {
                    let id = RecordId::Of(*entry_id, kind);
                    if is_wanted(&id) {
                        message.additionals.push(entry.record(kind, link));
                        beside.push(id);
                    }
                }
            }
        }
        (message, beside)
    }

    /// Answers one host: a plain DNS resolver (RFC 6762 §6.7), or one that asked for it (§5.4).
    fn answer_directly(
        &self,
        link_id: LinkId,
        source: SocketAddr,
        id: u16,
        asked: &[(&Question, u16)],
        known: &HashSet<RecordId>,
        outbox: &mut Outbox,
    ) {
        let Some(link) = self.links.get(&link_id).map(|on_link| &on_link.link) else { return };
        let mut found: Vec<RecordId> = Vec::new();
        for (question, kind) in asked {
            found.extend(self.found(link_id, &question.name, *kind));
        }
        found.retain(|record| !known.contains(record));
        found.truncate(UNICAST_RECORDS_MAX);
        if found.is_empty() {
            return;
        }
        let answered: HashSet<&RecordId> = found.iter().collect();
        if source.port() != self.port {
            let questions = asked.iter().map(|(question, _)| (*question).clone()).collect();
            let mut reply = Message { id, is_response: true, questions, ..Message::default() };
            for record in &found {
                let (group, _) = self.group(record, link, |beside| !answered.contains(beside));
                let before = (reply.answers.len(), reply.additionals.len());
                reply.answers.extend(group.answers.into_iter().map(legacy));
                reply.additionals.extend(group.additionals.into_iter().map(legacy));
                if reply.write_within(PACKET_BYTES).is_none() {
                    reply.answers.truncate(before.0.max(1));
                    reply.additionals.truncate(before.1);
                    reply.is_truncated = before.0 > 0;
                    break;
                }
            }
            return outbox.unicast(link_id, source, reply.write());
        }
        let mut packer = Packer::responses();
        for record in &found {
            packer.add(self.group(record, link, |beside| !answered.contains(beside)).0, None);
        }
        packer.finish().into_iter().for_each(|packet| outbox.unicast(link_id, source, Some(packet.bytes)));
    }

    /// Sends the answers whose time has come to everybody. A record that was sent within the last second is sent when that
    /// is over, unless it was sent after it was asked for (RFC 6762 §6).
    pub(super) fn answer_pending(&mut self, now: Instant, outbox: &mut Outbox) {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        for link_id in links {
            let Some(on_link) = self.links.get_mut(&link_id) else { continue };
            let is_due = |pending: &Pending| pending.due <= now;
            if outbox.is_crowded(link_id) {
                let due = on_link.pending.values_mut().filter(|pending| is_due(pending));
                due.for_each(|pending| pending.due = now + CROWDED_DELAY);
                continue;
            }
            let due: Vec<(Name, u16)> = on_link
                .pending
                .iter()
                .filter(|(_, pending)| is_due(pending))
                .map(|(question, _)| question.clone())
                .collect();
            if due.is_empty() {
                continue;
            }
            let mut packer = Packer::responses();
            let mut sent = HashSet::new();
            for question in due {
                let Some(on_link) = self.links.get_mut(&link_id) else { break };
                let Some(pending) = on_link.pending.remove(&question) else { continue };
                self.answer_one(now, link_id, question, pending, &mut sent, &mut packer);
            }
            sent.iter().for_each(|record| self.set_multicast(record, link_id, now));
            if let Some(on_link) = self.links.get_mut(&link_id) {
                if on_link.pending.is_empty() {
                    on_link.known.clear();
                } else {
                    on_link.known.forget_answered(now);
                }
            }
            outbox.multicast(link_id, packer.finish());
        }
    }

    fn answer_one(
        &mut self,
        now: Instant,
        link_id: LinkId,
        question: (Name, u16),
        mut pending: Pending,
        sent: &mut HashSet<RecordId>,
        packer: &mut Packer,
    ) {
        let mut later: Option<Instant> = None;
        let rest = if pending.is_probe { DEFEND_AGAIN_AFTER } else { SECOND };
        for record in self.found(link_id, &question.0, question.1) {
            let Some(on_link) = self.links.get(&link_id) else { return };
            let is_known = pending.is_known(&on_link.known, &record);
            if is_known || pending.sent.contains(&record) || sent.contains(&record) {
                continue;
            }
            let last = self.multicast_at(&record, link_id);
            if last.is_some_and(|at| at >= pending.asked_at) {
                continue;
            }
            if let Some(free_at) = last.map(|at| at + rest).filter(|free_at| *free_at > now) {
                later = Some(later.map_or(free_at, |later| later.min(free_at)));
                continue;
            }
            let is_fresh = |beside: &RecordId| {
                let last = self.multicast_at(beside, link_id);
                !sent.contains(beside) && last.is_none_or(|at| at + SECOND <= now)
            };
            let (group, beside) = self.group(&record, &on_link.link, is_fresh);
            packer.add(group, None);
            sent.extend(beside);
            pending.sent.insert(record.clone());
            sent.insert(record);
        }
        if let (Some(later), Some(on_link)) = (later, self.links.get_mut(&link_id)) {
            pending.due = later;
            on_link.pending.insert(question, pending);
        }
    }
}

/// As a plain DNS resolver takes it.
fn legacy(mut record: Record) -> Record {
    (record.is_unique, record.ttl) = (false, record.ttl.min(LEGACY_TTL_MAX));
    record
}
