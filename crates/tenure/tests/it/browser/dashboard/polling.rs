//! Polling: who polls what, what nobody polls first, and what an operator can do about it. Until somebody polls it
//! teaches.

use serde_json::{Value, json};
use thirtyfour::Key;

use super::super::pictures;
use super::Board;
use super::signing_in::guarded;
use crate::polling_http::ways::{
    ByHand, GROUP, LONG_MS, SHORT_MS, hand_over, lease_of, let_go, node, steered, target, view,
};
use crate::raw_http::Http;

/// The rows of the targets, from the top: target, state, poller, who should have it.
fn rows(board: &Board) -> Value {
    board.tab.run(
        "const cells = ['.p-target .name', '.standing', '.p-poller', '.p-should'];
         return [...document.querySelectorAll('.target-row[data-target]')]
           .filter((row) => !row.hidden)
           .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
           .map((row) => cells.map((cell) => row.querySelector(cell).textContent));",
    )
}

/// Waits until the row of a target shows a state.
#[track_caller]
fn wait_for_target(board: &Board, name: &str, state: &str) {
    let selector = format!(".target-row:not([hidden])[data-target='{name}'][data-state='{state}']");
    board.tab.wait_until_with("document.querySelector(given[0]) !== null", &[json!(selector)]);
}

#[track_caller]
fn wait_for_status(board: &Board, poller: &str, status: &str) {
    let selector = format!("[data-poller='{poller}'] [data-part=status]");
    board.tab.wait_until_with(
        "document.querySelector(given[0])?.textContent === given[1]",
        &[json!(selector), json!(status)],
    );
}

fn two(board: &Board) -> (ByHand, ByHand) {
    (ByHand::join(&board.daemon, "kitchen", LONG_MS), ByHand::join(&board.daemon, "hall", LONG_MS))
}

#[test]
fn a_daemon_where_nobody_polls_says_how_to() {
    let board = Board::begin();
    board.visit("polling");
    board.tab.wait_for_text("No pollers");
    board.tab.wait_for_text("tenure poll run");
    board.tab.assert_clean();
}

#[test]
fn what_nobody_polls_comes_first_then_what_is_uncertain() {
    let board = Board::begin();
    let (kitchen, hall) = two(&board);
    let den = ByHand::join(&board.daemon, "den", SHORT_MS * 8);
    kitchen.take(&board.daemon, "a-owned");
    let_go(&board.daemon, &kitchen.take(&board.daemon, "z-free"), "shutdown");
    board.visit(&format!("polling?group={GROUP}"));
    wait_for_target(&board, "z-free", "unowned");
    assert_eq!(rows(&board)[0][0], "z-free");
    den.take(&board.daemon, "m-silent");
    wait_for_target(&board, "m-silent", "uncertain");
    let shown = rows(&board);
    let order: Vec<&str> = shown.as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
    assert_eq!(order, ["z-free", "m-silent", "a-owned"], "{shown}");
    assert_eq!(shown[0][2], "none");
    board.tab.wait_for_text("3 targets, 3 pollers, 1 unowned, 1 uncertain");
    // It dies: its target is nobody's.
    wait_for_target(&board, "m-silent", "unowned");
    board.tab.wait_for_text("3 targets, 2 pollers, 2 unowned");
    hall.take(&board.daemon, "m-silent");
    wait_for_target(&board, "m-silent", "owned");
    board.tab.click_on(".target-row[data-target='z-free']");
    for words in ["Freed because", "shutdown", "Last polled by", "kitchen~1"] {
        board.tab.wait_for_text(words);
    }
    // As many as the page lists, whether they are polled or not.
    board.tab.wait_until("document.getElementById('badge-polling').textContent === '3'");
    board.tab.assert_clean();
}

#[test]
fn a_group_without_pollers_is_abandoned_and_can_be_chosen() {
    let board = Board::begin();
    let kitchen = ByHand::join(&board.daemon, "kitchen", LONG_MS);
    kitchen.take(&board.daemon, "s1");
    kitchen.close(&board.daemon);
    board.visit("polling");
    wait_for_target(&board, "s1", "abandoned");
    board.tab.wait_for_text("1 target, 0 pollers, 1 abandoned");
    board.acquire("poll/other/s2", "somebody", json!({}));
    board.visit(&format!("polling?group={GROUP}"));
    let chosen = "document.querySelector('[data-filter=group] option:checked')?.textContent === given[0]";
    board.tab.wait_until_with(chosen, &[json!(format!("{GROUP} (abandoned)"))]);
    board.tab.assert_clean();
}

