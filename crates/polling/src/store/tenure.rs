//! The daemon as a store. One session per poller, without grace, keeps its membership and all its targets, so that one
//! heartbeat renews all of them. The store lists the leases of the group once and then follows their events.

mod book;
mod calls;
mod feed;
mod joining;

use super::{
    HeldTarget, HolderState, LeaseKey, Loss, Membership, Outcome, ReleaseReason, Renewal, SeenMember,
    SeenOwner, Store, StoreError, TargetName, View, Wanted,
};
use crate::instance::Instance;
use calls::{amend, each, facts, hand_over, is_gone, keys, take, understood, within};
use core::time::Duration;
use feed::Feed;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenure_api::{
    EndedLease, ErrorCode, HolderCall, Lease, LeaseQuery, PollName, PollNameError, PollerReport,
    PollerStatus, SessionHeartbeat, SessionRenewed, State,
};
use tenure_client::clock::BootInstant;
use tenure_client::{CallError, Client, operation_id};

/// Reason of a lease that went to another session.
const HANDED_OVER: &str = "rebalanced";

/// How long the first list of a group may take for one who has not joined.
const READING_LIMIT: Duration = Duration::from_secs(10);

/// The daemon as a coordination backend, for one poller of one group.
pub struct TenureStore {
    client: Client,
    group: String,
    feed: Feed,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    member: Option<Member>,
    /// A session that was opened to join, until it is a member's or closed.
    joining: Option<String>,
}

/// A membership that was made.
#[derive(Clone)]
struct Member {
    membership: Membership,
    session: String,
    /// The lease on the poller's name.
    lease_id: String,
    epoch: u64,
    /// Losses up to here are known.
    seen_lsn: u64,
    /// Until when the session was last promised.
    valid_until: BootInstant,
    /// When it has lived for a ttl.
    proven_at: BootInstant,
    /// Leases that a heartbeat reported as lost, and as of which position.
    ended: HashMap<String, u64>,
    /// The last report on it.
    status: PollerStatus,
    report: PollerReport,
}

impl TenureStore {
    /// Creates a store on the client's daemon for one poller of this group.
    ///
    /// # Errors
    /// If the name of the group is invalid.
    pub fn new(client: Client, group: &str) -> Result<Self, PollNameError> {
        PollName::check_group(group)?;
        let feed = Feed::new(client.clone(), group);
        Ok(Self { client, group: group.to_owned(), feed, inner: Mutex::default() })
    }

