//! The `console` blocks of a document: which commands they run, where, and what they print.

/// Machines that there are; the first where none is named.
pub(super) const HOSTS: [&str; 3] = ["a", "b", "c"];

/// One fenced block with the language `console`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) host: String,
    /// Whether the host is named, or is the first because none is.
    pub(super) names_host: bool,
    pub(super) terminal: u32,
    /// Its last command goes on running.
    pub(super) runs: bool,
    pub(super) steps: Vec<Step>,
}

/// What is typed, and the lines that are printed below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) typed: Typed,
    pub(super) expected: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// `$ …`
    Command(String),
    /// `^C` and its like, for the command that runs.
    Key(u8),
    /// Lines at the begin of a block that the command that runs prints.
    Nothing,
}

/// Keys as a terminal shows them.
const KEYS: [(&str, u8); 4] = [("^C", 3), ("^D", 4), ("^Z", 26), ("^\\", 28)];

impl Typed {
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Command(text) => format!("$ {}", text.replace('\n', "\n> ")),
            Self::Key(byte) => KEYS.iter().find(|key| key.1 == *byte).map_or("", |key| key.0).to_owned(),
            Self::Nothing => "(the command that runs)".to_owned(),
        }
    }

    /// Whether the shell does not wait for the command.
    pub(super) fn is_background(&self) -> bool {
        let Self::Command(text) = self else { return false };
        text.ends_with('&') && !text.ends_with("&&")
    }
}

/// The blocks of a document in their order; otherwise the line that breaks the convention and how.
pub(super) fn blocks_of(text: &str) -> Result<Vec<Block>, (usize, String)> {
    let mut blocks = Vec::new();
    // The fence, its indent, and the block if it is one that runs.
    let mut open: Option<(String, usize, Option<Block>)> = None;
    for (line, raw) in text.lines().enumerate().map(|(at, raw)| (at + 1, raw)) {
        let trimmed = raw.trim_start();
        match &mut open {
            None => {
                let mark = trimmed.chars().next().filter(|mark| matches!(mark, '`' | '~'));
                let length = mark.map_or(0, |mark| trimmed.chars().take_while(|c| *c == mark).count());
                if length < 3 {
                    continue;
                }
                let (fence, info) = trimmed.split_at(length);
                let mut words = info.split_whitespace();
                let is_run = words.next() == Some("console");
                let block = is_run.then(|| block_from(words, line)).transpose()?;
                open = Some((fence.to_owned(), raw.len() - trimmed.len(), block));
            }
            Some((fence, _, _))
                if trimmed.trim_end().starts_with(fence.as_str())
                    && trimmed.trim_end().chars().all(|mark| fence.starts_with(mark)) =>
            {
                let Some((_, _, Some(block))) = open.take() else { continue };
                check(&block, line)?;
                blocks.push(block);
            }
            Some((_, indent, Some(block))) => {
                let blank = raw.chars().take_while(|c| *c == ' ').count();
                block.add(&raw[blank.min(*indent)..], line);
            }
            Some((_, _, None)) => {}
        }
    }
    match open {
        Some((_, _, Some(_))) => Err((text.lines().count(), "a block is not closed".to_owned())),
        _ => Ok(blocks),
    }
}

fn block_from<'a>(words: impl Iterator<Item = &'a str>, line: usize) -> Result<Block, (usize, String)> {
    let mut block =
        Block { host: HOSTS[0].to_owned(), names_host: false, terminal: 1, runs: false, steps: Vec::new() };
    for word in words {
        match word.split_once('=') {
            None if word == "runs" => block.runs = true,
            Some(("terminal", number)) if number.parse().is_ok_and(|number: u32| number > 0) => {
                block.terminal = number.parse().map_err(|_| (line, "no number".to_owned()))?;
            }
            Some(("host", name)) if HOSTS.contains(&name) => {
                (block.host, block.names_host) = (name.to_owned(), true);
            }
            _ => return Err((line, format!("`{word}` is not `runs`, `terminal=N` or `host=a`, `b`, `c`"))),
        }
    }
    Ok(block)
}

fn check(block: &Block, line: usize) -> Result<(), (usize, String)> {
    let Some(last) = block.steps.last() else { return Err((line, "a block without a command".to_owned())) };
    if block.runs && last.expected.is_empty() {
        let what = "a block that `runs` prints no line that can be waited for";
        return Err((last.line, what.to_owned()));
    }
    Ok(())
}

