//! Records that were heard, until they run out (RFC 6762 §5.2, §10). A record is asked for again when four fifths of its
//! time are over, and three times more; a goodbye leaves it one second.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crate::clock::Instant;
use crate::link::LinkId;
use crate::wire::{Data, Name, Record};

#[derive(Default)]
pub(super) struct Cache {
    by_name: HashMap<Name, Records>,
    /// When a name is looked at; one for each name, with a number of its own.
    timers: BTreeMap<(Instant, u64), Name>,
    timers_ever: u64,
}

#[derive(Default)]
struct Records {
    records: HashMap<(Data, LinkId), Heard>,
    timer: Option<(Instant, u64)>,
}

struct Heard {
    at: Instant,
    ttl: Duration,
    expires: Instant,
    /// How often it was asked for since.
    asked: u32,
}

/// What is due of a name.
pub(super) enum Look {
    Refresh(Name, u16),
    Expired(Name, Data),
}

/// Pointers of one name that are kept.
const POINTERS_MAX: usize = 10_000;
/// Other records of one name that are kept.
const RECORDS_MAX: usize = 64;
/// Nothing is believed for longer without being heard again.
const TTL_MAX: u32 = 86_400;
const SECOND: Duration = Duration::from_secs(1);
/// In twentieths of the time to live.
const ASK_AT: [u32; 4] = [16, 17, 18, 19];

impl Heard {
    fn next_at(&self) -> Instant {
        let twentieths = usize::try_from(self.asked).ok().and_then(|asked| ASK_AT.get(asked));
        let refresh = twentieths.map(|twentieths| self.at + self.ttl * *twentieths / 20);
        refresh.map_or(self.expires, |refresh| refresh.min(self.expires))
    }
}

impl Cache {
    /// Keeps a record. Whether it says something new.
    pub(super) fn store(&mut self, now: Instant, link: LinkId, record: &Record) -> bool {
        let entry = self.by_name.entry(record.name.clone()).or_default();
        if record.is_unique {
            // All of this name and type comes from one host: what it did not repeat is over (RFC 6762 §10.2).
            for ((data, on), heard) in &mut entry.records {
                let is_other = *data != record.data && data.kind() == record.data.kind() && *on == link;
                if is_other && heard.at + SECOND < now {
                    heard.expires = heard.expires.min(now + SECOND);
                }
            }
        }
        let key = (record.data.clone(), link);
        let is_goodbye = record.ttl == 0;
        let ttl = if is_goodbye { SECOND } else { Duration::from_secs(record.ttl.min(TTL_MAX).into()) };
        let heard = Heard { at: now, ttl, expires: now + ttl, asked: if is_goodbye { u32::MAX } else { 0 } };
        let max = if matches!(record.data, Data::Ptr(_)) { POINTERS_MAX } else { RECORDS_MAX };
        let is_new = !entry.records.contains_key(&key);
        if is_new && (is_goodbye || entry.records.len() >= max) {
            return false;
        }
        let next = heard.next_at();
        let next = if record.is_unique { next.min(now + SECOND) } else { next };
        entry.records.insert(key, heard);
        self.arm(&record.name, next);
        is_new
    }

