//! What stands in the way of a start is said once, clearly, and nothing is touched.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT, files_below};
use crate::faults::mount::Mounted;
use crate::run_support::wait_until;

#[test]
fn a_second_daemon_on_the_same_data_is_refused_and_told_who_has_it() {
    let daemon = Daemon::start();
    let flags = ["--socket", "DIR/other.sock", "--data-dir"];
    let data = daemon.data_dir();
    let mut second = Daemon::prepared(&[&flags[..], &[data.to_str().unwrap()]].concat());
    second.spawn();
    assert_eq!(second.code(), 3, "{}", second.said());
    let said = second.said();
    assert!(said.contains(&format!("pid {}", daemon.pid())), "{said}");
    assert!(said.contains("in use"), "{said}");
    assert!(!second.path("other.sock").exists());
    assert_eq!(daemon.get("/readyz").status, 200, "the first is not disturbed");
}

#[test]
fn a_second_daemon_with_the_same_everything_does_not_disturb_the_first() {
    let daemon = Daemon::start();
    let before = daemon.get("/v1/status").json();
    let port = daemon.address().port().to_string();
    let (data, socket) = (daemon.data_dir(), daemon.socket());
    let flags = ["--port", &port, "--socket", socket.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    let mut second = Daemon::prepared(&flags);
    second.spawn();
    assert_eq!(second.code(), 3, "{}", second.said());
    assert!(second.said().contains(&format!("pid {}", daemon.pid())), "{}", second.said());
    let after = daemon.http_over_socket().get("/v1/status").json();
    assert_eq!(after["pid"], before["pid"], "{after}");
}

#[test]
fn a_port_in_use_is_fatal_and_leaves_the_data_untouched() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut fresh = Daemon::prepared(&["--port", &port]);
    fresh.spawn();
    assert_eq!(fresh.code(), 3, "{}", fresh.said());
    let said = fresh.said();
    assert!(said.contains(&format!("127.0.0.1:{port}")) && said.contains("in use"), "{said}");
    assert!(!fresh.data_dir().exists(), "no data directory is left behind");
    assert!(!fresh.socket().exists() && !fresh.breadcrumb().exists());

    let mut daemon = Daemon::start();
    daemon.acquire(&json!({"resources": ["a"], "holder": "h"}));
    daemon.kill();
    let before = files_below(&daemon.data_dir());
    daemon.set_flags(&["--port", &port]);
    daemon.spawn();
    assert_eq!(daemon.code(), 3, "{}", daemon.said());
    assert!(files_below(&daemon.data_dir()) == before, "the data is as it was");
}

#[test]
fn a_socket_path_that_is_a_file_is_fatal_and_the_file_stays() {
    let mut daemon = Daemon::prepared(&[]);
    fs::write(daemon.socket(), "precious").unwrap();
    daemon.spawn();
    assert_eq!(daemon.code(), 3, "{}", daemon.said());
    assert!(
        daemon.said().contains("DIR/tenure.sock") || daemon.said().contains("tenure.sock"),
        "{}",
        daemon.said()
    );
    assert_eq!(fs::read_to_string(daemon.socket()).unwrap(), "precious");
}

#[test]
fn a_socket_that_a_killed_daemon_left_is_replaced() {
    let mut daemon = Daemon::start();
    daemon.kill();
    assert!(daemon.socket().exists() && daemon.breadcrumb().exists());
    daemon.start_again();
    assert_eq!(daemon.http_over_socket().get("/readyz").status, 200);
}

#[test]
fn the_start_says_where_it_listens_and_what_it_recovered() {
    let mut daemon = Daemon::start();
    for number in 0..3 {
        daemon.acquire(&json!({"resources": [format!("r/{number}")], "holder": "h"}));
    }
    daemon.stop();
    let before = daemon.said().len();
    daemon.start_again();
    wait_until("the last start-up line", LIMIT, || daemon.said()[before..].contains("recovered"));
    let said = daemon.said()[before..].to_owned();
    for expected in [
        format!("listening on http://{}", daemon.address()),
        format!("listening on {}", daemon.socket().display()),
        format!("data in {}", daemon.data_dir().display()),
        "recovered 3 leases in ".to_owned(),
    ] {
        assert!(said.contains(&expected), "{expected:?} is not in {said}");
    }
}

#[test]
fn it_listens_on_loopback_unless_told() {
    let daemon = Daemon::start();
    assert!(daemon.address().ip().is_loopback(), "{}", daemon.address());
    let breadcrumb: Value = serde_json::from_str(&fs::read_to_string(daemon.breadcrumb()).unwrap()).unwrap();
    assert_eq!(breadcrumb["endpoint"], format!("http://{}", daemon.address()));
    assert_eq!(breadcrumb["socket"], daemon.socket().display().to_string());
    for field in ["pid", "started_at", "version"] {
        assert!(!breadcrumb[field].is_null(), "{breadcrumb}");
    }
}

