//! Calls on their way to the node that writes, over HTTP, with the secret that only nodes know. Each is sent once; whoever
//! waits for it decides whether to ask again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tenure_api::{Error, ErrorCode, SteppedDown};
use tenure_cluster::Told;
use tenure_cluster::values::Writer;
use tenure_faces::{Call, Caller, Elsewhere, Following, Passed, Reply, ToldSoFar};
use tenure_server::{NODE_HEADER, PASS_PATH, PassedBack, PassedOn};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::asking;
use super::shared::NodeShared;

pub(super) type Sender = SendRequest<Full<Bytes>>;

/// The way to the node that writes.
pub(super) struct Passing {
    shared: Arc<NodeShared>,
    tls: Option<TlsConnector>,
    /// Connections that are open and asked nothing at present.
    idle: Mutex<HashMap<String, Vec<Sender>>>,
}

/// Why there is no answer.
enum Lost {
    /// Nothing left this machine.
    NotSent(String),
    /// It may have arrived.
    Sent(String),
}

/// How long a connection may take to open.
const CONNECT_WITHIN: Duration = Duration::from_millis(1_000);
/// How long an answer may take beyond what the call itself asks for.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether another node writes by now.
const LOOK_EVERY: Duration = Duration::from_millis(25);
const IDLE_MAX: usize = 64;
const NODES_MAX: usize = 16;
const ANSWER_BYTES_MAX: usize = 64 << 20;

impl Passing {
    /// `ca_pem`: the roots of certificates of nodes that are reached by https. `own_pem`: this node's certificate and its
    /// key, which it shows to those that ask for one.
    pub(super) fn new(
        shared: Arc<NodeShared>,
        ca_pem: Option<&str>,
        own_pem: Option<&(String, String)>,
    ) -> Result<Self, String> {
        let tls = ca_pem.map(|ca_pem| connector(ca_pem, own_pem)).transpose()?;
        Ok(Self { shared, tls, idle: Mutex::default() })
    }

    /// Has the writer give the log up.
    pub(super) async fn step_down(&self, writer: &Writer) -> Result<SteppedDown, Error> {
        let passed = PassedOn {
            principal: String::new(),
            scope: String::new(),
            connection: None,
            calls: Vec::new(),
            step_down: true,
            memory: false,
            asker: serde_json::Value::Null,
        };
        let answer = self.post(&writer.url, &passed, ANSWER_WITHIN).await.map_err(error)?;
        serde_json::from_slice(&answer).map_err(|_| refused(&answer))
    }

    /// What another node remembers of the log.
    pub(super) async fn memory(&self, url: &str) -> Option<Told> {
        let asker = serde_json::to_value(self.shared.asker()).ok()?;
        let (principal, scope, calls) = (String::new(), String::new(), Vec::new());
        let asked =
            PassedOn { principal, scope, connection: None, calls, step_down: false, memory: true, asker };
        let answer = self.post(url, &asked, CONNECT_WITHIN).await.ok()?;
        serde_json::from_slice(&answer).ok()
    }

    async fn pass_on(&self, caller: &Caller, calls: Vec<Call>) -> Result<Vec<Result<Reply, Error>>, Error> {
        let writer = self.shared.writer_elsewhere().ok_or_else(no_leader)?;
        let wait_ms = calls.iter().map(Call::wait_ms).max().unwrap_or(0);
        let within = ANSWER_WITHIN + Duration::from_millis(wait_ms);
        let passed = PassedOn::new(caller, calls);
        let answer = tokio::select! {
            answer = self.post(&writer.url, &passed, within) => answer.map_err(error)?,
            () = self.shared.is_deposed(&writer, LOOK_EVERY) => {
                let message = format!("node {} lost leadership while the request was under way", writer.node);
                return Err(Error::new(ErrorCode::OutcomeUnknown, message));
            }
        };
        let back: PassedBack = serde_json::from_slice(&answer).map_err(|_| refused(&answer))?;
        Ok(back.replies.into_iter().map(Into::into).collect())
    }

