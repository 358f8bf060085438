//! A Redis of a test's own: a socket without a port, in a directory of its own, ended with the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::run_support::{LONG, wait_until};

/// It keeps nothing of what it was told.
pub(crate) const FORGETFUL: &[&str] = &["--appendonly", "no"];

/// A Redis, ended with the test.
pub(crate) struct RedisServer {
    child: Child,
    socket: PathBuf,
}

impl RedisServer {
    /// Starts one that listens at this socket; what it writes is in `redis/` beside it.
    pub(crate) fn start(socket: &Path, flags: &[&str]) -> Self {
        let home = socket.parent().unwrap().join("redis");
        fs::create_dir_all(&home).unwrap();
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(socket)
            .arg("--dir")
            .arg(&home)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let server = Self { child, socket: socket.to_owned() };
        wait_until("a Redis", LONG, || server.cli(&["PING"]) == "PONG");
        // A dump of a Redis that was started without a directory lay in the repository.
        let home = fs::canonicalize(home).unwrap();
        assert_eq!(server.cli(&["CONFIG", "GET", "dir"]).lines().nth(1), home.to_str());
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    pub(crate) fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it answers to a command, by its own program: one line for each value.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli").arg("-s").arg(&self.socket).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
