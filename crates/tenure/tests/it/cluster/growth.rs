//! The store's room: it does not grow with what is written, people are told before it is short, and a full etcd is an
//! outage that ends by itself once there is room again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_cluster::Keys;

use super::caller::{Caller, Journal, Outcome, Terms, places};
use super::checker::check;
use super::harness::{Cluster, LIMIT, connect, done};
use super::history::Heard;
use super::load::Load;
use super::operator::Operator;
use crate::faults::random::Random;
use crate::run_support::{holds_for, let_time_pass, wait_until};

pub(super) const MIB: u64 = 1 << 20;
/// A snapshot is due after this part of the quota.
const DUE_PARTS: u64 = 32;
const WRITERS: u64 = 8;
/// Of so many leases one is kept.
const KEPT_OF: u64 = 25;
const ATTACHMENT_CHARACTERS: usize = 3_500;

pub(super) fn with_quota(bytes: u64) -> Cluster {
    Cluster::on_one_member(&["--writer-ttl", "1s"], &["--quota-backend-bytes", &bytes.to_string()])
}

/// How many leases each of those who write takes for so many bytes of frames together.
pub(super) fn each_for(bytes: u64) -> u64 {
    bytes.div_ceil(WRITERS * ATTACHMENT_CHARACTERS as u64)
}

pub(super) fn keys() -> Keys {
    Keys::under("test")
}

/// A lease that was acknowledged and not given back.
#[derive(Debug)]
pub(super) struct Kept {
    resource: String,
    lease: Value,
}

/// Takes leases with attachments that do not compress, and gives most of them back.
fn write(addresses: &[SocketAddr], name: &str, seed: u64, count: u64) -> Result<Vec<Kept>, String> {
    let mut random = Random::new(seed);
    let address = addresses[seed as usize % addresses.len()];
    let mut http = connect(address, Duration::from_secs(20)).unwrap();
    let mut kept = Vec::new();
    for number in 0..count {
        let noise = (0..ATTACHMENT_CHARACTERS).map(|_| char::from(b'#' + random.below(56) as u8));
        let resource = format!("{name}/{seed}/{number}");
        let body = json!({
            "resources": [resource], "holder": "writer", "ttl_ms": 600_000, "operation_id": resource,
            "attachment": noise.filter(|character| *character != '\\').collect::<String>(),
        });
        let granted = http.post("/v1/leases", &body);
        // 200: a node tried again, under the id that this caller gave.
        if !matches!(granted.status, 200 | 201) {
            return Err(format!("{resource}: {granted:?}"));
        }
        let lease = granted.json();
        if number % KEPT_OF == 0 {
            kept.push(Kept { resource, lease });
            continue;
        }
        let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
        let released = http.post(&path, &json!({"epoch": lease["epoch"]}));
        if released.status != 200 {
            return Err(format!("{resource}: {released:?}"));
        }
    }
    Ok(kept)
}

/// What nodes say beside the leases that end.
pub(super) fn told(cluster: &Cluster) -> String {
    let said = cluster.nodes.iter().map(|node| format!("--- {}\n{}", node.name, node.daemon.said()));
    let said: String = said.collect();
    said.lines().filter(|line| !line.contains("lease ended")).map(|line| format!("{line}\n")).collect()
}

/// The same over several connections to all nodes, while `meanwhile` is called again and again.
pub(super) fn write_all(cluster: &Cluster, name: &str, each: u64, mut meanwhile: impl FnMut()) -> Vec<Kept> {
    let running = cluster.nodes.iter().filter(|node| node.is_up());
    let addresses: Vec<SocketAddr> = running.map(|node| node.address).collect();
    std::thread::scope(|scope| {
        let addresses = &addresses;
        let writers: Vec<_> =
            (0..WRITERS).map(|seed| scope.spawn(move || write(addresses, name, seed, each))).collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            meanwhile();
            let_time_pass(Duration::from_millis(20), "between two looks");
        }
        let written: Result<Vec<Vec<Kept>>, String> =
            writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        written.unwrap_or_else(|why| panic!("{why}\n{}", told(cluster))).into_iter().flatten().collect()
    })
}

#[track_caller]
fn assert_kept(cluster: &Cluster, node: usize, kept: &[Kept], query: &str) {
    for Kept { resource, lease } in kept {
        let shown =
            cluster.nodes[node].get(&format!("/v1/leases/{}{query}", lease["lease_id"].as_str().unwrap()));
        for field in ["fence", "epoch", "attachment", "holder"] {
            assert_eq!(shown[field], lease[field], "{field} of {resource}: {shown}");
        }
        assert_eq!((&shown["state"], &shown["resources"]), (&json!("active"), &json!([resource])), "{shown}");
    }
}

