//! Bytes of events: kind, flags, operation if there is one, then the fields of the kind in order. An event that is not
//! spelled in the first format begins with the format that it is spelled in.

use super::primitive::{Reader, Writer};
use super::{DecodeError, FIRST_FORMAT, FORMAT};
use crate::event::{Amended, Change, ChangeKind, Epitaph, Event, Expired, Granted, Names, Rebound};
use crate::event::{Reclaimed, Released, Revoked, Steered};
use crate::ids::SessionId;
use crate::limits::BUNDLE_MEMBERS_MAX;
use crate::planted::newer_format;

/// In place of a kind: the format follows, then the event.
const NAMES_FORMAT: u8 = 0;

/// Appends an event, in the newest spelling that a format allows. All spellings of an event say the same: what cannot be
/// said in a format must not be decided while nothing newer may be written.
pub fn encode_event(event: &Event, format: u32, out: &mut Vec<u8>) {
    let kind = event.change.kind();
    let mut w = Writer { out };
    let spelled_in = spelling(kind, format);
    if spelled_in > FIRST_FORMAT {
        w.byte(NAMES_FORMAT);
        w.number(spelled_in.into());
    }
    w.coded(kind);
    w.optional(event.operation.as_ref(), Writer::operation);
    match &event.change {
        Change::Granted(granted) => {
            w.text(&granted.holder);
            w.names(&granted.members);
            w.optional(granted.deadline.as_ref(), |w, deadline| w.tick(*deadline));
            w.policy(&granted.policy);
            w.bytes(&granted.face_data);
            w.bytes(&granted.attachment);
            w.number(granted.wall_ms);
        }
        Change::Activated { lease } | Change::Notified { lease } => w.lease(*lease),
        Change::Rebound(rebound) => {
            w.lease(rebound.lease);
            w.number(rebound.epoch.0);
            w.text(&rebound.holder);
            w.optional(rebound.policy.as_ref(), Writer::policy);
            w.optional(rebound.attachment.as_deref(), Writer::bytes);
            w.optional(rebound.face_data.as_deref(), Writer::bytes);
            w.flag(rebound.taken_over);
        }
        Change::Amended(amended) => {
            w.lease(amended.lease);
            w.optional(amended.attachment.as_deref(), Writer::bytes);
            w.optional(amended.face_data.as_deref(), Writer::bytes);
        }
        Change::Drained(steered) | Change::Revived(steered) => {
            w.lease(steered.lease);
            w.actor(&steered.actor);
            w.text(&steered.text);
        }
        Change::Released(released) => {
            w.epitaph(&released.was);
            w.text(&released.text);
        }
        Change::Revoked(revoked) => {
            w.lease(revoked.lease);
            w.number(revoked.epoch.0);
            w.coded(revoked.reason);
            w.text(&revoked.text);
            w.actor(&revoked.actor);
            w.evidence(&revoked.evidence);
            w.coded(revoked.reclaim_by);
        }
        Change::Reclaimed(reclaimed) => {
            w.epitaph(&reclaimed.was);
            w.coded(reclaimed.reason);
            w.text(&reclaimed.text);
            w.actor(&reclaimed.actor);
            w.coded(reclaimed.ground);
            w.coded(reclaimed.gate);
        }
        Change::Expired(expired) => w.epitaph(&expired.was),
        Change::SessionOpened(open) => w.open_session(open),
        Change::SessionClosed { session, reason } => {
            w.number(session.0);
            w.coded(*reason);
        }
        Change::PoolDefined { name, size } => {
            w.text(name);
            w.number((*size).into());
        }
        Change::PoolRemoved { name } => w.text(name),
        Change::Trimmed { below } => w.lsn(*below),
        Change::Configured(retention) => w.retention(retention),
    }
}

