//! Programs that hold things: what each believes, by its own clock. A client counts `valid_ms` exactly, without any
//! factor, from before it sent the request, and stops as soon as it asks to give a lease up.

use crate::network::CallId;
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use tenure_kernel::{Epoch, Face, Fence, LeaseId, Lsn, Mode, SessionId, Text};

/// A lease in the hands of a client, as that client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Hand {
    /// Tag of the log the id belongs to.
    pub(crate) tag: u32,
    pub(crate) lease: LeaseId,
    pub(crate) epoch: Epoch,
    pub(crate) fence: Fence,
    pub(crate) members: Vec<Text>,
    pub(crate) mode: Mode,
    pub(crate) face: Face,
    pub(crate) session: Option<SessionId>,
    pub(crate) reserved: bool,
    /// Its face reclaims at once: nothing is promised.
    pub(crate) at_once: bool,
    pub(crate) ttl_ms: u64,
    /// Its client proves life only when grace is over too, or a moment before or after.
    pub(crate) at_last: Option<u64>,
    /// The client acts on it until here, in the daemon's time; `None`: no promise.
    pub(crate) valid_until: Option<u64>,
    /// The client gave it up or learned that it lost it.
    pub(crate) stopped: bool,
    /// Nothing protects the belief any more: the log that made the promise is gone.
    pub(crate) void: bool,
}

/// A connection as the client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) session: SessionId,
    pub(crate) incarnation: u64,
    pub(crate) grace_ms: u64,
    /// Bytes arrive in order.
    pub(crate) last_arrival: u64,
}

/// A session by hand as the client sees it.
#[derive(Clone, Debug)]
pub(crate) struct ByHand {
    pub(crate) session: SessionId,
    pub(crate) ttl_ms: u64,
    pub(crate) grace_ms: u64,
    pub(crate) seen: Lsn,
    /// Tag of the log that confirmed it. `seen` means nothing to another log.
    pub(crate) confirmed: Option<u32>,
}

/// A token that was good once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldToken {
    pub(crate) tag: u32,
    pub(crate) lease: LeaseId,
    pub(crate) epoch: Epoch,
}

/// How much a clock, the daemon's or a client's, differs from a true one at most.
const DRIFT_PPM_MAX: u64 = 2_500;

/// The rate of a clock, in millionths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(u64);

impl Rate {
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self(1_000_000 - DRIFT_PPM_MAX + random.within(0..=2 * DRIFT_PPM_MAX))
    }

    /// How long the daemon, whose clock has this rate, takes while this clock counts so much.
    fn counts(self, ms: u64, daemon: Self) -> u64 {
        (ms * daemon.0).div_ceil(self.0)
    }
}

/// One program.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) name: Text,
    clock: Rate,
    daemon_clock: Rate,
    pub(crate) principal: Text,
    pub(crate) hands: Vec<Hand>,
    pub(crate) old: Vec<OldToken>,
    /// Leases it stopped acting on, with the epoch it had: a late answer does not bring them back.
    given_up: BTreeMap<(u32, LeaseId), Epoch>,
    /// Sessions it closed: what is granted under them comes too late.
    pub(crate) closed: BTreeSet<SessionId>,
    pub(crate) connection: Option<Connection>,
    pub(crate) session: Option<ByHand>,
    /// Calls not answered yet.
    pub(crate) waiting: Vec<CallId>,
    pub(crate) paused_until: u64,
    pub(crate) dead: bool,
}

impl Hand {
    /// Whether its client may be acting on it now.
    pub(crate) fn acts(&self, aged: u64) -> bool {
        !self.stopped && !self.void && self.valid_until.is_some_and(|until| aged < until)
    }
}

