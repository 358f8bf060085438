//! A registration that lives as long as its keeper: the keeper sends heartbeats, registers again after an expiry, and
//! unregisters at the end. `state.rs` decides when to send what; this file interprets the answers.

mod state;

pub use state::{RegistrationEnd, RegistrationState, RegistrationStatus};

use crate::backoff::{Backoff, Jitter};
use crate::client::Client;
use crate::clock::{BootInstant, wait_until};
use crate::error::CallError;
use crate::insist::{Way, insist};
use crate::operation::operation_id;
use core::fmt;
use core::time::Duration;
use serde_json::Value;
use state::{Action, Core, Observation};
use tenure_api::{Error, ErrorCode, Register, Registration};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a daemon that is busy is asked again for the first registration.
const FIRST_LIMIT: Duration = Duration::from_secs(10);

/// Keeps a registration alive. Dropping it unregisters; [`RegistrationKeeper::unregister`] also waits for that.
///
/// A daemon that is restarted, stalled or away for hours does not end it. [`RegistrationEnd`] lists what does.
pub struct RegistrationKeeper {
    client: Client,
    state: watch::Receiver<RegistrationState>,
    stop: CancellationToken,
    /// `None` after a request to stop.
    task: Option<JoinHandle<()>>,
    runtime: Handle,
}

impl Client {
    /// Advertises a service and keeps it advertised.
    ///
    /// # Errors
    /// If the daemon rejects the registration or cannot be reached; the call retries for 10 s while the daemon is busy.
    pub async fn keep_registration(&self, register: &Register) -> Result<RegistrationKeeper, CallError> {
        let mut asked = register.clone();
        asked.operation_id.get_or_insert_with(operation_id);
        let (sent, registration) = obtain(self, &asked).await?;
        let core = Core::new(Jitter::from_system(), sent, registration);
        let (publish, state) = watch::channel(core.state().clone());
        let stop = CancellationToken::new();
        let registrant = Registrant { client: self.clone(), asked, core, publish, stop: stop.clone() };
        let task = Some(tokio::spawn(registrant.keep()));
        Ok(RegistrationKeeper { client: self.clone(), state, stop, task, runtime: Handle::current() })
    }
}

impl RegistrationKeeper {
    /// The registration as last answered by the daemon.
    #[must_use]
    pub fn registration(&self) -> Registration {
        self.state.borrow().registration.clone()
    }

    /// The current state.
    #[must_use]
    pub fn state(&self) -> RegistrationState {
        self.state.borrow().clone()
    }

    /// A receiver of state changes: a drain, a new id after a new registration, the end.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<RegistrationState> {
        self.state.clone()
    }

    /// Waits for the end and returns its reason.
    pub async fn ended(&self) -> RegistrationEnd {
        let mut state = self.state.clone();
        let is_over = |state: &RegistrationState| matches!(state.status, RegistrationStatus::Ended(_));
        match state.wait_for(is_over).await.map(|state| state.status.clone()) {
            Ok(RegistrationStatus::Ended(end)) => end,
            // Nobody is left to keep it.
            Ok(_) | Err(_) => RegistrationEnd::Unregistered,
        }
    }

    /// Ends the registration, unless it has ended or belongs to another registrant by now.
    ///
    /// # Errors
    /// If the daemon cannot be reached for 10 s; the registration then ends when its lease and grace are over.
    pub async fn unregister(mut self) -> Result<(), CallError> {
        match self.parting() {
            Some(parting) => parting.say().await,
            None => Ok(()),
        }
    }

    fn parting(&mut self) -> Option<Parting> {
        let task = self.task.take()?;
        self.stop.cancel();
        Some(Parting { client: self.client.clone(), state: self.state.clone(), task })
    }
}

impl Drop for RegistrationKeeper {
    fn drop(&mut self) {
        let Some(parting) = self.parting() else { return };
        self.runtime.spawn(async move {
            let id = parting.state.borrow().registration.id.clone();
            if let Err(error) = parting.say().await {
                tracing::debug!(%error, id, "cannot unregister: the registration ends at its deadline");
            }
        });
    }
}

impl fmt::Debug for RegistrationKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistrationKeeper").field("state", &self.state()).finish_non_exhaustive()
    }
}

/// The last words.
struct Parting {
    client: Client,
    state: watch::Receiver<RegistrationState>,
    task: JoinHandle<()>,
}

