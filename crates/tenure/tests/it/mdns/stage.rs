//! A network with the daemon on one host and peers on others, and the questions every test asks of them.
//! Fields are in the order in which they are to end: the network last.

use std::ffi::OsStr;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::peers::avahi::Avahi;
use super::peers::feed::LIMIT;
use super::peers::netns::{Host, INTERFACE, Lan};
use super::peers::zeroconf::{Record, Sniffer, Zeroconf};
use super::peers::{Change, Seen};
use crate::daemon::Daemon;
use crate::raw_lines::Lines;
use crate::run_support::wait_until;

pub(crate) const HTTP: &str = "_http._tcp";

/// Where the daemon runs.
const OURS: &str = "stone";
/// Where zeroconf and the sniffer run.
const OF_ZEROCONF: &str = "paper";
/// Where Avahi runs.
const OF_AVAHI: &str = "shears";

/// The daemon, and both peers browsing for HTTP.
pub(crate) struct Stage {
    pub(crate) daemon: Daemon,
    pub(crate) zeroconf: Zeroconf,
    pub(crate) avahi: Avahi,
    pub(crate) sniffer: Sniffer,
    pub(crate) lan: Lan,
}

/// The same without Avahi, where it would only cost time.
pub(crate) struct SmallStage {
    pub(crate) daemon: Daemon,
    pub(crate) zeroconf: Zeroconf,
    pub(crate) sniffer: Sniffer,
    pub(crate) lan: Lan,
}

impl Stage {
    #[track_caller]
    pub(crate) fn begin() -> Self {
        Self::begin_with(&[])
    }

    /// The daemon has more flags.
    #[track_caller]
    pub(crate) fn begin_with(flags: &[&str]) -> Self {
        let lan = Lan::new(&[OURS, OF_ZEROCONF, OF_AVAHI]);
        let mut avahi = Avahi::start(lan.host(OF_AVAHI));
        avahi.browse(HTTP);
        let SmallStage { daemon, zeroconf, sniffer, lan } = SmallStage::on(lan, flags);
        Self { daemon, zeroconf, avahi, sniffer, lan }
    }

    /// Waits until both peers have resolved an instance; zeroconf's view is first.
    #[track_caller]
    pub(crate) fn wait_added(&self, name: &str) -> [Seen; 2] {
        let by_zeroconf = self.zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT);
        [by_zeroconf, self.avahi.wait_for(|seen| seen.is(Change::Added, name), LIMIT)]
    }

    /// Waits until both peers know that an instance is gone.
    #[track_caller]
    pub(crate) fn wait_removed(&self, name: &str) {
        self.zeroconf.wait_for(|seen| seen.is(Change::Removed, name), LIMIT);
        self.avahi.wait_for(|seen| seen.is(Change::Removed, name), LIMIT);
    }

    /// Whether any peer ever lost an instance.
    pub(crate) fn was_removed(&self, name: &str) -> bool {
        let all = self.zeroconf.events().into_iter().chain(self.avahi.events());
        all.into_iter().any(|seen| seen.is(Change::Removed, name))
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.ours().address().into()
    }

    pub(crate) fn ours(&self) -> &Host {
        self.lan.host(OURS)
    }
}

impl SmallStage {
    #[track_caller]
    pub(crate) fn begin_with(flags: &[&str]) -> Self {
        Self::on(Lan::new(&[OURS, OF_ZEROCONF]), flags)
    }

    #[track_caller]
    fn on(lan: Lan, flags: &[&str]) -> Self {
        let sniffer = Sniffer::start(lan.host(OF_ZEROCONF));
        let mut zeroconf = Zeroconf::start(lan.host(OF_ZEROCONF));
        zeroconf.browse(HTTP);
        let mut daemon = prepared(lan.host(OURS), flags);
        daemon.start_again();
        Self { daemon, zeroconf, sniffer, lan }
    }

    pub(crate) fn ours(&self) -> &Host {
        self.lan.host(OURS)
    }

