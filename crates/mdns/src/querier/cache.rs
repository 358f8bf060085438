//! Records that were heard, until they run out (RFC 6762 §5.2, §10). A record is asked for again when four fifths of its
//! time are over, and three times more; a goodbye leaves it one second. Records are bounded by number for each name, and all
//! together by the bytes that they take, here and where they are read.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crate::clock::Instant;
use crate::link::LinkId;
use crate::random::Random;
use crate::wire::{A, AAAA, Data, Name, PTR, Record};

pub(super) struct Cache {
    by_name: HashMap<Name, Records>,
    /// When a name is looked at; one for each name, with a number of its own.
    timers: BTreeMap<(Instant, u64), Name>,
    timers_ever: u64,
    /// The weight of all records.
    bytes: usize,
    random: Random,
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
    /// Hosts that heard it at the same moment must not ask at the same moment (RFC 6762 §5.2).
    spread: Duration,
}

/// What became of a record that was heard.
pub(super) enum Stored {
    /// It says nothing new, or there is no room for it.
    Nothing,
    New,
    /// It is new and has the place of the one that was heard longest ago.
    Instead(Data),
}

impl Stored {
    pub(super) fn is_new(&self) -> bool {
        matches!(self, Self::New | Self::Instead(_))
    }
}

/// Refreshes that may be asked for now.
pub(super) struct Refreshes {
    /// Of other records than pointers.
    pub(super) left: u32,
    /// Whether any question may be asked.
    pub(super) may_ask: bool,
    /// When those that may not be asked for now are looked at again.
    pub(super) otherwise_at: Instant,
}

/// What is due of a name.
pub(super) enum Look {
    Refresh(Name, u16),
    Expired(Name, Data),
}

/// Pointers of one name that are kept.
const POINTERS_MAX: usize = 10_000;
/// Servers, and texts, of one name and link that are kept. A service has one.
const SERVERS_MAX: usize = 4;
/// Addresses of one name, family and link that are kept.
const ADDRESSES_MAX: usize = 32;
/// What a record takes beside its name and data.
const RECORD_BYTES: usize = 256;
/// What each string of a text takes when it is read.
const STRING_BYTES: usize = 64;
/// Strings of a text that are read.
pub(super) const STRINGS_MAX: usize = 128;
/// All records together: those of ten thousand services on one link.
pub(crate) const BYTES_MAX: usize = 32 << 20;
/// Nothing is believed for longer without being heard again.
const TTL_MAX: u32 = 86_400;
const SECOND: Duration = Duration::from_secs(1);
/// In twentieths of the time to live.
const ASK_AT: [u32; 4] = [16, 17, 18, 19];

impl Heard {
    fn next_at(&self) -> Instant {
        let twentieths = usize::try_from(self.asked).ok().and_then(|asked| ASK_AT.get(asked));
        let refresh = twentieths.map(|twentieths| self.at + self.ttl * *twentieths / 20 + self.spread);
        refresh.map_or(self.expires, |refresh| refresh.min(self.expires))
    }
}

/// What a record takes of the bytes that all may take.
fn weight(name: &Name, data: &Data) -> usize {
    let bytes = match data {
        Data::A(_) | Data::Aaaa(_) | Data::Nsec { .. } => 0,
        Data::Ptr(target) | Data::Srv { target, .. } => target.len(),
        Data::Txt(strings) => strings.len() + STRING_BYTES * text_strings(strings).count(),
    };
    RECORD_BYTES + name.len() + bytes
}

/// The strings of a TXT record that are read.
pub(super) fn text_strings(strings: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = strings;
    let next = core::iter::from_fn(move || {
        let (&length, tail) = rest.split_first()?;
        let (string, tail) = tail.split_at_checked(usize::from(length))?;
        rest = tail;
        Some(string)
    });
    next.take(STRINGS_MAX)
}

impl Cache {
    pub(super) fn new(random: Random) -> Self {
        Self { by_name: HashMap::new(), timers: BTreeMap::new(), timers_ever: 0, bytes: 0, random }
    }

