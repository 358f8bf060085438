//! Bodies of answers: bytes that are there, or bytes that come.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tenure_engine::kernel::Text;
use tenure_faces::Counted;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The body of any answer.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// Pieces on their way to a reader that may be slow.
const PIECES_MAX: usize = 16;
/// Bytes gathered before a blocking writer hands them on.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes that are there.
pub(crate) fn full(bytes: impl Into<Bytes>) -> AnswerBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Bytes that come through the sender.
pub(crate) fn stream() -> (Pieces, AnswerBody) {
    let (sender, receiver) = channel(PIECES_MAX);
    (Pieces { sender, _place: None }, Streamed { receiver }.boxed_unsync())
}

/// Where the bytes of a streamed body go in.
pub(crate) struct Pieces {
    sender: Sender<io::Result<Bytes>>,
    _place: Option<Counted<Text>>,
}

struct Streamed {
    receiver: Receiver<io::Result<Bytes>>,
}

/// The same for code that blocks.
pub(crate) struct BlockingPieces {
    sender: Sender<io::Result<Bytes>>,
    gathered: Vec<u8>,
}

impl Pieces {
    /// The same, with a place that is given back when the stream ends.
    pub(crate) fn holding(self, place: Counted<Text>) -> Self {
        Self { _place: Some(place), ..self }
    }

    /// Hands bytes on; `false` when the reader has gone.
    pub(crate) async fn send(&self, bytes: Bytes) -> bool {
        self.sender.send(Ok(bytes)).await.is_ok()
    }

    /// Resolves when the reader has gone.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// For code that blocks.
    pub(crate) fn writer(self) -> BlockingPieces {
        BlockingPieces { sender: self.sender, gathered: Vec::with_capacity(PIECE_BYTES) }
    }
}

impl BlockingPieces {
    /// Ends the body as broken, so that no reader takes it for whole.
    pub(crate) fn break_off(self) {
        let _ = self.sender.blocking_send(Err(io::Error::other("broken off")));
    }
}

impl io::Write for BlockingPieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.gathered, Vec::with_capacity(PIECE_BYTES));
        self.sender
            .blocking_send(Ok(piece.into()))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the reader has gone"))
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(ready!(self.receiver.poll_recv(context)).map(|piece| piece.map(Frame::data)))
    }
}
