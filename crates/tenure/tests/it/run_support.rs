//! What the tests of `tenure run` share: processes that are ended with the test, and waiting for conditions.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

/// Nothing on these machines takes this long unless it is broken.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Tries of a promised time. On a machine that does so much else that none of so many is in time, nothing else is either.
const TRIES_MAX: usize = 7;

/// Milliseconds on `CLOCK_BOOTTIME`.
pub(crate) fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

/// Waits until the condition holds; fails the test when the limit is over.
#[track_caller]
pub(crate) fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = boot_ms() + limit.as_millis() as u64;
    while !condition() {
        assert!(boot_ms() < deadline, "waited too long: {what}");
        pause(Duration::from_millis(2));
    }
}

/// Watches a condition that is expected to last: whether it held until the time was over. That is a claim of the test, and
/// is asserted.
#[must_use]
pub(crate) fn holds_for(time: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = boot_ms() + time.as_millis() as u64;
    while boot_ms() < deadline {
        if !condition() {
            return false;
        }
        pause(Duration::from_millis(2));
    }
    true
}

/// Does something again and again for so long; what it does asserts.
pub(crate) fn repeat_for(time: Duration, mut act: impl FnMut()) {
    let deadline = boot_ms() + time.as_millis() as u64;
    while boot_ms() < deadline {
        act();
        pause(Duration::from_millis(2));
    }
}

/// Asserts a promised time that a busy machine may miss: one try within it shows that nothing on the way waits for longer,
/// and `limit` bounds every try. Tries again only until the promise was kept, up to [`TRIES_MAX`] times.
#[track_caller]
pub(crate) fn assert_within(
    what: &str,
    (promised_ms, limit_ms): (u64, u64),
    mut measure_ms: impl FnMut(usize) -> u64,
) {
    let mut tries = Vec::new();
    while tries.len() < TRIES_MAX && tries.last().is_none_or(|took_ms| *took_ms > promised_ms) {
        let took_ms = measure_ms(tries.len());
        tries.push(took_ms);
        assert!(took_ms <= limit_ms, "{what}: {tries:?} ms, at most {limit_ms} ms");
    }
    #[expect(clippy::print_stdout, reason = "a failed run shows it, and who looks for figures")]
    {
        println!("{what}: {tries:?} ms, promised {promised_ms} ms");
    }
    assert!(
        tries.iter().any(|took_ms| *took_ms <= promised_ms),
        "{what}: {tries:?} ms, not {promised_ms} ms"
    );
}

/// Waits although nothing is waited for, and says why there is no condition that could be. Each such pause is budgeted: it
/// costs its time in every run, so a condition is better where there is one, and no pause decides whether a test passes.
pub(crate) fn let_time_pass(time: Duration, _why: &str) {
    repeat_for(time, || {});
}

/// Gives the processor away for a moment: a descriptor that never becomes ready is polled.
fn pause(time: Duration) {
    let (reader, _writer) = std::io::pipe().unwrap();
    let time = rustix::time::Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as i64 };
    let mut fds = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::IN)];
    let _ = rustix::event::poll(&mut fds, Some(&time));
}

/// Whether the process exists and is more than a zombie.
pub(crate) fn is_running(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    !matches!(state, None | Some(b'Z' | b'X'))
}

/// Sends a signal to one process that this test started.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// A number that a command wrote into a file, once it is there.
pub(crate) fn number_in(path: &Path) -> i32 {
    let mut number = None;
    wait_until(&format!("a number in {}", path.display()), LONG, || {
        let text = fs::read_to_string(path).unwrap_or_default();
        number = text.strip_suffix('\n').and_then(|text| text.trim().parse().ok());
        number.is_some()
    });
    number.unwrap()
}

/// Ends processes by their id when the test is over, however it ends.
#[derive(Default)]
pub(crate) struct Cleanup(Vec<(i32, String)>);

impl Cleanup {
    pub(crate) fn add(&mut self, pid: i32) -> i32 {
        self.0.extend(started_at(pid).map(|started| (pid, started)));
        pid
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        // A number may have been given to somebody else meanwhile.
        for (pid, _) in self.0.drain(..).filter(|(pid, started)| started_at(*pid).as_ref() == Some(started)) {
            signal(pid, Signal::KILL);
        }
    }
}

fn started_at(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

/// A path in the directory, as text for a script.
pub(crate) fn shown(directory: &Path, name: &str) -> (PathBuf, String) {
    let path = directory.join(name);
    let text = path.to_str().unwrap().to_owned();
    (path, text)
}