    async fn post(&self, url: &str, passed: &PassedOn, within: Duration) -> Result<Bytes, Lost> {
        let body = serde_json::to_vec(passed).map_err(|error| Lost::NotSent(error.to_string()))?;
        let uri: Uri = url.parse().map_err(|_| Lost::NotSent(format!("{url} is not a URL")))?;
        let mut sender = match self.take_idle(url) {
            Some(sender) => sender,
            None => tokio::time::timeout(CONNECT_WITHIN, self.connect(&uri))
                .await
                .unwrap_or_else(|_| Err("it does not answer".to_owned()))
                .map_err(|why| Lost::NotSent(format!("{url}: {why}")))?,
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(PASS_PATH)
            .header(HOST, uri.authority().map_or("", http::uri::Authority::as_str))
            .header(CONTENT_TYPE, "application/json")
            .header(NODE_HEADER, self.shared.secret())
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Lost::NotSent(error.to_string()))?;
        let lost = |why: String| Lost::Sent(format!("{url}: {why}"));
        let asking = async {
            let response =
                sender.send_request(request).await.map_err(|error| lost(crate::failure::chain(&error)))?;
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            body.map(|body| body.to_bytes()).map_err(|error| lost(error.to_string()))
        };
        let answer = tokio::time::timeout(within, asking).await;
        let answer = answer.unwrap_or_else(|_| Err(lost("no answer in time".to_owned())))?;
        self.put_idle(url, sender);
        Ok(answer)
    }

    pub(super) async fn connect(&self, uri: &Uri) -> Result<Sender, String> {
        let host = uri.host().ok_or("no host")?.trim_matches(['[', ']']).to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        if !is_tls {
            return begin(stream).await;
        }
        let tls = self.tls.as_ref().ok_or("https needs --cluster-ca")?;
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        begin(tls.connect(name, stream).await.map_err(|error| error.to_string())?).await
    }

    fn take_idle(&self, url: &str) -> Option<Sender> {
        let mut idle = self.idle.lock().expect("invariant: nobody panics while holding connections");
        let senders = idle.get_mut(url)?;
        while let Some(sender) = senders.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn put_idle(&self, url: &str, sender: Sender) {
        let mut idle = self.idle.lock().expect("invariant: nobody panics while holding connections");
        // A few nodes; whoever has gone leaves nothing behind for long.
        if idle.len() > NODES_MAX {
            idle.clear();
        }
        let senders = idle.entry(url.to_owned()).or_default();
        if senders.len() < IDLE_MAX {
            senders.push(sender);
        }
    }
}

impl Elsewhere for Passing {
    fn pass<'a>(&'a self, caller: &'a Caller, calls: Vec<Call>) -> Passed<'a> {
        let count = calls.len();
        Box::pin(async move {
            match self.pass_on(caller, calls).await {
                Ok(replies) if replies.len() == count => replies,
                Ok(_) => {
                    vec![Err(Error::new(ErrorCode::Internal, "unexpected answer from the leader")); count]
                }
                Err(error) => vec![Err(error); count],
            }
        })
    }

    fn follow<'a>(&'a self, session_id: &'a str, told: Option<&'a ToldSoFar>) -> Following<'a> {
        Box::pin(async move {
            let leader = self.shared.writer_elsewhere().ok_or_else(no_leader)?;
            asking::session(&self.shared, leader, session_id, told).await
        })
    }
}

async fn begin(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Sender, String> {
    let (sender, connection) = handshake(TokioIo::new(io)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // Whoever asked hears of it.
        let _ = connection.await;
    });
    Ok(sender)
}

fn connector(ca_pem: &str, own_pem: Option<&(String, String)>) -> Result<TlsConnector, String> {
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(root.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match own_pem {
        None => config.with_no_client_auth(),
        Some((certificates, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| error.to_string())?;
            let chain = chain.map_err(|error| error.to_string())?;
            config.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn no_leader() -> Error {
    Error::new(ErrorCode::NotLeader, "the cluster has no leader at present")
}

fn error(lost: Lost) -> Error {
    match lost {
        Lost::NotSent(why) => {
            Error::new(ErrorCode::NotLeader, format!("the leader cannot be reached: {why}"))
        }
        Lost::Sent(why) => Error::new(ErrorCode::OutcomeUnknown, format!("the leader did not answer: {why}")),
    }
}

/// Another answer than was asked for is an error body, or nothing of ours.
fn refused(answer: &[u8]) -> Error {
    serde_json::from_slice(answer)
        .unwrap_or_else(|_| Error::new(ErrorCode::NotLeader, "unexpected answer from the leader"))
}
