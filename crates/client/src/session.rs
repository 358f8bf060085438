//! A session: one heartbeat for all leases acquired under it, and a report of each that was lost.
//! Invariant: a heartbeat counts as seen only after everything it told was taken in.

mod roll;

use crate::backoff::Jitter;
use crate::client::Client;
use crate::clock::BootInstant;
use crate::error::CallError;
use crate::guard::{Core, GuardState, GuardStatus, Life, LossReason, Observation, Promised, drive, failed};
use crate::hold::{Hold, MARGIN};
use crate::insist::{Way, insist};
use core::fmt;
use core::time::Duration;
use roll::Roll;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_api::{Lease, LeaseQuery, OpenSession, SessionHeartbeat, SessionRenewed, State};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Pages read at most when the leases of a session are listed: ten million leases.
const PAGES_MAX: usize = 10_000;

/// Keeps a session alive, and with it every lease acquired under it. Dropping it closes the session, which releases its
/// leases and cancels the tokens of all its guards.
pub struct SessionKeeper {
    keeper: Arc<Keeper>,
    task: AbortOnDropHandle<()>,
    runtime: Handle,
    closed: bool,
}

/// What guards, holds and the task share.
pub(crate) struct Keeper {
    client: Client,
    session: String,
    holder: String,
    /// The session's own status; its epoch and fence mean nothing.
    life: Life,
    roll: Mutex<Roll>,
}

/// A guard's tie to the session that keeps its lease.
pub(crate) struct Kept(Arc<Keeper>);

impl Client {
    /// Opens a session and keeps it alive.
    ///
    /// # Errors
    /// `ttl_out_of_range`, …, or see [`CallError`].
    pub async fn keep_session(&self, open: &OpenSession) -> Result<SessionKeeper, CallError> {
        self.keep_session_with_margin(open, MARGIN).await
    }

    /// Like [`Client::keep_session`], with a margin that is subtracted from every validity [default: 50 ms].
    ///
    /// # Errors
    /// As [`Client::keep_session`].
    pub async fn keep_session_with_margin(
        &self,
        open: &OpenSession,
        margin: Duration,
    ) -> Result<SessionKeeper, CallError> {
        let sent = BootInstant::now();
        let session = self.open_session(open).await?;
        let Some(valid_ms) = session.valid_ms else {
            return Err(unexpected("a session without valid_ms"));
        };
        let promised = Promised { sent, valid_ms, draining: false, epoch: 0, lsn: session.lsn };
        let core = Core::new(self.terms(margin), Jitter::from_system(), &promised);
        let state = GuardState {
            status: GuardStatus::Held,
            draining: false,
            epoch: 0,
            fence: 0,
            valid_until: Some(core.valid_until()),
        };
        let keeper = Arc::new(Keeper {
            client: self.clone(),
            session: session.session,
            holder: session.holder,
            life: Life::new(state),
            roll: Mutex::new(Roll::new(session.lsn)),
        });
        let (keeping, client) = (keep(keeper.clone(), core), self.clone());
        let ttl = Duration::from_millis(session.ttl_ms.unwrap_or(valid_ms));
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::join!(keeping, client.warn_of_failover(ttl, margin));
        }));
        Ok(SessionKeeper { keeper, task, runtime: Handle::current(), closed: false })
    }
}

impl SessionKeeper {
    /// The session's id.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.keeper.session
    }

    /// Requests resources, all or none, for as long as this session lives.
    pub fn hold(&self, resources: impl IntoIterator<Item = impl Into<String>>) -> Hold {
        Hold::under(self.keeper.clone(), resources)
    }

    /// The session's current state.
    #[must_use]
    pub fn state(&self) -> GuardState {
        self.keeper.state()
    }

    /// A receiver of the session's state changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<GuardState> {
        self.keeper.life.subscribe()
    }

    /// A token that is cancelled when the session is lost, and with it every lease under it.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.keeper.life.token()
    }

    /// Waits for the loss of the session and returns its reason.
    pub async fn lost(&self) -> LossReason {
        self.keeper.life.settled().await
    }

    /// Closes the session and releases its leases. Call it when the work under them has stopped.
    ///
    /// # Errors
    /// If the daemon cannot be reached; the session then ends when its ttl and grace are over.
    pub async fn close(mut self) -> Result<(), CallError> {
        self.stop();
        // It ends because it was aborted.
        let _ = (&mut self.task).await;
        self.keeper.close().await
    }

    fn stop(&mut self) {
        self.closed = true;
        self.task.abort();
        self.keeper.lose_all(&LossReason::Released);
    }
}

impl Drop for SessionKeeper {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        self.stop();
        let keeper = self.keeper.clone();
        self.runtime.spawn(async move {
            if let Err(error) = keeper.close().await {
                tracing::debug!(%error, session = keeper.session, "cannot close the session: it ends at its deadline");
            }
        });
    }
}

impl fmt::Debug for SessionKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("SessionKeeper").field("session", &self.session()).field("state", &state).finish()
    }
}

impl Keeper {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    pub(crate) fn holder(&self) -> &str {
        &self.holder
    }

