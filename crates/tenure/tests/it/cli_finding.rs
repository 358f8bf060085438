//! How the command line finds its daemon, and what it says when it does not.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::cli_desk::{Desk, Place};
use crate::cli_terminal::at_terminal;
use crate::daemon::Daemon;
use crate::fixture::Answer;

fn check(desk: &Desk, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&desk.tenure(arguments).all());
}

/// An address at which nobody listens, because it was ours a moment ago.
fn deserted() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn without_a_breadcrumb_there_is_no_daemon() {
    check(
        &Desk::new(),
        &["status"],
        expect![[r#"
        exit 3
        --- out
        --- err
        Error: Tenure daemon is not running at http://127.0.0.1:5641
        hint: start it with: tenure serve
    "#]],
    );
}

#[test]
fn every_command_that_needs_a_daemon_says_so_alike() {
    let desk = Desk::new();
    let expected = desk.tenure(&["status"]).all();
    for arguments in [
        &["watch"][..],
        &["why", "printer"],
        &["open"],
        &["lease", "acquire", "printer"],
        &["lease", "ls"],
        &["lease", "show", "printer"],
        &["lease", "heartbeat", "k3f9-4"],
        &["lease", "activate", "k3f9-4"],
        &["lease", "release", "k3f9-4", "--epoch", "1"],
        &["lease", "amend", "k3f9-4", "--attachment", "1"],
        &["lease", "acknowledge", "k3f9-4"],
        &["lease", "rebind", "k3f9-4", "--holder", "bob"],
        &["lease", "handover", "k3f9-4", "--to-session", "s:00000001"],
        &["lease", "revoke", "k3f9-4", "--yes"],
        &["lease", "reclaim", "k3f9-4", "--yes"],
        &["lease", "drain", "k3f9-4", "--yes"],
        &["lease", "revive", "k3f9-4"],
        &["pool", "set", "gpu", "2"],
        &["pool", "ls"],
        &["pool", "rm", "gpu", "--yes"],
        &["resource", "ls"],
        &["resource", "show", "printer"],
        &["check", "printer", "--fence", "1"],
        &["admin", "session", "ls"],
        &["admin", "session", "show", "s:00000001"],
        &["admin", "session", "open"],
        &["admin", "session", "heartbeat", "s:00000001"],
        &["admin", "session", "close", "s:00000001", "--yes"],
        &["admin", "breaker", "reset"],
        &["admin", "shutdown"],
        &["backup", "DIR/x.tar"],
    ] {
        assert_eq!(desk.tenure(arguments).all(), expected, "{arguments:?}");
    }
}

#[test]
fn a_stale_breadcrumb_is_no_daemon_and_is_cleared_away() {
    let desk = Desk::new();
    for place in [Place::User, Place::Machine] {
        drop(desk.leave_breadcrumb(place, "http://127.0.0.1:1"));
    }
    let answer = desk.tenure(&["status"]);
    assert_eq!(answer.all(), Desk::new().tenure(&["status"]).all());
    assert!(!desk.breadcrumb(Place::User).exists() && !desk.breadcrumb(Place::Machine).exists());
}

#[test]
fn a_live_breadcrumb_whose_daemon_does_not_answer_is_named() {
    let desk = Desk::new();
    let endpoint = deserted();
    let _file = desk.leave_live_breadcrumb(Place::Machine, &endpoint);
    let answer = desk.tenure(&["status"]);
    expect![[r#"
        exit 3
        --- out
        --- err
        Error: Tenure daemon does not answer at ENDPOINT: nothing listens there, although DIR/machine/daemon.json names a running process
        hint: the daemon may be starting, suspended or overloaded
    "#]]
    .assert_eq(&answer.all().replace(&endpoint, "ENDPOINT"));
    assert!(desk.breadcrumb(Place::Machine).exists(), "its writer lives");
}

#[test]
fn a_daemon_that_takes_connections_and_says_nothing_is_waited_for_as_long_as_one_that_starts() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let _own = desk.leave_live_breadcrumb(Place::User, &endpoint);
    // Nor is another daemon asked in its place.
    let other = Daemon::start();
    let _machine = desk.leave_live_breadcrumb(Place::Machine, &format!("http://{}", other.address()));
    let answer = desk.tenure(&["status"]);
    expect![[r#"
        exit 3
        --- out
        --- err
        Error: Tenure daemon does not answer at ENDPOINT: no answer within 4000 ms
        hint: the daemon may be starting, suspended or overloaded
    "#]]
    .assert_eq(&answer.all().replace(&endpoint, "ENDPOINT"));
}

#[test]
fn of_two_daemons_the_caller_s_own_is_asked_and_one_that_is_not_there_does_not_count() {
    let (one, two) = (Daemon::start(), Daemon::start());
    let at = |daemon: &Daemon| format!("http://{}", daemon.address());
    let asked = |user: &str, machine: &str| {
        let desk = Desk::new();
        let _user = desk.leave_live_breadcrumb(Place::User, user);
        let _machine = desk.leave_live_breadcrumb(Place::Machine, machine);
        let answer = desk.tenure(&["status", "--json"]);
        assert_eq!(answer.code, 0, "{}", answer.all());
        let status: Value = serde_json::from_str(&answer.out).unwrap();
        status["http"].as_str().unwrap().to_owned()
    };
    assert_eq!(asked(&at(&one), &at(&two)), at(&one));
    assert_eq!(asked(&deserted(), &at(&two)), at(&two));
}

/// Listens as a program of another user, and says nothing.
fn stranger(uid: u32) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // As the system sees it, a socket is of the user that its file is of.
    rustix::fs::fchown(&listener, Some(rustix::fs::Uid::from_raw(uid)), None).unwrap();
    listener
}

/// What a listener was sent so far.
fn sent_to(listener: &TcpListener) -> Vec<u8> {
    listener.set_nonblocking(true).unwrap();
    let mut sent = Vec::new();
    while let Ok((mut stream, _)) = listener.accept() {
        stream.set_nonblocking(false).unwrap();
        stream.read_to_end(&mut sent).unwrap();
    }
    sent
}

#[test]
fn another_user_s_program_at_a_daemon_s_address_is_named_and_sent_nothing() {
    let listener = stranger(47_111);
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let desk = Desk::new();
    let _file = desk.leave_live_breadcrumb(Place::Machine, &endpoint);
    let answer = desk.answer(desk.command(&["status"]).env("TENURE_TOKEN", "s3cret"));
    expect![[r#"
        exit 3
        --- out
        --- err
        error: the daemon at ENDPOINT is not used by default: the daemon belongs to uid 47111, which is neither you nor root
        hint: use it with: --endpoint ENDPOINT
    "#]]
    .assert_eq(&answer.all().replace(&endpoint, "ENDPOINT"));
    assert_eq!(String::from_utf8_lossy(&sent_to(&listener)), "");
}

/// A daemon whose directory everybody may read.
fn readable() -> Daemon {
    let daemon = Daemon::start();
    fs::set_permissions(daemon.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    daemon
}

#[test]
fn a_stranger_who_locks_a_dead_daemon_s_breadcrumb_neither_stands_in_for_it_nor_keeps_it_from_starting() {
    let mut daemon = readable();
    let address = daemon.address();
    let breadcrumb = daemon.breadcrumb();
    let mut lock = Command::new("setpriv");
    lock.args(["--reuid=47111", "--regid=47111", "--clear-groups", "flock", "-x"])
        .arg(&breadcrumb)
        .args(["sh", "-c", "echo held; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut stranger = lock.spawn().unwrap();
    daemon.kill();
    let mut held = String::new();
    BufReader::new(stranger.stdout.take().unwrap()).read_line(&mut held).unwrap();
    assert_eq!(held, "held\n");
    let listener = TcpListener::bind(address).unwrap();
    rustix::fs::fchown(&listener, Some(rustix::fs::Uid::from_raw(47_111)), None).unwrap();
    let answer = daemon.desk.answer(daemon.desk.command(&["status"]).env("TENURE_TOKEN", "s3cret"));
    assert_eq!(answer.code, 3, "{}", answer.all());
    assert_eq!(String::from_utf8_lossy(&sent_to(&listener)), "");
    drop(listener);
    daemon.start_again();
    assert_eq!(daemon.tenure(&["status"]).code, 0);
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
}

/// Where only loopback exists, so that the usual port is free.
const ALONE: &[&str] = &["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];

/// Runs the binary beside a daemon as some user, with an environment that says nothing of daemons.
fn beside(daemon: &Daemon, uid: u32, words: &[&str]) -> Answer {
    daemon.desk.answer(&mut command_beside(daemon, uid, words))
}

fn command_beside(daemon: &Daemon, uid: u32, words: &[&str]) -> Command {
    let (target, user) = (daemon.pid().to_string(), format!("--reuid={uid}"));
    let mut command = Command::new("nsenter");
    command
        .args([
            "--target",
            &target,
            "--net",
            "setpriv",
            &user,
            "--clear-groups",
            env!("CARGO_BIN_EXE_tenure"),
        ])
        .args(words)
        .env_clear()
        .env("HOME", daemon.path("nowhere"))
        .env("TENURE_RUN_DIR", daemon.path("nowhere"));
    command
}

#[test]
fn a_daemon_that_was_named_or_left_a_breadcrumb_is_used_without_a_word() {
    let daemon = Daemon::start();
    let http = daemon.object(&["status"])["http"].as_str().unwrap().to_owned();
    for words in [&["pool", "ls"][..], &["pool", "ls", "--endpoint", &http]] {
        assert_eq!(daemon.tenure(words).err, "0 pools\n");
        assert_eq!(at_terminal(&mut daemon.command(words), 200, "").text, "0 pools\n");
    }
}

#[test]
fn without_a_breadcrumb_the_usual_address_is_looked_at() {
    let mut daemon = Daemon::prepared(&["--port", "5641"]).with_launcher(ALONE);
    daemon.start_again();
    for uid in [0, 47_111] {
        let answer = beside(&daemon, uid, &["status"]);
        assert_eq!(answer.code, 0, "{}", answer.all());
        assert_eq!(answer.err, "", "stderr is for what went wrong");
        // A person is told whose daemon it is, where nothing named it and it is not theirs.
        let shown = at_terminal(&mut command_beside(&daemon, uid, &["pool", "ls"]), 200, "");
        let note = "note: using the daemon at http://127.0.0.1:5641, which belongs to another user\n";
        assert_eq!((shown.code, shown.text.starts_with(note)), (0, uid != 0), "{}", shown.text);
    }
    let mut words = vec!["setpriv", "--reuid=47113", "--clear-groups"];
    words.splice(0..0, ALONE.iter().copied());
    let mut daemon = Daemon::prepared(&["--port", "5641"]).with_launcher(&words);
    chown(daemon.path(""), Some(47_113), None).unwrap();
    daemon.start_again();
    assert_eq!(beside(&daemon, 47_113, &["status"]).code, 0);
    let other = beside(&daemon, 47_111, &["lease", "acquire", "a"]);
    expect![[r#"
        exit 3
        --- out
        --- err
        error: the daemon at http://127.0.0.1:5641 is not used by default: the daemon belongs to uid 47113, which is neither you nor root
        hint: use it with: --endpoint http://127.0.0.1:5641
    "#]]
    .assert_eq(&other.all());
}

#[test]
fn a_frozen_daemon_is_said_to_be_silent_and_no_other_way_to_it_is_tried() {
    let daemon = Daemon::start();
    daemon.freeze();
    let answer = daemon.tenure(&["status"]);
    daemon.thaw();
    expect![[r#"
        exit 3
        --- out
        --- err
        Error: Tenure daemon does not answer at unix:DIR/tenure.sock: no answer within 4000 ms
        hint: the daemon may be starting, suspended or overloaded
    "#]]
    .assert_eq(&answer.all());
}

#[test]
fn an_endpoint_that_is_told_is_asked_and_no_other() {
    let desk = Desk::new();
    let _other = desk.leave_live_breadcrumb(Place::User, "http://127.0.0.1:1");
    let endpoint = deserted();
    let by_flag = desk.tenure(&["--endpoint", &endpoint, "status"]);
    let by_environment = desk.answer(desk.command(&["status"]).env("TENURE_ENDPOINT", &endpoint));
    let after_the_command = desk.tenure(&["status", "--endpoint", &endpoint]);
    for answer in [by_flag, by_environment, after_the_command] {
        expect![[r#"
            exit 3
            --- out
            --- err
            Error: Tenure daemon is not running at ENDPOINT
            hint: start it with: tenure serve
        "#]]
        .assert_eq(&answer.all().replace(&endpoint, "ENDPOINT"));
    }
    check(
        &desk,
        &["--endpoint", "unix:DIR/nobody.sock", "lease", "ls"],
        expect![[r#"
        exit 3
        --- out
        --- err
        Error: Tenure daemon is not running at unix:DIR/nobody.sock
        hint: start it with: tenure serve
    "#]],
    );
}

#[test]
fn an_endpoint_that_makes_no_sense_is_wrong_usage() {
    let desk = Desk::new();
    check(
        &desk,
        &["--endpoint", "127.0.0.1:5641", "status"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value '127.0.0.1:5641' for '--endpoint <URL>': "127.0.0.1:5641" is not an endpoint: expected http://host:port, https://host:port or unix:/path
            hint: tenure status --help
        "#]],
    );
    fs::write(desk.path().join("empty.pem"), "").unwrap();
    let mut distrustful = desk.command(&["--endpoint", "https://127.0.0.1:1", "status"]);
    distrustful.env("SSL_CERT_FILE", desk.path().join("empty.pem")).env_remove("SSL_CERT_DIR");
    expect![[r#"
        exit 2
        --- out
        --- err
        error: cannot connect to https://127.0.0.1:1: cannot read the authorities that the system trusts: none found
        hint: name the CA of its certificate with --ca FILE or TENURE_CA
    "#]]
    .assert_eq(&desk.answer(&mut distrustful).all());
    check(
        &desk,
        &["--endpoint", "https://127.0.0.1:1", "--ca", "DIR/none.pem", "status"],
        expect![[r#"
        exit 2
        --- out
        --- err
        error: cannot read DIR/none.pem: No such file or directory (os error 2)
    "#]],
    );
}
