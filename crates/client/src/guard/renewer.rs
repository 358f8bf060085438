//! The tasks behind a guard: one that renews by heartbeats, one that listens on a connection. The rules are
//! in `state.rs`; here is only when to ask and what an answer means.

use super::life::Life;
use super::state::{Action, Core, LossReason, Observation, Promised};
use crate::client::Client;
use crate::clock::{BootInstant, wait_until};
use crate::error::CallError;
use crate::socket::Connection;
use core::time::Duration;
use serde_json::Value;
use std::sync::Arc;
use tenure_api::{Error, ErrorCode, Lease, Lost, Renewed, State};
use tokio::sync::oneshot;

/// How long the reason of a loss is looked for.
const REASON_LIMIT: Duration = Duration::from_secs(1);
/// How often the holder of a lease on a connection asks whether to wind down.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Renews until the lease is lost.
pub(crate) async fn renew(client: Client, lease_id: String, mut core: Core, life: Arc<Life>, epoch: u64) {
    // Also when the task ends in a way that nobody thought of.
    let life = LoseOnDrop(life);
    let beat = |limit| {
        let (client, lease_id) = (client.clone(), lease_id.clone());
        async move { observed(client.timed_heartbeat(&lease_id, epoch, limit).await) }
    };
    let reason = drive(&mut core, beat, |core| life.0.publish(core)).await;
    let better = match reason {
        LossReason::Superseded { .. } | LossReason::Revoked(_) => find_reason(&client, &lease_id).await,
        LossReason::Unreachable | LossReason::Expired(_) | LossReason::Released => None,
    };
    life.0.settle(better);
}

/// Keeps what the rules believe up to date until they believe in a loss, and says why.
pub(crate) async fn drive<Answer: Future<Output = Observation> + Send>(
    core: &mut Core,
    mut beat: impl FnMut(Duration) -> Answer,
    mut publish: impl FnMut(&Core),
) -> LossReason {
    let mut in_flight = None;
    loop {
        let Some(deadline) = core.next_deadline() else { return LossReason::Unreachable };
        let observation = tokio::select! {
            () = wait_until(deadline) => Observation::Time,
            observation = answered(&mut in_flight) => {
                in_flight = None;
                observation
            }
        };
        let action = core.observe(BootInstant::now(), observation);
        publish(core);
        match action {
            None => {}
            Some(Action::Heartbeat { limit }) => in_flight = Some(Box::pin(beat(limit))),
            Some(Action::Lose(reason)) => return reason,
        }
    }
}

async fn answered<Answer: Future>(in_flight: &mut Option<core::pin::Pin<Box<Answer>>>) -> Answer::Output {
    match in_flight {
        Some(answer) => answer.await,
        None => core::future::pending().await,
    }
}

/// What a heartbeat brought, with the instant before it was sent.
pub(crate) fn observed(answer: Result<(BootInstant, Renewed), CallError>) -> Observation {
    match answer {
        Ok((sent, Renewed { valid_ms: Some(valid_ms), draining, epoch, lsn, .. })) => {
            Observation::Promised(Promised { sent, valid_ms, draining, epoch, lsn })
        }
        // A lease that is kept by something else promises nothing here.
        Ok(_) => Observation::Failed { retry_after: None },
        Err(error) => failed(&error),
    }
}

pub(crate) fn failed(error: &CallError) -> Observation {
    match loss_of(error) {
        Some(reason) => Observation::Gone(reason),
        None => {
            tracing::debug!(%error, "a heartbeat failed");
            Observation::Failed { retry_after: error.retry_after() }
        }
    }
}

/// The loss that a refusal tells of, if it does.
pub(crate) fn loss_of(error: &CallError) -> Option<LossReason> {
    match error {
        CallError::Rejected(refused) if refused.lost => Some(loss_by_code(refused)),
        CallError::Unexpected { lost: true, .. } => Some(LossReason::Revoked("unknown".to_owned())),
        CallError::Rejected(_)
        | CallError::Unexpected { .. }
        | CallError::Unreachable { .. }
        | CallError::Broken { .. }
        | CallError::TimedOut { .. }
        | CallError::Unsendable(_) => None,
    }
}

