//! `daemon.json`: how programs on this machine find the daemon. Both halves are here, the daemon's and the finders'.
//!
//! The daemon keeps the file write-locked for as long as it lives. Nobody who may only read the file can take that lock, so
//! a stranger can neither stand in for a daemon that is gone nor keep the next one from starting.
//! Invariant: a file is visible only while it is locked, and removed or replaced only by a process that holds its lock, or
//! that a stranger's reading lock keeps from it; so a finder that clears a stale file away never removes that of a daemon
//! which has just started.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{env, process};

use tenure_api::Breadcrumb;
use tenure_engine::host::read_clocks;

use crate::trusted::Trusted;
use crate::write_lock;

/// Name of the file in its directory.
const FILE_NAME: &str = "daemon.json";
/// Where the daemon of the whole machine leaves its breadcrumb.
const MACHINE_DIRECTORY: &str = "/run/tenure";
/// Stands in for [`MACHINE_DIRECTORY`], for systems that have their run-time directory elsewhere.
const MACHINE_DIRECTORY_VARIABLE: &str = "TENURE_RUN_DIR";
/// Finders hold a stale file's lock for microseconds of their own time, which a busy machine may stretch; one that is
/// held for this long has an owner that lives.
const HELD_MS_MAX: u64 = 500;

/// A breadcrumb whose writer lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trail {
    /// The file.
    pub(crate) file: PathBuf,
    /// What it says.
    pub(crate) breadcrumb: Breadcrumb,
    /// Whose file it is.
    pub(crate) uid: u32,
}

/// A breadcrumb of this process; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Published {
    path: PathBuf,
    /// Its lock is what says that the daemon lives.
    file: File,
}

/// Why a breadcrumb could not be left.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishError {
    /// Another daemon has one there.
    #[error("another running daemon owns {}", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("cannot write {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Every breadcrumb of a trusted user whose writer lives. Stale ones are cleared away.
pub(crate) fn find(trusted: &Trusted) -> Vec<Trail> {
    find_in(&directories(), trusted)
}

/// Leaves a breadcrumb in a directory, which is made if it is missing. Call it once every listener is bound.
pub(crate) fn publish(directory: &Path, breadcrumb: &Breadcrumb) -> Result<Published, PublishError> {
    let path = directory.join(FILE_NAME);
    let io_error = |source| PublishError::Io { path: path.clone(), source };
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(io_error)?;
    let draft = directory.join(format!("{FILE_NAME}.{}", process::id()));
    let file = write_locked(&draft, breadcrumb).map_err(io_error)?;
    let moved = put_in_place(&draft, &path);
    if moved.is_err() {
        let _ = fs::remove_file(&draft);
    }
    moved.map(|()| Published { path: path.clone(), file })
}

impl Published {
    /// Removes the breadcrumb, as dropping does.
    pub(crate) fn close(self) {}
}

impl Drop for Published {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn directories() -> Vec<PathBuf> {
    user_directory().into_iter().chain([machine_directory()]).collect()
}

/// Where the environment does not say, as under cron and `sudo`: where systemd has it for those who are signed in.
fn user_directory() -> Option<PathBuf> {
    let base = match env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        Some(given) => PathBuf::from(given),
        None => PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw())),
    };
    Some(base.join("tenure")).filter(|directory| directory.is_dir())
}

/// Where the machine's own daemon is found.
pub(crate) fn machine_directory() -> PathBuf {
    let given = env::var_os(MACHINE_DIRECTORY_VARIABLE).filter(|value| !value.is_empty());
    given.map_or_else(|| PathBuf::from(MACHINE_DIRECTORY), PathBuf::from)
}

