//! Settings of the real binary: where they come from, and what it says about wrong ones.

use std::fs;

use expect_test::expect;
use serde_json::Value;

use crate::cli_desk::Desk;

const SERVE: &[&str] = &["serve", "--data-dir", "DIR/data", "--print-config"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    SERVE.iter().chain(more).copied().collect()
}

#[test]
fn each_value_is_printed_with_where_it_came_from() {
    let desk = Desk::new();
    fs::write(desk.path().join("t.toml"), "[limits]\nleases = 1_000\nwaiters = 7\n[server]\nport = 1\n")
        .unwrap();
    let mut command = desk.command(&with(&["--config", "DIR/t.toml", "--port", "7000", "--no-mdns"]));
    command.env("TENURE_LIMITS_WAITERS", "9").env("TENURE_SERVER_PORT", "2");
    let answer = desk.answer(&mut command);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    for line in [
        "[server]",
        "bind = \"127.0.0.1\"  # default",
        "port = 7000  # flag --port",
        "data_dir = \"DIR/data\"  # flag --data-dir",
        "leases = 1000  # file DIR/t.toml:2",
        "waiters = 9  # environment TENURE_LIMITS_WAITERS",
        "fraction = 0.5  # default",
    ] {
        assert!(answer.out.lines().any(|found| found == line), "{line:?} is not in\n{}", answer.out);
    }
    assert!(!desk.path().join("data").exists(), "nothing was started");
}

#[test]
fn the_printed_configuration_gives_the_same_settings_again() {
    let desk = Desk::new();
    let first = desk
        .command(&with(&["--history-age", "36h", "--allow-origin", "https://a.example"]))
        .output()
        .unwrap();
    fs::write(desk.path().join("again.toml"), &first.stdout).unwrap();
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
    };
    let again = desk.command(&["serve", "--config", "DIR/again.toml", "--print-config"]).output().unwrap();
    let (first, again) = (String::from_utf8(first.stdout).unwrap(), String::from_utf8(again.stdout).unwrap());
    assert!(first.contains("age = \"1d12h\""), "{first}");
    assert_eq!(values(&first), values(&again));
}

#[test]
fn as_json_each_value_has_its_type() {
    let desk = Desk::new();
    let answer = desk.tenure(&with(&["--json", "--insecure-no-auth", "--bind", "::1"]));
    let printed: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(printed["auth"]["insecure_no_auth"]["value"], true);
    assert_eq!(printed["server"]["port"]["value"], 5641);
    assert_eq!(printed["server"]["bind"]["from"], "flag --bind");
    assert_eq!(printed["server"]["allow_origin"]["value"], Value::Array(Vec::new()));
}

#[test]
fn wrong_settings_are_one_line_that_names_the_place() {
    let desk = Desk::new();
    let said = |text: &str| {
        fs::write(desk.path().join("t.toml"), text).unwrap();
        desk.tenure(&with(&["--config", "DIR/t.toml"])).all()
    };
    expect![[r#"
        exit 2
        --- out
        --- err
        error: DIR/t.toml:2: there is no key limits.lease; the nearest is limits.leases
    "#]]
    .assert_eq(&said("[limits]\nlease = 5\n"));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: DIR/t.toml:2: auth.local: "root" is not accepted: expected one of admin, hold, read, none
    "#]]
    .assert_eq(&said("[auth]\nlocal = \"root\"\n"));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: server.tls_cert is set, but server.tls_key is not; set both
    "#]]
    .assert_eq(&said("[server]\ntls_cert = \"x\"\n"));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: cannot read the configuration DIR/none.toml: No such file or directory (os error 2)
        hint: check --config and TENURE_CONFIG
    "#]]
    .assert_eq(&desk.tenure(&with(&["--config", "DIR/none.toml"])).all());
    expect![[r#"
        exit 2
        --- out
        --- err
        error: invalid value '1h30' for '--history-age <DURATION>': expected a duration like 500ms, 30s, 1m30s or 2h
        hint: tenure serve --help
    "#]]
    .assert_eq(&desk.tenure(&with(&["--history-age", "1h30"])).all());
}

#[test]
fn a_daemon_that_would_be_open_to_others_does_not_start() {
    let desk = Desk::new();
    let serve = ["serve", "--data-dir", "DIR/data", "--port", "0", "--bind", "0.0.0.0"];
    expect![[r#"
        exit 2
        --- out
        --- err
        error: 0.0.0.0 can be reached from other machines, and no authentication is set: give a token file or a client CA, or accept every caller with --insecure-no-auth
    "#]]
    .assert_eq(&desk.tenure(&serve).all());
    assert!(!desk.path().join("data").exists(), "nothing was made");
}
