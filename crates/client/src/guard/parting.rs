//! What a holder says when its work has stopped: it gives the lease back, or acknowledges that it was taken.
//! Said again until it was heard, within a limit.

use super::state::{GuardStatus, LossReason};
use crate::client::Client;
use crate::error::CallError;
use crate::insist::{Way, insist};
use crate::operation::operation_id;
use crate::socket::Connection;
use tenure_api::{ErrorCode, HolderCall, Lease};
use tokio::runtime::Handle;

/// How to speak to the daemon.
#[derive(Clone)]
pub(crate) enum Voice {
    Http(Client),
    Socket(Connection),
}

/// What is to be said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Farewell {
    Release,
    Acknowledge,
    Nothing,
}

/// Its owner still has to release the lease.
pub(crate) struct Parting {
    voice: Voice,
    lease_id: String,
    epoch: u64,
    /// Guards are also dropped where no runtime is at hand.
    runtime: Handle,
}

impl Farewell {
    pub(crate) fn after(status: &GuardStatus) -> Self {
        match status {
            GuardStatus::Held | GuardStatus::AtRisk => Self::Release,
            // The daemon may still honour it for its grace.
            GuardStatus::Lost(LossReason::Unreachable) => Self::Release,
            GuardStatus::Lost(
                LossReason::Expired(_) | LossReason::Revoked(_) | LossReason::Superseded { .. },
            ) => Self::Acknowledge,
            GuardStatus::Lost(LossReason::Released) => Self::Nothing,
        }
    }
}

impl Parting {
    pub(crate) fn new(voice: Voice, lease: &Lease) -> Self {
        Self { voice, lease_id: lease.lease_id.clone(), epoch: lease.epoch, runtime: Handle::current() }
    }

    pub(crate) fn say_later(self, farewell: Farewell) {
        if farewell == Farewell::Nothing {
            return;
        }
        self.runtime.clone().spawn(async move {
            if let Err(error) = self.say(farewell).await {
                tracing::debug!(%error, lease_id = self.lease_id, "cannot release the lease: it ends at its deadline");
            }
        });
    }

    pub(crate) async fn say(&self, farewell: Farewell) -> Result<(), CallError> {
        match self.repeat(farewell).await {
            // It was taken meanwhile; the daemon waits for this word instead.
            Err(error) if error.lost() && farewell == Farewell::Release => {
                self.repeat(Farewell::Acknowledge).await.or_else(is_over)
            }
            said => said.or_else(is_over),
        }
    }

    async fn repeat(&self, farewell: Farewell) -> Result<(), CallError> {
        let call =
            HolderCall { epoch: self.epoch, operation_id: Some(operation_id()), ..HolderCall::default() };
        insist(|| self.say_once(farewell, &call), || self.way()).await
    }

    async fn say_once(&self, farewell: Farewell, call: &HolderCall) -> Result<(), CallError> {
        let said = match (farewell, &self.voice) {
            (Farewell::Nothing, _) => return Ok(()),
            (Farewell::Release, Voice::Http(client)) => client.release(&self.lease_id, call).await,
            (Farewell::Release, Voice::Socket(connection)) => connection.release(&self.lease_id, call).await,
            (Farewell::Acknowledge, Voice::Http(client)) => client.acknowledge(&self.lease_id, call).await,
            (Farewell::Acknowledge, Voice::Socket(connection)) => {
                connection.acknowledge(&self.lease_id, call).await
            }
        };
        said.map(drop)
    }

    /// A closed connection says nothing more; its session's end says it all.
    fn way(&self) -> Way {
        match &self.voice {
            Voice::Socket(connection) if connection.is_closed() => Way::Closed,
            Voice::Socket(_) | Voice::Http(_) => Way::Open,
        }
    }
}

/// Not ours any more, or never revoked: there is nothing left to say.
fn is_over(error: CallError) -> Result<(), CallError> {
    if error.lost() || error.code() == Some(ErrorCode::InvalidState) { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_depends_on_how_it_ended() {
        assert_eq!(Farewell::after(&GuardStatus::Held), Farewell::Release);
        assert_eq!(Farewell::after(&GuardStatus::AtRisk), Farewell::Release);
        for (reason, farewell) in [
            (LossReason::Unreachable, Farewell::Release),
            (LossReason::Revoked("admin_force".to_owned()), Farewell::Acknowledge),
            (LossReason::Expired("max_lifetime".to_owned()), Farewell::Acknowledge),
            (LossReason::Superseded { current: None }, Farewell::Acknowledge),
            (LossReason::Released, Farewell::Nothing),
        ] {
            assert_eq!(Farewell::after(&GuardStatus::Lost(reason)), farewell);
        }
    }
}
