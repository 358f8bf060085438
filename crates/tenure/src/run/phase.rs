//! What the guardian has to do next: a state machine over instants and observations. It sends no signal and reads no
//! clock. An end that has begun is never called off, whatever is renewed afterwards.

use serde::{Deserialize, Serialize};
use tenure_client::clock::BootInstant;

use super::timetable::{Pace, Timetable};

/// Why a command is being ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// Validity was not extended in time.
    Deadline,
    /// The supervisor said so.
    Ordered,
    /// The supervisor is gone.
    SupervisorGone,
    /// The command itself is over, and left processes behind.
    Leftovers,
}

/// What the guardian does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Ask everything to end.
    Term,
    /// Kill everything, again and again until nothing is left.
    Kill,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    Ending { kill_at: BootInstant },
    Killing,
}

/// The guardian's view of one command.
#[derive(Debug)]
pub(crate) struct Watch {
    pace: Pace,
    /// `None`: the command may outlive its lease.
    timetable: Option<Timetable>,
    phase: Phase,
    /// Why the end began; `None` while nothing has to end.
    cause: Option<Cause>,
}

impl Watch {
    /// A command whose lease is valid until then.
    pub(crate) fn bounded(pace: Pace, valid_until: BootInstant) -> Self {
        Self { pace, timetable: Some(pace.timetable(valid_until)), phase: Phase::Running, cause: None }
    }

    /// A command that may outlive its lease.
    pub(crate) fn unbounded(pace: Pace) -> Self {
        Self { pace, timetable: None, phase: Phase::Running, cause: None }
    }

    /// Whether there is time left to begin at all.
    pub(crate) fn may_begin(&self, now: BootInstant) -> bool {
        self.begins_before().is_none_or(|term_at| now < term_at)
    }

    /// What begins later would have to end at once; `None`: it may begin at any time.
    pub(crate) fn begins_before(&self) -> Option<BootInstant> {
        self.timetable.map(|table| table.term_at)
    }

    /// When the guardian is to be killed with the command if it has not acted: it must have been stopped. The supervisor
    /// would have acted before that. `None` if nothing has to end, or if everything is being killed.
    pub(crate) fn last_moment(&self) -> Option<BootInstant> {
        match self.phase {
            Phase::Running | Phase::Ending { .. } => {
                self.timetable.map(|table| table.valid_until.before(self.pace.sweep / 4))
            }
            Phase::Killing => None,
        }
    }

    /// A renewal. Promises are never taken back, so an older one that comes late changes nothing.
    pub(crate) fn extend(&mut self, valid_until: BootInstant) {
        if let Some(table) = &mut self.timetable
            && valid_until > table.valid_until
        {
            *table = self.pace.timetable(valid_until);
        }
    }

    /// The command has to end.
    pub(crate) fn end(&mut self, now: BootInstant, cause: Cause) -> Option<Step> {
        match self.phase {
            Phase::Running => {
                self.cause = Some(cause);
                let kill_at = now.after(self.pace.kill_after);
                let kill_at = self.timetable.map_or(kill_at, |table| kill_at.min(table.kill_at));
                if now >= kill_at {
                    self.phase = Phase::Killing;
                    return Some(Step::Kill);
                }
                self.phase = Phase::Ending { kill_at };
                Some(Step::Term)
            }
            Phase::Ending { .. } | Phase::Killing => None,
        }
    }

    /// Time has passed.
    pub(crate) fn on_alarm(&mut self, now: BootInstant) -> Option<Step> {
        match (self.phase, self.timetable) {
            (Phase::Running, Some(table)) if now >= table.term_at => self.end(now, Cause::Deadline),
            (Phase::Running, _) => None,
            (Phase::Ending { kill_at }, _) if now >= kill_at => {
                self.phase = Phase::Killing;
                Some(Step::Kill)
            }
            (Phase::Ending { .. } | Phase::Killing, _) => None,
        }
    }

    /// When to look again; `None` while nothing is due.
    pub(crate) fn next_alarm(&self) -> Option<BootInstant> {
        match self.phase {
            Phase::Running => self.timetable.map(|table| table.term_at),
            Phase::Ending { kill_at } => Some(kill_at),
            Phase::Killing => None,
        }
    }

