//! Sessions: held by this very page, and everybody else's.

use serde_json::{Value, json};

use super::super::pictures;
use super::Board;
use crate::daemon::LIMIT;
use crate::run_support::wait_until;

impl Board {
    /// Starts a session by the form; gives its id.
    #[track_caller]
    fn start_by_hand(&self) -> String {
        let before = self.tab.count(".session-card");
        self.tab.wait_until("document.querySelector('#session-pool').value === 'tuner'");
        self.tab.click("button", "Start a slot session");
        self.tab.wait_until_with(
            "document.querySelectorAll('.session-card').length > given[0]",
            &[json!(before)],
        );
        self.tab
            .run("return document.querySelector('.session-card').dataset.sessionId")
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[track_caller]
    fn session(&self, id: &str) -> Value {
        self.daemon.get(&format!("/api/v3/sessions/{id}")).json()
    }

    #[track_caller]
    fn wait_for_session(&self, id: &str, state: &str) {
        wait_until(&format!("{id} {state}"), LIMIT, || self.session(id)["state"] == state);
    }

    /// Standings of the slots that the page shows.
    fn slots(&self) -> Value {
        self.tab.run("return [...document.querySelectorAll('.slot')].map((slot) => slot.dataset.standing)")
    }
}

/// What the page is for: see a session warn, end, and give its slot back.
#[test]
fn a_session_whose_heartbeat_is_paused_warns_expires_and_frees_its_slot() {
    let board = Board::with_sessions("6s");
    board.visit("slots");
    let id = board.start_by_hand();
    assert_eq!(board.session(&id)["state"], "running");
    board.tab.wait_until("document.querySelector('.slot').dataset.standing === 'alive'");
    board.tab.wait_until("document.querySelector('[data-word=renewed]')");
    assert!(!board.tab.text().contains("Expiring soon"));
    board.tab.click("button", "Pause the heartbeat");
    board.tab.wait_for_text("Expiring soon");
    pictures::take_for_documents(&board.tab, "slots-expiring");
    assert_eq!(board.session(&id)["state"], "running", "it was warned in time");
    board.tab.thing("alert", "");
    board.wait_for_session(&id, "stopped");
    assert_eq!(board.session(&id)["reason"], "LEASE_EXPIRED");
    board.tab.wait_until("document.querySelector('[data-word=expired]')");
    board.tab.wait_until("document.querySelector('.session-card').dataset.state === 'stopped'");
    board.tab.wait_until("document.querySelector('.slot').dataset.standing === 'free'");
    board.tab.wait_for_no_text("Expiring soon");
    board.tab.click("button", "Dismiss");
    board.tab.wait_until("document.querySelectorAll('.session-card').length === 0");
}

#[test]
fn a_session_that_is_resumed_in_time_goes_on() {
    let board = Board::with_sessions("6s");
    board.visit("slots");
    let id = board.start_by_hand();
    board.tab.click("button", "Pause the heartbeat");
    board.tab.wait_for_text("Expiring soon");
    board.tab.click("button", "Resume the heartbeat");
    board.tab.wait_for_no_text("Expiring soon");
    board.tab.wait_until("document.querySelector('.session-log li').dataset.word === 'renewed'");
    assert_eq!(board.session(&id)["state"], "running");
    board.tab.assert_clean();
}

#[test]
fn a_session_goes_on_while_another_page_is_shown_and_ends_with_the_tab() {
    let board = Board::with_sessions("3s");
    board.visit("slots");
    let id = board.start_by_hand();
    board.visit("events");
    let began = board.tab.run("return performance.now()");
    board.tab.wait_until_with("performance.now() - given[0] > 4500", &[began]);
    assert_eq!(board.session(&id)["state"], "running");
    board.visit("slots");
    board.tab.wait_until("document.querySelector('.session-card')?.dataset.state === 'running'");
    board.tab.close();
    board.wait_for_session(&id, "stopped");
    assert_eq!(board.session(&id)["reason"], "USER_STOPPED");
}

#[test]
fn a_session_is_stopped_by_its_button() {
    let board = Board::with_sessions("20s");
    board.visit("slots");
    let id = board.start_by_hand();
    board.tab.click_on(".session-card [data-action=stop]");
    board.wait_for_session(&id, "stopped");
    board.tab.wait_until("document.querySelector('.session-card').dataset.state === 'stopped'");
    board.tab.wait_until(
        "[...document.querySelectorAll('.slot')].every((slot) => slot.dataset.standing === 'free')",
    );
    board.tab.assert_clean();
}

#[test]
fn a_full_pool_is_told_and_a_queued_session_gets_its_slot() {
    let board = Board::with_sessions("30s");
    let full =
        board.post("/api/v3/intents", &json!({"type": "stream.start", "count": 4, "client": "the others"}));
    let full = full["session_id"].as_str().unwrap().to_owned();
    board.visit("slots");
    board.tab.wait_until(
        "[...document.querySelectorAll('.slot')].filter((s) => s.dataset.standing === 'alive').length === 4",
    );
    assert_eq!(board.slots(), json!(["alive", "alive", "alive", "alive"]));
    board.tab.click("button", "Start a slot session");
    board.tab.wait_for_text("no_capacity");
    board.tab.fill("spinbutton", "Wait", "60");
    let queued = board.start_by_hand();
    board.tab.wait_for_text("waiting, place 1");
    assert_eq!(board.session(&queued)["state"], "new");
    // Somebody else's session is ended from the list, by name.
    board.tab.click_on(&format!("[data-stop='{full}']"));
    let asked = board.dialog();
    for words in ["Stop this slot session?", full.as_str(), "the others"] {
        assert!(asked.contains(words), "{words} in {asked}");
    }
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    board.wait_for_session(&full, "stopped");
    board.wait_for_session(&queued, "running");
    board.tab.wait_until("document.querySelector('.session-card').dataset.state === 'running'");
    let severe: Vec<String> = board
        .tab
        .console()
        .into_iter()
        .filter(|line| line.starts_with("SEVERE") && !line.contains("503"))
        .collect();
    assert!(severe.is_empty(), "{severe:?}");
}

#[test]
fn every_session_is_listed_with_state_and_reason() {
    let board = Board::with_sessions("30s");
    let start = |client: &str, about: &str| {
        let body = json!({"type": "stream.start", "client": client, "service_ref": about, "metadata": {"room": client}});
        board.post("/api/v3/intents", &body)["session_id"].as_str().unwrap().to_owned()
    };
    let kitchen = start("kitchen", "1:0:19");
    let cellar = start("cellar", "1:0:7");
    board.post(&format!("/api/v3/sessions/{cellar}/fail"), &json!({"reason": "no signal"}));
    board.visit("slots");
    board.tab.wait_until_with(
        "document.querySelector(`tr[data-session-id='${given[0]}'][data-state=running]`)",
        &[json!(kitchen)],
    );
    board.tab.wait_until_with(
        "document.querySelector(`tr[data-session-id='${given[0]}'][data-state=failed]`)",
        &[json!(cellar)],
    );
    let text = board.tab.text();
    for words in ["kitchen", "1:0:19", "cellar", "failed: no signal", "tuner/1"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    board.tab.run(
        "const choice = document.querySelector('[data-filter=state]');
         choice.value = 'failed'; choice.dispatchEvent(new Event('change', { bubbles: true }));",
    );
    board
        .tab
        .wait_until_with("!document.querySelector(`tr[data-session-id='${given[0]}']`)", &[json!(kitchen)]);
    board.tab.assert_clean();
}

#[test]
fn the_list_comes_first_and_tells_when_a_session_ended() {
    let board = Board::with_sessions("30s");
    let body = json!({"type": "stream.start", "client": "cellar"});
    let id = board.post("/api/v3/intents", &body)["session_id"].as_str().unwrap().to_owned();
    board.post(&format!("/api/v3/sessions/{id}/fail"), &json!({"reason": "no signal"}));
    board.visit("sessions");
    let row = board.tab.wait_until_with(
        "document.querySelector(`tr[data-session-id='${given[0]}'][data-state=failed]`)?.innerText",
        &[json!(id)],
    );
    for words in ["held tuner/1", "ended", "failed: no signal"] {
        assert!(row.as_str().unwrap().contains(words), "{words} in {row}");
    }
    board.tab.wait_for_text("0 live, 1 ended");
    let order = board.tab.run(
        "const top = (selector) => document.querySelector(selector).getBoundingClientRect().top;
         return top('table') < top('.session-form')",
    );
    assert_eq!(order, true);
    board.tab.assert_clean();
}
