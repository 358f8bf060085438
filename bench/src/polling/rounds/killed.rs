//! One of the pollers is killed: how long until each of its targets is polled by another.

use super::{row, settle};
use crate::gauge::Random;
use crate::polling::group::Group;
use crate::polling::table::{Row, Times, shown};
use crate::process::wait_until;
use anyhow::Result;
use std::time::Duration;

/// Beyond the goal, how long is waited before a target counts as never taken over.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn measure(group: &mut Group<'_>, rounds: usize, random: &mut Random) -> Result<Vec<Row>> {
    let ttl = group.setting().ttl;
    let (mut since_kill, mut beyond_lease) = (Times::default(), Times::default());
    for _ in 0..rounds {
        settle(group, "a kill").await?;
        // Anywhere between two renewals.
        let pause = (ttl / 3).mul_f64(random.below(1_000) as f64 / 1_000.0);
        tokio::time::sleep(pause).await;
        let (victim, at) = group.kill(random.below(group.members().len()))?;
        let (held, lease_end) = {
            let ledger = group.witness().ledger()?;
            // What was promised is a tenth of the ttl less than what the store keeps.
            (ledger.held_by(victim), ledger.promised[victim].after(ttl / 10))
        };
        wait_until(ttl + PATIENCE, || Ok(group.witness().ledger()?.held_by(victim).is_empty())).await?;
        let first = group.witness().ledger()?.first_begins(&held, at, |poller| poller != victim);
        since_kill.add_all(at, &first);
        beyond_lease.add_all(lease_end, &first);
        group.start(1).await?;
    }
    let limit = ttl + Duration::from_secs(1);
    Ok(vec![
        Row {
            rounds,
            samples: since_kill.len(),
            measured: since_kill.shown(),
            goal: format!("≤ ttl + 1 s = {}", shown(limit)),
            is_reached: since_kill.are_within(limit.as_secs_f64()),
            figures: since_kill.figures(),
            ..row(group, "Q2", "kill -9 of one of five: until each of its targets is polled by another")
        },
        Row {
            rounds,
            samples: beyond_lease.len(),
            measured: beyond_lease.shown(),
            goal: "> 0 and ≤ 1 s".to_owned(),
            is_reached: beyond_lease.are_within(1.0) && beyond_lease.part(0.0) > 0.0,
            figures: beyond_lease.figures(),
            ..row(group, "Q2", "the same, from the end of the dead one's lease")
        },
    ])
}
