//! One JSON object per line. The connection is a session; reading never pauses, so that a dead peer is
//! noticed at once, in the middle of a stream too.
//!
//! Tagged lines are answered when ready, untagged ones in order. All lines of one read that ask for the same
//! kind of thing cross to the engine together.

mod in_order;
mod streams;
mod under_way;

use super::closing::LAST_WITHIN;
use super::http::stopped_waiting;
use super::outbox::{Outbox, UNREAD_BYTES_MAX, Unread, outbox};
use crate::server::{Asks, Shared};
use in_order::{Answering, InOrder, Ordered, is_over};
use std::convert::Infallible;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use streams::{Source, Stream, Streams};
use tenure_api::{
    Answer, AnswerLine, Error, ErrorCode, Heartbeat, Lease, Line, LineError, Nothing, PoolSize, PoolVerb,
    RegistrationHeartbeat, RemovePool, ResolveQuery, Tag, Unregister, Verb, Welcome,
};
use tenure_engine::kernel::{SessionKind, Text};
use tenure_faces::{Begun, Call, Caller, Opening, Reply, Scope, over_limit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use under_way::UnderWay;

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
/// Lines taken before other connections have their turn.
const LINES_MAX: usize = 32;
/// The same in bytes: fewer than this are taken with what is read next, without a turn of others between.
const BUSY_BYTES: usize = 4 << 10;
/// The same at first: most connections are idle.
const READ_BYTES_MIN: usize = 4 << 10;
/// Bytes of a burst that are read and dropped after its sender was cut off.
const DROPPED_BYTES_MAX: u64 = 64 << 20;
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
    Bye,
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

struct Asked {
    call: Call,
    wrap: Option<Wrap>,
    tag: Option<Tag>,
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
    in_order: InOrder,
    under_way: UnderWay,
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
    /// How it ends is not how its holder does: it speaks for a standard input that has not said that it ended.
    speaks_for_another: bool,
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
    let mut is_closed_by_peer = false;
    let mut was_full = false;
    let mut is_busy = false;
    let stopping = shared.stopping();
    // Made once: every one that is made stands in line with those of all other connections.
    let mut over = pin!(ends.over.cancelled());
    let mut stopped = pin!(stopping.cancelled());
    while !at_end || is_busy {
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
            // The runtime itself interrupts a task only after 128 reads.
            () = tokio::task::yield_now(), if is_busy => {}
            read = reading.read_buf(&mut buffer), if !is_busy => match read {
                Ok(0) => {
                    (at_end, is_closed_by_peer) = (true, true);
                    // A last line without its end is a line all the same.
                    buffer.push(b'\n');
                }
                Ok(_) => was_full = buffer.len() == buffer.capacity(),
                // A socket of this machine breaks only when its peer closes it with answers unread.
                Err(_) => {
                    is_closed_by_peer = true;
                    break;
                }
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
        let taken = before.saturating_sub(buffer.len());
        is_busy = lines.len() == LINES_MAX || taken >= BUSY_BYTES;
        if lines.is_empty() {
            continue;
        }
        let bytes = taken + lines.len() * LINE_BYTES;
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
            out.gather(|| connection.take(lines, bytes));
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
        if is_closed_by_peer && !connection.speaks_for_another {
            opening.left();
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
        never = throw_away(rest) => match never {},
    };
    if !is_read {
        // A peer that neither reads nor leaves.
        writer.abort();
    }
}

/// Sends the reason to a peer that does not read, and logs it.
fn cut_off(out: &Outbox, principal: &str, session: &str) {
    let unread_bytes = out.unread().bytes();
    tracing::warn!(principal, session, unread_bytes, "closed a connection that did not read its answers");
    let message = format!(
        "connection closed: {unread_bytes} bytes of answers unread; read answers while writing requests"
    );
    let error = Error::new(ErrorCode::Overloaded, message);
    let error = error.with("limit", "unread_bytes").with("value", UNREAD_BYTES_MAX);
    out.break_off(&AnswerLine { answer: Answer::Error(error), tag: None });
}

/// Reads and drops bytes, up to a limit: beyond it the peer cannot write and has to read.
async fn throw_away(stream: Option<impl AsyncRead + Unpin>) -> Infallible {
    if let Some(stream) = stream {
        // A stream that ends or fails is over all the same.
        let _ = tokio::io::copy(&mut stream.take(DROPPED_BYTES_MAX), &mut tokio::io::sink()).await;
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

/// Whole lines that have arrived, as many as are taken at once. A line over its limit is an error where it stands; its
/// bytes are dropped.
fn take_lines(
    buffer: &mut Vec<u8>,
    line_bytes_max: usize,
    too_long: &mut bool,
) -> Vec<Result<Line, (Error, Option<Tag>)>> {
    let mut lines = Vec::with_capacity((buffer.len() / SHORT_LINE_BYTES + 1).min(LINES_MAX));
    let mut taken = 0;
    while lines.len() < LINES_MAX
        && let Some(end) = memchr::memchr(b'\n', &buffer[taken..])
    {
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
    if lines.len() < LINES_MAX && buffer.len() > line_bytes_max {
        if !*too_long {
            lines.push(Err((line_too_long(line_bytes_max), None)));
        }
        *too_long = true;
        buffer.clear();
    }
    lines
}

fn line_too_long(max: usize) -> Error {
    let message = format!("the line is longer than limits.line_bytes = {max}");
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
        let tasks = TaskTracker::new();
        let streams = Arc::new(Mutex::new(Streams::new(out.clone(), ends.gone.clone())));
        let in_order = InOrder::begin(shared, &caller, out, &tasks, &streams, ends.gone.clone());
        let connection = Self {
            shared: Arc::clone(shared),
            caller,
            out: out.clone(),
            in_order,
            under_way: UnderWay::new(&tasks),
            ends: ends.clone(),
            room: Arc::new(Semaphore::new(UNDER_WAY_BYTES_MAX)),
            large: Arc::new(Semaphore::new(LARGE_MAX)),
            waits: Arc::new(Semaphore::new(shared.options().waiters_per_connection_max)),
            tasks,
            streams,
            session: opening.session(),
            greeted: false,
            speaks_for_another: kind == SessionKind::Stdin,
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
        if !in_order.is_empty() {
            self.in_order.take(in_order, room);
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
            Wish::Bye => {
                self.speaks_for_another = false;
                Ok(Admitted::Said(Answer::Bye(Nothing {})))
            }
            Wish::Hello(kind) => {
                if self.greeted {
                    return Err(Error::new(
                        ErrorCode::InvalidRequest,
                        "hello must be the first line and come once",
                    ));
                }
                if kind.as_deref().is_some_and(|kind| kind != "cli") {
                    return Err(Error::new(
                        ErrorCode::InvalidRequest,
                        "the kind of hello must be \"cli\" or absent",
                    ));
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
        let told = Arc::clone(&shared);
        let say_all = move |out: &Outbox, frames: Vec<Frame>, replies: Vec<Result<Reply, Error>>| {
            let frames = frames.into_iter().zip(replies);
            out.say_all(
                frames.map(|((wrap, tag), reply)| AnswerLine { answer: answer(&told, reply, wrap), tag }),
            );
        };
        if shared.stage().is_of_cluster() {
            self.under_way.take(Box::pin(async move {
                let _room = room;
                let replies = shared.stage().dispatch_all(&caller, calls).await;
                say_all(&out, frames, replies);
            }));
            return;
        }
        let faces = shared.faces();
        match faces.begin_all(&caller, calls) {
            Begun::UnderWay(mut under_way) => {
                // What needs no disk is answered by now; only what has to wait becomes a task.
                if let Some(replies) = under_way.replies_now(&faces) {
                    return say_all(&out, frames, replies);
                }
                self.under_way.take(Box::pin(async move {
                    let _room = room;
                    let replies = under_way.replies(&faces).await;
                    say_all(&out, frames, replies);
                }));
            }
            Begun::Planned(planned) => {
                self.under_way.take(Box::pin(async move {
                    let _room = room;
                    let replies = faces.carry_out_all(&caller, planned).await;
                    say_all(&out, frames, replies);
                }));
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
                out.say(&AnswerLine { answer: answer(&shared, reply, wrap), tag });
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
        let mut waiting: Answering = Box::pin(async move {
            let _place = place;
            // Dropping the call withdraws it.
            tokio::select! {
                biased;
                () = stopping.cancelled() => {
                    out.say(&AnswerLine { answer: Answer::Error(stopped_waiting()), tag });
                }
                reply = shared.stage().dispatch(&caller, call) => {
                    out.say(&AnswerLine { answer: answer(&shared, reply, wrap), tag });
                }
                () = over.cancelled() => {}
            }
        });
        // Begun here, waits keep the order of their lines, and one that need not wait is no task.
        if !is_over(&mut waiting) {
            self.under_way.take(waiting);
        }
        Ok(())
    }

    fn too_many_waits(&self) -> Error {
        let max = self.shared.options().waiters_per_connection_max;
        over_limit(
            ErrorCode::TooManyWaiters,
            format!("{max} requests of this connection already wait, which is the limit"),
            "waiters_per_connection",
            "limits.waiters_per_connection",
            max,
        )
    }

    fn watch(&self, stream: Stream, source: Source) {
        let (shared, caller) = (Arc::clone(&self.shared), self.caller.clone());
        let mut watching: Answering = Box::pin(async move {
            if let Some(running) = stream.begin(&shared, &caller, source).await {
                stream.run(shared, running).await;
            }
        });
        // Begun here, so that it tells what the lines behind it cause.
        if !is_over(&mut watching) {
            self.tasks.spawn(watching);
        }
    }

    /// Lets the calls under way finish; streams and waits end.
    async fn end(self, shared: &Shared) {
        let Self { in_order, ends, tasks, streams, out, .. } = self;
        open_streams(&streams).end(shared);
        drop(in_order);
        ends.over.cancel();
        tasks.close();
        while_it_is_read(&out.unread(), tasks.wait()).await;
    }
}

fn open_streams(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().expect("invariant: nobody panics among streams")
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
        Verb::Bye(_) => Ok(Wish::Bye),
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
                "pool takes nothing, name, name and size, or name and remove (with or without force)",
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
    matches!(
        call,
        Call::List(_)
            | Call::Sessions { .. }
            | Call::Resources(_)
            | Call::Pools
            | Call::Why(_)
            | Call::Status
    )
}

/// Whether a call may wait for others than the engine; with a tag it holds nobody up.
fn takes_its_time(call: &Call) -> bool {
    matches!(call, Call::Resolve(_) | Call::Register(_))
}

fn too_many(tag: Option<Tag>, limit: &str, value: usize) -> AnswerLine {
    let error = Error::new(ErrorCode::Overloaded, "too many lines of this connection are unanswered");
    let error = error.with("limit", limit).with("value", value);
    AnswerLine { answer: Answer::Error(error), tag }
}

fn needs_tag(what: &str) -> Error {
    Error::new(ErrorCode::InvalidRequest, format!("{what} needs a tag"))
}

fn answer(shared: &Shared, reply: Result<Reply, Error>, wrap: Option<Wrap>) -> Answer {
    match reply.map(|reply| shared.complete(reply)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_in_parts_and_nothing_of_it_is_lost_or_refused() {
        let line = b"{\"status\":{}}\n";
        // What is left is longer than one line may be.
        let (mut buffer, mut too_long, mut parts) = (line.repeat(3 * LINES_MAX + 1), false, Vec::new());
        while !buffer.is_empty() {
            let lines = take_lines(&mut buffer, line.len(), &mut too_long);
            assert!(lines.iter().all(Result::is_ok));
            parts.push(lines.len());
        }
        assert_eq!(parts, [LINES_MAX, LINES_MAX, LINES_MAX, 1]);
    }

    #[test]
    fn a_line_over_its_limit_is_refused_once_wherever_it_is_cut() {
        let (mut buffer, mut too_long, mut refused) = (Vec::new(), false, 0);
        for bytes in ["123456", "789", "\n{\"ab\"", ":", "\n"] {
            buffer.extend_from_slice(bytes.as_bytes());
            let lines = take_lines(&mut buffer, 5, &mut too_long);
            refused += lines
                .iter()
                .filter(|line| matches!(line, Err((error, _)) if error.code == ErrorCode::TooLarge))
                .count();
        }
        assert_eq!((refused, too_long, buffer.len()), (2, false, 0));
    }
}
