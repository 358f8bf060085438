//! Others who use our names (RFC 6762 §8.1, §8.2, §9): who yields, under which name it goes on, and how often. Others who
//! say goodbye for what is ours are corrected (§10.1), once a second however often they say it.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::entry::{Entry, EntryId, Kind, Lost, Names, Phase};
use super::{ANNOUNCEMENTS, Owner, Responder};
use crate::clock::Instant;
use crate::link::LinkId;
use crate::outbox::Outbox;
use crate::service::{next_host, next_name};
use crate::wire::{Data, Message, Name, Record};

/// Conflicts of late, which decide how soon the next name is tried.
#[derive(Debug, Default)]
pub(super) struct Contests {
    recent: VecDeque<Instant>,
    goodbyes: Logged,
    conflicts: Logged,
}

/// Something that others do as often as they like, and that is logged once a minute.
#[derive(Debug, Default)]
struct Logged {
    at: Option<Instant>,
    /// Since then.
    times: u64,
}

/// RFC 6762 §8.1: after so many conflicts within so long, at least this passes before each further try, until a name is
/// ours.
const CONFLICTS_MAX: usize = 15;
const CONFLICTS_WITHIN: Duration = Duration::from_secs(10);
const CONTESTED_DELAY: Duration = Duration::from_secs(5);
/// RFC 6762 §8.2: who loses a simultaneous probe waits for the winner to announce.
const YIELD_FOR: Duration = Duration::from_secs(1);
const LOG_EVERY: Duration = Duration::from_secs(60);

impl Logged {
    /// How often it happened since it was logged last, if it is time to log it again.
    fn times(&mut self, now: Instant) -> Option<u64> {
        self.times += 1;
        self.at.is_none_or(|at| at + LOG_EVERY <= now).then(|| {
            self.at = Some(now);
            core::mem::take(&mut self.times)
        })
    }
}

impl Contests {
    /// One more, and how long the next try of the service that met it has to wait. A service that has to wait once waits
    /// each time, however rare conflicts have become by that, until a name is its own.
    fn count(&mut self, now: Instant, entry: &mut Entry) -> Duration {
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|at| *at + CONFLICTS_WITHIN <= now) {
            self.recent.pop_front();
        }
        // The newest count: they end last.
        while self.recent.len() > CONFLICTS_MAX {
            self.recent.pop_front();
        }
        entry.is_contested |= self.recent.len() >= CONFLICTS_MAX;
        if entry.is_contested || entry.names_lost as usize >= CONFLICTS_MAX {
            CONTESTED_DELAY
        } else {
            Duration::ZERO
        }
    }
}

