//! The socket's lines: many in flight, answers in any order, losses as they happen, nobody left waiting.

use crate::tiny::TinySocket;
use serde_json::{Value, json};
use std::time::Duration;
use tenure_client::{CallError, Connection, api};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// The daemon's end of one connection.
struct Daemon {
    lines: Lines<BufReader<OwnedReadHalf>>,
    half: OwnedWriteHalf,
}

impl Daemon {
    /// Greets and takes over.
    async fn greet(stream: UnixStream) -> Self {
        let (read_half, half) = stream.into_split();
        let mut daemon = Self { lines: BufReader::new(read_half).lines(), half };
        let hello = daemon.read().await.expect("a hello");
        assert!(hello.get("hello").is_some(), "{hello}");
        daemon.say(json!({"hello": {"session": "pipe:01", "version": "0"}, "tag": hello["tag"]})).await;
        daemon
    }

    async fn read(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    async fn say(&mut self, value: Value) {
        self.half.write_all(format!("{value}\n").as_bytes()).await.expect("the client listens");
    }
}

fn lease(lease_id: &str) -> Value {
    json!({
        "lease_id": lease_id, "holder": "me", "state": "active", "liveness": "alive", "mode": "session",
        "epoch": 1, "fence": 1, "resources": ["r"], "granted_at": "", "face": "leases",
        "session": "pipe:01", "server_time": "", "lsn": 7,
    })
}

fn acquire() -> api::Acquire {
    api::Acquire { resources: vec!["r".into()], holder: "me".into(), ..api::Acquire::default() }
}

fn heartbeat(lease_id: &str) -> api::Verb {
    api::Verb::Heartbeat(api::Heartbeat::Lease(api::ByLease {
        lease_id: lease_id.to_owned(),
        body: api::HolderCall { epoch: 1, ..api::HolderCall::default() },
    }))
}

#[tokio::test]
async fn many_requests_are_in_flight_and_answers_find_their_askers_in_any_order() {
    let socket = TinySocket::serve(|_, stream| async move {
        let mut daemon = Daemon::greet(stream).await;
        let mut asked = Vec::new();
        for _ in 0..100 {
            asked.push(daemon.read().await.expect("a line"));
        }
        for line in asked.into_iter().rev() {
            let lease_id = &line["heartbeat"]["lease_id"];
            let renewed = json!({"lease_id": lease_id, "epoch": 1, "valid_ms": null, "remaining_ms": null,
                "draining": false, "server_time": "", "lsn": 1});
            daemon.say(json!({"renewed": renewed, "tag": line["tag"]})).await;
        }
        daemon.read().await;
    })
    .await;
    let connection = Connection::open(&socket.path).await.expect("open");
    assert_eq!(connection.session(), "pipe:01");
    let mut pending = Vec::new();
    for number in 0..100 {
        pending.push((number, connection.begin(heartbeat(&format!("k3f9-{number}"))).await.expect("sent")));
    }
    for (number, answer) in pending {
        let api::Answer::Renewed(renewed) = answer.await.expect("an answer") else { panic!("not renewed") };
        assert_eq!(renewed.lease_id, format!("k3f9-{number}"));
    }
}

#[tokio::test]
async fn a_refusal_and_an_unknown_answer_reach_who_asked() {
    let socket = TinySocket::serve(|_, stream| async move {
        let mut daemon = Daemon::greet(stream).await;
        let first = daemon.read().await.expect("a line");
        let refusal = json!({"error": "stale_epoch", "message": "m", "definite": true, "lost": true,
            "current": 9, "tag": first["tag"]});
        daemon.say(refusal).await;
        let second = daemon.read().await.expect("a line");
        daemon.say(json!({"marvel": {}, "tag": second["tag"]})).await;
        daemon.say(json!({"nobody asked": 1})).await;
        let third = daemon.read().await.expect("a line");
        daemon.say(json!({"lease": lease("k3f9-1"), "tag": third["tag"]})).await;
        daemon.read().await;
    })
    .await;
    let connection = Connection::open(&socket.path).await.expect("open");
    let error = connection.heartbeat("k3f9-1", 1).await.expect_err("refused");
    assert_eq!(error.code(), Some(api::ErrorCode::StaleEpoch));
    assert!(error.lost());
    let error = connection.heartbeat("k3f9-1", 1).await.expect_err("not understood");
    assert!(matches!(error, CallError::Unexpected { .. }), "{error:?}");
    connection.inspect("k3f9-1").await.expect("the connection lives on");
}

#[tokio::test]
async fn a_closed_connection_leaves_nobody_waiting() {
    let socket = TinySocket::serve(|_, stream| async move {
        let mut daemon = Daemon::greet(stream).await;
        daemon.read().await.expect("a line");
    })
    .await;
    let connection = Connection::open(&socket.path).await.expect("open");
    let error = connection.status().await.expect_err("it closed");
    assert!(matches!(error, CallError::Broken { .. }), "{error:?}");
    connection.closed().await;
    assert!(connection.is_closed());
    assert_eq!(connection.next_lost().await, None);
    assert!(connection.status().await.is_err());
}

#[tokio::test]
async fn the_connection_closes_with_its_last_handle() {
    let (gone, mut heard) = mpsc::unbounded_channel();
    let socket = TinySocket::serve(move |_, stream| {
        let gone = gone.clone();
        async move {
            let mut daemon = Daemon::greet(stream).await;
            assert_eq!(daemon.read().await, None);
            gone.send(()).expect("heard");
        }
    })
    .await;
    let connection = Connection::open(&socket.path).await.expect("open");
    let clone = connection.clone();
    drop(connection);
    assert!(!clone.is_closed());
    drop(clone);
    heard.recv().await.expect("the daemon saw it close");
}

#[tokio::test]
async fn a_loss_is_told_even_right_behind_the_grant() {
    let socket = TinySocket::serve(|_, stream| async move {
        let mut daemon = Daemon::greet(stream).await;
        let asked = daemon.read().await.expect("a line");
        assert_eq!(asked["acquire"]["mode"], "session");
        let granted = json!({"acquired": lease("k3f9-1"), "tag": asked["tag"]});
        let lost = json!({"lost": {"lease_id": "k3f9-1", "epoch": 2, "reason": "admin_force"}});
        let other = json!({"lost": {"lease_id": "k3f9-9", "epoch": 2, "reason": "max_lifetime"}});
        daemon.half.write_all(format!("{granted}\n{lost}\n{other}\n").as_bytes()).await.expect("sent");
        let acknowledge = daemon.read().await.expect("a line");
        assert_eq!(acknowledge["acknowledge"]["lease_id"], "k3f9-1");
        assert_eq!(acknowledge["acknowledge"]["epoch"], 1);
        daemon.say(json!({"acknowledged": lease("k3f9-1"), "tag": acknowledge["tag"]})).await;
        daemon.read().await;
    })
    .await;
    let connection = Connection::open(&socket.path).await.expect("open");
    let guard = connection.hold(["r"]).acquire().await.expect("granted");
    guard.token().cancelled().await;
    let reason = tenure_client::LossReason::Revoked("admin_force".to_owned());
    assert_eq!(guard.lost().await, reason);
    assert!(!guard.is_held());
    guard.stopped().await.expect("acknowledged");
    assert_eq!(connection.next_lost().await.expect("the other one").lease_id, "k3f9-9");
}

#[tokio::test]
async fn a_grant_whose_asker_has_gone_goes_back() {
    let (heard, mut released) = mpsc::unbounded_channel();
    let socket = TinySocket::serve(move |_, stream| {
        let heard = heard.clone();
        async move {
            let mut daemon = Daemon::greet(stream).await;
            let asked = daemon.read().await.expect("a line");
            // The asker has gone once the next line is here.
            let next = daemon.read().await.expect("a line");
            daemon.say(json!({"acquired": lease("k3f9-1"), "tag": asked["tag"]})).await;
            daemon.say(json!({"lease": lease("k3f9-1"), "tag": next["tag"]})).await;
            let release = daemon.read().await.expect("a line");
            heard.send(release["release"]["lease_id"].clone()).expect("heard");
        }
    })
    .await;
    let connection = Connection::open(&socket.path).await.expect("open");
    let request = acquire();
    let asking = connection.acquire(&request);
    assert!(tokio::time::timeout(Duration::from_millis(20), asking).await.is_err());
    connection.inspect("k3f9-1").await.expect("an answer");
    assert_eq!(released.recv().await.expect("a release"), "k3f9-1");
}

#[tokio::test]
async fn a_slow_watcher_is_cut_off_and_holds_nobody_up() {
    let (heard, mut stopped) = mpsc::unbounded_channel();
    let socket = TinySocket::serve(move |_, stream| {
        let heard = heard.clone();
        async move {
            let mut daemon = Daemon::greet(stream).await;
            let watch = daemon.read().await.expect("a line");
            for lsn in 1..=6_000 {
                let event = json!({"lsn": lsn, "at": "", "kind": "granted", "lease": null});
                daemon.say(json!({"event": event, "tag": watch["tag"]})).await;
            }
            for _ in 0..2 {
                let line = daemon.read().await.expect("a line");
                if line.get("stop").is_some() {
                    heard.send(line["stop"] == watch["tag"]).expect("heard");
                } else {
                    daemon.say(json!({"lease": lease("k3f9-1"), "tag": line["tag"]})).await;
                }
            }
            daemon.read().await;
        }
    })
    .await;
    let connection = Connection::open(&socket.path).await.expect("open");
    let mut watch = connection.watch(&api::EventsQuery::default()).await.expect("a watch");
    connection.inspect("k3f9-1").await.expect("not held up");
    assert!(stopped.recv().await.expect("a stop"));
    let mut last = 0;
    let lagged = loop {
        let event = watch.next().await.expect("an event").expect("no end before lagged");
        match event.kind {
            api::EventKind::Lagged => break event,
            _ => last = event.lsn,
        }
    };
    assert!(last > 0 && last < 6_000);
    assert_eq!(lagged.lsn, last, "where to begin again");
    assert_eq!(watch.next().await.expect("the end"), None);
}

#[tokio::test]
async fn a_closed_connection_loses_its_guards_at_once_and_resuming_makes_them_anew() {
    let socket = TinySocket::serve(|number, stream| async move {
        let mut daemon = Daemon::greet(stream).await;
        let asked = daemon.read().await.expect("a line");
        if number == 0 {
            daemon.say(json!({"acquired": lease("k3f9-1"), "tag": asked["tag"]})).await;
            return;
        }
        assert_eq!(asked["resume"]["lease_id"], "k3f9-1");
        assert_eq!(asked["resume"]["epoch"], 1);
        // The end of the first connection is noticed between the two tries.
        daemon.say(json!({
            "error": "not_draining", "message": "an open connection keeps it", "definite": true, "lost": false,
            "retry_after_ms": 1, "tag": asked["tag"],
        })).await;
        let asked = daemon.read().await.expect("a line");
        let mut resumed = lease("k3f9-1");
        resumed["epoch"] = json!(2);
        resumed["fence"] = json!(5);
        daemon.say(json!({"resumed": resumed, "tag": asked["tag"]})).await;
        let release = daemon.read().await.expect("a line");
        assert_eq!(release["release"]["epoch"], 2);
        daemon.say(json!({"released": lease("k3f9-1"), "tag": release["tag"]})).await;
        daemon.read().await;
    })
    .await;
    let first = Connection::open(&socket.path).await.expect("open");
    let mut guard = first.hold(["r"]).acquire().await.expect("granted");
    let token = guard.token();
    token.cancelled().await;
    assert_eq!(guard.lost().await, tenure_client::LossReason::Unreachable);
    let second = Connection::open(&socket.path).await.expect("open");
    guard.resume(&second).await.expect("resumed");
    assert!(guard.is_held());
    assert!(token.is_cancelled() && !guard.token().is_cancelled());
    assert_eq!((guard.epoch(), guard.fence()), (2, 5));
    guard.release().await.expect("released");
}
