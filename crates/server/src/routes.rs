//! Every HTTP route, once: method, path, what it takes, what it gives, who may ask. The router, the OpenAPI
//! document, the pages at `/docs` and the metrics all read this table.

mod cluster;
mod polling;
mod registrations;
mod streams;

pub(crate) use registrations::aliases;
pub(crate) use streams::BASE as STREAMS_BASE;

use crate::auth::ForeignPages;
use crate::dashboard::{self, Asset};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tenure_api::{self as api, Error, ErrorCode};
use tenure_faces::{Call, Scope};

/// What a request wants.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Wanted {
    /// A call of an application.
    Call(Call),
    /// The stream of events.
    Events(api::EventsQuery),
    /// Services on the network: whole services, or every event.
    Browse { query: api::BrowseQuery, whole: bool },
    /// Events of one slot session.
    FollowStream(String),
    /// A backup.
    Backup,
    /// The status of the cluster.
    Cluster,
    /// Ask the leader to resign.
    StepDown,
    /// Replace the secret with which nodes authenticate each other.
    RotateSecret,
    /// Remove a node from the cluster.
    ForgetNode(String),
    /// Stop the daemon.
    ShutDown(api::ShutDown),
    /// The principal of the caller.
    Caller,
    /// A code that signs a browser in.
    SignIn,
    /// Exchange such a code for a cookie.
    Redeem(api::RedeemCode),
    /// End that cookie.
    SignOut,
    /// A page or a file.
    Page(Page),
}

/// Pages for people and tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Page {
    Health,
    Ready,
    Metrics,
    OpenApi,
    Docs,
    DocsErrors,
    DocsStyle,
    /// The dashboard.
    Home,
    /// The page where a browser signs in.
    SignIn,
    /// A file of the dashboard.
    Asset(&'static Asset),
}

/// Parts of a request that the table reads.
pub(crate) struct Parts<'a> {
    pub(crate) params: &'a [(String, String)],
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
}

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Name of the operation in the document.
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// Group in the document.
    pub(crate) group: &'static str,
    /// `None`: the route needs no credential.
    pub(crate) scope: Option<Scope>,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    pub(crate) gives: Gives,
    pub(crate) read: fn(&Parts<'_>) -> Result<Wanted, Error>,
}

impl Route {
    /// Pages of other origins may link to the daemon's pages and load their files.
    pub(crate) fn foreign_pages(&self) -> ForeignPages {
        match self.path {
            "/" | "/docs" | "/docs/errors" | "/sign-in" => ForeignPages::Link,
            path if path.starts_with("/assets/") => ForeignPages::Load,
            _ => ForeignPages::Nothing,
        }
    }

    /// Load balancers send probes under names of their own.
    pub(crate) fn any_host(&self) -> bool {
        matches!(self.path, "/healthz" | "/readyz")
    }
}

/// What a route answers if there is no error.
#[derive(Clone, Copy)]
pub(crate) enum Gives {
    /// JSON with this status.
    Json(u16, SchemaOf),
    /// JSON; 201 when new, 200 for the outcome of an earlier request.
    Created(SchemaOf),
    /// The stream of events.
    Events,
    /// Services on the network, as a stream of events.
    Sightings(SchemaOf),
    /// Events of one slot session.
    SlotSessionEvents(SchemaOf),
    /// Another media type.
    Media(&'static str),
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields)]
struct PageQuery {
    /// Maximum number of entries in a page, 1 to 1000 [default: 100].
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u64>,
    /// `next_cursor` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The whole schema of a query, whose fields become parameters.
fn fields<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

impl Parts<'_> {
    fn param(&self, name: &str) -> String {
        let found = self.params.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_urlencoded::from_str(self.query)
            .map_err(|error| Error::new(ErrorCode::InvalidRequest, format!("in the query: {error}")))
    }

