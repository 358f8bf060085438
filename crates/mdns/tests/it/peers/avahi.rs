//! Avahi as a peer on a host: its daemon with a bus of its own, `avahi-browse` and `avahi-publish`.
//! Nothing of the machine's own Avahi or D-Bus is used: the bus listens on an abstract address, which is private to
//! the network namespace, and the daemon has a `/run` that only it sees.

use std::fs;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::feed::{Feed, LIMIT, Process, monotonic_ns};
use super::netns::{Host, INTERFACE};
use super::{Change, Seen, Service};

const BUS_ADDRESS: &str = "unix:abstract=tenure-test-bus";

const BUS_CONFIG: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:abstract=tenure-test-bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
"#;

/// A host's Avahi; at most one per host. Dropping it kills it, so that it says no goodbyes.
///
/// It says goodbye for a publisher that is gone, however that ended: it notices that the publisher's connection to
/// the bus is closed. Only if the daemon itself is killed is there none.
pub(crate) struct Avahi {
    // Dropped in this order: the daemon's clients, the daemon, its bus.
    browsers: Vec<Process>,
    daemon: Process,
    _bus: Process,
    _directory: TempDir,
    seen: Feed<Seen>,
    launcher: Launcher,
}

/// One `avahi-publish`. Dropping it kills it.
pub(crate) struct Publisher {
    process: Process,
}

/// What is needed to start a program on the host after the host was left behind.
struct Launcher {
    words: Vec<std::ffi::OsString>,
}

impl Avahi {
    /// Starts bus and daemon on a host; returns when the daemon has established the host's name.
    #[track_caller]
    pub(crate) fn start(host: &Host) -> Self {
        let directory = TempDir::new().unwrap();
        let bus_config = directory.path().join("bus.conf");
        fs::write(&bus_config, BUS_CONFIG).unwrap();
        let mut command = host.command("dbus-daemon");
        command.args(["--nofork", "--nopidfile", "--nosyslog", "--print-address"]);
        let bus = Process::start_plain(with_argument(command, "--config-file", &bus_config));
        bus.said().expect(0, |line| line.starts_with(BUS_ADDRESS), LIMIT);

        let config = directory.path().join("avahi.conf");
        fs::write(&config, daemon_config(host)).unwrap();
        let mut command = host.command("sh");
        // Its socket and pid file have fixed names. A host's command has mounts of its own, so that this one is
        // seen by nobody else and ends with the daemon.
        let private_run = "mount -t tmpfs tmpfs /run && mkdir /run/avahi-daemon && exec \"$@\"";
        command.args([
            "-c",
            private_run,
            "sh",
            "avahi-daemon",
            "--no-drop-root",
            "--no-rlimits",
            "--no-chroot",
        ]);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", BUS_ADDRESS);
        let daemon = Process::start_plain(with_argument(command, "--file", &config));
        daemon.said().expect(0, |line| line.contains("Server startup complete"), LIMIT);
        Self {
            browsers: Vec::new(),
            daemon,
            _bus: bus,
            _directory: directory,
            seen: Feed::new(),
            launcher: Launcher::of(host),
        }
    }

    /// Browses for a type, `_http._tcp`, from now on. An instance is resolved when it is found; later changes of it
    /// are not told.
    #[track_caller]
    pub(crate) fn browse(&mut self, service_type: &str) {
        let mut command = self.launcher.command("avahi-browse");
        command.args(["--resolve", "--parsable", "--no-db-lookup", service_type]);
        let seen = self.seen.clone();
        self.browsers.push(Process::start(command, move |line| {
            if let Some(event) = line.and_then(|line| seen_from(line, monotonic_ns())) {
                seen.push(event);
            }
        }));
    }

    /// Publishes; returns when the name is established. If another host has it, Avahi takes another:
    /// [`Publisher::name`].
    #[track_caller]
    pub(crate) fn publish(&self, service: &Service<'_>) -> Publisher {
        let publisher = self.begin_to_publish(service, &[]);
        publisher.wait();
        publisher
    }

    /// Begins to publish, of these subtypes too (`_red._sub._http._tcp`): [`Publisher::wait`].
    #[track_caller]
    pub(crate) fn begin_to_publish(&self, service: &Service<'_>, subtypes: &[String]) -> Publisher {
        let mut command = self.launcher.command("avahi-publish");
        let port = service.port.to_string();
        command.args(subtypes.iter().map(|subtype| format!("--subtype={subtype}")));
        command.args(["--service", service.name, service.service_type, &port]);
        for string in service.txt {
            command.arg(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(string));
        }
        Publisher { process: Process::start_plain(command) }
    }

    /// Everything seen so far.
    pub(crate) fn events(&self) -> Vec<Seen> {
        self.seen.all()
    }

    /// How much was seen so far, to wait for something later than this.
    pub(crate) fn mark(&self) -> usize {
        self.seen.len()
    }

