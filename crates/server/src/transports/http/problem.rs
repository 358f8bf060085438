//! Errors as `application/problem+json` (RFC 9457), which everything under `/api/v3` answers.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_api::{Error, Problem};
use tenure_engine::host::read_clocks;

pub(super) const MEDIA: HeaderValue = HeaderValue::from_static("application/problem+json");
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id of a request that is taken over.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// The id that a request brought, or a new one.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let fits = |id: &&str| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let brought = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(fits);
    brought.map_or_else(
        // Different after a restart too.
        || format!("{:x}-{:x}", read_clocks().wall_ms, NEXT.fetch_add(1, Ordering::Relaxed)),
        str::to_owned,
    )
}

/// An error in that form.
pub(super) fn problem(error: &Error, request_id: String, params: &[(String, String)]) -> Problem {
    let mut details = (*error.details).clone();
    let told = details.remove("session_id").and_then(|id| id.as_str().map(str::to_owned));
    let asked = params.iter().find(|(name, _)| name == "session_id").map(|(_, id)| id.clone());
    if let Some(ms) = error.retry_after_ms {
        details.insert("retry_after_ms".to_owned(), Value::from(ms));
    }
    Problem {
        kind: format!("urn:tenure:error:{}", error.code),
        title: error.code.meaning().to_owned(),
        status: error.code.http_status(),
        code: error.code,
        detail: error.message.clone(),
        hint: error.hint.as_ref().map(ToString::to_string),
        docs: error.docs.to_string(),
        request_id,
        session_id: told.or(asked),
        details,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_api::ErrorCode;

    #[test]
    fn a_request_id_is_taken_over_where_it_is_plain() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_static(text));
            request_id(&headers)
        };
        assert_eq!(of("abc-1"), "abc-1");
        assert_ne!(of("two words"), "two words");
        assert_ne!(of(""), "");
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }

    #[test]
    fn a_problem_names_its_session_once() {
        let error =
            Error::new(ErrorCode::SessionGone, "over").with("session_id", "a").with("state", "stopped");
        let problem = problem(&error, "r".to_owned(), &[("session_id".to_owned(), "A".to_owned())]);
        let written = serde_json::to_value(&problem).expect("plain data");
        assert_eq!(written["session_id"], "a");
        assert_eq!((written["status"].clone(), written["code"].clone()), (410.into(), "session_gone".into()));
        assert_eq!(written["type"], "urn:tenure:error:session_gone");
        assert_eq!(written["state"], "stopped");
    }
}
