//! The contract once more, as plainly as it can be said: ordered maps, full scans, no indexes. Written from
//! the contract and not from the kernel, so that two readings of the same page can disagree.

use std::collections::{BTreeMap, BTreeSet};
use tenure_kernel::names::{check_name, pool_member};
use tenure_kernel::*;

pub(crate) struct Model {
    pub(crate) limits: Limits,
    pub(crate) retention: Retention,
    pub(crate) leases: BTreeMap<u64, ModelLease>,
    /// In order of their ends.
    pub(crate) ended: Vec<EndedLease>,
    pub(crate) pools: BTreeMap<Text, ModelPool>,
    pub(crate) sessions: BTreeMap<u64, ModelSession>,
    pub(crate) operations: BTreeMap<u128, ModelOperation>,
    pub(crate) notices: BTreeMap<LeaseId, PendingNotice>,
    pub(crate) watermark: u64,
    pub(crate) trimmed_below: Lsn,
}

#[derive(Clone)]
pub(crate) struct ModelLease {
    pub(crate) holder: Text,
    pub(crate) members: Vec<Text>,
    pub(crate) state: LeaseState,
    pub(crate) epoch: Epoch,
    pub(crate) authority: Lsn,
    pub(crate) changed: Lsn,
    pub(crate) granted: Tick,
    pub(crate) wall_ms: u64,
    pub(crate) policy: Policy,
    pub(crate) attachment: Vec<u8>,
    pub(crate) face_data: Vec<u8>,
}

pub(crate) struct ModelPool {
    pub(crate) size: u32,
    pub(crate) removed: bool,
}

pub(crate) struct ModelSession {
    pub(crate) principal: Text,
    pub(crate) closed: Option<Reason>,
    pub(crate) losses: Vec<Loss>,
    /// In the order they came.
    pub(crate) with_authority: Vec<u64>,
    /// In the order they were revoked.
    pub(crate) revoking: Vec<u64>,
}

pub(crate) struct ModelOperation {
    fingerprint: u64,
    replay: Replay,
    retire_after: Tick,
    principal: Text,
}

type Refused<T> = Result<T, Rejection>;

