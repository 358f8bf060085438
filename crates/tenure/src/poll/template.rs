//! The command that polls, with a place for the target in each of its words.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

/// What stands for the target.
const PLACE: &[u8] = b"{target}";

/// A command for any target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    words: Vec<OsString>,
}

impl Template {
    pub(crate) fn new(words: Vec<OsString>) -> Self {
        Self { words }
    }

    pub(crate) fn words(&self) -> &[OsString] {
        &self.words
    }

    /// The command for this target. Targets may be other people's: none becomes an option, or another program than the
    /// template's directory has.
    pub(crate) fn of(&self, target: &str) -> io::Result<Command> {
        let refused = |problem| io::Error::new(io::ErrorKind::InvalidInput, problem);
        let begins_word = self.words.iter().any(|word| word.as_bytes().starts_with(PLACE));
        if target.starts_with('-') && begins_word {
            return Err(refused("the target begins with -, which the command would take for an option"));
        }
        if target.contains('/') && self.words.first().is_some_and(|program| holds_place(program)) {
            return Err(refused("the target is part of the program's name and has a / in it"));
        }
        let mut words = self.words.iter().map(|word| fill(word, target));
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        if Path::new(&program).is_dir() {
            // The kernel only says that permission is denied.
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut command = Command::new(program);
        command.args(words);
        Ok(command)
    }

    /// Whether the program can be found at all; one that depends on the target is not looked for.
    pub(crate) fn check(&self, path: Option<&OsStr>) -> io::Result<()> {
        let Some(program) = self.words.first().filter(|program| !holds_place(program)) else { return Ok(()) };
        let places: Vec<_> = match program.as_bytes().contains(&b'/') {
            true => vec![Path::new(program).to_path_buf()],
            false => std::env::split_paths(path.unwrap_or_default()).map(|at| at.join(program)).collect(),
        };
        let mut denied = None;
        for place in places {
            if place.is_dir() {
                denied = Some(io::ErrorKind::IsADirectory.into());
            } else if place.exists() {
                match rustix::fs::access(&place, rustix::fs::Access::EXEC_OK) {
                    Ok(()) => return Ok(()),
                    Err(error) => denied = Some(error.into()),
                }
            }
        }
        Err(denied.unwrap_or(io::ErrorKind::NotFound.into()))
    }
}

fn holds_place(word: &OsStr) -> bool {
    word.as_bytes().windows(PLACE.len()).any(|window| window == PLACE)
}

fn fill(word: &OsStr, target: &str) -> OsString {
    let mut rest = word.as_bytes();
    let mut filled = Vec::with_capacity(rest.len() + target.len());
    while let Some(at) = rest.windows(PLACE.len()).position(|window| window == PLACE) {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(target.as_bytes());
        rest = &rest[at + PLACE.len()..];
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(words: &[&str]) -> Template {
        Template::new(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn the_target_stands_in_every_word_and_is_never_read_again() {
        let command = template(&["./{target}.sh", "{target}", "a={target},b={target}", "{tar", "x"]);
        let command = command.of("s 1;{target}").unwrap();
        assert_eq!(command.get_program(), "./s 1;{target}.sh");
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["s 1;{target}", "a=s 1;{target},b=s 1;{target}", "{tar", "x"]);
    }

    #[test]
    fn a_target_is_no_option_and_no_other_program() {
        let refused = |words: &[&str], target| template(words).of(target).map_err(|error| error.kind()).err();
        let invalid = Some(io::ErrorKind::InvalidInput);
        assert_eq!(refused(&["curl", "{target}"], "-o/etc/passwd"), invalid);
        assert_eq!(refused(&["curl", "{target}.json"], "--config"), invalid);
        assert_eq!(refused(&["curl", "--url={target}"], "-x"), None);
        assert_eq!(refused(&["curl", "https://{target}"], "-x"), None);
        assert_eq!(refused(&["./{target}.sh"], "../../tmp/evil"), invalid);
        assert_eq!(refused(&["./read.sh", "{target}"], "https://a.example/health"), None);
    }

    #[test]
    fn words_need_not_be_text() {
        let word = OsString::from_vec(b"\xff{target}\xfe".to_vec());
        assert_eq!(fill(&word, "s"), OsString::from_vec(b"\xffs\xfe".to_vec()));
    }

    #[test]
    fn a_program_that_is_not_there_is_found_out_before_the_first_poll() {
        let path = Some(OsStr::new("/bin:/usr/bin"));
        let kind = |words: &[&str]| template(words).check(path).map_err(|error| error.kind());
        assert_eq!(kind(&["sh"]), Ok(()));
        assert_eq!(kind(&["no-such-program"]), Err(io::ErrorKind::NotFound));
        assert_eq!(kind(&["/bin"]), Err(io::ErrorKind::IsADirectory));
        assert_eq!(kind(&["/dev/null"]), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(kind(&["./{target}"]), Ok(()));
    }
}
