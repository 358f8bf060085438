//! A session's end, told to a program on its standard input. Started without a shell, in a process group of its own that
//! is killed when it takes too long or the daemon stops.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tenure_api::SlotSession;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};

use super::{EVENT, WORDS_BYTES_MAX, json_of, quoted};

/// A program and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CommandLine {
    program: String,
    arguments: Vec<String>,
    limit: Duration,
}

/// A program that runs; whatever becomes of the try, none is left behind.
struct Running(Child);

/// How long it may take.
const WITHIN: Duration = Duration::from_secs(30);
/// How long the last words of a program that ended are waited for: a child of its own may have its standard error open.
const WORDS_WITHIN: Duration = Duration::from_millis(100);
/// Variables that a program is given besides those that tell of the session, and those that begin with `LC_`.
const HANDED_ON: &[&str] =
    &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER", "XDG_RUNTIME_DIR"];

impl CommandLine {
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or("a quote in the command line is not closed")?;
        if text.contains('\0') {
            return Err("a command line has no NUL".to_owned());
        }
        let mut words = words.into_iter();
        match words.next().filter(|program| !program.is_empty()) {
            Some(program) => Ok(Self { program, arguments: words.collect(), limit: WITHIN }),
            None => Err("the command line names no program".to_owned()),
        }
    }

    #[cfg(test)]
    pub(super) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    pub(super) async fn tell(&self, ended: &SlotSession) -> Result<(), String> {
        let mut running = self.start(ended)?;
        let told = tokio::time::timeout(self.limit, running.finish(json_of(ended))).await;
        told.unwrap_or_else(|_| Err(format!("was killed after {} ms", self.limit.as_millis())))
            .map_err(|problem| format!("{} {problem}", self.program))
    }

    fn start(&self, ended: &SlotSession) -> Result<Running, String> {
        // A variable cannot hold what ends it.
        let reason = ended.reason.as_deref().unwrap_or_default().replace('\0', "\u{fffd}");
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_handed_on)))
            .env("TENURE_EVENT", EVENT)
            .env("TENURE_SESSION_ID", &ended.session_id)
            .env("TENURE_SESSION_STATE", ended.state.as_str())
            .env("TENURE_SESSION_REASON", reason)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        child.map(Running).map_err(|error| format!("cannot start {}: {error}", self.program))
    }
}

/// Whether a variable of the daemon is a program's too. The daemon's own settings may be secrets.
fn is_handed_on(name: &str) -> bool {
    HANDED_ON.contains(&name) || name.starts_with("LC_")
}

impl Running {
    /// Says its piece and waits for the end. The problem follows the program's name.
    async fn finish(&mut self, input: Vec<u8>) -> Result<(), String> {
        let (stdin, stderr) = (self.0.stdin.take(), self.0.stderr.take());
        let mut words = Vec::new();
        let status = {
            let talk = async { tokio::join!(feed(stdin, input), listen(stderr, &mut words)) };
            tokio::pin!(talk);
            tokio::select! {
                biased;
                status = self.0.wait() => {
                    if !status.as_ref().is_ok_and(ExitStatus::success) {
                        let _ = tokio::time::timeout(WORDS_WITHIN, talk).await;
                    }
                    status
                }
                _ = &mut talk => self.0.wait().await,
            }
        };
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("ended with {status}{}", quoted(&words))),
            Err(error) => Err(format!("cannot be waited for: {error}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An id that is still known is not reaped, so the group is nobody else's.
        if let Some(group) = self.0.id().and_then(|id| Pid::from_raw(id as i32)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A program need not read what it is told.
async fn feed(stdin: Option<ChildStdin>, input: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&input).await;
    }
}

/// Keeps the last words.
async fn listen(stderr: Option<ChildStderr>, words: &mut Vec<u8>) {
    let Some(mut stderr) = stderr else { return };
    let mut piece = [0; 1 << 10];
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        words.extend_from_slice(&piece[..length]);
        let surplus = words.len().saturating_sub(WORDS_BYTES_MAX);
        words.drain(..surplus);
    }
}
