//! HTTP/1.1 and HTTP/2: a request is read, its asker established, its route looked up, its call dispatched.

mod activity;
mod bodies;
mod body;
mod events;
mod myself;
mod passing;
mod problem;
mod segments;
mod sightings;
mod signing_in;
mod streams;

use crate::auth::{Admitted, Fetch, TcpAsk};
use crate::dashboard::{self, Asset};
use crate::node::{NodeNumbers, PASS_PATH};
use crate::reads::Turn;
use crate::routes::{Gives, Page, Parts, Route, STREAMS_BASE, Wanted, aliases, routes};
use crate::server::{Asks, RestartCheck, Shared, Timeouts};
use crate::stop::StopWish;
use crate::tls::CertificateNames;
use crate::transports::write_limit::WriteLimit;
use crate::{docs, metrics};
use activity::Activity;
pub(crate) use bodies::Bodies;
use body::{AnswerBody, full, stream};
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenure_api::{Advertised, Error, ErrorCode, ShutDown};
use tenure_engine::Space;
use tenure_engine::host::{boot_us, read_clocks};
use tenure_faces::{Call, Caller, Faces, Freshness, OPERATION_ID_BYTES_MAX, Origin, Reply};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;

/// Who is at the other end.
#[derive(Clone)]
pub(crate) enum Peer {
    /// Somebody over TCP, perhaps with a certificate that the TLS layer accepted.
    Tcp {
        /// From where.
        address: SocketAddr,
        /// Its user, where it is of this machine and known.
        uid: Option<u32>,
        /// Subject of the certificate.
        certificate: Option<CertificateNames>,
    },
    /// Somebody on the socket, known to the system.
    Socket(Admitted),
}

type Answered = Response<AnswerBody>;

/// How long the head of the first request may take.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Requests of one HTTP/2 connection at once.
const STREAMS_MAX: u32 = 64;
/// Bytes of one request's body, and of all of one connection's, that may come before they are read.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes of one answer that wait for an HTTP/2 peer to read.
const SEND_BYTES_MAX: usize = 64 << 10;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Serves one connection until it ends or the daemon stops.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
) {
    let activity = Arc::new(Activity::default());
    let service = {
        let (shared, activity) = (Arc::clone(&shared), Arc::clone(&activity));
        service_fn(move |request| {
            let (shared, peer, activity) = (Arc::clone(&shared), peer.clone(), Arc::clone(&activity));
            let under_way = activity.begin();
            async move {
                let answered = answer(&shared, &peer, request).await;
                drop(under_way);
                Ok::<_, Infallible>(answered.map(|body| activity.body(body)))
            }
        })
    };
    let Timeouts { write, idle } = shared.options().timeouts;
    let builder = builder(idle);
    let connection = builder.serve_connection(TokioIo::new(WriteLimit::new(io, write)), service);
    let mut connection = std::pin::pin!(connection);
    let stopping = shared.stopping();
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = never_begins(&activity) => return tracing::debug!("closed a connection without a request"),
        () = activity.idle(idle) => {
            connection.as_mut().graceful_shutdown();
            // An unread answer keeps its stream open.
            let Ok(served) = tokio::time::timeout(write, connection).await else {
                return tracing::debug!("an idle connection did not close in time");
            };
            served
        }
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "an HTTP connection failed");
    }
}

/// What both versions of HTTP may take.
fn builder(idle: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(HEAD_BYTES_MAX)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HEAD_WITHIN)
        .keep_alive_timeout(HEAD_WITHIN)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX);
    builder
}

/// Resolves if no request has begun in time. The limit on heads does not see a peer that has not said enough to
/// know which HTTP it speaks.
async fn never_begins(activity: &Activity) {
    tokio::time::sleep(HEAD_WITHIN).await;
    if activity.has_begun() {
        std::future::pending::<()>().await;
    }
}

