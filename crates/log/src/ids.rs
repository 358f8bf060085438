//! Positions and names that the log hands out: LSNs and batch ids.

use std::fmt;

/// The position of one record in the log. Dense from 1; a recorded gap counts as dense. 0 means "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first record.
    pub const ZERO: Self = Self(0);

    /// The LSN `count` records further on.
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }

    /// The next LSN.
    pub const fn next(self) -> Self {
        self.plus(1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of one batch, unique over the life of a log: writer epoch above, a counter below.
///
/// Within one writer incarnation ids strictly rise, so "at or below the last committed one" answers `resolve`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

impl BatchId {
    const COUNTER_BITS: u32 = 40;

    /// The first id a writer of this epoch gives to a batch. Counter 0 is the opening frame's.
    pub const fn first(writer_epoch: u64) -> Self {
        Self::opening(writer_epoch).next()
    }

    /// The id of the frame that opens an incarnation.
    pub(crate) const fn opening(writer_epoch: u64) -> Self {
        Self(writer_epoch << Self::COUNTER_BITS)
    }

    /// The id of the batch after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The epoch of the writer that gave this id.
    pub const fn writer_epoch(self) -> u64 {
        self.0 >> Self::COUNTER_BITS
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counter = self.0 & ((1 << Self::COUNTER_BITS) - 1);
        write!(f, "{}.{counter}", self.writer_epoch())
    }
}

/// When a frame was written: the logical clock that rules obey and the wall clock that people read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Logical milliseconds; never go back along the log.
    pub tick: u64,
    /// Unix milliseconds, for people only.
    pub wall_ms: u64,
}
