//! What the host does beside the writer: chores, snapshots, trimming, gates, notices, reads for watchers.

use crate::happening::Happening;
use crate::invariants::replay_equals_live;
use crate::network::{Call, Caller, Purpose};
use crate::violation::Violation;
use crate::world::{Break, World};
use std::io::Read;
use tenure_engine::{
    Answer, Completion, Control, LogRead, LogReadDone, Request, build_snapshot, publish, setup,
};
use tenure_kernel::Lsn;
use tenure_log::{OrderedLog, Space};

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
        let (now, incarnation) = (self.now, self.incarnation);
        let Some(daemon) = &mut self.daemon else { return };
        if let Some(chore) = daemon.chore.take() {
            let done = chore.run();
            if self.disk.has_stopped() {
                self.stopped_at_operation();
                return;
            }
            if done.error().is_some() {
                daemon.chores_after = now + 1_000;
            }
            daemon.log.chore_done(done);
        }
        let space = daemon.log.space();
        if space != daemon.space {
            daemon.space = space;
            daemon.completions.push(Completion::Space(space));
            self.line(format_args!("space is {space:?}"));
            self.turn_in(0);
        }
        self.plan_chore();
        // While room is short the host looks again.
        if space == Space::Low {
            self.at(1_000, Happening::Chore { incarnation });
        }
    }

    pub(crate) fn snapshot(&mut self) -> Result<(), Break> {
        let config = self.profile.engine.clone();
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        daemon.snapshot_planned = false;
        daemon.frames_since_snapshot = 0;
        let setup = setup(&daemon.log.identity(), &config);
        let store = daemon.log.snapshots();
        let upto = Lsn(daemon.log.synced_lsn().0);
        let built = build_snapshot(setup, &store, &mut *daemon.log.reader(), upto);
        if self.disk.has_stopped() {
            self.stopped_at_operation();
            return Ok(());
        }
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
            replay_equals_live::snapshot(&self.ledger, &bytes)?;
        }
        let generations = store.generations();
        if let [older, _] = generations.as_slice() {
            let below = older.lsn.0 + 1;
            self.host_call(Request::Trim(Lsn(below)), Purpose::Trim(below));
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
        match &call.purpose {
            Purpose::Trim(below) => {
                if let (Some(daemon), Answer::Done { .. }) = (&mut self.daemon, answer) {
                    let trimmed = daemon.log.trim(tenure_log::Lsn(*below));
                    self.tally.trimmed += trimmed.extents as u64;
                }
            }
            Purpose::Probe => self.probed(call, answer)?,
            _ => {}
        }
        Ok(())
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