#[test]
fn the_store_stays_small_however_much_is_written() {
    const QUOTA_BYTES: u64 = 64 * MIB;
    let mut cluster = with_quota(QUOTA_BYTES);
    let operator = Operator::of(&cluster.members[0]);
    let (mut largest_bytes, mut floors) = (0, BTreeSet::new());
    let mut kept = Vec::new();
    // Each round is more than what is due, and the last two trims let go of what was before them in etcd's history.
    for (name, bytes) in [("much", 8 * MIB), ("more", 3 * MIB), ("most", 3 * MIB)] {
        let before = operator.floor(&keys()).frame;
        let mut look = || {
            largest_bytes = largest_bytes.max(operator.db_bytes());
            let floor = operator.floor(&keys()).frame;
            floors.insert(floor);
            floor > before
        };
        kept.extend(write_all(&cluster, name, each_for(bytes), || {
            look();
        }));
        wait_until(&format!("a trim of {name}\n{}", told(&cluster)), LIMIT, look);
    }
    assert!(floors.len() >= 3, "{floors:?}");
    assert!(largest_bytes < QUOTA_BYTES / 2, "{largest_bytes}");
    // It lets go in its own time.
    let mut used_bytes = 0;
    wait_until(&format!("room for what was trimmed\n{}", told(&cluster)), LIMIT, || {
        used_bytes = operator.db_bytes_in_use();
        used_bytes < 10 * MIB
    });
    println!("floors {floors:?}; at most {largest_bytes} bytes, of which {used_bytes} are in use now");
    assert!(!told(&cluster).contains("quota"), "{}", told(&cluster));
    let floor = operator.floor(&keys());
    let frames = operator.range(&keys().frame(0), &keys().frame(u64::MAX));
    let numbers: Vec<u64> = frames.iter().map(|found| keys().frame_number(&found.key).unwrap()).collect();
    assert!(numbers.iter().all(|number| *number >= floor.frame), "{} below {floor:?}", numbers[0]);
    let (from, to) = keys().snapshots();
    let pieces = operator.range(&from, &to);
    assert!(!pieces.is_empty());
    for piece in pieces {
        assert!(
            keys().piece_number(&piece.key).unwrap().0 >= floor.snapshot_lsn,
            "{} is of no use",
            piece.key
        );
    }
    assert!(operator.compacted_upto().is_some(), "etcd keeps every revision");
    // One that comes now begins with the snapshot, and is enough when the others are gone.
    cluster.start_node(2);
    cluster.wait_until_whole();
    let snapshots = cluster.nodes[2].daemon.data_dir().join("snapshots");
    assert!(std::fs::read_dir(snapshots).unwrap().next().is_some(), "it did not begin with one");
    assert_kept(&cluster, 2, &kept, "?consistency=stale");
    kept.extend(write_all(&cluster, "second", 20, || {}));
    wait_until("a new node that has compared with the others", LIMIT, || {
        cluster.nodes[2].daemon.said().contains("this node may lead")
    });
    let writer = cluster.wait_for_writer();
    cluster.kill_node(writer);
    cluster.wait_until_whole();
    assert_kept(&cluster, 2, &kept, "");
    cluster.kill_node(1 - writer);
    wait_until("the new node to write", LIMIT, || cluster.writer() == Some(2));
    cluster.wait_until_whole();
    assert_kept(&cluster, 2, &kept, "");
    let last = cluster.nodes[2].post("/v1/leases", &json!({"resources": ["last"], "holder": "alice"}));
    assert!(kept.iter().all(|kept| kept.lease["fence"].as_u64() < last["fence"].as_u64()), "{last}");
}

#[test]
fn what_was_written_before_a_restart_is_trimmed_too() {
    const QUOTA_BYTES: u64 = 16 * MIB;
    let mut cluster = with_quota(QUOTA_BYTES);
    let operator = Operator::of(&cluster.members[0]);
    // Less than what is due, each time.
    let each = each_for(QUOTA_BYTES / DUE_PARTS * 2 / 3);
    let mut kept = Vec::new();
    for round in 0..4 {
        kept.extend(write_all(&cluster, &format!("round-{round}"), each, || {}));
        for node in [0, 1] {
            cluster.stop_node(node);
        }
        for node in [0, 1] {
            cluster.start_node(node);
        }
        cluster.wait_until_whole();
    }
    wait_until(&format!("a trim\n{}", told(&cluster)), Duration::from_secs(15), || {
        operator.floor(&keys()).frame > 1
    });
    assert_kept(&cluster, 0, &kept, "");
    // A writer that was lost between raising the floor and sweeping: the next one sweeps.
    operator.put(&keys().frame(1), b"left behind").unwrap();
    cluster.nodes[0].post("/v1/cluster/step-down", &json!({}));
    wait_until("a sweep", LIMIT, || operator.range(&keys().frame(0), &keys().frame(2)).is_empty());
    cluster.wait_until_whole();
    assert_kept(&cluster, 1, &kept, "");
}

