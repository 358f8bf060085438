//! Which signals are passed on to a command, and how they are called on a command line. Signals that were ignored when we
//! started stay so, for us and for the command: `nohup` keeps its meaning.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Everything that can be caught and means something to a command. Not among them: SIGCHLD, which is about our own
/// children; SIGPIPE, which is about our own output; and faults, which are about our own code.
const PASSED_ON: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CONT", libc::SIGCONT),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
];

/// More than this many signals that nobody looked at are dropped, as the kernel does with equal ones.
const PENDING_MAX: usize = 256;

/// A signal that somebody named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SignalNumber(pub(crate) i32);

/// Why a text names no signal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a signal like TERM, SIGUSR1 or 10 that a process can catch, or KILL")]
pub(crate) struct ParseSignalError;

impl SignalNumber {
    /// Whether a process that does nothing about it dies of it.
    pub(super) fn ends_by_default(self) -> bool {
        let is_ignored = [libc::SIGCONT, libc::SIGURG, libc::SIGWINCH].contains(&self.0);
        !is_ignored && !self.stops_by_default()
    }

    /// Whether a process that does nothing about it is stopped by it.
    pub(super) fn stops_by_default(self) -> bool {
        [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&self.0)
    }
}

impl FromStr for SignalNumber {
    type Err = ParseSignalError;

    fn from_str(text: &str) -> Result<Self, ParseSignalError> {
        if let Ok(number) = text.parse() {
            let is_known = number == libc::SIGKILL || all().any(|known| known == number);
            return if is_known { Ok(Self(number)) } else { Err(ParseSignalError) };
        }
        let name = text.to_ascii_uppercase();
        let name = name.strip_prefix("SIG").unwrap_or(&name);
        if name == "KILL" {
            return Ok(Self(libc::SIGKILL));
        }
        PASSED_ON
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, number)| Self(*number))
            .ok_or(ParseSignalError)
    }
}

impl fmt::Display for SignalNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PASSED_ON.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => write!(f, "SIG{name}"),
            None if self.0 == libc::SIGKILL => f.write_str("SIGKILL"),
            None if self.0 == libc::SIGSTOP => f.write_str("SIGSTOP"),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// Catches every signal that is passed on, from now until the process ends.
pub(crate) fn catch_all() -> io::Result<mpsc::Receiver<SignalNumber>> {
    let (sender, receiver) = mpsc::channel(PENDING_MAX);
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status")?);
    for number in all().filter(|number| !is_in(ignored, *number)) {
        let mut caught = signal(SignalKind::from_raw(number))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while caught.recv().await.is_some() {
                let _ = sender.try_send(SignalNumber(number));
            }
        });
    }
    Ok(receiver)
}

/// Whether a signal is ignored at present; after we catch it, it is not.
pub(crate) fn is_ignored(number: i32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| is_in(ignored(&status), number))
}

/// What a signal that stops does to whoever does not catch it.
pub(super) fn stop_ourselves() {
    let _ = kill_process(getpid(), Signal::STOP);
}

fn all() -> impl Iterator<Item = i32> {
    PASSED_ON.iter().map(|(_, number)| *number).chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// The mask of ignored signals in `/proc/PID/status`; none if it is not told.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, signal: i32) -> bool {
    mask & (1 << (signal - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_and_written() {
        for (text, shown) in [
            ("TERM", "SIGTERM"),
            ("sigusr1", "SIGUSR1"),
            ("2", "SIGINT"),
            ("KILL", "SIGKILL"),
            ("9", "SIGKILL"),
            ("40", "signal 40"),
        ] {
            assert_eq!(text.parse::<SignalNumber>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["", "SIG", "FOO", "0", "-1", "19", "STOP", "CHLD", "99", "32"] {
            assert_eq!(text.parse::<SignalNumber>(), Err(ParseSignalError), "{text}");
        }
    }

    #[test]
    fn the_mask_of_ignored_signals_is_read_from_proc() {
        let mask = ignored("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n");
        assert!(is_in(mask, libc::SIGHUP));
        assert!(is_in(mask, libc::SIGPIPE));
        assert!(!is_in(mask, libc::SIGTERM));
        assert_eq!(ignored("nothing"), 0);
    }
}
