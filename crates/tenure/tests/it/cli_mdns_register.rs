//! `tenure mdns register`: a service that lives as long as the command does, whatever ends it.

use std::fs;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli_daemon::Daemon;
use crate::cli_desk::Desk;
use crate::cli_streams::Running;
use crate::run_support::{LONG, signal, wait_until};

/// Starts it and waits until it is registered.
fn register(daemon: &Daemon, arguments: &[&str]) -> (Running, Value) {
    let arguments = [&["mdns", "register"], arguments, &["--json"]].concat();
    let running = Running::start(&mut daemon.command(&arguments));
    let registered = running.object()["registered"].clone();
    (running, registered)
}

fn id_of(registered: &Value) -> String {
    registered["id"].as_str().unwrap().to_owned()
}

fn code(running: &mut Running) -> Option<i32> {
    let mut status = None;
    wait_until("the end of the command", LONG, || {
        status = running.child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

fn pid(running: &Running) -> i32 {
    running.child.id() as i32
}

#[test]
fn it_tells_what_is_registered_under_which_name_and_by_whom() {
    let daemon = Daemon::start();
    daemon.register(&json!({"name": "Küche", "type": "http", "port": 1, "lease": 0}));
    let arguments = [
        "mdns",
        "register",
        "Küche",
        "http",
        "8080",
        "--txt",
        "path=/",
        "--txt",
        "flag",
        "--ip",
        "192.0.2.7",
    ];
    let mut running = Running::start(&mut daemon.command(&arguments));
    let mut lines: Vec<String> = (0..6).map(|_| running.line()).collect();
    let id = lines[0].rsplit(' ').next().unwrap().to_owned();
    lines[0] = lines[0].replace(&id, "ID");
    expect![[r#"
        registered     ID
        name           Küche
        type           _http._tcp
        port           8080
        advertised as  Küche (2)._http._tcp.local
        mode           heartbeat, 90s each"#]]
    .assert_eq(&lines.join("\n"));
    running.said("warning: 192.0.2.7 is not an address of this host");
    running.said("note: advertising until interrupted");
    let registered = daemon.object(&["admin", "inspect", &id]);
    assert_eq!(registered["txt"], json!({"path": "/", "flag": null}));
    signal(pid(&running), Signal::INT);
    assert_eq!(running.line(), format!("unregistered {id}"));
    assert_eq!(code(&mut running), Some(0));
}

#[test]
fn whoever_asks_it_to_stop_it_unregisters() {
    let daemon = Daemon::start();
    for asked in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (mut running, registered) = register(&daemon, &["App", "http", "80"]);
        assert_eq!(daemon.registrations().len(), 1);
        signal(pid(&running), asked);
        assert_eq!(running.object(), json!({"unregistered": registered["id"]}), "{asked:?}");
        assert_eq!(code(&mut running), Some(0), "{asked:?}");
        assert_eq!(daemon.registrations(), Vec::<Value>::new(), "{asked:?}");
    }
}

#[test]
fn the_short_spelling_is_the_same() {
    let daemon = Daemon::start();
    let mut running =
        Running::start(&mut daemon.command(&["register", "App", "http", "80", "--lease", "0", "--json"]));
    assert_eq!(running.object()["registered"]["mode"], "permanent");
    signal(pid(&running), Signal::TERM);
    assert_eq!(code(&mut running), Some(0));
    assert_eq!(daemon.registrations(), Vec::<Value>::new());
}

#[test]
fn without_a_daemon_it_lives_as_long_as_the_command() {
    let desk = Desk::new();
    let arguments = ["register", "App", "http", "80", "--lease", "5", "--json"];
    let mut running = Running::start(&mut desk.command(&arguments));
    let registered = running.object()["registered"].clone();
    assert_eq!((&registered["mode"], &registered["lease"]), (&json!("permanent"), &json!(0)));
    running.said("no daemon is running");
    running.said("without a daemon --lease has no effect");
    signal(pid(&running), Signal::TERM);
    assert_eq!(running.object(), json!({"unregistered": registered["id"]}));
    assert_eq!(code(&mut running), Some(0));
    let left: Vec<_> = fs::read_dir(desk.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.ends_with("user")), "{left:?}");
}

#[test]
fn it_is_kept_beyond_its_lease() {
    let daemon = Daemon::start();
    let (_running, registered) = register(&daemon, &["App", "http", "80", "--lease", "2"]);
    let id = id_of(&registered);
    let last_seen = || daemon.object(&["admin", "inspect", &id])["last_seen"].clone();
    for _ in 0..4 {
        let before = last_seen();
        wait_until("a heartbeat", LONG, || last_seen() != before);
    }
}

#[test]
fn one_that_was_killed_drains_and_goes() {
    let daemon = Daemon::start_with(&["--mdns-http-grace", "3s"]);
    let (mut running, registered) = register(&daemon, &["App", "http", "80", "--lease", "1"]);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let mut drained = false;
    wait_until("the end of the registration", LONG, || match daemon.registrations().first() {
        Some(registration) => {
            drained |= registration["state"] == "draining";
            false
        }
        None => true,
    });
    assert!(drained, "it was seen draining");
    wait_until("its end in the log", LONG, || {
        let said = daemon.said();
        said.lines().any(|line| line.contains(&id_of(&registered)) && line.contains("heartbeat_expired"))
    });
}

#[test]
fn an_operator_who_ends_it_ends_the_command() {
    let daemon = Daemon::start();
    let (mut running, registered) = register(&daemon, &["App", "http", "80", "--lease", "1"]);
    let id = id_of(&registered);
    daemon.object(&["admin", "unregister", &id]);
    assert_eq!(code(&mut running), Some(1));
    running.said("error: an operator ended the registration (admin_force)");
    running.said(&format!("hint: tenure why {id} shows its history"));
    assert_eq!(daemon.registrations(), Vec::<Value>::new());
}

#[test]
fn a_drain_is_told_and_its_end_too() {
    let daemon = Daemon::start_with(&["--mdns-http-grace", "6s"]);
    let (mut running, registered) = register(&daemon, &["App", "http", "80", "--lease", "1"]);
    let id = id_of(&registered);
    daemon.object(&["admin", "drain", &id]);
    running.said("warning: an operator drains this registration");
    daemon.object(&["admin", "revive", &id]);
    running.said("note: the operator cancelled the drain");
    daemon.object(&["admin", "drain", &id]);
    assert_eq!(code(&mut running), Some(1));
    running.said("error: an operator ended the registration");
}

#[test]
fn another_that_takes_it_over_is_not_disturbed() {
    let daemon = Daemon::start();
    let (mut first, registered) = register(&daemon, &["App", "http", "80", "--lease", "2"]);
    let id = id_of(&registered);
    daemon.object(&["admin", "drain", &id]);
    let (_second, taken) = register(&daemon, &["App", "http", "81"]);
    assert_eq!(taken["id"], registered["id"]);
    assert_eq!(code(&mut first), Some(1));
    first.said("another registrant of the same name took over the registration");
    assert_eq!(daemon.object(&["admin", "inspect", &id])["port"], 81);
}

#[test]
fn a_restarted_daemon_goes_on_with_it() {
    let mut daemon = Daemon::start();
    let (mut running, registered) = register(&daemon, &["App", "http", "80", "--lease", "2"]);
    daemon.kill();
    running.said("note: the daemon does not answer; retrying");
    daemon.start_again();
    running.said("note: the daemon answers again");
    let listed = daemon.registrations();
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &registered["id"]));
    signal(pid(&running), Signal::TERM);
    assert_eq!(code(&mut running), Some(0));
    assert_eq!(daemon.registrations(), Vec::<Value>::new());
}

#[test]
fn a_daemon_that_lost_everything_is_told_again() {
    let mut daemon = Daemon::start();
    let (mut running, registered) = register(&daemon, &["App", "http", "80", "--lease", "2"]);
    daemon.kill();
    fs::remove_dir_all(daemon.data_dir()).unwrap();
    daemon.start_again();
    running.said("note: the registration expired; registering again");
    let again = running.object()["registered"].clone();
    assert_ne!(again["id"], registered["id"]);
    assert_eq!(daemon.registrations()[0]["id"], again["id"]);
    signal(pid(&running), Signal::INT);
    assert_eq!(code(&mut running), Some(0));
    assert_eq!(daemon.registrations(), Vec::<Value>::new());
}

#[test]
fn asked_twice_it_leaves_a_daemon_that_does_not_answer() {
    let daemon = Daemon::start();
    let (mut running, _) = register(&daemon, &["App", "http", "80"]);
    daemon.freeze();
    signal(pid(&running), Signal::INT);
    let mut asked = 0;
    wait_until("the end of the command", LONG, || {
        asked += 1;
        signal(pid(&running), Signal::INT);
        running.child.try_wait().unwrap().is_some()
    });
    daemon.thaw();
    assert_eq!(code(&mut running), Some(3), "asked {asked} times");
    running.said("interrupted before the daemon confirmed");
}

#[test]
fn a_lease_out_of_range_is_refused_in_the_daemons_words() {
    let daemon = Daemon::start();
    let answer = daemon.tenure(&["register", "App", "http", "80", "--lease", "100000", "--quiet"]);
    assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{}", answer.err);
    assert!(answer.err.contains("(ttl_out_of_range)"), "{}", answer.err);
}
