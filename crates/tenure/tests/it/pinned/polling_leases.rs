//! Seed: distributed polling leases. Keys and scripts of Redis, instance ids, targets, the preferred owner, log lines.

use super::stage::Stage;
use crate::run_support::{LONG, wait_until};

/// The seed's scripts, byte for byte.
const RENEW: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
  return 0
end
"#;
const RELEASE: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end
"#;

fn redis() -> Stage {
    Stage::redis().name("renew", RENEW).name("release", RELEASE)
}

#[test]
fn keys_and_their_lifetimes() {
    redis().play("polling_leases/keys.txt");
}

#[test]
fn scripts_of_older_programs_and_ours_respect_each_other() {
    redis().play("polling_leases/scripts.txt");
}

#[test]
fn targets_are_sessions_that_are_not_paused() {
    redis().play("polling_leases/targets.txt");
}

/// Ids without a common beginning: the seed's function piles others up at one node.
const TARGETS: [&str; 16] = [
    "b6589fc6ab0dc82cf12099d1",
    "356a192b7913b04c54574d18",
    "da4b9237bacccdf19c0760ca",
    "77de68daecd823babbb58edb",
    "1b6453892473a467d07372d4",
    "ac3478d69a3c81fa62e60f5c",
    "c1dfd96eea8cc2b62785275b",
    "902ba3cda1883801594b6e1b",
    "fe5dbbcea5ce7e2988b8c69b",
    "0ade7c2cf97f75d009975f4d",
    "b1d5781111d84f7b3fe45a08",
    "17ba0791499db908433b80f3",
    "7b52009b64fd0a2a49e6d8a9",
    "bd307a3ec329e10a2cff8fb8",
    "fa35e192121eabf3dabf9f5e",
    "f1abd670358e036c31296e66",
];

/// `PreferredOwner` of the seed: FNV-1a over node and endpoint, the highest weight wins.
fn preferred_owner<'a>(endpoint: &str, nodes: &[&'a str]) -> &'a str {
    let hash = |text: String| {
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    let (mut best, mut best_weight) = ("", 0);
    for node in nodes {
        let weight = hash(format!("{node}{endpoint}"));
        if weight > best_weight {
            (best, best_weight) = (node, weight);
        }
    }
    best
}

#[test]
fn the_preferred_owner_is_the_one_of_the_seed() {
    let older = ["host-a-1700000000000000000-00000001", "host-b-1700000000000000001-00000002"];
    let owners: String = TARGETS.iter().map(|target| &preferred_owner(target, &older)[5..6]).collect();
    assert_eq!(owners, "abaababaaaaabaab", "as another implementation has it");
    let stage = redis();
    for target in TARGETS {
        let session = format!("{{\"id\":\"{target}\",\"isPaused\":false}}");
        assert_eq!(stage.redis_cli(&["SET", &format!("session:{target}"), &session]), "OK");
    }
    let stage = stage.play("polling_leases/two_pollers.txt");
    let nodes = [stage.value("one"), stage.value("two")];
    wait_until("every target at its preferred owner", LONG, || {
        TARGETS.iter().all(|target| {
            stage.redis_cli(&["GET", &format!("poll:lease:{target}")]) == preferred_owner(target, &nodes)
        })
    });
}
