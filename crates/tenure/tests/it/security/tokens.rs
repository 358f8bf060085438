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

    write_tokens(&daemon.path("tokens"), &[("old", "admin")]);
    wait_until("the old token", LIMIT, || status("old") == 200);
    assert_eq!(status("new"), 401);
}

#[test]
fn a_readable_token_file_counts_line_by_line() {
    let daemon = with_tokens(&[("a", "admin"), ("b", "admin")], &[]);
    let status = |name: &str| as_token(&daemon, name).get("/v1/leases").status;
    assert_eq!((status("a"), status("b")), (200, 200));
    let text = [token_line("b", "admin", "secret-b"), "c tenure_slip\n".to_owned()].concat();
    put(&daemon, &text);
    wait_until("the removed token to end", LIMIT, || status("a") == 401);
    assert_eq!(status("b"), 200, "a slip in another line takes nothing from this one");
    let said = daemon.said();
    assert!(
        said.contains("ignored an invalid line of a credential file") && said.contains("line 2"),
        "{said}"
    );
    assert!(!said.contains("tenure_slip"), "{said}");
    let metrics = as_token(&daemon, "b").get("/metrics").text();
    assert!(metrics.contains("tenure_token_lines_rejected 1\n"), "{metrics}");
    let status = as_token(&daemon, "b").get("/v1/status").json();
    let file = &status["token_file"];
    assert_eq!((&file["lines"], &file["lines_rejected"]), (&json!(1), &json!(1)), "{status}");
    assert_eq!(file["lines_refused"], 1, "the former name: {status}");
    assert_eq!(file["path"], daemon.path("tokens").display().to_string());
}

#[test]
fn while_the_token_file_cannot_be_read_tokens_keep_and_release_and_do_nothing_else() {
    let daemon = with_tokens(&[("worker", "hold"), ("boss", "admin")], &[]);
    let ask = |name: &str, path: &str, body: Value| as_token(&daemon, name).post(path, &body);
    let take = |resource: &str| {
        ask("worker", "/v1/leases", json!({"resources": [resource], "holder": "h", "ttl_ms": 60_000})).json()
    };
    let (kept, released) = (take("a"), take("b"));
    let session = ask("worker", "/v1/sessions", json!({"holder": "h"})).json();
    let verb =
        |lease: &Value, verb: &str| format!("/v1/leases/{}/{verb}", lease["lease_id"].as_str().unwrap());
    let epoch = json!({"epoch": 1});
    fs::remove_file(daemon.path("tokens")).unwrap();
    let list = || as_token(&daemon, "boss").get("/v1/leases");
    wait_until("the file to be missed", LIMIT, || list().status == 401);
    let refused = list();
    assert_eq!(refused.refusal(), (401, "unauthorized".to_owned()));
    assert!(refused.text().contains(&daemon.path("tokens").display().to_string()), "{refused:?}");

    assert_eq!(ask("worker", &verb(&kept, "heartbeat"), epoch.clone()).status, 200);
    assert_eq!(ask("worker", &verb(&released, "release"), epoch.clone()).status, 200);
    let path = format!("/v1/sessions/{}", session["session"].as_str().unwrap());
    assert_eq!(ask("worker", &format!("{path}/heartbeat"), json!({})).status, 200);
    assert_eq!(as_token(&daemon, "worker").ask("DELETE", &path, b"").status, 200);
    for (name, path, body) in [
        ("worker", "/v1/leases".to_owned(), json!({"resources": ["c"], "holder": "h"})),
        ("worker", verb(&kept, "amend"), json!({"epoch": 1, "attachment": {}})),
        ("worker", "/v1/sessions".to_owned(), json!({"holder": "h"})),
        ("worker", "/v1/sign_in".to_owned(), json!({})),
        ("boss", verb(&kept, "revoke"), json!({})),
        ("boss", "/v1/backup".to_owned(), json!({})),
        ("boss", "/v1/shutdown".to_owned(), json!({})),
    ] {
        assert_eq!(ask(name, &path, body).refusal(), (401, "unauthorized".to_owned()), "{path}");
    }
    for path in ["/metrics", "/v1/status", "/v1/caller", "/v1/events"] {
        assert_eq!(as_token(&daemon, "boss").get(path).status, 401, "{path}");
    }
    assert_eq!(as_token(&daemon, "boss").get("/healthz").status, 200, "a page for everybody stays one");
    assert_eq!(ask("stranger", &verb(&kept, "heartbeat"), epoch.clone()).status, 401);
    write_tokens(&daemon.path("tokens"), &[("boss", "admin")]);
    wait_until("the file to be read", LIMIT, || list().status == 200);
    assert_eq!(ask("worker", &verb(&kept, "heartbeat"), epoch).status, 401, "its line is gone");
}

