//! What only Redis has: keys that older programs share, losing everything, who is let in, Sentinels and Clusters.

mod access;
mod cluster;
mod keys;
mod losing;
mod older_peers;
mod operators;
mod pattern;
mod polling;
mod sentinels;

use crate::redis_server::RedisServer;
use std::sync::Arc;
use std::time::Duration;
use tenure_polling::Instance;
use tenure_polling::store::{
    HeldTarget, Membership, Outcome, RedisOptions, RedisStore, Store, StoreError, TargetName, View, Wanted,
};

/// Long enough that nothing ends by itself.
const LASTING: Duration = Duration::from_secs(60);

fn membership(instance: Instance) -> Membership {
    Membership { instance, weight: 1, ttl: LASTING, call_timeout: Duration::from_secs(5) }
}

/// A store of the default group, with a member.
struct Poller {
    store: Arc<RedisStore>,
    membership: Membership,
}

impl Poller {
    async fn join(server: &RedisServer) -> Self {
        Self::join_with(&RedisOptions::new(server.url())).await.expect("joins")
    }

    async fn join_with(options: &RedisOptions) -> Result<Self, StoreError> {
        let store = RedisStore::open(options)?;
        let membership = membership(Instance::generate());
        store.join(&membership).await?;
        Ok(Self { store: Arc::new(store), membership })
    }

    fn instance(&self) -> &str {
        self.membership.instance.as_str()
    }

    async fn try_acquire(&self, target: &str) -> Result<Outcome<HeldTarget>, StoreError> {
        let wanted = Wanted { target: target.into(), reserved: None };
        let mut outcomes = self.store.acquire(&[wanted]).await?;
        Ok(outcomes.remove(0))
    }

    async fn acquire(&self, target: &str) -> HeldTarget {
        match self.try_acquire(target).await {
            Ok(Outcome::Done(lease)) => lease,
            other => panic!("not acquired: {other:?}"),
        }
    }

    async fn view(&self, targets: &[&str]) -> View {
        let targets: Vec<TargetName> = targets.iter().map(|target| (*target).into()).collect();
        self.store.observe(&targets).await.expect("a view")
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
