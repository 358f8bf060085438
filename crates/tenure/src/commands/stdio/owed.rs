//! Which answers are still owed. Pure: lines in, yes or no out.
//!
//! Lines without a tag are answered in order, those with one whenever they are ready. A stream (`watch`, `browse`,
//! `subscribe`) is answered by what happens, which is never owed; but it may also be refused, which looks like the answer
//! to any other line without a tag. Where such a stream was asked for, one more question at the end tells when all before
//! it is answered.

use std::collections::HashMap;

use serde_json::{Map, Value};
use tenure_api::{Line, Tag, Verb};

/// What was asked and not yet answered.
#[derive(Default)]
pub(super) struct Owed {
    untagged: u64,
    tagged: HashMap<Tag, u64>,
    /// A stream without a tag was asked for.
    is_blurred: bool,
    /// Something else without a tag was asked for.
    is_counted: bool,
    /// The network is looked at.
    looks: bool,
    /// Something was asked for that the session may hold.
    may_hold: bool,
    /// Questions for the status without a tag: those of the caller, and ours at the end.
    statuses: u64,
    last_asked: bool,
}

/// Bytes put together into lines.
pub(super) struct Lines {
    rest: Vec<u8>,
    bytes_max: usize,
}

impl Lines {
    /// Of a line that is longer only the beginning is kept.
    pub(super) fn up_to(bytes_max: usize) -> Self {
        Self { rest: Vec::new(), bytes_max }
    }

    /// The lines that these bytes complete, without their ends.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (part, is_end) = match piece.strip_suffix(b"\n") {
                Some(end) => (end, true),
                None => (piece, false),
            };
            let room = self.bytes_max.saturating_sub(self.rest.len());
            self.rest.extend_from_slice(&part[..part.len().min(room)]);
            if is_end {
                lines.push(std::mem::take(&mut self.rest));
            }
        }
        lines
    }

    /// What has no end yet.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then_some(rest)
    }
}

impl Owed {
    /// A line was sent.
    pub(super) fn asked(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let (tag, verb) = match Line::parse(line) {
            Ok(line) => (line.tag, Some(line.verb)),
            Err(error) => (error.tag, None),
        };
        self.looks |= matches!(verb, Some(Verb::Browse(_) | Verb::Subscribe(_)));
        self.may_hold |= matches!(verb, Some(Verb::Acquire(_) | Verb::Register(_) | Verb::Resume(_)));
        let is_stream = matches!(verb, Some(Verb::Watch(_) | Verb::Browse(_) | Verb::Subscribe(_)));
        match (tag, verb) {
            (Some(_), _) if is_stream => {}
            (Some(tag), _) => *self.tagged.entry(tag).or_default() += 1,
            (None, _) if is_stream => self.is_blurred = true,
            (None, verb) => {
                self.untagged += 1;
                self.is_counted = true;
                self.statuses += u64::from(matches!(verb, Some(Verb::Status(_))));
            }
        }
    }

    /// Whether counting alone does not tell when all is answered.
    pub(super) fn needs_last_question(&self) -> bool {
        self.is_blurred && self.is_counted
    }

    /// The last question was sent.
    pub(super) fn asked_last(&mut self) {
        self.last_asked = true;
        self.statuses += 1;
    }

    /// A line came. `false`: it answers our own last question and is nobody else's.
    pub(super) fn answered(&mut self, line: &[u8]) -> bool {
        let fields: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
        let is = |key: &str| fields.contains_key(key);
        // Every error has a field `lost` of its own.
        if !is("error") && ["event", "found", "lagged", "lost"].into_iter().any(is) {
            return true;
        }
        let tag = fields.get("tag").and_then(|tag| serde_json::from_value::<Tag>(tag.clone()).ok());
        if let Some(tag) = tag {
            if let Some(count) = self.tagged.get_mut(&tag) {
                *count -= 1;
                if *count == 0 {
                    self.tagged.remove(&tag);
                }
            }
            return true;
        }
        self.untagged = self.untagged.saturating_sub(1);
        if is("status") && self.statuses > 0 {
            self.statuses -= 1;
            if self.last_asked && self.statuses == 0 {
                self.untagged = 0;
                return false;
            }
        }
        true
    }

    /// How many answers are owed.
    pub(super) fn count(&self) -> u64 {
        let untagged = if self.last_asked { self.statuses } else { self.untagged };
        self.tagged.values().fold(untagged, |sum, count| sum.saturating_add(*count))
    }

    /// Whether nothing is owed any more.
    pub(super) fn is_settled(&self) -> bool {
        self.count() == 0
    }

    /// Whether the session does nothing but look at the network, so that nobody waits for its end.
    pub(super) fn only_looks(&self) -> bool {
        self.looks && !self.may_hold
    }
}

