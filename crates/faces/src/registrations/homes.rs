//! What a node that writes knows of registrations' homes: which of them are there, which goodbyes are owed, and who says
//! those that their home cannot. It begins anew with each term: a node counts as gone only when this writer has not heard
//! it for longer than any promise lasts.

use super::facts::Facts;
use super::home::{GONE_MS, Home, NodeHeard, NodeTold, PROMISE_MS, Said, read};
use super::{Live, TRIES_MAX};
use crate::call::Reply;
use crate::dispatch::Faces;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tenure_api::{Error, ErrorCode};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{Action, Amend, GateReport, LeaseId, Rejection, Token};
use tenure_engine::{Answer, Control, LeaseFound, LeaseSnapshot, Refused, Request, Submit};

use super::network::Renamed;

/// A home that is there has this long to say goodbye.
const GOODBYE_MS: u64 = PROMISE_MS;
/// How long one who was asked to say goodbye for another may take before that one need not wait any more.
const FAREWELL_MS: u64 = 5_000;
/// Goodbyes that one node is asked for at once.
const FAREWELLS_MAX: usize = 1_000;
/// Leases read at once.
const PAGE: usize = 500;

/// What is known of the other nodes' networks.
pub trait Neighbours: Send + Sync {
    /// Networks that a node is on; none where that is not known.
    fn subnets(&self, node: &str) -> Vec<String>;
}

/// The homes of registrations.
pub(crate) struct Homes {
    own: Home,
    neighbours: Arc<dyn Neighbours>,
    began_ms: u64,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    /// When each node was heard last, those that some registration calls its home among them.
    heard_ms: BTreeMap<String, u64>,
    owed: BTreeMap<LeaseId, Owed>,
    /// Gone homes whose live registrations have been looked for.
    buried: BTreeSet<String>,
    /// Farewells for live registrations that somebody was asked for.
    asked: BTreeMap<LeaseId, (String, u64)>,
    /// Registrations from before there was a cluster.
    homeless: BTreeSet<LeaseId>,
}

/// A goodbye that is to be said.
struct Owed {
    node: String,
    since_ms: u64,
    /// The registration lives on.
    is_ghost: bool,
}

impl Homes {
    pub(crate) fn new(own: Home, neighbours: Arc<dyn Neighbours>) -> Self {
        Self { own, neighbours, began_ms: read_clocks().boot_ms, ledger: Mutex::default() }
    }

    /// This node.
    pub(crate) fn own(&self) -> &Home {
        &self.own
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("invariant: nobody panics over the homes")
    }

    /// A registration is live.
    pub(crate) fn note(&self, lease: LeaseId, facts: &Facts) {
        let mut ledger = self.ledger();
        let Some(home) = &facts.home else {
            ledger.homeless.insert(lease);
            return;
        };
        ledger.heard_ms.entry(home.node.clone()).or_insert(self.began_ms);
        if facts.leaving.is_some() {
            drop(ledger);
            self.owe(lease, facts);
        }
    }

    /// Whoever advertises a registration has to say goodbye.
    pub(crate) fn owe(&self, lease: LeaseId, facts: &Facts) {
        // What has no home was advertised by nobody here; this node says goodbye for who did before.
        let node = facts.advertised_by().map_or_else(String::new, |home| home.node.clone());
        let mut ledger = self.ledger();
        ledger.heard_ms.entry(node.clone()).or_insert(self.began_ms);
        ledger.owed.insert(lease, Owed { node, since_ms: read_clocks().boot_ms, is_ghost: false });
    }

    /// Whether a live registration is on the network; `here`: as this node's network has it.
    pub(crate) fn advertises(&self, facts: &Facts, here: bool) -> bool {
        let Some(home) = facts.home.as_ref().filter(|_| facts.leaving.is_none()) else { return false };
        if home.node == self.own.node {
            return here;
        }
        !self.ledger().is_gone(&home.node, read_clocks().boot_ms)
    }

    fn hear(&self, node: &str) {
        let mut ledger = self.ledger();
        ledger.heard_ms.insert(node.to_owned(), read_clocks().boot_ms);
        ledger.buried.remove(node);
        ledger.owed.retain(|_, owed| !(owed.is_ghost && owed.node == node));
    }

    /// Gone homes whose live registrations are still seen by others.
    fn newly_gone(&self) -> Vec<String> {
        let now_ms = read_clocks().boot_ms;
        let mut ledger = self.ledger();
        let gone: Vec<String> = ledger
            .heard_ms
            .keys()
            .filter(|node| !node.is_empty() && !ledger.buried.contains(*node) && ledger.is_gone(node, now_ms))
            .cloned()
            .collect();
        ledger.buried.extend(gone.iter().cloned());
        gone
    }

    fn bury(&self, lease: LeaseId, node: &str) {
        let owed = Owed { node: node.to_owned(), since_ms: read_clocks().boot_ms, is_ghost: true };
        self.ledger().owed.entry(lease).or_insert(owed);
    }

    /// A goodbye was said.
    fn settle(&self, lease: LeaseId, node: &str) {
        let mut ledger = self.ledger();
        if ledger.owed.get(&lease).is_some_and(|owed| owed.node == node) {
            ledger.owed.remove(&lease);
        }
        ledger.asked.remove(&lease);
    }

