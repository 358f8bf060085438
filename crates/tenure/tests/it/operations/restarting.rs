//! A daemon that is asked to restart replaces itself: the same process, the program that stands at the same path now, and
//! every lease as it was.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli_terminal::at_terminal;
use crate::daemon::{Daemon, LIMIT};
use crate::run_support::{is_running, wait_until};

fn instance(daemon: &Daemon) -> Value {
    let status = daemon.http_over_socket().get("/v1/status").json();
    assert!(status["instance"].is_string(), "{status}");
    status["instance"].clone()
}

/// Restarts it by the command, which finds it by its breadcrumb.
#[track_caller]
fn restart(daemon: &mut Daemon) -> String {
    let answer = daemon.tenure(&["admin", "restart"]);
    assert_eq!(answer.code, 0, "{}\n{}", answer.all(), daemon.said());
    daemon.wait_until_ready();
    answer.out
}

/// A copy of the binary, so that it can be replaced.
fn copied(to: &Path) {
    let draft = to.with_extension("draft");
    fs::copy(env!("CARGO_BIN_EXE_tenure"), &draft).unwrap();
    fs::rename(draft, to).unwrap();
}

/// Whether the daemon's process runs this file.
fn runs(daemon: &Daemon, program: &Path) -> bool {
    let identity = |path: PathBuf| {
        let found = fs::metadata(path).unwrap();
        (found.dev(), found.ino())
    };
    identity(PathBuf::from(format!("/proc/{}/exe", daemon.pid()))) == identity(program.to_owned())
}

#[test]
fn leases_outlive_a_restart_and_the_process_stays() {
    let mut daemon = Daemon::start();
    let heartbeat = daemon.acquire(&json!({"resources": ["a"], "holder": "h", "ttl_ms": 60_000}));
    let mut lines = daemon.lines();
    let connection = lines.ask(&json!({"acquire": {"resources": ["b"], "holder": "c"}}))["acquired"].clone();
    let (pid, before) = (daemon.pid(), instance(&daemon));
    let out = restart(&mut daemon);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(out, format!("restarted: version {version}, pid {pid}, 2 leases\n"));
    assert_ne!(instance(&daemon), before);
    assert_eq!(daemon.get("/v1/status").json()["pid"], pid);
    assert!(lines.try_next().is_ok_and(|line| line.is_none()), "the connection is closed");

    let path = format!("/v1/leases/{}", heartbeat["lease_id"].as_str().unwrap());
    let renewed = daemon.post(&format!("{path}/heartbeat"), &json!({"epoch": heartbeat["epoch"]})).json();
    assert_eq!(renewed["valid_ms"], 59_699, "{renewed}");
    let found = daemon.get(&path).json();
    for field in ["state", "epoch", "fence", "holder", "resources", "granted_at"] {
        assert_eq!(found[field], heartbeat[field], "{field} of {found}");
    }
    // The holder over the socket has at least five seconds to resume what its connection kept.
    let resume = json!({"resume": {"lease_id": connection["lease_id"], "epoch": connection["epoch"]}});
    let resumed = daemon.lines().ask(&resume);
    assert_eq!((&resumed["resumed"]["liveness"], &resumed["resumed"]["epoch"]), (&json!("alive"), &json!(2)));

    restart(&mut daemon);
    daemon.stop();
    let verified = daemon.tenure(&["log", "verify", "DIR/data", "--json"]);
    let verified: Value = serde_json::from_str(&verified.out).unwrap();
    assert_eq!((&verified["sound"], &verified["ended_cleanly"]), (&json!(true), &json!(true)), "{verified}");
}

#[test]
fn the_command_says_what_is_true_as_json_and_asks_at_a_terminal() {
    let mut daemon = Daemon::start();
    let before = instance(&daemon);
    let no = at_terminal(&mut daemon.desk.command(&["admin", "restart", "--quiet"]), 200, "n\n");
    assert!(no.text.contains("restart the daemon? [y/N]"), "{}", no.text);
    assert_eq!((no.code, instance(&daemon)), (1, before.clone()));
    let answer = daemon.tenure(&["admin", "restart", "--json"]);
    let answered: Value = serde_json::from_str(&answer.out).unwrap_or_else(|_| panic!("{}", answer.all()));
    daemon.wait_until_ready();
    assert_eq!(
        answered,
        json!({
            "restarted": true, "pid": daemon.pid(), "leases": 0, "instance": instance(&daemon),
            "version": env!("CARGO_PKG_VERSION"), "previous_version": env!("CARGO_PKG_VERSION"),
        })
    );
    assert_ne!(answered["instance"], before);
}

