//! Events: the live tail, and what happened from any position on.

use serde_json::{Value, json};

use super::Board;

impl Board {
    /// Positions and kinds of the events that are shown, from the top.
    fn events(&self) -> Value {
        self.tab.run(
            "return [...document.querySelectorAll('.event-row[data-lsn]')]
               .filter((row) => !row.hidden)
               .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
               .map((row) => [Number(row.dataset.lsn), row.dataset.kind]);",
        )
    }

    #[track_caller]
    fn wait_for_event(&self, kind: &str, subject: &str) {
        self.tab.wait_until_with(
            "[...document.querySelectorAll('.event-row:not([hidden])')].some((row) => row.dataset.kind === given[0] && row.innerText.includes(given[1]))",
            &[json!(kind), json!(subject)],
        );
    }
}

#[test]
fn the_tail_shows_what_happens_as_it_happens() {
    let board = Board::begin();
    board.visit("events");
    let id = board.acquire("printer", "alice", json!({}));
    board.wait_for_event("granted", "printer");
    board.post(&format!("/v1/leases/{id}/release"), &json!({"epoch": 1}));
    board.wait_for_event("released", "printer");
    board.set_pool("tuner", 3);
    board.wait_for_event("pool_defined", "tuner");
    let shown = board.events();
    let positions: Vec<u64> =
        shown.as_array().unwrap().iter().map(|event| event[0].as_u64().unwrap()).collect();
    assert!(positions.is_sorted_by(|a, b| a > b), "the newest first: {shown}");
    board.tab.assert_clean();
}

#[test]
fn a_paused_tail_stands_still_and_catches_up() {
    let board = Board::begin();
    board.visit("events");
    board.acquire("a", "alice", json!({}));
    board.wait_for_event("granted", "a");
    board.tab.click_on("[data-action=pause]");
    let before = board.events();
    board.acquire("b", "bob", json!({}));
    board.acquire("c", "carol", json!({}));
    board.tab.wait_for_text("2 new");
    assert_eq!(board.events(), before);
    board.tab.click_on("[data-action=pause]");
    board.wait_for_event("granted", "carol");
    assert_eq!(board.events().as_array().unwrap().len(), before.as_array().unwrap().len() + 2);
}

#[test]
fn it_begins_at_any_position_and_goes_on_live() {
    let board = Board::begin();
    for number in 0..20 {
        board.acquire(&format!("r/{number}"), "alice", json!({}));
    }
    let list = board.daemon.get("/v1/leases").json();
    let from = list["lsn"].as_u64().unwrap() - 4;
    board.visit("events");
    board.tab.fill("textbox", "From position", &from.to_string());
    board.tab.click("button", "Show from there");
    // The newest events stood there before, earlier ones among them; for a moment there are none.
    board.tab.wait_until_with(
        "((shown) => shown.includes(given[1]) && Math.min(...shown) >= given[0])(
             [...document.querySelectorAll('.event-row[data-lsn]:not([hidden])')].map((row) => Number(row.dataset.lsn)))",
        &[json!(from), json!(from + 4)],
    );
    let shown = board.events();
    assert_eq!(shown[0][0], from, "oldest first, from that position on: {shown}");
    board.acquire("new", "bob", json!({}));
    board.wait_for_event("granted", "new");
    assert_eq!(board.tab.run("return location.hash"), format!("#/events?from={from}"));
    board.tab.click("button", "Back to the newest");
    board.tab.wait_until("location.hash === '#/events'");
    board.tab.assert_clean();
}

#[test]
fn events_are_filtered_by_kind_and_lead_to_their_story() {
    let board = Board::begin();
    board.visit("events");
    let id = board.acquire("printer", "alice", json!({}));
    board.post(&format!("/v1/leases/{id}/release"), &json!({"epoch": 1}));
    board.wait_for_event("released", "printer");
    board.tab.click_on("[data-filter=kind][data-value=released]");
    board.tab.wait_until(
        "[...document.querySelectorAll('.event-row[data-lsn]')].filter((row) => !row.hidden).length === 1",
    );
    assert_eq!(board.events()[0][1], "released");
    board.tab.click_on(".event-row[data-kind=released]");
    board.tab.wait_until_with("location.hash === `#/why?lease=${given[0]}`", &[json!(id)]);
    board.tab.wait_for_text("alice");
}

#[test]
fn the_page_begins_with_what_happened_before_and_at_any_time() {
    let board = Board::begin();
    let id = board.acquire("printer", "alice", json!({}));
    board.post(&format!("/v1/leases/{id}/release"), &json!({"epoch": 1}));
    board.visit("events");
    board.wait_for_event("released", "printer");
    board.wait_for_event("granted", "printer");
    // A time after those and before the next.
    let time = board.tab.run("return Date.now() + 2000");
    board.tab.wait_until_with("Date.now() > given[0] + 1000", std::slice::from_ref(&time));
    board.acquire("scanner", "bob", json!({}));
    board.wait_for_event("granted", "scanner");
    board.tab.run_with(
        "const at = new Date(given[0]);
         const two = (n) => String(n).padStart(2, '0');
         const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
         document.querySelector('[data-filter=time]').value = `${day}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;",
        &[time],
    );
    board.tab.click("button", "Show from there");
    board.tab.wait_until("location.hash.startsWith('#/events?from=')");
    board.wait_for_event("granted", "scanner");
    let shown = board.events();
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    board.tab.assert_clean();
}
