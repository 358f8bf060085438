//! Many leases that nobody does anything with: what each takes of memory, what all of them take of the processors, and
//! how long a server that was killed needs until it knows them again.

use super::Course;
use crate::peers::cost::{processor_time, resident_bytes};
use crate::peers::figures::Quantity;
use crate::peers::kind::Kind;
use crate::process::pause;
use anyhow::Result;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// Nothing ends meanwhile.
const TTL: Duration = Duration::from_secs(3_600);
/// What is still under way when the last was granted is over then.
const SETTLE: Duration = Duration::from_secs(3);
/// How long it is watched doing nothing.
const IDLE: Duration = Duration::from_secs(10);

impl Course {
    pub(super) fn hold(&mut self, kind: Kind, round: usize, count: u64) -> Result<String> {
        let idle_for = IDLE.min(self.time * 4);
        let peer = self.fresh(kind)?;
        let name = peer.name();
        let before = resident_bytes(&peer.pids())?;
        let held = peer.hold(count, TTL)?;
        pause(SETTLE);
        let each = resident_bytes(&peer.pids())?.saturating_sub(before) as f64 / count as f64;
        let (began, used) = (BootInstant::now(), processor_time(&peer.pids()));
        pause(idle_for);
        let used = processor_time(&peer.pids()).saturating_sub(used).as_secs_f64();
        let idle = used / BootInstant::now().since(began).as_secs_f64();
        // Who keeps nothing has nothing to come back with.
        let restart = if kind.is_durable() { Some(peer.restart()?) } else { None };
        drop(held);
        let values =
            [(Quantity::BytesEach, each), (Quantity::Processor, idle), (Quantity::Count, count as f64)];
        self.add(round, name, "hold", &values);
        if let Some(restart) = restart {
            self.add(round, name, "hold", &[(Quantity::Lag, restart.as_secs_f64())]);
        }
        Ok(format!("hold {count}: {each:.0} B each, idle {:.2} %, restart {restart:.2?}", 100.0 * idle))
    }
}
