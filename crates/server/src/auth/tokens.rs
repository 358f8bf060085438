//! The token file: lines `name scope sha256-hex`, read again when it changes. Holds hashes, never tokens.
//!
//! Invariant: how long a comparison takes says nothing about the hashes; every entry is compared, whatever was found.

use super::{Admitted, AuthError};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use subtle::ConstantTimeEq;
use tenure_faces::Scope;

/// Longest name of a token.
pub const TOKEN_NAME_BYTES_MAX: usize = 64;
/// Larger files are refused; this is room for about ten thousand tokens.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The file is looked at no more often than this.
const LOOK_EVERY_MS: u64 = 1_000;

/// One line of a token file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenEntry {
    /// Who holds the token; its principal is `token:NAME`.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
}

/// What is wrong with a token file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TokenFileFault {
    /// Counted from 1.
    pub line: usize,
    /// In words.
    pub problem: String,
}

/// What is stored of a token.
#[must_use]
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Whether a token may be called so: letters, digits, `.`, `_` and `-`.
///
/// # Errors
/// What is wrong with the name, in words.
pub fn check_token_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > TOKEN_NAME_BYTES_MAX {
        return Err(format!("a token's name has 1 to {TOKEN_NAME_BYTES_MAX} characters"));
    }
    if !name.chars().all(is_plain) {
        return Err("a token's name has only letters, digits, '.', '_' and '-'".to_owned());
    }
    Ok(())
}

/// Reads the text of a token file. Blank lines, and lines that begin with `#`, say nothing.
///
/// # Errors
/// The first line that is not understood.
pub fn parse_tokens(text: &str) -> Result<Vec<TokenEntry>, TokenFileFault> {
    let mut entries: Vec<TokenEntry> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fault = |problem: String| TokenFileFault { line: index + 1, problem };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = parse_entry(line).map_err(fault)?;
        if entries.iter().any(|earlier| earlier.name == entry.name) {
            return Err(fault(format!("the name {} is taken by an earlier line", entry.name)));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn parse_entry(line: &str) -> Result<TokenEntry, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[name, scope, hash] = words.as_slice() else {
        return Err("expected three words: name, scope, SHA-256 in hexadecimal".to_owned());
    };
    check_token_name(name)?;
    let scope =
        Scope::from_word(scope).ok_or_else(|| format!("{scope:?} is no scope: read, hold or admin"))?;
    // The text may be a token by mistake: it is not repeated.
    let hash = parse_hash(hash).ok_or("the third word is not a SHA-256: 64 hexadecimal digits")?;
    Ok(TokenEntry { name: name.to_owned(), scope, hash })
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 2 * hash.len() {
        return None;
    }
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(hash)
}

/// As it stands in the file.
impl fmt::Display for TokenEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.name, self.scope.as_str())?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The tokens of a file, followed while it changes.
#[derive(Debug)]
pub(super) struct TokenTable {
    path: PathBuf,
    entries: RwLock<Arc<[TokenEntry]>>,
    look_at_ms: AtomicU64,
    /// The file as it was when it was read last.
    seen: Mutex<Seen>,
}

/// Differs when the file was changed or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Missing,
    Found { device: u64, inode: u64, bytes: u64, modified_ns: i128, changed_ns: i128 },
}

impl TokenTable {
    pub(super) fn open(path: PathBuf) -> Result<Self, AuthError> {
        let (seen, text) =
            read(&path).map_err(|source| AuthError::Unreadable { path: path.clone(), source })?;
        let entries =
            parse_tokens(&text).map_err(|fault| AuthError::Malformed { path: path.clone(), fault })?;
        Ok(Self {
            path,
            entries: RwLock::new(entries.into()),
            look_at_ms: AtomicU64::new(0),
            seen: Mutex::new(seen),
        })
    }

