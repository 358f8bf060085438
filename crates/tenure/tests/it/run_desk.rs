//! A daemon of the test's own, and commands run under its leases.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::cluster::stage;
use crate::daemon::Daemon;
use crate::fixture::Answer;
use crate::run_support::{Cleanup, LONG, number_in, signal, wait_until};

/// A daemon with its data in a directory of its own.
pub(crate) struct RunDesk {
    daemon: Daemon,
}

/// A `tenure run` that goes on.
pub(crate) struct Running {
    child: Child,
    errors: PathBuf,
    output: PathBuf,
    /// What it started, ended with the test.
    cleanup: Cleanup,
}

impl RunDesk {
    pub(crate) fn open() -> Self {
        Self { daemon: Daemon::start() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.daemon.desk.path()
    }

    /// A path here, as text for a script.
    pub(crate) fn file(&self, name: &str) -> (PathBuf, String) {
        crate::run_support::shown(self.path(), name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.daemon.socket()
    }

    pub(crate) fn daemon(&self) -> i32 {
        self.daemon.pid()
    }

    /// The end that nobody sees coming.
    pub(crate) fn kill_daemon(&mut self) {
        self.daemon.kill();
    }

    pub(crate) fn start_daemon(&mut self) {
        self.daemon.start_again();
    }

    /// `tenure` asking this daemon.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        stage::before_command(&arguments.join(" "));
        let mut command = self.daemon.desk.command(arguments);
        command.env("TENURE_ENDPOINT", format!("unix:{}", self.daemon.socket().display()));
        command
    }

    pub(crate) fn tenure(&self, arguments: &[&str]) -> Answer {
        self.daemon.desk.answer(&mut self.command(arguments))
    }

    /// Whether somebody waits for the resource.
    pub(crate) fn has_waiter(&self, resource: &str) -> bool {
        self.tenure(&["resource", "show", resource, "--json"]).out.contains("\"waiters\":[\"")
    }

    /// Begins `tenure run` with these flags and a script.
    pub(crate) fn begin(&self, flags: &[&str], script: &str) -> Running {
        self.begin_with(&mut self.command(&[&["run"], flags, &["--", "sh", "-c", script]].concat()))
    }

    pub(crate) fn begin_with(&self, command: &mut Command) -> Running {
        Running::begin(self.path(), command)
    }
}

impl Running {
    /// Begins a command whose output goes into files of this directory.
    pub(crate) fn begin(directory: &Path, command: &mut Command) -> Self {
        let name =
            |kind: &str| directory.join(format!("{kind}-{}", fs::read_dir(directory).unwrap().count()));
        let (output, errors) = (name("output"), name("errors"));
        let child = command
            .stdin(Stdio::piped())
            .stdout(fs::File::create(&output).unwrap())
            .stderr(fs::File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        let mut cleanup = Cleanup::default();
        cleanup.add(child.id() as i32);
        Self { child, errors, output, cleanup }
    }

    pub(crate) fn supervisor(&self) -> i32 {
        self.child.id() as i32
    }

    /// The guardian, once it is there.
    pub(crate) fn guardian(&mut self) -> i32 {
        let supervisor = self.supervisor();
        let mut guardian = None;
        wait_until("a guardian", LONG, || {
            guardian = children_of(supervisor).first().copied();
            guardian.is_some()
        });
        self.cleanup.add(guardian.unwrap())
    }

    pub(crate) fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub(crate) fn signal(&self, number: Signal) {
        signal(self.supervisor(), number);
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end and tells the exit code; 128 + N if it died of signal N.
    #[track_caller]
    pub(crate) fn code(&mut self) -> i32 {
        self.code_within(LONG)
    }

    #[track_caller]
    pub(crate) fn code_within(&mut self, limit: Duration) -> i32 {
        let mut status = None;
        wait_until("the end of the run", limit, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        status.code().or(std::os::unix::process::ExitStatusExt::signal(&status).map(|n| 128 + n)).unwrap()
    }

    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_for_output(&mut self, text: &str) {
        wait_until(&format!("{text:?} in the output"), LONG, || {
            // Asked first: what it wrote before its end is there then.
            let is_over = self.is_over();
            let is_there = self.output().contains(text);
            assert!(is_there || !is_over, "over without {text:?}: {}", self.errors());
            is_there
        });
    }

    /// The process id that the command wrote into a file, once it is there. The process ends with the test.
    #[track_caller]
    pub(crate) fn pid_in(&mut self, path: &Path) -> i32 {
        wait_until("a process id", LONG, || {
            let is_over = self.is_over();
            let is_there = fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'));
            assert!(is_there || !is_over, "over without {}: {}", path.display(), self.errors());
            is_there
        });
        self.cleanup.add(number_in(path))
    }
}

pub(crate) fn children_of(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    children
        .collect::<Vec<_>>()
        .iter()
        .flat_map(|children| children.split_whitespace().map(|pid| pid.parse().unwrap()))
        .collect()
}
