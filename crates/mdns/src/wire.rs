//! DNS messages as bytes: reading and writing (RFC 1035 §4, RFC 6762 §18). Every byte that is read may be hostile:
//! reading allocates at most what one packet can name, follows compression pointers backwards only, and stops at the
//! first byte that makes no sense, with what was whole until there. Pure.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A name as it stands on the wire without compression: labels with their lengths, and the root. Names that differ by
/// the case of ASCII letters are equal (RFC 6762 §16).
#[derive(Clone)]
pub(crate) struct Name(Box<[u8]>);

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: u16,
    pub(crate) is_response: bool,
    /// More known answers follow in another packet.
    pub(crate) is_truncated: bool,
    pub(crate) questions: Vec<Question>,
    pub(crate) answers: Vec<Record>,
    pub(crate) authorities: Vec<Record>,
    pub(crate) additionals: Vec<Record>,
}

/// One question of class IN.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) name: Name,
    pub(crate) kind: u16,
    /// The QU bit (RFC 6762 §5.4).
    pub(crate) wants_unicast: bool,
}

/// One record of class IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: Name,
    /// The cache-flush bit (RFC 6762 §10.2): all there is of this name and type comes from one responder.
    pub(crate) is_unique: bool,
    /// Seconds.
    pub(crate) ttl: u32,
    pub(crate) data: Data,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Ptr(Name),
    Srv {
        priority: u16,
        weight: u16,
        port: u16,
        target: Name,
    },
    /// The strings with their lengths.
    Txt(Box<[u8]>),
    /// Of this name, only records of these types exist (RFC 6762 §6.1).
    Nsec {
        next: Name,
        kinds: Vec<u16>,
    },
}

pub(crate) const A: u16 = 1;
pub(crate) const PTR: u16 = 12;
pub(crate) const TXT: u16 = 16;
pub(crate) const AAAA: u16 = 28;
pub(crate) const SRV: u16 = 33;
pub(crate) const NSEC: u16 = 47;
pub(crate) const ANY: u16 = 255;

const CLASS_IN: u16 = 1;
const CLASS_ANY: u16 = 255;
const TOP_BIT: u16 = 0x8000;
const RESPONSE: u16 = 0x8000;
const AUTHORITATIVE: u16 = 0x0400;
const TRUNCATED: u16 = 0x0200;
/// Opcode and response code, which must be zero (RFC 6762 §18.3, §18.11).
const OPCODE_AND_RCODE: u16 = 0x780f;
const HEADER_BYTES: usize = 12;
/// RFC 1035 §2.3.4.
const NAME_BYTES_MAX: usize = 255;
const LABEL_BYTES_MAX: usize = 63;
/// Questions of one packet that are read. Browsers send a handful.
const QUESTIONS_MAX: usize = 128;
/// Records of one packet that are read. A packet of 9,000 bytes with records of the usual size has half of that.
const RECORDS_MAX: usize = 384;
/// How much a packet of ours holds, so that IPv6 and UDP fit an Ethernet frame with it.
pub(crate) const PACKET_BYTES: usize = 1_440;
/// A record that does not fit that goes alone in a larger packet (RFC 6762 §17).
const PACKET_BYTES_MAX: usize = 8_900;
/// A compression pointer reaches so far.
const POINTER_MAX: usize = 0x3fff;

