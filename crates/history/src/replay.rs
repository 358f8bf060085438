//! A state rebuilt from records: no rule is asked again, and what does not fit is an answer, not a panic.

use tenure_kernel::codec::{DecodeError, decode_state, encode_state};
use tenure_kernel::{Hashing, Kernel, Limits, Lsn, RecordKind, Replica, Setup, Stamp, Tick};
use tenure_log::Identity;

use crate::fit::{self, Misfit};
use crate::record::{Content, LoggedRecord};

/// Why replay cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplayError {
    /// The record is not one this version knows.
    #[error("record {lsn} cannot be decoded: {source}")]
    Unreadable {
        /// Which.
        lsn: Lsn,
        /// Why.
        source: DecodeError,
    },
    /// The record cannot follow those before it.
    #[error("record {lsn} does not follow from the records before it: {source}")]
    Misfit {
        /// Which.
        lsn: Lsn,
        /// Why.
        source: Misfit,
    },
}

/// A state being rebuilt.
pub struct Replay {
    replica: Replica,
}

impl Replay {
    /// Begins with an empty state.
    #[must_use]
    pub fn new(identity: &Identity) -> Self {
        Self { replica: Replica::new(setup(identity)) }
    }

    /// Begins with the state of a snapshot.
    ///
    /// # Errors
    /// When the bytes are no state.
    pub fn from_snapshot(identity: &Identity, tick: Tick, bytes: &[u8]) -> Result<Self, DecodeError> {
        let kernel = decode_state(setup(identity), bytes)?;
        Ok(Self { replica: Replica::resume(kernel, tick) })
    }

    /// Applies one record, unless it is already part of the state.
    ///
    /// # Errors
    /// When it cannot be understood or does not fit. The state is as it was.
    pub fn apply(&mut self, record: &LoggedRecord) -> Result<(), ReplayError> {
        let lsn = record.lsn;
        self.replica.pass(record.tick);
        match &record.content {
            Content::Event(event) => {
                let stamp = Stamp { lsn, tick: record.tick };
                self.replica
                    .apply_checked(stamp, event, fit::check)
                    .map_err(|source| ReplayError::Misfit { lsn, source })
            }
            Content::Unreadable { error, .. } => match record.kind {
                Some(RecordKind::Event | RecordKind::Config | RecordKind::Tick) | None => {
                    Err(ReplayError::Unreadable { lsn, source: *error })
                }
                Some(RecordKind::Note | RecordKind::Close) => Ok(()),
            },
            Content::Note(_) | Content::UnknownNote { .. } | Content::Tick | Content::Close => Ok(()),
        }
    }

    /// The state so far.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        self.replica.kernel()
    }

    /// The last tick seen.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.replica.tick()
    }

    /// Whether the state is these bytes, without making a second copy of it.
    #[must_use]
    pub fn equals(&self, bytes: &[u8]) -> bool {
        let mut rest = Some(bytes);
        encode_state(self.kernel(), &mut |piece| rest = rest.and_then(|rest| rest.strip_prefix(piece)));
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// The state and the last tick.
    #[must_use]
    pub fn finish(self) -> (Kernel, Tick) {
        self.replica.into_parts()
    }
}

/// Limits are read by rules alone and the seed reaches no output, so any will do.
fn setup(identity: &Identity) -> Setup {
    Setup {
        shard: identity.shard,
        fence_base: identity.fence_base,
        limits: Limits::default(),
        hashing: Hashing::fixed(0),
    }
}
