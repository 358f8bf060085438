//! A store of the test's own, a file with targets, pollers, and the log that they sign.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::witness::{SCRIPT, Witness};
use crate::cli_desk::Desk;
use crate::cli_poll_desk::owners;
use crate::fixture::Answer;
use crate::raw_http::Http;
use crate::redis_server::{FORGETFUL, RedisServer};
use crate::run_desk::{RunDesk, Running, children_of};
use crate::run_support::{Cleanup, LONG, boot_ms, let_time_pass, signal, wait_until};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Daemon,
    Redis,
}

/// What a poller that fell silent keeps its targets for, unless a test says otherwise.
pub(crate) const TTL_MS: u64 = 3_000;
/// How long a busy machine may take for what should be done at once.
pub(crate) const SLACK_MS: u64 = 2_000;

/// How long shares have to stay as they are to be believed: three polls of each target.
pub(crate) const WINDOW_MS: u64 = 1_200;

pub(crate) struct Scene {
    place: Place,
    targets: Vec<String>,
}

enum Place {
    Daemon(RunDesk),
    Redis(Redis),
}

struct Redis {
    desk: Desk,
    server: RedisServer,
    flags: &'static [&'static str],
}

/// A poller that goes on.
pub(crate) struct Member {
    pub(crate) running: Running,
    pub(crate) instance: String,
    frozen: Vec<i32>,
    cleanup: Cleanup,
}

