//! Several endpoints, some of which are dead, silent or unable to decide: one daemon behind several doors.

use crate::daemon::{Daemon, soon, wait_until};
use crate::tiny::{TinyHttp, answer, begin_stream, chunk, read_request};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_client::{CallError, Client, Endpoint, GuardStatus, Method, api};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// How a door treats its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manners {
    /// Lets bytes through in both directions.
    Open,
    /// Takes connections and lets nothing through.
    Silent,
    /// Lets requests through and closes instead of bringing the answer.
    LosesAnswers,
    /// Closes at once.
    Shut,
}

/// A port of its own before the socket of a daemon.
struct Door {
    address: SocketAddr,
    manners: watch::Sender<Manners>,
    came: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Door {
    async fn before(daemon: &Daemon, manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let manners = watch::Sender::new(manners);
        let (told, socket) = (manners.subscribe(), daemon.socket());
        let came = Arc::new(AtomicUsize::new(0));
        let counted = came.clone();
        let task = tokio::spawn(async move {
            let inside = TaskTracker::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                inside.spawn(pass(stream, socket.clone(), told.clone()));
            }
        });
        Self { address, manners, came, _task: AbortOnDropHandle::new(task) }
    }

    fn endpoint(&self) -> Endpoint {
        format!("http://{}", self.address).parse().expect("an endpoint")
    }

    /// Connections that are open change with it.
    fn be(&self, manners: Manners) {
        self.manners.send_replace(manners);
    }

    fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}

async fn pass(mut stream: TcpStream, socket: PathBuf, mut told: watch::Receiver<Manners>) {
    let Ok(mut daemon) = UnixStream::connect(socket).await else { return };
    let (mut up, mut down) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let manners = *told.borrow_and_update();
        if manners == Manners::Shut {
            return;
        }
        let lets_through = manners != Manners::Silent;
        tokio::select! {
            changed = told.changed() => if changed.is_err() { return },
            read = stream.read(&mut up), if lets_through => match read {
                Ok(read) if read > 0 && daemon.write_all(&up[..read]).await.is_ok() => {}
                Ok(_) | Err(_) => return,
            },
            read = daemon.read(&mut down), if lets_through => match read {
                Ok(read) if read > 0 && manners == Manners::Open => {
                    if stream.write_all(&down[..read]).await.is_err() {
                        return;
                    }
                }
                Ok(_) | Err(_) => return,
            },
        }
    }
}

/// A port at which nobody listens, because it was ours a moment ago.
async fn deserted() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    format!("http://{}", listener.local_addr().expect("an address")).parse().expect("an endpoint")
}

fn client<const N: usize>(first: Endpoint, more: [Endpoint; N]) -> Client {
    Client::builder(first).endpoints(more).holder("me").build().expect("a client")
}

fn acquire(resource: &str) -> api::Acquire {
    api::Acquire {
        resources: vec![resource.to_owned()],
        holder: "me".to_owned(),
        ttl_ms: Some(30_000),
        ..api::Acquire::default()
    }
}

fn refusal(code: &str, definite: bool) -> String {
    format!(r#"{{"error":"{code}","message":"m","definite":{definite},"lost":false,"retry_after_ms":1}}"#)
}

/// Tries that were part of the call overflowed the stack of a poller, which makes many.
#[tokio::test]
async fn a_call_is_small_however_many_endpoints_it_may_ask() {
    let client = client(deserted().await, [deserted().await]);
    let wish = acquire("printer");
    let call = client.acquire(&wish);
    assert!(size_of_val(&call) < 4_096, "{} bytes", size_of_val(&call));
    drop(call);
    let call = client.status();
    assert!(size_of_val(&call) < 2_048, "{} bytes", size_of_val(&call));
}

#[tokio::test]
async fn a_dead_endpoint_is_passed_over_and_not_asked_again() {
    let daemon = Daemon::start().await;
    let (dead, door) = (deserted().await, Door::before(&daemon, Manners::Open).await);
    let client = client(dead.clone(), [door.endpoint(), dead.clone()]);
    assert_eq!(client.endpoints().collect::<Vec<_>>(), [&dead, &door.endpoint()], "each counts once");
    client.status().await.expect("the daemon answers");
    assert_eq!(client.endpoint(), &door.endpoint(), "the one that answered last");
    client.acquire(&acquire("printer")).await.expect("a lease");
    assert_eq!(door.came(), 1, "the connection is kept");
}

#[tokio::test]
async fn a_silent_endpoint_is_left_in_time() {
    let daemon = Daemon::start().await;
    let silent = Door::before(&daemon, Manners::Silent).await;
    let door = Door::before(&daemon, Manners::Open).await;
    let client = client(silent.endpoint(), [door.endpoint()]);
    let before = BootInstant::now();
    let lease = soon("a grant", client.acquire(&acquire("printer"))).await.expect("a lease");
    let took = BootInstant::now().since(before);
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(8), "{took:?}");
    assert!(!lease.replayed, "the silent one let nothing through");
}

