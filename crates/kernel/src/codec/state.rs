//! Bytes of the whole state at one position, in an order that depends on nothing but the state: pools by
//! name, sessions and leases by id, ended leases by age, operations by retirement.

use super::primitive::{Reader, Writer};
use super::{DecodeError, FORMAT};
use crate::command::OpenSession;
use crate::event::ChangeKind;
use crate::ids::{LeaseId, Lsn, SessionId, Stamp, Tick};
use crate::kernel::{Kernel, PendingNotice, Setup};
use crate::lease::{Lease, LeaseState, Rare, Revocation, SessionLink};
use crate::names::Text;
use crate::operations::{Remembered, Replay};
use crate::retained::EndedLease;
use crate::session::{Loss, Session};
use crate::tables::slab::NO_SLOT;

/// The format in which the layout of a state changed last.
const VERSION: u8 = 1;
/// Begins the section of former holders, which may be absent.
const FORMERS: u8 = 1;
const CHUNK: usize = 64 << 10;

/// Writes the state to `sink`, piece by piece, so that no second copy of it is made.
pub fn encode_state(kernel: &Kernel, sink: &mut dyn FnMut(&[u8])) {
    let mut buffer = Vec::with_capacity(CHUNK + (CHUNK >> 2));
    let w = &mut Writer { out: &mut buffer };
    w.byte(VERSION);
    w.lsn(kernel.applied.lsn);
    w.tick(kernel.applied.tick);
    w.retention(&kernel.retention);
    w.lsn(kernel.retained.watermark);
    w.lsn(kernel.retained.trimmed_below);

    w.number(kernel.pools.len() as u64);
    for (name, pool) in &kernel.pools {
        w.text(name);
        w.number(pool.size.into());
        w.flag(pool.removed);
        spill(w, sink);
    }
    w.number(kernel.session_index.len() as u64);
    for slot in kernel.session_index.values() {
        write_session(w, &kernel.sessions[*slot]);
        spill(w, sink);
    }
    w.number(kernel.register.live() as u64);
    for (_, slot) in kernel.register.live_from(Lsn(0)) {
        write_lease(w, kernel, &kernel.leases[slot]);
        spill(w, sink);
    }
    w.number(kernel.retained.len() as u64);
    for ended in kernel.retained.iter() {
        write_ended(w, ended);
        spill(w, sink);
    }
    w.number(kernel.operations.len() as u64);
    for (key, remembered) in kernel.operations.iter() {
        write_operation(w, key, remembered);
        spill(w, sink);
    }
    w.number(kernel.notices.len() as u64);
    for (lease, notice) in &kernel.notices {
        w.lease(*lease);
        w.lsn(notice.ended_lsn);
        w.tick(notice.ended_tick);
        spill(w, sink);
    }
    write_formers(w, kernel, sink);
    sink(w.out);
}

/// Promises to former holders that may still run; without any there is no such section, as in states of before it.
fn write_formers(w: &mut Writer<'_>, kernel: &Kernel, sink: &mut dyn FnMut(&[u8])) {
    let bound = |slot: u32| kernel.leases[slot].former_until().filter(|until| *until > kernel.applied.tick);
    let formers = || {
        let live = kernel.register.live_from(Lsn(0));
        live.filter_map(|(lsn, slot)| bound(slot).map(|until| (lsn, until)))
    };
    let count = formers().count() as u64;
    if count == 0 {
        return;
    }
    w.byte(FORMERS);
    w.number(count);
    for (lsn, until) in formers() {
        w.lsn(lsn);
        w.tick(until);
        spill(w, sink);
    }
}

fn read_formers(r: &mut Reader<'_>, kernel: &mut Kernel) -> Result<(), DecodeError> {
    for _ in 0..r.count()? {
        let (lease, until) = (kernel.lease_id(r.lsn()?), r.tick()?);
        let slot = kernel.slot_of(lease).ok_or(DecodeError::Inconsistent("a former holder of no lease"))?;
        kernel.leases[slot].rare.get_or_insert_default().former_until = until;
    }
    Ok(())
}