fn loss_by_code(refused: &Error) -> LossReason {
    let code = refused.code.as_str().to_owned();
    match refused.code {
        ErrorCode::StaleEpoch => {
            LossReason::Superseded { current: refused.details.get("current").and_then(Value::as_u64) }
        }
        ErrorCode::InvalidState => match refused.details.get("state").and_then(Value::as_str) {
            Some("released") => LossReason::Released,
            Some("expired") => LossReason::Expired("reservation_expired".to_owned()),
            Some(_) | None => LossReason::Revoked("revoked".to_owned()),
        },
        ErrorCode::NotFound
        | ErrorCode::LeaseRetired
        | ErrorCode::SessionNotFound
        | ErrorCode::SessionGone
        | ErrorCode::SessionExpired => LossReason::Expired(code),
        _ => LossReason::Revoked(code),
    }
}

/// A stale epoch says that authority is gone, not why.
async fn find_reason(client: &Client, lease_id: &str) -> Option<LossReason> {
    let lease = tokio::time::timeout(REASON_LIMIT, client.lease(lease_id)).await.ok()?.ok()?;
    match lease.state {
        State::Reserved | State::Active => Some(LossReason::Superseded { current: Some(lease.epoch) }),
        State::Revoking | State::Released | State::Expired | State::Revoked => {
            lease.reason.as_deref().map(LossReason::from_word)
        }
    }
}

/// Waits for a loss to be told, or for the connection to close.
pub(crate) async fn listen(
    connection: Connection,
    lease: Lease,
    mut lost: oneshot::Receiver<Lost>,
    life: Arc<Life>,
    look_every: Duration,
) {
    let life = LoseOnDrop(life);
    let reason = loop {
        let look = async {
            tokio::time::sleep(look_every).await;
            connection.heartbeat(&lease.lease_id, lease.epoch).await
        };
        let answer = tokio::select! {
            told = &mut lost => break match told {
                Ok(told) => LossReason::from_word(&told.reason),
                Err(_) => LossReason::Unreachable,
            },
            () = connection.closed() => break LossReason::Unreachable,
            answer = look => answer,
        };
        match answer {
            Ok(renewed) => life.0.set_draining(renewed.draining),
            Err(error) => {
                if let Some(reason) = loss_of(&error) {
                    // The word of the loss, which says why, is sent before any answer that rests on it.
                    break lost.try_recv().map_or(reason, |told| LossReason::from_word(&told.reason));
                }
            }
        }
    };
    life.0.lose(reason);
    life.0.settle(None);
}

/// Renews on a connection until the lease is lost, that is told, or the connection closes.
pub(crate) async fn renew_on(
    connection: Connection,
    lease: Lease,
    mut lost: oneshot::Receiver<Lost>,
    mut core: Core,
    life: Arc<Life>,
) {
    let life = LoseOnDrop(life);
    let beat = |limit| {
        let (connection, lease_id, epoch) = (connection.clone(), lease.lease_id.clone(), lease.epoch);
        async move {
            let sent = BootInstant::now();
            let answer = tokio::time::timeout(limit, connection.heartbeat(&lease_id, epoch)).await;
            match answer {
                Ok(answer) => observed(answer.map(|renewed| (sent, renewed))),
                Err(_) => Observation::Failed { retry_after: None },
            }
        }
    };
    let reason = tokio::select! {
        told = &mut lost => match told {
            Ok(told) => LossReason::from_word(&told.reason),
            Err(_) => LossReason::Unreachable,
        },
        () = connection.closed() => LossReason::Unreachable,
        reason = drive(&mut core, beat, |core| life.0.publish(core)) => reason,
    };
    life.0.lose(reason);
    life.0.settle(None);
}

/// A task that is no more renews no more.
struct LoseOnDrop(Arc<Life>);

