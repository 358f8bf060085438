//! Locks on whole files that only a process with the right to write the file can take, and that end with the descriptor.
//! `flock` is not such a lock: everybody who may read a file can take one.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the lock; `false`: another descriptor has one, or a reader's. The file must be open for writing.
pub(crate) fn try_take(file: &File) -> io::Result<bool> {
    match fcntl(file, libc::F_OFD_SETLK, libc::F_WRLCK) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether another descriptor has the lock. The file may be open for reading alone.
pub(crate) fn is_taken(file: &File) -> io::Result<bool> {
    // Only a writer's lock is in the way of a reader's.
    fcntl(file, libc::F_OFD_GETLK, libc::F_RDLCK).map(|found| found != libc::F_UNLCK)
}

/// Asks about the whole file; gives the kind of lock that the system wrote back.
#[expect(unsafe_code, reason = "no safe wrapper knows locks of open file descriptions")]
fn fcntl(file: &File, command: libc::c_int, kind: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: all fields are plain numbers, for which zero is a value; a length of zero is the whole file, and the system
    // asks for a process id of zero here.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open while `file` is borrowed, and `lock` is a whole `struct flock` that outlives the call.
    let outcome = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if outcome == -1 { Err(io::Error::last_os_error()) } else { Ok(libc::c_int::from(lock.l_type)) }
}

/// Gives the lock back, as a process that dies does.
#[cfg(test)]
pub(crate) fn give_back(file: &File) {
    fcntl(file, libc::F_OFD_SETLK, libc::F_UNLCK).unwrap();
}

/// A reader's lock, as strangers may take one.
#[cfg(test)]
pub(crate) fn take_as_reader(file: &File) -> io::Result<()> {
    fcntl(file, libc::F_OFD_SETLK, libc::F_RDLCK).map(drop)
}
