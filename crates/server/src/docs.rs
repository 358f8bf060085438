//! The OpenAPI document as a page for reading: plain HTML, no script, made once at start.

use serde_json::Value;
use std::fmt::Write;
use tenure_api::{ErrorCode, Retry};

/// How the page looks; served beside it, so that no style is inline.
pub(crate) const STYLE: &str = include_str!("docs.css");

/// The page for an address without a route.
pub(crate) const NO_SUCH_PAGE: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Not found · Tenure</title>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <link rel=\"stylesheet\" href=\"/assets/docs.css\"></head><body><header><a class=\"brand\" href=\"/\">Tenure</a></header><main>\
    <h1>Not found</h1><p>This daemon has no page at this address.</p>\
    <ul><li><a href=\"/\">Dashboard</a></li><li><a href=\"/docs\">HTTP API</a></li><li><a href=\"/docs/errors\">Errors</a></li></ul>\
    </main></body></html>\n";

/// The page.
pub(crate) fn page(document: &Value) -> String {
    let mut html = String::with_capacity(128 << 10);
    begin(&mut html, "Tenure API");
    let said = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let _ = write!(
        html,
        "<h1>Tenure API <small>{}</small></h1><p>{}</p>",
        text(said("/info/version")),
        text(said("/info/description"))
    );
    let groups = groups(document);
    html.push_str("<nav class=\"contents\"><ul>");
    for (group, operations) in &groups {
        let _ = write!(html, "<li><b>{}</b>", text(group));
        for operation in operations {
            let _ = write!(html, " <a href=\"#{0}\">{0}</a>", text(operation.name));
        }
        html.push_str("</li>");
    }
    html.push_str("<li><a href=\"#schemas\">Objects</a></li></ul></nav>");
    for (group, operations) in &groups {
        let _ = write!(html, "<h2>{}</h2>", text(group));
        for operation in operations {
            describe(&mut html, operation);
        }
    }
    html.push_str("<h2 id=\"schemas\">Objects</h2>");
    if let Some(schemas) = document.pointer("/components/schemas").and_then(Value::as_object) {
        for (name, schema) in schemas {
            describe_schema(&mut html, name, schema);
        }
    }
    html.push_str("</main></body></html>");
    html
}

/// The page of error codes: what `docs` of every error leads to.
pub(crate) fn errors_page() -> String {
    let mut html = String::with_capacity(64 << 10);
    begin(&mut html, "Tenure errors");
    html.push_str("<h1>Tenure errors</h1><p>Errors are alike over HTTP and over the socket.</p>");
    for code in ErrorCode::ALL {
        let retry = match code.retry() {
            Retry::Never => "no".to_owned(),
            Retry::AfterMs(0) => "at once".to_owned(),
            Retry::AfterMs(ms) => format!("after about {}", tenure_history::duration(ms)),
        };
        let _ = write!(
            html,
            "<section id=\"{code}\"><h3><code>{code}</code></h3><p>{}</p><table>\
             <tr><td>cause</td><td>{}</td></tr><tr><td>fix</td><td>{}</td></tr>\
             <tr><td>HTTP status</td><td>{}</td></tr><tr><td>exit code</td><td>{}</td></tr>\
             <tr><td>retry</td><td>{retry}</td></tr><tr><td>definite</td><td>{}</td></tr></table></section>",
            marked(code.meaning()),
            marked(code.cause()),
            marked(code.fix()),
            code.http_status(),
            code.exit_code(),
            if code.is_definite() { "yes" } else { "no" },
        );
    }
    html.push_str("</main></body></html>");
    html
}

/// The head and the navigation, which both pages have.
fn begin(html: &mut String, title: &str) {
    let _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"stylesheet\" href=\"/assets/docs.css\"></head><body>\
         <header><a class=\"brand\" href=\"/\">Tenure</a>\
         <nav><a href=\"/\">Dashboard</a> <a href=\"/docs\">API</a> <a href=\"/docs/errors\">Errors</a> \
         <a href=\"/openapi.json\">openapi.json</a></nav></header><main>"
    );
}

