//! Contenders for one name in ZooKeeper, as its own recipe queues them: each makes a numbered node, the lowest has the
//! name, and everybody else watches the one before.

use super::LONG_TIMEOUT;
use super::jute::Node;
use super::session::Session;
use crate::gauge;
use crate::peers::peer::Contention;
use crate::peers::tasks::{contention, runtime};
use anyhow::{Context, Result};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;

const NAME: &str = "/contended-by-all";
/// How much longer than asked it may take until everybody has given back.
const LATE_BY: Duration = Duration::from_secs(30);

pub(super) fn contend(port: u16, contenders: usize, time: Duration) -> Result<Contention> {
    runtime()?.block_on(async {
        let mut first = Session::open(port, LONG_TIMEOUT).await?;
        first.create(NAME, Node::Persistent).await?;
        let mut sessions = vec![first];
        while sessions.len() < contenders {
            sessions.push(Session::open(port, LONG_TIMEOUT).await?);
        }
        let began = gauge::now();
        let mut tasks = JoinSet::new();
        for session in sessions {
            tasks.spawn(contend_until(session, began + time));
        }
        let mut grants = Vec::with_capacity(contenders);
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                grants.push(ended??);
            }
            anyhow::Ok(())
        };
        timeout(time + LATE_BY, all).await??;
        Ok(contention(&grants, gauge::now() - began))
    })
}

/// How often it had the name.
async fn contend_until(mut session: Session, deadline: Instant) -> Result<u64> {
    let mut grants = 0;
    while gauge::now() < deadline {
        let own = acquire(&mut session).await?;
        grants += 1;
        session.delete(&own).await?;
    }
    session.close().await?;
    Ok(grants)
}

/// The node that stands for having the name.
async fn acquire(session: &mut Session) -> Result<String> {
    let made = session.create(&format!("{NAME}/n-"), Node::EphemeralSequential).await?;
    let own = made.context("a number was given twice")?;
    loop {
        let mut queue = session.children(NAME).await?;
        // Numbers have ten digits.
        queue.sort();
        let place = queue.iter().position(|name| own.ends_with(name.as_str())).context("it is not queued")?;
        let Some(before) = place.checked_sub(1).map(|place| format!("{NAME}/{}", queue[place])) else {
            return Ok(own);
        };
        if session.exists(&before, true).await?.is_some() {
            session.deleted(&before).await?;
        }
    }
}
