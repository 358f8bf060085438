//! Requests to any HTTP server, over the connections and the TLS of this crate. For the daemon's webhooks; the SDK does
//! not promise it.

use crate::client::BuildError;
use crate::endpoint::{Endpoint, EndpointError};
use crate::error::CallError;
use crate::transport::{Connector, Limits, Opened, Patience, Request, TlsSetup, Transport};
use bytes::Bytes;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use http::header::CONNECTION;
use http::{HeaderName, HeaderValue, Method, Uri};
use http_body_util::BodyExt as _;

/// An `http` or `https` URL. Its path and query may hold a secret, so they are not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    endpoint: Endpoint,
    target: Uri,
}

/// Why a text is not a URL. No message repeats the text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UrlError {
    /// It is not a URL, or has another scheme than `http` and `https`.
    #[error("expected a URL like http://127.0.0.1:3000/ended")]
    Malformed,
    /// There is a name before the host.
    #[error("a name and password before the host are not sent; put a secret into the path")]
    Credentials,
}

/// Posts to one URL.
pub struct Poster {
    transport: Transport,
    target: Uri,
}

/// An answer.
pub struct Posted(Opened);

impl Url {
    /// Scheme, host and port.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Path and query.
    #[must_use]
    pub fn target(&self) -> &str {
        self.target.path_and_query().map_or("/", |target| target.as_str())
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(UrlError::Malformed);
        };
        if authority.as_str().contains('@') {
            return Err(UrlError::Credentials);
        }
        let endpoint = format!("{scheme}://{authority}").parse();
        let endpoint = endpoint.map_err(|_: EndpointError| UrlError::Malformed)?;
        // Written out, a target has the slash that a URL may leave away before its query.
        let target = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        Ok(Self { endpoint, target: target.parse().map_err(|_| UrlError::Malformed)? })
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({}/…)", self.endpoint)
    }
}

impl Poster {
    /// `ca_pem`: the only authorities to trust for `https`; `None`: those that the system trusts.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub fn new(url: &Url, ca_pem: Option<&[u8]>) -> Result<Self, BuildError> {
        let setup = match &url.endpoint {
            Endpoint::Https(_) => Some(TlsSetup::new(ca_pem, None)?),
            Endpoint::Http(_) | Endpoint::Unix(_) => None,
        };
        let connector = Connector::new(url.endpoint.clone(), setup.as_ref(), Duration::MAX, None)?;
        Ok(Self { transport: Transport::new(connector, None)?, target: url.target.clone() })
    }

    /// Sends JSON over a connection of its own. A redirect is an answer like any other: it is not followed.
    ///
    /// # Errors
    /// When no answer begins within the limit.
    pub async fn post(
        &self,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        json: Bytes,
        limit: Duration,
    ) -> Result<Posted, CallError> {
        let close = (CONNECTION, HeaderValue::from_static("close"));
        let request = Request {
            method: Method::POST,
            uri: self.target.clone(),
            headers: headers.into_iter().chain([close]).collect(),
            body: Some(json),
            repeatable: false,
            patience: Patience::AtMost(limit),
        };
        self.transport.open(&request, Limits { connect: limit, answer: limit }).await.map(Posted)
    }
}

impl Posted {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// The first `bytes_max` bytes of its body, or what arrives before `limit`.
    pub async fn beginning(mut self, bytes_max: usize, limit: Duration) -> Vec<u8> {
        let mut bytes = Vec::new();
        let reading = async {
            while bytes.len() < bytes_max
                && let Some(Ok(frame)) = self.0.body.frame().await
            {
                if let Some(data) = frame.data_ref() {
                    bytes.extend_from_slice(&data[..data.len().min(bytes_max - bytes.len())]);
                }
            }
        };
        let _ = tokio::time::timeout(limit, reading).await;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_an_endpoint_and_a_target() {
        let parts =
            |text: &str| text.parse::<Url>().map(|url| format!("{} {}", url.endpoint(), url.target()));
        for (text, expected) in [
            ("http://127.0.0.1", "http://127.0.0.1:80 /"),
            ("HTTPS://host.example/a/b?c=d", "https://host.example:443 /a/b?c=d"),
            ("http://[::1]:3000/", "http://[::1]:3000 /"),
            ("http://host.example:8080?x", "http://host.example:8080 /?x"),
        ] {
            assert_eq!(parts(text).as_deref(), Ok(expected), "{text}");
        }
        for text in
            ["", "/path", "host:80", "ftp://host/", "unix:/run/x", "http://", "http://host:0/", "http://a b/"]
        {
            assert_eq!(parts(text), Err(UrlError::Malformed), "{text}");
        }
        assert_eq!(parts("http://me:secret@host/"), Err(UrlError::Credentials));
    }

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let url: Url = "https://host.example/hooks/secret?key=secret".parse().expect("a URL");
        assert_eq!(format!("{url:?}"), "Url(https://host.example:443/…)");
    }
}
