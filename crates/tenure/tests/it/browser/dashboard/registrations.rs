//! Registrations: ours, and what is on the network. Without mDNS the network is this daemon alone.

use serde_json::{Value, json};

use super::Board;
use crate::daemon::LIMIT;
use crate::run_support::wait_until;

fn register(board: &Board, name: &str, txt: &Value) -> String {
    let service = json!({"name": name, "type": "_http._tcp", "port": 8080, "txt": txt});
    let answered = board.daemon.post("/v1/mdns/services", &service);
    assert_eq!(answered.status, 201, "{answered:?}");
    answered.json()["registered"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn ours_and_the_networks_are_shown() {
    let board = Board::begin();
    board.visit("registrations");
    board.tab.wait_for_text("No registrations");
    let id = register(&board, "My App", &json!({"path": "/start"}));
    board.tab.wait_until_with("document.querySelector(`[data-registration-id='${given[0]}']`)", &[json!(id)]);
    board.tab.wait_for_text("1 registration");
    board.tab.click("button", "_http._tcp");
    board.tab.wait_until("document.querySelector('[data-part=services] [data-service=\"My App\"]')");
    board.tab.wait_for_text("path=/start");
    board.daemon.http().delete(&format!("/v1/mdns/admin/registrations/{id}"));
    board.tab.wait_until("!document.querySelector('[data-part=services] [data-service]')");
    board.tab.wait_for_text("No registrations");
    board.tab.assert_clean();
}

#[test]
fn a_registration_is_drained_revived_and_ended() {
    let board = Board::begin();
    let id = register(&board, "My App", &json!({}));
    let state = |wanted: &str| {
        wait_until(wanted, LIMIT, || {
            let answered = board.daemon.get(&format!("/v1/mdns/admin/registrations/{id}"));
            if answered.status == 404 { wanted == "gone" } else { answered.json()["state"] == wanted }
        });
    };
    board.visit("registrations");
    board.tab.click_on(&format!("[data-registration-id='{id}']"));
    board.tab.click("button", "Drain");
    let asked = board.dialog();
    for words in ["Drain this service?", "My App", "_http._tcp", "8080", &id] {
        assert!(asked.contains(words), "{words} in {asked}");
    }
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    state("draining");
    board.tab.wait_until("document.querySelector('.registration-row .standing')?.textContent === 'draining'");
    board.tab.click("button", "Revive");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    state("alive");
    board.tab.click("button", "Unregister");
    assert!(board.dialog().contains("goodbye"));
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
    state("alive");
    board.tab.click("button", "Unregister");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    state("gone");
    board.tab.wait_for_text("This registration has ended");
    board.tab.assert_clean();
}

#[test]
fn a_web_service_is_a_link() {
    let board = Board::begin();
    let id = register(&board, "My App", &json!({"path": "/start"}));
    let service = json!({"name": "Printer", "type": "_ipp._tcp", "port": 631, "ip": "192.0.2.7"});
    let printer = board.daemon.post("/v1/mdns/services", &service).json()["registered"]["id"].clone();
    board.visit("registrations");
    board.tab.click_on(&format!("[data-registration-id='{id}']"));
    let link = board.tab.wait_until("document.querySelector('.detail .service-link')?.href");
    assert_eq!(link, "http://127.0.0.1:8080/start");
    board.tab.click_on(&format!("[data-registration-id={printer}]"));
    board.tab.wait_until("document.querySelector('.detail h2').textContent === 'Printer'");
    assert_eq!(board.tab.count(".detail .service-link"), 0, "a printer is no web page");
    board.tab.assert_clean();
}
