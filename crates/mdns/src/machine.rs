//! Responder and querier over the same packets. Packets, time and wishes come in as values; what is to be sent and what is
//! to be told is left to be taken: nothing here waits, reads a clock or touches a socket.

use core::time::Duration;
use std::collections::BTreeMap;
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
    /// Links whose sockets take nothing. To the responder they are away.
    stuck: BTreeMap<LinkId, Link>,
    stuck_logged_at: Option<Instant>,
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

const LOG_EVERY: Duration = Duration::from_secs(60);
/// The QR bit of the third byte.
const RESPONSE: u8 = 0x80;

impl Machine {
    pub(crate) fn new(port: u16, seed: u64) -> Self {
        Self {
            responder: Responder::new(port, Random::new(seed)),
            querier: Querier::new(Random::new(!seed)),
            outbox: Outbox::new(),
            stuck: BTreeMap::new(),
            stuck_logged_at: None,
            port,
        }
    }

    pub(crate) fn link_up(&mut self, now: Instant, link: Link) {
        self.outbox.add(now, link.id);
        self.querier.link_up(now, &link);
        self.responder.link_up(now, link);
    }

    pub(crate) fn link_down(&mut self, now: Instant, link: LinkId) {
        self.outbox.remove(link);
        self.querier.link_down(link);
        self.stuck.remove(&link);
        let _ = self.responder.link_down(now, link);
    }

    pub(crate) fn link_changed(&mut self, now: Instant, link: Link) {
        match self.stuck.get_mut(&link.id) {
            Some(stuck) => *stuck = link,
            None => self.responder.link_changed(now, link),
        }
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

    /// The socket takes no packet now, and so not this one. No other link waits for it.
    pub(crate) fn not_taken(&mut self, now: Instant, transmit: Transmit) {
        self.outbox.put_back(now, transmit);
    }

    /// The socket takes packets again.
    pub(crate) fn takes_again(&mut self, now: Instant, link: LinkId) {
        self.outbox.unblock(link);
        if let Some(link) = self.stuck.remove(&link) {
            self.outbox.add(now, link.id);
            self.responder.link_up(now, link);
            self.querier.ask_all(now);
        }
    }

    /// A link that takes nothing is as good as away, until it takes packets again: other hosts may have taken its names.
    fn set_stuck(&mut self, now: Instant, link: LinkId) {
        self.outbox.remove(link);
        let Some(link) = self.responder.link_down(now, link) else { return };
        if self.stuck_logged_at.is_none_or(|at| at + LOG_EVERY <= now) {
            self.stuck_logged_at = Some(now);
            let (interface, family) = (&link.interface, link.family);
            tracing::warn!(
                interface,
                ?family,
                "a network interface takes no mDNS packets; waiting until it does"
            );
        }
        self.stuck.insert(link.id, link);
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
        while let Some(link) = self.outbox.stuck(now) {
            self.set_stuck(now, link);
        }
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