#[test]
fn targets_whose_polls_fail_are_marked_and_counted() {
    let board = Board::begin();
    let (kitchen, hall) = two(&board);
    for name in ["s1", "s2"] {
        kitchen.take(&board.daemon, name);
    }
    kitchen.report(&board.daemon, &["s9"], &["s2"]);
    hall.report(&board.daemon, &[], &[]);
    board.visit(&format!("polling?group={GROUP}"));
    wait_for_target(&board, "s9", "unowned");
    board.tab.wait_for_text("3 targets, 2 pollers, 1 unowned, 1 failing");
    board.tab.wait_for_text("2 targets, 1 failing");
    let order: Vec<Value> = rows(&board).as_array().unwrap().iter().map(|row| row[0].clone()).collect();
    assert_eq!(order, ["s9", "s2", "s1"]);
    board.tab.click_on(".target-row[data-target='s2']");
    board.tab.wait_for_text("the last polls failed");
    board.tab.assert_clean();
}

#[test]
fn a_target_is_moved_to_another_poller() {
    let board = Board::begin();
    let (kitchen, hall) = two(&board);
    let lease = kitchen.take(&board.daemon, "s1");
    board.visit(&format!("polling?group={GROUP}"));
    board.tab.click_on(".target-row[data-target='s1']");
    board.tab.click("button", "Move");
    let asked = board.dialog();
    for words in ["Move this target?", "s1", "kitchen~1", "hall"] {
        assert!(asked.contains(words), "{words} in {asked}");
    }
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
    assert_eq!(lease_of(&board.daemon, "@pin/s1"), None, "nothing was said");
    board.tab.click("button", "Move");
    board.dialog();
    assert_eq!(board.tab.run("return document.getElementById('move-to').value"), "hall");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    assert_eq!(lease_of(&board.daemon, "@pin/s1").unwrap()["attachment"], json!({"poller": "hall"}));
    board
        .tab
        .wait_until("document.querySelector('.target-row[data-target=s1] .p-should').textContent === 'hall'");
    hand_over(&board.daemon, &lease, &hall.session);
    board
        .tab
        .wait_until("document.querySelector('.target-row[data-target=s1] .p-poller').textContent === 'hall'");
    board
        .tab
        .wait_until("document.querySelector('.target-row[data-target=s1] .more').textContent === 'pinned'");
    board.tab.click("button", "Move");
    board.dialog();
    board.tab.run("document.getElementById('move-to').value = ''");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    assert_eq!(lease_of(&board.daemon, "@pin/s1"), None);
    board.tab.wait_until("document.querySelector('.target-row[data-target=s1] .more').textContent === ''");
    board.tab.click("link", "History");
    board.tab.wait_for_text("pinned to poller hall by uid:0");
    board.tab.assert_clean();
}

#[test]
fn a_poller_is_cordoned_and_uncordoned() {
    let board = Board::begin();
    let (kitchen, _hall) = two(&board);
    kitchen.take(&board.daemon, "s1");
    board.visit(&format!("polling?group={GROUP}"));
    wait_for_status(&board, "kitchen", "online");
    board.tab.click("button", "Cordon kitchen");
    let asked = board.dialog();
    for words in ["Cordon this poller?", "kitchen~1", "1 target", GROUP] {
        assert!(asked.contains(words), "{words} in {asked}");
    }
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    wait_for_status(&board, "kitchen", "cordoned");
    assert_eq!(node(&view(&board.daemon), "kitchen~1")["status"], "cordoned");
    board
        .tab
        .wait_until("document.querySelector('.target-row[data-target=s1] .p-should').textContent === 'hall'");
    // Nothing is moved to it meanwhile.
    board.tab.click_on(".target-row[data-target='s1']");
    board.tab.click("button", "Move");
    board.dialog();
    let offered = board.tab.run(
        "return [...document.getElementById('move-to').options].filter((o) => !o.disabled).map((o) => o.value)",
    );
    assert_eq!(offered, json!(["", "hall"]));
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
    board.tab.click("button", "Uncordon kitchen");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    wait_for_status(&board, "kitchen", "online");
    board.tab.assert_clean();
}

