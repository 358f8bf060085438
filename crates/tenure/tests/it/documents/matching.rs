//! Whether a terminal showed what a document prints.

/// Text that may be anything within a line; alone on a line, any number of lines.
const ANY: &str = "…";

/// What the next run would print differently.
const OTHER: &str = "#";

/// Units of times that pass.
const SPANS: [&str; 6] = ["us", "µs", "ms", "s", "min", "h"];

/// The fewest lines from the begin that are what is expected, if any are.
pub(super) fn prefix_of(actual: &[&str], expected: &[String]) -> Option<usize> {
    // After each expected line: whether it and those before it can be the first so many lines.
    let mut reached = vec![false; actual.len() + 1];
    reached[0] = true;
    for pattern in expected {
        let mut next = vec![false; reached.len()];
        if pattern.trim() == ANY {
            let first = reached.iter().position(|is| *is)?;
            next[first..].fill(true);
        } else {
            for (at, line) in actual.iter().enumerate() {
                next[at + 1] = reached[at] && line_matches(line, pattern);
            }
        }
        reached = next;
    }
    reached.iter().position(|is| *is)
}

/// Whether these are all the lines that are expected.
pub(super) fn is_whole(actual: &[&str], expected: &[String]) -> bool {
    // An end that nothing else can be makes the shortest prefix the whole.
    let end = "\u{4}";
    let actual: Vec<&str> = actual.iter().copied().chain([end]).collect();
    let expected: Vec<String> = expected.iter().cloned().chain([end.to_owned()]).collect();
    prefix_of(&actual, &expected) == Some(actual.len())
}

/// An id, a point in time or a long number that a document prints stands for another one.
fn line_matches(line: &str, pattern: &str) -> bool {
    let alike = |text: &str| with(OTHER, text, differs_next_time);
    fits(line, pattern) || fits(&alike(line), &alike(pattern))
}

fn fits(line: &str, pattern: &str) -> bool {
    let (line, pattern) = (with_narrow_gaps(line.trim_end()), with_narrow_gaps(pattern.trim_end()));
    let mut parts = pattern.split(ANY);
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The line with two spaces for every longer gap: how wide a column is depends on what stands in other rows.
fn with_narrow_gaps(line: &str) -> String {
    let mut narrow = line.to_owned();
    while narrow.contains("   ") {
        narrow = narrow.replace("   ", "  ");
    }
    narrow
}

/// The text without colours, and without what was written over.
pub(super) fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| ('@'..='~').contains(&c)).map_or(part.len(), |at| at + 1);
        shown.push_str(&part[end..]);
    }
    let lines: Vec<&str> = shown.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    lines.iter().map(|line| line.rsplit('\r').next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// A line that the shell prints about a job: `[1] 1234`, `[1]+  Killed  …`.
pub(super) fn is_about_job(line: &str) -> bool {
    let Some((number, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return false;
    };
    !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && rest.starts_with([' ', '+', '-'])
}

/// A line of the daemon's log about something ordinary: `2026-11-18T14:36:30.123456Z  INFO …`.
pub(super) fn is_info(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_time = |word: &str| word.len() > 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    words.next().is_some_and(is_time) && words.next() == Some("INFO")
}

/// The line with `…` for what looks like an id, a time, or a number that the next run would not have.
pub(super) fn blurred(line: &str) -> String {
    with(ANY, line, |word, after| {
        let is_span = word.parse::<f64>().is_ok()
            && SPANS.contains(&after.split([' ', ',', ')']).nth(1).unwrap_or_default());
        is_span || differs_next_time(word, after)
    })
}

/// The line with `mark` for each word of which that is true, given what comes after it.
fn with(mark: &str, line: &str, is_marked: impl Fn(&str, &str) -> bool) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.' | '_' | '+');
    let mut shown = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| is_of_word(c) != is_of_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        let core = word.trim_matches(['.', ':', '-', '+']);
        let marked = is_of_word(first) && is_marked(core, after);
        shown.push_str(&if marked { word.replacen(core, mark, 1) } else { word.to_owned() });
        rest = after;
    }
    shown
}

