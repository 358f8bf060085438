//! How the command line finds its daemon, and what it says when it does not.

use std::net::TcpListener;

use expect_test::{Expect, expect};

use crate::cli_desk::{Desk, Place};

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
    let file = desk.leave_breadcrumb(Place::Machine, &endpoint);
    file.lock().unwrap();
    let answer = desk.tenure(&["status"]);
    assert_eq!(answer.code, 3);
    assert!(
        answer.err.starts_with(&format!("Error: Tenure daemon is not running at {endpoint}\n")),
        "{}",
        answer.err
    );
    assert!(desk.breadcrumb(Place::Machine).exists(), "its writer lives");
}

#[test]
fn a_daemon_that_takes_connections_and_says_nothing_is_not_waited_for() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let file = desk.leave_breadcrumb(Place::User, &endpoint);
    file.lock().unwrap();
    let answer = desk.tenure(&["status"]);
    assert_eq!((answer.code, answer.out.as_str()), (3, ""));
    assert!(answer.err.contains("is not running at"), "{}", answer.err);
}

#[test]
fn two_live_breadcrumbs_are_refused_by_name() {
    let desk = Desk::new();
    let user = desk.leave_breadcrumb(Place::User, "http://127.0.0.1:1");
    let machine = desk.leave_breadcrumb(Place::Machine, "http://127.0.0.1:2");
    user.lock().unwrap();
    machine.lock().unwrap();
    check(
        &desk,
        &["status"],
        expect![[r#"
        exit 2
        --- out
        --- err
        error: more than one daemon is running: http://127.0.0.1:1 (DIR/user/tenure/daemon.json), http://127.0.0.1:2 (DIR/machine/daemon.json)
        hint: say which one: --endpoint http://127.0.0.1:1
    "#]],
    );
}

#[test]
fn an_endpoint_that_is_told_is_asked_and_no_other() {
    let desk = Desk::new();
    let other = desk.leave_breadcrumb(Place::User, "http://127.0.0.1:1");
    other.lock().unwrap();
    let endpoint = deserted();
    let by_flag = desk.tenure(&["--endpoint", &endpoint, "status"]);
    let by_environment = desk.answer(desk.command(&["status"]).env("TENURE_ENDPOINT", &endpoint));
    let after_the_command = desk.tenure(&["status", "--endpoint", &endpoint]);
    for answer in [by_flag, by_environment, after_the_command] {
        expect![[r#"
            exit 3
            --- out
            --- err
            note: asking the daemon at ENDPOINT, as told
            Error: Tenure daemon is not running at ENDPOINT
            hint: start it with: tenure serve
        "#]]
        .assert_eq(&answer.all().replace(&endpoint, "ENDPOINT"));
    }
    let quiet = desk.tenure(&["--quiet", "--endpoint", &endpoint, "status"]);
    assert!(quiet.err.starts_with("Error: "), "{}", quiet.err);
    check(
        &desk,
        &["--endpoint", "unix:DIR/nobody.sock", "lease", "ls"],
        expect![[r#"
        exit 3
        --- out
        --- err
        note: asking the daemon at unix:DIR/nobody.sock, as told
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
        error: invalid value '127.0.0.1:5641' for '--endpoint <URL>': "127.0.0.1:5641" is no endpoint: expected http://host:port, https://host:port or unix:/path
        hint: tenure --help
    "#]],
    );
    std::fs::write(desk.path().join("empty.pem"), "").unwrap();
    let mut distrustful = desk.command(&["--endpoint", "https://127.0.0.1:1", "status"]);
    distrustful.env("SSL_CERT_FILE", desk.path().join("empty.pem")).env_remove("SSL_CERT_DIR");
    expect![[r#"
        exit 2
        --- out
        --- err
        error: cannot talk to https://127.0.0.1:1: cannot read the authorities that the system trusts: it has none
        hint: give the certificate of its authority with --ca FILE or TENURE_CA
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
