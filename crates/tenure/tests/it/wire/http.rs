//! HTTP/1.1 by hand: what is sent is what the test says, byte for byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::daemon::LONG;

/// A stream of either kind.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One connection.
pub(crate) struct Http {
    reader: BufReader<Stream>,
    host: String,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Http {
    pub(crate) fn tcp(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(Stream::Tcp(stream)), host: address.to_string() }
    }

    pub(crate) fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self { reader: BufReader::new(Stream::Unix(stream)), host: "localhost".to_owned() }
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// The bytes of a request; a body that is null is none.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Vec<u8> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        if !body.is_empty() {
            text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        format!("{text}\r\n{body}").into_bytes()
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: Value) -> Reply {
        self.ask_with(method, path, &[], body)
    }

    #[track_caller]
    pub(crate) fn ask_with(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
        let request = self.request(method, path, headers, &body);
        self.send(&request);
        if method == "HEAD" { self.head() } else { self.reply() }
    }

    /// Reads one answer to its end.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = self.head();
        if let Some(length) = reply.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            self.reader.read_exact(&mut body).unwrap();
            reply.body = body;
        } else if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                reply.body.extend(chunk);
            }
        }
        reply
    }

    /// Reads status and headers and leaves the body.
    #[track_caller]
    pub(crate) fn head(&mut self) -> Reply {
        let first = self.line();
        let mut words = first.split(' ');
        assert_eq!(words.next(), Some("HTTP/1.1"), "{first:?}");
        let status = words.next().unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return Reply { status, headers, body: Vec::new() };
            }
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_lowercase(), value.to_owned()));
        }
    }

    /// The next piece of a body in pieces; `None` at its end.
    #[track_caller]
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.line();
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("{size:?} is no size of a chunk"));
        let mut chunk = vec![0; size];
        self.reader.read_exact(&mut chunk).unwrap();
        assert_eq!(self.line(), "");
        (size > 0).then_some(chunk)
    }

    /// Whether the daemon has ended the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.reader.fill_buf(), Ok(bytes) if bytes.is_empty())
    }

    /// Sends nothing more and reads on.
    pub(crate) fn end_writing(&self) {
        match self.reader.get_ref() {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write).unwrap(),
        }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("the connection ended in {line:?}")).to_owned()
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The body of a call that succeeded.
    #[track_caller]
    pub(crate) fn good(&self) -> Value {
        assert!(matches!(self.status, 200 | 201), "{}: {}", self.status, self.text());
        self.json()
    }

    /// The error of a call that was refused with this code. Status and body say the same.
    #[track_caller]
    pub(crate) fn refused(&self, code: &str) -> Value {
        let error = self.json();
        assert_eq!(error["error"], code, "{error}");
        let known = tenure_api::ErrorCode::from_wire(code).unwrap();
        assert_eq!(self.status, known.http_status(), "{error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
        assert!(error["definite"].is_boolean() && error["lost"].is_boolean(), "{error}");
        let retry_secs = error["retry_after_ms"].as_u64().map(|ms| ms.div_ceil(1_000).to_string());
        assert_eq!(self.header("retry-after"), retry_secs.as_deref(), "{error}");
        error
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