    /// An empty body means the same as an empty object.
    fn body<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let bytes = match self.body.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => b"{}",
            // Fields without their names would be guessed from their order.
            Some(b'[') => {
                return Err(Error::new(ErrorCode::InvalidRequest, "the body must be a JSON object"));
            }
            Some(_) => self.body,
        };
        serde_json::from_slice(bytes).map_err(|error| {
            let code = match error.classify() {
                serde_json::error::Category::Data => ErrorCode::InvalidRequest,
                serde_json::error::Category::Io
                | serde_json::error::Category::Syntax
                | serde_json::error::Category::Eof => ErrorCode::ParseError,
            };
            Error::new(code, format!("in the body: {error}"))
        })
    }
}

fn call(call: Call) -> Result<Wanted, Error> {
    Ok(Wanted::Call(call))
}

const LEASES: &str = "Leases";
const SESSIONS: &str = "Sessions";
const RESOURCES: &str = "Resources and pools";
const STORY: &str = "Events and history";
const DAEMON: &str = "The daemon";

const HOLD: Option<Scope> = Some(Scope::Hold);
const READ: Option<Scope> = Some(Scope::Read);
const ADMIN: Option<Scope> = Some(Scope::Admin);

/// A call about one lease, with a body.
macro_rules! lease_call {
    ($path:literal, $name:literal, $scope:expr, $body:ty, $call:expr, $summary:literal) => {
        Route {
            method: Method::POST,
            path: concat!("/v1/leases/{lease_id}/", $path),
            name: $name,
            summary: $summary,
            group: LEASES,
            scope: $scope,
            query: None,
            body: Some(schema::<$body>),
            gives: Gives::Json(200, schema::<api::Lease>),
            read: |parts| call($call(parts.param("lease_id"), parts.body()?)),
        }
    };
}

/// A call that is its path, or its path and a query.
macro_rules! look {
    ($path:literal, $name:literal, $group:expr, $answer:ty, $summary:literal, $read:expr) => {
        look!($path, $name, $group, $answer, $summary, None, $read)
    };
    ($path:literal, $name:literal, $group:expr, $answer:ty, $summary:literal, $query:expr, $read:expr) => {
        Route {
            method: Method::GET,
            path: $path,
            name: $name,
            summary: $summary,
            group: $group,
            scope: READ,
            query: $query,
            body: None,
            gives: Gives::Json(200, schema::<$answer>),
            read: $read,
        }
    };
}

fn page(path: &'static str, name: &'static str, summary: &'static str, media: &'static str) -> Route {
    Route {
        method: Method::GET,
        path,
        name,
        summary,
        group: DAEMON,
        scope: None,
        query: None,
        body: None,
        gives: Gives::Media(media),
        read: |_| Ok(Wanted::Page(Page::Home)),
    }
}

/// The table.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = leases();
    routes.extend(sessions());
    routes.extend(resources());
    routes.extend(registrations::routes());
    routes.extend(streams::routes());
    routes.extend(polling::routes());
    routes.extend(cluster::routes());
    routes.extend(story());
    routes.extend(daemon());
    routes
}

