//! The OpenAPI document is valid, and the daemon does what it says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::daemon::Served;
use crate::daemon::Daemon;

/// A program of the environment that `cargo xtask test` makes.
fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin").join(name);
    assert!(path.exists(), "{name} is missing; `cargo xtask test` installs what the tests need");
    path
}

/// Runs a program to its end and shows what it said if it failed.
#[track_caller]
fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&said));
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json")
}

#[test]
fn the_daemon_serves_the_document_that_is_committed() {
    let served: Value = Served::start().http().get("/openapi.json").json();
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(committed()).unwrap()).unwrap();
    assert!(served == committed, "docs/reference/openapi.json is another one; run `cargo xtask fix`");
}

#[test]
fn the_document_is_valid_openapi() {
    run(Command::new(program("openapi-spec-validator")).arg("--schema").arg("3.1").arg(committed()));
}

#[test]
fn every_error_and_event_is_in_the_document() {
    let document: Value = serde_json::from_str(&std::fs::read_to_string(committed()).unwrap()).unwrap();
    let text = document.to_string();
    for code in tenure_api::ErrorCode::ALL {
        assert!(text.contains(code.as_str()), "{code}");
    }
    let events = &document["paths"]["/v1/events"]["get"]["responses"]["200"]["content"];
    assert!(events["text/event-stream"].is_object());
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(
                operation["summary"].is_string() && operation["operationId"].is_string(),
                "{method} {path}"
            );
        }
    }
}

/// Asks a daemon of its own as the document says one may ask, and holds the answers against the document.
#[track_caller]
fn conforming(selection: &[&str]) -> Served {
    let mut daemon = Daemon::prepared(&[]).with_variable("TENURE_SESSIONS_POOLS", "tuner=1000");
    daemon.start_again();
    let daemon = Served::from(daemon);
    let directory = TempDir::new().unwrap();
    let checks =
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
    run(Command::new(program("schemathesis"))
        .arg("run")
        .arg(format!("http://{}/openapi.json", daemon.address()))
        .args(["--checks", checks])
        .args(["--max-examples", "20", "--seed", "1"])
        .args(selection)
        // With two workers the interpreter's own parser fails now and then.
        .args(["--request-timeout", "20", "--max-redirects", "0", "--workers", "1", "--no-color"])
        .env("SCHEMATHESIS_HOOKS", "schemathesis_hooks")
        .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/wire"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(directory.path()));
    daemon
}

/// Where services and sessions are asked for.
const BASES: [&str; 2] = ["/v1/mdns/", "/api/v3/"];

/// Routes of services and sessions that were carried out at least once, as the daemon counted them.
fn carried_out(daemon: &Served) -> BTreeSet<String> {
    let text = daemon.http().get("/metrics").text();
    let begins = BASES.map(|base| format!("tenure_http_requests_total{{route=\"{base}"));
    let calls = text.lines().filter(|line| begins.iter().any(|begin| line.starts_with(begin)));
    let good = calls.filter(|line| line.contains("status=\"20"));
    good.map(|line| {
        let mut words = line.split('"');
        let (route, method) = (words.nth(1).unwrap(), words.nth(1).unwrap());
        format!("{method} {route}")
    })
    .collect()
}

const STREAMS: [&str; 2] = ["/v1/mdns/browse", "/v1/mdns/events"];

/// The stream of one session lasts as long as the session.
const OF_SESSION: &str = "/api/v3/sessions/{session_id}/events";

#[test]
fn the_daemon_does_what_the_document_says() {
    // One ends the daemon, the others do not end.
    let without = [&["/v1/shutdown", "/v1/events", OF_SESSION][..], &STREAMS].concat();
    let mut selection = vec!["--phases", "coverage,fuzzing"];
    selection.extend(without.iter().flat_map(|path| ["--exclude-path", path]));
    let daemon = conforming(&selection);
    let carried_out = carried_out(&daemon);
    let paths = daemon.get("/openapi.json")["paths"].as_object().unwrap().clone();
    let is_asked = |path: &str| BASES.iter().any(|base| path.starts_with(base)) && !without.contains(&path);
    for (path, methods) in paths.iter().filter(|(path, _)| is_asked(path)) {
        for method in methods.as_object().unwrap().keys() {
            let call = format!("{} {path}", method.to_uppercase());
            assert!(carried_out.contains(&call), "{call} was never carried out, only refused");
        }
    }
}

#[test]
fn streams_of_services_are_what_the_document_says() {
    let mut selection = vec!["--phases", "coverage"];
    selection.extend(STREAMS.iter().flat_map(|path| ["--include-path", path]));
    let daemon = conforming(&selection);
    assert_eq!(carried_out(&daemon), STREAMS.map(|path| format!("GET {path}")).into());
}
