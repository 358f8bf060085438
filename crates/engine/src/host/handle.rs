//! How callers speak to a running engine: all requests of one read cross to the writer together, and come
//! back with one wake-up. Blocking callers wait, async ones await; neither needs a runtime.

use super::Message;
use crate::answer::{Answer, Refused};
use crate::request::{Request, Ticket};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use tenure_kernel::Lsn;

/// A way to ask. Cheap to clone; every clone speaks to the same engine.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Message>,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    next_ticket: AtomicU64,
    /// Requests not yet answered, waiting ones included.
    outstanding: AtomicUsize,
    outstanding_max: usize,
    /// Position of the newest snapshot, zero before the first, and when it was taken.
    snapshot_lsn: AtomicU64,
    snapshot_wall_ms: AtomicU64,
}

/// Answers on their way.
#[must_use = "the answers arrive here"]
pub struct Pending {
    slot: Arc<Slot>,
    first: Ticket,
}

/// Answers that are owed. Requests that nobody takes are refused: their caller must not wait for ever.
pub(crate) struct Owed(Option<Arc<Slot>>);

/// Where the answers of one call are gathered.
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    complete: Condvar,
}

struct SlotState {
    answers: Vec<Option<Answer>>,
    missing: usize,
    waker: Option<Waker>,
}

impl Handle {
    pub(crate) fn new(sender: Sender<Message>, outstanding_max: usize) -> Self {
        let shared = Shared {
            next_ticket: AtomicU64::new(1),
            outstanding: AtomicUsize::new(0),
            outstanding_max,
            snapshot_lsn: AtomicU64::new(0),
            snapshot_wall_ms: AtomicU64::new(0),
        };
        Self { sender, shared: Arc::new(shared) }
    }

    /// Asks several things at once. The answers come together, in the order asked.
    pub fn call_all(&self, requests: Vec<Request>) -> Pending {
        let count = requests.len();
        let first = Ticket(self.shared.next_ticket.fetch_add(count as u64, Ordering::Relaxed));
        let slot = Arc::new(Slot::new(count));
        let outstanding = self.shared.outstanding.fetch_add(count, Ordering::Relaxed);
        if outstanding + count > self.shared.outstanding_max {
            self.fail(&slot, count, &Refused::Overloaded);
        } else {
            let message = Message::Requests { first, requests, owed: Owed(Some(Arc::clone(&slot))) };
            if self.sender.send(message).is_err() {
                self.fail(&slot, count, &Refused::ShuttingDown);
            }
        }
        Pending { slot, first }
    }

    /// Asks one thing and waits for the answer.
    #[must_use]
    pub fn call(&self, request: Request) -> Answer {
        self.start(request).wait_one()
    }

    /// Asks one thing.
    pub fn start(&self, request: Request) -> Pending {
        self.call_all(vec![request])
    }

    /// Asks the engine to finish what it has, end the log cleanly and stop.
    pub fn shut_down(&self) {
        // An engine that is gone has nothing left to finish.
        let _ = self.sender.send(Message::ShutDown);
    }

    /// Asks for a snapshot now, whatever the size of the log.
    pub fn take_snapshot(&self) {
        let _ = self.sender.send(Message::TakeSnapshot);
    }

    /// Position of the newest snapshot and when it was taken, in unix milliseconds.
    #[must_use]
    pub fn last_snapshot(&self) -> Option<(Lsn, u64)> {
        let lsn = self.shared.snapshot_lsn.load(Ordering::Acquire);
        (lsn > 0).then(|| (Lsn(lsn), self.shared.snapshot_wall_ms.load(Ordering::Relaxed)))
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    fn fail(&self, slot: &Slot, count: usize, refused: &Refused) {
        for index in 0..count {
            slot.fill(index, Answer::Refused(refused.clone()));
        }
        self.shared.answered(count);
    }
}

impl Shared {
    pub(crate) fn snapshot_taken(&self, lsn: Lsn, wall_ms: u64) {
        self.snapshot_wall_ms.store(wall_ms, Ordering::Relaxed);
        self.snapshot_lsn.store(lsn.0, Ordering::Release);
    }

    pub(crate) fn answered(&self, count: usize) {
        self.outstanding.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Owed {
    /// Takes the debt over.
    pub(crate) fn accept(mut self) -> Arc<Slot> {
        self.0.take().expect("invariant: a debt is accepted once")
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.refuse_rest(&Refused::ShuttingDown);
        }
    }
}

impl Pending {
    /// Ticket of the first request; the others follow.
    #[must_use]
    pub fn first_ticket(&self) -> Ticket {
        self.first
    }

    /// Waits for all answers.
    #[must_use]
    pub fn wait(self) -> Vec<Answer> {
        let mut state = self.slot.lock();
        while state.missing > 0 {
            state = self.slot.complete.wait(state).expect("invariant: nobody panics while holding a slot");
        }
        state.take()
    }

    /// Waits for the single answer.
    #[must_use]
    pub fn wait_one(self) -> Answer {
        self.wait().pop().unwrap_or(Answer::Refused(Refused::OutcomeUnknown))
    }
}

impl Future for Pending {
    type Output = Vec<Answer>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Answer>> {
        let mut state = self.slot.lock();
        if state.missing == 0 {
            return Poll::Ready(state.take());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            waker => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Slot {
    fn new(count: usize) -> Self {
        let state = SlotState { answers: vec![None; count], missing: count, waker: None };
        Self { state: Mutex::new(state), complete: Condvar::new() }
    }

    /// Puts an answer in its place; the last one wakes the caller.
    pub(crate) fn fill(&self, index: usize, answer: Answer) {
        let mut state = self.lock();
        if state.answers.get(index).is_none_or(Option::is_some) {
            return;
        }
        state.answers[index] = Some(answer);
        state.missing -= 1;
        if state.missing == 0 {
            let waker = state.waker.take();
            drop(state);
            self.complete.notify_one();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn refuse_rest(&self, refused: &Refused) {
        let count = self.lock().answers.len();
        for index in 0..count {
            self.fill(index, Answer::Refused(refused.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().expect("invariant: nobody panics while holding a slot")
    }
}

impl SlotState {
    fn take(&mut self) -> Vec<Answer> {
        self.answers.drain(..).flatten().collect()
    }
}
