//! Whether the engine answers, as it was known a moment ago. `/readyz` needs no credential and no name of the daemon, so
//! it must cost nothing: however many requests come, the engine is probed by one at a time and ten times a second.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tenure_engine::Space;
use tenure_engine::host::read_clocks;
use tenure_faces::Faces;

/// An answer is repeated for this long.
const FRESH_MS: u64 = 100;
/// An engine that takes longer than this is not ready.
const PROBE_WITHIN: Duration = Duration::from_secs(5);

/// What the last probe said, and when.
#[derive(Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<(u64, Option<Space>)>>,
    probing: tokio::sync::Mutex<()>,
}

impl Readiness {
    /// How the engine is; `None`: it does not answer.
    pub(crate) async fn known(&self, faces: &Faces) -> Option<Space> {
        self.known_by(|| read_clocks().boot_ms, || faces.readiness()).await
    }

    async fn known_by<F>(&self, now_ms: impl Fn() -> u64, probe: impl FnOnce() -> F) -> Option<Space>
    where
        F: Future<Output = Option<Space>>,
    {
        if let Some(known) = self.fresh(now_ms()) {
            return known;
        }
        let _alone = tokio::time::timeout(PROBE_WITHIN, self.probing.lock()).await.ok()?;
        // Another request may have probed meanwhile.
        if let Some(known) = self.fresh(now_ms()) {
            return known;
        }
        let space = tokio::time::timeout(PROBE_WITHIN, probe()).await.unwrap_or(None);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now_ms(), space));
        space
    }

    fn fresh(&self, now_ms: u64) -> Option<Option<Space>> {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.filter(|(at_ms, _)| now_ms.saturating_sub(*at_ms) < FRESH_MS).map(|(_, space)| space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::ready;

    #[tokio::test]
    async fn a_flood_of_requests_probes_once_for_each_moment() {
        let readiness = Readiness::default();
        let (now_ms, probes) = (Cell::new(1_000), Cell::new(0));
        let ask = async || {
            let probe = || {
                probes.set(probes.get() + 1);
                ready(Some(Space::Ok))
            };
            readiness.known_by(|| now_ms.get(), probe).await
        };
        for _ in 0..10_000 {
            assert_eq!(ask().await, Some(Space::Ok));
        }
        assert_eq!(probes.get(), 1);
        now_ms.set(1_000 + FRESH_MS - 1);
        ask().await;
        assert_eq!(probes.get(), 1);
        now_ms.set(1_000 + FRESH_MS);
        ask().await;
        assert_eq!(probes.get(), 2);
    }

    #[tokio::test]
    async fn requests_share_the_probe_that_is_under_way() {
        let readiness = Readiness::default();
        let (probes, answers) = (Cell::new(0), tokio::sync::Notify::new());
        let ask = || {
            let probe = || async {
                probes.set(probes.get() + 1);
                answers.notified().await;
                Some(Space::Low)
            };
            readiness.known_by(|| 0, probe)
        };
        let (first, second, third, ()) = tokio::join!(ask(), ask(), ask(), async { answers.notify_one() });
        assert_eq!((first, second, third), (Some(Space::Low), Some(Space::Low), Some(Space::Low)));
        assert_eq!(probes.get(), 1);
    }
}