/// A refusal in bytes, for a connection that is not served.
pub(crate) fn raw_refusal(error: &Error) -> Vec<u8> {
    let body = serde_json::to_vec(error).expect("invariant: errors can be written");
    let mut bytes = Vec::with_capacity(body.len() + 256);
    let retry_after = error.retry_after_ms.unwrap_or(0).div_ceil(1_000);
    let _ = write!(
        bytes,
        "HTTP/1.1 {} Rejected\r\ncontent-type: application/json\r\ncontent-length: {}\r\nretry-after: {retry_after}\r\n\
         connection: close\r\n\r\n",
        error.code.http_status(),
        body.len()
    );
    bytes.extend_from_slice(&body);
    bytes
}

async fn answer(shared: &Arc<Shared>, peer: &Peer, request: Request<Incoming>) -> Answered {
    let began = boot_us();
    if request.uri().path() == PASS_PATH && request.method() == Method::POST {
        return match passing::answer(shared, request).await {
            Ok(answered) => answered,
            Err(error) => refused_as(&error, None, &[]),
        };
    }
    if events::is_passed(&request) {
        return events::answer_node(shared, request).await.unwrap_or_else(|error| refused(&error));
    }
    if streams::is_passed(&request) {
        return streams::answer_node(shared, request).await.unwrap_or_else(|error| refused(&error));
    }
    if myself::is_asked(&request) {
        return myself::answer(shared, &request).unwrap_or_else(|error| refused(&error));
    }
    if segments::is_asked(&request) {
        return segments::answer(shared, request).await.unwrap_or_else(|error| refused(&error));
    }
    let method = request.method().clone();
    let found = find(&method, request.uri().path());
    let route = found.as_ref().ok().map_or("unknown", |(route, _)| route.path);
    let origin = request.headers().get(header::ORIGIN).cloned();
    let request_id = is_problem(request.uri().path()).then(|| problem::request_id(request.headers()));
    let is_page = method == Method::GET && request_id.is_none() && shows_pages(request.headers());
    let answered = match found {
        Err(error) => match preflight(shared, peer, &request) {
            Some(answered) => answered,
            None if is_page && error.code == ErrorCode::NotFound => no_such_page(),
            None => refused_as(&error, request_id, &[]),
        },
        Ok((route, params)) => match carry_out(shared, peer, route, &params, request).await {
            Ok(answered) => answered,
            Err(error) => refused_as(&error, request_id, &params),
        },
    };
    let took_us = boot_us().saturating_sub(began);
    shared.http().count(route, &method, answered.status().as_u16(), took_us);
    allow_origin(shared, origin.as_ref(), answered)
}

async fn carry_out(
    shared: &Arc<Shared>,
    peer: &Peer,
    route: &'static Route,
    params: &[(String, String)],
    request: Request<Incoming>,
) -> Result<Answered, Error> {
    let (head, body) = request.into_parts();
    let admitted = admit(shared, peer, route, &head).and_then(|admitted| {
        check_scope(route, admitted.as_ref())?;
        Ok(admitted)
    });
    let admitted = match admitted {
        Ok(admitted) => admitted,
        Err(error) => {
            bodies::discard(body).await;
            return Err(error);
        }
    };
    let body = match route.body {
        Some(_) => Some(shared.bodies().read(admitted.as_ref(), body).await?),
        None => bodies::none(body).await.map(|()| None)?,
    };
    let bytes = body.as_ref().map_or(&[][..], |body| &body.bytes);
    let (query, freshness) = freshness(head.uri.query().unwrap_or(""))?;
    let wanted = (route.read)(&Parts { params, query: &query, body: bytes })?;
    drop(body);
    check_outdated(shared, route, admitted.as_ref(), &wanted)?;
    match wanted {
        Wanted::Page(page) => page_answer(shared, admitted.as_ref(), page, &head.headers).await,
        Wanted::Redeem(code) => signing_in::redeem(shared, &code, &head).await,
        wanted => {
            let Some(admitted) = admitted else {
                return Err(Error::new(ErrorCode::Unauthorized, "the request has no credentials"));
            };
            wanted_answer(shared, &admitted, route, wanted, &head.headers, freshness).await
        }
    }
}

