//! Conversations: connections that open, break and resume, sessions kept by hand.

use crate::clients::{ByHand, Connection, Hand};
use crate::happening::Happening;
use crate::network::Purpose;
use crate::world::World;
use tenure_engine::{Control, Keeper, Request, Submit};
use tenure_kernel::{Action, Lsn, Mode, OpenSession, Reason, Rebind, SessionId, SessionKind, Token};

impl World {
    fn new_session(&mut self) -> SessionId {
        self.next_session += 1;
        SessionId(self.next_session << 8 | self.random.below(256))
    }

    pub(crate) fn connect_or_close(&mut self, client: usize) {
        if let Some(connection) = self.clients[client].connection.clone() {
            if self.random.chance(350) {
                self.resume_anothers(client, connection.session);
            } else if self.random.chance(250) {
                self.close_noticed(client, &connection);
                self.connection_lost(client, connection.session);
            }
            return;
        }
        if self.daemon.is_none() {
            return;
        }
        let session = self.new_session();
        let grace_ms = self.random.within(0..=self.profile.grace_ms_max);
        let (now, incarnation) = (self.now, self.incarnation);
        let connection = Connection { session, incarnation, grace_ms, last_arrival: now };
        self.clients[client].connection = Some(connection);
        let open = OpenSession {
            session,
            holder: self.clients[client].name.clone(),
            kind: SessionKind::Connection,
            ttl_ms: 0,
            grace_ms: grace_ms as u32,
            principal: self.clients[client].principal.clone(),
            accepts_handover: None,
        };
        self.say_over(client, Request::ConnectionOpened(open), Purpose::Other);
        self.resume(client, session);
    }

    /// The daemon notices the end of a connection behind everything that was sent over it.
    pub(crate) fn close_noticed(&mut self, client: usize, connection: &Connection) {
        debug_assert!(!self.clients[client].dead);
        let wait = (self.now + self.delay()).max(connection.last_arrival) - self.now;
        let control = Control::ConnectionClosed(connection.session);
        self.at(wait, Happening::Told { incarnation: connection.incarnation, control });
    }

    /// Leases of a connection that broke come back by the new one.
    fn resume(&mut self, client: usize, session: SessionId) {
        let lost = |hand: &Hand| hand.mode == Mode::Session && hand.valid_until.is_none() && !hand.reserved;
        let Some(hand) = self.some_hand(client, lost) else { return };
        let rebind = Rebind::keeping(self.token(client, &hand));
        let purpose = Purpose::Rebind { lease: hand.lease, to: client };
        let (keeper, via) = (Some(Keeper::Connection), Some(session));
        let submit = Submit { keeper, via, ..Submit::now(Action::Rebind(rebind)) };
        self.submit(client, Some(hand.tag), submit, purpose, true);
    }

    /// A second program with the token of the first: it asks for a lease that another one's connection keeps.
    fn resume_anothers(&mut self, client: usize, session: SessionId) {
        let others = self.clients.iter().enumerate().filter(|(number, _)| *number != client);
        let hands = others.flat_map(|(_, other)| {
            let connection = other.connection.as_ref().map(|connection| connection.session);
            other.hands.iter().filter(move |hand| hand.session.is_some() && hand.session == connection)
        });
        let hands: Vec<Hand> = hands.filter(|hand| !hand.reserved).cloned().collect();
        let Some(hand) = self.random.index(hands.len()).map(|index| &hands[index]) else { return };
        let rebind = Rebind::keeping(Token::new(hand.lease, hand.epoch));
        let (keeper, via) = (Some(Keeper::Connection), Some(session));
        let submit = Submit { keeper, via, ..Submit::now(Action::Rebind(rebind)) };
        self.submit(client, Some(hand.tag), submit, Purpose::Other, true);
    }

    pub(crate) fn session_by_hand(&mut self, client: usize) {
        if let Some(by_hand) = self.clients[client].session.clone() {
            if self.random.chance(150) {
                for hand in self.clients[client].hands.clone() {
                    if hand.session == Some(by_hand.session) {
                        self.clients[client].stop(hand.tag, hand.lease);
                    }
                }
                self.clients[client].session = None;
                self.clients[client].closed.insert(by_hand.session);
                let close = Action::CloseSession { session: by_hand.session, reason: Reason::Explicit };
                self.submit(client, None, Submit::now(close), Purpose::Other, false);
            }
            return;
        }
        let session = self.new_session();
        let ttl_ms = self.random.within(1_000..=self.profile.ttl_ms_max);
        let grace_ms = self.random.within(0..=self.profile.grace_ms_max);
        self.clients[client].session =
            Some(ByHand { session, ttl_ms, grace_ms, seen: Lsn(0), confirmed: None });
        let open = OpenSession {
            session,
            holder: self.clients[client].name.clone(),
            kind: SessionKind::ByHand,
            ttl_ms: ttl_ms as u32,
            grace_ms: grace_ms as u32,
            principal: self.clients[client].principal.clone(),
            accepts_handover: None,
        };
        let purpose = Purpose::OpenSession(session);
        self.submit(client, None, Submit::now(Action::OpenSession(open)), purpose, false);
    }
}