impl Model {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            retention: Retention::default(),
            leases: BTreeMap::new(),
            ended: Vec::new(),
            pools: BTreeMap::new(),
            sessions: BTreeMap::new(),
            operations: BTreeMap::new(),
            notices: BTreeMap::new(),
            watermark: 0,
            trimmed_below: Lsn(0),
        }
    }

    /// Decides and, if accepted, carries out.
    pub(crate) fn step(&mut self, at: Stamp, command: &Command) -> Refused<Decision> {
        if let Some(operation) = &command.operation
            && let Some(known) = self.operations.get(&operation.key)
            && at.tick <= known.retire_after
        {
            return match known.fingerprint == operation.fingerprint {
                true => Ok(Decision::Replay(known.replay.clone())),
                false => Err(Rejection::OperationConflict),
            };
        }
        let change = self.decide(at, &command.action)?;
        let event = Event { operation: command.operation.clone(), change };
        self.carry_out(at, &event);
        Ok(Decision::Event(event))
    }

    pub(crate) fn step_internal(&mut self, at: Stamp, command: &Internal) -> Option<Event> {
        let change = match command {
            Internal::Expire(id) => {
                let lease = self.leases.get(&id.lsn().0)?;
                let LeaseState::Reserved { deadline } = lease.state else { return None };
                (at.tick >= deadline).then(|| Change::Expired(Expired { was: self.epitaph(*id, 1) }))?
            }
            Internal::Notified(id) => {
                self.notices.get(id)?;
                Change::Notified { lease: *id }
            }
            Internal::Trim(below) => {
                (*below > self.trimmed_below).then_some(Change::Trimmed { below: *below })?
            }
            Internal::Configure(new) => (*new != self.retention).then_some(Change::Configured(*new))?,
        };
        let event = Event { operation: None, change };
        self.carry_out(at, &event);
        Some(event)
    }

    fn decide(&self, at: Stamp, action: &Action) -> Refused<Change> {
        match action {
            Action::Grant(grant) => self.grant(at, grant),
            Action::Activate(token) => {
                let lease = self.holder_command(at.tick, token)?;
                match lease.state {
                    LeaseState::Reserved { deadline } if at.tick < deadline => {
                        Ok(Change::Activated { lease: token.lease })
                    }
                    LeaseState::Reserved { deadline } => Err(Rejection::DeadlinePassed { deadline }),
                    _ => invalid(lease),
                }
            }
            Action::Release(release) => {
                let lease = self.holder_command(at.tick, &release.token)?;
                if lease.is_revoking() {
                    return invalid(lease);
                }
                let was = self.epitaph(release.token.lease, 1);
                Ok(Change::Released(Released { was, text: release.text.clone() }))
            }
            Action::Rebind(rebind) => {
                let lease = self.holder_command(at.tick, &rebind.token)?;
                if !lease.is_active() {
                    return invalid(lease);
                }
                if let Some(policy) = &rebind.policy {
                    self.open_session(policy.session)?;
                    self.room_for_principal(lease, &policy.principal)?;
                }
                self.room_for(
                    &lease.policy.principal,
                    Some(lease),
                    rebind.attachment.as_ref(),
                    rebind.face_data.as_ref(),
                )?;
                Ok(Change::Rebound(Rebound {
                    lease: rebind.token.lease,
                    epoch: Epoch(lease.epoch.0 + 1),
                    holder: rebind.holder.clone().unwrap_or(lease.holder.clone()),
                    policy: rebind.policy.clone(),
                    attachment: rebind.attachment.clone(),
                    face_data: rebind.face_data.clone(),
                    taken_over: false,
                }))
            }
            Action::Amend(amend) => {
                let lease = self.holder_command(at.tick, &amend.token)?;
                if lease.is_revoking() {
                    return invalid(lease);
                }
                self.room_for(
                    &lease.policy.principal,
                    Some(lease),
                    amend.attachment.as_ref(),
                    amend.face_data.as_ref(),
                )?;
                Ok(Change::Amended(Amended {
                    lease: amend.token.lease,
                    attachment: amend.attachment.clone(),
                    face_data: amend.face_data.clone(),
                }))
            }
            Action::Revoke(revoke) => {
                let lease = self.control_command(at.tick, revoke.lease, revoke.epoch)?;
                if lease.is_revoking() {
                    return invalid(lease);
                }
                Ok(Change::Revoked(Revoked {
                    lease: revoke.lease,
                    epoch: Epoch(lease.epoch.0 + 1),
                    reason: revoke.reason,
                    text: revoke.text.clone(),
                    actor: revoke.actor.clone(),
                    evidence: revoke.evidence,
                    reclaim_by: revoke.reclaim_by,
                }))
            }
            Action::Reclaim(reclaim) => {
                let lease = self.control_command(at.tick, reclaim.lease, reclaim.epoch)?;
                let LeaseState::Revoking(revocation) = &lease.state else { return invalid(lease) };
                Ok(Change::Reclaimed(Reclaimed {
                    was: self.epitaph(reclaim.lease, 0),
                    reason: revocation.reason,
                    text: revocation.text.clone(),
                    actor: reclaim.actor.clone(),
                    ground: reclaim.ground,
                    gate: reclaim.gate,
                }))
            }
            Action::Drain(steer) => {
                let lease = self.control_command(at.tick, steer.lease, steer.epoch)?;
                match lease.state {
                    LeaseState::Active { drained: false, .. } => Ok(Change::Drained(steered(steer))),
                    LeaseState::Active { drained: true, .. } => Err(Rejection::AlreadyDraining),
                    _ => invalid(lease),
                }
            }
            Action::Revive(steer) => {
                let lease = self.control_command(at.tick, steer.lease, steer.epoch)?;
                match lease.state {
                    LeaseState::Active { drained: true, .. } => Ok(Change::Revived(steered(steer))),
                    LeaseState::Active { drained: false, .. } => Err(Rejection::NotDraining),
                    _ => invalid(lease),
                }
            }
            Action::DefinePool { name, size } => match self.pools.get(name) {
                Some(pool) if pool.removed => Err(Rejection::PoolInUse { held: self.held_of(name) }),
                None if self.pools.len() as u64 >= self.limits.pools_max => self.full(Capacity::Pools),
                _ => Ok(Change::PoolDefined { name: name.clone(), size: *size }),
            },
            Action::RemovePool { name, force } => match self.pools.get(name) {
                Some(pool) if !pool.removed => match self.held_of(name) {
                    held if held > 0 && !force => Err(Rejection::PoolInUse { held }),
                    _ => Ok(Change::PoolRemoved { name: name.clone() }),
                },
                _ => Err(Rejection::PoolNotFound { pool: name.clone() }),
            },
            Action::OpenSession(open) => {
                if self.sessions.contains_key(&open.session.0) {
                    return Err(Rejection::SessionExists { session: open.session });
                }
                if self.sessions.len() as u64 >= self.limits.sessions_max {
                    return self.full(Capacity::Sessions);
                }
                let own = self.sessions.values().filter(|session| session.principal == open.principal);
                if own.count() as u64 >= self.limits.sessions_per_principal_max {
                    return self.full(Capacity::SessionsOfPrincipal);
                }
                Ok(Change::SessionOpened(open.clone()))
            }
            Action::CloseSession { session, reason } => {
                self.open_session(Some(*session))?;
                Ok(Change::SessionClosed { session: *session, reason: *reason })
            }
        }
    }

    fn grant(&self, at: Stamp, grant: &Grant) -> Refused<Change> {
        let mut bundles = vec![&grant.bundle];
        bundles.extend(&grant.alternatives);
        // One check after the other over all that is asked.
        if bundles.iter().any(|bundle| asked(bundle) == 0) {
            return Err(Rejection::BundleEmpty);
        }
        if bundles.iter().any(|bundle| asked(bundle) > 64) || grant.alternatives.len() > 32 {
            return Err(Rejection::BundleTooLarge);
        }
        for name in bundles.iter().flat_map(|bundle| names_of(bundle)) {
            if let Err(fault) = check_name(&name) {
                return Err(Rejection::InvalidName { name, fault });
            }
            if name.starts_with("mdns/") && grant.policy.face != Face::Registrations {
                return Err(Rejection::InvalidName { name, fault: NameFault::ReservedPrefix });
            }
        }
        for bundle in &bundles {
            let mut seen = BTreeSet::new();
            for member in &bundle.members {
                let (kind, name) = match member {
                    Member::Resource(name) => ("resource", name),
                    Member::AnyOf { pool, .. } => ("pool", pool),
                };
                if !seen.insert((kind, name)) {
                    return Err(Rejection::DuplicateMember { name: name.clone() });
                }
            }
        }
        let deadline = match grant.start {
            Start::Active => None,
            Start::Reserved { ttl_ms } if ttl_ms == 0 || ttl_ms > 86_400_000 => {
                return Err(Rejection::TtlOutOfRange);
            }
            Start::Reserved { ttl_ms } => Some(Tick(at.tick.0 + ttl_ms)),
        };
        for member in bundles.iter().flat_map(|bundle| &bundle.members) {
            if let Member::AnyOf { pool, .. } = member
                && self.pools.get(pool).is_none_or(|pool| pool.removed)
            {
                return Err(Rejection::PoolNotFound { pool: pool.clone() });
            }
        }
        self.open_session(grant.policy.session)?;

        if let Some(id) = grant.take_over
            && let Some(lease) = self.leases.get(&id.lsn().0)
            && lease.is_active()
            && grant.bundle.members.iter().all(|member| match member {
                Member::Resource(name) => lease.members.contains(name),
                Member::AnyOf { .. } => false,
            })
        {
            let face_data = Some(grant.face_data.clone()).filter(|bytes| !bytes.is_empty());
            self.room_for_principal(lease, &grant.policy.principal)?;
            self.room_for(&lease.policy.principal, Some(lease), Some(&grant.attachment), face_data.as_ref())?;
            return Ok(Change::Rebound(Rebound {
                lease: id,
                epoch: Epoch(lease.epoch.0 + 1),
                holder: grant.holder.clone(),
                policy: Some(grant.policy.clone()),
                attachment: Some(grant.attachment.clone()),
                face_data,
                taken_over: true,
            }));
        }
        let mut outcomes = bundles.iter().map(|bundle| self.free_members(bundle));
        let first = outcomes.next().unwrap();
        let members = first.or_else(|refused| outcomes.find_map(Result::ok).ok_or(refused))?;
        self.check_capacity(grant)?;
        Ok(Change::Granted(Granted {
            holder: grant.holder.clone(),
            members: members.into_iter().collect(),
            deadline,
            policy: grant.policy.clone(),
            face_data: grant.face_data.clone(),
            attachment: grant.attachment.clone(),
            wall_ms: grant.wall_ms,
        }))
    }

    /// A lease that comes to another principal counts against its limit.
    fn room_for_principal(&self, lease: &ModelLease, principal: &Text) -> Result<(), Rejection> {
        let own = self.leases.values().filter(|lease| lease.policy.principal == *principal).count();
        if lease.policy.principal != *principal && own as u64 >= self.limits.leases_per_principal_max {
            return self.full(Capacity::LeasesOfPrincipal);
        }
        let size = |lease: &ModelLease| (lease.attachment.len() + lease.face_data.len()) as u64;
        let of_principal = self.leases.values().filter(|lease| lease.policy.principal == *principal);
        let stored: u64 = of_principal.map(size).sum();
        let room = self.limits.attachment_bytes_per_principal_max;
        if lease.policy.principal != *principal && size(lease) > 0 && stored + size(lease) > room {
            return self.full(Capacity::AttachmentBytesOfPrincipal);
        }
        Ok(())
    }

    fn check_capacity(&self, grant: &Grant) -> Refused<()> {
        if self.leases.len() as u64 >= self.limits.leases_max {
            return self.full(Capacity::Leases);
        }
        let principal = &grant.policy.principal;
        let own = self.leases.values().filter(|lease| lease.policy.principal == *principal).count();
        if own as u64 >= self.limits.leases_per_principal_max {
            return self.full(Capacity::LeasesOfPrincipal);
        }
        if grant.policy.notice && self.notices.len() as u64 >= self.limits.notices_max {
            return self.full(Capacity::Notices);
        }
        self.room_for(principal, None, Some(&grant.attachment), Some(&grant.face_data))
    }

    fn free_members(&self, bundle: &Bundle) -> Refused<Vec<Text>> {
        let named: Vec<Text> = bundle.members.iter().filter_map(Member::name).collect();
        let mut out = Vec::new();
        for member in &bundle.members {
            match member {
                Member::Resource(name) => {
                    if let Some((id, lease)) = self.coverer(name) {
                        return Err(Rejection::ResourceHeld(Held {
                            resource: name.clone(),
                            lease: id,
                            holder: lease.holder.clone(),
                            since: lease.granted,
                        }));
                    }
                    out.push(name.clone());
                }
                Member::AnyOf { pool, count } => {
                    let free: Vec<Text> = (1..=self.pools[pool].size)
                        .map(|number| pool_member(pool, number))
                        .filter(|name| self.coverer(name).is_none() && !named.contains(name))
                        .collect();
                    if (free.len() as u32) < *count {
                        let free = free.len() as u32;
                        return Err(Rejection::PoolExhausted { pool: pool.clone(), wanted: *count, free });
                    }
                    out.extend(free.into_iter().take(*count as usize));
                }
            }
        }
        Ok(out)
    }

    pub(crate) fn coverer(&self, name: &Text) -> Option<(LeaseId, &ModelLease)> {
        let mut coverers = self.leases.iter().filter(|(_, lease)| lease.members.contains(name));
        let coverer = coverers.next();
        assert!(coverers.next().is_none(), "the model gave {name} to two");
        coverer.map(|(lsn, lease)| (LeaseId::new(0, Lsn(*lsn)), lease))
    }

    pub(crate) fn held_of(&self, pool: &Text) -> u32 {
        let size = self.pools[pool].size;
        (1..=size).filter(|number| self.coverer(&pool_member(pool, *number)).is_some()).count() as u32
    }

    fn open_session(&self, session: Option<SessionId>) -> Refused<()> {
        match session {
            Some(id) if self.sessions.get(&id.0).is_none_or(|session| session.closed.is_some()) => {
                Err(Rejection::SessionNotFound { session: id })
            }
            _ => Ok(()),
        }
    }

    fn full<T>(&self, capacity: Capacity) -> Refused<T> {
        Err(Rejection::CapacityExceeded { capacity, max: self.limits.max_of(capacity) })
    }

    /// Bytes may grow only up to the limit; shrinking is always allowed.
    fn room_for(
        &self,
        principal: &Text,
        lease: Option<&ModelLease>,
        attachment: Option<&Vec<u8>>,
        face_data: Option<&Vec<u8>>,
    ) -> Refused<()> {
        let size = |lease: &ModelLease| lease.attachment.len() + lease.face_data.len();
        let all: usize = self.leases.values().map(size).sum();
        let own = self.leases.values().filter(|lease| lease.policy.principal == *principal);
        let own: usize = own.map(size).sum();
        let (old_attachment, old_face_data) =
            lease.map_or((0, 0), |lease| (lease.attachment.len(), lease.face_data.len()));
        let old = old_attachment + old_face_data;
        let new = attachment.map_or(old_attachment, Vec::len) + face_data.map_or(old_face_data, Vec::len);
        if new > old && (all - old + new) as u64 > self.limits.attachment_bytes_max {
            return self.full(Capacity::AttachmentBytes);
        }
        if new > old && (own - old + new) as u64 > self.limits.attachment_bytes_per_principal_max {
            return self.full(Capacity::AttachmentBytesOfPrincipal);
        }
        Ok(())
    }

    fn existing(&self, now: Tick, id: LeaseId) -> Refused<&ModelLease> {
        if id.shard() != 0 {
            return Err(Rejection::LeaseNotFound);
        }
        if let Some(lease) = self.leases.get(&id.lsn().0) {
            return Ok(lease);
        }
        Err(match self.find_ended(now, id) {
            Some(Some(ended)) => Rejection::InvalidState { state: ended.state },
            Some(None) => Rejection::LeaseRetired,
            None => Rejection::LeaseNotFound,
        })
    }

    /// `Some(None)`: retired. `None`: never existed.
    pub(crate) fn find_ended(&self, now: Tick, id: LeaseId) -> Option<Option<&EndedLease>> {
        match self.ended.iter().find(|ended| ended.lsn == id.lsn()) {
            Some(ended) if self.is_due(ended, now) => Some(None),
            Some(ended) => Some(Some(ended)),
            None => (1..=self.watermark).contains(&id.lsn().0).then_some(None),
        }
    }

    fn is_due(&self, ended: &EndedLease, now: Tick) -> bool {
        now > ended.retire_after || ended.ended_lsn < self.trimmed_below
    }

    fn holder_command(&self, now: Tick, token: &Token) -> Refused<&ModelLease> {
        let lease = self.existing(now, token.lease)?;
        if token.holder.as_ref().is_some_and(|holder| *holder != lease.holder) {
            return Err(Rejection::HolderMismatch);
        }
        self.control_command(now, token.lease, Some(token.epoch))
    }

    fn control_command(&self, now: Tick, id: LeaseId, epoch: Option<Epoch>) -> Refused<&ModelLease> {
        let lease = self.existing(now, id)?;
        if epoch.is_some_and(|epoch| epoch != lease.epoch) {
            return Err(Rejection::StaleEpoch { current: lease.epoch });
        }
        Ok(lease)
    }

    fn epitaph(&self, id: LeaseId, raise: u64) -> Epitaph {
        let lease = &self.leases[&id.lsn().0];
        Epitaph {
            lease: id,
            epoch: Epoch(lease.epoch.0 + raise),
            holder: lease.holder.clone(),
            members: lease.members.iter().cloned().collect(),
            policy: lease.policy.clone(),
            face_data: lease.face_data.clone(),
            granted_tick: lease.granted,
            granted_wall_ms: lease.wall_ms,
        }
    }

    fn carry_out(&mut self, at: Stamp, event: &Event) {
        let lsn = at.lsn.0;
        match &event.change {
            Change::Granted(granted) => {
                let state = match granted.deadline {
                    Some(deadline) => LeaseState::Reserved { deadline },
                    None => LeaseState::Active { since: at.tick, drained: false },
                };
                let lease = ModelLease {
                    holder: granted.holder.clone(),
                    members: granted.members.to_vec(),
                    state,
                    epoch: Epoch(1),
                    authority: at.lsn,
                    changed: at.lsn,
                    granted: at.tick,
                    wall_ms: granted.wall_ms,
                    policy: granted.policy.clone(),
                    attachment: granted.attachment.clone(),
                    face_data: granted.face_data.clone(),
                };
                if let Some(session) = lease.policy.session {
                    self.sessions.get_mut(&session.0).unwrap().with_authority.push(lsn);
                }
                self.leases.insert(lsn, lease);
            }
            Change::Activated { lease } => {
                let lease = self.changed(at, *lease);
                lease.state = LeaseState::Active { since: at.tick, drained: false };
            }
            Change::Rebound(rebound) => self.rebind(at, rebound),
            Change::Amended(amended) => {
                let lease = self.changed(at, amended.lease);
                lease.attachment = amended.attachment.clone().unwrap_or(lease.attachment.clone());
                lease.face_data = amended.face_data.clone().unwrap_or(lease.face_data.clone());
            }
            Change::Drained(steered) => self.changed(at, steered.lease).drain(true),
            Change::Revived(steered) => self.changed(at, steered.lease).drain(false),
            Change::Released(released) => {
                self.end(at, &released.was, StateName::Released, Reason::Explicit);
            }
            Change::Revoked(revoked) => {
                let lease = self.changed(at, revoked.lease);
                lease.epoch = revoked.epoch;
                let active_since = match lease.state {
                    LeaseState::Active { since, .. } => Some(since),
                    _ => None,
                };
                lease.state = LeaseState::Revoking(Box::new(Revocation {
                    at: at.tick,
                    active_since,
                    reason: revoked.reason,
                    text: revoked.text.clone(),
                    actor: revoked.actor.clone(),
                    evidence: revoked.evidence,
                    reclaim_by: revoked.reclaim_by,
                }));
                let session = lease.policy.session;
                self.lose(at, session, revoked.lease, revoked.reason);
                if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id.0)) {
                    session.with_authority.retain(|other| *other != revoked.lease.lsn().0);
                    session.revoking.push(revoked.lease.lsn().0);
                }
            }
            Change::Reclaimed(reclaimed) => {
                self.end(at, &reclaimed.was, StateName::Revoked, reclaimed.reason);
            }
            Change::Expired(expired) => {
                let reason = Reason::ReservationExpired;
                self.lose(at, expired.was.policy.session, expired.was.lease, reason);
                self.end(at, &expired.was, StateName::Expired, reason);
            }
            Change::SessionOpened(open) => {
                let session = ModelSession {
                    principal: open.principal.clone(),
                    closed: None,
                    losses: Vec::new(),
                    with_authority: Vec::new(),
                    revoking: Vec::new(),
                };
                self.sessions.insert(open.session.0, session);
            }
            Change::SessionClosed { session, reason } => {
                self.sessions.get_mut(&session.0).unwrap().closed = Some(*reason);
            }
            Change::PoolDefined { name, size } => {
                self.pools.insert(name.clone(), ModelPool { size: *size, removed: false });
            }
            Change::PoolRemoved { name } => self.pools.get_mut(name).unwrap().removed = true,
            Change::Notified { lease } => drop(self.notices.remove(lease)),
            Change::Trimmed { below } => self.trimmed_below = *below,
            Change::Configured(retention) => self.retention = *retention,
        }
        self.tidy(at, event);
    }

    fn changed(&mut self, at: Stamp, id: LeaseId) -> &mut ModelLease {
        let lease = self.leases.get_mut(&id.lsn().0).unwrap();
        lease.changed = at.lsn;
        lease
    }

    fn rebind(&mut self, at: Stamp, rebound: &Rebound) {
        let lease = self.changed(at, rebound.lease);
        let before = lease.policy.session;
        lease.authority = at.lsn;
        lease.epoch = rebound.epoch;
        lease.holder = rebound.holder.clone();
        lease.policy = rebound.policy.clone().unwrap_or(lease.policy.clone());
        lease.attachment = rebound.attachment.clone().unwrap_or(lease.attachment.clone());
        lease.face_data = rebound.face_data.clone().unwrap_or(lease.face_data.clone());
        let after = lease.policy.session;
        if before == after {
            return;
        }
        self.lose(at, before, rebound.lease, Reason::Rebalanced);
        if let Some(session) = before.and_then(|id| self.sessions.get_mut(&id.0)) {
            session.with_authority.retain(|other| *other != rebound.lease.lsn().0);
        }
        if let Some(session) = after.and_then(|id| self.sessions.get_mut(&id.0)) {
            session.with_authority.push(rebound.lease.lsn().0);
        }
    }

    fn lose(&mut self, at: Stamp, session: Option<SessionId>, lease: LeaseId, reason: Reason) {
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id.0)) {
            session.losses.push(Loss { lease, reason, lsn: at.lsn });
        }
    }

    fn end(&mut self, at: Stamp, was: &Epitaph, state: StateName, reason: Reason) {
        let lsn = was.lease.lsn();
        let lease = self.leases.remove(&lsn.0).unwrap();
        for session in self.sessions.values_mut() {
            session.with_authority.retain(|other| *other != lsn.0);
            session.revoking.retain(|other| *other != lsn.0);
        }
        self.ended.push(EndedLease {
            lsn,
            ended_lsn: at.lsn,
            authority_lsn: lease.authority,
            epoch: was.epoch,
            retire_after: Tick(at.tick.0 + self.retention.window_ms),
            state,
            reason,
            face: lease.policy.face,
        });
        if lease.policy.notice {
            self.notices.insert(was.lease, PendingNotice { ended_lsn: at.lsn, ended_tick: at.tick });
        }
    }

    /// What follows every event: ended things that nobody holds on to any more go.
    fn tidy(&mut self, at: Stamp, event: &Event) {
        self.sessions.retain(|_, session| {
            session.closed.is_none() || !session.with_authority.is_empty() || !session.revoking.is_empty()
        });
        let empty: Vec<Text> = self.pools.keys().filter(|name| self.held_of(name) == 0).cloned().collect();
        self.pools.retain(|name, pool| !pool.removed || !empty.contains(name));

        if let Some(operation) = &event.operation {
            let replay = Replay {
                lsn: at.lsn,
                lease: event.change.lease(LeaseId::new(0, at.lsn)),
                kind: event.change.kind(),
            };
            let remembered = ModelOperation {
                fingerprint: operation.fingerprint,
                replay,
                retire_after: Tick(at.tick.0 + operation.keep_ms.min(86_400_000)),
                principal: operation.principal.clone(),
            };
            self.operations.insert(operation.key, remembered);
            for _ in 0..16 {
                let of_principal = |known: &ModelOperation| known.principal == operation.principal;
                let own = self.operations.iter().filter(|(_, known)| of_principal(known));
                if own.clone().count() as u64 > self.retention.operations_per_principal_max {
                    let (key, _) = own.min_by_key(|(key, known)| (known.retire_after, **key)).unwrap();
                    let key = *key;
                    self.operations.remove(&key);
                }
            }
        }
        for _ in 0..16 {
            let due = self.operations.iter().filter(|(_, known)| known.retire_after < at.tick);
            if let Some(key) = due.min_by_key(|(key, known)| (known.retire_after, **key)).map(|due| *due.0) {
                self.operations.remove(&key);
            }
        }
        for _ in 0..16 {
            if let Some(place) = self.next_to_retire(at.tick) {
                self.watermark = self.watermark.max(self.ended.remove(place).lsn.0);
            }
        }
    }

    /// Faces in turn: the oldest of a face if it is due or its face has too many; then, over the cap, the
    /// oldest of all.
    fn next_to_retire(&self, now: Tick) -> Option<usize> {
        for face in Face::ALL {
            let of_face = || (0..self.ended.len()).filter(|place| self.ended[*place].face == face);
            if let Some(oldest) = of_face().next() {
                let too_many = of_face().count() as u64 > self.retention.leases_per_face_max;
                if too_many || self.is_due(&self.ended[oldest], now) {
                    return Some(oldest);
                }
            }
        }
        (self.ended.len() as u64 > self.retention.leases_max).then_some(0)
    }
}

