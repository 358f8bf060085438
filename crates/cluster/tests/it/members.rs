//! An etcd of some members on loopback, each a process of the test's own that is ended with it.

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{Timespec, nanosleep};
use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tenure_cluster::etcd::{EtcdOptions, EtcdStore, EtcdTls};

/// Members of one etcd.
pub(crate) struct Members {
    members: Vec<Member>,
    setup: Setup,
    dir: TempDir,
}

/// What is not as ever.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// More arguments for each member.
    pub(crate) args: Vec<String>,
    /// Certificates: those of the members are files, those of clients are text.
    pub(crate) tls: Option<EtcdTls>,
}

struct Member {
    name: String,
    client: u16,
    peer: u16,
    child: Option<Child>,
}

/// How long a cluster may take to begin, and to elect.
pub(crate) const SOON: Duration = Duration::from_secs(30);
const TRIES: usize = 3;
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Members {
    /// So many members, with a leader.
    pub(crate) fn start(count: usize) -> Self {
        Self::start_with(count, Setup::default())
    }

    pub(crate) fn start_with(count: usize, setup: Setup) -> Self {
        // Between our letting go of a port and a member's taking it somebody else may.
        let started = (0..TRIES).find_map(|_| Self::try_start(count, setup.clone()));
        started.expect("members that run")
    }

    fn try_start(count: usize, setup: Setup) -> Option<Self> {
        // All at once, so that no two are the same.
        let held: Vec<TcpListener> =
            (0..count * 2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |at: usize| held[at].local_addr().unwrap().port();
        let member = |at: usize| Member {
            name: format!("m{}", at + 1),
            client: port(at * 2),
            peer: port(at * 2 + 1),
            child: None,
        };
        let members: Vec<Member> = (0..count).map(member).collect();
        drop(held);
        let mut members = Self { members, setup, dir: tempfile::tempdir().unwrap() };
        for at in 0..count {
            members.spawn(at);
        }
        let store = members.store();
        let mut is_gone = false;
        wait_until("every member knows who leads, or one is gone", || {
            let mut children = members.members.iter_mut().filter_map(|member| member.child.as_mut());
            is_gone = children.any(|child| child.try_wait().unwrap().is_some());
            is_gone || (0..count).all(|at| members.knows_leader(&store, at))
        });
        (!is_gone).then_some(members)
    }

    /// Each `HOST:PORT`.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        (0..self.members.len()).map(|at| self.endpoint(at)).collect()
    }

    pub(crate) fn endpoint(&self, at: usize) -> String {
        format!("127.0.0.1:{}", self.members[at].client)
    }

    /// A store over all of them.
    pub(crate) fn store(&self) -> EtcdStore {
        self.store_at(self.endpoints())
    }

    /// A store over these.
    pub(crate) fn store_at(&self, endpoints: Vec<String>) -> EtcdStore {
        EtcdStore::open(EtcdOptions { endpoints, tls: self.setup.tls.clone(), user: None }).unwrap()
    }

    /// The place of the one that leads.
    pub(crate) fn leader(&self) -> usize {
        let mut leader = None;
        let store = self.store();
        wait_until("somebody leads", || {
            leader = (0..self.members.len()).find(|&at| {
                let status = store.status(&self.endpoint(at), Duration::from_millis(500));
                status.is_ok_and(|status| status.is_leader)
            });
            leader.is_some()
        });
        leader.unwrap()
    }

    pub(crate) fn kill(&mut self, at: usize) {
        let mut child = self.members[at].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn pause(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    pub(crate) fn resume(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }

    /// With what it had when it was killed.
    pub(crate) fn start_again(&mut self, at: usize) {
        self.spawn(at);
    }

    /// Waits until every member that runs knows who leads.
    pub(crate) fn wait_for_leader(&self) {
        let store = self.store();
        for at in (0..self.members.len()).filter(|&at| self.members[at].child.is_some()) {
            wait_until("a member knows who leads", || self.knows_leader(&store, at));
        }
    }

    fn knows_leader(&self, store: &EtcdStore, at: usize) -> bool {
        let status = store.status(&self.endpoint(at), Duration::from_secs(1));
        status.is_ok_and(|status| status.leader_id.is_some())
    }

    fn signal(&self, at: usize, signal: Signal) {
        let child = self.members[at].child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    fn spawn(&mut self, at: usize) {
        let scheme = if self.setup.tls.is_some() { "https" } else { "http" };
        let peer = |member: &Member| format!("http://127.0.0.1:{}", member.peer);
        let all: Vec<_> =
            self.members.iter().map(|member| format!("{}={}", member.name, peer(member))).collect();
        let member = &self.members[at];
        let (own, client) = (peer(member), format!("{scheme}://127.0.0.1:{}", member.client));
        let log = |what: &str| -> File {
            let path: PathBuf = self.dir.path().join(format!("{}.{what}", member.name));
            File::options().create(true).append(true).open(path).unwrap()
        };
        // The system ends it when the thread of this test is gone, however that came about.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "etcd", "--name", &member.name])
            .args(["--logger", "zap", "--log-level", "error"])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &own, "--initial-advertise-peer-urls", &own])
            .args(["--initial-cluster", &all.join(","), "--data-dir"])
            .arg(self.dir.path().join(&member.name))
            .args(&self.setup.args)
            .stdin(Stdio::null())
            .stdout(log("out"))
            .stderr(log("err"));
        self.members[at].child = Some(command.spawn().unwrap());
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.as_mut()) {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Looks until it is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..SOON.as_millis() / LOOK_EVERY.as_millis() {
        if is_so() {
            return;
        }
        let pause = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
        // A signal ends it early, which does no harm.
        let _ = nanosleep(&pause);
    }
    panic!("it never came about that {what}");
}