async fn wanted_answer(
    shared: &Arc<Shared>,
    admitted: &Admitted,
    route: &Route,
    wanted: Wanted,
    headers: &HeaderMap,
    freshness: Freshness,
) -> Result<Answered, Error> {
    // While the store is silent no node can speak for the cluster: this one speaks for itself.
    let is_own = matches!(wanted, Wanted::Call(Call::Status)) && freshness == Freshness::Present;
    let is_own = is_own && shared.node().is_ok_and(|node| node.is_store_silent());
    let caller = &Caller {
        principal: admitted.principal.clone(),
        scope: admitted.scope,
        within: admitted.within.clone(),
        origin: Origin::Http,
        freshness: if is_own { Freshness::Stale } else { freshness },
        account: shared.stage().account(&admitted.principal),
    };
    let asks = if let Wanted::Call(call) = &wanted { Asks::Call(call) } else { Asks::Other };
    shared.check_rate(&caller.principal, asks)?;
    match wanted {
        Wanted::Call(mut call) => {
            if let Some(key) = headers.get(IDEMPOTENCY_KEY) {
                let fits = |key: &&str| (1..=OPERATION_ID_BYTES_MAX).contains(&key.len());
                let key = key.to_str().ok().filter(fits).ok_or_else(|| {
                    let message =
                        format!("an Idempotency-Key is plain text of 1 to {OPERATION_ID_BYTES_MAX} bytes");
                    Error::new(ErrorCode::InvalidRequest, message)
                })?;
                call.set_operation_id(key);
            }
            let opens = matches!(call, Call::OpenSession(_));
            let grants = matches!(call, Call::Acquire(_));
            let turn = shared.read_turn(caller, &call).await?;
            let reply = shared.complete(dispatch(shared, caller, call).await?);
            let status = match &reply {
                Reply::Lease(lease) if grants && !lease.replayed => StatusCode::CREATED,
                Reply::Session(_) if opens => StatusCode::CREATED,
                Reply::Registered(_) => StatusCode::CREATED,
                Reply::Stream(_) if matches!(route.gives, Gives::Json(202, _)) => StatusCode::ACCEPTED,
                _ => StatusCode::OK,
            };
            Ok(match turn {
                Some(turn) => large_json(status, &reply.body(), turn),
                None => json(status, &reply.body()),
            })
        }
        Wanted::Events(query) => {
            let place = shared.admit_watch(caller)?;
            events::begin(shared, query, headers, place).await
        }
        Wanted::Browse { query, whole } => {
            sightings::begin(shared, caller, &query, whole, shared.admit_watch(caller)?)
        }
        Wanted::FollowStream(id) => streams::begin(shared, &id).await,
        Wanted::ShutDown(body) => shut_down(shared, caller, body).await,
        Wanted::Cluster => Ok(json(StatusCode::OK, &shared.node()?.shown())),
        Wanted::StepDown => {
            tracing::info!(principal = %caller.principal, "resignation requested");
            Ok(json(StatusCode::OK, &shared.node()?.step_down().await?))
        }
        Wanted::RotateSecret => {
            tracing::info!(principal = %caller.principal, "replacement of the node secret requested");
            Ok(json(StatusCode::OK, &shared.node()?.rotate_secret().await?))
        }
        Wanted::ForgetNode(node) => Ok(json(StatusCode::OK, &shared.node()?.forget(node).await?)),
        Wanted::Backup => Ok(backup(shared, shared.admit_backup()?)),
        Wanted::Caller => signing_in::caller(shared, admitted).await,
        Wanted::SignIn => signing_in::sign_in(shared, admitted).await,
        Wanted::SignOut => signing_in::sign_out(shared, headers).await,
        Wanted::Page(_) | Wanted::Redeem(_) => unreachable!("invariant: pages are answered before"),
    }
}

