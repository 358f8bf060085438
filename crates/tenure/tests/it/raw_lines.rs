//! JSON lines over the socket, written by hand.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

/// One connection.
pub(crate) struct Lines {
    stream: BufReader<UnixStream>,
}

impl Lines {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// Says one line and reads the next.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &Value) -> Value {
        self.say(line);
        self.next()
    }

    #[track_caller]
    pub(crate) fn say(&mut self, line: &Value) {
        self.raw(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next line that is said.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        self.try_next().unwrap().expect("another line")
    }

    /// `None`: the daemon hung up.
    pub(crate) fn try_next(&mut self) -> std::io::Result<Option<Value>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).map_err(Into::into)
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        self.stream.get_ref()
    }
}
