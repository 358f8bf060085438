//! Overview: what there is at a glance.

use serde_json::json;
use thirtyfour::Key;

use super::Board;

#[test]
fn an_empty_daemon_teaches_its_first_command() {
    let board = Board::begin();
    board.visit("");
    board.tab.wait_for_text("No leases yet");
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
    board.tab.press(Key::Escape);
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
    assert!(health("log").as_str().unwrap().starts_with("position "));
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

#[test]
fn a_tip_is_kept_up_to_date_and_ends_with_its_page() {
    let board = Board::begin();
    board.set_pool("tuner", 2);
    let body = json!({"pools": {"tuner": 1}, "holder": "kitchen", "ttl_ms": 4_000, "grace_ms": 60_000});
    let lease = board.daemon.acquire(&body);
    let path = format!("/v1/leases/{}/heartbeat", lease["lease_id"].as_str().unwrap());
    board.visit("");
    board.tab.wait_until("document.querySelector('.slot[data-standing=alive]')");
    board.tab.hover(".slot");
    board.tab.wait_until("/kitchen — alive/.test(document.getElementById('tip').textContent)");
    for _ in 0..7 {
        board.post(&path, &json!({"epoch": lease["epoch"]}));
        let tip = board.tab.run(
            "await new Promise((resolve) => setTimeout(resolve, 1000)); return document.getElementById('tip').textContent",
        );
        assert!(!tip.as_str().unwrap().contains(" 0.0 s left"), "{tip}");
    }
    board.tab.wait_until("/, [1-3][.][0-9] s left$/.test(document.getElementById('tip').textContent)");
    board.tab.run("location.hash = '#/leases'");
    board.tab.wait_until("document.getElementById('tip').hidden");
    board.tab.assert_clean();
}

#[test]
fn what_ended_before_the_page_was_opened_is_shown() {
    let board = Board::begin();
    let id = board.acquire("printer", "alice", json!({}));
    board.post(&format!("/v1/leases/{id}/release"), &json!({"epoch": 1}));
    board.visit("");
    board.tab.wait_until("document.querySelector('.ended li')?.innerText.includes('printer')");
    board.visit("why");
    board.tab.wait_for_text("Ended lately");
    board.tab.click_on(".suggestions .chip");
    board.tab.wait_until_with("location.hash === `#/why?lease=${given[0]}`", &[json!(id)]);
    board.tab.assert_clean();
}

#[test]
fn one_lease_is_one_and_fills_the_whole_bar() {
    let board = Board::begin();
    board.acquire("printer", "alice", json!({}));
    board.visit("");
    board.tab.wait_for_text("live lease");
    board.tab.wait_for_no_text("live leases");
    board.tab.wait_until(
        "(() => { const width = (selector) => document.querySelector(selector).getBoundingClientRect().width;
           return width('.share[data-standing=alive]') >= width('.shares') - 0.5; })()",
    );
    let order = board.tab.run(
        "const top = (selector) => document.querySelector(selector).getBoundingClientRect().top;
         return top('[aria-label=Pools]') < top('.plots')",
    );
    assert_eq!(order, true, "pools stand before the charts");
}

#[test]
fn the_overview_counts_slot_sessions_as_the_navigation_does() {
    let board = Board::with_sessions("60s");
    board.post("/api/v3/intents", &json!({"type": "stream.start", "client": "kitchen"}));
    board.visit("");
    board.tab.wait_until("document.querySelector('[data-count=slots]').textContent === '1'");
    assert_eq!(board.tab.run("return document.getElementById('badge-slots').textContent"), "1");
    board.tab.click("link", "slot sessions");
    board.tab.wait_for_text("1 live");
    assert_eq!(board.tab.run("return location.hash"), "#/slots");
}
