//! What a node has to be before it serves: heard at its own URL, known by its own secret, told apart by its machine.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure_cluster::Keys;
use tenure_cluster::values::Meta;

use super::harness::{Cluster, LIMIT, Node, done};
use super::operator::Operator;
use crate::daemon::Daemon;
use crate::run_desk::Running;
use crate::run_support::{holds_for, let_time_pass, wait_until};

const SHORT: Duration = Duration::from_secs(2);

/// A node of its own beside those of a cluster, listening where node 2 would.
fn beside(cluster: &Cluster, more: &[&str]) -> Daemon {
    let address = cluster.nodes[2].address;
    let (bind, port) = (address.ip().to_string(), address.port().to_string());
    let log = format!("etcd://{}/test", cluster.members[0].address);
    let flags = ["--bind", &bind, "--port", &port, "--log", &log, "--node", "n"];
    Daemon::prepared(&[&flags[..], more].concat())
}

// The README printed such a command: bound to 127.0.0.1, advertised elsewhere. When that node wrote, every other answered
// `not_leader` after 12 s.
#[test]
fn a_node_that_does_not_hear_itself_where_it_is_advertised_is_refused() {
    let mut cluster = Cluster::on_one_member_alone(&[], &[]);
    cluster.start_node(0);
    cluster.wait_until_whole();
    let elsewhere = format!("http://{}", cluster.nodes[1].address);
    let anothers = format!("http://{}", cluster.nodes[0].address);
    for (advertise, heard) in
        [(&elsewhere, "Connection refused"), (&anothers, "another process answers there")]
    {
        let mut node = beside(&cluster, &["--advertise", advertise]);
        node.spawn();
        let (code, said) = (node.code(), node.said());
        assert_eq!(code, 3, "{said}");
        let listens = cluster.nodes[2].address.to_string();
        for words in ["cannot reach itself at --advertise", advertise, heard, &listens] {
            assert!(said.contains(words), "{words:?} is not said: {said}");
        }
        assert!(!node.socket().exists(), "it leaves its socket behind");
    }
    let own = format!("http://{}", cluster.nodes[2].address);
    let mut node = beside(&cluster, &["--advertise", &own]);
    node.start_again();
    wait_until("its first words", LIMIT, || node.said().contains("single member"));
    assert!(!node.said().contains("unencrypted"), "nothing leaves the machine: {}", node.said());
}

