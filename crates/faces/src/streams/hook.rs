//! Whoever is to be told of a session's end. What carries the word is composed in from outside.

use crate::registrations::Later;
use tenure_api::SlotSession;

/// Tells somebody outside that a session has ended. Called again until it succeeds, so it may be told more than once.
pub trait EndHook: Send + Sync {
    /// Tells of one end. `Err` says in words why it did not succeed; the same end is told again later.
    fn tell(&self, ended: SlotSession) -> Later<'static, Result<(), String>>;
}
