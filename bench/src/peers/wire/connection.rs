//! One connection: what was asked on it and is not answered yet, bytes that arrived, bytes that wait to leave.
//! Never blocks once it is open. Knows nothing of what is measured.

use super::Of;
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Where a peer is spoken to.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    Unix(PathBuf),
    Tcp(SocketAddr),
    /// Where something must be said and answered before all else, while the socket still blocks.
    Greeted(SocketAddr, Greeting),
}

/// What must be said first.
pub(crate) type Greeting = fn(&mut TcpStream) -> io::Result<()>;

pub(super) struct Connection<H> {
    stream: Stream,
    arrived: Vec<u8>,
    /// What of it is not read yet.
    unread: std::ops::Range<usize>,
    /// What leaves next; requests are put here.
    pub(super) leaving: Vec<u8>,
    left: usize,
    /// Whether the system was asked to tell when more can be written.
    pub(super) waits_to_write: bool,
    /// By tag; `None`: free.
    asked: Vec<Option<Asked<H>>>,
    free: Vec<u32>,
    /// Tags in the order in which they were given out, for protocols that answer so.
    order: VecDeque<u32>,
}

/// A request that is under way.
#[derive(Clone, Copy)]
pub(super) struct Asked<H> {
    pub(super) at_ns: u64,
    /// The lease that it renews or gives back.
    pub(super) about: Option<H>,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Bytes that an answer takes at most, heads and errors included.
const ANSWER_BYTES: usize = 8 << 10;
/// Bytes that are read at once at most.
const READ_BYTES_MAX: usize = 256 << 10;
/// How long a peer may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

impl Door {
    fn connect(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }
            Self::Tcp(address) => Self::greeted(address, |_| Ok(())),
            Self::Greeted(address, greet) => Self::greeted(address, *greet),
        }
    }

    fn greeted(address: &SocketAddr, greet: Greeting) -> io::Result<Stream> {
        let mut stream = TcpStream::connect_timeout(address, CONNECT_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CONNECT_WITHIN))?;
        greet(&mut stream)?;
        stream.set_nonblocking(true)?;
        Ok(Stream::Tcp(stream))
    }
}

impl<H: Copy> Connection<H> {
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
            order: VecDeque::with_capacity(under_way_max as usize),
        })
    }

    /// Whether one more request may be made.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a tag for a request.
    pub(super) fn ask(&mut self, at_ns: u64, about: Option<H>) -> u32 {
        let tag = self.free.pop().expect("invariant: a request is made only where there is room for it");
        self.asked[tag as usize] = Some(Asked { at_ns, about });
        self.order.push_back(tag);
        tag
    }

    /// What an answer is about, whose tag is free from now on; `None`: it was said unasked.
    pub(super) fn settle(&mut self, of: Of) -> Result<Option<Asked<H>>> {
        let tag = match of {
            Of::Nothing => return Ok(None),
            Of::Oldest => self.order.pop_front(),
            Of::Tag(tag) => {
                // Nearly always the first.
                let place = self.order.iter().position(|known| *known == tag);
                place.and_then(|place| self.order.remove(place))
            }
        };
        let tag = tag.context("an answer to what nobody asked")?;
        self.free.push(tag);
        Ok(self.asked[tag as usize].take())
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

impl<H> AsFd for Connection<H> {
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
