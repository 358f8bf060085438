//! A local network that exists only for one test: a network namespace per host, and one for the switch between
//! them. Every interface is made inside these namespaces; nothing else of the machine's network is touched.
//! Whatever still runs inside when a network is dropped is killed, and what dead tests left behind is removed.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;

use super::feed::wait_until;

/// The one interface of every host besides loopback. Names of interfaces are private to a namespace.
pub(crate) const INTERFACE: &str = "lan0";

/// Of a host that was plugged in again.
pub(crate) const SECOND_INTERFACE: &str = "lan1";

const PREFIX: &str = "tenure-test";
const BRIDGE: &str = "switch0";
/// How long the kernel may take to report a carrier: it gathers such news for up to a second.
const CARRIER_LIMIT: Duration = Duration::from_secs(10);
/// Rounds in which processes inside a namespace are looked for and killed; each round sees what forked meanwhile.
const KILL_ROUNDS_MAX: usize = 50;

static LANS: AtomicU32 = AtomicU32::new(0);

/// Hosts on one switch. Dropping it ends what runs there and removes it.
pub(crate) struct Lan {
    hosts: Vec<Host>,
    switch: Namespace,
}

/// One machine of a [`Lan`], with loopback and [`INTERFACE`].
pub(crate) struct Host {
    name: String,
    namespace: Namespace,
    /// Its interface at the switch.
    port: String,
    address: Ipv4Addr,
    address6: Option<Ipv6Addr>,
}

/// Removed when dropped, processes first.
struct Namespace {
    name: String,
}

impl Lan {
    /// A network with IPv4 only: 10.77.N.0/24, the first host `.1`.
    #[track_caller]
    pub(crate) fn new(hosts: &[&str]) -> Self {
        Self::with(hosts, Ipv6::Without)
    }

    /// A network with IPv4, and IPv6 in fd77:N::/64 beside the link-local addresses. Addresses are usable at once.
    #[track_caller]
    pub(crate) fn with_ipv6(hosts: &[&str]) -> Self {
        Self::with(hosts, Ipv6::With)
    }

    #[track_caller]
    fn with(names: &[&str], ipv6: Ipv6) -> Self {
        assert!(geteuid().is_root(), "a network of the test's own needs root: run the tests as root");
        remove_left_behind();
        let number = LANS.fetch_add(1, Ordering::Relaxed);
        // Networks never meet: that the same subnet comes again is only confusing to read.
        let subnet = number as u8;
        let name_of = |host: &str| format!("{PREFIX}-{}-{number}-{host}", std::process::id());
        let switch = Namespace::new(name_of("switch"));
        // Without snooping a bridge floods all multicast, as an ordinary switch does.
        switch.configure(&format!("link add {BRIDGE} type bridge mcast_snooping 0\nlink set {BRIDGE} up"));
        let mut lan = Self { hosts: Vec::new(), switch };
        for (index, name) in names.iter().enumerate() {
            let place = u8::try_from(index + 1).unwrap();
            let host = Host {
                name: (*name).to_owned(),
                namespace: Namespace::new(name_of(name)),
                port: format!("port{place}"),
                address: Ipv4Addr::new(10, 77, subnet, place),
                address6: (ipv6 == Ipv6::With)
                    .then(|| Ipv6Addr::new(0xfd77, subnet.into(), 0, 0, 0, 0, 0, place.into())),
            };
            host.plug_into(&lan.switch);
            lan.hosts.push(host);
        }
        lan.hosts.iter().for_each(Host::wait_for_carrier);
        lan
    }

    /// The host of that name.
    #[track_caller]
    pub(crate) fn host(&self, name: &str) -> &Host {
        self.hosts.iter().find(|host| host.name == name).unwrap_or_else(|| panic!("no host {name}"))
    }

    /// Separates a host from the others. It does not notice: its link stays up, nothing comes or goes.
    #[track_caller]
    pub(crate) fn cut(&self, host: &Host) {
        self.switch.configure(&format!("link set {} nomaster", host.port));
    }

    /// As [`Lan::heal`], and the host's carrier goes and comes, for so short a time that no address does.
    #[track_caller]
    pub(crate) fn bounce_into(&self, host: &Host) {
        let port = &host.port;
        self.switch
            .configure(&format!("link set {port} down\nlink set {port} master {BRIDGE}\nlink set {port} up"));
        host.wait_for_carrier();
    }

    /// A second interface of a host on the same switch, with the host's address + 100.
    #[track_caller]
    pub(crate) fn plug_in_again(&self, host: &Host) {
        let [a, b, c, place] = host.address.octets();
        let (port, address) = (format!("again{place}"), Ipv4Addr::new(a, b, c, place + 100));
        host.namespace.configure(&format!(
            "link add {SECOND_INTERFACE} type veth peer name {port} netns {}\n\
             addr add {address}/24 dev {SECOND_INTERFACE}\nlink set {SECOND_INTERFACE} up",
            self.switch.name
        ));
        self.switch.configure(&format!("link set {port} master {BRIDGE} up"));
    }

