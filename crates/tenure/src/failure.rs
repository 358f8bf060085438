//! How a command fails, and the one place that decides what exit code that is.

use std::fmt::{self, Write};
use std::io;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for cannot be had, and asking again gives the same answer.
    Refused(Words),
    /// The command line makes no sense.
    Usage(Words),
    /// Something that should be there is not, or does not work.
    Unexpected(Words),
    /// No daemon was found, or none answers where it was expected.
    NoDaemon {
        /// Where.
        address: String,
        /// Why it does not answer; `None`: nothing listens there.
        cause: Option<String>,
    },
    /// The daemon refused; the table of error codes decides the exit code.
    Answered {
        /// The API's own object.
        error: Box<tenure_api::Error>,
        /// The same for people.
        words: Words,
    },
    /// A command that was run for the caller ended with this code; what there was to say has been said.
    Ended(u8),
    /// Nobody reads the output any more, or it cannot be written.
    Output(io::Error),
}

/// One line, and the next step where it is known.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) line: String,
    pub(crate) hint: Option<String>,
}

/// 0 done, 1 rejected, 2 usage, 3 unreachable or unexpected.
pub(crate) fn exit_code(outcome: &Result<(), Failure>) -> u8 {
    match outcome {
        Ok(()) => 0,
        // `tenure log dump DIR | head` is not a mistake.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Ended(code)) => *code,
        Err(Failure::Refused(_)) => 1,
        Err(Failure::Usage(_)) => 2,
        Err(Failure::Answered { error, .. }) => error.code.exit_code(),
        Err(Failure::NoDaemon { .. } | Failure::Unexpected(_) | Failure::Output(_)) => 3,
    }
}

impl Words {
    pub(crate) fn new(line: impl fmt::Display) -> Self {
        Self { line: line.to_string(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
}

impl Failure {
    /// The same with another next step.
    pub(crate) fn with_hint(self, hint: impl fmt::Display) -> Self {
        match self {
            Self::Refused(words) => Self::Refused(words.hint(hint)),
            Self::Usage(words) => Self::Usage(words.hint(hint)),
            Self::Unexpected(words) => Self::Unexpected(words.hint(hint)),
            Self::Answered { error, words } => Self::Answered { error, words: words.hint(hint) },
            other => other,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(line, ": {cause}");
        source = cause.source();
    }
    line
}
