//! How the daemon was asked to stop.
//!
//! Invariant: a wish is only ever narrowed. Services stay advertised, and the daemon restarts, only if every request to
//! stop asked for that; a signal asks for neither.

use std::sync::{Arc, Mutex, PoisonError};
use tenure_api::Advertised;
use tokio_util::sync::CancellationToken;

/// How to stop. The default is what a signal asks for: every goodbye, and no return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StopWish {
    /// What becomes of advertised services.
    pub advertised: Advertised,
    /// The daemon starts again in the same process.
    pub restart: bool,
}

/// The stop of a daemon: whether it was asked for, and how.
#[derive(Clone, Default)]
pub struct Stopping {
    asked: CancellationToken,
    wish: Arc<Mutex<Option<StopWish>>>,
}

impl Stopping {
    /// A stop that is also asked for by cancelling the token, as by a signal.
    #[must_use]
    pub fn with_token(asked: CancellationToken) -> Self {
        Self { asked, wish: Arc::default() }
    }

    /// Asks the daemon to stop.
    pub fn ask(&self, wish: StopWish) {
        let mut asked = self.wish.lock().unwrap_or_else(PoisonError::into_inner);
        *asked = Some(asked.map_or(wish, |before| before.narrowed_by(wish)));
        drop(asked);
        self.asked.cancel();
    }

    /// What all requests so far have in common.
    #[must_use]
    pub fn wish(&self) -> StopWish {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_default()
    }

    /// Cancelled once the daemon stops.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.asked
    }
}

impl StopWish {
    fn narrowed_by(self, other: Self) -> Self {
        let advertised = match (self.advertised, other.advertised) {
            (Advertised::Keep, Advertised::Keep) => Advertised::Keep,
            (Advertised::Withdraw, _) | (_, Advertised::Withdraw) => Advertised::Withdraw,
        };
        Self { advertised, restart: self.restart && other.restart }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: StopWish = StopWish { advertised: Advertised::Keep, restart: false };
    const RESTART: StopWish = StopWish { advertised: Advertised::Keep, restart: true };

    fn wish_after(wishes: &[StopWish]) -> StopWish {
        let stopping = Stopping::default();
        wishes.iter().for_each(|wish| stopping.ask(*wish));
        assert_eq!(stopping.token().is_cancelled(), !wishes.is_empty());
        stopping.wish()
    }

    #[test]
    fn a_signal_takes_back_what_was_asked_before_and_is_not_taken_back() {
        let signal = StopWish::default();
        assert_eq!(wish_after(&[RESTART]), RESTART);
        assert_eq!(wish_after(&[RESTART, RESTART]), RESTART);
        assert_eq!(wish_after(&[RESTART, KEEP]), KEEP);
        assert_eq!(wish_after(&[RESTART, signal]), signal);
        assert_eq!(wish_after(&[signal, RESTART]), signal);
        assert_eq!(wish_after(&[]), signal);
    }

    #[test]
    fn a_token_that_is_cancelled_asks_for_what_a_signal_asks_for() {
        let token = CancellationToken::new();
        let stopping = Stopping::with_token(token.clone());
        token.cancel();
        assert!(stopping.token().is_cancelled());
        assert_eq!(stopping.wish(), StopWish::default());
    }
}
