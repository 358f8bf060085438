//! `cargo xtask bench mdns`: how long a dead service haunts the network. Tenure and Avahi each publish a service from a
//! host of their own, python-zeroconf watches from a third; registrants are killed or withdraw, in turns, and the time
//! until the watcher reports the removal is what counts.

#![expect(clippy::print_stdout, reason = "the table is the data this program makes")]
#![expect(clippy::unwrap_used, reason = "a bench stops at the first surprise")]

#[expect(dead_code, reason = "tests use more of it")]
#[path = "../../mdns/tests/it/peers/mod.rs"]
mod peers;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use indicatif::ProgressBar;
use peers::avahi::{Avahi, Publisher};
use peers::feed::{Process, monotonic_ns};
use peers::netns::{Host, Lan};
use peers::zeroconf::Zeroconf;
use peers::{Change, Service};

/// Type of everything that is published here.
const TYPE: &str = "_tenure-bench._tcp";
const ROUNDS: usize = 50;
const ROUNDS_QUICK: usize = 3;
/// How long a removal is waited for before the round counts as never.
const LIMIT: Duration = Duration::from_secs(20);
/// How long the daemon forgives a lost connection here.
const GRACE: Duration = Duration::from_secs(1);
const REGISTRANT: &str = "--registrant";

/// One way for a service to go.
struct Way {
    name: &'static str,
    times_ms: Vec<f64>,
    unseen: usize,
}

