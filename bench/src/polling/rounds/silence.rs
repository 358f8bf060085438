//! The store stands still: connected, and without an answer. All polling has to stop before anybody's lease can pass
//! to another, and to go on by itself afterwards.

use super::{row, settle};
use crate::polling::group::{Group, SETTLE_WITHIN};
use crate::polling::record::Kind;
use crate::polling::table::{Row, Times, seconds, seconds_between, shown};
use crate::process::wait_until;
use anyhow::Result;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// How much longer than the ttl it is silent.
const BEYOND: Duration = Duration::from_secs(2);

/// Something was polled within this time: polling goes on.
const BUSY: Duration = Duration::from_millis(100);

pub(crate) async fn measure(group: &mut Group<'_>, rounds: usize) -> Result<Vec<Row>> {
    let ttl = group.setting().ttl;
    // Long enough for every target to be due again.
    let silence = (ttl + BEYOND).max(group.setting().every.mul_f64(1.1) + BEYOND);
    let all: Vec<u32> = (0..group.setting().targets as u32).collect();
    let (mut last_ends, mut back) = (Times::default(), Times::default());
    let mut ends = 0;
    let mut late = 0;
    let mut least_left = f64::INFINITY;
    for _ in 0..rounds {
        settle(group, "a silence").await?;
        // A silence between two polls of everything would show nothing.
        let is_polling = || {
            let ledger = group.witness().ledger()?;
            let now = BootInstant::now();
            Ok(ledger.heard.last().is_some_and(|heard| now.since(heard.record.at) < BUSY))
        };
        wait_until(group.setting().every.mul_f64(1.2), is_polling).await?;
        let at = BootInstant::now();
        group.server().freeze()?;
        tokio::time::sleep(silence).await;
        let until = BootInstant::now();
        group.server().thaw()?;
        let is_polled = || {
            let ledger = group.witness().ledger()?;
            Ok(ledger.latest.iter().all(|latest| latest.is_some_and(|latest| latest.at >= until)))
        };
        wait_until(SETTLE_WITHIN, is_polled).await?;
        let ledger = group.witness().ledger()?;
        back.add_all(until, &ledger.first_begins(&all, until, |_| true));
        let meanwhile = ledger.heard.iter().map(|heard| heard.record);
        let meanwhile =
            meanwhile.filter(|record| record.kind == Kind::End && (at..until).contains(&record.at));
        let mut last = at;
        for record in meanwhile {
            ends += 1;
            late += usize::from(record.at > record.valid_until);
            least_left = least_left.min(seconds_between(record.at, record.valid_until));
            last = last.max(record.at);
        }
        last_ends.add(at, Some(last));
    }
    let promise = ttl - ttl / 10;
    let again = ttl + Duration::from_secs(1);
    Ok(vec![
        Row {
            rounds,
            samples: ends,
            measured: format!(
                "last end after {}; {late} after their promise; at least {} of it left",
                seconds(last_ends.longest()),
                seconds(least_left)
            ),
            goal: format!("≤ ttl − margin = {}; none after its promise", shown(promise)),
            is_reached: ends > 0 && late == 0 && last_ends.are_within(promise.as_secs_f64()),
            figures: vec![
                ("last_end_seconds", last_ends.longest()),
                ("late", late as f64),
                ("least_left_seconds", least_left),
            ],
            ..row(
                group,
                "Q5",
                &format!("SIGSTOP of the store for {}: until the last poll ended", shown(silence)),
            )
        },
        Row {
            rounds,
            samples: back.len(),
            measured: back.shown(),
            goal: format!("by itself; ≤ ttl + 1 s = {}", shown(again)),
            is_reached: back.are_within(again.as_secs_f64()),
            figures: back.figures(),
            ..row(group, "Q5", "SIGCONT: until each target is polled again")
        },
    ])
}
