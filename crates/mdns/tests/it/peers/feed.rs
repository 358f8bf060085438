//! What a process says, line by line, for tests that wait for it: a growing list with bounded waits, and the
//! processes that feed it. Waiting is for a condition or for the end of what could fulfil it, whichever is first.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// How long anything that a peer does by itself may take. Probing and announcing take about two seconds; the rest
/// is for a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A list that grows, and can be waited for.
pub(crate) struct Feed<T> {
    shared: Arc<Shared<T>>,
}

/// A process whose lines go into feeds. Killed when dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
    /// Every line, for messages of failures.
    said: Feed<String>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    grown: Condvar,
}

struct State<T> {
    items: Vec<T>,
    /// The process that fed it is gone: nothing more comes.
    is_over: bool,
}

/// Nanoseconds of CLOCK_MONOTONIC, as in every `at_ns`.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Waits until the condition holds; fails the test if it takes too long.
#[track_caller]
pub(crate) fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = monotonic_ns() + limit.as_nanos() as u64;
    // Nobody ever writes to it, so that polling it is a wait that ends by itself.
    let (silent, _writer) = std::io::pipe().unwrap();
    while !condition() {
        assert!(monotonic_ns() < deadline, "waited too long: {what}");
        let pause = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        let _ = poll(&mut [PollFd::new(&silent, PollFlags::IN)], Some(&pause));
    }
}

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Clone + Debug> Feed<T> {
    pub(crate) fn new() -> Self {
        let state = Mutex::new(State { items: Vec::new(), is_over: false });
        Self { shared: Arc::new(Shared { state, grown: Condvar::new() }) }
    }

    pub(crate) fn push(&self, item: T) {
        self.state().items.push(item);
        self.shared.grown.notify_all();
    }

    /// Everything so far.
    pub(crate) fn all(&self) -> Vec<T> {
        self.state().items.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.state().items.len()
    }

    /// The first item from position `from` on that is wanted, as soon as there is one; `None` if there is none
    /// within the limit or ever.
    pub(crate) fn find(&self, from: usize, wanted: impl Fn(&T) -> bool, limit: Duration) -> Option<T> {
        let mut looked_at = from;
        let mut found = None;
        let waited = self.shared.grown.wait_timeout_while(self.state(), limit, |state| {
            found = state.items.iter().skip(looked_at).find(|item| wanted(item)).cloned();
            looked_at = looked_at.max(state.items.len());
            found.is_none() && !state.is_over
        });
        drop(waited.unwrap());
        found
    }

    /// As [`Feed::find`], and fails the test with everything so far if there is none.
    #[track_caller]
    pub(crate) fn expect(&self, from: usize, wanted: impl Fn(&T) -> bool, limit: Duration) -> T {
        self.find(from, wanted, limit).unwrap_or_else(|| {
            let state = self.state();
            let end = if state.is_over { "; the process has ended" } else { "" };
            let items: Vec<String> = state.items.iter().map(|item| format!("  {item:?}")).collect();
            let shown = items.join("\n");
            drop(state);
            panic!("what was waited for did not come within {limit:?}{end}; so far, wanted from {from} on:\n{shown}")
        })
    }

    /// Nothing more comes: a reader stops waiting.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.shared.grown.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap()
    }
}

impl Process {
    /// Starts a program. Each line it writes, to stdout or stderr, goes through `take`; `None` is its end.
    #[track_caller]
    pub(crate) fn start(command: Command, take: impl Fn(Option<&str>) + Send + 'static) -> Self {
        let said = Feed::new();
        let mut child = merged(&command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let input = child.stdin.take();
        let output = child.stdout.take().unwrap();
        let to = said.clone();
        let reader = thread::spawn(move || read_all(output, &to, take));
        Self { child, input, reader: Some(reader), said }
    }

    /// Starts a program of whose lines only [`Process::said`] is of interest.
    #[track_caller]
    pub(crate) fn start_plain(command: Command) -> Self {
        Self::start(command, |_| {})
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it wrote, as lines.
    pub(crate) fn said(&self) -> &Feed<String> {
        &self.said
    }

    /// Writes one line to its standard input.
    #[track_caller]
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().expect("a process that was not asked to end");
        let told = input.write_all(format!("{line}\n").as_bytes());
        told.unwrap_or_else(|error| {
            panic!("the peer does not listen: {error}; it said {:#?}", self.said.all())
        });
    }

    /// Asks it to end, by SIGTERM, and waits until it has.
    #[track_caller]
    pub(crate) fn end(&mut self) {
        self.signal(Signal::TERM);
        self.wait_for_end();
    }

    /// Closes its standard input and waits until it has ended because of that.
    #[track_caller]
    pub(crate) fn hang_up(&mut self) {
        self.input = None;
        self.wait_for_end();
    }

    /// Kills it, by SIGKILL: it cannot say goodbye.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }

    /// Stops it, by SIGSTOP, as a suspended machine would; [`Process::resume`] goes on.
    #[track_caller]
    pub(crate) fn suspend(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a suspended one go on.
    #[track_caller]
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pidfd = self.pidfd();
        pidfd_send_signal(&pidfd, signal).unwrap();
    }

    /// Our own child that was not waited for keeps its pid, also when it has ended.
    fn pidfd(&self) -> std::os::fd::OwnedFd {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        pidfd_open(pid, PidfdFlags::empty()).unwrap()
    }

    #[track_caller]
    fn wait_for_end(&mut self) {
        let pidfd = self.pidfd();
        let limit = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit)).unwrap();
        assert!(ended == 1, "a peer did not end within {LIMIT:?}; it said {:#?}", self.said.all());
        self.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The same program with stderr in stdout; the shell replaces itself, so that the pid is the program's.
fn merged(command: &Command) -> Command {
    let mut merged = Command::new("sh");
    merged.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        merged.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => merged.env(name, value),
            None => merged.env_remove(name),
        };
    }
    merged
}

fn read_all(output: ChildStdout, said: &Feed<String>, take: impl Fn(Option<&str>)) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\n');
        take(Some(text));
        said.push(text.to_owned());
        line.clear();
    }
    take(None);
    said.end();
}
