//! Blocks of commands in documents: a fence with the language `console` is run by a test, so its
//! first line has only words that the test knows, and it has a command.

use super::Finding;
use super::rust_source::numbered;
use super::tree::Tree;

/// ```` ```console terminal=2 runs host=a ````, each word at most once, with at least one line `$ …` or a key.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        if file.is_golden_or_generated() || file.is_test() {
            continue;
        }
        for block in blocks(&file.text) {
            findings.extend(
                faults(&block).into_iter().map(|fault| Finding::error(&file.path, block.line, fault)),
            );
        }
    }
    findings
}

/// Keys as a terminal shows them, for a command that an earlier block left running.
const KEYS: &[&str] = &["^C", "^D", "^Z", "^\\"];

struct Block<'a> {
    line: usize,
    /// What follows the language.
    words: Vec<&'a str>,
    lines: Vec<&'a str>,
    is_closed: bool,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<(Block<'_>, bool)> = None;
    for (number, line) in numbered(text) {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => {
                let mut words = info.split_whitespace();
                let is_console = words.next() == Some("console");
                let block =
                    Block { line: number, words: words.collect(), lines: Vec::new(), is_closed: false };
                open = Some((block, is_console));
            }
            (None, None) => {}
            (Some((block, _)), None) => block.lines.push(line),
            (Some((block, is_console)), Some(_)) => {
                block.is_closed = true;
                if *is_console {
                    blocks.extend(open.take().map(|(block, _)| block));
                }
                open = None;
            }
        }
    }
    blocks.extend(open.filter(|(_, is_console)| *is_console).map(|(block, _)| block));
    blocks
}

fn faults(block: &Block<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, word) in block.words.iter().enumerate() {
        if !is_known(word) {
            faults.push(format!(
                "`{word}` after `console`: only `runs`, `terminal=N` and `host=NAME` are known"
            ));
        }
        let kind = |word: &str| word.split('=').next().map(str::to_owned);
        if block.words[..index].iter().any(|earlier| kind(earlier) == kind(word)) {
            faults.push(format!("`{word}` repeats a word after `console`"));
        }
    }
    if !block.is_closed {
        faults.push("a `console` block without an end".to_owned());
    }
    let is_typed = |line: &str| {
        let line = line.trim_start();
        line.starts_with("$ ") || KEYS.contains(&line)
    };
    if !block.lines.iter().any(|line| is_typed(line)) {
        faults.push("a `console` block without a command (`$ …`): use `text` or `sh`".to_owned());
    }
    faults
}

fn is_known(word: &str) -> bool {
    match word.split_once('=') {
        None => word == "runs",
        Some(("terminal", number)) => number.parse::<u8>().is_ok_and(|number| number > 0),
        Some(("host", name)) => !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&Tree::of(&[("README.md", text)])).iter().map(Finding::shown).collect()
    }

    #[test]
    fn blocks_that_follow_the_convention_pass() {
        for text in [
            "```console\n$ tenure status\nok\n```\n",
            "```console terminal=2 runs\n$ tenure serve --no-mdns\n…\n```\n",
            "```console host=a\n$ tenure serve \\\n    --node a\n> --x\n```\n",
            "- a\n  ```console\n  $ tenure status\n  ```\n",
            "```console terminal=2\nanother line\n^C\n```\n",
            "```sh\nkubectl get pods\n```\n```\nconsole\n```\n",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn unknown_words_and_blocks_without_commands_are_found() {
        let unknown = "`quiet` after `console`: only `runs`, `terminal=N` and `host=NAME` are known";
        assert_eq!(found("x\n```console quiet\n$ a\n```\n"), [format!("README.md:2: {unknown}")]);
        for text in [
            "```console terminal=0\n$ a\n```\n",
            "```console host=\n$ a\n```\n",
            "```console terminal=1 terminal=2\n$ a\n```\n",
            "```console\ntenure status\n```\n",
            "```console\n$tenure\n```\n",
            "```console\n```\n",
            "```console\n$ a\n",
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }
}
