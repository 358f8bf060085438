//! mDNS services that live as long as their registrants: a registration is a lease whose gate is a goodbye.
//!
//! Granted means advertised; every end is revoke, goodbye, reclaim. Which name a registration gets, whether it takes
//! over one that drains or waits for one that is ending, is one command decided by the engine's writer. What the
//! network is asked to do follows what is durable, in the order of the book.

mod admin;
mod announcing;
mod book;
mod discovery;
mod facts;
mod gates;
mod home;
mod homes;
mod network;
mod quiet;
mod service;

pub use announcing::Announcing;
pub use discovery::Sightseeing;
pub use facts::Facts;
pub use gates::log_end;
pub use home::{Home, NodeHeard, NodeTold, Said, Settled};
pub use homes::Neighbours;
pub use network::{
    Goodbye, Health, Later, Network, Record, Renamed, Seen, Service, Sightings, Standing, Unfit,
};
pub use quiet::Quiet;
pub use service::{ServiceType, Wanted};

pub(crate) use book::{Book, End};
pub(crate) use homes::Homes;
pub(crate) use service::{Described, resource};

use crate::call::Reply;
use crate::caller::{Caller, Origin};
use crate::dispatch::Faces;
use crate::leases::{self, contradiction};
use crate::limits::{TTL_MS_MAX, TTL_MS_MIN, attempts_used_up, out_of_range};
use crate::refusal::Asked;
use crate::sessions;
use crate::show;
use crate::tally::Tally;
use book::{AskedFor, Kept, Place};
use facts::ID_BYTES;
use service::host_label;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tenure_api::{self as api, Error, ErrorCode};
use tenure_engine::kernel::{
    Action, Actor, Amend, Bundle, Epoch, Evidence, Face, Grant, LeaseId, LeaseState, Lsn, Mode, Policy,
    Reason, Rebind, ReclaimBy, ReclaimRule, Rejection, Revoke, SessionKind, Text, Token,
};
use tenure_engine::liveness::Standing as LivenessStanding;
use tenure_engine::{
    Answer, LeaseAnswer, LeaseFound, LeaseSnapshot, OperationId, Refused, Request, Submit, TakeOver,
    speaks_for,
};

/// How long a registration waits for a name that is coming free.
const NAME_WAIT_MS: u64 = 2_000;
/// What is read and what is granted may differ so often before it is called overload.
const TRIES_MAX: usize = 8;
/// Ids drawn before it is called overload.
const DRAWS_MAX: u64 = 64;

/// What keeps registrations unless they say otherwise, and how this host is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistrationOptions {
    /// How long a lost connection is forgiven.
    pub socket_grace_ms: u32,
    /// The same for a standard input.
    pub stdin_grace_ms: u32,
    /// How long a missing heartbeat is forgiven.
    pub http_grace_ms: u32,
    /// How long one heartbeat lasts.
    pub http_lease_ms: u32,
    /// Name of this host.
    pub host: String,
}

impl Default for RegistrationOptions {
    fn default() -> Self {
        Self {
            socket_grace_ms: 30_000,
            stdin_grace_ms: 5_000,
            http_grace_ms: 30_000,
            http_lease_ms: 90_000,
            host: "tenure".to_owned(),
        }
    }
}

/// The face's own state.
pub(crate) struct Registrations {
    pub(crate) book: Arc<Book>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) options: RegistrationOptions,
    /// Set on a node of a cluster.
    homes: OnceLock<Homes>,
    /// Room to look at the network.
    sightseers: Arc<Tally<Text>>,
    /// Registrations that ended under another leader are not known yet.
    recalling: AtomicBool,
}

/// What is asked for, checked.
struct Wish {
    described: Described,
    policy: Policy,
    operation: Option<OperationId>,
    home: Option<Home>,
    warning: Option<String>,
}

/// A live registration with its lease.
pub(crate) struct Live {
    pub(crate) lease: LeaseSnapshot,
    pub(crate) facts: Facts,
}

impl Live {
    /// `None`: the lease is no registration, or its end has begun.
    pub(crate) fn of(lease: LeaseSnapshot) -> Option<Self> {
        let facts = Facts::decode(&lease.face_data)?;
        match lease.state {
            LeaseState::Active { .. } => Some(Self { lease, facts }),
            LeaseState::Reserved { .. } | LeaseState::Revoking(_) => None,
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.lease.liveness.standing, Some(LivenessStanding::Draining(_)))
    }

