//! Many leases with one deadline: how long after it the last is gone, and how others fare meanwhile. The others are one
//! connection that renews one lease every millisecond.

use super::Course;
use crate::peers::figures::Quantity;
use crate::peers::kind::Kind;
use crate::peers::latencies::Latencies;
use crate::peers::peer::{Paced, Shape, Until, Work};
use anyhow::{Result, anyhow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// Leases that the others renew.
const OTHERS: u64 = 1_000;
/// How many of their renewals may be under way.
const UNANSWERED_MAX: usize = 256;
const EVERY: Duration = Duration::from_millis(1);
/// How the others fare when nothing happens.
const CALM: Duration = Duration::from_secs(2);
/// How far ahead the deadline is, and for each million of leases more: some peers have to be told for each.
const AHEAD: Duration = Duration::from_secs(5);
const AHEAD_PER_MILLION: Duration = Duration::from_secs(20);

impl Course {
    pub(super) fn storm(&mut self, kind: Kind, round: usize, count: u64) -> Result<String> {
        let ahead = AHEAD + AHEAD_PER_MILLION.mul_f64(count as f64 / 1e6);
        let ahead = Duration::from_secs(ahead.as_secs());
        let peer = self.fresh(kind)?;
        let name = peer.name();
        // Theirs are there before: what is left at the end is what was there at the beginning.
        let mut others = peer.load(Shape { connections: 1, depth: UNANSWERED_MAX })?;
        others.run(Work::Acquire, Until::Count(OTHERS))?;
        let held = peer.hold(count, ahead)?;
        let calm_until = BootInstant::now().after(CALM);
        let calm = others.run_paced(Work::Renew, EVERY, &|| BootInstant::now() < calm_until)?;
        let is_over = AtomicBool::new(false);
        let (lag, gone, renewals) = std::thread::scope(|scope| {
            let storm = scope.spawn(|| {
                let lag = held.storm(ahead);
                is_over.store(true, Ordering::Relaxed);
                (lag, BootInstant::now())
            });
            let renewals = others.run_paced(Work::Renew, EVERY, &|| !is_over.load(Ordering::Relaxed));
            let (lag, gone) = storm.join().map_err(|_| anyhow!("the storm's thread panicked"))?;
            Ok::<_, anyhow::Error>((lag?, gone, renewals?))
        })?;
        let deadline = gone.before(lag);
        let meanwhile =
            quantiles(renewals.into_iter().filter(|renewal| renewal.at >= deadline && renewal.at <= gone));
        let calm = quantiles(calm.into_iter());
        let what = format!("storm {count}");
        let values = [
            (Quantity::Lag, lag.as_secs_f64()),
            (Quantity::P50, meanwhile.p50().as_secs_f64()),
            (Quantity::P99, meanwhile.p99().as_secs_f64()),
            (Quantity::Longest, meanwhile.max().as_secs_f64()),
            (Quantity::CalmP99, calm.p99().as_secs_f64()),
            (Quantity::Count, meanwhile.count() as f64),
        ];
        self.add(round, name, &what, &values);
        Ok(format!(
            "{what}: last gone after {lag:.2?}, renewals p99 {:.2?} (calm {:.2?})",
            meanwhile.p99(),
            calm.p99()
        ))
    }
}

fn quantiles(renewals: impl Iterator<Item = Paced>) -> Latencies {
    let mut latencies = Latencies::new();
    renewals.for_each(|renewal| latencies.add(renewal.took));
    latencies
}
