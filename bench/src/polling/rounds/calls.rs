//! Ten pollers and nothing happens: what the store is asked.

use super::{row, settle};
use crate::polling::group::{Group, SETTLE_WITHIN, Settlings};
use crate::polling::server::StoreKind;
use crate::polling::table::{Row, shown};
use anyhow::Result;
use std::time::Duration;
use tenure_client::clock::BootInstant;

const POLLERS: usize = 10;
const CALLS_PER_SECOND_MAX: f64 = 200.0;

pub(crate) async fn measure(group: &mut Group<'_>, window: Duration) -> Result<Vec<Row>> {
    let missing = POLLERS.saturating_sub(group.members().len());
    group.start(missing).await?;
    settle(group, "calls are counted").await?;
    let (before, began) = (group.server().asked().await?, BootInstant::now());
    tokio::time::sleep(window).await;
    let (after, ended) = (group.server().asked().await?, BootInstant::now());
    let took = ended.since(began).as_secs_f64();
    let calls = after.calls.saturating_sub(before.calls);
    let commands = after.commands.saturating_sub(before.commands);
    let rate = calls as f64 / took;
    let inside = match group.server().kind() {
        StoreKind::Tenure => String::new(),
        StoreKind::Redis => {
            format!("; {:.0} commands/s, those inside scripts included", commands as f64 / took)
        }
    };
    Ok(vec![Row {
        samples: usize::try_from(calls)?,
        measured: format!("{rate:.1} calls/s over {took:.0} s{inside}"),
        goal: format!("< {CALLS_PER_SECOND_MAX:.0} calls/s"),
        is_reached: rate < CALLS_PER_SECOND_MAX && group.settle().await?,
        figures: vec![("calls_per_second", rate), ("commands_per_second", commands as f64 / took)],
        ..row(group, "Q7", &format!("{POLLERS} pollers, steady"))
    }])
}

/// How often everything was shared evenly again, of all the times that it was waited for.
pub(crate) fn settlings(group: &Group<'_>) -> Row {
    let Settlings { awaited, reached } = group.settlings();
    Row {
        rounds: awaited,
        samples: awaited,
        measured: format!("{reached} of {awaited} times"),
        goal: format!("always, within {}", shown(SETTLE_WITHIN)),
        is_reached: reached == awaited,
        figures: vec![("unsettled", (awaited - reached) as f64)],
        ..row(group, "Q3", "shared evenly again after each change, every target polled in its time")
    }
}

/// How evenly what lives shares, as the witness saw it.
pub(crate) fn balance(group: &Group<'_>) -> Result<Row> {
    let held = group.held(&*group.witness().ledger()?);
    let (most, least) = (held.iter().max().copied().unwrap_or(0), held.iter().min().copied().unwrap_or(0));
    let cap = group.shares().first().map_or(0, |share| share.cap);
    let pollers = held.len();
    let fair = group.setting().targets as f64 / pollers as f64;
    Ok(Row {
        samples: pollers,
        measured: format!("most {most}, least {least}, fair {fair:.1}"),
        goal: format!("≤ cap = {cap}"),
        is_reached: most > 0 && most <= cap,
        figures: vec![("most", most as f64), ("least", least as f64)],
        ..row(group, "Q3", &format!("{pollers} pollers that live: what each polls"))
    })
}
