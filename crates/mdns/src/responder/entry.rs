//! One service as the responder has it: its names, its records, and how far it is on each link.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::SECOND;
use crate::board::{Goodbye, Standing};
use crate::clock::Instant;
use crate::link::{Link, LinkId, LinkName};
use crate::service::Service;
use crate::wire::{A, AAAA, Data, Message, Name, Record, SRV, TXT};

/// Names an entry; never used again.
pub(crate) type EntryId = u64;

/// A service that is to be on the network, is there, or is being withdrawn from it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `None` once another entry has the key, or when none had it.
    pub(crate) key: Option<u128>,
    pub(crate) wanted: Service,
    /// The instance: the wanted name until a conflict.
    pub(crate) label: String,
    /// The host's label: the wanted one until a conflict.
    pub(crate) host: String,
    pub(crate) names: Names,
    txt: Box<[u8]>,
    pub(crate) presences: BTreeMap<LinkId, Presence>,
    /// Links on which it was announced under its present name.
    pub(crate) announced_on: BTreeSet<LinkName>,
    /// How many names were taken by others since it was last announced.
    pub(crate) names_lost: u32,
    /// It met a conflict in a storm of them: each further name waits, until one is its own.
    pub(crate) is_contested: bool,
    /// Its name follows one that was lost in a storm of conflicts, and is not probed for yet: it is not lost before.
    pub(crate) waits_with_name: bool,
    /// It waits for a name that another entry has.
    pub(crate) is_waiting: bool,
    /// Its host's records are another entry's to speak of.
    pub(crate) is_without_host: bool,
    pub(crate) leaving: Option<Leaving>,
    pub(crate) last_error: Option<String>,
}

/// The names a service has on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) instance: Name,
    pub(crate) host: Name,
    /// Of the type, then of the subtypes: names of pointers to the instance.
    pub(crate) pointers: Vec<Name>,
}

/// How far a service is on one link.
#[derive(Debug)]
pub(crate) struct Presence {
    pub(crate) phase: Phase,
    /// When the phase goes on by itself.
    pub(crate) due: Option<Instant>,
    /// When each record was last sent to everybody here.
    pub(crate) multicast: Vec<(Kind, Instant)>,
    /// Records that another host has withdrawn since, to be sent again.
    pub(crate) withdrawn: Vec<Kind>,
    /// When the service was last announced here.
    pub(crate) announced_at: Option<Instant>,
    /// The name that another host has here since.
    pub(crate) lost: Option<Lost>,
}

/// A name that another host has. Its records are that host's to speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Instance,
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Whether the name is free is being asked (RFC 6762 §8.1); so many times it was asked.
    Probing { sent: u8 },
    /// The name is ours; so many times that was announced (§8.3).
    Announcing { sent: u8 },
    /// The name is ours, and all know it.
    Settled,
    /// So many goodbyes were sent; `is_under_way` until the socket has taken the last one.
    Leaving { sent: u8, is_under_way: bool },
}

/// A withdrawal.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// What the answer is known by.
    pub(crate) token: Option<u64>,
    /// A goodbye and its repeat left on some link.
    pub(crate) is_said: bool,
    /// Another host has one of its names on some link: what it did not have was withdrawn there.
    pub(crate) is_lost: bool,
    /// Links that were away: hosts behind them believe in the service still.
    pub(crate) missed: BTreeSet<LinkName>,
    /// An earlier process announced it, on links that are not known: those on which its end is said, or is another
    /// host's to say.
    pub(crate) earlier: Option<BTreeSet<LinkName>>,
    /// Hosts behind some links have not heard it since then, and others have.
    pub(crate) owed_since: Option<Instant>,
}

impl Leaving {
    /// Whether hosts behind a link that has come have yet to hear of it. They will.
    pub(crate) fn takes_on(&mut self, link: &LinkName) -> bool {
        let is_missed = self.missed.remove(link);
        is_missed || self.earlier.as_ref().is_some_and(|settled| !settled.contains(link))
    }

    /// How it went, once nothing is under way on any link and no host that heard of it is behind a link that is away.
    pub(crate) fn outcome(&self) -> Goodbye {
        if self.is_said {
            Goodbye::Sent
        } else if self.is_lost {
            Goodbye::Unneeded("another host has its name".to_owned())
        } else {
            Goodbye::Unneeded("it was not announced".to_owned())
        }
    }

    /// Nothing is left to be said on a link.
    pub(crate) fn settle(&mut self, link: LinkName) {
        if let Some(settled) = &mut self.earlier {
            settled.insert(link);
        }
    }
}

/// One record of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The pointer of this place among the names of pointers.
    Pointer(usize),
    Srv,
    Txt,
    Address(IpAddr),
    /// There is no other record of the instance's name.
    NoMoreOfInstance,
    /// There is no other record of the host's name.
    NoMoreOfHost,
}

