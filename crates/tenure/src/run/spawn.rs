//! The one file of this program with unsafe code: what has to be set between fork and exec, the mask around a change of
//! the terminal's foreground, a timer that kills, numbers of real-time signals, and descriptors given to the runtime's
//! poller.
#![expect(
    unsafe_code,
    reason = "pre_exec, pthread_sigmask, POSIX timers, real-time signals and AsyncFd have no safe form"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::termios::tcsetpgrp;
use tenure_client::clock::BootInstant;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Where a command starts.
pub(crate) struct Place {
    /// `cgroup.procs` of its cgroup, open for writing.
    pub(crate) cgroup_procs: Option<OwnedFd>,
    /// The terminal whose foreground it becomes.
    pub(crate) terminal: Option<OwnedFd>,
    /// From then on it is not started any more.
    pub(crate) not_after: Option<BootInstant>,
}

/// Kills this process at an instant. The kernel does it, also while the process is stopped, and what has this process as
/// its parent and a parent-death signal dies with it.
pub(crate) struct KillTimer {
    timer: libc::timer_t,
    armed_for: Option<BootInstant>,
}

/// Starts a command in a process group of its own that dies with this thread's process.
///
/// The parent-death signal comes when the *thread* that starts the command ends: only for the main thread.
pub(crate) fn start(command: &mut Command, place: Place) -> io::Result<Child> {
    let parent = getpid();
    command.process_group(0);
    let prepare = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above: then nobody would ever send the signal.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
        // Without them the command runs all the same: it is found by its parents, and a background process that reads
        // the terminal is stopped and then given it.
        if let Some(procs) = &place.cgroup_procs {
            let _ = rustix::io::write(procs, b"0");
        }
        if let Some(terminal) = &place.terminal {
            let _ = set_foreground(terminal.as_fd(), getpid());
        }
        // Last: everything before may have taken its time, or have been stopped.
        if place.not_after.is_some_and(|not_after| BootInstant::now() >= not_after) {
            return Err(TOO_LATE.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe things may be done. The closure makes system calls (prctl,
    // getppid, write, sigmask, ioctl, clock_gettime), allocates nothing, takes no lock, and an `io::Error` from an errno is
    // plain data.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Starts a command in a process group of its own with its three standard descriptors and none of those that this
/// process was started with.
pub(crate) fn start_alone(command: &mut Command) -> io::Result<Child> {
    let prepare = || -> io::Result<()> {
        // SAFETY: a system call that reads and writes no memory of ours; descriptors stay open until exec.
        unsafe {
            libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        // A kernel that does not know it leaves what others forgot to mark.
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe things may be done, and this is one system call.
    unsafe { command.process_group(0).pre_exec(prepare) };
    command.spawn()
}

/// What [`start`] answers when the time was over.
pub(crate) const TOO_LATE: Errno = Errno::TIME;

impl KillTimer {
    pub(crate) fn new() -> io::Result<Self> {
        let mut timer = MaybeUninit::<libc::timer_t>::uninit();
        // SAFETY: a `sigevent` of zeros is a valid value, and `timer_create` fills `timer` when it answers 0.
        let timer = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGKILL;
            if libc::timer_create(libc::CLOCK_BOOTTIME, &raw mut event, timer.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            timer.assume_init()
        };
        Ok(Self { timer, armed_for: None })
    }

    /// Moves it; `None` takes it back.
    pub(crate) fn arm(&mut self, instant: Option<BootInstant>) -> io::Result<()> {
        if instant == self.armed_for {
            return Ok(());
        }
        let ns = instant.map_or(0, BootInstant::as_ns);
        // SAFETY: an `itimerspec` of zeros is a valid value, which disarms.
        let mut setting: libc::itimerspec = unsafe { std::mem::zeroed() };
        setting.it_value.tv_sec = libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX);
        setting.it_value.tv_nsec = (ns % 1_000_000_000) as libc::c_long;
        // SAFETY: the timer is ours until this is dropped, and the setting outlives the call.
        let answer = unsafe {
            libc::timer_settime(self.timer, libc::TIMER_ABSTIME, &raw const setting, ptr::null_mut())
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        self.armed_for = instant;
        Ok(())
    }
}

impl Drop for KillTimer {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `new` and is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Makes a process group the foreground of the terminal, from wherever we stand.
pub(super) fn set_foreground(terminal: BorrowedFd<'_>, group: Pid) -> io::Result<()> {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are owned by this frame; `sigemptyset` initialises the first and `pthread_sigmask` fills the
    // second. From the background the kernel answers the ioctl with SIGTTOU, unless that is blocked.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTTOU);
        let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    let outcome = tcsetpgrp(terminal, group);
    // SAFETY: `before` was filled by the successful call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    Ok(outcome?)
}

/// Lets the runtime tell when there is something to read.
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same open descriptor for as long as it lives, and `AsyncFd` owns it from here on.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

/// The signal with this number, real-time ones included.
pub(super) fn signal(number: i32) -> Option<Signal> {
    if (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number) {
        // SAFETY: the number is valid and not one of those below SIGRTMIN that the C library keeps for itself.
        return Some(unsafe { Signal::from_raw_unchecked(number) });
    }
    Signal::from_named_raw(number)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The guardian looked at the time and then forked: stopped in between, it started the command later.
    #[test]
    fn nothing_is_started_when_its_time_is_over() {
        let started = |not_after| {
            let place = Place { cgroup_procs: None, terminal: None, not_after: Some(not_after) };
            start(&mut Command::new("true"), place)
        };
        let now = BootInstant::now();
        let refused = started(now).map(|child| child.id()).expect_err("too late");
        assert_eq!(refused.raw_os_error(), Some(TOO_LATE.raw_os_error()));
        let mut child = started(now.after(Duration::from_secs(600))).expect("started");
        assert!(child.wait().expect("an end").success());
    }
}
