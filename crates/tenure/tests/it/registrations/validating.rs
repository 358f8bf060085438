//! What may be registered: types, names, ports, texts and addresses.

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, id, service, service_with, started};
use crate::wire::daemon::Served;
use crate::wire::events::Events;
use crate::wire::http::{Answer, Ask};

/// Refused over HTTP and over lines, with the same code.
#[track_caller]
fn is_refused(daemon: &Served, service: Value, codes: &[&str]) {
    let answered = daemon.try_register(service.clone());
    assert_eq!(answered.status, 400, "{service}: {answered:?}");
    let code = answered.json()["error"].as_str().unwrap().to_owned();
    assert!(codes.contains(&code.as_str()), "{service}: {answered:?}");
    answered.refused(&code);
    daemon.lines().refused(json!({ "register": service }), &code);
}

#[test]
fn types_are_read_generously_and_shown_in_one_way() {
    let daemon = started();
    for (number, (given, shown)) in [
        ("_http._tcp", "_http._tcp"),
        ("http", "_http._tcp"),
        ("_http", "_http._tcp"),
        ("http.tcp", "_http._tcp"),
        ("_http.tcp", "_http._tcp"),
        ("http._udp", "_http._udp"),
        ("_http._tcp.", "_http._tcp"),
        ("_http._tcp...", "_http._tcp"),
        ("_http._tcp.local", "_http._tcp"),
        ("_http._tcp.local.", "_http._tcp"),
        ("  _http._tcp.local.  ", "_http._tcp"),
        ("_a._tcp", "_a._tcp"),
        ("_x1-2-3._udp", "_x1-2-3._udp"),
        ("_abcdefghijklmno._tcp", "_abcdefghijklmno._tcp"),
        ("abcdefghijklmno", "_abcdefghijklmno._tcp"),
        ("_1a._tcp", "_1a._tcp"),
    ]
    .into_iter()
    .enumerate()
    {
        let registered = daemon.register(service_with(&format!("app {number}"), json!({"type": given})));
        assert_eq!(registered["type"], shown, "{given:?}");
        assert_eq!(daemon.seen(&registered)["type"], shown, "{given:?}");
    }
}

#[test]
fn capitals_in_a_type_name_the_same_type() {
    let daemon = started();
    daemon.register(service("app"));
    let second = daemon.register(service_with("app", json!({"type": "_HTTP._TCP"})));
    assert_eq!(second["advertised_name"], "app (2)", "{second}");
}

#[test]
fn bad_types_are_refused() {
    let daemon = started();
    for bad in [
        "",
        " ",
        ".",
        "_",
        "_._tcp",
        "__http._tcp",
        "_http._sctp",
        "_http.tcpx",
        "_http._tcp._tcp",
        "a.b.c",
        "_abcdefghijklmnop._tcp",
        "_-http._tcp",
        "_http-._tcp",
        "_ht--tp._tcp",
        "_123._tcp",
        "_ht_tp._tcp",
        "_ht tp._tcp",
        "_hüttp._tcp",
        "_http..tcp",
        "_http._tcp.example",
        "_http\n._tcp",
        "local",
        ".local",
        "_tcp.local",
    ] {
        // One label is a name, and tcp is assumed.
        if ["local", "_tcp.local"].contains(&bad) {
            let answered = daemon.try_register(service_with(&format!("as name {bad}"), json!({"type": bad})));
            assert!(matches!(answered.status, 201 | 400), "{bad:?}: {answered:?}");
            continue;
        }
        is_refused(&daemon, service_with("app", json!({"type": bad})), &["invalid_type"]);
    }
    is_refused(&daemon, service_with("app", json!({"type": "x".repeat(300)})), &["invalid_type"]);
    for route in ["browse", "events"] {
        for bad in ["_http._sctp", "_ht--tp._tcp", "a.b.c.d", "_abcdefghijklmnop._tcp"] {
            daemon.http().get(&format!("/v1/mdns/{route}?type={bad}")).refused("invalid_type");
        }
    }
}

