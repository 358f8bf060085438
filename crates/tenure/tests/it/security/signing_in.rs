//! Signing a browser in: a code that works once becomes a cookie and a page value, which together are the principal that
//! asked for it, and no more.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{as_token, with_tokens, write_tokens};
use crate::daemon::{Daemon, LIMIT};
use crate::raw_http::Answered;
use crate::run_support::wait_until;

/// What a browser keeps of a sign-in: the cookie as it sends it back, and the page value.
struct Kept {
    cookie: String,
    page: String,
}

/// A daemon that asks every client over TCP for a credential.
fn guarded(flags: &[&str]) -> Daemon {
    with_tokens(&[("boss", "admin")], flags)
}

/// A code made for the user on the socket.
#[track_caller]
fn code(daemon: &Daemon) -> String {
    code_in(&daemon.http_over_socket().post("/v1/sign_in", &json!({})))
}

#[track_caller]
fn code_in(made: &Answered) -> String {
    assert_eq!(made.status, 200, "{made:?}");
    made.json()["code"].as_str().unwrap().to_owned()
}

fn own_origin(daemon: &Daemon) -> String {
    format!("http://{}", daemon.address())
}

/// As the page at /sign-in does it.
#[track_caller]
fn redeem(daemon: &Daemon, code: &str) -> Answered {
    let mut http = daemon.http().with("origin", &own_origin(daemon));
    http.post("/v1/sign_in/redeem", &json!({"code": code}))
}

#[track_caller]
fn kept_of(answered: &Answered) -> Kept {
    assert_eq!(answered.status, 200, "{answered:?}");
    let cookie = answered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    Kept { cookie, page: answered.json()["page"].as_str().unwrap().to_owned() }
}

/// Signs in the user on the socket.
#[track_caller]
fn signed_in(daemon: &Daemon) -> Kept {
    kept_of(&redeem(daemon, &code(daemon)))
}

#[track_caller]
fn caller(answered: &Answered) -> (String, String) {
    assert_eq!(answered.status, 200, "{answered:?}");
    let caller = answered.json();
    (caller["principal"].as_str().unwrap().to_owned(), caller["scope"].as_str().unwrap().to_owned())
}

fn with_kept(daemon: &Daemon, kept: &Kept) -> crate::raw_http::Http<std::net::TcpStream> {
    daemon.http().with("cookie", &kept.cookie).with("tenure-page", &kept.page)
}

/// As the daemon's own page asks.
fn own_page(daemon: &Daemon, kept: &Kept) -> crate::raw_http::Http<std::net::TcpStream> {
    with_kept(daemon, kept).with("origin", &own_origin(daemon))
}

fn uid() -> String {
    format!("uid:{}", rustix::process::getuid().as_raw())
}

fn grant(resource: &str) -> Value {
    json!({"resources": [resource], "holder": "h"})
}

#[test]
fn a_code_works_once_and_is_in_no_request_line() {
    let daemon = guarded(&[]);
    let made = daemon.http_over_socket().post("/v1/sign_in", &json!({}));
    let said = made.json();
    assert_eq!(said["path"], format!("/sign-in#{}", said["code"].as_str().unwrap()));
    assert_eq!(said["expires_in_secs"], 60);
    assert!(said["code"].as_str().unwrap().len() >= 32 && said["lsn"].is_u64(), "{said}");
    let code = code_in(&made);

    // Whatever leads a browser there changes nothing: the page waits for a click.
    for path in ["/sign-in", &format!("/sign-in?code={code}")] {
        let page = daemon.get(path);
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.header("set-cookie").is_none(), "{page:?}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert!(!page.text().contains(&code), "{page:?}");
    }
    for foreign in [None, Some("http://evil.example"), Some("null")] {
        let mut http = daemon.http();
        if let Some(origin) = foreign {
            http = http.with("origin", origin);
        }
        let refused = http.post("/v1/sign_in/redeem", &json!({"code": code}));
        assert_eq!(refused.refusal(), (403, "forbidden".to_owned()), "{foreign:?}");
        assert!(refused.header("set-cookie").is_none(), "{refused:?}");
    }
    let signed_in = redeem(&daemon, &code);
    assert_eq!(
        (signed_in.status, signed_in.header("cache-control")),
        (200, Some("no-store")),
        "{signed_in:?}"
    );
    assert_eq!(signed_in.json()["principal"], uid());
    let again = redeem(&daemon, &code);
    assert_eq!(again.refusal(), (401, "unauthorized".to_owned()));
    assert!(again.text().contains("tenure open") && again.header("set-cookie").is_none(), "{again:?}");
    for wrong in ["", "0123456789abcdef0123456789abcdef"] {
        assert_eq!(redeem(&daemon, wrong).status, 401, "{wrong}");
    }
    let kept = kept_of(&signed_in);
    assert_eq!(caller(&with_kept(&daemon, &kept).get("/v1/caller")), (uid(), "admin".to_owned()));
    assert_eq!(daemon.get("/v1/caller").status, 401, "without the cookie nothing has changed");
    assert!(daemon.said().contains("browser signed in"), "{}", daemon.said());
    let (_, secret) = kept.cookie.split_once('=').unwrap();
    for secret in [secret, &kept.page, &code] {
        assert!(!daemon.said().contains(secret), "{}", daemon.said());
    }
}