#[test]
fn the_program_that_stands_at_the_path_now_is_what_starts() {
    let mut daemon = Daemon::prepared(&[]);
    let program = daemon.path("tenure");
    copied(&program);
    daemon = daemon.with_binary(&program);
    daemon.start_again();
    // As a package manager does it: another file under the same name. The old one has no name any more.
    copied(&program);
    assert!(!runs(&daemon, &program));
    restart(&mut daemon);
    assert!(runs(&daemon, &program));
    copied(&program);
    restart(&mut daemon);
    assert!(runs(&daemon, &program), "a daemon that replaced itself knows its path too");
}

#[test]
fn a_link_that_points_elsewhere_now_is_followed_anew() {
    let mut daemon = Daemon::prepared(&[]);
    let (first, second, link) = (daemon.path("tenure-1"), daemon.path("tenure-2"), daemon.path("tenure"));
    copied(&first);
    copied(&second);
    symlink(&first, &link).unwrap();
    daemon = daemon.with_binary(&link);
    daemon.start_again();
    assert!(runs(&daemon, &first));
    fs::remove_file(&link).unwrap();
    symlink(&second, &link).unwrap();
    restart(&mut daemon);
    assert!(runs(&daemon, &second));
}

#[test]
fn a_program_that_cannot_be_run_is_an_error_before_anything_stops() {
    let mut daemon = Daemon::prepared(&[]);
    let program = daemon.path("tenure");
    copied(&program);
    daemon = daemon.with_binary(&program);
    daemon.start_again();
    let before = instance(&daemon);
    let refused = |daemon: &Daemon, why: &str| {
        let answer = daemon.tenure(&["admin", "restart"]);
        assert_eq!(answer.code, 3, "{}", answer.all());
        assert!(answer.err.contains("DIR/tenure") && answer.err.contains(why), "{}", answer.all());
        assert_eq!(instance(daemon), before, "it goes on");
    };
    fs::remove_file(&program).unwrap();
    refused(&daemon, "No such file or directory");
    fs::create_dir(&program).unwrap();
    refused(&daemon, "it is not a file");
    fs::remove_dir(&program).unwrap();
    fs::write(&program, "").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    refused(&daemon, "Permission denied");
    daemon.stop();
}

#[test]
fn a_program_that_does_not_start_is_said_and_fatal() {
    let mut daemon = Daemon::prepared(&[]);
    let program = daemon.path("tenure");
    copied(&program);
    daemon = daemon.with_binary(&program);
    daemon.start_again();
    fs::remove_file(&program).unwrap();
    fs::write(&program, "\u{7f}ELF of some other machine").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let answer = daemon.tenure(&["admin", "restart", "--timeout", "1s"]);
    assert_eq!(answer.code, 3, "{}", answer.all());
    assert!(answer.err.contains("did not answer again within 1s"), "{}", answer.all());
    assert!(answer.err.contains("hint: "), "{}", answer.all());
    assert_eq!(daemon.code(), 3, "{}", daemon.said());
    let said = daemon.said();
    let line = said.lines().last().unwrap();
    let shown = program.display();
    assert!(
        said.contains(&format!("cannot execute {shown}")) && said.contains("Exec format error"),
        "{line}"
    );
    assert!(!daemon.socket().exists() && !daemon.breadcrumb().exists());
}

#[test]
fn a_wish_that_contradicts_itself_or_is_unknown_is_an_error_and_stops_nothing() {
    let mut daemon = Daemon::start();
    let before = instance(&daemon);
    for (wish, named) in [
        (json!({"advertised": "drop"}), &["withdraw", "keep"][..]),
        (json!({"advertised": "keep", "end_all": true}), &["end_all", "keep"]),
        (json!({"advertised": "keep", "end_all": true, "restart": true}), &["end_all", "keep"]),
        (json!({"restart": "yes"}), &["boolean"]),
    ] {
        let answered = daemon.post("/v1/shutdown", &wish);
        assert_eq!(answered.refusal(), (400, "invalid_request".to_owned()), "{wish}");
        let message = answered.json()["message"].as_str().unwrap().to_owned();
        assert!(named.iter().all(|name| message.contains(name)), "{wish}: {message}");
    }
    let answer = daemon.tenure(&["admin", "shutdown", "--end-all", "--advertised", "keep", "--yes"]);
    assert_eq!(answer.code, 2, "{}", answer.all());
    assert!(answer.err.contains("--end-all") && answer.err.contains("--advertised"), "{}", answer.all());
    assert_eq!(instance(&daemon), before);
    let answer = daemon.tenure(&["admin", "shutdown", "--advertised", "keep"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "stopping\n"), "{}", answer.err);
    assert_eq!(daemon.code(), 0, "{}", daemon.said());
}

