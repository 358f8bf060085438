//! The store over etcd when members are gone, stopped, full, or not etcd at all.

use crate::etcd::{LONG, put, put_now};
use crate::members::{Members, Setup, wait_until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::time::Duration;
use tenure_cluster::etcd::{AlarmKind, EtcdOpenError, EtcdOptions, EtcdStore};
use tenure_cluster::store::{Op, Store, StoreError, Txn, WatchEnded};

const SECOND: Duration = Duration::from_secs(1);

fn put_of(key: &str, value: &str) -> Txn {
    Txn { then: vec![put(key, value)], ..Txn::default() }
}

/// The endpoints, beginning with the member at this place.
fn beginning_with(members: &Members, first: usize) -> Vec<String> {
    let mut endpoints = members.endpoints();
    endpoints.rotate_left(first);
    endpoints
}

fn store_at(endpoints: &[&str]) -> EtcdStore {
    let endpoints = endpoints.iter().map(ToString::to_string).collect();
    EtcdStore::open(EtcdOptions { endpoints, ..EtcdOptions::default() }).unwrap()
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn why(outcome: Result<impl std::fmt::Debug, StoreError>) -> String {
    match outcome {
        Err(StoreError::Unanswered { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_go_on_when_a_member_is_killed() {
    let mut members = Members::start(3);
    let follower = (members.leader() + 1) % 3;
    let store = members.store_at(beginning_with(&members, follower));
    put_now(&store, "k/a", "1");
    members.kill(follower);
    assert_eq!(store.range("k/", "k0", 10, LONG).unwrap().found.len(), 1);
    put_now(&store, "k/b", "2");
    members.start_again(follower);
    members.wait_for_leader();
    let again = members.store_at(vec![members.endpoint(follower)]);
    assert_eq!(again.range("k/", "k0", 10, LONG).unwrap().found.len(), 2);
}

#[test]
fn a_write_is_sent_elsewhere_when_it_cannot_leave() {
    let mut members = Members::start(3);
    let follower = (members.leader() + 1) % 3;
    let endpoint = members.endpoint(follower);
    let store = members.store_at(beginning_with(&members, follower));
    put_now(&store, "e/a", "1");
    members.kill(follower);
    // Its connection is known to be lost from here on; it is still the first to be asked.
    wait_until("the member is missed", || store.status(&endpoint, SECOND).is_err());
    put_now(&store, "e/a", "2");
    // One that was never there makes no difference either.
    let store = store_at(&[&nobody(), &endpoint, &members.endpoint((follower + 1) % 3)]);
    put_now(&store, "e/a", "3");
}

#[test]
fn a_write_to_a_stopped_leader_is_unanswered_in_time_and_the_next_ones_go_elsewhere() {
    let members = Members::start(3);
    let leader = members.leader();
    let store = members.store_at(beginning_with(&members, leader));
    put_now(&store, "p/a", "1");
    members.pause(leader);
    let (tell, outcome) = channel();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| tell.send(store.step(&put_of("p/a", "2"), SECOND)));
        outcome.recv_timeout(SECOND * 2)
    });
    let unanswered = why(outcome.expect("an outcome in time"));
    assert!(unanswered.contains(&members.endpoint(leader)), "{unanswered}");
    wait_until("another leads", || store.step(&put_of("p/a", "3"), SECOND).is_ok());
    // Who reads does not even notice, although the stopped one is asked first.
    let reader = members.store_at(beginning_with(&members, leader));
    assert_eq!(reader.range("p/", "p0", 1, LONG).unwrap().found[0].value, b"3");
    members.resume(leader);
    let back = members.store_at(vec![members.endpoint(leader)]);
    wait_until("it is back", || back.step(&put_of("p/a", "4"), SECOND).is_ok());
}

#[test]
fn a_watch_at_a_stopped_member_breaks_off_and_begins_again_elsewhere() {
    let members = Members::start(3);
    let follower = (members.leader() + 1) % 3;
    let store = members.store_at(beginning_with(&members, follower));
    let revision = put_now(&store, "s/a", "1");
    let mut watching = store.watch("s/", "s0", revision + 1, LONG).unwrap();
    members.pause(follower);
    let ended = watching.next(LONG);
    assert!(matches!(&ended, Err(WatchEnded::Broken { .. })), "{ended:?}");
    let mut elsewhere = store.watch("s/", "s0", revision + 1, LONG).unwrap();
    wait_until("it is written", || store.step(&put_of("s/a", "2"), LONG).is_ok());
    assert_eq!(elsewhere.next(LONG).unwrap().unwrap().key, "s/a");
    members.resume(follower);
}

#[test]
fn a_member_without_the_others_answers_nothing_but_how_it_is() {
    let members = Members::start(3);
    let last = members.endpoint(2);
    let store = members.store_at(vec![last.clone()]);
    put_now(&store, "l/a", "1");
    let mut watching = store.watch("l/", "l0", 0, LONG).unwrap();
    members.pause(0);
    members.pause(1);
    wait_until("it knows nobody who leads", || {
        store.status(&last, SECOND).is_ok_and(|status| status.leader_id.is_none())
    });
    assert!(why(store.range("l/", "l0", 1, SECOND)).contains("no leader"));
    assert!(why(store.step(&put_of("l/a", "2"), SECOND)).contains("no leader"));
    // A watch that nothing would come over ends too.
    let ended = watching.next(LONG);
    assert!(matches!(&ended, Err(WatchEnded::Broken { why }) if why.contains("no leader")), "{ended:?}");
    members.resume(0);
    members.resume(1);
    wait_until("it answers again", || store.step(&put_of("l/a", "3"), SECOND).is_ok());
}

#[test]
fn a_full_store_refuses_puts_and_says_why() {
    let args = vec!["--quota-backend-bytes".into(), (4 << 20).to_string()];
    let members = Members::start_with(1, Setup { args, ..Setup::default() });
    let store = members.store();
    let large = put_of("n/large", &"x".repeat(256 << 10));
    let mut refused = None;
    // etcd learns the size of its file when it commits, ten times a second: a fast disk takes many more than fit.
    wait_until("a put is refused", || {
        refused = store.step(&large, LONG).err();
        refused.is_some()
    });
    assert!(matches!(&refused, Some(StoreError::Refused { no_space: true, .. })), "{refused:?}");
    wait_until("the alarm is raised", || {
        store.alarms(LONG).unwrap().iter().any(|alarm| alarm.kind == AlarmKind::NoSpace)
    });
    let small = store.step(&put_of("n/small", "x"), LONG);
    assert!(matches!(&small, Err(StoreError::Refused { no_space: true, .. })), "{small:?}");
    let found = store.range("n/", "n0", 100, LONG).unwrap().found;
    assert!(!found.is_empty());
    let delete = Txn { then: vec![Op::Delete { from: "n/".into(), to: "n0".into() }], ..Txn::default() };
    assert!(store.step(&delete, LONG).unwrap().held);
    let survey = store.survey(LONG).unwrap();
    assert_eq!(survey[0].alarms, [AlarmKind::NoSpace]);
    assert_eq!(survey[0].metrics.unwrap().quota_bytes, Some(4 << 20));
}

#[test]
fn what_etcd_does_not_take_is_refused() {
    let members = Members::start(1);
    let store = members.store();
    let twice = Txn { then: vec![put("t", "1"), put("t", "2")], ..Txn::default() };
    let large = put_of("t", &"x".repeat(3 << 20));
    for txn in [twice, large] {
        let refused = store.step(&txn, LONG);
        assert!(matches!(&refused, Err(StoreError::Refused { no_space: false, .. })), "{refused:?}");
    }
    assert!(store.range("t", "u", 1, LONG).unwrap().found.is_empty());
}

#[test]
fn nobody_there_is_said_of_each_endpoint() {
    let (one, other) = (nobody(), nobody());
    let store = store_at(&[&one, &other]);
    for why in [
        why(store.step(&put_of("a", "1"), LONG)),
        why(store.range("a", "b", 1, LONG)),
        why(store.watch("a", "b", 0, LONG).map(|_| ())),
        why(store.members(LONG)),
    ] {
        assert!(why.contains(&one) && why.contains(&other), "{why}");
        assert!(why.contains("refused"), "{why}");
    }
    assert_eq!(store.metrics(&one, LONG), None);
}

#[test]
fn somebody_who_is_not_etcd_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let garbage = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut read = [0; 64];
            let _ = stream.read(&mut read);
            let _ = stream.write_all(b"220 mail.example.com ready\r\n");
        }
    });
    // Takes connections, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = silent.local_addr().unwrap().to_string();
    for address in [&garbage, &mute] {
        let store = store_at(&[address]);
        for why in [
            why(store.step(&put_of("a", "1"), SECOND)),
            why(store.range("a", "b", 1, SECOND)),
            why(store.watch("a", "b", 0, SECOND).map(|_| ())),
        ] {
            assert!(why.contains(address.as_str()), "{why}");
        }
        assert_eq!(store.metrics(address, SECOND), None);
    }
    let members = Members::start(1);
    let store = store_at(&[&mute, &garbage, &members.endpoint(0)]);
    assert!(store.range("a", "b", 1, LONG).is_ok());
}

#[test]
fn an_endpoint_that_is_none_is_refused_at_once() {
    for endpoint in [
        "",
        "host",
        "host:",
        ":2379",
        "host:99999",
        "http://host:2379",
        "u@host:2379",
        "host:1/path",
        "a b:1",
    ] {
        let opened =
            EtcdStore::open(EtcdOptions { endpoints: vec![endpoint.into()], ..EtcdOptions::default() });
        let Err(EtcdOpenError::Endpoint { endpoint: named, .. }) = &opened else {
            panic!("{endpoint:?} {opened:?}")
        };
        assert_eq!(named, endpoint);
    }
    assert!(matches!(EtcdStore::open(EtcdOptions::default()), Err(EtcdOpenError::NoEndpoint)));
    store_at(&["[::1]:2379", "etcd.example:1"]);
}
