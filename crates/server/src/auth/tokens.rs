//! The token file: lines `name scope sha256-hex`. Holds hashes, never tokens.
//!
//! A line that is gone ends its token. While the file cannot be read the last tokens keep and give back what they hold, and
//! do nothing else: one slip must not end every lease, and must not keep a revoked token alive.
//!
//! Invariant: how long a comparison takes says nothing about the hashes; every entry is compared, whatever was found.

use super::credentials::{CredentialFile, LineFault, Reading, read_lines};
use super::{Admitted, AuthError};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::PathBuf;
use subtle::ConstantTimeEq;
use tenure_faces::{Scope, Within};

/// Longest name of a token.
pub const TOKEN_NAME_BYTES_MAX: usize = 64;
/// One line of a token file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenEntry {
    /// Who holds the token; its principal is `token:NAME`.
    pub name: String,
    /// What it may do.
    pub scope: TokenScope,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
}

/// What a token may do: `read`, `hold`, `admin`, or `hold:build/*,gpu` with the names of what it may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenScope {
    /// How much.
    pub scope: Scope,
    /// What it may hold; `None`: everything.
    pub within: Option<Within>,
}

impl TokenScope {
    /// Reads the word of a token file.
    ///
    /// # Errors
    /// What is wrong with it, in words that do not repeat it: it may be a token by mistake.
    pub fn parse(word: &str) -> Result<Self, String> {
        if let Some(scope) = Scope::from_word(word) {
            return Ok(Self { scope, within: None });
        }
        match word.strip_prefix("hold:") {
            Some(names) => Ok(Self { scope: Scope::Hold, within: Some(Within::parse(names)?) }),
            None => Err("a scope is read, hold, hold:PREFIX* or admin".to_owned()),
        }
    }
}

/// As it stands in the file.
impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scope.as_str())?;
        match &self.within {
            Some(within) => write!(f, ":{within}"),
            None => Ok(()),
        }
    }
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
pub fn parse_tokens(text: &str) -> Result<Vec<TokenEntry>, LineFault> {
    let (entries, faults) = read_tokens(text);
    faults.into_iter().next().map_or(Ok(entries), Err)
}

fn read_tokens(text: &str) -> Reading<TokenEntry> {
    read_lines(text, parse_entry, |entry| &entry.name)
}

fn parse_entry(line: &str) -> Result<TokenEntry, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[name, scope, hash] = words.as_slice() else {
        return Err("expected three words: name, scope, SHA-256 in hexadecimal".to_owned());
    };
    check_token_name(name)?;
    let scope = TokenScope::parse(scope)?;
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
        write!(f, "{} {} ", self.name, self.scope)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The tokens of a file, followed while it changes.
#[derive(Debug)]
pub(super) struct TokenTable(CredentialFile<TokenEntry>);

impl TokenTable {
    pub(super) fn open(path: PathBuf, boot_ms: u64) -> Result<Self, AuthError> {
        CredentialFile::open(path, read_tokens, boot_ms).map(Self)
    }

    pub(super) fn file(&self) -> &CredentialFile<TokenEntry> {
        &self.0
    }

    /// The token of this name, and whether the file it is from cannot be read any more.
    pub(super) fn entry(&self, name: &str, boot_ms: u64) -> Option<(TokenEntry, bool)> {
        let known = self.0.known(boot_ms);
        let entry = known.entries.iter().find(|entry| entry.name == name).cloned();
        entry.map(|entry| (entry, known.state.is_outdated()))
    }