#[test]
fn subtypes_are_accepted() {
    let daemon = started();
    let registered = daemon.register(service_with("app", json!({"type": "_printer._sub._http._tcp"})));
    assert!(registered["type"].as_str().unwrap().contains("_http._tcp"), "{registered}");
    let mut by_type = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    assert_eq!(by_type.next().data["found"]["name"], "app");
    let mut by_subtype = Events::look(daemon.http(), "/v1/mdns/browse?type=_printer._sub._http._tcp");
    assert_eq!(by_subtype.next().data["found"]["name"], "app");
    let bad = service_with("app", json!({"type": "_printer._sub._http._sctp"}));
    is_refused(&daemon, bad, &["invalid_type"]);
}

const ODD_NAMES: [&str; 12] = [
    "v1.2.3",
    ".",
    "..",
    "a\\b",
    "a\\.b",
    "\\046",
    "Größe – Ünïcödé",
    "名前",
    "a/b?c=d&e#f%20",
    "quote \" and ' and `",
    "_http._tcp.local",
    " spaces ",
];

#[test]
fn odd_names_are_registered_found_resolved_and_withdrawn() {
    let daemon = started();
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    let longest = "x".repeat(63);
    let longest_of_two = format!("{}x", "ü".repeat(31));
    for (port, name) in ODD_NAMES.into_iter().chain([longest.as_str(), longest_of_two.as_str()]).enumerate() {
        let port = port + 1;
        let registered = daemon.register(service_with(name, json!({ "port": port })));
        assert_eq!(json!([registered["name"], registered["advertised_name"]]), json!([name, name]));
        assert_eq!(daemon.seen(&registered)["name"], name);
        let found = browse.next().data["found"].clone();
        assert_eq!(json!([found["name"], found["type"], found["port"]]), json!([name, "_http._tcp", port]));
        let full = format!("{name}._http._tcp.local");
        let encoded = percent_encoding::utf8_percent_encode(&full, percent_encoding::NON_ALPHANUMERIC);
        let resolved = daemon.get(&format!("/v1/mdns/resolve?name={encoded}"));
        assert_eq!(json!([resolved["resolved"]["name"], resolved["resolved"]["port"]]), json!([name, port]));
        let line = daemon.lines().good(json!({ "resolve": full }), "resolved");
        assert_eq!(line["port"], port, "{line}");
        daemon.unregister(&registered).good();
        let removed = browse.next().data;
        assert_eq!(json!([removed["event"], removed["service"]["name"]]), json!(["removed", name]));
    }
}

#[test]
fn bad_names_are_refused() {
    let daemon = started();
    for bad in [String::new(), "x".repeat(64), "ü".repeat(32), "x".repeat(10_000)] {
        is_refused(&daemon, service(&bad), &["invalid_name"]);
    }
    for control in ["\0", "\n", "\r", "\t", "\u{1}", "\u{1f}", "\u{7f}", "\u{85}"] {
        is_refused(&daemon, service(&format!("a{control}b")), &["invalid_name"]);
    }
    assert!(daemon.all().is_empty());
    daemon.register(service("still here"));
    assert!(!daemon.said().contains("panic"), "{}", daemon.said());
}

/// They used to be registered, never seen on the network, and blocked their name for ten seconds at the end.
#[test]
fn what_could_never_be_advertised_is_refused_before_it_is_logged() {
    let daemon = started();
    for ip in ["0.0.0.0", "::", "224.0.0.251", "ff02::fb", "255.255.255.255"] {
        is_refused(&daemon, service_with("app", json!({ "ip": ip })), &["invalid_request"]);
    }
    let odd = r"_a\b._sub._http._tcp";
    is_refused(&daemon, service_with("app", json!({ "type": odd })), &["invalid_type"]);
    // Nor can there be anything to look for.
    let encoded = percent_encoding::utf8_percent_encode(odd, percent_encoding::NON_ALPHANUMERIC);
    daemon.http().get(&format!("/v1/mdns/browse?type={encoded}")).refused("invalid_type");
    daemon.lines().refused(json!({ "browse": odd }), "invalid_type");
    assert!(daemon.all().is_empty());
    assert_eq!(daemon.get("/v1/status")["leases"]["total"], 0);
    daemon.register(service("app"));
}

