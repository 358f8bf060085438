//! Every rule. `decide` reads all and changes nothing: the answer is one event, the outcome an earlier try
//! had, or one rejection. The order of the checks is part of the contract.

use crate::command::{Action, Amend, Bundle, Command, Grant, Internal, Member, OpenSession, Rebind};
use crate::command::{Reclaim, Release, Revoke, Start, Steer, Token};
use crate::event::{Amended, Change, Epitaph, Event, Expired, Granted, Names, Rebound, Reclaimed};
use crate::event::{Released, Revoked, Steered};
use crate::ids::{Epoch, LeaseId, Stamp, Tick};
use crate::kernel::Kernel;
use crate::lease::{Lease, LeaseState};
use crate::limits::{ALTERNATIVES_MAX, ATTACHMENT_BYTES_MAX, BUNDLE_MEMBERS_MAX, HOLDER_BYTES_MAX};
use crate::limits::{
    NAME_BYTES_MAX, POOL_SIZE_MAX, PRINCIPAL_BYTES_MAX, REASON_TEXT_BYTES_MAX, RESERVE_MS_MAX,
};
use crate::names::{NameFault, REGISTRATIONS_PREFIX, Text, check_name, pool_member, split_pool_member};
use crate::operations::Replay;
use crate::planted::{Planted, planted};
use crate::policy::{Face, Policy};
use crate::reason::{Actor, Reason};
use crate::rejection::{Capacity, Field, Held, Rejection};
use crate::retained::EndedLease;
use crate::view::Found;

/// What an accepted command comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It happens: log this, then `evolve` with it.
    Event(Event),
    /// It happened before, under the same operation id. Nothing is to be logged.
    Replay(Replay),
}

/// A lease as the check chain meets it.
struct Authority<'a> {
    id: LeaseId,
    lease: &'a Lease,
}

impl Kernel {
    /// Decides one command. Reads everything, changes nothing.
    ///
    /// # Errors
    /// The first rule in contract order that refuses the command.
    pub fn decide(&self, at: Stamp, command: &Command) -> Result<Decision, Rejection> {
        assert!(at.lsn > self.applied.lsn && at.tick >= self.applied.tick, "invariant: stamps rise");
        if let Some(operation) = &command.operation {
            if let Some(replay) = self.replay(operation, at.tick)? {
                return Ok(Decision::Replay(replay.clone()));
            }
            bounded(operation.principal.len(), PRINCIPAL_BYTES_MAX, Field::Principal)?;
        }
        let change = match &command.action {
            Action::Grant(grant) => self.decide_grant(at, grant)?,
            Action::Activate(token) => self.decide_activate(at, token)?,
            Action::Release(release) => self.decide_release(at, release)?,
            Action::Rebind(rebind) => self.decide_rebind(at, rebind)?,
            Action::Amend(amend) => self.decide_amend(at, amend)?,
            Action::Revoke(revoke) => self.decide_revoke(at, revoke)?,
            Action::Reclaim(reclaim) => self.decide_reclaim(at, reclaim)?,
            Action::Drain(steer) => self.decide_drain(at, steer)?,
            Action::Revive(steer) => self.decide_revive(at, steer)?,
            Action::DefinePool { name, size } => self.decide_define_pool(name, *size)?,
            Action::RemovePool { name, force } => self.decide_remove_pool(name, *force)?,
            Action::OpenSession(open) => self.decide_open_session(open)?,
            Action::CloseSession { session, reason } => match self.session(*session) {
                Some(open) if open.closed().is_none() => {
                    Change::SessionClosed { session: *session, reason: *reason }
                }
                Some(_) | None => return Err(Rejection::SessionNotFound { session: *session }),
            },
        };
        Ok(Decision::Event(Event { operation: command.operation.clone(), change }))
    }