#[test]
fn what_the_daemon_refuses_is_said_beside_the_buttons() {
    let board = Board::begin();
    let (kitchen, hall) = two(&board);
    kitchen.take(&board.daemon, "s1");
    board.visit(&format!("polling?group={GROUP}"));
    board.tab.click_on(".target-row[data-target='s1']");
    board.tab.click("button", "Move");
    board.dialog();
    hall.close(&board.daemon);
    crate::run_support::wait_until("its end", crate::daemon::LIMIT, || {
        view(&board.daemon)["live_nodes"].as_array().unwrap().len() == 1
    });
    board.answer_dialog("confirm");
    board
        .tab
        .wait_until("document.querySelector('dialog[open] .error').textContent.includes('has no poller')");
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
}

#[test]
fn who_may_only_look_is_told_so() {
    let (board, [read, _, _]) = guarded();
    let mut http = board.daemon.http_over_socket();
    let facts = json!({"instance": "kitchen~1", "weight": 1, "status": "online", "fixed_name": true});
    for name in ["@poller/kitchen", "s1"] {
        let resource = format!("poll/{GROUP}/{name}");
        let body = json!({"resources": [resource], "holder": "kitchen~1", "attachment": facts});
        assert_eq!(http.post("/v1/leases", &body).status, 201);
    }
    board.sign_in_with(&read);
    board.wait_until_live();
    board.tab.run_with("location.hash = `#/polling?group=${given[0]}`", &[json!(GROUP)]);
    board.tab.click_on(".target-row[data-target='s1']");
    board
        .tab
        .wait_until("document.querySelector('[data-action=move]').getAttribute('aria-disabled') === 'true'");
    board.tab.wait_for_text("needs scope admin");
    board.tab.click_on("[data-action=cordon]");
    board.tab.click_on("[data-action=move]");
    assert_eq!(board.tab.count("dialog[open]"), 0);
}

/// Nothing here needs a mouse.
#[test]
fn a_target_is_found_and_moved_by_the_keyboard_alone() {
    let board = Board::begin();
    let (kitchen, _hall) = two(&board);
    for name in ["s1", "s2", "s3"] {
        kitchen.take(&board.daemon, name);
    }
    board.visit("");
    board.tab.type_text("gp");
    board.tab.wait_until("location.hash === '#/polling'");
    wait_for_target(&board, "s2", "owned");
    board.tab.type_text("/");
    board.tab.wait_until("document.activeElement.matches('[data-filter=text]')");
    board.tab.type_text("s2");
    board.tab.wait_for_text("1 of 3 targets");
    board.tab.press(Key::Down);
    board.tab.wait_until("document.activeElement.matches('[role=grid]')");
    board.tab.press(Key::Enter);
    board.tab.wait_until("document.querySelector('.detail').dataset.target === 's2'");
    board.tab.type_text("m");
    assert!(board.dialog().contains("s2"));
    assert_eq!(board.tab.focused().unwrap().name, "Cancel");
    board.tab.press(Key::Tab);
    assert_eq!(board.tab.focused().unwrap().name, "Move");
    board.tab.press(Key::Enter);
    board.wait_for_no_dialog();
    assert_eq!(lease_of(&board.daemon, "@pin/s2").unwrap()["attachment"], json!({"poller": "hall"}));
    board.tab.assert_clean();
}

