//! What others may read at any moment: how each service stands, and how the engine is. Written by the
//! supervisor alone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a service stands on the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// It was announced on at least one interface, and the engine still has it.
    pub advertised: bool,
    /// Its name on the network: another than asked for after a conflict. `None` while it has none.
    pub name: Option<String>,
    /// What last went wrong with it, until it goes right.
    pub last_error: Option<String>,
}

/// How a withdrawal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goodbye {
    /// The goodbye and its repeat have left.
    Sent,
    /// No goodbye was to be sent now; why.
    Unneeded(String),
    /// They have not, or it is not known; why.
    Unsent(String),
}

/// Whether the engine runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It runs and answers.
    Up,
    /// It ended or does not answer. It is started again by itself.
    Down {
        /// When that was noticed.
        since_unix_ms: u64,
        /// What is known of the cause.
        error: String,
    },
}

/// How the engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether it runs.
    pub condition: Condition,
    /// How often it was started again.
    pub restarts: u64,
    /// What it uses now: `eth0 192.0.2.1`.
    pub interfaces: Vec<String>,
    /// Services withdrawn with a goodbye and its repeat.
    pub goodbyes_sent: u64,
}

/// The board.
#[derive(Debug)]
pub(crate) struct Board {
    standings: Mutex<HashMap<u128, Standing>>,
    health: Mutex<Health>,
}

impl Board {
    /// A board that says the engine is up.
    pub(crate) fn new() -> Self {
        let health =
            Health { condition: Condition::Up, restarts: 0, interfaces: Vec::new(), goodbyes_sent: 0 };
        Self { standings: Mutex::default(), health: Mutex::new(health) }
    }

    /// How the service of this key stands; nothing at all for one that is not known.
    pub(crate) fn standing(&self, key: u128) -> Standing {
        unpoisoned(&self.standings).get(&key).cloned().unwrap_or_default()
    }

    /// Replaces what is said of a key.
    pub(crate) fn set_standing(&self, key: u128, standing: Standing) {
        unpoisoned(&self.standings).insert(key, standing);
    }

    /// Nothing is said of this key any more.
    pub(crate) fn forget(&self, key: u128) {
        unpoisoned(&self.standings).remove(&key);
    }

    /// Nothing is said of any key.
    pub(crate) fn forget_all(&self) {
        unpoisoned(&self.standings).clear();
    }

    /// How the engine is.
    pub(crate) fn health(&self) -> Health {
        unpoisoned(&self.health).clone()
    }

    /// Changes what is said of the engine.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Health)) {
        change(&mut unpoisoned(&self.health));
    }
}

/// A panic elsewhere stops the process; what it left on the board is still whole.
pub(crate) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
