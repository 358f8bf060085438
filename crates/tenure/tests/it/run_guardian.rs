//! The guardian alone: the tests speak to it as the supervisor does.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::Signal;
use rustix::time::Timespec;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run_support::{
    Cleanup, LONG, boot_ms, holds_for, is_running, number_in, shown, signal, wait_until,
};

/// A guardian and what is between it and its supervisor, which is the test.
struct Guarded {
    channel: Option<OwnedFd>,
    input: std::io::PipeWriter,
    guardian: Child,
    cleanup: Cleanup,
}

/// How a guardian is begun.
#[derive(Clone, Copy)]
struct Terms {
    valid_ms: Option<u64>,
    kill_after_ms: u64,
    makes_cgroup: bool,
}

const SWEEP_MS: u64 = 200;
const LASTING: Terms = Terms { valid_ms: Some(60_000), kill_after_ms: 400, makes_cgroup: true };

/// With a cgroup where one may be made, and without.
const BOTH: [bool; 2] = [true, false];

impl Guarded {
    fn begin(terms: Terms, command: &[&str]) -> (Self, u64) {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let guardian = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["guardian", "--"])
            .args(command)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut cleanup = Cleanup::default();
        cleanup.add(guardian.id() as i32);
        let guarded = Self { channel: Some(ours), input: writer, guardian, cleanup };
        let valid_until_ms = boot_ms() + terms.valid_ms.unwrap_or(0);
        let begin = json!({"begin": {
            "valid_until": terms.valid_ms.map(|_| valid_until_ms * 1_000_000),
            "kill_after_ms": terms.kill_after_ms,
            "sweep_ms": SWEEP_MS,
            "term_signal": 15,
            "takes_terminal": false,
            "makes_cgroup": terms.makes_cgroup,
        }});
        guarded.send(&begin, Some(reader.into()));
        (guarded, valid_until_ms)
    }

    fn start(terms: Terms, script: &str) -> (Self, u64) {
        let (mut guarded, valid_until_ms) = Self::begin(terms, &["sh", "-c", script]);
        let main = guarded.expect("started")["pid"].as_i64().unwrap() as i32;
        guarded.cleanup.add(main);
        (guarded, valid_until_ms)
    }

    fn send(&self, order: &Value, fd: Option<OwnedFd>) {
        let packet = serde_json::to_vec(order).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        let channel = self.channel.as_ref().unwrap();
        sendmsg(channel, &[IoSlice::new(&packet)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    }

    /// The next report; `None` when the guardian is gone.
    fn report(&self) -> Option<Value> {
        let channel = self.channel.as_ref().unwrap();
        let limit = Timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&limit)), Ok(1), "no report");
        let mut packet = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let iov = &mut [IoSliceMut::new(&mut packet)];
        let length = recvmsg(channel, iov, &mut ancillary, RecvFlags::empty()).map_or(0, |got| got.bytes);
        (length > 0).then(|| serde_json::from_slice(&packet[..length]).unwrap())
    }

    #[track_caller]
    fn expect(&self, kind: &str) -> Value {
        let report = self.report().unwrap_or_else(|| panic!("the guardian ended instead of {kind}"));
        match report {
            Value::String(word) if word == kind => Value::Null,
            Value::Object(mut object) if object.contains_key(kind) => object.remove(kind).unwrap(),
            other => panic!("{other} instead of {kind}"),
        }
    }

    fn output(&mut self) -> String {
        let mut text = String::new();
        self.guardian.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn is_over(&mut self) {
        let guardian = &mut self.guardian;
        wait_until("the end of the guardian", LONG, || guardian.try_wait().unwrap().is_some());
    }
}

impl Drop for Guarded {
    /// A guardian without a supervisor ends what it has to end and tidies up.
    fn drop(&mut self) {
        drop(self.channel.take());
        let is_left = holds_for(LONG, || matches!(self.guardian.try_wait(), Ok(None)));
        assert!(!is_left || std::thread::panicking(), "the guardian does not end");
    }
}

#[test]
fn input_output_and_exit_code_are_the_commands_own() {
    let (mut guarded, _) = Guarded::start(LASTING, "read word; echo \"got $word\"; exit 7");
    guarded.input.write_all(b"hello\n").unwrap();
    assert_eq!(guarded.expect("over"), json!({"code": 7}));
    guarded.expect("gone");
    assert_eq!(guarded.output(), "got hello\n");
    guarded.is_over();
}

#[test]
fn a_command_that_dies_of_a_signal_is_told_so() {
    let (guarded, _) = Guarded::start(LASTING, "kill -USR2 $$");
    assert_eq!(guarded.expect("over"), json!({"signal": 12}));
    guarded.expect("gone");
}

