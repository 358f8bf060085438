//! One daemon, spoken to over HTTP: how a client is built, how one call is made and its answer understood.
//! The typed calls, one per route, stand in `client/calls.rs`, `client/registrations.rs`, `client/streams.rs` and
//! `client/polling.rs`.

mod calls;
mod polling;
mod registrations;
mod streams;

use crate::bytes_stream::ByteStream;
use crate::endpoint::Endpoint;
use crate::error::CallError;
use crate::transport::{Connector, Identity, Opened, Patience, Reply, Request, Tls, Transport};
use bytes::Bytes;
use core::fmt;
use core::time::Duration;
use http::header::InvalidHeaderValue;
use http::{HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use tenure_api::{Error, ErrorCode, Problem};

/// How long opening a connection may take, unless told.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long an answer may take, unless told; a wait that was asked for comes on top.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How much of an answer that is not understood is shown.
const SHOWN_BYTES: usize = 200;

/// What RFC 3986 leaves as it is in a path segment; a `/` inside a name is none of the path's.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of one daemon. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    transport: Transport,
    holder: String,
}

/// Builds a [`Client`].
pub struct ClientBuilder {
    endpoint: Endpoint,
    token: Option<String>,
    ca_pem: Option<Vec<u8>>,
    identity: Option<Identity>,
    holder: Option<String>,
    connect_limit: Duration,
    answer_limit: Duration,
}

/// Why no client can be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Certificates belong to `https`, and `https` needs to know whom to trust.
    #[error("https needs the certificate of its authority, and only https does")]
    Trust,
    /// Not PEM, or without what was looked for.
    #[error("cannot read the PEM: {0}")]
    Pem(String),
    /// The host cannot stand in a certificate.
    #[error("{0:?} cannot stand in a certificate")]
    Host(String),
    /// The certificate or key cannot be used.
    #[error("cannot use the certificate: {0}")]
    Tls(#[from] rustls::Error),
    /// The token or the host cannot be written into a header.
    #[error("the token or host cannot be sent: {0}")]
    Header(#[from] InvalidHeaderValue),
}

/// How a request is made.
pub(crate) struct Manner {
    /// Sending it twice does no more than sending it once.
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
    /// The token to present, as `tenure token new` printed it.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Certificates of the authorities to trust; needed for `https`.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// The certificate with which to introduce oneself, and its key.
    #[must_use]
    pub fn identity_pem(mut self, certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(Identity { certificates: certificates.into(), key: key.into() });
        self
    }

    /// In whose name leases are held where a call does not say; the program and its process id unless told.
    #[must_use]
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// How long opening a connection may take (5 s unless told).
    #[must_use]
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// How long an answer may take (10 s unless told); a wait that was asked for comes on top.
    #[must_use]
    pub fn answer_limit(mut self, limit: Duration) -> Self {
        self.answer_limit = limit;
        self
    }

    /// Builds it. No connection is opened yet.
    ///
    /// # Errors
    /// When certificates or token cannot be used.
    pub fn build(self) -> Result<Client, BuildError> {
        let tls = match (&self.endpoint, &self.ca_pem) {
            (Endpoint::Https(authority), Some(ca_pem)) => {
                Some(Tls::new(authority, ca_pem, self.identity.as_ref())?)
            }
            (Endpoint::Http(_) | Endpoint::Unix(_), None) if self.identity.is_none() => None,
            (Endpoint::Https(_) | Endpoint::Http(_) | Endpoint::Unix(_), _) => return Err(BuildError::Trust),
        };
        let authorization = match &self.token {
            None => None,
            Some(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let connector = Connector::new(self.endpoint, tls, self.connect_limit);
        let transport = Transport::new(connector, authorization, self.answer_limit)?;
        let holder = self.holder.unwrap_or_else(this_process);
        Ok(Client { shared: Arc::new(Shared { transport, holder }) })
    }
}

impl Client {
    /// Begins to build a client.
    #[must_use]
    pub fn builder(endpoint: Endpoint) -> ClientBuilder {
        ClientBuilder {
            endpoint,
            token: None,
            ca_pem: None,
            identity: None,
            holder: None,
            connect_limit: CONNECT_LIMIT,
            answer_limit: ANSWER_LIMIT,
        }
    }

    /// Where its daemon is.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.transport().endpoint()
    }

    /// In whose name leases are held where a call does not say.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.shared.holder
    }

    /// Makes any call: a path from the root with its query, and a body that becomes JSON.
    ///
    /// A `POST` is sent at most once here; put an operation id into its body and ask again where the outcome
    /// is unknown.
    ///
    /// # Errors
    /// [`CallError`]; its [`CallError::is_definite`] says whether the call may have had an effect.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, CallError> {
        let manner = if method == Method::POST { Manner::ONCE } else { Manner::REPEATABLE };
        self.ask(method, path_and_query, body, manner).await
    }

    /// Makes any call and gives the daemon's own object. `wait` is how long the call may take beyond what an
    /// answer may take anyway: the `wait_ms` of its body.
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
        let request = request(method, path_and_query, body, manner)?;
        let reply = self.transport().exchange(&request).await?;
        let status = reply.status;
        let body = accepted(reply)?;
        serde_json::from_slice(&body).map_err(|error| unexpected(status, &error.to_string(), &body, true))
    }

    pub(crate) async fn ask_text(&self, path: &str, manner: Manner) -> Result<String, CallError> {
        let request = request(Method::GET, path, None::<&()>, manner)?;
        let reply = self.transport().exchange(&request).await?;
        let body = accepted(reply)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Asks for a body that is read piece by piece.
    pub(crate) async fn ask_stream(
        &self,
        method: Method,
        path_and_query: &str,
        manner: Manner,
    ) -> Result<ByteStream, CallError> {
        let request = request(method, path_and_query, None::<&()>, manner)?;
        let opened: Opened = self.transport().open(&request).await?;
        if is_success(opened.status) {
            return Ok(ByteStream::new(self.clone(), opened));
        }
        let reply = self.transport().finish(opened).await?;
        let status = reply.status;
        Err(accepted(reply).err().unwrap_or_else(|| unexpected(status, "not a stream", b"", true)))
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.shared.transport
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", self.endpoint()).finish_non_exhaustive()
    }
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> impl fmt::Display {
    utf8_percent_encode(name, SEGMENT)
}

/// The path with its query; nothing is added where the query is empty.
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
    let Manner { repeatable, patience, headers } = manner;
    Ok(Request { method, uri, headers, body, repeatable, patience })
}

