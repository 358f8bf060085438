//! Takes texts apart into blocks of words: paragraphs, list items, table cells, string literals.
//! Code, addresses and markup are marks between words, so that no phrase reaches over them.

use crate::tidy::rust_source::{Views, numbered};

/// Text that is read in one go. A phrase may run over its line ends.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) tokens: Vec<Token>,
    pub(super) is_heading: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Token {
    Word {
        text: String,
        is_capital: bool,
        line: usize,
    },
    /// Punctuation; a back-tick stands for code.
    Mark(char),
}

impl Block {
    fn has_two_words_in_a_row(&self) -> bool {
        self.tokens.windows(2).any(|pair| pair.iter().all(|token| token.word().is_some()))
    }
}

impl Token {
    /// In lower case.
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word { text, .. } => Some(text),
            Self::Mark(_) => None,
        }
    }

    pub(super) fn is_capital(&self) -> bool {
        matches!(self, Self::Word { is_capital: true, .. })
    }

    /// 0 for a mark: only words are asked for theirs.
    pub(super) fn line(&self) -> usize {
        match self {
            Self::Word { line, .. } => *line,
            Self::Mark(_) => 0,
        }
    }
}

/// The prose of a Markdown text, without its fenced code.
pub(super) fn markdown(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    let mut fence = false;
    let mut code = Code::default();
    for (number, line) in numbered(text) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            fence = !fence;
            blocks.push(Block::default());
            continue;
        }
        if fence {
            continue;
        }
        let begins_block = trimmed.is_empty() || is_item(trimmed) || trimmed.starts_with(['|', '#', '>']);
        if begins_block {
            blocks.push(Block::default());
            code = Code::default();
        }
        if trimmed.starts_with('|') {
            for cell in cells(trimmed) {
                let mut block = Block::default();
                append(&mut block.tokens, number, cell, &mut Code::default());
                blocks.push(block);
            }
            blocks.push(Block::default());
            continue;
        }
        let block = blocks.last_mut().expect("invariant: never empty");
        block.is_heading = trimmed.starts_with('#');
        append(&mut block.tokens, number, trimmed, &mut code);
        if block.is_heading {
            blocks.push(Block::default());
        }
    }
    blocks.retain(|block| !block.tokens.is_empty());
    blocks
}

/// For whom the doc comments of a file are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Readers {
    /// Public items, and methods of public traits.
    OfTheLibrary,
    /// Types, variants and fields: the help is made from them.
    OfHelp,
}

/// The doc comments that are documentation, in the first `lines` lines; each run of them as Markdown.
pub(super) fn doc_comments(views: &Views, lines: usize, readers: Readers) -> Vec<Block> {
    let code: Vec<&str> = views.code.lines().take(lines).collect();
    let mut text = String::new();
    let mut is_in_public_trait = false;
    for (at, line) in views.comments.lines().take(lines).enumerate() {
        if code[at].starts_with(char::is_alphabetic) {
            is_in_public_trait = code[at].starts_with("pub trait ");
        }
        let doc = line.trim_start().strip_prefix("///");
        if let Some(doc) = doc
            && is_documented(item_behind(&code[at..]), is_in_public_trait, readers)
        {
            text.push_str(doc);
        }
        text.push('\n');
    }
    markdown(&text)
}

/// The first line of code that is not an attribute.
fn item_behind<'a>(code: &[&'a str]) -> &'a str {
    let is_item = |line: &&str| !line.is_empty() && !line.starts_with(['#', ')', ']']);
    code.iter().map(|line| line.trim()).find(is_item).unwrap_or_default()
}

fn is_documented(item: &str, is_in_public_trait: bool, readers: Readers) -> bool {
    const KEYWORDS: &[&str] = &[
        "fn",
        "struct",
        "enum",
        "const",
        "static",
        "type",
        "mod",
        "trait",
        "impl",
        "async",
        "unsafe",
        "pub(crate)",
        "pub(super)",
    ];
    let words: Vec<&str> = item.split_whitespace().take(4).collect();
    match readers {
        Readers::OfTheLibrary => {
            let is_private = words.first().is_some_and(|word| KEYWORDS.contains(word));
            !is_private || is_in_public_trait
        }
        Readers::OfHelp => {
            !words.iter().any(|word| matches!(*word, "fn" | "const" | "static" | "impl" | "mod"))
        }
    }
}

/// The module header at the top of a file.
pub(super) fn header(comments: &str) -> Vec<Block> {
    let lines = comments.lines().map_while(|line| line.strip_prefix("//!"));
    markdown(&lines.collect::<Vec<_>>().join("\n"))
}

/// Every comment of a file: all of an example is documentation.
pub(super) fn comments(comments: &str) -> Vec<Block> {
    let text = |line: &'_ str| line.trim_start().trim_start_matches(['/', '!']).to_owned();
    markdown(&comments.lines().map(text).collect::<Vec<_>>().join("\n"))
}

