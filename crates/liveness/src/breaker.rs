//! The breaker: when most holders fall silent together and heartbeats stop arriving, the daemon suspects
//! itself and postpones ends. Late is safe.

use crate::config::BreakerConfig;
use hashbrown::HashMap;
use std::collections::VecDeque;
use tenure_kernel::{Text, Tick};

/// Who counts as one holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Voice {
    /// A holder of heartbeat leases, by its number in the kernel.
    Holder(u32),
    /// A session by hand.
    Session(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    config: BreakerConfig,
    state: State,
    /// Silences within the window, oldest first.
    silences: VecDeque<(Tick, Voice, Text)>,
    voices: HashMap<Voice, u32, foldhash::fast::FixedState>,
    arrivals: Arrivals,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Watching.
    Closed,
    /// Postponing ends.
    Open { until: Tick },
    /// Was open; opens again only after the window has emptied once.
    Spent,
}

/// Heartbeats in this window against the fullest of late. Silence shows only a ttl after the last heartbeat:
/// the window just before it is as empty as this one.
#[derive(Clone, Debug)]
struct Arrivals {
    slice_ms: u64,
    slice: u64,
    /// Per slice of the window, newest first.
    counts: [u64; SLICES],
    /// The fullest window of this age and of the age before.
    fullest: [u64; 2],
}

const SLICES: usize = 10;

/// Slices until a fullest window grows old: five minutes of the default window.
const AGE: u64 = 30 * SLICES as u64;

/// Principal of callers that nobody can tell apart.
const UNKNOWN_PRINCIPAL: &str = "local";

/// What changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turned {
    Opened { silent: u32, alive: u32 },
    Closed,
}

impl Breaker {
    pub(crate) fn new(config: BreakerConfig) -> Self {
        let slice_ms = (config.window_ms / SLICES as u64).max(1);
        Self {
            config,
            state: State::Closed,
            silences: VecDeque::new(),
            voices: HashMap::default(),
            arrivals: Arrivals { slice_ms, slice: 0, counts: [0; SLICES], fullest: [0; 2] },
        }
    }

    /// Whether ends are postponed, and until when.
    pub(crate) fn holds_until(&self, now: Tick) -> Option<Tick> {
        match self.state {
            State::Open { until } if now < until => Some(until),
            State::Open { .. } | State::Closed | State::Spent => None,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.config.fraction < 1.0
    }

    pub(crate) fn arrived(&mut self, now: Tick) {
        if self.is_on() {
            self.arrivals.advance(now);
            self.arrivals.counts[0] += 1;
        }
    }

    /// One more voice fell silent, while `alive` still speak.
    pub(crate) fn fell_silent(
        &mut self,
        now: Tick,
        voice: Voice,
        principal: &Text,
        alive: u32,
    ) -> Option<Turned> {
        if !self.is_on() {
            return None;
        }
        self.forget_before(now);
        self.silences.push_back((now, voice, principal.clone()));
        *self.voices.entry(voice).or_default() += 1;
        let silent = self.voices.len() as u32;
        let alive_before = alive + silent;
        let opens = self.state == State::Closed
            && alive_before >= self.config.holders_min
            && f64::from(silent) > self.config.fraction * f64::from(alive_before)
            && self.arrivals.fell_by_half(now)
            && self.enough_principals();
        opens.then(|| {
            self.state = State::Open { until: now.after_ms(self.config.hold_ms) };
            Turned::Opened { silent, alive: alive_before }
        })
    }

    /// Notices that the hold is over.
    pub(crate) fn pass(&mut self, now: Tick) -> Option<Turned> {
        match self.state {
            State::Open { until } if now >= until => {
                self.state = State::Spent;
                Some(Turned::Closed)
            }
            State::Spent => {
                self.forget_before(now);
                if self.silences.is_empty() {
                    self.state = State::Closed;
                }
                None
            }
            State::Open { .. } | State::Closed => None,
        }
    }

    /// An operator ends the hold.
    pub(crate) fn reset(&mut self) -> Option<Turned> {
        match self.state {
            State::Open { .. } => {
                self.state = State::Spent;
                Some(Turned::Closed)
            }
            State::Closed | State::Spent => None,
        }
    }

    fn forget_before(&mut self, now: Tick) {
        while let Some((at, voice, _)) = self.silences.front()
            && now.ms_since(*at) > self.config.window_ms
        {
            let voice = *voice;
            self.silences.pop_front();
            if let Some(count) = self.voices.get_mut(&voice) {
                *count -= 1;
                if *count == 0 {
                    self.voices.remove(&voice);
                }
            }
        }
    }

    fn enough_principals(&self) -> bool {
        let known: std::collections::BTreeSet<&str> = self
            .silences
            .iter()
            .map(|(_, _, principal)| principal.as_str())
            .filter(|principal| *principal != UNKNOWN_PRINCIPAL)
            .collect();
        known.is_empty() || known.len() as u32 >= self.config.principals_min
    }
}

impl Arrivals {
    fn advance(&mut self, now: Tick) {
        let slice = now.0 / self.slice_ms;
        if slice <= self.slice {
            return;
        }
        let [young, old] = self.fullest;
        let young = young.max(self.in_window());
        self.fullest = match slice / AGE - self.slice / AGE {
            0 => [young, old],
            1 => [0, young],
            // Nothing arrived for an age or more: what came last is what is usual.
            _ => [0, young.max(old)],
        };
        let steps = (slice - self.slice).min(SLICES as u64) as usize;
        self.counts.rotate_right(steps);
        self.counts[..steps].fill(0);
        self.slice = slice;
    }

    fn in_window(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn fell_by_half(&mut self, now: Tick) -> bool {
        self.advance(now);
        let [young, old] = self.fullest;
        self.in_window() * 2 < young.max(old)
    }
}
