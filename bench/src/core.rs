//! The rows of the core, in the order of the table.

use crate::gauge::Row;
use crate::rows;

type Measure = fn(Size) -> anyhow::Result<Vec<Row>>;

/// How large the rows are.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Live leases in the large rows.
    pub(crate) leases: usize,
    /// Seconds a load runs.
    pub(crate) seconds: f64,
    /// Times a pair is measured, alternating; the middle counts.
    pub(crate) rounds: usize,
}

pub(crate) fn measure(quick: bool, only: Option<&str>) -> anyhow::Result<Vec<Row>> {
    let size = if quick {
        Size { leases: 100_000, seconds: 0.7, rounds: 3 }
    } else {
        Size { leases: 1_000_000, seconds: 3.0, rounds: 5 }
    };
    let all: [(&str, Measure); 9] = [
        ("kernel", rows::kernel::measure),
        ("heartbeat", rows::heartbeat::measure),
        ("durable", rows::durable::measure),
        ("memory", rows::memory::measure),
        ("storm", rows::storm::measure),
        ("turn", rows::turns::measure),
        ("waiting", rows::waiting::measure),
        ("recovery", rows::recovery::measure),
        ("snapshot", rows::snapshot::measure),
    ];
    let mut table = Vec::new();
    for (name, measure) in all {
        if only.is_none_or(|only| name.contains(only)) {
            table.extend(measure(size)?);
        }
    }
    Ok(table)
}