fn find_in(directories: &[PathBuf], trusted: &Trusted) -> Vec<Trail> {
    let mut seen = Vec::new();
    let mut trails = Vec::new();
    for directory in directories {
        let path = directory.join(FILE_NAME);
        let Ok(file) = open(&path, false) else { continue };
        let Ok(found) = file.metadata() else { continue };
        // One directory may be reached by two names.
        let identity = (found.dev(), found.ino());
        if !found.is_file() || !trusted.includes(found.uid()) || seen.contains(&identity) {
            continue;
        }
        seen.push(identity);
        // A file system without locks: whether the daemon answers has to decide.
        if write_lock::is_taken(&file).unwrap_or(true) {
            let uid = found.uid();
            trails.extend(read(&file).map(|breadcrumb| Trail { file: path, breadcrumb, uid }));
        } else {
            clear_away(&path);
        }
    }
    trails
}

/// Does not wait, whatever stands there: in a directory of others it may be a pipe.
fn open(path: &Path, writes: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(writes).custom_flags(libc::O_NONBLOCK).open(path)
}

/// A file that may not be written, or in a directory that may not be, stays: it is known to be stale next time too.
fn clear_away(path: &Path) {
    let Ok(file) = open(path, true) else { return };
    // A daemon of version 0.1 has a lock of the older kind.
    let is_of_nobody = file.try_lock().is_ok() && write_lock::try_take(&file).unwrap_or(false);
    if is_of_nobody && is_at(&file, path) {
        let _ = fs::remove_file(path);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => identity(open) == identity(there),
        _ => false,
    }
}

fn read(file: &File) -> Option<Breadcrumb> {
    serde_json::from_reader(io::BufReader::new(file)).ok()
}

fn write_locked(draft: &Path, breadcrumb: &Breadcrumb) -> io::Result<File> {
    // What a killed process of the same number left.
    let _ = fs::remove_file(draft);
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(draft)?;
    if !write_lock::try_take(&file)? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    // For finders of version 0.1.
    let _ = file.try_lock();
    let mut text = serde_json::to_vec(breadcrumb)?;
    text.push(b'\n');
    file.write_all(&text)?;
    Ok(file)
}

