//! The life of the engine: its pulse, its death, and the start of the next one.

use core::time::Duration;

use super::{Report, Supervisor};
use crate::board::Condition;
use crate::clock;
use crate::engine::{Addresses, Engine, Refused};
use crate::pace::TICK;
use crate::service::Service;
use crate::timers::Timer;

const RESTART_AFTER: Duration = Duration::from_millis(100);
const RESTART_AFTER_MAX: Duration = Duration::from_secs(30);
/// An engine that lived this long died of something else than the one before.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
pub(super) const PULSE_EVERY: Duration = Duration::from_secs(1);
/// Signs of life that may be missed before the engine counts as down.
const PULSES_MISSED_MAX: u32 = 5;
/// The engine keeps about a kilobyte for every name it ever probed for, on each interface.
const NAMES_PROBED_MAX: u64 = 50_000;
const RETIRED_WITHIN: Duration = Duration::from_secs(2);
/// How often a full queue is tried.
const RETIRE_TRIES_MAX: u32 = 1_000;

impl Supervisor {
    pub(super) fn feel_pulse(&mut self) {
        self.timers.arm(clock::now() + PULSE_EVERY, Timer::Pulse);
        self.look_at_interfaces();
        let Some(engine) = &self.engine else { return };
        self.pulses_missed += 1;
        match engine.pulse() {
            Ok(pulse) => {
                let (report, engine) = (self.report.clone(), self.incarnation);
                tokio::spawn(async move {
                    if pulse.answer().await {
                        let _ = report.send(Report::Alive { engine });
                    }
                });
            }
            Err(Refused::Ended) => return self.engine_ended("its thread ended"),
            Err(Refused::Full | Refused::Unfit(_)) => {}
        }
        if self.pulses_missed > PULSES_MISSED_MAX {
            self.set_down("its thread does not answer");
        } else if self.names_probed > NAMES_PROBED_MAX || self.is_muddled {
            self.replace_engine();
        }
    }

    /// Puts a fresh engine in the place of one that has grown or is muddled, when nothing is under way. The old one forgets its
    /// services without a word, so that nobody on the network notices, and the fresh one announces them.
    pub(super) fn replace_engine(&mut self) {
        if self.is_closing || !self.farewells.is_empty() || !self.adverts.is_settled() {
            return;
        }
        let Some(old) = self.engine.take() else { return };
        tracing::info!(names = self.names_probed, "the mdns engine is replaced by a fresh one");
        let told = self.adverts.told_services();
        self.forget_engine();
        let report = self.report.clone();
        tokio::spawn(async move {
            retire(old, told).await;
            let _ = report.send(Report::Retired);
        });
    }

    fn forget_engine(&mut self) {
        self.notes = None;
        self.incarnation += 1;
        self.names_probed = 0;
        self.is_muddled = false;
        self.reachable.clear();
        self.browses.clear();
        self.adverts.engine_ended();
        self.farewells.engine_ended();
    }

    pub(super) fn alive(&mut self) {
        self.pulses_missed = 0;
        self.board.note(|health| health.condition = Condition::Up);
    }

    pub(super) fn set_down(&self, error: &str) {
        self.board.note(|health| {
            if health.condition == Condition::Up {
                tracing::error!(error, "the mdns engine is down");
                health.condition =
                    Condition::Down { since_unix_ms: clock::unix_ms(), error: error.to_owned() };
            }
        });
    }

    pub(super) fn engine_ended(&mut self, error: &str) {
        if self.engine.take().is_none() {
            return;
        }
        self.forget_engine();
        self.set_down(error);
        self.adverts.keys().into_iter().for_each(|key| self.publish(key));
        let now = clock::now();
        if now.duration_since(self.started_at) > SETTLED_AFTER {
            self.starts_failed = 0;
        }
        self.restart_later();
    }

    pub(super) fn restart_later(&mut self) {
        let wait = RESTART_AFTER.saturating_mul(1 << self.starts_failed.min(10)).min(RESTART_AFTER_MAX);
        self.starts_failed += 1;
        self.timers.arm(clock::now() + wait, Timer::Restart);
    }

    pub(super) fn restart(&mut self) {
        if self.engine.is_some() {
            return;
        }
        match Engine::start(&self.options) {
            Ok((engine, notes)) => {
                tracing::info!("another mdns engine was started");
                (self.engine, self.notes) = (Some(engine), Some(notes));
                (self.started_at, self.pulses_missed) = (clock::now(), 0);
                self.board.note(|health| {
                    health.restarts += u64::from(health.condition != Condition::Up);
                    health.condition = Condition::Up;
                });
                self.reach_all();
                self.begin_all_browses();
            }
            Err(error) => {
                self.set_down(&error);
                tracing::error!(%error, "the mdns engine does not start");
                self.adverts.probe_all();
                self.restart_later();
            }
        }
    }
}

/// Has an engine forget its services one by one, saying nothing, and ends it. Were it ended at once, it would say
/// goodbye for all of them.
pub(super) async fn retire(engine: Engine, services: Vec<Service>) {
    for service in services {
        let is_hidden = taken(|| engine.announce(&service, Addresses::Only(&[]), true)).await;
        if is_hidden {
            taken(|| engine.withdraw(&service)).await;
        }
    }
    if let Ok(pulse) = engine.end() {
        let _ = tokio::time::timeout(RETIRED_WITHIN, pulse.answer()).await;
    }
}

/// Whether the engine took a call in the end.
async fn taken<T>(mut call: impl FnMut() -> Result<T, Refused>) -> bool {
    for _ in 0..RETIRE_TRIES_MAX {
        match call() {
            Ok(_) => return true,
            Err(Refused::Full) => tokio::time::sleep(TICK).await,
            Err(Refused::Ended | Refused::Unfit(_)) => return false,
        }
    }
    false
}
