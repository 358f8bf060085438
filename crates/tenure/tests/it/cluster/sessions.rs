//! Sessions of `/api/v3` at any node of a cluster, and over changes of leader: what happens to one is told by every node,
//! nothing is lost, nothing told twice.

use std::fs;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT, Node};
use crate::cli_streams::Running;
use crate::raw_events::Events;
use crate::run_support::wait_until;

const FLAGS: [&str; 4] = ["--writer-ttl", "1s", "--sessions-pools", "tuner=8"];

/// The events of one session at one node, and what came so far.
struct Followed {
    events: Events<TcpStream>,
    kinds: Vec<String>,
}

impl Followed {
    #[track_caller]
    fn begin(node: &Node, session: &str) -> Self {
        let path = format!("/api/v3/sessions/{session}/events");
        let mut followed =
            Self { events: Events::of(node.connect(LIMIT).unwrap(), &path), kinds: Vec::new() };
        assert_eq!(followed.next()["session_id"], session);
        assert_eq!(followed.kinds, ["snapshot"]);
        followed
    }

    /// The session after what happens next.
    #[track_caller]
    fn next(&mut self) -> Value {
        let event = self.events.next().unwrap_or_else(|| panic!("it ended after {:?}", self.kinds));
        self.kinds.push(event.kind);
        assert_eq!(event.id, Some(self.kinds.len().to_string()), "{:?}", self.kinds);
        event.data
    }

    /// The end of the session is told, and nothing after it.
    #[track_caller]
    fn end(&mut self) -> Value {
        let last = self.next();
        assert!(self.events.next().is_none(), "{:?}", self.kinds);
        last
    }
}

