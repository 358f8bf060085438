//! `tenure token`: who may ask over TCP. Keeps the token file, which holds hashes; a token itself is shown once.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_server::{TokenEntry, TokenScope, check_token_name, parse_tokens, token_hash};

use crate::atomic_file::{Access, directory_of, replace};
use crate::config::{Environment, Flags, Settings};
use crate::confirm::Consent;
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::table::Table;

/// Create, list and remove API tokens
///
/// A daemon with --token-file requires a token for every request over TCP. The file contains only hashes; a running daemon
/// reloads it within a second of a change.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  tenure token new ci --scope 'hold:build/*'\n  tenure token ls\n  tenure token rm ci"
)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    New(New),
    Ls(List),
    Rm(Remove),
}

/// Create a token and print it once
///
/// Clients send it as `Authorization: Bearer TOKEN`, `--token` or TENURE_TOKEN. It cannot be shown again.
#[derive(Args)]
#[command(after_help = NEW_EXAMPLES)]
struct New {
    /// Token name; the principal is token:NAME
    name: String,
    /// Set the scope: read, hold, hold:PREFIX* or admin
    ///
    /// `hold:build/*,gpu` allows resources and pools with the prefix build/, and the pool gpu.
    #[arg(long, default_value = "hold", value_parser = TokenScope::parse)]
    scope: TokenScope,
    #[command(flatten)]
    file: Place,
}

const NEW_EXAMPLES: &str = "Examples:
  tenure token new ci --scope 'hold:build/*'
  sudo tenure token new ops --scope admin --file /etc/tenure/tokens";

/// List the names of tokens
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure token ls\n  tenure token ls --file /etc/tenure/tokens")]
struct List {
    #[command(flatten)]
    file: Place,
}

/// Remove a token; the daemon rejects it from then on
#[derive(Args)]
#[command(after_help = "Example:\n  tenure token rm ci")]
struct Remove {
    /// Token name
    name: String,
    #[command(flatten)]
    file: Place,
    #[command(flatten)]
    consent: Consent,
}

/// Which file.
#[derive(Args)]
struct Place {
    /// Use this token file [default: auth.token_file, else `tokens` beside the configuration file]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// A token file, kept from changing while it is open.
struct TokenFile {
    path: PathBuf,
    /// `None`: the token does not exist yet.
    text: Option<String>,
    entries: Vec<TokenEntry>,
    /// The daemon's settings do not name it.
    unnamed: bool,
    _lock: File,
}

/// So that people and scanners know what it is when they find one.
const TOKEN_PREFIX: &str = "tenure_";
const HEADER: &str = "# Tokens: name, scope, SHA-256 of the token. Kept by `tenure token`.\n";

impl Token {
    pub(crate) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            TokenCommand::New(new) => new.run(printer),
            TokenCommand::Ls(list) => list.run(printer),
            TokenCommand::Rm(remove) => remove.run(printer),
        }
    }
}

impl New {
    fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        check_token_name(&self.name).map_err(|problem| Failure::Usage(Words::new(problem)))?;
        let file = self.file.open()?;
        if file.entries.iter().any(|entry| entry.name == self.name) {
            let line = format!("token {} already exists in {}", self.name, file.path.display());
            let hint = format!("tenure token rm {}", self.name);
            return Err(Failure::Refused(Words::new(line).hint(hint)));
        }
        let token = random_token();
        let entry = TokenEntry { name: self.name, scope: self.scope, hash: token_hash(&token) };
        let mut text = file.text.clone().unwrap_or_else(|| HEADER.to_owned());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "{entry}");
        file.write(&text)?;
        if printer.json() {
            let path = file.path.display().to_string();
            printer.object(
                &json!({"name": entry.name, "scope": entry.scope.to_string(), "token": token, "file": path}),
            )?;
        } else {
            printer.line(&token)?;
        }
        printer.talk(format_args!(
            "note: added {} to {}; the token is not shown again",
            entry.name,
            file.path.display()
        ));
        if file.unnamed {
            printer.talk(format_args!("note: start the daemon with --token-file {}", file.path.display()));
        }
        Ok(())
    }
}

impl List {
    fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let file = self.file.open()?;
        if printer.json() {
            let tokens: Vec<_> = file
                .entries
                .iter()
                .map(|entry| json!({"name": entry.name, "scope": entry.scope.to_string()}))
                .collect();
            return printer.object(&json!({"tokens": tokens, "file": file.path.display().to_string()}));
        }
        if file.entries.is_empty() {
            printer.talk(format_args!("no tokens in {}", file.path.display()));
            return Ok(());
        }
        let mut table = Table::new(&["NAME", "SCOPE"]);
        for entry in file.entries {
            table.row(vec![entry.name, entry.scope.to_string()]);
        }
        printer.table(&table)
    }
}

