//! The daemon's socket: one JSON object per line, many requests in flight, and word of losses as they happen.
//! The connection is a session: leases acquired on it live while it is open.

mod desk;
mod verbs;
mod watch;

pub use watch::Watch;

use crate::endpoint::Endpoint;
use crate::error::{CallError, Cause};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use desk::{Desk, Reply};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_api::{Answer, AnswerLine, Hello, Line, Lost, Tag, Verb, Welcome};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Lines that may wait to be written; more wait for room.
const LINES_MAX: usize = 1024;
/// Lines gathered into one write.
const GATHERED_MAX: usize = 256;
/// Bytes of one line that is read.
const LINE_BYTES_MAX: usize = 16 << 20;
/// How long opening may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take; a wait that was asked for comes on top.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the daemon's socket. Cheap to clone. It closes when the last clone and the last guard on it are
/// dropped; leases acquired on it end after their grace.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    welcome: Welcome,
    // The halves of the socket belong to the tasks, so that it closes with them.
    _reader: AbortOnDropHandle<()>,
    _writer: AbortOnDropHandle<()>,
}

/// What the tasks share with the handles.
struct Shared {
    endpoint: Endpoint,
    lines: mpsc::Sender<Vec<u8>>,
    desk: Desk,
    closed: CancellationToken,
    next_tag: AtomicU64,
}

/// A pending answer. Dropping it drops the answer; the request is still carried out.
pub struct Pending {
    connection: Option<Connection>,
    shared: Arc<Shared>,
    tag: u64,
    answer: oneshot::Receiver<Result<Answer, CallError>>,
}

impl Connection {
    /// Opens a connection.
    ///
    /// # Errors
    /// [`CallError::Unreachable`], or `too_many_connections`, ….
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, CallError> {
        let endpoint = Endpoint::Unix(path.as_ref().to_owned());
        let unreachable = |source: Cause| CallError::Unreachable { endpoint: endpoint.clone(), source };
        let stream = match tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(path.as_ref())).await {
            Ok(stream) => stream.map_err(|error| unreachable(error.into()))?,
            Err(_) => return Err(unreachable("the connection was not opened in time".into())),
        };
        let (read_half, write_half) = stream.into_split();
        let (lines, to_write) = mpsc::channel(LINES_MAX);
        let shared = Arc::new(Shared {
            endpoint,
            lines,
            desk: Desk::default(),
            closed: CancellationToken::new(),
            next_tag: AtomicU64::new(1),
        });
        let reader = AbortOnDropHandle::new(tokio::spawn(read(shared.clone(), read_half)));
        let writer = AbortOnDropHandle::new(tokio::spawn(write(shared.clone(), write_half, to_write)));
        let hello = shared.begin(Verb::Hello(Hello::default()), desk::Abandoned::Ignore).await?;
        let welcome = match within(REQUEST_TIMEOUT, hello).await? {
            Answer::Hello(welcome) => welcome,
            other => return Err(verbs::unexpected(&other)),
        };
        Ok(Self { inner: Arc::new(Inner { shared, welcome, _reader: reader, _writer: writer }) })
    }

    /// The id of this connection's session.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.inner.welcome.session
    }

    /// The daemon's version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.inner.welcome.version
    }

    /// Whether the connection is closed; leases acquired on it are then not valid any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared().closed.is_cancelled()
    }

    /// Waits until the connection is closed.
    pub async fn closed(&self) {
        self.shared().closed.cancelled().await;
    }

    /// Closes the connection, also for its clones.
    pub fn close(&self) {
        self.shared().close("closed by this program");
    }

    /// Queues a request and returns; await the answer separately. Many requests can be in flight, and requests queued
    /// together are sent together.
    ///
    /// # Errors
    /// When the connection is closed or the line cannot be written.
    pub async fn begin(&self, verb: Verb) -> Result<Pending, CallError> {
        self.begin_as(verb, desk::Abandoned::Ignore).await
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// The daemon's error, or the reason why there is no answer.
    pub async fn call(&self, verb: Verb) -> Result<Answer, CallError> {
        let limit = limit_of(&verb);
        within(limit, self.begin(verb).await?).await
    }

    /// The next loss that no guard waits for; `None` once the connection is closed. Losses are buffered up to a limit;
    /// beyond it the connection is closed.
    pub async fn next_lost(&self) -> Option<Lost> {
        self.shared().desk.next_lost(&self.shared().closed).await
    }

    async fn begin_as(&self, verb: Verb, abandoned: desk::Abandoned) -> Result<Pending, CallError> {
        let mut pending = self.shared().begin(verb, abandoned).await?;
        pending.connection = Some(self.clone());
        Ok(pending)
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.shared().desk
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closed = self.is_closed();
        f.debug_struct("Connection").field("session", &self.session()).field("closed", &closed).finish()
    }
}

impl Shared {
    async fn begin(self: &Arc<Self>, verb: Verb, abandoned: desk::Abandoned) -> Result<Pending, CallError> {
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        let line = written(verb, tag)?;
        let (reply, answer) = oneshot::channel();
        let room = self.lines.reserve().await.map_err(|_| self.broken())?;
        if !self.desk.expect(tag, Reply::Once { reply, abandoned }) {
            return Err(self.broken());
        }
        room.send(line);
        Ok(Pending { connection: None, shared: self.clone(), tag, answer })
    }

    fn close(&self, why: &str) {
        tracing::debug!(endpoint = %self.endpoint, why, "connection closed");
        // The token first: a caller that finds the desk closed finds the connection closed.
        self.closed.cancel();
        self.desk.close(&self.endpoint);
    }

