//! A file with one credential in each line, read again when it changes. Knows nothing of what a line says.
//!
//! A changed file counts line by line: a slip in one line takes nothing from the others. While the file cannot be read,
//! what was read last stays known, and is marked as outdated.

use super::AuthError;
use crate::followed::Followed;
use crate::guarded::{Owner, open_guarded, warn_if_readable};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tenure_api as api;
use tenure_engine::Now;
use tenure_history::rfc3339;

/// Larger files are refused; this is room for about ten thousand tokens.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;
/// Lines of one reading whose problem is logged; the others are counted.
const PROBLEMS_LOGGED_MAX: usize = 16;

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LineFault {
    /// Counted from 1.
    pub line: usize,
    /// In words.
    pub problem: String,
}

/// What was read last.
#[derive(Clone, Debug)]
pub(super) struct Known<L> {
    pub(super) entries: Vec<L>,
    pub(super) state: FileState,
}

/// How the file is at present.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileState {
    /// Boot time at which it was read last.
    pub(crate) read_boot_ms: u64,
    /// Lines that do not count.
    pub(crate) lines_rejected: usize,
    /// Since when it cannot be read, and why.
    pub(crate) unusable: Option<Unusable>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unusable {
    since_boot_ms: u64,
    error: String,
}

/// Reads the lines that are understood, and what is wrong with the others.
pub(super) type Reading<L> = (Vec<L>, Vec<LineFault>);

/// The lines of a file, followed while it changes.
#[derive(Debug)]
pub(super) struct CredentialFile<L> {
    path: PathBuf,
    parse: fn(&str) -> Reading<L>,
    followed: Followed,
    known: RwLock<Arc<Known<L>>>,
}

impl FileState {
    pub(crate) fn is_outdated(&self) -> bool {
        self.unusable.is_some()
    }

    #[cfg(test)]
    pub(crate) fn broken(lines_rejected: usize) -> Self {
        let unusable = Some(Unusable { since_boot_ms: 0, error: "gone".to_owned() });
        Self { read_boot_ms: 0, lines_rejected, unusable }
    }
}

impl<L: Clone> CredentialFile<L> {
    /// Reads a file whose every line must be understood.
    pub(super) fn open(
        path: PathBuf,
        parse: fn(&str) -> Reading<L>,
        boot_ms: u64,
    ) -> Result<Self, AuthError> {
        let followed = Followed::new(vec![path.clone()]);
        let (entries, faults) = parse(&read(&path)?);
        if let Some(fault) = faults.into_iter().next() {
            return Err(AuthError::Malformed { path, fault });
        }
        let state = FileState { read_boot_ms: boot_ms, lines_rejected: 0, unusable: None };
        Ok(Self { path, parse, followed, known: RwLock::new(Arc::new(Known { entries, state })) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says, read again if it changed.
    pub(super) fn known(&self, boot_ms: u64) -> Arc<Known<L>> {
        if let Some(Err(error)) = self.followed.follow(boot_ms, || self.read_again(boot_ms)) {
            tracing::warn!(path = %self.path.display(), error, "cannot use a credential file; its principals may only renew and release");
        }
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn read_again(&self, boot_ms: u64) -> Result<(), String> {
        let text = read(&self.path).map_err(|error| in_full(&error));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let (next, outcome) = match text {
            Ok(text) => (self.apply(&text, boot_ms), Ok(())),
            Err(error) => {
                let since_boot_ms =
                    known.state.unusable.as_ref().map_or(boot_ms, |unusable| unusable.since_boot_ms);
                let unusable = Some(Unusable { since_boot_ms, error: error.clone() });
                let state = FileState { unusable, ..known.state.clone() };
                (Known { entries: known.entries.clone(), state }, Err(error))
            }
        };
        *known = Arc::new(next);
        outcome
    }

    fn apply(&self, text: &str, boot_ms: u64) -> Known<L> {
        let path = self.path.display();
        let (entries, faults) = (self.parse)(text);
        for fault in faults.iter().take(PROBLEMS_LOGGED_MAX) {
            tracing::warn!(%path, %fault, "ignored an invalid line of a credential file");
        }
        let (count, refused) = (entries.len(), faults.len());
        tracing::info!(%path, lines = count, rejected = refused, "credential file reloaded");
        Known { entries, state: FileState { read_boot_ms: boot_ms, lines_rejected: refused, unusable: None } }
    }

    /// As the daemon's status has it.
    pub(super) fn status(&self, now: Now) -> api::CredentialFile {
        let Known { entries, state } = &*self.known(now.boot_ms);
        let time = |boot_ms: u64| rfc3339(now.wall_ms.saturating_sub(now.boot_ms.saturating_sub(boot_ms)));
        api::CredentialFile {
            path: self.path.display().to_string(),
            read_at: time(state.read_boot_ms),
            lines: entries.len() as u64,
            lines_rejected: state.lines_rejected as u64,
            unusable_since: state.unusable.as_ref().map(|unusable| time(unusable.since_boot_ms)),
            error: state.unusable.as_ref().map(|unusable| unusable.error.clone()),
        }
    }
}

/// Reads the lines of a text that are not blank and do not begin with `#`. Of two lines of one name the first counts.
pub(super) fn read_lines<L>(
    text: &str,
    parse: fn(&str) -> Result<L, String>,
    name: fn(&L) -> &str,
) -> Reading<L> {
    let (mut entries, mut faults): Reading<L> = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_taken = |entry: &L| entries.iter().any(|earlier| name(earlier) == name(entry));
        let problem = match parse(line) {
            Ok(entry) if is_taken(&entry) => {
                format!("the name {} is taken by an earlier line", name(&entry))
            }
            Ok(entry) => {
                entries.push(entry);
                continue;
            }
            Err(problem) => problem,
        };
        faults.push(LineFault { line: index + 1, problem });
    }
    (entries, faults)
}

fn read(path: &Path) -> Result<String, AuthError> {
    let unreadable = |source| AuthError::Unreadable { path: path.to_owned(), source };
    let (file, found) = open_guarded(path, Owner::Trusted).map_err(unreadable)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB")));
    }
    warn_if_readable(path, &found);
    Ok(text)
}

/// With its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}
