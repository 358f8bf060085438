//! A client of one daemon or of the nodes of a cluster over HTTP: how it is built and how it makes one call. `nodes.rs`
//! selects the node, `answer.rs` interprets the answer. The typed calls, one per route, are in
//! `client/calls.rs`, `client/cluster.rs`, `client/registrations.rs`, `client/slot_sessions.rs` and `client/polling.rs`.

mod calls;
mod cluster;
mod polling;
mod registrations;
mod slot_sessions;

use crate::answer::unexpected;
use crate::bytes_stream::ByteStream;
use crate::clock::BootInstant;
use crate::endpoint::{Endpoint, Endpoints};
use crate::error::{CallError, Cause};
use crate::failover::KnownFailover;
use crate::nodes::{Asking, Nodes};
use crate::operation::{is_change, operation_id, takes_operation_id};
use crate::transport::{Connector, Identity, Patience, Peer, PeerCheck, Request, TlsSetup, Transport};
use bytes::Bytes;
use core::fmt;
use core::time::Duration;
use http::header::InvalidHeaderValue;
use http::{HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Default timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Default timeout of a request; the wait of a request comes on top.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The characters that RFC 3986 allows unescaped in a path segment; a `/` inside a name is escaped.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of one daemon, or of the nodes of one cluster. Cheap to clone; clones share their connections.
///
/// With several endpoints a call goes to the one that answered last. If that one cannot be reached, breaks the
/// connection, does not answer or answers that it cannot decide now, the client sends the same call with the same
/// operation id to the next one, until one answers or the call's limit is over.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    nodes: Nodes,
    holder: String,
    failover: KnownFailover,
}

/// Builds a [`Client`].
pub struct ClientBuilder {
    endpoints: Endpoints,
    token: Option<String>,
    ca_pem: Option<Vec<u8>>,
    identity: Option<Identity>,
    holder: Option<String>,
    connect_timeout: Duration,
    request_timeout: Duration,
    check: Option<PeerCheck>,
}

