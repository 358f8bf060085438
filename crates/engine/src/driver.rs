//! What an engine needs around it, as a machine: requests, completions and looks at its log come in; frames, answers and
//! jobs go out. It decides when the log is looked at, when a snapshot is taken, what history goes, when chores run, for how
//! long a frame is gathered. The host carries its jobs out with threads, the simulator with events.
//!
//! Invariant: it has no thread, no channel and no clock, and a turn never waits for the log.

use crate::answer::Answer;
use crate::engine::{Appended, Completion, Engine, Outputs, Role, Stop};
use crate::hub::LogRead;
use crate::journal::Out;
use crate::report::Task;
use crate::request::{Input, Request, Ticket};
use crate::ticker::Now;
use crate::upkeep::{Found, RETRY_AFTER_MS, Step, Upkeep, UpkeepOptions};
use std::time::Duration;
use tenure_kernel::Lsn;
use tenure_log::{Authority, Batch, Moment, Space};

/// The driver's own request; callers' tickets count up from one.
const TRIM_TICKET: Ticket = Ticket(u64::MAX);
/// Pause after the engine did not take it.
const TRIM_AGAIN_MS: u64 = 1_000;
/// Frames of at least this many records are followed by one that is gathered for a while.
const GATHER_RECORDS_MIN: u32 = 32;
/// The part of a round trip that gathering may take.
const GATHER_PART: u32 = 8;

/// An engine and the care of its log.
pub struct Driver {
    engine: Engine,
    inputs: Vec<Input>,
    completions: Vec<Completion>,
    upkeep: Upkeep,
    space: Space,
    trim: Trim,
    /// A snapshot up to here was asked for.
    snapshot_upto: Option<Lsn>,
    chores: Chores,
    course: Course,
}

/// Work beside the log's writing: spare segments, removals.
#[derive(Default)]
struct Chores {
    wanted: bool,
    under_way: bool,
    /// None before, in boot time: a full disk stays full for a while.
    not_before_ms: u64,
}

/// How far a trim has come: the log records it first, then the extents go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trim {
    None,
    /// The engine is to be asked for the record.
    Wanted(tenure_log::Lsn),
    /// It was asked.
    Asked(tenure_log::Lsn),
    UnderWay,
}

/// Where the driver is heading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Course {
    GoesOn,
    /// It finishes what it has and closes the log.
    Closes,
    /// It stops as it is; somebody goes on with the engine.
    HandsOver,
}

/// Work on the log away from its writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// Store a snapshot of the state at the last whole frame up to a position; then [`Driver::snapshot_done`].
    Snapshot {
        /// Up to there.
        upto: Lsn,
    },
    /// Let extents below a position go; then [`Driver::trimmed`].
    Trim {
        /// Below there.
        below: tenure_log::Lsn,
    },
    /// Run what the log wants to have run; then [`Driver::chore_done`].
    Chore,
}

/// What came of a turn.
#[derive(Debug, Default)]
pub struct Turned {
    /// What leaves.
    pub outs: Vec<Out>,
    /// A frame to append; then [`Completion::Appended`].
    pub append: Option<Batch>,
    /// A frame whose outcome is to be found out; then [`Completion::Resolved`].
    pub resolve: Option<Batch>,
    /// Reads of the log for watchers; then [`Completion::LogRead`] for each.
    pub reads: Vec<LogRead>,
    /// Other work on the log.
    pub jobs: Vec<Job>,
    /// When time alone brings the engine's next turn: after so many milliseconds, zero: there is more to do at once.
    pub wake_in_ms: Option<u64>,
    /// When the log's care wants one, in boot time.
    pub upkeep_at_ms: Option<u64>,
    /// The engine had to stop.
    pub stop: Option<Stop>,
}

impl Driver {
    /// A driver that looks first at what other processes left.
    #[must_use]
    pub fn new(engine: Engine, options: &UpkeepOptions) -> Self {
        Self {
            engine,
            inputs: Vec::new(),
            completions: Vec::new(),
            upkeep: Upkeep::new(options),
            space: Space::Ok,
            trim: Trim::None,
            snapshot_upto: None,
            chores: Chores::default(),
            course: Course::GoesOn,
        }
    }

    /// The engine, for reading.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine as it is.
    #[must_use]
    pub fn into_engine(self) -> Engine {
        self.engine
    }

    /// Takes a request for the next turn.
    pub fn asked(&mut self, input: Input) {
        self.inputs.push(input);
    }

    /// Makes room for so many requests.
    pub fn reserve(&mut self, requests: usize) {
        self.inputs.reserve(requests);
    }