/// The body of a call that was carried out, or why it was not.
fn accepted(reply: Reply) -> Result<Bytes, CallError> {
    if is_success(reply.status) {
        return Ok(reply.body);
    }
    match serde_json::from_slice(&reply.body) {
        Ok(error) => Err(CallError::Refused(error)),
        Err(error) => match serde_json::from_slice(&reply.body) {
            Ok(problem) => Err(CallError::Refused(of_problem(problem, reply.retry_after))),
            Err(_) => Err(unexpected(reply.status, &error.to_string(), &reply.body, false)),
        },
    }
}

/// What `/api/v3` says in its own form means the same as everywhere else.
fn of_problem(problem: Problem, retry_after: Option<u64>) -> Error {
    let Problem { code, detail, session_id, mut details, .. } = problem;
    let told = |key: &str| details.get(key).and_then(Value::as_bool);
    let definite = told("definite").unwrap_or(code.is_definite());
    let is_end =
        matches!(code, ErrorCode::SessionNotFound | ErrorCode::SessionGone | ErrorCode::SessionExpired);
    let lost = told("lost").unwrap_or(is_end);
    let retry_after_ms = details.remove("retry_after_ms").and_then(|ms| ms.as_u64());
    let retry_after_ms = retry_after_ms.or(retry_after.map(|secs| secs.saturating_mul(1_000)));
    details.retain(|key, _| key != "definite" && key != "lost");
    if let Some(session_id) = session_id {
        details.insert("session_id".to_owned(), session_id.into());
    }
    Error { code, message: detail, definite, lost, retry_after_ms, details }
}

/// A code of a newer daemon is not in our table, but what it means for the caller can still be read.
fn unexpected(status: u16, fault: &str, body: &[u8], carried_out: bool) -> CallError {
    let object: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let says = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or(false);
    let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned();
    CallError::Unexpected {
        status,
        message: format!("{fault}; it begins {shown:?}"),
        definite: !carried_out && says("definite"),
        lost: !carried_out && says("lost"),
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
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

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, retry_after: None, body: Bytes::from(body.to_owned()) }
    }

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
    fn a_refusal_has_the_code_of_the_table() {
        let body = r#"{"error":"stale_epoch","message":"m","definite":true,"lost":true,"current":4}"#;
        let error = accepted(reply(409, body)).expect_err("a refusal");
        assert_eq!(error.code(), Some(ErrorCode::StaleEpoch));
        assert!(error.lost());
    }

    #[test]
    fn a_problem_is_a_refusal_with_the_code_of_the_table() {
        let body = r#"{"type":"urn:tenure:error:no_capacity","title":"t","status":503,"code":"no_capacity",
            "detail":"all slots are taken","request_id":"r","session_id":null,"pool":"tuner","size":4}"#;
        let reply = Reply { retry_after: Some(7), ..reply(503, body) };
        let CallError::Refused(error) = accepted(reply).expect_err("a refusal") else { panic!("a refusal") };
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::NoCapacity, "all slots are taken"));
        assert_eq!((error.retry_after_ms, error.lost), (Some(7_000), false));
        assert_eq!(error.details["pool"], "tuner");
        assert!(!error.details.contains_key("request_id"), "{:?}", error.details);
        let body = r#"{"type":"x","title":"t","status":410,"code":"session_expired","detail":"d","request_id":"r",
            "session_id":"5d0c","state":"stopped"}"#;
        let error = accepted(self::reply(410, body)).expect_err("a refusal");
        assert!(error.lost() && error.is_definite());
    }

    #[test]
    fn a_code_of_a_newer_daemon_keeps_its_meaning() {
        let body = r#"{"error":"from_the_future","message":"m","definite":true,"lost":true}"#;
        let error = accepted(reply(409, body)).expect_err("a refusal");
        assert!(matches!(error, CallError::Unexpected { status: 409, definite: true, lost: true, .. }));
        let error = accepted(reply(502, "<html>Bad Gateway")).expect_err("no daemon");
        assert!(matches!(error, CallError::Unexpected { status: 502, definite: false, lost: false, .. }));
    }

    #[test]
    fn certificates_and_https_belong_together() {
        let http: Endpoint = "http://127.0.0.1:1".parse().expect("an endpoint");
        let https: Endpoint = "https://127.0.0.1:1".parse().expect("an endpoint");
        assert!(Client::builder(http.clone()).build().is_ok());
        assert!(matches!(Client::builder(http).ca_pem("x").build(), Err(BuildError::Trust)));
        assert!(matches!(Client::builder(https.clone()).build(), Err(BuildError::Trust)));
        assert!(matches!(Client::builder(https).ca_pem("x").build(), Err(BuildError::Pem(_))));
    }
}
