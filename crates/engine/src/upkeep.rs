//! When a snapshot is due and what history goes. Decides from what there is, whichever process wrote it, and from ticks;
//! knows neither threads nor clocks nor the disk.
//!
//! Segments go only below the older of two snapshots. History that should go and is not covered by one yet brings
//! snapshots, and where nothing was written since the newest of them, a record.

use std::time::Duration;
use tenure_kernel::planted::{Planted, planted};
use tenure_log::snapshot::SnapshotHeader;
use tenure_log::{Extent, HistoryWindow, Lsn, Space, bytes_above};

/// How often the log is looked at while turns are run anyway.
const LOOK_EVERY_MS: u64 = 1_000;
/// How often it is looked at while nothing happens.
const LOOK_IDLE_MS: u64 = 60_000;
/// The log was busy when it was to be looked at.
const LOOK_AGAIN_MS: u64 = 10;
/// Pause after work away from the hot path failed, and between two snapshots.
pub(crate) const RETRY_AFTER_MS: u64 = 5_000;

/// Settings of the log's care.
#[derive(Clone, Debug)]
pub struct UpkeepOptions {
    /// A snapshot is taken when this many bytes of log lie above the newest one, or twice its length.
    pub snapshot_bytes_min: u64,
    /// History kept at most, in bytes of log.
    pub history_bytes_max: u64,
    /// History kept at most, by age in ticks.
    pub history_age_max: Duration,
}

impl Default for UpkeepOptions {
    fn default() -> Self {
        Self {
            snapshot_bytes_min: 256 << 20,
            history_bytes_max: 1 << 30,
            history_age_max: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

/// What there is.
pub struct Found<'a> {
    /// Oldest first; the last one is being written.
    pub extents: &'a [Extent],
    /// Oldest first.
    pub snapshots: &'a [SnapshotHeader],
    /// How much room the disk has.
    pub space: Space,
    /// Now.
    pub tick: u64,
}

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing is due.
    Nothing,
    /// A snapshot is taken.
    Snapshot,
    /// Something has to be written before another snapshot can be taken.
    Record,
    /// Extents below here go.
    Trim(Lsn),
}

/// Decides it.
pub(crate) struct Upkeep {
    snapshot_bytes_min: u64,
    history_bytes_max: u64,
    history_age_ms_max: u64,
    /// The next look with any turn, and the one for whose sake a turn is run, in boot time.
    look_at_ms: u64,
    wake_at_ms: u64,
    /// Appended since the last look; much of it brings the next one forward. Says nothing of what other processes wrote.
    unlooked_bytes: u64,
    snapshot_under_way: bool,
    /// No snapshot is begun before, in boot time.
    snapshot_at_ms: u64,
    /// The last attempt stored one.
    snapshot_stored: bool,
}

impl Upkeep {
    /// Looks first at what other processes left.
    pub(crate) fn new(options: &UpkeepOptions) -> Self {
        Self {
            snapshot_bytes_min: options.snapshot_bytes_min,
            history_bytes_max: options.history_bytes_max,
            history_age_ms_max: u64::try_from(options.history_age_max.as_millis()).unwrap_or(u64::MAX),
            look_at_ms: 0,
            wake_at_ms: 0,
            unlooked_bytes: 0,
            snapshot_under_way: false,
            snapshot_at_ms: 0,
            snapshot_stored: false,
        }
    }

    /// The log became longer.
    pub(crate) fn grew(&mut self, bytes: u64) {
        self.unlooked_bytes = self.unlooked_bytes.saturating_add(bytes);
        if self.unlooked_bytes >= self.snapshot_bytes_min {
            self.look_at_ms = 0;
        }
    }

    /// Whether the log is looked at with this turn.
    pub(crate) fn is_look_due(&self, now_ms: u64) -> bool {
        now_ms >= self.look_at_ms
    }

    /// When a turn is run for the next look's sake.
    pub(crate) fn wake_at_ms(&self) -> u64 {
        self.wake_at_ms
    }

    /// Something waits for a look, which comes with a turn of its own.
    pub(crate) fn look_now(&mut self) {
        (self.look_at_ms, self.wake_at_ms) = (0, 0);
    }

    /// The log could not be looked at.
    pub(crate) fn look_again(&mut self, now_ms: u64) {
        self.look_at_ms = now_ms.saturating_add(LOOK_AGAIN_MS);
        self.wake_at_ms = self.look_at_ms;
    }

    /// Takes in what there is and says what is to be done.
    pub(crate) fn look(&mut self, now_ms: u64, found: &Found<'_>) -> Step {
        // What must go waits for two of them: the second follows the first at once.
        if self.snapshot_stored && !self.surplus(found, u64::MAX).is_empty() {
            self.snapshot_at_ms = 0;
        }
        let step = self.due(found);
        let wake_in_ms = match (step, found.space) {
            (Step::Nothing, Space::Ok) => LOOK_IDLE_MS,
            (Step::Nothing | Step::Snapshot | Step::Record | Step::Trim(_), _) => LOOK_EVERY_MS,
        };
        if !planted(Planted::SnapshotCountsOwnBytes) || step == Step::Snapshot {
            self.unlooked_bytes = 0;
        }
        self.look_at_ms = now_ms.saturating_add(LOOK_EVERY_MS);
        self.wake_at_ms = now_ms.saturating_add(wake_in_ms);
        match step {
            Step::Snapshot if !self.begin_snapshot(now_ms) => Step::Nothing,
            Step::Record if self.snapshot_under_way => Step::Nothing,
            step => step,
        }
    }

