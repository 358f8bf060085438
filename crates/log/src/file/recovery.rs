//! What opening a log found and did, as data. Telling people is the caller's business.

use crate::file::tail::Cut;
use crate::identity::Identity;
use crate::ids::{Lsn, Moment};
use crate::snapshot::{RejectedSnapshot, SnapshotHeader};

/// How the log ended when it was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There was no log; it has just been created.
    NeverBegan,
    /// With a close frame.
    Cleanly,
    /// Without one: crash, power cut, kill.
    Abruptly,
}

/// LSNs that were skipped because a frame of unknown content was cut there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last LSN before it.
    pub after: Lsn,
    /// The first LSN after it.
    pub next: Lsn,
}

/// What opening found and did.
#[derive(Debug)]
pub struct Recovery {
    /// How the log ended.
    pub ended: Ended,
    /// Who the log is.
    pub identity: Identity,
    /// The LSN at which that identity began: 1, or where a restored backup went on.
    pub identity_since: Lsn,
    /// The last LSN in the log; 0 if there is none.
    pub last_lsn: Lsn,
    /// The moment of the last frame; tick records inside it may be later.
    pub last: Moment,
    /// The oldest LSN whose record is still in the log; above `last_lsn` if there is none.
    pub oldest_lsn: Lsn,
    /// What was cut from the end.
    pub cut: Option<Cut>,
    /// The LSNs skipped because of the cut.
    pub gap: Option<Gap>,
    /// The snapshot to start from; replay begins after its LSN.
    pub snapshot: Option<SnapshotHeader>,
    /// Newer snapshots, and others, that could not be used.
    pub rejected_snapshots: Vec<RejectedSnapshot>,
    /// Frames and bytes that were read and checked.
    pub checked_frames: u64,
    /// Bytes of those frames.
    pub checked_bytes: u64,
}

impl Recovery {
    /// Where replay begins.
    pub fn replay_from(&self) -> Lsn {
        self.snapshot.map_or(Lsn(1), |snapshot| snapshot.lsn.next())
    }

    /// One line for each thing an operator should know about.
    pub fn warnings(&self) -> Vec<String> {
        let cut = self.cut.iter().map(ToString::to_string);
        let rejected = self
            .rejected_snapshots
            .iter()
            .map(|rejected| format!("snapshot {} was not used: {}", rejected.file, rejected.error));
        cut.chain(rejected).collect()
    }
}
