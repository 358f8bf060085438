//! Looking at a group of pollers and steering it.

use std::process::Stdio;

use rustix::process::Signal;

use crate::cli_poll_desk::PollDesk;
use crate::cli_terminal::at_terminal;
use crate::run_support::{LONG, wait_until};

const SIX: [&str; 6] = ["s1", "s2", "s3", "s4", "s5", "s6"];

#[test]
fn a_group_is_shown_by_poller_and_by_target() {
    let desk = PollDesk::open(&SIX);
    let mut one = desk.poller(&["--name", "one"], &["true"]);
    let mut two = desk.poller(&["--name", "two"], &["true"]);
    desk.wait_for_shares(&[("one", 3), ("two", 3)]);
    let nodes = desk.tenure(&["nodes"]);
    let lines: Vec<&str> = nodes.out.lines().collect();
    assert!(lines[0].starts_with("POLLER  STATUS  WEIGHT  TARGETS"), "{}", nodes.out);
    assert!(lines[1].starts_with("one     online  1       3"), "{}", nodes.out);
    assert!(lines[2].contains(" two~"), "{}", nodes.out);
    let targets = desk.tenure(&["targets"]);
    assert_eq!(targets.out.lines().count(), 7, "{}", targets.out);
    assert!(targets.out.lines().nth(1).unwrap().starts_with("s1      owned"), "{}", targets.out);
    // What should be polled and is not comes first.
    std::fs::write(desk.path("more"), "s1\ns0\n").unwrap();
    let more = desk.tenure(&["targets", "--targets", "DIR/more"]);
    assert!(more.out.lines().nth(1).unwrap().starts_with("s0      unowned"), "{}", more.out);
    let unowned = desk.tenure(&["targets", "--unowned", "--targets", "DIR/more"]);
    assert_eq!(unowned.out.lines().count(), 2, "{}", unowned.out);
    assert_eq!((one.stop(), two.stop()), (0, 0));
}

#[test]
fn what_nobody_polls_any_more_is_shown_with_its_last_poller() {
    let desk = PollDesk::open(&["s1"]);
    let mut poller = desk.poller(&["--name", "one"], &["true"]);
    poller.wait_for_poll("s1");
    poller.running.signal(Signal::KILL);
    wait_until("an abandoned group", LONG, || desk.object(&["targets"])["state"] == "abandoned");
    let shown = desk.tenure(&["targets", "--unowned"]);
    let line = shown.out.lines().nth(1).unwrap();
    assert!(
        line.starts_with("s1 ") && line.contains("abandoned") && line.contains("was one~"),
        "{}",
        shown.out
    );
    let nodes = desk.tenure(&["nodes"]);
    assert!(nodes.out.lines().nth(1).unwrap().starts_with("(none)  abandoned"), "{}", nodes.out);
    assert!(
        nodes.err.contains("group default: abandoned: no pollers, 1 target polled last"),
        "{}",
        nodes.err
    );
}

#[test]
fn groups_are_listed_and_one_that_is_not_there_is_an_error_that_names_them() {
    let desk = PollDesk::open(&["s1"]);
    let none = desk.tenure(&["nodes"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""), "{}", none.all());
    assert!(none.err.contains("there is no group \"default\""), "{}", none.err);
    assert!(none.err.contains("tenure poll run"), "{}", none.err);
    assert!(desk.tenure(&[]).err.contains("no groups"));
    let mut web = desk.poller(&["--name", "one", "--group", "web"], &["true"]);
    web.wait_for_poll("s1");
    for words in [&[][..], &["groups"]] {
        let listed = desk.tenure(words);
        assert_eq!(listed.code, 0, "{}", listed.all());
        let lines: Vec<&str> = listed.out.lines().collect();
        assert!(lines[0].starts_with("GROUP  STATE   POLLERS  TARGETS"), "{}", listed.out);
        assert!(lines[1].starts_with("web    active  1        1"), "{}", listed.out);
    }
    assert_eq!(desk.object(&["groups"])["groups"][0]["group"], "web");
    for words in [&["nodes"][..], &["targets"], &["move", "s1", "one"], &["cordon", "one"]] {
        let misspelt = desk.tenure(&[words, &["--group", "wep"]].concat());
        assert_eq!(misspelt.code, 1, "{words:?}: {}", misspelt.all());
        assert!(misspelt.err.contains("there is no group \"wep\""), "{words:?}: {}", misspelt.err);
        assert!(misspelt.err.contains("choose one with --group: web"), "{words:?}: {}", misspelt.err);
        assert!(!misspelt.err.contains("moving it to"), "{words:?}: {}", misspelt.err);
    }
    let nobody = desk.tenure(&["move", "s1", "two", "--group", "web"]);
    assert!(nobody.code == 1 && !nobody.err.contains("moving it to"), "{}", nobody.all());
    // What is to be polled can be asked of any group.
    let expected = desk.tenure(&["targets", "--targets", "DIR/targets", "--group", "wep"]);
    assert!(expected.code == 0 && expected.out.contains("s1      unowned"), "{}", expected.all());
    assert_eq!(web.stop(), 0);
}