async fn shut_down(shared: &Shared, caller: &Caller, body: ShutDown) -> Result<Answered, Error> {
    let ShutDown { end_all, advertised, restart } = body;
    check_stop(shared.options().restart.as_ref(), &body)?;
    let reply = match end_all {
        true => shared.stage().dispatch(caller, Call::EndAll).await?,
        false => Reply::Ended(tenure_api::ShuttingDown {
            shutting_down: true,
            ended: 0,
            lsn: shared.faces().engine_status().await?.synced_lsn.0,
        }),
    };
    let kept = advertised == Advertised::Keep;
    tracing::info!(principal = %caller.principal, end_all, keep_advertised = kept, restart, "shutdown requested");
    shared.stop(StopWish { advertised, restart });
    Ok(json(StatusCode::OK, &reply.body()))
}

/// Refuses what could not be carried out, before anything stops.
fn check_stop(check: Option<&RestartCheck>, body: &ShutDown) -> Result<(), Error> {
    let keeps = body.advertised == Advertised::Keep;
    if keeps && body.end_all {
        let message = "`end_all` sends a goodbye packet for every registration, and `advertised: \"keep\"` sends none: \
                       send one of the two";
        return Err(Error::new(ErrorCode::InvalidRequest, message));
    }
    match check {
        None if keeps || body.restart => {
            let message = "this daemon ends with the command that runs it: it cannot restart, and no later daemon \
                           announces its services";
            Err(Error::new(ErrorCode::InvalidRequest, message))
        }
        Some(check) if body.restart => check().map_err(|why| Error::new(ErrorCode::IoError, why)),
        None | Some(_) => Ok(()),
    }
}

/// Checks the caller's scope, before its body is read.
fn check_scope(route: &Route, admitted: Option<&Admitted>) -> Result<(), Error> {
    match (route.scope, admitted) {
        (Some(needed), Some(admitted)) if needed > admitted.scope => {
            let message = format!(
                "the request needs scope {}, the credentials have {}",
                needed.as_str(),
                admitted.scope.as_str()
            );
            Err(Error::new(ErrorCode::Forbidden, message).with("scope", needed.as_str()))
        }
        (Some(_), None) => Err(Error::new(ErrorCode::Unauthorized, "the request has no credentials")),
        (Some(_) | None, _) => Ok(()),
    }
}

/// Refuses what a token may not do while its file cannot be read.
fn check_outdated(
    shared: &Shared,
    route: &Route,
    admitted: Option<&Admitted>,
    wanted: &Wanted,
) -> Result<(), Error> {
    let is_allowed = matches!(wanted, Wanted::Call(call) if call.keeps_or_gives_back());
    let is_outdated = admitted.is_some_and(|admitted| admitted.is_outdated);
    if is_outdated && !is_allowed && route.scope.is_some() { Err(shared.auth().outdated()) } else { Ok(()) }
}

/// Carries a call out. One that waits is not waited for once the daemon stops.
async fn dispatch(shared: &Shared, caller: &Caller, call: Call) -> Result<Reply, Error> {
    if call.wait_ms() == 0 {
        return shared.stage().dispatch(caller, call).await;
    }
    let stopping = shared.stopping();
    tokio::select! {
        reply = shared.stage().dispatch(caller, call) => reply,
        () = stopping.cancelled() => Err(stopped_waiting()),
    }
}

/// The same, by the faces of this moment alone.
async fn dispatch_here(shared: &Shared, faces: &Faces, caller: &Caller, call: Call) -> Result<Reply, Error> {
    let stopping = shared.stopping();
    tokio::select! {
        reply = faces.dispatch(caller, call) => reply,
        () = stopping.cancelled() => Err(stopped_waiting()),
    }
}

