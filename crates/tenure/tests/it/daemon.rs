//! A real daemon with everything of its own, ended with the test; and the raw ways to speak with it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::Uid;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli_desk::Desk;
use crate::cluster::stage::Company;
use crate::fixture::Answer;
use crate::raw_http::{Answered, Http};
use crate::raw_lines::Lines;
use crate::run_support::wait_until;

/// Nothing a daemon does takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A daemon, and the desk at which it is started.
pub(crate) struct Daemon {
    pub(crate) desk: Desk,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    /// Words before the binary's own, for a daemon that another program starts.
    launcher: Vec<String>,
    /// Stands in for the binary that was built.
    binary: Option<PathBuf>,
    running: Option<Child>,
    address: Option<SocketAddr>,
    /// Whose connections to its port the test's are.
    asker: Option<u32>,
    /// The other nodes of its cluster, where the script is played with a follower.
    company: Option<Company>,
}

impl Daemon {
    /// Starts one with the defaults.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more flags; `DIR` in them is the desk's directory.
    #[track_caller]
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        let mut daemon = Self::prepared(flags);
        daemon.start_again();
        daemon
    }

    /// One that does not run yet.
    pub(crate) fn prepared(flags: &[&str]) -> Self {
        Self {
            desk: Desk::new(),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            environment: Vec::new(),
            launcher: Vec::new(),
            binary: None,
            running: None,
            address: None,
            asker: None,
            company: None,
        }
    }

    /// The same, asked over TCP by another user than the one whose test it is. Needs root.
    pub(crate) fn asked_by(mut self, uid: u32) -> Self {
        self.asker = Some(uid);
        self
    }

    /// The same with one more variable in its environment.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// One more variable in its environment, from the next start on.
    pub(crate) fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// The same, started by a program that takes the daemon's command line as its last words.
    pub(crate) fn with_launcher(mut self, words: &[&str]) -> Self {
        self.launcher = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// The same, running a copy of the binary.
    pub(crate) fn with_binary(mut self, binary: &Path) -> Self {
        self.binary = Some(binary.to_owned());
        self
    }

    /// Starts it on the data that is there, with the same flags.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        self.spawn();
        self.wait_until_ready();
    }

    /// Other flags from the next start on.
    pub(crate) fn set_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// Another value of one flag from the next start on.
    pub(crate) fn set_flag(&mut self, flag: &str, value: &str) {
        match self.flags.iter().position(|given| given == flag) {
            Some(at) => value.clone_into(&mut self.flags[at + 1]),
            None => self.flags.extend([flag.to_owned(), value.to_owned()]),
        }
    }

    /// The value of a flag that it was given.
    pub(crate) fn flag(&self, flag: &str) -> Option<&str> {
        let at = self.flags.iter().position(|given| given == flag)?;
        self.flags.get(at + 1).map(String::as_str)
    }

    /// Starts it without waiting for anything.
    pub(crate) fn spawn(&mut self) {
        assert!(self.running.is_none(), "it runs already");
        if self.company.is_none() {
            self.company = Company::gather(&self.flags, &self.environment, self.desk.path());
        }
        let log = File::options().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = self.serve();
        self.running = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// The command line that starts it.
    pub(crate) fn serve(&self) -> Command {
        let mut flags = vec!["serve", "--port", "0", "--socket", "DIR/tenure.sock", "--data-dir", "DIR/data"];
        for flag in ["--port", "--socket", "--data-dir"] {
            // Given again, a flag stands in for the usual one.
            if self.flags.iter().any(|given| given == flag) {
                let at = flags.iter().position(|usual| *usual == flag).unwrap();
                flags.drain(at..at + 2);
            }
        }
        if let Some(company) = &self.company {
            flags.drain(flags.iter().position(|flag| *flag == "--port").map_or(0..0, |at| at..at + 2));
            flags.extend(company.flags().iter().map(String::as_str));
        }
        flags.extend(self.flags.iter().map(String::as_str));
        let mut command = self.desk.command(&flags);
        let binary = self.binary.clone().unwrap_or_else(|| command.get_program().into());
        let words: Vec<OsString> = self.launcher.iter().map(OsString::from).chain([binary.into()]).collect();
        if words.len() > 1 || self.binary.is_some() {
            command = launched(&words, &command);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Waits until its breadcrumb says where it listens.
    #[track_caller]
    pub(crate) fn wait_until_ready(&mut self) {
        let pid = self.pid();
        let mut address = None;
        wait_until("a daemon that is ready", LIMIT, || {
            let child = self.running.as_mut().unwrap();
            if let Some(status) = child.try_wait().unwrap() {
                self.running = None;
                panic!("the daemon ended with {status}: {}", self.said());
            }
            let texts = self.breadcrumbs().map(|path| fs::read_to_string(path).unwrap_or_default());
            let found = texts.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
            let Some(breadcrumb) = found.into_iter().find(|breadcrumb| breadcrumb["pid"] == pid) else {
                return false;
            };
            let endpoint = breadcrumb["endpoint"].as_str().unwrap();
            let authority = endpoint.split_once("://").unwrap().1;
            address = Some(authority.parse().unwrap());
            true
        });
        self.address = address;
        if let Some(company) = &self.company {
            company.wait_until_followed();
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.running.as_ref().expect("it runs").id() as i32
    }

    /// Where it listens for HTTP.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("it was ready once")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.desk.path().join("tenure.sock")
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.desk.path().join("data")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.desk.path().join(name)
    }

    /// Where it says how it is found, as root.
    pub(crate) fn breadcrumb(&self) -> PathBuf {
        self.desk.path().join("machine/daemon.json")
    }

    fn breadcrumbs(&self) -> [PathBuf; 2] {
        [self.breadcrumb(), self.desk.path().join("user/tenure/daemon.json")]
    }

    fn log_file(&self) -> PathBuf {
        self.desk.path().join("serve.log")
    }

    /// All it said on standard error, over all starts; and what the other nodes said, where it is a follower.
    pub(crate) fn said(&self) -> String {
        let own = fs::read_to_string(self.log_file()).unwrap_or_default();
        own + self.company.as_ref().map_or_else(String::new, Company::said).as_str()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Stops all its threads where they stand; [`Daemon::thaw`] lets them go on.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        wait_until("all threads to stand still", LIMIT, || {
            fs::read_dir(&tasks).unwrap().all(|task| {
                let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
            })
        });
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for the end and tells the exit code; 128 + N if it died of signal N.
    #[track_caller]
    pub(crate) fn code(&mut self) -> i32 {
        let mut child = self.running.take().expect("it runs");
        let mut status = None;
        wait_until("the end of the daemon", LIMIT, || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        status.code().or(status.signal().map(|number| 128 + number)).unwrap()
    }

    /// Stops it as systemd does; it must end well.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.code(), 0, "{}", self.said());
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        let mut child = self.running.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Runs the binary against it; the desk's path is shown as DIR.
    pub(crate) fn tenure(&self, arguments: &[&str]) -> Answer {
        self.desk.tenure(arguments)
    }

    /// A connection to its port.
    pub(crate) fn tcp(&self) -> TcpStream {
        let stream = match self.asker {
            Some(uid) => tcp_of(uid, self.address()),
            None => TcpStream::connect(self.address()).unwrap(),
        };
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// A connection to its socket.
    pub(crate) fn unix(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// HTTP over TCP, many requests on one connection.
    pub(crate) fn http(&self) -> Http<TcpStream> {
        Http::new(self.tcp(), &self.address().to_string())
    }

    /// The same by another user. Needs root.
    pub(crate) fn http_of(&self, uid: u32) -> Http<TcpStream> {
        Http::new(tcp_of(uid, self.address()), &self.address().to_string())
    }

    /// HTTP over the socket.
    pub(crate) fn http_over_socket(&self) -> Http<UnixStream> {
        Http::new(self.unix(), "localhost")
    }

    /// Lines over the socket.
    pub(crate) fn lines(&self) -> Lines {
        Lines::new(self.unix())
    }

    /// One request over TCP.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answered {
        self.http().get(path)
    }

    /// One request over TCP.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answered {
        self.http().post(path, body)
    }

    /// Takes resources over HTTP; gives the lease.
    #[track_caller]
    pub(crate) fn acquire(&self, body: &Value) -> Value {
        let answered = self.post("/v1/leases", body);
        assert_eq!(answered.status, 201, "{answered:?}");
        answered.json()
    }

    /// A figure of `/proc/PID/status` in kibibytes, such as `VmRSS`.
    pub(crate) fn memory_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
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

/// A connection of another user: as the system sees it, a socket is of the user that its file is of.
fn tcp_of(uid: u32, address: SocketAddr) -> TcpStream {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, SocketType::STREAM, None).unwrap();
    rustix::fs::fchown(&socket, Some(Uid::from_raw(uid)), None).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    TcpStream::from(socket)
}

/// The same arguments and environment, after other words.
fn launched(words: &[OsString], command: &Command) -> Command {
    let mut launched = Command::new(&words[0]);
    launched.args(&words[1..]).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => launched.env(name, value),
            None => launched.env_remove(name),
        };
    }
    launched
}

/// Every file below a directory with its bytes, in order of name.
pub(crate) fn files_below(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                files.push((path.clone(), fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}
