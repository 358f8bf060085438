//! Kinds of values: how each is read from text and written back as it stands in the file. A value is text in a flag,
//! in the environment and in the file alike.

mod cluster;
mod sessions;

pub(crate) use cluster::{
    Compaction, EtcdAddress, NodeName, NodeUrl, PlainText, StoreAddress, store_address,
};
pub(crate) use sessions::{OnEnd, PoolName, Pools, SlotReuse};

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use tenure_faces::Scope;
use tracing_subscriber::EnvFilter;

use super::Shape;
use crate::duration::Span;

/// One kind.
pub(crate) trait Value: Sized + PartialOrd {
    const SHAPE: Shape = Shape::Word;
    /// Stands for the value in help.
    const PLACEHOLDER: &'static str;
    /// All values, where there are few.
    const CHOICES: &'static [&'static str] = &[];

    /// Reads it; an error says what is expected.
    fn parse(text: &str) -> Result<Self, String>;

    /// As it stands in the file.
    fn written(&self) -> String;

    /// What was given, as an error may repeat it.
    fn repeated(text: &str) -> String {
        text.to_owned()
    }
}

/// An amount of memory or disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

/// What certain callers may do; `None`: nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct ScopeOrNone(pub(crate) Option<Scope>);

/// Which log lines are written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) struct Filter(pub(crate) String);

/// Form of log lines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) enum LogFormat {
    Auto,
    Text,
    Json,
}

