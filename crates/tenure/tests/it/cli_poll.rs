//! `tenure poll run` as somebody meets it who has a list of things and a command that looks at one of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::cli_desk::Desk;
use crate::cli_poll_desk::{PollDesk, TTL};
use crate::run_support::{Cleanup, LONG, holds_for, is_running, number_in, wait_until};

#[test]
fn every_target_is_polled_and_told_of() {
    let desk = PollDesk::open(&["s1", "s 2", "# not this one", "", "http://h/x?y=1"]);
    let words = "echo \"$0 $TENURE_TARGET $TENURE_GROUP\" >> \"$1\"; echo loud; test -z \"$(cat)\"";
    let mut poller = desk.poller(&["--group", "web"], &["sh", "-c", words, "x={target}", "DIR/polled"]);
    let mut seen = BTreeSet::new();
    for target in ["s1", "s 2", "http://h/x?y=1"] {
        let record = poller.wait_for_record(target, |record| record["target"] == target);
        assert_eq!(record["outcome"], "ok", "{record}");
        assert_eq!((&record["exit_code"], &record["fault"]), (&0.into(), &Value::Null), "{record}");
        assert!(record["fence"].as_u64().unwrap() > 0, "{record}");
        assert!(record["duration_ms"].as_u64().is_some(), "{record}");
        seen.insert(record["instance"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.len(), 1, "one poller, one instance");
    let polled = desk.read("polled");
    for line in ["x=s1 s1 web", "x=s 2 s 2 web", "x=http://h/x?y=1 http://h/x?y=1 web"] {
        assert!(polled.lines().any(|polled| polled == line), "{line:?} in {polled}");
    }
    // It goes on, and what commands print is not among the records.
    poller.wait_for_poll("s1");
    assert!(poller.running.errors().contains("\nloud\n"), "{}", poller.running.errors());
    assert_eq!(poller.stop(), 0, "{}", poller.running.errors());
    let left = desk.object(&["nodes", "--group", "web"]);
    assert_eq!(left["live_nodes"], serde_json::json!([]), "{left}");
}

#[test]
fn output_of_commands_is_that_of_the_poller_unless_records_are_asked_for() {
    let desk = PollDesk::open(&["s1"]);
    let words = [
        "poll",
        "run",
        "--targets",
        "DIR/targets",
        "--every",
        "200ms",
        "--timeout",
        "20s",
        "--log-format",
        "text",
        "--log-level",
        "debug",
        "--",
    ];
    let command = ["sh", "-c", "echo out {target} $TENURE_POLL_ID; echo err {target} >&2"];
    let mut poller = desk.begin(&mut desk.desk.command(&[&words[..], &command].concat()));
    poller.running.wait_for_output("out s1 2\n");
    assert!(poller.running.output().starts_with("out s1 1\n"), "{}", poller.running.output());
    let errors = poller.running.errors();
    assert!(errors.contains("\nerr s1\n"), "{errors}");
    assert!(errors.contains("INFO") && errors.contains("lease acquired"), "{errors}");
    assert_eq!(poller.stop(), 0);
}

#[test]
fn the_fence_and_the_end_of_validity_are_in_the_environment() {
    let desk = PollDesk::open(&["s1"]);
    let script = "echo $TENURE_FENCE $TENURE_VALID_UNTIL $TENURE_INSTANCE >> \"$0\"";
    let mut poller = desk.poller(&["--name", "kitchen"], &["sh", "-c", script, "DIR/polled"]);
    let record = poller.wait_for_poll("s1");
    let polled = desk.read("polled");
    let words: Vec<&str> = polled.lines().next().unwrap().split(' ').collect();
    assert_eq!(words[0], record["fence"].to_string());
    assert!(words[1].ends_with('Z') && words[1].len() == "2026-02-07T22:15:00.000Z".len(), "{polled}");
    assert!(words[1] > record["started_at"].as_str().unwrap(), "{polled} {record}");
    assert!(words[2].starts_with("kitchen~"), "{polled}");
    poller.stop();
}

#[test]
fn a_file_that_changes_is_followed() {
    let desk = PollDesk::open(&["a", "b"]);
    let mut poller = desk.poller(&["--log-level", "debug"], &["true", "{target}"]);
    poller.wait_for_poll("a");
    desk.write_targets(&["b", "c"]);
    poller.wait_for_poll("c");
    wait_until("a without a poller", LONG, || !desk.owners().iter().any(|(target, _)| target == "a"));
    poller.wait_for_words("target_removed");
    // A file that is gone is told of and takes nothing away.
    fs::remove_file(desk.path("targets")).unwrap();
    poller.wait_for_words("cannot be read now");
    poller.wait_for_poll("c");
    desk.write_targets(&["d"]);
    poller.wait_for_poll("d");
    assert_eq!(poller.stop(), 0);
}

#[test]
fn targets_come_from_standard_input_once() {
    let desk = PollDesk::open(&[]);
    let words = [
        "poll",
        "run",
        "--json",
        "--targets",
        "-",
        "--every",
        "200ms",
        "--timeout",
        "20s",
        "--",
        "true",
        "{target}",
    ];
    let mut poller = desk.begin(&mut desk.desk.command(&words));
    let mut input = poller.running.input();
    input.write_all(b"one\ntwo\n").unwrap();
    drop(input);
    poller.wait_for_poll("one");
    poller.wait_for_record("two", |record| record["target"] == "two");
    assert_eq!(poller.stop(), 0);
}

#[test]
fn what_is_held_in_the_daemon_is_polled_by_its_name() {
    let desk = PollDesk::open(&[]);
    let acquire = |name: &str| {
        let words = ["lease", "acquire", name, "--holder", "me", "--permanent"];
        assert_eq!(desk.desk.tenure(&words).code, 0, "{name}");
    };
    acquire("cam/1");
    acquire("other");
    let mut poller = desk.poller(&["--targets", "prefix:cam/"], &["true", "{target}"]);
    poller.wait_for_poll("cam/1");
    acquire("cam/2");
    poller.wait_for_poll("cam/2");
    assert_eq!(desk.desk.tenure(&["lease", "revoke", "cam/1", "--yes"]).code, 0);
    wait_until("only cam/2", LONG, || {
        let targets: Vec<String> = desk.owners().into_iter().map(|(target, _)| target).collect();
        targets == ["cam/2"]
    });
    assert_eq!(poller.stop(), 0);
    assert!(poller.records().iter().all(|record| record["target"] != "other"));
}

#[test]
fn a_command_that_fails_is_counted_and_told_once_and_stops_nobody() {
    let desk = PollDesk::open(&["good", "bad", "gone"]);
    let script = "case {target} in bad) exit 7;; gone) kill -9 $$;; esac";
    let mut poller = desk.poller(&["--metrics", "0"], &["sh", "-c", script]);
    let bad = poller.wait_for_record("bad", |record| record["target"] == "bad");
    assert_eq!((&bad["outcome"], &bad["exit_code"]), (&"failed".into(), &7.into()), "{bad}");
    let gone = poller.wait_for_record("gone", |record| record["target"] == "gone");
    assert_eq!((&gone["signal"], &gone["fault"]), (&9.into(), &"killed by SIGKILL".into()), "{gone}");
    for _ in 0..2 {
        poller.wait_for_poll("bad");
        poller.wait_for_poll("good");
    }
    let errors = poller.running.errors();
    assert_eq!(errors.matches("poll failed").count(), 2, "{errors}");
    let page = metrics_of(&errors);
    for line in [
        "tenure_poll_targets{group=\"default\",state=\"owned\"} 3",
        "tenure_poll_paused{group=\"default\"} 0",
        "tenure_poll_unowned_seconds_bucket{le=\"+Inf\"}",
        "tenure_poll_moves_total{group=\"default\",reason=\"ttl_expiry\"} 0",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    let count = |outcome: &str| -> u64 {
        let begins = format!("tenure_poll_runs_total{{group=\"default\",outcome=\"{outcome}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&begins)).unwrap().parse().unwrap()
    };
    assert!(count("ok") >= 2 && count("failed") >= 4, "{page}");
    assert_eq!(poller.stop(), 0);
}

/// Reads the page whose address the poller said.
fn metrics_of(errors: &str) -> String {
    let address = errors.lines().find_map(|line| line.strip_prefix("metrics at http://")).unwrap();
    let mut stream = TcpStream::connect(address.strip_suffix("/metrics").unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("text/plain; version=0.0.4"), "{page}");
    page
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_everything_it_started() {
    let desk = PollDesk::open(&["slow"]);
    let script = "trap '' TERM; sleep 600 & echo $! > \"$0\"; wait; wait; sleep 600";
    let flags = ["--timeout", "500ms", "--ttl", "10s", "--every", "60s"];
    let mut poller = desk.poller(&flags, &["sh", "-c", script, "DIR/child"]);
    let child = number_in(&desk.path("child"));
    let record = poller.wait_for_record("an end", |record| record["target"] == "slow");
    assert_eq!(record["outcome"], "timed_out", "{record}");
    let ms = record["duration_ms"].as_u64().unwrap();
    assert!((300..5_000).contains(&ms), "{record}");
    wait_until("the end of what it started", LONG, || !is_running(child));
    assert_eq!(poller.stop(), 0);
}

#[test]
fn two_pollers_share_and_one_takes_what_the_other_leaves() {
    let desk = PollDesk::open(&["s1", "s2", "s3", "s4", "s5", "s6"]);
    let mut one = desk.poller(&["--name", "one", "--log-level", "debug"], &["true", "{target}"]);
    desk.wait_for_shares(&[("one", 6)]);
    let mut two = desk.poller(&["--name", "two"], &["true", "{target}"]);
    desk.wait_for_shares(&[("one", 3), ("two", 3)]);
    for (target, owner) in desk.owners() {
        let poller = if owner == "one" { &mut one } else { &mut two };
        assert_eq!(poller.wait_for_poll(&target)["outcome"], "ok");
    }
    assert_eq!(one.stop(), 0, "{}", one.running.errors());
    // Handed over, not left to be found: nothing is nobody's for a moment.
    desk.wait_for_shares(&[("two", 6)]);
    assert!(one.running.errors().contains("lease handed over"), "{}", one.running.errors());
    let mut three = desk.poller(&["--name", "three"], &["true", "{target}"]);
    desk.wait_for_shares(&[("two", 3), ("three", 3)]);
    three.running.signal(Signal::KILL);
    assert_eq!(three.running.code(), 137);
    desk.wait_for_shares(&[("two", 6)]);
    two.wait_for_poll("s1");
    assert_eq!(two.stop(), 0);
}

#[test]
fn a_log_for_people_has_one_line_for_each_change_of_the_share() {
    let desk = PollDesk::open(&["s1", "s2", "s3", "s4", "s5", "s6"]);
    let mut one = desk.poller(&["--name", "one", "--log-format", "text"], &["true", "{target}"]);
    desk.wait_for_shares(&[("one", 6)]);
    one.wait_for_words("targets=6");
    let mut two = desk.poller(&["--name", "two"], &["true", "{target}"]);
    desk.wait_for_shares(&[("one", 3), ("two", 3)]);
    one.wait_for_words("targets=3");
    // The share is looked at every second: five polls of each target take longer.
    for _ in 0..5 {
        for (target, _) in desk.owners().iter().filter(|(_, owner)| owner == "one") {
            one.wait_for_poll(target);
        }
    }
    let errors = one.running.errors();
    let number = |line: &str, field: &str| -> u64 {
        line.split(' ').find_map(|word| word.strip_prefix(field)).unwrap().parse().unwrap()
    };
    let lines = errors.lines().filter(|line| line.contains("share of targets changed"));
    let changes: Vec<_> = lines.map(|line| (number(line, "before="), number(line, "targets="))).collect();
    let mut share = 0;
    for (before, after) in &changes {
        assert!(*before == share && after != before, "{changes:?} in {errors}");
        share = *after;
    }
    assert_eq!(share, 3, "{errors}");
    assert!(!errors.contains("lease acquired"), "single targets are in JSON alone: {errors}");
    assert_eq!((one.stop(), two.stop()), (0, 0), "{}", one.running.errors());
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let desk = PollDesk::open(&["s1"]);
    let mut first = desk.poller(&["--name", "kitchen"], &["true", "{target}"]);
    first.wait_for_poll("s1");
    let mut second = desk.poller(&["--name", "kitchen"], &["true", "{target}"]);
    assert_eq!(second.running.code(), 1, "{}", second.running.errors());
    let errors = second.running.errors();
    assert!(errors.contains("kitchen") && errors.contains("hint: choose another --name"), "{errors}");
    first.wait_for_poll("s1");
    assert_eq!(first.stop(), 0);
}

#[test]
fn asked_twice_it_stops_at_once() {
    let desk = PollDesk::open(&["s1"]);
    let script = "trap '' TERM; echo $$ > \"$0\"; while :; do sleep 1; done";
    let flags = ["--timeout", "60s", "--ttl", "60s"];
    let mut poller = desk.poller(&flags, &["sh", "-c", script, "DIR/pid"]);
    let command = number_in(&desk.path("pid"));
    poller.running.signal(Signal::TERM);
    poller.wait_for_words("stopping");
    assert!(holds_for(Duration::from_millis(200), || is_running(command)), "a poll in flight is let finish");
    poller.running.signal(Signal::INT);
    assert_eq!(poller.running.code_within(Duration::from_secs(5)), 1, "{}", poller.running.errors());
    wait_until("the end of the command", LONG, || !is_running(command));
}

#[test]
fn without_a_daemon_nothing_is_polled() {
    let desk = Desk::new();
    fs::write(desk.path().join("targets"), "s1\n").unwrap();
    let words = ["poll", "run", "--targets", "DIR/targets", "--", "touch", "DIR/polled"];
    let none = desk.tenure(&words);
    assert_eq!(none.code, 3, "{}", none.all());
    assert!(none.err.contains("Error: Tenure daemon is not running at"), "{}", none.err);
    let mut command = desk.command(&words);
    let nowhere = desk.answer(command.env("TENURE_ENDPOINT", format!("unix:{}/no", desk.path().display())));
    assert_eq!(nowhere.code, 3, "{}", nowhere.all());
    assert!(nowhere.err.contains("Error: Tenure daemon is not running at"), "{}", nowhere.err);
    assert!(!desk.path().join("polled").exists());
}

#[test]
fn a_command_line_that_makes_no_sense_is_told_before_anything_begins() {
    let desk = Desk::new();
    fs::write(desk.path().join("targets"), "s1\n").unwrap();
    fs::write(desk.path().join("latin1"), b"gr\xfcn\n").unwrap();
    let run = |words: &[&str]| {
        let answer = desk.tenure(&[&["poll", "run"], words].concat());
        (answer.code, answer.err)
    };
    for (words, expected) in [
        (
            &["--targets", "DIR/none", "--store", "redis://127.0.0.1:1", "--", "true"][..],
            "cannot read DIR/none",
        ),
        (&["--targets", "DIR/latin1", "--store", "redis://127.0.0.1:1", "--", "true"], "line 1 is not UTF-8"),
        (&["--targets", "DIR/targets", "--hash", "fnv1a", "--", "true"], "--hash fnv1a requires a Redis"),
        (&["--targets", "DIR/targets", "--prefix", "x:", "--", "true"], "require a Redis"),
        (
            &["--targets", "DIR/targets", "--reconnect-window", "5s", "--", "true"],
            "--reconnect-window requires --name",
        ),
        (&["--targets", "DIR/targets", "--group", "a/b", "--", "true"], "not a valid name for a group"),
        (&["--targets", "DIR/targets", "--ttl", "500ms", "--", "true"], "expected 1s to 24h"),
        (&["--targets", "DIR/targets", "--name", "a/b", "--", "true"], "not a valid name for a poller"),
        (&["--targets", "DIR/targets", "--jitter", "10", "--", "true"], "10%"),
        (&["--targets", "DIR/targets", "--store", "nowhere", "--", "true"], "redis://"),
        (&["--targets", "DIR/targets", "--store", "http://h", "--", "true"], "not a Redis address"),
        (&["--targets", "redis:", "--", "true"], "expected a key pattern"),
        (&["--targets", "DIR/targets"], "COMMAND"),
        (&["--", "true"], "--targets"),
    ] {
        let (code, err) = run(words);
        assert_eq!(code, 2, "{words:?}: {err}");
        assert!(err.contains(expected), "{expected:?} in {err}");
    }
    let (code, err) = run(&["--targets", "DIR/targets", "--", "no-such-command", "{target}"]);
    assert_eq!(code, 127, "{err}");
    assert!(err.starts_with("error: cannot run no-such-command: "), "{err}");
    let (code, err) = run(&["--targets", "DIR/targets", "--", "DIR/targets"]);
    assert_eq!(code, 126, "{err}");
}

#[test]
fn sources_that_need_somebody_else_say_so() {
    let desk = PollDesk::open(&["s1"]);
    let own = desk.tenure(&["run", "--targets", "prefix:poll/web/", "--", "true"]);
    assert_eq!(own.code, 2, "{}", own.all());
    assert!(own.err.contains("polling keeps its own leases"), "{}", own.err);
    let which = desk.tenure(&["run", "--targets", "redis:session:*", "--", "true"]);
    assert_eq!(which.code, 2, "{}", which.all());
    assert!(which.err.contains("hint: name it with --targets-store"), "{}", which.err);
}

#[test]
fn whoever_stops_reading_records_stops_the_poller() {
    let desk = PollDesk::open(&["s1"]);
    let words = [
        "poll",
        "run",
        "--json",
        "--targets",
        "DIR/targets",
        "--ttl",
        TTL,
        "--every",
        "200ms",
        "--timeout",
        "20s",
    ];
    let mut command = desk.desk.command(&[&words[..], &["--", "true"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut cleanup = Cleanup::default();
    cleanup.add(child.id() as i32);
    let mut output = child.stdout.take().unwrap();
    let mut first = [0; 1];
    output.read_exact(&mut first).unwrap();
    drop(output);
    let mut code = None;
    wait_until("the end", LONG, || {
        code = child.try_wait().unwrap().and_then(|status| status.code());
        code.is_some()
    });
    assert_eq!(code, Some(0));
    wait_until("nobody", LONG, || desk.owners().is_empty());
}
