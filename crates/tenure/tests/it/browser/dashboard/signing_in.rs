//! Signing in: a token typed into the page, or the address that `tenure open` prints.

use serde_json::json;

use super::Board;
use crate::browser::pictures;
use crate::daemon::Daemon;

/// A daemon that wants a token of everybody who comes over TCP; with a token for each scope.
pub(super) fn guarded() -> (Board, [String; 3]) {
    let mut daemon = Daemon::prepared(&["--token-file", "DIR/tokens"]);
    let tokens = ["read", "hold", "admin"].map(|scope| {
        let made =
            daemon.tenure(&["--quiet", "token", "new", scope, "--scope", scope, "--file", "DIR/tokens"]);
        assert_eq!(made.code, 0, "{}", made.all());
        made.out.trim().to_owned()
    });
    daemon.start_again();
    (Board::on(daemon), tokens)
}

impl Board {
    #[track_caller]
    pub(super) fn sign_in_with(&self, token: &str) {
        self.tab.goto(self.url("/"));
        self.tab.wait_for_text("Sign in");
        self.tab.fill("textbox", "Token", token);
        self.tab.click("button", "Sign in");
    }

    /// Takes a lease over the socket, whose caller needs no token.
    #[track_caller]
    fn acquire_over_socket(&self, resource: &str) -> String {
        let body = json!({"resources": [resource], "holder": "alice", "ttl_ms": 60_000, "grace_ms": 60_000});
        let answered = self.daemon.http_over_socket().post("/v1/leases", &body);
        assert_eq!(answered.status, 201, "{answered:?}");
        answered.json()["lease_id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn caller(&self) -> String {
        self.tab
            .wait_until(
                "!document.getElementById('caller').hidden && document.getElementById('caller').textContent",
            )
            .as_str()
            .unwrap()
            .to_owned()
    }
}

#[test]
fn a_stranger_is_told_how_to_sign_in_and_shown_nothing() {
    let (board, _) = guarded();
    let id = board.acquire_over_socket("secret-resource");
    board.tab.goto(board.url("/#/leases"));
    board.tab.wait_until("document.documentElement.dataset.feed === 'signed-out'");
    board.tab.wait_for_text("tenure open");
    let text = board.tab.text();
    assert!(!text.contains("secret-resource") && !text.contains(&id), "{text}");
    assert_eq!(board.tab.focused().map(|thing| thing.name), Some("Token".to_owned()));
    assert_eq!(board.tab.run("return document.getElementById('token').type"), "password");
    board.tab.fill("textbox", "Token", "tenure_wrong");
    board.tab.click("button", "Sign in");
    board.tab.wait_until("document.documentElement.dataset.feed === 'signed-out'");
    board.tab.wait_for_text("Sign in");
    board.tab.wait_until("document.documentElement.dataset.feed === 'signed-out'");
}

#[test]
fn a_token_signs_this_tab_in_and_is_kept_nowhere_else() {
    let (board, [_, _, admin]) = guarded();
    let id = board.acquire_over_socket("printer");
    board.sign_in_with(&admin);
    board.wait_until_live();
    assert!(board.caller().starts_with("token:admin · admin"), "{}", board.caller());
    board.visit("leases");
    board.wait_for_row(&id, "alive");
    let kept = board.tab.run(
        "return JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])",
    );
    assert!(!kept.as_str().unwrap().contains(&admin), "{kept}");
    board.tab.reload();
    board.tab.wait_for_text("Sign in");
}

#[test]
fn what_a_scope_does_not_allow_is_disabled_and_says_why() {
    let (board, [read, _, _]) = guarded();
    let id = board.acquire_over_socket("printer");
    board.sign_in_with(&read);
    board.wait_until_live();
    assert!(board.caller().starts_with("token:read · read"), "{}", board.caller());
    board.tab.run_with("location.hash = `#/leases?lease=${given[0]}`", &[json!(id)]);
    board.wait_for_row(&id, "alive");
    board.tab.wait_until(
        "document.querySelector('#panel [data-action=revoke]').getAttribute('aria-disabled') === 'true'",
    );
    board.tab.wait_for_text("needs scope admin");
    board.tab.click("button", "Revoke");
    assert_eq!(board.tab.count("dialog[open]"), 0);
    board.tab.run("location.hash = '#/sessions'");
    board.tab.wait_for_text("needs scope hold");
}

#[test]
fn the_address_that_open_prints_signs_in_once() {
    let (board, _) = guarded();
    let id = board.acquire_over_socket("printer");
    let opened = board.daemon.tenure(&["open"]);
    assert_eq!(opened.code, 0, "{}", opened.all());
    let address = opened.out.trim().to_owned();
    let (_, code) = address.split_once("/sign-in#").unwrap();
    // As the desktop opens it: by the file, which leads there.
    let lead = board.daemon.desk.path().join("machine/open.html");
    assert!(lead.exists(), "{}", opened.all());
    board.tab.goto(format!("file://{}", lead.display()));
    board.tab.wait_for_text("Continue only if that was you");
    assert!(!board.tab.address().contains(code), "{}", board.tab.address());
    assert_eq!(board.tab.focused().map(|thing| thing.name), Some("Sign in".to_owned()));
    pictures::take(&board.tab, "sign-in");
    board.tab.click("button", "Sign in");
    board.wait_until_live();
    assert_eq!(
        board.tab.run("return [location.pathname, location.search, location.hash, document.cookie]"),
        json!(["/", "", "", ""])
    );
    assert!(board.caller().contains(":0 · admin"), "{}", board.caller());
    // Signed in means that things can be done, too.
    board.visit(&format!("leases?lease={id}"));
    board.tab.click("button", "Drain");
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    board.wait_for_row(&id, "draining");
    board.tab.reload();
    board.wait_until_live();
    board.tab.assert_clean();
    // All tabs of this origin are signed in, and a session of `/api/v3` is this user's too.
    let started = board.tab.run(
        "const { TenureSession } = await import('/assets/tenure-session.js');
         const session = await TenureSession.start({ resources: ['of-the-page'] });
         await session.stop();
         return session.id",
    );
    let session =
        board.daemon.http_over_socket().get(&format!("/api/v3/sessions/{}", started.as_str().unwrap()));
    assert!(session.json()["client"].as_str().unwrap().starts_with("uid:"), "{session:?}");
    board.tab.click("button", "Sign out");
    board.tab.wait_for_text("tenure open");
    assert_eq!(board.tab.run("return localStorage.getItem('tenure-page')"), json!(null));
    board.tab.goto(&address);
    board.tab.wait_for_text("Continue only if that was you");
    board.tab.click("button", "Sign in");
    board.tab.wait_for_text("This code was used already");
    board.tab.goto(board.url("/sign-in"));
    board.tab.wait_for_text("This address has no sign-in code");
    board.tab.goto(board.url("/"));
    board.tab.wait_for_text("Sign in");
}

#[test]
fn a_cookie_that_lost_its_page_value_shows_nothing() {
    let (board, _) = guarded();
    board.acquire_over_socket("secret-resource");
    let address = board.daemon.tenure(&["open"]).out.trim().to_owned();
    board.tab.goto(&address);
    board.tab.wait_for_text("Continue only if that was you");
    board.tab.click("button", "Sign in");
    board.wait_until_live();
    // As in another service's hands, which receives the cookie and not what this origin keeps.
    board.tab.run("localStorage.clear()");
    board.tab.reload();
    board.tab.wait_until("document.documentElement.dataset.feed === 'signed-out'");
    assert!(!board.tab.text().contains("secret-resource"), "{}", board.tab.text());
}
