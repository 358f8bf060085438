//! Pictures for the README and the guides: a daemon with some life in it, each page, light and dark.

use std::net::TcpStream;

use serde_json::{Value, json};
use thirtyfour::Key;

use super::super::pictures;
use super::Board;
use crate::daemon::Daemon;
use crate::raw_http::Http;

/// Pictures that the documents show.
const IN_DOCUMENTS: &[&str] = &["overview-light", "revoke-light"];

/// Leases with heartbeats to send, and the connection they are sent over.
struct Life {
    http: Http<TcpStream>,
    beating: Vec<(String, Value)>,
    round: usize,
}

impl Life {
    /// A house: tuners, build machines, printers, a deployment that somebody waits for.
    fn of(board: &Board) -> Self {
        let mut life = Self { http: board.daemon.http(), beating: Vec::new(), round: 0 };
        board.set_pool("gpu", 12);
        board.set_pool("build", 24);
        board.set_pool("licence", 6);
        let rooms = ["living room", "kitchen", "bedroom"];
        for room in rooms {
            let body = json!({"type": "stream.start", "client": room, "service_ref": "1:0:19:283D:3FB", "metadata": {"room": room}});
            board.post("/api/v3/intents", &body);
        }
        for (job, size) in [("train-7", 4), ("eval-2", 1), ("notebook", 2)] {
            life.hold(
                board,
                json!({"pools": {"gpu": size}, "holder": format!("{job}@atlas"), "ttl_ms": 30_000}),
            );
        }
        for runner in 1..=15 {
            let ttl_ms = 16_000 + 2_000 * (runner % 7);
            let holder = format!("runner-{runner:02}@forge");
            life.hold(
                board,
                json!({"pools": {"build": 1}, "holder": holder, "ttl_ms": ttl_ms, "grace_ms": 120_000}),
            );
        }
        for (id, _) in life.beating.iter().rev().step_by(6).take(2) {
            board.post(&format!("/v1/leases/{id}/drain"), &json!({"reason": "new image tonight"}));
        }
        for (resource, holder) in
            [("deploy/production", "ci@forge"), ("db/migrations", "ci@forge"), ("printer/2", "alice@desk")]
        {
            life.hold(board, json!({"resources": [resource], "holder": holder, "ttl_ms": 45_000, "attachment": {"pipeline": 4711, "commit": "9f2c1ab"}}));
        }
        board.acquire("leader/scheduler", "node-b@rack-3", json!({"mode": "permanent", "ttl_ms": 0}));
        board.acquire("backup/nightly", "cron@vault", json!({"reserve_ms": 300_000}));
        let earlier = board.acquire("printer/1", "alice@desk", json!({}));
        board.post(&format!("/v1/leases/{earlier}/amend"), &json!({"epoch": 1, "attachment": {"pages": 12}}));
        board.post(&format!("/v1/leases/{earlier}/release"), &json!({"epoch": 1}));
        let drained = board.acquire("printer/1", "bob@desk", json!({"grace_ms": 90_000, "ttl_ms": 60_000}));
        board.post(&format!("/v1/leases/{drained}/drain"), &json!({"reason": "paper is out"}));
        let revoked = board.acquire("scanner", "carol@desk", json!({"ttl_ms": 80_000}));
        board.post(&format!("/v1/leases/{revoked}/revoke"), &json!({"reason": "moved to the other floor"}));
        for number in 0..6 {
            let id = board.acquire(&format!("job/{number}"), "worker@atlas", json!({}));
            board.post(&format!("/v1/leases/{id}/release"), &json!({"epoch": 1}));
        }
        life
    }

    /// Services, of which the overview knows nothing yet: without mDNS it would show some and that none is advertised.
    fn register(board: &Board) {
        for (name, kind, port, txt) in [
            ("Kitchen display", "_http._tcp", 8080, json!({"path": "/"})),
            ("Media server", "_http._tcp", 8096, json!({"version": "10"})),
            ("Laser printer", "_ipp._tcp", 631, json!({"rp": "printers/laser"})),
        ] {
            let service = json!({"name": name, "type": kind, "port": port, "txt": txt});
            assert_eq!(board.daemon.post("/v1/mdns/services", &service).status, 201);
        }
    }

    fn hold(&mut self, board: &Board, body: Value) {
        let lease = board.daemon.acquire(&body);
        self.beating.push((lease["lease_id"].as_str().unwrap().to_owned(), lease["epoch"].clone()));
    }

