//! A daemon in its own place: the same process, arguments and environment, and the program that stands at the same path.

use std::ffi::{CStr, CString, NulError, OsStr, OsString, c_char};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr;

use rustix::fs::{Access, access};

/// What this process was started as.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// The first is what the program was called.
    arguments: Vec<OsString>,
}

/// What the kernel appends to the path of a program whose file has no name any more.
const DELETED: &[u8] = b" (deleted)";
const OWN_PROGRAM: &str = "/proc/self/exe";

impl Program {
    /// Asked at the start: later the file at the path may be another one, and that is the one to start then.
    pub(crate) fn of_process() -> io::Result<Self> {
        Ok(Self { path: own_path()?, arguments: std::env::args_os().collect() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is something to start; else why not, in words for the operator.
    pub(crate) fn check(&self) -> Result<(), String> {
        let looked_at = fs::metadata(&self.path).and_then(|found| match found.is_file() {
            true => Ok(access(&self.path, Access::EXEC_OK)?),
            false => Err(io::Error::other("it is not a file")),
        });
        looked_at.map_err(|error| {
            let path = self.path.display();
            format!("cannot start {path}, which this daemon was started from: {error}; put the program there first")
        })
    }

    /// Replaces this process. Comes back only with the reason why that failed.
    pub(crate) fn replace_process(&self) -> io::Error {
        match self.words() {
            Ok((path, arguments, environment)) => execute(&path, &arguments, &environment),
            Err(error) => error.into(),
        }
    }

    /// Path, arguments and environment as the kernel takes them.
    fn words(&self) -> Result<(CString, Vec<CString>, Vec<CString>), NulError> {
        let arguments = self.arguments.iter().map(|argument| CString::new(argument.as_bytes()));
        let environment = std::env::vars_os().map(|(name, value)| {
            let mut variable = name.into_vec();
            variable.push(b'=');
            variable.extend(value.as_bytes());
            CString::new(variable)
        });
        let path = CString::new(self.path.as_os_str().as_bytes())?;
        Ok((path, arguments.collect::<Result<_, _>>()?, environment.collect::<Result<_, _>>()?))
    }
}

/// `execve`. What the standard library has is `execvp`, which gives a file that is no program to the shell.
#[expect(unsafe_code, reason = "no safe wrapper of execve is at hand")]
fn execute(path: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |words: &[CString]| -> Vec<*const c_char> {
        words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: every pointer is to a text that ends with a zero and outlives the call, and both lists end with a null.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// The path that this process was started from: links in it are followed anew by the next start, so that a link to the
/// newest version may point elsewhere by then.
fn own_path() -> io::Result<PathBuf> {
    let given = Path::new(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()));
    match std::path::absolute(given) {
        Ok(path) if is_lasting(&path) && is_same_file(&path, Path::new(OWN_PROGRAM)) => Ok(path),
        // Started by a descriptor, or replaced in this very moment.
        Ok(_) | Err(_) => std::env::current_exe().map(named),
    }
}

/// A path to a descriptor means another file in another process.
fn is_lasting(path: &Path) -> bool {
    !path.starts_with("/proc") && !path.starts_with("/dev/fd")
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Without what the kernel appends where the file was replaced meanwhile.
fn named(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(DELETED) {
        Some(name) if !path.exists() => OsString::from_vec(name.to_vec()).into(),
        Some(_) | None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_this_program() {
        let program = Program::of_process().unwrap();
        assert!(program.path().is_absolute(), "{program:?}");
        assert!(is_same_file(program.path(), Path::new(OWN_PROGRAM)), "{program:?}");
        assert_eq!(program.check(), Ok(()));
    }

    #[test]
    fn a_program_whose_file_was_replaced_has_the_name_that_it_had() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("tenure");
        let shown = directory.path().join("tenure (deleted)");
        assert_eq!(named(shown.clone()), path);
        assert_eq!(named(path.clone()), path);
        fs::write(&shown, "").unwrap();
        assert_eq!(named(shown.clone()), shown, "a file may be called so");
    }
}
