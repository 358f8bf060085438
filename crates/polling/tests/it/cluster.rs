//! The contract of stores at a follower of a real cluster: two nodes on a real etcd, all on loopback addresses of their own.

use crate::contract::{Fixture, on_a_cluster};
use crate::daemon::{Daemon, Node};
use crate::loopback::Loopback;
use crate::process::Process;
use crate::waiting::wait_until;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tenure_client::Method;
use tenure_polling::store::TenureStore;

const PORT: u16 = 5641;
const ETCD_PORT: u16 = 2379;
/// How often the leader resigns, where it does. One that resigned does not lead again for a second.
const RESIGNS_EVERY: Duration = Duration::from_millis(1_500);

/// Promises about the time after which silence ends something: it begins again with each leader, because no node could hear
/// a holder meanwhile.
const NOT_OVER_CHANGES_OF_LEADER: &[&str] = &[
    "a_name_is_taken_over_when_its_poller_is_silent",
    "whoever_is_silent_is_no_member_and_can_join_again",
    "who_dies_is_counted_and_who_leaves_is_not",
    "silence_frees_a_target_and_nothing_earlier_does",
    "what_nobody_comes_back_for_is_free_after_the_window",
];

/// Two nodes and their store; every fixture has a group of its own on them.
struct Cluster {
    /// Runs for as long as the cluster is used.
    _leader: Daemon,
    follower: Daemon,
    fixtures: AtomicU32,
    _etcd: (Process, TempDir),
}

tokio::task_local! {
    static CLUSTER: Arc<Cluster>;
}

impl Cluster {
    async fn start() -> Self {
        let Loopback(etcd) = Loopback::draw();
        let (process, directory) = start_etcd(etcd);
        let client = SocketAddr::from((etcd, ETCD_PORT));
        wait_until("etcd listens", async || TcpStream::connect(client).is_ok()).await;
        let node = |name| {
            let Loopback(address) = Loopback::draw();
            Node { name, address: SocketAddr::from((address, PORT)), store: format!("etcd://{client}/test") }
        };
        let leader = Daemon::start_node(&node("a")).await;
        let follower = Daemon::start_node(&node("b")).await;
        Self { _leader: leader, follower, fixtures: AtomicU32::new(0), _etcd: (process, directory) }
    }
}

fn start_etcd(address: Ipv4Addr) -> (Process, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let (client, peer) =
        (format!("http://{address}:{ETCD_PORT}"), format!("http://{address}:{}", ETCD_PORT + 1));
    let child = Command::new("etcd")
        .args(["--name", "m1", "--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("m1={peer}"), "--data-dir"])
        .arg(directory.path().join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd starts");
    (Process(child), directory)
}

/// A group at the follower.
pub(crate) struct FollowerFixture {
    cluster: Arc<Cluster>,
    group: String,
}

impl Fixture for FollowerFixture {
    type Store = TenureStore;

    async fn start() -> Self {
        let cluster = CLUSTER.with(Arc::clone);
        let group = format!("g{}", cluster.fixtures.fetch_add(1, Ordering::Relaxed));
        Self { cluster, group }
    }

    fn store(&self) -> TenureStore {
        TenureStore::new(self.cluster.follower.client(), &self.group).expect("a store")
    }

    fn freeze(&self) {
        self.cluster.follower.process().freeze();
    }

    fn thaw(&self) {
        self.cluster.follower.process().thaw();
    }

    async fn pin(&self, target: &str, poller: Option<&str>) {
        self.cluster.follower.client().move_target(&self.group, target, poller).await.expect("a pin");
    }

    async fn cordon(&self, poller: &str, is_cordoned: bool) {
        let client = self.cluster.follower.client();
        let done = match is_cordoned {
            true => client.cordon(&self.group, poller).await,
            false => client.uncordon(&self.group, poller).await,
        };
        done.expect("a cordon");
    }
}

/// Each promise once: those about time at a follower whose leader stays, the others while the leader resigns again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds_at_a_follower_and_over_changes_of_leader() {
    let cluster = Arc::new(Cluster::start().await);
    let is_about_time = |promise: &str| NOT_OVER_CHANGES_OF_LEADER.contains(&promise);
    CLUSTER.scope(Arc::clone(&cluster), on_a_cluster(is_about_time)).await;
    let resigned = AtomicU32::new(0);
    let (client, body) = (cluster.follower.client(), json!({}));
    let changes = async {
        loop {
            tokio::time::sleep(RESIGNS_EVERY).await;
            // It is refused where the one before was not succeeded yet.
            let route = "/v1/cluster/step-down";
            let asked = client.call_value(Method::POST, route, Some(&body), Duration::ZERO).await;
            resigned.fetch_add(u32::from(asked.is_ok()), Ordering::Relaxed);
        }
    };
    tokio::select! {
        () = CLUSTER.scope(Arc::clone(&cluster), on_a_cluster(|promise| !is_about_time(promise))) => {}
        () = changes => {}
    }
    assert!(resigned.load(Ordering::Relaxed) > 1, "{resigned:?}");
}
