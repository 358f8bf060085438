//! Waiting: requests in line, by what they wait for.

use serde_json::json;

use super::Board;

#[test]
fn waiters_are_listed_in_order_by_what_they_wait_for() {
    let board = Board::begin();
    board.set_pool("tuner", 1);
    let id = board.acquire("deploy", "alice", json!({}));
    board.acquire("other", "zoe", json!({}));
    board.daemon.acquire(&json!({"pools": {"tuner": 1}, "holder": "kitchen", "ttl_ms": 60_000}));
    let mut waiting = Vec::new();
    for (number, (wants, holder)) in [
        (json!({"resources": ["deploy"]}), "bob"),
        (json!({"resources": ["deploy"]}), "carol"),
        (json!({"pools": {"tuner": 1}}), "cellar"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = wants;
        body["holder"] = json!(holder);
        body["wait_ms"] = json!(60_000);
        let mut http = board.daemon.http();
        http.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
        waiting.push(http);
        crate::run_support::wait_until("the waiter", super::LIMIT, || {
            board.daemon.get("/v1/status").json()["waiters"] == number + 1
        });
    }
    board.visit("");
    board.tab.wait_until("document.querySelector('[data-count=waiters]').textContent === '3'");
    board.tab.click("link", "waiting");
    board.tab.wait_for_text("3 waiting");
    assert_eq!(board.tab.run("return document.getElementById('badge-waiting').textContent"), "3");
    let listed = |resource: &str| {
        let names = "[...document.querySelectorAll(`[data-resource='${given[0]}'] li .strong`)].map((e) => e.textContent)";
        board.tab.wait_until_with(&format!("{names}.length > 0 && {names}"), &[json!(resource)])
    };
    assert_eq!(listed("deploy"), json!(["bob", "carol"]));
    assert_eq!(listed("tuner"), json!(["cellar"]));
    board.tab.wait_for_text("waits for");
    board.tab.click("link", "alice");
    board.tab.wait_until_with("document.getElementById('panel').dataset.leaseId === given[0]", &[json!(id)]);
    board.tab.assert_clean();
}
