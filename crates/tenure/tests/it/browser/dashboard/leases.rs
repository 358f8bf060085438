//! Leases: the live table, and what an operator does there.

use serde_json::{Value, json};
use thirtyfour::Key;

use super::Board;

#[test]
fn the_table_follows_what_happens() {
    let board = Board::begin();
    board.visit("leases");
    board.tab.wait_for_text("No leases");
    let a = board.acquire("printer/1", "alice", json!({}));
    board.wait_for_row(&a, "alive");
    let b = board.acquire("printer/2", "bob", json!({"mode": "permanent", "ttl_ms": 0}));
    board.wait_for_row(&b, "alive");
    let rows = json!([["printer/2", "bob", "alive"], ["printer/1", "alice", "alive"]]);
    assert_eq!(board.rows(), rows, "the newest first");
    board.tab.wait_for_text("2 leases");
    board.post(&format!("/v1/leases/{a}/release"), &json!({"epoch": 1}));
    board.wait_for_no_row(&a);
    board.tab.wait_for_text("1 lease");
    board.tab.assert_clean();
}

#[test]
fn leases_are_filtered_and_sorted() {
    let board = Board::begin();
    for (resource, holder) in [("c/1", "alice"), ("a/1", "carol"), ("b/1", "bob"), ("b/2", "bob")] {
        board.acquire(resource, holder, json!({}));
    }
    let drained = board.acquire("z/1", "zoe", json!({"grace_ms": 600_000}));
    board.post(&format!("/v1/leases/{drained}/drain"), &json!({}));
    board.visit("leases");
    board.wait_for_row(&drained, "draining");
    let resources = || {
        let rows = board.rows();
        rows.as_array().unwrap().iter().map(|row| row[0].clone()).collect::<Value>()
    };
    board.tab.click("button", "Resources");
    board.tab.wait_until("document.querySelector('[aria-sort=ascending]')?.textContent === 'Resources'");
    assert_eq!(resources(), json!(["a/1", "b/1", "b/2", "c/1", "z/1"]));
    board.tab.click("button", "Resources");
    board.tab.wait_until("document.querySelector('[aria-sort=descending]')?.textContent === 'Resources'");
    assert_eq!(resources(), json!(["z/1", "c/1", "b/2", "b/1", "a/1"]));
    board.tab.fill("searchbox", "Filter leases", "BOB");
    board.tab.wait_for_text("2 of 5");
    assert_eq!(resources(), json!(["b/2", "b/1"]));
    board.tab.fill("searchbox", "Filter leases", "nobody at all");
    board.tab.wait_for_text("No lease matches the filter");
    board.tab.fill("searchbox", "Filter leases", "");
    board.tab.run("document.querySelector('[data-filter=text]').value = ''; document.querySelector('[data-filter=text]').dispatchEvent(new Event('input'))");
    board.tab.wait_for_text("5 leases");
    board.tab.click_on("[data-filter=standing][data-value=draining]");
    board.tab.wait_for_text("1 of 5");
    assert_eq!(resources(), json!(["z/1"]));
    board.tab.click_on("[data-filter=standing][data-value='']");
    board.tab.wait_for_text("5 leases");
    // What comes and goes keeps to filter and order.
    board.tab.fill("searchbox", "Filter leases", "b/");
    board.tab.wait_for_text("2 of 5");
    board.acquire("b/3", "dora", json!({}));
    board.acquire("x/3", "dora", json!({}));
    board.tab.wait_for_text("3 of 7");
    assert_eq!(resources(), json!(["b/3", "b/2", "b/1"]));
    board.tab.assert_clean();
}

/// The bar moves from one frame to the next while nobody says anything, and fills up with a heartbeat.
#[test]
fn a_countdown_runs_by_itself_and_fills_up_when_it_is_renewed() {
    let board = Board::begin();
    let id = board.acquire("a", "alice", json!({"ttl_ms": 8_000, "grace_ms": 60_000}));
    board.visit("leases");
    board.wait_for_row(&id, "alive");
    let shares = board.tab.run(
        "const fill = document.querySelector('.lease-row .countdown-fill');
         const share = () => new DOMMatrix(getComputedStyle(fill).transform).a;
         const shares = [];
         const until = performance.now() + 600;
         while (performance.now() < until) {
           shares.push(share());
           await new Promise(requestAnimationFrame);
         }
         return shares;",
    );
    let shares: Vec<f64> = shares.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    let steps = shares.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(
        steps >= shares.len() / 2 && steps >= 5,
        "it moves with most frames: {steps} of {}",
        shares.len()
    );
    assert!(shares.windows(2).all(|pair| pair[1] <= pair[0] + 1e-6 && pair[0] - pair[1] < 0.2), "{shares:?}");
    board.tab.wait_until("new DOMMatrix(getComputedStyle(document.querySelector('.lease-row .countdown-fill')).transform).a < 0.6");
    board.post(&format!("/v1/leases/{id}/heartbeat"), &json!({"epoch": 1}));
    board.tab.wait_until("new DOMMatrix(getComputedStyle(document.querySelector('.lease-row .countdown-fill')).transform).a > 0.75");
    board.wait_for_row(&id, "draining");
    board.tab.assert_clean();
}

