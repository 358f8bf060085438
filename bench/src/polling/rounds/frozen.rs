//! One of the pollers stands still for longer than its ttl and goes on: nothing that it does then may count.

use super::{row, settle};
use crate::gauge::Random;
use crate::polling::group::{Group, SETTLE_WITHIN};
use crate::polling::table::{Row, Times, seconds};
use crate::polling::witness::Latest;
use crate::process::wait_until;
use anyhow::Result;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// How much longer than its ttl it stands still.
const BEYOND: Duration = Duration::from_secs(3);

/// What the rounds say for themselves; what they did to the group is judged with everything else.
pub(crate) struct Stood {
    rounds: usize,
    /// From going on to the first poll with a fence of its own.
    back: Times,
    /// Targets that nobody took over meanwhile.
    left_alone: usize,
    held: usize,
}

pub(crate) async fn measure(group: &mut Group<'_>, rounds: usize, random: &mut Random) -> Result<Stood> {
    let ttl = group.setting().ttl;
    let mut stood = Stood { rounds, back: Times::default(), left_alone: 0, held: 0 };
    for _ in 0..rounds {
        settle(group, "a freeze").await?;
        let place = random.below(group.members().len());
        let number = group.members()[place].number;
        let frozen = group.freeze(place)?;
        stood.held += group.witness().ledger()?.held_by(number).len();
        tokio::time::sleep(ttl + BEYOND).await;
        stood.left_alone += group.witness().ledger()?.held_by(number).len();
        let at = group.thaw(place, frozen)?;
        let first_back = || -> Result<Option<BootInstant>> {
            let ledger = group.witness().ledger()?;
            let is_its = |latest: &&Latest| latest.poller == number && latest.at >= at;
            Ok(ledger.latest.iter().flatten().filter(is_its).map(|latest| latest.at).min())
        };
        wait_until(SETTLE_WITHIN, || Ok(first_back()?.is_some())).await?;
        stood.back.add(at, first_back()?);
    }
    Ok(stood)
}

/// What a sink would have said to everything that the group ever polled.
pub(crate) fn rows(group: &Group<'_>, stood: Option<&Stood>, rounds: usize) -> Result<Vec<Row>> {
    let verdict = group.verdict()?;
    let polls = usize::try_from(verdict.polls)?;
    let in_flight = format!(
        "{} begun; {} that ran when their process was stopped ended with a fence that had been passed",
        verdict.begins_refused, verdict.ends_refused
    );
    let mut rows = vec![
        Row {
            rounds,
            samples: polls,
            measured: format!("{} overlaps, {} fences used by two", verdict.overlaps, verdict.shared_fences),
            goal: "0".to_owned(),
            is_reached: polls > 0 && verdict.overlaps == 0 && verdict.shared_fences == 0,
            figures: vec![
                ("overlaps", verdict.overlaps as f64),
                ("shared_fences", verdict.shared_fences as f64),
            ],
            ..row(group, "Q1", "accepted polls that overlap, whole run")
        },
        Row {
            rounds,
            samples: polls,
            measured: in_flight,
            goal: "0 begun".to_owned(),
            is_reached: polls > 0 && verdict.begins_refused == 0,
            figures: vec![("begins_refused", verdict.begins_refused as f64)],
            ..row(group, "Q1", "polls that a sink would refuse, whole run")
        },
    ];
    if let Some(stood) = stood {
        rows.push(Row {
            rounds: stood.rounds,
            samples: stood.held,
            measured: format!(
                "{} not taken over; polling again {} after SIGCONT",
                stood.left_alone,
                seconds(stood.back.longest())
            ),
            goal: "0 not taken over; comes back by itself".to_owned(),
            is_reached: stood.left_alone == 0 && stood.back.never == 0,
            figures: vec![("left_alone", stood.left_alone as f64), ("back_seconds", stood.back.longest())],
            ..row(group, "Q1", "SIGSTOP of one of five for ttl + 3 s, SIGCONT")
        });
    }
    Ok(rows)
}
