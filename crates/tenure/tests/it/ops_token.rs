//! `tenure token`, alone and with a daemon that follows the file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use expect_test::expect;
use serde_json::{Value, json};

use crate::cli_desk::Desk;
use crate::daemon::{Daemon, LIMIT};
use crate::run_support::wait_until;

fn mode(desk: &Desk, name: &str) -> u32 {
    desk.path().join(name).metadata().unwrap().permissions().mode() & 0o7777
}

fn new(desk: &Desk, name: &str, scope: &str) -> String {
    let answer = desk.tenure(&["--quiet", "token", "new", name, "--scope", scope, "--file", "DIR/tokens"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    answer.out.trim_end().to_owned()
}

#[test]
fn a_token_is_shown_once_and_stored_as_its_hash() {
    let desk = Desk::new();
    let answer = desk.tenure(&["token", "new", "ci", "--file", "DIR/tokens"]);
    let token = answer.out.strip_suffix('\n').unwrap();
    assert!(token.len() == 71 && token.starts_with("tenure_"), "{token}");
    assert_eq!(answer.err, "note: added ci to DIR/tokens; the token is not shown again\n");
    let stored = fs::read_to_string(desk.path().join("tokens")).unwrap();
    assert!(!stored.contains(token.strip_prefix("tenure_").unwrap()));
    assert!(stored.lines().any(|line| line.starts_with("ci hold ") && line.len() == 72), "{stored}");
    assert_eq!(mode(&desk, "tokens"), 0o600);
    assert_ne!(new(&desk, "other", "read"), token);
}

#[test]
fn tokens_are_listed_and_removed_and_the_rest_of_the_file_stays() {
    let desk = Desk::new();
    let listed = || desk.tenure(&["token", "ls", "--file", "DIR/tokens"]).all();
    expect![[r#"
        exit 0
        --- out
        --- err
        no tokens in DIR/tokens
    "#]]
    .assert_eq(&listed());
    new(&desk, "ci", "hold");
    let path = desk.path().join("tokens");
    let text = fs::read_to_string(&path).unwrap();
    // Somebody wrote beside it, and forgot the last newline.
    fs::write(&path, format!("{text}\n# the boss, ci")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    new(&desk, "boss", "admin");
    assert_eq!(mode(&desk, "tokens"), 0o600, "nobody else may read it any more");
    expect![[r#"
        exit 0
        --- out
        NAME  SCOPE
        ci    hold
        boss  admin
        --- err
    "#]]
    .assert_eq(&listed());
    let removed = desk.tenure(&["token", "rm", "ci", "--file", "DIR/tokens"]);
    assert_eq!((removed.code, removed.err.as_str()), (0, "removed ci from DIR/tokens\n"));
    let json: Value =
        serde_json::from_str(&desk.tenure(&["token", "ls", "--json", "--file", "DIR/tokens"]).out).unwrap();
    assert_eq!(json["tokens"], json!([{"name": "boss", "scope": "admin"}]));
    assert!(fs::read_to_string(&path).unwrap().contains("# the boss, ci\n"));
}

#[test]
fn what_cannot_be_is_refused() {
    let desk = Desk::new();
    new(&desk, "ci", "hold");
    expect![[r#"
        exit 1
        --- out
        --- err
        error: token ci already exists in DIR/tokens
        hint: tenure token rm ci
    "#]]
    .assert_eq(&desk.tenure(&["token", "new", "ci", "--file", "DIR/tokens"]).all());
    expect![[r#"
        exit 1
        --- out
        --- err
        error: there is no token boss in DIR/tokens
        hint: tenure token ls
    "#]]
    .assert_eq(&desk.tenure(&["token", "rm", "boss", "--file", "DIR/tokens"]).all());
    expect![[r#"
        exit 2
        --- out
        --- err
        error: a token's name has only letters, digits, '.', '_' and '-'
    "#]]
    .assert_eq(&desk.tenure(&["token", "new", "a b", "--file", "DIR/tokens"]).all());
    fs::write(desk.path().join("broken"), "nonsense\n").unwrap();
    expect![[r#"
        exit 3
        --- out
        --- err
        error: DIR/broken: line 1: expected three words: name, scope, SHA-256 in hexadecimal
    "#]]
    .assert_eq(&desk.tenure(&["token", "ls", "--file", "DIR/broken"]).all());
}

#[test]
fn the_file_is_that_of_the_settings() {
    let desk = Desk::new();
    let mut command = desk.command(&["token", "new", "ci"]);
    command.env("TENURE_CONFIG", desk.path().join("t.toml"));
    let named = desk.path().join("below/named");
    fs::write(desk.path().join("t.toml"), format!("[auth]\ntoken_file = \"{}\"\n", named.display())).unwrap();
    let answer = desk.answer(&mut command);
    assert_eq!(answer.err, "note: added ci to DIR/below/named; the token is not shown again\n");
    assert!(named.exists());
}

#[test]
fn tokens_made_at_the_same_time_are_all_there() {
    let desk = Desk::new();
    let names: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    let children: Vec<Child> = names
        .iter()
        .map(|name| {
            let mut command = desk.command(&["token", "new", name, "--file", "DIR/tokens"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let listed = desk.tenure(&["token", "ls", "--file", "DIR/tokens"]).out;
    assert!(names.iter().all(|name| listed.contains(name.as_str())), "{listed}");
}

#[test]
fn a_daemon_follows_the_file_and_asks_everybody_for_a_token() {
    let mut daemon = Daemon::prepared(&["--token-file", "DIR/tokens"]);
    let (hold, admin) = (new(&daemon.desk, "ci", "hold"), new(&daemon.desk, "boss", "admin"));
    daemon.start_again();
    let http = |token: Option<&str>| {
        let http = daemon.http();
        match token {
            Some(token) => http.with("authorization", &format!("Bearer {token}")),
            None => http,
        }
    };
    let refused = http(None).get("/v1/leases");
    assert_eq!(refused.status, 401);
    assert!(refused.headers.contains(&("www-authenticate".to_owned(), "Bearer".to_owned())));
    assert_eq!(http(Some("tenure_wrong")).get("/v1/leases").status, 401);
    assert_eq!(http(None).get("/healthz").status, 200);

    let body = json!({"resources": ["printer"], "holder": "ci"});
    assert_eq!(http(Some(&hold)).post("/v1/leases", &body).status, 201);
    assert_eq!(http(Some(&hold)).put("/v1/pools/gpu", &json!({"size": 2})).status, 403);
    assert_eq!(http(Some(&admin)).put("/v1/pools/gpu", &json!({"size": 2})).status, 200);

    let removed = daemon.desk.tenure(&["token", "rm", "ci", "--file", "DIR/tokens"]);
    assert_eq!(removed.code, 0);
    wait_until("a removed token that is refused", LIMIT, || {
        http(Some(&hold)).get("/v1/leases").status == 401
    });
    assert_eq!(http(Some(&admin)).get("/v1/leases").status, 200);
}
