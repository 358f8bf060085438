//! A lone poller: how long from the start of its process until it polls, and until it has polled everything.

use super::row;
use crate::polling::Setting;
use crate::polling::group::{Group, SETTLE_WITHIN};
use crate::polling::server::StoreServer;
use crate::polling::table::{Row, Times, shown};
use crate::process::wait_until;
use anyhow::Result;
use std::time::Duration;

/// At once, for somebody who watches it start.
const AT_ONCE: Duration = Duration::from_millis(500);

pub(crate) async fn measure(setting: &Setting, server: &StoreServer, rounds: usize) -> Result<Vec<Row>> {
    let all: Vec<u32> = (0..setting.targets as u32).collect();
    let (mut first, mut last, mut first_since_join) = (Times::default(), Times::default(), Times::default());
    for round in 0..rounds {
        let mut group = Group::new(setting, server, &format!("alone-{round}"))?;
        group.start(1).await?;
        let is_polled = || Ok(group.witness().ledger()?.latest.iter().all(Option::is_some));
        wait_until(SETTLE_WITHIN, is_polled).await?;
        let started = group.members()[0].started;
        {
            let ledger = group.witness().ledger()?;
            let begins = ledger.first_begins(&all, started, |_| true);
            let earliest = begins.iter().flatten().min().copied();
            first.add(started, earliest);
            first_since_join.add(ledger.pollers[0].began, earliest);
            // Without the last one there is no time until it.
            let is_whole = begins.iter().all(Option::is_some);
            last.add(started, begins.into_iter().flatten().max().filter(|_| is_whole));
        }
        group.end().await?;
    }
    let group = Group::new(setting, server, "alone")?;
    Ok(vec![
        Row {
            rounds,
            samples: first.len(),
            measured: format!("{}; from the join {}", first.shown(), first_since_join.shown()),
            goal: format!("no delay: ≤ {}", shown(AT_ONCE)),
            is_reached: first.are_within(AT_ONCE.as_secs_f64()),
            figures: first.figures(),
            ..row(&group, "Q6", "a lone poller, from the start of its process to its first poll")
        },
        Row {
            rounds,
            samples: last.len(),
            measured: last.shown(),
            goal: format!("≤ one interval = {}", shown(setting.every)),
            is_reached: last.are_within(setting.every.as_secs_f64()),
            figures: last.figures(),
            ..row(&group, "Q6", &format!("the same, to the first poll of the {}th target", setting.targets))
        },
    ])
}