    /// Whose token this is.
    pub(super) fn find(&self, token: &str, boot_ms: u64) -> Option<Admitted> {
        let known = self.0.known(boot_ms);
        let hash = token_hash(token);
        let mut found = None;
        for entry in &known.entries {
            if bool::from(entry.hash.ct_eq(&hash)) {
                found = Some(entry);
            }
        }
        let TokenEntry { name, scope, .. } = found?;
        Some(Admitted {
            within: scope.within.clone(),
            is_outdated: known.state.is_outdated(),
            ..Admitted::new(format!("token:{name}"), scope.scope)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::credentials::FILE_BYTES_MAX;
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::path::Path;
    use tenure_engine::Now;

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
        let limited = format!("ci hold:build/*,gpu {HASH}");
        let entries = parse_tokens(&limited).unwrap();
        assert_eq!(entries[0].to_string(), limited);
        assert_eq!(entries[0].scope.within.as_ref().unwrap().patterns(), ["build/*", "gpu"]);
    }

    #[test]
    fn a_bad_line_is_named_and_hashes_are_not_repeated() {
        assert_eq!(problem("a hold"), "line 1: expected three words: name, scope, SHA-256 in hexadecimal");
        assert_eq!(
            problem(&format!("\na tenure_secret {HASH}")),
            "line 2: a scope is read, hold, hold:PREFIX* or admin"
        );
        assert_eq!(
            problem(&format!("a hold:* {HASH}")),
            "line 1: a prefix has at least one character, as in hold:build/*"
        );
        assert!(parse_tokens(&format!("a admin:build/* {HASH}")).is_err());
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

    fn line(name: &str, token: &str) -> String {
        let scope = TokenScope { scope: Scope::Hold, within: None };
        format!("{}\n", TokenEntry { name: name.to_owned(), scope, hash: token_hash(token) })
    }

    fn put(path: &Path, text: &str) {
        let draft = path.with_extension("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, path).unwrap();
    }

    /// Who shows a token, and whether only to keep what it has.
    fn who(table: &TokenTable, token: &str, at: u64) -> Option<(String, bool)> {
        table.find(token, at).map(|found| (found.principal.to_string(), found.is_outdated))
    }

    fn full(name: &str) -> Option<(String, bool)> {
        Some((format!("token:{name}"), false))
    }

    #[test]
    fn a_changed_file_is_read_again_at_most_once_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        put(&path, &line("one", "first"));
        let table = TokenTable::open(path.clone(), 0).unwrap();
        assert_eq!(who(&table, "first", 10_000), full("one"));
        assert_eq!(who(&table, "second", 10_000), None);

        put(&path, &line("two", "second"));
        assert_eq!(who(&table, "second", 10_999), None, "looked at less than a second ago");
        assert_eq!(who(&table, "second", 11_000), full("two"));
        assert_eq!(who(&table, "first", 11_000), None);
    }

    #[test]
    fn a_readable_file_counts_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        put(&path, &[line("a", "1"), line("b", "2")].concat());
        let table = TokenTable::open(path.clone(), 0).unwrap();

        let broken = [line("b", "2"), "garbage\n".to_owned(), line("b", "9"), line("c", "3")].concat();
        put(&path, &broken);
        assert_eq!(
            who(&table, "1", 1_000),
            None,
            "a line that is gone ends its token, whatever stands beside it"
        );
        assert_eq!(who(&table, "2", 1_000), full("b"));
        assert_eq!(who(&table, "9", 1_000), None, "of two lines of one name the first counts");
        assert_eq!(who(&table, "3", 1_000), full("c"), "a new line counts at once");
        assert_eq!(table.0.known(1_000).state.lines_rejected, 2);

        put(&path, "nonsense\n");
        assert_eq!(who(&table, "2", 2_000), None);
        put(&path, &line("b", "2"));
        assert_eq!(who(&table, "2", 3_000), full("b"));
        assert_eq!(table.0.known(3_000).state.lines_rejected, 0);
    }

    #[test]
    fn while_the_file_cannot_be_used_the_last_tokens_only_keep_what_they_hold() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        put(&path, &line("a", "1"));
        let table = TokenTable::open(path.clone(), 0).unwrap();
        let outdated = Some(("token:a".to_owned(), true));

        fs::remove_file(&path).unwrap();
        assert_eq!(who(&table, "1", 1_000), outdated);
        assert_eq!(who(&table, "1", 2_000), outdated);
        assert_eq!(who(&table, "2", 2_000), None);
        put(&path, &line("a", "1"));
        assert_eq!(who(&table, "1", 3_000), full("a"), "it is there again");

        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(who(&table, "1", 6_000), outdated);
        assert_eq!(who(&table, "1", 7_000), outdated);
        fs::remove_dir(&path).unwrap();
        put(&path, &line("b", "2"));
        assert_eq!((who(&table, "1", 8_000), who(&table, "2", 8_000)), (None, full("b")));
    }

    /// Whatever stands in such a file, a stranger may have written it.
    #[test]
    fn a_file_that_strangers_can_write_cannot_be_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        put(&path, &line("a", "1"));
        let table = TokenTable::open(path.clone(), 0).unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        for (at, exposed) in [(1_000, 0o606), (3_000, 0o660), (5_000, 0o620)] {
            fs::write(&path, line("b", "2")).unwrap();
            mode(exposed);
            assert_eq!(who(&table, "1", at), Some(("token:a".to_owned(), true)), "{exposed:o}");
            assert_eq!(who(&table, "2", at), None, "{exposed:o}");
            fs::write(&path, line("a", "1")).unwrap();
            mode(0o600);
            assert_eq!(who(&table, "1", at + 1_000), full("a"), "{exposed:o}");
        }
        chown(&path, Some(4_711), None).unwrap();
        assert_eq!(who(&table, "1", 7_000), Some(("token:a".to_owned(), true)));
        assert!(matches!(TokenTable::open(path.clone(), 0), Err(AuthError::Unreadable { .. })));
        chown(&path, Some(0), None).unwrap();
        assert_eq!(who(&table, "1", 8_000), full("a"));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        assert!(matches!(TokenTable::open(path.clone(), 0), Err(AuthError::Unreadable { .. })));
        fs::write(&path, "x").unwrap();
        assert!(matches!(TokenTable::open(path.clone(), 0), Err(AuthError::Malformed { .. })));
        fs::write(&path, "#".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
        assert!(matches!(TokenTable::open(path.clone(), 0), Err(AuthError::Unreadable { .. })));
        fs::write(&path, "").unwrap();
        for (mode, is_refused) in [(0o602, true), (0o666, true), (0o660, true), (0o644, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let opened = TokenTable::open(path.clone(), 0);
            assert_eq!(matches!(opened, Err(AuthError::Unreadable { .. })), is_refused, "{mode:o}");
        }
    }

    #[test]
    fn the_status_tells_when_the_file_was_read_and_since_when_it_cannot_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        put(&path, &[line("a", "1"), line("b", "2")].concat());
        let table = TokenTable::open(path.clone(), 1_000).unwrap();
        let at = |boot_ms: u64| {
            // The wall clock was set back in between: times are counted from now.
            let status = table.0.status(Now { boot_ms, wall_ms: 50_000 + boot_ms });
            let seconds = |time: String| time[17..19].to_owned();
            let error =
                status.error.map(|error| error.replace(&directory.path().display().to_string(), "DIR"));
            (
                seconds(status.read_at),
                status.lines,
                status.lines_rejected,
                status.unusable_since.map(seconds),
                error,
            )
        };
        let good = |read: &str, lines, refused| (read.to_owned(), lines, refused, None, None);
        assert_eq!(at(1_000), good("51", 2, 0));
        put(&path, &[line("a", "1"), "slip".to_owned()].concat());
        assert_eq!(at(2_000), good("52", 1, 1));
        assert_eq!(at(3_000), good("52", 1, 1));
        fs::remove_file(&path).unwrap();
        let error = "cannot use DIR/tokens: No such file or directory (os error 2)".to_owned();
        let broken = ("52".to_owned(), 1, 1, Some("54".to_owned()), Some(error));
        assert_eq!(at(4_000), broken);
        assert_eq!(at(6_000), broken, "it is broken since it was first seen to be");
        put(&path, &line("a", "1"));
        assert_eq!(at(7_000), good("57", 1, 0));
    }
}