#[test]
fn a_signal_takes_the_wish_to_restart_back() {
    let mut daemon = Daemon::start();
    // A call under way keeps the daemon stopping for a while, and the signal comes meanwhile.
    let mut asker = daemon.http();
    daemon.freeze();
    asker.send("POST", "/v1/shutdown", json!({"restart": true}).to_string().as_bytes()).unwrap();
    daemon.signal(Signal::TERM);
    daemon.thaw();
    assert_eq!(daemon.code(), 0, "{}", daemon.said());
}

/// Descriptors of a process, standard ones aside, that stay open in a program that takes its place.
fn stay_open(pid: &str) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let number = entry.unwrap().file_name().into_string().unwrap();
        let described = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
        // None: it was closed meanwhile.
        let Some(flags) = described.lines().find_map(|line| line.strip_prefix("flags:")) else { continue };
        let is_closed = i64::from_str_radix(flags.trim(), 8).unwrap() & i64::from(libc::O_CLOEXEC) != 0;
        if !is_closed && number.parse::<u32>().unwrap() > 2 {
            let path = fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap_or_default();
            open.insert(format!("{number} {}", path.display()));
        }
    }
    open
}

#[test]
fn no_descriptor_outlives_a_restart() {
    let mut daemon = Daemon::start();
    let _connections = (daemon.lines(), daemon.tcp());
    // What the test was started with is no descriptor of the daemon's own.
    let inherited = stay_open("self");
    let of_daemon = |daemon: &Daemon| &stay_open(&daemon.pid().to_string()) - &inherited;
    assert_eq!(of_daemon(&daemon), BTreeSet::new());
    restart(&mut daemon);
    assert_eq!(of_daemon(&daemon), BTreeSet::new());
}

#[test]
fn a_supervisor_hears_of_a_reload_and_of_no_stop() {
    let mut daemon = Daemon::prepared(&[]);
    let path = daemon.path("notify");
    let notices = UnixDatagram::bind(&path).unwrap();
    notices.set_read_timeout(Some(LIMIT)).unwrap();
    daemon = daemon
        .with_variable("NOTIFY_SOCKET", path.to_str().unwrap())
        .with_variable("WATCHDOG_USEC", "30000000");
    let hear_until = |wanted: &str| {
        let mut heard: Vec<String> = Vec::new();
        while !heard.iter().any(|line| line == wanted) {
            let mut bytes = [0; 4096];
            let length = notices.recv(&mut bytes).unwrap_or_else(|error| panic!("{error}: {heard:?}"));
            heard.extend(String::from_utf8_lossy(&bytes[..length]).lines().map(str::to_owned));
        }
        heard
    };
    daemon.spawn();
    hear_until("READY=1");
    daemon.wait_until_ready();
    restart(&mut daemon);
    let heard = hear_until("READY=1");
    let at = |wanted: &str| heard.iter().position(|line| line.starts_with(wanted));
    assert!(at("RELOADING=1").is_some() && at("MONOTONIC_USEC=").is_some(), "{heard:?}");
    assert_eq!(at("STOPPING=1"), None, "{heard:?}");
    // Recovery may take longer than the watchdog waits: it is patient until the daemon is ready again.
    let usec: Vec<&str> = heard.iter().filter_map(|line| line.strip_prefix("WATCHDOG_USEC=")).collect();
    assert_eq!(usec, ["600000000", "30000000"], "{heard:?}");
    daemon.signal(Signal::TERM);
    hear_until("STOPPING=1");
    assert_eq!(daemon.code(), 0, "{}", daemon.said());
}

#[test]
fn a_daemon_of_a_command_is_not_restarted() {
    // A command that does without a daemon is one itself, and ends with what it was run for.
    let desk = crate::cli_desk::Desk::new();
    let mut command = desk.command(&["--standalone", "register", "app", "_http._tcp", "80"]);
    fs::create_dir(desk.path().join("user")).unwrap();
    let mut child = command.env("XDG_RUNTIME_DIR", desk.path().join("user")).spawn().unwrap();
    let socket = || {
        let places = fs::read_dir(desk.path().join("user")).unwrap();
        places.map(|entry| entry.unwrap().path().join("tenure.sock")).find(|path| path.exists())
    };
    wait_until("a socket", LIMIT, || socket().is_some());
    let endpoint = format!("unix:{}", socket().unwrap().display());
    for wish in [&["admin", "restart"][..], &["admin", "shutdown", "--advertised", "keep"]] {
        let answer = desk.tenure(&[wish, &["--endpoint", &endpoint]].concat());
        assert_eq!(answer.code, 2, "{}", answer.all());
        assert!(answer.err.contains("ends with the command"), "{}", answer.all());
    }
    assert!(is_running(child.id() as i32));
    child.kill().unwrap();
    child.wait().unwrap();
}
