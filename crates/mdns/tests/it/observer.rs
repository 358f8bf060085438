//! A peer that is no mDNS stack: a socket in the multicast group on loopback.
//! It sees what is on the wire, goodbyes and probes included.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::dns::{self, ANY, FLUSH, IN, Message, PTR, Packet, QUERY, RESPONSE, SRV, TXT};
pub(crate) use crate::dns::{Item as Heard, Kind, Section};

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
const HTTP: &str = "_http._tcp";
const TYPE: [&str; 3] = ["_http", "_tcp", "local"];

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
                    let mut message = Message::read(&packet[..length]).unwrap();
                    // Who asks lists what it has: that says nothing.
                    let is_response = message.is_response();
                    message.items.retain(|item| is_response || item.section != Section::Answer);
                    into.lock().unwrap().extend(message.items);
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
        let points = |record: &&Heard| is_meant(record.ttl) && record.points_to(label);
        heard.iter().filter(points).count()
    }

    /// How many probes asked for this name: questions for anything, with what is proposed beside them.
    pub(crate) fn probes(&self, label: &str) -> usize {
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .filter(|h| h.section == Section::Question && h.kind == Kind::Other(ANY) && h.label == label)
            .count()
    }

    /// Whether anyone asked for a name that begins so.
    pub(crate) fn asked(&self, label: &str) -> bool {
        let heard = self.heard.lock().unwrap();
        heard.iter().any(|heard| heard.section == Section::Question && heard.label == label)
    }

    /// Asks for all records of one kind (16 TXT, 33 SRV, 255 any) under a name of these labels.
    pub(crate) fn ask(&self, labels: &[&str], kind: u16) {
        self.send(&Packet::new(0, QUERY).ask(labels, kind, IN));
    }

    /// Says that a service is gone, as a host might whose it is not.
    pub(crate) fn withdraw(&self, label: &str) {
        let target = dns::name(&dns::instance(label, HTTP));
        let data = (PTR, IN);
        self.send(&Packet::new(0, RESPONSE).record(Section::Answer, &TYPE, data, 0, &target));
    }

    /// Announces a service as a host would that is not there any more when it is asked.
    pub(crate) fn announce(&self, label: &str, host: &str, port: u16) {
        let instance = dns::instance(label, HTTP);
        let packet = Packet::new(0, RESPONSE)
            .record(Section::Answer, &TYPE, (PTR, IN), 4_500, &dns::name(&instance))
            .record(Section::Answer, &instance, (SRV, FLUSH), 120, &dns::server(port, &[host, "local"]))
            .record(Section::Answer, &instance, (TXT, FLUSH), 4_500, b"\x06path=/")
            .record(Section::Answer, &[host, "local"], (dns::A, FLUSH), 120, &[127, 0, 0, 1]);
        self.send(&packet);
    }

    fn send(&self, packet: &Packet) {
        self.socket.send_to(&packet.0, (GROUP, self.port)).unwrap();
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