fn leases() -> Vec<Route> {
    vec![
        Route {
            method: Method::POST,
            path: "/v1/leases",
            name: "acquire",
            summary: "Take one or several resources, all or none; wait for them with `wait_ms`",
            group: LEASES,
            scope: HOLD,
            query: None,
            body: Some(schema::<api::Acquire>),
            gives: Gives::Created(schema::<api::Lease>),
            read: |parts| call(Call::Acquire(parts.body()?)),
        },
        look!(
            "/v1/leases",
            "list_leases",
            LEASES,
            api::LeaseList,
            "List live leases in order of id",
            Some(fields::<api::LeaseQuery>),
            |parts| call(Call::List(parts.query()?))
        ),
        look!(
            "/v1/leases/{lease_id}",
            "inspect",
            LEASES,
            api::Lease,
            "Show a lease and the holders that wait for it",
            |parts| call(Call::Inspect(parts.param("lease_id")))
        ),
        lease_call!(
            "activate",
            "activate",
            HOLD,
            api::HolderCall,
            Call::Activate,
            "Activate a reserved lease"
        ),
        Route {
            method: Method::POST,
            path: "/v1/leases/{lease_id}/heartbeat",
            name: "heartbeat",
            summary: "Renew a lease; `valid_ms` is how long the holder may act",
            group: LEASES,
            scope: HOLD,
            query: None,
            body: Some(schema::<api::HolderCall>),
            gives: Gives::Json(200, schema::<api::Renewed>),
            read: |parts| call(Call::Heartbeat(parts.param("lease_id"), parts.body()?)),
        },
        lease_call!("release", "release", HOLD, api::HolderCall, Call::Release, "Release a lease"),
        lease_call!("amend", "amend", HOLD, api::Amend, Call::Amend, "Replace the attachment of a lease"),
        lease_call!(
            "acknowledge",
            "acknowledge",
            HOLD,
            api::HolderCall,
            Call::Acknowledge,
            "Confirm that the holder of a revoked lease has stopped"
        ),
        lease_call!(
            "rebind",
            "rebind",
            HOLD,
            api::Rebind,
            Call::Rebind,
            "Change holder, session or attachment of a lease"
        ),
        lease_call!(
            "handover",
            "handover",
            HOLD,
            api::Handover,
            Call::Handover,
            "Hand a lease over to another session in one step"
        ),
        lease_call!(
            "revoke",
            "revoke",
            ADMIN,
            api::OperatorCall,
            Call::Revoke,
            "Revoke a lease; its resources are free once the former holder cannot act any more"
        ),
        lease_call!(
            "reclaim",
            "reclaim",
            ADMIN,
            api::OperatorCall,
            Call::Reclaim,
            "Free the resources of a revoked lease"
        ),
        lease_call!(
            "drain",
            "drain",
            ADMIN,
            api::OperatorCall,
            Call::Drain,
            "Drain a lease: it ends after its grace unless it is revived"
        ),
        lease_call!(
            "revive",
            "revive",
            ADMIN,
            api::OperatorCall,
            Call::Revive,
            "Revive a lease: withdraw a drain"
        ),
    ]
}

fn sessions() -> Vec<Route> {
    vec![
        Route {
            method: Method::POST,
            path: "/v1/sessions",
            name: "open_session",
            summary: "Open a session: one heartbeat renews all its leases",
            group: SESSIONS,
            scope: HOLD,
            query: None,
            body: Some(schema::<api::OpenSession>),
            gives: Gives::Json(201, schema::<api::Session>),
            read: |parts| call(Call::OpenSession(parts.body()?)),
        },
        look!(
            "/v1/sessions",
            "list_sessions",
            SESSIONS,
            api::SessionList,
            "List sessions in order of id",
            Some(fields::<PageQuery>),
            |parts| {
                let PageQuery { limit, cursor } = parts.query()?;
                call(Call::Sessions { limit, cursor })
            }
        ),
        look!("/v1/sessions/{session}", "show_session", SESSIONS, api::Session, "Show a session", |parts| {
            call(Call::Session(parts.param("session")))
        }),
        Route {
            method: Method::DELETE,
            path: "/v1/sessions/{session}",
            name: "close_session",
            summary: "Close a session and release its leases",
            group: SESSIONS,
            scope: HOLD,
            query: None,
            body: None,
            gives: Gives::Json(200, schema::<api::SessionEnd>),
            read: |parts| call(Call::CloseSession(parts.param("session"))),
        },
        Route {
            method: Method::POST,
            path: "/v1/sessions/{session}/heartbeat",
            name: "heartbeat_session",
            summary: "Renew a session; the answer lists the leases that it lost",
            group: SESSIONS,
            scope: HOLD,
            query: None,
            body: Some(schema::<api::SessionHeartbeat>),
            gives: Gives::Json(200, schema::<api::SessionRenewed>),
            read: |parts| call(Call::SessionHeartbeat(parts.param("session"), parts.body()?)),
        },
    ]
}