    /// Has a name looked at by then.
    fn arm(&mut self, name: &Name, next: Instant) {
        let Some(entry) = self.by_name.get_mut(name) else { return };
        if entry.timer.is_some_and(|(at, _)| at <= next) {
            return;
        }
        self.timers_ever += 1;
        let timer = (next, self.timers_ever);
        if let Some(later) = entry.timer.replace(timer) {
            self.timers.remove(&later);
        }
        self.timers.insert(timer, name.clone());
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// What has run out, and what will soon.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Look> {
        let mut looks = Vec::new();
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            let name = first.remove();
            let Some(entry) = self.by_name.get_mut(&name) else { continue };
            entry.timer = None;
            entry.records.retain(|(data, _), heard| {
                if heard.expires <= now {
                    looks.push(Look::Expired(name.clone(), data.clone()));
                    return false;
                }
                if heard.next_at() <= now {
                    heard.asked = heard.asked.saturating_add(1);
                    looks.push(Look::Refresh(name.clone(), data.kind()));
                }
                true
            });
            match entry.records.values().map(Heard::next_at).min() {
                Some(next) => self.arm(&name, next),
                None => {
                    self.by_name.remove(&name);
                }
            }
        }
        looks
    }

    /// The record of a type that was heard last.
    pub(super) fn newest(&self, name: &Name, kind: u16) -> Option<&Data> {
        let records = self.by_name.get(name)?.records.iter().filter(|((data, _), _)| data.kind() == kind);
        // Of one moment, always the same.
        records.max_by_key(|((data, link), heard)| (heard.at, data.bytes(), *link)).map(|((data, _), _)| data)
    }

    /// Hosts that the servers of a name are on.
    pub(super) fn targets(&self, name: &Name) -> impl Iterator<Item = &Name> {
        let records = self.by_name.get(name).into_iter().flat_map(|entry| entry.records.keys());
        records.filter_map(|(data, _)| match data {
            Data::Srv { target, .. } => Some(target),
            _ => None,
        })
    }

    pub(super) fn pointers(&self, domain: &Name) -> impl Iterator<Item = &Name> {
        let records = self.by_name.get(domain).into_iter().flat_map(|entry| entry.records.keys());
        records.filter_map(|(data, _)| match data {
            Data::Ptr(target) => Some(target),
            _ => None,
        })
    }

    pub(super) fn addresses(&self, host: &Name) -> impl Iterator<Item = (IpAddr, LinkId)> {
        let records = self.by_name.get(host).into_iter().flat_map(|entry| entry.records.keys());
        records.filter_map(|(data, link)| match data {
            Data::A(ip) => Some(((*ip).into(), *link)),
            Data::Aaaa(ip) => Some(((*ip).into(), *link)),
            _ => None,
        })
    }

    pub(super) fn has_pointer(
        &self,
        domain: &Name,
        target: &Name,
        mut on: impl Iterator<Item = LinkId>,
    ) -> bool {
        let Some(entry) = self.by_name.get(domain) else { return false };
        on.any(|link| entry.records.contains_key(&(Data::Ptr(target.clone()), link)))
    }

    /// Pointers with more than half of their time left, as a query lists them.
    pub(super) fn known_pointers(&self, now: Instant, name: &Name, on: LinkId) -> Vec<Record> {
        let records = self.by_name.get(name).into_iter().flat_map(|entry| &entry.records);
        let known = records.filter_map(|((data, link), heard)| {
            let left = heard.expires.saturating_duration_since(now);
            let is_known = *link == on && left > heard.ttl / 2 && heard.asked != u32::MAX;
            let ttl = u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
            is_known.then(|| Record { name: name.clone(), is_unique: false, ttl, data: data.clone() })
        });
        known.collect()
    }

    pub(super) fn forget_name(&mut self, name: &Name) -> Vec<Data> {
        let Some(entry) = self.by_name.remove(name) else { return Vec::new() };
        if let Some(timer) = entry.timer {
            self.timers.remove(&timer);
        }
        entry.records.into_keys().map(|(data, _)| data).collect()
    }

    pub(super) fn forget_link(&mut self, link: LinkId) -> Vec<(Name, Data)> {
        let mut gone = Vec::new();
        for (name, entry) in &mut self.by_name {
            entry.records.retain(|(data, on), _| {
                if *on == link {
                    gone.push((name.clone(), data.clone()));
                }
                *on != link
            });
        }
        let empty = self.by_name.iter().filter(|(_, entry)| entry.records.is_empty());
        let empty: Vec<Name> = empty.map(|(name, _)| name.clone()).collect();
        empty.iter().for_each(|name| drop(self.forget_name(name)));
        gone
    }
}