/// Takes from a query how old the answer may be; the rest is the route's.
fn freshness(query: &str) -> Result<(Cow<'_, str>, Freshness), Error> {
    if !query.contains("consistency=") && !query.contains("min_lsn=") {
        return Ok((Cow::Borrowed(query), Freshness::Present));
    }
    let mut freshness = Freshness::Present;
    let mut rest = Vec::new();
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("consistency", "stale")) => freshness = Freshness::Stale,
            Some(("consistency", "leader" | "writer")) => {}
            Some(("consistency", other)) => {
                let message = format!("consistency must be stale or leader, not {other:?}");
                return Err(Error::new(ErrorCode::InvalidRequest, message));
            }
            Some(("min_lsn", lsn)) => {
                let lsn = lsn.parse().map_err(|_| {
                    Error::new(
                        ErrorCode::InvalidRequest,
                        format!("min_lsn must be a position of the log, not {lsn:?}"),
                    )
                })?;
                freshness = Freshness::AtLeast(lsn);
            }
            Some(_) | None => rest.push(part),
        }
    }
    Ok((Cow::Owned(rest.join("&")), freshness))
}

/// What a request that waits is told when the daemon stops.
pub(crate) fn stopped_waiting() -> Error {
    let message = "the daemon is stopping, and the outcome is not known";
    // A grant may have come a moment before.
    Error { definite: false, ..Error::new(ErrorCode::ShuttingDown, message) }
}

/// Establishes who asks. Pages that need no credential are given to anybody with the right Host.
fn admit(
    shared: &Shared,
    peer: &Peer,
    route: &Route,
    head: &http::request::Parts,
) -> Result<Option<Admitted>, Error> {
    let (address, uid, certificate) = match peer {
        Peer::Socket(admitted) => return Ok(Some(admitted.clone())),
        Peer::Tcp { address, uid, certificate } => (*address, *uid, certificate.as_ref()),
    };
    let text = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let ask = TcpAsk {
        address,
        uid,
        is_forwarded: is_forwarded(&head.headers),
        certificate,
        // One that cannot be read was shown all the same.
        authorization: head.headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or("")),
        signed_in: shared.auth().cookie_name().and_then(|name| signing_in::halves(&head.headers, name)),
        host: asked_host(head),
        origin: asked_origin(&head.headers),
        fetch: Fetch { site: text(SEC_FETCH_SITE), mode: text(SEC_FETCH_MODE), dest: text(SEC_FETCH_DEST) },
        foreign: route.foreign_pages(),
        any_host: route.any_host(),
        needs_credential: route.scope.is_some(),
        writes: !head.method.is_safe(),
    };
    shared.auth().tcp(&ask)
}

/// Headers that proxies add to what they pass on, in lower case; what ends with `-` is a prefix.
const FORWARDING: &[&str] = &[
    "forwarded",
    "via",
    "x-forwarded-",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-envoy-external-address",
    "true-client-ip",
    "cf-connecting-",
    "fastly-client-ip",
    "fly-client-ip",
];

/// Whether a proxy says that it passed a request on.
fn is_forwarded(headers: &HeaderMap) -> bool {
    let says_so = |name: &HeaderName| {
        let is_same = |known: &&str| match known.ends_with('-') {
            true => name.as_str().starts_with(known),
            false => name.as_str() == *known,
        };
        FORWARDING.iter().any(is_same)
    };
    headers.keys().any(says_so)
}

/// The name that a request is addressed to. HTTP/2 has it in the target.
fn asked_host(head: &http::request::Parts) -> Option<&str> {
    let target = head.uri.authority().map(http::uri::Authority::as_str);
    target.or_else(|| head.headers.get(header::HOST).and_then(|value| value.to_str().ok()))
}

/// The origin of the page that a request is from. One that cannot be read, or several, count as a foreign one.
fn asked_origin(headers: &HeaderMap) -> Option<&str> {
    let mut sent = headers.get_all(header::ORIGIN).iter();
    let first = sent.next()?;
    let is_alone = sent.next().is_none();
    Some(first.to_str().ok().filter(|_| is_alone).unwrap_or(""))
}

/// The daemon is ready for everything but grants.
const READY_BUT_LOW: &str = "OK\ndisk_low: the daemon rejects grants until there is space on the disk\n";

