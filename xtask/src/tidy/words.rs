//! Plain words: phrases that readers of this field stumble over, found in documents, in the texts
//! that the program prints, and in the documentation of the libraries that others import.
//! `phrases.rs` has the list and its exceptions, `prose.rs` takes texts apart.

mod phrases;
mod prose;

use super::Finding;
use super::rust_source::Views;
use super::tree::{File, Tree};
use phrases::{ALLOWED, Allowed, FOR_USERS, PHRASES, Phrase};
use prose::{Block, Readers, Token};

/// Sources whose public doc comments are documentation: of libraries, and of the fields in the OpenAPI document.
const LIBRARIES: &[&str] = &[
    "crates/api/src/",
    "crates/assignment/src/",
    "crates/client/src/",
    "crates/polling/src/",
    "crates/server/src/routes.rs",
    "crates/server/src/routes/",
];

/// Programs that show how to use a library.
const EXAMPLES: &str = "/examples/";

/// Modules whose doc comments on types and fields are the help of the command line.
const HELP: &[&str] = &[
    "crates/tenure/src/commands.rs",
    "crates/tenure/src/commands/",
    "crates/tenure/src/config.rs",
    "crates/tenure/src/config/",
    "crates/tenure/src/connect.rs",
    "crates/tenure/src/main.rs",
];

/// Scripts and pages whose texts people read in a browser.
const DASHBOARD: &str = "crates/server/src/dashboard/";

/// Only contributors see what the simulator prints.
const WITHOUT_USERS: &[&str] = &["crates/sim/"];

/// Documents that keep the words of the code where those differ from the users' words.
const FOR_CONTRIBUTORS: &[&str] = &["docs/internals/"];

/// A phrase of the list stands in no text that people meet.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = vec![false; ALLOWED.len()];
    for file in &tree.files {
        if file.is_golden_or_generated() || file.is_test() {
            continue;
        }
        for (line, found, instead) in breaches(file) {
            match ALLOWED.iter().position(|allowed| allowed.covers(&file.path, &found)) {
                Some(index) => used[index] = true,
                None => {
                    let message = format!("`{found}`: {instead}");
                    findings.push(Finding::error(&file.path, line, message));
                }
            }
        }
    }
    let stale = ALLOWED.iter().zip(&used).filter(|(allowed, used)| !**used && tree.contains(allowed.path));
    findings.extend(stale.map(|(allowed, _)| {
        let message = format!("`{}` is allowed here and does not occur", allowed.phrase);
        Finding::warning(allowed.path, 1, message)
    }));
    findings
}

impl Allowed {
    fn covers(&self, path: &str, found: &str) -> bool {
        self.path == path && (self.phrase == "*" || self.phrase == found)
    }
}

/// Line, words found and what to write instead, in the texts of one file that people meet.
fn breaches(file: &File) -> Vec<(usize, String, &'static str)> {
    let mut blocks = Vec::new();
    if file.path.ends_with(".md") {
        blocks.extend(prose::markdown(&file.text));
    }
    if file.path.ends_with("Cargo.toml") {
        blocks.extend(prose::description(&file.text));
    }
    if file.path.starts_with(DASHBOARD) {
        match file.path.rsplit_once('.') {
            Some((_, "js")) => blocks.extend(prose::script(&file.text)),
            Some((_, "html")) => blocks.extend(prose::page(&file.text)),
            _ => {}
        }
    }
    if let Some(views) = file.rust()
        && file.path.starts_with("crates/")
    {
        blocks.extend(texts_of(&file.path, views));
    }
    let mut breaches: Vec<_> = blocks.iter().flat_map(in_block).collect();
    if !begins(&file.path, FOR_CONTRIBUTORS) {
        breaches.extend(blocks.iter().flat_map(|block| matches_of(FOR_USERS, &block.tokens)));
    }
    breaches.sort();
    breaches
}

fn texts_of(path: &str, views: &Views) -> Vec<Block> {
    let lines = prose::lines_before_tests(&views.code);
    let mut blocks = Vec::new();
    if !begins(path, WITHOUT_USERS) {
        blocks.extend(prose::literals(&views.strings, lines));
    }
    if begins(path, LIBRARIES) {
        blocks.extend(prose::doc_comments(views, lines, Readers::OfTheLibrary));
        if path.ends_with("/lib.rs") {
            blocks.extend(prose::header(&views.comments));
        }
    }
    if path.contains(EXAMPLES) {
        blocks.extend(prose::comments(&views.comments));
    }
    if begins(path, HELP) {
        blocks.extend(prose::doc_comments(views, lines, Readers::OfHelp));
    }
    blocks
}

