//! What an engine does with its log: it leads, follows, or has stopped. Each turn asks [`EngineMode::begin`] once how
//! far it may go, and no other code combines these states. [`Grants`] are what else a grant needs.
//!
//! Invariant: an engine that has stopped stays stopped, and a follower never becomes the leader.

use crate::answer::Refused;
use crate::engine::{Role, Stop};
use crate::ticker::Now;
use tenure_kernel::Tick;
use tenure_log::{Authority, Space};

/// What an engine does with its log from one turn to the next. The kernel's `Mode` is about one lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EngineMode {
    Leads(Leading),
    Follows,
    Stopped {
        stop: Stop,
        /// Which it had until then.
        role: Role,
        /// Decides what becomes of answers that have not left.
        authority: Authority,
    },
}

/// How a leader stands. Every combination occurs: a frame can become unknown while the daemon stops, and the authority
/// can lapse after that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leading {
    authority: Authority,
    /// The authority ran out, and no turn has worked since.
    has_lapsed: bool,
    frame: FrameOutcome,
    daemon: Daemon,
}

/// Whether the log has said what became of the frame that it was given last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameOutcome {
    Known,
    /// It is being found out. Until then nothing is decided.
    Unknown,
}

/// See [`crate::request::Control::Stopping`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Daemon {
    Runs,
    Stops,
}

/// How far a turn may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// The engine has stopped: it answers what it can.
    Over,
    /// The engine follows: it answers what only looks.
    Looks,
    /// The leader has no authority: it decides nothing, and no answer leaves.
    Waits,
    Works {
        /// The authority had lapsed.
        regains: bool,
        /// The turn may decide and give out a frame.
        decides: bool,
    },
}

/// What a grant needs beside the rules: room on the disk, and the end of the wait after a restore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Grants {
    pub(crate) space: Space,
    /// A holder that the log has forgotten may act until then.
    pub(crate) not_before: Option<Tick>,
}

impl EngineMode {
    /// A leader that has decided nothing yet.
    pub(crate) fn leads(authority: Authority) -> Self {
        let (frame, daemon) = (FrameOutcome::Known, Daemon::Runs);
        Self::Leads(Leading { authority, has_lapsed: false, frame, daemon })
    }

    /// Decides how far a turn may go, once its completions are in.
    pub(crate) fn begin(&mut self, now: Now) -> Turn {
        match self {
            Self::Stopped { .. } => Turn::Over,
            Self::Follows => Turn::Looks,
            Self::Leads(leading) if !lasts(leading.authority, now) => {
                leading.has_lapsed = true;
                Turn::Waits
            }
            Self::Leads(leading) => Turn::Works {
                regains: core::mem::take(&mut leading.has_lapsed),
                decides: leading.frame == FrameOutcome::Known,
            },
        }
    }

    /// Stops the engine. The last reason of a turn is the one that the host hears.
    pub(crate) fn stop(&mut self, stop: Stop) {
        let (role, authority) = match self {
            Self::Leads(leading) => (Role::Writing, leading.authority),
            Self::Follows => (Role::Following, Authority::Forever),
            Self::Stopped { role, authority, .. } => (*role, *authority),
        };
        *self = Self::Stopped { stop, role, authority };
    }

    /// Stops the engine for a frame that it cannot apply, which is a consequence where there is a reason already.
    pub(crate) fn stop_if_running(&mut self, stop: Stop) {
        match self {
            Self::Leads(_) | Self::Follows => self.stop(stop),
            Self::Stopped { .. } => {}
        }
    }

    /// Takes the log's word of how long the leader may answer.
    pub(crate) fn authority_is(&mut self, authority: Authority, now: Now) {
        match self {
            Self::Leads(leading) => {
                // No turn may have seen that the former one was over, if the process was stopped meanwhile.
                leading.has_lapsed |= !lasts(leading.authority, now);
                leading.authority = authority;
            }
            Self::Follows => {}
            Self::Stopped { authority: known, .. } => *known = authority,
        }
    }

    pub(crate) fn frame_is(&mut self, frame: FrameOutcome) {
        match self {
            Self::Leads(leading) => leading.frame = frame,
            Self::Follows | Self::Stopped { .. } => {}
        }
    }

