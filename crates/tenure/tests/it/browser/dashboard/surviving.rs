//! A daemon that goes and comes back under an open page.

use std::fs;

use serde_json::json;

use super::super::proxy::{Fault, Proxy};
use super::Board;

impl Board {
    /// Starts it where it was, so that the page finds it.
    #[track_caller]
    fn start_in_place(&mut self) {
        let port = self.daemon.address().port().to_string();
        self.daemon.set_flags(&["--port", &port]);
        self.daemon.start_again();
    }

    #[track_caller]
    fn wait_until_cut_off(&self) {
        self.tab.wait_until("document.documentElement.dataset.feed === 'reconnecting'");
        self.tab.wait_until("!document.getElementById('banner').hidden");
    }
}

#[test]
fn a_page_says_that_the_daemon_is_gone_and_goes_on_when_it_is_back() {
    let mut board = Board::begin();
    let kept = board.acquire("kept", "alice", json!({}));
    let released = board.acquire("released", "bob", json!({"mode": "permanent", "ttl_ms": 0}));
    board.visit("leases");
    board.wait_for_row(&kept, "alive");
    board.daemon.stop();
    board.wait_until_cut_off();
    board.tab.wait_for_text("Reconnecting");
    board.wait_for_row(&kept, "alive");
    board.start_in_place();
    board.wait_until_live();
    board.tab.wait_until("document.getElementById('banner').hidden");
    board.post(&format!("/v1/leases/{released}/release"), &json!({"epoch": 1}));
    board.wait_for_no_row(&released);
    let new = board.acquire("new", "carol", json!({}));
    board.wait_for_row(&new, "alive");
    assert_eq!(board.rows(), json!([["new", "carol", "alive"], ["kept", "alice", "alive"]]));
    // Whatever page is shown goes on, too.
    board.tab.run("location.hash = '#/events'");
    board.acquire("later", "dora", json!({}));
    board.tab.wait_for_text("later");
}

#[test]
fn nothing_stale_stays_after_a_daemon_came_back_without_its_data() {
    let mut board = Board::begin();
    board.set_pool("tuner", 4);
    let id = board.acquire("a", "alice", json!({}));
    board.visit("leases");
    board.wait_for_row(&id, "alive");
    board.tab.run_with("location.hash = `#/leases?lease=${given[0]}`", &[json!(id)]);
    board.daemon.kill();
    board.wait_until_cut_off();
    fs::remove_dir_all(board.daemon.data_dir()).unwrap();
    board.start_in_place();
    board.wait_until_live();
    board.wait_for_no_row(&id);
    board.tab.wait_for_text("No leases");
    let other = board.acquire("b", "bob", json!({}));
    board.wait_for_row(&other, "alive");
    assert_eq!(board.rows(), json!([["b", "bob", "alive"]]));
    board.tab.run("location.hash = '#/'");
    board.tab.wait_for_text("No pools");
}

#[test]
fn a_stream_that_breaks_is_taken_up_without_a_gap() {
    let board = Board::begin();
    let proxy = Proxy::before(board.daemon.address());
    board.tab.goto(proxy.url("/#/leases"));
    board.wait_until_live();
    let mut ids = Vec::new();
    for round in 0..5 {
        let open = proxy.seen("GET", "/v1/events").len();
        proxy.fault("GET", "/v1/events", 1, Fault::Broken);
        proxy.cut();
        ids.push(board.acquire(&format!("r/{round}"), "alice", json!({})));
        crate::run_support::wait_until("another stream", super::LIMIT, || {
            proxy.seen("GET", "/v1/events").len() > open + 1
        });
        board.wait_until_live();
    }
    for id in &ids {
        board.wait_for_row(id, "alive");
    }
    board.tab.wait_for_text("5 leases");
}