    fn client(&self) -> &Client {
        &self.client
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resource(&self, name: PollName) -> Result<String, StoreError> {
        name.resource(&self.group).map_err(|error| StoreError::Rejected(error.to_string()))
    }

    fn member(&self) -> Result<Member, StoreError> {
        let member = self.inner().member.clone();
        member.ok_or_else(|| StoreError::NotMember("this poller is not a member of its group".to_owned()))
    }

    /// An answer to this session: if it says that the session is over, so is the membership, unless another took its
    /// place meanwhile.
    fn judged(&self, session: &str, error: &CallError) -> StoreError {
        let error = understood(error);
        if matches!(error, StoreError::NotMember(_)) {
            let mut inner = self.inner();
            if inner.member.as_ref().is_some_and(|member| member.session != session) {
                return StoreError::Unreachable("an answer to an earlier session".to_owned());
            }
            inner.member = None;
        }
        error
    }

    async fn close(&self, session: &str, limit: Duration) -> Result<(), StoreError> {
        let closed = within(limit, self.client.close_session(session)).await;
        match closed {
            Err(error) if error.code() != Some(ErrorCode::SessionNotFound) => Err(understood(&error)),
            _ => Ok(()),
        }
    }

    /// Losses of a session that lost more than is remembered: everything that is not listed.
    async fn losses_by_list(
        &self,
        member: &Member,
        leases: &[HeldTarget],
    ) -> Result<Vec<EndedLease>, StoreError> {
        let mut query = LeaseQuery {
            holder: Some(member.membership.instance.to_string()),
            state: Some(State::Active),
            resource_prefix: Some(PollName::prefix(&self.group)),
            limit: Some(1_000),
            ..LeaseQuery::default()
        };
        let mut live = HashMap::new();
        loop {
            let page = within(member.membership.call_timeout, self.client.leases(&query)).await;
            let page = page.map_err(|error| understood(&error))?;
            live.extend(page.leases.into_iter().map(|lease| (lease.lease_id, lease.epoch)));
            match page.next_cursor {
                Some(cursor) => query.cursor = Some(cursor),
                None => break,
            }
        }
        let held = leases.iter().map(|lease| (&lease.key.lease_id, lease.key.epoch));
        let all = held.chain([(&member.lease_id, member.epoch)]);
        let lost = all.filter(|(lease_id, epoch)| live.get(*lease_id) != Some(epoch));
        let ended = |(lease_id, _): (&String, u64)| EndedLease {
            lease_id: lease_id.clone(),
            reason: "not listed any more".to_owned(),
        };
        Ok(lost.map(ended).collect())
    }

    /// The notices include targets that this poller handed over itself. A notice counts only for a lease that is not current any more: the
    /// target may have come back meanwhile.
    async fn without_our_own(
        &self,
        member: &Member,
        leases: &[HeldTarget],
        ended: Vec<EndedLease>,
    ) -> Result<Vec<EndedLease>, StoreError> {
        let (moved, mut lost): (Vec<_>, Vec<_>) =
            ended.into_iter().partition(|ended| ended.reason == HANDED_OVER);
        let held: HashMap<&str, u64> =
            leases.iter().map(|lease| (lease.key.lease_id.as_str(), lease.key.epoch)).collect();
        let moved: Vec<EndedLease> =
            moved.into_iter().filter(|moved| held.contains_key(moved.lease_id.as_str())).collect();
        let ids: Vec<String> = moved.iter().map(|moved| moved.lease_id.clone()).collect();
        let answers =
            each(&self.client, member.membership.call_timeout, ids, |client, lease_id| async move {
                client.lease(&lease_id).await
            })
            .await;
        for (moved, answer) in moved.into_iter().zip(answers) {
            let is_ours = match answer {
                Some(Ok(lease)) => {
                    Some(&lease.epoch) == held.get(lease.lease_id.as_str()) && lease.state == State::Active
                }
                Some(Err(error)) if is_gone(&error) => false,
                Some(Err(error)) => return Err(understood(&error)),
                None => return Err(silent()),
            };
            if !is_ours {
                lost.push(moved);
            }
        }
        Ok(lost)
    }

    /// Notes what a heartbeat told, and says which of the leases are lost.
    fn take_in(
        &self,
        renewed: &SessionRenewed,
        ended: Vec<EndedLease>,
        leases: &[HeldTarget],
        valid_until: BootInstant,
    ) -> Result<Vec<Loss>, StoreError> {
        let book_lsn = self.feed.lsn();
        let mut inner = self.inner();
        let Some(member) = inner.member.as_mut().filter(|member| member.session == renewed.session) else {
            return Err(StoreError::Unreachable("an answer to an earlier session".to_owned()));
        };
        let mut lost: HashMap<String, String> =
            ended.into_iter().map(|ended| (ended.lease_id, ended.reason)).collect();
        for drained in &renewed.draining {
            lost.entry(drained.clone()).or_insert_with(|| "drained by an operator".to_owned());
        }
        member.ended.retain(|_, told| *told > book_lsn);
        member.ended.extend(lost.keys().map(|lease_id| (lease_id.clone(), renewed.lsn)));
        member.seen_lsn = member.seen_lsn.max(renewed.lsn);
        if lost.contains_key(&member.lease_id) {
            // Its targets stay the old session's until that is over, or until the next one takes them up.
            inner.member = None;
            return Err(StoreError::NotMember("its membership was ended".to_owned()));
        }
        member.valid_until = member.valid_until.max(valid_until);
        let loss = |lease: &HeldTarget| {
            let reason = lost.get(&lease.key.lease_id)?.clone();
            Some(Loss { target: lease.target.clone(), fence: lease.fence, reason })
        };
        Ok(leases.iter().filter_map(loss).collect())
    }

    /// What a grant or a handover to ourselves gives, unless its loss was told already.
    fn held_target(&self, target: &TargetName, lease: &Lease) -> Option<HeldTarget> {
        let inner = self.inner();
        let member = inner.member.as_ref()?;
        let session = lease.session.clone().unwrap_or_default();
        if session != member.session || member.ended.contains_key(&lease.lease_id) {
            return None;
        }
        let key = LeaseKey { lease_id: lease.lease_id.clone(), epoch: lease.epoch, session, lsn: lease.lsn };
        Some(HeldTarget { target: target.clone(), fence: lease.fence, valid_until: member.valid_until, key })
    }

    /// Writes what this poller tells of itself.
    async fn tell_all(&self, status: PollerStatus, report: PollerReport) -> Result<(), StoreError> {
        let member = self.member()?;
        let is_new = BootInstant::now() < member.proven_at;
        let amend = amend(member.epoch, facts(&member.membership, status, is_new, Some(report.clone())));
        let told = within(member.membership.call_timeout, self.client.amend(&member.lease_id, &amend)).await;
        told.map_err(|error| understood(&error))?;
        if let Some(present) = self.inner().member.as_mut().filter(|it| it.session == member.session) {
            (present.status, present.report) = (status, report);
        }
        Ok(())
    }

    /// Moves everything to a session that nobody keeps alive: it ends by itself when the window is over.
    async fn leave_with_window(
        &self,
        member: &Member,
        leases: &[HeldTarget],
        window: Duration,
    ) -> Result<(), StoreError> {
        let limit = member.membership.call_timeout;
        let absent = Membership {
            instance: Instance::absent(member.membership.instance.name()),
            ttl: window.max(Duration::from_secs(1)),
            ..member.membership.clone()
        };
        let session = self.open_session(&absent, limit).await?.session;
        let amended = amend(member.epoch, facts(&absent, PollerStatus::Absent, false, None));
        let amended = within(limit, self.client.amend(&member.lease_id, &amended)).await;
        let amended = amended.map_err(|error| understood(&error))?;
        let name = LeaseKey { lease_id: amended.lease_id, epoch: amended.epoch, ..LeaseKey::default() };
        let mut moves = keys(leases);
        moves.push(name);
        let answers =
            each(&self.client, limit, moves, |client, key| hand_over(client, key, session.clone())).await;
        for answer in answers {
            match answer {
                Some(Ok(_)) => {}
                // What is not ours any more cannot be kept for us.
                Some(Err(error)) if is_gone(&error) => {}
                Some(Err(error)) => return Err(understood(&error)),
                None => return Err(silent()),
            }
        }
        Ok(())
    }
}

impl Store for TenureStore {
    /// Half of what the daemon remembers.
    const MOVES_PER_RENEWAL: usize = 512;

