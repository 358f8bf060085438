//! Durations as people write them on a command line: `500ms`, `30s`, `1m30s`, `2h`. A bare number is refused, because
//! nobody knows its unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration given as an argument.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Span(Duration);

/// Units, longest first, with their milliseconds.
const UNITS: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const FORM: &str = "expected a duration like 500ms, 30s, 1m30s or 2h";

/// Why a text is not a duration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ParseSpanError {
    /// No unit.
    #[error("a duration needs a unit, as in {number}s or {number}ms")]
    NoUnit {
        /// What was given.
        number: u64,
    },
    /// Something else.
    #[error("{FORM}")]
    Form,
    /// Longer than anything can wait.
    #[error("the duration is too long")]
    TooLong,
}

impl Span {
    pub(crate) fn of_ms(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    pub(crate) fn ms(self) -> u64 {
        self.0.as_millis() as u64
    }

    pub(crate) fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Span {
    type Err = ParseSpanError;

    /// Units go from long to short and come once each, so that a slip of the finger is no other duration.
    fn from_str(text: &str) -> Result<Self, ParseSpanError> {
        let mut rest = text;
        let mut total_ms: u64 = 0;
        let mut units = UNITS;
        while !rest.is_empty() || text.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at(digits);
            let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, tail) = tail.split_at(letters);
            if digits == 0 {
                return Err(ParseSpanError::Form);
            }
            let number: u64 = number.parse().map_err(|_| ParseSpanError::TooLong)?;
            if unit.is_empty() && tail.is_empty() && rest.len() == text.len() {
                return match number {
                    0 => Ok(Self(Duration::ZERO)),
                    number => Err(ParseSpanError::NoUnit { number }),
                };
            }
            let place = units.iter().position(|(name, _)| *name == unit).ok_or(ParseSpanError::Form)?;
            let ms = number.checked_mul(units[place].1).ok_or(ParseSpanError::TooLong)?;
            total_ms = total_ms.checked_add(ms).ok_or(ParseSpanError::TooLong)?;
            units = &units[place + 1..];
            rest = tail;
        }
        Ok(Self(Duration::from_millis(total_ms)))
    }
}

/// As it can be read again.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.ms();
        if left == 0 {
            return f.write_str("0s");
        }
        for (name, ms) in UNITS {
            if left >= *ms {
                write!(f, "{}{name}", left / ms)?;
                left %= ms;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_back() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.ms(), ms, "{text}");
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("90s".parse::<Span>().unwrap().to_string(), "1m30s");
        assert_eq!("0".parse::<Span>().unwrap().ms(), 0);
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_the_likely_ones() {
        let error = "30".parse::<Span>().unwrap_err();
        assert_eq!(error.to_string(), "a duration needs a unit, as in 30s or 30ms");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "s", "-1s", "1.5s", "1 s", "1s2m", "1s1s", "1x", "1ms2", "ü", "1sü", "1m30"] {
            assert_eq!(text.parse::<Span>(), Err(ParseSpanError::Form), "{text:?}");
        }
        for text in ["99999999999999999999s", "999999999999999999d"] {
            assert_eq!(text.parse::<Span>(), Err(ParseSpanError::TooLong), "{text:?}");
        }
    }
}
