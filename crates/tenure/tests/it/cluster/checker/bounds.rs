//! Between when and when something happened, and which answers say so.

use std::fmt::{Display, Formatter};

use crate::cluster::history::Record;

/// An instant of a lease's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    /// It was granted.
    Granted,
    /// Its authority was over.
    Over,
    /// Its resource was free.
    Free,
}

/// One side of a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limit {
    pub(crate) at_ns: u64,
    /// The record that says so, by its place in the history.
    pub(crate) record: Option<usize>,
    /// It is the end of a promise.
    pub(crate) is_promise: bool,
}

/// Both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    earliest: Limit,
    latest: Option<Limit>,
}

impl Limit {
    pub(crate) fn by(record: usize, at_ns: u64) -> Self {
        Self { at_ns, record: Some(record), is_promise: false }
    }

    /// A restore says so, and no record.
    pub(crate) fn of_restore(at_ns: u64) -> Self {
        Self { at_ns, record: None, is_promise: false }
    }

    /// The record behind it.
    pub(crate) fn told(&self, history: &[Record]) -> String {
        let unrecorded = || "by no record: from the beginning, or by a restore".to_owned();
        self.record.map_or_else(unrecorded, |record| history[record].to_string())
    }
}

impl Bound {
    /// Any time.
    pub(crate) fn open() -> Self {
        Self { earliest: Limit { at_ns: 0, record: None, is_promise: false }, latest: None }
    }

    pub(crate) fn not_before(&mut self, limit: Limit) {
        if limit.at_ns > self.earliest.at_ns {
            self.earliest = limit;
        }
    }

    pub(crate) fn not_after(&mut self, limit: Limit) {
        if self.latest.is_none_or(|latest| limit.at_ns < latest.at_ns) {
            self.latest = Some(limit);
        }
    }

    pub(crate) fn earliest(&self) -> Limit {
        self.earliest
    }

    /// `None`: it may never have happened.
    pub(crate) fn latest(&self) -> Option<Limit> {
        self.latest
    }
}

impl Display for Edge {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Granted => "granted",
            Self::Over => "without authority",
            Self::Free => "its resource free",
        })
    }
}
