//! A guard holds a lease: it renews it in the background, reports when it is at risk or lost, and fails closed.
//! Invariant: nothing renews a lease after its guard was released or dropped.

mod life;
mod parting;
mod renewer;
mod state;

pub use life::GuardState;
pub use state::{GuardStatus, LossReason};

pub(crate) use life::Life;
pub(crate) use parting::{Farewell, Parting, Voice};
pub(crate) use renewer::{drive, failed, renew};
pub(crate) use state::{Core, Observation, Promised, Terms};

use crate::backoff::Jitter;
use crate::clock::BootInstant;
use crate::error::CallError;
use crate::hold::MARGIN;
use crate::session::Kept;
use crate::socket::Connection;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use tenure_api::{ErrorCode, HolderCall, Lease};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How long a lease is resumed again where its grace is not known.
const RESUME_GRACE_MS: u64 = 30_000;
/// Pause before a lease is resumed again, where the daemon advises none.
const RESUME_PAUSE_MS: u64 = 200;

/// A held lease.
///
/// While [`Guard::is_held`] is true, no other holder has any of its resources. [`Guard::token`] is cancelled when that
/// ends, at the latest a margin before the daemon could grant them to another holder. Work that continues after that
/// must be stopped by the fencing token ([`Guard::fence`]) in the systems it writes to.
///
/// Dropping a guard means that its work has stopped: the guard releases the lease, or acknowledges its loss, in the
/// background. [`Guard::release`] and [`Guard::stopped`] do the same and wait for it.
pub struct Guard {
    lease: Lease,
    life: Arc<Life>,
    keeping: Keeping,
    /// Taken once the release is sent to the daemon.
    parting: Option<Parting>,
}

/// What keeps the lease alive.
pub(crate) enum Keeping {
    Renewer(AbortOnDropHandle<()>),
    Connection { connection: Connection, listener: AbortOnDropHandle<()> },
    Session(Kept),
}

/// An error of [`Guard::release`].
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The lease had been lost before; work since then was not protected by it.
    #[error("{0}")]
    Lost(LossReason),
    /// The daemon could not be reached; the lease ends when its ttl and grace are over.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Guard {
    pub(crate) fn new(lease: Lease, life: Arc<Life>, keeping: Keeping, parting: Parting) -> Self {
        Self { lease, life, keeping, parting: Some(parting) }
    }

    /// The lease as granted or resumed.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The lease's id.
    #[must_use]
    pub fn lease_id(&self) -> &str {
        &self.lease.lease_id
    }

    /// The epoch that calls about the lease present.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.lease.epoch
    }

    /// The fencing token: rises with each holder. Send it with every write, and let the protected system reject lower
    /// ones.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.lease.fence
    }

    /// The held resources; of a pool, the granted members.
    #[must_use]
    pub fn resources(&self) -> &[String] {
        &self.lease.resources
    }

    /// Whether the holder may act now. Reads the clock, so it is correct even if the background task could not run.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !matches!(self.state().status, GuardStatus::Lost(_))
    }

    /// The current state.
    #[must_use]
    pub fn state(&self) -> GuardState {
        let mut state = self.life.state();
        match &self.keeping {
            Keeping::Renewer(_) => {}
            Keeping::Connection { connection, .. } => {
                if connection.is_closed() {
                    state.lose(LossReason::Unreachable);
                }
            }
            Keeping::Session(kept) => state.bound_by(&kept.session_state()),
        }
        state.look_at(BootInstant::now());
        state
    }

    /// How long the holder may act without another renewal; `None` for a lease that is valid while its connection is
    /// open.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let state = self.state();
        match state.status {
            GuardStatus::Lost(_) => Some(Duration::ZERO),
            GuardStatus::Held | GuardStatus::AtRisk => {
                state.valid_until.map(|until| until.since(BootInstant::now()))
            }
        }
    }

    /// A receiver of state changes. For a lease kept by a session, the session reports risk and validity.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<GuardState> {
        self.life.subscribe()
    }

    /// A token that is cancelled when the holder must stop: at a loss, and when the guard is released or dropped.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.life.token()
    }

    /// Waits for the loss and returns its reason. The token is cancelled first; the reason may take a moment longer,
    /// because the guard requests it from the daemon.
    pub async fn lost(&self) -> LossReason {
        self.life.settled().await
    }

    /// Releases the lease. Call it when the work under the lease has stopped.
    ///
    /// # Errors
    /// If the lease had been lost before, or the daemon cannot be reached.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let before = self.state().status;
        self.part().await?;
        match before {
            GuardStatus::Held | GuardStatus::AtRisk => Ok(()),
            GuardStatus::Lost(reason) => Err(ReleaseError::Lost(reason)),
        }
    }

    /// Reports that the work has stopped: after a loss the daemon then need not wait for the end of the validity;
    /// otherwise this releases the lease.
    ///
    /// # Errors
    /// If the daemon cannot be reached.
    pub async fn stopped(mut self) -> Result<(), CallError> {
        self.part().await
    }

    /// Binds the lease to a new connection after the old one closed, within its grace. Epoch and fence rise. Waits up
    /// to the grace for the daemon to notice that the old connection is gone. Tokens and receivers from before stay
    /// with the loss: get new ones.
    ///
    /// # Errors
    /// If the guard's lease is not kept by a connection, or the lease has ended.
    pub async fn resume(&mut self, connection: &Connection) -> Result<(), CallError> {
        let Keeping::Connection { .. } = self.keeping else {
            return Err(CallError::Unsendable("the lease is not kept by a connection".to_owned()));
        };
        let call = HolderCall { epoch: self.lease.epoch, ..HolderCall::default() };
        let noticed_by =
            BootInstant::now().after(Duration::from_millis(self.lease.grace_ms.unwrap_or(RESUME_GRACE_MS)));
        let (sent, lease) = loop {
            let sent = BootInstant::now();
            match connection.resume(&self.lease.lease_id, &call).await {
                Ok(lease) => break (sent, lease),
                // The daemon has not noticed yet that the old connection is gone.
                Err(CallError::Rejected(error)) if error.code == ErrorCode::NotDraining => {
                    let pause = Duration::from_millis(error.retry_after_ms.unwrap_or(RESUME_PAUSE_MS));
                    if BootInstant::now().after(pause) >= noticed_by {
                        return Err(CallError::Rejected(error));
                    }
                    tokio::time::sleep(pause).await;
                }
                Err(error) => return Err(error),
            }
        };
        let (life, keeping) = keep_on(connection, &lease, sent, MARGIN).await?;
        let current = Some(lease.epoch);
        self.life.lose(LossReason::Superseded { current });
        self.life.settle(None);
        let parting = Parting::new(Voice::Socket(connection.clone()), &lease);
        let old = core::mem::replace(self, Self::new(lease, life, keeping, parting));
        old.forget();
        Ok(())
    }

    /// The end of a guard whose lease lives on under another one.
    fn forget(mut self) {
        self.parting = None;
        if let Keeping::Connection { connection, .. } = &self.keeping {
            connection.desk().forget_guard(&self.lease.lease_id);
        }
    }

    /// What is to be said at the end, after everything that renews is told to stop.
    fn begin_parting(&mut self) -> Option<(Parting, Farewell)> {
        let parting = self.parting.take()?;
        let farewell = Farewell::after(&self.state().status);
        self.life.lose(LossReason::Released);
        self.life.settle(None);
        match &self.keeping {
            Keeping::Renewer(task) => task.abort(),
            Keeping::Connection { connection, listener } => {
                listener.abort();
                connection.desk().forget_guard(&self.lease.lease_id);
            }
            Keeping::Session(kept) => kept.forget(&self.lease.lease_id),
        }
        Some((parting, farewell))
    }

    async fn part(&mut self) -> Result<(), CallError> {
        let Some((parting, farewell)) = self.begin_parting() else { return Ok(()) };
        // A heartbeat that is being written is written before the release.
        if let Keeping::Renewer(task) = &mut self.keeping {
            // It ends because it was aborted.
            let _ = task.await;
        }
        parting.say(farewell).await
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Guard").field("lease_id", &self.lease_id()).field("state", &state).finish()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some((parting, farewell)) = self.begin_parting() {
            parting.say_later(farewell);
        }
    }
}

