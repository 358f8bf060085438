//! Why a configuration is refused: one line that names the place, and the next step where it is known.

use std::io;
use std::path::PathBuf;

use super::Key;
use crate::failure::{Failure, Words};

/// Why a configuration is rejected.
#[derive(thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{place}: {problem}")]
    Malformed {
        /// File and line.
        place: String,
        /// In words.
        problem: String,
    },
    /// The file has a key that does not exist.
    #[error("{place}: there is no key {key}; the nearest is {nearest}")]
    UnknownKey {
        /// File and line.
        place: String,
        /// What stands there.
        key: String,
        /// The known key most like it.
        nearest: String,
    },
    /// The environment has a setting that does not exist.
    #[error("the environment sets {name}, but there is no such setting; the nearest is {nearest}")]
    UnknownVariable {
        /// Its name.
        name: String,
        /// The known name most like it.
        nearest: String,
    },
    /// A value is not one.
    #[error("{place}: {text:?} is not accepted: {problem}")]
    Invalid {
        /// Flag, variable, or file and line.
        place: String,
        /// What was given.
        text: String,
        /// What is expected.
        problem: String,
    },
    /// A setting makes sense only with another.
    #[error("{key} is set, but {other} is not; set both")]
    Incomplete {
        /// The one.
        key: &'static str,
        /// The other.
        other: &'static str,
    },
    /// Settings that do not go together.
    #[error("{words}")]
    Together {
        /// Which, and why not.
        words: String,
    },
    /// A path is not given, and the environment does not say where it could be.
    #[error("{} has no default: neither HOME nor an XDG directory is set", key.path)]
    NoPlace {
        /// Which.
        key: &'static Key,
    },
}

/// As people see it: tests and panics need no more.
impl std::fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let words = Words::new(&error);
        match error {
            ConfigError::Unreadable { .. } => Self::Usage(words.hint("check --config and TENURE_CONFIG")),
            ConfigError::NoPlace { key } => Self::Usage(words.hint(format_args!("give --{}", key.flag))),
            ConfigError::Malformed { .. }
            | ConfigError::UnknownKey { .. }
            | ConfigError::UnknownVariable { .. }
            | ConfigError::Invalid { .. }
            | ConfigError::Incomplete { .. }
            | ConfigError::Together { .. } => Self::Usage(words),
        }
    }
}