    /// Goodbyes that a node is to say for those who cannot, and whether it has to wait for others' who say them for it.
    fn farewells(&self, node: &str) -> (Vec<Said>, bool) {
        let now_ms = read_clocks().boot_ms;
        let mut ledger = self.ledger();
        ledger.asked.retain(|_, (_, at_ms)| *at_ms + FAREWELL_MS > now_ms);
        let waits = ledger.asked.values().any(|(home, _)| home == node);
        let due: Vec<(LeaseId, String, bool)> = ledger
            .owed
            .iter()
            .filter(|(_, owed)| {
                ledger.is_gone(&owed.node, now_ms) || (!owed.is_ghost && now_ms >= owed.since_ms + GOODBYE_MS)
            })
            .map(|(lease, owed)| (*lease, owed.node.clone(), owed.is_ghost))
            .collect();
        let mut sayers = BTreeMap::new();
        let mut farewells = Vec::new();
        for (lease, home, is_ghost) in due {
            let sayer = sayers.entry(home.clone()).or_insert_with(|| self.sayer(&ledger, &home, now_ms));
            if sayer.as_deref() != Some(node) || farewells.len() >= FAREWELLS_MAX {
                continue;
            }
            if is_ghost {
                ledger.asked.insert(lease, (home.clone(), now_ms));
            }
            farewells.push(Said::new(lease, &home));
        }
        (farewells, waits)
    }

    /// Who can say goodbye for a home: this node if it is on the same network, else another that is there.
    fn sayer(&self, ledger: &Ledger, home: &str, now_ms: u64) -> Option<String> {
        let wanted = self.neighbours.subnets(home);
        let reaches = |node: &str| {
            wanted.is_empty() || self.neighbours.subnets(node).iter().any(|subnet| wanted.contains(subnet))
        };
        let others = ledger.heard_ms.keys().filter(|node| **node != home && !ledger.is_gone(node, now_ms));
        core::iter::once(&self.own.node)
            .filter(|own| **own != home)
            .chain(others)
            .find(|node| reaches(node))
            .cloned()
    }
}

impl Ledger {
    fn is_gone(&self, node: &str, now_ms: u64) -> bool {
        node.is_empty() || self.heard_ms.get(node).is_some_and(|heard_ms| now_ms > heard_ms + GONE_MS)
    }
}

impl Faces {
    /// A node is there and tells what its network was told.
    pub(crate) async fn hear_node(&self, told: NodeTold) -> Result<Reply, Error> {
        let Some(homes) = self.registrations().homes() else {
            return Err(Error::new(ErrorCode::NotClustered, "this daemon is not a node of a cluster"));
        };
        // Whoever may not answer says so here.
        let lsn = self.synced_lsn().await?;
        homes.hear(&told.node);
        for said in &told.said {
            if let Some(lease) = said.lease() {
                self.goodbye_said(homes, lease, &said.node).await;
            }
        }
        for (lease, name) in told.renamed {
            if let Some(lease) = read(&lease) {
                self.keep_name(&Renamed { key: lease.0, name }).await;
            }
        }
        if told.node == homes.own().node {
            self.house(homes).await;
            for gone in homes.newly_gone() {
                self.bury(homes, &gone).await;
            }
        }
        let (farewells, waits) = homes.farewells(&told.node);
        Ok(Reply::NodeHeard(NodeHeard { lsn: lsn.0, farewells, waits }))
    }

    async fn goodbye_said(&self, homes: &Homes, lease: LeaseId, node: &str) {
        for _ in 0..TRIES_MAX {
            let found = match self.ask_until_heard(vec![Request::Read(lease)]).await.pop() {
                Some(Answer::Read(read)) => read.lease,
                _ => return,
            };
            let LeaseFound::Live(found) = found else { break };
            let Some(facts) = Facts::decode(&found.face_data) else { break };
            let is_from = |home: Option<&Home>| home.map_or("", |home| &home.node) == node;
            if super::gates::ending(&found).is_some() {
                if is_from(facts.advertised_by()) {
                    let report = GateReport::Confirmed;
                    self.handle().tell(Control::GateDone { lease, report });
                }
                break;
            }
            if facts.leaving.is_none() || !is_from(facts.leaving.as_ref()) {
                break;
            }
            if self.rewrite(&found, &Facts { leaving: None, ..facts }).await {
                break;
            }
        }
        homes.settle(lease, node);
    }

    /// Writes facts down; `false`: the lease has changed meanwhile.
    async fn rewrite(&self, lease: &LeaseSnapshot, facts: &Facts) -> bool {
        let token = Token::new(lease.id, lease.epoch);
        let amend = Amend { token, attachment: None, face_data: Some(facts.encode()) };
        let answer = self.ask(Request::Submit(Submit::now(Action::Amend(amend)))).await;
        !matches!(answer, Answer::Refused(Refused::Rejected(Rejection::StaleEpoch { .. })))
    }

    /// Gives registrations from before there was a cluster a home: this node.
    async fn house(&self, homes: &Homes) {
        let homeless = core::mem::take(&mut homes.ledger().homeless);
        for Live { lease, facts } in self.read_live(homeless.into_iter().collect()).await {
            if facts.home.is_none() {
                let facts = Facts { home: Some(homes.own().clone()), ..facts };
                self.rewrite(&lease, &facts).await;
                homes.note(lease.id, &facts);
            }
        }
    }

    /// Has goodbye said for what a gone home advertised. Its leases stay for as long as they live without it.
    async fn bury(&self, homes: &Homes, gone: &str) {
        let leases = self.registrations().book.live();
        let mut count = 0;
        for page in leases.chunks(PAGE) {
            for live in self.read_live(page.to_vec()).await {
                if live.facts.advertised_by().is_some_and(|home| home.node == gone) {
                    homes.bury(live.lease.id, gone);
                    count += 1;
                }
            }
        }
        if count > 0 {
            tracing::warn!(
                node = gone,
                registrations = count,
                "sending goodbye packets for the services of a lost node"
            );
        }
    }
}
