//! What leaves on one connection. Any task may say something, and writes it itself as far as the peer takes it; one
//! task writes what is left over. A peer that does not read is hung up on, not waited for.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use tenure_api::AnswerLine;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;

/// Bytes that may wait for a peer to read them, before whatever is said next.
const UNREAD_BYTES_MAX: usize = 8 << 20;
/// Bytes beyond which streams add nothing.
const STREAM_BYTES_MAX: usize = 256 << 10;
/// Room that is kept between answers; more than this was needed once and may not be again.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Where lines go.
#[derive(Clone)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
    /// Ends the connection.
    hang_up: CancellationToken,
    /// Says that somebody may still say something.
    _open: Sender<Infallible>,
}

/// How much was said and not read.
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<AtomicUsize>);

/// What writes the rest.
pub(crate) struct Outgoing {
    shared: Arc<Shared>,
    open: Receiver<Infallible>,
}

struct Shared {
    way: Mutex<Way>,
    /// There is a rest to write.
    rest: Notify,
    unread: Unread,
    read_some: Notify,
}

struct Way {
    /// `None` once the peer is gone.
    stream: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    said: Vec<u8>,
    /// How much of it the peer took.
    taken: usize,
}

pub(crate) fn outbox(
    stream: impl AsyncWrite + Send + Unpin + 'static,
    hang_up: CancellationToken,
) -> (Outbox, Outgoing) {
    let shared = Arc::new(Shared {
        way: Mutex::new(Way { stream: Some(Box::new(stream)), said: Vec::new(), taken: 0 }),
        rest: Notify::new(),
        unread: Unread::default(),
        read_some: Notify::new(),
    });
    let (sender, receiver) = channel(1);
    let outbox = Outbox { shared: Arc::clone(&shared), hang_up, _open: sender };
    (outbox, Outgoing { shared, open: receiver })
}

impl Unread {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Outbox {
    pub(crate) fn unread(&self) -> Unread {
        self.shared.unread.clone()
    }

    pub(crate) fn say(&self, line: &AnswerLine) {
        self.say_all([line]);
    }

    /// Waits until the peer has read most of what is there, or the stream is stopped.
    pub(crate) async fn drained(&self, stop: &CancellationToken) {
        loop {
            // Made before the look, it hears of what is read after it.
            let read_some = self.shared.read_some.notified();
            if self.shared.unread.bytes() <= STREAM_BYTES_MAX {
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
        self.shared.unread.bytes() > UNREAD_BYTES_MAX
    }

    /// Lines that leave together. What comes on top of too much is not kept: the peer is gone for us.
    pub(crate) fn say_all(&self, lines: impl IntoIterator<Item = impl Borrow<AnswerLine>>) {
        if self.is_overfull() {
            self.hang_up.cancel();
            return;
        }
        let mut way = self.shared.way();
        // While there is a rest its task waits to be told that the peer takes more; nobody else may ask for that.
        let is_free = way.said.is_empty();
        for line in lines {
            line.borrow().write(&mut way.said);
        }
        if !is_free {
            self.shared.count(&way);
            return;
        }
        let mut context = Context::from_waker(Waker::noop());
        if way.poll_write(&mut context, &self.shared).is_pending() {
            self.shared.rest.notify_one();
        }
    }
}

impl Shared {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().expect("invariant: nobody panics while speaking")
    }

    fn count(&self, way: &Way) {
        self.unread.0.store(way.said.len() - way.taken, Ordering::Relaxed);
    }
}

impl Way {
    /// Writes until nothing is left or the peer takes no more for now. A peer that is gone takes everything.
    fn poll_write(&mut self, context: &mut Context<'_>, shared: &Shared) -> Poll<()> {
        let written = self.poll_stream(context);
        if !matches!(written, Poll::Pending) {
            if let Poll::Ready(Err(_)) = written {
                self.stream = None;
            }
            self.taken = 0;
            self.said.clear();
            self.said.shrink_to(KEPT_BYTES_MAX);
        }
        shared.count(self);
        shared.read_some.notify_waiters();
        written.map(drop)
    }

    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(())) };
        while self.taken < self.said.len() {
            match Pin::new(&mut *stream).poll_write(context, &self.said[self.taken..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.taken += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Outgoing {
    /// Writes what is left over, until nobody can say anything more or the peer is gone.
    pub(crate) async fn write(mut self) {
        let mut is_open = true;
        while is_open {
            tokio::select! {
                () = self.shared.rest.notified() => {}
                closed = self.open.recv() => match closed {
                    None => is_open = false,
                    Some(never) => match never {},
                },
            }
            poll_fn(|context| self.shared.way().poll_write(context, &self.shared)).await;
            if self.shared.way().stream.is_none() {
                return;
            }
        }
        let stream = self.shared.way().stream.take();
        if let Some(mut stream) = stream {
            // The peer may be gone already; there is nobody to tell.
            let _ = stream.shutdown().await;
        }
    }
}

impl Drop for Outgoing {
    /// However the writing ends, the peer sees the end.
    fn drop(&mut self) {
        self.shared.way().stream = None;
    }
}
