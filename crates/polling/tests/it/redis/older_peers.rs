//! Our pollers beside programs as they were before: one Redis, one set of targets, each with exactly one poller.

use crate::process::Process;
use crate::redis_server::RedisServer;
use crate::waiting::{soon, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tenure_polling::assignment::{Hash, Member, Target, assign};
use tenure_polling::source::FixedSource;
use tenure_polling::store::{RedisOptions, RedisStore, TargetName};
use tenure_polling::{Poll, Poller, PollerError, PollerHandle};
use tokio::task::JoinHandle;

/// The same as the older program's.
const POLL: &str =
    r#"return redis.call("RPUSH", KEYS[2], ARGV[1] .. " " .. (redis.call("GET", KEYS[1]) or "nobody"))"#;

fn targets() -> Vec<String> {
    (0..24).map(|number| format!("device-{:04x}", number * 7_919)).collect()
}

/// One of the older programs.
struct Older {
    instance: String,
    process: Process,
}

impl Older {
    fn start(server: &RedisServer, instance: &str) -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let child = Command::new(package.join("../../target/venv/bin/python"))
            .arg(package.join("tests/older_peer/peer.py"))
            .arg(server.socket())
            .arg(instance)
            .args(targets())
            .stdin(Stdio::null())
            .spawn()
            .expect("the older program starts: `cargo xtask test` installs what it needs");
        Self { instance: instance.to_owned(), process: Process(child) }
    }

    /// It lets go of everything and leaves.
    async fn stop(&mut self) {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM).expect("a child of ours");
        wait_until("the older program ends", async || {
            self.process.0.try_wait().expect("a child of ours").is_some_and(|status| status.success())
        })
        .await;
    }
}

/// One of ours.
struct Ours {
    handle: PollerHandle<RedisStore>,
    run: JoinHandle<Result<(), PollerError>>,
}

impl Ours {
    fn start(server: &Arc<RedisServer>) -> Self {
        let options = RedisOptions { hash: Hash::Fnv1a, ..RedisOptions::new(server.url()) };
        let poller = Poller::builder(RedisStore::open(&options).expect("a store"))
            .targets(FixedSource::new(targets()))
            .hash(Hash::Fnv1a)
            .every(Duration::from_millis(200))
            .discovery(Duration::from_millis(200))
            .build()
            .expect("a poller");
        let handle = poller.handle();
        let (instance, server) = (handle.instance().to_string(), server.clone());
        let run = tokio::spawn(poller.run(move |target: TargetName, _: Poll| {
            let (instance, server) = (instance.clone(), server.clone());
            async move {
                let polled = tokio::task::spawn_blocking(move || {
                    let (lease, book) = (format!("poll:lease:{target}"), format!("polled:{target}"));
                    server.cli(&["EVAL", POLL, "2", &lease, &book, &instance]);
                });
                polled.await.expect("no panic");
            }
        }));
        Self { handle, run }
    }

    fn instance(&self) -> &str {
        self.handle.instance().as_str()
    }

    async fn stop(self) {
        self.handle.stop();
        soon("our poller ends", self.run).await.expect("no panic").expect("everything was handed over");
    }
}

/// Waits until every target is with whom the function that all share prefers.
async fn settled(server: &RedisServer, pollers: &[&str]) {
    let targets = targets();
    let members: Vec<Member<'_>> =
        pollers.iter().map(|name| Member { name, weight: 1, is_new: false }).collect();
    let wished: Vec<Target<'_>> =
        targets.iter().map(|name| Target { name, held_by: None, pinned_to: None }).collect();
    let assigned = assign(Hash::Fnv1a, &members, &wished);
    let preferred: Vec<&str> = assigned.iter().map(|place| pollers[place.expect("somebody")]).collect();
    let keys: Vec<String> = targets.iter().map(|target| format!("poll:lease:{target}")).collect();
    let mut command = vec!["MGET"];
    command.extend(keys.iter().map(String::as_str));
    let mut held = String::new();
    let mut tries = 0;
    wait_until("everybody has what it should", async || {
        held = server.cli(&command);
        tries += 1;
        let is_settled = held.lines().eq(preferred.iter().copied());
        assert!(is_settled || tries < 1_000, "{held}\nshould be\n{}", preferred.join("\n"));
        is_settled
    })
    .await;
}

/// Every poll that ever was, by target: each by whoever held the lease at that moment. Who polled it, in order.
fn polls(server: &RedisServer) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for target in targets() {
        let mut who_polled = Vec::new();
        for poll in server.cli(&["LRANGE", &format!("polled:{target}"), "0", "-1"]).lines() {
            let (who, holder) = poll.split_once(' ').expect("who polled and who held");
            assert_eq!(who, holder, "{target} was polled by one who did not hold it");
            who_polled.push(who.to_owned());
        }
        all.insert(target, who_polled);
    }
    all
}

/// Waits until each of them has polled something since `before`.
async fn all_poll(server: &RedisServer, pollers: &[&str]) {
    let before: BTreeMap<String, usize> =
        polls(server).into_iter().map(|(target, polls)| (target, polls.len())).collect();
    wait_until("everybody polls, and everything is polled", async || {
        let since: Vec<(usize, BTreeSet<String>)> = polls(server)
            .into_iter()
            .map(|(target, polls)| polls.into_iter().skip(before[&target]).collect::<BTreeSet<_>>())
            .map(|who| (who.len(), who))
            .collect();
        let who: BTreeSet<&str> = since.iter().flat_map(|(_, who)| who).map(String::as_str).collect();
        since.iter().all(|(count, _)| *count > 0) && pollers.iter().all(|poller| who.contains(poller))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_programs_and_ours_share_targets_and_take_each_others() {
    let server = Arc::new(RedisServer::start().await);
    let mut first = Older::start(&server, "old-1700000000000000000-0a0b0c0d");
    settled(&server, &[&first.instance]).await;

    let ours = Ours::start(&server);
    settled(&server, &[&first.instance, ours.instance()]).await;
    all_poll(&server, &[&first.instance, ours.instance()]).await;

    let mut second = Older::start(&server, "old-1700000000000000001-1a1b1c1d");
    let also_ours = Ours::start(&server);
    let all = [&*first.instance, &*second.instance, ours.instance(), also_ours.instance()];
    settled(&server, &all).await;
    all_poll(&server, &all).await;

    // Those before leave: ours take what they had.
    first.stop().await;
    second.stop().await;
    settled(&server, &[ours.instance(), also_ours.instance()]).await;
    all_poll(&server, &[ours.instance(), also_ours.instance()]).await;

    // One comes back, ours leave: it takes what they had.
    let mut third = Older::start(&server, "old-1700000000000000002-2a2b2c2d");
    settled(&server, &[&third.instance, ours.instance(), also_ours.instance()]).await;
    ours.stop().await;
    settled(&server, &[&third.instance, also_ours.instance()]).await;
    also_ours.stop().await;
    settled(&server, &[&third.instance]).await;
    all_poll(&server, &[&third.instance]).await;
    third.stop().await;
    assert!(polls(&server).values().all(|polls| !polls.is_empty()));
    assert_eq!(server.cli(&["KEYS", "poll:lease:*"]), "");
    assert_eq!(server.cli(&["KEYS", "poll:node:*"]), "");
}
