//! Lines of JSON by hand, over the socket or over a standard input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use super::daemon::LONG;
use crate::cluster::stage;

/// One conversation. Its end is the end of its session.
pub(crate) struct Lines {
    writer: Box<dyn Write>,
    said: Receiver<String>,
    other_end: OtherEnd,
}

enum OtherEnd {
    Socket(UnixStream),
    Process(Child),
}

impl Lines {
    pub(crate) fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        let said = heard(stream.try_clone().unwrap());
        Self { writer: Box::new(stream.try_clone().unwrap()), said, other_end: OtherEnd::Socket(stream) }
    }

    pub(crate) fn stdin(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = heard(child.stdout.take().unwrap());
        Self { writer: Box::new(child.stdin.take().unwrap()), said, other_end: OtherEnd::Process(child) }
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).unwrap();
        self.writer.flush().unwrap();
    }

    /// Sends one line.
    #[track_caller]
    pub(crate) fn say(&mut self, line: Value) {
        let line = format!("{line}\n");
        stage::before_request(&line);
        self.send(line.as_bytes());
    }

    /// Sends one line and reads the next.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: Value) -> Value {
        self.say(line);
        self.next()
    }

    /// Asks, and takes what is answered under this name.
    #[track_caller]
    pub(crate) fn good(&mut self, line: Value, name: &str) -> Value {
        let answer = self.ask(line);
        assert!(answer[name].is_object(), "{answer}");
        answer[name].clone()
    }

    /// Asks, and takes the refusal with this code.
    #[track_caller]
    pub(crate) fn refused(&mut self, line: Value, code: &str) -> Value {
        let answer = self.ask(line);
        assert_eq!(answer["error"], code, "{answer}");
        answer
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn next(&self) -> Value {
        match self.said.recv_timeout(LONG) {
            Ok(line) => serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}")),
            Err(error) => panic!("nothing was said: {error}"),
        }
    }

    /// Reads on to the first line that is looked for.
    #[track_caller]
    pub(crate) fn until(&self, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let line = self.next();
            if wanted(&line) {
                return line;
            }
        }
    }

    /// Whether nothing is said for so long.
    pub(crate) fn is_silent_for(&self, time: Duration) -> bool {
        matches!(self.said.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Sends nothing more; what is owed can still be read.
    pub(crate) fn end_writing(&mut self) {
        self.writer = Box::new(std::io::sink());
        if let OtherEnd::Socket(stream) = &self.other_end {
            stream.shutdown(Shutdown::Write).unwrap();
        }
    }

    /// All that is said until the other side hangs up.
    #[track_caller]
    pub(crate) fn rest(&self) -> Vec<Value> {
        let mut rest = Vec::new();
        loop {
            match self.said.recv_timeout(LONG) {
                Ok(line) => rest.push(serde_json::from_str(&line).unwrap()),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("the connection is not ended; it said {rest:?}"),
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        match &mut self.other_end {
            OtherEnd::Socket(stream) => {
                let _ = stream.shutdown(Shutdown::Both);
            }
            OtherEnd::Process(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Lines as they come; the thread ends with the stream.
fn heard(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
