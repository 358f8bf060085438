//! The OpenAPI 3.1 document, from the table of routes and the wire types themselves.

use crate::examples::{Example, examples};
use crate::routes::{Gives, Route, STREAMS_BASE, routes};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use tenure_api::{Error, ErrorCode, Event, Problem};

/// The document.
#[must_use]
pub fn openapi() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let examples = examples();
    let mut paths = Map::new();
    for route in routes() {
        let example = examples.iter().find(|example| example.operation == route.name);
        let operation = operation(&route, &mut generator, example);
        let path = paths.entry(documented_path(route.path)).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(route.method.as_str().to_lowercase(), operation);
        }
    }
    generator.subschema_for::<Error>();
    generator.subschema_for::<Event>();
    let mut schemas = generator.take_definitions(true);
    schemas.sort_keys();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tenure",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable lease server: locks, leader election, semaphores and service registration that clean up after crashed clients.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "http://127.0.0.1:5641" }],
        "security": [{}, { "bearer": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// A name in a path may hold slashes; written `%2F` it fits one segment.
fn documented_path(path: &str) -> String {
    path.replace("{*", "{")
}

fn operation(route: &Route, generator: &mut SchemaGenerator, example: Option<&Example>) -> Value {
    let mut operation = Map::new();
    operation.insert("operationId".to_owned(), route.name.into());
    operation.insert("summary".to_owned(), route.summary.into());
    operation.insert("tags".to_owned(), json!([route.group]));
    if let Some(scope) = route.scope {
        operation.insert("description".to_owned(), format!("Needs scope `{}`.", scope.as_str()).into());
    } else {
        operation.insert("security".to_owned(), json!([]));
    }
    let parameters = parameters(route, generator);
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), parameters.into());
    }
    if let Some(body) = route.body {
        let schema = body(generator);
        let mut content = json!({ "application/json": { "schema": schema } });
        if let Some(body) = example.and_then(|example| example.body.as_ref()) {
            content["application/json"]["example"] = body.clone();
        }
        operation.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
    }
    let mut responses = responses(route, generator);
    if let Some(example) = example.filter(|example| !example.answer.is_null()) {
        let content = responses[example.status.to_string()]["content"].as_object_mut();
        for shown in content.into_iter().flat_map(Map::values_mut) {
            shown["example"] = example.answer.clone();
        }
    }
    operation.insert("responses".to_owned(), responses);
    Value::Object(operation)
}

fn parameters(route: &Route, generator: &mut SchemaGenerator) -> Vec<Value> {
    let mut parameters = Vec::new();
    for segment in route.path.split('/') {
        if let Some(name) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let name = name.trim_start_matches('*');
            let schema = match name {
                "session" => json!({ "type": "string", "pattern": "^(s|pipe|cli):[0-9a-f]{8}$" }),
                _ => json!({ "type": "string", "minLength": 1 }),
            };
            parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        }
    }
    if let Some(query) = route.query {
        let schema = query(generator).to_value();
        let fields = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, mut field) in fields {
            let description = field.as_object_mut().and_then(|field| field.remove("description"));
            parameters.push(json!({
                "name": name,
                "in": "query",
                "required": false,
                "description": description,
                "schema": not_null(field),
            }));
        }
    }
    if route.method != http::Method::GET {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "Idempotency key: a retry with the same key has no second effect. `operation_id` in the body takes precedence.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$" },
        }));
    }
    if matches!(route.gives, Gives::Events) {
        parameters.push(json!({
            "name": "Last-Event-ID",
            "in": "header",
            "required": false,
            "description": "Send events after the event with this id.",
            "schema": { "type": "string", "pattern": "^[!-~]+$" },
        }));
    }
    parameters
}

/// A parameter that is absent is absent, not null.
fn not_null(mut field: Value) -> Value {
    if let Some(kinds) = field.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [only] = &kinds[..] {
            field["type"] = only.clone();
        }
    }
    if let Some(choices) = field.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [only] = &choices[..] {
            return only.clone();
        }
    }
    if let Some(field) = field.as_object_mut() {
        field.remove("default");
    }
    field
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    let json = |schema| json!({ "application/json": { "schema": schema } });
    match route.gives {
        Gives::Json(status, schema) => {
            let content = json(schema(generator));
            responses.insert(status.to_string(), json!({ "description": "Done", "content": content }));
        }
        Gives::Created(schema) => {
            let schema = schema(generator);
            let content = json(schema.clone());
            responses.insert("201".to_owned(), json!({ "description": "Granted", "content": content }));
            let replayed = "The outcome of an earlier request with the same operation id";
            responses.insert("200".to_owned(), json!({ "description": replayed, "content": json(schema) }));
        }
        Gives::Events => {
            let event = generator.subschema_for::<Event>();
            let described =
                "Server-sent events: `event:` is the kind, `id:` is opaque, `data:` one JSON object";
            let content = json!({
                "text/event-stream": { "schema": { "type": "string" }, "x-event-schema": event }
            });
            responses.insert("200".to_owned(), json!({ "description": described, "content": content }));
        }
        Gives::Sightings(schema) => {
            let sighting = schema(generator);
            let described = "Server-sent events: `id:` is a rising number, `data:` one JSON object";
            let content = json!({
                "text/event-stream": { "schema": { "type": "string" }, "x-event-schema": sighting }
            });
            responses.insert("200".to_owned(), json!({ "description": described, "content": content }));
        }
        Gives::SlotSessionEvents(schema) => {
            let session = schema(generator);
            let described = "Server-sent events: `event:` is `snapshot`, `lease.renewed`, `lease.expiring`, \
                             `lease.expired` or `state`, `data:` the session";
            let content = json!({
                "text/event-stream": { "schema": { "type": "string" }, "x-event-schema": session }
            });
            responses.insert("200".to_owned(), json!({ "description": described, "content": content }));
        }
        Gives::Media(media) => {
            let schema = if media == "application/json" { json!({}) } else { json!({ "type": "string" }) };
            let content = json!({ media: { "schema": schema } });
            responses.insert("200".to_owned(), json!({ "description": "The content", "content": content }));
        }
    }
    let is_problem = route.path.starts_with(STREAMS_BASE);
    let (refusal, form) = match is_problem {
        true => (generator.subschema_for::<Problem>(), "application/problem+json"),
        false => (generator.subschema_for::<Error>(), "application/json"),
    };
    for status in statuses(route) {
        let codes = ErrorCode::ALL.iter().filter(|code| code.http_status() == status);
        let words: Vec<String> = codes.map(|code| format!("`{code}`")).collect();
        responses.insert(
            status.to_string(),
            json!({ "description": words.join(", "), "content": { form: { "schema": refusal.clone() } } }),
        );
    }
    Value::Object(responses)
}

/// Statuses of the error table that a route can answer.
fn statuses(route: &Route) -> Vec<u16> {
    let mut statuses: Vec<u16> = ErrorCode::ALL.iter().map(|code| code.http_status()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    if route.scope.is_none() {
        // Pages: a wrong Host, a request that cannot be read, an engine that does not answer. A code is a credential.
        let (names_something, takes_code) = (route.path.contains('{'), route.body.is_some());
        statuses.retain(|status| match status {
            400 | 403 | 413 | 503 => true,
            401 => takes_code,
            404 => names_something,
            _ => false,
        });
    } else {
        // No route answers 405: another method on its path does.
        statuses.retain(|status| *status != 405);
    }
    statuses
}