    /// The first that is wanted of all that was seen, as soon as there is one; fails the test if there is none in
    /// time.
    #[track_caller]
    pub(crate) fn wait_for(&self, wanted: impl Fn(&Seen) -> bool, limit: Duration) -> Seen {
        self.seen.expect(0, wanted, limit)
    }

    /// As [`Avahi::wait_for`], of what was seen since a mark.
    #[track_caller]
    pub(crate) fn wait_for_since(
        &self,
        mark: usize,
        wanted: impl Fn(&Seen) -> bool,
        limit: Duration,
    ) -> Seen {
        self.seen.expect(mark, wanted, limit)
    }

    /// Watches for as long as told, from a mark on: the first unwanted thing, or `None` if all stayed well.
    pub(crate) fn watch_since(
        &self,
        mark: usize,
        unwanted: impl Fn(&Seen) -> bool,
        time: Duration,
    ) -> Option<Seen> {
        self.seen.find(mark, unwanted, time)
    }

    /// The daemon, to kill or suspend it; [`Process::end`] makes it say goodbye for everything.
    pub(crate) fn daemon(&mut self) -> &mut Process {
        &mut self.daemon
    }
}

impl Publisher {
    /// Returns when a name is established.
    #[track_caller]
    pub(crate) fn wait(&self) {
        self.process.said().expect(0, |line| established(line).is_some(), LIMIT);
    }

    /// Whether it has a name now: after a conflict it has none until another is established.
    pub(crate) fn has_a_name(&self) -> bool {
        self.process.said().all().last().is_some_and(|line| established(line).is_some())
    }

    /// The name that was established last; differs from what was asked for after a conflict.
    pub(crate) fn name(&self) -> String {
        let said = self.process.said().all();
        said.iter().rev().find_map(|line| established(line)).unwrap().to_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends it as its user would. Avahi says goodbye.
    #[track_caller]
    pub(crate) fn end(&mut self) {
        self.process.end();
    }

    /// Kills it. Avahi notices, and says goodbye too.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }
}

impl Launcher {
    fn of(host: &Host) -> Self {
        let command = host.command("env");
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Self { words: words.map(Into::into).collect() }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg(program).env("DBUS_SYSTEM_BUS_ADDRESS", BUS_ADDRESS);
        command
    }
}

fn with_argument(mut command: Command, flag: &str, path: &std::path::Path) -> Command {
    let mut argument = std::ffi::OsString::from(format!("{flag}="));
    argument.push(path);
    command.arg(argument);
    command
}

fn daemon_config(host: &Host) -> String {
    let ipv6 = if host.address6().is_some() { "yes" } else { "no" };
    // By default both limits are about a thousand instances: 4096 records, 1024 objects.
    format!(
        "[server]\ncache-entries-max=100000\nobjects-per-client-max=100000\n\
         host-name={}\nuse-ipv4=yes\nuse-ipv6={ipv6}\nallow-interfaces={INTERFACE}\n\
         [wide-area]\nenable-wide-area=no\n\
         [publish]\npublish-hinfo=no\npublish-workstation=no\n",
        host.name()
    )
}

fn established(line: &str) -> Option<&str> {
    line.strip_prefix("Established under name '")?.strip_suffix('\'')
}

/// A line of `avahi-browse --parsable`: `+;lan0;IPv4;NAME;TYPE;local`, and after `=` also `;HOST;ADDRESS;PORT;TXT`.
/// Fields before TXT have no semicolon of their own: it is escaped.
fn seen_from(line: &str, at_ns: u64) -> Option<Seen> {
    let fields: Vec<&str> = line.splitn(10, ';').collect();
    let change = match *fields.first()? {
        "+" => Change::Named,
        "=" => Change::Added,
        "-" => Change::Removed,
        _ => return None,
    };
    let field = |at: usize| fields.get(at).copied();
    Some(Seen {
        at_ns,
        change,
        name: String::from_utf8_lossy(&unescaped(field(3)?)).into_owned(),
        service_type: field(4)?.to_owned(),
        host: field(6).map(str::to_owned),
        port: field(8).and_then(|port| port.parse().ok()),
        addresses: field(7).and_then(|address| address.parse::<IpAddr>().ok()).into_iter().collect(),
        txt: field(9).map(strings).unwrap_or_default(),
    })
}

/// `\DDD` is a byte in decimal, `\C` the character C.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            plain.push(*first);
            continue;
        }
        let number = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let (byte, length) = match number {
            Some(byte) => (Some(byte), 3),
            None => (after.first().copied(), 1),
        };
        plain.extend(byte);
        rest = after.get(length..).unwrap_or_default();
    }
    plain
}

/// The strings in `"a=1" "b"`, quotes and bytes inside escaped, in the order of the record, which Avahi prints the
/// other way round.
fn strings(text: &str) -> Vec<Vec<u8>> {
    let mut strings = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let inside = &rest[start + 1..];
        let mut is_escaped = false;
        let end = inside.bytes().position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        let Some(end) = end else { break };
        strings.push(unescaped(&inside[..end]));
        rest = &inside[end + 1..];
    }
    strings.reverse();
    strings
}
