//! What the command line parser found, as one line and the next step.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::{Failure, Words};

/// Words of other tools, and the command that does the same here.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["lock", "acquire", "elect", "campaign", "mutex"],
        "tenure lease acquire RESOURCE, or tenure run --resource RESOURCE -- COMMAND",
    ),
    (&["unlock", "release"], "tenure lease release RESOURCE"),
    (&["server", "start", "daemon", "agent"], "tenure serve"),
    (&["ls", "list"], "tenure lease ls"),
    (&["stop", "shutdown"], "tenure admin shutdown"),
];

/// What the parser says of a number that its type cannot hold, before it looks at the bounds.
const TOO_LARGE: &str = ": number too large to fit in target type";

/// A failure that names what is wrong, and the help of the very command that was given.
pub(crate) fn wrong_usage(error: &clap::Error, command: &Command, given: &[String]) -> Failure {
    let path = path_of(command, given);
    let help = format!("{path} --help");
    let rendered = error.render().to_string();
    let mut paragraphs = rendered.split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let line = paragraphs.next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned));
    let (line, hint) = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => (format!("{path} needs a command"), help),
        ErrorKind::InvalidSubcommand => (line.to_owned(), unknown_command(error, &path)),
        ErrorKind::UnknownArgument => match negative(given) {
            Some((flag, value)) => {
                (format!("invalid value '{value}' for '{flag}': it cannot be negative"), help)
            }
            None if runs_commands(&path) && !is_flag(error) => {
                let hint = format!("put -- before the command: {path} … -- COMMAND");
                (line.to_owned(), hint)
            }
            None => (line.to_owned(), tip.unwrap_or(help)),
        },
        _ => {
            let line = match line.strip_suffix(TOO_LARGE) {
                Some(head) => format!("{head}: expected {}", bounds(error, command, given)),
                None => plain_bounds(line),
            };
            (line, tip.unwrap_or(help))
        }
    };
    Failure::Usage(Words::new(line).hint(hint))
}

/// The command that the words lead to: `tenure lease acquire`.
fn path_of(command: &Command, given: &[String]) -> String {
    let mut path = vec!["tenure".to_owned()];
    let mut at = command;
    for word in given {
        if let Some(below) = at.find_subcommand(word) {
            path.push(below.get_name().to_owned());
            at = below;
        }
    }
    path.join(" ")
}

fn runs_commands(path: &str) -> bool {
    matches!(path, "tenure run" | "tenure poll run")
}

fn is_flag(error: &clap::Error) -> bool {
    matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(word)) if word.starts_with('-'))
}

/// A flag whose value begins like a negative number.
fn negative(given: &[String]) -> Option<(&str, &str)> {
    let is_negative = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    given
        .windows(2)
        .find(|pair| pair[0].starts_with("--") && is_negative(&pair[1]))
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
}

fn unknown_command(error: &clap::Error, path: &str) -> String {
    let given = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    if path == "tenure"
        && let Some((_, instead)) = ELSEWHERE.iter().find(|(words, _)| words.contains(&given))
    {
        return format!("use {instead}");
    }
    // The last one is the most similar.
    let similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        Some(ContextValue::Strings(words)) => words.last().map(String::as_str),
        _ => None,
    };
    match similar {
        Some(similar) => format!("did you mean {path} {similar}? {path} --help lists the commands"),
        None => format!("{path} --help lists the commands"),
    }
}

/// The parser's words about numbers, in plain ones.
fn plain_bounds(line: &str) -> String {
    if let Some(head) = line.strip_suffix(": invalid digit found in string") {
        return format!("{head}: expected a whole number");
    }
    let (Some((head, _)), Some((least, greatest))) = (line.rsplit_once(": "), named_bounds(line)) else {
        return line.to_owned();
    };
    match greatest {
        Some(greatest) => format!("{head}: expected {least} to {greatest}"),
        None => format!("{head}: expected {least} or more"),
    }
}

/// The ends that the parser names of a number outside of its range: `0 is not in 1..=1024`.
fn named_bounds(line: &str) -> Option<(&str, Option<&str>)> {
    let (_, range) = line.rsplit_once(" is not in ")?;
    let (least, greatest) = range.split_once("..")?;
    Some((least, greatest.strip_prefix('=')))
}