/// RFC 6762 §10: records that name a host live shorter.
const HOST_TTL: u32 = 120;
pub(super) const OTHER_TTL: u32 = 4_500;

impl Kind {
    pub(crate) fn ttl(self) -> u32 {
        match self {
            Self::Pointer(_) | Self::Txt => OTHER_TTL,
            Self::Srv | Self::Address(_) | Self::NoMoreOfInstance | Self::NoMoreOfHost => HOST_TTL,
        }
    }
}

impl Names {
    pub(crate) fn new(service: &Service, label: &str, host: &str) -> Option<Self> {
        let type_name = Name::of(&format!("{}.local", service.service_type))?;
        let parent = type_name.child(b"_sub")?;
        let subtypes = service.subtypes.iter().map(|subtype| parent.child(subtype.as_bytes()));
        Some(Self {
            instance: type_name.child(label.as_bytes())?,
            host: Name::of("local")?.child(host.as_bytes())?,
            pointers: core::iter::once(Some(type_name.clone())).chain(subtypes).collect::<Option<_>>()?,
        })
    }
}

impl Presence {
    pub(crate) fn new(phase: Phase, due: Instant) -> Self {
        Self {
            phase,
            due: Some(due),
            multicast: Vec::new(),
            withdrawn: Vec::new(),
            announced_at: None,
            lost: None,
        }
    }

    /// Whether the records are ours here, so that questions for them are answered.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.phase, Phase::Announcing { .. } | Phase::Settled)
    }

    pub(crate) fn multicast_at(&self, kind: Kind) -> Option<Instant> {
        self.multicast.iter().find(|(sent, _)| *sent == kind).map(|(_, at)| *at)
    }

    /// When a record may be sent to everybody again (RFC 6762 §6).
    pub(crate) fn free_at(&self, kind: Kind, now: Instant) -> Instant {
        self.multicast_at(kind).map_or(now, |at| (at + SECOND).max(now))
    }

    pub(crate) fn set_multicast(&mut self, kind: Kind, at: Instant) {
        self.withdrawn.retain(|withdrawn| *withdrawn != kind);
        match self.multicast.iter_mut().find(|(sent, _)| *sent == kind) {
            Some((_, last)) => *last = at,
            None => self.multicast.push((kind, at)),
        }
    }
}

impl Entry {
    /// `None` for a service that was not checked.
    pub(crate) fn new(key: Option<u128>, service: Service) -> Option<Self> {
        let (label, host) = (service.name.clone(), service.host.clone());
        Some(Self {
            key,
            names: Names::new(&service, &label, &host)?,
            txt: strings(&service),
            wanted: service,
            label,
            host,
            presences: BTreeMap::new(),
            announced_on: BTreeSet::new(),
            names_lost: 0,
            is_contested: false,
            waits_with_name: false,
            is_waiting: false,
            is_without_host: false,
            leaving: None,
            last_error: None,
        })
    }

    /// Takes over port, text and address of a service with the same names.
    pub(crate) fn update(&mut self, service: Service) {
        let txt = strings(&service);
        let is_other = |kind: &Kind| match kind {
            Kind::Srv => service.port != self.wanted.port,
            Kind::Txt => txt != self.txt,
            // An address that is another one is another record.
            Kind::Pointer(_) | Kind::Address(_) | Kind::NoMoreOfInstance | Kind::NoMoreOfHost => false,
        };
        self.presences
            .values_mut()
            .for_each(|presence| presence.multicast.retain(|(kind, _)| !is_other(kind)));
        self.txt = txt;
        self.wanted = service;
    }

    pub(crate) fn is_announced(&self) -> bool {
        !self.announced_on.is_empty()
    }

    /// Whether hosts behind a link may believe in it.
    pub(crate) fn may_be_known_on(&self, link: &LinkName) -> bool {
        let is_late = |leaving: &Leaving| leaving.owed_since.is_some() || leaving.earlier.is_some();
        self.announced_on.contains(link) || self.leaving.as_ref().is_some_and(is_late)
    }

    pub(crate) fn standing(&self) -> Standing {
        let advertised = self.is_announced() && !self.presences.is_empty();
        Standing {
            advertised,
            name: advertised.then(|| self.label.clone()),
            last_error: self.last_error.clone(),
        }
    }

    /// The service under the names it has on the network.
    pub(crate) fn as_announced(&self) -> Service {
        Service { name: self.label.clone(), host: self.host.clone(), ..self.wanted.clone() }
    }

    /// Links on which the names are ours.
    pub(crate) fn links_where_ours(&self) -> impl Iterator<Item = LinkId> {
        self.presences.iter().filter(|(_, presence)| presence.is_ours()).map(|(link, _)| *link)
    }