/// Whether a line welcomes us; the line itself if it does not.
pub(super) fn check_welcome(line: &[u8]) -> Result<(), String> {
    let fields: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
    if fields.contains_key("hello") { Ok(()) } else { Err(String::from_utf8_lossy(line).into_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_api::{Answer, AnswerLine, Error, ErrorCode};

    fn asked(lines: &[&str]) -> Owed {
        let mut owed = Owed::default();
        lines.iter().for_each(|line| owed.asked(line.as_bytes()));
        owed
    }

    #[test]
    fn bytes_become_lines_wherever_they_are_cut() {
        let mut lines = Lines::up_to(100);
        assert!(lines.push(b"{\"a\"").is_empty());
        assert_eq!(lines.push(b":1}\n\n{\"b"), [b"{\"a\":1}".to_vec(), Vec::new()]);
        assert_eq!(lines.finish().as_deref(), Some(&b"{\"b"[..]));
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn of_a_line_without_end_little_is_kept() {
        let mut lines = Lines::up_to(3);
        assert!(lines.push(b"ab").is_empty() && lines.push(b"cdefgh").is_empty());
        assert_eq!(lines.push(b"ij\nk\n"), [b"abc".to_vec(), b"k".to_vec()]);
    }

    /// A refusal as the daemon writes it.
    fn refusal(tag: Option<Tag>) -> Vec<u8> {
        let answer = Answer::Error(Error::new(ErrorCode::ParseError, "garbage"));
        let mut line = Vec::new();
        AnswerLine { answer, tag }.write(&mut line);
        line
    }

    #[test]
    fn every_line_is_owed_one_answer_and_blank_ones_none() {
        let mut owed = asked(&[r#"{"status":{}}"#, "  ", "garbage"]);
        assert!(owed.answered(br#"{"status":{}}"#) && !owed.is_settled());
        assert!(owed.answered(&refusal(None)) && owed.is_settled());
    }

    #[test]
    fn tags_are_settled_each_by_its_own_answer() {
        let mut owed = asked(&[r#"{"status":{},"tag":1}"#, r#"{"status":{},"tag":"a"}"#]);
        owed.answered(br#"{"status":{},"tag":"a"}"#);
        owed.answered(br#"{"event":{},"tag":1}"#);
        assert!(!owed.is_settled());
        owed.answered(&refusal(serde_json::from_str("1").ok()));
        assert!(owed.is_settled());
    }

    #[test]
    fn what_comes_unasked_settles_nothing() {
        let mut owed = asked(&[r#"{"status":{}}"#]);
        assert!(owed.answered(br#"{"lost":{}}"#) && !owed.is_settled());
    }

    #[test]
    fn streams_are_never_owed() {
        for stream in [r#""watch":{}"#, r#""browse":"_http._tcp""#, r#""subscribe":"_http._tcp""#] {
            assert!(asked(&[&format!("{{{stream}}}")]).is_settled(), "{stream}");
            assert!(asked(&[&format!("{{{stream},\"tag\":1}}")]).is_settled(), "{stream}");
        }
    }

    #[test]
    fn what_a_browse_finds_answers_nothing_else() {
        let register = r#"{"register":{"name":"a","type":"_http._tcp","port":80}}"#;
        let mut owed = asked(&[r#"{"browse":"_http._tcp"}"#, register]);
        assert!(owed.needs_last_question());
        owed.asked_last();
        assert!(owed.answered(br#"{"found":{}}"#) && owed.answered(br#"{"found":{}}"#));
        assert_eq!(owed.count(), 1);
        assert!(owed.answered(br#"{"registered":{}}"#) && !owed.answered(br#"{"status":{}}"#));
        assert!(owed.is_settled());
    }

    #[test]
    fn a_session_that_may_hold_something_does_more_than_look() {
        let browse = r#"{"browse":"_http._tcp"}"#;
        assert!(asked(&[browse, r#"{"status":{}}"#]).only_looks());
        assert!(!asked(&[r#"{"watch":{}}"#]).only_looks());
        assert!(!asked(&[browse, r#"{"register":{"name":"a","type":"_http._tcp","port":80}}"#]).only_looks());
        assert!(!asked(&[r#"{"acquire":{"resources":["r"],"holder":"a"},"tag":1}"#, browse]).only_looks());
    }

    #[test]
    fn behind_a_stream_without_a_tag_the_last_question_decides() {
        let mut owed = asked(&[r#"{"watch":{}}"#, r#"{"status":{}}"#, r#"{"list":{}}"#]);
        assert!(owed.needs_last_question());
        owed.asked_last();
        // The watch was refused: one more error than was owed.
        owed.answered(br#"{"error":"lsn_trimmed"}"#);
        owed.answered(br#"{"status":{}}"#);
        assert!(!owed.is_settled());
        owed.answered(br#"{"leases":{}}"#);
        assert!(!owed.is_settled());
        assert!(!owed.answered(br#"{"status":{}}"#), "our own question's answer stays here");
        assert!(owed.is_settled());
    }

    #[test]
    fn only_a_hello_welcomes() {
        assert!(check_welcome(br#"{"hello":{"session":"cli:1"}}"#).is_ok());
        assert!(check_welcome(br#"{"error":"overloaded"}"#).is_err());
    }
}
