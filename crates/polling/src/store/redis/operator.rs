//! The calls of operators: views of a group, pins and cordons. They need no membership.

use super::{Call, RedisStore, scripts};
use crate::instance::Instance;
use crate::store::redis::Where;
use crate::store::{SeenMember, StoreError, TargetName, View};
use core::time::Duration;
use std::collections::BTreeSet;
use tenure_api::PollerStatus;

impl RedisStore {
    /// Returns the group, with the members and leases of older programs. Finds them by a scan through all keys of the
    /// server, which pollers do not do.
    ///
    /// # Errors
    /// [`StoreError`] if Redis does not answer or rejects the user.
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

    /// Pins a target to a poller, by name or instance; the pin has effect while the poller is live. `None` removes the pin.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if the group has no such poller, or the poller is cordoned.
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

    /// Cordons a poller, by name or instance: it hands over all its targets and gets none. With `false`, uncordons it.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if the group has no such poller to cordon.
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

    /// A live poller.
    async fn living(&self, poller: &str) -> Result<SeenMember, StoreError> {
        let members = self.look(&[], None, self.older_peers().await?).await?.members;
        let is_meant =
            |member: &&SeenMember| member.instance.as_str() == poller || member.instance.name() == poller;
        members.iter().find(is_meant).cloned().ok_or_else(|| {
            let names: Vec<&str> = members.iter().map(|member| member.instance.name()).collect();
            let living = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            StoreError::Rejected(format!(
                "there is no poller {poller:?}; live pollers of the group: {living}"
            ))
        })
    }

    async fn steer(&self, what: &str, which: &str, value: &str) -> Result<(), StoreError> {
        let arguments = [what, which, value].map(str::to_owned).to_vec();
        let operator = Instance::from_text("operator");
        let call = Call { instance: &operator, ttl: Duration::ZERO, targets: &[], arguments };
        self.run(&scripts::STEER, call).await.map(drop)
    }
}
