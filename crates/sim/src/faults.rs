//! What goes wrong, when, and for how long. Each kind that a seed enables comes at random intervals around
//! its mean; all of it stops when the healing phase begins.

use crate::disk::{DiskFault, Loss};
use crate::happening::Happening;
use crate::profile::Faults;
use crate::world::{Break, World};
use tenure_engine::{Input, Request, STALL_MS, Submit, Ticket};
use tenure_kernel::{Action, Epoch, LeaseId, Mode, Release, StateName, Text, Token};

const HOUR_MS: u64 = 60 * 60 * 1000;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Kill,
    Burst,
    Power,
    StopAtOperation,
    DiskError,
    DiskFull,
    Misdirect,
    BootJump,
    WallJump,
    Stall,
    Pause,
    Stop,
    Wipe,
    Restore,
    Flood,
    /// Not a fault: a backup is taken, so that one can come back.
    Backup,
}

const ALL: [Fault; 16] = [
    Fault::Kill,
    Fault::Burst,
    Fault::Power,
    Fault::StopAtOperation,
    Fault::DiskError,
    Fault::DiskFull,
    Fault::Misdirect,
    Fault::BootJump,
    Fault::WallJump,
    Fault::Stall,
    Fault::Pause,
    Fault::Stop,
    Fault::Wipe,
    Fault::Restore,
    Fault::Flood,
    Fault::Backup,
];

/// The daemon's clocks against the world's.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    /// Boot time runs from here.
    boot_began: u64,
    boot_ahead: u64,
    wall_ms: i64,
    /// Latest creation of a log, in seconds of its wall clock.
    created_s: u64,
    /// Ticks that jumps may have given away.
    pub(crate) unearned_ms: u64,
}

impl Clocks {
    pub(crate) fn new() -> Self {
        Self { boot_began: 0, boot_ahead: 1_000, wall_ms: 1_700_000_000_000, created_s: 0, unearned_ms: 0 }
    }

    pub(crate) fn boot_ms(&self, now: u64) -> u64 {
        now - self.boot_began + self.boot_ahead
    }

    pub(crate) fn wall_ms(&self, now: u64) -> u64 {
        now.saturating_add_signed(self.wall_ms)
    }

    fn rebooted(&mut self, now: u64) {
        self.boot_began = now;
        self.boot_ahead = 1_000;
    }

    /// A log was created at this second, as its fence base tells.
    pub(crate) fn catch_up_floor(&mut self, seconds: u64) {
        self.created_s = self.created_s.max(seconds);
    }

    /// Fences rise over a loss only if the wall clock was not set back behind the lost log's creation.
    pub(crate) fn catch_up(&mut self, now: u64) {
        let behind = ((self.created_s + 1) * 1000).saturating_sub(self.wall_ms(now));
        self.wall_ms += behind as i64;
    }
}

impl Fault {
    fn mean_ms(self, faults: &Faults) -> u64 {
        match self {
            Self::Kill => faults.kill,
            Self::Burst => faults.burst,
            Self::Power => faults.power,
            Self::StopAtOperation => faults.stop_at_operation,
            Self::DiskError => faults.disk_error,
            Self::DiskFull => faults.disk_full,
            Self::Misdirect => faults.misdirect,
            Self::BootJump => faults.boot_jump,
            Self::WallJump => faults.wall_jump,
            Self::Stall => faults.stall,
            Self::Pause => faults.pause,
            Self::Stop => faults.stop,
            Self::Wipe => faults.wipe,
            Self::Restore => faults.restore,
            Self::Flood => faults.flood,
            Self::Backup => faults.restore / 2,
        }
    }
}

impl Faults {
    /// Nothing goes wrong any more.
    pub(crate) fn none() -> Self {
        Self {
            lost: 0,
            doubled: 0,
            delay_ms_max: 8,
            kill: 0,
            burst: 0,
            power: 0,
            stop_at_operation: 0,
            disk_error: 0,
            disk_full: 0,
            misdirect: 0,
            rot: 0,
            boot_jump: 0,
            wall_jump: 0,
            stall: 0,
            pause: 0,
            stop: 0,
            wipe: 0,
            restore: 0,
            flood: 0,
        }
    }
}

