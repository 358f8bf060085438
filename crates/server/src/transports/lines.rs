//! One JSON object per line. The connection is a session; reading never pauses, so that a dead peer is
//! noticed at once, in the middle of a stream too.
//!
//! Tagged lines are answered when ready, untagged ones in order. All lines of one read that ask for the same
//! kind of thing cross to the engine together.

mod streams;

use super::closing::LAST_WITHIN;
use super::http::stopped_waiting;
use super::outbox::{Outbox, UNREAD_BYTES_MAX, Unread, outbox};
use crate::server::{Asks, Shared};
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use streams::{Source, Stream, Streams};
use tenure_api::{
    Answer, AnswerLine, Error, ErrorCode, Heartbeat, Lease, Line, LineError, PoolSize, PoolVerb,
    RegistrationHeartbeat, RemovePool, ResolveQuery, Tag, Unregister, Verb, Welcome,
};
use tenure_engine::kernel::{SessionKind, Text};
use tenure_faces::{Begun, Call, Caller, Opening, Reply, Scope, over_limit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Batches of untagged lines that may wait for the ones before them.
const ORDERED_MAX: usize = 1_024;
/// Tasks of one connection that may be under way.
const UNDER_WAY_MAX: usize = 16_384;
/// Lines of one connection that may be under way, in bytes.
const UNDER_WAY_BYTES_MAX: usize = 16 << 20;
/// What a line costs beside its bytes.
const LINE_BYTES: usize = 256;
/// What the shortest lines that come in numbers have.
const SHORT_LINE_BYTES: usize = 64;
/// Answers that may be large and are being made at once.
const LARGE_MAX: usize = 2;
/// Bytes asked of the stream at once, by one who sends as much.
const READ_BYTES_MAX: usize = 64 << 10;
/// The same at first: most connections are idle.
const READ_BYTES_MIN: usize = 4 << 10;
/// Bytes of a burst that are read and dropped after its sender was cut off.
const DROPPED_BYTES_MAX: u64 = 4 << 20;
/// How long a peer that sends nothing more may pause before it has read all that it is owed.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Makes an answer of a lease.
type Wrap = fn(Box<Lease>) -> Answer;

/// What an answer is put into.
type Frame = (Option<Wrap>, Option<Tag>);

/// What a line asks for.
enum Wish {
    Call(Call, Option<Wrap>),
    Watch(Source),
    Stop(Tag),
    Hello(Option<String>),
}

/// What becomes of a line.
enum Admitted {
    /// It is answered already.
    Said(Answer),
    /// The engine is to be asked.
    Call(Call, Option<Wrap>),
    /// A stream with a tag is to begin.
    Watch(Stream, Source),
    /// A stream without one is to begin in its turn.
    WatchInOrder(Source),
    /// It is answered by a task of its own.
    UnderWay,
}

/// A line that waits for its turn.
enum Ordered {
    Said(AnswerLine),
    Call(Call, Option<Wrap>),
    Watch(Source),
}

struct Asked {
    call: Call,
    wrap: Option<Wrap>,
    tag: Option<Tag>,
}

/// Lines that wait for their turn, and the room they take until they are answered.
struct Batch {
    lines: Vec<Ordered>,
    room: Arc<OwnedSemaphorePermit>,
}

/// When a connection ends.
#[derive(Clone, Default)]
struct Ends {
    /// Nothing more is read; streams and waits end.
    over: CancellationToken,
    /// Nothing more can be said.
    gone: CancellationToken,
}

struct Connection {
    shared: Arc<Shared>,
    caller: Caller,
    out: Outbox,
    ordered: Sender<Batch>,
    ends: Ends,
    /// Room for lines that are not answered yet.
    room: Arc<Semaphore>,
    /// Turns to make an answer that may be large.
    large: Arc<Semaphore>,
    /// Places for requests that wait: for a bundle, or for others than the engine.
    waits: Arc<Semaphore>,
    tasks: TaskTracker,
    streams: Arc<Mutex<Streams>>,
    session: String,
    greeted: bool,
}

/// Serves one connection until it ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    principal: Text,
    scope: Scope,
) {
    let (mut reading, writing) = tokio::io::split(stream);
    let ends = Ends::default();
    let (_over, _gone) = (ends.over.clone().drop_guard(), ends.gone.clone().drop_guard());
    let (out, outgoing) = outbox(writing, ends.over.clone(), shared.unread());
    let mut writer = tokio::spawn(outgoing.write());
    // Used from its beginning again and again: it stays warm, however many connections there are.
    let mut buffer = Vec::with_capacity(READ_BYTES_MIN);
    let mut begun: Option<(Connection, Opening)> = None;
    let mut too_long = false;
    let mut at_end = false;
    let mut was_full = false;
    let stopping = shared.stopping();
    // Made once: every one that is made stands in line with those of all other connections.
    let mut over = pin!(ends.over.cancelled());
    let mut stopped = pin!(stopping.cancelled());
    while !at_end {
        if mem::take(&mut was_full) {
            let twice = (2 * buffer.capacity()).min(READ_BYTES_MAX);
            buffer.reserve(twice.saturating_sub(buffer.len()).max(READ_BYTES_MIN));
        }
        let lost = async {
            match &mut begun {
                Some((_, opening)) => opening.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = reading.read_buf(&mut buffer) => match read {
                Ok(0) => {
                    at_end = true;
                    // A last line without its end is a line all the same.
                    buffer.push(b'\n');
                }
                Ok(_) => was_full = buffer.len() == buffer.capacity(),
                Err(_) => break,
            },
            lost = lost => match lost {
                Some(lost) => {
                    out.say(&AnswerLine { answer: Answer::Lost(lost), tag: None });
                    continue;
                }
                None => break,
            },
            () = &mut over => break,
            () = &mut stopped => break,
        }
        let before = buffer.len();
        let lines = take_lines(&mut buffer, shared.options().line_bytes_max, &mut too_long);
        if lines.is_empty() {
            continue;
        }
        let bytes = before.saturating_sub(buffer.len()) + lines.len() * LINE_BYTES;
        if begun.is_none() {
            let kind = kind_of_first(&lines[0]);
            match Connection::begin(&shared, kind, &principal, scope, &out, &ends).await {
                Ok(connection) => begun = Some(connection),
                Err(error) => {
                    out.say(&AnswerLine { answer: Answer::Error(error), tag: None });
                    break;
                }
            }
        }
        if let Some((connection, _)) = &mut begun {
            connection.take(lines, bytes);
        }
    }
    let is_cut_off = ends.over.is_cancelled();
    if is_cut_off {
        ends.gone.cancel();
        let session = begun.as_ref().map_or("", |(connection, _)| connection.session.as_str());
        cut_off(&out, &principal, session);
    }
    if let Some((connection, mut opening)) = begun {
        if stopping.is_cancelled() {
            // Leases that the stop itself ended.
            while let Ok(Some(lost)) = tokio::time::timeout(LAST_WITHIN, opening.lost()).await {
                out.say(&AnswerLine { answer: Answer::Lost(lost), tag: None });
            }
        }
        connection.end(&shared).await;
        drop(opening);
    }
    let unread = out.unread();
    drop(out);
    // A peer in the middle of a burst reads once it has written it.
    let rest = is_cut_off.then_some(reading);
    let is_read = tokio::select! {
        is_read = while_it_is_read(&unread, &mut writer) => is_read,
        () = throw_away(rest) => false,
    };
    if !is_read {
        // A peer that neither reads nor leaves.
        writer.abort();
    }
}

/// Sends the reason to a peer that does not read, and logs it.
fn cut_off(out: &Outbox, principal: &str, session: &str) {
    let unread_bytes = out.unread().bytes();
    tracing::warn!(
        principal,
        session,
        unread_bytes,
        "a connection was closed because its answers were not read"
    );
    let message = format!(
        "connection closed: {unread_bytes} bytes of answers unread; read answers while writing requests"
    );
    let error = Error::new(ErrorCode::Overloaded, message);
    let error = error.with("limit", "unread_bytes").with("value", UNREAD_BYTES_MAX);
    out.break_off(&AnswerLine { answer: Answer::Error(error), tag: None });
}

/// Reads and drops bytes; resolves when there are too many.
async fn throw_away(stream: Option<impl AsyncRead + Unpin>) {
    if let Some(stream) = stream {
        let dropped = tokio::io::copy(&mut stream.take(DROPPED_BYTES_MAX), &mut tokio::io::sink()).await;
        if dropped.is_ok_and(|bytes| bytes == DROPPED_BYTES_MAX) {
            return;
        }
    }
    std::future::pending().await
}

/// Waits for work that ends when the peer has read enough; `false`: it does not read.
async fn while_it_is_read(unread: &Unread, work: impl Future) -> bool {
    let mut work = std::pin::pin!(work);
    loop {
        let before = unread.bytes();
        if tokio::time::timeout(LAST_ANSWERS, work.as_mut()).await.is_ok() {
            return true;
        }
        if unread.bytes() == before {
            return false;
        }
    }
}

/// Whole lines that have arrived. A line over its limit is an error where it stands; its bytes are dropped.
fn take_lines(
    buffer: &mut Vec<u8>,
    line_bytes_max: usize,
    too_long: &mut bool,
) -> Vec<Result<Line, (Error, Option<Tag>)>> {
    let mut lines = Vec::with_capacity(buffer.len() / SHORT_LINE_BYTES + 1);
    let mut taken = 0;
    while let Some(end) = memchr::memchr(b'\n', &buffer[taken..]) {
        let line = &buffer[taken..taken + end];
        taken += end + 1;
        if mem::take(too_long) {
            continue;
        }
        if line.len() > line_bytes_max {
            lines.push(Err((line_too_long(line_bytes_max), None)));
        } else if !line.iter().all(u8::is_ascii_whitespace) {
            lines.push(Line::parse(line).map_err(|error| (line_error(&error), error.tag)));
        }
    }
    buffer.drain(..taken);
    if buffer.len() > line_bytes_max {
        if !*too_long {
            lines.push(Err((line_too_long(line_bytes_max), None)));
        }
        *too_long = true;
        buffer.clear();
    }
    lines
}

fn line_too_long(max: usize) -> Error {
    let message = format!("a line has at most {max} bytes");
    over_limit(ErrorCode::TooLarge, message, "line_bytes", "limits.line_bytes", max)
}

fn line_error(error: &LineError) -> Error {
    let code = if error.in_body { ErrorCode::InvalidRequest } else { ErrorCode::ParseError };
    Error::new(code, error.to_string())
}

/// The first line says whether this connection speaks for a standard input.
fn kind_of_first(first: &Result<Line, (Error, Option<Tag>)>) -> SessionKind {
    match first {
        Ok(Line { verb: Verb::Hello(hello), .. }) if hello.kind.as_deref() == Some("cli") => {
            SessionKind::Stdin
        }
        _ => SessionKind::Connection,
    }
}

impl Connection {
    async fn begin(
        shared: &Arc<Shared>,
        kind: SessionKind,
        principal: &Text,
        scope: Scope,
        out: &Outbox,
        ends: &Ends,
    ) -> Result<(Self, Opening), Error> {
        let (opening, caller) = shared.stage().open_connection(kind, principal, scope).await?;
        let (ordered, lines) = channel(ORDERED_MAX);
        let tasks = TaskTracker::new();
        let streams = Arc::new(Mutex::new(Streams::new(out.clone(), ends.gone.clone())));
        let in_order = InOrder {
            shared: Arc::clone(shared),
            caller: caller.clone(),
            out: out.clone(),
            tasks: tasks.clone(),
            streams: Arc::clone(&streams),
            gone: ends.gone.clone(),
        };
        tasks.spawn(in_order.answer(lines));
        let connection = Self {
            shared: Arc::clone(shared),
            caller,
            out: out.clone(),
            ordered,
            ends: ends.clone(),
            room: Arc::new(Semaphore::new(UNDER_WAY_BYTES_MAX)),
            large: Arc::new(Semaphore::new(LARGE_MAX)),
            waits: Arc::new(Semaphore::new(shared.options().waiters_per_connection_max)),
            tasks,
            streams,
            session: opening.session(),
            greeted: false,
        };
        Ok((connection, opening))
    }

    /// Takes the lines of one read.
    fn take(&mut self, lines: Vec<Result<Line, (Error, Option<Tag>)>>, bytes: usize) {
        let bytes = u32::try_from(bytes.min(UNDER_WAY_BYTES_MAX)).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(bytes) else {
            for line in lines {
                let tag = line.map_or_else(|(_, tag)| tag, |line| line.tag);
                self.out.say(&too_many(tag, "unanswered_bytes_per_connection", UNDER_WAY_BYTES_MAX));
            }
            return;
        };
        let room = Arc::new(room);
        let mut in_order = Vec::new();
        let mut writes = Vec::new();
        let mut others = Vec::new();
        let mut large = Vec::new();
        let count = lines.len();
        for line in lines {
            let (wish, tag) = match line {
                Ok(Line { verb, tag }) => (wish(verb), tag),
                Err((error, tag)) => (Err(error), tag),
            };
            let admitted = wish.and_then(|wish| self.admit(wish, tag.as_ref()));
            // A hello after anything else would come too late to say which session this is.
            self.greeted = true;
            match (admitted.unwrap_or_else(|error| Admitted::Said(Answer::Error(error))), tag) {
                (Admitted::UnderWay, _) => {}
                (Admitted::Call(call, wrap), None) => in_order.push(Ordered::Call(call, wrap)),
                (Admitted::Call(call, wrap), tag) if is_large(&call) => large.push(Asked { call, wrap, tag }),
                (Admitted::Call(call, wrap), tag) => {
                    let group = if class(&call).may_write() { &mut writes } else { &mut others };
                    // One read mostly asks for one kind of thing.
                    if group.is_empty() {
                        group.reserve_exact(count);
                    }
                    group.push(Asked { call, wrap, tag });
                }
                (Admitted::WatchInOrder(query), _) => in_order.push(Ordered::Watch(query)),
                (Admitted::Watch(stream, query), _) => self.watch(stream, query),
                // Nothing was asked before it, and nothing may be said before it.
                (Admitted::Said(answer @ Answer::Hello(_)), tag) => self.out.say(&AnswerLine { answer, tag }),
                (Admitted::Said(answer), None) => {
                    in_order.push(Ordered::Said(AnswerLine { answer, tag: None }));
                }
                (Admitted::Said(answer), tag) => self.out.say(&AnswerLine { answer, tag }),
            }
        }
        for group in [others, writes] {
            self.answer_when_ready(group, &room);
        }
        self.answer_one_by_one(large, &room);
        if !in_order.is_empty()
            && let Err(refused) = self.ordered.try_send(Batch { lines: in_order, room })
        {
            // The ones before are not answered yet, and may never be.
            for _ in refused.into_inner().lines {
                self.out.say(&too_many(None, "unanswered_reads_per_connection", ORDERED_MAX));
            }
        }
    }

    /// Carries out what is not a call of the engine; gives back what is.
    fn admit(&mut self, wish: Wish, tag: Option<&Tag>) -> Result<Admitted, Error> {
        match wish {
            Wish::Call(call, wrap) => {
                self.shared.check_rate(&self.caller.principal, Asks::Call(&call))?;
                let waits = call.wait_ms() > 0;
                if !waits && (tag.is_none() || !takes_its_time(&call)) {
                    return Ok(Admitted::Call(call, wrap));
                }
                if tag.is_none() {
                    return Err(needs_tag("acquire with wait_ms"));
                }
                self.wait(call, wrap, tag.cloned())?;
                Ok(Admitted::UnderWay)
            }
            Wish::Watch(query) => {
                self.shared.check_rate(&self.caller.principal, Asks::Other)?;
                let mut streams = open_streams(&self.streams);
                if tag.is_none() {
                    streams.check_untagged()?;
                    return Ok(Admitted::WatchInOrder(query));
                }
                let admit = || self.shared.admit_watch(&self.caller);
                Ok(Admitted::Watch(streams.open(tag, admit)?, query))
            }
            Wish::Stop(stream) => Ok(Admitted::Said(open_streams(&self.streams).stop(stream)?)),
            Wish::Hello(kind) => {
                if self.greeted {
                    return Err(Error::new(ErrorCode::InvalidRequest, "hello comes once, first"));
                }
                if kind.as_deref().is_some_and(|kind| kind != "cli") {
                    return Err(Error::new(ErrorCode::InvalidRequest, "the only kind there is is \"cli\""));
                }
                let version = env!("CARGO_PKG_VERSION").to_owned();
                Ok(Admitted::Said(Answer::Hello(Welcome { session: self.session.clone(), version })))
            }
        }
    }

    fn answer_when_ready(&self, asked: Vec<Asked>, room: &Arc<OwnedSemaphorePermit>) {
        let Some(asked) = self.admit_task(asked) else { return };
        let (shared, caller, out) = (Arc::clone(&self.shared), self.caller.clone(), self.out.clone());
        let room = Arc::clone(room);
        let (calls, frames): (Vec<Call>, Vec<Frame>) =
            asked.into_iter().map(|Asked { call, wrap, tag }| (call, (wrap, tag))).unzip();
        let say_all = move |out: &Outbox, frames: Vec<Frame>, replies: Vec<Result<Reply, Error>>| {
            let frames = frames.into_iter().zip(replies);
            out.say_all(frames.map(|((wrap, tag), reply)| AnswerLine { answer: answer(reply, wrap), tag }));
        };
        if shared.stage().is_of_cluster() {
            self.tasks.spawn(async move {
                let _room = room;
                let replies = shared.stage().dispatch_all(&caller, calls).await;
                say_all(&out, frames, replies);
            });
            return;
        }
        let faces = shared.faces();
        match faces.begin_all(&caller, calls) {
            Begun::UnderWay(mut under_way) => {
                // What needs no disk is answered by now; only what has to wait becomes a task.
                if let Some(replies) = under_way.replies_now(&faces) {
                    return say_all(&out, frames, replies);
                }
                self.tasks.spawn(async move {
                    let _room = room;
                    let replies = under_way.replies(&faces).await;
                    say_all(&out, frames, replies);
                });
            }
            Begun::Planned(planned) => {
                self.tasks.spawn(async move {
                    let _room = room;
                    let replies = faces.carry_out_all(&caller, planned).await;
                    say_all(&out, frames, replies);
                });
            }
        }
    }

    /// Answers that may be large are made when the peer has read what was said before.
    fn answer_one_by_one(&self, asked: Vec<Asked>, room: &Arc<OwnedSemaphorePermit>) {
        let Some(asked) = self.admit_task(asked) else { return };
        let (shared, caller, out) = (Arc::clone(&self.shared), self.caller.clone(), self.out.clone());
        let (room, large, gone) = (Arc::clone(room), Arc::clone(&self.large), self.ends.gone.clone());
        self.tasks.spawn(async move {
            let _room = room;
            for Asked { call, wrap, tag } in asked {
                let _turn = large.acquire().await;
                out.drained(&gone).await;
                if gone.is_cancelled() {
                    return;
                }
                let reply = read(&shared, &caller, call).await;
                out.say(&AnswerLine { answer: answer(reply, wrap), tag });
            }
        });
    }

    /// `None`: there is nothing to do, or too much is done already and that was said.
    fn admit_task(&self, asked: Vec<Asked>) -> Option<Vec<Asked>> {
        if self.tasks.len() <= UNDER_WAY_MAX {
            return Some(asked).filter(|asked| !asked.is_empty());
        }
        for asked in asked {
            self.out.say(&too_many(asked.tag, "tasks_per_connection", UNDER_WAY_MAX));
        }
        None
    }

    fn wait(&self, call: Call, wrap: Option<Wrap>, tag: Option<Tag>) -> Result<(), Error> {
        let place = Arc::clone(&self.waits).try_acquire_owned().map_err(|_| self.too_many_waits())?;
        let (shared, caller, out) = (Arc::clone(&self.shared), self.caller.clone(), self.out.clone());
        let (over, stopping) = (self.ends.over.clone(), self.shared.stopping());
        self.tasks.spawn(async move {
            let _place = place;
            // Dropping the call withdraws it.
            tokio::select! {
                biased;
                () = stopping.cancelled() => {
                    out.say(&AnswerLine { answer: Answer::Error(stopped_waiting()), tag });
                }
                reply = shared.stage().dispatch(&caller, call) => {
                    out.say(&AnswerLine { answer: answer(reply, wrap), tag });
                }
                () = over.cancelled() => {}
            }
        });
        Ok(())
    }

    fn too_many_waits(&self) -> Error {
        let max = self.shared.options().waiters_per_connection_max;
        over_limit(
            ErrorCode::TooManyWaiters,
            format!("{max} requests of this connection wait already"),
            "waiters_per_connection",
            "limits.waiters_per_connection",
            max,
        )
    }

    fn watch(&self, stream: Stream, source: Source) {
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            if let Some(running) = stream.begin(&shared, source).await {
                stream.run(shared, running).await;
            }
        });
    }

    /// Lets the calls under way finish; streams and waits end.
    async fn end(self, shared: &Shared) {
        let Self { ordered, ends, tasks, streams, out, .. } = self;
        open_streams(&streams).end(shared);
        drop(ordered);
        ends.over.cancel();
        tasks.close();
        while_it_is_read(&out.unread(), tasks.wait()).await;
    }
}

