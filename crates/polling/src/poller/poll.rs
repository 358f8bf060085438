//! The context of a running poll: its fence, its deadline and its cancellation.

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

/// The result of a poll's program.
pub trait Polled: Send {
    /// The error message, if the poll failed.
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
    /// The fencing token: rises with every change of poller. Send it with every write; a sink that remembers the
    /// highest and rejects lower ones cannot be written to by a poller that was replaced.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// The deadline of the poll. Renewals of the lease extend it while the poll runs.
    #[must_use]
    pub fn valid_until(&self) -> BootInstant {
        self.tie.valid_until()
    }

    /// Waits for the cancellation of the poll: its deadline or timeout is near, or the target moves to another poller.
    /// A poll that does not end soon after is dropped.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// The cancellation as a token.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}