    pub(crate) fn theirs(&self) -> &Host {
        self.lan.host(OF_ZEROCONF)
    }
}

/// A daemon on a host, not yet started. mDNS is on, whatever the environment says.
pub(crate) fn prepared(host: &Host, flags: &[&str]) -> Daemon {
    let mut all = vec!["--mdns=true", "--log-format", "text"];
    all.extend(flags);
    // What runs any program on the host, without a program.
    let launcher = host.command("");
    let words = std::iter::once(launcher.get_program()).chain(launcher.get_args());
    let words: Vec<&str> = words.filter_map(OsStr::to_str).filter(|word| !word.is_empty()).collect();
    Daemon::prepared(&all).with_launcher(&words)
}

/// Registers over a connection of lines, whose session keeps it.
#[track_caller]
pub(crate) fn register(lines: &mut Lines, service: Value) -> Value {
    let answer = lines.ask(&json!({"register": service}));
    assert!(answer["registered"]["id"].is_string(), "{answer}");
    answer["registered"].clone()
}

#[track_caller]
pub(crate) fn unregister(lines: &mut Lines, registered: &Value) {
    lines.say(&json!({"unregister": registered["id"]}));
    let mut answer = lines.next();
    // Unsolicited; at most one for each registration of the connection.
    while answer.get("lost").is_some() {
        answer = lines.next();
    }
    assert_eq!(answer["unregistered"], registered["id"], "{answer}");
}

/// Registers over HTTP, which on the socket reaches a daemon on any host.
#[track_caller]
pub(crate) fn post(daemon: &Daemon, service: &Value) -> Value {
    let answered = daemon.http_over_socket().post("/v1/mdns/services", service);
    assert_eq!(answered.status, 201, "{answered:?}");
    answered.json()["registered"].clone()
}

/// A registration as an operator sees it.
#[track_caller]
pub(crate) fn inspect(daemon: &Daemon, registered: &Value) -> Value {
    let path = format!("/v1/mdns/admin/registrations/{}", registered["id"].as_str().unwrap());
    let answered = daemon.http_over_socket().get(&path);
    assert_eq!(answered.status, 200, "{answered:?}");
    answered.json()
}

/// Waits until an operator sees that a registration is advertised, and gives what is seen.
#[track_caller]
pub(crate) fn wait_advertised(daemon: &Daemon, registered: &Value) -> Value {
    let mut shown = Value::Null;
    wait_until("a registration that is advertised", LIMIT, || {
        shown = inspect(daemon, registered);
        shown["advertised"] == true
    });
    shown
}

/// Interfaces that the daemon speaks on.
#[track_caller]
pub(crate) fn interfaces(daemon: &Daemon) -> Vec<String> {
    let status = daemon.http_over_socket().get("/v1/mdns/admin/status").json();
    let names = status["interfaces"].as_array().unwrap_or_else(|| panic!("{status}"));
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Whether the daemon speaks on the interface that the peers are on.
#[track_caller]
pub(crate) fn is_on_lan(daemon: &Daemon) -> bool {
    interfaces(daemon).iter().any(|used| used.starts_with(INTERFACE))
}

/// Full name of an HTTP service.
pub(crate) fn full(name: &str) -> String {
    format!("{name}.{HTTP}.local.")
}

/// Whether a record announces an instance of HTTP.
pub(crate) fn announces<'a>(name: &'a str) -> impl Fn(&Record) -> bool + 'a {
    let target = full(name);
    move |record| {
        record.is_response
            && record.ttl > 0
            && record.kind == "PTR"
            && record.target.as_ref() == Some(&target)
    }
}

/// Waits until a goodbye for each of these was heard.
#[track_caller]
pub(crate) fn wait_goodbyes(sniffer: &Sniffer, names: &[&str]) {
    for name in names {
        sniffer.wait_for(|record| record.is_goodbye() && record.target == Some(full(name)), LIMIT);
    }
}
