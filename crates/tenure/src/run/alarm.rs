//! An alarm on `CLOCK_BOOTTIME`, kept by the kernel: it comes while the runtime's own timers stand still in suspend, and
//! at once after waking. It sets a timer; reading the clock is left to the client's.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tenure_client::clock::BootInstant;
use tokio::io::unix::AsyncFd;

use super::spawn::readable;

/// One alarm; setting it forgets the one before.
pub(crate) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    set_to: Option<BootInstant>,
}

const NANOSECONDS: u64 = 1_000_000_000;
const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self { timer: readable(timer)?, set_to: None })
    }

    /// Comes at the instant, at once if it is past; `None`: never.
    pub(crate) fn set(&mut self, instant: Option<BootInstant>) -> io::Result<()> {
        if self.set_to == instant {
            return Ok(());
        }
        let it_value = instant.map_or(ZERO, |instant| {
            // Zero would mean never.
            let ns = instant.as_ns().max(1);
            Timespec {
                tv_sec: i64::try_from(ns / NANOSECONDS).unwrap_or(i64::MAX),
                tv_nsec: (ns % NANOSECONDS) as _,
            }
        });
        let time = Itimerspec { it_interval: ZERO, it_value };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &time)?;
        self.set_to = instant;
        Ok(())
    }

    /// Waits for the alarm. Safe to drop while waiting; after it came it has to be set again.
    pub(crate) async fn comes(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.timer.readable().await?;
            let mut count = [0; 8];
            match ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut count)?)) {
                Ok(outcome) => {
                    outcome?;
                    self.set_to = None;
                    return Ok(());
                }
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_comes_when_it_is_due_and_can_be_moved() {
        let mut alarm = Alarm::new().unwrap();
        alarm.set(Some(BootInstant::now().after(Duration::from_secs(3_600)))).unwrap();
        let due = BootInstant::now().after(Duration::from_millis(15));
        alarm.set(Some(due)).unwrap();
        alarm.comes().await.unwrap();
        assert!(BootInstant::now() >= due);
        alarm.set(Some(BootInstant::from_ms(0))).unwrap();
        alarm.comes().await.unwrap();
    }
}
