//! One session with ZooKeeper over one connection, one request at a time, and what is watched meanwhile. The load has
//! a faster way to speak; this one is for everything else.

use super::jute::{
    self, EVENT_XID, Granted, NO_NODE, NODE_DELETED, NODE_EXISTS, Node, Op, PING_XID, Reader, WatchedEvent,
};
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) struct Session {
    stream: TcpStream,
    granted: Granted,
    arrived: Vec<u8>,
    events: VecDeque<WatchedEvent>,
    last_xid: i32,
}

/// Bytes of the answer to a connect at most.
const GREETING_BYTES_MAX: usize = 1 << 10;
/// Requests that are under way while many nodes are made.
const UNDER_WAY: usize = 256;

impl Session {
    /// The server grants no less than twice its tick.
    pub(super) async fn open(port: u16, timeout: Duration) -> Result<Self> {
        Self::connect(port, timeout, None).await
    }

    /// Goes on with a session on another connection, with another timeout from now on. The first connection is closed.
    pub(super) async fn resume(self, port: u16, timeout: Duration) -> Result<Self> {
        Self::connect(port, timeout, Some(&self.granted)).await
    }

    async fn connect(port: u16, timeout: Duration, known: Option<&Granted>) -> Result<Self> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let mut out = Vec::new();
        jute::put_connect(milliseconds(timeout), known, &mut out);
        stream.write_all(&out).await?;
        let mut arrived = Vec::new();
        let frame = next_frame(&mut stream, &mut arrived).await?;
        let granted = Reader::new(&frame).granted()?;
        ensure!(granted.session != 0, "the session is over");
        Ok(Self { stream, granted, arrived, events: VecDeque::new(), last_xid: 0 })
    }

    /// How long it may be silent.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.granted.timeout_ms.unsigned_abs().into())
    }

    /// The name it got; `None`: it is there already.
    pub(super) async fn create(&mut self, path: &str, node: Node) -> Result<Option<String>> {
        let (error, body) = self.ask(|xid, out| jute::put_create(xid, path.as_bytes(), node, out)).await?;
        match error {
            0 => Ok(Some(Reader::new(&body).text()?)),
            NODE_EXISTS => Ok(None),
            _ => bail!("{path} was not created: error {error}"),
        }
    }

    pub(super) async fn delete(&mut self, path: &str) -> Result<()> {
        let (error, _) = self.ask(|xid, out| jute::put_delete(xid, path.as_bytes(), out)).await?;
        ensure!(error == 0, "{path} was not deleted: error {error}");
        Ok(())
    }

    /// How many children it has, if it is there.
    pub(super) async fn exists(&mut self, path: &str, watch: bool) -> Result<Option<u64>> {
        let put = |xid, out: &mut Vec<u8>| jute::put_read(xid, Op::Exists, path.as_bytes(), watch, out);
        let (error, body) = self.ask(put).await?;
        match error {
            0 => Ok(Some(Reader::new(&body).children_count()?.unsigned_abs().into())),
            NO_NODE => Ok(None),
            _ => bail!("{path} was not looked at: error {error}"),
        }
    }

    pub(super) async fn children(&mut self, path: &str) -> Result<Vec<String>> {
        let put = |xid, out: &mut Vec<u8>| jute::put_read(xid, Op::GetChildren, path.as_bytes(), false, out);
        let (error, body) = self.ask(put).await?;
        ensure!(error == 0, "{path} was not listed: error {error}");
        Ok(Reader::new(&body).texts()?)
    }

    /// Renews everything that goes with the session.
    pub(super) async fn ping(&mut self) -> Result<()> {
        let mut out = Vec::new();
        jute::put_ping(&mut out);
        self.stream.write_all(&out).await?;
        self.answer(PING_XID).await?;
        Ok(())
    }

    /// Waits until a node that is watched is gone.
    pub(super) async fn deleted(&mut self, path: &str) -> Result<()> {
        loop {
            while let Some(event) = self.events.pop_front() {
                if event.kind == NODE_DELETED && event.path == path {
                    return Ok(());
                }
            }
            let frame = next_frame(&mut self.stream, &mut self.arrived).await?;
            let mut reader = Reader::new(&frame);
            ensure!(reader.header()?.xid == EVENT_XID, "an answer to what nobody asked");
            self.events.push_back(reader.event()?);
        }
    }

    /// Makes ephemeral nodes, many requests under way.
    pub(super) async fn create_all(&mut self, mut paths: impl Iterator<Item = String>) -> Result<()> {
        let mut out = Vec::new();
        loop {
            out.clear();
            let first = self.last_xid + 1;
            for path in paths.by_ref().take(UNDER_WAY) {
                self.last_xid += 1;
                jute::put_create(self.last_xid, path.as_bytes(), Node::Ephemeral, &mut out);
            }
            if out.is_empty() {
                return Ok(());
            }
            self.stream.write_all(&out).await?;
            for xid in first..=self.last_xid {
                let (error, _) = self.answer(xid).await?;
                ensure!(error == 0, "a node was not created: error {error}");
            }
        }
    }

    /// Ends it politely; what goes with it is gone.
    pub(super) async fn close(mut self) -> Result<()> {
        self.ask(jute::put_close).await?;
        Ok(())
    }

    async fn ask(&mut self, put: impl FnOnce(i32, &mut Vec<u8>)) -> Result<(i32, Vec<u8>)> {
        self.last_xid += 1;
        let mut out = Vec::new();
        put(self.last_xid, &mut out);
        self.stream.write_all(&out).await?;
        self.answer(self.last_xid).await
    }

    /// The error, or 0, and what follows it.
    async fn answer(&mut self, xid: i32) -> Result<(i32, Vec<u8>)> {
        loop {
            let frame = next_frame(&mut self.stream, &mut self.arrived).await?;
            let mut reader = Reader::new(&frame);
            let header = reader.header()?;
            if header.xid == EVENT_XID {
                self.events.push_back(reader.event()?);
                continue;
            }
            ensure!(header.xid == xid, "an answer out of order");
            return Ok((header.error, reader.rest().to_vec()));
        }
    }
}

/// Opens a session on a socket that blocks.
pub(super) fn greet(stream: &mut (impl Read + Write), timeout: Duration) -> io::Result<()> {
    let mut out = Vec::new();
    jute::put_connect(milliseconds(timeout), None, &mut out);
    stream.write_all(&out)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > GREETING_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a ZooKeeper"));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Reader::new(&frame).granted()?;
    Ok(())
}

async fn next_frame(stream: &mut TcpStream, arrived: &mut Vec<u8>) -> Result<Vec<u8>> {
    loop {
        if let Some(frame) = jute::first_frame(arrived)? {
            let frame = frame.to_vec();
            arrived.drain(..4 + frame.len());
            return Ok(frame);
        }
        let count = stream.read_buf(arrived).await?;
        (count > 0).then_some(()).context("the server hung up")?;
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
