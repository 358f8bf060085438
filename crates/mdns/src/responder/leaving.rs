//! Withdrawals: a goodbye and its repeat on each link, an answer when both have left, and what is owed to hosts behind an
//! interface that was away. While one lasts its names are held: the repeat would withdraw whatever took them.

use core::time::Duration;
use std::collections::BTreeSet;

use super::entry::{Entry, EntryId, Leaving, Lost, Phase};
use super::{Event, NAME_HELD, NOT_CARRIED, Owner, Responder};
use crate::board::Goodbye;
use crate::clock::Instant;
use crate::link::{LinkId, LinkName};
use crate::service::Service;

/// A goodbye that hosts behind some links have not heard.
#[derive(Debug)]
pub(super) struct Owed {
    /// As the network knows it.
    service: Service,
    /// Its host's records are another entry's to speak of.
    is_without_host: bool,
    behind: Behind,
    since: Instant,
}

/// Links behind which hosts may believe in a service still.
#[derive(Debug)]
enum Behind {
    These(BTreeSet<LinkName>),
    /// An earlier process announced it on links that are not known. Its end was said on these.
    AllBut(BTreeSet<LinkName>),
}

/// How the end of a service is said on a link.
#[derive(Clone, Copy)]
enum Ending {
    /// The name is ours on this link.
    AtOnce,
    /// The name may be another host's by now, which probing shows.
    OnceProbed,
    /// Another host has the instance.
    WithoutInstance,
}

/// The repeat of a goodbye follows the first after this.
const REPEAT_AFTER: Duration = Duration::from_millis(120);
const GOODBYES: u8 = 2;
/// A goodbye that the socket did not take is tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Those who wait for a goodbye wait ten seconds; the answer why it was in vain comes before.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// How long the network believes what it heard last (RFC 6762 §10).
pub(super) const REMEMBERED_FOR: Duration = Duration::from_secs(4_500);
const OWED_MAX: usize = 10_000;

impl Behind {
    fn has(&self, link: &LinkName) -> bool {
        match self {
            Self::These(links) => links.contains(link),
            Self::AllBut(links) => !links.contains(link),
        }
    }

    /// The link has nothing to hear any more.
    fn settle(&mut self, link: LinkName) {
        match self {
            Self::These(links) => {
                links.remove(&link);
            }
            Self::AllBut(links) => {
                links.insert(link);
            }
        }
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::These(links) if links.is_empty())
    }
}

impl Responder {
    /// Withdraws what the key stands for, or what an earlier process announced for it.
    pub(crate) fn withdraw(&mut self, now: Instant, key: u128, service: Service, token: u64) {
        self.reported.remove(&key);
        self.events.push_back(Event::Standing(key, None));
        if let Some(id) = self.keys.remove(&key) {
            return self.leave(now, id, Some(token));
        }
        if let Err(unfit) = service.check() {
            return self.answer(token, Goodbye::Unsent(unfit.to_string()));
        }
        let Some(mut entry) = Entry::new(None, service) else { return };
        if let Some(Owner::Instance(holder) | Owner::Host(holder)) = self.owners.get(&entry.names.instance) {
            let holder = *holder;
            return self.join(now, holder, token);
        }
        entry.is_without_host = self.owners.contains_key(&entry.names.host);
        self.away.retain(|_, since| *since + REMEMBERED_FOR > now);
        let missed = self.away.keys().cloned().collect();
        let earlier = Some(BTreeSet::new());
        let leaving = Leaving { token: Some(token), missed, earlier, ..Leaving::default() };
        // Another host may have taken the name since.
        let endings = self.links.keys().map(|link| (*link, Ending::OnceProbed)).collect();
        self.say_for_another(now, entry, leaving, endings);
    }

    /// Another entry has the name: it is announced under it, or is being withdrawn, which answers for both.
    fn join(&mut self, now: Instant, holder: EntryId, token: u64) {
        let leaving = self.entries.get_mut(&holder).and_then(|entry| entry.leaving.as_mut());
        match leaving.filter(|leaving| leaving.token.is_none()) {
            Some(leaving) => {
                leaving.token = Some(token);
                self.overdue.insert((now + ANSWER_WITHIN, holder));
            }
            None => self.answer(token, Goodbye::Unneeded(NAME_HELD.to_owned())),
        }
    }

    /// Takes nothing new, and does not wait for interfaces that are away.
    pub(crate) fn close(&mut self, now: Instant) {
        self.is_closing = true;
        let leaving = self.entries.iter().filter(|(_, entry)| entry.leaving.is_some());
        let leaving: Vec<EntryId> = leaving.map(|(id, _)| *id).collect();
        leaving.into_iter().for_each(|id| self.look_whether_gone(now, id));
    }

    fn answer(&mut self, token: u64, goodbye: Goodbye) {
        self.events.push_back(Event::Withdrawn(token, goodbye));
    }