#[test]
fn what_was_taken_off_the_list_while_nobody_polled_is_not_missed() {
    let desk = PollDesk::open(&["s1", "s2"]);
    let mut first = desk.poller(&["--name", "one"], &["true"]);
    first.wait_for_poll("s2");
    first.running.signal(Signal::KILL);
    wait_until("an abandoned group", LONG, || desk.object(&["targets"])["state"] == "abandoned");
    desk.write_targets(&["s1"]);
    let mut second = desk.poller(&["--name", "two"], &["true"]);
    second.wait_for_poll("s1");
    let unowned = || desk.object(&["targets"])["unowned_targets"].clone();
    wait_until("s2 to be forgotten", LONG, || unowned() == serde_json::json!([]));
    // What is on the list and nobody polls is missed, although nobody ever polled it.
    assert_eq!(desk.tenure(&["cordon", "two"]).code, 0);
    desk.write_targets(&["s1", "s3"]);
    wait_until("s3 to be missed", LONG, || unowned() == serde_json::json!(["s3"]));
    desk.write_targets(&["s1"]);
    wait_until("s3 to be forgotten", LONG, || unowned() == serde_json::json!([]));
    assert_eq!(second.stop(), 0);
}

#[test]
fn polls_that_fail_are_shown() {
    let desk = PollDesk::open(&["bad", "good"]);
    let mut poller = desk.poller(&["--name", "one"], &["test", "{target}", "=", "good"]);
    poller.wait_for_words("polls fail");
    wait_until("a report", LONG, || desk.object(&["nodes"])["failing_total"] == 1);
    let targets = desk.tenure(&["targets"]);
    assert!(targets.out.lines().nth(1).unwrap().starts_with("bad     owned, failing"), "{}", targets.out);
    assert!(targets.err.contains("2 targets polled, 1 failing"), "{}", targets.err);
    let nodes = desk.tenure(&["nodes"]);
    assert!(
        nodes.out.lines().nth(1).unwrap().starts_with("one     online  1       2, 1 failing"),
        "{}",
        nodes.out
    );
    assert_eq!(poller.stop(), 0);
}

#[test]
fn a_target_is_moved_and_taken_back() {
    let desk = PollDesk::open(&SIX);
    let mut one = desk.poller(&["--name", "one"], &["true"]);
    let mut two = desk.poller(&["--name", "two"], &["true"]);
    desk.wait_for_shares(&[("one", 3), ("two", 3)]);
    let (target, _) = desk.owners().into_iter().find(|(_, owner)| owner == "one").unwrap();
    let moved = desk.tenure(&["move", &target, "two"]);
    assert_eq!(moved.code, 0, "{}", moved.all());
    assert!(moved.err.contains(&format!("{target} is polled by one; moving it to two")), "{}", moved.err);
    assert!(moved.out.contains("pinned to  two"), "{}", moved.out);
    wait_until("the move", LONG, || desk.owners().contains(&(target.clone(), "two".to_owned())));
    two.wait_for_poll(&target);
    let shown = desk.tenure(&["targets"]);
    let line = shown.out.lines().find(|line| line.starts_with(&target)).unwrap();
    assert!(line.contains("pinned"), "{}", shown.out);
    let back = desk.object(&["move", &target, "--auto"]);
    assert_eq!(back["poller"], serde_json::Value::Null, "{back}");
    wait_until("no pin", LONG, || !desk.tenure(&["targets"]).out.contains("pinned"));
    // Watched, it ends when the target has arrived, and by instance it is the same.
    let instance = desk.object(&["nodes"])["live_nodes"][0]["instance_id"].as_str().unwrap().to_owned();
    assert!(instance.starts_with("one~"), "{instance}");
    let watched = desk.tenure(&["move", &target, &instance, "--watch"]);
    assert_eq!(watched.code, 0, "{}", watched.all());
    assert!(desk.owners().contains(&(target.clone(), "one".to_owned())), "{}", watched.all());
    assert_eq!((one.stop(), two.stop()), (0, 0));
}

