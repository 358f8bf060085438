//! How callers speak to a running engine: all requests of one read are handled together, on the caller's own
//! thread if the helm is free, and come back with at most one wake-up. Blocking callers wait, async ones await;
//! neither needs a runtime.

use super::Message;
use super::helm::{Gone, Mailbox};
use super::memory::SnapshotMemory;
use super::pools::{Asker, Pools};
use crate::answer::{Answer, Refused};
use crate::engine::Completion;
use crate::request::{Control, Request, Ticket};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use tenure_kernel::{Lsn, Tick};
use tenure_log::Batch;

/// A way to ask. Cheap to clone; every clone speaks to the same engine.
#[derive(Clone)]
pub struct Handle {
    mailbox: Mailbox,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    next_ticket: AtomicU64,
    pub(crate) pools: Pools,
    /// Position of the newest snapshot, zero before the first, and when it was taken.
    snapshot_lsn: AtomicU64,
    snapshot_wall_ms: AtomicU64,
    /// What building them took.
    snapshot_memory: Mutex<SnapshotMemory>,
    /// The tick of the last turn, for whoever proves the writer's life.
    tick: AtomicU64,
    /// What was durable then.
    synced_lsn: AtomicU64,
}

/// A way to ask for somebody.
#[derive(Clone, Copy)]
pub struct HandleOf<'a> {
    handle: &'a Handle,
    asker: Asker<'a>,
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

#[derive(Default)]
struct SlotState {
    count: usize,
    /// In order, all at once.
    answers: Option<Vec<Answer>>,
    waker: Option<Waker>,
    /// Somebody sleeps until they are there.
    is_awaited: bool,
}

impl Handle {
    pub(crate) fn new(mailbox: Mailbox, pools: Pools) -> Self {
        let shared = Shared {
            next_ticket: AtomicU64::new(1),
            pools,
            snapshot_lsn: AtomicU64::new(0),
            snapshot_wall_ms: AtomicU64::new(0),
            snapshot_memory: Mutex::default(),
            tick: AtomicU64::new(0),
            synced_lsn: AtomicU64::new(0),
        };
        Self { mailbox, shared: Arc::new(shared) }
    }

    /// Asks for somebody: within what that one may have outstanding.
    #[must_use]
    pub fn of<'a>(&'a self, asker: Asker<'a>) -> HandleOf<'a> {
        HandleOf { handle: self, asker }
    }

    /// Asks several things at once. The answers come together, in the order asked.
    pub fn call_all(&self, requests: Vec<Request>) -> Pending {
        self.of(Asker::Daemon).call_all(requests)
    }

    /// A ticket for something that is asked later, for who has to be known by it before anything is answered.
    #[must_use]
    pub fn draw_ticket(&self) -> Ticket {
        self.draw_tickets(1)
    }

    fn draw_tickets(&self, count: usize) -> Ticket {
        Ticket(self.shared.next_ticket.fetch_add(count as u64, Ordering::Relaxed))
    }

    /// Reports a fact. It needs no place in a pool, cannot be refused, and is handled before anything that is asked
    /// later.
    pub fn tell(&self, control: Control) {
        // An engine that is gone has nothing to learn.
        let _ = self.mailbox.put(Message::Completed(Completion::Told(control)));
    }

    /// Asks whether turns are run and answers may leave. Like a fact it needs no place in any pool or lane, so that a
    /// flood of requests does not make a living engine look dead.
    pub fn probe(&self) -> Pending {
        let slot = Arc::new(Slot::new(1));
        let _ = self.mailbox.put(Message::Probe(Owed(Some(Arc::clone(&slot)))));
        Pending { slot, first: Ticket(0) }
    }

    /// Asks one thing and waits for the answer.
    #[must_use]
    pub fn call(&self, request: Request) -> Answer {
        self.of(Asker::Daemon).call_all_and_stay(vec![request], |sync| sync()).wait_one()
    }

    /// Asks one thing.
    pub fn start(&self, request: Request) -> Pending {
        self.call_all(vec![request])
    }

    /// Asks one thing under a ticket that was drawn for it.
    pub fn start_as(&self, ticket: Ticket, request: Request) -> Pending {
        self.of(Asker::Daemon).call_as(ticket, vec![request], |message| self.mailbox.put(message))
    }

    /// Lets the engine write events up to this format, and no newer ones.
    pub fn write_up_to(&self, format: u32) {
        let _ = self.mailbox.put(Message::Completed(Completion::Format(format)));
    }

    /// Asks the engine to finish what it has, end the log cleanly and stop.
    pub fn shut_down(&self) {
        // An engine that is gone has nothing left to finish.
        let _ = self.mailbox.put(Message::ShutDown);
    }

    /// Gives an engine that follows a frame that its writer committed. `false`: it is gone; a frame that it could not apply
    /// made it stop.
    #[must_use]
    pub fn copied(&self, batch: Batch) -> bool {
        self.mailbox.put(Message::Completed(Completion::Copied(batch))).is_ok()
    }

    pub(crate) fn hand_over(&self) {
        let _ = self.mailbox.put(Message::HandOver);
    }

    /// Asks for a snapshot now, whatever the size of the log.
    pub fn take_snapshot(&self) {
        self.take_snapshot_at(Lsn(u64::MAX));
    }