/// Units of sizes, largest first.
const UNITS: &[(&str, u64)] =
    &[("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads a value and checks that it is within its range, ends included.
pub(super) fn parse_within<T: Value>(text: &str, range: Option<(&str, &str)>) -> Result<T, String> {
    let value = T::parse(text)?;
    let Some((least, greatest)) = range else {
        return Ok(value);
    };
    let bound = |text| T::parse(text).expect("invariant: bounds in the table are values");
    if value < bound(least) || value > bound(greatest) {
        return Err(format!("expected {least} to {greatest}"));
    }
    Ok(value)
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn one_of(choices: &[&str]) -> String {
    format!("expected one of {}", choices.join(", "))
}

impl Value for IpAddr {
    const PLACEHOLDER: &'static str = "ADDRESS";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "expected an address like 127.0.0.1 or ::1".to_owned())
    }

    fn written(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Value for u16 {
    const PLACEHOLDER: &'static str = "PORT";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "expected a port, 0 to 65535".to_owned())
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Value for u64 {
    const PLACEHOLDER: &'static str = "NUMBER";

    fn parse(text: &str) -> Result<Self, String> {
        // Both spellings of a million are usual in files.
        text.replace('_', "").parse().map_err(|_| "expected a number".to_owned())
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Value for f64 {
    const PLACEHOLDER: &'static str = "FRACTION";

    fn parse(text: &str) -> Result<Self, String> {
        let number: Option<Self> = text.parse().ok();
        number.filter(|number| number.is_finite()).ok_or_else(|| "expected a number like 0.5".to_owned())
    }

    fn written(&self) -> String {
        format!("{self:?}")
    }
}

impl Value for bool {
    const SHAPE: Shape = Shape::Switch;
    const PLACEHOLDER: &'static str = "BOOL";
    const CHOICES: &'static [&'static str] = &["true", "false"];

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| one_of(Self::CHOICES))
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Value for PathBuf {
    const PLACEHOLDER: &'static str = "PATH";

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("expected a path".to_owned()) } else { Ok(Self::from(text)) }
    }

    fn written(&self) -> String {
        quoted(&self.display().to_string())
    }
}

/// Empty: none.
impl Value for Option<PathBuf> {
    const PLACEHOLDER: &'static str = "PATH";

    fn parse(text: &str) -> Result<Self, String> {
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn written(&self) -> String {
        self.as_ref().map_or_else(|| quoted(""), Value::written)
    }
}

/// Words between commas.
impl Value for Vec<String> {
    const SHAPE: Shape = Shape::List;
    const PLACEHOLDER: &'static str = "TEXT";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    fn written(&self) -> String {
        let words: Vec<String> = self.iter().map(|word| quoted(word)).collect();
        format!("[{}]", words.join(", "))
    }
}

impl Value for Span {
    const PLACEHOLDER: &'static str = "DURATION";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: crate::duration::ParseSpanError| error.to_string())
    }

    fn written(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Value for Bytes {
    const PLACEHOLDER: &'static str = "SIZE";

    fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected a size like 64KiB, 1MiB or 1GiB";
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| EXPECTED)?;
        if unit.is_empty() {
            return Err(format!("a size needs a unit, as in {number}B or {number}MiB"));
        }
        let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(EXPECTED)?;
        number.checked_mul(*factor).map(Self).ok_or_else(|| "the size is too large".to_owned())
    }

    fn written(&self) -> String {
        quoted(&self.to_string())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |factor: u64| self.0 >= factor && self.0.is_multiple_of(factor);
        let (unit, factor) = UNITS.iter().find(|(_, factor)| whole(*factor)).unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl Value for ScopeOrNone {
    const PLACEHOLDER: &'static str = "SCOPE";
    const CHOICES: &'static [&'static str] = &["admin", "hold", "read", "none"];

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            word => {
                Scope::from_word(word).map(|scope| Self(Some(scope))).ok_or_else(|| one_of(Self::CHOICES))
            }
        }
    }

    fn written(&self) -> String {
        quoted(self.0.map_or("none", Scope::as_str))
    }
}

impl Value for Filter {
    const PLACEHOLDER: &'static str = "FILTER";

    fn parse(text: &str) -> Result<Self, String> {
        match EnvFilter::try_new(text) {
            Ok(_) if !text.is_empty() => Ok(Self(text.to_owned())),
            Ok(_) | Err(_) => {
                Err("expected off, error, warn, info, debug or trace, or module=level".to_owned())
            }
        }
    }

    fn written(&self) -> String {
        quoted(&self.0)
    }
}

impl Value for LogFormat {
    const PLACEHOLDER: &'static str = "FORMAT";
    const CHOICES: &'static [&'static str] = &["auto", "text", "json"];

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(one_of(Self::CHOICES)),
        }
    }

    fn written(&self) -> String {
        quoted(match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_back() {
        for (text, bytes) in
            [("0B", 0), ("64KiB", 65_536), ("1GiB", 1 << 30), ("1500B", 1_500), ("3PiB", 3 << 50)]
        {
            assert_eq!(Bytes::parse(text), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(Bytes::parse("1024kib").unwrap().to_string(), "1MiB");
        assert_eq!(Bytes::parse("64"), Err("a size needs a unit, as in 64B or 64MiB".to_owned()));
        for text in ["", "MiB", "-1KiB", "1.5GiB", "1 GiB", "1GB", "1K"] {
            assert_eq!(
                Bytes::parse(text),
                Err("expected a size like 64KiB, 1MiB or 1GiB".to_owned()),
                "{text:?}"
            );
        }
        assert_eq!(Bytes::parse("99999999PiB"), Err("the size is too large".to_owned()));
    }

    #[test]
    fn bounds_are_included() {
        let within = |text: &str| parse_within::<u64>(text, Some(("5", "7")));
        assert_eq!((within("5"), within("7")), (Ok(5), Ok(7)));
        assert_eq!(within("4"), Err("expected 5 to 7".to_owned()));
        assert_eq!(within("8"), Err("expected 5 to 7".to_owned()));
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for text in ["NaN", "inf", "", "x"] {
            assert!(f64::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(u64::parse("1_000_000"), Ok(1_000_000));
    }

    #[test]
    fn text_is_quoted_as_toml_reads_it() {
        let path = PathBuf::from("/a \"b\"\\c\n");
        let table: toml::Table = format!("x = {}", path.written()).parse().unwrap();
        assert_eq!(table["x"].as_str(), path.to_str());
    }
}