    fn group(&self) -> &str {
        &self.group
    }

    async fn join(&self, membership: &Membership) -> Result<(), StoreError> {
        self.feed.start();
        let opened = self.open_session(membership, membership.join_timeout()).await?;
        self.inner().joining = Some(opened.session.clone());
        let joined = self.become_member(membership, &opened).await;
        if joined.is_err() {
            // Left alone, it would keep the name from the next try if it has it after all.
            let closed = self.close(&opened.session, membership.call_timeout).await;
            tracing::debug!(?closed, "closed a session that was opened to join");
        }
        let mut inner = self.inner();
        inner.joining = None;
        inner.member = Some(joined?);
        Ok(())
    }

    async fn renew(&self, leases: &[HeldTarget]) -> Result<Renewal, StoreError> {
        let member = self.member()?;
        let heartbeat = SessionHeartbeat { seen_lsn: Some(member.seen_lsn) };
        let sent = BootInstant::now();
        let asked = self.client.session_heartbeat(&member.session, &heartbeat);
        let renewed = within(member.membership.call_timeout, asked).await;
        let renewed = renewed.map_err(|error| self.judged(&member.session, &error))?;
        let valid_until = member.membership.valid_until_as_answered(sent, renewed.valid_ms);
        let ended = match renewed.ended.clone() {
            Some(ended) => self.without_our_own(&member, leases, ended).await?,
            None => self.losses_by_list(&member, leases).await?,
        };
        let lost = self.take_in(&renewed, ended, leases, valid_until)?;
        Ok(Renewal { valid_until: Some(valid_until), lost })
    }

    async fn observe(&self, _targets: &[TargetName]) -> Result<View, StoreError> {
        self.feed.start();
        let member = self.inner().member.clone();
        let limit = member.as_ref().map_or(READING_LIMIT, |member| member.membership.call_timeout);
        match tokio::time::timeout(limit, self.feed.ready()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(understood(&error)),
            Err(_) => return Err(silent()),
        }
        let own = member.as_ref().map(|member| (&member.membership.instance, member.session.as_str()));
        Ok(self.feed.with_book(|book| book.view(own)))
    }

    async fn changed(&self) {
        self.feed.changed().await;
    }

    async fn acquire(&self, wanted: &[Wanted]) -> Result<Vec<Outcome<HeldTarget>>, StoreError> {
        let member = self.member()?;
        let answers =
            each(&self.client, member.membership.call_timeout, wanted.to_vec(), |client, wanted| {
                let (session, group) = (member.session.clone(), self.group.clone());
                let holder = member.membership.instance.to_string();
                async move { take(client, &group, holder, session, wanted).await }
            })
            .await;
        let mut outcomes = Vec::with_capacity(wanted.len());
        for (wanted, answer) in wanted.iter().zip(answers) {
            outcomes.push(match answer {
                Some(Ok(lease)) => match self.held_target(&wanted.target, &lease) {
                    Some(held) => Outcome::Done(held),
                    None => Outcome::Rejected("its loss was reported already".to_owned()),
                },
                Some(Err(CallError::Unsendable(why))) => Outcome::InvalidTarget(why),
                Some(Err(error)) => match error.code() {
                    Some(ErrorCode::InvalidName) => Outcome::InvalidTarget(error.to_string()),
                    Some(ErrorCode::SessionNotFound | ErrorCode::SessionExpired) => {
                        return Err(self.judged(&member.session, &error));
                    }
                    Some(_) => Outcome::Rejected(error.to_string()),
                    // If it was done after all, the book will show it.
                    None => Outcome::Unknown(error.to_string()),
                },
                None => Outcome::Unknown("the daemon does not answer".to_owned()),
            });
        }
        all_or_silence(outcomes)
    }