/// The bounds of an argument whose value no number can hold. The parser names bounds only of numbers that it can read, so
/// it gets the greatest and the least one in place of the value.
fn bounds(error: &clap::Error, command: &Command, given: &[String]) -> String {
    let (mut least, mut greatest) = ("0".to_owned(), u64::MAX.to_string());
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
        return format!("{least} to {greatest}");
    };
    for probe in [i64::MAX.to_string(), "0".to_owned()] {
        let probed = given.iter().map(|word| match word.strip_suffix(value.as_str()) {
            Some(flag) => format!("{flag}{probe}"),
            None => word.clone(),
        });
        let words = std::iter::once("tenure".to_owned()).chain(probed);
        let Err(outside) = command.clone().try_get_matches_from(words) else { continue };
        if outside.get(ContextKind::InvalidArg) != error.get(ContextKind::InvalidArg) {
            continue;
        }
        let rendered = outside.render().to_string();
        if let Some((from, to)) = rendered.lines().next().and_then(named_bounds) {
            from.clone_into(&mut least);
            if let Some(to) = to {
                to.clone_into(&mut greatest);
            }
        }
    }
    format!("{least} to {greatest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        let command = crate::command_line();
        let given: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let error = command.clone().try_get_matches_from([&["tenure"], words].concat()).unwrap_err();
        let Failure::Usage(Words { line, hint }) = wrong_usage(&error, &command, &given) else {
            panic!("wrong usage")
        };
        format!("{line} | {}", hint.unwrap_or_default())
    }

    #[test]
    fn hints_name_the_help_of_the_command_that_was_given() {
        assert_eq!(
            shown(&["lease", "acquire", "printer", "--ttl", "400d"]),
            "invalid value '400d' for '--ttl <DURATION>': expected 1s to 24h | tenure lease acquire --help"
        );
        assert_eq!(
            shown(&["lease", "acquire", "printer", "--ttl", "-5s"]),
            "invalid value '-5s' for '--ttl': it cannot be negative | tenure lease acquire --help"
        );
        assert_eq!(
            shown(&["lease", "heartbeat", "printer", "--epoch", "x"]),
            "invalid value 'x' for '--epoch <EPOCH>': expected a whole number | tenure lease heartbeat --help"
        );
        assert_eq!(
            shown(&["lease", "ls", "--limit", "0"]),
            "invalid value '0' for '--limit <N>': expected 1 or more | tenure lease ls --help"
        );
        assert_eq!(
            shown(&["bench", "--connections", "0"]),
            "invalid value '0' for '--connections <N>': expected 1 to 1024 | tenure bench --help"
        );
    }

    /// It said "number too large to fit in target type".
    #[test]
    fn a_number_that_no_type_holds_gets_the_bounds_too() {
        let large = "99999999999999999999999";
        assert_eq!(
            shown(&["bench", "--connections", large]),
            format!(
                "invalid value '{large}' for '--connections <N>': expected 1 to 1024 | tenure bench --help"
            )
        );
        assert_eq!(
            shown(&["lease", "ls", &format!("--limit={large}")]),
            format!(
                "invalid value '{large}' for '--limit <N>': expected 1 to 18446744073709551615 | \
                 tenure lease ls --help"
            )
        );
        assert_eq!(
            shown(&["lease", "heartbeat", "printer", "--epoch", large]),
            format!(
                "invalid value '{large}' for '--epoch <EPOCH>': expected 0 to 18446744073709551615 | \
                 tenure lease heartbeat --help"
            )
        );
    }

    #[test]
    fn a_command_without_its_dashes_and_words_of_other_tools_get_a_way_out() {
        assert_eq!(
            shown(&["run", "--resource", "a", "true"]),
            "unexpected argument 'true' found | put -- before the command: tenure run … -- COMMAND"
        );
        assert_eq!(shown(&["server"]), "unrecognized subcommand 'server' | use tenure serve");
        assert_eq!(
            shown(&["serv"]),
            "unrecognized subcommand 'serv' | did you mean tenure serve? tenure --help lists the commands"
        );
    }
}