    /// Puts a granted lease on the roll, so that its loss is noticed.
    pub(crate) async fn admit(self: &Arc<Self>, lease: &Lease) -> Result<(Arc<Life>, Kept), CallError> {
        let life = Arc::new(Life::new(GuardState::held(lease, None)));
        let kept = Kept(self.clone());
        let Some(is_told_already) = self.roll().admit(lease, life.clone()) else {
            return Err(CallError::Unsendable("the session is lost".to_owned()));
        };
        if is_told_already || lease.replayed {
            // Its loss may have been told before it was on the roll. From here on it cannot be missed.
            if let Err(error) = self.look_up(lease).await {
                kept.forget(&lease.lease_id);
                return Err(error);
            }
        }
        Ok((life, kept))
    }

    async fn look_up(&self, lease: &Lease) -> Result<(), CallError> {
        let now = self.client.lease(&lease.lease_id).await?;
        let is_ours = now.state == State::Active
            && now.epoch == lease.epoch
            && now.session.as_deref() == Some(&*self.session);
        if is_ours {
            return Ok(());
        }
        let message = "the lease ended before its grant was known";
        Err(CallError::Rejected(tenure_api::Error::new(tenure_api::ErrorCode::StaleEpoch, message).lost()))
    }

    fn state(&self) -> GuardState {
        let mut state = self.life.state();
        state.look_at(BootInstant::now());
        state
    }

    async fn heartbeat(&self, limit: Duration) -> Observation {
        let heartbeat = SessionHeartbeat { seen_lsn: Some(self.roll().seen_lsn()) };
        // The leases on the roll now; what is granted meanwhile is not judged by this answer.
        let judged = self.roll().ids();
        let answer = self.client.timed_session_heartbeat(&self.session, &heartbeat, limit).await;
        let (sent, renewed) = match answer {
            Ok(answer) => answer,
            Err(error) => return failed(&error),
        };
        if let Err(error) = self.take_in(&renewed, &judged).await {
            return failed(&error);
        }
        let SessionRenewed { valid_ms, lsn, .. } = renewed;
        Observation::Promised(Promised { sent, valid_ms, draining: false, epoch: 0, lsn })
    }

    async fn take_in(&self, renewed: &SessionRenewed, judged: &HashSet<String>) -> Result<(), CallError> {
        match &renewed.ended {
            Some(ended) => {
                let mut roll = self.roll();
                for end in ended {
                    roll.lose(&end.lease_id, &LossReason::from_word(&end.reason));
                }
            }
            None => {
                let live = self.list().await?;
                let mut roll = self.roll();
                for gone in judged.difference(&live) {
                    roll.lose(gone, &LossReason::Expired("not_listed".to_owned()));
                }
            }
        }
        let mut roll = self.roll();
        roll.drain(&renewed.draining);
        roll.saw(renewed.lsn);
        Ok(())
    }

    /// The leases that this session keeps, as the daemon sees them.
    async fn list(&self) -> Result<HashSet<String>, CallError> {
        let holders = self.roll().holders();
        let mut live = HashSet::new();
        for holder in holders {
            self.list_of(holder, &mut live).await?;
        }
        Ok(live)
    }

    async fn list_of(&self, holder: String, live: &mut HashSet<String>) -> Result<(), CallError> {
        let mut query = LeaseQuery {
            holder: Some(holder),
            state: Some(State::Active),
            limit: Some(1_000),
            ..LeaseQuery::default()
        };
        for _ in 0..PAGES_MAX {
            let page = self.client.leases(&query).await?;
            let is_ours = |lease: &Lease| lease.session.as_deref() == Some(&*self.session);
            live.extend(page.leases.into_iter().filter(is_ours).map(|lease| lease.lease_id));
            match page.next_cursor {
                Some(cursor) => query.cursor = Some(cursor),
                None => return Ok(()),
            }
        }
        Err(unexpected("the list of leases does not end"))
    }

    async fn close(&self) -> Result<(), CallError> {
        match insist(|| self.client.close_session(&self.session), || Way::Open).await {
            Ok(_) => Ok(()),
            Err(error) if error.lost() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn lose_all(&self, reason: &LossReason) {
        self.life.lose(reason.clone());
        self.life.settle(None);
        self.roll().close(reason);
    }

    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    pub(crate) fn session_state(&self) -> GuardState {
        self.0.state()
    }

    pub(crate) fn forget(&self, lease_id: &str) {
        self.0.roll().forget(lease_id);
    }
}

async fn keep(keeper: Arc<Keeper>, mut core: Core) {
    let keeper = LoseAllOnDrop(keeper);
    let beat = |limit| {
        let keeper = keeper.0.clone();
        async move { keeper.heartbeat(limit).await }
    };
    let reason = drive(&mut core, beat, |core| keeper.0.life.publish(core)).await;
    keeper.0.lose_all(&reason);
}

/// A task that is no more renews no more.
struct LoseAllOnDrop(Arc<Keeper>);

impl Drop for LoseAllOnDrop {
    fn drop(&mut self) {
        self.0.lose_all(&LossReason::Unreachable);
    }
}

fn unexpected(message: &str) -> CallError {
    CallError::Unexpected { status: 200, message: message.to_owned(), definite: false, lost: false }
}
