//! What people ask of a group: to be shown it, and to steer it. No membership is needed.

use super::{Call, RedisStore, scripts};
use crate::instance::Instance;
use crate::store::redis::Where;
use crate::store::{SeenMember, StoreError, TargetName, View};
use core::time::Duration;
use std::collections::BTreeSet;
use tenure_api::PollerStatus;

impl RedisStore {
    /// Everything that is seen of the group, older programs included. Looks for leases and nodes through all keys of
    /// the server, because an operator asked: pollers do not.
    ///
    /// # Errors
    /// [`StoreError`] if Redis cannot be asked.
    pub async fn group_view(&self) -> Result<View, StoreError> {
        let looking = async {
            let start = self.keys.lease("");
            let found = self.link.scan(&self.keys.leases(), Where::With(&start)).await?;
            let targets: BTreeSet<TargetName> =
                found.iter().filter_map(|key| key.strip_prefix(&start)).map(TargetName::from).collect();
            let targets: Vec<TargetName> = targets.into_iter().collect();
            // They cannot share a Cluster.
            let older = if self.link.is_cluster() { Vec::new() } else { self.scan_for_older().await? };
            self.look(&targets, None, older).await
        };
        self.link.within(self.call_timeout, looking).await
    }

    /// Gives a target to a poller, by name or instance, for as long as that one lives; without one the target goes by
    /// itself again.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if there is no such poller, or it is cordoned.
    pub async fn pin(&self, target: &str, poller: Option<&str>) -> Result<(), StoreError> {
        let steering = async {
            let name = match poller {
                Some(poller) => {
                    let found = self.living(poller).await?;
                    if found.status == PollerStatus::Cordoned {
                        let told =
                            format!("{poller:?} is cordoned: it takes no targets until it is uncordoned");
                        return Err(StoreError::Rejected(told));
                    }
                    found.instance.name().to_owned()
                }
                None => String::new(),
            };
            self.steer("pin", target, &name).await
        };
        self.link.within(self.call_timeout, steering).await
    }

    /// Takes a poller's targets away, by name or instance, or lets it have some again.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if there is no such poller to take them from.
    pub async fn cordon(&self, poller: &str, is_cordoned: bool) -> Result<(), StoreError> {
        let steering = async {
            if !is_cordoned {
                return self.steer("cordon", Instance::from_text(poller).name(), "").await;
            }
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let found = self.living(poller).await?;
            self.steer("cordon", found.instance.name(), &host).await
        };
        self.link.within(self.call_timeout, steering).await
    }

    /// A poller that lives.
    async fn living(&self, poller: &str) -> Result<SeenMember, StoreError> {
        let members = self.look(&[], None, self.older_peers().await?).await?.members;
        let is_meant =
            |member: &&SeenMember| member.instance.as_str() == poller || member.instance.name() == poller;
        members.iter().find(is_meant).cloned().ok_or_else(|| {
            let names: Vec<&str> = members.iter().map(|member| member.instance.name()).collect();
            let living = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            StoreError::Rejected(format!("there is no poller {poller:?}; live pollers of the group: {living}"))
        })
    }

    async fn steer(&self, what: &str, which: &str, value: &str) -> Result<(), StoreError> {
        let arguments = [what, which, value].map(str::to_owned).to_vec();
        let operator = Instance::from_text("operator");
        let call = Call { instance: &operator, ttl: Duration::ZERO, targets: &[], arguments };
        self.run(&scripts::STEER, call).await.map(drop)
    }
}
