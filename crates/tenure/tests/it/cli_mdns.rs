//! `tenure mdns`: services found and looked up, by whoever asks; and what it says to wrong usage.

use std::process::Command;

use expect_test::expect;
use serde_json::{Value, json};

use crate::cli_daemon::Daemon;
use crate::cli_desk::Desk;
use crate::cli_streams::Running;

impl Daemon {
    /// Registers a service that nobody keeps, in our own name; gives its id.
    #[track_caller]
    pub(crate) fn register(&self, body: &Value) -> String {
        let answered = self.http_over_socket().post("/v1/mdns/services", body);
        assert_eq!(answered.status, 201, "{answered:?}");
        answered.json()["registered"]["id"].as_str().unwrap().to_owned()
    }

    /// Runs it and takes out what differs between runs: this id is shown as ID.
    pub(crate) fn registered_text(&self, arguments: &[&str], id: &str) -> String {
        let host = host_of(self);
        let text = self.plain(arguments).replace(id, "ID");
        if host.is_empty() { text } else { text.replace(&format!("{host}-"), "HOST-") }
    }

    /// Everything that is registered, as its API has it.
    pub(crate) fn registrations(&self) -> Vec<Value> {
        self.object(&["admin", "registrations"]).as_array().unwrap().clone()
    }
}

/// What hosts of services begin with, on whatever machine this runs.
fn host_of(daemon: &Daemon) -> String {
    let Some(first) = daemon.registrations().first().cloned() else { return String::new() };
    let full = format!("{}._http._tcp.local", first["advertised_name"].as_str().unwrap());
    let resolved = daemon.object(&["resolve", &full]);
    let host = resolved["resolved"]["host"].as_str().unwrap().to_owned();
    host.rsplit_once('-').unwrap().0.to_owned()
}

fn web(name: &str) -> Value {
    json!({ "name": name, "type": "http", "port": 8080, "ip": "127.0.0.1", "txt": {"path": "/", "flag": null} })
}

