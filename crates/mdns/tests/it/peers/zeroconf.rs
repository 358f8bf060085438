//! python-zeroconf as a peer on a host: browses and registers; and a listener that hears every record.
//! Each is a script beside this file that speaks JSON, one object a line.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::feed::{Feed, LIMIT, Process};
use super::netns::{Host, INTERFACE};
use super::{Change, Seen, Service};

/// A host's zeroconf. What it registered vanishes without a goodbye if it is dropped or killed.
pub(crate) struct Zeroconf {
    process: Process,
    seen: Feed<Seen>,
    answers: Feed<Value>,
    tag: u64,
}

/// Hears what is multicast to where mDNS is spoken, also what its own host says. Does not take part.
pub(crate) struct Sniffer {
    process: Process,
    records: Feed<Record>,
}

/// One record in one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// When it was received, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    pub(crate) source: IpAddr,
    /// Only responses announce and withdraw; a query lists what it knows or wants to have.
    pub(crate) is_response: bool,
    /// With a trailing dot, as all names here; dots inside labels are not escaped.
    pub(crate) name: String,
    /// `PTR`, `SRV`, `TXT`, `A`, …
    pub(crate) kind: String,
    /// Seconds; 0 withdraws.
    pub(crate) ttl: u32,
    /// Where a PTR or SRV points to.
    pub(crate) target: Option<String>,
}

impl Zeroconf {
    /// Starts it on a host; returns when it listens. It calls the host by the host's name.
    #[track_caller]
    pub(crate) fn start(host: &Host) -> Self {
        let mut command = script(Some(host), "zeroconf_peer.py");
        command.arg(host.address().to_string()).arg(host.name()).arg(host.address().to_string());
        command.args(host.address6().map(|address| address.to_string()));
        Self::started(command)
    }

    /// Starts it where the calling thread is, on the interface of this address.
    #[track_caller]
    pub(crate) fn start_here(address: IpAddr) -> Self {
        let mut command = script(None, "zeroconf_peer.py");
        command.arg(address.to_string()).arg("here").arg(address.to_string());
        Self::started(command)
    }

    #[track_caller]
    fn started(command: Command) -> Self {
        let (seen, answers) = (Feed::new(), Feed::new());
        let (to_seen, to_answers) = (seen.clone(), answers.clone());
        let process = Process::start(command, move |line| match line.map(serde_json::from_str::<Value>) {
            Some(Ok(value)) if value.get("event").is_some() => to_seen.push(seen_from(&value)),
            Some(Ok(value)) => to_answers.push(value),
            // Warnings and tracebacks; they are shown if something fails.
            Some(Err(_)) => {}
            None => {
                to_seen.end();
                to_answers.end();
            }
        });
        let zeroconf = Self { process, seen, answers, tag: 0 };
        zeroconf.answer(|value| value.get("ready").is_some());
        zeroconf
    }

    /// Browses for a type, `_http._tcp`, from now on.
    #[track_caller]
    pub(crate) fn browse(&mut self, service_type: &str) {
        self.ask(json!({"verb": "browse", "type": service_type}));
    }