/// How long the engine of a node may take over its numbers.
const METRICS_WITHIN: Duration = Duration::from_millis(500);

async fn metrics_text(shared: &Shared, node: Option<&NodeNumbers>) -> Result<String, Error> {
    let faces = shared.faces();
    let status = faces.engine_status().await?;
    let snapshot_age_ms = faces.last_snapshot().map(|(_, at)| read_clocks().wall_ms.saturating_sub(at));
    let (network, registrations) = faces.network_health();
    let (token_file, cert_scope_file) = shared.auth().file_states();
    Ok(metrics::text(&metrics::Numbers {
        status: &status,
        http: shared.http(),
        snapshot_age_ms,
        recovery_secs: shared.options().recovery_secs,
        registrations,
        streams: faces.stream_numbers().await,
        pools: faces.pools().await?,
        polling: faces.polling_numbers().await?,
        goodbyes: network.goodbyes,
        token_file,
        cert_scope_file,
        node: node.cloned(),
    }))
}

async fn page_answer(
    shared: &Arc<Shared>,
    admitted: Option<&Admitted>,
    page: Page,
    asked: &HeaderMap,
) -> Result<Answered, Error> {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    Ok(match page {
        Page::Health => media(plain, full("OK\n")),
        Page::Ready => {
            if shared.stopping().is_cancelled() {
                return Err(Error::new(ErrorCode::ShuttingDown, "the daemon is stopping"));
            }
            if let Ok(node) = shared.node() {
                node.ready()?;
            }
            match shared.readiness().known(&shared.faces()).await {
                Some(Space::Ok) => media(plain, full("OK\n")),
                // Renewals and ends go on: who took this daemon out of service would lose them.
                Some(Space::Low) => media(plain, full(READY_BUT_LOW)),
                None => return Err(Error::new(ErrorCode::ShuttingDown, "the engine does not answer")),
            }
        }
        Page::Metrics => {
            let _turn = shared.metrics_turn(admitted).await?;
            let numbers = shared.node().ok().map(|node| node.numbers());
            let text = match &numbers {
                None => metrics_text(shared, None).await?,
                // An engine that waits for the store must not keep its node from telling that it waits.
                Some(node) => {
                    match tokio::time::timeout(METRICS_WITHIN, metrics_text(shared, Some(node))).await {
                        Ok(Ok(text)) => text,
                        Ok(Err(_)) | Err(_) => metrics::node_text(node, shared.http()),
                    }
                }
            };
            media(HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"), full(text))
        }
        Page::OpenApi => media(JSON, full(shared.openapi())),
        Page::Docs | Page::DocsErrors => {
            let html = match page {
                Page::DocsErrors => full(docs::errors_page()),
                _ => full(shared.docs()),
            };
            html_page(html)
        }
        Page::DocsStyle => media(HeaderValue::from_static("text/css; charset=utf-8"), full(docs::STYLE)),
        Page::Home => file(dashboard::home(), asked),
        Page::SignIn => file(dashboard::sign_in(), asked),
        Page::Asset(asset) => file(asset, asked),
    })
}

/// A page without scripts.
fn html_page(html: AnswerBody) -> Answered {
    let mut answered = media(HeaderValue::from_static("text/html; charset=utf-8"), html);
    answered.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    );
    answered
}

/// Whether a person looks at the answer: browsers accept HTML when they open an address, programs do not ask for it.
fn shows_pages(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    accepted.split(',').any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html"))
}

/// The answer to a browser for an address without a route. The page repeats nothing of the request.
fn no_such_page() -> Answered {
    let mut answered = html_page(full(docs::NO_SUCH_PAGE));
    *answered.status_mut() = StatusCode::NOT_FOUND;
    answered
}

