//! Counts of what is taken at once, in all and by key. Dropping what was counted gives its place back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_engine::Counts;

/// Counts in all and by key.
#[derive(Debug)]
pub struct Tally<K>(Mutex<Counts<K>>);

/// One of what is counted, until it is dropped.
#[derive(Debug)]
pub struct Counted<K: Ord + Clone> {
    tally: Arc<Tally<K>>,
    key: K,
}

/// Which bound of a tally is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The one of all.
    InAll,
    /// The one of the key.
    OfKey,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> Tally<K> {
    fn counts(&self) -> MutexGuard<'_, Counts<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more.
    ///
    /// # Errors
    /// When there are as many already in all or of this key.
    pub fn admit(self: &Arc<Self>, key: K, max: usize, of_key_max: usize) -> Result<Counted<K>, Full> {
        let mut counts = self.counts();
        if counts.all() >= max {
            return Err(Full::InAll);
        }
        if counts.of(&key) >= of_key_max {
            return Err(Full::OfKey);
        }
        counts.add(&key);
        Ok(Counted { tally: Arc::clone(self), key })
    }

    /// How many there are.
    pub fn all(&self) -> usize {
        self.counts().all()
    }

    /// How many keys have any.
    pub fn keys(&self) -> usize {
        self.counts().keys()
    }
}

impl<K: Ord + Clone> Drop for Counted<K> {
    fn drop(&mut self) {
        self.tally.counts().remove(&self.key);
    }
}