    /// Whether a snapshot may be begun now; if so, it is.
    pub(crate) fn begin_snapshot(&mut self, now_ms: u64) -> bool {
        if self.snapshot_under_way || now_ms < self.snapshot_at_ms {
            return false;
        }
        self.snapshot_under_way = true;
        self.snapshot_at_ms = now_ms.saturating_add(RETRY_AFTER_MS);
        true
    }

    /// A snapshot attempt came to its end.
    pub(crate) fn snapshot_done(&mut self, stored: bool) {
        self.snapshot_under_way = false;
        self.snapshot_stored = stored;
        self.look_at_ms = 0;
    }

    fn due(&self, found: &Found<'_>) -> Step {
        let newest = found.snapshots.last();
        let floor = match found.snapshots {
            [.., older, _newest] => older.lsn,
            [] | [_] => Lsn::ZERO,
        };
        let surplus = self.surplus(found, self.history_bytes_max);
        let covered = surplus.iter().take_while(|extent| extent.last_lsn <= floor).count();
        if let (1.., Some(kept)) = (covered, found.extents.get(covered)) {
            return Step::Trim(kept.first_lsn);
        }
        let above = if planted(Planted::SnapshotCountsOwnBytes) {
            self.unlooked_bytes
        } else {
            bytes_above(found.extents, newest.map_or(Lsn::ZERO, |newest| newest.lsn))
        };
        let last_bytes = newest.map_or(0, |newest| newest.payload_bytes);
        if above >= self.snapshot_bytes_min.max(last_bytes.saturating_mul(2)) {
            return Step::Snapshot;
        }
        // Bytes alone wait for the next snapshot; age and a full disk do not.
        let end = found.extents.last().map_or(Lsn::ZERO, |last| last.last_lsn);
        match self.surplus(found, u64::MAX) {
            [] => Step::Nothing,
            [..] if planted(Planted::HistoryAgeWaits) => Step::Nothing,
            [..] if newest.is_some_and(|newest| newest.lsn >= end) => Step::Record,
            [..] => Step::Snapshot,
        }
    }

