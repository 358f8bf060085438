//! Strings of holders and networks are text, wherever they are shown.

use serde_json::{Value, json};

use super::Board;

/// Would be seen if any of it were taken for markup. Segments between slashes are not empty, so that it is a name.
const EVIL: &str =
    r#"<img src=x onerror="window.pwned=1"><svg onload=window.pwned=1>'"><script>window.pwned=1</script>"#;
/// Would be followed if it became an address.
const ADDRESS: &str = "javascript:window.pwned=1";
/// Turns what follows around.
const TURNED: &str = "invoice\u{202e}fdp.exe";

/// Fails if anything ran, was loaded, or led somewhere.
#[track_caller]
fn assert_harmless(board: &Board) {
    let found = board.tab.run(
        "return {
           pwned: window.pwned ?? null,
           elements: document.querySelectorAll('img, iframe, object, embed, script:not([src]), [onerror], [onload], [onclick], [style*=url]').length,
           addresses: [...document.querySelectorAll('[href], [src], [action], [formaction]')]
             .flatMap((e) => ['href', 'src', 'action', 'formaction'].map((name) => e.getAttribute(name)).filter(Boolean))
             .filter((address) => !/^(#|[/](docs|assets[/][a-z-]+[.](css|js|svg))$)/.test(address))
             // The service that is registered there, whatever it is called: on this very host.
             .filter((address) => address !== 'http://127.0.0.1/'),
         }",
    );
    assert_eq!(found, json!({"pwned": null, "elements": 0, "addresses": []}), "{}", board.tab.address());
    board.tab.assert_clean();
}

/// Shown as it was written, and nothing came of it.
#[track_caller]
fn assert_shown(board: &Board, text: &str) {
    board.tab.wait_for_text(text);
    assert_harmless(board);
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn names_holders_attachments_and_reasons_of_leases_are_text() {
    let board = Board::begin();
    let attachment = json!({EVIL: EVIL, "list": [ADDRESS, {"deep": TURNED}]});
    let id = board.acquire(
        EVIL,
        &format!("holder {EVIL}"),
        json!({"attachment": attachment, "grace_ms": 600_000}),
    );
    board.acquire(ADDRESS, TURNED, json!({}));
    let mut waiting = board.daemon.http();
    let wants = json!({"resources": [EVIL], "holder": format!("waiter {EVIL}"), "wait_ms": 60_000});
    waiting.send("POST", "/v1/leases", wants.to_string().as_bytes()).unwrap();
    board.wait_for_lease(&id, "a waiter", |lease| lease["waiters"] != json!([]));
    board.post(&format!("/v1/leases/{id}/drain"), &json!({"reason": format!("reason {EVIL}")}));

    board.visit("leases");
    assert_shown(&board, EVIL);
    board.tab.wait_for_text(&format!("holder {EVIL}"));
    board.tab.wait_for_text("invoice⟨U+202E⟩fdp.exe");
    board.tab.click_on(&format!(".lease-row[data-lease-id='{id}']"));
    board.tab.wait_for_text(&format!("waiter {EVIL}"));
    // JSON escapes quotes; what was written is there all the same.
    assert_shown(&board, &Value::from(EVIL).to_string());
    board.tab.click("button", "Revoke");
    let asked = board.dialog();
    assert!(
        asked.contains(&format!("holder {EVIL}")) && asked.contains(&format!("waiter {EVIL}")),
        "{asked}"
    );
    assert_harmless(&board);
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();

    board.visit("");
    assert_shown(&board, EVIL);
    board.visit(&format!("why?lease={id}"));
    assert_shown(&board, &format!("reason {EVIL}"));
    board.visit(&format!("why?resource={}", encoded(EVIL)));
    assert_shown(&board, EVIL);
    board.visit("events");
    board.tab.run("location.hash = '#/events?from=1'");
    assert_shown(&board, EVIL);
    board.tab.wait_for_text(&format!("holder {EVIL}"));
    board.tab.click("button", "Jump to anything");
    board.tab.fill("combobox", "Jump to", "<img");
    board.tab.wait_until("document.querySelectorAll('#palette-found li').length > 1");
    assert_shown(&board, EVIL);
}

#[test]
fn names_of_pools_and_reasons_of_ends_are_text() {
    let board = Board::begin();
    let pool = EVIL.replace('/', "|");
    board.set_pool(&encoded(&pool), 2);
    let body = json!({"pools": {pool.as_str(): 1}, "holder": EVIL, "ttl_ms": 60_000});
    let id = board.daemon.acquire(&body)["lease_id"].as_str().unwrap().to_owned();
    board.visit("");
    assert_shown(&board, &pool);
    board.tab.wait_until("document.querySelector('.slot[data-standing=alive]')");
    board.tab.hover(".slot");
    board.tab.wait_for_text(&format!("{pool}/1: {EVIL}"));
    assert_harmless(&board);
    board.visit("slots");
    board.tab.wait_until_with(
        "[...document.querySelectorAll('#session-pool option')].some((o) => o.textContent === given[0])",
        &[json!(pool)],
    );
    assert_shown(&board, "1 of 2");
    board.post(&format!("/v1/leases/{id}/revoke"), &json!({"reason": format!("because {EVIL}")}));
    board.visit(&format!("leases?lease={id}"));
    assert_shown(&board, &format!("because {EVIL}"));
    board.post(&format!("/v1/leases/{id}/acknowledge"), &json!({"epoch": 1}));
    board.visit(&format!("why?lease={id}"));
    assert_shown(&board, &format!("because {EVIL}"));
    board.visit("events?from=1");
    assert_shown(&board, &format!("because {EVIL}"));
}

#[test]
fn names_and_texts_of_services_are_text() {
    let board = Board::begin();
    // An instance name has at most 63 bytes.
    let name = r#"<img src=x onerror=window.pwned=1>'"><script>pwned=1</script>"#;
    let service = json!({"name": name, "type": "_http._tcp", "port": 80, "txt": {"evil": EVIL, "a": TURNED, "path": ADDRESS}, "ip": "127.0.0.1"});
    let answered = board.daemon.post("/v1/mdns/services", &service);
    assert_eq!(answered.status, 201, "{answered:?}");
    let id = answered.json()["registered"]["id"].as_str().unwrap().to_owned();
    board.visit("registrations");
    board.tab.wait_until("document.querySelector('.chip[data-type]')");
    board.tab.click("button", "_http._tcp");
    board.tab.wait_until("document.querySelector('[data-part=services] [data-service]')");
    assert_shown(&board, name);
    board.tab.wait_for_text(&format!("evil={EVIL}"));
    board.tab.click_on(&format!("[data-registration-id='{id}']"));
    board.tab.wait_for_text("a=invoice⟨U+202E⟩fdp.exe");
    board.tab.click("button", "Unregister");
    assert!(board.dialog().contains(name));
    assert_harmless(&board);
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
    board.visit(&format!("why?registration={id}"));
    assert_shown(&board, name);
    board.visit("leases");
    assert_shown(&board, name);
}

#[test]
fn what_clients_say_of_their_sessions_is_text() {
    let board = Board::with_sessions("60s");
    let body = json!({
        "type": "stream.start", "service_ref": format!("about {EVIL}"), "client": format!("client {EVIL}"),
        "metadata": {EVIL: EVIL}, "correlation_id": EVIL,
    });
    let id = board.post("/api/v3/intents", &body)["session_id"].as_str().unwrap().to_owned();
    board.visit("slots");
    assert_shown(&board, &format!("about {EVIL}"));
    board.tab.wait_for_text(&format!("client {EVIL}"));
    board.tab.run("document.querySelector('table details').open = true");
    board.tab.click_on(&format!("[data-stop='{id}']"));
    assert!(board.dialog().contains(&format!("client {EVIL}")));
    assert_harmless(&board);
    board.answer_dialog("cancel");
    board.wait_for_no_dialog();
    board.post(&format!("/api/v3/sessions/{id}/fail"), &json!({"reason": format!("failed {EVIL}")}));
    assert_shown(&board, &format!("failed: failed {EVIL}"));
    board.visit(&format!("why?session={id}"));
    assert_shown(&board, EVIL);
    board.visit("events?from=1");
    assert_shown(&board, &format!("client {EVIL}"));
}

#[test]
fn what_the_page_itself_is_given_is_text() {
    let board = Board::begin();
    board.acquire("a", "alice", json!({}));
    for page in [
        "why?subject=",
        "why?lease=",
        "leases?text=",
        "leases?lease=",
        "leases?standing=",
        "events?from=",
        "nowhere?",
        "polling?group=",
    ] {
        board.visit(&format!("{page}{}", encoded(EVIL)));
        let kept = board.tab.run("return window.pwned ?? null");
        assert_eq!(kept, Value::Null, "{page}");
        let elements =
            board.tab.run("return document.querySelectorAll('img, script:not([src]), [onerror]').length");
        assert_eq!(elements, 0, "{page}");
        assert_eq!(board.tab.run("return window.witnessed"), json!([]), "{page}");
    }
    board.visit("slots");
    board.tab.fill("textbox", "About", EVIL);
    board.visit("leases");
    board.tab.fill("searchbox", "Filter leases", EVIL);
    board.tab.wait_for_text("No lease matches the filter");
    assert_eq!(board.tab.run("return [window.pwned ?? null, window.witnessed]"), json!([null, []]));
}

/// The page's policy would stop what got through all the same.
#[test]
fn the_policy_of_the_page_is_strict() {
    let board = Board::begin();
    let policy = board.daemon.get("/").header("content-security-policy").unwrap().to_owned();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    for banned in ["unsafe-inline", "unsafe-eval", "*", "http:", "https:"] {
        assert!(!policy.contains(banned), "{policy}");
    }
    board.visit("");
    let tried = board.tab.run(
        "const tried = {};
         try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>'); tried.markup = 'done'; } catch (e) { tried.markup = e.name; }
         // Not from the driver's own script, which may.
         await new Promise((resolve) => setTimeout(() => {
           try { (0, eval)('1'); tried.eval = 'done'; } catch (e) { tried.eval = e.name; }
           resolve();
         }));
         const script = document.createElement('script');
         try { script.textContent = 'window.pwned = 1'; document.body.append(script); } catch (e) { tried.script = e.name; }
         tried.pwned = window.pwned ?? null;
         tried.elsewhere = await fetch('http://127.0.0.1:1/').then(() => 'done', () => 'refused');
         return tried;",
    );
    assert_eq!(tried["markup"], "TypeError", "{tried}");
    assert_ne!(tried["eval"], "done", "{tried}");
    assert_eq!((&tried["pwned"], &tried["elsewhere"]), (&Value::Null, &json!("refused")), "{tried}");
}