#[tokio::test]
async fn when_nobody_is_there_the_call_ends_with_its_time() {
    let client = Client::builder(deserted().await)
        .endpoints([deserted().await])
        .request_timeout(Duration::from_millis(300))
        .build()
        .expect("a client");
    let error = soon("the end", client.status()).await.expect_err("nobody there");
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert!(error.is_definite());
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_at_another_endpoint_as_the_same_operation() {
    let daemon = Daemon::start().await;
    let losing = Door::before(&daemon, Manners::LosesAnswers).await;
    let door = Door::before(&daemon, Manners::Open).await;
    let client = client(losing.endpoint(), [door.endpoint()]);
    let lease = client.acquire(&acquire("printer")).await.expect("a lease");
    assert!(lease.replayed, "it was granted at the first try");

    // A call by hand is given an operation id of its own.
    let client = self::client(losing.endpoint(), [door.endpoint()]);
    let path = format!("/v1/leases/{}/release", lease.lease_id);
    let body = api::HolderCall { epoch: lease.epoch, ..api::HolderCall::default() };
    let released: api::Lease = client.call(Method::POST, &path, Some(&body)).await.expect("released");
    assert_eq!(released.state, api::State::Released);
    assert!(released.replayed, "it was released at the first try");
}

#[tokio::test]
async fn what_must_not_be_done_twice_is_not_sent_twice() {
    let daemon = Daemon::start().await;
    let losing = Door::before(&daemon, Manners::LosesAnswers).await;
    let door = Door::before(&daemon, Manners::Open).await;
    let client = client(losing.endpoint(), [door.endpoint()]);
    let error = client.step_down().await.expect_err("the answer is lost");
    assert!(matches!(error, CallError::Broken { .. }), "{error:?}");
    assert_eq!(door.came(), 0);
    let error = client.step_down().await.expect_err("a daemon with a log of its own");
    assert!(error.is_definite() && door.came() == 1, "{error:?}");
}

#[tokio::test]
async fn a_node_that_cannot_decide_sends_the_call_on_until_one_can() {
    let (heard, mut asked) = mpsc::unbounded_channel();
    let server = |name: &'static str, answers: &'static [(u16, &'static str, bool)]| {
        let heard = heard.clone();
        TinyHttp::serve(move |_, mut stream| {
            let heard = heard.clone();
            async move {
                for (status, code, definite) in answers {
                    let Some(request) = read_request(&mut stream).await else { return };
                    let body: serde_json::Value = serde_json::from_str(&request.body).expect("JSON");
                    let id = body["operation_id"].as_str().expect("an operation id").to_owned();
                    heard.send((name, id)).expect("heard");
                    answer(&mut stream, *status, &refusal(code, *definite)).await;
                }
            }
        })
    };
    let first = server("first", &[(503, "not_leader", true), (504, "outcome_unknown", false)]).await;
    let second = server("second", &[(503, "shutting_down", false), (409, "resource_held", true)]).await;
    let client = client(first.endpoint.clone(), [second.endpoint.clone()]);
    let error = client.acquire(&acquire("printer")).await.expect_err("held");
    assert_eq!(error.code(), Some(api::ErrorCode::ResourceHeld));
    let mut heard = Vec::new();
    while let Ok(one) = asked.try_recv() {
        heard.push(one);
    }
    let names: Vec<&str> = heard.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["first", "second", "first", "second"]);
    assert!(heard.iter().all(|(_, id)| *id == heard[0].1), "one operation: {heard:?}");
}

#[tokio::test]
async fn an_outcome_that_was_unknown_once_stays_unknown() {
    let losing = TinyHttp::serve(|_, mut stream| async move {
        read_request(&mut stream).await;
    })
    .await;
    let unable = TinyHttp::serve(|_, mut stream| async move {
        while read_request(&mut stream).await.is_some() {
            answer(&mut stream, 503, &refusal("not_leader", true)).await;
        }
    })
    .await;
    let client = Client::builder(losing.endpoint.clone())
        .endpoints([unable.endpoint.clone()])
        .request_timeout(Duration::from_millis(400))
        .build()
        .expect("a client");
    let error = soon("the end", client.acquire(&acquire("printer"))).await.expect_err("no answer");
    assert!(!error.is_definite(), "the first try may have been carried out: {error:?}");
}

#[tokio::test]
async fn a_wait_that_breaks_off_goes_on_at_the_next_endpoint_with_what_is_left() {
    let daemon = Daemon::start().await;
    let (one, other) =
        (Door::before(&daemon, Manners::Open).await, Door::before(&daemon, Manners::Open).await);
    let holder = client(one.endpoint(), []);
    let lease = holder.acquire(&acquire("printer")).await.expect("a lease");
    let waiting = client(one.endpoint(), [other.endpoint()]);
    let wish = api::Acquire { wait_ms: Some(60_000), ..acquire("printer") };
    let wait = tokio::spawn(async move { waiting.acquire(&wish).await });
    let waiters = async |count| {
        let seen = daemon.client();
        wait_until("a waiter", || async { seen.status().await.is_ok_and(|status| status.waiters == count) })
            .await;
    };
    waiters(1).await;
    one.be(Manners::Shut);
    wait_until("the other door is used", || async { other.came() > 0 }).await;
    waiters(1).await;
    let call = api::HolderCall { epoch: lease.epoch, ..api::HolderCall::default() };
    daemon.client().release(&lease.lease_id, &call).await.expect("released");
    let granted = soon("the grant", wait).await.expect("no panic").expect("a lease");
    assert_eq!(granted.resources, ["printer"]);
}

#[tokio::test]
async fn a_wait_at_an_endpoint_that_falls_silent_goes_on_elsewhere() {
    let daemon = Daemon::start().await;
    let (one, other) =
        (Door::before(&daemon, Manners::Open).await, Door::before(&daemon, Manners::Open).await);
    let lease = daemon.client().acquire(&acquire("printer")).await.expect("a lease");
    let waiting = client(one.endpoint(), [other.endpoint()]);
    let wish = api::Acquire { wait_ms: Some(60_000), ..acquire("printer") };
    let wait = tokio::spawn(async move { waiting.acquire(&wish).await });
    wait_until("the first door is used", || async { one.came() > 0 }).await;
    one.be(Manners::Silent);
    wait_until("the other door is used", || async { other.came() > 0 }).await;
    let call = api::HolderCall { epoch: lease.epoch, ..api::HolderCall::default() };
    daemon.client().release(&lease.lease_id, &call).await.expect("released");
    soon("the grant", wait).await.expect("no panic").expect("a lease");
}

#[tokio::test]
async fn a_call_outlives_a_daemon_that_dies_and_comes_back_at_another_port() {
    let mut daemon = Daemon::start().await;
    let before = Door::before(&daemon, Manners::Open).await;
    let after = Door::before(&daemon, Manners::Shut).await;
    let client = client(before.endpoint(), [after.endpoint()]);
    client.status().await.expect("the daemon answers");
    let holder = daemon.client().acquire(&acquire("printer")).await.expect("a lease");
    let wish = api::Acquire { wait_ms: Some(60_000), ..acquire("printer") };
    let asking = client.clone();
    let wait = tokio::spawn(async move { asking.acquire(&wish).await });
    let seen = daemon.client();
    wait_until("a waiter", || async { seen.status().await.is_ok_and(|status| status.waiters == 1) }).await;
    daemon.kill();
    before.be(Manners::Shut);
    daemon.start_again().await;
    after.be(Manners::Open);
    let call = api::HolderCall { epoch: holder.epoch, ..api::HolderCall::default() };
    daemon.client().release(&holder.lease_id, &call).await.expect("released");
    soon("the grant", wait).await.expect("no panic").expect("a lease");
    assert_eq!(client.endpoint(), &after.endpoint());
}

#[tokio::test]
async fn a_guard_is_renewed_past_an_endpoint_that_falls_silent() {
    let daemon = Daemon::start().await;
    let (one, other) =
        (Door::before(&daemon, Manners::Open).await, Door::before(&daemon, Manners::Open).await);
    let client = client(one.endpoint(), [other.endpoint()]);
    let guard = client.hold(["printer"]).ttl(Duration::from_secs(3)).acquire().await.expect("a guard");
    let promised = guard.state().valid_until.expect("a promise");
    one.be(Manners::Silent);
    wait_until("a renewal beyond the first promise", || async {
        assert!(guard.is_held(), "{:?}", guard.state());
        guard.state().valid_until.is_some_and(|until| until > promised)
    })
    .await;
    assert_eq!(guard.state().status, GuardStatus::Held);
    assert!(other.came() > 0);
    one.be(Manners::Open);
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_guard_fails_closed_when_every_endpoint_falls_silent() {
    let daemon = Daemon::start().await;
    let (one, other) =
        (Door::before(&daemon, Manners::Open).await, Door::before(&daemon, Manners::Open).await);
    let client = client(one.endpoint(), [other.endpoint()]);
    let guard = client.hold(["printer"]).ttl(Duration::from_millis(1_500)).acquire().await.expect("a guard");
    one.be(Manners::Silent);
    other.be(Manners::Silent);
    soon("the loss", guard.token().cancelled()).await;
    let lease = daemon.client().lease(guard.lease_id()).await.expect("the lease");
    assert_eq!(lease.state, api::State::Active, "the holder stops before the daemon gives it to others");
    assert!(!guard.is_held());
}

#[tokio::test]
async fn a_session_is_renewed_past_a_dead_endpoint() {
    let daemon = Daemon::start().await;
    let (one, other) =
        (Door::before(&daemon, Manners::Open).await, Door::before(&daemon, Manners::Open).await);
    let client = client(one.endpoint(), [other.endpoint()]);
    let open =
        api::OpenSession { holder: "me".to_owned(), ttl_ms: Some(2_000), ..api::OpenSession::default() };
    let session = client.keep_session(&open).await.expect("a session");
    let promised = session.state().valid_until.expect("a promise");
    one.be(Manners::Shut);
    wait_until("a renewal beyond the first promise", || async {
        session.state().valid_until.is_some_and(|until| until > promised)
    })
    .await;
    assert_eq!(session.state().status, GuardStatus::Held);
    session.close().await.expect("closed");
}

#[tokio::test]
async fn events_go_on_at_another_endpoint_without_a_gap() {
    let daemon = Daemon::start().await;
    let (one, other) =
        (Door::before(&daemon, Manners::Open).await, Door::before(&daemon, Manners::Open).await);
    let client = client(one.endpoint(), [other.endpoint()]);
    let query = api::EventsQuery { from: Some(0), ..api::EventsQuery::default() };
    let events = client.events(query).await.expect("a stream");
    let mut events = events.resuming().await.expect("a stream");
    let mut seen = Vec::new();
    for number in 0..4 {
        daemon.client().acquire(&acquire(&format!("r{number}"))).await.expect("a lease");
        let event = soon("an event", events.next()).await.expect("an event").expect("one");
        seen.push(event.lease.and_then(|lease| lease.resources).expect("resources").join(","));
        let (shut, open) = if number % 2 == 0 { (&one, &other) } else { (&other, &one) };
        open.be(Manners::Open);
        shut.be(Manners::Shut);
    }
    assert_eq!(seen, ["r0", "r1", "r2", "r3"]);
    assert!(events.resumptions() >= 3);
}

#[tokio::test]
async fn a_position_that_is_not_kept_any_more_is_told_by_the_next_endpoint() {
    let first = TinyHttp::serve(|_, mut stream| async move {
        read_request(&mut stream).await;
        begin_stream(&mut stream).await;
        let event = r#"{"lsn":5,"at":"","kind":"granted","lease":null}"#;
        chunk(&mut stream, &format!("id: k3f9-5\nevent: granted\ndata: {event}\n\n")).await;
    })
    .await;
    let second = TinyHttp::serve(|_, mut stream| async move {
        let request = read_request(&mut stream).await.expect("a request");
        assert!(request.head.contains("last-event-id: k3f9-5"), "{}", request.head);
        let trimmed = r#"{"error":"lsn_trimmed","message":"m","definite":true,"lost":false,"oldest":9}"#;
        answer(&mut stream, 410, trimmed).await;
    })
    .await;
    let client = client(first.endpoint.clone(), [second.endpoint.clone()]);
    let query = api::EventsQuery { from: Some(4), ..api::EventsQuery::default() };
    let events = client.events(query).await.expect("a stream");
    let mut events = events.resuming().await.expect("a stream");
    assert_eq!(events.next().await.expect("an event").expect("one").lsn, 5);
    let error = soon("the end", events.next()).await.expect_err("trimmed");
    assert_eq!(error.code(), Some(api::ErrorCode::LsnTrimmed));
}

#[tokio::test]
async fn a_call_that_is_given_up_asks_another_endpoint_the_next_time() {
    let daemon = Daemon::start().await;
    let silent = Door::before(&daemon, Manners::Silent).await;
    let door = Door::before(&daemon, Manners::Open).await;
    let client = client(silent.endpoint(), [door.endpoint()]);
    let given_up = tokio::time::timeout(Duration::from_millis(50), client.status()).await;
    assert!(given_up.is_err());
    let limit = Duration::from_millis(900);
    tokio::time::timeout(limit, client.status()).await.expect("at once").expect("an answer");
}
