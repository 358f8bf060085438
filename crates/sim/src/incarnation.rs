//! Starts and ends of the daemon: recovery judged against the ledger, clean stops, wiped directories,
//! backups that come back.

use crate::daemon::{Backup, Daemon, ROOT};
use crate::disk::DiskFault;
use crate::happening::Happening;
use crate::invariants::{acked_survives_crash, replay_equals_live};
use crate::ledger::{Ledger, Survivor};
use crate::memory::Memory;
use crate::story::Story;
use crate::violation::Violation;
use crate::world::{Break, World};
use std::collections::BTreeMap;
use std::path::Path;
use tenure_engine::{Appended, Completion, Driver, Engine, setup};
use tenure_kernel::{Kernel, Lsn, StateName};
use tenure_log::file::Ended;
use tenure_log::{AppendOutcome, FileLog, OrderedLog, Recovery, restore};

impl World {
    pub(crate) fn start(&mut self) -> Result<(), Break> {
        if self.daemon.is_some() {
            return Ok(());
        }
        self.rot_while_down();
        // Repair may write over the damage; the last frame may be lost to it all the same.
        self.last_frame_may_be_lost |= self.disk.is_rotten() || self.disk.is_misdirected();
        if self.ledger.is_empty() {
            self.clocks.catch_up(self.now);
        }
        let options = self.log_options();
        let config = self.profile.engine.clone();
        let now = self.read_clocks();
        let opened = FileLog::open(self.disk.shared(), Path::new(ROOT), options)
            .map_err(|error| chain(&error))
            .and_then(|(log, recovery)| {
                let engine = Engine::recover(&log, &recovery, config, now).map_err(|error| chain(&error))?;
                Ok((log, recovery, engine))
            });
        if self.disk.has_stopped() {
            self.line(format_args!("the start was cut short"));
            drop(opened);
            self.stopped_at_operation();
            return Ok(());
        }
        match opened {
            Ok((log, recovery, engine)) => self.started(log, &recovery, engine),
            Err(error) => self.refused(&error),
        }
    }

    /// Files decay in the dark.
    fn rot_while_down(&mut self) {
        // Until a start succeeds one is enough: each may cost the last frame.
        if !self.random.chance(self.faults.rot) || self.last_frame_may_be_lost {
            return;
        }
        let forged = self.random.chance(250);
        let place = if forged { self.disk.forge(&mut self.random) } else { self.disk.rot(&mut self.random) };
        if let Some(place) = place {
            let what = if forged { "a frame of another history stands in" } else { "a bit flips in" };
            self.line(format_args!("fault: {what} {place}"));
            // Repair is where a second fault hurts most.
            if self.faults.stop_at_operation > 0 && self.random.chance(600) {
                let operations = self.random.within(0..=9);
                self.disk.fail_in(operations, DiskFault::Stop);
            }
        }
    }

    fn refused(&mut self, error: &str) -> Result<(), Break> {
        self.line(format_args!("the daemon refuses to start: {error}"));
        self.tally.refusals += 1;
        self.disk.process_died();
        if self.disk.is_rotten() {
            // The operator finds a good copy of the rotten file.
            self.disk.undo_damage();
            // Unless a bad disk refused in the middle of a repair, nothing was touched yet.
            self.last_frame_may_be_lost = self.disk.is_misdirected() || self.disk_is_bad();
            let wait = self.random.within(0..=500);
            self.at(wait, Happening::Start);
            return Ok(());
        }
        if self.disk.is_misdirected() {
            return Err(Break::Refused);
        }
        if self.disk_is_bad() {
            self.at(1_000, Happening::Start);
            return Ok(());
        }
        Err(acked_survives_crash::refused_without_damage(error).into())
    }

    fn started(&mut self, log: FileLog, recovery: &Recovery, engine: Engine) -> Result<(), Break> {
        self.incarnation += 1;
        self.tally.starts += 1;
        self.tally.cuts += u64::from(recovery.cut.is_some());
        let identity = log.identity();
        self.line(format_args!(
            "daemon starts: {:?}, last lsn {}, next {}, snapshot {:?}, cut {}",
            recovery.ended,
            recovery.last_lsn,
            log.next_lsn(),
            recovery.snapshot.map(|snapshot| snapshot.lsn.0),
            recovery.cut.is_some(),
        ));
        let fresh = recovery.ended == Ended::NeverBegan;
        if fresh {
            acked_survives_crash::nothing_was_there(&self.ledger)?;
            self.ledger = Ledger::new(setup(&identity, &self.profile.engine));
        } else {
            self.reconcile(recovery, engine.kernel())?;
        }
        self.ledger.opened_at(Lsn(log.synced_lsn().0));
        self.story = Story::of(self.ledger.events());
        let aged = self.aged();
        self.memory.restarted(aged, engine.tick(), &self.story);
        self.invariants.restarted(engine.tick(), &self.story);
        self.clocks.catch_up_floor(identity.fence_base >> 20);
        self.daemon = Some(Daemon {
            log,
            driver: Driver::new(engine, &self.profile.upkeep),
            tag: identity.tag,
            inbox: Vec::new(),
            completions: Vec::new(),
            asks: BTreeMap::new(),
            frame: None,
            chore: None,
            turn_token: 0,
            turn_at: None,
            stalled_until: 0,
            turns: BTreeMap::new(),
        });
        self.turn_in(0);
        self.die_young();
        Ok(())
    }