    /// Seconds within which a heartbeat is due; 0 where none is.
    pub(crate) fn lease_secs(&self) -> u64 {
        match self.lease.policy.mode {
            Mode::Heartbeat => u64::from(self.lease.policy.ttl_ms) / 1_000,
            Mode::Session | Mode::Permanent => 0,
        }
    }
}

impl Registrations {
    pub(crate) fn new(book: Arc<Book>, network: Arc<dyn Network>, options: RegistrationOptions) -> Self {
        Self {
            book,
            network,
            options,
            homes: OnceLock::new(),
            sightseers: Arc::default(),
            recalling: AtomicBool::new(false),
        }
    }

    /// Registrations that ended under another leader are not known until they are recalled.
    pub(crate) fn will_recall(&self) {
        self.recalling.store(true, Ordering::Relaxed);
    }

    fn has_recalled(&self) {
        self.recalling.store(false, Ordering::Relaxed);
    }

    fn is_recalling(&self) -> bool {
        self.recalling.load(Ordering::Relaxed)
    }

    /// From now on registrations have homes.
    pub(crate) fn have_homes(&self, homes: Homes) {
        let _ = self.homes.set(homes);
    }

    /// Who has which registration, in a cluster.
    pub(crate) fn homes(&self) -> Option<&Homes> {
        self.homes.get()
    }

    /// Ids of the services that people call so.
    pub(crate) fn called(&self, name: &str) -> Vec<String> {
        self.book.called(name)
    }

    /// What the network is to be told of a registration.
    fn service(&self, facts: &Facts, members: &[Text]) -> Service {
        service_of(facts, members, &self.options.host)
    }

    /// Enters a registration into the book as it was at a position and tells the network, unless its end has begun
    /// or something newer was told.
    pub(crate) fn announce(&self, live: &Live, lsn: Lsn) {
        if let Some(homes) = self.homes() {
            // Its home sees it in the log.
            homes.note(live.lease.id, &live.facts);
            self.book.enter(live.lease.id, &live.facts, lsn, || ());
            return;
        }
        let service = self.service(&live.facts, &live.lease.members);
        let key = key(live.lease.id);
        self.book.enter(live.lease.id, &live.facts, lsn, || self.network.advertise(key, service));
    }

    /// Refuses what the network could never be told of.
    fn check(&self, service: &Service) -> Result<(), Error> {
        self.network.check(service).map_err(|Unfit { field, message }| {
            let code = match field {
                "type" => ErrorCode::InvalidType,
                "name" => ErrorCode::InvalidName,
                _ => ErrorCode::InvalidRequest,
            };
            Error::new(code, message).with("field", field)
        })
    }

    fn policy(&self, caller: &Caller, lease_secs: Option<u64>) -> Result<Policy, Error> {
        let options = &self.options;
        let terms = match (lease_secs, caller.origin) {
            // What was drained when it was taken over drains on, after a restart with a full grace.
            (Some(0), _) => Policy { grace_ms: options.http_grace_ms, ..Policy::permanent() },
            (_, Origin::Connection { session, kind, word_ms }) => {
                let grace_ms = match kind {
                    SessionKind::Stdin => options.stdin_grace_ms,
                    SessionKind::Connection | SessionKind::ByHand => options.socket_grace_ms,
                };
                Policy::session(session, word_ms, grace_ms)
            }
            (Some(secs), Origin::Http) => {
                let ttl_ms = secs.checked_mul(1_000).filter(|ms| (TTL_MS_MIN..=TTL_MS_MAX).contains(ms));
                let ttl_ms = ttl_ms
                    .and_then(|ms| u32::try_from(ms).ok())
                    .ok_or_else(|| out_of_range("lease", secs, TTL_MS_MIN / 1_000, TTL_MS_MAX / 1_000))?;
                Policy::heartbeat(ttl_ms, options.http_grace_ms)
            }
            (None, Origin::Http) => Policy::heartbeat(options.http_lease_ms, options.http_grace_ms),
        };
        Ok(Policy {
            face: Face::Registrations,
            gate: true,
            reclaim_rule: ReclaimRule::AtOnce,
            principal: caller.principal.clone(),
            ..terms
        })
    }

