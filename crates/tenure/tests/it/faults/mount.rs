//! File systems of the test's own. Mounting needs root; tests that use this say so by failing without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory, unmounted when dropped.
pub(crate) struct Mounted {
    path: PathBuf,
}

impl Mounted {
    /// Mounts one of this many bytes at a directory, which is made.
    pub(crate) fn at(path: &Path, bytes: u64) -> Self {
        fs::create_dir_all(path).unwrap();
        let size = format!("size={bytes}");
        mount(&["-t", "tmpfs", "-o", &size, "tenure-test"], path);
        Self { path: path.to_owned() }
    }

    /// Nothing can be written any more.
    pub(crate) fn freeze(&self) {
        mount(&["-o", "remount,ro"], &self.path);
    }

    /// Gives it another size.
    pub(crate) fn resize(&self, bytes: u64) {
        mount(&["-o", &format!("remount,size={bytes}")], &self.path);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a daemon that a failed test left behind may still have files open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}

#[track_caller]
fn mount(words: &[&str], path: &Path) {
    let output = Command::new("mount").args(words).arg(path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "mount needs root and a kernel that allows it: {said}");
}