/// Keeps a lease on its connection. At one daemon it is valid while that is open, and it is enough to listen; at a node
/// of a cluster it is valid for as long as the holder was told last, and heartbeats on the connection go on.
///
/// # Errors
/// When the grant was too long on its way to be believed, and the lease cannot be heartbeat.
pub(crate) async fn keep_on(
    connection: &Connection,
    lease: &Lease,
    sent: BootInstant,
    margin: Duration,
) -> Result<(Arc<Life>, Keeping), CallError> {
    let lost = connection.desk().guard(&lease.lease_id);
    let keeping = |listener| Keeping::Connection {
        connection: connection.clone(),
        listener: AbortOnDropHandle::new(listener),
    };
    let Some(valid_ms) = lease.valid_ms else {
        let life = Arc::new(Life::new(GuardState::held(lease, None)));
        let (connection, lease) = (connection.clone(), lease.clone());
        let listening = renewer::listen(connection, lease, lost, life.clone(), renewer::LOOK_EVERY);
        return Ok((life, keeping(tokio::spawn(listening))));
    };
    let terms = Terms { margin, several_nodes: true };
    let mut promised = Promised { sent, valid_ms, draining: false, epoch: lease.epoch, lsn: lease.lsn };
    if terms.is_stale(BootInstant::now(), &promised) {
        let sent = BootInstant::now();
        let renewed = connection.heartbeat(&lease.lease_id, lease.epoch).await?;
        let valid_ms = renewed.valid_ms.unwrap_or(0);
        promised = Promised { sent, valid_ms, draining: renewed.draining, ..promised };
    }
    let core = Core::new(terms, Jitter::from_system(), &promised);
    let life = Arc::new(Life::new(GuardState::held(lease, Some(core.valid_until()))));
    let renewing = renewer::renew_on(connection.clone(), lease.clone(), lost, core, life.clone());
    Ok((life, keeping(tokio::spawn(renewing))))
}
