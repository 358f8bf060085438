//! What a daemon tells of the network, as it tells it: a stream of server-sent events or of lines, gathered aside so
//! that tests can wait for one thing and look at all. Dropping one hangs up.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use super::peers::feed::{Feed, LIMIT};
use crate::daemon::Daemon;

/// One stream that has begun.
pub(crate) struct Stream {
    told: Feed<Value>,
    connection: UnixStream,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    /// Server-sent events of a path. The last word of the daemon is told as `{"closing": …}`.
    #[track_caller]
    pub(crate) fn events(daemon: &Daemon, path: &str) -> Self {
        let mut http = daemon.http_over_socket();
        http.send("GET", path, b"").unwrap();
        let head = http.head().unwrap();
        assert_eq!(head.status, 200, "{path}");
        let connection = http.stream().try_clone().unwrap();
        Self::begin(connection, move |told| {
            let mut text = String::new();
            while let Ok(Some(piece)) = http.chunk() {
                text.push_str(&String::from_utf8_lossy(&piece));
                while let Some((block, rest)) = text.split_once("\n\n") {
                    block_of(block).into_iter().for_each(|value| told.push(value));
                    text = rest.to_owned();
                }
            }
        })
    }

    /// Lines that follow a first one.
    #[track_caller]
    pub(crate) fn lines(daemon: &Daemon, first: &Value) -> Self {
        let mut lines = daemon.lines();
        lines.say(first);
        let connection = lines.stream().try_clone().unwrap();
        Self::begin(connection, move |told| {
            while let Ok(Some(line)) = lines.try_next() {
                told.push(line);
            }
        })
    }

    fn begin(connection: UnixStream, read: impl FnOnce(&Feed<Value>) + Send + 'static) -> Self {
        // Nothing may come for long; whoever waits has a limit of its own.
        connection.set_read_timeout(None).unwrap();
        let told = Feed::new();
        let to = told.clone();
        let reader = thread::spawn(move || {
            read(&to);
            to.end();
        });
        Self { told, connection, reader: Some(reader) }
    }

    /// The first that is wanted of all that was told; fails the test if there is none in time.
    #[track_caller]
    pub(crate) fn wait_for(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        self.told.expect(0, wanted, LIMIT)
    }

    /// A browse's record of an instance.
    #[track_caller]
    pub(crate) fn wait_found(&self, name: &str) -> Value {
        self.wait_for(|told| told["found"]["name"] == name)["found"].clone()
    }

    /// The removal of an instance.
    #[track_caller]
    pub(crate) fn wait_removed(&self, name: &str) -> Value {
        self.wait_event("removed", name)
    }

    /// The service of an event of that kind.
    #[track_caller]
    pub(crate) fn wait_event(&self, kind: &str, name: &str) -> Value {
        self.wait_for(|told| told["event"] == kind && told["service"]["name"] == name)["service"].clone()
    }

    /// Everything told so far.
    pub(crate) fn all(&self) -> Vec<Value> {
        self.told.all()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.connection.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Comments alone are nothing.
fn block_of(block: &str) -> Option<Value> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let data: Value = serde_json::from_str(field("data: ")?).unwrap();
    Some(match field("event: ") {
        Some(kind) => json!({kind: data}),
        None => data,
    })
}