    /// Why the end began; `None` while nothing has to end.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Whether everything has to go now.
    pub(crate) fn is_killing(&self) -> bool {
        self.phase == Phase::Killing
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PACE: Pace = Pace { kill_after: Duration::from_millis(300), sweep: Duration::from_millis(100) };

    fn at(ms: u64) -> BootInstant {
        BootInstant::from_ms(ms)
    }

    fn watch(valid_until: u64) -> Watch {
        Watch::bounded(PACE, at(valid_until))
    }

    #[test]
    fn silence_ends_in_a_kill_before_validity_ends() {
        let mut watch = watch(1_000);
        assert_eq!(watch.next_alarm(), Some(at(600)));
        assert_eq!(watch.on_alarm(at(599)), None);
        assert_eq!(watch.on_alarm(at(600)), Some(Step::Term));
        assert_eq!(watch.next_alarm(), Some(at(900)));
        assert_eq!(watch.on_alarm(at(899)), None);
        assert_eq!(watch.on_alarm(at(900)), Some(Step::Kill));
        assert!(watch.is_killing());
        assert_eq!(watch.cause(), Some(Cause::Deadline));
        assert_eq!(watch.next_alarm(), None);
    }

    #[test]
    fn renewals_move_the_end_and_late_ones_do_not_move_it_back() {
        let mut watch = watch(1_000);
        watch.extend(at(2_000));
        watch.extend(at(1_500));
        assert_eq!(watch.next_alarm(), Some(at(1_600)));
        assert_eq!(watch.on_alarm(at(1_599)), None);
    }

    #[test]
    fn a_renewal_does_not_call_an_end_off() {
        let mut watch = watch(1_000);
        watch.on_alarm(at(650));
        watch.extend(at(9_000));
        assert_eq!(watch.next_alarm(), Some(at(900)));
        assert_eq!(watch.on_alarm(at(900)), Some(Step::Kill));
    }

    #[test]
    fn whoever_wakes_too_late_for_words_kills_at_once() {
        let mut watch = watch(1_000);
        assert_eq!(watch.on_alarm(at(5_000)), Some(Step::Kill));
    }

    #[test]
    fn a_late_start_of_the_end_leaves_less_time_to_comply() {
        let mut watch = watch(1_000);
        assert_eq!(watch.on_alarm(at(850)), Some(Step::Term));
        assert_eq!(watch.next_alarm(), Some(at(900)));
    }

    #[test]
    fn an_ordered_end_takes_its_time_but_not_beyond_validity() {
        let mut early = watch(10_000);
        assert_eq!(early.end(at(100), Cause::SupervisorGone), Some(Step::Term));
        assert_eq!(early.next_alarm(), Some(at(400)));
        assert_eq!(early.end(at(200), Cause::Ordered), None);
        assert_eq!(early.cause(), Some(Cause::SupervisorGone));
        let mut late = watch(1_000);
        late.end(at(590), Cause::Leftovers);
        assert_eq!(late.next_alarm(), Some(at(890)));
    }

    #[test]
    fn without_a_bound_only_orders_end_it() {
        let mut watch = Watch::unbounded(PACE);
        assert_eq!((watch.next_alarm(), watch.on_alarm(at(9_000))), (None, None));
        watch.extend(at(5));
        assert_eq!(watch.end(at(9_000), Cause::Ordered), Some(Step::Term));
        assert_eq!(watch.next_alarm(), Some(at(9_300)));
    }

    #[test]
    fn the_last_moment_is_after_everybody_elses_and_before_validity_ends() {
        let mut watch = watch(1_000);
        assert_eq!(watch.last_moment(), Some(at(975)));
        watch.extend(at(2_000));
        assert_eq!(watch.last_moment(), Some(at(1_975)), "a renewal moves it");
        watch.end(at(1_500), Cause::Ordered);
        assert_eq!(watch.last_moment(), Some(at(1_975)));
        watch.on_alarm(at(1_800));
        assert_eq!(watch.last_moment(), None, "a guardian that kills is not stopped");
        assert_eq!(Watch::unbounded(PACE).last_moment(), None);
    }

    #[test]
    fn nothing_begins_when_it_would_have_to_end() {
        assert!(watch(1_000).may_begin(at(599)));
        assert!(!watch(1_000).may_begin(at(600)));
        assert!(Watch::unbounded(PACE).may_begin(at(600)));
    }
}