    /// Heartbeats of some of them, a job that comes and goes, and a probe that is not heard of again.
    fn go_on(&mut self, board: &Board) {
        self.round += 1;
        for (index, (id, epoch)) in self.beating.iter().enumerate() {
            if (index * 7 + self.round).is_multiple_of(14) {
                self.http.post(&format!("/v1/leases/{id}/heartbeat"), &json!({"epoch": epoch}));
            }
        }
        let id = board.acquire(&format!("job/{}", 100 + self.round), "worker@atlas", json!({}));
        board.post(&format!("/v1/leases/{id}/release"), &json!({"epoch": 1}));
        if self.round.is_multiple_of(4) {
            let probe = json!({"ttl_ms": 1_000, "grace_ms": 0});
            board.acquire(&format!("probe/{}", self.round), "sensor@roof", probe);
        }
    }
}

/// A daemon whose host and directory are nobody's: both are shown.
fn somewhere() -> Daemon {
    let elsewhere = r#"hostname atlas && mount --bind "$HOME" /var/lib && exec "$0" "$@""#;
    let mut daemon = Daemon::prepared(&["--data-dir", "/var/lib/tenure"])
        .with_launcher(&["unshare", "--uts", "--mount", "sh", "-c", elsewhere])
        .with_variable("TENURE_SESSIONS_LEASE_TTL", "60s")
        .with_variable("TENURE_SESSIONS_HEARTBEAT_INTERVAL", "1")
        .with_variable("TENURE_SESSIONS_POOLS", "tuner=4");
    daemon.start_again();
    daemon
}

#[test]
fn pictures_of_every_page() {
    let board = Board::on(somewhere());
    let mut life = Life::of(&board);
    let deploy = board.daemon.get("/v1/resources/deploy%2Fproduction").json();
    let deploy = deploy["lease_id"].as_str().unwrap().to_owned();
    let mut waiting = board.daemon.http();
    let wants = json!({"resources": ["deploy/production"], "holder": "hotfix@laptop", "wait_ms": 600_000});
    waiting.send("POST", "/v1/leases", wants.to_string().as_bytes()).unwrap();
    board.tab.colours("light");
    board.visit("");
    // The plots have something to show.
    let began = board.tab.run("return performance.now()");
    crate::run_support::wait_until("twenty seconds of life", std::time::Duration::from_secs(60), || {
        life.go_on(&board);
        board.tab.run_with(
            "await new Promise((resolve) => setTimeout(resolve, 350)); return performance.now() - given[0] > 20000",
            std::slice::from_ref(&began),
        ) == true
    });
    let both = |name: &str| {
        for scheme in ["light", "dark"] {
            board.tab.colours(scheme);
            board.tab.run(
                "await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))",
            );
            let file = format!("{name}-{scheme}");
            if IN_DOCUMENTS.contains(&file.as_str()) {
                pictures::take_for_documents(&board.tab, &file);
            } else {
                pictures::take(&board.tab, &file);
            }
        }
    };
    board.tab.size(1280, 860);
    board.tab.wait_until("document.querySelectorAll('.slot[data-standing=alive]').length >= 20");
    // As high as the page is down to its first row of charts.
    board.tab.size(1280, 1200);
    let bottom =
        "return Math.ceil(document.querySelector('.plots .plot').getBoundingClientRect().bottom) + 6";
    let height = board.tab.run(bottom).as_u64().unwrap();
    board.tab.size(1280, u32::try_from(height).unwrap());
    both("overview");
    board.tab.size(1280, 860);

    life.go_on(&board);
    board.visit("leases");
    board.wait_for_row(&deploy, "alive");
    // Every time that is left has been read, and bars that were filled up have come to rest.
    board.tab.wait_until("![...document.querySelectorAll('.lease-row:not([hidden]) .countdown-words')].some((w) => w.textContent === '…')");
    board.tab.run("await new Promise((resolve) => setTimeout(resolve, 400))");
    both("leases");
    board.tab.run_with("location.hash = `#/leases?lease=${given[0]}`", &[json!(deploy)]);
    board.tab.wait_for_text("hotfix@laptop");
    both("lease");
    board.tab.click("button", "Revoke");
    board.tab.wait_until("document.querySelector('dialog[open]')?.innerText.includes('hotfix@laptop')");
    both("revoke");
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
    board.tab.press(Key::Escape);

    board.visit("why?resource=printer%2F1");
    board.tab.wait_for_text("paper is out");
    both("why");
    Life::register(&board);
    board.visit("registrations");
    board.tab.wait_for_text("Media server");
    board.tab.click("button", "_http._tcp");
    board.tab.wait_until("document.querySelectorAll('[data-part=services] [data-service]').length === 2");
    both("registrations");
    board.visit("slots");
    board.tab.wait_until("document.querySelector('#session-pool').value === 'tuner'");
    board.tab.click("button", "Start a slot session");
    board.tab.wait_until("document.querySelector('[data-word=renewed]')");
    both("slots");
    board.visit("events?from=1");
    board.tab.wait_until("document.querySelectorAll('.event-row').length > 20");
    both("events");

    board.tab.size(390, 780);
    board.visit("");
    both("phone-overview");
    board.visit("leases");
    both("phone-leases");
    board.tab.assert_clean();
}
