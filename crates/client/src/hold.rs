//! Requests a lease until the outcome is known, and returns a guard.
//! Invariant: a lease is called held only after an answer that promised it, asked for a moment ago.

mod obtain;

use crate::backoff::Jitter;
use crate::client::Client;
use crate::clock::BootInstant;
use crate::error::CallError;
use crate::guard::{
    Core, Farewell, Guard, GuardState, Keeping, Life, Parting, Promised, Terms, Voice, keep_on, renew,
};
use crate::session::Keeper;
use crate::socket::Connection;
use core::time::Duration;
use obtain::Obtained;
use serde_json::Value;
use std::sync::Arc;
use tenure_api::{Acquire, Lease, Mode, State};
use tokio_util::task::AbortOnDropHandle;

/// Default margin that is subtracted from every validity.
pub(crate) const MARGIN: Duration = Duration::from_millis(50);
/// Default timeout, beyond the wait, for retries of a request whose outcome is unknown.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// A request for a lease; [`Hold::acquire`] sends it.
#[must_use = "a hold does nothing until `acquire` is called"]
pub struct Hold {
    origin: Origin,
    request: Acquire,
    wait: Duration,
    retry_timeout: Duration,
    margin: Duration,
}

enum Origin {
    Http(Client),
    Connection(Connection),
    Session(Arc<Keeper>),
}

impl Client {
    /// Requests resources, all or none. The guard sends heartbeats in the background.
    pub fn hold(&self, resources: impl IntoIterator<Item = impl Into<String>>) -> Hold {
        Hold::new(Origin::Http(self.clone()), self.holder().to_owned(), resources)
    }

    /// Requests any `count` members of a pool.
    pub fn hold_members(&self, pool: impl Into<String>, count: u32) -> Hold {
        self.hold(core::iter::empty::<String>()).pool(pool, count)
    }

    /// Returns a guard for a lease that this program already holds, such as a reserved one that was activated. The
    /// lease is renewed once before the guard is returned.
    ///
    /// # Errors
    /// If the lease cannot be renewed.
    pub async fn guard(&self, lease: Lease) -> Result<Guard, CallError> {
        let resources = core::iter::empty::<String>();
        let hold = Hold::new(Origin::Http(self.clone()), lease.holder.clone(), resources);
        let deadline = BootInstant::now().after(hold.retry_timeout);
        let parting = Parting::new(Voice::Http(self.clone()), &lease);
        let promised = hold.confirm(self, &lease, deadline).await?;
        Ok(hold.renewed(self.clone(), lease, &promised, parting))
    }

    /// The terms on which what this client holds is kept.
    pub(crate) fn terms(&self, margin: Duration) -> Terms {
        Terms { margin, several_nodes: self.nodes().are_several() }
    }
}

impl Connection {
    /// Requests resources, all or none, for as long as this connection is open.
    pub fn hold(&self, resources: impl IntoIterator<Item = impl Into<String>>) -> Hold {
        Hold::new(Origin::Connection(self.clone()), self.session().to_owned(), resources)
    }
}

impl Hold {
    fn new(origin: Origin, holder: String, resources: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let resources = resources.into_iter().map(Into::into).collect();
        let request = Acquire { resources, holder, ..Acquire::default() };
        Self { origin, request, wait: Duration::ZERO, retry_timeout: RETRY_TIMEOUT, margin: MARGIN }
    }

    pub(crate) fn under(keeper: Arc<Keeper>, resources: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let holder = keeper.holder().to_owned();
        let session = keeper.session().to_owned();
        let mut hold = Self::new(Origin::Session(keeper), holder, resources);
        hold.request.session = Some(session);
        hold
    }

    /// Adds any `count` members of a pool.
    pub fn pool(mut self, name: impl Into<String>, count: u32) -> Self {
        self.request.pools.insert(name.into(), count);
        self
    }

