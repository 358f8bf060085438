//! Every operation has an example, which the daemon would take, and whose answer fits the schema.

use super::examples;
use crate::openapi;
use crate::routes::routes;
use crate::transports::http::understand;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn every_operation_has_one_example() {
    let mut shown = BTreeSet::new();
    for example in examples() {
        assert!(shown.insert(example.operation.clone()), "{} has two examples", example.operation);
    }
    let named: BTreeSet<String> = routes().iter().map(|route| route.name.to_owned()).collect();
    assert_eq!(shown, named);
}

#[test]
fn the_daemon_takes_every_example() {
    let routes = routes();
    for example in examples() {
        let route = routes.iter().find(|route| route.name == example.operation).expect("a route");
        let body = example.body.map(|body| body.to_string()).unwrap_or_default();
        let taken = understand(route.method.as_str(), &example.path, body.as_bytes());
        assert!(taken.is_ok(), "{}: {:?}", example.operation, taken.err());
    }
}

#[test]
fn every_answer_fits_its_schema() {
    let document = openapi();
    let routes = routes();
    for example in examples() {
        let route = routes.iter().find(|route| route.name == example.operation).expect("a route");
        let (path, method) = (route.path.replace("{*", "{"), route.method.as_str().to_lowercase());
        let answer = &document["paths"][path][method]["responses"][example.status.to_string()];
        assert!(answer.is_object(), "{}: status {}", example.operation, example.status);
        let schema = &answer["content"]["application/json"]["schema"];
        if schema.is_object() && !example.answer.is_null() {
            fits(&document, schema, &example.answer, &example.operation);
        }
    }
}

/// As much of JSON Schema as the document uses.
#[track_caller]
fn fits(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document.pointer(name.trim_start_matches('#')).expect("a schema");
        return fits(document, schema, value, at);
    }
    for choices in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[choices].as_array() {
            let is_null = |choice: &Value| choice["type"] == "null";
            let fitting = choices.iter().filter(|choice| is_null(choice) == value.is_null());
            let found = fitting.map(|choice| std::panic::catch_unwind(|| fits(document, choice, value, at)));
            assert!(found.into_iter().any(|found| found.is_ok()), "{at}: {value} fits no choice");
        }
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allows = |named: &Value| *named == kind || (kind == "integer" && *named == "number");
    match &schema["type"] {
        Value::Array(named) => assert!(named.iter().any(allows), "{at} is {kind}"),
        Value::Null => {}
        named => assert!(allows(named), "{at} is {kind}, not {named}"),
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for value in values {
            fits(document, items, value, &format!("{at}[]"));
        }
    }
    if let Some(object) = value.as_object() {
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(object.contains_key(required.as_str().expect("a name")), "{at} lacks {required}");
        }
        for (key, value) in object {
            if let Some(schema) = schema["properties"].get(key) {
                fits(document, schema, value, &format!("{at}.{key}"));
            } else if schema["properties"].is_object() {
                let open = schema.get("additionalProperties").is_some_and(|more| *more != false);
                assert!(open || schema.get("oneOf").is_some(), "{at} has {key}, which no schema knows");
            }
        }
    }
}
