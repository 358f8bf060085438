//! How many there are of something by key, so that one key cannot have them all.

use crate::waiters::Try;
use std::collections::BTreeMap;
use tenure_kernel::Text;

/// Counts in all and by key.
#[derive(Debug)]
pub struct Counts<K> {
    all: usize,
    by: BTreeMap<K, usize>,
}

/// How many requests of each principal wait.
#[derive(Debug, Default)]
pub(crate) struct Quota(Counts<Text>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self { all: 0, by: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Counts<K> {
    /// How many there are.
    #[must_use]
    pub fn all(&self) -> usize {
        self.all
    }

    /// How many there are of this key.
    #[must_use]
    pub fn of(&self, key: &K) -> usize {
        self.by.get(key).copied().unwrap_or(0)
    }

    /// How many keys there is something of.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.by.len()
    }

    /// One more.
    pub fn add(&mut self, key: &K) {
        self.all += 1;
        match self.by.get_mut(key) {
            Some(count) => *count += 1,
            None => drop(self.by.insert(key.clone(), 1)),
        }
    }

    /// One less.
    ///
    /// # Panics
    /// When no entry of this key was added before.
    pub fn remove(&mut self, key: &K) {
        let count = self.by.get_mut(key).expect("invariant: what goes was counted");
        *count -= 1;
        if *count == 0 {
            self.by.remove(key);
        }
        self.all -= 1;
    }
}

impl Quota {
    pub(crate) fn of(&self, principal: Option<&Text>) -> usize {
        principal.map_or(0, |principal| self.0.of(principal))
    }

    pub(crate) fn add(&mut self, request: &Try) {
        if let Some(principal) = request.principal() {
            self.0.add(principal);
        }
    }

    pub(crate) fn remove(&mut self, request: &Try) {
        if let Some(principal) = request.principal() {
            self.0.remove(principal);
        }
    }
}

impl Try {
    pub(crate) fn principal(&self) -> Option<&Text> {
        self.command.action.grant().map(|grant| &grant.policy.principal)
    }
}
