//! What clients do next: take, renew, hand over, give back, and now and then something they should not.

use crate::clients::{Hand, OldToken};
use crate::happening::Happening;
use crate::network::{Call, Caller, Purpose};
use crate::world::World;
use tenure_engine::{Check, Control, List, OperationId, Request, Submit, TakeOver, Ticket};
use tenure_kernel::names::pool_member;
use tenure_kernel::{
    Action, Amend, Bundle, Face, Fence, Grant, LeaseId, Lsn, Member, Policy, Rebind, ReclaimRule, Release,
    SessionId, Start, Text, Token,
};

impl World {
    /// One act of a client; the next one is planned.
    pub(crate) fn act(&mut self, client: usize) {
        if self.clients[client].dead {
            return;
        }
        let pause = self.clients[client].paused_until.saturating_sub(self.now);
        if pause > 0 {
            self.at(pause, Happening::Act(client));
            return;
        }
        self.prove_life(client);
        self.do_something(client);
        let wait = self.random.within(20..=self.profile.act_ms_max);
        self.at(wait, Happening::Act(client));
    }

    fn do_something(&mut self, client: usize) {
        let work = self.profile.work;
        match self.random.below(100) {
            0..45 => self.grant(client),
            45..57 => self.release(client),
            57..63 if work.rebinds => self.rebind(client),
            63..67 if work.amends => self.amend(client),
            67..75 if work.connections => self.connect_or_close(client),
            75..79 if work.sessions => self.session_by_hand(client),
            79..86 if work.stale => self.act_on_old_token(client),
            86..90 if work.reservations => self.activate(client),
            90..92 if work.waits => self.cancel(client),
            92..97 => self.look(client),
            _ => self.activate(client),
        }
    }

