//! Pages of others cannot reach the daemon through the browser of somebody who can.

use serde_json::json;

use super::{as_token, with_tokens};
use crate::daemon::Daemon;

#[test]
fn a_request_for_another_name_is_refused() {
    let daemon = Daemon::start();
    let port = daemon.address().port();
    let status = |host: &str| daemon.http().to(host).get("/v1/leases").status;
    for own in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
        format!("[::1]:{port}"),
    ] {
        assert_eq!(status(&own), 200, "{own}");
    }
    for foreign in [
        format!("evil.example:{port}"),
        "evil.example".to_owned(),
        format!("127.0.0.1.evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1:{}", port ^ 1),
        format!("127.0.0.2:{port}"),
        "localhost".to_owned(),
        String::new(),
        "a b".to_owned(),
        format!("user@127.0.0.1:{port}"),
    ] {
        let answered = daemon.http().to(&foreign).get("/v1/leases");
        assert!(matches!(answered.status, 400 | 403), "{foreign:?}: {answered:?}");
    }
    let rebound = daemon.http().to("evil.example").get("/v1/leases");
    assert_eq!(rebound.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(daemon.http().to("evil.example").get("/docs").status, 403, "not even pages for everybody");
}

#[test]
fn a_page_of_another_origin_may_not_ask() {
    let daemon = Daemon::start();
    let body = json!({"resources": ["a"], "holder": "h"});
    let grant = |origin: &str| daemon.http().with("origin", origin).post("/v1/leases", &body);
    for foreign in [
        "http://evil.example",
        "https://evil.example",
        "null",
        "file://",
        "",
        &format!("https://{}", daemon.address()),
    ] {
        let answered = grant(foreign);
        assert_eq!(answered.refusal(), (403, "forbidden".to_owned()), "{foreign:?}");
        assert!(answered.header("access-control-allow-origin").is_none(), "{foreign:?}");
    }
    assert_eq!(daemon.get("/v1/leases").json()["leases"], json!([]), "nothing was done");
    let shut = daemon.http().with("origin", "http://evil.example").post("/v1/shutdown", &json!({}));
    assert_eq!(shut.status, 403);
    assert_eq!(grant(&format!("http://{}", daemon.address())).status, 201, "its own pages may");
    let preflight = daemon
        .http()
        .with("origin", "http://evil.example")
        .with("access-control-request-method", "POST")
        .ask("OPTIONS", "/v1/leases", b"");
    assert!(preflight.status >= 400, "{preflight:?}");
    assert!(preflight.header("access-control-allow-origin").is_none(), "{preflight:?}");
}

#[test]
fn a_page_is_own_only_under_the_name_that_its_request_is_sent_to() {
    let daemon = Daemon::start();
    let port = daemon.address().port();
    let reset = |host: &str, origin: &str| {
        let mut http = daemon.http().to(host).with("origin", origin);
        http.post("/v1/breaker/reset", &json!({})).status
    };
    let (number, name) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
    assert_eq!(reset(&number, &format!("http://{number}")), 200);
    assert_eq!(reset(&name, &format!("http://{name}")), 200);
    assert_eq!(reset(&number, &format!("http://{name}")), 403, "another name is another origin");
    assert_eq!(reset(&name, &format!("http://{number}")), 403);
    assert_eq!(reset(&number, &format!("http://203.0.113.5:{port}")), 403);
    let own = format!("http://{number}");
    let mut two = daemon.http().with("origin", &own).with("origin", "http://evil.example");
    assert_eq!(two.post("/v1/breaker/reset", &json!({})).status, 403, "two origins are none of ours");
    let mut unreadable = daemon.http().with("origin", "http://\u{fc}");
    assert_eq!(unreadable.post("/v1/breaker/reset", &json!({})).status, 403);
}

#[test]
fn a_valid_token_and_probes_are_answered_under_every_name() {
    let daemon = with_tokens(&[("worker", "hold")], &["--server-name", "lease.example"]);
    let port = daemon.address().port();
    for host in ["10.0.0.9", "lb.internal", "lb.internal:443"] {
        for probe in ["/healthz", "/readyz"] {
            assert_eq!(daemon.http().to(host).get(probe).status, 200, "{host} {probe}");
            let mut page = daemon.http().to(host).with("origin", "http://evil.example");
            assert_eq!(page.get(probe).status, 403, "{host} {probe}");
        }
        assert_eq!(as_token(&daemon, "worker").to(host).get("/v1/leases").status, 200, "{host}");
        let mut page = as_token(&daemon, "worker").to(host).with("origin", &format!("http://{host}"));
        assert_eq!(page.get("/v1/leases").status, 403, "{host}: a page that has a token is a page");
        assert_eq!(daemon.http().to(host).get("/v1/leases").status, 403, "{host}");
        let mut wrong = daemon.http().to(host).with("authorization", "Bearer wrong");
        assert_eq!(wrong.get("/v1/leases").status, 403, "{host}");
        assert_eq!(daemon.http().to(host).get("/docs").status, 403, "{host}");
    }
    for named in ["lease.example", "lease.example:8080", &format!("lease.example:{port}")] {
        assert_eq!(daemon.http().to(named).get("/docs").status, 200, "{named}");
        assert_eq!(daemon.http().to(named).get("/v1/leases").status, 401, "{named}");
        let mut own = as_token(&daemon, "worker").to(named).with("origin", &format!("http://{named}"));
        assert_eq!(own.get("/v1/leases").status, 200, "{named}");
    }
}

#[test]
fn a_page_of_an_origin_that_is_allowed_may() {
    let daemon = Daemon::start_with(&["--allow-origin", "https://board.example"]);
    let origin = "https://board.example";
    let preflight = daemon
        .http()
        .with("origin", origin)
        .with("access-control-request-method", "POST")
        .with("access-control-request-headers", "authorization,content-type,idempotency-key")
        .ask("OPTIONS", "/v1/leases", b"");
    assert_eq!(preflight.status, 204, "{preflight:?}");
    assert_eq!(preflight.header("access-control-allow-origin"), Some(origin));
    let methods = preflight.header("access-control-allow-methods").unwrap();
    let headers = preflight.header("access-control-allow-headers").unwrap();
    for method in ["GET", "POST", "PUT", "DELETE"] {
        assert!(methods.contains(method), "{methods}");
    }
    for header in ["authorization", "content-type", "idempotency-key"] {
        assert!(headers.contains(header), "{headers}");
    }
    let granted =
        daemon.http().with("origin", origin).post("/v1/leases", &json!({"resources": ["a"], "holder": "h"}));
    assert_eq!(granted.status, 201, "{granted:?}");
    assert_eq!(granted.header("access-control-allow-origin"), Some(origin));
    assert!(granted.header("vary").unwrap().to_ascii_lowercase().contains("origin"));
    let refused = daemon.http().with("origin", origin).get("/v1/leases/0000-1");
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (404, Some(origin)),
        "errors too"
    );
    let other = daemon.http().with("origin", "https://board.example.evil.example").get("/v1/leases");
    assert_eq!(other.status, 403, "{other:?}");
}