    /// Undoes [`Lan::cut`].
    #[track_caller]
    pub(crate) fn heal(&self, host: &Host) {
        self.switch.configure(&format!("link set {} master {BRIDGE}", host.port));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ipv6 {
    With,
    Without,
}

impl Host {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// `None` in a network without IPv6.
    pub(crate) fn address6(&self) -> Option<Ipv6Addr> {
        self.address6
    }

    /// A command that runs on this host. The pid of its child is the program's own. It sees the machine's files,
    /// but what it mounts only it sees.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace.name]).arg(program);
        command
    }

    /// Takes the interface down, as when a network is left. The host notices.
    #[track_caller]
    pub(crate) fn link_down(&self) {
        self.namespace.configure(&format!("link set {INTERFACE} down"));
    }

    /// Gives the interface an address that lasts, and has the kernel make a temporary one beside it (RFC 8981).
    #[track_caller]
    pub(crate) fn add_lasting_and_temporary(&self, lasting: Ipv6Addr) {
        let file = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/use_tempaddr");
        run(self.command("sh").args(["-c", "echo 2 >\"$1\"", "sh", &file]));
        self.namespace.configure(&format!("addr add {lasting}/64 dev {INTERFACE} mngtmpaddr nodad"));
        let temporary = || self.namespace.ask(&["-6", "addr", "show", "dev", INTERFACE, "temporary"]);
        wait_until("a temporary address", CARRIER_LIMIT, || {
            temporary().contains("inet6") && !temporary().contains("tentative")
        });
    }

    #[track_caller]
    pub(crate) fn remove_temporary(&self) {
        self.namespace.configure(&format!("addr flush dev {INTERFACE} temporary"));
    }

    /// Has an interface take a hundred packets and then, for minutes, no more.
    #[track_caller]
    pub(crate) fn clog(&self, interface: &str) {
        let shaper = format!("qdisc add dev {interface} root tbf rate 1kbit burst 1600 limit 10000000");
        run(self.command("tc").args(shaper.split(' ')));
    }

    /// Leaves it with IPv6 alone.
    #[track_caller]
    pub(crate) fn forget_ipv4(&self) {
        self.namespace.configure(&format!("addr del {}/24 dev {INTERFACE}", self.address));
    }

    /// Brings the interface up again, with the addresses it had.
    #[track_caller]
    pub(crate) fn link_up(&self) {
        self.configure_interface();
        self.wait_for_carrier();
    }

    #[track_caller]
    fn plug_into(&self, switch: &Namespace) {
        let port = &self.port;
        self.namespace
            .configure(&format!("link add {INTERFACE} type veth peer name {port} netns {}", switch.name));
        switch.configure(&format!("link set {port} master {BRIDGE} up"));
        let ipv6 = match self.address6 {
            // Without detection of duplicates an address is usable at once; there are none here.
            Some(_) => "accept_dad=0",
            None => "disable_ipv6=1",
        };
        let (key, value) = ipv6.split_once('=').unwrap();
        let file = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/{key}");
        let mut write = self.command("sh");
        run(write.args(["-c", "echo \"$1\" >\"$2\"", "sh", value, &file]));
        self.configure_interface();
    }

    /// All of it again each time: the kernel drops routes and IPv6 addresses of a link that goes down.
    #[track_caller]
    fn configure_interface(&self) {
        let mut lines = format!(
            "addr replace {}/24 dev {INTERFACE}\nlink set {INTERFACE} up\n\
             route replace 224.0.0.0/4 dev {INTERFACE}\n",
            self.address
        );
        if let Some(address) = self.address6 {
            lines += &format!("addr replace {address}/64 dev {INTERFACE} nodad\n");
        }
        self.namespace.configure(&lines);
    }

    #[track_caller]
    fn wait_for_carrier(&self) {
        wait_until("a link with a carrier", CARRIER_LIMIT, || {
            self.namespace.ask(&["-oneline", "link", "show", INTERFACE]).contains(" state UP ")
        });
    }
}

impl Namespace {
    #[track_caller]
    fn new(name: String) -> Self {
        run(Command::new("ip").args(["netns", "add", &name]));
        let namespace = Self { name };
        namespace.configure("link set lo up");
        namespace
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

    /// Kills what runs inside: every process in this namespace was started through it.
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
        let Some(Ok(pid)) = rest.split('-').next().map(str::parse::<u32>) else { continue };
        if !is_running(pid) {
            drop(Namespace { name });
        }
    }
}

/// Whether the process exists and is more than a zombie, which nobody may ever wait for.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
