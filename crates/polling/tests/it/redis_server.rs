//! A real Redis on a socket in a directory of its own, ended with the test.

use crate::process::Process;
use crate::waiting::LONG;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tenure_client::clock::BootInstant;

pub(crate) struct RedisServer {
    directory: TempDir,
    arguments: Vec<String>,
    process: Process,
}

impl RedisServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With more arguments than it needs.
    pub(crate) async fn start_with(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let process = spawn(directory.path(), &arguments);
        let mut server = Self { directory, arguments, process };
        server.wait_until_ready().await;
        server
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Ends it without a word; nothing is kept.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again in the same place, after it was killed.
    pub(crate) async fn start_again(&mut self) {
        self.process = spawn(self.directory.path(), &self.arguments);
        self.wait_until_ready().await;
    }

    /// What the Redis answers to a command, by its own program: one line for each value.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .arg("-s")
            .arg(self.socket())
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli runs");
        String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
    }

    async fn wait_until_ready(&mut self) {
        let deadline = BootInstant::now().after(LONG);
        while self.cli(&["PING"]) != "PONG" {
            let ended = self.process.0.try_wait().expect("a child of ours");
            let said = fs::read_to_string(self.directory.path().join("said")).unwrap_or_default();
            assert!(ended.is_none(), "redis-server ended: {ended:?}\n{said}");
            assert!(BootInstant::now() < deadline, "redis-server is not ready\n{said}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // A dump of a Redis that was started without a directory lay in the repository.
        let home = fs::canonicalize(self.directory.path()).expect("its directory");
        assert_eq!(self.cli(&["CONFIG", "GET", "dir"]).lines().nth(1), home.to_str());
    }
}

fn spawn(directory: &Path, arguments: &[String]) -> Process {
    let said = File::options().create(true).append(true).open(directory.join("said")).expect("a file");
    let child = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--unixsocket")
        .arg(directory.join("redis.sock"))
        .arg("--dir")
        .arg(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(said.try_clone().expect("a file"))
        .stderr(said)
        .spawn()
        .expect("redis-server starts: apt-get install redis-server");
    Process(child)
}
