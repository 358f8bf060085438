//! What a lease was when something happened to it. An event must look the same whenever it is read, so what
//! the lease is by now counts only where nothing has changed since.

use crate::dispatch::Faces;
use tenure_engine::kernel::{Change, Epitaph, Fence, Granted, LeaseId, LeaseState, Lsn, Policy, Text};
use tenure_engine::{Answer, LeaseFound, LeaseSnapshot, Request};
use tenure_history::{Subject, WhyLimits};

/// What a lease is, apart from how it stands.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) holder: Text,
    pub(super) members: Vec<String>,
    pub(super) policy: Policy,
    pub(super) granted_wall_ms: u64,
    /// It is not in use yet.
    pub(super) reserved: bool,
}

impl Known {
    pub(super) fn granted(granted: &Granted) -> Self {
        Self {
            holder: granted.holder.clone(),
            members: granted.members.iter().map(Text::to_string).collect(),
            policy: granted.policy.clone(),
            granted_wall_ms: granted.wall_ms,
            reserved: granted.deadline.is_some(),
        }
    }

    pub(super) fn was(was: &Epitaph) -> Self {
        Self {
            holder: was.holder.clone(),
            members: was.members.iter().map(Text::to_string).collect(),
            policy: was.policy.clone(),
            granted_wall_ms: was.granted_wall_ms,
            reserved: false,
        }
    }

    fn live(live: LeaseSnapshot) -> Self {
        Self {
            holder: live.holder,
            members: live.members.iter().map(Text::to_string).collect(),
            policy: live.policy,
            granted_wall_ms: live.granted_wall_ms,
            reserved: matches!(live.state, LeaseState::Reserved { .. }),
        }
    }

    /// Whether one more change makes it another.
    pub(super) fn is_changed_by(&self, change: &Change) -> bool {
        match change {
            Change::Activated { .. } => self.reserved,
            Change::Rebound(_) => true,
            _ => false,
        }
    }

    /// What it is after one more change.
    pub(super) fn follow(&mut self, change: &Change) {
        match change {
            Change::Activated { .. } => self.reserved = false,
            Change::Rebound(rebound) => {
                self.holder = rebound.holder.clone();
                if let Some(policy) = &rebound.policy {
                    self.policy = policy.clone();
                }
            }
            Change::Granted(_)
            | Change::Amended(_)
            | Change::Drained(_)
            | Change::Revived(_)
            | Change::Released(_)
            | Change::Revoked(_)
            | Change::Reclaimed(_)
            | Change::Expired(_)
            | Change::Notified { .. }
            | Change::SessionOpened(_)
            | Change::SessionClosed { .. }
            | Change::PoolDefined { .. }
            | Change::PoolRemoved { .. }
            | Change::Trimmed { .. }
            | Change::Configured(_) => {}
        }
    }
}

impl Faces {
    /// What never changes of a lease that is live: what it covers, and since when. Whoever moves it is not looked at.
    pub(super) async fn lease_in_use(&self, lease: LeaseId) -> Option<Known> {
        match self.ask(Request::Read(lease)).await {
            Answer::Read(read) => match read.lease {
                LeaseFound::Live(live) => Some(Known { reserved: false, ..Known::live(live) }),
                LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => None,
            },
            _ => None,
        }
    }

    /// What a lease was at a position: as it is if its holder has not changed since, else as the log tells.
    /// `unused`: it may not have been in use then, which only the log knows.
    pub(super) async fn known_lease(&self, lease: LeaseId, at: Lsn, unused: bool) -> Option<Known> {
        let held_since = |fence: Fence| Lsn(fence.0.saturating_sub(self.identity().fence_base));
        let (live, moved) = match self.ask(Request::Read(lease)).await {
            Answer::Read(read) => match read.lease {
                LeaseFound::Live(live) => {
                    let since = held_since(live.fence);
                    let known = Known::live(live);
                    if since <= at && (known.reserved || !unused) {
                        return Some(known);
                    }
                    (Some(known), since > lease.lsn())
                }
                LeaseFound::JustEnded { fence, was, .. } => {
                    let since = held_since(fence);
                    // Only what was in use can have moved.
                    if since <= at && since > lease.lsn() && !unused {
                        return Some(Known::was(&was));
                    }
                    (None, since > lease.lsn())
                }
                LeaseFound::Ended { fence, ended, .. } => {
                    let since = held_since(fence);
                    // The event that ended it repeats what it was, which is what it was then.
                    if since <= at
                        && since > lease.lsn()
                        && !unused
                        && let Some(event) = self.logged_event(ended.ended_lsn).await
                        && let Some(was) = event.change.epitaph()
                    {
                        return Some(Known::was(was));
                    }
                    (None, since > lease.lsn())
                }
                LeaseFound::Retired => (None, false),
            },
            _ => (None, false),
        };
        self.logged_lease(lease, at, moved).await.or(live)
    }

    /// What a lease was as its grant tells, and what changed it up to a position.
    async fn logged_lease(&self, lease: LeaseId, at: Lsn, moved: bool) -> Option<Known> {
        let Change::Granted(granted) = self.logged_event(lease.lsn()).await?.change else { return None };
        let mut known = Known::granted(&granted);
        if !moved && !known.reserved {
            return Some(known);
        }
        let story = self
            .with_history(move |history| history.why(&Subject::Lease(lease), WhyLimits::default()))
            .await
            .ok()?
            .ok()?;
        for entry in story.entries.iter().filter(|entry| entry.lsn <= at) {
            if matches!(entry.kind, "activated" | "rebound")
                && let Some(event) = self.logged_event(entry.lsn).await
            {
                known.follow(&event.change);
            }
        }
        Some(known)
    }
}
