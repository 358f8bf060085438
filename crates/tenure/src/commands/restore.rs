//! `tenure restore`: a data directory made of a backup, under an identity of its own.
//!
//! Invariant: a directory that was not empty is not touched, and one that could not be restored is left empty.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tar::{Archive, EntryType};
use tenure_engine::host::read_clocks;
use tenure_history::LogTag;
use tenure_log::{FileLogOptions, Genesis, RealDisk, restore};

use crate::daemon::make_private;
use crate::failure::{Failure, Words, chain};
use crate::printer::{Printer, counted};

/// Create a data directory from a backup
///
/// The log gets a new identity, so the daemon does not mistake old holders for current ones: it ends the leases of the
/// backup when it starts, and grants nothing until every lease that the lost log may have granted has expired.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    /// Archive of `tenure backup`; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Data directory to create; must be empty or missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tenure restore tenure.tar /var/lib/tenure
  gunzip -c tenure.tar.gz | tenure restore - /var/lib/tenure";

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
enum UnpackError {
    /// It ends too early, or never was one.
    #[error("not a complete tar archive")]
    NoArchive,
    /// It holds something that no backup holds.
    #[error("unexpected file {} in the backup", path.display())]
    Foreign {
        /// What.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Where files of a backup may lie below the data directory.
const PLACES: &[&str] = &["log", "snapshots"];

impl Restore {
    pub(crate) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let archive: Box<dyn Read> = if self.file == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.file).map_err(|error| {
                Failure::Usage(Words::new(format_args!("cannot read {}: {error}", self.file.display())))
            })?)
        };
        let existed = self.require_empty()?;
        let outcome = self.fill(archive);
        if outcome.is_err() {
            self.clear(existed);
        }
        let Filled { files, restored } = outcome?;
        let [old, new] = [&restored.old, &restored.new].map(|identity| LogTag::of(identity).to_string());
        if printer.json() {
            return printer.object(&json!({
                "directory": self.directory.display().to_string(),
                "files": files,
                "old_tag": old,
                "tag": new,
                "since_lsn": restored.since.0,
            }));
        }
        let shown = self.directory.display();
        printer.line(format_args!("{} in {shown}", counted(files, "file")))?;
        printer.line(format_args!("log {old} continues as log {new} from lsn {}", restored.since))?;
        printer.talk(format_args!("hint: start the daemon with: tenure serve --data-dir {shown}"));
        Ok(())
    }

    /// Whether the directory was there.
    fn require_empty(&self) -> Result<bool, Failure> {
        let shown = self.directory.display();
        match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::Unexpected(Words::new(format_args!("cannot read {shown}: {error}")))),
            Ok(mut entries) => match entries.next() {
                None => Ok(true),
                Some(_) => {
                    let words = Words::new(format_args!("{shown} is not empty"));
                    Err(Failure::Refused(words.hint("name an empty or new directory")))
                }
            },
        }
    }

    fn fill(&self, archive: Box<dyn Read>) -> Result<Filled, Failure> {
        let unpacked = make_private(&self.directory)
            .map_err(UnpackError::from)
            .and_then(|()| unpack(archive, &self.directory));
        let files = unpacked.map_err(|error| {
            let words = Words::new(format_args!("cannot unpack {}: {}", self.file.display(), chain(&error)));
            Failure::Unexpected(words.hint("name an archive that tenure backup wrote"))
        })?;
        let restored = give_identity(&self.directory)?;
        Ok(Filled { files, restored })
    }

    fn clear(&self, existed: bool) {
        for place in PLACES {
            let _ = fs::remove_dir_all(self.directory.join(place));
        }
        let _ = fs::remove_file(self.directory.join("lock"));
        if !existed {
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

struct Filled {
    files: u64,
    restored: tenure_log::file::Restored,
}

fn give_identity(directory: &Path) -> Result<tenure_log::file::Restored, Failure> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::Unexpected(Words::new(format_args!("no randomness: {error}"))))?;
    let now = read_clocks();
    let genesis = Genesis { random, unix_seconds: now.wall_ms / 1000, shard: 0 };
    restore(Arc::new(RealDisk), directory, FileLogOptions::new(genesis, now.wall_ms)).map_err(|error| {
        let words = Words::new(format_args!("cannot restore the backup: {}", chain(&error)));
        Failure::Unexpected(words.hint("try an older backup"))
    })
}

/// Unpacks plain files in the known places and refuses anything else.
fn unpack(archive: Box<dyn Read>, directory: &Path) -> Result<u64, UnpackError> {
    let mut files = 0;
    // What the reader of archives says quotes their bytes, which are no words.
    for entry in Archive::new(archive).entries().map_err(|_| UnpackError::NoArchive)? {
        let mut entry = entry.map_err(|_| UnpackError::NoArchive)?;
        let path = entry.path().map_err(|_| UnpackError::NoArchive)?.into_owned();
        match entry.header().entry_type() {
            EntryType::Directory => {}
            EntryType::Regular => {
                let target = directory.join(place_of(&path)?);
                make_private(target.parent().unwrap_or(directory))?;
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target)?;
                io::copy(&mut entry, &mut file)?;
                file.sync_all()?;
                files += 1;
            }
            _ => return Err(UnpackError::Foreign { path }),
        }
    }
    for place in PLACES {
        if let Ok(opened) = File::open(directory.join(place)) {
            opened.sync_all()?;
        }
    }
    Ok(files)
}

/// `log/NAME` or `snapshots/NAME`, however it is written.
fn place_of(path: &Path) -> Result<PathBuf, UnpackError> {
    let parts: Vec<Component<'_>> =
        path.components().filter(|part| !matches!(part, Component::CurDir)).collect();
    match parts.as_slice() {
        [Component::Normal(place), Component::Normal(name)]
            if PLACES.iter().any(|known| *place == std::ffi::OsStr::new(known)) =>
        {
            Ok(Path::new(place).join(name))
        }
        _ => Err(UnpackError::Foreign { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_backup_lie_in_the_known_places_only() {
        for path in ["log/00000000000000000001.seg", "./snapshots/x.snap"] {
            assert!(place_of(Path::new(path)).is_ok(), "{path}");
        }
        for path in ["lock", "log", "../log/x", "/log/x", "log/../x", "log/a/b", "other/x", "log/./../../x"] {
            assert!(place_of(Path::new(path)).is_err(), "{path}");
        }
    }
}