/// A file of the dashboard, unless the browser has it already.
fn file(asset: &'static Asset, asked: &HeaderMap) -> Answered {
    let is_known = asset.is_known_to(asked);
    let mut answered = Response::new(if is_known { full("") } else { full(asset.bytes) });
    if is_known {
        *answered.status_mut() = StatusCode::NOT_MODIFIED;
    }
    asset.describe(answered.headers_mut());
    answered
}

/// The data as a tar archive, made while it is sent. A copy that fails breaks the transfer off: half an
/// archive must not look like a whole one.
fn backup(shared: &Arc<Shared>, permit: OwnedSemaphorePermit) -> Answered {
    let (sender, body) = stream();
    let make = Arc::clone(&shared.options().backup);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut pipe = sender.writer();
        if let Err(error) = make(&mut pipe).and_then(|()| pipe.flush()) {
            tracing::warn!(%error, "backup failed");
            pipe.break_off();
        }
    });
    media(HeaderValue::from_static("application/x-tar"), body)
}

fn media(kind: HeaderValue, body: AnswerBody) -> Answered {
    let mut answered = Response::new(body);
    let headers = answered.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answered
}

fn json(status: StatusCode, value: &impl serde::Serialize) -> Answered {
    json_of(status, full(written(value)))
}

/// The same of an answer that may have megabytes: others go on while it is written, and it is among the reads that run or
/// wait until its bytes have left.
fn large_json(status: StatusCode, value: &impl serde::Serialize, turn: Turn) -> Answered {
    let bytes = tokio::task::block_in_place(|| written(value));
    json_of(status, full(turn.over(bytes)))
}

fn written(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: answers can be written")
}

fn json_of(status: StatusCode, body: AnswerBody) -> Answered {
    let mut answered = media(JSON, body);
    *answered.status_mut() = status;
    answered
}

