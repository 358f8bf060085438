//! DNS messages, as little of them as the tests need: a writer that can also write what is forbidden, and a reader
//! that takes nothing for granted. Names are written as labels and read as labels joined by dots, not escaped.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) const A: u16 = 1;
pub(crate) const PTR: u16 = 12;
pub(crate) const TXT: u16 = 16;
pub(crate) const AAAA: u16 = 28;
pub(crate) const SRV: u16 = 33;
pub(crate) const NSEC: u16 = 47;
pub(crate) const ANY: u16 = 255;

pub(crate) const IN: u16 = 1;
/// The class of a record that replaces all others of its name (RFC 6762 §10.2).
pub(crate) const FLUSH: u16 = 0x8001;

pub(crate) const QUERY: u16 = 0;
pub(crate) const RESPONSE: u16 = 0x8400;

/// A message as it was on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) id: u16,
    pub(crate) flags: u16,
    /// Questions too.
    pub(crate) items: Vec<Item>,
}

/// One record or question.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    /// The first label alone.
    pub(crate) label: String,
    pub(crate) kind: Kind,
    pub(crate) class: u16,
    pub(crate) ttl: u32,
    pub(crate) section: Section,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ptr(String),
    Srv {
        port: u16,
        host: String,
    },
    Txt(Vec<u8>),
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    /// Every question is of this kind.
    Other(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Question,
    Answer,
    Authority,
    Additional,
}

impl Message {
    pub(crate) fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.section != Section::Question)
    }

    /// `None` for what cannot be read to its end.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        let mut items = Vec::new();
        let mut at = 12;
        for _ in 0..short(packet, 4)? {
            let (labels, end) = read_name(packet, at)?;
            let kind = Kind::Other(short(packet, end)?);
            items.push(Item::new(&labels, kind, short(packet, end + 2)?, 0, Section::Question));
            at = end + 4;
        }
        for (section, count_at) in [(Section::Answer, 6), (Section::Authority, 8), (Section::Additional, 10)]
        {
            for _ in 0..short(packet, count_at)? {
                let (labels, end) = read_name(packet, at)?;
                let ttl = u32::from(short(packet, end + 4)?) << 16 | u32::from(short(packet, end + 6)?);
                let (start, length) = (end + 10, usize::from(short(packet, end + 8)?));
                at = start + length;
                let kind = read_kind(packet, short(packet, end)?, start, packet.get(start..at)?)?;
                items.push(Item::new(&labels, kind, short(packet, end + 2)?, ttl, section));
            }
        }
        Some(Self { id: short(packet, 0)?, flags: short(packet, 2)?, items })
    }
}

impl Item {
    fn new(labels: &[String], kind: Kind, class: u16, ttl: u32, section: Section) -> Self {
        let label = labels.first().cloned().unwrap_or_default();
        Self { name: labels.join("."), label, kind, class, ttl, section }
    }

    /// Whether it withdraws or announces the instance of this name, of any type.
    pub(crate) fn points_to(&self, instance: &str) -> bool {
        let Kind::Ptr(target) = &self.kind else { return false };
        self.section == Section::Answer
            && target.strip_prefix(instance).is_some_and(|rest| rest.starts_with("._"))
    }
}

fn read_kind(packet: &[u8], kind: u16, start: usize, data: &[u8]) -> Option<Kind> {
    Some(match kind {
        PTR => Kind::Ptr(read_name(packet, start)?.0.join(".")),
        SRV => Kind::Srv { port: short(packet, start + 4)?, host: read_name(packet, start + 6)?.0.join(".") },
        TXT => Kind::Txt(data.to_vec()),
        A => Kind::A(<[u8; 4]>::try_from(data).ok()?.into()),
        AAAA => Kind::Aaaa(<[u8; 16]>::try_from(data).ok()?.into()),
        other => Kind::Other(other),
    })
}

fn short(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?))
}

fn read_name(packet: &[u8], mut at: usize) -> Option<(Vec<String>, usize)> {
    let mut labels = Vec::new();
    let mut end = None;
    for _ in 0..256 {
        match *packet.get(at)? {
            0 => return Some((labels, end.unwrap_or(at + 1))),
            length if length & 0xc0 == 0xc0 => {
                end = end.or(Some(at + 2));
                at = usize::from(short(packet, at)? & 0x3fff);
            }
            length => {
                let stop = at + 1 + usize::from(length);
                labels.push(String::from_utf8_lossy(packet.get(at + 1..stop)?).into_owned());
                at = stop;
            }
        }
    }
    None
}

/// A message being written, section by section.
#[derive(Clone)]
pub(crate) struct Packet(pub(crate) Vec<u8>);

impl Packet {
    pub(crate) fn new(id: u16, flags: u16) -> Self {
        let mut bytes = [id.to_be_bytes(), flags.to_be_bytes()].concat();
        bytes.resize(12, 0);
        Self(bytes)
    }

    pub(crate) fn ask(self, labels: &[&str], kind: u16, class: u16) -> Self {
        self.raw(Section::Question, &name(labels), &[kind, class].map(u16::to_be_bytes).concat())
    }

    pub(crate) fn record(
        self,
        section: Section,
        labels: &[&str],
        (kind, class): (u16, u16),
        ttl: u32,
        data: &[u8],
    ) -> Self {
        self.raw(section, &name(labels), &rest((kind, class), ttl, data))
    }

    /// A question or record with a name that is already written, or is none.
    pub(crate) fn raw(mut self, section: Section, name: &[u8], rest: &[u8]) -> Self {
        let count_at = 4 + 2 * section as usize;
        let count = short(&self.0, count_at).unwrap_or_default() + 1;
        self.0[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
        self.0.extend(name);
        self.0.extend(rest);
        self
    }
}

/// What follows the name of a record.
pub(crate) fn rest((kind, class): (u16, u16), ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = [kind, class].map(u16::to_be_bytes).concat();
    bytes.extend(ttl.to_be_bytes());
    bytes.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) fn name(labels: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// The data of an SRV record without priority and weight.
pub(crate) fn server(port: u16, host: &[&str]) -> Vec<u8> {
    [vec![0; 4], port.to_be_bytes().to_vec(), name(host)].concat()
}

/// `NAME._http._tcp.local`
pub(crate) fn instance<'a>(label: &'a str, service_type: &'a str) -> Vec<&'a str> {
    let types = service_type.split('.');
    std::iter::once(label).chain(types).chain(["local"]).collect()
}
