//! Routes of sessions under `/api/v3`. Everything here answers errors as `application/problem+json`.

use super::{ADMIN, Gives, HOLD, Parts, Route, SchemaOf, Wanted, call, fields, schema};
use http::Method;
use tenure_api::{self as api, Error};
use tenure_faces::{Call, Scope};

const GROUP: &str = "Slot sessions";

/// Where these routes begin.
pub(crate) const BASE: &str = "/api/v3";

struct Row {
    method: Method,
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    gives: Gives,
    read: fn(&Parts<'_>) -> Result<Wanted, Error>,
}

fn row(scope: Option<Scope>, query: Option<SchemaOf>, body: Option<SchemaOf>, row: Row) -> Route {
    let Row { method, path, name, summary, gives, read } = row;
    Route { method, path, name, summary, group: GROUP, scope, query, body, gives, read }
}

fn id(parts: &Parts<'_>) -> String {
    parts.param("session_id")
}

fn intend(parts: &Parts<'_>) -> Result<Wanted, Error> {
    call(match parts.body()? {
        api::Intent::Start(start) => Call::StartStream { start: Box::new(start), operation_id: None },
        api::Intent::Stop(stop) => Call::IntendStop { stop, operation_id: None },
    })
}

pub(super) fn routes() -> Vec<Route> {
    let stream = Gives::Json(200, schema::<api::SlotSession>);
    vec![
        row(
            HOLD,
            None,
            Some(schema::<api::Intent>),
            Row {
                method: Method::POST,
                path: "/api/v3/intents",
                name: "start_or_stop_slot_session",
                summary: "Start a slot session and take its slots in one step, or stop one",
                gives: Gives::Json(202, schema::<api::SlotSession>),
                read: intend,
            },
        ),
        row(
            ADMIN,
            Some(fields::<api::SlotSessionQuery>),
            None,
            Row {
                method: Method::GET,
                path: "/api/v3/sessions",
                name: "list_slot_sessions",
                summary: "List slot sessions: queued, live and ended",
                gives: Gives::Json(200, schema::<api::SlotSessionList>),
                read: |parts| call(Call::Streams(parts.query()?)),
            },
        ),
        row(
            HOLD,
            None,
            None,
            Row {
                method: Method::GET,
                path: "/api/v3/sessions/{session_id}",
                name: "show_slot_session",
                summary: "Show a slot session; an ended one has its reason while history is kept",
                gives: stream,
                read: |parts| call(Call::Stream(id(parts))),
            },
        ),
        row(
            HOLD,
            None,
            None,
            Row {
                method: Method::DELETE,
                path: "/api/v3/sessions/{session_id}",
                name: "stop_slot_session",
                summary: "Stop a slot session; its slots are free at once",
                gives: stream,
                read: |parts| call(Call::StopStream(id(parts))),
            },
        ),
        row(
            HOLD,
            None,
            Some(schema::<api::SlotSessionHeartbeat>),
            Row {
                method: Method::POST,
                path: "/api/v3/sessions/{session_id}/heartbeat",
                name: "heartbeat_slot_session",
                summary: "Renew a slot session",
                gives: Gives::Json(200, schema::<api::SlotSessionRenewed>),
                read: |parts| call(Call::HeartbeatStream(id(parts), parts.body()?)),
            },
        ),
        row(
            HOLD,
            None,
            Some(schema::<api::SlotSessionActivate>),
            Row {
                method: Method::POST,
                path: "/api/v3/sessions/{session_id}/activate",
                name: "activate_slot_session",
                summary: "Activate a slot session that has a `start_timeout`",
                gives: stream,
                read: |parts| call(Call::ActivateStream(id(parts), parts.body()?)),
            },
        ),
        row(
            HOLD,
            None,
            Some(schema::<api::SlotSessionFail>),
            Row {
                method: Method::POST,
                path: "/api/v3/sessions/{session_id}/fail",
                name: "fail_slot_session",
                summary: "End a slot session that failed, with a reason",
                gives: stream,
                read: |parts| call(Call::FailStream(id(parts), parts.body()?)),
            },
        ),
        row(
            HOLD,
            None,
            None,
            Row {
                method: Method::GET,
                path: "/api/v3/sessions/{session_id}/events",
                name: "follow_slot_session",
                summary: "Follow a slot session as server-sent events",
                gives: Gives::SlotSessionEvents(schema::<api::SlotSession>),
                read: |parts| Ok(Wanted::FollowStream(id(parts))),
            },
        ),
    ]
}