/// Whether errors of a path are told as problems.
fn is_problem(path: &str) -> bool {
    path.strip_prefix(STREAMS_BASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A refusal, as a problem where the request has an id.
fn refused_as(error: &Error, request_id: Option<String>, params: &[(String, String)]) -> Answered {
    let Some(request_id) = request_id else { return refused(error) };
    let named = HeaderValue::from_str(&request_id).expect("invariant: an id of a request is plain text");
    let problem = problem::problem(error, request_id, params);
    let mut answered = refused_with(error, &problem);
    let headers = answered.headers_mut();
    headers.insert(header::CONTENT_TYPE, problem::MEDIA);
    headers.insert(problem::REQUEST_ID, named);
    answered
}

fn refused(error: &Error) -> Answered {
    refused_with(error, error)
}

fn refused_with(error: &Error, body: &impl serde::Serialize) -> Answered {
    let status =
        StatusCode::from_u16(error.code.http_status()).expect("invariant: the table holds statuses of HTTP");
    let mut answered = json(status, body);
    let headers = answered.headers_mut();
    if let Some(ms) = error.retry_after_ms {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(allowed) = error.details.get("allowed").and_then(|value| value.as_str())
        && let Ok(allowed) = HeaderValue::from_str(allowed)
    {
        headers.insert(header::ALLOW, allowed);
    }
    answered
}

/// Reads a request as the daemon would and names its operation; nothing is carried out. For whoever wants to know
/// what bytes do to the reading.
///
/// # Errors
/// What is wrong with the request.
pub fn understand(method: &str, target: &str, body: &[u8]) -> Result<&'static str, Error> {
    read_as_daemon(method, target, body).map(|(route, _)| route.name)
}

/// The same; gives the call, where the request is one.
///
/// # Errors
/// What is wrong with the request.
pub fn understand_call(method: &str, target: &str, body: &[u8]) -> Result<Option<Call>, Error> {
    let (_, wanted) = read_as_daemon(method, target, body)?;
    Ok(if let Wanted::Call(call) = wanted { Some(call) } else { None })
}

fn read_as_daemon(method: &str, target: &str, body: &[u8]) -> Result<(&'static Route, Wanted), Error> {
    let not_http = || Error::new(ErrorCode::ParseError, "the bytes are not an HTTP request");
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| not_http())?;
    let uri: http::Uri = target.parse().map_err(|_| not_http())?;
    let (route, params) = find(&method, uri.path())?;
    let wanted = (route.read)(&Parts { params: &params, query: uri.query().unwrap_or(""), body })?;
    Ok((route, wanted))
}

/// A route with the parameters of its path, decoded.
type Found = (&'static Route, Vec<(String, String)>);

/// A path of a client, as far as an error repeats it.
fn shortened(path: &str) -> String {
    const PATH_CHARS_MAX: usize = 200;
    match path.char_indices().nth(PATH_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

/// Looks a route up.
fn find(method: &Method, path: &str) -> Result<Found, Error> {
    let router = router();
    let Ok(matched) = router.at(path) else {
        let message = format!("there is no route {}", shortened(path));
        return Err(Error::new(ErrorCode::NotFound, message)
            .hint("check the path; GET /docs and GET /openapi.json list all routes, / is the dashboard"));
    };
    let methods = &matched.value.methods;
    // The body of an answer to HEAD is left out by the HTTP layer.
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    let Some((_, route)) = methods.iter().find(|(known, _)| known == wanted) else {
        let head = methods.iter().any(|(known, _)| known == Method::GET).then_some("HEAD");
        let allowed: Vec<&str> = methods.iter().map(|(known, _)| known.as_str()).chain(head).collect();
        let message = format!("{} does not accept {method}", shortened(path));
        return Err(Error::new(ErrorCode::MethodNotAllowed, message).with("allowed", allowed.join(", ")));
    };
    let mut params = Vec::new();
    for (name, value) in matched.params.iter() {
        let decoded = percent_decode_str(value)
            .decode_utf8()
            .map_err(|_| Error::new(ErrorCode::InvalidRequest, format!("{name} in the path is not UTF-8")))?;
        params.push((name.to_owned(), decoded.into_owned()));
    }
    Ok((route, params))
}

/// The methods of one path.
#[derive(Default)]
struct Methods {
    methods: Vec<(Method, &'static Route)>,
}

fn router() -> &'static matchit::Router<Methods> {
    static ROUTES: OnceLock<Vec<Route>> = OnceLock::new();
    static ROUTER: OnceLock<matchit::Router<Methods>> = OnceLock::new();
    ROUTER.get_or_init(|| {
        let table = ROUTES.get_or_init(routes);
        let mut paths: BTreeMap<&str, Methods> = BTreeMap::new();
        for route in table {
            paths.entry(route.path).or_default().methods.push((route.method.clone(), route));
        }
        for alias in aliases() {
            let route = table.iter().find(|route| (route.method.clone(), route.path) == alias.of);
            let route = route.expect("invariant: an alias is of a route");
            paths.entry(alias.path).or_default().methods.push((alias.method, route));
        }
        let mut router = matchit::Router::new();
        for (path, methods) in paths {
            router.insert(path, methods).expect("invariant: the paths of the table fit together");
        }
        router
    })
}

/// What a browser asks before a page of another origin may ask; only for origins that are allowed.
fn preflight(shared: &Shared, peer: &Peer, request: &Request<Incoming>) -> Option<Answered> {
    let origin = request.headers().get(header::ORIGIN)?.to_str().ok()?;
    let asked = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let over_tcp = matches!(peer, Peer::Tcp { .. });
    if request.method() != Method::OPTIONS || !asked || !over_tcp || !shared.auth().allows_origin(origin) {
        return None;
    }
    let mut answered = Response::new(full(""));
    *answered.status_mut() = StatusCode::NO_CONTENT;
    let headers = answered.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE"));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("authorization, content-type, idempotency-key, last-event-id"),
    );
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    Some(answered)
}

fn allow_origin(shared: &Shared, origin: Option<&HeaderValue>, mut answered: Answered) -> Answered {
    if let Some(origin) = origin
        && origin.to_str().is_ok_and(|origin| shared.auth().allows_origin(origin))
    {
        let headers = answered.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    answered
}
