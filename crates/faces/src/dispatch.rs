//! One operation, one implementation: every transport comes through here. Calls of one read go to the engine
//! together and come back together.

use crate::ask::{Plan, Shape, plan};
use crate::call::{Call, Reply};
use crate::caller::{Caller, Freshness};
use crate::connections::NodeConnections;
use crate::elsewhere::Elsewhere;
use crate::events::Versions;
use crate::polling::Polling;
use crate::refusal::{self, About, Asked, Wait};
use crate::registrations::{Health, Home, Homes, Neighbours, Network, RegistrationOptions, Registrations};
use crate::reply::is_told_by_log;
use crate::show::Lens;
use crate::stage::UNREACHED;
pub use crate::status::Vitals;
use crate::streams::{StreamOptions, Streams};
use crate::switchboard::Switchboard;
use core::mem;
use core::time::Duration;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tenure_api::{Error, ErrorCode};
use tenure_engine::host::{free_bytes, read_clocks};
use tenure_engine::kernel::{
    Action, Actor, EndedLease, Event, Evidence, Face, LeaseId, Lsn, Reason, ReclaimBy, Revoke, Text, Tick,
};
use tenure_engine::{
    Account, Answer, Asker, Control, Handle, LeaseFound, Pending, PoolSnapshot, Refused, Request, Space,
    Status, Submit, Ticket,
};
use tenure_history::{History, Identity, LoggedRecord};
use tokio::runtime::RuntimeFlavor;

/// How often, and how many times, it is looked whether a position is applied: for 5 s in all.
const REACH_EVERY: Duration = Duration::from_millis(10);
const REACH_LOOKS: usize = 500;
/// Pause before an overloaded engine is asked again.
const HEARD_AGAIN: Duration = Duration::from_millis(20);

/// Everything a daemon can be asked. Cheap to clone.
#[derive(Clone)]
pub struct Faces {
    shared: Arc<Shared>,
    /// For whom they ask; `None`: for the daemon itself.
    caller: Option<(Account, bool)>,
}

struct Shared {
    handle: Handle,
    identity: Identity,
    switchboard: Arc<Switchboard>,
    history: Mutex<History>,
    versions: Versions,
    vitals: OnceLock<Vitals>,
    registrations: Registrations,
    streams: Streams,
    polling: Polling,
    registrations_alone: AtomicBool,
    /// Tags that the log had before it was restored.
    former_tags: OnceLock<Vec<u32>>,
    /// Set on a node that follows another.
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
}

/// What became of calls that were to begin together.
#[must_use = "a call that has begun must be answered; a call that has not is not carried out"]
pub enum Begun {
    /// They are asked; the answers may be there already.
    UnderWay(UnderWay),
    /// One of them takes several steps: [`Faces::carry_out_all`] takes them.
    Planned(Planned),
}

/// Calls that the engine is asked, each with one request.
pub struct UnderWay {
    /// `None` once the answers are there.
    pending: Option<Pending>,
    answers: Vec<Answer>,
    /// How each is told, or why it was not even asked.
    shapes: Vec<Result<Shape, Error>>,
}

/// Calls of which none has begun.
pub struct Planned(Vec<Result<Plan, Error>>);

/// Withdraws a waiting request whose asker has gone. A lease that was granted all the same is given up,
/// unless an operation id lets the asker find it again.
struct Waiting {
    handle: Handle,
    ticket: Ticket,
    pending: Option<Pending>,
    findable: bool,
}

