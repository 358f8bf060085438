//! The keys are those of older programs, and their scripts work on them.

use super::{LASTING, Poller, membership, number};
use crate::redis_server::RedisServer;
use tenure_api::PollerStatus;
use tenure_polling::Instance;
use tenure_polling::assignment::Hash;
use tenure_polling::store::{Outcome, RedisOptions, RedisStore, ReleaseReason, Store};

/// How older programs renew and release.
const OLDER_RENEW: &str = r#"if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end"#;
const OLDER_RELEASE: &str =
    r#"if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end"#;

#[tokio::test]
async fn what_a_poller_writes_is_what_was_agreed() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    let lease = poller.acquire("s17").await;
    let instance = poller.instance();
    let node = format!("poll:node:{instance}");
    assert_eq!(server.cli(&["GET", "poll:lease:s17"]), instance);
    assert_eq!(server.cli(&["GET", &node]), "1");
    assert_eq!(number(&server.cli(&["GET", "poll:fence:s17"])), lease.fence);
    assert_eq!(server.cli(&["ZRANGE", "poll:members", "0", "-1"]), instance);
    let about = server.cli(&["HGET", "poll:about", instance]);
    assert!(about.contains(r#""status":"online""#) && about.contains(r#""weight":1"#), "{about}");
    let lasting = LASTING.as_millis() as u64;
    for key in ["poll:lease:s17", node.as_str()] {
        let left = number(&server.cli(&["PTTL", key]));
        assert!(left > lasting - 10_000 && left <= lasting, "{key} has {left} ms left");
    }
    for key in ["poll:fence:s17", "poll:members", "poll:about"] {
        assert_eq!(server.cli(&["PTTL", key]), "-1", "{key} has no end");
    }
    let mut keys: Vec<String> = server.cli(&["KEYS", "*"]).lines().map(str::to_owned).collect();
    keys.sort();
    let expected = ["poll:about", "poll:fence:s17", "poll:lease:s17", "poll:members", node.as_str()];
    assert_eq!(keys, expected);
    poller.store.leave(&[lease], None).await.expect("left");
    assert_eq!(server.cli(&["KEYS", "*"]), "poll:fence:s17", "only the fence is never forgotten");
}

#[tokio::test]
async fn fences_are_the_servers_time_unless_they_were_higher() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    let time = || {
        let time = server.cli(&["TIME"]);
        let (seconds, micros) = time.split_once('\n').expect("two numbers");
        number(seconds) * 1_000_000 + number(micros)
    };
    let before = time();
    let fence = poller.acquire("a").await.fence;
    assert!(fence >= before && fence <= time(), "{fence}");
    let ahead = before + 3_600_000_000;
    server.cli(&["SET", "poll:fence:b", &ahead.to_string()]);
    assert_eq!(poller.acquire("b").await.fence, ahead + 1);
    server.cli(&["SET", "poll:fence:c", "nonsense"]);
    assert!(poller.acquire("c").await.fence >= before);
    // Beyond 2^53 Lua would count in steps of two: better no lease than one whose fence is not higher.
    server.cli(&["SET", "poll:fence:d", "9007199254740992"]);
    let outcome = poller.try_acquire("d").await.expect("an answer");
    assert!(matches!(outcome, Outcome::InvalidTarget(_)), "{outcome:?}");
    assert_eq!(server.cli(&["EXISTS", "poll:lease:d"]), "0");
}

/// One who acquired again what it held was given its old fence: a release under it that came late freed the target.
#[tokio::test]
async fn an_acquire_raises_the_fence_of_what_is_held_already_and_a_late_release_misses_it() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    let lost_on_its_way = poller.acquire("t").await;
    let lease = poller.acquire("t").await;
    assert!(lease.fence > lost_on_its_way.fence, "{} after {}", lease.fence, lost_on_its_way.fence);
    poller.store.release(&[lost_on_its_way], ReleaseReason::Rebalanced).await.expect("an answer");
    assert_eq!(server.cli(&["GET", "poll:lease:t"]), poller.instance());
    let renewal = poller.store.renew(&[lease]).await.expect("renewed");
    assert!(renewal.lost.is_empty());
}

/// A target that was handed to a poller that had just died stayed its for a whole ttl more.
#[tokio::test]
async fn what_is_handed_over_ends_with_the_membership_of_its_successor() {
    let server = RedisServer::start().await;
    let (giver, dying) = (Poller::join(&server).await, Poller::join(&server).await);
    let time = server.cli(&["TIME"]);
    let seconds = number(time.lines().next().expect("seconds"));
    let end = (seconds + 20) * 1_000;
    server.cli(&["ZADD", "poll:members", &end.to_string(), dying.instance()]);
    let lease = giver.acquire("t").await;
    let view = giver.view(&[]).await;
    let successor = view.members.iter().find(|member| member.instance.as_str() == dying.instance());
    let handed = [(lease, successor.expect("a member").clone())];
    let outcomes = giver.store.hand_over(&handed, ReleaseReason::Rebalanced).await.expect("an answer");
    assert_eq!(outcomes, [Outcome::Done(())]);
    let left = number(&server.cli(&["PTTL", "poll:lease:t"]));
    assert!(left <= 20_000, "{left} ms are left, and its poller has at most 20 s");
}