    /// The extents that should go, were they covered.
    fn surplus<'a>(&self, found: &Found<'a>, bytes_max: u64) -> &'a [Extent] {
        let Some((current, sealed)) = found.extents.split_last() else { return &[] };
        let oldest_tick = found.tick.saturating_sub(self.history_age_ms_max);
        let window = HistoryWindow { bytes_max, oldest_tick };
        let kept = match found.space {
            Space::Ok => window.filled_by(found.extents),
            Space::Low => Some(current),
        };
        let Some(kept) = kept else { return &[] };
        let count = sealed.iter().take_while(|extent| extent.first_lsn < kept.first_lsn).count();
        &sealed[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_log::Moment;

    const HOUR_MS: u64 = 60 * 60 * 1_000;

    fn upkeep() -> Upkeep {
        Upkeep::new(&UpkeepOptions {
            snapshot_bytes_min: 1_000,
            history_bytes_max: 10_000,
            history_age_max: Duration::from_secs(24 * 60 * 60),
        })
    }

    /// Extents of a hundred records and as many bytes as given, one begun every hour.
    fn extents(bytes: &[u64]) -> Vec<Extent> {
        let extent = |(index, bytes): (u64, &u64)| Extent {
            first_lsn: Lsn(index * 100 + 1),
            last_lsn: Lsn(index * 100 + 100),
            bytes: *bytes,
            used_bytes: *bytes,
            began_tick: index * HOUR_MS,
        };
        (0..).zip(bytes).map(extent).collect()
    }

    fn snapshots(lsns: &[u64], payload_bytes: u64) -> Vec<SnapshotHeader> {
        let at = Moment::default();
        lsns.iter().map(|lsn| SnapshotHeader { log_id: 1, lsn: Lsn(*lsn), at, payload_bytes }).collect()
    }

    fn due(bytes: &[u64], lsns: &[u64], space: Space, tick: u64) -> Step {
        let (extents, snapshots) = (extents(bytes), snapshots(lsns, 10));
        upkeep().due(&Found { extents: &extents, snapshots: &snapshots, space, tick })
    }

    #[test]
    fn bytes_above_the_newest_snapshot_bring_one_whoever_wrote_them() {
        assert_eq!(due(&[400, 400], &[], Space::Ok, 0), Step::Nothing);
        assert_eq!(due(&[500, 500], &[], Space::Ok, 0), Step::Snapshot);
        assert_eq!(due(&[500, 500], &[100], Space::Ok, 0), Step::Nothing, "half of them are covered");
        assert_eq!(due(&[500, 500, 500], &[100], Space::Ok, 0), Step::Snapshot);
    }

    #[test]
    fn a_large_snapshot_is_taken_again_only_after_twice_its_length() {
        let step = |bytes: &[u64]| {
            let (extents, snapshots) = (extents(bytes), snapshots(&[100], 2_000));
            upkeep().due(&Found { extents: &extents, snapshots: &snapshots, space: Space::Ok, tick: 0 })
        };
        assert_eq!(step(&[500, 3_999]), Step::Nothing);
        assert_eq!(step(&[500, 4_000]), Step::Snapshot);
    }

    #[test]
    fn more_history_than_wanted_goes_as_far_as_the_older_snapshot_covers_it() {
        let bytes = [6_000, 6_000, 6_000, 1];
        assert_eq!(due(&bytes, &[250, 400], Space::Ok, 0), Step::Trim(Lsn(101)));
        assert_eq!(
            due(&bytes, &[99, 400], Space::Ok, 0),
            Step::Nothing,
            "bytes bring no snapshot by themselves"
        );
        assert_eq!(
            due(&bytes, &[400], Space::Ok, 0),
            Step::Nothing,
            "one damaged file must not cost the state"
        );
    }

    #[test]
    fn history_due_by_age_brings_two_snapshots_a_record_between_them_and_a_trim() {
        let bytes = [9, 9, 9, 9];
        let day = 24 * HOUR_MS;
        assert_eq!(
            due(&bytes, &[], Space::Ok, day + HOUR_MS),
            Step::Nothing,
            "the oldest still has what is wanted"
        );
        let late = day + HOUR_MS + 1;
        assert_eq!(due(&bytes, &[], Space::Ok, late), Step::Snapshot);
        assert_eq!(due(&bytes, &[400], Space::Ok, late), Step::Record, "nothing is new since then");
        assert_eq!(due(&bytes, &[399], Space::Ok, late), Step::Snapshot);
        assert_eq!(due(&bytes, &[399, 400], Space::Ok, late), Step::Trim(Lsn(101)));
    }

    #[test]
    fn a_full_disk_asks_for_what_is_needed_until_nothing_more_can_go() {
        let low = |bytes: &[u64], lsns: &[u64]| due(bytes, lsns, Space::Low, 0);
        assert_eq!(low(&[9, 9, 9], &[]), Step::Snapshot);
        assert_eq!(low(&[9, 9, 9], &[300]), Step::Record);
        assert_eq!(low(&[9, 9, 9], &[299]), Step::Snapshot);
        assert_eq!(low(&[9, 9, 9], &[150, 299]), Step::Trim(Lsn(101)), "what is covered goes first");
        assert_eq!(low(&[9, 9, 9], &[250, 300]), Step::Trim(Lsn(201)));
        assert_eq!(low(&[9], &[50]), Step::Nothing, "what is being written stays");
    }

    #[test]
    fn a_failed_snapshot_is_tried_again_after_a_pause_and_the_second_follows_the_first_at_once() {
        let mut upkeep = upkeep();
        let (extents, none) = (extents(&[500, 500]), snapshots(&[], 10));
        let found = Found { extents: &extents, snapshots: &none, space: Space::Low, tick: 0 };
        assert!(upkeep.is_look_due(0));
        assert_eq!(upkeep.look(0, &found), Step::Snapshot);
        assert!(!upkeep.is_look_due(LOOK_EVERY_MS - 1));
        assert_eq!(upkeep.look(9_000, &found), Step::Nothing, "one at a time");
        upkeep.snapshot_done(false);
        assert!(upkeep.is_look_due(9_000));
        assert_eq!(upkeep.look(9_000, &found), Step::Snapshot);
        upkeep.snapshot_done(false);
        assert_eq!(upkeep.look(9_001, &found), Step::Nothing, "not at once after a failure");
        assert_eq!(upkeep.wake_at_ms(), 9_001 + LOOK_EVERY_MS, "a turn is run for it");
        assert_eq!(upkeep.look(9_000 + RETRY_AFTER_MS, &found), Step::Snapshot);
        upkeep.snapshot_done(true);
        let one = snapshots(&[150], 10);
        let found = Found { snapshots: &one, ..found };
        assert_eq!(upkeep.look(9_000 + RETRY_AFTER_MS, &found), Step::Snapshot);
    }

    #[test]
    fn much_new_log_brings_the_next_look_forward() {
        let mut upkeep = upkeep();
        let (extents, none) = (extents(&[9]), snapshots(&[], 10));
        let found = Found { extents: &extents, snapshots: &none, space: Space::Ok, tick: 0 };
        assert_eq!(upkeep.look(5, &found), Step::Nothing);
        assert_eq!(upkeep.wake_at_ms(), 5 + LOOK_IDLE_MS);
        upkeep.grew(999);
        assert!(!upkeep.is_look_due(6));
        upkeep.grew(1);
        assert!(upkeep.is_look_due(6));
    }
}
