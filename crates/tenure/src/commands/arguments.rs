//! Arguments that several commands take.

use std::str::FromStr;

use serde_json::Value;

use crate::duration::Span;

/// A number of members of a pool: `gpu=2`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PoolCount {
    pub(crate) name: String,
    pub(crate) count: u32,
}

/// Why a text is not a number of members.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected POOL=N, as in gpu=2")]
pub(crate) struct ParsePoolCountError;

impl FromStr for PoolCount {
    type Err = ParsePoolCountError;

    fn from_str(text: &str) -> Result<Self, ParsePoolCountError> {
        let (name, count) = text.rsplit_once('=').ok_or(ParsePoolCountError)?;
        match count.parse() {
            Ok(count) if count > 0 && !name.is_empty() => Ok(Self { name: name.to_owned(), count }),
            _ => Err(ParsePoolCountError),
        }
    }
}

/// Any JSON.
pub(crate) fn json_value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("not JSON: {error}; quote a string twice, as in '\"x\"'"))
}

/// TTL and grace of what is renewed by hand, as over HTTP: time to notice a missing renewal (record 0088).
pub(crate) const TTL_BY_HAND: &str = "90s";
pub(crate) const GRACE_BY_HAND: &str = "30s";
/// TTL and grace of what a command renews itself: its end shows soon that the command has ended (record 0088).
pub(crate) const TTL_KEPT: &str = "30s";
pub(crate) const GRACE_KEPT: &str = "0s";

/// A time to live.
pub(crate) fn ttl(text: &str) -> Result<Span, String> {
    within(text, "1s", "24h")
}

/// A grace period.
pub(crate) fn grace(text: &str) -> Result<Span, String> {
    within(text, "0s", "1h")
}

/// A longest lifetime.
pub(crate) fn lifetime(text: &str) -> Result<Span, String> {
    within(text, "1ms", "365d")
}

/// A time that one request may wait.
pub(crate) fn wait(text: &str) -> Result<Span, String> {
    within(text, "0s", "1h")
}

/// A duration with bounds, ends included.
fn within(text: &str, least: &str, greatest: &str) -> Result<Span, String> {
    let parse = |text: &str| text.parse::<Span>().map_err(|error| error.to_string());
    let span = parse(text)?;
    match (parse(least)?..=parse(greatest)?).contains(&span) {
        true => Ok(span),
        false => Err(format!("expected {least} to {greatest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_daemons_and_shown_as_durations() {
        use tenure_faces::{GRACE_MS_MAX, LIFETIME_MS_MAX, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX};
        let parse = |parser: fn(&str) -> Result<Span, String>, ms: u64| parser(&Span::of_ms(ms).to_string());
        let most = [
            (ttl as fn(&str) -> Result<Span, String>, TTL_MS_MAX),
            (grace, GRACE_MS_MAX),
            (lifetime, LIFETIME_MS_MAX),
            (wait, WAIT_MS_MAX),
        ];
        for (parser, ms) in most {
            assert!(parse(parser, ms).is_ok() && parse(parser, ms + 1).is_err(), "{ms}");
        }
        assert!(parse(ttl, TTL_MS_MIN).is_ok() && parse(ttl, TTL_MS_MIN - 1).is_err());
        assert_eq!(ttl("400d"), Err("expected 1s to 24h".to_owned()));
        assert!(ttl(TTL_KEPT).is_ok() && grace(GRACE_KEPT).is_ok());
    }

    #[test]
    fn what_is_renewed_by_hand_has_the_defaults_of_http() {
        use tenure_faces::{GRACE_MS_DEFAULT, TTL_MS_DEFAULT};
        assert_eq!(ttl(TTL_BY_HAND), Ok(Span::of_ms(TTL_MS_DEFAULT.into())));
        assert_eq!(grace(GRACE_BY_HAND), Ok(Span::of_ms(GRACE_MS_DEFAULT.into())));
    }

    #[test]
    fn members_of_a_pool_are_a_name_and_a_number() {
        let parsed = "rack=1/gpu=2".parse::<PoolCount>();
        assert_eq!(parsed, Ok(PoolCount { name: "rack=1/gpu".into(), count: 2 }));
        for text in ["", "gpu", "gpu=", "=2", "gpu=0", "gpu=-1", "gpu=x"] {
            assert_eq!(text.parse::<PoolCount>(), Err(ParsePoolCountError), "{text:?}");
        }
    }
}