/// A registrant: a process of its own that holds a connection to the daemon.
struct Registrant {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, socket, name] = arguments.as_slice()
        && word == REGISTRANT
    {
        return register(Path::new(socket), name);
    }
    let rounds = if arguments.iter().any(|word| word == "--quick") { ROUNDS_QUICK } else { ROUNDS };
    let directory = tempfile::tempdir().unwrap();
    let lan = Lan::new(&["tenure", "avahi", "watch"]);
    let socket = directory.path().join("tenure.sock");
    let _daemon = serve(lan.host("tenure"), directory.path(), &socket);
    let avahi = Avahi::start(lan.host("avahi"));
    let mut watcher = Zeroconf::start(lan.host("watch"));
    watcher.browse(TYPE);
    let mut ways = [
        "tenure: registrant killed with -9 (grace 1 s)",
        "tenure: unregistered",
        "avahi: avahi-publish killed with -9",
        "avahi: avahi-publish ended",
    ]
    .map(|name| Way { name, times_ms: Vec::new(), unseen: 0 });
    let bar = ProgressBar::new(rounds as u64);
    for round in 0..rounds {
        for (index, way) in ways.iter_mut().enumerate() {
            let name = format!("service {round}-{index}");
            let gone_at = match index {
                0 => killed(&watcher, &socket, &name),
                1 => unregistered(&watcher, &socket, &name),
                2 => published(&watcher, &avahi, &name, Publisher::kill),
                _ => published(&watcher, &avahi, &name, Publisher::end),
            };
            match gone_at {
                Some(ms) => way.times_ms.push(ms),
                None => way.unseen += 1,
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(&mut ways, rounds);
}

fn serve(host: &Host, directory: &Path, socket: &Path) -> Process {
    let mut command = host.command(env!("CARGO_BIN_EXE_tenure"));
    let grace = format!("{}ms", GRACE.as_millis());
    command
        .args(["serve", "--config", "/dev/null", "--run-dir", "", "--port", "0", "--mdns=true"])
        .args(["--mdns-interface", peers::netns::INTERFACE, "--mdns-socket-grace", &grace])
        .arg("--socket")
        .arg(socket)
        .arg("--data-dir")
        .arg(directory.join("data"));
    let daemon = Process::start_plain(command);
    daemon.said().expect(0, |line| line == "ready", LIMIT);
    daemon
}

/// Milliseconds from the moment until the watcher reports the removal.
fn removed_after(watcher: &Zeroconf, mark: usize, name: &str, since_ns: u64) -> Option<f64> {
    let gone = watcher.watch_since(mark, |seen| seen.is(Change::Removed, name), LIMIT)?;
    Some(gone.at_ns.saturating_sub(since_ns) as f64 / 1e6)
}

fn killed(watcher: &Zeroconf, socket: &Path, name: &str) -> Option<f64> {
    let mark = watcher.mark();
    let mut registrant = Registrant::start(socket, name);
    watcher.wait_for_since(mark, |seen| seen.is(Change::Added, name), LIMIT);
    let since_ns = monotonic_ns();
    registrant.child.kill().unwrap();
    registrant.child.wait().unwrap();
    removed_after(watcher, mark, name, since_ns)
}

fn unregistered(watcher: &Zeroconf, socket: &Path, name: &str) -> Option<f64> {
    let mark = watcher.mark();
    let mut registrant = Registrant::start(socket, name);
    watcher.wait_for_since(mark, |seen| seen.is(Change::Added, name), LIMIT);
    let since_ns = monotonic_ns();
    registrant.tell("unregister");
    let gone_after = removed_after(watcher, mark, name, since_ns);
    registrant.child.kill().unwrap();
    registrant.child.wait().unwrap();
    gone_after
}

fn published(watcher: &Zeroconf, avahi: &Avahi, name: &str, end: fn(&mut Publisher)) -> Option<f64> {
    let mark = watcher.mark();
    let service = Service { name, service_type: TYPE, port: 9, txt: &[] };
    let mut publisher = avahi.publish(&service);
    watcher.wait_for_since(mark, |seen| seen.is(Change::Added, name), LIMIT);
    let since_ns = monotonic_ns();
    end(&mut publisher);
    removed_after(watcher, mark, name, since_ns)
}

impl Registrant {
    fn start(socket: &Path, name: &str) -> Self {
        let program: PathBuf = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .arg(REGISTRANT)
            .arg(socket)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut answer = String::new();
        lines.read_line(&mut answer).unwrap();
        assert!(answer.contains("registered"), "{answer}");
        Self { child, lines }
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{word}").unwrap();
        let mut answer = String::new();
        self.lines.read_line(&mut answer).unwrap();
        assert!(answer.contains("unregistered"), "{answer}");
    }
}

/// The registrant's own process.
fn register(socket: &Path, name: &str) {
    let mut connection = UnixStream::connect(socket).unwrap();
    let mut answers = BufReader::new(connection.try_clone().unwrap());
    let body = serde_json::json!({ "register": { "name": name, "type": TYPE, "port": 9 } });
    writeln!(connection, "{body}").unwrap();
    let mut answer = String::new();
    answers.read_line(&mut answer).unwrap();
    print!("{answer}");
    std::io::stdout().flush().unwrap();
    let id = serde_json::from_str::<serde_json::Value>(&answer).unwrap()["registered"]["id"].clone();
    let mut word = String::new();
    while std::io::stdin().read_line(&mut word).unwrap() > 0 {
        writeln!(connection, "{}", serde_json::json!({ "unregister": id })).unwrap();
        answer.clear();
        answers.read_line(&mut answer).unwrap();
        print!("{answer}");
        std::io::stdout().flush().unwrap();
    }
}

fn print(ways: &mut [Way], rounds: usize) {
    println!("Until python-zeroconf on another host reports the removal, {rounds} rounds each, in turns:\n");
    println!("| what happened | p50 | max | not seen within {} s |", LIMIT.as_secs());
    println!("|---|---|---|---|");
    for way in ways {
        way.times_ms.sort_by(f64::total_cmp);
        let shown = |place: Option<&f64>| place.map_or("–".to_owned(), |ms| format!("{ms:.1} ms"));
        let (middle, last) = (way.times_ms.get(way.times_ms.len() / 2), way.times_ms.last());
        println!("| {} | {} | {} | {} |", way.name, shown(middle), shown(last), way.unseen);
    }
}
