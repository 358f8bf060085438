//! Targets from a file: one on each line, read again when it changes. The directory is watched, not the file, so that
//! a file that is replaced by renaming is seen too; what stands behind a symbolic link is followed.
//!
//! Invariant: a file that cannot be read, or that is being written, never takes targets away.

use super::{SourceError, TargetSource};
use crate::store::TargetName;
use core::time::Duration;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tenure_client::clock::{BootInstant, wait_until};
use tokio::net::unix::pipe::Receiver;

/// After the last sign of a change; who writes line by line is not read in the middle.
const QUIET: Duration = Duration::from_millis(100);
/// A file that is written without end is read all the same.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// A file without a single target may be one that was just emptied to be written anew.
const EMPTY_FOR: Duration = Duration::from_secs(1);
/// Changes made from another machine are told by nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// A file that cannot be read or watched is looked for more often.
const LOOK_FOR: Duration = Duration::from_secs(1);
/// Larger files are refused.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Links that are followed, one behind the other.
const LINKS_MAX: usize = 16;
/// Of `struct inotify_event`, before the name.
const EVENT_HEAD_BYTES: usize = 16;

/// Targets from a watched file: one per line.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    /// The last list that was reported; `None` before the first.
    told: Option<Vec<TargetName>>,
    /// Read and not told yet.
    ready: Option<Vec<TargetName>>,
    /// How the file looked when it was last read.
    looked: Option<Look>,
    /// The fault that was logged last, so that each is logged once.
    fault: Option<String>,
    watch: Option<Watch>,
    /// Since when and until when a change is waited out.
    changing: Option<Changing>,
    /// Since when the file has had no target.
    empty_since: Option<BootInstant>,
}

#[derive(Debug)]
struct Watch {
    /// Waits to be given to the runtime: a source can be opened outside of one.
    inotify: Option<OwnedFd>,
    events: Option<Receiver>,
    /// Names in the watched directories that matter; none where a link is in the way: then all do.
    names: Option<HashSet<OsString>>,
}

#[derive(Clone, Copy, Debug)]
struct Changing {
    since: BootInstant,
    last: BootInstant,
}

/// Enough to see that a file is another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Look {
    length: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    inode: u64,
}

/// Parses a list of targets: one per line. Ignores blank lines, lines that begin with `#`, white space at the end of a
/// line, and duplicates.
///
/// # Errors
/// [`SourceError::Temporary`] naming the line that is not UTF-8.
pub fn read_targets(text: &[u8]) -> Result<Vec<TargetName>, SourceError> {
    let mut seen = HashSet::new();
    let mut targets: Vec<TargetName> = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = core::str::from_utf8(line)
            .map_err(|_| SourceError::Temporary(format!("line {} is not UTF-8", number + 1)))?;
        // Some editors mark the beginning of a file.
        let line = if number == 0 { line.trim_start_matches('\u{feff}') } else { line };
        let line = line.trim_end();
        if line.is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        if seen.insert(line) {
            targets.push(line.into());
        }
    }
    Ok(targets)
}