    /// Takes in what finished.
    pub fn completed(&mut self, completion: Completion) {
        match &completion {
            Completion::Appended { batch, .. } | Completion::Copied(batch) => {
                self.upkeep.grew(batch.payload().len() as u64);
            }
            Completion::Resolved { .. }
            | Completion::LogRead(_)
            | Completion::Space(_)
            | Completion::Worked(..)
            | Completion::Stalled { .. }
            | Completion::RecordWanted
            | Completion::Authority(_)
            | Completion::Gather(_)
            | Completion::Told(_)
            | Completion::Format(_)
            | Completion::Fenced => {}
        }
        self.completions.push(completion);
    }

    /// The log has chores to run, as it said when it was written to.
    pub fn wants_chore(&mut self) {
        self.chores.wanted = true;
    }

    /// A trim is done; `wants_chore`: extents are to be removed.
    pub fn trimmed(&mut self, wants_chore: bool) {
        self.trim = Trim::None;
        self.chores.wanted |= wants_chore;
        self.upkeep.look_now();
    }

    /// A chore ended; `wanted`: there are more.
    pub fn chore_done(&mut self, now: Now, done: Option<(Task, Option<String>)>, wanted: bool) {
        self.chores.under_way = false;
        self.chores.wanted |= wanted;
        if let Some((task, error)) = done {
            if error.is_some() {
                self.chores.not_before_ms = now.boot_ms.saturating_add(RETRY_AFTER_MS);
            }
            self.completions.push(Completion::Worked(task, error));
        }
    }

    /// A snapshot attempt ended. One that fails leaves the log as it was; another one is tried while it is due.
    pub fn snapshot_done(&mut self, is_stored: bool, error: Option<String>) {
        self.upkeep.snapshot_done(is_stored);
        self.completions.push(Completion::Worked(Task::Snapshot, error));
    }

    /// Asks for a snapshot of the state at the last whole frame up to a position, whatever the size of the log.
    pub fn take_snapshot(&mut self, upto: Lsn) {
        self.snapshot_upto = Some(upto);
        self.upkeep.look_now();
    }

    /// Finishes what it has; then the log is closed.
    pub fn shut_down(&mut self) {
        if self.course == Course::GoesOn {
            self.course = Course::Closes;
        }
    }

    /// Stops as it is.
    pub fn hand_over(&mut self) {
        self.course = Course::HandsOver;
    }

