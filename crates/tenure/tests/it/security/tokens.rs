//! The token file: what each scope may, and what happens when the file changes.

use std::fs;

use serde_json::{Value, json};

use super::peers::STRANGER;
use super::{as_token, token_line, with_tokens, write_tokens};
use crate::daemon::{Daemon, LIMIT};
use crate::raw_http::Answered;
use crate::run_support::wait_until;

const ALL: &[(&str, &str)] = &[("looker", "read"), ("worker", "hold"), ("boss", "admin")];

fn is_refused_for_want_of(answered: &Answered, scope: &str) {
    assert_eq!(answered.refusal(), (403, "forbidden".to_owned()), "{answered:?}");
    assert_eq!(answered.json()["scope"], scope, "{answered:?}");
}

#[test]
fn each_scope_may_what_it_says_and_no_more() {
    let daemon = with_tokens(ALL, &[]);
    let grant = |name: &str, resource: &str| {
        as_token(&daemon, name).post("/v1/leases", &json!({"resources": [resource], "holder": "h"}))
    };
    let lease = grant("worker", "a");
    assert_eq!(lease.status, 201, "{lease:?}");
    let path = format!("/v1/leases/{}", lease.json()["lease_id"].as_str().unwrap());

    for name in ["looker", "worker", "boss"] {
        for read in [
            "/v1/leases",
            &path,
            "/v1/status",
            "/v1/resources",
            "/v1/pools",
            "/v1/why?resource=a",
            "/metrics",
        ] {
            let answered = as_token(&daemon, name).get(read);
            assert_eq!(answered.status, 200, "{name} {read}: {answered:?}");
        }
        let checked = as_token(&daemon, name).post("/v1/check", &json!({"resource": "a", "fence": 1}));
        assert_eq!(checked.status, 200, "{name}: {checked:?}");
    }
    is_refused_for_want_of(&grant("looker", "b"), "hold");
    let session = json!({"holder": "h"});
    is_refused_for_want_of(&as_token(&daemon, "looker").post("/v1/sessions", &session), "hold");
    assert_eq!(as_token(&daemon, "worker").post("/v1/sessions", &session).status, 201);
    assert_eq!(grant("boss", "c").status, 201);

    let operator: [(&str, &str, Value); 8] = [
        ("POST", &format!("{path}/drain"), json!({})),
        ("POST", &format!("{path}/revive"), json!({})),
        ("POST", &format!("{path}/revoke"), json!({"reclaim": false})),
        ("POST", &format!("{path}/reclaim"), json!({"force": true})),
        ("PUT", "/v1/pools/p", json!({"size": 1})),
        ("DELETE", "/v1/pools/p", json!({})),
        ("POST", "/v1/breaker/reset", json!({})),
        ("POST", "/v1/backup", json!({})),
    ];
    for (method, route, body) in &operator {
        for name in ["looker", "worker"] {
            let answered = as_token(&daemon, name).ask(method, route, body.to_string().as_bytes());
            is_refused_for_want_of(&answered, "admin");
        }
    }
    for (method, route, body) in &operator {
        let answered = as_token(&daemon, "boss").ask(method, route, body.to_string().as_bytes());
        assert_eq!(answered.status, 200, "{route}: {answered:?}");
    }
    for name in ["looker", "worker"] {
        is_refused_for_want_of(&as_token(&daemon, name).post("/v1/shutdown", &json!({})), "admin");
    }
    let mut daemon = daemon;
    assert_eq!(as_token(&daemon, "boss").post("/v1/shutdown", &json!({})).status, 200);
    assert_eq!(daemon.code(), 0);
}

#[test]
fn without_a_token_that_is_known_nothing_is_answered_even_on_loopback() {
    let daemon = with_tokens(ALL, &[]);
    let refused = |answered: Answered| {
        assert_eq!(answered.refusal(), (401, "unauthorized".to_owned()), "{answered:?}");
        assert!(answered.header("www-authenticate").unwrap().starts_with("Bearer"), "{answered:?}");
        assert!(!answered.text().contains("secret"), "{answered:?}");
    };
    refused(daemon.get("/v1/leases"));
    refused(daemon.get("/metrics"));
    refused(daemon.get("/v1/events"));
    refused(daemon.post("/v1/leases", &json!({"resources": ["a"], "holder": "h"})));
    refused(daemon.post("/v1/shutdown", &json!({})));
    for shown in
        ["Bearer wrong", "Bearer ", "Bearer", "Basic c2VjcmV0LWJvc3M6", "secret-boss", "Bearer secret-bos"]
    {
        refused(daemon.http().with("authorization", shown).get("/v1/leases"));
    }
    // The scheme's case does not matter; the token's does.
    assert_eq!(daemon.http().with("authorization", "bearer secret-boss").get("/v1/leases").status, 200);
    refused(daemon.http().with("authorization", "Bearer SECRET-BOSS").get("/v1/leases"));
    // Not the hash that stands in the file either.
    let line = token_line("boss", "admin", "secret-boss");
    let hash = line.split_whitespace().nth(2).unwrap();
    refused(daemon.http().with("authorization", &format!("Bearer {hash}")).get("/v1/leases"));
}