impl Remove {
    fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let file = self.file.open()?;
        if !file.entries.iter().any(|entry| entry.name == self.name) {
            let line = format!("there is no token {} in {}", self.name, file.path.display());
            return Err(Failure::Refused(Words::new(line).hint("tenure token ls")));
        }
        if self.consent.asks() {
            let what = format!("token {} of {}", self.name, file.path.display());
            self.consent.obtain(printer, &[what], "remove this token?")?;
        }
        let text = file.text.clone().unwrap_or_default();
        let stays = |line: &&str| line.split_whitespace().next() != Some(self.name.as_str());
        let kept: String = text.lines().filter(stays).map(|line| format!("{line}\n")).collect();
        file.write(&kept)?;
        if printer.json() {
            printer.object(&json!({"removed": self.name, "file": file.path.display().to_string()}))?;
        }
        printer.talk(format_args!("removed {} from {}", self.name, file.path.display()));
        Ok(())
    }
}

impl Place {
    fn open(&self) -> Result<TokenFile, Failure> {
        let environment = Environment::of_process();
        let (path, unnamed) = match &self.file {
            Some(path) => (path.clone(), false),
            None => match Settings::load(&Flags::default(), &environment)?.auth.token_file {
                Some(path) => (path, false),
                None => (environment.usual_token_file().ok_or_else(nowhere)?, true),
            },
        };
        let directory = directory_of(&path);
        fs::create_dir_all(&directory).map_err(|error| unusable(&directory, &error))?;
        // Whoever changes the file at the same time waits here.
        let lock = File::open(&directory)
            .and_then(|directory| directory.lock().map(|()| directory))
            .map_err(|error| unusable(&directory, &error))?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unusable(&path, &error)),
        };
        let entries = parse_tokens(text.as_deref().unwrap_or_default())
            .map_err(|fault| Failure::Unexpected(Words::new(format_args!("{}: {fault}", path.display()))))?;
        Ok(TokenFile { path, text, entries, unnamed, _lock: lock })
    }
}

impl TokenFile {
    fn write(&self, text: &str) -> Result<(), Failure> {
        access(&self.path)
            .and_then(|access| replace(&self.path, text, access))
            .map_err(|error| unusable(&self.path, &error))
    }
}

/// Who may read the file, as it is now or as it will be made.
fn access(path: &Path) -> io::Result<Access> {
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match fs::metadata(path) {
        Ok(found) => Ok(shared((found.uid(), found.gid()), found.mode() & 0o040 != 0, me)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let gid = fs::metadata(directory_of(path))?.gid();
            Ok(shared((me.0, if me.0 == 0 { gid } else { me.1 }), true, me))
        }
        Err(error) => Err(error),
    }
}

/// The file is its owner's alone, unless it belongs to a group of others, as in the directory that `tenure install`
/// makes: that group is the daemon's, and reads it.
fn shared(ids: (u32, u32), may_be: bool, me: (u32, u32)) -> Access {
    let mode = if may_be && ids.1 != me.1 { 0o640 } else { 0o600 };
    Access { mode, ids: (ids != me).then_some(ids) }
}

/// 256 bits that nobody can guess.
fn random_token() -> String {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).expect("invariant: the system gives random bytes");
    let mut token = TOKEN_PREFIX.to_owned();
    for byte in bytes {
        let _ = write!(token, "{byte:02x}");
    }
    token
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::Unexpected(Words::new(format_args!("cannot use {}: {error}", path.display())))
}

fn nowhere() -> Failure {
    let words = Words::new("the token file has no default: neither HOME nor an XDG directory is set");
    Failure::Usage(words.hint("name it with --file FILE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_its_owners_unless_its_group_is_that_of_others() {
        let (root, person) = ((0, 0), (1000, 1000));
        let private = Access { mode: 0o600, ids: None };
        assert_eq!(shared(root, true, root), private);
        assert_eq!(shared(person, true, person), private);
        let installed = Access { mode: 0o640, ids: Some((0, 990)) };
        assert_eq!(shared((0, 990), true, root), installed);
        assert_eq!(shared((0, 990), false, root), Access { mode: 0o600, ..installed });
        let daemons = Access { mode: 0o600, ids: Some((990, 990)) };
        assert_eq!(shared((990, 990), false, root), daemons, "root gives it back to whom it belongs");
    }
}