// Given and accepted, it protected nothing.
#[test]
fn a_password_for_an_etcd_that_asks_nobody_is_warned_of() {
    let cluster = Cluster::on_one_member_alone(&[], &[]);
    let own = format!("http://{}", cluster.nodes[2].address);
    let user = ["--etcd-user", "tenure", "--etcd-password-file", "DIR/password"];
    let mut node = beside(&cluster, &[&["--advertise", &own][..], &user].concat());
    let password = node.path("password");
    std::fs::write(&password, "sesame\n").unwrap();
    std::fs::set_permissions(&password, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    node.start_again();
    wait_until("a warning", LIMIT, || node.said().contains("etcdctl auth enable"));
}

/// Starts a node as if on a machine of its own: with another id of its machine.
fn on_a_machine_of_its_own(cluster: &mut Cluster, place: usize) {
    let node = &mut cluster.nodes[place];
    let id = node.daemon.path("machine-id");
    std::fs::write(&id, format!("{:032x}\n", place + 1)).unwrap();
    let words = ["unshare", "--mount", "sh", "-c", "mount --bind \"$0\" /etc/machine-id && exec \"$@\""];
    let words: Vec<&str> = words.into_iter().chain([id.to_str().unwrap()]).collect();
    let daemon = std::mem::replace(&mut node.daemon, Daemon::prepared(&[]));
    node.daemon = daemon.with_launcher(&words);
    cluster.start_node(place);
}

fn release(node: &Node, uid: u32, lease: &Value) -> (u16, String) {
    let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
    let answered = node.daemon.http_of(uid).post(&path, &json!({"epoch": 1}));
    if answered.status == 200 { (200, String::new()) } else { answered.refusal() }
}

// uid 1000 at b released uid 1000's lease of a.
#[test]
fn a_user_of_one_machine_is_not_that_user_of_another() {
    let mut cluster = Cluster::on_one_member_alone(&[], &[]);
    for place in 0..2 {
        on_a_machine_of_its_own(&mut cluster, place);
    }
    cluster.wait_until_whole();
    let [a, b] = [&cluster.nodes[0], &cluster.nodes[1]];
    let acquire = |resource: &str| {
        let body = json!({"resources": [resource], "holder": "alice", "ttl_ms": 60_000});
        let answered = a.daemon.http_of(1_000).post("/v1/leases", &body);
        assert_eq!(answered.status, 201, "{answered:?}");
        answered.json()
    };
    let lease = acquire("r");
    assert_eq!(release(b, 1_000, &lease), (403, "forbidden".to_owned()));
    assert_eq!(release(a, 1_001, &lease), (403, "forbidden".to_owned()));
    let shown = a.daemon.http_of(1_000).get("/v1/caller").json();
    assert!(shown["principal"].as_str().unwrap().starts_with("uid:1000@"), "{shown}");
    assert_eq!(release(a, 1_000, &lease).0, 200);
    // Root of one machine is an operator, and no holder of what another machine's users have.
    let lease = acquire("r");
    assert_eq!(release(b, 0, &lease), (403, "forbidden".to_owned()));
    let revoke = format!("/v1/leases/{}/revoke", lease["lease_id"].as_str().unwrap());
    assert_eq!(b.daemon.http_of(0).post(&revoke, &json!({"reason": "test"})).status, 200);
}

#[test]
fn without_authentication_every_caller_is_the_same_principal_at_every_node() {
    let mut cluster = Cluster::on_one_member_alone(&["--insecure-no-auth", "--auth-local", "admin"], &[]);
    for place in 0..2 {
        on_a_machine_of_its_own(&mut cluster, place);
    }
    cluster.wait_until_whole();
    let [a, b] = [&cluster.nodes[0], &cluster.nodes[1]];
    for (node, uid) in [(a, 1_000), (a, 0), (b, 1_001)] {
        assert_eq!(node.daemon.http_of(uid).get("/v1/caller").json()["principal"], "local", "{uid}");
    }
    // A caller that a balancer sends to another node the next time.
    let body = json!({"resources": ["r"], "holder": "alice", "ttl_ms": 60_000});
    let granted = a.daemon.http_of(1_000).post("/v1/leases", &body);
    assert_eq!(granted.status, 201, "{granted:?}");
    assert_eq!(release(b, 1_001, &granted.json()), (200, String::new()));
}

/// What a node answers to somebody who shows a secret.
fn shown_secret(node: &Node, secret: &str) -> u16 {
    let stream = std::net::TcpStream::connect_timeout(&node.address, SHORT).unwrap();
    stream.set_read_timeout(Some(SHORT)).unwrap();
    let mut http = crate::raw_http::Http::new(stream, &node.address.to_string()).with("tenure-node", secret);
    http.try_ask("GET", "/v1/cluster/self", b"").unwrap().status
}

#[test]
fn the_secret_of_the_nodes_is_replaced_while_calls_are_passed_on() {
    let cluster = Cluster::local(&[]);
    let keys = Keys::under("test");
    let operator = Operator::of(&cluster.members[0]);
    let before: Meta = operator.value(&keys.meta());
    let [here, other] = cluster.followers().map(|place| &cluster.nodes[place]);
    assert_eq!(shown_secret(here, &before.secret), 200);
    for wrong in ["", "x", ",", &before.secret[1..]] {
        assert_eq!(shown_secret(here, wrong), 401, "{wrong:?}");
    }
    let mut was = before.secret.clone();
    for round in 0..3 {
        let answer = here.daemon.tenure(&["cluster", "rotate-secret", "--yes"]);
        assert_eq!(answer.code, 0, "{}", answer.err);
        let meta: Meta = operator.value(&keys.meta());
        assert!(meta.secret != was && meta.former_secret == was, "{round}");
        was = meta.secret.clone();
        // Whoever has read of it and whoever has not: calls go through at once.
        for node in [here, other, here, other] {
            let lease =
                json!({"resources": [format!("r/{round}/{}", node.name)], "holder": "h", "ttl_ms": 60_000});
            let _ = done(&node.ask_within(SHORT, "POST", "/v1/leases", &lease));
            node.get("/v1/leases");
        }
        wait_until("the new secret everywhere", LIMIT, || {
            cluster.nodes.iter().all(|node| shown_secret(node, &meta.secret) == 200)
        });
    }
    assert_eq!(shown_secret(here, &before.secret), 401, "two secrets later it is good for nothing");
    assert!(!cluster.said_lately().contains("only nodes of this cluster"), "{}", cluster.said_lately());
}

#[test]
fn a_log_whose_secret_is_short_is_not_served() {
    let mut cluster = Cluster::on_one_member_alone(&[], &[]);
    cluster.start_node(0);
    cluster.wait_until_whole();
    cluster.stop_node(0);
    let (keys, operator) = (Keys::under("test"), Operator::of(&cluster.members[0]));
    let mut meta: Value = operator.value(&keys.meta());
    meta["secret"] = json!("");
    operator.put(&keys.meta(), meta.to_string().as_bytes()).unwrap();
    assert_eq!(cluster.refused_start(0), 3);
    let said = cluster.nodes[0].daemon.said();
    assert!(said.contains("the secret of the nodes has 0 characters"), "{said}");
}

/// Begins `tenure run` at all nodes.
fn run(cluster: &Cluster, resource: &str, ttl: &str) -> Running {
    let endpoints: Vec<String> =
        cluster.nodes.iter().map(|node| format!("http://{}", node.address)).collect();
    let endpoints = endpoints.join(",");
    let words = ["--endpoint", &endpoints, "run", "--resource", resource, "--ttl", ttl, "--", "sleep", "600"];
    let desk = &cluster.nodes[0].daemon.desk;
    Running::begin(desk.path(), &mut desk.command(&words))
}

fn held(cluster: &Cluster, place: usize) -> usize {
    let list = done(&cluster.nodes[place].ask_within(SHORT, "GET", "/v1/leases", &Value::Null));
    list.map_or(0, |list| list["leases"].as_array().unwrap().len())
}

// With a ttl of 6 s and less nearly every change of leader ended the command.
#[test]
fn a_command_with_a_short_ttl_lives_through_the_loss_of_the_leader() {
    let mut cluster = Cluster::local(&[]);
    let [here, _] = cluster.followers();
    let mut runs: Vec<Running> = Vec::new();
    for number in 0..4 {
        runs.push(run(&cluster, &format!("r/{number}"), "6s"));
        wait_until("its lease", LIMIT, || held(&cluster, here) > number);
        let_time_pass(Duration::from_millis(450), "each command renews at another moment");
    }
    let writer = cluster.wait_for_writer();
    cluster.lose_node(writer);
    cluster.wait_until_whole();
    // As long as a renewal from before the kill could still carry one.
    let all_run = holds_for(Duration::from_secs(3), || runs.iter_mut().all(|run| !run.is_over()));
    assert!(all_run, "{:?}", runs.iter().map(Running::errors).collect::<Vec<_>>());
    for run in &mut runs {
        assert!(!run.is_over(), "{}", run.errors());
        run.signal(Signal::TERM);
        assert_eq!(run.code(), 143, "{}", run.errors());
    }
}

// A guardian resigns for the leader, so that even a ttl below what the loss of a machine takes is enough: each of these
// commands was ended. On a busy machine an election may take longer than a second or two: one try of a few has to hold.
#[test]
fn commands_with_ttls_of_a_few_seconds_live_through_a_killed_leader() {
    let mut cluster = Cluster::local(&[]);
    let mut ended = Vec::new();
    for attempt in 0..4 {
        let [here, _] = cluster.followers();
        let before = held(&cluster, here);
        let mut runs: Vec<Running> = Vec::new();
        for (number, ttl) in ["3s", "5s", "3s", "5s"].into_iter().enumerate() {
            runs.push(run(&cluster, &format!("r/{attempt}/{number}"), ttl));
            wait_until("its lease", LIMIT, || held(&cluster, here) > before + number);
            let_time_pass(Duration::from_millis(350), "each command renews at another moment");
        }
        let writer = cluster.wait_for_writer();
        cluster.kill_node(writer);
        cluster.wait_until_whole();
        if holds_for(Duration::from_secs(5), || runs.iter_mut().all(|run| !run.is_over())) {
            return;
        }
        ended.extend(runs.iter().map(Running::errors));
        drop(runs);
        cluster.start_node(writer);
        cluster.wait_until_whole();
        let [here, _] = cluster.followers();
        wait_until("nothing held", LIMIT, || held(&cluster, here) == 0);
    }
    panic!("commands were ended each time: {ended:?}");
}

#[test]
fn a_command_whose_ttl_is_too_short_for_a_change_of_leader_is_run_with_a_warning() {
    let cluster = Cluster::on_one_member(&[], &[]);
    let told = "warning: a failover takes up to 3.9 s, but with --ttl 3 s";
    let mut short = run(&cluster, "short", "3s");
    wait_until("its lease", LIMIT, || held(&cluster, 0) == 1);
    short.guardian();
    assert!(short.errors().contains(told), "{}", short.errors());
    assert!(short.errors().contains("--ttl 7 s or longer"), "{}", short.errors());
    assert!(!short.is_over(), "it is never refused");
    let mut long = run(&cluster, "long", "7s");
    long.guardian();
    assert!(!long.errors().contains("warning"), "{}", long.errors());
}

#[test]
fn a_poller_whose_ttl_is_too_short_for_a_change_of_leader_polls_with_a_warning() {
    let cluster = Cluster::on_one_member(&[], &[]);
    let desk = &cluster.nodes[0].daemon.desk;
    let targets = desk.path().join("targets");
    std::fs::write(&targets, "one\n").unwrap();
    let endpoint = format!("http://{}", cluster.nodes[0].address);
    let poll = |group: &str, ttl: &str| {
        let words = ["--endpoint", &endpoint, "poll", "run", "--group", group, "--ttl", ttl];
        let more = ["--targets", targets.to_str().unwrap(), "--every", "1s", "--", "true", "{target}"];
        let poller = Running::begin(desk.path(), &mut desk.command(&[&words[..], &more].concat()));
        wait_until(&format!("a poller\n{}", poller.errors()), LIMIT, || {
            poller.errors().contains("polling in group")
        });
        poller
    };
    let short = poll("short", "3s");
    let told =
        "warning: a failover takes up to 3.9 s, but with --ttl 3 s this poller stops polling after 1.8 s";
    assert!(short.errors().contains(told), "{}", short.errors());
    assert!(short.errors().contains("--ttl 7 s or longer"), "{}", short.errors());
    let long = poll("long", "7s");
    assert!(!long.errors().contains("failover"), "{}", long.errors());
}
