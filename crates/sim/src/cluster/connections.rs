//! The connections that are open at a node: its word for all of them, again and again, until it is heard; those that are
//! gone; and what becomes of them when the leader was not heard for too long. As the product's `faces/connections.rs`.

use super::node::Life;
use super::world::{Happening, World};
use std::collections::BTreeMap;
use tenure_engine::{Answer, LeaseFound, Request};
use tenure_kernel::{LeaseId, LeaseState, SessionId};

/// Connections of one run of a node, whatever part it plays.
#[derive(Default)]
pub(super) struct Connections {
    open: BTreeMap<SessionId, Open>,
    /// Closed, and not told yet.
    gone: BTreeMap<SessionId, Gone>,
    telling: Option<Telling>,
    due_ms: u64,
    /// Something has to be told before its time.
    is_news: bool,
}

/// A connection that is closed.
#[derive(Clone, Copy)]
struct Gone {
    /// In boot time.
    since_ms: u64,
    /// Its holder closed it.
    is_left: bool,
}

/// A connection that is open here.
pub(super) struct Open {
    holder: usize,
    /// It has asked for something that it would keep.
    is_used: bool,
    /// Until when the leader takes it for open; `None` while it keeps nothing.
    trust_until_ms: Option<u64>,
}

/// What is being told.
struct Telling {
    sent_ms: u64,
    /// The word for open ones.
    word: Option<u64>,
    /// Open ones, and whether they were known to keep something.
    open: Vec<(SessionId, bool)>,
    gone: BTreeMap<u64, SessionId>,
}

/// Durations that the product takes of a word of ten seconds, as parts of this one.
#[derive(Clone, Copy)]
struct Word {
    /// How long the node relies on having been heard.
    trust_ms: u64,
    tell_every_ms: u64,
    told_within_ms: u64,
    /// How long one who waited for its first lease may rely on it before the first word was heard.
    first_ms: u64,
}

impl Word {
    fn lasting(word_ms: u64) -> Self {
        Self {
            trust_ms: word_ms - word_ms / 100,
            tell_every_ms: word_ms / 5,
            told_within_ms: word_ms / 4,
            first_ms: word_ms * 3 / 10,
        }
    }
}

impl Connections {
    pub(super) fn open(&mut self, session: SessionId, holder: usize) {
        self.open.insert(session, Open { holder, is_used: false, trust_until_ms: None });
    }

    /// A connection asks. `false`: it is not open here any more.
    pub(super) fn asks(&mut self, session: SessionId, request: &Request) -> bool {
        let Some(open) = self.open.get_mut(&session) else { return false };
        open.is_used |= matches!(request, Request::Submit(submit) if submit.opening.is_some());
        true
    }

    /// Everybody whose connection is open here.
    pub(super) fn holders(&self) -> impl Iterator<Item = (usize, SessionId)> {
        self.open.iter().map(|(session, open)| (open.holder, *session))
    }

    pub(super) fn holder_of(&self, session: SessionId) -> Option<usize> {
        self.open.get(&session).map(|open| open.holder)
    }

    /// What a connection was answered to what was asked for it last at this instant. `false`: it is closed.
    fn answered(
        &mut self,
        session: SessionId,
        sent_ms: u64,
        now_ms: u64,
        word: Word,
        answer: &Answer,
    ) -> bool {
        let Some(open) = self.open.get_mut(&session) else { return false };
        if let Answer::Lease(answer) = answer
            && let LeaseFound::Live(lease) = &answer.lease
            && !matches!(lease.state, LeaseState::Revoking(_))
            && lease.policy.session == Some(session)
            && open.trust_until_ms.is_none()
        {
            open.trust_until_ms = Some((sent_ms + word.trust_ms).max(now_ms + word.first_ms));
            self.is_news = true;
        }
        true
    }

    /// A connection is closed, by its holder or by this node. Whose it was, if it was open.
    pub(super) fn close(&mut self, session: SessionId, now_ms: u64, is_left: bool) -> Option<usize> {
        let open = self.open.remove(&session)?;
        if open.is_used {
            self.gone.insert(session, Gone { since_ms: now_ms, is_left });
            self.is_news = true;
        }
        Some(open.holder)
    }

    fn untrusted(&self, now_ms: u64) -> Vec<SessionId> {
        let is_over = |open: &Open| open.trust_until_ms.is_some_and(|until_ms| now_ms >= until_ms);
        self.open.iter().filter(|(_, open)| is_over(open)).map(|(session, _)| *session).collect()
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.gone.is_empty() && self.telling.is_none()
    }

    /// When something is next to be done, in boot time.
    fn next_ms(&self, word: Word) -> Option<u64> {
        let has_news = !self.gone.is_empty() || self.open.values().any(|open| open.is_used);
        let tells = match &self.telling {
            Some(telling) => Some(telling.sent_ms + word.told_within_ms),
            None => has_news.then_some(self.due_ms),
        };
        let trusts = self.open.values().filter_map(|open| open.trust_until_ms).min();
        tells.into_iter().chain(trusts).min()
    }
}

impl World {
    fn word(&self) -> Word {
        Word::lasting(self.profile.word_ms)
    }

