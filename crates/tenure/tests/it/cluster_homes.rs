//! Registrations in a cluster: the node that took one alone advertises it, and when that node is gone another says
//! goodbye for it. The peers on the link are not ours. Needs root, for the networks, and etcd.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::harness::Cluster;
use crate::mdns::peers::Change;
use crate::mdns::peers::feed::monotonic_ns;
use crate::mdns::peers::zeroconf::{Record, Sniffer, Zeroconf};
use crate::run_support::wait_until;

const HTTP: &str = "_http._tcp";
/// A node counts as gone after 10 s; the rest is for a busy machine.
const GONE_LIMIT: Duration = Duration::from_secs(40);
const LIMIT: Duration = Duration::from_secs(20);
/// Where callers are on the network of the nodes.
const CALLERS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 79, 0, 1));

/// Peers of the nodes.
struct Link {
    sniffer: Sniffer,
    zeroconf: Zeroconf,
}

impl Link {
    #[track_caller]
    fn begin() -> Self {
        let sniffer = Sniffer::start_here("lan0", CALLERS);
        let mut zeroconf = Zeroconf::start_here(CALLERS);
        zeroconf.browse(HTTP);
        Self { sniffer, zeroconf }
    }

    #[track_caller]
    fn wait(&self, change: Change, name: &str) {
        self.zeroconf.wait_for(|seen| seen.is(change, name), GONE_LIMIT);
    }

    fn goodbyes(&self, name: &str) -> Vec<Record> {
        let target = full(name);
        let is_of = |record: &Record| record.is_goodbye() && record.target.as_ref() == Some(&target);
        self.sniffer.records().into_iter().filter(is_of).collect()
    }

    #[track_caller]
    fn wait_goodbye(&self, name: &str) -> Record {
        let target = full(name);
        self.sniffer
            .wait_for(|record| record.is_goodbye() && record.target.as_ref() == Some(&target), GONE_LIMIT)
    }
}

fn full(name: &str) -> String {
    format!("{name}.{HTTP}.local.")
}

fn apart() -> Cluster {
    Cluster::apart(&["--mdns=true", "--mdns-interface", "lan0", "--mdns-http-grace", "4s"])
}

#[track_caller]
fn register(cluster: &Cluster, place: usize, name: &str, lease: u64) -> Value {
    let body = json!({"name": name, "type": HTTP, "port": 80, "lease": lease});
    cluster.nodes[place].post("/v1/mdns/services", &body)["registered"].clone()
}

fn id(registered: &Value) -> &str {
    registered["id"].as_str().unwrap()
}

fn unregister_path(registered: &Value) -> String {
    format!("/v1/mdns/services/{}", id(registered))
}

/// Whether a node finds a service on its network.
fn is_resolved(cluster: &Cluster, place: usize, name: &str) -> bool {
    let path = format!("/v1/mdns/resolve?name={name}.{HTTP}.local");
    cluster.nodes[place].ask("GET", &path, &Value::Null).is_ok_and(|answered| answered.status == 200)
}

fn registrations(cluster: &Cluster, place: usize) -> Option<Vec<Value>> {
    let answered = cluster.nodes[place].ask("GET", "/v1/mdns/admin/registrations", &Value::Null).ok()?;
    answered.json().as_array().cloned()
}

#[track_caller]
fn wait_ended(cluster: &Cluster, place: usize) {
    wait_until("the end of every registration", LIMIT, || {
        registrations(cluster, place).is_some_and(|all| all.is_empty())
    });
}

#[test]
fn a_registration_stays_with_the_node_that_took_it() {
    let cluster = Cluster::local(&["--no-mdns"]);
    let [home, other] = cluster.followers();
    let registered = register(&cluster, home, "web", 60);
    wait_until("the service at its home", LIMIT, || is_resolved(&cluster, home, "web"));
    assert!(!is_resolved(&cluster, other, "web"), "another node advertises it");
    cluster.nodes[home].post("/v1/cluster/step-down", &Value::Null);
    cluster.wait_until_whole();
    assert!(is_resolved(&cluster, home, "web"), "a change of writer ends nothing");
    let shown = registrations(&cluster, other).unwrap();
    assert_eq!((shown.len(), shown[0]["id"].as_str()), (1, Some(id(&registered))), "{shown:?}");
    cluster.nodes[other].good("DELETE", &unregister_path(&registered), &Value::Null);
    wait_ended(&cluster, other);
    assert!(!is_resolved(&cluster, home, "web"));
}

#[test]
fn what_is_permanent_waits_for_a_home_that_is_gone() {
    let mut cluster = Cluster::local(&["--no-mdns", "--mdns-http-grace", "1s"]);
    let [home, other] = cluster.followers();
    register(&cluster, home, "kept", 0);
    register(&cluster, home, "lost", 1);
    let of = |cluster: &Cluster, name: &str| {
        registrations(cluster, other)?.into_iter().find(|shown| shown["name"] == name)
    };
    wait_until("a home that is there", LIMIT, || {
        of(&cluster, "kept").is_some_and(|shown| shown["advertised"] == true)
    });
    cluster.kill_node(home);
    wait_until("a home that is gone", GONE_LIMIT, || {
        of(&cluster, "kept").is_some_and(|shown| shown["advertised"] == false)
    });
    wait_until("the end of what nobody keeps", GONE_LIMIT, || of(&cluster, "lost").is_none());
    cluster.start_node(home);
    cluster.wait_until_whole();
    wait_until("the service at its home", LIMIT, || is_resolved(&cluster, home, "kept"));
    wait_until("a home that is back", LIMIT, || {
        of(&cluster, "kept").is_some_and(|shown| shown["advertised"] == true)
    });
}