impl ModelLease {
    fn is_active(&self) -> bool {
        matches!(self.state, LeaseState::Active { .. })
    }

    pub(crate) fn is_revoking(&self) -> bool {
        matches!(self.state, LeaseState::Revoking(_))
    }

    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.state, LeaseState::Active { drained: true, .. })
    }

    fn drain(&mut self, drain: bool) {
        let LeaseState::Active { drained, .. } = &mut self.state else { panic!("not active") };
        *drained = drain;
    }
}

trait Named {
    fn name(&self) -> Option<Text>;
}

impl Named for Member {
    fn name(&self) -> Option<Text> {
        match self {
            Member::Resource(name) => Some(name.clone()),
            Member::AnyOf { .. } => None,
        }
    }
}

fn names_of(bundle: &Bundle) -> Vec<Text> {
    let name = |member: &Member| match member {
        Member::Resource(name) | Member::AnyOf { pool: name, .. } => name.clone(),
    };
    bundle.members.iter().map(name).collect()
}

/// How many resources a bundle asks for; asking for none of a pool makes it empty.
fn asked(bundle: &Bundle) -> u64 {
    let counts: Vec<u64> = bundle
        .members
        .iter()
        .map(|member| match member {
            Member::Resource(_) => 1,
            Member::AnyOf { count, .. } => u64::from(*count),
        })
        .collect();
    if counts.contains(&0) { 0 } else { counts.iter().sum() }
}

fn steered(steer: &Steer) -> Steered {
    Steered { lease: steer.lease, actor: steer.actor.clone(), text: steer.text.clone() }
}

fn invalid<T>(lease: &ModelLease) -> Refused<T> {
    Err(Rejection::InvalidState { state: lease.state.name() })
}
