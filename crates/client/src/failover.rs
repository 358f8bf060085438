//! How long a cluster may be without a leader after one was lost, and whether a ttl is long enough for that. A ttl that
//! is too short causes a warning, never an error.

use crate::client::Client;
use crate::error::CallError;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use tenure_api::ErrorCode;
use tokio::sync::OnceCell;

/// How long the daemon may take to report its leader ttl.
const WITHIN: Duration = Duration::from_secs(2);
/// The longest ttl that [`Failover::min_ttl`] returns.
const TTL_SECS_MAX: u64 = 600;

/// How long a cluster takes to replace a lost leader. Until then no lease is renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failover {
    duration: Duration,
}

/// What one client knows of its cluster's failover.
#[derive(Default)]
pub(crate) struct KnownFailover {
    /// `None`: the daemon is not a node of a cluster.
    failover: OnceCell<Option<Failover>>,
    warned: AtomicBool,
}

impl Failover {
    /// The failover of a cluster with this leader ttl.
    #[must_use]
    pub fn of(leader_ttl_ms: u64) -> Self {
        let duration_ms = leader_ttl_ms.saturating_add(leader_ttl_ms / 100).saturating_add(900);
        Self { duration: Duration::from_millis(duration_ms) }
    }

    /// How long the failover takes at most, while a majority of etcd and another node are reachable.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.duration
    }

    /// The shortest ttl that survives the failover, in whole seconds, at most 600 s. `max_silence` returns how long a
    /// holder with a given ttl continues without an answer.
    #[must_use]
    pub fn min_ttl(self, max_silence: impl Fn(Duration) -> Duration) -> Duration {
        let survives = |secs: &u64| max_silence(Duration::from_secs(*secs)) >= self.duration;
        Duration::from_secs((1..=TTL_SECS_MAX).find(survives).unwrap_or(TTL_SECS_MAX))
    }

    /// [`Failover::min_ttl`], if this ttl does not survive the failover.
    #[must_use]
    pub fn ttl_needed(self, ttl: Duration, max_silence: impl Fn(Duration) -> Duration) -> Option<Duration> {
        (max_silence(ttl) < self.duration).then(|| self.min_ttl(max_silence))
    }
}

impl Client {
    /// Returns how long a failover of the cluster takes; `None` if the daemon is not a node of a cluster.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn failover(&self) -> Result<Option<Failover>, CallError> {
        match self.cluster().await {
            Ok(cluster) => Ok(Some(Failover::of(cluster.leader_ttl_ms))),
            Err(CallError::Rejected(error)) if error.code == ErrorCode::NotClustered => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Logs a warning if a guard or session with this ttl does not survive a failover: once for each client. Does not
    /// wait for a daemon that does not report its leader ttl.
    pub(crate) async fn warn_of_failover(&self, ttl: Duration, margin: Duration) {
        let known = self.known_failover();
        if known.warned.load(Ordering::Relaxed) {
            return;
        }
        let asked = known.failover.get_or_try_init(|| self.failover());
        let Ok(Ok(Some(failover))) = tokio::time::timeout(WITHIN, asked).await else { return };
        let max_silence = |ttl| self.terms(margin).max_silence(ttl);
        let Some(min_ttl) = failover.ttl_needed(ttl, max_silence) else { return };
        if !known.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                ttl_ms = ttl.as_millis() as u64,
                survives_ms = max_silence(ttl).as_millis() as u64,
                failover_ms = failover.duration().as_millis() as u64,
                min_ttl_ms = min_ttl.as_millis() as u64,
                "a failover of the cluster takes longer than this ttl survives: leases can be lost in it; use a longer ttl"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Terms;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const MARGIN: Duration = Duration::from_millis(50);

    fn max_silence(ttl: Duration) -> Duration {
        Terms { margin: MARGIN, several_nodes: true }.max_silence(ttl)
    }

    #[test]
    fn a_failover_takes_as_long_as_promise_c2_says_and_a_longer_ttl_survives_it() {
        let secs = Duration::from_secs;
        let failover = Failover::of(3_000);
        assert_eq!(failover.duration(), Duration::from_millis(3_930));
        assert_eq!(failover.ttl_needed(secs(4), max_silence), Some(secs(5)));
        assert_eq!(failover.ttl_needed(secs(5), max_silence), None);
        assert_eq!(Failover::of(30_000).ttl_needed(secs(30), max_silence), Some(secs(39)));
        assert_eq!(Failover::of(u64::MAX).ttl_needed(secs(90), max_silence), Some(secs(TTL_SECS_MAX)));
    }

    #[test]
    fn a_guard_survives_a_silence_of_its_validity_less_one_renewal() {
        assert_eq!(max_silence(Duration::from_secs(6)), Duration::from_millis(4_801));
        // Short ones are not renewed all the time.
        assert_eq!(max_silence(Duration::from_millis(500)), Duration::from_millis(345));
        assert_eq!(max_silence(Duration::ZERO), Duration::ZERO);
    }

    /// A daemon that answers everything with this; how often it was asked, and for what.
    async fn daemon(status: u16, body: Value) -> (Client, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4_096];
                let read = stream.read(&mut request).await.unwrap_or_default();
                assert!(request[..read].starts_with(b"GET /v1/cluster "), "nothing else is asked");
                count.fetch_add(1, Ordering::SeqCst);
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        let client = Client::builder(endpoint.parse().expect("an endpoint")).build().expect("a client");
        (client, asked)
    }

    fn cluster(leader_ttl_ms: u64) -> Value {
        json!({
            "node": "a", "role": "leader", "leader": null, "leader_ttl_ms": leader_ttl_ms, "generation": 1, "log_id": "0f",
            "tag": "k3f9", "applied_lsn": 1, "head_lsn": 1, "lag_lsn": 0, "lag_seconds": 0.0, "authority_ms": null,
            "nodes": [], "changes": [],
            "store": {"kind": "etcd", "endpoints": [], "members": [], "bytes": 1, "quota_bytes": 2, "warnings": []},
        })
    }

    async fn warns_of(client: &Client, ttl_ms: u64) -> bool {
        client.warn_of_failover(Duration::from_millis(ttl_ms), MARGIN).await;
        client.known_failover().warned.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn a_client_asks_once_and_warns_of_a_ttl_that_a_failover_outlasts() {
        let (client, asked) = daemon(200, cluster(3_000)).await;
        assert!(!warns_of(&client, 30_000).await);
        assert!(warns_of(&client, 3_000).await, "also through a clone");
        assert!(warns_of(&client.clone(), 2_000).await);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_eq!(client.failover().await.expect("an answer"), Some(Failover::of(3_000)));
    }

    #[tokio::test]
    async fn one_daemon_alone_has_no_failover_and_one_that_does_not_say_is_not_held_against_anybody() {
        let alone = tenure_api::Error::new(ErrorCode::NotClustered, "no");
        let (client, asked) = daemon(409, serde_json::to_value(alone).expect("JSON")).await;
        assert_eq!(client.failover().await.expect("an answer"), None);
        assert!(!warns_of(&client, 1_000).await && !warns_of(&client, 1_000).await);
        assert_eq!(asked.load(Ordering::SeqCst), 2, "once by the test");
        let (client, asked) = daemon(503, json!({})).await;
        assert!(!warns_of(&client, 1_000).await);
        assert!(!warns_of(&client, 1_000).await);
        assert!(asked.load(Ordering::SeqCst) >= 2, "it is asked again for the next guard");
    }
}
