//! Giving a restored backup an identity of its own, so that ids and fences of the log it was taken from stay void.
//!
//! The old records stay readable under their old identity; the new one begins with a segment past a gap.

use std::path::Path;

use super::repair::next_after_gap;
use super::{FileLog, FileLogOptions, OfflineLog, OpenError, SegmentHeader};
use crate::damage::ReadError;
use crate::disk::SharedDisk;
use crate::identity::Identity;
use crate::ids::Lsn;
use crate::ordered::{AppendError, OrderedLog};

/// What restoring did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Who the log was.
    pub old: Identity,
    /// Who it is now.
    pub new: Identity,
    /// The LSN at which the new identity begins; every earlier record belongs to the old one.
    pub since: Lsn,
}

/// Why a backup was not restored. It is as it was, or restoring it again finishes the work.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is no log to restore, or it cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new identity could not be written.
    #[error(transparent)]
    Write(#[from] AppendError),
}

/// Gives the log under `root` a new identity, made from `options.genesis`. Nobody may have it open.
pub fn restore(disk: SharedDisk, root: &Path, options: FileLogOptions) -> Result<Restored, RestoreError> {
    let genesis = options.genesis;
    // Opening creates what is missing; a backup that is missing is an error.
    OfflineLog::open(disk.clone(), root)?;
    let (mut log, _) = FileLog::open(disk, root, options)?;
    let old = log.identity();
    let new = genesis.restored(&old, log.synced_lsn());
    let since = next_after_gap(log.synced_lsn());
    let header = SegmentHeader {
        identity: new,
        identity_since: since,
        parent_log_id: old.log_id,
        first_lsn: since,
        ..log.header
    };
    log.go_on_in(header, 0)?;
    Ok(Restored { old, new, since })
}
