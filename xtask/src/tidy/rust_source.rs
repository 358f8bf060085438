//! A Rust source split into what the compiler reads and what people read, so that a rule about
//! code does not stumble over a comment or a string, and the other way round.

/// Three texts with the lines and columns of the original, blank where another has the character.
pub(super) struct Views {
    /// Without comments and without the insides of strings and characters.
    pub(super) code: String,
    pub(super) comments: String,
    /// The insides of strings without their escapes. Every string stands between two `"`.
    pub(super) strings: String,
}

enum State {
    Code,
    LineComment,
    BlockComment {
        depth: u32,
    },
    /// `hashes` is `None` for a string with escapes, else the count of a raw string.
    Text {
        hashes: Option<usize>,
    },
}

/// Splits a source. Source that does not compile gives some answer, never a panic.
pub(super) fn views(text: &str) -> Views {
    let chars: Vec<char> = text.chars().collect();
    let empty = || String::with_capacity(text.len());
    let mut views = Views { code: empty(), comments: empty(), strings: empty() };
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let next = chars.get(at + 1).copied();
        let taken = match (&mut state, chars[at], next) {
            (State::Code, '/', Some('/')) => {
                state = State::LineComment;
                0
            }
            (State::Code, '/', Some('*')) => {
                state = State::BlockComment { depth: 1 };
                views.comment(&chars[at..at + 2])
            }
            (State::Code, '"', _) => {
                state = State::Text { hashes: None };
                views.quote(&chars[at..at + 1])
            }
            (State::Code, 'r', _) if !follows_identifier(&chars, at) => {
                match raw_string_hashes(&chars[at..]) {
                    Some(hashes) => {
                        state = State::Text { hashes: Some(hashes) };
                        views.quote(&chars[at..at + hashes + 2])
                    }
                    None => views.code(&chars[at..at + 1]),
                }
            }
            (State::Code, '\'', _) => views.blank(&chars[at..at + character_length(&chars[at..])]),
            (State::Code, _, _) => views.code(&chars[at..at + 1]),
            (State::LineComment, '\n', _) => {
                state = State::Code;
                0
            }
            (State::LineComment, _, _) => views.comment(&chars[at..at + 1]),
            (State::BlockComment { depth }, '/', Some('*')) => {
                *depth += 1;
                views.comment(&chars[at..at + 2])
            }
            (State::BlockComment { depth }, '*', Some('/')) => {
                *depth -= 1;
                if *depth == 0 {
                    state = State::Code;
                }
                views.comment(&chars[at..at + 2])
            }
            (State::BlockComment { .. }, _, _) => views.comment(&chars[at..at + 1]),
            (State::Text { hashes: None }, '\\', Some(_)) => views.blank(&chars[at..at + 2]),
            (State::Text { hashes }, '"', _) => {
                let hashes = hashes.unwrap_or(0);
                let end = at + 1 + hashes;
                if chars.len() >= end && chars[at + 1..end].iter().all(|c| *c == '#') {
                    state = State::Code;
                    views.quote(&chars[at..end])
                } else {
                    views.blank(&chars[at..at + 1])
                }
            }
            (State::Text { .. }, _, _) => views.text(chars[at]),
        };
        at += taken;
    }
    views
}

impl Views {
    fn code(&mut self, chars: &[char]) -> usize {
        self.code.extend(chars);
        self.comments.extend(chars.iter().map(|c| blank(*c)));
        self.strings.extend(chars.iter().map(|c| blank(*c)));
        chars.len()
    }

    fn comment(&mut self, chars: &[char]) -> usize {
        self.comments.extend(chars);
        self.code.extend(chars.iter().map(|c| blank(*c)));
        self.strings.extend(chars.iter().map(|c| blank(*c)));
        chars.len()
    }

    fn text(&mut self, c: char) -> usize {
        self.strings.push(c);
        self.code.push(blank(c));
        self.comments.push(blank(c));
        1
    }

    /// The beginning or end of a string, with its hashes: code, and a mark among the strings.
    fn quote(&mut self, chars: &[char]) -> usize {
        self.code.extend(chars);
        self.comments.extend(chars.iter().map(|c| blank(*c)));
        self.strings.extend(chars.iter().map(|c| if *c == '"' { '"' } else { ' ' }));
        chars.len()
    }