fn resources() -> Vec<Route> {
    vec![
        Route {
            method: Method::GET,
            path: "/v1/resources",
            name: "list_resources",
            summary: "List held resources; with `name`, show that one, held or free",
            group: RESOURCES,
            scope: READ,
            query: Some(fields::<api::ResourceQuery>),
            body: None,
            gives: Gives::Json(200, |generator| {
                let list = generator.subschema_for::<api::ResourceList>();
                let one = generator.subschema_for::<api::Resource>();
                schemars::json_schema!({ "anyOf": [list, one] })
            }),
            read: |parts| {
                let query: api::ResourceQuery = parts.query()?;
                match query.name {
                    Some(name) if query.prefix.is_none() => call(Call::Resource(name)),
                    Some(_) => {
                        Err(Error::new(ErrorCode::InvalidRequest, "name and prefix cannot both be given"))
                    }
                    None => call(Call::Resources(query)),
                }
            },
        },
        look!(
            "/v1/resources/{*name}",
            "show_resource",
            RESOURCES,
            api::Resource,
            "Show a resource: its holder, its fencing token and the holders in its queue",
            |parts| call(Call::Resource(parts.param("name")))
        ),
        Route {
            method: Method::PUT,
            path: "/v1/pools/{*name}",
            name: "define_pool",
            summary: "Create or resize a pool",
            group: RESOURCES,
            scope: ADMIN,
            query: None,
            body: Some(schema::<api::PoolSize>),
            gives: Gives::Json(200, schema::<api::Pool>),
            read: |parts| call(Call::DefinePool(parts.param("name"), parts.body()?)),
        },
        look!("/v1/pools/{*name}", "show_pool", RESOURCES, api::Pool, "Show a pool", |parts| call(
            Call::Pool(parts.param("name"))
        )),
        look!("/v1/pools", "list_pools", RESOURCES, api::PoolList, "List pools", |_| call(Call::Pools)),
        Route {
            method: Method::DELETE,
            path: "/v1/pools/{*name}",
            name: "remove_pool",
            summary: "Remove a pool",
            group: RESOURCES,
            scope: ADMIN,
            query: Some(fields::<api::RemovePool>),
            body: None,
            gives: Gives::Json(200, schema::<api::Pool>),
            read: |parts| call(Call::RemovePool(parts.param("name"), parts.query()?)),
        },
        Route {
            method: Method::POST,
            path: "/v1/check",
            name: "check",
            summary: "Check whether a fencing token or an epoch is current, for protected systems",
            group: RESOURCES,
            scope: READ,
            query: None,
            body: Some(schema::<api::Check>),
            gives: Gives::Json(200, schema::<api::CheckAnswer>),
            read: |parts| call(Call::Check(parts.body()?)),
        },
    ]
}

fn story() -> Vec<Route> {
    vec![
        Route {
            method: Method::GET,
            path: "/v1/events",
            name: "events",
            summary: "Follow events as server-sent events, from a position or only new ones",
            group: STORY,
            scope: READ,
            query: Some(fields::<api::EventsQuery>),
            body: None,
            gives: Gives::Events,
            read: |parts| Ok(Wanted::Events(parts.query()?)),
        },
        look!(
            "/v1/why",
            "why",
            STORY,
            api::Story,
            "Explain what happened to a lease, a resource or a session",
            Some(fields::<api::WhyQuery>),
            |parts| call(Call::Why(parts.query()?))
        ),
    ]
}

