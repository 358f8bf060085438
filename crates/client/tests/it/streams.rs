//! Streams over HTTP: events in pieces of any size, resumed where they broke off; bytes of a backup.

use crate::tiny::{TinyHttp, answer, begin_stream, chunk, read_request};
use tenure_client::{CallError, api};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

fn event(lsn: u64) -> String {
    format!(
        "id: p{lsn}\r\nevent: granted\r\ndata: {{\"lsn\":{lsn},\"at\":\"\",\"kind\":\"granted\",\"lease\":null}}\r\n\r\n"
    )
}

#[tokio::test]
async fn events_come_in_pieces_of_any_size() {
    let server = TinyHttp::serve(|_, mut stream| async move {
        read_request(&mut stream).await.expect("a request");
        begin_stream(&mut stream).await;
        chunk(&mut stream, ": hello\n\n").await;
        let text = format!("{}{}", event(1), event(2));
        let (one, other) = text.split_at(37);
        for piece in [one, other] {
            chunk(&mut stream, piece).await;
        }
        stream.write_all(b"0\r\n\r\n").await.expect("the client listens");
    })
    .await;
    let mut events = server.client().events(api::EventsQuery::default()).await.expect("a stream");
    assert_eq!(events.next().await.expect("an event").expect("one").lsn, 1);
    assert_eq!(events.last_id(), Some("p1"));
    assert_eq!(events.next().await.expect("an event").expect("two").lsn, 2);
    assert_eq!(events.next().await.expect("the end"), None);
    assert_eq!(events.resumptions(), 0);
}

#[tokio::test]
async fn a_resuming_stream_goes_on_after_the_last_event_and_where_lagged_says() {
    let (heard, mut asked) = mpsc::unbounded_channel();
    let server = TinyHttp::serve(move |number, mut stream| {
        let heard = heard.clone();
        async move {
            let request = read_request(&mut stream).await.expect("a request");
            heard.send(request.head).expect("heard");
            match number {
                // It breaks without an end.
                0 => {
                    begin_stream(&mut stream).await;
                    chunk(&mut stream, &event(5)).await;
                }
                1 => answer(
                    &mut stream,
                    503,
                    r#"{"error":"shutting_down","message":"m","definite":true,"lost":false,"retry_after_ms":1}"#,
                )
                .await,
                2 => {
                    begin_stream(&mut stream).await;
                    chunk(&mut stream, &event(6)).await;
                    chunk(&mut stream, "event: lagged\ndata: {\"resume\":40}\n\n").await;
                }
                3 => {
                    begin_stream(&mut stream).await;
                    chunk(&mut stream, &event(41)).await;
                    chunk(&mut stream, "event: closing\ndata: {}\n\n").await;
                }
                _ => {
                    let trimmed =
                        r#"{"error":"lsn_trimmed","message":"m","definite":true,"lost":false,"oldest":90}"#;
                    answer(&mut stream, 410, trimmed).await;
                }
            }
        }
    })
    .await;
    let query = api::EventsQuery { from: Some(4), ..api::EventsQuery::default() };
    let events = server.client().events(query).await.expect("a stream");
    let mut events = events.resuming().await.expect("a stream");
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(events.next().await.expect("an event").expect("no end").lsn);
    }
    assert_eq!(seen, [5, 6, 41]);
    let error = events.next().await.expect_err("what is trimmed cannot be resumed");
    assert_eq!(error.code(), Some(api::ErrorCode::LsnTrimmed));
    assert_eq!(events.resumptions(), 2);
    let heads: Vec<String> = {
        let mut heads = Vec::new();
        while let Ok(head) = asked.try_recv() {
            heads.push(head);
        }
        heads
    };
    assert!(heads[0].starts_with("GET /v1/events?from=4 "), "{heads:?}");
    assert!(heads[1].contains("last-event-id: p5"), "{heads:?}");
    assert!(heads[2].contains("last-event-id: p5"), "{heads:?}");
    assert!(
        heads[3].starts_with("GET /v1/events?from=40 ") && !heads[3].contains("last-event-id"),
        "{heads:?}"
    );
    assert!(heads[4].contains("last-event-id: p41"), "{heads:?}");
}

#[tokio::test]
async fn a_stream_that_does_not_resume_says_that_it_broke() {
    let server = TinyHttp::serve(|_, mut stream| async move {
        read_request(&mut stream).await.expect("a request");
        begin_stream(&mut stream).await;
        chunk(&mut stream, "event: lagged\ndata: {\"resume\":40}\n\n").await;
    })
    .await;
    let mut events = server.client().events(api::EventsQuery::default()).await.expect("a stream");
    let lagged = events.next().await.expect("an event").expect("lagged");
    assert_eq!((lagged.kind, lagged.lsn), (api::EventKind::Lagged, 40));
    let error = events.next().await.expect_err("it broke");
    assert!(matches!(error, CallError::Broken { .. }), "{error:?}");
}

#[tokio::test]
async fn a_backup_comes_whole_or_fails() {
    let server = TinyHttp::serve(|number, mut stream| async move {
        read_request(&mut stream).await.expect("a request");
        begin_stream(&mut stream).await;
        for _ in 0..3 {
            chunk(&mut stream, &"x".repeat(1_000)).await;
        }
        if number == 0 {
            stream.write_all(b"0\r\n\r\n").await.expect("the client listens");
        }
    })
    .await;
    let client = server.client();
    let mut backup = client.backup().await.expect("a stream");
    let mut bytes = 0;
    while let Some(piece) = backup.next().await.expect("a piece") {
        bytes += piece.len();
    }
    assert_eq!(bytes, 3_000);
    let mut broken = client.backup().await.expect("a stream");
    let error = loop {
        match broken.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("half a backup passed for a whole one"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CallError::Broken { .. }), "{error:?}");
}