    /// Begins to withdraw an entry.
    pub(super) fn leave(&mut self, now: Instant, id: EntryId, token: Option<u64>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.key = None;
        let present = entry.presences.keys().filter_map(|link| self.links.get(link));
        let here: BTreeSet<LinkName> = present.map(|on_link| on_link.link.name()).collect();
        let missed = entry.announced_on.difference(&here).cloned().collect();
        let answer_by = token.map(|_| now + ANSWER_WITHIN);
        entry.leaving = Some(Leaving { token, missed, ..Leaving::default() });
        self.overdue.extend(answer_by.map(|at| (at, id)));
        // A name that is being probed for may be another host's: its end is said once it is known to be ours.
        let ours: Vec<LinkId> = entry.links_where_ours().collect();
        ours.into_iter().for_each(|link| self.say_goodbye_on(now, id, link));
        self.look_whether_gone(now, id);
    }

    /// Says goodbye for a service that no entry stands for: on those of these links that carry it.
    fn say_for_another(
        &mut self,
        now: Instant,
        mut entry: Entry,
        leaving: Leaving,
        mut endings: Vec<(LinkId, Ending)>,
    ) {
        endings
            .retain(|(id, _)| self.links.get(id).is_some_and(|on_link| entry.is_carried_by(&on_link.link)));
        if endings.is_empty() && (leaving.missed.is_empty() || leaving.token.is_none()) {
            // Most likely no host believes in it; if one does, the goodbye follows.
            let token = leaving.token;
            self.owe(now, &entry, leaving);
            return token
                .into_iter()
                .for_each(|token| self.answer(token, Goodbye::Unneeded(NOT_CARRIED.to_owned())));
        }
        let answer_by = leaving.token.map(|_| now + ANSWER_WITHIN);
        entry.leaving = Some(leaving);
        let id = self.insert(entry);
        self.overdue.extend(answer_by.map(|at| (at, id)));
        self.take_names(id);
        for (link, ending) in endings {
            match ending {
                Ending::AtOnce => self.say_goodbye_on(now, id, link),
                Ending::OnceProbed => self.probe_on(now, id, link),
                Ending::WithoutInstance => {
                    self.say_goodbye_on(now, id, link);
                    self.set_lost(id, link, Lost::Instance);
                }
            }
        }
    }

    /// Says goodbye for the instance name that an entry gives up, where it was its own. Its host stays.
    pub(super) fn give_up_instance(&mut self, now: Instant, id: EntryId, lost_on: LinkId) {
        let Some(entry) = self.entries.get(&id) else { return };
        let has_subtypes = entry.names.pointers.len() > 1;
        let mut missed = entry.announced_on.clone();
        let mut endings = Vec::new();
        for (link, presence) in &entry.presences {
            let Some(on_link) = self.links.get(link) else { continue };
            let was_announced = missed.remove(&on_link.link.name());
            let ending = match presence.phase {
                _ if *link == lost_on => (was_announced && has_subtypes).then_some(Ending::WithoutInstance),
                Phase::Announcing { .. } | Phase::Settled => Some(Ending::AtOnce),
                Phase::Probing { .. } => was_announced.then_some(Ending::OnceProbed),
                Phase::Leaving { .. } => None,
            };
            endings.extend(ending.map(|ending| (*link, ending)));
        }
        let Some(mut given_up) = Entry::new(None, entry.as_announced()) else { return };
        given_up.is_without_host = true;
        given_up.announced_on = entry.announced_on.clone();
        self.say_for_another(now, given_up, Leaving { missed, ..Leaving::default() }, endings);
    }

    /// A service that is being withdrawn was probed for again, and another host has one of its names. What was announced
    /// under its other names is withdrawn.
    pub(super) fn leave_the_rest(&mut self, now: Instant, id: EntryId, link: LinkId, lost: Lost) {
        self.set_lost(id, link, lost);
        let (Some(entry), Some(on_link)) = (self.entries.get_mut(&id), self.links.get(&link)) else { return };
        let name = on_link.link.name();
        let is_known = entry.may_be_known_on(&name);
        if let Some(leaving) = &mut entry.leaving {
            leaving.settle(name);
        }
        if is_known && !entry.goodbye(&on_link.link).answers.is_empty() {
            return self.say_goodbye_on(now, id, link);
        }
        self.take_off(id, link);
        self.look_whether_gone(now, id);
    }

