//! A cgroup of the command's own, where we may make one: then one write kills everything in it at once, however fast it
//! forks. Without the right to make one the family alone is relied on.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Followed by the process id of the guardian.
const PREFIX: &str = "tenure-run-";

/// What cannot be removed after so many tries is left for the next guardian.
const REMOVE_TRIES: u32 = 50;
const REMOVE_AGAIN: Duration = Duration::from_millis(2);

/// A cgroup (version 2) for one command.
pub(super) struct Cgroup {
    directory: PathBuf,
}

impl Cgroup {
    /// Below our own cgroup; `None` where that is not allowed or not known.
    pub(super) fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let parent = directory_of(&mounts, &own)?;
        remove_abandoned(&parent);
        let cgroup = Self { directory: parent.join(format!("{PREFIX}{}", std::process::id())) };
        fs::create_dir(&cgroup.directory).ok()?;
        if cgroup.directory.join("cgroup.kill").exists() {
            return Some(cgroup);
        }
        // A kernel before 5.14.
        cgroup.remove();
        None
    }

    /// Where it is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What a process writes `0` to in order to enter.
    pub(super) fn entrance(&self) -> io::Result<OwnedFd> {
        Ok(OpenOptions::new().write(true).open(self.directory.join("cgroup.procs"))?.into())
    }

    /// Kills everything inside.
    pub(super) fn kill(&self) {
        kill(&self.directory);
    }

    /// Removes it before anybody was inside.
    pub(super) fn remove(&self) {
        remove(&self.directory);
    }
}

/// Kills everything in the cgroup at this place.
pub(super) fn kill(directory: &Path) {
    // Whoever is not killed by it is found among the descendants.
    let _ = File::options()
        .write(true)
        .open(directory.join("cgroup.kill"))
        .and_then(|mut file| io::Write::write_all(&mut file, b"1"));
}

/// Removes the cgroup at this place once everybody inside is gone. A process that has been reaped may count as being
/// inside for a moment longer.
pub(super) async fn clear_away(directory: &Path) {
    for _ in 0..REMOVE_TRIES {
        remove(directory);
        if !directory.exists() {
            return;
        }
        tokio::time::sleep(REMOVE_AGAIN).await;
    }
}

/// Removes the cgroup at this place, and those that the command made in it.
fn remove(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(directory);
}

/// Removes what guardians left that were killed together with their supervisors. A cgroup in use cannot be removed.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let guardian =
            entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if guardian.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// The directory of the cgroup of version 2 that `/proc/self/cgroup` names, below where it is mounted.
fn directory_of(mounts: &str, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "24 29 0:22 / /proc rw - proc proc rw
35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "31 24 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn our_cgroup_is_found_below_its_mount() {
        let find = |mounts, own| directory_of(mounts, own).map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(find(UNIFIED, "0::/a.slice/b\n").as_deref(), Some("/sys/fs/cgroup/a.slice/b"));
        assert_eq!(find(HYBRID, "4:memory:/x\n0::/\n").as_deref(), Some("/sys/fs/cgroup/unified/"));
        assert_eq!(find(HYBRID, "4:memory:/x\n"), None);
        assert_eq!(find("", "0::/a\n"), None);
        let part = "35 24 0:30 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(find(part, "0::/a/b\n").as_deref(), Some("/sys/fs/cgroup/b"));
        assert_eq!(find(part, "0::/c\n"), None);
    }
}
