//! `tenure admin status`, `registrations`, `inspect`, `unregister`, `drain` and `revive`: what operators do.

use expect_test::expect;
use serde_json::{Value, json};

use crate::cli_daemon::{Daemon, scrubbed};
use crate::cli_terminal::at_terminal;

fn service(name: &str, lease: Option<u64>) -> Value {
    json!({ "name": name, "type": "http", "port": 8080, "lease": lease })
}

/// Ids in the order in which they are listed shown as ID1, ID2, ….
fn without_ids(daemon: &Daemon, text: &str) -> String {
    let mut text = text.to_owned();
    for (number, registration) in daemon.registrations().iter().enumerate() {
        text = text.replace(registration["id"].as_str().unwrap(), &format!("ID{}", number + 1));
    }
    text
}

/// Registers until two ids begin alike, and gives that beginning.
fn ambiguous_beginning(daemon: &Daemon) -> String {
    for number in 0..1_000 {
        daemon.register(&service(&format!("service {number}"), None));
        let mut beginnings: Vec<String> = daemon
            .registrations()
            .iter()
            .map(|registration| registration["id"].as_str().unwrap()[..2].to_owned())
            .collect();
        beginnings.sort();
        if let Some(pair) = beginnings.windows(2).find(|pair| pair[0] == pair[1]) {
            return pair[0].clone();
        }
    }
    panic!("ids are not random");
}

