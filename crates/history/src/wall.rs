//! Wall-clock time as people write it: RFC 3339, UTC, milliseconds. No clock is read here.

/// Why a text is not an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a time is written like 2026-02-07T22:15:00Z or 2026-02-07T23:15:00.250+01:00, not before 1970")]
pub struct ParseTimeError;

const SECOND_MS: u64 = 1000;
/// Later years have more digits than there are places.
const YEAR_MAX: u64 = 9_999;
const DAY_SECONDS: u64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAY: u64 = 719_468;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: u64 = 146_097;

/// Unix milliseconds in RFC 3339, UTC, with milliseconds.
#[must_use]
pub fn rfc3339(wall_ms: u64) -> String {
    let (seconds, millis) = (wall_ms / SECOND_MS, wall_ms % SECOND_MS);
    let (days, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    if year > YEAR_MAX {
        return format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z");
    }
    // Every answer has a few of these: written by place, not through the formatter.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (places, value) in [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, hour),
        (14..16, minute),
        (17..19, second),
        (20..23, millis),
    ] {
        let mut rest = value;
        for place in text[places].iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    str::from_utf8(&text).expect("invariant: digits are ASCII").to_owned()
}

/// Reads RFC 3339 into unix milliseconds. Digits below the millisecond are cut off; a leap second counts as the one before.
///
/// # Errors
/// When it is not such a text, no such day, or before 1970.
pub fn parse_rfc3339(text: &str) -> Result<u64, ParseTimeError> {
    parse(text).ok_or(ParseTimeError)
}

fn parse(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| bytes.get(*at) != Some(byte))
        || !matches!(bytes.get(10), Some(b'T' | b't' | b' '))
    {
        return None;
    }
    let field = |from: usize, length: usize| digits(bytes.get(from..from + length)?);
    let (year, month, day) = (field(0, 4)?, field(5, 2)?, field(8, 2)?);
    let (hour, minute, second) = (field(11, 2)?, field(14, 2)?, field(17, 2)?);
    if hour > 23 || minute > 59 || second > 60 || year < 1970 {
        return None;
    }
    let days = days_from_civil(year, month, day)?;
    let (millis, zone) = fraction(&bytes[19..])?;
    let seconds = days * DAY_SECONDS + hour * 3600 + minute * 60 + second.min(59);
    let local_ms = i64::try_from(seconds * SECOND_MS + millis).ok()?;
    u64::try_from(local_ms - offset_minutes(zone)? * 60 * SECOND_MS as i64).ok()
}

fn fraction(rest: &[u8]) -> Option<(u64, &[u8])> {
    let Some(rest) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return None;
    }
    let digit = |place: usize| if place < length { u64::from(rest[place] - b'0') } else { 0 };
    Some((digit(0) * 100 + digit(1) * 10 + digit(2), &rest[length..]))
}

fn offset_minutes(zone: &[u8]) -> Option<i64> {
    match zone {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = (hours * 60 + minutes) as i64;
            Some(if *sign == b'+' { minutes } else { -minutes })
        }
        _ => None,
    }
}

fn digits(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0')))
}

// Years begin in March here, so that the leap day is the last day of a year and months follow one formula.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + EPOCH_DAY;
    let (era, day_of_era) = (shifted / ERA_DAYS, shifted % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// `None`: there is no such day.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let shifted_year = year - u64::from(month <= 2);
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * ERA_DAYS + day_of_era).checked_sub(EPOCH_DAY)?;
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        for (wall_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(wall_ms), text);
            assert_eq!(parse_rfc3339(text), Ok(wall_ms));
        }
    }

    #[test]
    fn every_day_of_two_centuries_is_read_back() {
        for day in 0..200 * 366 {
            let wall_ms = day * DAY_SECONDS * SECOND_MS + 12_345_678;
            assert_eq!(parse_rfc3339(&rfc3339(wall_ms)), Ok(wall_ms));
        }
    }

    #[test]
    fn offsets_and_fractions() {
        let utc = parse_rfc3339("2026-02-07T22:15:00Z").unwrap();
        assert_eq!(parse_rfc3339("2026-02-07T23:15:00+01:00"), Ok(utc));
        assert_eq!(parse_rfc3339("2026-02-07 17:45:00-04:30"), Ok(utc));
        assert_eq!(parse_rfc3339("2026-02-07t22:15:00.5z"), Ok(utc + 500));
        assert_eq!(parse_rfc3339("2026-02-07T22:15:00.0019999Z"), Ok(utc + 1));
    }

    #[test]
    fn the_end_of_time_is_printed() {
        assert_eq!(rfc3339(u64::MAX), "584556019-04-03T14:25:51.615Z");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "now",
            "2026-02-07",
            "2026-02-07T22:15Z",
            "2026-02-07T22:15:00",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-02-07T24:00:00Z",
            "2026-02-07T22:15:00.Z",
            "2026-02-07T22:15:00+1",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "2026-02-07T22:15:00Zx",
            "2026-02-07Tüü:15:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), Err(ParseTimeError), "{text:?}");
        }
    }
}
