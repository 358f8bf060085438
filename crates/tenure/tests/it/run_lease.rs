//! `tenure run` with a real daemon: what it holds, when it lets go, and what it leaves behind: nothing.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::run_desk::RunDesk;
use crate::run_support::{LONG, boot_ms, holds_for, is_running, signal, wait_until};

/// Nobody loses this one by accident.
const HOLD: &[&str] = &["--resource", "r"];
/// Short, so that losing it does not take long; and long enough for a busy machine to keep it for a while.
const LOSE: &[&str] = &["--resource", "r", "--ttl", "4s"];
const TTL_MS: u64 = 4_000;
/// Where something has to be done before it is lost.
const LOSE_LATER: &[&str] = &["--resource", "r", "--ttl", "8s"];
const LATER_TTL_MS: u64 = 8_000;

/// Writes its process id, then goes on for ever.
fn endless(name: &str) -> String {
    format!("echo $$ >{name}; while :; do sleep 0.05; done")
}

#[test]
pub(crate) fn exit_code_input_output_and_environment_are_the_commands_own() {
    let desk = RunDesk::open();
    let script = "echo \"$TENURE_LEASE_ID $TENURE_EPOCH $TENURE_FENCE $TENURE_RESOURCES $TENURE_DEADLINE\"; \
                  read word; echo \"got $word\"; echo talk >&2; exit 7";
    let mut run = desk.begin(HOLD, script);
    run.input().write_all(b"hello\n").unwrap();
    assert_eq!(run.code(), 7);
    let output = run.output();
    let (first, second) = output.split_once('\n').unwrap();
    assert_eq!(second, "got hello\n");
    let words: Vec<&str> = first.split(' ').collect();
    assert!(words[0].contains('-'), "{first}");
    assert_eq!((words[1], words[3]), ("1", "r"));
    assert!(words[2].parse::<u64>().unwrap() > 0);
    assert!(words[4].ends_with('Z') && words[4].len() == "2026-02-07T22:15:00.000Z".len(), "{first}");
    assert_eq!(run.errors(), "talk\n");
}

#[test]
fn a_command_finds_credentials_only_if_it_should() {
    let desk = RunDesk::open();
    let found = |flags: &[&str]| {
        let words = [&["run"], HOLD, flags, &["--", "sh", "-c", "echo \"[$TENURE_TOKEN]\""]].concat();
        let mut run = desk.begin_with(desk.command(&words).env("TENURE_TOKEN", "s3cret"));
        assert_eq!(run.code(), 0, "{}", run.errors());
        run.output()
    };
    assert_eq!(found(&[]), "[]\n");
    assert_eq!(found(&["--keep-credentials"]), "[s3cret]\n");
}