#[test]
fn pages_for_everybody_need_no_token() {
    let daemon = with_tokens(ALL, &[]);
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs", "/assets/docs.css"] {
        assert_eq!(daemon.get(path).status, 200, "{path}");
    }
    assert!(daemon.get("/").status < 400);
}

#[test]
fn the_socket_needs_no_token() {
    let daemon = with_tokens(ALL, &[]);
    let answered = daemon.http_over_socket().get("/v1/leases");
    assert_eq!(answered.status, 200, "{answered:?}");
    let answer = daemon.lines().ask(&json!({"acquire": {"resources": ["a"], "holder": "h"}}));
    assert!(answer["acquired"].is_object(), "{answer}");
}

#[test]
fn a_changed_token_file_counts_without_a_restart() {
    let daemon = with_tokens(&[("old", "admin")], &[]);
    let status = |name: &str| as_token(&daemon, name).get("/v1/leases").status;
    assert_eq!((status("old"), status("new")), (200, 401));
    write_tokens(&daemon.path("tokens"), &[("new", "read")]);
    wait_until("the new token", LIMIT, || status("new") == 200);
    assert_eq!(status("old"), 401);
    let grant = as_token(&daemon, "new").post("/v1/leases", &json!({"resources": ["a"], "holder": "h"}));
    assert_eq!(grant.status, 403, "{grant:?}");

    // Nonsense, or no file, opens nothing and closes nothing.
    fs::write(daemon.path("tokens"), "new admin\n").unwrap();
    wait_until("a warning", LIMIT, || {
        status("new");
        daemon.said().contains("not understood")
    });
    assert_eq!((status("new"), status("old")), (200, 401));
    fs::remove_file(daemon.path("tokens")).unwrap();
    wait_until("another warning", LIMIT, || {
        status("new");
        daemon.said().contains("cannot be read")
    });
    assert_eq!((status("new"), status("old")), (200, 401));
    write_tokens(&daemon.path("tokens"), &[("old", "admin")]);
    wait_until("the old token", LIMIT, || status("old") == 200);
    assert_eq!(status("new"), 401);
}

#[test]
fn a_token_file_that_is_none_stops_the_start() {
    for text in ["boss admin nothex\n", "boss king 00\n", "boss\n"] {
        let mut daemon = Daemon::prepared(&["--token-file", "DIR/tokens"]);
        fs::write(daemon.path("tokens"), text).unwrap();
        daemon.spawn();
        assert_eq!(daemon.code(), 2, "{}", daemon.said());
        assert!(daemon.said().contains("tokens: line 1"), "{}", daemon.said());
    }
    let mut daemon = Daemon::prepared(&["--token-file", "DIR/missing"]);
    daemon.spawn();
    assert_eq!(daemon.code(), 2, "{}", daemon.said());
    assert!(daemon.said().contains("missing"), "{}", daemon.said());
    assert!(!daemon.data_dir().exists());
}

#[test]
fn what_local_programs_may_is_a_setting() {
    let grant =
        |daemon: &Daemon| daemon.post("/v1/leases", &json!({"resources": ["a"], "holder": "h"})).status;
    let revoke = |daemon: &Daemon| daemon.post("/v1/leases/0000-1/revoke", &json!({})).status;
    for (scope, read, hold, admin) in
        [("none", 401, 401, 401), ("read", 200, 403, 403), ("hold", 200, 201, 403), ("admin", 200, 201, 404)]
    {
        let daemon = Daemon::start_with(&["--auth-local", scope]).asked_by(STRANGER);
        let seen = (daemon.get("/v1/leases").status, grant(&daemon), revoke(&daemon));
        assert_eq!(seen, (read, hold, admin), "{scope}");
        assert_eq!(daemon.get("/healthz").status, 200);
        // The socket knows its peers whatever is said of TCP.
        assert_eq!(daemon.http_over_socket().put("/v1/pools/p", &json!({"size": 1})).status, 200, "{scope}");
    }
}

#[test]
fn a_token_is_made_once_and_its_file_is_not_for_everybody() {
    use std::os::unix::fs::PermissionsExt;
    let daemon = with_tokens(&[("boss", "admin")], &[]);
    let made = daemon.tenure(&["token", "new", "ci", "--scope", "hold", "--file", "DIR/tokens"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let token = made.out.trim().to_owned();
    assert!(token.len() >= 32 && !token.contains(' '), "{token:?}");
    let text = fs::read_to_string(daemon.path("tokens")).unwrap();
    assert!(!text.contains(&token) && text.contains(&token_line("ci", "hold", &token)), "{text}");
    assert_eq!(fs::metadata(daemon.path("tokens")).unwrap().permissions().mode() & 0o007, 0);
    let bearer = format!("Bearer {token}");
    let grant = || {
        daemon
            .http()
            .with("authorization", &bearer)
            .post("/v1/leases", &json!({"resources": ["a"], "holder": "h"}))
    };
    wait_until("the new token", LIMIT, || grant().status != 401);
    assert_eq!(as_token(&daemon, "boss").get("/v1/leases").status, 200, "the others stay");
    let removed = daemon.tenure(&["token", "rm", "ci", "--file", "DIR/tokens"]);
    assert_eq!(removed.code, 0, "{}", removed.err);
    wait_until("the token to be gone", LIMIT, || grant().status == 401);
}
