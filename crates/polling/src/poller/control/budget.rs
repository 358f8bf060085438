//! How many targets may move between living pollers now. Pure.

use core::time::Duration;
use tenure_client::clock::BootInstant;

/// What may have gathered unused: a fifth of a second's worth, and one at least. So much less accrues, so that no second
/// has more than it may.
const GATHERED_SECONDS: f64 = 0.2;

/// Moves that have accrued.
pub(super) struct Budget {
    accrued: f64,
    as_of: BootInstant,
}

impl Budget {
    pub(super) fn new(now: BootInstant) -> Self {
        Self { accrued: 1.0, as_of: now }
    }

    /// Whole moves allowed now at this rate per second.
    pub(super) fn accrued(&mut self, now: BootInstant, rate: f64) -> usize {
        let most = (rate * GATHERED_SECONDS).max(1.0);
        let accrues = now.since(self.as_of).as_secs_f64() * rate * (1.0 - GATHERED_SECONDS);
        self.accrued = (self.accrued + accrues).min(most);
        self.as_of = now;
        self.accrued as usize
    }

    pub(super) fn spend(&mut self, moves: usize) {
        self.accrued = (self.accrued - moves as f64).max(0.0);
    }

    /// How long until another move is allowed.
    pub(super) fn until_next(&self, rate: f64) -> Duration {
        let missing = (1.0 - self.accrued).max(0.0);
        Duration::from_secs_f64((missing / rate.max(0.001)).clamp(0.01, 60.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_moves_than_the_rate() {
        let mut budget = Budget::new(BootInstant::from_ms(0));
        let mut moved = Vec::new();
        for ms in (0..10_000).step_by(7) {
            let allowed = budget.accrued(BootInstant::from_ms(ms), 50.0);
            budget.spend(allowed);
            moved.extend(std::iter::repeat_n(ms, allowed));
        }
        for begin in 0..9_000_u64 {
            let within = moved.iter().filter(|ms| (begin..begin + 1_000).contains(ms)).count();
            assert!(within <= 50, "{within} in the second from {begin}");
        }
        assert!(moved.len() >= 390, "{}", moved.len());
    }
}
