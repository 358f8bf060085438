//! PostgreSQL with a table of leases, as people write it: an upsert that takes what is free or over, a fence from a
//! sequence, and a sweeper. Every statement is a transaction that is synced before it is answered.

mod cluster;
mod held;
mod load;
mod session;

use super::home::Site;
use super::peer::{Contention, Held, Load, Peer, Shape};
use super::tasks::{contention, runtime};
use crate::gauge;
use anyhow::{Result, ensure};
use cluster::Cluster;
use session::Session;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) struct Postgres {
    cluster: Cluster,
    version: String,
}

/// Outlives every run.
const LONG_TTL: Duration = Duration::from_secs(3_600);
/// Any ttl can be written into a row; the holder would renew it three times a second.
const SHORT_TTL: Duration = Duration::from_secs(1);
/// A waiter has no other way than to look again.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const FAIL_OVER_WITHIN: Duration = Duration::from_secs(30);
/// How much longer than asked contenders may take until everybody has given back.
const LATE_BY: Duration = Duration::from_secs(30);

/// Whether it is installed.
pub(crate) fn is_there() -> bool {
    cluster::is_there()
}

impl Postgres {
    pub(crate) fn start(site: &Site) -> Result<Self> {
        let cluster = Cluster::start(site)?;
        let version =
            runtime()?.block_on(async { Session::found(cluster.socket()).await?.version().await })?;
        Ok(Self { cluster, version })
    }

    fn socket(&self) -> PathBuf {
        self.cluster.socket().to_owned()
    }
}

impl Peer for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn version(&self) -> String {
        format!("PostgreSQL {}", self.version)
    }

    fn settings(&self) -> &'static str {
        "`fsync = on`, `synchronous_commit = on`, `shared_buffers = 256MB`, Unix socket; prepared statements, \
         pipelined on at most 64 connections, which it is fastest with; no index but the names"
    }

    fn pids(&self) -> Vec<u32> {
        self.cluster.pids()
    }

    fn load(&self, shape: Shape) -> Result<Box<dyn Load>> {
        Ok(Box::new(load::PostgresLoad::open(&self.socket(), shape)?))
    }

    fn hold(&self, count: u64, ttl: Duration) -> Result<Box<dyn Held>> {
        Ok(Box::new(held::Rows::take(&self.socket(), count, ttl)?))
    }

    /// Who is refused looks again, without taking a row's lock, until the name is free.
    fn contend(&self, contenders: usize, time: Duration) -> Result<Option<Contention>> {
        let socket = self.socket();
        runtime()?.block_on(async {
            let mut sessions = Vec::with_capacity(contenders);
            for _ in 0..contenders {
                sessions.push(Session::open(&socket).await?);
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
            Ok(Some(contention(&grants, gauge::now() - began)))
        })
    }

    /// The holder was granted the moment before it died.
    fn fail_over(&self) -> Result<Option<Duration>> {
        const NAME: &str = "fail-over-of-one";
        let socket = self.socket();
        let taking_over = async {
            let waiter = Session::open(&socket).await?;
            let holder = Session::open(&socket).await?;
            ensure!(holder.acquire(NAME, SHORT_TTL).await?.is_some(), "the name is not free");
            let killed = gauge::now();
            drop(holder);
            loop {
                if let Some(token) = waiter.acquire(NAME, LONG_TTL).await? {
                    let took = gauge::now() - killed;
                    waiter.release(NAME, token).await?;
                    return anyhow::Ok(took);
                }
                sleep(LOOK_EVERY).await;
            }
        };
        runtime()?.block_on(async { timeout(FAIL_OVER_WITHIN, taking_over).await })?.map(Some)
    }

    fn restart(&mut self) -> Result<Duration> {
        const PROBE: &str = "held-all-along-0";
        let socket = self.socket();
        // A second time it is there from the first.
        runtime()?.block_on(async {
            Session::open(&socket).await?.acquire(PROBE, LONG_TTL).await?;
            anyhow::Ok(())
        })?;
        self.cluster.kill()?;
        let began = gauge::now();
        self.cluster.begin()?;
        let is_held = runtime()?.block_on(async { Session::open(&socket).await?.is_held(PROBE).await })?;
        ensure!(is_held, "it has forgotten what was held");
        Ok(gauge::now() - began)
    }
}

/// Takes one name and gives it back, again and again; says how often.
async fn contend_until(session: Session, deadline: Instant) -> Result<u64> {
    const NAME: &str = "contended-by-all";
    let mut grants = 0;
    while gauge::now() < deadline {
        if let Some(token) = session.acquire(NAME, LONG_TTL).await? {
            grants += 1;
            ensure!(session.release(NAME, token).await?, "it was taken away");
            continue;
        }
        while gauge::now() < deadline && session.is_held(NAME).await? {
            sleep(LOOK_EVERY).await;
        }
    }
    Ok(grants)
}
