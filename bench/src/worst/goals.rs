//! What others may see of one client's worst, as data.

use super::attacks::Attack;
use super::{CLOSES, MEMORY, RENEWS, STATUS};
use crate::peers::figures::{Figure, Figures, Quantity};
use crate::peers::goals::{Bound, Goal, Judged, Measured, Unit};

/// Seconds.
const RENEWAL_P99: f64 = 0.05;
const CLOSE_LONGEST: f64 = 1.0;
const STATUS_LONGEST: f64 = 1.0;
/// Bytes: what unread answers may take in all (record 0053); everything else that one client takes is less.
const MEMORY_MAX: f64 = 512.0 * 1024.0 * 1024.0;

/// Every goal held against a run.
pub(crate) fn judge(figures: &Figures) -> Vec<Judged> {
    Attack::ALL.into_iter().flat_map(goals).map(|goal| goal.judge(figures)).collect()
}

fn goals(attack: Attack) -> [Goal; 5] {
    let goal = |claim, what, quantity, unit, most| Goal {
        work: attack.as_str().to_owned(),
        claim,
        measured: Measured::Value(Figure::new(attack.as_str(), what, quantity), unit),
        bound: Bound::AtMost(most),
    };
    [
        goal("others' renewals: p99 ≤ 50 ms", RENEWS, Quantity::P99, Unit::Milliseconds, RENEWAL_P99),
        goal("others' renewals: none refused", RENEWS, Quantity::Refused, Unit::Count, 0.0),
        goal(
            "a close is noticed: longest ≤ 1 s",
            CLOSES,
            Quantity::Longest,
            Unit::Milliseconds,
            CLOSE_LONGEST,
        ),
        goal("`status`: longest ≤ 1 s", STATUS, Quantity::Longest, Unit::Milliseconds, STATUS_LONGEST),
        goal("memory grows by ≤ 512 MiB", MEMORY, Quantity::BytesEach, Unit::Bytes, MEMORY_MAX),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_renewal_is_a_miss_and_a_quick_one_is_not() {
        let mut figures = Figures::default();
        let [calm, joins, ..] = Attack::ALL;
        for (attack, seconds) in [(calm, 0.049), (joins, 0.051)] {
            figures.add(0, Figure::new(attack.as_str(), RENEWS, Quantity::P99), seconds);
        }
        let marks: Vec<_> = judge(&figures).iter().step_by(5).take(3).map(Judged::mark).collect();
        assert_eq!(marks, ["ok", "MISSED", "–"]);
    }
}
