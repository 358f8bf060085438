//! What was refused is tried again, each time after twice as long, up to the time between two looks at the group. Pure.

use crate::store::TargetName;
use core::time::Duration;
use std::collections::HashMap;
use tenure_client::clock::BootInstant;

const FIRST: Duration = Duration::from_millis(250);

pub(super) struct Refusals {
    refused: HashMap<TargetName, (BootInstant, Duration)>,
    longest: Duration,
}

impl Refusals {
    pub(super) fn new(longest: Duration) -> Self {
        Self { refused: HashMap::new(), longest: longest.max(FIRST) }
    }

    /// When the target may be tried for again.
    pub(super) fn until(&self, target: &TargetName) -> Option<BootInstant> {
        self.refused.get(target).map(|(until, _)| *until)
    }

    /// Notes a refusal, and says when to try again.
    pub(super) fn refused(&mut self, target: &TargetName, now: BootInstant) -> BootInstant {
        let before = self.refused.get(target).map(|(_, pause)| *pause);
        let pause = before.map_or(FIRST, |pause| pause.saturating_mul(2).min(self.longest));
        let until = now.after(pause);
        self.refused.insert(target.clone(), (until, pause));
        until
    }

    pub(super) fn succeeded(&mut self, target: &TargetName) {
        self.refused.remove(target);
    }

    /// Forgets what was refused long ago: it begins with the shortest pause again.
    pub(super) fn forget(&mut self, now: BootInstant) {
        self.refused.retain(|_, (until, pause)| now.since(*until) < *pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_doubles_the_pause_up_to_the_longest() {
        let mut refusals = Refusals::new(Duration::from_secs(1));
        let target = TargetName::from("t");
        let mut now = BootInstant::from_ms(0);
        for pause in [250, 500, 1_000, 1_000] {
            let until = refusals.refused(&target, now);
            assert_eq!(until.since(now), Duration::from_millis(pause));
            assert_eq!(refusals.until(&target), Some(until));
            now = until;
            refusals.forget(now);
        }
        refusals.succeeded(&target);
        assert_eq!(refusals.until(&target), None);
    }
}
