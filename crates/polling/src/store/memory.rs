//! A store within one process, for tests and for programs that run alone. It does not survive the process.

use super::{
    HeldTarget, HolderState, LeaseKey, Loss, Membership, Outcome, ReleaseReason, Renewal, SeenMember,
    SeenOwner, Store, StoreError, TargetName, View, Wanted,
};
use crate::instance::Instance;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_api::PollerStatus;
use tenure_client::clock::{BootInstant, wait_until};
use tokio::sync::watch;

/// A group within this process. Clone it for each poller.
pub struct MemoryStore {
    group: Arc<Group>,
    membership: Mutex<Option<Membership>>,
    seen: Mutex<watch::Receiver<u64>>,
}

struct Group {
    name: String,
    world: Mutex<World>,
    generation: watch::Sender<u64>,
}

#[derive(Default)]
struct World {
    members: BTreeMap<Instance, Member>,
    holds: BTreeMap<TargetName, Hold>,
    last_fence: u64,
    deaths: u64,
}

struct Member {
    weight: u32,
    status: PollerStatus,
    proven_at: BootInstant,
    ends_at: BootInstant,
}

struct Hold {
    instance: Instance,
    fence: u64,
    ends_at: BootInstant,
}

impl MemoryStore {
    /// Creates an empty group with this name.
    #[must_use]
    pub fn new(group: impl Into<String>) -> Self {
        let name = group.into();
        let group = Group { name, world: Mutex::default(), generation: watch::Sender::new(0) };
        Self::of(Arc::new(group))
    }

    fn of(group: Arc<Group>) -> Self {
        let seen = Mutex::new(group.generation.subscribe());
        Self { group, membership: Mutex::default(), seen }
    }

    fn membership(&self) -> Result<Membership, StoreError> {
        let membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        membership.clone().ok_or_else(|| StoreError::NotMember("not a member".to_owned()))
    }

    /// Does something with what is so now, and tells the others.
    fn change<T>(&self, change: impl FnOnce(&mut World, BootInstant) -> T) -> T {
        let now = BootInstant::now();
        let changed = change(&mut self.group.now(now), now);
        self.group.generation.send_modify(|generation| *generation += 1);
        changed
    }

    /// The same for a member alone.
    fn change_as_member<T>(
        &self,
        change: impl FnOnce(&mut World, &Membership, BootInstant) -> T,
    ) -> Result<T, StoreError> {
        let membership = self.membership()?;
        self.change(|world, now| {
            if !world.members.contains_key(&membership.instance) {
                return Err(StoreError::NotMember("the membership is over".to_owned()));
            }
            Ok(change(world, &membership, now))
        })
    }
}

impl Group {
    fn now(&self, now: BootInstant) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let before = world.members.len();
        world.members.retain(|_, member| member.ends_at > now || member.status == PollerStatus::Absent);
        world.deaths += (before - world.members.len()) as u64;
        world.members.retain(|_, member| member.ends_at > now);
        world.holds.retain(|_, hold| hold.ends_at > now);
        world
    }
}

impl World {
    fn fence(&mut self) -> u64 {
        self.last_fence += 1;
        self.last_fence
    }

    fn is_held(&self, lease: &HeldTarget, membership: &Membership) -> bool {
        let is_it = |hold: &Hold| hold.instance == membership.instance && hold.fence == lease.fence;
        self.holds.get(&lease.target).is_some_and(is_it)
    }

    /// Another run under the same name that may live, and until when.
    fn namesake(&self, instance: &Instance) -> Option<(Instance, BootInstant)> {
        let is_it = |other: &&Instance| *other != instance && other.name() == instance.name();
        let other = self.members.keys().find(is_it)?;
        Some((other.clone(), self.members[other].ends_at))
    }
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        Self::of(self.group.clone())
    }
}

impl Store for MemoryStore {
    fn group(&self) -> &str {
        &self.group.name
    }

    async fn join(&self, membership: &Membership) -> Result<(), StoreError> {
        let mut waited_for: Option<Instance> = None;
        loop {
            let rival = self.change(|world, now| {
                let rival = world.namesake(&membership.instance).filter(|(other, _)| !other.is_absent());
                if rival.is_none() {
                    world.members.remove(&Instance::absent(membership.instance.name()));
                    let member = Member {
                        weight: membership.weight,
                        status: PollerStatus::Online,
                        proven_at: now.after(membership.ttl),
                        ends_at: now.after(membership.ttl),
                    };
                    world.members.insert(membership.instance.clone(), member);
                }
                rival
            });
            let Some((other, ends_at)) = rival else { break };
            if waited_for.is_some() {
                return Err(StoreError::NameTaken(format!("{other} lives")));
            }
            waited_for = Some(other);
            wait_until(ends_at).await;
        }
        *self.membership.lock().unwrap_or_else(PoisonError::into_inner) = Some(membership.clone());
        Ok(())
    }

    async fn renew(&self, leases: &[HeldTarget]) -> Result<Renewal, StoreError> {
        let membership = self.membership()?;
        let now = BootInstant::now();
        let mut world = self.group.now(now);
        let ends_at = now.after(membership.ttl);
        let Some(member) = world.members.get_mut(&membership.instance) else {
            return Err(StoreError::NotMember("the membership is over".to_owned()));
        };
        member.ends_at = ends_at;
        let mut lost = Vec::new();
        for lease in leases {
            match world.holds.get_mut(&lease.target) {
                Some(hold) if hold.instance == membership.instance && hold.fence == lease.fence => {
                    hold.ends_at = ends_at;
                }
                _ => lost.push(Loss {
                    target: lease.target.clone(),
                    fence: lease.fence,
                    reason: "not held any more".to_owned(),
                }),
            }
        }
        Ok(Renewal { valid_until: Some(membership.valid_until(now)), lost })
    }