#[test]
fn a_supervisor_hears_ready_watchdog_and_stopping() {
    let mut daemon = Daemon::prepared(&[]);
    let path = daemon.path("notify");
    let notices = UnixDatagram::bind(&path).unwrap();
    notices.set_read_timeout(Some(LIMIT)).unwrap();
    daemon = daemon
        .with_variable("NOTIFY_SOCKET", path.to_str().unwrap())
        .with_variable("WATCHDOG_USEC", "200000");
    daemon.spawn();
    let hear = |wanted: &str| {
        let mut heard = Vec::new();
        for _ in 0..100 {
            let mut bytes = [0; 4096];
            let length = notices.recv(&mut bytes).unwrap();
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if text.lines().any(|line| line == wanted) {
                return;
            }
            heard.push(text);
        }
        panic!("{wanted} is not among {heard:?}");
    };
    hear("READY=1");
    // Ready means ready: the very next request is served.
    daemon.wait_until_ready();
    assert_eq!(daemon.get("/readyz").status, 200);
    for _ in 0..3 {
        hear("WATCHDOG=1");
    }
    daemon.signal(Signal::TERM);
    hear("STOPPING=1");
    assert_eq!(daemon.code(), 0, "{}", daemon.said());
}

#[test]
fn a_watchdog_is_not_fed_by_a_daemon_that_stands_still() {
    let mut daemon = Daemon::prepared(&[]);
    let path = daemon.path("notify");
    let notices = UnixDatagram::bind(&path).unwrap();
    daemon = daemon
        .with_variable("NOTIFY_SOCKET", path.to_str().unwrap())
        .with_variable("WATCHDOG_USEC", "100000");
    daemon.start_again();
    daemon.freeze();
    notices.set_nonblocking(true).unwrap();
    let mut bytes = [0; 4096];
    while notices.recv(&mut bytes).is_ok() {}
    notices.set_nonblocking(false).unwrap();
    notices.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(notices.recv(&mut bytes).is_err(), "a stopped process says nothing");
    daemon.thaw();
    notices.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(notices.recv(&mut bytes).is_ok(), "and is heard again afterwards");
}

#[test]
fn data_that_cannot_be_written_is_said_and_fatal() {
    // Root may write anywhere but on a file system that is mounted read-only.
    let mut daemon = Daemon::prepared(&["--data-dir", "DIR/disk/data"]);
    let disk = Mounted::at(&daemon.path("disk"), 512 << 20);
    daemon.start_again();
    daemon.acquire(&json!({"resources": ["a"], "holder": "h"}));
    daemon.kill();
    disk.freeze();
    let before = daemon.said().len();
    daemon.spawn();
    assert_eq!(daemon.code(), 3, "{}", daemon.said());
    let said = daemon.said()[before..].to_owned();
    assert!(said.contains("disk/data") && said.contains("Read-only file system"), "{said}");

    daemon.set_flags(&["--data-dir", "DIR/disk/elsewhere"]);
    daemon.spawn();
    assert_eq!(daemon.code(), 3, "{}", daemon.said());
    assert!(daemon.said().contains("disk/elsewhere"), "{}", daemon.said());
}

#[test]
fn a_damaged_log_is_not_served_and_the_place_is_named() {
    let mut daemon = Daemon::start();
    for number in 0..20 {
        daemon.acquire(&json!({"resources": [format!("r/{number}")], "holder": "h"}));
    }
    daemon.stop();
    let log = daemon.data_dir().join("log");
    let segment = fs::read_dir(log)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().unwrap() == "seg");
    let segment = segment.unwrap();
    // In the middle of what was written, far before its clean end.
    let mut bytes = fs::read(&segment).unwrap();
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[written / 2] ^= 4;
    fs::write(&segment, bytes).unwrap();
    let before = files_below(&daemon.data_dir());
    let said_before = daemon.said().len();
    daemon.spawn();
    assert_eq!(daemon.code(), 3, "{}", daemon.said());
    let said = daemon.said()[said_before..].to_owned();
    let name = segment.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(said.contains(&name) && said.contains("offset") && said.contains("tenure log verify"), "{said}");
    let untouched = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        files.into_iter().filter(|(path, _)| !path.ends_with("lock")).collect()
    };
    assert!(untouched(files_below(&daemon.data_dir())) == untouched(before), "nothing is cut or mended");
}