#[test]
fn a_cookie_counts_only_with_the_value_of_its_page() {
    let daemon = guarded(&[]);
    let (mine, other) = (signed_in(&daemon), signed_in(&daemon));
    let status = |cookie: Option<&str>, page: Option<&str>, path: &str| {
        let mut http = daemon.http().with("origin", &own_origin(&daemon));
        if let Some(cookie) = cookie {
            http = http.with("cookie", cookie);
        }
        if let Some(page) = page {
            http = http.with("tenure-page", page);
        }
        http.get(path).status
    };
    for path in ["/v1/caller", "/v1/leases", "/metrics", "/v1/events"] {
        // What another service on this host receives, and what a page of another origin might guess.
        assert_eq!(status(Some(&mine.cookie), None, path), 401, "{path}");
        assert_eq!(status(Some(&mine.cookie), Some(&other.page), path), 401, "{path}");
        assert_eq!(status(Some(&mine.cookie), Some(""), path), 401, "{path}");
        assert_eq!(status(None, Some(&mine.page), path), 401, "{path}");
        let in_query = format!("{path}?page={}", mine.page);
        assert_ne!(status(Some(&mine.cookie), None, &in_query), 200, "{path}");
    }
    for path in ["/v1/caller", "/v1/leases", "/metrics"] {
        assert_eq!(status(Some(&mine.cookie), Some(&mine.page), path), 200, "{path}");
    }
    let mut events = own_page(&daemon, &mine);
    events.send("GET", "/v1/events", b"").unwrap();
    assert_eq!(events.head().unwrap().status, 200);
}

