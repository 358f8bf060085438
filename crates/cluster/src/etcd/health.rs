//! How the members of an etcd are, for operators and for the checks at start. Nothing here decides anything.

use super::EtcdStore;
use super::link::{Failure, Link};
use super::links::{Call, Links, Sent, refused};
use super::metrics::Metrics;
use super::upkeep::{
    AlarmRequest, AlarmResponse, MemberListRequest, MemberListResponse, MemberListed, StatusRequest,
    StatusResponse,
};
use crate::store::StoreError;
use std::sync::Arc;
use std::time::Duration;

/// A member as etcd lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// etcd writes it in hexadecimal digits.
    pub id: u64,
    /// What it was named; empty until it was started for the first time.
    pub name: String,
    /// Where it says it can be asked, each `HOST:PORT`. It may say anything.
    pub addresses: Vec<String>,
    /// Follows, and does not vote.
    pub is_learner: bool,
}

/// What one member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Who it is.
    pub member_id: u64,
    /// How far it has come: what it has applied itself.
    pub revision: u64,
    /// Its release.
    pub version: String,
    /// What its store takes on disk, and what counts for the quota.
    pub db_bytes: u64,
    /// What of it is in use; the rest a defragmentation gives back.
    pub db_bytes_in_use: u64,
    /// Who leads, as far as it knows; `None`: nobody.
    pub leader_id: Option<u64>,
    /// Whether it leads itself.
    pub is_leader: bool,
    /// Rises with each election.
    pub raft_term: u64,
    /// What it complains about.
    pub errors: Vec<String>,
    /// How large its store may grow; `None`: a release that does not say here.
    pub quota_bytes: Option<u64>,
}

/// Something that etcd wants an operator to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmKind {
    /// Its store is full: nothing can be put.
    NoSpace,
    /// Members differ.
    Corrupt,
    /// One this program does not know.
    Other(i32),
}

/// An alarm, and which member raised it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Who raised it.
    pub member_id: u64,
    /// What it is about.
    pub kind: AlarmKind,
}

/// One member in a survey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// As the others list it.
    pub member: Member,
    /// `None`: it could not be asked.
    pub status: Option<MemberStatus>,
    /// `None`: they could not be had.
    pub metrics: Option<Metrics>,
    /// What it raised.
    pub alarms: Vec<AlarmKind>,
}

impl EtcdStore {
    /// Who the members are.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn members(&self, within: Duration) -> Result<Vec<Member>, StoreError> {
        let links = Arc::clone(&self.links);
        self.thread.wait(async move { members(&links, within).await })
    }

    /// What the member at this address says of itself, one of the endpoints or any other.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn status(&self, address: &str, within: Duration) -> Result<MemberStatus, StoreError> {
        let (links, elsewhere) = (Arc::clone(&self.links), self.link_elsewhere(address)?);
        let address = address.to_owned();
        self.thread.wait(async move {
            let known = links.all().iter().find(|link| link.address() == address);
            status(&links, known.unwrap_or(&elsewhere), within).await
        })
    }

    /// Which alarms there are.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn alarms(&self, within: Duration) -> Result<Vec<Alarm>, StoreError> {
        let links = Arc::clone(&self.links);
        self.thread.wait(async move { alarms(&links, within).await })
    }

    /// The metrics of the member at this address; `None` if they cannot be had.
    #[must_use]
    pub fn metrics(&self, address: &str, within: Duration) -> Option<Metrics> {
        let (reader, address) = (self.reader.clone(), address.to_owned());
        self.thread.wait(async move { reader.read(&address, within).await })
    }

    /// Asks every member how it is: through the endpoints, and those none of them leads to where they say they are.
    /// Each of its four steps may take as long as given.
    ///
    /// # Errors
    /// When nobody says who the members are.
    pub fn survey(&self, within: Duration) -> Result<Vec<Surveyed>, StoreError> {
        let listed = self.members(within)?;
        let alarms = self.alarms(within)?;
        let mut asked = self.ask_each(self.endpoints().to_vec(), within);
        let missing = |member: &&Member| asked.iter().all(|(status, _)| status.member_id != member.id);
        let rest = listed.iter().filter(missing).flat_map(|member| member.addresses.clone()).collect();
        let answers = self.ask_each(rest, within);
        asked.extend(answers);
        let survey = listed.into_iter().map(|member| {
            let found = asked.iter().find(|(status, _)| status.member_id == member.id);
            let raised = alarms.iter().filter(|alarm| alarm.member_id == member.id);
            Surveyed {
                status: found.map(|(status, _)| status.clone()),
                metrics: found.and_then(|(_, metrics)| *metrics),
                alarms: raised.map(|alarm| alarm.kind).collect(),
                member,
            }
        });
        Ok(survey.collect())
    }

    /// Asks all of these at once; who does not answer is left out.
    fn ask_each(&self, addresses: Vec<String>, within: Duration) -> Vec<(MemberStatus, Option<Metrics>)> {
        let asking = addresses.into_iter().filter_map(|address| {
            let (links, reader) = (Arc::clone(&self.links), self.reader.clone());
            // What a member says of where it is may be nonsense.
            let elsewhere = self.link_elsewhere(&address).ok()?;
            Some(async move {
                let known = links.all().iter().find(|link| link.address() == address);
                let status = status(&links, known.unwrap_or(&elsewhere), within).await.ok()?;
                Some((status, reader.read(&address, within).await))
            })
        });
        let asking: Vec<_> = asking.collect();
        self.thread.wait(async move {
            let tasks: Vec<_> = asking.into_iter().map(tokio::spawn).collect();
            let mut answers = Vec::with_capacity(tasks.len());
            for task in tasks {
                answers.extend(task.await.ok().flatten());
            }
            answers
        })
    }

    fn link_elsewhere(&self, address: &str) -> Result<Link, StoreError> {
        Link::new(address, self.tls.as_ref())
            .map_err(|why| StoreError::Refused { why: format!("{address}: {why}"), no_space: false })
    }
}