impl FileSource {
    /// Watches and reads the file.
    ///
    /// # Errors
    /// [`SourceError::Permanent`] if the file cannot be read or parsed.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, SourceError> {
        let path = path.into();
        let watch = Watch::over(&path);
        let (targets, looked) = read(&path).map_err(|fault| SourceError::Permanent(fault.to_string()))?;
        Ok(Self {
            path,
            told: None,
            ready: Some(targets),
            looked: Some(looked),
            fault: None,
            watch,
            changing: None,
            empty_since: None,
        })
    }

    /// Waits until the file should be looked at.
    async fn wait(&mut self) {
        loop {
            let now = BootInstant::now();
            let settled =
                self.changing.map(|changing| changing.last.after(QUIET).min(changing.since.after(QUIET_MAX)));
            let emptied = self.empty_since.map(|since| since.after(EMPTY_FOR));
            if settled.is_some_and(|at| now >= at) || emptied.is_some_and(|at| now >= at) {
                return;
            }
            let next = settled.into_iter().chain(emptied).min();
            let is_well = self.fault.is_none() && self.watch.is_some();
            let until = next.unwrap_or(now.after(if is_well { LOOK_AGAIN } else { LOOK_FOR }));
            tokio::select! {
                () = wait_until(until) => {
                    if next.is_none() && look(&self.path).ok() != self.looked {
                        return;
                    }
                }
                is_ours = event(&mut self.watch) => {
                    let now = BootInstant::now();
                    if is_ours {
                        let since = self.changing.map_or(now, |changing| changing.since);
                        self.changing = Some(Changing { since, last: now });
                    }
                }
            }
        }
    }

    /// Reads the file; `Some` if there is something to tell.
    fn look_again(&mut self) -> Option<Result<Vec<TargetName>, SourceError>> {
        self.changing = None;
        // Anew before reading: links may lead elsewhere now, a directory may have come back.
        self.watch = Watch::over(&self.path);
        match read(&self.path) {
            Ok((targets, looked)) => {
                self.looked = Some(looked);
                self.fault = None;
                let was_filled = self.told.as_ref().is_some_and(|told| !told.is_empty());
                if targets.is_empty() && was_filled {
                    let now = BootInstant::now();
                    let since = *self.empty_since.get_or_insert(now);
                    if now < since.after(EMPTY_FOR) {
                        return None;
                    }
                }
                self.empty_since = None;
                (self.told.as_ref() != Some(&targets)).then_some(Ok(targets))
            }
            Err(fault) => {
                self.empty_since = None;
                self.looked = look(&self.path).ok();
                let fault = fault.to_string();
                let is_news = self.fault.as_ref() != Some(&fault);
                self.fault = Some(fault.clone());
                is_news.then_some(Err(SourceError::Temporary(fault)))
            }
        }
    }
}

impl TargetSource for FileSource {
    async fn next(&mut self) -> Result<Vec<TargetName>, SourceError> {
        if let Some(targets) = self.ready.take() {
            self.told = Some(targets.clone());
            return Ok(targets);
        }
        loop {
            self.wait().await;
            match self.look_again() {
                Some(Ok(targets)) => {
                    self.told = Some(targets.clone());
                    return Ok(targets);
                }
                Some(Err(fault)) => return Err(fault),
                None => {}
            }
        }
    }
}

impl Watch {
    /// Watches every directory on the way to the file; `None` where the system has no watch left or the directory is
    /// not there: then the file is looked at from time to time.
    fn over(path: &Path) -> Option<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let flags = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let mut names = HashSet::new();
        let mut step = path.to_path_buf();
        let mut has_links = false;
        for _ in 0..LINKS_MAX {
            let directory = match step.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                Some(_) | None => Path::new("."),
            };
            inotify::add_watch(&inotify, directory, flags).ok()?;
            // A directory that is itself reached by a link is exchanged without anything happening in it.
            has_links |= directory.canonicalize().ok() != std::path::absolute(directory).ok();
            names.extend(step.file_name().map(OsStr::to_owned));
            let Ok(behind) = std::fs::read_link(&step) else { break };
            has_links = true;
            step = directory.join(behind);
        }
        if has_links && let Some(real) = path.canonicalize().ok().as_deref().and_then(Path::parent) {
            inotify::add_watch(&inotify, real, flags).ok()?;
        }
        Some(Self { inotify: Some(inotify), events: None, names: (!has_links).then_some(names) })
    }

    /// Whether what was read concerns the file. What is not understood does.
    fn concerns(&self, mut bytes: &[u8]) -> bool {
        let Some(names) = &self.names else { return true };
        while let Some((head, rest)) = bytes.split_at_checked(EVENT_HEAD_BYTES) {
            let length = head.last_chunk::<4>().map_or(0, |length| u32::from_ne_bytes(*length) as usize);
            let Some((name, rest)) = rest.split_at_checked(length) else { return true };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            // Without a name it is about the directory itself, or about events that were dropped.
            if name.is_empty() || names.contains(OsStr::from_bytes(name)) {
                return true;
            }
            bytes = rest;
        }
        false
    }
}