    /// Sets the holder [default: the client's].
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.request.holder = holder.into();
        self
    }

    /// Sets how long one heartbeat lasts: the longest time until the daemon notices that this program died
    /// [default: 90 s, the daemon's default over HTTP]. Has no effect on a connection or under a session, which have
    /// their own.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request.ttl_ms = Some(milliseconds(ttl));
        self
    }

    /// Sets the grace after the ttl, in which the lease is still held and a heartbeat saves it, but which is not part
    /// of its validity [default: 30 s, the daemon's default]. Has no effect under a session, which has its own.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.request.grace_ms = Some(milliseconds(grace));
        self
    }

    /// Waits this long for resources that others hold, first come, first served [default: not at all].
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how long to retry, beyond the wait, while the outcome of the request is unknown [default: 10 s].
    pub fn retry_timeout(mut self, timeout: Duration) -> Self {
        self.retry_timeout = timeout;
        self
    }

    /// Sets the margin that is subtracted from every validity [default: 50 ms]: how long before its end the token is
    /// cancelled.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// Ends the lease after this long, renewed or not.
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.request.max_lifetime_ms = Some(milliseconds(lifetime));
        self
    }

    /// Keeps the resources unavailable this long after a revoke.
    pub fn reclaim_delay(mut self, delay: Duration) -> Self {
        self.request.reclaim_delay_ms = Some(milliseconds(delay));
        self
    }

    /// Sets JSON metadata that is stored with the lease and visible to others.
    pub fn attachment(mut self, attachment: Value) -> Self {
        self.request.attachment = Some(attachment);
        self
    }

    /// Sends the request. While the outcome is unknown (the connection broke, no answer in time) it sends the same
    /// operation again until the outcome is known or the retry timeout is over, so that there is never a second lease.
    ///
    /// If the future is dropped, a lease may remain that is not renewed; it ends after its ttl and grace.
    ///
    /// # Errors
    /// `resource_held`, `wait_timeout`, …; or the reason why the outcome is unknown.
    pub async fn acquire(self) -> Result<Guard, CallError> {
        match &self.origin {
            Origin::Http(client) => {
                let client = client.clone();
                self.acquire_renewed(client).await
            }
            Origin::Connection(connection) => {
                let connection = connection.clone();
                self.acquire_on(connection).await
            }
            Origin::Session(keeper) => {
                let keeper = keeper.clone();
                self.acquire_under(keeper).await
            }
        }
    }

    async fn acquire_renewed(self, client: Client) -> Result<Guard, CallError> {
        if self.request.ttl_ms == Some(0) {
            return Err(CallError::Unsendable(
                "a guard cannot keep a permanent lease: it has no validity".to_owned(),
            ));
        }
        let deadline = BootInstant::now().after(self.wait.saturating_add(self.retry_timeout));
        let wait_until = BootInstant::now().after(self.wait);
        loop {
            let Obtained { lease, sent } =
                obtain::obtain(&client, &self.request, wait_until, deadline).await?;
            let owed = Owed::new(Voice::Http(client.clone()), &lease);
            let promised = match self.fresh_promise(&client, &lease, sent) {
                Some(promised) => promised,
                None => match self.confirm(&client, &lease, deadline).await {
                    Ok(promised) => promised,
                    // An earlier try was granted and has ended since; that operation is spent.
                    Err(error) if error.lost() && lease.replayed && BootInstant::now() < deadline => continue,
                    Err(error) => return Err(error),
                },
            };
            return Ok(self.renewed(client, lease, &promised, owed.take()));
        }
    }

    /// What a grant promised, if it is no replay and was not long on its way.
    fn fresh_promise(&self, client: &Client, lease: &Lease, sent: BootInstant) -> Option<Promised> {
        let Lease { replayed: false, state: State::Active, valid_ms: Some(valid_ms), epoch, lsn, .. } =
            *lease
        else {
            return None;
        };
        let promised = Promised { sent, valid_ms, draining: false, epoch, lsn };
        let is_stale = client.terms(self.margin).is_stale(BootInstant::now(), &promised);
        (!is_stale).then_some(promised)
    }

    /// Heartbeats a lease of which nothing can be believed yet.
    async fn confirm(
        &self,
        client: &Client,
        lease: &Lease,
        deadline: BootInstant,
    ) -> Result<Promised, CallError> {
        let mut tries = obtain::Tries::new(deadline);
        loop {
            let error = match client.timed_heartbeat(&lease.lease_id, lease.epoch, Duration::MAX).await {
                Ok((sent, renewed)) => {
                    let Some(valid_ms) = renewed.valid_ms else {
                        let message = "the lease is not kept by heartbeats".to_owned();
                        return Err(CallError::Unsendable(message));
                    };
                    let (draining, epoch, lsn) = (renewed.draining, renewed.epoch, renewed.lsn);
                    return Ok(Promised { sent, valid_ms, draining, epoch, lsn });
                }
                Err(error) => error,
            };
            tries.pause_after(error).await?;
        }
    }

    fn renewed(&self, client: Client, lease: Lease, promised: &Promised, parting: Parting) -> Guard {
        let core = Core::new(client.terms(self.margin), Jitter::from_system(), promised);
        let life = Arc::new(Life::new(GuardState::held(&lease, Some(core.valid_until()))));
        let renewing = renew(client.clone(), lease.lease_id.clone(), core, life.clone(), lease.epoch);
        let (ttl_ms, margin) = (lease.ttl_ms.unwrap_or(promised.valid_ms), self.margin);
        let task = async move {
            tokio::join!(renewing, client.warn_of_failover(Duration::from_millis(ttl_ms), margin));
        };
        let keeping = Keeping::Renewer(AbortOnDropHandle::new(tokio::spawn(task)));
        Guard::new(lease, life, keeping, parting)
    }

    /// One try: if the connection breaks, what may have been granted on it ends with its session.
    async fn acquire_on(mut self, connection: Connection) -> Result<Guard, CallError> {
        self.refuse_terms("the connection")?;
        self.request.mode = Some(Mode::Session);
        self.request.wait_ms = (!self.wait.is_zero()).then(|| milliseconds(self.wait));
        let sent = BootInstant::now();
        let lease = connection.acquire(&self.request).await?;
        let owed = Owed::new(Voice::Socket(connection.clone()), &lease);
        let (life, keeping) = keep_on(&connection, &lease, sent, self.margin).await?;
        Ok(Guard::new(lease, life, keeping, owed.take()))
    }

    async fn acquire_under(self, keeper: Arc<Keeper>) -> Result<Guard, CallError> {
        self.refuse_terms("the session")?;
        if self.request.grace_ms.is_some() {
            return Err(CallError::Unsendable("the session has its own grace".to_owned()));
        }
        let deadline = BootInstant::now().after(self.wait.saturating_add(self.retry_timeout));
        let wait_until = BootInstant::now().after(self.wait);
        let client = keeper.client().clone();
        let Obtained { lease, .. } = obtain::obtain(&client, &self.request, wait_until, deadline).await?;
        let owed = Owed::new(Voice::Http(client), &lease);
        let (life, kept) = keeper.admit(&lease).await?;
        Ok(Guard::new(lease, life, Keeping::Session(kept), owed.take()))
    }

    fn refuse_terms(&self, keeper: &str) -> Result<(), CallError> {
        match self.request.ttl_ms {
            None => Ok(()),
            Some(_) => Err(CallError::Unsendable(format!("{keeper} has its own ttl"))),
        }
    }
}

/// A lease that was granted and is nobody's yet. Goes back if it stays so.
struct Owed(Option<Parting>);

impl Owed {
    fn new(voice: Voice, lease: &Lease) -> Self {
        Self(Some(Parting::new(voice, lease)))
    }

    fn take(mut self) -> Parting {
        self.0.take().expect("invariant: taken once")
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(parting) = self.0.take() {
            parting.say_later(Farewell::Release);
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
