//! Lines without a tag: their answers come in the order of the lines. What nothing is before is answered by the task that
//! read it, as far as it need not wait; the rest by one task, batch after batch.

use super::streams::{Source, Streams};
use super::{LINES_MAX, Wrap, answer, class, is_large, open_streams, read, too_many};
use crate::server::Shared;
use crate::transports::outbox::Outbox;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use tenure_api::{Answer, AnswerLine};
use tenure_faces::{Call, Caller};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Batches that may wait for the ones before them.
const BATCHES_MAX: usize = 1_024;

/// Answers lines.
pub(super) type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A line that waits for its turn.
pub(super) enum Ordered {
    Said(AnswerLine),
    Call(Call, Option<Wrap>),
    Watch(Source),
}

/// Those lines of one connection.
pub(super) struct InOrder {
    answers: Arc<Answers>,
    queue: Sender<Answering>,
}

struct Answers {
    shared: Arc<Shared>,
    caller: Caller,
    out: Outbox,
    tasks: TaskTracker,
    streams: Arc<Mutex<Streams>>,
    gone: CancellationToken,
    /// Batches that are queued or being answered by their task.
    unfinished: AtomicUsize,
}

/// Goes on as far as it need not wait; whether that was all.
pub(super) fn is_over(answering: &mut Answering) -> bool {
    answering.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

impl InOrder {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        caller: &Caller,
        out: &Outbox,
        tasks: &TaskTracker,
        streams: &Arc<Mutex<Streams>>,
        gone: CancellationToken,
    ) -> Self {
        let (queue, batches) = channel(BATCHES_MAX);
        let answers = Arc::new(Answers {
            shared: Arc::clone(shared),
            caller: caller.clone(),
            out: out.clone(),
            tasks: tasks.clone(),
            streams: Arc::clone(streams),
            gone,
            unfinished: AtomicUsize::new(0),
        });
        tasks.spawn(Arc::clone(&answers).finish_all(batches));
        Self { answers, queue }
    }

    /// Takes the lines of one read, and the room they have until they are answered.
    pub(super) fn take(&self, lines: Vec<Ordered>, room: Arc<OwnedSemaphorePermit>) {
        let (count, answers) = (lines.len(), Arc::clone(&self.answers));
        let mut answering: Answering = Box::pin(async move {
            let _room = room;
            answers.answer(lines).await;
        });
        let unfinished = &self.answers.unfinished;
        if unfinished.load(Ordering::Acquire) == 0 && is_over(&mut answering) {
            return;
        }
        unfinished.fetch_add(1, Ordering::AcqRel);
        if self.queue.try_send(answering).is_err() {
            // The ones before are not answered yet, and may never be.
            unfinished.fetch_sub(1, Ordering::AcqRel);
            for _ in 0..count {
                self.answers.out.say(&too_many(None, "unanswered_reads_per_connection", BATCHES_MAX));
            }
        }
    }
}

impl Answers {
    async fn finish_all(self: Arc<Self>, mut batches: Receiver<Answering>) {
        while let Some(answering) = batches.recv().await {
            answering.await;
            self.unfinished.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// What the lines behind it cause is told.
    async fn watch(&self, source: Source) {
        let admit = || self.shared.admit_watch(&self.caller);
        let opened = open_streams(&self.streams).open(None, admit);
        match opened {
            Ok(stream) => {
                if let Some(running) = stream.begin(&self.shared, &self.caller, source).await {
                    self.tasks.spawn(stream.run(Arc::clone(&self.shared), running));
                }
            }
            Err(error) => self.out.say(&AnswerLine { answer: Answer::Error(error), tag: None }),
        }
    }

    /// Neighbours that ask for the same kind of thing go together.
    async fn answer(&self, lines: Vec<Ordered>) {
        let is_long = lines.len() == LINES_MAX;
        let mut lines = lines.into_iter().peekable();
        while let Some(first) = lines.next() {
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
                self.out.say(&AnswerLine { answer: answer(&self.shared, reply, wrap), tag: None });
                continue;
            }
            let kind = class(&call);
            let goes_along = |call: &Call| class(call) == kind && !is_large(call);
            let (mut calls, mut wraps) = (vec![call], vec![wrap]);
            while let Some(Ordered::Call(call, wrap)) =
                lines.next_if(|next| matches!(next, Ordered::Call(call, _) if goes_along(call)))
            {
                calls.push(call);
                wraps.push(wrap);
            }
            let replies = self.shared.stage().dispatch_all(&self.caller, calls).await;
            let frames = wraps.into_iter().zip(replies);
            self.out.say_all(
                frames
                    .map(|(wrap, reply)| AnswerLine { answer: answer(&self.shared, reply, wrap), tag: None }),
            );
        }
        if is_long {
            // Answers that need no disk are there at once, so that nothing above waits.
            tokio::task::yield_now().await;
        }
    }
}
