//! What an answer means: the body of a call that was carried out, or why it was not.

use crate::error::CallError;
use crate::transport::Reply;
use bytes::Bytes;
use serde_json::Value;
use tenure_api::{Error, ErrorCode, Problem};

/// How much of an answer that is not understood is shown.
const SHOWN_BYTES: usize = 200;

/// The body of a call that was carried out, or why it was not.
pub(crate) fn accepted(reply: Reply) -> Result<Bytes, CallError> {
    if is_success(reply.status) {
        return Ok(reply.body);
    }
    match serde_json::from_slice(&reply.body) {
        Ok(error) => Err(CallError::Rejected(error)),
        Err(error) => match serde_json::from_slice(&reply.body) {
            Ok(problem) => Err(CallError::Rejected(of_problem(problem, reply.retry_after))),
            Err(_) => Err(unexpected(reply.status, &error.to_string(), &reply.body, false)),
        },
    }
}

/// What `/api/v3` says in its own form means the same as everywhere else.
fn of_problem(problem: Problem, retry_after: Option<u64>) -> Error {
    let Problem { code, detail, hint, docs, session_id, mut details, .. } = problem;
    let told = |key: &str| details.get(key).and_then(Value::as_bool);
    let definite = told("definite").unwrap_or(code.is_definite());
    let is_end =
        matches!(code, ErrorCode::SessionNotFound | ErrorCode::SessionGone | ErrorCode::SessionExpired);
    let lost = told("lost").unwrap_or(is_end);
    let retry_after_ms = details.remove("retry_after_ms").and_then(|ms| ms.as_u64());
    let retry_after_ms = retry_after_ms.or(retry_after.map(|secs| secs.saturating_mul(1_000)));
    details.retain(|key, _| key != "definite" && key != "lost");
    if let Some(session_id) = session_id {
        details.insert("session_id".to_owned(), session_id.into());
    }
    Error {
        code,
        message: detail,
        hint: hint.map(Into::into),
        docs: docs.into(),
        definite,
        lost,
        retry_after_ms,
        details: Box::new(details),
    }
}

/// A code of a newer daemon is not in our table, but what it means for the caller can still be read.
pub(crate) fn unexpected(status: u16, fault: &str, body: &[u8], carried_out: bool) -> CallError {
    let object: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let says = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or(false);
    let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned();
    CallError::Unexpected {
        status,
        message: format!("{fault}; it begins {shown:?}"),
        definite: !carried_out && says("definite"),
        lost: !carried_out && says("lost"),
    }
}

pub(crate) fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, retry_after: None, body: Bytes::from(body.to_owned()) }
    }

    #[test]
    fn a_refusal_has_the_code_of_the_table() {
        let body = r#"{"error":"stale_epoch","message":"m","definite":true,"lost":true,"current":4}"#;
        let error = accepted(reply(409, body)).expect_err("a refusal");
        assert_eq!(error.code(), Some(ErrorCode::StaleEpoch));
        assert!(error.lost());
    }

    #[test]
    fn a_problem_is_a_refusal_with_the_code_of_the_table() {
        let body = r#"{"type":"urn:tenure:error:no_capacity","title":"t","status":503,"code":"no_capacity",
            "detail":"all slots are taken","request_id":"r","session_id":null,"pool":"tuner","size":4}"#;
        let reply = Reply { retry_after: Some(7), ..reply(503, body) };
        let CallError::Rejected(error) = accepted(reply).expect_err("a refusal") else { panic!("a refusal") };
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::NoCapacity, "all slots are taken"));
        assert_eq!((error.retry_after_ms, error.lost), (Some(7_000), false));
        assert_eq!(error.details["pool"], "tuner");
        assert!(!error.details.contains_key("request_id"), "{:?}", error.details);
        let body = r#"{"type":"x","title":"t","status":410,"code":"session_expired","detail":"d","request_id":"r",
            "session_id":"5d0c","state":"stopped"}"#;
        let error = accepted(self::reply(410, body)).expect_err("a refusal");
        assert!(error.lost() && error.is_definite());
    }

    #[test]
    fn a_code_of_a_newer_daemon_keeps_its_meaning() {
        let body = r#"{"error":"from_the_future","message":"m","definite":true,"lost":true}"#;
        let error = accepted(reply(409, body)).expect_err("a refusal");
        assert!(matches!(error, CallError::Unexpected { status: 409, definite: true, lost: true, .. }));
        let error = accepted(reply(502, "<html>Bad Gateway")).expect_err("no daemon");
        assert!(matches!(error, CallError::Unexpected { status: 502, definite: false, lost: false, .. }));
    }
}