fn begins(path: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| path.starts_with(prefix))
}

fn in_block(block: &Block) -> Vec<(usize, String, &'static str)> {
    let tokens = &block.tokens;
    let mut found = matches_of(PHRASES, tokens);
    if !block.is_heading {
        for sentence in sentences(tokens) {
            found.extend(inverted(sentence));
            found.extend(headless(sentence));
        }
    }
    found
}

fn matches_of(phrases: &[Phrase], tokens: &[Token]) -> Vec<(usize, String, &'static str)> {
    let mut found = Vec::new();
    for phrase in phrases {
        for at in 0..tokens.len() {
            if let Some(words) = match_at(tokens, at, phrase) {
                found.push((tokens[at].line(), words, phrase.instead));
            }
        }
    }
    found
}

/// The words of the text, if the phrase begins at `at`.
fn match_at(tokens: &[Token], at: usize, phrase: &Phrase) -> Option<String> {
    let mut words = Vec::new();
    for (offset, pattern) in phrase.words.split(' ').enumerate() {
        let word = tokens.get(at + offset)?.word()?;
        let fits = pattern == "*" || pattern.split('|').any(|one| one == word);
        if !fits {
            return None;
        }
        words.push(word);
    }
    let last = *words.last().expect("invariant: a phrase has words");
    let before = at.checked_sub(1).and_then(|index| tokens[index].word());
    let after = tokens.get(at + words.len()).and_then(Token::word);
    let is_excepted = before.is_some_and(|word| phrase.not_after.contains(&word))
        || after.is_some_and(|word| phrase.not_before.contains(&word))
        || phrase.not_last.contains(&last);
    (!is_excepted).then(|| words.join(" "))
}

/// Clauses between the marks that end one; the mark is the last token.
fn sentences(tokens: &[Token]) -> impl Iterator<Item = &[Token]> {
    tokens.split_inclusive(|token| matches!(token, Token::Mark('.' | ';' | ':' | '?' | '!')))
}

/// "Is the guardian stopped, the supervisor …": a condition without `if`.
fn inverted(sentence: &[Token]) -> Option<(usize, String, &'static str)> {
    let [first, second, ..] = sentence else {
        return None;
    };
    let (verb, next) = (first.word()?, second.word()?);
    let is_inverted = matches!(verb, "is" | "are" | "was" | "were" | "has" | "does")
        && matches!(next, "the" | "a" | "an" | "its" | "it" | "this" | "that" | "one");
    let ends_as_question = sentence.last() == Some(&Token::Mark('?'));
    let has_comma = sentence.contains(&Token::Mark(','));
    (is_inverted && has_comma && !ends_as_question)
        .then(|| (first.line(), format!("{verb} {next} …,"), "begin the condition with `if`"))
}

/// "Who holds a target keeps it", "What is over a limit is refused": a clause without a noun as subject.
fn headless(sentence: &[Token]) -> Option<(usize, String, &'static str)> {
    const BEHIND_WHAT: &[&str] = &[
        "is", "was", "has", "belongs", "comes", "concerns", "counts", "differs", "ends", "fails", "follows",
        "gets", "goes", "holds", "keeps", "leaves", "lies", "lives", "needs", "opens", "remains", "runs",
        "stays", "takes", "waits",
    ];
    const VERBS: &[&str] = &[
        "is", "are", "was", "keeps", "gets", "has", "must", "may", "can", "goes", "stays", "comes", "counts",
    ];
    let [first, second, rest @ ..] = sentence else {
        return None;
    };
    let (pronoun, verb) = (first.word()?, second.word()?);
    // "What pollers do" has a noun there; a verb behind "who" ends in s.
    let is_clause = match pronoun {
        "who" => verb.ends_with('s'),
        "what" => BEHIND_WHAT.contains(&verb),
        _ => false,
    };
    let is_headless = first.is_capital()
        && is_clause
        && rest.iter().any(|token| token.word().is_some_and(|word| VERBS.contains(&word)))
        && sentence.last() != Some(&Token::Mark('?'));
    is_headless.then(|| (first.line(), format!("{pronoun} {verb} …"), "name the subject"))
}

#[cfg(test)]
mod tests;
