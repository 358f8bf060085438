//! A transcript: what was said to the program and what it answered, as text. `README.md` beside this file has its form.

use std::path::Path;

/// One step. `line` is its place in the file.
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) does: Does,
}

/// What a step does.
pub(super) enum Does {
    /// An HTTP request and its answer; `until`: asked until it is answered so.
    Http { request: Request, answer: Answer, until: bool },
    /// A stream of server-sent events begins under a name.
    Stream { name: String, path: String },
    /// The next thing that a stream, a conversation or a program says.
    Hear { name: String, json: String },
    /// A line said on a conversation, or to a program.
    Say { name: String, json: String },
    /// A conversation or stream is closed by its client.
    Close { name: String },
    /// A command of the program, its output and its exit code.
    Run { variable: Option<(String, String)>, words: String, code: i32, out: Vec<String>, err: Vec<String> },
    /// A command that goes on, under a name.
    Begin { name: String, words: String },
    /// A signal for a command that goes on, and the exit code it then has.
    End { name: String, signal: String, code: i32 },
    /// A line of the daemon's log.
    Log { pattern: String },
    /// A line that a command that goes on writes to standard error.
    Talk { name: String, json: String },
    /// A number at `/metrics`.
    Metric { name: String, value: f64 },
    /// A command for Redis and its answer, line by line.
    Redis { words: String, out: Vec<String>, until: bool },
    /// A file that is there, as JSON; or one that is not.
    File { path: String, json: Option<String> },
    /// The daemon is stopped or started again.
    Daemon { verb: String },
    /// The Redis is gone.
    RedisEnds,
}

pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) body: Vec<String>,
}

/// Lines of one step: the first, and those below it up to an empty line or the next step.
struct Block<'a> {
    line: usize,
    first: &'a str,
    rest: Vec<&'a str>,
}

pub(super) fn read(path: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    blocks(&text)
        .into_iter()
        .map(|block| {
            let line = block.line;
            let does = step(&block).unwrap_or_else(|| panic!("{}:{line}: {}", path.display(), block.first));
            Step { line, does }
        })
        .collect()
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            open = false;
        } else if open && !is_single_line(blocks.last().map_or("", |block| block.first)) {
            if let Some(block) = blocks.last_mut() {
                block.rest.push(line);
            }
        } else {
            blocks.push(Block { line: at + 1, first: line, rest: Vec::new() });
            open = true;
        }
    }
    blocks
}

/// Steps that have nothing below them.
fn is_single_line(first: &str) -> bool {
    let word = first.split(' ').next().unwrap_or_default();
    matches!(
        word,
        "log"
            | "talk"
            | "metric"
            | "daemon"
            | "stream"
            | "close"
            | "begin"
            | "end"
            | "nofile"
            | "redis-server"
    ) || word.ends_with('>') && word.len() > 1
        || word.ends_with('<') && word.len() > 1
}

fn step(block: &Block<'_>) -> Option<Does> {
    let (word, rest) = block.first.split_once(' ')?;
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    Some(match word {
        ">" | ">?" => http(block, rest, word == ">?")?,
        "stream" => {
            let (name, path) = rest.split_once(' ')?;
            Does::Stream { name: name.to_owned(), path: path.to_owned() }
        }
        "close" => Does::Close { name: rest.to_owned() },
        "$" => run(rest, &block.rest)?,
        "begin" => {
            let (name, words) = rest.split_once(" tenure ")?;
            Does::Begin { name: name.to_owned(), words: words.to_owned() }
        }
        "end" => {
            let [name, signal, code] = rest.split(' ').collect::<Vec<_>>()[..] else { return None };
            Does::End { name: name.to_owned(), signal: signal.to_owned(), code: code.parse().ok()? }
        }
        "log" => Does::Log { pattern: rest.to_owned() },
        "talk" => {
            let (name, json) = rest.split_once(' ')?;
            Does::Talk { name: name.to_owned(), json: json.to_owned() }
        }
        "metric" => {
            let (name, value) = rest.rsplit_once(' ')?;
            Does::Metric { name: name.to_owned(), value: value.parse().ok()? }
        }
        "redis" | "redis?" => {
            Does::Redis { words: rest.to_owned(), out: owned(&block.rest), until: word == "redis?" }
        }
        "file" => Does::File { path: rest.to_owned(), json: Some(block.rest.join("\n")) },
        "nofile" => Does::File { path: rest.to_owned(), json: None },
        "daemon" => Does::Daemon { verb: rest.to_owned() },
        "redis-server" if rest == "ends" => Does::RedisEnds,
        _ => match (word.strip_suffix('>'), word.strip_suffix('<')) {
            (Some(name), _) => Does::Say { name: name.to_owned(), json: rest.to_owned() },
            (_, Some(name)) => Does::Hear { name: name.to_owned(), json: rest.to_owned() },
            _ => return None,
        },
    })
}

fn http(block: &Block<'_>, first: &str, until: bool) -> Option<Does> {
    let (method, path) = first.split_once(' ')?;
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: String::new(),
    };
    let mut said = block.rest.iter().copied();
    let mut answered = Vec::new();
    for line in said.by_ref() {
        if let Some(line) = line.strip_prefix("< ") {
            answered.push(line.to_owned());
            continue;
        }
        let line = line.strip_prefix("> ")?;
        match line.split_once(": ") {
            Some((name, value)) if !line.starts_with(['{', '[', ' ']) => {
                request.headers.push((name.to_owned(), value.to_owned()));
            }
            _ => {
                request.body += line;
                request.body.push('\n');
            }
        }
    }
    let (status, content_type) = match answered.first()?.split_once(' ') {
        None => (answered[0].clone(), None),
        Some((status, content_type)) => (status.to_owned(), Some(content_type.to_owned())),
    };
    let answer = Answer { status: status.parse().ok()?, content_type, body: answered[1..].to_vec() };
    Some(Does::Http { request, answer, until })
}

fn run(words: &str, below: &[&str]) -> Option<Does> {
    // A variable of the environment may stand before the program.
    let (variable, words) = match words.strip_prefix("tenure ") {
        Some(words) => (None, words),
        None => {
            let (variable, words) = words.split_once(" tenure ")?;
            let (name, value) = variable.split_once('=')?;
            (Some((name.to_owned(), value.to_owned())), words)
        }
    };
    let words = words.to_owned();
    let (mut code, mut out, mut err) = (0, Vec::new(), Vec::new());
    for line in below {
        if let Some(number) = line.strip_prefix("exit ") {
            code = number.parse().ok()?;
        } else if let Some(line) = line.strip_prefix("! ") {
            err.push(line.to_owned());
        } else {
            out.push((*line).to_owned());
        }
    }
    Some(Does::Run { variable, words, code, out, err })
}

/// The words of a command line: separated by spaces, kept together by single or double quotes.
pub(super) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for symbol in line.chars() {
        match (symbol, quote) {
            ('\'' | '"', None) => (quote, begun) = (Some(symbol), true),
            (_, Some(open)) if symbol == open => quote = None,
            (' ', None) => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            _ => {
                word.push(symbol);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}