    /// The same, of the state at the last whole frame up to a position. One that has a newer snapshot takes none.
    pub fn take_snapshot_at(&self, upto: Lsn) {
        let _ = self.mailbox.put(Message::TakeSnapshot(upto));
    }

    /// The tick of the last turn.
    #[must_use]
    pub fn tick(&self) -> Tick {
        Tick(self.shared.tick())
    }

    /// The newest position that was durable at the last turn; asks nothing of the engine.
    #[must_use]
    pub fn synced_lsn(&self) -> Lsn {
        Lsn(self.shared.synced_lsn.load(Ordering::Relaxed))
    }

    /// Position of the newest snapshot and when it was taken, in unix milliseconds.
    #[must_use]
    pub fn last_snapshot(&self) -> Option<(Lsn, u64)> {
        let lsn = self.shared.snapshot_lsn.load(Ordering::Acquire);
        (lsn > 0).then(|| (Lsn(lsn), self.shared.snapshot_wall_ms.load(Ordering::Relaxed)))
    }

    /// What will be resident at most while the next snapshot is built, where so much is resident now; `None` before the
    /// first that this process built.
    #[must_use]
    pub fn with_snapshot_bytes(&self, resident: u64) -> Option<u64> {
        self.shared.snapshot_memory().with_snapshot(resident)
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl HandleOf<'_> {
    /// Asks several things at once. The answers come together, in the order asked.
    pub fn call_all(&self, requests: Vec<Request>) -> Pending {
        let first = self.handle.draw_tickets(requests.len());
        self.call_as(first, requests, |message| self.handle.mailbox.put(message))
    }

    /// The same for one who waits for the answers and does nothing else: alone, it syncs what it asked for on its own
    /// thread, inside `blocking`.
    pub fn call_all_and_stay(
        &self,
        requests: Vec<Request>,
        blocking: impl FnOnce(&mut dyn FnMut()),
    ) -> Pending {
        let first = self.handle.draw_tickets(requests.len());
        self.call_as(first, requests, |message| self.handle.mailbox.put_and_stay(message, blocking))
    }

    /// Asks one thing.
    pub fn start(&self, request: Request) -> Pending {
        self.call_all(vec![request])
    }

    fn call_as(
        &self,
        first: Ticket,
        requests: Vec<Request>,
        put: impl FnOnce(Message) -> Result<(), Gone>,
    ) -> Pending {
        let slot = Arc::new(Slot::new(requests.len()));
        let (places, admitted) = self.handle.shared.pools.take(self.asker, &requests);
        let owed = Owed(Some(Arc::clone(&slot)));
        // An engine that is gone drops the message, and with it what it owes.
        let _ = put(Message::Requests { first, requests, places, admitted, owed });
        Pending { slot, first }
    }
}

impl Shared {
    pub(crate) fn snapshot_memory(&self) -> MutexGuard<'_, SnapshotMemory> {
        self.snapshot_memory.lock().expect("invariant: nobody panics over the numbers")
    }

    pub(crate) fn snapshot_taken(&self, lsn: Lsn, wall_ms: u64) {
        self.snapshot_wall_ms.store(wall_ms, Ordering::Relaxed);
        self.snapshot_lsn.store(lsn.0, Ordering::Release);
    }

    pub(crate) fn tell_turn(&self, tick: Tick, synced: Lsn) {
        self.tick.store(tick.0, Ordering::Relaxed);
        self.synced_lsn.store(synced.0, Ordering::Relaxed);
    }

    pub(crate) fn tick(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
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
            slot.refuse_all(&Refused::ShuttingDown);
        }
    }
}

impl Pending {
    /// Ticket of the first request; the others follow.
    #[must_use]
    pub fn first_ticket(&self) -> Ticket {
        self.first
    }

    /// The answers, if they are there.
    #[must_use]
    pub fn take_now(&mut self) -> Option<Vec<Answer>> {
        self.slot.lock().answers.take()
    }

    /// Waits for all answers.
    #[must_use]
    pub fn wait(self) -> Vec<Answer> {
        let mut state = self.slot.lock();
        loop {
            if let Some(answers) = state.answers.take() {
                return answers;
            }
            state.is_awaited = true;
            state = self.slot.complete.wait(state).expect("invariant: nobody panics while holding a slot");
        }
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
        if let Some(answers) = state.answers.take() {
            return Poll::Ready(answers);
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
        let state = SlotState { count, ..SlotState::default() };
        Self { state: Mutex::new(state), complete: Condvar::new() }
    }

    /// Gives the answers, once, and wakes the caller.
    pub(crate) fn fill(&self, answers: Vec<Answer>) {
        let mut state = self.lock();
        assert_eq!(answers.len(), state.count, "invariant: each request has one answer");
        state.answers = Some(answers);
        let (waker, is_awaited) = (state.waker.take(), state.is_awaited);
        drop(state);
        if is_awaited {
            self.complete.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn refuse_all(&self, refused: &Refused) {
        let count = self.lock().count;
        self.fill(vec![Answer::Refused(refused.clone()); count]);
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().expect("invariant: nobody panics while holding a slot")
    }
}