    fn broken(&self) -> CallError {
        CallError::Broken { endpoint: self.endpoint.clone(), source: "the connection is closed".into() }
    }

    fn take_in(self: &Arc<Self>, line: &[u8]) {
        let answered = match serde_json::from_slice::<AnswerLine>(line) {
            Ok(AnswerLine { answer: Answer::Lost(lost), .. }) => {
                if !self.desk.lost(lost) {
                    self.close("too many unread notifications of lost leases");
                }
                return;
            }
            Ok(answered) => answered,
            Err(error) => return self.not_understood(line, &error),
        };
        let Some(tag) = number(answered.tag.as_ref()) else {
            tracing::warn!(answer = ?answered.answer, "answer without a request");
            return;
        };
        match self.desk.answer(tag, answered.answer) {
            desk::Delivered::Yes => {}
            desk::Delivered::Orphan(lease) => self.send_later(verbs::give_back(&lease)),
            desk::Delivered::SlowStream => self.send_later(Verb::Stop(Tag::number(tag))),
        }
    }

    /// Newer daemons may answer what we do not know; the caller gets it as an error.
    fn not_understood(&self, line: &[u8], error: &serde_json::Error) {
        #[derive(serde::Deserialize)]
        struct Tagged {
            tag: Option<Tag>,
        }
        let tag = serde_json::from_slice::<Tagged>(line).ok().and_then(|tagged| number(tagged.tag.as_ref()));
        tracing::warn!(%error, "cannot decode an answer");
        if let Some(tag) = tag {
            let message = error.to_string();
            let error = CallError::Unexpected { status: 0, message, definite: false, lost: false };
            self.desk.fail(tag, error);
        }
    }

    /// Sends a line whose answer nobody waits for. The reader must not wait for room.
    fn send_later(self: &Arc<Self>, verb: Verb) {
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        let shared = self.clone();
        tokio::spawn(async move {
            let sent = match written(verb, tag) {
                Ok(line) => shared.lines.send(line).await.is_ok(),
                Err(_) => false,
            };
            if !sent {
                tracing::debug!("cannot send a line: the connection is closed");
            }
        });
    }
}

impl Future for Pending {
    type Output = Result<Answer, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|answer| match answer {
            Ok(Ok(Answer::Error(error))) => Err(CallError::Rejected(error)),
            Ok(answer) => answer,
            Err(_) => Err(self.shared.broken()),
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.answer.close();
        // An answer that came meanwhile was taken by nobody.
        match self.answer.try_recv() {
            Ok(Ok(answer)) => {
                if let Some(lease) = self.shared.desk.orphan_of(self.tag, answer) {
                    self.shared.send_later(verbs::give_back(&lease));
                }
            }
            Ok(Err(_)) | Err(_) => self.shared.desk.abandon(self.tag),
        }
    }
}

async fn read(shared: Arc<Shared>, half: OwnedReadHalf) {
    let closing = CloseOnDrop(shared);
    let shared = &closing.0;
    let mut half = BufReader::with_capacity(64 << 10, half);
    let mut line = Vec::new();
    loop {
        let available = tokio::select! {
            () = shared.closed.cancelled() => return,
            available = half.fill_buf() => match available {
                Ok([]) => return shared.close("the daemon closed the connection"),
                Ok(available) => available,
                Err(error) => return shared.close(&error.to_string()),
            },
        };
        let (taken, is_whole) = match available.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (available.len(), false),
        };
        line.extend_from_slice(&available[..taken]);
        half.consume(taken);
        if line.len() > LINE_BYTES_MAX {
            return shared.close("the daemon sent a line that is longer than the limit");
        }
        if is_whole {
            shared.take_in(&line);
            line.clear();
        }
    }
}

async fn write(shared: Arc<Shared>, mut half: OwnedWriteHalf, mut lines: mpsc::Receiver<Vec<u8>>) {
    let closing = CloseOnDrop(shared);
    let shared = &closing.0;
    let mut gathered = Vec::new();
    loop {
        tokio::select! {
            () = shared.closed.cancelled() => return,
            count = lines.recv_many(&mut gathered, GATHERED_MAX) => if count == 0 { return },
        }
        let bytes = gathered.concat();
        gathered.clear();
        if let Err(error) = half.write_all(&bytes).await {
            return shared.close(&error.to_string());
        }
    }
}

/// However a task ends, also by being aborted, nobody waits for it in vain.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if !self.0.closed.is_cancelled() {
            self.0.close("the connection is not used any more");
        }
    }
}

fn written(verb: Verb, tag: u64) -> Result<Vec<u8>, CallError> {
    let line = Line { verb, tag: Some(Tag::number(tag)) };
    let mut bytes = serde_json::to_vec(&line).map_err(|error| CallError::Unsendable(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn number(tag: Option<&Tag>) -> Option<u64> {
    match tag {
        Some(Tag::Number(number)) => number.as_u64(),
        Some(Tag::Text(_)) | None => None,
    }
}

fn limit_of(verb: &Verb) -> Duration {
    match verb {
        Verb::Acquire(acquire) => REQUEST_TIMEOUT + Duration::from_millis(acquire.wait_ms.unwrap_or(0)),
        _ => REQUEST_TIMEOUT,
    }
}

async fn within(limit: Duration, pending: Pending) -> Result<Answer, CallError> {
    tokio::time::timeout(limit, pending).await.unwrap_or(Err(CallError::TimedOut { limit }))
}
