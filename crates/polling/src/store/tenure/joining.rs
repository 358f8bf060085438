//! Becoming a member: a session, and the poller's name under it. A name that another run has is waited for until that
//! one's time is over; one that was left is taken up.

use super::calls::{amend, blocking, facts, hand_over, millis, understood, within};
use super::{Member, TenureStore};
use crate::instance::Instance;
use crate::store::{LeaseKey, Membership, StoreError};
use core::time::Duration;
use std::collections::HashMap;
use tenure_api::{
    Acquire, Blocking, ErrorCode, Lease, OpenSession, PollName, PollerReport, PollerStatus, SessionHeartbeat,
};
use tenure_client::clock::BootInstant;
use tenure_client::{CallError, operation_id};

/// How much longer than the other's time a name is waited for: what a daemon may be late.
const NAME_SLACK: Duration = Duration::from_millis(1_000);

/// A session that was opened.
pub(super) struct Opened {
    pub(super) session: String,
    lsn: u64,
    valid_until: BootInstant,
}

impl TenureStore {
    pub(super) async fn open_session(
        &self,
        membership: &Membership,
        limit: Duration,
    ) -> Result<Opened, StoreError> {
        let open = OpenSession {
            holder: membership.instance.to_string(),
            ttl_ms: Some(millis(membership.ttl)),
            grace_ms: Some(0),
            // Pollers of one group may be of several principals.
            accepts_handover: Some(PollName::prefix(&self.group)),
            operation_id: Some(operation_id()),
        };
        let sent = BootInstant::now();
        let opened = within(limit, self.client().open_session(&open)).await;
        let opened = opened.map_err(|error| understood(&error))?;
        let valid_until = membership.valid_until_as_answered(sent, opened.valid_ms.unwrap_or(0));
        Ok(Opened { session: opened.session, lsn: opened.lsn, valid_until })
    }

    /// Takes the poller's name under a session.
    pub(super) async fn become_member(
        &self,
        membership: &Membership,
        opened: &Opened,
    ) -> Result<Member, StoreError> {
        let begun = BootInstant::now();
        let session = &opened.session;
        let lease = self.take_name(membership, session).await?;
        let mut valid_until = opened.valid_until;
        if BootInstant::now().since(begun) > membership.call_timeout {
            // The name was waited for: what was promised at the beginning is nearly over.
            let sent = BootInstant::now();
            let valid_ms = self.beat(membership, session).await?;
            valid_until = membership.valid_until_as_answered(sent, valid_ms);
        }
        Ok(Member {
            membership: membership.clone(),
            session: session.clone(),
            lease_id: lease.lease_id,
            epoch: lease.epoch,
            seen_lsn: opened.lsn,
            valid_until,
            proven_at: BootInstant::now().after(membership.ttl),
            ended: HashMap::new(),
            status: PollerStatus::Online,
            report: PollerReport::default(),
        })
    }

    /// Takes the name, waiting for one who had it and may be dead.
    async fn take_name(&self, membership: &Membership, session: &str) -> Result<Lease, StoreError> {
        let name = membership.instance.name().to_owned();
        let resource = self.resource(PollName::Poller(name.clone()))?;
        let mut acquire = Acquire {
            resources: vec![resource],
            holder: membership.instance.to_string(),
            session: Some(session.to_owned()),
            attachment: Some(joined(membership)),
            operation_id: Some(operation_id()),
            ..Acquire::default()
        };
        let first = within(membership.join_timeout(), self.client().acquire(&acquire)).await;
        let blocking = match first {
            Ok(lease) => return Ok(lease),
            Err(error) => blocking(&error).ok_or_else(|| understood(&error))?,
        };
        if let Some(lease) = self.take_up(membership, session, &blocking).await? {
            return Ok(lease);
        }
        // Whoever does not renew is gone by then.
        let left = Duration::from_millis(blocking.remaining_ms.unwrap_or(0)).min(membership.ttl);
        acquire.wait_ms = Some(millis(left.saturating_add(NAME_SLACK)));
        acquire.operation_id = Some(operation_id());
        let holder = blocking.holder.unwrap_or_default();
        let waiting = self.client().acquire(&acquire);
        match self.while_alive(membership, session, waiting).await? {
            Ok(lease) => Ok(lease),
            Err(error) if matches!(error.code(), Some(ErrorCode::WaitTimeout | ErrorCode::ResourceHeld)) => {
                Err(StoreError::NameTaken(format!(
                    "another run of poller {name:?} is alive in group {:?}: {holder} renewed its lease",
                    self.group
                )))
            }
            Err(error) => Err(understood(&error)),
        }
    }

    /// A name that was left with a window, or by an earlier session of this very run, is handed to the new one.
    async fn take_up(
        &self,
        membership: &Membership,
        session: &str,
        blocking: &Blocking,
    ) -> Result<Option<Lease>, StoreError> {
        let (Some(holder), Some(lease_id)) = (&blocking.holder, &blocking.lease_id) else { return Ok(None) };
        let holder = Instance::from_text(holder);
        if !holder.is_absent() && holder != membership.instance {
            return Ok(None);
        }
        let (limit, client) = (membership.join_timeout(), self.client());
        let seen = within(limit, client.lease(lease_id)).await.map_err(|error| understood(&error))?;
        let key = LeaseKey { lease_id: lease_id.clone(), epoch: seen.epoch, ..LeaseKey::default() };
        match within(limit, hand_over(client.clone(), key, session.to_owned())).await {
            Ok(lease) => {
                let amend = amend(lease.epoch, joined(membership));
                let amended = within(limit, client.amend(lease_id, &amend)).await;
                amended.map(Some).map_err(|error| understood(&error))
            }
            // Another's, or over: waited for like any name.
            Err(error @ CallError::Rejected(_)) if error.retry_after().is_none() => Ok(None),
            Err(error) => Err(understood(&error)),
        }
    }

    /// Keeps the session alive while something takes longer than its ttl may be.
    async fn while_alive<T>(
        &self,
        membership: &Membership,
        session: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let mut work = core::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                () = tokio::time::sleep(membership.ttl / 3) => {
                    self.beat(membership, session).await?;
                }
            }
        }
    }

    async fn beat(&self, membership: &Membership, session: &str) -> Result<u64, StoreError> {
        let heartbeat = SessionHeartbeat::default();
        let beaten = self.client().session_heartbeat(session, &heartbeat);
        let beaten = within(membership.join_timeout(), beaten).await;
        beaten.map(|renewed| renewed.valid_ms).map_err(|error| understood(&error))
    }
}

/// What a poller tells of itself when it joins: it has nothing to report yet.
fn joined(membership: &Membership) -> serde_json::Value {
    facts(membership, PollerStatus::Online, true, Some(PollerReport::default()))
}