async fn members(links: &Links, within: Duration) -> Result<Vec<Member>, StoreError> {
    let call = Call { path: "/etcdserverpb.Cluster/MemberList", sent: Sent::AsOftenAsItTakes, within };
    let listed: MemberListResponse = links.ask(call, MemberListRequest {}).await?;
    Ok(listed.members.into_iter().map(Member::from).collect())
}

async fn alarms(links: &Links, within: Duration) -> Result<Vec<Alarm>, StoreError> {
    let call = Call { path: "/etcdserverpb.Maintenance/Alarm", sent: Sent::AsOftenAsItTakes, within };
    let raised: AlarmResponse = links.ask(call, AlarmRequest {}).await?;
    let alarm = |alarm: &super::upkeep::AlarmMember| {
        let kind = match alarm.alarm {
            1 => AlarmKind::NoSpace,
            2 => AlarmKind::Corrupt,
            other => AlarmKind::Other(other),
        };
        Alarm { member_id: alarm.member_id, kind }
    };
    Ok(raised.alarms.iter().map(alarm).collect())
}

async fn status(links: &Links, link: &Link, within: Duration) -> Result<MemberStatus, StoreError> {
    let call = Call { path: "/etcdserverpb.Maintenance/Status", sent: Sent::AsOftenAsItTakes, within };
    match links.ask_one::<_, StatusResponse>(link, call, within, StatusRequest {}).await {
        Ok(status) => Ok(status.into()),
        Err(Failure::Refused(status)) => Err(refused(link, &status)),
        Err(Failure::Unsent(why) | Failure::Unanswered(why)) => Err(StoreError::Unanswered { why }),
    }
}

impl From<StatusResponse> for MemberStatus {
    fn from(status: StatusResponse) -> Self {
        let (member_id, revision) =
            status.header.map_or((0, 0), |header| (header.member_id, header.revision.unsigned_abs()));
        let leader_id = (status.leader != 0).then_some(status.leader);
        Self {
            member_id,
            revision,
            version: status.version,
            db_bytes: status.db_size.unsigned_abs(),
            db_bytes_in_use: status.db_size_in_use.unsigned_abs(),
            leader_id,
            is_leader: leader_id == Some(member_id),
            raft_term: status.raft_term,
            errors: status.errors,
            quota_bytes: (status.db_size_quota > 0).then_some(status.db_size_quota.unsigned_abs()),
        }
    }
}

impl From<MemberListed> for Member {
    fn from(listed: MemberListed) -> Self {
        let addresses = listed.client_urls.iter().filter_map(|url| url.split_once("://"));
        Self {
            id: listed.id,
            name: listed.name,
            addresses: addresses.map(|(_, address)| address.trim_end_matches('/').to_owned()).collect(),
            is_learner: listed.is_learner,
        }
    }
}