/// Answers untagged lines one after the other.
struct InOrder {
    shared: Arc<Shared>,
    caller: Caller,
    out: Outbox,
    tasks: TaskTracker,
    streams: Arc<Mutex<Streams>>,
    gone: CancellationToken,
}

fn open_streams(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().expect("invariant: nobody panics among streams")
}

impl InOrder {
    /// What the lines behind it cause is told.
    async fn watch(&self, source: Source) {
        let admit = || self.shared.admit_watch(&self.caller);
        let opened = open_streams(&self.streams).open(None, admit);
        match opened {
            Ok(stream) => {
                if let Some(running) = stream.begin(&self.shared, source).await {
                    self.tasks.spawn(stream.run(Arc::clone(&self.shared), running));
                }
            }
            Err(error) => self.out.say(&AnswerLine { answer: Answer::Error(error), tag: None }),
        }
    }

    /// Neighbours that ask for the same kind of thing go together.
    async fn answer(self, mut batches: Receiver<Batch>) {
        while let Some(Batch { lines, room: _room }) = batches.recv().await {
            let mut batch = lines.into_iter().peekable();
            while let Some(first) = batch.next() {
                if self.out.hangs_up() {
                    return;
                }
                let (call, wrap) = match first {
                    Ordered::Said(line) => {
                        self.out.say(&line);
                        continue;
                    }
                    Ordered::Watch(source) => {
                        self.watch(source).await;
                        continue;
                    }
                    Ordered::Call(call, wrap) => (call, wrap),
                };
                if is_large(&call) {
                    self.out.drained(&self.gone).await;
                    if self.gone.is_cancelled() {
                        return;
                    }
                    let reply = read(&self.shared, &self.caller, call).await;
                    self.out.say(&AnswerLine { answer: answer(reply, wrap), tag: None });
                    continue;
                }
                let kind = class(&call);
                let goes_along = |call: &Call| class(call) == kind && !is_large(call);
                let (mut calls, mut wraps) = (vec![call], vec![wrap]);
                while let Some(Ordered::Call(call, wrap)) =
                    batch.next_if(|next| matches!(next, Ordered::Call(call, _) if goes_along(call)))
                {
                    calls.push(call);
                    wraps.push(wrap);
                }
                let replies = self.shared.stage().dispatch_all(&self.caller, calls).await;
                let frames = wraps.into_iter().zip(replies);
                self.out.say_all(
                    frames.map(|(wrap, reply)| AnswerLine { answer: answer(reply, wrap), tag: None }),
                );
            }
        }
    }
}