    fn adopt(&self, target: &TargetName, seen: &SeenOwner) -> Option<HeldTarget> {
        let inner = self.inner();
        let member = inner.member.as_ref()?;
        // What an earlier session of ours keeps is renewed by nobody; what a heartbeat told to be lost comes back only by
        // something that happened later.
        let is_ended = member.ended.get(&seen.key.lease_id).is_some_and(|told| seen.key.lsn <= *told);
        if seen.state != HolderState::Active || seen.key.session != member.session || is_ended {
            return None;
        }
        let (fence, key) = (seen.fence?, seen.key.clone());
        Some(HeldTarget { target: target.clone(), fence, valid_until: member.valid_until, key })
    }

    async fn release(&self, leases: &[HeldTarget], reason: ReleaseReason) -> Result<(), StoreError> {
        let limit = self.member()?.membership.call_timeout;
        let answers = each(&self.client, limit, keys(leases), |client, key| async move {
            let call = HolderCall {
                epoch: key.epoch,
                reason: Some(reason.as_str().to_owned()),
                operation_id: Some(operation_id()),
                ..HolderCall::default()
            };
            client.release(&key.lease_id, &call).await.map(drop)
        })
        .await;
        let is_done = |answer: &Option<Result<(), CallError>>| match answer {
            Some(Ok(())) => true,
            Some(Err(error)) => is_gone(error),
            None => false,
        };
        match answers.into_iter().find(|answer| !is_done(answer)) {
            None => Ok(()),
            Some(Some(Err(error))) => Err(StoreError::Unreachable(error.to_string())),
            Some(_) => Err(silent()),
        }
    }

    async fn hand_over(
        &self,
        leases: &[(HeldTarget, SeenMember)],
        _reason: ReleaseReason,
    ) -> Result<Vec<Outcome<()>>, StoreError> {
        let limit = self.member()?.membership.call_timeout;
        let answers = each(&self.client, limit, leases.to_vec(), |client, (lease, to)| {
            hand_over(client, lease.key, to.address)
        })
        .await;
        let outcome = |answer: Option<Result<Lease, CallError>>| match answer {
            Some(Ok(_)) => Outcome::Done(()),
            Some(Err(error)) => match error.code() {
                Some(ErrorCode::SessionNotFound | ErrorCode::SessionExpired) => {
                    Outcome::Declined(error.to_string())
                }
                _ if is_gone(&error) => Outcome::Rejected(error.to_string()),
                _ if error.is_definite() => Outcome::Declined(error.to_string()),
                _ => Outcome::Unknown(error.to_string()),
            },
            None => Outcome::Unknown("it was not sent: the daemon does not answer".to_owned()),
        };
        all_or_silence(answers.into_iter().map(outcome).collect())
    }

    async fn publish_status(&self, status: PollerStatus) -> Result<(), StoreError> {
        let report = self.member()?.report;
        self.tell_all(status, report).await
    }

    async fn report(&self, report: &PollerReport) -> Result<bool, StoreError> {
        let status = self.member()?.status;
        self.tell_all(status, report.clone()).await.map(|()| true)
    }

    async fn leave(&self, leases: &[HeldTarget], window: Option<Duration>) -> Result<(), StoreError> {
        let (member, joining) = {
            let mut inner = self.inner();
            (inner.member.take(), inner.joining.take())
        };
        if let Some(session) = joining {
            // Nothing depends on it: it ends by itself.
            drop(self.close(&session, Duration::from_secs(1)).await);
        }
        let Some(member) = member else {
            return Err(StoreError::NotMember("this poller is not a member of its group".to_owned()));
        };
        let left = match window {
            Some(window) => self.leave_with_window(&member, leases, window).await,
            // The session takes with it what it keeps.
            None => Ok(()),
        };
        let closed = self.close(&member.session, member.membership.call_timeout).await;
        left.and(closed)
    }
}

fn silent() -> StoreError {
    StoreError::Unreachable("the daemon does not answer".to_owned())
}

/// Outcomes of which none is known are none.
fn all_or_silence<T>(outcomes: Vec<Outcome<T>>) -> Result<Vec<Outcome<T>>, StoreError> {
    match outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unknown(_))) {
        true if !outcomes.is_empty() => Err(silent()),
        _ => Ok(outcomes),
    }
}
