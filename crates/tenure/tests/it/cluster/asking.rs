//! Any node takes any request; followers answer what may be old, and stream what happens.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT, done};
use crate::raw_events::Events;

fn acquire(resource: &str) -> Value {
    json!({"resources": [resource], "holder": "alice", "ttl_ms": 30_000})
}

fn id(lease: &Value) -> &str {
    lease["lease_id"].as_str().unwrap()
}

#[test]
fn any_node_takes_any_request() {
    let cluster = Cluster::local(&[]);
    for entry in &cluster.nodes {
        let name = format!("through/{}", entry.name);
        let lease = entry.post("/v1/leases", &acquire(&name));
        let of_lease = |call: &str| format!("/v1/leases/{}/{call}", id(&lease));
        let renewed = entry.post(&of_lease("heartbeat"), &json!({"epoch": 1}));
        assert_eq!(renewed["valid_ms"], 29_849, "{renewed}");
        let amended = entry.post(&of_lease("amend"), &json!({"epoch": 1, "attachment": {"job": 7}}));
        assert_eq!(amended["attachment"], json!({"job": 7}));
        let checked = entry.post("/v1/check", &json!({"resource": name, "fence": lease["fence"]}));
        assert_eq!(checked["current"], true, "{checked}");
        // What one took, every other one knows at once.
        for other in &cluster.nodes {
            let seen = other.get(&format!("/v1/leases/{}", id(&lease)));
            assert_eq!((&seen["state"], &seen["liveness"]), (&json!("active"), &json!("alive")), "{seen}");
            let resource = other.get(&format!("/v1/resources/{name}"));
            assert_eq!(resource["lease_id"], lease["lease_id"], "{resource}");
            let refused = other.ask("POST", "/v1/leases", &acquire(&name)).unwrap();
            assert_eq!(refused.refusal(), (409, "resource_held".to_owned()));
        }
        let session = entry.post("/v1/sessions", &json!({"holder": "bob", "ttl_ms": 20_000, "grace_ms": 0}));
        let session = session["session"].as_str().unwrap().to_owned();
        entry.post(&format!("/v1/sessions/{session}/heartbeat"), &json!({}));
        let pool = format!("pool-{}", entry.name);
        entry.good("PUT", &format!("/v1/pools/{pool}"), &json!({"size": 2}));
        let member =
            entry.post("/v1/leases", &json!({"pools": {&pool: 1}, "holder": "bob", "session": session}));
        assert_eq!(member["resources"], json!([format!("{pool}/1")]));
        let why = entry.get(&format!("/v1/why?lease={}", id(&lease)));
        assert!(!why["entries"].as_array().unwrap().is_empty(), "{why}");
        let drained = entry.post(&of_lease("drain"), &json!({"reason": "test"}));
        assert_eq!(drained["liveness"], "draining");
        assert_eq!(entry.post(&of_lease("revive"), &json!({}))["liveness"], "alive");
        assert_eq!(entry.post(&of_lease("release"), &json!({"epoch": 1}))["state"], "released");
    }
}

#[test]
fn an_operation_id_holds_for_all_nodes() {
    let cluster = Cluster::local(&[]);
    let mut body = acquire("once");
    body["operation_id"] = json!("the-same");
    let first = cluster.nodes[0].post("/v1/leases", &body);
    for node in &cluster.nodes {
        let again = node.post("/v1/leases", &body);
        assert_eq!((&again["lease_id"], &again["replayed"]), (&first["lease_id"], &json!(true)), "{again}");
    }
}

#[test]
fn one_who_waits_at_a_follower_is_granted_what_is_released_elsewhere() {
    let cluster = Cluster::local(&[]);
    let [follower, other] = cluster.followers();
    let held = cluster.nodes[other].post("/v1/leases", &acquire("wanted"));
    let mut waiting = cluster.nodes[follower].connect(LIMIT).unwrap();
    let wish = json!({"resources": ["wanted"], "holder": "bob", "ttl_ms": 5_000, "wait_ms": 20_000});
    waiting.send("POST", "/v1/leases", wish.to_string().as_bytes()).unwrap();
    crate::run_support::wait_until("a waiter", LIMIT, || {
        let resource = cluster.nodes[other].get("/v1/resources/wanted");
        resource["waiters"].as_array().is_some_and(|waiters| !waiters.is_empty())
    });
    cluster.nodes[other].post(&format!("/v1/leases/{}/release", id(&held)), &json!({"epoch": 1}));
    let granted = waiting.answer().unwrap();
    assert_eq!((granted.status, &granted.json()["holder"]), (201, &json!("bob")), "{granted:?}");
}