#[test]
fn the_cookie_is_for_this_daemon_and_no_script() {
    let daemon = Daemon::start();
    let answered = redeem(&daemon, &code(&daemon));
    let header = answered.header("set-cookie").unwrap().to_owned();
    let mut parts = header.split("; ");
    let (name, value) = parts.next().unwrap().split_once('=').unwrap();
    assert_eq!(name, format!("tenure_{}", daemon.address().port()));
    assert!(value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
    assert_eq!(parts.collect::<Vec<_>>(), ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"]);

    let other = guarded(&[]);
    let cookie = format!("tenure_{}={value}", other.address().port());
    let taken_over = Kept { cookie, page: kept_of(&answered).page };
    assert_eq!(with_kept(&other, &taken_over).get("/v1/caller").status, 401);
}

#[test]
fn a_cookie_is_whoever_asked_with_its_scope() {
    let daemon = with_tokens(&[("looker", "read"), ("worker", "hold"), ("boss", "admin")], &[]);
    for (name, scope, held, revoked) in
        [("looker", "read", 403, 403), ("worker", "hold", 201, 403), ("boss", "admin", 201, 404)]
    {
        let made = as_token(&daemon, name).post("/v1/sign_in", &json!({}));
        let kept = kept_of(&redeem(&daemon, &code_in(&made)));
        let who = own_page(&daemon, &kept).get("/v1/caller");
        assert_eq!(caller(&who), (format!("token:{name}"), scope.to_owned()));
        assert_eq!(who.json()["signed_in"], true);
        let granted = own_page(&daemon, &kept).post("/v1/leases", &grant(name));
        assert_eq!(granted.status, held, "{name}: {granted:?}");
        let revoke = own_page(&daemon, &kept).post("/v1/leases/0000-1/revoke", &json!({}));
        assert_eq!(revoke.status, revoked, "{name}: {revoke:?}");
        assert_eq!(with_kept(&daemon, &kept).get("/metrics").status, 200);
    }
    // Its leases are those of its principal.
    let made = as_token(&daemon, "worker").post("/v1/sign_in", &json!({}));
    let kept = kept_of(&redeem(&daemon, &code_in(&made)));
    let lease = own_page(&daemon, &kept).post("/v1/leases", &grant("shared")).json();
    let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
    let epoch = json!({"epoch": lease["epoch"]});
    assert_eq!(as_token(&daemon, "boss").post(&path, &epoch).status, 403);
    assert_eq!(as_token(&daemon, "worker").post(&path, &epoch).status, 200);
}

#[test]
fn a_cookie_writes_from_the_daemons_own_pages_alone() {
    let daemon = guarded(&["--allow-origin", "https://board.example"]);
    let kept = signed_in(&daemon);
    let port = daemon.address().port();
    let write = |origin: Option<&str>| {
        let mut http = with_kept(&daemon, &kept);
        if let Some(origin) = origin {
            http = http.with("origin", origin);
        }
        http.post("/v1/leases", &grant("a"))
    };
    for foreign in [
        None,
        Some("https://board.example"),
        Some("http://evil.example"),
        Some("null"),
        Some(&format!("http://127.0.0.1:{}", port ^ 1)),
        Some(&format!("https://127.0.0.1:{port}")),
    ] {
        assert_eq!(write(foreign).refusal(), (403, "forbidden".to_owned()), "{foreign:?}");
    }
    let leases = with_kept(&daemon, &kept).get("/v1/leases");
    assert_eq!(leases.json()["leases"], json!([]), "to look needs no origin; nothing was done");
    assert_eq!(write(Some(&format!("http://127.0.0.1:{port}"))).status, 201);
    let foreign_look = with_kept(&daemon, &kept).with("origin", "http://evil.example").get("/v1/leases");
    assert_eq!(foreign_look.status, 403);
    let rebound = with_kept(&daemon, &kept).to("evil.example").get("/v1/leases");
    assert_eq!(rebound.status, 403);
    assert_eq!(daemon.http().to("evil.example").get("/sign-in").status, 403);
}

#[test]
fn a_cookie_does_not_prolong_itself() {
    let daemon = Daemon::start();
    let kept = signed_in(&daemon);
    let made = own_page(&daemon, &kept).post("/v1/sign_in", &json!({}));
    assert_eq!(made.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(daemon.post("/v1/sign_in", &json!({})).status, 200, "whoever is local may");
}

#[test]
fn signing_out_ends_the_cookie_and_signing_in_again_the_earlier_one() {
    let daemon = guarded(&[]);
    let first = signed_in(&daemon);
    let other = signed_in(&daemon);
    let again = own_page(&daemon, &first).post("/v1/sign_in/redeem", &json!({"code": code(&daemon)}));
    let second = kept_of(&again);
    let status = |kept: &Kept| with_kept(&daemon, kept).get("/v1/caller").status;
    assert_eq!((status(&first), status(&second), status(&other)), (401, 200, 200));

    assert_eq!(with_kept(&daemon, &second).post("/v1/sign_out", &json!({})).status, 403, "as any write");
    let out = own_page(&daemon, &second).post("/v1/sign_out", &json!({}));
    assert_eq!((out.status, out.json()["signed_out"].clone()), (200, json!(true)), "{out:?}");
    let cleared = out.header("set-cookie").unwrap();
    assert!(cleared.contains("=;") && cleared.contains("Max-Age=0"), "{cleared}");
    assert_eq!((status(&second), status(&other)), (401, 200));
    let nobody = daemon.http_over_socket().post("/v1/sign_out", &json!({}));
    assert_eq!(nobody.json()["signed_out"], false);
}

#[test]
fn a_cookie_that_is_not_good_is_none() {
    let daemon = Daemon::start();
    let name = format!("tenure_{}", daemon.address().port());
    for sent in [format!("{name}=wrong"), name.clone(), format!("{name}="), "x=y".to_owned()] {
        let who = daemon.http().with("cookie", &sent).with("tenure-page", "x").get("/v1/caller");
        assert_eq!(caller(&who), caller(&daemon.get("/v1/caller")), "{sent}");
        assert_eq!(who.json()["signed_in"], false);
    }
    let kept = signed_in(&daemon);
    let among_others = Kept { cookie: format!("a=b; {}; {name}x=z", kept.cookie), page: kept.page };
    assert_eq!(caller(&with_kept(&daemon, &among_others).get("/v1/caller")).0, uid());
}

#[test]
fn a_token_that_is_shown_decides() {
    let daemon = with_tokens(&[("worker", "hold")], &[]);
    let kept = signed_in(&daemon);
    let with_both = |shown: &str| with_kept(&daemon, &kept).with("authorization", shown).get("/v1/caller");
    assert_eq!(caller(&with_both("Bearer secret-worker")).0, "token:worker");
    for wrong in ["Bearer wrong", "Basic eDp5", "\u{fc}"] {
        assert_eq!(with_both(wrong).status, 401, "{wrong}");
    }
}

#[test]
fn a_cookie_ends_with_its_token() {
    let daemon = with_tokens(&[("worker", "hold"), ("boss", "admin")], &[]);
    let made = as_token(&daemon, "worker").post("/v1/sign_in", &json!({}));
    let of_worker = kept_of(&redeem(&daemon, &code_in(&made)));
    let of_socket = signed_in(&daemon);
    let status = |kept: &Kept| with_kept(&daemon, kept).get("/v1/caller").status;
    assert_eq!((status(&of_worker), status(&of_socket)), (200, 200));
    write_tokens(&daemon.path("tokens"), &[("boss", "admin")]);
    wait_until("the cookie to end", LIMIT, || status(&of_worker) == 401);
    assert_eq!(status(&of_socket), 200);
}

#[test]
fn a_restart_forgets_codes_and_cookies() {
    let mut daemon = guarded(&[]);
    let kept = signed_in(&daemon);
    let code = code(&daemon);
    let port = daemon.address().port().to_string();
    daemon.stop();
    daemon.set_flags(&["--token-file", "DIR/tokens", "--port", &port]);
    daemon.start_again();
    assert_eq!(with_kept(&daemon, &kept).get("/v1/caller").status, 401);
    assert_eq!(redeem(&daemon, &code).status, 401);
}

#[test]
fn open_prints_an_address_that_signs_in_once() {
    let daemon = guarded(&[]);
    let nowhere = daemon.path("nowhere");
    // Named, so that a busy machine does not make it ask over TCP.
    let socket = format!("unix:{}", daemon.socket().display());
    let open = |arguments: &[&str]| {
        let mut command = daemon.desk.command(arguments);
        daemon.desk.answer(command.env("PATH", &nowhere).env("TENURE_ENDPOINT", &socket))
    };
    let opened = open(&["open"]);
    assert_eq!(opened.code, 0, "{}", opened.all());
    assert!(opened.err.contains("works once, within 60 s"), "{}", opened.err);
    assert!(opened.err.contains("xdg-open is not installed"), "{}", opened.err);
    let base = format!("http://{}", daemon.address());
    let code = opened.out.trim().strip_prefix(&format!("{base}/sign-in#"));
    let code = code.unwrap_or_else(|| panic!("{}", opened.all()));
    let kept = kept_of(&redeem(&daemon, code));
    assert_eq!(caller(&with_kept(&daemon, &kept).get("/v1/caller")), (uid(), "admin".to_owned()));
    assert_eq!(redeem(&daemon, code).status, 401);

    let opened = open(&["open", "--json"]);
    let said: Value = serde_json::from_str(&opened.out).unwrap();
    assert_eq!(said["expires_in_secs"], 60);
    assert!(said["url"].as_str().unwrap().starts_with(&base), "{said}");
}

#[test]
fn open_hands_the_desktop_a_file_that_leads_there_and_no_code() {
    let daemon = with_tokens(&[("worker", "hold")], &[]);
    let bin = daemon.path("bin");
    fs::create_dir(&bin).unwrap();
    let opener = bin.join("xdg-open");
    // Writes down what every user of the machine can read of it.
    let script =
        format!("#!/bin/sh\ntr '\\0' '\\n' < /proc/$$/cmdline > {}\n", daemon.path("seen").display());
    fs::write(&opener, script).unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let endpoint = format!("http://{}", daemon.address());
    let mut open = daemon.desk.command(&["open", "--endpoint", &endpoint]);
    open.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("TENURE_TOKEN", "secret-worker");
    let opened = daemon.desk.answer(&mut open);
    assert_eq!(opened.code, 0, "{}", opened.all());
    let address = opened.out.trim();
    let (_, code) = address.split_once("/sign-in#").unwrap();
    let seen = fs::read_to_string(daemon.path("seen")).unwrap();
    assert!(!seen.contains(code), "{seen}");
    let file = seen.lines().find_map(|line| line.strip_prefix("file://")).unwrap_or_else(|| panic!("{seen}"));
    assert!(file.ends_with("/open.html"), "{file}");
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(file).unwrap().contains(&format!("url={address}\"")), "{file}");
    let kept = kept_of(&redeem(&daemon, code));
    let who = caller(&with_kept(&daemon, &kept).get("/v1/caller"));
    assert_eq!(who, ("token:worker".to_owned(), "hold".to_owned()), "the user who ran the command");
}