    /// A bundle of few names, so that clients meet.
    fn bundle(&mut self) -> Bundle {
        let work = self.profile.work;
        if self.profile.pools > 0 && self.random.chance(300) {
            let pool = self.pool();
            let mut bundle = Bundle::any_of(&pool, self.random.within(1..=2) as u32);
            if work.bundles && self.random.chance(300) {
                bundle.members.push(Member::Resource(self.resource()));
            }
            return bundle;
        }
        let mut names = vec![self.resource()];
        if work.bundles {
            for _ in 0..self.random.below(3) {
                let name = self.resource();
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Bundle { members: names.into_iter().map(Member::Resource).collect() }
    }

    /// A name of its own, or that of a member of a pool, whether there is such a member or not.
    fn resource(&mut self) -> Text {
        if self.profile.pools > 0 && self.random.chance(300) {
            return pool_member(&self.pool(), self.random.within(1..=4) as u32);
        }
        format!("r{}", self.random.below(self.profile.resources)).into()
    }

    fn pool(&mut self) -> Text {
        format!("pool{}", self.random.below(self.profile.pools)).into()
    }

    fn policy(&mut self, client: usize) -> Policy {
        let work = self.profile.work;
        let ttl_ms = self.random.within(1_000..=self.profile.ttl_ms_max) as u32;
        let grace_ms = self.random.within(0..=self.profile.grace_ms_max) as u32;
        let holder = &self.clients[client];
        let connection =
            holder.connection.as_ref().map(|connection| (connection.session, connection.grace_ms));
        let session = holder.session.as_ref().filter(|by_hand| by_hand.confirmed.is_some()).cloned();
        let principal = holder.principal.clone();
        let mut policy = match self.random.below(10) {
            0 if work.permanent => Policy::permanent(),
            1..4 if connection.is_some() => {
                let (session, grace_ms) = connection.unwrap_or((SessionId(0), 0));
                Policy::session(session, 0, grace_ms as u32)
            }
            4..7 if session.is_some() => {
                let by_hand = session.map_or((SessionId(0), 0, 0), |by_hand| {
                    (by_hand.session, by_hand.ttl_ms, by_hand.grace_ms)
                });
                Policy::session(by_hand.0, by_hand.1 as u32, by_hand.2 as u32)
            }
            _ => Policy::heartbeat(ttl_ms, grace_ms),
        };
        policy.principal = principal;
        policy.gate = work.gates && self.random.chance(300);
        policy.notice = work.notices && self.random.chance(300);
        if work.at_once && self.random.chance(200) {
            policy.reclaim_rule = ReclaimRule::AtOnce;
        }
        if work.lifetimes && self.random.chance(200) {
            policy.max_lifetime_ms = self.random.within(500..=8_000);
        }
        if work.delays && self.random.chance(300) {
            policy.reclaim_delay_ms = self.random.within(1..=4_000) as u32;
        }
        policy.face = if self.random.chance(800) { Face::Leases } else { Face::Streams };
        policy
    }

    fn grant(&mut self, client: usize) {
        let work = self.profile.work;
        if self.clients[client].hands.len() > 6 || self.clients[client].waiting.len() > 6 {
            return;
        }
        let bundle = self.bundle();
        let policy = self.policy(client);
        let name = self.clients[client].name.clone();
        let mut grant = Grant::new(bundle, &name, policy);
        // The operation's number links the event to the request, whatever the ticket.
        grant.attachment = self.next_operation.to_le_bytes().to_vec();
        if work.reservations && self.random.chance(250) {
            grant.start = Start::Reserved { ttl_ms: self.random.within(300..=4_000) };
        }
        if self.random.chance(150) {
            grant.alternatives = vec![self.bundle()];
        }
        let mut take_over = Vec::new();
        if work.take_over && self.random.chance(200) {
            grant.take_over = self.draining_lease();
        } else if work.take_over && self.random.chance(200) {
            take_over = self.offers();
        }
        let wait_ms = match self.random.below(10) {
            0..6 if work.waits => self.random.within(200..=6_000),
            6 if work.waits => self.random.within(30_000..=60_000),
            _ => 0,
        };
        let over_connection = grant.policy.session.is_some()
            && self.clients[client].connection.as_ref().map(|connection| connection.session)
                == grant.policy.session;
        let submit = Submit { wait_ms, take_over, ..Submit::now(Action::Grant(grant)) };
        self.submit(client, None, submit, Purpose::Grant, over_connection);
    }

    /// Leases of which a face would take over the first that drains, whether any does or not.
    fn offers(&mut self) -> Vec<TakeOver> {
        let Some(daemon) = self.daemon.as_ref() else { return Vec::new() };
        let leases: Vec<LeaseId> =
            daemon.engine().kernel().leases_from(LeaseId(0)).map(|view| view.id()).collect();
        let count = self.random.within(1..=4);
        (0..count)
            .filter_map(|_| self.random.index(leases.len()))
            .map(|index| TakeOver { lease: leases[index], face_data: vec![7; 9] })
            .collect()
    }

    /// A lease that liveness says is draining: what a face may take over.
    fn draining_lease(&mut self) -> Option<LeaseId> {
        let daemon = self.daemon.as_ref()?;
        let tick = daemon.engine().tick();
        let draining: Vec<LeaseId> = daemon
            .engine()
            .kernel()
            .leases_from(LeaseId(0))
            .filter(|view| {
                let standing = daemon.engine().liveness().view(*view, tick).standing;
                matches!(standing, Some(tenure_liveness::Standing::Draining(_)))
            })
            .map(|view| view.id())
            .collect();
        self.random.index(draining.len()).map(|index| draining[index])
    }

    pub(crate) fn some_hand(&mut self, client: usize, wanted: impl Fn(&Hand) -> bool) -> Option<Hand> {
        let hands: Vec<Hand> =
            self.clients[client].hands.iter().filter(|hand| wanted(hand)).cloned().collect();
        self.random.index(hands.len()).map(|index| hands[index].clone())
    }

    pub(crate) fn token(&mut self, client: usize, hand: &Hand) -> Token {
        let mut token = Token::new(hand.lease, hand.epoch);
        if self.random.chance(300) {
            token.holder = Some(self.clients[client].name.clone());
        }
        token
    }

    fn release(&mut self, client: usize) {
        if let Some(hand) = self.some_hand(client, |_| true) {
            self.give_back(client, &hand);
        }
    }

    pub(crate) fn give_back(&mut self, client: usize, hand: &Hand) {
        let release = Release { token: self.token(client, hand), text: Text::default() };
        // From the moment it asks, it does not act on it any more.
        self.clients[client].stop(hand.tag, hand.lease);
        self.submit(client, Some(hand.tag), Submit::now(Action::Release(release)), Purpose::Other, false);
    }

    fn activate(&mut self, client: usize) {
        let Some(hand) = self.some_hand(client, |hand| hand.reserved) else { return };
        let token = self.token(client, &hand);
        let purpose = Purpose::Activate(hand.lease);
        self.submit(client, Some(hand.tag), Submit::now(Action::Activate(token)), purpose, false);
    }

    fn rebind(&mut self, client: usize) {
        let Some(hand) = self.some_hand(client, |hand| !hand.reserved) else { return };
        let to = if self.random.chance(500) {
            client
        } else {
            self.random.below(self.clients.len() as u64) as usize
        };
        // Another client's lease must not hang on a session of this one.
        let keep = to == client && self.random.chance(300);
        let mut policy = if keep { None } else { Some(self.policy(to)) };
        // One that gives its lease to another may go on acting for as long as it was promised.
        let goes_on = to != client && self.random.chance(500);
        if !goes_on {
            self.clients[client].stop(hand.tag, hand.lease);
        } else if self.random.chance(400) {
            // Its terms promise nothing, and a restart has to know that those before it did.
            policy.iter_mut().for_each(|policy| policy.reclaim_rule = ReclaimRule::AtOnce);
            self.restart_shortly();
        }
        let rebind = Rebind {
            token: self.token(client, &hand),
            holder: Some(self.clients[to].name.clone()),
            policy,
            attachment: None,
            face_data: None,
        };
        let purpose = Purpose::Rebind { lease: hand.lease, to };
        // Over its connection or beside it.
        let over = self.random.chance(500);
        let connection = self.clients[client].connection.as_ref().filter(|_| over);
        let via = connection.map(|connection| connection.session);
        let asker = Some(self.clients[client].principal.clone());
        let submit = Submit { via, asker, ..Submit::now(Action::Rebind(rebind)) };
        self.submit(client, Some(hand.tag), submit, purpose, via.is_some());
    }

    fn amend(&mut self, client: usize) {
        let Some(hand) = self.some_hand(client, |_| true) else { return };
        let amend = Amend {
            token: self.token(client, &hand),
            attachment: Some(vec![7; self.random.below(64) as usize]),
            face_data: None,
        };
        self.submit(client, Some(hand.tag), Submit::now(Action::Amend(amend)), Purpose::Other, false);
    }

    /// A holder that slept, or a late message: an old token is presented once more.
    fn act_on_old_token(&mut self, client: usize) {
        let old = self.clients[client].old.clone();
        let Some(index) = self.random.index(old.len()) else { return };
        let OldToken { tag, lease, epoch } = old[index];
        let token = Token::new(lease, epoch);
        let action = match self.random.below(9) {
            0 => Action::Release(Release { token, text: Text::default() }),
            1 => Action::Activate(token),
            2 => Action::Amend(Amend { token, attachment: Some(vec![1]), face_data: None }),
            3 => Action::Rebind(Rebind {
                token,
                holder: None,
                policy: None,
                attachment: None,
                face_data: None,
            }),
            4 => {
                let epoch = self.random.chance(700).then_some(epoch);
                let request = Request::TimelyHeartbeat { lease, epoch, asker: None };
                return self.say(client, tag, request, Purpose::Other);
            }
            5 => {
                let request = Request::Heartbeat { lease, epoch, via: None, asker: None };
                return self.say(client, tag, request, Purpose::Other);
            }
            _ => {
                let request = Request::Acknowledge { lease, epoch, asker: None };
                return self.say(client, tag, request, Purpose::Other);
            }
        };
        self.submit(client, Some(tag), Submit::now(action), Purpose::Other, false);
    }

    /// A wait is interrupted, and often asked again: the new try may come first.
    fn cancel(&mut self, client: usize) {
        let Some(ticket) = self.waiting_ticket(client) else { return };
        let (wait, incarnation) = (self.delay(), self.incarnation);
        self.at(wait, Happening::Told { incarnation, control: Control::Cancel(ticket) });
        let asked = self.daemon.as_ref().and_then(|daemon| daemon.asks.get(&ticket)).map(|ask| ask.call);
        if let Some(call) = asked
            && self.random.chance(500)
        {
            self.try_again(call);
        }
    }

    /// A request of this client that waits.
    fn waiting_ticket(&self, client: usize) -> Option<Ticket> {
        let waiting = &self.clients[client].waiting;
        let ticket = self.daemon.as_ref()?.asks.iter().find(|(_, ask)| {
            let waits = matches!(&ask.request, Request::Submit(submit) if submit.wait_ms > 0);
            waits && waiting.contains(&ask.call)
        });
        ticket.map(|(ticket, _)| *ticket)
    }

    /// Reads, which must never show what is not durable.
    fn look(&mut self, client: usize) {
        let tag = self.tag();
        let hand = self.some_hand(client, |_| true);
        let request = match (self.random.below(8), hand) {
            (0, Some(hand)) => return self.say(client, hand.tag, Request::Read(hand.lease), Purpose::Other),
            (1, Some(hand)) => {
                let check = Check::Epoch { lease: hand.lease, epoch: hand.epoch };
                return self.say(client, hand.tag, Request::Check(check), Purpose::Other);
            }
            (2, Some(hand)) => {
                let check = Check::Fence { resource: hand.members[0].clone(), fence: Fence(hand.fence.0) };
                return self.say(client, hand.tag, Request::Check(check), Purpose::Other);
            }
            (3, _) => Request::Resource(self.resource()),
            (4, _) => Request::List(List { from: LeaseId(0), limit: 5, resource_prefix: None, holder: None }),
            (5, _) => Request::Sessions { from: SessionId(0), limit: 5 },
            (6, _) if self.profile.work.watches => Request::Watch { from: Lsn(1) },
            (7, _) => self.waiting_ticket(client).map_or(Request::Status, Request::Waiting),
            _ => Request::Status,
        };
        self.say(client, tag, request, Purpose::Other);
    }

    /// Sends something that is no command.
    pub(crate) fn say(&mut self, client: usize, tag: u32, request: Request, purpose: Purpose) {
        let call = call_of(client, request, Some(tag), purpose);
        self.send(call);
    }

    /// As `say`, for what names nothing of a log.
    pub(crate) fn say_plain(&mut self, client: usize, request: Request, purpose: Purpose) {
        let call = call_of(client, request, None, purpose);
        self.send(call);
    }

    /// As `say`, over the client's connection.
    pub(crate) fn say_over(&mut self, client: usize, request: Request, purpose: Purpose) {
        let mut call = call_of(client, request, None, purpose);
        call.via = self.via(client);
        self.send(call);
    }

    fn via(&self, client: usize) -> Option<(SessionId, u64)> {
        let connection = self.clients[client].connection.as_ref();
        connection.map(|connection| (connection.session, connection.incarnation))
    }

    pub(crate) fn submit(
        &mut self,
        client: usize,
        tag: Option<u32>,
        submit: Submit,
        purpose: Purpose,
        over_connection: bool,
    ) {
        let number = self.next_operation;
        self.next_operation += 1;
        let operation = self.random.chance(600).then(|| {
            let principal = self.clients[client].principal.clone();
            OperationId {
                asked: self.random.chance(300).then_some(number),
                tries_again: self.random.chance(300),
                ..OperationId::new(principal, format!("op{number}").into(), 10 * 60 * 1000)
            }
        });
        let submit = Submit { operation, ..submit };
        let mut call = call_of(client, Request::Submit(submit), tag, purpose);
        if over_connection {
            call.via = self.via(client);
        }
        self.send(call);
    }
}

fn call_of(client: usize, request: Request, tag: Option<u32>, purpose: Purpose) -> Call {
    Call { caller: Caller::Client(client), request, tag, via: None, purpose, tries: 0, settled: false }
}