#[test]
fn the_daemon_is_shown_with_its_registrations_counted() {
    let daemon = Daemon::start();
    daemon.register(&service("a", None));
    daemon.register(&service("b", Some(0)));
    let drained = daemon.register(&service("c", None));
    daemon.object(&["admin", "drain", &drained]);
    let answer = daemon.tenure(&["admin", "status", "--quiet"]);
    assert_eq!(answer.code, 0);
    let text = answer.out.replace(&format!("pid {}", daemon.pid()), "pid PID");
    let uptime = text.lines().nth(1).unwrap();
    assert!(uptime.strip_prefix("Uptime:        ").is_some_and(|span| span.ends_with('s')), "{uptime}");
    let text = text.replace(uptime, "Uptime:        SPAN").replace(&daemon.address().to_string(), "ADDRESS");
    expect![[r#"
        Tenure v0.1.0 — running (pid PID)
        Uptime:        SPAN
        HTTP:          http://ADDRESS
        IPC:           DIR/tenure.sock
        mDNS:          off

        Registrations: 2 alive, 1 draining, 1 permanent
    "#]]
    .assert_eq(&text);
    let object = daemon.object(&["mdns", "admin", "status"]);
    assert_eq!(object["registrations"], json!({"alive": 2, "draining": 1, "permanent": 1, "total": 3}));
    assert_eq!(object["platform"], "linux");
}

#[test]
fn registrations_are_listed_by_name_in_any_script() {
    let daemon = Daemon::start();
    expect![[r#"
        exit 0
        --- out
        --- err
        0 registrations
    "#]]
    .assert_eq(&daemon.plain(&["admin", "ls"]));
    daemon.register(&service("Küche 台所", Some(0)));
    daemon.register(&service("Ablage", Some(0)));
    let mut lines = daemon.lines();
    lines.ask(&json!({"register": service("Büro", None)}));
    let answer = daemon.tenure(&["admin", "registrations", "--quiet"]);
    expect![[r#"
        ID        NAME      TYPE        PORT  MODE       STATE  REMAINING
        ID1  Ablage    _http._tcp  8080  permanent  alive  —
        ID2  Büro      _http._tcp  8080  session    alive  —
        ID3  Küche 台所  _http._tcp  8080  permanent  alive  —
    "#]]
    .assert_eq(&without_ids(&daemon, &answer.out));
    for spelling in [&["admin", "ls"][..], &["mdns", "admin", "ls"], &["mdns", "admin", "registrations"]] {
        let again = daemon.tenure(&[spelling, &["--quiet"]].concat());
        assert_eq!(again.out, answer.out, "{spelling:?}");
    }
    let objects = daemon.registrations();
    assert_eq!(objects[1]["name"], "Büro");
    assert!(objects[1]["session_id"].as_str().unwrap().starts_with("pipe:"));
}

#[test]
fn a_list_fits_its_terminal_and_is_never_cut_inside_a_character() {
    let daemon = Daemon::start();
    daemon.register(&service(&"ü台".repeat(12), Some(0)));
    for columns in 61..=80 {
        let mut command = daemon.command(&["admin", "ls", "--quiet"]);
        let shown = at_terminal(&mut command, columns, "");
        assert_eq!(shown.code, 0);
        for line in shown.text.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{line:?} at {columns}");
        }
        assert!(shown.text.contains('…'), "{}", shown.text);
    }
}

#[test]
fn one_is_inspected_by_its_id_or_its_beginning() {
    let daemon = Daemon::start();
    let body = json!({
        "name": "App", "type": "http", "port": 8080, "ip": "127.0.0.1", "lease": 3600,
        "txt": {"path": "/admin", "flag": null},
    });
    let id = daemon.register(&body);
    let text = daemon.plain(&["admin", "inspect", &id[..3], "--quiet"]).replace(&id, "ID");
    let text = text.replace("59m 59s", "1h 0m");
    expect![[r#"
        exit 0
        --- out
        Registration ID
          Name: App
          Type: _http._tcp
          Port: 8080
          Address: 127.0.0.1
          Mode: heartbeat
          State: alive
          Session: —
          Lease: 1h 0m
          Remaining: 1h 0m
          Grace: 30s
          Registered: TIME (now)
          Last seen: TIME (now)
          Advertised: no (App._http._tcp.local)
          Lease id: TAG-1, epoch 1
          Last error: —
          TXT:
            flag
            path = /admin
        --- err
    "#]]
    .assert_eq(&text);
    let object = daemon.object(&["mdns", "admin", "inspect", &id[..2].to_uppercase()]);
    assert_eq!((&object["id"], &object["lease_secs"]), (&json!(id), &json!(3600)));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: an id needs at least 2 characters (invalid_request)
    "#]]
    .assert_eq(&daemon.plain(&["admin", "inspect", &id[..1], "--quiet"]));
}

#[test]
fn what_is_unknown_or_ambiguous_is_refused_with_the_next_step() {
    let daemon = Daemon::start();
    let unknown = expect![[r#"
        exit 1
        --- out
        --- err
        error: registration "zz" does not exist (not_found)
        hint: tenure admin registrations lists the registrations
    "#]];
    for verb in ["inspect", "unregister", "drain", "revive"] {
        unknown.assert_eq(&daemon.plain(&["admin", verb, "zz", "--quiet"]));
    }
    let beginning = ambiguous_beginning(&daemon);
    for verb in ["inspect", "unregister", "drain", "revive"] {
        let answer = daemon.tenure(&["admin", verb, &beginning, "--quiet"]);
        assert_eq!(answer.code, 2, "{}", answer.err);
        assert!(answer.err.contains(&format!("several ids begin with \"{beginning}\": ")), "{}", answer.err);
    }
    let refusal = daemon.tenure(&["admin", "inspect", &beginning, "--json", "--quiet"]);
    let refusal: Value = serde_json::from_str(&refusal.out).unwrap();
    assert_eq!(
        (&refusal["error"], refusal["matches"].as_array().unwrap().len()),
        (&json!("ambiguous_id"), 2)
    );
}

#[test]
fn a_registration_is_drained_revived_and_ended() {
    let daemon = Daemon::start();
    let id = daemon.register(&service("App", None));
    let plain = |arguments: &[&str]| {
        let answer = daemon.tenure(&[arguments, &["--quiet"]].concat());
        scrubbed(&answer.all(), &daemon.tag()).replace(&id, "ID")
    };
    expect![[r#"
        exit 0
        --- out
        drained ID
        --- err
    "#]]
    .assert_eq(&plain(&["admin", "drain", &id[..3]]));
    let drained = daemon.object(&["admin", "inspect", &id]);
    assert_eq!(drained["state"], "draining");
    assert!(drained["remaining_secs"].as_u64().unwrap() <= 30);
    expect![[r#"
        exit 1
        --- out
        --- err
        error: the lease is already draining (already_draining)
        hint: tenure admin revive cancels the drain
    "#]]
    .assert_eq(&plain(&["admin", "drain", &id]));
    expect![[r#"
        exit 0
        --- out
        revived ID
        --- err
    "#]]
    .assert_eq(&plain(&["admin", "revive", &id]));
    expect![[r#"
        exit 1
        --- out
        --- err
        error: the lease is not draining (not_draining)
        hint: tenure admin inspect shows its state
    "#]]
    .assert_eq(&plain(&["admin", "revive", &id]));
    expect![[r#"
        exit 0
        --- out
        unregistered ID
        --- err
    "#]]
    .assert_eq(&plain(&["admin", "unregister", &id]));
    assert_eq!(daemon.registrations(), Vec::<Value>::new());
    let permanent = daemon.register(&service("App", Some(0)));
    let refused = daemon.tenure(&["admin", "drain", &permanent, "--quiet"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.ends_with("hint: tenure admin unregister ends the registration\n"),
        "{}",
        refused.err
    );
    let object = |arguments: &[&str]| daemon.object(arguments);
    let other = daemon.register(&service("Other", None));
    assert_eq!(object(&["mdns", "admin", "drain", &other]), json!({"drained": other}));
    assert_eq!(object(&["mdns", "admin", "revive", &other]), json!({"revived": other}));
    assert_eq!(object(&["mdns", "admin", "unregister", &other]), json!({"unregistered": other}));
}

#[test]
fn ending_a_registration_is_asked_about_at_a_terminal_and_goes_ahead_in_scripts() {
    let daemon = Daemon::start();
    let service = |name: &str| json!({"name": name, "type": "http", "port": 80});
    let id = daemon.register(&service("App"));
    for verb in ["unregister", "drain"] {
        let asked = at_terminal(&mut daemon.command(&["admin", verb, &id, "--quiet"]), 200, "n\n");
        assert!(
            asked.text.contains(&format!("registration {id}: App._http._tcp, port 80")),
            "{}",
            asked.text
        );
        assert!(asked.text.contains("[y/N]"), "{}", asked.text);
        assert_eq!(asked.code, 1);
    }
    assert_eq!(daemon.registrations()[0]["state"], "alive");
    // What the first version of these commands did in scripts they do.
    assert_eq!(daemon.tenure(&["admin", "drain", &id]).code, 0);
    assert_eq!(daemon.tenure(&["admin", "revive", &id]).code, 0);
    assert_eq!(daemon.tenure(&["admin", "drain", &id, "--yes"]).code, 0);
    let revive = at_terminal(&mut daemon.command(&["admin", "revive", &id, "--yes"]), 200, "");
    assert_eq!(revive.code, 0, "{}", revive.text);
    assert_eq!(daemon.tenure(&["admin", "unregister", &id]).code, 0);
    let own = daemon.register(&service("Own"));
    let unregister = at_terminal(&mut daemon.command(&["unregister", &own, "--quiet"]), 200, "");
    assert_eq!((unregister.code, unregister.text.contains("[y/N]")), (0, false), "{}", unregister.text);
    let yes = daemon.register(&service("Yes"));
    assert_eq!(daemon.tenure(&["mdns", "unregister", &yes, "--epoch", "7"]).code, 1);
    assert_eq!(daemon.tenure(&["mdns", "unregister", &yes, "--epoch", "1", "--yes"]).code, 0);
}
