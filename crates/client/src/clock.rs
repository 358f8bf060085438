//! The one place of this library that reads a clock: time since boot, which goes on while the machine is
//! suspended and which nobody can set.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};

/// A timer of the runtime stands still in suspend; the clock is looked at again at least this often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// An instant on `CLOCK_BOOTTIME`, the same for every process until the next boot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BootInstant {
    since_boot_ns: u64,
}

impl BootInstant {
    /// The present instant.
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
        Self { since_boot_ns: seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds) }
    }

    /// The instant this many milliseconds after boot.
    #[must_use]
    pub const fn from_ms(since_boot_ms: u64) -> Self {
        Self { since_boot_ns: since_boot_ms.saturating_mul(1_000_000) }
    }

    /// The instant this many nanoseconds after boot.
    #[must_use]
    pub const fn from_ns(since_boot_ns: u64) -> Self {
        Self { since_boot_ns }
    }

    /// Whole milliseconds since boot.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.since_boot_ns / 1_000_000
    }

    /// Nanoseconds since boot.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.since_boot_ns
    }

    /// The instant this much later, saturating.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self { since_boot_ns: self.since_boot_ns.saturating_add(ns) }
    }

    /// The instant this much earlier; at the earliest boot.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self { since_boot_ns: self.since_boot_ns.saturating_sub(ns) }
    }

    /// The time since `earlier`; zero if this instant is before it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.since_boot_ns.saturating_sub(earlier.since_boot_ns))
    }
}

/// The wall-clock time of an instant: RFC 3339, UTC, with milliseconds, by the current wall clock.
#[must_use]
pub fn wall_time(instant: BootInstant) -> String {
    let (boot, wall) = (BootInstant::now(), clock_gettime(ClockId::Realtime));
    let whole = u64::try_from(wall.tv_sec).unwrap_or(0).saturating_mul(1_000);
    let wall_ms = whole.saturating_add(u64::try_from(wall.tv_nsec).unwrap_or(0) / 1_000_000);
    let wall_ms = wall_ms.saturating_add(instant.as_ms()).saturating_sub(boot.as_ms());
    let (days, ms) = (wall_ms / 86_400_000, wall_ms % 86_400_000);
    let (hour, minute, second, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
    // Days to a date in a calendar whose years begin in March, so that the leap day is the last.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Waits for the instant. Returns at once after a pause of the process, and at most half a second after the machine
/// resumed from suspend.
pub async fn wait_until(instant: BootInstant) {
    loop {
        let left = instant.since(BootInstant::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_AGAIN)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_ends_at_boot_and_at_the_end_of_time() {
        let second = BootInstant::from_ms(1_000);
        assert_eq!(second.after(Duration::from_millis(5)).as_ms(), 1_005);
        assert_eq!(second.before(Duration::from_secs(2)), BootInstant::from_ms(0));
        assert_eq!(second.after(Duration::MAX).as_ns(), u64::MAX);
        assert_eq!(second.since(BootInstant::from_ms(400)), Duration::from_millis(600));
        assert_eq!(BootInstant::from_ms(400).since(second), Duration::ZERO);
    }

    #[test]
    fn the_wall_shows_what_people_expect() {
        let told = wall_time(BootInstant::now());
        assert_eq!(told.len(), 24, "{told}");
        let year: u32 = told[..4].parse().expect("a year");
        assert!((2024..2100).contains(&year), "{told}");
        assert!(wall_time(BootInstant::now().after(Duration::from_secs(86_400))) > told);
    }

    #[tokio::test]
    async fn waiting_ends_when_the_instant_has_come_and_not_before() {
        let instant = BootInstant::now().after(Duration::from_millis(20));
        wait_until(instant).await;
        assert!(BootInstant::now() >= instant);
        wait_until(BootInstant::from_ms(0)).await;
    }
}