impl Block {
    fn add(&mut self, text: &str, line: usize) {
        let step = |typed| Step { line, typed, expected: Vec::new() };
        if let Some(command) = text.strip_prefix("$ ") {
            self.steps.push(step(Typed::Command(command.trim_end().to_owned())));
            return;
        }
        if let Some((_, byte)) = KEYS.iter().find(|key| key.0 == text) {
            self.steps.push(step(Typed::Key(*byte)));
            return;
        }
        match self.steps.last_mut() {
            Some(Step { typed: Typed::Command(command), expected, .. })
                if expected.is_empty()
                    && (text.starts_with("> ") || text == ">" || command.ends_with('\\')) =>
            {
                command.push('\n');
                command.push_str(
                    text.strip_prefix('>').map_or(text, |rest| rest.strip_prefix(' ').unwrap_or(rest)),
                );
            }
            Some(last) => last.expected.push(text.to_owned()),
            None if text.is_empty() => {}
            None => {
                let mut first = step(Typed::Nothing);
                first.expected.push(text.to_owned());
                self.steps.push(first);
            }
        }
    }

    /// Whether a step leaves a command running when its output has been seen.
    pub(super) fn goes_on(&self, at: usize) -> bool {
        match self.steps.get(at + 1) {
            Some(next) => !matches!(next.typed, Typed::Command(_)),
            None => self.runs || self.steps[at].typed == Typed::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: usize, text: &str, expected: &[&str]) -> Step {
        let expected = expected.iter().map(|text| (*text).to_owned()).collect();
        Step { line, typed: Typed::Command(text.to_owned()), expected }
    }

    #[test]
    fn a_block_has_commands_and_what_they_print() {
        let text = "text\n```console\n$ one\nfirst\n  second\n\n$ two\n```\n```sh\n$ other\n```\n";
        let steps = vec![command(3, "one", &["first", "  second", ""]), command(7, "two", &[])];
        let block = Block { host: HOSTS[0].to_owned(), names_host: false, terminal: 1, runs: false, steps };
        assert_eq!(blocks_of(text).unwrap(), [block]);
    }

    #[test]
    fn words_after_the_language_say_where_it_runs() {
        let blocks = blocks_of("```console terminal=2 runs host=b\n$ one\nready\n```\n").unwrap();
        assert_eq!((blocks[0].host.as_str(), blocks[0].terminal, blocks[0].runs), ("b", 2, true));
        for word in ["terminal=0", "terminal=x", "terminal", "host=d", "run", "runs=1"] {
            let (line, said) = blocks_of(&format!("\n```console {word}\n$ one\n```\n")).unwrap_err();
            assert_eq!(line, 2);
            assert!(said.starts_with(&format!("`{word}` is not")), "{said}");
        }
    }

    #[test]
    fn a_command_is_continued_after_a_backslash_or_behind_the_second_prompt() {
        let text =
            "```console\n$ one \\\n    two \\\n> three\n    out\n$ cat <<E\n> a\n>  b\n>\n> E\n> out\n```\n";
        let steps = &blocks_of(text).unwrap()[0].steps;
        assert_eq!(steps[0], command(2, "one \\\n    two \\\nthree", &["    out"]));
        assert_eq!(steps[1], command(6, "cat <<E\na\n b\n\nE\nout", &[]));
    }

    #[test]
    fn keys_and_output_belong_to_what_runs() {
        let text = "```console\nnow\n^C\nbye\n$ one\n```\n```console runs\n$ two\nready\n```\n";
        let blocks = blocks_of(text).unwrap();
        let typed: Vec<&Typed> = blocks[0].steps.iter().map(|step| &step.typed).collect();
        assert_eq!(typed, [&Typed::Nothing, &Typed::Key(3), &Typed::Command("one".to_owned())]);
        assert_eq!([0, 1, 2].map(|at| blocks[0].goes_on(at)), [true, false, false]);
        assert!(blocks[1].goes_on(0));
    }

    #[test]
    fn fences_may_be_indented_and_of_any_length() {
        let text = "- list\n  ````console\n  $ one\n    in\n  ```\n  ````\n~~~text\n```console\n~~~\n";
        let blocks = blocks_of(text).unwrap();
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].steps, [command(3, "one", &["  in", "```"])]);
    }

    #[test]
    fn what_breaks_the_convention_is_named() {
        assert_eq!(blocks_of("```console\n```\n").unwrap_err(), (2, "a block without a command".to_owned()));
        assert_eq!(blocks_of("```console\n$ one\n").unwrap_err(), (2, "a block is not closed".to_owned()));
        let (line, said) = blocks_of("```console runs\n$ one\n```\n").unwrap_err();
        assert_eq!((line, said.contains("waited for")), (2, true));
    }

    #[test]
    fn a_background_job_ends_with_an_ampersand() {
        let is_background = |text: &str| Typed::Command(text.to_owned()).is_background();
        assert!(is_background("tenure serve --no-mdns &"));
        assert!(!is_background("one && two"));
        assert!(!is_background("one &&"));
    }
}