fn wish(resource: &str) -> Value {
    json!({"resources": [resource], "holder": "alice", "ttl_ms": 60_000})
}

#[test]
fn an_operator_is_told_before_the_store_is_short() {
    const QUOTA_BYTES: u64 = 16 * MIB;
    let cluster = with_quota(QUOTA_BYTES);
    let mut operator = Operator::of(&cluster.members[0]);
    let writer = cluster.wait_for_writer();
    let [held, given_back] =
        ["held", "given-back"].map(|name| cluster.nodes[1 - writer].post("/v1/leases", &wish(name)));
    let warnings = |node: usize| cluster.nodes[node].view().map(|view| view["store"]["warnings"].to_string());
    assert!(!warnings(writer).unwrap().contains("quota"));
    operator.fill_upto(QUOTA_BYTES * 52 / 100);
    wait_until("a warning at half of the quota", LIMIT, || {
        [0, 1].iter().all(|node| {
            warnings(*node).is_some_and(|said| said.contains("% of its quota: compact and defragment"))
        })
    });
    for node in &cluster.nodes[..2] {
        let said = node.daemon.said();
        let line =
            said.lines().find(|line| line.contains("% of its quota")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains("WARN"), "{line}");
    }
    // Half is not short.
    cluster.nodes[0].post("/v1/leases", &wish("at-half"));
    operator.fill_upto(QUOTA_BYTES * 82 / 100);
    let mut number = 0;
    wait_until("grants to be refused", LIMIT, || {
        let_time_pass(Duration::from_millis(250), "slowly: this is not about a store that is full");
        number += 1;
        let asked =
            cluster.nodes[number % 2].ask("POST", "/v1/leases", &wish(&format!("r-{number}"))).unwrap();
        assert!(matches!(asked.status, 201 | 503), "{asked:?}\n{}", told(&cluster));
        asked.status == 503 && asked.json()["error"] == "disk_low"
    });
    let id = |lease: &Value| lease["lease_id"].as_str().unwrap().to_owned();
    for node in &cluster.nodes[..2] {
        let renewed = node.post(&format!("/v1/leases/{}/heartbeat", id(&held)), &json!({"epoch": 1}));
        assert_eq!(renewed["lease_id"], held["lease_id"]);
    }
    cluster.nodes[1 - writer].post(&format!("/v1/leases/{}/release", id(&given_back)), &json!({"epoch": 1}));
    assert!(cluster.nodes[writer].get("/v1/resources/given-back")["lease_id"].is_null());
    // With room again, nothing has to be done to the nodes.
    operator.make_room();
    wait_until("grants", LIMIT, || {
        done(&cluster.nodes[0].ask("POST", "/v1/leases", &wish("given-back"))).is_some()
    });
    let told = wait_for_quiet(&cluster);
    assert!(!told.contains("quota"), "{told}");
}

/// The warnings of a node once none is about room.
fn wait_for_quiet(cluster: &Cluster) -> String {
    let mut told = String::new();
    wait_until("no warning about room", LIMIT, || {
        told = cluster.nodes[0].view().map(|view| view["store"]["warnings"].to_string()).unwrap_or_default();
        !told.is_empty() && !told.contains("quota") && !told.contains("NOSPACE")
    });
    told
}