#[test]
fn a_token_file_that_strangers_can_write_stops_the_start() {
    use std::os::unix::fs::{PermissionsExt, chown};
    for (mode, uid, repair) in [(0o666, 0, "chmod go-w"), (0o660, 0, "chmod go-w"), (0o600, 4_711, "chown 0")]
    {
        let mut daemon = Daemon::prepared(&["--token-file", "DIR/tokens"]);
        write_tokens(&daemon.path("tokens"), &[("boss", "admin")]);
        fs::set_permissions(daemon.path("tokens"), fs::Permissions::from_mode(mode)).unwrap();
        chown(daemon.path("tokens"), Some(uid), None).unwrap();
        daemon.spawn();
        assert_eq!(daemon.code(), 2, "{}", daemon.said());
        let said = daemon.said();
        assert!(said.contains(&format!("{repair} {}", daemon.path("tokens").display())), "{said}");
        assert!(!daemon.data_dir().exists());
    }
}

#[test]
fn while_strangers_can_write_the_token_file_it_counts_as_unreadable() {
    use std::os::unix::fs::PermissionsExt;
    let daemon = with_tokens(&[("boss", "admin")], &[]);
    let status = || as_token(&daemon, "boss").get("/v1/leases").status;
    assert_eq!(status(), 200);
    fs::set_permissions(daemon.path("tokens"), fs::Permissions::from_mode(0o664)).unwrap();
    wait_until("the file to be distrusted", LIMIT, || status() == 401);
    let said = daemon.said();
    assert!(said.contains("cannot use a credential file") && said.contains("chmod go-w"), "{said}");
    // Over the socket nobody shows a token, and the state is that of this moment all the same.
    let told = |file: &Value| {
        assert!(file["unusable_since"].as_str().unwrap() >= file["read_at"].as_str().unwrap(), "{file}");
        assert!(file["error"].as_str().unwrap().contains("chmod go-w"), "{file}");
    };
    told(&daemon.http_over_socket().get("/v1/status").json()["token_file"]);
    told(&daemon.lines().ask(&json!({"status": {}}))["status"]["token_file"]);
    let shown = daemon.tenure(&["status"]);
    assert!(shown.out.contains("UNUSABLE since "), "{}", shown.all());
    fs::set_permissions(daemon.path("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
    wait_until("the file to be trusted", LIMIT, || status() == 200);
    let file = daemon.http_over_socket().get("/v1/status").json()["token_file"].clone();
    assert_eq!((&file["unusable_since"], &file["error"]), (&Value::Null, &Value::Null), "{file}");
}

/// Puts a text in the place of the token file.
fn put(daemon: &Daemon, text: &str) {
    fs::write(daemon.path("tokens.draft"), text).unwrap();
    fs::rename(daemon.path("tokens.draft"), daemon.path("tokens")).unwrap();
}

#[test]
fn a_prefix_bounds_every_way_to_hold_something() {
    let tokens = [("ci", "hold:build/*,mdns/_http._tcp/ci*"), ("all", "hold"), ("boss", "admin")];
    let daemon = with_tokens(&tokens, &[]);
    let ask = |name: &str, method: &str, path: &str, body: &Value| {
        as_token(&daemon, name).ask(method, path, body.to_string().as_bytes())
    };
    let pool = json!({"size": 2});
    for name in ["gpu", "build/gpu", "build/slots"] {
        let path = format!("/v1/pools/{}", name.replace('/', "%2F"));
        let made = ask("boss", "PUT", &path, &pool);
        assert_eq!(made.status, 200, "{made:?}");
    }
    let outside = |path: &str, body: Value, resource: &str| {
        let refused = ask("ci", "POST", path, &body);
        let told = refused.json();
        let code = told.get("error").or(told.get("code")).cloned();
        assert_eq!((refused.status, code), (403, Some(json!("outside_scope"))), "{path} {body}: {refused:?}");
        assert_eq!(told["resource"], resource, "{refused:?}");
        assert_eq!(told["prefixes"], json!(["build/*", "mdns/_http._tcp/ci*"]), "{refused:?}");
    };
    let lease = |more: Value| {
        let mut body = json!({"holder": "h"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    outside("/v1/leases", lease(json!({"resources": ["deploy"]})), "deploy");
    outside("/v1/leases", lease(json!({"resources": ["build/a", "deploy"]})), "deploy");
    outside("/v1/leases", lease(json!({"resources": ["builds/a"]})), "builds/a");
    outside("/v1/leases", lease(json!({"pools": {"gpu": 1}})), "gpu");
    outside("/v1/leases", lease(json!({"resources": ["build/a"], "pools": {"gpu": 1}})), "gpu");
    outside("/v1/leases", lease(json!({"resources": ["poll/g/t"], "wait_ms": 1})), "poll/g/t");
    outside("/api/v3/intents", json!({"type": "stream.start"}), "tuner");
    outside("/api/v3/intents", json!({"type": "stream.start", "pool": "gpu"}), "gpu");
    outside("/api/v3/intents", json!({"type": "stream.start", "resources": ["deploy"]}), "deploy");
    let service = |name: &str| json!({"name": name, "type": "_http._tcp", "port": 80});
    outside("/v1/mdns/services", service("web"), "mdns/_http._tcp/web");
    outside("/v1/sessions", json!({"holder": "h", "accepts_handover": "b"}), "b");
    outside("/v1/sessions", json!({"holder": "h", "accepts_handover": "deploy/"}), "deploy/");

    let granted = |path: &str, body: Value, status: u16| {
        let granted = ask("ci", "POST", path, &body);
        assert_eq!(granted.status, status, "{path} {body}: {granted:?}");
        granted.json()
    };
    granted("/v1/leases", lease(json!({"resources": ["build/a"], "pools": {"build/gpu": 1}})), 201);
    granted("/api/v3/intents", json!({"type": "stream.start", "pool": "build/slots"}), 202);
    granted("/v1/mdns/services", service("ci-7"), 201);
    let session = granted("/v1/sessions", json!({"holder": "h", "accepts_handover": "build/"}), 201);

    // What others hand over is bounded by that consent.
    let hand_over = |resource: &str| {
        let lease = ask("all", "POST", "/v1/leases", &lease(json!({"resources": [resource]}))).json();
        let path = format!("/v1/leases/{}/handover", lease["lease_id"].as_str().unwrap());
        ask("all", "POST", &path, &json!({"epoch": 1, "to_session": session["session"]})).status
    };
    assert_eq!(hand_over("build/b"), 200);
    assert_eq!(hand_over("deploy"), 403);

    for path in ["/v1/leases", "/v1/status", "/v1/pools", "/v1/why?resource=deploy"] {
        assert_eq!(as_token(&daemon, "ci").get(path).status, 200, "{path}: it reads as read does");
    }
    let caller = as_token(&daemon, "ci").get("/v1/caller").json();
    assert_eq!(caller["scope"], "hold");
    assert_eq!(caller["prefixes"], json!(["build/*", "mdns/_http._tcp/ci*"]));
    is_refused_for_want_of(&ask("ci", "PUT", "/v1/pools/build%2Fx", &pool), "admin");
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
    let limited = daemon.tenure(&["token", "new", "gpu", "--scope", "hold:gpu/*", "--file", "DIR/tokens"]);
    assert_eq!(limited.code, 0, "{}", limited.err);
    let wrong = daemon.tenure(&["token", "new", "x", "--scope", "hold:*", "--file", "DIR/tokens"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    let listed = daemon.tenure(&["token", "ls", "--file", "DIR/tokens"]);
    assert!(listed.out.contains("hold:gpu/*"), "{}", listed.out);
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