    pub(crate) fn daemon_stops(&mut self) {
        match self {
            Self::Leads(leading) => leading.daemon = Daemon::Stops,
            Self::Follows | Self::Stopped { .. } => {}
        }
    }

    pub(crate) fn role(&self) -> Role {
        match self {
            Self::Leads(_) => Role::Writing,
            Self::Follows => Role::Following,
            Self::Stopped { role, .. } => *role,
        }
    }

    pub(crate) fn stop_reason(&self) -> Option<&Stop> {
        match self {
            Self::Stopped { stop, .. } => Some(stop),
            Self::Leads(_) | Self::Follows => None,
        }
    }

    /// Whether what was decided may be told. A follower tells only what another engine committed.
    pub(crate) fn may_answer(&self, now: Now) -> bool {
        match self {
            Self::Leads(Leading { authority, .. }) | Self::Stopped { authority, .. } => {
                lasts(*authority, now)
            }
            Self::Follows => true,
        }
    }

    /// When a turn is needed because the authority ends: that turn answers everything that waits.
    pub(crate) fn authority_ends_in_ms(&self, now: Now) -> Option<u64> {
        match self {
            Self::Leads(Leading { authority: Authority::Until { boot_ms }, .. }) => {
                Some(boot_ms.saturating_sub(now.boot_ms).max(1))
            }
            Self::Leads(Leading { authority: Authority::Forever, .. })
            | Self::Follows
            | Self::Stopped { .. } => None,
        }
    }

    /// Whether the silence of a holder, or of its connection, may be the daemon's doing.
    pub(crate) fn is_daemon_stopping(&self) -> bool {
        match self {
            Self::Leads(leading) => leading.daemon == Daemon::Stops,
            Self::Follows | Self::Stopped { .. } => false,
        }
    }
}

impl Grants {
    pub(crate) fn open() -> Self {
        Self { space: Space::Ok, not_before: None }
    }

    /// Lets no grant happen before a tick. The latest of several counts.
    pub(crate) fn wait_until(&mut self, until: Tick, now: Tick) {
        if until > now {
            self.not_before = Some(self.not_before.map_or(until, |known| known.max(until)));
        }
    }

