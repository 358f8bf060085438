//! What a running poll knows: which fence it carries, until when it may act, and when to stop.

use super::holdings::Tie;
use core::fmt;
use std::sync::Arc;
use tenure_client::clock::BootInstant;
use tokio_util::sync::CancellationToken;

/// One poll of one target. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Poll {
    pub(super) fence: u64,
    pub(super) tie: Arc<Tie>,
    pub(super) cancelled: CancellationToken,
}

/// How a poll went, from what its program returned.
pub trait Polled: Send {
    /// What went wrong, in words.
    fn fault(self) -> Option<String>;
}

impl Polled for () {
    fn fault(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display + Send> Polled for Result<(), E> {
    fn fault(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

impl Poll {
    /// Carried by everything that the poll writes; rises with every change of hands. A sink that remembers the highest
    /// and refuses lower ones cannot be written to by a poller that was replaced.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Until when it may act. Moves on while the poll runs, as the lease is renewed.
    #[must_use]
    pub fn valid_until(&self) -> BootInstant {
        self.tie.valid_until()
    }

    /// Waits until the poll is to stop: its time is nearly over, it took too long, or the target goes to another. What
    /// does not end soon after is dropped.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// The same as a token.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}
