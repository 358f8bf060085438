//! The server: a cluster of its own in a directory of its own, reached by a socket there. PostgreSQL refuses to run as
//! root; then it runs as `nobody`, to whom its directories are given.

use super::session::Session;
use crate::peers::home::{Home, Server, Site};
use crate::peers::tasks::runtime;
use crate::process::{block_until, tied};
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

pub(super) struct Cluster {
    server: Server,
    programs: Programs,
    user: Option<User>,
    socket: PathBuf,
}

/// Where its programs are.
struct Programs {
    directory: PathBuf,
}

/// Whom it runs as.
#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

/// Where Debian keeps the programs, by version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Processes of a killed server see that it is gone, and end.
const ENDED_WITHIN: Duration = Duration::from_secs(20);

pub(super) fn is_there() -> bool {
    Programs::find().is_ok()
}

impl Cluster {
    pub(super) fn start(site: &Site) -> Result<Self> {
        let home = Home::make(site, "postgres-")?;
        let user = User::other_than_root()?;
        let programs = Programs::find()?;
        if let Some(User { uid, gid }) = user {
            for directory in [home.data(), home.run()] {
                chown(directory, Some(uid), Some(gid)).context("cannot give a directory away")?;
            }
        }
        let output = programs
            .command("initdb", user)
            .args([
                "--username",
                "tenure",
                "--auth",
                "trust",
                "--locale",
                "C",
                "--encoding",
                "UTF8",
                "--no-sync",
            ])
            .arg("--pgdata")
            .arg(data(&home))
            .current_dir(home.data())
            .output()
            .context("initdb")?;
        ensure!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let command = serve(&programs, user, &home);
        let socket = home.run().to_owned();
        let server = Server::start(home, command, is_ready).context("postgres")?;
        Ok(Self { server, programs, user, socket })
    }

    /// The directory of its socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The first process, and those it started: one for each connection, and some that write.
    pub(super) fn pids(&self) -> Vec<u32> {
        let Some(first) = self.server.pid() else { return Vec::new() };
        let mut pids = vec![first];
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        pids.extend(
            processes
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .filter(|pid| parent(*pid) == Some(first)),
        );
        pids
    }

    /// Kills the first process without a word, and waits for the others: nothing can start before they are gone.
    pub(super) fn kill(&mut self) -> Result<()> {
        let pids = self.pids();
        self.server.kill()?;
        let are_gone = block_until(ENDED_WITHIN, Duration::from_millis(1), || {
            Ok(pids.iter().all(|pid| parent(*pid).is_none()))
        })?;
        ensure!(are_gone, "processes of a killed server are left");
        Ok(())
    }

    /// Starts it on what the killed one left.
    pub(super) fn begin(&mut self) -> Result<()> {
        let command = serve(&self.programs, self.user, self.server.home());
        self.server.begin(command, is_ready)
    }
}

impl Programs {
    fn find() -> Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
        let mut installed: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
        installed.sort();
        let places = env::split_paths(&path).chain(installed.into_iter().rev());
        let directory = places
            .into_iter()
            .find(|place| place.join("initdb").exists() && place.join("postgres").exists())
            .context("there is no PostgreSQL")?;
        Ok(Self { directory })
    }

    /// Ended by the system when this program is gone, which is asked for after the user has changed: the system forgets
    /// it when that happens.
    fn command(&self, program: &str, user: Option<User>) -> Command {
        let program = self.directory.join(program);
        let Some(User { uid, gid }) = user else { return tied(program) };
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups", "--"]);
        let tied = tied(program);
        command.arg(tied.get_program()).args(tied.get_args());
        command
    }
}

impl User {
    /// `None`: we are not root, and it may run as we do.
    fn other_than_root() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = fs::read_to_string("/etc/passwd")?;
        Self::parse(&passwd, "nobody").map(Some).context("there is no user `nobody`")
    }

    fn parse(passwd: &str, name: &str) -> Option<Self> {
        let mut fields = passwd.lines().map(|line| line.split(':')).find_map(|mut fields| {
            let is_it = fields.next() == Some(name);
            is_it.then_some(fields)
        })?;
        let (_, uid, gid) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
    }
}

fn serve(programs: &Programs, user: Option<User>, home: &Home) -> Command {
    let mut command = programs.command("postgres", user);
    command.arg("-D").arg(data(home)).arg("-k").arg(home.run()).current_dir(home.data());
    let settings = [
        "listen_addresses=",
        "max_connections=300",
        "fsync=on",
        "synchronous_commit=on",
        "shared_buffers=256MB",
        // Checkpoints of a run are those that time brings.
        "max_wal_size=4GB",
    ];
    for setting in settings {
        command.args(["-c", setting]);
    }
    command
}

fn data(home: &Home) -> PathBuf {
    home.data().join("cluster")
}

fn is_ready(home: &Home) -> Result<bool> {
    let socket = home.run().to_owned();
    Ok(runtime()?.block_on(async { Session::plain(&socket).await.is_ok() }))
}

/// The process that started this one; `None`: it is gone, or nothing is left of it but how it ended.
fn parent(pid: u32) -> Option<u32> {
    started_by(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in brackets may hold spaces; the state follows it, then the parent.
fn started_by(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let (state, rest) = fields.split_once(' ')?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "nobody2:x:1:2::/:/bin/sh\nnobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n";
        let user = User::parse(passwd, "nobody").unwrap();
        assert_eq!((user.uid, user.gid), (65_534, 65_533));
        assert!(User::parse(passwd, "body").is_none());
    }

    #[test]
    fn who_started_a_process_is_known_while_it_runs() {
        assert!(parent(std::process::id()).is_some());
        assert_eq!(started_by("71 (a) b (c) S 17 71 71 0 -1"), Some(17));
        assert_eq!(started_by("71 (postgres) Z 17 71 71 0 -1"), None);
    }
}
