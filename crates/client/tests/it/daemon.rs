//! The real daemon in a directory of its own, ended with the test.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tenure_client::clock::BootInstant;
use tenure_client::{Client, ClientBuilder, Connection, Endpoint};

/// Nothing here takes this long unless it is broken.
const LONG: Duration = Duration::from_secs(20);

pub(crate) struct Daemon {
    directory: TempDir,
    process: Process,
}

/// Killed by its id when dropped.
struct Process(Child);

impl Daemon {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let process = spawn(directory.path());
        let mut daemon = Self { directory, process };
        daemon.wait_until_ready().await;
        daemon
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.process.0.kill().expect("a child of ours");
        self.process.0.wait().expect("a child of ours");
    }

    /// Starts it again with the same data, after it was killed.
    pub(crate) async fn start_again(&mut self) {
        self.process = spawn(self.directory.path());
        self.wait_until_ready().await;
    }

    /// Stops all its threads where they stand.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("tenure.sock")
    }

    /// Over the socket: the same place after a restart.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.socket())
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder(self.endpoint()).holder("me")
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().build().expect("a client")
    }

    pub(crate) async fn connection(&self) -> Connection {
        Connection::open(self.socket()).await.expect("a connection")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process.0);
        kill_process(pid, signal).expect("a child of ours");
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

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(directory: &Path) -> Process {
    let said = File::options().create(true).append(true).open(directory.join("said")).expect("a file");
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    let child = command
        .arg("serve")
        .args(["--port", "0"])
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

/// Waits until a condition holds; fails the test when that takes too long.
pub(crate) async fn wait_until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = BootInstant::now().after(LONG);
    while !condition().await {
        assert!(BootInstant::now() < deadline, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for something that ends by itself; fails the test when that takes too long.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LONG, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long: {what}"),
    }
}
