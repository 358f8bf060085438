//! A real daemon with everything of its own, ended with the test; and answers with what differs between runs taken out.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli_desk::Desk;
use crate::fixture::Answer;

/// Nothing a daemon does takes this long unless it is broken.
const LIMIT: Duration = Duration::from_secs(30);

/// A daemon, and the desk from which it is found.
pub(crate) struct Daemon {
    pub(crate) desk: Desk,
    running: Option<Child>,
    data: String,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        Self::start_on("data")
    }

    /// Starts with a data directory of the desk.
    pub(crate) fn start_on(data: &str) -> Self {
        Self::start_at(Desk::new(), data)
    }

    /// Starts at a desk that exists.
    pub(crate) fn start_at(desk: Desk, data: &str) -> Self {
        let mut daemon = Self { desk, running: None, data: format!("DIR/{data}") };
        daemon.start_again();
        daemon
    }

    /// Starts it on the same data.
    pub(crate) fn start_again(&mut self) {
        let notices = self.desk.path().join("notices");
        let _ = std::fs::remove_file(&notices);
        let socket = UnixDatagram::bind(&notices).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let arguments = ["serve", "--port", "0", "--socket", "DIR/tenure.sock", "--data-dir", &self.data];
        let mut command = self.desk.command(&arguments);
        command.env("NOTIFY_SOCKET", &notices).stdout(Stdio::null()).stderr(log);
        self.running = Some(command.spawn().unwrap());
        let mut notice = [0; 256];
        for _ in 0..100 {
            match socket.recv(&mut notice) {
                Ok(length) if String::from_utf8_lossy(&notice[..length]).contains("READY=1") => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the daemon is not ready: {error}; it says: {}", self.said()),
            }
        }
        panic!("the daemon is not ready; it says: {}", self.said());
    }

    /// Stops it as systemd does and waits for its end.
    pub(crate) fn stop(&mut self) {
        let mut child = self.running.take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "it ended with {status}: {}", self.said());
    }

    /// Waits for the end of a daemon that was told to stop.
    pub(crate) fn wait(&mut self) {
        let status = self.running.take().expect("it runs").wait().unwrap();
        assert!(status.success(), "it ended with {status}: {}", self.said());
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        let mut child = self.running.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.desk.command(arguments)
    }

    /// Runs the binary against it.
    pub(crate) fn tenure(&self, arguments: &[&str]) -> Answer {
        self.desk.tenure(arguments)
    }

    /// Runs it and takes out what differs between runs.
    pub(crate) fn plain(&self, arguments: &[&str]) -> String {
        scrubbed(&self.tenure(arguments).all(), &self.tag())
    }

    /// The answer of a command that succeeds, as an object.
    #[track_caller]
    pub(crate) fn object(&self, arguments: &[&str]) -> Value {
        let answer = self.tenure(&[arguments, &["--json"]].concat());
        assert_eq!(answer.code, 0, "{arguments:?}: {}{}", answer.out, answer.err);
        serde_json::from_str(&answer.out).unwrap()
    }

    /// Takes resources and gives the lease's id.
    #[track_caller]
    pub(crate) fn acquire(&self, arguments: &[&str]) -> String {
        let lease = self.object(&[&["lease", "acquire"], arguments].concat());
        lease["lease_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn tag(&self) -> String {
        self.object(&["status"])["log_tag"].as_str().unwrap().to_owned()
    }

    fn log(&self) -> PathBuf {
        self.desk.path().join("serve.log")
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The text with times, spans, fences, ports, the user and the tag of the log replaced, and gaps of tables made one.
pub(crate) fn scrubbed(text: &str, tag: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut shown: Vec<String> = Vec::new();
        let mut place = 0;
        while place < words.len() {
            let unit = words.get(place + 1).map(|unit| unit.trim_end_matches([',', ';', ':', ')']));
            if is_number(words[place]) && matches!(unit, Some("s" | "ms")) {
                let unit = words[place + 1];
                shown.push(format!("SPAN{}", unit.trim_start_matches(['m', 's'])));
                place += 2;
                continue;
            }
            shown.push(word(words[place], tag));
            place += 1;
        }
        out.push_str(&" ".repeat(indent));
        out.push_str(&shown.join(" "));
        out.push('\n');
    }
    out
}

fn word(word: &str, tag: &str) -> String {
    let core = word.trim_matches(['(', ')', ',', ';', ':']);
    let replaced = if core.len() == 24 && core.ends_with('Z') && core.as_bytes()[10] == b'T' {
        "TIME".to_owned()
    } else if core.len() >= 13 && core.bytes().all(|byte| byte.is_ascii_digit()) {
        "FENCE".to_owned()
    } else if core.ends_with("/daemon.json") {
        "BREADCRUMB".to_owned()
    } else if core.strip_prefix("uid:").is_some_and(is_number) {
        "uid:ME".to_owned()
    } else if let Some(port) = core.strip_prefix("http://127.0.0.1:") {
        format!("http://127.0.0.1:PORT{}", port.trim_start_matches(|c: char| c.is_ascii_digit()))
    } else {
        core.replace(&format!("{tag}-"), "TAG-")
    };
    word.replace(core, &replaced)
}

fn is_number(word: &str) -> bool {
    let core = word.trim_start_matches('(');
    !core.is_empty() && core.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}