#[test]
fn a_lease_is_drained_and_revived() {
    let board = Board::begin();
    let id = board.acquire("a", "alice", json!({"grace_ms": 600_000}));
    board.visit(&format!("leases?lease={id}"));
    board.wait_for_row(&id, "alive");
    board.tab.click("button", "Drain");
    let asked = board.dialog();
    for words in ["Drain this lease?", &id, "alice", "a", "10 m"] {
        assert!(asked.contains(words), "{words} in {asked}");
    }
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
    assert_eq!(board.lease(&id)["liveness"], "alive", "asked is not done");
    board.tab.click("button", "Drain");
    board.tab.fill("textbox", "Reason", "maintenance tonight");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    board.wait_for_row(&id, "draining");
    let lease = board.lease(&id);
    assert_eq!((&lease["liveness"], &lease["drain_cause"]), (&json!("draining"), &json!("operator")));
    board.tab.wait_until(
        "document.querySelector('#panel [data-action=drain]').getAttribute('aria-disabled') === 'true'",
    );
    board.tab.wait_for_text("the lease is already draining");
    board.tab.click("button", "Revive");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    board.wait_for_row(&id, "alive");
    assert_eq!(board.lease(&id)["liveness"], "alive");
    let story = board.daemon.get(&format!("/v1/why?lease={id}")).text();
    assert!(story.contains("maintenance tonight"), "{story}");
    board.tab.assert_clean();
}

#[test]
fn what_a_revoke_would_end_is_named_with_who_waits_for_it() {
    let board = Board::begin();
    let id = board.acquire("deploy", "alice", json!({"resources": ["deploy", "deploy/logs"]}));
    let mut waiting = board.daemon.http();
    let wants = json!({"resources": ["deploy"], "holder": "impatient bob", "wait_ms": 60_000});
    waiting.send("POST", "/v1/leases", wants.to_string().as_bytes()).unwrap();
    board.wait_for_lease(&id, "a waiter", |lease| lease["waiters"] != json!([]));
    board.visit(&format!("leases?lease={id}"));
    board.tab.click("button", "Revoke");
    let asked = board.dialog();
    for words in ["Revoke this lease?", &id, "alice", "deploy/logs", "impatient bob"] {
        assert!(asked.contains(words), "{words} in {asked}");
    }
    assert_eq!(board.tab.focused().unwrap().name, "Cancel", "Enter ends nothing by accident");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    board.wait_for_lease(&id, "the end of its authority", |lease| lease["epoch"] == 2);
    board.tab.wait_until_with(
        "['revoking', null].includes(document.querySelector(`.lease-row[data-lease-id='${given[0]}']`)?.dataset.standing ?? null)",
        &[json!(id)],
    );
    board.tab.assert_clean();
}

#[test]
fn a_lease_that_waits_for_its_reclaim_is_reclaimed() {
    let board = Board::begin();
    let id = board.acquire("a", "alice", json!({}));
    board.post(&format!("/v1/leases/{id}/revoke"), &json!({"reclaim": false}));
    board.visit(&format!("leases?lease={id}"));
    board.wait_for_row(&id, "revoking");
    board.tab.click("button", "Reclaim");
    board.answer_dialog("confirm");
    board.tab.wait_for_text("not_yet");
    assert_eq!(board.lease(&id)["state"], "revoking", "what was promised is not taken away");
    board.tab.click("checkbox", "by force");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    board.wait_for_no_row(&id);
    assert_eq!(board.lease(&id)["state"], "revoked");
}

/// Who confirms ends what was shown, and nothing that has changed hands meanwhile.
#[test]
fn the_epoch_that_was_shown_is_sent() {
    let board = Board::begin();
    let id = board.acquire("a", "alice", json!({}));
    board.visit(&format!("leases?lease={id}"));
    board.tab.click("button", "Revoke");
    board.dialog();
    board.post(&format!("/v1/leases/{id}/rebind"), &json!({"epoch": 1, "holder": "carol"}));
    board.answer_dialog("confirm");
    board.tab.wait_for_text("stale_epoch");
    assert_eq!(board.lease(&id)["state"], "active");
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
    board.tab.wait_until("document.querySelector('.lease-row .c-holder').textContent === 'carol'");
}

