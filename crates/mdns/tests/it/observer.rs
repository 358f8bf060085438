//! A peer that is no mDNS stack: a socket in the multicast group on loopback, and a small decoder of its own.
//! It sees what is on the wire, goodbyes and probes included.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);

/// One record or question as it was on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// Labels joined by dots, not escaped.
    pub(crate) name: String,
    /// The first label alone.
    pub(crate) label: String,
    pub(crate) kind: Kind,
    pub(crate) ttl: u32,
    pub(crate) section: Section,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ptr(String),
    Srv { port: u16, host: String },
    Txt(Vec<u8>),
    A(Ipv4Addr),
    Other(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Question,
    Answer,
    Authority,
    Additional,
}

/// Listens until dropped.
pub(crate) struct Observer {
    heard: Arc<Mutex<Vec<Heard>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    socket: UdpSocket,
    port: u16,
}

impl Observer {
    pub(crate) fn new(port: u16) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.set_reuse_port(true).unwrap();
        // The kernel gives no more than its limit; a thousand goodbyes fit that.
        socket.set_recv_buffer_size(8 << 20).unwrap();
        socket.bind(&SocketAddr::from((GROUP, port)).into()).unwrap();
        socket.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST).unwrap();
        socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
        let socket: UdpSocket = socket.into();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (ear, into, over) = (socket.try_clone().unwrap(), heard.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let mut packet = vec![0; 9_000];
            while !over.load(Ordering::Relaxed) {
                if let Ok(length) = ear.recv(&mut packet) {
                    into.lock().unwrap().extend(decode(&packet[..length]));
                }
            }
        });
        Self { heard, is_over, thread: Some(thread), socket, port }
    }

    /// All so far.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// How many packets said that the service of this name exists.
    pub(crate) fn announcements(&self, label: &str) -> usize {
        self.pointers(label, |ttl| ttl > 0)
    }

    /// How many packets said that the service of this name is gone.
    pub(crate) fn goodbyes(&self, label: &str) -> usize {
        self.pointers(label, |ttl| ttl == 0)
    }

    fn pointers(&self, label: &str, is_meant: impl Fn(u32) -> bool) -> usize {
        let heard = self.heard.lock().unwrap();
        let points = |record: &&Heard| match &record.kind {
            Kind::Ptr(target) => {
                record.section == Section::Answer
                    && is_meant(record.ttl)
                    && target.strip_prefix(label).is_some_and(|rest| rest.starts_with("._"))
            }
            _ => false,
        };
        heard.iter().filter(points).count()
    }

    /// How many probes asked for this name: questions for anything, with what is proposed beside them.
    pub(crate) fn probes(&self, label: &str) -> usize {
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .filter(|h| h.section == Section::Question && h.kind == Kind::Other(255) && h.label == label)
            .count()
    }

    /// Whether anyone asked for a name that begins so.
    pub(crate) fn asked(&self, label: &str) -> bool {
        let heard = self.heard.lock().unwrap();
        heard.iter().any(|heard| heard.section == Section::Question && heard.label == label)
    }

    /// Asks for all records of one kind (16 TXT, 33 SRV, 255 any) under a name of these labels.
    pub(crate) fn ask(&self, labels: &[&str], kind: u16) {
        let mut packet = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        write_name(&mut packet, labels);
        packet.extend(kind.to_be_bytes());
        packet.extend(1u16.to_be_bytes());
        self.socket.send_to(&packet, (GROUP, self.port)).unwrap();
    }

    /// Says that a service is gone, as a host might whose it is not.
    pub(crate) fn withdraw(&self, label: &str) {
        let mut target = Vec::new();
        write_name(&mut target, &[label, "_http", "_tcp", "local"]);
        let mut packet = vec![0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        write_record(&mut packet, &["_http", "_tcp", "local"], (12, 1), 0, &target);
        self.socket.send_to(&packet, (GROUP, self.port)).unwrap();
    }

    /// Announces a service as a host would that is not there any more when it is asked.
    pub(crate) fn announce(&self, label: &str, host: &str, port: u16) {
        let instance = [label, "_http", "_tcp", "local"];
        let mut target = Vec::new();
        write_name(&mut target, &instance);
        let mut server = vec![0, 0, 0, 0];
        server.extend(port.to_be_bytes());
        write_name(&mut server, &[host, "local"]);
        let mut packet = vec![0, 0, 0x84, 0, 0, 0, 0, 4, 0, 0, 0, 0];
        write_record(&mut packet, &["_http", "_tcp", "local"], (12, 1), 4_500, &target);
        write_record(&mut packet, &instance, (33, 0x8001), 120, &server);
        write_record(&mut packet, &instance, (16, 0x8001), 4_500, b"\x06path=/");
        write_record(&mut packet, &[host, "local"], (1, 0x8001), 120, &[127, 0, 0, 1]);
        self.socket.send_to(&packet, (GROUP, self.port)).unwrap();
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_record(packet: &mut Vec<u8>, labels: &[&str], (kind, class): (u16, u16), ttl: u32, rdata: &[u8]) {
    write_name(packet, labels);
    packet.extend(kind.to_be_bytes());
    packet.extend(class.to_be_bytes());
    packet.extend(ttl.to_be_bytes());
    packet.extend(u16::try_from(rdata.len()).unwrap().to_be_bytes());
    packet.extend(rdata);
}

fn write_name(packet: &mut Vec<u8>, labels: &[&str]) {
    for label in labels {
        packet.push(u8::try_from(label.len()).unwrap());
        packet.extend(label.as_bytes());
    }
    packet.push(0);
}

fn decode(packet: &[u8]) -> Vec<Heard> {
    let short = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let mut heard = Vec::new();
    let mut at = 12;
    for _ in 0..short(4) {
        let (labels, end) = read_name(packet, at);
        let kind = Kind::Other(short(end));
        heard.push(one(labels, kind, 0, Section::Question));
        at = end + 4;
    }
    for (section, number) in
        [(Section::Answer, short(6)), (Section::Authority, short(8)), (Section::Additional, short(10))]
    {
        for _ in 0..number {
            let (labels, end) = read_name(packet, at);
            let ttl =
                u32::from_be_bytes([packet[end + 4], packet[end + 5], packet[end + 6], packet[end + 7]]);
            let (start, length) = (end + 10, usize::from(short(end + 8)));
            let kind = match short(end) {
                12 => Kind::Ptr(read_name(packet, start).0.join(".")),
                33 => Kind::Srv { port: short(start + 4), host: read_name(packet, start + 6).0.join(".") },
                16 => Kind::Txt(packet[start..start + length].to_vec()),
                1 => Kind::A(Ipv4Addr::new(
                    packet[start],
                    packet[start + 1],
                    packet[start + 2],
                    packet[start + 3],
                )),
                other => Kind::Other(other),
            };
            heard.push(one(labels, kind, ttl, section));
            at = start + length;
        }
    }
    heard
}

fn one(labels: Vec<String>, kind: Kind, ttl: u32, section: Section) -> Heard {
    Heard { name: labels.join("."), label: labels.first().cloned().unwrap_or_default(), kind, ttl, section }
}

fn read_name(packet: &[u8], mut at: usize) -> (Vec<String>, usize) {
    let mut labels = Vec::new();
    let mut end = None;
    for _ in 0..64 {
        match packet[at] {
            0 => return (labels, end.unwrap_or(at + 1)),
            length if length & 0xc0 == 0xc0 => {
                end = end.or(Some(at + 2));
                at = usize::from(length & 0x3f) << 8 | usize::from(packet[at + 1]);
            }
            length => {
                let (start, stop) = (at + 1, at + 1 + usize::from(length));
                labels.push(String::from_utf8_lossy(&packet[start..stop]).into_owned());
                at = stop;
            }
        }
    }
    panic!("a name that does not end");
}
