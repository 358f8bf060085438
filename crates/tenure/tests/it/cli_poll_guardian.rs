//! Commands of `tenure poll run` never outlive their time, whoever of those who watch over them is stopped or killed.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::cli_poll_desk::PollDesk;
use crate::run_support::{LONG, boot_ms, is_running, number_in, signal, wait_until};

/// Writes its fence again and again for as long as it runs, whatever it is asked.
const WITNESS: &str = "trap '' TERM; while :; do echo $TENURE_FENCE >> \"$0\"; sleep 0.02; done";
/// Writes the process ids of itself, of a child, and of one that left its group and its session.
const FAMILY: &str = "sleep 600 & echo $! > \"$0.child\"; setsid sleep 600 & echo $! > \"$0.stranger\"; \
                      echo $$ > \"$0.main\"; wait";

/// The fences in the order they were written.
fn fences(desk: &PollDesk, name: &str) -> Vec<u64> {
    let text = desk.read(name);
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

#[track_caller]
fn assert_never_back(fences: &[u64]) {
    assert!(fences.is_sorted(), "two at once: {:?}", fences.windows(2).find(|pair| pair[0] > pair[1]));
}

#[test]
fn a_killed_poller_takes_its_commands_along() {
    let desk = PollDesk::open(&["s1"]);
    let mut poller = desk.poller(&["--ttl", "60s", "--timeout", "60s"], &["sh", "-c", FAMILY, "DIR/f"]);
    let all = ["f.child", "f.stranger", "f.main"].map(|name| number_in(&desk.path(name)));
    assert!(all.into_iter().all(is_running));
    let guardian = poller.running.guardian();
    poller.running.signal(Signal::KILL);
    wait_until("the end of everything", Duration::from_secs(5), || {
        !all.into_iter().any(is_running) && !is_running(guardian)
    });
    assert_eq!(poller.running.code(), 137);
}

#[test]
fn a_stopped_poller_polls_nothing_that_another_may_poll() {
    let desk = PollDesk::open(&["s1"]);
    let flags = |name| ["--name", name, "--timeout", "60s"];
    let mut one = desk.poller(&flags("one"), &["sh", "-c", WITNESS, "DIR/witness"]);
    wait_until("a first sign", LONG, || !fences(&desk, "witness").is_empty());
    let first = fences(&desk, "witness")[0];
    one.running.signal(Signal::STOP);
    let mut two = desk.poller(&flags("two"), &["sh", "-c", WITNESS, "DIR/witness"]);
    wait_until("the next one", LONG, || fences(&desk, "witness").last().is_some_and(|fence| *fence > first));
    one.running.signal(Signal::CONT);
    // It finds out that it lost the target and begins anew, without a poll in between.
    one.wait_for_words("joining again");
    let count = fences(&desk, "witness").len();
    wait_until("more signs", LONG, || fences(&desk, "witness").len() > count + 20);
    assert_never_back(&fences(&desk, "witness"));
    // Asked once, it would wait for a command that never ends.
    for poller in [&mut one, &mut two] {
        poller.running.signal(Signal::KILL);
    }
}

#[test]
fn a_daemon_that_does_not_answer_ends_polling_in_time_and_it_goes_on_afterwards() {
    let desk = PollDesk::open(&["s1"]);
    let mut poller = desk.poller(&["--timeout", "60s"], &["sh", "-c", WITNESS, "DIR/witness"]);
    wait_until("a first sign", LONG, || !fences(&desk, "witness").is_empty());
    signal(desk.desk.daemon(), Signal::STOP);
    let stopped_ms = boot_ms();
    let record = poller.wait_for_record("an end", |record| record["target"] == "s1");
    // Valid until nine tenths of the ttl after the last renewal, which was before.
    assert!(boot_ms() - stopped_ms < 2_000, "later than the ttl");
    // On a busy machine the supervisor may be faster than the guardian.
    assert!(record["outcome"] == "cancelled" || record["outcome"] == "failed", "{record}");
    let count = fences(&desk, "witness").len();
    poller.wait_for_words("paused");
    assert_eq!(fences(&desk, "witness").len(), count, "a poll while nothing is certain");
    signal(desk.desk.daemon(), Signal::CONT);
    wait_until("polls again", LONG, || fences(&desk, "witness").len() > count);
    assert_never_back(&fences(&desk, "witness"));
    poller.running.signal(Signal::KILL);
}

#[test]
fn a_poll_may_take_longer_than_the_ttl() {
    let desk = PollDesk::open(&["s1"]);
    let flags = ["--ttl", "2s", "--every", "30s", "--timeout", "20s"];
    let mut poller = desk.poller(&flags, &["sh", "-c", "sleep 5"]);
    let record = poller.wait_for_record("an end", |record| record["target"] == "s1");
    assert_eq!(record["outcome"], "ok", "{record}: {}", poller.running.errors());
    assert_eq!(poller.stop(), 0);
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let desk = PollDesk::open(&["s1"]);
    let script = "sleep 600 & echo $! > \"$0.child\"; setsid sleep 600 & echo $! > \"$0.stranger\"; \
                  (env -i setsid sleep 600 & echo $! > \"$0.naked\"); exit 0";
    let mut poller = desk.poller(&["--every", "30s"], &["sh", "-c", script, "DIR/f"]);
    let record = poller.wait_for_record("an end", |record| record["target"] == "s1");
    assert_eq!(record["outcome"], "ok", "{record}");
    let all = ["f.child", "f.stranger", "f.naked"].map(|name| number_in(&desk.path(name)));
    wait_until("the end of everything", LONG, || !all.into_iter().any(is_running));
    assert_eq!(poller.stop(), 0);
}

#[test]
fn what_one_poll_leaves_behind_is_no_reason_to_end_another() {
    let desk = PollDesk::open(&["lasting", "quick"]);
    // A process of the lasting poll comes to the guardian while quick ones end all the time.
    let script = "test {target} = quick && { setsid sleep 600 & exit 0; }; \
                  (setsid sleep 600 & echo $! > \"$0.child\"); echo $$ > \"$0.main\"; sleep 600";
    let flags = ["--every", "100ms", "--timeout", "60s", "--ttl", "30s"];
    let mut poller = desk.poller(&flags, &["sh", "-c", script, "DIR/f"]);
    let (main, child) = (number_in(&desk.path("f.main")), number_in(&desk.path("f.child")));
    for _ in 0..3 {
        poller.wait_for_poll("quick");
    }
    assert!(is_running(main) && is_running(child), "{}", poller.running.errors());
    poller.running.signal(Signal::KILL);
    wait_until("the end of both", LONG, || !is_running(main) && !is_running(child));
}

/// Where the kernel gave no timer, a stopped guardian ended no poll in time, and no line told of it.
#[test]
fn a_guardian_without_a_kill_timer_is_one_warning() {
    let desk = PollDesk::open(&["s1", "s2"]);
    let words = ["poll", "run", "--json", "--targets", "DIR/targets", "--ttl", "2s", "--every", "300ms"];
    let plain = desk.desk.command(&[&words[..], &["--timeout", "20s", "--", "true"]].concat());
    // Each timer takes one of the signals that may be pending.
    let mut limited = Command::new("prlimit");
    limited.arg("--sigpending=0:0").arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    plain.get_current_dir().map(|directory| limited.current_dir(directory));
    let mut poller = desk.begin(&mut limited);
    poller.wait_for_words("no kill timer for polls");
    signal(poller.running.guardian(), Signal::KILL);
    poller.wait_for_words("replacing the guardian process");
    for _ in 0..3 {
        let record = poller.wait_for_record("a poll", |record| record["target"] == "s1");
        assert!(record["outcome"] == "ok" || record["outcome"] == "failed", "{record}");
    }
    assert_eq!(poller.stop(), 0);
    let said = poller.running.errors();
    assert_eq!(said.matches("no kill timer").count(), 1, "{said}");
}

#[test]
fn a_guardian_that_is_killed_is_replaced() {
    let desk = PollDesk::open(&["s1"]);
    let flags = ["--ttl", "60s", "--every", "500ms", "--timeout", "60s"];
    let mut poller = desk.poller(&flags, &["sh", "-c", FAMILY, "DIR/f"]);
    let all = ["f.child", "f.stranger", "f.main"].map(|name| number_in(&desk.path(name)));
    std::fs::remove_file(desk.path("f.main")).unwrap();
    let guardian = poller.running.guardian();
    signal(guardian, Signal::KILL);
    wait_until("the end of everything", LONG, || !all.into_iter().any(is_running));
    let record = poller.wait_for_record("an end", |record| record["target"] == "s1");
    assert_eq!(record["outcome"], "failed", "{record}");
    let next = number_in(&desk.path("f.main"));
    assert!(is_running(next) && next != all[2]);
    assert!(poller.running.errors().contains("replacing the guardian process of the polls"));
    poller.running.signal(Signal::KILL);
    wait_until("the end of the next", LONG, || !is_running(next));
}

#[test]
fn a_guardian_that_is_stopped_keeps_nothing_running_beyond_its_time() {
    let desk = PollDesk::open(&["s1"]);
    let mut poller = desk.poller(&["--timeout", "60s"], &["sh", "-c", WITNESS, "DIR/witness"]);
    wait_until("a first sign", LONG, || !fences(&desk, "witness").is_empty());
    let guardian = poller.running.guardian();
    signal(guardian, Signal::STOP);
    // Renewals go on, and the guardian would not hear of the end: the supervisor notices when the daemon is silent too.
    signal(desk.desk.daemon(), Signal::STOP);
    let stopped_ms = boot_ms();
    poller.wait_for_record("an end", |record| record["target"] == "s1");
    assert!(boot_ms() - stopped_ms < 2_000, "later than the ttl");
    assert!(!is_running(guardian));
    signal(desk.desk.daemon(), Signal::CONT);
    let count = fences(&desk, "witness").len();
    wait_until("polls again", LONG, || fences(&desk, "witness").len() > count);
    assert_never_back(&fences(&desk, "witness"));
    poller.running.signal(Signal::KILL);
}

/// The command went on for seconds beside the one of the next poller: nobody was left to end it.
#[test]
fn a_poller_and_a_guardian_that_are_both_stopped_keep_no_command_running() {
    let desk = PollDesk::open(&["s1"]);
    let flags = |name| ["--name", name, "--timeout", "60s"];
    let mut one = desk.poller(&flags("one"), &["sh", "-c", WITNESS, "DIR/witness"]);
    wait_until("a first sign", LONG, || !fences(&desk, "witness").is_empty());
    let first = fences(&desk, "witness")[0];
    let guardian = one.running.guardian();
    one.running.signal(Signal::STOP);
    signal(guardian, Signal::STOP);
    let mut two = desk.poller(&flags("two"), &["sh", "-c", WITNESS, "DIR/witness"]);
    wait_until("the next one", LONG, || fences(&desk, "witness").last().is_some_and(|fence| *fence > first));
    let count = fences(&desk, "witness").len();
    wait_until("more signs", LONG, || fences(&desk, "witness").len() > count + 20);
    assert_never_back(&fences(&desk, "witness"));
    // It finds out, begins anew with another guardian, and nothing is left of the first.
    one.running.signal(Signal::CONT);
    one.wait_for_words("replacing the guardian process of the polls");
    assert!(!is_running(guardian));
    for poller in [&mut one, &mut two] {
        poller.running.signal(Signal::KILL);
    }
}