    /// Whether anything may be granted now.
    pub(crate) fn check(&mut self, now: Tick) -> Result<(), Refused> {
        if self.space == Space::Low {
            return Err(Refused::DiskLow);
        }
        match self.not_before {
            Some(until) if now < until => Err(Refused::NotYet { remaining_ms: until.ms_since(now) }),
            Some(_) => {
                self.not_before = None;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn lasts(authority: Authority, now: Now) -> bool {
    match authority {
        Authority::Forever => true,
        Authority::Until { boot_ms } => now.boot_ms < boot_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { boot_ms: 1_000, wall_ms: 0 };
    const LASTS: Authority = Authority::Until { boot_ms: 1_001 };
    const OVER: Authority = Authority::Until { boot_ms: 1_000 };

    fn works(regains: bool, decides: bool) -> Turn {
        Turn::Works { regains, decides }
    }

    /// Every way in which a leader can stand, and how far its turn may go.
    fn leaders() -> impl Iterator<Item = (Leading, Turn)> {
        use FrameOutcome::{Known, Unknown};
        let rows = [
            (Authority::Forever, false, Known, works(false, true)),
            (Authority::Forever, false, Unknown, works(false, false)),
            (Authority::Forever, true, Known, works(true, true)),
            (Authority::Forever, true, Unknown, works(true, false)),
            (LASTS, false, Known, works(false, true)),
            (LASTS, false, Unknown, works(false, false)),
            (LASTS, true, Known, works(true, true)),
            (LASTS, true, Unknown, works(true, false)),
            (OVER, false, Known, Turn::Waits),
            (OVER, false, Unknown, Turn::Waits),
            (OVER, true, Known, Turn::Waits),
            (OVER, true, Unknown, Turn::Waits),
        ];
        rows.into_iter().flat_map(|(authority, has_lapsed, frame, turn)| {
            [Daemon::Runs, Daemon::Stops]
                .map(|daemon| (Leading { authority, has_lapsed, frame, daemon }, turn))
        })
    }

    #[test]
    fn a_leaders_turn_depends_on_authority_then_lapse_then_frame() {
        for (leading, turn) in leaders() {
            let mut mode = EngineMode::Leads(leading.clone());
            assert_eq!(mode.role(), Role::Writing);
            assert_eq!(mode.may_answer(NOW), turn != Turn::Waits, "{leading:?}");
            assert_eq!(mode.is_daemon_stopping(), leading.daemon == Daemon::Stops);
            assert_eq!(mode.begin(NOW), turn, "{leading:?}");
            let after = Leading { has_lapsed: turn == Turn::Waits, ..leading };
            assert_eq!(mode, EngineMode::Leads(after));
        }
    }

    #[test]
    fn a_follower_looks_and_may_always_answer() {
        let mut mode = EngineMode::Follows;
        mode.authority_is(OVER, NOW);
        mode.frame_is(FrameOutcome::Unknown);
        mode.daemon_stops();
        assert_eq!((mode.begin(NOW), mode.role()), (Turn::Looks, Role::Following));
        assert!(mode.may_answer(NOW) && !mode.is_daemon_stopping());
        assert_eq!((mode.stop_reason(), mode.authority_ends_in_ms(NOW)), (None, None));
    }

    #[test]
    fn a_stop_comes_before_everything_else() {
        let leaders = leaders().map(|(leading, turn)| (EngineMode::Leads(leading), turn != Turn::Waits));
        for (mut mode, may_answer) in leaders.chain([(EngineMode::Follows, true)]) {
            let role = mode.role();
            mode.stop(Stop::Fenced);
            mode.frame_is(FrameOutcome::Unknown);
            mode.daemon_stops();
            assert_eq!((mode.begin(NOW), mode.begin(NOW)), (Turn::Over, Turn::Over));
            assert_eq!((mode.stop_reason(), mode.role()), (Some(&Stop::Fenced), role));
            assert_eq!(mode.may_answer(NOW), may_answer, "{mode:?}");
            // A completion later in the same turn.
            for (authority, may_answer) in [(OVER, false), (LASTS, true)] {
                mode.authority_is(authority, NOW);
                assert_eq!(mode.may_answer(NOW), may_answer, "{mode:?}");
                assert_eq!(mode.begin(NOW), Turn::Over);
            }
        }
    }

    #[test]
    fn the_last_reason_counts_unless_it_is_a_consequence() {
        let failed = || Stop::LogFailed("broken".to_owned());
        for mut mode in [EngineMode::leads(Authority::Forever), EngineMode::Follows] {
            mode.stop_if_running(failed());
            assert_eq!(mode.stop_reason(), Some(&failed()));
            mode.stop(Stop::Fenced);
            assert_eq!(mode.stop_reason(), Some(&Stop::Fenced));
            mode.stop_if_running(failed());
            assert_eq!(mode.stop_reason(), Some(&Stop::Fenced));
        }
    }

    #[test]
    fn authority_that_was_over_between_two_turns_has_lapsed() {
        for (before, turn) in [(LASTS, works(false, true)), (OVER, works(true, true))] {
            let mut mode = EngineMode::leads(before);
            mode.authority_is(LASTS, NOW);
            assert_eq!(mode.begin(NOW), turn);
            assert_eq!(mode.begin(NOW), works(false, true));
        }
    }

    #[test]
    fn the_end_of_authority_brings_a_turn() {
        let ends_in_ms = |authority| EngineMode::leads(authority).authority_ends_in_ms(NOW);
        assert_eq!(ends_in_ms(Authority::Forever), None);
        assert_eq!(ends_in_ms(Authority::Until { boot_ms: 1_500 }), Some(500));
        assert_eq!(ends_in_ms(OVER), Some(1));
    }

    #[test]
    fn grants_need_room_and_the_latest_wait_to_be_over() {
        let mut grants = Grants::open();
        grants.wait_until(Tick(10), Tick(10));
        assert_eq!(grants, Grants::open());
        grants.wait_until(Tick(30), Tick(10));
        grants.wait_until(Tick(20), Tick(10));
        assert_eq!(grants.check(Tick(29)), Err(Refused::NotYet { remaining_ms: 1 }));
        grants.space = Space::Low;
        assert_eq!(grants.check(Tick(30)), Err(Refused::DiskLow));
        assert_eq!(grants.not_before, Some(Tick(30)), "a full disk is looked at first");
        grants.space = Space::Ok;
        assert_eq!((grants.check(Tick(30)), grants.not_before), (Ok(()), None));
    }
}
