//! When what has to happen so that nothing of a command runs once its lease may be somebody else's. Arithmetic only:
//! instants are given, no clock is read.
//!
//! ```text
//! sent ──────── renewals ────────┬─ kill_after ─┬─ sweep ─┬─ margin ─┐
//!                             term_at        kill_at  valid_until   the promise ends
//! ```

use std::time::Duration;

use tenure_client::clock::BootInstant;

/// Kept free between local validity and the end of the promise, for scheduling. The slack for clock rates is in `valid_ms`.
const MARGIN: Duration = Duration::from_millis(50);
const KILL_AFTER_MAX: Duration = Duration::from_secs(5);
/// The end of a command begins this part of the ttl before validity ends, unless told otherwise.
const LEAD_PART: u32 = 6;
/// Renewals within one promise: with the lead, about half of a ttl may pass without an answer.
const RENEWALS: u32 = 6;
const SWEEP_MIN: Duration = Duration::from_millis(100);
const SWEEP_MAX: Duration = Duration::from_secs(1);

/// How long the steps of an end take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    /// From the polite signal to SIGKILL.
    pub(crate) kill_after: Duration,
    /// From SIGKILL until everything is certainly gone.
    pub(crate) sweep: Duration,
}

/// What has to have happened by when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timetable {
    /// The polite signal.
    pub(crate) term_at: BootInstant,
    /// SIGKILL.
    pub(crate) kill_at: BootInstant,
    /// Nothing runs any more.
    pub(crate) valid_until: BootInstant,
}

/// Until when the holder may act on an answer to a request that was sent at `sent`.
pub(crate) fn valid_until(sent: BootInstant, valid_ms: u64) -> BootInstant {
    sent.after(Duration::from_millis(valid_ms).saturating_sub(MARGIN))
}

impl Pace {
    /// The pace of a lease with this ttl.
    pub(crate) fn new(ttl: Duration, kill_after: Option<Duration>) -> Self {
        let sweep = (ttl / 10).clamp(SWEEP_MIN, SWEEP_MAX);
        let lead = (ttl / LEAD_PART).saturating_sub(sweep).min(KILL_AFTER_MAX);
        Self { kill_after: kill_after.unwrap_or(lead), sweep }
    }

    /// Longer than this leaves too little time for renewals.
    pub(crate) fn kill_after_max(ttl: Duration) -> Duration {
        ttl / 3
    }

    /// Until the next renewal of a promise that lasts from `sent` to `until`, and early enough for a second try.
    pub(crate) fn interval(&self, sent: BootInstant, until: BootInstant) -> Duration {
        let half_way = self.timetable(until).term_at.since(sent) / 2;
        (until.since(sent) / RENEWALS).min(half_way)
    }

    /// How long the daemon may be silent, at least, before the end of a command with this ttl begins: a renewal may have
    /// been due, a tenth late, when it fell silent.
    pub(crate) fn max_silence(&self, ttl: Duration) -> Duration {
        let sent = BootInstant::from_ms(0);
        let until = valid_until(sent, tenure_liveness::valid_ms(ttl.as_millis() as u64));
        let renewed = self.interval(sent, until).mul_f64(1.1);
        self.timetable(until).term_at.since(sent).saturating_sub(renewed)
    }

    /// What follows from validity until `valid_until`.
    pub(crate) fn timetable(&self, valid_until: BootInstant) -> Timetable {
        let kill_at = valid_until.before(self.sweep);
        Timetable { term_at: kill_at.before(self.kill_after), kill_at, valid_until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn validity_counts_from_before_the_request_and_ends_before_the_promise() {
        let sent = BootInstant::from_ms(10_000);
        assert_eq!(valid_until(sent, 30_000).as_ms(), 10_000 + 29_950);
        assert_eq!(valid_until(sent, 1_000).as_ms(), 10_000 + 950);
        assert_eq!(valid_until(sent, 20), sent);
        assert_eq!(valid_until(sent, 0), sent);
    }

    #[test]
    fn the_end_is_over_when_validity_ends() {
        let pace = Pace::new(ms(30_000), None);
        assert_eq!(pace, Pace { kill_after: ms(4_000), sweep: ms(1_000) });
        let table = pace.timetable(BootInstant::from_ms(30_000));
        assert_eq!((table.term_at.as_ms(), table.kill_at.as_ms()), (25_000, 29_000));
    }

    // Renewals at a third and an end that began at nearly half of the ttl bore less than a change of leader takes.
    #[test]
    fn half_of_a_ttl_may_pass_without_an_answer() {
        for ttl in [2_000, 5_000, 6_000, 10_000, 30_000, 90_000] {
            let max_silence = Pace::new(ms(ttl), None).max_silence(ms(ttl));
            assert!(max_silence >= ms(ttl) / 2, "{ttl}: {max_silence:?}");
        }
        // A long time between the signals is subtracted.
        assert!(Pace::new(ms(6_000), Some(ms(2_000))).max_silence(ms(6_000)) < ms(3_000));
    }

    #[test]
    fn short_leases_keep_time_for_renewals() {
        for ttl in [1_000, 1_500, 3_000, 10_000, 90_000] {
            let sent = BootInstant::from_ms(1);
            let table = Pace::new(ms(ttl), None).timetable(valid_until(sent, ttl));
            assert!(table.term_at.since(sent) > ms(ttl) * 3 / 4, "{ttl}");
            assert!(table.kill_at < table.valid_until);
        }
    }
}