impl Scene {
    /// With targets called `t1`, `t2` and so on.
    pub(crate) fn of(kind: Kind, count: usize) -> Self {
        let targets: Vec<String> = (1..=count).map(|number| format!("t{number}")).collect();
        Self::open(kind, &targets.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn open(kind: Kind, targets: &[&str]) -> Self {
        let place = match kind {
            Kind::Daemon => Place::Daemon(RunDesk::open()),
            Kind::Redis => Place::Redis(Redis::open(FORGETFUL)),
        };
        Self::at(place, targets)
    }

    /// On a Redis that keeps what it answered.
    pub(crate) fn on_lasting_redis(count: usize) -> Self {
        let targets: Vec<String> = (1..=count).map(|number| format!("t{number}")).collect();
        let place = Place::Redis(Redis::open(&["--appendonly", "yes", "--appendfsync", "always"]));
        Self::at(place, &targets.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn at(place: Place, targets: &[&str]) -> Self {
        let mut scene = Self { place, targets: Vec::new() };
        scene.write_targets(targets);
        scene
    }

    /// Replaces the file in one step.
    pub(crate) fn write_targets(&mut self, targets: &[&str]) {
        self.targets = targets.iter().map(|target| (*target).to_owned()).collect();
        fs::write(self.path("targets.next"), self.targets.join("\n") + "\n").unwrap();
        fs::rename(self.path("targets.next"), self.path("targets")).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        match &self.place {
            Place::Daemon(desk) => desk.path().join(name),
            Place::Redis(redis) => redis.desk.path().join(name),
        }
    }

    /// Where the store listens.
    pub(crate) fn socket(&self) -> PathBuf {
        match &self.place {
            Place::Daemon(desk) => desk.socket(),
            Place::Redis(redis) => redis.desk.path().join("socket"),
        }
    }

    fn store(&self) -> i32 {
        match &self.place {
            Place::Daemon(desk) => desk.daemon(),
            Place::Redis(redis) => redis.server.id(),
        }
    }

    pub(crate) fn freeze_store(&self) {
        signal(self.store(), Signal::STOP);
    }

    pub(crate) fn thaw_store(&self) {
        signal(self.store(), Signal::CONT);
    }

    /// With SIGKILL.
    pub(crate) fn kill_store(&mut self) {
        match &mut self.place {
            Place::Daemon(desk) => desk.kill_daemon(),
            Place::Redis(redis) => redis.server.kill(),
        }
    }

    pub(crate) fn start_store(&mut self) {
        match &mut self.place {
            Place::Daemon(desk) => desk.start_daemon(),
            Place::Redis(redis) => redis.start(),
        }
    }

    pub(crate) fn redis_cli(&self, words: &[&str]) -> String {
        match &self.place {
            Place::Daemon(_) => panic!("the store is no Redis"),
            Place::Redis(redis) => redis.server.cli(words),
        }
    }

    /// A connection to the daemon.
    pub(crate) fn http(&self) -> Http<UnixStream> {
        Http::new(UnixStream::connect(self.socket()).unwrap(), "localhost")
    }

    /// `tenure poll …` about this store.
    pub(crate) fn tenure(&self, words: &[&str]) -> Answer {
        let store = self.store_words();
        let store: Vec<&str> = store.iter().map(String::as_str).collect();
        match &self.place {
            Place::Daemon(desk) => desk.tenure(&[&["poll"], words].concat()),
            Place::Redis(redis) => redis.desk.tenure(&[&["poll"], words, &store].concat()),
        }
    }

    fn store_words(&self) -> Vec<String> {
        match &self.place {
            Place::Daemon(_) => Vec::new(),
            Place::Redis(_) => vec!["--store".to_owned(), format!("unix://{}", self.socket().display())],
        }
    }

    /// Targets and the names of their pollers, as the store knows them.
    pub(crate) fn owners(&self) -> BTreeMap<String, String> {
        let shown = self.tenure(&["nodes", "--json"]);
        assert_eq!(shown.code, 0, "{}", shown.all());
        owners(&serde_json::from_str(&shown.out).unwrap()).into_iter().collect()
    }

    /// How many targets each poller has, as the store knows it.
    pub(crate) fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for owner in self.owners().into_values() {
            *shares.entry(owner).or_default() += 1;
        }
        shares
    }

    /// The command of a poller with these flags beside the usual ones.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut words: Vec<String> = ["poll", "run"].map(str::to_owned).to_vec();
        let ttl = format!("{TTL_MS}ms");
        let usual =
            [["--targets", "DIR/targets"], ["--ttl", &ttl], ["--every", "400ms"], ["--timeout", "30s"]];
        for [flag, value] in usual {
            if !flags.contains(&flag) {
                words.extend([flag.to_owned(), value.to_owned()]);
            }
        }
        if !flags.contains(&"--store") {
            words.extend(self.store_words());
        }
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        words.extend(["--", "sh", "-c", SCRIPT, "DIR/witness"].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match &self.place {
            Place::Daemon(desk) => desk.command(&words),
            Place::Redis(redis) => redis.desk.command(&words),
        }
    }

    pub(crate) fn poller(&self, flags: &[&str]) -> Member {
        self.begin(&mut self.command(flags))
    }

    /// A poller under a name to come back with.
    pub(crate) fn named(&self, name: &str) -> Member {
        self.poller(&["--name", name])
    }

    #[track_caller]
    pub(crate) fn begin(&self, command: &mut Command) -> Member {
        let mut running = Running::begin(&self.path(""), command);
        let mut instance = None;
        wait_until("a poller", LONG, || {
            let is_over = running.is_over();
            let errors = running.errors();
            let said = errors.lines().find_map(|line| line.strip_prefix("polling in group default as "));
            instance = said.map(str::to_owned);
            assert!(instance.is_some() || !is_over, "over: {errors}");
            instance.is_some()
        });
        Member { running, instance: instance.unwrap(), frozen: Vec::new(), cleanup: Cleanup::default() }
    }

    pub(crate) fn witness(&self) -> Witness {
        Witness::read(&self.path("witness"))
    }

    /// Waits until the log is as it should be.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Witness) -> bool) -> Witness {
        let mut witness = self.witness();
        wait_until(what, LONG, || {
            is_so(&witness) || {
                let_time_pass(
                    Duration::from_millis(30),
                    "between two looks: reading takes the processor from those who write",
                );
                witness = self.witness();
                false
            }
        });
        witness
    }

    /// Waits until every target is polled by one poller for a while, each poller having so many.
    #[track_caller]
    pub(crate) fn wait_for_shares(&self, members: &[&Member], shares: &[usize]) -> Witness {
        self.wait_for(&format!("shares of {shares:?}"), |witness| {
            let late = witness.since(boot_ms().saturating_sub(WINDOW_MS));
            let mut found: Vec<usize> =
                members.iter().map(|member| late.targets_of(&member.instance).len()).collect();
            found.sort_unstable();
            late.is_shared_out(self.targets.len()) && found == shares
        })
    }

    /// Waits until every target was polled, and by one poller only, for so long.
    #[track_caller]
    pub(crate) fn wait_until_settled(&self, window_ms: u64) -> Witness {
        self.wait_for("polls of everything", |witness| {
            let late = witness.since(boot_ms().saturating_sub(window_ms));
            late.is_shared_out(self.targets.len())
        })
    }

    /// Waits until every target was polled since then.
    #[track_caller]
    pub(crate) fn wait_for_all_since(&self, at_ms: u64) -> Witness {
        self.wait_for("a poll of everything", |witness| {
            witness.since(at_ms).owners().len() == self.targets.len()
        })
    }
}

impl Redis {
    fn open(flags: &'static [&'static str]) -> Self {
        let desk = Desk::new();
        let server = RedisServer::start(&desk.path().join("socket"), flags);
        Self { desk, server, flags }
    }

    fn start(&mut self) {
        self.server = RedisServer::start(&self.desk.path().join("socket"), self.flags);
    }
}

impl Member {
    pub(crate) fn kill(&mut self) {
        self.running.signal(Signal::KILL);
        assert_eq!(self.running.code(), 137);
    }

    /// Asks it to stop and waits for that.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        self.running.signal(Signal::TERM);
        assert_eq!(self.running.code(), 0, "{}", self.running.errors());
    }

    /// Stops it with all processes below it, so that nobody of them notices anything.
    pub(crate) fn freeze_all(&mut self) {
        loop {
            let mut below = vec![self.running.supervisor()];
            let mut next = 0;
            while next < below.len() {
                below.extend(children_of(below[next]));
                next += 1;
            }
            below.retain(|pid| !self.frozen.contains(pid));
            if below.is_empty() {
                return;
            }
            for pid in below {
                self.cleanup.add(pid);
                signal(pid, Signal::STOP);
                self.frozen.push(pid);
            }
        }
    }

    pub(crate) fn frozen(&self) -> &[i32] {
        &self.frozen
    }

    #[track_caller]
    pub(crate) fn wait_for_words(&mut self, words: &str) {
        wait_until(&format!("{words:?} in the log"), LONG, || self.running.errors().contains(words));
    }
}