    fn set_lost(&mut self, id: EntryId, link: LinkId, lost: Lost) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if let Some(presence) = entry.presences.get_mut(&link) {
            presence.lost = Some(lost);
        }
        if let Some(leaving) = &mut entry.leaving {
            leaving.is_lost = true;
        }
    }

    pub(super) fn say_goodbye_on(&mut self, now: Instant, id: EntryId, link: LinkId) {
        self.set_phase(id, link, Phase::Leaving { sent: 0, is_under_way: false }, now);
    }

    /// The socket has taken goodbyes, or has not.
    pub(crate) fn transmitted(&mut self, now: Instant, link: LinkId, goodbyes: &[EntryId], is_sent: bool) {
        for id in goodbyes {
            let Some(entry) = self.entries.get_mut(id) else { continue };
            let Some(presence) = entry.presences.get_mut(&link) else { continue };
            let Phase::Leaving { sent, is_under_way: true } = presence.phase else { continue };
            if is_sent && sent >= GOODBYES {
                let is_whole = presence.lost.is_none();
                if let Some(leaving) = &mut entry.leaving {
                    leaving.is_said |= is_whole;
                    self.links.get(&link).into_iter().for_each(|on_link| leaving.settle(on_link.link.name()));
                }
                self.take_off(*id, link);
                self.look_whether_gone(now, *id);
                self.follow_link(now, *id, link);
                continue;
            }
            let (sent, after) = if is_sent { (sent, REPEAT_AFTER) } else { (sent - 1, RETRY_AFTER) };
            self.set_phase(*id, link, Phase::Leaving { sent, is_under_way: false }, now + after);
        }
    }

    /// Ends a withdrawal that has nothing left to do on any link.
    pub(super) fn look_whether_gone(&mut self, now: Instant, id: EntryId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(leaving) = &mut entry.leaving else { return };
        if !entry.presences.is_empty() {
            return;
        }
        let is_heard = leaving.is_said || leaving.is_lost || leaving.missed.is_empty();
        if !is_heard && self.is_closing {
            let answer = leaving.token.take();
            answer.into_iter().for_each(|token| self.answer(token, Goodbye::Unsent(NOT_CARRIED.to_owned())));
        } else if !is_heard && leaving.token.is_some() {
            // The links on which it was announced are all away: it waits for them as long as its caller does.
            return;
        }
        let freed = self.drop_names(id);
        let Some(mut entry) = self.entries.remove(&id) else { return };
        let Some(leaving) = entry.leaving.take() else { return };
        self.overdue.retain(|(_, overdue)| *overdue != id);
        if let Some(token) = leaving.token {
            self.answer(token, leaving.outcome());
        }
        self.owe(now, &entry, leaving);
        freed.into_iter().for_each(|waiting| self.begin(now, waiting));
    }

    /// Keeps what hosts behind other links have yet to hear.
    fn owe(&mut self, now: Instant, entry: &Entry, leaving: Leaving) {
        let behind = leaving.earlier.map_or(Behind::These(leaving.missed), Behind::AllBut);
        if behind.is_none() || self.owed.len() >= OWED_MAX || self.is_closing {
            return;
        }
        let (service, is_without_host) = (entry.as_announced(), entry.is_without_host);
        self.owed.push(Owed { service, is_without_host, behind, since: leaving.owed_since.unwrap_or(now) });
    }

    /// Says on a link what hosts behind it did not hear. A goodbye that is owed may be late by more than an hour: it is
    /// said where no other host has the name.
    pub(super) fn settle_owed(&mut self, now: Instant, link_id: LinkId) {
        let Some(on_link) = self.links.get(&link_id) else { return };
        let (link, name) = (on_link.link.clone(), on_link.link.name());
        self.owed.retain(|owed| owed.since + REMEMBERED_FOR > now);
        let is_due = |owed: &Owed| owed.behind.has(&name) && link.addresses_of(owed.service.ip).is_some();
        let (due, rest) = core::mem::take(&mut self.owed).into_iter().partition(is_due);
        self.owed = rest;
        let due: Vec<Owed> = due;
        for Owed { service, is_without_host, mut behind, since } in due {
            let Some(mut entry) = Entry::new(None, service) else { continue };
            behind.settle(name.clone());
            if self.owners.contains_key(&entry.names.instance) {
                // Another entry has the name now and is announced under it here.
                self.owed.extend((!behind.is_none()).then_some(Owed {
                    service: entry.wanted,
                    is_without_host,
                    behind,
                    since,
                }));
                continue;
            }
            entry.is_without_host = is_without_host || self.owners.contains_key(&entry.names.host);
            let (missed, earlier) = match behind {
                Behind::These(links) => (links, None),
                // It is settled on this link when it has been said.
                Behind::AllBut(mut links) => {
                    links.remove(&name);
                    (BTreeSet::new(), Some(links))
                }
            };
            let leaving = Leaving { missed, earlier, owed_since: Some(since), ..Leaving::default() };
            self.say_for_another(now, entry, leaving, vec![(link_id, Ending::OnceProbed)]);
        }
    }

    /// Answers those who waited for a goodbye that could not be said yet. It is still said when it can be.
    pub(super) fn answer_overdue(&mut self, now: Instant) {
        while let Some((at, id)) = self.overdue.first().copied()
            && at <= now
        {
            self.overdue.pop_first();
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            let is_present = !entry.presences.is_empty();
            let token = entry.leaving.as_mut().and_then(|leaving| leaving.token.take());
            let why = if is_present { "it takes too long; still trying" } else { NOT_CARRIED };
            token.into_iter().for_each(|token| self.answer(token, Goodbye::Unsent(why.to_owned())));
            // It is owed from now on, and its names are free.
            self.look_whether_gone(now, id);
        }
    }
}
