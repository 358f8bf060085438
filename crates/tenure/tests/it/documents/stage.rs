//! Machines that exist only for one document: with processes, files, a name and a network of their own, and with
//! terminals at which a shell runs. All of it is gone when the test is.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Signal, geteuid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::matching::plain;
use crate::run_support::{boot_ms, signal, wait_until};

/// Makes a machine of the namespaces that it is started in, and keeps it.
const SET_UP: &str = include_str!("machine.sh");
/// What a terminal shows when the shell is ready for the next command; between the two: the status of the last.
const BEGIN: u8 = 0x1e;
const END: u8 = 0x1f;
/// The kernel gathers news of carriers for up to a second.
const CARRIER_LIMIT: Duration = Duration::from_secs(10);
const START_LIMIT_MS: u64 = 20_000;
const SIZE: Winsize = Winsize { ws_row: 50, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };

/// A machine. Its first process takes all others along when it ends.
pub(super) struct Host {
    keeper: Child,
    /// The first process, as it is called outside.
    pid: u32,
}

impl Host {
    #[track_caller]
    pub(super) fn new(name: &str, shared: &Path) -> Self {
        assert!(geteuid().is_root(), "namespaces of the test's own need root: run the tests as root");
        let keeper = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--fork", "--kill-child=KILL", "--pid", "--mount-proc"])
            .args(["--mount", "--net", "--uts", "--ipc", "bash", "-c", SET_UP])
            .args([env!("CARGO_BIN_EXE_tenure"), name])
            .arg(shared)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // `unshare` complains when its child is killed.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut host = Self { keeper, pid: 0 };
        let mut line = String::new();
        BufReader::new(host.keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the machine {name} was not set up");
        let keeper = host.keeper.id();
        let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap();
        host.pid = children.trim().parse().unwrap();
        host
    }

    /// Moves the calling thread, and the threads that it starts, into this machine's network.
    #[track_caller]
    pub(super) fn enter_network(&self) {
        let network = File::open(format!("/proc/{}/ns/net", self.pid)).unwrap();
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    /// Runs lines of `ip` in this machine's network.
    #[track_caller]
    fn ip(&self, lines: &str) {
        let mut command = self.command(&["--net"]);
        let mut child = command.args(["ip", "-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{lines}");
    }

    /// `nsenter` into some of the machine's namespaces.
    fn command(&self, namespaces: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid.to_string()]).args(namespaces);
        command
    }

    /// A switch between machines, that get 10.0.0.1, 10.0.0.2 and so on.
    #[track_caller]
    pub(super) fn connecting(hosts: &[&Self], shared: &Path) -> Self {
        let switch = Self::new("switch", shared);
        switch.ip("link add lan type bridge\nlink set lan up\n");
        for (place, host) in hosts.iter().enumerate() {
            let (port, pid) = (format!("port{place}"), host.pid);
            switch.ip(&format!(
                "link add {port} type veth peer name eth0 netns {pid}\nlink set {port} master lan up\n"
            ));
            host.ip(&format!(
                "addr add 10.0.0.{}/24 dev eth0\nlink set eth0 addrgenmode none up\n",
                place + 1
            ));
        }
        for host in hosts {
            wait_until("a link with a carrier", CARRIER_LIMIT, || {
                let output =
                    host.command(&["--net"]).args(["ip", "-oneline", "link", "show", "eth0"]).output();
                String::from_utf8(output.unwrap().stdout).unwrap().contains(" state UP ")
            });
            host.ip("route replace 224.0.0.0/4 dev eth0\n");
        }
        switch
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        match self.pid {
            0 => _ = self.keeper.kill(),
            // The kernel ends all others with the first process, before the keeper hears of it.
            first => signal(first as i32, Signal::KILL),
        }
        let _ = self.keeper.wait();
    }
}

/// A terminal with a shell.
pub(super) struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What was shown since the last command was typed.
    shown: Vec<u8>,
}

impl Terminal {
    #[track_caller]
    pub(super) fn open(host: &Host) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let end =
            ioctl_tiocgptpeer(&main, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        tcsetwinsize(&end, SIZE).unwrap();
        let mut modes = tcgetattr(&end).unwrap();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&end, OptionalActions::Now, &modes).unwrap();
        let path = format!("/run/bin:{}", std::env::var("PATH").unwrap());
        let shell = host
            .command(&["--mount", "--net", "--pid", "--uts", "--ipc"])
            .args(["setsid", "--ctty", "env", "--chdir=/run/work"])
            .args(["bash", "--noediting", "--rcfile", "/run/bashrc", "-i"])
            .env_clear()
            .envs([("PATH", path.as_str()), ("HOME", "/run/home"), ("USER", "root"), ("LOGNAME", "root")])
            .envs([("XDG_RUNTIME_DIR", "/run/user/0"), ("XDG_STATE_HOME", "/run/state")])
            .envs([("TERM", "dumb"), ("NO_COLOR", "1"), ("LANG", "C.UTF-8"), ("SHELL", "/bin/bash")])
            .stdin(end.try_clone().unwrap())
            .stdout(end.try_clone().unwrap())
            .stderr(end)
            .spawn()
            .unwrap();
        let mut reader = File::from(main);
        let keyboard = reader.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error is the end: nobody has the other side any more.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Self { shell, keyboard, screen, shown: Vec::new() };
        let is_ready = terminal.wait(boot_ms() + START_LIMIT_MS, |terminal| terminal.status().is_some());
        assert_eq!(is_ready, Ok(()), "a shell that starts shows {:?}", terminal.text());
        terminal
    }

    /// Forgets what was shown and types a command; the shell shows one prompt after it, whatever it consists of.
    #[track_caller]
    pub(super) fn command(&mut self, text: &str) {
        self.shown.clear();
        self.keyboard.write_all(format!("{{ {text}\n}}\n").as_bytes()).unwrap();
    }

    #[track_caller]
    pub(super) fn key(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).unwrap();
    }

    /// The status of the last command, if it has ended.
    pub(super) fn status(&self) -> Option<i32> {
        let begin = self.shown.iter().position(|byte| *byte == BEGIN)?;
        let length = self.shown[begin..].iter().position(|byte| *byte == END)?;
        std::str::from_utf8(&self.shown[begin + 1..begin + length]).ok()?.parse().ok()
    }

    /// What was shown since the last command was typed, without prompts and without blank lines at its ends.
    pub(super) fn text(&self) -> String {
        let mut rest = self.shown.as_slice();
        let mut bytes = Vec::new();
        while let Some(begin) = rest.iter().position(|byte| *byte == BEGIN) {
            bytes.extend_from_slice(&rest[..begin]);
            let length =
                rest[begin..].iter().position(|byte| *byte == END).map_or(rest.len() - begin, |at| at + 1);
            rest = &rest[begin + length..];
        }
        bytes.extend_from_slice(rest);
        plain(&String::from_utf8_lossy(&bytes)).trim_matches('\n').to_owned()
    }

    /// Waits until the condition holds; tells why it does not otherwise.
    pub(super) fn wait(
        &mut self,
        deadline: u64,
        mut until: impl FnMut(&Self) -> bool,
    ) -> Result<(), &'static str> {
        while !until(self) {
            let left = Duration::from_millis(deadline.saturating_sub(boot_ms()));
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.shown.extend(bytes),
                Err(RecvTimeoutError::Timeout) => return Err("it takes too long"),
                Err(RecvTimeoutError::Disconnected) => return Err("the shell has ended"),
            }
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell has ended with its machine, or does now.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
