//! The store over etcd's gRPC: 3.4.23 and later. Knows nothing of what is kept in it.
//!
//! Every call blocks; one thread, `tenure-etcd`, speaks to etcd. A request that may change something leaves this machine
//! once: if no answer comes, the caller finds out what became of it.

mod health;
mod link;
mod links;
mod messages;
mod metrics;
mod thread;
mod upkeep;
mod watch;

pub use health::{Alarm, AlarmKind, Member, MemberStatus, Surveyed};
pub use metrics::Metrics;

use crate::store::{KeyValue, Ranged, Stepped, Store, StoreError, Txn, Watching};
use links::{Call, Links, Sent};
use messages::{
    CompactionRequest, CompactionResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
    WatchCreateRequest, revision,
};
use metrics::Reader;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thread::Thread;
use watch::EtcdWatch;

/// How an etcd is reached.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct EtcdOptions {
    /// Each `HOST:PORT`, at least one.
    pub endpoints: Vec<String>,
    /// `None`: in the clear.
    pub tls: Option<EtcdTls>,
    /// Name and password.
    pub user: Option<(String, String)>,
}

/// Certificates, as text in PEM.
#[derive(Clone, Serialize, Deserialize)]
pub struct EtcdTls {
    /// Of the authorities that etcd's certificate may come from; no others are trusted.
    pub ca_pem: String,
    /// A certificate to show, and its key.
    pub identity: Option<(String, String)>,
    /// The name in etcd's certificate; `None`: the host of the endpoint.
    pub domain: Option<String>,
}

/// A store over etcd.
pub struct EtcdStore {
    endpoints: Vec<String>,
    links: Arc<Links>,
    reader: Reader,
    tls: Option<EtcdTls>,
    thread: Thread,
}

/// Why a store cannot be opened. Whether etcd is there is not among it: that is found out with the first call.
#[derive(Debug, thiserror::Error)]
pub enum EtcdOpenError {
    /// There is nobody to ask.
    #[error("no etcd endpoint is given")]
    NoEndpoint,
    /// An endpoint is none.
    #[error("{endpoint:?} is not an etcd endpoint: {why}")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// What is wrong with it.
        why: String,
    },
    /// The certificates cannot be used.
    #[error("the certificates for etcd cannot be used: {why}")]
    Tls {
        /// What is wrong with them.
        why: String,
    },
    /// The system has no thread to give.
    #[error("cannot start the etcd client")]
    Thread(#[from] std::io::Error),
}

impl EtcdStore {
    /// Makes a store that connects with its first call.
    ///
    /// # Errors
    /// When the options make no sense.
    pub fn open(options: EtcdOptions) -> Result<Self, EtcdOpenError> {
        let EtcdOptions { endpoints, tls, user } = options;
        if endpoints.is_empty() {
            return Err(EtcdOpenError::NoEndpoint);
        }
        let reader = Reader::new(tls.as_ref()).map_err(|why| EtcdOpenError::Tls { why })?;
        let links = Links::new(&endpoints, tls.as_ref(), user)
            .map_err(|(endpoint, why)| EtcdOpenError::Endpoint { endpoint, why })?;
        Ok(Self { endpoints, links: Arc::new(links), reader, tls, thread: Thread::start()? })
    }

    /// As they were given.
    #[must_use]
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Whether a user was named to an etcd that asks nobody for a password; known after the first answer.
    #[must_use]
    pub fn asks_nobody(&self) -> bool {
        self.links.is_needless()
    }

    fn ask<Q, A>(&self, path: &'static str, sent: Sent, within: Duration, request: Q) -> Result<A, StoreError>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let links = Arc::clone(&self.links);
        self.thread.wait(async move { links.ask(Call { path, sent, within }, request).await })
    }
}

impl Store for EtcdStore {
    fn step(&self, txn: &Txn, within: Duration) -> Result<Stepped, StoreError> {
        let sent = if txn.writes() { Sent::Once } else { Sent::AsOftenAsItTakes };
        let answer: TxnResponse = self.ask("/etcdserverpb.KV/Txn", sent, within, TxnRequest::from(txn))?;
        Ok(answer.into())
    }

    fn range(&self, from: &str, to: &str, limit: usize, within: Duration) -> Result<Ranged, StoreError> {
        let request = RangeRequest {
            key: from.into(),
            range_end: to.into(),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
        };
        let answer: RangeResponse =
            self.ask("/etcdserverpb.KV/Range", Sent::AsOftenAsItTakes, within, request)?;
        // Keys of ours are text; others are not ours.
        let ours = |kv: messages::KeyValue| {
            let revision = u64::try_from(kv.mod_revision).unwrap_or(0);
            Some(KeyValue { key: String::from_utf8(kv.key).ok()?, value: kv.value, revision })
        };
        Ok(Ranged {
            revision: revision(answer.header.as_ref()),
            more: answer.more,
            found: answer.kvs.into_iter().filter_map(ours).collect(),
        })
    }

    fn watch(
        &self,
        from: &str,
        to: &str,
        since: u64,
        within: Duration,
    ) -> Result<Box<dyn Watching>, StoreError> {
        let create = WatchCreateRequest {
            key: from.into(),
            range_end: to.into(),
            start_revision: i64::try_from(since).unwrap_or(i64::MAX),
            fragment: true,
        };
        let links = Arc::clone(&self.links);
        let begun = self.thread.wait(watch::begin(links, create, within))?;
        Ok(Box::new(EtcdWatch::start(&self.thread, begun)))
    }

    fn compact(&self, revision: u64, within: Duration) -> Result<(), StoreError> {
        let request = CompactionRequest { revision: i64::try_from(revision).unwrap_or(i64::MAX) };
        let asked: Result<CompactionResponse, _> =
            self.ask("/etcdserverpb.KV/Compact", Sent::AsOftenAsItTakes, within, request);
        match asked {
            // What was asked for is so already.
            Err(StoreError::Refused { why, .. }) if why.contains("has been compacted") => Ok(()),
            asked => asked.map(|_| ()),
        }
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("tls", &self.tls)
            .field("user", &user)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, domain, .. } = self;
        f.debug_struct("EtcdTls")
            .field("identity", &identity.is_some())
            .field("domain", domain)
            .finish_non_exhaustive()
    }
}
