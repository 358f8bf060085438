//! Where a peer lives: its data on the disk that is measured, its socket where paths are short, a port that is free.

use crate::process::{Process, block_until};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// What every peer is started with.
#[derive(Clone)]
pub(crate) struct Site {
    /// Directories for data are made here.
    pub(crate) directory: PathBuf,
    /// Directories for sockets are made here.
    pub(crate) run: PathBuf,
    /// The daemon.
    pub(crate) tenure: PathBuf,
}

/// Directories of one peer, removed with it.
pub(crate) struct Home {
    data: TempDir,
    run: TempDir,
}

/// One server process in its home.
pub(crate) struct Server {
    // Before its home: whoever writes there goes first.
    process: Option<Process>,
    home: Home,
}

/// How long a server may take until it answers, with a million leases to read first.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(120);
/// How often it is looked at until then.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long it may take to stop in order.
const STOP_WITHIN: Duration = Duration::from_secs(20);

impl Home {
    pub(crate) fn make(site: &Site, name: &str) -> Result<Self> {
        let data = tempfile::Builder::new().prefix(name).tempdir_in(&site.directory)?;
        let run = tempfile::Builder::new().prefix(name).tempdir_in(&site.run)?;
        Ok(Self { data, run })
    }

    /// For what has to be durable.
    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    /// For sockets.
    pub(crate) fn run(&self) -> &Path {
        self.run.path()
    }
}

impl Server {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(
        home: Home,
        command: Command,
        is_ready: impl FnMut(&Home) -> Result<bool>,
    ) -> Result<Self> {
        let mut server = Self { process: None, home };
        server.begin(command, is_ready)?;
        Ok(server)
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Starts it again where it was killed.
    pub(crate) fn begin(
        &mut self,
        mut command: Command,
        mut is_ready: impl FnMut(&Home) -> Result<bool>,
    ) -> Result<()> {
        ensure!(self.process.is_none(), "it runs already");
        let said = self.home.run().join("said");
        let output = File::create(&said)?;
        command.stdout(output.try_clone()?).stderr(output);
        let mut process = Process::start(&mut command)?;
        let home = &self.home;
        let is_ready = block_until(READY_WITHIN, LOOK_EVERY, || {
            if let Some(ended) = process.ended()? {
                bail!("it ended at once, {ended}: {}", fs::read_to_string(&said).unwrap_or_default());
            }
            is_ready(home)
        })?;
        ensure!(is_ready, "it is not ready: {}", fs::read_to_string(&said).unwrap_or_default());
        self.process = Some(process);
        Ok(())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().context("it does not run")?.signal(signal)
    }

    /// Waits until it has ended after it was told to, and ends it where it does not.
    pub(crate) fn wait_for_end(&mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let ended = || Ok(process.ended()?.is_some());
        ensure!(block_until(STOP_WITHIN, LOOK_EVERY, ended)?, "it did not end when it was told to");
        Ok(())
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.kill())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // In order, so that it does not go on writing what nobody reads; dropping it kills it.
            let _ = process.signal(Signal::TERM);
            let ended = || Ok(process.ended()?.is_some());
            let _ = block_until(STOP_WITHIN, Duration::from_millis(10), ended);
        }
    }
}

/// A port that nobody has now.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
