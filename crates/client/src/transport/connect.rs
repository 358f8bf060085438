//! Opening one connection: TCP, TLS over TCP, or the daemon's socket.

use super::{Sender, Tls};
use crate::endpoint::{Authority, Endpoint};
use crate::error::{CallError, Cause};
use core::time::Duration;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// The other end of a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The user whose program listens on the socket.
    Socket {
        /// Its user id.
        uid: u32,
    },
    /// The addresses of both ends.
    Tcp {
        /// Of this end.
        own: SocketAddr,
        /// Of the other.
        remote: SocketAddr,
    },
}

/// Decides whether a new connection is used, before anything is sent on it.
pub(crate) type PeerCheck = Arc<dyn Fn(Peer) -> Result<(), Cause> + Send + Sync>;

/// Opens connections to one endpoint.
pub(crate) struct Connector {
    endpoint: Endpoint,
    /// Present for `https`.
    tls: Option<Tls>,
    limit: Duration,
    check: Option<PeerCheck>,
}

impl Connector {
    pub(crate) fn new(
        endpoint: Endpoint,
        tls: Option<Tls>,
        limit: Duration,
        check: Option<PeerCheck>,
    ) -> Self {
        Self { endpoint, tls, limit, check }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Within the limit of this connector, or within this one if it is less.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<Sender, CallError> {
        let limit = limit.min(self.limit);
        match tokio::time::timeout(limit, self.dial()).await {
            Ok(dialled) => dialled.map_err(|cause| self.unreachable(cause)),
            Err(_) => Err(self.unreachable(format!("no connection within {} ms", limit.as_millis()))),
        }
    }

    pub(crate) fn unreachable(&self, source: impl Into<Cause>) -> CallError {
        CallError::Unreachable { endpoint: self.endpoint.clone(), source: source.into() }
    }

    async fn dial(&self) -> Result<Sender, Cause> {
        match &self.endpoint {
            Endpoint::Http(authority) => shake_hands(self.tcp(authority).await?).await,
            Endpoint::Https(authority) => {
                let tls = self.tls.as_ref().expect("invariant: an https endpoint is built with TLS");
                shake_hands(tls.wrap(self.tcp(authority).await?).await?).await
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                self.check(|| Ok(Peer::Socket { uid: stream.peer_cred()?.uid() }))?;
                shake_hands(stream).await
            }
        }
    }

    async fn tcp(&self, authority: &Authority) -> Result<TcpStream, Cause> {
        let stream = TcpStream::connect((authority.host.as_str(), authority.port)).await?;
        // Requests are small and each is waited for.
        stream.set_nodelay(true)?;
        self.check(|| Ok(Peer::Tcp { own: stream.local_addr()?, remote: stream.peer_addr()? }))?;
        Ok(stream)
    }

    fn check(&self, peer: impl FnOnce() -> io::Result<Peer>) -> Result<(), Cause> {
        match &self.check {
            Some(check) => check(peer()?),
            None => Ok(()),
        }
    }
}

async fn shake_hands<S>(stream: S) -> Result<Sender, Cause>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends by itself when the sender is dropped or the daemon closes.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended");
        }
    });
    Ok(sender)
}