impl Name {
    /// The name of these labels. `None` unless each has 1 to 63 bytes and all fit a name.
    pub(crate) fn new<'a>(labels: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut bytes = Vec::with_capacity(64);
        for label in labels {
            if label.is_empty() || label.len() > LABEL_BYTES_MAX {
                return None;
            }
            bytes.push(u8::try_from(label.len()).ok()?);
            bytes.extend_from_slice(label);
        }
        bytes.push(0);
        (bytes.len() <= NAME_BYTES_MAX).then(|| Self(bytes.into()))
    }

    /// The name that `text` spells, its labels separated by dots; no label has dots of its own.
    pub(crate) fn of(text: &str) -> Option<Self> {
        Self::new(text.split('.').filter(|label| !label.is_empty()).map(str::as_bytes))
    }

    /// This name with another label before it.
    pub(crate) fn child(&self, label: &[u8]) -> Option<Self> {
        Self::new(core::iter::once(label).chain(self.labels()))
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.0;
        core::iter::from_fn(move || {
            let (&length, tail) = rest.split_first().filter(|(length, _)| **length > 0)?;
            let (label, tail) = tail.split_at_checked(usize::from(length))?;
            rest = tail;
            Some(label)
        })
    }

    /// The first label, if the others are those of `parent`.
    pub(crate) fn label_under(&self, parent: &Self) -> Option<&[u8]> {
        let first = self.labels().next()?;
        self.0[1 + first.len()..].eq_ignore_ascii_case(&parent.0).then_some(first)
    }

    /// The bytes it takes on the wire without compression.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn suffixes(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.0;
        core::iter::from_fn(move || {
            let length = *rest.first().filter(|length| **length > 0)?;
            let suffix = rest;
            rest = &rest[1 + usize::from(length)..];
            Some(suffix)
        })
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        // Lengths are below 64 and letters above, so that lengths compare as they are.
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut folded = [0; NAME_BYTES_MAX];
        let folded = &mut folded[..self.0.len()];
        folded.copy_from_slice(&self.0);
        folded.make_ascii_lowercase();
        state.write(folded);
    }
}

/// `stone.local`, for people: dots inside labels are not told apart.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, label) in self.labels().enumerate() {
            let dot = if at == 0 { "" } else { "." };
            write!(f, "{dot}{}", String::from_utf8_lossy(label))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Data {
    pub(crate) fn kind(&self) -> u16 {
        match self {
            Self::A(_) => A,
            Self::Aaaa(_) => AAAA,
            Self::Ptr(_) => PTR,
            Self::Srv { .. } => SRV,
            Self::Txt(_) => TXT,
            Self::Nsec { .. } => NSEC,
        }
    }

    /// The bytes without compression: what simultaneous probes are compared by (RFC 6762 §8.2).
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut packet = Packet { bytes: Vec::new(), names: None };
        packet.data(self);
        packet.bytes
    }
}

impl Message {
    /// Reads a packet. `None` where there is no message for us at all: no header, another opcode, an error code.
    /// What follows the first entry that cannot be read is left out.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        let mut reader = Reader { packet, at: 0 };
        let (id, flags) = (reader.u16()?, reader.u16()?);
        if flags & OPCODE_AND_RCODE != 0 {
            return None;
        }
        let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        let mut message = Self {
            id,
            is_response: flags & RESPONSE != 0,
            is_truncated: flags & TRUNCATED != 0,
            ..Self::default()
        };
        // An entry that cannot be read ends the reading, not the message.
        let _ = message.read_entries(&mut reader, counts);
        Some(message)
    }

    fn read_entries(&mut self, reader: &mut Reader<'_>, counts: [u16; 4]) -> Option<()> {
        for read in 0..usize::from(counts[0]) {
            let question = reader.question()?;
            if read < QUESTIONS_MAX {
                self.questions.extend(question);
            }
        }
        let mut left = RECORDS_MAX;
        let sections = [&mut self.answers, &mut self.authorities, &mut self.additionals];
        for (section, count) in sections.into_iter().zip(&counts[1..]) {
            for _ in 0..*count {
                left = left.checked_sub(1)?;
                section.extend(reader.record()?);
            }
        }
        Some(())
    }

    /// The message as one packet, if it fits.
    pub(crate) fn write(&self) -> Option<Vec<u8>> {
        self.write_within(PACKET_BYTES_MAX)
    }

    /// The message as one packet, if it fits so many bytes.
    pub(crate) fn write_within(&self, bytes_max: usize) -> Option<Vec<u8>> {
        let mut packet = Packet { bytes: Vec::with_capacity(512), names: Some(HashMap::new()) };
        let response = if self.is_response { RESPONSE | AUTHORITATIVE } else { 0 };
        packet.u16(self.id);
        packet.u16(response | if self.is_truncated { TRUNCATED } else { 0 });
        let sections = [&self.answers, &self.authorities, &self.additionals];
        packet.u16(u16::try_from(self.questions.len()).ok()?);
        for section in sections {
            packet.u16(u16::try_from(section.len()).ok()?);
        }
        for question in &self.questions {
            packet.name(&question.name);
            packet.u16(question.kind);
            packet.u16(CLASS_IN | if question.wants_unicast { TOP_BIT } else { 0 });
        }
        for record in sections.into_iter().flatten() {
            packet.record(record);
            if packet.bytes.len() > bytes_max {
                return None;
            }
        }
        (packet.bytes.len() <= bytes_max).then_some(packet.bytes)
    }
}

