//! The load on etcd: so many requests under way, on a few connections that share them.

use super::connection::{Connection, KeepAlive};
use super::messages::{Compare, DeleteRangeRequest, TxnRequest};
use super::{CONNECTIONS_MAX, LONG_TTL, Leases, take, take_all};
use crate::peers::holdings::{Hold, Holdings};
use crate::peers::peer::{Load, Paced, Sample, Shape, Until, Work};
use crate::peers::tasks::{Answer, Asker, drive, drive_paced, runtime};
use anyhow::Result;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tonic::{Code, Status};

pub(super) struct EtcdLoad {
    askers: Vec<EtcdAsker>,
    // After those who use it.
    runtime: Runtime,
}

struct EtcdAsker {
    connection: Connection,
    keep_alive: Rc<OnceCell<KeepAlive>>,
    holdings: Rc<Holdings>,
    /// The lease that keeps everything, where one does.
    shared: Option<i64>,
}

impl EtcdLoad {
    pub(super) fn open(port: u16, leases: Leases, shape: Shape) -> Result<Self> {
        let runtime = runtime()?;
        let askers = runtime.block_on(async {
            let mut connections = Vec::new();
            for _ in 0..shape.connections.min(CONNECTIONS_MAX) {
                connections.push(Connection::open(port).await?);
            }
            let shared = match leases {
                Leases::Each => None,
                Leases::Shared => Some(connections[0].grant(LONG_TTL).await?.id),
            };
            let holdings = Rc::new(Holdings::new());
            let streams: Vec<_> = connections.iter().map(|_| Rc::default()).collect();
            let asker = |number: usize| EtcdAsker {
                connection: connections[number % connections.len()].clone(),
                keep_alive: Rc::clone(&streams[number % streams.len()]),
                holdings: Rc::clone(&holdings),
                shared,
            };
            anyhow::Ok((0..shape.connections * shape.depth).map(asker).collect())
        })?;
        Ok(Self { askers, runtime })
    }
}

impl Load for EtcdLoad {
    fn run(&mut self, work: Work, until: Until) -> Result<Sample> {
        drive(&self.runtime, &mut self.askers, work, until)
    }

    fn run_paced(&mut self, work: Work, every: Duration, goes_on: &dyn Fn() -> bool) -> Result<Vec<Paced>> {
        drive_paced(&self.runtime, &mut self.askers, work, every, goes_on)
    }
}

impl Asker for EtcdAsker {
    async fn ask(&mut self, work: Work) -> Result<Answer> {
        let answered = match work {
            Work::Acquire => self.acquire().await,
            Work::AcquireBundle => self.acquire_bundle().await,
            Work::Renew => self.renew().await,
            Work::Release => self.release().await,
            Work::ReleaseBundle => self.release_bundle().await,
        };
        match answered {
            Ok(answer) => Ok(answer),
            Err(status) if matches!(status.code(), Code::Unavailable | Code::Unknown) => Err(status.into()),
            Err(_) => Ok(Answer::Refused),
        }
    }
}

impl EtcdAsker {
    async fn acquire(&mut self) -> Result<Answer, Status> {
        let number = self.holdings.fresh();
        let token = self.lease().await?;
        if !self.connection.txn(take(&self.holdings.name(number), token)).await?.succeeded {
            return Ok(Answer::Refused);
        }
        self.holdings.add(Hold { number, token });
        Ok(Answer::Done)
    }

    async fn acquire_bundle(&mut self) -> Result<Answer, Status> {
        let number = self.holdings.fresh_bundle();
        let token = self.lease().await?;
        if !self.connection.txn(take_all(&self.holdings.bundle(number), token)).await?.succeeded {
            return Ok(Answer::Refused);
        }
        self.holdings.add_bundle(Hold { number, token });
        Ok(Answer::Done)
    }

    /// A fresh one, unless one keeps everything.
    async fn lease(&mut self) -> Result<i64, Status> {
        match self.shared {
            Some(lease) => Ok(lease),
            None => Ok(self.connection.grant(LONG_TTL).await?.id),
        }
    }

    /// On a stream that is opened when the first renews.
    async fn renew(&mut self) -> Result<Answer, Status> {
        let Some(hold) = self.holdings.next() else { return Ok(Answer::NothingLeft) };
        let open = async || Ok::<_, Status>(self.connection.keep_alive(hold.token).await?.0);
        let stream = self.keep_alive.get_or_try_init(open).await?;
        let renewed = stream.renew(hold.token).await?;
        Ok(if renewed.ttl > 0 { Answer::Done } else { Answer::Refused })
    }

    async fn release(&mut self) -> Result<Answer, Status> {
        let Some(Hold { number, token }) = self.holdings.take() else { return Ok(Answer::NothingLeft) };
        let names = [self.holdings.name(number)];
        self.give_back(token, &names).await
    }

    async fn release_bundle(&mut self) -> Result<Answer, Status> {
        let Some(Hold { number, token }) = self.holdings.take_bundle() else {
            return Ok(Answer::NothingLeft);
        };
        let names = self.holdings.bundle(number);
        self.give_back(token, &names).await
    }

    /// The end of a lease takes its keys along; one that keeps others too must stay.
    async fn give_back(&mut self, lease: i64, names: &[String]) -> Result<Answer, Status> {
        if self.shared.is_none() {
            self.connection.revoke(lease).await?;
            return Ok(Answer::Done);
        }
        let delete = |name: &String| DeleteRangeRequest { key: name.as_str().into(), range_end: Vec::new() };
        let given_back = self.connection.txn(TxnRequest {
            compare: names.iter().map(|name| Compare::is_with(name.as_str(), lease)).collect(),
            success: names.iter().map(|name| delete(name).into()).collect(),
            failure: Vec::new(),
        });
        Ok(if given_back.await?.succeeded { Answer::Done } else { Answer::Refused })
    }
}
