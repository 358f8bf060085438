//! Whether a node hears itself where it tells others to reach it. One that does not would write while nobody can pass
//! calls on to it, and would never be compared with: it does not run.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use tenure_engine::host::read_clocks;
use tenure_server::{NodeSelf, SELF_PATH};

use super::asking;
use super::shared::NodeShared;

/// Why a node does not run: another answers at its `--advertise`, or nobody does.
#[derive(Debug, thiserror::Error)]
#[error("this node cannot reach itself at --advertise {advertise}: {heard}; it listens on {listens}")]
pub(crate) struct UnheardError {
    advertise: String,
    heard: String,
    listens: String,
}

impl UnheardError {
    pub(crate) fn hint(&self) -> String {
        format!(
            "--bind needs an address that the other nodes reach, and --advertise the URL of that address and port; \
             the other nodes use {}",
            self.advertise
        )
    }
}

/// What was heard instead.
enum Heard {
    /// Nothing that can be used: a name may not be known yet, a network not up.
    Nothing(String),
    Another(String),
}

/// An answer is waited for this long in all: a network may come up beside the node.
const WITHIN_MS: u64 = 4_000;
const PAUSE: Duration = Duration::from_millis(250);
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// Asks this node's own URL until this very run of it answers. `listens`: where it is bound.
pub(super) async fn check(shared: &NodeShared, listens: Option<SocketAddr>) -> Result<(), UnheardError> {
    let until_ms = read_clocks().boot_ms + WITHIN_MS;
    // Of one cause different things are heard: of a certificate that is refused, often only that the connection ended.
    let mut said: Vec<String> = Vec::new();
    loop {
        let (heard, is_last) = match ask(shared).await {
            Ok(()) => return Ok(()),
            Err(Heard::Nothing(heard)) => (heard, read_clocks().boot_ms >= until_ms),
            Err(Heard::Another(heard)) => (heard, true),
        };
        if !said.contains(&heard) {
            said.push(heard);
        }
        if is_last {
            let listens = listens.map_or_else(|| "no address".to_owned(), |address| address.to_string());
            return Err(UnheardError { advertise: shared.url.clone(), heard: said.join(", "), listens });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(shared: &NodeShared) -> Result<(), Heard> {
    let (body, _connection) = asking::get(shared, &shared.url, SELF_PATH).await.map_err(Heard::Nothing)?;
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let bytes = body.map_err(|error| Heard::Nothing(error.to_string()))?.to_bytes();
    let answered: NodeSelf = serde_json::from_slice(&bytes)
        .map_err(|_| Heard::Another("the answer is not that of a node of this version".to_owned()))?;
    if answered.incarnation == shared.incarnation {
        return Ok(());
    }
    Err(Heard::Another(format!("another process answers there, node {:?}", answered.node)))
}