    fn blank(&mut self, chars: &[char]) -> usize {
        self.code.extend(chars.iter().map(|c| blank(*c)));
        self.comments.extend(chars.iter().map(|c| blank(*c)));
        self.strings.extend(chars.iter().map(|c| blank(*c)));
        chars.len()
    }
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

/// A raw string starts `r"`, `r#"`, also after `b` or `c`; `r#name` is an identifier.
fn raw_string_hashes(chars: &[char]) -> Option<usize> {
    let hashes = chars[1..].iter().take_while(|c| **c == '#').count();
    (chars.get(1 + hashes) == Some(&'"')).then_some(hashes)
}

fn follows_identifier(chars: &[char], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|index| chars[index]);
    match before(1) {
        Some('b' | 'c') => before(2).is_some_and(is_identifier_part),
        Some(c) => is_identifier_part(c),
        None => false,
    }
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn character_length(chars: &[char]) -> usize {
    match (chars.get(1), chars.get(2)) {
        (Some('\\'), Some(_)) => chars[3..].iter().position(|c| *c == '\'').map_or(1, |end| end + 4),
        (Some(_), Some('\'')) => 3,
        _ => 1,
    }
}

pub(super) fn is_identifier_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Lines, counted from 1, on which `word` stands on its own: not as a part of a longer identifier.
pub(super) fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let stands_alone = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            let grows_left = before.is_some_and(is_identifier_part) && word.starts_with(is_identifier_part);
            let grows_right = after.is_some_and(is_identifier_part) && word.ends_with(is_identifier_part);
            !grows_left && !grows_right
        })
    };
    numbered(text).filter(|(_, line)| stands_alone(line)).map(|(number, _)| number).collect()
}

/// Lines counted from 1.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Every identifier and keyword of a code view with its line.
pub(super) fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    numbered(code).flat_map(|(number, line)| {
        line.split(|c| !is_identifier_part(c))
            .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
            .map(move |word| (number, word))
    })
}

/// The words of a name in any case, in lower case: `LeaseId`, `lease_id` and `LEASE_ID` are alike.
pub(super) fn words(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, c) in chars.iter().enumerate() {
        let starts_word = c.is_uppercase()
            && at > 0
            && (chars[at - 1].is_lowercase()
                || chars[at - 1].is_numeric()
                || (chars[at - 1].is_uppercase()
                    && chars.get(at + 1).is_some_and(|next| next.is_lowercase())));
        if starts_word || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("invariant: never empty").extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_not_code() {
        let text = r####"let a = "now"; // now
/* now /* now */ now */ let b = r#"now " now"#; let c = 'n';
let d = b"no\"w"; fn f<'now>(x: &'now u8) {} let q = '\''; let r = '"'; now()"####;
        let views = views(text);
        assert_eq!(views.code.matches("now").count(), 3, "{}", views.code);
        assert!(views.code.ends_with("now()"), "{}", views.code);
        assert_eq!(views.comments.matches("now").count(), 4);
        assert_eq!(views.code.lines().count(), text.lines().count());
    }

    #[test]
    fn strings_stand_between_quotes_without_their_escapes() {
        let views = views(r##"f("a\"b", r#"c"d"#) // "e""##);
        assert_eq!(views.strings.split_whitespace().collect::<String>(), r#""ab""cd""#);
        assert_eq!(views.strings.len(), views.code.len());
    }

    #[test]
    fn raw_identifiers_and_names_that_end_in_r_are_code() {
        let views = views("let r#type = bar\"x\"; for r in 0..1 {}");
        assert_eq!(views.code, "let r#type = bar\" \"; for r in 0..1 {}");
    }

    #[test]
    fn broken_source_does_not_panic() {
        for text in ["'", "'\\", "\"\\", "r#\"", "/*", "\"", "r", "b", "'\\n"] {
            views(text);
        }
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(lines_with("a\nInstant::now()\n", "Instant::now"), [2]);
        assert!(lines_with("MyInstant::now() Instant::nowhere", "Instant::now").is_empty());
    }

    #[test]
    fn names_fall_into_words() {
        assert_eq!(words("LeaseId"), ["lease", "id"]);
        assert_eq!(words("EXPIRES_AT"), ["expires", "at"]);
        assert_eq!(words("HTTPServer2Go"), ["http", "server2", "go"]);
        assert_eq!(words("_x-y.z"), ["x", "y", "z"]);
    }
}