    /// Whether no more requests are taken.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.course == Course::Closes
    }

    /// Whether somebody goes on with the engine.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.course == Course::HandsOver
    }

    /// Whether everything is finished and the log may be closed, if nothing more has arrived; and as of when it ends.
    #[must_use]
    pub fn may_close(&self, now: Now) -> Option<Moment> {
        let at = Moment { tick: self.engine.tick().0, wall_ms: now.wall_ms };
        (self.course == Course::Closes && self.engine.is_settled()).then_some(at)
    }

    /// Whether the next turn wants to know what there is of the log: then [`Self::look`] or [`Self::look_again`] first.
    #[must_use]
    pub fn wants_look(&self, now: Now) -> bool {
        self.trim == Trim::None && self.upkeep.is_look_due(now.boot_ms)
    }

    /// The log is busy: a frame is being synced.
    pub fn look_again(&mut self, now: Now) {
        self.upkeep.look_again(now.boot_ms);
    }

    /// Looks at what there is of the log, and says what is to be done. `wants_chore`: the log has chores to run.
    pub fn look(&mut self, now: Now, found: &Found<'_>, wants_chore: bool) -> Option<Job> {
        if found.space != self.space {
            self.space = found.space;
            self.completions.push(Completion::Space(found.space));
        }
        // Where the disk is full no frame may come that would ask for it.
        self.chores.wanted |= wants_chore && found.space == Space::Low;
        if let Some(upto) = self.snapshot_upto.take()
            && self.upkeep.begin_snapshot(now.boot_ms)
        {
            // What else is due is seen with the next look.
            return Some(self.snapshot(upto));
        }
        match (self.upkeep.look(now.boot_ms, found), self.engine.role()) {
            (Step::Snapshot, _) => Some(self.snapshot(Lsn(u64::MAX))),
            (Step::Record, Role::Writing) => {
                self.completions.push(Completion::RecordWanted);
                None
            }
            // The log records the trim first; the segments go once that record is durable.
            (Step::Trim(below), Role::Writing) => {
                self.trim = Trim::Wanted(below);
                None
            }
            // A follower decides alone how much of its copy it keeps: the log records nothing.
            (Step::Trim(below), Role::Following) => {
                self.trim = Trim::UnderWay;
                Some(Job::Trim { below })
            }
            (Step::Record, Role::Following) | (Step::Nothing, _) => None,
        }
    }

    fn snapshot(&self, upto: Lsn) -> Job {
        Job::Snapshot { upto: upto.min(self.engine.synced_lsn()) }
    }

    /// Runs one turn of the engine with what has arrived.
    pub fn turn(&mut self, now: Now) -> Turned {
        if let Trim::Wanted(below) = self.trim {
            self.trim = Trim::Asked(below);
            self.inputs.push(Input::new(TRIM_TICKET, Request::Trim(Lsn(below.0))));
        }
        let outputs = self.engine.turn(now, self.inputs.drain(..), self.completions.drain(..));
        let Outputs { mut outs, append, resolve, reads, wake_in_ms, stop } = outputs;
        let mut jobs = Vec::new();
        if let Some(below) = self.take_recorded_trim(&mut outs) {
            jobs.push(Job::Trim { below });
        }
        if self.chores.begin(now.boot_ms) {
            jobs.push(Job::Chore);
        }
        let look_at_ms = match self.trim {
            Trim::None => Some(self.upkeep.wake_at_ms()),
            // The engine did not take it.
            Trim::Wanted(_) => Some(now.boot_ms.saturating_add(TRIM_AGAIN_MS)),
            // It is waited for, and brings its turn itself.
            Trim::Asked(_) | Trim::UnderWay => None,
        };
        let upkeep_at_ms = look_at_ms.into_iter().chain(self.chores.wake_at_ms()).min();
        Turned { outs, append, resolve, reads, jobs, wake_in_ms, upkeep_at_ms, stop }
    }

    /// The trim that the log has recorded by now. Refused, it is asked for again.
    fn take_recorded_trim(&mut self, outs: &mut Vec<Out>) -> Option<tenure_log::Lsn> {
        let Trim::Asked(below) = self.trim else { return None };
        let place = outs.iter().position(|out| matches!(out, Out::Answer(TRIM_TICKET, _)))?;
        let is_refused = matches!(outs.remove(place), Out::Answer(_, Answer::Refused(_)));
        self.trim = if is_refused { Trim::Wanted(below) } else { Trim::UnderWay };
        (!is_refused).then_some(below)
    }
}

impl Chores {
    /// Whether a chore is begun now.
    fn begin(&mut self, now_ms: u64) -> bool {
        if !self.wanted || self.under_way || now_ms < self.not_before_ms {
            return false;
        }
        (self.wanted, self.under_way) = (false, true);
        true
    }

    fn wake_at_ms(&self) -> Option<u64> {
        (self.wanted && !self.under_way).then_some(self.not_before_ms)
    }
}

impl Turned {
    /// When time alone brings the next turn, in boot time; zero: there is more to do at once.
    #[must_use]
    pub fn next_turn_at_ms(&self, now: Now) -> Option<u64> {
        // Due by now is due at zero, whatever the clock says meanwhile.
        let wake_at_ms =
            self.wake_in_ms.map(|in_ms| if in_ms == 0 { 0 } else { now.boot_ms.saturating_add(in_ms) });
        wake_at_ms.into_iter().chain(self.upkeep_at_ms).min()
    }
}

