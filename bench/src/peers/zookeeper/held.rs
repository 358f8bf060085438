//! Many ephemeral nodes of one session in ZooKeeper, and what is left of them when it is over.

use super::LONG_TIMEOUT;
use super::jute::Node;
use super::session::Session;
use crate::gauge;
use crate::peers::peer::Held;
use crate::peers::tasks::runtime;
use crate::peers::wire::Names;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tokio::runtime::Runtime;

pub(super) struct Nodes {
    port: u16,
    parent: String,
    session: Session,
    /// Looks how many are left.
    witness: Session,
    runtime: Runtime,
}

/// How late the last may be: sessions end at ticks, and then all of their nodes in one transaction.
const LATE_BY: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Nodes {
    pub(super) fn take(port: u16, count: u64, ttl: Duration) -> Result<Self> {
        let runtime = runtime()?;
        let names = Names::fresh();
        let parent = format!("/held-{}", names.prefix());
        let (session, witness) = runtime.block_on(async {
            let mut witness = Session::open(port, LONG_TIMEOUT).await?;
            witness.create(&parent, Node::Persistent).await?;
            // Nobody pings until the storm, which gives it another timeout.
            let mut session = Session::open(port, ttl.max(LONG_TIMEOUT)).await?;
            session.create_all((0..count).map(|place| format!("{parent}/{}", names.text(place)))).await?;
            let found = witness.exists(&parent, false).await?.context("the parent is gone")?;
            ensure!(found == count, "{found} of {count} are held");
            Ok((session, witness))
        })?;
        Ok(Self { port, parent, session, witness, runtime })
    }
}

impl Held for Nodes {
    /// The session goes on with another timeout, and then its connection is gone without a word.
    fn storm(self: Box<Self>, from_now: Duration) -> Result<Duration> {
        let Self { port, parent, session, mut witness, runtime } = *self;
        runtime.block_on(async {
            let heard_last = gauge::now();
            let session = session.resume(port, from_now).await?;
            let deadline = heard_last + session.timeout();
            drop(session);
            loop {
                let left = witness.exists(&parent, false).await?.context("the parent is gone")?;
                let now = gauge::now();
                if left == 0 {
                    return Ok(now.saturating_duration_since(deadline));
                }
                ensure!(
                    now < deadline + LATE_BY,
                    "{left} are left {} s after their deadline",
                    LATE_BY.as_secs()
                );
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
    }
}
