//! One endpoint: its connection, one call over it, and what the end of a call says about whether it was carried out.

use super::EtcdTls;
use http::uri::PathAndQuery;
use prost::Message;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, ConnectError, Request, Status};
use tonic_prost::ProstCodec;

/// One endpoint. Connects when it is first needed.
#[derive(Debug)]
pub(crate) struct Link {
    address: String,
    endpoint: Endpoint,
    connected: Mutex<Connected>,
}

#[derive(Debug, Default)]
struct Connected {
    channel: Option<Channel>,
    /// Rises with each channel: a caller that gives up a channel gives up that one only.
    number: u64,
}

/// A connection, and by which number it is known.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    channel: Channel,
    number: u64,
}

/// Why a call has no outcome that is wanted.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing of it left this machine.
    Unsent(String),
    /// It may have been carried out.
    Unanswered(String),
    /// etcd said no. It did nothing, unless it says that it has no room: then it may have done it all the same, because it
    /// looks at its size once more after it has.
    Refused(Status),
}

/// What shows etcd who asks.
pub(crate) type Token = MetadataValue<Ascii>;

/// Frames of the log come several in one answer, and the caller chooses how many.
pub(crate) const ANSWER_BYTES_MAX: usize = 512 << 20;

impl Link {
    /// # Errors
    /// When the address is none, or the certificates cannot be used.
    pub(crate) fn new(address: &str, tls: Option<&EtcdTls>) -> Result<Self, String> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let uri: http::Uri =
            format!("{scheme}://{address}").parse().map_err(|error| format!("not HOST:PORT: {error}"))?;
        let is_bare = uri.path() == "/" && uri.query().is_none() && !address.contains(['@', '/']);
        let Some(host) = uri.host().filter(|host| is_bare && !host.is_empty() && uri.port_u16().is_some())
        else {
            return Err("not HOST:PORT".to_owned());
        };
        // No pings of HTTP/2: etcd ends a connection over which more than one comes in five seconds. Every call has a limit
        // of its own, and a watch asks for a word.
        let mut endpoint = Endpoint::from(uri.clone()).tcp_nodelay(true);
        if let Some(tls) = tls {
            let domain = tls.domain.clone().unwrap_or_else(|| bare_host(host).to_owned());
            let mut config =
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca_pem)).domain_name(domain);
            if let Some((certificate, key)) = &tls.identity {
                config = config.identity(Identity::from_pem(certificate, key));
            }
            endpoint = endpoint.tls_config(config).map_err(|error| chain(&error))?;
        }
        Ok(Self { address: address.to_owned(), endpoint, connected: Mutex::default() })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The connection there is, or a new one.
    pub(crate) async fn open(&self, within: Duration) -> Result<Open, Failure> {
        if let Connected { channel: Some(channel), number } = &*self.connected() {
            return Ok(Open { channel: channel.clone(), number: *number });
        }
        let connecting = timeout(within, self.endpoint.connect());
        let channel = match connecting.await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(Failure::Unsent(self.names(&chain(&error)))),
            Err(_) => return Err(Failure::Unsent(self.names(&format!("no connection within {within:?}")))),
        };
        let mut connected = self.connected();
        connected.number += 1;
        connected.channel = Some(channel.clone());
        Ok(Open { channel, number: connected.number })
    }

    /// Lets go of a connection over which no answer came: it may lead nowhere, and the system would try for minutes.
    pub(crate) fn give_up(&self, open: &Open) {
        let mut connected = self.connected();
        if connected.number == open.number {
            connected.channel = None;
        }
    }

    /// One call. When there is no answer in time the connection is given up.
    pub(crate) async fn ask<Q, A>(
        &self,
        open: &Open,
        path: &'static str,
        request: Q,
        token: Option<Token>,
        within: Duration,
    ) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut request = Request::new(request);
        request.set_timeout(within);
        lead(&mut request, path, token);
        let mut grpc = open.grpc();
        let asking = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::<Q, A>::default()).await
        };
        // When this is dropped before its end, for whatever reason, nothing is known of the connection.
        let mut trusted = Trusted { link: self, open, was_answered: false };
        let answer = timeout(within, asking).await;
        match answer {
            Ok(Err(status)) if status.code() == Code::Cancelled => Err(self.failure(status)),
            Ok(answered) => {
                trusted.was_answered = true;
                answered.map(tonic::Response::into_inner).map_err(|status| self.failure(status))
            }
            Err(_) => Err(Failure::Unanswered(self.names(&format!("no answer within {within:?}")))),
        }
    }

    /// What a failed call says about whether it was carried out.
    pub(crate) fn failure(&self, status: Status) -> Failure {
        if sources(&status).any(|source| source.is::<ConnectError>()) {
            return Failure::Unsent(self.names(&chain(&status)));
        }
        // An error with a source was made on this side of the wire, whatever its code.
        if is_refusal(status.code()) && status.source().is_none() {
            return Failure::Refused(status);
        }
        Failure::Unanswered(self.names(&chain(&status)))
    }

    /// A message that says which endpoint it is about.
    pub(crate) fn names(&self, what: &str) -> String {
        format!("{}: {what}", self.address)
    }

    fn connected(&self) -> MutexGuard<'_, Connected> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a connection up unless an answer came over it.
struct Trusted<'a> {
    link: &'a Link,
    open: &'a Open,
    was_answered: bool,
}

impl Drop for Trusted<'_> {
    fn drop(&mut self) {
        if !self.was_answered {
            self.link.give_up(self.open);
        }
    }
}

impl Open {
    pub(crate) fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }
}

/// What every request begins with.
pub(crate) fn lead<Q>(request: &mut Request<Q>, path: &'static str, token: Option<Token>) {
    // A member that is cut off from the others says so at once, instead of keeping the caller waiting; but it does
    // say how it is itself.
    if !path.starts_with("/etcdserverpb.Maintenance/") {
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    }
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
}

/// A host as certificates name it: without the brackets of an IPv6 address.
pub(crate) fn bare_host(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Whether etcd answers so when it refuses.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated
    )
}

fn sources<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// An error and what it came from, without what is said twice.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut said = String::new();
    for source in sources(error) {
        let message = match source.downcast_ref::<Status>() {
            Some(status) if !status.message().is_empty() => status.message().to_owned(),
            Some(status) => status.code().description().to_owned(),
            None => source.to_string(),
        };
        if said.contains(&message) {
            continue;
        }
        if !said.is_empty() {
            said.push_str(": ");
        }
        said.push_str(&message);
    }
    said
}
