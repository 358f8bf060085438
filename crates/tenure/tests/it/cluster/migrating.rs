//! A log moves from one machine into etcd and back, and the move crashes after each of its steps: run again it finishes,
//! what was held is held, and there is never a moment at which both places can be served.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tenure_cluster::Keys;
use tenure_cluster::values::{Meta, Standing, State, Writer};
use tenure_log::{ARRIVING_MARKER, MOVED_MARKER};

use super::harness::Cluster;
use super::operator::Operator;
use crate::cli_desk::Desk;
use crate::daemon::Daemon;
use crate::fixture::Answer;

/// Far above the steps of any move.
const STEPS_MAX: u64 = 60;
const CRASHED: i32 = 128 + 6;

/// An etcd of one member, and somewhere to run commands.
struct Site {
    cluster: Cluster,
    operator: Operator,
    desk: Desk,
}

/// What is held: each lease as it was granted.
type Held = BTreeMap<String, Value>;

impl Site {
    fn new() -> Self {
        let cluster = Cluster::on_one_member_alone(&["--writer-ttl", "1s"], &[]);
        let operator = Operator::of(&cluster.members[0]);
        Self { cluster, operator, desk: Desk::new() }
    }

    fn store(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.cluster.members[0].address)
    }

    /// Runs a move; `Some(n)`: it crashes after n steps, if it has as many.
    fn migrate(&self, from: &str, to: &str, crash_after: Option<u64>) -> Answer {
        let mut command = self.desk.command(&["cluster", "migrate", "--yes", "--from", from, "--to", to]);
        if let Some(steps) = crash_after {
            command.env("TENURE_TEST_CRASH_AFTER", steps.to_string());
        }
        let output = command.output().unwrap();
        let code = output.status.code().or(output.status.signal().map(|number| 128 + number)).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Answer { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// A node over the log under a prefix; it does not run yet.
    fn node(&self, prefix: &str) -> Daemon {
        let address = self.cluster.nodes[2].address;
        let (bind, port) = (address.ip().to_string(), address.port().to_string());
        let (log, advertise) = (self.store(prefix), format!("http://{address}"));
        let flags =
            ["--bind", &bind, "--port", &port, "--log", &log, "--advertise", &advertise, "--node", "n"];
        Daemon::prepared(&[&flags[..], &["--writer-ttl", "1s"]].concat())
    }

    /// Whether a node may serve what is under a prefix; `None`: nothing is there yet.
    fn is_served(&self, prefix: &str) -> Option<bool> {
        let keys = Keys::under(prefix);
        let (from, to) = keys.all();
        if !self.operator.range(&from, &to).iter().any(|found| found.key == keys.meta()) {
            return None;
        }
        let meta: Meta = self.operator.value(&keys.meta());
        let moved = || {
            let writer: Writer = self.operator.value(&keys.writer());
            matches!(writer.standing, Standing::Moved { .. })
        };
        Some(meta.state == State::Active && !moved())
    }
}

/// A daemon over a directory; it does not run yet.
fn daemon_in(directory: &Path) -> Daemon {
    Daemon::prepared(&["--data-dir", directory.to_str().unwrap()])
}

/// It does not start; gives what it says.
#[track_caller]
fn refusal(mut daemon: Daemon) -> String {
    daemon.spawn();
    let code = daemon.code();
    assert_ne!(code, 0, "{}", daemon.said());
    daemon.said()
}

fn wish(name: &str) -> Value {
    json!({"resources": [name], "holder": name, "ttl_ms": 600_000, "attachment": {"of": name}})
}

/// Takes a few leases, and gives some back.
#[track_caller]
fn take(daemon: &Daemon, names: &[&str]) -> Held {
    let held = names.iter().map(|name| ((*name).to_owned(), daemon.acquire(&wish(name)))).collect();
    let given_back = daemon.acquire(&wish("given-back"));
    let path = format!("/v1/leases/{}/release", given_back["lease_id"].as_str().unwrap());
    assert_eq!(daemon.post(&path, &json!({"epoch": 1})).status, 200);
    held
}

/// All that was held is held, by the same leases; what is free can be had, with a higher fence.
#[track_caller]
fn assert_goes_on(daemon: &Daemon, held: &Held) {
    for (name, lease) in held {
        let shown = daemon.get(&format!("/v1/leases/{}", lease["lease_id"].as_str().unwrap())).json();
        assert_eq!(shown["state"], "active", "{name}: {shown}");
        for field in ["fence", "epoch", "attachment", "holder", "resources"] {
            assert_eq!(shown[field], lease[field], "{field} of {name}: {shown}");
        }
        let renewed = daemon.post(
            &format!("/v1/leases/{}/heartbeat", lease["lease_id"].as_str().unwrap()),
            &json!({"epoch": lease["epoch"]}),
        );
        assert_eq!(renewed.status, 200, "{name}: {renewed:?}");
        assert_eq!(daemon.post("/v1/leases", &wish(name)).status, 409, "{name} was granted twice");
    }
    let next = daemon.acquire(&wish("given-back"));
    assert!(held.values().all(|lease| lease["fence"].as_u64() < next["fence"].as_u64()), "{next}");
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Waits until a node decides, then lets it be asked like a daemon.
#[track_caller]
fn started(mut node: Daemon) -> Daemon {
    node.start_again();
    crate::run_support::wait_until("a node that is ready", super::harness::LIMIT, || {
        node.get("/readyz").status == 200
    });
    node
}

#[test]
fn a_move_into_etcd_that_crashes_anywhere_is_finished_by_the_next() {
    let site = Site::new();
    let mut source = Daemon::start();
    let held = take(&source, &["a", "b", "c"]);
    source.stop();
    let root = source.path("moves");
    std::fs::create_dir(&root).unwrap();
    let mut crashes = 0;
    for step in 1..STEPS_MAX {
        let (directory, prefix) = (root.join(step.to_string()), format!("into-{step}"));
        copy(&source.data_dir(), &directory);
        let (from, to) = (directory.to_str().unwrap().to_owned(), site.store(&prefix));
        let first = site.migrate(&from, &to, Some(step));
        if first.code == 0 {
            break;
        }
        assert_eq!(first.code, CRASHED, "step {step}: {}", first.err);
        crashes += 1;
        let is_moved = directory.join(MOVED_MARKER).exists();
        let is_served = site.is_served(&prefix);
        println!("step {step}: source moved {is_moved}, target served {is_served:?}");
        let mut held = held.clone();
        if is_moved {
            let said = refusal(daemon_in(&directory));
            assert!(said.contains(&format!("was moved to {to}")), "step {step}: {said}");
        } else {
            assert_ne!(is_served, Some(true), "step {step}: both could be served");
            if is_served.is_some() {
                let said = refusal(site.node(&prefix));
                assert!(said.contains("tenure cluster migrate"), "step {step}: {said}");
            }
            // Who goes on with the source for a while loses nothing by it.
            if step % 2 == 1 {
                let mut daemon = daemon_in(&directory);
                daemon.start_again();
                held.insert("meanwhile".to_owned(), daemon.acquire(&wish("meanwhile")));
                daemon.stop();
            }
        }
        let again = site.migrate(&from, &to, None);
        assert_eq!(again.code, 0, "step {step}: {}", again.err);
        let said = refusal(daemon_in(&directory));
        assert!(said.contains(&format!("was moved to {to}")), "step {step}: {said}");
        let mut node = started(site.node(&prefix));
        assert_goes_on(&node, &held);
        node.stop();
        if is_served != Some(true) {
            continue;
        }
        let once_more = site.migrate(&from, &to, None);
        assert_eq!((once_more.code, &once_more.out), (0, &again.out), "step {step}: {}", once_more.err);
    }
    println!("{crashes} crashes");
    assert!(crashes >= 6, "{crashes}");
}

/// A log in etcd with frames of two terms, whose nodes have stopped.
fn grown(site: &mut Site) -> Held {
    let mut held = Held::new();
    for names in [&["a", "b"][..], &["c"]] {
        site.cluster.start_node(0);
        site.cluster.wait_until_whole();
        held.extend(take(&site.cluster.nodes[0].daemon, names));
        site.cluster.stop_node(0);
    }
    held
}

#[test]
fn a_move_out_of_etcd_that_crashes_anywhere_is_finished_by_the_next() {
    let mut site = Site::new();
    let held = grown(&mut site);
    let (first, last) = Keys::under("test").all();
    let stored = site.operator.range(&first, &last);
    let mut crashes = 0;
    for step in 1..STEPS_MAX {
        let prefix = format!("back-{step}");
        for found in &stored {
            let key = found.key.replacen("/test/", &format!("/{prefix}/"), 1);
            site.operator.put(&key, &found.value).unwrap();
        }
        let directory = site.desk.path().join(&prefix);
        let (from, to) = (site.store(&prefix), directory.to_str().unwrap().to_owned());
        let first = site.migrate(&from, &to, Some(step));
        if first.code == 0 {
            break;
        }
        assert_eq!(first.code, CRASHED, "step {step}: {}", first.err);
        crashes += 1;
        let is_arriving = directory.join(ARRIVING_MARKER).exists();
        let is_arrived = directory.join("log").exists() && !is_arriving;
        let is_served = site.is_served(&prefix).unwrap();
        println!(
            "step {step}: source served {is_served}, target arriving {is_arriving}, arrived {is_arrived}"
        );
        assert!(!is_arrived || !is_served, "step {step}: both could be served");
        if is_served && !directory.exists() {
            // It has only looked.
            continue;
        }
        if is_arriving {
            let said = refusal(daemon_in(&directory));
            assert!(said.contains("run that again to finish it"), "step {step}: {said}");
        }
        if !is_served {
            let said = refusal(site.node(&prefix));
            assert!(said.contains(&format!("was moved to {to}")), "step {step}: {said}");
        }
        let again = site.migrate(&from, &to, None);
        assert_eq!(again.code, 0, "step {step}: {}", again.err);
        assert_eq!(site.is_served(&prefix), Some(false), "step {step}");
        let mut daemon = daemon_in(&directory);
        daemon.start_again();
        assert_goes_on(&daemon, &held);
        daemon.stop();
        if !is_arrived {
            continue;
        }
        // Whoever asks once more hears the same, and what was granted since stays.
        let once_more = site.migrate(&from, &to, None);
        assert_eq!((once_more.code, &once_more.out), (0, &again.out), "step {step}: {}", once_more.err);
        daemon.start_again();
        assert_eq!(
            daemon.post("/v1/leases", &wish("given-back")).status,
            409,
            "step {step}: a grant was lost"
        );
    }
    println!("{crashes} crashes");
    assert!(crashes >= 8, "{crashes}");
}

#[test]
fn a_move_goes_nowhere_that_is_not_its_own() {
    let mut site = Site::new();
    let held = grown(&mut site);
    let (from, occupied) = (site.store("test"), site.desk.path().join("occupied"));
    // A directory with something in it.
    std::fs::create_dir(&occupied).unwrap();
    std::fs::write(occupied.join("letters"), "dear").unwrap();
    let refused = site.migrate(&from, occupied.to_str().unwrap(), None);
    assert!(refused.code == 1 && refused.err.contains("is not empty"), "{}", refused.err);
    // One that the log of another store is on its way to.
    let arriving = site.desk.path().join("arriving");
    std::fs::create_dir(&arriving).unwrap();
    std::fs::write(arriving.join(ARRIVING_MARKER), site.store("elsewhere")).unwrap();
    let refused = site.migrate(&from, arriving.to_str().unwrap(), None);
    assert!(refused.code == 1 && refused.err.contains("/elsewhere"), "{}", refused.err);
    // A log that is served.
    site.cluster.start_node(0);
    site.cluster.wait_until_whole();
    let target = site.desk.path().join("target");
    let refused = site.migrate(&from, target.to_str().unwrap(), None);
    assert!(refused.code == 1 && refused.err.contains("node a is the leader"), "{}", refused.err);
    assert!(!target.exists(), "nothing was begun");
    site.cluster.stop_node(0);
    // A source that a daemon serves, and a target that has a log.
    let daemon = Daemon::start();
    let refused = site.migrate(daemon.data_dir().to_str().unwrap(), &site.store("other"), None);
    assert!(refused.code == 1 && refused.err.contains("is in use"), "{}", refused.err);
    assert_eq!(site.is_served("other"), None);
    let mut daemon = daemon;
    daemon.stop();
    let refused = site.migrate(daemon.data_dir().to_str().unwrap(), &from, None);
    assert!(refused.code == 1 && refused.err.contains("has a log of its own"), "{}", refused.err);
    daemon.start_again();
    // A crash while the marker was written is no obstacle, and nothing was harmed by all that.
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join(format!("{ARRIVING_MARKER}.part")), "etc").unwrap();
    let moved = site.migrate(&from, target.to_str().unwrap(), None);
    assert_eq!(moved.code, 0, "{}", moved.err);
    let mut back = daemon_in(&target);
    back.start_again();
    assert_goes_on(&back, &held);
}

#[test]
fn a_log_moves_back_to_where_it_came_from() {
    let mut site = Site::new();
    let mut held = grown(&mut site);
    let from = site.store("test");
    for round in 1..=3 {
        let directory = site.desk.path().join(format!("away-{round}"));
        let away = directory.to_str().unwrap().to_owned();
        let moved = site.migrate(&from, &away, None);
        assert_eq!(moved.code, 0, "{}", moved.err);
        let mut daemon = daemon_in(&directory);
        daemon.start_again();
        let name = format!("round-{round}");
        held.insert(name.clone(), daemon.acquire(&wish(&name)));
        daemon.stop();
        // It crashes somewhere else each time.
        let crashed = site.migrate(&away, &from, Some(round * 2));
        assert_eq!(crashed.code, CRASHED, "{}", crashed.err);
        assert_ne!(site.is_served("test"), Some(true), "round {round}");
        let back = site.migrate(&away, &from, None);
        assert_eq!(back.code, 0, "{}", back.err);
        // A node that has followed it there before.
        site.cluster.start_node(0);
        site.cluster.wait_until_whole();
        let node = &site.cluster.nodes[0].daemon;
        assert_goes_on(node, &held);
        let leases = node.get("/v1/leases").json();
        let given_back =
            leases["leases"].as_array().unwrap().iter().find(|lease| lease["holder"] == "given-back");
        let path = format!("/v1/leases/{}/release", given_back.unwrap()["lease_id"].as_str().unwrap());
        assert_eq!(node.post(&path, &json!({"epoch": 1})).status, 200);
        site.cluster.stop_node(0);
    }
}
