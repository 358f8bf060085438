//! Outcomes remembered for retries. Bounded twice: by ticks, and by a number per principal.

use crate::command::Operation;
use crate::event::ChangeKind;
use crate::ids::{LeaseId, Lsn, Tick};
use crate::limits::{OPERATION_KEEP_MS_MAX, RETIRED_PER_EVENT_MAX, Retention};
use crate::names::Text;
use crate::rejection::Rejection;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The upper 24 bits of a fingerprint made from canonical bytes: `fp`, and the version of their layout. Fingerprints of
/// before had none; one in 2^24 of them looks as if it had.
const CANONICAL: u64 = 0x66_70_01 << HASH_BITS;
const HASH_BITS: u32 = 40;

/// A fingerprint of canonical bytes, from a hash of them.
#[must_use]
pub fn canonical_fingerprint(hash: u64) -> u64 {
    CANONICAL | hash & ((1 << HASH_BITS) - 1)
}

/// Whether a command is the one that was remembered. One remembered by another rule cannot be compared: that the id is
/// the same has to do.
fn is_same_command(remembered: u64, asked: u64) -> bool {
    let is_canonical = |fingerprint: u64| fingerprint >> HASH_BITS == CANONICAL >> HASH_BITS;
    remembered == asked || is_canonical(asked) && !is_canonical(remembered)
}

/// The remembered outcome of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// Position of the event it caused.
    pub lsn: Lsn,
    /// The lease it concerned, if any.
    pub lease: Option<LeaseId>,
    /// Kind of that event.
    pub kind: ChangeKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Remembered {
    pub(crate) fingerprint: u64,
    pub(crate) replay: Replay,
    pub(crate) retire_after: Tick,
    pub(crate) principal: Text,
}

#[derive(Clone, Debug)]
pub(crate) struct Operations {
    by_key: HashMap<u128, Remembered, crate::hashing::Hashing>,
    by_retirement: BTreeSet<(Tick, u128)>,
    by_principal: BTreeMap<Text, BTreeSet<(Tick, u128)>>,
}

impl Operations {
    pub(crate) fn new(hashing: crate::hashing::Hashing) -> Self {
        Self {
            by_key: HashMap::with_hasher(hashing),
            by_retirement: BTreeSet::new(),
            by_principal: BTreeMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// What became of an operation.
    pub(crate) fn replay(&self, operation: &Operation, now: Tick) -> Result<Option<&Replay>, Rejection> {
        match self.find(operation.key, now) {
            Some(found) if is_same_command(found.fingerprint, operation.fingerprint) => {
                Ok(Some(&found.replay))
            }
            Some(_) => Err(Rejection::OperationConflict),
            None => Ok(None),
        }
    }

    pub(crate) fn find(&self, key: u128, now: Tick) -> Option<&Remembered> {
        self.by_key.get(&key).filter(|remembered| now <= remembered.retire_after)
    }

    pub(crate) fn remember(
        &mut self,
        now: Tick,
        operation: &Operation,
        replay: Replay,
        retention: &Retention,
    ) {
        let keep_ms = operation.keep_ms.min(OPERATION_KEEP_MS_MAX);
        self.insert(
            operation.key,
            Remembered {
                fingerprint: operation.fingerprint,
                replay,
                retire_after: now.after_ms(keep_ms),
                principal: operation.principal.clone(),
            },
        );
        // More than one only after the quota was lowered.
        for _ in 0..RETIRED_PER_EVENT_MAX {
            match self.over_quota(&operation.principal, retention) {
                Some(key) => self.forget(key),
                None => return,
            }
        }
    }

    /// The first to go if a principal has more than its quota.
    fn over_quota(&self, principal: &Text, retention: &Retention) -> Option<u128> {
        let of_principal = self.by_principal.get(principal)?;
        let over = of_principal.len() as u64 > retention.operations_per_principal_max;
        of_principal.first().filter(|_| over).map(|(_, key)| *key)
    }

    pub(crate) fn insert(&mut self, key: u128, remembered: Remembered) {
        self.forget(key);
        self.by_retirement.insert((remembered.retire_after, key));
        self.by_principal
            .entry(remembered.principal.clone())
            .or_default()
            .insert((remembered.retire_after, key));
        self.by_key.insert(key, remembered);
    }

    /// Physically forgets what is due, at most a few.
    pub(crate) fn retire(&mut self, now: Tick) {
        for _ in 0..RETIRED_PER_EVENT_MAX {
            match self.by_retirement.first().copied() {
                Some((retire_after, key)) if retire_after < now => self.forget(key),
                Some(_) | None => return,
            }
        }
    }

    /// In order of retirement.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, &Remembered)> {
        self.by_retirement.iter().map(|(_, key)| (*key, &self.by_key[key]))
    }

    /// Whatever ended well since this tick is remembered, if it is kept for `keep_ms`: nobody's quota made room earlier.
    pub(crate) fn floor(&self, now: Tick, keep_ms: u64, retention: &Retention) -> Tick {
        let before = |tick: Tick| Tick(tick.0.saturating_sub(keep_ms));
        let is_full =
            |keys: &&BTreeSet<(Tick, u128)>| keys.len() as u64 >= retention.operations_per_principal_max;
        let oldest = self.by_principal.values().filter(is_full).filter_map(BTreeSet::first);
        oldest.map(|(retire_after, _)| before(*retire_after)).fold(before(now), Tick::max)
    }

    pub(crate) fn principals(&self) -> impl Iterator<Item = (&Text, usize)> {
        self.by_principal.iter().map(|(principal, keys)| (principal, keys.len()))
    }

    fn forget(&mut self, key: u128) {
        let Some(remembered) = self.by_key.remove(&key) else { return };
        self.by_retirement.remove(&(remembered.retire_after, key));
        let of_principal = self
            .by_principal
            .get_mut(&remembered.principal)
            .expect("invariant: a remembered operation counts for its principal");
        of_principal.remove(&(remembered.retire_after, key));
        if of_principal.is_empty() {
            self.by_principal.remove(&remembered.principal);
        }
    }
}