/// Calls of one class keep their order on the way to the engine; across classes proofs of life overtake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Liveness,
    Ending,
    Granting,
    Reading,
}

impl Class {
    /// Whether an answer may have to wait for a sync, which a proof of life never should.
    fn may_write(self) -> bool {
        match self {
            Self::Liveness | Self::Reading => false,
            Self::Ending | Self::Granting => true,
        }
    }
}

fn class(call: &Call) -> Class {
    match call {
        Call::Under { call, .. } => class(call),
        Call::Heartbeat(..)
        | Call::SessionHeartbeat(..)
        | Call::Acknowledge(..)
        | Call::HeartbeatRegistration(..)
        | Call::HeartbeatStream(..)
        | Call::ResetBreaker => Class::Liveness,
        Call::Release(..)
        | Call::Revoke(..)
        | Call::Reclaim(..)
        | Call::Drain(..)
        | Call::Revive(..)
        | Call::CloseSession(_)
        | Call::RemovePool(..)
        | Call::Unregister(_)
        | Call::UnregisterEpoch(..)
        | Call::EndRegistration(_)
        | Call::DrainRegistration(_)
        | Call::ReviveRegistration(_)
        | Call::FailStream(..)
        | Call::StopStream(_)
        | Call::IntendStop { .. }
        | Call::EndAll => Class::Ending,
        Call::Acquire(_)
        | Call::Activate(..)
        | Call::Amend(..)
        | Call::Rebind(..)
        | Call::Handover(..)
        | Call::Resume(..)
        | Call::OpenSession(_)
        | Call::DefinePool(..)
        | Call::Register(_)
        | Call::RegisterAt(..)
        | Call::StartStream { .. }
        | Call::ActivateStream(..)
        | Call::MoveTarget { .. }
        | Call::CordonPoller { .. }
        | Call::UncordonPoller { .. } => Class::Granting,
        Call::Inspect(_)
        | Call::List(_)
        | Call::Session(_)
        | Call::Sessions { .. }
        | Call::Resource(_)
        | Call::Resources(_)
        | Call::Pool(_)
        | Call::Pools
        | Call::Check(_)
        | Call::Why(_)
        | Call::Status
        | Call::Resolve(_)
        | Call::NodeTold(_)
        | Call::ConnectionsTold(_)
        | Call::RegistrationStatus
        | Call::Registrations
        | Call::InspectRegistration(_)
        | Call::Stream(_)
        | Call::Streams(_)
        | Call::Polling(_)
        | Call::PollingGroups => Class::Reading,
    }
}