// The former leader kept its term and answered nothing at all, for as long as etcd was full.
#[test]
fn stale_reads_go_on_at_every_node_while_etcd_is_full() {
    let cluster = with_quota(16 * MIB);
    let mut operator = Operator::of(&cluster.members[0]);
    let writer = cluster.wait_for_writer();
    let held = cluster.nodes[writer].post("/v1/leases", &wish("held"));
    let path = format!("/v1/leases/{}", held["lease_id"].as_str().unwrap());
    operator.fill_up();
    assert!(operator.is_full());
    let short = Duration::from_millis(1_500);
    let reads = |node: usize| {
        let stale = format!("{path}?consistency=stale");
        let told = done(&cluster.nodes[node].ask_within(short, "GET", &stale, &Value::Null));
        told.is_some_and(|told| told["state"] == "active")
    };
    wait_until("an end of authority", LIMIT, || {
        let asked = cluster.nodes[writer].ask_within(short, "GET", &path, &Value::Null);
        done(&asked).is_none()
    });
    wait_until(&format!("stale reads at both nodes\n{}", told(&cluster)), LIMIT, || reads(0) && reads(1));
    assert!(holds_for(Duration::from_secs(3), || reads(0) && reads(1)), "{}", told(&cluster));
    for node in &cluster.nodes[..2] {
        let granted = node.ask_within(short, "POST", "/v1/leases", &wish("other"));
        assert!(done(&granted).is_none(), "{granted:?}");
    }
    // The node that led serves nothing that a balancer should send it.
    let ready = cluster.nodes[writer].ask_within(short, "GET", "/readyz", &Value::Null).unwrap();
    assert_eq!(ready.status, 503, "{ready:?}");
    operator.make_room();
    wait_until("grants", LIMIT, || {
        done(&cluster.nodes[writer].ask("POST", "/v1/leases", &wish("other"))).is_some()
    });
    assert_eq!(cluster.nodes[writer].get(&path)["state"], "active");
    cluster.wait_until_whole();
}

#[test]
fn a_full_etcd_is_an_outage_that_ends_with_it() {
    const QUOTA_BYTES: u64 = 16 * MIB;
    let mut cluster = with_quota(QUOTA_BYTES);
    let mut operator = Operator::of(&cluster.members[0]);
    let journal = Journal::begin();
    let up: Vec<_> = places(&cluster).into_iter().take(2).collect();
    // Shorter than the outage: downtime ends no lease.
    let terms = Terms { ttl_ms: 3_000, grace_ms: 0, wait_ms: 0 };
    let mut caller = Caller::at(up.clone(), &journal);
    let held: Vec<(String, u64)> = (0..10)
        .map(|number| {
            let name = format!("held-{number}");
            match caller.acquire(number % 2, &name, (&name, &name), &terms) {
                Outcome::Heard(Heard::Granted { lease, .. }, Some(epoch)) => (lease, epoch),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let load = Load::begin(&journal, up.clone(), 1);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Holders that renew what they have all the time, and never hear that it is lost.
        scope.spawn(|| {
            let mut caller = Caller::at(up.clone(), &journal);
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                for (number, (lease, epoch)) in held.iter().enumerate() {
                    let heard =
                        caller.heartbeat(round % 2, &format!("renew-{round}-{number}"), lease, *epoch);
                    let is_lost = matches!(heard, Outcome::Heard(Heard::Lost { .. } | Heard::Missing, _));
                    assert!(!is_lost, "{lease}: {heard:?}");
                }
            }
        });
        let ended = EndOnDrop(&is_over);
        wait_until("load", LIMIT, || journal.served() > 200);
        let served = journal.served();
        operator.fill_up();
        assert!(operator.is_full());
        println!("filled while {} were served", journal.served() - served);
        let mut quiet = journal.served();
        wait_until("an end of all answers", LIMIT, || {
            let before = std::mem::replace(&mut quiet, journal.served());
            holds_for(Duration::from_secs(2), || journal.served() == quiet) && before == quiet
        });
        assert!(
            holds_for(Duration::from_secs(3), || journal.served() == quiet),
            "somebody answered without authority"
        );
        for node in &mut cluster.nodes[..2] {
            let view = node.view().unwrap();
            assert!(view["role"] != "leader" || view["leadership_lease_ms"] == 0, "{view}");
        }
        wait_until("the alarm to be shown", LIMIT, || {
            cluster.nodes[0].view().unwrap()["store"]["warnings"].to_string().contains("NOSPACE")
        });
        // One that is started now can follow, and waits like everybody else.
        cluster.kill_node(1);
        cluster.start_node(1);
        operator.make_room();
        wait_until(&format!("answers\n{}", told(&cluster)), LIMIT, || journal.served() > quiet + 200);
        drop(ended);
    });
    cluster.wait_until_whole();
    for (lease, epoch) in &held {
        let shown = cluster.nodes[1].get(&format!("/v1/leases/{lease}"));
        assert_eq!((&shown["state"], &shown["epoch"]), (&json!("active"), &json!(epoch)), "{shown}");
    }
    let report = check(&load.finish(1));
    println!("{report}");
    assert!(report.anomalies.is_empty(), "{report}");
}

/// Ends those who go on until they are told, also when the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