#[test]
fn ports_have_their_range() {
    let daemon = started();
    for port in [1, 65_535] {
        let registered = daemon.register(service_with(&format!("app {port}"), json!({ "port": port })));
        assert_eq!(registered["port"], port);
    }
    for bad in [json!(0), json!(65_536), json!(-1), json!(80.5), json!("80"), json!(null), json!([80])] {
        is_refused(&daemon, service_with("app", json!({ "port": bad })), &["invalid_request", "parse_error"]);
    }
}

#[test]
fn missing_and_unknown_fields_are_named() {
    let daemon = started();
    for field in ["name", "type", "port"] {
        let mut service = service("app");
        service.as_object_mut().unwrap().remove(field);
        is_refused(&daemon, service.clone(), &["invalid_request", "parse_error"]);
        let message = daemon.try_register(service).json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(field), "{field}: {message}");
    }
    let answered = daemon.try_register(service_with("app", json!({"colour": "red"})));
    let error = answered.refused("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("colour"), "{error}");
    let registered = daemon.register(service("app"));
    let answered = daemon.heartbeat(&registered, json!({"epoch": 1, "colour": "red"}));
    assert!(answered.refused("invalid_request")["message"].as_str().unwrap().contains("colour"));
}

#[test]
fn text_is_kept_as_it_was_given() {
    let daemon = started();
    let txt = json!({
        "path": "/a b", "flag": null, "empty": "", "eq": "a=b=c", "ümlaut-free": "größe"
    });
    is_refused(&daemon, service_with("app", json!({ "txt": txt })), &["invalid_request"]);
    let txt = json!({"path": "/a b", "flag": null, "empty": "", "eq": "a=b=c", "size": "größe", " k ": "v", "k".repeat(40): "v"});
    let registered = daemon.register(service_with("app", json!({ "txt": txt })));
    assert_eq!(daemon.seen(&registered)["txt"], txt);
    let resolved = daemon.get("/v1/mdns/resolve?name=app._http._tcp.local");
    assert_eq!(resolved["resolved"]["txt"], txt, "{resolved}");
}

#[test]
fn text_has_its_rules() {
    let daemon = started();
    let codes = &["invalid_request", "invalid_name", "too_large"];
    for key in ["", "a=b", "=", "ü", "a\nb", "a\0", "\u{7f}"] {
        is_refused(&daemon, service_with("app", json!({"txt": {key: "x"}})), codes);
    }
    daemon.register(service_with("fits", json!({"txt": {"k": "v".repeat(253)}})));
    let too_long = json!({"txt": {"k": "v".repeat(255)}});
    is_refused(&daemon, service_with("app", too_long), codes);
    is_refused(&daemon, service_with("app", json!({"txt": {"k".repeat(256): null}})), codes);
    is_refused(&daemon, service_with("app", json!({"txt": {"k": "ü".repeat(128)}})), codes);
    let many = |count: usize| -> Value {
        (0..count).map(|number| (format!("key{number}"), json!("v".repeat(190)))).collect()
    };
    daemon.register(service_with("many", json!({"txt": many(6)})));
    is_refused(&daemon, service_with("app", json!({"txt": many(7)})), codes);
    for bad in [json!([]), json!("a=b"), json!({"a": 1}), json!({"a": ["b"]}), json!({"a": {"b": "c"}})] {
        is_refused(&daemon, service_with("app", json!({ "txt": bad })), &["invalid_request", "parse_error"]);
    }
}

