//! Routes of polling: how a group of pollers stands, and what operators may say to it. Pollers themselves use the
//! routes of leases and sessions.

use super::{ADMIN, Gives, Parts, READ, Route, SchemaOf, Wanted, call, fields, schema};
use http::Method;
use tenure_api::{self as api, Error};
use tenure_faces::{Call, Scope};

const GROUP: &str = "Polling";

/// The group of pollers that names none.
const DEFAULT: &str = "default";

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

fn group(parts: &Parts<'_>) -> String {
    parts.param("group")
}

pub(super) fn routes() -> Vec<Route> {
    let view = Gives::Json(200, schema::<api::PollingView>);
    let cordoned = Gives::Json(200, schema::<api::Cordoned>);
    vec![
        row(
            READ,
            None,
            None,
            Row {
                method: Method::GET,
                path: "/v1/polling",
                name: "list_polling",
                summary: "List groups of pollers",
                gives: Gives::Json(200, schema::<api::PollingGroups>),
                read: |_| call(Call::PollingGroups),
            },
        ),
        row(
            READ,
            None,
            None,
            Row {
                method: Method::GET,
                path: "/v1/polling/{group}",
                name: "show_polling",
                summary: "Show pollers and targets of a group",
                gives: view,
                read: |parts| call(Call::Polling(group(parts))),
            },
        ),
        row(
            READ,
            Some(fields::<api::NodesQuery>),
            None,
            Row {
                method: Method::GET,
                path: "/v1/pollers",
                name: "list_pollers",
                summary: "Show pollers and targets of the group `?group=` [default: default]",
                gives: view,
                read: |parts| {
                    let api::NodesQuery { group } = parts.query()?;
                    call(Call::Polling(group.unwrap_or_else(|| DEFAULT.to_owned())))
                },
            },
        ),
        row(
            ADMIN,
            None,
            Some(schema::<api::MoveTarget>),
            Row {
                method: Method::POST,
                path: "/v1/polling/{group}/move",
                name: "move_target",
                summary: "Pin a target to a poller; without `poller`, withdraw the pin",
                gives: Gives::Json(200, schema::<api::Moved>),
                read: |parts| {
                    let body = parts.body()?;
                    call(Call::MoveTarget { group: group(parts), body, operation_id: None })
                },
            },
        ),
        row(
            ADMIN,
            None,
            Some(schema::<api::CordonPoller>),
            Row {
                method: Method::POST,
                path: "/v1/polling/{group}/cordon",
                name: "cordon_poller",
                summary: "Cordon a poller: it hands over its targets and gets no new ones",
                gives: cordoned,
                read: |parts| {
                    let body = parts.body()?;
                    call(Call::CordonPoller { group: group(parts), body, operation_id: None })
                },
            },
        ),
        row(
            ADMIN,
            None,
            Some(schema::<api::CordonPoller>),
            Row {
                method: Method::POST,
                path: "/v1/polling/{group}/uncordon",
                name: "uncordon_poller",
                summary: "Uncordon a poller: it gets targets again",
                gives: cordoned,
                read: |parts| {
                    let body = parts.body()?;
                    call(Call::UncordonPoller { group: group(parts), body, operation_id: None })
                },
            },
        ),
    ]
}
