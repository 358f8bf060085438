//! `tenure watch` and `tenure stdio`: what goes on for a while, against a real daemon.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use expect_test::expect;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli_daemon::{Daemon, scrubbed};
use crate::run_support::LONG;

/// A program whose lines are read as they come, ended with the test.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Receiver<String>,
    talk: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let talk = lines_of(child.stderr.take().unwrap());
        Self { child, lines, talk }
    }

    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(LONG).expect("a line within the limit")
    }

    /// Reads what is said until a line has this in it.
    #[track_caller]
    pub(crate) fn said(&self, part: &str) -> String {
        for _ in 0..100 {
            let line = self.talk.recv_timeout(LONG).expect("talk within the limit");
            if line.contains(part) {
                return line;
            }
        }
        panic!("{part} was not said");
    }

    #[track_caller]
    pub(crate) fn object(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn send(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("an open input");
        writeln!(input, "{line}").unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

#[test]
fn a_watch_tells_what_happened_and_what_happens() {
    let daemon = Daemon::start();
    let id = daemon.take(&["printer", "--holder", "alice"]);
    let watch = Running::start(&mut daemon.command(&["watch", "--from", "0"]));
    let mut told = vec![watch.line()];
    daemon.object(&["lease", "release", &id, "--epoch", "1", "--reason", "done"]);
    told.push(watch.line());
    let told = scrubbed(&told.join("\n"), &daemon.tag());
    expect![[r#"
        TIME 1 granted alice holds printer as TAG-1 (heartbeat, ttl SPAN, grace SPAN)
        TIME 2 released alice released TAG-1, printer free: explicit, done
    "#]]
    .assert_eq(&told);
    let mut watch = watch;
    kill_process(Pid::from_child(&watch.child), Signal::INT).unwrap();
    assert_eq!(watch.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_watch_goes_on_over_a_restart_and_misses_nothing() {
    let mut daemon = Daemon::start();
    let watch = Running::start(&mut daemon.command(&["watch", "--json", "--resource-prefix", "p"]));
    // The first event that is told proves that the watch has begun.
    let mut first = 0;
    for round in 0..1_000 {
        daemon.take(&[&format!("p{round}"), "--holder", "alice"]);
        if let Ok(line) = watch.lines.recv_timeout(std::time::Duration::from_millis(20)) {
            first = serde_json::from_str::<Value>(&line).unwrap()["lsn"].as_u64().unwrap();
            break;
        }
    }
    assert!(first > 0);
    daemon.stop();
    watch.said("lost the connection to the daemon");
    daemon.start_again();
    daemon.take(&["printer", "--holder", "bob"]);
    watch.said("reconnected");
    for _ in 0..1_000 {
        let event = watch.object();
        if event["lease"]["holder"] == "bob" {
            assert_eq!(
                (&event["kind"], &event["lease"]["resources"]),
                (&json!("granted"), &json!(["printer"]))
            );
            return;
        }
    }
    panic!("the event after the restart was not told");
}

#[test]
fn a_watch_ends_when_nobody_reads_it() {
    let daemon = Daemon::start();
    daemon.take(&["printer", "--holder", "alice"]);
    let mut command = daemon.command(&["watch", "--from", "0", "--quiet"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("granted"), "{line}");
    drop(output);
    // Nothing more happens, and it ends all the same.
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn lines_are_passed_on_and_every_answer_owed_comes_back() {
    let daemon = Daemon::start();
    let mut stdio = Running::start(daemon.command(&["stdio"]).stdin(Stdio::piped()));
    stdio.send(r#"{"acquire":{"resources":["printer"],"holder":"alice"}}"#);
    let acquired = stdio.object();
    assert_eq!(acquired["acquired"]["holder"], "alice");
    assert!(acquired["acquired"]["session"].as_str().unwrap().starts_with("cli:"));
    stdio.send("nonsense");
    assert_eq!(stdio.object()["error"], "parse_error");
    stdio.send(r#"{"list":{},"tag":"t"}"#);
    assert_eq!(stdio.object()["tag"], "t");
    // The last line needs no end, and its answer comes although the input has ended.
    let mut input = stdio.child.stdin.take().unwrap();
    write!(input, r#"{{"watch":{{}}}}{}{{"status":{{}}}}"#, "\n").unwrap();
    drop(input);
    assert!(stdio.object()["status"]["version"].is_string());
    assert_eq!(stdio.child.wait().unwrap().code(), Some(0));
    assert!(stdio.lines.recv_timeout(LONG).is_err(), "the question at the end is nobody else's");
    // The input was the session.
    assert_eq!(daemon.object(&["lease", "show", "printer"])["liveness"], "draining");
}

/// Errors were taken for the push `lost`, so that a refused line was waited for until the grace was over.
#[test]
fn a_line_that_is_refused_is_answered() {
    let daemon = Daemon::start();
    for line in
        [r#"{"inspect":{"lease_id":"none-1"}}"#, r#"{"inspect":{"lease_id":"none-1"},"tag":1}"#, "garbage"]
    {
        let mut stdio = Running::start(
            daemon.command(&["stdio", "--grace", "1h"]).stdin(Stdio::piped()).stderr(Stdio::piped()),
        );
        stdio.send(line);
        drop(stdio.child.stdin.take());
        assert!(stdio.object()["error"].is_string(), "{line}");
        assert_eq!(stdio.child.wait().unwrap().code(), Some(0), "{line}");
    }
}

#[test]
fn many_lines_at_once_are_all_answered_in_order() {
    const LINES: usize = 20_000;
    let daemon = Daemon::start();
    let mut input: String =
        (0..LINES).map(|_| "{\"check\":{\"resource\":\"printer\",\"fence\":1}}\n").collect();
    input.push_str("{\"status\":{}}");
    std::fs::write(daemon.desk.path().join("lines"), input).unwrap();
    let input = std::fs::File::open(daemon.desk.path().join("lines")).unwrap();
    let answer = daemon.desk.answer(daemon.command(&["stdio", "--quiet"]).stdin(input));
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    let lines: Vec<&str> = answer.out.lines().collect();
    assert_eq!(lines.len(), LINES + 1);
    assert!(lines[..LINES].iter().all(|line| line.starts_with("{\"checked\":")));
    assert!(lines[LINES].starts_with("{\"status\":"));
}

#[test]
fn bare_tenure_without_a_terminal_speaks_lines() {
    let daemon = Daemon::start();
    let mut stdio = Running::start(daemon.command(&[]).stdin(Stdio::piped()));
    stdio.send(r#"{"status":{}}"#);
    assert!(stdio.object()["status"]["version"].is_string());
    drop(stdio.child.stdin.take());
    assert_eq!(stdio.child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_answer_that_takes_time_is_waited_for_after_the_input_has_ended() {
    let daemon = Daemon::start();
    let id = daemon.take(&["printer", "--holder", "alice"]);
    let mut stdio = Running::start(daemon.command(&["stdio", "--grace", "1h"]).stdin(Stdio::piped()));
    stdio.send(r#"{"acquire":{"resources":["printer"],"holder":"bob","wait_ms":30000},"tag":1}"#);
    drop(stdio.child.stdin.take());
    crate::run_support::wait_until("bob waits", LONG, || {
        daemon.object(&["resource", "show", "printer"])["waiters"] == json!(["bob"])
    });
    daemon.object(&["lease", "release", &id, "--epoch", "1"]);
    assert_eq!(stdio.object()["acquired"]["holder"], "bob");
    assert_eq!(stdio.child.wait().unwrap().code(), Some(0));
}

/// A program that died while it waited kept all that it held for as long as the wait lasted.
#[test]
fn what_is_owed_when_the_grace_is_over_keeps_no_session() {
    let daemon = Daemon::start();
    daemon.take(&["printer", "--holder", "alice"]);
    let mut stdio = Running::start(daemon.command(&["stdio", "--grace", "0s"]).stdin(Stdio::piped()));
    stdio.send(r#"{"acquire":{"resources":["held"],"holder":"bob"}}"#);
    assert_eq!(stdio.object()["acquired"]["holder"], "bob");
    stdio.send(r#"{"acquire":{"resources":["printer"],"holder":"bob","wait_ms":3600000},"tag":1}"#);
    crate::run_support::wait_until("bob waits", LONG, || {
        daemon.object(&["resource", "show", "printer"])["waiters"] == json!(["bob"])
    });
    drop(stdio.child.stdin.take());
    assert_eq!(stdio.child.wait().unwrap().code(), Some(1));
    stdio.said("1 answer missing 0s after the end of the input");
    crate::run_support::wait_until("the session is over", LONG, || {
        daemon.object(&["lease", "show", "held"])["liveness"] == "draining"
    });
}

/// With a stream open the session stayed for ever, and so did what it had registered.
#[test]
fn a_stream_does_not_keep_a_session_whose_input_has_ended() {
    let daemon = Daemon::start();
    for (of, stream) in
        [("s", r#""subscribe":"_http._tcp""#), ("b", r#""browse":"_http._tcp""#), ("w", r#""watch":{}"#)]
    {
        for tag in ["", r#","tag":"t""#] {
            let held = format!("{of}/{}", tag.len());
            let mut stdio = Running::start(daemon.command(&["stdio", "--grace", "1h"]).stdin(Stdio::piped()));
            stdio.send(&format!("{{{stream}{tag}}}"));
            let acquire = json!({"acquire": {"resources": [held], "holder": "bob"}, "tag": "mine"});
            stdio.send(&acquire.to_string());
            while stdio.object()["tag"] != "mine" {}
            drop(stdio.child.stdin.take());
            assert_eq!(stdio.child.wait().unwrap().code(), Some(0), "{stream}{tag}");
            crate::run_support::wait_until("the session is over", LONG, || {
                daemon.object(&["lease", "show", &held])["liveness"] == "draining"
            });
        }
    }
}

/// An input that only looks at the network is given the grace to see something, and is done then.
#[test]
fn a_browse_alone_goes_on_for_the_grace_and_ends_well() {
    let daemon = Daemon::start();
    for line in [r#"{"browse":"_http._tcp"}"#, r#"{"subscribe":"_http._tcp","tag":1}"#] {
        let mut stdio = Running::start(daemon.command(&["stdio", "--grace", "100ms"]).stdin(Stdio::piped()));
        stdio.send(line);
        drop(stdio.child.stdin.take());
        assert_eq!(stdio.child.wait().unwrap().code(), Some(0), "{line}");
    }
}

#[test]
fn lines_over_an_address_without_a_socket_are_wrong_usage() {
    let daemon = Daemon::start();
    let http = daemon.object(&["status"])["http"].as_str().unwrap().to_owned();
    let answer = daemon.tenure(&["stdio", "--endpoint", &http, "--quiet"]);
    expect![[r#"
        exit 2
        --- out
        --- err
        error: tenure stdio requires a Unix socket, got http://127.0.0.1:PORT
        hint: use --endpoint unix:/PATH; tenure status shows the path
    "#]]
    .assert_eq(&scrubbed(&answer.all(), &daemon.tag()));
}

#[test]
fn a_daemon_that_goes_away_ends_the_lines() {
    let mut daemon = Daemon::start();
    let mut stdio = Running::start(daemon.command(&["stdio"]).stdin(Stdio::piped()));
    stdio.send(r#"{"status":{}}"#);
    stdio.object();
    daemon.stop();
    assert_eq!(stdio.child.wait().unwrap().code(), Some(3));
    stdio.said("the daemon closed the connection");
}
