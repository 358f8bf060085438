//! Secrets that a command is given: read from files, so that no list of processes shows them, and withheld from the
//! programs that it starts.

use std::fs;
use std::process::Command;

/// Variables that may hold a secret: a token, or a URL with a password.
const VARIABLES: [&str; 3] = ["TENURE_TOKEN", "TENURE_POLL_STORE", "TENURE_POLL_TARGETS_STORE"];

/// Whether the programs that a command starts find its credentials in their environment.
#[derive(clap::Args, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Credentials {
    /// Pass TENURE_TOKEN, TENURE_POLL_STORE and TENURE_POLL_TARGETS_STORE on to the command
    #[arg(long = "keep-credentials")]
    keep: bool,
}

impl Credentials {
    /// Takes them out of a program's environment, unless they are to stay.
    pub(crate) fn withhold(self, program: &mut Command) {
        if !self.keep {
            VARIABLES.iter().for_each(|variable| {
                program.env_remove(variable);
            });
        }
    }
}

/// The secret in a file, without the end of its line.
pub(crate) fn in_file(path: &str) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read it: {error}"))?;
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        secret if secret.contains(char::is_whitespace) => Err("it holds more than one word".to_owned()),
        secret => Ok(secret.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            in_file(path.to_str().unwrap())
        };
        assert_eq!(read("s3cret\n").as_deref(), Ok("s3cret"));
        assert_eq!(read(" \n").unwrap_err(), "it is empty");
        assert_eq!(read("one two").unwrap_err(), "it holds more than one word");
        assert!(in_file("/nonexistent/secret").unwrap_err().starts_with("cannot read it: "));
    }

    #[test]
    fn a_program_finds_no_credentials_unless_it_should() {
        let withheld = |keep| {
            let mut program = Command::new("true");
            Credentials { keep }.withhold(&mut program);
            program.get_envs().filter(|(_, value)| value.is_none()).count()
        };
        assert_eq!(withheld(false), VARIABLES.len());
        assert_eq!(withheld(true), 0);
    }
}
