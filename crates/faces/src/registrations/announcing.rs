//! What a node does for the registrations whose home it is, whatever part it plays: it advertises what its copy of the
//! log says is live, says goodbye when that ends, and tells whoever writes. When it has not been heard for as long as it
//! was promised, others take it for gone: it withdraws everything by itself.

use super::facts::Facts;
use super::home::{Home, NodeHeard, NodeTold, PROMISE_MS, Said, written};
use super::network::{Goodbye, Network, Renamed, Service};
use super::{key, service_of};
use crate::call::{Call, Reply};
use crate::caller::Caller;
use crate::dispatch::Faces;
use crate::stage::Stage;
use crate::switchboard::WatchNews;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::names::REGISTRATIONS_PREFIX;
use tenure_engine::kernel::{Change, Face, LeaseId, LeaseState, Lsn};
use tenure_engine::liveness::valid_ms;
use tenure_engine::{Answer, Control, LeaseFound, LeaseSnapshot, List, News, Published, Request, Ticket};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

/// How often a node is heard.
const TELL_EVERY_MS: u64 = 2_000;
/// How often it is looked whether something is due.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How late it may be to look.
const MARGIN_MS: u64 = 50;
/// How long a node trusts that it was heard, as any holder does.
const TRUST_MS: u64 = valid_ms(PROMISE_MS) - MARGIN_MS;
/// The same while there is something to tell.
const NEWS_EVERY_MS: u64 = 100;
/// Leases read at once.
const PAGE: usize = 500;
/// Events that may be on their way.
const ROOM: usize = 256;
/// Goodbyes told at once.
const SAID_MAX: usize = 1_000;

/// The registrations whose home a node is.
pub struct Announcing {
    stage: Stage,
    network: Arc<dyn Network>,
    home: Home,
    /// Every registration, whoever advertises it: other leases concern nobody here.
    known: BTreeSet<LeaseId>,
    /// What this node advertises.
    advertised: BTreeMap<LeaseId, Service>,
    /// Goodbyes that are said, and told until what they were said for is over.
    said: BTreeSet<(LeaseId, String)>,
    saying: BTreeSet<(LeaseId, String)>,
    goodbyes: JoinSet<(LeaseId, String, Goodbye)>,
    renamed: Vec<Renamed>,
    /// News for whoever writes.
    is_news: bool,
    telling: JoinSet<Told>,
    told_ms: u64,
    /// Until when it may advertise.
    trust_until_ms: u64,
    /// What has to be known before it advertises; `None`: it was not heard.
    knows_from: Option<Lsn>,
    may_advertise: bool,
}

/// What became of telling whoever writes.
struct Told {
    sent_ms: u64,
    what: NodeTold,
    heard: Option<NodeHeard>,
}

/// A watch over the log of one part.
struct Watching {
    faces: Faces,
    watch: Ticket,
    news: UnboundedReceiver<WatchNews>,
    taken: usize,
}

impl Announcing {
    /// Nothing is advertised yet.
    #[must_use]
    pub fn new(stage: Stage, network: Arc<dyn Network>, home: Home) -> Self {
        Self {
            stage,
            network,
            home,
            known: BTreeSet::new(),
            advertised: BTreeMap::new(),
            said: BTreeSet::new(),
            saying: BTreeSet::new(),
            goodbyes: JoinSet::new(),
            renamed: Vec::new(),
            is_news: false,
            telling: JoinSet::new(),
            told_ms: 0,
            trust_until_ms: 0,
            knows_from: None,
            may_advertise: false,
        }
    }

