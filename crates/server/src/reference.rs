//! Pages of `docs/reference` that are generated from the tables of the daemon itself.

use crate::examples::{Example, examples};
use crate::routes::{Gives, Route, routes};
use serde_json::Value;
use std::fmt::Write;
use tenure_api::{ErrorCode, Retry};

/// The pages, each with its file name. `generated` is the first line of every page.
#[must_use]
pub fn reference_pages(generated: &str) -> Vec<(&'static str, String)> {
    vec![("errors.md", errors(generated)), ("http.md", http(generated))]
}

fn errors(generated: &str) -> String {
    let mut page = format!(
        "{generated}\n\n# Errors\n\n\
         Errors are alike on every transport. Codes are only ever added.\n\n\
         ```json\n{{\"error\": \"stale_epoch\", \"message\": \"stale epoch: the current epoch is 7\", \"hint\": \"…\",\n \
         \"docs\": \"/docs/errors#stale_epoch\", \"definite\": true, \"lost\": true, \"current\": 7}}\n```\n\n\
         | field | meaning |\n|---|---|\n\
         | `error` | the code |\n\
         | `message` | what failed, and why |\n\
         | `hint` | what to do; may be absent |\n\
         | `docs` | path of the daemon's own page about the code |\n\
         | `definite` | true: the request certainly had no effect |\n\
         | `lost` | true: the caller was the holder and has lost the lease |\n\
         | `retry_after_ms` | a retry may succeed after this time; absent: the same request gets the same answer |\n\n\
         More fields depend on the code: `blocking`, `current`, `limit`, `value`, `setting`, `remaining_ms`, …. Everything\n\
         under `/api/v3` answers the same as `application/problem+json` (RFC 9457): `code` is the code, `detail` the message.\n\n\
         *Retry* is the usual time after which a retry can succeed; `retry_after_ms` in the error is more exact.\n\n\
         | code | HTTP | exit | retry | definite | meaning | cause | fix |\n|---|---|---|---|---|---|---|---|\n"
    );
    for code in ErrorCode::ALL {
        let retry = match code.retry() {
            Retry::Never => "no".to_owned(),
            Retry::AfterMs(0) => "at once".to_owned(),
            Retry::AfterMs(ms) => tenure_history::duration(ms),
        };
        let _ = writeln!(
            page,
            "| <a id=\"{code}\"></a>`{code}` | {} | {} | {retry} | {} | {} | {} | {} |",
            code.http_status(),
            code.exit_code(),
            if code.is_definite() { "yes" } else { "no" },
            code.meaning().trim_end_matches('.'),
            code.cause(),
            code.fix(),
        );
    }
    page
}

fn http(generated: &str) -> String {
    let mut page = format!(
        "{generated}\n\n# HTTP\n\n\
         Every operation with an example: the request as `curl` sends it, and the answer of a daemon. The fields of every\n\
         object are in [openapi.json](openapi.json), which the daemon serves at `/openapi.json` and, for reading, at `/docs`;\n\
         errors are in [errors.md](errors.md).\n\n\
         - A daemon that requires credentials accepts `Authorization: Bearer TOKEN`. *Scope* is the scope that the token needs.\n  \
           A daemon without a token file answers 401 to a token.\n\
         - `Idempotency-Key: TEXT`, or `operation_id` in the body, makes a retry of a change harmless: it is carried out once.\n\
         - Names with slashes are written in a path as they are, or with `%2F`.\n\
         - Reads take `?consistency=stale` (a follower of a cluster answers from its local log) and `?min_lsn=N` (the answer\n  \
           waits until position N is applied).\n\
         - Times are RFC 3339 in UTC; durations are in the unit that the name of the field ends with.\n\
         - `kind` of a session is what keeps it alive: `by_hand` (heartbeats that the client sends itself: every session that\n  \
           was opened with `POST /v1/sessions`), `connection` (an open socket) or `stdin` (an open standard input).\n\
         - A lease and a session have `ttl_ms` 90000 and `grace_ms` 30000 by default, also those of\n  \
           `tenure lease acquire`; `tenure run` and `tenure poll run`, which renew by themselves, use 30 s and no grace.\n"
    );
    let (routes, examples) = (routes(), examples());
    let mut group = "";
    for route in &routes {
        if route.group != group {
            group = route.group;
            let _ = write!(page, "\n## {group}\n");
        }
        if let Some(example) = examples.iter().find(|example| example.operation == route.name) {
            operation(&mut page, route, example);
        }
    }
    page
}

fn operation(page: &mut String, route: &Route, example: &Example) {
    let scope = route.scope.map(|scope| format!(" Scope `{}`.", scope.as_str())).unwrap_or_default();
    let path = route.path.replace("{*", "{");
    let _ = write!(page, "\n### {} {path}\n\n{}.{scope}\n\n```sh\ncurl", route.method, route.summary);
    let stream = matches!(route.gives, Gives::Events | Gives::Sightings(_) | Gives::SlotSessionEvents(_));
    if stream {
        page.push_str(" -N");
    }
    if route.method != http::Method::GET && !(route.method == http::Method::POST && example.body.is_some()) {
        let _ = write!(page, " -X {}", route.method);
    }
    let url = format!("http://127.0.0.1:5641{}", example.path);
    let quoted = if url.contains(['?', '&', '%']) { format!("'{url}'") } else { url };
    let _ = write!(page, " {quoted}");
    if let Some(body) = &example.body {
        let _ = write!(page, " \\\n  -d '{}'", body.to_string().replace('\'', "'\\''"));
    }
    page.push_str("\n```\n\n");
    match (&example.answer, route.gives) {
        (Value::Null, Gives::Media(media)) => {
            let _ = writeln!(page, "Answers {} with `{media}`.", example.status);
        }
        (Value::String(text), _) => {
            let _ = write!(page, "```text\n{}\n```\n", text.trim_end());
        }
        (answer, _) => {
            let shown = serde_json::to_string_pretty(answer).expect("invariant: JSON can be written");
            let _ = write!(page, "```json\n{shown}\n```\n");
        }
    }
}