impl Responder {
    /// Takes in a packet. `is_own`: it came from here, over another interface perhaps.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        link: LinkId,
        source: SocketAddr,
        message: &Message,
        is_own: bool,
        outbox: &mut Outbox,
    ) {
        if message.is_response {
            if !is_own {
                let mut in_conflict = HashSet::new();
                for record in message.answers.iter().chain(&message.additionals) {
                    self.hear(now, link, record, &mut in_conflict);
                }
            }
            return;
        }
        if !is_own {
            self.compare_probes(now, link, message);
        }
        self.query(now, link, source, message, outbox);
    }

    /// Another host says something of a name. If the name is ours, that is a conflict, or a mistake to be corrected. The
    /// records of one packet are one conflict: the first has us probe, and the second must not take that for a lost probe.
    fn hear(&mut self, now: Instant, link: LinkId, record: &Record, in_conflict: &mut HashSet<EntryId>) {
        let id = match (self.owners.get(&record.name), &record.data) {
            (Some(Owner::Instance(_) | Owner::Host(_)), Data::Ptr(_) | Data::Nsec { .. }) => return,
            (Some(Owner::Instance(id) | Owner::Host(id)), _) => *id,
            (Some(Owner::Pointers(entries)), Data::Ptr(target)) => match self.owners.get(target) {
                Some(Owner::Instance(id)) if entries.contains_key(id) => *id,
                _ => return,
            },
            _ => return,
        };
        let (Some(entry), Some(on_link)) = (self.entries.get(&id), self.links.get(&link)) else { return };
        let Some(presence) = entry.presences.get(&link) else { return };
        let own = |kind: &Kind| entry.record(*kind, &on_link.link);
        let is_same = |own: Record| own.name == record.name && own.data == record.data;
        let same = entry.kinds(&on_link.link).into_iter().find(|kind| is_same(own(kind)));
        match same {
            Some(kind) if record.ttl < kind.ttl() / 2 && presence.is_ours() => {
                self.correct(now, id, link, kind)
            }
            Some(_) => {}
            // It is somebody's farewell to a name that we have since.
            None if record.ttl == 0 => {}
            None if self.is_address_of_ours(&record.data) => {}
            None if !in_conflict.insert(id) => {}
            None => self.conflict(now, id, link, record),
        }
    }

    /// Another interface of this machine may have the same host name with other addresses.
    fn is_address_of_ours(&self, data: &Data) -> bool {
        let ip: IpAddr = match data {
            Data::A(ip) => (*ip).into(),
            Data::Aaaa(ip) => (*ip).into(),
            Data::Ptr(_) | Data::Srv { .. } | Data::Txt(_) | Data::Nsec { .. } => return false,
        };
        self.links.values().any(|on_link| on_link.link.ips().any(|own| own == ip))
    }

    /// Announces again what others no longer believe.
    fn correct(&mut self, now: Instant, id: EntryId, link: LinkId, kind: Kind) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(presence) = entry.presences.get_mut(&link) else { return };
        if !presence.withdrawn.contains(&kind) {
            presence.withdrawn.push(kind);
        }
        if presence.phase != Phase::Settled {
            return;
        }
        let at = presence.free_at(kind, now);
        if let Some(times) = self.contests.goodbyes.times(now) {
            let name = &entry.label;
            tracing::warn!(name, times, "another host withdrew a service of this host; announcing it again");
        }
        self.set_phase(id, link, Phase::Announcing { sent: ANNOUNCEMENTS - 1 }, at);
    }

    /// RFC 6762 §9: a name that was ours is probed for again; one that is probed for is given up.
    fn conflict(&mut self, now: Instant, id: EntryId, link: LinkId, record: &Record) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(phase) = entry.presences.get(&link).map(|presence| presence.phase) else { return };
        let is_host = record.name == entry.names.host;
        match phase {
            Phase::Probing { .. } if entry.leaving.is_some() => {
                let lost = if is_host { Lost::Host } else { Lost::Instance };
                self.leave_the_rest(now, id, link, lost);
            }
            // RFC 6762 §8.1: one name in five seconds. Probing shows whether the next one is taken too; a host that claims
            // names which were never asked for would have us go through them as fast as it sends packets.
            Phase::Probing { sent: 0 } if entry.waits_with_name => {}
            Phase::Probing { .. } => self.rename(now, id, link, is_host),
            Phase::Announcing { .. } | Phase::Settled => {
                entry.last_error = Some(format!("name conflict: another host uses {} too", record.name));
                if let Some(times) = self.contests.conflicts.times(now) {
                    tracing::warn!(name = %record.name, times, "name conflict: another host uses the same name; probing again");
                }
                let delay = self.contests.count(now, entry);
                let at = self.next_probing(now) + delay;
                self.set_phase(id, link, Phase::Probing { sent: 0 }, at);
            }
            Phase::Leaving { .. } => {}
        }
    }

    /// Goes on under the next name, on all links.
    fn rename(&mut self, now: Instant, id: EntryId, lost_on: LinkId, is_host: bool) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let delay = self.contests.count(now, entry);
        let at = self.next_probing(now) + delay;
        let freed = self.drop_names(id);
        if !is_host {
            self.give_up_instance(now, id, lost_on);
        }
        let Some(entry) = self.entries.get_mut(&id) else { return };
        loop {
            if is_host {
                entry.host = next_host(&entry.wanted.host, &entry.host);
            } else {
                entry.label = next_name(&entry.label);
            }
            let Some(names) = Names::new(&entry.wanted, &entry.label, &entry.host) else { break };
            let is_taken = self.owners.contains_key(if is_host { &names.host } else { &names.instance });
            entry.names = names;
            if !is_taken {
                break;
            }
        }
        entry.names_lost += 1;
        entry.waits_with_name = !delay.is_zero();
        entry.announced_on.clear();
        entry.last_error = Some(match entry.names_lost {
            1 => "name conflict: another host has its name; the next one is tried".to_owned(),
            lost => format!("name conflict: other hosts have {lost} names; the next one is tried"),
        });
        let links: Vec<LinkId> = entry.presences.keys().copied().collect();
        self.take_names(id);
        for link in links {
            self.set_phase(id, link, Phase::Probing { sent: 0 }, at);
            // Nothing is to be said under the new name where the link carries it no longer.
            self.follow_link(now, id, link);
        }
        freed.into_iter().for_each(|waiting| self.begin(now, waiting));
    }

    /// RFC 6762 §8.2: of two who probe at once, the one whose records come later in order wins.
    fn compare_probes(&mut self, now: Instant, link: LinkId, message: &Message) {
        // Sorted by name once: a packet may repeat its questions, and all its records may have one name.
        let mut proposed: HashMap<&Name, Vec<&Record>> = HashMap::new();
        for record in &message.authorities {
            proposed.entry(&record.name).or_default().push(record);
        }
        let mut lost = Vec::new();
        for question in &message.questions {
            let Some(theirs) = proposed.remove(&question.name) else { continue };
            let Some(Owner::Instance(id) | Owner::Host(id)) = self.owners.get(&question.name) else {
                continue;
            };
            let (Some(entry), Some(on_link)) = (self.entries.get(id), self.links.get(&link)) else {
                continue;
            };
            let Some(presence) = entry.presences.get(&link) else { continue };
            if !matches!(presence.phase, Phase::Probing { .. }) {
                continue;
            }
            let ours = entry.unique_records(&on_link.link);
            let ours = ours.iter().filter(|record| record.name == question.name);
            if in_order(ours).cmp(&in_order(theirs.into_iter())) == Ordering::Less {
                let until = now + YIELD_FOR;
                // A service that waits for longer, as after many conflicts, goes on waiting.
                lost.push((*id, presence.due.map_or(until, |due| due.max(until))));
            }
        }
        for (id, until) in lost {
            self.set_phase(id, link, Phase::Probing { sent: 0 }, until);
        }
    }
}

fn in_order<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<(u16, Vec<u8>)> {
    let mut ordered: Vec<_> = records.map(|record| (record.data.kind(), record.data.bytes())).collect();
    ordered.sort_unstable();
    ordered
}
