//! Targets that are nobody's: since when, whose they were, and when this poller may try for one that another should
//! take.

use crate::instance::Instance;
use crate::store::{TargetName, View};
use core::time::Duration;
use std::collections::HashMap;
use tenure_client::Jitter;
use tenure_client::clock::BootInstant;

/// One rank later, this much later.
const RANK_DELAY: Duration = Duration::from_millis(100);
/// Nobody waits longer than this, jitter included.
const DELAY_MAX: Duration = Duration::from_millis(500);

pub(super) struct Orphans {
    since: HashMap<TargetName, Orphan>,
    holders: HashMap<TargetName, Instance>,
    jitter: Jitter,
}

struct Orphan {
    since: BootInstant,
    last: Option<Instance>,
    /// How much this poller waits beyond its rank.
    jitter: Duration,
}

impl Default for Orphans {
    fn default() -> Self {
        Self { since: HashMap::new(), holders: HashMap::new(), jitter: Jitter::from_system() }
    }
}

impl Orphans {
    /// Takes in what is seen now.
    pub(super) fn look(&mut self, view: &View, targets: &[TargetName], now: BootInstant) {
        for target in targets {
            if let Some(owner) = view.owners.get(target) {
                self.since.remove(target);
                self.holders.insert(target.clone(), owner.instance.clone());
            } else if !self.since.contains_key(target) {
                let jitter = RANK_DELAY.mul_f64(self.jitter.fraction());
                let last = self.holders.get(target).cloned();
                self.since.insert(target.clone(), Orphan { since: now, last, jitter });
            }
        }
        if self.since.len() + self.holders.len() > 2 * targets.len() {
            self.since.retain(|target, _| targets.binary_search(target).is_ok());
            self.holders.retain(|target, _| targets.binary_search(target).is_ok());
        }
    }

    /// When this poller, asked after so many others, may try.
    pub(super) fn due(&self, target: &TargetName, rank: usize, now: BootInstant) -> BootInstant {
        let Some(orphan) = self.since.get(target) else { return now };
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        orphan.since.after(RANK_DELAY.saturating_mul(rank).saturating_add(orphan.jitter).min(DELAY_MAX))
    }

    /// Whose it was, and since when it is nobody's.
    pub(super) fn left_by(&self, target: &TargetName) -> Option<(&Instance, BootInstant)> {
        let orphan = self.since.get(target)?;
        Some((orphan.last.as_ref()?, orphan.since))
    }

    /// Every one, and since when.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&TargetName, BootInstant)> {
        self.since.iter().map(|(target, orphan)| (target, orphan.since))
    }

    /// How long it was nobody's, and whose it was before.
    pub(super) fn taken(
        &mut self,
        target: &TargetName,
        now: BootInstant,
    ) -> Option<(Duration, Option<Instance>)> {
        let orphan = self.since.remove(target)?;
        Some((now.since(orphan.since), orphan.last))
    }
}
