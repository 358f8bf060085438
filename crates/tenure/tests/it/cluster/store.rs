//! Members of a real etcd, each with a directory of its own.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::net::Net;
use crate::raw_http::{Answered, Http};
use crate::run_support::wait_until;

const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
/// A busy machine elects slowly.
const LIMIT: Duration = Duration::from_secs(40);
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// One member.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    words: Vec<String>,
    directory: TempDir,
    running: Option<Child>,
}

/// Prepares members that know each other; none runs yet.
pub(crate) fn members(net: &Net, names: &[&str]) -> Vec<Member> {
    let peer = |name: &str| format!("http://{}:{PEER_PORT}", net.machine(name).store);
    let everybody: Vec<String> = names.iter().map(|name| format!("{name}={}", peer(name))).collect();
    names
        .iter()
        .map(|name| {
            let directory = TempDir::new().unwrap();
            let data = directory.path().join("data").to_str().unwrap().to_owned();
            let address = SocketAddr::from((net.machine(name).store, CLIENT_PORT));
            let mut words: Vec<String> = net.launcher(name).iter().map(|word| (*word).to_owned()).collect();
            let flags = [
                ("--name", (*name).to_owned()),
                ("--data-dir", data),
                ("--listen-client-urls", format!("http://{address}")),
                ("--advertise-client-urls", format!("http://{address}")),
                ("--listen-peer-urls", peer(name)),
                ("--initial-advertise-peer-urls", peer(name)),
                ("--initial-cluster", everybody.join(",")),
                ("--initial-cluster-state", "new".to_owned()),
                ("--heartbeat-interval", "100".to_owned()),
                ("--election-timeout", "1000".to_owned()),
                ("--logger", "zap".to_owned()),
            ];
            words.push("etcd".to_owned());
            words.extend(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
            Member { name: (*name).to_owned(), address, words, directory, running: None }
        })
        .collect()
}

impl Member {
    pub(crate) fn start(&mut self) {
        assert!(self.running.is_none(), "{} runs already", self.name);
        let log = File::options().create(true).append(true).open(self.directory.path().join("log")).unwrap();
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.running = Some(command.spawn().unwrap());
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.running.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Further flags from the next start on.
    pub(crate) fn add_flags(&mut self, flags: &[&str]) {
        self.words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    /// Keeps a copy of everything it has, while it does not run.
    #[track_caller]
    pub(crate) fn back_up(&self) {
        let before = self.directory.path().join("backup");
        if before.exists() {
            fs::remove_dir_all(before).unwrap();
        }
        self.copy("data", "backup");
    }

    /// Puts it back to what the backup has, while it does not run.
    #[track_caller]
    pub(crate) fn restore(&self) {
        fs::remove_dir_all(self.directory.path().join("data")).unwrap();
        self.copy("backup", "data");
    }

    #[track_caller]
    fn copy(&self, from: &str, to: &str) {
        assert!(self.running.is_none(), "{} runs", self.name);
        let [from, to] = [from, to].map(|name| self.directory.path().join(name));
        let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(status.success(), "cp of {}: {status}", self.name);
    }

    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.running.as_ref().expect("it runs").id() as i32;
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits until it takes part in a majority.
    #[track_caller]
    pub(crate) fn wait_until_healthy(&self) {
        let mut last = String::new();
        let deadline = crate::run_support::boot_ms() + LIMIT.as_millis() as u64;
        wait_until(&format!("a healthy {}", self.name), LIMIT * 2, || {
            assert!(
                crate::run_support::boot_ms() < deadline,
                "{}: {last}\n{}",
                self.name,
                fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
            );
            match self.ask("GET", "/health", &Value::Null) {
                Ok(answered) => {
                    last = answered.text();
                    answered.status == 200 && last.contains("\"true\"")
                }
                Err(error) => {
                    last = error.to_string();
                    false
                }
            }
        });
    }

    /// Whether it leads the others; `false` also if it cannot be asked.
    pub(crate) fn is_leader(&self) -> bool {
        let Ok(answered) = self.ask("POST", "/v3/maintenance/status", &json!({})) else { return false };
        let Ok(status) = serde_json::from_slice::<Value>(&answered.body) else { return false };
        status["leader"].is_string() && status["leader"] == status["header"]["member_id"]
    }

    /// How many changes it has had.
    #[track_caller]
    pub(crate) fn revision(&self) -> u64 {
        let status = self.ask("POST", "/v3/maintenance/status", &json!({})).unwrap().json();
        status["header"]["revision"].as_str().unwrap().parse().unwrap()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Answered> {
        let stream = TcpStream::connect_timeout(&self.address, ASK_LIMIT)?;
        stream.set_read_timeout(Some(ASK_LIMIT))?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        once(stream, &self.address.to_string(), method, path, &body)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One request on a connection of its own.
pub(crate) fn once(
    stream: impl Read + Write,
    host: &str,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<Answered> {
    Http::new(stream, host).try_ask(method, path, body.as_bytes())
}
