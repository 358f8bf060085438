//! The daemon under the contract.

use crate::contract::Fixture;
use crate::daemon::Daemon;
use tenure_polling::store::TenureStore;

const GROUP: &str = "g";

pub(crate) struct DaemonFixture {
    daemon: Daemon,
}

impl Fixture for DaemonFixture {
    type Store = TenureStore;

    async fn start() -> Self {
        Self { daemon: Daemon::start().await }
    }

    fn store(&self) -> TenureStore {
        TenureStore::new(self.daemon.client(), GROUP).expect("a store")
    }

    fn freeze(&self) {
        self.daemon.process().freeze();
    }

    fn thaw(&self) {
        self.daemon.process().thaw();
    }

    async fn pin(&self, target: &str, poller: Option<&str>) {
        self.daemon.client().move_target(GROUP, target, poller).await.expect("a pin");
    }

    async fn cordon(&self, poller: &str, is_cordoned: bool) {
        let client = self.daemon.client();
        let done = match is_cordoned {
            true => client.cordon(GROUP, poller).await,
            false => client.uncordon(GROUP, poller).await,
        };
        done.expect("a cordon");
    }
}
