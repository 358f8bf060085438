//! A daemon of the test's own, and pollers that share its targets.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::Answer;
use crate::run_desk::{RunDesk, Running};
use crate::run_support::{LONG, wait_until};

/// A daemon, a file with targets, and room for what commands write.
pub(crate) struct PollDesk {
    pub(crate) desk: RunDesk,
}

/// A `tenure poll run` that goes on.
pub(crate) struct Polling {
    pub(crate) running: Running,
}

/// Short enough for tests, long enough for machines that are busy.
pub(crate) const TTL: &str = "2s";

impl PollDesk {
    /// With these targets in the file `targets`.
    pub(crate) fn open(targets: &[&str]) -> Self {
        let desk = Self { desk: RunDesk::open() };
        desk.write_targets(targets);
        desk
    }

    /// Replaces the file in one step, as careful programs do.
    pub(crate) fn write_targets(&self, targets: &[&str]) {
        let (path, next) = (self.path("targets"), self.path("targets.next"));
        fs::write(&next, targets.iter().map(|target| format!("{target}\n")).collect::<String>()).unwrap();
        fs::rename(next, path).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.desk.path().join(name)
    }

    /// What was written into a file here; nothing if it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// `tenure poll …`.
    pub(crate) fn tenure(&self, arguments: &[&str]) -> Answer {
        self.desk.tenure(&[&["poll"], arguments].concat())
    }

    /// The object that `tenure poll … --json` prints.
    #[track_caller]
    pub(crate) fn object(&self, arguments: &[&str]) -> Value {
        let answer = self.tenure(&[arguments, &["--json"]].concat());
        assert_eq!(answer.code, 0, "{}", answer.all());
        serde_json::from_str(&answer.out).unwrap()
    }

    /// Begins a poller of the targets in the file, with records as JSON.
    pub(crate) fn poller(&self, flags: &[&str], command: &[&str]) -> Polling {
        let mut words = vec!["poll", "run", "--json"];
        for usual in
            [["--targets", "DIR/targets"], ["--ttl", TTL], ["--every", "300ms"], ["--timeout", "20s"]]
        {
            if !flags.contains(&usual[0]) {
                words.extend(usual);
            }
        }
        self.begin(&mut self.desk.command(&[&words, flags, &["--"], command].concat()))
    }

    pub(crate) fn begin(&self, command: &mut Command) -> Polling {
        Polling { running: self.desk.begin_with(command) }
    }

    /// Who polls each target, by the poller's name, as the daemon sees it.
    pub(crate) fn owners(&self) -> Vec<(String, String)> {
        let answer = self.tenure(&["nodes", "--json"]);
        // Before its first poller has joined there is no group.
        if answer.code == 1 && answer.err.contains("there is no group") {
            return Vec::new();
        }
        assert_eq!(answer.code, 0, "{}", answer.all());
        owners(&serde_json::from_str(&answer.out).unwrap())
    }

    /// Waits until the pollers of these names have so many targets each.
    #[track_caller]
    pub(crate) fn wait_for_shares(&self, shares: &[(&str, usize)]) {
        wait_until(&format!("{shares:?}"), LONG, || {
            let owners = self.owners();
            shares
                .iter()
                .all(|(name, count)| owners.iter().filter(|(_, owner)| owner == name).count() == *count)
        });
    }
}

/// Targets and the names of their pollers, in order of targets.
pub(crate) fn owners(view: &Value) -> Vec<(String, String)> {
    let mut owners = Vec::new();
    for node in view["live_nodes"].as_array().unwrap() {
        for target in node["owned_targets"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            owners.push((text(&target["target"]), text(&node["name"])));
        }
    }
    owners.sort();
    owners
}

impl Polling {
    /// What it printed about polls that ended.
    pub(crate) fn records(&self) -> Vec<Value> {
        let output = self.running.output();
        // The last line may be half written.
        let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits for a record that fits and gives it.
    #[track_caller]
    pub(crate) fn wait_for_record(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(&format!("a record: {what}"), LONG, || {
            let is_over = self.running.is_over();
            found = self.records().into_iter().find(|record| fits(record));
            assert!(found.is_some() || !is_over, "over without {what}: {}", self.running.errors());
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until this target was polled, successfully, once more.
    #[track_caller]
    pub(crate) fn wait_for_poll(&mut self, target: &str) -> Value {
        let before = self.records().len();
        let mut found = None;
        wait_until(&format!("a poll of {target}"), LONG, || {
            let is_over = self.running.is_over();
            found = self.records()[before..].iter().find(|record| record["target"] == target).cloned();
            assert!(found.is_some() || !is_over, "over without {target}: {}", self.running.errors());
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits for words in the log.
    #[track_caller]
    pub(crate) fn wait_for_words(&mut self, words: &str) {
        wait_until(&format!("{words:?} in the log"), LONG, || {
            let is_over = self.running.is_over();
            let is_there = self.running.errors().contains(words);
            assert!(is_there || !is_over, "over without {words:?}: {}", self.running.errors());
            is_there
        });
    }

    /// Asks it to stop and waits for that.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> i32 {
        self.running.signal(Signal::TERM);
        self.running.code_within(Duration::from_secs(20))
    }
}
