//! Members that die one after the other: when to say so. Pure.

use core::time::Duration;
use std::collections::VecDeque;
use tenure_client::clock::BootInstant;

/// So many that died …
const MANY: usize = 3;
/// … within so many ttls are worth a word, once in that time.
const TTLS: u32 = 10;
/// More are not told apart.
const REMEMBERED_MAX: usize = 1_000;

pub(super) struct Deaths {
    /// As the store counts them; `None` before the first look.
    total: Option<u64>,
    recent: VecDeque<BootInstant>,
    within: Duration,
    said: Option<BootInstant>,
}

/// Too many died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flapping {
    pub(super) deaths: usize,
    pub(super) within: Duration,
}

impl Deaths {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { total: None, recent: VecDeque::new(), within: ttl * TTLS, said: None }
    }

    /// Takes in how many died until now. How many of them are new, and what is to be said of it.
    pub(super) fn note(&mut self, total: u64, now: BootInstant) -> (u64, Option<Flapping>) {
        let new = total.saturating_sub(self.total.unwrap_or(total));
        self.total = Some(total);
        let room = REMEMBERED_MAX.min(usize::try_from(new).unwrap_or(REMEMBERED_MAX));
        self.recent.extend(core::iter::repeat_n(now, room));
        while self.recent.len() > REMEMBERED_MAX
            || self.recent.front().is_some_and(|died| now.since(*died) >= self.within)
        {
            self.recent.pop_front();
        }
        let is_said = self.said.is_some_and(|said| now.since(said) < self.within);
        if new == 0 || self.recent.len() < MANY || is_said {
            return (new, None);
        }
        self.said = Some(now);
        (new, Some(Flapping { deaths: self.recent.len(), within: self.within }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(6);

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_ms(seconds * 1_000)
    }

    #[test]
    fn three_deaths_within_ten_ttls_are_said_once_in_that_time() {
        let mut deaths = Deaths::new(TTL);
        assert_eq!(deaths.note(7, at(0)), (0, None), "what was before is not ours to tell");
        assert_eq!(deaths.note(8, at(8)), (1, None));
        assert_eq!(deaths.note(9, at(11)), (1, None));
        assert_eq!(deaths.note(9, at(12)), (0, None));
        let said = |deaths| Some(Flapping { deaths, within: TTL * 10 });
        assert_eq!(deaths.note(10, at(14)), (1, said(3)));
        assert_eq!(deaths.note(12, at(20)), (2, None), "said already");
        assert_eq!(deaths.note(13, at(74)), (1, said(2 + 1)), "it goes on");
        assert_eq!(deaths.note(14, at(500)), (1, None), "one now and then");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut deaths = Deaths::new(TTL);
        deaths.note(0, at(0));
        let (new, flapping) = deaths.note(u64::MAX, at(1));
        assert_eq!((new, flapping.map(|flapping| flapping.deaths)), (u64::MAX, Some(REMEMBERED_MAX)));
        assert_eq!(
            deaths.note(3, at(2)),
            (0, None),
            "a store that was opened anew counts from its beginning"
        );
    }
}
