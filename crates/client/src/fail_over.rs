//! How long a cluster may be without a leader after one was lost, and whether a holder bears that. A holder that does
//! not is told, and never refused.

use crate::client::Client;
use crate::error::CallError;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use tenure_api::ErrorCode;
use tokio::sync::OnceCell;

/// How long the daemon may take to say what a failover takes.
const WITHIN: Duration = Duration::from_secs(2);
/// The longest ttl that [`FailOver::enough_ttl`] looks at.
const TTL_SECS_MAX: u64 = 600;

/// How long the loss of a leader takes. Meanwhile no lease is renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailOver {
    takes: Duration,
}

/// What one client knows of its cluster's failover.
#[derive(Default)]
pub(crate) struct Told {
    /// `None`: the daemon is not a node of a cluster.
    fail_over: OnceCell<Option<FailOver>>,
    warned: AtomicBool,
}

impl FailOver {
    /// Of a cluster in which a leader that was silent for this long is replaced.
    #[must_use]
    pub fn of(leader_ttl_ms: u64) -> Self {
        let takes_ms = leader_ttl_ms.saturating_add(leader_ttl_ms / 100).saturating_add(900);
        Self { takes: Duration::from_millis(takes_ms) }
    }

    /// How long it takes at most while a majority of etcd and another node are reachable.
    #[must_use]
    pub fn takes(self) -> Duration {
        self.takes
    }

    /// The shortest ttl, in seconds, whose holder bears it. `bears` is how long a holder with a ttl goes on without an
    /// answer.
    #[must_use]
    pub fn enough_ttl(self, bears: impl Fn(Duration) -> Duration) -> Duration {
        let is_enough = |secs: &u64| bears(Duration::from_secs(*secs)) >= self.takes;
        Duration::from_secs((1..=TTL_SECS_MAX).find(is_enough).unwrap_or(TTL_SECS_MAX))
    }

    /// The ttl that would be enough, where this one is not.
    #[must_use]
    pub fn needs_more_than(self, ttl: Duration, bears: impl Fn(Duration) -> Duration) -> Option<Duration> {
        (bears(ttl) < self.takes).then(|| self.enough_ttl(bears))
    }
}

impl Client {
    /// Asks what a failover of the cluster takes; `None`: the daemon is not a node of a cluster.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn fail_over(&self) -> Result<Option<FailOver>, CallError> {
        match self.cluster().await {
            Ok(cluster) => Ok(Some(FailOver::of(cluster.leader_ttl_ms))),
            Err(CallError::Rejected(error)) if error.code == ErrorCode::NotClustered => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Logs a warning where a failover takes longer than a guard or session of this ttl bears: once for each client. A
    /// daemon that does not say what one takes is not waited for.
    pub(crate) async fn warn_of_fail_over(&self, ttl: Duration, margin: Duration) {
        let told = self.told();
        if told.warned.load(Ordering::Relaxed) {
            return;
        }
        let asked = told.fail_over.get_or_try_init(|| self.fail_over());
        let Ok(Ok(Some(fail_over))) = tokio::time::timeout(WITHIN, asked).await else { return };
        let bears = |ttl| self.terms(margin).bears(ttl);
        let Some(enough) = fail_over.needs_more_than(ttl, bears) else { return };
        if !told.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                ttl_ms = ttl.as_millis() as u64,
                bears_ms = bears(ttl).as_millis() as u64,
                failover_ms = fail_over.takes().as_millis() as u64,
                enough_ttl_ms = enough.as_millis() as u64,
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

    fn bears(ttl: Duration) -> Duration {
        Terms { margin: MARGIN, several_nodes: true }.bears(ttl)
    }

    #[test]
    fn a_failover_takes_as_long_as_promise_c2_says_and_a_longer_ttl_bears_it() {
        let secs = Duration::from_secs;
        let fail_over = FailOver::of(3_000);
        assert_eq!(fail_over.takes(), Duration::from_millis(3_930));
        assert_eq!(fail_over.needs_more_than(secs(4), bears), Some(secs(5)));
        assert_eq!(fail_over.needs_more_than(secs(5), bears), None);
        assert_eq!(FailOver::of(30_000).needs_more_than(secs(30), bears), Some(secs(39)));
        assert_eq!(FailOver::of(u64::MAX).needs_more_than(secs(90), bears), Some(secs(TTL_SECS_MAX)));
    }

    #[test]
    fn a_guard_bears_its_validity_less_one_renewal() {
        assert_eq!(bears(Duration::from_secs(6)), Duration::from_millis(4_801));
        // Short ones are not renewed all the time.
        assert_eq!(bears(Duration::from_millis(500)), Duration::from_millis(345));
        assert_eq!(bears(Duration::ZERO), Duration::ZERO);
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
        client.warn_of_fail_over(Duration::from_millis(ttl_ms), MARGIN).await;
        client.told().warned.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn a_client_asks_once_and_warns_of_a_ttl_that_a_failover_outlasts() {
        let (client, asked) = daemon(200, cluster(3_000)).await;
        assert!(!warns_of(&client, 30_000).await);
        assert!(warns_of(&client, 3_000).await, "also through a clone");
        assert!(warns_of(&client.clone(), 2_000).await);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_eq!(client.fail_over().await.expect("an answer"), Some(FailOver::of(3_000)));
    }

    #[tokio::test]
    async fn one_daemon_alone_has_no_failover_and_one_that_does_not_say_is_not_held_against_anybody() {
        let alone = tenure_api::Error::new(ErrorCode::NotClustered, "no");
        let (client, asked) = daemon(409, serde_json::to_value(alone).expect("JSON")).await;
        assert_eq!(client.fail_over().await.expect("an answer"), None);
        assert!(!warns_of(&client, 1_000).await && !warns_of(&client, 1_000).await);
        assert_eq!(asked.load(Ordering::SeqCst), 2, "once by the test");
        let (client, asked) = daemon(503, json!({})).await;
        assert!(!warns_of(&client, 1_000).await);
        assert!(!warns_of(&client, 1_000).await);
        assert!(asked.load(Ordering::SeqCst) >= 2, "it is asked again for the next guard");
    }
}
