//! The terminal that a command is run from. A command in a process group of its own may use the terminal only as its
//! foreground; afterwards the foreground is given back to the group we were started in.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, Signal, getpgrp, getpid, getsid, kill_current_process_group};
use rustix::termios::tcgetpgrp;

use super::spawn::set_foreground;

/// The terminal at our standard input.
pub(super) struct Terminal {
    device: OwnedFd,
    own_group: Pid,
}

impl Terminal {
    /// `None`: standard input is something else.
    pub(super) fn at_standard_input() -> Option<Self> {
        let input = io::stdin();
        let device = input.is_terminal().then(|| input.as_fd().try_clone_to_owned().ok())??;
        Some(Self { device, own_group: getpgrp() })
    }

    /// Whether a command should have it from its first moment. Where our output goes into a pipe, whoever reads that
    /// pipe shares our process group and may need the terminal; there the command gets it when it asks.
    pub(super) fn is_given_at_once(&self) -> bool {
        self.is_ours() && io::stdout().is_terminal()
    }

    /// Whether we are its foreground.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|group| group == self.own_group)
    }

    /// Makes the command its foreground.
    pub(super) fn give_to(&self, command: Pid) {
        // Without it the command stops when it reads, and whoever sits there sees that.
        let _ = set_foreground(self.device.as_fd(), command);
    }

    /// Takes the foreground back, if the command has it.
    pub(super) fn take_back_from(&self, command: Pid) {
        if tcgetpgrp(&self.device).is_ok_and(|group| group == command) {
            let _ = set_foreground(self.device.as_fd(), self.own_group);
        }
    }

    /// Whether there is a shell that would continue us.
    pub(super) fn has_job_control(&self) -> bool {
        getsid(None).is_ok_and(|leader| leader != getpid())
    }

    /// Stops us and everything else of our job until somebody continues it.
    pub(super) fn stop_our_job(&self) {
        let _ = kill_current_process_group(Signal::STOP);
    }
}
