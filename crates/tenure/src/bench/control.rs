//! What the thread that makes the load and the one that watches it tell each other.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use tenure_client::clock::BootInstant;

/// Shared by both sides.
pub(crate) struct Control {
    halt: AtomicU8,
    step: AtomicUsize,
    step_began_ns: AtomicU64,
    step_answered: AtomicU64,
    /// Answers to anything; what does not grow for long is stuck.
    answered: AtomicU64,
    waker: PipeWriter,
    waiting: PipeReader,
}

/// How far the load is.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    /// Which row is being measured, from 0.
    pub(crate) step: usize,
    /// How long.
    pub(crate) step_ms: u64,
    /// How much was answered in it.
    pub(crate) step_answered: u64,
    /// How much was answered in all, measured or not.
    pub(crate) answered: u64,
}

const GO_ON: u8 = 0;
/// Measure no more, give everything back.
const FINISH: u8 = 1;
/// Leave at once.
const ABANDON: u8 = 2;

impl Control {
    pub(crate) fn new() -> io::Result<Self> {
        let (waiting, waker) = io::pipe()?;
        Ok(Self {
            halt: AtomicU8::new(GO_ON),
            step: AtomicUsize::new(0),
            step_began_ns: AtomicU64::new(0),
            step_answered: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            waker,
            waiting,
        })
    }

    /// Asks for the end: once to give everything back first, twice to leave at once.
    pub(crate) fn stop(&self) {
        if self.halt.compare_exchange(GO_ON, FINISH, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            self.abandon();
        }
    }

    /// Asks to leave at once.
    pub(crate) fn abandon(&self) {
        self.halt.store(ABANDON, Ordering::Relaxed);
        // A pipe that is full wakes too.
        let _ = (&self.waker).write(b"!");
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.halt.load(Ordering::Relaxed) != GO_ON
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.halt.load(Ordering::Relaxed) == ABANDON
    }

    /// Becomes readable when the load is abandoned, for a thread that waits for answers.
    pub(super) fn waiting(&self) -> &PipeReader {
        &self.waiting
    }

    pub(super) fn begin_step(&self, step: usize) {
        self.step.store(step, Ordering::Relaxed);
        self.step_answered.store(0, Ordering::Relaxed);
        self.step_began_ns.store(BootInstant::now().as_ns(), Ordering::Relaxed);
    }

    pub(super) fn add_answered(&self, count: u64) {
        self.step_answered.fetch_add(count, Ordering::Relaxed);
        self.answered.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> Progress {
        let began = BootInstant::from_ns(self.step_began_ns.load(Ordering::Relaxed));
        Progress {
            step: self.step.load(Ordering::Relaxed),
            step_ms: BootInstant::now().since(began).as_millis() as u64,
            step_answered: self.step_answered.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_to_stop_leaves_at_once() {
        let control = Control::new().unwrap();
        assert!(!control.is_stopping());
        control.stop();
        assert!(control.is_stopping() && !control.is_abandoned());
        control.stop();
        assert!(control.is_abandoned());
        let mut woken = [0; 8];
        assert_eq!(io::Read::read(&mut control.waiting(), &mut woken).unwrap(), 1);
    }
}
