//! Arguments of mDNS commands.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use tenure_api::Txt;

use crate::duration::{ParseSpanError, Span};
use crate::failure::{Failure, Words};

/// One entry of a TXT record: `path=/admin`, or `flag` alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TxtEntry {
    key: String,
    value: Option<String>,
}

/// Never fails: what is wrong with a key or value is for the daemon to say.
impl FromStr for TxtEntry {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('=') {
            Some((key, value)) => Self { key: key.to_owned(), value: Some(value.to_owned()) },
            None => Self { key: text.to_owned(), value: None },
        })
    }
}

/// The entries together. Keys differ in more than their capitals, or only one of them would be heard.
pub(super) fn txt(entries: Vec<TxtEntry>) -> Result<Txt, Failure> {
    let mut txt = Txt::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for TxtEntry { key, value } in entries {
        if let Some(before) = seen.insert(key.to_ascii_lowercase(), key.clone()) {
            let line = format!("--txt {key} is given twice, before as {before}");
            return Err(Failure::Usage(Words::new(line)));
        }
        txt.insert(key, value);
    }
    Ok(txt)
}

/// A time for which a bare number means seconds.
pub(super) fn seconds_or_span(text: &str) -> Result<Duration, ParseSpanError> {
    match text.parse::<u64>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => text.parse::<Span>().map(|span| Duration::from_millis(span.ms())),
    }
}

/// The same, in whole seconds.
pub(super) fn whole_seconds(text: &str) -> Result<u64, String> {
    let time = seconds_or_span(text).map_err(|error| error.to_string())?;
    match time.subsec_nanos() {
        0 => Ok(time.as_secs()),
        _ => Err("expected whole seconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_key_with_a_value_an_empty_value_or_none() {
        let entries = ["path=/a=b", "empty=", "flag", "grün=ü"].map(|text| text.parse().unwrap());
        let txt = txt(entries.to_vec()).unwrap();
        assert_eq!(txt["path"].as_deref(), Some("/a=b"));
        assert_eq!(txt["empty"].as_deref(), Some(""));
        assert_eq!(txt["flag"], None);
        assert_eq!(txt["grün"].as_deref(), Some("ü"));
    }

    #[test]
    fn a_key_is_given_once_capitals_or_not() {
        let entries = ["Path=/", "path=/x"].map(|text| text.parse().unwrap());
        let Err(Failure::Usage(words)) = txt(entries.to_vec()) else { panic!("wrong usage") };
        assert_eq!(words.line, "--txt path is given twice, before as Path");
    }

    #[test]
    fn a_bare_number_is_seconds() {
        assert_eq!(seconds_or_span("0"), Ok(Duration::ZERO));
        assert_eq!(seconds_or_span("5"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds_or_span("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(seconds_or_span("soon"), Err(ParseSpanError::Form));
        assert_eq!(seconds_or_span("-1"), Err(ParseSpanError::Form));
        assert_eq!(whole_seconds("2m"), Ok(120));
        assert!(whole_seconds("1500ms").is_err());
    }
}
