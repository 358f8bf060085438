//! The leases of a group as the daemon tells of them: a list, then every change. Pure.

use crate::instance::Instance;
use crate::store::{HolderState, LeaseKey, SeenMember, SeenOwner, TargetName, View};
use std::collections::{BTreeMap, HashMap};
use tenure_api::{
    DrainCause, Event, EventKind, EventLease, Lease, PollName, PollerFacts, PollerStatus, State,
};

/// Reason of a lease whose session was silent for too long.
const SESSION_EXPIRED: &str = "session_expired";

/// What is known of a group.
#[derive(Default)]
pub(super) struct Book {
    leases: BTreeMap<PollName, Entry>,
    names: HashMap<String, PollName>,
    /// Everything up to here is in it.
    lsn: u64,
    /// Position of the last change that concerned the group.
    generation: u64,
    /// Members whose time was over.
    deaths: u64,
}

struct Entry {
    lease_id: String,
    holder: String,
    session: String,
    epoch: u64,
    fence: u64,
    attachment: serde_json::Value,
    granted_at: Option<String>,
    /// Whether its holder may act: not once it was revoked, nor while an operator drains it.
    has_authority: bool,
    /// Listed as of here, or changed here: earlier events are in it already.
    as_of: u64,
}

impl Book {
    pub(super) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Takes in a lease of a list.
    pub(super) fn list(&mut self, lease: Lease) {
        let Some(name) = name_of(&lease.resources) else { return };
        self.generation = self.generation.max(lease.lsn);
        self.enter(
            name,
            Entry {
                lease_id: lease.lease_id,
                holder: lease.holder,
                session: lease.session.unwrap_or_default(),
                epoch: lease.epoch,
                fence: lease.fence,
                attachment: lease.attachment.unwrap_or_default(),
                granted_at: Some(lease.granted_at),
                has_authority: lease.state == State::Active
                    && lease.drain_cause != Some(DrainCause::Operator),
                as_of: lease.lsn,
            },
        );
    }

    /// The list was begun as of here; what the book before it counted stays counted.
    pub(super) fn listed(&mut self, lsn: u64, before: &Self) {
        self.lsn = lsn;
        self.deaths = before.deaths;
    }

    /// Takes in what happened. Whether anything changed.
    pub(super) fn follow(&mut self, event: Event) -> bool {
        self.lsn = self.lsn.max(event.lsn);
        let Some(lease) = event.lease else { return false };
        let known = self.names.get(&lease.lease_id).cloned();
        let name = known.or_else(|| name_of(lease.resources.as_deref().unwrap_or_default()));
        let Some(name) = name else { return false };
        let entry = self.leases.get_mut(&name).filter(|entry| entry.lease_id == lease.lease_id);
        if entry.as_ref().is_some_and(|entry| event.lsn <= entry.as_of) {
            return false;
        }
        // Told when authority is withdrawn, and once more when the name is free.
        let is_death = |entry: &Entry| {
            entry.has_authority
                && matches!(name, PollName::Poller(_))
                && lease.reason.as_deref() == Some(SESSION_EXPIRED)
                && !Instance::from_text(&entry.holder).is_absent()
        };
        self.deaths += u64::from(entry.as_deref().is_some_and(is_death));
        match (event.kind, entry) {
            (EventKind::Granted, _) => self.enter(name, fresh(lease, event.lsn)),
            (EventKind::Released | EventKind::Expired | EventKind::Reclaimed, Some(_)) => {
                self.names.remove(&lease.lease_id);
                self.leases.remove(&name);
            }
            (EventKind::Rebound, Some(entry)) => {
                entry.update(lease, event.lsn);
                entry.has_authority = true;
            }
            (EventKind::Amended, Some(entry)) => entry.update(lease, event.lsn),
            (EventKind::Revoked, Some(entry)) => {
                entry.update(lease, event.lsn);
                entry.has_authority = false;
            }
            (EventKind::Draining, Some(entry)) if lease.drain_cause == Some(DrainCause::Operator) => {
                entry.has_authority = false;
            }
            (EventKind::Revived, Some(entry)) => entry.has_authority = true,
            _ => return false,
        }
        self.generation = self.generation.max(event.lsn);
        true
    }

