//! Pages of other origins, and daemons that ask for a token.

use std::time::Duration;

use serde_json::json;

use super::super::site::Site;
use super::super::tab::Tab;
use super::{in_use, prepared};
use crate::daemon::{Daemon, LIMIT};
use crate::run_support::{holds_for, wait_until};

const START: &str = "
    try {
      const { TenureSession } = await import(given[0] + '/assets/tenure-session.js');
      window.s = await TenureSession.start({ ...given[1] });
      return s.id;
    } catch (e) { return [e.name, e.code ?? null, e.status ?? null]; }
";

fn url(daemon: &Daemon) -> String {
    format!("http://{}", daemon.address())
}

#[test]
fn a_page_of_an_origin_that_is_allowed_holds_a_session_and_lets_go_of_it() {
    let site = Site::with("<!doctype html><title>A player</title>");
    let mut daemon = prepared(&["--allow-origin", &site.origin()], "6s");
    daemon.start_again();
    let tab = Tab::open();
    tab.goto(site.origin());
    let id = tab.run_with(START, &[json!(url(&daemon)), json!({"pool": "tuner"})]);
    let id = id.as_str().unwrap_or_else(|| panic!("{id} {:#?}", tab.console())).to_owned();
    tab.run("window.renewed = 0; s.on('renewed', () => { renewed += 1; });");
    tab.wait_until("renewed > 1");
    let refused = tab.run("try { await s.constructor.start({ count: 2 }); } catch (e) { return [e.code, e.retry_after_ms > 0]; }");
    assert_eq!(refused, json!(["no_capacity", true]), "what the daemon says can be read");
    tab.close();
    wait_until("the end of the session", LIMIT, || {
        daemon.get(&format!("/api/v3/sessions/{id}")).json()["reason"] == "USER_STOPPED"
    });
}

/// Browsers keep pages that were left for the back button, as they are; their timers stand still.
#[test]
fn a_page_that_comes_back_by_the_back_button_goes_on_at_once() {
    let site = Site::with("<!doctype html><title>A player</title>");
    let mut daemon = prepared(&["--allow-origin", &site.origin()], "12s");
    daemon.start_again();
    let tab = Tab::open();
    tab.goto(site.origin());
    let id = tab.run_with(START, &[json!(url(&daemon)), json!({"pool": "tuner"})]);
    tab.run("window.renewed = []; s.on('renewed', () => renewed.push(performance.now()));");
    tab.wait_until("renewed.length > 0");
    let shown = || daemon.get(&format!("/api/v3/sessions/{}", id.as_str().unwrap())).json();
    tab.goto(format!("{}/healthz", url(&daemon)));
    let silent = || shown()["last_heartbeat"].clone();
    wait_until("silence", LIMIT, || {
        let before = silent();
        holds_for(Duration::from_millis(2_000), || silent() == before)
    });
    assert_eq!(shown()["state"], "running");
    tab.back();
    // The page is the same one: its session is still in it.
    tab.run("window.since = renewed.length;");
    tab.wait_until("renewed.length > since");
    assert_eq!(shown()["state"], "running");
}

#[test]
fn a_page_of_any_other_origin_gets_nothing() {
    let site = Site::with("<!doctype html><title>Elsewhere</title>");
    let mut daemon = prepared(&["--allow-origin", "http://board.example"], "6s");
    daemon.start_again();
    let tab = Tab::open();
    tab.goto(site.origin());
    let refused = tab.run_with(START, &[json!(url(&daemon)), json!({})]);
    assert_eq!(refused[0], "TypeError", "the module itself is not handed out: {refused}");
    let status = tab.run_with(
        "try { return (await fetch(given[0] + '/api/v3/intents',
            { method: 'POST', body: JSON.stringify({ type: 'stream.start' }) })).status; } catch { return 'refused'; }",
        &[json!(url(&daemon))],
    );
    assert_eq!(status, "refused");
    let blind = tab.run_with(
        "await fetch(given[0] + '/api/v3/intents',
            { method: 'POST', mode: 'no-cors', body: JSON.stringify({ type: 'stream.start' }) }); return 'sent';",
        &[json!(url(&daemon))],
    );
    assert_eq!(blind, "sent");
    assert_eq!(in_use(&daemon), 0, "and nothing was done");
}

#[test]
fn a_token_is_shown_where_the_daemon_asks_for_one() {
    let mut daemon = prepared(&["--token-file", "DIR/tokens"], "6s");
    let token = daemon.tenure(&["token", "new", "player", "--scope", "hold", "--file", "DIR/tokens"]);
    assert_eq!(token.code, 0, "{}", token.all());
    let token = token.out.trim();
    daemon.start_again();
    let tab = Tab::open();
    tab.goto(format!("{}/healthz", url(&daemon)));
    let without = tab.run_with(START, &[json!(""), json!({})]);
    assert_eq!(without, json!(["TenureError", "unauthorized", 401]));
    let id = tab.run_with(START, &[json!(""), json!({"token": token})]);
    assert!(id.is_string(), "{id}");
    tab.run("window.renewed = 0; s.on('renewed', () => { renewed += 1; });");
    tab.wait_until("renewed > 0");
    tab.run("await s.stop()");
    assert_eq!(tab.run("return s.reason"), "USER_STOPPED");
}