#[test]
pub(crate) fn the_lease_is_held_meanwhile_and_released_at_once() {
    let desk = RunDesk::open();
    let mut first = desk.begin(HOLD, "echo $TENURE_FENCE; read word");
    let mut input = first.input();
    first.wait_for_output("\n");
    let refused = desk.tenure(&["run", "--resource", "r", "--", "echo", "never"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert!(refused.err.contains("resource_held") && refused.err.contains("hint: "), "{}", refused.err);
    let mut second = desk.begin(&[HOLD, &["--wait", "20s"]].concat(), "echo $TENURE_FENCE");
    input.write_all(b"go\n").unwrap();
    assert_eq!((first.code(), second.code()), (0, 0));
    let fence = |text: String| text.trim().parse::<u64>().unwrap();
    assert!(fence(second.output()) > fence(first.output()));
    let began_ms = boot_ms();
    assert_eq!(desk.tenure(&["run", "--resource", "r", "--", "true"]).code, 0);
    assert!(boot_ms() - began_ms < 15_000);
}

#[test]
pub(crate) fn members_of_a_pool_are_named_in_the_environment() {
    let desk = RunDesk::open();
    assert_eq!(desk.tenure(&["pool", "set", "gpu", "3"]).code, 0);
    let flags = ["run", "--resource", "r", "--pool", "gpu=2", "--", "sh", "-c", "echo \"$TENURE_RESOURCES\""];
    let answer = desk.tenure(&flags);
    assert_eq!((answer.code, answer.out.lines().count()), (0, 3), "{}{}", answer.out, answer.err);
    assert_eq!(answer.out.lines().filter(|line| line.starts_with("gpu/")).count(), 2);
}

#[test]
fn without_a_daemon_nothing_is_run() {
    let mut desk = RunDesk::open();
    desk.kill_daemon();
    let (file, name) = desk.file("file");
    let answer = desk.tenure(&["run", "--resource", "r", "--wait", "5s", "--", "touch", &name]);
    assert_eq!(answer.code, 3, "{}", answer.err);
    assert!(!file.exists());
}

#[test]
pub(crate) fn a_command_that_cannot_be_run_frees_the_lease() {
    let desk = RunDesk::open();
    let (file, name) = desk.file("file");
    std::fs::write(file, "text").unwrap();
    for (command, code) in [("no-such-command-anywhere", 127), (name.as_str(), 126)] {
        let answer = desk.tenure(&["run", "--resource", "r", "--", command]);
        assert_eq!(answer.code, code, "{}", answer.err);
        assert!(answer.err.starts_with("error: cannot run "), "{}", answer.err);
    }
    assert_eq!(desk.tenure(&["run", "--resource", "r", "--", "true"]).code, 0);
}

#[test]
fn wrong_usage_is_told_before_anything_is_asked() {
    let desk = RunDesk::open();
    for arguments in [
        &["run", "--", "true"][..],
        &["run", "--resource", "r"],
        &["run", "--resource", "r", "--ttl", "500ms", "--", "true"],
        &["run", "--resource", "r", "--ttl", "6s", "--kill-after", "3s", "--", "true"],
        &["run", "--resource", "r", "--term-signal", "STOP", "--", "true"],
        &["run", "--resource", "r", "--on-lost", "shrug", "--", "true"],
    ] {
        let answer = desk.tenure(arguments);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{arguments:?} {}", answer.err);
        assert!(answer.err.contains("\nhint: "), "{arguments:?} {}", answer.err);
    }
}

#[test]
fn signals_are_passed_on_and_the_end_is_waited_for() {
    let desk = RunDesk::open();
    let script = "trap 'echo term' TERM; trap 'echo int; exit 9' INT; trap 'echo winch' WINCH; trap 'echo rt' 40; \
                  echo ready; while :; do sleep 0.02; done";
    let mut run = desk.begin(HOLD, script);
    run.wait_for_output("ready\n");
    for (number, text) in
        [(Signal::TERM, "term\n"), (Signal::TERM, "term\nterm\n"), (Signal::WINCH, "winch\n")]
    {
        run.signal(number);
        run.wait_for_output(text);
    }
    let by_number = Command::new("sh").args(["-c", &format!("kill -40 {}", run.supervisor())]).status();
    assert!(by_number.unwrap().success());
    run.wait_for_output("rt\n");
    run.signal(Signal::INT);
    assert_eq!(run.code(), 9);
    assert!(run.output().ends_with("int\n"));
    assert_eq!(desk.tenure(&["run", "--resource", "r", "--", "true"]).code, 0);
}

#[test]
pub(crate) fn dying_of_a_signal_is_told_as_shells_do_and_frees_the_lease() {
    let desk = RunDesk::open();
    let mut run = desk.begin(HOLD, "echo ready; while :; do sleep 0.02; done");
    run.wait_for_output("ready\n");
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 143);
    assert_eq!(desk.tenure(&["run", "--resource", "r", "--", "true"]).code, 0);
}

#[test]
fn ignored_signals_stay_ignored() {
    let desk = RunDesk::open();
    let (file, name) = desk.file("pid");
    let script = format!("trap '' HUP; exec \"$0\" run --resource r -- sh -c '{}'", endless(&name));
    let tenure = desk.command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(tenure.get_program());
    shell.envs(tenure.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut run = desk.begin_with(&mut shell);
    let main = run.pid_in(&file);
    run.signal(Signal::HUP);
    assert!(holds_for(Duration::from_millis(200), || is_running(main)));
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 143);
}

#[test]
pub(crate) fn what_a_command_leaves_behind_is_ended_before_the_lease_is_released() {
    let desk = RunDesk::open();
    let (file, name) = desk.file("pid");
    let script = format!(
        "setsid sh -c 'setsid sh -c \"trap \\\"\\\" TERM; {}\" &' & while ! test -s {name}; do sleep 0.01; done; exit 4",
        endless(&name).replace('$', "\\$")
    );
    let mut run = desk.begin(HOLD, &script);
    let daemon = run.pid_in(&file);
    assert_eq!(run.code(), 4);
    assert!(!is_running(daemon));
    assert!(run.errors().contains("left processes behind"), "{}", run.errors());
}

#[test]
pub(crate) fn a_stopped_supervisor_does_not_keep_the_command_running() {
    let desk = RunDesk::open();
    let (file, name) = desk.file("pid");
    let mut run = desk.begin(LOSE, &format!("trap '' TERM; {}", endless(&name)));
    let main = run.pid_in(&file);
    run.signal(Signal::STOP);
    let stopped_ms = boot_ms();
    wait_until("the end of the command", LONG, || !is_running(main));
    assert!(boot_ms() - stopped_ms < TTL_MS);
    let mut next = desk.begin(&["--resource", "r", "--wait", "20s"], "exit 0");
    assert_eq!(next.code(), 0);
    run.signal(Signal::CONT);
    assert_eq!(run.code(), 75, "{}", run.errors());
}

#[test]
pub(crate) fn a_killed_supervisor_does_not_keep_the_command_running() {
    let desk = RunDesk::open();
    let (file, name) = desk.file("pid");
    let (below_file, below_name) = desk.file("below");
    let script = format!("setsid sh -c 'trap \"\" TERM; {}' & {}", endless(&below_name), endless(&name));
    let mut run = desk.begin(LOSE_LATER, &script);
    let main = run.pid_in(&file);
    let below = run.pid_in(&below_file);
    let guardian = run.guardian();
    run.signal(Signal::KILL);
    let killed_ms = boot_ms();
    wait_until("the end of everything", LONG, || ![main, below, guardian].into_iter().any(is_running));
    assert!(boot_ms() - killed_ms < LATER_TTL_MS);
    assert_eq!(desk.begin(&["--resource", "r", "--wait", "20s"], "exit 0").code(), 0);
}

#[test]
fn a_killed_guardian_takes_everything_with_it() {
    let desk = RunDesk::open();
    let (file, name) = desk.file("pid");
    let (below_file, below_name) = desk.file("below");
    let script = format!("setsid sh -c 'trap \"\" TERM; {}' & {}", endless(&below_name), endless(&name));
    for cgroup in [&[][..], &["--no-cgroup"]] {
        let mut run = desk.begin(&[HOLD, cgroup].concat(), &script);
        let main = run.pid_in(&file);
        let below = run.pid_in(&below_file);
        let guardian = run.guardian();
        signal(guardian, Signal::KILL);
        assert_eq!(run.code(), 3, "{}", run.errors());
        assert!(![main, below].into_iter().any(is_running));
        assert!(run.errors().contains("the guardian process was killed"), "{}", run.errors());
        assert_eq!(desk.tenure(&["run", "--resource", "r", "--", "true"]).code, 0);
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(&below_file).unwrap();
    }
}

#[test]
fn a_stopped_guardian_is_replaced_by_the_supervisor_in_time() {
    let mut desk = RunDesk::open();
    let (file, name) = desk.file("pid");
    let (below_file, below_name) = desk.file("below");
    let script = format!("setsid sh -c '{}' & {}", endless(&below_name), endless(&name));
    let mut run = desk.begin(LOSE_LATER, &script);
    let main = run.pid_in(&file);
    let below = run.pid_in(&below_file);
    let guardian = run.guardian();
    signal(guardian, Signal::STOP);
    desk.kill_daemon();
    let killed_ms = boot_ms();
    wait_until("the end of everything", LONG, || ![main, below, guardian].into_iter().any(is_running));
    assert!(boot_ms() - killed_ms < LATER_TTL_MS);
    assert_eq!(run.code(), 75, "{}", run.errors());
}

#[test]
fn a_daemon_that_comes_back_in_time_is_hardly_noticed() {
    let mut desk = RunDesk::open();
    let mut run = desk.begin(HOLD, "echo ready; read word; exit 3");
    let mut input = run.input();
    run.wait_for_output("ready\n");
    desk.kill_daemon();
    desk.start_daemon();
    assert!(holds_for(Duration::from_millis(500), || !run.is_over()), "{}", run.errors());
    input.write_all(b"go\n").unwrap();
    assert_eq!(run.code(), 3);
    assert_eq!(desk.tenure(&["run", "--resource", "r", "--", "true"]).code, 0);
}

#[test]
fn a_daemon_that_stays_away_ends_the_command_before_the_promise_ends() {
    let mut desk = RunDesk::open();
    let (file, name) = desk.file("pid");
    let mut run = desk.begin(LOSE, &format!("trap '' TERM; {}", endless(&name)));
    let main = run.pid_in(&file);
    desk.kill_daemon();
    let killed_ms = boot_ms();
    wait_until("the end of the command", LONG, || !is_running(main));
    assert!(boot_ms() - killed_ms < TTL_MS);
    assert_eq!(run.code(), 75);
    assert!(
        run.errors().contains("error: tenure run lost the lease and ended the command"),
        "{}",
        run.errors()
    );
}

#[test]
fn a_frozen_daemon_ends_the_command_before_the_promise_ends() {
    let desk = RunDesk::open();
    let (file, name) = desk.file("pid");
    let mut run = desk.begin(LOSE, &format!("trap 'echo asked; exit 0' TERM; {}", endless(&name)));
    let main = run.pid_in(&file);
    signal(desk.daemon(), Signal::STOP);
    let stopped_ms = boot_ms();
    wait_until("the end of the command", LONG, || !is_running(main));
    assert!(boot_ms() - stopped_ms < TTL_MS);
    // That the command complied with code 0 does not mean that its work was done.
    assert_eq!(run.code(), 75);
    assert_eq!(run.output(), "asked\n");
    signal(desk.daemon(), Signal::CONT);
    assert_eq!(desk.begin(&["--resource", "r", "--wait", "20s"], "exit 0").code(), 0);
}

#[test]
pub(crate) fn a_revoked_lease_ends_the_command_and_frees_the_resource_at_once() {
    let desk = RunDesk::open();
    let flags = ["--resource", "r", "--ttl", "12s"];
    let mut run = desk.begin(&flags, "echo $TENURE_LEASE_ID; while :; do sleep 0.05; done");
    run.wait_for_output("\n");
    let mut next = desk.begin(&["--resource", "r", "--wait", "30s"], "exit 0");
    let revoked = desk.tenure(&["lease", "revoke", run.output().trim(), "--yes"]);
    assert_eq!(revoked.code, 0, "{}", revoked.err);
    assert_eq!(run.code(), 75, "{}", run.errors());
    let ended_ms = boot_ms();
    assert_eq!(next.code(), 0);
    assert!(boot_ms() - ended_ms < 3_000, "acknowledging spares the rest of the promise");
}

#[test]
pub(crate) fn a_drain_is_told_once_and_the_command_may_end_by_itself() {
    let desk = RunDesk::open();
    let flags = ["--resource", "r", "--ttl", "12s", "--drain-signal", "USR1"];
    let script = "trap 'echo drained' USR1; echo $TENURE_LEASE_ID; \
                  while :; do sleep 0.05; test -e stop && exit 6; done";
    let mut command = desk.command(&[&["run"], &flags[..], &["--", "sh", "-c", script]].concat());
    command.current_dir(desk.path());
    let mut run = desk.begin_with(&mut command);
    run.wait_for_output("\n");
    let drained = desk.tenure(&["lease", "drain", run.output().trim(), "--yes"]);
    assert_eq!(drained.code, 0, "{}", drained.err);
    run.wait_for_output("drained\n");
    std::fs::write(desk.path().join("stop"), "").unwrap();
    assert_eq!(run.code(), 6, "{}", run.errors());
    assert_eq!(run.output().matches("drained").count(), 1);
}

#[test]
pub(crate) fn who_only_wants_a_warning_gets_one() {
    let desk = RunDesk::open();
    let flags = ["--resource", "r", "--ttl", "6s", "--on-lost", "warn"];
    let mut run = desk.begin(&flags, "echo $TENURE_LEASE_ID; read word; exit 2");
    let mut input = run.input();
    run.wait_for_output("\n");
    assert_eq!(desk.tenure(&["lease", "revoke", run.output().trim(), "--yes"]).code, 0);
    wait_until("a warning", LONG, || run.errors().contains("warning: the lease is lost"));
    assert!(!run.is_over());
    input.write_all(b"go\n").unwrap();
    assert_eq!(run.code(), 2);
}

#[test]
pub(crate) fn an_interrupted_wait_runs_nothing_and_takes_nothing() {
    let desk = RunDesk::open();
    let mut holder = desk.begin(HOLD, "echo ready; read word");
    let mut input = holder.input();
    holder.wait_for_output("ready\n");
    let (file, name) = desk.file("file");
    let mut waiting = desk.begin(&["--resource", "r", "--wait", "60s"], &format!("touch {name}"));
    wait_until("a waiter", LONG, || desk.has_waiter("r"));
    waiting.signal(Signal::INT);
    assert_eq!(waiting.code(), 130);
    input.write_all(b"go\n").unwrap();
    assert_eq!(holder.code(), 0);
    assert!(!file.exists());
    assert_eq!(desk.tenure(&["run", "--resource", "r", "--", "true"]).code, 0);
}

#[test]
fn a_wait_survives_the_restart_of_the_daemon() {
    let mut desk = RunDesk::open();
    let mut holder = desk.begin(HOLD, "echo ready; read word");
    let mut input = holder.input();
    holder.wait_for_output("ready\n");
    let mut waiting = desk.begin(&["--resource", "r", "--wait", "60s"], "echo mine");
    wait_until("a waiter", LONG, || desk.has_waiter("r"));
    desk.kill_daemon();
    desk.start_daemon();
    input.write_all(b"go\n").unwrap();
    assert_eq!(holder.code(), 0);
    assert_eq!(waiting.code(), 0, "{}", waiting.errors());
    assert_eq!(waiting.output(), "mine\n");
}