#[test]
fn one_lease_is_shown_with_every_field() {
    let board = Board::begin();
    let attachment = json!({"job": 7, "url": "https://example.invalid/?a=1&b=2"});
    let id = board.acquire("a", "alice", json!({"attachment": attachment, "grace_ms": 5_000}));
    board.visit("leases");
    board.wait_for_row(&id, "alive");
    board.tab.click_on(&format!(".lease-row[data-lease-id='{id}']"));
    let panel = board.tab.thing("complementary", &format!("Lease {id}"));
    assert!(panel.name.contains(&id));
    let text = board.tab.wait_until("document.querySelector('#panel [data-part=facts]').innerText && document.getElementById('panel').innerText");
    let lease = board.lease(&id);
    for words in [
        id.as_str(),
        "alice",
        "heartbeat",
        "1 m",
        "5 s",
        "\"job\": 7",
        "a=1&b=2",
        &lease["fence"].to_string(),
    ] {
        assert!(text.as_str().unwrap().contains(words), "{words} in {text}");
    }
    board.tab.press(Key::Escape);
    board.tab.wait_until("document.getElementById('panel').hidden");
    assert_eq!(board.tab.focused().unwrap().role, "grid", "back where it was");
    board.tab.assert_clean();
}

#[test]
fn a_lease_has_an_address_of_its_own() {
    let board = Board::begin();
    board.set_pool("tuner", 2);
    let body = json!({"pools": {"tuner": 1}, "holder": "kitchen", "ttl_ms": 60_000});
    let id = board.daemon.acquire(&body)["lease_id"].as_str().unwrap().to_owned();
    let address = format!("#/leases/{id}");
    let is_open = "document.getElementById('panel').dataset.leaseId === given[0] && !document.getElementById('panel').hidden";
    let is_closed = "document.getElementById('panel').hidden && location.hash === given[0]";
    board.visit("leases");
    board.wait_for_row(&id, "alive");
    board.tab.click_on(&format!(".lease-row[data-lease-id='{id}']"));
    board.tab.wait_until_with(is_open, &[json!(id)]);
    assert_eq!(board.tab.run("return location.hash"), address);
    board.tab.reload();
    board.wait_until_live();
    board.tab.wait_until_with(is_open, &[json!(id)]);
    board.tab.back();
    board.tab.wait_until_with(is_closed, &[json!("#/leases")]);
    // Closing leads back to the page that it was opened from.
    board.visit("");
    board.tab.click("button", "tuner/1: alive, held by kitchen");
    board.tab.wait_until_with(is_open, &[json!(id)]);
    assert_eq!(board.tab.run("return location.hash"), address);
    board.tab.press(Key::Escape);
    board.tab.wait_until_with(is_closed, &[json!("#/")]);
    board.visit("leases/aaaa-999999");
    board.tab.wait_until("document.querySelector('#panel .error').textContent !== ''");
}

#[test]
fn the_chips_count_what_the_filter_leaves() {
    let board = Board::begin();
    board.acquire("a/1", "alice", json!({}));
    board.acquire("b/1", "bob", json!({}));
    board.visit("leases");
    board.tab.wait_for_text("2 leases");
    let alive = "document.querySelector('.chip[data-value=alive] b').textContent === given[0]";
    board.tab.wait_until_with(alive, &[json!("2")]);
    board.tab.fill("searchbox", "Filter leases", "bob");
    board.tab.wait_until_with(alive, &[json!("1")]);
}

#[test]
fn names_are_written_out_and_cut_in_the_middle() {
    let board = Board::begin();
    let long = "poll/web/https:%2F%2Fa-rather-long-host%2Eexample%2Fwith%2Fa%2Fpath%2Fthat%2Fgoes%2Fon%2Fand%2Fends%2Fso-17";
    let id = board.acquire(long, "somebody", json!({}));
    board.tab.size(390, 780);
    board.visit("leases");
    board.wait_for_row(&id, "alive");
    assert_eq!(
        board.rows()[0][0],
        "poll/web/https://a-rather-long-host.example/with/a/path/that/goes/on/and/ends/so-17"
    );
    let ends = board.tab.run(
        "const cell = document.querySelector('.lease-row:not([hidden]) .c-resources').getBoundingClientRect();
         const tail = document.querySelector('.lease-row:not([hidden]) .cut-tail');
         const head = document.querySelector('.lease-row:not([hidden]) .cut-head');
         return [tail.textContent.endsWith('so-17'), tail.getBoundingClientRect().right <= cell.right + 1, head.scrollWidth > head.clientWidth]",
    );
    assert_eq!(ends, json!([true, true, true]), "the end is seen, the middle is cut");
    board.tab.assert_clean();
}