#[test]
fn groups_are_chosen_and_bookkeeping_is_nowhere() {
    let board = Board::begin();
    let (kitchen, _hall) = two(&board);
    kitchen.take(&board.daemon, "s1");
    steered(&board.daemon, "move", &json!({"target": "s1", "poller": "kitchen"}));
    steered(&board.daemon, "cordon", &json!({"poller": "hall"}));
    board.acquire("poll/other/o1", "somebody", json!({}));
    board.visit("polling");
    board.tab.wait_until("document.querySelector('[data-filter=group]').options.length === 2");
    board.tab.run(
        "const groups = document.querySelector('[data-filter=group]'); groups.value = 'web';
         groups.dispatchEvent(new Event('change'));",
    );
    wait_for_target(&board, "s1", "owned");
    assert_eq!(rows(&board).as_array().unwrap().len(), 1);
    assert!(!board.tab.text().contains('@'), "{}", board.tab.text());
    assert_eq!(board.tab.run("return document.getElementById('badge-polling').textContent"), "2");
    assert_eq!(board.tab.run("return location.hash"), "#/polling?group=web");
    board.tab.run(
        "const groups = document.querySelector('[data-filter=group]'); groups.value = 'other';
         groups.dispatchEvent(new Event('change'));",
    );
    wait_for_target(&board, "o1", "owned");
    assert_eq!(rows(&board)[0][2], "somebody");
    board.tab.assert_clean();
}

#[test]
fn targets_of_one_poller_are_shown_alone() {
    let board = Board::begin();
    let (kitchen, hall) = two(&board);
    for name in ["s1", "s2"] {
        kitchen.take(&board.daemon, name);
    }
    hall.take(&board.daemon, "s3");
    board.visit(&format!("polling?group={GROUP}"));
    wait_for_target(&board, "s3", "owned");
    board.tab.click_on("[data-poller=hall] [data-part=choose]");
    board.tab.wait_for_text("1 of 3 targets");
    assert_eq!(rows(&board)[0][0], "s3");
    board.tab.click_on("[data-poller=hall] [data-part=choose]");
    board.tab.wait_for_text("3 targets, 2 pollers");
    board.tab.click_on(".target-row[data-target='s3']");
    board.tab.click("button", "Open the lease");
    board.tab.wait_until("!document.getElementById('panel').hidden");
    board.tab.assert_clean();
}

#[test]
fn names_from_outside_are_text_and_lead_to_their_leases() {
    let board = Board::begin();
    let evil = "<img src=x onerror=window.pwned=1>";
    let poller = ByHand::enter(&board.daemon, evil, "evil", LONG_MS, 1, false);
    let written = "%3Cimg src=x onerror=window.pwned=1%3E";
    poller.take(&board.daemon, written);
    poller.take(&board.daemon, "%E6%97%A5%E6%9C%AC");
    poller.take(&board.daemon, "http:%2F%2Fh%2Fx");
    board.visit(&format!("polling?group={GROUP}"));
    board.tab.wait_for_text("http://h/x");
    board.tab.wait_for_text(evil);
    board.tab.click_on(".target-row[data-target='日本']");
    board.tab.click("button", "Open the lease");
    board.tab.wait_until("document.getElementById('panel').innerText.includes('poll/web/日本')");
    let found =
        board.tab.run("return [window.pwned ?? null, document.querySelectorAll('img, [onerror]').length]");
    assert_eq!(found, json!([null, 0]));
    board.tab.assert_clean();
}

/// Takes many targets over one connection.
fn fill(board: &Board, poller: &ByHand, targets: std::ops::Range<usize>) {
    let mut http: Http<_> = board.daemon.http();
    let all: Vec<usize> = targets.collect();
    for page in all.chunks(100) {
        for number in page {
            let resource = format!("poll/{GROUP}/s{number:05}");
            let body = json!({"resources": [resource], "holder": poller.instance, "session": poller.session});
            http.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
        }
        for _ in page {
            assert_eq!(http.answer().unwrap().status, 201);
        }
    }
}

