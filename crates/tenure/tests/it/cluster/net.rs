//! A network that exists only for one test: everything on loopback in one namespace, or a namespace per machine with
//! two switches, one between nodes and callers, one between nodes and the store. Nothing else of the machine's
//! network is touched. The thread that makes a network moves to where its callers are, and back when it is dropped.

use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::Timespec;

use crate::run_support::{is_running, wait_until};

const PREFIX: &str = "tenure-cluster";
/// Where nodes and callers meet.
const LAN: &str = "lan0";
/// Where nodes and the store meet.
const STORE: &str = "store0";
/// The kernel gathers news of carriers for up to a second.
const CARRIER_LIMIT: Duration = Duration::from_secs(10);
/// Rounds in which processes inside a namespace are looked for and killed; each sees what forked meanwhile.
const KILL_ROUNDS_MAX: usize = 50;

static NETS: AtomicU32 = AtomicU32::new(0);

/// How machines are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// All on one machine: quick, nothing can be cut.
    Loopback,
    /// A machine each.
    Lan,
}

/// One of the two switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wire {
    Lan,
    Store,
}

/// Machines and what is between them.
pub(crate) struct Net {
    shape: Shape,
    machines: Vec<Machine>,
    switch: Namespace,
    /// Where the thread was before.
    home: File,
}

/// One machine.
pub(crate) struct Machine {
    name: String,
    /// `None`: it shares the only namespace there is.
    namespace: Option<Namespace>,
    pub(crate) lan: Ipv4Addr,
    pub(crate) store: Ipv4Addr,
}

/// Removed when dropped, processes first.
struct Namespace {
    name: String,
}

impl Net {
    /// Nodes are on both switches, members of the store only on theirs.
    #[track_caller]
    pub(crate) fn new(shape: Shape, nodes: &[&str], members: &[&str]) -> Self {
        assert!(geteuid().is_root(), "a network of the test's own needs root: run the tests as root");
        remove_left_behind();
        let number = NETS.fetch_add(1, Ordering::Relaxed);
        let name_of = |machine: &str| format!("{PREFIX}-{}-{number}-{machine}", std::process::id());
        let home = File::open("/proc/thread-self/ns/net").unwrap();
        let mut net = Self { shape, machines: Vec::new(), switch: Namespace::new(name_of("switch")), home };
        match shape {
            Shape::Loopback => {
                for (place, name) in nodes.iter().enumerate() {
                    net.add_local(name, 1, place);
                }
                for (place, name) in members.iter().enumerate() {
                    net.add_local(name, 2, place);
                }
                net.switch.enter();
            }
            Shape::Lan => {
                net.switch.configure(&format!(
                    "link add {LAN} type bridge\nlink set {LAN} up\nlink add {STORE} type bridge\nlink set {STORE} up"
                ));
                net.add_machine(&name_of("callers"), "callers", 0, 0, &[Wire::Lan, Wire::Store]);
                for (place, name) in nodes.iter().enumerate() {
                    net.add_machine(&name_of(name), name, 1, place, &[Wire::Lan, Wire::Store]);
                }
                for (place, name) in members.iter().enumerate() {
                    net.add_machine(&name_of(name), name, 2, place, &[Wire::Store]);
                }
                net.machines[0].namespace.as_ref().unwrap().enter();
            }
        }
        net
    }

    fn add_local(&mut self, name: &str, kind: u8, place: usize) {
        let address = Ipv4Addr::new(127, 0, kind, place as u8 + 1);
        self.machines.push(Machine { name: name.to_owned(), namespace: None, lan: address, store: address });
    }