    fn wish(&self, caller: &Caller, asked: api::Register, at: Option<Settled>) -> Result<Wish, Error> {
        let lease_secs = match (asked.lease, asked.lease_secs) {
            (Some(lease), Some(secs)) if lease != secs => {
                return Err(contradiction(
                    "lease and lease_secs are two names of one field and must not differ",
                ));
            }
            (lease, secs) => lease.or(secs),
        };
        let described = Described::check(&asked)?;
        self.check(
            &described.service(&described.name, host_label(&self.options.host, &"0".repeat(ID_BYTES))),
        )?;
        let policy = self.policy(caller, lease_secs)?;
        let is_foreign = match &at {
            Some(at) => at.is_foreign,
            None => is_foreign(described.ip),
        };
        let home = at.map(|at| at.home).or_else(|| self.homes().map(|homes| homes.own().clone()));
        let warning = warning(&described, is_foreign, lease_secs, &policy);
        // By what was asked: the command itself has the node that took it and the id that was free.
        let request = api::Register { lease: lease_secs, lease_secs: None, operation_id: None, ..asked };
        let operation = leases::operation_on(caller, asked.operation_id, &("register", &request))?;
        Ok(Wish { described, policy, operation, home, warning })
    }

    /// Keeps an id: drawn, or made from the operation id so that a retry asks for the same thing.
    fn keep_id(&self, operation: Option<&OperationId>) -> Result<(Kept<'_>, Option<u64>), Error> {
        let mark = operation.map(|operation| hash(operation, 0));
        for attempt in 1..=DRAWS_MAX {
            let bits = match operation {
                Some(operation) => hash(operation, attempt),
                None => getrandom::u64().expect("invariant: the system gives random bytes"),
            };
            let id = format!("{:0width$x}", bits as u32, width = ID_BYTES);
            if let Some(kept) = self.book.keep(&id, mark) {
                return Ok((kept, mark));
            }
        }
        let message = format!("{DRAWS_MAX} random registration ids were taken; none is free");
        Err(attempts_used_up(message, DRAWS_MAX as usize))
    }
}

/// What a lease is to the network.
pub(crate) fn key(lease: LeaseId) -> u128 {
    lease.0
}

fn hash(operation: &OperationId, attempt: u64) -> u64 {
    sessions::bits_of(&operation.principal, &operation.id, &attempt.to_le_bytes())
}

fn warning(
    described: &Described,
    is_foreign: bool,
    lease_secs: Option<u64>,
    policy: &Policy,
) -> Option<String> {
    if let Some(ip) = described.ip.filter(|_| is_foreign) {
        return Some(format!("{ip} is not an address of this host"));
    }
    let ignored = lease_secs.is_some_and(|secs| secs > 0) && policy.mode == Mode::Session;
    ignored.then(|| "lease is not used: the registration lives while its connection is open".to_owned())
}

/// Whether it is no address of this host: only one of its own can be bound here.
pub(crate) fn is_foreign(ip: Option<IpAddr>) -> bool {
    ip.is_some_and(|ip| UdpSocket::bind((ip, 0)).is_err())
}

/// What the network is to be told of a registration; `host` is how this host is called.
pub(crate) fn service_of(facts: &Facts, members: &[Text], host: &str) -> Service {
    let host = facts.advertised_by().map_or(host, |home| &home.host);
    facts.described.service(&facts.network_name(members), host_label(host, &facts.id))
}

impl Faces {
    /// `at`: another node has taken it.
    pub(crate) async fn register(
        &self,
        caller: &Caller,
        asked: api::Register,
        at: Option<Settled>,
    ) -> Result<Reply, Error> {
        let wish = self.registrations().wish(caller, asked, at)?;
        let (faces, caller) = (self.clone(), caller.clone());
        // Goes on when its caller leaves: what was granted must be in the book and on the network.
        let task = tokio::spawn(async move { faces.register_wish(&caller, wish).await });
        task.await.map_err(|_| Error::new(ErrorCode::ShuttingDown, "the daemon is stopping"))?
    }