    async fn observe(&self, _targets: &[TargetName]) -> Result<View, StoreError> {
        let generation = *self.seen.lock().unwrap_or_else(PoisonError::into_inner).borrow_and_update();
        let now = BootInstant::now();
        let world = self.group.now(now);
        let member = |(instance, member): (&Instance, &Member)| SeenMember {
            instance: instance.clone(),
            weight: member.weight,
            status: member.status,
            is_new: now < member.proven_at,
            address: String::new(),
            takes_handovers: true,
        };
        let owner = |(target, hold): (&TargetName, &Hold)| {
            let seen = SeenOwner {
                instance: hold.instance.clone(),
                fence: Some(hold.fence),
                ends_at: Some(hold.ends_at),
                state: if hold.instance.is_absent() { HolderState::Reserved } else { HolderState::Active },
                key: LeaseKey::default(),
                acquired_at: None,
                renewed_at: None,
            };
            (target.clone(), seen)
        };
        Ok(View {
            members: world.members.iter().map(member).collect(),
            owners: world.holds.iter().map(owner).collect(),
            pins: BTreeMap::new(),
            generation,
            as_of: 0,
            deaths: world.deaths,
            read_again_at: world.members.values().map(|member| member.ends_at).min(),
        })
    }

    async fn changed(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The sender lives as long as the group.
        let _ = seen.changed().await;
    }

    async fn acquire(&self, wanted: &[Wanted]) -> Result<Vec<Outcome<HeldTarget>>, StoreError> {
        self.change_as_member(|world, membership, now| {
            let mut take = |wanted: &Wanted| {
                let is_left = |hold: &Hold| wanted.reserved.is_some() && hold.instance.is_absent();
                match world.holds.get(&wanted.target) {
                    Some(hold) if !is_left(hold) => Outcome::Rejected(format!("{} holds it", hold.instance)),
                    _ => Outcome::Done(hold(world, &wanted.target, membership, now)),
                }
            };
            wanted.iter().map(&mut take).collect()
        })
    }

    fn adopt(&self, target: &TargetName, seen: &SeenOwner) -> Option<HeldTarget> {
        let membership = self.membership().ok()?;
        let valid_until = seen.ends_at?.before(membership.margin());
        Some(HeldTarget { target: target.clone(), fence: seen.fence?, valid_until, key: LeaseKey::default() })
    }

    async fn release(&self, leases: &[HeldTarget], _reason: ReleaseReason) -> Result<(), StoreError> {
        self.change_as_member(|world, membership, _| {
            for lease in leases {
                if world.is_held(lease, membership) {
                    world.holds.remove(&lease.target);
                }
            }
        })
    }

    async fn hand_over(
        &self,
        leases: &[(HeldTarget, SeenMember)],
        _reason: ReleaseReason,
    ) -> Result<Vec<Outcome<()>>, StoreError> {
        self.change_as_member(|world, membership, now| {
            let mut give = |(lease, to): &(HeldTarget, SeenMember)| {
                if !world.is_held(lease, membership) {
                    return Outcome::Rejected("it is not held any more".to_owned());
                }
                let Some(member) = world.members.get(&to.instance) else {
                    return Outcome::Declined(format!("{} is not a member", to.instance));
                };
                // No longer than its membership.
                let ttl = membership.ttl.min(member.ends_at.since(now));
                let receiver = Membership { instance: to.instance.clone(), ttl, ..membership.clone() };
                hold(world, &lease.target, &receiver, now);
                Outcome::Done(())
            };
            leases.iter().map(&mut give).collect()
        })
    }

    async fn publish_status(&self, status: PollerStatus) -> Result<(), StoreError> {
        let membership = self.membership()?;
        self.change(|world, _| {
            if let Some(member) = world.members.get_mut(&membership.instance) {
                member.status = status;
            }
        });
        Ok(())
    }

    async fn leave(&self, leases: &[HeldTarget], window: Option<Duration>) -> Result<(), StoreError> {
        let membership = self.membership()?;
        self.change(|world, now| {
            world.members.remove(&membership.instance);
            let held: Vec<&HeldTarget> =
                leases.iter().filter(|lease| world.is_held(lease, &membership)).collect();
            for lease in &held {
                world.holds.remove(&lease.target);
            }
            let Some(ttl) = window else { return };
            let instance = Instance::absent(membership.instance.name());
            let absent = Membership { instance: instance.clone(), ttl, ..membership.clone() };
            for lease in held {
                hold(world, &lease.target, &absent, now);
            }
            let member = Member {
                weight: membership.weight,
                status: PollerStatus::Absent,
                proven_at: now,
                ends_at: now.after(ttl),
            };
            world.members.insert(instance, member);
        });
        *self.membership.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

fn hold(world: &mut World, target: &TargetName, membership: &Membership, now: BootInstant) -> HeldTarget {
    let fence = world.fence();
    let ends_at = now.after(membership.ttl);
    world.holds.insert(target.clone(), Hold { instance: membership.instance.clone(), fence, ends_at });
    HeldTarget {
        target: target.clone(),
        fence,
        valid_until: membership.valid_until(now),
        key: LeaseKey::default(),
    }
}