    fn enter(&mut self, name: PollName, entry: Entry) {
        self.names.insert(entry.lease_id.clone(), name.clone());
        if let Some(before) = self.leases.insert(name, entry) {
            let is_gone = self.leases.values().all(|entry| entry.lease_id != before.lease_id);
            if is_gone {
                self.names.remove(&before.lease_id);
            }
        }
    }

    /// What is known, as the poller sees it whose session this is.
    pub(super) fn view(&self, own: Option<(&Instance, &str)>) -> View {
        let (generation, as_of, deaths) = (self.generation, self.lsn, self.deaths);
        let mut view = View { generation, as_of, deaths, ..View::default() };
        for (name, entry) in &self.leases {
            match name {
                PollName::Target(target) => {
                    view.owners.insert(TargetName::from(target.as_str()), entry.owner(own));
                }
                PollName::Poller(_) if entry.has_authority => view.members.extend(entry.member()),
                PollName::Pin(target) => {
                    let poller = entry.attachment.get("poller").and_then(|poller| poller.as_str());
                    if let Some(poller) = poller {
                        view.pins.insert(TargetName::from(target.as_str()), poller.to_owned());
                    }
                }
                PollName::Poller(_) | PollName::Cordon(_) => {}
            }
        }
        for member in &mut view.members {
            let cordon = PollName::Cordon(member.instance.name().to_owned());
            if self.leases.contains_key(&cordon) {
                member.status = PollerStatus::Cordoned;
            }
        }
        view
    }
}

impl Entry {
    fn update(&mut self, lease: EventLease, lsn: u64) {
        self.as_of = lsn;
        self.holder = lease.holder.unwrap_or_else(|| core::mem::take(&mut self.holder));
        self.session = lease.session.unwrap_or_else(|| core::mem::take(&mut self.session));
        self.epoch = lease.epoch.unwrap_or(self.epoch);
        self.fence = lease.fence.unwrap_or(self.fence);
        self.attachment = lease.attachment.unwrap_or_else(|| core::mem::take(&mut self.attachment));
    }

    fn owner(&self, own: Option<(&Instance, &str)>) -> SeenOwner {
        let instance = Instance::from_text(&self.holder);
        let is_of_earlier_session =
            own.is_some_and(|(me, session)| *me == instance && session != self.session);
        SeenOwner {
            state: match self.has_authority {
                false => HolderState::Ending,
                true if instance.is_absent() || is_of_earlier_session => HolderState::Reserved,
                true => HolderState::Active,
            },
            instance,
            fence: Some(self.fence),
            ends_at: None,
            key: LeaseKey {
                lease_id: self.lease_id.clone(),
                epoch: self.epoch,
                session: self.session.clone(),
                lsn: self.as_of,
            },
            acquired_at: self.granted_at.clone(),
            renewed_at: None,
        }
    }

    /// `None` if whoever took the name is no poller.
    fn member(&self) -> Option<SeenMember> {
        let facts: PollerFacts = serde_json::from_value(self.attachment.clone()).ok()?;
        Some(SeenMember {
            instance: Instance::from_text(&self.holder),
            weight: facts.weight,
            status: facts.status,
            is_new: facts.is_new,
            address: self.session.clone(),
            takes_handovers: !self.session.is_empty(),
        })
    }
}

fn fresh(lease: EventLease, lsn: u64) -> Entry {
    Entry {
        lease_id: lease.lease_id,
        holder: lease.holder.unwrap_or_default(),
        session: lease.session.unwrap_or_default(),
        epoch: lease.epoch.unwrap_or(1),
        fence: lease.fence.unwrap_or(0),
        attachment: lease.attachment.unwrap_or_default(),
        granted_at: lease.granted_at,
        has_authority: true,
        as_of: lsn,
    }
}

/// Pollers take one name per lease; a bundle over several is somebody else's.
fn name_of(resources: &[String]) -> Option<PollName> {
    let [resource] = resources else { return None };
    PollName::of_resource(resource).map(|(_, name)| name)
}
