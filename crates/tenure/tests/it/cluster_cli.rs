//! The command line with several endpoints, one of which is a daemon, and `tenure cluster` at a daemon that is no node.

use std::net::TcpListener;

use expect_test::expect;
use rustix::process::Signal;

use crate::cli_daemon::Daemon;
use crate::run_desk::Running;

/// An address at which nobody listens, because it was ours a moment ago.
fn deserted() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn http(daemon: &Daemon) -> String {
    daemon.object(&["status"])["http"].as_str().unwrap().to_owned()
}

#[test]
fn of_several_endpoints_the_one_that_answers_is_asked() {
    let daemon = Daemon::start();
    let (dead, http) = (deserted(), http(&daemon));
    let several = format!("{dead},{http}");
    let answer = daemon.tenure(&["lease", "acquire", "printer", "--holder", "alice", "--endpoint", &several]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    let mut listed = daemon.command(&["lease", "ls", "--json"]);
    let listed = listed.env("TENURE_ENDPOINT", &several).output().unwrap();
    assert!(String::from_utf8(listed.stdout).unwrap().contains("alice"));
}

#[test]
fn an_endpoint_that_keeps_silent_is_left_for_another() {
    let daemon = Daemon::start();
    // Its queue takes connections that nobody accepts.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let several = format!("http://{},{}", silent.local_addr().unwrap(), http(&daemon));
    let taken = daemon.tenure(&["lease", "acquire", "printer", "--json", "--endpoint", &several]);
    assert_eq!(taken.code, 0, "{}", taken.err);
    assert_eq!(daemon.object(&["status"])["leases"]["total"], 1);
}

#[test]
fn a_command_is_run_and_events_are_watched_past_a_dead_endpoint() {
    let daemon = Daemon::start();
    let several = format!("{},{}", deserted(), http(&daemon));
    let mut watch = daemon.command(&["watch", "--from", "0", "--endpoint", &several]);
    let mut watch = Running::begin(&daemon.path(""), &mut watch);
    let run = ["run", "--resource", "printer", "--endpoint", &several, "--", "true"];
    let answer = daemon.tenure(&run);
    assert_eq!(answer.code, 0, "{}", answer.err);
    watch.wait_for_output("released");
    watch.signal(Signal::INT);
    assert_eq!(watch.code(), 0, "{}", watch.errors());
}

#[test]
fn a_socket_is_not_one_of_several_endpoints() {
    let daemon = Daemon::start();
    let answer = daemon.tenure(&["status", "--endpoint", "http://127.0.0.1:1,unix:/run/tenure.sock"]);
    expect![[r#"
        exit 2
        --- out
        --- err
        error: invalid value 'http://127.0.0.1:1,unix:/run/tenure.sock' for '--endpoint <URL>': "http://127.0.0.1:1,unix:/run/tenure.sock" is a socket, which cannot be one of several endpoints
        hint: tenure status --help
    "#]]
    .assert_eq(&answer.all());
}

#[test]
fn a_daemon_with_a_log_of_its_own_is_no_node() {
    let daemon = Daemon::start();
    for arguments in [&["status"][..], &["nodes"], &["step-down", "--yes"], &["forget", "a", "--yes"]] {
        let answer = daemon.tenure(&[&["cluster"], arguments].concat());
        assert_eq!((answer.code, answer.out.as_str()), (1, ""), "{arguments:?}: {}", answer.err);
        assert!(
            answer.err.contains("(not_clustered)\nhint: start nodes with: tenure serve --store etcd://"),
            "{}",
            answer.err
        );
    }
}

#[test]
fn who_steers_a_cluster_is_asked_first() {
    let daemon = Daemon::start();
    for arguments in [&["step-down"][..], &["forget", "a"]] {
        let answer = daemon.tenure(&[&["cluster"], arguments].concat());
        assert_eq!(answer.code, 2, "{arguments:?}: {}", answer.err);
        assert!(answer.err.contains("hint: --yes does it without asking"), "{}", answer.err);
    }
}
