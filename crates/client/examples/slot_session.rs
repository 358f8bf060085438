//! Holds a slot of a pool for as long as a viewer watches a channel: heartbeats keep the slot session, a stop ends it.

use std::error::Error;
use std::time::Duration;
use tenure_client::api::{SlotSession, SlotSessionStart, SlotSessionState};
use tenure_client::clock::{BootInstant, wait_until};
use tenure_client::{CallError, Client, Endpoint};

/// Holds a slot of the pool while `watching` runs. Returns the error if the session ends before.
pub(crate) async fn hold_slot_while(
    client: &Client,
    pool: &str,
    watching: impl Future<Output = ()>,
) -> Result<Option<CallError>, CallError> {
    let start = SlotSessionStart { pool: Some(pool.to_owned()), ..SlotSessionStart::default() };
    let session = client.start_slot_session(&start, None).await?;
    let lost = tokio::select! {
        () = watching => None,
        lost = keep(client, &session) => Some(lost),
    };
    if lost.is_none() {
        let stopped = client.stop_slot_session(&session.session_id).await?;
        assert_eq!(stopped.state, SlotSessionState::Stopped);
    }
    Ok(lost)
}

/// Sends heartbeats until the session has ended.
async fn keep(client: &Client, session: &SlotSession) -> CallError {
    let mut next = BootInstant::now().after(Duration::from_secs(session.heartbeat_interval));
    loop {
        wait_until(next).await;
        let sent = BootInstant::now();
        match client.heartbeat_slot_session(&session.session_id, session.epoch).await {
            Ok(renewed) => next = sent.after(Duration::from_secs(renewed.next_heartbeat_in)),
            Err(error) if error.lost() => return error,
            // A lost packet does not end the session: the ttl is longer than several heartbeats.
            Err(error) => next = sent.after(error.retry_after().unwrap_or(Duration::from_millis(500))),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint: Endpoint = std::env::var("TENURE_ENDPOINT")?.parse()?;
    let client = Client::builder(endpoint).build()?;
    let watching = async {
        // A player would play here.
    };
    match hold_slot_while(&client, "tuner", watching).await? {
        None => Ok(()),
        Some(lost) => Err(lost.into()),
    }
}
