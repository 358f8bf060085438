//! What this node knows of the store, on its disk within two seconds: written on a thread of its own, so that a slow disk
//! holds up no work at the store, and a slow store no write.

use std::sync::Arc;
use std::time::Duration;

use super::repeating::Repeating;
use super::shared::NodeShared;

const EVERY: Duration = Duration::from_secs(2);

pub(super) fn start(shared: Arc<NodeShared>) -> Repeating {
    Repeating::start("tenure-memory", EVERY, move || {
        if let Err(error) = shared.remember() {
            tracing::warn!(%error, "cannot save the observed state of the store");
        }
    })
}