#[test]
fn stale_and_min_lsn_reads_on_followers() {
    let cluster = Cluster::local(&[]);
    let writer = &cluster.nodes[cluster.wait_for_writer()];
    let followers = cluster.followers().map(|place| &cluster.nodes[place]);
    for (number, follower) in followers.into_iter().enumerate() {
        let lease = writer.post("/v1/leases", &acquire(&format!("read/{number}")));
        let lsn = lease["lsn"].as_u64().unwrap();
        // Applied at least so far: what was granted is there.
        let seen = follower.get(&format!("/v1/leases/{}?min_lsn={lsn}", id(&lease)));
        assert_eq!((&seen["state"], &seen["fence"]), (&json!("active"), &lease["fence"]), "{seen}");
        assert!(seen["lsn"].as_u64().unwrap() >= lsn, "{seen}");
        let stale = follower.get(&format!("/v1/leases/{}?consistency=stale", id(&lease)));
        assert!(stale["lsn"].as_u64().unwrap() >= lsn, "{stale}");
        for liveness in ["liveness", "remaining_ms", "valid_ms", "last_seen"] {
            assert!(stale[liveness].is_null(), "a follower cannot know {liveness}: {stale}");
        }
        let listed = follower.get(&format!("/v1/leases?min_lsn={lsn}&resource_prefix=read/{number}"));
        assert_eq!(listed["leases"].as_array().unwrap().len(), 1, "{listed}");
        // Never reached: an answer that it is not so, not an old one.
        let path = format!("/v1/leases/{}?min_lsn={}", id(&lease), lsn + 1_000_000);
        let refused = follower.ask_within(LIMIT, "GET", &path, &Value::Null).unwrap();
        assert_eq!(refused.refusal(), (503, "not_leader".to_owned()), "{refused:?}");
    }
}

#[test]
fn a_check_is_never_answered_from_the_past() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let [follower, _] = cluster.followers();
    let writer = cluster.wait_for_writer();
    let lease = cluster.nodes[writer].post("/v1/leases", &acquire("guarded"));
    let body = json!({"resource": "guarded", "fence": lease["fence"]});
    // The writer stands still, the follower knows the lease; nobody may say that it is current.
    cluster.freeze_node(writer);
    let path = "/v1/check?consistency=stale";
    let asked = cluster.nodes[follower].ask_within(Duration::from_millis(300), "POST", path, &body);
    let answer = asked.ok().map(|answered| answered.json()["current"].clone());
    assert_ne!(answer, Some(json!(true)), "answered by one who cannot know");
    cluster.thaw_node(writer);
}

#[test]
fn an_event_stream_on_a_follower_shows_everything() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let [follower, other] = cluster.followers();
    let mut events = Events::begin(cluster.nodes[follower].connect(LIMIT).unwrap(), "");
    let mut expected = Vec::new();
    for number in 0..20 {
        let through = &cluster.nodes[number % 3];
        let lease = through.post("/v1/leases", &acquire(&format!("shown/{number}")));
        through.post(&format!("/v1/leases/{}/release", id(&lease)), &json!({"epoch": 1}));
        expected.push(("granted", id(&lease).to_owned()));
        expected.push(("released", id(&lease).to_owned()));
    }
    // It goes on over a change of writer, without a gap and without a repetition.
    let writer = cluster.wait_for_writer();
    assert!(writer != follower && writer != other);
    cluster.kill_node(writer);
    let through = &cluster.nodes[follower];
    let mut lease = None;
    crate::run_support::wait_until("a grant by the next writer", LIMIT, || {
        let mut body = acquire("shown/after");
        body["operation_id"] = json!("shown-after");
        lease = done(&through.ask("POST", "/v1/leases", &body));
        lease.is_some()
    });
    let lease = lease.unwrap();
    expected.push(("granted", id(&lease).to_owned()));
    let mut shown = Vec::new();
    let (mut last_lsn, mut reconnects) = (0, 0);
    while shown.len() < expected.len() {
        let Some(event) = events.next() else {
            // The node may have become the writer itself: whoever listens comes again with the last it has seen.
            reconnects += 1;
            assert!(reconnects < 5, "the stream ends again and again\n{}", cluster.said_lately());
            events = Events::begin(through.connect(LIMIT).unwrap(), &format!("?from={last_lsn}"));
            continue;
        };
        if let Some(lsn) = event.data["lsn"].as_u64() {
            assert!(lsn > last_lsn, "{lsn} after {last_lsn}: {event:?}");
            last_lsn = lsn;
        }
        let of_lease = event.data["lease"]["lease_id"].as_str().map(str::to_owned);
        if let (Some(lease), Some((kind, _))) =
            (of_lease, expected.iter().find(|(kind, _)| *kind == event.kind))
        {
            shown.push((*kind, lease));
        }
    }
    assert_eq!(shown, expected);
}

