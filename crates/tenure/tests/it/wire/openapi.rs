//! The OpenAPI document is valid, and the daemon does what it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::daemon::Served;

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
fn conforms(selection: &[&str], examples: &str) {
    let daemon = Served::start();
    let directory = TempDir::new().unwrap();
    let checks =
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
    run(Command::new(program("schemathesis"))
        .arg("run")
        .arg(format!("http://{}/openapi.json", daemon.address()))
        .args(["--checks", checks])
        .args(["--phases", "coverage,fuzzing", "--max-examples", examples, "--seed", "1"])
        .args(selection)
        .args(["--request-timeout", "20", "--max-redirects", "0", "--workers", "2", "--no-color"])
        .env("SCHEMATHESIS_HOOKS", "schemathesis_hooks")
        .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/wire"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(directory.path()));
}

#[test]
fn the_daemon_does_what_the_document_says() {
    // One ends the daemon, the others do not end.
    let without = ["/v1/shutdown", "/v1/events", "/v1/mdns/browse", "/v1/mdns/events"];
    conforms(&without.map(|path| ["--exclude-path", path]).concat(), "20");
}

#[test]
fn streams_of_services_are_what_the_document_says() {
    let streams = ["/v1/mdns/browse", "/v1/mdns/events"];
    conforms(&streams.map(|path| ["--include-path", path]).concat(), "3");
}