    /// Decides what only the engine can say. `None`: there is nothing to do.
    #[must_use]
    pub fn decide_internal(&self, at: Stamp, command: &Internal) -> Option<Event> {
        let change = match command {
            Internal::Expire(lease) => {
                let slot = self.slot_of(*lease)?;
                let lease = &self.leases[slot];
                match &lease.state {
                    LeaseState::Reserved { deadline } => {
                        if at.tick < *deadline && !planted(Planted::ExpireIgnoresDeadline) {
                            return None;
                        }
                        Change::Expired(Expired { was: self.epitaph(lease, lease.epoch.next()) })
                    }
                    LeaseState::Active { .. } | LeaseState::Revoking(_) => return None,
                }
            }
            Internal::Notified(lease) => {
                self.notices.get(lease)?;
                Change::Notified { lease: *lease }
            }
            Internal::Trim(below) => {
                if *below <= self.retained.trimmed_below {
                    return None;
                }
                Change::Trimmed { below: *below }
            }
            Internal::Configure(retention) => {
                if *retention == self.retention {
                    return None;
                }
                Change::Configured(*retention)
            }
        };
        Some(Event { operation: None, change })
    }

    fn decide_grant(&self, at: Stamp, grant: &Grant) -> Result<Change, Rejection> {
        check_payload(Some(&grant.attachment), Some(&grant.face_data))?;
        check_holder(&grant.holder)?;
        bounded(grant.policy.principal.len(), PRINCIPAL_BYTES_MAX, Field::Principal)?;
        let bundles = || core::iter::once(&grant.bundle).chain(&grant.alternatives);
        bundles().try_for_each(check_bundle_size)?;
        if grant.alternatives.len() > ALTERNATIVES_MAX {
            return Err(Rejection::BundleTooLarge);
        }
        bundles().try_for_each(|bundle| check_bundle_names(bundle, grant.policy.face))?;
        bundles().try_for_each(check_bundle_distinct)?;
        let deadline = match grant.start {
            Start::Active => None,
            Start::Reserved { ttl_ms } if (1..=RESERVE_MS_MAX).contains(&ttl_ms) => {
                Some(at.tick.after_ms(ttl_ms))
            }
            Start::Reserved { .. } => return Err(Rejection::TtlOutOfRange),
        };
        bundles().try_for_each(|bundle| self.check_bundle_pools(bundle))?;
        self.check_session(&grant.policy)?;

        if let Some(rebound) = self.take_over(grant)? {
            return Ok(Change::Rebound(rebound));
        }
        let members = match self.resolve(&grant.bundle) {
            Ok(members) => members,
            Err(rejection) => {
                grant.alternatives.iter().find_map(|bundle| self.resolve(bundle).ok()).ok_or(rejection)?
            }
        };
        self.check_capacity(grant)?;
        Ok(Change::Granted(Granted {
            holder: grant.holder.clone(),
            members,
            deadline,
            policy: grant.policy.clone(),
            face_data: grant.face_data.clone(),
            attachment: grant.attachment.clone(),
            wall_ms: grant.wall_ms,
        }))
    }

    /// The draining lease named by the caller, rebound, if it is in use and covers the bundle.
    fn take_over(&self, grant: &Grant) -> Result<Option<Rebound>, Rejection> {
        let Some(view) = grant.take_over.and_then(|lease| self.live(lease)) else { return Ok(None) };
        match view.state() {
            LeaseState::Active { .. } => {}
            LeaseState::Reserved { .. } | LeaseState::Revoking(_) => return Ok(None),
        }
        let covers = grant.bundle.members.iter().all(|member| match member {
            Member::Resource(name) => view.members().any(|held| held == name),
            Member::AnyOf { .. } => false,
        });
        if !covers {
            return Ok(None);
        }
        let face_data = (!grant.face_data.is_empty()).then(|| grant.face_data.clone());
        self.check_new_principal(view.record(), &grant.policy)?;
        self.check_new_payload(view.record(), Some(&grant.attachment), face_data.as_deref())?;
        Ok(Some(Rebound {
            lease: view.id(),
            epoch: view.epoch().next(),
            holder: grant.holder.clone(),
            policy: Some(grant.policy.clone()),
            attachment: Some(grant.attachment.clone()),
            face_data,
            taken_over: true,
        }))
    }

