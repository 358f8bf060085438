//! Bounds of what may be asked over the wire. What the kernel bounds itself is not repeated here.

use tenure_api::{Error, ErrorCode};

/// Shortest ttl.
pub const TTL_MS_MIN: u64 = 1_000;
/// Longest ttl: 24 hours.
pub const TTL_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// Longest grace: an hour.
pub const GRACE_MS_MAX: u64 = 60 * 60 * 1_000;
/// Longest lifetime: a year.
pub const LIFETIME_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1_000;
/// Longest reclaim delay: an hour.
pub(crate) const RECLAIM_DELAY_MS_MAX: u64 = 60 * 60 * 1_000;
/// Longest wait: an hour.
pub const WAIT_MS_MAX: u64 = 60 * 60 * 1_000;
/// Longest operation id.
pub const OPERATION_ID_BYTES_MAX: usize = 128;
/// Largest attachment, as JSON.
pub const ATTACHMENT_BYTES_MAX: usize = tenure_engine::kernel::limits::ATTACHMENT_BYTES_MAX;
/// Most entries in one page.
pub const PAGE_MAX: u64 = 1_000;
/// Entries in a page by default.
pub(crate) const PAGE_DEFAULT: u64 = 100;

/// A duration within its bounds, small enough for the kernel's field.
pub(crate) fn bounded(name: &str, ms: u64, min: u64, max: u64) -> Result<u32, Error> {
    if (min..=max).contains(&ms) {
        return Ok(u32::try_from(ms).expect("invariant: bounds of short durations fit 32 bits"));
    }
    Err(out_of_range(name, ms, min, max))
}

/// Says what the bounds are.
pub(crate) fn out_of_range(name: &str, ms: u64, min: u64, max: u64) -> Error {
    let (given, min, max) = (spelled(ms), spelled(min), spelled(max));
    Error::new(ErrorCode::TtlOutOfRange, format!("{name} is {given}, but must be between {min} and {max}"))
        .with("field", name)
}

/// A duration exactly, in the largest unit that fits: `1s`, `24h`, `1500ms`.
fn spelled(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    // A day is 24h, as people write the bounds of a ttl.
    let fits = |unit: u64| ms >= unit && ms.is_multiple_of(unit) && (unit < 86_400_000 || ms > unit);
    match UNITS.iter().find(|(unit, _)| fits(*unit)) {
        Some((unit, letter)) => format!("{}{letter}", ms.checked_div(*unit).unwrap_or(ms)),
        None => format!("{ms}ms"),
    }
}

/// An error that names the limit, the setting that moves it, and its value at present.
#[must_use]
pub fn over_limit(code: ErrorCode, message: String, limit: &str, setting: &str, value: usize) -> Error {
    Error::new(code, message).with("limit", limit).with("setting", setting).with("value", value)
}

/// An error that names a limit that no setting moves, and its value.
pub(crate) fn fixed_limit(code: ErrorCode, message: impl Into<String>, limit: &str, value: usize) -> Error {
    Error::new(code, message).with("limit", limit).with("value", value)
}

/// The retries of a request that others overtook each time are used up.
pub(crate) fn attempts_used_up(message: String, attempts: usize) -> Error {
    fixed_limit(ErrorCode::Overloaded, message, "attempts", attempts)
        .hint("send the request again after `retry_after_ms`")
}

/// The size of a page.
pub(crate) fn page(limit: Option<u64>) -> Result<usize, Error> {
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(usize::try_from(limit).expect("invariant: a page fits memory"));
    }
    Err(Error::new(
        ErrorCode::InvalidRequest,
        format!("limit is {limit}, but must be between 1 and {PAGE_MAX}"),
    ))
}

const _: () = assert!(TTL_MS_MAX <= u32::MAX as u64);
const _: () = assert!(GRACE_MS_MAX <= u32::MAX as u64);