#[test]
fn the_link_hears_the_home_and_only_the_home() {
    let cluster = apart();
    let link = Link::begin();
    let [home, other] = cluster.followers();
    let registered = register(&cluster, home, "web", 60);
    link.wait(Change::Added, "web");
    cluster.nodes[home].post("/v1/cluster/step-down", &Value::Null);
    cluster.wait_until_whole();
    register(&cluster, other, "later", 0);
    link.wait(Change::Added, "later");
    assert_eq!(link.goodbyes("web"), [], "a change of writer withdraws nothing");
    cluster.nodes[other].good("DELETE", &unregister_path(&registered), &Value::Null);
    assert_eq!(link.wait_goodbye("web").source, cluster.nodes[home].address.ip());
    link.wait(Change::Removed, "web");
    assert_eq!(link.goodbyes("later"), []);
}

#[test]
fn another_node_says_goodbye_for_a_home_that_was_killed() {
    let mut cluster = apart();
    let link = Link::begin();
    let home = cluster.wait_for_writer();
    register(&cluster, home, "kept", 0);
    let registered = register(&cluster, home, "lost", 1);
    link.wait(Change::Added, "kept");
    link.wait(Change::Added, "lost");
    cluster.kill_node(home);
    for name in ["kept", "lost"] {
        link.wait(Change::Removed, name);
        assert_ne!(link.wait_goodbye(name).source, cluster.nodes[home].address.ip());
    }
    let other = cluster.wait_for_writer();
    wait_until("the end of what nobody keeps", GONE_LIMIT, || {
        registrations(&cluster, other)
            .is_some_and(|all| all.len() == 1 && all.iter().all(|shown| shown["id"] != registered["id"]))
    });
    let before = link.zeroconf.events().len();
    cluster.start_node(home);
    wait_until("what is permanent is back", GONE_LIMIT, || {
        link.zeroconf.events().iter().skip(before).any(|seen| seen.is(Change::Added, "kept"))
    });
}

#[test]
fn who_takes_a_service_over_advertises_it_after_the_goodbye_of_the_other() {
    let cluster = apart();
    let link = Link::begin();
    let [first, second] = cluster.followers();
    let registered = register(&cluster, first, "web", 1);
    link.wait(Change::Added, "web");
    wait_until("a registrant that is silent", LIMIT, || {
        registrations(&cluster, second)
            .is_some_and(|all| all.iter().any(|shown| shown["state"] == "draining"))
    });
    let taken = register(&cluster, second, "web", 60);
    assert_eq!(taken["id"], registered["id"]);
    let goodbye = link.wait_goodbye("web");
    assert_eq!(goodbye.source, cluster.nodes[first].address.ip());
    let target = full("web");
    let announced = link.sniffer.wait_for(
        |record| {
            record.is_response
                && record.ttl > 0
                && record.target.as_ref() == Some(&target)
                && record.source == cluster.nodes[second].address.ip()
        },
        LIMIT,
    );
    assert!(announced.at_ns > goodbye.at_ns, "{announced:?} {goodbye:?}");
}

#[test]
fn a_node_that_restarts_keeps_its_services_on_the_link() {
    let cluster = apart();
    let link = Link::begin();
    let instance = |place: usize| {
        let answered = cluster.nodes[place].ask("GET", "/v1/status?consistency=stale", &Value::Null).ok()?;
        answered.json()["instance"].as_str().map(str::to_owned)
    };
    // A follower, then the node that writes: it resigns, and another has the log before it is back.
    for (place, name) in [(cluster.followers()[0], "follower"), (cluster.wait_for_writer(), "writer")] {
        register(&cluster, place, name, 0);
        link.wait(Change::Added, name);
        let (mark, before, since_ns) = (link.zeroconf.mark(), instance(place), monotonic_ns());
        cluster.nodes[place].post("/v1/shutdown", &json!({"advertised": "keep", "restart": true}));
        wait_until("another instance", LIMIT, || instance(place).is_some_and(|now| Some(now) != before));
        let target = full(name);
        link.sniffer.wait_for(
            |record| {
                record.is_response
                    && record.ttl > 0
                    && record.at_ns > since_ns
                    && record.target.as_ref() == Some(&target)
                    && record.source == cluster.nodes[place].address.ip()
            },
            GONE_LIMIT,
        );
        cluster.wait_until_whole();
        assert_eq!(link.goodbyes(name), []);
        let seen: Vec<_> = link.zeroconf.events().split_off(mark);
        assert!(seen.iter().all(|seen| seen.name != name), "{seen:?}");
    }
}