fn differs_next_time(word: &str, _after: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    if !word.contains(is_digit) || word.starts_with("127.") || word.starts_with("10.0.0.") {
        return false;
    }
    let is_hex = word.split(['-', '.', ':', '_']).any(|part| {
        part.len() >= 8 && part.contains(is_digit) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let is_lease = word
        .split_once('-')
        .is_some_and(|(tag, lsn)| tag.len() == 4 && !lsn.is_empty() && lsn.chars().all(is_digit));
    let is_session = ["pipe:", "cli:", "s:"].iter().any(|kind| word.starts_with(kind));
    let is_time = word.contains('T') && word.matches([':', '-']).count() >= 3
        || word.matches(':').count() == 2 && word.chars().all(|c| is_digit(c) || matches!(c, ':' | '.'));
    let is_span = SPANS.iter().any(|unit| {
        word.strip_suffix(unit).is_some_and(|n| !n.is_empty() && n.chars().all(|c| is_digit(c) || c == '.'))
    });
    let is_long = word.len() >= 4 && word.chars().all(is_digit) && word != "5641";
    is_hex || is_lease || is_session || is_time || is_span || is_long
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn dots_are_any_text_within_a_line() {
        for pattern in
            ["lease k3f9-1 of bob", "lease … of bob", "…bob", "lease…", "le…k3…of …", "…lease…bob…"]
        {
            assert!(line_matches("lease k3f9-1 of bob", pattern), "{pattern}");
        }
        for pattern in
            ["lease", "… of", "lease … alice", "of…lease…", "lease k3f9-1 of bob bob", "le…ase…se…"]
        {
            assert!(!line_matches("lease k3f9-1 of bob", pattern), "{pattern}");
        }
        assert!(!line_matches("aba", "ab…ba"));
        assert!(line_matches("fence was 1882000963141674", "fence was 1882000963099999"));
        assert!(line_matches("[9k3a-12] at 10 s", "[k3f9-1042] at 10 s"));
        for (line, pattern) in
            [("ttl 5 s", "ttl 6 s"), ("epoch 2", "epoch 1"), ("fence was none", "fence was 188200096314")]
        {
            assert!(!line_matches(line, pattern), "{line}");
        }
        assert!(line_matches("blank at the end  ", "blank at the end"));
    }

    #[test]
    fn dots_alone_are_any_number_of_lines() {
        let lines = ["a", "b", "c", "b", "d"];
        for pattern in
            [&["a", "…"][..], &["…", "d"], &["a", "…", "b", "d"], &["…"], &["…", "a", "b", "c", "b", "d"]]
        {
            assert!(is_whole(&lines, &owned(pattern)), "{pattern:?}");
        }
        for pattern in [&["a"][..], &["…", "c"], &["a", "…", "c", "d"], &["…", "e", "…"], &["b", "…"]]
        {
            assert!(!is_whole(&lines, &owned(pattern)), "{pattern:?}");
        }
        assert!(is_whole(&[], &owned(&["…"])));
    }

    #[test]
    fn a_prefix_is_as_short_as_can_be() {
        let lines = ["a", "b", "c", "b", "d"];
        assert_eq!(prefix_of(&lines, &owned(&["a"])), Some(1));
        assert_eq!(prefix_of(&lines, &owned(&["…", "b"])), Some(2));
        assert_eq!(prefix_of(&lines, &owned(&["…", "b", "d"])), Some(5));
        assert_eq!(prefix_of(&lines, &owned(&["b"])), None);
        assert_eq!(prefix_of(&lines[..2], &owned(&["a", "b", "c"])), None);
    }

    #[test]
    fn colours_and_what_was_written_over_are_not_shown() {
        assert_eq!(plain("\u{1b}[1;39m{\r\n\u{1b}[0ma\u{1b}["), "{\na");
        assert_eq!(plain("1 %\r99 %\r\nend\r"), "99 %\nend");
    }

    #[test]
    fn lines_about_jobs_are_known() {
        for line in ["[1] 1234", "[12]+  Killed                  tenure serve", "[1]-  Done  true"] {
            assert!(is_about_job(line), "{line}");
        }
        for line in ["[]", "[a] 1", "[1, 2]", "[1]", "1 [1] 2"] {
            assert!(!is_about_job(line), "{line}");
        }
    }

    #[test]
    fn lines_of_the_log_are_known() {
        assert!(is_info("2026-11-18T14:52:33.951199Z  INFO a pool was made pool=tuner"));
        assert!(!is_info("2026-11-18T14:52:33.951199Z  WARN a pool was made pool=tuner"));
        assert!(!is_info("ready INFO"));
    }

    #[test]
    fn what_differs_from_run_to_run_is_blurred() {
        for (line, shown) in [
            ("granted k3f9-1042 to alice, fence 7", "granted … to alice, fence 7"),
            ("2026-11-18T14:36:30.123Z INFO ready", "… INFO ready"),
            ("listening on http://127.0.0.1:5641", "listening on http://127.0.0.1:5641"),
            ("since 2.8 s ago (for 3 ms)", "since … s ago (for … ms)"),
            ("1 of 2 is 50 % (0.1)", "1 of 2 is 50 % (0.1)"),
            ("valid for 29.998s, session pipe:0000002d", "valid for …, session …"),
            ("found web at a-4291e327.local, port 80", "found web at …, port 80"),
            ("{\"pid\":81723,\"ttl_ms\":30000}", "{\"pid\":…,\"ttl_ms\":…}"),
        ] {
            assert_eq!(blurred(line), shown);
        }
    }
}