/// The call that a line asks for, if it is one; nothing is carried out.
#[must_use]
pub fn understand_line(line: &[u8]) -> Option<Call> {
    let wish = wish(Line::parse(line).ok()?.verb).ok()?;
    if let Wish::Call(call, _) = wish { Some(call) } else { None }
}

fn wish(verb: Verb) -> Result<Wish, Error> {
    let call = |call: Call| Ok(Wish::Call(call, None));
    let lease = |call: Call, wrap: Wrap| Ok(Wish::Call(call, Some(wrap)));
    match verb {
        Verb::Hello(hello) => Ok(Wish::Hello(hello.kind)),
        Verb::Stop(tag) => Ok(Wish::Stop(tag)),
        Verb::Watch(query) => Ok(Wish::Watch(Source::Events(query))),
        Verb::Browse(service_type) => Ok(Wish::Watch(Source::Browse(service_type))),
        Verb::Subscribe(service_type) => Ok(Wish::Watch(Source::Subscribe(service_type))),
        Verb::Register(body) => call(Call::Register(body)),
        Verb::Unregister(Unregister::Id(id)) => call(Call::Unregister(id)),
        Verb::Unregister(Unregister::Under { id, operation_id }) => {
            call(under(operation_id, Call::Unregister(id)))
        }
        Verb::Resolve(name) => call(Call::Resolve(ResolveQuery { name })),
        Verb::Acquire(body) => lease(Call::Acquire(body), Answer::Acquired),
        Verb::Activate(of) => lease(Call::Activate(of.lease_id, of.body), Answer::Activated),
        Verb::Heartbeat(Heartbeat::Lease(of)) => call(Call::Heartbeat(of.lease_id, of.body)),
        Verb::Heartbeat(Heartbeat::Registration(id)) => {
            call(Call::HeartbeatRegistration(id, RegistrationHeartbeat::default()))
        }
        Verb::Release(of) => lease(Call::Release(of.lease_id, of.body), Answer::Released),
        Verb::Acknowledge(of) => lease(Call::Acknowledge(of.lease_id, of.body), Answer::Acknowledged),
        Verb::Amend(of) => lease(Call::Amend(of.lease_id, of.body), Answer::Amended),
        Verb::Resume(of) => lease(Call::Resume(of.lease_id, of.body), Answer::Resumed),
        Verb::Inspect(of) => lease(Call::Inspect(of.lease_id), Answer::Lease),
        Verb::List(query) => call(Call::List(query)),
        Verb::Check(check) => call(Call::Check(check)),
        Verb::Why(query) => call(Call::Why(query)),
        Verb::Status(_) => call(Call::Status),
        Verb::Pool(body) => call(pool(body)?),
        Verb::Drain(of) => lease(Call::Drain(of.lease_id, of.body), Answer::Drained),
        Verb::Revive(of) => lease(Call::Revive(of.lease_id, of.body), Answer::Revived),
        Verb::Revoke(of) => lease(Call::Revoke(of.lease_id, of.body), Answer::Revoked),
        Verb::Reclaim(of) => lease(Call::Reclaim(of.lease_id, of.body), Answer::Reclaimed),
    }
}

