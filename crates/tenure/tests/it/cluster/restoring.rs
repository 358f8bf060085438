//! etcd is put back to a backup while holders live: nodes know more than the store and refuse to go on with it, so that
//! nothing is granted twice.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_cluster::Keys;
use tenure_cluster::values::{Head, Meta, Node, encode};

use super::caller::{Caller, Journal, Outcome, Terms};
use super::checker::check;
use super::harness::{Cluster, LIMIT, NODES, done};
use super::history::Heard;
use super::operator::Operator;
use super::store::Member;
use crate::daemon::files_below;
use crate::run_support::{holds_for, repeat_for, wait_until};

/// Everything stops, `each` is done to every member, everything goes on.
pub(crate) fn with_members_down(cluster: &mut Cluster, each: impl Fn(&Member)) {
    cluster.members.iter_mut().for_each(Member::kill);
    cluster.members.iter().for_each(each);
    cluster.members.iter_mut().for_each(Member::start);
    cluster.members.iter().for_each(Member::wait_until_healthy);
}

#[test]
fn etcd_restored_from_a_backup_is_refused_and_nothing_is_granted_twice() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let journal = Journal::begin();
    let terms = Terms { ttl_ms: 60_000, grace_ms: 0, wait_ms: 0 };
    let mut caller = Caller::new(&cluster, &journal);
    let take = |caller: &mut Caller, node, name: &str| {
        let outcome =
            caller.acquire(node, &format!("take-{name}"), (name, &format!("holder-{name}")), &terms);
        assert!(matches!(outcome, Outcome::Heard(Heard::Granted { .. }, _)), "{name}: {outcome:?}");
    };
    take(&mut caller, 0, "before");
    with_members_down(&mut cluster, Member::back_up);
    cluster.wait_until_whole();
    // What the backup does not know: a holder, and another writer.
    take(&mut caller, 1, "after");
    cluster.nodes[0].post("/v1/cluster/step-down", &json!({}));
    cluster.wait_until_whole();
    take(&mut caller, 2, "last");
    with_members_down(&mut cluster, Member::restore);
    // Whatever is still up: nobody gets what living holders have.
    let mut asked = 0;
    repeat_for(Duration::from_secs(5), || {
        for (node, name) in (0..NODES.len()).zip(["before", "after", "last"]) {
            asked += 1;
            let operation = format!("steal-{asked}");
            let outcome = caller.acquire(node, &operation, (name, &format!("thief-{asked}")), &terms);
            assert!(!matches!(outcome, Outcome::Heard(Heard::Granted { .. }, _)), "{name}: {outcome:?}");
        }
    });
    // Each ends by itself, and says why when it is started again.
    for node in 0..NODES.len() {
        assert_ne!(cluster.end_of_node(node), 0, "{}", cluster.said_lately());
        assert_ne!(cluster.refused_start(node), 0, "{}", cluster.said_lately());
        let said = cluster.nodes[node].daemon.said();
        assert!(said.contains("restored from a backup") && said.contains("tenure cluster adopt"), "{said}");
    }
    let report = check(&journal.records());
    println!("{report}");
    assert!(report.anomalies.is_empty(), "{report}");
}

/// A cluster of three, a backup that does not know the last grant, and one node that was off before that.
fn forgotten_while_c_was_off(ttl_ms: u64) -> (Cluster, Value) {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let take = |cluster: &Cluster, node: usize, name: &str| {
        let body = json!({"resources": [name], "holder": "first", "ttl_ms": ttl_ms});
        cluster.nodes[node].post("/v1/leases", &body)
    };
    take(&cluster, 0, "early");
    wait_until_listed(&cluster);
    cluster.stop_node(2);
    cluster.wait_until_whole();
    take(&cluster, 0, "before");
    with_members_down(&mut cluster, Member::back_up);
    cluster.wait_until_whole();
    let lease = take(&cluster, 0, "R");
    for node in 0..2 {
        cluster.kill_node(node);
    }
    with_members_down(&mut cluster, Member::restore);
    (cluster, lease)
}