/// An error of [`ClientBuilder::build`].
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A CA or a certificate was given, but no endpoint is `https`.
    #[error("a certificate is given, but no endpoint is https")]
    NoHttps,
    /// The system's trusted authorities cannot be read, and no CA was given.
    #[error("cannot read the authorities that the system trusts: {0}")]
    SystemRoots(String),
    /// The input is not PEM, or has no certificate or key.
    #[error("cannot read the PEM: {0}")]
    Pem(String),
    /// The host is not a valid TLS server name.
    #[error("invalid TLS server name {0:?}")]
    Host(String),
    /// The certificate or key cannot be used.
    #[error("cannot use the certificate: {0}")]
    Tls(#[from] rustls::Error),
    /// The token or the host is not a valid header value.
    #[error("the token or host cannot be sent: {0}")]
    Header(#[from] InvalidHeaderValue),
}

/// How a request is sent.
pub(crate) struct Manner {
    /// The request is idempotent.
    pub(crate) repeatable: bool,
    pub(crate) patience: Patience,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Manner {
    pub(crate) const REPEATABLE: Self =
        Self { repeatable: true, patience: Patience::Longer(Duration::ZERO), headers: Vec::new() };
    pub(crate) const ONCE: Self =
        Self { repeatable: false, patience: Patience::Longer(Duration::ZERO), headers: Vec::new() };
}

impl ClientBuilder {
    /// Adds endpoints of the same cluster; duplicates count once. All endpoints must be nodes of one cluster, because a
    /// call may go to any of them.
    #[must_use]
    pub fn endpoints(mut self, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        endpoints.into_iter().for_each(|endpoint| self.endpoints.add(endpoint));
        self
    }

    /// Sets the token, as printed by `tenure token new`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the CA certificates to trust for `https` [default: the system's].
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// Sets the client certificate and its key.
    #[must_use]
    pub fn identity_pem(mut self, certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(Identity { certificates: certificates.into(), key: key.into() });
        self
    }

    /// Sets the holder of leases for calls that name none [default: the program's name and process id].
    #[must_use]
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// Sets the timeout for opening a connection [default: 5 s].
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the timeout of a request, over all nodes that are tried [default: 10 s]. The wait of a request comes on top.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets a check of the peer of each new connection, made before the token or anything else is sent.
    #[must_use]
    pub fn check_peer(mut self, check: impl Fn(Peer) -> Result<(), Cause> + Send + Sync + 'static) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Builds the client. It opens no connection yet.
    ///
    /// # Errors
    /// If certificates, key or token cannot be used.
    pub fn build(self) -> Result<Client, BuildError> {
        let is_https = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Https(_));
        let setup = if self.endpoints.as_slice().iter().any(is_https) {
            Some(TlsSetup::new(self.ca_pem.as_deref(), self.identity.as_ref())?)
        } else if self.ca_pem.is_some() || self.identity.is_some() {
            return Err(BuildError::NoHttps);
        } else {
            None
        };
        let authorization = match &self.token {
            None => None,
            Some(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut transports = Vec::new();
        for endpoint in self.endpoints.as_slice() {
            let connector =
                Connector::new(endpoint.clone(), setup.as_ref(), self.connect_timeout, self.check.clone())?;
            transports.push(Transport::new(connector, authorization.clone())?);
        }
        let nodes = Nodes::new(transports, self.request_timeout);
        let holder = self.holder.unwrap_or_else(this_process);
        Ok(Client { shared: Arc::new(Shared { nodes, holder, failover: KnownFailover::default() }) })
    }
}

impl Client {
    /// Returns a builder for the daemon or node at this endpoint; [`ClientBuilder::endpoints`] adds others.
    #[must_use]
    pub fn builder(endpoint: Endpoint) -> ClientBuilder {
        Self::builder_of(endpoint.into())
    }

    /// Returns a builder for the nodes at these endpoints.
    #[must_use]
    pub fn builder_of(endpoints: Endpoints) -> ClientBuilder {
        ClientBuilder {
            endpoints,
            token: None,
            ca_pem: None,
            identity: None,
            holder: None,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            check: None,
        }
    }

    /// The daemon's endpoint; of several nodes, that of the one that answered last.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.nodes().preferred().endpoint()
    }

    /// The endpoints of the daemon or of all nodes.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.nodes().all().map(Transport::endpoint)
    }

    /// The holder of leases for calls that name none.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.shared.holder
    }

    /// Makes any call: an absolute path with its query, and a body that is serialized as JSON.
    ///
    /// With one endpoint a `POST` is sent at most once; put an operation id into its body and call again if the outcome
    /// is unknown. With several nodes, a call that takes an operation id gets one before its first attempt and goes to
    /// one node after the other until one answers.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::is_definite`] is false if the call may have had an effect.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, CallError> {
        let manner = if method == Method::POST { Manner::ONCE } else { Manner::REPEATABLE };
        self.ask(method, path_and_query, body, manner).await
    }

    /// Makes any call and returns the daemon's JSON object. `wait` is added to the limit for answers: pass the
    /// `wait_ms` of the body.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_value(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<&impl Serialize>,
        wait: Duration,
    ) -> Result<Value, CallError> {
        let repeatable = method != Method::POST;
        let manner = Manner { repeatable, patience: Patience::Longer(wait), headers: Vec::new() };
        self.ask(method, path_and_query, body, manner).await
    }

    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<&impl Serialize>,
        manner: Manner,
    ) -> Result<T, CallError> {
        self.ask_timed(method, path_and_query, body, manner).await.map(|(_, answer)| answer)
    }

    /// Like [`Client::call_value`], with the instant before the attempt that was answered.
    pub(crate) async fn ask_timed<T: DeserializeOwned>(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<&impl Serialize>,
        manner: Manner,
    ) -> Result<(BootInstant, T), CallError> {
        let asking = self.asking(method, path_and_query, body, manner)?;
        let answered = self.nodes().exchange(&asking).await?;
        let (status, body) = (answered.status, answered.body);
        let answer = serde_json::from_slice(&body);
        let answer = answer.map_err(|error| unexpected(status, &error.to_string(), &body, true))?;
        Ok((answered.sent, answer))
    }

    pub(crate) async fn ask_text(&self, path: &str, manner: Manner) -> Result<String, CallError> {
        let asking = self.asking(Method::GET, path, None::<&()>, manner)?;
        let body = self.nodes().exchange(&asking).await?.body;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Requests a body that is read piece by piece.
    pub(crate) async fn ask_stream(
        &self,
        method: Method,
        path_and_query: &str,
        manner: Manner,
    ) -> Result<ByteStream, CallError> {
        let asking = self.asking(method, path_and_query, None::<&()>, manner)?;
        let opened = self.nodes().open(&asking).await?;
        Ok(ByteStream::new(self.clone(), opened))
    }

    /// What this client knows of its cluster's failover.
    pub(crate) fn known_failover(&self) -> &KnownFailover {
        &self.shared.failover
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.shared.nodes
    }

    fn asking(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<&impl Serialize>,
        manner: Manner,
    ) -> Result<Asking, CallError> {
        let mut request = request(method, path_and_query, body, manner)?;
        let mut waiting = None;
        if self.nodes().are_several() {
            let object = request.body.as_ref().and_then(|body| serde_json::from_slice(body).ok());
            let object: Map<String, Value> = object.unwrap_or_default();
            if !request.repeatable && takes_operation_id(&request.method, request.uri.path()) {
                if object.get("operation_id").is_none_or(Value::is_null) {
                    request.headers.push((IDEMPOTENCY_KEY, fresh_key()));
                }
                request.repeatable = true;
            }
            waiting = object.get("wait_ms").is_some_and(Value::is_u64).then_some(object);
        }
        Ok(Asking { request, waiting })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoints", &self.endpoints().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> impl fmt::Display {
    utf8_percent_encode(name, SEGMENT)
}

/// The path with its query, if the query is not empty.
pub(crate) fn with_query(path: &str, query: &impl Serialize) -> Result<String, CallError> {
    let query =
        serde_urlencoded::to_string(query).map_err(|error| CallError::Unsendable(error.to_string()))?;
    Ok(if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") })
}

fn request(
    method: Method,
    path_and_query: &str,
    body: Option<&impl Serialize>,
    manner: Manner,
) -> Result<Request, CallError> {
    let unsendable = |error: &dyn fmt::Display| CallError::Unsendable(error.to_string());
    let uri = path_and_query.parse().map_err(|error: http::uri::InvalidUri| unsendable(&error))?;
    let body = match body {
        None => None,
        Some(body) => Some(Bytes::from(serde_json::to_vec(body).map_err(|error| unsendable(&error))?)),
    };
    let Manner { repeatable, patience, mut headers } = manner;
    if repeatable
        && is_change(&method, path_and_query)
        && !headers.iter().any(|(name, _)| name == IDEMPOTENCY_KEY)
    {
        headers.push((IDEMPOTENCY_KEY, fresh_key()));
    }
    Ok(Request { method, uri, headers, body, repeatable, patience })
}

/// A new operation id as a header value.
pub(crate) fn fresh_key() -> HeaderValue {
    HeaderValue::from_str(&operation_id()).expect("invariant: hexadecimal digits are plain text")
}

fn this_process() -> String {
    let program = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "program".to_owned());
    let begin: String = program.chars().take(24).collect();
    format!("{begin}:{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_api::{LeaseQuery, State};

    #[test]
    fn names_are_one_segment_of_the_path() {
        assert_eq!(segment("db/primary 1").to_string(), "db%2Fprimary%201");
        assert_eq!(segment("a-b_c.d~e").to_string(), "a-b_c.d~e");
        assert_eq!(segment("grün?#%").to_string(), "gr%C3%BCn%3F%23%25");
    }

    #[test]
    fn a_query_holds_only_what_was_given() {
        assert_eq!(with_query("/v1/leases", &LeaseQuery::default()).expect("a path"), "/v1/leases");
        let query = LeaseQuery {
            holder: Some("a b&c".to_owned()),
            state: Some(State::Active),
            limit: Some(5),
            ..LeaseQuery::default()
        };
        assert_eq!(
            with_query("/v1/leases", &query).expect("a path"),
            "/v1/leases?holder=a+b%26c&state=active&limit=5"
        );
    }

    #[test]
    fn certificates_and_https_belong_together() {
        let http: Endpoint = "http://127.0.0.1:1".parse().expect("an endpoint");
        let https: Endpoint = "https://127.0.0.1:1".parse().expect("an endpoint");
        assert!(Client::builder(http.clone()).build().is_ok());
        assert!(matches!(Client::builder(http).ca_pem("x").build(), Err(BuildError::NoHttps)));
        assert!(matches!(Client::builder(https).ca_pem("x").build(), Err(BuildError::Pem(_))));
    }
}