#[tokio::test]
async fn older_programs_and_ours_keep_out_of_each_others_leases() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    let instance = poller.instance();
    let lease = poller.acquire("ours").await;
    let older = |script: &str, key: &str, arguments: &[&str]| {
        let mut command = vec!["EVAL", script, "1", key];
        command.extend(arguments);
        server.cli(&command)
    };
    assert_eq!(server.cli(&["SET", "poll:lease:ours", "old-1-2", "NX", "PX", "30000"]), "");
    assert_eq!(older(OLDER_RENEW, "poll:lease:ours", &["old-1-2", "30000"]), "0");
    assert_eq!(older(OLDER_RELEASE, "poll:lease:ours", &["old-1-2"]), "0");
    assert_eq!(older(OLDER_RENEW, "poll:lease:ours", &[instance, "30000"]), "1", "same shape");

    assert_eq!(server.cli(&["SET", "poll:lease:theirs", "old-1-2", "NX", "PX", "30000"]), "OK");
    let outcome = poller.try_acquire("theirs").await.expect("an answer");
    assert_eq!(outcome, Outcome::Rejected("old-1-2 holds it".to_owned()));
    let mut forged = lease.clone();
    forged.target = "theirs".into();
    let renewal = poller.store.renew(&[lease, forged.clone()]).await.expect("renewed");
    assert_eq!(renewal.lost.len(), 1);
    poller.store.release(&[forged], ReleaseReason::Voluntary).await.expect("an answer");
    assert_eq!(server.cli(&["GET", "poll:lease:theirs"]), "old-1-2");

    let view = poller.view(&["ours", "theirs"]).await;
    assert_eq!(view.owners["theirs"].fence, None, "an older program raises no fence");
    assert!(view.owners["theirs"].ends_at.is_some());
    assert!(view.owners["ours"].fence.is_some());
    assert_eq!(older(OLDER_RELEASE, "poll:lease:theirs", &["old-1-2"]), "1");
    poller.acquire("theirs").await;
}

#[tokio::test]
async fn older_programs_are_members_where_they_are_looked_for() {
    let server = RedisServer::start().await;
    server.cli(&["SET", "poll:node:old-1-2", "1", "PX", "30000"]);
    server.cli(&["SET", "poll:node-of-something-else", "1"]);
    let poller = Poller::join(&server).await;
    assert_eq!(poller.view(&[]).await.members.len(), 1, "not looked for");
    let mixed = RedisOptions { hash: Hash::Fnv1a, ..RedisOptions::new(server.url()) };
    let mixed = Poller::join_with(&mixed).await.expect("joins");
    let view = mixed.view(&[]).await;
    assert_eq!(view.members.len(), 3, "{:?}", view.members);
    let older = view.members.iter().find(|member| member.instance.as_str() == "old-1-2").expect("seen");
    assert_eq!((older.weight, older.status, older.takes_handovers), (1, PollerStatus::Online, false));
    assert_eq!(older.address, "");
    let lease = mixed.acquire("t").await;
    let handed = mixed.store.hand_over(&[(lease, older.clone())], ReleaseReason::Rebalanced).await;
    assert!(matches!(handed.expect("an answer").as_slice(), [Outcome::Declined(_)]));
    assert_eq!(server.cli(&["GET", "poll:lease:t"]), mixed.instance());
}

/// One call renews everything, and nobody goes through all keys.
#[tokio::test]
async fn a_round_costs_few_calls_and_never_a_scan() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    let targets: Vec<String> = (0..1_000).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    let mut leases = Vec::new();
    for target in &names {
        leases.push(poller.acquire(target).await);
    }
    // From the second time on the scripts are known there.
    poller.store.renew(&leases).await.expect("renewed");
    poller.view(&names).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let renewal = poller.store.renew(&leases).await.expect("renewed");
    assert!(renewal.lost.is_empty());
    assert_eq!(poller.view(&names).await.owners.len(), 1_000);
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = |command: &str| {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
        line.map_or(0, |line| {
            let calls = line.split_once("calls=").and_then(|(_, rest)| rest.split(',').next());
            number(calls.expect("a count"))
        })
    };
    assert_eq!((calls("evalsha"), calls("eval")), (2, 0), "{stats}");
    assert_eq!(calls("pexpire"), 1_000);
    for command in ["scan", "keys"] {
        assert_eq!(calls(command), 0, "{stats}");
    }
}

