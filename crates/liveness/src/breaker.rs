//! The breaker: when most holders fall silent together and heartbeats stop arriving, the daemon suspects
//! itself and postpones ends. Late is safe.

use crate::config::BreakerConfig;
use std::collections::VecDeque;
use tenure_kernel::{Text, Tick};

#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    config: BreakerConfig,
    state: State,
    silences: Silences,
    /// The `principals_min` known principals that fell silent last, each with the tick of its latest silence.
    principals: Vec<(Text, Tick)>,
    arrivals: Arrivals,
}

/// How many voices fell silent within the window. A voice counts at the tick of its latest silence.
#[derive(Clone, Debug, Default)]
struct Silences {
    /// Oldest first.
    by_tick: VecDeque<(Tick, u32)>,
    count: u32,
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

/// Principal of callers that nobody can tell apart; in a cluster with their machine, `local@M`.
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
            silences: Silences::default(),
            principals: Vec::new(),
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

    /// A voice fell silent while `alive` others still speak; `before` is the tick of its previous silence.
    pub(crate) fn fell_silent(
        &mut self,
        now: Tick,
        before: Option<Tick>,
        principal: &Text,
        alive: u32,
    ) -> Option<Turned> {
        if !self.is_on() {
            return None;
        }
        self.silences.forget(now, self.config.window_ms);
        self.silences.add(now, before);
        self.add_principal(now, principal);
        let silent = self.silences.count;
        let alive_before = alive + silent;
        let opens = self.state == State::Closed
            && alive_before >= self.config.holders_min
            && f64::from(silent) > self.config.fraction * f64::from(alive_before)
            && self.arrivals.fell_by_half(now)
            && self.enough_principals(now);
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
                self.silences.forget(now, self.config.window_ms);
                if self.silences.count == 0 {
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

    fn add_principal(&mut self, now: Tick, principal: &Text) {
        let (name, _machine) = principal.split_once('@').unwrap_or((principal, ""));
        if name == UNKNOWN_PRINCIPAL {
            return;
        }
        let mut oldest = 0;
        for known in 0..self.principals.len() {
            step();
            if self.principals[known].0 == *principal {
                self.principals[known].1 = now;
                return;
            }
            if self.principals[known].1 < self.principals[oldest].1 {
                oldest = known;
            }
        }
        if self.principals.len() < self.config.principals_min as usize {
            self.principals.push((principal.clone(), now));
        } else if let Some(oldest) = self.principals.get_mut(oldest) {
            *oldest = (principal.clone(), now);
        }
    }

    fn enough_principals(&self, now: Tick) -> bool {
        let within = |(_, at): &&(Text, Tick)| {
            step();
            now.ms_since(*at) <= self.config.window_ms
        };
        let known = self.principals.iter().filter(within).count();
        known == 0 || known >= self.config.principals_min as usize
    }
}

impl Silences {
    /// Takes out what is older than the window.
    fn forget(&mut self, now: Tick, window_ms: u64) {
        while let Some((at, voices)) = self.by_tick.front()
            && now.ms_since(*at) > window_ms
        {
            step();
            self.count -= voices;
            self.by_tick.pop_front();
        }
    }

    /// Adds a voice, or moves it here from its silence before.
    fn add(&mut self, now: Tick, before: Option<Tick>) {
        if before == Some(now) {
            return;
        }
        let found = before.and_then(|before| {
            self.by_tick
                .binary_search_by(|(at, _)| {
                    step();
                    at.cmp(&before)
                })
                .ok()
        });
        if let Some(found) = found {
            self.by_tick[found].1 -= 1;
            self.count -= 1;
        }
        match self.by_tick.back_mut() {
            Some((at, voices)) if *at == now => *voices += 1,
            Some(_) | None => self.by_tick.push_back((now, 1)),
        }
        self.count += 1;
    }
}

/// One silence, tick of silences or principal looked at; tests count them.
#[cfg(not(test))]
fn step() {}
#[cfg(test)]
use tests::step;

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::{BTreeMap, BTreeSet};

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn step() {
        STEPS.set(STEPS.get() + 1);
    }

    fn seconds() -> BreakerConfig {
        BreakerConfig { window_ms: 10, fraction: 0.5, holders_min: 4, principals_min: 3, hold_ms: 30 }
    }

    // Each silence once looked at every other one of the window, where one principal kept the breaker shut.
    #[test]
    fn a_silence_costs_the_same_however_many_there_are() {
        type Case = (&'static str, u32, u32, fn(u32) -> String);
        let cases: [Case; 3] = [
            ("one principal", u32::MAX, 0, |_| "uid:1".into()),
            ("each voice again and again", 100, 0, |n| format!("uid:{}", n % 2)),
            ("a principal each, most of them alive", u32::MAX, 1 << 20, |n| format!("uid:{n}")),
        ];
        for (what, voices, alive, principal) in cases {
            for silences in [1_000_u32, 16_000] {
                let mut breaker = Breaker::new(seconds());
                let mut silent_at = BTreeMap::new();
                (0..silences).for_each(|_| breaker.arrived(Tick(1)));
                STEPS.set(0);
                for n in 0..silences {
                    let now = Tick(100 + u64::from(n) * 20 / u64::from(silences));
                    let before = silent_at.insert(n % voices, now);
                    let turned = breaker.fell_silent(now, before, &principal(n).into(), alive);
                    assert_eq!(turned, None, "{what}: too few principals, or too few of all voices");
                    breaker.pass(now);
                }
                let steps = STEPS.get();
                assert!(steps <= 16 * u64::from(silences), "{what}: {steps} steps for {silences} silences");
            }
        }
    }

    /// The breaker by its contract: every silence is kept, and counted anew each time.
    struct Naive {
        config: BreakerConfig,
        all: Vec<(Tick, u32, &'static str)>,
        open_until: Option<Tick>,
        is_spent: bool,
    }

    impl Naive {
        fn within(&self, now: Tick) -> impl Iterator<Item = &(Tick, u32, &'static str)> {
            self.all.iter().filter(move |(at, _, _)| now.0 - at.0 <= self.config.window_ms)
        }

        fn voices(&self, now: Tick) -> u32 {
            self.within(now).map(|(_, voice, _)| *voice).collect::<BTreeSet<_>>().len() as u32
        }

        fn enough_principals(&self, now: Tick) -> bool {
            let all = self.within(now).map(|(_, _, principal)| *principal);
            let known: BTreeSet<&str> = all.filter(|principal| *principal != "local").collect();
            known.is_empty() || known.len() as u32 >= self.config.principals_min
        }

        fn fell_silent(&mut self, now: Tick, alive: u32) -> Option<Turned> {
            let silent = self.voices(now);
            let opens = self.open_until.is_none()
                && !self.is_spent
                && silent + alive >= self.config.holders_min
                && f64::from(silent) > self.config.fraction * f64::from(silent + alive)
                && self.enough_principals(now);
            opens.then(|| {
                self.open_until = Some(now.after_ms(self.config.hold_ms));
                Turned::Opened { silent, alive: silent + alive }
            })
        }

        fn pass(&mut self, now: Tick) -> Option<Turned> {
            if self.open_until.is_some_and(|until| now >= until) {
                (self.open_until, self.is_spent) = (None, true);
                return Some(Turned::Closed);
            }
            self.is_spent &= self.voices(now) > 0;
            None
        }
    }

    const PRINCIPALS: [&str; 6] = ["local", "uid:1", "uid:2", "uid:3", "uid:4", "uid:5"];

    proptest! {
        #[test]
        fn counts_as_if_all_silences_were_counted_anew(
            principals_min in 0..5_u32,
            hold_ms in 1..40_u64,
            principals in 1..=PRINCIPALS.len(),
            steps in proptest::collection::vec((0..4_u64, 0..9_u32, any::<prop::sample::Index>(), 0..6_u32), 1..70),
        ) {
            let config = BreakerConfig { principals_min, hold_ms, ..seconds() };
            let mut naive =
                Naive { config: config.clone(), all: Vec::new(), open_until: None, is_spent: false };
            let mut breaker = Breaker::new(config);
            // Heartbeats stopped before the first silence: the rest decides.
            (0..100).for_each(|_| breaker.arrived(Tick(1)));
            let mut silent_at: BTreeMap<u32, Tick> = BTreeMap::new();
            let mut now = Tick(20);
            for (wait, voice, principal, alive) in steps {
                now = now.after_ms(wait);
                prop_assert_eq!(breaker.pass(now), naive.pass(now));
                let principal = PRINCIPALS[principal.index(principals)];
                naive.all.push((now, voice, principal));
                let before = silent_at.insert(voice, now);
                let turned = breaker.fell_silent(now, before, &principal.into(), alive);
                prop_assert_eq!(breaker.silences.count, naive.voices(now));
                prop_assert_eq!(breaker.enough_principals(now), naive.enough_principals(now));
                prop_assert_eq!(turned, naive.fell_silent(now, alive));
                prop_assert_eq!(breaker.holds_until(now), naive.open_until);
            }
        }
    }
}