fn spill(w: &mut Writer<'_>, sink: &mut dyn FnMut(&[u8])) {
    if w.out.len() >= CHUNK {
        sink(w.out);
        w.out.clear();
    }
}

/// Reads a state.
///
/// # Errors
/// When the bytes are not a state, or one that contradicts itself. The full scan of
/// [`Kernel::check_invariants`] is the caller's to run.
pub fn decode_state(setup: Setup, bytes: &[u8]) -> Result<Kernel, DecodeError> {
    let r = &mut Reader::new(bytes);
    match r.byte()? {
        VERSION => {}
        code if u32::from(code) > FORMAT => {
            return Err(DecodeError::Newer { found: code.into(), reads: FORMAT });
        }
        code => return Err(DecodeError::Unknown { what: "state version", code }),
    }
    let mut kernel = Kernel::new(setup);
    kernel.applied = Stamp { lsn: r.lsn()?, tick: r.tick()? };
    kernel.retention = r.retention()?;
    kernel.retained.watermark = r.lsn()?;
    kernel.retained.trimmed_below = r.lsn()?;

    let pools = r.count()?;
    let mut sizes = Vec::new();
    for _ in 0..pools {
        let name = r.text()?;
        let size = r.small()?;
        if size > crate::limits::POOL_SIZE_MAX {
            return Err(DecodeError::Range);
        }
        sizes.push((name, size, r.flag()?));
    }
    for _ in 0..r.count()? {
        let session = read_session(r)?;
        let id = session.id;
        kernel.shares.change(&session.principal, |share| share.sessions += 1);
        let slot = kernel.sessions.insert(session);
        if kernel.session_index.insert(id, slot).is_some() {
            return Err(DecodeError::Inconsistent("a session occurs twice"));
        }
    }
    let leases = r.count()?;
    kernel.reserve_leases(leases);
    let mut live: Vec<(Lsn, u32)> = Vec::new();
    for _ in 0..leases {
        let previous = live.last().map_or(Lsn(0), |(lsn, _)| *lsn);
        live.push(read_lease(r, &mut kernel, previous)?);
    }
    // After the leases, so that held members are seen as held.
    for (name, size, removed) in sizes {
        kernel.pool_defined(&name, size);
        if let Some(pool) = kernel.pools.get_mut(&name) {
            pool.removed = removed;
        }
    }
    for _ in 0..r.count()? {
        let ended = read_ended(r)?;
        kernel.retained.push(ended);
    }
    register(&mut kernel, live)?;
    for _ in 0..r.count()? {
        let (key, remembered) = read_operation(r)?;
        kernel.operations.insert(key, remembered);
    }
    for _ in 0..r.count()? {
        let lease = r.lease()?;
        let notice = PendingNotice { ended_lsn: r.lsn()?, ended_tick: r.tick()? };
        kernel.notices.insert(lease, notice);
    }
    if r.rest.first() == Some(&FORMERS) {
        r.byte()?;
        read_formers(r, &mut kernel)?;
    }
    match r.rest.len() {
        0 => Ok(kernel),
        left => Err(DecodeError::Trailing(left)),
    }
}

/// Registers live and ended leases together, in order of id.
fn register(kernel: &mut Kernel, live: Vec<(Lsn, u32)>) -> Result<(), DecodeError> {
    let mut ended: Vec<(Lsn, u32)> = kernel.retained.keyed().collect();
    ended.sort_unstable();
    let mut live = live.into_iter().peekable();
    let mut previous = Lsn(0);
    for (lsn, key) in ended {
        while let Some((lsn, slot)) = live.next_if(|(live, _)| *live < lsn) {
            kernel.register.push_live(lsn, slot);
        }
        if lsn <= previous || live.peek().is_some_and(|(live, _)| *live == lsn) {
            return Err(DecodeError::Inconsistent("an ended lease occurs twice"));
        }
        previous = lsn;
        kernel.register.push_ended(lsn, key);
    }
    live.for_each(|(lsn, slot)| kernel.register.push_live(lsn, slot));
    Ok(())
}