#[test]
fn a_cordoned_poller_has_nothing_until_it_may_again() {
    let desk = PollDesk::open(&SIX);
    let mut one = desk.poller(&["--name", "one"], &["true"]);
    let mut two = desk.poller(&["--name", "two"], &["true"]);
    desk.wait_for_shares(&[("one", 3), ("two", 3)]);
    let cordoned = desk.tenure(&["cordon", "one"]);
    assert_eq!(cordoned.code, 0, "{}", cordoned.all());
    assert!(cordoned.err.contains("one hands over 3 targets and gets no new ones"), "{}", cordoned.err);
    desk.wait_for_shares(&[("one", 0), ("two", 6)]);
    let nodes = desk.tenure(&["nodes"]);
    assert!(nodes.out.contains("one     cordoned"), "{}", nodes.out);
    let refused = desk.tenure(&["move", "s1", "one"]);
    assert_eq!(refused.code, 1, "{}", refused.all());
    assert!(refused.err.contains("hint: tenure poll uncordon"), "{}", refused.err);
    assert_eq!(desk.object(&["uncordon", "one"])["cordoned"], false);
    desk.wait_for_shares(&[("one", 3), ("two", 3)]);
    let nobody = desk.tenure(&["cordon", "three"]);
    assert_eq!(nobody.code, 1, "{}", nobody.all());
    assert!(nobody.err.contains("one") && nobody.err.contains("two"), "names who lives: {}", nobody.err);
    assert_eq!((one.stop(), two.stop()), (0, 0));
}

#[test]
fn a_cordoned_poller_goes_on_until_somebody_else_takes_its_targets() {
    let desk = PollDesk::open(&["s1"]);
    let mut only = desk.poller(&["--name", "only"], &["true"]);
    only.wait_for_poll("s1");
    let cordoned = desk.tenure(&["cordon", "only"]);
    assert_eq!(cordoned.code, 0, "{}", cordoned.all());
    assert!(cordoned.err.contains("only keeps polling its 1 target"), "{}", cordoned.err);
    only.wait_for_poll("s1");
    only.wait_for_poll("s1");
    let mut other = desk.poller(&["--name", "other"], &["true"]);
    other.wait_for_poll("s1");
    desk.wait_for_shares(&[("only", 0), ("other", 1)]);
    assert_eq!((only.stop(), other.stop()), (0, 0));
}

#[test]
fn a_watched_group_is_told_once_for_each_change() {
    let desk = PollDesk::open(&["s1"]);
    let mut watch =
        desk.desk.begin_with(desk.desk.command(&["poll", "nodes", "--watch", "--json"]).stdin(Stdio::null()));
    watch.wait_for_output("\"live_nodes\":[]");
    let mut one = desk.poller(&["--name", "one"], &["true"]);
    watch.wait_for_output("\"target\":\"s1\"");
    // Renewals are no change.
    for _ in 0..8 {
        one.wait_for_poll("s1");
    }
    let count = watch.output().lines().count();
    assert!((2..=6).contains(&count), "{count}: {}", watch.output());
    assert_eq!(one.stop(), 0);
    wait_until("an empty group", LONG, || {
        watch.output().lines().last().unwrap().contains("\"live_nodes\":[]")
    });
    watch.signal(Signal::INT);
    assert_eq!(watch.code(), 0, "{}", watch.errors());
}

#[test]
fn on_a_screen_the_table_is_redrawn_in_place() {
    let desk = PollDesk::open(&["s1", "s2"]);
    let mut one = desk.poller(&["--name", "one"], &["true"]);
    let mut two = desk.poller(&["--name", "two"], &["true"]);
    desk.wait_for_shares(&[("one", 1), ("two", 1)]);
    let words = ["poll", "cordon", "one", "--watch"];
    let shown = at_terminal(&mut desk.desk.command(&words), 60, "");
    assert_eq!(shown.code, 0, "{}", shown.text);
    let screens: Vec<&str> = shown.text.split("\u{1b}[H\u{1b}[J").skip(1).collect();
    let last = screens.last().unwrap();
    assert!(last.starts_with("group default: 2 pollers, 2 targets polled\n\nPOLLER"), "{last}");
    assert!(last.lines().all(|line| line.chars().count() <= 60), "{last}");
    assert_eq!((one.stop(), two.stop()), (0, 0));
}

#[test]
fn a_watched_group_survives_a_restart_of_the_daemon() {
    let mut desk = PollDesk::open(&["s1"]);
    let words = ["poll", "targets", "--watch"];
    let mut watch = desk.desk.begin_with(&mut desk.desk.command(&words));
    watch.wait_for_output("TARGET");
    desk.desk.kill_daemon();
    wait_until("a note", LONG, || watch.errors().contains("does not answer"));
    desk.desk.start_daemon();
    wait_until("a note", LONG, || watch.errors().contains("reconnected"));
    let mut one = desk.poller(&["--name", "one"], &["true"]);
    watch.wait_for_output("s1      owned");
    assert_eq!(one.stop(), 0);
    watch.signal(Signal::TERM);
    assert_eq!(watch.code(), 0, "{}", watch.errors());
}

#[test]
fn without_a_daemon_every_one_of_them_says_so() {
    let desk = crate::cli_desk::Desk::new();
    for words in
        [&["nodes"][..], &["targets"], &["move", "s1", "one"], &["cordon", "one"], &["uncordon", "one"]]
    {
        let answer = desk.tenure(&[&["poll"], words].concat());
        assert_eq!(answer.code, 3, "{}", answer.all());
        assert!(answer.err.starts_with("Error: Tenure daemon is not running at"), "{}", answer.err);
    }
}