#[test]
fn what_an_event_stream_missed_is_replayed_by_another_node() {
    let cluster = Cluster::local(&[]);
    let first = cluster.nodes[0].post("/v1/leases", &acquire("replayed/1"));
    let from = first["lsn"].as_u64().unwrap();
    let second = cluster.nodes[1].post("/v1/leases", &acquire("replayed/2"));
    for node in &cluster.nodes {
        let mut events = Events::begin(node.connect(LIMIT).unwrap(), &format!("?from={from}"));
        let event = std::iter::from_fn(|| events.next()).find(|event| event.kind == "granted").unwrap();
        assert_eq!(event.data["lease"]["lease_id"], second["lease_id"], "{}: {event:?}", node.name);
    }
}

/// A node multiplied the quota by a percentage, overflowed and stopped.
#[test]
fn an_etcd_whose_quota_is_the_largest_number_there_is_stops_no_node() {
    let cluster = Cluster::on_one_member(&[], &["--quota-backend-bytes", "9223372036854775807"]);
    let lease = cluster.nodes[0].post("/v1/leases", &acquire("quota"));
    assert_eq!(cluster.nodes[1].get("/v1/resources/quota")["lease_id"], lease["lease_id"]);
}

/// The largest numbers that JSON can carry, on every call that counts with one. A node added one of them to its patience,
/// overflowed and stopped.
#[test]
fn numbers_that_no_clock_can_count_are_refused_and_stop_no_node() {
    let cluster = Cluster::local(&[]);
    let most = u64::MAX;
    for node in &cluster.nodes {
        let ask = |path: &str, body: Value| {
            let answer =
                node.ask("POST", path, &body).unwrap_or_else(|error| panic!("{path} {body}: {error}"));
            assert!((400..500).contains(&answer.status), "{path} {body}: {answer:?}");
        };
        for field in ["wait_ms", "ttl_ms", "grace_ms", "reserve_ms", "max_lifetime_ms", "reclaim_delay_ms"] {
            let mut body = acquire("numbers");
            body[field] = json!(most);
            ask("/v1/leases", body);
        }
        // From where a node's patience does not fit on top, and over the socket, where a line that waits has a tag.
        let mut socket = node.daemon.lines();
        for wait_ms in [most, most - 11_999, most - 12_000, most - 12_001] {
            let mut body = acquire("numbers");
            body["wait_ms"] = json!(wait_ms);
            let answer = node.ask("POST", "/v1/leases", &body).unwrap();
            assert_eq!((answer.status, &answer.json()["error"]), (400, &json!("ttl_out_of_range")));
            let answer = socket.ask(&json!({"acquire": body, "tag": 1}));
            assert_eq!((&answer["error"], &answer["tag"]), (&json!("ttl_out_of_range"), &json!(1)));
        }
        ask("/v1/sessions", json!({"holder": "h", "ttl_ms": most, "grace_ms": most}));
        ask("/v1/sessions/s:00000001/heartbeat", json!({"seen_lsn": most}));
        for call in ["heartbeat", "release", "acknowledge", "rebind", "activate", "amend"] {
            ask(&format!("/v1/leases/none-{most}/{call}"), json!({"epoch": most}));
        }
        let check = json!({"lease_id": format!("none-{most}"), "epoch": most});
        assert_eq!(node.post("/v1/check", &check)["current"], false);
    }
    // They are all still there.
    for node in &cluster.nodes {
        node.post("/v1/leases", &acquire(&format!("after/{}", node.name)));
    }
}
