//! Looks after a load that runs on another thread: moves the bar, hears signals, notices a daemon that has gone silent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tenure_client::clock::BootInstant;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::control::{Control, Progress};
use super::course::{Course, Outcome, Step, Until};

/// A load that is over.
pub(crate) struct Watched {
    pub(crate) outcome: Outcome,
    pub(crate) ending: Ending,
}

/// Why it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// It did what it could.
    ByItself,
    /// Somebody asked.
    Stopped,
    /// The daemon answered nothing for too long.
    Silence,
}

/// Why it could not be looked after.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// The system gives no pipe or no signals.
    #[error("cannot watch the load")]
    Prepare(#[from] io::Error),
    /// The load does not come back.
    #[error("the load does not stop; its leases end with their ttl")]
    Stuck,
}

/// A daemon that answers nothing for so long is not waited for.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often the bar moves.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the load may take to notice that it is abandoned.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
/// Parts of one row that the bar shows.
const PARTS: u64 = 1_000;

/// Runs a load to its end. The first signal ends the measuring, the second one the giving back too.
pub(crate) async fn watch(course: Course, bar: &ProgressBar) -> Result<Watched, WatchError> {
    let control = Arc::new(Control::new()?);
    let mut signals = Signals::catch()?;
    let (steps, until) = (course.steps(), course.until);
    bar.set_length(steps.len() as u64 * PARTS);
    let mut load = {
        let control = Arc::clone(&control);
        tokio::task::spawn_blocking(move || course.run(&control))
    };
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut ending = Ending::ByItself;
    let mut answered = 0;
    let mut heard_at = BootInstant::now();
    loop {
        tokio::select! {
            outcome = &mut load => {
                bar.finish_and_clear();
                return Ok(Watched { outcome: outcome.map_err(|_| WatchError::Stuck)?, ending });
            }
            () = signals.next() => {
                control.stop();
                ending = Ending::Stopped;
                bar.set_message("giving back what is held");
            }
            _ = look.tick() => {
                let progress = control.progress();
                if ending == Ending::ByItself {
                    show(bar, &steps, until, &progress);
                }
                if progress.answered != answered {
                    answered = progress.answered;
                    heard_at = BootInstant::now();
                }
                let silence = BootInstant::now().since(heard_at);
                if silence > SILENCE_MAX + LEAVE_WITHIN {
                    bar.finish_and_clear();
                    return Err(WatchError::Stuck);
                }
                if silence > SILENCE_MAX && !control.is_abandoned() {
                    control.abandon();
                    ending = Ending::Silence;
                }
            }
        }
    }
}

fn show(bar: &ProgressBar, steps: &[Step], until: Until, progress: &Progress) {
    let Some(step) = steps.get(progress.step) else { return };
    let parts = match until {
        Until::Ms(ms) => progress.step_ms * PARTS / ms.max(1),
        Until::Count(count) => progress.step_answered * PARTS / count.max(1),
    };
    bar.set_position(progress.step as u64 * PARTS + parts.min(PARTS));
    let (transport, work) = (step.transport.as_str(), step.work.as_str());
    bar.set_message(format!("{transport} {work}, {} in flight", step.in_flight));
}

/// What asks for the end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
