//! How often one principal may ask: a bucket that holds one second's worth and fills steadily. Time enters as a value.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tenure_api::{Error, ErrorCode};
use tenure_engine::kernel::Text;
use tenure_faces::over_limit;

/// Most principals that are counted at once. One that was idle for a second needs no entry.
const PRINCIPALS_MAX: usize = 16 << 10;
/// One request, in the unit that buckets are filled in: requests per second times milliseconds.
const REQUEST: u64 = 1_000;

/// Counts the requests of every principal.
#[derive(Debug)]
pub(super) struct RateLimits {
    per_second: u64,
    buckets: Mutex<HashMap<Text, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u64,
    filled_ms: u64,
}

impl RateLimits {
    pub(super) fn new(per_second: u64) -> Self {
        // More than this cannot be asked in a second, and the arithmetic stays within bounds.
        Self { per_second: per_second.min(u64::from(u32::MAX)), buckets: Mutex::default() }
    }

    /// Takes one request out of the principal's bucket.
    pub(super) fn check(&self, principal: &str, now_ms: u64) -> Result<(), Error> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(principal) {
            *bucket = self.filled(*bucket, now_ms);
            return self.take(bucket);
        }
        if buckets.len() >= PRINCIPALS_MAX {
            buckets.retain(|_, bucket| self.filled(*bucket, now_ms).left < self.capacity());
        }
        if buckets.len() >= PRINCIPALS_MAX {
            let message = format!("{PRINCIPALS_MAX} principals send requests at once, which is the limit");
            return Err(Error::new(ErrorCode::RateLimited, message)
                .hint("send the request again after `retry_after_ms`")
                .with("limit", "principals")
                .with("value", PRINCIPALS_MAX));
        }
        let mut bucket = Bucket { left: self.capacity(), filled_ms: now_ms };
        let taken = self.take(&mut bucket);
        buckets.insert(Text::from(principal), bucket);
        taken
    }

    fn capacity(&self) -> u64 {
        self.per_second * REQUEST
    }

    fn filled(&self, bucket: Bucket, now_ms: u64) -> Bucket {
        let passed_ms = now_ms.saturating_sub(bucket.filled_ms);
        let left = bucket.left.saturating_add(passed_ms.saturating_mul(self.per_second)).min(self.capacity());
        Bucket { left, filled_ms: now_ms.max(bucket.filled_ms) }
    }

    fn take(&self, bucket: &mut Bucket) -> Result<(), Error> {
        if bucket.left >= REQUEST {
            bucket.left -= REQUEST;
            return Ok(());
        }
        let wait_ms = (REQUEST - bucket.left).div_ceil(self.per_second);
        let message = format!(
            "the principal sent more than limits.requests_per_second = {} requests per second",
            self.per_second
        );
        let (limit, setting) = ("requests_per_second", "limits.requests_per_second");
        let value = usize::try_from(self.per_second).unwrap_or(usize::MAX);
        Err(over_limit(ErrorCode::RateLimited, message, limit, setting, value).retry_after(wait_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(limits: &RateLimits, principal: &str, now_ms: u64, asked: usize) -> usize {
        (0..asked).filter(|_| limits.check(principal, now_ms).is_ok()).count()
    }

    #[test]
    fn a_second_s_worth_may_come_at_once_and_then_steadily() {
        let limits = RateLimits::new(10);
        assert_eq!(allowed(&limits, "a", 0, 50), 10);
        assert_eq!(allowed(&limits, "a", 99, 50), 0);
        assert_eq!(allowed(&limits, "a", 100, 50), 1);
        assert_eq!(allowed(&limits, "a", 350, 50), 2);
        assert_eq!(allowed(&limits, "a", 60_000, 50), 10);
    }

    #[test]
    fn principals_do_not_share() {
        let limits = RateLimits::new(3);
        assert_eq!(allowed(&limits, "a", 5, 9), 3);
        assert_eq!(allowed(&limits, "b", 5, 9), 3);
    }

    #[test]
    fn a_refusal_says_when_to_ask_again() {
        let limits = RateLimits::new(4);
        assert_eq!(allowed(&limits, "a", 0, 9), 4);
        let error = limits.check("a", 100).unwrap_err();
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::RateLimited, Some(150)));
        assert_eq!(error.details["limit"], "requests_per_second");
        assert_eq!(error.details["setting"], "limits.requests_per_second");
        assert_eq!(error.details["value"], 4);
        assert_eq!(limits.check("a", 250), Ok(()));
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let limits = RateLimits::new(1);
        assert_eq!(allowed(&limits, "a", 10_000, 2), 1);
        assert_eq!(allowed(&limits, "a", 0, 5), 0);
        assert_eq!(allowed(&limits, "a", 10_999, 5), 0);
        assert_eq!(allowed(&limits, "a", 11_000, 5), 1);
    }

    #[test]
    fn the_table_is_bounded_and_idle_principals_make_room() {
        let limits = RateLimits::new(1);
        for number in 0..PRINCIPALS_MAX {
            limits.check(&format!("uid:{number}"), 0).unwrap();
        }
        assert_eq!(limits.check("one more", 500).unwrap_err().code, ErrorCode::RateLimited);
        assert_eq!(limits.check("uid:7", 1_000), Ok(()));
        assert_eq!(limits.check("one more", 1_000), Ok(()));
        assert_eq!(limits.buckets.lock().unwrap().len(), 2);
    }

    #[test]
    fn the_highest_rate_does_not_overflow() {
        let limits = RateLimits::new(u64::MAX);
        assert_eq!(limits.check("a", 0), Ok(()));
        assert_eq!(limits.check("a", u64::MAX), Ok(()));
    }
}
