//! HTTP/1.1 written by hand, so that nothing a proper program would refuse to send is out of reach.

use std::fmt::{Debug, Formatter};
use std::io::{BufRead, BufReader, Read, Write};

use serde_json::Value;

use crate::cluster::stage;

/// One connection; several requests may follow each other on it.
pub(crate) struct Http<S> {
    stream: BufReader<S>,
    host: String,
    /// Sent with every request.
    headers: Vec<(String, String)>,
}

/// An answer.
pub(crate) struct Answered {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The head of an answer, whose body is still to be read.
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
}

impl<S: Read + Write> Http<S> {
    pub(crate) fn new(stream: S, host: &str) -> Self {
        Self { stream: BufReader::new(stream), host: host.to_owned(), headers: Vec::new() }
    }

    /// The same with a header in every request.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, addressed to another name.
    pub(crate) fn to(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Answered {
        self.ask("GET", path, b"")
    }

    #[track_caller]
    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Answered {
        self.ask("POST", path, body.to_string().as_bytes())
    }

    #[track_caller]
    pub(crate) fn put(&mut self, path: &str, body: &Value) -> Answered {
        self.ask("PUT", path, body.to_string().as_bytes())
    }

    #[track_caller]
    pub(crate) fn delete(&mut self, path: &str) -> Answered {
        self.ask("DELETE", path, b"")
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Answered {
        self.try_ask(method, path, body).unwrap()
    }

    /// An error is a connection that broke.
    pub(crate) fn try_ask(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<Answered> {
        self.send(method, path, body)?;
        self.answer()
    }

    /// The same with headers of its own.
    pub(crate) fn try_ask_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Answered> {
        self.send_with(method, path, headers, body)?;
        self.answer()
    }

    /// Sends a request and reads nothing.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<()> {
        self.send_with(method, path, &[], body)
    }

    fn send_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<()> {
        stage::before_request(&format!("{method} {path} {}", String::from_utf8_lossy(body)));
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.host);
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(headers.iter().copied()) {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || matches!(method, "POST" | "PUT") {
            head += &format!("content-length: {}\r\n", body.len());
        }
        head += "\r\n";
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        self.raw(&bytes)
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)?;
        self.stream.get_mut().flush()
    }

    /// Reads one whole answer.
    pub(crate) fn answer(&mut self) -> std::io::Result<Answered> {
        let head = self.head()?;
        let body = self.body(&head)?;
        Ok(Answered { status: head.status, headers: head.headers, body })
    }

    /// Reads the head of an answer; its body may be a stream.
    pub(crate) fn head(&mut self) -> std::io::Result<Head> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| broken(&format!("no status in {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(Head { status, headers });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| broken(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn body(&mut self, head: &Head) -> std::io::Result<Vec<u8>> {
        if let Some(length) = header(&head.headers, "content-length") {
            let mut body = vec![0; length.parse().map_err(|_| broken(length))?];
            self.stream.read_exact(&mut body)?;
            return Ok(body);
        }
        let mut body = Vec::new();
        if header(&head.headers, "transfer-encoding") == Some("chunked") {
            while let Some(piece) = self.chunk()? {
                body.extend_from_slice(&piece);
            }
        } else if !matches!(head.status, 204 | 304) {
            self.stream.read_to_end(&mut body)?;
        }
        Ok(body)
    }

    /// One piece of a chunked body; `None` at its end.
    pub(crate) fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let length = usize::from_str_radix(&line, 16).map_err(|_| broken(&line))?;
        let mut piece = vec![0; length + 2];
        self.stream.read_exact(&mut piece)?;
        piece.truncate(length);
        Ok((length > 0).then_some(piece))
    }

    /// Whether the daemon closed the connection without another word.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.stream.read(&mut byte), Ok(0))
    }

    pub(crate) fn stream(&self) -> &S {
        self.stream.get_ref()
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

impl Answered {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Status and error code.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["error"].as_str().unwrap_or("none").to_owned())
    }
}

impl Debug for Answered {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {}", self.status, self.headers, self.text())
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn broken(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned())
}