#[test]
fn an_address_of_another_host_is_taken_with_a_warning() {
    let daemon = started();
    for address in ["192.0.2.7", "2001:db8::7"] {
        let registered = daemon.register(service_with(address, json!({ "ip": address })));
        let warning = registered["warning"].as_str().unwrap_or_else(|| panic!("no warning: {registered}"));
        assert!(warning.contains(address), "{warning}");
        let resolved =
            daemon.get(&format!("/v1/mdns/resolve?name={}._http._tcp.local", address.replace(':', "%3A")));
        assert_eq!(resolved["resolved"]["ip"], address, "{resolved}");
        assert_eq!(resolved["resolved"]["addresses"], json!([address]), "{resolved}");
    }
    let line = daemon.lines().register(service_with("line", json!({"ip": "192.0.2.7"})));
    assert!(line["warning"].is_string(), "{line}");
    let own = daemon.register(service_with("own", json!({"ip": "127.0.0.1"})));
    assert_eq!(own["warning"], Value::Null, "{own}");
    assert_eq!(daemon.register(service("none"))["warning"], Value::Null);
    for bad in ["localhost", "1.2.3", "1.2.3.4:80", "", "fe80::1%eth0"] {
        is_refused(&daemon, service_with("app", json!({ "ip": bad })), &["invalid_request", "parse_error"]);
    }
}

#[test]
fn bad_json_is_answered_in_json() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let heartbeat = format!("/v1/mdns/services/{}/heartbeat", id(&registered));
    for body in [
        "{",
        "nonsense",
        "[]",
        "\"x\"",
        "{\"name\": \"app\"",
        "\u{feff}{}",
        "{\"name\":\"a\",\"name\":\"b\"}",
        "12",
    ] {
        for (method, path) in [("POST", "/v1/mdns/services"), ("PUT", heartbeat.as_str())] {
            let answered = daemon.http().ask(method, path, body.as_bytes());
            assert_eq!(answered.status, 400, "{method} {path} {body:?}: {answered:?}");
            let code = answered.json()["error"].as_str().unwrap().to_owned();
            assert!(["parse_error", "invalid_request"].contains(&code.as_str()), "{answered:?}");
            answered.refused(&code);
        }
    }
    let answered = daemon.http().ask("POST", "/v1/mdns/services", b"");
    assert_eq!(answered.status, 400, "{answered:?}");
    assert!(answered.json()["error"].is_string());
    let answered = daemon.http().ask("POST", "/v1/mdns/services", b"\xff\xfe{}");
    assert_eq!(answered.status, 400, "{answered:?}");
    assert!(answered.json()["error"].is_string());
    for (method, path) in [
        ("PUT", "/v1/mdns/services"),
        ("GET", "/v1/mdns/services/00000000"),
        ("POST", "/v1/mdns/browse"),
        ("DELETE", "/v1/mdns/admin/status"),
        ("GET", "/v1/mdns/nowhere"),
    ] {
        let answered = daemon.http().json(method, path, Value::Null);
        assert!(matches!(answered.status, 404 | 405), "{method} {path}: {answered:?}");
        assert!(answered.json()["error"].is_string());
    }
    let large = service_with("app", json!({"txt": {"a": "x".repeat(2_000_000)}}));
    daemon.try_register(large).refused("too_large");
}

#[test]
fn queries_have_their_rules() {
    let daemon = started();
    for path in [
        "/v1/mdns/browse?type=_http._tcp&idle_for=x",
        "/v1/mdns/browse?type=_http._tcp&idle_for=-1",
        "/v1/mdns/browse?type=_http._tcp&idle_for=18446744073709551616",
        "/v1/mdns/browse?kind=_http._tcp",
        "/v1/mdns/events?type=_http._tcp&idle_for=x",
        "/v1/mdns/resolve",
        "/v1/mdns/resolve?name=",
        "/v1/mdns/resolve?name=app",
        "/v1/mdns/resolve?name=app._http._sctp.local",
        "/v1/mdns/resolve?name=_http._tcp.local",
    ] {
        let answered = daemon.http().get(path);
        assert_eq!(answered.status, 400, "{path}: {answered:?}");
        assert!(answered.json()["error"].is_string(), "{answered:?}");
    }
}