    /// Goes on until it is dropped.
    pub async fn run(mut self) {
        let mut changes = self.stage.changes();
        let mut renames = self.network.take_renames();
        loop {
            changes.mark_unchanged();
            let Some(mut watching) = self.begin().await else {
                // This part ends; the next one begins in a moment.
                self.look().await;
                let _ = tokio::time::timeout(LOOK_EVERY, changes.changed()).await;
                continue;
            };
            let mut looks = tokio::time::interval(LOOK_EVERY);
            loop {
                watching.make_room();
                tokio::select! {
                    news = watching.news.recv() => match news {
                        Some(WatchNews::Events(events)) => self.follow(&mut watching, &events).await,
                        Some(WatchNews::Lagged(_) | WatchNews::Trimmed(_)) | None => break,
                    },
                    Some(Ok((lease, node, goodbye))) = self.goodbyes.join_next() => {
                        self.goodbye_went(lease, node, goodbye);
                    }
                    Some(Ok(told)) = self.telling.join_next() => self.was_told(&watching.faces, told).await,
                    Some(renamed) = next(&mut renames) => {
                        self.renamed.push(renamed);
                        self.is_news = true;
                    }
                    changed = changes.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        break;
                    }
                    _ = looks.tick() => {
                        if self.look().await {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Compares what is advertised with the whole log, and watches it from there on. `None`: this part is over.
    async fn begin(&mut self) -> Option<Watching> {
        let faces = self.stage.faces();
        let mut from = LeaseId::new(faces.identity().shard, Lsn(0));
        let newest = faces.synced_lsn().await.ok()?;
        let (line, news) = unbounded_channel();
        let watch = faces.handle().draw_ticket();
        faces.switchboard().watch(watch, line);
        let watching = Watching { faces: faces.clone(), watch, news, taken: ROOM };
        let begun = faces.handle().start_as(watch, Request::Watch { from: newest.next() }).await.pop();
        let Some(Answer::Watching { .. }) = begun else { return None };
        let mut seen = BTreeSet::new();
        loop {
            let resource_prefix = Some(REGISTRATIONS_PREFIX.into());
            let list = List { from, limit: PAGE, resource_prefix, holder: None };
            let answer = faces.ask_until_heard(vec![Request::List(list)]).await.pop();
            let Some(Answer::Leases { leases, next, .. }) = answer else { return None };
            for lease in leases {
                seen.insert(lease.id);
                self.consider(&lease);
            }
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        let gone: Vec<LeaseId> =
            self.advertised.keys().copied().filter(|lease| !seen.contains(lease)).collect();
        gone.into_iter().for_each(|lease| self.forget(lease));
        self.said.retain(|(lease, _)| seen.contains(lease));
        self.known = seen;
        Some(watching)
    }

    async fn follow(&mut self, watching: &mut Watching, events: &[Arc<Published>]) {
        watching.taken += events.len();
        let shard = watching.faces.identity().shard;
        let concerned: BTreeSet<LeaseId> = events
            .iter()
            .filter_map(|published| match &published.news {
                News::Event(event) => {
                    let lease = event.change.lease(LeaseId::new(shard, published.lsn))?;
                    let begins = matches!(
                        &event.change,
                        Change::Granted(granted) if granted.policy.face == Face::Registrations
                    );
                    (begins || self.known.contains(&lease)).then_some(lease)
                }
                News::Note(_) => None,
            })
            .collect();
        if concerned.is_empty() {
            return;
        }
        // What follows in the same breath is of what begins in it.
        self.known.extend(&concerned);
        let concerned: Vec<LeaseId> = concerned.into_iter().collect();
        let reads = concerned.iter().copied().map(Request::Read).collect();
        let answers = watching.faces.ask_until_heard(reads).await;
        for (lease, answer) in concerned.into_iter().zip(answers) {
            match answer {
                Answer::Read(read) => match read.lease {
                    LeaseFound::Live(found) => self.consider(&found),
                    LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => {
                        self.forget(lease);
                    }
                },
                // The part is over; the next one begins with everything.
                _ => return,
            }
        }
    }

    /// Does for a registration what its state asks of this node.
    fn consider(&mut self, lease: &LeaseSnapshot) {
        if lease.policy.face != Face::Registrations {
            return;
        }
        self.known.insert(lease.id);
        let Some(facts) = Facts::decode(&lease.face_data) else { return };
        let is_ours = facts.advertised_by().is_some_and(|home| home.node == self.home.node);
        let is_over = match lease.state {
            LeaseState::Revoking(_) => true,
            LeaseState::Active { .. } => facts.leaving.is_some(),
            LeaseState::Reserved { .. } => return,
        };
        if !is_over {
            self.said.retain(|(said, _)| *said != lease.id);
        }
        match (is_ours, is_over) {
            (true, true) => self.say_goodbye(lease, &facts, &self.home.node.clone()),
            (true, false) => {
                let service = service_of(&facts, &lease.members, &self.home.host);
                if self.may_advertise && self.advertised.get(&lease.id) != Some(&service) {
                    self.network.advertise(key(lease.id), service.clone());
                    self.advertised.insert(lease.id, service);
                }
            }
            (false, _) => {
                self.forget(lease.id);
                self.known.insert(lease.id);
            }
        }
    }

    /// Says goodbye for what a node advertises, once.
    fn say_goodbye(&mut self, lease: &LeaseSnapshot, facts: &Facts, node: &str) {
        let goodbye = (lease.id, node.to_owned());
        if self.said.contains(&goodbye) || !self.saying.insert(goodbye) {
            return;
        }
        let service = service_of(facts, &lease.members, &self.home.host);
        let service = self.advertised.remove(&lease.id).unwrap_or(service);
        let (id, node) = (lease.id, node.to_owned());
        let withdrawing = self.network.withdraw(key(id), service);
        self.goodbyes.spawn(async move { (id, node, withdrawing.await) });
    }

    /// A registration is none any more, or none of this node's.
    fn forget(&mut self, lease: LeaseId) {
        self.known.remove(&lease);
        self.said.retain(|(said, _)| *said != lease);
        if let Some(service) = self.advertised.remove(&lease) {
            // It has begun; nobody waits for its end.
            drop(self.network.withdraw(key(lease), service));
        }
    }

    fn goodbye_went(&mut self, lease: LeaseId, node: String, goodbye: Goodbye) {
        self.saying.remove(&(lease, node.clone()));
        match goodbye {
            Goodbye::Sent | Goodbye::Unneeded(_) => self.has_said(lease, node),
            // Another node is asked in a while, or the gate times out.
            Goodbye::Unsent(error) => tracing::warn!(error, "goodbye packet not sent"),
        }
    }

    /// Does what is due. `true`: everything is to be compared again.
    async fn look(&mut self) -> bool {
        let now_ms = read_clocks().boot_ms;
        if self.may_advertise && now_ms >= self.trust_until_ms {
            self.withdraw_all();
        }
        let due_ms = if self.is_news { NEWS_EVERY_MS } else { TELL_EVERY_MS };
        if self.telling.is_empty() && (self.told_ms == 0 || now_ms >= self.told_ms + due_ms) {
            self.tell(now_ms);
        }
        match self.knows_from {
            Some(lsn) if !self.may_advertise => {
                let is_known = self.stage.faces().synced_lsn().await.is_ok_and(|synced| synced >= lsn);
                self.may_advertise = is_known && read_clocks().boot_ms < self.trust_until_ms;
                self.may_advertise
            }
            Some(_) | None => false,
        }
    }

    /// Others take this node for gone from here on, and so it has to be.
    fn withdraw_all(&mut self) {
        self.may_advertise = false;
        self.knows_from = None;
        if !self.advertised.is_empty() {
            tracing::warn!(
                services = self.advertised.len(),
                "no leader for too long: withdrawing all services until there is one"
            );
        }
        for (lease, service) in core::mem::take(&mut self.advertised) {
            drop(self.network.withdraw(key(lease), service));
        }
    }

    fn tell(&mut self, now_ms: u64) {
        (self.told_ms, self.is_news) = (now_ms, false);
        let said = self.said.iter().take(SAID_MAX).map(|(lease, node)| Said::new(*lease, node)).collect();
        let renamed =
            self.renamed.iter().map(|renamed| (written(LeaseId(renamed.key)), renamed.name.clone()));
        let what = NodeTold { node: self.home.node.clone(), said, renamed: renamed.collect() };
        let faces = self.stage.faces();
        self.telling.spawn(async move {
            let call = Call::NodeTold(Box::new(what.clone()));
            let heard = match faces.dispatch(&Caller::node(), call).await {
                Ok(Reply::NodeHeard(heard)) => Some(heard),
                Ok(_) | Err(_) => None,
            };
            Told { sent_ms: now_ms, what, heard }
        });
    }

    async fn was_told(&mut self, faces: &Faces, told: Told) {
        let Some(heard) = told.heard else {
            self.is_news = true;
            return;
        };
        self.renamed.drain(..told.what.renamed.len().min(self.renamed.len()));
        for said in told.what.said.iter().filter(|said| said.node != self.home.node) {
            // Whoever asked for it asks again if need be; this node's own are told until they are over.
            if let Some(lease) = said.lease() {
                self.said.remove(&(lease, said.node.clone()));
            }
        }
        if !heard.waits {
            self.trust_until_ms = told.sent_ms + TRUST_MS;
            self.knows_from.get_or_insert(Lsn(heard.lsn));
        }
        if heard.farewells.is_empty() || !faces.synced_lsn().await.is_ok_and(|synced| synced.0 >= heard.lsn) {
            return;
        }
        for farewell in heard.farewells {
            let Some(lease) = farewell.lease() else { continue };
            let Answer::Read(read) = faces.ask(Request::Read(lease)).await else { return };
            let LeaseFound::Live(found) = read.lease else {
                self.has_said(lease, farewell.node);
                continue;
            };
            let facts = Facts::decode(&found.face_data);
            match facts.filter(|facts| facts.advertised_by().map_or("", |home| &home.node) == farewell.node) {
                Some(facts) => self.say_goodbye(&found, &facts, &farewell.node),
                None => self.has_said(lease, farewell.node),
            }
        }
    }

    /// There is nothing to say goodbye for, or it was said.
    fn has_said(&mut self, lease: LeaseId, node: String) {
        self.said.insert((lease, node));
        self.is_news = true;
    }
}

impl Watching {
    fn make_room(&mut self) {
        if self.taken > ROOM / 2 {
            let room = core::mem::take(&mut self.taken);
            self.faces.handle().tell(Control::WatchMore { watch: self.watch, room });
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.faces.switchboard().unwatch(self.watch);
        self.faces.handle().tell(Control::WatchEnd(self.watch));
    }
}

async fn next(renames: &mut Option<UnboundedReceiver<Renamed>>) -> Option<Renamed> {
    match renames {
        Some(renames) => renames.recv().await,
        None => None,
    }
}