    async fn register_wish(&self, caller: &Caller, wish: Wish) -> Result<Reply, Error> {
        for _ in 0..TRIES_MAX {
            let rivals = self.rivals(&wish).await?;
            let book = &self.registrations().book;
            let own = caller.connection().and_then(|session| {
                rivals.iter().find(|rival| match rival.lease.policy.session {
                    Some(kept_by) => kept_by == session,
                    None => book.is_asked_by(rival.lease.id, session),
                })
            });
            let outcome = match own {
                Some(own) => self.update(caller, own, &wish).await?,
                None => self.grant_registration(caller, &rivals, &wish).await?,
            };
            if let Some((live, lsn)) = outcome {
                self.registrations().announce(&live, lsn);
                book.asked_by(live.lease.id, caller.connection());
                return Ok(Reply::Registered(registered(&live, wish.warning)));
            }
        }
        let message = format!(
            "{:?} was not registered: in {TRIES_MAX} attempts another registration of the name came first",
            wish.described.name
        );
        Err(attempts_used_up(message, TRIES_MAX))
    }

    /// Live registrations that were asked for by the same name and type, oldest first.
    async fn rivals(&self, wish: &Wish) -> Result<Vec<Live>, Error> {
        let asked_for = AskedFor::new(wish.described.service_type.as_str(), &wish.described.name);
        let leases = self.registrations().book.asked_for(&asked_for);
        self.read_registrations(leases).await
    }

    /// Those of these leases that are live registrations; none if that cannot be read.
    pub(crate) async fn read_live(&self, leases: Vec<LeaseId>) -> Vec<Live> {
        self.read_registrations(leases).await.unwrap_or_default()
    }

