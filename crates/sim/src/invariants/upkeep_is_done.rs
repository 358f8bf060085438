//! The log stays short, whichever process wrote it: a snapshot is taken when enough of it lies above the newest one,
//! and history goes when it is past its age, or past its bytes and covered by two snapshots. What a start finds due is
//! done soon; restarts in bursts put nothing off. (kernel.md §7 "Snapshot", "Trimming")

use super::Verdict;
use crate::ledger::Ledger;
use crate::violation::Violation;
use tenure_engine::UpkeepOptions;
use tenure_kernel::{Change, Tick};
use tenure_log::snapshot::SnapshotHeader;
use tenure_log::{Extent, Lsn};

const NAME: &str = "upkeep_is_done";
/// What is due when a daemon starts: two snapshots with a pause, a record between them, a trim.
const AFTER_START_MS: u64 = 15_000;
/// What becomes due while nothing happens waits for the next look too.
const LATER_MS: u64 = 60_000 + AFTER_START_MS;
/// So many looks and appends are waited for one after the other.
const STEPS: u64 = 6;

/// What there is of the log at the end of a turn.
pub(crate) struct Kept<'a> {
    pub(crate) now: u64,
    pub(crate) tick: Tick,
    pub(crate) extents: &'a [Extent],
    pub(crate) snapshots: &'a [SnapshotHeader],
    pub(crate) options: &'a UpkeepOptions,
    /// Longest append, and longest lateness of a turn for a look's sake.
    pub(crate) late_ms: u64,
}

/// Since when something has been due without a break in this life of the daemon.
#[derive(Default)]
pub(super) struct Upkept {
    /// A turn of this life was looked at.
    has_begun: bool,
    snapshot: Option<Due>,
    history: Option<Due>,
}

struct Due {
    since: u64,
    within_ms: u64,
}

impl Upkept {
    pub(super) fn turn(&mut self, kept: &Kept<'_>) -> Verdict {
        let within_ms = if self.has_begun { LATER_MS } else { AFTER_START_MS };
        self.has_begun = true;
        let within_ms = within_ms + STEPS * kept.late_ms;
        judge(&mut self.snapshot, snapshot_due(kept), kept.now, within_ms, "a snapshot")?;
        judge(&mut self.history, history_due(kept), kept.now, within_ms, "old history")
    }

    /// The daemon could not have done anything.
    pub(super) fn stood_still(&mut self) {
        (self.has_begun, self.snapshot, self.history) = (true, None, None);
    }
}

fn judge(since: &mut Option<Due>, due: Option<String>, now: u64, within_ms: u64, what: &str) -> Verdict {
    let Some(why) = due else {
        *since = None;
        return Ok(());
    };
    let due = since.get_or_insert(Due { since: now, within_ms });
    let waits_ms = now - due.since;
    if waits_ms <= due.within_ms {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{what} has been waited for for {waits_ms} ms: {why}")))
}

/// Segments that lie above the newest snapshot as a whole hold enough for another one.
fn snapshot_due(kept: &Kept<'_>) -> Option<String> {
    let newest = kept.snapshots.last();
    let covered = newest.map_or(Lsn::ZERO, |newest| newest.lsn);
    // One that holds the opening frames of writers alone has nothing that a snapshot could cover.
    let above = |extent: &&Extent| extent.first_lsn > covered && extent.last_lsn >= extent.first_lsn;
    let bytes: u64 = kept.extents.iter().filter(above).map(|extent| extent.used_bytes).sum();
    let enough = kept.options.snapshot_bytes_min.max(2 * newest.map_or(0, |newest| newest.payload_bytes));
    (bytes >= enough).then(|| format!("{bytes} bytes lie above {covered}, {enough} are enough"))
}

/// A segment is kept although all of it is too old, or because of its bytes alone although two snapshots cover it.
fn history_due(kept: &Kept<'_>) -> Option<String> {
    let age_ms = u64::try_from(kept.options.history_age_max.as_millis()).unwrap_or(u64::MAX);
    let [oldest, next, ..] = kept.extents else { return None };
    let oldest_lsn = oldest.first_lsn;
    if next.began_tick < kept.tick.0.saturating_sub(age_ms) {
        return Some(format!("all of the segment at {oldest_lsn} is older than {age_ms} ms"));
    }
    let later: u64 = kept.extents[1..].iter().map(|extent| extent.bytes).sum();
    let most = kept.options.history_bytes_max;
    match kept.snapshots {
        [older, _newest] if oldest.last_lsn <= older.lsn && later > most => {
            Some(format!("{later} bytes follow the segment at {oldest_lsn}, {most} are kept"))
        }
        _ => None,
    }
}

/// Segments go once the log has recorded it: who replays it must not look for what they held.
pub(crate) fn trim_was_recorded(ledger: &Ledger, below: Lsn) -> Verdict {
    let is_it = |change: &Change| matches!(change, Change::Trimmed { below: told } if told.0 >= below.0);
    if ledger.events().any(|recorded| is_it(&recorded.event.change)) {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("segments below {below} went and no durable event tells of it")))
}
