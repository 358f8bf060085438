//! One connection: what was asked on it and is not answered yet, bytes that arrived, bytes that wait to leave.
//! Never blocks once it is open. Knows nothing of what is measured.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::Transport;
use super::speech::Held;

/// Where a daemon is spoken to.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    /// Its socket.
    Socket(PathBuf),
    /// Its port.
    Http {
        /// Where it is.
        addresses: Vec<SocketAddr>,
        /// What it is called in requests.
        host: String,
        /// What is presented.
        token: Option<String>,
    },
}

pub(super) struct Connection {
    stream: Stream,
    arrived: Vec<u8>,
    /// What of it is not read yet.
    unread: std::ops::Range<usize>,
    /// What leaves next; requests are put here.
    pub(super) leaving: Vec<u8>,
    left: usize,
    waits_to_write: bool,
    /// By tag; `None`: free.
    asked: Vec<Option<Asked>>,
    free: Vec<u32>,
}

/// A request that is under way.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// When.
    pub(super) at_ns: u64,
    /// The lease that it gives back.
    pub(super) releases: Option<Held>,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Bytes that an answer takes at most, heads and errors included.
const ANSWER_BYTES: usize = 8 << 10;
/// Bytes that are read at once at most.
const READ_BYTES_MAX: usize = 256 << 10;
/// How long a daemon may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

impl Door {
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Self::Socket(_) => Transport::Socket,
            Self::Http { .. } => Transport::Http,
        }
    }

    fn connect(&self) -> io::Result<Stream> {
        let stream = match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Stream::Unix(stream)
            }
            Self::Http { addresses, .. } => {
                let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
                let stream = addresses.iter().find_map(|address| {
                    TcpStream::connect_timeout(address, CONNECT_WITHIN).map_err(|error| last = error).ok()
                });
                let stream = stream.ok_or(last)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Stream::Tcp(stream)
            }
        };
        Ok(stream)
    }
}

impl Connection {
    /// Connects; so many requests may be under way on it.
    pub(super) fn open(door: &Door, under_way_max: u32) -> io::Result<Self> {
        Ok(Self {
            stream: door.connect()?,
            arrived: vec![0; (under_way_max as usize * ANSWER_BYTES).min(READ_BYTES_MAX)],
            unread: 0..0,
            leaving: Vec::new(),
            left: 0,
            waits_to_write: false,
            asked: vec![None; under_way_max as usize],
            free: (0..under_way_max).rev().collect(),
        })
    }

    /// Whether one more request may be made.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a tag for a request.
    pub(super) fn ask(&mut self, asked: Asked) -> Option<u32> {
        let tag = self.free.pop()?;
        self.asked[tag as usize] = Some(asked);
        Some(tag)
    }

    /// What was asked under a tag, which is free from now on.
    pub(super) fn settle(&mut self, tag: u32) -> Option<Asked> {
        let asked = self.asked.get_mut(tag as usize)?.take()?;
        self.free.push(tag);
        Some(asked)
    }

    /// Whether the system was asked to tell when more can be written.
    pub(super) fn is_waiting_to_write(&self) -> bool {
        self.waits_to_write
    }

    pub(super) fn set_waiting_to_write(&mut self, waits: bool) {
        self.waits_to_write = waits;
    }

    /// Writes what can be written; says whether everything has left.
    pub(super) fn write(&mut self) -> io::Result<bool> {
        while self.left < self.leaving.len() {
            match self.stream.write(&self.leaving[self.left..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.left += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.leaving.clear();
        self.left = 0;
        Ok(true)
    }

    /// Reads once what has arrived.
    pub(super) fn read(&mut self) -> io::Result<()> {
        if self.unread.end == self.arrived.len() {
            // An answer without an end cannot be waited for.
            if self.unread.start == 0 {
                return Err(io::Error::new(ErrorKind::InvalidData, "an answer is too long"));
            }
            self.arrived.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        match self.stream.read(&mut self.arrived[self.unread.end..]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.unread.end += count;
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What has arrived and was not taken.
    pub(super) fn unread(&self) -> &[u8] {
        &self.arrived[self.unread.clone()]
    }

    /// So many bytes are understood.
    pub(super) fn take(&mut self, count: usize) {
        self.unread.start += count;
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