impl Client {
    pub(crate) fn new(number: usize, is_of_fleet: bool, daemon_clock: Rate, random: &mut Random) -> Self {
        let principal = match number % 2 {
            _ if is_of_fleet => Text::const_new("fleet"),
            0 => Text::const_new("local"),
            _ => format!("p{number}").into(),
        };
        Self {
            name: format!("c{number}").into(),
            clock: Rate::draw(random),
            daemon_clock,
            principal,
            hands: Vec::new(),
            old: Vec::new(),
            given_up: BTreeMap::new(),
            closed: BTreeSet::new(),
            connection: None,
            session: None,
            waiting: Vec::new(),
            paused_until: 0,
            dead: false,
        }
    }

    /// Until when it acts on what it was promised, in the daemon's time.
    pub(crate) fn until(&self, sent: u64, valid_ms: u64) -> u64 {
        sent + self.clock.counts(valid_ms, self.daemon_clock)
    }

    pub(crate) fn hand(&mut self, tag: u32, lease: LeaseId) -> Option<&mut Hand> {
        self.hands.iter_mut().find(|hand| hand.lease == lease && hand.tag == tag)
    }

    /// Takes a lease in hand, or learns more of one it has.
    pub(crate) fn take(&mut self, hand: Hand) {
        if self.given_up.get(&(hand.tag, hand.lease)).is_some_and(|epoch| *epoch >= hand.epoch)
            || hand.session.is_some_and(|session| self.closed.contains(&session))
        {
            return;
        }
        match self.hand(hand.tag, hand.lease) {
            Some(known) => {
                let until = known.valid_until.max(hand.valid_until);
                if known.epoch <= hand.epoch {
                    *known = hand;
                    known.valid_until = until;
                }
            }
            None => self.hands.push(hand),
        }
    }

    /// Stops acting on a lease and remembers the token.
    pub(crate) fn stop(&mut self, tag: u32, lease: LeaseId) {
        if let Some(index) = self.hands.iter().position(|hand| hand.lease == lease && hand.tag == tag) {
            let hand = self.hands.remove(index);
            self.given_up.insert((tag, lease), hand.epoch);
            if self.old.len() == 12 {
                self.old.remove(0);
            }
            self.old.push(OldToken { tag, lease, epoch: hand.epoch });
        }
    }

    /// Learns that it lost a lease, perhaps before it learned that it had it.
    pub(crate) fn lose(&mut self, tag: u32, lease: LeaseId) {
        self.stop(tag, lease);
        self.given_up.insert((tag, lease), Epoch(u64::MAX));
    }

    /// Stops acting on every lease that a session keeps.
    pub(crate) fn stop_all(&mut self, tag: u32, session: SessionId) {
        let kept = self.hands.iter().filter(|hand| hand.session == Some(session));
        let leases: Vec<LeaseId> = kept.map(|hand| hand.lease).collect();
        leases.into_iter().for_each(|lease| self.stop(tag, lease));
    }

    /// Lets go of a session and of everything it keeps, in whatever log.
    pub(crate) fn abandon(&mut self, session: SessionId) {
        if self.session.as_ref().is_some_and(|by_hand| by_hand.session == session) {
            self.session = None;
        }
        self.closed.insert(session);
        let kept = self.hands.iter().filter(|hand| hand.session == Some(session));
        let leases: Vec<(u32, LeaseId)> = kept.map(|hand| (hand.tag, hand.lease)).collect();
        leases.into_iter().for_each(|(tag, lease)| self.stop(tag, lease));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_run_a_quarter_of_a_percent_fast_or_slow_at_most_and_nearly_that_much_often() {
        let mut random = Random::new(7);
        let drawn: Vec<u64> = (0..1_000).map(|_| Rate::draw(&mut random).0).collect();
        let among =
            |rates: core::ops::RangeInclusive<u64>| drawn.iter().filter(|r| rates.contains(r)).count();
        assert_eq!(among(997_500..=1_002_500), 1_000);
        assert!(among(997_500..=998_000) > 50 && among(1_002_000..=1_002_500) > 50);
        let (slow, fast) = (Rate(997_500), Rate(1_002_500));
        assert_eq!(slow.counts(997_500, fast), 1_002_500, "a slow clock's day takes the daemon longer");
    }
}
