//! Timers: levels of 64 buckets, one tick wide at the bottom. Arming costs one push, firing one pop and at most
//! one move per level on the way down; nothing is ever searched for or taken out. A timer that no longer counts is recognised when it fires.
//!
//! A timer sits at the level of the highest 6-bit group in which its tick differs from the present one,
//! so every timer of a lower level fires before any of a higher one.

use tenure_kernel::Tick;

const BITS: u32 = 6;
/// Enough for any tick, so that crossing a high power of two is nothing special.
const LEVELS: usize = 64_usize.div_ceil(BITS as usize);
const BUCKETS: usize = 1 << BITS;
/// Timers moved to a lower level in the time of one look at what a timer wakes: they lie side by side.
const MOVES_PER_LOOK: usize = 16;

/// Whom a timer wakes, and the count of armings it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timer {
    /// Low half of its tick: the wheel never looks further ahead than 2^32 ticks.
    low: u32,
    pub(crate) who: u32,
    pub(crate) arming: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    elapsed: u64,
    occupied: [u64; LEVELS],
    buckets: Vec<Vec<Timer>>,
    /// Fired, not yet taken; its own buffer is put back where it came from when empty.
    due: Vec<Timer>,
    /// Of a bucket that was opened, still to be placed at lower levels. Meanwhile `elapsed` stands still.
    opened: std::vec::IntoIter<Timer>,
    armed: usize,
    /// Where tidying goes on: a bucket, and how many of its timers were looked at.
    tidying: (usize, usize),
}

impl Wheel {
    pub(crate) fn new(now: Tick) -> Self {
        Self {
            elapsed: now.0,
            occupied: [0; LEVELS],
            buckets: vec![Vec::new(); LEVELS * BUCKETS],
            due: Vec::new(),
            opened: Vec::new().into_iter(),
            armed: 0,
            tidying: (0, 0),
        }
    }

    /// Fires once `now` reaches `at`. An instant beyond the horizon fires early, at the horizon; the caller that is
    /// woken looks at its own deadline anyway.
    pub(crate) fn arm(&mut self, at: Tick, who: u32, arming: u32) {
        self.armed += 1;
        let at = at.0.min(self.elapsed.saturating_add(u64::from(u32::MAX)));
        self.place(at, Timer { low: at as u32, who, arming });
    }

    /// The next timer that has fired by `now`, in order of their ticks. A timer that fires takes one of `looks`, and so
    /// do a few that move; without any left nothing fires.
    pub(crate) fn fire(&mut self, now: Tick, looks: &mut usize) -> Option<Timer> {
        while *looks > 0 {
            if let Some(timer) = self.due.pop() {
                *looks -= 1;
                self.armed -= 1;
                return Some(timer);
            }
            if !self.opened.as_slice().is_empty() {
                *looks -= 1;
                self.place_opened();
                continue;
            }
            match self.next_bucket() {
                Some((level, bucket, at)) if at <= now.0 => self.open(level, bucket, at),
                Some(_) | None => {
                    self.elapsed = self.elapsed.max(now.0);
                    return None;
                }
            }
        }
        None
    }

