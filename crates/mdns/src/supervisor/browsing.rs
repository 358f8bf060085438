//! Browses: one of the engine for each shelf with listeners, begun again when the engine closes it, and its
//! cache compared with what was told.

use core::time::Duration;
use std::sync::Arc;

use super::{Report, Supervisor};
use crate::clock::{self, Instant};
use crate::engine::{Refused, Source};
use crate::shelf::{Settling, Shelf};
use crate::sighting::Wanted;
use crate::timers::Timer;

/// A browse of the engine and where its findings go.
pub(super) struct Browsed {
    pub(super) id: u64,
    domain: String,
    shelf: Arc<Shelf>,
    /// Times the network was asked.
    rounds: u32,
    /// When it is asked next.
    round_at: Instant,
    /// When it was asked last.
    asked_at: Instant,
}

/// The network is not asked again within this because somebody asks.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// A browse that the engine closed is begun again after this.
const BROWSE_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// The network is asked three times in the first so many seconds of a round.
const ROUND: Duration = Duration::from_secs(4);
/// Rounds follow each other after these, and then after the last one again and again.
const ROUNDS_AFTER: [Duration; 4] =
    [Duration::from_secs(15), Duration::from_secs(60), Duration::from_secs(600), Duration::from_secs(3_600)];
/// The engine does not tell of a record that comes back within the second after its goodbye, nor of one that
/// changes and changes back; between rounds its cache is compared with what was told.
const REPLAY_EVERY: Duration = Duration::from_secs(2);
/// Above so many instances its channel of a thousand might overflow, and comparing is done more rarely.
const REPLAY_INSTANCES_MAX: usize = 400;
const REPLAY_MANY_EVERY: Duration = Duration::from_secs(30);
/// What a fresh engine has not found when it has asked at 0, 1 and 3 seconds, and told its cache twice, is gone.
const ASKS_AFTER_RESTART: u32 = 4;
/// The same engine tells all it has before it asks for the first time.
const ASKS_AFTER_CLOSE: u32 = 2;

impl Supervisor {
    /// Begins a browse if someone listens, ends it if nobody does.
    pub(super) fn follow_listeners(&mut self, wanted: &Wanted) {
        if self.shelves.get(wanted).is_some() {
            return self.begin_browse(wanted, Settling::Never);
        }
        let (Some(engine), Some(browsed)) = (&self.engine, self.browses.get(wanted)) else { return };
        match engine.stop_browse(&browsed.domain) {
            Ok(()) => {
                self.browses.remove(wanted);
            }
            Err(Refused::Ended) => self.engine_ended("its thread ended"),
            Err(Refused::Full | Refused::Unfit(_)) => {
                self.timers.arm(clock::now() + BROWSE_AGAIN_AFTER, Timer::Browse(wanted.clone()));
            }
        }
    }

    /// The engine closed a browse, because nobody read it for a moment.
    pub(super) fn browse_ended(&mut self, browse: u64, wanted: Wanted) {
        if self.browses.get(&wanted).is_some_and(|browsed| browsed.id == browse) {
            self.browses.remove(&wanted);
            self.timers.arm(clock::now() + BROWSE_AGAIN_AFTER, Timer::Browse(wanted));
        }
    }

    /// What could not be begun or ended a moment ago.
    pub(super) fn browse_again(&mut self, wanted: &Wanted) {
        if self.shelves.get(wanted).is_some() {
            self.begin_browse(wanted, Settling::AfterAsks(ASKS_AFTER_CLOSE));
        } else {
            self.follow_listeners(wanted);
        }
    }

    /// All that is listened to, with an engine that knows nothing yet.
    pub(super) fn begin_all_browses(&mut self) {
        for shelf in self.shelves.all() {
            self.begin_browse(shelf.wanted(), Settling::AfterAsks(ASKS_AFTER_RESTART));
        }
    }

    /// Begins a browse for a shelf that has none.
    pub(super) fn begin_browse(&mut self, wanted: &Wanted, settling: Settling) {
        let (Some(shelf), Some(domain)) = (self.shelves.get(wanted), wanted.domain()) else { return };
        // The last listener may have left and another come, with a shelf of its own.
        if self.browses.get(wanted).is_some_and(|browsed| Arc::ptr_eq(&browsed.shelf, &shelf)) {
            return;
        }
        let browsed =
            Browsed { id: 0, domain, shelf, rounds: 0, round_at: clock::now(), asked_at: clock::now() };
        self.look(wanted, browsed, Source::Network, settling);
    }

    /// Compares the engine's cache with what was told, and asks the network when its time has come.
    pub(super) fn replay(&mut self, wanted: &Wanted, id: u64) {
        if self.browses.get(wanted).is_none_or(|browsed| browsed.id != id) {
            return;
        }
        if let Some(browsed) = self.browses.remove(wanted) {
            if browsed.round_at <= clock::now() {
                let settling = Settling::AfterAsks(ASKS_AFTER_CLOSE);
                self.look(wanted, browsed, Source::Network, settling);
            } else {
                self.look(wanted, browsed, Source::Cache, Settling::AllTold);
            }
        }
    }

    /// Asks the network now, and as eagerly as at first from then on, unless it was asked a moment ago.
    pub(super) fn ask_for(&mut self, wanted: &Wanted) {
        let now = clock::now();
        let is_recent = |browsed: &Browsed| browsed.asked_at + ASK_AGAIN_AFTER > now;
        if self.browses.get(wanted).is_none_or(is_recent) {
            return;
        }
        if let Some(mut browsed) = self.browses.remove(wanted) {
            browsed.rounds = 0;
            self.look(wanted, browsed, Source::Network, Settling::AfterAsks(ASKS_AFTER_CLOSE));
        }
    }

    /// Has the engine tell what it has; what it finds from now on follows. An earlier look for the same ends.
    pub(super) fn look(&mut self, wanted: &Wanted, mut browsed: Browsed, source: Source, settling: Settling) {
        let Some(engine) = &self.engine else { return };
        let now = clock::now();
        match engine.browse(&browsed.domain, source) {
            Ok(mut findings) => {
                self.browses_ever += 1;
                let id = self.browses_ever;
                browsed.id = id;
                let mut next =
                    if browsed.shelf.len() > REPLAY_INSTANCES_MAX { REPLAY_MANY_EVERY } else { REPLAY_EVERY };
                if source == Source::Network {
                    browsed.asked_at = now;
                    let round = usize::try_from(browsed.rounds).unwrap_or(usize::MAX);
                    browsed.round_at = now + ROUNDS_AFTER[round.min(ROUNDS_AFTER.len() - 1)];
                    browsed.rounds = browsed.rounds.saturating_add(1);
                    next = ROUND;
                }
                self.timers.arm(now + next, Timer::Replay(wanted.clone(), id));
                let shelf = browsed.shelf.clone();
                self.browses.insert(wanted.clone(), browsed);
                let (report, wanted) = (self.report.clone(), wanted.clone());
                shelf.doubt_all(settling);
                tokio::spawn(async move {
                    while let Some(finding) = findings.next().await {
                        shelf.take_in(finding);
                    }
                    let _ = report.send(Report::BrowseEnded { browse: id, wanted });
                });
            }
            Err(Refused::Ended) => self.engine_ended("its thread ended"),
            Err(Refused::Full | Refused::Unfit(_)) => {
                self.timers.arm(now + BROWSE_AGAIN_AFTER, Timer::Browse(wanted.clone()));
            }
        }
    }
}
