//! A disk that fills up: grants stop, ends go on, and nothing that was acknowledged is lost even when the last byte is
//! gone. Needs root, for a file system of its own.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::mount::Mounted;
use crate::daemon::{Daemon, LIMIT};
use crate::raw_http::Answered;
use crate::run_support::wait_until;

struct Desk {
    daemon: Daemon,
    // Unmounted after the daemon has ended: fields are dropped in order.
    disk: Mounted,
}

impl Desk {
    fn new(flags: &[&str]) -> Self {
        let flags = [&["--data-dir", "DIR/disk/data"], flags].concat();
        let mut daemon = Daemon::prepared(&flags);
        let disk = Mounted::at(&daemon.path("disk"), 32 << 20);
        daemon.start_again();
        Self { daemon, disk }
    }

    fn filler(&self) -> PathBuf {
        self.daemon.path("disk/filler")
    }

    /// Takes every byte that is left.
    fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.filler()).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
    }

    fn acquire(&self, resource: &str) -> Answered {
        self.daemon.post("/v1/leases", &json!({"resources": [resource], "holder": "h", "ttl_ms": 600_000}))
    }

    fn release(&self, lease: &Value) -> Answered {
        let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
        self.daemon.post(&path, &json!({"epoch": 1}))
    }
}

#[test]
fn a_full_disk_refuses_grants_lets_go_and_recovers_when_there_is_room() {
    let desk = Desk::new(&["--log-segment-bytes", "1MiB", "--log-free-bytes", "4MiB"]);
    let held: Vec<Value> = (0..40).map(|number| desk.acquire(&format!("r/{number}")).json()).collect();
    wait_until("segments in reserve", LIMIT, || {
        let log = fs::read_dir(desk.daemon.path("disk/data/log")).unwrap();
        log.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "spare"))
            .count()
            == 2
    });
    desk.fill();
    let mut tries = 0;
    wait_until("a grant that is refused", LIMIT, || {
        tries += 1;
        desk.acquire(&format!("x/{tries}")).status != 201
    });
    let refused = desk.acquire("y");
    assert_eq!(refused.refusal(), (503, "disk_low".to_owned()), "{refused:?}");
    assert!(
        refused.header("retry-after").is_some() && refused.json()["retry_after_ms"].is_u64(),
        "{refused:?}"
    );
    assert_eq!(refused.json()["definite"], true);

    let path =
        |lease: &Value, verb: &str| format!("/v1/leases/{}/{verb}", lease["lease_id"].as_str().unwrap());
    assert_eq!(desk.daemon.post(&path(&held[0], "heartbeat"), &json!({"epoch": 1})).status, 200);
    for lease in &held[..20] {
        assert_eq!(desk.release(lease).status, 200);
    }
    let revoked = desk.daemon.post(&path(&held[20], "revoke"), &json!({}));
    assert_eq!(revoked.status, 200, "{revoked:?}");
    let reclaimed = desk.daemon.post(&path(&held[20], "reclaim"), &json!({"force": true}));
    assert_eq!(reclaimed.status, 200, "{reclaimed:?}");
    let ready = desk.daemon.get("/readyz");
    assert_eq!(ready.status, 200, "the daemon lives");
    assert!(ready.text().contains("disk_low"), "{ready:?}");
    assert_eq!(desk.daemon.get("/v1/status").json()["disk"], "low");
    assert!(desk.daemon.get("/metrics").text().contains("tenure_disk_low 1"));

    fs::remove_file(desk.filler()).unwrap();
    wait_until("a grant again", LIMIT, || desk.acquire("z").status == 201);
    assert_eq!(desk.release(&held[21]).status, 200);
    assert_eq!(desk.daemon.get("/v1/status").json()["disk"], "ok");
    wait_until("log lines of both", LIMIT, || {
        let said = desk.daemon.said();
        said.contains("is nearly full: grants are rejected") && said.contains("the disk has room")
    });
}

/// A daemon that had one snapshot when the disk was low tried no second one, let nothing go and refused grants until it was
/// restarted.
#[test]
fn a_disk_that_the_log_fills_over_restarts_is_made_room_on_by_the_daemon() {
    let mut desk = Desk::new(&["--log-segment-bytes", "1MiB", "--log-free-bytes", "22MiB"]);
    let attachment = "x".repeat(4_000);
    for life in 0..4 {
        for number in 0..600 {
            let resource = format!("{life}/{number}");
            let body =
                json!({"resources": [resource], "holder": "h", "ttl_ms": 600_000, "attachment": attachment});
            let mut granted = desk.daemon.post("/v1/leases", &body);
            wait_until("a grant", LIMIT, || {
                if granted.status != 201 {
                    assert_eq!(granted.refusal(), (503, "disk_low".to_owned()), "{granted:?}");
                    granted = desk.daemon.post("/v1/leases", &body);
                }
                granted.status == 201
            });
            assert_eq!(desk.release(&granted.json()).status, 200);
        }
        desk.daemon.stop();
        desk.daemon.start_again();
    }
    let status = desk.daemon.get("/v1/status").json();
    assert!(status["last_snapshot"].is_object(), "nothing but a low disk brings one here: {status}");
}

#[test]
fn a_disk_without_one_byte_left_stops_the_daemon_and_loses_nothing_acknowledged() {
    // Files of the log so small that the reserve is soon used up.
    let mut desk = Desk::new(&["--log-segment-bytes", "64KiB", "--log-free-bytes", "1MiB"]);
    let name = |number: usize| format!("{number}/{}", "n".repeat(200));
    let held: Vec<Value> = (0..1_500).map(|number| desk.acquire(&name(number)).json()).collect();
    desk.fill();
    let mut released = 0;
    for lease in &held {
        // The daemon may end in the middle of anything.
        let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
        let Ok(stream) = std::net::TcpStream::connect(desk.daemon.address()) else { break };
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut http = crate::raw_http::Http::new(stream, &desk.daemon.address().to_string());
        match http.try_ask("POST", &path, json!({"epoch": 1}).to_string().as_bytes()) {
            Ok(answered) if answered.status == 200 => released += 1,
            Ok(answered) => {
                assert!(answered.status >= 500, "{answered:?}");
                break;
            }
            Err(_) => break,
        }
    }
    assert!(released > 100, "the reserve takes more than {released} releases");
    if released < held.len() {
        assert_eq!(desk.daemon.code(), 3, "{}", desk.daemon.said());
        let said = desk.daemon.said();
        assert!(said.contains("No space left on device"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        desk.disk.resize(64 << 20);
        desk.daemon.start_again();
    }
    let listed = desk.daemon.get("/v1/status").json();
    let live = listed["leases"]["total"].as_u64().unwrap() as usize;
    // The one that was under way may have been done.
    assert!(
        (held.len() - released - 1..=held.len() - released).contains(&live),
        "{released} released, {live} live"
    );
    for lease in held.iter().take(released) {
        let found = desk.daemon.get(&format!("/v1/leases/{}", lease["lease_id"].as_str().unwrap())).json();
        assert_eq!(found["state"], "released", "{found}");
    }
}
