//! A session's end, posted to a URL. One connection for one word; redirects are not followed.

use std::time::Duration;

use tenure_api::Stream;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::{EVENT, WORDS_BYTES_MAX, json_of, quoted};

/// Where ends are posted to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Webhook {
    /// Without brackets.
    host: String,
    port: u16,
    /// Host and port as the URL has them.
    authority: String,
    /// Path and query. May hold a secret: never told to anybody else.
    path: Uri,
    limit: Duration,
}

/// How long one try may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How long the words of somebody who refused are waited for.
const WORDS_WITHIN: Duration = Duration::from_secs(1);
const SESSION_HEADER: &str = "tenure-session-id";
const EVENT_HEADER: &str = "tenure-event";

impl Webhook {
    pub(super) fn of(url: &str) -> Result<Self, String> {
        let expected = "expected a URL like http://127.0.0.1:3000/ended";
        let uri: Uri = url.parse().map_err(|_| expected)?;
        let authority = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or(expected)?;
        if authority.as_str().contains('@') {
            return Err(
                "a name and password before the host are not sent; put a secret into the path".to_owned()
            );
        }
        let host = authority.host();
        // Of a port that is none the library says that there is none.
        let port = match &authority.as_str()[host.len()..] {
            "" => 80,
            port => port[1..].parse().ok().filter(|port| *port > 0).ok_or(expected)?,
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
        let authority = authority.as_str().to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = path.parse().map_err(|_| expected)?;
        Ok(Self { host, port, authority, path, limit: WITHIN })
    }

    #[cfg(test)]
    pub(super) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    pub(super) async fn tell(&self, ended: &Stream) -> Result<(), String> {
        let told = tokio::time::timeout(self.limit, self.post(ended)).await;
        told.unwrap_or_else(|_| {
            Err(format!("{} did not answer within {} ms", self.authority, self.limit.as_millis()))
        })
    }

    async fn post(&self, ended: &Stream) -> Result<(), String> {
        let request = self.request(ended).map_err(|error| error.to_string())?;
        let unreachable = |error: &dyn std::error::Error| {
            format!("cannot reach {}: {}", self.authority, crate::failure::chain(error))
        };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = TokioIo::new(stream.map_err(|error| unreachable(&error))?);
        let shaken = hyper::client::conn::http1::handshake(stream).await;
        let (mut sender, connection) = shaken.map_err(|error| unreachable(&error))?;
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| {
            format!("{} did not answer: {}", self.authority, crate::failure::chain(&error))
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let words = first_words(answer.into_body()).await;
        Err(format!("{} answered {status}{words}", self.authority))
    }

    fn request(&self, ended: &Stream) -> Result<Request<Full<Bytes>>, http::Error> {
        Request::builder()
            .method(Method::POST)
            .uri(self.path.clone())
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(CONNECTION, HeaderValue::from_static("close"))
            .header(EVENT_HEADER, EVENT)
            .header(SESSION_HEADER, &ended.session_id)
            .body(Full::new(Bytes::from(json_of(ended))))
    }
}

/// The beginning of a body, whatever comes in time.
async fn first_words(mut body: Incoming) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < WORDS_BYTES_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            if let Some(data) = frame.data_ref() {
                bytes.extend_from_slice(&data[..data.len().min(WORDS_BYTES_MAX - bytes.len())]);
            }
        }
    };
    let _ = tokio::time::timeout(WORDS_WITHIN, reading).await;
    quoted(&bytes)
}
