//! HTTP/1.1 connections to one daemon: opened within a limit, kept while idle, used again. Knows requests and
//! answers as bytes; what they mean stands in `client.rs`.

mod connect;
mod tls;

pub use connect::Peer;
pub(crate) use connect::{Connector, PeerCheck};
use tls::Tls;
pub(crate) use tls::{Identity, TlsSetup};

use crate::endpoint::Endpoint;
use crate::error::CallError;
use bytes::Bytes;
use core::time::Duration;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use std::sync::{Mutex, PoisonError};

/// Idle connections kept at most; more are closed after use.
const IDLE_MAX: usize = 64;
/// Bytes of one answer at most, streams excepted.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// The way to one daemon.
pub(crate) struct Transport {
    connector: Connector,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    idle: Mutex<Vec<Sender>>,
}

/// How long one try may take.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Opening a connection, where that is less than it always may take.
    pub(crate) connect: Duration,
    /// Everything, the connection included.
    pub(crate) answer: Duration,
}

/// One request, ready to be written as often as needed.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Option<Bytes>,
    /// Sending it twice does no more than sending it once.
    pub(crate) repeatable: bool,
    pub(crate) patience: Patience,
}

/// How long an answer may take.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// As long as every answer, and this much longer.
    Longer(Duration),
    /// This long, or as long as every answer if that is less.
    AtMost(Duration),
}

/// A whole answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Header `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u64>,
    pub(crate) body: Bytes,
}

/// An answer whose body is still coming.
pub(crate) struct Opened {
    pub(crate) status: u16,
    /// Header `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u64>,
    pub(crate) body: Incoming,
    /// The connection lives as long as its sender.
    pub(crate) sender: Sender,
}

impl Transport {
    pub(crate) fn new(
        connector: Connector,
        authorization: Option<HeaderValue>,
    ) -> Result<Self, http::header::InvalidHeaderValue> {
        let host = HeaderValue::from_str(&connector.endpoint().host_header())?;
        Ok(Self { connector, host, authorization, idle: Mutex::default() })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.connector.endpoint()
    }

    /// Asks and reads the whole answer.
    pub(crate) async fn exchange(&self, request: &Request, limits: Limits) -> Result<Reply, CallError> {
        let whole = async {
            let opened = self.send(request, limits.connect).await?;
            let body = self.read_whole(opened.body).await?;
            self.keep(opened.sender);
            Ok(Reply { status: opened.status, retry_after: opened.retry_after, body })
        };
        within(limits.answer, whole).await
    }

    /// Asks and leaves the body to be read piece by piece.
    pub(crate) async fn open(&self, request: &Request, limits: Limits) -> Result<Opened, CallError> {
        within(limits.answer, self.send(request, limits.connect)).await
    }

    /// Reads what is left of a body, for answers that are not the stream that was asked for.
    pub(crate) async fn finish(&self, opened: Opened, limit: Duration) -> Result<Reply, CallError> {
        let body = within(limit, self.read_whole(opened.body)).await?;
        Ok(Reply { status: opened.status, retry_after: opened.retry_after, body })
    }

    pub(crate) fn broken(&self, source: impl Into<crate::error::Cause>) -> CallError {
        CallError::Broken { endpoint: self.endpoint().clone(), source: source.into() }
    }

    async fn send(&self, request: &Request, connect_timeout: Duration) -> Result<Opened, CallError> {
        while let Some(mut sender) = self.take_idle() {
            // Closed by the daemon while it was idle.
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(self.written(request)).await {
                Ok(answer) => return Ok(opened(answer, sender)),
                Err(failed) if failed.message().is_some() => {}
                Err(_) if request.repeatable => break,
                Err(failed) => return Err(self.broken(failed.into_error())),
            }
        }
        let mut sender = self.connector.connect(connect_timeout).await?;
        match sender.try_send_request(self.written(request)).await {
            Ok(answer) => Ok(opened(answer, sender)),
            Err(failed) if failed.message().is_some() => Err(self.connector.unreachable(failed.into_error())),
            Err(failed) => Err(self.broken(failed.into_error())),
        }
    }

    fn written(&self, request: &Request) -> http::Request<Full<Bytes>> {
        let mut written = http::Request::new(Full::new(request.body.clone().unwrap_or_default()));
        *written.method_mut() = request.method.clone();
        *written.uri_mut() = request.uri.clone();
        let headers = written.headers_mut();
        headers.insert(HOST, self.host.clone());
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if request.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in &request.headers {
            headers.insert(name.clone(), value.clone());
        }
        written
    }

    async fn read_whole(&self, body: Incoming) -> Result<Bytes, CallError> {
        let whole = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        whole.map(|whole| whole.to_bytes()).map_err(|error| self.broken(error))
    }

    /// The connection used last: those that nobody needs any more grow old at the other end.
    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= IDLE_MAX {
            idle.retain(|kept| !kept.is_closed());
        }
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
    }
}

fn opened(answer: http::Response<Incoming>, sender: Sender) -> Opened {
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Opened { status: answer.status().as_u16(), retry_after, body: answer.into_body(), sender }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    // Dropping the call closes its connection, so that a late answer cannot be taken for that of another call.
    tokio::time::timeout(limit, call).await.unwrap_or(Err(CallError::TimedOut { limit }))
}