    /// The token of this name.
    pub(super) fn entry(&self, name: &str, boot_ms: u64) -> Option<TokenEntry> {
        self.follow(boot_ms);
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| entry.name == name).cloned()
    }

    /// Whose token this is.
    pub(super) fn find(&self, token: &str, boot_ms: u64) -> Option<Admitted> {
        self.follow(boot_ms);
        let entries = Arc::clone(&self.entries.read().unwrap_or_else(PoisonError::into_inner));
        let hash = token_hash(token);
        let mut found = None;
        for entry in entries.iter() {
            if bool::from(entry.hash.ct_eq(&hash)) {
                found = Some(entry);
            }
        }
        let found = found?;
        Some(Admitted::new(format!("token:{}", found.name), found.scope))
    }

    /// Reads the file again if it changed. A file that is not understood changes nothing.
    fn follow(&self, boot_ms: u64) {
        let due_ms = self.look_at_ms.load(Ordering::Relaxed);
        let next_ms = boot_ms.saturating_add(LOOK_EVERY_MS);
        let is_first =
            |due| self.look_at_ms.compare_exchange(due, next_ms, Ordering::Relaxed, Ordering::Relaxed);
        if boot_ms < due_ms || is_first(due_ms).is_err() {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = std::fs::metadata(&self.path).map_or(Seen::Missing, |found| Seen::of(&found));
        if now == *seen {
            return;
        }
        *seen = now;
        let path = self.path.display();
        match read(&self.path) {
            Ok((read, text)) => {
                *seen = read;
                match parse_tokens(&text) {
                    Ok(entries) => {
                        tracing::info!(%path, tokens = entries.len(), "the token file was read again");
                        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries.into();
                    }
                    Err(fault) => {
                        tracing::warn!(%path, %fault, "the token file is not understood; the tokens read before stay valid");
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%path, %error, "the token file cannot be read; the tokens read before stay valid");
            }
        }
    }
}

impl Seen {
    fn of(found: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self::Found {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        }
    }
}

fn read(path: &Path) -> io::Result<(Seen, String)> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    if found.mode() & 0o007 != 0 {
        let mode = format!("{:04o}", found.mode() & 0o7777);
        tracing::warn!(path = %path.display(), mode, "the token file is open to everybody; chmod o= would close it");
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    Ok((Seen::of(&found), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const HASH: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fn problem(text: &str) -> String {
        parse_tokens(text).unwrap_err().to_string()
    }

    #[test]
    fn lines_are_read_and_written_back() {
        let text = format!("# who may ask\n\n  alice admin {HASH}\nci-1.x\thold {HASH}  \n");
        let entries = parse_tokens(&text).unwrap();
        let shown: Vec<String> = entries.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [format!("alice admin {HASH}"), format!("ci-1.x hold {HASH}")]);
        assert_eq!(entries[0].hash, token_hash("foo"));
    }

    #[test]
    fn a_bad_line_is_named_and_hashes_are_not_repeated() {
        assert_eq!(problem("a hold"), "line 1: expected three words: name, scope, SHA-256 in hexadecimal");
        assert_eq!(problem(&format!("\na root {HASH}")), "line 2: \"root\" is no scope: read, hold or admin");
        assert_eq!(
            problem("a hold secret"),
            "line 1: the third word is not a SHA-256: 64 hexadecimal digits"
        );
        assert_eq!(
            problem(&format!("a hold {}", HASH.replace('2', "g"))),
            "line 1: the third word is not a SHA-256: 64 hexadecimal digits"
        );
        assert_eq!(
            problem(&format!("a:b hold {HASH}")),
            "line 1: a token's name has only letters, digits, '.', '_' and '-'"
        );
        assert_eq!(
            problem(&format!("a hold {HASH}\na read {HASH}")),
            "line 2: the name a is taken by an earlier line"
        );
    }

    #[test]
    fn a_changed_file_is_read_again_at_most_once_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let write = |name: &str, token: &str| {
            let entry = TokenEntry { name: name.to_owned(), scope: Scope::Hold, hash: token_hash(token) };
            fs::write(directory.path().join("draft"), format!("{entry}\n")).unwrap();
            fs::rename(directory.path().join("draft"), &path).unwrap();
        };
        let who = |table: &TokenTable, token: &str, at| {
            table.find(token, at).map(|found| found.principal.to_string())
        };
        write("one", "first");
        let table = TokenTable::open(path.clone()).unwrap();
        assert_eq!(who(&table, "first", 10_000).as_deref(), Some("token:one"));
        assert_eq!(who(&table, "second", 10_000), None);

        write("two", "second");
        assert_eq!(who(&table, "second", 10_999), None, "looked at less than a second ago");
        assert_eq!(who(&table, "second", 11_000).as_deref(), Some("token:two"));
        assert_eq!(who(&table, "first", 11_000), None);

        fs::write(&path, "nonsense\n").unwrap();
        assert_eq!(
            who(&table, "second", 20_000).as_deref(),
            Some("token:two"),
            "bad content changes nothing"
        );
        fs::remove_file(&path).unwrap();
        assert_eq!(who(&table, "second", 30_000).as_deref(), Some("token:two"), "so does no file");
        write("three", "third");
        assert_eq!(who(&table, "third", 40_000).as_deref(), Some("token:three"));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        assert!(matches!(TokenTable::open(path.clone()), Err(AuthError::Unreadable { .. })));
        fs::write(&path, "x").unwrap();
        assert!(matches!(TokenTable::open(path.clone()), Err(AuthError::Malformed { .. })));
        fs::write(&path, "#".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
        assert!(matches!(TokenTable::open(path), Err(AuthError::Unreadable { .. })));
    }
}
