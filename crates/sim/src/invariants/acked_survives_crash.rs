//! Acknowledged is durable: a crash at any instant loses nothing acknowledged, and a start recovers exactly,
//! or refuses, or loses the last frame to damage that cannot be told from a torn write. (DESIGN P4;
//! kernel.md §7, §8)

use crate::ledger::Ledger;
use crate::violation::Violation;
use tenure_kernel::Lsn;

const NAME: &str = "acked_survives_crash";

pub(crate) fn wrong_end(ledger: &Ledger, found: Lsn) -> Violation {
    let text = match ledger.last_in_flight() {
        Some(flight) => {
            format!("the log ends at {found}; {} was durable, {flight} was in flight", ledger.last())
        }
        None => format!("the log ends at {found}; {} was durable", ledger.last()),
    };
    Violation::new(NAME, text)
}

pub(crate) fn nothing_was_there(ledger: &Ledger) -> Result<(), Violation> {
    if ledger.last() == Lsn(0) {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("an empty log was found; {} was durable", ledger.last())))
}

pub(crate) fn refused_without_damage(error: &str) -> Violation {
    Violation::new(NAME, format!("the daemon refuses to start though nothing was damaged: {error}"))
}
