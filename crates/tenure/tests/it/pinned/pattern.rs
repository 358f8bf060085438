//! What a transcript says in place of values that differ between runs. `<time>` stands for any time, `<app:id>` for an
//! id that is called `app` from there on, `<app>` for that same id again.

use std::collections::BTreeMap;

use serde_json::Value;

/// Values that have been given a name.
pub(super) type Names = BTreeMap<String, String>;

/// A piece of an expected text.
enum Piece<'a> {
    Literal(&'a str),
    Pattern { name: Option<&'a str>, kind: &'a str },
}

/// Why a value is not what the transcript says; `Ok` leaves new names behind.
pub(super) fn match_json(expected: &Value, got: &Value, names: &mut Names) -> Result<(), String> {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            for (key, expected) in expected {
                match got.get(key) {
                    None if expected == "<absent>" => {}
                    None => return Err(format!("{key:?} is missing")),
                    // Fields may be added: those who do not know them ignore them.
                    Some(got) => {
                        match_json(expected, got, names).map_err(|why| format!("{key}: {why}"))?;
                    }
                }
            }
            Ok(())
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            expected.iter().zip(got).try_for_each(|(expected, got)| match_json(expected, got, names))
        }
        (Value::String(pattern), _) if is_single(pattern) => {
            let shown = got.as_str().map_or_else(|| got.to_string(), str::to_owned);
            let is_text = got.is_string();
            let kind = single(pattern).map_or("", |(_, kind)| kind);
            let fits = match kind {
                "any" => true,
                "absent" => false,
                "number" => got.is_number(),
                "null" => got.is_null(),
                _ => is_text || !is_kind(kind),
            };
            (fits && match_text(pattern, &shown, names)).then_some(()).ok_or(format!("{got} is no {pattern}"))
        }
        (Value::String(pattern), Value::String(got)) => {
            match_text(pattern, got, names).then_some(()).ok_or(format!("{got:?} is not {pattern:?}"))
        }
        _ => (expected == got).then_some(()).ok_or(format!("{got} is not {expected}")),
    }
}

/// Whether lines are those of the transcript, in which `...` stands for any number of lines.
pub(super) fn match_lines(expected: &[&str], got: &[&str], names: &mut Names) -> bool {
    match expected {
        [] => got.is_empty(),
        ["...", rest @ ..] => (0..=got.len()).any(|skipped| {
            let mut tried = names.clone();
            let fits = match_lines(rest, &got[skipped..], &mut tried);
            if fits {
                *names = tried;
            }
            fits
        }),
        [first, rest @ ..] => {
            let Some((line, others)) = got.split_first() else { return false };
            match_text(&joined(first), &joined(line), names) && match_lines(rest, others, names)
        }
    }
}

/// The text with names replaced by their values.
pub(super) fn filled(text: &str, names: &Names) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("<{name}>"), value))
}

/// Whether a text is what the transcript says.
pub(super) fn match_text(pattern: &str, text: &str, names: &mut Names) -> bool {
    let mut tried = names.clone();
    let fits = match_pieces(&pieces(pattern), text, &mut tried);
    if fits {
        *names = tried;
    }
    fits
}

fn match_pieces(pieces: &[Piece<'_>], text: &str, names: &mut Names) -> bool {
    let Some((first, rest)) = pieces.split_first() else { return text.is_empty() };
    match first {
        Piece::Literal(literal) => {
            text.strip_prefix(literal).is_some_and(|text| match_pieces(rest, text, names))
        }
        Piece::Pattern { name, kind } => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            let ends: Vec<usize> = ends.collect();
            ends.into_iter().rev().any(|end| {
                let value = &text[..end];
                if !fits(kind, value, names) {
                    return false;
                }
                let mut tried = names.clone();
                if let Some(name) = name
                    && tried.insert((*name).to_owned(), value.to_owned()).is_some_and(|known| known != value)
                {
                    return false;
                }
                let fits = match_pieces(rest, &text[end..], &mut tried);
                if fits {
                    *names = tried;
                }
                fits
            })
        }
    }
}

/// Whether a value is of a kind, or the one of a name.
fn fits(kind: &str, value: &str, names: &Names) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match kind {
        "any" => true,
        "null" => value == "null",
        "text" => !value.is_empty(),
        "word" => !value.is_empty() && !value.contains([' ', '"']),
        "id" => value.len() == 8 && hex(value),
        "number" => digits(value) || value.parse::<f64>().is_ok(),
        "uuid" => shape(value) == "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
        "time" => matches!(timeless(value).as_str(), "0000-00-00T00:00:00.000Z"),
        // `2h 14m`, `30s`, `now`.
        "span" => value.split(' ').all(|part| digits(part.trim_end_matches(['h', 'm', 's', 'd', '.']))),
        "lease" => value.split_once('-').is_some_and(|(tag, lsn)| tag.len() == 4 && digits(lsn)),
        "pipe" => value.strip_prefix("pipe:").is_some_and(|rest| rest.len() >= 8 && hex(rest)),
        "cli" => value.strip_prefix("cli:").is_some_and(|rest| rest.len() >= 8 && hex(rest)),
        "session" => value.strip_prefix("s:").is_some_and(|rest| rest.len() >= 8 && hex(rest)),
        // The instance id of the polling seed: host, boot time in nanoseconds, eight hexadecimal digits.
        "instance" => {
            let mut parts = value.rsplitn(3, '-');
            let (random, nanos, host) = (parts.next(), parts.next(), parts.next());
            random.is_some_and(|random| random.len() == 8 && hex(random))
                && nanos.is_some_and(digits)
                && host.is_some_and(|host| !host.is_empty())
        }
        name => names.get(name).map_or_else(|| panic!("<{name}> was never named"), |known| known == value),
    }
}