#[track_caller]
fn start(node: &Node) -> String {
    let asked = node.ask("POST", "/api/v3/intents", &json!({"type": "stream.start"})).unwrap();
    assert_eq!(asked.status, 202, "{asked:?}");
    asked.json()["session_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn beat(node: &Node, session: &str) {
    node.post(&format!("/api/v3/sessions/{session}/heartbeat"), &json!({}));
}

#[track_caller]
fn stop(node: &Node, session: &str) -> Value {
    let path = format!("/api/v3/sessions/{session}");
    let asked = node.ask_within(LIMIT, "DELETE", &path, &Value::Null).unwrap();
    assert_eq!(asked.status, 200, "{asked:?}");
    asked.json()
}

#[track_caller]
fn wait_for_another_leader(cluster: &Cluster, before: usize) -> usize {
    let mut leader = before;
    wait_until("another leader", LIMIT, || {
        leader = cluster.writer().unwrap_or(before);
        leader != before
    });
    leader
}

/// A follower answered 404 for a live session, and the leader's stream ended when another node led.
#[test]
fn every_node_tells_what_happens_to_a_session_over_changes_of_leader() {
    let mut cluster = Cluster::local(&FLAGS);
    let first = cluster.wait_for_writer();
    let [second, third] = cluster.followers();
    let session = start(&cluster.nodes[second]);
    let mut all: Vec<Followed> = cluster.nodes.iter().map(|node| Followed::begin(node, &session)).collect();
    beat(&cluster.nodes[third], &session);
    all.iter_mut().for_each(|followed| drop(followed.next()));

    // The leader goes on as a follower.
    cluster.nodes[second].post("/v1/cluster/step-down", &json!({}));
    let leader = wait_for_another_leader(&cluster, first);
    beat(&cluster.nodes[first], &session);
    for followed in &mut all {
        assert_eq!(followed.next()["state"], "running");
        assert_eq!(followed.kinds, ["snapshot", "lease.renewed", "lease.renewed"]);
    }

    // The leader is lost, and the session ends before anybody noticed.
    cluster.kill_node(leader);
    let left: Vec<usize> = (0..3).filter(|place| *place != leader).collect();
    assert_eq!(stop(&cluster.nodes[left[0]], &session)["state"], "stopped");
    for place in left {
        let last = all[place].end();
        assert_eq!((&last["state"], &last["reason"]), (&json!("stopped"), &json!("USER_STOPPED")));
        assert_eq!(all[place].kinds, ["snapshot", "lease.renewed", "lease.renewed", "state"]);
    }

    // A leader that did not see it begin or end shows it, to whoever comes now.
    let left = &cluster.nodes[(leader + 1) % 3];
    let path = format!("/api/v3/sessions/{session}/events");
    let mut late = Events::of(left.connect(LIMIT).unwrap(), &path);
    let shown = late.next().unwrap();
    assert_eq!((shown.kind.as_str(), &shown.data["state"]), ("snapshot", &json!("stopped")));
    assert!(late.next().is_none());
    let unknown =
        left.ask("GET", "/api/v3/sessions/00000000-0000-4000-8000-000000000000/events", &Value::Null);
    assert_eq!(unknown.unwrap().status, 404);
}

/// What ends for silence while no node leads is told once, whoever tells it.
#[test]
fn a_session_that_expires_over_a_change_of_leader_is_told_to_have() {
    let flags = [&FLAGS[..], &["--sessions-lease-ttl", "4s", "--sessions-heartbeat-interval", "1"]].concat();
    let mut cluster = Cluster::local(&flags);
    let leader = cluster.wait_for_writer();
    let [second, third] = cluster.followers();
    let session = start(&cluster.nodes[second]);
    let mut told = [second, third].map(|place| Followed::begin(&cluster.nodes[place], &session));
    cluster.lose_node(leader);
    for followed in &mut told {
        while followed.kinds.last().is_none_or(|kind| kind != "state") {
            followed.next();
        }
        assert_eq!(followed.kinds, ["snapshot", "lease.expiring", "lease.expired", "state"]);
    }
}

#[test]
fn a_watch_on_the_command_line_goes_on_at_another_node() {
    let mut cluster = Cluster::local(&FLAGS);
    let leader = cluster.wait_for_writer();
    let [second, third] = cluster.followers();
    let session = start(&cluster.nodes[second]);
    let endpoint = |places: &[usize]| {
        let urls = places.iter().map(|place| format!("http://{}", cluster.nodes[*place].address));
        urls.collect::<Vec<_>>().join(",")
    };
    let watch = |endpoints: &str| {
        let mut command =
            cluster.nodes[second].daemon.desk.command(&["session", "watch", &session, "--json"]);
        Running::start(command.env("TENURE_ENDPOINT", endpoints))
    };
    let mut at_leader = watch(&endpoint(&[leader, second, third]));
    let mut at_follower = watch(&endpoint(&[second, leader, third]));
    for watching in [&at_leader, &at_follower] {
        assert_eq!(watching.object()["event"], "snapshot");
    }
    cluster.kill_node(leader);
    at_leader.said("reconnected");
    assert_eq!(at_leader.object()["event"], "snapshot");
    beat(&cluster.nodes[third], &session);
    // A renewal that an end follows at once need not be told.
    for watching in [&at_leader, &at_follower] {
        assert_eq!(watching.object()["event"], "lease.renewed");
    }
    stop(&cluster.nodes[third], &session);
    for watching in [&mut at_leader, &mut at_follower] {
        let told = watching.object();
        assert_eq!((&told["event"], &told["session"]["reason"]), (&json!("state"), &json!("USER_STOPPED")));
        let mut status = None;
        wait_until("the end of the watch", Duration::from_secs(10), || {
            status = watching.child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(0));
    }
}

/// A leader without `on_end` settled what a leader with it still had to tell.
#[test]
fn an_end_that_is_to_be_told_waits_for_a_leader_that_tells() {
    let flags = [&FLAGS[..], &["--sessions-hook-timeout", "2s"]].concat();
    let mut cluster = Cluster::on_one_member_alone(&flags, &[]);
    let directory = tempfile::TempDir::new().unwrap();
    let (open, told) = (directory.path().join("open"), directory.path().join("told"));
    // Fails until it is let through.
    let hook = format!("sh -c 'test -e {} && cat >> {}'", open.display(), told.display());
    cluster.nodes[0].daemon.set_variable("TENURE_SESSIONS_ON_END", &hook);
    cluster.nodes[0].daemon.set_variable("TENURE_SESSIONS_REUSE", "after_hook");
    cluster.start_node(0);
    assert_eq!(cluster.wait_for_writer(), 0);
    let session = start(&cluster.nodes[0]);
    cluster.start_node(1);
    cluster.wait_until_whole();
    stop(&cluster.nodes[1], &session);
    wait_until("a try that fails", LIMIT, || cluster.nodes[0].daemon.said().contains("on_end failed"));
    let step_down = |cluster: &Cluster, from: usize| {
        cluster.nodes[from].post("/v1/cluster/step-down", &json!({}));
        assert_eq!(wait_for_another_leader(cluster, from), 1 - from);
    };
    step_down(&cluster, 0);
    // Its slot comes free by time, whoever leads.
    let pool = || cluster.nodes[1].get("/v1/pools/tuner");
    wait_until("the slot is free", LIMIT, || pool()["free"] == 8);
    step_down(&cluster, 1);
    fs::write(&open, b"").unwrap();
    wait_until("the end is told", LIMIT, || {
        fs::read_to_string(&told).is_ok_and(|told| told.contains(&session))
    });
}
