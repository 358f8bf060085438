//! A daemon for the time of one command: its data and its socket are in a directory of its own, which is removed after
//! it. It leaves no breadcrumb: no other daemon is disturbed, and nobody else finds this one.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure_client::{Client, Endpoint};
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};

/// It runs while this exists.
pub(crate) struct PrivateDaemon {
    child: Child,
    client: Client,
    // Dropped last: whoever removes a directory comes after those who write there.
    directory: Scratch,
}

/// Why it does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivateDaemonError {
    /// Its directory cannot be made.
    #[error("cannot create a directory in {}", path.display())]
    Directory {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be started.
    #[error("cannot start a daemon")]
    Start(#[source] io::Error),
    /// It ended by itself.
    #[error("the daemon ended at once: {said}")]
    Ended {
        /// The last it said.
        said: String,
    },
    /// It takes too long.
    #[error("the daemon is not ready after {} s", READY_WITHIN.as_secs())]
    NotReady,
    /// It cannot be spoken to.
    #[error("cannot connect to the daemon")]
    Build(#[from] tenure_client::BuildError),
}

/// How long a daemon without leases may take to start.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(25);
const NOTICE_BYTES: usize = 4 << 10;

impl PrivateDaemon {
    /// Starts one whose directory is made in `parent`.
    pub(crate) async fn start(parent: &Path) -> Result<Self, PrivateDaemonError> {
        let directory = Scratch::make(parent)
            .map_err(|source| PrivateDaemonError::Directory { path: parent.to_owned(), source })?;
        let at = |name: &str| directory.0.join(name);
        let notices = UnixDatagram::bind(at("notices")).map_err(PrivateDaemonError::Start)?;
        let client = Client::builder(Endpoint::Unix(at("socket"))).build()?;
        let mut child = command(&directory.0).map_err(PrivateDaemonError::Start)?;
        let mut notice = vec![0; NOTICE_BYTES];
        let ready = async {
            loop {
                let length = notices.recv(&mut notice).await?;
                if notice[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1") {
                    return Ok(());
                }
            }
        };
        let outcome = tokio::select! {
            ready = tokio::time::timeout(READY_WITHIN, ready) => match ready {
                Ok(ready) => ready.map_err(PrivateDaemonError::Start),
                Err(_) => Err(PrivateDaemonError::NotReady),
            },
            _ = child.wait() => Err(PrivateDaemonError::Ended { said: last_line(&at("log")) }),
        };
        outcome.map(|()| Self { child, client, directory })
    }

    /// For calls.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Where its data is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// Stops it in order, or kills it where that takes too long; its directory is removed.
    pub(crate) async fn stop(mut self) {
        if let Some(pid) = self.child.id().and_then(|pid| Pid::from_raw(pid as i32)) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(STOP_WITHIN, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

fn command(directory: &Path) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    // Settings of a daemon that is meant to stay are not for this one.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
        command.env_remove(name);
    }
    command
        .arg("serve")
        .args(["--config", "/dev/null", "--no-mdns", "--sessions-pools", "", "--run-dir", ""])
        .args(["--bind", "127.0.0.1", "--port", "0"])
        .arg("--socket")
        .arg(directory.join("socket"))
        .arg("--data-dir")
        .arg(directory.join("data"))
        .env("NOTIFY_SOCKET", directory.join("notices"))
        .env_remove("WATCHDOG_USEC")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(directory.join("log"))?)
        // Ctrl-C at the terminal is for us alone: there is something to give back first.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}

/// A directory that is removed with all that is in it.
struct Scratch(PathBuf);

impl Scratch {
    fn make(parent: &Path) -> io::Result<Self> {
        let parent = parent.canonicalize()?;
        let mut random = [0; 4];
        getrandom::fill(&mut random).expect("invariant: the system gives random bytes");
        let path = parent.join(format!("tenure-bench-{:08x}", u32::from_ne_bytes(random)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
