//! The state as it was at an LSN or at a wall-clock time.

use std::io::{self, Read};

use tenure_kernel::codec::DecodeError;
use tenure_kernel::{Kernel, Lsn, Tick};
use tenure_log::snapshot::SnapshotHeader;
use tenure_log::{Identity, OfflineLog, ReadError, SnapshotStore};

use crate::record::dump;
use crate::replay::{Replay, ReplayError};
use crate::wall::rfc3339;

/// Which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Right after the record at this LSN, or after the last one before it where it lies in a gap.
    Lsn(Lsn),
    /// Right after the last frame that was written at or before this time, in unix milliseconds.
    Wall(u64),
}

/// The state as it was.
#[derive(Clone, Debug)]
pub struct StateAt {
    /// The state.
    pub kernel: Kernel,
    /// The last LSN that is part of it; 0 if none is.
    pub lsn: Lsn,
    /// The tick of that record.
    pub tick: Tick,
    /// Unix milliseconds of that record's frame.
    pub wall_ms: u64,
    /// Who the log was then.
    pub identity: Identity,
    /// The snapshot it was built on; `None`: from the very beginning.
    pub built_on: Option<Lsn>,
}

/// Why the state cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A record on the way is not one this version can apply.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The records on the way are gone, and no snapshot stands at or before it.
    #[error("the records up to lsn {lsn} have been trimmed, and there is no snapshot at or before it")]
    Trimmed {
        /// What was asked for.
        lsn: Lsn,
        /// The oldest state that can be told, if any can.
        oldest: Option<Lsn>,
    },
    /// The log ends before it.
    #[error("the log ends at lsn {last}")]
    Ahead {
        /// Its last LSN.
        last: Lsn,
    },
    /// The log begins after it.
    #[error("the oldest record that is kept was written at {}", rfc3339(*.began_wall_ms))]
    BeforeLog {
        /// When its oldest frame was written.
        began_wall_ms: u64,
    },
}

/// Rebuilds the state at a point, from the newest snapshot at or before it that is whole, else from the beginning.
///
/// # Errors
/// When the log does not reach that far, back or forth, or cannot be read.
pub fn state_at(log: &OfflineLog, point: Point) -> Result<StateAt, StateError> {
    let lsn = match point {
        Point::Lsn(lsn) => lsn,
        Point::Wall(wall_ms) => lsn_at(log, wall_ms)?,
    };
    let identity = identity_at(log, lsn);
    let (mut replay, start) = start_at(log, &identity, lsn)?;
    let mut at = start.as_ref().map_or((Lsn(0), 0), |header| (Lsn(header.lsn.0), header.at.wall_ms));
    let mut reached = at.0 >= lsn;
    if !reached {
        for record in dump(log, at.0.next())? {
            let record = record?;
            if record.lsn > lsn {
                reached = true;
                break;
            }
            replay.apply(&record)?;
            at = (record.lsn, record.wall_ms);
            reached = record.lsn == lsn;
        }
    }
    let (lsn, wall_ms) = at;
    if !reached {
        return Err(StateError::Ahead { last: lsn });
    }
    let (kernel, tick) = replay.finish();
    let built_on = start.map(|header| Lsn(header.lsn.0));
    Ok(StateAt { kernel, lsn, tick, wall_ms, identity, built_on })
}

/// The last record at or before a time. Wall clocks may have been set back, so every frame is looked at.
fn lsn_at(log: &OfflineLog, wall_ms: u64) -> Result<Lsn, StateError> {
    let mut found = None;
    let mut began_wall_ms = None;
    let mut frames = log.frames()?;
    while let Some(located) = frames.next_frame()? {
        let header = located.frame.header;
        if header.count > 0 {
            began_wall_ms = began_wall_ms.or(Some(header.at.wall_ms));
            if header.at.wall_ms <= wall_ms {
                found = Some(Lsn(header.last_lsn().0));
            }
        }
    }
    match (found, began_wall_ms) {
        (Some(lsn), _) => Ok(lsn),
        (None, Some(began_wall_ms)) => Err(StateError::BeforeLog { began_wall_ms }),
        (None, None) => Err(StateError::Ahead { last: Lsn(0) }),
    }
}

pub(crate) fn identity_at(log: &OfflineLog, lsn: Lsn) -> Identity {
    let known = log.segments().take_while(|segment| segment.first_lsn.0 <= lsn.0.max(1)).last();
    known.map_or_else(|| log.identity(), |segment| segment.identity)
}

/// Whether the log still has its first record.
pub(crate) fn begins_at_the_beginning(log: &OfflineLog) -> bool {
    log.segments().next().is_some_and(|segment| segment.previous_lsn.0 == 0)
}

/// The snapshots, and those that cannot be used; a directory that is not there holds none.
pub(crate) fn snapshots(
    log: &OfflineLog,
) -> Result<Option<(SnapshotStore, Vec<tenure_log::snapshot::RejectedSnapshot>)>, ReadError> {
    match log.snapshots() {
        Ok(found) => Ok(Some(found)),
        Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn start_at(
    log: &OfflineLog,
    identity: &Identity,
    lsn: Lsn,
) -> Result<(Replay, Option<SnapshotHeader>), StateError> {
    let store = snapshots(log)?.map(|(store, _)| store);
    let kept = store.as_ref().map(SnapshotStore::generations).unwrap_or_default();
    // A snapshot helps only if the records after it are there.
    let followed_from = log.segments().next().map_or(0, |segment| segment.previous_lsn.0);
    let usable = |header: &&SnapshotHeader| header.lsn.0 >= followed_from;
    for header in kept.iter().filter(usable).rev().filter(|header| header.lsn.0 <= lsn.0) {
        let loaded = store.as_ref().and_then(|store| load(store, header, identity));
        if let Some(replay) = loaded {
            return Ok((replay, Some(*header)));
        }
    }
    if begins_at_the_beginning(log) {
        return Ok((Replay::new(identity), None));
    }
    let oldest = kept.iter().find(usable).map(|header| Lsn(header.lsn.0));
    Err(StateError::Trimmed { lsn, oldest })
}

/// `None`: it is damaged, and the one before it must do.
fn load(store: &SnapshotStore, header: &SnapshotHeader, identity: &Identity) -> Option<Replay> {
    let mut bytes = Vec::new();
    store.open(header.lsn).ok()?.read_to_end(&mut bytes).ok()?;
    let replay: Result<Replay, DecodeError> = Replay::from_snapshot(identity, Tick(header.at.tick), &bytes);
    replay.ok().filter(|replay| replay.kernel().check_invariants().is_ok())
}
