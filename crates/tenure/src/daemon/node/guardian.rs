//! The process beside a node that resigns for it when it dies while it leads, so that only the loss of a machine costs
//! `writer_ttl` (record 0076). It hears from the node which claim is its own, and nothing else; that the node is dead it
//! hears from the kernel.
//!
//! Invariant: it resigns only after the kernel said that every thread of the node is gone. A node that is stopped, slow or
//! cut off is none of its business.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tenure_client::clock::BootInstant;
use tenure_cluster::etcd::{EtcdOptions, EtcdStore};
use tenure_cluster::store::Store;
use tenure_cluster::values::Writer;
use tenure_cluster::{Keys, resignation_of_dead};
use tenure_engine::host::read_clocks;
use tokio::runtime::Handle as Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::run::{Channel, GuardianError, catch_all, readable, start_alone};

/// What a node tells its guardian.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// The first one. A descriptor of the node's process comes with it.
    Watch {
        /// Where the log's keys are.
        prefix: String,
    },
    /// The second one. A file comes with it that says how etcd is reached: it has certificates and passwords.
    Store,
    /// The claim of this node that stands; `None`: there is none.
    Claim(Option<Writer>),
}

/// A node's own end.
pub(super) struct Guardian {
    channel: Channel,
    process: OwnedFd,
    waiting: Option<JoinHandle<()>>,
    /// Its end is no news.
    is_dismissed: Arc<AtomicBool>,
    has_claim: bool,
}

/// A dead node is resigned for within this time, or not at all.
const RESIGN_WITHIN: Duration = Duration::from_secs(5);
/// One try.
const STEP_WITHIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

impl Guardian {
    /// Starts a guardian; without one, the loss of this process costs what the loss of its machine does.
    pub(super) fn start(etcd: &EtcdOptions, keys: &Keys, runtime: &Runtime) -> Option<Self> {
        let started = Self::try_start(etcd, keys, runtime);
        if let Err(error) = &started {
            tracing::warn!(
                %error,
                "no guardian process: if this leader dies, the next election waits for leader_ttl"
            );
        }
        started.ok()
    }

    fn try_start(etcd: &EtcdOptions, keys: &Keys, runtime: &Runtime) -> io::Result<Self> {
        let node = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut options = File::from(memfd_create("tenure-etcd", MemfdFlags::CLOEXEC)?);
        options.write_all(&serde_json::to_vec(etcd)?)?;
        let _entered = runtime.enter();
        let (channel, theirs) = Channel::pair()?;
        // The program as it runs now, even if its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("tenure").args(["guardian", "--leader"]).env_clear().current_dir("/");
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = start_alone(&mut command)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let is_dismissed = Arc::new(AtomicBool::new(false));
        let waiting = Some(wait_for(child, Arc::clone(&is_dismissed))?);
        channel.send_with(&Word::Watch { prefix: keys.prefix().to_owned() }, Some(node.as_fd()))?;
        channel.send_with(&Word::Store, Some(options.as_fd()))?;
        Ok(Self { channel, process, waiting, is_dismissed, has_claim: false })
    }

    /// Tells which claim of this node stands. A guardian that does not listen has an earlier one, which stands no more.
    pub(super) fn tell(&mut self, claim: Option<&Writer>) {
        self.has_claim = claim.is_some();
        let _ = self.channel.send(&Word::Claim(claim.cloned()));
    }
}

impl Drop for Guardian {
    /// With a claim that stands there is something left to do for it once this process is gone.
    fn drop(&mut self) {
        self.is_dismissed.store(true, Ordering::SeqCst);
        if self.has_claim {
            return;
        }
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        if let Some(waiting) = self.waiting.take() {
            let _ = waiting.join();
        }
    }
}

fn wait_for(mut child: Child, is_dismissed: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("tenure-guarded".to_owned()).spawn(move || {
        let ended = child.wait();
        if !is_dismissed.load(Ordering::SeqCst) {
            let status = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            tracing::warn!(
                status,
                "guardian process ended: if this leader dies, the next election waits for leader_ttl"
            );
        }
    })
}

/// Waits for the end of the node that started this process, and resigns for it.
pub(crate) async fn guard_leader() -> Result<(), GuardianError> {
    let channel =
        Channel::over(io::stdin().as_fd().try_clone_to_owned()?).map_err(|_| GuardianError::NoSupervisor)?;
    // Nobody ends a guardian politely: a terminal and systemd signal it beside its node, a hanging one with SIGABRT.
    let _signals = catch_all()?;
    let _aborts = signal(SignalKind::from_raw(libc::SIGABRT))?;
    let _ = rustix::thread::set_name(c"tenure-guardian");
    let Ok(Some((Word::Watch { prefix }, Some(node)))) = channel.receive_with().await else {
        return Err(GuardianError::NoSupervisor);
    };
    let Ok(Some((Word::Store, Some(options)))) = channel.receive_with().await else {
        return Err(GuardianError::NoSupervisor);
    };
    let etcd = read_options(options)?;
    let Some(writer) = last_claim(&channel, node).await? else { return Ok(()) };
    resign(etcd, &Keys::under(&prefix), &writer);
    Ok(())
}

fn read_options(file: OwnedFd) -> io::Result<EtcdOptions> {
    let (mut file, mut bytes) = (File::from(file), Vec::new());
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The claim that the node left behind when it died.
async fn last_claim(channel: &Channel, node: OwnedFd) -> io::Result<Option<Writer>> {
    let node = readable(node)?;
    let mut claim = None;
    let mut is_open = true;
    loop {
        tokio::select! {
            word = channel.receive(), if is_open => match word {
                Ok(Some(Word::Claim(told))) => claim = told,
                Ok(Some(Word::Watch { .. } | Word::Store)) => {}
                Ok(None) | Err(_) => is_open = false,
            },
            ready = node.readable() => {
                if is_gone(node.get_ref())? {
                    break;
                }
                ready?.clear_ready();
            }
            // It hung up and lives on: another program took its place in the same process.
            () = tokio::time::sleep(RESIGN_WITHIN), if !is_open => return Ok(None),
        }
    }
    // What it told last may not have been heard yet.
    while let Ok(Some(word)) = channel.receive_now() {
        if let Word::Claim(told) = word {
            claim = told;
        }
    }
    Ok(claim)
}

/// Whether no thread of the process is left. A runtime may call a descriptor ready that is not.
fn is_gone(process: &OwnedFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let at_once = Default::default();
    poll(&mut polled, Some(&at_once))?;
    Ok(polled[0].revents().contains(PollFlags::IN))
}

/// Makes the step that a leader makes that resigns. Sent again it cannot do harm: once it is done, its comparison fails.
fn resign(etcd: EtcdOptions, keys: &Keys, writer: &Writer) {
    let Ok(store) = EtcdStore::open(etcd) else { return };
    let until = BootInstant::now().after(RESIGN_WITHIN);
    let txn = resignation_of_dead(keys, writer, read_clocks().wall_ms);
    while store.step(&txn, STEP_WITHIN).is_err() && BootInstant::now() < until {
        std::thread::park_timeout(PAUSE);
    }
}