    /// The resources a bundle comes to, if all are available.
    fn resolve(&self, bundle: &Bundle) -> Result<Names, Rejection> {
        let mut names = Names::with_capacity(bundle.members.len());
        for member in &bundle.members {
            match member {
                Member::Resource(name) => {
                    if let Some(view) = self.covering(name) {
                        return Err(Rejection::ResourceHeld(Held {
                            resource: name.clone(),
                            lease: view.id(),
                            holder: view.holder().clone(),
                            since: view.granted_tick(),
                        }));
                    }
                    names.push(name.clone());
                }
                Member::AnyOf { pool, count } => self.choose(bundle, pool, *count, &mut names)?,
            }
        }
        Ok(names)
    }

    /// Takes the lowest free members of a pool, leaving alone those the bundle names itself.
    fn choose(&self, bundle: &Bundle, pool: &Text, count: u32, names: &mut Names) -> Result<(), Rejection> {
        let named = |number: u32| {
            bundle.members.iter().any(|member| match member {
                Member::Resource(name) => split_pool_member(name) == Some((pool, number)),
                Member::AnyOf { .. } => false,
            })
        };
        let found = self.pools[pool].free.iter().filter(|number| !named(*number)).take(count as usize);
        let before = names.len();
        names.extend(found.map(|number| pool_member(pool, number)));
        let free = (names.len() - before) as u32;
        if free < count {
            return Err(Rejection::PoolExhausted { pool: pool.clone(), wanted: count, free });
        }
        Ok(())
    }

