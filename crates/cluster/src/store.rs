//! What the protocol needs of a store: a few keys, changed by comparing values and putting new ones, in one step that
//! is durable before it is acknowledged. Nothing here says etcd; the simulator has a store of its own.

use std::time::Duration;

/// One atomic step: if every comparison holds, `then` is done, otherwise `otherwise`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// All must hold.
    pub compares: Vec<Compare>,
    /// Done if they do.
    pub then: Vec<Op>,
    /// Done if they do not.
    pub otherwise: Vec<Op>,
}

/// A comparison. Always of values: a store that was restored may hand out revisions again, values of ours never repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key has exactly this value.
    Value {
        /// Which key.
        key: String,
        /// Its bytes.
        value: Vec<u8>,
    },
    /// There is no such key.
    Absent {
        /// Which key.
        key: String,
    },
}

/// A part of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes a key.
    Put {
        /// Which key.
        key: String,
        /// Its bytes.
        value: Vec<u8>,
    },
    /// Reads a key.
    Get {
        /// Which key.
        key: String,
    },
    /// Deletes every key from `from` up to, not including, `to`.
    Delete {
        /// The first.
        from: String,
        /// The first that stays.
        to: String,
    },
}

/// What a step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stepped {
    /// Whether the comparisons held.
    pub held: bool,
    /// What each `Get` of the branch that was taken found, in their order.
    pub found: Vec<Option<Vec<u8>>>,
    /// The store's revision at that step.
    pub revision: u64,
}

/// A key and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// Its bytes.
    pub value: Vec<u8>,
    /// The revision of its last change.
    pub revision: u64,
}

/// A stretch of keys as they were at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranged {
    /// In order of keys.
    pub found: Vec<KeyValue>,
    /// Whether the limit left some off.
    pub more: bool,
    /// The store's revision at that moment.
    pub revision: u64,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The key.
    pub key: String,
    /// Its bytes; `None`: it was deleted.
    pub value: Option<Vec<u8>>,
    /// The revision of the change.
    pub revision: u64,
}

/// Why a step has no outcome, or none that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It may have been done, or may still be done: the answer did not come.
    #[error("the store did not answer: {why}")]
    Unanswered {
        /// What happened instead.
        why: String,
    },
    /// The store said no. That speaks for this try alone.
    #[error("the store rejected the request: {why}")]
    Refused {
        /// What it said.
        why: String,
        /// It has no room left.
        no_space: bool,
    },
}

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnded {
    /// What it was to begin with is compacted away.
    #[error("changes before revision {oldest} are compacted away")]
    Compacted {
        /// The oldest revision there is.
        oldest: u64,
    },
    /// The stream broke, or the store ended it.
    #[error("the watch broke off: {why}")]
    Broken {
        /// What happened.
        why: String,
    },
}

/// Changes as they come. Dropping it ends the watch.
pub trait Watching: Send {
    /// The next change; `Ok(None)` if none came in time.
    ///
    /// # Errors
    /// When there will be no more.
    fn next(&mut self, within: Duration) -> Result<Option<Changed>, WatchEnded>;
}

/// A store as the protocol sees it. Every call blocks, for at most the time it is given.
pub trait Store: Send + Sync {
    /// One atomic step. A step with a write is sent at most once.
    ///
    /// # Errors
    /// When its outcome is not known, or the store refused it.
    fn step(&self, txn: &Txn, within: Duration) -> Result<Stepped, StoreError>;

    /// Keys from `from` up to, not including, `to`, at most `limit`. It may be a little behind.
    ///
    /// # Errors
    /// When there is no answer.
    fn range(&self, from: &str, to: &str, limit: usize, within: Duration) -> Result<Ranged, StoreError>;

    /// Changes of the keys from `from` up to, not including, `to`, beginning with revision `since`; 0: with the next.
    ///
    /// # Errors
    /// When the watch cannot begin.
    fn watch(
        &self,
        from: &str,
        to: &str,
        since: u64,
        within: Duration,
    ) -> Result<Box<dyn Watching>, StoreError>;

    /// Lets go of what keys had before `revision`.
    ///
    /// # Errors
    /// When it was refused, or there is no answer.
    fn compact(&self, revision: u64, within: Duration) -> Result<(), StoreError>;
}

impl Txn {
    /// Reads keys as they are now. It can never hold, and what it would do then makes it a write: no store answers that
    /// with what it had a while ago.
    #[must_use]
    pub fn fresh(keys: &[String]) -> Self {
        let key = keys.first().cloned().unwrap_or_default();
        let gets = keys.iter().map(|key| Op::Get { key: key.clone() }).collect();
        Self {
            compares: vec![
                Compare::Absent { key: key.clone() },
                Compare::Value { key: key.clone(), value: Vec::new() },
            ],
            // Deletes are taken by a store that is full, too.
            then: vec![Op::Delete { to: format!("{key}\0"), from: key }],
            otherwise: gets,
        }
    }

    /// Whether it may change anything.
    #[must_use]
    pub fn writes(&self) -> bool {
        let changes = |ops: &[Op]| ops.iter().any(|op| !matches!(op, Op::Get { .. }));
        changes(&self.otherwise) || (changes(&self.then) && !self.never_holds())
    }

    /// Whether it compares a key with a value and with none.
    fn never_holds(&self) -> bool {
        self.compares.iter().any(|compare| match compare {
            Compare::Absent { key } => {
                self.compares.iter().any(|other| matches!(other, Compare::Value { key: of, .. } if of == key))
            }
            Compare::Value { .. } => false,
        })
    }
}