    /// Those of these leases that are live registrations. A refusal to read says nothing of any of them.
    pub(crate) async fn read_registrations(&self, leases: Vec<LeaseId>) -> Result<Vec<Live>, Error> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.handle().call_all(leases.into_iter().map(Request::Read).collect()).await;
        let found = answers.into_iter().map(|answer| self.live_in(answer));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().filter_map(Live::of).collect())
    }

    /// The live lease in an answer to a read; `None` if it has ended.
    fn live_in(&self, answer: Answer) -> Result<Option<LeaseSnapshot>, Error> {
        match answer {
            Answer::Read(read) => match read.lease {
                LeaseFound::Live(lease) => Ok(Some(lease)),
                LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => Ok(None),
            },
            Answer::Refused(Refused::Rejected(_)) => Ok(None),
            other => Err(self.not_that(other, Asked::AsAnyone)),
        }
    }

    /// A registrant asks again for what it has: the same id, another payload perhaps. `None`: it has lost it meanwhile.
    async fn update(&self, caller: &Caller, own: &Live, wish: &Wish) -> Result<Option<(Live, Lsn)>, Error> {
        let anew = own.facts.described_anew(wish.described.clone(), &own.lease.members);
        let facts = anew.moved_to(wish.home.clone());
        let token = Token::new(own.lease.id, own.lease.epoch);
        let face_data = Some(facts.encode());
        let action = if own.lease.policy != wish.policy {
            let policy = Some(wish.policy.clone());
            Action::Rebind(Rebind { token, holder: None, policy, attachment: None, face_data })
        } else if facts != own.facts {
            Action::Amend(Amend { token, attachment: None, face_data })
        } else {
            // The network knows.
            return Ok(Live::of(own.lease.clone()).map(|live| (live, Lsn(0))));
        };
        let submit = Submit { asker: Some(caller.principal.clone()), ..Submit::now(action) };
        match self.ask(Request::Submit(submit)).await {
            Answer::Lease(given) => Ok(live(*given)),
            Answer::Refused(Refused::Rejected(rejection)) if rejection.has_moved() => Ok(None),
            other => Err(self.not_that(other, Asked::AsHolder)),
        }
    }

    /// Takes over what drains, else the first free name. `None`: look again.
    async fn grant_registration(
        &self,
        caller: &Caller,
        rivals: &[Live],
        wish: &Wish,
    ) -> Result<Option<(Live, Lsn)>, Error> {
        let registrations = self.registrations();
        let (kept, operation) = registrations.keep_id(wish.operation.as_ref())?;
        let fresh = Facts {
            id: kept.id().to_owned(),
            described: wish.described.clone(),
            spelled: None,
            renamed: None,
            operation,
            home: wish.home.clone(),
            leaving: None,
        };
        let taken_over = |rival: &Live| {
            let anew = rival.facts.described_anew(wish.described.clone(), &rival.lease.members);
            Facts { operation, ..anew.moved_to(wish.home.clone()) }.encode()
        };
        let may_take_over = |rival: &Live| speaks_for(&caller.principal, &rival.lease.policy.principal);
        let take_over = rivals
            .iter()
            .filter(|rival| may_take_over(rival))
            .map(|rival| TakeOver { lease: rival.lease.id, face_data: taken_over(rival) })
            .collect();
        let mut bundles =
            wish.described.variants().map(|name| Bundle::one(&resource(&wish.described.service_type, &name)));
        let first = bundles.next().expect("invariant: the name itself is among the names");
        let grant = Grant {
            face_data: fresh.encode(),
            alternatives: bundles.collect(),
            ..Grant::new(first, &wish.described.name, wish.policy.clone())
        };
        let submit = Submit {
            operation: wish.operation.clone(),
            wait_ms: NAME_WAIT_MS,
            take_over,
            opening: caller.opening(),
            asker: Some(caller.principal.clone()),
            ..Submit::now(Action::Grant(grant))
        };
        match self.ask(Request::Submit(submit)).await {
            Answer::Lease(given) if given.replayed => live(*given).map(Some).ok_or_else(|| {
                Error::new(ErrorCode::NotFound, "the registration of this operation has ended")
            }),
            Answer::Lease(given) => Ok(live(*given)),
            Answer::Refused(Refused::WaitTimeout) => {
                let message = "the name is still being withdrawn from the network";
                Err(Error::new(ErrorCode::WaitTimeout, message).retry_after(NAME_WAIT_MS))
            }
            other => Err(self.not_that(other, Asked::AsAnyone)),
        }
    }

    pub(crate) async fn unregister(
        &self,
        caller: &Caller,
        id: &str,
        epoch: Option<u64>,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        let operation = leases::operation_on(caller, operation_id, &("unregister", id, epoch))?;
        let lease = match self.registered(id) {
            Ok(lease) => lease,
            Err(_) if operation.is_some() => self.no_lease(),
            Err(gone) => return Err(gone),
        };
        let revoke = Revoke {
            lease,
            epoch: epoch.map(Epoch),
            reason: Reason::Explicit,
            text: Text::default(),
            actor: Actor::Holder,
            evidence: Evidence::None,
            reclaim_by: ReclaimBy::Daemon,
        };
        let asker = Some(caller.principal.clone());
        let submit = Submit { operation, asker, ..Submit::now(Action::Revoke(revoke)) };
        match self.ask(Request::Submit(submit)).await {
            Answer::Lease(_) => Ok(Reply::Unregistered(api::Unregistered { unregistered: id.to_owned() })),
            other => Err(self.unless_gone(other, id, lease).await),
        }
    }

    pub(crate) async fn heartbeat_registration(
        &self,
        caller: &Caller,
        id: &str,
        body: api::RegistrationHeartbeat,
    ) -> Result<Reply, Error> {
        let lease = self.registered(id)?;
        for _ in 0..TRIES_MAX {
            let live = self.live_registration(id, lease).await?;
            let epoch = body.epoch.map_or(live.lease.epoch, Epoch);
            let (via, asker) = (caller.connection(), Some(caller.principal.clone()));
            match self.ask(Request::Heartbeat { lease, epoch, via, asker }).await {
                Answer::Renewed { draining, .. } => {
                    let (renewed, lease) = (id.to_owned(), live.lease_secs());
                    return Ok(Reply::RegistrationRenewed(api::RegistrationRenewed {
                        renewed,
                        lease,
                        draining,
                    }));
                }
                // Another registrant came in between; without an epoch its proof is as good.
                Answer::Refused(Refused::Rejected(Rejection::StaleEpoch { .. })) if body.epoch.is_none() => {}
                other => return Err(self.unless_gone(other, id, lease).await),
            }
        }
        let message =
            format!("registration {id:?} was not renewed: it changed during each of {TRIES_MAX} attempts");
        Err(attempts_used_up(message, TRIES_MAX))
    }

    /// The lease of a registration, by its whole id.
    fn registered(&self, id: &str) -> Result<LeaseId, Error> {
        match self.registrations().book.find(id) {
            Some(Place::Live(lease)) => Ok(lease),
            Some(Place::Ended(..)) | None => Err(self.gone(id)),
        }
    }

    /// What a retry is about whose registration is not known any more: only its operation leads to an outcome.
    pub(crate) fn no_lease(&self) -> LeaseId {
        LeaseId::new(self.identity().shard, Lsn(0))
    }

    /// Says that a registration is not there, and why where that is known.
    pub(crate) fn gone(&self, id: &str) -> Error {
        match self.registrations().book.find(id) {
            Some(Place::Ended(_, end)) => {
                let reason = end.reason.as_str();
                Error::new(ErrorCode::NotFound, format!("registration {id} has ended: {reason}"))
                    .with("reason", reason)
                    .with("ended_at", end.at())
                    .lost()
            }
            None if self.registrations().is_recalling() && facts::is_id(id) => {
                let message =
                    "this node has just become the leader and still reads which registrations have ended";
                Error::new(ErrorCode::NotLeader, message)
            }
            Some(Place::Live(_)) | None => {
                Error::new(ErrorCode::NotFound, format!("registration {id:?} does not exist")).lost()
            }
        }
    }

    /// A registration as it is. One whose end has begun is none any more, and is said to have ended for that reason.
    pub(crate) async fn live_registration(&self, id: &str, lease: LeaseId) -> Result<Live, Error> {
        let answer = self.ask(Request::Read(lease)).await;
        if let Some(found) = self.live_in(answer)? {
            if let Some((facts, end)) = gates::ending(&found) {
                self.registrations().book.remember(lease, &facts, end);
            }
            if let Some(live) = Live::of(found) {
                return Ok(live);
            }
        }
        Err(self.gone(id))
    }

    /// Why a command about a registration was refused; most likely it is none any more.
    pub(crate) async fn unless_gone(&self, answer: Answer, id: &str, lease: LeaseId) -> Error {
        match &answer {
            Answer::Refused(refused)
                if refused.is_gone()
                    || matches!(refused, Refused::Rejected(Rejection::InvalidState { .. })) =>
            {
                match self.live_registration(id, lease).await {
                    Ok(_) => self.not_that(answer, Asked::AsHolder),
                    Err(gone) => gone,
                }
            }
            Answer::Refused(Refused::Forbidden) => {
                let message = format!("registration {id:?} belongs to another principal");
                Error::new(ErrorCode::Forbidden, message)
            }
            _ => self.not_that(answer, Asked::AsHolder),
        }
    }
}

