//! The real daemon in a directory of its own, ended with the test.

use crate::process::Process;
use crate::waiting::LONG;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tenure_client::clock::BootInstant;
use tenure_client::{Client, Endpoint};

pub(crate) struct Daemon {
    directory: TempDir,
    process: Process,
}

/// What makes a daemon a node of a cluster.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) store: String,
}

impl Daemon {
    pub(crate) async fn start() -> Self {
        Self::start_with(&["--port", "0"]).await
    }

    pub(crate) async fn start_node(node: &Node) -> Self {
        let (ip, port) = (node.address.ip().to_string(), node.address.port().to_string());
        let url = format!("http://{}", node.address);
        let place = ["--bind", &ip, "--port", &port, "--advertise", &url];
        let cluster = ["--store", &node.store, "--node", node.name, "--leader-ttl", "1s"];
        Self::start_with(&[&place[..], &cluster].concat()).await
    }

    async fn start_with(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let process = spawn(directory.path(), flags);
        let mut daemon = Self { directory, process };
        daemon.wait_until_ready().await;
        daemon
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn client(&self) -> Client {
        let socket = Endpoint::Unix(self.directory.path().join("tenure.sock"));
        Client::builder(socket).holder("poller").build().expect("a client")
    }

    async fn wait_until_ready(&mut self) {
        let client = self.client();
        let deadline = BootInstant::now().after(LONG);
        while let Err(error) = client.ready().await {
            let ended = self.process.0.try_wait().expect("a child of ours");
            let said = fs::read_to_string(self.directory.path().join("said")).unwrap_or_default();
            assert!(ended.is_none(), "the daemon ended: {ended:?}\n{said}");
            assert!(BootInstant::now() < deadline, "the daemon is not ready: {error}\n{said}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn spawn(directory: &Path, flags: &[&str]) -> Process {
    let said = File::options().create(true).append(true).open(directory.join("said")).expect("a file");
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    let child = command
        .arg("serve")
        .args(flags)
        .arg("--socket")
        .arg(directory.join("tenure.sock"))
        .arg("--data-dir")
        .arg(directory.join("data"))
        .env("HOME", directory)
        .env("XDG_RUNTIME_DIR", directory.join("user"))
        .env("TENURE_RUN_DIR", directory.join("machine"))
        .env("TENURE_MDNS_ENABLED", "false")
        .env("TENURE_SESSIONS_POOLS", "")
        .env("TENURE_LOG_SEGMENT_BYTES", "4MiB")
        .stdin(Stdio::null())
        .stdout(said.try_clone().expect("a file"))
        .stderr(said)
        .spawn()
        .expect("the daemon starts");
    Process(child)
}

/// `TENURE_BIN`, or the binary beside the tests.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("TENURE_BIN") {
        return PathBuf::from(path);
    }
    let this = std::env::current_exe().expect("a path");
    // Tests are built into PROFILE/deps.
    let profile = this.parent().and_then(Path::parent).expect("a directory two above a test");
    let target = profile.parent().expect("a directory above a profile");
    let beside = profile.join("tenure");
    let found = [beside.clone(), target.join("debug/tenure"), target.join("release/tenure")];
    let missing = format!("{} is missing: `cargo build -p tenure`, or set TENURE_BIN", beside.display());
    found.into_iter().find(|path| path.is_file()).expect(&missing)
}
