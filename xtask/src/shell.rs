//! Child processes: started in the root of the workspace, with the caller's environment.
//! A child that fails is an error that names its command line.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

/// The root of the workspace: the directory above this package, or where the caller stands.
pub(crate) fn root() -> PathBuf {
    env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .and_then(|package| Some(package.parent()?.to_path_buf()))
        .unwrap_or_else(|| PathBuf::from("."))
}

/// The cargo that started us, in the root of the workspace.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// `--locked` once there is a lock file, so that no check rewrites it.
pub(crate) fn locked() -> &'static [&'static str] {
    if root().join("Cargo.lock").exists() { &["--locked"] } else { &[] }
}

/// Runs to the end, output unchanged; fails unless the child succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    require_success(command, status)
}

/// Runs to the end, output unchanged, and hands the status to a caller who reads more into it.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    command.status().with_context(|| format!("cannot start `{shown}`"))
}

/// Whether the command starts and succeeds; says nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs to the end and returns what the child wrote to stdout.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{shown}`"))?;
    require_success(command, output.status)?;
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` did not write UTF-8"))
}

/// Runs to the end, passes the output on line by line, and returns the lines `keep` asks for.
pub(crate) fn run_keeping(command: &mut Command, keep: fn(&str) -> bool) -> Result<Vec<String>> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let stdout = child.stdout.take().expect("invariant: stdout is piped");
    let stderr = child.stderr.take().expect("invariant: stderr is piped");
    let beside = thread::spawn(move || pass_on(stderr, std::io::stderr(), keep));
    let mut kept = pass_on(stdout, std::io::stdout(), keep)?;
    kept.extend(beside.join().expect("invariant: passing lines on does not panic")?);
    let status = child.wait()?;
    require_success(command, status)?;
    Ok(kept)
}

fn pass_on(from: impl Read, mut to: impl Write, keep: fn(&str) -> bool) -> Result<Vec<String>> {
    let mut from = BufReader::new(from);
    let mut kept = Vec::new();
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if keep(text) {
            kept.push(text.to_owned());
        }
        line.clear();
    }
    Ok(kept)
}

fn require_success(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_child_is_an_error_that_names_it() {
        let error = run(Command::new("sh").args(["-c", "exit 7"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 7` failed: exit status: 7");
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!succeeds(&mut Command::new("no-such-program-anywhere")));
        assert!(succeeds(Command::new("sh").args(["-c", "exit 0"])));
    }

    #[test]
    fn lines_asked_for_are_kept_from_both_streams() {
        let mut child = Command::new("sh");
        child.args(["-c", "echo keep one; echo drop; echo keep two >&2"]);
        let kept = run_keeping(&mut child, |line| line.starts_with("keep")).unwrap();
        assert_eq!(kept, ["keep one", "keep two"]);
    }
}