impl Drop for LoseOnDrop {
    fn drop(&mut self) {
        self.0.lose(LossReason::Unreachable);
        self.0.settle(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::GuardState;
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::UnixListener;
    use tokio_util::task::AbortOnDropHandle;

    fn refusal(code: ErrorCode) -> CallError {
        CallError::Rejected(Error::new(code, "no").lost())
    }

    #[test]
    fn a_refusal_is_a_loss_only_if_it_says_so() {
        let stale = CallError::Rejected(Error::new(ErrorCode::StaleEpoch, "no").with("current", 7).lost());
        assert_eq!(loss_of(&stale), Some(LossReason::Superseded { current: Some(7) }));
        assert_eq!(
            loss_of(&refusal(ErrorCode::LeaseRetired)),
            Some(LossReason::Expired("lease_retired".into()))
        );
        assert_eq!(loss_of(&CallError::Rejected(Error::new(ErrorCode::Overloaded, "busy"))), None);
        assert_eq!(loss_of(&CallError::Rejected(Error::new(ErrorCode::Unauthorized, "who"))), None);
        assert_eq!(loss_of(&CallError::TimedOut { limit: Duration::ZERO }), None);
    }

    #[test]
    fn the_state_of_an_ended_lease_gives_the_reason() {
        for (state, reason) in [
            ("released", LossReason::Released),
            ("expired", LossReason::Expired("reservation_expired".to_owned())),
            ("revoking", LossReason::Revoked("revoked".to_owned())),
        ] {
            let error =
                CallError::Rejected(Error::new(ErrorCode::InvalidState, "no").with("state", state).lost());
            assert_eq!(loss_of(&error), Some(reason));
        }
    }

    /// Greets, and answers heartbeats: the second time with a drain, the third time with a loss.
    async fn daemon(listener: UnixListener) {
        let (stream, _) = listener.accept().await.expect("a connection");
        let (read_half, mut half) = stream.into_split();
        let mut lines = BufReader::new(read_half).lines();
        let mut heartbeats = 0;
        while let Ok(Some(line)) = lines.next_line().await {
            let asked: Value = serde_json::from_str(&line).expect("JSON");
            let mut said = json!({"hello": {"session": "pipe:01", "version": "0"}});
            if asked.get("heartbeat").is_some() {
                heartbeats += 1;
                said = json!({"renewed": {"lease_id": "k3f9-1", "epoch": 1, "valid_ms": null,
                    "remaining_ms": null, "draining": heartbeats == 2, "server_time": "", "lsn": 1}});
            }
            if heartbeats == 3 {
                said = json!({"error": "stale_epoch", "message": "", "definite": true, "lost": true,
                    "current": 2});
            }
            said["tag"] = asked["tag"].clone();
            half.write_all(format!("{said}\n").as_bytes()).await.expect("the client listens");
        }
    }

    #[tokio::test]
    async fn on_a_connection_drain_and_loss_are_asked_for_as_well() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let _daemon = AbortOnDropHandle::new(tokio::spawn(daemon(listener)));
        let connection = Connection::open(&path).await.expect("open");
        let lease: Lease = serde_json::from_value(json!({
            "lease_id": "k3f9-1", "holder": "me", "state": "active", "mode": "session", "epoch": 1,
            "fence": 1, "resources": ["r"], "granted_at": "", "face": "leases", "server_time": "", "lsn": 1,
        }))
        .expect("a lease");
        let life = Arc::new(Life::new(GuardState::held(&lease, None)));
        let mut states = life.subscribe();
        let lost = connection.desk().guard(&lease.lease_id);
        let listening = listen(connection, lease, lost, life.clone(), Duration::from_millis(5));
        let _listener = AbortOnDropHandle::new(tokio::spawn(listening));
        states.wait_for(|state| state.draining).await.expect("a state");
        assert_eq!(life.settled().await, LossReason::Superseded { current: Some(2) });
        assert!(life.token().is_cancelled());
    }
}
