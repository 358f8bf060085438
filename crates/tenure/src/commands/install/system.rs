//! What is done to the machine that the daemon is installed on: programs that are run, users that are looked up.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::unit::SYSUSERS_PATH;
use crate::failure::{Failure, Words};

/// There while systemd runs the machine (sd_booted).
const SYSTEMD_MARK: &str = "/run/systemd/system";

/// Whether systemd runs this machine.
pub(crate) fn runs_systemd() -> bool {
    Path::new(SYSTEMD_MARK).is_dir()
}

/// Refuses whoever may not do it.
pub(crate) fn must_be_root(command: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let words = Words::new(format_args!("tenure {command} requires root"));
    Err(Failure::Refused(words.hint(format_args!("sudo tenure {command}"))))
}

/// Runs a program to its end; what it says goes to standard error.
pub(crate) fn run(line: &[&str]) -> Result<(), Failure> {
    match start(line) {
        Ok(true) => Ok(()),
        Ok(false) => Err(failed(line, "it failed")),
        Err(error) => Err(failed(line, &error.to_string())),
    }
}

/// Sees to it that the daemon's user is there.
pub(crate) fn provide_user(user: &str) -> Result<(), Failure> {
    if ids_of(user).is_some() {
        return Ok(());
    }
    let sysusers = ["systemd-sysusers", SYSUSERS_PATH];
    match start(&sysusers) {
        Ok(true) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => run(&[
            "useradd",
            "--system",
            "--user-group",
            "--no-create-home",
            "--home-dir",
            crate::config::MACHINE_DATA,
            "--shell",
            "/usr/sbin/nologin",
            user,
        ])?,
        Ok(false) => return Err(failed(&sysusers, "it failed")),
        Err(error) => return Err(failed(&sysusers, &error.to_string())),
    }
    Ok(())
}

/// User and group of a name.
pub(crate) fn ids_of(user: &str) -> Option<(u32, u32)> {
    let number = |flag: &str| -> Option<u32> {
        let output = Command::new("id").args([flag, "--", user]).stderr(Stdio::null()).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    Some((number("-u")?, number("-g")?))
}

fn start(line: &[&str]) -> io::Result<bool> {
    let (program, arguments) = line.split_first().expect("invariant: a command line names its program");
    // Standard output is for data.
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    Ok(output.success())
}

fn failed(line: &[&str], problem: &str) -> Failure {
    Failure::Unexpected(Words::new(format_args!("cannot run `{}`: {problem}", line.join(" "))))
}