/// Waits for the next events; whether they concern the file. For ever where nothing is watched.
async fn event(watch: &mut Option<Watch>) -> bool {
    let Some(watching) = watch else { return core::future::pending().await };
    // Room for at least one event with the longest name.
    let mut buffer = [0; 4096];
    let outcome = loop {
        if let Some(inotify) = watching.inotify.take() {
            watching.events = Receiver::from_owned_fd_unchecked(inotify).ok();
        }
        let Some(events) = &watching.events else { break Ok(0) };
        if let Err(error) = events.readable().await {
            break Err(error);
        }
        match events.try_read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => break outcome,
        }
    };
    match outcome {
        Ok(length) if length > 0 => watching.concerns(&buffer[..length]),
        Ok(_) | Err(_) => {
            *watch = None;
            true
        }
    }
}

/// Why the file gives no targets.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("{path} is larger than {} MiB", FILE_BYTES_MAX >> 20)]
    TooLarge { path: String },
    #[error("{path}: {source}")]
    Text { path: String, source: SourceError },
}

fn read(path: &Path) -> Result<(Vec<TargetName>, Look), Fault> {
    let shown = || path.display().to_string();
    let unreadable = |source| Fault::Read { path: shown(), source };
    // Before reading: what is written meanwhile then looks like a change.
    let looked = look(path).map_err(unreadable)?;
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Fault::TooLarge { path: shown() });
    }
    let targets = read_targets(&text).map_err(|source| Fault::Text { path: shown(), source })?;
    Ok((targets, looked))
}

