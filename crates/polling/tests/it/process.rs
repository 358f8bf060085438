//! A process of a test's own, ended with it.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::process::Child;

/// Killed by its id when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("a child of ours");
        self.0.wait().expect("a child of ours");
    }

    /// Stops all its threads where they stand: what is connected to it stays so and hears nothing.
    pub(crate) fn freeze(&self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::STOP).expect("a child of ours");
        // Its last thread may still be answering.
        let stopped = waitpid(Some(pid), WaitOptions::UNTRACED).expect("a child of ours");
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{stopped:?}");
    }

    pub(crate) fn thaw(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).expect("a child of ours");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
