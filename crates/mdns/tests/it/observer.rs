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
pub struct Heard {
    /// Labels joined by dots, not escaped.
    pub name: String,
    /// The first label alone.
    pub label: String,
    pub kind: Kind,
    pub ttl: u32,
    pub section: Section,
    /// Counts packets.
    pub packet: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Ptr(String),
    Srv { port: u16, host: String },
    Txt(Vec<u8>),
    A(Ipv4Addr),
    Other(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Question,
    Answer,
    Authority,
    Additional,
}

/// Listens until dropped.
pub struct Observer {
    heard: Arc<Mutex<Vec<Heard>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    socket: UdpSocket,
    port: u16,
}

impl Observer {
    pub fn new(port: u16) -> Self {
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
            let mut count = 0;
            while !over.load(Ordering::Relaxed) {
                if let Ok(length) = ear.recv(&mut packet) {
                    count += 1;
                    into.lock().unwrap().extend(decode(&packet[..length], count));
                }
            }
        });
        Self { heard, is_over, thread: Some(thread), socket, port }
    }

    /// All so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// How many packets said that the service of this name exists.
    pub fn announcements(&self, label: &str) -> usize {
        self.pointers(label, |ttl| ttl > 0)
    }

    /// How many packets said that the service of this name is gone.
    pub fn goodbyes(&self, label: &str) -> usize {
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
    pub fn probes(&self, label: &str) -> usize {
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .filter(|h| h.section == Section::Question && h.kind == Kind::Other(255) && h.label == label)
            .count()
    }

    /// Asks for all records of one kind (16 TXT, 33 SRV, 255 any) under a name of these labels.
    pub fn ask(&self, labels: &[&str], kind: u16) {
        let mut packet = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        write_name(&mut packet, labels);
        packet.extend(kind.to_be_bytes());
        packet.extend(1u16.to_be_bytes());
        self.socket.send_to(&packet, (GROUP, self.port)).unwrap();
    }

    /// Sends bytes to the group.
    pub fn send(&self, packet: &[u8]) {
        self.socket.send_to(packet, (GROUP, self.port)).unwrap();
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

pub fn write_name(packet: &mut Vec<u8>, labels: &[&str]) {
    for label in labels {
        packet.push(u8::try_from(label.len()).unwrap());
        packet.extend(label.as_bytes());
    }
    packet.push(0);
}

fn decode(packet: &[u8], count: usize) -> Vec<Heard> {
    let short = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let mut heard = Vec::new();
    let mut at = 12;
    for _ in 0..short(4) {
        let (labels, end) = read_name(packet, at);
        let kind = Kind::Other(short(end));
        heard.push(one(labels, kind, 0, Section::Question, count));
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
            heard.push(one(labels, kind, ttl, section, count));
            at = start + length;
        }
    }
    heard
}

fn one(labels: Vec<String>, kind: Kind, ttl: u32, section: Section, packet: usize) -> Heard {
    Heard {
        name: labels.join("."),
        label: labels.first().cloned().unwrap_or_default(),
        kind,
        ttl,
        section,
        packet,
    }
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