/// The registration that a command left, and as of when.
fn live(given: LeaseAnswer) -> Option<(Live, Lsn)> {
    match given.lease {
        LeaseFound::Live(lease) => Live::of(lease).map(|live| (live, given.lsn)),
        LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => None,
    }
}

fn registered(live: &Live, warning: Option<String>) -> api::Registration {
    let described = &live.facts.described;
    api::Registration {
        id: live.facts.id.clone(),
        name: described.name.clone(),
        service_type: described.service_type.as_str().to_owned(),
        port: described.port,
        lease: live.lease_secs(),
        mode: show::mode(live.lease.policy.mode),
        advertised_name: live.facts.network_name(&live.lease.members),
        epoch: live.lease.epoch.0,
        draining: live.is_draining(),
        warning,
    }
}

/// Reads a registration as the daemon would and gives every name it may get with the resource that stands for it;
/// nothing is carried out. For whoever wants to know what bytes do to the reading.
///
/// # Errors
/// What is wrong with it.
pub fn understand_registration(asked: &api::Register) -> Result<Vec<(String, String)>, Error> {
    let described = Described::check(asked)?;
    let facts = Facts {
        id: "0".repeat(ID_BYTES),
        described,
        spelled: None,
        renamed: None,
        operation: None,
        home: None,
        leaving: None,
    };
    debug_assert_eq!(Facts::decode(&facts.encode()).as_ref(), Some(&facts), "what is written is read again");
    let of = |name: String| {
        let resource = resource(&facts.described.service_type, &name);
        (name, resource)
    };
    Ok(facts.described.variants().map(of).collect())
}

/// Reads a full instance name as the daemon would.
///
/// # Errors
/// What is wrong with it.
pub fn understand_instance(text: &str) -> Result<(String, ServiceType), Error> {
    service::parse_instance(text)
}