    /// Keeps a record.
    pub(super) fn store(&mut self, now: Instant, link: LinkId, record: &Record) -> Stored {
        let kind = record.data.kind();
        // Pointers are of many hosts, whatever one of them says.
        if record.is_unique && kind != PTR {
            self.flush_others(now, link, record);
        }
        let is_goodbye = record.ttl == 0;
        let ttl = if is_goodbye { SECOND } else { Duration::from_secs(record.ttl.min(TTL_MAX).into()) };
        let asked = if is_goodbye { u32::MAX } else { 0 };
        let spread = self.random.within(Duration::ZERO, ttl / 50);
        let heard = Heard { at: now, ttl, expires: now + ttl, asked, spread };
        let next = heard.next_at();
        let key = (record.data.clone(), link);
        if let Some(known) = self.by_name.get_mut(&record.name).and_then(|entry| entry.records.get_mut(&key))
        {
            *known = heard;
            self.arm(&record.name, next);
            return Stored::Nothing;
        }
        let added = weight(&record.name, &record.data);
        if is_goodbye || self.bytes + added > BYTES_MAX {
            return Stored::Nothing;
        }
        let entry = self.by_name.entry(record.name.clone()).or_default();
        let of_kind = entry.records.iter().filter(|((data, on), _)| data.kind() == kind && *on == link);
        let mut oldest = None;
        match kind {
            PTR if entry.records.len() >= POINTERS_MAX => return Stored::Nothing,
            PTR => {}
            A | AAAA if of_kind.clone().count() >= ADDRESSES_MAX => return Stored::Nothing,
            A | AAAA => {}
            // Of servers and texts the newest counts.
            _ if of_kind.clone().count() >= SERVERS_MAX => {
                oldest = of_kind.min_by_key(|(_, heard)| heard.at).map(|(key, _)| key.clone());
            }
            _ => {}
        }
        entry.records.insert(key, heard);
        self.bytes += added;
        let gone = oldest.inspect(|oldest| _ = entry.records.remove(oldest));
        self.arm(&record.name, next);
        let Some((gone, _)) = gone else { return Stored::New };
        self.bytes -= weight(&record.name, &gone);
        Stored::Instead(gone)
    }

    /// All of this name and type comes from one host: what it did not repeat is over (RFC 6762 §10.2).
    fn flush_others(&mut self, now: Instant, link: LinkId, record: &Record) {
        let Some(entry) = self.by_name.get_mut(&record.name) else { return };
        let mut is_any = false;
        for ((data, on), heard) in &mut entry.records {
            let is_other = *data != record.data && data.kind() == record.data.kind() && *on == link;
            if is_other && heard.at + SECOND < now {
                heard.expires = heard.expires.min(now + SECOND);
                is_any = true;
            }
        }
        if is_any {
            self.arm(&record.name, now + SECOND);
        }
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

    /// The weight of all records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn records(&self) -> usize {
        let records =
            || self.by_name.iter().flat_map(|(name, entry)| entry.records.keys().map(move |key| (name, key)));
        assert_eq!(self.bytes, records().map(|(name, (data, _))| weight(name, data)).sum::<usize>());
        records().count()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// What has run out, and what will soon. A refresh that may not be asked for now is put off.
    pub(super) fn due(&mut self, now: Instant, mut refreshes: Refreshes) -> Vec<Look> {
        let mut looks = Vec::new();
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            let name = first.remove();
            let Some(entry) = self.by_name.get_mut(&name) else { continue };
            entry.timer = None;
            let mut kinds: Vec<u16> = Vec::new();
            let mut next: Option<Instant> = None;
            let bytes = &mut self.bytes;
            entry.records.retain(|(data, _), heard| {
                if heard.expires <= now {
                    *bytes -= weight(&name, data);
                    looks.push(Look::Expired(name.clone(), data.clone()));
                    return false;
                }
                let kind = data.kind();
                let mut at = heard.next_at();
                if at <= now {
                    let is_asked = kinds.contains(&kind);
                    // One question for all pointers of a name.
                    if is_asked || refreshes.may_ask && (kind == PTR || refreshes.left > 0) {
                        if !is_asked {
                            kinds.push(kind);
                            refreshes.left -= u32::from(kind != PTR);
                        }
                        // One that was put off counts for those that were due meanwhile.
                        while at <= now {
                            heard.asked += 1;
                            at = heard.next_at();
                        }
                    } else {
                        at = refreshes.otherwise_at.min(heard.expires);
                    }
                }
                next = Some(next.map_or(at, |next| next.min(at)));
                true
            });
            looks.extend(kinds.into_iter().map(|kind| Look::Refresh(name.clone(), kind)));
            match next {
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
    pub(super) fn known_pointers(
        &self,
        now: Instant,
        name: &Name,
        on: LinkId,
    ) -> impl Iterator<Item = Record> {
        let records = self.by_name.get(name).into_iter().flat_map(|entry| &entry.records);
        records.filter_map(move |((data, link), heard)| {
            let left = heard.expires.saturating_duration_since(now);
            let is_known = *link == on && left > heard.ttl / 2 && heard.asked != u32::MAX;
            let ttl = u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
            is_known.then(|| Record { name: name.clone(), is_unique: false, ttl, data: data.clone() })
        })
    }

    pub(super) fn forget_name(&mut self, name: &Name) -> Vec<Data> {
        let Some(entry) = self.by_name.remove(name) else { return Vec::new() };
        if let Some(timer) = entry.timer {
            self.timers.remove(&timer);
        }
        let gone: Vec<Data> = entry.records.into_keys().map(|(data, _)| data).collect();
        self.bytes -= gone.iter().map(|data| weight(name, data)).sum::<usize>();
        gone
    }

    pub(super) fn forget_link(&mut self, link: LinkId) -> Vec<(Name, Data)> {
        let mut gone = Vec::new();
        for (name, entry) in &mut self.by_name {
            entry.records.retain(|(data, on), _| {
                if *on == link {
                    self.bytes -= weight(name, data);
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
