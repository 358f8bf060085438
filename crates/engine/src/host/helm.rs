//! Who runs turns. Whoever has something for the engine takes the helm and runs the turn on its own thread; who
//! finds it taken leaves the message and goes on, because whoever is at the helm looks again before leaving it.
//!
//! So an answer that needs no disk is there before the question has changed threads, and what many ask at once
//! is still decided together.

use super::writer::{Keeps, TurnEnd, Work, Writer};
use super::{Message, boot_us, read_clocks};
use crate::engine::Stop;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Nobody is at the helm.
const FREE: u8 = 0;
/// Somebody is, and has seen everything.
const TAKEN: u8 = 1;
/// Somebody is, and has to look again.
const CALLED: u8 = 2;

/// No turn is planned.
const NEVER: u64 = u64::MAX;
/// Turns that one who only came with a question runs for others; then the keeper takes over.
const TURNS_FOR_OTHERS_MAX: usize = 8;

/// The same in time, where turns are long: this thread has connections to serve.
const FOR_OTHERS_US_MAX: u64 = 1_000;

/// Turns of one who has a frame to append: the disk waits.
const TURNS_BEFORE_WORK_MAX: usize = 2;

/// Where turns are run, by one thread at a time.
pub(crate) struct Helm {
    state: AtomicU8,
    /// Locked only by whoever is at the helm; `None` once the engine has ended.
    seat: Mutex<Option<Writer>>,
    over: AtomicBool,
    /// When time alone brings the next turn, in milliseconds of boot time.
    alarm_at_ms: AtomicU64,
    /// Runs the turns that time brings.
    keeper: OnceLock<Thread>,
}

/// A way to leave something for the engine.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Message>,
    helm: Arc<Helm>,
}

/// There are no more turns.
#[derive(Debug)]
pub(crate) struct Gone;

/// However a thread leaves the helm, nobody waits for it.
struct Leaving<'a>(&'a Helm);

impl Helm {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(FREE),
            seat: Mutex::new(None),
            over: AtomicBool::new(false),
            alarm_at_ms: AtomicU64::new(0),
            keeper: OnceLock::new(),
        })
    }

    /// Puts the writer in its seat, before anybody asks.
    pub(crate) fn man(&self, writer: Writer) {
        *self.seat() = Some(writer);
    }

    /// Runs turns until nobody has left anything. What comes back is work on the log that this thread kept.
    pub(crate) fn drive(&self, keeps: Keeps) -> Option<Work> {
        if self.state.swap(CALLED, Ordering::AcqRel) != FREE {
            return None;
        }
        let leaving = Leaving(self);
        let began_us = boot_us();
        let mut kept = None;
        for turns in 1.. {
            self.state.swap(TAKEN, Ordering::AcqRel);
            let mut seat = self.seat();
            let Some(writer) = seat.as_mut() else { break };
            let TurnEnd { work, next_turn_at_ms, outcome } = writer.turn(keeps);
            kept = kept.or(work);
            if let Some(outcome) = outcome {
                self.end(&mut seat, outcome);
                break;
            }
            drop(seat);
            let is_left = self.plan(next_turn_at_ms, keeps);
            if is_left {
                continue;
            }
            if self.state.compare_exchange(TAKEN, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                core::mem::forget(leaving);
                return kept;
            }
            let turns_max = if kept.is_some() { TURNS_BEFORE_WORK_MAX } else { TURNS_FOR_OTHERS_MAX };
            let is_long = || boot_us().saturating_sub(began_us) >= FOR_OTHERS_US_MAX;
            if keeps != Keeps::NothingForLong && (turns >= turns_max || is_long()) {
                drop(leaving);
                self.wake_keeper_at(0);
                return kept;
            }
        }
        kept
    }

    /// Sees to the next turn that time brings; `true`: it is due, and this thread is the one to run it.
    fn plan(&self, next_turn_at_ms: Option<u64>, keeps: Keeps) -> bool {
        match next_turn_at_ms {
            Some(0) if keeps == Keeps::NothingForLong => true,
            Some(at_ms) => {
                self.wake_keeper_at(at_ms);
                false
            }
            None => false,
        }
    }

    fn wake_keeper_at(&self, at_ms: u64) {
        if at_ms < self.alarm_at_ms.fetch_min(at_ms, Ordering::AcqRel)
            && let Some(keeper) = self.keeper.get()
        {
            keeper.unpark();
        }
    }

    /// Runs the turns that time brings, until the engine ends.
    pub(crate) fn keep(&self) {
        // Somebody who was quicker than this thread has only planned; the alarm rings at once the first time.
        let _ = self.keeper.set(std::thread::current());
        while !self.over.load(Ordering::Acquire) {
            let (now_ms, at_ms) = (read_clocks().boot_ms, self.alarm_at_ms.load(Ordering::Acquire));
            if at_ms == NEVER {
                std::thread::park();
            } else if at_ms > now_ms {
                std::thread::park_timeout(Duration::from_millis(at_ms - now_ms));
            } else {
                // Whoever is at the helm meanwhile is called, and plans again after this.
                self.alarm_at_ms.store(NEVER, Ordering::Release);
                self.drive(Keeps::NothingForLong);
            }
        }
    }

    fn end(&self, seat: &mut Option<Writer>, outcome: Result<(), Stop>) {
        if let Some(writer) = seat.take() {
            writer.over(outcome);
        }
        self.over.store(true, Ordering::Release);
        if let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
    }

    fn seat(&self) -> MutexGuard<'_, Option<Writer>> {
        self.seat.lock().expect("invariant: after a panic at the helm nobody takes it")
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nothing that a broken turn left behind is used again; whoever waits is told.
            let writer = self.0.seat.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(writer) = writer {
                writer.broken();
            }
            self.0.over.store(true, Ordering::Release);
            return;
        }
        self.0.state.store(FREE, Ordering::Release);
    }
}

impl Mailbox {
    pub(crate) fn new(sender: Sender<Message>, helm: Arc<Helm>) -> Self {
        Self { sender, helm }
    }

    /// Leaves a message without looking after it.
    pub(crate) fn leave(&self, message: Message) -> Result<(), Gone> {
        self.sender.send(message).map_err(|_| Gone)
    }

    /// Leaves a message and runs the turn for it, unless somebody else does.
    pub(crate) fn put(&self, message: Message) -> Result<(), Gone> {
        self.leave(message)?;
        self.helm.drive(Keeps::Nothing);
        Ok(())
    }

    /// The same. Work on the log that only this thread waits for it does itself, inside `blocking`: that spares two
    /// changes of thread.
    pub(crate) fn put_and_stay(
        &self,
        message: Message,
        blocking: impl FnOnce(&mut dyn FnMut()),
    ) -> Result<(), Gone> {
        self.leave(message)?;
        let Some(work) = self.helm.drive(Keeps::WhatIsQuick) else { return Ok(()) };
        let (mut work, mut done) = (Some(work), None);
        blocking(&mut || done = work.take().map(Work::carry_out));
        // The frame is given out: whatever `blocking` did, it has to be appended.
        let done = done.or_else(|| work.map(Work::carry_out));
        match done {
            // An engine that has ended meanwhile waits for nothing.
            Some(message) => self.put(message).or(Ok(())),
            None => Ok(()),
        }
    }

    pub(crate) fn helm(&self) -> &Helm {
        &self.helm
    }
}
