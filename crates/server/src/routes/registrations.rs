//! Routes of mDNS registrations and discovery, and the other spellings they are known by.

use super::{ADMIN, Gives, HOLD, Parts, READ, Route, SchemaOf, Wanted, call, fields, schema};
use http::Method;
use tenure_api::{self as api, Error};
use tenure_faces::{Call, Scope};

const GROUP: &str = "mDNS registrations";
const OPERATORS: &str = "mDNS registrations, for operators";

/// Another path for a route.
pub(crate) struct Alias {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Method and path of the route.
    pub(crate) of: (Method, &'static str),
}

struct Row {
    method: Method,
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    gives: Gives,
    read: fn(&Parts<'_>) -> Result<Wanted, Error>,
}

fn row(group: &'static str, scope: Option<Scope>, body: Option<SchemaOf>, row: Row) -> Route {
    let Row { method, path, name, summary, gives, read } = row;
    Route { method, path, name, summary, group, scope, query: None, body, gives, read }
}

pub(super) fn routes() -> Vec<Route> {
    let mut routes = registrants();
    routes.extend(discovery());
    routes.extend(operators());
    routes
}

fn registrants() -> Vec<Route> {
    vec![
        row(
            GROUP,
            HOLD,
            Some(schema::<api::Register>),
            Row {
                method: Method::POST,
                path: "/v1/mdns/services",
                name: "register",
                summary: "Advertise a service until its heartbeats stop",
                gives: Gives::Json(201, schema::<api::Registered>),
                read: |parts| call(Call::Register(parts.body()?)),
            },
        ),
        Route {
            query: Some(fields::<api::UnregisterQuery>),
            ..row(
                GROUP,
                HOLD,
                None,
                Row {
                    method: Method::DELETE,
                    path: "/v1/mdns/services/{id}",
                    name: "unregister",
                    summary: "End a registration; the daemon sends a goodbye packet",
                    gives: Gives::Json(200, schema::<api::Unregistered>),
                    read: |parts| {
                        let api::UnregisterQuery { epoch } = parts.query()?;
                        let id = parts.param("id");
                        call(match epoch {
                            Some(epoch) => Call::UnregisterEpoch(id, epoch),
                            None => Call::Unregister(id),
                        })
                    },
                },
            )
        },
        row(
            GROUP,
            HOLD,
            Some(schema::<api::RegistrationHeartbeat>),
            Row {
                method: Method::PUT,
                path: "/v1/mdns/services/{id}/heartbeat",
                name: "heartbeat_registration",
                summary: "Renew a registration; 404 means that it has ended",
                gives: Gives::Json(200, schema::<api::RegistrationRenewed>),
                read: |parts| call(Call::HeartbeatRegistration(parts.param("id"), parts.body()?)),
            },
        ),
    ]
}

fn discovery() -> Vec<Route> {
    let look = |row_of: Row, query: SchemaOf| Route { query: Some(query), ..row(GROUP, READ, None, row_of) };
    vec![
        look(
            Row {
                method: Method::GET,
                path: "/v1/mdns/browse",
                name: "browse",
                summary: "Browse: follow the services of a type as server-sent events; without `type`, the service types",
                gives: Gives::Sightings(schema::<api::Browsed>),
                read: |parts| Ok(Wanted::Browse { query: parts.query()?, whole: true }),
            },
            fields::<api::BrowseQuery>,
        ),
        look(
            Row {
                method: Method::GET,
                path: "/v1/mdns/events",
                name: "subscribe",
                summary: "Follow all events of a type (found, resolved, removed) as server-sent events",
                gives: Gives::Sightings(schema::<api::DiscoveryEvent>),
                read: |parts| Ok(Wanted::Browse { query: parts.query()?, whole: false }),
            },
            fields::<api::BrowseQuery>,
        ),
        look(
            Row {
                method: Method::GET,
                path: "/v1/mdns/resolve",
                name: "resolve",
                summary: "Resolve a service to its addresses, within 5 s",
                gives: Gives::Json(200, schema::<api::Resolved>),
                read: |parts| call(Call::Resolve(parts.query()?)),
            },
            fields::<api::ResolveQuery>,
        ),
    ]
}

fn operators() -> Vec<Route> {
    let operator = |row_of: Row| row(OPERATORS, ADMIN, None, row_of);
    vec![
        operator(Row {
            method: Method::GET,
            path: "/v1/mdns/admin/status",
            name: "registration_status",
            summary: "Show the status of mDNS and the number of registrations",
            gives: Gives::Json(200, schema::<api::DaemonStatus>),
            read: |_| call(Call::RegistrationStatus),
        }),
        operator(Row {
            method: Method::GET,
            path: "/v1/mdns/admin/registrations",
            name: "list_registrations",
            summary: "List registrations by name, with liveness and time left",
            gives: Gives::Json(200, schema::<Vec<api::AdminRegistration>>),
            read: |_| call(Call::Registrations),
        }),
        operator(Row {
            method: Method::GET,
            path: "/v1/mdns/admin/registrations/{id}",
            name: "inspect_registration",
            summary: "Show a registration by its id or a unique prefix of at least two characters",
            gives: Gives::Json(200, schema::<api::AdminRegistration>),
            read: |parts| call(Call::InspectRegistration(parts.param("id"))),
        }),
        operator(Row {
            method: Method::DELETE,
            path: "/v1/mdns/admin/registrations/{id}",
            name: "end_registration",
            summary: "End any registration",
            gives: Gives::Json(200, schema::<api::Unregistered>),
            read: |parts| call(Call::EndRegistration(parts.param("id"))),
        }),
        operator(Row {
            method: Method::POST,
            path: "/v1/mdns/admin/registrations/{id}/drain",
            name: "drain_registration",
            summary: "Drain a registration: it ends after its grace unless it is revived",
            gives: Gives::Json(200, schema::<api::RegistrationDrained>),
            read: |parts| call(Call::DrainRegistration(parts.param("id"))),
        }),
        operator(Row {
            method: Method::POST,
            path: "/v1/mdns/admin/registrations/{id}/revive",
            name: "revive_registration",
            summary: "Revive a registration: withdraw a drain",
            gives: Gives::Json(200, schema::<api::RegistrationRevived>),
            read: |parts| call(Call::ReviveRegistration(parts.param("id"))),
        }),
    ]
}

/// Other spellings of the same routes.
pub(crate) fn aliases() -> Vec<Alias> {
    let alias = |method: Method, path: &'static str, of_method: Method, of: &'static str| Alias {
        method,
        path,
        of: (of_method, of),
    };
    let same = |method: Method, path: &'static str, of: &'static str| alias(method.clone(), path, method, of);
    const ONE: &str = "/v1/mdns/admin/registrations/{id}";
    const DRAIN: &str = "/v1/mdns/admin/registrations/{id}/drain";
    const REVIVE: &str = "/v1/mdns/admin/registrations/{id}/revive";
    vec![
        same(Method::GET, "/v1/admin/status", "/v1/mdns/admin/status"),
        same(Method::GET, "/v1/admin/registrations", "/v1/mdns/admin/registrations"),
        same(Method::GET, "/v1/admin/registrations/{id}", ONE),
        same(Method::DELETE, "/v1/admin/registrations/{id}", ONE),
        same(Method::POST, "/v1/admin/registrations/{id}/drain", DRAIN),
        same(Method::POST, "/v1/admin/registrations/{id}/revive", REVIVE),
        same(Method::PUT, "/v1/mdns/heartbeat/{id}", "/v1/mdns/services/{id}/heartbeat"),
        same(Method::GET, "/v1/mdns/admin/ls", "/v1/mdns/admin/registrations"),
        same(Method::GET, "/v1/mdns/admin/inspect/{id}", ONE),
        same(Method::POST, "/v1/mdns/admin/drain/{id}", DRAIN),
        same(Method::POST, "/v1/mdns/admin/revive/{id}", REVIVE),
        same(Method::DELETE, "/v1/mdns/admin/unregister/{id}", ONE),
        alias(Method::POST, "/v1/mdns/admin/unregister/{id}", Method::DELETE, ONE),
        same(Method::GET, "/v1/nodes", "/v1/pollers"),
    ]
}