fn pool(body: PoolVerb) -> Result<Call, Error> {
    let PoolVerb { name, size, remove, force, operation_id } = body;
    let call = match (name, size, remove, force) {
        (None, None, false, false) => Call::Pools,
        (Some(name), Some(size), false, false) => Call::DefinePool(name, PoolSize { size }),
        (Some(name), None, true, force) => Call::RemovePool(name, RemovePool { force }),
        (Some(name), None, false, false) => Call::Pool(name),
        _ => {
            return Err(Error::new(
                ErrorCode::InvalidRequest,
                "pool takes nothing, a name, a name with a size, or a name with remove and perhaps force",
            ));
        }
    };
    Ok(under(operation_id, call))
}

fn under(operation_id: Option<String>, mut call: Call) -> Call {
    if let Some(id) = operation_id {
        call.set_operation_id(&id);
    }
    call
}

/// Carries a read out that may cost much.
async fn read(shared: &Shared, caller: &Caller, call: Call) -> Result<Reply, Error> {
    let _turn = shared.read_turn(caller, &call).await?;
    shared.stage().dispatch(caller, call).await
}

/// Whether one answer alone may be large, or reads the disk: such are made one after the other.
fn is_large(call: &Call) -> bool {
    matches!(call, Call::List(_) | Call::Sessions { .. } | Call::Resources(_) | Call::Pools | Call::Why(_))
}