impl World {
    pub(crate) fn schedule_faults(&mut self) {
        for fault in ALL {
            self.schedule(fault);
        }
    }

    fn schedule(&mut self, fault: Fault) {
        let mean = fault.mean_ms(&self.faults);
        if mean > 0 {
            let wait = self.random.within(mean / 4..=2 * mean);
            self.at(wait, Happening::Fault(fault));
        }
    }

    /// Something goes wrong.
    pub(crate) fn strike(&mut self, fault: Fault) -> Result<(), Break> {
        if self.healing {
            return Ok(());
        }
        self.schedule(fault);
        match fault {
            Fault::Kill => self.kill("killed"),
            Fault::Burst => {
                self.tally.bursts += 1;
                self.short_lives = self.random.within(3..=12);
                self.kill("killed, the first of several times");
            }
            Fault::Power => self.power_cut(),
            Fault::StopAtOperation => {
                let operations = self.random.within(0..=12);
                self.line(format_args!("fault: stop {operations} disk operations from now"));
                self.disk.fail_in(operations, DiskFault::Stop);
            }
            Fault::DiskError => {
                let operations = self.random.within(0..=6);
                let kind = if self.random.chance(500) { DiskFault::Io } else { DiskFault::NoSpace };
                self.line(format_args!("fault: {kind:?} {operations} disk operations from now"));
                self.disk.fail_in(operations, kind);
            }
            Fault::DiskFull => {
                let room = self.random.within(0..=2 * self.profile.segment_bytes);
                let lasts = self.random.within(500..=10_000);
                self.line(format_args!("fault: room for {room} more bytes for {lasts} ms"));
                self.disk.leave_room(Some(room));
                self.at(lasts, Happening::Relief(fault));
            }
            Fault::Misdirect => {
                let by = self.random.within(1..=8) as i64 * 512;
                let by = if self.random.chance(500) { by } else { -by };
                self.line(format_args!("fault: the next frame lands {by} bytes off"));
                self.disk.misdirect_next(by);
            }
            Fault::BootJump => self.boot_jump(),
            Fault::WallJump => {
                let by = self.random.within(1..=2 * HOUR_MS) as i64 - HOUR_MS as i64;
                self.clocks.wall_ms += by;
                self.line(format_args!("fault: wall clock moves by {by} ms"));
            }
            Fault::Stall => self.stall(),
            Fault::Pause => {
                let client = self.random.below(self.clients.len() as u64) as usize;
                let lasts = self.random.within(500..=15_000);
                if self.profile.fleet {
                    self.line(format_args!("fault: all clients stand still for {lasts} ms"));
                    self.clients.iter_mut().for_each(|client| client.paused_until = self.now + lasts);
                } else {
                    self.line(format_args!("fault: c{client} stands still for {lasts} ms"));
                    self.clients[client].paused_until = self.now + lasts;
                }
            }
            Fault::Stop => self.stop_cleanly()?,
            Fault::Wipe => self.wipe(),
            Fault::Restore => self.restore()?,
            Fault::Flood => {
                let lasts = self.random.within(100..=3_000);
                self.line(format_args!("fault: every turn is asked too much for {lasts} ms"));
                self.flooded_until = self.now + lasts;
            }
            Fault::Backup => self.take_backup(),
        }
        Ok(())
    }

    /// Something stops being wrong.
    pub(crate) fn relieve(&mut self, fault: Fault) {
        if fault == Fault::DiskFull {
            self.line(format_args!("relief: the disk has room again"));
            self.disk.leave_room(None);
        }
    }

    fn boot_jump(&mut self) {
        let by = if self.random.chance(500) {
            self.random.within(1..=3_000)
        } else {
            self.random.within(1..=HOUR_MS)
        };
        self.clocks.boot_ahead += by;
        // With a deadline pending a gap counts for one second at most; without one it counts in full.
        let pending = self.daemon.as_ref().is_some_and(|daemon| {
            let mut live = daemon.engine().kernel().leases_from(LeaseId(0));
            live.any(|view| view.terms().mode == Mode::Heartbeat && view.state().name() == StateName::Active)
        });
        let unearned = if pending || self.daemon.is_none() { by.min(STALL_MS) } else { by };
        self.clocks.unearned_ms += unearned;
        self.line(format_args!("fault: boot clock jumps by {by} ms"));
    }