    /// A connection is told what it asked. `false`: it is closed, and nobody hears it.
    pub(super) fn connection_answered(
        &mut self,
        node: usize,
        life: &mut Life,
        session: SessionId,
        sent_ms: u64,
        answer: &Answer,
    ) -> bool {
        let (now_ms, word) = (self.boot_ms(node), self.word());
        life.connections.answered(session, sent_ms, now_ms, word, answer)
    }

    /// Hangs up where the word is over, and gives it where it is time.
    pub(super) fn tend_connections(&mut self, node: usize, life: &mut Life) {
        if life.connections.is_idle() {
            return;
        }
        let (now_ms, word) = (self.boot_ms(node), self.word());
        for session in life.connections.untrusted(now_ms) {
            self.hang_up_on(node, life, session);
        }
        let connections = &mut life.connections;
        // The leader has noticed by itself.
        connections.gone.retain(|_, gone| now_ms < gone.since_ms + self.profile.word_ms);
        let late = connections.telling.take_if(|telling| now_ms >= telling.sent_ms + word.told_within_ms);
        if let Some(telling) = late {
            for pass in telling.word.iter().chain(telling.gone.keys()) {
                life.passes.remove(pass);
            }
            life.connections.due_ms = now_ms;
        }
        let connections = &mut life.connections;
        if connections.telling.is_none() && (connections.is_news || now_ms >= connections.due_ms) {
            (connections.is_news, connections.due_ms) = (false, now_ms + word.tell_every_ms);
            self.tell_of_connections(node, life, now_ms);
        }
        if let Some(at_ms) = life.connections.next_ms(word) {
            self.wake_at_boot(node, life, at_ms);
        }
    }

    fn tell_of_connections(&mut self, node: usize, life: &mut Life, now_ms: u64) {
        let used = life.connections.open.iter().filter(|(_, open)| open.is_used);
        let open: Vec<_> = used.map(|(session, open)| (*session, open.trust_until_ms.is_some())).collect();
        let gone: Vec<(SessionId, Gone)> =
            life.connections.gone.iter().map(|(session, gone)| (*session, *gone)).collect();
        if open.is_empty() && gone.is_empty() {
            return;
        }
        let close = |(session, gone): (SessionId, Gone)| {
            let left = if gone.is_left { vec![session] } else { Vec::new() };
            (Request::ConnectionsTold { open: Vec::new(), gone: vec![session], left }, session)
        };
        let gone = gone.into_iter().map(close).map(|(request, session)| {
            let pass = self.pass_own(node, life, request);
            (pass, session)
        });
        let gone = gone.collect();
        let sessions: Vec<SessionId> = open.iter().map(|(session, _)| *session).collect();
        let word = (!open.is_empty()).then(|| {
            let (gone, left) = (Vec::new(), Vec::new());
            self.pass_own(node, life, Request::ConnectionsTold { open: sessions, gone, left })
        });
        life.connections.telling = Some(Telling { sent_ms: now_ms, word, open, gone });
    }

    /// The leader's answer to this node's report.
    pub(super) fn connections_heard(&mut self, node: usize, life: &mut Life, pass: u64, answer: &Answer) {
        let word = self.word();
        let connections = &mut life.connections;
        let Some(telling) = &mut connections.telling else { return };
        let mut over = Vec::new();
        if telling.word == Some(pass) {
            telling.word = None;
            if let Answer::ConnectionsKept { unknown } = answer {
                self.tally.words += 1;
                for (session, kept_something) in &telling.open {
                    let Some(open) = connections.open.get_mut(session) else { continue };
                    if !unknown.contains(session) {
                        open.trust_until_ms = Some(telling.sent_ms + word.trust_ms);
                    } else if *kept_something {
                        over.push(*session);
                    }
                }
            }
        }
        if let Some(session) = telling.gone.remove(&pass)
            && matches!(answer, Answer::ConnectionsKept { .. })
        {
            connections.gone.remove(&session);
            self.tally.connections_gone += 1;
        }
        if telling.word.is_none() && telling.gone.is_empty() {
            connections.telling = None;
        }
        for session in over {
            self.hang_up_on(node, life, session);
        }
    }

    /// From here on others may be given what this connection keeps: its holder is told.
    pub(super) fn hang_up_on(&mut self, node: usize, life: &mut Life, session: SessionId) {
        let now_ms = self.boot_ms(node);
        let Some(holder) = life.connections.close(session, now_ms, false) else { return };
        self.tally.hung_up += 1;
        self.tell(node, format_args!("hangs up on connection {session}"));
        let wait = self.line_delay(node);
        self.at(wait, Happening::HungUp { holder, session, is_told: true });
    }

    /// A lease of a connection was lost, which may be open here.
    pub(super) fn pass_loss_on(&mut self, node: usize, life: &Life, session: SessionId, lease: LeaseId) {
        if let Some(holder) = life.connections.holder_of(session) {
            let wait = self.line_delay(node);
            self.at(wait, Happening::LossTold { holder, session, lease });
        }
    }

    /// How long it takes until the other end of a connection hears something: it is sent again while nobody gets through.
    pub(super) fn line_delay(&mut self, node: usize) -> u64 {
        let cut = self.nodes[node].links.others.saturating_sub(self.now);
        cut + self.random.within(0..=self.faults().delay_ms_max)
    }
}
