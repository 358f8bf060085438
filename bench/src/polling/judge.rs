//! What a sink that remembers the highest fence of each target would say to all that was polled. Pure.
//!
//! A poll writes when it begins and when it ends; what carries a lower fence than was seen before is refused. A poll
//! runs from its begin to its end, to the death of its process, and not while its process stands still.

use super::record::Kind;
use super::witness::{Heard, PollerNumber};
use std::collections::HashMap;
use tenure_client::clock::BootInstant;

/// What was done to pollers meanwhile.
#[derive(Default)]
pub(super) struct Fates {
    /// Who was killed, and when it was gone.
    pub(super) deaths: HashMap<PollerNumber, BootInstant>,
    /// Who stood still, from when until when.
    pub(super) frozen: Vec<(PollerNumber, BootInstant, BootInstant)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Verdict {
    /// Polls that began.
    pub(super) polls: u64,
    /// Accepted while an accepted poll of another poller ran on the same target.
    pub(super) overlaps: u64,
    /// Begun with a fence that another poller uses.
    pub(super) shared_fences: u64,
    /// Begun with a fence that had been passed.
    pub(super) begins_refused: u64,
    /// Ended with a fence that had been passed.
    pub(super) ends_refused: u64,
}

struct Running {
    poller: PollerNumber,
    fence: u64,
}

#[derive(Default)]
struct Sink {
    highest: u64,
    by: PollerNumber,
    running: Vec<Running>,
}

pub(super) fn judge(heard: &[Heard], fates: &Fates) -> Verdict {
    let mut in_order: Vec<&Heard> = heard.iter().collect();
    in_order.sort_by_key(|heard| heard.record.at);
    let mut sinks: HashMap<u32, Sink> = HashMap::new();
    let mut verdict = Verdict::default();
    for Heard { poller, record } in in_order {
        let sink = sinks.entry(record.target).or_default();
        match record.kind {
            Kind::Begin => sink.begin(*poller, record.fence, record.at, fates, &mut verdict),
            Kind::End => {
                verdict.ends_refused += u64::from(record.fence < sink.highest);
                sink.running.retain(|running| (running.poller, running.fence) != (*poller, record.fence));
            }
        }
    }
    verdict
}

impl Sink {
    fn begin(
        &mut self,
        poller: PollerNumber,
        fence: u64,
        at: BootInstant,
        fates: &Fates,
        verdict: &mut Verdict,
    ) {
        verdict.polls += 1;
        if fence < self.highest {
            verdict.begins_refused += 1;
            return;
        }
        verdict.shared_fences += u64::from(fence == self.highest && poller != self.by);
        let overlaps = |running: &&Running| running.poller != poller && fates.runs(running.poller, at);
        verdict.overlaps += self.running.iter().filter(overlaps).count() as u64;
        // What ran with a lower fence is refused from now on.
        self.running.retain(|running| running.fence == fence);
        self.running.push(Running { poller, fence });
        (self.highest, self.by) = (fence, poller);
    }
}

impl Fates {
    fn runs(&self, poller: PollerNumber, at: BootInstant) -> bool {
        let is_dead = self.deaths.get(&poller).is_some_and(|death| *death <= at);
        let stands_still = |(frozen, from, until): &(PollerNumber, BootInstant, BootInstant)| {
            *frozen == poller && (*from..*until).contains(&at)
        };
        !is_dead && !self.frozen.iter().any(stands_still)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::*;
    use Kind::{Begin, End};

    fn ms(ms: u64) -> BootInstant {
        BootInstant::from_ms(ms)
    }

    /// Poller, what, fence, when; of one target.
    fn judged(words: &[(PollerNumber, Kind, u64, u64)], fates: &Fates) -> Verdict {
        let heard = |&(poller, kind, fence, at): &(PollerNumber, Kind, u64, u64)| Heard {
            poller,
            record: Record { kind, target: 0, fence, at: ms(at), valid_until: ms(0) },
        };
        judge(&words.iter().map(heard).collect::<Vec<_>>(), fates)
    }

    #[test]
    fn polls_one_after_the_other_are_in_order() {
        let words = [(0, Begin, 1, 0), (0, End, 1, 5), (1, Begin, 2, 6), (1, End, 2, 9), (1, Begin, 2, 20)];
        assert_eq!(judged(&words, &Fates::default()), Verdict { polls: 3, ..Verdict::default() });
    }

    #[test]
    fn a_poll_that_begins_while_anothers_runs_is_an_overlap() {
        let words = [(0, Begin, 1, 0), (1, Begin, 2, 3), (0, End, 1, 5), (1, End, 2, 9)];
        let verdict = judged(&words, &Fates::default());
        assert_eq!((verdict.overlaps, verdict.ends_refused, verdict.begins_refused), (1, 1, 0));
    }

    #[test]
    fn a_poll_with_a_fence_that_was_passed_is_refused_and_overlaps_nothing() {
        let words = [(1, Begin, 2, 0), (0, Begin, 1, 3), (0, End, 1, 4), (1, End, 2, 9), (1, Begin, 2, 10)];
        let verdict = judged(&words, &Fates::default());
        assert_eq!((verdict.overlaps, verdict.begins_refused, verdict.ends_refused), (0, 1, 1));
    }

    #[test]
    fn what_stood_still_does_not_run_and_is_refused_when_it_goes_on() {
        let fates = Fates { frozen: vec![(0, ms(1), ms(50))], ..Fates::default() };
        let words = [(0, Begin, 1, 0), (1, Begin, 2, 40), (0, End, 1, 51), (1, End, 2, 60)];
        let verdict = judged(&words, &fates);
        assert_eq!((verdict.overlaps, verdict.ends_refused), (0, 1));
        let too_soon = Fates { frozen: vec![(0, ms(1), ms(30))], ..Fates::default() };
        assert_eq!(judged(&words, &too_soon).overlaps, 1);
    }

    #[test]
    fn the_dead_do_not_run() {
        let fates = Fates { deaths: HashMap::from([(0, ms(2))]), ..Fates::default() };
        assert_eq!(judged(&[(0, Begin, 1, 0), (1, Begin, 2, 40)], &fates).overlaps, 0);
        assert_eq!(judged(&[(0, Begin, 1, 0), (1, Begin, 2, 1)], &fates).overlaps, 1);
    }

    #[test]
    fn a_fence_that_two_use_is_told() {
        let words = [(0, Begin, 1, 0), (0, End, 1, 1), (1, Begin, 1, 2), (1, End, 1, 3)];
        assert_eq!(judged(&words, &Fates::default()).shared_fences, 1);
    }
}
