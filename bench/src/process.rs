//! A process of this program's own: ended by its id when it is dropped, in whatever way that comes about.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// How often a condition is looked at while it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(25);

pub(crate) struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts it in a process group of its own: Ctrl-C at a terminal is for us, who have something to end first.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot send a signal to {} ({})", self.name, self.id()))
    }

    /// Ends it without a word, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// What it says, if that was to be read.
    pub(crate) fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn end(&mut self, limit: Duration) -> Result<()> {
        let mut status = None;
        let is_over = wait_until(limit, || {
            status = self.ended()?;
            Ok(status.is_some())
        })
        .await?;
        ensure!(is_over, "{} ({}) did not end within {} s", self.name, self.id(), limit.as_secs());
        ensure!(status.is_some_and(|status| status.success()), "{} ended: {status:?}", self.name);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that the system ends when this one is gone, however that came about.
pub(crate) fn tied(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Waits until a condition holds; `false` when it does not within the limit.
pub(crate) async fn wait_until(limit: Duration, mut condition: impl FnMut() -> Result<bool>) -> Result<bool> {
    let deadline = BootInstant::now().after(limit);
    loop {
        if condition()? {
            return Ok(true);
        }
        if BootInstant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Does nothing for so long; for whoever blocks anyway.
pub(crate) fn pause(time: Duration) {
    let time =
        rustix::thread::Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    // A signal ends it early, which whoever looks at a clock notices.
    let _ = rustix::thread::nanosleep(&time);
}

/// Waits until a condition holds, looking so often, on a thread that may be blocked; `false` when it does not within
/// the limit.
pub(crate) fn block_until(
    limit: Duration,
    every: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<bool> {
    let deadline = BootInstant::now().after(limit);
    loop {
        if condition()? {
            return Ok(true);
        }
        if BootInstant::now() >= deadline {
            return Ok(false);
        }
        pause(every);
    }
}
