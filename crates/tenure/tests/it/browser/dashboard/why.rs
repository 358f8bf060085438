//! Why: the story of anything, by name.

use serde_json::json;
use thirtyfour::Key;

use super::Board;

#[test]
fn the_story_of_a_lease_is_a_timeline_with_what_comes_next() {
    let board = Board::begin();
    let id = board.acquire("printer", "alice", json!({"grace_ms": 600_000}));
    board.post(&format!("/v1/leases/{id}/drain"), &json!({"reason": "paper is out"}));
    board.visit("why");
    board.tab.fill("searchbox", "Name", &id);
    board.tab.press(Key::Enter);
    board.tab.wait_until("document.querySelectorAll('.timeline .entry').length >= 3");
    let story = board.daemon.get(&format!("/v1/why?lease={id}")).json();
    let shown = board
        .tab
        .run("return [...document.querySelectorAll('.timeline .entry-text')].map((e) => e.textContent)");
    let told: Vec<_> =
        story["entries"].as_array().unwrap().iter().map(|entry| entry["text"].clone()).collect();
    assert_eq!(shown.as_array().unwrap()[..told.len()], told, "every sentence, oldest first");
    assert!(board.tab.text().contains("paper is out"));
    assert!(
        board
            .tab
            .run("return document.querySelector('[data-part=next]').textContent")
            .as_str()
            .unwrap()
            .len()
            > 4
    );
    assert_eq!(board.tab.run("return location.hash"), format!("#/why?subject={id}"));
    board.tab.assert_clean();
}

#[test]
fn anything_with_a_name_is_found() {
    let board = Board::begin();
    board.set_pool("tuner", 2);
    let id = board.acquire("printer", "alice", json!({}));
    board.post(&format!("/v1/leases/{id}/release"), &json!({"epoch": 1}));
    let registered =
        board.daemon.post("/v1/mdns/services", &json!({"name": "My App", "type": "_http._tcp", "port": 80}));
    let registered = registered.json()["registered"]["id"].as_str().unwrap().to_owned();
    board.visit("why");
    for (subject, kind) in [
        (id.as_str(), "lease"),
        ("printer", "resource"),
        (&registered, "registration"),
        (&registered[..6], "registration"),
    ] {
        board.tab.fill("searchbox", "Name", subject);
        board.tab.click("button", "Show");
        board.tab.wait_until_with(
            "document.querySelector('.story h2')?.textContent.startsWith(given[0]) && !document.querySelector('.story[aria-busy]')",
            &[json!(kind)],
        );
        assert!(board.tab.count(".timeline .entry") > 1, "{subject}");
    }
    board.tab.fill("searchbox", "Name", "nobody knows");
    board.tab.click("button", "Show");
    board.tab.wait_for_text("not_found");
    board.tab.back();
    board.tab.wait_for_text("registration");
}

#[test]
fn the_story_of_a_session_tells_how_it_ended() {
    let board = Board::with_sessions("2s");
    let started = board.daemon.post("/api/v3/intents", &json!({"type": "stream.start", "client": "kitchen"}));
    let id = started.json()["session_id"].as_str().unwrap().to_owned();
    board.visit("why");
    board.tab.wait_for_text("Why did that happen?");
    crate::run_support::wait_until("its end", super::LIMIT, || {
        board.daemon.get(&format!("/api/v3/sessions/{id}")).json()["state"] == "stopped"
    });
    board.tab.fill("searchbox", "Name", &id);
    board.tab.press(Key::Enter);
    board.tab.wait_for_text("kitchen");
    board.tab.wait_for_text("The history ends here");
}
