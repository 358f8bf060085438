//! What the host does beside the writer: chores, snapshots, trimming, gates, notices, reads for watchers.

use crate::happening::Happening;
use crate::invariants::upkeep_is_done::Kept;
use crate::invariants::{replay_equals_live, upkeep_is_done};
use crate::network::{Call, Caller, Purpose};
use crate::violation::Violation;
use crate::world::{Break, World};
use std::io::Read;
use tenure_engine::host::{Found, Step};
use tenure_engine::{
    Answer, Completion, Control, LogRead, LogReadDone, Now, Request, Task, build_snapshot, publish, setup,
};
use tenure_kernel::Lsn;
use tenure_log::{ChoreKind, OrderedLog};

/// Pause after a chore failed.
const RETRY_AFTER_MS: u64 = 5_000;

impl World {
    pub(crate) fn plan_chore(&mut self) {
        let (now, incarnation) = (self.now, self.incarnation);
        let Some(daemon) = &mut self.daemon else { return };
        if daemon.chore.is_some() || now < daemon.chores_after {
            return;
        }
        daemon.chore = daemon.log.chore();
        if daemon.chore.is_some() {
            let wait = self.random.within(0..=30);
            self.at(wait, Happening::Chore { incarnation });
        }
    }

    pub(crate) fn run_chore(&mut self) {
        let now = self.now;
        let Some(daemon) = &mut self.daemon else { return };
        if let Some(chore) = daemon.chore.take() {
            let done = chore.run();
            if self.disk.has_stopped() {
                self.stopped_at_operation();
                return;
            }
            if done.error().is_some() {
                daemon.chores_after = now + RETRY_AFTER_MS;
            }
            let task = match done.kind() {
                ChoreKind::Spare => Task::Spare,
                ChoreKind::Removal => Task::Trim,
            };
            let error = done.error().map(ToString::to_string);
            daemon.log.chore_done(done);
            daemon.completions.push(Completion::Worked(task, error));
            self.turn_in(0);
        }
        self.plan_chore();
    }

    /// Looks at what there is of the log, and does what the product's own decision says is due.
    pub(crate) fn look_after_log(&mut self, now: Now) {
        let incarnation = self.incarnation;
        let Some(daemon) = &mut self.daemon else { return };
        if !daemon.upkeep.is_look_due(now.boot_ms) || daemon.trim_below.is_some() {
            return;
        }
        // A frame is being synced.
        if daemon.frame.is_some() {
            return daemon.upkeep.look_again(now.boot_ms);
        }
        let (extents, space) = (daemon.log.extents(), daemon.log.space());
        if space != daemon.space {
            daemon.space = space;
            daemon.completions.push(Completion::Space(space));
            self.trace.line(self.now, format_args!("space is {space:?}"));
        }
        let snapshots = daemon.log.snapshots().generations();
        let tick = daemon.engine.tick().0;
        let found = Found { extents: &extents, snapshots: &snapshots, space, tick };
        match daemon.upkeep.look(now.boot_ms, &found) {
            Step::Nothing => {}
            Step::Snapshot => {
                let upto = daemon.engine.synced_lsn();
                let wait_max = if self.random.chance(100) { 2_000 } else { 40 };
                let wait = self.random.within(0..=wait_max);
                self.at(wait, Happening::Snapshot { incarnation, upto });
            }
            Step::Record => daemon.completions.push(Completion::RecordWanted),
            Step::Trim(below) => daemon.trim_below = Some(below),
        }
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
            tick: daemon.engine.tick(),
            extents: &daemon.log.extents(),
            snapshots: &daemon.log.snapshots().generations(),
            options: &self.profile.host,
            late_ms: self.look_late_ms() + self.profile.sync_ms_max,
        };
        self.invariants.upkeep(&kept)
    }

    /// A turn is run for the next look's sake; the end of an append or of a trim brings one itself.
    pub(crate) fn plan_look(&mut self) {
        let now = self.read_clocks();
        let Some(daemon) = &self.daemon else { return };
        if daemon.frame.is_none() && daemon.trim_below.is_none() {
            let wake_in_ms = daemon.upkeep.wake_at_ms().saturating_sub(now.boot_ms).max(1);
            self.turn_in(wake_in_ms.max(self.look_late_ms()));
        }
    }

    /// The log has recorded the trim: the segments go.
    pub(crate) fn trim(&mut self) -> Result<(), Violation> {
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let Some(below) = daemon.trim_below.take() else { return Ok(()) };
        let trimmed = daemon.log.trim(below);
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
        daemon.upkeep.snapshot_done(matches!(built, Ok(Some(_))));
        let error = built.as_ref().err().map(ToString::to_string);
        daemon.completions.push(Completion::Worked(Task::Snapshot, error));
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
        let mut reader = daemon.log.reader();
        let mut done = LogReadDone { watch: read.watch, events: Vec::new(), next: read.from, oldest: None };
        match reader.seek(tenure_log::Lsn(read.from.0)) {
            Ok(()) => {}
            Err(tenure_log::ReadError::Trimmed { oldest, .. }) => done.oldest = Some(Lsn(oldest.0)),
            Err(_) => return,
        }
        while done.oldest.is_none() && done.events.len() < read.limit {
            match reader.next_frame() {
                Ok(Some(frame)) if frame.header.first_lsn.0 <= read.upto.0 => {
                    let events = publish(frame.records(), frame.header.at);
                    done.events.extend(events.into_iter().filter(|event| event.lsn >= read.from));
                    done.next = Lsn(frame.header.next_lsn().0);
                }
                Ok(_) | Err(_) => break,
            }
        }
        daemon.completions.push(Completion::LogRead(done));
        self.turn_in(1);
    }
}
