//! Which lease is meant: an id, or the name of something it covers.

use clap::Args;
use serde_json::Value;
use tenure_api::{ErrorCode, Lease, LeaseList, LeaseQuery, Resource};
use tenure_history::WireLease;

use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::show::names;

/// Ids shown where a name means several leases.
const IDS_MAX: usize = 5;

/// A lease on the command line.
#[derive(Args)]
pub(super) struct Target {
    /// Lease ID, or a resource that the lease holds
    #[arg(value_name = "LEASE")]
    lease: String,
}

impl Target {
    /// Its id. What is spelled like an id is one, unless only a resource has that name.
    pub(super) async fn id(&self, daemon: &Daemon) -> Result<String, Failure> {
        if self.lease.parse::<WireLease>().is_ok() {
            return Ok(self.lease.clone());
        }
        self.covering(daemon).await
    }

    /// The lease as it is, in the API's own object.
    pub(super) async fn object(&self, daemon: &Daemon) -> Result<Value, Failure> {
        let id = self.id(daemon).await?;
        match daemon.get(route(&["leases", &id])).await {
            Err(Failure::Answered { error, words })
                if error.code == ErrorCode::NotFound && id == self.lease =>
            {
                let Ok(id) = self.covering(daemon).await else {
                    return Err(Failure::Answered { error, words });
                };
                daemon.get(route(&["leases", &id])).await
            }
            answer => answer,
        }
    }

    /// The lease as it is.
    pub(super) async fn lease(&self, daemon: &Daemon) -> Result<Lease, Failure> {
        read(self.object(daemon).await?)
    }

    /// Its id and the epoch to present: the one given, else the present one.
    pub(super) async fn id_and_epoch(
        &self,
        daemon: &Daemon,
        epoch: Option<u64>,
    ) -> Result<(String, u64), Failure> {
        match epoch {
            Some(epoch) => Ok((self.id(daemon).await?, epoch)),
            None => {
                let lease = self.lease(daemon).await?;
                Ok((lease.lease_id, lease.epoch))
            }
        }
    }

    async fn covering(&self, daemon: &Daemon) -> Result<String, Failure> {
        let name = self.lease.as_str();
        let resource: Resource = read(daemon.get(route(&["resources", name])).await?)?;
        if let Some(lease) = resource.lease_id {
            return Ok(lease);
        }
        // The name of a pool stands for its members.
        let query = LeaseQuery {
            resource_prefix: Some(format!("{name}/")),
            limit: Some(100),
            ..LeaseQuery::default()
        };
        let list: LeaseList = read(daemon.get(route(&["leases"]).query(&query)).await?)?;
        match list.leases.as_slice() {
            [] => {
                let words = Words::new(format_args!(
                    "{name:?} is neither a lease ID nor a resource that a lease holds"
                ));
                Err(Failure::Refused(words.hint(format_args!("tenure lease ls, or tenure why {name}"))))
            }
            [one] => Ok(one.lease_id.clone()),
            several => {
                let ids: Vec<String> = several.iter().map(|lease| lease.lease_id.clone()).collect();
                let words = Words::new(format_args!("several leases hold members of pool {name}"));
                Err(Failure::Usage(words.hint(format_args!("name one of {}", names(&ids, IDS_MAX)))))
            }
        }
    }
}