#[test]
fn signals_are_passed_on_to_the_process_group() {
    let script = "trap 'echo usr1; exit 3' USR1; echo ready; while :; do sleep 0.05; done";
    let (mut guarded, _) = Guarded::start(LASTING, script);
    let mut ready = [0; 6];
    guarded.guardian.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    guarded.send(&json!({"pass_on": 10}), None);
    assert_eq!(guarded.expect("over"), json!({"code": 3}));
    guarded.expect("gone");
    assert_eq!(guarded.output(), "usr1\n");
}

#[test]
fn silence_ends_the_command_politely_before_validity_ends() {
    let script = "trap 'exit 5' TERM; while :; do sleep 0.05; done";
    let terms = Terms { valid_ms: Some(1_500), ..LASTING };
    let (guarded, valid_until_ms) = Guarded::start(terms, script);
    assert_eq!(guarded.expect("ending"), "deadline");
    assert!(boot_ms() >= valid_until_ms - SWEEP_MS - terms.kill_after_ms);
    assert_eq!(guarded.expect("over"), json!({"code": 5}));
    guarded.expect("gone");
    assert!(boot_ms() < valid_until_ms);
}

#[test]
fn a_command_that_ignores_the_polite_signal_is_killed_before_validity_ends() {
    for makes_cgroup in BOTH {
        let script = "trap '' TERM; sleep 1000 & sleep 1000 & while :; do sleep 0.05; done";
        let terms = Terms { valid_ms: Some(1_500), makes_cgroup, ..LASTING };
        let (guarded, valid_until_ms) = Guarded::start(terms, script);
        assert_eq!(guarded.expect("ending"), "deadline");
        assert_eq!(guarded.expect("over"), json!({"signal": 9}));
        guarded.expect("gone");
        assert!(boot_ms() < valid_until_ms, "cgroup: {makes_cgroup}");
    }
}

#[test]
fn renewals_move_the_deadline() {
    let terms = Terms { valid_ms: Some(1_500), ..LASTING };
    let (guarded, valid_until_ms) = Guarded::start(terms, "while :; do sleep 0.05; done");
    let later_ms = valid_until_ms + 700;
    guarded.send(&json!({"valid_until": later_ms * 1_000_000}), None);
    guarded.send(&json!({"valid_until": 1}), None);
    assert_eq!(guarded.expect("ending"), "deadline");
    assert!(boot_ms() >= later_ms - SWEEP_MS - terms.kill_after_ms);
    assert_eq!(guarded.expect("over"), json!({"signal": 15}));
    guarded.expect("gone");
}

#[test]
fn renewals_that_came_while_the_guardian_was_stopped_count() {
    let terms = Terms { valid_ms: Some(1_500), ..LASTING };
    let (mut guarded, valid_until_ms) = Guarded::start(terms, "read word; exit 8");
    let guardian = guarded.guardian.id() as i32;
    signal(guardian, Signal::STOP);
    guarded.send(&json!({"valid_until": (valid_until_ms + 60_000) * 1_000_000}), None);
    wait_until("the end of the first validity", LONG, || boot_ms() > valid_until_ms);
    signal(guardian, Signal::CONT);
    assert!(holds_for(Duration::from_millis(100), || guarded.guardian.try_wait().unwrap().is_none()));
    guarded.input.write_all(b"go\n").unwrap();
    assert_eq!(guarded.expect("over"), json!({"code": 8}));
}

#[test]
fn what_a_command_leaves_behind_is_ended_with_it() {
    for makes_cgroup in BOTH {
        let directory = TempDir::new().unwrap();
        let (file, name) = shown(directory.path(), "pid");
        // Twice away from its parent and in a session of its own, as daemons do, and deaf to the polite signal.
        let script = format!(
            "setsid sh -c 'setsid sh -c \"trap \\\"\\\" TERM; echo \\$\\$ >{name}; while :; do sleep 0.05; done\" &' & \
             while ! test -s {name}; do sleep 0.01; done; exit 4"
        );
        let (mut guarded, _) = Guarded::start(Terms { makes_cgroup, ..LASTING }, &script);
        let daemon = guarded.cleanup.add(number_in(&file));
        assert_eq!(guarded.expect("over"), json!({"code": 4}));
        assert_eq!(guarded.expect("ending"), "leftovers");
        guarded.expect("gone");
        assert!(!is_running(daemon), "cgroup: {makes_cgroup}");
        guarded.is_over();
    }
}

#[test]
fn without_a_supervisor_everything_ends_at_once() {
    for makes_cgroup in BOTH {
        let directory = TempDir::new().unwrap();
        let (file, name) = shown(directory.path(), "pid");
        let script = format!("setsid sh -c 'echo $$ >{name}; while :; do sleep 0.05; done' & wait");
        let (mut guarded, valid_until_ms) = Guarded::start(Terms { makes_cgroup, ..LASTING }, &script);
        let below = guarded.cleanup.add(number_in(&file));
        drop(guarded.channel.take());
        guarded.is_over();
        assert!(!is_running(below));
        assert!(boot_ms() < valid_until_ms - 30_000);
    }
}