    pub(crate) fn is_carried_by(&self, link: &Link) -> bool {
        link.addresses_of(self.wanted.ip).is_some()
    }

    fn addresses(&self, link: &Link) -> Vec<IpAddr> {
        if self.is_without_host {
            return Vec::new();
        }
        link.addresses_of(self.wanted.ip).unwrap_or_default()
    }

    /// The records of the instance, then those of its host, each as it is on this link.
    pub(crate) fn kinds(&self, link: &Link) -> Vec<Kind> {
        let pointers = (0..self.names.pointers.len()).map(Kind::Pointer);
        let addresses = self.addresses(link).into_iter().map(Kind::Address);
        pointers.chain([Kind::Srv, Kind::Txt]).chain(addresses).collect()
    }

    /// What comes beside a record, unasked (RFC 6763 §12).
    pub(crate) fn additional_kinds(&self, kind: Kind, link: &Link) -> Vec<Kind> {
        let addresses = self.addresses(link).into_iter().map(Kind::Address);
        match kind {
            Kind::Pointer(_) => [Kind::Srv, Kind::Txt].into_iter().chain(addresses).collect(),
            Kind::Srv => addresses.collect(),
            Kind::Address(_) => addresses.filter(|other| *other != kind).collect(),
            Kind::Txt | Kind::NoMoreOfInstance | Kind::NoMoreOfHost => Vec::new(),
        }
    }

    pub(crate) fn record(&self, kind: Kind, link: &Link) -> Record {
        let Names { instance, host, pointers } = &self.names;
        let (name, is_unique, data) = match kind {
            Kind::Pointer(place) => (&pointers[place], false, Data::Ptr(instance.clone())),
            Kind::Srv => {
                let (port, target) = (self.wanted.port, host.clone());
                (instance, true, Data::Srv { priority: 0, weight: 0, port, target })
            }
            Kind::Txt => (instance, true, Data::Txt(self.txt.clone())),
            Kind::Address(IpAddr::V4(ip)) => (host, true, Data::A(ip)),
            Kind::Address(IpAddr::V6(ip)) => (host, true, Data::Aaaa(ip)),
            Kind::NoMoreOfInstance => {
                (instance, true, Data::Nsec { next: instance.clone(), kinds: vec![TXT, SRV] })
            }
            Kind::NoMoreOfHost => {
                let ips = self.addresses(link);
                let has_v4 = ips.iter().any(IpAddr::is_ipv4).then_some(A);
                let has_v6 = ips.iter().any(IpAddr::is_ipv6).then_some(AAAA);
                let kinds = has_v4.into_iter().chain(has_v6).collect();
                (host, true, Data::Nsec { next: host.clone(), kinds })
            }
        };
        Record { name: name.clone(), is_unique, ttl: kind.ttl(), data }
    }

    /// All records, not to be believed any more, but for those of a name that another host has.
    pub(crate) fn goodbye(&self, link: &Link) -> Message {
        let lost = self.presences.get(&link.id).and_then(|presence| presence.lost);
        let is_ours = |kind: &Kind| match lost {
            None => true,
            // The pointer of the type is the same for both hosts. The other host's server and text have replaced ours.
            Some(Lost::Instance) => {
                matches!(kind, Kind::Pointer(place) if *place > 0) || matches!(kind, Kind::Address(_))
            }
            Some(Lost::Host) => !matches!(kind, Kind::Address(_)),
        };
        let kinds = self.kinds(link).into_iter().filter(is_ours);
        let answers = kinds.map(|kind| Record { ttl: 0, ..self.record(kind, link) }).collect();
        Message { answers, ..Message::default() }
    }

    /// The records whose names are to be ours alone, with the names they have.
    pub(crate) fn unique_records(&self, link: &Link) -> Vec<Record> {
        let records = self.kinds(link).into_iter().map(|kind| self.record(kind, link));
        let mut records: Vec<Record> = records.filter(|record| record.is_unique).collect();
        // What is only proposed flushes nothing.
        records.iter_mut().for_each(|record| record.is_unique = false);
        records
    }
}

/// The TXT record's strings; a service without any has one that is empty (RFC 6763 §6.1).
fn strings(service: &Service) -> Box<[u8]> {
    let mut bytes = Vec::new();
    for (key, value) in &service.txt {
        let mut entry = key.clone().into_bytes();
        if let Some(value) = value {
            entry.push(b'=');
            entry.extend_from_slice(value);
        }
        // A service that was checked has no longer ones.
        entry.truncate(255);
        bytes.push(entry.len() as u8);
        bytes.extend_from_slice(&entry);
    }
    if bytes.is_empty() {
        bytes.push(0);
    }
    bytes.into()
}
