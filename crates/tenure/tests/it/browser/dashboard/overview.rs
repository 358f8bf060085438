//! Overview: what there is at a glance.

use serde_json::json;

use super::Board;

#[test]
fn an_empty_daemon_teaches_its_first_command() {
    let board = Board::begin();
    board.visit("");
    board.tab.wait_for_text("Nothing is held yet");
    board.tab.wait_for_text("tenure lease acquire");
    assert_eq!(board.tab.run("return document.querySelector('[data-count=total]').textContent"), "0");
    board.tab.assert_clean();
}

#[test]
fn counts_follow_what_happens() {
    let board = Board::begin();
    board.visit("");
    let count = |what: &str, number: &str| {
        board.tab.wait_until_with(
            "document.querySelector(`[data-count='${given[0]}']`).textContent === given[1]",
            &[json!(what), json!(number)],
        );
    };
    count("total", "0");
    let a = board.acquire("a", "alice", json!({}));
    let b = board.acquire("b", "bob", json!({"grace_ms": 600_000}));
    board.acquire("c", "bob", json!({"reserve_ms": 60_000}));
    count("total", "3");
    count("alive", "2");
    count("reserved", "1");
    count("holders", "2");
    board.post(&format!("/v1/leases/{b}/drain"), &json!({}));
    count("draining", "1");
    board.post(&format!("/v1/leases/{a}/revoke"), &json!({"reclaim": false}));
    count("revoking", "1");
    count("alive", "0");
    let release = json!({"epoch": board.lease(&b)["epoch"]});
    board.post(&format!("/v1/leases/{b}/release"), &release);
    count("total", "2");
    let ended = board.tab.wait_until("document.querySelector('.ended .end-reason')?.closest('li').innerText");
    assert!(ended.as_str().unwrap().contains('b'), "{ended}");
    board.tab.wait_until("document.querySelectorAll('.ending [data-lease-id]').length === 2");
    board.tab.assert_clean();
}

#[test]
fn a_pool_is_a_grid_of_slots_that_tell_who_holds_them() {
    let board = Board::begin();
    board.set_pool("tuner", 4);
    board.visit("");
    board.tab.wait_for_text("0 of 4");
    let body = json!({"pools": {"tuner": 2}, "holder": "kitchen", "ttl_ms": 60_000});
    let lease = board.daemon.acquire(&body)["lease_id"].as_str().unwrap().to_owned();
    board.tab.wait_for_text("2 of 4");
    let standings =
        board.tab.run("return [...document.querySelectorAll('.slot')].map((s) => s.dataset.standing)");
    assert_eq!(standings, json!(["alive", "alive", "free", "free"]));
    board.tab.thing("button", "tuner/3: free");
    board.tab.click("button", "tuner/1: alive, held by kitchen");
    board
        .tab
        .wait_until_with("document.getElementById('panel').dataset.leaseId === given[0]", &[json!(lease)]);
    board.set_pool("tuner", 6);
    board.tab.wait_for_text("2 of 6");
    board.tab.assert_clean();
}

#[test]
fn health_says_how_the_daemon_is() {
    let board = Board::begin();
    board.visit("");
    let health = |what: &str| {
        let selector = format!("[data-health='{what}']");
        board.tab.wait_until_with("document.querySelector(given[0])?.textContent", &[json!(selector)])
    };
    let daemon = health("daemon");
    assert!(daemon.as_str().unwrap().contains(&format!("pid {}", board.daemon.pid())), "{daemon}");
    assert!(daemon.as_str().unwrap().contains(env!("CARGO_PKG_VERSION")), "{daemon}");
    assert_eq!(health("breaker"), "closed");
    assert_eq!(health("mdns"), "off");
    assert!(health("log").as_str().unwrap().starts_with("lsn "));
}

#[test]
fn rates_and_latencies_are_plotted_as_they_move() {
    let board = Board::begin();
    board.visit("");
    for name in ["Grants", "Heartbeats", "Ends", "Events", "Sync", "Expiry lateness", "Renewal margin"] {
        board.tab.thing("image", name);
    }
    let lease = board.daemon.acquire(&json!({"resources": ["a"], "holder": "alice", "ttl_ms": 60_000}));
    let path = format!("/v1/leases/{}/heartbeat", lease["lease_id"].as_str().unwrap());
    board.tab.wait_until(
        "document.querySelector('[data-plot=grants] .plot-line').getAttribute('d')?.includes('L')",
    );
    crate::run_support::wait_until("heartbeats in the plot", super::LIMIT, || {
        board.post(&path, &json!({"epoch": lease["epoch"]}));
        board.tab.run("return !/^(—|0)$/.test(document.querySelector('[data-plot=heartbeats] .plot-value').textContent)") == true
    });
    board.tab.wait_until(
        "!document.querySelector('[data-plot=marginP50] .plot-value').textContent.startsWith('—')",
    );
    board
        .tab
        .wait_until("!document.querySelector('[data-plot=syncP50] .plot-value').textContent.startsWith('—')");
    board.tab.assert_clean();
}

#[test]
fn tiles_and_holders_lead_to_the_leases_they_count() {
    let board = Board::begin();
    board.acquire("a", "alice", json!({}));
    let b = board.acquire("b", "bob & co", json!({"grace_ms": 600_000}));
    board.post(&format!("/v1/leases/{b}/drain"), &json!({}));
    board.visit("");
    board.tab.wait_until("document.querySelector('[data-count=draining]').textContent === '1'");
    board.tab.click("link", "draining");
    board.wait_for_row(&b, "draining");
    assert_eq!(board.rows(), json!([["b", "bob & co", "draining"]]));
    board.visit("");
    board.tab.click("link", "bob & co");
    board.wait_for_row(&b, "draining");
    assert_eq!(board.rows(), json!([["b", "bob & co", "draining"]]));
}
