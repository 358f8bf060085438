//! The story of a target: beside who polled it, what operators said about where it is to be, which stands in a lease of
//! its own.

use super::group::read_pin;
use std::error::Error as StdError;
use tenure_api::PollName;
use tenure_engine::kernel::{Change, Event};
use tenure_history::{Entry, History, Subject, WhyLimits};

/// Adds what operators said of a target to its story. Blocks on the disk.
pub(crate) fn add_pins(
    history: &mut History,
    subject: &Subject,
    entries: &mut Vec<Entry>,
) -> Result<(), Box<dyn StdError + Send + Sync>> {
    let Subject::Resource(name) = subject else { return Ok(()) };
    let Some((group, PollName::Target(target))) = PollName::of_resource(name) else { return Ok(()) };
    let Ok(pin) = PollName::Pin(target).resource(group) else { return Ok(()) };
    let pins = history.why(&Subject::Resource(pin.into()), WhyLimits::default())?;
    for entry in pins.entries {
        let record = history.record(entry.lsn)?;
        let told = record.as_ref().and_then(|record| record.event()).and_then(told);
        entries.extend(told.map(|(kind, text)| Entry { kind, text, ..entry }));
    }
    entries.sort_by_key(|entry| entry.lsn);
    Ok(())
}

/// What an event of a pin says of the target.
fn told(event: &Event) -> Option<(&'static str, String)> {
    let pinned = |attachment: &[u8], holder: &str| {
        let poller = read_pin(attachment)?;
        Some(("pinned", format!("pinned to poller {poller} by {holder}")))
    };
    let gone = "not pinned any more";
    match &event.change {
        Change::Granted(granted) => pinned(&granted.attachment, &granted.holder),
        Change::Rebound(rebound) => pinned(rebound.attachment.as_deref()?, &rebound.holder),
        Change::Released(_) => Some(("unpinned", format!("{gone}: its group assigns it"))),
        Change::Reclaimed(reclaimed) => {
            Some(("unpinned", format!("{gone}: the pin ended ({})", reclaimed.reason.as_str())))
        }
        Change::Activated { .. }
        | Change::Amended(_)
        | Change::Drained(_)
        | Change::Revived(_)
        | Change::Revoked(_)
        | Change::Expired(_)
        | Change::Notified { .. }
        | Change::SessionOpened(_)
        | Change::SessionClosed { .. }
        | Change::PoolDefined { .. }
        | Change::PoolRemoved { .. }
        | Change::Trimmed { .. }
        | Change::Configured(_) => None,
    }
}