/// How much of a packet is used up, were all that it was filled with written.
pub(crate) struct Room(Packet);

impl Default for Room {
    fn default() -> Self {
        Self(Packet { bytes: vec![0; HEADER_BYTES], names: Some(HashMap::new()) })
    }
}

impl Room {
    pub(crate) fn fill(&mut self, group: &Message) {
        for question in &group.questions {
            self.0.name(&question.name);
            self.0.bytes.extend_from_slice(&[0; 4]);
        }
        let records = [&group.answers, &group.authorities, &group.additionals];
        records.into_iter().flatten().for_each(|record| self.0.record(record));
    }

    pub(crate) fn used(&self) -> usize {
        self.0.bytes.len()
    }
}

struct Reader<'a> {
    packet: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let taken = self.packet.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Each pointer leads to before the run of labels it stands in, so that following them ends.
    fn name(&mut self) -> Option<Name> {
        let mut bytes = [0; NAME_BYTES_MAX];
        let mut length = 0;
        let (mut at, mut run, mut end) = (self.at, self.at, None);
        loop {
            let first = *self.packet.get(at)?;
            match first >> 6 {
                0 => {
                    let label = self.packet.get(at..=at + usize::from(first))?;
                    bytes.get_mut(length..length + label.len())?.copy_from_slice(label);
                    length += label.len();
                    at += label.len();
                    if first == 0 {
                        break;
                    }
                }
                3 => {
                    let second = *self.packet.get(at + 1)?;
                    end = end.or(Some(at + 2));
                    at = usize::from(u16::from_be_bytes([first & 0x3f, second]));
                    if at >= run {
                        return None;
                    }
                    run = at;
                }
                _ => return None,
            }
        }
        self.at = end.unwrap_or(at);
        Some(Name(bytes[..length].into()))
    }

    /// Moves behind a name without looking at what it points to.
    fn skip_name(&mut self) -> Option<()> {
        loop {
            let first = *self.take(1)?.first()?;
            match first >> 6 {
                0 if first == 0 => return Some(()),
                0 => self.take(usize::from(first))?,
                3 => return self.take(1).map(|_| ()),
                _ => return None,
            };
        }
    }

    /// `Some(None)` for a question that is not about the internet.
    fn question(&mut self) -> Option<Option<Question>> {
        let name = self.name()?;
        let (kind, class) = (self.u16()?, self.u16()?);
        let is_ours = matches!(class & !TOP_BIT, CLASS_IN | CLASS_ANY);
        Some(is_ours.then_some(Question { name, kind, wants_unicast: class & TOP_BIT != 0 }))
    }

    /// `Some(None)` for a record that we have no use for.
    fn record(&mut self) -> Option<Option<Record>> {
        let begins = self.at;
        self.skip_name()?;
        let (kind, class, ttl, length) = (self.u16()?, self.u16()?, self.u32()?, self.u16()?);
        let data_at = self.at;
        self.take(usize::from(length))?;
        let ends = self.at;
        if class & !TOP_BIT != CLASS_IN || !matches!(kind, A | AAAA | PTR | SRV | TXT | NSEC) {
            return Some(None);
        }
        self.at = begins;
        let name = self.name();
        self.at = data_at;
        let data = self.data(kind, ends);
        self.at = ends;
        let entry = name.zip(data);
        Some(entry.map(|(name, data)| Record { name, is_unique: class & TOP_BIT != 0, ttl, data }))
    }

    fn data(&mut self, kind: u16, ends: usize) -> Option<Data> {
        let length = ends - self.at;
        let data = match kind {
            A => Data::A(Ipv4Addr::from(<[u8; 4]>::try_from(self.take(length)?).ok()?)),
            AAAA => Data::Aaaa(Ipv6Addr::from(<[u8; 16]>::try_from(self.take(length)?).ok()?)),
            PTR => Data::Ptr(self.name()?),
            SRV => Data::Srv {
                priority: self.u16()?,
                weight: self.u16()?,
                port: self.u16()?,
                target: self.name()?,
            },
            TXT => Data::Txt(self.take(length)?.into()),
            _ => Data::Nsec { next: self.name()?, kinds: self.kinds(ends)? },
        };
        (self.at == ends).then_some(data)
    }

    /// Types as windows of bits (RFC 4034 §4.1.2).
    fn kinds(&mut self, ends: usize) -> Option<Vec<u16>> {
        let mut kinds = Vec::new();
        while self.at < ends {
            let header = self.take(2)?;
            let (window, length) = (header[0], usize::from(header[1]));
            if length == 0 || length > 32 {
                return None;
            }
            let bits = self.take(length)?;
            let places = (0..length * 8).filter(|place| bits[place / 8] & (0x80 >> (place % 8)) != 0);
            kinds.extend(places.map(|place| u16::from(window) << 8 | place as u16));
        }
        Some(kinds)
    }
}

