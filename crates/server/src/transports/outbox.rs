//! What leaves on one connection: any task may put lines in, one writes them. A peer that does not read is
//! hung up on, not waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenure_api::AnswerLine;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// Bytes that may wait for a peer to read them, before whatever is said next.
const UNREAD_BYTES_MAX: usize = 8 << 20;
/// Bytes beyond which streams add nothing.
const STREAM_BYTES_MAX: usize = 256 << 10;
/// Pieces joined into one write.
const JOINED_MAX: usize = 256;

/// Where lines go.
#[derive(Clone)]
pub(crate) struct Outbox {
    pieces: UnboundedSender<Vec<u8>>,
    unread: Unread,
    read_some: Arc<Notify>,
    /// Ends the connection.
    hang_up: CancellationToken,
}

/// How much was said and not read.
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<AtomicUsize>);

/// What the writing task takes from.
pub(crate) struct Outgoing {
    pieces: UnboundedReceiver<Vec<u8>>,
    unread: Unread,
    read_some: Arc<Notify>,
}

pub(crate) fn outbox(hang_up: CancellationToken) -> (Outbox, Outgoing) {
    let (sender, receiver) = unbounded_channel();
    let (unread, read_some) = (Unread::default(), Arc::new(Notify::new()));
    let outbox =
        Outbox { pieces: sender, unread: unread.clone(), read_some: Arc::clone(&read_some), hang_up };
    (outbox, Outgoing { pieces: receiver, unread, read_some })
}

impl Unread {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Outbox {
    pub(crate) fn unread(&self) -> Unread {
        self.unread.clone()
    }

    pub(crate) fn say(&self, line: &AnswerLine) {
        self.say_all(std::slice::from_ref(line));
    }

    /// Waits until the peer has read most of what is there, or the stream is stopped.
    pub(crate) async fn drained(&self, stop: &CancellationToken) {
        loop {
            // Made before the look, it hears of what is read after it.
            let read_some = self.read_some.notified();
            if self.unread.bytes() <= STREAM_BYTES_MAX {
                return;
            }
            tokio::select! {
                () = read_some => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Whether so much waits that the peer is hung up on.
    pub(crate) fn is_overfull(&self) -> bool {
        self.unread.bytes() > UNREAD_BYTES_MAX
    }

    /// Lines that leave together. What comes on top of too much is not kept: the peer is gone for us.
    pub(crate) fn say_all(&self, lines: &[AnswerLine]) {
        if self.is_overfull() {
            self.hang_up.cancel();
            return;
        }
        let mut piece = Vec::with_capacity(lines.len() * 512);
        for line in lines {
            serde_json::to_writer(&mut piece, line).expect("invariant: answers can be written");
            piece.push(b'\n');
        }
        self.unread.0.fetch_add(piece.len(), Ordering::Relaxed);
        // A writer that is gone was hung up on.
        let _ = self.pieces.send(piece);
    }
}

impl Outgoing {
    /// Writes until every sender is gone or the peer is.
    pub(crate) async fn write_to(mut self, mut stream: impl AsyncWrite + Unpin) {
        let mut pieces = Vec::new();
        let mut joined = Vec::new();
        while self.pieces.recv_many(&mut pieces, JOINED_MAX).await > 0 {
            let bytes: &[u8] = match &pieces[..] {
                [only] => only,
                several => {
                    joined.clear();
                    several.iter().for_each(|piece| joined.extend_from_slice(piece));
                    &joined
                }
            };
            let mut rest = bytes;
            while !rest.is_empty() {
                match stream.write(rest).await {
                    Ok(0) | Err(_) => return,
                    Ok(written) => {
                        rest = &rest[written..];
                        self.unread.0.fetch_sub(written, Ordering::Relaxed);
                        self.read_some.notify_waiters();
                    }
                }
            }
            pieces.clear();
        }
        // The peer may be gone already; there is nobody to tell.
        let _ = stream.shutdown().await;
    }
}