struct Operation<'a> {
    path: &'a str,
    method: &'a str,
    name: &'a str,
    value: &'a Value,
}

fn groups(document: &Value) -> Vec<(&str, Vec<Operation<'_>>)> {
    let mut groups: Vec<(&str, Vec<Operation<'_>>)> = Vec::new();
    let paths = document.get("paths").and_then(Value::as_object);
    for (path, operations) in paths.into_iter().flatten() {
        for (method, value) in operations.as_object().into_iter().flatten() {
            let group = value.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default();
            let name = value.get("operationId").and_then(Value::as_str).unwrap_or_default();
            let operation = Operation { path, method, name, value };
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, operations)) => operations.push(operation),
                None => groups.push((group, vec![operation])),
            }
        }
    }
    groups
}

fn describe(html: &mut String, operation: &Operation<'_>) {
    let said = |key: &str| operation.value.get(key).and_then(Value::as_str).unwrap_or_default();
    let _ = write!(
        html,
        "<section id=\"{}\"><h3><code class=\"method\">{}</code> <code>{}</code></h3><p>{}. {}</p>",
        text(operation.name),
        text(&operation.method.to_uppercase()),
        text(operation.path),
        text(said("summary")),
        marked(said("description"))
    );
    let parameters = operation.value.get("parameters").and_then(Value::as_array);
    if let Some(parameters) = parameters {
        html.push_str("<table><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr>");
        for parameter in parameters {
            let said = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
            let _ = write!(
                html,
                "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td></tr>",
                text(said("name")),
                text(said("in")),
                kind(&parameter["schema"]),
                marked(said("description"))
            );
        }
        html.push_str("</table>");
    }
    if let Some(body) = operation.value.pointer("/requestBody/content/application~1json/schema") {
        let _ = write!(html, "<p>Body: {}</p>", kind(body));
    }
    html.push_str("<table><tr><th>status</th><th>answer</th><th></th></tr>");
    for (status, answer) in operation.value["responses"].as_object().into_iter().flatten() {
        let schema = answer.pointer("/content/application~1json/schema").map(kind).unwrap_or_default();
        let described = answer.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = write!(html, "<tr><td>{status}</td><td>{schema}</td><td>{}</td></tr>", marked(described));
    }
    html.push_str("</table></section>");
}

fn describe_schema(html: &mut String, name: &str, schema: &Value) {
    let described = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let _ = write!(
        html,
        "<section id=\"schema-{0}\"><h3><code>{0}</code></h3><p>{1}</p>",
        text(name),
        marked(described)
    );
    if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        html.push_str("<table><tr><th>field</th><th>type</th><th></th></tr>");
        for (field, value) in fields {
            let described = value.get("description").and_then(Value::as_str).unwrap_or_default();
            let optional = if required.iter().any(|name| name == field) { "" } else { " <i>optional</i>" };
            let _ = write!(
                html,
                "<tr><td><code>{}</code>{optional}</td><td>{}</td><td>{}</td></tr>",
                text(field),
                kind(value),
                marked(described)
            );
        }
        html.push_str("</table>");
    } else {
        let _ = write!(html, "<p>{}</p>", kind(schema));
    }
    html.push_str("</section>");
}

/// A schema in a word or two.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#schema-{0}\">{0}</a>", text(name));
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(choice).and_then(Value::as_array) {
            let words: Vec<String> = choices.iter().map(kind).collect();
            return words.join(" or ");
        }
    }
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return format!("<code>{}</code>", text(word));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("<code>{}</code>", text(word)))
            .collect();
        return words.join(" or ");
    }
    let named = match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    };
    match schema.get("items") {
        Some(items) => format!("{} of {}", text(&named), kind(items)),
        None => text(&named),
    }
}

fn text(plain: &str) -> String {
    let mut escaped = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Text in which back-quoted words are code.
fn marked(plain: &str) -> String {
    let mut html = String::with_capacity(plain.len());
    for (index, part) in plain.split('`').enumerate() {
        if index % 2 == 1 {
            let _ = write!(html, "<code>{}</code>", text(part));
        } else {
            html.push_str(&text(part));
        }
    }
    html
}