struct Packet {
    bytes: Vec<u8>,
    /// Where names begin that later ones can point to, in lower case. `None`: nothing is compressed.
    names: Option<HashMap<Vec<u8>, u16>>,
}

impl Packet {
    fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn name(&mut self, name: &Name) {
        for suffix in name.suffixes() {
            if let Some(names) = &mut self.names {
                let folded = suffix.to_ascii_lowercase();
                if let Some(at) = names.get(&folded) {
                    let pointer = 0xc000 | *at;
                    return self.u16(pointer);
                }
                if self.bytes.len() <= POINTER_MAX {
                    names.insert(folded, self.bytes.len() as u16);
                }
            }
            self.bytes.extend_from_slice(&suffix[..=usize::from(suffix[0])]);
        }
        self.bytes.push(0);
    }

    fn record(&mut self, record: &Record) {
        self.name(&record.name);
        self.u16(record.data.kind());
        self.u16(CLASS_IN | if record.is_unique { TOP_BIT } else { 0 });
        self.bytes.extend_from_slice(&record.ttl.to_be_bytes());
        let length_at = self.bytes.len();
        self.u16(0);
        self.data(&record.data);
        let length = self.bytes.len() - length_at - 2;
        self.bytes[length_at..length_at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    }

    fn data(&mut self, data: &Data) {
        match data {
            Data::A(ip) => self.bytes.extend_from_slice(&ip.octets()),
            Data::Aaaa(ip) => self.bytes.extend_from_slice(&ip.octets()),
            Data::Ptr(name) => self.name(name),
            Data::Srv { priority, weight, port, target } => {
                [*priority, *weight, *port].into_iter().for_each(|value| self.u16(value));
                self.name(target);
            }
            Data::Txt(strings) => self.bytes.extend_from_slice(strings),
            Data::Nsec { next, kinds } => {
                self.name(next);
                // All types that we have are below 256: one window.
                let mut bits = [0; 32];
                for kind in kinds.iter().filter(|kind| **kind < 256) {
                    bits[usize::from(kind / 8)] |= 0x80 >> (kind % 8);
                }
                let length = bits.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
                self.bytes.extend_from_slice(&[0, length as u8]);
                self.bytes.extend_from_slice(&bits[..length]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::of(text).expect("a name")
    }

    fn message() -> Message {
        let instance = name("_http._tcp.local").child(b"My.App").expect("a name");
        let record = |name: &Name, data| Record { name: name.clone(), is_unique: true, ttl: 120, data };
        Message {
            id: 7,
            is_response: true,
            questions: vec![Question { name: instance.clone(), kind: ANY, wants_unicast: true }],
            answers: vec![
                record(&name("_http._tcp.local"), Data::Ptr(instance.clone())),
                record(&instance, Data::Srv { priority: 0, weight: 0, port: 80, target: name("h.local") }),
                record(&instance, Data::Txt(b"\x06path=/"[..].into())),
            ],
            authorities: vec![record(&name("h.local"), Data::A([192, 0, 2, 1].into()))],
            additionals: vec![
                record(&name("h.local"), Data::Aaaa("fe80::1".parse().expect("an address"))),
                record(&instance, Data::Nsec { next: instance.clone(), kinds: vec![TXT, SRV] }),
            ],
            ..Message::default()
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let packet = message().write().expect("it fits");
        assert_eq!(Message::read(&packet), Some(message()));
        assert!(packet.len() < 190, "compressed: {}", packet.len());
    }

    #[test]
    fn what_is_cut_off_is_left_out() {
        let packet = message().write().expect("it fits");
        for length in 0..packet.len() {
            let read = Message::read(&packet[..length]);
            assert_eq!(read.is_some(), length >= HEADER_BYTES, "{length}");
            let whole = message();
            let read = read.unwrap_or_default();
            assert!(whole.answers.starts_with(&read.answers) && read.additionals.len() < 2);
        }
    }

    #[test]
    fn names_differ_by_ascii_case_in_nothing() {
        assert_eq!(name("Stone.LOCAL"), name("stone.local"));
        assert_ne!(name("BÜRO.local"), name("büro.local"));
        let folded = HashMap::from([(name("Stone.LOCAL"), ())]);
        assert!(folded.contains_key(&name("stone.local")));
        assert_eq!(name("a._b._tcp.local").label_under(&name("_B._tcp.local")), Some(&b"a"[..]));
        assert_eq!(name("a._b._tcp.local").label_under(&name("_c._tcp.local")), None);
    }

    #[test]
    fn pointers_lead_back_and_names_end() {
        let header = |questions: u8| vec![0, 0, 0, 0, 0, questions, 0, 0, 0, 0, 0, 0];
        let read = |rest: &[u8]| {
            let packet = [&header(1)[..], rest, &[0, 12, 0, 1]].concat();
            Message::read(&packet).expect("a header").questions.len()
        };
        assert_eq!(read(&[1, b'a', 0]), 1);
        assert_eq!(read(&[0xc0, 12]), 0, "to itself");
        assert_eq!(read(&[1, b'a', 0xc0, 12]), 0, "to the run it stands in");
        assert_eq!(read(&[0xc0, 200]), 0, "out of the packet");
        assert_eq!(read(&[0x80, 0]), 0, "a kind of label that is not one");
        let long: Vec<u8> = [1, b'x'].repeat(128);
        assert_eq!(read(&[&long[..], &[0]].concat()), 0, "257 bytes");
        assert_eq!(read(&[&long[..254], &[0]].concat()), 1, "255 bytes");
    }

    #[test]
    fn questions_and_records_are_bounded_and_other_opcodes_and_classes_are_not_for_us() {
        let question = Question { name: name("a.local"), kind: PTR, wants_unicast: false };
        let record =
            Record { name: name("a.local"), is_unique: false, ttl: 1, data: Data::A([192, 0, 2, 1].into()) };
        let read = |questions, answers| {
            let many = Message {
                questions: vec![question.clone(); questions],
                answers: vec![record.clone(); answers],
                ..Message::default()
            };
            let read = Message::read(&many.write().expect("it fits")).expect("a message");
            (read.questions.len(), read.answers.len())
        };
        assert_eq!(read(300, 200), (QUESTIONS_MAX, 200));
        assert_eq!(read(10, 500), (10, RECORDS_MAX));
        let one = Message { questions: vec![question], ..Message::default() };
        let mut packet = one.write().expect("it fits");
        let last = packet.len() - 1;
        packet[last] = 3;
        assert_eq!(Message::read(&packet).expect("a message").questions, [], "class CHAOS");
        packet[2] = 0x28;
        assert_eq!(Message::read(&packet), None, "an update");
    }
}