impl Parting {
    async fn say(self) -> Result<(), CallError> {
        // A registration that is on its way is known before it is taken back. It ends because it was told to; one
        // that panicked is over as well.
        let _ = self.task.await;
        let RegistrationState { registration, status } = self.state.borrow().clone();
        match status {
            RegistrationStatus::Registered | RegistrationStatus::Unconfirmed => {}
            RegistrationStatus::Expired | RegistrationStatus::Ended(_) => return Ok(()),
        }
        // After a silence the id may be another registrant's.
        let epoch = Some(registration.epoch);
        match insist(|| self.client.unregister_epoch(&registration.id, epoch), || Way::Open).await {
            Ok(_) => Ok(()),
            Err(error) if is_anothers_or_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn is_anothers_or_gone(error: &CallError) -> bool {
    matches!(error.code(), Some(ErrorCode::NotFound | ErrorCode::StaleEpoch))
}

/// The task behind a keeper.
struct Registrant {
    client: Client,
    asked: Register,
    core: Core,
    publish: watch::Sender<RegistrationState>,
    stop: CancellationToken,
}

impl Registrant {
    async fn keep(mut self) {
        while let Some(due) = self.core.next_deadline() {
            tokio::select! {
                () = wait_until(due) => {}
                () = self.stop.cancelled() => return,
            }
            let Some(action) = self.core.action() else { return };
            let Some(observation) = self.carry_out(action).await else { return };
            if let Observation::Gone { .. } = observation {
                // What was asked for is over; what is asked for from here on is something new.
                self.asked.operation_id = Some(operation_id());
            }
            self.core.observe(BootInstant::now(), observation);
            self.publish.send_if_modified(|state| {
                let is_new = state != self.core.state();
                state.clone_from(self.core.state());
                is_new
            });
        }
    }

    /// `None`: it was told to stop meanwhile.
    async fn carry_out(&self, action: Action) -> Option<Observation> {
        let sent = BootInstant::now();
        match action {
            Action::Heartbeat { limit } => {
                let Registration { id, epoch, .. } = &self.core.state().registration;
                tokio::select! {
                    answer = self.client.heartbeat_registration_within(id, Some(*epoch), limit) => {
                        Some(answer.map_or_else(
                            |error| beat_failed(&error),
                            |renewed| Observation::Renewed { sent, renewed },
                        ))
                    }
                    () = self.stop.cancelled() => None,
                }
            }
            // Waited for in any case: what it brings must be known to be taken back.
            Action::Register => Some(self.client.register(&self.asked).await.map_or_else(
                |error| register_failed(&error),
                |registration| Observation::Registered { sent, registration },
            )),
        }
    }
}

/// Registers for the first time.
async fn obtain(client: &Client, asked: &Register) -> Result<(BootInstant, Registration), CallError> {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
    let deadline = BootInstant::now().after(FIRST_LIMIT);
    loop {
        let sent = BootInstant::now();
        let error = match client.register(asked).await {
            Ok(registration) => return Ok((sent, registration)),
            Err(error) => error,
        };
        let pause = backoff.next_pause().max(error.retry_after().unwrap_or_default());
        if !is_busy(&error) || BootInstant::now().after(pause) >= deadline {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

/// There is a daemon, and it may do it yet, or has done it already.
fn is_busy(error: &CallError) -> bool {
    match error {
        CallError::Rejected(refused) => refused.retry_after_ms.is_some() && refused.code.http_status() >= 500,
        CallError::Broken { .. } | CallError::TimedOut { .. } => true,
        CallError::Unreachable { .. } | CallError::Unexpected { .. } | CallError::Unsendable(_) => false,
    }
}

fn beat_failed(error: &CallError) -> Observation {
    tracing::debug!(%error, "a heartbeat of a registration failed");
    match error {
        CallError::Rejected(refused) => match refused.code {
            ErrorCode::NotFound => Observation::Gone { reason: word(refused, "reason") },
            ErrorCode::StaleEpoch => {
                let current = refused.details.get("current").and_then(Value::as_u64);
                Observation::Over(RegistrationEnd::TakenOver { current })
            }
            _ => Observation::Failed { retry_after: error.retry_after() },
        },
        CallError::Unreachable { .. }
        | CallError::Broken { .. }
        | CallError::Unexpected { .. }
        | CallError::TimedOut { .. }
        | CallError::Unsendable(_) => Observation::Failed { retry_after: None },
    }
}

fn register_failed(error: &CallError) -> Observation {
    tracing::debug!(%error, "cannot register the service again");
    match error {
        // It was carried out by an earlier try, and has ended since.
        CallError::Rejected(refused) if refused.code == ErrorCode::NotFound => {
            Observation::Gone { reason: word(refused, "reason") }
        }
        CallError::Rejected(refused) if refused.definite && refused.retry_after_ms.is_none() => {
            let Error { code, message, .. } = refused.clone();
            Observation::Over(RegistrationEnd::Rejected { code, message })
        }
        CallError::Rejected(_)
        | CallError::Unreachable { .. }
        | CallError::Broken { .. }
        | CallError::Unexpected { .. }
        | CallError::TimedOut { .. }
        | CallError::Unsendable(_) => Observation::Failed { retry_after: error.retry_after() },
    }
}

fn word(refused: &Error, key: &str) -> Option<String> {
    refused.details.get(key).and_then(Value::as_str).map(str::to_owned)
}
