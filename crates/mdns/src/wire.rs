//! The little of DNS messages that we read and write ourselves: questions, pointers, servers and texts. Every byte may
//! be hostile; what does not decode is `None`. Pure.

use crate::service::Service;

/// One message, without what we do not look at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) is_response: bool,
    pub(crate) questions: Vec<(Name, u16)>,
    pub(crate) records: Vec<Record>,
}

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: Name,
    pub(crate) ttl: u32,
    pub(crate) says: Says,
}

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// PTR: there is an instance of this name.
    Pointer(Name),
    /// SRV: it is on this host.
    Server(Name),
    /// Something else.
    Other,
}

/// A name, by labels as they are on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    labels: Vec<String>,
}

pub(crate) const TXT: u16 = 16;
pub(crate) const SRV: u16 = 33;
pub(crate) const ANY: u16 = 255;
const PTR: u16 = 12;
const CLASS_IN: u16 = 1;
/// RFC 6762 §10.2: what was known of the name before is no longer so.
const CACHE_FLUSH: u16 = 0x8000;
const AUTHORITATIVE_RESPONSE: u16 = 0x8400;
/// Seconds, as the engine has them (RFC 6762 §10).
const HOST_TTL: u32 = 120;
const OTHER_TTL: u32 = 4_500;
const HEADER_BYTES: usize = 12;
/// A name has at most 255 bytes, and each label at least two.
const LABELS_MAX: usize = 128;
/// Entries of a message that are looked at; 9,000 bytes hold hardly more.
const ENTRIES_MAX: usize = 1_000;

impl Name {
    /// `instance`, then the labels of `rest`, which has no dots inside labels.
    pub(crate) fn new(instance: &str, rest: &str) -> Self {
        let rest = rest.split('.').filter(|label| !label.is_empty()).map(str::to_owned);
        Self { labels: core::iter::once(instance.to_owned()).chain(rest).collect() }
    }

    /// The name as the engine's keys spell it: escaped, in lower case, with a dot at the end.
    pub(crate) fn key(&self) -> String {
        let mut key = String::new();
        for label in &self.labels {
            key.push_str(&label.replace('\\', "\\\\").replace('.', "\\."));
            key.push('.');
        }
        key.to_lowercase()
    }
}

impl Message {
    /// Reads a message.
    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let count = |at: usize| short(packet, at).map(usize::from);
        let is_response = short(packet, 2)? & 0x8000 != 0;
        let mut at = HEADER_BYTES;
        let mut message = Self { is_response, ..Self::default() };
        for _ in 0..count(4)?.min(ENTRIES_MAX) {
            let (name, end) = read_name(packet, at)?;
            message.questions.push((name, short(packet, end)?));
            at = end + 4;
        }
        let records = count(6)? + count(8)? + count(10)?;
        for _ in 0..records.min(ENTRIES_MAX) {
            let (name, end) = read_name(packet, at)?;
            let ttl = u32::from(short(packet, end + 4)?) << 16 | u32::from(short(packet, end + 6)?);
            let rdata = end + 10;
            let says = match short(packet, end)? {
                PTR => Says::Pointer(read_name(packet, rdata)?.0),
                SRV => Says::Server(read_name(packet, rdata + 6)?.0),
                _ => Says::Other,
            };
            message.records.push(Record { name, ttl, says });
            at = rdata + usize::from(short(packet, end + 8)?);
        }
        Some(message)
    }
}

/// A query with these questions.
pub(crate) fn query(questions: &[(Name, u16)]) -> Vec<u8> {
    let mut packet = vec![0; HEADER_BYTES];
    for (name, kind) in questions {
        write_name(&mut packet, name);
        packet.extend(kind.to_be_bytes());
        packet.extend(CLASS_IN.to_be_bytes());
    }
    let count = u16::try_from(questions.len()).unwrap_or(u16::MAX);
    packet[4..6].copy_from_slice(&count.to_be_bytes());
    packet
}

/// A response that says where a service is and what its TXT record holds.
pub(crate) fn response(service: &Service) -> Vec<u8> {
    let name = Name::new(&service.name, &service.type_domain());
    let mut packet = vec![0; HEADER_BYTES];
    packet[2..4].copy_from_slice(&AUTHORITATIVE_RESPONSE.to_be_bytes());
    packet[7] = 2;
    let mut server = vec![0; 4];
    server.extend(service.port.to_be_bytes());
    write_name(&mut server, &Name::new(&service.host, "local"));
    let mut text = Vec::new();
    for (key, value) in &service.txt {
        let value = value.as_ref().map(|value| [b"=", value.as_slice()].concat()).unwrap_or_default();
        text.push(u8::try_from(key.len() + value.len()).unwrap_or(u8::MAX));
        text.extend(key.as_bytes());
        text.extend(value);
    }
    if text.is_empty() {
        text.push(0);
    }
    for (kind, ttl, rdata) in [(SRV, HOST_TTL, server), (TXT, OTHER_TTL, text)] {
        write_name(&mut packet, &name);
        packet.extend(kind.to_be_bytes());
        packet.extend((CLASS_IN | CACHE_FLUSH).to_be_bytes());
        packet.extend(ttl.to_be_bytes());
        packet.extend(u16::try_from(rdata.len()).unwrap_or(0).to_be_bytes());
        packet.extend(rdata);
    }
    packet
}