fn put_in_place(draft: &Path, path: &Path) -> Result<(), PublishError> {
    let io_error = |source| PublishError::Io { path: path.to_owned(), source };
    let patient_until_ms = read_clocks().boot_ms + HELD_MS_MAX;
    while read_clocks().boot_ms < patient_until_ms {
        match open(path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match fs::hard_link(draft, path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    linked => linked.map_err(io_error)?,
                }
                return fs::remove_file(draft).map_err(io_error);
            }
            Err(error) => return Err(io_error(error)),
            Ok(stale) => {
                // Keeps finders and other daemons off it. A reader's lock may be in the way: a stranger's, which counts
                // for nothing.
                let ours = open(path, true).ok().filter(|file| write_lock::try_take(file).unwrap_or(false));
                if ours.is_none() && write_lock::is_taken(&stale).map_err(io_error)? {
                    std::thread::yield_now();
                } else if is_at(&stale, path) {
                    return fs::rename(draft, path).map_err(io_error);
                }
            }
        }
    }
    Err(PublishError::Taken { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn breadcrumb(port: u16) -> Breadcrumb {
        Breadcrumb {
            endpoint: format!("http://127.0.0.1:{port}"),
            socket: None,
            pid: 7,
            started_at: "2026-02-07T22:15:00.000Z".into(),
            version: "0.1.0".into(),
        }
    }

    fn ports(directories: &[&TempDir]) -> Vec<String> {
        let paths: Vec<PathBuf> = directories.iter().map(|directory| directory.path().to_owned()).collect();
        find_in(&paths, &Trusted::of_process()).into_iter().map(|trail| trail.breadcrumb.endpoint).collect()
    }

    fn is_empty(directory: &TempDir) -> bool {
        fs::read_dir(directory.path()).unwrap().next().is_none()
    }

    #[test]
    fn a_breadcrumb_is_found_while_its_writer_lives_and_gone_after_it() {
        let directory = TempDir::new().unwrap();
        let published = publish(directory.path(), &breadcrumb(1)).unwrap();
        assert_eq!(ports(&[&directory]), ["http://127.0.0.1:1"]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        published.close();
        assert!(is_empty(&directory));
        assert!(ports(&[&directory]).is_empty());
    }

    #[test]
    fn a_stale_breadcrumb_is_cleared_away() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join(FILE_NAME), serde_json::to_vec(&breadcrumb(1)).unwrap()).unwrap();
        assert!(ports(&[&directory]).is_empty());
        assert!(is_empty(&directory));
    }

    #[test]
    fn a_stale_breadcrumb_is_replaced_and_a_live_one_is_not() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join(FILE_NAME), "{").unwrap();
        let first = publish(directory.path(), &breadcrumb(1)).unwrap();
        let second = publish(directory.path(), &breadcrumb(2));
        assert!(matches!(second, Err(PublishError::Taken { .. })));
        assert_eq!(ports(&[&directory]), ["http://127.0.0.1:1"]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        drop(first);
    }

    #[test]
    fn a_stranger_s_locks_neither_keep_a_stale_breadcrumb_alive_nor_a_daemon_from_starting() {
        // Any user once held a dead daemon's lock: the next one did not start, and commands asked whoever had its port.
        let directory = TempDir::new().unwrap();
        let path = directory.path().join(FILE_NAME);
        fs::write(&path, serde_json::to_vec(&breadcrumb(1)).unwrap()).unwrap();
        let stranger = File::open(&path).unwrap();
        stranger.lock().unwrap();
        write_lock::take_as_reader(&stranger).unwrap();
        assert_eq!(write_lock::try_take(&stranger).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert!(ports(&[&directory]).is_empty());
        let published = publish(directory.path(), &breadcrumb(2)).unwrap();
        assert_eq!(ports(&[&directory]), ["http://127.0.0.1:2"]);
        let other = File::open(&path).unwrap();
        assert!(write_lock::take_as_reader(&other).is_err(), "the daemon has it");
        drop(published);
        assert!(is_empty(&directory));
    }

    #[test]
    fn a_breadcrumb_of_another_user_is_not_followed() {
        let directory = TempDir::new().unwrap();
        let _published = publish(directory.path(), &breadcrumb(1)).unwrap();
        std::os::unix::fs::chown(directory.path().join(FILE_NAME), Some(47_111), None).unwrap();
        let found = |caller| find_in(&[directory.path().to_owned()], &Trusted::only(caller)).len();
        assert_eq!((found(47_111), found(47_112)), (1, 0));
        assert!(!is_empty(&directory), "nor cleared away");
    }

    #[test]
    fn what_is_no_file_is_passed_by() {
        let directory = TempDir::new().unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            directory.path().join(FILE_NAME),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        assert!(ports(&[&directory]).is_empty());
    }

    #[test]
    fn two_daemons_are_both_found_and_one_directory_under_two_names_counts_once() {
        let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let _first = publish(one.path(), &breadcrumb(1)).unwrap();
        let _second = publish(two.path(), &breadcrumb(2)).unwrap();
        assert_eq!(ports(&[&one, &two]), ["http://127.0.0.1:1", "http://127.0.0.1:2"]);
        assert_eq!(ports(&[&one, &one]), ["http://127.0.0.1:1"]);
    }

    #[test]
    fn finders_never_remove_what_a_daemon_has_just_left() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().to_owned();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..2_000)
                        .for_each(|_| drop(find_in(std::slice::from_ref(&path), &Trusted::of_process())))
                });
            }
            for round in 0..200 {
                let published = publish(&path, &breadcrumb(round)).unwrap();
                assert!(path.join(FILE_NAME).exists(), "round {round}");
                // As a killed daemon leaves it: there, and not locked.
                published.file.unlock().unwrap();
                write_lock::give_back(&published.file);
                std::mem::forget(published);
            }
        });
    }
}