#[test]
fn the_command_dies_with_its_guardian() {
    let directory = TempDir::new().unwrap();
    let (file, name) = shown(directory.path(), "pid");
    let script = format!("trap '' TERM HUP; echo $$ >{name}; while :; do sleep 0.05; done");
    let (mut guarded, _) = Guarded::start(Terms { makes_cgroup: false, ..LASTING }, &script);
    let main = guarded.cleanup.add(number_in(&file));
    guarded.guardian.kill().unwrap();
    wait_until("the end of the command", LONG, || !is_running(main));
}

#[test]
fn signals_to_the_guardian_itself_change_nothing() {
    let (mut guarded, _) = Guarded::start(LASTING, "read word; exit 6");
    for number in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::TSTP] {
        signal(guarded.guardian.id() as i32, number);
    }
    assert!(holds_for(Duration::from_millis(100), || guarded.guardian.try_wait().unwrap().is_none()));
    guarded.input.write_all(b"go\n").unwrap();
    assert_eq!(guarded.expect("over"), json!({"code": 6}));
}

#[test]
fn whoever_forks_away_again_and_again_is_caught() {
    for makes_cgroup in BOTH {
        let directory = TempDir::new().unwrap();
        let (file, name) = shown(directory.path(), "chain");
        let (count, count_name) = shown(directory.path(), "count");
        // Each process starts the next one and ends.
        std::fs::write(&file, format!("echo >>{count_name}; sh {name} &")).unwrap();
        let script = format!("sh {name} & sh {name} & wait; sleep 1000");
        let terms = Terms { valid_ms: Some(1_500), makes_cgroup, ..LASTING };
        let (guarded, valid_until_ms) = Guarded::start(terms, &script);
        assert_eq!(guarded.expect("ending"), "deadline");
        guarded.expect("over");
        guarded.expect("gone");
        assert!(boot_ms() < valid_until_ms, "cgroup: {makes_cgroup}");
        let length = || std::fs::metadata(&count).unwrap().len();
        let at_the_end = length();
        assert!(at_the_end > 20, "{at_the_end}");
        assert!(holds_for(Duration::from_millis(100), || length() == at_the_end));
    }
}

#[test]
fn a_stopped_command_hears_that_it_has_to_end() {
    let (guarded, _) = Guarded::start(LASTING, "trap 'exit 9' TERM; kill -STOP $$; exit 1");
    assert_eq!(guarded.expect("stopped"), 19);
    guarded.send(&json!("end"), None);
    assert_eq!(guarded.expect("ending"), "ordered");
    assert_eq!(guarded.expect("over"), json!({"code": 9}));
}

#[test]
fn a_command_that_may_outlive_its_lease_does() {
    let terms = Terms { valid_ms: None, ..LASTING };
    let (mut guarded, _) = Guarded::start(terms, "read word; exit 2");
    guarded.send(&json!({"valid_until": 1}), None);
    assert!(holds_for(Duration::from_millis(300), || guarded.guardian.try_wait().unwrap().is_none()));
    guarded.input.write_all(b"go\n").unwrap();
    assert_eq!(guarded.expect("over"), json!({"code": 2}));
}

#[test]
fn a_command_that_cannot_be_started_is_told_as_shells_do() {
    let directory = TempDir::new().unwrap();
    let (file, name) = shown(directory.path(), "file");
    std::fs::write(file, "echo not executable").unwrap();
    for (command, code) in [("no-such-command-anywhere", 127), (name.as_str(), 126), ("/", 126)] {
        let (mut guarded, _) = Guarded::begin(LASTING, &[command]);
        assert_eq!(guarded.expect("not_started")["exit_code"], code, "{command}");
        assert_eq!(guarded.report(), None);
        guarded.is_over();
    }
}

#[test]
fn nothing_begins_that_would_have_to_end_at_once() {
    let directory = TempDir::new().unwrap();
    let (file, name) = shown(directory.path(), "file");
    let terms = Terms { valid_ms: Some(SWEEP_MS + 400), ..LASTING };
    let (guarded, _) = Guarded::begin(terms, &["touch", &name]);
    guarded.send(&json!("end"), None);
    assert_eq!(guarded.expect("not_started")["exit_code"], Value::Null);
    assert_eq!(guarded.report(), None);
    assert!(!file.exists());
}

#[test]
fn a_command_that_is_late_begins_with_the_next_renewal() {
    let terms = Terms { valid_ms: Some(SWEEP_MS + 400), ..LASTING };
    let (guarded, valid_until_ms) = Guarded::begin(terms, &["sh", "-c", "while :; do sleep 0.02; done"]);
    guarded.send(&json!({"pass_on": 15}), None);
    guarded.send(&json!({"valid_until": (valid_until_ms + 60_000) * 1_000_000}), None);
    guarded.expect("started");
    // The signal that came before there was anybody to hear it.
    assert_eq!(guarded.expect("over"), json!({"signal": 15}));
    guarded.expect("gone");
}

#[test]
fn nobody_starts_a_guardian_by_hand() {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["guardian", "--", "true"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
