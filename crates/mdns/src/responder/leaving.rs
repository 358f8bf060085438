//! Withdrawals: a goodbye and its repeat on each link, an answer when both have left, and what is owed to hosts behind an
//! interface that was away. While one lasts its names are held: the repeat would withdraw whatever took them.

use core::time::Duration;
use std::collections::BTreeSet;

use super::entry::{Entry, EntryId, Leaving, Lost, Phase};
use super::{Event, NOT_CARRIED, Responder};
use crate::board::Goodbye;
use crate::clock::Instant;
use crate::link::LinkId;
use crate::service::Service;

/// A goodbye that hosts behind an interface have not heard.
#[derive(Debug)]
pub(super) struct Owed {
    /// As the network knows it.
    service: Service,
    /// `None`: which interfaces it was announced on is not known; an earlier process did it.
    interfaces: Option<BTreeSet<String>>,
    since: Instant,
}

/// How the end of a service is said on a link.
#[derive(Clone, Copy)]
enum Ending {
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
const REMEMBERED_FOR: Duration = Duration::from_secs(4_500);
const OWED_MAX: usize = 10_000;

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
        let Some(entry) = Entry::new(None, service) else { return };
        // Another entry has the name now: it is announced under it, or is being withdrawn.
        if self.owners.contains_key(&entry.names.instance) {
            return self.answer(token, Goodbye::Sent);
        }
        let endings = self.links.keys().map(|link| (*link, Ending::AtOnce)).collect();
        self.say_for_another(now, entry, Some(token), endings);
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
        let is_here = |interface: &String| {
            let present = entry.presences.keys().filter_map(|link| self.links.get(link));
            present.into_iter().any(|on_link| on_link.link.interface == *interface)
        };
        let missed = entry.announced_on.iter().filter(|interface| !is_here(interface)).cloned().collect();
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
        token: Option<u64>,
        mut endings: Vec<(LinkId, Ending)>,
    ) {
        endings.retain(|(id, _)| {
            self.links.get(id).is_some_and(|on_link| on_link.link.addresses_of(entry.wanted.ip).is_some())
        });
        self.away.retain(|_, since| *since + REMEMBERED_FOR > now);
        let missed: BTreeSet<String> = self.away.keys().cloned().collect();
        if endings.is_empty() && missed.is_empty() {
            // Most likely nobody believes in it; if somebody does, the goodbye follows.
            self.owe(Owed { service: entry.wanted, interfaces: None, since: now });
            return token.into_iter().for_each(|token| self.answer(token, Goodbye::Sent));
        }
        let answer_by = token.map(|_| now + ANSWER_WITHIN);
        entry.leaving = Some(Leaving { token, missed, ..Leaving::default() });
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
        let ending = |link: LinkId, phase: Phase| {
            let interface = &self.links.get(&link)?.link.interface;
            let was_announced = entry.announced_on.contains(interface);
            match phase {
                _ if link == lost_on => (was_announced && has_subtypes).then_some(Ending::WithoutInstance),
                Phase::Announcing { .. } | Phase::Settled => Some(Ending::AtOnce),
                Phase::Probing { .. } => was_announced.then_some(Ending::OnceProbed),
                Phase::Leaving { .. } => None,
            }
        };
        let presences = entry.presences.iter();
        let endings: Vec<(LinkId, Ending)> =
            presences.filter_map(|(link, presence)| Some((*link, ending(*link, presence.phase)?))).collect();
        let given_up = Entry::new(None, entry.as_announced());
        if let Some(mut given_up) = given_up.filter(|_| !endings.is_empty()) {
            given_up.is_without_host = true;
            given_up.announced_on = entry.announced_on.clone();
            self.say_for_another(now, given_up, None, endings);
        }
    }

    /// A service that is being withdrawn was probed for again, and another host has one of its names. What was announced
    /// under its other names is withdrawn.
    pub(super) fn leave_the_rest(&mut self, now: Instant, id: EntryId, link: LinkId, lost: Lost) {
        self.set_lost(id, link, lost);
        let (Some(entry), Some(on_link)) = (self.entries.get_mut(&id), self.links.get(&link)) else { return };
        let was_announced = entry.announced_on.contains(&on_link.link.interface);
        if was_announced && !entry.goodbye(&on_link.link).answers.is_empty() {
            return self.say_goodbye_on(now, id, link);
        }
        self.take_off(id, link);
        self.look_whether_gone(now, id);
    }

    fn set_lost(&mut self, id: EntryId, link: LinkId, lost: Lost) {
        let entry = self.entries.get_mut(&id);
        if let Some(presence) = entry.and_then(|entry| entry.presences.get_mut(&link)) {
            presence.lost = Some(lost);
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
                if let Some(leaving) = &mut entry.leaving {
                    leaving.is_said = true;
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
        let is_heard = leaving.is_said || leaving.missed.is_empty();
        if !is_heard && self.is_closing {
            let answer = leaving.token.take();
            answer.into_iter().for_each(|token| self.answer(token, Goodbye::Unsent(NOT_CARRIED.to_owned())));
        } else if !is_heard && self.owed.len() < OWED_MAX {
            // Those who were told of it are all away: it waits for them.
            return;
        }
        let freed = self.drop_names(id);
        let Some(mut entry) = self.entries.remove(&id) else { return };
        let Some(leaving) = entry.leaving.take() else { return };
        self.overdue.retain(|(_, overdue)| *overdue != id);
        if let Some(token) = leaving.token {
            self.answer(token, Goodbye::Sent);
        }
        if !leaving.missed.is_empty() {
            self.owe(Owed { service: entry.as_announced(), interfaces: Some(leaving.missed), since: now });
        }
        freed.into_iter().for_each(|waiting| self.begin(now, waiting));
    }

    fn owe(&mut self, owed: Owed) {
        if self.owed.len() < OWED_MAX && !self.is_closing {
            self.owed.push(owed);
        }
    }

    /// Says on a link what those behind it did not hear.
    pub(super) fn settle_owed(&mut self, now: Instant, link: LinkId, interface: &str) {
        self.owed.retain(|owed| owed.since + REMEMBERED_FOR > now);
        let is_due = |owed: &mut Owed| match &mut owed.interfaces {
            None => true,
            Some(interfaces) => interfaces.remove(interface),
        };
        let mut due = Vec::new();
        for owed in &mut self.owed {
            if is_due(owed) {
                due.push(owed.service.clone());
            }
        }
        self.owed.retain(|owed| owed.interfaces.as_ref().is_some_and(|interfaces| !interfaces.is_empty()));
        for service in due {
            // Another entry has the name now and is announced under it.
            let entry = Entry::new(None, service);
            if let Some(entry) = entry.filter(|entry| !self.owners.contains_key(&entry.names.instance)) {
                self.say_for_another(now, entry, None, vec![(link, Ending::AtOnce)]);
            }
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
        }
    }
}
