//! The registrations whose home a node is, from its start to its end. What has to be done for them is `tenure-faces`'; here
//! it is started, and stopped with goodbyes or without.

use std::sync::Arc;

use tenure_api::Advertised;
use tenure_engine::EngineConfig;
use tenure_faces::{Announcing, Goodbye, Home, Network, RegistrationOptions, Stage};
use tokio::task::JoinHandle;

use super::shared::NodeShared;

/// How long a goodbye may take before a registration ends without it: its home has 10 s, then another node is asked.
const GATE_TIMEOUT_MS: u64 = 30_000;

/// What a node advertises.
pub(super) struct Homes {
    network: Arc<dyn Network>,
    announcing: JoinHandle<()>,
}

/// A network that nothing is announced on any more, and that is still to be left.
pub(super) struct Parting {
    network: Arc<dyn Network>,
}

/// This node, as registrations know it.
pub(super) fn home(shared: &NodeShared, options: &RegistrationOptions) -> Home {
    Home { node: shared.name.clone(), host: options.host.clone() }
}

/// An engine that leaves time for goodbyes that another node has to say.
pub(super) fn patient(config: EngineConfig) -> EngineConfig {
    let gate_timeout_ms = config.gate_timeout_ms.max(GATE_TIMEOUT_MS);
    EngineConfig { gate_timeout_ms, ..config }
}

impl Homes {
    /// Begins to advertise. Within the runtime.
    pub(super) fn start(stage: Stage, network: Arc<dyn Network>, home: Home) -> Self {
        let announcing = tokio::spawn(Announcing::new(stage, Arc::clone(&network), home).run());
        Self { network, announcing }
    }

    /// Begins no announcement and no goodbye any more: this node stops.
    pub(super) async fn stop(self) -> Parting {
        self.announcing.abort();
        let _ = self.announcing.await;
        Parting { network: self.network }
    }
}

impl Parting {
    /// Leaves the network. Leases stay, and what lives is advertised after the node's return.
    pub(super) async fn part(self, advertised: Advertised) {
        match advertised {
            Advertised::Keep => {
                self.network.leave().await;
                tracing::info!("services stay advertised on the network until the next start");
            }
            Advertised::Withdraw => {
                for (_, goodbye) in self.network.close().await {
                    if let Goodbye::Unsent(error) = goodbye {
                        tracing::warn!(error, "cannot send a goodbye packet");
                    }
                }
            }
        }
    }
}
