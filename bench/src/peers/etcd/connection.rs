//! One gRPC connection to etcd: a call per message, and the two streams. Knows nothing of what is measured.

use super::messages::{
    DeleteRangeRequest, DeleteRangeResponse, EventKind, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
    WatchCancelRequest, WatchCreateRequest, WatchFilter, WatchRequest, WatchResponse, Watching,
};
use http::uri::PathAndQuery;
use prost::Message;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Cheap to clone: clones share one HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Connection {
    grpc: Grpc<Channel>,
}

/// Messages both ways, answered in order.
pub(crate) struct Conversation<Q, A> {
    asked: mpsc::Sender<Q>,
    answers: Streaming<A>,
}

/// A stream that renews leases, for all who share it.
pub(crate) struct KeepAlive {
    asked: mpsc::Sender<LeaseKeepAliveRequest>,
    waiting: mpsc::Sender<oneshot::Sender<LeaseKeepAliveResponse>>,
}

pub(crate) type Watch = Conversation<WatchRequest, WatchResponse>;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Messages of a stream that wait to leave, or for an answer.
const WAITING_MAX: usize = 1_024;

impl Connection {
    pub(crate) async fn open(port: u16) -> Result<Self, Status> {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))
            .expect("invariant: an address of loopback is one")
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true);
        let channel = endpoint.connect().await.map_err(|error| Status::from_error(error.into()))?;
        Ok(Self { grpc: Grpc::new(channel) })
    }

    pub(crate) async fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.ask("/etcdserverpb.KV/Range", request).await
    }

    pub(crate) async fn put(&mut self, request: PutRequest) -> Result<PutResponse, Status> {
        self.ask("/etcdserverpb.KV/Put", request).await
    }

    pub(crate) async fn delete_range(
        &mut self,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Status> {
        self.ask("/etcdserverpb.KV/DeleteRange", request).await
    }

    pub(crate) async fn txn(&mut self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.ask("/etcdserverpb.KV/Txn", request).await
    }

    /// A lease of this many seconds, with an id that the server chooses.
    pub(crate) async fn grant(&mut self, ttl: i64) -> Result<LeaseGrantResponse, Status> {
        self.ask("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl, id: 0 }).await
    }

    pub(crate) async fn revoke(&mut self, id: i64) -> Result<LeaseRevokeResponse, Status> {
        self.ask("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).await
    }

    pub(crate) async fn status(&mut self) -> Result<StatusResponse, Status> {
        self.ask("/etcdserverpb.Maintenance/Status", StatusRequest {}).await
    }

    /// Renews a lease on a stream that can renew others after it.
    pub(crate) async fn keep_alive(
        &mut self,
        id: i64,
    ) -> Result<(KeepAlive, LeaseKeepAliveResponse), Status> {
        let first = LeaseKeepAliveRequest { id };
        let mut stream = self.converse("/etcdserverpb.Lease/LeaseKeepAlive", first).await?;
        let renewed = stream.hear().await?;
        let Conversation { asked, mut answers } = stream;
        let (waiting, mut who_waits) = mpsc::channel::<oneshot::Sender<LeaseKeepAliveResponse>>(WAITING_MAX);
        tokio::spawn(async move {
            // Whoever still waits when this ends hears that it is over.
            while let Ok(Some(answer)) = answers.message().await
                && let Some(waiter) = who_waits.recv().await
            {
                let _ = waiter.send(answer);
            }
        });
        Ok((KeepAlive { asked, waiting }, renewed))
    }

    /// Watches a key for its end, from this revision on, on a stream that can watch others after it. Says by which id
    /// it is known there.
    pub(crate) async fn watch(&mut self, key: &[u8], start_revision: i64) -> Result<(Watch, i64), Status> {
        let first = watching(key, start_revision);
        let mut stream = self.converse("/etcdserverpb.Watch/Watch", first).await?;
        let watch_id = stream.created().await?;
        Ok((stream, watch_id))
    }

    async fn ask<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.ready().await?;
        let path = PathAndQuery::from_static(path);
        let answer = self.grpc.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }

    /// The first message leaves with the call: the server says nothing, not even that it took it, before it has one.
    async fn converse<Q, A>(&mut self, path: &'static str, first: Q) -> Result<Conversation<Q, A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.ready().await?;
        let (asked, leaving) = mpsc::channel(WAITING_MAX);
        asked.try_send(first).expect("invariant: there is room for the first");
        let request = Request::new(ReceiverStream::new(leaving));
        let path = PathAndQuery::from_static(path);
        let answers = self.grpc.streaming(request, path, ProstCodec::<Q, A>::default()).await?.into_inner();
        Ok(Conversation { asked, answers })
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::from_error(error.into()))
    }
}

impl<Q, A> Conversation<Q, A> {
    async fn say(&self, message: Q) -> Result<(), Status> {
        self.asked.send(message).await.map_err(|_| Status::unavailable("the stream is over"))
    }

    async fn hear(&mut self) -> Result<A, Status> {
        self.answers.message().await?.ok_or_else(|| Status::unavailable("the stream is over"))
    }
}

impl KeepAlive {
    /// Renews one lease; the answer's ttl is 0 if it was over. Many may be under way: they are answered in order.
    pub(crate) async fn renew(&self, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
        let over = || Status::unavailable("the stream is over");
        let (answer, answered) = oneshot::channel();
        // Both or none, and nobody in between: nothing is waited for here.
        let ask = self.asked.try_reserve().map_err(|_| over())?;
        let wait = self.waiting.try_reserve().map_err(|_| over())?;
        ask.send(LeaseKeepAliveRequest { id });
        wait.send(answer);
        answered.await.map_err(|_| over())
    }
}

impl Watch {
    /// Watches another key.
    pub(crate) async fn begin(&mut self, key: &[u8], start_revision: i64) -> Result<i64, Status> {
        self.say(watching(key, start_revision)).await?;
        self.created().await
    }

    async fn created(&mut self) -> Result<i64, Status> {
        loop {
            let said = self.hear().await?;
            if said.created && said.canceled {
                return Err(Status::aborted(said.cancel_reason));
            }
            if said.created {
                return Ok(said.watch_id);
            }
        }
    }

    /// Waits until the key is gone, and watches it no longer.
    pub(crate) async fn deleted(&mut self, watch_id: i64) -> Result<(), Status> {
        loop {
            let said = self.hear().await?;
            if said.watch_id != watch_id {
                continue;
            }
            if said.canceled {
                return Err(Status::aborted(said.cancel_reason));
            }
            if said.events.iter().any(|event| event.kind == i32::from(EventKind::Delete)) {
                let cancel = WatchCancelRequest { watch_id };
                return self.say(WatchRequest { request: Some(Watching::Cancel(cancel)) }).await;
            }
        }
    }
}

fn watching(key: &[u8], start_revision: i64) -> WatchRequest {
    let filters = vec![WatchFilter::NoPut.into()];
    let create = WatchCreateRequest { key: key.to_vec(), range_end: Vec::new(), start_revision, filters };
    WatchRequest { request: Some(Watching::Create(create)) }
}
