//! Redis under the contract.

use crate::contract::Fixture;
use crate::redis_server::RedisServer;
use tenure_polling::store::{RedisOptions, RedisStore};

pub(crate) struct RedisFixture {
    server: RedisServer,
}

impl RedisFixture {
    fn options(&self) -> RedisOptions {
        RedisOptions { group: "g".to_owned(), ..RedisOptions::new(self.server.url()) }
    }
}

impl Fixture for RedisFixture {
    type Store = RedisStore;

    async fn start() -> Self {
        Self { server: RedisServer::start().await }
    }

    fn store(&self) -> RedisStore {
        RedisStore::open(&self.options()).expect("a store")
    }

    fn freeze(&self) {
        self.server.process().freeze();
    }

    fn thaw(&self) {
        self.server.process().thaw();
    }

    async fn pin(&self, target: &str, poller: Option<&str>) {
        self.store().pin(target, poller).await.expect("a pin");
    }

    async fn cordon(&self, poller: &str, is_cordoned: bool) {
        self.store().cordon(poller, is_cordoned).await.expect("a cordon");
    }
}
