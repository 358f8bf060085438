//! A server behind Sentinels: whoever is the master is asked, also after a failover.

use super::Poller;
use crate::loopback::Loopback;
use crate::process::Process;
use crate::redis_server::RedisServer;
use crate::waiting::{soon, wait_until};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tenure_polling::store::{RedisOptions, RedisStore, Store, StoreError};

/// A master, its replica, and one Sentinel that decides alone.
struct Watched {
    master: RedisServer,
    replica: RedisServer,
    sentinel: SocketAddr,
    _directory: TempDir,
    _process: Process,
}

impl Watched {
    async fn start() -> Self {
        let loopback = Loopback::draw();
        let master_at = loopback.free_port();
        let master = server(master_at, &[]).await;
        let replica_at = loopback.free_port();
        let (ip, port) = (master_at.ip().to_string(), master_at.port().to_string());
        let follows = format!("{ip} {port}");
        let (own_ip, own_port) = (replica_at.ip().to_string(), replica_at.port().to_string());
        let announced = ["--replica-announce-ip", &own_ip, "--replica-announce-port", &own_port];
        let arguments = [["--replicaof", &follows, "--repl-diskless-sync-delay", "0"], announced].concat();
        let replica = server(replica_at, &arguments).await;
        wait_until("the replica follows", async || {
            replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        let sentinel = loopback.free_port();
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sentinel.conf");
        let config = format!(
            "dir {}\nport {}\nbind {}\nsentinel monitor main {ip} {port} 1\nsentinel down-after-milliseconds main 300\n\
             sentinel failover-timeout main 3000\n",
            directory.path().display(),
            sentinel.port(),
            sentinel.ip()
        );
        fs::write(&path, config).expect("a file");
        let said = File::create(directory.path().join("said")).expect("a file");
        let child = Command::new("redis-server")
            .arg(&path)
            .arg("--sentinel")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a file"))
            .stderr(said)
            .spawn()
            .expect("a Sentinel starts");
        let watched = Self { master, replica, sentinel, _directory: directory, _process: Process(child) };
        wait_until("the Sentinel knows the replica", async || {
            watched.ask_sentinel(&["SENTINEL", "REPLICAS", "main"]).contains(&replica_at.to_string())
        })
        .await;
        watched
    }

    fn ask_sentinel(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-h", &self.sentinel.ip().to_string(), "-p", &self.sentinel.port().to_string()])
            .args(arguments)
            .output()
            .expect("redis-cli runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn options(&self) -> RedisOptions {
        RedisOptions::new(format!("redis-sentinel://{}/main", self.sentinel))
    }
}

async fn server(at: SocketAddr, more: &[&str]) -> RedisServer {
    let (ip, port) = (at.ip().to_string(), at.port().to_string());
    let mut arguments = vec!["--bind", &ip, "--port", &port];
    arguments.extend(more);
    RedisServer::start_with(&arguments).await
}

#[tokio::test]
async fn after_a_failover_the_new_master_is_asked() {
    let mut watched = Watched::start().await;
    let options = watched.options();
    let (poller, other) = (
        Poller::join_with(&options).await.expect("joins"),
        Poller::join_with(&options).await.expect("joins"),
    );
    let lease = poller.acquire("t").await;
    assert_eq!(watched.master.cli(&["GET", "poll:lease:t"]), poller.instance());
    wait_until("the replica has it", async || {
        watched.replica.cli(&["GET", "poll:lease:t"]) == poller.instance()
    })
    .await;
    watched.master.kill();
    wait_until("the new master answers", async || {
        match poller.store.renew(std::slice::from_ref(&lease)).await {
            Ok(renewal) => {
                assert!(renewal.lost.is_empty(), "{:?}", renewal.lost);
                true
            }
            Err(StoreError::Unreachable(_)) => false,
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
    assert!(watched.replica.cli(&["ROLE"]).starts_with("master"));
    wait_until("news are heard there", async || {
        watched.replica.cli(&["PUBSUB", "NUMSUB", "poll:changed"]).ends_with('2')
    })
    .await;
    other.view(&[]).await;
    let hearing = tokio::spawn({
        let store = other.store.clone();
        async move { store.changed().await }
    });
    poller
        .store
        .release(std::slice::from_ref(&lease), tenure_polling::store::ReleaseReason::Voluntary)
        .await
        .expect("released");
    soon("news of the release", hearing).await.expect("no panic");
    assert!(other.acquire("t").await.fence > lease.fence);
}

#[tokio::test]
async fn a_service_that_no_sentinel_knows_is_unreachable() {
    let watched = Watched::start().await;
    let options = RedisOptions::new(format!("redis-sentinel://{}/nothing", watched.sentinel));
    let missing = RedisStore::connect(&options).await.err();
    assert!(matches!(missing, Some(StoreError::Unreachable(_))), "{missing:?}");
}