/// The string literals of the first `lines` lines of a view of strings; each is a block.
/// Single words are names, and messages of broken invariants are for contributors.
pub(super) fn literals(strings: &str, lines: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut number = 1;
    for (index, piece) in strings.split('"').enumerate() {
        let is_inside = index % 2 == 1;
        if is_inside && number <= lines && !piece.starts_with("invariant") {
            let mut block = Block::default();
            let mut code = Code::default();
            for (offset, line) in piece.lines().enumerate() {
                append(&mut block.tokens, number + offset, line, &mut code);
            }
            blocks.push(block);
        }
        number += piece.matches('\n').count();
    }
    blocks.retain(Block::has_two_words_in_a_row);
    blocks
}

/// What a manifest says of its package.
pub(super) fn description(manifest: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (number, line) in numbered(manifest) {
        if let Some(text) = line.strip_prefix("description = ") {
            let mut block = Block::default();
            append(&mut block.tokens, number, text, &mut Code::default());
            blocks.push(block);
        }
    }
    blocks
}

/// The string literals of a JavaScript source; each is a block, and code in a template is a mark.
pub(super) fn script(source: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut template: Option<Block> = None;
    for (number, line) in numbered(source) {
        let mut rest = line.trim_start();
        if template.is_none() && (rest.starts_with("/*") || rest.starts_with('*')) {
            continue;
        }
        loop {
            if let Some(block) = &mut template {
                let Some(end) = rest.find('`') else {
                    append(&mut block.tokens, number, &without_code(rest), &mut Code::default());
                    break;
                };
                append(&mut block.tokens, number, &without_code(&rest[..end]), &mut Code::default());
                rest = &rest[end + 1..];
                blocks.extend(template.take());
            }
            let Some(start) = rest.find(['"', '\'', '`', '/']) else { break };
            let (mark, behind) = rest[start..].split_at(1);
            match mark {
                "/" if behind.starts_with('/') => break,
                "/" => rest = behind,
                "`" => {
                    template = Some(Block::default());
                    rest = behind;
                }
                _ => {
                    let Some(length) = behind.find(mark) else { break };
                    let mut block = Block::default();
                    append(&mut block.tokens, number, &behind[..length], &mut Code::default());
                    blocks.push(block);
                    rest = &behind[length + 1..];
                }
            }
        }
    }
    blocks.retain(Block::has_two_words_in_a_row);
    blocks
}

/// A template's text with a mark for each `${…}`.
fn without_code(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once("${") {
        text.push_str(before);
        text.push_str(" | ");
        rest = behind.split_once('}').map_or("", |(_, after)| after);
    }
    text + rest
}

/// The texts of an HTML page: between tags, and in the values of attributes.
pub(super) fn page(source: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (number, line) in numbered(source) {
        for text in line.split(['<', '>', '"']) {
            let mut block = Block::default();
            append(&mut block.tokens, number, text, &mut Code::default());
            blocks.push(block);
        }
    }
    blocks.retain(Block::has_two_words_in_a_row);
    blocks
}

/// How many lines of a code view come before its tests, which are last.
pub(super) fn lines_before_tests(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().collect();
    let is_tests =
        |pair: &[&str]| pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ");
    lines.windows(2).position(is_tests).unwrap_or(lines.len())
}

/// Whether the end of the last line was inside of code between back-ticks.
#[derive(Default)]
struct Code {
    is_open: bool,
}

fn is_item(line: &str) -> bool {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || (digits > 0 && line[digits..].starts_with(". "))
}

/// The cells of a table's row. A bar inside of code does not end one.
fn cells(row: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let (mut start, mut is_code) = (0, false);
    for (at, c) in row.char_indices() {
        is_code ^= c == '`';
        if c == '|' && !is_code && !row[..at].ends_with('\\') {
            cells.push(&row[start..at]);
            start = at + 1;
        }
    }
    cells.push(&row[start..]);
    cells
}

fn append(tokens: &mut Vec<Token>, line: usize, text: &str, code: &mut Code) {
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if c == '`' {
            code.is_open = !code.is_open;
            tokens.push(Token::Mark('`'));
            at += 1;
        } else if code.is_open || matches!(c, '*' | '_') || c.is_whitespace() {
            at += 1;
        } else if is_address(&chars[at..]) {
            at += chars[at..].iter().take_while(|c| !c.is_whitespace() && **c != ')').count();
            tokens.push(Token::Mark('`'));
        } else if c == ']' && chars.get(at + 1) == Some(&'(') {
            // The target of a link is not prose; its text goes on with what follows.
            at += chars[at..].iter().take_while(|c| **c != ')').count() + 1;
        } else if c == '[' {
            at += 1;
        } else if c.is_alphanumeric() {
            let length = chars[at..].iter().take_while(|c| c.is_alphanumeric() || is_inner(**c)).count();
            let word: String = chars[at..at + length].iter().collect();
            let is_capital = word.starts_with(char::is_uppercase);
            tokens.push(Token::Word { text: word.to_lowercase(), is_capital, line });
            at += length;
        } else {
            tokens.push(Token::Mark(c));
            at += 1;
        }
    }
}

/// What belongs to a word within it: `don't`, `well-known`, `lease_id`.
fn is_inner(c: char) -> bool {
    matches!(c, '\'' | '’' | '-' | '_')
}

fn is_address(chars: &[char]) -> bool {
    ["http://", "https://"].iter().any(|start| chars.iter().copied().take(start.len()).eq(start.chars()))
}
