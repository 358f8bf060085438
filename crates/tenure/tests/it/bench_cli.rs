//! `tenure bench`: a load on real daemons, which hold nothing of it afterwards.

use std::fs;
use std::process::{Child, Command, Stdio};

use expect_test::{Expect, expect};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli_desk::Desk;
use crate::cli_terminal::at_terminal;
use crate::daemon::{Daemon, LIMIT};
use crate::fixture::Answer;
use crate::run_support::wait_until;
use crate::security::with_tokens;

/// Ends the program if the test fails before it does.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn answer(mut self) -> Answer {
        let mut code = None;
        wait_until("the end of the load", LIMIT, || {
            code = self.0.try_wait().unwrap();
            code.is_some()
        });
        let text = |pipe: &mut dyn std::io::Read| {
            let mut text = String::new();
            pipe.read_to_string(&mut text).unwrap();
            text
        };
        let out = text(self.0.stdout.as_mut().unwrap());
        let err = text(self.0.stderr.as_mut().unwrap());
        Answer { code: code.unwrap().code().unwrap(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Transport, work and number under way of every row.
fn rows(report: &Value) -> Vec<String> {
    let rows = report["rows"].as_array().unwrap();
    rows.iter()
        .map(|row| {
            let word = |key: &str| row[key].as_str().unwrap().to_owned();
            format!("{} {} {}", word("transport"), word("work"), row["in_flight"])
        })
        .collect()
}

fn held(daemon: &Daemon) -> usize {
    let page = daemon.get("/v1/leases?state=active").json();
    page["leases"].as_array().unwrap().len()
}

#[track_caller]
fn report(answer: &Answer) -> Value {
    assert_eq!(answer.code, 0, "{}", answer.all());
    serde_json::from_str(&answer.out).unwrap()
}

fn check(arguments: &[&str], expected: Expect) {
    expected.assert_eq(&Desk::new().tenure(arguments).all());
}

#[test]
fn a_daemon_started_for_the_load_is_measured_and_leaves_nothing() {
    let desk = Desk::new();
    let place = desk.path().join("place");
    fs::create_dir(&place).unwrap();
    let answer = desk.tenure(&[
        "bench",
        "--json",
        "--spawn",
        "--spawn-in",
        "DIR/place",
        "--in-flight",
        "1,12",
        "--count",
        "60",
    ]);
    let report = report(&answer);
    assert_eq!(report["complete"], true);
    assert_eq!(
        rows(&report),
        [
            "socket acquire 1",
            "socket heartbeat 1",
            "socket release 1",
            "socket acquire 12",
            "socket heartbeat 12",
            "socket release 12",
            "http acquire 1",
            "http heartbeat 1",
            "http release 1",
            "http acquire 12",
            "http heartbeat 12",
            "http release 12",
        ]
    );
    for row in report["rows"].as_array().unwrap() {
        assert_eq!((&row["answered"], &row["errors"]), (&60.into(), &0.into()), "{row}");
        let us = |key: &str| row[key].as_f64().unwrap();
        assert!(0.0 < us("p50_us") && us("p50_us") <= us("p99_us") && us("p99_us") <= us("max_us"), "{row}");
        assert!(us("per_second") > 0.0 && us("daemon_cpu_us") >= 0.0, "{row}");
        let connections = if row["transport"] == "http" { 12 } else { 8 };
        assert_eq!(row["connections"], if row["in_flight"] == 1 { 1 } else { connections }, "{row}");
    }
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    assert!(
        answer.err.starts_with("note: the temporary daemon's data is in DIR/place/tenure-bench-"),
        "{}",
        answer.err
    );
}

#[test]
fn a_running_daemon_holds_nothing_of_it_afterwards() {
    let daemon = Daemon::start();
    let answer =
        daemon.tenure(&["bench", "--duration", "50ms", "--in-flight", "4", "--work", "heartbeat,acquire"]);
    assert_eq!(answer.code, 0, "{}", answer.all());
    let lines: Vec<Vec<&str>> =
        answer.out.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(
        lines,
        [
            ["TRANSPORT", "WORK", "IN"],
            ["socket", "acquire", "4"],
            ["socket", "heartbeat", "4"],
            ["http", "acquire", "4"],
            ["http", "heartbeat", "4"],
        ]
    );
    assert!(!answer.err.contains('['), "no bar without a terminal: {}", answer.err);
    assert_eq!(held(&daemon), 0);
}

#[test]
fn work_that_needs_leases_takes_them_first() {
    let daemon = Daemon::start();
    for work in ["heartbeat", "release"] {
        let answer = daemon.tenure(&[
            "bench",
            "--json",
            "--transport",
            "http",
            "--in-flight",
            "3",
            "--count",
            "40",
            "--work",
            work,
        ]);
        let report = report(&answer);
        assert_eq!(rows(&report), [format!("http {work} 3")]);
        assert_eq!(report["rows"][0]["answered"], 40);
        assert_eq!(held(&daemon), 0);
    }
}

#[test]
fn an_interrupted_load_gives_everything_back() {
    let daemon = Daemon::start();
    for transport in ["socket", "http"] {
        let arguments = ["bench", "--json", "--transport", transport, "--in-flight", "5", "--duration", "5m"];
        let load = Running::start(&mut daemon.desk.command(&arguments));
        wait_until("leases of the load", LIMIT, || held(&daemon) > 20);
        load.signal(Signal::INT);
        let answer = load.answer();
        assert_eq!(answer.code, 130, "{}", answer.all());
        let report: Value = serde_json::from_str(&answer.out).unwrap();
        assert_eq!((&report["complete"], rows(&report).len()), (&false.into(), 0));
        assert!(answer.err.ends_with("note: interrupted; the measurement is incomplete\n"), "{}", answer.err);
        assert_eq!(held(&daemon), 0);
    }
}

#[test]
fn a_daemon_that_dies_ends_the_load() {
    let mut daemon = Daemon::start();
    let load = Running::start(&mut daemon.desk.command(&["bench", "--in-flight", "5", "--duration", "5m"]));
    wait_until("leases of the load", LIMIT, || held(&daemon) > 20);
    daemon.kill();
    let answer = load.answer();
    assert_eq!(answer.code, 3, "{}", answer.all());
    assert!(answer.err.contains("may still be held; they end within"), "{}", answer.err);
    assert!(answer.err.contains("\nerror: the daemon closed a connection: "), "{}", answer.err);
}

#[test]
fn a_daemon_that_refuses_is_not_measured() {
    let daemon = with_tokens(&[("eye", "read")], &[]);
    let http = format!("http://{}", daemon.address());
    let answer = daemon.tenure(&[
        "bench",
        "--endpoint",
        &http,
        "--token",
        "secret-eye",
        "--transport",
        "http",
        "--in-flight",
        "2",
        "--count",
        "10",
    ]);
    assert_eq!(answer.code, 1, "{}", answer.all());
    assert!(
        answer.err.ends_with(
            "note: http acquire, 2 in flight: rejected with forbidden × 10\n\
             error: http acquire, 2 in flight: the daemon rejects every request with forbidden\n"
        ),
        "{}",
        answer.err
    );
}

#[test]
fn a_daemon_without_a_socket_is_measured_over_http() {
    let daemon = Daemon::start_with(&["--socket", ""]);
    let arguments = ["bench", "--in-flight", "1", "--count", "5"];
    let answer = daemon.tenure(&arguments);
    assert_eq!(answer.code, 0, "{}", answer.all());
    assert_eq!(answer.out.lines().count(), 4);
    assert!(answer.err.contains("no socket on this machine; measuring HTTP only"), "{}", answer.err);
    let answer = daemon.tenure(&[&arguments[..], &["--transport", "socket", "--quiet"]].concat());
    expect![[r#"
        exit 2
        --- out
        --- err
        error: the daemon has no socket on this machine
        hint: use --transport http
    "#]]
    .assert_eq(&answer.all());
}

#[test]
fn a_terminal_shows_a_bar_and_then_the_table() {
    let daemon = Daemon::start();
    let mut command =
        daemon.desk.command(&["bench", "--transport", "socket", "--in-flight", "3", "--duration", "300ms"]);
    let shown = at_terminal(command.env("TERM", "xterm"), 120, "");
    assert_eq!(shown.code, 0, "{}", shown.text);
    let bar = shown.text.find("%  socket acquire, 3 in flight").expect("a bar");
    let table = shown.text.find("TRANSPORT").expect("a table");
    assert!(bar < table, "{}", shown.text);
    let quiet = at_terminal(command.arg("--quiet"), 120, "");
    assert!(quiet.text.starts_with("TRANSPORT"), "{}", quiet.text);
}

#[test]
fn without_a_daemon_nothing_is_measured() {
    check(
        &["bench"],
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
fn everything_has_a_limit() {
    for (arguments, line) in [
        (&["--in-flight", "0"][..], "error: invalid value '0' for '--in-flight <N,…>': expected 1 to 1024"),
        (
            &["--in-flight", "1,9999"],
            "error: invalid value '9999' for '--in-flight <N,…>': expected 1 to 1024",
        ),
        (&["--count", "500001"], "error: invalid value '500001' for '--count <N>': expected 1 to 500000"),
        (&["--duration", "1h"], "error: --duration 1h: expected 50ms to 10m"),
        (&["--count", "1", "--duration", "1s"], "error: the argument '--count <N>' cannot be used with"),
        (&["--spawn-in", "DIR"], "error: the following required arguments were not provided: --spawn"),
    ] {
        let answer = Desk::new().tenure(&[&["bench"], arguments].concat());
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{arguments:?}");
        assert!(answer.err.starts_with(line), "{}", answer.err);
    }
}