fn write_name(packet: &mut Vec<u8>, name: &Name) {
    for label in &name.labels {
        packet.push(u8::try_from(label.len()).unwrap_or(0));
        packet.extend(label.as_bytes());
    }
    packet.push(0);
}

fn short(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]))
}

/// The name at a place, and where the next thing begins. A pointer leads strictly backwards, so that this ends.
fn read_name(packet: &[u8], mut at: usize) -> Option<(Name, usize)> {
    let mut labels = Vec::new();
    let mut end = None;
    while labels.len() <= LABELS_MAX {
        let length = usize::from(*packet.get(at)?);
        match length & 0xc0 {
            0 if length == 0 => return Some((Name { labels }, end.unwrap_or(at + 1))),
            0 => {
                let label = packet.get(at + 1..at + 1 + length)?;
                labels.push(core::str::from_utf8(label).ok()?.to_owned());
                at += 1 + length;
            }
            0xc0 => {
                let target = usize::from(short(packet, at)? & 0x3fff);
                end = end.or(Some(at + 2));
                if target >= at {
                    return None;
                }
                at = target;
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reads_back() {
        let questions = vec![(Name::new("a.b\\c", "_http._tcp.local."), SRV), (Name::new("B", "local"), ANY)];
        let message = Message::decode(&query(&questions)).expect("a message");
        assert!(!message.is_response);
        assert_eq!(message.questions, questions);
        assert_eq!(message.questions[0].0.key(), "a\\.b\\\\c._http._tcp.local.");
        assert_eq!(message.questions[1].0.key(), "b.local.");
    }

    #[test]
    fn a_response_reads_back() {
        let mut service = crate::service::tests::service("a.b");
        service.txt = vec![("k".to_owned(), Some(b"v".to_vec())), ("flag".to_owned(), None)];
        let packet = response(&service);
        let message = Message::decode(&packet).expect("a message");
        assert!(message.is_response);
        assert_eq!(message.records[0].says, Says::Server(Name::new("stone-1a2b3c4d", "local")));
        assert_eq!(message.records[1].name.key(), service.full_name_key());
        assert!(packet.ends_with(b"\x00\x09\x03k=v\x04flag"));
    }

    #[test]
    fn compressed_names_and_servers_are_read() {
        let mut packet = query(&[(Name::new("x", "_http._tcp.local"), ANY)]);
        packet[2] = 0x84;
        packet[7] = 2;
        // x._http._tcp.local: SRV on h.local, by pointers to the name at 12 and to `local` at 12 + 2 + 6 + 5.
        packet.extend([0xc0, 12, 0, 33, 0x80, 1, 0, 0, 0, 120, 0, 10, 0, 0, 0, 0, 0, 80, 1, b'h', 0xc0, 25]);
        packet.extend([0xc0, 14, 0, 12, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, 12]);
        let message = Message::decode(&packet).expect("a message");
        assert!(message.is_response);
        assert_eq!(message.records[0].says, Says::Server(Name::new("h", "local")));
        assert_eq!(message.records[0].ttl, 120);
        assert_eq!(message.records[1].says, Says::Pointer(Name::new("x", "_http._tcp.local")));
        assert_eq!(message.records[1].ttl, 0);
    }

    #[test]
    fn nothing_that_is_cut_short_or_turned_decodes_to_a_panic() {
        let mut packet = query(&[(Name::new("x", "_http._tcp.local"), ANY)]);
        packet[7] = 1;
        packet.extend([0xc0, 12, 0, 33, 0x80, 1, 0, 0, 0, 120, 0, 9, 0, 0, 0, 0, 0, 80, 1, b'h', 0xc0, 25]);
        for end in 0..packet.len() {
            assert_eq!(Message::decode(&packet[..end]), None, "{end}");
        }
        for at in 0..packet.len() {
            for value in [0, 0x3f, 0x40, 0xc0, 0xff] {
                let mut turned = packet.clone();
                turned[at] = value;
                let _ = Message::decode(&turned);
            }
        }
        let looping = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0xc0, 12, 0, 1, 0, 1];
        assert_eq!(Message::decode(&looping), None);
    }
}
