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
pub(super) const UNREAD_BYTES_MAX: usize = 8 << 20;
/// The same of all connections together; beyond it those are hung up on that have more than streams may add.
const ALL_UNREAD_BYTES_MAX: usize = 512 << 20;
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

/// The same of all connections.
#[derive(Clone, Default)]
pub(crate) struct AllUnread(Arc<AtomicUsize>);

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
    all_unread: AllUnread,
    read_some: Notify,
}

struct Way {
    /// `None` once the peer is gone.
    stream: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    said: Vec<u8>,
    /// How much of it the peer took.
    taken: usize,
    /// The task that writes the rest waits until the peer takes more; nobody else may ask for that.
    is_waiting: bool,
    /// Lines are gathered until they all leave together.
    is_gathering: bool,
    /// The last line is appended.
    is_broken_off: bool,
}

pub(crate) fn outbox(
    stream: impl AsyncWrite + Send + Unpin + 'static,
    hang_up: CancellationToken,
    all_unread: AllUnread,
) -> (Outbox, Outgoing) {
    let shared = Arc::new(Shared {
        way: Mutex::new(Way {
            stream: Some(Box::new(stream)),
            said: Vec::new(),
            taken: 0,
            is_waiting: false,
            is_gathering: false,
            is_broken_off: false,
        }),
        rest: Notify::new(),
        unread: Unread::default(),
        all_unread,
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

impl AllUnread {
    fn bytes(&self) -> usize {
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

    /// Whether so much waits that the peer is hung up on, which then happens.
    pub(crate) fn hangs_up(&self) -> bool {
        let unread = self.shared.unread.bytes();
        let is_overfull = unread > UNREAD_BYTES_MAX
            || (unread > STREAM_BYTES_MAX && self.shared.all_unread.bytes() > ALL_UNREAD_BYTES_MAX);
        if is_overfull {
            self.hang_up.cancel();
        }
        is_overfull
    }

    /// Drops the answers that the peer has not taken, except the line being written, and appends a last one. Drops all
    /// later lines.
    pub(crate) fn break_off(&self, why: &AnswerLine) {
        let mut way = self.shared.way();
        let taken = way.taken;
        let rest = memchr::memchr(b'\n', &way.said[taken..]).map_or(way.said.len(), |end| taken + end + 1);
        // Between two lines none is being written.
        let kept = if taken == 0 || way.said[taken - 1] == b'\n' { taken } else { rest };
        way.said.truncate(kept);
        way.said.shrink_to(KEPT_BYTES_MAX);
        why.write(&mut way.said);
        way.is_broken_off = true;
        self.shared.count(&way);
        drop(way);
        self.shared.rest.notify_one();
    }

    /// Lines that leave together. What comes on top of too much is not kept: the peer is gone for us.
    pub(crate) fn say_all(&self, lines: impl IntoIterator<Item = impl Borrow<AnswerLine>>) {
        if self.hangs_up() {
            return;
        }
        let mut way = self.shared.way();
        if way.is_broken_off {
            return;
        }
        for line in lines {
            line.borrow().write(&mut way.said);
        }
        self.shared.write(&mut way);
    }

    /// Lets all that is said while `speak` runs leave together.
    pub(crate) fn gather(&self, speak: impl FnOnce()) {
        self.shared.way().is_gathering = true;
        speak();
        let mut way = self.shared.way();
        way.is_gathering = false;
        self.shared.write(&mut way);
    }
}

impl Shared {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().expect("invariant: nobody panics while speaking")
    }

    /// Writes as far as the peer takes it, unless that is for others to do.
    fn write(&self, way: &mut Way) {
        if way.is_waiting || way.is_gathering {
            return self.count(way);
        }
        let mut context = Context::from_waker(Waker::noop());
        if way.poll_write(&mut context, self).is_pending() {
            way.is_waiting = true;
            self.rest.notify_one();
        }
    }

    fn count(&self, way: &Way) {
        self.count_to(way.said.len() - way.taken);
    }

    fn count_to(&self, now: usize) {
        let before = self.unread.0.swap(now, Ordering::Relaxed);
        if now != before {
            self.all_unread.0.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.count_to(0);
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
            self.is_waiting = false;
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

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_api::{Answer, Error, ErrorCode};
    use tokio::io::{AsyncReadExt, duplex};

    fn line(text: String) -> AnswerLine {
        AnswerLine { answer: Answer::Error(Error::new(ErrorCode::Internal, text)), tag: None }
    }

    #[test]
    fn a_peer_that_does_not_read_is_told_why_between_two_lines() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // A peer that has taken some lines and a part of one.
            let (near, mut far) = duplex(1_000);
            let hang_up = CancellationToken::new();
            let (out, outgoing) = outbox(near, hang_up.clone(), AllUnread::default());
            let writer = tokio::spawn(outgoing.write());
            let mut said = 0;
            while !hang_up.is_cancelled() {
                out.say(&line(format!("{said} {}", "x".repeat(10_000))));
                said += 1;
            }
            out.break_off(&line("the last word".to_owned()));
            assert!(out.unread().bytes() < 20_000, "what is given up is not kept");
            out.say(&line("too late".to_owned()));
            drop(out);
            let mut read = String::new();
            far.read_to_string(&mut read).await.unwrap();
            writer.await.unwrap();
            let messages: Vec<String> = read
                .lines()
                .map(|line| serde_json::from_str::<Error>(line).expect("whole lines").message)
                .collect();
            assert_eq!(messages.last().unwrap(), "the last word");
            assert_eq!(messages.len(), 2, "of {said} lines the one that was being written is whole");
        });
    }

    #[test]
    fn a_line_that_nobody_has_begun_to_read_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let first = line("first".to_owned());
            let mut bytes = Vec::new();
            first.write(&mut bytes);
            let (near, mut far) = duplex(bytes.len());
            let (out, outgoing) = outbox(near, CancellationToken::new(), AllUnread::default());
            let writer = tokio::spawn(outgoing.write());
            out.say_all([&first, &line("second".to_owned())]);
            out.break_off(&line("the last word".to_owned()));
            drop(out);
            let mut read = String::new();
            far.read_to_string(&mut read).await.unwrap();
            writer.await.unwrap();
            assert_eq!(read.lines().count(), 2);
            assert!(read.contains("first") && !read.contains("second"));
        });
    }

    #[test]
    fn connections_have_a_bound_together() {
        let all = AllUnread::default();
        let open = || {
            let (near, far) = duplex(1);
            let hang_up = CancellationToken::new();
            let (out, outgoing) = outbox(near, hang_up.clone(), all.clone());
            (out, outgoing, far, hang_up)
        };
        let (small, other) = (open(), open());
        let bytes = line("x".repeat(1_000_000));
        small.0.say(&line("x".repeat(100)));
        other.0.say(&bytes);
        assert!(all.bytes() > 1_000_000);
        // As if many more connections had much unread.
        all.0.fetch_add(ALL_UNREAD_BYTES_MAX, Ordering::Relaxed);
        small.0.say(&line(String::new()));
        other.0.say(&line(String::new()));
        assert!(!small.3.is_cancelled(), "little is no harm");
        assert!(other.3.is_cancelled());
        drop((small, other));
        assert_eq!(all.bytes(), ALL_UNREAD_BYTES_MAX, "what is gone is not counted");
    }
}