    /// The types found within so many seconds: it cannot be known when all have answered.
    #[track_caller]
    pub(crate) fn types(&mut self, seconds: u32) -> Vec<String> {
        let types = self.ask(json!({"verb": "types", "seconds": seconds}));
        types.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    /// Asks for one instance; `None` if nobody answers in time.
    #[track_caller]
    pub(crate) fn resolve(&mut self, name: &str, service_type: &str, limit: Duration) -> Option<Seen> {
        let limit_ms = limit.as_millis() as u64;
        let found =
            self.ask(json!({"verb": "resolve", "name": name, "type": service_type, "limit_ms": limit_ms}));
        (!found.is_null()).then(|| seen_from(&found))
    }

    /// Registers; returns when the name is probed for and being announced.
    #[track_caller]
    pub(crate) fn register(&mut self, service: &Service<'_>) {
        self.ask(with_verb("register", service));
    }

    /// Changes port and TXT of what is registered under the same name.
    #[track_caller]
    pub(crate) fn update(&mut self, service: &Service<'_>) {
        self.ask(with_verb("update", service));
    }

    /// Withdraws; returns when all goodbyes are out.
    #[track_caller]
    pub(crate) fn unregister(&mut self, name: &str, service_type: &str) {
        self.ask(json!({"verb": "unregister", "name": name, "type": service_type}));
    }

    /// Withdraws everything and ends.
    #[track_caller]
    pub(crate) fn quit(&mut self) {
        self.process.hang_up();
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

    /// As [`Zeroconf::wait_for`], of what was seen since a mark.
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

    /// The process, to kill or suspend it.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    #[track_caller]
    fn ask(&mut self, mut command: Value) -> Value {
        self.tag += 1;
        let tag = self.tag;
        command["tag"] = tag.into();
        self.process.tell(&command.to_string());
        let answer = self.answer(|value| value["tag"] == tag);
        assert!(answer.get("error").is_none(), "zeroconf refused {command}: {}", answer["error"]);
        answer["ok"].clone()
    }

    #[track_caller]
    fn answer(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let answer = self.answers.find(0, wanted, LIMIT);
        answer.unwrap_or_else(|| panic!("zeroconf does not answer; it said {:#?}", self.process.said().all()))
    }
}

impl Sniffer {
    /// Starts it on a host; returns when it listens.
    #[track_caller]
    pub(crate) fn start(host: &Host) -> Self {
        let mut command = script(Some(host), "sniffer.py");
        command.arg(INTERFACE).arg(host.address().to_string());
        Self::started(command)
    }

    /// Starts it where the calling thread is.
    #[track_caller]
    pub(crate) fn start_here(interface: &str, address: IpAddr) -> Self {
        let mut command = script(None, "sniffer.py");
        command.arg(interface).arg(address.to_string());
        Self::started(command)
    }

    #[track_caller]
    fn started(command: Command) -> Self {
        let records = Feed::new();
        let to = records.clone();
        let process = Process::start(command, move |line| match line.map(serde_json::from_str::<Value>) {
            Some(Ok(value)) if value.get("ttl").is_some() => to.push(record_from(&value)),
            Some(_) => {}
            None => to.end(),
        });
        let sniffer = Self { process, records };
        sniffer.process.said().expect(0, |line| line.contains("\"ready\""), LIMIT);
        sniffer
    }

    /// Everything heard so far.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.all()
    }

    /// The full names of instances that were withdrawn, once per time it was said:
    /// `My printer._ipp._tcp.local.`
    pub(crate) fn goodbyes(&self) -> Vec<String> {
        self.records().into_iter().filter(Record::is_goodbye).filter_map(|record| record.target).collect()
    }

    /// When each instance was first withdrawn.
    pub(crate) fn first_goodbyes_ns(&self) -> BTreeMap<String, u64> {
        let mut first = BTreeMap::new();
        for record in self.records().into_iter().filter(Record::is_goodbye) {
            if let Some(target) = record.target {
                first.entry(target).or_insert(record.at_ns);
            }
        }
        first
    }

    /// As [`Zeroconf::wait_for`], of records.
    #[track_caller]
    pub(crate) fn wait_for(&self, wanted: impl Fn(&Record) -> bool, limit: Duration) -> Record {
        self.records.expect(0, wanted, limit)
    }

    /// Packets that are not DNS, as its own lines.
    pub(crate) fn broken(&self) -> Vec<String> {
        self.process.said().all().into_iter().filter(|line| line.contains("\"broken\"")).collect()
    }
}

impl Record {
    /// Whether it withdraws an instance: a pointer with nothing left to live, in a response. Pointers to types, and
    /// to instances from subtypes, do not count, so that a goodbye counts once.
    pub(crate) fn is_goodbye(&self) -> bool {
        let target = self.target.as_deref().unwrap_or_default();
        let is_instance = target.strip_suffix(&self.name).is_some_and(|instance| instance.ends_with('.'));
        self.is_response && self.kind == "PTR" && self.ttl == 0 && is_instance
    }
}

/// `None`: where the calling thread is.
fn script(host: Option<&Host>, name: &str) -> Command {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = package.join("../../target/venv/bin/python");
    assert!(python.exists(), "zeroconf is missing; `cargo xtask test` installs what the tests need");
    let mut command = match host {
        Some(host) => host.command(python),
        None => Command::new(python),
    };
    command.arg("-B").arg(package.join("../mdns/tests/it/peers").join(name));
    command
}

fn with_verb(verb: &str, service: &Service<'_>) -> Value {
    let txt: Vec<String> = service.txt.iter().map(|string| hex(string)).collect();
    json!({
        "verb": verb,
        "name": service.name,
        "type": service.service_type,
        "port": service.port,
        "txt": txt,
    })
}

fn seen_from(value: &Value) -> Seen {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let texts = |key: &str| value[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    Seen {
        at_ns: value["at_ns"].as_u64().unwrap(),
        change: match value["event"].as_str().unwrap() {
            "named" => Change::Named,
            "added" => Change::Added,
            "updated" => Change::Updated,
            "removed" => Change::Removed,
            unknown => panic!("the script says {unknown}"),
        },
        name: text("name").unwrap(),
        service_type: text("type").unwrap(),
        host: text("host"),
        port: value["port"].as_u64().map(|port| port as u16),
        addresses: texts("addresses").map(|address| address.parse().unwrap()).collect(),
        txt: texts("txt").map(from_hex).collect(),
    }
}

fn record_from(value: &Value) -> Record {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    Record {
        at_ns: value["at_ns"].as_u64().unwrap(),
        source: value["source"].as_str().unwrap().parse().unwrap(),
        is_response: value["is_response"].as_bool().unwrap(),
        name: text("name").unwrap(),
        kind: text("type").unwrap(),
        ttl: value["ttl"].as_u64().unwrap() as u32,
        target: text("target"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
