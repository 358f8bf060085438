//! Signing a browser in: a code that works once becomes a cookie that is whoever asked for it, and no more.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::peers::STRANGER;
use super::{as_token, with_tokens, write_tokens};
use crate::daemon::{Daemon, LIMIT};
use crate::raw_http::Answered;
use crate::run_support::wait_until;

/// The path of a code made by whoever is on the socket.
#[track_caller]
fn code_path(daemon: &Daemon) -> String {
    path_in(&daemon.http_over_socket().post("/v1/sign_in", &json!({})))
}

#[track_caller]
fn path_in(made: &Answered) -> String {
    assert_eq!(made.status, 200, "{made:?}");
    made.json()["path"].as_str().unwrap().to_owned()
}

/// What a browser sends back of a cookie.
#[track_caller]
fn cookie_in(answered: &Answered) -> String {
    assert_eq!(answered.status, 303, "{answered:?}");
    answered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

/// Signs in whoever is on the socket.
#[track_caller]
fn cookie(daemon: &Daemon) -> String {
    cookie_in(&daemon.get(&code_path(daemon)))
}

#[track_caller]
fn caller(answered: &Answered) -> (String, String) {
    assert_eq!(answered.status, 200, "{answered:?}");
    let caller = answered.json();
    (caller["principal"].as_str().unwrap().to_owned(), caller["scope"].as_str().unwrap().to_owned())
}

fn with_cookie(daemon: &Daemon, cookie: &str) -> crate::raw_http::Http<std::net::TcpStream> {
    daemon.http().with("cookie", cookie)
}

/// As the daemon's own page asks.
fn own_page(daemon: &Daemon, cookie: &str) -> crate::raw_http::Http<std::net::TcpStream> {
    with_cookie(daemon, cookie).with("origin", &format!("http://{}", daemon.address()))
}

fn uid() -> String {
    format!("uid:{}", rustix::process::getuid().as_raw())
}

fn grant(resource: &str) -> Value {
    json!({"resources": [resource], "holder": "h"})
}

#[test]
fn a_code_works_once_and_leads_to_the_dashboard() {
    let daemon = Daemon::start_with(&["--auth-local", "none"]).asked_by(STRANGER);
    let made = daemon.http_over_socket().post("/v1/sign_in", &json!({}));
    let said = made.json();
    assert_eq!(said["path"], format!("/sign-in?code={}", said["code"].as_str().unwrap()));
    assert_eq!(said["expires_in_secs"], 60);
    assert!(said["code"].as_str().unwrap().len() >= 32 && said["lsn"].is_u64(), "{said}");

    let path = path_in(&made);
    let mut looking = daemon.http();
    looking.send("HEAD", &path, b"").unwrap();
    assert_eq!(looking.head().unwrap().status, 405, "asking what there is uses nothing up");
    let signed_in = daemon.get(&path);
    assert_eq!((signed_in.status, signed_in.header("location")), (303, Some("/")), "{signed_in:?}");
    assert_eq!(signed_in.header("cache-control"), Some("no-store"));
    assert_eq!(signed_in.header("referrer-policy"), Some("no-referrer"));
    let again = daemon.get(&path);
    assert_eq!(again.status, 401, "{again:?}");
    assert!(again.header("content-type").unwrap().starts_with("text/plain"), "{again:?}");
    assert!(again.text().contains("tenure open") && again.header("set-cookie").is_none(), "{again:?}");
    assert_eq!(again.header("cache-control"), Some("no-store"));
    assert_eq!(again.header("referrer-policy"), Some("no-referrer"));
    for wrong in ["/sign-in", "/sign-in?code=", "/sign-in?code=0123456789abcdef0123456789abcdef"] {
        assert_eq!(daemon.get(wrong).status, 401, "{wrong}");
    }
    let cookie = cookie_in(&signed_in);
    assert_eq!(caller(&with_cookie(&daemon, &cookie).get("/v1/caller")), (uid(), "admin".to_owned()));
    assert_eq!(daemon.get("/v1/caller").status, 401, "without the cookie nothing has changed");
    assert!(daemon.said().contains("a browser signed in"), "{}", daemon.said());
    let (_, secret) = cookie.split_once('=').unwrap();
    assert!(!daemon.said().contains(secret) && !daemon.said().contains(said["code"].as_str().unwrap()));
}

#[test]
fn the_cookie_is_for_this_daemon_and_no_script() {
    let daemon = Daemon::start();
    let header = daemon.get(&code_path(&daemon)).header("set-cookie").unwrap().to_owned();
    let mut parts = header.split("; ");
    let (name, value) = parts.next().unwrap().split_once('=').unwrap();
    assert_eq!(name, format!("tenure_{}", daemon.address().port()));
    assert!(value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
    assert_eq!(parts.collect::<Vec<_>>(), ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"]);

    let other = Daemon::start_with(&["--auth-local", "none"]).asked_by(STRANGER);
    let taken_over = format!("tenure_{}={value}", other.address().port());
    assert_eq!(with_cookie(&other, &taken_over).get("/v1/caller").status, 401);
}

#[test]
fn a_cookie_is_whoever_asked_with_its_scope() {
    let daemon = with_tokens(&[("looker", "read"), ("worker", "hold"), ("boss", "admin")], &[]);
    for (name, scope, held, revoked) in
        [("looker", "read", 403, 403), ("worker", "hold", 201, 403), ("boss", "admin", 201, 404)]
    {
        let made = as_token(&daemon, name).post("/v1/sign_in", &json!({}));
        let cookie = cookie_in(&daemon.get(&path_in(&made)));
        let who = own_page(&daemon, &cookie).get("/v1/caller");
        assert_eq!(caller(&who), (format!("token:{name}"), scope.to_owned()));
        assert_eq!(who.json()["signed_in"], true);
        let granted = own_page(&daemon, &cookie).post("/v1/leases", &grant(name));
        assert_eq!(granted.status, held, "{name}: {granted:?}");
        let revoke = own_page(&daemon, &cookie).post("/v1/leases/0000-1/revoke", &json!({}));
        assert_eq!(revoke.status, revoked, "{name}: {revoke:?}");
        assert_eq!(with_cookie(&daemon, &cookie).get("/metrics").status, 200);
    }
    // Its leases are those of its principal.
    let made = as_token(&daemon, "worker").post("/v1/sign_in", &json!({}));
    let cookie = cookie_in(&daemon.get(&path_in(&made)));
    let lease = own_page(&daemon, &cookie).post("/v1/leases", &grant("shared")).json();
    let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
    let epoch = json!({"epoch": lease["epoch"]});
    assert_eq!(as_token(&daemon, "boss").post(&path, &epoch).status, 403);
    assert_eq!(as_token(&daemon, "worker").post(&path, &epoch).status, 200);
}

#[test]
fn a_cookie_writes_from_the_daemons_own_pages_alone() {
    let daemon = Daemon::start_with(&["--auth-local", "none", "--allow-origin", "https://board.example"])
        .asked_by(STRANGER);
    let cookie = cookie(&daemon);
    let port = daemon.address().port();
    let write = |origin: Option<&str>| {
        let mut http = with_cookie(&daemon, &cookie);
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
    let leases = with_cookie(&daemon, &cookie).get("/v1/leases");
    assert_eq!(leases.json()["leases"], json!([]), "to look needs no origin; nothing was done");
    assert_eq!(write(Some(&format!("http://127.0.0.1:{port}"))).status, 201);
    let foreign_look = with_cookie(&daemon, &cookie).with("origin", "http://evil.example").get("/v1/leases");
    assert_eq!(foreign_look.status, 403);
    let rebound = with_cookie(&daemon, &cookie).to("evil.example").get("/v1/leases");
    assert_eq!(rebound.status, 403);
    assert_eq!(daemon.http().to("evil.example").get(&code_path(&daemon)).status, 403);
}

#[test]
fn a_cookie_does_not_prolong_itself() {
    let daemon = Daemon::start();
    let cookie = cookie(&daemon);
    let made = own_page(&daemon, &cookie).post("/v1/sign_in", &json!({}));
    assert_eq!(made.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(daemon.post("/v1/sign_in", &json!({})).status, 200, "whoever is local may");
}

#[test]
fn signing_out_ends_the_cookie_and_signing_in_again_the_earlier_one() {
    let daemon = Daemon::start_with(&["--auth-local", "none"]).asked_by(STRANGER);
    let first = cookie(&daemon);
    let other = cookie(&daemon);
    let second = cookie_in(&with_cookie(&daemon, &first).get(&code_path(&daemon)));
    let status = |cookie: &str| with_cookie(&daemon, cookie).get("/v1/caller").status;
    assert_eq!((status(&first), status(&second), status(&other)), (401, 200, 200));

    assert_eq!(with_cookie(&daemon, &second).post("/v1/sign_out", &json!({})).status, 403, "as any write");
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
        let who = with_cookie(&daemon, &sent).get("/v1/caller");
        assert_eq!(caller(&who), (uid(), "admin".to_owned()), "{sent}");
        assert_eq!(who.json()["signed_in"], false);
    }
    let cookie = cookie(&daemon);
    let among_others = format!("a=b; {cookie}; {name}x=z");
    assert_eq!(caller(&with_cookie(&daemon, &among_others).get("/v1/caller")).0, uid());
}

#[test]
fn a_token_that_is_shown_decides() {
    let daemon = with_tokens(&[("worker", "hold")], &[]);
    let cookie = cookie(&daemon);
    let with_both =
        |shown: &str| with_cookie(&daemon, &cookie).with("authorization", shown).get("/v1/caller");
    assert_eq!(caller(&with_both("Bearer secret-worker")).0, "token:worker");
    for wrong in ["Bearer wrong", "Basic eDp5", "\u{fc}"] {
        assert_eq!(with_both(wrong).status, 401, "{wrong}");
    }
}

#[test]
fn a_cookie_ends_with_its_token() {
    let daemon = with_tokens(&[("worker", "hold"), ("boss", "admin")], &[]);
    let made = as_token(&daemon, "worker").post("/v1/sign_in", &json!({}));
    let of_worker = cookie_in(&daemon.get(&path_in(&made)));
    let of_socket = cookie(&daemon);
    let status = |cookie: &str| with_cookie(&daemon, cookie).get("/v1/caller").status;
    assert_eq!((status(&of_worker), status(&of_socket)), (200, 200));
    write_tokens(&daemon.path("tokens"), &[("boss", "admin")]);
    wait_until("the cookie to end", LIMIT, || status(&of_worker) == 401);
    assert_eq!(status(&of_socket), 200);
}

#[test]
fn a_restart_forgets_codes_and_cookies() {
    let mut daemon = Daemon::start_with(&["--auth-local", "none"]).asked_by(STRANGER);
    let cookie = cookie(&daemon);
    let path = code_path(&daemon);
    let port = daemon.address().port().to_string();
    daemon.stop();
    daemon.set_flags(&["--auth-local", "none", "--port", &port]);
    daemon.start_again();
    assert_eq!(with_cookie(&daemon, &cookie).get("/v1/caller").status, 401);
    assert_eq!(daemon.get(&path).status, 401);
}

#[test]
fn open_prints_an_address_that_signs_in_once() {
    let daemon = Daemon::start_with(&["--auth-local", "none"]).asked_by(STRANGER);
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
    assert!(opened.err.contains("no xdg-open here"), "{}", opened.err);
    let base = format!("http://{}", daemon.address());
    let path = opened.out.trim().strip_prefix(&base).unwrap_or_else(|| panic!("{}", opened.all()));
    let cookie = cookie_in(&daemon.get(path));
    assert_eq!(caller(&with_cookie(&daemon, &cookie).get("/v1/caller")), (uid(), "admin".to_owned()));
    assert_eq!(daemon.get(path).status, 401);

    let opened = open(&["open", "--json"]);
    let said: Value = serde_json::from_str(&opened.out).unwrap();
    assert_eq!(said["expires_in_secs"], 60);
    assert!(said["url"].as_str().unwrap().starts_with(&base), "{said}");
}

#[test]
fn open_hands_the_address_to_the_desktop() {
    let daemon = with_tokens(&[("worker", "hold")], &[]);
    let bin = daemon.path("bin");
    fs::create_dir(&bin).unwrap();
    let opener = bin.join("xdg-open");
    fs::write(&opener, format!("#!/bin/sh\necho \"$1\" > {}\n", daemon.path("opened").display())).unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let endpoint = format!("http://{}", daemon.address());
    let mut open = daemon.desk.command(&["open", "--endpoint", &endpoint]);
    open.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("TENURE_TOKEN", "secret-worker");
    let opened = daemon.desk.answer(&mut open);
    assert_eq!(opened.code, 0, "{}", opened.all());
    let address = fs::read_to_string(daemon.path("opened")).unwrap();
    assert_eq!(address, opened.out);
    let cookie = cookie_in(&daemon.get(address.trim().strip_prefix(&endpoint).unwrap()));
    let who = caller(&with_cookie(&daemon, &cookie).get("/v1/caller"));
    assert_eq!(who, ("token:worker".to_owned(), "hold".to_owned()), "whoever ran the command");
}
