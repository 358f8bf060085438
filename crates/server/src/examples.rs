//! An example of every operation, for the OpenAPI document and `docs/reference/http.md`. They were taken from a daemon
//! that ran; tests hold them against the table of routes and the schemas.

use serde::Deserialize;
use serde_json::Value;

/// One request and its answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Example {
    /// Name of the operation in the table of routes.
    pub(crate) operation: String,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) body: Option<Value>,
    pub(crate) status: u16,
    /// Text where the answer is not JSON; null where it is long or binary.
    pub(crate) answer: Value,
}

pub(crate) fn examples() -> Vec<Example> {
    serde_json::from_str(include_str!("examples.json")).expect("invariant: a test reads the examples")
}

#[cfg(test)]
mod tests;