impl Faces {
    /// Composes the faces over a running engine.
    #[must_use]
    pub fn new(
        handle: Handle,
        switchboard: Arc<Switchboard>,
        history: History,
        network: Arc<dyn Network>,
        options: RegistrationOptions,
        streams: StreamOptions,
    ) -> Self {
        let identity = *history.identity();
        let registrations = Registrations::new(switchboard.book(), network, options);
        let streams = Streams::new(switchboard.streams(), streams);
        let polling = Polling::new(switchboard.polling());
        let history = Mutex::new(history);
        let vitals = OnceLock::new();
        let registrations_alone = AtomicBool::new(false);
        let shared = Shared {
            handle,
            identity,
            switchboard,
            history,
            versions: Versions::default(),
            vitals,
            registrations,
            streams,
            polling,
            registrations_alone,
            former_tags: OnceLock::new(),
            elsewhere: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), caller: None }
    }

    /// The same, within what a caller may have outstanding.
    fn on_behalf_of(&self, caller: &Caller) -> Self {
        let caller = Some((caller.account.clone(), caller.is_operator()));
        Self { shared: Arc::clone(&self.shared), caller }
    }

    fn asker(&self) -> Asker<'_> {
        match &self.caller {
            None => Asker::Daemon,
            Some((account, is_operator)) => Asker::Caller { account, is_operator: *is_operator },
        }
    }

    /// From now on only registrations and discovery are served: what lives no longer than one command must not be
    /// trusted with anything else.
    pub fn serve_registrations_alone(&self) {
        self.shared.registrations_alone.store(true, Ordering::Relaxed);
    }

    /// These are the faces of a node, for as long as it plays one part. `elsewhere`: it follows, and that is the way to who
    /// writes.
    pub fn belong_to_cluster(
        &self,
        home: Home,
        neighbours: Arc<dyn Neighbours>,
        connections: NodeConnections,
        elsewhere: Option<Arc<dyn Elsewhere>>,
    ) {
        self.switchboard().serve_node(connections);
        self.registrations().have_homes(Homes::new(home, neighbours));
        match elsewhere {
            Some(elsewhere) => drop(self.shared.elsewhere.set(elsewhere)),
            None => {
                self.registrations().will_recall();
                self.streams().will_recall();
            }
        }
    }

    /// The log had these tags before it was restored: `why` is told of ids that have them.
    pub fn had_tags(&self, former: Vec<u32>) {
        let _ = self.shared.former_tags.set(former);
    }

    pub(crate) fn former_tags(&self) -> &[u32] {
        self.shared.former_tags.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_of_cluster(&self) -> bool {
        self.registrations().homes().is_some()
    }

    /// Whether this node follows another.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.shared.elsewhere.get().is_some()
    }

    /// The way to who writes; `None`: it is this node.
    pub(crate) fn elsewhere(&self) -> Option<&Arc<dyn Elsewhere>> {
        self.shared.elsewhere.get()
    }

    /// The same for calls that this node does not answer itself.
    fn elsewhere_for(&self, caller: &Caller, calls: &[Call]) -> Option<&Arc<dyn Elsewhere>> {
        let elsewhere = self.shared.elsewhere.get()?;
        let is_here = |call: &Call| {
            call.is_of_this_node() || (caller.freshness != Freshness::Present && call.may_be_stale())
        };
        (!calls.iter().all(is_here)).then_some(elsewhere)
    }

    /// What this node has taken says so on its way.
    fn taken_here(&self, call: Call) -> Call {
        match self.registrations().homes() {
            Some(homes) => call.taken_at(homes.own()),
            None => call,
        }
    }

    /// Waits until a position is applied that the caller has seen elsewhere.
    pub(crate) async fn reach(&self, freshness: Freshness) -> Result<(), Error> {
        let Freshness::AtLeast(lsn) = freshness else { return Ok(()) };
        // The engine is asked once, however far off the position is: a caller may name any.
        if self.synced_lsn().await?.0 >= lsn {
            return Ok(());
        }
        for _ in 0..REACH_LOOKS {
            tokio::time::sleep(REACH_EVERY).await;
            if self.handle().synced_lsn().0 >= lsn {
                return Ok(());
            }
        }
        let message = format!("this node has not applied lsn {lsn} yet");
        Err(Error::new(ErrorCode::NotLeader, message).with(UNREACHED, lsn))
    }

    pub(crate) fn check_served(&self, is_of_registrations: bool) -> Result<(), Error> {
        if is_of_registrations || !self.shared.registrations_alone.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message =
            "no daemon is running, and without one there is only mDNS; start one with: tenure serve";
        Err(Error::new(ErrorCode::InvalidRequest, message))
    }

    /// The daemon is about to stop. Said before anybody is cut off: what was held then is held after the restart.
    pub fn stopping(&self) {
        self.handle().tell(Control::Stopping);
    }

    /// Tells what the daemon knows of itself, once it does.
    pub fn set_vitals(&self, vitals: Vitals) {
        // A daemon starts once.
        let _ = self.shared.vitals.set(vitals);
    }

    /// Whose log this is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// What the daemon knows of itself.
    pub(crate) fn vitals(&self) -> Vitals {
        self.shared.vitals.get().cloned().unwrap_or_default()
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.shared.streams
    }

    pub(crate) fn polling(&self) -> &Polling {
        &self.shared.polling
    }

    pub(crate) fn registrations(&self) -> &Registrations {
        &self.shared.registrations
    }

    /// How the network is that services are advertised on, and how many are.
    #[must_use]
    pub fn network_health(&self) -> (Health, usize) {
        let registrations = self.registrations();
        (registrations.network.health(), registrations.book.live_count())
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    pub(crate) fn switchboard(&self) -> &Switchboard {
        &self.shared.switchboard
    }

    pub(crate) fn lens(&self) -> Lens<'_> {
        Lens { identity: self.identity(), wall_ms: read_clocks().wall_ms }
    }

    /// Carries out one call.
    ///
    /// # Errors
    /// Why it was not carried out.
    pub async fn dispatch(&self, caller: &Caller, call: Call) -> Result<Reply, Error> {
        if let Some(elsewhere) = self.elsewhere_for(caller, core::slice::from_ref(&call)) {
            self.permit(caller, &call)?;
            let call = self.taken_here(call);
            return elsewhere.pass(caller, vec![call]).await.pop().unwrap_or_else(|| Err(unknown()));
        }
        self.reach(caller.freshness).await?;
        let wait = Wait::of(&call);
        match self.plan(caller, call)? {
            Plan::Ask(request, shape) => match wait {
                Some(wait) => {
                    let answer = self.wait(caller, request).await;
                    self.reply(shape, answer).await.map_err(|error| wait.name_in(error))
                }
                None => {
                    let answer = self.ask_for(caller.asker(), request).await;
                    self.reply(shape, answer).await
                }
            },
            Plan::Steps(call) => self.on_behalf_of(caller).steps(caller, call).await,
        }
    }

    /// Carries out calls one after the other; those that are one request each cross to the engine together.
    pub async fn dispatch_all(&self, caller: &Caller, calls: Vec<Call>) -> Vec<Result<Reply, Error>> {
        if let Some(elsewhere) = self.elsewhere_for(caller, &calls) {
            // The next node does not know what this caller may take.
            if caller.within.is_some() {
                let mut replies = Vec::with_capacity(calls.len());
                for call in calls {
                    replies.push(self.dispatch(caller, call).await);
                }
                return replies;
            }
            let calls = calls.into_iter().map(|call| self.taken_here(call)).collect();
            return elsewhere.pass(caller, calls).await;
        }
        match self.begin_all(caller, calls) {
            Begun::UnderWay(asked) => asked.replies(self).await,
            Begun::Planned(planned) => self.carry_out_all(caller, planned).await,
        }
    }

    /// Begins calls, unless one of them takes several steps: then nothing has begun yet.
    pub fn begin_all(&self, caller: &Caller, calls: Vec<Call>) -> Begun {
        let count = calls.len();
        let plans: Vec<_> = calls.into_iter().map(|call| self.plan(caller, call)).collect();
        if plans.iter().any(|plan| matches!(plan, Ok(Plan::Steps(_)))) {
            return Begun::Planned(Planned(plans));
        }
        let (mut requests, mut shapes) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for plan in plans {
            match plan {
                Ok(Plan::Ask(request, shape)) => {
                    requests.push(request);
                    shapes.push(Ok(shape));
                }
                Ok(Plan::Steps(_)) => unreachable!("invariant: none of them takes steps"),
                Err(error) => shapes.push(Err(error)),
            }
        }
        let pending = (!requests.is_empty()).then(|| self.ask_together(caller.asker(), requests));
        Begun::UnderWay(UnderWay { pending, answers: Vec::new(), shapes })
    }

    /// Carries out what was planned, in order.
    pub async fn carry_out_all(&self, caller: &Caller, planned: Planned) -> Vec<Result<Reply, Error>> {
        let mut replies = Vec::with_capacity(planned.0.len());
        let (mut requests, mut shapes) = (Vec::new(), Vec::new());
        for plan in planned.0 {
            match plan {
                Ok(Plan::Ask(request, shape)) => {
                    requests.push(request);
                    shapes.push(Ok(shape));
                }
                Ok(Plan::Steps(call)) => {
                    let (requests, shapes) = (mem::take(&mut requests), mem::take(&mut shapes));
                    replies.extend(self.reply_all(caller, requests, shapes).await);
                    replies.push(self.on_behalf_of(caller).steps(caller, call).await);
                }
                Err(error) => shapes.push(Err(error)),
            }
        }
        replies.extend(self.reply_all(caller, requests, shapes).await);
        replies
    }

    /// Sends requests together; whatever was refused before stays in its place.
    async fn reply_all(
        &self,
        caller: &Caller,
        requests: Vec<Request>,
        shapes: Vec<Result<Shape, Error>>,
    ) -> Vec<Result<Reply, Error>> {
        let pending = (!requests.is_empty()).then(|| self.ask_together(caller.asker(), requests));
        UnderWay { pending, answers: Vec::new(), shapes }.replies(self).await
    }

    /// Checks what a caller may ask: by its scope, and by the names of what the call would take.
    fn permit(&self, caller: &Caller, call: &Call) -> Result<(), Error> {
        if call.scope() > caller.scope {
            let message = format!(
                "the request needs scope {}, the credentials have {}",
                call.scope().as_str(),
                caller.scope.as_str()
            );
            return Err(Error::new(ErrorCode::Forbidden, message).with("scope", call.scope().as_str()));
        }
        match &caller.within {
            Some(within) => within.check(call, &self.streams().options.default_pool),
            None => Ok(()),
        }
    }

    fn plan(&self, caller: &Caller, call: Call) -> Result<Plan, Error> {
        self.permit(caller, &call)?;
        self.check_served(call.is_of_registrations())?;
        plan(self.identity(), caller, call)
    }

    /// A rejection as an error; a low disk is told with its numbers.
    pub(crate) fn refused(&self, refused: &Refused, about: impl Into<About>) -> Error {
        match refused {
            Refused::DiskLow => {
                let Vitals { data_dir, free_bytes_min, .. } = self.vitals();
                refusal::disk_low(&data_dir, free_bytes(Path::new(&data_dir)), free_bytes_min)
            }
            other => refusal::error(&self.lens(), other, about),
        }
    }

    /// Why an answer is not the one that was asked for: it is a refusal, or a bug.
    pub(crate) fn not_that(&self, answer: Answer, about: impl Into<About>) -> Error {
        match answer {
            Answer::Refused(refused) => self.refused(&refused, about),
            other => {
                tracing::error!(answer = ?other, "unexpected answer from the engine");
                Error::new(ErrorCode::Internal, "the engine gave an unexpected answer")
            }
        }
    }

    pub(crate) async fn ask(&self, request: Request) -> Answer {
        self.ask_for(self.asker(), request).await
    }

    async fn ask_for(&self, asker: Asker<'_>, request: Request) -> Answer {
        let answer = self.ask_together(asker, vec![request]).await.pop();
        answer.unwrap_or(Answer::Refused(Refused::OutcomeUnknown))
    }

    /// Asks for the daemon itself. What the engine refuses because it is overloaded, or because it does not know for a moment
    /// whether it still leads, is asked again, since no caller would.
    pub(crate) async fn ask_until_heard(&self, requests: Vec<Request>) -> Vec<Answer> {
        let leads = !self.follows();
        let is_unheard = |(answer, request): (&Answer, &Request)| is_unheard(answer, request, leads);
        let mut answers = self.handle().call_all(requests.clone()).await;
        while answers.iter().zip(&requests).any(is_unheard) {
            tokio::time::sleep(HEARD_AGAIN).await;
            let refused = answers
                .iter_mut()
                .zip(&requests)
                .filter(|(answer, request)| is_unheard((&**answer, *request)));
            let (places, again): (Vec<&mut Answer>, Vec<Request>) =
                refused.map(|(place, request)| (place, request.clone())).unzip();
            for (place, answer) in places.into_iter().zip(self.handle().call_all(again).await) {
                *place = answer;
            }
        }
        answers
    }

    /// The same for one request.
    pub(crate) async fn ask_for_itself(&self, request: Request) -> Answer {
        let answer = self.ask_until_heard(vec![request]).await.pop();
        answer.unwrap_or(Answer::Refused(Refused::OutcomeUnknown))
    }

    /// Gives how each lease of an application ended that is still kept, in order of their ends, with the wall clock's time.
    /// Ends that the log does not have any more are left out. `false`: the engine takes nothing more, and not all were read.
    pub(crate) async fn each_ended(
        &self,
        face: Face,
        mut each: impl FnMut(LeaseId, EndedLease, &Event, u64),
    ) -> bool {
        let mut from = Lsn(0);
        loop {
            let asked = self.ask_for_itself(Request::Ended { face, from }).await;
            let Answer::Ended { leases, next, .. } = asked else { return false };
            let positions: Vec<Lsn> = leases.iter().map(|(_, ended)| ended.ended_lsn).collect();
            let Ok(records) = self.with_history(move |history| history.records(&positions)).await else {
                return false;
            };
            let mut records = records.iter().peekable();
            for (lease, ended) in leases {
                while records.next_if(|record| record.lsn < ended.ended_lsn).is_some() {}
                let record = records.peek().filter(|record| record.lsn == ended.ended_lsn);
                if let Some((event, record)) = record.and_then(|record| record.event().zip(Some(record))) {
                    each(lease, ended, event, record.wall_ms);
                }
            }
            match next {
                Some(next) => from = next,
                None => return true,
            }
        }
    }

    /// Who asks alone syncs alone, on this thread; the runtime lends it another one meanwhile.
    fn ask_together(&self, asker: Asker<'_>, requests: Vec<Request>) -> Pending {
        let blocking = |sync: &mut dyn FnMut()| {
            if tokio::runtime::Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
                sync();
            } else {
                tokio::task::block_in_place(sync);
            }
        };
        self.handle().of(asker).call_all_and_stay(requests, blocking)
    }

    /// Asks one thing, without staying for the answer.
    pub(crate) fn start(&self, request: Request) -> Pending {
        self.handle().of(self.asker()).start(request)
    }

    async fn wait(&self, caller: &Caller, request: Request) -> Answer {
        let findable = matches!(&request, Request::Submit(submit) if submit.operation.is_some());
        let pending = self.handle().of(caller.asker()).start(request);
        let ticket = pending.first_ticket();
        let mut waiting = Waiting { handle: self.handle().clone(), ticket, pending: Some(pending), findable };
        let answer = match &mut waiting.pending {
            Some(pending) => pending.await.pop(),
            None => None,
        };
        waiting.pending = None;
        answer.unwrap_or(Answer::Refused(Refused::OutcomeUnknown))
    }

    /// Numbers about everything, as the engine counts.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn engine_status(&self) -> Result<Box<Status>, Error> {
        match self.ask(Request::Status).await {
            Answer::Status(status) => Ok(status),
            other => Err(self.not_that(other, Asked::AsAnyone)),
        }
    }

    /// Every pool.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn pools(&self) -> Result<Vec<PoolSnapshot>, Error> {
        match self.ask(Request::Pools).await {
            Answer::Pools { pools, .. } => Ok(pools),
            other => Err(self.not_that(other, Asked::AsAnyone)),
        }
    }

    /// The newest snapshot: its position and when it was taken, in unix milliseconds.
    #[must_use]
    pub fn last_snapshot(&self) -> Option<(u64, u64)> {
        self.handle().last_snapshot().map(|(lsn, wall_ms)| (lsn.0, wall_ms))
    }

    pub(crate) async fn synced_lsn(&self) -> Result<Lsn, Error> {
        Ok(self.engine_status().await?.synced_lsn)
    }

    /// The engine's present tick.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.handle().tick()
    }

    /// Whether the engine runs turns and may answer, however much is asked of it.
    pub async fn is_ready(&self) -> bool {
        self.readiness().await.is_some()
    }

    /// Whether the disk has room for grants; `None`: the engine does not answer.
    pub async fn readiness(&self) -> Option<Space> {
        let answer = self.handle().probe().await.pop();
        if let Some(Answer::Probed { space }) = answer { Some(space) } else { None }
    }

    pub(crate) async fn oldest_lsn(&self) -> Result<Lsn, Error> {
        self.with_history(|history| history.oldest_lsn()).await?.map_err(|error| unreadable(&error))
    }

    /// The event at a position, if it is still kept.
    pub(crate) async fn logged_event(&self, lsn: Lsn) -> Option<Event> {
        Some(self.logged(lsn).await?.0)
    }

    pub(crate) async fn logged(&self, lsn: Lsn) -> Option<(Event, u64)> {
        let record = self.logged_record(lsn).await?;
        record.event().cloned().map(|event| (event, record.wall_ms))
    }

    /// What event streams remember.
    pub(crate) fn versions(&self) -> &Versions {
        &self.shared.versions
    }

    pub(crate) async fn logged_record(&self, lsn: Lsn) -> Option<LoggedRecord> {
        self.with_history(move |history| history.record(lsn)).await.ok()?.ok()?
    }

    pub(crate) async fn with_history<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut History) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(&self.shared);
        let task = tokio::task::spawn_blocking(move || {
            // Locked for the copy alone: a long read delays no other.
            let mut history = shared.history.lock().unwrap_or_else(PoisonError::into_inner).another();
            read(&mut history)
        });
        task.await.map_err(|_| Error::new(ErrorCode::ShuttingDown, "the daemon is stopping"))
    }

    /// Makes the indexes that keep `why` quick. Blocks on the disk.
    pub async fn maintain_indexes(&self) {
        match self.with_history(|history| history.maintain_indexes()).await {
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot build an index of the log"),
        }
    }
}

