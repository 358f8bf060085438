//! Somebody who is told of ends: a real server that answers as the test wants, on an address of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::daemon::LIMIT;
use crate::run_support::wait_until;
use crate::streams::ways::id;

/// Ends when it is dropped.
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// What it says to whoever tells it something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
    Status(u16),
    /// Nothing, for as long as the other waits.
    Nothing,
}

/// One try to tell it something.
#[derive(Clone, Debug)]
pub(crate) struct Try {
    /// The first line.
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) session: Value,
    pub(crate) said: Says,
}

struct Shared {
    says: Mutex<Says>,
    tries: Mutex<Vec<Try>>,
    is_over: AtomicBool,
}

impl Try {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn was_acknowledged(&self) -> bool {
        matches!(self.said, Says::Status(200..=299))
    }
}

impl Receiver {
    pub(crate) fn start(says: Says) -> Self {
        Self::at(SocketAddr::new(own_address().into(), 0), says)
    }

    /// At an address that it may have been at before.
    pub(crate) fn at(address: SocketAddr, says: Says) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared =
            Shared { says: Mutex::new(says), tries: Mutex::default(), is_over: AtomicBool::new(false) };
        let shared = Arc::new(shared);
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for stream in listener.incoming() {
                    if shared.is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let shared = Arc::clone(&shared);
                    // Whoever breaks off is heard no more, and that is all.
                    std::thread::spawn(move || stream.and_then(|stream| shared.hear(stream)));
                }
            }
        });
        Self { address, shared, accepting: Some(accepting) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// As it stands in the settings.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/ended?key=7", self.address)
    }

    /// What it says from now on.
    pub(crate) fn say(&self, says: Says) {
        *self.shared.says.lock().unwrap() = says;
    }

    /// All tries so far.
    pub(crate) fn tries(&self) -> Vec<Try> {
        self.shared.tries.lock().unwrap().clone()
    }

    /// Those about one session.
    pub(crate) fn tries_of(&self, session: &Value) -> Vec<Try> {
        let mut tries = self.tries();
        tries.retain(|tried| tried.session["session_id"] == id(session));
        tries
    }

    /// Waits until it has acknowledged the end of a session; gives the session as it was told.
    #[track_caller]
    pub(crate) fn until_told(&self, session: &Value) -> Value {
        let mut told = None;
        wait_until(&format!("somebody told of {}", id(session)), LIMIT, || {
            told = self.tries_of(session).into_iter().find(Try::was_acknowledged);
            told.is_some()
        });
        told.unwrap().session
    }

    /// Waits until somebody tried this often to tell of the end of a session.
    #[track_caller]
    pub(crate) fn until_tried(&self, session: &Value, count: usize) {
        wait_until(&format!("{count} tries to tell of {}", id(session)), LIMIT, || {
            self.tries_of(session).len() >= count
        });
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes it up.
        let _ = TcpStream::connect(self.address);
        let _ = self.accepting.take().unwrap().join();
    }
}

impl Shared {
    fn hear(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(LIMIT))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut headers = Vec::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let Some((name, value)) = header.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length").unwrap().1.parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let session = serde_json::from_slice(&body).unwrap();
        let said = *self.says.lock().unwrap();
        let tried = Try { line: line.trim_end().to_owned(), headers, session, said };
        self.tries.lock().unwrap().push(tried);
        match said {
            Says::Status(status) => write!(stream, "HTTP/1.1 {status} Said\r\ncontent-length: 0\r\n\r\n"),
            Says::Nothing => reader.read_to_end(&mut body).map(drop),
        }
    }
}

/// Of loopback, and nobody else's: a port that is free for a moment stays free.
fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1 + (NEXT.fetch_add(1, Ordering::SeqCst) % 200) as u8, high, low.clamp(1, 254))
}