#[tokio::test]
async fn groups_and_prefixes_do_not_mix() {
    let server = RedisServer::start().await;
    let of = |group: &str, prefix: Option<&str>| RedisOptions {
        group: group.to_owned(),
        prefix: prefix.map(str::to_owned),
        ..RedisOptions::new(server.url())
    };
    let options = [of("default", None), of("web", None), of("web", Some("x*:"))];
    for options in &options {
        let poller = Poller::join_with(options).await.expect("joins");
        poller.acquire("t").await;
        assert_eq!(poller.view(&["t"]).await.members.len(), 1);
    }
    for key in ["poll:lease:t", "poll:web:lease:t", "x*:lease:t"] {
        assert_eq!(server.cli(&["EXISTS", key]), "1", "{key}");
    }
    let seen = RedisStore::open(&options[2]).expect("a store").group_view().await.expect("a view");
    assert_eq!(seen.owners.len(), 1);
    for group in ["lease", "a b"] {
        assert!(RedisStore::open(&of(group, None)).is_err(), "{group}");
    }
}

#[tokio::test]
async fn a_lease_that_was_taken_anew_is_another_one() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    let old = poller.acquire("t").await;
    poller.store.release(std::slice::from_ref(&old), ReleaseReason::Voluntary).await.expect("released");
    let new = poller.acquire("t").await;
    let renewal = poller.store.renew(&[old.clone(), new.clone()]).await.expect("renewed");
    assert_eq!(renewal.lost.iter().map(|loss| loss.fence).collect::<Vec<_>>(), [old.fence]);
    poller.store.release(&[old], ReleaseReason::Voluntary).await.expect("an answer");
    assert_eq!(server.cli(&["EXISTS", "poll:lease:t"]), "1", "the new one stays");
}

/// Two runs that wait for one name: one gets it, the other is refused.
#[tokio::test]
async fn of_two_that_wait_for_a_name_one_gets_it() {
    let server = RedisServer::start().await;
    let options = RedisOptions::new(server.url());
    let named = || Instance::with_name("kitchen").expect("a name");
    let mut silent = membership(named());
    silent.ttl = std::time::Duration::from_secs(1);
    RedisStore::open(&options).expect("a store").join(&silent).await.expect("joins");
    let (one, other) =
        (RedisStore::open(&options).expect("a store"), RedisStore::open(&options).expect("a store"));
    let (first, second) = (membership(named()), membership(named()));
    let joined = tokio::join!(one.join(&first), other.join(&second));
    let winners = [&joined.0, &joined.1].into_iter().filter(|joined| joined.is_ok()).count();
    assert_eq!(winners, 1, "{joined:?}");
    let view = one.observe(&[]).await.expect("a view");
    assert_eq!(view.members.len(), 1);
    assert_eq!(server.cli(&["ZCARD", "poll:members"]), "1", "whoever was refused is gone");
}

#[tokio::test]
async fn whoever_gives_up_waiting_for_a_name_leaves_nothing_behind() {
    let server = RedisServer::start().await;
    let options = RedisOptions::new(server.url());
    let named = || membership(Instance::with_name("kitchen").expect("a name"));
    RedisStore::open(&options).expect("a store").join(&named()).await.expect("joins");
    let (store, waiting) = (RedisStore::open(&options).expect("a store"), named());
    let given_up = tokio::time::timeout(std::time::Duration::from_millis(300), store.join(&waiting)).await;
    assert!(given_up.is_err(), "{given_up:?}");
    assert_eq!(server.cli(&["ZCARD", "poll:members"]), "2", "it counts while it waits");
    store.leave(&[], None).await.expect("left");
    assert_eq!(server.cli(&["ZCARD", "poll:members"]), "1");
}

/// The answer to the first was lost.
#[tokio::test]
async fn a_hand_over_that_is_asked_for_again_is_done_once() {
    let server = RedisServer::start().await;
    let (giver, taker) = (Poller::join(&server).await, Poller::join(&server).await);
    let lease = giver.acquire("t").await;
    let members = giver.view(&[]).await.members;
    let successor = members.into_iter().find(|member| member.instance == taker.membership.instance);
    let handed = [(lease, successor.expect("seen"))];
    for _ in 0..2 {
        let outcomes = giver.store.hand_over(&handed, ReleaseReason::Rebalanced).await;
        assert_eq!(outcomes, Ok(vec![Outcome::Done(())]));
    }
    let fence = number(&server.cli(&["GET", "poll:fence:t"]));
    assert_eq!(taker.view(&["t"]).await.owners["t"].fence, Some(fence));
    assert_eq!(server.cli(&["GET", "poll:lease:t"]), taker.instance());
}