#[test]
fn ten_thousand_targets_leave_the_page_usable_and_the_daemon_in_peace() {
    let board = Board::begin();
    let (kitchen, hall) = two(&board);
    fill(&board, &kitchen, 0..5_000);
    fill(&board, &hall, 5_000..10_000);
    board.visit(&format!("polling?group={GROUP}"));
    board.tab.wait_for_text("10,000 targets, 2 pollers");
    assert!(board.tab.count(".target-row") < 100, "{} rows", board.tab.count(".target-row"));
    assert!(board.tab.count("*") < 3_000);
    wait_for_target(&board, "s00000", "owned");
    board.tab.run("const rows = document.querySelector('.rows'); rows.scrollTop = rows.scrollHeight;");
    wait_for_target(&board, "s09999", "owned");
    board.tab.fill("searchbox", "Filter targets", "s04242");
    board.tab.wait_for_text("1 of 10,000 targets");
    // Five hundred changes, and the daemon is asked twice a second at most.
    board.tab.run("performance.clearResourceTimings(); window.began = performance.now();");
    for number in 0..500 {
        board.acquire(&format!("poll/{GROUP}/n{number}"), "somebody", json!({}));
    }
    board.tab.fill("searchbox", "Filter targets", "n499");
    board.tab.wait_for_text("1 of 10,500 targets");
    let asked = board.tab.run(
        "const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes('/v1/polling/'));
         return [asked.length, (performance.now() - began) / 1000];",
    );
    let (reads, secs) = (asked[0].as_f64().unwrap(), asked[1].as_f64().unwrap());
    assert!(reads <= 2.0 * secs + 2.0, "{reads} in {secs} s");
    hall.close(&board.daemon);
    board.tab.fill("searchbox", "Filter targets", "");
    board.tab.wait_for_text("5,000 unowned");
    wait_for_target(&board, "s05000", "unowned");
    board.tab.assert_clean();
}

#[test]
fn a_restart_under_the_page_changes_nothing() {
    let mut board = Board::begin();
    let (kitchen, _hall) = two(&board);
    kitchen.take(&board.daemon, "s1");
    let_go(&board.daemon, &kitchen.take(&board.daemon, "s2"), "rebalanced");
    board.daemon.set_flags(&["--port", &board.daemon.address().port().to_string()]);
    board.visit(&format!("polling?group={GROUP}"));
    wait_for_target(&board, "s2", "unowned");
    board.daemon.kill();
    board.tab.wait_until("document.documentElement.dataset.feed === 'reconnecting'");
    assert_eq!(rows(&board).as_array().unwrap().len(), 2, "what was seen stays");
    board.daemon.start_again();
    board.wait_until_live();
    wait_for_target(&board, "s2", "unowned");
    kitchen.take(&board.daemon, "s2");
    wait_for_target(&board, "s2", "owned");
}

/// A house with three pollers, one of them cordoned, and one that has just died.
#[test]
fn a_picture_of_a_group() {
    let board = Board::begin();
    let pollers: Vec<ByHand> =
        ["atlas", "forge", "vault"].iter().map(|name| ByHand::join(&board.daemon, name, LONG_MS)).collect();
    let attic = ByHand::join(&board.daemon, "attic", SHORT_MS);
    let rooms = ["kitchen", "hall", "bedroom", "cellar", "garage", "garden", "roof"];
    for (number, room) in rooms.iter().enumerate() {
        for sensor in ["temperature", "humidity"] {
            pollers[number % 3].take(&board.daemon, &format!("{room}/{sensor}"));
        }
    }
    attic.take(&board.daemon, "attic/smoke");
    attic.take(&board.daemon, "attic/temperature");
    steered(&board.daemon, "move", &json!({"target": "kitchen/humidity", "poller": "atlas"}));
    steered(&board.daemon, "cordon", &json!({"poller": "vault"}));
    board.tab.colours("light");
    board.tab.size(1280, 800);
    board.visit(&format!("polling?group={GROUP}"));
    wait_for_target(&board, "attic/smoke", "unowned");
    wait_for_status(&board, "vault", "cordoned");
    assert_eq!(target(&view(&board.daemon), "kitchen/humidity")["pinned"], true);
    board.tab.click_on(".target-row[data-target='attic/smoke']");
    board.tab.wait_for_text("Last polled by");
    // Bars that grew have come to rest.
    board.tab.run("await new Promise((resolve) => setTimeout(resolve, 400))");
    pictures::take_for_documents(&board.tab, "polling");
    board.tab.colours("dark");
    board
        .tab
        .run("await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))");
    pictures::take(&board.tab, "polling-dark");
    board.tab.size(390, 780);
    board
        .tab
        .run("await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))");
    pictures::take(&board.tab, "phone-polling");
    board.tab.assert_clean();
}