fn is_kind(kind: &str) -> bool {
    [
        "any", "null", "text", "word", "id", "number", "uuid", "time", "span", "lease", "pipe", "cli",
        "session", "instance", "absent",
    ]
    .contains(&kind)
}

/// Hexadecimal digits as `x`.
fn shape(text: &str) -> String {
    text.chars().map(|symbol| if matches!(symbol, '0'..='9' | 'a'..='f') { 'x' } else { symbol }).collect()
}

/// Digits as `0`.
fn timeless(text: &str) -> String {
    text.chars().map(|symbol| if symbol.is_ascii_digit() { '0' } else { symbol }).collect()
}

/// Gaps of tables made one.
fn joined(line: &str) -> String {
    let indent = if line.starts_with(' ') { " " } else { "" };
    format!("{indent}{}", line.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn is_single(pattern: &str) -> bool {
    single(pattern).is_some()
}

/// Name and kind of a pattern that is the whole text.
fn single(pattern: &str) -> Option<(Option<&str>, &str)> {
    match pieces(pattern).as_slice() {
        [Piece::Pattern { name, kind }] => Some((*name, kind)),
        _ => None,
    }
}

fn pieces(pattern: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('<') {
        let Some(end) = rest[at..].find('>').map(|end| at + end) else { break };
        let inner = &rest[at + 1..end];
        let is_pattern = !inner.is_empty()
            && inner.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b':');
        if !is_pattern {
            break;
        }
        if at > 0 {
            pieces.push(Piece::Literal(&rest[..at]));
        }
        pieces.push(match inner.split_once(':') {
            Some((name, kind)) => Piece::Pattern { name: Some(name), kind },
            None => Piece::Pattern { name: None, kind: inner },
        });
        rest = &rest[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(expected: Value, got: Value) -> bool {
        match_json(&expected, &got, &mut Names::new()).is_ok()
    }

    #[test]
    fn what_differs_is_seen_and_what_is_added_is_not() {
        assert!(fits(json!({"a": 1}), json!({"a": 1, "b": 2})));
        assert!(!fits(json!({"a": 1}), json!({"b": 2})));
        assert!(!fits(json!({"a": null}), json!({})), "missing is not null");
        assert!(fits(json!({"a": "<absent>"}), json!({})));
        assert!(!fits(json!({"a": "<absent>"}), json!({"a": null})));
        assert!(!fits(json!({"a": [1]}), json!({"a": [1, 2]})));
        assert!(!fits(json!({"a": "<number>"}), json!({"a": "1"})));
        assert!(!fits(json!({"a": "<time>"}), json!({"a": "2026-02-07T22:15:00Z"})));
        assert!(fits(json!({"a": "<time>"}), json!({"a": "2026-02-07T22:15:00.000Z"})));
        assert!(!fits(json!({"a": 0}), json!({"a": "0"})));
    }

    #[test]
    fn a_name_means_the_same_wherever_it_is_said() {
        assert!(fits(json!(["<x:id>", "<x>"]), json!(["a1b2c3d4", "a1b2c3d4"])));
        assert!(!fits(json!(["<x:id>", "<x>"]), json!(["a1b2c3d4", "a1b2c3d5"])));
        assert!(!fits(json!(["<x:id>", "<x:id>"]), json!(["a1b2c3d4", "a1b2c3d5"])));
        let mut names = Names::new();
        assert!(match_text(
            "id=\"<x:id>\" session=<pipe>",
            "id=\"a1b2c3d4\" session=pipe:0000002d",
            &mut names
        ));
        assert_eq!(filled("PUT /<x>/heartbeat", &names), "PUT /a1b2c3d4/heartbeat");
    }

    #[test]
    fn lines_are_all_looked_at_unless_dots_say_otherwise() {
        let fits = |expected: &[&str], got: &[&str]| match_lines(expected, got, &mut Names::new());
        assert!(fits(&["ID NAME", "<id> App"], &["ID        NAME", "a1b2c3d4  App"]));
        assert!(!fits(&["ID NAME"], &["ID NAME", "a1b2c3d4 App"]));
        assert!(!fits(&["ID NAME", "more"], &["ID NAME"]));
        assert!(fits(&["ID", "...", "end"], &["ID", "1", "2", "end"]));
        assert!(!fits(&["ID", "...", "end"], &["ID", "1", "2"]));
    }
}