/// Waits until every node that is to run is known to all as one that remembers.
#[track_caller]
fn wait_until_listed(cluster: &Cluster) {
    wait_until("three nodes on the list", LIMIT, || {
        let list =
            |node: usize| cluster.nodes[node].view().map(|view| view["nodes"].as_array().unwrap().len());
        (0..3).all(|node| list(node) == Some(3))
    });
}

/// Whatever it is asked for this long, the node does not lead and grants nothing.
#[track_caller]
fn assert_grants_nothing(cluster: &Cluster, node: usize, time: Duration) {
    let body = json!({"resources": ["R"], "holder": "second", "ttl_ms": 60_000});
    let grants_nothing = holds_for(time, || {
        let asked = cluster.nodes[node].ask_within(Duration::from_secs(1), "POST", "/v1/leases", &body);
        done(&asked).is_none() && cluster.writer() != Some(node)
    });
    assert!(grants_nothing, "{}", cluster.said_lately());
}

/// It remembered less than the backup, claimed, and gave the resource to a second holder with the first one's fence and id.
#[test]
fn a_node_that_was_off_before_the_backup_does_not_go_on_with_it() {
    let (mut cluster, _) = forgotten_while_c_was_off(600_000);
    cluster.start_node(2);
    assert_grants_nothing(&cluster, 2, Duration::from_secs(6));
    let said = cluster.nodes[2].daemon.said();
    assert!(
        said.contains("all of these nodes have answered") && said.contains("tenure cluster forget"),
        "{said}"
    );
    let view = cluster.nodes[2].view().unwrap();
    assert!(view["store"]["warnings"].to_string().contains("remember: a, b"), "{view}");
    // One that remembers more marks the store: nobody goes on with it, and everybody says why.
    assert_ne!(cluster.refused_start(0), 0);
    let said = cluster.nodes[0].daemon.said();
    assert!(said.contains("restored from a backup") && said.contains("tenure cluster adopt"), "{said}");
    assert_ne!(cluster.end_of_node(2), 0);
    assert!(cluster.nodes[2].daemon.said().contains("tenure cluster adopt"));
    // Refused starts write nothing, so that the store does not grow out of what others remember of it.
    let before = cluster.members[0].revision();
    for node in [0, 1, 2] {
        assert_ne!(cluster.refused_start(node), 0, "{}", cluster.said_lately());
    }
    assert_eq!(cluster.members[0].revision(), before);
}

/// It asked the former node's address what is remembered there, and heard itself.
#[test]
fn an_empty_node_at_a_former_address_does_not_take_its_own_word() {
    let (mut cluster, _) = forgotten_while_c_was_off(600_000);
    let daemon = &mut cluster.nodes[0].daemon;
    daemon.set_flag("--node", "rebuilt");
    daemon.set_flag("--data-dir", "DIR/rebuilt");
    cluster.start_node(0);
    assert_grants_nothing(&cluster, 0, Duration::from_secs(6));
    let said = cluster.nodes[0].daemon.said();
    assert!(said.contains("all of these nodes have answered"), "{said}");
}

