//! Metrics. (Interface of the slice; the rest follows.)

use http::Method;
use tenure_engine::Status;

/// Requests over HTTP, counted.
#[derive(Default)]
pub struct HttpCounters {}

impl HttpCounters {
    /// Counts one.
    pub fn count(&self, _route: &str, _method: &Method, _status: u16, _took_ms: u64) {}
}

/// Everything as text.
#[must_use]
pub fn text(
    _status: &Status,
    _http: &HttpCounters,
    _snapshot_age_ms: Option<u64>,
    _recovery_secs: f64,
) -> String {
    String::new()
}