fn write_session(w: &mut Writer<'_>, session: &Session) {
    w.open_session(&OpenSession {
        session: session.id,
        holder: session.holder.clone(),
        kind: session.kind,
        ttl_ms: session.ttl_ms,
        grace_ms: session.grace_ms,
        principal: session.principal.clone(),
        accepts_handover: session.accepts_handover.clone(),
    });
    w.lsn(session.opened_lsn);
    w.tick(session.opened_tick);
    w.optional(session.closed.as_ref(), |w, reason| w.coded(*reason));
    w.lsn(session.changed_lsn);
    w.lsn(session.losses_complete_after);
    w.number(session.losses.len() as u64);
    for loss in &session.losses {
        w.lease(loss.lease);
        w.coded(loss.reason);
        w.lsn(loss.lsn);
    }
}

fn read_session(r: &mut Reader<'_>) -> Result<Session, DecodeError> {
    let open = r.open_session()?;
    let mut session = Session {
        id: open.session,
        holder: open.holder,
        kind: open.kind,
        ttl_ms: open.ttl_ms,
        grace_ms: open.grace_ms,
        principal: open.principal,
        accepts_handover: open.accepts_handover,
        opened_lsn: r.lsn()?,
        opened_tick: r.tick()?,
        closed: r.optional(Reader::coded)?,
        first: NO_SLOT,
        last: NO_SLOT,
        first_revoking: NO_SLOT,
        leases: 0,
        graces: Default::default(),
        drained: Default::default(),
        losses: Default::default(),
        losses_complete_after: Lsn(0),
        changed_lsn: r.lsn()?,
    };
    session.losses_complete_after = r.lsn()?;
    for _ in 0..r.count()? {
        let loss = Loss { lease: r.lease()?, reason: r.coded()?, lsn: r.lsn()? };
        session.losses.push_back(loss);
    }
    Ok(session)
}

fn write_lease(w: &mut Writer<'_>, kernel: &Kernel, lease: &Lease) {
    w.lsn(lease.lsn);
    w.number(lease.epoch.0);
    w.lsn(lease.changed_lsn);
    w.tick(lease.granted_tick);
    w.number(lease.granted_wall_ms);
    match &lease.state {
        LeaseState::Reserved { deadline } => {
            w.byte(1);
            w.tick(*deadline);
        }
        LeaseState::Active { since, drained } => {
            w.byte(2);
            w.tick(*since);
            w.flag(*drained);
        }
        LeaseState::Revoking(revocation) => {
            w.byte(3);
            write_revocation(w, revocation);
        }
    }
    w.text(kernel.holders.get(lease.holder));
    w.number(kernel.members(lease).count() as u64);
    for name in kernel.members(lease) {
        w.text(name);
    }
    w.policy(&kernel.policy_of(lease));
    let rebound = lease.rare.as_ref().and_then(|rare| rare.rebound_lsn);
    w.optional(rebound.as_ref(), |w, lsn| w.lsn(*lsn));
    w.bytes(lease.face_data());
    w.bytes(lease.attachment());
}

