//! Contenders for one name in etcd, as its own libraries queue them: each puts a key under the name, the oldest has it,
//! and everybody else waits for the end of the one before.

use super::LONG_TTL;
use super::connection::{Connection, Watch};
use super::messages::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, Response, SortOrder, SortTarget, TxnRequest,
    prefix_end,
};
use super::revision;
use crate::gauge;
use crate::peers::peer::Contention;
use crate::peers::tasks::{contention, runtime};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};
use tokio::time::timeout;

struct Contender {
    etcd: Connection,
    lease: i64,
    /// The name and whose it is.
    key: Vec<u8>,
    watch: Option<Watch>,
}

const NAME: &[u8] = b"contended-by-all/";
/// How much longer than asked it may take until everybody has given back.
const LATE_BY: Duration = Duration::from_secs(30);

pub(super) fn contend(port: u16, contenders: usize, time: Duration) -> Result<Contention> {
    runtime()?.block_on(async {
        let mut ready = Vec::with_capacity(contenders);
        for _ in 0..contenders {
            ready.push(Contender::open(port).await?);
        }
        let began = gauge::now();
        let mut tasks = tokio::task::JoinSet::new();
        for contender in ready {
            tasks.spawn(contender.contend(began + time));
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

impl Contender {
    async fn open(port: u16) -> Result<Self> {
        let mut etcd = Connection::open(port).await?;
        let lease = etcd.grant(LONG_TTL).await?.id;
        let key = [NAME, format!("{lease:016x}").as_bytes()].concat();
        Ok(Self { etcd, lease, key, watch: None })
    }

    /// How often it had the name.
    async fn contend(mut self, deadline: Instant) -> Result<u64> {
        let mut grants = 0;
        while gauge::now() < deadline {
            self.acquire().await?;
            grants += 1;
            let own = DeleteRangeRequest { key: self.key.clone(), range_end: Vec::new() };
            ensure!(self.etcd.delete_range(own).await?.deleted == 1, "it was taken away");
        }
        self.etcd.revoke(self.lease).await?;
        Ok(grants)
    }

    async fn acquire(&mut self) -> Result<()> {
        let put = PutRequest { key: self.key.clone(), value: Vec::new(), lease: self.lease };
        let oldest = RangeRequest { limit: 1, ..queue(SortOrder::Ascend) };
        let queued = self
            .etcd
            .txn(TxnRequest {
                compare: vec![Compare::is_absent(self.key.clone())],
                success: vec![put.into(), oldest.into()],
                failure: Vec::new(),
            })
            .await?;
        ensure!(queued.succeeded, "it is queued already");
        let oldest = queued.responses.last().and_then(|last| match &last.response {
            Some(Response::Range(range)) => range.kvs.first(),
            _ => None,
        });
        if oldest.is_some_and(|oldest| oldest.key == self.key) {
            return Ok(());
        }
        let own_revision = revision(&queued);
        loop {
            let before =
                RangeRequest { limit: 1, max_create_revision: own_revision - 1, ..queue(SortOrder::Descend) };
            let found = self.etcd.range(before).await?;
            let Some(before) = found.kvs.first() else { return Ok(()) };
            let since = found.header.as_ref().map_or(0, |header| header.revision) + 1;
            let (watch, watch_id) = match &mut self.watch {
                Some(watch) => {
                    let watch_id = watch.begin(&before.key, since).await?;
                    (watch, watch_id)
                }
                none => {
                    let (watch, watch_id) = self.etcd.watch(&before.key, since).await?;
                    (none.insert(watch), watch_id)
                }
            };
            watch.deleted(watch_id).await?;
        }
    }
}

/// All who want the name, by when they came.
fn queue(order: SortOrder) -> RangeRequest {
    RangeRequest {
        key: NAME.to_vec(),
        range_end: prefix_end(NAME),
        sort_order: order.into(),
        sort_target: SortTarget::Create.into(),
        ..RangeRequest::default()
    }
}
