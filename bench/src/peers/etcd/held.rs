//! Many keys held in etcd, and how they end together. etcd cannot give a lease another ttl: for a storm the keys move
//! to leases whose deadlines lie within a second of each other.

use super::connection::Connection;
use super::messages::{PutRequest, RangeRequest, TxnRequest, prefix_end};
use super::{CONNECTIONS_MAX, LONG_TTL, Leases};
use crate::gauge;
use crate::peers::peer::Held;
use crate::peers::tasks::runtime;
use crate::peers::wire::Names;
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

pub(super) struct Keys {
    names: Names,
    count: u64,
    leases: Leases,
    /// How long it took to take them all.
    took: Duration,
    connections: Vec<Connection>,
    runtime: Runtime,
}

/// When leases end: all at one instant, in whole seconds from the grant of each.
#[derive(Clone, Copy)]
enum End {
    After(Duration),
    At(Instant),
}

/// Operations of one transaction; the server allows 128.
const AT_ONCE: u64 = 128;
/// Grants that are under way on all connections together while many are taken.
const UNDER_WAY: usize = 256;
/// It revokes a thousand a second at most.
const REVOKED_A_SECOND: u64 = 1_000;
/// How much longer than that it may take.
const LATE_BY: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Keys {
    pub(super) fn take(port: u16, leases: Leases, count: u64, ttl: Duration) -> Result<Self> {
        let runtime = runtime()?;
        let names = Names::fresh();
        let began = gauge::now();
        let connections = runtime.block_on(async {
            let mut connections = Vec::new();
            for _ in 0..CONNECTIONS_MAX {
                connections.push(Connection::open(port).await?);
            }
            // Taking many takes longer than a short ttl, and nobody renews the first meanwhile.
            let ttl = ttl.max(Duration::from_secs(LONG_TTL.unsigned_abs()));
            put_all(&connections, names, count, leases, End::After(ttl)).await?;
            anyhow::Ok(connections)
        })?;
        let keys = Self { names, count, leases, took: gauge::now() - began, connections, runtime };
        let found = keys.runtime.block_on(count_of(&mut keys.connections[0].clone(), names))?;
        ensure!(found == count, "{found} of {count} are held");
        Ok(keys)
    }
}

impl Held for Keys {
    fn storm(self: Box<Self>, from_now: Duration) -> Result<Duration> {
        let Self { names, count, leases, took, connections, runtime } = *self;
        // Granting takes its time, and the first must still live when the last is granted.
        let deadline = gauge::now() + from_now + took * 2;
        runtime.block_on(async {
            let last_deadline = put_all(&connections, names, count, leases, End::At(deadline)).await?;
            let limit = Duration::from_secs(count / REVOKED_A_SECOND) + LATE_BY;
            let mut etcd = connections[0].clone();
            loop {
                let left = count_of(&mut etcd, names).await?;
                let now = gauge::now();
                if left == 0 {
                    return Ok(now.saturating_duration_since(last_deadline));
                }
                ensure!(
                    now < last_deadline + limit,
                    "{left} of {count} are left {} s after their deadline",
                    limit.as_secs()
                );
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
    }
}

/// Puts every key with a lease that ends as told; says when the last of them does.
async fn put_all(
    connections: &[Connection],
    names: Names,
    count: u64,
    leases: Leases,
    end: End,
) -> Result<Instant> {
    let shared = match leases {
        Leases::Each => None,
        Leases::Shared => Some(grant(&mut connections[0].clone(), end).await?),
    };
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    // A transaction has its leases granted one after the other, so that many are under way in all.
    for place in 0..UNDER_WAY.min(count.div_ceil(AT_ONCE) as usize) {
        let (mut etcd, next) = (connections[place % connections.len()].clone(), Arc::clone(&next));
        tasks.spawn(async move {
            let mut last = None;
            loop {
                let first = next.fetch_add(AT_ONCE, Ordering::Relaxed);
                if first >= count {
                    return anyhow::Ok(last);
                }
                let mut puts = Vec::with_capacity(AT_ONCE as usize);
                for number in first..(first + AT_ONCE).min(count) {
                    let (lease, deadline) = match shared {
                        Some(shared) => shared,
                        None => grant(&mut etcd, end).await?,
                    };
                    last = last.max(Some(deadline));
                    puts.push(PutRequest { key: names.text(number).into(), value: Vec::new(), lease }.into());
                }
                let request = TxnRequest { success: puts, ..TxnRequest::default() };
                ensure!(etcd.txn(request).await?.succeeded, "keys were not put");
            }
        });
    }
    let mut last = None;
    while let Some(ended) = tasks.join_next().await {
        last = last.max(ended??);
    }
    last.context("there is nothing to hold")
}

/// A lease, and when it ends.
async fn grant(etcd: &mut Connection, end: End) -> Result<(i64, Instant)> {
    let now = gauge::now();
    let ttl = match end {
        End::After(ttl) => ttl,
        End::At(deadline) => deadline.saturating_duration_since(now),
    };
    let granted = etcd.grant(ttl.as_secs_f64().ceil() as i64).await?;
    Ok((granted.id, now + Duration::from_secs(granted.ttl.unsigned_abs())))
}

async fn count_of(etcd: &mut Connection, names: Names) -> Result<u64> {
    let key = names.prefix().into_bytes();
    let range_end = prefix_end(&key);
    let found =
        etcd.range(RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() }).await?;
    Ok(found.count.unsigned_abs())
}