    fn check_bundle_pools(&self, bundle: &Bundle) -> Result<(), Rejection> {
        for member in &bundle.members {
            match member {
                Member::Resource(_) => {}
                Member::AnyOf { pool, .. } => {
                    if self.pools.get(pool).is_none_or(|found| found.removed) {
                        return Err(Rejection::PoolNotFound { pool: pool.clone() });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_session(&self, policy: &Policy) -> Result<(), Rejection> {
        match policy.session {
            None => Ok(()),
            Some(session) => match self.session(session) {
                Some(open) if open.closed().is_none() => Ok(()),
                Some(_) | None => Err(Rejection::SessionNotFound { session }),
            },
        }
    }

    fn check_capacity(&self, grant: &Grant) -> Result<(), Rejection> {
        let limits = &self.setup.limits;
        if self.leases.len() as u64 >= limits.leases_max {
            return self.full(Capacity::Leases);
        }
        self.check_principal(&grant.policy.principal)?;
        if grant.policy.notice && self.notices.len() as u64 >= limits.notices_max {
            return self.full(Capacity::Notices);
        }
        let wanted = grant.attachment.len() + grant.face_data.len();
        self.check_payload_capacity(&grant.policy.principal, 0, wanted)
    }

    fn full<T>(&self, capacity: Capacity) -> Result<T, Rejection> {
        Err(Rejection::CapacityExceeded { capacity, max: self.setup.limits.max_of(capacity) })
    }

    /// Whether a principal may hold one lease more.
    fn check_principal(&self, principal: &Text) -> Result<(), Rejection> {
        let held = self.principals.find(principal).map_or(0, |slot| self.principals.uses(slot));
        if u64::from(held) >= self.setup.limits.leases_per_principal_max {
            return self.full(Capacity::LeasesOfPrincipal);
        }
        Ok(())
    }

    /// The same for one that a lease comes to, with what the lease carries.
    fn check_new_principal(&self, lease: &Lease, policy: &Policy) -> Result<(), Rejection> {
        if self.policies.get(lease.policy).principal == policy.principal {
            return Ok(());
        }
        self.check_principal(&policy.principal)?;
        let (stored, carried) = (self.shares.of(&policy.principal).payload_bytes, lease.payload_bytes());
        if carried > 0 && stored + carried > self.setup.limits.attachment_bytes_per_principal_max {
            return self.full(Capacity::AttachmentBytesOfPrincipal);
        }
        Ok(())
    }

    /// Whether a principal may store `wanted` bytes in place of `freed` ones of its own.
    fn check_payload_capacity(&self, principal: &Text, freed: u64, wanted: usize) -> Result<(), Rejection> {
        if wanted == 0 {
            return Ok(());
        }
        let (limits, grows) = (&self.setup.limits, |stored: u64| stored - freed + wanted as u64);
        if grows(self.payload_bytes) > limits.attachment_bytes_max {
            return self.full(Capacity::AttachmentBytes);
        }
        if grows(self.shares.of(principal).payload_bytes) > limits.attachment_bytes_per_principal_max {
            return self.full(Capacity::AttachmentBytesOfPrincipal);
        }
        Ok(())
    }

    fn decide_activate(&self, at: Stamp, token: &Token) -> Result<Change, Rejection> {
        let Authority { id, lease } = self.authority(at.tick, token)?;
        match &lease.state {
            LeaseState::Reserved { deadline } if at.tick >= *deadline => {
                Err(Rejection::DeadlinePassed { deadline: *deadline })
            }
            LeaseState::Reserved { .. } => Ok(Change::Activated { lease: id }),
            LeaseState::Active { .. } | LeaseState::Revoking(_) => invalid(lease),
        }
    }

    fn decide_release(&self, at: Stamp, release: &Release) -> Result<Change, Rejection> {
        bounded(release.text.len(), REASON_TEXT_BYTES_MAX, Field::Text)?;
        let Authority { lease, .. } = self.authority(at.tick, &release.token)?;
        match &lease.state {
            LeaseState::Reserved { .. } | LeaseState::Active { .. } => Ok(Change::Released(Released {
                was: self.epitaph(lease, lease.epoch.next()),
                text: release.text.clone(),
            })),
            LeaseState::Revoking(_) => invalid(lease),
        }
    }

    fn decide_rebind(&self, at: Stamp, rebind: &Rebind) -> Result<Change, Rejection> {
        check_payload(rebind.attachment.as_deref(), rebind.face_data.as_deref())?;
        if let Some(holder) = &rebind.holder {
            check_holder(holder)?;
        }
        let Authority { id, lease } = self.authority(at.tick, &rebind.token)?;
        match &lease.state {
            LeaseState::Active { .. } => {}
            LeaseState::Reserved { .. } | LeaseState::Revoking(_) => return invalid(lease),
        }
        if let Some(policy) = &rebind.policy {
            bounded(policy.principal.len(), PRINCIPAL_BYTES_MAX, Field::Principal)?;
            self.check_session(policy)?;
            self.check_new_principal(lease, policy)?;
        }
        self.check_new_payload(lease, rebind.attachment.as_deref(), rebind.face_data.as_deref())?;
        let epoch = if planted(Planted::RebindKeepsEpoch) { lease.epoch } else { lease.epoch.next() };
        Ok(Change::Rebound(Rebound {
            lease: id,
            epoch,
            holder: rebind.holder.clone().unwrap_or_else(|| self.holders.get(lease.holder).clone()),
            policy: rebind.policy.clone(),
            attachment: rebind.attachment.clone(),
            face_data: rebind.face_data.clone(),
            taken_over: false,
        }))
    }

    fn decide_amend(&self, at: Stamp, amend: &Amend) -> Result<Change, Rejection> {
        check_payload(amend.attachment.as_deref(), amend.face_data.as_deref())?;
        let Authority { id, lease } = self.authority(at.tick, &amend.token)?;
        match &lease.state {
            LeaseState::Reserved { .. } | LeaseState::Active { .. } => {}
            LeaseState::Revoking(_) => return invalid(lease),
        }
        self.check_new_payload(lease, amend.attachment.as_deref(), amend.face_data.as_deref())?;
        Ok(Change::Amended(Amended {
            lease: id,
            attachment: amend.attachment.clone(),
            face_data: amend.face_data.clone(),
        }))
    }

    fn check_new_payload(
        &self,
        lease: &Lease,
        attachment: Option<&[u8]>,
        face_data: Option<&[u8]>,
    ) -> Result<(), Rejection> {
        let wanted =
            attachment.unwrap_or(lease.attachment()).len() + face_data.unwrap_or(lease.face_data()).len();
        let held = lease.payload_bytes();
        // A payload that shrinks is taken even while the limit stands below what is stored.
        if wanted as u64 <= held {
            return Ok(());
        }
        let principal = &self.policies.get(lease.policy).principal;
        self.check_payload_capacity(principal, held, wanted)
    }

    fn decide_revoke(&self, at: Stamp, revoke: &Revoke) -> Result<Change, Rejection> {
        bounded(revoke.text.len(), REASON_TEXT_BYTES_MAX, Field::Text)?;
        check_actor(&revoke.actor)?;
        let lease = self.controlled(at.tick, revoke.lease, revoke.epoch)?;
        match &lease.state {
            LeaseState::Reserved { .. } | LeaseState::Active { .. } => Ok(Change::Revoked(Revoked {
                lease: revoke.lease,
                epoch: lease.epoch.next(),
                reason: revoke.reason,
                text: revoke.text.clone(),
                actor: revoke.actor.clone(),
                evidence: revoke.evidence,
                reclaim_by: revoke.reclaim_by,
            })),
            LeaseState::Revoking(_) => invalid(lease),
        }
    }

    fn decide_reclaim(&self, at: Stamp, reclaim: &Reclaim) -> Result<Change, Rejection> {
        check_actor(&reclaim.actor)?;
        let lease = self.controlled(at.tick, reclaim.lease, reclaim.epoch)?;
        let (reason, text) = match &lease.state {
            LeaseState::Revoking(revocation) => (revocation.reason, revocation.text.clone()),
            LeaseState::Active { .. } if planted(Planted::ReclaimWithoutRevoke) => {
                (Reason::AdminForce, Text::default())
            }
            LeaseState::Reserved { .. } | LeaseState::Active { .. } => return invalid(lease),
        };
        Ok(Change::Reclaimed(Reclaimed {
            was: self.epitaph(lease, lease.epoch),
            reason,
            text,
            actor: reclaim.actor.clone(),
            ground: reclaim.ground,
            gate: reclaim.gate,
        }))
    }

    fn decide_drain(&self, at: Stamp, steer: &Steer) -> Result<Change, Rejection> {
        let lease = self.steered(at.tick, steer)?;
        match &lease.state {
            LeaseState::Active { drained: false, .. } => Ok(Change::Drained(steered(steer))),
            LeaseState::Active { drained: true, .. } => Err(Rejection::AlreadyDraining),
            LeaseState::Reserved { .. } | LeaseState::Revoking(_) => invalid(lease),
        }
    }

    fn decide_revive(&self, at: Stamp, steer: &Steer) -> Result<Change, Rejection> {
        let lease = self.steered(at.tick, steer)?;
        match &lease.state {
            LeaseState::Active { drained, .. } if *drained || steer.silent => {
                Ok(Change::Revived(steered(steer)))
            }
            LeaseState::Active { .. } => Err(Rejection::NotDraining),
            LeaseState::Reserved { .. } | LeaseState::Revoking(_) => invalid(lease),
        }
    }

    fn steered(&self, now: Tick, steer: &Steer) -> Result<&Lease, Rejection> {
        bounded(steer.text.len(), REASON_TEXT_BYTES_MAX, Field::Text)?;
        check_actor(&steer.actor)?;
        self.controlled(now, steer.lease, steer.epoch)
    }

    fn decide_define_pool(&self, name: &Text, size: u32) -> Result<Change, Rejection> {
        if size > POOL_SIZE_MAX {
            return Err(Rejection::TooLarge { field: Field::PoolSize });
        }
        // The longest member must be a name too.
        check_name(name)
            .and_then(|()| check_name(&pool_member(name, POOL_SIZE_MAX)))
            .map_err(|fault| Rejection::InvalidName { name: name.clone(), fault })?;
        // Asked of a member, so that a pool `mdns` does not hand out `mdns/1`.
        if pool_member(name, 1).starts_with(REGISTRATIONS_PREFIX) {
            return reserved_prefix(name);
        }
        match self.pools.get(name) {
            Some(pool) if pool.removed => Err(Rejection::PoolInUse { held: pool.held() }),
            None if self.pools.len() as u64 >= self.setup.limits.pools_max => self.full(Capacity::Pools),
            Some(_) | None => Ok(Change::PoolDefined { name: name.clone(), size }),
        }
    }

    fn decide_remove_pool(&self, name: &Text, force: bool) -> Result<Change, Rejection> {
        match self.pools.get(name) {
            Some(pool) if !pool.removed => {
                if pool.held() > 0 && !force {
                    return Err(Rejection::PoolInUse { held: pool.held() });
                }
                Ok(Change::PoolRemoved { name: name.clone() })
            }
            Some(_) | None => Err(Rejection::PoolNotFound { pool: name.clone() }),
        }
    }

    fn decide_open_session(&self, open: &OpenSession) -> Result<Change, Rejection> {
        check_holder(&open.holder)?;
        bounded(open.principal.len(), PRINCIPAL_BYTES_MAX, Field::Principal)?;
        if let Some(prefix) = &open.accepts_handover {
            check_prefix(prefix)?;
        }
        if self.session(open.session).is_some() {
            return Err(Rejection::SessionExists { session: open.session });
        }
        if self.sessions.len() as u64 >= self.setup.limits.sessions_max {
            return self.full(Capacity::Sessions);
        }
        if self.shares.of(&open.principal).sessions >= self.setup.limits.sessions_per_principal_max {
            return self.full(Capacity::SessionsOfPrincipal);
        }
        Ok(Change::SessionOpened(open.clone()))
    }

    /// The check chain of holder commands.
    fn authority(&self, now: Tick, token: &Token) -> Result<Authority<'_>, Rejection> {
        let lease = self.existing(now, token.lease)?;
        if let Some(holder) = &token.holder
            && holder != self.holders.get(lease.holder)
        {
            return Err(Rejection::HolderMismatch);
        }
        let ignore = planted(Planted::ReleaseIgnoresEpoch);
        if token.epoch != lease.epoch && !ignore {
            return Err(Rejection::StaleEpoch { current: lease.epoch });
        }
        Ok(Authority { id: token.lease, lease })
    }

    /// The check chain of control commands.
    fn controlled(&self, now: Tick, id: LeaseId, epoch: Option<Epoch>) -> Result<&Lease, Rejection> {
        let lease = self.existing(now, id)?;
        match epoch {
            Some(epoch) if epoch != lease.epoch => Err(Rejection::StaleEpoch { current: lease.epoch }),
            Some(_) | None => Ok(lease),
        }
    }

    fn existing(&self, now: Tick, id: LeaseId) -> Result<&Lease, Rejection> {
        if let Some(slot) = self.slot_of(id) {
            return Ok(&self.leases[slot]);
        }
        match self.lease(id, now) {
            Found::Ended(EndedLease { state, .. }) => Err(Rejection::InvalidState { state: *state }),
            Found::Retired => Err(Rejection::LeaseRetired),
            Found::NotFound => Err(Rejection::LeaseNotFound),
            Found::Live(_) => unreachable!("invariant: a live lease has a slot"),
        }
    }

    fn names_of(&self, lease: &Lease) -> Names {
        // Nearly every lease covers one resource; collecting would pay for more.
        let mut names = Names::from_buf([lease.first_name.clone()]);
        names.extend(lease.more_members().iter().map(|slot| self.resources[*slot].name.clone()));
        names
    }

    fn epitaph(&self, lease: &Lease, epoch: Epoch) -> Epitaph {
        Epitaph {
            lease: self.lease_id(lease.lsn),
            epoch,
            holder: self.holders.get(lease.holder).clone(),
            members: self.names_of(lease),
            policy: self.policy_of(lease),
            face_data: lease.face_data().to_vec(),
            granted_tick: lease.granted_tick,
            granted_wall_ms: lease.granted_wall_ms,
        }
    }
}

fn invalid<T>(lease: &Lease) -> Result<T, Rejection> {
    Err(Rejection::InvalidState { state: lease.state.name() })
}

fn reserved_prefix<T>(name: &Text) -> Result<T, Rejection> {
    Err(Rejection::InvalidName { name: name.clone(), fault: NameFault::ReservedPrefix })
}

fn bounded(length: usize, bound: usize, field: Field) -> Result<(), Rejection> {
    if length > bound { Err(Rejection::TooLarge { field }) } else { Ok(()) }
}

fn steered(steer: &Steer) -> Steered {
    Steered { lease: steer.lease, actor: steer.actor.clone(), text: steer.text.clone() }
}

fn check_actor(actor: &Actor) -> Result<(), Rejection> {
    match actor {
        Actor::Holder | Actor::Daemon => Ok(()),
        Actor::Operator(principal) => bounded(principal.len(), PRINCIPAL_BYTES_MAX, Field::Principal),
    }
}

fn check_holder(holder: &Text) -> Result<(), Rejection> {
    if holder.is_empty() {
        return Err(Rejection::InvalidName { name: Text::default(), fault: NameFault::Empty });
    }
    bounded(holder.len(), HOLDER_BYTES_MAX, Field::Holder)
}

/// The beginning of names, up to a whole name.
fn check_prefix(prefix: &Text) -> Result<(), Rejection> {
    let fault = if prefix.is_empty() {
        NameFault::Empty
    } else if prefix.len() > NAME_BYTES_MAX {
        NameFault::TooLong
    } else {
        return Ok(());
    };
    Err(Rejection::InvalidName { name: prefix.clone(), fault })
}

fn check_payload(attachment: Option<&[u8]>, face_data: Option<&[u8]>) -> Result<(), Rejection> {
    bounded(attachment.map_or(0, <[u8]>::len), ATTACHMENT_BYTES_MAX, Field::Attachment)?;
    bounded(face_data.map_or(0, <[u8]>::len), ATTACHMENT_BYTES_MAX, Field::FaceData)
}

fn check_bundle_size(bundle: &Bundle) -> Result<(), Rejection> {
    let mut members = 0_u64;
    for member in &bundle.members {
        members += match member {
            Member::Resource(_) => 1,
            Member::AnyOf { count: 0, .. } => return Err(Rejection::BundleEmpty),
            Member::AnyOf { count, .. } => u64::from(*count),
        };
    }
    if members == 0 {
        Err(Rejection::BundleEmpty)
    } else if members > BUNDLE_MEMBERS_MAX as u64 {
        Err(Rejection::BundleTooLarge)
    } else {
        Ok(())
    }
}

fn check_bundle_names(bundle: &Bundle, face: Face) -> Result<(), Rejection> {
    for member in &bundle.members {
        let (Member::Resource(name) | Member::AnyOf { pool: name, .. }) = member;
        check_name(name).map_err(|fault| Rejection::InvalidName { name: name.clone(), fault })?;
        if name.starts_with(REGISTRATIONS_PREFIX) && face != Face::Registrations {
            return reserved_prefix(name);
        }
    }
    Ok(())
}

fn check_bundle_distinct(bundle: &Bundle) -> Result<(), Rejection> {
    // At most 64 members: comparing each with those before it is cheaper than any set.
    for (index, member) in bundle.members.iter().enumerate() {
        let twice = bundle.members[..index].iter().any(|other| match (member, other) {
            (Member::Resource(name), Member::Resource(before)) => name == before,
            (Member::AnyOf { pool, .. }, Member::AnyOf { pool: before, .. }) => pool == before,
            (Member::Resource(_), Member::AnyOf { .. }) | (Member::AnyOf { .. }, Member::Resource(_)) => {
                false
            }
        });
        if twice {
            let (Member::Resource(name) | Member::AnyOf { pool: name, .. }) = member;
            return Err(Rejection::DuplicateMember { name: name.clone() });
        }
    }
    Ok(())
}