/// Reads an event.
///
/// # Errors
/// When the bytes are not an event this version knows.
pub fn decode_event(bytes: &[u8]) -> Result<Event, DecodeError> {
    let mut r = Reader::new(bytes);
    let format = r.format()?;
    let kind: ChangeKind = r.coded()?;
    if spelling(kind, format) != format {
        return Err(DecodeError::Range);
    }
    let operation = r.optional(Reader::operation)?;
    let change = match kind {
        ChangeKind::Granted => Change::Granted(Granted {
            holder: r.text()?,
            members: r.names()?,
            deadline: r.optional(Reader::tick)?,
            policy: r.policy()?,
            face_data: r.bytes()?.to_vec(),
            attachment: r.bytes()?.to_vec(),
            wall_ms: r.number()?,
        }),
        ChangeKind::Activated => Change::Activated { lease: r.lease()? },
        ChangeKind::Rebound => Change::Rebound(Rebound {
            lease: r.lease()?,
            epoch: r.epoch()?,
            holder: r.text()?,
            policy: r.optional(Reader::policy)?,
            attachment: r.optional(|r| r.bytes().map(<[u8]>::to_vec))?,
            face_data: r.optional(|r| r.bytes().map(<[u8]>::to_vec))?,
            taken_over: r.flag()?,
        }),
        ChangeKind::Amended => Change::Amended(Amended {
            lease: r.lease()?,
            attachment: r.optional(|r| r.bytes().map(<[u8]>::to_vec))?,
            face_data: r.optional(|r| r.bytes().map(<[u8]>::to_vec))?,
        }),
        ChangeKind::Drained => Change::Drained(r.steered()?),
        ChangeKind::Revived => Change::Revived(r.steered()?),
        ChangeKind::Released => Change::Released(Released { was: r.epitaph()?, text: r.text()? }),
        ChangeKind::Revoked => Change::Revoked(Revoked {
            lease: r.lease()?,
            epoch: r.epoch()?,
            reason: r.coded()?,
            text: r.text()?,
            actor: r.actor()?,
            evidence: r.evidence()?,
            reclaim_by: r.coded()?,
        }),
        ChangeKind::Reclaimed => Change::Reclaimed(Reclaimed {
            was: r.epitaph()?,
            reason: r.coded()?,
            text: r.text()?,
            actor: r.actor()?,
            ground: r.coded()?,
            gate: r.coded()?,
        }),
        ChangeKind::Expired => Change::Expired(Expired { was: r.epitaph()? }),
        ChangeKind::SessionOpened => Change::SessionOpened(r.open_session()?),
        ChangeKind::SessionClosed => {
            Change::SessionClosed { session: SessionId(r.number()?), reason: r.coded()? }
        }
        ChangeKind::PoolDefined => Change::PoolDefined { name: r.text()?, size: r.small()? },
        ChangeKind::PoolRemoved => Change::PoolRemoved { name: r.text()? },
        ChangeKind::Notified => Change::Notified { lease: r.lease()? },
        ChangeKind::Trimmed => Change::Trimmed { below: r.lsn()? },
        ChangeKind::Configured => Change::Configured(r.retention()?),
    };
    r.finish()?;
    Ok(Event { operation, change })
}

/// The newest spelling of a kind of event that a format allows. So far each kind has the first one alone.
fn spelling(kind: ChangeKind, format: u32) -> u32 {
    let newest = match kind {
        ChangeKind::Granted
        | ChangeKind::Activated
        | ChangeKind::Rebound
        | ChangeKind::Amended
        | ChangeKind::Drained
        | ChangeKind::Revived
        | ChangeKind::Released
        | ChangeKind::Revoked
        | ChangeKind::Reclaimed
        | ChangeKind::Expired
        | ChangeKind::SessionOpened
        | ChangeKind::SessionClosed
        | ChangeKind::PoolRemoved
        | ChangeKind::Notified
        | ChangeKind::Trimmed
        | ChangeKind::Configured => FIRST_FORMAT,
        ChangeKind::PoolDefined => newer_format().unwrap_or(FIRST_FORMAT),
    };
    if newest <= format { newest } else { FIRST_FORMAT }
}

impl Writer<'_> {
    pub(super) fn names(&mut self, names: &Names) {
        self.number(names.len() as u64);
        for name in names {
            self.text(name);
        }
    }

    fn epitaph(&mut self, was: &Epitaph) {
        self.lease(was.lease);
        self.number(was.epoch.0);
        self.text(&was.holder);
        self.names(&was.members);
        self.policy(&was.policy);
        self.bytes(&was.face_data);
        self.tick(was.granted_tick);
        self.number(was.granted_wall_ms);
    }
}

impl Reader<'_> {
    /// The format that an event is spelled in.
    fn format(&mut self) -> Result<u32, DecodeError> {
        if self.rest.first() != Some(&NAMES_FORMAT) {
            return Ok(FIRST_FORMAT);
        }
        self.byte()?;
        let reads = newer_format().unwrap_or(FORMAT);
        match self.small()? {
            found if found <= FIRST_FORMAT => Err(DecodeError::Range),
            found if found > reads => Err(DecodeError::Newer { found, reads }),
            found => Ok(found),
        }
    }

    pub(super) fn names(&mut self) -> Result<Names, DecodeError> {
        let count = self.count()?;
        if count == 0 || count > BUNDLE_MEMBERS_MAX {
            return Err(DecodeError::Range);
        }
        (0..count).map(|_| self.text()).collect()
    }

    fn epitaph(&mut self) -> Result<Epitaph, DecodeError> {
        Ok(Epitaph {
            lease: self.lease()?,
            epoch: self.epoch()?,
            holder: self.text()?,
            members: self.names()?,
            policy: self.policy()?,
            face_data: self.bytes()?.to_vec(),
            granted_tick: self.tick()?,
            granted_wall_ms: self.number()?,
        })
    }

    fn steered(&mut self) -> Result<Steered, DecodeError> {
        Ok(Steered { lease: self.lease()?, actor: self.actor()?, text: self.text()? })
    }
}