impl UnderWay {
    /// The replies, if they can be given without waiting for anything.
    pub fn replies_now(&mut self, faces: &Faces) -> Option<Vec<Result<Reply, Error>>> {
        if let Some(pending) = &mut self.pending {
            self.answers = pending.take_now()?;
            self.pending = None;
        }
        if self.answers.iter().any(is_told_by_log) {
            return None;
        }
        let lens = faces.lens();
        let mut answers = mem::take(&mut self.answers).into_iter();
        let replies = mem::take(&mut self.shapes).into_iter().map(|shape| {
            // What was refused before was not asked.
            let answer = if shape.is_ok() { answers.next() } else { None };
            shape.and_then(|shape| match answer {
                Some(answer) => faces.reply_now(&lens, shape, answer),
                None => Err(unknown()),
            })
        });
        Some(replies.collect())
    }

    /// The replies, once they are there.
    pub async fn replies(mut self, faces: &Faces) -> Vec<Result<Reply, Error>> {
        if let Some(pending) = self.pending.take() {
            self.answers = pending.await;
        }
        if let Some(replies) = self.replies_now(faces) {
            return replies;
        }
        let lens = faces.lens();
        let mut answers = self.answers.into_iter();
        let mut replies = Vec::with_capacity(self.shapes.len());
        for shape in self.shapes {
            replies.push(match shape {
                Ok(shape) => match answers.next() {
                    Some(answer) if is_told_by_log(&answer) => {
                        faces.reply_from_log(&lens, shape, answer).await
                    }
                    Some(answer) => faces.reply_now(&lens, shape, answer),
                    None => Err(unknown()),
                },
                Err(error) => Err(error),
            });
        }
        replies
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let handle = self.handle.clone();
        handle.tell(Control::Cancel(self.ticket));
        if self.findable {
            return;
        }
        // The engine answers a cancelled request too; a grant that came first is nobody's.
        tokio::spawn(async move {
            if let Some(Answer::Lease(given)) = pending.await.pop()
                && let LeaseFound::Live(lease) = given.lease
            {
                handle.tell(Control::Abandoned(lease.id));
            }
        });
    }
}

/// A revoke by the daemon.
pub(crate) fn revoke(lease: LeaseId, reason: Reason) -> Request {
    Request::Submit(Submit::now(Action::Revoke(Revoke {
        lease,
        epoch: None,
        reason,
        text: Text::default(),
        actor: Actor::Daemon,
        evidence: Evidence::None,
        reclaim_by: ReclaimBy::Daemon,
    })))
}

/// Whether an answer says nothing of what was asked. A question can be asked again whatever became of it.
fn is_unheard(answer: &Answer, request: &Request, leads: bool) -> bool {
    let Answer::Refused(refused) = answer else { return false };
    let asks =
        matches!(request, Request::Read(_) | Request::List(_) | Request::Ended { .. } | Request::Status);
    matches!(refused, Refused::Overloaded { .. })
        || (leads && matches!(refused, Refused::NotLeader))
        || (asks && matches!(refused, Refused::OutcomeUnknown))
}

fn unknown() -> Error {
    Error::new(ErrorCode::OutcomeUnknown, "the daemon stopped before the outcome was known")
}

fn unreadable(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorCode::IoError, format!("the log cannot be read: {error}"))
}
