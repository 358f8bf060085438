//! Responder and querier over the same packets. Packets, time and wishes come in as values; what is to be sent and what is
//! to be told is left to be taken: nothing here waits, reads a clock or touches a socket.

use std::net::SocketAddr;

use crate::clock::Instant;
use crate::link::{Link, LinkId};
use crate::outbox::{Outbox, Transmit};
use crate::querier::{Finding, Querier};
use crate::random::Random;
use crate::responder::{EntryId, Event, Responder};
use crate::service::Service;
use crate::sighting::Wanted;
use crate::wire::Message;

pub(crate) struct Machine {
    responder: Responder,
    querier: Querier,
    outbox: Outbox,
    /// That responses come from (RFC 6762 §6).
    port: u16,
}

/// What other hosts have made a machine keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Questions that wait, with what is known of them.
    pub(crate) waiting_entries: usize,
    pub(crate) cache_bytes: usize,
    /// Packets that have not left yet.
    pub(crate) packets: usize,
    /// Services, also those that are being withdrawn, that go on by themselves on a link.
    pub(crate) timers: usize,
}

/// The QR bit of the third byte.
const RESPONSE: u8 = 0x80;

impl Machine {
    pub(crate) fn new(now: Instant, port: u16, seed: u64) -> Self {
        Self {
            responder: Responder::new(port, Random::new(seed)),
            querier: Querier::new(Random::new(!seed)),
            outbox: Outbox::new(now),
            port,
        }
    }

    pub(crate) fn link_up(&mut self, now: Instant, link: Link) {
        self.querier.link_up(now, &link);
        self.responder.link_up(now, link);
    }

    pub(crate) fn link_down(&mut self, now: Instant, link: LinkId) {
        self.outbox.forget(link);
        self.querier.link_down(link);
        self.responder.link_down(now, link);
    }

    pub(crate) fn link_changed(&mut self, now: Instant, link: Link) {
        self.responder.link_changed(now, link);
    }

    /// The machine slept.
    pub(crate) fn woke(&mut self, now: Instant) {
        // What was decided before need not hold now.
        self.outbox.clear();
        self.responder.probe_all(now);
        self.querier.ask_all(now);
    }

    pub(crate) fn advertise(&mut self, now: Instant, key: u128, service: Service) {
        self.responder.advertise(now, key, service);
    }

    pub(crate) fn withdraw(&mut self, now: Instant, key: u128, service: Service, token: u64) {
        self.responder.withdraw(now, key, service, token);
    }

    pub(crate) fn close(&mut self, now: Instant) {
        self.responder.close(now);
    }

    pub(crate) fn browse(&mut self, now: Instant, wanted: &Wanted) {
        self.querier.browse(now, wanted);
    }

    pub(crate) fn stop_browse(&mut self, wanted: &Wanted) {
        self.querier.stop(wanted);
    }

    pub(crate) fn ask(&mut self, now: Instant, wanted: &Wanted) {
        self.querier.ask(now, wanted);
    }

    /// Takes in a packet that came to the group on this link.
    pub(crate) fn receive(&mut self, now: Instant, link: LinkId, source: SocketAddr, packet: &[u8]) {
        // Responses come from the port of mDNS; any program can send from another (RFC 6762 §6).
        let is_response = packet.get(2).is_some_and(|flags| flags & RESPONSE != 0);
        if is_response && source.port() != self.port {
            return;
        }
        let Some(message) = Message::read(packet) else { return };
        let is_own = self.outbox.is_own(now, packet);
        self.responder.receive(now, link, source, &message, is_own, &mut self.outbox);
        self.querier.receive(now, link, &message);
    }

    /// The socket has taken a packet, or has not.
    pub(crate) fn transmitted(&mut self, now: Instant, link: LinkId, goodbyes: &[EntryId], is_sent: bool) {
        self.responder.transmitted(now, link, goodbyes, is_sent);
    }

    /// What others have made it keep.
    pub(crate) fn load(&self) -> Load {
        Load {
            waiting_entries: self.responder.waiting_entries(),
            cache_bytes: self.querier.kept_bytes(),
            packets: self.outbox.waiting(),
            timers: self.responder.timers(),
        }
    }

    /// When [`Machine::tick`] has something to do.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = [self.responder.next_due(), self.querier.next_due(), self.outbox.next_due(now)];
        due.into_iter().flatten().min()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.responder.tick(now, &mut self.outbox);
        self.querier.tick(now, &mut self.outbox);
    }

    /// The next packet that may leave.
    pub(crate) fn next_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.outbox.next(now)
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.responder.take_events()
    }

    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        self.querier.take_findings()
    }
}

#[cfg(test)]
mod tests;