fn look(path: &Path) -> io::Result<Look> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path)?;
    Ok(Look {
        length: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        inode: metadata.ino(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;
    use tokio::time::timeout;

    /// Far more than a change takes to be seen, less than [`LOOK_AGAIN`]: it was the watch that saw it.
    const SOON: Duration = Duration::from_secs(6);

    fn names(targets: &[TargetName]) -> Vec<&str> {
        targets.iter().map(|target| &**target).collect()
    }

    async fn told(source: &mut FileSource) -> Vec<String> {
        let targets = timeout(SOON, source.next()).await.expect("seen in time").expect("a list");
        targets.iter().map(|target| target.to_string()).collect()
    }

    #[test]
    fn a_line_is_a_target_unless_it_is_blank_or_a_comment() {
        let text = b"\xef\xbb\xbfs1  \n\n# no\n  # neither\n  s2\r\ns1\nhttp://h/x#y\n\t\ns3";
        assert_eq!(names(&read_targets(text).expect("text")), ["s1", "  s2", "http://h/x#y", "s3"]);
        assert_eq!(names(&read_targets(b"").expect("text")), [""; 0]);
        let fault = read_targets(b"s1\n\xff\n").expect_err("no text");
        assert_eq!(fault.to_string(), "line 2 is not UTF-8");
    }

    #[tokio::test]
    async fn the_first_list_comes_at_once_and_then_each_change() {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("targets");
        fs::write(&path, "a\nb\n").expect("written");
        let mut source = FileSource::open(&path).expect("a file");
        assert_eq!(told(&mut source).await, ["a", "b"]);
        fs::write(&path, "a\nb\nc\n").expect("written");
        assert_eq!(told(&mut source).await, ["a", "b", "c"]);
        // Something else in the directory, and the same targets in other words, are no news.
        fs::write(directory.path().join("other"), "x").expect("written");
        fs::write(&path, "# hello\na\nb\nc\n").expect("written");
        fs::write(directory.path().join("next"), "d\n").expect("written");
        fs::rename(directory.path().join("next"), &path).expect("renamed");
        assert_eq!(told(&mut source).await, ["d"]);
    }

    #[tokio::test]
    async fn waiting_can_be_given_up_and_begun_again() {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("targets");
        fs::write(&path, "a\n").expect("written");
        let mut source = FileSource::open(&path).expect("a file");
        told(&mut source).await;
        assert!(timeout(Duration::from_millis(20), source.next()).await.is_err());
        fs::write(&path, "b\n").expect("written");
        for _ in 0..3 {
            if let Ok(targets) = timeout(Duration::from_millis(40), source.next()).await {
                assert_eq!(names(&targets.expect("a list")), ["b"]);
                return;
            }
        }
        assert_eq!(told(&mut source).await, ["b"]);
    }

    #[tokio::test]
    async fn a_file_that_goes_is_told_once_and_takes_nothing_away() {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("targets");
        let fault = FileSource::open(&path).expect_err("no file");
        assert!(matches!(&fault, SourceError::Permanent(line) if line.contains("cannot read")), "{fault:?}");
        fs::write(&path, "a\n").expect("written");
        let mut source = FileSource::open(&path).expect("a file");
        told(&mut source).await;
        fs::remove_file(&path).expect("removed");
        let gone = timeout(SOON, source.next()).await.expect("seen in time");
        assert!(matches!(gone, Err(SourceError::Temporary(_))), "{gone:?}");
        fs::write(directory.path().join("x"), "").expect("written");
        assert!(timeout(Duration::from_millis(300), source.next()).await.is_err());
        fs::write(&path, "a\nb\n").expect("written");
        assert_eq!(told(&mut source).await, ["a", "b"]);
    }

    #[tokio::test]
    async fn an_emptied_file_is_believed_after_a_while() {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("targets");
        fs::write(&path, "a\n").expect("written");
        let mut source = FileSource::open(&path).expect("a file");
        told(&mut source).await;
        let before = BootInstant::now();
        fs::write(&path, "").expect("written");
        assert_eq!(told(&mut source).await, [""; 0]);
        assert!(BootInstant::now().since(before) >= EMPTY_FOR);
    }

    /// As volumes of container engines do it: the file is a link into a directory that is a link that is exchanged.
    #[tokio::test]
    async fn a_link_that_is_exchanged_is_followed() {
        let directory = TempDir::new().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for (version, text) in [("one", "a\n"), ("two", "b\n")] {
            fs::create_dir(at(version)).expect("made");
            fs::write(at(version).join("targets"), text).expect("written");
        }
        std::os::unix::fs::symlink("one", at("data")).expect("linked");
        std::os::unix::fs::symlink("data/targets", at("targets")).expect("linked");
        let mut source = FileSource::open(at("targets")).expect("a file");
        assert_eq!(told(&mut source).await, ["a"]);
        std::os::unix::fs::symlink("two", at("new")).expect("linked");
        fs::rename(at("new"), at("data")).expect("renamed");
        assert_eq!(told(&mut source).await, ["b"]);
        fs::write(at("two").join("targets"), "c\n").expect("written");
        assert_eq!(told(&mut source).await, ["c"]);
    }

    #[tokio::test]
    async fn a_directory_that_comes_back_is_seen() {
        let directory = TempDir::new().expect("a directory");
        let (here, away) = (directory.path().join("here"), directory.path().join("away"));
        fs::create_dir(&here).expect("made");
        fs::write(here.join("targets"), "a\n").expect("written");
        let mut source = FileSource::open(here.join("targets")).expect("a file");
        told(&mut source).await;
        fs::rename(&here, &away).expect("renamed");
        assert!(timeout(SOON, source.next()).await.expect("seen in time").is_err());
        fs::create_dir(&here).expect("made");
        fs::write(here.join("targets"), "b\n").expect("written");
        assert_eq!(told(&mut source).await, ["b"]);
    }
}