/// What a node says of those that it waits for; empty if it waits for none.
fn waits_for(cluster: &Cluster, node: usize) -> String {
    let view = cluster.nodes[node].view().unwrap_or_default();
    let warnings = view["store"]["warnings"].as_array().cloned().unwrap_or_default();
    let waits = warnings.iter().filter_map(|warning| warning.as_str()?.split_once("what they remember: "));
    waits.map(|(_, names)| names.split(';').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_node_that_waits_for_lost_nodes_leads_once_an_operator_has_removed_them_all() {
    let mut cluster = Cluster::on_one_member_alone(&["--writer-ttl", "1s"], &[]);
    (0..3).for_each(|node| cluster.start_node(node));
    cluster.wait_until_whole();
    wait_until_listed(&cluster);
    cluster.stop_node(2);
    cluster.wait_until_whole();
    // What the one that is off cannot know of.
    let leader = cluster.wait_for_writer();
    let body = json!({"resources": ["kept"], "holder": "h", "ttl_ms": 600_000});
    let kept = cluster.nodes[leader].post("/v1/leases", &body);
    cluster.lose_node(0);
    cluster.lose_node(1);
    cluster.start_node(2);
    for (waits, lost) in [("a, b", "a"), ("b", "b")] {
        wait_until(&format!("{waits} to be waited for\n{}", cluster.said_lately()), LIMIT, || {
            waits_for(&cluster, 2) == waits
        });
        assert_grants_nothing(&cluster, 2, Duration::from_secs(3));
        let removed = cluster.nodes[2].daemon.tenure(&["cluster", "forget", lost, "--yes"]);
        assert_eq!((removed.code, removed.out), (0, format!("removed node {lost}\n")), "{}", removed.err);
    }
    assert_eq!(cluster.wait_for_writer(), 2);
    assert_eq!(waits_for(&cluster, 2), "");
    cluster.nodes[2].post("/v1/leases", &json!({"resources": ["R"], "holder": "h", "ttl_ms": 60_000}));
    let shown = cluster.nodes[2].get(&format!("/v1/leases/{}", kept["lease_id"].as_str().unwrap()));
    assert_eq!(shown["state"], "active", "{shown}");
}

/// It took the other log for its own one after a restore, and wrote there at once.
#[test]
fn a_node_of_one_cluster_does_not_join_another_whose_generation_is_higher() {
    let mut cluster = Cluster::on_one_member_alone(&[], &[]);
    let own = cluster.nodes[0].daemon.flag("--log").unwrap().to_owned();
    let other = cluster.nodes[1].daemon.flag("--log").unwrap().replace("/test", "/other");
    cluster.nodes[1].daemon.set_flag("--log", &other);
    let mut leases = Vec::new();
    for node in [0, 1] {
        cluster.start_node(node);
        wait_until("a leader of its own", LIMIT, || {
            cluster.nodes[node].view().is_some_and(|view| view["role"] == "leader")
        });
        let body = json!({"resources": ["R"], "holder": "h", "ttl_ms": 600_000});
        leases.push(cluster.nodes[node].post("/v1/leases", &body));
    }
    cluster.stop_node(0);
    cluster.stop_node(1);
    let directory = cluster.nodes[1].daemon.data_dir().display().to_string();
    let words = ["cluster", "adopt", "--yes", "--log", &other, "--data-dir", &directory];
    let adopted = cluster.nodes[1].daemon.tenure(&words);
    assert_eq!(adopted.code, 0, "{}", adopted.err);
    let operator = Operator::of(&cluster.members[0]);
    let [ours, theirs] = ["test", "other"].map(|prefix| operator.value::<Meta>(&Keys::under(prefix).meta()));
    assert!(theirs.generation > ours.generation, "{theirs:?} {ours:?}");

    let (files, revision) = (files_below(&cluster.nodes[0].daemon.data_dir()), cluster.members[0].revision());
    cluster.nodes[0].daemon.set_flag("--log", &other);
    assert_ne!(cluster.refused_start(0), 0);
    let said = cluster.nodes[0].daemon.said();
    let (found, known) = (theirs.log_id, ours.log_id);
    let names = format!("the store has log {found:016x}, this machine has a local log of {known:016x}");
    assert!(said.contains(&names), "{said}");
    assert_eq!(files_below(&cluster.nodes[0].daemon.data_dir()), files);
    assert_eq!(cluster.members[0].revision(), revision, "it wrote into the store of the others");

    cluster.nodes[0].daemon.set_flag("--log", &own);
    cluster.start_node(0);
    cluster.wait_until_whole();
    let path = format!("/v1/leases/{}/heartbeat", leases[0]["lease_id"].as_str().unwrap());
    cluster.nodes[0].post(&path, &json!({"epoch": 1}));
}

#[test]
fn a_second_node_with_the_same_name_is_refused() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    wait_until_listed(&cluster);
    cluster.stop_node(2);
    cluster.nodes[2].daemon.set_flag("--node", "a");
    cluster.nodes[2].daemon.set_flag("--data-dir", "DIR/other");
    assert_ne!(cluster.refused_start(2), 0);
    let said = cluster.nodes[2].daemon.said();
    assert!(said.contains("another node is called \"a\""), "{said}");
    // The one that has the name goes on; and a name is free again once nobody answers for it.
    cluster.wait_until_whole();
    cluster.stop_node(0);
    cluster.start_node(2);
    cluster.wait_until_whole();
}

/// Both ran: neither was listed when the other one looked, and each put its entry in the place of the other's.
#[test]
fn of_two_nodes_that_start_under_one_name_at_once_one_is_refused() {
    let mut cluster = Cluster::on_one_member_alone(&["--writer-ttl", "1s"], &[]);
    cluster.nodes[1].daemon.set_flag("--node", "a");
    (0..2).for_each(|node| cluster.nodes[node].daemon.spawn());
    let is_refused = |cluster: &Cluster, node: usize| {
        cluster.nodes[node].daemon.said().contains("another node is called \"a\" and answers at")
    };
    wait_until("one of them to be refused", LIMIT, || (0..2).any(|node| is_refused(&cluster, node)));
    let refused = usize::from(is_refused(&cluster, 1));
    assert_ne!(cluster.end_of_node(refused), 0);
    let other = 1 - refused;
    cluster.started(other);
    cluster.wait_until_whole();
    assert!(!is_refused(&cluster, other), "{}", cluster.said_lately());
    assert_eq!(cluster.wait_for_writer(), other);
}

/// The other one's answer counted only if it was of the run that is listed.
#[test]
fn a_second_node_with_the_same_name_is_refused_whichever_run_is_listed() {
    let mut cluster = Cluster::on_one_member(&["--writer-ttl", "1s"], &[]);
    wait_until("a list with both", LIMIT, || {
        cluster.nodes[0].view().is_some_and(|view| view["nodes"].as_array().is_some_and(|all| all.len() == 2))
    });
    let (operator, key) = (Operator::of(&cluster.members[0]), Keys::under("test").node("a"));
    let listed: Node = operator.value(&key);
    let own = listed.incarnation.clone();
    operator.put(&key, &encode(&Node { incarnation: "0".repeat(32), ..listed })).unwrap();
    cluster.nodes[2].daemon.set_flag("--node", "a");
    assert_ne!(cluster.refused_start(2), 0);
    let said = cluster.nodes[2].daemon.said();
    assert!(said.contains("another node is called \"a\""), "{said}");
    // The one that has the name puts its entry back.
    wait_until("its own entry", LIMIT, || operator.value::<Node>(&key).incarnation == own);
    cluster.wait_until_whole();
}

/// Any directory was taken, and another cluster's log with it.
#[test]
fn adopting_takes_what_nodes_of_this_log_remember_and_nothing_else() {
    let (mut cluster, lease) = forgotten_while_c_was_off(10_000);
    let log = cluster.nodes[0].daemon.flag("--log").unwrap().to_owned();
    let directories: Vec<String> =
        cluster.nodes.iter().map(|node| node.daemon.data_dir().display().to_string()).collect();
    let adopt = |cluster: &Cluster, directories: &[String]| {
        let mut words = vec!["cluster", "adopt", "--yes", "--longest-ttl", "1s", "--log", &log];
        directories.iter().for_each(|directory| words.extend(["--data-dir", directory]));
        cluster.nodes[0].daemon.tenure(&words)
    };
    // Of another log.
    let foreign = cluster.nodes[0].daemon.path("foreign");
    let copied = Command::new("cp").arg("-a").args([&cluster.nodes[0].daemon.data_dir(), &foreign]).status();
    assert!(copied.unwrap().success());
    let memory = foreign.join("cluster.json");
    let mut value: Value = serde_json::from_slice(&fs::read(&memory).unwrap()).unwrap();
    value["log_id"] = json!(value["log_id"].as_u64().unwrap() ^ 1);
    fs::write(&memory, value.to_string()).unwrap();
    let refused = adopt(&cluster, &[foreign.display().to_string()]);
    assert!(refused.code != 0 && refused.err.contains("belongs to another log"), "{}", refused.err);
    // One node twice is one node.
    fs::write(&memory, fs::read(cluster.nodes[0].daemon.data_dir().join("cluster.json")).unwrap()).unwrap();
    let refused = adopt(&cluster, &[directories[0].clone(), foreign.display().to_string()]);
    assert!(refused.code != 0 && refused.err.contains("are of one node"), "{}", refused.err);
    // What is missing is named.
    let before = cluster.members[0].revision();
    let adopted = adopt(&cluster, &directories[..1]);
    assert_eq!(adopted.code, 0, "{}", adopted.err);
    let told = format!("{}{}", adopted.out, adopted.err);
    assert!(told.contains("missing: b, c") && told.contains("LOST"), "{told}");
    assert!(told.contains("recovered from a"), "{told}");
    assert!(cluster.members[0].revision() > before);
    // Any one node goes on alone: what the others remember of the generation before counts no more.
    cluster.start_node(2);
    cluster.wait_until_whole();
    // Its holder may act for a while yet; then fences go on above it.
    let grants = |name: &str| json!({"resources": [name], "holder": "second", "ttl_ms": 60_000});
    assert_ne!(cluster.nodes[2].ask("POST", "/v1/leases", &grants("R")).unwrap().status, 201);
    let body = grants("another");
    let mut second = Value::Null;
    wait_until("a grant after the longest ttl", LIMIT, || {
        let asked = cluster.nodes[2].ask("POST", "/v1/leases", &body);
        second = done(&asked).unwrap_or_default();
        second.is_object()
    });
    assert!(second["fence"].as_u64() > lease["fence"].as_u64(), "{second} after {lease}");
    // Whoever has an old id is told what became of it; an id of a log that never was is nobody's.
    let id = lease["lease_id"].as_str().unwrap();
    let story = cluster.nodes[2].get(&format!("/v1/why?lease={id}"));
    assert!(story.to_string().contains("restored"), "{story}");
    assert_eq!(story["subject"], *id, "{story}");
    let stranger = format!("zzzz{}", &id[4..]);
    let unknown = cluster.nodes[2].ask("GET", &format!("/v1/why?lease={stranger}"), &Value::Null).unwrap();
    assert_eq!(unknown.status, 404, "{unknown:?}");
    assert_ne!(second["lease_id"], lease["lease_id"]);
    cluster.start_node(0);
    cluster.start_node(1);
    cluster.wait_until_whole();
}

// The old log is not in the new one: the directory that each node moved aside has ids that had ended before the adoption.
#[test]
fn what_had_ended_before_an_adoption_is_told_by_the_log_that_was_put_aside() {
    let mut cluster = Cluster::on_one_member(&["--writer-ttl", "1s"], &[]);
    let wish = |name: &str| json!({"resources": [name], "holder": "h", "ttl_ms": 600_000});
    let [ended, live] = ["R", "S"].map(|name| cluster.nodes[0].post("/v1/leases", &wish(name)));
    let id = |lease: &Value| lease["lease_id"].as_str().unwrap().to_owned();
    cluster.nodes[0].post(&format!("/v1/leases/{}/release", id(&ended)), &json!({"epoch": 1}));
    wait_until("both have it", LIMIT, || {
        let seen =
            |node: usize| cluster.nodes[node].get(&format!("/v1/why?lease={}&consistency=stale", id(&ended)));
        [0, 1].iter().all(|node| seen(*node).to_string().contains("released"))
    });
    let log = cluster.nodes[0].daemon.flag("--log").unwrap().to_owned();
    let directories = [0, 1].map(|node| cluster.nodes[node].daemon.data_dir().display().to_string());
    [0, 1].into_iter().for_each(|node| cluster.stop_node(node));
    let [a, b] = &directories;
    let words = ["cluster", "adopt", "--yes", "--log", &log, "--data-dir", a, "--data-dir", b];
    let adopted = cluster.nodes[0].daemon.tenure(&words);
    assert_eq!(adopted.code, 0, "{}", adopted.err);
    [0, 1].into_iter().for_each(|node| cluster.start_node(node));
    cluster.wait_until_whole();
    for node in &cluster.nodes[..2] {
        let story = |lease: &Value| {
            let answered = node.ask("GET", &format!("/v1/why?lease={}", id(lease)), &Value::Null).unwrap();
            (answered.status, answered.json())
        };
        let (status, told) = story(&live);
        assert!(status == 200 && told.to_string().contains("restored"), "{told}");
        let (status, told) = story(&ended);
        assert_eq!(status, 404, "{told}");
        let archive = told["archive"].as_str().unwrap_or_else(|| panic!("{told}"));
        let told = node.daemon.tenure(&["why", &id(&ended)]);
        assert!(told.err.contains("tenure log why") && told.err.contains("log.aside"), "{}", told.all());
        let told = node.daemon.tenure(&["log", "why", archive, &id(&ended)]);
        assert!(told.code == 0 && told.out.contains("released"), "{}", told.all());
    }
}

/// What follows watches the store; what leads has to remember what its own steps came to.
#[test]
fn the_memory_of_a_leader_rises_with_its_barriers() {
    let cluster = Cluster::on_one_member(&["--writer-ttl", "1s"], &[]);
    let leader = &cluster.nodes[cluster.wait_for_writer()];
    let (operator, key) = (Operator::of(&cluster.members[0]), Keys::under("test").node(leader.name));
    let memory = leader.daemon.data_dir().join("cluster.json");
    for _ in 0..2 {
        let reached = cluster.members[0].revision();
        wait_until(&format!("revision {reached} in the leader's memory"), LIMIT, || {
            let known: Value = serde_json::from_slice(&fs::read(&memory).unwrap()).unwrap();
            let known = known["revision"].as_u64().unwrap();
            // Every ten seconds it learns one more from its entry on the list: that is no barrier.
            let listed = operator.range(&key, &format!("{key}\0"))[0].revision;
            known >= reached && known > listed
        });
    }
}

/// A follower took the new snapshot and went on with the wait of the generation before: as the leader it granted at once.
#[test]
fn nodes_that_run_while_the_log_is_adopted_stop_and_write_nothing_more() {
    let mut cluster = Cluster::on_one_member(&["--writer-ttl", "1s"], &[]);
    let wish = |name: &str| json!({"resources": [name], "holder": "h", "ttl_ms": 600_000});
    let lease = cluster.nodes[0].post("/v1/leases", &wish("R"));
    let log = cluster.nodes[0].daemon.flag("--log").unwrap().to_owned();
    let adopt =
        |cluster: &Cluster| cluster.nodes[2].daemon.tenure(&["cluster", "adopt", "--yes", "--log", &log]);
    // A leader is noticed.
    let refused = adopt(&cluster);
    assert!(
        refused.code != 0 && refused.err.contains("is the leader; stop every node first"),
        "{}",
        refused.err
    );
    cluster.wait_until_whole();
    // One that stands still is not.
    [0, 1].into_iter().for_each(|node| cluster.freeze_node(node));
    let adopted = adopt(&cluster);
    assert_eq!(adopted.code, 0, "{}", adopted.err);
    let (operator, keys) = (Operator::of(&cluster.members[0]), Keys::under("test"));
    let head: Head = operator.value(&keys.head());
    [0, 1].into_iter().for_each(|node| cluster.thaw_node(node));
    for node in [0, 1] {
        assert_ne!(cluster.end_of_node(node), 0, "{}", cluster.said_lately());
        let said = cluster.nodes[node].daemon.said();
        assert!(
            said.contains("the log was adopted or moved while the node ran; start the node again"),
            "{said}"
        );
    }
    assert_eq!(operator.value::<Head>(&keys.head()), head, "a node wrote frames into the adopted log");
    // Started again they know of the adoption: the lease is over, and grants wait.
    [0, 1].into_iter().for_each(|node| cluster.start_node(node));
    cluster.wait_until_whole();
    let shown = cluster.nodes[0].get(&format!("/v1/why?lease={}", lease["lease_id"].as_str().unwrap()));
    assert!(shown.to_string().contains("restored"), "{shown}");
    assert_ne!(cluster.nodes[0].ask("POST", "/v1/leases", &wish("another")).unwrap().status, 201);
}