    fn stall(&mut self) {
        let long = self.random.chance(300);
        let lasts =
            if long { self.random.within(60_000..=HOUR_MS) } else { self.random.within(1_000..=20_000) };
        self.line(format_args!("fault: the daemon stands still for {lasts} ms"));
        if let Some(daemon) = &mut self.daemon {
            daemon.stalled_until = self.now + lasts;
        }
        self.invariants.stood_still();
        if long {
            // The whole machine was suspended, clients included.
            for client in &mut self.clients {
                client.paused_until = self.now + lasts - 500;
            }
        }
    }

    /// Strangers ask for more than every lane has room for, behind what the clients ask.
    pub(crate) fn flood(&mut self, inputs: &mut Vec<Input>) {
        if self.now >= self.flooded_until || self.healing {
            return;
        }
        let (lease, epoch, asker) = (LeaseId(0), Epoch::FIRST, None);
        for _ in 0..=self.profile.engine.inbox_max / 4 {
            let token = Token::new(lease, epoch);
            let release = Action::Release(Release { token: token.clone(), text: Text::default() });
            let requests = [
                Request::Heartbeat { lease, epoch, via: None, asker: asker.clone() },
                Request::Submit(Submit::now(release)),
                Request::Submit(Submit::now(Action::Activate(token))),
                Request::Read(lease),
            ];
            for request in requests {
                inputs.push(Input::new(Ticket(self.next_ticket), request));
                self.next_ticket += 1;
            }
        }
    }

    /// In a burst of restarts no life lasts.
    pub(crate) fn die_young(&mut self) {
        if self.short_lives > 0 && !self.healing {
            self.short_lives -= 1;
            let (wait, incarnation) = (self.random.within(20..=2_500), self.incarnation);
            self.at(wait, Happening::Dies { incarnation });
        }
    }

    /// Ends the daemon within a moment, in seeds in which its process ends at all.
    pub(crate) fn restart_shortly(&mut self) {
        if self.faults.kill + self.faults.burst + self.faults.stop > 0 {
            let (wait, incarnation) = (self.random.within(10..=800), self.incarnation);
            self.at(wait, Happening::Dies { incarnation });
        }
    }

    pub(crate) fn dies(&mut self) -> Result<(), Break> {
        if self.healing {
            return Ok(());
        }
        if self.random.chance(500) {
            return self.stop_cleanly();
        }
        self.kill("dies");
        Ok(())
    }

    /// The process ends; what it wrote stays.
    pub(crate) fn kill(&mut self, how: &str) {
        self.line(format_args!("daemon {how}"));
        self.end_incarnation();
        self.disk.process_died();
        self.restart_soon();
    }

    /// The machine stops; what was not synced may be gone.
    pub(crate) fn power_cut(&mut self) {
        let loss = *self.random.pick(&[Loss::Lost, Loss::Kept, Loss::Torn, Loss::Torn, Loss::Subset]);
        self.line(format_args!("power cut: {loss:?}"));
        self.end_incarnation();
        self.disk.power_cut(loss, &mut self.random);
        self.clocks.rebooted(self.now);
        self.restart_soon();
    }

    /// The disk stopped at an operation: the process died there, or the whole machine.
    pub(crate) fn stopped_at_operation(&mut self) {
        if self.random.chance(350) { self.kill("killed within a disk operation") } else { self.power_cut() }
    }

    fn restart_soon(&mut self) {
        // In bursts: now and then the next start dies young.
        if !self.healing && self.faults.stop_at_operation > 0 && self.random.chance(250) {
            let operations = self.random.within(0..=14);
            self.disk.fail_in(operations, DiskFault::Stop);
        }
        let wait =
            if self.random.chance(300) { self.random.within(0..=20) } else { self.random.within(0..=3_000) };
        self.at(wait, Happening::Start);
    }
}
