//! A session's end, posted to a URL: one connection for one end, over the client's own HTTP and TLS. Redirects are not
//! followed.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use tenure_api::SlotSession;
use tenure_client::web::{Poster, Url};
use tenure_client::{CallError, Endpoint};
use tenure_engine::host::read_clocks;
use tenure_server::{Owner, open_guarded};

use super::signature::{self, SecretFile};
use super::{EVENT, WORDS_BYTES_MAX, json_of, quoted};
use crate::failure::chain;

/// Where ends are posted to, and what that takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WebhookPlan {
    url: Url,
    /// PEM file with the authorities to trust; `None`: those of the system.
    ca: Option<PathBuf>,
    /// File with the secret to sign with; `None`: nothing is signed.
    secret: Option<PathBuf>,
    limit: Duration,
}

/// Posts ends.
pub(super) struct Webhook {
    /// Scheme, host and port. The path may hold a secret and is in no message.
    endpoint: Endpoint,
    poster: Poster,
    secret: Option<SecretFile>,
    limit: Duration,
}

/// How long one try may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How long the body of an answer that does not acknowledge is waited for.
const WORDS_WITHIN: Duration = Duration::from_secs(1);
const SESSION_HEADER: HeaderName = HeaderName::from_static("tenure-session-id");
const EVENT_HEADER: HeaderName = HeaderName::from_static("tenure-event");
const SIGNATURE_HEADER: HeaderName = HeaderName::from_static(signature::HEADER);
/// Stands for a path that `--print-config` does not show.
const HIDDEN: &str = "[hidden]";

impl WebhookPlan {
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let url: Url = text.parse().map_err(|error: tenure_client::web::UrlError| error.to_string())?;
        if url.target().ends_with(HIDDEN) {
            return Err(format!("{HIDDEN} stands for the path of the URL: write the path itself"));
        }
        Ok(Self { url, ca: None, secret: None, limit: WITHIN })
    }

    pub(super) fn with_files(self, ca: Option<PathBuf>, secret: Option<PathBuf>) -> Self {
        Self { ca, secret, ..self }
    }

    pub(super) fn is_https(&self) -> bool {
        matches!(self.url.endpoint(), Endpoint::Https(_))
    }

    #[cfg(test)]
    pub(super) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Reads the files.
    pub(super) fn start(self) -> Result<Webhook, String> {
        let read = |path: &PathBuf| {
            let unreadable = |error| format!("cannot read {}: {error}", path.display());
            let (mut file, _) = open_guarded(path, Owner::Any).map_err(unreadable)?;
            let mut pem = Vec::new();
            file.read_to_end(&mut pem).map(|_| pem).map_err(unreadable)
        };
        let ca_pem = self.ca.as_ref().map(read).transpose()?;
        let poster = Poster::new(&self.url, ca_pem.as_deref());
        let endpoint = self.url.endpoint().clone();
        Ok(Webhook {
            poster: poster.map_err(|error| format!("cannot use {endpoint}: {}", chain(&error)))?,
            endpoint,
            secret: self.secret.as_deref().map(SecretFile::open).transpose()?,
            limit: self.limit,
        })
    }
}

/// A URL as it may be shown: its path and query, and what stands before the host, may be secret.
pub(super) fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, target) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let target = if matches!(target, "" | "/") { target.to_owned() } else { format!("/{HIDDEN}") };
    format!("{scheme}://{host}{target}")
}

impl Webhook {
    pub(super) async fn tell(&self, ended: &SlotSession) -> Result<(), String> {
        let json = Bytes::from(json_of(ended));
        let headers = self.headers(ended, &json)?;
        let posted = self.poster.post(headers, json, self.limit).await;
        let answer = posted.map_err(|error| self.lost(&error))?;
        let status = answer.status();
        if (200..300).contains(&status) {
            return Ok(());
        }
        let words = quoted(&answer.beginning(WORDS_BYTES_MAX, WORDS_WITHIN).await);
        let status =
            StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |known| known.to_string());
        Err(format!("{} answered {status}{words}", self.endpoint))
    }

    fn headers(&self, ended: &SlotSession, json: &[u8]) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
        let mut headers = vec![
            (EVENT_HEADER, HeaderValue::from_static(EVENT)),
            (SESSION_HEADER, value(&ended.session_id)?),
        ];
        if let Some(secret) = &self.secret {
            let signature = secret.sign(read_clocks().wall_ms / 1_000, json)?;
            headers.push((SIGNATURE_HEADER, value(&signature)?));
        }
        Ok(headers)
    }

    fn lost(&self, error: &CallError) -> String {
        match error {
            CallError::Broken { endpoint, source } => {
                format!("{endpoint} did not answer: {}", chain(source.as_ref()))
            }
            CallError::TimedOut { limit } => {
                format!("{} did not answer within {} ms", self.endpoint, limit.as_millis())
            }
            CallError::Unreachable { endpoint, source } => {
                format!("cannot reach {endpoint}: {}", chain(source.as_ref()))
            }
            CallError::Rejected(_) | CallError::Unexpected { .. } | CallError::Unsendable(_) => {
                error.to_string()
            }
        }
    }
}
