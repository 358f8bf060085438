//! `tenure poll` with a Redis instead of the daemon.

use tempfile::TempDir;

use crate::cli_desk::Desk;
use crate::cli_poll_desk::{PollDesk, Polling, owners};
use crate::fixture::Answer;
use crate::redis_server::{FORGETFUL, RedisServer};
use crate::run_desk::Running;
use crate::run_support::{LONG, wait_until};

/// A Redis of the test's own, and a desk to ask it from.
struct RedisDesk {
    desk: Desk,
    redis: RedisServer,
    // Sockets have short names only.
    _directory: TempDir,
}

impl RedisDesk {
    fn open() -> Self {
        let directory = TempDir::new().unwrap();
        let redis = RedisServer::start(&directory.path().join("redis.sock"), FORGETFUL);
        let desk = Self { desk: Desk::new(), redis, _directory: directory };
        std::fs::write(desk.desk.path().join("targets"), "s1\ns2\ns3\ns4\n").unwrap();
        desk
    }

    fn url(&self) -> String {
        self.redis.url()
    }

    fn cli(&self, words: &[&str]) -> String {
        self.redis.cli(words)
    }

    fn tenure(&self, words: &[&str]) -> Answer {
        let url = self.url();
        self.desk.tenure(&[&["poll"], words, &["--store", &url]].concat())
    }

    fn poller(&self, flags: &[&str]) -> Polling {
        let url = self.url();
        let usual =
            ["poll", "run", "--json", "--store", &url, "--ttl", "2s", "--every", "300ms", "--timeout", "20s"];
        let targets = ["--targets", "DIR/targets"];
        let targets = if flags.contains(&"--targets") { &[][..] } else { &targets };
        let mut command = self.desk.command(&[&usual, flags, targets, &["--", "true", "{target}"]].concat());
        Polling { running: Running::begin(self.desk.path(), &mut command) }
    }

    #[track_caller]
    fn wait_for_shares(&self, flags: &[&str], shares: &[(&str, usize)]) {
        wait_until(&format!("{shares:?}"), LONG, || {
            let shown = self.tenure(&[&["nodes", "--json"], flags].concat());
            // Before its first poller has joined there is no group.
            let Ok(view) = serde_json::from_str(&shown.out) else { return false };
            let owners = owners(&view);
            shares
                .iter()
                .all(|(name, count)| owners.iter().filter(|(_, owner)| owner == name).count() == *count)
        });
    }
}

#[test]
fn pollers_share_through_redis_and_are_steered_there() {
    let desk = RedisDesk::open();
    let mut one = desk.poller(&["--name", "one"]);
    desk.wait_for_shares(&[], &[("one", 4)]);
    let mut two = desk.poller(&["--name", "two"]);
    desk.wait_for_shares(&[], &[("one", 2), ("two", 2)]);
    two.wait_for_record("a poll", |record| record["outcome"] == "ok");
    let targets = desk.tenure(&["targets"]);
    assert_eq!(targets.out.lines().count(), 5, "{}", targets.all());
    let moved = desk.tenure(&["move", "s1", "two"]);
    assert_eq!(moved.code, 0, "{}", moved.all());
    assert!(moved.out.contains("pinned to  two"), "{}", moved.out);
    let cordoned = desk.tenure(&["cordon", "one", "--watch"]);
    assert_eq!(cordoned.code, 0, "{}", cordoned.all());
    desk.wait_for_shares(&[], &[("one", 0), ("two", 4)]);
    assert!(desk.tenure(&["nodes"]).out.contains("one     cordoned"), "{}", desk.tenure(&["nodes"]).out);
    assert_eq!(desk.tenure(&["uncordon", "one"]).code, 0);
    desk.wait_for_shares(&[], &[("one", 2), ("two", 2)]);
    let nobody = desk.tenure(&["cordon", "three"]);
    assert_eq!(nobody.code, 1, "{}", nobody.all());
    assert_eq!((one.stop(), two.stop()), (0, 0), "{}", one.running.errors());
    assert_eq!(desk.cli(&["EXISTS", "poll:lease:s1"]), "0");
}

#[test]
fn keys_are_those_of_older_programs_and_fnv1a_agrees_with_them() {
    let desk = RedisDesk::open();
    let mut poller = desk.poller(&["--hash", "fnv1a"]);
    poller.wait_for_record("a poll", |record| record["target"] == "s3");
    let instance = desk.cli(&["GET", "poll:lease:s3"]);
    assert_eq!(desk.cli(&["GET", &format!("poll:node:{instance}")]), "1");
    let left: u64 = desk.cli(&["PTTL", "poll:lease:s3"]).parse().unwrap();
    assert!(left <= 2_000, "{left}");
    assert_eq!(poller.stop(), 0);
    let mut other = desk.poller(&["--group", "web", "--prefix", "mine:"]);
    other.wait_for_record("a poll", |record| record["target"] == "s3");
    assert_eq!(desk.cli(&["EXISTS", "mine:lease:s3"]), "1");
    desk.wait_for_shares(&["--group", "web", "--prefix", "mine:"], &[]);
    assert_eq!(other.stop(), 0);
}

#[test]
fn targets_are_keys_of_a_redis() {
    let desk = RedisDesk::open();
    desk.cli(&["SET", "session:1", "{\"id\":\"a\",\"isPaused\":false}"]);
    desk.cli(&["SET", "session:2", "{\"id\":\"b\",\"isPaused\":true}"]);
    desk.cli(&["SET", "session:c", "plain"]);
    let mut poller = desk.poller(&["--targets", "redis:session:*"]);
    poller.wait_for_record("a", |record| record["target"] == "a");
    poller.wait_for_record("c", |record| record["target"] == "c");
    assert_eq!(poller.stop(), 0);
    assert!(poller.records().iter().all(|record| record["target"] != "b"));
}

#[test]
fn pollers_may_agree_through_the_daemon_about_keys_of_a_redis() {
    let redis = RedisDesk::open();
    redis.cli(&["SET", "session:1", "{\"id\":\"a\"}"]);
    let desk = PollDesk::open(&[]);
    let url = redis.url();
    let mut poller =
        desk.poller(&["--targets", "redis:session:*", "--targets-store", &url], &["true", "{target}"]);
    poller.wait_for_poll("a");
    assert_eq!(desk.owners().len(), 1);
    let shown = desk.tenure(&["targets", "--targets", "redis:session:*", "--targets-store", &url]);
    assert!(shown.out.contains("a       owned"), "{}", shown.all());
    assert_eq!(poller.stop(), 0);
}

#[test]
fn a_redis_that_is_not_there_is_told() {
    let desk = Desk::new();
    std::fs::write(desk.path().join("targets"), "s1\n").unwrap();
    for words in [&["run", "--targets", "DIR/targets"][..], &["nodes"], &["cordon", "one"]] {
        let store = ["--store", "unix:///DIR/none.sock"];
        let command: &[&str] = if words[0] == "run" { &["--", "true"] } else { &[] };
        let answer = desk.tenure(&[&["poll"], words, &store, command].concat());
        assert_eq!(answer.code, 3, "{}", answer.all());
        assert!(answer.err.contains("none.sock"), "{}", answer.err);
    }
}