fn read_lease(r: &mut Reader<'_>, kernel: &mut Kernel, previous: Lsn) -> Result<(Lsn, u32), DecodeError> {
    let mut lease = Lease {
        lsn: r.lsn()?,
        epoch: r.epoch()?,
        changed_lsn: r.lsn()?,
        granted_tick: r.tick()?,
        granted_wall_ms: r.number()?,
        state: match r.byte()? {
            1 => LeaseState::Reserved { deadline: r.tick()? },
            2 => LeaseState::Active { since: r.tick()?, drained: r.flag()? },
            3 => LeaseState::Revoking(Box::new(read_revocation(r)?)),
            code => return Err(DecodeError::Unknown { what: "lease state", code }),
        },
        rare: None,
        holder: NO_SLOT,
        policy: NO_SLOT,
        session: SessionLink::NONE,
        first_name: Text::default(),
    };
    let holder = r.text()?;
    let members = r.names()?;
    let policy = r.policy()?;
    let rebound_lsn = r.optional(Reader::lsn)?;
    let face_data = r.bytes()?;
    let attachment = r.bytes()?;
    if rebound_lsn.is_some() || !face_data.is_empty() || !attachment.is_empty() {
        lease.rare = Some(Box::new(Rare {
            more_members: Vec::new(),
            rebound_lsn,
            former_until: Tick(0),
            face_data: face_data.to_vec(),
            attachment: attachment.to_vec(),
        }));
    }
    let lsn = lease.lsn;
    if lsn <= previous || lsn > kernel.applied.lsn {
        return Err(DecodeError::Inconsistent("leases are not in order"));
    }
    if members.iter().any(|name| kernel.covering_slot(name).is_some()) {
        return Err(DecodeError::Inconsistent("a resource is in two leases"));
    }
    if policy.session.is_some_and(|session| kernel.session_slot(session).is_none()) {
        return Err(DecodeError::Inconsistent("a lease names a session that is not there"));
    }
    if let LeaseState::Reserved { deadline } = lease.state {
        kernel.scheduled.insert((deadline, lsn));
    }
    for (index, name) in members.iter().enumerate() {
        if members[..index].contains(name) {
            return Err(DecodeError::Inconsistent("a lease names a member twice"));
        }
    }
    let slot = kernel.install(lease, &holder, &policy, &members);
    kernel.mark_drained(slot);
    Ok((lsn, slot))
}

fn write_revocation(w: &mut Writer<'_>, revocation: &Revocation) {
    w.tick(revocation.at);
    w.optional(revocation.active_since.as_ref(), |w, tick| w.tick(*tick));
    w.coded(revocation.reason);
    w.text(&revocation.text);
    w.actor(&revocation.actor);
    w.evidence(&revocation.evidence);
    w.coded(revocation.reclaim_by);
}

fn read_revocation(r: &mut Reader<'_>) -> Result<Revocation, DecodeError> {
    Ok(Revocation {
        at: r.tick()?,
        active_since: r.optional(Reader::tick)?,
        reason: r.coded()?,
        text: r.text()?,
        actor: r.actor()?,
        evidence: r.evidence()?,
        reclaim_by: r.coded()?,
    })
}

fn write_ended(w: &mut Writer<'_>, ended: &EndedLease) {
    w.lsn(ended.lsn);
    w.lsn(ended.ended_lsn);
    w.lsn(ended.authority_lsn);
    w.number(ended.epoch.0);
    w.tick(ended.retire_after);
    w.coded(ended.state);
    w.coded(ended.reason);
    w.coded(ended.face);
}

fn read_ended(r: &mut Reader<'_>) -> Result<EndedLease, DecodeError> {
    Ok(EndedLease {
        lsn: r.lsn()?,
        ended_lsn: r.lsn()?,
        authority_lsn: r.lsn()?,
        epoch: r.epoch()?,
        retire_after: r.tick()?,
        state: r.coded()?,
        reason: r.coded()?,
        face: r.coded()?,
    })
}

fn write_operation(w: &mut Writer<'_>, key: u128, remembered: &Remembered) {
    w.wide(key);
    w.fixed(remembered.fingerprint);
    w.lsn(remembered.replay.lsn);
    w.optional(remembered.replay.lease.as_ref(), |w, lease| w.lease(*lease));
    w.coded(remembered.replay.kind);
    w.tick(remembered.retire_after);
    w.text(&remembered.principal);
}

fn read_operation(r: &mut Reader<'_>) -> Result<(u128, Remembered), DecodeError> {
    let key = r.wide()?;
    let fingerprint = r.fixed()?;
    let lsn: Lsn = r.lsn()?;
    let lease: Option<LeaseId> = r.optional(Reader::lease)?;
    let kind: ChangeKind = r.coded()?;
    let retire_after: Tick = r.tick()?;
    let principal = r.text()?;
    Ok((key, Remembered { fingerprint, replay: Replay { lsn, lease, kind }, retire_after, principal }))
}

// Session ids are numbers everywhere in these bytes; a change of that type is a change of format.
const _: () = assert!(size_of::<SessionId>() == 8);
