//! The socket asks the system who is at its other end. Needs root, to be somebody else.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::fixture::Answer;

/// Users and groups that nothing on a machine belongs to.
pub(super) const STRANGER: u32 = 47_111;
pub(super) const OTHER: u32 = 47_112;
pub(super) const DAEMON: u32 = 47_113;

/// Who a program is.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Beside its own.
    pub(super) group: Option<u32>,
}

impl Who {
    fn launcher(self) -> Vec<String> {
        let groups = self.group.map_or("--clear-groups".to_owned(), |group| format!("--groups={group}"));
        let (uid, gid) = (format!("--reuid={}", self.uid), format!("--regid={}", self.gid));
        ["setpriv", &uid, &gid, &groups].map(str::to_owned).to_vec()
    }
}

/// A daemon whose directory everybody may pass, with a copy of the binary that everybody may run.
pub(super) struct Open {
    pub(super) daemon: Daemon,
}

impl Open {
    pub(super) fn start(who: Who) -> Self {
        Self::start_with(who, &[])
    }

    pub(super) fn start_with(who: Who, flags: &[&str]) -> Self {
        let launcher = who.launcher();
        let words: Vec<&str> = launcher.iter().map(String::as_str).collect();
        let daemon = Daemon::prepared(flags);
        let directory = daemon.path("");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        chown(&directory, Some(who.uid), Some(who.gid)).unwrap();
        let binary = daemon.path("tenure");
        fs::copy(env!("CARGO_BIN_EXE_tenure"), &binary).unwrap();
        let mut daemon = daemon.with_launcher(&words).with_binary(&binary);
        daemon.start_again();
        Self { daemon }
    }

    fn run(&self, who: Who, words: &[&str]) -> Answer {
        self.run_at(&format!("unix:{}", self.daemon.socket().display()), who, words)
    }

    pub(super) fn over_tcp(&self, who: Who, words: &[&str]) -> Answer {
        self.run_at(&format!("http://{}", self.daemon.address()), who, words)
    }

    fn run_at(&self, endpoint: &str, who: Who, words: &[&str]) -> Answer {
        let launcher = who.launcher();
        let mut command = Command::new(&launcher[0]);
        command.args(&launcher[1..]).arg(self.daemon.path("tenure"));
        command
            .args(["--endpoint", endpoint, "--json"])
            .args(words)
            .env("NO_COLOR", "1")
            .env("TENURE_MDNS_ENABLED", "false")
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        self.daemon.desk.answer(&mut command)
    }

    /// Takes a resource; gives the lease's id.
    #[track_caller]
    fn acquire(&self, who: Who, resource: &str) -> String {
        given(&self.run(who, &["lease", "acquire", resource, "--holder", "h"]))
    }

    #[track_caller]
    pub(super) fn acquire_over_tcp(&self, who: Who, resource: &str) -> String {
        given(&self.over_tcp(who, &["lease", "acquire", resource, "--holder", "h"]))
    }

    fn may_revoke(&self, who: Who, lease: &str) -> bool {
        let answer = self.run(who, &["lease", "revoke", lease, "--yes"]);
        assert!(answer.code == 0 || answer.all().contains("admin"), "{}", answer.all());
        answer.code == 0
    }
}

/// The id of a lease that was given.
#[track_caller]
fn given(answer: &Answer) -> String {
    assert_eq!(answer.code, 0, "{}{}", answer.out, answer.err);
    let lease: Value = serde_json::from_str(&answer.out).unwrap();
    lease["lease_id"].as_str().unwrap().to_owned()
}

pub(super) const ROOT: Who = Who { uid: 0, gid: 0, group: None };

#[test]
fn root_and_the_daemon_s_own_user_are_administrators() {
    let own = Who { uid: DAEMON, gid: DAEMON, group: None };
    let open = Open::start(own);
    let socket = fs::metadata(open.daemon.socket()).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o660);
    assert_eq!((socket.uid(), socket.gid()), (DAEMON, DAEMON));
    for (number, who) in [own, ROOT].into_iter().enumerate() {
        let lease = open.acquire(who, &format!("r/{number}"));
        assert!(open.may_revoke(who, &lease), "uid {}", who.uid);
    }
}

#[test]
fn the_daemon_s_group_holds_and_does_no_more() {
    let open = Open::start(Who { uid: DAEMON, gid: DAEMON, group: None });
    let first = Who { uid: STRANGER, gid: DAEMON, group: None };
    let second = Who { uid: OTHER, gid: OTHER, group: Some(DAEMON) };
    for who in [first, second] {
        let lease = open.acquire(who, &format!("r/{}", who.uid));
        assert!(!open.may_revoke(who, &lease), "uid {}", who.uid);
        let released = open.run(who, &["lease", "release", &lease, "--yes"]);
        assert_eq!(released.code, 0, "{}", released.all());
    }
    // Two users of one group are two principals.
    let lease = open.acquire(first, "mine");
    let theft = open.run(second, &["lease", "release", &lease, "--yes"]);
    assert_eq!(theft.code, 1, "{}", theft.all());
    assert!(theft.all().contains("forbidden"), "{}", theft.all());
    let dumped = open.daemon.tenure(&["log", "dump", "DIR/data"]);
    for who in [first, second] {
        assert!(dumped.out.contains(&format!("uid:{}", who.uid)), "{}", dumped.all());
    }
}

#[test]
fn strangers_are_refused_by_the_file_and_by_the_daemon() {
    let open = Open::start(ROOT);
    let stranger = Who { uid: STRANGER, gid: STRANGER, group: None };
    let refused = open.run(stranger, &["status"]);
    assert_eq!(refused.code, 3, "{}", refused.all());
    // Even if somebody opens the file, the daemon asks who it is.
    fs::set_permissions(open.daemon.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    for words in [&["status"][..], &["lease", "acquire", "a", "--holder", "h"]] {
        let refused = open.run(stranger, words);
        assert!(matches!(refused.code, 1 | 3), "{}", refused.all());
        assert!(!refused.out.contains("lease_id") && !refused.out.contains("log_tag"), "{}", refused.all());
    }
    assert_eq!(open.daemon.http_over_socket().get("/v1/leases").json()["leases"], json!([]));
}

#[test]
fn a_stranger_is_told_why() {
    let open = Open::start(ROOT);
    fs::set_permissions(open.daemon.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let refused = open.run(Who { uid: STRANGER, gid: STRANGER, group: None }, &["status"]);
    assert_eq!(refused.code, 1, "{}", refused.all());
    assert!(refused.all().contains("forbidden"), "{}", refused.all());
    assert!(refused.all().contains(&STRANGER.to_string()), "{}", refused.all());
}