    #[track_caller]
    fn add_machine(&mut self, namespace: &str, name: &str, kind: u8, place: usize, wires: &[Wire]) {
        let host = place as u8 + 1;
        let machine = Machine {
            name: name.to_owned(),
            namespace: Some(Namespace::new(namespace.to_owned())),
            lan: Ipv4Addr::new(10, 79, kind, host),
            store: Ipv4Addr::new(10, 80, kind, host),
        };
        for wire in wires {
            machine.plug_into(&self.switch, *wire);
        }
        self.machines.push(machine);
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    #[track_caller]
    pub(crate) fn machine(&self, name: &str) -> &Machine {
        self.machines
            .iter()
            .find(|machine| machine.name == name)
            .unwrap_or_else(|| panic!("no machine {name}"))
    }

    /// Where those who speak with the store for a node can listen.
    pub(crate) fn callers_store_address(&self) -> Ipv4Addr {
        match self.shape {
            Shape::Loopback => Ipv4Addr::LOCALHOST,
            Shape::Lan => self.machine("callers").store,
        }
    }

    /// Words that start a program on a machine; the pid of the child is the program's own.
    pub(crate) fn launcher(&self, name: &str) -> [&str; 4] {
        let namespace = self.machine(name).namespace.as_ref().unwrap_or(&self.switch);
        ["ip", "netns", "exec", &namespace.name]
    }

    /// Separates a machine from the others on a wire. It does not notice: nothing comes or goes.
    #[track_caller]
    pub(crate) fn cut(&self, name: &str, wire: Wire) {
        self.switch.configure(&format!("link set {} nomaster", port(name, wire)));
    }

    /// Undoes [`Net::cut`].
    #[track_caller]
    pub(crate) fn heal(&self, name: &str, wire: Wire) {
        self.switch.configure(&format!("link set {} master {}", port(name, wire), wire.interface()));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = move_into_link_name_space(self.home.as_fd(), Some(LinkNameSpaceType::Network));
    }
}

impl Wire {
    /// The interface of a machine, and the switch.
    fn interface(self) -> &'static str {
        match self {
            Self::Lan => LAN,
            Self::Store => STORE,
        }
    }
}

/// The interface of the switch that leads to a machine; at most 15 bytes.
fn port(name: &str, wire: Wire) -> String {
    match wire {
        Wire::Lan => format!("l-{name}"),
        Wire::Store => format!("s-{name}"),
    }
}

impl Machine {
    #[track_caller]
    fn plug_into(&self, switch: &Namespace, wire: Wire) {
        let namespace = self.namespace.as_ref().unwrap();
        let (interface, port) = (wire.interface(), port(&self.name, wire));
        let address = match wire {
            Wire::Lan => self.lan,
            Wire::Store => self.store,
        };
        namespace
            .configure(&format!("link add {interface} type veth peer name {port} netns {}", switch.name));
        switch.configure(&format!("link set {port} master {interface} up"));
        namespace.configure(&format!("addr add {address}/16 dev {interface}\nlink set {interface} up"));
        wait_until("a link with a carrier", CARRIER_LIMIT, || {
            namespace.ask(&["-oneline", "link", "show", interface]).contains(" state UP ")
        });
    }
}

impl Namespace {
    #[track_caller]
    fn new(name: String) -> Self {
        let output = Command::new("ip").args(["netns", "add", &name]).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let namespace = Self { name };
        namespace.configure("link set lo up");
        namespace
    }

    /// Moves the calling thread here; threads and programs that it starts are here too.
    #[track_caller]
    fn enter(&self) {
        let file = File::open(self.path()).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    /// Lines for `ip`, all of them carried out inside the namespace.
    #[track_caller]
    fn configure(&self, lines: &str) {
        let mut child = Command::new("ip")
            .args(["-netns", &self.name, "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(format!("{lines}\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip in {}: {said}in\n{lines}", self.name);
    }

    #[track_caller]
    fn ask(&self, words: &[&str]) -> String {
        let output = Command::new("ip").args(["-netns", &self.name]).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Kills what runs inside: whoever is in this namespace was started through it.
    fn kill_all(&self) {
        let Ok(inside) = fs::metadata(self.path()) else { return };
        for _ in 0..KILL_ROUNDS_MAX {
            let killed: Vec<OwnedFd> = pids().filter_map(|pid| kill_if_in(pid, inside.ino())).collect();
            if killed.is_empty() {
                return;
            }
            for pidfd in &killed {
                let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
                let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&limit));
            }
        }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.kill_all();
        // Somebody who removes what was left behind may have been quicker.
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).stderr(Stdio::null()).status();
    }
}

/// The pid is held by a descriptor before it is looked at, so that the killed one is the one that was seen.
fn kill_if_in(pid: Pid, namespace: u64) -> Option<OwnedFd> {
    if pid == getpid() {
        return None;
    }
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let of_process = fs::metadata(format!("/proc/{}/ns/net", pid.as_raw_nonzero())).ok()?;
    if of_process.ino() != namespace {
        return None;
    }
    pidfd_send_signal(&pidfd, Signal::KILL).ok()?;
    Some(pidfd)
}

fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// Networks of test processes that are gone, killed before they could remove them.
fn remove_left_behind() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('-')) else { continue };
        let Some(Ok(pid)) = rest.split('-').next().map(str::parse::<i32>) else { continue };
        if !is_running(pid) {
            drop(Namespace { name });
        }
    }
}
