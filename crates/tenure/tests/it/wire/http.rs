//! HTTP over either kind of stream, asked and answered in JSON.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::daemon::LONG;
use crate::raw_http::{self, Answered};

/// A stream of either kind.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One connection.
pub(crate) type Http = raw_http::Http<Stream>;

pub(crate) fn over_tcp(address: SocketAddr) -> Http {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream.set_nodelay(true).unwrap();
    Http::new(Stream::Tcp(stream), &address.to_string())
}

pub(crate) fn over_unix(path: &Path) -> Http {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    Http::new(Stream::Unix(stream), "localhost")
}

/// Requests in JSON.
pub(crate) trait Ask {
    /// A body that is null is none.
    #[track_caller]
    fn json(&mut self, method: &str, path: &str, body: Value) -> Answered;
}

impl Ask for Http {
    fn json(&mut self, method: &str, path: &str, body: Value) -> Answered {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(method, path, body.as_bytes())
    }
}

/// Answers in JSON.
pub(crate) trait Answer {
    /// The body of a call that succeeded.
    #[track_caller]
    fn good(&self) -> Value;

    /// The error of a call that was refused with this code. Status, headers and body say the same.
    #[track_caller]
    fn refused(&self, code: &str) -> Value;
}

impl Answer for Answered {
    fn good(&self) -> Value {
        assert!(matches!(self.status, 200 | 201), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        self.json()
    }

    fn refused(&self, code: &str) -> Value {
        let error = self.json();
        assert_eq!(error["error"], code, "{error}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let known = tenure_api::ErrorCode::from_wire(code).unwrap();
        assert_eq!(self.status, known.http_status(), "{error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
        assert!(error["definite"].is_boolean() && error["lost"].is_boolean(), "{error}");
        let retry_secs = error["retry_after_ms"].as_u64().map(|ms| ms.div_ceil(1_000).to_string());
        assert_eq!(self.header("retry-after"), retry_secs.as_deref(), "{error}");
        error
    }
}

impl Stream {
    /// Sends nothing more; what comes can still be read.
    pub(crate) fn end_writing(&self) {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write).unwrap(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
