//! `tenure backup`: a copy of everything the daemon keeps, taken while it runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::connect::{Daemon, call_failure};
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Back up the log and snapshots of the running daemon into a tar archive
///
/// The file appears complete or not at all. `tenure restore` creates a data directory from it.
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure backup tenure.tar\n  tenure backup - | gzip > tenure.tar.gz")]
pub(crate) struct Backup {
    /// Archive to write; - is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

impl Backup {
    /// What can be known to be wrong before any daemon is asked.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_output() || self.force || !self.file.exists() {
            return Ok(());
        }
        let words = Words::new(format_args!("{} already exists", self.file.display()));
        Err(Failure::Refused(words.hint("--force overwrites the file")))
    }

    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        if self.is_output() {
            let mut archive = daemon.client().backup().await.map_err(call_failure)?;
            while let Some(piece) = archive.next().await.map_err(call_failure)? {
                printer.bytes(&piece)?;
            }
            return Ok(());
        }
        let draft = Draft::begin(&self.file).map_err(|error| unwritable(&self.file, &error))?;
        let mut archive = daemon.client().backup().await.map_err(call_failure)?;
        let mut bytes = 0;
        while let Some(piece) = archive.next().await.map_err(call_failure)? {
            (&draft.file).write_all(&piece).map_err(|error| unwritable(&self.file, &error))?;
            bytes += piece.len() as u64;
        }
        draft.finish(&self.file).map_err(|error| unwritable(&self.file, &error))?;
        if printer.json() {
            return printer.object(&json!({"file": self.file.display().to_string(), "bytes": bytes}));
        }
        printer.line(format_args!("{} bytes in {}", bytes, self.file.display()))
    }

    fn is_output(&self) -> bool {
        self.file == Path::new("-")
    }
}

/// A file that takes its place only when it is whole.
struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    fn begin(target: &Path) -> io::Result<Self> {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { path, file })
    }

    fn finish(self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)?;
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After it took its place there is nothing under this name any more.
        let _ = fs::remove_file(&self.path);
    }
}

fn unwritable(file: &Path, error: &io::Error) -> Failure {
    Failure::Unexpected(Words::new(format_args!("cannot write {}: {error}", file.display())))
}