    /// No timer fires before this. Exact when it is near, otherwise a lower bound.
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        if !self.due.is_empty() || !self.opened.as_slice().is_empty() {
            return Some(Tick(self.elapsed));
        }
        self.next_bucket().map(|(_, _, at)| Tick(at))
    }

    /// Looks at a few timers and drops those that no longer count; going on where it stopped, it comes
    /// around to all of them.
    pub(crate) fn tidy(&mut self, looks: usize, counts: impl Fn(&Timer) -> bool) {
        for _ in 0..looks {
            let (bucket, looked_at) = self.tidying;
            let timers = &mut self.buckets[bucket];
            match timers.get(looked_at) {
                Some(timer) if counts(timer) => self.tidying.1 += 1,
                Some(_) => {
                    timers.swap_remove(looked_at);
                    self.armed -= 1;
                    if timers.is_empty() {
                        self.occupied[bucket / BUCKETS] &= !(1 << (bucket % BUCKETS));
                    }
                }
                None => self.tidying = self.next_occupied(bucket),
            }
        }
    }

    fn next_occupied(&self, bucket: usize) -> (usize, usize) {
        let after = (bucket + 1..self.buckets.len()).chain(0..=bucket);
        (after.into_iter().find(|other| !self.buckets[*other].is_empty()).unwrap_or(0), 0)
    }

    pub(crate) fn armed(&self) -> usize {
        self.armed
    }

    fn next_bucket(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|occupied| *occupied != 0)?;
        let bucket = self.occupied[level].trailing_zeros() as usize;
        let shift = level as u32 * BITS;
        let block = self.elapsed & u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        Some((level, bucket, block | (bucket as u64) << shift))
    }

    fn open(&mut self, level: usize, bucket: usize, at: u64) {
        self.elapsed = at;
        self.occupied[level] &= !(1 << bucket);
        let index = level * BUCKETS + bucket;
        if level == 0 {
            core::mem::swap(&mut self.due, &mut self.buckets[index]);
        } else {
            self.opened = core::mem::take(&mut self.buckets[index]).into_iter();
        }
    }

    /// Moves a few timers of an opened bucket down.
    fn place_opened(&mut self) {
        for _ in 0..MOVES_PER_LOOK {
            let Some(timer) = self.opened.next() else { return };
            let at = self.elapsed + u64::from(timer.low.wrapping_sub(self.elapsed as u32));
            self.place(at, timer);
        }
    }

    fn place(&mut self, at: u64, timer: Timer) {
        if at <= self.elapsed {
            self.due.push(timer);
            return;
        }
        let differing = 63 - (at ^ self.elapsed).leading_zeros();
        let level = (differing / BITS) as usize;
        let bucket = (at >> (level as u32 * BITS)) as usize % BUCKETS;
        self.occupied[level] |= 1 << bucket;
        self.buckets[level * BUCKETS + bucket].push(timer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn fires_like_an_ordered_set(
            start in 0_u64..1 << 40,
            steps in proptest::collection::vec((0_u64..1 << 34, 0_u64..1 << 31, any::<bool>()), 1..300),
            looks_per_call in prop_oneof![Just(usize::MAX), 1..4_usize],
        ) {
            let mut wheel = Wheel::new(Tick(start));
            let mut model = BTreeSet::new();
            let mut now = start;
            for (who, (ahead, by, small)) in steps.into_iter().enumerate() {
                let ahead = if small { ahead % 5_000 } else { ahead % (1 << 32) };
                let by = if small { by % 3_000 } else { by };
                wheel.arm(Tick(now + ahead), who as u32, 0);
                model.insert((now + ahead, who as u32));
                now += by;
                loop {
                    let mut looks = looks_per_call;
                    let Some(timer) = wheel.fire(Tick(now), &mut looks) else {
                        if looks > 0 {
                            break;
                        }
                        let is_due = model.first().is_some_and(|(at, _)| *at <= now);
                        let says_so = wheel.next_deadline().is_some_and(|next| next.0 <= now);
                        prop_assert!(says_so || !is_due, "a due timer is forgotten");
                        continue;
                    };
                    prop_assert!(looks < looks_per_call, "a timer that fires takes a look");
                    let found = model.iter().find(|(_, id)| *id == timer.who).copied().unwrap();
                    prop_assert!(found.0 <= now, "fired early");
                    model.remove(&found);
                }
                prop_assert!(model.first().is_none_or(|(at, _)| *at > now), "not fired");
                let next = wheel.next_deadline().map(|tick| tick.0);
                match model.first() {
                    Some((at, _)) => prop_assert!(next.is_some_and(|next| now < next && next <= *at)),
                    None => prop_assert_eq!(next, None),
                }
                prop_assert_eq!(wheel.armed(), model.len());
            }
        }
    }

    #[test]
    fn tidying_drops_what_no_longer_counts_and_nothing_else() {
        let mut wheel = Wheel::new(Tick(0));
        for who in 0..5_000_u32 {
            wheel.arm(Tick(u64::from(who) * 977 % 1_000_000 + 1), who, who % 2);
        }
        wheel.tidy(40_000, |timer| timer.arming == 1);
        assert_eq!(wheel.armed(), 2_500);
        let mut fired: Vec<u32> =
            std::iter::from_fn(|| wheel.fire(Tick(2_000_000), &mut 100_000)).map(|t| t.who).collect();
        fired.sort_unstable();
        assert_eq!(fired, (0..5_000).filter(|who| who % 2 == 1).collect::<Vec<_>>());
        wheel.tidy(10, |_| false);
        assert_eq!((wheel.armed(), wheel.next_deadline()), (0, None));
    }

    #[test]
    fn an_instant_beyond_the_horizon_fires_at_the_horizon() {
        let mut wheel = Wheel::new(Tick(5));
        wheel.arm(Tick(u64::MAX), 1, 2);
        let mut fire = |at| wheel.fire(Tick(at), &mut 100);
        assert_eq!(fire(1 << 31), None);
        assert_eq!(fire(1 << 33).map(|timer| (timer.who, timer.arming)), Some((1, 2)));
        assert_eq!(fire(1 << 40), None);
    }

    // A bucket of a high level was opened in one piece, however many timers it held.
    #[test]
    fn a_full_bucket_is_opened_in_pieces() {
        for at in [3_u64, 70, 90_000, 5_000_000] {
            let mut wheel = Wheel::new(Tick(0));
            (0..1_000).for_each(|who| wheel.arm(Tick(at), who, 0));
            let (mut calls, mut fired) = (0, 0);
            while wheel.next_deadline().is_some_and(|next| next.0 <= at) {
                calls += 1;
                let mut looks = 10;
                while wheel.fire(Tick(at), &mut looks).is_some() {
                    fired += 1;
                }
                assert!(fired <= 10 * calls, "{fired} fired in {calls} calls");
            }
            assert_eq!((fired, wheel.armed()), (1_000, 0), "at {at}");
            assert!((100..=100 * LEVELS).contains(&calls), "{calls} calls at {at}");
        }
    }
}