/// For how long the frame after this one is worth gathering: where one is far away and this one was well filled, those who
/// were just answered ask again before it leaves.
#[must_use]
pub(crate) fn gathers_after(completion: &Completion, authority: Authority) -> Option<Duration> {
    match (completion, authority) {
        (Completion::Appended { batch, outcome: Appended::Committed, took_us }, Authority::Until { .. })
            if batch.count() >= GATHER_RECORDS_MIN =>
        {
            Some(Duration::from_micros(*took_us) / GATHER_PART)
        }
        (_, Authority::Until { .. } | Authority::Forever) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;
    use crate::host::read_clocks;
    use std::sync::Arc;
    use tempfile::TempDir;
    use tenure_log::snapshot::SnapshotHeader;
    use tenure_log::{Extent, FileLog, FileLogOptions, Genesis, RealDisk};

    const BELOW: tenure_log::Lsn = tenure_log::Lsn(101);

    fn driver(directory: &TempDir) -> Driver {
        let now = read_clocks();
        let genesis = Genesis { random: [9; 16], unix_seconds: now.wall_ms / 1000, shard: 0 };
        let options = FileLogOptions::new(genesis, now.wall_ms);
        let (log, recovery) = FileLog::open(Arc::new(RealDisk), directory.path(), options).unwrap();
        let engine = Engine::recover(&log, &recovery, EngineConfig::default(), now).unwrap();
        Driver::new(engine, &UpkeepOptions { history_bytes_max: 1_000, ..UpkeepOptions::default() })
    }

    /// Three extents, of which two snapshots cover the first two.
    fn look(driver: &mut Driver, now: Now, space: Space) -> Option<Job> {
        let extent = |index: u64| Extent {
            first_lsn: tenure_log::Lsn(index * 100 + 1),
            last_lsn: tenure_log::Lsn(index * 100 + 100),
            bytes: 900,
            used_bytes: 900,
            began_tick: 0,
        };
        let extents: Vec<Extent> = (0..3).map(extent).collect();
        let snapshot = |lsn| SnapshotHeader {
            log_id: 1,
            lsn: tenure_log::Lsn(lsn),
            at: Moment::default(),
            payload_bytes: 10,
        };
        let snapshots = [snapshot(150), snapshot(250)];
        let found = Found { extents: &extents, snapshots: &snapshots, space, tick: 0 };
        driver.look(now, &found, true)
    }

    /// Syncs what the turn gave out, and runs the next one.
    fn synced(driver: &mut Driver, now: Now, turned: Turned) -> Turned {
        let batch = turned.append.expect("a frame");
        driver.completed(Completion::Appended { batch, outcome: Appended::Committed, took_us: 1 });
        driver.turn(now)
    }

    #[test]
    fn extents_go_once_the_log_has_recorded_it_and_nothing_is_looked_at_until_they_are_gone() {
        let directory = TempDir::new().unwrap();
        let mut driver = driver(&directory);
        let now = read_clocks();
        assert!(driver.wants_look(now), "what other processes left");
        assert_eq!(look(&mut driver, now, Space::Ok), None);
        let turned = driver.turn(now);
        assert!(turned.jobs.is_empty() && !driver.wants_look(now), "nothing is recorded yet");
        let turned = synced(&mut driver, now, turned);
        assert_eq!(turned.jobs, [Job::Trim { below: BELOW }]);
        assert!(turned.outs.is_empty() && !driver.wants_look(now));
        assert_eq!((driver.turn(now).jobs, driver.wants_look(now)), (Vec::new(), false), "asked for once");
        driver.trimmed(true);
        assert!(driver.wants_look(now));
        assert_eq!(driver.turn(now).jobs, [Job::Chore], "they are removed");
    }

    #[test]
    fn a_trim_that_the_engine_does_not_take_is_asked_for_again() {
        let directory = TempDir::new().unwrap();
        let mut driver = driver(&directory);
        let now = read_clocks();
        let over = Authority::Until { boot_ms: now.boot_ms };
        driver.completed(Completion::Authority(over));
        look(&mut driver, now, Space::Ok);
        let turned = driver.turn(now);
        assert!(turned.append.is_none() && turned.jobs.is_empty() && turned.outs.is_empty());
        assert_eq!(turned.upkeep_at_ms, Some(now.boot_ms + TRIM_AGAIN_MS));
        driver.completed(Completion::Authority(Authority::Forever));
        let turned = driver.turn(now);
        assert_eq!(synced(&mut driver, now, turned).jobs, [Job::Trim { below: BELOW }]);
    }

    #[test]
    fn a_chore_that_failed_is_tried_again_after_a_pause_whoever_wants_it() {
        let directory = TempDir::new().unwrap();
        let mut driver = driver(&directory);
        let now = read_clocks();
        let later = Now { boot_ms: now.boot_ms + RETRY_AFTER_MS, ..now };
        driver.wants_chore();
        assert_eq!(driver.turn(now).jobs, [Job::Chore]);
        driver.wants_chore();
        assert!(driver.turn(now).jobs.is_empty(), "one at a time");
        driver.chore_done(now, Some((Task::Spare, Some("no space".to_owned()))), true);
        let turned = driver.turn(now);
        assert!(turned.jobs.is_empty() && turned.upkeep_at_ms <= Some(later.boot_ms));
        assert_eq!(driver.turn(later).jobs, [Job::Chore]);
        driver.chore_done(later, Some((Task::Spare, None)), false);
        assert!(driver.turn(later).jobs.is_empty());
    }

    #[test]
    fn on_a_full_disk_a_look_brings_the_chores_that_no_frame_asks_for() {
        let directory = TempDir::new().unwrap();
        let now = read_clocks();
        for (space, jobs) in [(Space::Ok, Vec::new()), (Space::Low, vec![Job::Chore])] {
            let mut driver = driver(&directory);
            look(&mut driver, now, space);
            assert_eq!(driver.turn(now).jobs, jobs, "{space:?}");
        }
    }
}