#[test]
fn a_browse_shows_what_is_registered_and_ends_without_news() {
    let daemon = Daemon::start();
    let id = daemon.register(&web("Küche 1.2"));
    expect![[r#"
        exit 0
        --- out
        found Küche 1.2._http._tcp 127.0.0.1:8080 (HOST-ID.local) flag, path = /
        --- err
    "#]]
    .assert_eq(&daemon.registered_text(&["mdns", "browse", "_http._tcp", "--timeout", "1", "--quiet"], &id));
    expect![[r#"
        exit 0
        --- out
        found _http._tcp
        --- err
    "#]]
    .assert_eq(&daemon.registered_text(&["browse", "--timeout", "300ms"], &id));
    expect![[r#"
        exit 0
        --- out
        --- err
        no services found
    "#]]
    .assert_eq(&daemon.registered_text(&["browse", "ipp", "--timeout", "1s"], &id));
}

#[test]
fn a_browse_goes_on_while_there_is_news_and_ends_when_asked() {
    let daemon = Daemon::start();
    let mut browse = Running::start(&mut daemon.command(&["browse", "http", "--timeout", "0", "--json"]));
    let id = daemon.register(&web("App"));
    let found = browse.object();
    assert_eq!(
        (&found["found"]["name"], &found["found"]["txt"]),
        (&json!("App"), &json!({"path": "/", "flag": null}))
    );
    daemon.object(&["unregister", &id]);
    let removed = browse.object();
    assert_eq!((&removed["event"], &removed["service"]["name"]), (&json!("removed"), &json!("App")));
    crate::run_support::signal(browse.child.id() as i32, rustix::process::Signal::INT);
    assert_eq!(browse.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_look_without_end_goes_on_over_a_restart() {
    let mut daemon = Daemon::start();
    let permanent = json!({"name": "App", "type": "http", "port": 8080, "lease": 0});
    daemon.register(&permanent);
    let browse = Running::start(&mut daemon.command(&["browse", "http", "--timeout", "0", "--json"]));
    let subscribe = Running::start(&mut daemon.command(&["subscribe", "http", "--timeout", "0", "--json"]));
    assert_eq!(browse.object()["found"]["name"], "App");
    assert_eq!(
        (subscribe.object()["event"].clone(), subscribe.object()["event"].clone()),
        (json!("found"), json!("resolved"))
    );
    daemon.stop();
    browse.said("lost the connection to the daemon; reconnecting");
    subscribe.said("lost the connection to the daemon; reconnecting");
    daemon.start_again();
    browse.said("reconnected");
    subscribe.said("reconnected");
    assert_eq!(browse.object()["found"]["name"], "App");
    assert_eq!(subscribe.object()["service"]["name"], "App");
}

#[test]
fn a_subscription_tells_every_step() {
    let daemon = Daemon::start();
    let id = daemon.register(&web("App"));
    expect![[r#"
        exit 0
        --- out
        found App._http._tcp
        resolved App._http._tcp 127.0.0.1:8080 (HOST-ID.local) flag, path = /
        --- err
    "#]]
    .assert_eq(&daemon.registered_text(&["mdns", "subscribe", "http", "--timeout", "1", "-q"], &id));
    let mut events = Running::start(&mut daemon.command(&["subscribe", "http", "--timeout", "1h", "--json"]));
    assert_eq!(events.object()["event"], "found");
    assert_eq!(events.object()["event"], "resolved");
    daemon.object(&["unregister", &id]);
    assert_eq!(events.object()["event"], "removed");
    let mut daemon = daemon;
    daemon.stop();
    assert_eq!(events.child.wait().unwrap().code(), Some(3));
    events.said("the daemon stops");
}

#[test]
fn one_service_is_looked_up_by_its_full_name() {
    let daemon = Daemon::start();
    let id = daemon.register(&web("Küche 1.2"));
    let full = "Küche 1.2._http._tcp.local";
    expect![[r#"
        exit 0
        --- out
        name Küche 1.2
        type _http._tcp
        host HOST-ID.local
        addresses 127.0.0.1
        port 8080
        txt flag, path = /
        --- err
    "#]]
    .assert_eq(&daemon.registered_text(&["mdns", "resolve", full, "--quiet"], &id));
    let resolved = &daemon.object(&["resolve", full])["resolved"];
    assert_eq!((&resolved["name"], &resolved["ip"]), (&json!("Küche 1.2"), &json!("127.0.0.1")));
    expect![[r#"
        exit 1
        --- out
        --- err
        error: no answer for "Nobody._http._tcp.local" within SPAN (resolve_timeout)
        hint: tenure mdns browse TYPE lists the instances
    "#]]
    .assert_eq(&daemon.registered_text(&["resolve", "Nobody._http._tcp.local", "--quiet"], &id));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: "Nobody" is not an instance name; example: "My App._http._tcp.local" (invalid_request)
    "#]]
    .assert_eq(&daemon.registered_text(&["resolve", "Nobody", "--quiet"], &id));
}

#[test]
fn unregistering_needs_the_whole_id_and_tells_why_there_is_none() {
    let daemon = Daemon::start();
    let id = daemon.register(&web("App"));
    expect![[r#"
        exit 1
        --- out
        --- err
        error: registration "BEGINNING" does not exist (not_found)
        hint: tenure admin registrations lists the registrations
    "#]]
    .assert_eq(&daemon.plain(&["mdns", "unregister", &id[..4], "--quiet"]).replace(&id[..4], "BEGINNING"));
    assert_eq!(daemon.object(&["mdns", "unregister", &id]), json!({"unregistered": id}));
    crate::run_support::wait_until("the reason of the end", crate::run_support::LONG, || {
        let answer = daemon.tenure(&["unregister", &id, "--quiet"]);
        assert_eq!(answer.code, 1);
        answer.err.contains(&format!("registration {id} has ended: explicit (not_found)"))
    });
}

#[test]
fn what_somebody_else_registered_is_for_operators_to_end() {
    let daemon = Daemon::start();
    let answered = daemon.http_of(47_111).post("/v1/mdns/services", &web("App"));
    let id = answered.json()["registered"]["id"].as_str().unwrap().to_owned();
    expect![[r#"
        exit 1
        --- out
        --- err
        error: registration "ID" belongs to another principal (forbidden)
        hint: tenure admin unregister ends any registration
    "#]]
    .assert_eq(&daemon.plain(&["unregister", &id, "--quiet"]).replace(&id, "ID"));
    assert_eq!(daemon.tenure(&["admin", "unregister", &id]).code, 0);
}

#[test]
fn what_is_no_type_is_said_before_anything_is_seen() {
    let daemon = Daemon::start();
    for arguments in [
        &["browse", "a b", "--quiet"][..],
        &["subscribe", "a b", "--quiet"],
        &["register", "App", "a b", "80", "--quiet"],
    ] {
        let answer = daemon.tenure(arguments);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{arguments:?}: {}", answer.err);
        assert!(
            answer.err.contains("(invalid_type)\nhint: expected a type like _http._tcp"),
            "{}",
            answer.err
        );
    }
}

#[test]
fn wrong_usage_needs_no_daemon() {
    let check = |arguments: &[&str]| Desk::new().tenure(arguments).all();
    expect![[r#"
        exit 2
        --- out
        --- err
        error: invalid value '0' for '<PORT>': expected 1 to 65535
        hint: tenure register --help
    "#]]
    .assert_eq(&check(&["register", "App", "http", "0"]));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: --txt PATH is given twice, before as path
    "#]]
    .assert_eq(&check(&["register", "App", "http", "80", "--txt", "path=/", "--txt", "PATH"]));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: invalid value '1500ms' for '--lease <SECONDS>': expected whole seconds
        hint: tenure mdns register --help
    "#]]
    .assert_eq(&check(&["mdns", "register", "App", "http", "80", "--lease", "1500ms"]));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: invalid value 'soon' for '--timeout <SECS|DURATION>': expected a duration like 500ms, 30s, 1m30s or 2h
        hint: tenure browse --help
    "#]]
    .assert_eq(&check(&["browse", "--timeout", "soon"]));
    expect![[r#"
        exit 2
        --- out
        --- err
        error: the following required arguments were not provided: <TYPE>
        hint: tenure mdns subscribe --help
    "#]]
    .assert_eq(&check(&["mdns", "subscribe"]));
}

#[test]
fn what_needs_a_daemon_fails_fast_without_one() {
    let expected = expect![[r#"
        exit 3
        --- out
        --- err
        Error: Tenure daemon is not running at http://127.0.0.1:5641
        hint: start it with: tenure serve
    "#]];
    for arguments in [
        &["admin", "status"][..],
        &["admin", "registrations"],
        &["admin", "ls"],
        &["admin", "inspect", "ab"],
        &["admin", "unregister", "ab"],
        &["admin", "drain", "ab"],
        &["admin", "revive", "ab"],
        &["mdns", "admin", "status"],
        &["mdns", "unregister", "0a1b2c3d"],
        &["unregister", "0a1b2c3d"],
    ] {
        expected.assert_eq(&Desk::new().tenure(arguments).all());
    }
}

#[test]
fn without_a_daemon_the_network_is_asked_by_the_command_itself() {
    let alone = "note: no daemon is running; this command uses mDNS itself until it ends";
    for arguments in
        [&["browse", "--timeout", "1"][..], &["mdns", "subscribe", "http", "--timeout", "1", "--standalone"]]
    {
        let answer = Desk::new().tenure(arguments);
        assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{}", answer.err);
        assert_eq!(answer.err, format!("{alone}\nno services found\n"));
    }
    let answer = Desk::new().tenure(&["resolve", "Nobody._http._tcp.local", "--json"]);
    assert_eq!(answer.code, 1, "{}", answer.err);
    assert_eq!(serde_json::from_str::<Value>(&answer.out).unwrap()["error"], "resolve_timeout");
    let answer = Desk::new().tenure(&["browse", "--standalone", "--endpoint", "http://127.0.0.1:1"]);
    assert_eq!(answer.code, 2, "{}", answer.err);
}

#[test]
fn a_daemon_that_was_named_and_is_not_there_is_not_stood_in_for() {
    for arguments in [&["browse"][..], &["register", "App", "http", "80"], &["resolve", "a._http._tcp"]] {
        let desk = Desk::new();
        let mut command: Command = desk.command(arguments);
        command.env("TENURE_ENDPOINT", "http://127.0.0.1:1");
        let answer = desk.answer(&mut command);
        assert_eq!((answer.code, answer.out.as_str()), (3, ""), "{}", answer.err);
        assert!(
            answer.err.contains("Error: Tenure daemon is not running at http://127.0.0.1:1"),
            "{}",
            answer.err
        );
    }
}

#[test]
fn the_story_of_a_registration_is_told_by_its_id_or_its_beginning() {
    let daemon = Daemon::start();
    let id = daemon.register(&json!({"name": "App", "type": "http", "port": 80, "lease": 0}));
    let told = daemon.registered_text(&["why", &id, "--quiet"], &id);
    expect![[r#"
        exit 0
        --- out
        registration ID
          TIME now granted to App: mdns/_http._tcp/app; permanent, no heartbeat needed; application registrations [TAG-1]
        next: ends only when its holder releases it or an operator ends it
        --- err
    "#]]
    .assert_eq(&told);
    for arguments in [
        &["why", &id[..4], "--quiet"][..],
        &["why", &id[..2], "--registration", "--quiet"],
        &["why", &id, "--registration", "--quiet"],
    ] {
        assert_eq!(daemon.registered_text(arguments, &id), told, "{arguments:?}");
    }
    assert_eq!(daemon.tenure(&["why", &id, "--lease", "--quiet"]).code, 1);
    // A resource of that name counts for more than the beginning of an id.
    daemon.take(&[&id[..4], "--holder", "alice"]);
    assert!(daemon.tenure(&["why", &id[..4], "--quiet"]).out.starts_with(&format!("resource {}", &id[..4])));
    assert!(daemon.tenure(&["why", "fffffff", "--quiet"]).err.contains("no history of \"fffffff\""));
}
