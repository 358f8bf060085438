//! Users whose daemon a command uses without being asked to, and may send a token: root, the caller, and the service's own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Those users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trusted {
    caller: u32,
    /// The user that root gave the machine's run-time directory to, as `tenure install` does.
    service: Option<u32>,
}

const ROOT: u32 = 0;
/// Bits of a directory's mode that let others change what is in it.
const WRITABLE_BY_OTHERS: u32 = 0o022;

impl Trusted {
    pub(crate) fn of_process() -> Self {
        let service = owner_by_root(&crate::breadcrumb::machine_directory());
        Self { caller: rustix::process::geteuid().as_raw(), service }
    }

    pub(crate) fn includes(&self, uid: u32) -> bool {
        uid == ROOT || uid == self.caller || Some(uid) == self.service
    }

    pub(crate) fn is_caller(&self, uid: u32) -> bool {
        uid == self.caller
    }

    #[cfg(test)]
    pub(crate) fn only(caller: u32) -> Self {
        Self { caller, service: None }
    }
}

/// The owner of a directory that only root can have put where it is.
fn owner_by_root(directory: &Path) -> Option<u32> {
    let directory = fs::canonicalize(directory).ok()?;
    let parent = fs::metadata(directory.parent()?).ok()?;
    let is_roots = parent.uid() == ROOT && parent.mode() & WRITABLE_BY_OTHERS == 0;
    is_roots.then(|| fs::metadata(&directory)).and_then(Result::ok).map(|found| found.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn a_directory_names_the_service_only_if_root_made_it() {
        let base = tempfile::tempdir().unwrap();
        let run = base.path().join("run");
        assert_eq!(owner_by_root(&run), None);
        fs::create_dir(&run).unwrap();
        chown(&run, Some(4_711), None).unwrap();
        let mode = |mode| fs::set_permissions(base.path(), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        assert_eq!(owner_by_root(&run), Some(4_711));
        // As /tmp is: anybody could have made it.
        mode(0o1777);
        assert_eq!(owner_by_root(&run), None);
        mode(0o755);
        chown(base.path(), Some(4_712), None).unwrap();
        assert_eq!(owner_by_root(&run), None);
    }

    #[test]
    fn root_the_caller_and_the_service_are_trusted() {
        let trusted = Trusted { caller: 1_000, service: Some(990) };
        let included: Vec<u32> =
            [0, 990, 1_000, 1_001].into_iter().filter(|uid| trusted.includes(*uid)).collect();
        assert_eq!(included, [0, 990, 1_000]);
        assert!(!Trusted { service: None, ..trusted }.includes(990));
    }
}
