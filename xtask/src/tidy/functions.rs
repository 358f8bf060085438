//! No function is longer than a screen. Those that were longer when the rule came stand in a list with their length: they
//! may shrink, and an entry that is not needed any more is named.

use super::Finding;
use super::rust_source::identifiers;
use super::tree::{File, Tree};

/// Lines from `fn` to the closing brace.
const LINES_MAX: usize = 70;

/// A function that is longer. Tables of routes and lists with an arm for each variant are read by looking one up.
struct Long {
    path: &'static str,
    name: &'static str,
    lines: usize,
}

const fn long(path: &'static str, name: &'static str, lines: usize) -> Long {
    Long { path, name, lines }
}

const LONG: &[Long] = &[
    long("bench/src/peers/goals.rs", "goals", 129),
    long("bench/src/polling/rounds/silence.rs", "measure", 77),
    long("crates/api/src/line/quick.rs", "lease", 106),
    long("crates/faces/src/ask.rs", "plan", 156),
    long("crates/faces/src/call.rs", "set_operation_id", 72),
    long("crates/faces/src/refusal.rs", "rejected", 88),
    long("crates/faces/src/reply.rs", "reply_now", 118),
    long("crates/faces/src/within.rs", "of", 71),
    long("crates/kernel/src/codec/action.rs", "encode_action", 74),
    long("crates/kernel/src/codec/event.rs", "encode_event", 76),
    long("crates/kernel/src/codec/state.rs", "decode_state", 71),
    long("crates/kernel/src/evolve.rs", "evolve", 87),
    long("crates/log/src/file/open.rs", "open", 83),
    long("crates/server/src/routes.rs", "daemon", 138),
    long("crates/server/src/routes.rs", "leases", 111),
    long("crates/server/src/routes.rs", "resources", 77),
    long("crates/server/src/routes/polling.rs", "routes", 96),
    long("crates/server/src/routes/streams.rs", "routes", 109),
    long("crates/server/src/transports/http.rs", "wanted_answer", 74),
    long("crates/server/src/transports/lines.rs", "serve", 114),
    long("crates/sim/src/cluster/following.rs", "followed", 71),
    long("crates/sim/src/cluster/restores.rs", "lead", 88),
    long("crates/sim/src/cluster/restores/operator.rs", "adopt", 77),
    long("crates/sim/src/holder.rs", "understand", 80),
    long("crates/sim/src/profile.rs", "draw", 92),
    long("crates/sim/src/story.rs", "tell", 81),
    long("crates/tenure/src/commands/cluster/adopt.rs", "run", 97),
    long("crates/tenure/src/commands/install/unit.rs", "text", 81),
    long("crates/tenure/src/commands/log/record_json.rs", "change", 79),
    long("crates/tenure/src/commands/poll/place.rs", "view_of", 97),
    long("crates/tenure/src/connect/refusal.rs", "hint", 88),
    long("crates/tenure/src/daemon.rs", "serve", 142),
    long("crates/tenure/src/daemon/node.rs", "run", 175),
];

/// No function is longer, tests excepted.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, LONG)
}

fn check_against(tree: &Tree, allowed: &[Long]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = vec![false; allowed.len()];
    for (file, views) in tree.rust() {
        if file.is_test() || file.is_golden_or_generated() {
            continue;
        }
        for function in functions(&views.code) {
            let bound = allowed.iter().position(|long| long.is(file, &function));
            if let Some(index) = bound {
                used[index] |= function.lines > LINES_MAX;
            }
            let most = bound.map_or(LINES_MAX, |index| allowed[index].lines);
            if function.lines > most {
                let Function { name, line, lines } = function;
                let message = format!("`{name}` has {lines} lines, at most {most}: move the leaves out");
                findings.push(Finding::error(&file.path, line, message));
            }
        }
    }
    let stale = allowed.iter().zip(&used).filter(|(long, used)| !**used && tree.contains(long.path));
    findings.extend(stale.map(|(long, _)| {
        Finding::error(long.path, 1, format!("`{}` is listed as long and is not: take it out", long.name))
    }));
    findings
}

impl Long {
    fn is(&self, file: &File, function: &Function<'_>) -> bool {
        self.path == file.path && self.name == function.name
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
}

/// The functions with a body in code without comments and strings, up to the tests of the file.
fn functions(code: &str) -> Vec<Function<'_>> {
    let code = code.find("#[cfg(test)]\nmod ").map_or(code, |end| &code[..end]);
    let mut functions = Vec::new();
    let mut words = identifiers(code).peekable();
    while let Some((line, word)) = words.next() {
        let Some((_, name)) = words.peek().filter(|_| word == "fn") else { continue };
        let after = name.as_ptr() as usize - code.as_ptr() as usize + name.len();
        // `fn(u8) -> u8` is a type.
        let between = &code[word.as_ptr() as usize - code.as_ptr() as usize + word.len()..after - name.len()];
        if between.is_empty() || !between.chars().all(char::is_whitespace) {
            continue;
        }
        if let Some(lines) = lines_of_body(&code[after..]) {
            functions.push(Function { name, line, lines });
        }
    }
    functions
}

/// Lines from a function's name to the end of its body. `None`: it has none.
fn lines_of_body(code: &str) -> Option<usize> {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            ';' if braces == 0 && others == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && others == 0 {
                    return Some(code[..at].matches('\n').count() + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: usize) -> String {
        format!("fn f(a: [u8; 3]) -> u8 {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[test]
    fn functions_are_measured_from_their_name_to_their_end() {
        let code =
            "trait A { fn a(); fn b() { x } }\nfn c<'a>(f: fn(u8) -> u8) where A: B {\n if a { b }\n}\n";
        let found: Vec<_> = functions(code).into_iter().map(|it| (it.name, it.line, it.lines)).collect();
        assert_eq!(found, [("b", 1, 1), ("c", 2, 3)]);
    }

    #[test]
    fn long_functions_are_named_and_listed_ones_may_only_shrink() {
        let tree = |lines: usize| Tree::of(&[("crates/a/src/b.rs", &format!("//! x\n{}", of(lines)))]);
        let listed = [long("crates/a/src/b.rs", "f", 90)];
        assert!(check_against(&tree(LINES_MAX), &[]).is_empty());
        assert_eq!(check_against(&tree(LINES_MAX + 1), &[])[0].line, 2);
        assert!(check_against(&tree(90), &listed).is_empty());
        assert_eq!(check_against(&tree(91), &listed).len(), 1);
        let stale = check_against(&tree(LINES_MAX), &listed);
        assert!(stale[0].message.contains("take it out"), "{stale:?}");
        let test = Tree::of(&[("crates/a/tests/it/b.rs", &of(200))]);
        assert!(check_against(&test, &[]).is_empty());
    }
}