fn daemon() -> Vec<Route> {
    vec![
        look!("/v1/status", "status", DAEMON, api::Status, "Show the status of the daemon", |_| call(
            Call::Status
        )),
        look!(
            "/v1/caller",
            "caller",
            DAEMON,
            api::Caller,
            "Show the principal and scope of the caller",
            |_| Ok(Wanted::Caller)
        ),
        Route {
            method: Method::POST,
            path: "/v1/sign_in",
            name: "sign_in",
            summary: "Make a code that signs one browser in, once, as the caller",
            group: DAEMON,
            scope: READ,
            query: None,
            body: None,
            gives: Gives::Json(200, schema::<api::SignIn>),
            read: |_| Ok(Wanted::SignIn),
        },
        Route {
            method: Method::POST,
            path: "/v1/sign_in/redeem",
            name: "redeem",
            summary: "Exchange a code for a cookie and a page value; only for the page at `/sign-in`",
            group: DAEMON,
            scope: None,
            query: None,
            body: Some(schema::<api::RedeemCode>),
            gives: Gives::Json(200, schema::<api::SignedIn>),
            read: |parts| Ok(Wanted::Redeem(parts.body()?)),
        },
        Route {
            method: Method::POST,
            path: "/v1/sign_out",
            name: "sign_out",
            summary: "Sign a browser out",
            group: DAEMON,
            scope: READ,
            query: None,
            body: None,
            gives: Gives::Json(200, schema::<api::SignedOut>),
            read: |_| Ok(Wanted::SignOut),
        },
        Route {
            method: Method::POST,
            path: "/v1/shutdown",
            name: "shut_down",
            summary: "Stop the daemon, or restart it with `restart`; leases stay unless `end_all` is set, and services stay advertised with `advertised: \"keep\"`",
            group: DAEMON,
            scope: ADMIN,
            query: None,
            body: Some(schema::<api::ShutDown>),
            gives: Gives::Json(200, schema::<api::ShuttingDown>),
            read: |parts| Ok(Wanted::ShutDown(parts.body()?)),
        },
        Route {
            method: Method::POST,
            path: "/v1/breaker/reset",
            name: "reset_breaker",
            summary: "End mass-expiry protection: leases expire on time again",
            group: DAEMON,
            scope: ADMIN,
            query: None,
            body: None,
            gives: Gives::Json(200, schema::<api::BreakerReset>),
            read: |_| call(Call::ResetBreaker),
        },
        Route {
            method: Method::POST,
            path: "/v1/backup",
            name: "backup",
            summary: "Download a backup of log and snapshots as a tar archive",
            group: DAEMON,
            scope: ADMIN,
            query: None,
            body: None,
            gives: Gives::Media("application/x-tar"),
            read: |_| Ok(Wanted::Backup),
        },
        Route {
            read: |_| Ok(Wanted::Page(Page::SignIn)),
            ..page(
                "/sign-in",
                "sign_in_page",
                "Show the page where a browser signs in with a code of `tenure open`",
                "text/html",
            )
        },
        Route {
            read: |_| Ok(Wanted::Page(Page::Health)),
            ..page("/healthz", "health", "Answer `OK` while the process runs", "text/plain")
        },
        Route {
            read: |_| Ok(Wanted::Page(Page::Ready)),
            ..page(
                "/readyz",
                "ready",
                "Answer `OK` while the engine answers; a second line says that grants are rejected because the disk is nearly full",
                "text/plain",
            )
        },
        Route {
            scope: READ,
            read: |_| Ok(Wanted::Page(Page::Metrics)),
            ..page("/metrics", "metrics", "Show metrics in the format of Prometheus", "text/plain")
        },
        Route {
            read: |_| Ok(Wanted::Page(Page::OpenApi)),
            ..page("/openapi.json", "openapi", "Show this document", "application/json")
        },
        Route {
            read: |_| Ok(Wanted::Page(Page::Docs)),
            ..page("/docs", "docs", "Show this document as a page", "text/html")
        },
        Route {
            read: |_| Ok(Wanted::Page(Page::DocsErrors)),
            ..page("/docs/errors", "docs_errors", "Show every error code with cause and fix", "text/html")
        },
        Route {
            read: |_| Ok(Wanted::Page(Page::DocsStyle)),
            ..page("/assets/docs.css", "docs_style", "Style sheet of the pages", "text/css")
        },
        Route { read: |_| Ok(Wanted::Page(Page::Home)), ..page("/", "home", "The dashboard", "text/html") },
        Route {
            read: |parts| match dashboard::asset(&parts.param("name")) {
                Some(asset) => Ok(Wanted::Page(Page::Asset(asset))),
                None => Err(Error::new(ErrorCode::NotFound, "the dashboard has no such file")),
            },
            ..page("/assets/{*name}", "asset", "A file of the dashboard", "*/*")
        },
    ]
}
