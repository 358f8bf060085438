//! Same snapshot and same log, same state, byte for byte. (kernel.md §6, §7)

use crate::ledger::{Ledger, state_bytes};
use crate::violation::Violation;
use tenure_kernel::{Kernel, Lsn};

const NAME: &str = "replay_equals_live";

/// A snapshot's bytes against the state of all frames up to its position.
pub(crate) fn snapshot(ledger: &Ledger, lsn: Lsn, bytes: &[u8]) -> Result<(), Violation> {
    compare(bytes, &state_bytes(&ledger.state_at(lsn)), "a snapshot differs from the state it is of")
}

/// The live state against that of all frames given out.
pub(crate) fn live(ledger: &Ledger, kernel: &Kernel) -> Result<(), Violation> {
    compare(
        &state_bytes(kernel),
        &state_bytes(&ledger.applied),
        "the live state differs from the state of its frames",
    )
}

/// A recovered state against that of all frames that are durable.
pub(crate) fn recovered(ledger: &Ledger, kernel: &Kernel) -> Result<(), Violation> {
    compare(
        &state_bytes(kernel),
        &state_bytes(&ledger.durable),
        "the recovered state differs from the state that was durable",
    )
}

pub(crate) fn not_built(error: &dyn std::error::Error) -> Violation {
    Violation::new(NAME, format!("no snapshot could be built though nothing was damaged: {error}"))
}

fn compare(found: &[u8], expected: &[u8], text: &str) -> Result<(), Violation> {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let lengths = format!("{} and {} bytes, first difference at {at:?}", found.len(), expected.len());
    Err(Violation::new(NAME, format!("{text} ({lengths})")))
}
