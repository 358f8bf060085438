//! One call: connections kept and replaced, limits, and what is known when something breaks.

use crate::tiny::{TinyHttp, answer, read_request};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_client::{CallError, Client, Endpoint, Method, api};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};

const BREAKER: &str = r#"{"lsn":1}"#;

fn lease_json(lease_id: &str) -> String {
    format!(
        r#"{{"lease_id":"{lease_id}","holder":"me","state":"active","liveness":"alive","drain_cause":null,
        "mode":"heartbeat","epoch":1,"fence":1,"resources":["r"],"ttl_ms":90000,"grace_ms":30000,
        "valid_ms":90000,"remaining_ms":90000,"granted_at":"","last_seen":null,"deadline":null,
        "ended_at":null,"reason":null,"reason_text":null,"session":null,"face":"leases",
        "attachment":null,"server_time":"","lsn":7}}"#
    )
}

#[tokio::test]
async fn a_connection_is_kept_and_used_again() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let server = TinyHttp::serve(move |_, mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            while read_request(&mut stream).await.is_some() {
                answer(&mut stream, 200, "OK").await;
            }
        }
    })
    .await;
    let client = server.client();
    for _ in 0..20 {
        client.ready().await.expect("ready");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// Answers one request per connection, then reads one more and closes without a word.
async fn server_that_goes_stale(asked: mpsc::UnboundedSender<String>) -> TinyHttp {
    TinyHttp::serve(move |_, mut stream| {
        let asked = asked.clone();
        async move {
            for turn in 0..2 {
                let Some(request) = read_request(&mut stream).await else { return };
                asked.send(request.head.lines().next().expect("a line").to_owned()).expect("heard");
                if turn == 0 {
                    answer(&mut stream, 200, BREAKER).await;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn what_may_be_sent_twice_is_when_a_kept_connection_breaks() {
    let (heard, mut asked) = mpsc::unbounded_channel();
    let server = server_that_goes_stale(heard).await;
    let client = server.client();
    client.reset_breaker().await.expect("the first connection");
    client.reset_breaker().await.expect("asked again on a new one");
    drop(server);
    drop(client);
    let mut requests = 0;
    while asked.recv().await.is_some() {
        requests += 1;
    }
    assert_eq!(requests, 3);
}

#[tokio::test]
async fn what_may_not_be_sent_twice_is_not() {
    let (heard, mut asked) = mpsc::unbounded_channel();
    let server = server_that_goes_stale(heard).await;
    let client = server.client();
    let call = async || client.call::<api::BreakerReset>(Method::POST, "/v1/x", None::<&()>).await;
    call().await.expect("the first connection");
    let error = call().await.expect_err("it broke after the request had left");
    assert!(matches!(error, CallError::Broken { .. }), "{error:?}");
    assert!(!error.is_definite());
    drop(server);
    drop(client);
    let mut requests = 0;
    while asked.recv().await.is_some() {
        requests += 1;
    }
    assert_eq!(requests, 2);
}

#[tokio::test]
async fn a_retried_grant_carries_the_same_operation_id() {
    let (heard, mut bodies) = mpsc::unbounded_channel();
    let server = TinyHttp::serve(move |number, mut stream| {
        let heard = heard.clone();
        async move {
            if number == 0 {
                read_request(&mut stream).await.expect("a warm-up");
                answer(&mut stream, 200, BREAKER).await;
            }
            let Some(request) = read_request(&mut stream).await else { return };
            heard.send(request.body).expect("heard");
            if number > 0 {
                answer(&mut stream, 201, &lease_json("k3f9-1")).await;
            }
        }
    })
    .await;
    let client = server.client();
    client.reset_breaker().await.expect("a connection to keep");
    let acquire = api::Acquire { resources: vec!["r".into()], holder: "me".into(), ..Default::default() };
    let lease = client.acquire(&acquire).await.expect("granted at the second try");
    assert_eq!(lease.lease_id, "k3f9-1");
    let (first, second) = (bodies.recv().await.expect("one"), bodies.recv().await.expect("two"));
    assert!(first.contains("operation_id"), "{first}");
    assert_eq!(first, second);
}

#[tokio::test]
async fn nobody_there_is_unreachable_and_certain() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let endpoint: Endpoint = format!("http://{address}").parse().expect("an endpoint");
    let error =
        Client::builder(endpoint).build().expect("a client").status().await.expect_err("nobody listens");
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert!(error.is_definite());
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let missing: Endpoint = "unix:/nonexistent/tenure.sock".parse().expect("an endpoint");
    let error = Client::builder(missing).build().expect("a client").status().await.expect_err("no socket");
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn silence_is_given_up_and_its_late_answer_is_nobodys() {
    let server = TinyHttp::serve(|number, mut stream| async move {
        read_request(&mut stream).await.expect("a request");
        if number == 0 {
            // Until the client closes.
            let _ = stream.read(&mut [0]).await;
        }
        answer(&mut stream, 200, r#"{"lsn":2}"#).await;
    })
    .await;
    let client = Client::builder(server.endpoint.clone())
        .request_timeout(Duration::from_millis(50))
        .build()
        .expect("a client");
    let error = client.reset_breaker().await.expect_err("no answer");
    assert!(matches!(error, CallError::TimedOut { .. }), "{error:?}");
    assert!(!error.is_definite());
    let patient = server.client();
    assert_eq!(patient.reset_breaker().await.expect("a new connection").lsn, 2);
}

#[tokio::test]
async fn a_wait_that_was_asked_for_makes_the_limit_longer() {
    let outlived = Arc::new(Notify::new());
    let told = outlived.clone();
    let server = TinyHttp::serve(move |_, mut stream| {
        let told = told.clone();
        async move {
            let request = read_request(&mut stream).await.expect("a request");
            told.notified().await;
            if request.body.contains("wait_ms") {
                answer(&mut stream, 201, &lease_json("k3f9-1")).await;
            }
        }
    })
    .await;
    let client = Client::builder(server.endpoint.clone())
        .request_timeout(Duration::from_millis(50))
        .build()
        .expect("a client");
    let mut acquire = api::Acquire { resources: vec!["r".into()], holder: "me".into(), ..Default::default() };
    acquire.wait_ms = Some(60_000);
    let others = async {
        // Begun after it and given up before it.
        let error = client.reset_breaker().await.expect_err("no answer");
        assert!(matches!(error, CallError::TimedOut { .. }), "{error:?}");
        outlived.notify_waiters();
    };
    let (granted, ()) = tokio::join!(client.acquire(&acquire), others);
    granted.expect("waited for");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_answer() {
    let server = TinyHttp::serve(|_, mut stream| async move {
        read_request(&mut stream).await.expect("a request");
        stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{\"ls").await.expect("sent");
    })
    .await;
    let error = server.client().reset_breaker().await.expect_err("half an answer");
    assert!(matches!(error, CallError::Broken { .. }), "{error:?}");
}

#[tokio::test]
async fn token_and_names_arrive_as_they_should() {
    let (heard, mut asked) = mpsc::unbounded_channel();
    let server = TinyHttp::serve(move |_, mut stream| {
        let heard = heard.clone();
        async move {
            while let Some(request) = read_request(&mut stream).await {
                heard.send(request.head).expect("heard");
                let refusal = r#"{"error":"forbidden","message":"no","definite":true,"lost":false}"#;
                answer(&mut stream, 403, refusal).await;
            }
        }
    })
    .await;
    let client = Client::builder(server.endpoint.clone()).token("secret").build().expect("a client");
    let error = client.resource("db/primary 1").await.expect_err("refused");
    assert_eq!(error.code(), Some(api::ErrorCode::Forbidden));
    let head = asked.recv().await.expect("a request");
    assert!(head.starts_with("GET /v1/resources/db%2Fprimary%201 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer secret"), "{head}");
    assert!(!format!("{client:?}").contains("secret"));
    client.remove_pool("p", &api::RemovePool { force: true }).await.expect_err("refused");
    let head = asked.recv().await.expect("a request");
    assert!(head.starts_with("DELETE /v1/pools/p?force=true HTTP/1.1\r\n"), "{head}");
}

#[tokio::test]
async fn what_is_no_daemon_is_unexpected() {
    let server = TinyHttp::serve(|_, mut stream| async move {
        while read_request(&mut stream).await.is_some() {
            answer(&mut stream, 200, "<html>hello").await;
        }
    })
    .await;
    let error = server.client().status().await.expect_err("not a daemon");
    assert!(matches!(error, CallError::Unexpected { status: 200, .. }), "{error:?}");
    assert!(error.to_string().contains("<html>"), "{error}");
}
