//! A place of its own to run the binary in: no daemon of this machine is found from here, and none is disturbed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, fcntl_lock};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::Answer;

/// Directories in which the binary looks for a daemon.
pub(crate) struct Desk {
    directory: TempDir,
}

/// Which of the two.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    User,
    Machine,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The binary, seeing nothing but this desk.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let shown = self.path().to_str().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments.iter().map(|argument| argument.replace("DIR", shown)))
            .env("NO_COLOR", "1")
            .env("HOME", self.path())
            .env("XDG_RUNTIME_DIR", self.path().join("user"))
            .env("TENURE_RUN_DIR", self.path().join("machine"))
            // No packet leaves a test that does not ask for it.
            .env("TENURE_MDNS_ENABLED", "false")
            // Nor is there a pool that nobody asked for.
            .env("TENURE_SESSIONS_POOLS", "")
            // A daemon writes two files of this size before it is ready, and a thousand tests start one each.
            .env("TENURE_LOG_SEGMENT_BYTES", "4MiB")
            .stdin(Stdio::null());
        command
    }

    /// Runs it; the desk's path is shown as DIR.
    pub(crate) fn tenure(&self, arguments: &[&str]) -> Answer {
        self.answer(&mut self.command(arguments))
    }

    pub(crate) fn answer(&self, command: &mut Command) -> Answer {
        let output = command.output().unwrap();
        let text =
            |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(self.path().to_str().unwrap(), "DIR");
        Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn breadcrumb(&self, place: Place) -> PathBuf {
        match place {
            Place::User => self.path().join("user/tenure/daemon.json"),
            Place::Machine => self.path().join("machine/daemon.json"),
        }
    }

    /// Leaves a breadcrumb as a daemon does. It is live while the file that is given back is open.
    pub(crate) fn leave_live_breadcrumb(&self, place: Place, endpoint: &str) -> File {
        let file = self.leave_breadcrumb(place, endpoint);
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    }

    /// Leaves a breadcrumb as a daemon that was killed does.
    pub(crate) fn leave_breadcrumb(&self, place: Place, endpoint: &str) -> File {
        let path = self.breadcrumb(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let breadcrumb = json!({
            "endpoint": endpoint, "socket": null, "pid": 1, "started_at": "2026-02-07T22:15:00.000Z", "version": "0.1.0",
        });
        fs::write(&path, breadcrumb.to_string()).unwrap();
        File::options().read(true).write(true).open(path).unwrap()
    }
}
