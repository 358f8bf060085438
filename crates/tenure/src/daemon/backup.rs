//! A copy of the data while it is written: snapshots first, then the log, which therefore reaches at least
//! as far. A frame that was being written at the end is cut when the copy is opened, as after a crash.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, Header};

/// Directories in the order they are copied, and how the files in them that matter end.
const DIRECTORIES: [(&str, &str); 2] = [("snapshots", ".snap"), ("log", ".seg")];
/// The daemon may take a snapshot and trim meanwhile; a copy that lost its beginning is made anew.
const TRIES_MAX: usize = 3;

/// Writes a tar archive of the data directory.
pub(crate) fn write(data_dir: &Path, out: &mut dyn Write) -> io::Result<()> {
    let mut files = Vec::new();
    for attempt in 1..=TRIES_MAX {
        match open_all(data_dir) {
            Ok(found) => {
                files = found;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < TRIES_MAX => {}
            Err(error) => return Err(error),
        }
    }
    let mut archive = Builder::new(out);
    for (name, file) in files {
        let length = file.metadata()?.len();
        let mut header = Header::new_ustar();
        header.set_size(length);
        header.set_mode(0o600);
        archive.append_data(&mut header, name, file.take(length))?;
    }
    archive.into_inner()?.flush()
}

/// Opens everything before anything is copied: what is open stays readable when it is trimmed.
fn open_all(data_dir: &Path) -> io::Result<Vec<(PathBuf, File)>> {
    let mut files = Vec::new();
    for (directory, suffix) in DIRECTORIES {
        let mut names: Vec<String> = std::fs::read_dir(data_dir.join(directory))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(suffix))
            .collect();
        names.sort();
        for name in names {
            let path = Path::new(directory).join(&name);
            let file = File::open(data_dir.join(&path))?;
            files.push((path, file));
        }
    }
    Ok(files)
}
