//! What the host does for the driver: chores, snapshots, trims, reads for watchers; and what the daemon does for its engine.

use crate::happening::Happening;
use crate::invariants::upkeep_is_done::Kept;
use crate::invariants::{replay_equals_live, upkeep_is_done};
use crate::network::{Call, Caller, Purpose};
use crate::violation::Violation;
use crate::world::{Break, World};
use std::io::Read;
use tenure_engine::host::read_log;
use tenure_engine::{
    Answer, Completion, Control, Found, Job, LogRead, Now, Request, Task, build_snapshot, setup,
};
use tenure_kernel::Lsn;
use tenure_log::{ChoreKind, OrderedLog};

impl World {
    /// Tells the driver what there is of the log, where it wants to know.
    pub(crate) fn look_at_log(&mut self, now: Now) -> Option<Job> {
        let daemon = self.daemon.as_mut()?;
        if !daemon.driver.wants_look(now) {
            return None;
        }
        // A frame is being synced.
        if daemon.frame.is_some() {
            daemon.driver.look_again(now);
            return None;
        }
        let (extents, space) = (daemon.log.extents(), daemon.log.space());
        let snapshots = daemon.log.snapshots().generations();
        let tick = daemon.engine().tick().0;
        let found = Found { extents: &extents, snapshots: &snapshots, space, tick };
        self.trace.detail(self.now, format_args!("looks at the log: space is {space:?}"));
        daemon.driver.look(now, &found, daemon.log.wants_chore())
    }

    /// Begins what the driver wants done.
    pub(crate) fn begin(&mut self, job: Job) -> Result<(), Violation> {
        let incarnation = self.incarnation;
        match job {
            Job::Snapshot { upto } => {
                let wait_max = if self.random.chance(100) { 2_000 } else { 40 };
                let wait = self.random.within(0..=wait_max);
                self.at(wait, Happening::Snapshot { incarnation, upto });
            }
            Job::Trim { below } => self.trim(below)?,
            Job::Chore => {
                let Some(daemon) = &mut self.daemon else { return Ok(()) };
                daemon.chore = daemon.log.chore();
                let wait = self.random.within(0..=30);
                self.at(wait, Happening::Chore { incarnation });
            }
        }
        Ok(())
    }

    pub(crate) fn run_chore(&mut self) {
        let now = self.read_clocks();
        let Some(daemon) = &mut self.daemon else { return };
        let done = daemon.chore.take().map(tenure_log::Chore::run);
        if self.disk.has_stopped() {
            self.stopped_at_operation();
            return;
        }
        let report = done.as_ref().map(|done| {
            let task = match done.kind() {
                ChoreKind::Spare => Task::Spare,
                ChoreKind::Removal => Task::Trim,
            };
            (task, done.error().map(ToString::to_string))
        });
        if let Some(done) = done {
            daemon.log.chore_done(done);
        }
        let wants_chore = daemon.log.wants_chore();
        daemon.driver.chore_done(now, report, wants_chore);
        self.turn_in(0);
    }

    /// A slow seed's days are long: its turns for looks alone come late.
    fn look_late_ms(&self) -> u64 {
        if self.profile.is_slow { self.profile.act_ms_max } else { 0 }
    }

    pub(crate) fn judge_upkeep(&mut self) -> Result<(), Violation> {
        let can_be_done = !self.disk_is_bad() && !self.disk.is_rotten() && !self.disk.is_misdirected();
        let Some(daemon) = self.daemon.as_ref().filter(|_| can_be_done) else {
            self.invariants.stood_still();
            return Ok(());
        };
        let kept = Kept {
            now: self.now,
            tick: daemon.engine().tick(),
            extents: &daemon.log.extents(),
            snapshots: &daemon.log.snapshots().generations(),
            options: &self.profile.upkeep,
            late_ms: self.look_late_ms() + self.profile.sync_ms_max,
        };
        self.invariants.upkeep(&kept)
    }

    /// A turn is run for the log's care; the end of an append brings one itself.
    pub(crate) fn plan_upkeep(&mut self, in_ms: u64) {
        if self.daemon.as_ref().is_some_and(|daemon| daemon.frame.is_none()) {
            self.turn_in(in_ms.max(1).max(self.look_late_ms()));
        }
    }

    /// The log has recorded the trim: the segments go.
    fn trim(&mut self, below: tenure_log::Lsn) -> Result<(), Violation> {
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let trimmed = daemon.log.trim(below);
        let wants_chore = daemon.log.wants_chore();
        daemon.driver.trimmed(wants_chore);
        self.turn_in(0);
        self.tally.trimmed += trimmed.extents as u64;
        self.line(format_args!("{} segments go below {below}", trimmed.extents));
        upkeep_is_done::trim_was_recorded(&self.ledger, below)
    }

    pub(crate) fn snapshot(&mut self, upto: Lsn) -> Result<(), Break> {
        let config = self.profile.engine.clone();
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let setup = setup(&daemon.log.identity(), &config);
        let store = daemon.log.snapshots();
        let built = build_snapshot(setup, &store, &mut daemon.log.reader(), upto, &mut || {});
        if self.disk.has_stopped() {
            self.stopped_at_operation();
            return Ok(());
        }
        let error = built.as_ref().err().map(ToString::to_string);
        daemon.driver.snapshot_done(matches!(built, Ok(Some(_))), error);
        self.turn_in(0);
        let header = match built {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(()),
            // The log is unharmed; a disk with faults may refuse any of it.
            Err(error) => {
                self.line(format_args!("no snapshot: {error}"));
                let excused = self.disk.is_rotten() || self.disk.is_misdirected() || self.disk_is_bad();
                return if excused { Ok(()) } else { Err(replay_equals_live::not_built(&error).into()) };
            }
        };
        self.tally.snapshots += 1;
        self.line(format_args!("snapshot at {}", header.lsn));
        let mut bytes = Vec::new();
        let read = store.open(header.lsn).map(|mut reader| reader.read_to_end(&mut bytes));
        if let Ok(Ok(_)) = read {
            replay_equals_live::snapshot(&self.ledger, Lsn(header.lsn.0), &bytes)?;
        }
        Ok(())
    }

    /// Whether a failing disk may excuse what failed.
    pub(crate) fn disk_is_bad(&self) -> bool {
        self.faults.disk_error > 0 || self.faults.disk_full > 0
    }

    pub(crate) fn host_call(&mut self, request: Request, purpose: Purpose) {
        self.send(Call {
            caller: Caller::Host,
            request,
            tag: None,
            via: None,
            purpose,
            tries: 0,
            settled: false,
        });
    }

    pub(crate) fn host_heard(&mut self, call: &Call, answer: &Answer) -> Result<(), Violation> {
        if call.purpose == Purpose::Probe { self.probed(call, answer) } else { Ok(()) }
    }

    /// A fact reaches the engine: whatever else is asked of it, nothing refuses this.
    pub(crate) fn told(&mut self, control: Control) {
        let Some(daemon) = &mut self.daemon else { return };
        daemon.completions.push(Completion::Told(control));
        self.turn_in(0);
    }

    pub(crate) fn serve_read(&mut self, read: &LogRead) {
        let Some(daemon) = &mut self.daemon else { return };
        let done = read_log(&mut daemon.log.reader(), read);
        daemon.completions.push(Completion::LogRead(done));
        self.turn_in(1);
    }
}