/// Whether a call may wait for others than the engine; with a tag it holds nobody up.
fn takes_its_time(call: &Call) -> bool {
    matches!(call, Call::Resolve(_) | Call::Register(_))
}

fn too_many(tag: Option<Tag>, limit: &str, value: usize) -> AnswerLine {
    let error = Error::new(ErrorCode::Overloaded, "too many lines of this connection wait for an answer");
    let error = error.with("limit", limit).with("value", value);
    AnswerLine { answer: Answer::Error(error), tag }
}

fn needs_tag(what: &str) -> Error {
    Error::new(ErrorCode::InvalidRequest, format!("{what} needs a tag"))
}

fn answer(reply: Result<Reply, Error>, wrap: Option<Wrap>) -> Answer {
    match reply {
        Ok(Reply::Lease(lease)) => wrap.unwrap_or(Answer::Lease)(lease),
        Ok(Reply::Renewed(body)) => Answer::Renewed(body),
        Ok(Reply::Leases(body)) => Answer::Leases(body),
        Ok(Reply::Checked(body)) => Answer::Checked(body),
        Ok(Reply::Why(body)) => Answer::Why(body),
        Ok(Reply::Status(body)) => Answer::Status(body),
        Ok(Reply::Pool(body)) => Answer::Pool(body),
        Ok(Reply::Pools(body)) => Answer::Pools(body),
        Ok(Reply::Registered(body)) => Answer::Registered(body),
        Ok(Reply::Unregistered(body)) => Answer::Unregistered(body.unregistered),
        Ok(Reply::RegistrationRenewed(body)) => Answer::RegistrationRenewed(body),
        Ok(Reply::Resolved(body)) => Answer::Resolved(body.resolved),
        Ok(
            other @ (Reply::Session(_)
            | Reply::Sessions(_)
            | Reply::SessionRenewed(_)
            | Reply::SessionEnd(_)
            | Reply::Resource(_)
            | Reply::Resources(_)
            | Reply::BreakerReset(_)
            | Reply::NodeHeard(_)
            | Reply::ConnectionsHeard(_)
            | Reply::RegistrationStatus(_)
            | Reply::Registrations(_)
            | Reply::Registration(_)
            | Reply::RegistrationDrained(_)
            | Reply::RegistrationRevived(_)
            | Reply::Stream(_)
            | Reply::Streams(_)
            | Reply::StreamRenewed(_)
            | Reply::Polling(_)
            | Reply::PollingGroups(_)
            | Reply::Moved(_)
            | Reply::Cordoned(_)
            | Reply::Ended(_)),
        ) => unreachable!("invariant: no verb asks for {other:?}"),
        Err(error) => Answer::Error(error),
    }
}
