//! A Cluster: the keys of a group are in one slot, so that scripts work; the sources look everywhere.

use super::{LASTING, Poller};
use crate::loopback::Loopback;
use crate::redis_server::RedisServer;
use crate::waiting::{soon, wait_until};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use tenure_polling::source::{RedisPatternSource, TargetSource};
use tenure_polling::store::{RedisOptions, RedisStore, ReleaseReason, Store};

struct Cluster {
    nodes: Vec<(SocketAddr, RedisServer)>,
}

impl Cluster {
    async fn start() -> Self {
        let loopback = Loopback::draw();
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let at = loopback.free_port();
            let (ip, port) = (at.ip().to_string(), at.port().to_string());
            let arguments = [
                "--bind",
                &ip,
                "--port",
                &port,
                "--cluster-enabled",
                "yes",
                "--cluster-announce-ip",
                &ip,
                "--cluster-node-timeout",
                "2000",
            ];
            nodes.push((at, RedisServer::start_with(&arguments).await));
        }
        let created = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(nodes.iter().map(|(at, _)| at.to_string()))
            .args(["--cluster-replicas", "0", "--cluster-yes"])
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli runs");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        let cluster = Self { nodes };
        wait_until("all nodes agree", async || {
            cluster.nodes.iter().all(|(_, node)| {
                let info = node.cli(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            })
        })
        .await;
        cluster
    }

    fn options(&self) -> RedisOptions {
        // Any of them leads to all.
        RedisOptions::new(format!("redis-cluster://{}", self.nodes[0].0))
    }

    /// What the node that has the key says.
    fn cli(&self, key: &str, arguments: &[&str]) -> String {
        let slot: usize = self.nodes[0].1.cli(&["CLUSTER", "KEYSLOT", key]).parse().expect("a slot");
        let node = self.nodes.iter().find(|(_, node)| {
            let owned = node.cli(&["CLUSTER", "NODES"]);
            let own = owned.lines().find(|line| line.contains("myself")).expect("itself").to_owned();
            own.split(' ').skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                (first.parse().expect("a slot")..=last.parse().expect("a slot")).contains(&slot)
            })
        });
        node.expect("somebody has every slot").1.cli(arguments)
    }
}

#[tokio::test]
async fn a_group_lives_in_one_slot_of_a_cluster() {
    let cluster = Cluster::start().await;
    let options = cluster.options();
    let (poller, other) = (
        Poller::join_with(&options).await.expect("joins"),
        Poller::join_with(&options).await.expect("joins"),
    );
    let lease = poller.acquire("t").await;
    assert_eq!(cluster.cli("{poll:default}:", &["GET", "{poll:default}:lease:t"]), poller.instance());
    let view = other.view(&["t"]).await;
    assert_eq!(view.members.len(), 2);
    assert_eq!(view.owners["t"].fence, Some(lease.fence));
    assert!(poller.store.renew(std::slice::from_ref(&lease)).await.expect("renewed").lost.is_empty());
    let successor = view.members.into_iter().find(|member| member.instance == other.membership.instance);
    wait_until("the other listens", async || {
        cluster
            .nodes
            .iter()
            .any(|(_, node)| node.cli(&["PUBSUB", "NUMSUB", "{poll:default}:changed"]).ends_with('2'))
    })
    .await;
    other.view(&[]).await;
    let hearing = tokio::spawn({
        let store = other.store.clone();
        async move { store.changed().await }
    });
    let handed = [(lease.clone(), successor.expect("seen"))];
    poller.store.hand_over(&handed, ReleaseReason::Rebalanced).await.expect("handed over");
    soon("news of it", hearing).await.expect("no panic");
    let view = other.view(&["t"]).await;
    let adopted = other.store.adopt(&"t".into(), &view.owners["t"]).expect("a lease");
    assert!(adopted.fence > lease.fence);
    other.store.leave(&[adopted], Some(LASTING)).await.expect("left");
    let operator = RedisStore::connect(&options).await.expect("a store");
    let view = operator.group_view().await.expect("a view");
    assert_eq!(view.owners.len(), 1, "found on the node that has it");
}

#[tokio::test]
async fn sessions_on_all_nodes_are_targets() {
    let cluster = Cluster::start().await;
    for number in 0..50 {
        let key = format!("session:{number}");
        let value = format!(r#"{{"id":"s{number}"}}"#);
        assert_eq!(cluster.cli(&key, &["SET", &key, &value]), "OK");
    }
    let mut source = RedisPatternSource::new(&cluster.options(), "session:*").expect("a source");
    let list = soon("a list", source.next()).await.expect("a list");
    assert_eq!(list.len(), 50);
    assert!(list.iter().all(|target| target.starts_with('s')), "{list:?}");
}