    /// What was recovered against what was given out.
    fn reconcile(&mut self, recovery: &Recovery, recovered: &Kernel) -> Result<(), Break> {
        let last = Lsn(recovery.last_lsn.0);
        let damaged = core::mem::take(&mut self.last_frame_may_be_lost);
        match self.ledger.ends_at(last) {
            Some(Survivor::Flight) => self.ledger.commit(),
            Some(Survivor::Durable) => self.ledger.lose_flight(),
            None if damaged && self.ledger.lacks_last(last) => {
                self.line(format_args!("the last frame is lost, legally"));
                self.ledger.lose_last();
                self.forget_what_was_lost();
            }
            None => return Err(acked_survives_crash::wrong_end(&self.ledger, last).into()),
        }
        if !self.ledger.is_empty() {
            replay_equals_live::recovered(&self.ledger, recovered)?;
        }
        Ok(())
    }

    /// Beliefs that rest on a lost frame are protected by the fence alone.
    fn forget_what_was_lost(&mut self) {
        let story = Story::of(self.ledger.events());
        for hand in self.clients.iter_mut().flat_map(|client| &mut client.hands) {
            let known = story.leases.get(&hand.lease).is_some_and(|told| {
                let activated = told.state != StateName::Reserved || hand.reserved;
                told.epoch == hand.epoch && told.is_live() && activated
            });
            hand.void |= !known;
        }
    }

    /// The process is gone: calls in it are never answered, its connections break.
    pub(crate) fn end_incarnation(&mut self) {
        self.incarnation += 1;
        self.daemon = None;
        for client in 0..self.clients.len() {
            if let Some(connection) = &self.clients[client].connection {
                let session = connection.session;
                let wait = self.random.within(0..=1_500);
                self.at(wait, Happening::ConnectionLost { client, session });
            }
        }
    }

    /// Everything in flight is finished, the log is closed.
    pub(crate) fn stop_cleanly(&mut self) -> Result<(), Break> {
        let now = self.read_clocks();
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        if daemon.stalled_until > self.now {
            return Ok(());
        }
        self.trace.line(self.now, format_args!("daemon stops"));
        let mut frame = daemon.frame.take();
        daemon.driver.shut_down();
        for completion in core::mem::take(&mut daemon.completions) {
            daemon.driver.completed(completion);
        }
        for _ in 0..64 {
            if let Some(batch) = frame.take() {
                let committed = matches!(daemon.log.append(&batch), AppendOutcome::Committed { .. });
                if !committed {
                    // A stop that fails is a kill.
                    return self.stop_failed();
                }
                self.ledger.commit();
                let outcome = Appended::Committed;
                daemon.driver.completed(Completion::Appended { batch, outcome, took_us: 1 });
            }
            let turned = daemon.driver.turn(now);
            if let Some(batch) = turned.append {
                self.ledger.give(&batch);
                frame = Some(batch);
            } else if daemon.driver.may_close(now).is_some() {
                break;
            }
        }
        let ends_at = daemon.driver.may_close(now);
        self.ledger.closes();
        let closed =
            ends_at.is_some_and(|at| matches!(daemon.log.close(at), AppendOutcome::Committed { .. }));
        if !closed {
            return self.stop_failed();
        }
        let last = Lsn(daemon.log.synced_lsn().0);
        self.ledger.closed_at(last);
        self.kill("stopped cleanly");
        Ok(())
    }

    fn stop_failed(&mut self) -> Result<(), Break> {
        if self.disk.has_stopped() {
            self.stopped_at_operation()
        } else {
            self.kill("failed to stop")
        }
        Ok(())
    }

    /// The data directory is emptied under living holders: only their own clocks and the fence protect.
    pub(crate) fn wipe(&mut self) {
        self.kill("killed, its directory wiped");
        self.disk.disarm();
        self.disk.replace(crate::disk::Image::default());
        self.clocks.catch_up(self.now);
        self.ledger = Ledger::new(tenure_kernel::Setup::plain());
        self.new_history();
        for hand in self.clients.iter_mut().flat_map(|client| &mut client.hands) {
            hand.void = true;
        }
    }

    pub(crate) fn take_backup(&mut self) {
        if self.daemon.is_none() || self.ledger.last_in_flight().is_some() || self.disk.is_misdirected() {
            return;
        }
        self.line(format_args!("a backup is taken"));
        self.backup = Some(Backup { image: self.disk.image(), ledger: self.ledger.clone() });
    }

    /// A backup comes back onto the old directory.
    pub(crate) fn restore(&mut self) -> Result<(), Break> {
        let Some(Backup { image, ledger }) = &self.backup else { return Ok(()) };
        let (image, ledger) = (image.clone(), ledger.clone());
        self.kill("killed, a backup restored");
        self.disk.disarm();
        self.disk.leave_room(None);
        self.disk.replace(image);
        self.clocks.catch_up(self.now);
        let options = self.log_options();
        let restored = match restore(self.disk.shared(), Path::new(ROOT), options) {
            Ok(restored) => restored,
            Err(error) => return Err(Violation::new("acked_survives_crash", chain(&error)).into()),
        };
        self.disk.process_died();
        self.ledger = ledger;
        let identity = restored.new;
        self.ledger.replay(setup(&identity, &self.profile.engine));
        self.new_history();
        self.forget_what_was_lost();
        Ok(())
    }

    fn new_history(&mut self) {
        self.story = Story::of(self.ledger.events());
        self.memory = Memory::default();
        self.invariants.new_history();
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
